package wheelcache

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// The tests here run all operations at once, to give the race detector and the
// checker something to find. What is asserted holds whatever the timing.

// wide is a value of several words that all say the same, so that a torn copy
// shows.
type wide [4]uint64

func newWide(key, n uint64) wide { return wide{key, n, ^key, key ^ n} }

func (w wide) check(key uint64) {
	if w[0] != key || w[2] != ^key || w[3] != w[0]^w[1] {
		panic(fmt.Sprintf("key %d has the value %v", key, w))
	}
}

// twin is a value whose two strings are equal.
type twin struct{ a, b string }

// A load is what a stress test puts on a cache.
type load[K comparable, V any] struct {
	options Options[K, V]
	key     func(n uint64) K
	value   func(key, n uint64) V
	check   func(key uint64, v V)
	number  func(K) uint64
}

func stringLoad(o Options[string, wide]) load[string, wide] {
	number := func(k string) uint64 { n, _ := strconv.ParseUint(k, 10, 64); return n }
	return load[string, wide]{o, func(n uint64) string { return strconv.FormatUint(n, 10) }, newWide, func(key uint64, v wide) { v.check(key) }, number}
}

func intLoad(o Options[uint64, uint64]) load[uint64, uint64] {
	return load[uint64, uint64]{
		o,
		func(n uint64) uint64 { return n },
		func(key, n uint64) uint64 { return key<<32 | n },
		func(key uint64, v uint64) {
			if v>>32 != key {
				panic(fmt.Sprintf("key %d has a value of key %d", key, v>>32))
			}
		},
		func(k uint64) uint64 { return k },
	}
}

func twinLoad(o Options[uint64, twin]) load[uint64, twin] {
	return load[uint64, twin]{
		o,
		func(n uint64) uint64 { return n },
		func(key, n uint64) twin {
			s := strconv.FormatUint(key, 10) + ":" + strconv.FormatUint(n, 36)
			return twin{s, s}
		},
		func(key uint64, v twin) {
			if v.a != v.b {
				panic(fmt.Sprintf("key %d has the value %v", key, v))
			}
		},
		func(k uint64) uint64 { return k },
	}
}

func TestStressAllOperationsAtOnce(t *testing.T) {
	t.Run("string to four words", func(t *testing.T) {
		stress(t, stringLoad(Options[string, wide]{Tick: time.Millisecond}))
	})
	t.Run("uint64 to uint64", func(t *testing.T) {
		stress(t, intLoad(Options[uint64, uint64]{Tick: 100 * time.Microsecond, Shards: 2}))
	})
	t.Run("sliding", func(t *testing.T) {
		stress(t, stringLoad(Options[string, wide]{Tick: time.Millisecond, Shards: 1, Expiry: expiry.AfterAccess[string, wide](2 * time.Millisecond)}))
	})
	t.Run("sliding by long lifetimes", func(t *testing.T) {
		stress(t, intLoad(Options[uint64, uint64]{Expiry: expiry.AfterAccess[uint64, uint64](time.Hour)}))
	})
	t.Run("after create, strings", func(t *testing.T) {
		stress(t, twinLoad(Options[uint64, twin]{Tick: time.Millisecond, Expiry: expiry.AfterCreate[uint64, twin](time.Millisecond), ExactClock: true}))
	})
	t.Run("boxed values", func(t *testing.T) {
		type boxed = [5]uint64
		stress(t, load[uint64, boxed]{
			Options[uint64, boxed]{Tick: time.Millisecond, Shards: 1, Slots: 4},
			func(n uint64) uint64 { return n },
			func(key, n uint64) boxed { return boxed{key, n, n, n, key} },
			func(key uint64, v boxed) {
				if v != (boxed{key, v[1], v[1], v[1], key}) {
					panic(fmt.Sprintf("key %d has the value %v", key, v))
				}
			},
			func(k uint64) uint64 { return k },
		})
	})
	t.Run("bad hash", func(t *testing.T) {
		stress(t, intLoad(Options[uint64, uint64]{Tick: time.Millisecond, Hash: func(k uint64) uint64 { return k % 4 }}))
	})
}

