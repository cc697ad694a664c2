package wheelcache

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// The soak runs many caches at once on real time, each with options, workers and
// changing phases of its own, and looks for whatever is wrong: reads, events, books,
// memory, goroutines. It takes as long as it is told to:
//
//	go test -run '^TestSoak$' -soak 10m -timeout 0 -v .
//	make soak TIME=30m REPORT=soak.md
//
// # Parts
//
//	soaker     the whole: starts the rest, audits every few seconds, reports
//	subject    one configuration: its cache, made anew now and then, and its ledger
//	ledger     what is known of each key; the truth that reads are judged by
//	worker     a goroutine that does operations, one owns each key
//	conductor  the goroutine that takes a subject from phase to phase
//	witness    a timer that tells a late cache from a late machine
//
// # Truth on real time
//
// Nobody knows the moment at which a cache read the clock, but the reading lies
// between those of the test before and after the call. So the ledger has two
// bounds for each deadline, earliest and latest, and everything is judged by what
// is certain:
//
//	a read that began at latest or after it must miss;
//	a read that ended before earliest must hit, unless somebody swept the key;
//	what it returns was stored last, or is being stored.
//
// No tolerance is needed for scheduling. Lifetimes that may be counted from the
// coarse clock are bounded by what it showed before the call.
//
// Each key has one owner, the only worker that changes it, except for a few hot
// ones, which are changed by all and of which only the values are checked. Clear
// and DeleteFunc sweep classes of keys; a counter of each class tells which
// entries they may have taken, and which they must have. What a cache with a bound
// holds may leave at any time: there, only that it does not stay is certain.

var (
	soakTime   = flag.Duration("soak", 0, "how long TestSoak lasts; 0 skips it")
	soakSeed   = flag.Uint64("soakseed", 0, "seed of what TestSoak chooses; 0 takes one from the clock")
	soakReport = flag.String("soakreport", "", "file for TestSoak's report, in Markdown")
)

const (
	soakWorkers = 3                // of each subject
	soakHot     = 2 * soakWorkers  // keys that all workers change
	soakClasses = 8                // of keys, that are swept separately
	auditEvery  = 3 * time.Second  // all subjects stand still for it
	soakRound   = 30 * time.Second // after which all caches are emptied and closed, and made anew
	soakCrowd   = 3                // subjects that may be full of entries at once
)

func TestSoak(t *testing.T) {
	if *soakTime <= 0 {
		t.Skip("needs -soak, as in go test -run '^TestSoak$' -soak 30s -timeout 0 -v .")
	}
	s := newSoaker(t)
	s.run()
	s.report()
}

// --- the soaker ---

type soaker struct {
	t       *testing.T
	seed    uint64
	epoch   time.Time // instants are nanoseconds since then
	lines   int       // of each ledger
	storm   time.Duration
	witness soakWitness
	crowd   chan struct{}

	subjects   []soakSubject
	goroutines int // that there were before it began, and its own
	spawned    int
	baseline   uint64

	wg    sync.WaitGroup
	once  sync.Once
	ended chan struct{}
	over  atomic.Bool
	fault atomic.Pointer[string] // the first

	heapMin, heapMax, heapSys uint64
	entriesMax                int
	audits, rounds            int
	elapsed                   time.Duration
}

// A soakSubject is a subject whatever its types.
type soakSubject interface {
	start()
	pause() // waits until no operation is under way
	resume()
	audit() error
	empty() error
	retire() error
	renew()
	entries() (n int, bytes uint64)
	watchCoarse()
	describe() string
	account() *soakAccount
}

func newSoaker(t *testing.T) *soaker {
	s := &soaker{
		t:     t,
		seed:  cmp.Or(*soakSeed, uint64(time.Now().UnixNano())%1e9),
		epoch: time.Now(),
		lines: 200_000 / soakWorkers * soakWorkers,
		storm: 2 * time.Second,
		crowd: make(chan struct{}, soakCrowd),
		ended: make(chan struct{}),
	}
	if soakRace() { // an operation takes ten times as long
		s.lines = s.lines / 10 / soakWorkers * soakWorkers
	}
	s.goroutines = runtime.NumGoroutine()
	s.subjects = soakSubjects(s)
	return s
}

func (s *soaker) now() int64 { return int64(time.Since(s.epoch)) }

// fail ends the soak with a finding. Those after the first are consequences.
func (s *soaker) fail(where string, err error) {
	fault := fmt.Sprintf("after %v: %s: %v\nagain: %s", time.Since(s.epoch).Round(time.Millisecond), where, err, soakCommand(s.seed))
	s.fault.CompareAndSwap(nil, &fault)
	s.end()
}

func (s *soaker) end() {
	s.once.Do(func() {
		s.over.Store(true)
		close(s.ended)
	})
}

// pause waits, and reports whether the soak goes on.
func (s *soaker) pause(d time.Duration) bool {
	select {
	case <-s.ended:
		return false
	case <-time.After(d):
		return true
	}
}

// spawn starts a goroutine that lives until the end of the soak.
func (s *soaker) spawn(f func()) {
	s.goroutines++
	s.spawned++
	s.wg.Go(f)
}

func (s *soaker) run() {
	s.t.Logf("soak: %v, seed %d", *soakTime, s.seed)
	s.baseline = soakHeap()
	s.heapMin = math.MaxUint64
	s.spawn(func() { s.witness.watch(s) })
	for _, c := range s.subjects {
		c.start()
	}
	begin := time.Now()
	round := min(soakRound, *soakTime/2)
	for last := begin; time.Since(begin) < *soakTime && s.pause(min(auditEvery, *soakTime/4)); {
		due := time.Since(last) >= round
		s.standstill(due)
		if due {
			last = time.Now()
		}
	}
	s.end()
	s.wg.Wait()
	s.goroutines -= s.spawned
	s.standstill(true)
	s.elapsed = time.Since(begin)
	for _, c := range s.subjects {
		s.judgeTiming(c)
	}
	if fault := s.fault.Load(); fault != nil {
		for _, c := range s.subjects {
			s.t.Log(c.describe())
		}
		s.t.Fatal(*fault)
	}
}

// standstill stops all subjects and checks everything. At the end of a round, all
// caches are emptied and closed too, nothing of them may be left, and new ones
// take their place.
func (s *soaker) standstill(round bool) {
	hangs := time.AfterFunc(5*time.Minute, func() {
		debug.SetTraceback("all")
		panic("an audit does not come to its end: " + soakCommand(s.seed))
	})
	defer hangs.Stop()
	for _, c := range s.subjects {
		c.pause()
		defer c.resume()
	}
	s.audits++
	if !s.each("", soakSubject.audit) || !s.ok("audited", s.checkHeap(heapSlack)) || !round {
		return
	}
	s.rounds++
	if !s.each("emptied: ", soakSubject.empty) || !s.ok("all caches are empty", s.checkHeap(heapSlackEmpty)) {
		return
	}
	if !s.each("closed: ", soakSubject.retire) || !s.ok("all caches are closed", s.checkGoroutines()) {
		return
	}
	for _, c := range s.subjects {
		c.renew()
	}
	s.ok("all caches are new", s.checkHeap(heapSlackEmpty))
}

// each checks all subjects, until something is wrong.
func (s *soaker) each(when string, check func(soakSubject) error) bool {
	for _, c := range s.subjects {
		if err := check(c); err != nil {
			s.fail(c.describe(), fmt.Errorf("%s%w", when, err))
		}
		if s.fault.Load() != nil {
			return false
		}
	}
	return true
}

func (s *soaker) ok(when string, err error) bool {
	if err != nil {
		s.fail(when, err)
	}
	return s.fault.Load() == nil
}

// What caches may hold beyond the bytes of their entries: tables and wheels that shrink
// only when most of their entries have gone, those of a storm only when it is over, and
// an audit may meet several storms; without entries, next to nothing.
const (
	heapSlack      = 64 << 20
	heapSlackEmpty = 6 << 20
)

