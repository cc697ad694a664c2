package main

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// The workloads of this file ask what one operation costs: as many as fit into
// runFor, on keys drawn beforehand, by one or more goroutines. ns/op is the time
// that went by, divided by the operations of all goroutines together.

const (
	million = 1_000_000
	// batch is how many operations go by between looks at the clock: a look costs
	// as much as some twenty operations.
	batch = 4096
)

var (
	runFor = 250 * time.Millisecond
	// warmUp goes before: other processes have had the processor's caches.
	warmUp = 20 * time.Millisecond
)

func init() {
	for _, w := range []Workload{
		{
			Name:    "get",
			About:   "Get of keys that are there",
			Cases:   cross([]int{10_000, million}, []string{"zipf", "uniform"}, []int{1, 2}, nil, "keys=string/n=1000000/dist=zipf/threads=1", "keys=uint64/n=1000000/dist=zipf/threads=1"),
			Strings: openGet[string, *Payload],
			Uint64s: openGet[uint64, uint64],
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, hitPercent},
		},
		{
			Name:    "get-hot",
			About:   "Get of one and the same key, out of a million",
			Cases:   cross([]int{million}, nil, []int{1, 2}, nil),
			Strings: openGetHot[string, *Payload],
			Uint64s: openGetHot[uint64, uint64],
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, hitPercent},
		},
		{
			Name:    "get-miss",
			About:   "Get of keys that are not there",
			Cases:   cross([]int{million}, []string{"uniform"}, []int{1, 2}, nil),
			Strings: openGetMiss[string, *Payload],
			Uint64s: openGetMiss[uint64, uint64],
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp},
		},
		{
			Name:    "mix90",
			About:   "nine Gets, then a Set, of keys that are there",
			Cases:   cross([]int{million}, []string{"zipf"}, []int{1, 2}, nil, "keys=string/n=1000000/dist=zipf/threads=2"),
			Strings: openMix[string, *Payload](10),
			Uint64s: openMix[uint64, uint64](10),
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, hitPercent, keptPercent},
		},
		{
			Name:    "mix50",
			About:   "Get and Set by turns, of keys that are there",
			Cases:   cross([]int{million}, []string{"zipf"}, []int{1, 2}, nil),
			Strings: openMix[string, *Payload](2),
			Uint64s: openMix[uint64, uint64](2),
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, hitPercent, keptPercent},
		},
		{
			Name:    "overwrite",
			About:   "Set of keys that are there",
			Cases:   cross([]int{million}, []string{"zipf", "uniform"}, []int{1}, nil),
			Strings: openMix[string, *Payload](1),
			Uint64s: openMix[uint64, uint64](1),
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, keptPercent},
		},
		{
			Name:    "delete-set",
			About:   "Delete of a key that is there, then Set of it; the two count as one operation",
			Cases:   cross([]int{million}, []string{"uniform"}, []int{1}, nil),
			Needs:   Traits{Deletes: true},
			Strings: openDeleteSet[string, *Payload],
			Uint64s: openDeleteSet[uint64, uint64],
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, keptPercent},
		},
		{
			Name: "insert",
			Slow: true,
			About: "a new cache and a million Sets, each of a new key; sized: the cache is told beforehand how many. " +
				"allocs/op are those of the Sets alone, B/op of making the cache, too",
			Cases:   cross([]int{million}, nil, []int{1, 2}, []string{"growing", "sized"}, "keys=string/n=1000000/threads=1/growing"),
			Strings: openInsert[string, *Payload],
			Uint64s: openInsert[uint64, uint64],
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, keptPercent},
		},
		{
			Name:    "sliding",
			About:   "Get of keys that are there, where each Get restarts the entry's lifetime",
			Cases:   cross([]int{10_000, million}, []string{"zipf"}, []int{1, 2}, nil),
			Needs:   Traits{Expires: true},
			Strings: openSliding[string, *Payload],
			Uint64s: openSliding[uint64, uint64],
			Metrics: []Metric{perOp, allocsPerOp, bytesPerOp, hitPercent},
		},
	} {
		registerWorkload(w)
	}
}

var (
	perOp       = Metric{Name: "ns/op", About: "time per operation, all goroutines together", Better: -1, Chart: true}
	allocsPerOp = Metric{Name: "allocs/op", About: "allocations, the cache's background work included", Better: -1}
	bytesPerOp  = Metric{Name: "B/op", About: "bytes allocated, likewise", Better: -1}
	hitPercent  = Metric{Name: "hit %", About: "Gets that found their key; less than 100 means that the cache dropped entries", Better: +1}
	keptPercent = Metric{Name: "kept %", About: "keys that are there afterwards", Better: +1}
)

