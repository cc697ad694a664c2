package wheelcache

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
	"github.com/wheelcache/wheelcache/wheel"
)

// A shard is one lock's worth of a cache: a table, the timing wheel of its
// entries, and what writers count. It is where the three meet; the table knows
// of no wheel, the wheel of no table.
//
// # Records
//
// The wheel's record for an entry is the low half of its hash; the tick that the
// record waits for stands in the entry's slot as well. So an entry and its
// record find each other without links:
//
//   - An entry with a deadline has a record, which waits for the deadline's tick
//     or an earlier one. slot.tick says for which. (In a bounded cache, others wait for
//     most of the entries that are new: see order.go.)
//   - A later deadline leaves the record where it is (lazy Move): when it comes
//     up, the wheel is told to let it wait on. An earlier deadline adds a record,
//     and slot.tick says that this is the one.
//   - A record that comes up and finds no slot with its hash and its tick belongs
//     to nothing: its entry was removed, or has a newer record. It is dropped
//     (lazy removal). One that finds another entry with the same hash and tick
//     stands in for that entry's record, which will find this one.
//
// Records without an entry are orphans; there are wheel.Len() - awaited() of them.
// When they are too many, the wheel is rebuilt without them, a few records with
// each write. That does not get rid of an orphan that has hash and tick of an entry
// that is there, as when a key is deleted and stored again until the same instant:
// it passes for that entry's record. Where a rebuild has left many, new records wait
// for one of some ticks before the deadline's, at random, so that the next
// rebuild can tell most orphans.
type shard[K comparable, V any] struct {
	table[K, V] // its first line is all that reads touch; count begins the second

	// What each write writes lies in one cache line, which passes from processor to
	// processor, so it is best if there is only one of them.
	mu      sync.Mutex
	sets    uint64
	removed [causes - 1]uint64 // by Cause-1

	cache *Cache[K, V]
	loads *loads[K, V] // nil until something is loaded
	wheel *shardWheel  // nil until the first entry with a deadline, unless many are expected
	next  atomic.Int64 // instant at which advance has something to do, or NoDeadline; the lock's holder writes

	parked atomic.Int32 // operations that wait for mu, and may have been parked: the driver yields to them

	_ [24]byte // so that shards begin where lines do; or, a few together, 8 bytes later
}

// A shardWheel is what a shard needs of time for entries with deadlines.
type shardWheel struct {
	wheel.Hashed
	timed   int   // entries with a record of their own: slot.tick != noTick
	peak    int   // most records since a rebuild; where that kept its memory, since the one before
	blurred bool  // new records of entries wait some ticks early, but for those that lines waited for
	now     int64 // during advance
	inLines int   // entries that were looked for because their lines had come up

	visit func(hash uint32, tick int64) (later int64) // shard.comeUp
	kept  func(hash uint32, tick int64) bool          // shard.hasEntry
}

const (
	firstSlots     = 8  // of a wheel that grows and shrinks
	recordsPerSlot = 64 // above it, a wheel grows
	mostSlots      = 1 << 14
	mostLines      = 4  // that come up one after the other
	fewRecords     = 64 // a wheel with no more is not rebuilt
	stepPerWrite   = 8  // records that each write moves during a rebuild

	lockSpins = 50_000 // about 50 µs; none where only one goroutine runs at a time
)

func (s *shard[K, V]) init(c *Cache[K, V], capacity int, phase float64, empty *directory) {
	s.limited = c.traits.MaxAge > 0
	if c.bound != nil {
		s.order, s.costed = &order{target: firstTarget, each: c.bound.each()}, c.bound.cost != nil
	}
	s.touched = uint8(max(0, touchedBits-bits.TrailingZeros(uint(len(c.shards)))))
	s.table.init(capacity, c.bound.entries(), phase, empty)
	s.cache = c
	s.plain = inline[K]() && inline[V]() && c.removals == nil && c.bound == nil && !s.limited
	s.next.Store(expiry.NoDeadline)
	// With a bound, most entries have no record.
	if c.sized > 0 && c.bound == nil && (c.policy != nil || c.ttl != expiry.Never) {
		s.newWheel(0) // the instant at which the cache is made; under injected clocks, the system's says nothing
		s.wheel.Reserve(scattered(c.sized))
	}
}

