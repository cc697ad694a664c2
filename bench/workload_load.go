package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The workloads of this file ask what it costs that a cache loads what it has not, and
// what it spares: how often the loader is called when many want the same.

// loadTime is what a loader takes: it sleeps. That is part of these workloads.
const loadTime = time.Millisecond

func init() {
	loads := Traits{Loads: true, Shared: true}
	registerWorkload(Workload{
		Name: "hit-load",
		About: "GetOrLoad of keys that are there, and Get by turns of 25 ms with it, so that the two can be compared; " +
			"refreshing: entries are refreshed ahead, but none is due. Where Get loads, too, there is only one of them",
		Cases: append(
			cross([]int{10_000}, []string{"zipf"}, []int{1, 2}, []string{"", "refreshing"}),
			cross([]int{million}, []string{"zipf"}, []int{1}, []string{"", "refreshing"})...),
		Needs:   loads,
		Strings: openHitLoad[string, *Payload],
		Uint64s: openHitLoad[uint64, uint64],
		Metrics: []Metric{
			{Name: perOp.Name, About: "time per GetOrLoad, all goroutines together", Better: -1, Chart: true},
			{Name: getPerOp, About: "time per Get", Better: -1},
			allocsPerOp, bytesPerOp, hitPercent,
		},
	})
	registerWorkload(Workload{
		Name: "herd",
		About: "a thousand goroutines ask at once for one key that is not there; the loader takes 1 ms. " +
			"A round has a new key and new goroutines, which wait at a gate; figures are of all rounds of 0.25 s",
		Cases: []Case{
			{Keys: "string", Threads: herdSize, Quick: true},
			{Keys: "uint64", Threads: herdSize},
		},
		Needs:   loads,
		Strings: openHerd[string, *Payload],
		Uint64s: openHerd[uint64, uint64],
		Metrics: []Metric{
			{Name: loadsPerKey, About: "loader calls per round; 1 is ideal", Better: -1, Chart: true},
			{Name: mostLoads, About: "loader calls of the worst round", Better: -1},
			{Name: "last ms", About: "median of the time from the opening of the gate until the last has its value", Better: -1, Chart: true},
			{Name: "last p99 ms", About: "of the same", Better: -1},
			{Name: wrongAnswers, About: "answers other than the value of the key", Better: -1},
			{Name: "rounds", About: "how many there were"},
		},
	})
	registerWorkload(Workload{
		Name: "herd-many",
		About: "256 goroutines ask for 10,000 keys, none of which is there: missing: the cache is new; expired: all of them have just expired at once. " +
			"The loader takes 1 ms. They share 272,144 calls, drawn by the distribution but for one of each key",
		Cases: append(herdCases("missing"), herdCases("expired")...),
		Needs: loads,

		Strings: openHerdMany[string, *Payload],
		Uint64s: openHerdMany[uint64, uint64],
		Metrics: []Metric{
			{Name: loadsPerKey, About: "loader calls per key; 1 is ideal, less means that expired values were served", Better: -1, Chart: true},
			{Name: mostLoads, About: "loader calls for one key", Better: -1},
			{Name: "ops/s", About: "calls per second until all have their value", Better: +1, Chart: true},
			{Name: "all ms", About: "how long that takes", Better: -1},
			{Name: wrongAnswers, About: "answers other than what the loader returns for the key, expired values among them", Better: -1},
		},
	})
	registerWorkload(Workload{
		Name: "refresh",
		About: "GetOrLoad at full rate of keys that live for 200 ms, for 0.5 s, all of them loaded at first; the loader takes 1 ms. " +
			"ahead: entries are refreshed from an age of 100 ms on; off: they are not, so that somebody has to wait. " +
			"Latencies contain two looks at the clock",
		Cases: append(
			cross([]int{100}, []string{"zipf"}, []int{1, 2}, []string{"ahead", "off"}),
			cross([]int{1000}, []string{"zipf"}, []int{1}, []string{"ahead", "off"})...),
		Needs:   Traits{Loads: true, Shared: true, Expires: true},
		Slow:    true,
		Strings: openRefresh[string, *Payload],
		Uint64s: openRefresh[uint64, uint64],
		Metrics: []Metric{
			{Name: "p50 ns", About: "latency of a read", Better: -1},
			{Name: "p99 ns", About: "latency of a read", Better: -1},
			{Name: "p99.9 ns", About: "latency of a read", Better: -1, Chart: true},
			{Name: "p99.99 ns", About: "latency of a read", Better: -1},
			{Name: "max ms", About: "latency of a read", Better: -1},
			{Name: "waited", About: "reads per second that took 1 ms or more, and returned what was loaded after they had begun", Better: -1, Chart: true},
			{Name: "late", About: "reads per second that returned what was loaded more than 250 ms before: expired values", Better: -1},
			{Name: "failed", About: "reads per second that returned an error", Better: -1},
			{Name: "loads/s", About: "loader calls per second"},
			{Name: "M reads/s", About: "reads per second of all goroutines, in millions", Better: +1},
		},
	})
}

