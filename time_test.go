package wheelcache_test

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

// In a synctest bubble package time stands still while anything runs, and jumps
// when nothing does. A Sleep there is exact and takes no time.

const tick = 10 * time.Millisecond

// libraryGoroutines counts the goroutines that run the library's code: those of the
// bubble that the caller is in. Outside of any it counts all, which may include some
// that earlier tests have left to run out; it gives them the time to.
func libraryGoroutines() (n int) {
	for range 1000 {
		stacks := strings.Split(allStacks(), "\n\n")
		within := bubbleOf(stacks[0]) // the caller's comes first
		n = 0
		for _, stack := range stacks {
			if strings.Contains(stack, "wheelcache/wheelcache.(*") && (within == "" || bubbleOf(stack) == within) {
				n++
			}
		}
		if n == 0 || within != "" {
			break
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	return n
}

func allStacks() string {
	buf := make([]byte, 1<<20)
	for {
		if size := runtime.Stack(buf, true); size < len(buf) {
			return string(buf[:size])
		}
		buf = make([]byte, 2*len(buf))
	}
}

// bubbleOf returns the name of the synctest bubble that a goroutine is in, if any.
func bubbleOf(stack string) string {
	head, _, _ := strings.Cut(stack, "\n")
	_, bubble, _ := strings.Cut(head, "synctest bubble ")
	bubble, _, _ = strings.Cut(bubble, "]")
	bubble, _, _ = strings.Cut(bubble, ",")
	return bubble
}

func TestEntriesAreReclaimedWithinATickOfTheirDeadline(t *testing.T) {
	for _, every := range []time.Duration{time.Millisecond, tick, time.Second, 700 * time.Hour} {
		for _, exact := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var j journal[string, int]
				c := open(t, kvOpt{Tick: every, ExactClock: exact, OnRemoval: j.add})
				start := time.Now()
				n := 0
				for ttl := time.Duration(1); ttl < 10*every; ttl += every/7 + 1 {
					c.SetTTL(strconv.Itoa(n), n, ttl)
					n++
				}
				time.Sleep(11 * every)
				synctest.Wait()
				events := j.take()
				require.Len(t, events, n)
				for _, r := range events {
					require.Equal(t, expired, r.Cause)
					require.Less(t, r.Late, every)
					require.GreaterOrEqual(t, r.Late, time.Duration(0))
					require.Equal(t, 1+time.Duration(r.Value)*(every/7+1), r.Deadline.Sub(start))
				}
				s := c.Stats()
				require.Zero(t, s.Entries)
				require.Zero(t, s.MissedTicks)
				require.Less(t, s.Lateness.Max, every)
			})
		}
	}
}

func TestACallbackRunsAtTheFirstTickAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		c := open(t, kvOpt{OnRemoval: func(kv) { at = append(at, time.Since(start)) }})
		c.SetTTL("1", 1, tick)
		c.SetTTL("2", 1, tick+1)
		c.SetTTL("3", 1, 3*tick-1)
		c.SetTTL("4", 1, 5*tick)
		c.SetTTL("5", 1, time.Hour+1)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []time.Duration{tick, 2 * tick, 3 * tick, 5 * tick, time.Hour + tick}, at)
	})
}

func TestNoGoroutineRunsWhileNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{OnRemoval: func(kv) {}})
		require.Zero(t, libraryGoroutines(), "empty")
		require.False(t, c.Armed())
		c.Set("k", 1)
		c.SetTTL("long", 1, time.Hour)
		c.SetTTL("short", 1, 1)
		c.Set("k", 2)
		c.Delete("k")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, libraryGoroutines(), "idle")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, libraryGoroutines(), "empty again")
		require.False(t, c.Armed())
	})
}

func TestTheDriverWakesOncePerTickAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakes := c.CountWakes()
		for i := range 5000 {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i)*time.Millisecond/5+1) // 5 in each ms, for a second
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, c.Len())
		require.LessOrEqual(t, wakes.Load(), int64(time.Second/tick)+1)
	})
}

func TestTheDriverSleepsWhileNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakes := c.CountWakes()
		c.SetTTL("k", 1, 24*time.Hour)
		time.Sleep(24*time.Hour - 1)
		synctest.Wait()
		require.Zero(t, wakes.Load())
		requireLive(t, c, "k", 1)
		time.Sleep(tick)
		synctest.Wait()
		require.EqualValues(t, 1, wakes.Load())
		time.Sleep(1000 * time.Hour)
		require.EqualValues(t, 1, wakes.Load(), "an empty cache does not wake")
	})
}

