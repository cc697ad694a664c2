package wheelcache

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
)

// Stats are what a cache has counted since it was made. Every store ends up in
// exactly one place:
//
//	Sets == Entries + Expired + Evicted + Deleted + Replaced + Cleared
//
// Counters of different shards are read one after the other, so that holds
// exactly only while nobody writes.
type Stats struct {
	Hits   uint64 // Gets, GetOrSets, GetOrLoads and keys of LoadAll that found a live entry
	Misses uint64 // and those that did not
	Sets   uint64 // values stored, by whatever method

	Expired  uint64 // entries removed because their deadline had passed
	Evicted  uint64 // entries removed to stay within a bound
	Deleted  uint64 // entries removed by a call
	Replaced uint64 // values overwritten while they were live
	Cleared  uint64 // entries removed by Clear

	Refused        uint64 // stores that were not done because the cache was closed
	MissedTicks    uint64 // ticks that passed before expiry woke up for them
	CallbackPanics uint64 // panics in OnRemoval
	Pending        int    // removals that OnRemoval has not been told of yet

	Load LoadStats // what GetOrLoad, LoadAll and Refresh have done

	Cost     int64  // of all entries: their number with MaxEntries; 0 without a bound
	TooLarge uint64 // values that were not stored because they cost more than the whole bound
	BadCosts uint64 // and those for which Options.Cost answered less than 0; both count as Evicted

	Entries int // present now, with those that expired within the last tick or are kept by StaleFor
	Waiting int // records in the timing wheels: one per entry that can expire (where there is a bound, one for several), and leftovers

	// Lateness is how long after their deadlines, and Options.StaleFor, expired
	// entries were removed. Nobody could read them in that time.
	Lateness Histogram
}

// LoadStats are what a cache has counted of loading. A load is that of one key, whether
// by GetOrLoad, LoadAll or Refresh.
type LoadStats struct {
	Loads     uint64 // that have ended, with whatever result
	NotFound  uint64 // of them those that ended with ErrNotFound
	Failures  uint64 // and those that ended with another error or a panic, and not for want of anybody waiting
	Discarded uint64 // values not stored: of superseded flights (see GetOrLoad and DeleteFunc), and on a closed cache

	NegativeHits uint64 // calls answered by a remembered ErrNotFound
	ErrorHits    uint64 // and those by another remembered error
	StaleHits    uint64 // loads that failed, and remembered errors, answered by an expired value: see Options.StaleFor

	Refreshes       uint64 // loads begun in the background
	RefreshFailures uint64 // and of them those among Failures
}

func (s *LoadStats) add(t *LoadStats) {
	s.Loads += t.Loads
	s.NotFound += t.NotFound
	s.Failures += t.Failures
	s.Discarded += t.Discarded
	s.NegativeHits += t.NegativeHits
	s.ErrorHits += t.ErrorHits
	s.StaleHits += t.StaleHits
	s.Refreshes += t.Refreshes
	s.RefreshFailures += t.RefreshFailures
}

// A Histogram counts durations in buckets that are at most a quarter wide,
// relative to their bounds, from 1 µs to about 18 minutes.
type Histogram struct {
	Count  uint64
	Sum    time.Duration
	Max    time.Duration
	Counts [histogramBuckets]uint64 // durations of at most BucketBound(i), and more than the bound before
}

const (
	histogramFirst   = 10 // 2^10 ns is the bound of the first bucket
	histogramSteps   = 4  // buckets per power of two
	histogramBuckets = 30*histogramSteps + 2
)

// BucketBound returns the inclusive upper bound of bucket i. The last bucket has
// none: it is the largest Duration.
func BucketBound(i int) time.Duration {
	if i >= histogramBuckets-1 {
		return 1<<63 - 1
	}
	if i <= 0 {
		return 1 << histogramFirst
	}
	octave, step := (i-1)/histogramSteps, (i-1)%histogramSteps+1
	base := time.Duration(1) << (histogramFirst + octave)
	return base + base/histogramSteps*time.Duration(step)
}

// bucketOfDuration returns the bucket that d belongs to.
func bucketOfDuration(d time.Duration) int {
	if d <= 1<<histogramFirst {
		return 0
	}
	n := uint64(d - 1) // so that bounds are inclusive
	octave := bits.Len64(n) - 1 - histogramFirst
	step := int(n >> (octave + histogramFirst - 2) & (histogramSteps - 1))
	return min(1+octave*histogramSteps+step, histogramBuckets-1)
}

// Quantile returns a bound that a share q of the durations did not exceed, at
// most a quarter too high. It is 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.Count))
	for i, n := range h.Counts {
		if n > 0 && rank < n {
			return min(BucketBound(i), h.Max)
		}
		rank -= min(rank, n)
	}
	return h.Max
}

// Mean returns the mean duration, 0 if there are none.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// lateness is a Histogram that is being counted.
type lateness struct {
	sum    atomic.Uint64
	max    atomic.Int64
	counts [histogramBuckets]atomic.Uint64
}

// record counts d last: what a snapshot has counted is in its Sum and Max.
func (l *lateness) record(d time.Duration) {
	l.sum.Add(uint64(d))
	for m := l.max.Load(); int64(d) > m && !l.max.CompareAndSwap(m, int64(d)); m = l.max.Load() {
	}
	l.counts[bucketOfDuration(d)].Add(1)
}

func (l *lateness) snapshot() (h Histogram) {
	for i := range l.counts {
		h.Counts[i] = l.counts[i].Load()
		h.Count += h.Counts[i]
	}
	h.Sum = time.Duration(l.sum.Load())
	h.Max = time.Duration(l.max.Load())
	return h
}

// Hits and misses are counted by every read, from all cores. One counter would
// be a line that all cores fight for; so there are several, each on a line of
// its own, and a goroutine takes one by the position of its stack: always the
// same, and seldom that of another.
type readCounters struct {
	stripes []readStripe // a power of two
	mask    uint64       // of the offsets of stripes in bytes
}

type readStripe struct {
	hits, misses atomic.Uint64
	_            [48]byte
}

func newReadCounters() readCounters {
	n := min(max(powerOfTwo(4*runtime.GOMAXPROCS(0)), 16), mostStripes)
	return readCounters{make([]readStripe, n), uint64(n-1) * stripeBytes}
}

func (r *readCounters) sum() (hits, misses uint64) {
	for i := range r.stripes {
		hits += r.stripes[i].hits.Load()
		misses += r.stripes[i].misses.Load()
	}
	return hits, misses
}
