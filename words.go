package wheelcache

import (
	"bytes"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"
)

// This is the only file with unsafe in it. It lays entries out in memory and
// copies keys and values word by word, so that readers need no lock.
//
// # Layout
//
// A bucket is a head and seven slots; a slot is a head, a key and a value:
//
//	control 8 | version 4 | marks 4 | slot 0 | slot 1 | ... | slot 6
//	                                  hash 4 | tick 4 | deadline 8 | key | value
//
// Readers want what is from the deadline on; it is contiguous, so that it spans
// few cache lines.
//
// Keys and values are padded to whole words. One of more than maxInline bytes
// is stored as a pointer to an immutable copy, its box. The memory is allocated
// as a Go array of bucketOf with the right types for key and value (the pointer
// type where boxed), so the collector knows every pointer in it and checks no
// bucket of a pointer-free cache at all. Only the way from a bucket to its
// slots, keys and values is computed here, from sizes that are constants in
// each instantiation.
//
// # Why a copy is never torn
//
// Writers hold the shard's lock, so there is one at a time. A writer makes the
// version odd, changes slots, makes it even again; a reader loads the version,
// copies the words it wants, loads the version again and throws the copy away
// unless both loads gave the same even number. This is a seqlock, with the one
// difference that makes it legal: every word that a reader may look at while a
// writer is at work is read and written by sync/atomic. So there is no data
// race by the memory model, and since Go's atomics are sequentially consistent,
// a reader that saw any word of a writer's change would see its odd version, or
// a later one, on the second load. The version wraps around after 2^30 changes
// of one bucket; a reader would have to sleep through exactly so many.
//
// An insert into a vacant slot leaves the version alone. It stores the words, then the
// control word with the tag: whoever sees the tag, sees the words. Nobody else believes
// what he reads there: a vacant slot's tag matches none, and a reader who has seen the tag
// of the entry before this one loaded the version before the end of that one's removal: it is
// odd, or has changed since.
//
// A torn copy is thrown away before anybody looks at it: it is never compared,
// never dereferenced. That matters for a string, say, of one length and another
// address. A box is dereferenced before the check, but a box is one word, and
// immutable; cleared slots hold nil there, which load allows for.
//
// # Why the collector is content
//
// A pointer must never be held in an integer, not even between two
// instructions, and an integer never in a pointer. So a word is copied as what
// it is: pointerWords says, for each type, which words are pointers, and those
// go through atomic.LoadPointer and atomic.StorePointer, with their write
// barriers. As in the compiler's own pointer maps, the first word of an
// interface is not one of them: type descriptors are not collected.
//
// The lock's holder, who is alone in writing keys and values, reads them
// without atomics. The deadline is different: a sliding read writes it without
// the lock (see sighting.begin), so it is atomic for everyone.

const (
	slotsPerBucket = 7
	pageSize       = 4 << 10
	maxInline      = 32 // bytes; a larger key or value is boxed
	wordSize       = unsafe.Sizeof(uintptr(0))

	// loadsUnaligned is true where a word may be loaded from any address.
	loadsUnaligned = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386"
)

// A cell holds a T in a slot. The empty array sets the alignment, to 8 on 32-bit
// machines too, as slotHead has it.
type cell[T any] struct {
	_ [0]atomic.Int64
	v T
}

// A copied holds a T on its way to or from a cell: it is whole words too, but
// aligned to words, since what is aligned to more is not kept on the stack of a
// 32-bit machine.
type copied[T any] struct {
	_ [0]uintptr
	v T
}

// slotHead is what every slot has, whatever its key and value. A slot without a
// tag in the control word is vacant and its contents mean nothing, except that
// pointer words are nil.
type slotHead struct {
	hash     uint32       // low half of the key's hash; the lock's holder only
	tick     uint32       // low half of the tick that the entry's record waits for, or noTick; the lock's holder only
	deadline atomic.Int64 // nanoseconds since the epoch, or expiry.NoDeadline
}

type slotOf[K, V any] struct {
	slotHead
	key   cell[K]
	value cell[V]
}

type bucketOf[K, V any] struct {
	bucketHead
	slots [slotsPerBucket]slotOf[K, V]
}

