package wheelcache

import (
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
//     or an earlier one. slot.tick says for which.
//   - A later deadline leaves the record where it is (lazy Move): when it comes
//     up, the wheel is told to let it wait on. An earlier deadline adds a record,
//     and slot.tick says that this is the one.
//   - A record that comes up and finds no slot with its hash and its tick belongs
//     to nothing: its entry was removed, or has a newer record. It is dropped
//     (lazy removal). One that finds another entry with the same hash and tick
//     stands in for that entry's record, which will find this one.
//
// Records without an entry are orphans; there are wheel.Len() - timed of them.
// When they are too many, the wheel is rebuilt without them, a few records with
// each write.
type shard[K comparable, V any] struct {
	table[K, V] // its first line is all that reads touch

	mu    sync.Mutex
	cache *Cache[K, V]
	sized int // entries that it was made for

	// Of time; the lock's holder writes.
	next  atomic.Int64                                // instant of the earliest tick that the wheel waits for, or NoDeadline
	wheel *wheel.Hashed                               // nil until the first entry with a deadline
	timed int                                         // entries with a record: slot.tick != noTick
	peak  int                                         // most records since the wheel was last rebuilt
	now   int64                                       // during advance
	visit func(hash uint32, tick int64) (later int64) // comeUp
	kept  func(hash uint32, tick int64) bool          // hasEntry
	ahead func(hashes []uint32)                       // touch

	// Counted by the lock's holder.
	sets    uint64
	removed [causes]uint64
}

const (
	firstSlots     = 8  // of a wheel that grows and shrinks
	recordsPerSlot = 64 // above it, a wheel grows
	mostSlots      = 1 << 14
	fewRecords     = 64 // a wheel with no more is not rebuilt
	stepPerWrite   = 8  // records that each write moves during a rebuild
	tendEvery      = 16 // records added, where none are removed: to look after a wheel that grows
)

func (s *shard[K, V]) init(c *Cache[K, V], capacity int, phase float64, empty *directory) {
	s.table.init(capacity, phase, empty)
	s.cache = c
	s.sized = capacity
	s.next.Store(expiry.NoDeadline)
}

// put stores value with a deadline that has not passed. It returns the instant
// at which the driver must be awake, NoDeadline if it need not.
func (s *shard[K, V]) put(hash uint32, key K, value V, b box, deadline, now int64) (wake int64) {
	p, ok := s.find(hash, key)
	if !ok {
		return s.putNew(hash, key, value, b, deadline, now)
	}
	opened := p.bucket.begin()
	old := p.slot.deadline.Load()
	if old <= s.cache.clock.horizon.Load() || s.cache.removals != nil || deadline < old || p.slot.tick == noTick {
		return s.putAt(p, opened, value, b, deadline, now)
	}
	// What putAt comes to where the entry is live for certain, its record is early
	// enough and nobody wants to know, as with most Sets: in half the time.
	s.sets++
	s.removed[Replaced]++
	s.overwrite(p, opened, value, b, deadline)
	return expiry.NoDeadline
}

// putNew stores a value for a key that is not there.
func (s *shard[K, V]) putNew(hash uint32, key K, value V, b box, deadline, now int64) (wake int64) {
	s.sets++
	return s.schedule(s.insert(hash, key, value, b, deadline), deadline, now)
}

// putAt stores a value in place of the one at p, live or expired, whose bucket
// has been opened.
func (s *shard[K, V]) putAt(p spot, opened uint32, value V, b box, deadline, now int64) (wake int64) {
	s.sets++
	old := p.slot.deadline.Load()
	s.report(p.slot, s.causeAt(p, Replaced, now), now)
	s.overwrite(p, opened, value, b, deadline)
	if deadline >= old && p.slot.tick != noTick {
		return expiry.NoDeadline // its record is early enough
	}
	return s.schedule(p.slot, deadline, now)
}

// moveAt gives the entry at p, whose bucket has been opened, another deadline.
func (s *shard[K, V]) moveAt(p spot, opened uint32, deadline, now int64) (wake int64) {
	p.slot.deadline.Store(deadline)
	p.bucket.end(opened)
	return s.schedule(p.slot, deadline, now)
}

// takeAt removes the entry at p, whose bucket has been opened. It reports
// whether the entry was live.
func (s *shard[K, V]) takeAt(p spot, opened uint32, cause Cause, now int64) bool {
	cause = s.causeAt(p, cause, now)
	s.report(p.slot, cause, now)
	if p.slot.tick != noTick {
		s.timed-- // the record becomes an orphan
	}
	s.remove(p, opened)
	s.tend()
	return cause != Expired
}

// liveAt reports whether the entry at p, whose bucket has been opened, is live.
func (s *shard[K, V]) liveAt(p spot, now int64) bool {
	return !s.cache.clock.expired(p.slot.deadline.Load(), now)
}

// getLocked is sight for a reader that was disturbed too often.
func (s *shard[K, V]) getLocked(hash uint32, key K) (value V, deadline int64, at sighting, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.find(hash, key)
	if !ok {
		return value, 0, at, miss
	}
	p.bucket.end(p.bucket.begin()) // waits for a sliding reader
	at = sighting{p.bucket, p.slot, p.bucket.version.Load()}
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
	s.removed[cause]++
	if cause == Expired || s.cache.removals != nil {
		s.tell(slot, cause, now)
	}
}

func (s *shard[K, V]) tell(slot *slotHead, cause Cause, now int64) {
	deadline := slot.deadline.Load()
	var late time.Duration
	if cause == Expired {
		if now == unread {
			now = s.cache.clock.now()
		}
		late = max(expiry.Remaining(now, deadline), 0)
		s.cache.lateness.record(late)
	}
	if r := s.cache.removals; r != nil {
		r.push(event[K, V]{peekKey[K](slot), peekValue[K, V](slot), cause, deadline, late})
	}
}

// arriveDead reports a value that was expired when it was stored. It never was
// in the table; its deadline is the moment of the call.
func (s *shard[K, V]) arriveDead(key K, value V, now int64) {
	s.sets++
	s.removed[Expired]++
	s.cache.lateness.record(0)
	if r := s.cache.removals; r != nil {
		r.push(event[K, V]{key, value, Expired, now, 0})
	}
}

// schedule sees to it that a record waits for the deadline of an entry, or for
// an earlier tick. It returns the instant at which the driver must be awake,
// NoDeadline if nothing has changed for it.
func (s *shard[K, V]) schedule(slot *slotHead, deadline, now int64) (wake int64) {
	if deadline == expiry.NoDeadline {
		return expiry.NoDeadline // a record that waits will find that out
	}
	if s.wheel == nil || s.wheel.Len() == 0 {
		s.newWheel(now)
	}
	tick := s.tickFor(deadline)
	if slot.tick != noTick {
		if int32(uint32(tick)-slot.tick) >= 0 {
			return expiry.NoDeadline
		}
	} else {
		s.timed++
	}
	s.wheel.Add(slot.hash, tick)
	slot.tick = uint32(tick)
	if s.wheel.Len()%tendEvery == 0 || s.wheel.Rebuilding() {
		s.tend()
	}
	at := s.cache.instantOf(tick)
	if at >= s.next.Load() {
		return expiry.NoDeadline
	}
	s.next.Store(at)
	return at
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
		now = s.cache.clock.now()
	}
	tick := s.cache.tickBefore(now)
	if s.wheel != nil {
		s.wheel.Advance(tick, 1, nil)
		return
	}
	s.wheel = wheel.NewHashed(s.slotsFor(s.sized), tick)
	if s.visit == nil {
		s.visit, s.kept, s.ahead = s.comeUp, s.hasEntry, s.touch
	}
	s.wheel.Ahead(s.ahead)
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
// passed.
func (s *shard[K, V]) advance(now int64, limit int) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.advanceLocked(now, limit)
}

