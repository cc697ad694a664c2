package wheelcache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A key that is touched in time is present throughout, whatever the copy says.
func Test_iteration_sees_keys_that_are_touched_meanwhile(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[int, int]{TTL: 10 * time.Second, Clock: clock, Shards: 1, Hash: func(int) uint64 { return 0 }})
	c.Set(1, 1)
	c.Set(2, 2)
	seen := 0
	for range c.All() {
		if seen++; seen == 1 {
			clock.Advance(6 * time.Second)
			require.True(t, c.Touch(1))
			require.True(t, c.Touch(2))
			clock.Advance(6 * time.Second)
		}
	}
	require.Equal(t, 2, seen)
}

// A slowPolicy has hooks in its methods.
type slowPolicy struct {
	expiry.Policy[int, int]
	create, read func()
}

func (p *slowPolicy) Create(k, v int) time.Duration {
	d := p.Policy.Create(k, v)
	if p.create != nil {
		p.create()
	}
	return d
}
func (p *slowPolicy) Read(k, v int, r time.Duration) time.Duration {
	d := p.Policy.Read(k, v, r)
	if p.read != nil {
		p.read()
	}
	return d
}

// However often a Move comes between the answer of a policy and the Set or the Touch
// that asked, it is not undone.
func Test_policies_are_asked_until_their_answer_holds(t *testing.T) {
	const disturbances = 100
	clock := clockwork.NewFakeClock()
	p := &disturbed{Policy: expiry.AfterCreate[int, int](time.Hour)}
	c := mustNew(t, Options[int, int]{Expiry: p, Clock: clock})
	c.Set(1, 1)
	p.asked = func(n int) {
		if n <= disturbances {
			require.True(t, c.Move(1, time.Duration(n)*time.Minute))
		}
	}
	c.Set(1, 2)
	e, ok := c.Entry(1)
	require.True(t, ok)
	require.Equal(t, 2, e.Value)
	require.Equal(t, disturbances*time.Minute, e.TTL)

	p.n = 0
	p.asked = func(n int) {
		if n <= disturbances {
			c.SetTTL(1, 2+n, time.Minute)
		}
	}
	require.True(t, c.Touch(1))
	require.Equal(t, 2+disturbances, p.value)
	check(t, c)
}

// A disturbed policy has its questions numbered.
type disturbed struct {
	expiry.Policy[int, int]
	asked    func(n int)
	n, value int
}

func (p *disturbed) Create(k, v int) time.Duration {
	p.disturb(v)
	return p.Policy.Create(k, v)
}

func (p *disturbed) Update(k, v int, remaining time.Duration) time.Duration {
	p.disturb(v)
	return p.Policy.Update(k, v, remaining)
}

func (p *disturbed) disturb(v int) {
	if p.asked == nil {
		return
	}
	p.n++
	p.value = v
	p.asked(p.n)
}

// What a read has found expired while the policy was asked stays so.
func Test_touch_does_not_revive_what_has_expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowPolicy{Policy: expiry.AfterWrite[int, int](7 * time.Millisecond)}
		c := mustNew(t, Options[int, int]{Expiry: p})
		c.Set(1, 1)
		time.Sleep(2 * time.Millisecond)
		missed := false
		p.create = func() {
			time.Sleep(6 * time.Millisecond)
			_, ok := c.Get(1)
			missed = !ok
		}
		touched := c.Touch(1)
		require.True(t, missed)
		_, ok := c.Get(1)
		require.False(t, touched, "touched")
		require.False(t, ok, "read")
	})
}

// Nor does a read bring it back, if the policy takes longer than the entry lives.
func Test_slide_does_not_revive_what_has_expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowPolicy{Policy: expiry.AfterAccess[int, int](time.Second)}
		c := mustNew(t, Options[int, int]{Expiry: p, Tick: time.Minute}) // so that it stays in the table
		c.Set(1, 1)
		for range 2 * wakeAfter {
			c.Get(1)
		}
		time.Sleep(20 * time.Millisecond)
		require.True(t, c.clock.awake())
		found := true
		p.read = func() {
			p.read = nil
			time.Sleep(1100 * time.Millisecond)
			_, found = c.Peek(1)
		}
		c.Get(1)
		require.False(t, found)
		_, ok := c.Peek(1)
		require.False(t, ok, "it was gone, and is back")
	})
}

// A lifetime shorter than a tick slides too.
func Test_short_lifetimes_slide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, Options[int, int]{Expiry: expiry.AfterAccess[int, int](15 * time.Millisecond), ExactClock: true, Tick: time.Second})
		c.Set(1, 1)
		for range 100 {
			time.Sleep(9 * time.Millisecond)
			_, ok := c.Get(1)
			require.True(t, ok)
		}
	})
}

// The policy is asked about the value that was read; by then there is another.
func Test_late_slide_leaves_a_new_value_alone(t *testing.T) {
	clock := clockwork.NewFakeClock()
	p := &slowPolicy{Policy: expiry.AfterAccess[int, int](time.Second)}
	c := mustNew(t, Options[int, int]{Expiry: p, Clock: clock})
	c.Set(1, 1)
	p.read = func() {
		p.read = nil
		c.SetTTL(1, 2, time.Hour)
	}
	clock.Advance(time.Millisecond)
	v, ok := c.Get(1)
	require.True(t, ok)
	require.Equal(t, 1, v)
	clock.Advance(time.Minute)
	v, ok = c.Peek(1)
	require.True(t, ok, "the value stored for an hour has gone")
	require.Equal(t, 2, v)
}