// boxed reports whether values of type T are stored as a pointer. It is a
// constant in each instantiation, and so are the sizes and offsets below, which
// are those of slotOf for the types that stand in for K and V there (see
// newBuckets). They are written so that they cost the inliner little.
func boxed[T any]() bool {
	return unsafe.Sizeof(*new(T)) > maxInline
}

// inline reports whether values of type T are in slots themselves.
func inline[T any]() bool {
	return unsafe.Sizeof(*new(T)) > 0 && !boxed[T]()
}

// stored returns the size that a T takes in a slot: that of its cell, or of one
// for a pointer if it is boxed. A T of size zero takes as much as a pointer,
// because no struct can end in nothing.
func stored[T any]() uintptr {
	if boxed[T]() || unsafe.Sizeof(*new(T)) == 0 {
		return unsafe.Sizeof(cell[*T]{})
	}
	return unsafe.Sizeof(cell[T]{})
}

func slotSize[K, V any]() uintptr {
	return unsafe.Sizeof(slotHead{}) + stored[K]() + stored[V]()
}

func bucketSize[K, V any]() uintptr {
	return unsafe.Sizeof(bucketHead{}) + slotsPerBucket*slotSize[K, V]()
}

// buckets is the memory of n buckets in a row.
type buckets struct {
	base unsafe.Pointer
	n    uint32
}

// newBuckets returns at least n vacant buckets: an allocation is rounded up to a
// size class, and what is left over by that would be wasted.
func newBuckets[K, V any](n int) buckets {
	switch {
	case boxed[K]():
		return newBucketsOf[*K, V](n)
	case unsafe.Sizeof(*new(K)) == 0:
		return newBucketsOf[uint64, V](n)
	}
	return newBucketsOf[K, V](n)
}

func newBucketsOf[StoredK, V any](n int) buckets {
	switch {
	case boxed[V]():
		return allocate[bucketOf[StoredK, *V]](n)
	case unsafe.Sizeof(*new(V)) == 0:
		return allocate[bucketOf[StoredK, uint64]](n)
	}
	return allocate[bucketOf[StoredK, V]](n)
}

// allocate writes to each page, or fresh ones would be faulted in twice: for
// reading, by the search that precedes an insert, and then for writing.
func allocate[T any](n int) buckets {
	s := slices.Grow([]T(nil), n)
	base := unsafe.Pointer(unsafe.SliceData(s))
	size := uintptr(cap(s)) * unsafe.Sizeof(*new(T))
	for page := uintptr(0); page < size; page += pageSize {
		*(*byte)(unsafe.Add(base, page)) = 0
	}
	return buckets{base, uint32(cap(s))}
}

// newDirectory returns a directory of 1<<depth segments, all zero. It is the first element
// of an array, and its segments are the others. The collector takes it for a segment, too, so
// it has pointers where a segment has; they stay nil.
func newDirectory(depth uint8) *directory {
	array := make([]segment, 1+1<<depth)
	d := (*directory)(unsafe.Pointer(unsafe.SliceData(array)))
	d.depth, d.shift = depth, 31-depth
	return d
}

// A directory must be laid out as a segment is, or these do not compile.
const (
	_ = -(unsafe.Sizeof(directory{}) ^ unsafe.Sizeof(segment{}))
	_ = -(unsafe.Offsetof(directory{}.depth) ^ unsafe.Offsetof(segment{}.n))
	_ = -(unsafe.Offsetof(directory{}.last) ^ unsafe.Offsetof(segment{}.fill))
)

// segments returns the segments of d.
func (d *directory) segments() []segment {
	return unsafe.Slice((*segment)(unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(segment{}))), 1<<d.depth)
}

// of returns the segment of hash. The shift by 32 - depth is done in two steps,
// neither of which can be 32, which the processor would take for 0.
func (d *directory) of(hash uint32) *segment {
	return (*segment)(unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(segment{})+uintptr(hash>>1>>(d.shift&31))*unsafe.Sizeof(segment{})))
}

// bucketAt returns bucket i of m. It must be less than m.n.
func bucketAt[K, V any](m buckets, i uint32) *bucketHead {
	return (*bucketHead)(unsafe.Add(m.base, uintptr(i)*bucketSize[K, V]()))
}

