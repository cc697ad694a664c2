package wheelcache_test

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

var epoch = time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC)

// open returns a cache that the end of the test closes.
func open[K comparable, V any](t testing.TB, o wheelcache.Options[K, V]) *wheelcache.Cache[K, V] {
	t.Helper()
	c, err := wheelcache.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// openFake is open on a fake clock.
func openFake[K comparable, V any](t testing.TB, o wheelcache.Options[K, V]) (*wheelcache.Cache[K, V], *clockwork.FakeClock) {
	t.Helper()
	clock := clockwork.NewFakeClockAt(epoch)
	o.Clock = clock
	return open(t, o), clock
}

// freeze keeps the driver from reclaiming until the end of the test.
func freeze[K comparable, V any](t testing.TB, c *wheelcache.Cache[K, V]) {
	t.Helper()
	c.FreezeDriver()
	t.Cleanup(c.ThawDriver)
}

// A journal keeps the removals that it is told of.
type journal[K comparable, V any] struct {
	mu     sync.Mutex
	events []wheelcache.Removal[K, V]
}

func (j *journal[K, V]) add(r wheelcache.Removal[K, V]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, r)
}

// take returns what has been added since the last call.
func (j *journal[K, V]) take() []wheelcache.Removal[K, V] {
	j.mu.Lock()
	defer j.mu.Unlock()
	events := j.events
	j.events = nil
	return events
}

type (
	kv      = wheelcache.Removal[string, int]
	kvCache = wheelcache.Cache[string, int]
	kvOpt   = wheelcache.Options[string, int]
)

// openJournal is openFake with a journal of removals. The function it returns
// flushes the cache and takes the journal.
func openJournal(t testing.TB, o kvOpt) (*kvCache, *clockwork.FakeClock, func() []kv) {
	t.Helper()
	var j journal[string, int]
	o.OnRemoval = j.add
	c, clock := openFake(t, o)
	return c, clock, func() []kv { c.Flush(); return j.take() }
}

// requireBooks checks that every store is accounted for. It flushes the cache, so
// that the driver does not change the counts on the way.
func requireBooks[K comparable, V any](t testing.TB, c *wheelcache.Cache[K, V]) {
	t.Helper()
	c.Flush()
	s := c.Stats()
	require.Equal(t, s.Sets, uint64(s.Entries)+s.Expired+s.Evicted+s.Deleted+s.Replaced+s.Cleared, "%+v", s)
	require.Equal(t, s.Expired, s.Lateness.Count)
	require.Equal(t, c.Len(), s.Entries)
}

// requireLive checks that key has value, and requireGone that it has none, by
// the ways that leave no traces.
func requireLive[K comparable, V any](t testing.TB, c *wheelcache.Cache[K, V], key K, value V) {
	t.Helper()
	v, ok := c.Peek(key)
	require.True(t, ok, "key %v", key)
	require.Equal(t, value, v)
}

func requireGone[K comparable, V any](t testing.TB, c *wheelcache.Cache[K, V], key K) {
	t.Helper()
	v, ok := c.Peek(key)
	require.False(t, ok, "key %v", key)
	require.Zero(t, v)
}

// viewers are the ways to find out whether key "k" is there with value 1.
var viewers = map[string]func(c *kvCache) bool{
	"Get":   func(c *kvCache) bool { v, ok := c.Get("k"); return agree(v, ok) },
	"Peek":  func(c *kvCache) bool { v, ok := c.Peek("k"); return agree(v, ok) },
	"Entry": func(c *kvCache) bool { e, ok := c.Entry("k"); return agree(e.Value, ok) },
	"GetOrSet": func(c *kvCache) bool {
		v, loaded := c.GetOrSet("k", 2)
		if !loaded && v != 2 {
			panic("GetOrSet has not answered the value it stored")
		}
		return loaded && v == 1
	},
	"Replace":      func(c *kvCache) bool { v, ok := c.Replace("k", 2); return agree(v, ok) },
	"Move":         func(c *kvCache) bool { return c.Move("k", time.Hour) },
	"Move to 0":    func(c *kvCache) bool { return c.Move("k", 0) },
	"Touch":        func(c *kvCache) bool { return c.Touch("k") },
	"Delete":       func(c *kvCache) bool { return c.Delete("k") },
	"GetAndDelete": func(c *kvCache) bool { v, ok := c.GetAndDelete("k"); return agree(v, ok) },
	"Compute": func(c *kvCache) (live bool) {
		c.Compute("k", func(old int, ok bool) (int, wheelcache.Op) {
			live = agree(old, ok)
			return 0, wheelcache.OpKeep
		})
		return live
	},
	"Compute's answer": func(c *kvCache) bool {
		v, ok := c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 7, wheelcache.OpKeep })
		return agree(v, ok)
	},
	"CompareAndSwap":   func(c *kvCache) bool { return wheelcache.CompareAndSwap(c, "k", 1, 2) },
	"CompareAndDelete": func(c *kvCache) bool { return wheelcache.CompareAndDelete(c, "k", 1) },
	"All":              func(c *kvCache) bool { return maps.Collect(c.All())["k"] == 1 },
	"Keys":             func(c *kvCache) bool { return slices.Contains(slices.Collect(c.Keys()), "k") },
	"Expiring":         func(c *kvCache) bool { return maps.Collect(c.Expiring(1 << 62))["k"] == 1 },
	"DeleteFunc": func(c *kvCache) bool {
		return c.DeleteFunc(func(k string, v int) bool { return k == "k" && v == 1 }) == 1
	},
}

// agree returns ok, provided that the value fits it.
func agree(value int, ok bool) bool {
	if ok && value != 1 || !ok && value != 0 {
		panic(fmt.Sprintf("value %d with %t", value, ok))
	}
	return ok
}

// configurations are caches that must not differ in what is expired when.
var configurations = map[string]kvOpt{
	"default":       {},
	"one shard":     {Shards: 1},
	"constant hash": {Hash: func(string) uint64 { return 0 }},
	"after write":   {Expiry: expiry.AfterWrite[string, int](time.Hour)},
	"after create":  {Expiry: expiry.AfterCreate[string, int](time.Hour)},
	"sliding":       {Expiry: expiry.AfterAccess[string, int](time.Hour)},
	"long ticks":    {Tick: time.Hour},
	"short ticks":   {Tick: time.Microsecond},
	"few slots":     {Slots: 1},
}

