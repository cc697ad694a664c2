package wheelcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

// Benchmarks without peers; impl=map is the floor, a bare Go map without lock or
// TTL. Look-up keys are fresh copies of the stored ones, and which to look up is
// drawn beforehand. Compare by ratio within one run:
//
//	go test -run '^$' -bench . -count 6 . | benchstat -col /impl -

type payload struct{ _ int }

// A workload is keys, copies of them to look up, and the order of looking up.
type workload[K comparable, V any] struct {
	stored, lookup []K
	value          V
	picks          []uint32
}

func newWorkload[K comparable, V any](keys int, dist string, value V, key func(int) K) *workload[K, V] {
	w := &workload[K, V]{value: value, picks: make([]uint32, 1<<20)}
	for i := range keys {
		w.stored = append(w.stored, key(i))
		w.lookup = append(w.lookup, key(i))
	}
	r := rand.New(rand.NewPCG(1, 2))
	if dist == "zipf" {
		z := rand.NewZipf(r, 1.01, 1, uint64(keys-1))
		scramble := r.Perm(keys)
		for i := range w.picks {
			w.picks[i] = uint32(scramble[z.Uint64()])
		}
	} else {
		for i := range w.picks {
			w.picks[i] = uint32(r.IntN(keys))
		}
	}
	return w
}

func stringKey(i int) string { return "session:" + strconv.Itoa(1_000_000_000+i*7919) + "-user" }
func intKey(i int) uint64    { return uint64(i) * 0x9e3779b97f4a7c15 }

func newCache[K comparable, V any](b testing.TB, o wheelcache.Options[K, V]) *wheelcache.Cache[K, V] {
	b.Helper()
	c, err := wheelcache.New(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// forEach runs f for b.N picks, split over the goroutines that -cpu asks for.
func (w *workload[K, V]) forEach(b *testing.B, f func(key K)) {
	b.Helper()
	b.ReportAllocs()
	var seed atomic.Uint32
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := seed.Add(1) * 7919 * 64
		mask := uint32(len(w.picks) - 1)
		for pb.Next() {
			f(w.lookup[w.picks[i&mask]])
			i++
		}
	})
}

func benchGet[K comparable, V any](b *testing.B, name string, key func(int) K, value V) {
	for _, keys := range []int{10_000, 1_000_000} {
		for _, dist := range []string{"uniform", "zipf"} {
			w := newWorkload(keys, dist, value, key)
			prefix := fmt.Sprintf("key=%s/keys=%d/dist=%s/", name, keys, dist)
			b.Run(prefix+"impl=map", func(b *testing.B) {
				m := make(map[K]V)
				for _, k := range w.stored {
					m[k] = w.value
				}
				runtime.GC()
				w.forEach(b, func(k K) {
					if _, ok := m[k]; !ok {
						panic("miss")
					}
				})
			})
			b.Run(prefix+"impl=wheelcache", func(b *testing.B) {
				c := newCache(b, wheelcache.Options[K, V]{TTL: time.Hour})
				for _, k := range w.stored {
					c.Set(k, w.value)
				}
				runtime.GC()
				w.forEach(b, func(k K) {
					if _, ok := c.Get(k); !ok {
						panic("miss")
					}
				})
			})
		}
	}
}

func BenchmarkGet(b *testing.B) {
	benchGet(b, "string", stringKey, &payload{})
	benchGet(b, "uint64", intKey, uint64(1))
}

// benchGetOrLoad is hits: what GetOrLoad costs beyond Get.
func benchGetOrLoad[K comparable, V any](b *testing.B, name string, key func(int) K, value V) {
	ctx := context.Background()
	load := func(context.Context, K) (V, error) { panic("a hit was loaded") }
	of := func(b *testing.B, w *workload[K, V]) {
		run := func(impl string, refreshAfter time.Duration, bench func(*testing.B, *wheelcache.Cache[K, V])) {
			b.Run("impl="+impl, func(b *testing.B) {
				c := newCache(b, wheelcache.Options[K, V]{TTL: time.Hour, RefreshAfter: refreshAfter})
				for _, k := range w.stored {
					c.Set(k, w.value)
				}
				runtime.GC()
				bench(b, c)
			})
		}
		run("get", 0, func(b *testing.B, c *wheelcache.Cache[K, V]) {
			w.forEach(b, func(k K) {
				if _, ok := c.Get(k); !ok {
					panic("miss")
				}
			})
		})
		getOrLoad := func(b *testing.B, c *wheelcache.Cache[K, V]) {
			w.forEach(b, func(k K) {
				if _, err := c.GetOrLoad(ctx, k, load); err != nil {
					panic(err)
				}
			})
		}
		run("getorload", 0, getOrLoad)
		run("getorload-refreshing", 45*time.Minute, getOrLoad) // none is due
	}
	for _, keys := range []int{10_000, 1_000_000} {
		for _, dist := range []string{"uniform", "zipf"} {
			b.Run(fmt.Sprintf("key=%s/keys=%d/dist=%s", name, keys, dist), func(b *testing.B) {
				of(b, newWorkload(keys, dist, value, key))
			})
		}
	}
}

