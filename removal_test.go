package wheelcache_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

const (
	expired  = wheelcache.Expired
	deleted  = wheelcache.Deleted
	replaced = wheelcache.Replaced
	cleared  = wheelcache.Cleared
)

// removers are all the ways in which the value of "k", which is 1, can leave.
// Each has the causes of the values that leave if it is live, and if it is
// expired: then the old value always expires.
var removers = []struct {
	name string
	do   func(c *kvCache)
	live []wheelcache.Cause
	dead []wheelcache.Cause
}{
	{"Set", func(c *kvCache) { c.Set("k", 2) }, []wheelcache.Cause{replaced}, []wheelcache.Cause{expired}},
	{"SetTTL", func(c *kvCache) { c.SetTTL("k", 2, time.Minute) }, []wheelcache.Cause{replaced}, []wheelcache.Cause{expired}},
	{"SetTTL dead", func(c *kvCache) { c.SetTTL("k", 2, 0) }, []wheelcache.Cause{replaced, expired}, []wheelcache.Cause{expired, expired}},
	{"SetDeadline", func(c *kvCache) { c.SetDeadline("k", 2, epoch.Add(time.Hour)) }, []wheelcache.Cause{replaced}, []wheelcache.Cause{expired}},
	{"SetDeadline dead", func(c *kvCache) { c.SetDeadline("k", 2, epoch) }, []wheelcache.Cause{replaced, expired}, []wheelcache.Cause{expired, expired}},
	{"Replace", func(c *kvCache) { c.Replace("k", 2) }, []wheelcache.Cause{replaced}, []wheelcache.Cause{expired}},
	{"GetOrSet", func(c *kvCache) { c.GetOrSet("k", 2) }, nil, []wheelcache.Cause{expired}},
	{"Move", func(c *kvCache) { c.Move("k", time.Minute) }, nil, []wheelcache.Cause{expired}},
	{"Move dead", func(c *kvCache) { c.Move("k", 0) }, []wheelcache.Cause{expired}, []wheelcache.Cause{expired}},
	{"Touch", func(c *kvCache) { c.Touch("k") }, nil, []wheelcache.Cause{expired}},
	{"Get", func(c *kvCache) { c.Get("k") }, nil, []wheelcache.Cause{expired}},
	{"Delete", func(c *kvCache) { c.Delete("k") }, []wheelcache.Cause{deleted}, []wheelcache.Cause{expired}},
	{"GetAndDelete", func(c *kvCache) { c.GetAndDelete("k") }, []wheelcache.Cause{deleted}, []wheelcache.Cause{expired}},
	{"CompareAndSwap", func(c *kvCache) { wheelcache.CompareAndSwap(c, "k", 1, 2) }, []wheelcache.Cause{replaced}, []wheelcache.Cause{expired}},
	{"CompareAndDelete", func(c *kvCache) { wheelcache.CompareAndDelete(c, "k", 1) }, []wheelcache.Cause{deleted}, []wheelcache.Cause{expired}},
	{"Compute store", func(c *kvCache) {
		c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 2, wheelcache.OpStore })
	}, []wheelcache.Cause{replaced}, []wheelcache.Cause{expired}},
	{"Compute keep", func(c *kvCache) { c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 2, wheelcache.OpKeep }) }, nil, []wheelcache.Cause{expired}},
	{"Compute remove", func(c *kvCache) {
		c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 2, wheelcache.OpRemove })
	}, []wheelcache.Cause{deleted}, []wheelcache.Cause{expired}},
	{"DeleteFunc", func(c *kvCache) { c.DeleteFunc(func(string, int) bool { return true }) }, []wheelcache.Cause{deleted}, []wheelcache.Cause{expired}},
	{"Clear", func(c *kvCache) { c.Clear() }, []wheelcache.Cause{cleared}, []wheelcache.Cause{expired}},
	{"Flush", func(c *kvCache) { c.Flush() }, nil, []wheelcache.Cause{expired}},
}

func TestEveryValueLeavesOnceForTheRightCause(t *testing.T) {
	for _, r := range removers {
		for name, o := range configurations {
			for _, dead := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/dead=%t", r.name, name, dead), func(t *testing.T) {
					c, clock, removed := openJournal(t, o)
					freeze(t, c)
					c.SetTTL("k", 1, time.Second)
					want := r.live
					if dead {
						clock.Advance(2 * time.Second)
						want = r.dead
					}
					r.do(c)
					got := removed()
					require.Equal(t, want, causesOf(got))
					for i, e := range got {
						require.Equal(t, "k", e.Key)
						require.Equal(t, i+1, e.Value, "in the order in which they were stored")
					}
					if dead {
						require.Equal(t, time.Second, got[0].Late)
						require.Equal(t, epoch.Add(time.Second), got[0].Deadline)
					}
					requireBooks(t, c)

					// What is left leaves once, too.
					c.Clear()
					removed()
					s := c.Stats()
					require.Zero(t, s.Entries)
					require.Equal(t, s.Sets, s.Expired+s.Deleted+s.Replaced+s.Cleared)
				})
			}
		}
	}
}

