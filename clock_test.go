package wheelcache

import (
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// stepBack is an injected clock that goes back as far as a Time goes, and looks each
// time it is asked whether a shard is locked.
type stepBack struct {
	*clockwork.FakeClock
	back   bool
	locked func() bool
	under  int
}

func (k *stepBack) Now() time.Time {
	if k.locked != nil && k.locked() {
		k.under++
	}
	if k.back {
		return time.Time{}
	}
	return k.FakeClock.Now()
}

// Time.Sub saturates at math.MinInt64, which is what unread is: the cache then takes
// the injected clock for package time and asks it under the lock.
func Test_injected_clock_is_not_asked_under_a_lock_however_far_it_goes_back(t *testing.T) {
	k := &stepBack{FakeClock: clockwork.NewFakeClock()}
	c, err := New(Options[int, int]{TTL: time.Hour, Shards: 1, Clock: k})
	require.NoError(t, err)
	defer c.Close()
	k.locked = func() bool {
		s := &c.shards[0]
		if s.mu.TryLock() {
			s.mu.Unlock()
			return false
		}
		return true
	}
	k.back = true
	c.Set(1, 1)
	c.SetDeadline(1, 1, time.Unix(0, 0))
	require.Zero(t, k.under, "times that the clock was asked under the lock")
}

// A sized cache has its wheels before the first Set, and they begin when it was made, whatever
// the time is.
func TestASizedCacheGoesByItsClockFromTheBeginning(t *testing.T) {
	for _, year := range []int{1970, 2020, 2200} {
		clock := clockwork.NewFakeClockAt(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		var late []time.Duration
		c := mustNew(t, Options[int, int]{TTL: time.Minute, Capacity: 100_000, Clock: clock,
			OnRemoval: func(r Removal[int, int]) { late = append(late, r.Late) }})
		for i := range 1_000 {
			c.Set(i, i)
		}
		for i := range c.shards {
			require.Zero(t, c.shards[i].wheel.Cursor(), year)
		}
		clock.Advance(time.Minute - 1)
		c.Flush()
		require.Equal(t, 1_000, c.Len(), year)
		clock.Advance(1)
		c.Flush()
		require.Zero(t, c.Len(), year)
		require.Len(t, late, 1_000)
		require.Zero(t, slices.Max(late))
	}
}