func TestAnEntryIsLiveUntilItsDeadlineAndExpiredFromThenOn(t *testing.T) {
	for name, o := range configurations {
		for viewer, live := range viewers {
			for _, ttl := range []time.Duration{1, 2, time.Microsecond, 10*time.Millisecond - 1, 10 * time.Millisecond, 10*time.Millisecond + 1, time.Second, 1000 * time.Hour} {
				if testing.Short() && ttl > 1 && ttl < time.Second {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%v", name, viewer, ttl), func(t *testing.T) {
					c, clock := openFake(t, o)
					freeze(t, c) // the entry stays in the table
					c.SetTTL("k", 1, ttl)
					clock.Advance(ttl - 1)
					require.True(t, live(c), "a nanosecond before its deadline")

					c, clock = openFake(t, o)
					freeze(t, c)
					c.SetTTL("k", 1, ttl)
					clock.Advance(ttl)
					require.Equal(t, 1, c.Len())
					require.False(t, live(c), "at its deadline")

					c, clock = openFake(t, o)
					freeze(t, c)
					c.SetTTL("k", 1, ttl)
					clock.Advance(ttl + time.Hour)
					require.False(t, live(c), "after its deadline")
				})
			}
		}
	}
}

func TestAnEntryWithTTLShorterThanATickLivesItsWholeTTL(t *testing.T) {
	for ttl := time.Duration(1); ttl <= 25*time.Millisecond; ttl += 999_983 {
		for _, start := range []time.Duration{0, 1, 5 * time.Millisecond, 10*time.Millisecond - 1} {
			c, clock := openFake(t, kvOpt{})
			clock.Advance(start)
			c.SetTTL("k", 1, ttl)
			clock.Advance(ttl - 1)
			c.Flush()
			requireLive(t, c, "k", 1)
			clock.Advance(1)
			requireGone(t, c, "k")
		}
	}
}

func TestFlushRemovesWhatHasExpiredWhereverInATickThatWas(t *testing.T) {
	for _, tick := range []time.Duration{time.Microsecond, 10 * time.Millisecond, time.Hour} {
		for _, ttl := range []time.Duration{1, time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond, time.Second + 1} {
			t.Run(fmt.Sprintf("tick=%v/ttl=%v", tick, ttl), func(t *testing.T) {
				c, clock, removed := openJournal(t, kvOpt{Tick: tick})
				c.SetTTL("k", 1, ttl)
				clock.Advance(ttl)
				require.Equal(t, []kv{{Key: "k", Value: 1, Cause: wheelcache.Expired, Deadline: epoch.Add(ttl)}}, removed())
				require.Zero(t, c.Len())
			})
		}
	}
}

func TestSetGivesTheTTLOfTheOptions(t *testing.T) {
	c, clock := openFake(t, kvOpt{TTL: time.Minute})
	c.Set("k", 1)
	e, ok := c.Entry("k")
	require.True(t, ok)
	require.Equal(t, wheelcache.Entry[string, int]{Key: "k", Value: 1, Deadline: epoch.Add(time.Minute), TTL: time.Minute}, e)
	clock.Advance(time.Minute - 1)
	requireLive(t, c, "k", 1)
	c.Set("k", 2) // begins anew
	clock.Advance(time.Minute - 1)
	requireLive(t, c, "k", 2)
	clock.Advance(1)
	requireGone(t, c, "k")
}

func TestZeroTTLInTheOptionsMeansThatEntriesDoNotExpire(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"zero": 0, "Never": expiry.Never} {
		t.Run(name, func(t *testing.T) {
			c, clock, removed := openJournal(t, kvOpt{TTL: ttl})
			c.Set("k", 1)
			require.False(t, c.Armed())
			clock.Advance(math.MaxInt64 - 1)
			requireLive(t, c, "k", 1)
			e, ok := c.Entry("k")
			require.True(t, ok)
			require.Equal(t, wheelcache.Entry[string, int]{Key: "k", Value: 1, TTL: expiry.Never}, e)
			require.Empty(t, removed())
			require.Empty(t, maps.Collect(c.Expiring(expiry.Never)))
		})
	}
}

func TestExtremeTTLs(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, tc := range []struct {
		ttl      time.Duration
		deadline time.Time // zero: none
	}{
		{1, epoch.Add(1)},
		{time.Nanosecond * 999, epoch.Add(999)},
		{290 * year, epoch.Add(290 * year)},
		{math.MaxInt64 - 1, epoch.Add(math.MaxInt64 - 1)},
		{math.MaxInt64, time.Time{}},
		{expiry.Never, time.Time{}},
	} {
		for _, tick := range []time.Duration{time.Microsecond, 10 * time.Millisecond, 1000 * time.Hour, math.MaxInt64} {
			t.Run(fmt.Sprintf("%v/tick=%v", tc.ttl, tick), func(t *testing.T) {
				c, clock := openFake(t, kvOpt{Tick: tick})
				c.SetTTL("k", 1, tc.ttl)
				e, ok := c.Entry("k")
				require.True(t, ok)
				require.Equal(t, wheelcache.Entry[string, int]{Key: "k", Value: 1, Deadline: tc.deadline, TTL: tc.ttl}, e)
				clock.Advance(tc.ttl - 1)
				requireLive(t, c, "k", 1)
				clock.Advance(1)
				if tc.deadline.IsZero() {
					requireLive(t, c, "k", 1)
				} else {
					requireGone(t, c, "k")
				}
				c.Flush()
				requireBooks(t, c)
			})
		}
	}
}

func TestATTLBeyondTheRangeOfInstantsDoesNotWrapAround(t *testing.T) {
	c, clock := openFake(t, kvOpt{})
	clock.Advance(24 * time.Hour)
	for _, ttl := range []time.Duration{math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 - time.Hour} {
		c.SetTTL("k", 1, ttl)
		c.Flush()
		requireLive(t, c, "k", 1)
		require.True(t, c.Move("k", ttl))
		c.Flush()
		requireLive(t, c, "k", 1)
		e, _ := c.Entry("k")
		require.True(t, e.Deadline.IsZero())
	}
}

func TestTTLOfZeroOrLessIsExpiredOnArrival(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1, -time.Hour, math.MinInt64} {
		t.Run(ttl.String(), func(t *testing.T) {
			c, clock, removed := openJournal(t, kvOpt{})
			c.SetTTL("k", 1, ttl)
			requireGone(t, c, "k")
			require.Zero(t, c.Len())
			dead := func(v int, at time.Time) kv {
				return kv{Key: "k", Value: v, Cause: wheelcache.Expired, Deadline: at}
			}
			require.Equal(t, []kv{dead(1, epoch)}, removed())

			c.SetTTL("k", 2, time.Hour)
			c.SetTTL("k", 3, ttl)
			requireGone(t, c, "k")
			old := kv{Key: "k", Value: 2, Cause: wheelcache.Replaced, Deadline: epoch.Add(time.Hour)}
			require.Equal(t, []kv{old, dead(3, epoch)}, removed())

			freeze(t, c)
			c.SetTTL("k", 4, time.Second)
			clock.Advance(time.Second)
			c.SetTTL("k", 5, ttl)
			require.Equal(t, []kv{dead(4, epoch.Add(time.Second)), dead(5, epoch.Add(time.Second))}, removed())
			requireBooks(t, c)
		})
	}
}

