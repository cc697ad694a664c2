package main

import (
	"fmt"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

// A fleet is what is simulated: replicas of one service that are started at the
// same moment. Each has a cache of its own and asks it for all of the hot keys,
// once a second.
type fleet struct {
	replicas int
	keys     int
	ttl      time.Duration
	fraction float64 // of the lifetime, for the policies with jitter
	duration time.Duration
}

type policy = expiry.Policy[int, string]

// A strategy is how the replicas of a fleet give lifetimes.
type strategy struct {
	name   string
	jitter bool
	policy func(f fleet, replica int) policy
}

var strategies = []strategy{
	{"AfterWrite", false, func(f fleet, _ int) policy {
		return expiry.AfterWrite[int, string](f.ttl)
	}},
	{"Jitter", true, func(f fleet, _ int) policy {
		return expiry.Jitter(expiry.AfterWrite[int, string](f.ttl), f.fraction)
	}},
	{"JitterBy", true, func(f fleet, replica int) policy {
		return expiry.JitterBy(expiry.AfterWrite[int, string](f.ttl), f.fraction, fmt.Sprint("replica-", replica))
	}},
}

// label names the strategy and how much jitter there is.
func (s strategy) label(f fleet) string {
	if s.jitter {
		return fmt.Sprintf("%s, fraction %v", s.name, f.fraction)
	}
	return s.name
}

// An origin is what values are loaded from. It counts what that asks of it.
type origin struct {
	loads []int // in each second
}

// A replica is one member of the fleet, on a clock of its own.
type replica struct {
	cache  *wheelcache.Cache[int, string]
	clock  *clockwork.FakeClock
	second int // since the start
	origin *origin
}

// load asks the origin.
func (r *replica) load(key int) string {
	r.origin.loads[r.second]++
	return fmt.Sprint("value of ", key)
}

// get asks the cache, and the origin for what is not there.
func (r *replica) get(key int) string {
	value, ok := r.cache.Get(key)
	if !ok {
		value = r.load(key)
		r.cache.Set(key, value)
	}
	return value
}

// live lets the replica ask for all keys once a second.
func (r *replica) live(keys int) {
	for r.second = range r.origin.loads {
		for key := range keys {
			r.get(key)
		}
		r.clock.Advance(time.Second)
	}
}

// run simulates the fleet and returns the loads at the origin in each second.
// Replicas share nothing but the origin, so one after the other lives through the
// whole time.
func (f fleet) run(s strategy) (loads []int, err error) {
	o := &origin{loads: make([]int, f.duration/time.Second)}
	for i := range f.replicas {
		clock := clockwork.NewFakeClock()
		cache, err := wheelcache.New(wheelcache.Options[int, string]{Expiry: s.policy(f, i), Clock: clock})
		if err != nil {
			return nil, err
		}
		r := &replica{cache: cache, clock: clock, origin: o}
		r.live(f.keys)
		if err := cache.Close(); err != nil {
			return nil, err
		}
	}
	return o.loads, nil
}
