package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func BenchmarkAdd(b *testing.B) {
	const records = 1 << 20
	for _, slots := range []int{512, 4096} {
		b.Run(fmt.Sprintf("slots=%d/records=1M", slots), func(b *testing.B) {
			ticks := randomTicks(records, 864_000) // a day of 100 ms
			b.ReportAllocs()
			var w *Hashed
			for i := range b.N {
				if i%records == 0 {
					w = NewHashed(slots, 0)
				}
				w.Add(uint32(i), ticks[i%records])
			}
			if n := w.Len(); n == records || n > records/2 {
				b.ReportMetric(float64(w.Bytes())/float64(n), "B/record")
			}
		})
	}
}

// BenchmarkDrain visits a million records that are all due in one tick.
func BenchmarkDrain(b *testing.B) {
	const records = 1_000_000
	for _, limit := range []int{256, math.MaxInt} {
		name := fmt.Sprint(limit)
		if limit == math.MaxInt {
			name = "none"
		}
		b.Run("records=1M/limit="+name, func(b *testing.B) {
			w := NewHashed(512, 0)
			visits := 0
			for range b.N {
				b.StopTimer()
				for i := range uint32(records) {
					w.Add(i, w.Cursor()+1)
				}
				b.StartTimer()
				for w.Advance(w.Cursor()+1, limit, func(uint32, int64) int64 { visits++; return Done }) {
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(visits), "ns/record")
		})
	}
}

// BenchmarkUndue measures a tick in which one record of a crowded slot is due,
// so that all its others are read.
func BenchmarkUndue(b *testing.B) {
	const records = 1 << 20
	for _, slots := range []int{512, 4096} {
		b.Run(fmt.Sprintf("slots=%d/records=1M", slots), func(b *testing.B) {
			w := NewHashed(slots, 0)
			for i, tick := range randomTicks(records, 864_000) {
				w.Add(uint32(i), tick+Horizon/2)
			}
			read := 0
			b.ResetTimer()
			for range b.N {
				w.Add(0, w.Cursor()+1)
				w.Advance(w.Cursor()+1, math.MaxInt, func(uint32, int64) int64 { return Done })
				read += records / slots
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(read), "ns/record")
		})
	}
}

// BenchmarkEmptyTick measures a tick with nothing due, of which a wheel sees most.
func BenchmarkEmptyTick(b *testing.B) {
	for _, records := range []int{0, 1, 1_000_000} {
		b.Run(fmt.Sprintf("slots=4096/records=%d", records), func(b *testing.B) {
			w := NewHashed(4096, 0)
			for i, tick := range randomTicks(records, 864_000) {
				w.Add(uint32(i), tick+Horizon/2)
			}
			b.ResetTimer()
			for range b.N {
				w.Advance(w.Cursor()+1, 100, nil)
			}
		})
	}
}

// BenchmarkSteady measures a second of the life of a wheel with ten million
// records that wait, log-uniformly, from a second to seven days in ticks of
// 10 ms, each followed by another when it is due.
func BenchmarkSteady(b *testing.B) {
	const records, second, week = 10_000_000, 100, 7 * 24 * 3600 * 100
	for _, slots := range []int{512, 4096, 65536} {
		b.Run(fmt.Sprintf("slots=%d/records=10M", slots), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 2))
			w := NewHashed(slots, 0)
			for i := range uint32(records) {
				// Those that are alive at some instant wait, uniformly, for up
				// to a week in all, and a part of that is over.
				w.Add(i, 1+int64(rnd.Float64()*rnd.Float64()*week))
			}
			visits := 0
			visit := func(uint32, int64) int64 {
				visits++
				return w.Cursor() + int64(second*math.Pow(week/second, rnd.Float64()))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for range second {
					w.Advance(w.Cursor()+1, math.MaxInt, visit)
				}
			}
			b.ReportMetric(float64(visits)/float64(b.N), "visits/op")
			b.ReportMetric(float64(w.Bytes())/records, "B/record")
		})
	}
}

// BenchmarkRebuild measures the moving of a record to a ring of the same size.
func BenchmarkRebuild(b *testing.B) {
	const records = 1_000_000
	w := NewHashed(512, 0)
	for i, tick := range randomTicks(records, 864_000) {
		w.Add(uint32(i), tick)
	}
	b.Run("slots=512/records=1M", func(b *testing.B) {
		for range b.N {
			w.Resize(512, 0)
			for w.Step(256, nil) {
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
	})
}

func BenchmarkNext(b *testing.B) {
	b.Run("slots=4096/records=1M", func(b *testing.B) {
		w := NewHashed(4096, 0)
		for i, tick := range randomTicks(1_000_000, 864_000) {
			w.Add(uint32(i), tick)
		}
		b.ResetTimer()
		for range b.N {
			next, _ := w.Next()
			w.Advance(next, math.MaxInt, func(_ uint32, tick int64) int64 { return tick + 864_000 })
		}
	})
}

func randomTicks(n int, within int64) []int64 {
	rnd := rand.New(rand.NewPCG(3, 4))
	ticks := make([]int64, n)
	for i := range ticks {
		ticks[i] = 1 + rnd.Int64N(within)
	}
	return ticks
}
