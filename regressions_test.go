package wheelcache_test

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
	"github.com/wheelcache/wheelcache/wheel"
)

// What other caches and timers got wrong once, one test each: its name says what
// must hold, its comment what happened, and where. After "cf." stands what was read
// in a source and not run.

// Values were returned long after their life, as only a cleaner looked at it, and only
// at the oldest: allegro/bigcache#63, #105, #138, #152, #347, #376.
func TestP01_ReadsCompareTheTimeWithTheEntrysOwnDeadline(t *testing.T) {
	for _, viewer := range []string{"Get", "Peek", "Entry", "All", "Keys", "Expiring"} {
		c, clock, _ := frozenCache(t, kvOpt{TTL: time.Hour, Shards: 1})
		c.Set("older, with a longer life", 1)
		c.SetTTL("k", 1, time.Second)
		clock.Advance(time.Second - 1)
		require.True(t, viewers[viewer](c), viewer)
		clock.Advance(1)
		require.Equal(t, 2, c.Len(), "nobody has cleaned")
		require.False(t, viewers[viewer](c), viewer)
		requireLive(t, c, "older, with a longer life", 1)
	}
}

// Get handed out expired values, and its callers had to ask whether they were:
// karlseguin/ccache#83.
func TestP02_AnExpiredEntryIsAMiss(t *testing.T) {
	c, clock, _ := frozenCache(t, kvOpt{TTL: time.Second})
	c.Set("k", 1)
	clock.Advance(time.Second)
	v, ok := c.Get("k")
	require.False(t, ok)
	require.Zero(t, v)
	e, ok := c.Entry("k")
	require.False(t, ok)
	require.Zero(t, e)
	s := c.Stats()
	require.Equal(t, []uint64{0, 1}, []uint64{s.Hits, s.Misses})
	require.Equal(t, 1, s.Entries, "though it is there still")
}

// Around the deadline, reads answered nil and true: hashicorp/golang-lru#150. Here
// the clock goes on at each look, so that the deadline passes within operations.
func TestP03_ValueAndOKAreOneDecision(t *testing.T) {
	for viewer, live := range viewers { // each panics if the value does not fit
		for ttl := time.Duration(1); ttl <= 12; ttl++ {
			clock := &creepingClock{FakeClock: clockwork.NewFakeClockAt(epoch)}
			c := open(t, kvOpt{Clock: clock})
			freeze(t, c)
			c.SetTTL("k", 1, ttl)
			switch viewer {
			case "Get", "Peek", "Entry", "All", "Keys", "Expiring":
				for dead := false; clock.looks < 40; {
					now := live(c)
					require.False(t, dead && now, "%s: dead, and then alive", viewer)
					dead = !now
				}
			}
			clock.FakeClock.Advance(time.Second)
			require.False(t, live(c), viewer)
		}
	}
}

// Overwriting what had expired, but not been swept, told nobody or gave a wrong reason:
// hashicorp/golang-lru#189, patrickmn/go-cache#48, moka-rs/moka#601.
func TestP04_OverwritingAnExpiredEntryDeliversExpired(t *testing.T) {
	for verb, store := range storesOver {
		c, clock, removed := frozenCache(t, kvOpt{TTL: time.Hour})
		c.SetTTL("k", 1, time.Second)
		clock.Advance(time.Minute)
		store(c)
		require.True(t, c.Delete("k"))
		got := removed()
		require.Equal(t, []wheelcache.Cause{expired, deleted}, causesOf(got), verb)
		require.Equal(t, []int{1, 2}, []int{got[0].Value, got[1].Value}, verb)
		require.Equal(t, epoch.Add(time.Second), got[0].Deadline, verb)
		requireBooks(t, c)
	}
}

// A value can be read until the wheel comes by, if Get looks at no deadline:
// cf. zeromicro/go-zero collection.Cache.
func TestP05_TheWheelReclaimsAndDecidesNothing(t *testing.T) {
	for _, slots := range []int{1, 256} {
		c, clock, removed := openJournal(t, kvOpt{Tick: time.Hour, Slots: slots})
		c.SetTTL("k", 1, time.Minute+1)
		c.SetTTL("rounds", 1, 1000*time.Hour+1)
		clock.Advance(time.Minute)
		requireLive(t, c, "k", 1)
		clock.Advance(1)
		requireGone(t, c, "k")
		require.Equal(t, 2, c.Len(), "the wheel comes by in 59 minutes")
		clock.Advance(time.Hour)
		require.Len(t, removed(), 1)
		clock.Advance(999*time.Hour - time.Minute - 1)
		requireLive(t, c, "rounds", 1)
		clock.Advance(1)
		requireGone(t, c, "rounds")
	}
}

// Set and Invalidate can hand back the expired value that was there before as if it were
// present: cf. maypok86/otter cache_impl.go.
func TestP06_APreviousValueThatHasExpiredCountsAsAbsent(t *testing.T) {
	for _, viewer := range []string{"GetOrSet", "Replace", "Delete", "GetAndDelete", "Compute", "Compute's answer", "CompareAndSwap", "CompareAndDelete", "DeleteFunc"} {
		c, clock, removed := frozenCache(t, kvOpt{})
		c.SetTTL("k", 1, time.Second)
		clock.Advance(time.Second)
		require.False(t, viewers[viewer](c), viewer)
		require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()), viewer)
	}
}

// After Close, expired entries can be seen again if only the cleaner's flag decides:
// cf. hashicorp/golang-lru expirable, TestCache_CloseGoRoutine.
func TestP07_CloseStopsReclaimingNotExpiring(t *testing.T) {
	for _, viewer := range []string{"Get", "Peek", "Entry", "All", "Keys", "Expiring", "GetOrSet", "Compute's answer", "Delete"} {
		c, clock := openFake(t, kvOpt{Tick: time.Hour}) // so that the dead stay in place
		c.SetTTL("dead before", 1, time.Second)
		c.SetTTL("k", 1, time.Minute)
		clock.Advance(time.Second)
		require.NoError(t, c.Close())
		requireGone(t, c, "dead before")
		clock.Advance(time.Minute - time.Second - 1)
		requireLive(t, c, "k", 1)
		clock.Advance(1)
		require.Equal(t, 2, c.Len(), "nobody reclaims")
		require.False(t, viewers[viewer](c), viewer)
		requireGone(t, c, "dead before")
	}
}

// Counts of entries included dead ones, for however long, and contradicted iteration:
// coocood/freecache#122, jellydator/ttlcache#150, stusmall/ttl_cache#4.
func TestP08_CountsAreExactAfterFlushAndIterationAlways(t *testing.T) {
	c, clock, _ := frozenCache(t, kvOpt{})
	for i := range 100 {
		c.SetTTL(strconv.Itoa(i), i, time.Duration(i+1)*time.Millisecond)
	}
	for left := 100; left >= 0; left -= 5 {
		require.GreaterOrEqual(t, c.Len(), left, "it may count the dead")
		require.Len(t, maps.Collect(c.All()), left)
		require.Len(t, slices.Collect(c.Keys()), left)
		require.Len(t, maps.Collect(c.Expiring(time.Hour)), left)
		c.Flush()
		require.Equal(t, left, c.Len())
		require.Equal(t, left, c.Stats().Entries)
		clock.Advance(5 * time.Millisecond)
	}
}

// A second lasted 50 ms, 0.95 s were cut to none at all, and that meant for ever, where
// deadlines were kept in seconds: coocood/freecache#118, zeromicro/go-zero#2364.
func TestP09_LifetimesAreNotRoundedToAnyUnit(t *testing.T) {
	for _, every := range []time.Duration{time.Microsecond, tick, time.Second, time.Minute} {
		for _, phase := range []time.Duration{0, 1, 500 * time.Millisecond, 999_999_999, 59_999_999_999} {
			for _, ttl := range []time.Duration{1, 999, tick - 1, 50 * time.Millisecond, 950 * time.Millisecond, 999_999_999, time.Second, time.Second + 1, 1950 * time.Millisecond} {
				c, clock, removed := openJournal(t, kvOpt{Tick: every})
				clock.Advance(phase)
				c.SetTTL("k", 1, ttl)
				clock.Advance(ttl - 1)
				require.Empty(t, removed(), "ttl %v, phase %v, tick %v", ttl, phase, every)
				requireLive(t, c, "k", 1)
				clock.Advance(1)
				requireGone(t, c, "k")
				require.Len(t, removed(), 1, "ttl %v, phase %v, tick %v", ttl, phase, every)
			}
		}
	}
}

// With a lifetime of none, an entry could be read until the clock moved:
// kubernetes/kubernetes#39511. At the deadline it is too late, for reads and wheels.
func TestP10_TheInstantOfTheDeadlineIsTooLate(t *testing.T) {
	for verb, kill := range map[string]func(c *kvCache){
		"SetTTL":      func(c *kvCache) { c.SetTTL("k", 1, 0) },
		"SetDeadline": func(c *kvCache) { c.SetDeadline("k", 1, epoch) },
		"Move":        func(c *kvCache) { c.SetTTL("k", 1, time.Hour); c.Move("k", 0) },
	} {
		c, _, removed := openJournal(t, kvOpt{})
		kill(c) // and the clock stands still
		for _, viewer := range []string{"Get", "Peek", "Entry", "All", "Keys", "Delete"} {
			require.False(t, viewers[viewer](c), "%s, %s", verb, viewer)
		}
		require.Len(t, removed(), 1, verb)
	}
	for viewer, live := range viewers {
		c, clock, removed := frozenCache(t, kvOpt{})
		c.SetTTL("k", 1, tick)
		clock.Advance(tick)
		require.False(t, live(c), viewer)
		got := removed()
		require.NotEmpty(t, got, "the wheel says the same")
		require.Equal(t, kv{Key: "k", Value: 1, Cause: expired, Deadline: epoch.Add(tick)}, got[0], viewer)
	}
}

// A wheel swept to just before now, and what was due now stayed for a turn:
// Yiling-J/theine-go#64, PR#65.
func TestP11_AnAdvanceVisitsWhatIsDueAndNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 0))
	for _, slots := range []int{1, 8, 64} {
		w := wheel.NewHashed(slots, 0)
		waiting := make(map[uint32]int64)
		now := int64(0)
		for record := range uint32(2000) {
			waiting[record] = w.Add(record, now+1+r.Int64N(200))
			if r.IntN(3) > 0 {
				continue
			}
			now += r.Int64N(100)
			for _, visited := range advanceBy(w, now) {
				require.Contains(t, waiting, visited, "twice")
				require.LessOrEqual(t, waiting[visited], now, "early")
				delete(waiting, visited)
			}
			for _, tick := range waiting {
				require.Greater(t, tick, now, "left behind, %d slots", slots)
			}
		}
	}
}

// A task was a turn late whose slot was the one where the wheel stood, as slots and turns
// were counted from there: zeromicro/go-zero#5510.
func TestP12_SlotAndRoundComeFromTheTickAlone(t *testing.T) {
	const slots = 8
	for start := range int64(2 * slots) {
		for _, distance := range []int64{1, slots - 1, slots, slots + 1, 2 * slots, 3*slots + 1} {
			w := wheel.NewHashed(slots, 0)
			require.Empty(t, advanceBy(w, start))
			w.Add(7, start+distance)
			require.Equal(t, start+distance, tickOf(t, w), "from %d by %d", start, distance)
		}
	}
}

