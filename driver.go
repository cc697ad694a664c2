package wheelcache

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/wheelcache/wheelcache/expiry"
)

// A driver makes time pass for a cache: it wakes up when the earliest entry of
// any shard may be due, and lets the shards expire what is.
//
//	timer fires -> run -> sweep: shard.advance, a few entries at a time, in turn
//	     ^                                  |
//	     +--------- rearm: earliest shard.next, or the coarse clock's refresh
//
// Between two wake-ups there is no goroutine, only a timer: time.AfterFunc
// starts one when it fires. While no wheel holds a record and the coarse clock is
// asleep, there is not even a timer.
// The timer knows the cache by a weak pointer, so a cache that is dropped
// without Close is collected like anything else; its timer, should one be
// pending, fires once more and finds nothing. No finalizer and no cleanup is
// needed, and so none can touch a channel or a timer of a synctest bubble from
// outside.
//
// # Waking up
//
// wakeAt is the instant the timer is set to. A writer that creates an earlier
// one calls arm. While a run is in progress wakeAt is inRun, before all
// instants, so nobody arms; at its end the run first resets wakeAt to never and
// then looks at the shards, so an entry stored before that look is seen by it,
// and one stored after it sees wakeAt and arms. Entries are always stored before
// wakeAt is looked at, and atomics are sequentially consistent, so no entry is
// missed by both. No lock is held when the timer or the clock is called: they
// may be the user's.
//
// # Draining
//
// However much is due, a shard's lock is held for drainPerHold entries at a
// time, about a microsecond, and between two holds of the same shard all other
// shards have their turn: sync.Mutex lets the one who released it take it again
// before a waiter wakes up, so draining one shard to the end would shut out its
// writers, in whatever portions.
type driver struct {
	wakeAt atomic.Int64
	timer  interface {
		Reset(time.Duration) bool
		Stop() bool
	}
	running sync.Mutex   // held during a run
	alive   sync.RWMutex // held for reading by the timer's goroutine; Close waits for it

	missed atomic.Uint64 // ticks

	// Of the coarse clock's use; a run's own.
	usedAt  int64  // when operations were last counted
	usedOps uint64 // and how many there were
}

const (
	inRun        int64 = math.MinInt64
	drainPerHold       = 16
	lockTries          = 64 // in a row at which all shards that are due are locked
	flushPerHold       = 256
)

func (c *Cache[K, V]) initDriver() {
	d := &c.driver
	d.wakeAt.Store(expiry.NoDeadline)
	w := weak.Make(c)
	fire := func() {
		if c := w.Value(); c != nil {
			c.run()
		}
	}
	const far = 1 << 62
	if c.clock.injected != nil {
		d.timer = c.clock.injected.AfterFunc(far, fire)
	} else {
		d.timer = time.AfterFunc(far, fire)
	}
	d.timer.Stop()
}

// arm makes the timer fire at that instant if it would fire later.
func (c *Cache[K, V]) arm(at int64) {
	d := &c.driver
	for w := d.wakeAt.Load(); at < w; w = d.wakeAt.Load() {
		if d.wakeAt.CompareAndSwap(w, at) {
			c.setTimer()
			return
		}
	}
}

// setTimer sets the timer to wakeAt. Of several goroutines that do so at once,
// the one that is last to set it sees by then what wakeAt is.
func (c *Cache[K, V]) setTimer() {
	d := &c.driver
	for {
		at := d.wakeAt.Load()
		if at == inRun || c.closed.Load() {
			return
		}
		now := c.clock.now()
		d.timer.Reset(max(expiry.Remaining(at, now), 0))
		if c.closed.Load() {
			d.timer.Stop() // Close may have done so before
			return
		}
		// An injected clock may have been advanced in between.
		if d.wakeAt.Load() == at && (c.clock.injected == nil || c.clock.now()-now < int64(c.tick)) {
			return
		}
	}
}

// run is what the timer calls.
func (c *Cache[K, V]) run() {
	d := &c.driver
	d.alive.RLock()
	defer d.alive.RUnlock()
	if !d.running.TryLock() {
		return // whoever has it will look at all shards after he has released it
	}
	blocked := false
	if !c.closed.Load() {
		d.wakeAt.Store(inRun)
		if now, due := c.clock.now(), c.earliest(); now > due {
			d.missed.Add(uint64(now-due) / uint64(c.tick))
		}
		blocked = c.sweep()
		c.watchUse()
	}
	d.running.Unlock()
	if !c.closed.Load() {
		c.rearm(blocked)
	}
}

// earliest returns the instant of the earliest tick that any wheel waits for.
func (c *Cache[K, V]) earliest() int64 {
	at := expiry.NoDeadline
	for i := range c.shards {
		at = min(at, c.shards[i].next.Load())
	}
	return at
}

// rearm ends a run, which had to leave shards out if it was blocked.
func (c *Cache[K, V]) rearm(blocked bool) {
	c.driver.wakeAt.Store(expiry.NoDeadline)
	at := c.earliest()
	now := c.clock.now()
	if blocked {
		at = max(at, now+int64(c.tick))
	}
	if c.removals != nil && c.removals.stalled.Load() {
		at = expiry.NoDeadline // resume will arm
	}
	if c.clock.awake() {
		at = min(at, now+int64(refreshPeriod))
	}
	c.arm(at)
}

// sweep expires what is due now, in all shards. It reports whether it had to
// leave out shards whose locks were held all the time, as they are while a
// Compute takes long: the driver waits for no lock, or that Compute would hold up
// expiry everywhere, and the coarse clock.
func (c *Cache[K, V]) sweep() (blocked bool) {
	tries := 0
	for busy, held := 1, 0; busy+held > 0 && !c.closed.Load(); {
		now := c.clock.now()
		c.clock.refresh(now)
		busy, held = 0, 0
		for i := range c.shards {
			s := &c.shards[i]
			if s.next.Load() > now {
				continue
			}
			if !c.removals.hasRoom() {
				return false
			}
			if !s.mu.TryLock() {
				held++
				continue
			}
			if s.advanceLocked(now, drainPerHold) {
				busy++
			}
			s.mu.Unlock()
			c.removals.start()
		}
		if busy == 0 && held > 0 {
			if tries++; tries == lockTries {
				return true
			}
		}
		if busy <= 1 && busy+held > 0 {
			runtime.Gosched() // no other shard's turn parts the holds
		}
	}
	return false
}

// watchUse puts the coarse clock to sleep when the cache is hardly used.
func (c *Cache[K, V]) watchUse() {
	if !c.clock.awake() {
		return
	}
	d := &c.driver
	now := c.clock.now()
	if now-d.usedAt < int64(usedPeriod) {
		return
	}
	hits, misses := c.reads.sum()
	ops := hits + misses
	for i := range c.shards {
		s := &c.shards[i]
		if !s.mu.TryLock() {
			return // in use
		}
		ops += s.sets
		s.mu.Unlock()
	}
	if ops-d.usedOps < usedEnough {
		c.clock.sleep()
	}
	d.usedAt, d.usedOps = now, ops
}

// askedPrecisely is told of each precise reading of the clock that a coarse one
// could have replaced. Enough of them start the coarse clock.
func (c *Cache[K, V]) askedPrecisely(now int64) {
	if !c.clock.wantsWaking(now) || c.closed.Load() {
		return
	}
	c.clock.wake(now)
	if c.closed.Load() {
		c.clock.sleep() // Close may not have seen it awake
		return
	}
	c.arm(now + int64(refreshPeriod))
}
