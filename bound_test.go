package wheelcache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A ledger is what a bounded cache should hold: what was stored, less what OnRemoval
// was told of. Which entries were evicted is not for it to say.
type ledger struct {
	t     testing.TB
	c     *Cache[int, int]
	clock *clockwork.FakeClock
	mu    sync.Mutex
	live  map[int]int
	cause [causes]int
}

func newLedger(t testing.TB, o Options[int, int]) *ledger {
	l := &ledger{t: t, clock: clockwork.NewFakeClock(), live: make(map[int]int)}
	o.Clock = l.clock
	o.OnRemoval = func(r Removal[int, int]) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.cause[r.Cause]++
		if v, ok := l.live[r.Key]; ok && v == r.Value {
			delete(l.live, r.Key)
		}
	}
	l.c = mustNew(t, o)
	return l
}

// note says that value was stored for key, before it is.
func (l *ledger) note(key, value int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[key] = value
}

// balance checks that the cache is what the ledger says, and is within most.
func (l *ledger) balance(cost func(k, v int) int64, most int64) {
	l.t.Helper()
	l.c.Flush()
	check(l.t, l.c)
	l.mu.Lock()
	defer l.mu.Unlock()
	there := make(map[int]int)
	l.c.itemsAnd(true, func(it item[int, int]) bool { // with what StaleFor keeps
		there[it.key] = it.value
		return true
	})
	require.Equal(l.t, l.live, there)
	sum := int64(0)
	for k, v := range l.live {
		sum += cost(k, v)
	}
	stats := l.c.Stats()
	require.Equal(l.t, sum, stats.Cost)
	require.LessOrEqual(l.t, stats.Cost, most, "over the bound")
	require.Equal(l.t, stats.Sets, uint64(stats.Entries)+stats.Expired+stats.Evicted+stats.Deleted+stats.Replaced+stats.Cleared)
	for cause, n := range map[Cause]uint64{Expired: stats.Expired, Evicted: stats.Evicted, Deleted: stats.Deleted, Replaced: stats.Replaced, Cleared: stats.Cleared} {
		require.EqualValues(l.t, n, l.cause[cause], "events of %v", cause)
	}
}

func TestBoundedCachesKeepTheirBooks(t *testing.T) {
	t.Parallel()
	one := func(int, int) int64 { return 1 }
	byValue := func(_, v int) int64 { return int64(v % 7) } // some are pinned
	steep := func(_, v int) int64 { return int64(v%100) * int64(v%100) }
	for name, tc := range map[string]struct {
		options Options[int, int]
		cost    func(k, v int) int64
		most    int64
		keys    int
	}{
		"one entry":         {Options[int, int]{MaxEntries: 1}, one, 1, 10},
		"few entries":       {Options[int, int]{MaxEntries: 50}, one, 50, 200},
		"many entries":      {Options[int, int]{MaxEntries: 3000}, one, 3000, 9000},
		"never reached":     {Options[int, int]{MaxEntries: 3000}, one, 3000, 1000},
		"one hash":          {Options[int, int]{MaxEntries: 500, Hash: func(int) uint64 { return 7 }}, one, 500, 1500},
		"few hashes":        {Options[int, int]{MaxEntries: 800, Hash: func(k int) uint64 { return uint64(k&3) << 20 }}, one, 800, 1500},
		"lopsided hash":     {Options[int, int]{MaxEntries: 2000, Shards: 16, Hash: func(k int) uint64 { return uint64(k) * 0x9e3779b97f4a7c15 >> uint(k&3*16) }}, one, 2000, 6000},
		"costs, some none":  {Options[int, int]{MaxCost: 3000, Cost: byValue}, byValue, 3000, 5000},
		"costs, some large": {Options[int, int]{MaxCost: 9000, Cost: steep}, steep, 9000, 300},
		"stale":             {Options[int, int]{MaxEntries: 300, StaleFor: time.Second}, one, 300, 900},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.options
			o.TTL = time.Minute
			l := newLedger(t, o)
			r := rand.New(rand.NewPCG(1, 2))
			steps := 40_000
			if testing.Short() {
				steps = 10_000
			}
			for i := range steps {
				k := int(float64(tc.keys) * math.Pow(r.Float64(), 2))
				switch v := i + 1; r.IntN(24) {
				case 0:
					l.c.Delete(k)
				case 1:
					if _, ok := l.c.Peek(k); ok {
						l.note(k, v)
						l.c.Replace(k, v)
					}
				case 2:
					if _, ok := l.c.Peek(k); !ok {
						l.note(k, v)
						l.c.GetOrSet(k, v)
					}
				case 3:
					l.c.Compute(k, func(int, bool) (int, Op) {
						l.note(k, v)
						return v, OpStore
					})
				case 4:
					l.c.Move(k, time.Duration(r.IntN(100))*time.Second)
				case 5:
					l.clock.Advance(time.Duration(r.IntN(100)) * 10 * time.Millisecond)
				case 6:
					l.note(k, v)
					_, err := l.c.GetOrLoad(t.Context(), k, func(context.Context, int) (int, error) { return v, nil })
					require.NoError(t, err)
					if got, ok := l.c.Peek(k); ok && got != v {
						l.note(k, got) // it was there
					}
				case 7, 8, 9, 10, 11, 12:
					l.note(k, v)
					l.c.SetTTL(k, v, time.Duration(r.IntN(200)-2)*time.Second)
				default:
					if _, ok := l.c.Get(k); !ok {
						l.note(k, v)
						l.c.Set(k, v)
					}
				}
				switch {
				case r.IntN(steps/20) == 0:
					l.c.Clear()
				case r.IntN(steps/20) == 0:
					l.c.DeleteFunc(func(k, _ int) bool { return k%2 == 0 })
				}
				if i%(steps/100) == 0 {
					l.balance(tc.cost, tc.most)
				}
			}
			l.balance(tc.cost, tc.most)
			if tc.most <= 300 {
				require.Positive(t, l.c.Stats().Evicted)
			}
		})
	}
}

