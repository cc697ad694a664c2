package wheelcache

import (
	"iter"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
	"github.com/wheelcache/wheelcache/wheel"
)

// check walks everything in the cache and fails the test if anything is out of
// place. It takes each shard's lock in turn. No sliding read may be under way.
func check[K comparable, V any](t testing.TB, c *Cache[K, V]) {
	t.Helper()
	keys := make(map[K]struct{})
	for i := range c.shards {
		s := &c.shards[i]
		func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			waiting := checkTable(t, c, i, keys)
			checkWheel(t, s, waiting, checkOrder(t, s))
			checkLoads(t, c, s)

			removed := uint64(0)
			for _, n := range s.removed {
				removed += n
			}
			if s.sets != uint64(s.count)+removed {
				require.Failf(t, "values stored are neither present nor removed", "shard %d: %d stored, %d present, %d removed", i, s.sets, s.count, removed)
			}
		}()
	}
	checkBound(t, c)
	checkDriver(t, c)
}

// checkDriver checks that the driver has said that it will be awake within a tick of when the
// first record of any shard is due. Others may be about to see to that, so it looks again, for
// seconds if need be.
func checkDriver[K comparable, V any](t testing.TB, c *Cache[K, V]) {
	t.Helper()
	d := &c.driver
	var wake, due int64
	for range 5_000_000 {
		if c.closed.Load() || c.clock.pauses.Load().paused() || c.removals != nil && c.removals.stalled.Load() {
			return // it sleeps until told otherwise
		}
		wake = d.wakeAt.Load()
		due = max(c.earliest(), d.restUntil.Load())
		if wake <= due || wake <= c.clock.now()+int64(max(c.tick, lockPause)) { // a shard was locked, or it is late
			return
		}
		runtime.Gosched()
	}
	require.Failf(t, "nobody wakes the driver", "it sleeps until %d, a shard has something to do at %d", wake, due)
}

// checkBound checks what the shards have of the bound. Entries may expire meanwhile, so
// it looks again if the sum is wrong.
func checkBound[K comparable, V any](t testing.TB, c *Cache[K, V]) {
	t.Helper()
	b := c.bound
	if b == nil {
		return
	}
	most := b.most.Load()
	var shares, free int64
	for range 100 {
		shares, free = 0, b.free.Load()
		for i := range c.shards {
			s := &c.shards[i]
			s.mu.Lock()
			shares += s.order.share
			s.mu.Unlock()
		}
		if free >= 0 && shares+free == most {
			return
		}
		runtime.Gosched()
	}
	require.Failf(t, "the bound is not what shards have and what is free", "bound %d, shares %d, free %d", most, shares, free)
}

// An awaited is what an entry says of its record.
type awaited struct {
	hash, tick uint32
}

// checkTable checks one shard's table. It returns the deadlines of the entries
// that say they have a record.
func checkTable[K comparable, V any](t testing.TB, c *Cache[K, V], shard int, keys map[K]struct{}) map[awaited][]int64 {
	t.Helper()
	s := &c.shards[shard]
	waiting := make(map[awaited][]int64)
	entries := 0
	listed := make(map[*fill]bool)
	for _, hash := range s.sparse {
		listed[s.dir.Load().of(hash).fill] = true
	}
	for _, seg := range checkDirectory(t, s.dir.Load()) {
		entries += seg.count
		if seg.listed && !listed[seg.fill] {
			require.Failf(t, "segment waits for nothing", "%d entries, %d buckets", seg.count, seg.n)
		}
		checkSegment(t, s, seg)
		each[K, V](seg, func(p spot) {
			slot := p.slot
			key := peekKey[K](slot)
			if equalToItself(key) {
				at, hash := c.at(key)
				if at != s || hash != slot.hash {
					require.Failf(t, "entry in a wrong place", "key %v, slot's hash %x, key's %x", key, slot.hash, hash)
				}
				if _, twice := keys[key]; twice {
					require.Failf(t, "key twice", "%v", key)
				}
				keys[key] = struct{}{}
				if p, ok := s.find(hash, key); !ok || p.slot != slot {
					require.Failf(t, "key cannot be found", "%v", key)
				}
			}
			deadline := slot.deadline.Load()
			if latest := s.latestOf(slot.hash, slot); deadline > latest {
				require.Failf(t, "entry lives too long", "key %v, deadline %d, latest %d", key, deadline, latest)
			}
			deadline = c.due(deadline) // with StaleFor, its record waits for the end of that
			if slot.tick == noTick {
				if deadline != expiry.NoDeadline && !s.inSmall(seg, p) {
					require.Failf(t, "entry without a record", "key %v, deadline %d", key, deadline)
				}
				return
			}
			a := awaited{slot.hash, slot.tick}
			waiting[a] = append(waiting[a], deadline)
		})
	}
	if entries != s.count {
		require.Failf(t, "entries of a shard", "%d counted, %d in segments", s.count, entries)
	}
	return waiting
}