func TestTheDriverRestsWhereNobodyIsToldAndLittleIsDue(t *testing.T) {
	const n, every = 2000, 5 * time.Millisecond
	for name, tc := range map[string]struct {
		opt         kvOpt
		least, most int64 // wakes
	}{
		"nobody is told":   {kvOpt{ExactClock: true}, 10, 13}, // one a second
		"somebody is told": {kvOpt{ExactClock: true, OnRemoval: func(wheelcache.Removal[string, int]) {}}, 900, 1010},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, tc.opt)
			wakes := c.CountWakes()
			for i := range n {
				c.SetTTL(strconv.Itoa(i), i, time.Second+time.Duration(i)*every)
			}
			c.SetTTL("alone", 1, time.Hour)
			for i := range n {
				time.Sleep(every)
				if i%100 == 0 {
					require.LessOrEqual(t, c.Len(), n+1-max(0, i-200)+200, "a second's worth stays")
				}
			}
			time.Sleep(2*time.Second + tick)
			synctest.Wait()
			require.Equal(t, 1, c.Len())
			require.GreaterOrEqual(t, wakes.Load(), tc.least, name)
			require.LessOrEqual(t, wakes.Load(), tc.most, name)
			require.LessOrEqual(t, c.Stats().Lateness.Max, time.Second+tick, name)
			require.Zero(t, c.Stats().MissedTicks, "rest is not delay")
			time.Sleep(time.Hour - 13*time.Second)
			requireLive(t, c, "alone", 1)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Zero(t, c.Len())
			require.LessOrEqual(t, wakes.Load(), tc.most+2, name)
		})
	}
}

func TestTheDriverRestsLessWhereMuchIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		const n, rate = 50_000, 10_000 // entries per second
		for i := range n {
			c.SetTTL(strconv.Itoa(i), i, time.Second+time.Duration(i)*time.Second/rate)
		}
		time.Sleep(2*time.Second + 1)
		for due := rate; due < n; due += rate / 100 {
			synctest.Wait()
			require.Less(t, c.Len()-(n-due), 1000, "entries that wait")
			time.Sleep(time.Second / 100)
		}
	})
}

func TestTheDriverYieldsToWhoWaitsForALock(t *testing.T) {
	// With one processor, others run when the driver yields, or when it is preempted.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const n, shards = 100_000, 8
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, kvOpt{Shards: shards})
			for i := range n {
				c.SetTTL(strconv.Itoa(i), i, time.Second)
			}
			c.FreezeDriver()
			time.Sleep(2 * time.Second)
			if waits {
				c.Parked(3).Add(1)
				defer c.Parked(3).Add(-1)
			}
			go c.ThawDriver()
			most, turns := 0, 0
			for last := n; last > 0; turns++ {
				runtime.Gosched()
				left := c.Len()
				most = max(most, last-left)
				last = left
			}
			if waits {
				require.LessOrEqual(t, most, 2*shards*wheelcache.DrainPerHold)
			} else {
				require.Less(t, turns, n/wheelcache.DrainPerHold/shards/2, "it yields to nobody")
			}
		})
	}
}

func TestAnOperationThatWaitsForALockIsKnownToWait(t *testing.T) {
	c := open(t, kvOpt{Shards: 1})
	locked, release := make(chan struct{}), make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		c.Compute("key", func(int, bool) (int, wheelcache.Op) {
			close(locked)
			<-release
			return 1, wheelcache.OpStore
		})
	})
	<-locked
	calls.Go(func() { c.Set("other", 2) })
	for c.Parked(0).Load() == 0 {
		runtime.Gosched()
	}
	close(release)
	calls.Wait()
	require.Zero(t, c.Parked(0).Load())
	requireLive(t, c, "other", 2)
}

func TestAShortTickThatHasBegunIsLookedInto(t *testing.T) {
	for _, tc := range []struct {
		tick time.Duration
		left int
	}{{time.Millisecond, 1}, {10 * time.Millisecond, 2}} {
		synctest.Test(t, func(t *testing.T) {
			var j journal[string, int]
			c := open(t, kvOpt{Tick: tc.tick, OnRemoval: j.add})
			c.SetTTL("first tick", 1, tc.tick)
			c.SetTTL("second, passed", 2, tc.tick+tc.tick*3/10)
			c.SetTTL("second, not passed", 3, tc.tick+tc.tick*8/10)
			whileFrozen(c, func() { time.Sleep(tc.tick + tc.tick/2) }) // the timer is late
			synctest.Wait()
			require.Equal(t, tc.left, c.Len())
			time.Sleep(tc.tick)
			synctest.Wait()
			require.Len(t, j.take(), 3)
		})
	}
}

func TestWritesDoNotPutExpiryOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal[string, int]
		c := open(t, kvOpt{Shards: 1, OnRemoval: j.add})
		for i := range 1000 {
			c.SetTTL(strconv.Itoa(i), i, 50*time.Millisecond)
			time.Sleep(time.Millisecond)
			require.LessOrEqual(t, c.Len(), 62) // one, if the store that is due has the lock
		}
		// A driver that finds the lock taken comes again after lockPause.
		require.LessOrEqual(t, c.Stats().Lateness.Max, tick+time.Millisecond)
	})
}

