// Package kinds tests caches of many kinds of keys and values. Each kind is code of its own to
// the compiler, minutes for all under the race detector: so this is a package of its own, which is built
// beside the root's, and knows caches as users do.
package kinds_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
)

func open[K comparable, V any](t *testing.T, o wheelcache.Options[K, V]) *wheelcache.Cache[K, V] {
	t.Helper()
	c, err := wheelcache.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// check compares what the cache says of itself. It must be at rest.
func check[K comparable, V any](t *testing.T, c *wheelcache.Cache[K, V]) {
	t.Helper()
	c.Flush()
	n := 0
	for k := range c.All() {
		_, ok := c.Peek(k)
		require.True(t, ok, "key %v", k)
		n++
	}
	s := c.Stats()
	require.Equal(t, n, c.Len())
	require.Equal(t, n, s.Entries)
	require.Equal(t, s.Sets, uint64(n)+s.Expired+s.Evicted+s.Deleted+s.Replaced+s.Cleared, "%+v", s)
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

// A kind is one pair of types: how to make keys and values of numbers, and how
// to tell whether a value is the one made of i.
type kind[K comparable, V any] struct {
	key   func(i int) K
	value func(i int) V
	same  func(v V, i int) bool
	keys  int // different keys there are
}

const manyKeys = 5000

// of makes a kind of values that can be compared.
func of[K comparable, V comparable](key func(int) K, value func(int) V) kind[K, V] {
	return kind[K, V]{key, value, func(v V, i int) bool { return v == value(i) }, manyKeys}
}

// few returns a kind that has fewer keys.
func (c kind[K, V]) few(keys int) kind[K, V] {
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

func TestEveryKindOfKeyAndValueSurvivesGrowthAndCollection(t *testing.T) {
	survives(t, of(uint64Keys, uint64Values))
	survives(t, of(stringKeys, stringKeys))
	survives(t, of(stringKeys, uint64Values))
	survives(t, of(uint64Keys, stringKeys))
	survives(t, of(intKeys, func(i int) bool { return i&1 != 0 }))
	survives(t, of(func(i int) bool { return i&1 != 0 }, intKeys).few(2))
	survives(t, of(func(i int) uint8 { return uint8(i) }, func(i int) int16 { return int16(i) }).few(256))
	survives(t, of(func(i int) int16 { return int16(i) }, func(i int) uint8 { return uint8(i) }))
	survives(t, of(func(i int) float64 { return float64(i) / 3 }, func(i int) float64 { return -float64(i) }))
	survives(t, of(func(i int) namedFloat { return namedFloat(i) }, func(i int) complex128 { return complex(float64(i), 1) }))
	survives(t, of(func(i int) namedString { return namedString(strconv.Itoa(i)) }, func(i int) time.Duration { return time.Duration(i) }))
	survives(t, of(func(i int) [3]byte { return [3]byte{byte(i), byte(i >> 8), 7} }, func(i int) [3]byte { return [3]byte{9, byte(i), byte(i >> 8)} }))
	survives(t, of(func(i int) [4]uint64 { return [4]uint64{0, uint64(i), 1, 2} }, func(i int) [4]uint64 { return [4]uint64{3, uint64(i), 4, 5} }))
	survives(t, of(func(i int) [5]uint64 { return [5]uint64{0, uint64(i), 1, 2, 9} }, func(i int) [5]uint64 { return [5]uint64{3, uint64(i), 4, 5, 9} }))
	survives(t, of(func(i int) [33]byte { return [33]byte{0: byte(i), 32: byte(i >> 8)} }, func(i int) [31]byte { return [31]byte{0: byte(i), 30: byte(i >> 8)} }))
	survives(t, of(func(i int) [9]uint64 { return [9]uint64{uint64(i)} }, func(i int) [9]uint64 { return [9]uint64{8: uint64(i)} }))
	survives(t, of(func(i int) uint32 { return uint32(i) }, func(i int) int32 { return -int32(i) }))
	survives(t, of(intKeys, zero[struct{}]))
	survives(t, of(zero[struct{}], intKeys).few(1))
	survives(t, of(zero[struct{}], zero[[0]string]).few(1))
	survives(t, of(zero[[0]*int], stringKeys).few(1))
	survives(t, of(func(i int) padded { return padded{byte(i), int64(i), byte(i >> 8)} }, func(i int) padded { return padded{byte(i >> 8), -int64(i), byte(i)} }))
	survives(t, of(func(i int) paddedPointer { return paddedPointer{byte(i), &sharedInts[i], 1} }, func(i int) paddedPointer { return paddedPointer{2, &sharedInts[i], byte(i)} }))
	survives(t, of(func(i int) *int { return &sharedInts[i] }, func(i int) *int { return &sharedInts[len(sharedInts)-1-i] }))
	survives(t, of(func(i int) labelled { return labelled{stringKeys(i), int32(i)} }, func(i int) labelled { return labelled{stringKeys(i), -int32(i)} }))
	survives(t, of(func(i int) nested { return nested{l: [1]labelled{{stringKeys(i), int32(i)}}} }, func(i int) nested { return nested{l: [1]labelled{{stringKeys(i), 5}}} }))
	survives(t, of(func(i int) [2]string { return [2]string{stringKeys(i), "x"} }, func(i int) [2]string { return [2]string{"y", stringKeys(i)} }))
	survives(t, of(func(i int) [3]string { return [3]string{stringKeys(i), "x"} }, func(i int) [3]string { return [3]string{"y", stringKeys(i)} }))
	survives(t, of(func(i int) any {
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
	survives(t, of(func(i int) shape {
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
	survives(t, kind[int, error]{intKeys, func(i int) error {
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
	survives(t, kind[string, []int]{stringKeys, func(i int) []int { return []int{i, i + 1} }, func(v []int, i int) bool {
		return len(v) == 2 && v[0] == i && v[1] == i+1
	}, manyKeys})
	survives(t, kind[string, map[int]int]{stringKeys, func(i int) map[int]int { return map[int]int{i: i} }, func(v map[int]int, i int) bool {
		return len(v) == 1 && v[i] == i
	}, manyKeys})
	survives(t, kind[int, func() int]{intKeys, func(i int) func() int { return func() int { return i } }, func(v func() int, i int) bool {
		return v() == i
	}, manyKeys})
	survives(t, of(func(i int) chan int { return sharedChans[i%len(sharedChans)] }, func(i int) unsafe.Pointer { return unsafe.Pointer(&sharedInts[i]) }).few(len(sharedChans)))
}

var sharedChans = func() (c [300]chan int) {
	for i := range c {
		c[i] = make(chan int)
	}
	return c
}()

// survives grows a cache with values that nothing else refers to, replaces and
// removes them; the rest expires.
func survives[K comparable, V any](t *testing.T, k kind[K, V]) {
	t.Run(fmt.Sprintf("%v=%v", reflect.TypeFor[K](), reflect.TypeFor[V]()), func(t *testing.T) {
		n := k.keys
		if testing.Short() {
			n = min(n, manyKeys/5)
		}
		clock := clockwork.NewFakeClock()
		c := open(t, wheelcache.Options[K, V]{Shards: 2, Clock: clock})
		for i := range n {
			c.Set(k.key(i), k.value(i))
			if i == n/2 {
				runtime.GC()
			}
		}
		runtime.GC()
		check(t, c)
		require.Equal(t, n, c.Len())
		for i := range n {
			v, ok := c.Get(k.key(i))
			require.True(t, ok && k.same(v, i), "key %d", i)
		}
		for i := range n {
			c.SetTTL(k.key(i), k.value(i), time.Hour) // an earlier deadline: by putAt
		}
		for i := range n {
			c.SetTTL(k.key(i), k.value(n-1-i), 2*time.Hour) // a later one: by write, where that can
		}
		runtime.GC()
		check(t, c)
		require.EqualValues(t, 2*n, c.Stats().Replaced)
		for key := range c.All() {
			require.True(t, c.Move(key, 3*time.Hour))
		}
		for i := range n {
			if i%8 == 0 {
				continue
			}
			v, ok := c.GetAndDelete(k.key(i))
			require.True(t, ok && k.same(v, n-1-i), "key %d", i)
			_, ok = c.Get(k.key(i))
			require.False(t, ok)
		}
		runtime.GC()
		check(t, c)
		for i := 0; i < n; i += 8 {
			v, ok := c.Get(k.key(i))
			require.True(t, ok && k.same(v, n-1-i), "key %d", i)
		}
		clock.Advance(3 * time.Hour)
		check(t, c)
		require.Zero(t, c.Len())
	})
}

// A tracked value tells when the collector has freed it.
type tracked struct {
	_ [8]uint64
	i int
}

func collectUntil(t *testing.T, freed *atomic.Int64, want int64) {
	t.Helper()
	for range 100 {
		runtime.GC()
		if freed.Load() >= want {
			return
		}
		runtime.Gosched()
	}
	// Cleanups run on a goroutine of their own, which may need a while.
	for range 1_000_000 {
		if freed.Load() >= want {
			return
		}
		runtime.Gosched()
	}
	require.Equal(t, want, freed.Load(), "values freed")
}

// keepsAlive stores values that only the cache refers to, and takes them away in
// several ways.
func keepsAlive[V any](t *testing.T, wrap func(*tracked) V, unwrap func(V) *tracked) {
	const n = 1000
	var freed atomic.Int64
	clock := clockwork.NewFakeClock()
	c := open(t, wheelcache.Options[int, V]{Shards: 1, Clock: clock, TTL: time.Hour})
	fill := func() {
		for i := range n {
			v := &tracked{i: i}
			runtime.AddCleanup(v, func(*atomic.Int64) { freed.Add(1) }, &freed)
			c.Set(i, wrap(v))
		}
	}
	all := func() {
		for range 3 {
			runtime.GC()
		}
		require.Zero(t, freed.Load(), "freed although stored")
		for i := range n {
			v, ok := c.Get(i)
			require.True(t, ok && unwrap(v).i == i)
		}
	}
	fill()
	all()
	for i := range n {
		require.True(t, c.Delete(i))
	}
	collectUntil(t, &freed, n)
	freed.Store(0)

	fill()
	all()
	for i := range n {
		c.Set(i, wrap(nil))
	}
	collectUntil(t, &freed, n)
	freed.Store(0)

	fill()
	all()
	clock.Advance(2 * time.Hour)
	c.Flush()
	collectUntil(t, &freed, n)
	freed.Store(0)

	fill()
	all()
	c.Clear()
	collectUntil(t, &freed, n)
	runtime.KeepAlive(c)
}

func TestValuesLiveAsLongAsTheyAreStored(t *testing.T) {
	t.Run("pointer", func(t *testing.T) {
		keepsAlive(t, func(v *tracked) *tracked { return v }, func(v *tracked) *tracked { return v })
	})
	t.Run("interface", func(t *testing.T) {
		keepsAlive(t, func(v *tracked) any { return v }, func(v any) *tracked { return v.(*tracked) })
	})
	t.Run("slice", func(t *testing.T) {
		keepsAlive(t, func(v *tracked) []*tracked { return []*tracked{v} }, func(v []*tracked) *tracked { return v[0] })
	})
	t.Run("function", func(t *testing.T) {
		keepsAlive(t, func(v *tracked) func() *tracked { return func() *tracked { return v } }, func(v func() *tracked) *tracked { return v() })
	})
	t.Run("struct", func(t *testing.T) {
		type pair struct {
			n byte
			v *tracked
		}
		keepsAlive(t, func(v *tracked) pair { return pair{1, v} }, func(v pair) *tracked { return v.v })
	})
	t.Run("boxed", func(t *testing.T) {
		type large struct {
			_ [5]uint64
			v *tracked
		}
		keepsAlive(t, func(v *tracked) large { return large{v: v} }, func(v large) *tracked { return v.v })
	})
}

// neverTorn lets readers look at a few keys while writers replace, remove and
// store them again and the table grows and shrinks around them. Each value is
// made of one number; whole says whether it is.
func neverTorn[V any](t *testing.T, value func(i int) V, whole func(V) bool) {
	t.Helper()
	writes := 60_000
	if testing.Short() {
		writes = 10_000
	}
	const keys = 16
	c := open(t, wheelcache.Options[string, V]{Shards: 1, Clock: clockwork.NewFakeClock()})
	names := make([]string, 1000)
	for i := range names {
		names[i] = stringKeys(i)
		if i < keys {
			c.Set(names[i], value(i))
		}
	}
	var writers, readers sync.WaitGroup
	var torn atomic.Int64
	var done atomic.Bool
	for w := range 2 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := range writes {
				k := names[(i*7+w)%keys]
				switch i % 16 {
				case 14:
					c.Delete(k)
				case 15:
					// Others come and go, so that segments are replaced.
					for j := keys + 500*w; i%4096 == 15 && j < keys+400+500*w; j++ {
						c.Set(names[j], value(j))
					}
					for j := keys + 500*w; i%4096 == 15 && j < keys+400+500*w; j++ {
						c.Delete(names[j])
					}
				default:
					c.Set(k, value(i))
				}
			}
		}()
	}
	for r := range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := r; !done.Load(); i++ {
				if v, ok := c.Peek(names[i%keys]); ok && !whole(v) {
					torn.Add(1)
				}
				if i%1000 == 0 {
					for _, v := range c.All() {
						if !whole(v) {
							torn.Add(1)
						}
					}
				}
			}
		}()
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	require.Zero(t, torn.Load(), "torn values")
	check(t, c)
}

func TestReadsAreNeverTorn(t *testing.T) {
	t.Run("[2]uint64", func(t *testing.T) {
		neverTorn(t, func(i int) [2]uint64 { return [2]uint64{uint64(i), ^uint64(i)} }, func(v [2]uint64) bool { return v[0] == ^v[1] })
	})
	t.Run("[4]uint64", func(t *testing.T) {
		neverTorn(t, func(i int) [4]uint64 { return [4]uint64{uint64(i), uint64(i), uint64(i), uint64(i)} },
			func(v [4]uint64) bool { return v[0] == v[1] && v[1] == v[2] && v[2] == v[3] })
	})
	t.Run("string", func(t *testing.T) {
		neverTorn(t, func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 1+i%26) }, func(v string) bool {
			return len(v) > 0 && len(v) == 1+int(v[0]-'a') && strings.Count(v, v[:1]) == len(v)
		})
	})
	t.Run("[2]string", func(t *testing.T) {
		neverTorn(t, func(i int) [2]string { s := strconv.Itoa(i); return [2]string{s, s} }, func(v [2]string) bool { return v[0] == v[1] })
	})
	t.Run("any", func(t *testing.T) {
		neverTorn(t, func(i int) any {
			switch i % 3 {
			case 0:
				return int64(i)
			case 1:
				return "string " + strconv.Itoa(i)
			}
			return &labelled{"p", int32(i)}
		}, func(v any) bool {
			switch v := v.(type) {
			case int64:
				return v%3 == 0
			case string:
				return strings.HasPrefix(v, "string ")
			case *labelled:
				return v.s == "p" && v.n%3 == 2
			}
			return false
		})
	})
	t.Run("padded", func(t *testing.T) {
		neverTorn(t, func(i int) padded { return padded{byte(i), int64(i), byte(i)} }, func(v padded) bool { return v.c == v.a && byte(v.b) == v.a })
	})
	t.Run("[3]byte", func(t *testing.T) {
		neverTorn(t, func(i int) [3]byte { return [3]byte{byte(i), byte(i), byte(i)} }, func(v [3]byte) bool { return v[0] == v[1] && v[1] == v[2] })
	})
	t.Run("boxed", func(t *testing.T) {
		neverTorn(t, func(i int) (v [6]int) {
			for j := range v {
				v[j] = i
			}
			return v
		}, func(v [6]int) bool {
			return v[0] == v[1] && v[1] == v[2] && v[2] == v[3] && v[3] == v[4] && v[4] == v[5]
		})
	})
}

// neverMixed lets writers store and delete keys of several words in the slots of one
// bucket, while readers look for keys that would be found if the words of two were
// taken for one. key(a, b) is made of two numbers; only those with a == b are stored.
func neverMixed[K comparable](t *testing.T, key func(a, b int) K) {
	t.Helper()
	writes := 40_000
	if testing.Short() {
		writes = 5000
	}
	const keys = 6
	for _, hash := range []func(K) uint64{nil, func(K) uint64 { return 1 }} {
		c := open(t, wheelcache.Options[K, [2]uint64]{Shards: 1, Hash: hash, Clock: clockwork.NewFakeClock()})
		var mixed atomic.Int64
		var done atomic.Bool
		var writers, readers sync.WaitGroup
		for w := range 2 {
			writers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 3))
				for i := range writes {
					k := r.IntN(keys)
					if i%2 == 0 {
						c.Delete(key(k, k))
					} else {
						c.Set(key(k, k), [2]uint64{uint64(k), uint64(k)})
					}
				}
			})
		}
		for g := range 2 {
			readers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 4))
				for !done.Load() {
					a, b := r.IntN(keys), r.IntN(keys)
					v, ok := c.Get(key(a, b))
					e, present := c.Entry(key(a, b))
					want := [2]uint64{uint64(a), uint64(b)}
					if (ok || present) && a != b || ok && v != want || present && e.Value != want {
						mixed.Add(1)
					}
				}
			})
		}
		writers.Wait()
		done.Store(true)
		readers.Wait()
		require.Zero(t, mixed.Load(), "keys of which half was seen")
		check(t, c)
	}
}

