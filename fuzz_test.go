package wheelcache

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A program is bytes that say how to make a cache and what to do with it. Where
// it ends, zeros follow.
type program struct {
	data []byte
}

func (p *program) next() byte {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return b
}

const (
	longestProgram = 600 // bytes
	universe       = 1024
)

// The operations, by the first byte of each. Two bytes follow: a key and
// something else.
const (
	doSet byte = iota
	doSetTTL
	doSetDeadline
	doGet
	doPeek
	doEntry
	doReplace
	doGetOrSet
	doMove
	doTouch
	doDelete
	doGetAndDelete
	doCompute
	doDeleteFunc
	doClear
	doAll
	doExpiring
	doFlush
	doCompareAndSwap
	doCompareAndDelete
	doAdvance
	doSetMany
	doGetMany
	doMoveMany
	doDeleteMany
	doAlign
	doGetOrLoad
	doLoadAll
	doRefresh
	doPause
	doResume
	doResize
	operations

	doClose = 255
)

// replay runs a program on a cache and its model.
func replay(t testing.TB, data []byte) {
	if len(data) > longestProgram {
		data = data[:longestProgram]
	}
	p := &program{data}
	switch p.next() % 3 {
	case 0:
		replayAs(t, p, func(i int) uint64 { return uint64(i) }, func(i int) uint64 { return uint64(i) }, func(k uint64) int { return int(k) }, func(v uint64) int { return int(v) })
	case 1:
		replayAs(t, p, strconv.Itoa, func(i int) [5]int { return [5]int{i, -i} }, func(k string) int { i, _ := strconv.Atoi(k); return i }, func(v [5]int) int { return v[0] })
	case 2:
		replayAs(t, p, func(i int) [5]int { return [5]int{4: i} }, func(i int) any {
			if i%2 == 0 {
				return i
			}
			return strconv.Itoa(i)
		}, func(k [5]int) int { return k[4] }, func(v any) int {
			if s, ok := v.(string); ok {
				i, _ := strconv.Atoi(s)
				return i
			}
			return v.(int)
		})
	}
}

// oddPolicy claims nothing and answers strangely: an update halves what is left
// of a life, a read takes a tick from it.
type oddPolicy[K, V comparable] struct {
	modelRules[K, V]
}

func (p oddPolicy[K, V]) Create(k K, v V) time.Duration { return p.create(k, v) }

func (p oddPolicy[K, V]) Update(k K, v V, remaining time.Duration) time.Duration {
	return p.update(k, v, remaining)
}

func (p oddPolicy[K, V]) Read(k K, v V, remaining time.Duration) time.Duration {
	return p.read(k, v, remaining)
}

