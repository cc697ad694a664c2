package wheel

// A slot is the list of records whose ticks are equal modulo the ring's size.
type slot struct {
	head     uint32 // first chunk, the one with room; 0 if the slot is empty
	earliest uint32 // no record here waits for a tick before it; undefined if empty
}

const slotBytes = 8

// A ring is a power of two of slots and the lists of their records. The zero
// ring has no slots and holds nothing.
type ring struct {
	slots  []slot
	chunks *arena // of its lists, and perhaps of another ring's
	used   uint32 // chunks in its lists
	walk   uint32 // what is left of the list that the sweep detached from its slot
}

func newRing(slots int, chunks *arena) ring {
	return ring{slots: make([]slot, slots), chunks: chunks}
}

// index returns the slot in which records for tick wait.
func (r *ring) index(tick int64) int { return int(tick) & (len(r.slots) - 1) }

// add appends a record to slot i.
func (r *ring) add(i int, p pair) {
	s := &r.slots[i]
	if s.head == 0 || before(p.tick, s.earliest) {
		s.earliest = p.tick
	}
	if s.head == 0 || r.chunks.at(s.head).n == chunkLen {
		r.used++
		h := r.chunks.alloc()
		r.chunks.at(h).next = s.head
		s.head = h
	}
	c := r.chunks.at(s.head)
	c.pairs[c.n] = p
	c.n++
}

// detach moves the list of slot i to r.walk if something in it is due, that
// is, waits for a tick at most due ticks after base.
func (r *ring) detach(i int, base, due uint32) {
	if s := &r.slots[i]; s.head != 0 && s.earliest-base <= due {
		r.walk, s.head = s.head, 0
	}
}

// earliest returns how far after base the earliest record waits in the slot for
// tick, or the largest number if there is none.
func (r *ring) earliest(tick int64, base uint32) uint32 {
	if len(r.slots) == 0 {
		return ^uint32(0)
	}
	if s := r.slots[r.index(tick)]; s.head != 0 {
		return s.earliest - base
	}
	return ^uint32(0)
}

// relink moves the first chunk of r.walk, whose earliest tick is given, back
// into slot i: whole, behind the chunk with room.
func (r *ring) relink(i int, earliest uint32) {
	s := &r.slots[i]
	h := r.walk
	c := r.chunks.at(h)
	r.walk = c.next
	if s.head == 0 {
		c.next = 0
		s.head, s.earliest = h, earliest
		return
	}
	open := r.chunks.at(s.head)
	c.next, open.next = open.next, h
	if before(earliest, s.earliest) {
		s.earliest = earliest
	}
}

// all calls yield for each record until it answers false, and reports whether
// it never did.
func (r *ring) all(yield func(pair) bool) bool {
	if !r.list(r.walk, yield) {
		return false
	}
	for _, s := range r.slots {
		if !r.list(s.head, yield) {
			return false
		}
	}
	return true
}

func (r *ring) list(head uint32, yield func(pair) bool) bool {
	for ; head != 0; head = r.chunks.at(head).next {
		c := r.chunks.at(head)
		for _, p := range c.pairs[:c.n] {
			if !yield(p) {
				return false
			}
		}
	}
	return true
}

// release takes back a chunk that was in one of the lists.
func (r *ring) release(i uint32) {
	r.used--
	r.chunks.release(i)
}