func causesOf(events []kv) (causes []wheelcache.Cause) {
	for _, e := range events {
		causes = append(causes, e.Cause)
	}
	return causes
}

func TestOverwritingAnExpiredEntryDeliversExpired(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{})
	freeze(t, c)
	c.SetTTL("k", 1, time.Second)
	clock.Advance(3 * time.Second)
	c.SetTTL("k", 2, time.Hour)
	require.Equal(t, []kv{{Key: "k", Value: 1, Cause: expired, Deadline: epoch.Add(time.Second), Late: 2 * time.Second}}, removed())
	clock.Advance(time.Second) // the old deadline's record does not touch the new value
	require.Empty(t, removed())
	requireLive(t, c, "k", 2)
}

func TestLateIsTheRemovalMinusTheDeadline(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{Tick: time.Second})
	freeze(t, c)
	for i, ttl := range []time.Duration{1, time.Second - 1, time.Second, 3 * time.Second} {
		c.SetTTL(strconv.Itoa(i), i, ttl)
	}
	clock.Advance(3 * time.Second)
	late := map[string]time.Duration{}
	for _, r := range removed() {
		require.Equal(t, expired, r.Cause)
		require.Equal(t, epoch.Add(3*time.Second), r.Deadline.Add(r.Late))
		late[r.Key] = r.Late
	}
	require.Equal(t, map[string]time.Duration{"0": 3*time.Second - 1, "1": 2*time.Second + 1, "2": 2 * time.Second, "3": 0}, late)
	h := c.Stats().Lateness
	require.EqualValues(t, 4, h.Count)
	require.Equal(t, 3*time.Second-1, h.Max)
	require.Equal(t, 7*time.Second, h.Sum)
	require.Equal(t, 7*time.Second/4, h.Mean())
}

func TestRemovalsOfAKeyComeInOrder(t *testing.T) {
	const keys, rounds, writers = 50, 200, 4
	last := make([]int, keys)
	c := open(t, wheelcache.Options[int, int]{OnRemoval: func(r wheelcache.Removal[int, int]) {
		if r.Value != last[r.Key]+1 {
			panic(fmt.Sprintf("key %d: value %d came after %d", r.Key, r.Value, last[r.Key]))
		}
		last[r.Key] = r.Value
	}})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for v := 1; v <= rounds; v++ {
				for k := w; k < keys; k += writers {
					switch v % 4 {
					case 0:
						c.SetTTL(k, v, 0)
					case 1:
						c.SetTTL(k, v, time.Nanosecond)
					case 2:
						c.Set(k, v)
						c.Delete(k)
					default:
						c.Set(k, v)
					}
				}
			}
		})
	}
	wg.Wait()
	c.Clear()
	c.Flush()
	require.Zero(t, c.Stats().CallbackPanics)
	for k := range keys {
		require.Equal(t, rounds, last[k])
	}
	requireBooks(t, c)
}

func TestOnRemovalMayUseTheCache(t *testing.T) {
	for name, use := range map[string]func(c *kvCache){
		"Get":    func(c *kvCache) { c.Get("k"); c.Peek("other"); c.Entry("k") },
		"Set":    func(c *kvCache) { c.SetTTL("again", 1, time.Hour) },
		"Delete": func(c *kvCache) { c.Delete("other") },
		"Clear":  func(c *kvCache) { c.Clear() },
		"Flush":  func(c *kvCache) { c.Flush() },
		"Close":  func(c *kvCache) { c.Close() },
		"Stats":  func(c *kvCache) { c.Stats(); c.Len() },
		"Compute": func(c *kvCache) {
			c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 5, wheelcache.OpStore })
		},
		"All": func(c *kvCache) {
			for range c.All() {
				c.Len()
			}
		},
		"DeleteFunc": func(c *kvCache) { c.DeleteFunc(func(string, int) bool { return true }) },
		"GetOrSet":   func(c *kvCache) { c.GetOrSet("k", 6) },
		"everything": func(c *kvCache) {
			c.Set("k", 7)
			c.Clear()
			c.Flush()
			c.Close()
			c.Flush()
			c.Delete("k")
			c.Close()
		},
	} {
		for _, r := range removers {
			t.Run(name+"/"+r.name, func(t *testing.T) {
				var c *kvCache
				var clock *clockwork.FakeClock
				calls := map[string]int{}
				c, clock = openFake(t, kvOpt{Shards: 1, TTL: time.Hour, OnRemoval: func(e kv) {
					if calls[e.Key]++; calls[e.Key] <= 3 {
						use(c)
					}
				}})
				c.SetTTL("k", 1, time.Second)
				c.Set("other", 1)
				r.do(c)
				c.SetTTL("k", 1, time.Second)
				clock.Advance(time.Second)
				r.do(c)
				c.Flush()
				require.NoError(t, c.Close())
				r.do(c) // on a closed cache, too
				c.Clear()
				c.Flush()
				require.Zero(t, c.Stats().Pending)
				require.Zero(t, c.Stats().CallbackPanics)
				requireBooks(t, c)
			})
		}
	}
}

