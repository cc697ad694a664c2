package main

import (
	"time"

	"github.com/viccon/sturdyc"
)

func init() {
	register(Peer{
		Name:    "sturdyc",
		Module:  "github.com/viccon/sturdyc",
		Traits:  Traits{Expires: true, Reclaims: true, Shared: true, Deletes: true, Counts: true},
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
	return sturdycCache[V]{sturdyc.New[V](max(cfg.roomIn(shards), shards), shards, cfg.TTL, evict, options...)}, nil
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
