package main

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func init() {
	w := Workload{
		Name: "storm",
		About: "entries that expire all at once, while others are read and written: every 10 µs a Get and a Set, and Gets every 1 ms while a Set is stuck. " +
			"A call that takes longer counts also for those that should have begun meanwhile. " +
			"Where all entries have one TTL, they expire spread over as long as it took to store them; figures are then from the first to the last",
		Cases: []Case{
			{Keys: "string", Entries: 100_000, Quick: true},
			{Keys: "string", Entries: 1_000_000},
			{Keys: "uint64", Entries: 1_000_000},
		},
		Fresh:   true,
		Slow:    true,
		Needs:   Traits{Expires: true, Reclaims: true, Shared: true},
		Strings: openStorm[string, *Payload],
		Uint64s: openStorm[uint64, uint64],
	}
	for _, call := range []string{"Get", "Set"} {
		for _, part := range []string{"calm", "storm"} {
			for _, q := range stormQuantiles {
				w.Metrics = append(w.Metrics, Metric{
					Name:   call + " " + q.name + " " + part,
					About:  "latency in µs",
					Better: -1,
					Chart:  call == "Get" && q.name == "max" && part == "storm",
				})
			}
		}
		w.Metrics = append(w.Metrics, Metric{
			Name: call + " p99.9 storm/calm", About: "how many times as long as in the calm", Better: -1,
		})
	}
	w.Metrics = append(w.Metrics,
		Metric{Name: "stalled ms", About: "ms of the storm in gaps of over 1 ms without a Get, less the calm's share of such", Better: -1, Chart: true},
		Metric{Name: "drain ms", About: "ms from the deadline until only the entries that live on are held", Better: -1, Chart: true},
		Metric{Name: "M/s drained", About: "millions of entries per second, once the first has gone", Better: +1},
		Metric{Name: "left %", About: "of the storm's entries, held at the end; at most 10 s after the deadline", Better: -1},
		Metric{Name: "kept %", About: "of all entries, held before the deadline: what the cache has not dropped", Better: +1},
		Metric{Name: "missed %", About: "of the Gets for entries that live on", Better: -1},
		Metric{Name: "nothing p99.9", About: "latency in µs with no call made: what of the above is the machine's"},
	)
	registerWorkload(w)
}

var stormQuantiles = []struct {
	name    string
	percent float64
}{{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}}

const (
	stormPace   = 10 * time.Microsecond  // from Get to Get, and from Set to Set
	stormCourse = 10 * time.Millisecond  // per point of the curve
	stormStall  = time.Millisecond       // without a Get is a stall
	stormPoll   = 5 * time.Millisecond   // between two looks at Len
	stormAfter  = 200 * time.Millisecond // to go on for when all have gone
	// Caches may have entries expire a little early: this long before the deadline is
	// neither calm nor storm.
	stormEve = 50 * time.Millisecond
)

type storm[K comparable, V any] struct {
	b       *Bench[K, V]
	entries int // that expire; a tenth as many live on

	lead    time.Duration // from the first Set to the deadline
	nothing time.Duration // of pacing without calls, first
	warm    time.Duration // of calls that do not count
	calm    time.Duration // up to the eve of the deadline
	most    time.Duration // of storm

	stored []K // those that expire, then those that live on
	values []V
	gets   []K // fresh copies of those that live on, in an order of their own
	sets   []uint32
}