// A logbook is a slog.Handler that keeps records.
type logbook struct {
	mu      sync.Mutex
	records []slog.Record
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logbook) WithGroup(string) slog.Handler            { return l }
func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	return nil
}

// quiet is a logger that says nothing.
var quiet = slog.New(slog.DiscardHandler)

func TestAPanicInOnRemovalIsRecoveredLoggedAndCounted(t *testing.T) {
	var log logbook
	var seen []string
	c, clock := openFake(t, kvOpt{Logger: slog.New(&log), OnRemoval: func(r kv) {
		seen = append(seen, r.Key)
		switch r.Key {
		case "1":
			panic("oh")
		case "2":
			panic(fmt.Errorf("error %d", 2))
		case "3":
			var p *int
			*p = 1 //nolint:govet // panics on purpose
		}
	}})
	for i := range 6 {
		c.SetTTL(strconv.Itoa(i), i, time.Duration(i+1)*time.Second)
	}
	for range 6 {
		clock.Advance(time.Second)
		c.Flush()
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, seen)
	require.EqualValues(t, 3, c.Stats().CallbackPanics)
	require.Len(t, log.records, 3)
	for i, r := range log.records {
		require.Equal(t, slog.LevelError, r.Level)
		require.Equal(t, "wheelcache: panic in OnRemoval", r.Message)
		attrs := map[string]slog.Value{}
		r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value; return true })
		require.Equal(t, strconv.Itoa(i+1), attrs["key"].String())
		require.Equal(t, "expired", attrs["cause"].String())
		require.Contains(t, attrs["stack"].String(), "TestAPanicInOnRemoval")
		require.NotNil(t, attrs["panic"])
	}
	requireBooks(t, c)
}

func TestACallbackThatEndsItsGoroutineStopsNothing(t *testing.T) {
	var seen atomic.Int64
	c, _ := openFake(t, kvOpt{OnRemoval: func(r kv) {
		seen.Add(1)
		if r.Value%3 == 0 {
			runtime.Goexit()
		}
	}})
	for i := range 100 {
		c.Set(strconv.Itoa(i), i)
	}
	c.Clear()
	c.Flush()
	require.EqualValues(t, 100, seen.Load())
	c.SetTTL("k", 3, 0)
	c.Flush()
	require.NoError(t, c.Close())
	require.EqualValues(t, 101, seen.Load())
}

func TestAfterCloseOnRemovalIsCalledByTheGoroutineThatRemoves(t *testing.T) {
	var seen []string // no lock: the race detector would tell
	c, _ := openFake(t, kvOpt{OnRemoval: func(r kv) { seen = append(seen, r.Key) }})
	c.Set("a", 1)
	c.Set("b", 1)
	c.Set("c", 1)
	require.NoError(t, c.Close())
	c.Delete("a")
	require.Equal(t, []string{"a"}, seen)
	c.Clear()
	require.ElementsMatch(t, []string{"a", "b", "c"}, seen)
}

func TestClosedMeansThatAllRemovalsHaveBeenDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen int
		c := open(t, kvOpt{OnRemoval: func(kv) { seen++; time.Sleep(time.Second) }})
		for i := range 10 {
			c.Set(strconv.Itoa(i), i)
		}
		c.Clear()
		require.NoError(t, c.Close())
		require.Equal(t, 10, seen)
		require.Zero(t, c.Stats().Pending)
	})
}

func TestFlushWaitsForEarlierRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen int
		c := open(t, kvOpt{OnRemoval: func(kv) { time.Sleep(time.Second); seen++ }})
		for i := range 10 {
			c.SetTTL(strconv.Itoa(i), i, 0)
		}
		c.Flush()
		require.Equal(t, 10, seen)
	})
}