// Timers that are moved by noting in the old slot how far they have yet to go fire a turn
// late or early: cf. zeromicro/go-zero timingwheel.go, moveTask.
func TestP13_AMovedEntryExpiresAtItsNewDeadline(t *testing.T) {
	o := kvOpt{Shards: 1, Slots: 16}
	c, clock, removed := openJournal(t, o)
	c.SetTTL("k", 1, 25*tick)
	clock.Advance(5 * tick)
	require.Empty(t, removed())
	require.True(t, c.Move("k", 25*tick))
	clock.Advance(25*tick - 1)
	require.Empty(t, removed())
	clock.Advance(1)
	require.Equal(t, []kv{{Key: "k", Value: 1, Cause: expired, Deadline: epoch.Add(30 * tick)}}, removed())

	r := rand.New(rand.NewPCG(13, 0))
	c, clock, removed = openJournal(t, o)
	due := make(map[string]time.Time)
	for range 5000 {
		key, ttl := strconv.Itoa(r.IntN(50)), time.Duration(1+r.Int64N(int64(100*tick)))
		_, live := due[key]
		switch r.IntN(4) {
		case 0:
			c.SetTTL(key, 1, ttl)
			due[key] = clock.Now().Add(ttl)
		case 1, 2:
			require.Equal(t, live, c.Move(key, ttl))
			if live {
				due[key] = clock.Now().Add(ttl)
			}
		default:
			clock.Advance(time.Duration(r.Int64N(int64(3 * tick))))
			for _, e := range removed() {
				if e.Cause == expired {
					require.Equal(t, due[e.Key], e.Deadline)
					require.False(t, clock.Now().Before(e.Deadline), "early")
					delete(due, e.Key)
				}
			}
			for key, deadline := range due {
				require.True(t, clock.Now().Before(deadline), "key %s is late", key)
			}
		}
	}
}

// What was left of a removed timer took with it the index entry of its successor, which
// could not be removed any more and fired: zeromicro/go-zero#205.
func TestP14_ARecordLeftBehindDoesNothingToTheKeysNextEntry(t *testing.T) {
	for name, leave := range map[string]func(c *kvCache){
		"Delete": func(c *kvCache) { c.SetTTL("k", 1, 2*tick); c.Delete("k") },
		"Clear":  func(c *kvCache) { c.SetTTL("k", 1, 2*tick); c.Clear() },
		"Move":   func(c *kvCache) { c.SetTTL("k", 1, time.Hour); c.Move("k", 2*tick); c.Move("k", time.Hour) },
	} {
		for _, end := range []string{"expires", "is moved", "is deleted"} {
			c, clock, removed := openJournal(t, kvOpt{Shards: 1})
			leave(c)
			c.SetTTL("k", 2, 9*tick)
			removed()
			clock.Advance(2 * tick) // the old record comes up
			require.Empty(t, removed())
			requireLive(t, c, "k", 2)
			at := 9 * tick
			switch end {
			case "is moved":
				require.True(t, c.Move("k", 18*tick))
				at = 20 * tick
			case "is deleted":
				require.True(t, c.Delete("k"))
				require.Equal(t, []wheelcache.Cause{deleted}, causesOf(removed()))
				clock.Advance(2 * time.Hour)
				require.Empty(t, removed(), "%s: it fires anyway", name)
				continue
			}
			clock.Advance(at - 2*tick - 1)
			require.Empty(t, removed())
			clock.Advance(1)
			require.Equal(t, []kv{{Key: "k", Value: 2, Cause: expired, Deadline: epoch.Add(at)}}, removed(), "%s, %s", name, end)
			clock.Advance(2 * time.Hour)
			require.Empty(t, removed())
		}
	}
}

// A move by less than a tick fired at once, and again at the old time, with what had been
// stored by then: zeromicro/go-zero PR#5316.
func TestP15_AMoveByLessThanATickExpiresOnceAndInTime(t *testing.T) {
	for verb, move := range map[string]func(c *kvCache, ttl time.Duration){
		"Move":   func(c *kvCache, ttl time.Duration) { c.Move("k", ttl) },
		"SetTTL": func(c *kvCache, ttl time.Duration) { c.SetTTL("k", 1, ttl) },
	} {
		for _, ttl := range []time.Duration{1, tick / 2, tick - 1} {
			c, clock, removed := openJournal(t, kvOpt{})
			c.SetTTL("k", 1, time.Hour)
			clock.Advance(tick / 3)
			move(c, ttl)
			removed() // one was replaced, perhaps
			clock.Advance(ttl - 1)
			require.Empty(t, removed(), "%s by %v: at once", verb, ttl)
			requireLive(t, c, "k", 1)
			clock.Advance(1)
			require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()), "%s by %v", verb, ttl)
			c.SetTTL("k", 2, 2*time.Hour)
			clock.Advance(time.Hour)
			require.Empty(t, removed(), "%s by %v: again", verb, ttl)
			requireLive(t, c, "k", 2)
		}
	}
	c, clock, removed := openJournal(t, kvOpt{})
	c.SetTTL("k", 1, time.Hour)
	c.Move("k", 0) // expires at once, and once
	require.Len(t, removed(), 1)
	clock.Advance(time.Hour)
	require.Empty(t, removed())
}

// After a drain of all timers, one that was set anew under an old name never fired:
// zeromicro/go-zero PR#5753.
func TestP16_WhatIsStoredAfterAllWasRemovedExpires(t *testing.T) {
	for verb, empty := range map[string]func(c *kvCache){
		"Clear":      func(c *kvCache) { c.Clear() },
		"DeleteFunc": func(c *kvCache) { c.DeleteFunc(func(string, int) bool { return true }) },
		"Flush":      func(c *kvCache) { time.Sleep(4 * time.Second); c.Flush() },
	} {
		for _, n := range []int{1, 2000} { // few records stay in a wheel, many are dropped
			synctest.Test(t, func(t *testing.T) {
				var j journal[string, int]
				c := open(t, kvOpt{Shards: 1, OnRemoval: j.add})
				for round := range 3 {
					for i := range n {
						c.SetTTL(strconv.Itoa(i), i, time.Duration(round+1)*time.Second)
					}
					empty(c)
					c.Flush()
					require.Len(t, j.take(), n)
				}
				for i := range n {
					c.SetTTL(strconv.Itoa(i), i, 5*time.Second)
				}
				time.Sleep(5*time.Second + tick)
				synctest.Wait()
				events := j.take()
				require.Len(t, events, n, verb)
				for _, e := range events {
					require.Equal(t, expired, e.Cause)
					require.Less(t, e.Late, tick, verb)
				}
			})
		}
	}
}

// Drain returned before the callbacks had run: zeromicro/go-zero#5314, PR#5315.
func TestP17_FlushAndCloseReturnWhenAllCallbacksHave(t *testing.T) {
	for verb, finish := range map[string]func(c *kvCache){
		"Flush": func(c *kvCache) { c.Flush() },
		"Close": func(c *kvCache) { c.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var done int // no lock: the race detector would tell
			c := open(t, kvOpt{OnRemoval: func(kv) { time.Sleep(time.Second); done++ }})
			for i := range 5 {
				c.SetTTL(strconv.Itoa(i), i, tick)
			}
			time.Sleep(tick + time.Second/2) // the first is under way
			c.SetTTL("more", 5, 0)
			finish(c)
			require.Equal(t, 6, done, verb)
		})
	}
}

// One missed tick made a wheel lag for ever, as it counted ticks and did not ask the
// clock: zeromicro/go-zero#3619, aeron-io/agrona#73, camunda/camunda#767,
// hawkw/mycelium PR#446.
func TestP18_APauseIsMadeUpForAtOnce(t *testing.T) {
	for _, pause := range []time.Duration{10 * time.Millisecond, 10 * time.Second, 10 * time.Hour} {
		c, clock, removed := frozenCache(t, kvOpt{Shards: 1, Slots: 32})
		for i := range 10 {
			c.SetTTL(strconv.Itoa(i), i, pause*time.Duration(i+1)/10)
		}
		c.SetTTL("later", 1, pause+3*tick)
		clock.Advance(pause + tick)
		c.DrainOnce() // one wake-up
		require.Equal(t, 1, c.Len(), "%v", pause)
		clock.Advance(2 * tick)
		c.DrainOnce()
		require.Zero(t, c.Len(), "and from then on it is in time")
		require.Len(t, removed(), 11)
	}
}

// A slow callback delayed the others of its slot, and then it was the timers that seemed
// late: zeromicro/go-zero#3789.
func TestP19_ASlowCallbackMakesNoExpiryLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late []time.Duration
		c := open(t, kvOpt{OnRemoval: func(r kv) { time.Sleep(time.Minute); late = append(late, r.Late) }})
		for i := range 20 {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i/4+1)*tick)
		}
		time.Sleep(5 * tick)
		synctest.Wait()
		left, pending := c.Len(), c.Stats().Pending
		time.Sleep(time.Hour) // first, since Close waits for callbacks
		synctest.Wait()
		require.Zero(t, left, "all have gone, while the first callback runs")
		require.Equal(t, 20, pending)
		require.Equal(t, make([]time.Duration, 20), late)
	})
}

// What was further away than a turn took up to twice as long, by the bounds of the loop
// where it wraps around: nats-io/nats-server#7070.
func TestP20_DelaysAboutATurnAndManyTurnsAreExact(t *testing.T) {
	const slots = 64
	for _, distance := range []int64{slots - 1, slots, slots + 1, 2*slots - 1, 2 * slots, 2*slots + 1, 1000*slots - 1, 1000 * slots, 1000*slots + 1} {
		for _, step := range []int64{1, 7, slots - 1, slots, slots + 1, 3 * slots} {
			w := wheel.NewHashed(slots, 5)
			at := w.Add(1, 5+distance)
			now := w.Cursor()
			for ; now+step < at; now += step {
				require.Empty(t, advanceBy(w, now+step), "distance %d, steps of %d", distance, step)
			}
			require.Equal(t, []uint32{1}, advanceBy(w, now+step), "distance %d, steps of %d", distance, step)
		}
	}
}