// Names that goals, too, refer to.
const (
	getPerOp     = "Get ns/op"
	loadsPerKey  = "loads/key"
	mostLoads    = "most loads"
	wrongAnswers = "wrong"
)

const herdSize = 1000

func herdCases(variant string) []Case {
	return cross([]int{10_000}, []string{"zipf", "uniform"}, []int{256}, []string{variant})
}

// newLoading makes a cache that loads.
func (b *Bench[K, V]) newLoading(cfg Config) (Loading[K, V], error) {
	c, err := b.New(cfg)
	if err != nil {
		return nil, err
	}
	l, ok := c.(Loading[K, V])
	if !ok {
		c.Close()
		return nil, unable(noLoading)
	}
	return l, nil
}

// identity is what a value is known by.
func identity(value any) uint64 {
	if p, ok := value.(*Payload); ok {
		return p.ID
	}
	return value.(uint64)
}

// stamped returns a value with that identity.
func stamped[V any](id uint64) (value V) {
	switch v := any(&value).(type) {
	case **Payload:
		*v = &Payload{id}
	case *uint64:
		*v = id
	}
	return value
}

// hitLoad is a session of Get and GetOrLoad by turns: what disturbs the machine disturbs both.
type hitLoad struct {
	gets, loads *ops // gets is nil for a cache whose Get is GetOrLoad
	called      *atomic.Int64
	close       func()
}

func openHitLoad[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	s := &hitLoad{called: new(atomic.Int64)}
	value := b.Value(0)
	config := Config{Entries: c.Entries, TTL: time.Hour, Load: func(context.Context, K) (V, error) {
		s.called.Add(1)
		return value, nil
	}}
	if c.Variant == "refreshing" {
		config.RefreshAfter = config.TTL * 3 / 4
	}
	cache, err := b.newLoading(config)
	if err != nil {
		return nil, err
	}
	s.close = cache.Close
	keys := b.fill(cache, c.Entries)
	drawn := picks(c.Entries, c.Dist, 1)
	ctx := context.Background()
	s.loads = newOps(c, drawn, func(picks []uint32) tally {
		for _, p := range picks {
			_, _ = cache.GetOrLoad(ctx, keys[p]) // the loader never fails
		}
		return tally{}
	})
	if !b.Peer.Traits.LoadsByGet {
		s.gets = newOps(c, drawn, getEach[K, V](cache, keys))
	}
	return s, nil
}

func (s *hitLoad) Run() (Result, error) {
	s.called.Store(0)
	m := startMeter()
	n, _ := s.loads.do(lasting(runFor)) // in one go, so that the measuring allocates little
	figures := m.perOp(n)
	figures[hitPercent.Name] = 100 * (1 - float64(s.called.Load())/float64(n))
	if s.gets == nil {
		return Result{Figures: figures}, nil
	}
	figures[perOp.Name], figures[getPerOp] = byTurns(s.loads, s.gets)
	return Result{Figures: figures}, nil
}

