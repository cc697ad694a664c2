package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowLRU is an LRU cache that nothing can be wrong with.
type slowLRU struct {
	size int
	keys []uint64 // the latest last
}

func (c *slowLRU) request(key uint64) (hit bool) {
	i := slices.Index(c.keys, key)
	if i >= 0 {
		c.keys = slices.Delete(c.keys, i, i+1)
	} else if len(c.keys) == c.size {
		c.keys = c.keys[1:]
	}
	c.keys = append(c.keys, key)
	return i >= 0
}

func Test_lru_is_exact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{1, 2, 3, 10, 50} {
		c, slow := newLRU(size), &slowLRU{size: size}
		for i := range 5000 {
			key := uint64(r.IntN(3 * size))
			_, hit := c.Get(key)
			require.Equal(t, slow.request(key), hit, "size %d, request %d", size, i)
			if !hit || r.IntN(2) == 0 {
				c.Set(key, Value{Deadline: time.Duration(i)})
			}
			require.Equal(t, len(slow.keys), c.Len())
		}
	}
}

func Test_lru_replaces_values(t *testing.T) {
	c := newLRU(2)
	c.Set(1, Value{TTL: 1})
	c.Set(1, Value{TTL: 2})
	v, ok := c.Get(1)
	require.True(t, ok)
	require.Equal(t, Value{TTL: 2}, v)
	require.Equal(t, 1, c.Len())
}

func peerNamed(t *testing.T, name string) *Peer {
	t.Helper()
	for i := range peers {
		if peers[i].Name == name {
			return &peers[i]
		}
	}
	t.Fatalf("no cache %q", name)
	return nil
}

// skewed is a short trace that caches have something to choose in.
func skewed(t *testing.T) *Trace {
	t.Helper()
	trace, err := zipfTrace(0.9).make(1, 20_000)
	require.NoError(t, err)
	return trace
}

func Test_no_cache_exceeds_its_size_or_the_optimum(t *testing.T) {
	trace := skewed(t)
	o := newOracle(trace)
	for _, p := range ranked() {
		if p.Unwaited {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			for _, percent := range []float64{0.5, 10} {
				size := trace.Size(percent)
				run, err := replay(&p, trace, size)
				require.NoError(t, err)
				require.LessOrEqual(t, run.Most, size)
				require.Greater(t, run.Most, size/2)
				require.LessOrEqual(t, run.Hits, o.belady(size))
				require.Positive(t, run.Hits)
			}
		})
	}
}

func Test_a_cache_for_all_keys_misses_only_new_ones(t *testing.T) {
	trace := skewed(t)
	for _, p := range ranked() {
		if p.Unwaited { // may drop what it is told in a hurry
			continue
		}
		run, err := replay(&p, trace, 2*trace.Distinct()) // shards that have a bound each need more
		require.NoError(t, err)
		require.Equal(t, Run{Hits: len(trace.Requests) - trace.Distinct(), Most: trace.Distinct()}, run, p.Name)
	}
}

