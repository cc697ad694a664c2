package wheelcache

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// pointersAreNil reports whether the pointer words at p are nil.
func pointersAreNil(p unsafe.Pointer, pointers uint8) bool {
	for i := uintptr(0); i < 8; i++ {
		if pointers>>i&1 != 0 && *(*unsafe.Pointer)(unsafe.Add(p, i*wordSize)) != nil {
			return false
		}
	}
	return true
}

type (
	padded struct {
		a byte
		b int64
		c byte
	}
	paddedPointer struct {
		a byte
		p *int
		c byte
	}
	labelled struct {
		s string
		n int32
	}
	nested struct {
		l [1]labelled
		_ struct{}
	}
	namedString string
	namedFloat  float32
	shape       interface{ area() int }
	square      int
	rectangle   struct{ a, b int }
)

func (s square) area() int    { return int(s) * int(s) }
func (r rectangle) area() int { return r.a * r.b }

// A combo is one pair of types: how to make keys and values of numbers, and how
// to tell whether a value is the one made of i.
type combo[K comparable, V any] struct {
	key   func(i int) K
	value func(i int) V
	same  func(v V, i int) bool
	keys  int // different keys there are
}

const manyKeys = 5000

// of makes a combo of values that can be compared.
func of[K comparable, V comparable](key func(int) K, value func(int) V) combo[K, V] {
	return combo[K, V]{key, value, func(v V, i int) bool { return v == value(i) }, manyKeys}
}

// few returns a combo that has fewer keys.
func (c combo[K, V]) few(keys int) combo[K, V] {
	c.keys = keys
	return c
}

func intKeys(i int) int         { return i*2 - 1 }
func stringKeys(i int) string   { return "key " + strconv.Itoa(i) }
func uint64Keys(i int) uint64   { return uint64(i) * 0x9e3779b97f4a7c15 }
func uint64Values(i int) uint64 { return ^uint64(i) }
func zero[T any](int) (v T)     { return v }

// sharedInts are pointed to by keys, which must be equal when they are made again.
var sharedInts [manyKeys + 1]int

