package expiry_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// clamped returns the int64 nearest to x.
func clamped(x *big.Int) int64 {
	switch {
	case x.IsInt64():
		return x.Int64()
	case x.Sign() < 0:
		return minInt
	}
	return maxInt
}

// addEdges seeds f with all pairs of numbers where sums and differences break.
func addEdges(f *testing.F) {
	f.Helper()
	edges := []int64{minInt, minInt + 1, -1, 0, 1, 1e18, maxInt - 1, maxInt}
	for _, a := range edges {
		for _, b := range edges {
			f.Add(a, b)
		}
	}
}

func FuzzDeadline(f *testing.F) {
	addEdges(f)
	f.Fuzz(func(t *testing.T, now, ttl int64) {
		want := clamped(new(big.Int).Add(big.NewInt(now), big.NewInt(ttl)))
		if ttl == int64(expiry.Never) {
			want = expiry.NoDeadline
		}
		deadline := expiry.Deadline(now, time.Duration(ttl))
		require.Equal(t, want, deadline)
		require.Equal(t, big.NewInt(now).Cmp(big.NewInt(deadline)) >= 0, expiry.Expired(deadline, now))
		if now < maxInt && now > minInt { // the ends stand for never and long ago
			require.Equal(t, ttl <= 0, expiry.Expired(deadline, now))
		}
	})
}

func FuzzRemaining(f *testing.F) {
	addEdges(f)
	f.Fuzz(func(t *testing.T, deadline, now int64) {
		want := clamped(new(big.Int).Sub(big.NewInt(deadline), big.NewInt(now)))
		if deadline == expiry.NoDeadline {
			want = int64(expiry.Never)
		}
		remaining := expiry.Remaining(deadline, now)
		require.Equal(t, want, int64(remaining))
		if deadline != expiry.NoDeadline {
			require.Equal(t, remaining <= 0, expiry.Expired(deadline, now))
		}
		// What remains leads to the same deadline again, unless it saturated.
		if want != maxInt && want != minInt {
			require.Equal(t, deadline, expiry.Deadline(now, remaining))
		}
	})
}

func FuzzJitter(f *testing.F) {
	for _, ttl := range []int64{minInt, -1, 0, 1, 2, 1e9, 1 << 53, 1<<62 + 1, maxInt - 1, maxInt} {
		for _, fraction := range []float64{math.SmallestNonzeroFloat64, 0.1, 0.5, largest} {
			f.Add(ttl, fraction, 0.0)
			f.Add(ttl, fraction, largest)
		}
	}
	f.Fuzz(func(t *testing.T, ttl int64, fraction, share float64) {
		p := expiry.JitterFrom(expiry.AfterWrite[string, int](time.Duration(ttl)), fraction, func() float64 { return share })
		if !(share >= 0 && share < 1) || expiry.Validate(p) != nil {
			t.Skip("excluded")
		}
		got := int64(p.Create("k", 1))
		if ttl == maxInt {
			require.Equal(t, ttl, got)
			return
		}
		require.Positive(t, got)
		require.LessOrEqual(t, got, ttl)
		require.LessOrEqual(t, float64(ttl-got), fraction*float64(ttl)*(1+1e-15))
	})
}