// cross returns a case for each combination, by key type and number of entries
// first: such cases share a loaded cache. Quick are those named.
func cross(entries []int, dists []string, threads []int, variants []string, quick ...string) (cases []Case) {
	if dists == nil {
		dists = []string{""}
	}
	if variants == nil {
		variants = []string{""}
	}
	for _, keys := range []string{"string", "uint64"} {
		for _, n := range entries {
			for _, variant := range variants {
				for _, dist := range dists {
					for _, t := range threads {
						c := Case{Keys: keys, Entries: n, Dist: dist, Threads: t, Variant: variant}
						c.Quick = slices.Contains(quick, c.String())
						cases = append(cases, c)
					}
				}
			}
		}
	}
	return cases
}

// ops is a session of one operation after the other. It knows nothing of types;
// what is done to the cache is in each, which does it to one batch.
type ops struct {
	picks []uint32
	each  func(picks []uint32) tally
	at    []int // where in picks each goroutine goes on
	apart bool  // each goroutine keeps to its own part of picks

	kept   func() float64 // percent; may be nil
	absent bool           // no Get may find anything
	close  func()         // may be nil
}

// A tally is how many Gets there were, and how many of them found something.
type tally struct{ gets, hits int }

// newOps returns a session whose goroutines start far from each other, so that
// none finds in the processor's cache what another has just read.
func newOps(c Case, picks []uint32, each func([]uint32) tally) *ops {
	o := &ops{picks: picks, each: each}
	o.spread(max(c.Threads, 1))
	runtime.GC() // of what making ready has left behind
	return o
}

// spread puts goroutines in their places.
func (o *ops) spread(goroutines int) {
	o.at = make([]int, goroutines)
	for t := range o.at {
		o.at[t] = t * (len(o.picks) / goroutines)
	}
}

func (o *ops) Run() (Result, error) {
	o.do(lasting(warmUp))
	m := startMeter()
	done, t := o.do(lasting(runFor))
	figures := m.perOp(done)
	if t.gets > 0 && !o.absent {
		figures[hitPercent.Name] = 100 * float64(t.hits) / float64(t.gets)
	}
	if o.absent && t.hits > 0 {
		return Result{}, fmt.Errorf("found %d keys that were never stored", t.hits)
	}
	if o.kept != nil {
		figures[keptPercent.Name] = o.kept()
	}
	return Result{Figures: figures}, nil
}

func (o *ops) Close() {
	if o.close != nil {
		o.close()
	}
}

// do has all goroutines work. more says, before each batch, how large it may be;
// zero ends that goroutine's work.
func (o *ops) do(more func(done int) int) (done int, sum tally) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for t := range o.at {
		all.Go(func() {
			n, at, mine := 0, o.at[t], tally{}
			from, to := 0, len(o.picks)
			if o.apart {
				part := to / len(o.at)
				from, to = t*part, (t+1)*part
			}
			for size := more(n); size > 0; size = more(n) {
				picks := o.picks[at:min(at+size, to)]
				b := o.each(picks)
				mine.gets += b.gets
				mine.hits += b.hits
				n += len(picks)
				if at += len(picks); at == to {
					at = from
				}
			}
			mu.Lock()
			defer mu.Unlock()
			o.at[t] = at
			done += n
			sum.gets += mine.gets
			sum.hits += mine.hits
		})
	}
	all.Wait()
	return done, sum
}

// eachTurns is how often either of two has its turn in a Run.
const eachTurns = 10

// byTurns returns the nanoseconds per operation of two who take turns: what disturbs the
// machine disturbs both.
func byTurns(a, b *ops) (float64, float64) {
	var took [2]time.Duration
	var done [2]int
	for range eachTurns {
		for i, o := range []*ops{a, b} {
			start := time.Now()
			n, _ := o.do(lasting(runFor / eachTurns))
			took[i] += time.Since(start)
			done[i] += n
		}
	}
	per := func(i int) float64 { return float64(took[i].Nanoseconds()) / float64(done[i]) }
	return per(0), per(1)
}

// lasting asks for batches until d has gone by, for one at least.
func lasting(d time.Duration) func(int) int {
	start := time.Now()
	return func(done int) int {
		if done == 0 || time.Since(start) < d {
			return batch
		}
		return 0
	}
}

// A meter measures from when it was started.
type meter struct {
	before runtime.MemStats
	start  time.Time
}

