package wheelcache

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
)

// A table maps keys to values and deadlines. It knows nothing of wheels,
// clocks or callbacks. One goroutine at a time may change it, the holder of the
// shard's lock; any number may read it meanwhile, without the lock.
//
// # Terms and picture
//
// Entries lie in the slots of buckets (words.go has their layout). A row of
// buckets is a segment, an open-addressed hash table of its own, at most about
// 32 KB large. A directory finds the segment by the top bits of the hash, as in
// extendible hashing:
//
//	hash (low half):  segment bits | tag | bucket bits
//	                      |                   |
//	directory, depth 2    v                   v
//	  00 --------> segment, depth 1:   [bucket][bucket][bucket]...
//	  01 ------/                           |
//	  10 --------> segment, depth 2        v
//	  11 --------> segment, depth 2   control: 7 tags, overflow count; 7 slots
//
// An entry lives in its home bucket or, if that is full, in the first later one
// with a vacant slot, cyclically; each full bucket that it passed counts it in
// its overflow count. A search stops at the first bucket whose count is zero:
// nearly always at home. Deleting takes the counts back, so no tombstones are
// needed and deletes leave no dirt. (The counts are F14's. One that reached its
// maximum, 255, is stuck there until the segment is rebuilt, which costs probes,
// not answers.)
//
// # Growing
//
// An entry never moves within a segment. A full segment is replaced: by one
// twice as large while it is small, by two of the same size after that, which
// differ in the next bit of the hash. So the work of one growth step is bounded
// by the size of a segment, under 100 µs, up to some millions of entries per
// shard (then the bits that choose segments are used up, and segments grow); a
// resize of the whole would hold the lock for milliseconds. In return the way to a
// bucket is one load longer. Segments far from full are merged or replaced by
// smaller ones, likewise.
//
// Segment sizes differ from shard to shard by a factor of up to two, so that
// the shards of a cache do not all double at the same time: the memory of a
// growing cache rises steadily, at about 1.7 slots per entry, not between 1.2
// and 2.3.
//
// # Invariants
//
// A tag is zero if and only if its slot is vacant. A key is in at most one slot.
// For each entry, every bucket between its home and its own has no vacant slot
// before it was put there and counts it. A segment of depth d holds the entries
// whose hashes agree in the top d bits, and stands in the directory at all
// indexes with those bits. A segment always has a vacant slot, so every
// search ends. check, in check_test.go, walks all that.
//
// # Reading without the lock
//
// words.go says why a copy is never torn. Beyond that: an entry never moves
// within a segment, so a reader that goes from bucket to bucket cannot be
// overtaken by an entry that was there all the time. A replaced segment is never
// written again; a reader that is still in it answers as of the moment of
// replacement, which lies within its own call.
type table[K comparable, V any] struct {
	dir           atomic.Pointer[directory]
	order         *order // of entries that may be evicted, which have marks; nil if there is no bound
	keyPointers   uint8  // pointerWords of K and V
	valuePointers uint8  //
	limited       bool   // entries have a latest deadline, see limit.go
	costed        bool   // entries have costs, see order.go
	touched       uint8  // depth of a directory from which on touch does something
	plain         bool   // keys and values are in slots, and nobody else need know of a new value: see write
	maxBuckets    uint32 // of a segment; beyond that it is split, not enlarged

	sparse []uint32 // a hash of each segment that waits to be made smaller; only storms write that

	_ [8]byte // readers need what is above; below, the lock's holder writes

	count int // entries
}

// A directory is immutable once published; every change makes a new one. It lies before
// its segments, in one piece of memory (see newDirectory): a reader is at them with one
// load less, and a split makes one allocation less.
type directory struct {
	_     *fill
	depth uint8
	shift uint8 // 31 - depth: see of
	last  *fill // nil, as the first
}

