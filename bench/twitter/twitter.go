// Package twitter has what was published of some of Twitter's cache clusters, and
// draws keys and lifetimes accordingly.
//
// The figures are those of March 2020 in github.com/twitter/cache-trace, stat/2020Mar.md
// (CC BY 4.0), by the authors of "A large scale analysis of hundreds of in-memory cache
// clusters at Twitter" (OSDI 2020).
package twitter

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// A Cluster is one of them.
type Cluster struct {
	Number    int
	KeyBytes  int
	Frequency float64 // requests per key, on average, in the week that was recorded
	Misses    float64 // share of requests, in production
	Alpha     float64 // Zipf's
	Mix       Mix
	Lifetimes []Lifetime // the commonest first
}

// A Mix has a share for each kind of operation.
type Mix struct {
	Get    float64 // get and gets
	Set    float64
	Add    float64 // stores what is not there
	Update float64 // cas and incr: store what is there
}

// A Lifetime is that of a share of the entries.
type Lifetime struct {
	TTL   time.Duration
	Share float64
}

const day = 24 * time.Hour

// Clusters are some with different lifetimes and popularity.
var Clusters = []Cluster{
	{4, 67, 26.5, 0.3941, 1.1004, Mix{Get: 0.93, Set: 0.07}, []Lifetime{
		{time.Minute, 0.39}, {5 * time.Minute, 0.24}, {time.Hour, 0.13}, {10 * time.Minute, 0.12}, {4 * time.Hour, 0.09},
		{day, 0.03},
	}},
	{6, 44, 327.3, 0.0268, 1.882, Mix{Get: 0.98, Set: 0.02}, []Lifetime{
		{520 * time.Second, 0.03}, {510 * time.Second, 0.03}, {490 * time.Second, 0.03}, {590 * time.Second, 0.03},
		{540 * time.Second, 0.03}, {550 * time.Second, 0.03}, {570 * time.Second, 0.02}, {500 * time.Second, 0.02},
		{580 * time.Second, 0.02}, {596 * time.Second, 0.02},
	}},
	{7, 17, 72.9, 0.2004, 1.0666, Mix{Get: 0.82, Set: 0.18}, []Lifetime{
		{108 * time.Minute, 0.28}, {102 * time.Minute, 0.24}, {114 * time.Minute, 0.23}, {96 * time.Minute, 0.13},
		{120 * time.Minute, 0.12},
	}},
	{18, 18, 660.5, 0.002, 2.0994, Mix{Get: 0.97, Add: 0.01, Update: 0.01}, []Lifetime{{12 * time.Hour, 1}}},
	{22, 54, 4.3, 0.875, 0.7624, Mix{Get: 0.72, Set: 0.10, Update: 0.18}, []Lifetime{
		{day, 0.85}, {time.Hour, 0.11}, {30 * time.Minute, 0.03},
	}},
	{25, 49, 662.7, 0.0002, 0.9929, Mix{Get: 0.97, Add: 0.02, Update: 0.02}, []Lifetime{{30 * day, 0.99}}},
	{29, 36, 22.5, 0.2242, 1.2323, Mix{Get: 0.86, Set: 0.13}, []Lifetime{{time.Hour, 0.67}, {2 * time.Hour, 0.33}}},
	{52, 20, 32.6, 0.0189, 1.2117, Mix{Get: 0.93, Add: 0.04, Update: 0.02}, []Lifetime{
		{day, 0.65}, {14 * day, 0.27}, {12 * time.Hour, 0.07},
	}},
}

// Find returns the cluster of that number, if it is among Clusters.
func Find(number int) (Cluster, bool) {
	for _, c := range Clusters {
		if c.Number == number {
			return c, true
		}
	}
	return Cluster{}, false
}

// Lifetime draws that of one key. The published shares, which leave out what is
// rare, are taken to be all.
func (c Cluster) Lifetime(r *rand.Rand) time.Duration {
	draw := r.Float64() * c.shares()
	for _, l := range c.Lifetimes {
		if draw -= l.Share; draw < 0 {
			return l.TTL
		}
	}
	return c.Lifetimes[len(c.Lifetimes)-1].TTL // rounding took the draw to the sum itself
}

// MeanLifetime is that of all entries.
func (c Cluster) MeanLifetime() time.Duration {
	var mean float64
	for _, l := range c.Lifetimes {
		mean += float64(l.TTL) * l.Share / c.shares()
	}
	return time.Duration(mean)
}

func (c Cluster) shares() (sum float64) {
	for _, l := range c.Lifetimes {
		sum += l.Share
	}
	return sum
}

// A Zipf draws from n keys, the k-th most popular in proportion to k to the power of
// -alpha; rand.Zipf wants an alpha above 1.
type Zipf struct {
	cumulated []float64
	keys      []int // by popularity: the popular lie anywhere among the keys
	r         *rand.Rand
}

// NewZipf returns one that draws with r.
func NewZipf(n int, alpha float64, r *rand.Rand) *Zipf {
	cumulated := make([]float64, n)
	var sum float64
	for k := range cumulated {
		sum += math.Pow(float64(k+1), -alpha)
		cumulated[k] = sum
	}
	return &Zipf{cumulated, r.Perm(n), r}
}

// Next draws a key.
func (z *Zipf) Next() int {
	n := len(z.keys)
	draw := z.r.Float64() * z.cumulated[n-1]
	// The search may end at n only if rounding takes the draw to the sum itself.
	return z.keys[min(sort.SearchFloat64s(z.cumulated, draw), n-1)]
}
