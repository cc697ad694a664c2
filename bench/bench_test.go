package main

import (
	"errors"
	"flag"
	"runtime"
	"strings"
	"testing"
)

// The same measurements as Go benchmarks, in one process, for comparing one's own
// changes:
//
//	go test -run '^$' -bench 'Get////cache=(wheelcache|otter)$' -count 6 . | benchstat -col /cache -
//
// -cpu sets how many goroutines there are. Caches that goroutines cannot share take
// part only with -cpu 1. With -benchtime 1x, which only shows that the benchmarks
// work, all caches are small.

func BenchmarkGet(b *testing.B)       { benchWorkload(b, "get", benchOps) }
func BenchmarkMix90(b *testing.B)     { benchWorkload(b, "mix90", benchOps) }
func BenchmarkMix50(b *testing.B)     { benchWorkload(b, "mix50", benchOps) }
func BenchmarkOverwrite(b *testing.B) { benchWorkload(b, "overwrite", benchOps) }
func BenchmarkDeleteSet(b *testing.B) { benchWorkload(b, "delete-set", benchOps) }
func BenchmarkInsert(b *testing.B)    { benchWorkload(b, "insert", benchFills) }

// benchWorkload has all peers go through a workload's cases. A peer keeps what it
// has loaded from case to case, and the next one starts without it.
func benchWorkload(b *testing.B, name string, measure func(*testing.B, Session)) {
	w := workloadNamed(name)
	for i := range peers {
		p := &peers[i]
		switch {
		case strings.HasPrefix(p.Name, "fake-"): // of the engine's tests
		case p.Traits.lacking(w.Needs) != "":
		case !p.Traits.Shared && severalProcs():
		default:
			if p.Strings != nil {
				benchCases(b, w, stringBench(p), "string", w.Strings, measure)
			}
			if p.Uint64s != nil {
				benchCases(b, w, uint64Bench(p), "uint64", w.Uint64s, measure)
			}
		}
	}
}

func benchCases[K comparable, V any](b *testing.B, w *Workload, bench *Bench[K, V], keys string, open Opener[K, V], measure func(*testing.B, Session)) {
	defer bench.Unload()
	small := flag.Lookup("test.benchtime").Value.String() == "1x"
	seen := map[Case]bool{}
	for _, c := range w.Cases {
		c.Threads, c.Quick = 0, false // the name has the threads at its end: -2
		if small {
			c.Entries = 10_000
		}
		if c.Keys != keys || seen[c] {
			continue
		}
		seen[c] = true
		var session Session // for all repetitions and all values of -cpu
		name := c
		if c.Variant != "" {
			name.Variant = "table=" + c.Variant // benchstat takes only key=value
		}
		b.Run(name.String()+"/cache="+bench.Peer.Name, func(b *testing.B) {
			if session == nil {
				var err error
				if session, err = open(bench, c); errors.Is(err, ErrCannot) {
					b.Skip(err)
				} else if err != nil {
					b.Fatal(err)
				}
			}
			measure(b, session)
		})
		if session != nil {
			session.Close()
		}
	}
}

func benchOps(b *testing.B, s Session) {
	o := s.(*ops)
	procs := runtime.GOMAXPROCS(0)
	o.spread(procs)
	b.ReportAllocs()
	b.ResetTimer()
	_, t := o.do(counting((b.N + procs - 1) / procs))
	b.StopTimer()
	if t.hits < t.gets {
		b.ReportMetric(100*float64(t.hits)/float64(t.gets), "hit-%")
	}
}

// benchFills reports per entry, not per cache.
func benchFills(b *testing.B, s Session) { s.(interface{ bench(*testing.B) }).bench(b) }

func (s *insertion[K, V]) bench(b *testing.B) {
	s.threads = runtime.GOMAXPROCS(0)
	sum := map[string]float64{}
	b.ResetTimer()
	for range b.N {
		b.StartTimer()
		cache, figures, err := s.fill()
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		for name, v := range figures {
			sum[name] += v
		}
		s.drop(cache)
	}
	b.ReportMetric(sum[perOp.Name]/float64(b.N), "ns/op")
	b.ReportMetric(sum[allocsPerOp.Name]/float64(b.N), "allocs/entry")
	b.ReportMetric(sum[bytesPerOp.Name]/float64(b.N), "B/entry")
}

// counting asks for batches until a goroutine has done n operations.
func counting(n int) func(int) int {
	return func(done int) int { return min(batch, n-done) }
}

// severalProcs reports whether a benchmark may come to run on more than one: only
// the flag tells, and not what GOMAXPROCS is at the time.
func severalProcs() bool {
	list := flag.Lookup("test.cpu").Value.String()
	if list == "" {
		return runtime.GOMAXPROCS(0) > 1
	}
	for n := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(n) != "1" {
			return true
		}
	}
	return false
}