func (s *shard[K, V]) advanceLocked(now int64, limit int) (more bool) {
	s.now = now
	if s.wheel == nil {
		return false
	}
	more = s.wheel.Advance(s.cache.tickBefore(now), limit, s.visit)
	s.tend()
	s.updateNext()
	return more
}

// flush is advance for everything that is due now.
func (s *shard[K, V]) flush(now int64, limit int) (more bool) {
	if s.advance(now, limit) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	if s.wheel == nil {
		return false
	}
	more = s.wheel.Early(limit, s.comeEarly)
	s.tend()
	s.updateNext()
	return more
}

func (s *shard[K, V]) updateNext() {
	next := expiry.NoDeadline
	if s.wheel != nil {
		if tick, ok := s.wheel.Next(); ok {
			next = s.cache.instantOf(tick)
		}
	}
	s.next.Store(next)
}

// comeUp is called by the wheel for each record that is due: it expires the
// entry, or says for which tick the record is to wait on.
func (s *shard[K, V]) comeUp(hash uint32, tick int64) (later int64) {
	p, ok := s.findRecord(hash, uint32(tick), expiry.NoDeadline)
	if !ok || s.expireDue(p) {
		return wheel.Done
	}
	deadline := p.slot.deadline.Load()
	if deadline == expiry.NoDeadline {
		p.slot.tick = noTick
		s.timed--
		return wheel.Done
	}
	later = s.tickFor(deadline)
	p.slot.tick = uint32(later)
	return later
}