// A reader has missed the entry while the function ran, so it is asked again.
func Test_compute_does_not_go_on_with_what_has_expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, Options[int, int]{TTL: 5 * time.Millisecond})
		c.Set(1, 1)
		missed := make(chan bool, 1)
		go func() {
			time.Sleep(6 * time.Millisecond)
			_, ok := c.Get(1)
			missed <- !ok
		}()
		v, ok := c.Compute(1, func(old int, ok bool) (int, Op) {
			time.Sleep(7 * time.Millisecond)
			return old + 1, OpStore
		})
		require.True(t, ok)
		require.True(t, <-missed)
		require.Equal(t, 1, v, "0+1: the old value had expired")
	})
}

// The function has wanted to store while the value was live. Asked again, about
// nothing, it wants nothing stored.
func Test_compute_answers_by_what_was_done_at_last(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, Options[int, int]{TTL: 5 * time.Millisecond})
		c.Set(1, 1)
		v, ok := c.Compute(1, func(old int, ok bool) (int, Op) {
			time.Sleep(7 * time.Millisecond)
			if ok {
				return old + 1, OpStore
			}
			return 0, OpRemove
		})
		_, there := c.Get(1)
		require.False(t, there)
		require.False(t, ok, "Compute answers %d, which is nowhere", v)
	})
}

type large [1 << 16]byte

// byValue is a policy by which an overwritten entry gets a lifetime that depends on
// the new value.
type byValue struct{ expiry.Policy[int, large] }

func (byValue) Create(_ int, v large) time.Duration {
	if v[0] == 1 {
		return time.Millisecond
	}
	return time.Hour
}
func (p byValue) Update(k int, v large, _ time.Duration) time.Duration { return p.Create(k, v) }

// The entry expires between the two looks that an edit takes at its deadline. A large
// value makes the time between them long, since it is copied there.
func Test_set_is_not_lost_when_the_entry_expires_meanwhile(t *testing.T) {
	c := mustNew(t, Options[int, large]{Expiry: byValue{expiry.AfterCreate[int, large](1)}, ExactClock: true})
	var first, second large
	first[0], second[0] = 1, 2
	for i := range 300 {
		c.Set(1, first)
		e, ok := c.Entry(1)
		if !ok {
			continue
		}
		for time.Until(e.Deadline) > time.Duration(i%1000)*time.Microsecond {
		}
		c.Set(1, second)
		_, ok = c.Get(1)
		require.True(t, ok, "try %d: a value stored for an hour is not there", i)
		c.Delete(1)
	}
}

// A sliding read moves the deadline, also while its segment is being rebuilt. slide
// tries maxSlides times, which takes some microseconds, and gives up silently; a writer
// that has frozen the segment to copy it may take longer.
func Test_sliding_read_during_a_rebuild_moves_the_deadline(t *testing.T) {
	clock := clockwork.NewFakeClock()
	p := &rebuilding{}
	c := mustNew(t, Options[int, int]{Shards: 1, Clock: clock, Expiry: p})
	p.c = c
	c.Set(1, 1)
	clock.Advance(10 * time.Minute)
	_, ok := c.Get(1)
	require.True(t, ok)
	e, ok := c.Entry(1)
	require.True(t, ok)
	require.Equal(t, time.Hour, e.TTL)
	check(t, c)
}

// rebuilding slides by an hour. The first question finds a writer that begins to
// rebuild the segment, the one of number maxSlides one that ends.
type rebuilding struct {
	c     *Cache[int, int]
	asked int
}

func (p *rebuilding) Create(int, int) time.Duration                { return time.Hour }
func (p *rebuilding) Update(int, int, time.Duration) time.Duration { return time.Hour }
func (p *rebuilding) Read(int, int, time.Duration) time.Duration {
	s, hash := p.c.at(1)
	seg := *s.dir.Load().of(hash)
	switch p.asked++; p.asked {
	case 1:
		s.mu.Lock()
		freeze[int, int](&seg)
	case maxSlides:
		s.replace(hash, seg.depth, s.rebuilt(int(seg.n), seg.depth, seg))
		s.mu.Unlock()
	}
	return time.Hour
}

// A value that is copied keeps its fields, but not what lies between them.
func Test_sliding_read_knows_its_value_though_it_has_padding(t *testing.T) {
	type padded struct {
		a byte
		b int64
		c byte
	}
	clock := clockwork.NewFakeClock()
	var c *Cache[int, padded]
	p := &neighbour[padded]{Policy: expiry.AfterAccess[int, padded](time.Hour)}
	c = mustNew(t, Options[int, padded]{Expiry: p, Clock: clock, Shards: 1, Hash: func(int) uint64 { return 0 }})
	c.Set(1, padded{1, 2, 3})
	clock.Advance(30 * time.Minute)
	p.read = func() { c.Set(2, padded{4, 5, 6}) } // in the same bucket
	_, ok := c.Get(1)
	require.True(t, ok)
	e, ok := c.Entry(1)
	require.True(t, ok)
	require.Equal(t, time.Hour, e.TTL)
}

// A neighbour has something done, once, when it is asked about a read.
type neighbour[V any] struct {
	expiry.Policy[int, V]
	read func()
}

func (p *neighbour[V]) Read(k int, v V, remaining time.Duration) time.Duration {
	if f := p.read; f != nil {
		p.read = nil
		f()
	}
	return p.Policy.Read(k, v, remaining)
}