func TestWhatIsReadStaysAndWhatIsNotGoes(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxEntries: 1000})
	const popular = 500
	for k := range popular {
		c.Set(k, k)
	}
	for pass := range 100 {
		for k := range popular {
			c.Get(k)
		}
		for i := range 500 {
			c.Set(1000+pass*500+i, 0) // a scan: never read
		}
	}
	left := 0
	for k := range popular {
		if _, ok := c.Peek(k); ok {
			left++
		}
	}
	require.GreaterOrEqual(t, left, popular*98/100)
	require.LessOrEqual(t, c.Len(), 1000)
	check(t, c)
}

func TestPeekIsNoReasonToStay(t *testing.T) {
	const most, asked = 640, 30
	read, peeked := 0, 0
	for _, look := range []bool{true, false} {
		c := mustNew(t, Options[int, int]{MaxEntries: most, Shards: 1})
		for k := range 2 * most {
			c.Set(-k, k) // until main is full
		}
		for k := range asked {
			c.Set(1+k, k)
		}
		for i := range 2000 {
			for k := range asked {
				if look {
					c.Get(1 + k)
				} else {
					c.Peek(1 + k)
				}
			}
			c.Set(1000+i, 0)
		}
		for k := range asked {
			if _, ok := c.Peek(1 + k); ok && look {
				read++
			} else if ok {
				peeked++
			}
		}
	}
	require.Greater(t, read, asked*9/10)
	require.Less(t, peeked, asked/3, "but for those that are taken for what came often")
}

func TestExpiredEntriesGoBeforeOthers(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[int, int]{MaxEntries: 100, Clock: clock})
	for k := range 50 {
		c.Set(k, k)
	}
	for k := range 50 {
		c.SetTTL(100+k, k, time.Second)
	}
	c.driver.running.Lock() // so that nothing is reclaimed
	clock.Advance(2 * time.Second)
	require.Equal(t, 100, c.Len())
	for k := range 50 {
		c.Set(200+k, k)
	}
	require.Equal(t, uint64(50), c.Stats().Expired)
	require.Zero(t, c.Stats().Evicted)
	c.driver.running.Unlock()
	check(t, c)
}

func TestWhatExpiresSoonIsNotKeptForHavingBeenRead(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxEntries: 120, Shards: 1, Clock: clockwork.NewFakeClock()})
	for k := range 120 {
		c.SetTTL(k, k, []time.Duration{time.Hour, expiresSoon}[k%2])
	}
	for range 3 {
		for k := range 120 {
			c.Get(k)
		}
	}
	for k := range 60 {
		c.SetTTL(200+k, 0, time.Hour)
	}
	for k := range 120 {
		_, ok := c.Peek(k)
		require.Equal(t, k%2 == 0, ok, k)
	}
	check(t, c)
}

func TestAnEntryLargerThanTheBoundIsRefusedAndEvictsNothing(t *testing.T) {
	var removed []Removal[string, int]
	c := mustNew(t, Options[string, int]{
		MaxCost:   1000,
		Cost:      func(_ string, v int) int64 { return int64(v) },
		OnRemoval: func(r Removal[string, int]) { removed = append(removed, r) },
		Clock:     clockwork.NewFakeClock(),
	})
	c.Set("a", 600)
	c.Set("b", 400)
	for i, set := range []func(v int){
		func(v int) { c.Set("c", v) },
		func(v int) { c.SetTTL("c", v, time.Minute) },
		func(v int) { c.GetOrSet("c", v) },
		func(v int) {
			got, ok := c.Compute("c", func(int, bool) (int, Op) { return v, OpStore })
			require.Zero(t, got)
			require.False(t, ok)
		},
		func(v int) {
			got, err := c.GetOrLoad(t.Context(), "c", func(context.Context, string) (int, error) { return v, nil })
			require.NoError(t, err)
			require.Equal(t, v, got, "loaded all the same")
		},
	} {
		for _, v := range []int{1001, -1} {
			removed = nil
			before := c.Stats()
			set(v)
			c.Flush()
			_, ok := c.Get("c")
			require.False(t, ok)
			require.Len(t, removed, 1, "way %d", i)
			require.Equal(t, Evicted, removed[0].Cause)
			require.Equal(t, v, removed[0].Value)
			after := c.Stats()
			require.Equal(t, int64(1000), after.Cost)
			if v < 0 {
				require.Equal(t, before.BadCosts+1, after.BadCosts)
			} else {
				require.Equal(t, before.TooLarge+1, after.TooLarge)
			}
			check(t, c)
		}
	}

	// What was there before is not what the key has any more.
	for i, set := range []func(){
		func() { c.Set("a", 2000) },
		func() { c.Replace("a", 2000) },
		func() { CompareAndSwap(c, "a", 600, 2000) },
	} {
		c.Set("a", 600)
		c.Flush()
		removed = nil
		set()
		c.Flush()
		require.Equal(t, []Cause{Replaced, Evicted}, []Cause{removed[0].Cause, removed[1].Cause}, "way %d", i)
		_, ok := c.Peek("a")
		require.False(t, ok)
		check(t, c)
	}
	v, ok := c.Get("b")
	require.True(t, ok)
	require.Equal(t, 400, v)
}

func TestEntriesWithoutCostArePinned(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxCost: 100, Cost: func(_, v int) int64 { return int64(v) }})
	for k := range 500 {
		c.Set(k, 0)
	}
	for k := range 1000 {
		c.Set(1000+k, 1)
	}
	check(t, c)
	require.Equal(t, 600, c.Len())
	for k := range 500 {
		_, ok := c.Get(k)
		require.True(t, ok, k)
	}
	for k := range 500 {
		c.Set(k, 1) // no longer pinned
	}
	check(t, c)
	require.Equal(t, 100, c.Len())
	for k := range 2000 {
		c.Set(k, 0) // whatever was there is
	}
	check(t, c)
	require.Equal(t, 2000, c.Len())
	require.Zero(t, c.Stats().Cost)
}

