package wheelcache

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// What the tests in package wheelcache_test need to see of the inside.

const (
	MaxPending     = maxPending
	DrainPerHold   = drainPerHold
	RefreshPeriod  = refreshPeriod
	Slack          = slack
	CoarseLifetime = coarseLifetime
	WakeAfter      = wakeAfter
)

// FreezeDriver keeps the driver from running until ThawDriver, as a starved
// machine would.
func (c *Cache[K, V]) FreezeDriver() {
	c.driver.alive.RLock()
	c.driver.running.Lock()
}

// ThawDriver undoes FreezeDriver.
func (c *Cache[K, V]) ThawDriver() {
	c.driver.running.Unlock()
	c.driver.alive.RUnlock()
	c.run()
}

// CountWakes counts how often the driver's timer fires from now on. The cache
// must be new and on real time.
func (c *Cache[K, V]) CountWakes() *atomic.Int64 {
	n := new(atomic.Int64)
	c.driver.timer = time.AfterFunc(1<<62, func() { n.Add(1); c.run() })
	c.driver.timer.Stop()
	return n
}

// Parked counts the operations that wait for the lock of a shard.
func (c *Cache[K, V]) Parked(shard int) *atomic.Int32 { return &c.shards[shard].parked }

// Armed reports whether the driver means to wake up.
func (c *Cache[K, V]) Armed() bool { return c.driver.wakeAt.Load() != expiry.NoDeadline }

// CoarseClockAwake reports whether there is a coarse clock at the moment.
func (c *Cache[K, V]) CoarseClockAwake() bool { return c.clock.awake() }

// HashOf returns the hash by which the cache places key.
func (c *Cache[K, V]) HashOf(key K) uint64 { return c.hash.sum(key) }

// VersionOf returns the version of the bucket of key, which every change of its entries moves.
func (c *Cache[K, V]) VersionOf(key K) uint32 {
	s, hash := c.at(key)
	_, _, at, _ := s.sight(hash, key)
	return at.version
}

// Unlocked reports whether nobody holds a shard's lock for good: a load that lands, say,
// holds one for a moment.
func (c *Cache[K, V]) Unlocked() bool {
	for i := range c.shards {
		mu := &c.shards[i].mu
		for tries := 0; !mu.TryLock(); tries++ {
			if tries == 1_000_000 {
				return false
			}
			runtime.Gosched()
		}
		mu.Unlock()
	}
	return true
}

// DrainOnce lets each shard expire what one hold of its lock allows. It returns
// the most entries that left during one hold, and whether more are due.
func (c *Cache[K, V]) DrainOnce() (most int, more bool) {
	now := c.clock.now()
	for i := range c.shards {
		s := &c.shards[i]
		before := s.count
		more = s.advance(now, drainPerHold, 0) || more
		most = max(most, before-s.count)
	}
	return most, more
}

// LateLook is a Get whose reader has found its way to the table that the cache
// has now, but reads on in it only after meanwhile has returned.
func (c *Cache[K, V]) LateLook(key K, meanwhile func()) (V, bool) {
	s, hash := c.at(key)
	found := s.dir.Load()
	meanwhile()
	s.mu.Lock() // the driver must not come by what is only for this reader
	current := s.dir.Load()
	s.dir.Store(found)
	value, deadline, at, o := s.sight(hash, key)
	s.dir.Store(current)
	s.mu.Unlock()
	seen := c.judge(s, hash, key, value, deadline, at, o)
	return seen.value, seen.live
}

func (c *Cache[K, V]) shardOf(key K) *shard[K, V] {
	s, _ := c.at(key)
	return s
}
