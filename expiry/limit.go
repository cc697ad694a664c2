package expiry

import (
	"errors"
	"fmt"
	"time"
)

// Limit gives an entry the lifetimes that p gives, but no life longer than maxAge:
// however often it is read, touched or moved, it expires maxAge after its value was
// stored, if not before. So a session can slide, and still end after a day:
//
//	expiry.Limit(expiry.AfterAccess[string, Session](30*time.Minute), 24*time.Hour)
//
// A life begins with each value that is stored, whether its key was there before or
// not. Only Replace and CompareAndSwap, which keep the deadline, go on with the life
// that there is. The bound is one for all deadlines, also for those that no policy is
// asked for, as SetTTL and Move give them. Jitter around a Limit or within it does
// not shorten maxAge.
//
// A Policy is not told how old an entry is, so it is the cache that sees to the
// bound: Limit says it in Traits.MaxAge, which a Policy of one's own that wraps a
// Limit must pass on. In wheelcache it costs 8 bytes for each slot of the table;
// reads take no lock and allocate nothing, as without it.
//
// maxAge must be more than 0, and p must not be nil. A maxAge of Never bounds
// nothing. Of a Limit of a Limit, the shorter counts.
func Limit[K comparable, V any](p Policy[K, V], maxAge time.Duration) Policy[K, V] {
	return limit[K, V]{p, maxAge}
}

type limit[K comparable, V any] struct {
	p      Policy[K, V]
	maxAge time.Duration
}

func (p limit[K, V]) Create(key K, value V) time.Duration {
	return min(p.p.Create(key, value), p.maxAge)
}

func (p limit[K, V]) Update(key K, value V, remaining time.Duration) time.Duration {
	return min(p.p.Update(key, value, remaining), p.maxAge)
}

func (p limit[K, V]) Read(key K, value V, remaining time.Duration) time.Duration {
	return p.p.Read(key, value, remaining)
}

func (p limit[K, V]) Traits() Traits {
	t := TraitsOf(p.p)
	if t.MaxAge <= 0 || p.maxAge < t.MaxAge {
		t.MaxAge = p.maxAge
	}
	return t
}

func (p limit[K, V]) Validate() error {
	switch {
	case p.p == nil:
		return errors.New("expiry.Limit: the policy is nil; it must be one that gives the lifetimes to bound")
	case p.maxAge <= 0:
		return fmt.Errorf("expiry.Limit: the greatest age is %v; it must be more than 0, or expiry.Never", p.maxAge)
	}
	return Validate(p.p)
}
