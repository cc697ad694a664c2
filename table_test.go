package wheelcache

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A testHash is a hash of integers, and how many keys of it are bearable.
type testHash struct {
	name string
	sum  func(uint64) uint64
	keys int
}

func testHashes() []testHash {
	hashes := []testHash{
		{"good", nil, 100_000},
		{"identity", func(k uint64) uint64 { return k }, 100_000},
		{"constant", func(uint64) uint64 { return 0 }, 9000},
		{"low_bits", func(k uint64) uint64 { return k & 7 }, 20_000},
		{"high_bits", func(k uint64) uint64 { return k << 60 }, 20_000},
		// Many keys of one hash first, then others in between.
		{"half_constant", func(k uint64) uint64 {
			if k < 1500 {
				return 1
			}
			return k
		}, 20_000},
	}
	if testing.Short() {
		for i := range hashes {
			hashes[i].keys /= 10
		}
	}
	return hashes
}

func eachHash(t *testing.T, f func(t *testing.T, h testHash)) {
	for _, h := range testHashes() {
		t.Run(h.name, func(t *testing.T) { f(t, h) })
	}
}

// shuffled returns the numbers below n in a random order that is always the same.
func shuffled(n int) []int {
	return rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
}

func Test_table_grows_and_shrinks_with_any_hash(t *testing.T) {
	t.Parallel()
	eachHash(t, func(t *testing.T, h testHash) {
		c := mustNew(t, Options[uint64, uint64]{Shards: 1, Hash: h.sum, Clock: clockwork.NewFakeClock()})
		for i := range uint64(h.keys) {
			c.Set(i, i)
			if i < 100 || i%(uint64(h.keys)/4) == 0 {
				check(t, c)
			}
		}
		check(t, c)
		require.Equal(t, h.keys, c.Len())
		for i := range uint64(h.keys) {
			if v, ok := c.Get(i); !ok || v != i {
				require.Failf(t, "key is missing", "%d", i)
			}
		}
		_, ok := c.Get(uint64(h.keys))
		require.False(t, ok)
		for n, i := range shuffled(h.keys) {
			if v, ok := c.GetAndDelete(uint64(i)); !ok || v != uint64(i) {
				require.Failf(t, "key is missing", "%d", i)
			}
			if n%(h.keys/4) == 0 || n > h.keys-20 {
				check(t, c)
			}
		}
		check(t, c)
		require.Zero(t, c.Len())
		segments := segmentsOf(t, &c.shards[0])
		require.Len(t, segments, 1, "segments of an empty table")
		require.LessOrEqual(t, segments[0].n, uint32(2), "buckets of an empty table")
	})
}

func Test_segment_shrinks_however_many_entries_are_left_in_it(t *testing.T) {
	// A segment much larger than usual, which a hash worth nothing makes, is
	// replaced by a smaller one before it fits into a usual one.
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, Hash: func(uint64) uint64 { return 0 }, Clock: clockwork.NewFakeClock()})
	s := &c.shards[0]
	s.maxBuckets = 4
	usual := int(s.maxBuckets)
	const most = 4 * 6 * 40
	for i := range uint64(most) {
		c.Set(i, i)
	}
	check(t, c)
	require.GreaterOrEqual(t, int(segmentsOf(t, s)[0].n), 16*usual)
	for i := range uint64(most) {
		require.True(t, c.Delete(i))
		if i%64 == 0 {
			check(t, c)
		}
	}
	check(t, c)
}

// fillWatched stores n entries. After each step of growth all segments must have
// room for what is in them.
func fillWatched[T comparable](t *testing.T, c *Cache[T, T], n int, key func(i int) T) {
	t.Helper()
	for i := range n {
		k := key(i)
		s, _ := c.at(k)
		d := s.dir.Load()
		c.Set(k, k)
		if d == s.dir.Load() {
			continue
		}
		for _, seg := range segmentsOf(t, s) {
			if seg.count > seg.limit {
				require.Failf(t, "segment is too full", "%d entries, limit %d, %d stored", seg.count, seg.limit, i)
			}
		}
	}
}

