package main

import (
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

func init() {
	register(Peer{
		Name:    "ristretto",
		Module:  "github.com/dgraph-io/ristretto/v2",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Bounds: true},
		Note:    "bounded; may drop new entries and shows the others a little later; compares no keys, only 128 bits of hash",
		Strings: newRistretto[string, *Payload],
		Uint64s: newRistretto[uint64, uint64],
	})
}

type ristrettoKey interface {
	comparable
	ristretto.Key
}

type ristrettoCache[K ristrettoKey, V any] struct{ cache *ristretto.Cache[K, V] }

func newRistretto[K ristrettoKey, V any](cfg Config) (Cache[K, V], error) {
	if cfg.Sliding {
		return nil, unable(noSliding)
	}
	room := int64(cfg.room())
	o := &ristretto.Config[K, V]{
		NumCounters:        10 * room, // as recommended; three bytes each
		MaxCost:            room,      // each entry costs 1
		IgnoreInternalCost: true,
		BufferItems:        64, // as recommended
	}
	if cfg.Tick > 0 {
		// The least there is. Entries are put into buckets of five seconds regardless.
		o.TtlTickerDurationInSec = int64(wholeSeconds(cfg.Tick) / time.Second)
	}
	if cfg.OnExpired != nil {
		expired, ok := cfg.OnExpired.(func(uint64, V))
		if !ok {
			return nil, unable("tells of an expired string only its hash")
		}
		o.OnEvict = func(i *ristretto.Item[V]) {
			// A uint64 is its own hash. What is evicted for room or cleared by Close comes
			// without its deadline or, from the buffer, before it.
			if !i.Expiration.IsZero() && !time.Now().Before(i.Expiration) {
				expired(i.Key, i.Value)
			}
		}
	}
	cache, err := ristretto.NewCache(o)
	if err != nil {
		return nil, err
	}
	return ristrettoCache[K, V]{cache}, nil
}

func (c ristrettoCache[K, V]) Get(key K) (V, bool) { return c.cache.Get(key) }

func (c ristrettoCache[K, V]) Set(key K, value V, ttl time.Duration) {
	c.cache.SetWithTTL(key, value, 1, ttl)
}

func (c ristrettoCache[K, V]) Delete(key K) { c.cache.Del(key) }

// Len is what the entries cost, at 1 each.
func (c ristrettoCache[K, V]) Len() int { return int(c.cache.MaxCost() - c.cache.RemainingCost()) }

// Settle waits until all Sets that were not dropped can be seen.
func (c ristrettoCache[K, V]) Settle() { c.cache.Wait() }

func (c ristrettoCache[K, V]) Close() { c.cache.Close() }
