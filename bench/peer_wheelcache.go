package main

import (
	"time"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

func init() {
	register(Peer{
		Name:    "wheelcache",
		Module:  "github.com/wheelcache/wheelcache",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true},
		Note:    "default options",
		Strings: newWheelcache[string, *Payload],
		Uint64s: newWheelcache[uint64, uint64],
	})
}

type wheelcacheCache[K comparable, V any] struct{ cache *wheelcache.Cache[K, V] }

func newWheelcache[K comparable, V any](cfg Config) (Cache[K, V], error) {
	o := wheelcache.Options[K, V]{Tick: cfg.Tick, Capacity: cfg.ifSized()}
	if cfg.Sliding {
		o.Expiry = expiry.AfterAccess[K, V](cfg.TTL)
	}
	if expired := onExpired[K, V](cfg); expired != nil {
		o.OnRemoval = func(r wheelcache.Removal[K, V]) {
			if r.Cause == wheelcache.Expired {
				expired(r.Key, r.Value)
			}
		}
	}
	cache, err := wheelcache.New(o)
	if err != nil {
		return nil, err
	}
	return wheelcacheCache[K, V]{cache}, nil
}

func (c wheelcacheCache[K, V]) Get(key K) (V, bool) { return c.cache.Get(key) }
func (c wheelcacheCache[K, V]) Set(key K, value V, ttl time.Duration) {
	c.cache.SetTTL(key, value, ttl)
}
func (c wheelcacheCache[K, V]) Delete(key K) { c.cache.Delete(key) }
func (c wheelcacheCache[K, V]) Len() int     { return c.cache.Len() }
func (c wheelcacheCache[K, V]) Close()       { _ = c.cache.Close() }
