package expiry_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// An answering is a policy that answers as it is told to.
type answering struct{ create, update, read time.Duration }

func (p answering) Create(string, int) time.Duration                { return p.create }
func (p answering) Update(string, int, time.Duration) time.Duration { return p.update }
func (p answering) Read(string, int, time.Duration) time.Duration   { return p.read }

// largest is the draw that shortens most.
const largest = 1 - 1.0/(1<<53)

func Test_jitter_takes_the_share_drawn_off_a_lifetime(t *testing.T) {
	for _, c := range []struct {
		ttl         time.Duration
		fraction    float64
		share       float64
		want        time.Duration
		description string
	}{
		{time.Minute, 0.5, 0, time.Minute, "nothing"},
		{time.Minute, 0.5, 0.5, 45 * time.Second, "half"},
		{time.Minute, 0.5, largest, 30*time.Second + 1, "nearly all"},
		{time.Minute, 0.2, 0.25, 57 * time.Second, "a quarter"},
		{1, 0.5, 0.5, 1, "the shortest lifetime"},
		{1, largest, largest, 1, "the shortest lifetime, nearly all of it"},
		{2, largest, largest, 1, "a short one"},
		{expiry.Never - 1, 0.5, 0.5, expiry.Never - 1 - 1<<61, "the longest"},
		{expiry.Never - 1, largest, largest, 1<<11 - 2, "the longest, nearly all of it"},
		{1<<62 + 1, largest, largest, 1<<10 + 1, "a long one, which no float64 is equal to"},
		{expiry.Never, 0.5, 0.5, expiry.Never, "never"},
		{0, 0.5, 0.5, 0, "expired at once"},
		{-1, 0.5, 0.5, -1, "expired at once"},
		{math.MinInt64, largest, largest, math.MinInt64, "expired at once"},
	} {
		p := expiry.JitterFrom(expiry.Policy[string, int](answering{c.ttl, c.ttl, c.ttl}), c.fraction, func() float64 { return c.share })
		require.Equal(t, c.want, p.Create("k", 1), "Create: %s of %v", c.description, c.ttl)
		require.Equal(t, c.want, p.Update("k", 1, 7), "Update: %s of %v", c.description, c.ttl)
	}
}

func Test_jitter_keeps_a_deadline_that_the_policy_keeps(t *testing.T) {
	for _, remaining := range []time.Duration{math.MinInt64, -1, 0, 1, time.Minute, expiry.Never} {
		drawn := func() float64 { return largest }
		p := expiry.JitterFrom(expiry.Policy[string, int](answering{time.Hour, remaining, remaining}), 0.5, drawn)
		require.Equal(t, remaining, p.Update("k", 1, remaining))
		require.Equal(t, remaining, p.Read("k", 1, remaining))
		require.Equal(t, remaining, expiry.Jitter(expiry.AfterCreate[string, int](time.Hour), 0.5).Update("k", 1, remaining))
		require.Equal(t, remaining, expiry.Jitter(expiry.AfterWrite[string, int](time.Hour), 0.5).Read("k", 1, remaining))
	}
}

// Otherwise reads that prolong lives would bring forward every other deadline.
func Test_jitter_of_a_slide_never_brings_the_deadline_forward(t *testing.T) {
	for _, c := range []struct{ read, remaining, want time.Duration }{
		{time.Minute, 20 * time.Second, 45 * time.Second},
		{time.Minute, 45*time.Second - 1, 45 * time.Second},
		{time.Minute, 45 * time.Second, 45 * time.Second},
		{time.Minute, 45*time.Second + 1, 45*time.Second + 1},
		{time.Minute, time.Minute, time.Minute},
		{time.Minute, time.Minute + 1, 45 * time.Second}, // the policy does so
		{time.Minute, expiry.Never, 45 * time.Second},
		{expiry.Never, time.Minute, expiry.Never},
		{0, time.Minute, 0},
		{-1, time.Minute, -1},
	} {
		p := expiry.JitterFrom(expiry.Policy[string, int](answering{read: c.read}), 0.5, func() float64 { return 0.5 })
		require.Equal(t, c.want, p.Read("k", 1, c.remaining), "%v of which %v remain", c.read, c.remaining)
	}
}

