package wheel

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
)

// MaxSlots is the largest number of slots of a ring.
const MaxSlots = 1 << 20

// Done is what visit answers for a record that is finished with.
const Done int64 = math.MinInt64

// slotsPerRecord is how many slots may be passed for each record that a limit
// allows: that many cost about as much as one record.
const slotsPerRecord = 64

// A Hashed is a hashed timing wheel with rounds. It must be made by NewHashed
// and must not be used by several goroutines at once.
//
// Between calls of Advance, either no sweep is under way, and
// from == cursor == target, or one was stopped, and then it goes from just
// after from to target and has come to cursor.
type Hashed struct {
	from   int64 // all records wait for ticks in (from, from+2*Horizon]
	cursor int64 // last tick whose slots were detached
	target int64 // tick the sweep ends with; what waits for it or before is due

	next  int64 // no record waits for a tick before it
	count int   // records held

	ahead   func(records []uint32) // see Ahead; may be nil
	batch   *[chunkLen]uint32      // memory for its argument; nil while nothing was worth announcing
	scouted int64                  // the sweep has looked ahead as far as this tick: see scout

	ring    ring // where records are added
	old     ring // what a rebuild has not moved yet; no slots if none is under way
	drained int  // slots of old that Step is done with
}

// NewHashed returns an empty wheel whose cursor is at tick now. The number of
// slots is rounded up to a power of two; it panics unless it lies between 1
// and MaxSlots.
//
// A good number of slots is that of the ticks in a common delay: with fewer,
// records are passed over in round after round; with more, empty slots are.
func NewHashed(slots int, now int64) *Hashed {
	now = min(now, lastTick)
	return &Hashed{from: now, cursor: now, target: now, ring: newRing(roundSlots(slots), new(arena))}
}

// Reserve asks at once for what is missing of the memory that so many records need, those that
// are there already included. Without it, memory is asked for as records are added.
func (w *Hashed) Reserve(records int) {
	if records <= 0 {
		return
	}
	w.ring.chunks.reserve(records/chunkLen + min(records, len(w.ring.slots)/2) + 2) // the first chunk of a slot is half full
}

func roundSlots(slots int) int {
	if slots < 1 || slots > MaxSlots {
		panic(fmt.Sprintf("wheel: %d slots, want 1 to %d", slots, MaxSlots))
	}
	return 1 << bits.Len(uint(slots-1))
}

// Add adds a record that waits for tick and returns the tick it waits for,
// Clamp(tick). The wheel does not look at records: the same one may be added
// many times, and each is visited.
func (w *Hashed) Add(record uint32, tick int64) int64 {
	tick = w.Clamp(tick)
	if w.count == 0 || tick < w.next {
		w.next = tick
	}
	w.count++
	w.ring.add(w.ring.index(tick), pair{record, uint32(tick)})
	return tick
}

// Clamp returns the tick that a record added for tick would wait for: tick
// itself if it lies after the cursor and not beyond the horizon, otherwise the
// nearest that does.
func (w *Hashed) Clamp(tick int64) int64 {
	return min(max(tick, w.cursor+1), w.cursor+Horizon)
}

// Advance moves the cursor to now and calls visit for each record that waits
// for a tick up to now, in no particular order. Visit answers Done, or a later
// tick that the record is to wait for, clamped as by Add.
//
// The work done at once is bounded: Advance stops before it visits more than
// limit records, reads more than limit chunks of records, or passes more than
// 64 times limit slots; a limit below 1 counts as 1. (To see what is ahead, it
// may look at the slots, and at four chunks per record, once before.) It then answers that
// something due may be left, and the next call goes on from there. It always
// gets somewhere, so calling it until it answers false comes to an end.
//
// The wheel's time does not go back: a now before the cursor does nothing, and
// a sweep that was stopped goes on to the now it was begun for.
//
// Visit may call Add, and the methods that only look, but no other. If it
// panics, the wheel is whole, still holds the record, and visits it again next
// time.
func (w *Hashed) Advance(now int64, limit int, visit func(record uint32, tick int64) (later int64)) (more bool) {
	now = min(now, lastTick)
	b := newBudget(limit)
	for {
		if !w.visitDetached(&w.old, &b, visit) {
			return true
		}
		w.dropOld()
		if !w.visitDetached(&w.ring, &b, visit) {
			return true
		}
		if w.cursor == w.target {
			w.from = w.cursor
			if now <= w.cursor {
				return false
			}
			w.begin(now)
		}
		if !w.seek(&b) {
			return true
		}
	}
}

// Next returns a tick before which no record is due, and false if the wheel
// holds none. It is the earliest tick that a record waits for, unless a sweep
// was stopped or a rebuild is under way: then it may be earlier.
func (w *Hashed) Next() (tick int64, ok bool) {
	if w.count == 0 {
		return 0, false
	}
	t := max(w.next, w.from+1)
	if w.from != w.target {
		return t, true
	}
	// Nothing waits for a tick before t: neither at first, nor after each step
	// that has found nothing for t. At the end each slot has been looked at.
	base, first := uint32(w.from), ^uint32(0)
	for range w.turn() {
		first = min(first, w.ring.earliest(t, base), w.old.earliest(t, base))
		if int64(first) <= t-w.from {
			w.next = t
			return t, true
		}
		t++
	}
	w.next = w.from + int64(first)
	return w.next, true
}

