package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wheelcache/wheelcache/bench/twitter"
)

// Traces that are made, not recorded, so that there is something to replay without
// any file. Each has one property that real traces have, in an extreme form, or, if
// it is called mix, a bit of everything.

// synthetic is one of them: a function that puts together a trace with a given
// source of random numbers.
type synthetic struct {
	name  string
	about string
	draw  func(*rand.Rand, *recorder)
}

// madeRequests is the length of a synthetic trace, if -limit is not less.
const madeRequests = 500_000

var synthetics = []synthetic{
	zipfTrace(0.7), zipfTrace(0.9), zipfTrace(1.1),
	{"scan", "zipf-0.9 with runs of 2,000 keys that are requested once, a third of all requests", drawScan},
	{"loop", "five loops, one after the other, over a tenth more keys than the default sizes have entries", drawLoop},
	{"shift", "Zipf with alpha 0.9 over 50,000 keys, of which every 50,000 requests others are the popular ones", drawShift},
	{"mix", "half of it zipf-0.9, and of keys of their own: a fifth once, a fifth soon again, a tenth in a loop", drawMix},
	{"blocks", "like block storage: four blocks in a row out of 60,000, or one by Zipf with alpha 0.6 over 20,000, or the next eight of a loop over 9,000", drawBlocks},
	{"jobs", "objects by Zipf with alpha 1, which are replaced by others one by one, and now and then a job that goes three times through 6,000 others, half of which the next one takes, too", drawJobs},
	twitterTrace(4), twitterTrace(7), twitterTrace(29), twitterTrace(52),
}

// make returns the trace of a seed.
func (s synthetic) make(seed uint64, limit int) (*Trace, error) {
	r := newRecorder(s.name, madeRequests)
	if limit > 0 {
		r.limit = min(limit, r.limit)
	}
	s.draw(rand.New(rand.NewPCG(seed, 3)), r)
	return r.finish()
}