func Test_halves_of_a_large_segment_have_room_for_its_entries(t *testing.T) {
	for _, first := range []int{100, 1000, 1600} {
		c := mustNew(t, Options[uint64, uint64]{Shards: 1, Clock: clockwork.NewFakeClock(), Hash: func(k uint64) uint64 {
			if k < uint64(first) {
				return 1
			}
			return k
		}})
		fillWatched(t, c, 2*first+3000, func(i int) uint64 { return uint64(i) })
		check(t, c)
	}
}

func Test_capacity_may_be_exceeded_in_every_shard(t *testing.T) {
	// Shards have segments of different sizes; presizing goes by the largest.
	capacities := []int{64 * 280, 64 * 560}
	if testing.Short() {
		capacities = capacities[:1]
	}
	for _, capacity := range capacities {
		c := mustNew(t, Options[[4]uint64, [4]uint64]{Shards: 64, Capacity: capacity, Clock: clockwork.NewFakeClock()})
		fillWatched(t, c, 3*capacity, func(i int) [4]uint64 { return [4]uint64{uint64(i)} })
		check(t, c)
		require.Equal(t, 3*capacity, c.Len())
	}
}

func Test_overflow_counts_stay_right_over_many_cycles(t *testing.T) {
	t.Parallel()
	eachHash(t, func(t *testing.T, h testHash) {
		c := mustNew(t, Options[uint64, uint64]{Shards: 1, Hash: h.sum, Clock: clockwork.NewFakeClock()})
		r := rand.New(rand.NewPCG(3, 4))
		const keys = 700
		for i := range 30_000 {
			if k := r.Uint64N(keys); r.IntN(2) == 0 {
				c.Set(k, k)
			} else {
				c.Delete(k)
			}
			if i%1000 == 0 {
				check(t, c)
			}
		}
		check(t, c)
	})
}

func Test_expiry_makes_segments_smaller_afterwards_and_one_by_one(t *testing.T) {
	const stay, leave = 2_000, 20_000
	c := mustNew(t, Options[int, int]{Shards: 1})
	s := &c.shards[0]
	for i := range leave {
		c.SetTTL(i, 0, time.Hour)
	}
	for i := range stay {
		c.SetTTL(leave+i, 0, expiry.Never)
	}
	fills := func() map[*fill]bool {
		m := make(map[*fill]bool)
		for _, seg := range s.dir.Load().segments() {
			m[seg.fill] = true
		}
		return m
	}
	buckets := func() (n int) {
		for _, seg := range segmentsOf(t, s) {
			n += int(seg.n)
		}
		return n
	}
	full, before, steps := buckets(), fills(), 0
	for more := true; more; {
		more = s.advance(int64(2*time.Hour), drainPerHold, 0)
		after := fills()
		made := 0
		for f := range after {
			if !before[f] {
				made++
			}
		}
		if c.Len() > stay {
			require.Zero(t, made, "a segment was made smaller while entries were due")
		}
		require.LessOrEqual(t, made, 1, "segments made at once")
		before, steps = after, steps+made
	}
	require.Equal(t, stay, c.Len())
	require.Greater(t, steps, 10)
	require.Less(t, buckets(), full/4)
	require.Empty(t, s.sparse)
	check(t, c)
}

func Test_growth_step_copies_no_more_than_a_segment(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, Clock: clockwork.NewFakeClock()})
	s := &c.shards[0]
	most := limitOf(int(s.maxBuckets))
	require.Less(t, most, 1000)
	fills := func() map[*fill]int {
		m := make(map[*fill]int)
		for i := range s.dir.Load().segments() {
			seg := &s.dir.Load().segments()[i]
			m[seg.fill] = seg.count
		}
		return m
	}
	before := fills()
	dir := s.dir.Load()
	steps := 0
	step := func(what string, i int) {
		if d := s.dir.Load(); d != dir {
			dir = d
			steps++
			after := fills()
			copied := 0
			for f, n := range after {
				if _, old := before[f]; !old {
					copied += n
				}
			}
			if copied > most+limitOf(1)+1 {
				require.Failf(t, "too much copied", "%s %d: %d entries", what, i, copied)
			}
			before = after
		}
	}
	for i := range n {
		c.Set(uint64(i), 0)
		step("insert", i)
	}
	require.Greater(t, steps, n/most)
	for _, i := range shuffled(n) {
		c.Delete(uint64(i))
		step("delete", i)
	}
	require.Len(t, before, 1)
}

