package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// In a synctest bubble time stands still while anything runs, and Sleep takes none.

// A shelf is a cache that can be told what to do wrong. As it is, it keeps everything.
type shelf[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]shelved[V]
	pad  []byte

	onSet  func(key K, value V, ttl time.Duration) // called as well
	onGet  func(key K, e shelved[V]) bool          // whether there is an answer
	closed bool
}

type shelved[V any] struct {
	value    V
	deadline time.Time
}

func (s *shelf[K, V]) Get(key K) (V, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.kept[key]
	if ok && s.onGet != nil {
		ok = s.onGet(key, e)
	}
	return e.value, ok
}

func (s *shelf[K, V]) Set(key K, value V, ttl time.Duration) {
	s.mu.Lock()
	s.kept[key] = shelved[V]{value, time.Now().Add(ttl)}
	s.mu.Unlock()
	if s.onSet != nil {
		s.onSet(key, value, ttl)
	}
}

func (s *shelf[K, V]) Delete(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, key)
}

func (s *shelf[K, V]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

func (s *shelf[K, V]) Close() { s.closed = true }

// shelves returns a peer with all traits whose caches are prepared by prepare.
func shelves(prepare func(Config, *shelf[uint64, uint64]) error) *Peer {
	return &Peer{
		Name:   "shelf",
		Traits: Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true},
		Uint64s: func(c Config) (Cache[uint64, uint64], error) {
			s := &shelf[uint64, uint64]{kept: map[uint64]shelved[uint64]{}}
			return s, prepare(c, s)
		},
	}
}

func plainShelf(Config, *shelf[uint64, uint64]) error { return nil }

// ask runs a session once. All its figures must be declared.
func ask(t *testing.T, workload string, open func() (Session, error)) map[string]float64 {
	t.Helper()
	s, err := open()
	require.NoError(t, err)
	defer s.Close()
	r, err := s.Run()
	require.NoError(t, err)
	var declared []string
	for _, m := range workloadNamed(workload).Metrics {
		declared = append(declared, m.Name)
	}
	require.Subset(t, declared, slices.Collect(maps.Keys(r.Figures)))
	return r.Figures
}

func askUint64s(t *testing.T, workload string, p *Peer, c Case) map[string]float64 {
	t.Helper()
	return ask(t, workload, func() (Session, error) { return workloadNamed(workload).Uint64s(uint64Bench(p), c) })
}

func askStrings(t *testing.T, workload string, p *Peer, c Case) map[string]float64 {
	t.Helper()
	return ask(t, workload, func() (Session, error) { return workloadNamed(workload).Strings(stringBench(p), c) })
}

func needCPUTime(t *testing.T) {
	t.Helper()
	if _, err := cpuTime(); errors.Is(err, ErrCannot) {
		t.Skip(err)
	}
}

func Test_a_ledger_judges_by_the_deadline(t *testing.T) {
	const ms = time.Millisecond
	l := newLedger([]string{"punctual", "late", "early", "lost", "twice", "long"})
	for i := range l.entries {
		e := &l.entries[i]
		e.ttl = time.Second
		e.from.Store(int64(100 * ms))
		e.to.Store(int64(102 * ms))
	}
	l.entries[5].ttl = 3 * time.Second
	l.fired("punctual", 100*ms)
	l.fired("late", 107*ms)
	l.fired("early", 99*ms)
	l.fired("twice", 101*ms)
	l.fired("twice", 102*ms)
	l.fired("long", 85*ms)
	l.fired("never stored", 100*ms)

	f := map[string]float64{}
	l.figures(f)
	require.EqualValues(t, 5, l.told.Load())
	require.EqualValues(t, 1, f["lost"])
	require.EqualValues(t, 2, f["doubled"])
	require.EqualValues(t, 2, f["early"])
	require.InDelta(t, 15, f["early max ms"], 0.01)
	require.InDelta(t, 0, f["late p50 ms"], 0.01)
	require.InDelta(t, 7, f["late max ms"], 0.01)
	require.Equal(t, 1, l.outOfBounds(), "the long one may be early by up to 20 ms")

	l.got(0, true, 90*ms, 99*ms)    // a hit before
	l.got(0, true, 102*ms, 103*ms)  // perhaps not after
	l.got(0, true, 105*ms, 106*ms)  // 3 ms late
	l.got(0, false, 99*ms, 100*ms)  // perhaps not before
	l.got(0, false, 95*ms, 96*ms)   // 4 ms early
	l.got(5, false, 80*ms, 81*ms)   // 19 ms, within bounds
	l.got(5, false, 10*ms, 11*ms)   // 89 ms
	l.got(0, false, 110*ms, 111*ms) // a miss after
	require.Equal(t, getsJudged{all: 8, late: 1, early: 3, outOfBounds: 2, latest: 3 * ms, earliest: 89 * ms}, l.gets)
}

