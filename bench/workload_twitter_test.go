package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func Test_clusters_have_keys_of_their_size(t *testing.T) {
	for _, cl := range clusters {
		seen := map[string]bool{}
		for i := range 1000 {
			key := cl.key(i)
			require.Len(t, key, cl.KeyBytes)
			seen[key] = true
		}
		require.Len(t, seen, 1000)
		require.Len(t, cl.key(twitterKeys-1), cl.KeyBytes)
	}
}

func Test_clusters_have_their_lifetimes_by_share(t *testing.T) {
	cl, err := clusterOf(Case{Variant: "cluster=52"})
	require.NoError(t, err)
	require.Equal(t, 28*time.Second, cl.longest())
	counts := map[time.Duration]float64{}
	for _, ttl := range cl.lifetimes(100_000, rand.New(rand.NewPCG(1, 1))) {
		counts[ttl] += 1.0 / 100_000
	}
	require.Len(t, counts, 3)
	require.InDelta(t, 0.65/0.99, counts[2*time.Second], 0.01)
	require.InDelta(t, 0.27/0.99, counts[28*time.Second], 0.01)
	require.InDelta(t, 0.07/0.99, counts[time.Second], 0.01)

	for _, cl := range clusters {
		require.Equal(t, twitterCommonly, cl.shortened(cl.Lifetimes[0].TTL))
		for _, other := range cl.Lifetimes[1:] {
			require.LessOrEqual(t, other.Share, cl.Lifetimes[0].Share, "the commonest is first")
		}
	}
	_, err = clusterOf(Case{Variant: "cluster=5"})
	require.Error(t, err)
}

func Test_clusters_have_their_mix(t *testing.T) {
	cl, err := clusterOf(Case{Variant: "cluster=22"})
	require.NoError(t, err)
	counts := map[uint32]float64{}
	copies := map[uint32]map[bool]int{}
	for _, op := range cl.operations(1000, 200_000, rand.New(rand.NewPCG(1, 1))) {
		require.Less(t, op&keyMask, uint32(1000))
		counts[op&doMask] += 1.0 / 200_000
		if op&doMask != doGet {
			key := op & keyMask
			if copies[key] == nil {
				copies[key] = map[bool]int{}
			}
			copies[key][op&otherCopy != 0]++
		}
	}
	require.InDelta(t, 0.72, counts[doGet], 0.01)
	require.InDelta(t, 0.10, counts[doSet], 0.01)
	require.InDelta(t, 0.18, counts[doUpdate], 0.01)
	require.Zero(t, counts[doAdd])
	for key, c := range copies {
		require.LessOrEqual(t, c[true], c[false], key)
		require.LessOrEqual(t, c[false]-c[true], 1, "key %d: copies take turns", key)
	}
}

func Test_zipf_of_any_alpha(t *testing.T) {
	const n, count = 1000, 400_000
	for _, alpha := range []float64{0, 0.7624, 0.9929, 1, 1.2117, 2.0994} {
		counts := make([]int, n)
		for _, key := range zipfPicks(n, alpha, count, rand.New(rand.NewPCG(1, 1))) {
			counts[key]++
		}
		ranks := rand.New(rand.NewPCG(1, 1)).Perm(n) // the k-th most popular key
		var sum float64
		for k := range n {
			sum += math.Pow(float64(k+1), -alpha)
		}
		for _, k := range []int{0, 1, 9, 99} {
			want := count * math.Pow(float64(k+1), -alpha) / sum
			require.InDelta(t, want, counts[ranks[k]], 5*math.Sqrt(want)+1, "alpha %v, rank %d", alpha, k+1)
		}
	}
}

// A toy is a cache that is right and slow.
type toy struct {
	mu      sync.Mutex
	entries map[string]toyEntry
	closed  bool
}

type toyEntry struct {
	value    *Payload
	deadline time.Time
}

func (c *toy) Get(key string) (*Payload, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || !time.Now().Before(e.deadline) {
		return nil, false
	}
	return e.value, true
}

func (c *toy) Set(key string, value *Payload, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = toyEntry{value, time.Now().Add(ttl)}
}

func (c *toy) Delete(key string) {}
func (c *toy) Len() int          { c.mu.Lock(); defer c.mu.Unlock(); return len(c.entries) }
func (c *toy) Close()            { c.closed = true }

func Test_clusters_run(t *testing.T) {
	defer func(d time.Duration) { twitterFor = d }(twitterFor)
	twitterFor = 5 * time.Millisecond
	for _, cl := range clusters {
		var cache *toy
		var config Config
		peer := &Peer{Name: "toy", Strings: func(c Config) (Cache[string, *Payload], error) {
			config, cache = c, &toy{entries: map[string]toyEntry{}}
			return cache, nil
		}}
		s, err := openTwitter(stringBench(peer), Case{Keys: "string", Entries: 1000, Threads: 2, Variant: fmt.Sprintf("cluster=%d", cl.Number)})
		require.NoError(t, err)
		require.Equal(t, Config{Entries: 1000, TTL: cl.longest()}, config)
		for range 2 {
			r, err := s.Run()
			require.NoError(t, err)
			require.Positive(t, r.Figures["ns/op"])
			require.EqualValues(t, 1000, r.Figures["held at end"])
			require.Positive(t, r.Figures["hit %"], cl.Number)
			require.LessOrEqual(t, r.Figures["hit %"], 100.0)
		}
		s.Close()
		require.True(t, cache.closed)
	}
}

func Test_cluster_for_who_cannot(t *testing.T) {
	peer := &Peer{Strings: func(Config) (Cache[string, *Payload], error) { return nil, ErrCannot }}
	_, err := openTwitter(stringBench(peer), Case{Keys: "string", Entries: 10, Threads: 2, Variant: "cluster=52"})
	require.ErrorIs(t, err, ErrCannot)
}
