package wheelcache

import (
	"math"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// Which entry of a bounded cache goes when another comes. Each shard orders its
// own entries, after S3-FIFO (Yang and others: FIFO queues are all you need for
// cache eviction, SOSP 2023), whose point is that most entries are asked for once
// or not at all, and ought to leave soon.
//
// # Terms and picture
//
// A new entry comes into small. When it has come to the end of it, it goes on to
// main if it was read meanwhile, and is evicted if not. An entry of main is
// evicted when the hand comes by and it was not read since the last times. Of
// those evicted, the hashes are remembered for a while, as ghosts; a key that comes
// back as a ghost of small goes to main at once.
//
//	new ---> [   small: by age   ] -- read ---> (   main: a clock    )
//	               | not read           hand -->  read: count down, stays
//	               v                              not read: evicted --.
//	           [ ghosts of small ] -- comes back -> main              v
//	                                                    [ ghosts of main ]
//
// That alone knows nothing of a key that comes back later than ghosts are remembered: of a
// loop which is larger than the cache, it would keep next to nothing. So the history of a
// shard (history.go) counts how often each key has arrived, roughly, and for several times
// longer. An entry that comes out of small unread is kept if it has arrived clearly more often
// than the one that the hand has before it, which is evicted instead; this is TinyLFU's idea
// (Einziger, Friedman, Manes, TOS 2017). The hand then goes on; otherwise it stays, so it
// may be one and the same entry of main that all have to beat for a while, until it is read
// or its arrivals are forgotten. And while main has room, since small is beyond its target, all
// that have arrived clearly more often than never go to main.
//
// When a shard comes to its bound first, nobody can tell its entries apart, and all are in small.
// Until main has been full once, whatever comes out of small goes there, but for one in nine: of a
// loop, those that came first are as good as any, but only if they stay. A larger bound later, by
// Resize, does not begin that anew.
//
// A read only counts, up to three, in the marks of the bucket that it has before
// it anyway, and not even that when the count is at its maximum. So reads of a
// bounded cache take no lock either, and there is no buffer of reads to be lost.
//
// Small is a queue of hashes. Main is no queue: the hand goes from segment to
// segment of the table, in the order of hashes, and looks at one bucket of each. Which
// one is up to the segment, which lets it see all of them before it begins anew, but no
// two neighbours one after the other. So this is a clock whose entries stand in no order
// of arrival, and costs no memory. (In the plain order of hashes the hand would leave a
// wake: few entries where it has just been, and more than fit where it comes next.)
//
// # How large small is
//
// What is right depends on the load, from next to nothing (much that is popular for
// ever) to nearly all (what is new is popular). So small has a target, and the ghosts
// move it: a key that comes back soon after it was evicted from small would have been
// found if small had been a little larger; one that was evicted from main, had main
// been. Either moves the target by a few hundredths of itself, in its direction. The
// two windows of what is soon are equally long, so that what is compared is the worth
// of the same room here and there. This is ARC's idea (Megiddo and Modha, FAST 2003),
// with windows short enough to tell the margin.
//
// # Records
//
// As with the wheel, queue and entry are not linked. An entry in small has a record,
// its hash, in the queue; a record whose hash is of no entry in small is dropped when
// its turn comes, or when the queue is swept because it has become twice as long as
// it need be. A key that is deleted and comes again has two records for a while; it may
// be judged when the first one's turn comes. The sweep leaves each entry one of them:
// it passes the queue record by record, and a mark of the entry says that it had its
// one.
//
// # Deadlines
//
// Most of what comes into small leaves it by eviction, long before its deadline. So it has no
// record in the wheel: the queue has one for each of its lines, by the line's number instead
// of a hash, that waits for a tick before the first deadline of the line's entries. When that
// comes up, each of them that is there still expires or gets a record of its own, and so
// does one that goes on to main, or is given another deadline. A line whose entries have all
// gone keeps its record, and is filled again as a rule; the record will do for later deadlines. So
// where entries are evicted long before they would expire, the wheel has next to nothing to
// do with them. What expires while it is in small costs one look-up more.
//
// Where two entries of small have the same hash, either may be taken for the one whose
// record it is. The other then gets its own record in the wheel.
//
// # Invariants
//
// An entry is pinned if its cost is 0, in main if its mark says so, in small
// otherwise. For each hash, each part of the queue has at least as many records as small
// has entries with its mark. An entry of small with a deadline, and no record in the wheel, has one
// in a line that waits for an earlier tick than that of the deadline. used is the sum of the
// costs of all entries, smallUsed of those in small.
// Marks are zero in tables without a bound. The lock's holder changes all that; only
// counts are changed by readers, who may, by chance, count for an entry that has just
// taken the place of another, or for a vacant slot.
type order struct {
	share    int64   // what of the bound the shard may use: see bound.go
	each     int64   // what each entry costs, unless the table has their costs
	target   float64 // of smallUsed, as a part of share
	parity   uint32  // swept, or 0: how that stands in marks now
	sweeping bool
	filled   bool // main has been full since the shard was empty
	hand     struct {
		at     uint64 // point in the hashes where its segment begins
		bucket uint32 // of the segment
		slot   uint32 // of the bucket: the next to be looked at
	}
	unswept fifo // what of small a sweep has not come to: comes after small

	// Each write to a full shard changes what comes now, all in one cache line.
	small      fifo
	used       int64 // cost of all entries
	smallUsed  int64 // cost of those in small
	smallCount int   // entries in small
	mainCount  int
	history    history // its clocks

	lines lines    // of small and unswept
	_     [40]byte // so that it is allocated where a cache line begins
}

// The marks of a slot.
const (
	markBits  = 4
	countMask = 3 // how often it was read lately, at most that
	inMain    = 4
	swept     = 8
	markMask  = 15
)

const (
	firstTarget = 0.1
	leastTarget = 0.01
	mostTarget  = 0.97
	targetStep  = 1.02

	clearly = 2 // an entry has arrived clearly more often than another if this, added to the other's number, is still less

	sweepPerWrite  = 8
	trimPerWrite   = 4
	unsweptAllowed = 64 // orphans that are no reason to sweep
	looksPerVictim = 64 // records or buckets looked at until anything will do
	fillPerVictim  = 8  // entries that fill main for the first time

	foreseen = 8 // when a record is judged, the memory of the one so many later begins to be loaded: see touch

	handStride = 0x9e3779b1 // a prime, so that multiples of it modulo n are all numbers below n

	expiresSoon = 500 * time.Millisecond
)

// mark returns the marks of an entry.
func (p spot) mark() uint32 {
	return p.bucket.marks.Load() >> (markBits * p.index) & markMask
}

// setMark sets the marks of slot i, whatever readers count meanwhile.
func (b *bucketHead) setMark(i int, mark uint32) {
	for {
		old := b.marks.Load()
		now := old&^(markMask<<(markBits*i)) | mark<<(markBits*i)
		if now == old || b.marks.CompareAndSwap(old, now) {
			return
		}
	}
}

// count counts a read of the entry in slot i, unless that is saturated, or another
// goroutine counts at the same time.
func (b *bucketHead) count(i int) {
	old := b.marks.Load()
	if old>>(markBits*i)&countMask != countMask {
		b.marks.CompareAndSwap(old, old+1<<(markBits*i))
	}
}

// noteRead counts a read of an entry that has been seen there.
func (s *shard[K, V]) noteRead(at sighting) {
	if s.order != nil {
		at.bucket.count(indexIn[K, V](at.bucket, at.slot))
	}
}

// arrive adds an entry that has just been stored. It returns the number of its line, or 0
// if it is not in small. The caller sees to it that something waits for it, then sweeps.
func (s *shard[K, V]) arrive(p spot, cost int64) (number uint32) {
	o := s.order
	s.setCost(p, cost)
	o.used += cost
	return s.enter(p, cost)
}

// enter puts an entry where a new one belongs.
func (s *shard[K, V]) enter(p spot, cost int64) (number uint32) {
	o := s.order
	hash := p.slot.hash
	mark := uint32(0)
	switch {
	case cost == 0:
	case s.isBack(hash):
		mark = inMain
		o.mainCount++
	default:
		q := &o.small
		mark = o.parity
		if o.sweeping {
			q, mark = &o.unswept, mark^swept
		}
		q.push(&o.lines, hash)
		number = q.last
		o.smallCount++
		o.smallUsed += cost
	}
	p.bucket.setMark(p.index, mark)
	return number
}

// isBack counts an arrival, moves the target if hash is that of a ghost, and reports whether
// its entry is to go to main at once.
func (s *shard[K, V]) isBack(hash uint32) bool {
	o := s.order
	from, justNow, wasGhost := o.history.arrive(hash)
	switch {
	case !justNow:
	case from == ofSmall:
		o.target = min(o.target*targetStep, mostTarget)
	default:
		o.target = max(o.target/targetStep, leastTarget)
	}
	return wasGhost && from == ofSmall
}

// leave takes out an entry of seg that is about to be removed, or has been with all of seg.
func (s *shard[K, V]) leave(seg *segment, p spot) {
	o := s.order
	mark, cost := p.mark(), s.costIn(seg, p)
	o.used -= cost
	s.quit(mark, cost)
	if o.entries() == 0 {
		o.lines = lines{} // memory comes back
		o.filled = false
		if len(o.history.pages) > fewPages {
			o.history = history{}
		}
	}
	s.giveBack()
}

// quit takes an entry with that mark and cost out of where it is.
func (s *shard[K, V]) quit(mark uint32, cost int64) {
	o := s.order
	switch {
	case mark&inMain != 0:
		o.mainCount--
	case cost > 0:
		o.smallUsed -= cost
		if o.smallCount--; o.smallCount == 0 {
			o.emptySmall()
		}
	}
}

// emptySmall drops what is left of small when it has no entries.
func (o *order) emptySmall() {
	if len(o.lines.slabs) > 1 {
		o.lines = lines{} // at once, however many they are
		o.small, o.unswept = fifo{}, fifo{}
	}
	o.small.drop(&o.lines)
	o.unswept.drop(&o.lines)
	o.sweeping = false
}

// recost is for an entry that was given another value, and has a record in the wheel if it has
// a deadline.
func (s *shard[K, V]) recost(p spot, cost int64) {
	p.bucket.count(p.index)
	o := s.order
	old := s.costIn(s.dir.Load().of(p.slot.hash), p)
	if old == cost {
		return
	}
	o.used += cost - old
	s.setCost(p, cost)
	switch mark := p.mark(); {
	case old == 0:
		s.enter(p, cost)
		s.sweep()
	case cost == 0:
		s.quit(mark, old)
		p.bucket.setMark(p.index, 0)
	case mark&inMain == 0:
		o.smallUsed += cost - old
	}
	s.giveBack()
}

// evict removes an entry, and reports whether there was one that is not pinned. What
// expires by the instant soon is not kept for having been read.
func (s *shard[K, V]) evict(soon, now int64) bool {
	o := s.order
	for looks := 0; o.entries() > 0; looks++ {
		from := ofMain
		if o.smallCount > 0 && (o.mainCount == 0 || o.mainHasRoom(0)) {
			from = ofSmall
		}
		by := soon
		if looks >= looksPerVictim {
			by = expiry.NoDeadline
		}
		p, ok := s.candidate(from, by)
		if !ok {
			continue
		}
		if from == ofSmall {
			if p, from, ok = s.better(p, by, !o.filled && looks < fillPerVictim); !ok {
				continue
			}
		}
		if s.wheel != nil && len(o.history.pages) == 0 {
			s.wheel.Reserve(s.soon()) // main fills from now on, and its entries wait alone
		}
		o.history.evict(p.slot.hash, from, o.entries())
		s.takeAt(p, p.bucket.begin(), Evicted, now)
		return true
	}
	return false
}

// candidate looks at one entry of small or at a bucket of main, and returns an
// entry that is to go, if there is one: it was not read, or it expires by then.
func (s *shard[K, V]) candidate(from part, by int64) (spot, bool) {
	if from == ofMain {
		return s.comeBy(by)
	}
	p, ok := s.oldest()
	if !ok || p.mark()&countMask == 0 || expiresBy(p, by) {
		return p, ok
	}
	s.promote(p)
	return spot{}, false
}

// better lets an entry that is about to be evicted from small stay if main has room for it, and is
// being filled or the entry has come clearly more often than never; or else if it has come clearly
// more often than the one of main whose turn it is. It returns which one is to go, if there is one.
func (s *shard[K, V]) better(p spot, by int64, filling bool) (worse spot, from part, ok bool) {
	o := s.order
	arrivals := o.history.arrivals(p.slot.hash)
	if arrivals <= clearly && !filling || expiresBy(p, by) {
		return p, ofSmall, true
	}
	if o.mainHasRoom(s.costIn(s.dir.Load().of(p.slot.hash), p)) {
		s.promote(p)
		return spot{}, ofSmall, false
	}
	if o.mainCount > 0 {
		o.filled = true
	}
	if arrivals <= clearly || o.mainCount == 0 {
		return p, ofSmall, true
	}
	worse, ok = s.comeBy(by)
	switch {
	case !ok:
		return p, ofSmall, true
	case expiresBy(worse, by), arrivals > o.history.arrivals(worse.slot.hash)+clearly:
		s.promote(p)
		return worse, ofMain, true
	}
	o.hand.slot-- // to pass it would wear out the counts of others, eviction by eviction
	return p, ofSmall, true
}

// mainHasRoom reports whether small would be beyond its target without entries of that cost.
func (o *order) mainHasRoom(cost int64) bool {
	return float64(o.smallUsed-cost) > o.target*float64(o.share)
}

// expiresBy reports whether an entry expires so early that it is not worth keeping.
func expiresBy(p spot, by int64) bool {
	return by != math.MinInt64 && p.slot.deadline.Load() <= by
}

// promote takes an entry of small, whose record is gone, to main.
func (s *shard[K, V]) promote(p spot) {
	s.quit(p.mark(), s.costIn(s.dir.Load().of(p.slot.hash), p))
	s.order.mainCount++
	p.bucket.setMark(p.index, inMain)
	s.waitAlone(p.slot)
}

// oldest takes the first record out of small, and returns its entry if it has one.
func (s *shard[K, V]) oldest() (spot, bool) {
	o := s.order
	q, mark := o.front()
	if s.isLarge() {
		if hash, ok := q.ahead(&o.lines, foreseen); ok {
			o.history.touch(hash)
			s.touch(hash)
		}
	}
	return s.ownerOf(q.pop(&o.lines), mark)
}

// front returns the part of small that comes first, and how the entries of its records
// are marked: of two with the same hash, one may be in either part.
func (o *order) front() (q *fifo, mark uint32) {
	if o.small.len > 0 {
		return &o.small, o.parity
	}
	return &o.unswept, o.parity ^ swept
}

// entries returns how many there are that are not pinned.
func (o *order) entries() int { return o.smallCount + o.mainCount }

// records returns how many hashes are in small.
func (o *order) records() int { return int(o.small.len) + int(o.unswept.len) }

// trim drops records without an entry from the front of small, so that evict need not
// pass many of them at once: it may still, where another key's entry has the hash of one
// that has gone.
func (s *shard[K, V]) trim() {
	o := s.order
	for range trimPerWrite {
		if o.records() <= o.smallCount {
			return
		}
		q, mark := o.front()
		if _, ok := s.ownerOf(q.peek(&o.lines), mark); ok {
			return
		}
		q.pop(&o.lines)
	}
}

// comeBy lets the hand go to the end of a bucket, or to an entry that is to go.
func (s *shard[K, V]) comeBy(by int64) (spot, bool) {
	h := &s.order.hand
	if h.slot == slotsPerBucket {
		h.at = s.dir.Load().of(uint32(h.at)).end(h.at) % allHashes
		seg := s.dir.Load().of(uint32(h.at))
		if seg.n == 0 {
			return spot{}, false
		}
		seg.visits = (seg.visits + 1) % seg.n
		h.bucket, h.slot = uint32(uint64(seg.visits)*handStride%uint64(seg.n)), 0
	}
	seg := s.dir.Load().of(uint32(h.at))
	if h.bucket >= seg.n { // it was replaced by a smaller one
		h.slot = slotsPerBucket
		return spot{}, false
	}
	b := bucketAt[K, V](seg.buckets, h.bucket)
	for control := b.control.Load(); h.slot < slotsPerBucket; {
		p := spot{b, slotAt[K, V](b, int(h.slot)), int(h.slot)}
		h.slot++
		mark := p.mark()
		switch {
		case control>>(8*p.index)&0xff == 0 || mark&inMain == 0:
		case mark&countMask == 0, expiresBy(p, by):
			return p, true
		default:
			b.setMark(p.index, mark-1)
		}
	}
	return spot{}, false
}

// sweep goes on with a sweep of small, or begins one if it is due.
func (s *shard[K, V]) sweep() {
	o := s.order
	s.trim()
	if !o.sweeping {
		if int(o.small.len) <= 2*o.smallCount+unsweptAllowed {
			return
		}
		o.sweeping = true
		o.parity ^= swept
		o.small, o.unswept = fifo{}, o.small
	}
	for range sweepPerWrite {
		if o.unswept.len == 0 {
			o.sweeping = false
			return
		}
		hash := o.unswept.pop(&o.lines)
		if p, ok := s.ownerOf(hash, o.parity^swept); ok {
			p.bucket.setMark(p.index, p.mark()^swept)
			o.small.push(&o.lines, hash)
			s.waitInLine(o.small.last, p.slot, p.slot.deadline.Load(), unread)
		}
	}
}

// ownerOf returns the entry of small for which a record with this hash stands, in the part
// of the queue whose entries are so marked. Others that it may have stood for
// wait alone from now on.
func (s *shard[K, V]) ownerOf(hash, mark uint32) (owner spot, ok bool) {
	seg := s.dir.Load().of(hash)
	i := seg.home(hash)
	tag := tagOf(hash)
	for left := seg.n; left > 0; left-- {
		b := bucketAt[K, V](seg.buckets, i)
		control := b.control.Load()
		for m := matching(control, tag); m != 0; m &= m - 1 {
			p := spot{b, slotAt[K, V](b, slotIn(m)), slotIn(m)}
			switch {
			case p.slot.hash != hash || p.mark()&(swept|inMain) != mark || s.costIn(seg, p) == 0:
			case ok:
				s.waitAlone(p.slot)
			default:
				owner, ok = p, true
			}
		}
		if control < overflowOne {
			break
		}
		i = seg.after(i)
	}
	return owner, ok
}

// waitInLine sees to it that the line with that number waits for a tick before the deadline
// of an entry that has a record in it. It returns the instant at which the driver must be awake,
// NoDeadline if nothing has changed for it.
func (s *shard[K, V]) waitInLine(number uint32, slot *slotHead, deadline, now int64) (wake int64) {
	if slot.tick != noTick {
		return expiry.NoDeadline
	}
	tick, ok := s.tickOf(deadline, now)
	if !ok {
		return expiry.NoDeadline
	}
	if tick--; tick <= s.wheel.Cursor() || uint32(tick) == noTick {
		return s.awaitEntry(slot, tick+1) // there is no such tick
	}
	o := s.order
	c := o.lines.at(number)
	return s.await(number, &c.tick, &o.lines.waiting, tick)
}

// waitAlone gives an entry of small a record in the wheel, if it needs one. The driver need
// not be woken for it: the entry's line waits, or waited, for an earlier tick.
func (s *shard[K, V]) waitAlone(slot *slotHead) {
	if slot.tick != noTick {
		return
	}
	if tick, ok := s.tickOf(slot.deadline.Load(), unread); ok {
		s.awaitEntry(slot, tick)
	}
}

// hasLine reports whether a record of the wheel is that of a line.
func (o *order) hasLine(number, tick uint32) bool {
	return o != nil && o.lines.known(number) && o.lines.at(number).tick == tick
}

// lineIsDue is for a line whose tick has come: its entries expire or wait alone.
func (s *shard[K, V]) lineIsDue(number uint32) {
	o := s.order
	c := o.lines.at(number)
	c.tick = noTick
	o.lines.waiting--
	hashes := c.hashes // those that are in no queue any more do no harm
	s.wheel.inLines += lineLen
	s.touchAll(hashes[:])
	by := expiry.NoDeadline - 1 - int64(s.cache.staleFor)
	for _, hash := range hashes {
		for p, ok := s.findRecord(hash, noTick, by); ok; p, ok = s.findRecord(hash, noTick, by) {
			if !s.expireDue(p) {
				s.waitAlone(p.slot)
			}
		}
	}
}

// costIn returns the cost of the entry at p, in the segment seg.
func (s *shard[K, V]) costIn(seg *segment, p spot) int64 {
	if !s.costed {
		return s.order.each
	}
	i, _ := slotIndex[K, V](seg.buckets, p.slot)
	return seg.beside.costs.at(i)
}

func (s *shard[K, V]) setCost(p spot, cost int64) {
	if s.costed {
		seg := s.dir.Load().of(p.slot.hash)
		i, _ := slotIndex[K, V](seg.buckets, p.slot)
		seg.beside.costs.set(i, cost)
	}
}

// copyCost copies what belongs to a slot of old to one of seg.
func copyCost[K, V any](seg *segment, dst *slotHead, old *segment, src *slotHead) {
	i, _ := slotIndex[K, V](seg.buckets, dst)
	j, _ := slotIndex[K, V](old.buckets, src)
	seg.beside.costs.set(i, old.beside.costs.at(j))
}
