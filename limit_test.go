package wheelcache

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// Sessions end after half an hour without use, and after a day in any case.
func sessions() expiry.Policy[int, int] {
	return expiry.Limit(expiry.AfterAccess[int, int](30*time.Minute), 24*time.Hour)
}

func Test_session_touched_for_ever_dies_at_its_greatest_age(t *testing.T) {
	for name, use := range map[string]func(c *Cache[int, int]) (live bool){
		"read": func(c *Cache[int, int]) bool {
			_, ok := c.Get(1)
			return ok
		},
		"touched": func(c *Cache[int, int]) bool { return c.Touch(1) },
		"moved":   func(c *Cache[int, int]) bool { return c.Move(1, expiry.Never) },
		"read by GetOrSet": func(c *Cache[int, int]) bool {
			_, loaded := c.GetOrSet(1, 2)
			return loaded
		},
		"given other values": func(c *Cache[int, int]) bool {
			v, ok := c.Get(1)
			_, replaced := c.Replace(1, v+1)
			return ok && replaced && CompareAndSwap(c, 1, v+1, v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			var gone []Removal[int, int]
			c := mustNew(t, Options[int, int]{Expiry: sessions(), Clock: clock, OnRemoval: func(r Removal[int, int]) {
				if r.Cause == Expired {
					gone = append(gone, r)
				}
			}})
			clock.Advance(17 * time.Second)
			birth := clock.Now()
			c.Set(1, 1)
			for range 24*60 - 1 {
				clock.Advance(time.Minute)
				require.True(t, use(c), "%v after its birth", clock.Since(birth))
			}
			clock.Advance(time.Minute - 1)
			require.True(t, use(c), "the last nanosecond")
			check(t, c)
			clock.Advance(1)
			_, ok := c.Peek(1)
			require.False(t, ok)
			c.Flush()
			require.Equal(t, []Removal[int, int]{{1, 1, Expired, birth.Add(24 * time.Hour), 0}}, gone)
			require.False(t, use(c))
		})
	}
}

// On real time the birth is as exact, and a slide may be short by a tick.
func Test_session_on_real_time_dies_at_its_greatest_age(t *testing.T) {
	for _, exact := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := mustNew(t, Options[int, int]{Expiry: sessions(), ExactClock: exact})
			time.Sleep(17 * time.Second)
			for i := range 1000 { // the coarse clock wakes
				c.Set(2+i, 0)
			}
			require.Equal(t, !exact, c.CoarseClockAwake())
			birth := time.Now()
			c.Set(1, 1)
			for range 24*60 - 1 {
				time.Sleep(time.Minute)
				_, ok := c.Get(1)
				require.True(t, ok, "%v after its birth", time.Since(birth))
			}
			time.Sleep(time.Minute - defaultTick)
			_, ok := c.Get(1)
			require.True(t, ok)
			time.Sleep(defaultTick)
			_, ok = c.Peek(1)
			require.False(t, ok)
		})
	}
}