func replayAs[K, V comparable](t testing.TB, p *program, key func(int) K, value func(int) V, index func(K) int, number func(V) int) {
	var o Options[K, V]
	ticks := p.next()
	o.Tick = []time.Duration{0, time.Microsecond, time.Millisecond, 1234567}[ticks%4]
	o.Slots = []int{0, 1, 8, 64}[p.next()%4]
	o.Shards = []int{1, 2, 4}[p.next()%3]
	tick, slots := o.Tick, time.Duration(max(o.Slots, firstSlots))
	if tick == 0 {
		tick = defaultTick
	}
	const horizon = 1 << 30 // ticks
	ttls := []time.Duration{
		tick, expiry.Never, 1, tick - 1, tick + 1, 2 * tick, 3*tick + 1, slots*tick - 1, slots * tick, slots*tick + 1,
		10*slots*tick + tick/2, 100 * tick, time.Hour, horizon*tick - tick, horizon * tick, horizon*tick + 1, (horizon+1)*tick + 1,
		2*horizon*tick + 1, 5 * horizon * tick, math.MaxInt64 - 1, 0, -1, -tick, math.MinInt64,
	}
	lived := ttls[:20] // more than zero
	ttl := func(b byte) time.Duration { return ttls[int(b)%len(ttls)] }

	keeps := func(_ K, _ V, remaining time.Duration) time.Duration { return remaining }
	fixed := lived[int(p.next())%len(lived)]
	constant := func(K, V) time.Duration { return fixed }
	always := func(K, V, time.Duration) time.Duration { return fixed }
	byKey := func(k K, _ V) time.Duration { return max(ttls[index(k)%len(ttls)], 0) }
	var rules *modelRules[K, V]
	kind := p.next()
	switch kind % 7 {
	case 0:
		o.TTL = fixed
	case 1: // entries do not expire by themselves
	case 2:
		o.Expiry = expiry.AfterCreate[K, V](fixed)
		rules = &modelRules[K, V]{constant, keeps, keeps}
	case 3:
		o.Expiry = expiry.AfterWrite[K, V](fixed)
		rules = &modelRules[K, V]{constant, always, keeps}
	case 4:
		o.Expiry = expiry.AfterAccess[K, V](fixed)
		rules = &modelRules[K, V]{constant, always, always}
	case 5:
		o.Expiry = expiry.Func(byKey)
		rules = &modelRules[K, V]{byKey, func(k K, v V, _ time.Duration) time.Duration { return byKey(k, v) }, keeps}
	case 6:
		rules = &modelRules[K, V]{byKey, func(_ K, _ V, remaining time.Duration) time.Duration { return remaining / 2 },
			func(_ K, _ V, remaining time.Duration) time.Duration { return max(remaining-tick, 0) }}
		o.Expiry = oddPolicy[K, V]{*rules}
	}
	var maxAge time.Duration
	if o.Expiry != nil && kind/7%2 == 1 {
		maxAge = lived[int(kind/14)%len(lived)]
		o.Expiry = expiry.Limit(o.Expiry, maxAge)
	}
	switch p.next() % 5 {
	case 1:
		o.Hash = func(K) uint64 { return 0 }
	case 2:
		o.Hash = func(k K) uint64 { return uint64(index(k)) & 7 }
	case 3:
		o.Hash = func(k K) uint64 { return uint64(max(index(k), 100)) }
	case 4:
		o.Hash = func(k K) uint64 { return uint64(index(k)) }
	}
	size := p.next()
	if size%4 == 3 {
		o.Capacity = int(size)
	}
	loads := size / 4
	o.NegativeTTL = []time.Duration{0, 3 * tick}[loads%2]
	o.ErrorTTL = []time.Duration{0, 2*tick + 1}[loads/2%2]
	o.StaleFor = []time.Duration{0, tick / 2, 10 * tick, time.Hour}[loads/4%4]
	if o.TTL > 0 || o.Expiry != nil && expiry.TraitsOf(o.Expiry).ReadKeeps {
		switch loads / 16 {
		case 1:
			o.RefreshAfter = fixed / 2
		case 2:
			o.RefreshFraction = 0.25
		case 3:
			o.RefreshFraction = 0.75
		}
	}
	// Some entries are pinned, some cost less than nothing, some more than any bound.
	cost := func(k K, v V) int64 {
		switch c := int64(index(k)*7+number(v)) % 50; {
		case c < 5:
			return 0
		case c == 5:
			return -1
		case c == 6:
			return math.MaxInt64
		default:
			return c
		}
	}
	bounds := boundOf(ticks)
	most := []int64{1, 2, 5, 16, 64, 100, 200, 400}[bounds%8]
	switch bounds / 8 {
	case byEntries:
		o.MaxEntries = int(most)
	case byCost:
		most *= 10
		o.MaxCost, o.Cost = most, cost
	case byMemory:
		most *= 60
		o.MaxMemory = most
	case byMemoryAndCost:
		most *= 100
		o.MaxMemory, o.Cost = most, cost
	}
	w := newModelled(t, o, rules)
	w.model.maxAge = maxAge
	if b := w.cache.bound; b != nil {
		w.boundBy(most, func(k K, v V) int64 {
			switch {
			case b.cost == nil && b.overhead == 0:
				return 1
			case b.cost == nil:
				return b.overhead
			}
			c := cost(k, v)
			if c >= 0 {
				c += min(b.overhead, math.MaxInt64-c)
			}
			return c
		})
	}
	if size%4 < 3 {
		// Small segments, so that few entries are enough to split and merge them.
		for i := range w.cache.shards {
			w.cache.shards[i].maxBuckets = []uint32{3, 4, 1000}[size%4]
		}
	}

	for step := 1; len(p.data) > 0; step++ {
		op, a, b := p.next(), p.next(), p.next()
		k, v := key(int(a)), value(step)
		many := func(f func(k K)) {
			for i := range int(b) * 2 {
				f(key((int(a)*4 + i) % universe))
			}
		}
		if op != doClose {
			op %= operations
		}
		switch op {
		case doSet:
			w.set(k, v)
		case doSetTTL:
			w.setTTL(k, v, ttl(b))
		case doSetDeadline:
			w.setDeadline(k, v, ttl(b))
		case doGet:
			w.get(k)
		case doPeek:
			w.peek(k)
		case doEntry:
			w.entry(k)
		case doReplace:
			w.replace(k, v)
		case doGetOrSet:
			w.getOrSet(k, v)
		case doMove:
			w.move(k, ttl(b))
		case doTouch:
			w.touch(k)
		case doDelete:
			w.delete(k)
		case doGetAndDelete:
			w.getAndDelete(k)
		case doCompute:
			w.compute(k, []Op{OpStore, OpKeep, OpRemove}[b%3], v)
		case doDeleteFunc:
			w.deleteFunc(func(k K, _ V) bool { return index(k)&int(b) == int(a)&int(b) })
		case doClear:
			w.clear()
		case doAll:
			w.compareAll()
		case doExpiring:
			w.expiring(ttl(b))
		case doFlush:
			w.flush()
		case doCompareAndSwap:
			old, _ := w.model.Peek(k)
			if b%2 == 1 {
				old = value(int(b))
			}
			w.compareAndSwap(k, old, v)
		case doCompareAndDelete:
			old, _ := w.model.Peek(k)
			if b%2 == 1 {
				old = value(int(b))
			}
			w.compareAndDelete(k, old)
		case doAdvance, doAlign:
			steps := []time.Duration{
				tick, 0, 1, tick - 1, tick + 1, tick / 2, 2 * tick, 5*tick + 1, slots * tick, slots*tick + 1, slots*tick - 1,
				100 * tick, time.Hour, horizon*tick - tick, horizon * tick, horizon*tick + tick + 1,
			}
			d := steps[int(b)%len(steps)]
			if op == doAlign { // to just before, at or just after a multiple of the horizon
				d = time.Duration((w.model.now/(horizon*int64(tick))+1)*horizon*int64(tick)-w.model.now) + time.Duration(int(b)%3-1)*tick
			}
			if w.model.now+w.model.stood+int64(d) > 1<<61 {
				d = tick
			}
			w.advance(max(d, 0))
		case doSetMany:
			many(func(k K) { w.set(k, v) })
		case doGetMany:
			many(w.get)
		case doMoveMany:
			many(func(k K) { w.move(k, ttl(byte(step))) })
		case doDeleteMany:
			many(w.delete)
		case doGetOrLoad:
			w.getOrLoad(k, loadAnswer[V]{loadKind(b) % loadKinds, v})
		case doLoadAll:
			keys := []K{k, key(int(a) + 1), k, key(int(a) ^ 2), key(int(b))}
			w.loadAll(keys[:1+int(b)/8%5], loadAnswer[V]{loadKind(b) % loadKinds, v}, func(k K) bool { return index(k)&int(b)&3 != 3 })
		case doRefresh:
			w.refresh(k, loadAnswer[V]{loadKind(b) % loadKinds, v})
		case doPause:
			w.pause()
		case doResume:
			w.resume()
		case doResize:
			w.resize(1 + int64(a)*int64(b)*most/1000)
		case doClose:
			w.close()
		}
		checkLanded(t, w.cache)
	}
	w.flush()
	w.compareAll()
	w.resume()
	w.clear()
	w.flush()
	same(t, "Len after Clear", 0, w.cache.Len())
	check(t, w.cache)
	w.close()
}