// checkDirectory checks where segments stand, and returns each once.
func checkDirectory(t testing.TB, d *directory) (segments []*segment) {
	t.Helper()
	all := d.segments()
	if d.depth > maxDepth || d.shift != 31-d.depth || d.last != nil || d.canHalve() {
		require.Failf(t, "wrong directory", "depth %d, shift %d, written over: %v, can be halved: %v", d.depth, d.shift, d.last != nil, d.canHalve())
	}

	first := make(map[*fill]int)
	for i := range all {
		seg := &all[i]
		if seg.depth > d.depth {
			require.Failf(t, "segment deeper than the directory", "%d > %d", seg.depth, d.depth)
		}
		wide := 1 << (d.depth - seg.depth)
		start, known := first[seg.fill]
		if !known {
			start = i
			first[seg.fill] = i
			segments = append(segments, seg)
		}
		if start&(wide-1) != 0 || i >= start+wide {
			require.Failf(t, "segment stands in a wrong place", "index %d, first %d, width %d", i, start, wide)
		}
		if seg.base != all[start].base || seg.n != all[start].n {
			require.Failf(t, "copies of a segment differ", "indexes %d and %d", start, i)
		}
	}
	covered := 0
	for _, seg := range segments {
		covered += 1 << (d.depth - seg.depth)
	}
	if covered != len(all) {
		require.Failf(t, "a segment does not stand at all indexes with its prefix", "%d of %d", covered, len(all))
	}
	return segments
}

// checkSegment checks the buckets of a segment.
func checkSegment[K comparable, V any](t testing.TB, s *shard[K, V], seg *segment) {
	if seg.n == 0 { // emptySegment: never written to
		b := bucketAt[K, V](seg.buckets, 0)
		require.Zero(t, b.control.Load())
		require.Zero(t, b.version.Load())
	}
	if l := int(seg.n) * sizedPerPair / 2; seg.limit != limitOf(int(seg.n)) && seg.limit != l || seg.count > seg.limit {
		require.Failf(t, "wrong size", "%d buckets, limit %d, %d entries", seg.n, seg.limit, seg.count)
	}
	switch {
	case seg.n > 0 && s.limited:
		require.Len(t, seg.beside.latest, int(seg.n)*slotsPerBucket, "latest deadlines")
	default:
		require.True(t, seg.beside == nil || seg.beside.latest == nil, "latest deadlines")
	}

	occupied := 0
	passed := make([]int, seg.n) // entries that went past each bucket
	d := s.dir.Load()
	for i := range seg.n {
		b := bucketAt[K, V](seg.buckets, i)
		version, control := b.version.Load(), b.control.Load()
		if version&1 != 0 || version&frozen != 0 {
			require.Failf(t, "bucket is being changed or has been replaced", "version %x", version)
		}
		if marks := b.marks.Load(); marks != 0 && s.order == nil {
			require.Failf(t, "marks in a table without a bound", "%x", marks)
		}
		for j := range slotsPerBucket {
			slot := slotAt[K, V](b, j)
			tag := control >> (8 * j) & 0xff
			if tag == 0 {
				if !pointersAreNil(keyOf(slot), s.keyPointers) || !pointersAreNil(valueOf[K](slot), s.valuePointers) {
					require.Failf(t, "vacant slot holds a pointer", "bucket %d, slot %d", i, j)
				}
				continue
			}
			occupied++
			if tag != tagOf(slot.hash) {
				require.Failf(t, "wrong tag", "%x, hash %x", tag, slot.hash)
			}
			if d.of(slot.hash).fill != seg.fill {
				require.Failf(t, "entry in a wrong segment", "hash %x", slot.hash)
			}
			for k := seg.home(slot.hash); k != i; k = seg.after(k) {
				passed[k]++
			}
		}
	}
	if occupied != seg.count {
		require.Failf(t, "entries of a segment", "%d counted, %d found", seg.count, occupied)
	}
	for i, want := range passed {
		got := int(bucketAt[K, V](seg.buckets, uint32(i)).control.Load() >> 56)
		if got != want && got != maxOverflow {
			require.Failf(t, "wrong overflow count", "bucket %d of %d: %d, passed by %d", i, seg.n, got, want)
		}
	}
}