func BenchmarkGetOrLoad(b *testing.B) {
	benchGetOrLoad(b, "string", stringKey, &payload{})
	benchGetOrLoad(b, "uint64", intKey, uint64(1))
}

// BenchmarkHerd is a thousand goroutines that ask at once for a key that is not there.
// The loader waits until all of them have begun, and is to be called once.
func BenchmarkHerd(b *testing.B) {
	const size = 1000
	c := newCache(b, wheelcache.Options[uint64, uint64]{TTL: time.Hour})
	var loads atomic.Int64
	b.ReportAllocs()
	for round := uint64(0); b.Loop(); round++ {
		gate := make(chan struct{})
		var begun, all sync.WaitGroup
		begun.Add(size)
		load := func(context.Context, uint64) (uint64, error) {
			loads.Add(1)
			begun.Wait()
			return round, nil
		}
		for range size {
			all.Go(func() {
				<-gate
				begun.Done()
				if v, err := c.GetOrLoad(context.Background(), round, load); v != round || err != nil {
					panic(fmt.Sprint(v, err))
				}
			})
		}
		close(gate)
		all.Wait()
	}
	b.ReportMetric(float64(loads.Load())/float64(b.N), "loads/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/caller")
}

func benchOverwrite[K comparable, V any](b *testing.B, name string, key func(int) K, value V) {
	for _, dist := range []string{"uniform", "zipf"} {
		const keys = 1_000_000
		w := newWorkload(keys, dist, value, key)
		prefix := fmt.Sprintf("key=%s/keys=%d/dist=%s/", name, keys, dist)
		b.Run(prefix+"impl=map", func(b *testing.B) {
			if runtime.GOMAXPROCS(0) > 1 {
				b.Skip("a bare map has one writer")
			}
			m := make(map[K]V)
			for _, k := range w.stored {
				m[k] = w.value
			}
			runtime.GC()
			w.forEach(b, func(k K) { m[k] = w.value })
		})
		b.Run(prefix+"impl=wheelcache", func(b *testing.B) {
			c := newCache(b, wheelcache.Options[K, V]{TTL: time.Hour})
			for _, k := range w.stored {
				c.Set(k, w.value)
			}
			runtime.GC()
			w.forEach(b, func(k K) { c.Set(k, w.value) })
		})
	}
}

func BenchmarkOverwrite(b *testing.B) {
	benchOverwrite(b, "string", stringKey, &payload{})
	benchOverwrite(b, "uint64", intKey, uint64(1))
}

