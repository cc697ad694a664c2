package main

import "github.com/wheelcache/wheelcache"

func init() {
	register(Peer{Name: self, Note: "MaxEntries", New: newWheelcache})
}

type wheelcacheCache struct {
	*wheelcache.Cache[uint64, Value]
}

func newWheelcache(cfg Config) (Cache, error) {
	cache, err := wheelcache.New(wheelcache.Options[uint64, Value]{MaxEntries: cfg.Size})
	return wheelcacheCache{cache}, err
}

func (c wheelcacheCache) Set(key uint64, v Value) {
	if v.TTL == 0 {
		c.Cache.Set(key, v)
		return
	}
	c.SetTTL(key, v, v.TTL)
}

func (c wheelcacheCache) Close() { _ = c.Cache.Close() }
