package wheelcache

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A writer, or a sliding reader, may lose the processor while a bucket's version is
// odd. The tests that begin here hold one in that state, for as long as it takes.

// until lets others run until as many goroutines as wanted are in the function. done
// reports whether one has come through, which it must not.
func until(t *testing.T, function string, wanted int, done func() bool) {
	t.Helper()
	for buf := make([]byte, 1<<20); ; runtime.Gosched() {
		require.False(t, done(), "somebody has not waited")
		if strings.Count(string(buf[:runtime.Stack(buf, true)]), function+"(") >= wanted {
			return
		}
	}
}

type pairs = [2]uint64

// preempted returns a cache with one entry and the sighting of it.
func preempted(t *testing.T, ttl time.Duration, o Options[string, pairs]) (*Cache[string, pairs], sighting) {
	t.Helper()
	o.Shards = 1
	c := mustNew(t, o)
	c.SetTTL("k", pairs{1, 1}, ttl)
	s, hash := c.at("k")
	_, _, at, o2 := s.sight(hash, "k")
	require.Equal(t, hit, o2)
	return c, at
}

func TestReadersThatMeetAnUnfinishedWriteWaitForTheLockAndSeeAllOfIt(t *testing.T) {
	sliding := expiry.AfterAccess[string, pairs](2 * time.Hour)
	for name, tc := range map[string]struct {
		ttl    time.Duration
		policy expiry.Policy[string, pairs]
	}{
		"no deadline": {expiry.Never, nil}, // which is the shortest way through a read
		"a deadline":  {time.Hour, nil},
		"sliding":     {time.Hour, sliding},
	} {
		t.Run(name, func(t *testing.T) {
			c, at := preempted(t, tc.ttl, Options[string, pairs]{Expiry: tc.policy, Clock: clockwork.NewFakeClock()})
			s, hash := c.at("k")
			s.mu.Lock()
			opened := at.bucket.begin()
			storeValue[string](at.slot, pairs{2, 1}, nil, s.valuePointers) // the first word of {2, 2}
			finish := sync.OnceFunc(func() {
				storeValue[string](at.slot, pairs{2, 2}, nil, s.valuePointers)
				at.bucket.end(opened)
				s.mu.Unlock()
			})
			defer finish() // or nobody could close the cache
			_, _, _, o := s.sight(hash, "k")
			require.Equal(t, torn, o)

			readers := map[string]func() (pairs, bool){
				"Get":      func() (pairs, bool) { return c.Get("k") },
				"Peek":     func() (pairs, bool) { return c.Peek("k") },
				"Entry":    func() (pairs, bool) { e, ok := c.Entry("k"); return e.Value, ok },
				"GetOrSet": func() (pairs, bool) { return c.GetOrSet("k", pairs{9, 9}) },
			}
			var running sync.WaitGroup
			var done atomic.Int64
			for reader, read := range readers {
				running.Go(func() {
					v, ok := read()
					if !ok || v != (pairs{2, 2}) {
						t.Errorf("%s has seen %v, %t", reader, v, ok)
					}
					done.Add(1)
				})
			}
			until(t, "getLocked", len(readers), func() bool { return done.Load() > 0 })
			v, ok := c.Peek(absentFrom(c, hash))
			require.False(t, ok, "a miss waits for nobody")
			require.Zero(t, v)
			finish()
			running.Wait()
			check(t, c)
		})
	}
}

// absentFrom returns a key that a reader takes for absent without waiting: one of the
// same tag as the key of hash, which has one chance in 128, is looked at more closely.
func absentFrom(c *Cache[string, pairs], hash uint32) string {
	for i := 0; ; i++ {
		key := "absent " + strconv.Itoa(i)
		if _, h := c.at(key); tagOf(h) != tagOf(hash) {
			return key
		}
	}
}

// fillSegment stores entries until the next one makes the segment of "k" grow.
func fillSegment(c *Cache[string, pairs]) {
	s, hash := c.at("k")
	for i := 0; ; i++ {
		if seg := s.dir.Load().of(hash); seg.count == seg.limit {
			return
		}
		c.Set("filling "+strconv.Itoa(i), pairs{})
	}
}