func TestSetDeadline(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{TTL: time.Minute})
	c.SetDeadline("zero", 1, time.Time{})
	c.SetDeadline("future", 2, epoch.Add(time.Hour))
	c.SetDeadline("elsewhere", 3, epoch.Add(time.Hour).In(time.FixedZone("", 3600)))
	c.SetDeadline("distant", 4, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	c.SetDeadline("now", 5, epoch)
	c.SetDeadline("past", 6, epoch.Add(-1))
	c.SetDeadline("ancient", 7, time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC))
	for _, key := range []string{"now", "past", "ancient"} {
		requireGone(t, c, key)
	}
	require.Len(t, removed(), 3)
	for key, deadline := range map[string]time.Time{"zero": {}, "future": epoch.Add(time.Hour), "elsewhere": epoch.Add(time.Hour), "distant": {}} {
		e, ok := c.Entry(key)
		require.True(t, ok, key)
		require.Equal(t, deadline, e.Deadline, key)
	}
	c.SetDeadline("zero", 8, epoch) // gone, and the new value with it
	requireGone(t, c, "zero")
	require.Len(t, removed(), 2)

	clock.Advance(time.Hour - 1)
	requireLive(t, c, "future", 2)
	requireLive(t, c, "elsewhere", 3)
	clock.Advance(1)
	requireGone(t, c, "future")
	requireGone(t, c, "elsewhere")
	requireLive(t, c, "distant", 4)
	requireBooks(t, c)
}

func TestMove(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{TTL: time.Minute})
	require.False(t, c.Move("k", time.Hour), "absent")
	require.False(t, c.Move("k", 0), "absent")
	c.Set("k", 1)
	clock.Advance(time.Second)
	now := epoch.Add(time.Second)
	for _, ttl := range []time.Duration{time.Hour, time.Minute, expiry.Never, time.Second, 1, time.Hour} {
		require.True(t, c.Move("k", ttl))
		e, ok := c.Entry("k")
		require.True(t, ok)
		require.Equal(t, ttl, e.TTL)
		require.Equal(t, 1, e.Value)
		if ttl != expiry.Never {
			require.Equal(t, now.Add(ttl), e.Deadline)
		}
		c.Flush()
	}
	require.Empty(t, removed(), "moving removes nothing")
	for _, ttl := range []time.Duration{0, -1, math.MinInt64} {
		c.Set("k", 1)
		require.True(t, c.Move("k", ttl))
		requireGone(t, c, "k")
		require.False(t, c.Move("k", time.Hour), "expired: not brought back")
		events := removed()
		require.Equal(t, kv{Key: "k", Value: 1, Cause: wheelcache.Expired, Deadline: now}, events[len(events)-1])
	}
	requireBooks(t, c)
}

func TestShorteningAndLengtheningTakeEffectWithinATick(t *testing.T) {
	const tick = 10 * time.Millisecond
	for _, others := range []int{0, 1, 50} { // entries due before, with and after
		for _, from := range []time.Duration{1, tick, time.Second, time.Hour, expiry.Never} {
			for _, to := range []time.Duration{1, tick, tick + 1, time.Second, 100 * time.Hour} {
				c, clock, removed := openJournal(t, kvOpt{Shards: 1, Slots: 8})
				for i := range others {
					c.SetTTL(strconv.Itoa(i), 0, time.Duration(i)*30*time.Millisecond+1)
				}
				c.SetTTL("k", 1, from)
				require.True(t, c.Move("k", to))
				clock.Advance(to - 1)
				c.Flush()
				requireLive(t, c, "k", 1)
				clock.Advance(tick)
				i := slices.IndexFunc(removed(), func(r kv) bool { return r.Key == "k" })
				require.GreaterOrEqual(t, i, 0, "from %v to %v", from, to)
			}
		}
	}
}

func TestTouchRestartsTheLifetimeThatSetGives(t *testing.T) {
	for name, o := range map[string]kvOpt{
		"TTL":          {TTL: time.Minute},
		"after write":  {Expiry: expiry.AfterWrite[string, int](time.Minute)},
		"after create": {Expiry: expiry.AfterCreate[string, int](time.Minute)},
		"after access": {Expiry: expiry.AfterAccess[string, int](time.Minute)},
		"func":         {Expiry: expiry.Func(func(string, int) time.Duration { return time.Minute })},
	} {
		t.Run(name, func(t *testing.T) {
			c, clock := openFake(t, o)
			require.False(t, c.Touch("k"))
			c.SetTTL("k", 1, time.Hour)
			clock.Advance(time.Second)
			require.True(t, c.Touch("k"))
			e, _ := c.Entry("k")
			require.Equal(t, time.Minute, e.TTL)
			clock.Advance(time.Minute)
			require.False(t, c.Touch("k"))
			requireGone(t, c, "k")
			requireBooks(t, c)
		})
	}
	c, _ := openFake(t, kvOpt{})
	c.SetTTL("k", 1, time.Second)
	require.True(t, c.Touch("k"))
	e, _ := c.Entry("k")
	require.Equal(t, expiry.Never, e.TTL)
}

func TestReplaceAndCompareAndSwapKeepTheDeadline(t *testing.T) {
	for name, o := range configurations {
		t.Run(name, func(t *testing.T) {
			c, clock, removed := openJournal(t, o)
			_, ok := c.Replace("k", 1)
			require.False(t, ok)
			require.False(t, wheelcache.CompareAndSwap(c, "k", 0, 1), "absent is not zero")
			require.False(t, wheelcache.CompareAndDelete(c, "k", 0), "absent is not zero")
			require.Zero(t, c.Stats().Sets)

			c.SetTTL("k", 1, time.Minute)
			clock.Advance(time.Second)
			old, ok := c.Replace("k", 2)
			require.True(t, ok)
			require.Equal(t, 1, old)
			require.False(t, wheelcache.CompareAndSwap(c, "k", 1, 3))
			require.True(t, wheelcache.CompareAndSwap(c, "k", 2, 3))
			require.False(t, wheelcache.CompareAndDelete(c, "k", 2))
			e, ok := c.Entry("k")
			require.True(t, ok)
			require.Equal(t, wheelcache.Entry[string, int]{Key: "k", Value: 3, Deadline: epoch.Add(time.Minute), TTL: 59 * time.Second}, e)
			require.True(t, wheelcache.CompareAndDelete(c, "k", 3))
			requireGone(t, c, "k")
			at := epoch.Add(time.Minute)
			require.Equal(t, []kv{
				{Key: "k", Value: 1, Cause: wheelcache.Replaced, Deadline: at},
				{Key: "k", Value: 2, Cause: wheelcache.Replaced, Deadline: at},
				{Key: "k", Value: 3, Cause: wheelcache.Deleted, Deadline: at},
			}, removed())

			c.SetTTL("k", 1, expiry.Never)
			c.Replace("k", 2)
			e, _ = c.Entry("k")
			require.Equal(t, expiry.Never, e.TTL)
			requireBooks(t, c)
		})
	}
}