// Whoever gives the deadline, it is cut to the end of the longest life. That begins
// with the value.
func Test_every_deadline_is_bounded_by_the_greatest_age(t *testing.T) {
	const ttl, maxAge = 30 * time.Minute, time.Hour
	const age = 40 * time.Minute // when the operation comes; the entry has been read before
	store := func(int, bool) (int, Op) { return 2, OpStore }
	for name, c := range map[string]struct {
		do   func(c *Cache[int, int], clock *clockwork.FakeClock)
		want time.Duration // that remains
	}{
		"nothing":                        {func(*Cache[int, int], *clockwork.FakeClock) {}, 10 * time.Minute},
		"Get":                            {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Get(1) }, maxAge - age},
		"Peek":                           {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Peek(1) }, 10 * time.Minute},
		"GetOrSet":                       {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.GetOrSet(1, 2) }, maxAge - age},
		"Touch":                          {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Touch(1) }, maxAge - age},
		"Move":                           {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Move(1, time.Minute) }, time.Minute},
		"Move for too long":              {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Move(1, 3*time.Hour) }, maxAge - age},
		"Move for good":                  {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Move(1, expiry.Never) }, maxAge - age},
		"Replace":                        {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Replace(1, 2) }, 10 * time.Minute},
		"Replace and Touch":              {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Replace(1, 2); c.Touch(1) }, maxAge - age},
		"CompareAndSwap and Touch":       {func(c *Cache[int, int], _ *clockwork.FakeClock) { CompareAndSwap(c, 1, 1, 2); c.Touch(1) }, maxAge - age},
		"Set":                            {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Set(1, 2) }, ttl},
		"Set and Move":                   {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Set(1, 2); c.Move(1, expiry.Never) }, maxAge},
		"Compute":                        {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Compute(1, store) }, ttl},
		"Compute and Move":               {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Compute(1, store); c.Move(1, expiry.Never) }, maxAge},
		"Delete, GetOrSet and Move":      {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.Delete(1); c.GetOrSet(1, 2); c.Move(1, 2*maxAge) }, maxAge},
		"SetTTL":                         {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.SetTTL(1, 2, time.Minute) }, time.Minute},
		"SetTTL for too long":            {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.SetTTL(1, 2, 3*time.Hour) }, maxAge},
		"SetTTL for good":                {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.SetTTL(1, 2, expiry.Never) }, maxAge},
		"SetTTL for too long, then read": {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.SetTTL(1, 2, 3*time.Hour); c.Get(1) }, ttl},
		"SetDeadline for good":           {func(c *Cache[int, int], _ *clockwork.FakeClock) { c.SetDeadline(1, 2, time.Time{}) }, maxAge},
		"SetDeadline for too long":       {func(c *Cache[int, int], clock *clockwork.FakeClock) { c.SetDeadline(1, 2, clock.Now().Add(2*maxAge)) }, maxAge},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			p := expiry.Limit(expiry.AfterAccess[int, int](ttl), maxAge)
			cache := mustNew(t, Options[int, int]{Expiry: p, Clock: clock})
			cache.Set(1, 1)
			clock.Advance(age / 2)
			cache.Get(1)
			clock.Advance(age / 2)
			c.do(cache, clock)
			e, ok := cache.Entry(1)
			require.True(t, ok)
			require.Equal(t, c.want, e.TTL)
			check(t, cache)
		})
	}
}

func Test_greatest_age_is_found_in_whatever_is_built_upon_it(t *testing.T) {
	slides := expiry.AfterAccess[int, int](expiry.Never)
	for name, p := range map[string]expiry.Policy[int, int]{
		"Limit":           expiry.Limit(slides, time.Hour),
		"Jitter of Limit": expiry.Jitter(expiry.Limit(slides, time.Hour), 0.5),
		"Limit of Jitter": expiry.Limit(expiry.Jitter(slides, 0.5), time.Hour),
		"Limit of Limit":  expiry.Limit(expiry.Limit(slides, 2*time.Hour), time.Hour),
		"Limit in Limit":  expiry.Limit(expiry.Limit(slides, time.Hour), 2*time.Hour),
		"a policy's own":  aged{slides, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			c := mustNew(t, Options[int, int]{Expiry: p, Clock: clock})
			c.SetTTL(1, 1, expiry.Never)
			clock.Advance(time.Hour - 1)
			_, ok := c.Get(1)
			require.True(t, ok)
			clock.Advance(1)
			_, ok = c.Get(1)
			require.False(t, ok)
		})
	}
}

// aged is a policy with a greatest age that did not get it from Limit.
type aged struct {
	expiry.Policy[int, int]
	maxAge time.Duration
}

func (p aged) Traits() expiry.Traits { return expiry.Traits{MaxAge: p.maxAge} }

func Test_greatest_age_of_less_than_nothing_is_none(t *testing.T) {
	clock := clockwork.NewFakeClock()
	for _, maxAge := range []time.Duration{0, -1, math.MinInt64, expiry.Never} {
		c := mustNew(t, Options[int, int]{Expiry: aged{expiry.AfterWrite[int, int](expiry.Never), maxAge}, Clock: clock})
		c.Set(1, 1)
		e, ok := c.Entry(1)
		require.True(t, ok, "greatest age %d", maxAge)
		require.Equal(t, expiry.Never, e.TTL, "greatest age %d", maxAge)
		check(t, c)
	}
}

// Latest deadlines move with their entries when segments are split and merged, and
// go with them.
func Test_greatest_age_stays_with_the_entry_while_the_table_grows_and_shrinks(t *testing.T) {
	const n = 5000
	clock := clockwork.NewFakeClock()
	p := expiry.Limit(expiry.AfterAccess[int, int](time.Hour), n*time.Second)
	c := mustNew(t, Options[int, int]{Expiry: p, Clock: clock, Shards: 1})
	c.shards[0].maxBuckets = 4
	for i := range n { // one is born each second, and all are read in time
		c.Set(i, i)
		clock.Advance(time.Second)
		if i%1000 == 0 {
			for k := range i {
				c.Get(k)
			}
		}
	}
	for i := range n {
		c.Move(i, expiry.Never) // to the end of its life, which is that of its own birth
	}
	check(t, c)
	for i := range n {
		e, ok := c.Entry(i)
		require.Equal(t, i > 0, ok, "entry %d", i) // that of the first is now
		if ok {
			require.Equal(t, time.Duration(i)*time.Second, e.TTL, "entry %d", i)
		}
	}
	clock.Advance(n * time.Second)
	c.Flush()
	require.Zero(t, c.Len())
	for c.shards[0].advance(c.clock.now(), 1, 0) { // what is sparse becomes smaller step by step
	}
	check(t, c)
	for _, seg := range segmentsOf(t, &c.shards[0]) {
		require.LessOrEqual(t, seg.n, uint32(1))
	}
}

