package wheelcache_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

type pair struct{ a, b uint64 }

// allocates says where allocations cannot be counted: the race detector makes
// its own.
const allocates = raceEnabled

func TestAllocations(t *testing.T) {
	if allocates {
		t.Skip("reads and writes allocate here")
	}
	allocations[string, uint64](t, strconv.Itoa, 0)
	allocations[string, pair](t, strconv.Itoa, 0)
	allocations[string, [3]uint64](t, strconv.Itoa, 0)
	allocations[string, [4]uint64](t, strconv.Itoa, 0)
	allocations[string, [5]uint64](t, strconv.Itoa, 1)
	allocations[string, string](t, strconv.Itoa, 0)
	allocations[string, []byte](t, strconv.Itoa, 0)
	allocations[string, any](t, strconv.Itoa, 0)
	number := func(i int) uint64 { return uint64(i) }
	allocations[uint64, uint64](t, number, 0)
	allocations[uint64, [4]uint64](t, number, 0)
	allocations[uint64, [5]uint64](t, number, 1)
	allocations[uint64, *int](t, number, 0)
	structure := func(i int) pair { return pair{uint64(i), 1} }
	allocations[pair, uint64](t, structure, 0)
	allocations[pair, [4]uint64](t, structure, 0)
}

// allocations checks what operations on a filled cache allocate; perSet is what
// storing a V may.
func allocations[K comparable, V any](t *testing.T, key func(int) K, perSet float64) {
	t.Helper()
	const n = 1000
	for name, o := range map[string]wheelcache.Options[K, V]{
		"no TTL":   {},
		"TTL":      {TTL: time.Hour},
		"exact":    {TTL: time.Hour, ExactClock: true},
		"short":    {TTL: time.Second * 30, Tick: time.Second},
		"write":    {Expiry: expiry.AfterWrite[K, V](time.Hour)},
		"sliding":  {Expiry: expiry.AfterAccess[K, V](time.Hour)},
		"create":   {Expiry: expiry.AfterCreate[K, V](time.Hour)},
		"jittered": {Expiry: expiry.Jitter(expiry.AfterAccess[K, V](time.Hour), 0.1)},
		"limited":  {Expiry: expiry.Limit(expiry.AfterAccess[K, V](time.Hour), 24*time.Hour)},
		"listened": {TTL: time.Hour, OnRemoval: func(wheelcache.Removal[K, V]) {}},
	} {
		t.Run(fmt.Sprintf("%T/%T/%s", *new(K), *new(V), name), func(t *testing.T) {
			c := open(t, o)
			var value V
			keys := make([]K, 2*n)
			for i := range keys {
				keys[i] = key(i)
			}
			for _, k := range keys[:n] {
				c.Set(k, value)
			}
			i := 0
			next := func() K { i++; return keys[i%n] }
			absent := func() K { i++; return keys[n+i%n] }
			measure := func(what string, want float64, f func()) {
				t.Helper()
				require.Equal(t, want, testing.AllocsPerRun(2000, f), what)
			}
			if o.OnRemoval == nil { // events are a matter of their own
				measure("Set over a value", perSet, func() { c.Set(next(), value) })
				measure("SetTTL over a value", perSet, func() { c.SetTTL(next(), value, time.Minute) })
				if name != "create" {
					measure("Delete and Set", perSet, func() { k := next(); c.Delete(k); c.Set(k, value) })
				}
			}
			measure("Get", 0, func() { c.Get(next()) })
			load := func(context.Context, K) (V, error) { panic("it is there") }
			measure("GetOrLoad of what is there", 0, func() { _, _ = c.GetOrLoad(context.Background(), next(), load) })
			measure("Get of an absent key", 0, func() { c.Get(absent()) })
			measure("Peek", 0, func() { c.Peek(next()) })
			measure("GetOrSet of a present key", 0, func() { c.GetOrSet(next(), value) })
			measure("Touch", 0, func() { c.Touch(next()) })
			measure("Move later", 0, func() { c.Move(next(), 2*time.Hour) })
			measure("Move back and forth", 0, func() { k := next(); c.Move(k, time.Minute); c.Move(k, time.Hour) })
			measure("Delete of an absent key", 0, func() { c.Delete(absent()) })
			measure("Len", 0, func() { c.Len() })
		})
	}
}