// slotAt returns slot i of the bucket.
func slotAt[K, V any](b *bucketHead, i int) *slotHead {
	return (*slotHead)(unsafe.Add(unsafe.Pointer(b), unsafe.Sizeof(bucketHead{})+uintptr(i)*slotSize[K, V]()))
}

// touch makes the processor load the home bucket of hash, all of it, and does not wait. So
// the bucket's head and the slot that it points to are under way at once, while the caller
// does something else, such as take the lock; one after the other, each would take as long
// as all the rest of a Set, if the cache is large. If not, it does nothing.
func (t *table[K, V]) touch(hash uint32) {
	if !t.isLarge() {
		return
	}
	seg := t.dir.Load().of(hash)
	address := uintptr(seg.base) + uintptr(seg.home(hash))*bucketSize[K, V]()
	prefetch(address, bucketSize[K, V]()) //wheelcache:underlock assembly that calls nothing
}

// isLarge reports whether the cache is likely to be larger than the processor's caches. If
// not, to ask for memory costs more than it gains.
func (t *table[K, V]) isLarge() bool { return t.dir.Load().depth >= t.touched }

// touchAll is touch for several hashes, most of them of entries: for the heads of all their
// buckets, then for the slots that the heads point to, which are half as many cache lines
// as all of the buckets.
func (t *table[K, V]) touchAll(hashes []uint32) {
	if !t.isLarge() {
		return
	}
	d := t.dir.Load()
	for _, hash := range hashes {
		seg := d.of(hash)
		address := uintptr(seg.base) + uintptr(seg.home(hash))*bucketSize[K, V]()
		prefetch(address, unsafe.Sizeof(bucketHead{})) //wheelcache:underlock assembly that calls nothing
	}
	for _, hash := range hashes {
		seg := d.of(hash)
		b := bucketAt[K, V](seg.buckets, seg.home(hash))
		for m := matching(b.control.Load(), tagOf(hash)); m != 0; m &= m - 1 {
			address := uintptr(unsafe.Pointer(slotAt[K, V](b, slotIn(m))))
			prefetch(address, slotSize[K, V]()) //wheelcache:underlock assembly that calls nothing
		}
	}
}

// touchPage is touch for a page of a history. Go's allocator lets it begin where a cache line
// does; otherwise only half of it would be loaded.
func touchPage(p *page) {
	prefetch(uintptr(unsafe.Pointer(p)), 1) //wheelcache:underlock assembly that calls nothing
}

// indexIn returns the index of a slot in its bucket.
func indexIn[K, V any](b *bucketHead, s *slotHead) int {
	return int((uintptr(unsafe.Pointer(s)) - uintptr(unsafe.Pointer(b)) - unsafe.Sizeof(bucketHead{})) / slotSize[K, V]())
}

// entryMemory is about how many bytes an entry takes in a bounded cache: a slot of
// buckets of which some tenths are filled on average, its records in the wheel and in
// the order, and its boxes.
func entryMemory[K, V any](filled uintptr) int64 {
	size := bucketSize[K, V]() * 10 / (filled * slotsPerBucket)
	size += 5 + 8
	if boxed[K]() {
		size += unsafe.Sizeof(*new(K))
	}
	if boxed[V]() {
		size += unsafe.Sizeof(*new(V))
	}
	return int64(size)
}

// slotIndex returns the index of a slot among all those of m, and false if it is
// not one of them.
func slotIndex[K, V any](m buckets, s *slotHead) (index uintptr, ok bool) {
	offset := uintptr(unsafe.Pointer(s)) - uintptr(m.base) // huge if s lies before
	bucket, within := offset/bucketSize[K, V](), offset%bucketSize[K, V]()
	return bucket*slotsPerBucket + (within-unsafe.Sizeof(bucketHead{}))/slotSize[K, V](), bucket < uintptr(m.n)
}

func keyOf(s *slotHead) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(s), unsafe.Sizeof(slotHead{}))
}

func valueOf[K any](s *slotHead) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(s), unsafe.Sizeof(slotHead{})+stored[K]())
}

