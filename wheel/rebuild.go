package wheel

import "math"

// A rebuild moves the records of the wheel into a fresh ring, a few at a time.
// It is how the number of slots changes, and how a wheel from which most
// records have gone gives memory back.
//
// While it is under way, records are added to the new ring only, and the sweep
// comes by the slots of both. Step takes the old ring's lists apart from their
// ends and in place: nothing is added to them, and what Step leaves of a list
// is a list that the sweep may detach at any time.

// Resize begins to rebuild the wheel into a ring of the given number of slots,
// rounded and limited as by NewHashed. The same number as before is of use
// too: the records move closer together, and Step can drop some of them.
// They move to new memory, where records for the same tick lie side by side, and
// the old one is given back when the last has left it. But if there is no more of it
// than three times what keep records need, it is kept, and no more is asked for.
// While a rebuild is under way, Resize does nothing.
func (w *Hashed) Resize(slots, keep int) {
	slots = roundSlots(slots)
	if w.Rebuilding() {
		return
	}
	chunks := w.ring.chunks
	if keep < w.Room()/3 {
		chunks = new(arena)
	}
	w.old, w.ring = w.ring, newRing(slots, chunks)
	w.dropOld()
}

// Rebuilding reports whether a rebuild is under way.
func (w *Hashed) Rebuilding() bool { return len(w.old.slots) > 0 }

// Step moves up to limit records to the new ring, dropping those for which
// keep answers false; a nil keep keeps all. It may stop sooner, when it has
// passed 64 times limit slots; a limit below 1 counts as 1. It reports whether
// there is more for Step to do.
//
// Records that an unfinished Advance has before it are left to Advance. If there
// are any, the rebuild ends there, after Step has answered false.
//
// What keep may call, and what happens if it panics, is as for visit in
// Advance.
func (w *Hashed) Step(limit int, keep func(record uint32, tick int64) bool) (more bool) {
	b := newBudget(limit)
	for ; w.old.used > 0 && w.drained < len(w.old.slots); w.drained++ {
		if b.slots == 0 {
			return true
		}
		b.slots--
		s := &w.old.slots[w.drained]
		for s.head != 0 {
			c := w.old.chunks.at(s.head)
			if keep != nil {
				w.announce(c, 0, math.MaxUint32, &b) // whatever they wait for
			}
			for c.n > 0 {
				if b.records == 0 {
					return true
				}
				b.records--
				w.move(c.pairs[c.n-1], keep)
				c = w.old.chunks.at(s.head) // adding may have moved it
				c.n--
			}
			done := s.head
			s.head = c.next
			w.old.release(done)
		}
	}
	w.dropOld()
	return false
}

// move adds a record of the old ring to the new one, or drops it.
func (w *Hashed) move(p pair, keep func(record uint32, tick int64) bool) {
	tick := expand(w.from, p.tick)
	if keep != nil && !keep(p.record, tick) {
		w.count--
		return
	}
	// A stopped sweep may have passed the record's tick but not its old slot:
	// it must find the record in a slot still ahead.
	w.ring.add(w.ring.index(max(tick, w.cursor+1)), p)
}

// dropOld ends the rebuild if the old ring is empty.
func (w *Hashed) dropOld() {
	if w.old.used == 0 {
		w.old, w.drained = ring{}, 0
	}
}
