package main

import (
	"context"
	"time"

	"github.com/Yiling-J/theine-go"
)

func init() {
	register(Peer{
		Name:    "theine",
		Module:  "github.com/Yiling-J/theine-go",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Loads: true, LoadsByGet: true, Bounds: true},
		Note:    "bounded; reads the precise clock only for entries with less than 30 s to live; loads under the lock of a shard",
		Strings: newTheine[string, *Payload],
		Uint64s: newTheine[uint64, uint64],
	})
}

type theineCache[K comparable, V any] struct{ cache *theine.Cache[K, V] }

func newTheine[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if cfg.Sliding {
		return nil, unable(noSliding)
	}
	// Not UseEntryPool: it allocates less but, as documented, may mix up entries.
	b := theine.NewBuilder[K, V](int64(cfg.room()))
	if expired := onExpired[K, V](cfg); expired != nil {
		b.RemovalListener(func(key K, value V, why theine.RemoveReason) {
			if why == theine.EXPIRED {
				expired(key, value)
			}
		})
	}
	if load := loaderOf[K, V](cfg); load != nil {
		return newTheineLoading(cfg, b, load)
	}
	cache, err := b.Build()
	if err != nil {
		return nil, err
	}
	return theineCache[K, V]{cache}, nil
}

func (c theineCache[K, V]) Get(key K) (V, bool) { return c.cache.Get(key) }

func (c theineCache[K, V]) Set(key K, value V, ttl time.Duration) {
	c.cache.SetWithTTL(key, value, 1, ttl)
}

func (c theineCache[K, V]) Delete(key K) { c.cache.Delete(key) }
func (c theineCache[K, V]) Len() int     { return c.cache.Len() }
func (c theineCache[K, V]) Close()       { c.cache.Close() }

// Settle waits until the policy has seen all Sets.
func (c theineCache[K, V]) Settle() { c.cache.Wait() }

// theineLoading is another type of cache, which has no Get but the one that loads.
type theineLoading[K comparable, V any] struct {
	cache *theine.LoadingCache[K, V]
}

func newTheineLoading[K comparable, V any](cfg Config, b *theine.Builder[K, V], load func(context.Context, K) (V, error)) (Cache[K, V], error) {
	if err := cfg.refreshless(); err != nil {
		return nil, err
	}
	cache, err := b.Loading(func(ctx context.Context, key K) (theine.Loaded[V], error) {
		value, err := load(ctx, key)
		return theine.Loaded[V]{Value: value, Cost: 1, TTL: cfg.TTL}, err
	}).Build()
	if err != nil {
		return nil, err
	}
	return theineLoading[K, V]{cache}, nil
}

func (c theineLoading[K, V]) GetOrLoad(ctx context.Context, key K) (V, error) {
	return c.cache.Get(ctx, key)
}

func (c theineLoading[K, V]) Get(key K) (V, bool) {
	value, err := c.cache.Get(context.Background(), key)
	return value, err == nil
}

func (c theineLoading[K, V]) Set(key K, value V, ttl time.Duration) {
	c.cache.SetWithTTL(key, value, 1, ttl)
}

func (c theineLoading[K, V]) Delete(key K) { c.cache.Delete(key) }
func (c theineLoading[K, V]) Len() int     { return c.cache.Len() }
func (c theineLoading[K, V]) Close()       { c.cache.Close() }
func (c theineLoading[K, V]) Settle()      { c.cache.Wait() }
