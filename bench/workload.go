package main

import (
	"fmt"
	"time"
)

// A Workload is one question to all caches, asked in one or more cases.
type Workload struct {
	Name  string // "get", "storm"
	About string // one line: what is done and what the figures mean
	Cases []Case

	// Fresh gives every repetition a new process. Otherwise one process per cache
	// keeps what it has loaded, and repetitions and cases that want the same entries
	// share it.
	Fresh bool
	// Together lets the processes of all caches run at the same time: for
	// measuring idleness.
	Together bool

	// Slow makes one repetition do for -quick.
	Slow bool

	// Needs are the traits without which a cache cannot take part.
	Needs Traits

	Strings Opener[string, *Payload]
	Uint64s Opener[uint64, uint64]

	// Metrics says what Run returns, in the order of the report.
	Metrics []Metric
}

// An Opener makes ready for a case: it loads the cache, draws what will be looked up,
// and collects garbage. Time spent here is not measured.
type Opener[K comparable, V any] func(b *Bench[K, V], c Case) (Session, error)

// A Session is a case made ready. The engine calls Run once per repetition, those
// of all caches in turn. Run takes about 0.2 to 0.5 s unless the workload says
// otherwise.
type Session interface {
	Run() (Result, error)
	Close()
}

// A Result is one repetition's figures, by the name of the metric. What a cache
// cannot show is absent. Courses may go with it; those of the last repetition are
// kept. (Peer, Case and Workload are filled in by the engine.)
type Result struct {
	Figures map[string]float64
	Series  []Series
}

type Metric struct {
	Name  string // "ns/op", "B/entry", "p99.9 get": also the heading in the report
	About string
	// Better is -1 if less is better, +1 if more is, 0 if it is neither.
	Better int
	// Chart is true if a picture with bars is to be made of it.
	Chart bool
}

// A Case is one column of a workload.
type Case struct {
	Keys    string // "string" or "uint64"
	Entries int
	Dist    string // "zipf", "uniform" or ""
	Threads int    // 0 if it makes no difference
	Variant string // what else differs: "sized", "growing", "tick=1ms"; may be ""
	Quick   bool   // part of -quick
}

// String returns the case as benchmark names have it: keys=string/n=1000000/...
func (c Case) String() string {
	s := fmt.Sprintf("keys=%s", c.Keys)
	if c.Entries > 0 {
		s += fmt.Sprintf("/n=%d", c.Entries)
	}
	if c.Dist != "" {
		s += "/dist=" + c.Dist
	}
	if c.Threads > 0 {
		s += fmt.Sprintf("/threads=%d", c.Threads)
	}
	if c.Variant != "" {
		s += "/" + c.Variant
	}
	return s
}

// A Bench is a cache's process, as an Opener sees it.
type Bench[K comparable, V any] struct {
	Peer *Peer
	// New makes an empty cache.
	New func(Config) (Cache[K, V], error)
	// Key returns the i-th key, a fresh copy on each call, and Value the value to
	// store for it, the same on each call.
	Key   func(i int) K
	Value func(i int) V

	loaded loaded[K, V]
}

// loaded is a cache with entries 0 to entries-1, kept for the next case.
type loaded[K comparable, V any] struct {
	cache   Cache[K, V]
	entries int
	lookup  []K // fresh copies of the keys
	values  []V
}

// Load returns a cache that holds entries 0 to entries-1 for an hour, and fresh
// copies of their keys; it grew from nothing. The next call with as many entries gets
// the same cache, so a workload that changes it leaves the same keys in it.
func (b *Bench[K, V]) Load(entries int) (Cache[K, V], []K, []V, error) {
	l := &b.loaded
	if l.cache != nil && l.entries == entries {
		return l.cache, l.lookup, l.values, nil
	}
	b.Unload()
	c, err := b.New(Config{Entries: entries, TTL: time.Hour})
	if err != nil {
		return nil, nil, nil, err
	}
	*l = loaded[K, V]{c, entries, make([]K, entries), make([]V, entries)}
	stored := make([]K, entries) // in a row, as the lookup keys are
	for i := range entries {
		stored[i], l.values[i] = b.Key(i), b.Value(i)
	}
	for i := range entries {
		l.lookup[i] = b.Key(i)
	}
	for i, key := range stored {
		c.Set(key, l.values[i], time.Hour)
		if i%1024 == 0 {
			flush(c) // what drops writes that come too fast would be empty
		}
	}
	settle(c)
	return c, l.lookup, l.values, nil
}

// Unload drops the loaded cache.
func (b *Bench[K, V]) Unload() {
	if b.loaded.cache != nil {
		b.loaded.cache.Close()
	}
	b.loaded = loaded[K, V]{}
}
