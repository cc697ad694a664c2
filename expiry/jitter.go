package expiry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Jitter gives an entry the lifetime that p gives, less a random part: anything up
// to fraction of the lifetime, with equal chances. So what was stored at one moment, in
// one process or in all of a fleet, does not expire at one moment, and whatever it
// is loaded from is not asked for all of it at once.
//
// It never prolongs a lifetime: who uses p to say how old a value may be can rely on
// that still. A lifetime of more than zero stays more than zero. One of zero or less,
// and Never, are passed on as they are.
//
// The part is drawn anew for each lifetime that p gives. Where p keeps the deadline,
// it is kept. A read by which p prolongs a life does not shorten it: if the lifetime
// drawn ends before the present deadline, that is kept. So a sliding entry
// lives for at least 1-fraction of p's lifetime after each read; and of many reads,
// few move the deadline.
//
// fraction must be more than 0 and less than 1, and p must not be nil. A draw takes
// some nanoseconds and no lock.
func Jitter[K comparable, V any](p Policy[K, V], fraction float64) Policy[K, V] {
	return jitter[K, V]{"Jitter", p, fraction, rand.Float64}
}

// JitterBy is Jitter without chance: the part follows from identity, the name of a
// member of a fleet, such as its host's. A member takes the same share off every
// lifetime, in each process in which it runs, and other members take other shares. So a
// fleet that was started at one moment drifts apart, and does so alike each time.
//
// The share is the xxhash of identity, scaled to the range from 0 to fraction. It is
// the same for all keys, since keys of any type have no hash that is the same in
// every process: what one member has stored at one moment still expires at one moment.
// (Jitter spreads that as well.) For caches of one member to differ, let identity name
// the cache too.
//
// identity must not be empty; for fraction and p see Jitter.
func JitterBy[K comparable, V any](p Policy[K, V], fraction float64, identity string) Policy[K, V] {
	share := float64(xxhash.Sum64String(identity)>>11) / (1 << 53)
	return jitterBy[K, V]{jitter[K, V]{"JitterBy", p, fraction, func() float64 { return share }}, identity}
}

// jitter takes a share of fraction off the lifetimes of p.
type jitter[K comparable, V any] struct {
	name     string
	p        Policy[K, V]
	fraction float64
	share    func() float64 // of fraction, from 0 to less than 1
}

// shortened returns a lifetime in place of ttl.
func (p jitter[K, V]) shortened(ttl time.Duration) time.Duration {
	if ttl <= 0 || ttl == Never {
		return ttl
	}
	cut := time.Duration(p.share() * p.fraction * float64(ttl))
	return max(ttl-cut, 1)
}

func (p jitter[K, V]) Create(key K, value V) time.Duration {
	return p.shortened(p.p.Create(key, value))
}

func (p jitter[K, V]) Update(key K, value V, remaining time.Duration) time.Duration {
	ttl := p.p.Update(key, value, remaining)
	if ttl == remaining {
		return remaining
	}
	return p.shortened(ttl)
}

// Read may not answer less than what remains where p answers more: by a random
// share, every other read would, and to bring a deadline forward takes a lock and
// a record in a timing wheel.
func (p jitter[K, V]) Read(key K, value V, remaining time.Duration) time.Duration {
	ttl := p.p.Read(key, value, remaining)
	if ttl < remaining {
		return p.shortened(ttl)
	}
	return max(p.shortened(ttl), remaining)
}

func (p jitter[K, V]) Traits() Traits { return TraitsOf(p.p) }

func (p jitter[K, V]) Validate() error {
	switch {
	case p.p == nil:
		return fmt.Errorf("expiry.%s: the policy is nil; it must be one that gives the lifetimes to shorten", p.name)
	case !(p.fraction > 0 && p.fraction < 1): // NaN is neither
		return fmt.Errorf("expiry.%s: the fraction is %v; it must be more than 0 and less than 1", p.name, p.fraction)
	}
	return Validate(p.p)
}

type jitterBy[K comparable, V any] struct {
	jitter[K, V]
	identity string
}

func (p jitterBy[K, V]) Validate() error {
	if p.identity == "" {
		return errors.New("expiry.JitterBy: the identity is empty; it must be the name of a member, which no other has")
	}
	return p.jitter.Validate()
}
