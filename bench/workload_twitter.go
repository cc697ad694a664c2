package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/wheelcache/wheelcache/bench/twitter"
)

// Workloads shaped like six of Twitter's cache clusters, as far as what is
// published of them tells: size of keys, lifetimes and their shares, mix of
// operations, Zipf's alpha. What is not in these figures:
//
//   - The keys are 200,000, which all start with a part of their lifetime left, as
//     they would in a cache that has run for long.
//   - Lifetimes are divided by the number that makes the commonest 2 s, so that an
//     eighth of those entries expires in the quarter second of a Run: cluster 6 by 260,
//     7 by 3240, 18 by 21600, 22 and 52 by 43200, 25 by 1296000.
//   - A key keeps its lifetime. The published shares, which leave out what is rare,
//     are taken to be all.
//   - A Get that misses stores nothing: stores are those of the mix, set and add,
//     and cas and incr of keys that are there. Both of these begin a new lifetime,
//     which memcached's incr does not, since not all caches could do without.

const (
	twitterKeys     = 200_000
	twitterCommonly = 2 * time.Second // the commonest lifetime
)

var twitterFor = 250 * time.Millisecond

// A cluster is one of them.
type cluster struct{ twitter.Cluster }

var clusters = clustersOf(6, 7, 18, 22, 25, 52)

func clustersOf(numbers ...int) (list []cluster) {
	for _, number := range numbers {
		c, ok := twitter.Find(number)
		if !ok {
			panic(fmt.Sprintf("bench: no figures of cluster %d", number))
		}
		list = append(list, cluster{c})
	}
	return list
}

func init() {
	w := Workload{
		Name: "twitter",
		About: "200,000 string keys with the key size, lifetimes, mix of operations and popularity of one of Twitter's cache" +
			" clusters, lifetimes shortened so that the commonest is 2 s; a Get that misses stores nothing",
		Needs:   Traits{Expires: true, EachTTL: true},
		Strings: openTwitter,
		Metrics: []Metric{
			perOp,
			{Name: "hit %", About: "Gets that found their key: a little more for a faster cache, which stores more before the rest" +
				" expires, and for one that serves expired values"},
			{Name: "held at end", About: "entries counted in the end, expired ones among them"},
		},
	}
	for _, cl := range clusters {
		w.Cases = append(w.Cases, Case{Keys: "string", Entries: twitterKeys, Threads: 2,
			Variant: fmt.Sprintf("cluster=%d", cl.Number)})
	}
	registerWorkload(w)
}

func clusterOf(c Case) (cluster, error) {
	for _, cl := range clusters {
		if c.Variant == fmt.Sprintf("cluster=%d", cl.Number) {
			return cl, nil
		}
	}
	return cluster{}, fmt.Errorf("no such cluster: %q", c.Variant)
}

// key returns a fresh copy of the i-th key.
func (cl cluster) key(i int) string {
	const space = "user:timeline:followers:recent:v2:status:" // so many have a name in front of the number
	return fmt.Sprintf("%s%d", space[len(space)-(cl.KeyBytes-13):], 1_000_000_000_000+mixed(i)&(1<<43-1))
}

// lifetimes returns the shortened lifetime of each of n keys.
func (cl cluster) lifetimes(n int, r *rand.Rand) []time.Duration {
	ttls := make([]time.Duration, n)
	for i := range ttls {
		ttls[i] = cl.shortened(cl.Lifetime(r))
	}
	return ttls
}

func (cl cluster) shortened(ttl time.Duration) time.Duration {
	return time.Duration(math.Round(float64(ttl) / float64(cl.Lifetimes[0].TTL) * float64(twitterCommonly)))
}

func (cl cluster) longest() time.Duration {
	var longest time.Duration
	for _, l := range cl.Lifetimes {
		longest = max(longest, cl.shortened(l.TTL))
	}
	return longest
}

// What is to be done with a key is in the upper bits of a pick.
const (
	doGet = iota << 29
	doSet
	doAdd
	doUpdate
	doMask = 3 << 29

	otherCopy = 1 << 28 // which of two copies of the key to store
	keyMask   = otherCopy - 1
)