func TestAnEarlierDeadlineWakesTheDriverEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		c.SetTTL("k", 1, time.Hour)
		c.SetTTL("other", 1, time.Hour)
		c.Move("k", 3*tick)
		time.Sleep(3 * tick)
		synctest.Wait()
		require.Equal(t, 1, c.Len())
	})
}

func TestMissedTicksAreSweptAndCounted(t *testing.T) {
	for _, gap := range []time.Duration{tick, time.Second, 10 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var j journal[string, int]
			c := open(t, kvOpt{OnRemoval: j.add})
			n := 0
			for ttl := tick; ttl <= gap; ttl += gap / 10 {
				c.SetTTL(strconv.Itoa(n), n, ttl)
				n++
			}
			c.SetTTL("later", 1, 2*gap+time.Minute)
			whileFrozen(c, func() {
				time.Sleep(tick + gap)
				synctest.Wait()
				require.Equal(t, n+1, c.Len())
			})
			synctest.Wait()
			require.Len(t, j.take(), n)
			require.Equal(t, uint64(gap/tick), c.Stats().MissedTicks)
			require.Equal(t, gap, c.Stats().Lateness.Max)
			requireLive(t, c, "later", 1)
			time.Sleep(2*gap + time.Minute)
			synctest.Wait()
			require.Zero(t, c.Len(), "and then it goes on")
			require.Equal(t, uint64(gap/tick), c.Stats().MissedTicks)
		})
	}
}

func TestMissedTicksAreNotCountedForAWheelThatWasIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{Tick: time.Microsecond, Shards: 1})
		c.SetTTL("k", 1, time.Second)
		time.Sleep(time.Hour) // 3.6e9 ticks
		c.SetTTL("k", 2, time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, c.Len())
		require.Zero(t, c.Stats().MissedTicks)
	})
}

// whileFrozen calls f while the driver does not run.
func whileFrozen(c *kvCache, f func()) {
	c.FreezeDriver()
	defer c.ThawDriver()
	f()
}

// wakeCoarse uses the cache until it has a coarse clock.
func wakeCoarse(t *testing.T, c *kvCache) {
	t.Helper()
	c.SetTTL("busy", 0, 1000*time.Hour)
	for range 2 * wheelcache.WakeAfter {
		c.Get("busy")
	}
	require.True(t, c.CoarseClockAwake())
}

// useFor uses the cache for a while, so that the coarse clock stays awake.
func useFor(t *testing.T, c *kvCache, d time.Duration) {
	t.Helper()
	for d > 0 {
		for range 20 {
			c.Get("busy")
		}
		step := min(d, 5*time.Millisecond)
		time.Sleep(step)
		d -= step
	}
	synctest.Wait()
	require.True(t, c.CoarseClockAwake())
}

func TestReadsAreExactWhileTheCoarseClockIsAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{Tick: time.Minute}) // so that the dead stay in place
		require.False(t, c.CoarseClockAwake(), "asleep from the start")
		wakeCoarse(t, c)
		for _, ttl := range []time.Duration{1, time.Millisecond, wheelcache.RefreshPeriod, wheelcache.Slack - 1, wheelcache.Slack, wheelcache.Slack + 1, time.Second, wheelcache.CoarseLifetime - 1} {
			for _, phase := range []time.Duration{0, 1, 3 * time.Millisecond, wheelcache.RefreshPeriod - 1} {
				useFor(t, c, phase+40*time.Millisecond)
				c.SetTTL("k", 1, ttl)
				useFor(t, c, ttl-1)
				for viewer, live := range map[string]func(*kvCache) bool{"Get": viewers["Get"], "Peek": viewers["Peek"], "Entry": viewers["Entry"], "All": viewers["All"], "CAS": func(c *kvCache) bool { return wheelcache.CompareAndSwap(c, "k", 1, 1) }} {
					require.True(t, live(c), "%s, %v at phase %v", viewer, ttl, phase)
				}
				time.Sleep(time.Nanosecond)
				for viewer, live := range viewers {
					if viewer != "GetOrSet" {
						require.False(t, live(c), "%s, %v at phase %v", viewer, ttl, phase)
					}
				}
			}
		}
	})
}