// inSmall reports whether an entry of a bounded table is in the part of its order where
// lines may wait for it.
func (s *shard[K, V]) inSmall(seg *segment, p spot) bool {
	return s.order != nil && p.mark()&inMain == 0 && s.costIn(seg, p) > 0
}

// checkWheel checks that the records of one shard are those its entries and lines say.
func checkWheel[K comparable, V any](t testing.TB, s *shard[K, V], waiting map[awaited][]int64, lines []awaited) {
	t.Helper()
	timed := 0
	for _, deadlines := range waiting {
		timed += len(deadlines)
	}
	next := s.next.Load()
	failing := expiry.NoDeadline
	if s.loads != nil {
		failing = s.failuresDue()
	}
	if next > failing {
		require.Failf(t, "late", "the shard sleeps until %d, a failure is due at %d", next, failing)
	}
	if s.wheel == nil {
		require.Zero(t, timed, "entries with a record, but no wheel")
		require.Empty(t, lines, "lines with a record, but no wheel")
		if len(s.sparse) == 0 && s.loads == nil {
			require.Equal(t, expiry.NoDeadline, next)
		}
		return
	}
	if timed != s.wheel.timed {
		require.Failf(t, "entries with a record", "%d counted, %d found", s.wheel.timed, timed)
	}
	if s.wheel.Len() < timed+len(lines) {
		require.Failf(t, "too few records", "%d for %d entries and %d lines", s.wheel.Len(), timed, len(lines))
	}
	for _, a := range lines {
		waiting[a] = append(waiting[a], expiry.NoDeadline)
	}

	ticks := make(map[awaited][]int64)
	first := int64(math.MaxInt64)
	for hash, tick := range s.wheel.Records() {
		a := awaited{hash, uint32(tick)}
		ticks[a] = append(ticks[a], tick)
		first = min(first, tick)
	}
	if s.wheel.Len() > 0 && next > s.cache.instantOf(first) {
		require.Failf(t, "late", "the shard sleeps until %d, a record waits for %d", next, s.cache.instantOf(first))
	}
	for a, deadlines := range waiting {
		if len(ticks[a]) < len(deadlines) {
			require.Failf(t, "record is missing", "%d for %d entries of hash %x and tick %x", len(ticks[a]), len(deadlines), a.hash, a.tick)
		}
		earliest, latest := slices.Min(ticks[a]), slices.Min(deadlines)
		if earliest != slices.Max(ticks[a]) {
			require.Failf(t, "ticks cannot be told apart", "%v", slices.Sorted(slices.Values(ticks[a])))
		}
		// An entry whose deadline has passed may have been given it late: its
		// record waits for the next tick then.
		due := max(s.cache.tickAfter(latest), s.wheel.Cursor()+1)
		if uint32(due) == noTick {
			due++
		}
		if earliest > due {
			require.Failf(t, "record waits too long", "for tick %d, the deadline %d is in tick %d", earliest, latest, due)
		}
	}
}