func TestWritersWaitForASlidingReaderAndDoNotLoseItsDeadline(t *testing.T) {
	const slid = 10 * time.Hour
	for name, tc := range map[string]struct {
		run  func(c *Cache[string, pairs])
		left pairs // the value afterwards, zero if it has been removed
	}{
		"Replace":        {func(c *Cache[string, pairs]) { c.Replace("k", pairs{2, 2}) }, pairs{2, 2}},
		"CompareAndSwap": {func(c *Cache[string, pairs]) { CompareAndSwap(c, "k", pairs{1, 1}, pairs{3, 3}) }, pairs{3, 3}},
		"Compute": {func(c *Cache[string, pairs]) {
			c.Compute("k", func(old pairs, _ bool) (pairs, Op) { return old, OpKeep })
		}, pairs{1, 1}},
		"a neighbour's Set":   {func(c *Cache[string, pairs]) { c.Set("filling 0", pairs{}) }, pairs{1, 1}},
		"growth":              {func(c *Cache[string, pairs]) { c.Set("one more", pairs{}) }, pairs{1, 1}},
		"a Get that was torn": {func(c *Cache[string, pairs]) { c.Get("k") }, pairs{1, 1}},
		"expiry":              {func(c *Cache[string, pairs]) { c.Flush() }, pairs{1, 1}},
		"Delete":              {func(c *Cache[string, pairs]) { c.Delete("k") }, pairs{}},
		"Clear":               {func(c *Cache[string, pairs]) { c.Clear() }, pairs{}},
		"Set":                 {func(c *Cache[string, pairs]) { c.SetTTL("k", pairs{}, 0) }, pairs{}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			var mu sync.Mutex
			var removed []Removal[string, pairs]
			c, _ := preempted(t, time.Hour, Options[string, pairs]{Clock: clock, OnRemoval: func(r Removal[string, pairs]) {
				mu.Lock()
				defer mu.Unlock()
				if r.Key == "k" {
					removed = append(removed, r)
				}
			}})
			fillSegment(c)
			s, hash := c.at("k")
			_, _, at, _ := s.sight(hash, "k")
			require.True(t, at.begin())
			finish := sync.OnceFunc(func() {
				at.slot.deadline.Store(int64(slid))
				at.bucket.end(at.version)
			})
			defer finish()
			if name == "expiry" {
				clock.Advance(time.Hour) // the deadline that the reader is about to move has passed
			}
			var running sync.WaitGroup
			var done atomic.Bool
			running.Go(func() { tc.run(c); done.Store(true) })
			until(t, "beginAgain", 1, done.Load)
			finish()
			running.Wait()
			c.Flush()
			check(t, c)
			e, ok := c.Entry("k")
			require.Equal(t, tc.left != pairs{}, ok)
			require.Equal(t, tc.left, e.Value)
			if ok {
				require.Equal(t, c.clock.time(int64(slid)), e.Deadline)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range removed[:min(1, len(removed))] {
				require.Equal(t, pairs{1, 1}, r.Value)
				require.Equal(t, c.clock.time(int64(slid)), r.Deadline)
				require.NotEqual(t, Expired, r.Cause)
			}
		})
	}
}

// The short way of Set, where nobody is told of removals.
func TestAPlainOverwriteWaitsForASlidingReader(t *testing.T) {
	c, at := preempted(t, time.Hour, Options[string, pairs]{Clock: clockwork.NewFakeClock()})
	require.True(t, at.begin())
	finish := sync.OnceFunc(func() {
		at.slot.deadline.Store(int64(10 * time.Hour))
		at.bucket.end(at.version)
	})
	defer finish()
	var running sync.WaitGroup
	var done atomic.Bool
	running.Go(func() { c.SetTTL("k", pairs{2, 2}, 20*time.Hour); done.Store(true) })
	until(t, "beginAgain", 1, done.Load)
	finish()
	running.Wait()
	check(t, c)
	e, ok := c.Entry("k")
	require.True(t, ok)
	require.Equal(t, pairs{2, 2}, e.Value)
	require.Equal(t, c.clock.time(int64(20*time.Hour)), e.Deadline)
	require.EqualValues(t, 1, c.Stats().Replaced)
}

