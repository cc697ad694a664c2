package expiry_test

import (
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
