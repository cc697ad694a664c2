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
// # Resting
//
// Waking up costs more than what there is to do then, if that is little: the system
// puts a processor to work and back to sleep. Where nobody is told of removals
// and the cache is hardly used, so that the coarse clock is asleep, only Len and Stats
// show when an expired entry leaves. Then the driver rests after a run, for as long as
// worthWaking entries take to expire at the rate of the time before, and for longestRest at
// most. What expires later than that after a run leaves at its tick, as always. With an
// injected clock there is no rest; tests want to know what happens when.
//
// # Draining
//
// However much is due, a shard's lock is held for drainPerHold entries at a
// time, about a microsecond (with a bound, for some seventy at most, unless many share a hash: a
// line comes up whole, see order.go), and between two holds of the same shard all other
// shards have their turn: sync.Mutex lets the one who released it take it again
// before a waiter wakes up, so draining one shard to the end would shut out its
// writers, in whatever portions.
//
// A writer that could not get a lock and was parked is woken up to run on the processor of the
// goroutine that released it, the driver's. There it would wait for as long as the driver
// goes on, or for another processor to notice, which may be busy with the collector's work
// for ten milliseconds. So the driver yields when somebody waits for the lock that it has
// released. Otherwise it yields only a little before it would be preempted, with a lock as a
// rule, since where there is more to do than there are processors, it has its turn again only
// after all others.
type driver struct {
	wakeAt atomic.Int64
	timer  interface {
		Reset(time.Duration) bool
		Stop() bool
	}
	running sync.Mutex   // held during a run
	alive   sync.RWMutex // held for reading by the timer's goroutine; Close waits for it
	asking  sync.Map     // numbers of such goroutines, where the clock that they ask is the user's

	missed    atomic.Uint64 // ticks
	restUntil atomic.Int64  // instant before which the timer is not set for expiry; written by a run

	// A run's own.
	ranAt   int64  // when there was one last
	usedAt  int64  // when operations were last counted, for the coarse clock
	usedOps uint64 // and how many there were
}

const (
	inRun        int64 = math.MinInt64
	soon         int64 = math.MinInt64 + 1 // of wakeAt: whenever, but there will be a run
	drainPerHold       = 16
	lockTries          = 64 // in a row at which all shards that are due are locked
	lockPause          = time.Millisecond
	longestTurn        = 8 * time.Millisecond // Go preempts who runs for ten
	flushPerHold       = 256

	// timerDelay is by how much a timer can be late on an idle machine, since Go's
	// network poller, which waits for it, counts in milliseconds. Where a tick is as
	// short, the one that has begun is looked into at each wake-up, if it has but a
	// few records: much of it has passed. (Timers of an injected clock are in time.)
	timerDelay = time.Millisecond

	mostEarly = 2 * recordsPerSlot // records in its slot, of all rounds

	longestRest = time.Second
	worthWaking = 256 // entries
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
			c.surely(c.setTimer)
			return
		}
	}
}

// surely calls f, which asks the clock. Should that be the user's and panic, or end
// the goroutine, then expiry is not to stop: there will be a run after a tick.
func (c *Cache[K, V]) surely(f func()) {
	done := false
	defer func() {
		if !done && !c.closed.Load() {
			c.driver.wakeAt.Store(soon)
			c.driver.timer.Reset(c.tick)
		}
	}()
	f()
	done = true
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
	if c.clock.injected != nil {
		id := goroutineID()
		d.asking.Store(id, nil)
		defer d.asking.Delete(id)
	}
	if !d.running.TryLock() {
		return // whoever has it will look at all shards after he has released it
	}
	c.surely(func() {
		blocked := c.runOnce()
		if !c.closed.Load() {
			c.rearm(blocked)
		}
	})
}

// isCaller reports whether the caller is asked by the driver for the time: he must not
// wait for it.
func (d *driver) isCaller() bool {
	_, asked := d.asking.Load(goroutineID())
	return asked
}

// runOnce is the part of run for which running is locked.
func (c *Cache[K, V]) runOnce() (blocked bool) {
	d := &c.driver
	defer d.running.Unlock()
	if c.closed.Load() {
		return false
	}
	d.wakeAt.Store(inRun)
	if now, due := c.clock.now(), max(c.earliest(), d.restUntil.Load()); now > due {
		d.missed.Add(uint64(now-due) / uint64(c.tick))
	}
	expired, blocked := c.sweep()
	c.watchUse()
	c.rest(expired)
	return blocked
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
	if c.clock.pauses.Load().paused() && !blocked {
		return // Resume will arm
	}
	at := max(c.earliest(), c.driver.restUntil.Load())
	now := c.clock.now()
	if blocked {
		at = max(at, now+int64(min(c.tick, lockPause)))
	}
	if c.removals != nil && c.removals.stalled.Load() {
		at = expiry.NoDeadline // resume will arm
	}
	if c.clock.awake() {
		at = min(at, now+int64(refreshPeriod))
	}
	c.arm(at)
}

// rest works out how long the driver may rest after a run that expired so many.
func (c *Cache[K, V]) rest(expired uint64) {
	d := &c.driver
	now := c.clock.now()
	until := int64(math.MinInt64)
	if c.removals == nil && c.clock.injected == nil && !c.clock.awake() {
		since := min(now-d.ranAt, int64(longestRest))
		until = now + min(since*worthWaking/int64(max(expired, 1)), int64(longestRest))
	}
	d.restUntil.Store(until)
	d.ranAt = now
}

// sweep expires what is due now, in all shards. It returns how many entries that
// were, and whether it had to leave out shards whose locks were held all the time,
// as they are while a Compute takes long: the driver waits for no lock, or that
// Compute would hold up expiry everywhere, and the coarse clock.
func (c *Cache[K, V]) sweep() (expired uint64, blocked bool) {
	ahead, early := int64(0), 0
	if c.tick <= timerDelay && c.clock.injected == nil {
		ahead, early = int64(c.tick), mostEarly
	}
	now := c.clock.now()
	yielded := now
	yield := func() {
		runtime.Gosched()
		now = c.clock.now() // it may have taken long
		yielded = now
		c.clock.refresh(now)
	}
	for tries := 0; !c.closed.Load(); now = c.clock.now() {
		c.clock.refresh(now)
		busy, held := 0, 0
		for i := range c.shards {
			s := &c.shards[i]
			if s.next.Load() > now+ahead {
				continue
			}
			if !c.removals.hasRoom() {
				return expired, false
			}
			if !s.mu.TryLock() {
				held++
				continue
			}
			before := s.removed[Expired-1]
			if s.advanceLocked(now, drainPerHold, early) {
				busy++
			}
			expired += s.removed[Expired-1] - before
			s.mu.Unlock()
			c.removals.start()
			if s.parked.Load() > 0 {
				yield()
			}
		}
		switch {
		case busy+held == 0:
			return expired, false
		case busy > 0:
			tries = 0
		default:
			if tries++; tries == lockTries {
				return expired, true
			}
			yield()
		}
		if now-yielded > int64(longestTurn) {
			yield()
		}
	}
	return expired, false
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