func TestALongTTLUnderACoarseClockIsEarlyByARefreshPeriodAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakeCoarse(t, c)
		early := time.Duration(0)
		for phase := range 40 {
			useFor(t, c, time.Duration(phase)*777_777)
			for _, ttl := range []time.Duration{wheelcache.CoarseLifetime, time.Minute} {
				for verb, store := range map[string]func(){
					"SetTTL": func() { c.SetTTL("k", 1, ttl) },
					"Move":   func() { c.SetTTL("k", 1, expiry.Never); c.Move("k", ttl) },
					"Compute": func() {
						c.SetTTL("k", 1, ttl)
						c.Compute("k", func(v int, _ bool) (int, wheelcache.Op) { return v, wheelcache.OpKeep })
					},
				} {
					store()
					e, ok := c.Entry("k")
					require.True(t, ok)
					require.LessOrEqual(t, e.TTL, ttl, "%s is never late", verb)
					require.GreaterOrEqual(t, e.TTL, ttl-wheelcache.RefreshPeriod)
					early = max(early, ttl-e.TTL)
				}
			}
		}
		require.Positive(t, early, "the coarse clock has been used")
	})
}

func TestTheCoarseClockFallsAsleepWhenTheCacheIsHardlyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakes := c.CountWakes()
		wakeCoarse(t, c)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.False(t, c.CoarseClockAwake())
		slept := wakes.Load()
		require.LessOrEqual(t, slept, int64(3*time.Second/wheelcache.RefreshPeriod))
		time.Sleep(500 * time.Hour)
		synctest.Wait()
		require.Equal(t, slept, wakes.Load(), "idle costs nothing")
		c.SetTTL("k", 1, time.Second)
		time.Sleep(time.Second - 1)
		requireLive(t, c, "k", 1)
		time.Sleep(time.Nanosecond)
		requireGone(t, c, "k")
		wakeCoarse(t, c) // and again
	})
}

func TestCloseStopsTheCoarseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakes := c.CountWakes()
		wakeCoarse(t, c)
		c.SetTTL("k", 1, time.Minute)
		require.NoError(t, c.Close())
		require.False(t, c.CoarseClockAwake())
		for range 3 * wheelcache.WakeAfter {
			c.Get("busy")
		}
		require.False(t, c.CoarseClockAwake())
		time.Sleep(time.Minute - 1)
		requireLive(t, c, "k", 1)
		time.Sleep(time.Nanosecond)
		requireGone(t, c, "k")
		require.Zero(t, wakes.Load())
	})
}

// A driver that does not run for longer than the slack leaves a read late that
// looks at a deadline beyond the horizon of the last refresh, until anybody reads
// the precise clock. That is what the documentation admits, and no more.
func TestADriverFrozenBeyondTheSlackMakesReadsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakeCoarse(t, c)
		c.SetTTL("k", 1, time.Second)
		c.SetTTL("close", 1, wheelcache.Slack)
		c.FreezeDriver()
		time.Sleep(2 * time.Second)
		requireLive(t, c, "k", 1)  // late
		requireGone(t, c, "close") // within the slack, exact however long the driver stands still; and it tells the others
		requireGone(t, c, "k")
		c.ThawDriver()
		synctest.Wait()
		requireGone(t, c, "k")

		// Thawing alone does it as well.
		wakeCoarse(t, c)
		c.SetTTL("k", 1, time.Second)
		whileFrozen(c, func() {
			time.Sleep(2 * time.Second)
			requireLive(t, c, "k", 1)
		})
		requireGone(t, c, "k")
	})
}

// Likewise, a lifetime that is counted from the coarse clock is short by as much
// as that is behind: usually a refresh period at most, but if the driver does not
// run, then by all that time.
func TestADriverThatIsFrozenMakesLongLifetimesShort(t *testing.T) {
	for _, exact := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, kvOpt{ExactClock: exact})
			if !exact {
				wakeCoarse(t, c)
			}
			whileFrozen(c, func() {
				time.Sleep(10 * time.Second)
				c.SetTTL("long", 1, 15*time.Second)
				c.SetTTL("exact", 1, wheelcache.CoarseLifetime-1)
			})
			synctest.Wait()
			require.Equal(t, wheelcache.CoarseLifetime-1, remains(t, c, "exact"))
			if exact {
				require.Equal(t, 15*time.Second, remains(t, c, "long"))
			} else {
				require.Equal(t, 5*time.Second, remains(t, c, "long"))
			}
		})
	}
}

// requireExactWhileFrozen checks that an entry lives until its deadline, and not
// beyond, while the driver does not run.
func requireExactWhileFrozen(t *testing.T, c *kvCache, ttl time.Duration) {
	t.Helper()
	c.SetTTL("k", 1, ttl)
	whileFrozen(c, func() {
		time.Sleep(ttl - 1)
		requireLive(t, c, "k", 1)
		time.Sleep(time.Nanosecond)
		requireGone(t, c, "k")
	})
}

func TestADriverFrozenWithinTheSlackChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakeCoarse(t, c)
		for _, ttl := range []time.Duration{1, 100 * time.Millisecond, wheelcache.Slack - wheelcache.RefreshPeriod} {
			useFor(t, c, wheelcache.RefreshPeriod)
			requireExactWhileFrozen(t, c, ttl)
		}
	})
}