// newGate returns a channel that blocks whoever receives from it until release.
func newGate() (gate chan struct{}, release func()) {
	gate = make(chan struct{})
	return gate, sync.OnceFunc(func() { close(gate) })
}

// openGated is open for a cache whose callbacks wait at a gate: a test that
// fails releases it, so that Close returns.
func openGated[K comparable, V any](t testing.TB, release func(), o wheelcache.Options[K, V]) *wheelcache.Cache[K, V] {
	t.Helper()
	c := open(t, o)
	t.Cleanup(release)
	return c
}

func TestAFullQueueSlowsWritersNotReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 1000
		gate, release := newGate()
		seen := 0
		c := openGated(t, release, wheelcache.Options[int, int]{OnRemoval: func(wheelcache.Removal[int, int]) { <-gate; seen++ }})
		c.Set(-1, 7)
		written := 0
		go func() {
			for i := range wheelcache.MaxPending + more {
				c.SetTTL(i, i, 0)
				written++
			}
		}()
		synctest.Wait()
		require.Equal(t, wheelcache.MaxPending, written, "then the writer waits")
		require.Equal(t, wheelcache.MaxPending, c.Stats().Pending)
		for range 1000 {
			v, ok := c.Get(-1)
			require.True(t, ok)
			require.Equal(t, 7, v)
			c.Peek(-2)
			c.Len()
		}
		for range c.All() {
		}
		gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, wheelcache.MaxPending+1, written, "one out, one in")
		release()
		synctest.Wait()
		require.Equal(t, wheelcache.MaxPending+more, written)
		require.Equal(t, written, seen, "nothing is dropped")
		requireBooks(t, c)
	})
}

func TestAFullQueuePausesExpiryWhichLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * wheelcache.MaxPending
		gate, release := newGate()
		seen := map[int]int{}
		var late []time.Duration
		c := openGated(t, release, wheelcache.Options[int, int]{OnRemoval: func(r wheelcache.Removal[int, int]) {
			<-gate
			seen[r.Key]++
			late = append(late, r.Late)
		}})
		for i := range n {
			c.SetTTL(i, i, time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s := c.Stats()
		require.Less(t, s.Pending, wheelcache.MaxPending+wheelcache.DrainPerHold)
		require.GreaterOrEqual(t, s.Pending, wheelcache.MaxPending)
		require.Equal(t, n, s.Entries+s.Pending, "the dead stay in place")
		require.False(t, c.Armed(), "no timer runs for what cannot be done")
		for i := range n {
			requireGone(t, c, i)
		}
		release()
		synctest.Wait()
		require.Len(t, seen, n)
		for _, times := range seen {
			require.Equal(t, 1, times)
		}
		require.Zero(t, c.Len())
		require.Equal(t, 59*time.Second, slices.Max(late))
		requireBooks(t, c)
	})
}

func TestFlushAndCloseWithAFullQueueWaitForIt(t *testing.T) {
	for _, verb := range []string{"Flush", "Close"} {
		synctest.Test(t, func(t *testing.T) {
			const n = 2 * wheelcache.MaxPending
			gate, release := newGate()
			seen := 0
			c := openGated(t, release, wheelcache.Options[int, int]{OnRemoval: func(wheelcache.Removal[int, int]) { <-gate; seen++ }})
			for i := range n {
				c.SetTTL(i, i, time.Second)
			}
			time.Sleep(2 * time.Second)
			done := false
			go func() {
				if verb == "Flush" {
					c.Flush()
				} else {
					c.Close()
				}
				done = true
			}()
			synctest.Wait()
			require.False(t, done)
			release()
			synctest.Wait()
			require.True(t, done)
			require.Zero(t, c.Stats().Pending)
			if verb == "Flush" {
				require.Equal(t, n, seen)
			}
			requireBooks(t, c)
		})
	}
}

func TestACallbackThatRemovesThousandsDoesNotWaitForItself(t *testing.T) {
	const n = 3 * wheelcache.MaxPending
	var c *wheelcache.Cache[int, int]
	seen := 0
	c, _ = openFake(t, wheelcache.Options[int, int]{OnRemoval: func(r wheelcache.Removal[int, int]) {
		if seen++; r.Key == -1 {
			for i := range n {
				c.SetTTL(i, i, 0)
				c.Set(i, i)
				c.Delete(i)
			}
			c.Flush()
		}
	}})
	c.SetTTL(-1, 0, 0)
	for c.Stats().Pending > 0 {
		c.Flush()
	}
	require.Equal(t, 1+2*n, seen)
	requireBooks(t, c)
}