// What was removed by another way than expiry stayed in the wheel, more than a million
// timers for eleven messages: nats-io/nats-server#8594, PR#8595. Here a record may stay,
// but not many.
func TestP21_EveryRemovalLeavesTheWheelSoonerOrLater(t *testing.T) {
	t.Parallel()
	const n = 2000
	each := func(f func(c *kvCache, key string)) func(c *kvCache) {
		return func(c *kvCache) {
			for i := range n {
				f(c, strconv.Itoa(i))
			}
		}
	}
	for name, tc := range map[string]struct {
		use  func(c *kvCache)
		most int
	}{
		"Delete":       {each(func(c *kvCache, key string) { c.Delete(key) }), n / 10},
		"GetAndDelete": {each(func(c *kvCache, key string) { c.GetAndDelete(key) }), n / 10},
		"Compute": {each(func(c *kvCache, key string) {
			c.Compute(key, func(int, bool) (int, wheelcache.Op) { return 0, wheelcache.OpRemove })
		}), n / 10},
		"CompareAndDelete": {each(func(c *kvCache, key string) { wheelcache.CompareAndDelete(c, key, 1) }), n / 10},
		"SetTTL 0":         {each(func(c *kvCache, key string) { c.SetTTL(key, 2, 0) }), n / 10},
		"Move 0":           {each(func(c *kvCache, key string) { c.Move(key, 0) }), n / 10},
		"DeleteFunc":       {func(c *kvCache) { c.DeleteFunc(func(string, int) bool { return true }) }, n / 10},
		"Clear":            {func(c *kvCache) { c.Clear() }, n / 10},
		"moves": {each(func(c *kvCache, key string) {
			for ttl := 59 * time.Minute; ttl > 0; ttl -= time.Minute {
				c.Move(key, ttl) // each adds a record
			}
		}), 2 * n},
		"overwrites": {each(func(c *kvCache, key string) {
			for ttl := 59 * time.Minute; ttl > 0; ttl -= time.Minute {
				c.SetTTL(key, 1, ttl)
			}
		}), 2 * n},
		"keys come and go": {func(c *kvCache) {
			c.Clear()
			for i := range 50_000 {
				c.SetTTL(strconv.Itoa(i), i, time.Hour)
				c.Delete(strconv.Itoa(i - 11))
			}
		}, n / 10},
	} {
		c, clock := openFake(t, kvOpt{Shards: 1})
		for i := range n {
			c.SetTTL(strconv.Itoa(i), 1, time.Hour)
		}
		tc.use(c)
		require.LessOrEqual(t, c.Stats().Waiting, tc.most, "%s: records for %d entries", name, c.Len())
		clock.Advance(2 * time.Hour)
		c.Flush()
		require.Zero(t, c.Stats().Waiting, name)
		require.Zero(t, c.Len(), name)
	}
}

// Each store of a new lifetime put off the timer, which never fired, and stores waited for
// the whole of a pass: nats-io/nats-server PR#7344.
func TestP22_AStoreNeverPutsTheDriverOffNorWaitsForAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal[string, int]
		c := open(t, kvOpt{OnRemoval: j.add})
		wakes := c.CountWakes()
		c.SetTTL("due", 1, 5*tick)
		for i := range 100 {
			c.SetTTL(strconv.Itoa(i), i, time.Hour+time.Duration(i)*time.Minute)
			time.Sleep(time.Millisecond / 2)
		}
		synctest.Wait()
		require.Len(t, j.take(), 1)
		require.EqualValues(t, 1, wakes.Load(), "a store does not wake it either")
	})

	c, clock, _ := frozenCache(t, kvOpt{Shards: 1})
	for i := range 1000 {
		c.SetTTL(strconv.Itoa(i), i, time.Second)
	}
	clock.Advance(time.Second)
	stored := 0
	for most, more := 0, true; more; stored++ {
		most, more = c.DrainOnce()
		require.LessOrEqual(t, most, wheelcache.DrainPerHold)
		c.SetTTL("in between "+strconv.Itoa(stored), 1, time.Hour)
	}
	require.Equal(t, stored, c.Len())
	require.GreaterOrEqual(t, stored, 1000/wheelcache.DrainPerHold)
}

// While one went on storing, nothing expired, until one stopped: jellydator/ttlcache#9.
func TestP23_ExpiryKeepsPaceWithSteadyStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal[string, int]
		c := open(t, kvOpt{OnRemoval: j.add})
		time.Sleep(time.Millisecond / 2) // stores are not in the way of ticks
		for i := range 5000 {
			c.SetTTL("hot", i, 50*time.Millisecond)
			c.SetTTL(strconv.Itoa(i%200), i, 50*time.Millisecond)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.LessOrEqual(t, c.Len(), 1+50+int(tick/time.Millisecond))
		}
		ended := 0
		for _, e := range j.take() {
			if e.Cause == expired {
				ended++
				require.Less(t, e.Late, tick)
			}
		}
		require.GreaterOrEqual(t, ended, 5000-60, "all but those of the last 60 ms")
	})
}

// Of the entry that was first in line, a shorter lifetime did not take effect, as the timer
// stayed set to the old one: jellydator/ttlcache#204.
func TestP24_AShorterLifetimeTakesEffectWithinATick(t *testing.T) {
	for verb, move := range map[string]func(c *kvCache, ttl time.Duration){
		"Move":        func(c *kvCache, ttl time.Duration) { c.Move("k", ttl) },
		"SetTTL":      func(c *kvCache, ttl time.Duration) { c.SetTTL("k", 1, ttl) },
		"SetDeadline": func(c *kvCache, ttl time.Duration) { c.SetDeadline("k", 1, time.Now().Add(ttl)) },
	} {
		for place, others := range map[string][]time.Duration{
			"only":   nil,
			"first":  {2 * time.Hour, 4 * time.Hour},
			"middle": {time.Minute, 4 * time.Hour},
			"last":   {time.Minute, 2 * time.Minute},
		} {
			for _, to := range []time.Duration{1, tick, time.Second, 90 * time.Second, time.Hour - 1, time.Hour, 3 * time.Hour, 5 * time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					var j journal[string, int]
					c := open(t, kvOpt{OnRemoval: j.add})
					want := time.Now().Add(to)
					for i, ttl := range others {
						c.SetTTL(strconv.Itoa(i), 0, ttl)
					}
					c.SetTTL("k", 1, time.Hour)
					move(c, to)
					time.Sleep(6 * time.Hour)
					ended := 0
					for _, e := range j.take() {
						require.Less(t, e.Late, tick, "%s the %s to %v: %+v", verb, place, to, e)
						if e.Cause == expired {
							ended++
							require.True(t, e.Key != "k" || e.Deadline.Equal(want))
						}
					}
					require.Equal(t, len(others)+1, ended)
				})
			}
		}
	}
}

// Resets at the edges of levels, for now and for the past panicked or woke up wrongly, and
// after some years of uptime everything did: tokio-rs/tokio#849, #868, #2473, PR#3270,
// PR#5630, PR#8274.
func TestP25_AWheelDoesNotDependOnWhenItWasMade(t *testing.T) {
	course := func(start int64) (visits []int64) {
		w := wheel.NewHashed(8, start)
		var record uint32
		for _, now := range []int64{0, 1, 2, 7, 8, 9, 63, 64, 65, 500, 5000, wheel.Horizon, wheel.Horizon + 1, 2*wheel.Horizon - 3} {
			for _, distance := range []int64{wheel.Horizon + 1, wheel.Horizon, 4096, 512, 64, 17, 9, 8, 7, 1, 0, -1, -64, math.MinInt32} {
				record++
				visits = append(visits, w.Add(record, start+now+distance)-start)
			}
			moved := record % 3
			for w.Advance(start+now, 5, func(r uint32, tick int64) int64 {
				visits = append(visits, int64(r), tick-start)
				if r%3 == moved && r != record {
					record++
					return tick + int64(r)%20 // moved, to the past sometimes
				}
				return wheel.Done
			}) {
			}
			visits = append(visits, w.Cursor()-start, int64(w.Len()))
		}
		return visits
	}
	want := course(0)
	for _, start := range []int64{
		-1, 8, 12344 * 8, 1 << 31, 1<<31 - 8, 1<<32 - 8, 1<<32 - 64, 1<<32 - 5000&^7, 1 << 36, 1<<36 - 8, -1 << 32,
		1<<32 - wheel.Horizon, math.MinInt64 + 1<<32, math.MaxInt64&^7 - 5*wheel.Horizon,
	} {
		require.Equal(t, want, course(start&^7), "made at tick %d", start)
	}

	for _, uptime := range []time.Duration{0, 1 << 36 * time.Millisecond, 290 * 365 * 24 * time.Hour} {
		c, clock, removed := openJournal(t, kvOpt{})
		clock.Advance(uptime)
		c.SetTTL("k", 1, time.Hour)
		clock.Advance(time.Minute)
		c.Move("k", time.Minute)
		c.SetDeadline("now", 2, clock.Now())
		require.Len(t, removed(), 1)
		clock.Advance(time.Minute - 1)
		requireLive(t, c, "k", 1)
		clock.Advance(1)
		require.Len(t, removed(), 1, "after %v", uptime)
	}
}

// A lifetime that an update changed did not change the wake-up, which came minutes or hours
// off: ben-manes/caffeine#431, #478, #542, #859.
func TestP26_TheDriverWakesInTimeAfterAnyChange(t *testing.T) {
	byValue := func(_ string, v int) time.Duration { return time.Duration(v) * time.Millisecond }
	for name, policy := range map[string]expiry.Policy[string, int]{
		"Func": expiry.Func(byValue),
		"update": funcs{create: byValue, update: func(_ string, v int, left time.Duration) time.Duration {
			return left/2 + time.Duration(v%100)*time.Millisecond
		}},
		"read": funcs{create: byValue, read: func(_ string, v int, left time.Duration) time.Duration {
			return left*time.Duration(v%4)/2 + 1
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var j journal[string, int]
			c := open(t, kvOpt{Expiry: policy, OnRemoval: j.add, ExactClock: true})
			r := rand.New(rand.NewPCG(26, 0))
			for range 2000 {
				key, v := strconv.Itoa(r.IntN(3)), 1+r.IntN(2000)
				switch r.IntN(5) {
				case 0, 1:
					c.Set(key, v)
				case 2:
					c.Get(key)
				case 3:
					c.Compute(key, func(int, bool) (int, wheelcache.Op) { return v, wheelcache.OpStore })
				case 4:
					c.Touch(key)
				}
				require.True(t, c.Len() == 0 || c.Armed(), name)
				time.Sleep(time.Duration(r.IntN(int(100 * time.Millisecond))))
				synctest.Wait()
				for _, e := range j.take() {
					require.Less(t, e.Late, tick, name)
				}
			}
			time.Sleep(time.Minute)
			require.Zero(t, c.Len(), name)
		})
	}
}