// A segment is what the directory holds of one: by value, so that a reader is
// at its buckets with one load less. The fill level is shared by the copies.
type segment struct {
	buckets
	*fill
}

// fill is of a segment what changes. Only the lock's holder looks at it.
type fill struct {
	depth  uint8  // how many top bits of the hash all entries share
	listed bool   // in table.sparse
	visits uint32 // of the hand, modulo the number of buckets: see order.go
	count  int
	limit  int
	beside *beside // nil unless the table is limited or costed
}

// A beside is what only some tables have for each slot, by its index.
type beside struct {
	latest []atomic.Int64 // if table.limited: see limit.go
	costs  costs          // if table.costed
}

// bucketHead is what every bucket has, whatever its keys and values.
type bucketHead struct {
	// control: bytes 0 to 6 are the tags of the slots, byte 7 counts how many
	// entries went past this bucket for lack of room.
	control atomic.Uint64
	// version is odd while slots that are occupied are being changed. See words.go.
	version atomic.Uint32
	// marks has four bits per slot, which mean something in bounded tables, of entries:
	// see order.go. Readers without the lock change them, too.
	marks atomic.Uint32
}

const (
	maxSegmentBytes  = 32 << 10
	maxDepth         = 12 // bits of the hash that choose the segment
	touchedBits      = 6  // a cache of 1<<touchedBits segments, of 16 to 32 KB each, is larger than the caches of a processor
	bucketBits       = 12 // bits of the hash that choose the bucket
	limitPerPair     = 12 // entries for two buckets: with more, too many would not find room at home
	sizedPerPair     = 13 // likewise where capacity was asked for: a segment that got more than its share still has room
	maxOverflow      = 255
	overflowOne      = 1 << 56
	lowBits          = 0x0101010101010101
	highBits7        = 0x0080808080808080 // of the seven tags
	frozen           = 1 << 31            // of a version: the segment has been replaced
	optimisticTries  = 8
	noTick           = 0 // of slotHead.tick: the entry has no record of its own
	spinsBeforeYield = 16
)

// init readies t for about capacity entries; if that is none, with a directory
// of emptySegment, which tables may share. phase, from 0 to 1, staggers the sizes
// of segments; but if it is known that there will be most entries in the end, they are
// of the size with which those fit best.
func (t *table[K, V]) init(capacity, most int, phase float64, empty *directory) {
	t.keyPointers = pointerWords[K]()
	t.valuePointers = pointerWords[V]()
	largest := maxSegmentBytes / int(bucketSize[K, V]())
	t.maxBuckets = uint32(max(1, int(float64(largest)*(1-phase/2))))
	if most > 0 && bucketsToStay(most>>maxDepth) <= largest {
		depth := 0
		for bucketsToStay(most>>depth) > largest {
			depth++
		}
		t.maxBuckets = uint32(bucketsToStay(most >> depth))
	}
	if capacity == 0 {
		t.dir.Store(empty)
		return
	}
	depth := 0
	for depth < maxDepth && bucketsFor(capacity>>depth) > largest {
		depth++
	}
	d := newDirectory(uint8(depth))
	segments := d.segments()
	for i := range segments {
		segments[i] = t.newSegment(new(fill), bucketsFor(capacity>>depth), uint8(depth))
		segments[i].limit = int(segments[i].n) * sizedPerPair / 2
	}
	t.dir.Store(d)
}

// bucketsFor returns how many buckets n entries need that are expected, not counted.
func bucketsFor(n int) int {
	return (scattered(n)*2 + sizedPerPair - 1) / sizedPerPair
}

// scattered returns how many entries there may be where n are expected: hashing scatters
// them, so three standard deviations more.
func scattered(n int) int {
	margin := 1
	for margin*margin < 9*n {
		margin++
	}
	return n + margin
}

// bucketsToStay returns how many buckets n entries need that come and go: four
// standard deviations must fit, since a segment that is split once is not joined again.
func bucketsToStay(n int) int {
	margin := int(4*math.Sqrt(float64(n))) + 1
	return ((n+margin)*2 + limitPerPair - 1) / limitPerPair
}