// lock takes the lock for one operation. Whoever has it, has it for a microsecond
// as a rule, and for some ten or twenty while he makes part of the table larger or smaller:
// less than it takes to park a goroutine and to wake it up again, which is what a mutex
// does soon. So the lock is tried for as long as that would take.
func (s *shard[K, V]) lock() {
	if !s.mu.TryLock() {
		s.lockBusy()
	}
}

func (s *shard[K, V]) lockBusy() {
	for range s.cache.lockSpins {
		if s.mu.TryLock() {
			return
		}
	}
	s.parked.Add(1)
	s.mu.Lock() // in turn, among those who have waited long
	s.parked.Add(-1)
}

// put stores value with a deadline that has not passed. It returns the instant
// at which the driver must be awake, NoDeadline if it need not.
func (s *shard[K, V]) put(hash uint32, key K, value V, b box, deadline, cost, now int64) (wake int64) {
	if s.order != nil && s.isLarge() {
		s.order.history.touch(hash) // where putNew will look, while find waits
	}
	if p, ok := s.find(hash, key); ok {
		return s.putAt(p, p.bucket.begin(), value, b, deadline, s.latest(now), cost, now)
	}
	return s.putNew(hash, key, value, b, deadline, cost, now)
}

// putNew stores a value for a key that is not there.
func (s *shard[K, V]) putNew(hash uint32, key K, value V, b box, deadline, cost, now int64) (wake int64) {
	if s.order != nil {
		s.makeWay(cost, now)
	}
	s.sets++
	latest := s.latest(now)
	deadline = min(deadline, latest)
	p := s.insert(hash, key, value, b, deadline, latest)
	line := uint32(0)
	if s.order != nil {
		line = s.arrive(p, cost)
	}
	if line != 0 {
		wake = s.waitInLine(line, p.slot, deadline, now)
	} else {
		wake = s.schedule(p.slot, deadline, now)
	}
	if s.order != nil {
		s.sweep()
	}
	s.tend()
	return wake
}

// putAt stores a value in place of the one at p, live or expired, whose bucket
// has been opened. latest is s.latest if the value begins a life. (write does the same
// where there is the least to do.)
func (s *shard[K, V]) putAt(p spot, opened uint32, value V, b box, deadline, latest, cost, now int64) (wake int64) {
	s.sets++
	deadline = min(deadline, latest)
	old := p.slot.deadline.Load()
	if old > s.cache.clock.horizon.Load() && s.cache.removals == nil {
		s.removed[Replaced-1]++ // live for certain, and nobody wants to know: report in short
	} else {
		s.report(p.slot, s.causeAt(p, Replaced, now), now)
	}
	s.overwrite(p, opened, value, b, deadline, latest)
	wake = expiry.NoDeadline
	if deadline < old || p.slot.tick == noTick { // or its record is early enough
		wake = s.schedule(p.slot, deadline, now)
		s.tend()
	}
	if s.order != nil {
		s.recost(p, cost)
		s.makeWay(0, now)
	}
	return wake
}

// moveAt gives the entry at p, whose bucket has been opened, another deadline.
func (s *shard[K, V]) moveAt(p spot, opened uint32, deadline, now int64) (wake int64) {
	deadline = min(deadline, s.latestOf(p.slot.hash, p.slot))
	p.slot.deadline.Store(deadline)
	p.bucket.end(opened)
	wake = s.schedule(p.slot, deadline, now)
	s.tend()
	return wake
}

// takeAt removes the entry at p, whose bucket has been opened. It reports
// whether the entry was live.
func (s *shard[K, V]) takeAt(p spot, opened uint32, cause Cause, now int64) bool {
	cause = s.causeAt(p, cause, now)
	s.report(p.slot, cause, now)
	if p.slot.tick != noTick {
		s.wheel.timed-- // the record becomes an orphan
	}
	if s.drop(p, opened) {
		s.reduceNow(p.slot.hash)
	}
	s.tend()
	return cause != Expired
}

// liveAt reports whether the entry at p, whose bucket has been opened, is live.
func (s *shard[K, V]) liveAt(p spot, now int64) bool {
	return !s.cache.clock.expired(p.slot.deadline.Load(), now)
}

// getLocked is sight for a reader that was disturbed too often.
func (s *shard[K, V]) getLocked(hash uint32, key K) (value V, deadline int64, at sighting, o outcome) {
	s.lock()
	defer s.mu.Unlock()
	p, ok := s.find(hash, key)
	if !ok {
		return value, 0, at, miss
	}
	opened := p.bucket.begin() // waits for a sliding reader; the next may be in before we look again
	at = sighting{p.bucket, p.slot, p.bucket.end(opened)}
	return peekValue[K, V](p.slot), p.slot.deadline.Load(), at, hit
}