func Test_golang_lru_is_lru(t *testing.T) {
	trace := skewed(t)
	for _, percent := range defaultSizes {
		size := trace.Size(percent)
		want, err := replay(peerNamed(t, lruName), trace, size)
		require.NoError(t, err)
		got, err := replay(peerNamed(t, "golang-lru"), trace, size)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func Test_exact_caches_repeat_themselves(t *testing.T) {
	trace := skewed(t)
	for _, p := range ranked() {
		if !p.Exact {
			continue
		}
		once, err := replay(&p, trace, 100)
		require.NoError(t, err)
		again, err := replay(&p, trace, 100)
		require.NoError(t, err)
		require.Equal(t, once, again, p.Name)
	}
}

// expiring is a trace in which a key lives for so long, and is requested at these
// times, with another key that is requested once in between.
func expiring(lifetime time.Duration, times ...time.Duration) *Trace {
	trace := &Trace{Keys: []uint64{1, 2}, Lifetimes: []time.Duration{lifetime, time.Hour}}
	for _, at := range times {
		trace.Requests = append(trace.Requests, 0)
		trace.Arrivals = append(trace.Arrivals, at)
	}
	trace.Requests = append(trace.Requests, 1)
	trace.Arrivals = append(trace.Arrivals, times[len(times)-1])
	return trace
}

func Test_a_hit_is_a_value_that_lives(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		trace *Trace
		hits  int
	}{
		"before the deadline":             {expiring(10*s, 0, 10*s-1), 1},
		"at the deadline":                 {expiring(10*s, 0, 10*s), 0},
		"long after":                      {expiring(10*s, 0, 1000*s), 0},
		"a hit does not prolong it":       {expiring(10*s, 0, 9*s, 18*s), 1},
		"a miss begins a lifetime":        {expiring(10*s, 0, 10*s, 19*s, 20*s), 1},
		"at the very time of the Set":     {expiring(10*s, 5*s, 5*s), 1},
		"counted from the start":          {expiring(10*s, 100*s, 109*s, 111*s), 1},
		"days, in no time":                {expiring(50*time.Hour, 0, 49*time.Hour), 1},
		"less than ticks of wheels":       {expiring(time.Millisecond, 0, time.Millisecond-1, time.Millisecond), 1},
		"again and again":                 {expiring(10*s, 0, 5*s, 10*s, 15*s, 20*s, 25*s), 3},
		"an entry of a minute, each 20 s": {expiring(60*s, 0, 20*s, 40*s, 60*s, 80*s, 100*s, 120*s), 4},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range ranked() {
				if p.Unwaited {
					continue
				}
				run, err := replay(&p, test.trace, 10)
				require.NoError(t, err)
				require.Equal(t, test.hits, run.Hits, p.Name)
			}
			require.Equal(t, test.hits, newOracle(test.trace).belady(10))
			require.Equal(t, test.hits, newOracle(test.trace).bound(10))
		})
	}
}

// A scripted cache returns always the same value, and notes what it is told.
type scripted struct {
	value  Value
	ok     bool
	gets   []uint64
	sets   []uint64
	values []Value
	closed bool
}

func (c *scripted) Get(key uint64) (Value, bool) {
	c.gets = append(c.gets, key)
	return c.value, c.ok
}

func (c *scripted) Set(key uint64, v Value) {
	c.sets, c.values = append(c.sets, key), append(c.values, v)
}

func (c *scripted) Len() int { return 100 - len(c.sets) }
func (c *scripted) Close()   { c.closed = true }

func Test_what_is_missed_is_stored(t *testing.T) {
	plain := &Trace{Requests: []uint32{0, 1, 0}, Keys: []uint64{7, 8}}
	lives := &Trace{
		Requests: []uint32{0, 1, 0}, Keys: []uint64{7, 8},
		Arrivals: []time.Duration{3, 4, 5}, Lifetimes: []time.Duration{10, 20},
	}
	for name, test := range map[string]struct {
		trace  *Trace
		cache  scripted
		hits   int
		sets   []uint64
		values []Value
	}{
		"nothing there":            {plain, scripted{}, 0, []uint64{7, 8, 7}, make([]Value, 3)},
		"all there":                {plain, scripted{ok: true}, 3, nil, nil},
		"nothing, with lifetimes":  {lives, scripted{}, 0, []uint64{7, 8, 7}, []Value{{10, 13}, {20, 24}, {10, 15}}},
		"expired values are given": {lives, scripted{ok: true, value: Value{1, 5}}, 2, []uint64{7}, []Value{{10, 15}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Peer{New: func(cfg Config) (Cache, error) {
				require.Equal(t, Config{Size: 5, Expires: test.trace.Expires()}, cfg)
				return &test.cache, nil
			}}
			run, err := replay(p, test.trace, 5)
			require.NoError(t, err)
			require.Equal(t, test.hits, run.Hits)
			require.Equal(t, requested(test.trace), test.cache.gets)
			require.Equal(t, test.sets, test.cache.sets)
			require.Equal(t, test.values, test.cache.values)
			require.True(t, test.cache.closed)
			if test.sets != nil {
				require.Equal(t, 99, run.Most, "after the first Set")
			}
		})
	}
}