func TestExactClockIsExactHoweverLongTheDriverIsFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{ExactClock: true})
		c.SetTTL("busy", 1, time.Hour)
		for range 10 * wheelcache.WakeAfter {
			c.Get("busy")
		}
		require.False(t, c.CoarseClockAwake())
		for _, ttl := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
			requireExactWhileFrozen(t, c, ttl)
		}
	})
}

func TestAKeyThatIsReadAllTheTimeDoesNotDie(t *testing.T) {
	for name, o := range map[string]kvOpt{
		"short": {Expiry: expiry.AfterAccess[string, int](50 * time.Millisecond)},
		"long":  {Expiry: expiry.AfterAccess[string, int](3 * time.Second)},
		"exact": {Expiry: expiry.AfterAccess[string, int](50 * time.Millisecond), ExactClock: true},
		"ticks": {Expiry: expiry.AfterAccess[string, int](50 * time.Millisecond), Tick: time.Millisecond},
	} {
		for _, every := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 39 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				var j journal[string, int]
				o.OnRemoval = j.add
				c := open(t, o)
				c.Set("k", 1)
				for range 1000 {
					time.Sleep(every)
					for range 10 {
						_, ok := c.Get("k")
						require.True(t, ok, name)
					}
				}
				synctest.Wait()
				require.Empty(t, j.take())
				time.Sleep(4 * time.Second)
				synctest.Wait()
				require.Len(t, j.take(), 1)
			})
		}
	}
}

func TestASlidingReadWithinATickWritesNothing(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, kvOpt{Expiry: expiry.AfterAccess[string, int](ttl)})
			for range 2 {
				c.Set("k", 1)
				v := c.VersionOf("k")
				for range 100 {
					c.Get("k")
				}
				time.Sleep(tick - 1)
				c.Get("k")
				require.Equal(t, v, c.VersionOf("k"))
				time.Sleep(wheelcache.RefreshPeriod + tick)
				synctest.Wait()
				c.Get("k")
				require.NotEqual(t, v, c.VersionOf("k"))
				wakeCoarse(t, c) // the second time with a coarse clock
			}
		})
	}
}

func TestASlidingLifetimeIsShortByLessThanATick(t *testing.T) {
	for name, tc := range map[string]struct {
		ttl   time.Duration
		exact bool
		short time.Duration
	}{
		"within the slack": {400 * time.Millisecond, false, tick},
		"exact clock":      {time.Second, true, tick},
		"coarse clock":     {time.Second, false, tick + wheelcache.RefreshPeriod}, // and by what that clock is behind
		"long":             {time.Minute, false, tick + wheelcache.RefreshPeriod},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, kvOpt{Expiry: expiry.AfterAccess[string, int](tc.ttl), ExactClock: tc.exact})
			for range 100 {
				c.Set("k", 1)
				for i := range 20 {
					time.Sleep(time.Duration(i) * time.Millisecond)
					_, ok := c.Get("k")
					require.True(t, ok)
					e, _ := c.Entry("k")
					require.Greater(t, e.TTL, tc.ttl-tc.short, name)
					require.LessOrEqual(t, e.TTL, tc.ttl, name)
				}
			}
		})
	}
}

func TestASlidingReadNeverShortensALifetimeByMoreThanARefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Minute
		c := open(t, kvOpt{Expiry: expiry.AfterAccess[string, int](ttl)})
		wakeCoarse(t, c)
		for _, store := range []func(){
			func() { c.Set("k", 1) },
			func() { c.Delete("k"); c.GetOrSet("k", 1) },
			func() { c.Set("k", 1); c.Touch("k") },
			func() { c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 1, wheelcache.OpStore }) },
		} {
			useFor(t, c, 57*time.Millisecond)
			store()
			c.Get("k")
			e, ok := c.Entry("k")
			require.True(t, ok)
			require.GreaterOrEqual(t, e.TTL, ttl-wheelcache.RefreshPeriod)
			require.LessOrEqual(t, e.TTL, ttl)
		}
	})
}

func TestSetDeadlineIsExactOnRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		for name, strip := range map[string]func(time.Time) time.Time{
			"with a monotonic reading": func(t time.Time) time.Time { return t },
			"without":                  func(t time.Time) time.Time { return t.Round(0) },
			"in UTC":                   func(t time.Time) time.Time { return t.Round(0).UTC() },
		} {
			for _, d := range []time.Duration{1, time.Second, time.Hour} {
				c.SetDeadline("k", 1, strip(time.Now().Add(d)))
				time.Sleep(d - 1)
				requireLive(t, c, "k", 1)
				time.Sleep(time.Nanosecond)
				requireGone(t, c, "k")
			}
			c.SetDeadline("k", 1, strip(time.Now()))
			requireGone(t, c, "k")
			c.SetDeadline("k", 1, strip(time.Now().Add(-time.Hour)))
			requireGone(t, c, name)
		}
	})
}