func Test_readers_see_every_key_while_the_table_grows_and_shrinks(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 4
	}
	const staying, passing = 2000, 20_000
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, TTL: time.Hour})
	for i := range uint64(staying) {
		c.Set(i, i)
	}
	var readers sync.WaitGroup
	var done atomic.Bool
	var missed, iterations atomic.Int64
	for r := range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := uint64(r); !done.Load(); i++ {
				if v, ok := c.Get(i % staying); !ok || v != i%staying {
					missed.Add(1)
				}
			}
		}()
	}
	readers.Add(1)
	go func() {
		defer readers.Done()
		for {
			var seen [staying]int
			for k, v := range c.All() {
				if k != v {
					missed.Add(1)
				}
				if k < staying {
					seen[k]++
				}
			}
			for _, n := range seen {
				if n != 1 {
					missed.Add(1)
				}
			}
			iterations.Add(1)
			if done.Load() {
				return
			}
		}
	}()
	for range rounds {
		for i := uint64(staying); i < staying+passing; i++ {
			c.Set(i, i)
		}
		for i := uint64(staying); i < staying+passing; i++ {
			c.Delete(i)
		}
	}
	done.Store(true)
	readers.Wait()
	require.Zero(t, missed.Load(), "keys missed, seen twice or with another value")
	require.Positive(t, iterations.Load())
	check(t, c)
	require.Equal(t, staying, c.Len())
}

func Test_capacity_is_enough_for_as_many_entries(t *testing.T) {
	for _, capacity := range []int{16, 100, 1000, 10_000, 50_000} {
		for _, shards := range []int{1, 4} {
			c := mustNew(t, Options[uint64, uint64]{Shards: shards, Capacity: capacity, Clock: clockwork.NewFakeClock()})
			before := make(map[*fill]bool)
			for i := range c.shards {
				for _, seg := range segmentsOf(t, &c.shards[i]) {
					before[seg.fill] = true
				}
			}
			for i := range capacity {
				c.Set(uint64(i), uint64(i))
			}
			check(t, c)
			replaced := len(before)
			for i := range c.shards {
				for _, seg := range segmentsOf(t, &c.shards[i]) {
					if before[seg.fill] {
						replaced--
					}
				}
			}
			require.LessOrEqual(t, replaced, len(before)/20+1, "of %d segments for %d entries in %d shards", len(before), capacity, shards)
		}
	}
}

func Test_iteration_survives_changes_by_its_own_body(t *testing.T) {
	eachHash(t, func(t *testing.T, h testHash) {
		n := uint64(min(h.keys, 3000))
		c := mustNew(t, Options[uint64, uint64]{Shards: 2, Hash: h.sum, Clock: clockwork.NewFakeClock()})
		for i := range n {
			c.Set(i, i)
		}
		seen := make(map[uint64]int)
		next := n
		for k := range c.All() {
			seen[k]++
			switch k % 3 {
			case 0: // grow
				c.Set(next, next)
				next++
			case 1: // shrink: what has been seen goes
				if next > n {
					next--
					c.Delete(next)
				}
			}
		}
		for k := range n {
			if seen[k] != 1 {
				require.Failf(t, "key not seen once", "%d: %d times", k, seen[k])
			}
		}
		check(t, c)
		// Every entry but a few goes while they are iterated over.
		seen = make(map[uint64]int)
		for k := range c.Keys() {
			seen[k]++
			if k%64 != 0 {
				c.Delete(k)
			}
		}
		for k := range n {
			if seen[k] != 1 {
				require.Failf(t, "key not seen once", "%d: %d times", k, seen[k])
			}
		}
		check(t, c)
		for k := range c.All() {
			require.Zero(t, k%64)
		}
	})
}