// checkOrder checks in which order the entries of one shard go, if it has a bound. It
// returns what the lines say of their records.
func checkOrder[K comparable, V any](t testing.TB, s *shard[K, V]) (waiting []awaited) {
	t.Helper()
	o := s.order
	if o == nil {
		return nil
	}
	type part struct {
		hash  uint32
		swept bool // as the entries of small are that a sweep has passed, or all if there is none
	}
	got := order{used: o.used, share: o.share, each: o.each, smallCount: o.smallCount, smallUsed: o.smallUsed, mainCount: o.mainCount}
	want := order{share: o.share, each: o.each}
	inSmall := make(map[part]int)
	inLine := make(map[part][]int64) // the deadlines of those that lines wait for
	for _, seg := range checkDirectory(t, s.dir.Load()) {
		each[K, V](seg, func(p spot) {
			cost := s.costIn(seg, p)
			want.used += cost
			switch mark := p.mark(); {
			case cost < 0:
				require.Failf(t, "negative cost", "%d", cost)
			case mark&inMain != 0:
				want.mainCount++
			case cost > 0:
				want.smallCount++
				want.smallUsed += cost
				at := part{p.slot.hash, mark&swept == o.parity}
				inSmall[at]++
				if due := s.cache.due(p.slot.deadline.Load()); p.slot.tick == noTick && due != expiry.NoDeadline {
					inLine[at] = append(inLine[at], due)
				}
				if !o.sweeping && mark&swept != o.parity {
					require.Failf(t, "an entry that no sweep has left", "mark %x, parity %x", mark, o.parity)
				}
			}
		})
	}
	require.Equal(t, want, got, "order")
	if o.used > o.share {
		require.Failf(t, "more than the share", "%d of %d", o.used, o.share)
	}
	records := make(map[part]int)
	earliest := make(map[part]uint32)
	used := 0
	for i, q := range []*fifo{&o.small, &o.unswept} {
		n := 0
		for l, hashes := range q.each(&o.lines) {
			for _, hash := range hashes {
				at := part{hash, i == 0}
				records[at]++
				if tick, ok := earliest[at]; l.tick != noTick && (!ok || int32(l.tick-tick) < 0) {
					earliest[at] = l.tick
				}
			}
			n += len(hashes)
		}
		require.EqualValues(t, n, q.len, "records")
		for number := q.first; number != 0; number = o.lines.at(number).next {
			require.Zero(t, o.lines.slabs[(number-1)/slabLines].free>>((number-1)%slabLines)&1, "line %d is free and in a queue", number)
			used++
		}
	}
	require.Equal(t, o.lines.used, used, "lines in queues")
	checkSlabs(t, &o.lines)
	for number := range uint32(len(o.lines.slabs) * slabLines) {
		if number++; !o.lines.known(number) {
			continue
		}
		if l := o.lines.at(number); l.tick != noTick {
			waiting = append(waiting, awaited{number, l.tick})
		}
	}
	require.Len(t, waiting, o.lines.waiting, "lines with a record")
	for at, deadlines := range inLine {
		due := int64(0)
		if s.wheel != nil {
			due = min(s.cache.tickAfter(slices.Min(deadlines)), s.wheel.Cursor()+wheel.Horizon)
		}
		if tick, ok := earliest[at]; !ok || int32(tick-uint32(due)) >= 0 {
			require.Failf(t, "entry without a record", "%+v: lines wait for %x, its deadline is in tick %x", at, tick, due)
		}
	}
	for at, n := range inSmall {
		if records[at] < n {
			require.Failf(t, "record is missing", "%d for %d entries in small: %+v", records[at], n, at)
		}
	}
	if n := o.records(); n > 4*o.smallCount+4*unsweptAllowed {
		require.Failf(t, "too many records", "%d for %d entries", n, o.smallCount)
	}
	return waiting
}

// checkSlabs checks that a list has all slabs with free lines, and another those without memory.
func checkSlabs(t testing.TB, l *lines) {
	t.Helper()
	inList, given := make(map[uint32]bool), make(map[uint32]bool)
	for n, prev := l.first, uint32(0); n != 0; n, prev = l.slabs[n-1].next, n {
		require.Equal(t, prev, l.slabs[n-1].prev, "slab before slab %d", n)
		inList[n] = true
	}
	for n := l.given; n != 0; n = l.slabs[n-1].next {
		given[n] = true
	}
	free, all := 0, 0
	for i, s := range l.slabs {
		n := uint32(i + 1)
		require.Equal(t, s.free != 0, inList[n], "slab %d has free lines", n)
		require.Equal(t, s.lines == nil, given[n], "slab %d has no memory", n)
		if s.lines != nil {
			free += bits.OnesCount16(s.free)
			all += slabLines
		}
	}
	require.Equal(t, free, l.free, "free lines")
	require.Equal(t, all-free, l.used, "lines in queues")
}