func Test_accuracy_finds_what_a_cache_does_wrong(t *testing.T) {
	// Of ten entries in turn, one is reported early, one late, one never, one twice, one
	// is denied and one served for ever.
	const n, ms = 500, time.Millisecond
	index := map[uint64]int{}
	for i := range n {
		index[mixed(i)] = i
	}
	p := shelves(func(c Config, s *shelf[uint64, uint64]) error {
		report := c.OnExpired.(func(uint64, uint64))
		s.onSet = func(key, value uint64, ttl time.Duration) {
			after := func(d time.Duration) { time.AfterFunc(d, func() { report(key, value) }) }
			switch index[key] % 10 {
			case 0:
				after(ttl - 30*ms)
			case 1:
				after(ttl + 40*ms)
			case 2:
			case 3:
				after(ttl)
				after(ttl + ms)
			default:
				after(ttl + 2*ms)
			}
		}
		s.onGet = func(key uint64, e shelved[uint64]) bool {
			switch index[key] % 10 {
			case 4:
				return false
			case 5:
				return true
			}
			return time.Now().Before(e.deadline)
		}
		return nil
	})
	synctest.Test(t, func(t *testing.T) {
		f := askUint64s(t, "accuracy", p, Case{Entries: n})
		require.EqualValues(t, n/10, f["early"])
		require.InDelta(t, 30, f["early max ms"], 0.01)
		require.InDelta(t, 2, f["late p50 ms"], 0.01)
		require.InDelta(t, 40, f["late p99 ms"], 0.1)
		require.InDelta(t, 40, f["late max ms"], 0.1)
		require.EqualValues(t, n/10, f["lost"])
		require.EqualValues(t, n/10, f["doubled"])
		require.Positive(t, f["Gets late"])
		require.Positive(t, f["Gets early"])
		require.Greater(t, f["out of bounds"], float64(n/10), "all early callbacks, and Gets")
		require.Greater(t, f["Gets"], f["Gets late"]+f["Gets early"])
	})
}

func Test_accuracy_of_a_cache_without_callbacks_is_of_its_Gets(t *testing.T) {
	p := shelves(func(c Config, s *shelf[uint64, uint64]) error {
		if c.OnExpired != nil || c.Tick != 0 {
			return fmt.Errorf("%w: neither", ErrCannot)
		}
		s.onGet = func(_ uint64, e shelved[uint64]) bool { return time.Now().Before(e.deadline) }
		return nil
	})
	synctest.Test(t, func(t *testing.T) {
		f := askUint64s(t, "accuracy", p, Case{Entries: 100})
		require.NotContains(t, f, "lost")
		require.Zero(t, f["Gets late"])
		require.Zero(t, f["Gets early"])
		require.Positive(t, f["Gets"])

		s, err := openAccuracy(uint64Bench(p), Case{Entries: 100, Variant: "tick=1ms"})
		require.NoError(t, err)
		_, err = s.Run()
		require.ErrorIs(t, err, ErrCannot)
	})
}

func Test_wheelcache_is_accurate(t *testing.T) {
	for variant, tick := range map[string]float64{"": 10, "tick=1ms": 1} { // ms
		synctest.Test(t, func(t *testing.T) {
			f := askStrings(t, "accuracy", peerNamed("wheelcache"), Case{Entries: 2000, Variant: variant})
			for _, none := range []string{"early", "lost", "doubled", "Gets late", "Gets early", "out of bounds"} {
				require.Zero(t, f[none], none)
			}
			require.LessOrEqual(t, f["late max ms"], 1.01*tick)
		})
	}
}

func Test_churn_shows_what_is_still_held(t *testing.T) {
	needCPUTime(t)
	synctest.Test(t, func(t *testing.T) {
		paced, full := Case{Entries: 2000, Variant: "paced"}, Case{Entries: 2000, Variant: "full"}

		f := askStrings(t, "churn", peerNamed("wheelcache"), paced)
		require.InDelta(t, 1, f["held/ideal"], 0.02)
		require.Zero(t, f["left %"])
		require.Contains(t, f, "CPU µs/insert")
		f = askStrings(t, "churn", peerNamed("wheelcache"), full)
		require.Zero(t, f["left %"])
		require.InDelta(t, 0.002, f["peak M held"], 1e-9)

		f = askUint64s(t, "churn", shelves(plainShelf), paced)
		require.InDelta(t, 3, f["held/ideal"], 0.02, "6 s at 1000 a second, where 2000 would do")
		require.EqualValues(t, 100, f["left %"])
		require.Greater(t, f["left MB"], 6000*32/1e6)

		p := shelves(plainShelf)
		p.Traits.Counts = false
		f = askUint64s(t, "churn", p, full)
		require.NotContains(t, f, "left %")
		require.Contains(t, f, "left MB")
	})
}