// read is Get if count is 1, Peek if it is 0: it adds count to the hits or the
// misses. (The deadline is for GetOrLoad.) It takes no lock, writes nothing else and
// allocates nothing.
//
// It does what at, look and the counters do, for the common case: the entry is in
// its home bucket, no writer is in the way, and the deadline is not near. It is one
// straight line, because a read that misses the processor's caches costs in
// proportion to its number of instructions: the fewer there are, the more reads the
// processor has under way while it waits for memory. So for strings and keys of one
// word nothing is called between hashing and the end (all variables that are live
// across a call go through the stack), and no function with type parameters is
// inlined (that would load its dictionary). Whatever else there is to do,
// readCarefully does from the start.
func (c *Cache[K, V]) read(key K, count uint64) (value V, deadline int64, ok bool) {
	var h uint64
	switch {
	case unsafe.Sizeof(key) == 2*wordSize && c.path == pathString:
		h = sumString(*(*string)(unsafe.Pointer(&key)), c.hash.secret[0], c.hash.secret[1])
	case unsafe.Sizeof(key) == 8 && c.path == pathInteger:
		h = mix(*(*uint64)(unsafe.Pointer(&key)), c.hash.secret[0], c.hash.secret[1])
	case unsafe.Sizeof(key) == 4 && c.path == pathInteger:
		h = mix(uint64(*(*uint32)(unsafe.Pointer(&key))), c.hash.secret[0], c.hash.secret[1])
	case c.path == pathCareful:
		return c.readCarefully(key, count)
	default:
		h = c.hash.sum(key)
	}
	hash := uint32(h)
	t := (*table[K, V])(unsafe.Add(unsafe.Pointer(unsafe.SliceData(c.shards)), uintptr(h>>1>>(c.shift&63))*unsafe.Sizeof(shard[K, V]{})))

	// These are stored[K](), stored[V]() and slotSize[K, V](), and constants.
	keySize, valueSize := unsafe.Sizeof(cell[K]{}), unsafe.Sizeof(cell[V]{})
	if keySize-1 >= maxInline {
		keySize = unsafe.Sizeof(cell[*int]{})
	}
	if valueSize-1 >= maxInline {
		valueSize = unsafe.Sizeof(cell[*int]{})
	}
	slotSize := unsafe.Sizeof(slotHead{}) + keySize + valueSize

	d := t.dir.Load()
	seg := (*segment)(unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(segment{})+uintptr(hash>>1>>(d.shift&31))*unsafe.Sizeof(segment{})))
	b := (*bucketHead)(unsafe.Add(seg.base, uintptr(uint64(hash&(1<<bucketBits-1))*uint64(seg.n)>>bucketBits)*(unsafe.Sizeof(bucketHead{})+slotsPerBucket*slotSize)))
	version := b.version.Load()
	control := b.control.Load()
	if version&1 != 0 {
		return c.readCarefully(key, count)
	}
	m := matching(control, tagOf(hash))