// Kinds of bounds, in the upper six bits of the byte that says how long ticks are: half
// of all have one.
const (
	noBound byte = iota
	byEntries
	byCost
	byMemory
	byMemoryAndCost
)

// boundOf returns the kind of a bound, times 8, and which of eight sizes it has.
func boundOf(ticks byte) byte {
	if b := ticks / 4; b >= 32 {
		return b - 32 + 8*byEntries
	}
	return noBound
}

// header begins a program: types, tick and bound, slots, shards, lifetime, policy, hash
// and size.
func header(types, tick, slots, shards, ttl, policy, hash, size byte) []byte {
	return []byte{types, tick, slots, shards, ttl, policy, hash, size}
}

// everything is each operation, before and after the entry's death.
func everything() (ops []byte) {
	for op := range operations {
		for _, arg := range []byte{0, 1, 2} {
			ops = append(ops, doSet, 1, 0, op, 1, arg, doAdvance, 0, 3, doGet, 1, 0)
			ops = append(ops, doSetTTL, 2, 4, doAdvance, 0, 4, op, 2, arg)
		}
	}
	return ops
}

func FuzzCache(f *testing.F) {
	all := everything()
	for policy := range byte(7) {
		for half := range 2 {
			part := all[half*len(all)/2/3*3:]
			f.Add(append(header(policy, policy, policy+1, 0, 0, policy, policy, policy), part...))
			f.Add(append(header(policy, policy, policy+1, 0, 0, policy+7+14*5, policy, policy), part...)) // for two ticks at most
		}
	}
	for hash := range byte(5) {
		for size := range byte(4) {
			f.Add(append(header(0, 2, 0, hash, 11, 0, hash, size),
				doSetMany, 0, 100, doSetMany, 40, 200, doGetMany, 0, 250, doMoveMany, 0, 120, doAll, 0, 0,
				doAdvance, 0, 4, doDeleteMany, 0, 90, doMoveMany, 20, 200, doAdvance, 0, 11, doDeleteMany, 0, 255,
				doSetMany, 0, 255, doDeleteFunc, 1, 3, doDeleteFunc, 0, 1, doClear, 0, 0, doSetMany, 7, 50))
		}
	}
	for bounds := range byte(32) {
		f.Add(append(header(bounds%3, (32+bounds)*4, 0, bounds, 11, bounds, 0, bounds),
			doSetMany, 0, 100, doSetMany, 40, 200, doGetMany, 0, 50, doMoveMany, 0, 40, doSetMany, 10, 250, doAdvance, 0, 4,
			doGetMany, 70, 90, doSetMany, 90, 200, doDeleteMany, 0, 90, doResize, 9, 99, doSetMany, 0, 255, doResize, 20, 200,
			doSetMany, 200, 255, doCompareAndSwap, 33, 0, doReplace, 34, 0, doGetOrLoad, 90, 0, doLoadAll, 90, 32, doClear, 0, 0, doSetMany, 7, 50))
		f.Add(append(header(bounds%3, (32+bounds)*4, bounds, 0, 0, bounds, bounds, bounds), all[:len(all)/6*3]...))
	}
	for off := range byte(3) { // of the horizon
		f.Add(append(header(0, 1, 2, 0, 0, 1, 0, 0),
			doSetTTL, 9, 0, doAlign, 0, off, doAlign, 0, off, doAlign, 0, off,
			doSetTTL, 1, 13, doSetTTL, 2, 14, doSetTTL, 3, 15, doSetTTL, 4, 16, doSetTTL, 5, 17, doSetTTL, 6, 18, doSetTTL, 7, 19,
			doAlign, 0, 0, doAdvance, 0, 0, doAdvance, 0, 0, doAlign, 0, 1, doAdvance, 0, 4, doAdvance, 0, 14, doAdvance, 0, 15))
	}
	f.Add(append(header(1, 0, 0, 1, 0, 4, 0, 3), // closed
		doSet, 1, 0, doSet, 2, 0, doSet, 3, 0, doClose, 0, 0, doSet, 1, 0, doGet, 1, 0, doReplace, 1, 0, doGetOrSet, 4, 0,
		doMove, 1, 0, doTouch, 1, 0, doCompute, 1, 0, doCompute, 1, 2, doDelete, 2, 0, doCompareAndSwap, 3, 0, doSetTTL, 5, 20,
		doAdvance, 0, 4, doGet, 3, 0, doClear, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Parallel()
		replay(t, data)
	})
}