// A key that is not equal to itself can not be deleted, and leaves nothing behind.
func Test_greatest_age_of_keys_that_are_not_equal_to_themselves(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[float64, int]{
		Expiry: expiry.Limit(expiry.AfterAccess[float64, int](expiry.Never), time.Hour), Clock: clock,
	})
	for i := range 1000 {
		c.Set(math.NaN(), i)
	}
	check(t, c)
	clock.Advance(time.Hour)
	c.Flush()
	require.Zero(t, c.Len())
	check(t, c)
}

// The policy is asked about a read; meanwhile a writer replaces the segment.
func Test_sliding_read_during_a_rebuild_is_bounded(t *testing.T) {
	clock := clockwork.NewFakeClock()
	p := &rebuilding{} // slides by an hour
	c := mustNew(t, Options[int, int]{Shards: 1, Clock: clock, Expiry: expiry.Limit(p, 65*time.Minute)})
	p.c = c
	c.Set(1, 1)
	clock.Advance(10 * time.Minute)
	_, ok := c.Get(1)
	require.True(t, ok)
	e, ok := c.Entry(1)
	require.True(t, ok)
	require.Equal(t, 55*time.Minute, e.TTL)
	check(t, c)
}

// The policy is asked about a read; meanwhile the same value is stored again, which
// begins another life.
func Test_late_slide_leaves_a_new_life_alone(t *testing.T) {
	clock := clockwork.NewFakeClock()
	p := &neighbour[int]{Policy: expiry.AfterAccess[int, int](time.Hour)}
	c := mustNew(t, Options[int, int]{Expiry: expiry.Limit(p, 90*time.Minute), Clock: clock})
	c.Set(1, 1)
	clock.Advance(50 * time.Minute)
	p.read = func() { c.Set(1, 1) }
	_, ok := c.Get(1)
	require.True(t, ok)
	e, ok := c.Entry(1)
	require.True(t, ok)
	require.Equal(t, time.Hour, e.TTL)
	require.True(t, c.Move(1, expiry.Never))
	e, ok = c.Entry(1)
	require.True(t, ok)
	require.Equal(t, 90*time.Minute, e.TTL)
}

// Goroutines do what they can to keep entries alive, while others make the table
// grow and shrink under them and the clock is advanced. Nobody sees an entry at the
// end of its life, and everybody sees it until then.
func Test_no_reader_sees_more_than_the_greatest_age(t *testing.T) {
	const keys, rounds, maxAge, step = 8, 200, time.Hour, time.Minute
	clock := clockwork.NewFakeClock()
	p := expiry.Limit(expiry.AfterAccess[int, int](10*time.Minute), maxAge)
	c := mustNew(t, Options[int, int]{Expiry: p, Clock: clock, Shards: 1})
	c.shards[0].maxBuckets = 4
	end := clock.Now().Add(maxAge)
	for k := range keys {
		c.Set(k, k)
	}
	uses := map[string]func(k int) (live bool){
		"Get":   func(k int) bool { _, ok := c.Get(k); return ok },
		"again": func(k int) bool { _, ok := c.Get(k); return ok },
		"Touch": c.Touch,
		"Move":  func(k int) bool { return c.Move(k, expiry.Never) },
		"others": func(k int) bool {
			for i := range 10 {
				c.Set(keys+10*k+i, i)
			}
			c.DeleteFunc(func(other, _ int) bool { return other >= keys+10*k })
			return false
		},
	}
	for range maxAge/step + 5 {
		var wg sync.WaitGroup
		for name, use := range uses {
			wg.Go(func() {
				for i := range rounds {
					asked := clock.Now()
					if use(i%keys) && !asked.Before(end) {
						t.Errorf("%s: entry %d is there %v after the end of its life", name, i%keys, asked.Sub(end))
					}
				}
			})
		}
		clock.Advance(step)
		wg.Wait()
		for k := range keys {
			_, ok := c.Peek(k)
			require.Equal(t, clock.Now().Before(end), ok, "entry %d, %v after the end of its life", k, clock.Since(end))
		}
		check(t, c)
	}
}