func Test_a_storm_passes(t *testing.T) {
	f := askStrings(t, "storm", peerNamed("wheelcache"), Case{Entries: 2000})
	require.EqualValues(t, 100, f["kept %"])
	require.Zero(t, f["left %"])
	require.Zero(t, f["missed %"])
	require.Positive(t, f["drain ms"])
	require.Positive(t, f["M/s drained"])
	require.GreaterOrEqual(t, f["Get max storm"], f["Get p50 storm"])
	require.GreaterOrEqual(t, f["Set max calm"], f["Set p50 calm"])
}

func Test_a_storm_that_stays_is_shown(t *testing.T) {
	for _, counts := range []bool{true, false} {
		p := shelves(plainShelf)
		p.Traits.Counts = counts
		f := ask(t, "storm", func() (Session, error) {
			s, err := openStorm(uint64Bench(p), Case{Entries: 2000})
			s.(*storm[uint64, uint64]).most = 20 * time.Millisecond
			return s, err
		})
		require.NotContains(t, f, "drain ms")
		require.Contains(t, f, "stalled ms")
		if counts {
			require.EqualValues(t, 100, f["left %"])
		} else {
			require.NotContains(t, f, "left %")
		}
	}
}

func Test_a_drain_is_timed(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		epoch := time.Now()
		// 10 ms after the deadline the first have gone, 100 ms later the last.
		count := func() int {
			gone := min(max(time.Since(epoch)-110*ms, 0)*10000/(100*ms), 10000)
			return 11000 - int(gone)
		}
		d := drain{living: 1000, held: count(), pause: stormPoll, first: 100 * ms, last: 100 * ms}
		time.Sleep(100 * ms)
		d.watch(count, epoch, time.Second)
		require.Equal(t, 210*ms, d.gone)
		f := map[string]float64{}
		d.figures(10000, f)
		require.InDelta(t, 110, f["drain ms"], 1e-6)
		require.InDelta(t, 0.1, f["M/s drained"], 1e-6)
		require.Zero(t, f["left %"])

		d = drain{living: 1000, held: 11000, pause: stormPoll}
		d.watch(func() int { return 6000 }, time.Now(), 100*ms)
		f = map[string]float64{}
		d.figures(10000, f)
		require.Equal(t, map[string]float64{"kept %": 100, "left %": 50}, f)
	})
}

func Test_a_stuck_call_counts_for_those_it_keeps_waiting(t *testing.T) {
	calls := []timedCall{{0, 1}, {stormPace, 4*stormPace + 1}, {6 * stormPace, 2}, {7 * stormPace, 3}}
	var took []time.Duration
	for c := range due(calls, 0, 7*stormPace) {
		took = append(took, c.took)
	}
	require.Equal(t, []time.Duration{1, 4*stormPace + 1, 3*stormPace + 1, 2*stormPace + 1, stormPace + 1, 1, 2}, took)
	took = nil
	for c := range due(calls, 4*stormPace, 6*stormPace) {
		took = append(took, c.took)
	}
	require.Equal(t, []time.Duration{stormPace + 1, 1}, took)
}