// Timers fired early: long ones, for want of rounds, and those added to the slot that was
// being gone through: twitter/rpc-perf#180, element-hq/synapse#17850, tgstation#38994, #64242.
func TestP27_NothingExpiresEarly(t *testing.T) {
	const slots = 8
	w := wheel.NewHashed(slots, 0)
	waiting := make(map[uint32]int64)
	add := func(tick int64) {
		record := uint32(len(waiting))
		waiting[record] = w.Add(record, tick)
	}
	for _, distance := range []int64{1, 2, slots, slots + 1, 5 * slots, 1000*slots + 1} {
		add(distance)
	}
	visits := 0
	for now := int64(1); now <= 1100*slots; now += 1 + now%3 {
		w.Advance(now, math.MaxInt, func(record uint32, tick int64) int64 {
			require.Equal(t, waiting[record], tick)
			require.GreaterOrEqual(t, now, tick, "early")
			if visits++; visits%3 > 0 && visits < 300 {
				for _, distance := range []int64{0, slots, 7 * slots} { // this slot again
					add(tick + distance)
				}
			}
			return wheel.Done
		})
	}
	require.Equal(t, len(waiting), visits)

	synctest.Test(t, func(t *testing.T) {
		var c *kvCache
		ended, early := 0, 0
		c = open(t, kvOpt{Shards: 1, Slots: slots, OnRemoval: func(r kv) {
			if time.Now().Before(r.Deadline) {
				early++
			}
			if ended++; r.Value > 0 {
				c.SetTTL(r.Key, r.Value-1, time.Duration(r.Value)*slots*tick) // whole turns
				c.Move(r.Key, time.Duration(r.Value+1)*slots*tick)
			}
		}})
		for i := range 100 {
			c.SetTTL(strconv.Itoa(i), 5, time.Duration(i+1)*tick)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, early)
		require.Equal(t, 600, ended)
	})
}

// A negative delay fired ten seconds late, or ended the thread of the timers:
// netty/netty#1953, reactor/reactor#276.
func TestP28_WhatIsOverdueIsDueAtOnce(t *testing.T) {
	for _, tick := range []int64{5, 4, 0, -1, -1 << 40, math.MinInt64} {
		w := wheel.NewHashed(512, 5)
		require.EqualValues(t, 6, w.Add(1, tick))
		require.EqualValues(t, 6, tickOf(t, w))
	}
	for _, ttl := range []time.Duration{0, -1, -10 * time.Second, math.MinInt64} {
		for verb, use := range map[string]func(c *kvCache){
			"SetTTL":      func(c *kvCache) { c.SetTTL("k", 1, ttl) },
			"SetDeadline": func(c *kvCache) { c.SetDeadline("k", 1, epoch.Add(ttl)) },
			"Move":        func(c *kvCache) { c.SetTTL("k", 1, time.Hour); c.Move("k", ttl) },
			"Set":         func(c *kvCache) { c.Set("k", 1) },
		} {
			c, clock, removed := openJournal(t, kvOpt{Expiry: funcs{create: always(ttl)}})
			use(c)
			requireGone(t, c, "k")
			require.Equal(t, []kv{{Key: "k", Value: 1, Cause: expired, Deadline: epoch}}, removed(), "%s, %v", verb, ttl)
			clock.Advance(time.Minute)
			require.Empty(t, removed())
		}
	}
}

// A timer that was cancelled kept its memory until its time came, and was discounted twice:
// netty/netty#2541, #2561, #5647, #14959.
func TestP29_ADeletedValueIsFreedAtOnceAndCountedOnce(t *testing.T) {
	type value [256]byte
	var c *wheelcache.Cache[int, *value]
	c, _ = openFake(t, wheelcache.Options[int, *value]{Shards: 1})
	const n = 50
	var values []weak.Pointer[value]
	for i := range n {
		v := new(value)
		c.SetTTL(i, v, time.Hour)
		values = append(values, weak.Make(v))
	}
	c.SetTTL(n, new(value), time.Hour)
	for i := range n {
		require.True(t, c.Delete(i))
		require.False(t, c.Delete(i), "twice")
	}
	s := c.Stats()
	require.Equal(t, 1, s.Entries)
	require.EqualValues(t, n, s.Deleted)
	require.Greater(t, s.Waiting, 1, "there still are records")
	runtime.GC()
	runtime.GC() // what the first one may have found on a stack
	for i, v := range values {
		require.Nil(t, v.Value(), "value %d", i)
	}
	runtime.KeepAlive(c)
	requireBooks(t, c)
}

// A removal just after its timer had been added was lost, since both went through a
// channel: rfyiamcool/go-timewheel#20.
func TestP30_ADeleteRightAfterASetFindsIt(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{})
	for i := range 1000 {
		c.SetTTL("k", i, tick)
		requireLive(t, c, "k", i)
		require.True(t, c.Delete("k"))
		requireGone(t, c, "k")
	}
	clock.Advance(time.Minute)
	for _, e := range removed() {
		require.Equal(t, deleted, e.Cause)
	}
	requireBooks(t, c)
}

// Expirations were announced minutes late, and no number told: redis/redis#7413,
// valkey-io/valkey#4384.
func TestP31_LatenessIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal[string, int]
		c := open(t, kvOpt{OnRemoval: j.add})
		for i := range 100 {
			c.SetTTL(strconv.Itoa(i), i, time.Minute)
		}
		c.SetTTL("in time", 1, time.Second)
		time.Sleep(2 * time.Second)
		whileFrozen(c, func() { time.Sleep(5 * time.Minute) }) // a starved machine
		synctest.Wait()
		s := c.Stats()
		const late = 4*time.Minute + 2*time.Second
		require.EqualValues(t, 101, s.Lateness.Count)
		require.Equal(t, late, s.Lateness.Max)
		require.Equal(t, late, s.Lateness.Quantile(0.5))
		require.Equal(t, 100*late, s.Lateness.Sum)
		require.EqualValues(t, late/tick, s.MissedTicks)
		events := j.take()
		require.Zero(t, events[0].Late)
		require.Equal(t, late, events[100].Late)
	})
}

// A panic in the middle of an advance left the wheel half changed, and all stores failed
// from then on: moka-rs/moka PR#248, and what ben-manes/caffeine tests for.
func TestP32_AnAdvanceGoesOnAfterAPanic(t *testing.T) {
	const n = 200
	for _, slots := range []int{1, 8} {
		w := wheel.NewHashed(slots, 0)
		for record := range uint32(n) {
			w.Add(record, 1+int64(record)%30)
		}
		visits := make([]int, n)
		for w.Len() > 0 {
			func() {
				defer func() { _ = recover() }()
				w.Advance(30, math.MaxInt, func(record uint32, _ int64) int64 {
					if visits[record]++; visits[record] == 1 {
						panic("oh")
					}
					return wheel.Done
				})
			}()
		}
		require.Equal(t, slices.Repeat([]int{2}, n), visits, "%d slots", slots)
		require.EqualValues(t, 31, w.Add(0, 1))
		require.Equal(t, []uint32{0}, advanceBy(w, 31))
	}

	// In a cache, it is OnRemoval that may panic.
	c, clock := openFake(t, kvOpt{Shards: 1, Logger: quiet, OnRemoval: func(kv) { panic("oh") }})
	for i := range n {
		c.SetTTL(strconv.Itoa(i), i, tick)
	}
	clock.Advance(tick)
	c.Flush()
	require.Zero(t, c.Len())
	require.EqualValues(t, n, c.Stats().CallbackPanics)
	c.SetTTL("k", 1, tick)
	requireLive(t, c, "k", 1)
}

// A timer that knew but the name of what it was to end ended a newer one, and a store that
// was refused set a timer all the same: goravel/goravel#1003.
func TestP33_ExpiryEndsTheEntryItWasMeantForAndNoOther(t *testing.T) {
	for verb, store := range storesOver {
		c, clock, removed := openJournal(t, kvOpt{TTL: time.Hour})
		c.SetTTL("k", 1, 2*tick)
		c.SetTTL("lock", 1, 2*tick)
		clock.Advance(tick)
		if verb == "GetOrSet" {
			c.Delete("k")
		}
		store(c)
		c.Delete("lock")
		c.Set("lock", 2)
		removed()
		clock.Advance(tick)
		require.Empty(t, removed(), verb)
		requireLive(t, c, "k", 2)
		requireLive(t, c, "lock", 2)
	}

	c, clock, removed := openJournal(t, kvOpt{TTL: tick})
	c.SetTTL("k", 1, time.Hour)
	waiting := c.Stats().Waiting
	v, loaded := c.GetOrSet("k", 2)
	require.True(t, loaded)
	require.Equal(t, 1, v)
	_, ok := c.Replace("absent", 1)
	require.False(t, ok)
	require.False(t, wheelcache.CompareAndSwap(c, "k", 3, 4))
	require.False(t, c.Move("absent", tick))
	require.False(t, c.Touch("absent"))
	require.Equal(t, waiting, c.Stats().Waiting, "what is refused leaves nothing in the wheel")
	clock.Advance(time.Minute)
	require.Empty(t, removed())
	require.Equal(t, time.Hour-time.Minute, remains(t, c, "k"))
}

// If value and timer change one after the other, an old timer can end a fresh value:
// cf. zeromicro/go-zero collection.Cache. Here expiry comes while a store is in the middle.
func TestP34_AStoreAndItsTimerChangeTogether(t *testing.T) {
	clock := &hookedClock{FakeClock: clockwork.NewFakeClockAt(epoch)}
	var j journal[string, int]
	c := open(t, kvOpt{TTL: time.Hour, Shards: 1, Clock: clock, OnRemoval: j.add})
	freeze(t, c)
	for i := range 20 {
		c.SetTTL(strconv.Itoa(i), 1, tick)
	}
	c.SetTTL("k", 1, tick)
	swept := make(chan struct{})
	c.Compute("k", func(int, bool) (int, wheelcache.Op) { // holds the lock
		clock.Advance(tick)
		looked := make(chan struct{})
		clock.then = func() { close(looked) }
		go func() { defer close(swept); c.Flush() }()
		<-looked // for the sweep, all of them are due
		return 2, wheelcache.OpStore
	})
	<-swept
	requireLive(t, c, "k", 2)
	require.Equal(t, 1, c.Len())
	require.Len(t, j.take(), 21)
	clock.Advance(time.Hour - tick - 1)
	c.Flush()
	requireLive(t, c, "k", 2)
	clock.Advance(1)
	c.Flush()
	require.Equal(t, []wheelcache.Cause{expired}, causesOf(j.take()), "it has a timer of its own")
}

// A value stored over an expired one kept its deadline, and the next sweep took it:
// jellydator/ttlcache#136.
func TestP35_AStoreOverAnExpiredEntryHasADeadlineOfItsOwn(t *testing.T) {
	for verb, store := range storesOver {
		c, clock, removed := frozenCache(t, kvOpt{TTL: time.Hour})
		c.SetTTL("k", 1, tick)
		clock.Advance(time.Minute)
		store(c)
		require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()), verb) // and a sweep
		requireLive(t, c, "k", 2)
		require.Equal(t, time.Hour, remains(t, c, "k"), verb)
		clock.Advance(time.Hour - 1)
		require.Empty(t, removed(), verb)
		clock.Advance(1)
		require.Len(t, removed(), 1, verb)
	}
}