func Test_nan_keys_are_never_found_but_expire(t *testing.T) {
	clock := clockwork.NewFakeClock()
	var removed []Cause
	c := mustNew(t, Options[float64, int]{Shards: 2, TTL: time.Minute, Clock: clock, OnRemoval: func(r Removal[float64, int]) {
		removed = append(removed, r.Cause)
	}})
	const n = 3000
	for i := range n {
		c.Set(math.NaN(), i)
	}
	c.Set(1, 1)
	check(t, c)
	require.Equal(t, n+1, c.Len())
	_, ok := c.Get(math.NaN())
	require.False(t, ok)
	require.False(t, c.Delete(math.NaN()))
	require.False(t, c.Move(math.NaN(), time.Hour))
	require.Zero(t, c.DeleteFunc(func(k float64, _ int) bool { return k != k }), "a key that is not found cannot be deleted")
	seen := 0
	for k := range c.Keys() {
		if k != k {
			seen++
		}
	}
	require.Equal(t, n, seen)

	clock.Advance(time.Minute)
	c.Flush()
	check(t, c)
	require.Zero(t, c.Len())
	require.Len(t, removed, n+1)

	for i := range n {
		c.Set(math.NaN(), i)
	}
	c.Clear()
	c.Flush()
	check(t, c)
	require.Zero(t, c.Len())
	require.Len(t, removed, 2*n+1)
}

func Test_signed_zeros_are_one_key(t *testing.T) {
	c := mustNew(t, Options[float64, int]{Clock: clockwork.NewFakeClock()})
	c.Set(0, 1)
	c.Set(math.Copysign(0, -1), 2)
	require.Equal(t, 1, c.Len())
	v, ok := c.Get(0)
	require.True(t, ok)
	require.Equal(t, 2, v)
}

func Test_orphan_records_stay_within_bounds(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, Clock: clock, Tick: time.Millisecond})
	s := &c.shards[0]
	r := rand.New(rand.NewPCG(5, 6))
	const keys = 1000
	cycles := 200_000
	if testing.Short() {
		cycles = 30_000
	}
	most := 0
	for i := range cycles {
		k := r.Uint64N(keys)
		switch r.IntN(4) {
		case 0:
			c.Delete(k)
		case 1:
			c.Move(k, time.Duration(1+r.IntN(3600))*time.Second)
		default:
			c.SetTTL(k, k, time.Duration(1+r.IntN(3600))*time.Second)
		}
		if s.wheel != nil {
			most = max(most, s.wheel.Len())
		}
		if i%5000 == 0 {
			check(t, c)
		}
	}
	require.Less(t, most, 3*keys, "records for at most %d entries", keys)
	for k := range uint64(keys) {
		c.Delete(k)
	}
	check(t, c)
	require.True(t, s.wheel == nil || s.wheel.Len() <= fewRecords, "nothing but orphans is left")
}

func Test_records_that_no_longer_belong_to_anything_are_dropped_when_they_come_up(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, Clock: clock, Tick: time.Millisecond})
	for i := range uint64(20) {
		c.SetTTL(i, i, time.Second)
		c.SetTTL(i, i, time.Minute) // later: the record stays
		c.Move(i, 10*time.Millisecond)
		c.SetTTL(i, i, 0)
	}
	c.SetTTL(100, 0, time.Hour)
	check(t, c)
	require.Equal(t, 1, c.Len())
	require.Greater(t, c.Stats().Waiting, 20)
	clock.Advance(time.Second)
	c.Flush()
	check(t, c)
	require.Equal(t, 1, c.Stats().Waiting)
}

func Test_one_record_is_enough_for_deadlines_that_are_not_earlier(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, Clock: clock, Tick: time.Second})
	c.SetTTL(1, 1, time.Minute)
	for i := range time.Duration(100) {
		c.SetTTL(1, 2, time.Minute+i)
		c.Move(1, time.Minute)
		c.Move(1, time.Minute-i*time.Millisecond) // in the same tick
		c.SetTTL(1, 3, expiry.Never)
		c.Move(1, time.Hour)
	}
	require.Equal(t, 1, c.Stats().Waiting)
	c.Move(1, 59*time.Second)
	require.Equal(t, 2, c.Stats().Waiting)
	check(t, c)
}

