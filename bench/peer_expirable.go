package main

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
)

func init() {
	register(Peer{
		Name:    "expirable",
		Module:  "github.com/hashicorp/golang-lru/v2",
		Traits:  Traits{Expires: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Bounds: true},
		Note:    "unbounded unless a bound is asked for; one TTL for all entries, reclaimed every 1/100 of it",
		Strings: newExpirable[string, *Payload],
		Uint64s: newExpirable[uint64, uint64],
	})
}

type expirableCache[K comparable, V any] struct {
	cache  *expirable.LRU[K, V]
	closed *atomic.Bool
}

func newExpirable[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if cfg.Sliding {
		return nil, unable(noSliding)
	}
	closed := new(atomic.Bool)
	var evicted expirable.EvictCallback[K, V]
	if expired := onExpired[K, V](cfg); expired != nil {
		// Deleted entries are reported too, and nothing tells them from expired ones: a
		// workload that asks for OnExpired must not delete.
		evicted = func(key K, value V) {
			if !closed.Load() {
				expired(key, value)
			}
		}
	}
	return expirableCache[K, V]{expirable.NewLRU(cfg.bound(), evicted, cfg.TTL), closed}, nil
}

func (c expirableCache[K, V]) Get(key K) (V, bool)                 { return c.cache.Get(key) }
func (c expirableCache[K, V]) Set(key K, value V, _ time.Duration) { c.cache.Add(key, value) }
func (c expirableCache[K, V]) Delete(key K)                        { c.cache.Remove(key) }
func (c expirableCache[K, V]) Len() int                            { return c.cache.Len() }

// Close drops the entries. The janitor and the emptied tables stay: there is no way to
// stop it.
func (c expirableCache[K, V]) Close() {
	c.closed.Store(true)
	c.cache.Purge()
}
