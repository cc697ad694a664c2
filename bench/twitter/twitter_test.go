package twitter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func Test_lifetimes_are_drawn_by_their_shares(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range Clusters {
		drawn := map[time.Duration]float64{}
		const n = 100_000
		for range n {
			drawn[c.Lifetime(r)]++
		}
		require.Len(t, drawn, len(c.Lifetimes), "cluster %d", c.Number)
		for _, l := range c.Lifetimes {
			require.InDelta(t, l.Share/c.shares(), drawn[l.TTL]/n, 0.01, "cluster %d, %v", c.Number, l.TTL)
		}
	}
}

func Test_mean_lifetime_weighs_by_shares(t *testing.T) {
	c := Cluster{Lifetimes: []Lifetime{{time.Hour, 0.3}, {4 * time.Hour, 0.1}}}
	require.Equal(t, 105*time.Minute, c.MeanLifetime().Round(time.Second))
}

func Test_clusters_are_found_by_number(t *testing.T) {
	for _, c := range Clusters {
		found, ok := Find(c.Number)
		require.True(t, ok)
		require.Equal(t, c, found)
	}
	_, ok := Find(5)
	require.False(t, ok, "nothing is published of cluster 5")
}

func Test_popularity_falls_as_zipf_says(t *testing.T) {
	for _, alpha := range []float64{0, 0.7, 1, 2} {
		z := NewZipf(10, alpha, rand.New(rand.NewPCG(1, 1)))
		counts := make([]float64, 10)
		const n = 200_000
		for range n {
			counts[z.Next()]++
		}
		for k, key := range z.keys {
			before := 0.0
			if k > 0 {
				before = z.cumulated[k-1]
			}
			require.InDelta(t, (z.cumulated[k]-before)/z.cumulated[9], counts[key]/n, 0.01, "alpha %v, rank %d", alpha, k)
		}
		require.Greater(t, counts[z.keys[0]]+n/100, counts[z.keys[9]])
	}
}