func TestAPanicInCostChangesNothing(t *testing.T) {
	broken := false
	c := mustNew(t, Options[int, int]{MaxCost: 100, Cost: func(int, int) int64 {
		if broken {
			panic("cost")
		}
		return 1
	}})
	c.Set(1, 1)
	broken = true
	for name, f := range map[string]func(){
		"Set":            func() { c.Set(1, 2) },
		"SetTTL":         func() { c.SetTTL(1, 2, time.Hour) },
		"Replace":        func() { c.Replace(1, 2) },
		"GetOrSet":       func() { c.GetOrSet(2, 2) },
		"CompareAndSwap": func() { CompareAndSwap(c, 1, 1, 2) },
		"Compute":        func() { c.Compute(1, func(int, bool) (int, Op) { return 2, OpStore }) },
	} {
		require.PanicsWithValue(t, "cost", f, name)
		check(t, c)
	}
	_, err := c.GetOrLoad(t.Context(), 3, func(context.Context, int) (int, error) { return 3, nil })
	var p *PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "cost", p.Value)
	v, ok := c.Get(1)
	require.True(t, ok)
	require.Equal(t, 1, v)
	require.Equal(t, 1, c.Len())
	broken = false
	c.Set(1, 2)
	check(t, c)
}

func TestTheCacheMayBeUsedInCostAndWhenTheyAreEvicted(t *testing.T) {
	var c *Cache[int, int]
	c = mustNew(t, Options[int, int]{
		MaxCost: 200,
		Cost: func(k, _ int) int64 {
			c.Get(k)
			c.Delete(k + 1)
			return 1
		},
		OnRemoval: func(r Removal[int, int]) {
			if r.Cause == Evicted && r.Key < 10_000 {
				c.Set(r.Key+10_000, r.Value)
			}
		},
	})
	for k := range 3000 {
		c.Set(k*2, k)
	}
	c.Flush()
	check(t, c)
	require.LessOrEqual(t, c.Len(), 200)
}

func TestResize(t *testing.T) {
	var evicted int
	c := mustNew(t, Options[int, int]{MaxEntries: 1000, OnRemoval: func(Removal[int, int]) { evicted++ }})
	fill := func() {
		for k := range 10_000 {
			c.Set(k, k)
		}
		check(t, c)
	}
	fill()
	require.Equal(t, 1000, c.Len())
	require.NoError(t, c.Resize(5000))
	require.Equal(t, 1000, c.Len())
	fill()
	require.Equal(t, 5000, c.Len())
	for _, n := range []int64{3000, 100, 1, 2, 4000} {
		require.NoError(t, c.Resize(n))
		check(t, c)
		require.LessOrEqual(t, int64(c.Len()), n)
		fill()
		require.EqualValues(t, n, c.Len())
	}
	c.Flush()
	require.EqualValues(t, c.Stats().Sets-uint64(c.Len()), evicted)

	require.EqualError(t, c.Resize(0), "wheelcache: Resize(0): the bound must be 1 to 72057594037927936")
	require.EqualError(t, c.Resize(-5), "wheelcache: Resize(-5): the bound must be 1 to 72057594037927936")
	unbounded := mustNew(t, Options[int, int]{})
	require.EqualError(t, unbounded.Resize(5), "wheelcache: Resize(5): the cache has no bound; Options.MaxEntries, MaxCost or MaxMemory must be set")
}

func TestNewRejectsBadBounds(t *testing.T) {
	cost := func(int, int) int64 { return 1 }
	for want, o := range map[string]Options[int, int]{
		"wheelcache: Options.MaxEntries is -1; it must be 0 (no bound) to 72057594037927936":                                            {MaxEntries: -1},
		"wheelcache: Options.MaxCost is -1; it must be 0 (no bound) to 72057594037927936":                                               {MaxCost: -1, Cost: cost},
		"wheelcache: Options.MaxMemory is 9223372036854775807; it must be 0 (no bound) to 72057594037927936":                            {MaxMemory: math.MaxInt64},
		"wheelcache: of Options.MaxEntries (1), MaxCost (2) and MaxMemory (0) only one may be set":                                      {MaxEntries: 1, MaxCost: 2, Cost: cost},
		"wheelcache: of Options.MaxEntries (0), MaxCost (2) and MaxMemory (3) only one may be set":                                      {MaxMemory: 3, MaxCost: 2, Cost: cost},
		"wheelcache: Options.MaxCost is 2 and Options.Cost is nil; it must say what entries cost, or Options.MaxEntries be set instead": {MaxCost: 2},
		"wheelcache: Options.Cost is set without a bound; Options.MaxCost or MaxMemory must be set":                                     {Cost: cost},
	} {
		_, err := New(o)
		require.EqualError(t, err, want)
	}
}

func TestHugeBoundsAreAsGoodAsNone(t *testing.T) {
	cost := func(_, v int) int64 { return int64(v) << 20 }
	for name, o := range map[string]Options[int, int]{
		"entries": {MaxEntries: int(min(int64(mostBound), math.MaxInt))},
		"cost":    {MaxCost: mostBound, Cost: cost},
		"memory":  {MaxMemory: mostBound},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustNew(t, o)
			for k := range 50_000 {
				c.Set(k, k)
			}
			require.Equal(t, 50_000, c.Len())
			for i := range c.shards {
				require.LessOrEqual(t, int(c.shards[i].maxBuckets), maxSegmentBytes/int(bucketSize[int, int]()))
			}
			check(t, c)
		})
	}
}