// sequencesRun makes each -count replay other sequences than the one before.
func Test_histogram_buckets_follow_one_another(t *testing.T) {
	require.Equal(t, time.Duration(1024), BucketBound(0))
	require.Equal(t, time.Duration(math.MaxInt64), BucketBound(histogramBuckets-1))
	require.Equal(t, BucketBound(0), BucketBound(-1))
	require.Equal(t, BucketBound(histogramBuckets-1), BucketBound(histogramBuckets))
	require.Equal(t, time.Duration(1<<40), BucketBound(histogramBuckets-2), "18 minutes")
	for i := range histogramBuckets - 1 {
		bound := BucketBound(i)
		require.Equal(t, i, bucketOfDuration(bound), "bounds are inclusive")
		require.Equal(t, i+1, bucketOfDuration(bound+1), "just above bound %d", i)
		if i > 0 {
			require.Greater(t, bound, BucketBound(i-1))
			require.LessOrEqual(t, int64(bound), int64(BucketBound(i-1))*5/4, "width of bucket %d", i)
		}
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, 1023} {
		require.Zero(t, bucketOfDuration(d), "%d", d)
	}
	require.Equal(t, histogramBuckets-1, bucketOfDuration(math.MaxInt64))
}

func FuzzHistogram(f *testing.F) {
	f.Add(int64(0), uint16(1), uint8(0))
	f.Add(int64(1024), uint16(10), uint8(100))
	f.Add(int64(1025), uint16(300), uint8(50))
	f.Add(int64(1)<<40+1, uint16(77), uint8(99))
	f.Add(int64(math.MaxInt64), uint16(3), uint8(33))
	f.Fuzz(func(t *testing.T, largest int64, n uint16, percent uint8) {
		largest = max(largest&math.MaxInt64, 1)
		if i := bucketOfDuration(time.Duration(largest)); i > 0 {
			require.Less(t, int64(BucketBound(i-1)), largest)
			require.LessOrEqual(t, largest, int64(BucketBound(i)))
		}
		r := rand.New(rand.NewPCG(uint64(largest), uint64(n)))
		var l lateness
		all := make([]time.Duration, n%500)
		sum := time.Duration(0)
		for i := range all {
			all[i] = time.Duration(r.Int64N(largest) >> r.IntN(40))
			l.record(all[i])
			sum += all[i]
		}
		slices.Sort(all)
		h := l.snapshot()
		require.Equal(t, uint64(len(all)), h.Count)
		require.Equal(t, sum, h.Sum)
		counted := uint64(0)
		for i, c := range h.Counts {
			counted += c
			if i < histogramBuckets-1 {
				above, _ := slices.BinarySearch(all, BucketBound(i)+1)
				require.Equal(t, uint64(above), counted, "up to bound %d", i)
			}
		}
		require.Equal(t, h.Count, counted)

		q := float64(percent%101) / 100
		got := h.Quantile(q)
		if len(all) == 0 {
			require.Zero(t, got)
			require.Zero(t, h.Mean())
			return
		}
		require.Equal(t, all[len(all)-1], h.Max)
		require.Equal(t, sum/time.Duration(len(all)), h.Mean())
		want := all[min(int(q*float64(len(all))), len(all)-1)]
		require.GreaterOrEqual(t, got, want, "quantile %v", q)
		switch {
		case want <= BucketBound(0):
			require.LessOrEqual(t, got, BucketBound(0))
		case want <= BucketBound(histogramBuckets-2):
			require.LessOrEqual(t, float64(got), 1.25*float64(want))
		default:
			require.Equal(t, h.Max, got)
		}
	})
}
