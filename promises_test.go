package wheelcache_test

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

// The promises of the README, one test each. They gather the cases that decide;
// the other files have the rest. Promise 6 is about loading.

func TestPromise01_NeverLateNeverEarly(t *testing.T) {
	// Whatever the operation, it sees an entry until a nanosecond before the
	// deadline and not at the deadline, with the wheel at work.
	for viewer, live := range viewers {
		for _, ttl := range []time.Duration{1, tick - 1, tick, tick + 1, time.Second, 1000 * time.Hour} {
			for _, phase := range []time.Duration{0, 1, tick - 1} {
				for _, at := range []time.Duration{ttl - 1, ttl} {
					c, clock, removed := openJournal(t, kvOpt{})
					clock.Advance(phase)
					c.SetTTL("k", 1, ttl)
					clock.Advance(at)
					c.Flush()
					require.Equal(t, at < ttl, live(c), "%s, ttl %v, phase %v", viewer, ttl, phase)
					for _, r := range removed() {
						require.False(t, r.Cause == expired && at < ttl && viewer != "Move to 0", "expired early")
					}
				}
			}
		}
	}
	// Lifetimes saturate.
	c, clock := openFake(t, kvOpt{})
	clock.Advance(time.Hour)
	c.SetTTL("k", 1, math.MaxInt64-1)
	c.Flush()
	requireLive(t, c, "k", 1)

	// And on real time, with the coarse clock awake.
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakeCoarse(t, c)
		for _, ttl := range []time.Duration{1, tick, 490 * time.Millisecond, 510 * time.Millisecond, 2 * time.Second} {
			c.SetTTL("k", 1, ttl)
			useFor(t, c, ttl-1)
			requireLive(t, c, "k", 1)
			time.Sleep(time.Nanosecond)
			requireGone(t, c, "k")
		}
	})
}

func TestPromise02_ReclaimedPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late []time.Duration
		c := open(t, kvOpt{OnRemoval: func(r kv) { late = append(late, r.Late) }})
		const n = 20_000
		for i := range n {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i)*777_777+1)
		}
		c.SetTTL("distant", 1, 24*time.Hour)
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		require.Len(t, late, n+1)
		for _, l := range late {
			require.Less(t, l, tick)
		}
		s := c.Stats()
		require.Less(t, s.Lateness.Max, tick, "and it is exported")
		require.EqualValues(t, n+1, s.Lateness.Count)
		require.Zero(t, s.Entries)
	})
}

func TestPromise03_ExpiryIsBoundedPerHoldOfALock(t *testing.T) {
	const n = 20_000
	c, clock := openFake(t, wheelcache.Options[int, int]{Shards: 2})
	freeze(t, c)
	for i := range n {
		c.SetTTL(i, i, time.Second) // all at once
		c.SetTTL(n+i, i, time.Hour)
	}
	most, more := c.DrainOnce()
	require.Zero(t, most)
	require.False(t, more, "nothing is due: nothing is looked at")
	clock.Advance(time.Second)
	holds := 0
	for more := true; more; holds++ {
		most, more = c.DrainOnce()
		require.LessOrEqual(t, most, wheelcache.DrainPerHold)
	}
	require.Equal(t, n, c.Len())
	require.LessOrEqual(t, holds, n/wheelcache.DrainPerHold, "a hold that expires nothing is rare")
}

func TestPromise04_OneRemovalPerEntry(t *testing.T) {
	for _, r := range removers {
		c, clock, removed := openJournal(t, kvOpt{TTL: time.Hour})
		sets := 0
		for range 3 {
			c.SetTTL("k", 1, time.Second)
			r.do(c)
			clock.Advance(time.Second)
			r.do(c)
			clock.Advance(2 * time.Hour)
			c.Flush()
			sets = int(c.Stats().Sets)
		}
		c.Clear()
		require.Len(t, removed(), sets, r.name)
		requireBooks(t, c)
	}

	// A callback uses the cache and panics, and still nothing is lost.
	var c *kvCache
	var events atomic.Int64
	c = open(t, kvOpt{Shards: 1, OnRemoval: func(r kv) {
		events.Add(1)
		c.Get(r.Key)
		c.Delete(r.Key + "x")
		if r.Value%2 == 0 {
			panic("oh")
		}
	}, Logger: quiet})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				k := strconv.Itoa(i % 50)
				c.SetTTL(k, i, time.Duration(i%3*g)*time.Microsecond)
				c.Set(k+"x", i)
			}
		})
	}
	wg.Wait()
	c.Clear()
	for c.Stats().Pending > 0 {
		c.Flush()
	}
	require.EqualValues(t, 4000, events.Load())
	require.EqualValues(t, 2000, c.Stats().CallbackPanics)
}