next:
	for s := matched(b, m, slotSize); s != nil; s = matched(b, m, slotSize) {
		m &= m - 1
		switch {
		case unsafe.Sizeof(key) == 2*wordSize && c.path >= pathString:
			p := atomic.LoadPointer((*unsafe.Pointer)(unsafe.Add(s, unsafe.Sizeof(slotHead{}))))
			n := atomic.LoadUintptr((*uintptr)(unsafe.Add(s, unsafe.Sizeof(slotHead{})+wordSize)))
			if b.version.Load() != version {
				return c.readCarefully(key, count) // they may be of two strings
			}
			if n != uintptr(len(*(*string)(unsafe.Pointer(&key)))) {
				continue
			}
			q := unsafe.Pointer(unsafe.StringData(*(*string)(unsafe.Pointer(&key))))
			switch {
			case !loadsUnaligned:
				if unsafe.String((*byte)(p), n) != unsafe.String((*byte)(q), n) {
					continue
				}
			case n < 8:
				for ; n > 0; n-- {
					if *(*byte)(unsafe.Add(p, n-1)) != *(*byte)(unsafe.Add(q, n-1)) {
						continue next
					}
				}
			default:
				// By words from the end, two at a time; then the first word, which may
				// overlap the one before.
				for ; n > 16; n -= 16 {
					if differ(p, q, n-8)|differ(p, q, n-16) != 0 {
						continue next
					}
				}
				if n > 8 && differ(p, q, n-8) != 0 || differ(p, q, 0) != 0 {
					continue
				}
			}
		case unsafe.Sizeof(key) == 2*wordSize:
			k := (*[2]uintptr)(unsafe.Pointer(&key))
			if atomic.LoadUintptr((*uintptr)(unsafe.Add(s, unsafe.Sizeof(slotHead{})))) != k[0] || atomic.LoadUintptr((*uintptr)(unsafe.Add(s, unsafe.Sizeof(slotHead{})+wordSize))) != k[1] {
				continue
			}
		default:
			src := unsafe.Add(s, unsafe.Sizeof(slotHead{}))
			var k copied[K]
			switch {
			case unsafe.Sizeof(k.v) > maxInline:
				if p := (*K)(atomic.LoadPointer((*unsafe.Pointer)(src))); p != nil {
					k.v = *p
				}
			case unsafe.Sizeof(k) != wordSize:
				loadWords(unsafe.Pointer(&k), src, unsafe.Sizeof(k), t.keyPointers)
				if b.version.Load() != version {
					return c.readCarefully(key, count)
				}
			case t.keyPointers != 0:
				*(*unsafe.Pointer)(unsafe.Pointer(&k)) = atomic.LoadPointer((*unsafe.Pointer)(src))
			default:
				*(*uintptr)(unsafe.Pointer(&k)) = atomic.LoadUintptr((*uintptr)(src))
			}
			if k.v != key {
				continue
			}
		}
		src := unsafe.Add(s, unsafe.Sizeof(slotHead{})+keySize)
		var v copied[V]
		switch {
		case unsafe.Sizeof(v.v) > maxInline:
			if p := (*V)(atomic.LoadPointer((*unsafe.Pointer)(src))); p != nil {
				v.v = *p
			}
		case unsafe.Sizeof(v) != wordSize:
			loadWords(unsafe.Pointer(&v), src, unsafe.Sizeof(v), t.valuePointers)
		case t.valuePointers != 0:
			*(*unsafe.Pointer)(unsafe.Pointer(&v)) = atomic.LoadPointer((*unsafe.Pointer)(src))
		default:
			*(*uintptr)(unsafe.Pointer(&v)) = atomic.LoadUintptr((*uintptr)(src))
		}
		deadline = (*slotHead)(s).deadline.Load()
		if b.version.Load() != version || deadline <= c.clock.horizon.Load() {
			return c.readCarefully(key, count)
		}
		if t.order != nil && count > 0 {
			b.count(int((uintptr(s) - uintptr(unsafe.Pointer(b)) - unsafe.Sizeof(bucketHead{})) / slotSize))
		}
		c.reads.mine().hits.Add(count)
		return v.v, deadline, true
	}
	if control >= overflowOne {
		return c.readCarefully(key, count)
	}
	c.reads.mine().misses.Add(count)
	return value, 0, false
}