// heapOf returns how many bytes of heap the results of n calls of f hold, each.
func heapOf(n int, f func(i int) any) uint64 {
	keep := make([]any, n)
	before := heapInUse()
	for i := range keep {
		keep[i] = f(i)
	}
	after := heapInUse()
	runtime.KeepAlive(keep)
	return (max(after, before) - before) / uint64(n)
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Growth makes few allocations, though it goes by small steps.
func TestGrowthSeldomAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 1_000_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := filled(t, time.Hour, n, func(i int) string { return keys[i] }, new(int))
	runtime.ReadMemStats(&after)
	perSet := float64(after.Mallocs-before.Mallocs) / n
	require.NoError(t, c.Close())
	t.Logf("%.4f allocations per Set", perSet)
	require.LessOrEqual(t, perSet, 0.02)
}

// A cache that was told how many entries will come has asked for all memory before they do.
func TestASizedCacheAllocatesNothingWhenItIsFilled(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 500_000
	c := open(t, wheelcache.Options[uint64, uint64]{TTL: time.Hour, Capacity: n})
	runtime.GC() // starts what it needs
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range uint64(n) {
		c.Set(i, i)
	}
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, after.Mallocs-before.Mallocs, uint64(n/20_000), "the runtime's own may be among them")
}

const emptyCache = 8 << 10

func TestSmallCachesAreSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // with more, reads are counted in more places
	for _, tc := range []struct {
		entries int
		most    uint64
	}{{0, emptyCache}, {100, 24 << 10}} {
		for name, ttl := range map[string]time.Duration{"no TTL": 0, "TTL": time.Hour} {
			numbers := heapOf(200, func(int) any { return filled(t, ttl, tc.entries, func(i int) uint64 { return uint64(i) }, 1) })
			texts := heapOf(200, func(int) any { return filled(t, ttl, tc.entries, strconv.Itoa, new(int)) })
			t.Logf("%d entries, %s: %d bytes of integers, %d of strings", tc.entries, name, numbers, texts)
			assert.LessOrEqual(t, numbers, tc.most, "%d entries, %s", tc.entries, name)
			assert.LessOrEqual(t, texts, tc.most, "%d entries, %s", tc.entries, name)
		}
	}
}

// filled returns a cache of 16 shards with n entries.
func filled[K comparable, V any](t *testing.T, ttl time.Duration, n int, key func(int) K, value V) *wheelcache.Cache[K, V] {
	t.Helper()
	c, err := wheelcache.New(wheelcache.Options[K, V]{TTL: ttl, Shards: 16})
	require.NoError(t, err)
	for i := range n {
		c.Set(key(i), value)
	}
	return c
}

// The bytes per entry that a bound costs: queue, ghosts and all; with as many shards as there are by
// default on up to four processors.
func TestABoundCostsAtMostTenBytesPerEntry(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n, shards = 200_000, 16
	heap := func(o wheelcache.Options[uint64, uint64]) uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := open(t, o)
		r := rand.New(rand.NewPCG(7, 8))
		for i := range uint64(n) {
			c.Set(i, i)
		}
		if o.MaxEntries > 0 || o.MaxCost > 0 {
			for range 5 * n {
				k := uint64(2 * n * math.Pow(r.Float64(), 2))
				if _, ok := c.Get(k); !ok {
					c.Set(k, k)
				}
			}
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(c)
		return after.HeapAlloc - before.HeapAlloc
	}
	// Tables grow by the hashes, of which each cache has its own: one may take a few bytes more than another.
	mean := func(o wheelcache.Options[uint64, uint64]) float64 {
		caches := 4
		if testing.Short() {
			caches = 2
		}
		sum := uint64(0)
		for range caches {
			sum += heap(o)
		}
		return float64(sum) / float64(caches) / n
	}
	kilobyte := func(uint64, uint64) int64 { return 1000 }
	for _, ttl := range []time.Duration{0, time.Hour} {
		without := mean(wheelcache.Options[uint64, uint64]{TTL: ttl, Shards: shards})
		for name, o := range map[string]wheelcache.Options[uint64, uint64]{
			"MaxEntries": {TTL: ttl, Shards: shards, MaxEntries: n},
			"MaxCost":    {TTL: ttl, Shards: shards, MaxCost: n * 1000, Cost: kilobyte},
		} {
			more := mean(o) - without
			t.Logf("%.1f bytes per entry without a bound, %.1f more with %s, TTL %v", without, more, name, ttl)
			require.LessOrEqual(t, more, 10.0, "%s, TTL %v", name, ttl)
		}
	}
}

func TestStoringAtTheBoundAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := open(t, wheelcache.Options[uint64, uint64]{MaxEntries: 10_000, TTL: time.Hour})
	i := uint64(0)
	for ; i < 200_000; i++ {
		c.Set(i, i)
		c.Get(i - i%3)
	}
	require.Zero(t, testing.AllocsPerRun(50_000, func() {
		i++
		c.Set(i, i)
		c.Get(i - i%3)
	}))
}

func TestMaxMemoryIsAboutTheMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const most = 16 << 20
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	numbers := open(t, wheelcache.Options[uint64, uint64]{MaxMemory: most})
	for i := range uint64(1_500_000) {
		numbers.Set(i, i)
	}
	got := heap() - before
	t.Logf("numbers: %d KB for %d KB, %d entries", got>>10, most>>10, numbers.Len())
	require.InEpsilon(t, most, got, 0.25)

	before = heap()
	texts := open(t, wheelcache.Options[string, string]{MaxMemory: most, Cost: func(k, v string) int64 { return int64(len(k) + len(v)) }})
	for i := range 100_000 {
		texts.Set(fmt.Sprintf("key %011d.", i), strings.Repeat("v", 256))
	}
	got = heap() - before
	t.Logf("texts: %d KB for %d KB, %d entries", got>>10, most>>10, texts.Len())
	require.InEpsilon(t, most, got, 0.25)
	runtime.KeepAlive(numbers)
}

func TestMemoryComesBackAfterABurst(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 300_000
	for name, leave := range map[string]func(c *wheelcache.Cache[uint64, uint64], pass func()){
		"expired": func(c *wheelcache.Cache[uint64, uint64], pass func()) { pass(); c.Flush() },
		"deleted": func(c *wheelcache.Cache[uint64, uint64], _ func()) {
			for i := range uint64(n) {
				c.Delete(i)
			}
		},
		"cleared": func(c *wheelcache.Cache[uint64, uint64], _ func()) { c.Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			c, clock := openFake(t, wheelcache.Options[uint64, uint64]{})
			empty := heapInUse()
			for i := range uint64(n) {
				c.SetTTL(i, i, time.Minute+time.Duration(i)*time.Microsecond)
			}
			peak := heapInUse() - empty
			leave(c, func() { clock.Advance(time.Hour) })
			require.Zero(t, c.Len())
			after := heapInUse()
			left := max(after, empty) - empty
			t.Logf("peak %d KB, then %d KB", peak>>10, left>>10)
			require.LessOrEqual(t, left, peak/50)
			runtime.KeepAlive(c)
		})
	}
}

func TestMemoryDoesNotGrowWithChurn(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rounds := uint64(20)
	if testing.Short() {
		rounds = 5
	}
	c, _ := openFake(t, wheelcache.Options[uint64, uint64]{})
	const n = 10_000
	churn := func() {
		for r := range rounds {
			for i := range uint64(n) {
				c.SetTTL(i, r, time.Hour-time.Duration(r)*time.Second) // each earlier than the one before: a record each
				if i%3 == 0 {
					c.Delete(i)
				}
			}
		}
	}
	churn()
	before := heapInUse()
	churn()
	churn()
	after := heapInUse()
	require.LessOrEqual(t, after, before+before/10)
	s := c.Stats()
	require.LessOrEqual(t, s.Waiting, 3*s.Entries)
	runtime.KeepAlive(c)
}

func TestAWheelOfFixedSlotsGivesMemoryBackToo(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, err := wheelcache.New(wheelcache.Options[int, int]{Shards: 1, Slots: 1024, Clock: clock})
	require.NoError(t, err)
	defer c.Close()
	before := heapInUse()
	for i := range 300_000 {
		c.SetTTL(i, i, time.Second)
	}
	for i := range 2000 { // survivors keep the wheel alive
		c.SetTTL(-i-1, i, time.Hour)
	}
	full := heapInUse() - before
	clock.Advance(time.Second)
	c.Flush()
	for i := range 2000 {
		c.SetTTL(-i-1, i, time.Minute) // writes move the rest of a rebuild
	}
	require.Less(t, max(heapInUse(), before)-before, full/20)
	require.Equal(t, 2000, c.Len())
}