func TestKeysAreNeverMixed(t *testing.T) {
	t.Run("[2]uint64", func(t *testing.T) {
		neverMixed(t, func(a, b int) [2]uint64 { return [2]uint64{uint64(a), uint64(b)} })
	})
	t.Run("[4]uint64", func(t *testing.T) {
		neverMixed(t, func(a, b int) [4]uint64 { return [4]uint64{uint64(a), uint64(b), uint64(a), uint64(b)} })
	})
	t.Run("[3]uint32", func(t *testing.T) {
		neverMixed(t, func(a, b int) [3]uint32 { return [3]uint32{uint32(a), uint32(b), uint32(b)} })
	})
	t.Run("string", func(t *testing.T) { // its words are an address and a length
		const letters = "abcdefghijklmnopqrstuvwxyz"
		neverMixed(t, func(a, b int) string { return letters[a : a+3*b+1] })
	})
	t.Run("[2]string", func(t *testing.T) {
		neverMixed(t, func(a, b int) [2]string { return [2]string{strconv.Itoa(a), strconv.Itoa(b)} })
	})
	t.Run("any", func(t *testing.T) { // its words are a type and an address
		types := []func(int) any{
			func(n int) any { return n }, func(n int) any { return int64(n) }, func(n int) any { return uint(n) },
			func(n int) any { return uint64(n) }, func(n int) any { return uintptr(n) }, func(n int) any { return time.Duration(n) },
		}
		neverMixed(t, func(a, b int) any { return types[a](b) })
	})
	t.Run("interface", func(t *testing.T) {
		neverMixed(t, func(a, b int) fmt.Stringer {
			if a%2 == 0 {
				return time.Duration(10*a + b)
			}
			return wheelcache.Cause(10*a + b)
		})
	})
	t.Run("padded", func(t *testing.T) {
		neverMixed(t, func(a, b int) padded { return padded{byte(a), int64(b), byte(a)} })
	})
	t.Run("boxed", func(t *testing.T) {
		neverMixed(t, func(a, b int) [6]int { return [6]int{a, b, a, b, a, b} })
	})
}
