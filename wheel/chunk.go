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

// An arena holds the chunks of one ring. Chunks are named by their position
// plus one, so that 0 can mean none, and links need neither pointers nor the
// garbage collector's attention.
type arena struct {
	slabs [][]chunk // all full but the last
	free  uint32    // head of the list of chunks given back
	used  uint32    // chunks in lists
}

// at returns chunk i. The pointer is good until the next alloc, which may move
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
	last := len(a.slabs) - 1
	switch {
	case last < 0:
		a.slabs = append(a.slabs, nil)
		last++
	case len(a.slabs[last]) == slabLen:
		a.slabs = append(a.slabs, make([]chunk, 0, slabLen))
		last++
	}
	// The first slab grows by a third, so that a wheel of a few records stays small;
	// the others are made full size and never move.
	slab := a.slabs[last]
	if n := len(slab); n == cap(slab) {
		slab = append(slices.Grow([]chunk(nil), min(n+n/3+1, slabLen)), slab...) // or a little more: see size classes
	}
	a.slabs[last] = append(slab, chunk{})
	return uint32(last<<slabBits + len(slab) + 1)
}

// reserve asks for n chunks at once, unless that is less than a slab. The arena must be new.
func (a *arena) reserve(n int) {
	if n < slabLen {
		return
	}
	slabs := (n + slabLen - 1) / slabLen
	all := make([]chunk, slabs*slabLen)
	for i := range all[1:] {
		all[i].next = uint32(i) + 2
	}
	a.free = 1
	a.slabs = make([][]chunk, slabs)
	for i := range a.slabs {
		a.slabs[i] = all[i*slabLen:][:slabLen:slabLen]
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

// bytes returns the size of the chunks held.
func (a *arena) bytes() int {
	n := 0
	for _, s := range a.slabs {
		n += cap(s)
	}
	return n * chunkBytes
}
