package wheel

// Early is for an owner whose time is finer than its ticks, and who wants to
// know now what is due in the tick that has begun and not passed. It visits the
// records that wait for the tick after the cursor, or before, and takes out
// those for which visit answers that they are done; the others stay, and the
// cursor does too. It stops after limit records are done, and answers that there
// may be more.
//
// Every call reads the whole list of one slot. If that has more than most records, or
// while an Advance is unfinished, Early does nothing. What visit may call, and what
// happens if it panics, is as for Advance.
func (w *Hashed) Early(limit, most int, visit func(record uint32, tick int64) (done bool)) (more bool) {
	if w.from != w.target || w.old.holdsMore(w.cursor+1, most) || w.ring.holdsMore(w.cursor+1, most) {
		return false
	}
	defer w.dropOld()
	limit = max(limit, 1)
	return w.earlyIn(&w.old, &limit, visit) || w.earlyIn(&w.ring, &limit, visit)
}

// holdsMore reports whether more than most records are in the slot of tick. It reads
// about as many as that at most.
func (r *ring) holdsMore(tick int64, most int) bool {
	if len(r.slots) == 0 {
		return false
	}
	n := 0
	for h := r.slots[r.index(tick)].head; h != 0 && n <= most; {
		c := r.chunks.at(h)
		n += int(c.n)
		h = c.next
	}
	return n > most
}

func (w *Hashed) earlyIn(r *ring, limit *int, visit func(uint32, int64) bool) (more bool) {
	if len(r.slots) == 0 {
		return false
	}
	base := uint32(w.from)
	i := r.index(w.cursor + 1)
	r.detach(i, base, 1)
	defer r.putBack(i, base)
	for r.walk != 0 {
		c := r.chunks.at(r.walk)
		for c.n > 0 {
			p := c.pairs[c.n-1]
			switch {
			case p.tick-base > 1:
				w.ring.add(w.ring.index(int64(p.tick)), p)
			case *limit == 0:
				return true
			case visit(p.record, expand(w.from, p.tick)):
				*limit--
				w.count--
			default:
				w.ring.add(w.ring.index(w.cursor+1), p)
			}
			c = r.chunks.at(r.walk) // adding may have moved it
			c.n--
		}
		done := r.walk
		r.walk = c.next
		r.release(done)
	}
	return false
}

// putBack returns what is left of the detached list to its slot i.
func (r *ring) putBack(i int, base uint32) {
	for r.walk != 0 {
		h := r.walk
		c := r.chunks.at(h)
		if c.n*2 >= chunkLen || r.slots[i].head == 0 {
			r.relink(i, base+c.earliest(base))
			continue
		}
		r.walk = c.next
		left := *c
		r.release(h)
		for _, p := range left.pairs[:left.n] {
			r.add(i, p)
		}
	}
}
