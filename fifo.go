package wheelcache

import "math/bits"

// A fifo is a queue of hashes in the order in which they came. It is a list of lines, so that
// one that is as long as before allocates nothing.
type fifo struct {
	first, last uint32 // lines, 0 if there are none
	taken       uint16 // of first
	added       uint16 // of last
	len         uint32
}

// A line is a piece of a queue, as large as a cache line.
type line struct {
	next   uint32 // line behind this one, 0 at the end
	tick   uint32 // low half of the tick that its record in the wheel waits for, or noTick; in a queue or not: see order.go
	hashes [lineLen]uint32
}

const lineLen = 14

// lines are what the queues of a shard consist of. They are known by numbers, from 1
// on, since the wheel's records have room for no more. They lie in slabs. Before a shard comes
// to its bound all its entries are in small, later a tenth of them as a rule: so a slab that has
// no line in a queue is given up, unless the queues may soon need it again. Lines are taken
// from the slab that has had a free one for longest, so that others become all free.
type lines struct {
	slabs       []slab
	waiting     int    // lines with a tick
	used, free  int    // lines in queues, and others
	first, last uint32 // slabs with free lines, by their number from 1 on; 0 if there are none
	given       uint32 // slabs without memory: a list, too
}

type slab struct {
	lines      *[slabLines]line // nil if it was given up
	prev, next uint32           // in the list it is in
	free       uint16           // its lines in no queue, a bit for each
}

const (
	slabLines = 16 // with which a slab takes 1 KB
	allFree   = 1<<slabLines - 1
	fewLines  = 2 * slabLines // free ones that are no reason to give up a slab
)

// at returns a line by its number.
func (l *lines) at(number uint32) *line {
	number--
	return &l.slabs[number/slabLines].lines[number%slabLines]
}

// known reports whether there is a line of that number, in a queue or not.
func (l *lines) known(number uint32) bool {
	number--
	return number/slabLines < uint32(len(l.slabs)) && l.slabs[number/slabLines].lines != nil
}

// take returns a line that is in no queue.
func (l *lines) take() (number uint32) {
	if l.first == 0 {
		l.grow()
	}
	n := l.first
	s := &l.slabs[n-1]
	i := bits.TrailingZeros16(s.free)
	if s.free &^= 1 << i; s.free == 0 {
		l.unlink(n)
	}
	l.free--
	l.used++
	s.lines[i].next = 0
	return (n-1)*slabLines + uint32(i) + 1
}

// give takes back a line.
func (l *lines) give(number uint32) {
	number--
	n := number/slabLines + 1
	s := &l.slabs[n-1]
	if s.free == 0 {
		l.link(n)
	}
	s.free |= 1 << (number % slabLines)
	l.free++
	l.used--
	l.spare(n)
	l.spare(l.first) // it may have been all free for long, while there were more in use
}

// spare gives up a slab if it is all free and there are more free lines than the queues are
// likely to need.
func (l *lines) spare(n uint32) {
	if n != 0 && l.slabs[n-1].free == allFree && l.free > fewLines+l.used/2 {
		l.giveUp(n)
	}
}

// grow adds a slab, whose number is one that was given up, if possible.
func (l *lines) grow() {
	n := l.given
	if n == 0 {
		l.slabs = append(l.slabs, slab{})
		n = uint32(len(l.slabs))
	} else {
		l.given = l.slabs[n-1].next
	}
	s := &l.slabs[n-1]
	s.lines, s.free = new([slabLines]line), allFree
	l.free += slabLines
	l.link(n)
}

// giveUp drops a slab of which no line is in a queue. What records of them are in the wheel become
// orphans. One may look like that of a line that has the number later and waits for the same tick;
// then the second of the two to come up finds that nothing waits, and is dropped.
func (l *lines) giveUp(n uint32) {
	l.unlink(n)
	s := &l.slabs[n-1]
	for i := range s.lines {
		if s.lines[i].tick != noTick {
			l.waiting--
		}
	}
	l.free -= slabLines
	*s = slab{next: l.given}
	l.given = n
}

// link puts a slab at the end of the list of those with free lines.
func (l *lines) link(n uint32) {
	s := &l.slabs[n-1]
	s.prev, s.next = l.last, 0
	if l.last == 0 {
		l.first = n
	} else {
		l.slabs[l.last-1].next = n
	}
	l.last = n
}

func (l *lines) unlink(n uint32) {
	s := &l.slabs[n-1]
	if s.prev == 0 {
		l.first = s.next
	} else {
		l.slabs[s.prev-1].next = s.next
	}
	if s.next == 0 {
		l.last = s.prev
	} else {
		l.slabs[s.next-1].prev = s.prev
	}
}

// push adds a hash at the end.
func (q *fifo) push(l *lines, hash uint32) {
	if q.last == 0 || q.added == lineLen {
		number := l.take()
		if q.last == 0 {
			q.first, q.taken = number, 0
		} else {
			l.at(q.last).next = number
		}
		q.last, q.added = number, 0
	}
	l.at(q.last).hashes[q.added] = hash
	q.added++
	q.len++
}

// pop takes the hash that came first. There must be one.
func (q *fifo) pop(l *lines) uint32 {
	first := l.at(q.first)
	hash := first.hashes[q.taken]
	q.taken++
	q.len--
	switch next := first.next; {
	case q.len == 0:
		l.give(q.first)
		*q = fifo{}
	case q.taken == lineLen:
		l.give(q.first)
		q.first, q.taken = next, 0
	}
	return hash
}

// peek returns the hash that is first. There must be one.
func (q *fifo) peek(l *lines) uint32 { return l.at(q.first).hashes[q.taken] }

// ahead returns the hash that is n behind the first, if there is one. n is less than lineLen.
func (q *fifo) ahead(l *lines, n int) (hash uint32, ok bool) {
	if n >= int(q.len) {
		return 0, false
	}
	c, i := l.at(q.first), int(q.taken)+n
	if i >= lineLen {
		c, i = l.at(c.next), i-lineLen
	}
	return c.hashes[i], true
}

// drop empties the queue.
func (q *fifo) drop(l *lines) {
	for q.first != 0 {
		next := l.at(q.first).next
		l.give(q.first)
		q.first = next
	}
	*q = fifo{}
}