// causeAt returns the cause of removing the entry at p: an expired entry
// expires, whatever the occasion.
func (s *shard[K, V]) causeAt(p spot, cause Cause, now int64) Cause {
	if s.liveAt(p, now) {
		return cause
	}
	return Expired
}

// report counts a removal, and makes its event if anyone wants to know.
func (s *shard[K, V]) report(slot *slotHead, cause Cause, now int64) {
	s.removed[cause-1]++
	if cause == Expired || s.cache.removals != nil {
		s.tell(slot, cause, now)
	}
}

func (s *shard[K, V]) tell(slot *slotHead, cause Cause, now int64) {
	deadline := slot.deadline.Load()
	var late time.Duration
	if cause == Expired {
		if now == unread {
			now = s.cache.clock.real()
		}
		late = max(expiry.Remaining(now, s.cache.due(deadline)), 0)
		s.cache.lateness.record(late)
	}
	if r := s.cache.removals; r != nil {
		r.push(event[K, V]{peekKey[K](slot), peekValue[K, V](slot), cause, deadline, late})
	}
}

// putGone is put for a value that leaves on arrival: because of its cost if that is
// less than 0, else because it is expired.
func (s *shard[K, V]) putGone(hash uint32, key K, value V, cost, now int64) {
	if p, ok := s.find(hash, key); ok {
		s.takeAt(p, p.bucket.begin(), Replaced, now)
	}
	s.arriveGone(key, value, cost, now)
}

// arriveGone reports a value that has left on arrival. It never was in the table; its
// deadline is the moment of the call.
func (s *shard[K, V]) arriveGone(key K, value V, cost, now int64) {
	if now == unread {
		now = s.cache.clock.real()
	}
	cause := Expired
	if cost < 0 {
		cause = Evicted
		s.cache.bound.refuse(cost)
	} else {
		s.cache.lateness.record(0)
	}
	s.sets++
	s.removed[cause-1]++
	if r := s.cache.removals; r != nil {
		r.push(event[K, V]{key, value, cause, now, 0})
	}
}

// schedule sees to it that a record waits for the deadline of an entry, or for
// an earlier tick. It returns the instant at which the driver must be awake,
// NoDeadline if nothing has changed for it.
func (s *shard[K, V]) schedule(slot *slotHead, deadline, now int64) (wake int64) {
	tick, ok := s.tickOf(deadline, now)
	if !ok {
		return expiry.NoDeadline // a record that waits will find that out
	}
	if s.wheel.blurred {
		early := int64(s.sets * 0x9e3779b97f4a7c15 >> 60) // 0 to 15 ticks, another for each
		if tick = s.wheel.Clamp(tick - early); uint32(tick) == noTick {
			tick++
		}
	}
	return s.awaitEntry(slot, tick)
}

// awaitEntry is await for an entry.
func (s *shard[K, V]) awaitEntry(slot *slotHead, tick int64) (wake int64) {
	return s.await(slot.hash, &slot.tick, &s.wheel.timed, tick)
}

// await adds a record to the wheel for what says in has which tick its record waits for,
// unless that is no later one. count is of those that have a record. It returns what schedule does.
func (s *shard[K, V]) await(record uint32, has *uint32, count *int, tick int64) (wake int64) {
	if *has == noTick {
		*count++
	} else if int32(uint32(tick)-*has) >= 0 {
		return expiry.NoDeadline
	}
	*has = uint32(tick)
	s.wheel.Add(record, tick)
	at := s.cache.instantOf(tick)
	if at >= s.next.Load() {
		return expiry.NoDeadline
	}
	s.next.Store(at)
	return at
}

// tickOf returns the tick that a new record for the deadline is to wait for, if any. It
// sees to it that there is a wheel.
func (s *shard[K, V]) tickOf(deadline, now int64) (tick int64, ok bool) {
	if deadline = s.cache.due(deadline); deadline == expiry.NoDeadline {
		return 0, false
	}
	if s.wheel == nil || s.wheel.Len() == 0 {
		s.newWheel(now)
	}
	return s.tickFor(deadline), true
}