func (s *hitLoad) Close() { s.close() }

// herd is a session in which goroutines ask for one key, round by round.
type herd[K comparable, V any] struct {
	b      *Bench[K, V]
	cache  Loading[K, V]
	size   int
	round  int // so far, of all Runs: each has a key of its own
	called *atomic.Int64
	value  V // what the loader returns now
}

func openHerd[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	s := &herd[K, V]{b: b, size: c.Threads, called: new(atomic.Int64)}
	var err error
	s.cache, err = b.newLoading(Config{Entries: 10_000, TTL: time.Hour, Load: func(context.Context, K) (V, error) {
		s.called.Add(1)
		value := s.value
		time.Sleep(loadTime)
		return value, nil
	}})
	if err != nil {
		return nil, err
	}
	b.Unload() // nobody will ask it meanwhile
	return s, nil
}

func (s *herd[K, V]) Close() { s.cache.Close() }

func (s *herd[K, V]) Run() (Result, error) {
	s.ask() // the first round finds other processes in the processor's caches
	last := newHistogram()
	var rounds, loads, most, wrong int64
	for start := time.Now(); rounds == 0 || time.Since(start) < runFor; rounds++ {
		took, called, bad := s.ask()
		record(last, took)
		loads += called
		most = max(most, called)
		wrong += bad
	}
	return Result{Figures: map[string]float64{
		loadsPerKey:   float64(loads) / float64(rounds),
		mostLoads:     float64(most),
		"last ms":     float64(last.ValueAtPercentile(50)) / 1e6,
		"last p99 ms": float64(last.ValueAtPercentile(99)) / 1e6,
		wrongAnswers:  float64(wrong),
		"rounds":      float64(rounds),
	}}, nil
}

// ask is one round.
func (s *herd[K, V]) ask() (took time.Duration, called, wrong int64) {
	s.round++
	s.value = s.b.Value(s.round)
	s.called.Store(0)
	keys := make([]K, s.size) // a copy for each, as it would have one
	for i := range keys {
		keys[i] = s.b.Key(s.round)
	}
	values, errs := make([]V, s.size), make([]error, s.size)
	gate := make(chan struct{})
	var ready, all sync.WaitGroup
	ready.Add(s.size)
	for i := range s.size {
		all.Go(func() {
			ready.Done()
			<-gate
			values[i], errs[i] = s.cache.GetOrLoad(context.Background(), keys[i])
		})
	}
	ready.Wait()
	start := time.Now()
	close(gate)
	all.Wait()
	took = time.Since(start)
	want := identity(s.value)
	for i, value := range values {
		if errs[i] != nil || identity(value) != want {
			wrong++
		}
	}
	return took, s.called.Load(), wrong
}

// herdMany is a session in which goroutines ask for many keys that are not there.
type herdMany[K comparable, V any] struct {
	b       *Bench[K, V]
	threads int
	expired bool
	stored  []K
	values  []V
	lookup  []K      // fresh copies
	asked   []uint32 // each key at least once

	index  map[K]uint32
	called []atomic.Int32 // by key
}

const (
	herdDrawn = 1 << 18
	herdBatch = 64 // calls that a goroutine takes at a time
	// herdTTL is for what shall have expired. It takes less than that to store it all.
	herdTTL = 200 * time.Millisecond
)

func openHerdMany[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	s := &herdMany[K, V]{b: b, threads: c.Threads, expired: c.Variant == "expired", index: map[K]uint32{}}
	if lacks := b.Peer.Traits.lacking(Traits{EachTTL: true}); s.expired && lacks != "" {
		return nil, unable(lacks)
	}
	b.Unload() // nobody will ask it meanwhile
	for i := range c.Entries {
		s.stored = append(s.stored, b.Key(i))
		s.values = append(s.values, b.Value(i))
		s.lookup = append(s.lookup, b.Key(i))
		s.index[b.Key(i)] = uint32(i)
	}
	s.asked = atLeastOnce(picks(c.Entries, c.Dist, 1)[:herdDrawn], c.Entries)
	s.called = make([]atomic.Int32, c.Entries)
	cache, err := s.open()
	if err != nil {
		return nil, err
	}
	cache.Close()
	runtime.GC()
	return s, nil
}