func TestAChainOfRemovalsComesToItsEnd(t *testing.T) {
	var c *kvCache
	seen := 0
	c, _ = openFake(t, kvOpt{OnRemoval: func(r kv) {
		if seen++; r.Value > 0 {
			c.SetTTL("k", r.Value-1, 0)
		}
	}})
	c.SetTTL("k", 10_000, 0)
	for c.Stats().Pending > 0 {
		c.Flush()
	}
	require.Equal(t, 10_001, seen)
}

func TestEventsOfAllCausesAddUp(t *testing.T) {
	const goroutines, keys = 4, 300
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	var counts [256]atomic.Uint64
	c := open(t, wheelcache.Options[uint64, [2]uint64]{
		Tick:      time.Millisecond,
		Expiry:    expiry.AfterWrite[uint64, [2]uint64](time.Hour),
		OnRemoval: func(r wheelcache.Removal[uint64, [2]uint64]) { counts[r.Cause].Add(1) },
	})
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			for i := range uint64(rounds) {
				k := (i*7919 + g*31) % keys
				switch i % 11 {
				case 0, 1:
					c.Set(k, [2]uint64{k, i})
				case 2, 3:
					c.SetTTL(k, [2]uint64{k, i}, time.Duration(i%200)*time.Microsecond)
				case 4:
					c.Delete(k)
				case 5:
					c.Move(k, time.Duration(i%50)*time.Microsecond)
				case 6:
					c.GetOrSet(k, [2]uint64{k, i})
				case 7:
					c.Replace(k, [2]uint64{k, i})
				case 8:
					c.Compute(k, func(_ [2]uint64, ok bool) ([2]uint64, wheelcache.Op) {
						return [2]uint64{k, i}, wheelcache.Op(i / 11 % 3)
					})
				case 9:
					if i%1001 == 0 {
						c.Clear()
					}
				case 10:
					if v, ok := c.GetAndDelete(k); ok && v[0] != k {
						panic("the value of another key")
					}
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Close()) // or the driver goes on to expire what is not due yet
	s := c.Stats()
	require.Equal(t, []uint64{s.Expired, s.Evicted, s.Deleted, s.Replaced, s.Cleared}, []uint64{
		counts[expired].Load(), counts[wheelcache.Evicted].Load(), counts[deleted].Load(), counts[replaced].Load(), counts[cleared].Load(),
	})
	require.Zero(t, s.CallbackPanics)
	requireBooks(t, c)
}

// A dispatcher that is running may deliver an event as soon as it has been pushed.
func TestClearedEntriesHaveLeftWhenOnRemovalIsTold(t *testing.T) {
	var c *wheelcache.Cache[int, int]
	var there atomic.Int64
	c, err := wheelcache.New(wheelcache.Options[int, int]{Shards: 1, OnRemoval: func(r wheelcache.Removal[int, int]) {
		if _, ok := c.Peek(r.Key); ok && r.Cause == wheelcache.Cleared {
			there.Add(1)
		}
	}})
	require.NoError(t, err)
	defer c.Close()
	for range 100 {
		for k := range 2000 {
			c.SetTTL(k, k, time.Hour)
		}
		c.Clear()
		c.Flush()
	}
	require.Zero(t, there.Load(), "events told while Get still found the entry")
}

// The clock may not have been read yet when the value turns out to be dead.
func TestExpiredOnArrivalHasTheMomentOfTheCallAsDeadline(t *testing.T) {
	for name, store := range map[string]func(c *wheelcache.Cache[int, int]){
		"Set":      func(c *wheelcache.Cache[int, int]) { c.Set(1, 1) },
		"GetOrSet": func(c *wheelcache.Cache[int, int]) { c.GetOrSet(1, 1) },
		"Compute": func(c *wheelcache.Cache[int, int]) {
			c.Compute(1, func(int, bool) (int, wheelcache.Op) { return 1, wheelcache.OpStore })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var deadlines []time.Time
			c, err := wheelcache.New(wheelcache.Options[int, int]{
				Expiry:    stillborn{},
				OnRemoval: func(r wheelcache.Removal[int, int]) { deadlines = append(deadlines, r.Deadline) },
			})
			require.NoError(t, err)
			store(c)
			require.NoError(t, c.Close())
			require.Len(t, deadlines, 1)
			require.Zero(t, time.Until(deadlines[0]), name)
		})
	}
}

type stillborn struct{}

func (stillborn) Create(int, int) time.Duration                { return 0 }
func (stillborn) Update(int, int, time.Duration) time.Duration { return 0 }
func (stillborn) Read(_, _ int, r time.Duration) time.Duration { return r }