// A read that found the entry expired deleted what had been stored meanwhile, and one that
// slid the deadline wrote the old value back: basho/bitcask#191, autobrr/autobrr#2637.
func TestP36_AReadNeitherRemovesNorWritesValues(t *testing.T) {
	for _, meanwhile := range []func(c *kvCache){
		func(c *kvCache) { c.SetTTL("k", 2, time.Hour) },
		func(c *kvCache) { c.Clear(); c.SetTTL("k", 2, time.Hour) },
	} {
		clock := &hookedClock{FakeClock: clockwork.NewFakeClockAt(epoch)}
		var j journal[string, int]
		c := open(t, kvOpt{Clock: clock, OnRemoval: j.add})
		freeze(t, c)
		c.SetTTL("k", 1, time.Second)
		clock.Advance(time.Second)
		clock.then = func() { meanwhile(c) } // between finding the entry and judging it
		c.Get("k")
		require.Nil(t, clock.then, "it has been asked")
		requireLive(t, c, "k", 2)
		c.Flush()
		require.Equal(t, []wheelcache.Cause{expired}, causesOf(j.take()))

		var policy funcs
		var d *kvCache
		policy.create = always(time.Minute)
		policy.read = func(_ string, v int, _ time.Duration) time.Duration {
			if v == 1 {
				meanwhile(d)
			}
			return 2 * time.Hour
		}
		d, _ = openFake(t, kvOpt{Expiry: policy})
		d.Set("k", 1)
		v, ok := d.Get("k")
		require.True(t, ok)
		require.Equal(t, 1, v, "it was there when it was read")
		requireLive(t, d, "k", 2)
		require.EqualValues(t, 2, d.Stats().Sets)
	}
}

// A sweep that notes keys, lets go of the lock and then deletes them takes what was stored
// in between: cf. samber/hot Janitor.
func TestP37_ASweepLooksAgainWheneverItHasLetGoOfTheLock(t *testing.T) {
	const n = 60
	c, clock, removed := frozenCache(t, kvOpt{Shards: 1, TTL: time.Hour})
	for i := range n {
		c.SetTTL(strconv.Itoa(i), 1, time.Second)
	}
	clock.Advance(time.Second)
	_, more := c.DrainOnce()
	require.True(t, more, "the sweep is under way")
	for i := range n {
		key := strconv.Itoa(i)
		switch i % 3 {
		case 0:
			c.Set(key, 2)
		case 1:
			c.Delete(key)
			c.SetTTL(key, 2, time.Minute)
		case 2:
			c.GetOrSet(key, 2)
		}
	}
	for more {
		_, more = c.DrainOnce()
	}
	got := removed()
	require.Len(t, got, n)
	for _, e := range got {
		require.Equal(t, expired, e.Cause)
		require.Equal(t, 1, e.Value)
	}
	for i := range n {
		requireLive(t, c, strconv.Itoa(i), 2)
	}
}

// An entry that is made permanent while a sweep is about to take it goes, if no deadline
// is an early one: cf. dgraph-io/ristretto expirationMap.cleanup.
func TestP38_NoDeadlineIsLaterThanAllOthers(t *testing.T) {
	for verb, keep := range map[string]func(c *kvCache, key string){
		"Move":        func(c *kvCache, key string) { c.Move(key, expiry.Never) },
		"Touch":       func(c *kvCache, key string) { c.Touch(key) },
		"Set":         func(c *kvCache, key string) { c.Set(key, 1) },
		"SetTTL":      func(c *kvCache, key string) { c.SetTTL(key, 1, expiry.Never) },
		"SetDeadline": func(c *kvCache, key string) { c.SetDeadline(key, 1, time.Time{}) },
		"Compute": func(c *kvCache, key string) {
			c.Compute(key, func(int, bool) (int, wheelcache.Op) { return 1, wheelcache.OpStore })
		},
	} {
		c, clock, removed := frozenCache(t, kvOpt{Shards: 1})
		for i := range 40 {
			c.SetTTL(strconv.Itoa(i), 0, time.Second)
		}
		c.SetTTL("k", 1, time.Second)
		clock.Advance(time.Second - 1)
		keep(c, "k")
		clock.Advance(1)
		_, more := c.DrainOnce()
		require.True(t, more, "the sweep is under way")
		for _, viewer := range []string{"Get", "Peek", "Entry", "All", "Keys", "Compute"} {
			require.True(t, viewers[viewer](c), "%s, %s", verb, viewer)
		}
		require.False(t, viewers["Expiring"](c), verb)
		c.Flush()
		clock.Advance(1000 * time.Hour)
		c.Flush()
		requireLive(t, c, "k", 1)
		require.Zero(t, c.Stats().Waiting, "%s: nothing waits for never", verb)
		c.Move("k", time.Second) // and back
		removed()
		clock.Advance(time.Second)
		require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()), verb)
	}
}

// A read may slide the deadline while the wheel is about to take the entry, which then goes
// all the same, as evicted: cf. maypok86/otter evictNode.
func TestP39_AnEntryThatAReadHasExtendedStays(t *testing.T) {
	o := kvOpt{Shards: 1, Expiry: expiry.AfterAccess[string, int](time.Second)}
	c, clock, removed := frozenCache(t, o)
	for i := range 40 {
		c.Set(strconv.Itoa(i), 0)
	}
	c.Set("k", 1)
	clock.Advance(time.Second - 1)
	_, ok := c.Get("k")
	require.True(t, ok)
	clock.Advance(1)
	require.Len(t, removed(), 40)
	requireLive(t, c, "k", 1)
	clock.Advance(time.Second - 2)
	require.Empty(t, removed())
	clock.Advance(1)
	require.Equal(t, []kv{{Key: "k", Value: 1, Cause: expired, Deadline: epoch.Add(2*time.Second - 1)}}, removed())

	// The wheel comes first, between the read and the slide.
	o.Expiry = funcs{create: always(time.Second), read: func(_ string, _ int, left time.Duration) time.Duration {
		clock.Advance(left)
		c.Flush()
		return time.Hour
	}}
	c, clock, removed = frozenCache(t, o)
	c.Set("k", 1)
	v, ok := c.Get("k")
	require.True(t, ok)
	require.Equal(t, 1, v, "it was live when it was read")
	requireGone(t, c, "k")
	require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()))
	require.Zero(t, c.Len())
}

// A longer lifetime given to an expired entry brings it back, if nobody looks: cf.
// maypok86/otter SetExpiresAfter, elastic/go-freelru GetAndRefresh.
func TestP40_NothingBringsAnExpiredEntryBack(t *testing.T) {
	for _, o := range []kvOpt{{TTL: time.Hour}, {Expiry: expiry.AfterAccess[string, int](time.Hour)}} {
		for verb, extend := range map[string]func(c *kvCache) bool{
			"Move":             func(c *kvCache) bool { return c.Move("k", time.Hour) },
			"Move to Never":    func(c *kvCache) bool { return c.Move("k", expiry.Never) },
			"Touch":            func(c *kvCache) bool { return c.Touch("k") },
			"Get":              viewers["Get"],
			"Replace":          viewers["Replace"],
			"CompareAndSwap":   viewers["CompareAndSwap"],
			"Compute's answer": viewers["Compute's answer"],
		} {
			c, clock, removed := frozenCache(t, o)
			c.SetTTL("k", 1, time.Second)
			clock.Advance(time.Second)
			require.False(t, extend(c), verb)
			requireGone(t, c, "k")
			require.Equal(t, []kv{{Key: "k", Value: 1, Cause: expired, Deadline: epoch.Add(time.Second)}}, removed(), verb)
			require.False(t, extend(c), verb)
			requireGone(t, c, "k")
		}
	}
}

// storesOver are the ways to store 2 for "k" where nothing is live: for an hour, if
// that is the TTL of the cache.
var storesOver = map[string]func(c *kvCache){
	"Set":         func(c *kvCache) { c.Set("k", 2) },
	"SetTTL":      func(c *kvCache) { c.SetTTL("k", 2, time.Hour) },
	"SetDeadline": func(c *kvCache) { c.SetDeadline("k", 2, epoch.Add(time.Hour+time.Minute)) },
	"GetOrSet":    func(c *kvCache) { c.GetOrSet("k", 2) },
	"Compute": func(c *kvCache) {
		c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 2, wheelcache.OpStore })
	},
}

// To make an entry permanent touches its deadline and what waits for it. Where
// these are two steps, the one left behind frees or loses the entry later
// (moka#527, moka PR#548, PR#549).
func TestP41_APermanentEntryLeavesItsRecordBehindAndGetsANewOne(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{})
	c.SetTTL("k", 1, time.Second)
	require.True(t, c.Move("k", expiry.Never))
	clock.Advance(time.Minute) // the record comes up and finds no deadline
	require.Empty(t, removed())
	requireLive(t, c, "k", 1)
	require.Zero(t, c.Stats().Waiting)
	require.True(t, c.Move("k", time.Hour))
	require.Equal(t, 1, c.Stats().Waiting)
	clock.Advance(time.Hour)
	require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()))

	// Nor does it bring back the expired.
	freeze(t, c)
	c.SetTTL("k", 2, time.Second)
	clock.Advance(time.Second)
	require.False(t, c.Move("k", expiry.Never))
	requireGone(t, c, "k")
	require.Equal(t, []wheelcache.Cause{expired}, causesOf(removed()))
}

// A clock read before the lock may be behind the entry that is found under it. The
// entry's age is then negative; unsigned, it was huge, and live flows expired
// (oxidecomputer/opte#426).
func TestP42_AClockReadBeforeTheLockExpiresNothingNewer(t *testing.T) {
	for _, verb := range []string{"Replace", "Move", "Touch", "Delete", "GetAndDelete", "Compute", "CompareAndSwap", "CompareAndDelete"} {
		clock := newAskedClock()
		var j journal[string, int]
		c := open(t, kvOpt{Clock: clock, TTL: time.Hour, OnRemoval: j.add})
		clock.askedFromNowOn(func(look int) {
			if look == 1 { // the time is known, the lock is not taken yet
				clock.Advance(time.Minute)
				c.Set("k", 1)
			}
		})
		require.True(t, viewers[verb](c), verb)
		c.Flush()
		for _, r := range j.take() {
			require.NotEqual(t, expired, r.Cause, verb)
		}
		clock.Advance(time.Hour)
		c.Flush()
		require.Zero(t, c.Len(), verb)
	}
}

// A callback, policy, clock or hash that is called under a lock deadlocks as soon as
// it uses the cache (golang-lru#230, bigcache#129, cache2go#28, opensearch#22545).
func TestP52_NoCodeOfTheUsersRunsUnderALock(t *testing.T) {
	var c *kvCache
	var checking sync.Mutex // Unlocked takes the locks itself
	locked := map[string]bool{}
	free := func(where string) {
		checking.Lock()
		defer checking.Unlock()
		if c != nil && !c.Unlocked() {
			locked[where] = true
		}
	}
	computing := false // policies are asked under the lock there, and only there
	policy := func(where string) time.Duration {
		if !computing {
			free(where)
		}
		return time.Hour
	}
	told := make(chan struct{}, 100)
	clock := newAskedClock()
	clock.asked = func(int) { free("Clock") }
	c = open(t, kvOpt{
		Shards: 1,
		Clock:  clock,
		Hash:   func(k string) uint64 { free("Hash"); return uint64(len(k)) },
		Expiry: funcs{
			create: func(string, int) time.Duration { return policy("Create") },
			update: func(string, int, time.Duration) time.Duration { return policy("Update") },
			read:   func(string, int, time.Duration) time.Duration { return policy("Read") + time.Minute },
		},
		OnRemoval: func(kv) { free("OnRemoval"); told <- struct{}{} },
	})
	// Only this goroutine takes locks, and none while the dispatcher is at work.
	freeze(t, c)
	expect := func(events int) {
		for range events {
			<-told
		}
	}
	for _, r := range removers {
		c.SetTTL("k", 1, time.Minute)
		computing = strings.HasPrefix(r.name, "Compute")
		r.do(c)
		computing = false
		expect(len(r.live))
		if c.Delete("k") {
			expect(1)
		}
	}
	c.SetTTL("k", 1, time.Minute)
	clock.Advance(time.Minute)
	c.Flush()
	expect(1)
	c.Set("k", 1)
	for range c.All() {
		free("body of a loop")
	}
	c.DeleteFunc(func(string, int) bool { free("match"); return true })
	expect(1)
	require.Empty(t, locked)
}