// checkLoads checks what one shard knows of loading. Loads may be under way.
func checkLoads[K comparable, V any](t testing.TB, c *Cache[K, V], s *shard[K, V]) {
	t.Helper()
	l := s.loads
	if l == nil {
		return
	}
	for key, f := range l.flights {
		select {
		case <-f.done:
			require.Failf(t, "flight that has landed and may still store", "key %v", key)
		default:
		}
		if at, _ := c.at(key); at != s {
			require.Failf(t, "flight in a wrong shard", "key %v", key)
		}
		if n := f.call.waiters.Load(); n < 0 {
			require.Failf(t, "flight that more have left than waited for it", "key %v, %d", key, n)
		}
	}
	if len(l.flights) > l.most {
		require.Failf(t, "flights", "%d, more than the most, %d", len(l.flights), l.most)
	}

	f := &l.failures
	if len(f.of) > f.most {
		require.Failf(t, "failures", "%d, more than the most, %d", len(f.of), f.most)
	}
	queued := make(map[failureKind]map[dueFailure[K]]bool)
	for kind, q := range f.queue {
		if len(q) > 2*f.most+fewFlights+1 {
			require.Failf(t, "queue of failures has grown", "kind %d: %d for at most %d failures", kind, len(q), f.most)
		}
		queued[failureKind(kind)] = make(map[dueFailure[K]]bool)
		for _, d := range q {
			queued[failureKind(kind)][dueFailure[K]{d.key, d.until, d.number}] = true
		}
	}
	for key, failed := range f.of {
		if at, _ := c.at(key); at != s {
			require.Failf(t, "failure in a wrong shard", "key %v", key)
		}
		if failed.until != expiry.NoDeadline && !queued[failed.kind][dueFailure[K]{key, failed.until, failed.number}] {
			require.Failf(t, "failure that nobody will forget", "key %v, kind %d, until %d", key, failed.kind, failed.until)
		}
	}
}

// checkLanded is check when no load is under way.
func checkLanded[K comparable, V any](t testing.TB, c *Cache[K, V]) {
	t.Helper()
	check(t, c)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n := 0
		if s.loads != nil {
			n = len(s.loads.flights)
		}
		s.mu.Unlock()
		require.Zero(t, n, "flights that nobody is in")
	}
}

// segmentsOf returns the segments of a shard.
func segmentsOf[K comparable, V any](t testing.TB, s *shard[K, V]) []*segment {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return checkDirectory(t, s.dir.Load())
}

// mustNew returns a cache that is closed when the test ends.
func mustNew[K comparable, V any](t testing.TB, o Options[K, V]) *Cache[K, V] {
	t.Helper()
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// contents returns the live entries, each seen once.
func contents[K comparable, V any](t testing.TB, c *Cache[K, V]) map[K]V {
	t.Helper()
	got := make(map[K]V)
	for k, v := range c.All() {
		if _, twice := got[k]; twice {
			require.Failf(t, "key seen twice", "%v", k)
		}
		got[k] = v
	}
	keys := make(map[K]struct{})
	for k := range c.Keys() {
		keys[k] = struct{}{}
	}
	require.Len(t, keys, len(got), "All and Keys")
	for k := range keys {
		if _, ok := got[k]; !ok {
			require.Failf(t, "key that All does not know", "%v", k)
		}
	}
	return got
}

// each yields the lines in order, and the hashes in them. The queue must not change meanwhile.
func (q *fifo) each(l *lines) iter.Seq2[*line, []uint32] {
	return func(yield func(*line, []uint32) bool) {
		from, left := int(q.taken), int(q.len)
		for number := q.first; left > 0; number, from = l.at(number).next, 0 {
			c := l.at(number)
			to := min(from+left, lineLen)
			if !yield(c, c.hashes[from:to]) {
				return
			}
			left -= to - from
		}
	}
}