// The draws come from a generator with a seed, so that the figures repeat.
func Test_jittered_lifetimes_are_uniform_below_those_of_the_policy(t *testing.T) {
	const ttl, n, bins = time.Minute, 200_000, 20
	for _, fraction := range []float64{0.01, 0.2, 0.5, 0.99} {
		draws := rand.New(rand.NewPCG(1, 2))
		p := expiry.JitterFrom(expiry.AfterWrite[string, int](ttl), fraction, draws.Float64)
		span := fraction * float64(ttl)
		lowest, highest, sum := time.Duration(maxInt), time.Duration(0), 0.0
		var counts [bins]int
		for range n {
			got := p.Create("k", 1)
			lowest, highest, sum = min(lowest, got), max(highest, got), sum+float64(got)
			counts[int(float64(ttl-got)/span*bins)]++
		}
		require.LessOrEqual(t, highest, ttl, "fraction %v", fraction)
		require.GreaterOrEqual(t, float64(lowest), float64(ttl)-span, "fraction %v", fraction)
		require.InDelta(t, float64(ttl), float64(highest), span/1e4, "fraction %v", fraction)
		require.InDelta(t, float64(ttl)-span, float64(lowest), span/1e4, "fraction %v", fraction)
		require.InDelta(t, float64(ttl)-span/2, sum/n, span/1e2, "fraction %v", fraction)
		for bin, count := range counts {
			require.InDelta(t, n/bins, count, n/bins/20, "fraction %v, part %d of %d", fraction, bin, bins)
		}
	}
}

// What holds for every draw holds for Jitter's own.
func Test_jitter_draws_anew_within_its_bounds(t *testing.T) {
	const ttl = time.Hour
	p := expiry.Jitter(expiry.AfterAccess[string, int](ttl), 0.25)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			seen := map[time.Duration]bool{}
			for range 1000 {
				for _, got := range []time.Duration{p.Create("k", 1), p.Update("k", 1, 1), p.Read("k", 1, 1)} {
					if got <= ttl*3/4 || got > ttl {
						t.Errorf("%v of %v", got, ttl)
					}
					seen[got] = true
				}
			}
			if len(seen) < 2500 { // of 900 billion that there may be
				t.Errorf("3000 draws made %d lifetimes", len(seen))
			}
		})
	}
	wg.Wait()
}

// These figures must never change: members would move at the next release.
func Test_jitter_by_identity_is_the_same_in_every_process(t *testing.T) {
	for _, c := range []struct {
		identity string
		want     time.Duration
	}{
		{"replica-0", 248_123_459_042},
		{"replica-1", 282_480_937_790},
		{"replica-17", 252_203_939_041},
		{"a", 250_709_134_541}, // xxhash d24ec4f1a98c6e5b: 0.8215 of a minute,
		{"Jürgen’s own machine", 251_785_859_425},
	} {
		for range 3 {
			p := expiry.JitterBy(expiry.AfterAccess[string, int](5*time.Minute), 0.2, c.identity)
			require.Equal(t, c.want, p.Create("k", 1), c.identity)
			require.Equal(t, c.want, p.Create("another", 2), c.identity)
			require.Equal(t, c.want, p.Update("k", 1, 1), c.identity)
			require.Equal(t, c.want, p.Read("k", 1, 1), c.identity)
		}
	}
}

func Test_jitter_by_identity_spreads_a_fleet(t *testing.T) {
	const members, parts = 1000, 10
	const ttl = time.Hour
	var counts [parts]int
	seen := map[time.Duration]bool{}
	for i := range members {
		p := expiry.JitterBy(expiry.AfterWrite[string, int](ttl), 0.5, fmt.Sprint("replica-", i))
		cut := ttl - p.Create("k", 1)
		require.GreaterOrEqual(t, cut, time.Duration(0))
		require.Less(t, cut, ttl/2)
		counts[cut*parts/(ttl/2)]++
		seen[cut] = true
	}
	require.Len(t, seen, members)
	for part, count := range counts {
		require.InDelta(t, members/parts, count, members/parts/3, "part %d of %d", part, parts)
	}
}

func Test_jitter_passes_traits_on(t *testing.T) {
	for _, p := range []expiry.Policy[string, int]{
		expiry.AfterCreate[string, int](1), expiry.AfterWrite[string, int](1), expiry.AfterAccess[string, int](1),
		expiry.Limit(expiry.AfterAccess[string, int](1), 5), plain{},
	} {
		require.Equal(t, expiry.TraitsOf(p), expiry.TraitsOf(expiry.Jitter(p, 0.1)))
		require.Equal(t, expiry.TraitsOf(p), expiry.TraitsOf(expiry.JitterBy(p, 0.1, "a")))
	}
}
