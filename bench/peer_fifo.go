package main

import "time"

func init() {
	register(Peer{
		Name:    "fifo",
		Floor:   true,
		Traits:  Traits{Expires: true, EachTTL: true, Shared: true, Counts: true, Bounds: true},
		Note:    "rwmutex with rings of keys, the oldest of which is evicted",
		Strings: newFIFO[string, *Payload],
		Uint64s: newFIFO[uint64, uint64],
	})
}

// fifoCache is about the least that a bounded cache may be. It shows what maps alone cost when
// each Set inserts one key and deletes another. (It takes no part where keys are deleted: one that
// comes again would be in the ring twice.)
type fifoCache[K comparable, V any] struct {
	*rwmutexCache[K, V]
	rings []fifoRing[K] // under the lock of the shard with the same index
}

type fifoRing[K comparable] struct {
	keys []K
	most int
	next int // the oldest, when there are as many as may be
	_    [24]byte
}

func newFIFO[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	c := &fifoCache[K, V]{rwmutexCache: makeRWMutex[K, V](cfg)}
	n := len(c.shards)
	most := max(cfg.Entries/n, 1)
	if !cfg.Bounded {
		most = cfg.roomIn(n) / n
	}
	c.rings = make([]fifoRing[K], n)
	for i := range c.rings {
		c.rings[i] = fifoRing[K]{keys: make([]K, 0, min(cfg.ifSized(), most)), most: most}
	}
	return c, nil
}

func (c *fifoCache[K, V]) Set(key K, value V, ttl time.Duration) {
	e := timed[V]{value, time.Now().Add(ttl).UnixNano()}
	i := c.index(key)
	s := &c.shards[i]
	s.mu.Lock()
	if _, ok := s.entries[key]; !ok {
		if oldest, full := c.rings[i].push(key); full {
			delete(s.entries, oldest)
		}
	}
	s.entries[key] = e
	s.mu.Unlock()
}

// push adds a key, in the place of the oldest if the ring is full.
func (r *fifoRing[K]) push(key K) (oldest K, full bool) {
	if len(r.keys) < r.most {
		r.keys = append(r.keys, key)
		return oldest, false
	}
	oldest, r.keys[r.next] = r.keys[r.next], key
	if r.next++; r.next == r.most {
		r.next = 0
	}
	return oldest, true
}