// BenchmarkInsert reports ns per new entry, growth included.
func benchInsert[K comparable, V any](b *testing.B, name string, key func(int) K, value V) {
	const keys = 1_000_000
	w := newWorkload(keys, "uniform", value, key)
	fill := func(b *testing.B, prepare func() func(K)) {
		for b.Loop() {
			b.StopTimer()
			runtime.GC()
			b.StartTimer()
			set := prepare()
			for _, k := range w.stored {
				set(k)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/entry")
	}
	for _, capacity := range []int{0, keys} {
		prefix := fmt.Sprintf("key=%s/keys=%d/capacity=%d/", name, keys, capacity)
		b.Run(prefix+"impl=map", func(b *testing.B) {
			fill(b, func() func(K) {
				m := make(map[K]V, capacity)
				return func(k K) { m[k] = w.value }
			})
		})
		b.Run(prefix+"impl=wheelcache", func(b *testing.B) {
			fill(b, func() func(K) {
				c := newCache(b, wheelcache.Options[K, V]{TTL: time.Hour, Capacity: capacity})
				return func(k K) { c.Set(k, w.value) }
			})
		})
	}
}

func BenchmarkInsert(b *testing.B) {
	benchInsert(b, "string", stringKey, &payload{})
	benchInsert(b, "uint64", intKey, uint64(1))
}

// benchEvict reports ns per Set that stores a new key in a full cache, and so evicts.
// Of four times as many keys as fit, none is ever read.
func benchEvict[K comparable, V any](b *testing.B, name string, key func(int) K, value V) {
	for _, most := range []int{10_000, 1_000_000} {
		for _, ttl := range []time.Duration{0, time.Hour} {
			b.Run(fmt.Sprintf("key=%s/entries=%d/ttl=%v", name, most, ttl), func(b *testing.B) {
				keys := make([]K, 4*most)
				for i := range keys {
					keys[i] = key(i)
				}
				c := newCache(b, wheelcache.Options[K, V]{TTL: ttl, MaxEntries: most})
				for _, k := range keys {
					c.Set(k, value)
				}
				runtime.GC()
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					c.Set(keys[i], value)
					if i++; i == len(keys) {
						i = 0
					}
				}
			})
		}
	}
}

func BenchmarkEvict(b *testing.B) {
	benchEvict(b, "string", stringKey, &payload{})
	benchEvict(b, "uint64", intKey, uint64(1))
}

// benchFullGet is Get without a bound and with one that is reached, of keys that have been
// read before.
func benchFullGet[K comparable, V any](b *testing.B, name string, key func(int) K, value V) {
	const keys = 1_000_000
	for _, dist := range []string{"uniform", "zipf"} {
		w := newWorkload(keys, dist, value, key)
		for _, most := range []int{0, keys} {
			b.Run(fmt.Sprintf("key=%s/keys=%d/dist=%s/most=%d", name, keys, dist, most), func(b *testing.B) {
				c := newCache(b, wheelcache.Options[K, V]{TTL: time.Hour, MaxEntries: most})
				for _, k := range w.stored {
					c.Set(k, w.value)
				}
				for range 8 {
					for _, p := range w.picks {
						c.Get(w.lookup[p])
					}
				}
				runtime.GC()
				w.forEach(b, func(k K) { c.Get(k) })
			})
		}
	}
}

func BenchmarkFullGet(b *testing.B) {
	benchFullGet(b, "string", stringKey, &payload{})
	benchFullGet(b, "uint64", intKey, uint64(1))
}

// BenchmarkMix is reading with some overwriting.
func BenchmarkMix(b *testing.B) {
	const keys = 1_000_000
	w := newWorkload(keys, "zipf", &payload{}, stringKey)
	for _, reads := range []int{90, 50} {
		b.Run(fmt.Sprintf("key=string/keys=%d/reads=%d/impl=wheelcache", keys, reads), func(b *testing.B) {
			c := newCache(b, wheelcache.Options[string, *payload]{TTL: time.Hour})
			for _, k := range w.stored {
				c.Set(k, w.value)
			}
			runtime.GC()
			var goroutine atomic.Uint32
			ops := sync.Pool{New: func() any { n := goroutine.Add(1) * 31; return &n }}
			w.forEach(b, func(k string) {
				n := ops.Get().(*uint32)
				*n++
				if int(*n%100) < reads {
					c.Get(k)
				} else {
					c.Set(k, w.value)
				}
				ops.Put(n)
			})
		})
	}
}

// BenchmarkSliding is Get with a deadline that every read moves.
func BenchmarkSliding(b *testing.B) {
	const keys = 1_000_000
	w := newWorkload(keys, "zipf", &payload{}, stringKey)
	c := newCache(b, wheelcache.Options[string, *payload]{Expiry: expiry.AfterAccess[string, *payload](time.Hour)})
	for _, k := range w.stored {
		c.Set(k, w.value)
	}
	runtime.GC()
	w.forEach(b, func(k string) { c.Get(k) })
}

// BenchmarkDeleteSet removes and stores the same keys.
func BenchmarkDeleteSet(b *testing.B) {
	const keys = 1_000_000
	w := newWorkload(keys, "uniform", uint64(1), intKey)
	c := newCache(b, wheelcache.Options[uint64, uint64]{TTL: time.Hour})
	for _, k := range w.stored {
		c.Set(k, 1)
	}
	runtime.GC()
	w.forEach(b, func(k uint64) { c.Delete(k); c.Set(k, 1) })
}

// BenchmarkHotKey is all goroutines reading one key.
func BenchmarkHotKey(b *testing.B) {
	c := newCache(b, wheelcache.Options[string, *payload]{TTL: time.Hour})
	c.Set("hot", &payload{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Get("hot")
		}
	})
}

// BenchmarkExpire reports how fast a million entries that are due at once go.
func BenchmarkExpire(b *testing.B) {
	const keys = 1_000_000
	w := newWorkload(keys, "uniform", uint64(1), intKey)
	for b.Loop() {
		b.StopTimer()
		c := newCache(b, wheelcache.Options[uint64, uint64]{})
		c.FreezeDriver()
		for _, k := range w.stored {
			c.SetTTL(k, 1, time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		b.StartTimer()
		c.Flush()
		b.StopTimer()
		c.ThawDriver()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*keys/b.Elapsed().Seconds()/1e6, "M/s")
}
