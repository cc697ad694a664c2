package main

import (
	"cmp"
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

func init() {
	traits := Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Loads: true}
	bounds := traits
	bounds.Bounds = true
	const module = "github.com/maypok86/otter/v2"
	register(Peer{
		Name: "otter", Module: module, Traits: bounds,
		Note:    "unbounded unless a bound is asked for; a TTL other than the default takes a second call",
		Strings: newOtter[string, *Payload],
		Uint64s: newOtter[uint64, uint64],
	})
	register(Peer{
		Name: "otter-coarse", Module: module, Traits: traits,
		Note:    "otter with its CoarseClock of 1 ms, which wakes up as often",
		Strings: newOtterCoarse[string, *Payload],
		Uint64s: newOtterCoarse[uint64, uint64],
	})
	register(Peer{
		Name: "otter-bounded", Module: module, Traits: traits,
		Note:    "otter with MaximumSize, so it also keeps track of which entries to evict",
		Strings: newOtterBounded[string, *Payload],
		Uint64s: newOtterBounded[uint64, uint64],
	})
}

// otterCache gives all entries the TTL of its Config, by ExpiryWriting, for which a Set is one
// operation and a Get calls no calculator. An entry with another TTL is changed afterwards with
// SetExpiresAfter, as otter documents it: Set itself takes no TTL. A calculator could find
// the TTL in the value, in one operation that costs as much as a plain Set; but then every
// entry would be larger and every Get slower, for all workloads.
type otterCache[K comparable, V any] struct {
	cache *otter.Cache[K, V]
	ttl   time.Duration
	clock *otter.CoarseClock // nil if the clock is the default one
}

func newOtter[K comparable, V any](cfg Config) (Cache[K, V], error) {
	return openOtter(cfg, otterOptions[K, V](cfg), nil)
}

func newOtterCoarse[K comparable, V any](cfg Config) (Cache[K, V], error) {
	o := otterOptions[K, V](cfg)
	clock := otter.NewCoarseClock(cmp.Or(cfg.Tick, time.Millisecond))
	o.Clock = clock
	return openOtter(cfg, o, clock)
}

func newOtterBounded[K comparable, V any](cfg Config) (Cache[K, V], error) {
	o := otterOptions[K, V](cfg)
	o.MaximumSize = cfg.room()
	return openOtter(cfg, o, nil)
}

func otterOptions[K comparable, V any](cfg Config) *otter.Options[K, V] {
	o := &otter.Options[K, V]{
		InitialCapacity:  cfg.ifSized(),
		MaximumSize:      cfg.bound(),
		ExpiryCalculator: otter.ExpiryWriting[K, V](cfg.TTL),
	}
	if cfg.Sliding {
		o.ExpiryCalculator = otter.ExpiryAccessing[K, V](cfg.TTL)
	}
	if cfg.RefreshAfter > 0 {
		o.RefreshCalculator = otter.RefreshWriting[K, V](cfg.RefreshAfter)
	}
	if expired := onExpired[K, V](cfg); expired != nil {
		o.OnDeletion = func(e otter.DeletionEvent[K, V]) {
			if e.Cause == otter.CauseExpiration {
				expired(e.Key, e.Value)
			}
		}
	}
	return o
}

func openOtter[K comparable, V any](cfg Config, o *otter.Options[K, V], clock *otter.CoarseClock) (Cache[K, V], error) {
	cache, err := otter.New(o)
	if err != nil {
		return nil, err
	}
	c := &otterCache[K, V]{cache, cfg.TTL, clock}
	if load := loaderOf[K, V](cfg); load != nil {
		return &otterLoading[K, V]{c, otter.LoaderFunc[K, V](load)}, nil
	}
	return c, nil
}

func (c *otterCache[K, V]) Get(key K) (V, bool) { return c.cache.GetIfPresent(key) }

func (c *otterCache[K, V]) Set(key K, value V, ttl time.Duration) {
	c.cache.Set(key, value)
	if ttl != c.ttl {
		c.cache.SetExpiresAfter(key, ttl)
	}
}

func (c *otterCache[K, V]) Delete(key K) { c.cache.Invalidate(key) }
func (c *otterCache[K, V]) Len() int     { return c.cache.EstimatedSize() }

// Settle has the policy and the wheel see all Sets.
func (c *otterCache[K, V]) Settle() { c.cache.CleanUp() }

func (c *otterCache[K, V]) Close() {
	c.cache.StopAllGoroutines()
	if c.clock != nil {
		c.clock.Stop()
	}
}

type otterLoading[K comparable, V any] struct {
	*otterCache[K, V]
	load otter.Loader[K, V]
}

func (c *otterLoading[K, V]) Get(key K) (V, bool) { return c.cache.GetIfPresent(key) }

func (c *otterLoading[K, V]) GetOrLoad(ctx context.Context, key K) (V, error) {
	return c.cache.Get(ctx, key, c.load)
}
