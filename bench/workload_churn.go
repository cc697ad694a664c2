package main

import (
	"runtime"
	"runtime/metrics"
	"time"
)

func init() {
	registerWorkload(Workload{
		Name: "churn",
		About: "keys that are stored once and expire. Paced: as many a second as to hold n in the steady state, TTL 2 s. " +
			"Full: n as fast as possible, but for at most 5 s, TTL 1 s. Keys are made between the Sets. " +
			"Then nothing is done until all have expired, and what is still held is what the cache does not give back",
		Cases: []Case{
			{Keys: "string", Entries: 300_000, Variant: "full"},
			{Keys: "string", Entries: 4_000_000, Variant: "full"},
			{Keys: "uint64", Entries: 4_000_000, Variant: "full"},
			{Keys: "string", Entries: 200_000, Variant: "paced"},
			{Keys: "uint64", Entries: 200_000, Variant: "paced"},
		},
		Fresh:   true,
		Slow:    true,
		Needs:   Traits{Expires: true},
		Strings: openChurn[string, *Payload],
		Uint64s: openChurn[uint64, uint64],
		Metrics: []Metric{
			{Name: "M inserts/s", About: "full: the making of keys is part of it", Better: +1, Chart: true},
			{Name: "CPU µs/insert", About: "of the whole process, janitors and collector included, less that of making the keys and of waking up", Better: -1, Chart: true},
			{Name: "peak M held", About: "millions of entries, expired ones among them"},
			{Name: "peak MB", About: "of heap, garbage included, that was not there before", Better: -1},
			{Name: "held/ideal", About: "paced: entries held at the end, for each that has not expired", Better: -1},
			{Name: "left %", About: "of what was held at most, still held a few seconds after all has expired", Better: -1},
			{Name: "left MB", About: "of heap then, after a collection", Better: -1, Chart: true},
		},
	})
}

type churn[K comparable, V any] struct {
	b     *Bench[K, V]
	n     int
	paced bool
	ttl   time.Duration
	most  time.Duration // of inserting
	grace time.Duration // for what has expired to go

	values []V // stored in turn
	last   K   // key, for the compiler not to leave out its making
	alone  float64
}

const (
	churnBatch = 5 * time.Millisecond // between two wake-ups, paced
	churnBlock = 1024                 // inserts between two looks at the clock, full
)

func openChurn[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	s := &churn[K, V]{
		b: b, n: c.Entries, paced: c.Variant == "paced",
		ttl: time.Second, most: 5 * time.Second, grace: 7 * time.Second,
	}
	if s.paced {
		s.ttl = 2 * time.Second
		s.most = 3 * s.ttl
	}
	for i := range churnBlock {
		s.values = append(s.values, b.Value(i))
	}
	return s, nil
}

func (s *churn[K, V]) Close() {}

func (s *churn[K, V]) Run() (Result, error) {
	// What the making of keys costs, with no cache.
	alone, n, err := s.measure(func() int { return s.insert(nil, 0, time.Second, nil) })
	if err != nil {
		return Result{}, err
	}
	s.alone = alone / float64(n)

	before, _ := heapAfterGC()
	c, err := s.b.New(Config{Entries: s.n, TTL: s.ttl})
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	f := map[string]float64{}
	held := counter{count: c.Len, known: s.b.Peer.Traits.Counts}
	peak := watchHeap()

	start := time.Now()
	from := 0
	if s.paced { // at first nothing expires
		from = s.insert(c, from, s.ttl, held.look)
	}
	cpu, n, err := s.measure(func() int { return s.insert(c, from, s.most-time.Since(start), held.look) })
	if err != nil {
		return Result{}, err
	}
	ended := time.Now()
	held.now()
	f["peak MB"] = megabytes(peak() - before)
	f["CPU µs/insert"] = cpu/float64(n) - s.alone
	if s.paced {
		f["held/ideal"] = float64(held.last) / float64(s.n)
	} else {
		f["M inserts/s"] = float64(n) / 1e6 / ended.Sub(start).Seconds()
	}

	wait := s.ttl
	if s.b.Peer.Traits.Reclaims { // otherwise they stay
		wait += s.grace
	}
	for held.last != 0 && time.Since(ended) < wait {
		time.Sleep(50 * time.Millisecond)
		held.look()
	}
	held.now()
	f["peak M held"] = float64(held.most) / 1e6
	f["left %"] = 100 * float64(held.last) / float64(max(held.most, 1))
	after, _ := heapAfterGC()
	f["left MB"] = megabytes(after - before)
	runtime.KeepAlive(c)
	if !held.known {
		delete(f, "held/ideal")
		delete(f, "peak M held")
		delete(f, "left %")
	}
	return Result{Figures: f}, nil
}

// measure returns what CPU time an insertion took, in µs, and how many it inserted.
func (s *churn[K, V]) measure(insert func() int) (float64, int, error) {
	before, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	n := insert()
	after, err := cpuTime()
	return float64(after-before) / 1e3, n, err
}

// insert stores fresh keys, from the given one on, as the case wants it, and
// returns how many. With no cache it does all but that.
func (s *churn[K, V]) insert(c Cache[K, V], from int, most time.Duration, look func()) (n int) {
	start := time.Now()
	for done := false; !done; {
		upTo := min(n+churnBlock, s.n)
		if s.paced {
			time.Sleep(churnBatch)
			upTo = int(min(time.Since(start), most) * time.Duration(s.n) / s.ttl)
		}
		for ; n < upTo; n++ {
			s.last = s.b.Key(from + n)
			if c != nil {
				c.Set(s.last, s.values[n%len(s.values)], s.ttl)
			}
		}
		done = time.Since(start) >= most || !s.paced && n == s.n
		if look != nil {
			look()
		}
	}
	return n
}

// A counter looks at Len now and then, rarely if that takes long.
type counter struct {
	count func() int
	known bool
	last  int // -1 if unknown
	most  int
	next  time.Time // to look again
}

// look counts if it is time to.
func (c *counter) look() {
	if time.Now().After(c.next) {
		c.now()
	}
}

func (c *counter) now() {
	if !c.known {
		c.last = -1
		return
	}
	start := time.Now()
	c.last = c.count()
	end := time.Now()
	c.most = max(c.most, c.last)
	c.next = end.Add(max(50*time.Millisecond, 50*end.Sub(start)))
}

// watchHeap has the heap watched. The function returned ends that, and returns the most
// that it has held, garbage included.
func watchHeap() (most func() int64) {
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for most := int64(0); ; {
			metrics.Read(sample)
			most = max(most, int64(sample[0].Value.Uint64()))
			select {
			case <-ticker.C:
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