// atLeastOnce returns the picks with each of n keys put in once more, anywhere.
func atLeastOnce(picks []uint32, n int) []uint32 {
	r := rand.New(rand.NewPCG(1, 3))
	all := make([]uint32, 0, len(picks)+n)
	all = append(all, picks...)
	for i := range n {
		all = append(all, uint32(i))
		other := r.IntN(len(all))
		all[other], all[len(all)-1] = all[len(all)-1], all[other]
	}
	return all
}

func (s *herdMany[K, V]) open() (Loading[K, V], error) {
	return s.b.newLoading(Config{Entries: len(s.stored), TTL: time.Hour, Load: func(_ context.Context, key K) (V, error) {
		i := s.index[key]
		s.called[i].Add(1)
		time.Sleep(loadTime)
		return s.values[i], nil
	}})
}

func (s *herdMany[K, V]) Close() {}

func (s *herdMany[K, V]) Run() (Result, error) {
	cache, err := s.open()
	if err != nil {
		return Result{}, err
	}
	defer cache.Close()
	if s.expired {
		for i, key := range s.stored {
			cache.Set(key, stamped[V](^identity(s.values[i])), herdTTL)
		}
		time.Sleep(herdTTL) // since the last Set
	}
	for i := range s.called {
		s.called[i].Store(0)
	}
	var next, wrong atomic.Int64
	gate := make(chan struct{})
	var all sync.WaitGroup
	for range s.threads {
		all.Go(func() {
			<-gate
			wrong.Add(s.ask(cache, &next))
		})
	}
	start := time.Now()
	close(gate)
	all.Wait()
	took := time.Since(start)
	var loads, most int32
	for i := range s.called {
		n := s.called[i].Load()
		loads += n
		most = max(most, n)
	}
	return Result{Figures: map[string]float64{
		loadsPerKey:  float64(loads) / float64(len(s.called)),
		mostLoads:    float64(most),
		"ops/s":      float64(len(s.asked)) / took.Seconds(),
		"all ms":     milliseconds(took),
		wrongAnswers: float64(wrong.Load()),
	}}, nil
}

// ask takes calls, a few at a time, until there are no more.
func (s *herdMany[K, V]) ask(cache Loading[K, V], next *atomic.Int64) (wrong int64) {
	for {
		end := int(next.Add(herdBatch))
		begin := end - herdBatch
		if begin >= len(s.asked) {
			return wrong
		}
		for _, p := range s.asked[begin:min(end, len(s.asked))] {
			value, err := cache.GetOrLoad(context.Background(), s.lookup[p])
			if err != nil || identity(value) != identity(s.values[p]) {
				wrong++
			}
		}
	}
}

// refresh is a session of reading what is loaded again and again. A value is the time
// when it was loaded.
type refresh[K comparable, V any] struct {
	cache   Loading[K, V]
	keys    []K
	picks   []uint32
	readers int
	warm    time.Duration
	lasts   time.Duration
	epoch   time.Time
	called  *atomic.Int64
}

const (
	refreshTTL   = 200 * time.Millisecond
	refreshAfter = 100 * time.Millisecond
	// refreshGrace is for the time from the loader's return until the value is stored, in
	// a busy process.
	refreshGrace = 50 * time.Millisecond

	refreshLoaders = 128
)