func TestGetOrSetStoresOnlyWhatIsAbsentOrExpired(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{TTL: time.Minute})
	v, loaded := c.GetOrSet("k", 1)
	require.False(t, loaded)
	require.Equal(t, 1, v)
	clock.Advance(time.Second)
	v, loaded = c.GetOrSet("k", 2)
	require.True(t, loaded)
	require.Equal(t, 1, v)
	e, _ := c.Entry("k")
	require.Equal(t, 59*time.Second, e.TTL, "a hit keeps the deadline")
	freeze(t, c)
	clock.Advance(59 * time.Second)
	v, loaded = c.GetOrSet("k", 3)
	require.False(t, loaded)
	require.Equal(t, 3, v)
	require.Equal(t, []kv{{Key: "k", Value: 1, Cause: wheelcache.Expired, Deadline: epoch.Add(time.Minute)}}, removed())
	s := c.Stats()
	require.Equal(t, []uint64{1, 2, 2}, []uint64{s.Hits, s.Misses, s.Sets})
}

func TestGetOrSetIsAtomic(t *testing.T) {
	const goroutines, keys = 8, 200
	c := open(t, kvOpt{})
	var wg sync.WaitGroup
	answers := make([][keys]int, goroutines)
	stored := make([]int, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for i := range keys {
				v, loaded := c.GetOrSet(strconv.Itoa(i), g+1)
				answers[g][i] = v
				if !loaded {
					stored[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for g := range goroutines {
		sum += stored[g]
		require.Equal(t, answers[0], answers[g])
	}
	require.Equal(t, keys, sum)
	requireBooks(t, c)
}

func TestGetAndDeleteGivesTheValueToOne(t *testing.T) {
	const goroutines, keys = 8, 200
	c := open(t, kvOpt{})
	for i := range keys {
		c.Set(strconv.Itoa(i), i+1)
	}
	var wg sync.WaitGroup
	sums := make([]int, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for i := range keys {
				if v, ok := c.GetAndDelete(strconv.Itoa(i)); ok {
					sums[g] += v
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, s := range sums {
		sum += s
	}
	require.Equal(t, keys*(keys+1)/2, sum)
	requireBooks(t, c)
}

func TestCompute(t *testing.T) {
	answer := func(v int, op wheelcache.Op) func(int, bool) (int, wheelcache.Op) {
		return func(int, bool) (int, wheelcache.Op) { return v, op }
	}
	c, clock, removed := openJournal(t, kvOpt{TTL: time.Minute})
	for _, op := range []wheelcache.Op{wheelcache.OpKeep, wheelcache.OpRemove} {
		v, ok := c.Compute("k", answer(9, op))
		require.False(t, ok)
		require.Zero(t, v)
	}
	require.Zero(t, c.Stats().Sets)

	v, ok := c.Compute("k", answer(1, wheelcache.OpStore))
	require.True(t, ok)
	require.Equal(t, 1, v)
	clock.Advance(time.Second)
	v, ok = c.Compute("k", func(old int, ok bool) (int, wheelcache.Op) {
		require.True(t, ok)
		return old + 1, wheelcache.OpStore
	})
	require.True(t, ok)
	require.Equal(t, 2, v)
	e, _ := c.Entry("k")
	require.Equal(t, time.Minute, e.TTL, "OpStore gives the lifetime that Set gives")
	clock.Advance(time.Second)
	v, ok = c.Compute("k", answer(9, wheelcache.OpKeep))
	require.True(t, ok)
	require.Equal(t, 2, v)
	e, _ = c.Entry("k")
	require.Equal(t, 59*time.Second, e.TTL)
	v, ok = c.Compute("k", answer(9, wheelcache.OpRemove))
	require.False(t, ok)
	require.Zero(t, v)
	requireGone(t, c, "k")
	require.Equal(t, []kv{
		{Key: "k", Value: 1, Cause: wheelcache.Replaced, Deadline: epoch.Add(time.Minute)},
		{Key: "k", Value: 2, Cause: wheelcache.Deleted, Deadline: epoch.Add(61 * time.Second)},
	}, removed())
	requireBooks(t, c)
}

func TestComputeThatDoesNotReturnChangesNothingAndLeavesTheLockFree(t *testing.T) {
	c, _, removed := openJournal(t, kvOpt{Shards: 1, TTL: time.Minute})
	c.Set("k", 1)
	for _, key := range []string{"k", "absent"} {
		require.PanicsWithValue(t, "oh", func() {
			c.Compute(key, func(int, bool) (int, wheelcache.Op) { panic("oh") })
		})
		require.PanicsWithValue(t, "wheelcache: Compute: the function answered Op(77); OpKeep, OpStore and OpRemove are allowed", func() {
			c.Compute(key, func(int, bool) (int, wheelcache.Op) { return 2, 77 })
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			c.Compute(key, func(int, bool) (int, wheelcache.Op) { runtime.Goexit(); return 2, wheelcache.OpStore })
		})
		wg.Wait()
	}
	requireLive(t, c, "k", 1)
	requireGone(t, c, "absent")
	require.Equal(t, 1, c.Len())
	require.Empty(t, removed())
	c.Set("k", 2)
	c.Set("absent", 3)
	require.Equal(t, 2, c.Len())
	requireBooks(t, c)
}

func TestComputeIsAtomic(t *testing.T) {
	const goroutines, rounds = 4, 500
	c := open(t, kvOpt{})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				c.Compute("k", func(old int, _ bool) (int, wheelcache.Op) { return old + 1, wheelcache.OpStore })
				for {
					v, ok := c.Get("swap")
					if !ok {
						c.GetOrSet("swap", 0)
					} else if wheelcache.CompareAndSwap(c, "swap", v, v+1) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	requireLive(t, c, "k", goroutines*rounds)
	requireLive(t, c, "swap", goroutines*rounds)
	requireBooks(t, c)
}

func TestDeleteFuncRemovesWhatMatches(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{})
	freeze(t, c)
	for i := range 3000 {
		c.SetTTL(strconv.Itoa(i), i, time.Hour)
	}
	c.SetTTL("dead", 2, 1)
	clock.Advance(1)
	require.Equal(t, 1500, c.DeleteFunc(func(k string, v int) bool {
		require.NotEqual(t, "dead", k)
		require.Equal(t, strconv.Itoa(v), k)
		return v%2 == 0
	}))
	for i := range 3000 {
		_, ok := c.Peek(strconv.Itoa(i))
		require.Equal(t, i%2 == 1, ok)
	}
	causes := map[wheelcache.Cause]int{}
	for _, r := range removed() {
		causes[r.Cause]++
	}
	require.Equal(t, 1500, causes[wheelcache.Deleted])
	require.Zero(t, c.DeleteFunc(func(string, int) bool { return false }))
	require.Panics(t, func() { c.DeleteFunc(func(string, int) bool { panic("oh") }) })
	require.Equal(t, 1500, c.DeleteFunc(func(string, int) bool { return true }))
	requireBooks(t, c)
}

func TestDeleteFuncRemovesOnlyWhatMatchHasSeen(t *testing.T) {
	c := open(t, kvOpt{})
	c.Set("k", 1)
	calls := []int{}
	require.Zero(t, c.DeleteFunc(func(k string, v int) bool {
		calls = append(calls, v)
		if v == 1 {
			c.Set("k", 2) // match runs under no lock
		}
		return v == 1
	}))
	require.Equal(t, []int{1, 2}, calls)
	requireLive(t, c, "k", 2)
}

func TestClearRemovesEverything(t *testing.T) {
	for name, o := range configurations {
		t.Run(name, func(t *testing.T) {
			c, clock, removed := openJournal(t, o)
			freeze(t, c)
			const n = 500
			for i := range n {
				c.SetTTL(strconv.Itoa(i), i, time.Hour)
			}
			c.SetTTL("never", 1, expiry.Never)
			c.SetTTL("dead", 1, 1)
			clock.Advance(1)
			c.Clear()
			require.Zero(t, c.Len())
			causes := map[wheelcache.Cause]int{}
			for _, r := range removed() {
				causes[r.Cause]++
			}
			require.Equal(t, map[wheelcache.Cause]int{wheelcache.Cleared: n + 1, wheelcache.Expired: 1}, causes)
			c.Clear()
			require.Empty(t, removed())
			c.SetTTL("k", 1, time.Second)
			requireLive(t, c, "k", 1)
			clock.Advance(2 * time.Hour)
			require.Len(t, removed(), 1)
			requireBooks(t, c)
		})
	}
}

func TestIterationSeesTheLiveEntriesOnce(t *testing.T) {
	for name, o := range configurations {
		t.Run(name, func(t *testing.T) {
			c, clock := openFake(t, o)
			freeze(t, c)
			want := map[string]int{}
			for i := range 700 {
				k := strconv.Itoa(i)
				switch i % 3 {
				case 0:
					c.SetTTL(k, i, time.Second)
				case 1:
					c.SetTTL(k, i, expiry.Never)
					want[k] = i
				case 2:
					c.SetTTL(k, i, time.Minute)
					want[k] = i
				}
			}
			clock.Advance(time.Second)
			got := map[string]int{}
			for k, v := range c.All() {
				require.NotContains(t, got, k)
				got[k] = v
			}
			require.Equal(t, want, got)
			keys := slices.Sorted(c.Keys())
			require.Equal(t, slices.Sorted(maps.Keys(want)), keys)
			require.Len(t, maps.Collect(c.Expiring(59*time.Second)), 233, "inclusive")
			require.Empty(t, maps.Collect(c.Expiring(59*time.Second-1)))
			require.Empty(t, maps.Collect(c.Expiring(-1)))
			require.Len(t, maps.Collect(c.Expiring(expiry.Never)), 233, "what does not expire is not expiring")
			for range c.All() {
				break
			}
			for range c.Keys() {
				break
			}
			for range c.Expiring(time.Hour) {
				break
			}
			s := c.Stats()
			require.Zero(t, s.Hits+s.Misses, "iteration counts nothing")
		})
	}
}

func TestIterationSeesWhatStaysOnceWhileTheTableGrowsAndShrinks(t *testing.T) {
	type cache = wheelcache.Cache[uint64, uint64]
	const stay, come = 3000, 20_000
	for name, change := range map[string]func(c *cache, i uint64){
		"grows":   func(c *cache, i uint64) { c.Set(stay+i, i) },
		"shrinks": func(c *cache, i uint64) { c.Delete(stay + i) },
		"churns":  func(c *cache, i uint64) { c.Delete(stay + i); c.Set(2*come+i, i); c.Set(i%stay, i%stay) },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, wheelcache.Options[uint64, uint64]{Shards: 2})
			for i := range uint64(stay) {
				c.Set(i, i)
			}
			if name != "grows" {
				for i := range uint64(come) {
					c.Set(stay+i, i)
				}
			}
			seen := map[uint64]int{}
			next := uint64(0)
			for k, v := range c.All() {
				if k < stay {
					require.Equal(t, k, v)
					seen[k]++
				}
				for range 8 {
					if next < come {
						change(c, next)
						next++
					}
				}
			}
			require.EqualValues(t, come, next)
			require.Len(t, seen, stay)
			for k, n := range seen {
				require.Equal(t, 1, n, "key %d", k)
			}
			requireBooks(t, c)
		})
	}
}

func TestTheCacheMayBeUsedWhileIterating(t *testing.T) {
	c := open(t, kvOpt{Shards: 1})
	for i := range 100 {
		c.Set(strconv.Itoa(i), i)
	}
	n := 0
	for k, v := range c.All() {
		n++
		c.Get(k)
		require.Equal(t, n <= 50, c.Delete(k), "Clear has removed the others")
		c.Set("new"+k, v)
		c.Len()
		for range c.Keys() {
			break
		}
		if n == 50 {
			c.Clear()
		}
	}
	requireBooks(t, c)
}

func TestGetCountsAndPeekDoesNot(t *testing.T) {
	c, clock := openFake(t, kvOpt{})
	c.SetTTL("k", 1, time.Second)
	c.Peek("k")
	c.Peek("absent")
	c.Entry("k")
	c.GetAndDelete("absent")
	s := c.Stats()
	require.Zero(t, s.Hits+s.Misses)
	for range 3 {
		c.Get("k")
	}
	c.Get("absent")
	clock.Advance(time.Second)
	c.Get("k")
	s = c.Stats()
	require.EqualValues(t, 3, s.Hits)
	require.EqualValues(t, 2, s.Misses)
}

func TestPeekAndEntryAndIterationMoveNoDeadline(t *testing.T) {
	c, clock := openFake(t, kvOpt{Expiry: expiry.AfterAccess[string, int](time.Minute)})
	c.Set("k", 1)
	clock.Advance(time.Minute - 1)
	c.Peek("k")
	c.Entry("k")
	for range c.All() {
	}
	wheelcache.CompareAndSwap(c, "k", 1, 1)
	c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 0, wheelcache.OpKeep })
	requireLive(t, c, "k", 1)
	clock.Advance(1)
	requireGone(t, c, "k")
}

func TestStatsKeepBooks(t *testing.T) {
	c, clock := openFake(t, kvOpt{})
	freeze(t, c)
	for i := range 10 {
		c.SetTTL(strconv.Itoa(i), i, time.Duration(i+1)*time.Second)
	}
	c.Set("0", 1)                   // replaced
	c.Delete("1")                   // deleted
	c.SetTTL("2", 2, 0)             // replaced, expired
	c.Replace("3", 3)               // replaced
	c.GetOrSet("x", 1)              // stored
	c.GetOrSet("x", 1)              // not
	clock.Advance(5 * time.Second)  // 3 and 4 are dead
	c.Set("3", 4)                   // expired
	require.False(t, c.Delete("4")) // expired
	c.Clear()                       // 0, 3, 5 to 9, x
	s := c.Stats()
	require.Equal(t, []uint64{15, 3, 1, 3, 8, 0}, []uint64{s.Sets, s.Expired, s.Deleted, s.Replaced, s.Cleared, s.Evicted})
	require.Zero(t, s.Entries)
	requireBooks(t, c)
}

// A policy made of functions; a nil one keeps what is.
type funcs struct {
	create       func(string, int) time.Duration
	update, read func(string, int, time.Duration) time.Duration
}

func (f funcs) Create(k string, v int) time.Duration { return f.create(k, v) }
func (f funcs) Update(k string, v int, remaining time.Duration) time.Duration {
	if f.update == nil {
		return remaining
	}
	return f.update(k, v, remaining)
}
func (f funcs) Read(k string, v int, remaining time.Duration) time.Duration {
	if f.read == nil {
		return remaining
	}
	return f.read(k, v, remaining)
}

func always(d time.Duration) func(string, int) time.Duration {
	return func(string, int) time.Duration { return d }
}

func remains(t testing.TB, c *kvCache, key string) time.Duration {
	t.Helper()
	e, ok := c.Entry(key)
	require.True(t, ok)
	return e.TTL
}

func TestPolicies(t *testing.T) {
	byValue := func(_ string, v int) time.Duration { return time.Duration(v) * time.Minute }
	for _, tc := range []struct {
		name                    string
		policy                  expiry.Policy[string, int]
		created, updated, readd time.Duration // what remains ten seconds after the entry was created, after each
	}{
		{"AfterCreate", expiry.AfterCreate[string, int](time.Minute), time.Minute, 50 * time.Second, 50 * time.Second},
		{"AfterWrite", expiry.AfterWrite[string, int](time.Minute), time.Minute, time.Minute, 50 * time.Second},
		{"AfterAccess", expiry.AfterAccess[string, int](time.Minute), time.Minute, time.Minute, time.Minute},
		{"Func", expiry.Func(byValue), time.Minute, 2 * time.Minute, 50 * time.Second},
		{"keeps all", funcs{create: byValue}, time.Minute, 50 * time.Second, 50 * time.Second},
		{"read shortens", funcs{create: byValue, read: func(_ string, _ int, r time.Duration) time.Duration { return r / 2 }}, time.Minute, 50 * time.Second, 25 * time.Second},
		{"read lengthens", funcs{create: byValue, read: func(_ string, _ int, r time.Duration) time.Duration { return r + time.Hour }}, time.Minute, 50 * time.Second, time.Hour + 50*time.Second},
		{"read ends expiry", funcs{create: byValue, read: func(string, int, time.Duration) time.Duration { return expiry.Never }}, time.Minute, 50 * time.Second, expiry.Never},
		{"update lengthens", funcs{create: byValue, update: func(_ string, _ int, r time.Duration) time.Duration { return r + time.Hour }}, time.Minute, time.Hour + 50*time.Second, 50 * time.Second},
		{"update ends expiry", funcs{create: byValue, update: func(string, int, time.Duration) time.Duration { return expiry.Never }}, time.Minute, expiry.Never, 50 * time.Second},
		{"read begins expiry", funcs{create: always(expiry.Never), read: func(_ string, _ int, r time.Duration) time.Duration { return time.Second }}, expiry.Never, expiry.Never, time.Second},
	} {
		for verb, update := range map[string]func(c *kvCache){
			"Set": func(c *kvCache) { c.Set("k", 2) },
			"Compute": func(c *kvCache) {
				c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 2, wheelcache.OpStore })
			},
		} {
			t.Run(tc.name+"/"+verb, func(t *testing.T) {
				c, clock := openFake(t, kvOpt{Expiry: tc.policy})
				c.Set("k", 1)
				require.Equal(t, tc.created, remains(t, c, "k"))
				clock.Advance(10 * time.Second)
				update(c)
				require.Equal(t, tc.updated, remains(t, c, "k"), "after an update")
				requireLive(t, c, "k", 2)

				c, clock = openFake(t, kvOpt{Expiry: tc.policy})
				c.Set("k", 1)
				clock.Advance(10 * time.Second)
				_, ok := c.Get("k")
				require.True(t, ok)
				require.Equal(t, tc.readd, remains(t, c, "k"), "after a read")

				c, clock = openFake(t, kvOpt{Expiry: tc.policy})
				_, loaded := c.GetOrSet("k", 1)
				require.False(t, loaded)
				require.Equal(t, tc.created, remains(t, c, "k"))
				clock.Advance(10 * time.Second)
				_, loaded = c.GetOrSet("k", 2)
				require.True(t, loaded)
				require.Equal(t, tc.readd, remains(t, c, "k"), "after a GetOrSet that found it")
			})
		}
	}
}