// key returns the i-th key of a kind: 64 bits in which there is no order, like a
// hash. (The finalizer of SplitMix64, which maps no two numbers to one.)
func key(kind, i int) uint64 {
	x := uint64(kind)<<48 + uint64(i) + 1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Kinds of keys.
const (
	popular = iota
	once
	looped
	recent
	even
)

func zipfTrace(alpha float64) synthetic {
	return synthetic{
		name:  fmt.Sprintf("zipf-%g", alpha),
		about: fmt.Sprintf("Zipf with alpha %g over 100,000 keys", alpha),
		draw: func(r *rand.Rand, rec *recorder) {
			z := twitter.NewZipf(100_000, alpha, r)
			for !rec.full() {
				rec.add(key(popular, z.Next()))
			}
		},
	}
}

func drawScan(r *rand.Rand, rec *recorder) {
	const run = 2000
	z := twitter.NewZipf(100_000, 0.9, r)
	scanned := 0
	for !rec.full() {
		for i := 0; i < 2*run && !rec.full(); i++ {
			rec.add(key(popular, z.Next()))
		}
		for i := 0; i < run && !rec.full(); i++ {
			rec.add(key(once, scanned))
			scanned++
		}
	}
}

// drawLoop has loops that each default size is just too small for: LRU has no hits
// there at all. Of 40,000 keys, if -limit is not less, what loops leave are requested
// once in the end, to make the shares come out.
func drawLoop(_ *rand.Rand, rec *recorder) {
	once := rec.limit * 2 / 25
	var loops []int
	for _, percent := range defaultSizes {
		keys := int(1.1*percent/100*float64(rec.limit*2/25)) + 1
		loops = append(loops, keys)
		once -= keys
	}
	each := (rec.limit - once) / len(loops)
	first := 0
	for _, keys := range loops {
		for i := 0; i < each && !rec.full(); i++ {
			rec.add(key(looped, first+i%keys))
		}
		first += keys
	}
	for ; !rec.full(); first++ {
		rec.add(key(looped, first))
	}
}

func drawShift(r *rand.Rand, rec *recorder) {
	const keys, every = 50_000, 50_000
	for !rec.full() {
		z := twitter.NewZipf(keys, 0.9, r) // other keys are popular with each
		for i := 0; i < every && !rec.full(); i++ {
			rec.add(key(popular, z.Next()))
		}
	}
}

func drawMix(r *rand.Rand, rec *recorder) {
	const loop = 3000
	z := twitter.NewZipf(50_000, 0.9, r)
	var onces, loops, newest int
	for !rec.full() {
		switch draw := r.Float64(); {
		case draw < 0.5:
			rec.add(key(popular, z.Next()))
		case draw < 0.7:
			rec.add(key(once, onces))
			onces++
		case draw < 0.8:
			rec.add(key(looped, loops%loop))
			loops++
		case draw < 0.85:
			newest++
			rec.add(key(recent, newest))
		default: // soon, that is some 300 new keys later at most, as a rule
			rec.add(key(recent, max(0, newest-int(100*r.ExpFloat64()))))
		}
	}
}

func drawBlocks(r *rand.Rand, rec *recorder) {
	const spread, run, loop, ahead = 60_000, 4, 9000, 8
	z := twitter.NewZipf(20_000, 0.6, r)
	loops := 0
	for !rec.full() {
		switch draw := r.Float64(); {
		case draw < 0.4:
			for i, first := 0, r.IntN(spread); i < run && !rec.full(); i++ {
				rec.add(key(even, first+i))
			}
		case draw < 0.8:
			rec.add(key(popular, z.Next()))
		default:
			for i := 0; i < ahead && !rec.full(); i++ {
				rec.add(key(looped, loops%loop))
				loops++
			}
		}
	}
}

func drawJobs(r *rand.Rand, rec *recorder) {
	const objects, pause, job, passes = 40_000, 20_000, 6000, 3
	const renewed = 10 // requests for objects after which another one takes the place of one
	z := twitter.NewZipf(objects, 1, r)
	var names [objects]int
	for i := range names {
		names[i] = i
	}
	var requests, jobs int
	object := func() {
		rec.add(key(popular, names[z.Next()]))
		if requests++; requests%renewed == 0 {
			names[requests/renewed%objects] += objects
		}
	}
	for ; !rec.full(); jobs++ {
		for i := 0; i < pause && !rec.full(); i++ {
			object()
		}
		for i := 0; i < passes*job && !rec.full(); i++ {
			rec.add(key(looped, jobs*job/2+i%job))
			if r.IntN(2) == 0 && !rec.full() {
				object()
			}
		}
	}
}

// twitterTrace is a trace with lifetimes, with the figures that were published of
// one of Twitter's clusters: lifetimes and their shares, Zipf's alpha, and how often a
// key is requested in a week. So many keys are taken that the trace spans five mean
// lifetimes, a week at most: what counts for a cache is how many requests a key has
// during its lifetime, and that is as it was.
//
// What was published tells nothing of the order of requests. They are taken to
// arrive independently (Poisson), and a key keeps its lifetime. All of them are
// reads; what a cache misses is stored, for that key's lifetime.
func twitterTrace(number int) synthetic {
	c, ok := twitter.Find(number)
	if !ok {
		panic(fmt.Sprintf("hitratio: no figures of cluster %d", number))
	}
	return synthetic{
		name:  fmt.Sprintf("twitter-%d", number),
		about: fmt.Sprintf("lifetimes, popularity and requests per key of Twitter's cluster %d; %s", number, span(c)),
		draw:  func(r *rand.Rand, rec *recorder) { drawTwitter(c, r, rec) },
	}
}

const week = 7 * 24 * time.Hour

func spanned(c twitter.Cluster) time.Duration { return min(5*c.MeanLifetime(), week) }

// span describes lifetimes and duration.
func span(c twitter.Cluster) string {
	byTTL := func(a, b twitter.Lifetime) int { return cmp.Compare(a.TTL, b.TTL) }
	return fmt.Sprintf("lifetimes %v to %v in %v", slices.MinFunc(c.Lifetimes, byTTL).TTL,
		slices.MaxFunc(c.Lifetimes, byTTL).TTL, spanned(c).Round(time.Minute))
}

func drawTwitter(c twitter.Cluster, r *rand.Rand, rec *recorder) {
	t := rec.trace
	keys := float64(rec.limit) / c.Frequency * float64(week) / float64(spanned(c))
	z := twitter.NewZipf(max(1, int(keys)), c.Alpha, r)
	pause := float64(spanned(c)) / float64(rec.limit)
	var now float64
	for !rec.full() {
		number := rec.add(key(popular, z.Next()))
		if int(number) == len(t.Lifetimes) { // a new key
			t.Lifetimes = append(t.Lifetimes, c.Lifetime(r))
		}
		now += pause * r.ExpFloat64()
		t.Arrivals = append(t.Arrivals, time.Duration(now))
	}
}