// checkHeap checks that memory is in proportion to entries.
func (s *soaker) checkHeap(slack uint64) error {
	heap, entries, bytes := soakHeap(), 0, uint64(0)
	for _, c := range s.subjects {
		n, b := c.entries()
		entries += n
		bytes += b
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.heapMin, s.heapMax = min(s.heapMin, heap), max(s.heapMax, heap)
	s.heapSys = max(s.heapSys, m.HeapSys)
	s.entriesMax = max(s.entriesMax, entries)
	if most := s.baseline + bytes + slack; heap > most {
		return fmt.Errorf("the heap is %d KB for %d entries, %d KB before the first; at most %d KB is right", heap>>10, entries, s.baseline>>10, most>>10)
	}
	return nil
}

func soakHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// checkGoroutines checks that none are left but the soak's own. One that has done
// its work may take a moment to end.
func (s *soaker) checkGoroutines() error {
	n := 0
	for range 500 {
		if n = runtime.NumGoroutine(); n <= s.goroutines {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	return fmt.Errorf("%d goroutines after Close, %d before:\n%s", n, s.goroutines, stacks[:runtime.Stack(stacks, true)])
}

// judgeTiming checks that the driver meant to refresh the coarse clock in time. That it
// did so later does not show what is wrong, on a machine that may be busy.
func (s *soaker) judgeTiming(c soakSubject) {
	if most := 2 * refreshPeriod; c.account().period.Quantile(0.95) > most {
		s.fail(c.describe(), fmt.Errorf("the coarse clock was to be refreshed after %v; at most %v is right", c.account().period.Quantile(0.95), most))
	}
}

// --- the witness ---

// A soakWitness sleeps as long as the driver does between two refreshes of the
// coarse clock and notes how late it wakes up: what the driver suffers too.
type soakWitness struct {
	due    atomic.Int64
	worst  [2]atomic.Int64 // of this period and of the last one
	delays Histogram       // its own, until the end
}

const witnessPeriod = 500 // times that it wakes up

func (w *soakWitness) watch(s *soaker) {
	for n := 1; !s.over.Load(); n++ {
		due := s.now() + int64(refreshPeriod)
		w.due.Store(due)
		time.Sleep(refreshPeriod)
		late := max(s.now()-due, 0)
		count(&w.delays, time.Duration(late), 1)
		if late > w.worst[0].Load() {
			w.worst[0].Store(late)
		}
		if n%witnessPeriod == 0 {
			w.worst[1].Store(w.worst[0].Swap(0))
		}
		for _, c := range s.subjects {
			c.watchCoarse()
		}
	}
}

// delay returns the worst delay of the last ten seconds, the present one included.
func (w *soakWitness) delay(now int64) time.Duration {
	return time.Duration(max(w.worst[0].Load(), w.worst[1].Load(), now-w.due.Load()))
}

// count adds n durations to a histogram.
func count(h *Histogram, d time.Duration, n uint64) {
	h.Count += n
	h.Sum += d * time.Duration(n)
	h.Max = max(h.Max, d)
	h.Counts[bucketOfDuration(d)] += n
}

// --- the ledger ---

const (
	soakForever = math.MaxInt64
	soakNever   = math.MinInt64
	unknown     = 1 // instead of a counter of sweeps, which is even when none is going on
)

// A soakLine is what the ledger knows of one key. Its owner writes; the version is
// odd while the owner changes the entry, which has then the old state or the new
// one, and latest allows for both.
type soakLine struct {
	version  atomic.Uint32
	stored   atomic.Uint32 // generation of the value stored last
	swept    atomic.Uint32 // the class's counter of sweeps when the entry was last known to be there
	reported atomic.Uint32 // generation whose removal OnRemoval was told of last
	earliest atomic.Int64  // the deadline is not before; soakNever if there may be no entry
	latest   atomic.Int64  // the deadline is not after; if there is no entry, when it had left
}

// A soakFact is a copy of a line.
type soakFact struct {
	stored, swept    uint32
	earliest, latest int64
}

// fact returns a copy and the version it is of. One of an odd version may be mixed.
func (l *soakLine) fact() (f soakFact, version uint32) {
	for {
		version = l.version.Load()
		f = soakFact{l.stored.Load(), l.swept.Load(), l.earliest.Load(), l.latest.Load()}
		if l.version.Load() == version {
			return f, version
		}
	}
}

func (l *soakLine) begin() {
	l.version.Add(1)
	l.latest.Store(soakForever)
}

func (l *soakLine) end(f soakFact) {
	l.stored.Store(f.stored)
	l.swept.Store(f.swept)
	l.earliest.Store(f.earliest)
	l.latest.Store(f.latest)
	l.version.Add(1)
}

func (l *soakLine) reset() {
	l.reported.Store(0)
	l.begin()
	l.end(soakFact{earliest: soakNever, latest: soakNever})
}

// A glimpse is what one operation has seen of a key, and when.
type glimpse struct {
	op             soakOp
	from, until    int64  // the test's clock before the call and after it
	horizon        int64  // the cache's, before the call
	sweptA, sweptB uint32 // the class's counter of sweeps, before and after
	evicts         bool   // the cache does

	saw        soakSight
	number     uint64 // of the key that the value says it belongs to
	generation uint32
	torn       bool
}

type soakSight uint8

const (
	sawNothing soakSight = iota // the operation does not tell
	sawMiss
	sawEntry // but no value
	sawValue
)

// certain reports whether the entry is there for certain during the whole call.
func (f soakFact) certain(g *glimpse) bool {
	return !g.evicts && g.until < f.earliest && f.unswept(g)
}

func (f soakFact) unswept(g *glimpse) bool {
	return f.swept%2 == 0 && f.swept == g.sweptA && f.swept == g.sweptB
}

// gone reports whether the entry is gone for certain from the beginning of the call.
func (f soakFact) gone(g *glimpse) bool {
	return g.from >= f.latest || f.swept%2 == 0 && g.sweptA >= f.swept+2
}

// counted returns the earliest instant from which the cache may count a lifetime.
func (g *glimpse) counted(ttl time.Duration) int64 {
	switch {
	case ttl < coarseLifetime:
		return g.from
	case g.horizon == soakForever: // asleep, but it may be woken during the call
		return g.from - int64(refreshPeriod)
	}
	return min(g.from, g.horizon-int64(slack))
}

// An effect is what an operation has done to an entry.
type soakEffect struct {
	kind  effectKind
	ttl   time.Duration // effectStored, effectMoved
	at    int64         // effectStoredUntil
	keeps bool          // effectStored: the policy keeps the deadline of a live entry
}

type effectKind uint8

const (
	effectNone effectKind = iota
	effectStored
	effectStoredUntil
	effectReplaced // another value, the same deadline
	effectMoved
	effectSlid
	effectRemoved
)

// after returns the line of a key after an operation.
func (c *soaked[K, V]) after(f soakFact, g *glimpse, e soakEffect) soakFact {
	was := f
	if g.saw == sawMiss { // once expired, always expired
		f.earliest, f.latest = soakNever, min(f.latest, g.until)
	}
	if e.kind == effectNone {
		return f
	}
	f.swept = unknown
	if g.sweptA == g.sweptB && g.sweptA%2 == 0 {
		f.swept = g.sweptA
	}
	switch e.kind {
	case effectStored:
		f.stored++
		f.earliest, f.latest = bounds(g.counted(e.ttl), g.until, e.ttl)
		switch {
		case !e.keeps || g.saw == sawMiss || was.gone(g):
		case g.saw == sawValue || was.certain(g):
			f.earliest, f.latest = was.earliest, was.latest
		default:
			f.earliest, f.latest = min(f.earliest, was.earliest), max(f.latest, was.latest)
		}
	case effectStoredUntil:
		f.stored++
		f.earliest, f.latest = e.at, e.at
		if e.at <= g.until {
			f.earliest, f.latest = soakNever, g.until
		}
	case effectReplaced:
		f.stored++
	case effectMoved:
		f.earliest, f.latest = bounds(g.counted(e.ttl), g.until, e.ttl)
	case effectSlid:
		f.earliest, f.latest = c.slid(was, g)
	case effectRemoved:
		f.earliest, f.latest = soakNever, g.until
	}
	return f
}

// bounds returns those of the deadline of a lifetime that began between two instants.
func bounds(from, until int64, ttl time.Duration) (earliest, latest int64) {
	switch {
	case ttl == expiry.Never:
		return soakForever, soakForever
	case ttl <= 0:
		return soakNever, until
	}
	return from + int64(ttl), until + int64(ttl)
}

// slid returns the bounds of a deadline that a read may have moved.
func (c *soaked[K, V]) slid(was soakFact, g *glimpse) (earliest, latest int64) {
	ttl, tick := c.slide.ttl, int64(c.cache.tick)
	if ttl == 0 {
		return was.earliest, was.latest
	}
	earliest, latest = bounds(g.counted(ttl)-tick, g.until, ttl)
	if c.slide.half { // the deadline moves to a later one only, and need not
		// How much remains is worked out by the coarse clock, whatever the lifetime.
		earliest = g.counted(coarseLifetime) + int64(ttl)/2 - tick
		earliest, latest = max(was.earliest, earliest), max(was.latest, latest)
	} else if was.latest > latest { // to an earlier one, unless by less than the coarse clock may be behind
		latest = min(was.latest, latest+int64(refreshPeriod))
	}
	if !was.certain(g) {
		earliest = min(earliest, was.earliest) // it may have expired between the read and the move
	}
	return earliest, latest
}

// judge returns what is wrong with a glimpse of key n, given the fact at the beginning
// of the call, whether that held until its end, the newest generation that may have been
// seen and the latest deadline.
func (c *soaked[K, V]) judge(n uint64, g *glimpse, f soakFact, held bool, newest uint32, latest int64) (stalled bool, err error) {
	wrong := func(what string) error {
		return fmt.Errorf("%s: key %d, generation %d, call from %d to %d ns; the ledger has generation %d to %d, deadline from %d to %d (now %d), unchanged meanwhile: %v, swept %d, %d before, %d after, horizon %d before",
			what, n, g.generation, g.from, g.until, f.stored, newest, f.earliest, f.latest, latest, held, f.swept, g.sweptA, g.sweptB, g.horizon)
	}
	switch g.saw {
	case sawNothing:
		return false, nil
	case sawMiss:
		if held && f.certain(g) {
			return false, wrong(g.op.String() + " missed a live entry")
		}
		return false, nil
	case sawValue:
		switch {
		case g.torn || g.number != n:
			return false, wrong(fmt.Sprintf("%s returned a wrong value, of key %d", g.op, g.number))
		case g.generation < f.stored:
			return false, wrong(g.op.String() + " returned an old value")
		case g.generation > newest:
			return false, wrong(g.op.String() + " returned a value that was not stored")
		}
	}
	switch {
	case g.from >= latest:
		// The one excuse: a coarse clock that has stood still for longer than its
		// slack, on a machine that kept timers waiting.
		if min(g.horizon, c.horizon()) < g.from && c.soak.witness.delay(g.until) > slack/4 {
			for late, most := g.from-latest, c.books.excused.Load(); late > most && !c.books.excused.CompareAndSwap(most, late); most = c.books.excused.Load() {
			}
			return true, nil
		}
		return false, wrong(fmt.Sprintf("%s found an entry that had left or expired %v before", g.op, time.Duration(g.from-latest)))
	case held && f.swept%2 == 0 && g.sweptA >= f.swept+2:
		return false, wrong(g.op.String() + " found an entry that Clear or DeleteFunc should have removed")
	}
	return false, nil
}

// --- a subject ---

// soaked is a subject: a cache under load.
type soaked[K, V comparable] struct {
	soak    *soaker
	options Options[K, V]
	coding  soakCoding[K, V]
	life    func(n uint64, generation uint32) time.Duration // that Set gives
	keeps   bool                                            // storing keeps the deadline of a live entry
	slide   soakSlide
	bytes   uint64 // of heap that an entry may take
	most    int64  // the bound at first, 0 for none

	cache   *Cache[K, V]
	offset  int64 // of the cache's instants
	lines   []soakLine
	swept   [soakClasses]atomic.Uint32 // counts beginnings and ends of sweeps
	events  [causes]atomic.Uint64
	lateAt  Histogram // lateness when the last audit ended
	phase   atomic.Pointer[soakPhase]
	gate    sync.RWMutex // held for reading by whoever uses the cache
	workers []*soakWorker[K, V]
	chief   *soakWorker[K, V] // what the conductor does
	books   soakAccount
}

// A soakSlide says how reads move deadlines; the zero one that they do not.
type soakSlide struct {
	ttl  time.Duration
	half bool // only when less than half of it remains
}

// A soakTally is what one worker has done to the present cache. Compute, CompareAndDelete
// and DeleteFunc remove what was live when they looked. If it has expired since, it counts
// as expired; so their removals are deleted only perhaps, unless the ledger knows better.
type soakTally struct {
	calls                                                   [soakOps]uint64
	judged, stalled, stored, deleted, perhaps, hits, misses uint64
}

func (t *soakTally) add(o *soakTally) {
	for i := range t.calls {
		t.calls[i] += o.calls[i]
	}
	t.judged += o.judged
	t.stalled += o.stalled
	t.stored += o.stored
	t.deleted += o.deleted
	t.perhaps += o.perhaps
	t.hits += o.hits
	t.misses += o.misses
}

// A soakAccount is what goes into the report.
type soakAccount struct {
	name     string
	tally    soakTally
	removed  [causes]uint64
	events   uint64
	sets     uint64
	refused  uint64
	caches   int
	storms   int
	largest  uint64 // storm
	slept    int    // idle phases at whose end the coarse clock was asleep
	late     Histogram
	behind   Histogram    // the coarse clock; the witness's
	period   Histogram    // of its refreshing, as the driver means it; likewise
	excused  atomic.Int64 // latest read that was excused, in nanoseconds after the deadline
	sweeps   uint64
	inspects uint64
}

// newSoaked returns a subject. The caller sets what else it has.
func newSoaked[K, V comparable](s *soaker, name string, coding soakCoding[K, V], o Options[K, V], told bool) *soaked[K, V] {
	c := &soaked[K, V]{soak: s, options: o, coding: coding, lines: make([]soakLine, s.lines), bytes: 400}
	c.books.name = name
	c.most = max(int64(o.MaxEntries), o.MaxCost)
	c.life = func(uint64, uint32) time.Duration { return cmp.Or(o.TTL, expiry.Never) }
	if told {
		c.options.OnRemoval = c.removed
	}
	for id := range soakWorkers + 1 {
		w := &soakWorker[K, V]{of: c, id: uint64(id), rng: rand.New(rand.NewPCG(s.seed, uint64(len(name))<<8|uint64(id)))}
		w.stamps = make([]uint32, s.lines/soakWorkers)
		c.workers = append(c.workers, w)
	}
	c.chief, c.workers = c.workers[soakWorkers], c.workers[:soakWorkers]
	c.phase.Store(&soakPhase{name: "start", pace: 20 * time.Millisecond})
	c.renew()
	return c
}

func (c *soaked[K, V]) account() *soakAccount { return &c.books }

func (c *soaked[K, V]) pause()  { c.gate.Lock() }
func (c *soaked[K, V]) resume() { c.gate.Unlock() }

func (c *soaked[K, V]) start() {
	for _, w := range c.workers {
		c.soak.spawn(w.work)
	}
	c.soak.spawn(c.conduct)
}

// renew makes a new cache. Nobody uses the old one.
func (c *soaked[K, V]) renew() {
	cache, err := New(c.options)
	require.NoError(c.soak.t, err)
	c.cache = cache
	c.offset = int64(cache.clock.epoch.Sub(c.soak.epoch))
	c.books.caches++
	c.lateAt = Histogram{}
	for i := range c.lines {
		c.lines[i].reset()
	}
	for i := range c.swept {
		c.swept[i].Store(0)
	}
	for i := range c.events {
		c.events[i].Store(0)
	}
}

// horizon returns the cache's, soakForever if the coarse clock is asleep.
func (c *soaked[K, V]) horizon() int64 {
	if h := c.cache.clock.horizon.Load(); h != asleep {
		return h + c.offset
	}
	return soakForever
}

// watchCoarse notes how far the coarse clock is behind, if there is one, and how far it
// will be when the driver wakes up. The witness does it.
func (c *soaked[K, V]) watchCoarse() {
	if !c.gate.TryRLock() {
		return
	}
	defer c.gate.RUnlock()
	coarse, awake := c.cache.clock.coarse()
	if !awake {
		return
	}
	count(&c.books.behind, time.Duration(max(c.cache.clock.now()-coarse, 0)), 1)
	if at := c.cache.driver.wakeAt.Load(); at != inRun {
		count(&c.books.period, time.Duration(max(at-coarse, 0)), 1)
	}
}

func (c *soaked[K, V]) entries() (n int, bytes uint64) {
	n = c.cache.Len()
	return n, uint64(n) * c.bytes
}

func (c *soaked[K, V]) describe() string {
	st := c.cache.Stats()
	return fmt.Sprintf("%s, phase %s, sets %d, expired %d, deleted %d, replaced %d, cleared %d, refused %d, entries %d, waiting %d, pending %d, missed ticks %d",
		c.books.name, c.phase.Load().name, st.Sets, st.Expired, st.Deleted, st.Replaced, st.Cleared, st.Refused, st.Entries, st.Waiting, st.Pending, st.MissedTicks)
}

func (c *soaked[K, V]) fail(err error) { c.soak.fail(c.describe(), err) }

// removed is OnRemoval.
func (c *soaked[K, V]) removed(r Removal[K, V]) {
	if err := c.judgeRemoval(r); err != nil {
		c.fail(fmt.Errorf("OnRemoval was told that key %v, value %v, was %v, with deadline %v, %v late: %w", r.Key, r.Value, r.Cause, r.Deadline.Sub(c.soak.epoch), r.Late, err))
	}
	c.events[r.Cause].Add(1)
}

func (c *soaked[K, V]) judgeRemoval(r Removal[K, V]) error {
	now := c.soak.now()
	n, generation, whole := c.coding.open(r.Value)
	deadline := int64(r.Deadline.Sub(c.soak.epoch))
	if r.Deadline.IsZero() {
		deadline = soakForever
	}
	switch {
	case !whole || n != c.coding.number(r.Key):
		return errors.New("the value is not of that key")
	case r.Cause < Expired || r.Cause >= causes || r.Cause == Evicted && c.most == 0:
		return errors.New("nothing should be removed for that cause")
	case r.Cause == Expired && (now < deadline || r.Late < 0 || int64(r.Late) > now-deadline):
		return fmt.Errorf("it is %v now", time.Duration(now))
	case r.Cause != Expired && r.Late != 0:
		return errors.New("it is late, but did not expire")
	case n < soakHot:
		return nil
	}
	l := &c.lines[n]
	f, version := l.fact()
	if last := l.reported.Swap(generation); last >= generation {
		return fmt.Errorf("generation %d came after %d", generation, last)
	}
	if f.stored == generation && version%2 == 0 && r.Cause == Expired && (deadline < f.earliest || deadline > f.latest) {
		return fmt.Errorf("the ledger has the deadline from %d to %d ns", f.earliest, f.latest)
	}
	if v, ok := c.cache.Peek(r.Key); ok { // OnRemoval may use the cache
		if seen, newer, whole := c.coding.open(v); !whole || seen != n || newer <= generation {
			return fmt.Errorf("it is there still, or again: %v", v)
		}
	}
	return nil
}

// --- a worker ---

type soakOp uint8

// The order is that of the report.
const (
	soakGet soakOp = iota
	soakPeek
	soakEntry
	soakSet
	soakSetTTL
	soakSetDeadline
	soakReplace
	soakGetOrSet
	soakMove
	soakTouch
	soakDelete
	soakGetAndDelete
	soakCompute
	soakCompareAndSwap
	soakCompareAndDelete
	soakAll
	soakKeys
	soakExpiring
	soakDeleteFunc
	soakClear
	soakFlush
	soakLen
	soakStats
	soakResize
	soakOnHot // several

	soakOps
)

func (o soakOp) String() string {
	return [...]string{
		"Get", "Peek", "Entry", "Set", "SetTTL", "SetDeadline", "Replace", "GetOrSet", "Move", "Touch", "Delete", "GetAndDelete",
		"Compute", "CompareAndSwap", "CompareAndDelete", "All", "Keys", "Expiring", "DeleteFunc", "Clear", "Flush", "Len", "Stats", "Resize", "on hot keys",
	}[o]
}

type soakWorker[K, V comparable] struct {
	of  *soaked[K, V]
	id  uint64
	rng *rand.Rand
	soakTally

	phase  *soakPhase
	cursor uint64 // next key of a walk
	dates  [16]soakDate
	stamps []uint32 // of own keys: the last iteration that saw each
	stamp  uint32
}

// A soakDate is the last moment at which an entry may be seen, unless it is changed.
type soakDate struct {
	n       uint64
	version uint32
	at      int64
}

// work does operations as the phase says, until the end.
func (w *soakWorker[K, V]) work() {
	c := w.of
	for !c.soak.over.Load() {
		p := c.phase.Load()
		if w.phase != p {
			w.phase, w.cursor = p, w.id+soakHot
		}
		c.gate.RLock()
		if p.batch > 0 {
			w.keepDate()
		}
		for i := 0; i < p.batch && c.phase.Load() == p && !c.soak.over.Load(); i++ {
			w.step(p)
		}
		c.gate.RUnlock()
		if p.pace > 0 {
			time.Sleep(p.pace)
		}
	}
}

func (w *soakWorker[K, V]) step(p *soakPhase) {
	c := w.of
	if p.walks && w.cursor < uint64(len(c.lines)) && (p.deadline == 0 || c.soak.now() < p.deadline-int64(20*time.Millisecond)) {
		w.change(w.cursor, p.walk, p)
		w.cursor += soakWorkers
		return
	}
	n := soakHot + w.rng.Uint64N(min(uint64(p.keys), uint64(len(c.lines)-soakHot)))
	o := p.mix[w.rng.IntN(len(p.mix))]
	switch o {
	case soakGet:
		if c.slide.ttl == 0 {
			w.observe(n, o)
			return
		}
	case soakPeek, soakEntry:
		w.observe(n, o)
		return
	case soakAll, soakKeys, soakExpiring:
		w.iterate(o)
		return
	case soakLen, soakStats, soakFlush:
		w.calls[o]++
		switch o {
		case soakLen:
			c.cache.Len()
		case soakStats:
			c.cache.Stats()
		default:
			c.cache.Flush()
		}
		return
	case soakOnHot:
		w.heat()
		return
	}
	w.change(n-n%soakWorkers+w.id, o, p)
}

// glimpse returns what is known before a call.
func (c *soaked[K, V]) glimpse(n uint64, o soakOp) glimpse {
	g := glimpse{op: o, sweptA: c.swept[n%soakClasses].Load(), horizon: c.horizon(), evicts: c.most > 0}
	g.from = c.soak.now()
	return g
}

// done adds what is known after it.
func (c *soaked[K, V]) done(n uint64, g *glimpse) {
	g.until = c.soak.now()
	g.sweptB = c.swept[n%soakClasses].Load()
}

func (c *soaked[K, V]) see(g *glimpse, v V, ok bool) bool {
	g.saw = sawMiss
	if ok {
		whole := false
		g.saw = sawValue
		g.number, g.generation, whole = c.coding.open(v)
		g.torn = !whole
	}
	return ok
}

func (g *glimpse) find(ok bool) bool {
	g.saw = sawMiss
	if ok {
		g.saw = sawEntry
	}
	return ok
}

func (w *soakWorker[K, V]) judge(n uint64, g *glimpse, f soakFact, held bool, newest uint32, latest int64) {
	stalled, err := w.of.judge(n, g, f, held, newest, latest)
	if err != nil {
		w.of.fail(err)
	}
	w.judged++
	if stalled {
		w.stalled++
	}
}

// observe reads a key, whoever owns it.
func (w *soakWorker[K, V]) observe(n uint64, o soakOp) {
	c := w.of
	w.calls[o]++
	l, key := &c.lines[n], c.coding.key(n)
	f, version := l.fact()
	g := c.glimpse(n, o)
	var e Entry[K, V]
	var ok bool
	switch o {
	case soakGet:
		e.Value, ok = c.cache.Get(key)
		w.lookedUp(ok)
	case soakEntry:
		e, ok = c.cache.Entry(key)
	default:
		e.Value, ok = c.cache.Peek(key)
	}
	c.done(n, &g)
	c.see(&g, e.Value, ok)
	// The latest deadline is loaded after the call. If the key was changed meanwhile, it is
	// that of the new entry, and later than the moment at which the old one was seen.
	latest, changed := l.latest.Load(), l.version.Load()
	held := version == changed && version%2 == 0
	w.judge(n, &g, f, held, l.stored.Load()+changed%2, latest)
	if ok && o == soakEntry {
		if err := c.judgeEntry(&g, e, f, held); err != nil {
			c.fail(err)
		}
	}
}

func (c *soaked[K, V]) judgeEntry(g *glimpse, e Entry[K, V], f soakFact, held bool) error {
	if e.Deadline.IsZero() != (e.TTL == expiry.Never) {
		return fmt.Errorf("Entry: deadline %v, TTL %v", e.Deadline, e.TTL)
	}
	deadline := int64(soakForever)
	if !e.Deadline.IsZero() {
		deadline = int64(e.Deadline.Sub(c.soak.epoch))
		if ttl := int64(e.TTL); ttl > deadline-g.from || ttl < max(deadline-g.until, 0) {
			return fmt.Errorf("Entry: deadline at %d ns, TTL %d, call from %d to %d", deadline, ttl, g.from, g.until)
		}
	}
	if held && (deadline < f.earliest || deadline > f.latest) {
		return fmt.Errorf("Entry: key %v has the deadline %d; the ledger has it from %d to %d", e.Key, deadline, f.earliest, f.latest)
	}
	return nil
}

func (w *soakWorker[K, V]) lookedUp(hit bool) {
	if hit {
		w.hits++
	} else {
		w.misses++
	}
}

// change does an operation to an own key, and keeps the ledger.
func (w *soakWorker[K, V]) change(n uint64, o soakOp, p *soakPhase) {
	c := w.of
	w.calls[o]++
	l := &c.lines[n]
	f, _ := l.fact()
	l.begin()
	g := c.glimpse(n, o)
	e := w.apply(n, f.stored, &g, p)
	c.done(n, &g)
	w.judge(n, &g, f, true, f.stored, f.latest)
	if e.kind == effectRemoved && (o == soakCompute || o == soakCompareAndDelete) {
		if f.certain(&g) {
			w.deleted++
		} else {
			w.perhaps++
		}
	}
	f = c.after(f, &g, e)
	l.end(f)
	if soon := f.latest - g.until; soon > 0 && soon < int64(4*time.Second) && w.rng.IntN(8) == 0 {
		w.dates[w.rng.IntN(len(w.dates))] = soakDate{n, l.version.Load(), f.latest}
	}
}

// apply calls the cache for change. The key has a value of a generation, if any.
func (w *soakWorker[K, V]) apply(n uint64, generation uint32, g *glimpse, p *soakPhase) soakEffect {
	c, cache := w.of, w.of.cache
	key := c.coding.key(n)
	value := func() V { return c.coding.value(n, generation+1) }
	given := func() time.Duration { return c.life(n, generation+1) }
	effect := func(done bool, kind effectKind) soakEffect {
		if done {
			return soakEffect{kind: kind}
		}
		return soakEffect{}
	}
	stored := func(done bool, e soakEffect) soakEffect {
		if !done {
			return soakEffect{}
		}
		w.stored++
		return e
	}
	deleted := func(done bool) soakEffect {
		if done {
			w.deleted++
		}
		return effect(done, effectRemoved)
	}
	switch g.op {
	case soakGet:
		v, ok := cache.Get(key)
		w.lookedUp(ok)
		return effect(c.see(g, v, ok), effectSlid)
	case soakSet:
		cache.Set(key, value())
		return stored(true, soakEffect{kind: effectStored, ttl: given(), keeps: c.keeps})
	case soakSetTTL:
		ttl := p.lifetime(w.rng)
		cache.SetTTL(key, value(), ttl)
		return stored(true, soakEffect{kind: effectStored, ttl: ttl})
	case soakSetDeadline:
		at := cmp.Or(p.deadline, g.from+int64(mixedTTL(w.rng)))
		cache.SetDeadline(key, value(), c.soak.epoch.Add(time.Duration(at)))
		if p.deadline != 0 {
			p.planted.Add(1)
		}
		return stored(true, soakEffect{kind: effectStoredUntil, at: at})
	case soakReplace:
		old, ok := cache.Replace(key, value())
		return stored(c.see(g, old, ok), soakEffect{kind: effectReplaced})
	case soakGetOrSet:
		v, loaded := cache.GetOrSet(key, value())
		w.lookedUp(loaded)
		if c.see(g, v, loaded) {
			return soakEffect{kind: effectSlid}
		}
		return stored(true, soakEffect{kind: effectStored, ttl: given()})
	case soakMove:
		ttl := p.lifetime(w.rng)
		if !g.find(cache.Move(key, ttl)) {
			return soakEffect{}
		}
		return soakEffect{kind: effectMoved, ttl: ttl}
	case soakTouch:
		if !g.find(cache.Touch(key)) {
			return soakEffect{}
		}
		return soakEffect{kind: effectMoved, ttl: c.life(n, generation)}
	case soakDelete:
		return deleted(g.find(cache.Delete(key)))
	case soakGetAndDelete:
		v, ok := cache.GetAndDelete(key)
		return deleted(c.see(g, v, ok))
	case soakCompute:
		op := Op(w.rng.IntN(3))
		cache.Compute(key, func(old V, ok bool) (V, Op) {
			c.see(g, old, ok)
			return value(), op
		})
		switch {
		case op == OpStore:
			return stored(true, soakEffect{kind: effectStored, ttl: given(), keeps: c.keeps})
		case op == OpRemove:
			return effect(g.saw == sawValue, effectRemoved)
		}
	case soakCompareAndSwap:
		if old, ok := cache.Peek(key); c.see(g, old, ok) {
			return stored(g.find(CompareAndSwap(cache, key, old, value())), soakEffect{kind: effectReplaced})
		}
	case soakCompareAndDelete:
		if old, ok := cache.Peek(key); c.see(g, old, ok) {
			return effect(g.find(CompareAndDelete(cache, key, old)), effectRemoved)
		}
	}
	return soakEffect{}
}

// heat changes a key that others change too. Such a key has no ledger; its values
// and what is counted are all that is checked.
func (w *soakWorker[K, V]) heat() {
	c, cache := w.of, w.of.cache
	w.calls[soakOnHot]++
	n := w.rng.Uint64N(soakHot)
	key, value := c.coding.key(n), c.coding.value(n, w.rng.Uint32())
	var g glimpse
	switch w.rng.IntN(9) {
	case 0:
		cache.Set(key, value)
		w.stored++
	case 1:
		cache.SetTTL(key, value, mixedTTL(w.rng))
		w.stored++
	case 2:
		cache.Move(key, mixedTTL(w.rng))
	case 3:
		if cache.Delete(key) {
			w.deleted++
		}
	case 4:
		v, loaded := cache.GetOrSet(key, value)
		w.lookedUp(c.see(&g, v, loaded))
		if !loaded {
			w.stored++
		}
	case 5:
		cache.Compute(key, func(old V, ok bool) (V, Op) {
			c.see(&g, old, ok)
			return value, OpStore
		})
		w.stored++
	default:
		v, ok := cache.Get(key)
		w.lookedUp(c.see(&g, v, ok))
	}
	if g.saw == sawValue {
		w.judged++
		if g.torn || g.number != n {
			c.fail(fmt.Errorf("hot key %d has a wrong value, of key %d", n, g.number))
		}
	}
}

// keepDate looks at an entry at the very moment of its deadline, if one is near.
func (w *soakWorker[K, V]) keepDate() {
	const early, wait = int64(time.Millisecond), int64(6 * time.Millisecond)
	c, now := w.of, w.of.soak.now()
	for i, d := range w.dates {
		if d.at < now || d.at > now+wait || c.lines[d.n].version.Load() != d.version {
			continue
		}
		w.dates[i] = soakDate{}
		time.Sleep(time.Duration(d.at - early - now))
		for c.soak.now() < d.at+early/4 {
			w.observe(d.n, soakPeek)
		}
		return
	}
}

// iterate goes through the cache. Nobody else changes the worker's own keys, so each
// that is live throughout has to come exactly once.
func (w *soakWorker[K, V]) iterate(o soakOp) {
	c := w.of
	w.calls[o]++
	w.stamp++
	g := glimpse{op: o, horizon: c.horizon(), evicts: c.most > 0}
	var before [soakClasses]uint32
	for i := range before {
		before[i] = c.swept[i].Load()
	}
	within := expiry.Never
	if o == soakExpiring {
		within = time.Duration(w.rng.Int64N(int64(2 * time.Second)))
	}
	start := c.soak.now()
	g.from = start
	visit := func(key K, see func(g *glimpse)) bool {
		n := c.coding.number(key)
		g.number, g.torn, g.until = n, false, c.soak.now()
		see(&g)
		if g.torn || g.number != n {
			c.fail(fmt.Errorf("%s: key %v came with a wrong value, of key %d", o, key, g.number))
		}
		if n >= soakHot && n%soakWorkers == w.id {
			f, _ := c.lines[n].fact()
			g.sweptA, g.sweptB = before[n%soakClasses], c.swept[n%soakClasses].Load()
			w.judge(n, &g, f, true, f.stored, f.latest)
			if f.earliest != soakNever && within != expiry.Never && f.earliest-g.until > int64(within) {
				c.fail(fmt.Errorf("Expiring(%v): key %d expires at %d ns at the earliest, and it is %d", within, n, f.earliest, g.until))
			}
			if w.stamps[n/soakWorkers] == w.stamp {
				c.fail(fmt.Errorf("%s: key %d came twice", o, n))
			}
			w.stamps[n/soakWorkers] = w.stamp
		}
		g.from = c.soak.now()
		return !c.soak.over.Load()
	}
	switch o {
	case soakKeys:
		for k := range c.cache.Keys() {
			if !visit(k, func(g *glimpse) { g.saw = sawEntry }) {
				return
			}
		}
	default:
		all := c.cache.All()
		if o == soakExpiring {
			all = c.cache.Expiring(within)
		}
		for k, v := range all {
			if !visit(k, func(g *glimpse) { c.see(g, v, true) }) {
				return
			}
		}
	}
	end := c.soak.now()
	for n := w.id + soakHot; n < uint64(len(c.lines)); n += soakWorkers {
		f, _ := c.lines[n].fact()
		g := glimpse{evicts: c.most > 0, from: start, until: end, sweptA: before[n%soakClasses], sweptB: c.swept[n%soakClasses].Load()}
		if !f.certain(&g) || within != expiry.Never && (f.latest == soakForever || f.latest-start > int64(within)) {
			continue
		}
		w.judged++
		if w.stamps[n/soakWorkers] != w.stamp {
			c.fail(fmt.Errorf("%s from %d to %d ns left out key %d: the ledger has the deadline from %d to %d", o, start, end, n, f.earliest, f.latest))
		}
	}
}

// --- the conductor ---

// A soakPhase is what the workers of a subject do for a while: first each walks over
// its keys, if there is something to do to each; then they choose from a mix.
type soakPhase struct {
	name  string
	lasts time.Duration // from half of it to one and a half
	pace  time.Duration // pause after a batch: 0 saturates
	batch int           // operations, 0 for none
	keys  int           // from which the mix takes
	mix   []soakOp
	walks bool
	walk  soakOp
	ttl   func(*rand.Rand) time.Duration // of SetTTL and Move, mixedTTL if nil
	full  bool                           // it may fill the cache
	kind  soakAct

	deadline int64         // of all that a storm plants
	planted  atomic.Uint64 // how many
}

// A soakAct is what the conductor does in a phase.
type soakAct uint8

const (
	actWait soakAct = iota
	actStorm
	actIdle
	actClear
	actDeleteFunc
	actFlush
	actResize
	actReopen
)

// mixture is one of each, with reads and stores more often.
var mixture = slices.Concat(
	slices.Repeat([]soakOp{soakGet}, 30), slices.Repeat([]soakOp{soakPeek, soakEntry}, 5),
	slices.Repeat([]soakOp{soakSet, soakSetTTL}, 8),
	[]soakOp{soakSetDeadline, soakReplace, soakGetOrSet, soakMove, soakTouch, soakDelete, soakGetAndDelete, soakCompute, soakCompareAndSwap, soakCompareAndDelete},
	[]soakOp{soakSetDeadline, soakGetOrSet, soakMove, soakOnHot, soakOnHot, soakOnHot})

var (
	reading = slices.Concat(slices.Repeat([]soakOp{soakGet, soakPeek}, 10), []soakOp{soakEntry, soakOnHot})
	looking = slices.Concat(mixture, slices.Repeat([]soakOp{soakAll, soakKeys, soakExpiring, soakLen, soakStats, soakFlush}, 2))
)

// soakDeck returns each phase once.
func soakDeck() []*soakPhase {
	return []*soakPhase{
		{name: "calm", lasts: 1500 * time.Millisecond, pace: 4 * time.Millisecond, batch: 32, keys: 2000, mix: mixture},
		{name: "rush", lasts: 800 * time.Millisecond, batch: 64, keys: 20_000, mix: mixture},
		{name: "few keys", lasts: 500 * time.Millisecond, batch: 64, keys: 60, mix: mixture},
		{name: "growth", lasts: time.Second, batch: 64, keys: math.MaxInt32, mix: mixture, walks: true, walk: soakSetTTL, ttl: longTTL, full: true},
		{name: "storm", pace: time.Millisecond, batch: 256, keys: math.MaxInt32, mix: reading, walks: true, walk: soakSetDeadline, full: true, kind: actStorm},
		{name: "deleting", lasts: 600 * time.Millisecond, batch: 64, keys: 20_000, mix: reading, walks: true, walk: soakDelete},
		{name: "clearing", lasts: 500 * time.Millisecond, pace: time.Millisecond, batch: 64, keys: 5000, mix: mixture, kind: actClear},
		{name: "sweeping", lasts: 500 * time.Millisecond, pace: time.Millisecond, batch: 64, keys: 5000, mix: mixture, kind: actDeleteFunc},
		{name: "looking around", lasts: time.Second, pace: 4 * time.Millisecond, batch: 16, keys: 5000, mix: looking},
		{name: "flushing", lasts: 500 * time.Millisecond, pace: time.Millisecond, batch: 64, keys: 5000, mix: mixture, kind: actFlush},
		{name: "idle", lasts: 1500 * time.Millisecond, pace: 20 * time.Millisecond, kind: actIdle},
		{name: "resizing", lasts: 500 * time.Millisecond, pace: time.Millisecond, batch: 64, keys: 5000, mix: mixture, kind: actResize},
		{name: "reopening", pace: time.Millisecond, batch: 16, keys: 1, mix: []soakOp{soakOnHot}, kind: actReopen},
	}
}

// mixedTTL is of milliseconds mostly and of hours at times: each factor of four is half
// as likely. A few are none, or for ever.
func mixedTTL(r *rand.Rand) time.Duration {
	switch r.IntN(64) {
	case 0:
		return time.Duration(-r.IntN(2))
	case 1:
		return expiry.Never
	}
	u := max(1-r.Float64(), 1e-4)
	return time.Duration(float64(2*time.Millisecond) / (u * u))
}

func longTTL(r *rand.Rand) time.Duration {
	return 300*time.Millisecond + time.Duration(r.Int64N(int64(8*time.Second)))
}

func (p *soakPhase) lifetime(r *rand.Rand) time.Duration {
	if p.ttl != nil {
		return p.ttl(r)
	}
	return mixedTTL(r)
}

// conduct goes from phase to phase until the end.
func (c *soaked[K, V]) conduct() {
	for {
		deck := soakDeck()
		c.chief.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for _, p := range deck {
			if !c.enter(p) {
				return
			}
		}
	}
}

// enter goes through one phase, and reports whether the soak goes on.
func (c *soaked[K, V]) enter(p *soakPhase) bool {
	if p.full { // not everybody at once
		select {
		case c.soak.crowd <- struct{}{}:
			defer func() { <-c.soak.crowd }()
		case <-c.soak.ended:
			return false
		}
	}
	lasts := p.lasts/2 + time.Duration(c.chief.rng.Int64N(int64(p.lasts)+1))
	if p.kind == actStorm {
		p.deadline = c.soak.now() + int64(c.soak.storm)
		lasts = c.soak.storm + 300*time.Millisecond
	}
	c.phase.Store(p)
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		if !c.soak.pause(min(time.Until(end), 50*time.Millisecond)) {
			return false
		}
		c.act(p.kind)
	}
	switch p.kind {
	case actStorm:
		c.books.storms++
		c.books.largest = max(c.books.largest, p.planted.Load())
	case actIdle:
		return c.fallAsleep()
	case actReopen:
		return c.reopen()
	}
	return true
}

// act does what the conductor does again and again in a phase.
func (c *soaked[K, V]) act(kind soakAct) {
	c.gate.RLock()
	defer c.gate.RUnlock()
	w := c.chief
	switch kind {
	case actClear:
		if w.rng.IntN(4) > 0 {
			return
		}
		w.calls[soakClear]++
		c.sweep(func(int) bool { return true }, func() { c.cache.Clear() })
	case actDeleteFunc:
		w.calls[soakDeleteFunc]++
		class := w.rng.IntN(soakClasses)
		c.sweep(func(i int) bool { return i == class }, func() {
			w.perhaps += uint64(c.cache.DeleteFunc(func(k K, v V) bool {
				n, _, whole := c.coding.open(v)
				if !whole || n != c.coding.number(k) {
					c.fail(fmt.Errorf("DeleteFunc showed key %v with a wrong value, of key %d", k, n))
				}
				return n%soakClasses == uint64(class)
			}))
		})
	case actFlush:
		w.calls[soakFlush]++
		c.cache.Flush()
	case actResize:
		w.calls[soakResize]++
		if err := c.cache.Resize(1 + w.rng.Int64N(2*c.most+1)); (err != nil) != (c.most == 0) {
			c.fail(fmt.Errorf("Resize: %w", err))
		}
	}
}

// sweep removes all entries of some classes.
func (c *soaked[K, V]) sweep(of func(class int) bool, remove func()) {
	for range 2 {
		for i := range c.swept {
			if of(i) {
				c.swept[i].Add(1)
			}
		}
		if remove != nil {
			remove()
		}
		remove = nil
	}
	c.books.sweeps++
}

// fallAsleep waits until the coarse clock of an idle cache has fallen asleep.
func (c *soaked[K, V]) fallAsleep() bool {
	for range 100 {
		c.gate.RLock()
		awake := c.cache.CoarseClockAwake()
		c.gate.RUnlock()
		if !awake {
			c.books.slept++
			return true
		}
		if !c.soak.pause(50 * time.Millisecond) {
			return false
		}
	}
	c.fail(errors.New("the coarse clock stays awake though nobody uses the cache"))
	return false
}

// reopen closes the cache while workers store, and makes another.
func (c *soaked[K, V]) reopen() bool {
	c.pause() // lets what began before this phase come to its end
	c.resume()
	c.gate.RLock()
	c.addLateness()
	err := c.shut()
	c.gate.RUnlock()
	if err != nil {
		c.fail(err)
	}
	if !c.soak.pause(5 * time.Millisecond) {
		return false
	}
	c.pause()
	defer c.resume()
	if err := c.retire(); err != nil {
		c.fail(err)
		return false
	}
	c.renew()
	return true
}

// --- the auditor ---

// The auditor's functions are called while the subject stands still.

// reclaimWithin is how long an expired entry may stay on a machine that is not late.
const reclaimWithin = 2 * time.Second

// audit checks everything that can be checked at a standstill.
func (c *soaked[K, V]) audit() error {
	c.addLateness()
	now := c.soak.now()
	behind := c.cache.removals != nil && c.cache.removals.stalled.Load() // OnRemoval is; expiry waits for it
	if due := c.cache.earliest(); due != expiry.NoDeadline && !behind && !c.cache.closed.Load() {
		if overdue, most := time.Duration(now-due-c.offset), reclaimWithin+4*c.soak.witness.delay(now); overdue > most {
			return fmt.Errorf("entries that expired %v ago have not been reclaimed; at most %v is right", overdue, most)
		}
	}
	if err := c.whileFrozen(); err != nil {
		return err
	}
	err := c.inspect()
	c.lateAt = c.cache.Stats().Lateness
	return err
}

// whileFrozen checks what the driver would change. It must not take reads: the coarse
// clock stands still too.
func (c *soaked[K, V]) whileFrozen() error {
	c.cache.FreezeDriver()
	defer c.cache.ThawDriver()
	c.cache.Flush()
	return cmp.Or(c.checkStructure(), c.checkBooks())
}

// addLateness adds how late entries were reclaimed since the last audit. What expired
// during one does not count, because shards are locked for long then.
func (c *soaked[K, V]) addLateness() {
	h := c.cache.Stats().Lateness
	for i, n := range h.Counts {
		if n -= c.lateAt.Counts[i]; n > 0 {
			count(&c.books.late, min(BucketBound(i), h.Max), n)
		}
	}
	c.lateAt = h
}

// checkStructure is check, with an error instead of a failure.
func (c *soaked[K, V]) checkStructure() (err error) {
	t := &soakCatcher{TB: c.soak.t}
	defer func() {
		if r := recover(); r == t {
			err = errors.New(t.said)
		} else if r != nil {
			panic(r)
		}
	}()
	check(t, c.cache)
	return nil
}

// A soakCatcher keeps a failure to itself.
type soakCatcher struct {
	testing.TB
	said string
}

func (t *soakCatcher) Errorf(format string, args ...any) { t.said += fmt.Sprintf(format, args...) }
func (t *soakCatcher) FailNow()                          { panic(t) }

// tally returns what has been done to the present cache.
func (c *soaked[K, V]) tally() (sum soakTally) {
	sum.add(&c.chief.soakTally)
	for _, w := range c.workers {
		sum.add(&w.soakTally)
	}
	return sum
}

// checkBooks compares what the cache has counted with itself, with what has been done
// and with what OnRemoval has been told. All events have been delivered.
func (c *soaked[K, V]) checkBooks() error {
	st, done := c.cache.Stats(), c.tally()
	evictable, most := st.Evicted, int64(0)
	if c.most == 0 {
		evictable = 0
	} else {
		most = c.cache.bound.most.Load()
	}
	removed := [causes]uint64{Expired: st.Expired, Evicted: st.Evicted, Deleted: st.Deleted, Replaced: st.Replaced, Cleared: st.Cleared}
	left, told := uint64(0), uint64(0)
	for cause, n := range removed {
		left += n
		events := c.events[cause].Load()
		told += events
		if c.options.OnRemoval != nil && events != n {
			return fmt.Errorf("%d entries were %v, OnRemoval was told of %d", n, Cause(cause), events)
		}
	}
	for _, b := range []struct {
		what      string
		got, want uint64
	}{
		{"Sets + Refused, and values stored", st.Sets + st.Refused, done.stored},
		{"Sets, and Entries + removed", st.Sets, uint64(st.Entries) + left},
		{"Deleted, and what deletes answered", min(max(st.Deleted, done.deleted), done.deleted+done.perhaps), st.Deleted},
		{"Hits, and what Get answered", st.Hits, done.hits},
		{"Misses, and what Get answered", st.Misses, done.misses},
		{"Evicted, and what may be", st.Evicted, evictable},
		{"Cost, and the part of it within the bound", uint64(st.Cost), uint64(min(st.Cost, most))},
		{"Lateness.Count, and Expired", st.Lateness.Count, st.Expired},
		{"Entries, and Len", uint64(st.Entries), uint64(c.cache.Len())},
		{"Pending", uint64(st.Pending), 0},
		{"CallbackPanics", st.CallbackPanics, 0},
	} {
		if b.got != b.want {
			return fmt.Errorf("%s: %d and %d", b.what, b.got, b.want)
		}
	}
	return nil
}

// inspect looks at each key of the ledger that has ever been stored, and at the hot ones.
func (c *soaked[K, V]) inspect() error {
	for i := range c.lines {
		n := uint64(i)
		if i >= soakHot && c.lines[n].stored.Load() == 0 {
			continue
		}
		c.books.inspects++
		g := c.glimpse(n, soakPeek)
		v, ok := c.cache.Peek(c.coding.key(n))
		c.done(n, &g)
		c.see(&g, v, ok)
		if i >= soakHot {
			f, _ := c.lines[n].fact()
			stalled, err := c.judge(n, &g, f, true, f.stored, f.latest)
			if err != nil {
				return err
			}
			if stalled {
				c.chief.stalled++
			}
			c.chief.judged++
		}
	}
	return nil
}

// empty removes all entries and checks that none is left.
func (c *soaked[K, V]) empty() error {
	c.chief.calls[soakClear]++
	c.sweep(func(int) bool { return true }, func() { c.cache.Clear() })
	c.cache.Flush()
	if n := c.cache.Len(); n != 0 {
		return fmt.Errorf("%d entries after Clear", n)
	}
	return c.checkStructure()
}

// shut closes the cache. It may be in use.
func (c *soaked[K, V]) shut() error {
	pushed, told := uint64(0), uint64(0)
	if r := c.cache.removals; r != nil {
		pushed = r.pushed.Load()
	}
	c.cache.Close()
	if r := c.cache.removals; r != nil {
		told = r.done.Load()
	}
	if told < pushed {
		return fmt.Errorf("Close has returned, and OnRemoval has been told of %d of %d removals before it", told, pushed)
	}
	if c.cache.CoarseClockAwake() {
		return errors.New("the coarse clock is awake after Close")
	}
	return nil
}

// retire closes the cache, if that has not been done, and settles its account.
func (c *soaked[K, V]) retire() error {
	if err := c.shut(); err != nil {
		return err
	}
	if n := c.cache.Stats().Pending; n != 0 {
		return fmt.Errorf("%d removals are pending after Close", n)
	}
	// Reads go on and honour deadlines; removing goes on too, and is reported by whoever
	// does it. At last every value stored has left.
	if err := cmp.Or(c.inspect(), c.checkBooks(), c.empty(), c.checkBooks()); err != nil {
		return err
	}
	st, done, a := c.cache.Stats(), c.tally(), &c.books
	for cause, n := range [causes]uint64{Expired: st.Expired, Evicted: st.Evicted, Deleted: st.Deleted, Replaced: st.Replaced, Cleared: st.Cleared} {
		a.removed[cause] += n
		a.events += c.events[cause].Load()
	}
	a.sets += st.Sets
	a.refused += st.Refused
	a.tally.add(&done)
	c.chief.soakTally = soakTally{}
	for _, w := range c.workers {
		w.soakTally = soakTally{}
		w.dates = [len(w.dates)]soakDate{}
	}
	return nil
}

// --- what is soaked ---

// A soakCoding says how keys and values carry numbers, and generations. A value tells
// of which key and generation it is, and whether it is whole.
type soakCoding[K, V comparable] struct {
	key    func(n uint64) K
	number func(K) uint64
	value  func(n uint64, generation uint32) V
	open   func(V) (n uint64, generation uint32, whole bool)
}

func intNumber(k uint64) uint64 { return k }

func textKey(n uint64) string { return "key:" + strconv.FormatUint(n, 10) }

func textNumber(k string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(k, "key:"), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

func openWide(v wide) (n uint64, generation uint32, whole bool) {
	return v[0], uint32(v[1]), v[2] == ^v[0] && v[3] == v[0]^v[1]
}

func wideOf(n uint64, generation uint32) wide { return newWide(n, uint64(generation)) }

var (
	intsToInts = soakCoding[uint64, uint64]{
		intNumber, intNumber,
		func(n uint64, generation uint32) uint64 { return n<<32 | uint64(generation) },
		func(v uint64) (uint64, uint32, bool) { return v >> 32, uint32(v), true },
	}
	textToWide = soakCoding[string, wide]{textKey, textNumber, wideOf, openWide}
	intsToWide = soakCoding[uint64, wide]{intNumber, intNumber, wideOf, openWide}
	textToNote = soakCoding[string, *soakNote]{
		textKey, textNumber,
		func(n uint64, generation uint32) *soakNote { return &soakNote{n, generation, ^n} },
		func(v *soakNote) (uint64, uint32, bool) {
			if v == nil {
				return 0, 0, false
			}
			return v.n, v.generation, v.check == ^v.n
		},
	}
	pairsToTwins = soakCoding[soakPair, twin]{
		func(n uint64) soakPair { return soakPair{n, strconv.FormatUint(n%97, 36), int8(n)} },
		func(k soakPair) uint64 { return k.n },
		func(n uint64, generation uint32) twin {
			s := strconv.FormatUint(n<<32|uint64(generation), 36)
			return twin{s, s}
		},
		func(v twin) (uint64, uint32, bool) {
			x, err := strconv.ParseUint(v.a, 36, 64)
			return x >> 32, uint32(x), err == nil && v.a == v.b
		},
	}
	intsToBoxed = soakCoding[uint64, soakBoxed]{
		intNumber, intNumber,
		func(n uint64, generation uint32) soakBoxed {
			return soakBoxed{n, uint64(generation), n ^ uint64(generation), n, ^n}
		},
		func(v soakBoxed) (uint64, uint32, bool) {
			return v[0], uint32(v[1]), v[2] == v[0]^v[1] && v[3] == v[0] && v[4] == ^v[0]
		},
	}
)

// A soakNote is a value by pointer.
type soakNote struct {
	n          uint64
	generation uint32
	check      uint64
}

// A soakPair is a key of several words, with padding.
type soakPair struct {
	n    uint64
	s    string
	last int8
}

// A soakBoxed is too large to be stored inline.
type soakBoxed [5]uint64

// renewing is a policy of the user's own: a read renews the lifetime when less than half of
// it remains, and storing keeps the deadline.
type renewing[K, V comparable] struct{ ttl time.Duration }

func (p renewing[K, V]) Create(K, V) time.Duration                              { return p.ttl }
func (p renewing[K, V]) Update(_ K, _ V, remaining time.Duration) time.Duration { return remaining }
func (p renewing[K, V]) Read(_ K, _ V, remaining time.Duration) time.Duration {
	if remaining < p.ttl/2 {
		return p.ttl
	}
	return remaining
}

// ttlOf is a lifetime by key and value, up to eight seconds. Some have none.
func ttlOf(n uint64, generation uint32) time.Duration {
	by := mix(n, uint64(generation), 1) % 64
	if by == 63 {
		return 0
	}
	return time.Millisecond << (by % 14)
}

func soakSubjects(s *soaker) []soakSubject {
	fixed := newSoaked(s, "string to pointer, TTL 3 s", textToNote, Options[string, *soakNote]{TTL: 3 * time.Second}, true)
	plain := newSoaked(s, "uint64 to uint64, mixed TTLs, nobody told", intsToInts, Options[uint64, uint64]{}, false)
	fine := newSoaked(s, "multi-word key and value, tick 1 ms", pairsToTwins, Options[soakPair, twin]{TTL: 50 * time.Millisecond, Tick: time.Millisecond}, true)
	exact := newSoaked(s, "uint64 to uint64, exact clock, 8 slots, 2 shards", intsToInts,
		Options[uint64, uint64]{TTL: 20 * time.Millisecond, ExactClock: true, Slots: 8, Shards: 2}, true)

	sliding := newSoaked(s, "string to 4 words, sliding 700 ms, nobody told", textToWide,
		Options[string, wide]{Expiry: expiry.AfterAccess[string, wide](700 * time.Millisecond)}, false)
	sliding.lives(700*time.Millisecond, soakSlide{ttl: 700 * time.Millisecond})
	long := newSoaked(s, "uint64 to 4 words, sliding 4 s", intsToWide,
		Options[uint64, wide]{Expiry: expiry.AfterAccess[uint64, wide](4 * time.Second)}, true)
	long.lives(4*time.Second, soakSlide{ttl: 4 * time.Second})

	renewed := newSoaked(s, "uint64 to boxed, policy of its own, 64 slots, tick 1 ms", intsToBoxed,
		Options[uint64, soakBoxed]{Expiry: renewing[uint64, soakBoxed]{time.Second}, Slots: 64, Tick: time.Millisecond}, true)
	renewed.lives(time.Second, soakSlide{ttl: time.Second, half: true})
	renewed.keeps = true

	byValue := newSoaked(s, "uint64 to 4 words, TTL by value", intsToWide,
		Options[uint64, wide]{Expiry: expiry.Func(func(n uint64, v wide) time.Duration { return ttlOf(n, uint32(v[1])) })}, true)
	byValue.life = ttlOf

	bounded := newSoaked(s, "string to pointer, TTL 3 s, at most 3,000 entries", textToNote, Options[string, *soakNote]{TTL: 3 * time.Second, MaxEntries: 3000}, true)
	// Of a hundred keys one is pinned; of a hundred values, one costs less than nothing and
	// one more than the bound.
	costly := newSoaked(s, "uint64 to 4 words, sliding 700 ms, at most a cost of 50,000", intsToWide,
		Options[uint64, wide]{
			Expiry: expiry.AfterAccess[uint64, wide](700 * time.Millisecond), MaxCost: 50_000,
			Cost: func(n uint64, v wide) int64 {
				switch by := mix(n, v[1], 1) % 100; {
				case n%100 == 99:
					return 0
				case by == 0:
					return -1
				case by == 1:
					return math.MaxInt64
				default:
					return int64(by)
				}
			},
		}, true)
	costly.lives(700*time.Millisecond, soakSlide{ttl: 700 * time.Millisecond})
	return []soakSubject{fixed, plain, fine, exact, sliding, long, renewed, byValue, bounded, costly}
}

func (c *soaked[K, V]) lives(ttl time.Duration, slide soakSlide) {
	c.life = func(uint64, uint32) time.Duration { return ttl }
	c.slide = slide
}

// --- the report ---

// report logs what has been done, as a Markdown document, and writes it to a file if asked to.
func (s *soaker) report() {
	var b strings.Builder
	var sum soakTally
	table := [][]string{{"cache", "made", "stored", "expired", "evicted", "deleted", "replaced", "cleared", "events", "refused", "storms", "largest", "late p50", "p99", "max", "coarse clock behind p90", "max", "late reads excused", "by at most"}}
	sets, removed, events, storms, slept, sweeps, inspects := uint64(0), uint64(0), uint64(0), 0, 0, uint64(0), uint64(0)
	for _, c := range s.subjects {
		a := c.account()
		sum.add(&a.tally)
		sets += a.sets
		events += a.events
		storms += a.storms
		slept += a.slept
		sweeps += a.sweeps
		inspects += a.inspects
		for _, n := range a.removed {
			removed += n
		}
		told := grouped(a.events)
		if a.events == 0 {
			told = "–"
		}
		table = append(table, []string{
			a.name, strconv.Itoa(a.caches - 1), grouped(a.sets), grouped(a.removed[Expired]), grouped(a.removed[Evicted]), grouped(a.removed[Deleted]), grouped(a.removed[Replaced]), grouped(a.removed[Cleared]),
			told, grouped(a.refused), strconv.Itoa(a.storms), grouped(a.largest),
			short(a.late.Quantile(0.5)), short(a.late.Quantile(0.99)), short(a.late.Max), short(a.behind.Quantile(0.9)), short(a.behind.Max), grouped(a.tally.stalled), short(time.Duration(a.excused.Load())),
		})
	}
	calls := uint64(0)
	kinds := [][]string{{"operation", "calls"}}
	for o, n := range sum.calls {
		calls += n
		kinds = append(kinds, []string{soakOp(o).String(), grouped(n)})
	}
	d := s.witness.delays
	fmt.Fprintf(&b, "# Soak: %v, findings: 0\n\n    %s\n\n%s\n\n", s.elapsed.Round(time.Second), soakCommand(s.seed), soakMachine())
	writeTable(&b, [][]string{
		{"", ""},
		{"operations", grouped(calls)},
		{"reads verified", grouped(sum.judged)},
		{"values stored, and removed", grouped(sets) + ", " + grouped(removed)},
		{"events verified", grouped(events)},
		{"storms of entries with one deadline", strconv.Itoa(storms)},
		{"sweeps by Clear or DeleteFunc", grouped(sweeps)},
		{"idle phases in which the coarse clock fell asleep", strconv.Itoa(slept)},
		{"audits of all caches, of these with all emptied and closed", fmt.Sprintf("%d, %d", s.audits, s.rounds)},
		{"keys compared with the ledger by audits", grouped(inspects)},
		{"most entries at an audit", grouped(uint64(s.entriesMax))},
		{"heap after collection: without entries, least, most", fmt.Sprintf("%d MB, %d MB, %d MB", s.baseline>>20, s.heapMin>>20, s.heapMax>>20)},
		{"heap from the system, most", fmt.Sprintf("%d MB", s.heapSys>>20)},
		{"a timer of 20 ms fired late by: p50, p90, p99, max", fmt.Sprintf("%s, %s, %s, %s", short(d.Quantile(0.5)), short(d.Quantile(0.9)), short(d.Quantile(0.99)), short(d.Max))},
		{"late reads excused by that", grouped(sum.stalled)},
	})
	b.WriteString("\nLateness is that of removals outside of audits, to a quarter. The coarse clock and the timer were asked 50 times a second.\n\n")
	writeTable(&b, table)
	b.WriteString("\n")
	writeTable(&b, kinds)
	s.t.Log("\n" + b.String())
	if *soakReport != "" {
		require.NoError(s.t, os.WriteFile(*soakReport, []byte(b.String()), 0o644))
	}
}

// writeTable writes rows, the first of which is the head, with columns aligned.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for r, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if i == 0 {
				fmt.Fprintf(b, "| %s%s |", cell, pad)
			} else {
				fmt.Fprintf(b, " %s%s |", pad, cell)
			}
		}
		b.WriteString("\n")
		if r == 0 {
			for i, w := range widths {
				if i == 0 {
					fmt.Fprintf(b, "|%s|", strings.Repeat("-", w+2))
				} else {
					fmt.Fprintf(b, "%s:|", strings.Repeat("-", w+1))
				}
			}
			b.WriteString("\n")
		}
	}
}

// grouped writes 1234567 as 1,234,567.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short is d with three digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// soakCommand returns what makes the same choices once more.
func soakCommand(seed uint64) string {
	race := ""
	if soakRace() {
		race = "-race "
	}
	return fmt.Sprintf("go test %s-run '^TestSoak$' -soak %v -soakseed %d -timeout 0 -v .", race, *soakTime, seed)
}

func soakMachine() string {
	cpu := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	return fmt.Sprintf("%s, %s/%s, %s, %d CPUs, GOMAXPROCS %d", runtime.Version(), runtime.GOOS, runtime.GOARCH, cpu, runtime.NumCPU(), runtime.GOMAXPROCS(0))
}

// soakRace reports whether the race detector is on.
func soakRace() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	settings := maps.Collect(func(yield func(k, v string) bool) {
		for _, s := range info.Settings {
			if !yield(s.Key, s.Value) {
				return
			}
		}
	})
	return settings["-race"] == "true"
}
