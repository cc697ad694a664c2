package main

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A loadingShelf calls its loader times times for each caller that misses: nobody waits
// for another.
type loadingShelf struct {
	shelf[uint64, uint64]
	load  func(context.Context, uint64) (uint64, error)
	times int
	ttl   time.Duration
	wrong uint64 // added to what is returned
}

func (s *loadingShelf) GetOrLoad(ctx context.Context, key uint64) (uint64, error) {
	time.Sleep(time.Microsecond) // or time would stand still
	s.mu.Lock()
	e, ok := s.kept[key]
	s.mu.Unlock()
	if ok && time.Now().Before(e.deadline) {
		return e.value + s.wrong, nil
	}
	var value uint64
	var err error
	for range s.times {
		value, err = s.load(ctx, key)
	}
	s.Set(key, value, s.ttl)
	return value + s.wrong, err
}

func loadingShelves(prepare func(Config, *loadingShelf)) *Peer {
	return &Peer{
		Name:   "shelf",
		Traits: Traits{Expires: true, EachTTL: true, Shared: true, Deletes: true, Loads: true},
		Uint64s: func(c Config) (Cache[uint64, uint64], error) {
			s := &loadingShelf{times: 1, ttl: c.TTL, load: loaderOf[uint64, uint64](c)}
			s.kept = map[uint64]shelved[uint64]{}
			prepare(c, s)
			return s, nil
		},
	}
}

func Test_a_herd_counts_loads_and_wrong_answers_by_round(t *testing.T) {
	for _, wrong := range []uint64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			f := askUint64s(t, "herd", loadingShelves(func(_ Config, s *loadingShelf) { s.wrong, s.times = wrong, 2 }), Case{Threads: 10})
			require.EqualValues(t, 20, f[loadsPerKey], "each of 10 goroutines loads twice")
			require.EqualValues(t, 20, f[mostLoads])
			require.InDelta(t, 2.001, f["last ms"], 0.01)
			require.Equal(t, float64(10*wrong)*f["rounds"], f[wrongAnswers])
			require.InDelta(t, 125, f["rounds"], 2)
		})
	}
}

func Test_a_herd_of_many_keys_asks_for_each_and_counts_expired_answers(t *testing.T) {
	for _, variant := range []string{"missing", "expired", "expired served"} {
		synctest.Test(t, func(t *testing.T) {
			p := loadingShelves(func(_ Config, s *loadingShelf) {
				if variant == "expired served" {
					s.onSet = func(key, value uint64, _ time.Duration) {
						s.kept[key] = shelved[uint64]{value, time.Now().Add(time.Hour)}
					}
				}
			})
			c := Case{Entries: 50, Dist: "uniform", Threads: 1, Variant: variant}
			served := variant == "expired served"
			if served {
				c.Variant = "expired"
			}
			f := askUint64s(t, "herd-many", p, c)
			if served {
				require.Zero(t, f[loadsPerKey])
				require.EqualValues(t, herdDrawn+50, f[wrongAnswers])
				return
			}
			require.EqualValues(t, 1, f[loadsPerKey])
			require.EqualValues(t, 1, f[mostLoads])
			require.Zero(t, f[wrongAnswers])
			// A microsecond per call, and a millisecond per key.
			require.InDelta(t, (herdDrawn+50)/1e3+50, f["all ms"], 1)
		})
	}
}

func Test_a_herd_of_expired_keys_needs_lifetimes_of_their_own(t *testing.T) {
	p := loadingShelves(func(Config, *loadingShelf) {})
	p.Traits.EachTTL = false
	_, err := workloadNamed("herd-many").Uint64s(uint64Bench(p), Case{Entries: 50, Threads: 1, Variant: "expired"})
	require.ErrorIs(t, err, ErrCannot)
}

func Test_each_key_is_asked_for_at_least_once(t *testing.T) {
	all := atLeastOnce([]uint32{0, 0, 1}, 5)
	slices.Sort(all)
	require.Equal(t, []uint32{0, 0, 0, 1, 1, 2, 3, 4}, all)
}

func Test_refreshing_counts_who_waited_and_what_was_late(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := loadingShelves(func(c Config, s *loadingShelf) {
				require.Zero(t, c.RefreshAfter)
				if late {
					s.ttl = 400 * time.Millisecond
				}
			})
			f := askUint64s(t, "refresh", p, Case{Entries: 10, Dist: "uniform", Threads: 1, Variant: "off"})
			require.InDelta(t, 1000, f["p50 ns"], 10)
			require.InDelta(t, f["waited"], f["loads/s"], 0.1, "who finds nothing loads")
			require.Positive(t, f["waited"])
			require.InDelta(t, 1.001, f["max ms"], 0.01)
			require.Zero(t, f["failed"])
			require.Equal(t, late, f["late"] > 0)
		})
	}
}

func Test_refreshing_is_asked_for_in_the_variant_ahead_only(t *testing.T) {
	for variant, after := range map[string]time.Duration{"ahead": refreshAfter, "off": 0} {
		var got Config
		p := loadingShelves(func(c Config, _ *loadingShelf) { got = c })
		s, err := workloadNamed("refresh").Uint64s(uint64Bench(p), Case{Entries: 10, Dist: "zipf", Threads: 1, Variant: variant})
		require.NoError(t, err)
		s.Close()
		require.Equal(t, after, got.RefreshAfter)
		require.Equal(t, refreshTTL, got.TTL)
	}
}

func Test_hits_of_both_kinds_are_measured_unless_they_are_one(t *testing.T) {
	before := [2]time.Duration{runFor, warmUp}
	runFor, warmUp = 10*time.Millisecond, 0
	t.Cleanup(func() { runFor, warmUp = before[0], before[1] })
	for _, byGet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := loadingShelves(func(_ Config, s *loadingShelf) {
				s.onGet = func(uint64, shelved[uint64]) bool {
					time.Sleep(2 * time.Microsecond)
					return true
				}
			})
			p.Traits.LoadsByGet = byGet
			f := askUint64s(t, "hit-load", p, Case{Entries: 100, Dist: "zipf", Threads: 1})
			require.InDelta(t, 1000, f[perOp.Name], 1)
			require.EqualValues(t, 100, f[hitPercent.Name])
			if byGet {
				require.NotContains(t, f, getPerOp)
			} else {
				require.InDelta(t, 2000, f[getPerOp], 1)
			}
		})
	}
}

func Test_a_peer_for_loading_only_is_asked_nothing_else(t *testing.T) {
	p := Peer{OnlyLoads: true}
	require.False(t, p.takesPart(Traits{Expires: true}))
	require.True(t, p.takesPart(Traits{Loads: true}))
	require.Equal(t, []string{"gocache-singleflight"}, onlyLoad())
	d := driver{peer: peerNamed("gocache-singleflight")}
	require.ErrorIs(t, d.open(workloadNamed("get"), Case{Keys: "string", Entries: 10}), ErrCannot)
}

func Test_a_stamped_value_has_that_identity(t *testing.T) {
	require.EqualValues(t, 5, identity(stamped[uint64](5)))
	require.EqualValues(t, 5, identity(stamped[*Payload](5)))
}