// tickFor returns the tick that a record for the deadline waits for. It is
// rounded up, so that the deadline has passed when the tick comes; a deadline
// beyond the wheel's horizon is looked at again there.
func (s *shard[K, V]) tickFor(deadline int64) int64 {
	tick := s.wheel.Clamp(s.cache.tickAfter(deadline))
	if uint32(tick) == noTick { // once in 2^32 ticks
		if tick = s.wheel.Clamp(tick + 1); uint32(tick) == noTick {
			tick-- // at the horizon, where the deadline is looked at again
		}
	}
	return tick
}

// newWheel makes the wheel, or brings an empty one up to date: its cursor may
// have stayed behind, since the driver does not come by an empty wheel, and the
// horizon begins at the cursor.
func (s *shard[K, V]) newWheel(now int64) {
	if now == unread {
		now = s.cache.clock.real()
	}
	tick := s.cache.tickBefore(now)
	if s.wheel != nil {
		s.wheel.Advance(tick, 1, nil)
		return
	}
	s.wheel = &shardWheel{
		Hashed: *wheel.NewHashed(s.slotsFor(s.cache.sized), tick),
		visit:  s.comeUp,
		kept:   s.hasEntry,
	}
	s.wheel.Ahead(s.touchAll)
}

// slotsFor returns how many slots a wheel for n records has.
func (s *shard[K, V]) slotsFor(n int) int {
	if s.cache.slots > 0 {
		return s.cache.slots
	}
	return min(max(powerOfTwo(n/recordsPerSlot), firstSlots), mostSlots)
}

// advance expires entries that are due now, about limit of them, and reports
// whether more may be. It leaves those that are due within a tick that has not
// passed, unless no more than early wait in its slot. When none are left, it makes
// what has become sparse smaller, a step per call; until that is done, there is more.
func (s *shard[K, V]) advance(now int64, limit, early int) (more bool) {
	s.lock()
	defer s.mu.Unlock()
	return s.advanceLocked(now, limit, early)
}

func (s *shard[K, V]) advanceLocked(now int64, limit, early int) (more bool) {
	if s.wheel != nil {
		s.wheel.now = now
		more = s.advanceWheel(now, limit) ||
			early > 0 && s.wheel.Early(limit, early, s.comeEarly)
	}
	if !more && s.loads != nil {
		more = s.loads.failures.expire(now, limit)
	}
	if !more && len(s.sparse) > 0 {
		s.reduceListed()
	}
	s.tend()
	s.updateNext(now)
	return more || len(s.sparse) > 0
}

// advanceWheel has about limit entries come up. The wheel does not know that a line is many:
// so it is asked for a few records at a time.
func (s *shard[K, V]) advanceWheel(now int64, limit int) (more bool) {
	tick := s.cache.tickBefore(now)
	if s.order == nil {
		return s.wheel.Advance(tick, limit, s.wheel.visit)
	}
	for more = true; more && limit > 0; {
		n := min(limit, mostLines)
		s.wheel.inLines = 0
		more = s.wheel.Advance(tick, n, s.wheel.visit)
		limit -= n + s.wheel.inLines
	}
	return more
}

// updateNext works out when the driver has to come: at the latest at sparse, if
// something is to be made smaller.
func (s *shard[K, V]) updateNext(sparse int64) {
	next := expiry.NoDeadline
	if s.wheel != nil {
		if tick, ok := s.wheel.Next(); ok {
			next = s.cache.instantOf(tick)
		}
	}
	if s.loads != nil {
		next = min(next, s.failuresDue())
	}
	if len(s.sparse) > 0 {
		next = min(next, sparse)
	}
	s.next.Store(next)
}

// failuresDue returns the instant of the tick by which the first remembered failure is to
// be forgotten.
func (s *shard[K, V]) failuresDue() int64 {
	at := s.loads.failures.next()
	if at == expiry.NoDeadline {
		return at
	}
	return s.cache.instantOf(s.cache.tickAfter(at))
}

// comeUp is called by the wheel for each record that is due: it expires the
// entry, or says for which tick the record is to wait on.
func (s *shard[K, V]) comeUp(hash uint32, tick int64) (later int64) {
	if s.order.hasLine(hash, uint32(tick)) {
		s.lineIsDue(hash)
	}
	p, ok := s.findRecord(hash, uint32(tick), expiry.NoDeadline)
	if !ok || s.expireDue(p) {
		return wheel.Done
	}
	deadline := s.cache.due(p.slot.deadline.Load())
	if deadline == expiry.NoDeadline {
		p.slot.tick = noTick
		s.wheel.timed--
		return wheel.Done
	}
	later = s.tickFor(deadline)
	p.slot.tick = uint32(later)
	return later
}

