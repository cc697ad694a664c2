package main

import (
	"cmp"
	"hash/maphash"
	"sync"
	"time"
)

func init() {
	traits := Traits{Expires: true, EachTTL: true, Shared: true, Deletes: true, Counts: true}
	register(Peer{
		Name:    "rwmutex",
		Floor:   true,
		Traits:  traits,
		Note:    "64 times map, RWMutex and time.Now; expired entries stay",
		Strings: newRWMutex[string, *Payload],
		Uint64s: newRWMutex[uint64, uint64],
	})
	traits.Reclaims = true
	register(Peer{
		Name:    "rwmutex-janitor",
		Floor:   true,
		Traits:  traits,
		Note:    "rwmutex that scans all entries every second, one shard after the other",
		Strings: newRWMutexJanitor[string, *Payload],
		Uint64s: newRWMutexJanitor[uint64, uint64],
	})
}

// rwmutexCache is what services write for themselves, by a good engineer: sharded, with
// each lock on a cache line of its own, and deadlines as plain numbers.
type rwmutexCache[K comparable, V any] struct {
	seed   maphash.Seed
	shards [64]rwmutexShard[K, V]

	stop, stopped chan struct{} // the janitor, if there is one
}

type rwmutexShard[K comparable, V any] struct {
	mu      sync.RWMutex
	entries map[K]timed[V]
	_       [32]byte
}

func newRWMutex[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if cfg.OnExpired != nil {
		return nil, unable(noReports)
	}
	return makeRWMutex[K, V](cfg).sliding(cfg), nil
}

func newRWMutexJanitor[K comparable, V any](cfg Config) (Cache[K, V], error) {
	c := makeRWMutex[K, V](cfg)
	c.stop, c.stopped = make(chan struct{}), make(chan struct{})
	go c.sweepEvery(cmp.Or(cfg.Tick, time.Second), onExpired[K, V](cfg))
	return c.sliding(cfg), nil
}

func makeRWMutex[K comparable, V any](cfg Config) *rwmutexCache[K, V] {
	c := &rwmutexCache[K, V]{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].entries = make(map[K]timed[V], cfg.ifSized()/len(c.shards))
	}
	return c
}

func (c *rwmutexCache[K, V]) sliding(cfg Config) Cache[K, V] {
	if cfg.Sliding {
		return &rwmutexSliding[K, V]{c, cfg.TTL}
	}
	return c
}

func (c *rwmutexCache[K, V]) index(key K) int {
	return int(maphash.Comparable(c.seed, key) % uint64(len(c.shards)))
}

func (c *rwmutexCache[K, V]) shard(key K) *rwmutexShard[K, V] { return &c.shards[c.index(key)] }

func (c *rwmutexCache[K, V]) Get(key K) (value V, ok bool) {
	s := c.shard(key)
	s.mu.RLock()
	e, ok := s.entries[key]
	s.mu.RUnlock()
	if !ok || time.Now().UnixNano() >= e.deadline {
		return value, false
	}
	return e.value, true
}

func (c *rwmutexCache[K, V]) Set(key K, value V, ttl time.Duration) {
	e := timed[V]{value, time.Now().Add(ttl).UnixNano()}
	s := c.shard(key)
	s.mu.Lock()
	s.entries[key] = e
	s.mu.Unlock()
}

func (c *rwmutexCache[K, V]) Delete(key K) {
	s := c.shard(key)
	s.mu.Lock()
	delete(s.entries, key)
	s.mu.Unlock()
}

func (c *rwmutexCache[K, V]) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		n += len(s.entries)
		s.mu.RUnlock()
	}
	return n
}

func (c *rwmutexCache[K, V]) Close() {
	if c.stop != nil {
		close(c.stop)
		<-c.stopped
	}
}

// sweepEvery removes what has expired, and reports it when the shard is unlocked.
func (c *rwmutexCache[K, V]) sweepEvery(d time.Duration, expired func(K, V)) {
	defer close(c.stopped)
	t := time.NewTicker(d)
	defer t.Stop()
	type entry struct {
		key   K
		value V
	}
	var gone []entry
	for {
		select {
		case <-t.C:
		case <-c.stop:
			return
		}
		for i := range c.shards {
			s := &c.shards[i]
			now := time.Now().UnixNano()
			s.mu.Lock()
			for key, e := range s.entries {
				if now < e.deadline {
					continue
				}
				delete(s.entries, key)
				if expired != nil {
					gone = append(gone, entry{key, e.value})
				}
			}
			s.mu.Unlock()
			for _, e := range gone {
				expired(e.key, e.value)
			}
			clear(gone)
			gone = gone[:0]
		}
	}
}

// rwmutexSliding restarts lifetimes in Get, which makes readers writers.
type rwmutexSliding[K comparable, V any] struct {
	*rwmutexCache[K, V]
	ttl time.Duration
}

func (c *rwmutexSliding[K, V]) Get(key K) (value V, ok bool) {
	now := time.Now().UnixNano()
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok || now >= e.deadline {
		return value, false
	}
	e.deadline = now + int64(c.ttl)
	s.entries[key] = e
	return e.value, true
}