func TestAPolicyIsAskedAboutTheRightThing(t *testing.T) {
	var asked []string
	ask := func(what string) func(string, int, time.Duration) time.Duration {
		return func(k string, v int, r time.Duration) time.Duration {
			asked = append(asked, fmt.Sprintf("%s %s %d %v", what, k, v, r))
			return time.Minute
		}
	}
	c, clock := openFake(t, kvOpt{Expiry: funcs{
		create: func(k string, v int) time.Duration { return ask("create")(k, v, 0) },
		update: ask("update"),
		read:   ask("read"),
	}})
	freeze(t, c)
	c.Set("k", 1)
	clock.Advance(time.Second)
	c.Set("k", 2)
	clock.Advance(time.Second)
	c.Get("k")
	clock.Advance(time.Minute) // dead now
	c.Get("k")
	c.Set("k", 3)
	c.SetTTL("k", 4, expiry.Never)
	c.Set("k", 5)
	c.Touch("k")
	c.Peek("k")
	c.Replace("k", 6)
	require.Equal(t, []string{
		"create k 1 0s",
		"update k 2 59s",
		"read k 2 59s",
		"create k 3 0s",
		"update k 5 " + expiry.Never.String(),
		"create k 5 0s",
	}, asked)
}

func TestAPolicyThatAnswersZeroOrLessExpiresTheEntry(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1, math.MinInt64} {
		dying := func(string, int, time.Duration) time.Duration { return ttl }
		c, _, removed := openJournal(t, kvOpt{Expiry: funcs{create: always(ttl)}})
		c.Set("k", 1)
		requireGone(t, c, "k")
		v, loaded := c.GetOrSet("k", 2)
		require.False(t, loaded)
		require.Equal(t, 2, v)
		requireGone(t, c, "k")
		v, ok := c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 3, wheelcache.OpStore })
		require.False(t, ok)
		require.Zero(t, v)
		c.SetTTL("k", 4, time.Hour)
		require.True(t, c.Touch("k"))
		requireGone(t, c, "k")
		c.Flush()
		require.Zero(t, c.Len())
		require.Len(t, removed(), 4)
		requireBooks(t, c)

		c, _, removed = openJournal(t, kvOpt{Expiry: funcs{create: always(time.Hour), update: dying, read: dying}})
		c.Set("k", 1)
		c.Set("k", 2)
		requireGone(t, c, "k")
		require.Equal(t, []kv{
			{Key: "k", Value: 1, Cause: wheelcache.Replaced, Deadline: epoch.Add(time.Hour)},
			{Key: "k", Value: 2, Cause: wheelcache.Expired, Deadline: epoch},
		}, removed())
		c.Set("k", 3)
		v, ok = c.Get("k")
		require.True(t, ok, "the read itself still sees it")
		require.Equal(t, 3, v)
		requireGone(t, c, "k")
		requireBooks(t, c)
	}
}