func TestClockSteps(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{})
	c.SetTTL("k", 1, time.Hour)
	clock.Advance(30 * time.Minute)
	c.Flush()
	clock.Advance(-20 * time.Minute) // backward
	requireLive(t, c, "k", 1)
	c.SetTTL("new", 2, time.Minute)
	c.Flush()
	requireLive(t, c, "new", 2)
	clock.Advance(time.Minute - 1)
	requireLive(t, c, "new", 2)
	clock.Advance(1)
	requireGone(t, c, "new")
	require.Equal(t, []kv{{Key: "new", Value: 2, Cause: expired, Deadline: epoch.Add(11 * time.Minute)}}, removed())
	clock.Advance(-10 * time.Hour) // before the epoch
	requireLive(t, c, "k", 1)
	c.SetTTL("early", 3, time.Second)
	e, ok := c.Entry("early")
	require.True(t, ok)
	require.Equal(t, time.Second, e.TTL)
	clock.Advance(time.Second)
	requireGone(t, c, "early")
	for range 100 { // frozen
		c.Flush()
		requireLive(t, c, "k", 1)
	}
	clock.Advance(1000 * time.Hour) // forward
	requireGone(t, c, "k")
	c.Flush()
	require.Zero(t, c.Len())
	c.SetTTL("k", 4, time.Second)
	clock.Advance(time.Second)
	c.Flush()
	require.Zero(t, c.Len())
	requireBooks(t, c)
}

func TestAClockThatStepsBackwardNeverExpiresEarly(t *testing.T) {
	c, clock := openFake(t, kvOpt{Shards: 1})
	for i := range 200 {
		clock.Advance(time.Duration(i%7) * time.Second)
		c.SetTTL(strconv.Itoa(i), i, time.Hour)
		c.Flush()
		clock.Advance(-time.Duration(i%11) * time.Second)
		c.Flush()
	}
	require.Equal(t, 200, c.Len())
	clock.Advance(2 * time.Hour)
	c.Flush()
	require.Zero(t, c.Len())
}

func TestDeadlinesAtEdges(t *testing.T) {
	const slots = 8
	turn := slots * tick
	ttls := []time.Duration{1}
	for _, edge := range []time.Duration{tick, turn - tick, turn, turn + tick, 2 * turn, 3*turn + 5*tick, 1000 * turn, 1001 * turn, time.Hour} {
		ttls = append(ttls, edge-1, edge, edge+1)
	}
	for _, start := range []time.Duration{0, 1, tick - 1, tick, turn - 1, turn, 12345 * time.Second} {
		c, clock, removed := openJournal(t, kvOpt{Slots: slots, Shards: 1})
		clock.Advance(start)
		for i, ttl := range ttls {
			c.SetTTL(strconv.Itoa(i), i, ttl)
		}
		now := time.Duration(0)
		left := len(ttls)
		for _, to := range ttls {
			for _, at := range []time.Duration{to - 1, to} {
				if at <= now {
					continue
				}
				clock.Advance(at - now)
				now = at
				for _, r := range removed() {
					left--
					require.LessOrEqual(t, ttls[r.Value], now, "never early")
					require.Zero(t, r.Late-(epoch.Add(start+now).Sub(r.Deadline)))
				}
				live := 0
				for i, ttl := range ttls {
					_, ok := c.Peek(strconv.Itoa(i))
					require.Equal(t, ttl > now, ok, "ttl %v at %v", ttl, now)
					if ok {
						live++
					}
				}
				require.Equal(t, live, left, "Flush leaves no dead entries")
			}
		}
		require.Zero(t, c.Len())
	}
}

func TestDeadlinesNearTheEndOfTime(t *testing.T) {
	for _, every := range []time.Duration{time.Microsecond, tick, 1000 * time.Hour} {
		for _, before := range []time.Duration{2, 3, time.Millisecond, time.Hour} {
			c, clock, removed := openJournal(t, kvOpt{Tick: every, Shards: 1})
			clock.Advance(math.MaxInt64 - before)
			c.SetTTL("k", 1, before-1)
			c.SetTTL("beyond", 2, before)
			c.SetTTL("far beyond", 3, math.MaxInt64-1)
			clock.Advance(before - 2)
			requireLive(t, c, "k", 1)
			clock.Advance(1)
			requireGone(t, c, "k")
			requireLive(t, c, "beyond", 2)
			requireLive(t, c, "far beyond", 3)
			require.Len(t, removed(), 1, "tick %v, %v before the end", every, before)
		}
	}
}