// One goroutine per event has no bound and no order (ttlcache#88, PR#190, imcache#41);
// a callback in the sweeper's goroutine holds up the sweeper (go-cache#49).
func TestP54_OneDispatcherAndABoundedQueueKeepTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, writers, more = 8, 3, wheelcache.MaxPending/8 + 1
		gate, release := newGate()
		var last [keys]int
		c := openGated(t, release, wheelcache.Options[int, int]{Logger: quiet, OnRemoval: func(r wheelcache.Removal[int, int]) {
			<-gate
			if r.Value != last[r.Key]+1 {
				panic("out of order")
			}
			last[r.Key] = r.Value
		}})
		for i := range wheelcache.MaxPending {
			c.SetTTL(i%keys, i/keys+1, 0)
		}
		synctest.Wait()
		require.Equal(t, 1, libraryGoroutines(), "however many are pending")
		for k := range writers {
			go c.SetTTL(k, more, 0)
		}
		synctest.Wait()
		require.Equal(t, wheelcache.MaxPending, c.Stats().Pending, "these writers wait")
		release()
		synctest.Wait()
		c.Flush()
		require.Zero(t, c.Stats().CallbackPanics)
		for k, v := range last {
			require.Equal(t, k < writers, v == more, "key %d: %d", k, v)
		}
	})
}

// A sweeper that waits for a full queue of events stands still: expiry ended with the
// 5121st entry (kpango/gache#139).
func TestP55_ExpirySurvivesAQueueThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5121 + wheelcache.MaxPending
		gate, release := newGate()
		seen := 0
		c := openGated(t, release, wheelcache.Options[int, int]{OnRemoval: func(wheelcache.Removal[int, int]) { <-gate; seen++ }})
		for round := range 2 {
			for i := range n {
				c.SetTTL(i, i, time.Second)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if round == 0 {
				require.Equal(t, 1, libraryGoroutines(), "the dispatcher waits, the driver does not")
				release()
				synctest.Wait()
			}
			require.Equal(t, (round+1)*n, seen)
		}
	})
}

// A panic in a callback ended the process, or left others waiting for ever
// (bigcache#148, #226, PR#232).
func TestP56_APanicInTheCallbackStopsNeitherExpiryNorClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5
		var seen atomic.Int32
		c := open(t, kvOpt{Logger: quiet, OnRemoval: func(kv) { seen.Add(1); panic("oh") }})
		for i := range n {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i)*time.Second+1)
		}
		c.Set("k", 1)
		for i := range n {
			time.Sleep(time.Second)
			synctest.Wait()
			require.EqualValues(t, i+1, seen.Load())
		}
		c.Flush()
		require.NoError(t, c.Close())
		require.NotPanics(t, func() { c.Delete("k") }, "where the caller delivers")
		require.EqualValues(t, n+1, c.Stats().CallbackPanics)
		require.Zero(t, c.Stats().Pending)
	})
}

// An event that says neither why nor when, and of the key only the hash, is of little
// use (ristretto#316, PR#345, #356).
func TestP57_AnEventHasKeyValueCauseDeadlineAndLateness(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{TTL: time.Minute})
	freeze(t, c)
	c.Set("k", 1)
	c.SetTTL("k", 2, expiry.Never)
	c.Delete("k")
	c.SetTTL("k", 3, time.Hour)
	c.Clear()
	c.SetTTL("k", 4, time.Second)
	clock.Advance(time.Second + time.Millisecond)
	require.Equal(t, []kv{
		{Key: "k", Value: 1, Cause: replaced, Deadline: epoch.Add(time.Minute)},
		{Key: "k", Value: 2, Cause: deleted},
		{Key: "k", Value: 3, Cause: cleared, Deadline: epoch.Add(time.Hour)},
		{Key: "k", Value: 4, Cause: expired, Deadline: epoch.Add(time.Second), Late: time.Millisecond},
	}, removed())
}

// Purging called no callback, or half of them, because it went a way of its own
// (gcache#37, freelru PR#53, ccache PR#72).
func TestP58_EveryWayToEmptyACacheTellsOfEachEntry(t *testing.T) {
	each := func(remove func(c *kvCache, k string)) func(*kvCache) {
		return func(c *kvCache) {
			for k := range c.Keys() {
				remove(c, k)
			}
		}
	}
	for name, empty := range map[string]func(c *kvCache){
		"Clear":            func(c *kvCache) { c.Clear() },
		"DeleteFunc":       func(c *kvCache) { c.DeleteFunc(func(string, int) bool { return true }) },
		"Delete":           each(func(c *kvCache, k string) { c.Delete(k) }),
		"GetAndDelete":     each(func(c *kvCache, k string) { c.GetAndDelete(k) }),
		"CompareAndDelete": each(func(c *kvCache, k string) { wheelcache.CompareAndDelete(c, k, 1) }),
		"Compute": each(func(c *kvCache, k string) {
			c.Compute(k, func(int, bool) (int, wheelcache.Op) { return 0, wheelcache.OpRemove })
		}),
		"Move": each(func(c *kvCache, k string) { c.Move(k, 0) }),
	} {
		for _, n := range []int{0, 1, 2, 100, 1000} {
			c, clock, removed := openJournal(t, kvOpt{Shards: 4})
			freeze(t, c)
			for i := range n {
				c.SetTTL("dead"+strconv.Itoa(i), 1, 1)
				c.SetTTL(strconv.Itoa(i), 1, time.Hour)
			}
			clock.Advance(1)
			empty(c)
			told := map[string]int{}
			for _, r := range removed() {
				told[r.Key]++
				require.Equal(t, strings.HasPrefix(r.Key, "dead") || name == "Move", r.Cause == expired, "%s: %v", name, r)
			}
			require.Len(t, told, 2*n, name)
			for key, times := range told {
				require.Equal(t, 1, times, "%s: %s", name, key)
			}
			require.Zero(t, c.Len(), name)
		}
	}
}

// What was replaced was reported as deleted or evicted, by code made for something else
// (ccache PR#34, PR#35, kubevela/pkg#138).
func TestP59_TheCauseIsThatOfTheCall(t *testing.T) {
	for _, r := range removers {
		c, _, removed := openJournal(t, kvOpt{})
		c.SetTTL("k", 1, time.Hour)
		r.do(c)
		require.Equal(t, r.live, causesOf(removed()), r.name)
		count := map[wheelcache.Cause]uint64{}
		for _, cause := range r.live {
			count[cause]++
		}
		s := c.Stats()
		require.Equal(t,
			[]uint64{count[expired], 0, count[deleted], count[replaced], count[cleared]},
			[]uint64{s.Expired, s.Evicted, s.Deleted, s.Replaced, s.Cleared}, r.name)
	}
}

// "Is it called exactly once?" (go-cache#33). Yes, for each value that was stored.
func TestP60_EachStoredValueIsToldOfExactlyOnce(t *testing.T) {
	const goroutines, rounds, keys = 4, 3000, 40
	var told [goroutines * rounds]atomic.Int32
	var stored [goroutines * rounds]bool
	c := open(t, wheelcache.Options[int, int]{Tick: 100 * time.Microsecond, OnRemoval: func(r wheelcache.Removal[int, int]) { told[r.Value].Add(1) }})
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range rounds {
				k, v := i*7%keys, g*rounds+i
				switch i % 6 {
				case 0, 1, 2: // often over an entry that has expired and is still there
					c.SetTTL(k, v, time.Duration(i%5)*20*time.Microsecond)
					stored[v] = true
				case 3:
					_, loaded := c.GetOrSet(k, v)
					stored[v] = !loaded
				case 4:
					_, stored[v] = c.Replace(k, v)
				case 5:
					op := []wheelcache.Op{wheelcache.OpKeep, wheelcache.OpStore, wheelcache.OpRemove}[i%9/3]
					c.Compute(k, func(int, bool) (int, wheelcache.Op) { return v, op })
					stored[v] = op == wheelcache.OpStore
				}
				if i%97 == 0 {
					c.Delete(k)
					c.Move(k+1, time.Microsecond)
				}
			}
		})
	}
	wg.Wait()
	c.Clear()
	c.Flush()
	for v := range told {
		want := int32(0)
		if stored[v] {
			want = 1
		}
		require.Equal(t, want, told[v].Load(), "value %d", v)
	}
}

// One goroutine per cache, which stayed when the cache was dropped, or even after Close
// (go-cache#140, #166, golang-lru#159, otter#116, ttlcache#23, #175, #185).
func TestP61_CachesLeaveNoGoroutineBehind(t *testing.T) {
	for name, use := range droppedUses {
		synctest.Test(t, func(t *testing.T) {
			var all []weak.Pointer[kvCache]
			for i := range 20 {
				all = append(all, dropped(t, kvOpt{OnRemoval: func(kv) {}}, func(c *kvCache) {
					use(c)
					if i%2 == 0 {
						require.NoError(t, c.Close())
						require.NoError(t, c.Close())
					}
				}))
			}
			synctest.Wait()
			require.Zero(t, libraryGoroutines(), name)
			requireCollected(t, all...)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.Zero(t, libraryGoroutines(), name)
		})
	}
}

// What tidied up after a dropped cache ran outside the synctest bubble and used a
// channel made inside, which panics (otter#158, golang/go#75113).
func TestP62_CollectingACacheTouchesNothingOfItsBubble(t *testing.T) {
	var all []weak.Pointer[kvCache]
	synctest.Test(t, func(t *testing.T) {
		for _, use := range droppedUses {
			all = append(all, dropped(t, kvOpt{OnRemoval: func(kv) {}}, use))
		}
		synctest.Wait()
	})
	requireCollected(t, all...)
	// What was to run then has run when something later has.
	ran := make(chan struct{})
	runtime.AddCleanup(new([64]byte), func(ran chan struct{}) { close(ran) }, ran)
	for over := false; !over; {
		runtime.GC()
		select {
		case <-ran:
			over = true
		default:
		}
	}
}