func startMeter() *meter {
	m := new(meter)
	runtime.ReadMemStats(&m.before)
	m.start = time.Now()
	return m
}

// perOp returns what has gone into n operations.
func (m *meter) perOp(n int) map[string]float64 {
	wall := time.Since(m.start)
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	// The measuring itself allocates a little: it is gone with the fifth digit.
	per := func(x uint64) float64 { return math.Round(float64(x)/float64(n)*1e4) / 1e4 }
	return map[string]float64{
		perOp.Name:       float64(wall.Nanoseconds()) / float64(n),
		allocsPerOp.Name: per(after.Mallocs - m.before.Mallocs),
		bytesPerOp.Name:  per(after.TotalAlloc - m.before.TotalAlloc),
	}
}

// getEach is a loop with nothing in it but a pick and the call.
func getEach[K comparable, V any](cache Cache[K, V], keys []K) func([]uint32) tally {
	return func(picks []uint32) tally {
		hits := 0
		for _, p := range picks {
			if _, ok := cache.Get(keys[p]); ok {
				hits++
			}
		}
		return tally{len(picks), hits}
	}
}

func openGet[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, keys, _, err := b.Load(c.Entries)
	if err != nil {
		return nil, err
	}
	return newOps(c, picks(c.Entries, c.Dist, 1), getEach(cache, keys)), nil
}

func openGetHot[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, keys, _, err := b.Load(c.Entries)
	if err != nil {
		return nil, err
	}
	hot := slices.Repeat([]uint32{uint32(c.Entries / 2)}, batch)
	return newOps(c, hot, getEach(cache, keys)), nil
}

func openGetMiss[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, _, _, err := b.Load(c.Entries)
	if err != nil {
		return nil, err
	}
	absent := make([]K, c.Entries)
	for i := range absent {
		absent[i] = b.Key(c.Entries + i)
	}
	o := newOps(c, picks(c.Entries, c.Dist, 1), getEach(cache, absent))
	o.absent = true
	return o, nil
}

func openSliding[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, err := b.New(Config{Entries: c.Entries, TTL: time.Hour, Sliding: true})
	if err != nil {
		return nil, err
	}
	lookup := b.fill(cache, c.Entries)
	o := newOps(c, picks(c.Entries, c.Dist, 1), getEach(cache, lookup))
	o.close = cache.Close
	return o, nil
}

// fill stores entries 0 to n-1 for an hour in a cache that is not for the next case, and
// returns fresh copies of their keys.
func (b *Bench[K, V]) fill(cache Cache[K, V], n int) (lookup []K) {
	b.Unload() // nobody will ask it meanwhile
	stored, lookup := make([]K, n), make([]K, n)
	for i := range stored {
		stored[i] = b.Key(i)
	}
	for i := range lookup {
		lookup[i] = b.Key(i)
	}
	for i, key := range stored {
		cache.Set(key, b.Value(i), time.Hour)
	}
	settle(cache)
	return lookup
}

// withCopies returns the look-up keys and, after them, copies to give to Set. Were
// the look-up keys stored, a cache would find its own memory in them from then on,
// which it never does in earnest.
func withCopies[K comparable, V any](b *Bench[K, V], lookup []K, copies int) []K {
	keys := slices.Grow(slices.Clip(lookup), copies*len(lookup))
	for range copies {
		for i := range lookup {
			keys = append(keys, b.Key(i))
		}
	}
	return keys
}

// copiesToSet is how many copies it takes so that Set never gets the one that is
// stored. An integer has no memory to share.
func copiesToSet[K comparable]() int {
	var key K
	if _, ok := any(key).(string); ok {
		return 2
	}
	return 1
}

// interleave makes each every-th of the picks among n keys one for Set: an index
// into what withCopies returns. A key's copies take turns, also from one round of
// picks to the next, for which there are as many rounds as copies.
func interleave(picks []uint32, n, every, copies int) []uint32 {
	marked := make([]uint32, 0, copies*len(picks))
	turn := make([]uint8, n)
	for range copies {
		for i, p := range picks {
			if i%every == every-1 {
				k := turn[p]
				turn[p] = uint8((int(k) + 1) % copies)
				p += uint32(n * (1 + int(k)))
			}
			marked = append(marked, p)
		}
	}
	return marked
}

