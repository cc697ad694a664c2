package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tiny returns a random trace that can be searched for its optimum.
func tiny(r *rand.Rand, expires bool) *Trace {
	rec := newRecorder("tiny", 0)
	keys := 1 + r.IntN(5)
	for range 1 + r.IntN(11) {
		rec.add(uint64(r.IntN(keys)))
	}
	t := rec.trace
	if expires {
		var now time.Duration
		for range t.Requests {
			now += time.Duration(r.IntN(3))
			t.Arrivals = append(t.Arrivals, now)
		}
		for range t.Keys {
			t.Lifetimes = append(t.Lifetimes, time.Duration(1+r.IntN(12)))
		}
	}
	return t
}

// best tries what can be done from request i on, with what is held and until when.
func best(t *Trace, size, i int, held map[uint32]time.Duration) int {
	if i == len(t.Requests) {
		return 0
	}
	number := t.Requests[i]
	deadline, hit := held[number]
	if hit && t.Expires() && t.Arrivals[i] >= deadline {
		hit = false
	}
	if !hit && t.Expires() {
		deadline = t.Arrivals[i] + t.Lifetimes[number]
	}
	having := map[uint32]time.Duration{number: deadline}
	for k, d := range held {
		if k != number {
			having[k] = d
		}
	}
	most := 0
	if len(having) <= size {
		most = best(t, size, i+1, having)
	} else {
		for out := range having {
			rest := map[uint32]time.Duration{}
			for k, d := range having {
				if k != out {
					rest[k] = d
				}
			}
			most = max(most, best(t, size, i+1, rest))
		}
	}
	if t.Expires() { // to give it up before it is full may be wise, to have a new lifetime begin
		rest := map[uint32]time.Duration{}
		for k, d := range held {
			if k != number {
				rest[k] = d
			}
		}
		most = max(most, best(t, size, i+1, rest))
	}
	if hit {
		most++
	}
	return most
}

func Test_belady_is_the_best_there_is(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		trace, size := tiny(r, false), 1+r.IntN(3)
		o := newOracle(trace)
		want := best(trace, size, 0, nil)
		require.Equal(t, want, o.belady(size), "%v, size %d", trace.Requests, size)
		require.GreaterOrEqual(t, o.bound(size), want, "%v, size %d", trace.Requests, size)
	}
}

func Test_with_lifetimes_the_best_lies_between_belady_and_the_bound(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	var below, tight, above int
	for range 1000 {
		trace, size := tiny(r, true), 1+r.IntN(3)
		o := newOracle(trace)
		want := best(trace, size, 0, nil)
		low, high := o.belady(size), o.bound(size)
		require.LessOrEqual(t, low, want, "%+v, size %d", trace, size)
		require.GreaterOrEqual(t, high, want, "%+v, size %d", trace, size)
		switch {
		case low < want:
			below++
		case high > want:
			above++
		default:
			tight++
		}
	}
	t.Logf("belady below: %d, bound above: %d, both tight: %d", below, above, tight)
	require.Positive(t, tight)
}
