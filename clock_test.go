package wheelcache

import (
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