// eachCombo calls the test for many pairs of types.
func eachCombo(t *testing.T, f func(t *testing.T, run comboTest)) {
	add := func(c comboTest) {
		t.Run(c.name(), func(t *testing.T) { f(t, c) })
	}
	add(of(uint64Keys, uint64Values))
	add(of(stringKeys, stringKeys))
	add(of(stringKeys, uint64Values))
	add(of(uint64Keys, stringKeys))
	add(of(intKeys, func(i int) bool { return i&1 != 0 }))
	add(of(func(i int) bool { return i&1 != 0 }, intKeys).few(2))
	add(of(func(i int) uint8 { return uint8(i) }, func(i int) int16 { return int16(i) }).few(256))
	add(of(func(i int) int16 { return int16(i) }, func(i int) uint8 { return uint8(i) }))
	add(of(func(i int) float64 { return float64(i) / 3 }, func(i int) float64 { return -float64(i) }))
	add(of(func(i int) namedFloat { return namedFloat(i) }, func(i int) complex128 { return complex(float64(i), 1) }))
	add(of(func(i int) namedString { return namedString(strconv.Itoa(i)) }, func(i int) time.Duration { return time.Duration(i) }))
	add(of(func(i int) [3]byte { return [3]byte{byte(i), byte(i >> 8), 7} }, func(i int) [3]byte { return [3]byte{9, byte(i), byte(i >> 8)} }))
	add(of(func(i int) [4]uint64 { return [4]uint64{0, uint64(i), 1, 2} }, func(i int) [4]uint64 { return [4]uint64{3, uint64(i), 4, 5} }))
	add(of(func(i int) [5]uint64 { return [5]uint64{0, uint64(i), 1, 2, 9} }, func(i int) [5]uint64 { return [5]uint64{3, uint64(i), 4, 5, 9} }))
	add(of(func(i int) [33]byte { return [33]byte{0: byte(i), 32: byte(i >> 8)} }, func(i int) [31]byte { return [31]byte{0: byte(i), 30: byte(i >> 8)} }))
	add(of(intKeys, zero[struct{}]))
	add(of(zero[struct{}], intKeys).few(1))
	add(of(zero[struct{}], zero[[0]string]).few(1))
	add(of(zero[[0]*int], stringKeys).few(1))
	add(of(func(i int) padded { return padded{byte(i), int64(i), byte(i >> 8)} }, func(i int) padded { return padded{byte(i >> 8), -int64(i), byte(i)} }))
	add(of(func(i int) paddedPointer { return paddedPointer{byte(i), &sharedInts[i], 1} }, func(i int) paddedPointer { return paddedPointer{2, &sharedInts[i], byte(i)} }))
	add(of(func(i int) *int { return &sharedInts[i] }, func(i int) *int { return &sharedInts[len(sharedInts)-1-i] }))
	add(of(func(i int) labelled { return labelled{stringKeys(i), int32(i)} }, func(i int) labelled { return labelled{stringKeys(i), -int32(i)} }))
	add(of(func(i int) nested { return nested{l: [1]labelled{{stringKeys(i), int32(i)}}} }, func(i int) nested { return nested{l: [1]labelled{{stringKeys(i), 5}}} }))
	add(of(func(i int) [2]string { return [2]string{stringKeys(i), "x"} }, func(i int) [2]string { return [2]string{"y", stringKeys(i)} }))
	add(of(func(i int) [3]string { return [3]string{stringKeys(i), "x"} }, func(i int) [3]string { return [3]string{"y", stringKeys(i)} }))
	add(of(func(i int) any {
		switch i % 4 {
		case 0:
			return i
		case 1:
			return stringKeys(i)
		case 2:
			return &sharedInts[i]
		}
		return [2]int{i, i}
	}, func(i int) any {
		switch i % 4 {
		case 0:
			return nil
		case 1:
			return i
		case 2:
			return stringKeys(i)
		}
		return &sharedInts[i]
	}))
	add(of(func(i int) shape {
		if i%2 == 0 {
			return square(i)
		}
		return rectangle{i, i + 1}
	}, func(i int) shape {
		if i%2 == 0 {
			return rectangle{i, i + 1}
		}
		return square(i)
	}))
	add(combo[int, error]{intKeys, func(i int) error {
		if i%3 == 0 {
			return nil
		}
		return fmt.Errorf("number %d", i)
	}, func(v error, i int) bool {
		if i%3 == 0 {
			return v == nil
		}
		return v != nil && v.Error() == fmt.Sprintf("number %d", i)
	}, manyKeys})
	add(combo[string, []int]{stringKeys, func(i int) []int { return []int{i, i + 1} }, func(v []int, i int) bool {
		return len(v) == 2 && v[0] == i && v[1] == i+1
	}, manyKeys})
	add(combo[string, map[int]int]{stringKeys, func(i int) map[int]int { return map[int]int{i: i} }, func(v map[int]int, i int) bool {
		return len(v) == 1 && v[i] == i
	}, manyKeys})
	add(combo[int, func() int]{intKeys, func(i int) func() int { return func() int { return i } }, func(v func() int, i int) bool {
		return v() == i
	}, manyKeys})
	add(of(func(i int) chan int { return sharedChans[i%len(sharedChans)] }, func(i int) unsafe.Pointer { return unsafe.Pointer(&sharedInts[i]) }).few(len(sharedChans)))
}

var sharedChans = func() (c [300]chan int) {
	for i := range c {
		c[i] = make(chan int)
	}
	return c
}()

// comboTest is a combo whose types are forgotten.
type comboTest interface {
	name() string
	layout(t *testing.T)
	slots(t *testing.T)
}

func (c combo[K, V]) name() string {
	return strings.ReplaceAll(fmt.Sprintf("%v=%v", reflect.TypeFor[K](), reflect.TypeFor[V]()), " ", "")
}

// A layout is what the compiler makes of a slot and a bucket.
type layout struct {
	slot, bucket, key, value uintptr
}