// limitOf returns how many entries may be in n buckets.
func limitOf(n int) int {
	return n * limitPerPair / 2
}

// emptyDirectory returns a directory of emptySegment.
func emptyDirectory[K, V any]() *directory {
	d := newDirectory(0)
	d.fill(0, 0, emptySegment[K, V](0))
	return d
}

// emptySegment returns a segment for no entries: it has no buckets, but a vacant
// one to look at, so that a reader need not ask. The first insert replaces it, and
// nothing ever writes to it.
func emptySegment[K, V any](depth uint8) segment {
	return segment{buckets{newBuckets[K, V](1).base, 0}, &fill{depth: depth}}
}

func (t *table[K, V]) newSegment(f *fill, n int, depth uint8) segment {
	m := newBuckets[K, V](n)
	*f = fill{depth: depth, limit: limitOf(int(m.n))}
	if t.limited || t.costed {
		f.beside = new(beside)
	}
	if t.limited {
		f.beside.latest = make([]atomic.Int64, int(m.n)*slotsPerBucket)
	}
	if t.costed {
		f.beside.costs = newCosts(int(m.n) * slotsPerBucket)
	}
	return segment{m, f}
}

// home returns where the search for hash begins.
func (m *buckets) home(hash uint32) uint32 {
	return uint32(uint64(hash&(1<<bucketBits-1)) * uint64(m.n) >> bucketBits)
}

// after returns the bucket after i, cyclically.
func (m *buckets) after(i uint32) uint32 {
	if i++; i < m.n {
		return i
	}
	return 0
}

// tagOf returns the tag of hash. Its high bit is set, since a tag of zero means
// vacant.
func tagOf(hash uint32) uint64 {
	return uint64(hash>>bucketBits&0xff | 0x80)
}

// matching returns a word with the high bit set in the bytes of the tags that
// are equal to tag. Above such a byte it may also be set for one that differs
// from tag in the lowest bit, which the comparison of keys will find out.
func matching(control, tag uint64) uint64 {
	x := control ^ tag*lowBits
	return (x - lowBits) &^ x & highBits7
}

// vacant returns a word whose lowest bit set stands for the first vacant slot.
func vacant(control uint64) uint64 {
	return ^control & highBits7
}

// slotIn returns the slot that the lowest bit set of matches stands for.
func slotIn(matches uint64) int {
	return bits.TrailingZeros64(matches) / 8
}

// The answers of sight, and of write.
type outcome uint8

const (
	miss outcome = iota
	hit
	torn // something was in the way: ask again under the lock, or by find
)

// A sighting is where and when a reader saw an entry.
type sighting struct {
	bucket  *bucketHead
	slot    *slotHead
	version uint32
}

// sight returns copies of the value and the deadline of key, and where they were
// seen. It takes no lock, writes nothing and allocates nothing. (read, in words.go,
// does the same for an entry in its home bucket, in less time.)
func (t *table[K, V]) sight(hash uint32, key K) (value V, deadline int64, at sighting, o outcome) {
	seg := t.dir.Load().of(hash)
	i := seg.home(hash)
	tag := tagOf(hash)
	tries := 0
	for left := seg.n; left > 0; left-- {
		b := bucketAt[K, V](seg.buckets, i)
	again:
		version := b.version.Load()
		control := b.control.Load()
		for m := matching(control, tag); m != 0; m &= m - 1 {
			s := slotAt[K, V](b, slotIn(m))
			k := loadKey[K](s, t.keyPointers)
			value = loadValue[K, V](s, t.valuePointers)
			deadline = s.deadline.Load()
			if b.version.Load() != version || version&1 != 0 {
				if tries++; tries > optimisticTries {
					return value, 0, at, torn
				}
				goto again
			}
			if k == key {
				return value, deadline, sighting{b, s, version}, hit
			}
		}
		if control < overflowOne {
			break
		}
		i = seg.after(i)
	}
	// The tags of a bucket are one word, read at once: an entry that was there
	// throughout would have been met. So a miss needs no check of versions.
	return *new(V), 0, at, miss
}

