package wheelcache

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
// on, since the wheel's records have room for no more. What the queues once needed stays
// until they are empty: five bytes for each entry that was in small at most.
type lines struct {
	slabs   []*[slabLines]line
	waiting int    // lines with a tick
	free    uint32 // first of a list of those in no queue
}

const slabLines = 16 // with which a slab takes 1 KB

// at returns a line by its number.
func (l *lines) at(number uint32) *line {
	number--
	return &l.slabs[number/slabLines][number%slabLines]
}

// known reports whether there is a line of that number, in a queue or not.
func (l *lines) known(number uint32) bool {
	return number-1 < uint32(len(l.slabs)*slabLines)
}

func (l *lines) take() uint32 {
	if l.free == 0 {
		slab := new([slabLines]line)
		lowest := uint32(len(l.slabs)*slabLines) + 1
		for i := range slab[1:] {
			slab[i].next = lowest + uint32(i) + 1
		}
		l.slabs = append(l.slabs, slab)
		l.free = lowest
	}
	number := l.free
	first := l.at(number)
	l.free, first.next = first.next, 0
	return number
}

func (l *lines) give(number uint32) {
	l.at(number).next = l.free
	l.free = number
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