func TestAPolicyMayUseTheCache(t *testing.T) {
	var c *kvCache
	use := func() time.Duration {
		c.SetTTL("other", 1, time.Hour)
		c.Peek("k")
		c.Len()
		c.Delete("other")
		c.Flush()
		return time.Minute
	}
	c, _ = openFake(t, kvOpt{Shards: 1, Expiry: funcs{
		create: func(string, int) time.Duration { return use() },
		update: func(string, int, time.Duration) time.Duration { return use() },
		read:   func(string, int, time.Duration) time.Duration { return use() },
	}})
	c.Set("k", 1)
	c.Set("k", 2)
	c.Get("k")
	c.GetOrSet("new", 1)
	c.Touch("k")
	requireLive(t, c, "k", 2)
	requireBooks(t, c)
}

func TestAPolicyThatChangesTheKeyItIsAskedAboutEndsWithTheOuterStore(t *testing.T) {
	var c *kvCache
	asked := 0
	c, _ = openFake(t, kvOpt{Expiry: funcs{
		create: func(k string, v int) time.Duration {
			if asked++; asked < 100 {
				c.SetTTL(k, -v, time.Hour)
			}
			return time.Minute
		},
		update: func(k string, v int, _ time.Duration) time.Duration {
			if asked++; asked < 100 {
				c.SetTTL(k, -v, time.Hour)
			}
			return time.Minute
		},
	}})
	c.Set("k", 1)
	requireLive(t, c, "k", 1)
	requireBooks(t, c)
}