func TestACacheMadeAtAnOddTime(t *testing.T) {
	for _, at := range []time.Time{
		time.Unix(0, 0),
		time.Unix(0, 1),
		time.Unix(1<<40, 999_999_999),
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		time.Date(1677, 9, 21, 0, 12, 43, 0, time.UTC),  // where UnixNano begins
		time.Date(2262, 4, 11, 23, 47, 16, 0, time.UTC), // and ends
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -7*3600)),
	} {
		t.Run(at.String(), func(t *testing.T) {
			clock := clockwork.NewFakeClockAt(at)
			c := open(t, kvOpt{Clock: clock})
			for i := range 30 {
				ttl := time.Duration(1) << i
				c.SetTTL("k", i, ttl)
				c.SetDeadline("d", i, clock.Now().Add(ttl))
				e, ok := c.Entry("k")
				require.True(t, ok)
				require.True(t, clock.Now().Add(ttl).Equal(e.Deadline))
				clock.Advance(ttl - 1)
				requireLive(t, c, "k", i)
				requireLive(t, c, "d", i)
				clock.Advance(1)
				requireGone(t, c, "k")
				requireGone(t, c, "d")
			}
			c.Flush()
			require.Zero(t, c.Len())
		})
	}
}

// The number of a tick is kept in 32 bits, where one stands for none.
func TestEntriesThatWaitBeyondTheWheelsHorizonAreReclaimed(t *testing.T) {
	const horizon = 1 << 30 // ticks
	for _, cursor := range []int64{0, 1, horizon - 1, horizon, 3*horizon - 1, 3 * horizon, 3*horizon + 1, 4*horizon - 1, 4 * horizon, 7 * horizon} {
		for _, beyond := range []int64{-1, 0, 1, 2, horizon, 4 * horizon} {
			t.Run(fmt.Sprintf("cursor=%d/beyond=%d", cursor, beyond), func(t *testing.T) {
				c, clock, removed := openJournal(t, kvOpt{Tick: time.Microsecond, Shards: 1, Slots: 64})
				c.SetTTL("first", 1, 1) // makes the wheel
				require.Len(t, func() []kv { clock.Advance(1); return removed() }(), 1)
				clock.Advance(time.Duration(cursor)*time.Microsecond - 1)
				c.Flush()
				ttl := time.Duration(horizon+beyond) * time.Microsecond
				c.SetTTL("k", 1, ttl)
				clock.Advance(ttl - 1)
				c.Flush()
				requireLive(t, c, "k", 1)
				clock.Advance(2 * time.Microsecond)
				require.Len(t, removed(), 1)
				require.Zero(t, c.Len())
			})
		}
	}
}

// A creeping clock goes on with each look at it, as real ones do.
type creepingClock struct {
	*clockwork.FakeClock
	mu    sync.Mutex
	looks int
}

func (c *creepingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks++; c.looks < 10_000 { // a loop that waits for it to stand still comes to an end
		c.FakeClock.Advance(1)
	}
	return c.FakeClock.Now()
}

func TestAnInjectedClockNeedNotStandStill(t *testing.T) {
	clock := &creepingClock{FakeClock: clockwork.NewFakeClockAt(epoch)}
	c := open(t, kvOpt{Clock: clock})
	c.SetTTL("k", 1, time.Hour)
	require.Less(t, clock.looks, 100)
}

func TestARealClockMayBeInjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{Clock: clockwork.NewRealClock()})
		c.SetTTL("k", 1, time.Second)
		time.Sleep(time.Second - 1)
		requireLive(t, c, "k", 1)
		time.Sleep(time.Nanosecond)
		requireGone(t, c, "k")
		synctest.Wait()
		require.Zero(t, c.Len())
	})
}

// dropped makes a cache, lets use have it, and drops it without Close.
func dropped(t testing.TB, o kvOpt, use func(c *kvCache)) weak.Pointer[kvCache] {
	t.Helper()
	c, err := wheelcache.New(o)
	require.NoError(t, err)
	use(c)
	return weak.Make(c)
}

// requireCollected checks that the collector frees what p points to.
func requireCollected(t testing.TB, p ...weak.Pointer[kvCache]) {
	t.Helper()
	for range 100 {
		runtime.GC()
		left := 0
		for i := range p {
			if p[i].Value() != nil {
				left++
			}
		}
		if left == 0 {
			return
		}
		runtime.Gosched()
	}
	require.Fail(t, "a dropped cache has not been collected")
}

