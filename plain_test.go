package wheelcache

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A cache in which nobody else need know of a Set overwrites by write, which those of
// the model, whose removals are compared, never do.
func TestAPlainCacheAgreesWithAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			plainAgainstMap(t, seed, uint64Keys, uint64Values)
			plainAgainstMap(t, seed, stringKeys, func(i int) *int { return &sharedInts[i] })
			plainAgainstMap(t, seed, func(i int) int16 { return int16(i) }, func(i int) uint8 { return uint8(i) })
			plainAgainstMap(t, seed, stringKeys, stringKeys)
		})
	}
}

func plainAgainstMap[K, V comparable](t *testing.T, seed uint64, key func(int) K, value func(int) V) {
	type entry struct {
		value    V
		deadline time.Time // zero: none
	}
	r := rand.New(rand.NewPCG(seed, 1))
	clock := clockwork.NewFakeClock()
	c := mustNew(t, Options[K, V]{Shards: 1 << r.IntN(3), Clock: clock})
	require.True(t, c.shards[0].plain)
	want, sets, replaced := map[K]entry{}, uint64(0), uint64(0)
	live := func(k K) (entry, bool) {
		if e, ok := want[k]; ok && (e.deadline.IsZero() || clock.Now().Before(e.deadline)) {
			return e, true
		}
		return entry{}, false
	}
	lifetime := func() (ttl time.Duration, deadline time.Time) {
		if r.IntN(8) == 0 {
			return expiry.Never, time.Time{}
		}
		ttl = time.Duration(1 + r.Int64N(int64(4*time.Second)))
		return ttl, clock.Now().Add(ttl)
	}
	for step := range 2000 {
		k, v := key(r.IntN(100)), value(r.IntN(1000))
		old, ok := live(k)
		switch op := r.IntN(20); {
		case op < 10:
			ttl, deadline := lifetime()
			c.SetTTL(k, v, ttl)
			want[k] = entry{v, deadline}
			sets++
			if ok {
				replaced++
			}
		case op < 15:
			e, found := c.Entry(k)
			require.Equal(t, ok, found)
			require.Equal(t, old.value, e.Value)
			require.True(t, old.deadline.Equal(e.Deadline), "%v, want %v", e.Deadline, old.deadline)
		case op < 16:
			require.Equal(t, ok, c.Delete(k))
			delete(want, k)
		case op < 18:
			ttl, deadline := lifetime()
			require.Equal(t, ok, c.Move(k, ttl))
			if ok {
				want[k] = entry{old.value, deadline}
			}
		default:
			clock.Advance(time.Duration(r.Int64N(int64(time.Second))))
		}
		if _, ok := live(k); !ok {
			delete(want, k)
		}
		if step%100 == 0 {
			check(t, c)
		}
	}
	check(t, c)
	require.Equal(t, sets, c.Stats().Sets)
	require.Equal(t, replaced, c.Stats().Replaced)
}
