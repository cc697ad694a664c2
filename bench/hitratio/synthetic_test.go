package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/bench/twitter"
)

func made(t *testing.T, name string, seed uint64, limit int) *Trace {
	t.Helper()
	for _, s := range synthetics {
		if s.name == name {
			trace, err := s.make(seed, limit)
			require.NoError(t, err)
			return trace
		}
	}
	t.Fatalf("no trace %q", name)
	return nil
}

func Test_traces_depend_on_the_seed_alone(t *testing.T) {
	for _, s := range synthetics {
		t.Run(s.name, func(t *testing.T) {
			trace := made(t, s.name, 1, 10_000)
			require.Equal(t, s.name, trace.Name)
			require.Equal(t, 10_000, len(trace.Requests))
			require.True(t, reflect.DeepEqual(trace, made(t, s.name, 1, 10_000)))
			if s.name != "loop" { // where nothing is drawn
				require.False(t, slices.Equal(trace.Requests, made(t, s.name, 2, 10_000).Requests))
			}
			require.Equal(t, []uint32{0}, made(t, s.name, 1, 1).Requests)
		})
	}
}

func Test_keys_of_different_kinds_differ(t *testing.T) {
	seen := map[uint64]bool{}
	for kind := popular; kind <= even; kind++ {
		for i := range 10_000 {
			seen[key(kind, i)] = true
		}
	}
	require.Len(t, seen, 5*10_000)
}

func Test_scans_are_a_third_of_requests_for_keys_never_asked_again(t *testing.T) {
	trace := made(t, "scan", 1, 60_000)
	counts := make([]int, trace.Distinct())
	for _, number := range trace.Requests {
		counts[number]++
	}
	require.Equal(t, 1, counts[trace.Requests[5000]])
	var wonders int
	for i := 4000; i < 6000; i++ {
		if counts[trace.Requests[i]] == 1 {
			wonders++
		}
	}
	require.Equal(t, 2000, wonders)
}

func Test_lru_has_no_hits_in_a_loop_that_is_too_large_for_it(t *testing.T) {
	trace := made(t, "loop", 1, 50_000)
	require.Equal(t, 50_000, len(trace.Requests))
	const each = 9561 // requests of a loop, as there are 2,195 keys of none
	require.InDelta(t, 4000, trace.Distinct(), 4)
	o := newOracle(trace)
	for i, percent := range defaultSizes {
		size := trace.Size(percent)
		run, err := replay(peerNamed(t, lruName), trace, size)
		require.NoError(t, err)
		seen := 0 // keys of the loops before, which are small enough
		for _, smaller := range defaultSizes[:i] {
			seen += int(1.1*smaller*40) + 1
		}
		require.InDelta(t, i*each-seen, run.Hits, 10, "%v %%", percent)
		require.Greater(t, o.belady(size), run.Hits+each*3/4, "most of the next one can be had")
	}
}

func Test_other_keys_are_popular_after_a_shift(t *testing.T) {
	trace := made(t, "shift", 1, 100_000)
	top := func(requests []uint32) (most uint32) {
		counts := make([]int, trace.Distinct())
		for _, number := range requests {
			if counts[number]++; counts[number] > counts[most] {
				most = number
			}
		}
		return most
	}
	require.NotEqual(t, top(trace.Requests[:50_000]), top(trace.Requests[50_000:]))
}

func Test_lru_is_far_from_the_optimum_for_blocks_and_jobs(t *testing.T) {
	for name, size := range map[string]int{"blocks": 5000, "jobs": 4000} {
		trace := made(t, name, 1, 200_000)
		lru, err := replay(peerNamed(t, lruName), trace, size)
		require.NoError(t, err)
		require.Greater(t, newOracle(trace).belady(size), lru.Hits+len(trace.Requests)/5, name)
	}
}

func Test_objects_of_jobs_are_replaced_one_by_one(t *testing.T) {
	trace := made(t, "jobs", 1, 200_000)
	distinct := func(requests []uint32) map[uint32]bool {
		seen := map[uint32]bool{}
		for _, number := range requests {
			seen[number] = true
		}
		return seen
	}
	first, next, last := distinct(trace.Requests[:10_000]), distinct(trace.Requests[10_000:20_000]), distinct(trace.Requests[190_000:])
	common := func(with map[uint32]bool) (n int) {
		for number := range first {
			if with[number] {
				n++
			}
		}
		return n
	}
	require.Greater(t, common(next), common(last)*5/4)
}

func Test_twitter_traces_have_the_published_lifetimes_and_frequency(t *testing.T) {
	const n = 100_000
	for _, number := range []int{4, 7, 29, 52} {
		c, ok := twitter.Find(number)
		require.True(t, ok)
		trace := twitterTrace(number)
		made, err := trace.make(1, n)
		require.NoError(t, err)
		require.Equal(t, n, len(made.Arrivals))
		require.Equal(t, made.Distinct(), len(made.Lifetimes))
		require.True(t, slices.IsSorted(made.Arrivals))
		require.InEpsilon(t, float64(spanned(c)), float64(made.Arrivals[n-1]), 0.02, "cluster %d", number)
		known := map[time.Duration]bool{}
		for _, l := range c.Lifetimes {
			known[l.TTL] = true
		}
		for _, l := range made.Lifetimes {
			require.True(t, known[l], "cluster %d: %v", number, l)
		}
		// Of all keys there are, requested or not, each has its share of a week's requests.
		keys := n / c.Frequency * float64(week) / float64(spanned(c))
		require.Less(t, float64(made.Distinct()), keys)
	}
}

// With more and more room, what is left are first requests and lifetimes that are
// over. Production had writes, deletions and bursts besides, but is not far.
func Test_twitter_traces_miss_about_as_often_as_production(t *testing.T) {
	for number, off := range map[int]float64{4: 0.05, 7: 0.03, 29: 0.12, 52: 0.06} {
		c, _ := twitter.Find(number)
		trace := made(t, twitterTrace(number).name, 1, 0)
		hits := newOracle(trace).belady(trace.Distinct())
		misses := 1 - float64(hits)/float64(len(trace.Requests))
		t.Logf("cluster %d: %.3f, production %.3f", number, misses, c.Misses)
		require.InDelta(t, c.Misses, misses, off, "cluster %d", number)
	}
}
