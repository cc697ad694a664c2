package wheelcache

import "math/bits"

// ghosts remember for a while which hashes were evicted, from where, and how long
// ago: time is counted in evictions from the same place.
//
// They are a hash table of small sets without links. A new ghost takes the place
// of a vacant or of the oldest one in its set, so nothing needs to be
// removed in order. A cell is four bytes: 15 bits of the hash, the part and when.
// Two hashes may be taken for one another, by a chance of some thousandths.
type ghosts struct {
	count [2]uint32 // evictions by part
	cells []uint32
	unit  uint8 // evictions by which a stamp goes on, as a power of two
}

// A part is what of a shard's order that an entry was evicted from.
type part uint32

const (
	ofSmall part = iota
	ofMain
)

const (
	ghostSet   = 8 // cells
	fewGhosts  = 8 * ghostSet
	cellsInAge = 1 << 13 // for at most so many cells, the unit of ages is one eviction
	soonPart   = 20      // a ghost is back soon if it was evicted within so small a part of as many evictions as there are cells

	// A cell: | hash 15 | part 1 | stamp 16 |
	stampBits = 16
	hashShift = stampBits + 1
)

func cellOf(hash uint32, from part, stamp uint32) uint32 {
	return fingerprint(hash)<<hashShift | uint32(from)<<stampBits | uint32(uint16(stamp))
}

// fingerprint is never 0, so that no cell is.
func fingerprint(hash uint32) uint32 {
	return max(hash*0x9e3779b1>>hashShift, 1)
}

func (g *ghosts) set(hash uint32) []uint32 {
	i := uint64(hash*0x85ebca6b) * uint64(len(g.cells)/ghostSet) >> 32
	return g.cells[i*ghostSet:][:ghostSet]
}

// touch makes the processor load what add and take will look at.
func (g *ghosts) touch(hash uint32) {
	if len(g.cells) > 0 {
		touchCells(g.set(hash))
	}
}

// age returns how many evictions ago a ghost was made, to a unit.
func (g *ghosts) age(cell uint32) (part, uint32) {
	from := part(cell >> stampBits & 1)
	return from, uint32(uint16(g.count[from]>>g.unit)-uint16(cell)) << g.unit
}

// soon is the age up to which a ghost is back soon.
func (g *ghosts) soon() uint32 {
	return max(uint32(len(g.cells))/soonPart, 1)
}

// take removes the ghost of hash and returns where from and how long ago it was
// evicted.
func (g *ghosts) take(hash uint32) (from part, age uint32, ok bool) {
	if len(g.cells) == 0 {
		return 0, 0, false
	}
	set := g.set(hash)
	for i, cell := range set {
		if cell>>hashShift == fingerprint(hash) {
			from, age = g.age(cell)
			set[i] = 0
			return from, age, age <= uint32(len(g.cells))
		}
	}
	return 0, 0, false
}

// add makes a ghost. entries is how many the shard has: a fifth more ghosts are remembered than
// that, and up to 44 % more. (With fewer, a loop that comes round among other requests is not
// recognized; with many more, what is asked for rarely takes the place of what is asked for often.)
func (g *ghosts) add(hash uint32, from part, entries int) {
	wanted := entries + entries/5
	if n := len(g.cells); wanted > n || wanted < n/4 && n > fewGhosts {
		g.resize(wanted)
	}
	g.count[from]++
	set := g.set(hash)
	stamps := [2]uint16{uint16(g.count[ofSmall] >> g.unit), uint16(g.count[ofMain] >> g.unit)}
	oldest, most := 0, uint16(0)
	for i, cell := range set {
		if cell == 0 {
			oldest = i
			break
		}
		if age := stamps[cell>>stampBits&1] - uint16(cell); age >= most {
			oldest, most = i, age
		}
	}
	set[oldest] = cellOf(hash, from, g.count[from]>>g.unit)
}

// resize forgets all ghosts, which is the simplest. It happens when evictions begin, and
// again whenever the shard has got a fifth more entries than then, or fewer than three
// tenths.
func (g *ghosts) resize(wanted int) {
	n := (max(wanted+wanted/5, fewGhosts) + ghostSet - 1) / ghostSet * ghostSet
	g.cells = make([]uint32, n)
	g.unit = uint8(bits.Len(uint(n / cellsInAge)))
	g.count = [2]uint32{}
}