func TestPromise05_ReadsSeeOwnWrites(t *testing.T) {
	c := open(t, wheelcache.Options[int, int]{TTL: time.Hour, OnRemoval: func(wheelcache.Removal[int, int]) {}})
	var wg sync.WaitGroup
	var wrong atomic.Int64
	for g := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				k := g<<20 | i%1000
				c.Set(k, i)
				if v, ok := c.Get(k); !ok || v != i {
					wrong.Add(1)
				}
				if i%5 == 0 {
					c.Delete(k)
					if _, ok := c.Get(k); ok {
						wrong.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, wrong.Load())
	requireBooks(t, c)
}

func TestPromise07_ReadsTakeNoLockAllocateNothingAndReadNoClock(t *testing.T) {
	// No lock: a Compute that holds it keeps no reader waiting.
	c := open(t, kvOpt{Shards: 1})
	c.Set("k", 1)
	c.Compute("k", func(int, bool) (int, wheelcache.Op) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 {
				c.Get("k")
				c.Peek("absent")
				c.Entry("k")
			}
		}()
		<-done
		return 0, wheelcache.OpKeep
	})

	// No clock: with the coarse one awake, a read far from the deadline does not
	// notice that time has passed, and it need not.
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakeCoarse(t, c)
		c.SetTTL("k", 1, time.Second)
		whileFrozen(c, func() {
			time.Sleep(time.Minute)
			requireLive(t, c, "k", 1)
		})
	})

	if allocates {
		return
	}
	d := open(t, wheelcache.Options[string, [4]uint64]{TTL: time.Hour})
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
		d.Set(keys[i], [4]uint64{})
	}
	i := 0
	require.Zero(t, testing.AllocsPerRun(5000, func() { i++; d.Get(keys[i%1000]) }))
	require.Zero(t, testing.AllocsPerRun(5000, func() { i++; d.Set(keys[i%1000], [4]uint64{1}) }))
}

func TestPromise08_MemoryComesBack(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 200_000
	c, clock := openFake(t, wheelcache.Options[uint64, uint64]{})
	empty := heapInUse()
	for i := range uint64(n) {
		c.SetTTL(i, i, time.Minute)
	}
	peak := heapInUse() - empty
	clock.Advance(time.Minute)
	c.Flush()
	after := heapInUse()
	require.LessOrEqual(t, max(after, empty)-empty, peak/50)
	runtime.KeepAlive(c)
}

func TestPromise09_CloseStopsEverythingAndTheDroppedAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		c := open(t, kvOpt{OnRemoval: func(kv) { time.Sleep(time.Second); seen++ }})
		require.Zero(t, libraryGoroutines(), "an empty cache runs no goroutine")
		c.SetTTL("k", 1, time.Hour)
		for i := range 10 {
			c.SetTTL(strconv.Itoa(i), i, 0)
		}
		for range 2 {
			require.NoError(t, c.Close())
			require.Equal(t, 10, seen)
			synctest.Wait() // what has said that it is done may still be on its way out
			require.Zero(t, libraryGoroutines())
		}
		time.Sleep(time.Hour - 10*time.Second - 1)
		requireLive(t, c, "k", 1)
		time.Sleep(time.Nanosecond)
		requireGone(t, c, "k")
	})
	for _, use := range droppedUses {
		requireCollected(t, dropped(t, kvOpt{OnRemoval: func(kv) {}}, use))
	}
	require.Zero(t, libraryGoroutines())
}

func TestPromise10_ClockStepsChangeNoLifetime(t *testing.T) {
	// Lifetimes are counted by the monotonic clock, and deadlines are given
	// without one relative to the wall clock as it is now. A fake clock that jumps
	// is the worst that can come: entries live by it exactly, whatever it has
	// shown before.
	c, clock := openFake(t, kvOpt{})
	c.SetTTL("k", 1, time.Hour)
	for _, step := range []time.Duration{-time.Second, -1000 * time.Hour, 1000 * time.Hour, 0, 59 * time.Minute, -time.Minute, time.Minute, time.Second} {
		clock.Advance(step)
		c.Flush()
		requireLive(t, c, "k", 1)
	}
	clock.Advance(time.Minute - 1)
	c.Flush()
	requireLive(t, c, "k", 1)
	clock.Advance(1)
	requireGone(t, c, "k")
	c.Flush()
	require.Zero(t, c.Len())

	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		c.SetDeadline("k", 1, time.Now().Round(0).Add(time.Hour))
		e, ok := c.Entry("k")
		require.True(t, ok)
		require.Equal(t, time.Hour, e.TTL)
		require.Equal(t, time.Hour, time.Until(e.Deadline), "what is handed out has a monotonic reading")
	})
}

func TestPromise11_HostileKeys(t *testing.T) {
	hostile(t, strconv.Itoa)
	hostile(t, func(i int) uint64 { return uint64(i) })
	hostile(t, func(i int) [2]int32 { return [2]int32{int32(i), 1} })
}

// hostile checks that keys that collide in one cache do not in another.
func hostile[K comparable](t *testing.T, key func(int) K) {
	t.Helper()
	var o wheelcache.Options[K, int]
	o.Expiry = expiry.AfterWrite[K, int](time.Hour)
	victim, other := open(t, o), open(t, o)
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	const same = 0xff << 12 // the bits that make the tag
	var keys []K
	for i := 0; len(keys) < n; i++ {
		if k := key(i); victim.HashOf(k)&same == 0 {
			keys = append(keys, k)
		}
	}
	var tags [256]int
	equal := 0
	for _, k := range keys {
		tags[other.HashOf(k)>>12&0xff]++
		if other.HashOf(k) == victim.HashOf(k) {
			equal++
		}
	}
	require.Zero(t, equal, "%T: caches have seeds of their own", *new(K))
	for tag, found := range tags {
		require.Less(t, found, n/256*4+40, fmt.Sprintf("%T: tag %d", *new(K), tag))
	}
}