func openStorm[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	n := time.Duration(c.Entries)
	s := &storm[K, V]{
		b: b, entries: c.Entries,
		// Loading takes up to 4 µs per entry with the slowest.
		lead:    400*time.Millisecond + min(time.Second, n*4*time.Microsecond) + n*4*time.Microsecond,
		nothing: 50 * time.Millisecond,
		warm:    50 * time.Millisecond,
		calm:    min(time.Second, n*4*time.Microsecond),
		most:    min(10*time.Second, 3*time.Second+n*10*time.Microsecond),
	}
	living := max(c.Entries/10, 1)
	for i := range c.Entries + living {
		s.stored = append(s.stored, b.Key(i))
		s.values = append(s.values, b.Value(i))
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, i := range r.Perm(living) {
		s.gets = append(s.gets, b.Key(c.Entries+i))
	}
	for _, i := range r.Perm(living) {
		s.sets = append(s.sets, uint32(c.Entries+i))
	}
	runtime.GC()
	return s, nil
}

func (s *storm[K, V]) Close() {}

func (s *storm[K, V]) Run() (Result, error) { return loadedInTime(s.lead, s.run) }

var errLate = errors.New("the deadline had passed before all was loaded")

// loadedInTime calls run with ever longer times to load in, until they suffice.
func loadedInTime(lead time.Duration, run func(lead time.Duration) (Result, error)) (Result, error) {
	for attempt := 1; ; attempt++ {
		r, err := run(lead)
		if !errors.Is(err, errLate) || attempt == 4 {
			return r, err
		}
		lead *= 2
	}
}

func (s *storm[K, V]) run(lead time.Duration) (Result, error) {
	traits := s.b.Peer.Traits
	config := Config{Entries: len(s.stored), TTL: time.Hour}
	if !traits.EachTTL {
		config.TTL = lead
	}
	c, err := s.b.New(config)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()

	epoch := time.Now()
	for i, key := range s.stored[:s.entries] {
		c.Set(key, s.values[i], lead-time.Since(epoch))
	}
	first, last := lead, lead // deadlines
	if !traits.EachTTL {
		last += time.Since(epoch)
	}
	for i, key := range s.stored[s.entries:] {
		c.Set(key, s.values[s.entries+i], time.Hour)
	}
	settle(c)
	d := drain{living: len(s.stored) - s.entries, held: -1, pause: stormPoll, first: first, last: last}
	if traits.Counts {
		start := time.Now()
		d.held = c.Len()
		// Counting may take the cache's locks. It shall not make the stalls.
		d.pause = max(d.pause, 20*time.Since(start))
	}
	eve := first - stormEve
	t := traffic[K, V]{
		cache: c, gets: s.gets, sets: s.sets, stored: s.stored, values: s.values,
		epoch: epoch, begin: eve - s.calm - s.warm - s.nothing, calls: eve - s.calm - s.warm,
	}
	t.alloc(first - t.begin + s.most + stormAfter)
	if time.Since(epoch) > t.begin {
		return Result{}, fmt.Errorf("%w: it took %v", errLate, time.Since(epoch))
	}

	var both sync.WaitGroup
	both.Go(t.drive)
	both.Go(t.standIn)
	time.Sleep(eve - time.Since(epoch))
	d.watch(c.Len, epoch, first+s.most)
	end := d.gone
	if end == 0 {
		end = first + s.most
	}
	t.until.Store(int64(end + stormAfter))
	both.Wait()

	trace := stormTrace{
		gets: t.trace(), sets: t.setCalls,
		nothing: t.begin, calls: t.calls, calm: eve - s.calm, eve: eve, first: first, end: max(end, first+stormPace),
	}
	r := Result{Figures: trace.figures(), Series: trace.courses()}
	d.figures(s.entries, r.Figures)
	r.Figures["missed %"] = 100 * float64(t.missed.Load()) / float64(max(len(trace.gets), 1))
	return r, nil
}

// A drain is what Len shows of a storm. Times are since the epoch.
type drain struct {
	living, held int           // entries: that live on; before the deadline, -1 if unknown
	pause        time.Duration // between two looks
	first, last  time.Duration // deadlines
	full         time.Duration // when as many as before were last seen
	gone         time.Duration // when only the living were first seen; 0: never
	left         int           // seen last
}

// watch polls Len until only the living are left, or until the limit.
func (d *drain) watch(count func() int, epoch time.Time, limit time.Duration) {
	d.full, d.left = time.Since(epoch), d.held
	if d.held < 0 {
		time.Sleep(limit - time.Since(epoch))
		return
	}
	for {
		before := time.Since(epoch)
		d.left = count()
		after := time.Since(epoch)
		if d.left >= d.held {
			d.full = before
		}
		if d.left <= d.living && after >= d.last-stormEve {
			d.gone = after
			return
		}
		if after >= limit {
			return
		}
		time.Sleep(d.pause)
	}
}

func (d *drain) figures(entries int, f map[string]float64) {
	if d.held < 0 {
		return
	}
	f["kept %"] = 100 * float64(d.held) / float64(entries+d.living)
	f["left %"] = 100 * float64(max(d.left-d.living, 0)) / float64(entries)
	if d.gone > 0 && d.held > d.living {
		f["drain ms"] = milliseconds(max(d.gone-d.last, 0))
		f["M/s drained"] = float64(d.held-d.living) / 1e6 / (d.gone - min(d.full, d.gone-1)).Seconds()
	}
}

// traffic is what goes on through calm and storm.
//
// One goroutine makes the calls in turn and between them looks at the clock. With two,
// there would be three at work on two processors once the cache's own has something to
// do, and their latencies would show how Go and the kernel share out processors,
// which they do by the millisecond; sleeping is as coarse. The price is that a Set that gets stuck
// keeps Gets from being tried, so a second goroutine wakes up every millisecond and, if
// that is so, makes one in its stead.
type traffic[K comparable, V any] struct {
	cache  Cache[K, V]
	gets   []K
	sets   []uint32 // indexes of the next two
	stored []K
	values []V

	// Times are since the epoch. From begin to calls only the clock is read.
	epoch        time.Time
	begin, calls time.Duration
	until        atomic.Int64
	inSet        atomic.Int64 // when the Set in progress began; 0 if none is

	getCalls, setCalls, standInCalls []timedCall
	missed                           atomic.Int64
}

type timedCall struct{ at, took time.Duration }

// alloc makes room for the calls of a time. Its pages are faulted in now, not between
// two calls.
func (t *traffic[K, V]) alloc(most time.Duration) {
	t.until.Store(int64(t.begin + most))
	for _, calls := range []*[]timedCall{&t.getCalls, &t.setCalls, &t.standInCalls} {
		*calls = make([]timedCall, most/stormPace+1)
		for i := range *calls {
			(*calls)[i].took = -1
		}
		*calls = (*calls)[:0]
	}
}

func (t *traffic[K, V]) now() time.Duration { return time.Since(t.epoch) }

// get does the i-th Get, begun now.
func (t *traffic[K, V]) get(i int, now time.Duration) timedCall {
	if now < t.calls {
		return timedCall{now, t.now() - now}
	}
	_, ok := t.cache.Get(t.gets[i%len(t.gets)])
	took := t.now() - now
	if !ok {
		t.missed.Add(1)
	}
	return timedCall{now, took}
}

func (t *traffic[K, V]) set(i int, now time.Duration) timedCall {
	if now < t.calls {
		return timedCall{now, t.now() - now}
	}
	at := t.sets[i%len(t.sets)]
	t.inSet.Store(int64(now))
	t.cache.Set(t.stored[at], t.values[at], time.Hour)
	took := t.now() - now
	t.inSet.Store(0)
	return timedCall{now, took}
}

func (t *traffic[K, V]) drive() {
	time.Sleep(t.begin - t.now())
	for i := 0; ; i++ {
		due := t.begin + time.Duration(i)*stormPace
		now := t.wait(due)
		if late := now - due; late > stormPace {
			i += int(late / stormPace) // calls that were missed are not made up for
			due += late / stormPace * stormPace
		}
		if int64(now) >= t.until.Load() {
			return
		}
		t.getCalls = append(t.getCalls, t.get(i, now))
		t.setCalls = append(t.setCalls, t.set(i, t.wait(due+stormPace/2)))
	}
}

// wait returns the time when it is due, or later.
func (t *traffic[K, V]) wait(due time.Duration) (now time.Duration) {
	for now = t.now(); now < due; now = t.now() {
	}
	return now
}

// standIn sleeps before each Get. Waiting in any other way it would keep a processor from
// the goroutine that is stuck.
func (t *traffic[K, V]) standIn() {
	for int64(t.now()) < t.until.Load() {
		time.Sleep(stormStall)
		now := t.now()
		if since := time.Duration(t.inSet.Load()); since > 0 && now-since > stormStall {
			t.standInCalls = append(t.standInCalls, t.get(len(t.standInCalls), now))
		}
	}
}

// trace returns all Gets.
func (t *traffic[K, V]) trace() []timedCall {
	all := slices.Concat(t.getCalls, t.standInCalls)
	slices.SortFunc(all, func(a, b timedCall) int { return cmp.Compare(a.at, b.at) })
	return all
}

// A stormTrace is all calls of a run, in the order in which they began. From nothing to
// calls nothing was called; from calm to eve nothing expired; from first to the end
// the storm's entries did.
type stormTrace struct {
	gets, sets                            []timedCall
	nothing, calls, calm, eve, first, end time.Duration
}

func (t *stormTrace) figures() map[string]float64 {
	f := map[string]float64{}
	for call, calls := range map[string][]timedCall{"Get": t.gets, "Set": t.sets} {
		calm, storm := latencies(calls, t.calm, t.eve), latencies(calls, t.first, t.end)
		if calm.TotalCount() == 0 || storm.TotalCount() == 0 {
			continue // the machine had no time for it
		}
		for _, q := range stormQuantiles {
			f[call+" "+q.name+" calm"] = float64(calm.ValueAtPercentile(q.percent)) / 1e3
			f[call+" "+q.name+" storm"] = float64(storm.ValueAtPercentile(q.percent)) / 1e3
		}
		f[call+" p99.9 storm/calm"] = f[call+" p99.9 storm"] / f[call+" p99.9 calm"]
	}
	usual := t.stalled(t.calm, t.eve).Seconds() / (t.eve - t.calm).Seconds()
	f["stalled ms"] = max(0, milliseconds(t.stalled(t.first, t.end))-usual*milliseconds(t.end-t.first))
	f["nothing p99.9"] = float64(latencies(t.gets, t.nothing, t.calls).ValueAtPercentile(99.9)) / 1e3
	return f
}

// due goes through the calls that began between two times, and those that should have: while one took
// longer than the pace, others would have had to wait for the rest of it.
func due(calls []timedCall, from, to time.Duration) iter.Seq[timedCall] {
	return func(yield func(timedCall) bool) {
		for _, c := range calls {
			if c.at >= to {
				return
			}
			for first := true; first || c.took > 0; first = false {
				if c.at >= from && c.at < to && !yield(c) {
					return
				}
				c.at += stormPace
				c.took -= stormPace
			}
		}
	}
}

func latencies(calls []timedCall, from, to time.Duration) *hdrhistogram.Histogram {
	h := newHistogram()
	for c := range due(calls, from, to) {
		record(h, c.took)
	}
	return h
}

// stalled returns how much of the time was in gaps without the end of a Get. While only
// a Set was in progress nobody tried to Get: that is not counted.
func (t *stormTrace) stalled(from, to time.Duration) (sum time.Duration) {
	sets := t.sets
	last := from // end of a Get
	for _, get := range append(slices.Clone(t.gets), timedCall{at: to}) {
		end := min(get.at+get.took, to)
		if end < last {
			continue
		}
		gap := end - last
		for len(sets) > 0 && sets[0].at < get.at {
			ended := sets[0].at + sets[0].took
			gap -= max(0, min(get.at, ended)-max(last, sets[0].at))
			if ended > get.at {
				break
			}
			sets = sets[1:]
		}
		if gap > stormStall {
			sum += gap
		}
		last = end
	}
	return sum
}

func (t *stormTrace) courses() []Series {
	h := newHistogram()
	course := func(name string, calls []timedCall) Series {
		var took [][]time.Duration // by point of the curve
		for c := range due(calls, t.calm, t.end+stormAfter) {
			i := int((c.at - t.calm) / stormCourse)
			for len(took) <= i {
				took = append(took, nil)
			}
			took[i] = append(took[i], c.took)
		}
		s := Series{Name: name, XUnit: "ms since the deadline", YUnit: "µs"}
		for i, took := range took {
			if len(took) == 0 {
				continue
			}
			h.Reset()
			for _, d := range took {
				record(h, d)
			}
			s.X = append(s.X, milliseconds(t.calm-t.first+time.Duration(i)*stormCourse))
			s.Y = append(s.Y, float64(h.ValueAtPercentile(99.9))/1e3)
		}
		return s
	}
	return []Series{course("Get p99.9", t.gets), course("Set p99.9", t.sets)}
}

// newHistogram returns one for durations, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(10*time.Minute), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), h.HighestTrackableValue())) // in range, so no error
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