// A shard may have what the others do not want; when they do, they get it back.
func TestShardsShareTheBound(t *testing.T) {
	const most, shards = 1600, 16
	c := mustNew(t, Options[int, int]{MaxEntries: most, Shards: shards})
	require.Len(t, c.shards, shards)
	for k := range 50_000 {
		if s, _ := c.at(k); s == &c.shards[0] {
			c.Set(k, k)
		}
	}
	check(t, c)
	require.GreaterOrEqual(t, c.shards[0].count, most*9/10, "the one shard that is used")
	for k := range 50_000 {
		c.Set(100_000+k, k)
	}
	check(t, c)
	require.LessOrEqual(t, c.Len(), most)
	require.GreaterOrEqual(t, c.Len(), most*9/10)
	for i := range c.shards {
		require.GreaterOrEqual(t, c.shards[i].count, most/shards*3/4, "shard %d", i)
	}
}

func TestSmallBoundsHaveFewShards(t *testing.T) {
	for entries, most := range map[int]int{1: 1, 64: 1, 127: 1, 128: 2, 1000: 8, 1 << 20: 64} {
		c := mustNew(t, Options[int, int]{MaxEntries: entries, Shards: 64})
		require.LessOrEqual(t, len(c.shards), most, "%d entries", entries)
		require.GreaterOrEqual(t, max(entries, leastPerShard)/len(c.shards), leastPerShard)
	}
	c := mustNew(t, Options[int, int]{MaxMemory: 10_000, Shards: 1024})
	require.LessOrEqual(t, len(c.shards), 2, "bytes")
}

// One large entry may need the room of all shards.
func TestALargeEntryTakesTheRoomOfManyShards(t *testing.T) {
	t.Parallel()
	c := mustNew(t, Options[int, int]{MaxCost: 10_000, Shards: 16, Cost: func(_, v int) int64 { return int64(v) }})
	for k := range 20_000 {
		c.Set(k, 1)
	}
	check(t, c)
	for _, v := range []int{5000, 9999, 10_000, 3, 7000} {
		c.Set(-1, v)
		check(t, c)
		require.LessOrEqual(t, c.Stats().Cost, int64(10_000))
		for k := range 50_000 {
			c.Set(k, 1)
		}
		check(t, c)
		require.LessOrEqual(t, c.Stats().Cost, int64(10_000))
	}
}

// What is larger than a shard's fair share, and much smaller than the bound, is there when
// its Set returns.
func TestALargeEntryIsThereWhenItsSetReturns(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxCost: 10_000, Shards: 16, Cost: func(_, v int) int64 { return int64(v) }})
	for i := range 300 {
		for k := range 500 {
			c.Set(1_000_000+i*500+k, 1)
		}
		v := []int{100, 300, 620, 700, 3000, 9000, 10_000}[i%7]
		c.Set(i, v)
		got, ok := c.Peek(i)
		require.True(t, ok, "cost %d", v)
		require.Equal(t, v, got)
		if i%20 == 0 {
			check(t, c)
		}
	}
}

// Two keys of one hash may stand in both parts of a queue that is being swept.
func TestKeysOfOneHashKeepTheirRecordsInASweep(t *testing.T) {
	t.Parallel()
	for _, hashes := range []uint64{300, 1000, 3000} {
		c := mustNew(t, Options[int, int]{MaxEntries: 300, Shards: 1, Hash: func(k int) uint64 {
			return mix(uint64(k), 1, 2) >> 20 % hashes
		}})
		r := rand.New(rand.NewPCG(1, 1))
		o := c.shards[0].order
		sweeps, sweeping := 0, false
		for i := range 20_000 {
			c.Set(i, i)
			if !o.sweeping && i > 400 {
				for k := range c.Keys() {
					if r.IntN(50) == 0 {
						c.Delete(k)
						break
					}
				}
			}
			if o.sweeping && !sweeping {
				sweeps++
			}
			if sweeping = o.sweeping; sweeping || i%100 == 0 {
				check(t, c)
			}
		}
		require.NoError(t, c.Resize(1))
		check(t, c)
		require.Positive(t, sweeps)
	}
}

// What has gone is passed a few records at a time. (The hash is fixed: with one in twenty
// others, two of the keys have the same 32 bits, and the one that stays holds up the other's
// record.)
func TestEvictingPassesFewRecordsOfWhatHasGone(t *testing.T) {
	const n = 20_000
	c := mustNew(t, Options[int, int]{MaxEntries: n, Shards: 1, Hash: func(k int) uint64 { return uint64(k) }})
	for k := range n {
		c.Set(k, k)
	}
	for k := range n / 2 {
		c.Delete(k)
	}
	o := c.shards[0].order
	most := 0
	for k := range n {
		before := o.records()
		c.Set(n+k, k)
		most = max(most, before-o.records())
	}
	require.LessOrEqual(t, most, 2*trimPerWrite+looksPerVictim)
	check(t, c)
}

// Whoever makes the bound smaller waits for OnRemoval, as others who remove do.
func TestResizeWaitsForOnRemoval(t *testing.T) {
	const n = 30_000
	gate := make(chan struct{})
	var c *Cache[int, int]
	most := 0
	c = mustNew(t, Options[int, int]{MaxEntries: n, Shards: 4, OnRemoval: func(Removal[int, int]) {
		<-gate
		most = max(most, c.removals.pending())
	}})
	for k := range n {
		c.Set(k, k)
	}
	evicted := c.Stats().Evicted
	resized := make(chan error)
	go func() { resized <- c.Resize(10) }()
	for c.removals.pending() < maxPending {
		runtime.Gosched()
	}
	close(gate)
	require.NoError(t, <-resized)
	c.Flush()
	require.LessOrEqual(t, c.Len(), 10)
	require.EqualValues(t, n-c.Len(), c.Stats().Evicted)
	require.Less(t, most, maxPending+holdsPerPause*evictPerHold+int(evicted)+1)
	check(t, c)
}

