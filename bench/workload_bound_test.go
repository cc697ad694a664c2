package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// boundedShelves have what is stored evict something else, but for extra entries.
func boundedShelves(extra int) *Peer {
	p := shelves(func(c Config, s *shelf[uint64, uint64]) error {
		s.onSet = func(key, _ uint64, _ time.Duration) {
			time.Sleep(time.Microsecond) // or time would stand still
			s.mu.Lock()
			defer s.mu.Unlock()
			for other := range s.kept {
				if !c.Bounded || len(s.kept) <= c.Entries+extra {
					break
				}
				if other != key {
					delete(s.kept, other)
				}
			}
		}
		s.onGet = func(uint64, shelved[uint64]) bool {
			if time.Sleep(time.Microsecond); c.Bounded {
				time.Sleep(2 * time.Microsecond)
			}
			return true
		}
		return nil
	})
	p.Traits.Bounds = true
	return p
}

func Test_evictions_are_of_keys_that_are_not_there(t *testing.T) {
	for _, extra := range []int{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			f := askUint64s(t, "evict", boundedShelves(extra), Case{Entries: 100, Threads: 1})
			require.InDelta(t, 1000, f["ns/op"], 50)
			require.EqualValues(t, 100+extra, f[heldPercent])
		})
	}
}

func Test_a_full_cache_and_a_roomy_one_are_asked_by_turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := askUint64s(t, "full-get", boundedShelves(0), Case{Entries: 100, Dist: "uniform", Threads: 1})
		require.InDelta(t, 3000, f["ns/op"], 50)
		require.InDelta(t, 1000, f[roomyPerOp], 50)
		require.EqualValues(t, 100, f[hitPercent.Name])
	})
}

// staysWithin is one of Test_peers: peers that say so keep a bound.
func staysWithin[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	if !b.Peer.Traits.Bounds {
		t.Skip("no bound on entries")
	}
	const most = 1000
	c := open(t, b, Config{Entries: most, Bounded: true, TTL: time.Hour})
	for i := range 10 * most {
		c.Set(b.Key(i), b.Value(i), time.Hour)
		if i%100 == 0 {
			flush(c)
		}
	}
	flush(c)
	require.LessOrEqual(t, c.Len(), most)
	require.Greater(t, c.Len(), most*9/10)
}
