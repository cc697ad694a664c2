package wheel

import "slices"

// chunkLen records fill a chunk: 15 make it 128 bytes, two cache lines, which
// processors fetch as a pair. Larger chunks are read a little faster where
// slots are crowded and waste more where they are not.
const chunkLen = 15

// A pair is a record and the low 32 bits of the tick it waits for.
type pair struct {
	record uint32
	tick   uint32
}

// A chunk is a piece of a list of records. All chunks of a list but the first
// are at least half full, so a list never takes much more memory than its
// records need; only the first is added to.
type chunk struct {
	next  uint32 // chunk behind this one in its list, 0 at the end
	n     uint32 // records held; never 0 in a list
	pairs [chunkLen]pair
}

// earliest returns how far after base the earliest record of c waits.
func (c *chunk) earliest(base uint32) uint32 {
	first := ^uint32(0)
	for i := range c.pairs[:c.n] {
		first = min(first, c.pairs[i].tick-base)
	}
	return first
}

const chunkBytes = 8 + 8*chunkLen

const (
	slabBits = 6
	slabLen  = 1 << slabBits // chunks to a slab: 8 KB
)

// An arena holds the chunks of a ring, or of both rings during a rebuild. Chunks are named
// by their position plus one, so that 0 can mean none, and links need neither pointers nor
// the garbage collector's attention.
type arena struct {
	slabs [][]chunk // of slabLen chunks, but for the first if it is the only one
	fresh uint32    // chunks that were in a list once: all after them never were
	free  uint32    // head of the list of those that are in no list of records any more
	used  uint32    // chunks in lists of records
}

// at returns chunk i. The pointer is good until the next alloc or reserve, which may move
// the first slab.
func (a *arena) at(i uint32) *chunk {
	i--
	return &a.slabs[i>>slabBits][i%slabLen]
}

// alloc returns an empty chunk.
func (a *arena) alloc() uint32 {
	a.used++
	if i := a.free; i != 0 {
		a.free = a.at(i).next
		return i
	}
	if n := a.chunks(); int(a.fresh) == n {
		// The first slab grows by a third, so that a wheel of a few records stays small.
		a.reserve(max(n+1, min(n+n/3+1, slabLen)))
	}
	a.fresh++
	return a.fresh
}

// reserve asks at once for what is missing to n chunks, or a little more: see size classes.
// It does not touch what it gets, which may be much.
func (a *arena) reserve(n int) {
	if a.chunks() < min(n, slabLen) {
		slab := slices.Grow([]chunk(nil), min(n, slabLen))
		slab = slab[:min(cap(slab), slabLen)]
		if len(a.slabs) == 0 {
			a.slabs = append(a.slabs, nil)
		}
		copy(slab, a.slabs[0])
		a.slabs[0] = slab
	}
	missing := n - a.chunks()
	if missing <= 0 {
		return
	}
	slabs := (missing + slabLen - 1) / slabLen
	all := make([]chunk, slabs*slabLen)
	for i := range slabs {
		a.slabs = append(a.slabs, all[i*slabLen:][:slabLen:slabLen])
	}
}

// release takes back chunk i. When it was the last one in use, the memory goes
// back to the garbage collector, unless there is too little of it to matter.
func (a *arena) release(i uint32) {
	a.used--
	if a.used == 0 && len(a.slabs) > 1 {
		*a = arena{}
		return
	}
	c := a.at(i)
	c.n = 0
	c.next = a.free
	a.free = i
}

// chunks returns how many there are, in lists or not.
func (a *arena) chunks() int {
	last := len(a.slabs) - 1
	if last < 0 {
		return 0
	}
	return last*slabLen + len(a.slabs[last])
}

// bytes returns the size of the chunks.
func (a *arena) bytes() int { return a.chunks() * chunkBytes }
