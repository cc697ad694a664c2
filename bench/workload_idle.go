package main

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"
)

func init() {
	registerWorkload(Workload{
		Name: "idle",
		About: "entries that live for an hour, and nothing going on: CPU time of the process in 10 s (2 s with -quick, scaled). " +
			"The collector is off, and memory given back before",
		Cases: []Case{
			{Keys: "string", Entries: 200_000, Quick: true},
			{Keys: "string", Entries: 1_000_000},
			{Keys: "uint64", Entries: 1_000_000},
		},
		Together: true,
		Slow:     true,
		Strings:  openIdle[string, *Payload],
		Uint64s:  openIdle[uint64, uint64],
		Metrics: []Metric{
			{Name: "CPU ms in 10 s", About: "of one processor", Better: -1, Chart: true},
		},
	})
	registerWorkload(Workload{
		Name: "steady",
		About: "what TTLs of 1 s to 7 days, evenly by order of magnitude, leave in a cache after weeks: " +
			"10 M entries of which some 170 expire per second. No calls are made: CPU time in 10 s",
		Cases: []Case{
			{Keys: "uint64", Entries: 10_000_000},
			{Keys: "uint64", Entries: 10_000_000, Variant: "tick=100ms"},
		},
		Fresh:   true,
		Slow:    true,
		Needs:   Traits{Expires: true, EachTTL: true, Reclaims: true},
		Strings: openSteady[string, *Payload],
		Uint64s: openSteady[uint64, uint64],
		Metrics: []Metric{
			{Name: "% core", About: "of one processor's time", Better: -1, Chart: true},
			{Name: "expired/s", About: "entries that went; fewer than 160 means that some will later"},
		},
	})
}

// A quiet process does nothing but what its cache does.
type quiet struct {
	rest, most time.Duration // before the measurement, and of it
}

// cpu returns what was used while it was quiet.
func (q quiet) cpu() (time.Duration, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	debug.FreeOSMemory() // what the runtime would do bit by bit
	time.Sleep(q.rest)   // until the cache has noticed that it is not in use
	before, err := cpuTime()
	if err != nil {
		return 0, err
	}
	time.Sleep(q.most)
	after, err := cpuTime()
	return after - before, err
}

func openIdle[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, _, _, err := b.Load(c.Entries)
	if err != nil {
		return nil, err
	}
	q := quiet{rest: 3 * time.Second, most: 10 * time.Second}
	if c.Quick {
		q = quiet{rest: 2 * time.Second, most: 2 * time.Second}
	}
	return runs(func() (Result, error) {
		used, err := q.cpu()
		runtime.KeepAlive(cache)
		return Result{Figures: map[string]float64{
			"CPU ms in 10 s": milliseconds(used) * 10 / q.most.Seconds(),
		}}, err
	}), nil
}

func openSteady[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	const week = 7 * 24 * time.Hour
	tick, err := tickOf(c)
	if err != nil {
		return nil, err
	}
	cache, err := b.New(Config{Entries: c.Entries, TTL: week, Tick: tick})
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range c.Entries {
		// The longer a TTL, the more of its entries are there: any up to a week is as
		// likely as any other. And each has been there for any part of it.
		ttl := time.Second + time.Duration(r.Float64()*r.Float64()*float64(week-time.Second))
		cache.Set(b.Key(i), b.Value(i), ttl)
	}
	settle(cache)
	return &steady[K, V]{b, cache}, nil
}

type steady[K comparable, V any] struct {
	b     *Bench[K, V]
	cache Cache[K, V]
}

func (s *steady[K, V]) Close() { s.cache.Close() }

func (s *steady[K, V]) Run() (Result, error) {
	q := quiet{rest: 3 * time.Second, most: 10 * time.Second}
	counts := s.b.Peer.Traits.Counts
	f := map[string]float64{}
	if counts {
		f["expired/s"] = float64(s.cache.Len())
	}
	start := time.Now()
	used, err := q.cpu()
	if counts {
		f["expired/s"] = (f["expired/s"] - float64(s.cache.Len())) / time.Since(start).Seconds()
	}
	f["% core"] = 100 * used.Seconds() / q.most.Seconds()
	return Result{Figures: f}, err
}