func TestTTLAndExpiryNeedNotAgreeWithSetTTL(t *testing.T) {
	c, clock := openFake(t, kvOpt{Expiry: expiry.AfterAccess[string, int](time.Minute)})
	c.SetTTL("k", 1, time.Hour)
	require.Equal(t, time.Hour, remains(t, c, "k"))
	c.Get("k") // the policy speaks from the first read on
	require.Equal(t, time.Minute, remains(t, c, "k"))
	clock.Advance(time.Minute)
	requireGone(t, c, "k")
}

func TestAfterClose(t *testing.T) {
	c, clock, removed := openJournal(t, kvOpt{TTL: time.Hour})
	c.Set("k", 1)
	c.Set("gone", 2)
	c.SetTTL("short", 3, time.Second)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.False(t, c.Move("k", time.Minute))
	require.False(t, c.Touch("k"))

	c.Set("k", 9)
	c.Set("new", 9)
	c.SetTTL("new", 9, time.Minute)
	c.SetTTL("new", 9, 0)
	c.SetDeadline("new", 9, epoch.Add(time.Hour))
	v, loaded := c.GetOrSet("new", 9)
	require.False(t, loaded)
	require.Equal(t, 9, v)
	_, ok := c.Replace("k", 9)
	require.False(t, ok)
	require.False(t, wheelcache.CompareAndSwap(c, "k", 1, 9))
	v, ok = c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 9, wheelcache.OpStore })
	require.True(t, ok)
	require.Equal(t, 1, v, "what the key has afterwards")
	v, ok = c.Compute("new", func(int, bool) (int, wheelcache.Op) { return 9, wheelcache.OpStore })
	require.False(t, ok)
	require.Zero(t, v)
	require.EqualValues(t, 10, c.Stats().Refused)
	require.EqualValues(t, 3, c.Stats().Sets)
	requireGone(t, c, "new")
	requireLive(t, c, "k", 1)
	require.Empty(t, removed())
	_, ok = c.GetOrSet("k", 9)
	require.True(t, ok)

	clock.Advance(time.Second)
	requireGone(t, c, "short")
	require.Equal(t, 2, len(slices.Collect(c.Keys())))
	require.True(t, c.Delete("gone"))
	require.Equal(t, []kv{
		{Key: "gone", Value: 2, Cause: wheelcache.Deleted, Deadline: epoch.Add(time.Hour)},
		{Key: "short", Value: 3, Cause: wheelcache.Expired, Deadline: epoch.Add(time.Second)},
	}, removed(), "Flush reclaims on a closed cache, too")
	v, ok = c.Compute("k", func(int, bool) (int, wheelcache.Op) { return 0, wheelcache.OpRemove })
	require.False(t, ok)
	require.Zero(t, v)
	c.Clear()
	require.Zero(t, c.Len())
	require.Len(t, removed(), 1)
	requireBooks(t, c)
}

func TestASlidingReadAfterCloseMovesNothing(t *testing.T) {
	c, clock := openFake(t, kvOpt{Expiry: expiry.AfterAccess[string, int](time.Minute)})
	c.Set("k", 1)
	c.Close()
	clock.Advance(time.Minute - 1)
	_, ok := c.Get("k")
	require.True(t, ok)
	clock.Advance(1)
	_, ok = c.Get("k")
	require.False(t, ok)
}

