package main

import (
	"hash/maphash"
	"sync"
	"time"
)

func init() {
	register(Peer{
		Name:    "fifo",
		Floor:   true,
		Traits:  Traits{Expires: true, EachTTL: true, Shared: true, Deletes: true, Counts: true, Bounds: true},
		Note:    "64 times map, Mutex, time.Now and a ring of keys, the oldest of which is evicted; expired entries stay until then",
		Strings: newFIFO[string, *Payload],
		Uint64s: newFIFO[uint64, uint64],
	})
}

// fifoCache is about the least that a bounded cache may be. It shows what maps alone cost when
// each Set inserts one key and deletes another. (A key that was deleted leaves its place vacant
// until the hand comes by.)
type fifoCache[K comparable, V any] struct {
	seed   maphash.Seed
	shards [64]fifoShard[K, V]
}

type fifoShard[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]fifoEntry[V]
	ring    []fifoPlace[K]
	most    int
	next    int // place of the next new key, which evicts whoever is there
	_       [8]byte
}

type fifoEntry[V any] struct {
	timed[V]
	place int
}

type fifoPlace[K comparable] struct {
	key   K
	taken bool
}

func newFIFO[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	c := &fifoCache[K, V]{seed: maphash.MakeSeed()}
	n := len(c.shards)
	most := max(cfg.Entries/n, 1)
	if !cfg.Bounded {
		most = cfg.roomIn(n) / n
	}
	for i := range c.shards {
		c.shards[i].entries = make(map[K]fifoEntry[V], cfg.ifSized()/n)
		c.shards[i].ring = make([]fifoPlace[K], 0, cfg.ifSized()/n)
		c.shards[i].most = most
	}
	return c, nil
}

func (c *fifoCache[K, V]) shard(key K) *fifoShard[K, V] {
	return &c.shards[maphash.Comparable(c.seed, key)%uint64(len(c.shards))]
}

func (c *fifoCache[K, V]) Get(key K) (value V, ok bool) {
	s := c.shard(key)
	s.mu.Lock()
	e, ok := s.entries[key]
	s.mu.Unlock()
	if !ok || time.Now().UnixNano() >= e.deadline {
		return value, false
	}
	return e.value, true
}

func (c *fifoCache[K, V]) Set(key K, value V, ttl time.Duration) {
	deadline := time.Now().Add(ttl).UnixNano()
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.entries[key]
	place := old.place
	if !ok {
		place = s.next
		if place == len(s.ring) {
			s.ring = append(s.ring, fifoPlace[K]{})
		}
		p := &s.ring[place]
		if p.taken {
			delete(s.entries, p.key)
		}
		*p = fifoPlace[K]{key, true}
		if s.next++; s.next == s.most {
			s.next = 0
		}
	}
	s.entries[key] = fifoEntry[V]{timed[V]{value, deadline}, place}
}

func (c *fifoCache[K, V]) Delete(key K) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[key]; ok {
		s.ring[e.place] = fifoPlace[K]{}
		delete(s.entries, key)
	}
}

func (c *fifoCache[K, V]) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}

func (c *fifoCache[K, V]) Close() {}
