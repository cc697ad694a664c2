package main

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func init() {
	const late = "from an entry's deadline, its TTL after Set was called, until its callback began"
	registerWorkload(Workload{
		Name: "accuracy",
		About: "entries with TTLs of 0.2 to 3 s (0.2 to 1 s where there are fewer than 100,000), stored over a second: when are callbacks made, " +
			"what do Gets around the deadlines say, is every entry reported once? What a cache drops it does not report either. " +
			"What counts as late or early is so for certain, whatever went on during the call",
		Cases: []Case{
			{Keys: "string", Entries: 20_000, Quick: true},
			{Keys: "string", Entries: 20_000, Variant: "tick=1ms"},
			{Keys: "string", Entries: 100_000},
			{Keys: "string", Entries: 100_000, Variant: "tick=1ms"},
			{Keys: "uint64", Entries: 100_000},
		},
		Fresh:   true,
		Slow:    true,
		Needs:   Traits{Expires: true, EachTTL: true, Shared: true},
		Strings: openAccuracy[string, *Payload],
		Uint64s: openAccuracy[uint64, uint64],
		Metrics: []Metric{
			{Name: "late p50 ms", About: late, Better: -1, Chart: true},
			{Name: "late p99 ms", About: late, Better: -1, Chart: true},
			{Name: "late max ms", About: late, Better: -1},
			{Name: "early", About: "callbacks before the deadline", Better: -1},
			{Name: "early max ms", About: "the earliest of them", Better: -1},
			{Name: "lost", About: "entries without a callback 7 s after the last deadline", Better: -1},
			{Name: "doubled", About: "callbacks more than one per entry, or for none", Better: -1},
			{Name: "Gets late", About: "that began after the deadline and returned the value", Better: -1},
			{Name: "Gets late max ms", About: "the latest of them", Better: -1},
			{Name: "Gets early", About: "that ended before the deadline and did not return the value", Better: -1},
			{Name: "Gets early max ms", About: "the earliest of them", Better: -1},
			{Name: "out of bounds", About: "callbacks and Gets early by what wheelcache's documentation does not allow: " +
				"more than 20 ms, or anything if the TTL is less than 2.56 s", Better: -1},
			{Name: "Gets", About: "all that were made"},
		},
	})
}

type accuracy[K comparable, V any] struct {
	b      *Bench[K, V]
	tick   time.Duration
	stored []K
	lookup []K // fresh copies
	values []V

	spread            time.Duration // over which the entries are stored
	shortest, longest time.Duration // TTLs
	grace             time.Duration // for callbacks after the last deadline
}

func openAccuracy[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	a := &accuracy[K, V]{
		b: b, spread: time.Second, shortest: 200 * time.Millisecond, longest: 3 * time.Second, grace: 7 * time.Second,
	}
	if c.Entries < 100_000 {
		a.spread, a.longest = 300*time.Millisecond, time.Second
	}
	var err error
	if a.tick, err = tickOf(c); err != nil {
		return nil, err
	}
	for i := range c.Entries {
		a.stored = append(a.stored, b.Key(i))
		a.lookup = append(a.lookup, b.Key(i))
		a.values = append(a.values, b.Value(i))
	}
	return a, nil
}

// tickOf returns the tick that a case asks for, 0 if it is for the cache to choose.
func tickOf(c Case) (time.Duration, error) {
	if tick, ok := strings.CutPrefix(c.Variant, "tick="); ok {
		return time.ParseDuration(tick)
	}
	return 0, nil
}

func (a *accuracy[K, V]) Close() {}

