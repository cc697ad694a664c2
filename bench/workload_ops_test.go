package main

import (
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// opsMap is a cache that drops every drop-th Set.
type opsMap[K comparable, V any] struct {
	mu      sync.Mutex
	m       map[K]V
	sets    int
	drop    int
	settled bool
	closed  *int
}

func (c *opsMap[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return v, ok
}

func (c *opsMap[K, V]) Set(key K, value V, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets++; c.drop > 0 && c.sets%c.drop == 0 {
		return
	}
	c.m[key] = value
}

func (c *opsMap[K, V]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, key)
}

func (c *opsMap[K, V]) Len() int { return len(c.m) }
func (c *opsMap[K, V]) Settle()  { c.settled = true }
func (c *opsMap[K, V]) Close()   { *c.closed++ }

// An opsPeer makes opsMaps.
type opsPeer struct {
	drop, closed int    // closed counts caches
	config       Config // the last
	uint64s      *opsMap[uint64, uint64]
	peer         Peer
}

func newOpsPeer(t *testing.T, drop int) *opsPeer {
	t.Helper()
	before := [2]time.Duration{runFor, warmUp}
	runFor, warmUp = time.Millisecond, 0
	t.Cleanup(func() { runFor, warmUp = before[0], before[1] })
	o := &opsPeer{drop: drop}
	o.peer = Peer{
		Name: "ops-map",
		Strings: func(c Config) (Cache[string, *Payload], error) {
			o.config = c
			return &opsMap[string, *Payload]{m: map[string]*Payload{}, drop: o.drop, closed: &o.closed}, nil
		},
		Uint64s: func(c Config) (Cache[uint64, uint64], error) {
			o.config = c
			o.uint64s = &opsMap[uint64, uint64]{m: map[uint64]uint64{}, drop: o.drop, closed: &o.closed}
			return o.uint64s, nil
		},
	}
	return o
}

var opsWorkloads = []string{"get", "get-hot", "get-miss", "mix90", "mix50", "overwrite", "delete-set", "insert", "sliding"}

func Test_each_case_of_an_operation_returns_the_metrics_that_it_promises(t *testing.T) {
	o := newOpsPeer(t, 0)
	strings, uint64s := stringBench(&o.peer), uint64Bench(&o.peer)
	const entries = 1000
	for _, name := range opsWorkloads {
		w := workloadNamed(name)
		for _, c := range w.Cases {
			c.Entries = entries
			var s Session
			var err error
			if c.Keys == "string" {
				s, err = w.Strings(strings, c)
			} else {
				s, err = w.Uint64s(uint64s, c)
			}
			require.NoError(t, err)
			var want, got []string
			for _, m := range w.Metrics {
				want = append(want, m.Name)
			}
			for range 2 {
				r, err := s.Run()
				require.NoError(t, err)
				got = got[:0]
				for name, v := range r.Figures {
					got = append(got, name)
					switch name {
					case "ns/op":
						require.Positive(t, v)
					case "hit %", "kept %":
						require.Equal(t, 100.0, v, "%s %s", w.Name, c)
					case "allocs/op":
						require.Less(t, v, 10.0, "%s %s", w.Name, c)
					}
				}
				require.ElementsMatch(t, want, got, "%s %s", w.Name, c)
			}
			require.Equal(t, w.Name == "sliding", o.config.Sliding)
			require.Equal(t, c.Variant == "sized", o.config.Sized)
			s.Close()
			o.config = Config{}
		}
	}
}

func Test_quick_cases_are_there(t *testing.T) {
	quick := map[string]int{}
	for _, name := range opsWorkloads {
		for _, c := range workloadNamed(name).Cases {
			if c.Quick {
				quick[name]++
			}
		}
	}
	require.Equal(t, map[string]int{"get": 2, "mix90": 1, "insert": 1}, quick)
}

func Test_dropped_entries_are_counted(t *testing.T) {
	o := newOpsPeer(t, 4)
	b := uint64Bench(&o.peer)
	run := func(name string, c Case) map[string]float64 {
		s, err := workloadNamed(name).Uint64s(b, c)
		require.NoError(t, err)
		defer s.Close()
		r, err := s.Run()
		require.NoError(t, err)
		return r.Figures
	}
	require.InDelta(t, 75, run("get", Case{Entries: 1000})["hit %"], 2)
	require.InDelta(t, 75, run("get", Case{Entries: 1000, Threads: 2})["hit %"], 2)
	require.InDelta(t, 75, run("sliding", Case{Entries: 1000})["hit %"], 2)
	require.InDelta(t, 75, run("insert", Case{Entries: 1000})["kept %"], 5)
	o.drop = 1
	require.Zero(t, run("insert", Case{Entries: 1000})["kept %"])
	require.Zero(t, run("get-hot", Case{Entries: 10})["hit %"])
}

func Test_a_miss_that_is_a_hit_is_an_error(t *testing.T) {
	o := newOpsPeer(t, 0)
	b := uint64Bench(&o.peer)
	s, err := workloadNamed("get-miss").Uint64s(b, Case{Entries: 10})
	require.NoError(t, err)
	for i := 10; i < 20; i++ {
		o.uint64s.m[b.Key(i)] = 0
	}
	_, err = s.Run()
	require.ErrorContains(t, err, "never stored")
}

func Test_a_cache_that_lost_entries_is_loaded_again(t *testing.T) {
	for _, name := range []string{"mix90", "overwrite", "delete-set"} {
		o := newOpsPeer(t, 0)
		b := uint64Bench(&o.peer)
		for round := range 2 {
			s, err := workloadNamed(name).Uint64s(b, Case{Entries: 100})
			require.NoError(t, err)
			require.True(t, o.uint64s.settled)
			_, err = s.Run()
			require.NoError(t, err)
			if round == 1 {
				delete(o.uint64s.m, b.Key(57))
			}
			s.Close()
			require.Equal(t, round, o.closed)
		}
		_, _, _, err := b.Load(100)
		require.NoError(t, err)
		require.Equal(t, 100, o.uint64s.Len())
	}
}

// countedOps returns operations of two goroutines on n keys, and how often each was picked.
func countedOps(n int) (o *ops, times []int) {
	pick := make([]uint32, n)
	for i := range pick {
		pick[i] = uint32(i)
	}
	var mu sync.Mutex
	times = make([]int, n)
	return newOps(Case{Threads: 2}, pick, func(picks []uint32) tally {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range picks {
			times[p]++
		}
		return tally{len(picks), 1}
	}), times
}

func Test_goroutines_share_the_work(t *testing.T) {
	o, times := countedOps(1000)
	upTo := func(n int) func(int) int { return func(done int) int { return min(300, n-done) } }
	done, sum := o.do(upTo(500))
	require.Equal(t, 1000, done)
	require.Equal(t, tally{1000, 4}, sum)
	require.Equal(t, slices.Repeat([]int{1}, 1000), times)
	// They go on where they were, and round the end.
	o.do(upTo(1000))
	require.Equal(t, slices.Repeat([]int{3}, 1000), times)
}

func Test_goroutines_that_keep_apart_do_nothing_twice(t *testing.T) {
	o, times := countedOps(901) // one of them is nobody's
	o.apart = true
	var mu sync.Mutex
	first := true
	o.do(func(done int) int { // the one that begins does all its part twice, the other none
		mu.Lock()
		defer mu.Unlock()
		if done == 0 && !first {
			return 0
		}
		first = false
		return min(100, 900-done)
	})
	n := map[int]int{}
	for _, of := range times {
		n[of]++
	}
	require.Equal(t, map[int]int{2: 450, 0: 451}, n)
}

func Test_picks(t *testing.T) {
	for _, dist := range []string{"zipf", "uniform", ""} {
		for _, n := range []int{1, 10, 10_000} {
			p := picks(n, dist, 1)
			require.Len(t, p, 1<<20)
			require.Less(t, int(slices.Max(p)), n)
			require.Equal(t, p, picks(n, dist, 1))
			if n > 1 {
				require.NotEqual(t, p, picks(n, dist, 2))
			}
		}
	}
	most := func(dist string) (times int) {
		var count [10_000]int
		for _, p := range picks(10_000, dist, 1) {
			count[p]++
			times = max(times, count[p])
		}
		return times
	}
	require.Greater(t, most("zipf"), 50_000)
	require.Less(t, most("uniform"), 300)
}

func Test_keys(t *testing.T) {
	const n = 200_000
	strings, ints := map[string]bool{}, map[uint64]bool{}
	for i := range n {
		s, again := stringKey(i), stringKey(i)
		require.Len(t, s, 26)
		require.Equal(t, s, again)
		require.NotSame(t, unsafe.StringData(s), unsafe.StringData(again))
		strings[s], ints[mixed(i)] = true, true
	}
	require.Len(t, strings, n)
	require.Len(t, ints, n)
	require.Len(t, stringKey(1<<31-1), 26)
}

func Test_values(t *testing.T) {
	b := stringBench(&Peer{})
	var all sync.WaitGroup
	seen := make([]*Payload, 4)
	for g := range seen {
		all.Go(func() { seen[g] = b.Value(3*payloadBlock + 7) })
	}
	all.Wait()
	for _, p := range seen {
		require.Same(t, seen[0], p)
	}
	for _, i := range []int{0, payloadBlock - 1, payloadBlock, 10_000_000} {
		require.Equal(t, uint64(i), b.Value(i).ID)
		require.Equal(t, uint64(i), uint64Bench(&Peer{}).Value(i))
	}
}

func Test_a_set_never_gets_the_copy_that_is_stored(t *testing.T) {
	const n = 50
	b := stringBench(&Peer{})
	lookup := make([]string, n)
	for i := range lookup {
		lookup[i] = b.Key(i)
	}
	copies := copiesToSet[string]()
	keys := withCopies(b, lookup, copies)
	require.Len(t, keys, n*(1+copies))
	drawn := picks(n, "zipf", 1)[:1001]
	for _, every := range []int{1, 2, 10} {
		sets, gets := 0, 0
		stored := map[string]*byte{}
		marked := interleave(drawn, n, every, copies)
		for round := range 3 {
			for i, p := range marked {
				key := keys[p]
				require.Equal(t, lookup[drawn[i%len(drawn)]], key)
				if p < n {
					gets++
					continue
				}
				sets++
				require.NotSame(t, unsafe.StringData(lookup[p%n]), unsafe.StringData(key))
				if had := stored[key]; had != nil {
					require.NotSame(t, had, unsafe.StringData(key), "every %d, round %d, pick %d", every, round, i)
				}
				stored[key] = unsafe.StringData(key)
			}
		}
		require.Equal(t, 6*(1001/every), sets)
		require.Equal(t, 6*1001-sets, gets)
	}
	require.Equal(t, 1, copiesToSet[uint64]())
}