// comeEarly is called for each record of the tick that has not passed. Of
// entries that share hash and tick, only some may be due.
func (s *shard[K, V]) comeEarly(hash uint32, tick int64) (done bool) {
	p, ok := s.findRecord(hash, uint32(tick), s.now)
	return ok && s.expireDue(p)
}

// expireDue removes the entry at p if its deadline has passed.
func (s *shard[K, V]) expireDue(p spot) bool {
	opened := p.bucket.begin()
	if !expiry.Expired(p.slot.deadline.Load(), s.now) {
		p.bucket.end(opened)
		return false
	}
	s.report(p.slot, Expired, s.now)
	s.timed--
	s.remove(p, opened)
	return true
}

// tend keeps the wheel in shape: it rebuilds one with too many orphans, or with
// too many or too few slots, a few records at a time.
func (s *shard[K, V]) tend() {
	w := s.wheel
	if w == nil {
		return
	}
	records := w.Len()
	s.peak = max(s.peak, records)
	switch {
	case s.timed == 0 && records > fewRecords:
		// Nothing but orphans: what a burst leaves behind goes at once.
		s.wheel, s.peak = nil, 0
		s.next.Store(expiry.NoDeadline)
	case w.Rebuilding():
		kept := s.kept
		if records-s.timed <= records/8 {
			kept = nil // a wheel that grows: to look for the few orphans costs more than they do
		}
		w.Step(stepPerWrite, kept)
	case records <= fewRecords:
	case records-s.timed > s.timed/4+fewRecords:
		s.rebuild(s.timed)
	case records < s.peak/8:
		s.rebuild(records)
	case s.cache.slots == 0 && records > 2*recordsPerSlot*w.Slots() && w.Slots() < mostSlots:
		s.rebuild(records)
	}
}

// rebuild begins to rebuild the wheel for n records.
func (s *shard[K, V]) rebuild(n int) {
	s.wheel.Resize(s.slotsFor(n))
	s.peak = n
}

// hasEntry reports whether a record belongs to an entry still.
func (s *shard[K, V]) hasEntry(hash uint32, tick int64) bool {
	_, ok := s.findRecord(hash, uint32(tick), expiry.NoDeadline)
	return ok
}