func layoutOf[K, V any]() layout {
	var s slotOf[K, V]
	return layout{unsafe.Sizeof(s), unsafe.Sizeof(bucketOf[K, V]{}), unsafe.Offsetof(s.key), unsafe.Offsetof(s.value)}
}

func layoutForKey[K, V any]() layout {
	switch size := reflect.TypeFor[V]().Size(); {
	case size > maxInline:
		return layoutOf[K, *V]()
	case size == 0:
		return layoutOf[K, uint64]()
	}
	return layoutOf[K, V]()
}

func (c combo[K, V]) layout(t *testing.T) {
	var want layout
	switch size := reflect.TypeFor[K]().Size(); {
	case size > maxInline:
		want = layoutForKey[*K, V]()
	case size == 0:
		want = layoutForKey[uint64, V]()
	default:
		want = layoutForKey[K, V]()
	}
	var s slotHead
	require.Equal(t, want, layout{
		slotSize[K, V](),
		bucketSize[K, V](),
		uintptr(keyOf(&s)) - uintptr(unsafe.Pointer(&s)),
		uintptr(valueOf[K](&s)) - uintptr(unsafe.Pointer(&s)),
	})
	require.Zero(t, want.slot%8)
	require.Zero(t, want.bucket%8)
	require.Equal(t, reflect.TypeFor[K]().Size() > 32, boxed[K]())
}

// slots stores, copies and clears entries in the slots of a bucket.
func (c combo[K, V]) slots(t *testing.T) {
	keyPointers, valuePointers := pointerWords[K](), pointerWords[V]()
	m := newBuckets[K, V](3)
	require.GreaterOrEqual(t, m.n, uint32(3))
	from, to := bucketAt[K, V](m, 0), bucketAt[K, V](m, m.n-1)
	n := min(c.keys, slotsPerBucket)
	mask := maskOf(reflect.TypeFor[V]())
	for i := range n {
		key, value := c.key(i), c.value(i)
		s := slotAt[K, V](from, i)
		s.hash, s.tick = uint32(i), uint32(100+i)
		s.deadline.Store(int64(1000 + i))
		storeKey(s, key, newBox(key), keyPointers)
		storeValue[K](s, value, newBox(value), valuePointers)
	}
	runtime.GC()
	for i := range n {
		copySlot[K, V](slotAt[K, V](to, slotsPerBucket-1-i), slotAt[K, V](from, i))
	}
	for i := range n {
		for _, s := range []*slotHead{slotAt[K, V](from, i), slotAt[K, V](to, slotsPerBucket-1-i)} {
			require.Equal(t, uint32(i), s.hash)
			require.Equal(t, uint32(100+i), s.tick)
			require.Equal(t, int64(1000+i), s.deadline.Load())
			require.Equal(t, c.key(i), peekKey[K](s))
			require.Equal(t, c.key(i), loadCell[K](keyOf(s), keyPointers))
			require.True(t, c.same(peekValue[K, V](s), i))
			require.True(t, c.same(loadCell[V](valueOf[K](s), valuePointers), i))
			require.True(t, identical(peekValue[K, V](s), loadCell[V](valueOf[K](s), valuePointers), mask))
			if other := c.value(i + 1); !c.same(other, i) {
				require.False(t, identical(peekValue[K, V](s), other, mask))
			}
		}
	}
	for i := range n {
		s := slotAt[K, V](from, i)
		clearSlot[K, V](s, keyPointers, valuePointers)
		require.True(t, pointersAreNil(keyOf(s), keyPointers))
		require.True(t, pointersAreNil(valueOf[K](s), valuePointers))
		require.True(t, c.same(peekValue[K, V](slotAt[K, V](to, slotsPerBucket-1-i)), i))
	}
	loadCell[K](keyOf(slotAt[K, V](from, 0)), keyPointers) // of what has been cleared
	loadCell[V](valueOf[K](slotAt[K, V](from, 0)), valuePointers)
}

func Test_slots_are_laid_out_as_the_compiler_does(t *testing.T) {
	eachCombo(t, func(t *testing.T, c comboTest) { c.layout(t) })
}

func Test_slots_give_back_what_was_stored(t *testing.T) {
	eachCombo(t, func(t *testing.T, c comboTest) { c.slots(t) })
}

