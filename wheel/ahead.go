package wheel

const (
	fewAhead   = 4        // records a chunk must hold for Ahead to pay
	scoutLists = chunkLen // lists that scout looks at, side by side, with one record each as a rule
	scoutDepth = 4        // chunks of a list that it looks at, as a rule
)

// Ahead has f called with records that are visited next, or that Step asks keep about, up
// to 15, before the first of them is, where that is likely to pay: looking each of them up may
// miss the processor's caches, and f can begin to load what visit will need for all of
// them at once. Some may not be visited in the end, and some come again in the next call.
// The slice is good until f returns; f may not call the wheel's methods.
func (w *Hashed) Ahead(f func(records []uint32)) { w.ahead = f }

// announce calls ahead with the records of c, last one first, that wait for a tick at
// most due after base and fit into the budget.
func (w *Hashed) announce(c *chunk, base, due uint32, b *budget) {
	if w.ahead == nil || c.n < fewAhead {
		return
	}
	batch := w.newBatch()
	for i := int(c.n) - 1; i >= 0 && len(batch) < b.records; i-- {
		if p := c.pairs[i]; p.tick-base <= due {
			batch = append(batch, p.record)
		}
	}
	w.ahead(batch)
}

// scout announces what is due in the slots that the sweep comes by next, if it has more
// than one tick to go: after a rest, few records are due in each of many slots, and
// nothing of all that is in the processor's caches. The chunks of a list are
// found one after the other, so it goes through several lists side by side: what
// they wait for, they wait for together.
func (w *Hashed) scout(b *budget) {
	end := w.cursor + min(w.target-w.cursor, int64(b.slots))
	w.scouted = end
	if w.ahead == nil || end-w.cursor <= 1 || w.Rebuilding() {
		return
	}
	base, due := uint32(w.from), uint32(w.target-w.from)
	most := min(b.records, scoutLists)
	var lists [scoutLists]uint32
	n := 0
	for t := w.cursor + 1; t <= end; t++ {
		if n == most {
			w.scouted = t - 1
			break
		}
		if s := &w.ring.slots[w.ring.index(t)]; s.head != 0 && s.earliest-base <= due {
			lists[n] = s.head
			n++
		}
	}
	if n < 2 {
		return
	}

	var chunks [scoutLists * scoutDepth]*chunk
	allowed := most * scoutDepth
	read := 0
	for n > 0 && read+n <= allowed {
		going := 0
		for _, head := range lists[:n] {
			c := w.ring.chunks.at(head)
			chunks[read] = c
			read++
			if c.next != 0 {
				lists[going] = c.next
				going++
			}
		}
		n = going
	}
	batch := w.newBatch()
	for _, c := range chunks[:read] {
		for _, p := range c.pairs[:c.n] {
			if p.tick-base <= due && len(batch) < most {
				batch = append(batch, p.record)
			}
		}
	}
	w.ahead(batch)
}

// newBatch returns an empty slice with room for the argument of ahead.
func (w *Hashed) newBatch() []uint32 {
	if w.batch == nil {
		w.batch = new([chunkLen]uint32)
	}
	return w.batch[:0]
}
