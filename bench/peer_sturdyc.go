package main

import (
	"context"
	"time"

	"github.com/viccon/sturdyc"
)

func init() {
	register(Peer{
		Name:    "sturdyc",
		Module:  "github.com/viccon/sturdyc",
		Traits:  Traits{Expires: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Loads: true},
		Note:    "bounded; string keys only; one TTL for all entries; scans each of its 10 shards once per TTL",
		Strings: newSturdyc[*Payload],
	})
}

type sturdycCache[V any] struct{ cache *sturdyc.Client[V] }

func newSturdyc[V any](cfg Config) (Cache[string, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	const shards, evict = 10, 10 // as its documentation has them; evict is in percent
	var options []sturdyc.Option
	if cfg.Tick > 0 {
		options = append(options, sturdyc.WithEvictionInterval(max(cfg.Tick/shards, 1))) // of one shard each
	}
	if cfg.RefreshAfter > 0 {
		// They are spread over a quarter of what is left, as wheelcache's. A load of which
		// nothing is heard is tried again after 10 ms, as in its documentation.
		latest := cfg.RefreshAfter + (cfg.TTL-cfg.RefreshAfter)/4
		options = append(options, sturdyc.WithEarlyRefreshes(cfg.RefreshAfter, latest, cfg.TTL, 10*time.Millisecond))
	}
	c := sturdycCache[V]{sturdyc.New[V](max(cfg.roomIn(shards), shards), shards, cfg.TTL, evict, options...)}
	if load := loaderOf[string, V](cfg); load != nil {
		return &sturdycLoading[V]{c, load}, nil
	}
	return c, nil
}

func (c sturdycCache[V]) Get(key string) (V, bool)                 { return c.cache.Get(key) }
func (c sturdycCache[V]) Set(key string, value V, _ time.Duration) { c.cache.Set(key, value) }
func (c sturdycCache[V]) Delete(key string)                        { c.cache.Delete(key) }
func (c sturdycCache[V]) Len() int                                 { return c.cache.Size() }

// Close drops the entries. The janitor and the emptied shards stay: there is no way to stop it.
func (c sturdycCache[V]) Close() {
	for _, key := range c.cache.ScanKeys() {
		c.cache.Delete(key)
	}
}

// sturdycLoading gives each call a function that knows its key, since the cache does not
// tell it.
type sturdycLoading[V any] struct {
	sturdycCache[V]
	load func(context.Context, string) (V, error)
}

func (c *sturdycLoading[V]) Get(key string) (V, bool) { return c.cache.Get(key) }

func (c *sturdycLoading[V]) GetOrLoad(ctx context.Context, key string) (V, error) {
	return c.cache.GetOrFetch(ctx, key, func(ctx context.Context) (V, error) { return c.load(ctx, key) })
}