func Test_entries_of_equal_hash_and_tick_each_expire(t *testing.T) {
	clock := clockwork.NewFakeClock()
	removed := make(map[uint64]int)
	c := mustNew(t, Options[uint64, uint64]{
		Shards: 1, Clock: clock, Hash: func(uint64) uint64 { return 0 },
		OnRemoval: func(r Removal[uint64, uint64]) { removed[r.Key]++ },
	})
	const keys = 100
	for i := range uint64(keys) {
		c.SetTTL(i, i, time.Second)
	}
	for i := uint64(0); i < keys; i += 3 {
		c.Delete(i)
		c.SetTTL(i, i, time.Second) // a second record
	}
	for i := uint64(1); i < keys; i += 3 {
		c.Move(i, 2*time.Second)
	}
	check(t, c)
	clock.Advance(time.Second)
	c.Flush()
	check(t, c)
	for i := range uint64(keys) {
		want := 1
		switch i % 3 {
		case 0:
			want = 2
		case 1:
			want = 0
		}
		require.Equal(t, want, removed[i], "removals of %d", i)
	}
	clock.Advance(time.Second)
	c.Flush()
	check(t, c)
	require.Zero(t, c.Len())
}

func Test_flush_removes_what_is_due_among_entries_of_equal_hash_and_tick(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[int, int]{Shards: 1, Clock: clock, Tick: time.Second, Hash: func(int) uint64 { return 0 }})
	const n = 100
	for i := range n {
		c.SetTTL(i, i, time.Millisecond*time.Duration(n-i))
	}
	for i := range n {
		clock.Advance(time.Millisecond)
		c.Flush()
		check(t, c)
		require.Equal(t, n-1-i, c.Len())
	}
}

func Test_entries_stored_a_horizon_before_any_tick_expire(t *testing.T) {
	// Ticks are kept as their low 32 bits, of which 0 stands for no tick.
	const tick = time.Microsecond
	const horizon = 1 << 30
	for _, start := range []int64{0, 1, 2, 3, 4} {
		for _, off := range []int64{-1, 0, 1} {
			for _, ticks := range []int64{horizon - 1, horizon, horizon + 1, horizon + 2, 2 * horizon, 5*horizon + 1} {
				clock := clockwork.NewFakeClock()
				c := mustNew(t, Options[int, int]{Shards: 1, Clock: clock, Tick: tick})
				c.SetTTL(-1, 0, tick) // gives the shard a wheel
				clock.Advance(time.Duration(max(start*horizon+off, 1)) * tick)
				c.Flush()
				c.SetTTL(0, 1, time.Duration(ticks)*tick)
				check(t, c)
				clock.Advance(time.Duration(ticks)*tick - 1)
				c.Flush()
				check(t, c)
				_, ok := c.Get(0)
				require.True(t, ok)
				clock.Advance(1 + tick) // one tick more: the one called 0 is left out
				c.Flush()
				check(t, c)
				require.Zero(t, c.Len(), "lifetime of %d ticks from tick %d horizons%+d", ticks, start, off)
			}
		}
	}
}

func TestClearLeavesWhatIsStoredBehindIt(t *testing.T) {
	// It goes from segment to segment, and one that it has emptied may be joined with the
	// next.
	const half = 1 << 31
	c := mustNew(t, Options[uint64, uint64]{Shards: 1, TTL: time.Hour})
	s := &c.shards[0]
	var first, second []uint64 // by the half of the hashes that they are in
	full := func() bool {      // the first half, so that it is not joined with what is left of the second
		seg := s.dir.Load().of(0)
		return seg.depth == 1 && seg.count >= seg.limit*3/4
	}
	for k := uint64(0); !full(); k++ {
		switch _, hash := c.at(k); {
		case hash < half:
			c.Set(k, k)
			first = append(first, k)
		case s.dir.Load().depth == 0:
			c.Set(k, k)
			second = append(second, k)
		}
	}
	for s.dir.Load().depth > 0 && len(second) > 3 {
		last := len(second) - 1
		c.Delete(second[last])
		second = second[:last]
	}
	require.Equal(t, uint8(1), s.dir.Load().depth)
	require.Equal(t, uint64(half), s.clearSegment(0, c.clock.now()))
	require.Equal(t, uint8(0), s.dir.Load().depth, "joined")
	c.Set(first[0], 1)
	require.Equal(t, uint64(allHashes), s.clearSegment(half, c.clock.now()))
	require.Equal(t, map[uint64]uint64{first[0]: 1}, contents(t, c))
	check(t, c)
	c.Clear()
	require.Zero(t, c.Len())
	check(t, c)
}
