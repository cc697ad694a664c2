package main

import (
	"iter"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/examples/replay/trace"
	"github.com/wheelcache/wheelcache/expiry"
)

// A result is what a replay counted.
type result struct {
	requests, hits, misses int
	stats                  wheelcache.Stats // at the end
	peak                   int              // most entries at the end of a tick
	virtual                time.Duration    // from the first request to the last
	real                   time.Duration    // what that took, reading the trace included
}

// replay sends reqs through a new cache.
//
// The virtual clock stands at the time of each request when that is made, so
// hits and misses are exact. It also stops at the end of each tick that saw
// requests, to flush the cache: then all that is dead is removed, and the entries
// are counted. At the end of the trace, what died within its last, unfinished tick
// may be counted still.
func replay[K comparable](reqs iter.Seq2[trace.Request[K], error], cfg config, p *progress) (res result, err error) {
	epoch := time.Unix(0, 0)
	clock := clockwork.NewFakeClockAt(epoch)
	cache, err := wheelcache.New(wheelcache.Options[K, time.Duration]{
		Expiry: policy[K](cfg.sliding),
		Tick:   cfg.tick,
		Shards: cfg.shards,
		Clock:  clock,
	})
	if err != nil {
		return result{}, err
	}
	defer cache.Close()
	defer p.clear()

	flush := func() {
		cache.Flush()
		res.peak = max(res.peak, cache.Len())
	}
	advance := func(to time.Duration) {
		clock.Advance(to - res.virtual)
		res.virtual = to
	}
	start := time.Now()
	ticks := time.Duration(0) // that have ended
	for req, err := range reqs {
		if err != nil {
			return result{}, err
		}
		if n := req.At / cfg.tick; n > ticks {
			advance((ticks + 1) * cfg.tick)
			flush()
			ticks = n
		}
		advance(req.At)
		if _, ok := cache.Get(req.Key); ok {
			res.hits++
		} else {
			res.misses++
			cache.Set(req.Key, lifetime(req))
		}
		res.requests++
		if res.requests%1024 == 0 {
			p.show(&res)
		}
		if res.requests == cfg.limit {
			break
		}
	}
	flush()
	res.real = time.Since(start)
	res.stats = cache.Stats()
	return res, nil
}

// policy returns the policy of a cache whose values are the lifetimes of their
// entries.
func policy[K comparable](slides bool) expiry.Policy[K, time.Duration] {
	p := expiry.Func(func(_ K, ttl time.Duration) time.Duration { return ttl })
	if slides {
		p = sliding[K]{p}
	}
	return p
}

// sliding is expiry.AfterAccess with a lifetime for each entry: a read starts
// that again.
type sliding[K comparable] struct {
	expiry.Policy[K, time.Duration]
}

func (sliding[K]) Read(_ K, ttl, _ time.Duration) time.Duration { return ttl }

func lifetime[K comparable](req trace.Request[K]) time.Duration {
	if req.TTL == 0 {
		return expiry.Never
	}
	return req.TTL
}