// A Compute that takes long holds up nobody who stores elsewhere and has to make room.
func TestALongComputeDoesNotHoldUpWhoMakesRoom(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxCost: 10_000, Shards: 16, Cost: func(_, v int) int64 { return int64(v) }})
	for k := range 20_000 {
		c.Set(k, 1)
	}
	busy, _ := c.at(1)
	c.Compute(1, func(int, bool) (int, Op) {
		for k := range 200 {
			if s, _ := c.at(100_000 + k); s != busy {
				c.Set(100_000+k, 700) // another shard's, or it would be a deadlock
			}
		}
		return 1, OpStore
	})
	check(t, c)
}

func TestDeletingAndStoringAgainLeavesNoRecordsBehind(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxEntries: 10_000, Shards: 1})
	for k := range 1000 {
		c.Set(k, k)
	}
	for i := range 200_000 {
		c.Delete(i % 1000)
		c.Set(i%1000, i)
		if i%10_000 == 0 {
			check(t, c)
		}
	}
	check(t, c)
	o := c.shards[0].order
	require.LessOrEqual(t, o.records(), 4*1000+unsweptAllowed)
	for k := range 1000 {
		c.Delete(k)
	}
	check(t, c)
	require.Zero(t, o.small)
	require.Zero(t, o.lines)
}

// What comes and goes for long leaves the table as full as it was. (It was not, when the
// hand went in the order of hashes.)
func TestATableAtItsBoundStaysAsFullAsItWas(t *testing.T) {
	t.Parallel()
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	c := mustNew(t, Options[int, int]{MaxEntries: n, Shards: 4})
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 * n {
		k := int(4 * float64(n) * math.Pow(r.Float64(), 3)) // some are popular
		if _, ok := c.Get(k); !ok {
			c.Set(k, k)
		}
	}
	slots := 0
	for i := range c.shards {
		for _, seg := range segmentsOf(t, &c.shards[i]) {
			slots += int(seg.n) * slotsPerBucket
		}
	}
	perEntry := float64(slots) / float64(c.Len())
	t.Logf("%.2f slots per entry", perEntry)
	require.Less(t, perEntry, 1.6)
}

func TestStressBounds(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	for name, o := range map[string]Options[int, int]{
		"entries": {MaxEntries: 2000},
		"one":     {MaxEntries: 1},
		"cost":    {MaxCost: 9000, Cost: func(_, v int) int64 { return int64(v % 9) }},
		"large":   {MaxCost: 9000, Cost: func(_, v int) int64 { return int64(v%9) * int64(v%9) * 100 }},
		"sliding": {MaxEntries: 1000, Expiry: expiry.AfterAccess[int, int](time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			told := uint64(0)
			o.OnRemoval = func(Removal[int, int]) {
				mu.Lock()
				told++
				mu.Unlock()
			}
			c := mustNew(t, o)
			most := max(int64(o.MaxEntries), o.MaxCost)
			for round := range rounds {
				var wg sync.WaitGroup
				for g := range 4 {
					wg.Go(func() {
						r := rand.New(rand.NewPCG(uint64(round), uint64(g)))
						for i := range 20_000 {
							k := r.IntN(6000)
							switch r.IntN(20) {
							case 0:
								c.Delete(k)
							case 1:
								c.SetTTL(k, i, time.Duration(r.IntN(2000))*time.Microsecond)
							case 2:
								c.Compute(k, func(v int, _ bool) (int, Op) { return v + 1, Op(r.IntN(3)) })
							case 3, 4, 5, 6, 7, 8:
								c.Set(k, i)
							default:
								c.Get(k)
							}
							if r.IntN(20_000) == 0 {
								c.Clear()
							}
						}
						if o.Expiry == nil && g == 0 {
							_ = c.Resize(most / int64(1+round%3))
						}
					})
				}
				wg.Wait()
				func() {
					c.FreezeDriver() // or what expires meanwhile is in one number and not yet in the other
					defer c.ThawDriver()
					c.Flush()
					check(t, c)
					s := c.Stats()
					require.LessOrEqual(t, s.Cost, most)
					require.Equal(t, s.Sets-uint64(s.Entries), told)
				}()
			}
		})
	}
}

func TestFifo(t *testing.T) {
	var q fifo
	var l lines
	var want []uint32
	r := rand.New(rand.NewPCG(3, 4))
	for i := range uint32(100_000) {
		if grow := i/5000%2 == 0; len(want) == 0 || grow && r.IntN(3) > 0 || !grow && r.IntN(3) == 0 {
			q.push(&l, i)
			want = append(want, i)
		} else {
			require.Equal(t, want[0], q.pop(&l))
			want = want[1:]
		}
		require.EqualValues(t, len(want), q.len)
		if hash, ok := q.ahead(&l, 7); ok {
			require.Equal(t, want[7], hash)
		}
		if i%997 == 0 {
			var got []uint32
			for _, hashes := range q.each(&l) {
				got = append(got, hashes...)
			}
			require.Equal(t, len(want), len(got))
			for j := range got {
				require.Equal(t, want[j], got[j])
			}
		}
	}
}

