package main

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// Two peers see the future, and so are no caches. They share what they need to
// know about a trace, which is made once.

// never is the position of a next request that does not come.
const never = math.MaxUint32

// An oracle knows for each request the position of the next one with the same key.
type oracle struct {
	trace *Trace
	next  []uint32
}

func newOracle(t *Trace) *oracle {
	next := make([]uint32, len(t.Requests))
	last := make([]uint32, t.Distinct())
	for i := range last {
		last[i] = never
	}
	for i, number := range slices.Backward(t.Requests) {
		next[i] = last[number]
		last[number] = uint32(i)
	}
	return &oracle{t, next}
}

// positions is a heap of positions with the latest on top.
type positions []uint32

func (p positions) Len() int           { return len(p) }
func (p positions) Less(i, j int) bool { return p[i] > p[j] }
func (p positions) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *positions) Push(x any)        { *p = append(*p, x.(uint32)) }

func (p *positions) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// belady returns the hits of Belady's MIN with bypass: of the entries that it holds
// and the one just requested, it gives up the one whose next request is latest. It
// need not store what it misses, as caches that reject entries need not either.
// Without lifetimes no cache can have more hits.
//
// With lifetimes, it gives up first what will have expired when it is requested
// again. That is one way to use the future, and not always the best: to give up an
// entry for a while has a later miss begin a new lifetime, which may pay. See
// bound.
func (o *oracle) belady(size int) (hits int) {
	t := o.trace
	deadlines := make([]time.Duration, t.Distinct()) // by number of the key
	kept := make([]bool, len(o.next))                // the request at this position is a hit
	var uses positions                               // kept ones, and at the bottom some that have passed
	held := 0
	for i, number := range t.Requests {
		switch {
		case kept[i]:
			hits++
			held--
		case t.Expires():
			deadlines[number] = t.Arrivals[i] + t.Lifetimes[number]
		}
		next := o.next[i]
		if next == never || t.Expires() && t.Arrivals[next] >= deadlines[number] {
			continue
		}
		if held == size {
			if uses[0] <= next {
				continue
			}
			kept[heap.Pop(&uses).(uint32)] = false
			held--
		}
		kept[next] = true
		heap.Push(&uses, next)
		held++
	}
	return hits
}

// bound returns a number of hits that no cache of that size can exceed, with
// lifetimes or without.
//
// Let a place in the cache cost a price per request that goes by meanwhile, and
// places be without number. Then each key can be optimized alone: see worth. A cache
// has size places for len(next)-1 steps from a request to the next; it pays for
// no more than these, so its hits are at most what all keys are worth plus the price of
// all places. That holds at any price; the bound is at the best one.
func (o *oracle) bound(size int) int {
	places := float64(size) * float64(len(o.next)-1)
	at := func(price float64) float64 { return o.worth(price) + price*places }
	// The sum is convex in the price, so it falls and then rises, also in the
	// logarithm, where golden sections close in on the bottom. A place that
	// costs more than 1 is never worth it, and one so cheap that all of them together cost
	// nothing is free.
	const golden = 0.6180339887498949
	low, high := math.Log(0.01/(places+1)), 0.0
	a, b := high-golden*(high-low), low+golden*(high-low)
	atA, atB := at(math.Exp(a)), at(math.Exp(b))
	least := at(0)
	for range 40 {
		least = min(least, atA, atB)
		if atA <= atB {
			high, b, atB = b, a, atA
			a = high - golden*(high-low)
			atA = at(math.Exp(a))
		} else {
			low, a, atA = a, b, atB
			b = low + golden*(high-low)
			atB = at(math.Exp(b))
		}
	}
	return int(least + 1e-6) // the optimum is an integer; what is added is more than rounding errors
}

// worth returns the most that can be had by hits, at 1 each, less the price of the
// places taken for them.
//
// Be i a miss that begins a lifetime, and j the last hit before the entry is given
// up; the next request after j is a miss again. What can be had from i on is then
//
//	max over j of hits from i to j - price*(position of j - that of i) + (from j+1 on)
//
// where j arrives within the lifetime, and j = i if i is not stored. Taken apart,
// that is a maximum over a window which moves back with i: the usual queue of
// candidates, each larger than all behind it, finds it in constant time.
func (o *oracle) worth(price float64) (sum float64) {
	t := o.trace
	seen := make([]bool, t.Distinct())
	var at []uint32     // positions of the key's requests
	var queue []int     // of candidates for j, the nearest last
	var value []float64 // of each candidate
	for first, number := range t.Requests {
		if seen[number] {
			continue
		}
		seen[number] = true
		at = at[:0]
		for i := uint32(first); i != never; i = o.next[i] {
			at = append(at, i)
		}
		queue = queue[:0]
		value = slices.Grow(value[:0], len(at))[:len(at)]
		rest := 0.0 // what can be had from i+1 on
		for i := len(at) - 1; i >= 0; i-- {
			value[i] = float64(i) - price*float64(at[i]) + rest
			for len(queue) > 0 && value[queue[len(queue)-1]] <= value[i] {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, i)
			if t.Expires() {
				deadline := t.Arrivals[at[i]] + t.Lifetimes[number]
				for t.Arrivals[at[queue[0]]] >= deadline {
					queue = queue[1:]
				}
			}
			rest = value[queue[0]] - (float64(i) - price*float64(at[i]))
		}
		sum += rest
	}
	return sum
}
