package wheelcache

// A fifo is a queue of hashes in the order in which they came. It grows and
// shrinks by chunks, so that it takes little more memory than what is in it. One that
// is as long as before allocates nothing: it keeps a chunk that has become empty.
type fifo struct {
	first, last *fifoChunk
	spare       *fifoChunk
	taken       int // of first
	added       int // of last
	len         int
}

const fifoChunkSize = 254 // with which a chunk fills an allocation of 1 KB

type fifoChunk struct {
	next   *fifoChunk
	hashes [fifoChunkSize]uint32
}

// push adds a hash at the end.
func (q *fifo) push(hash uint32) {
	if q.last == nil || q.added == fifoChunkSize {
		c := q.spare
		if q.spare = nil; c == nil {
			c = new(fifoChunk)
		}
		if q.last == nil {
			q.first, q.taken = c, 0
		} else {
			q.last.next = c
		}
		q.last, q.added = c, 0
	}
	q.last.hashes[q.added] = hash
	q.added++
	q.len++
}

// pop takes the hash that came first. There must be one.
func (q *fifo) pop() uint32 {
	hash := q.first.hashes[q.taken]
	q.taken++
	q.len--
	switch {
	case q.len == 0 && q.first.next == nil:
		q.taken, q.added = 0, 0 // the chunk is kept: a queue is often empty for a moment
	case q.taken == fifoChunkSize:
		q.spare = q.first
		q.first, q.taken = q.first.next, 0
		q.spare.next = nil
	}
	return hash
}

// peek returns the hash that is first. There must be one.
func (q *fifo) peek() uint32 { return q.first.hashes[q.taken] }

// ahead returns the hash that is n behind the first, if it is in the same chunk.
func (q *fifo) ahead(n int) (hash uint32, ok bool) {
	if i := q.taken + n; n < q.len && i < fifoChunkSize {
		return q.first.hashes[i], true
	}
	return 0, false
}