// A Stop that came while Start was under way did nothing, and the cache ran for ever
// (ttlcache#203, PR#217). Here Close comes wherever the clock is looked at.
func TestP63_ACloseThatOvertakesTheStartWins(t *testing.T) {
	for closeAt := 1; ; closeAt++ {
		clock := newAskedClock()
		c := open(t, kvOpt{Clock: clock})
		require.Zero(t, clock.pending(), "nothing starts before there is something to do")
		clock.askedFromNowOn(func(look int) {
			if look == closeAt {
				c.Close()
			}
		})
		c.SetTTL("k", 1, time.Second)
		if int(clock.looks.Load()) < closeAt {
			require.Equal(t, 1, clock.pending())
			require.Greater(t, closeAt, 2, "it is looked at for the entry and for the timer")
			return
		}
		require.Zero(t, clock.pending(), "closed at look %d", closeAt)
	}
}

// A call after Stop waited for a goroutine that had ended (go-zero PR#1768).
func TestP64_EveryCallReturnsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where waiting for ever is noticed at once
		for _, r := range removers {
			c, clock, removed := openJournal(t, kvOpt{Shards: 1})
			c.SetTTL("k", 1, time.Minute)
			require.NoError(t, c.Close())
			r.do(c)
			clock.Advance(time.Minute)
			r.do(c)
			for name, live := range viewers {
				require.False(t, live(c), "%s after %s", name, r.name)
			}
			c.Flush()
			require.NoError(t, c.Close())
			require.Len(t, removed(), 1, r.name)
			require.EqualValues(t, 1, c.Stats().Sets, "nothing is stored")
		}
	})
}

// Lifetimes counted by the wall clock changed when it was set (go-cache#161,
// TrinityCore#10737, pjproject#677).
func TestP65_SettingTheWallClockChangesNoLifetime(t *testing.T) {
	for _, step := range []time.Duration{-48 * time.Hour, 48 * time.Hour} {
		clock := &wallClock{Clock: clockwork.NewRealClock()}
		c := open(t, kvOpt{Clock: clock})
		c.SetTTL("k", 1, time.Hour)
		before := clock.Now()
		clock.step = step
		require.Equal(t, step, clock.Now().Round(0).Sub(before.Round(0)).Round(time.Hour))
		require.Less(t, clock.Now().Sub(before), time.Hour, "the monotonic clock just goes on")
		c.Flush()
		requireLive(t, c, "k", 1)
		require.LessOrEqual(t, remains(t, c, "k"), time.Hour)
	}
	// Without a clock from outside, it is enough that the monotonic reading is kept.
	c := open(t, kvOpt{TTL: time.Hour})
	c.Set("k", 1)
	e, ok := c.Entry("k")
	require.True(t, ok)
	require.Contains(t, e.Deadline.String(), " m=+")
}

// With a cached clock that nobody set any more, nothing expired, and nobody noticed
// (valkey#4345).
func TestP67_AFrozenCoarseClockIsNoticedAndLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, kvOpt{OnRemoval: func(kv) {}})
		wakeCoarse(t, c)
		c.SetTTL("k", 1, time.Second)
		c.SetTTL("near", 1, time.Millisecond)
		whileFrozen(c, func() {
			time.Sleep(10 * time.Second)
			require.True(t, c.CoarseClockAwake())
			requireGone(t, c, "near") // the first to ask the precise clock tells everyone
			require.False(t, c.CoarseClockAwake())
			requireGone(t, c, "k")
			c.SetTTL("k", 2, wheelcache.CoarseLifetime)
			time.Sleep(wheelcache.CoarseLifetime - 1)
			requireLive(t, c, "k", 2)
			time.Sleep(time.Nanosecond)
			requireGone(t, c, "k")
		})
		synctest.Wait()
		require.GreaterOrEqual(t, c.Stats().MissedTicks, uint64(10*time.Second/tick), "and it is counted")
	})
}

// now+ttl wrapped around: what was to live for centuries was dead at once, and never
// came up in the wheel (theine#57, otter#91, sqlite-cache#1).
func TestP68_HugeTTLsSaturate(t *testing.T) {
	for verb, store := range map[string]func(c *kvCache, now time.Time, ttl time.Duration){
		"Set":         func(c *kvCache, _ time.Time, _ time.Duration) { c.Set("k", 1) }, // ttl by policy
		"SetTTL":      func(c *kvCache, _ time.Time, ttl time.Duration) { c.SetTTL("k", 1, ttl) },
		"Move":        func(c *kvCache, _ time.Time, ttl time.Duration) { c.SetTTL("k", 1, 1); c.Move("k", ttl) },
		"SetDeadline": func(c *kvCache, now time.Time, ttl time.Duration) { c.SetDeadline("k", 1, now.Add(ttl)) },
	} {
		for _, ttl := range []time.Duration{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
			for _, start := range []time.Duration{-time.Hour, 0, time.Hour} {
				c, clock := openFake(t, kvOpt{Expiry: funcs{create: always(ttl)}})
				clock.Advance(start)
				store(c, clock.Now(), ttl)
				c.Flush()
				_, ok := c.Peek("k")
				require.Equal(t, ttl > 0, ok, "%s of %v at %v", verb, ttl, start)
				if ttl > 1 {
					clock.Advance(math.MaxInt64 - 2 - max(start, 0)) // as late as can be
					requireLive(t, c, "k", 1)
				}
				clock.Advance(1)
				c.Flush()
				// What would end beyond the range of instants does not end.
				endless := ttl == expiry.Never || ttl == expiry.Never-1 && start > 0
				require.Equal(t, endless, c.Len() == 1, "%s of %v at %v", verb, ttl, start)
			}
		}
	}
}

// Zero or less wiped the cache, was dropped, lived for ever or died at once, as the
// library took it (bigcache#104, PR#386, imcache PR#42, twmb/go-cache PR#3).
func TestP69_ZeroAndNegativeTTLsMeanExpiredOnArrival(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1, -time.Hour, math.MinInt64} {
		for verb, store := range map[string]func(c *kvCache){
			"Set":         func(c *kvCache) { c.Set("k", 1) }, // ttl by policy
			"SetTTL":      func(c *kvCache) { c.SetTTL("k", 1, ttl) },
			"SetDeadline": func(c *kvCache) { c.SetDeadline("k", 1, epoch.Add(ttl)) },
			"GetOrSet":    func(c *kvCache) { c.GetOrSet("k", 1) },
			"Move":        func(c *kvCache) { c.SetTTL("k", 1, time.Hour); c.Move("k", ttl) },
			"Touch":       func(c *kvCache) { c.SetTTL("k", 1, time.Hour); c.Touch("k") },
		} {
			c, _, removed := openJournal(t, kvOpt{Expiry: funcs{create: always(ttl)}})
			c.SetTTL("other", 2, time.Hour)
			store(c)
			requireGone(t, c, "k")
			require.Equal(t, []kv{{Key: "k", Value: 1, Cause: expired, Deadline: epoch}}, removed(), verb)
			requireLive(t, c, "other", 2)
		}
		_, err := wheelcache.New(kvOpt{TTL: ttl})
		require.Equal(t, ttl < 0, err != nil, "zero says that there is no TTL")
		_, err = wheelcache.New(kvOpt{Expiry: expiry.AfterWrite[string, int](ttl)})
		require.Error(t, err)
	}
}

// Deletes and updates left their records in the index of deadlines: 5.5 million in five
// minutes (kafka-rest#504, ristretto#329, gogf/gf#3467, hertzbeat#4201).
func TestP70_TheIndexOfDeadlinesDoesNotGrowWithChurn(t *testing.T) {
	t.Parallel()
	type cache = wheelcache.Cache[int, int]
	const keys = 1024
	midnight := epoch.Add(time.Hour)
	for name, churn := range map[string]func(c *cache, i int){
		"earlier":  func(c *cache, i int) { c.SetTTL(i%keys, i, time.Hour-time.Duration(i)*tick) },
		"moved":    func(c *cache, i int) { c.Move(i%keys, time.Hour-time.Duration(i)*tick) },
		"replaced": func(c *cache, i int) { c.Delete(i % keys); c.SetTTL(i%keys, i, time.Hour) },
		// A record that was left behind looks like that of the entry that is there.
		"same instant": func(c *cache, i int) { c.Delete(i % keys); c.SetDeadline(i%keys, i, midnight) },
		"passing":      func(c *cache, i int) { c.SetTTL(keys+i, i, time.Hour); c.Delete(keys + i) },
	} {
		c, clock := openFake(t, wheelcache.Options[int, int]{Shards: 1})
		for i := range keys {
			c.SetTTL(i, i, time.Hour)
		}
		most := 0
		for i := range 30 * keys {
			churn(c, i)
			if i%100 == 0 {
				most = max(most, c.Stats().Waiting)
			}
			if i%keys == 0 && name != "same instant" {
				clock.Advance(tick)
			}
		}
		require.Equal(t, keys, c.Len())
		require.Less(t, most, 2*keys, name)
	}
}

// A timer per operation, left behind by the next one: 983 MB of timers (ttlcache PR#18).
func TestP71_OperationsShareOneTimer(t *testing.T) {
	clock := newAskedClock()
	c := open(t, kvOpt{Clock: clock})
	for i := range 1000 {
		k := strconv.Itoa(i % 50)
		c.SetTTL(k, i, time.Hour-time.Duration(i)*time.Second) // each is the next to be due
		c.Get(k)
		c.Move(k, time.Minute)
		if i%7 == 0 {
			c.Delete(k)
			clock.Advance(time.Millisecond)
		}
		require.LessOrEqual(t, clock.pending(), 1)
	}
	require.EqualValues(t, 1, clock.timers.Load())
	require.NoError(t, c.Close())
	require.Zero(t, clock.pending())
}

// Go's maps keep the memory of their largest size (golang/go#20135, go-cache#110,
// ttlcache#84, swiss#37). Some survivors must not hold that of a burst, nor its values.
func TestP72_MemoryComesBackThoughSomeEntriesStay(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	type value [8]uint64
	const n, stays = 100_000, 1000
	c, clock := openFake(t, wheelcache.Options[int, *value]{})
	empty := heapInUse()
	for i := range n {
		ttl := time.Minute
		if i%stays == 0 {
			ttl = time.Hour
		}
		c.SetTTL(i, new(value), ttl)
	}
	peak := heapInUse() - empty
	clock.Advance(time.Minute)
	c.Flush()
	require.Equal(t, n/stays, c.Len())
	require.LessOrEqual(t, max(heapInUse(), empty)-empty, peak/20)

	// One that leaves alone is let go of, too, though the table stays as it is.
	v := new(value)
	w := weak.Make(v)
	c.Set(-1, v)
	c.Delete(-1)
	runtime.GC()
	require.Nil(t, w.Value())
	runtime.KeepAlive(c)
}

// Where only reads expire, keys that are written once stay: rate limits, nonces
// (freelru#47, gcache#77, #96, ccache#13, iris#2210, freecache#141).
func TestP73_WhatIsNeverReadAgainIsReclaimed(t *testing.T) {
	for name, listener := range map[string]func(kv){"alone": nil, "listened": func(kv) {}} {
		synctest.Test(t, func(t *testing.T) {
			const perSecond, ttl = 100, 5
			c := open(t, kvOpt{OnRemoval: listener})
			for i := range 60 {
				for j := range perSecond {
					c.SetTTL(strconv.Itoa(i*perSecond+j), j, ttl*time.Second)
				}
				time.Sleep(time.Second)
				require.LessOrEqual(t, c.Len(), (ttl+2)*perSecond, name)
			}
			time.Sleep((ttl + 1) * time.Second)
			synctest.Wait()
			require.Zero(t, c.Len(), name)
			require.Zero(t, c.Stats().Waiting, name)
		})
	}
}