func stress[K comparable, V any](t *testing.T, l load[K, V]) {
	t.Helper()
	const goroutines = 6
	operations, keys := uint64(15_000), uint64(3000)
	if testing.Short() {
		operations = 3000
	}
	if l.options.Hash != nil {
		operations, keys = operations/10, 200
	}
	var causesSeen [causes]atomic.Uint64
	last := map[K]uint64{} // the dispatcher's: how many events each key has had
	l.options.OnRemoval = func(r Removal[K, V]) {
		l.check(l.number(r.Key), r.Value)
		last[r.Key]++
		causesSeen[r.Cause].Add(1)
		if r.Cause == Expired && r.Late < 0 {
			panic("early")
		}
	}
	c, err := New(l.options)
	require.NoError(t, err)
	var closing atomic.Bool
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 7))
			for i := range operations {
				k := r.Uint64N(keys)
				if i/1000%3 == 2 {
					k %= 50 // in between, the table shrinks and a few keys are hot
				}
				key := l.key(k)
				ttl := time.Duration(r.Int64N(int64(3 * time.Millisecond)))
				value := l.value(k, i)
				switch op := r.IntN(40); {
				case op < 8:
					if v, ok := c.Get(key); ok {
						l.check(k, v)
					}
				case op < 10:
					if v, ok := c.Peek(key); ok {
						l.check(k, v)
					}
				case op < 11:
					if e, ok := c.Entry(key); ok {
						l.check(k, e.Value)
					}
				case op < 15:
					c.Set(key, value)
				case op < 22:
					c.SetTTL(key, value, ttl)
				case op < 23:
					c.SetDeadline(key, value, time.Now().Add(ttl))
				case op < 24:
					c.SetTTL(key, value, expiry.Never)
				case op < 25:
					if v, ok := c.Replace(key, value); ok {
						l.check(k, v)
					}
				case op < 27:
					v, _ := c.GetOrSet(key, value)
					l.check(k, v)
				case op < 29:
					c.Move(key, ttl-time.Millisecond)
				case op < 30:
					c.Move(key, time.Hour)
				case op < 31:
					c.Touch(key)
				case op < 33:
					c.Delete(key)
				case op < 34:
					if v, ok := c.GetAndDelete(key); ok {
						l.check(k, v)
					}
				case op < 37:
					v, ok := c.Compute(key, func(old V, ok bool) (V, Op) {
						if ok {
							l.check(k, old)
						}
						return value, Op(i % 3)
					})
					if ok {
						l.check(k, v)
					}
				case op < 38 && i%16 == 0:
					for k, v := range c.All() {
						l.check(l.number(k), v)
					}
				case op < 39 && i%32 == 0:
					c.DeleteFunc(func(key K, v V) bool {
						l.check(l.number(key), v)
						return l.number(key)%5 == 0
					})
				case op == 39 && i%64 == 0:
					c.Clear()
				case op == 39 && i%64 == 1:
					c.Flush()
				default:
					c.Len()
				}
				if g == 0 && i == operations*9/10 && closing.CompareAndSwap(false, true) {
					c.Close()
				}
			}
		})
	}
	wg.Wait()
	c.Flush()
	require.NoError(t, c.Close())
	check(t, c)

	s := c.Stats()
	require.Zero(t, s.CallbackPanics)
	require.Zero(t, s.Pending)
	require.Equal(t, s.Sets, uint64(s.Entries)+s.Expired+s.Deleted+s.Replaced+s.Cleared)
	require.Equal(t,
		[]uint64{s.Expired, s.Evicted, s.Deleted, s.Replaced, s.Cleared},
		[]uint64{causesSeen[Expired].Load(), causesSeen[Evicted].Load(), causesSeen[Deleted].Load(), causesSeen[Replaced].Load(), causesSeen[Cleared].Load()})
	require.NotZero(t, s.Refused, "the cache was closed while it was in use")
	c.Clear()
	check(t, c)
	n := uint64(0)
	for _, times := range last {
		n += times
	}
	require.Equal(t, c.Stats().Sets, n, "every value stored has left")
}