// current reports whether no entry that was in the bucket has changed since, and it is
// still in use.
func (at sighting) current() bool {
	return at.version&frozen == 0 && at.bucket.version.Load() == at.version
}

// begin opens a change of the entry's deadline, and of nothing else, without the
// lock. It fails if any entry that was in the bucket has changed since, or the segment has
// been replaced; then the caller must look again.
func (at sighting) begin() bool {
	return at.version&frozen == 0 && at.bucket.version.CompareAndSwap(at.version, at.version+1)
}

// begin opens a change of the bucket's entries and returns what end wants. The
// caller has the lock, but a sliding reader may be in the bucket, for the few
// instructions that it takes to change a deadline; begin waits for it. From then
// on until end a deadline can be trusted to stay.
func (b *bucketHead) begin() (opened uint32) {
	if v := b.version.Load(); v&1 == 0 && b.version.CompareAndSwap(v, v+1) {
		return v
	}
	return b.beginAgain()
}

func (b *bucketHead) beginAgain() uint32 {
	for spins := 0; ; spins++ {
		v := b.version.Load()
		if v&1 == 0 && b.version.CompareAndSwap(v, v+1) {
			return v
		}
		if spins >= spinsBeforeYield {
			runtime.Gosched()
		}
	}
}

// end makes the change visible that begin opened. It returns the version from then on.
func (b *bucketHead) end(opened uint32) (version uint32) {
	version = (opened + 2) &^ frozen
	b.version.Store(version)
	return version
}

// freeze makes every later change without the lock fail, so that the bucket can
// be copied. Readers go on.
func (b *bucketHead) freeze() {
	b.version.Store((b.begin() + 2) | frozen)
}

// A spot is the place of an entry, for the lock's holder and until the next
// insert or remove.
type spot struct {
	bucket *bucketHead
	slot   *slotHead
	index  int // of the slot in the bucket
}

// find returns the spot of key. (sight, find, findRecord and ownerOf walk the same way, but
// each looks for something else at each match; a function value for that costs
// more than the walk.)
func (t *table[K, V]) find(hash uint32, key K) (spot, bool) {
	seg := t.dir.Load().of(hash)
	i := seg.home(hash)
	tag := tagOf(hash)
	for left := seg.n; left > 0; left-- {
		b := bucketAt[K, V](seg.buckets, i)
		control := b.control.Load()
		for m := matching(control, tag); m != 0; m &= m - 1 {
			if s := slotAt[K, V](b, slotIn(m)); peekKey[K](s) == key {
				return spot{b, s, slotIn(m)}, true
			}
		}
		if control < overflowOne {
			break
		}
		i = seg.after(i)
	}
	return spot{}, false
}

// findRecord returns the spot of an entry whose wheel record waits for tick and
// whose deadline is by or before it.
func (t *table[K, V]) findRecord(hash, tick uint32, by int64) (spot, bool) {
	seg := t.dir.Load().of(hash)
	i := seg.home(hash)
	tag := tagOf(hash)
	for left := seg.n; left > 0; left-- {
		b := bucketAt[K, V](seg.buckets, i)
		control := b.control.Load()
		for m := matching(control, tag); m != 0; m &= m - 1 {
			if s := slotAt[K, V](b, slotIn(m)); s.hash == hash && s.tick == tick && s.deadline.Load() <= by {
				return spot{b, s, slotIn(m)}, true
			}
		}
		if control < overflowOne {
			break
		}
		i = seg.after(i)
	}
	return spot{}, false
}

