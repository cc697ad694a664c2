package expiry

import (
	"errors"
	"fmt"
	"time"
)

// A Policy decides how long entries live. Each method answers with a lifetime
// counted from now: zero or less means that the entry is expired at once, Never
// that it does not expire. Update and Read are told how long the entry would
// still live; answering with exactly that keeps the deadline.
//
// A cache calls a Policy from many goroutines at once and never under a lock,
// except from within Compute. It asks again if the key has been changed meanwhile, so
// a Policy that changed it each time would be asked for ever.
//
// A Policy may have two more methods. Validate() error is called once, when a
// cache is made with it. Traits() Traits tells the cache what it need not ask, or
// cannot; a wrapper should pass on what it wraps.
type Policy[K comparable, V any] interface {
	// Create is asked when a key that is absent or expired is stored.
	Create(key K, value V) time.Duration
	// Update is asked when the value of a live key is overwritten.
	Update(key K, value V, remaining time.Duration) time.Duration
	// Read is asked when a live key has been read.
	Read(key K, value V, remaining time.Duration) time.Duration
}

// Traits are what is known of a Policy beforehand. The zero value claims nothing.
type Traits struct {
	// UpdateCreates: Update always answers what Create would, or what it might
	// where chance has a part, so an overwriting store need not look at the
	// entry it replaces.
	UpdateCreates bool
	// ReadKeeps: Read always answers remaining, so it is never called and
	// reads cost what they cost without a Policy.
	ReadKeeps bool
	// MaxAge, if it is more than 0, is how long an entry may live from when its
	// value was stored, whatever gave it its lifetimes. The cache sees to that,
	// since a Policy is not told how old an entry is. See Limit.
	MaxAge time.Duration
}

// TraitsOf returns p.Traits() if p has that method, and the zero Traits if not.
func TraitsOf[K comparable, V any](p Policy[K, V]) Traits {
	if t, ok := p.(interface{ Traits() Traits }); ok {
		return t.Traits()
	}
	return Traits{}
}

// Validate returns what is wrong with p: nil for a p without a Validate method.
func Validate[K comparable, V any](p Policy[K, V]) error {
	if v, ok := p.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// AfterCreate gives an entry ttl from its creation: overwriting it or reading
// it keeps the deadline.
func AfterCreate[K comparable, V any](ttl time.Duration) Policy[K, V] {
	return afterCreate[K, V]{fixed{"AfterCreate", ttl}}
}

// AfterWrite gives an entry ttl from the last time that its value was stored,
// as Options.TTL does.
func AfterWrite[K comparable, V any](ttl time.Duration) Policy[K, V] {
	return afterWrite[K, V]{fixed{"AfterWrite", ttl}}
}

// AfterAccess gives an entry ttl from the last time that it was stored or read:
// its expiry is sliding.
func AfterAccess[K comparable, V any](ttl time.Duration) Policy[K, V] {
	return afterAccess[K, V]{fixed{"AfterAccess", ttl}}
}

// Func gives an entry the lifetime that ttl answers for its key and value,
// counted from the last time that it was stored. ttl must not be nil.
func Func[K comparable, V any](ttl func(K, V) time.Duration) Policy[K, V] {
	return byFunc[K, V]{ttl}
}

// fixed is one lifetime for all entries.
type fixed struct {
	name string
	ttl  time.Duration
}

func (f fixed) Validate() error {
	if f.ttl <= 0 {
		return fmt.Errorf("expiry.%s: the lifetime is %v; it must be more than 0, or expiry.Never", f.name, f.ttl)
	}
	return nil
}

type afterCreate[K comparable, V any] struct{ fixed }

func (p afterCreate[K, V]) Create(K, V) time.Duration                              { return p.ttl }
func (p afterCreate[K, V]) Update(_ K, _ V, remaining time.Duration) time.Duration { return remaining }
func (p afterCreate[K, V]) Read(_ K, _ V, remaining time.Duration) time.Duration   { return remaining }
func (p afterCreate[K, V]) Traits() Traits                                         { return Traits{ReadKeeps: true} }

type afterWrite[K comparable, V any] struct{ fixed }

func (p afterWrite[K, V]) Create(K, V) time.Duration                            { return p.ttl }
func (p afterWrite[K, V]) Update(K, V, time.Duration) time.Duration             { return p.ttl }
func (p afterWrite[K, V]) Read(_ K, _ V, remaining time.Duration) time.Duration { return remaining }
func (p afterWrite[K, V]) Traits() Traits {
	return Traits{UpdateCreates: true, ReadKeeps: true}
}

type afterAccess[K comparable, V any] struct{ fixed }

func (p afterAccess[K, V]) Create(K, V) time.Duration                { return p.ttl }
func (p afterAccess[K, V]) Update(K, V, time.Duration) time.Duration { return p.ttl }
func (p afterAccess[K, V]) Read(K, V, time.Duration) time.Duration   { return p.ttl }
func (p afterAccess[K, V]) Traits() Traits                           { return Traits{UpdateCreates: true} }

type byFunc[K comparable, V any] struct {
	ttl func(K, V) time.Duration
}

func (p byFunc[K, V]) Create(key K, value V) time.Duration                  { return p.ttl(key, value) }
func (p byFunc[K, V]) Update(key K, value V, _ time.Duration) time.Duration { return p.ttl(key, value) }
func (p byFunc[K, V]) Read(_ K, _ V, remaining time.Duration) time.Duration { return remaining }

func (p byFunc[K, V]) Traits() Traits {
	return Traits{UpdateCreates: true, ReadKeeps: true}
}

func (p byFunc[K, V]) Validate() error {
	if p.ttl == nil {
		return errors.New("expiry.Func: the function is nil; it must answer a lifetime for a key and a value")
	}
	return nil
}