func TestASlidingReaderWhoComesBackTooLateMovesNothing(t *testing.T) {
	for name, change := range map[string]func(c *Cache[string, pairs]){
		"Set":               func(c *Cache[string, pairs]) { c.SetTTL("k", pairs{1, 1}, time.Hour) },
		"Move":              func(c *Cache[string, pairs]) { c.Move("k", time.Minute) },
		"Delete":            func(c *Cache[string, pairs]) { c.Delete("k") },
		"Clear":             func(c *Cache[string, pairs]) { c.Clear() },
		"growth":            func(c *Cache[string, pairs]) { c.Set("one more", pairs{}) },
		"shrinking":         func(c *Cache[string, pairs]) { c.DeleteFunc(func(k string, _ pairs) bool { return k != "k" }) },
		"a neighbour's Set": func(c *Cache[string, pairs]) { c.Set("filling 0", pairs{}) },
		"another key there": func(c *Cache[string, pairs]) { c.Delete("k"); c.Set("one more", pairs{}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := preempted(t, time.Hour, Options[string, pairs]{})
			fillSegment(c)
			s, hash := c.at("k")
			_, _, at, _ := s.sight(hash, "k")
			require.True(t, at.current())
			change(c)
			require.False(t, at.current())
			require.False(t, at.begin())
			check(t, c)
		})
	}
}

