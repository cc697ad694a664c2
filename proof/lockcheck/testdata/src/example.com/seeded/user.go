// Package seeded does what must not be: all it ought to do is in package clean.
package seeded

import (
	"fmt"
	"log"
	"sync"
	"time"

	"example.com/seeded/wheel"
)

type Policy[K comparable] interface {
	Create(key K) time.Duration
}

type Clock interface {
	Now() time.Time
	AfterFunc(time.Duration, func()) Timer
}

type Timer interface{ Stop() bool }

type Options[K comparable] struct {
	OnRemoval func(K)
	Policy    Policy[K]
	Hash      func(K) uint64
	Clock     Clock
	Logger    *log.Logger
}

func (o Options[K]) validate() (Options[K], error) { return o, nil }

type Cache[K comparable] struct {
	shards  []shard[K]
	removed *removals[K]
	policy  Policy[K]
	hash    hasher[K]
	clock   clock
	timer   Timer
	logger  *log.Logger
	waits   func()
}

type shard[K comparable] struct {
	table[K]
	mu    sync.Mutex
	wheel *wheel.Wheel
	cache *Cache[K]
	visit func(int)
}

type table[K comparable] struct{ keys []K }

type removals[K comparable] struct{ call func(K) }

type hasher[K comparable] struct{ custom func(K) uint64 }

type clock struct{ injected Clock }

func New[K comparable](o Options[K]) *Cache[K] {
	o, _ = o.validate()
	c := &Cache[K]{
		policy:  o.Policy,
		hash:    newHasher(o.Hash),
		removed: &removals[K]{o.OnRemoval},
		logger:  o.Logger,
	}
	c.clock.init(o.Clock)
	c.timer = time.AfterFunc(1, func() {})
	if c.clock.injected != nil {
		c.timer = c.clock.injected.AfterFunc(1, func() {})
	}
	return c
}

func newHasher[K comparable](custom func(K) uint64) hasher[K] { return hasher[K]{custom} }

func (k *clock) init(injected Clock) { k.injected = injected }

// --- what the user gave, where it is called ---

func (r *removals[K]) push(key K) {
	r.call(key) // want `calls the user's code, Options.OnRemoval, under the lock of a shard: Cache.Set > shard.put > shard.report > removals.push`
}

func (h *hasher[K]) sum(key K) uint64 {
	return h.custom(key) // want `the user's code, Options.Hash, .*: Cache.Set > Cache.at > hasher.sum`
}

func (k *clock) now() time.Time {
	if k.injected != nil {
		return k.injected.Now() // want `the user's code, Options.Clock, .*: Cache.Set > clock.now`
	}
	return time.Now()
}

func (k *clock) bound() time.Time {
	now := time.Now
	if k.injected != nil {
		now = k.injected.Now
	}
	return now() // want `the user's code, Options.Clock, .*: Cache.Set > clock.bound`
}

func (c *Cache[K]) lifetime(key K) time.Duration {
	return c.policy.Create(key) // want `the user's code, Options.Policy,`
}

func (c *Cache[K]) at(key K) *shard[K] { return &c.shards[c.hash.sum(key)] }

func (c *Cache[K]) Set(key K) {
	s := c.at(key)
	s.mu.Lock()
	s.put(key)
	c.at(key)
	c.clock.now()
	c.clock.bound()
	c.lifetime(key)
	c.timer.Stop()                 // want `the user's code, what Options.Clock returned, .*: Cache.Set`
	c.logger.Print("no")           // want `calls \(\*log.Logger\).Print, which is not known to leave the user's code alone, under`
	_ = fmt.Sprint(key)            // want `hands on a K, with which the user's code may come,`
	_ = fmt.Sprintf("%v", s.table) // want `hands on a table\[K\], with which`
	s.mu.Unlock()
	c.at(key)
}

func (s *shard[K]) put(key K) { s.report(key) }

func (s *shard[K]) report(key K) { s.cache.removed.push(key) }

// --- parameters of exported functions, and closures of theirs ---

func (c *Cache[K]) edit(key K, decide func(old K)) {
	s := c.at(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	decide(key)
}

func (c *Cache[K]) Compute(key K, f func(K)) {
	c.edit(key, func(old K) {
		f(old) // want `the user's code, parameter f of Cache.Compute, under the lock of a shard: Cache.edit > a function in Cache.Compute`
	})
}

func (c *Cache[K]) DeleteFunc(match func(K)) {
	c.forward(match)
}

func (c *Cache[K]) forward(match func(K)) {
	s := &c.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	match(*new(K)) // want `parameter match of Cache.DeleteFunc`
}

func (c *Cache[K]) Keys() func(func(K)) {
	return func(yield func(K)) {
		c.shards[0].mu.Lock()
		yield(*new(K)) // want `what may be the user's code, parameter yield of a function in Cache.Keys, whose callers are not all known,`
		c.shards[0].mu.Unlock()
	}
}