// openMix opens a session in which one operation out of every is a Set.
func openMix[K comparable, V any](every int) Opener[K, V] {
	return func(b *Bench[K, V], c Case) (Session, error) {
		cache, lookup, values, err := b.Load(c.Entries)
		if err != nil {
			return nil, err
		}
		copies := copiesToSet[K]()
		keys, value, n := withCopies(b, lookup, copies), values[0], uint32(c.Entries)
		o := newOps(c, interleave(picks(c.Entries, c.Dist, 1), c.Entries, every, copies), func(picks []uint32) (t tally) {
			for _, p := range picks {
				if p < n {
					t.gets++
					if _, ok := cache.Get(keys[p]); ok {
						t.hits++
					}
				} else {
					cache.Set(keys[p], value, time.Hour)
				}
			}
			return t
		})
		o.afterWriting(b.Unload, func(step int) float64 { return kept(cache, lookup, step) })
		return o, nil
	}
}

func openDeleteSet[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	cache, lookup, values, err := b.Load(c.Entries)
	if err != nil {
		return nil, err
	}
	keys, value, n := withCopies(b, lookup, 1), values[0], uint32(c.Entries)
	o := newOps(c, picks(c.Entries, c.Dist, 1), func(picks []uint32) tally {
		for _, p := range picks {
			cache.Delete(keys[p])
			cache.Set(keys[n+p], value, time.Hour)
		}
		return tally{}
	})
	o.afterWriting(b.Unload, func(step int) float64 { return kept(cache, lookup, step) })
	return o, nil
}

// afterWriting has the session look what is there after each Run, and drop the
// cache in the end if it has lost a key: the next session needs all.
func (o *ops) afterWriting(unload func(), kept func(step int) float64) {
	o.kept = func() float64 { return kept(sparsely) }
	o.close = func() {
		if kept(1) < 100 {
			unload()
		}
	}
}

// sparsely is the step for a look at what is there that takes little time. It is
// prime, so that it keeps no step with what a cache does.
const sparsely = 17

// kept returns how many percent of each step-th key are there.
func kept[K comparable, V any](cache Cache[K, V], keys []K, step int) float64 {
	flush(cache)
	asked, found := 0, 0
	for i := 0; i < len(keys); i += step {
		asked++
		if _, ok := cache.Get(keys[i]); ok {
			found++
		}
	}
	return 100 * float64(found) / float64(asked)
}

// An insertion is a session in which each Run fills a new cache.
type insertion[K comparable, V any] struct {
	b       *Bench[K, V]
	config  Config
	threads int
	keys    []K
	values  []V
}

func openInsert[K comparable, V any](b *Bench[K, V], c Case) (Session, error) {
	s := &insertion[K, V]{
		b:       b,
		config:  Config{Entries: c.Entries, Sized: c.Variant == "sized", TTL: time.Hour},
		threads: max(c.Threads, 1),
	}
	cache, err := b.New(s.config)
	if err != nil {
		return nil, err
	}
	cache.Close()
	b.Unload() // nobody will ask it meanwhile
	for i := range c.Entries {
		s.keys = append(s.keys, b.Key(i))
		s.values = append(s.values, b.Value(i))
	}
	debug.FreeOSMemory()
	return s, nil
}

func (s *insertion[K, V]) Run() (Result, error) {
	cache, figures, err := s.fill()
	if err != nil {
		return Result{}, err
	}
	figures[keptPercent.Name] = kept(cache, s.keys, sparsely)
	s.drop(cache)
	return Result{Figures: figures}, nil
}

// fill returns a new cache with all keys in it. Making it is part of the work: what
// one cache asks for here, another does in Set. Only allocations are those of the Sets.
func (s *insertion[K, V]) fill() (Cache[K, V], map[string]float64, error) {
	m := startMeter()
	cache, err := s.b.New(s.config)
	if err != nil {
		return nil, nil, err
	}
	sets := startMeter()
	var all sync.WaitGroup
	for t := range s.threads {
		from, to := t*len(s.keys)/s.threads, (t+1)*len(s.keys)/s.threads
		all.Go(func() {
			for i := from; i < to; i++ {
				cache.Set(s.keys[i], s.values[i], time.Hour)
			}
		})
	}
	all.Wait()
	figures := m.perOp(len(s.keys))
	figures[allocsPerOp.Name] = sets.perOp(len(s.keys))[allocsPerOp.Name]
	return cache, figures, nil
}

// drop closes cache and has every Run start from the same heap: none may find
// memory that the one before has got from the system, as it would if that was not
// long ago.
func (s *insertion[K, V]) drop(cache Cache[K, V]) {
	cache.Close()
	debug.FreeOSMemory()
}

func (s *insertion[K, V]) Close() {}