func (a *accuracy[K, V]) Run() (Result, error) {
	n := len(a.stored)
	l := newLedger(a.stored)
	r := rand.New(rand.NewPCG(1, 1)) // the same for all caches
	for i := range l.entries {
		l.entries[i].ttl = a.shortest + time.Duration(r.Int64N(int64(a.longest-a.shortest)+1))
	}
	planned := func(i int) time.Duration { return a.spread * time.Duration(i) / time.Duration(n) }

	config := Config{Entries: n, TTL: a.longest, Tick: a.tick, OnExpired: func(key K, _ V) { l.fired(key, l.now()) }}
	c, err := a.b.New(config)
	callbacks := err == nil
	if errors.Is(err, ErrCannot) { // perhaps it only has no callbacks
		config.OnExpired = nil
		c, err = a.b.New(config)
	}
	if err != nil {
		return Result{}, err
	}
	runtime.GC()
	// A cache may call back until it is closed: what is read out below is atomic.
	defer c.Close()

	l.epoch = time.Now()
	last := a.spread + a.longest
	var polling sync.WaitGroup
	polling.Go(func() { a.poll(c, l, planned, last+100*time.Millisecond) })
	for i, key := range a.stored {
		if ahead := planned(i) - l.now(); ahead > time.Millisecond {
			time.Sleep(ahead)
		}
		e := &l.entries[i]
		e.from.Store(int64(l.now() + e.ttl))
		c.Set(key, a.values[i], e.ttl)
		e.to.Store(int64(l.now() + e.ttl))
	}
	last = max(last, l.now()+a.longest)
	polling.Wait()
	for callbacks && l.told.Load() < int64(n) && l.now() < last+a.grace {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for a second callback
	f := l.gets.figures()
	if callbacks {
		l.figures(f)
	}
	f["out of bounds"] = float64(l.gets.outOfBounds)
	if callbacks {
		f["out of bounds"] += float64(l.outOfBounds())
	}
	return Result{Figures: f}, nil
}

// poll looks up entries until the end: most of them about when they are to expire.
func (a *accuracy[K, V]) poll(c Cache[K, V], l *ledger[K], planned func(int) time.Duration, end time.Duration) {
	n := len(l.entries)
	byDeadline := make([]int, n)
	for i := range byDeadline {
		byDeadline[i] = i
	}
	deadline := func(i int) time.Duration { return planned(i) + l.entries[i].ttl }
	slices.SortFunc(byDeadline, func(i, j int) int { return cmp.Compare(deadline(i), deadline(j)) })
	around := max(int(time.Duration(n)*10*time.Millisecond/(a.spread+a.longest)), 4) // entries in about 10 ms
	r := rand.New(rand.NewPCG(2, 2))
	for next := 0; l.now() < end; time.Sleep(200 * time.Microsecond) {
		for now := l.now(); next < n && deadline(byDeadline[next]) < now; next++ {
		}
		for range 64 {
			at := r.IntN(n)
			if r.IntN(4) > 0 {
				at = min(max(next+r.IntN(2*around)-around, 0), n-1)
			}
			i := byDeadline[at]
			if l.entries[i].to.Load() == 0 {
				continue // not stored yet
			}
			before := l.now()
			_, ok := c.Get(a.lookup[i])
			l.got(i, ok, before, l.now())
		}
	}
}

// A ledger says when entries were to expire, and when they did. Times are since the
// epoch.
type ledger[K comparable] struct {
	epoch   time.Time
	index   map[K]int32
	entries []expiring
	told    atomic.Int64 // entries with a callback
	excess  atomic.Int64 // callbacks that were one too many
	gets    getsJudged   // the polling goroutine's own
}

type expiring struct {
	ttl      time.Duration
	from, to atomic.Int64 // the deadline is not before and not after; to is 0 until Set has returned
	at       atomic.Int64 // of the first callback; 0 if there was none
}

type getsJudged struct {
	all, late, early, outOfBounds int
	latest, earliest              time.Duration
}

func newLedger[K comparable](keys []K) *ledger[K] {
	l := &ledger[K]{epoch: time.Now(), index: make(map[K]int32, len(keys)), entries: make([]expiring, len(keys))}
	for i, key := range keys {
		l.index[key] = int32(i)
	}
	return l
}

func (l *ledger[K]) now() time.Duration { return time.Since(l.epoch) }

// fired books a callback. Caches may make several at once.
func (l *ledger[K]) fired(key K, now time.Duration) {
	i, ok := l.index[key]
	if !ok || !l.entries[i].at.CompareAndSwap(0, int64(max(now, 1))) {
		l.excess.Add(1)
		return
	}
	l.told.Add(1)
}

// got books a Get.
func (l *ledger[K]) got(i int, ok bool, before, after time.Duration) {
	e, g := &l.entries[i], &l.gets
	g.all++
	if late := before - time.Duration(e.to.Load()); ok && late > 0 {
		g.late++
		g.latest = max(g.latest, late)
	}
	if early := time.Duration(e.from.Load()) - after; !ok && early > 0 {
		g.early++
		g.earliest = max(g.earliest, early)
		if outOfBounds(early, e.ttl) {
			g.outOfBounds++
		}
	}
}

// outOfBounds reports whether wheelcache's documentation does not allow an entry to
// expire that much early.
func outOfBounds(early, ttl time.Duration) bool {
	return early > 20*time.Millisecond || early > 0 && ttl < 2560*time.Millisecond
}

func (g *getsJudged) figures() map[string]float64 {
	return map[string]float64{
		"Gets":              float64(g.all),
		"Gets late":         float64(g.late),
		"Gets late max ms":  milliseconds(g.latest),
		"Gets early":        float64(g.early),
		"Gets early max ms": milliseconds(g.earliest),
	}
}

// figures adds those of the callbacks.
func (l *ledger[K]) figures(f map[string]float64) {
	late := newHistogram()
	var early, lost int
	var earliest time.Duration
	for i := range l.entries {
		e := &l.entries[i]
		at := e.at.Load()
		if at == 0 {
			lost++
			continue
		}
		record(late, time.Duration(at-e.from.Load()))
		if before := time.Duration(e.from.Load() - at); before > 0 {
			early++
			earliest = max(earliest, before)
		}
	}
	f["lost"], f["doubled"] = float64(lost), float64(l.excess.Load())
	f["early"], f["early max ms"] = float64(early), milliseconds(earliest)
	if lost < len(l.entries) {
		f["late p50 ms"] = float64(late.ValueAtPercentile(50)) / 1e6
		f["late p99 ms"] = float64(late.ValueAtPercentile(99)) / 1e6
		f["late max ms"] = float64(late.Max()) / 1e6
	}
}

// outOfBounds returns how many callbacks were.
func (l *ledger[K]) outOfBounds() (n int) {
	for i := range l.entries {
		e := &l.entries[i]
		if at := e.at.Load(); at != 0 && outOfBounds(time.Duration(e.from.Load()-at), e.ttl) {
			n++
		}
	}
	return n
}