var droppedUses = map[string]func(c *kvCache){
	"unused":  func(*kvCache) {},
	"filled":  func(c *kvCache) { c.Set("k", 1) },
	"waiting": func(c *kvCache) { c.SetTTL("k", 1, time.Hour) },
	"short":   func(c *kvCache) { c.SetTTL("k", 1, time.Millisecond) },
	"awake": func(c *kvCache) {
		c.SetTTL("k", 1, time.Hour)
		for range 1000 {
			c.Get("k")
		}
	},
	"removed": func(c *kvCache) { c.Set("k", 1); c.Clear(); c.Set("k", 1); c.Delete("k") },
	"closed":  func(c *kvCache) { c.SetTTL("k", 1, time.Hour); c.Close() },
}

func TestACacheThatIsDroppedWithoutCloseIsCollected(t *testing.T) {
	for name, use := range droppedUses {
		for _, listened := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/listened=%t", name, listened), func(t *testing.T) {
				o := kvOpt{}
				if listened {
					o.OnRemoval = func(kv) {}
				}
				requireCollected(t, dropped(t, o, use))
				require.Zero(t, libraryGoroutines())
				t.Run("in a bubble", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := dropped(t, o, use)
						synctest.Wait()
						requireCollected(t, p)
						time.Sleep(2 * time.Hour) // its timer fires and finds nothing
						synctest.Wait()
						require.Zero(t, libraryGoroutines())
					})
				})
				t.Run("on a fake clock", func(t *testing.T) {
					clock := clockwork.NewFakeClock()
					o.Clock = clock
					requireCollected(t, dropped(t, o, use))
					clock.Advance(2 * time.Hour)
				})
			})
		}
	}
}

func TestThousandsOfCachesMadeAndDroppedLeaveNothing(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 300
	}
	var all []weak.Pointer[kvCache]
	for i := range n {
		all = append(all, dropped(t, kvOpt{Shards: 1, OnRemoval: func(kv) {}}, func(c *kvCache) {
			c.SetTTL("k", i, time.Hour)
			c.SetTTL("gone", i, 0)
			c.Flush()
			if i%3 == 0 {
				c.Close()
			}
		}))
	}
	requireCollected(t, all...)
	require.Zero(t, libraryGoroutines())
}

func TestCloseWaitsForARunningDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		c.FreezeDriver() // as if it were running
		closed := make(chan struct{})
		started := make(chan struct{})
		go func() {
			close(started)
			c.Close()
			close(closed)
		}()
		<-started
		for range 100 {
			runtime.Gosched()
			select {
			case <-closed:
				require.Fail(t, "Close has not waited")
			default:
			}
		}
		c.ThawDriver()
		<-closed
		require.Zero(t, libraryGoroutines())
	})
}

func TestCloseWaitsForARunningCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, release := newGate()
		c := openGated(t, release, kvOpt{OnRemoval: func(kv) { <-gate }})
		c.SetTTL("k", 1, time.Second)
		time.Sleep(time.Minute)
		var closed atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { c.Close(); closed.Add(1) })
			synctest.Wait()
		}
		require.Zero(t, closed.Load())
		release()
		wg.Wait()
		require.EqualValues(t, 3, closed.Load())
		synctest.Wait()
		require.Zero(t, libraryGoroutines())
	})
}

func TestCloseLeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{})
		wakes := c.CountWakes()
		for i := range 100 {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i)*time.Second+1)
		}
		require.NoError(t, c.Close())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, wakes.Load())
		require.Equal(t, 100, c.Len(), "the dead stay")
		for i := range 100 {
			requireGone(t, c, strconv.Itoa(i))
		}
	})
}

func TestAReaderLeftBehindInAReplacedTableDoesNotMissAnExtendedEntry(t *testing.T) {
	c, clock := openFake(t, wheelcache.Options[int, int]{Shards: 1})
	c.SetTTL(-1, 7, time.Second)
	v, ok := c.LateLook(-1, func() {
		for i := range 1000 { // the table grows
			c.SetTTL(i, i, time.Hour)
		}
		require.True(t, c.Move(-1, time.Hour)) // in time
		clock.Advance(time.Second)             // now the old deadline has passed
	})
	require.True(t, ok, "the entry never was expired")
	require.Equal(t, 7, v)
}

func TestALongComputeHoldsUpOnlyItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{Shards: 2})
		wakeCoarse(t, c)
		slow, other := "slow", ""
		for i := 0; other == ""; i++ {
			if k := strconv.Itoa(i); c.HashOf(k)>>63 != c.HashOf(slow)>>63 {
				other = k
			}
		}
		c.SetTTL(other, 1, 2*time.Second)
		started, end := make(chan struct{}), make(chan struct{})
		go c.Compute(slow, func(int, bool) (int, wheelcache.Op) {
			close(started)
			<-end
			return 0, wheelcache.OpKeep
		})
		<-started
		time.Sleep(2 * time.Second)
		_, ok := c.Get(other)
		require.False(t, ok, "a read in another shard is exact")
		close(end)
		synctest.Wait()
	})
}