func Test_stalls_are_of_Gets_beyond_the_calms(t *testing.T) {
	const ms, µs = time.Millisecond, time.Microsecond
	trace := stormTrace{nothing: -2 * ms, calls: -ms, calm: 0, eve: 99 * ms, first: 100 * ms, end: 200 * ms}
	at := -2 * ms
	step := func(upTo time.Duration) {
		for ; at < upTo; at += stormPace {
			trace.gets = append(trace.gets, timedCall{at, µs})
			trace.sets = append(trace.sets, timedCall{at + stormPace/2, µs})
		}
	}
	get := func(took time.Duration) {
		trace.gets = append(trace.gets, timedCall{at, took})
		at += took
	}
	step(120 * ms)
	get(30 * ms)
	step(160 * ms)
	f := trace.figures()
	require.InDelta(t, 30+40, f["stalled ms"], 0.1, "a Get that took 30, and none in the last 40")

	// A Set that is stuck stalls nobody, unless a Get is stuck besides.
	at = 160 * ms
	trace.sets = append(trace.sets, timedCall{at, 39 * ms})
	trace.gets = append(trace.gets, timedCall{at + 5*ms, µs}, timedCall{at + 10*ms, 3 * ms}, timedCall{at + 20*ms, µs})
	at = 199 * ms
	step(300 * ms)
	f = trace.figures()
	require.InDelta(t, 30+3, f["stalled ms"], 0.1)
	require.InDelta(t, 30e3, f["Get max storm"], 30)
	require.InDelta(t, 39e3, f["Set max storm"], 39)
	require.InDelta(t, 1, f["Get max calm"], 0.01)
	require.InDelta(t, f["Set p99.9 storm"], f["Set p99.9 storm/calm"], 0.01*f["Set p99.9 storm"])

	course := trace.courses()
	require.Equal(t, []string{"Get p99.9", "Set p99.9"}, []string{course[0].Name, course[1].Name})
	require.Equal(t, len(course[0].X), len(course[0].Y))
	require.InDelta(t, -100, course[0].X[0], 1e-9)
	require.InDelta(t, 1, course[0].Y[0], 0.01)
	require.InDelta(t, 30e3, course[0].Y[12], 60, "120 ms after the calm's begin")

	// What the calm has too, the storm is not blamed for.
	late := func(c timedCall) bool { return c.at > 50*ms && c.at < 83*ms }
	trace.gets, trace.sets = slices.DeleteFunc(trace.gets, late), slices.DeleteFunc(trace.sets, late)
	require.InDelta(t, 0, trace.figures()["stalled ms"], 0.1)
}

func Test_loading_gets_more_time_if_it_needs_it(t *testing.T) {
	var leads []time.Duration
	run := func(lead time.Duration) (Result, error) {
		leads = append(leads, lead)
		if lead < 4 {
			return Result{}, fmt.Errorf("%w: it took 3", errLate)
		}
		return Result{}, nil
	}
	_, err := loadedInTime(1, run)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{1, 2, 4}, leads)
	_, err = loadedInTime(0, run)
	require.ErrorIs(t, err, errLate)
}

func Test_heap_counts_what_is_beyond_keys_and_values(t *testing.T) {
	const n = 1 << 14
	var rows [][][7]uint64 // key, value and 40 bytes more
	p := shelves(func(c Config, s *shelf[uint64, uint64]) error {
		rows = append(rows, make([][7]uint64, c.Entries))
		s.onSet = func(key, _ uint64, _ time.Duration) { s.Delete(key) }
		return nil
	})
	p.Traits.Counts = false
	f := askUint64s(t, "heap", p, Case{Entries: n, Variant: "sized"})
	require.InDelta(t, 40, f["B/entry"], 4)
	require.InDelta(t, 0, f["objects/entry"], 0.01)
	require.Len(t, rows, 1)
	rows = nil

	p = shelves(func(_ Config, s *shelf[uint64, uint64]) error { s.pad = make([]byte, 64<<10); return nil })
	f = askUint64s(t, "heap", p, Case{Variant: "empty"})
	require.InDelta(t, 64, f["KB/cache"], 2)
	require.InDelta(t, 0, f["goroutines/cache"], 0.1, "others may end meanwhile")
	f = askUint64s(t, "heap", p, Case{Entries: 100, Variant: "small"})
	require.Greater(t, f["KB/cache"], 64+2.0)

	f = askStrings(t, "heap", peerNamed("wheelcache"), Case{Entries: 10_000, Variant: "growing"})
	require.Positive(t, f["B/entry"])
	require.EqualValues(t, 100, f["kept %"])
}

func Test_emptied_shows_what_is_not_given_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := askStrings(t, "emptied", peerNamed("wheelcache"), Case{Entries: 20_000})
		require.Zero(t, f["left %"])
		require.Less(t, f["held %"], 20.0)
		f = askUint64s(t, "emptied", shelves(plainShelf), Case{Entries: 20_000})
		require.EqualValues(t, 100, f["left %"])
		require.InDelta(t, 100, f["held %"], 5)
	})
}

func Test_quiet_workloads_have_figures(t *testing.T) {
	needCPUTime(t)
	synctest.Test(t, func(t *testing.T) {
		p := peerNamed("wheelcache")
		f := askStrings(t, "gc", p, Case{Entries: 1000})
		require.Contains(t, f, "ms CPU/GC")
		b := stringBench(p)
		f = ask(t, "idle", func() (Session, error) { return openIdle(b, Case{Entries: 1000}) })
		require.GreaterOrEqual(t, f["CPU ms in 10 s"], 0.0)
		b.Unload()
		f = askUint64s(t, "steady", p, Case{Entries: 1000, Variant: "tick=100ms"})
		require.Contains(t, f, "% core")
		require.GreaterOrEqual(t, f["expired/s"], 0.0)
	})
}