func openRefresh[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	s := &refresh[K, V]{
		readers: c.Threads, warm: 2 * refreshTTL, lasts: 2 * runFor,
		epoch: time.Now(), called: new(atomic.Int64), picks: picks(c.Entries, c.Dist, 1),
	}
	config := Config{Entries: c.Entries, TTL: refreshTTL, Load: func(context.Context, K) (V, error) {
		s.called.Add(1)
		time.Sleep(loadTime)
		return stamped[V](uint64(time.Since(s.epoch))), nil
	}}
	switch c.Variant {
	case "ahead":
		config.RefreshAfter = refreshAfter
	case "off":
	default:
		return nil, fmt.Errorf("no variant %q", c.Variant)
	}
	var err error
	if s.cache, err = b.newLoading(config); err != nil {
		return nil, err
	}
	b.Unload() // nobody will ask it meanwhile
	for i := range c.Entries {
		s.keys = append(s.keys, b.Key(i))
	}
	runtime.GC()
	return s, nil
}

func (s *refresh[K, V]) Close() { s.cache.Close() }

func (s *refresh[K, V]) Run() (Result, error) {
	s.loadAll()
	s.read(s.warm)
	before := s.called.Load()
	start := time.Now()
	sum := s.read(s.lasts)
	took := time.Since(start).Seconds()
	loads := s.called.Load() - before
	reads := sum.latency.TotalCount()
	if reads == 0 {
		return Result{}, errors.New("nothing was read")
	}
	return Result{Figures: map[string]float64{
		"p50 ns":    float64(sum.latency.ValueAtPercentile(50)),
		"p99 ns":    float64(sum.latency.ValueAtPercentile(99)),
		"p99.9 ns":  float64(sum.latency.ValueAtPercentile(99.9)),
		"p99.99 ns": float64(sum.latency.ValueAtPercentile(99.99)),
		"max ms":    float64(sum.latency.Max()) / 1e6,
		"waited":    float64(sum.waited) / took,
		"late":      float64(sum.late) / took,
		"failed":    float64(sum.failed) / took,
		"loads/s":   float64(loads) / took,
		"M reads/s": float64(reads) / took / 1e6,
	}}, nil
}

// loadAll has all keys loaded, many at once. A reader alone would take longer than they
// live, so that it could never keep them there.
func (s *refresh[K, V]) loadAll() {
	var next atomic.Int64
	var all sync.WaitGroup
	for range refreshLoaders {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(s.keys)); i = next.Add(1) - 1 {
				_, _ = s.cache.GetOrLoad(context.Background(), s.keys[i]) // the loader never fails
			}
		})
	}
	all.Wait()
}

// refreshTally is what readers have seen.
type refreshTally struct {
	latency              *hdrhistogram.Histogram
	waited, late, failed int64
}

// read has all readers go on for a time.
func (s *refresh[K, V]) read(lasts time.Duration) refreshTally {
	sum := refreshTally{latency: newHistogram()}
	var mu sync.Mutex
	var all sync.WaitGroup
	for r := range s.readers {
		all.Go(func() {
			mine := s.readOne(r*len(s.picks)/s.readers, time.Since(s.epoch)+lasts)
			mu.Lock()
			defer mu.Unlock()
			sum.latency.Merge(mine.latency)
			sum.waited += mine.waited
			sum.late += mine.late
			sum.failed += mine.failed
		})
	}
	all.Wait()
	return sum
}

func (s *refresh[K, V]) readOne(at int, until time.Duration) refreshTally {
	t := refreshTally{latency: newHistogram()}
	for {
		key := s.keys[s.picks[at%len(s.picks)]]
		at++
		began := time.Since(s.epoch)
		if began >= until {
			return t
		}
		value, err := s.cache.GetOrLoad(context.Background(), key)
		took := time.Since(s.epoch) - began
		record(t.latency, took)
		if err != nil {
			t.failed++
			continue
		}
		loaded := time.Duration(identity(value))
		switch {
		case loaded > began && took >= loadTime:
			t.waited++
		case began-loaded > refreshTTL+refreshGrace:
			t.late++
		}
	}
}