// When most of a long queue has gone, so has most of its memory; and a queue that is sometimes
// longer, sometimes shorter allocates nothing.
func TestLinesThatAQueueNoLongerNeedsAreGivenUp(t *testing.T) {
	var l lines
	var q fifo
	withMemory := func() (n int) {
		for _, s := range l.slabs {
			if s.lines != nil {
				n++
			}
		}
		return n
	}
	for _, most := range []int{100_000, 50_000} {
		for i := range uint32(most) {
			q.push(&l, i)
		}
		require.LessOrEqual(t, withMemory(), int(q.len)/lineLen/slabLines+fewLines/slabLines+1)
		for i := 0; q.len > 1000; i++ {
			if i%9 == 8 { // as when main is filled
				q.push(&l, 0)
			} else {
				q.pop(&l)
			}
		}
		checkSlabs(t, &l)
		require.LessOrEqual(t, withMemory(), (2*int(q.len)/lineLen+fewLines)/slabLines+1)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			for range 200 {
				q.push(&l, 0)
			}
			for range 200 {
				q.pop(&l)
			}
		}))
	}
	for q.len > 0 {
		q.pop(&l)
	}
	checkSlabs(t, &l)
	require.LessOrEqual(t, withMemory(), fewLines/slabLines)
}

func TestGhosts(t *testing.T) {
	for _, entries := range []int{1, 10, 100, 5000, 100_000} {
		t.Run(fmt.Sprint(entries), func(t *testing.T) {
			var h history
			r := rand.New(rand.NewPCG(5, 6))
			hashes := make([]uint32, 3*entries)
			for i := range hashes {
				hashes[i] = r.Uint32()
				h.evict(hashes[i], part(i%2), entries)
			}
			found, mistaken := 0, 0
			for i := range hashes {
				back := len(hashes) - 1 - i // the youngest first
				from, justNow, ok := h.arrive(hashes[back])
				if !ok {
					continue
				}
				found++
				// A stamp goes on when so many of each part were evicted.
				if from != part(back%2) || justNow && i/2 > int(h.unit) || !justNow && i/2 == 0 && h.unit > 1 {
					mistaken++ // for another one
				}
			}
			require.LessOrEqual(t, mistaken, 2+len(hashes)/200)
			require.LessOrEqual(t, found, len(h.pages)*ghostsPerPage)
			require.GreaterOrEqual(t, len(h.pages)*entriesPerPage, entries)
			require.LessOrEqual(t, len(h.pages), max(entries/entriesPerPage+1, fewPages))
			require.GreaterOrEqual(t, found, min(entries, len(hashes))*9/10)
		})
	}
}

// Stamps begin anew after sixteen. No ghost looks young again then.
func TestGhostsThatAreTooOldAreForgotten(t *testing.T) {
	const entries = 10_000
	var h history
	r := rand.New(rand.NewPCG(9, 10))
	h.resize(entries)
	evicted := make([]uint32, 40*int(h.unit))
	for i := range evicted {
		evicted[i] = r.Uint32()
		h.arrive(r.Uint32())
		h.evict(evicted[i], ofSmall, entries)
	}
	old := evicted[:len(evicted)-(oldestGhosts+1)*int(h.unit)]
	found := 0
	for _, hash := range old {
		if _, _, ok := h.arrive(hash); ok {
			found++
		}
	}
	require.LessOrEqual(t, found, len(old)/100) // some are of the same fingerprint as others
	found = 0
	for _, hash := range evicted[len(old):] {
		if _, _, ok := h.arrive(hash); ok {
			found++
		}
	}
	require.GreaterOrEqual(t, found, 8*int(h.unit))
}

func TestHowOftenAHashArrivedIsCountedAndHalved(t *testing.T) {
	var h history
	h.resize(10_000)
	require.Zero(t, h.arrivals(7))
	for i := range 2 * mostCount {
		h.arrive(7)
		require.Equal(t, min(i+1, mostCount), h.arrivals(7))
	}
	p := h.pageOf(7)
	for p.arrivals != 0 {
		h.arrive(7)
	}
	require.Equal(t, mostCount/2, h.arrivals(7))
	for _, w := range p.counts {
		for range countsPerWord {
			require.LessOrEqual(t, w&mostCount, uint64(mostCount/2))
			w >>= 4
		}
	}

	// What comes often is told from what never came, while all else comes once.
	h = history{}
	h.resize(10_000)
	r := rand.New(rand.NewPCG(1, 2))
	often, once := make([]uint32, 2000), make([]uint32, 10_000)
	for i := range once {
		once[i] = r.Uint32()
	}
	for i := range often {
		often[i] = r.Uint32()
	}
	for range 7 {
		for i, hash := range once {
			h.arrive(hash)
			h.arrive(often[i%len(often)])
		}
		for i := range once {
			once[i] = r.Uint32()
		}
	}
	mistaken := 0
	for _, hash := range often {
		if h.arrivals(hash) <= clearly {
			mistaken++
		}
	}
	require.LessOrEqual(t, mistaken, len(often)/20)
	mistaken = 0
	for _, hash := range once { // that have not come at all
		if h.arrivals(hash) > clearly {
			mistaken++
		}
	}
	require.LessOrEqual(t, mistaken, len(once)/4)
}

func TestAHugeHistoryIsResized(t *testing.T) {
	var h history
	h.resize(400_000)
	h.arrive(1)
	h.resize(500_000) // with 32 bits, the product of both would be too large
	h.resize(400_000)
	require.LessOrEqual(t, h.arrivals(1), 1)
}

func TestMostOfAHistoryIsKeptWhenItIsResized(t *testing.T) {
	for to, most := range map[int]int{9_000: 70, 11_100: 70, 2_400: 20} {
		const before = 10_000
		var h history
		r := rand.New(rand.NewPCG(3, 4))
		h.resize(before)
		evicted := make([]uint32, before/2)
		for i := range evicted {
			evicted[i] = r.Uint32()
			h.arrive(evicted[i])
			h.arrive(evicted[i])
			h.evict(evicted[i], part(i%2), before)
		}
		h.resize(to)
		counted, found := 0, 0
		for i, hash := range evicted {
			if h.arrivals(hash) >= 2 {
				counted++
			}
			if from, _, ok := h.arrive(hash); ok && from == part(i%2) {
				found++
			}
		}
		require.GreaterOrEqual(t, counted, len(evicted)*most/100, to)
		require.GreaterOrEqual(t, found, len(evicted)*most/100, to)
	}
}

