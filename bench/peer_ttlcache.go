package main

import (
	"context"
	"time"

	"github.com/jellydator/ttlcache/v3"
)

func init() {
	register(Peer{
		Name:    "ttlcache",
		Module:  "github.com/jellydator/ttlcache/v3",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Loads: true, LoadsByGet: true},
		Note:    "reclaims from a heap with one timer; loads with its SuppressedLoader, which gets no context",
		Strings: newTTLCache[string, *Payload],
		Uint64s: newTTLCache[uint64, uint64],
	})
}

type ttlCache[K comparable, V any] struct {
	cache   *ttlcache.Cache[K, V]
	stopped chan struct{} // closed when Start has returned
}

func newTTLCache[K comparable, V any](cfg Config) (Cache[K, V], error) {
	options := []ttlcache.Option[K, V]{ttlcache.WithTTL[K, V](cfg.TTL)}
	if !cfg.Sliding {
		options = append(options, ttlcache.WithDisableTouchOnHit[K, V]())
	}
	load := loaderOf[K, V](cfg)
	if load != nil {
		if err := cfg.refreshless(); err != nil {
			return nil, err
		}
		loader := ttlcache.LoaderFunc[K, V](func(c *ttlcache.Cache[K, V], key K) *ttlcache.Item[K, V] {
			value, err := load(context.Background(), key)
			if err != nil {
				return nil
			}
			return c.Set(key, value, ttlcache.DefaultTTL)
		})
		options = append(options, ttlcache.WithLoader(ttlcache.NewSuppressedLoader(loader, nil)))
	}
	c := &ttlCache[K, V]{ttlcache.New(options...), make(chan struct{})}
	if expired := onExpired[K, V](cfg); expired != nil {
		c.cache.OnEviction(func(_ context.Context, why ttlcache.EvictionReason, item *ttlcache.Item[K, V]) {
			if why == ttlcache.EvictionReasonExpired {
				expired(item.Key(), item.Value())
			}
		})
	}
	go func() {
		defer close(c.stopped)
		c.cache.Start()
	}()
	if load != nil {
		return ttlLoading[K, V]{c}, nil
	}
	return c, nil
}

// ttlLoading has its loader since it was made: every Get loads.
type ttlLoading[K comparable, V any] struct{ *ttlCache[K, V] }

func (c ttlLoading[K, V]) GetOrLoad(_ context.Context, key K) (value V, err error) {
	item := c.cache.Get(key)
	if item == nil {
		return value, errNoValue
	}
	return item.Value(), nil
}

func (c *ttlCache[K, V]) Get(key K) (value V, ok bool) {
	item := c.cache.Get(key)
	if item == nil {
		return value, false
	}
	return item.Value(), true
}

func (c *ttlCache[K, V]) Set(key K, value V, ttl time.Duration) { c.cache.Set(key, value, ttl) }
func (c *ttlCache[K, V]) Delete(key K)                          { c.cache.Delete(key) }

// Len is by the counters, since the cache's own Len leaves out what has expired but is still held.
func (c *ttlCache[K, V]) Len() int {
	m := c.cache.Metrics()
	return int(m.Insertions - m.Evictions) // deleted and expired ones count as evicted
}

// Close waits for the janitor. Stop does nothing if Start has not got going yet, so it
// is asked until it has.
func (c *ttlCache[K, V]) Close() {
	for {
		c.cache.Stop()
		select {
		case <-c.stopped:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
