package main

import (
	"fmt"
	"reflect"
	"runtime"
	"time"
)

func init() {
	registerWorkload(Workload{
		Name: "heap",
		About: "what a cache takes of the heap, after a collection, beyond keys and values: not counted are what they point to " +
			"and the 24 bytes of a string and a pointer or the 16 of two uint64, which every container has to hold. " +
			"All entries have TTLs. Sized: the cache was told their number. Small caches: the mean of 100, here with all they hold",
		Cases: []Case{
			{Keys: "string", Entries: 0, Variant: "empty", Quick: true},
			{Keys: "string", Entries: 100, Variant: "small", Quick: true},
			{Keys: "string", Entries: 10_000, Variant: "growing"},
			{Keys: "string", Entries: 10_000, Variant: "sized"},
			{Keys: "uint64", Entries: 10_000, Variant: "growing"},
			{Keys: "uint64", Entries: 10_000, Variant: "sized"},
			{Keys: "string", Entries: 200_000, Variant: "growing", Quick: true},
			{Keys: "string", Entries: 1_000_000, Variant: "growing"},
			{Keys: "string", Entries: 1_000_000, Variant: "sized"},
			{Keys: "uint64", Entries: 1_000_000, Variant: "growing"},
			{Keys: "uint64", Entries: 1_000_000, Variant: "sized"},
			{Keys: "uint64", Entries: 10_000_000, Variant: "growing"},
			{Keys: "uint64", Entries: 10_000_000, Variant: "sized"},
		},
		Fresh:   true,
		Slow:    true,
		Strings: openHeap[string, *Payload],
		Uint64s: openHeap[uint64, uint64],
		Metrics: []Metric{
			{Name: "B/entry", About: "bytes of heap beyond key and value", Better: -1, Chart: true},
			{Name: "objects/entry", About: "allocations that stay", Better: -1},
			{Name: "KB/cache", About: "1024 bytes of heap, of an empty cache or of one with 100 entries", Better: -1, Chart: true},
			{Name: "goroutines/cache", About: "that wait: each has a stack of 2 KB or more, not part of the heap", Better: -1},
			{Name: "kept %", About: "of the entries: what the cache has not dropped. Bytes are per entry kept", Better: +1},
		},
	})
	registerWorkload(Workload{
		Name: "gc",
		About: "what a collection costs while the cache holds all keys and values: CPU time of the process, mean of 10. " +
			"The bytes of string keys are marked, too, with every cache alike",
		Cases: []Case{
			{Keys: "string", Entries: 1_000_000},
			{Keys: "uint64", Entries: 1_000_000},
			{Keys: "uint64", Entries: 5_000_000},
		},
		Fresh:   true,
		Slow:    true,
		Strings: openGC[string, *Payload],
		Uint64s: openGC[uint64, uint64],
		Metrics: []Metric{
			{Name: "ms CPU/GC", About: "of all processors", Better: -1, Chart: true},
			{Name: "ms/GC", About: "until runtime.GC has returned", Better: -1},
			{Name: "kept %", About: "of the entries: what the cache has not dropped", Better: +1},
		},
	})
	registerWorkload(Workload{
		Name:  "emptied",
		About: "entries that expire all at once, with nothing else going on: how much of the heap they took is still held afterwards",
		Cases: []Case{
			{Keys: "string", Entries: 1_000_000},
			{Keys: "uint64", Entries: 1_000_000},
		},
		Fresh:   true,
		Slow:    true,
		Needs:   Traits{Expires: true, Reclaims: true},
		Strings: openEmptied[string, *Payload],
		Uint64s: openEmptied[uint64, uint64],
		Metrics: []Metric{
			{Name: "held %", About: "of the heap when it was full, string keys included, after a collection", Better: -1, Chart: true},
			{Name: "held KB", About: "1024 bytes", Better: -1},
			{Name: "left %", About: "of the entries, up to 7 s after the last deadline", Better: -1},
		},
	})
}

// runs is a Session that only runs.
type runs func() (Result, error)

func (r runs) Run() (Result, error) { return r() }
func (r runs) Close()               {}

func openHeap[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	if c.Variant == "empty" || c.Variant == "small" {
		return runs(func() (Result, error) { return heapOfSmall(b, c.Entries) }), nil
	}
	return runs(func() (Result, error) { return heapOfOne(b, c.Entries, c.Variant == "sized") }), nil
}

func heapOfOne[K comparable, V any](b *Bench[K, V], n int, sized bool) (Result, error) {
	keys, values := make([]K, n), make([]V, n)
	for i := range n {
		keys[i], values[i] = b.Key(i), b.Value(i)
	}
	bytes, objects := heapAfterGC()
	cache, err := b.New(Config{Entries: n, Sized: sized, TTL: time.Hour})
	if err != nil {
		return Result{}, err
	}
	defer cache.Close()
	for i, key := range keys {
		cache.Set(key, values[i], time.Hour)
	}
	settle(cache)
	allBytes, allObjects := heapAfterGC()
	runtime.KeepAlive(keys)
	runtime.KeepAlive(values)
	f := map[string]float64{}
	kept := float64(n)
	if b.Peer.Traits.Counts {
		kept = float64(max(cache.Len(), 1))
		f["kept %"] = 100 * kept / float64(n)
	}
	inline := reflect.TypeFor[K]().Size() + reflect.TypeFor[V]().Size()
	f["B/entry"] = float64(allBytes-bytes)/kept - float64(inline)
	f["objects/entry"] = float64(allObjects-objects) / kept
	return Result{Figures: f}, nil
}