// An old deadline must never take away what was stored or extended later: each
// key has one writer, who knows what must be there.
func TestStressAnOldDeadlineTakesNothingNewer(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	for name, o := range map[string]Options[int, wide]{
		"coarse":  {Tick: 10 * time.Microsecond, Shards: 2},
		"exact":   {Tick: 10 * time.Microsecond, Shards: 2, ExactClock: true},
		"sliding": {Tick: 10 * time.Microsecond, Shards: 2, Expiry: expiry.AfterAccess[int, wide](time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			var wrong atomic.Uint64
			o.OnRemoval = func(r Removal[int, wide]) {
				if r.Cause == Expired && r.Value[1] == 1 { // 1 marks what must not expire
					wrong.Add(1)
				}
			}
			c, err := New(o)
			require.NoError(t, err)
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 1))
					for i := range rounds {
						key := g<<20 | i%500
						u := uint64(key)
						soon := time.Duration(r.Int64N(int64(100 * time.Microsecond)))
						c.SetTTL(key, newWide(u, 0), soon)
						runtimeWork(r.IntN(200))
						switch i % 4 {
						case 0: // a new value over an old deadline
							c.SetTTL(key, newWide(u, 1), time.Hour)
						case 1: // no deadline over an old one
							c.SetTTL(key, newWide(u, 1), expiry.Never)
						case 2: // extended, if in time
							if !c.Move(key, time.Hour) {
								c.SetTTL(key, newWide(u, 1), time.Hour)
							}
						case 3:
							if !c.Move(key, expiry.Never) {
								c.SetTTL(key, newWide(u, 1), time.Minute)
							}
						}
						for range 3 {
							v, ok := c.Get(key)
							if !ok {
								wrong.Add(1)
								continue
							}
							v.check(u)
							runtimeWork(r.IntN(100))
						}
					}
				})
			}
			for g := range 2 { // others move what lies around, so that tables are replaced
				wg.Go(func() {
					for i := range 20 * rounds {
						key := (g+8)<<20 | i%5000
						if i/5000%2 == 0 {
							c.SetTTL(key, newWide(uint64(key), 0), time.Duration(i%1000)*time.Microsecond)
						} else {
							c.Delete(key)
						}
					}
				})
			}
			wg.Wait()
			c.Flush()
			require.Zero(t, wrong.Load())
			check(t, c)
			require.NoError(t, c.Close())
		})
	}
}

// runtimeWork takes a moment.
func runtimeWork(n int) {
	x := uint64(n)
	for range n {
		x = mix(x, 1, 2)
	}
	sink.Store(x)
}

var sink atomic.Uint64

// A key whose lifetime is extended again and again, each time before it is over,
// is never missed by others.
func TestStressAnExtendedEntryIsNeverMissed(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 3000
	}
	c, err := New(Options[int, int]{Tick: 20 * time.Microsecond, Shards: 1})
	require.NoError(t, err)
	const hot = 4
	for k := range hot {
		c.SetTTL(k, k, time.Hour)
	}
	var done atomic.Bool
	var missed atomic.Uint64
	var readers, wg sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := 0; !done.Load(); i++ {
				if v, ok := c.Get(i % hot); !ok || v != i%hot {
					missed.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range rounds {
			c.Move(i%hot, time.Duration(i%7+1)*time.Hour)
		}
	})
	wg.Go(func() {
		for i := range rounds {
			c.Replace(i%hot, i%hot)
		}
	})
	wg.Go(func() {
		for i := range rounds {
			c.SetTTL(hot+i%3000, i, time.Duration(i%300)*time.Microsecond)
		}
	})
	wg.Wait()
	done.Store(true)
	readers.Wait()
	require.Zero(t, missed.Load())
	check(t, c)
	require.NoError(t, c.Close())
}

func TestStressCloseAgainstEverything(t *testing.T) {
	n := 150
	if testing.Short() {
		n = 30
	}
	for i := range n {
		var events atomic.Uint64
		c, err := New(Options[int, int]{Tick: 10 * time.Microsecond, Shards: 2, OnRemoval: func(Removal[int, int]) { events.Add(1) }})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for g := range 3 {
			wg.Go(func() {
				for j := range 100 {
					c.SetTTL(g<<10|j, j, time.Duration(j%20)*time.Microsecond)
					c.Get(j)
					if j == i%100 {
						c.Close()
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, c.Close())
		s := c.Stats()
		require.Zero(t, s.Pending)
		require.Equal(t, events.Load(), s.Expired+s.Deleted+s.Replaced+s.Cleared)
		require.Equal(t, uint64(300), s.Sets+s.Refused)
		check(t, c)
	}
}

func TestStressFlushAgainstTheDriver(t *testing.T) {
	c, err := New(Options[int, int]{Tick: 10 * time.Microsecond, Shards: 2})
	require.NoError(t, err)
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range n {
				c.SetTTL(g<<20|i%700, i, time.Duration(i%97)*time.Microsecond)
				if i%50 == 0 {
					c.Flush()
				}
			}
		})
	}
	wg.Wait()
	check(t, c)
	require.NoError(t, c.Close())
	check(t, c)
}