func TestNewRejectsBadOptions(t *testing.T) {
	type tc struct {
		o    kvOpt
		want string
	}
	for _, tc := range append([]tc{
		{kvOpt{TTL: -1}, "wheelcache: Options.TTL is -1ns; it must be 0 (entries do not expire) or more"},
		{kvOpt{TTL: math.MinInt64}, "wheelcache: Options.TTL is -2562047h47m16.854775808s; it must be 0 (entries do not expire) or more"},
		{kvOpt{TTL: time.Second, Expiry: expiry.AfterWrite[string, int](time.Minute)}, "wheelcache: Options.TTL (1s) and Options.Expiry are both set; only one may be"},
		{kvOpt{Tick: -time.Second}, "wheelcache: Options.Tick is -1s; it must be 0 (10ms) or at least 1µs"},
		{kvOpt{Tick: 999}, "wheelcache: Options.Tick is 999ns; it must be 0 (10ms) or at least 1µs"},
		{kvOpt{Slots: -1}, "wheelcache: Options.Slots is -1; it must be 0 (as needed) to 1048576"},
		{kvOpt{Slots: 1<<20 + 1}, "wheelcache: Options.Slots is 1048577; it must be 0 (as needed) to 1048576"},
		{kvOpt{Slots: math.MaxInt}, fmt.Sprintf("wheelcache: Options.Slots is %d; it must be 0 (as needed) to 1048576", math.MaxInt)},
		{kvOpt{Shards: -1}, "wheelcache: Options.Shards is -1; it must be 0 (by GOMAXPROCS) to 65536"},
		{kvOpt{Shards: 1<<16 + 1}, "wheelcache: Options.Shards is 65537; it must be 0 (by GOMAXPROCS) to 65536"},
		{kvOpt{Shards: math.MaxInt}, fmt.Sprintf("wheelcache: Options.Shards is %d; it must be 0 (by GOMAXPROCS) to 65536", math.MaxInt)},
		{kvOpt{Capacity: -1}, "wheelcache: Options.Capacity is -1; it must be 0 (unknown) to 2147483647"},
		{kvOpt{Expiry: expiry.AfterWrite[string, int](-1)}, "wheelcache: Options.Expiry: expiry.AfterWrite: the lifetime is -1ns; it must be more than 0, or expiry.Never"},
		{kvOpt{Expiry: expiry.AfterCreate[string, int](0)}, "wheelcache: Options.Expiry: expiry.AfterCreate: the lifetime is 0s; it must be more than 0, or expiry.Never"},
		{kvOpt{Expiry: expiry.AfterAccess[string, int](0)}, "wheelcache: Options.Expiry: expiry.AfterAccess: the lifetime is 0s; it must be more than 0, or expiry.Never"},
		{kvOpt{Expiry: expiry.Func[string, int](nil)}, "wheelcache: Options.Expiry: expiry.Func: the function is nil; it must answer a lifetime for a key and a value"},
	}, func() []tc {
		if math.MaxInt == math.MaxInt32 {
			return nil // there is no larger capacity
		}
		return []tc{{kvOpt{Capacity: math.MaxInt}, fmt.Sprintf("wheelcache: Options.Capacity is %d; it must be 0 (unknown) to 2147483647", math.MaxInt)}}
	}()...) {
		c, err := wheelcache.New(tc.o)
		require.EqualError(t, err, tc.want)
		require.Nil(t, c)
	}
}

func TestNewAcceptsTheBoundsOfOptions(t *testing.T) {
	for _, o := range []kvOpt{
		{},
		{Tick: time.Microsecond},
		{Tick: math.MaxInt64},
		{Slots: 1}, {Slots: 3}, {Slots: 1 << 20},
		{Shards: 1}, {Shards: 3}, {Shards: 1 << 16},
		{Capacity: 1}, {Capacity: 100_000}, {Capacity: 10, Shards: 1000},
		{TTL: math.MaxInt64},
		{Expiry: expiry.AfterWrite[string, int](expiry.Never)},
		{Expiry: expiry.AfterAccess[string, int](1)},
	} {
		c, _ := openFake(t, o)
		for i := range 20 {
			c.SetTTL(strconv.Itoa(i), i, time.Duration(i+1)*time.Second)
		}
		for i := range 20 {
			requireLive(t, c, strconv.Itoa(i), i)
		}
		requireBooks(t, c)
	}
}

func TestAHashThatIsConstantCostsSpeedNotAnswers(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 500
	}
	c, clock := openFake(t, wheelcache.Options[int, int]{Hash: func(int) uint64 { return 0 }})
	for i := range n {
		c.SetTTL(i, i, time.Duration(i%10+1)*time.Second)
	}
	for i := 0; i < n; i += 7 {
		require.True(t, c.Delete(i))
	}
	for s := range 10 {
		clock.Advance(time.Second)
		c.Flush()
		for i := range n {
			v, ok := c.Get(i)
			require.Equal(t, i%7 != 0 && i%10 > s, ok)
			if ok {
				require.Equal(t, i, v)
			}
		}
	}
	require.Zero(t, c.Len())
	requireBooks(t, c)
}

func TestAKeyThatCannotBeComparedPanicsAndLeavesTheLockFree(t *testing.T) {
	for name, hash := range map[string]func(any) uint64{"default": nil, "custom": func(any) uint64 { return 0 }} {
		c, err := wheelcache.New(wheelcache.Options[any, int]{Shards: 1, Hash: hash})
		require.NoError(t, err)
		c.Set("k", 1)
		key := any([]int{1})
		for use, f := range map[string]func(){
			"Set":    func() { c.Set(key, 1); c.Set(key, 2) },
			"Get":    func() { c.Get(key) },
			"Delete": func() { c.Delete(key) },
			"Move":   func() { c.Move(key, time.Hour) },
		} {
			require.Panics(t, f, "%s, %s hash", use, name)
			require.True(t, c.Unlocked(), "%s, %s hash", use, name)
		}
		require.Equal(t, 1, c.Len(), "no such key is stored")
		requireLive(t, c, any("k"), 1)
		require.NoError(t, c.Close())
	}
}

func TestCausesHaveNames(t *testing.T) {
	for cause, name := range map[wheelcache.Cause]string{
		wheelcache.Expired:  "expired",
		wheelcache.Evicted:  "evicted",
		wheelcache.Deleted:  "deleted",
		wheelcache.Replaced: "replaced",
		wheelcache.Cleared:  "cleared",
		0:                   "Cause(0)",
		200:                 "Cause(200)",
	} {
		require.Equal(t, name, cause.String())
	}
}

func TestStableHashIsXxhash(t *testing.T) {
	require.Equal(t, uint64(0xef46db3751d8e999), wheelcache.StableHash(""))
	require.Equal(t, uint64(0xd24ec4f1a98c6e5b), wheelcache.StableHash("a"))
	c, _ := openFake(t, kvOpt{Hash: wheelcache.StableHash})
	d, _ := openFake(t, kvOpt{Hash: wheelcache.StableHash})
	for i := range 100 {
		k := strconv.Itoa(i)
		c.Set(k, i)
		requireLive(t, c, k, i)
		require.Equal(t, c.HashOf(k), d.HashOf(k), "placement repeats")
	}
}