// overwrite gives the entry at p another value and deadline, and another latest
// one. The bucket is open before, and closed after.
func (t *table[K, V]) overwrite(p spot, opened uint32, value V, b box, deadline, latest int64) {
	storeValue[K](p.slot, value, b, t.valuePointers)
	p.slot.deadline.Store(deadline)
	if t.limited {
		t.latestAt(p.slot.hash, p.slot).Store(latest)
	}
	p.bucket.end(opened)
}

// insert puts in an entry whose key is not there yet. The bucket need not be opened: see
// words.go.
func (t *table[K, V]) insert(hash uint32, key K, value V, b box, deadline, latest int64) spot {
	seg := t.dir.Load().of(hash)
	for seg.count >= seg.limit {
		t.makeRoom(hash)
		seg = t.dir.Load().of(hash)
	}
	seg.count++
	t.count++
	keyBox := newBox(key)
	for i := seg.home(hash); ; i = seg.after(i) {
		bucket := bucketAt[K, V](seg.buckets, i)
		control := bucket.control.Load()
		free := vacant(control)
		if free == 0 {
			bucket.control.Store(passed(control))
			continue
		}
		j := slotIn(free)
		s := slotAt[K, V](bucket, j)
		s.hash = hash
		s.tick = noTick
		storeKey(s, key, keyBox, t.keyPointers)
		storeValue[K](s, value, b, t.valuePointers)
		s.deadline.Store(deadline)
		if t.limited {
			t.latestAt(hash, s).Store(latest)
		}
		bucket.control.Store(control | tagOf(hash)<<(8*j))
		return spot{bucket, s, j}
	}
}

// passed returns control with one more entry that went past it.
func passed(control uint64) uint64 {
	if control < maxOverflow*overflowOne {
		control += overflowOne
	}
	return control
}

// remove takes out the entry at p. The bucket is open before, and closed after. It
// reports whether the segment is sparse: the caller makes it smaller, now or later.
func (t *table[K, V]) remove(p spot, opened uint32) (sparse bool) {
	hash := p.slot.hash
	p.bucket.control.Store(p.bucket.control.Load() &^ (0xff << (8 * p.index)))
	clearSlot[K, V](p.slot, t.keyPointers, t.valuePointers)
	p.slot.tick = noTick
	p.bucket.end(opened)

	seg := t.dir.Load().of(hash)
	for i := seg.home(hash); ; i = seg.after(i) {
		b := bucketAt[K, V](seg.buckets, i)
		if b == p.bucket {
			break
		}
		if c := b.control.Load(); c < maxOverflow*overflowOne {
			b.control.Store(c - overflowOne)
		}
	}
	seg.count--
	t.count--
	return seg.isSparse()
}

// isSparse reports whether reduce is due.
func (seg *segment) isSparse() bool {
	return seg.count*8 < seg.limit && (seg.n > 1 || seg.depth > 0)
}

// reduceNow makes the segment of hash as small as it can be.
func (t *table[K, V]) reduceNow(hash uint32) {
	for t.reduce(hash) {
	}
}

// reduceLater puts the segment of hash, which is sparse, on the list. That is for
// expiry: to make a segment smaller takes ten times as long as a turn's entries do,
// and one that is empty by the time its turn comes costs nearly nothing.
func (t *table[K, V]) reduceLater(hash uint32) {
	if seg := t.dir.Load().of(hash); !seg.listed {
		seg.listed = true
		t.sparse = append(t.sparse, hash)
	}
}

// reduceListed does one step for the last segment on the list.
func (t *table[K, V]) reduceListed() {
	last := len(t.sparse) - 1
	hash := t.sparse[last]
	seg := t.dir.Load().of(hash)
	filled := seg.listed && !seg.isSparse() // again, meanwhile
	if !filled && t.reduce(hash) {
		return // what has taken its place may be made smaller still
	}
	seg.listed = false
	if t.sparse = t.sparse[:last]; last == 0 {
		t.sparse = nil
	}
}

