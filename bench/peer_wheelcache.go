package main

import (
	"context"
	"time"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

func init() {
	register(Peer{
		Name:    "wheelcache",
		Module:  "github.com/wheelcache/wheelcache",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Loads: true, Bounds: true},
		Note:    "default options",
		Strings: newWheelcache[string, *Payload],
		Uint64s: newWheelcache[uint64, uint64],
	})
}

type wheelcacheCache[K comparable, V any] struct{ cache *wheelcache.Cache[K, V] }

func newWheelcache[K comparable, V any](cfg Config) (Cache[K, V], error) {
	o := wheelcache.Options[K, V]{TTL: cfg.TTL, Tick: cfg.Tick, Capacity: cfg.ifSized(), MaxEntries: cfg.bound()}
	if cfg.Sliding {
		o.TTL, o.Expiry = 0, expiry.AfterAccess[K, V](cfg.TTL)
	}
	if cfg.Load != nil {
		o.RefreshAfter = cfg.RefreshAfter
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
	c := wheelcacheCache[K, V]{cache}
	if load := loaderOf[K, V](cfg); load != nil {
		return &wheelcacheLoading[K, V]{c, load}, nil
	}
	return c, nil
}

func (c wheelcacheCache[K, V]) Get(key K) (V, bool) { return c.cache.Get(key) }
func (c wheelcacheCache[K, V]) Set(key K, value V, ttl time.Duration) {
	c.cache.SetTTL(key, value, ttl)
}
func (c wheelcacheCache[K, V]) Delete(key K) { c.cache.Delete(key) }
func (c wheelcacheCache[K, V]) Len() int     { return c.cache.Len() }
func (c wheelcacheCache[K, V]) Close()       { _ = c.cache.Close() }

// wheelcacheLoading has a Get of its own, so that it is as far away as GetOrLoad: the two
// are compared.
type wheelcacheLoading[K comparable, V any] struct {
	wheelcacheCache[K, V]
	load wheelcache.Loader[K, V]
}

func (c *wheelcacheLoading[K, V]) Get(key K) (V, bool) { return c.cache.Get(key) }

func (c *wheelcacheLoading[K, V]) GetOrLoad(ctx context.Context, key K) (V, error) {
	return c.cache.GetOrLoad(ctx, key, c.load)
}