// write is put for the common case: in a plain table, the entry is in its home bucket and
// live, and the new deadline is no earlier than the old one, so that its record, if it
// needs one, is there and early enough. Then it does what putAt would. It answers
// miss if key is not there, and torn if it does not know, or there is more to do; then it
// has done nothing. Like read it is one straight line, and for the same reason.
func (s *shard[K, V]) write(hash uint32, key K, value V, deadline, now int64) outcome {
	if !s.plain {
		return torn
	}
	// These are slotSize[K, V]() and so on: no type of a plain table is boxed or of size 0.
	keySize, valueSize := unsafe.Sizeof(cell[K]{}), unsafe.Sizeof(cell[V]{})
	slotSize := unsafe.Sizeof(slotHead{}) + keySize + valueSize

	d := s.dir.Load()
	seg := (*segment)(unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(segment{})+uintptr(hash>>1>>(d.shift&31))*unsafe.Sizeof(segment{})))
	b := (*bucketHead)(unsafe.Add(seg.base, uintptr(uint64(hash&(1<<bucketBits-1))*uint64(seg.n)>>bucketBits)*(unsafe.Sizeof(bucketHead{})+slotsPerBucket*slotSize)))
	control := b.control.Load()
	m := matching(control, tagOf(hash))
	for p := matched(b, m, slotSize); p != nil; p = matched(b, m, slotSize) {
		m &= m - 1
		if *(*K)(unsafe.Add(p, unsafe.Sizeof(slotHead{}))) != key {
			continue
		}
		slot := (*slotHead)(p)
		old := slot.deadline.Load()
		// A sliding reader may move it until the bucket is open, but only to later.
		if deadline < old || old <= s.cache.clock.horizon.Load() && s.cache.clock.expired(old, now) {
			return torn
		}
		opened := b.begin()
		dst := unsafe.Add(p, unsafe.Sizeof(slotHead{})+keySize)
		v := copied[V]{v: value} // whole words
		switch {
		case valueSize != wordSize:
			store(dst, value, nil, s.valuePointers)
		case s.valuePointers != 0:
			atomic.StorePointer((*unsafe.Pointer)(dst), *(*unsafe.Pointer)(unsafe.Pointer(&v)))
		default:
			atomic.StoreUintptr((*uintptr)(dst), *(*uintptr)(unsafe.Pointer(&v)))
		}
		slot.deadline.Store(deadline)
		b.end(opened)
		s.sets++
		s.removed[Replaced-1]++
		return hit
	}
	if control >= overflowOne {
		return torn
	}
	return miss
}

// matched returns the slot of b that the lowest bit set of matches stands for, or
// nil. (That it may be nil keeps the compiler from computing the address again for
// each word of the slot.)
func matched(b *bucketHead, matches uint64, slotSize uintptr) unsafe.Pointer {
	if matches == 0 {
		return nil
	}
	return unsafe.Add(unsafe.Pointer(b), unsafe.Sizeof(bucketHead{})+uintptr(slotIn(matches))*slotSize)
}

// differ returns a word that is zero if the eight bytes at offset are alike.
func differ(p, q unsafe.Pointer, offset uintptr) uint64 {
	return *(*uint64)(unsafe.Add(p, offset)) ^ *(*uint64)(unsafe.Add(q, offset))
}

// loadKey and loadValue copy atomically, for readers without the lock. What
// they return may be torn until the bucket's version has been checked.
func loadKey[K any](s *slotHead, pointers uint8) K {
	return loadCell[K](keyOf(s), pointers)
}

func loadValue[K, V any](s *slotHead, pointers uint8) V {
	return loadCell[V](valueOf[K](s), pointers)
}

func loadCell[T any](src unsafe.Pointer, pointers uint8) (v T) {
	if boxed[T]() {
		if p := (*T)(atomic.LoadPointer((*unsafe.Pointer)(src))); p != nil {
			v = *p
		}
		return v
	}
	var c copied[T]
	loadWords(unsafe.Pointer(&c), src, unsafe.Sizeof(c), pointers)
	return c.v
}

// loadWords copies size bytes, a multiple of wordSize.
func loadWords(dst, src unsafe.Pointer, size uintptr, pointers uint8) {
	for i := uintptr(0); i < size; i += wordSize {
		loadWord(unsafe.Add(dst, i), unsafe.Add(src, i), pointers)
		pointers >>= 1
	}
}

func loadWord(dst, src unsafe.Pointer, pointers uint8) {
	if pointers&1 != 0 {
		*(*unsafe.Pointer)(dst) = atomic.LoadPointer((*unsafe.Pointer)(src))
	} else {
		*(*uintptr)(dst) = atomic.LoadUintptr((*uintptr)(src))
	}
}

// peekKey and peekValue read in place, for the lock's holder.
func peekKey[K any](s *slotHead) K {
	p := keyOf(s)
	if boxed[K]() {
		p = *(*unsafe.Pointer)(p)
	}
	return *(*K)(p)
}

func peekValue[K, V any](s *slotHead) V {
	p := valueOf[K](s)
	if boxed[V]() {
		p = *(*unsafe.Pointer)(p)
	}
	return *(*V)(p)
}

// A box is a pointer to an immutable copy of a large key or value.
type box unsafe.Pointer