// Len returns the number of records held.
func (w *Hashed) Len() int { return w.count }

// Slots returns the number of slots of the ring that records are added to.
func (w *Hashed) Slots() int { return len(w.ring.slots) }

// Cursor returns the last tick that the wheel has come to.
func (w *Hashed) Cursor() int64 { return w.cursor }

// Room returns how many records there would be memory for if all chunks were full. It is less
// than Len while a rebuild moves them to new memory.
func (w *Hashed) Room() int { return w.ring.chunks.chunks() * chunkLen }

// Bytes returns the size of the memory that the wheel holds.
func (w *Hashed) Bytes() int {
	n := (cap(w.ring.slots)+cap(w.old.slots))*slotBytes + w.ring.chunks.bytes()
	if w.Rebuilding() && w.old.chunks != w.ring.chunks {
		n += w.old.chunks.bytes()
	}
	return n
}

// Records returns every record held and the tick it waits for, in no
// particular order. The wheel must not be changed on the way.
func (w *Hashed) Records() iter.Seq2[uint32, int64] {
	return func(yield func(uint32, int64) bool) {
		each := func(p pair) bool { return yield(p.record, expand(w.from, p.tick)) }
		_ = w.ring.all(each) && w.old.all(each)
	}
}

// A budget is the work that one call may still do.
type budget struct {
	records, chunks, slots int
}

func newBudget(limit int) budget {
	limit = max(limit, 1)
	return budget{limit, limit, min(limit, math.MaxInt/slotsPerRecord) * slotsPerRecord}
}

// begin begins a sweep that leads to now, or towards it.
func (w *Hashed) begin(now int64) {
	if w.count == 0 {
		w.from, w.cursor, w.target = now, now, now
		return
	}
	w.target = now
	if uint64(now-w.cursor) > Horizon {
		w.target = w.cursor + Horizon
	}
	// One turn comes by every slot, and what is due in a slot is due whichever
	// round it waited for: a longer way would find nothing more.
	if turn := w.turn(); w.target-w.cursor > turn {
		w.cursor = w.target - turn
	}
	w.scouted = w.cursor
}

// turn returns the number of ticks in which the cursor comes by every slot.
func (w *Hashed) turn() int64 {
	return int64(max(len(w.ring.slots), len(w.old.slots)))
}

// seek moves the cursor to the next tick that has something due in its slots
// and detaches their lists, or to the sweep's end. It reports whether the
// budget sufficed.
//
// The cursor moves before anything is visited. So what is added from then on
// for this tick or an earlier one waits for the next, which the sweep has yet
// to come by, and nothing is added to a list that is being walked.
func (w *Hashed) seek(b *budget) bool {
	base, due := uint32(w.from), uint32(w.target-w.from)
	for w.cursor < w.target && w.ring.walk == 0 && w.old.walk == 0 {
		if b.slots == 0 {
			return false
		}
		if w.cursor >= w.scouted {
			w.scout(b)
		}
		b.slots--
		w.cursor++
		w.ring.detach(w.ring.index(w.cursor), base, due)
		if w.Rebuilding() {
			w.old.detach(w.old.index(w.cursor), base, due)
		}
	}
	return true
}

// visitDetached visits what is due in the list that the sweep detached in r
// and puts the rest back. It reports whether the budget sufficed.
//
// The state is in the list alone: a record is taken off its end only when it
// has been dealt with, so that the walk can be left at any point, by a panic
// too.
func (w *Hashed) visitDetached(r *ring, b *budget, visit func(uint32, int64) int64) bool {
	base, due := uint32(w.from), uint32(w.target-w.from)
	for r.walk != 0 {
		if b.chunks == 0 {
			return false
		}
		b.chunks--
		c := r.chunks.at(r.walk)
		if r == &w.ring {
			first := c.earliest(base)
			i := r.index(w.cursor)
			if first > due && (c.n*2 >= chunkLen || r.slots[i].head == 0) {
				r.relink(i, base+first)
				continue
			}
		}
		w.announce(c, base, due, b)
		for c.n > 0 {
			p := c.pairs[c.n-1]
			if p.tick-base > due {
				w.ring.add(w.ring.index(int64(p.tick)), p)
			} else {
				if b.records == 0 {
					return false
				}
				b.records--
				later := visit(p.record, expand(w.from, p.tick))
				if later != Done {
					w.Add(p.record, later)
				}
				w.count--
			}
			c = r.chunks.at(r.walk) // adding may have moved it
			c.n--
		}
		done := r.walk
		r.walk = c.next
		r.release(done)
	}
	return true
}