// each calls f for the entries of a segment. f may not change the table.
func each[K, V any](seg *segment, f func(spot)) {
	for i := range seg.n {
		b := bucketAt[K, V](seg.buckets, i)
		for control, j := b.control.Load(), 0; j < slotsPerBucket; j++ {
			if control>>(8*j)&0xff != 0 {
				f(spot{b, slotAt[K, V](b, j), j})
			}
		}
	}
}

// freeze makes sure that nothing in seg changes any more, without the lock.
func freeze[K, V any](seg *segment) {
	for i := range seg.n {
		bucketAt[K, V](seg.buckets, i).freeze()
	}
}

// makeRoom replaces the full segment of hash by a larger one or by two.
func (t *table[K, V]) makeRoom(hash uint32) {
	old := *t.dir.Load().of(hash)
	if old.n < t.maxBuckets {
		t.replace(hash, old.depth, t.rebuilt(t.sizeAbove(old.n), old.depth, old))
		return
	}
	// A hash worth its name halves the segment. One that does not, such as a
	// constant, would double the directory for nothing: enlarge the segment.
	zeros := t.zeros(&old)
	if old.depth == maxDepth || zeros < old.count/16 || zeros > old.count-old.count/16 {
		t.replace(hash, old.depth, t.rebuilt(2*int(old.n), old.depth, old))
		return
	}
	// Both parts are of the usual size for that unless old was larger, or divides badly.
	depth := old.depth + 1
	fills := new([2]fill) // in one allocation, since this is where a growing cache makes most
	part := func(f *fill, count int) segment {
		n := t.sizeOfPart()
		if limitOf(n) < count {
			n = int(t.maxBuckets)
		}
		for limitOf(n) < count {
			n *= 2
		}
		return t.newSegment(f, n, depth)
	}
	parts := [2]segment{part(&fills[0], zeros), part(&fills[1], old.count-zeros)}
	t.copyTo(old, func(hash uint32) *segment { return &parts[hash>>(32-depth)&1] })
	t.split(hash, depth, parts)
}

// zeros counts the entries that go to the first half when seg is split.
func (t *table[K, V]) zeros(seg *segment) (n int) {
	each[K, V](seg, func(p spot) {
		n += int(^p.slot.hash >> (31 - seg.depth) & 1)
	})
	return n
}

// reduce does one step of making the segment of hash smaller: it joins it with its
// sibling if both are nearly empty, or copies it to fewer buckets. It reports whether
// there was something to do.
func (t *table[K, V]) reduce(hash uint32) (done bool) {
	d := t.dir.Load()
	seg := *d.of(hash)
	if seg.depth > 0 {
		sibling := *d.of(hash ^ 1<<(32-seg.depth))
		sum := seg.count + sibling.count
		if sibling.depth == seg.depth && sum <= limitOf(int(t.maxBuckets))/2 {
			t.replace(hash, seg.depth-1, t.rebuilt(t.sizeFor(sum), seg.depth-1, seg, sibling))
			return true
		}
	}
	if n := t.sizeFor(seg.count); n <= int(seg.n)/2 {
		t.replace(hash, seg.depth, t.rebuilt(n, seg.depth, seg))
		return true
	}
	return false
}

// sizeAbove returns the size that comes after n buckets, and sizeFor the one
// for count entries and half as many again. Sizes are maxBuckets halved some
// times, or doubled where a bad hash leaves no choice.
//
// A table that is going to be full for long, of nobody knows how many entries, also has
// a size between maxBuckets and half of that. Its segments are filled better for it,
// and each entry is copied once more while it grows.
func (t *table[K, V]) sizeAbove(n uint32) int {
	if t.costed && n >= t.maxBuckets/2 {
		return int(min(n+t.maxBuckets/4+1, t.maxBuckets))
	}
	size := t.maxBuckets
	for size/2 > n {
		size /= 2
	}
	return int(size)
}