// A scan of everything under one lock is felt by all who wait for the lock
// (go-generics-cache#47, agecache#4, erigon PR#24022).
func TestP74_TheDriverHoldsALockForAFewEntriesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards, due = 4, 8000
		clock := newAskedClock()
		c := open(t, wheelcache.Options[int, int]{Shards: shards, Clock: clock})
		for i := range due {
			c.SetTTL(i, i, time.Second)
			c.SetTTL(due+i, i, time.Hour)
		}
		// The driver looks at the clock before each turn over the shards.
		left, most := c.Len(), 0
		clock.askedFromNowOn(func(int) {
			n := c.Len()
			left, most = n, max(most, left-n)
		})
		clock.Advance(time.Second)
		synctest.Wait()
		require.Equal(t, due, c.Len())
		require.Positive(t, most)
		require.LessOrEqual(t, most, shards*wheelcache.DrainPerHold)
		require.Less(t, int(clock.looks.Load()), due/wheelcache.DrainPerHold, "what is not due takes no turns")
	})
}

// Sizes that were counted later, or elsewhere, drifted away from what was there
// (ccache#76, #94, #97, ristretto#320). Costs come with bounds; this is of entries.
func TestP75_TheNumberOfEntriesDoesNotDrift(t *testing.T) {
	c, clock := openFake(t, wheelcache.Options[int, int]{Shards: 2})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				switch k := (i*31 + g) % 700; i % 8 {
				case 0, 1, 2:
					c.Set(k, i)
				case 3:
					c.SetTTL(k, i, time.Duration(i%50)*tick)
				case 4, 5:
					c.Delete(k)
				case 6:
					c.Move(k, time.Duration(i%50)*tick)
				case 7:
					clock.Advance(tick)
					if i%500 == 7 {
						c.Clear()
					}
				}
			}
		})
	}
	wg.Wait()
	requireBooks(t, c)
	keys := slices.Collect(c.Keys())
	require.Len(t, keys, c.Len())
	for i, k := range keys {
		require.True(t, c.Delete(k))
		require.Equal(t, len(keys)-1-i, c.Len())
	}
}

// A timer of the runtime per entry does not scale: heap, and a goroutine for each that
// fires (golang/go#15133, #53953, tchannel-go#545).
func TestP76_EntriesShareOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3000
		most, seen := 0, 0
		clock := newAskedClock()
		c := open(t, kvOpt{Clock: clock, OnRemoval: func(kv) {
			if seen++; seen%100 == 0 {
				most = max(most, libraryGoroutines())
			}
		}})
		for i := range n {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i+1)*time.Millisecond)
		}
		require.Equal(t, 1, clock.pending())
		clock.Advance(n * time.Millisecond)
		synctest.Wait()
		require.Equal(t, n, seen)
		require.Less(t, most, 5, "driver and dispatcher")
		require.EqualValues(t, 1, clock.timers.Load())
		require.Zero(t, clock.pending())
	})
}

// Writes that were buffered were not there yet, were overtaken by a Delete, or dropped
// (ristretto#52, #102, #161, PR#333, gocache#206, #207, gofiber/storage#3126).
func TestP77_AWriteIsThereWhenItsCallReturns(t *testing.T) {
	c := open(t, wheelcache.Options[int, int]{Shards: 1})
	var wrong atomic.Int64
	for i := range 300 {
		var wg sync.WaitGroup
		write := func(g int) {
			k := g<<20 | i%10
			expect := func(v int, present bool) {
				if got, ok := c.Get(k); ok != present || got != v {
					wrong.Add(1)
				}
			}
			c.Set(k, i)
			expect(i, true)
			c.Delete(k)
			expect(0, false)
			c.SetTTL(k, i, time.Hour)
			expect(i, true)
			c.Replace(k, -i)
			expect(-i, true)
			c.Move(k, 0)
			expect(0, false)
		}
		c.Compute(-1, func(int, bool) (int, wheelcache.Op) { // they come while the lock is held
			for g := range 3 {
				wg.Go(func() { write(g) })
			}
			for range 20 {
				runtime.Gosched()
			}
			return 0, wheelcache.OpKeep
		})
		wg.Wait()
	}
	require.Zero(t, wrong.Load())
}

// A look and, later, a store: what came in between was lost (ttlcache#60, #97, PR#107,
// go-cache#65, PR#117).
func TestP78_NothingComesBetweenTheLookAndTheStore(t *testing.T) {
	var c *kvCache
	c, _ = openFake(t, kvOpt{Expiry: funcs{create: func(k string, v int) time.Duration {
		if v == 1 {
			c.SetTTL(k, 2, time.Hour) // by somebody else, while the first store is under way
		}
		return time.Minute
	}}})
	v, loaded := c.GetOrSet("k", 1)
	require.True(t, loaded)
	require.Equal(t, 2, v)
	requireLive(t, c, "k", 2)

	const goroutines, rounds = 4, 300
	c.SetTTL("swapped", 0, time.Hour)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				c.Compute("computed", func(old int, _ bool) (int, wheelcache.Op) {
					runtime.Gosched()
					return old + 2, wheelcache.OpStore
				})
				for {
					old, _ := c.Get("swapped")
					runtime.Gosched()
					if wheelcache.CompareAndSwap(c, "swapped", old, old+2) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	requireLive(t, c, "computed", 2*goroutines*rounds)
	requireLive(t, c, "swapped", 2*goroutines*rounds)
}

// Range ended when the entry at hand was removed, raced, or deadlocked (ttlcache PR#164,
// e2b#442).
func TestP79_ALoopMayRemoveWhatItSeesAndWhatItDoesNot(t *testing.T) {
	const n, stays = 20_000, 10 // each tenth stays
	c, _ := openFake(t, wheelcache.Options[int, int]{Shards: 1})
	for i := range n {
		c.Set(i, i)
	}
	seen := map[int]int{}
	next := 0
	remove := func(k int) {
		if k%stays != 0 {
			c.Delete(k)
		}
	}
	for k := range c.All() { // the table shrinks on either side of it
		seen[k]++
		remove(k)
		remove(next)
		next++
	}
	require.Equal(t, n/stays, c.Len())
	for k := range n {
		if k%stays == 0 {
			require.Equal(t, 1, seen[k], "key %d", k)
		} else {
			require.LessOrEqual(t, seen[k], 1, "key %d", k)
		}
	}
}

// An item that had been handed out changed when somebody else stored (ttlcache): what
// is returned is one whole value, and stays it.
func TestP80_WhatIsReturnedIsACopyOfOneValue(t *testing.T) {
	requireCopies(t, func(n uint64) (v [4]uint64) { // kept in place
		for i := range v {
			v[i] = n
		}
		return v
	}, func(v [4]uint64) uint64 { return v[0] })
	requireCopies(t, func(n uint64) (v [64]uint64) { // kept behind a pointer
		for i := range v {
			v[i] = n
		}
		return v
	}, func(v [64]uint64) uint64 { return v[0] })
}

// requireCopies overwrites a key of a value that is read, again and again; number undoes
// value.
func requireCopies[V comparable](t *testing.T, value func(uint64) V, number func(V) uint64) {
	t.Helper()
	c := open(t, wheelcache.Options[string, V]{})
	c.Set("k", value(0))
	got, _ := c.Get("k")
	entry, _ := c.Entry("k")
	least := int64(300_000)
	if testing.Short() {
		least = 20_000
	}
	var torn, reads atomic.Int64
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for reads.Add(1) < least {
				if v, ok := c.Get("k"); !ok || v != value(number(v)) {
					torn.Add(1)
				}
			}
		})
	}
	for n := uint64(0); reads.Load() < least; n++ {
		c.Set("k", value(n))
	}
	readers.Wait()
	require.Zero(t, torn.Load())
	require.Equal(t, value(0), got)
	require.Equal(t, value(0), entry.Value)
}

// A askedClock is a fake clock that tells of each look at it, once the answer is
// settled, and counts the timers made of it.
type askedClock struct {
	*clockwork.FakeClock
	looks, timers atomic.Int32
	asked         func(look int)
}

func newAskedClock() *askedClock { return &askedClock{FakeClock: clockwork.NewFakeClockAt(epoch)} }

// askedFromNowOn sets what is told of looks, the next of which is number one.
func (c *askedClock) askedFromNowOn(f func(look int)) {
	c.looks.Store(0)
	c.asked = f
}

func (c *askedClock) Now() time.Time {
	now := c.FakeClock.Now()
	if look := c.looks.Add(1); c.asked != nil {
		c.asked(int(look))
	}
	return now
}

func (c *askedClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	c.timers.Add(1)
	return c.FakeClock.AfterFunc(d, f)
}

// pending returns how many timers would fire in time.
func (c *askedClock) pending() (n int) {
	atOnce, cancel := context.WithCancel(context.Background())
	cancel()
	for c.BlockUntilContext(atOnce, n+1) == nil {
		n++
	}
	return n
}

// A wallClock is one whose wall clock has been set by step. Nothing but package
// time can make such a Time, so this knows how it lies in memory.
type wallClock struct {
	clockwork.Clock
	step time.Duration
}

func (c *wallClock) Now() time.Time {
	const secondBit = 30 // of the first word, where there is a monotonic reading
	now := c.Clock.Now()
	wall := (*uint64)(unsafe.Pointer(&now))
	*wall += uint64(c.step/time.Second) << secondBit
	return now
}

// frozenCache is openJournal for a cache whose driver does not run: only Flush and
// DrainOnce reclaim.
func frozenCache(t testing.TB, o kvOpt) (*kvCache, *clockwork.FakeClock, func() []kv) {
	t.Helper()
	c, clock, removed := openJournal(t, o)
	freeze(t, c)
	return c, clock, removed
}

// advanceBy advances w to now and returns the records visited, which are done.
func advanceBy(w *wheel.Hashed, now int64) (records []uint32) {
	for w.Advance(now, math.MaxInt, func(record uint32, _ int64) int64 {
		records = append(records, record)
		return wheel.Done
	}) {
	}
	return records
}

// tickOf advances w by one tick at a time and returns that in which its one
// record is visited.
func tickOf(t testing.TB, w *wheel.Hashed) int64 {
	t.Helper()
	require.Equal(t, 1, w.Len())
	last := w.Cursor() + 1<<16
	for tick := w.Cursor(); ; tick++ {
		if len(advanceBy(w, tick)) > 0 {
			return tick
		}
		require.Less(t, tick, last, "never visited")
	}
}

// A hookedClock does something the next time that it is looked at. Only one goroutine may
// look at it while it has something to do.
type hookedClock struct {
	*clockwork.FakeClock
	then func()
}

func (c *hookedClock) Now() time.Time {
	if then := c.then; then != nil {
		c.then = nil
		then()
	}
	return c.FakeClock.Now()
}