// heapOfSmall is of caches with n entries each, the keys in memory of their own.
func heapOfSmall[K comparable, V any](b *Bench[K, V], n int) (Result, error) {
	const caches = 100
	keys, values := make([]K, caches*n), make([]V, n)
	for i := range keys {
		keys[i] = b.Key(i)
	}
	for i := range values {
		values[i] = b.Value(i)
	}
	var all [caches]Cache[K, V]
	goroutines := runtime.NumGoroutine()
	bytes, _ := heapAfterGC()
	for i := range all {
		cache, err := b.New(Config{Entries: 100, TTL: time.Hour})
		if err != nil {
			return Result{}, err
		}
		defer cache.Close()
		for j, value := range values {
			cache.Set(keys[i*n+j], value, time.Hour)
		}
		flush(cache)
		all[i] = cache
	}
	allBytes, _ := heapAfterGC()
	goroutines = runtime.NumGoroutine() - goroutines
	runtime.KeepAlive(keys)
	runtime.KeepAlive(values)
	return Result{Figures: map[string]float64{
		"KB/cache":         float64(allBytes-bytes) / caches / 1024,
		"goroutines/cache": float64(goroutines) / caches,
	}}, nil
}

// heapAfterGC returns what is allocated and alive.
func heapAfterGC() (bytes, objects int64) {
	runtime.GC()
	runtime.GC() // what pools and finalizers have let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.HeapObjects)
}

func openGC[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, err := b.New(Config{Entries: c.Entries, TTL: time.Hour})
	if err != nil {
		return nil, err
	}
	// Only the cache holds them.
	for i := range c.Entries {
		cache.Set(b.Key(i), b.Value(i), time.Hour)
	}
	settle(cache)
	s := &gc[K, V]{cache: cache, kept: -1}
	if b.Peer.Traits.Counts {
		s.kept = float64(cache.Len()) / float64(c.Entries)
	}
	return s, nil
}

type gc[K comparable, V any] struct {
	cache Cache[K, V]
	kept  float64 // share of the entries; -1 if unknown
}

func (s *gc[K, V]) Close() { s.cache.Close() }

func (s *gc[K, V]) Run() (Result, error) {
	const collections = 10
	runtime.GC()
	before, err := cpuTime()
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	for range collections {
		runtime.GC()
	}
	took := time.Since(start)
	after, err := cpuTime()
	runtime.KeepAlive(s.cache)
	f := map[string]float64{
		"ms CPU/GC": milliseconds(after-before) / collections,
		"ms/GC":     milliseconds(took) / collections,
	}
	if s.kept >= 0 {
		f["kept %"] = 100 * s.kept
	}
	return Result{Figures: f}, err
}

func openEmptied[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	// Loading takes up to 4 µs per entry with the slowest.
	lead := time.Second + time.Duration(c.Entries)*4*time.Microsecond
	return runs(func() (Result, error) {
		return loadedInTime(lead, func(lead time.Duration) (Result, error) {
			return heapEmptied(b, c.Entries, lead, 7*time.Second)
		})
	}), nil
}

// heapEmptied has n entries expire lead from now.
func heapEmptied[K comparable, V any](b *Bench[K, V], n int, lead, grace time.Duration) (Result, error) {
	for i := range n {
		b.Value(i) // made now, if at all
	}
	before, _ := heapAfterGC()
	cache, err := b.New(Config{Entries: n, TTL: lead})
	if err != nil {
		return Result{}, err
	}
	defer cache.Close()
	start := time.Now()
	for i := range n {
		cache.Set(b.Key(i), b.Value(i), lead-time.Since(start))
	}
	last := lead
	if !b.Peer.Traits.EachTTL {
		last += time.Since(start)
	}
	flush(cache)
	full, _ := heapAfterGC()
	if time.Since(start) > lead {
		return Result{}, fmt.Errorf("%w: it took %v", errLate, time.Since(start))
	}
	time.Sleep(last - time.Since(start))
	held := counter{count: cache.Len, known: b.Peer.Traits.Counts, last: -1}
	for held.last != 0 && time.Since(start) < last+grace {
		time.Sleep(50 * time.Millisecond)
		held.look()
	}
	time.Sleep(time.Second) // to give memory back
	after, _ := heapAfterGC()
	f := map[string]float64{
		"held %":  100 * float64(after-before) / float64(full-before),
		"held KB": float64(after-before) / 1024,
	}
	if held.known {
		f["left %"] = 100 * float64(cache.Len()) / float64(n)
	}
	runtime.KeepAlive(cache)
	return Result{Figures: f}, nil
}