// yielding makes a load whose every function yields the processor now and then.
func yielding[K comparable, V any](l load[K, V]) load[K, V] {
	maybe := func() {
		if rand.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	key, check, number := l.key, l.check, l.number
	l.key = func(n uint64) K { maybe(); return key(n) }
	l.check = func(n uint64, v V) { maybe(); check(n, v) } // in Compute, DeleteFunc, iterations and OnRemoval
	l.number = func(k K) uint64 { maybe(); return number(k) }
	l.options.Hash = func(k K) uint64 { maybe(); return number(k) }
	l.options.Expiry = yieldingPolicy[K, V]{maybe}
	return l
}

// A yieldingPolicy answers lifetimes that mostly are short, and moves deadlines both
// ways.
type yieldingPolicy[K comparable, V any] struct{ maybe func() }

func (p yieldingPolicy[K, V]) answer() time.Duration {
	p.maybe()
	return time.Duration(rand.Int64N(int64(2 * time.Millisecond)))
}
func (p yieldingPolicy[K, V]) Create(K, V) time.Duration                { return p.answer() }
func (p yieldingPolicy[K, V]) Update(K, V, time.Duration) time.Duration { return p.answer() }
func (p yieldingPolicy[K, V]) Read(_ K, _ V, remaining time.Duration) time.Duration {
	if a := p.answer(); a%4 > 0 {
		return a
	}
	return remaining
}

func TestRemovingWhatExpiresAfterItWasSeenLiveIsDone(t *testing.T) {
	// Real time goes on between two looks at an entry under one lock.
	c, at := preempted(t, time.Hour, Options[string, pairs]{Clock: clockwork.NewFakeClock()})
	s, hash := c.at("k")
	s.lock()
	p, ok := s.find(hash, "k")
	require.True(t, ok)
	_, done := s.applyAt(p, p.bucket.begin(), true, change[pairs]{op: changeRemove}, nil, at.slot.deadline.Load())
	s.mu.Unlock()
	require.True(t, done, "so Compute answers that the key has no value")
	stats := c.Stats()
	require.Equal(t, uint64(1), stats.Expired)
	require.Zero(t, stats.Entries)
	check(t, c)
}

func TestStressWithTheUsersCodeYielding(t *testing.T) {
	t.Run("string to four words", func(t *testing.T) {
		stress(t, yielding(stringLoad(Options[string, wide]{Tick: 100 * time.Microsecond, Shards: 1})))
	})
	t.Run("uint64 to two strings", func(t *testing.T) {
		stress(t, yielding(twinLoad(Options[uint64, twin]{Tick: time.Millisecond, Shards: 4})))
	})
}

// Waves of entries that all die at once, on a clock that others advance: tables grow
// and shrink, wheels are rebuilt, orphans are many, and at the end the cache is
// closed. Each value says when it dies, so that every reader can tell whether it
// should have seen it.
func TestStressMassExpiry(t *testing.T) {
	waves, each := 30, 4000
	if testing.Short() {
		waves, each = 6, 2000
	}
	const writers = 3
	clock := clockwork.NewFakeClock()
	epoch := clock.Now()
	now := func() uint64 { return uint64(clock.Now().Sub(epoch)) }
	var late, early, told atomic.Uint64
	c, err := New(Options[uint64, wide]{Shards: 2, Clock: clock, Tick: time.Millisecond, OnRemoval: func(r Removal[uint64, wide]) {
		r.Value.check(r.Key)
		told.Add(1)
		if r.Cause == Expired && (r.Late < 0 || now() < r.Value[1]) {
			early.Add(1)
		}
	}})
	require.NoError(t, err)
	look := func(key uint64, v wide, ok bool, since uint64) {
		if ok {
			v.check(key)
			if v[1] <= since {
				late.Add(1)
			}
		}
	}
	var done atomic.Bool
	var busy, others sync.WaitGroup
	for w := range uint64(writers) {
		busy.Go(func() {
			r := rand.New(rand.NewPCG(w, 5))
			for wave := range uint64(waves) {
				deadline := now() + uint64(20*time.Millisecond)
				for i := range uint64(each) {
					key := w<<32 | i
					dies := deadline
					if i%50 == 0 {
						dies += uint64(time.Duration(r.IntN(1000)) * time.Second)
					}
					c.SetDeadline(key, newWide(key, dies), epoch.Add(time.Duration(dies)))
					if wave%3 == 1 && i%4 > 0 {
						c.Delete(key) // and leave an orphan
					}
				}
				clock.Advance(10 * time.Millisecond)
				if wave%5 == w {
					c.Flush()
				}
				if wave%10 == 9 && w == 0 {
					c.Clear()
				}
			}
		})
	}
	for g := range uint64(2) {
		others.Go(func() {
			r := rand.New(rand.NewPCG(g, 6))
			for i := 0; !done.Load(); i++ {
				key := r.Uint64N(writers)<<32 | r.Uint64N(uint64(each))
				since := now()
				v, ok := c.Get(key)
				look(key, v, ok, since)
				if i%500 == 0 {
					since = now()
					for key, v := range c.All() {
						look(key, v, true, since)
					}
				}
				if i%100 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	busy.Wait()
	others.Go(func() { c.Close() })
	require.NoError(t, c.Close())
	done.Store(true)
	others.Wait()
	check(t, c)
	clock.Advance(2000 * time.Second)
	c.Flush()
	require.Zero(t, c.Len())
	require.Zero(t, late.Load(), "reads of what had expired before they began")
	require.Zero(t, early.Load(), "expirations before the deadline")
	s := c.Stats()
	require.Equal(t, s.Sets, told.Load())
	require.EqualValues(t, waves*each*writers, s.Sets)
	check(t, c)
}

func TestStressCloseAgainstEachOperation(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		var told atomic.Uint64
		c, err := New(Options[int, int]{Tick: 10 * time.Microsecond, Shards: 2, OnRemoval: func(Removal[int, int]) { told.Add(1) }})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(g)))
				for range 20 {
					// A map's order differs each time, and Close is among them.
					for operation, f := range everyOperation(c, r.IntN(50), 1, func(string) { runtime.Gosched() }) {
						if operation != "Close" || r.IntN(8) == 0 {
							f()
						}
						c.SetTTL(r.IntN(1000), 1, time.Duration(r.IntN(100))*time.Microsecond)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, c.Close())
		s := c.Stats()
		require.Zero(t, s.Pending)
		require.True(t, c.Unlocked())
		require.Equal(t, s.Sets-uint64(s.Entries), told.Load())
		check(t, c)
	}
}