// newBox returns the box for v, or nil if a T needs none. Where it can, a Set makes
// it before it takes the lock: an allocation may have to help the collector.
func newBox[T any](v T) box {
	if !boxed[T]() {
		return nil
	}
	p := new(T)
	*p = v
	return box(p)
}

// storeKey and storeValue write where readers may be looking: the lock's holder
// calls them between the bucket's begin and end, or for a slot that is vacant. A type
// that is boxed is stored as b; one that is not, as v.
func storeKey[K any](s *slotHead, v K, b box, pointers uint8) {
	store(keyOf(s), v, b, pointers)
}

func storeValue[K, V any](s *slotHead, v V, b box, pointers uint8) {
	store(valueOf[K](s), v, b, pointers)
}

func store[T any](dst unsafe.Pointer, v T, b box, pointers uint8) {
	if boxed[T]() {
		atomic.StorePointer((*unsafe.Pointer)(dst), unsafe.Pointer(b))
		return
	}
	c := copied[T]{v: v}
	src := unsafe.Pointer(&c)
	for i := uintptr(0); i < unsafe.Sizeof(c); i += wordSize {
		if pointers&1 != 0 {
			atomic.StorePointer((*unsafe.Pointer)(unsafe.Add(dst, i)), *(*unsafe.Pointer)(unsafe.Add(src, i)))
		} else {
			atomic.StoreUintptr((*uintptr)(unsafe.Add(dst, i)), *(*uintptr)(unsafe.Add(src, i)))
		}
		pointers >>= 1
	}
}

// clearSlot drops the slot's pointers, so that the collector can free what they
// point to. The lock's holder calls it between the bucket's begin and end.
func clearSlot[K, V any](s *slotHead, keyPointers, valuePointers uint8) {
	clearWords(keyOf(s), keyPointers)
	clearWords(valueOf[K](s), valuePointers)
}

func clearWords(p unsafe.Pointer, pointers uint8) {
	for ; pointers != 0; pointers &= pointers - 1 {
		i := uintptr(bits.TrailingZeros8(pointers))
		atomic.StorePointer((*unsafe.Pointer)(unsafe.Add(p, i*wordSize)), nil)
	}
}

// identical reports whether two values have the same bits, where mask has any: what
// lies between the fields of a struct is not copied with it. No mask means all bits.
func identical[V any](a, b V, mask []byte) bool {
	n := unsafe.Sizeof(a)
	x, y := unsafe.Slice((*byte)(unsafe.Pointer(&a)), n), unsafe.Slice((*byte)(unsafe.Pointer(&b)), n)
	if mask == nil {
		return bytes.Equal(x, y)
	}
	for i, m := range mask {
		if (x[i]^y[i])&m != 0 {
			return false
		}
	}
	return true
}

// maskOf returns the bits of a t that mean something, or nil if all do.
func maskOf(t reflect.Type) []byte {
	if !hasPadding(t) {
		return nil
	}
	mask := make([]byte, t.Size())
	fillMask(t, mask)
	return mask
}

func fillMask(t reflect.Type, mask []byte) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				fillMask(f.Type, mask[f.Offset:])
			}
		}
	case reflect.Array:
		for i := range t.Len() {
			fillMask(t.Elem(), mask[uintptr(i)*t.Elem().Size():])
		}
	default:
		for i := range t.Size() {
			mask[i] = 0xff
		}
	}
}

// hasPadding reports whether a t has bits that mean nothing.
func hasPadding(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		used := uintptr(0)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" || hasPadding(f.Type) {
				return true
			}
			used += f.Type.Size()
		}
		return used != t.Size()
	case reflect.Array:
		return t.Len() > 0 && hasPadding(t.Elem())
	}
	return false
}

// copySlot copies an entry into a bucket that is not published yet, where plain
// stores do. src must be frozen, or its deadline could move meanwhile.
func copySlot[K, V any](dst, src *slotHead) {
	*(*int64)(unsafe.Pointer(&dst.deadline)) = src.deadline.Load()
	dst.hash = src.hash
	dst.tick = src.tick
	copyCell[K](keyOf(dst), keyOf(src))
	copyCell[V](valueOf[K](dst), valueOf[K](src))
}