func Test_pointer_words_are_those_that_the_collector_follows(t *testing.T) {
	type words struct {
		got  uint8
		want []int // words that are pointers
	}
	for name, w := range map[string]words{
		"int":            {pointerWords[int](), nil},
		"uint64":         {pointerWords[uint64](), nil},
		"float64":        {pointerWords[float64](), nil},
		"bool":           {pointerWords[bool](), nil},
		"uintptr":        {pointerWords[uintptr](), nil},
		"[4]uint64":      {pointerWords[[4]uint64](), nil},
		"padded":         {pointerWords[padded](), nil},
		"struct{}":       {pointerWords[struct{}](), nil},
		"[0]string":      {pointerWords[[0]string](), nil},
		"time.Duration":  {pointerWords[time.Duration](), nil},
		"*int":           {pointerWords[*int](), []int{0}},
		"unsafe.Pointer": {pointerWords[unsafe.Pointer](), []int{0}},
		"map":            {pointerWords[map[int]int](), []int{0}},
		"chan":           {pointerWords[chan int](), []int{0}},
		"func":           {pointerWords[func()](), []int{0}},
		"string":         {pointerWords[string](), []int{0}},
		"slice":          {pointerWords[[]byte](), []int{0}},
		"any":            {pointerWords[any](), []int{1}},
		"error":          {pointerWords[error](), []int{1}},
		"[2]string":      {pointerWords[[2]string](), []int{0, 2}},
		"[2]any":         {pointerWords[[2]any](), []int{1, 3}},
		"labelled":       {pointerWords[labelled](), []int{0}},
		"nested":         {pointerWords[nested](), []int{0}},
		"paddedPointer":  {pointerWords[paddedPointer](), []int{1}},
		"int,any,*int": {pointerWords[struct {
			i int
			a any
			p *int
		}](), []int{2, 3}},
		"[5]uint64, boxed": {pointerWords[[5]uint64](), []int{0}},
		"[33]byte, boxed":  {pointerWords[[33]byte](), []int{0}},
		"[9]string, boxed": {pointerWords[[9]string](), []int{0}},
	} {
		want := uint8(0)
		for _, i := range w.want {
			want |= 1 << i
		}
		require.Equal(t, want, w.got, name)
	}
}

// hasPointers reports whether the collector looks into a t.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func, reflect.String, reflect.Slice, reflect.Interface:
		return true
	}
	return false
}

func Test_collector_looks_only_into_buckets_with_pointers(t *testing.T) {
	require.False(t, hasPointers(reflect.TypeFor[bucketOf[uint64, uint64]]()))
	require.False(t, hasPointers(reflect.TypeFor[bucketOf[[4]uint64, padded]]()))
	require.True(t, hasPointers(reflect.TypeFor[bucketOf[string, uint64]]()))
	require.True(t, hasPointers(reflect.TypeFor[bucketOf[uint64, any]]()))
	require.True(t, hasPointers(reflect.TypeFor[bucketOf[uint64, *[5]uint64]]()))
}

func Test_new_buckets_are_vacant_in_memory_that_was_used_before(t *testing.T) {
	for range 50 {
		var dirt [][]uint64
		for range 50 {
			d := make([]uint64, 16+30*7)
			for i := range d {
				d[i] = math.MaxUint64
			}
			dirt = append(dirt, d)
		}
		runtime.KeepAlive(dirt)
		dirt = nil
		runtime.GC()
		for n := 1; n < 40; n += 3 {
			m := newBuckets[uint64, uint64](n)
			for i := range m.n {
				b := bucketAt[uint64, uint64](m, i)
				if b.control.Load() != 0 || b.version.Load() != 0 {
					require.Failf(t, "dirty bucket", "%d of %d", i, m.n)
				}
			}
		}
	}
}

