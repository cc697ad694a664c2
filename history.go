package wheelcache

// A history is what a shard remembers of hashes that it has seen, whether their entries are
// still there or not: how often they came, lately, and which were evicted, from where and how
// long ago. The latter are ghosts.
//
// It consists of pages, as large as a cache line. A hash has a place on one of them, for
// everything: who has asked for that line can have all of it.
//
//	page:  | 64 counts of 4 bits | 3 sets of 5 ghosts of 2 bytes | arrivals |
//
// Nothing is exact. Counts are a count-min sketch with two rows: a hash has a count in each
// half of its page, with others, and the lower of the two is how often it came, or more. (Only
// the lower one goes up, so the other one errs less.) After six arrivals for each entry that
// a page was made for, all its counts are halved. Pages do that at different times, so one hash
// may have half the count of another that came as often; but there is no moment at which a
// shard has to do it for all.
//
// A new ghost takes the place of a vacant or of the oldest one in its set. Two hashes may
// be taken for one another, by a chance of some thousandths. Ages are counted in
// evictions from the same place, by stamps, of which there are sixteen. A ghost is too old
// from the eleventh on, and dropped when its set is looked at, nearly always before it
// would look young again.
type history struct {
	clocks [2]uint32 // by part: | stamp 4 | evictions since it went on 28 |
	unit   uint32    // evictions by which a stamp goes on
	pages  []page
}

// A part is what of a shard's order that an entry was evicted from.
type part uint32

const (
	ofSmall part = iota
	ofMain
)

type page struct {
	counts   [countsPerPage / countsPerWord]uint64
	ghosts   [setsPerPage]ghostSet
	arrivals uint8 // since the counts were halved
}

type ghostSet [5]uint16 // | hash 11 | part 1 | stamp 4 |, 0 if vacant

const (
	countsPerPage  = 64
	setsPerPage    = 3
	ghostsPerPage  = setsPerPage * len(ghostSet{})
	entriesPerPage = 11 // when the pages are made; a tenth more until there are more of them

	countsPerWord = 16
	mostCount     = 15
	halvedAfter   = 6 * entriesPerPage // arrivals; see page.arrivals

	stampBits    = 4
	stampMask    = 1<<stampBits - 1
	clockShift   = 32 - stampBits
	oldestGhosts = 10 // stamps; the pages have room for ghosts of so many
	fewPages     = 8
)

func cellOf(hash uint32, from part, stamp uint32) uint16 {
	return uint16(fingerprint(hash)<<(stampBits+1) | uint32(from)<<stampBits | stamp)
}

// fingerprint is never 0, so that no cell of a ghost is.
func fingerprint(hash uint32) uint32 {
	return max(hash*0x9e3779b1>>(32-(16-stampBits-1)), 1)
}

func (h *history) pageOf(hash uint32) *page {
	return &h.pages[uint64(hash*0x85ebca6b)*uint64(len(h.pages))>>32]
}

// touch makes the processor load what the other methods will look at.
func (h *history) touch(hash uint32) {
	if len(h.pages) > 0 {
		touchPage(h.pageOf(hash))
	}
}

// age returns from where a ghost was evicted, and how many stamps ago.
func (h *history) age(cell uint16) (part, uint32) {
	from := part(cell >> stampBits & 1)
	return from, (h.clocks[from]>>clockShift - uint32(cell)) & stampMask
}

// arrive counts an arrival, and removes what looks like the ghost of hash. It returns from
// where that was evicted, and whether this was just now.
func (h *history) arrive(hash uint32) (from part, justNow, wasGhost bool) {
	if len(h.pages) == 0 {
		return 0, false, false
	}
	p := h.pageOf(hash)
	p.count(hash)
	set, sought := p.setOf(hash), fingerprint(hash)
	for i, cell := range set {
		was, age := h.age(cell)
		switch {
		case age > oldestGhosts:
			set[i] = 0
		case uint32(cell)>>(stampBits+1) == sought:
			set[i] = 0
			from, justNow, wasGhost = was, age == 0, true
		}
	}
	return from, justNow, wasGhost
}

// arrivals returns about how often hash has arrived lately.
func (h *history) arrivals(hash uint32) int {
	if len(h.pages) == 0 {
		return 0
	}
	p := h.pageOf(hash)
	i, j := countsOf(hash)
	return min(p.at(i), p.at(j))
}

// evict makes a ghost. entries is how many the shard has.
func (h *history) evict(hash uint32, from part, entries int) {
	if n := len(h.pages) * entriesPerPage; entries > n+n/10 || entries < n/4 && len(h.pages) > fewPages {
		h.resize(entries)
	}
	h.clocks[from]++
	if h.clocks[from]&(1<<clockShift-1) >= h.unit {
		h.clocks[from] = (h.clocks[from]>>clockShift + 1) << clockShift
	}
	set := h.pageOf(hash).setOf(hash)
	oldest, most := 0, uint32(0)
	for i, cell := range set {
		_, age := h.age(cell)
		if cell == 0 || age > oldestGhosts {
			set[i] = 0
			age = stampMask
		}
		if age >= most {
			oldest, most = i, age
		}
	}
	set[oldest] = cellOf(hash, from, h.clocks[from]>>clockShift)
}

// resize happens when evictions begin, and again whenever the shard has got a tenth more entries
// than then, or fewer than a quarter. Hashes keep their order, so that three in four find on
// their new page what was on the old one, after such a step up.
func (h *history) resize(entries int) {
	old := h.pages
	h.pages = make([]page, max((entries+entriesPerPage-1)/entriesPerPage, fewPages))
	if len(old) > 0 {
		for i := range h.pages {
			middle := uint64(2*i+1) * uint64(len(old)) / uint64(2*len(h.pages))
			h.pages[i] = old[middle] // which has most of its hashes
		}
	}
	h.unit = uint32(len(h.pages) * ghostsPerPage / oldestGhosts)
}

func (p *page) setOf(hash uint32) *ghostSet { return &p.ghosts[hash%setsPerPage] }

// countsOf returns which counts of its page are those of hash, one in each half.
func countsOf(hash uint32) (i, j uint32) {
	bits := hash * 0xc2b2ae35
	return bits >> 27, countsPerPage/2 | bits>>22&(countsPerPage/2-1)
}

func (p *page) at(i uint32) int {
	return int(p.counts[i/countsPerWord] >> (4 * (i % countsPerWord)) & mostCount)
}

func (p *page) count(hash uint32) {
	i, j := countsOf(hash)
	a, b := p.at(i), p.at(j)
	if a <= b && a < mostCount {
		p.counts[i/countsPerWord] += 1 << (4 * (i % countsPerWord))
	}
	if b <= a && b < mostCount {
		p.counts[j/countsPerWord] += 1 << (4 * (j % countsPerWord))
	}
	if p.arrivals++; p.arrivals == halvedAfter {
		p.arrivals = 0
		for w := range p.counts {
			p.counts[w] = p.counts[w] >> 1 & 0x7777_7777_7777_7777
		}
	}
}