func TestRefusedValuesOfLoadersAreAnswered(t *testing.T) {
	c := mustNew(t, Options[int, int]{MaxCost: 10, Cost: func(_, v int) int64 { return int64(v) }})
	for range 3 {
		got, err := c.LoadAll(t.Context(), []int{1, 2}, func(_ context.Context, keys []int) (map[int]int, error) {
			m := make(map[int]int)
			for _, k := range keys {
				m[k] = 10 * k
			}
			return m, nil
		})
		require.NoError(t, errors.Unwrap(err))
		require.Equal(t, map[int]int{1: 10, 2: 20}, got)
	}
	require.Equal(t, uint64(3), c.Stats().TooLarge)
	require.Equal(t, 1, c.Len())
	check(t, c)
}

func TestCostsBecomeWider(t *testing.T) {
	const n = 20
	largest := []int64{0, 1, math.MaxUint16, math.MaxUint16 + 1, math.MaxUint32, math.MaxUint32 + 1, mostBound}
	for _, before := range largest {
		for _, cost := range largest {
			c, want := newCosts(n), make([]int64, n)
			for i := range want {
				want[i] = max(0, before-int64(i))
				c.set(uintptr(i), want[i])
			}
			c.set(3, cost)
			want[3] = cost
			for i := range want {
				require.Equal(t, want[i], c.at(uintptr(i)), "%d then %d: %d", before, cost, i)
			}
		}
	}
}

// Whatever an entry passes on its way into small, the driver knows when to come for it.
func TestTheDriverIsAwakeForWhatIsInSmall(t *testing.T) {
	awake := func(t *testing.T, c *Cache[int, int]) {
		t.Helper()
		check(t, c)
		require.Less(t, c.shards[0].next.Load(), expiry.NoDeadline)
		require.LessOrEqual(t, c.driver.wakeAt.Load(), c.shards[0].next.Load())
	}
	t.Run("a sweep that comes to its record", func(t *testing.T) {
		reached := 0
		for left := uint32(1); left <= sweepPerWrite; left++ {
			c := mustNew(t, Options[int, int]{MaxEntries: 1000, Shards: 1, Clock: clockwork.NewFakeClock()})
			o := c.shards[0].order
			c.SetTTL(-1, 0, expiry.Never)
			for k := 0; k < 10_000 && (!o.sweeping || o.unswept.len != left); k++ {
				if k%2 == 0 {
					c.SetTTL(k, k, expiry.Never)
				} else {
					c.Delete(k - 1)
				}
			}
			if o.sweeping {
				reached++
				c.SetTTL(-2, 0, time.Second)
				awake(t, c)
			}
		}
		require.Positive(t, reached)
	})
	t.Run("the same hash", func(t *testing.T) {
		c := mustNew(t, Options[int, int]{MaxEntries: 100, Shards: 1, Clock: clockwork.NewFakeClock(), Hash: func(int) uint64 { return 7 }})
		c.SetTTL(1, 1, expiry.Never)
		c.SetTTL(2, 2, expiry.Never)
		c.Delete(2)
		c.SetTTL(3, 3, time.Second)
		awake(t, c)
	})
	t.Run("a wheel whose records wait some ticks early", func(t *testing.T) {
		for range 20 {
			c := mustNew(t, Options[int, int]{MaxEntries: 100, Shards: 1, Clock: clockwork.NewFakeClock()})
			c.SetTTL(1, 1, 10*time.Second)
			c.shards[0].wheel.blurred = true
			c.Get(1)
			for k := 2; k < 110; k++ {
				c.SetTTL(k, k, expiry.Never)
			}
			_, ok := c.Peek(1)
			require.True(t, ok)
			awake(t, c)
		}
	})
}

// A line is many entries: of those that have long been due, few leave under one hold.
func TestLinesThatAreLateExpireAFewAtATime(t *testing.T) {
	const n = 20_000
	c := mustNew(t, Options[int, int]{MaxEntries: 2 * n, Shards: 1, Clock: clockwork.NewFakeClock()})
	for k := range n {
		c.SetTTL(k, k, time.Second)
	}
	s := &c.shards[0]
	now := int64(5 * time.Second)
	most := uint64(0)
	for more := true; more; {
		before := s.removed[Expired-1]
		more = s.advance(now, drainPerHold, 0)
		most = max(most, s.removed[Expired-1]-before)
	}
	require.LessOrEqual(t, most, uint64(drainPerHold+mostLines*lineLen))
	require.EqualValues(t, n, s.removed[Expired-1])
	check(t, c)
}

// A line keeps its record when its entries have gone, so a full cache adds few to the wheel. Those
// of main, which get there by chance here, have each their own, and may leave it behind.
func TestWhatIsEvictedInTimeLeavesTheWheelAlone(t *testing.T) {
	const n = 1000
	c := mustNew(t, Options[int, int]{MaxEntries: n, Shards: 1, TTL: time.Hour, Clock: clockwork.NewFakeClock()})
	for k := range 100 * n {
		c.Set(k, k)
	}
	check(t, c)
	require.LessOrEqual(t, c.Stats().Waiting, 2*n/lineLen+2*c.shards[0].order.mainCount)
}

