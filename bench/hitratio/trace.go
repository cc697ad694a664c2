package main

import (
	"fmt"
	"math"
	"time"
)

// A Trace is a sequence of requests. Its keys are numbered in the order of their
// first request, so that a request takes four bytes and tables of keys are slices.
type Trace struct {
	Name     string
	Requests []uint32 // numbers of keys
	Keys     []uint64 // by number

	// Only of traces with lifetimes: when each request arrives, counted from the
	// start and never before the one ahead of it, and how long the value of each key
	// lives from when it is stored.
	Arrivals  []time.Duration
	Lifetimes []time.Duration // by number
}

// Distinct returns the number of keys.
func (t *Trace) Distinct() int { return len(t.Keys) }

// Expires reports whether the trace has lifetimes.
func (t *Trace) Expires() bool { return t.Lifetimes != nil }

// Size returns how many entries are that share of the keys: rounded down, but at
// least one.
func (t *Trace) Size(percent float64) int {
	// What is added is less than any share of a key, and more than what is lost by
	// rounding to a binary fraction.
	return max(1, int(math.Floor(percent*float64(t.Distinct())/100+1e-6)))
}

// maxRequests is such that the positions of all requests are less than never, and
// indexes.
const maxRequests = min(never-1, math.MaxInt)

// A recorder makes a trace of keys that come one by one.
type recorder struct {
	trace   *Trace
	numbers map[uint64]uint32
	limit   int // of requests
}

// newRecorder returns one that takes limit requests, or as many as there may be if
// that is 0.
func newRecorder(name string, limit int) *recorder {
	if limit <= 0 {
		limit = maxRequests
	}
	return &recorder{&Trace{Name: name}, map[uint64]uint32{}, limit}
}

// full reports whether no more requests are wanted.
func (r *recorder) full() bool { return len(r.trace.Requests) >= r.limit }

// add appends a request, and returns the number of its key.
func (r *recorder) add(key uint64) uint32 {
	number, known := r.numbers[key]
	if !known {
		number = uint32(len(r.trace.Keys))
		r.numbers[key] = number
		r.trace.Keys = append(r.trace.Keys, key)
	}
	r.trace.Requests = append(r.trace.Requests, number)
	return number
}

// finish returns the trace.
func (r *recorder) finish() (*Trace, error) {
	if len(r.trace.Requests) == 0 {
		return nil, fmt.Errorf("%s: no requests", r.trace.Name)
	}
	return r.trace, nil
}