// sizeOfPart returns the size for half of what fills maxBuckets.
func (t *table[K, V]) sizeOfPart() int {
	if t.costed {
		return int(t.maxBuckets*3/4 + 1)
	}
	return int(t.maxBuckets)
}

func (t *table[K, V]) sizeFor(count int) int {
	size := int(t.maxBuckets)
	for limitOf(size) < count+count/2 {
		size *= 2
	}
	for size > 1 && limitOf(size/2) >= count+count/2 {
		size /= 2
	}
	return size
}

// rebuilt returns a new segment of n buckets with the entries of the old ones.
func (t *table[K, V]) rebuilt(n int, depth uint8, old ...segment) segment {
	seg := t.newSegment(new(fill), n, depth)
	for _, o := range old {
		t.copyTo(o, func(uint32) *segment { return &seg })
	}
	return seg
}

// copyTo copies the entries of old, which is about to be replaced, to segments
// that are not published yet. It takes about 60 ns per entry.
func (t *table[K, V]) copyTo(old segment, to func(hash uint32) *segment) {
	freeze[K, V](&old)
	each[K, V](&old, func(p spot) {
		src := p.slot
		seg := to(src.hash)
		seg.count++
		for i := seg.home(src.hash); ; i = seg.after(i) {
			b := bucketAt[K, V](seg.buckets, i)
			control := b.control.Load()
			free := vacant(control)
			if free == 0 {
				setControl(b, passed(control))
				continue
			}
			j := slotIn(free)
			dst := slotAt[K, V](b, j)
			copySlot[K, V](dst, src)
			if t.limited {
				copyLatest[K, V](seg, dst, &old, src)
			}
			if t.order != nil {
				b.setMark(j, p.mark())
			}
			if t.costed {
				copyCost[K, V](seg, dst, &old, src)
			}
			setControl(b, control|tagOf(src.hash)<<(8*j))
			return
		}
	})
}

// replace publishes a directory in which seg, of the given depth, has taken the
// place of what was there for hash.
func (t *table[K, V]) replace(hash uint32, depth uint8, seg segment) {
	d := t.dir.Load().clone(0)
	d.fill(hash, depth, seg)
	for d.canHalve() {
		d = d.halved()
	}
	t.dir.Store(d)
}

// split publishes a directory with two segments of that depth in place of one.
func (t *table[K, V]) split(hash uint32, depth uint8, parts [2]segment) {
	old := t.dir.Load()
	grown := uint8(0)
	if depth > old.depth {
		grown = 1
	}
	d := old.clone(grown)
	bit := uint32(1) << (32 - depth)
	d.fill(hash&^bit, depth, parts[0])
	d.fill(hash|bit, depth, parts[1])
	t.dir.Store(d)
}

// clone returns a copy of d that is grown bits deeper.
func (d *directory) clone(grown uint8) *directory {
	c := newDirectory(d.depth + grown)
	old, segments := d.segments(), c.segments()
	for i := range segments {
		segments[i] = old[i>>grown]
	}
	return c
}

// fill enters seg wherever the top depth bits are those of hash.
func (d *directory) fill(hash uint32, depth uint8, seg segment) {
	n := uint32(1) << (d.depth - depth)
	first := hash >> 1 >> d.shift &^ (n - 1)
	segments := d.segments()
	for i := range n {
		segments[first+i] = seg
	}
}

// canHalve reports whether no segment needs the last bit of the index.
func (d *directory) canHalve() bool {
	segments := d.segments()
	for i := range segments {
		if segments[i].depth == d.depth {
			return false
		}
	}
	return true
}

func (d *directory) halved() *directory {
	h := newDirectory(d.depth - 1)
	old, segments := d.segments(), h.segments()
	for i := range segments {
		segments[i] = old[2*i]
	}
	return h
}