func copyCell[T any](dst, src unsafe.Pointer) {
	if boxed[T]() {
		*(*unsafe.Pointer)(dst) = *(*unsafe.Pointer)(src)
	} else {
		*(*T)(dst) = *(*T)(src)
	}
}

// setControl writes the control word of a bucket that is not published yet.
func setControl(b *bucketHead, c uint64) {
	*(*uint64)(unsafe.Pointer(&b.control)) = c
}

// pointerWords returns which words of a stored T are pointers: bit i for word
// i. A boxed T is one pointer.
func pointerWords[T any]() uint8 {
	if boxed[T]() {
		return 1
	}
	return pointersIn(reflect.TypeFor[T](), 0)
}

func pointersIn(t reflect.Type, offset uintptr) (words uint8) {
	word := uint8(1) << (offset / wordSize)
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func, reflect.String, reflect.Slice:
		return word
	case reflect.Interface:
		return word << 1
	case reflect.Array:
		for i := range t.Len() {
			words |= pointersIn(t.Elem(), offset+uintptr(i)*t.Elem().Size())
		}
	case reflect.Struct:
		for i := range t.NumField() {
			words |= pointersIn(t.Field(i).Type, offset+t.Field(i).Offset)
		}
	}
	return words
}

// A path is how read compares keys.
type path uint8

const (
	pathCareful      path = iota // not at all: it leaves the work to readCarefully
	pathDirect                   // by ==, or by words if there are two
	pathInteger                  // likewise; keys of an integer type
	pathString                   // keys of a string type, by their bytes
	pathStringCustom             // likewise, with a hash of the user's
)

func pathOf[K comparable](kind hashKind, slides bool) path {
	t := reflect.TypeFor[K]()
	switch {
	case slides: // read could not say where it found the entry
		return pathCareful
	case kind == hashInteger:
		return pathInteger
	case kind == hashString:
		return pathString
	case t.Kind() == reflect.String:
		return pathStringCustom
	case t.Size() == 2*wordSize && !wordwise(t):
		return pathCareful // a call would have to compare them, see read
	}
	return pathDirect
}

// wordwise reports whether values of the type are equal if and only if all their
// bytes are.
func wordwise(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	case reflect.Array:
		return wordwise(t.Elem())
	case reflect.Struct:
		size := uintptr(0)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" || !wordwise(f.Type) {
				return false
			}
			size += f.Type.Size()
		}
		return size == t.Size() // no padding
	}
	return false
}

// integerKey returns the bits of a key of an integer type.
func integerKey[K any](key K) uint64 {
	p := unsafe.Pointer(&key)
	switch unsafe.Sizeof(key) {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

// sumString hashes s with the function that Go's maps and maphash use, seeded by
// a. maphash.String does the same, but by way of three calls, which cost as much
// again.
func sumString(s string, a, b uint64) uint64 {
	p, n := unsafe.Pointer(unsafe.StringData(s)), uintptr(len(s))
	h := uint64(memhash(p, uintptr(a), n))
	if wordSize < 8 {
		h |= uint64(memhash(p, uintptr(b), n)) << 32
	}
	return h
}

// memhash is one of the functions of the runtime that the Go project keeps for
// packages outside it (see go.dev/issue/67401).
//
//go:linkname memhash runtime.memhash
//go:noescape
func memhash(p unsafe.Pointer, seed, size uintptr) uintptr

// stringKey returns a key of a string type as a string.
func stringKey[K any](key K) string {
	return *(*string)(unsafe.Pointer(&key))
}

const (
	mostStripes = 256
	stripeBytes = uint64(unsafe.Sizeof(readStripe{}))
)

// mine returns the stripe of the calling goroutine, which is chosen by the position
// of its stack: the same for calls from about the same depth.
func (r *readCounters) mine() *readStripe {
	var here byte
	// Fibonacci hashing, since stacks lie in rows, at distances of a power of two.
	// The 14 top bits are offsets into mostStripes of 64 bytes; the mask picks.
	offset := uint64(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b97f4a7c15 >> 50 & r.mask
	return (*readStripe)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.stripes)), uintptr(offset)))
}