// Keys that differ in one byte, or in their length, with one hash for all: only
// the comparison of keys tells them apart.
func Test_reads_tell_all_keys_apart(t *testing.T) {
	constant := func(string) uint64 { return 1 }
	bytes := make([]byte, 40)
	for n := range bytes {
		c := mustNew(t, Options[string, int]{Shards: 1, Hash: constant})
		keys := []string{string(bytes[:n])}
		for i := range n {
			k := append([]byte(nil), bytes[:n]...)
			k[i] = 'x'
			keys = append(keys, string(k))
		}
		for i, k := range keys {
			_, ok := c.Get(k)
			require.False(t, ok, "%d of %d", i, n)
			c.Set(k, i)
			for j := range i + 1 {
				v, ok := c.Get(strings.Clone(keys[j]))
				require.True(t, ok)
				require.Equal(t, j, v)
			}
		}
		_, ok := c.Get(string(bytes[:n]) + "\x00")
		require.False(t, ok)
	}
}

func Test_keys_take_the_path_that_their_type_allows(t *testing.T) {
	type words struct{ A, B uint64 }
	type pair struct{ A, B uintptr }
	type blank struct {
		A uintptr
		_ uintptr
	}
	type named string
	require.Equal(t, pathString, pathOf[string](hashString, false))
	require.Equal(t, pathString, pathOf[named](hashString, false))
	require.Equal(t, pathStringCustom, pathOf[string](hashCustom, false))
	require.Equal(t, pathCareful, pathOf[string](hashString, true))
	require.Equal(t, pathInteger, pathOf[int](hashInteger, false))
	require.Equal(t, pathDirect, pathOf[int](hashCustom, false))
	require.Equal(t, pathDirect, pathOf[pair](hashAny, false))
	require.Equal(t, pathDirect, pathOf[[2 * wordSize]byte](hashAny, false))
	require.Equal(t, pathCareful, pathOf[blank](hashAny, false))
	require.Equal(t, pathCareful, pathOf[any](hashAny, false))
	require.Equal(t, pathDirect, pathOf[*int](hashAny, false))
	require.True(t, wordwise(reflect.TypeFor[words]()))
	require.False(t, wordwise(reflect.TypeFor[struct {
		A uint64
		B uint32
	}]()) && unsafe.Sizeof(uintptr(0)) == 8, "padding")
	require.False(t, wordwise(reflect.TypeFor[float64]()))
}

// The hash of strings is that of the runtime, by way of a linkname: it must be
// seeded, and use all bits.
func Test_string_hashes_are_seeded_and_spread(t *testing.T) {
	require.NotEqual(t, sumString("a", 1, 2), sumString("a", 3, 4))
	require.NotEqual(t, sumString("", 1, 2), sumString("", 3, 4))
	var ones, zeros uint64
	for i := range 64 {
		h := sumString(strings.Repeat("k", i), 1, 2)
		ones |= h
		zeros |= ^h
	}
	require.Equal(t, ^uint64(0), ones&zeros)
}

// What every write to a shard changes lies in one cache line, wherever the shards begin:
// where a line does, or 8 bytes later.
func TestWhatAWriteChangesIsInOneCacheLine(t *testing.T) {
	if wordSize != 8 {
		t.Skip("laid out for 64 bits")
	}
	const cacheLine = 64
	var s shard[string, int]
	require.Zero(t, unsafe.Sizeof(s)%cacheLine)
	require.LessOrEqual(t, unsafe.Offsetof(s.sparse)+unsafe.Sizeof(s.sparse), uintptr(cacheLine-8), "what readers read")
	require.EqualValues(t, cacheLine, unsafe.Offsetof(s.count))
	require.LessOrEqual(t, unsafe.Offsetof(s.removed)+unsafe.Sizeof(s.removed[0])*uintptr(Replaced), uintptr(2*cacheLine-8))

	var o order
	require.Zero(t, unsafe.Sizeof(o)%cacheLine) // so it is allocated where a line begins
	first, last := unsafe.Offsetof(o.small), unsafe.Offsetof(o.history)+unsafe.Sizeof(o.history.clocks)-1
	require.Equal(t, first/cacheLine, last/cacheLine)
	require.EqualValues(t, cacheLine, unsafe.Sizeof(line{}))
	require.EqualValues(t, cacheLine, unsafe.Sizeof(page{}))
}