// Of loops that are larger than the cache, LRU and S3-FIFO keep nothing.
func TestSomeOfALoopLargerThanTheCacheIsKept(t *testing.T) {
	t.Parallel()
	const most, rounds = 1000, 40
	loops := []int{1500, 2500, 4500, 6000}
	if testing.Short() {
		loops = loops[1:2] // millions of requests, by one goroutine, are of little use to the race detector
	}
	for _, loop := range loops {
		for _, others := range []int{0, 2} { // of ten requests
			c := mustNew(t, Options[int, int]{MaxEntries: most, Shards: 1})
			hits, asked := 0, 0
			for i := range rounds * loop {
				k := i % loop
				if i%10 < others {
					k = loop + i
				}
				_, ok := c.Get(k)
				if !ok {
					c.Set(k, k)
				}
				if i >= rounds/2*loop && k < loop {
					asked++
					if ok {
						hits++
					}
				}
			}
			check(t, c)
			possible := float64(most) / float64(loop) / (1 - float64(others)/10)
			require.Greater(t, float64(hits)/float64(asked), possible/2, "loop of %d, %d others", loop, others)
		}
	}
}

// Nothing tells the entries of a shard apart when it comes to its bound first: those that came first
// stay, so that the next round finds them. Later, when main has room, nothing comes for being new.
func TestMainIsFilledOnceWithWhatComes(t *testing.T) {
	const most = 1000
	c := mustNew(t, Options[int, int]{MaxEntries: most, Shards: 1})
	o := c.shards[0].order
	hits := func(from, to int) (n int) {
		for k := from; k < to; k++ {
			if _, ok := c.Get(k); ok {
				n++
			} else {
				c.Set(k, k)
			}
		}
		return n
	}
	for range 2 {
		hits(0, 3*most)
		require.True(t, o.filled)
		require.Greater(t, o.mainCount, most*8/10)
		require.Greater(t, hits(0, 3*most), most*8/10)
		check(t, c)

		// the same, where some of it was deleted after main was full
		var inMainNow []int
		for k := range c.All() {
			_, hash := c.at(k)
			if p, ok := c.shards[0].find(hash, k); ok && p.mark()&inMain != 0 {
				inMainNow = append(inMainNow, k)
			}
		}
		for _, k := range inMainNow {
			c.Delete(k)
		}
		require.Zero(t, o.mainCount)
		hits(10*most, 13*most)
		require.Less(t, o.mainCount, most/2, "but for those that seem to have come before")
		check(t, c)

		c.Clear() // and then all begins anew
		require.False(t, o.filled)
	}
}

// What comes out of small stays if its key has clearly come more often than that of the entry
// before the hand. Otherwise both stay where they are, and the hand too.
func TestAnEntryThatCameOftenTakesThePlaceOfOneThatDidNot(t *testing.T) {
	const most = 1000
	c := mustNew(t, Options[int, int]{MaxEntries: most, Shards: 1})
	for k := range most / 2 {
		c.Set(k, k)
		c.Get(k)
	}
	for k := range 2 * most {
		c.Set(most+k, k)
	}
	s, o := &c.shards[0], c.shards[0].order
	require.Greater(t, o.mainCount, most/4)
	o.target = mostTarget // main has no room
	for _, by := range []int64{math.MinInt64, expiry.NoDeadline} {
		for arrivals := range 2 * clearly {
			for worseArrivals := range 3 {
				clear(o.history.pages) // so that what is new is not taken for a ghost
				c.Set(-1, 0)
				_, hash := c.at(-1)
				p, ok := s.find(hash, -1)
				require.True(t, ok)
				require.Zero(t, p.mark())

				var before spot
				for i := 0; ; i++ { // as the hand would
					if before, ok = s.comeBy(by); ok {
						break
					}
					require.Less(t, i, 100*most)
				}
				o.hand.slot--
				clear(o.history.pages)
				for range arrivals {
					o.history.arrive(hash)
				}
				for range worseArrivals {
					o.history.arrive(before.slot.hash)
				}
				has, of := o.history.arrivals(hash), o.history.arrivals(before.slot.hash)
				hand := o.hand
				worse, from, ok := s.better(p, by, false)
				require.True(t, ok)
				if by == math.MinInt64 && has > of+clearly {
					require.Equal(t, before, worse)
					require.Equal(t, ofMain, from)
					require.EqualValues(t, inMain, p.mark())
				} else {
					require.Equal(t, p, worse)
					require.Equal(t, ofSmall, from)
					require.Zero(t, p.mark())
					require.Equal(t, hand, o.hand)
				}
				require.True(t, c.Delete(-1))
				check(t, c)
			}
		}
	}

	o.target = leastTarget // and now it has
	for arrivals := range 2 * clearly {
		clear(o.history.pages)
		c.Set(-1, 0)
		_, hash := c.at(-1)
		p, ok := s.find(hash, -1)
		require.True(t, ok)
		clear(o.history.pages)
		for range arrivals {
			o.history.arrive(hash)
		}
		_, _, ok = s.better(p, math.MinInt64, false)
		require.Equal(t, arrivals <= clearly, ok)
		require.Equal(t, arrivals > clearly, p.mark()&inMain != 0)
		require.True(t, c.Delete(-1))
		check(t, c)
	}
}

// What the wheel of a full shard has memory for are its deadlines, and what is evicted with one
// leaves no more than its place to the next.
func TestTheWheelOfAFullCacheHasMemoryForItsDeadlines(t *testing.T) {
	t.Parallel()
	const entries = 10_000
	room := func(every int) (most int) {
		c := mustNew(t, Options[int, int]{MaxEntries: entries, Shards: 1, Clock: clockwork.NewFakeClock()})
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 8 * entries {
			ttl := expiry.Never
			if i%every == 0 {
				ttl = time.Hour
			}
			key := random.IntN(2 * entries)
			c.SetTTL(key, i, ttl)
			c.Get(key ^ 1)
			if w := c.shards[0].wheel; w != nil && i >= 2*entries {
				most = max(most, w.Bytes())
			}
		}
		check(t, c)
		return most
	}
	require.Less(t, room(1), 20*entries, "each has a deadline; half as many orphans are allowed")
	require.Less(t, room(1000), entries, "one in a thousand has")
}
