package main

import "time"

// The workloads of this file ask what it costs that a cache is bounded.

func init() {
	bounded := Traits{Bounds: true, Expires: true, Shared: true}
	registerWorkload(Workload{
		Name: "full-get",
		About: "Get of keys that are there, in a cache that holds as many entries as it may, and by turns of 25 ms with it " +
			"in one that is not bounded, or has room for a quarter more where it must be. All have been read some times before, " +
			"which is what caches note down; unread: they have not, so each of the first reads is noted",
		Cases: append(
			cross([]int{10_000}, []string{"zipf"}, []int{1, 2}, nil),
			cross([]int{million}, []string{"zipf", "uniform"}, []int{1, 2}, []string{"", "unread"})...),
		Needs:   bounded,
		Strings: openFullGet[string, *Payload],
		Uint64s: openFullGet[uint64, uint64],
		Metrics: []Metric{
			{Name: perOp.Name, About: "time per Get in the full cache, all goroutines together", Better: -1, Chart: true},
			{Name: roomyPerOp, About: "the same in the other one", Better: -1},
			allocsPerOp, bytesPerOp, hitPercent,
		},
	})
	registerWorkload(Workload{
		Name: "evict",
		About: "Set, for an hour, of keys that are not there, in a cache that is full: each Set evicts. " +
			"There are four times as many keys as fit, which take turns; none is ever read. Goroutines have their own keys each",
		Cases: append(
			cross([]int{10_000}, nil, []int{1, 2}, nil),
			cross([]int{million}, nil, []int{1, 2}, nil)...),
		Needs:   bounded,
		Strings: openEvict[string, *Payload],
		Uint64s: openEvict[uint64, uint64],
		Metrics: []Metric{perOp, allocsPerOp, bytesPerOp,
			{Name: cpuPerOp, About: "time of all processors per Set, the cache's background work included", Better: -1},
			{Name: heldPercent, About: "entries held afterwards, of those that may be: more than 100 is over the bound"},
		},
	})
}

// Names that goals, too, refer to.
const (
	roomyPerOp  = "roomy ns/op"
	cpuPerOp    = "CPU ns/op"
	heldPercent = "held of bound %"
)

// readBefore is how often the picks have been read, unless none shall have been.
const readBefore = 8

// fullGet is a session of Gets in two caches by turns.
type fullGet struct {
	full, roomy *ops
	close       func()
}

func openFullGet[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	full, err := b.New(Config{Entries: c.Entries, Bounded: true, TTL: time.Hour})
	if err != nil {
		return nil, err
	}
	roomy, err := b.New(Config{Entries: c.Entries, TTL: time.Hour})
	if err != nil {
		full.Close()
		return nil, err
	}
	keys := b.fill(full, c.Entries)
	b.fill(roomy, c.Entries)
	drawn := picks(c.Entries, c.Dist, 1)
	if c.Variant != "unread" {
		for range readBefore {
			getEach(full, keys)(drawn)
		}
	}
	return &fullGet{
		full:  newOps(c, drawn, getEach(full, keys)),
		roomy: newOps(c, drawn, getEach(roomy, keys)),
		close: func() {
			full.Close()
			roomy.Close()
		},
	}, nil
}

func (s *fullGet) Run() (Result, error) {
	m := startMeter()
	n, t := s.full.do(lasting(runFor)) // in one go, so that the measuring allocates little
	figures := m.perOp(n)
	figures[hitPercent.Name] = 100 * float64(t.hits) / float64(t.gets)
	figures[perOp.Name], figures[roomyPerOp] = byTurns(s.full, s.roomy)
	return Result{Figures: figures}, nil
}

func (s *fullGet) Close() { s.close() }

// poolSize is how many times as many keys there are as fit.
const poolSize = 4

// evictions is a session of Sets, each of which evicts.
type evictions struct {
	*ops
	held func() float64
}

func openEvict[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, err := b.New(Config{Entries: c.Entries, Bounded: true, TTL: time.Hour})
	if err != nil {
		return nil, err
	}
	b.Unload() // nobody will ask it meanwhile
	keys, order := make([]K, poolSize*c.Entries), make([]uint32, poolSize*c.Entries)
	for i := range keys {
		keys[i], order[i] = b.Key(i), uint32(i)
	}
	value := b.Value(0)
	set := func(picks []uint32) tally {
		for _, p := range picks {
			cache.Set(keys[p], value, time.Hour)
		}
		return tally{}
	}
	set(order)
	flush(cache)
	s := &evictions{newOps(c, order, set), func() float64 {
		flush(cache)
		return 100 * float64(cache.Len()) / float64(c.Entries)
	}}
	s.apart = true // or one would catch up with the other, and find what that has just stored
	s.close = cache.Close
	return s, nil
}

func (s *evictions) Run() (Result, error) {
	s.do(lasting(warmUp))
	used, err := cpuTime()
	m := startMeter()
	n, _ := s.do(lasting(runFor))
	figures := m.perOp(n)
	if err == nil { // or this system does not tell
		now, err := cpuTime()
		if err != nil {
			return Result{}, err
		}
		figures[cpuPerOp] = float64((now - used).Nanoseconds()) / float64(n)
	}
	figures[heldPercent] = s.held()
	return Result{Figures: figures}, nil
}