// operations draws count operations on n keys.
func (cl cluster) operations(n, count int, r *rand.Rand) []uint32 {
	kinds := []struct {
		share float64
		do    uint32
	}{{cl.Mix.Get, doGet}, {cl.Mix.Set, doSet}, {cl.Mix.Add, doAdd}, {cl.Mix.Update, doUpdate}}
	sum := cl.Mix.Get + cl.Mix.Set + cl.Mix.Add + cl.Mix.Update
	popular := zipfPicks(n, cl.Alpha, count, r)
	turn := make([]bool, n)
	for i, key := range popular {
		draw := r.Float64() * sum
		for _, kind := range kinds {
			if draw -= kind.share; draw < 0 {
				popular[i] |= kind.do
				break
			}
		}
		if popular[i]&doMask != doGet {
			if turn[key] {
				popular[i] |= otherCopy
			}
			turn[key] = !turn[key]
		}
	}
	return popular
}

// zipfPicks draws from n keys count times.
func zipfPicks(n int, alpha float64, count int, r *rand.Rand) []uint32 {
	zipf := twitter.NewZipf(n, alpha, r)
	drawn := make([]uint32, count)
	for i := range drawn {
		drawn[i] = uint32(zipf.Next())
	}
	return drawn
}

// A twitterSession stores all keys anew for each Run.
type twitterSession struct {
	*ops
	cache  Cache[string, *Payload]
	refill func()
}

func openTwitter(b *Bench[string, *Payload], c Case) (Session, error) {
	cl, err := clusterOf(c)
	if err != nil {
		return nil, err
	}
	cache, err := b.New(Config{Entries: c.Entries, TTL: cl.longest()})
	if err != nil {
		return nil, err
	}
	b.Unload() // nobody will ask it meanwhile
	r := rand.New(rand.NewPCG(uint64(cl.Number), 1))
	n := c.Entries
	ttls := cl.lifetimes(n, r)
	left := make([]time.Duration, n) // when it starts
	for i, ttl := range ttls {
		left[i] = max(time.Millisecond, time.Duration(r.Float64()*float64(ttl)))
	}
	values := make([]*Payload, n)
	for i := range values {
		values[i] = b.Value(i)
	}
	// Copies to look up, and two to store: a cache must not find its own memory in
	// the key that it is given.
	var keys [3][]string
	for k := range keys {
		keys[k] = make([]string, n)
		for i := range keys[k] {
			keys[k][i] = cl.key(i)
		}
	}
	lookup, store := keys[0], keys[1:]
	set := func(pick uint32) {
		i := pick & keyMask
		cache.Set(store[pick&otherCopy/otherCopy][i], values[i], ttls[i])
	}
	each := func(picks []uint32) (t tally) {
		for _, pick := range picks {
			if pick&doMask == doSet {
				set(pick)
				continue
			}
			_, ok := cache.Get(lookup[pick&keyMask])
			switch pick & doMask {
			case doGet:
				t.gets++
				if ok {
					t.hits++
				}
			case doAdd:
				if !ok {
					set(pick)
				}
			case doUpdate:
				if ok {
					set(pick)
				}
			}
		}
		return t
	}
	s := &twitterSession{ops: newOps(c, cl.operations(n, 1<<20, r), each), cache: cache}
	s.refill = func() {
		for i, key := range store[1] {
			cache.Set(key, values[i], left[i])
		}
		flush(cache)
		runtime.GC()
	}
	s.close = cache.Close
	return s, nil
}

func (s *twitterSession) Run() (Result, error) {
	s.refill()
	start := time.Now()
	done, t := s.do(lasting(twitterFor))
	figures := map[string]float64{
		perOp.Name:      float64(time.Since(start).Nanoseconds()) / float64(done),
		hitPercent.Name: 100 * float64(t.hits) / float64(max(t.gets, 1)),
	}
	if held := s.cache.Len(); held >= 0 {
		figures["held at end"] = float64(held)
	}
	return Result{Figures: figures}, nil
}
