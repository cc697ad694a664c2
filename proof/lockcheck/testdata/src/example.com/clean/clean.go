// Package clean does, without a fault, what the cache does.
package clean

import (
	"fmt"
	"sync"
	"time"

	"example.com/clean/wheel"
)

type Options[K comparable, V any] struct {
	OnRemoval func(K, V)
	Policy    interface{ Create(K, V) time.Duration }
	Hash      func(K) uint64
}

type Op uint8

func (o Op) String() string { return "op" }

type Cache[K comparable, V any] struct {
	shard   shard[K, V]
	removed removals[K, V]
	policy  interface{ Create(K, V) time.Duration }
	hash    func(K) uint64
	timer   interface{ Stop() bool }
}

type shard[K comparable, V any] struct {
	mu     sync.Mutex
	wheel  *wheel.Wheel
	values map[K]V
	cache  *Cache[K, V]
	visit  func(int) bool
}

// removals has a lock too, which is another matter.
type removals[K comparable, V any] struct {
	mu    sync.Mutex
	queue []K
	call  func(K, V)
}

func New[K comparable, V any](o Options[K, V]) *Cache[K, V] {
	c := &Cache[K, V]{policy: o.Policy, hash: o.Hash}
	c.removed.call = o.OnRemoval
	c.shard.cache = c
	c.timer = time.AfterFunc(time.Second, c.run)
	return c
}

func (c *Cache[K, V]) Set(key K, value V) {
	c.hash(key)
	ttl := c.policy.Create(key, value)
	s := &c.shard
	s.mu.Lock()
	if ttl == 0 {
		s.mu.Unlock()
		c.deliver(key, value)
		return
	}
	s.put(key, value)
	c.timer.Stop()
	s.mu.Unlock()
	c.deliver(key, value)
}

func (c *Cache[K, V]) deliver(key K, value V) {
	c.removed.mu.Lock()
	defer c.removed.mu.Unlock()
	c.removed.call(key, value)
}

func (s *shard[K, V]) put(key K, value V) {
	if s.wheel == nil {
		s.wheel = new(wheel.Wheel)
		s.visit = s.comeUp
		s.wheel.Ahead(func(now int) { s.values[key] = value })
	}
	s.values[key] = value
	s.cache.removed.mu.Lock()
	s.cache.removed.queue = append(s.cache.removed.queue, key)
	s.cache.removed.mu.Unlock()
	go s.cache.deliver(key, value)
}

func (s *shard[K, V]) comeUp(now int) bool { return now > 0 }

// run calls the user's code where the lock was not to be had.
func (c *Cache[K, V]) run() {
	s := &c.shard
	for {
		if !s.mu.TryLock() {
			c.removed.call(*new(K), *new(V))
			continue
		}
		s.wheel.Advance(1, s.visit)
		s.mu.Unlock()
		break
	}
	c.advance()
	c.removed.call(*new(K), *new(V))
	s.lock()
	s.wheel.Advance(1, s.visit)
	s.unlock()
	c.removed.call(*new(K), *new(V))
	c.cleanUp()
	c.removed.call(*new(K), *new(V))
}

func (s *shard[K, V]) lock()   { s.mu.Lock() }
func (s *shard[K, V]) unlock() { s.mu.Unlock() }

func (c *Cache[K, V]) advance() {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	c.shard.wheel.Advance(1, c.shard.visit)
}

func (c *Cache[K, V]) cleanUp() {
	c.shard.mu.Lock()
	defer func() { c.shard.mu.Unlock() }()
	c.shard.wheel.Len()
}

// edit calls only what this package decides.
func (c *Cache[K, V]) edit(key K, decide func(V) Op) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if op := decide(c.shard.values[key]); op != 0 {
		panic(fmt.Sprintf("unknown %v, %d", op, 1))
	}
}

func (c *Cache[K, V]) Delete(key K) (old V) {
	c.edit(key, func(v V) Op {
		old = v
		return 0
	})
	return old
}

// All hands out a function that the user calls with one of his.
func (c *Cache[K, V]) All() func(yield func(K, V) bool) {
	return func(yield func(K, V) bool) {
		c.shard.mu.Lock()
		n := len(c.shard.values)
		c.shard.mu.Unlock()
		for range n {
			yield(*new(K), *new(V))
		}
	}
}