// comeEarly is called for each record of the tick that has not passed. Of
// entries that share hash and tick, only some may be due.
func (s *shard[K, V]) comeEarly(hash uint32, tick int64) (done bool) {
	p, ok := s.findRecord(hash, uint32(tick), expiry.Deadline(s.wheel.now, -s.cache.staleFor))
	return ok && s.expireDue(p)
}

// expireDue removes the entry at p if its deadline has passed.
func (s *shard[K, V]) expireDue(p spot) bool {
	opened := p.bucket.begin()
	if !expiry.Expired(s.cache.due(p.slot.deadline.Load()), s.wheel.now) {
		p.bucket.end(opened)
		return false
	}
	s.report(p.slot, Expired, s.wheel.now)
	if p.slot.tick != noTick {
		s.wheel.timed--
	}
	if s.drop(p, opened) {
		s.reduceLater(p.slot.hash)
	}
	return true
}

// drop removes the entry at p, whose bucket has been opened. It reports whether its
// segment is sparse.
func (s *shard[K, V]) drop(p spot, opened uint32) (sparse bool) {
	if s.order == nil {
		return s.remove(p, opened)
	}
	s.leave(s.dir.Load().of(p.slot.hash), p)
	sparse = s.remove(p, opened)
	s.sweep()
	return sparse
}

// tend keeps the wheel in shape: it rebuilds one with too many orphans, or with
// too many or too few slots, a few records at a time.
func (s *shard[K, V]) tend() {
	w := s.wheel
	if w == nil {
		return
	}
	records, awaited := w.Len(), s.awaited()
	if records > w.peak {
		w.peak = records
	}
	switch {
	case awaited == 0 && records > fewRecords:
		// Nothing but orphans: what a burst leaves behind goes at once.
		s.wheel = nil
		s.updateNext(s.next.Load())
	case w.Rebuilding():
		kept := w.kept
		if records-awaited <= records/8 {
			kept = nil // a wheel that grows: to look for the few orphans costs more than they do
		}
		w.Step(stepPerWrite, kept)
		if !w.Rebuilding() && kept != nil {
			w.blurred = s.hasOrphans() // it was of little use
		}
	case records <= fewRecords:
	case s.hasOrphans():
		s.rebuild(awaited)
	case records < w.peak/8 && s.soon() < w.peak/8,
		s.cache.slots == 0 && records > 2*recordsPerSlot*w.Slots() && w.Slots() < mostSlots:
		s.rebuild(records)
	}
}

// hasOrphans reports whether there are too many. Where entries are evicted all the time, so are
// orphans made, and a rebuild looks up every record: there are more before it is worth that.
func (s *shard[K, V]) hasOrphans() bool {
	awaited := s.awaited()
	allowed := awaited / 4
	if s.order != nil {
		allowed = awaited / 2
	}
	return s.wheel.Len()-awaited > allowed+fewRecords
}

// awaited returns how many records of the wheel belong to something.
func (s *shard[K, V]) awaited() int {
	n := s.wheel.timed
	if s.order != nil {
		n += s.order.lines.waiting
	}
	return n
}

// rebuild begins to rebuild the wheel for n records, or those that will soon be there. What a
// bounded cache evicts from main leaves an orphan, so its wheels are rebuilt again and again, and
// do so in the memory they have.
func (s *shard[K, V]) rebuild(n int) {
	keep := 0
	if s.order != nil {
		n = max(n, s.soon())
		keep = n
	}
	s.wheel.Resize(s.slotsFor(n), keep)
	s.wheel.peak = max(n, min(s.wheel.peak, s.wheel.Room()))
}

// soon returns how many records there will be for entries once those of small have gone on to
// main. It is 0 without a bound.
func (s *shard[K, V]) soon() int {
	if s.order == nil {
		return 0
	}
	return s.wheel.timed + min(s.order.lines.waiting*lineLen, s.order.smallCount)
}

// hasEntry reports whether a record belongs to an entry still.
func (s *shard[K, V]) hasEntry(hash uint32, tick int64) bool {
	if s.order.hasLine(hash, uint32(tick)) {
		return true
	}
	_, ok := s.findRecord(hash, uint32(tick), expiry.NoDeadline)
	return ok
}
