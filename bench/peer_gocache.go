package main

import (
	"cmp"
	"time"

	"github.com/patrickmn/go-cache"
)

func init() {
	register(Peer{
		Name:    "gocache",
		Module:  "github.com/patrickmn/go-cache",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true},
		Note:    "string keys only; scans all entries every second",
		Strings: newGocache[*Payload],
	})
}

type gocacheCache[V any] struct{ cache *cache.Cache }

func newGocache[V any](cfg Config) (Cache[string, V], error) {
	if cfg.Sliding {
		return nil, unable(noSliding)
	}
	c := cache.NewFrom(cfg.TTL, cmp.Or(cfg.Tick, time.Second), make(map[string]cache.Item, cfg.ifSized()))
	if expired := onExpired[string, V](cfg); expired != nil {
		// Deleted entries are reported too, and nothing tells them from expired ones: a
		// workload that asks for OnExpired must not delete.
		c.OnEvicted(func(key string, value any) { expired(key, value.(V)) })
	}
	return gocacheCache[V]{c}, nil
}

func (c gocacheCache[V]) Get(key string) (value V, ok bool) {
	v, ok := c.cache.Get(key)
	if !ok {
		return value, false
	}
	return v.(V), true
}

func (c gocacheCache[V]) Set(key string, value V, ttl time.Duration) { c.cache.Set(key, value, ttl) }
func (c gocacheCache[V]) Delete(key string)                          { c.cache.Delete(key) }
func (c gocacheCache[V]) Len() int                                   { return c.cache.ItemCount() }

// Close drops the entries; the janitor ends when the cache is collected.
func (c gocacheCache[V]) Close() { c.cache.Flush() }
