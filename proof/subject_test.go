package proof

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

// A subject is a cache as the histories see it: keys and values are numbers,
// whatever they are made into.
type subject interface {
	// do makes the call and fills in the reply, but for its times. since is when the
	// history began.
	do(c call, since time.Time) reply
	// all returns the values of the keys below n that All comes by.
	all(n int) map[int]int64
	clear()
	// loadAll returns the values of keys, with a loader.
	loadAll(keys []int, load func(keys []int) map[int]int64) (map[int]int64, error)
	// deleteFunc has DeleteFunc ask match, and returns what that answers.
	deleteFunc(match func(key int, value int64) bool) int

	// What goes on besides.
	crowd(key int, ttl time.Duration) // stores a key that is in no history
	disperse(key int)                 // and deletes it
	flush()
	stats() wheelcache.Stats
	close() error
}

// A codec makes keys or values of numbers, and back.
type codec[T comparable] struct {
	encode func(int64) T
	decode func(T) int64 // 0 for the zero value, torn for what encode does not make
}

// checked completes a codec whose decode need not look for more than the number.
func checked[T comparable](encode func(int64) T, number func(T) int64) codec[T] {
	return codec[T]{encode, func(v T) int64 {
		n := number(v)
		switch {
		case v == *new(T):
			return 0
		case v != encode(n):
			return torn
		}
		return n
	}}
}

type (
	four  = [4]uint64 // the largest that lies in the table
	boxed = [5]uint64 // lies behind a pointer
	twin  struct{ a, b string }
)

var (
	words = checked(
		func(n int64) uint64 { return uint64(n) },
		func(v uint64) int64 { return int64(v) })
	fours = checked(
		func(n int64) four { u := uint64(n); return four{u, ^u, u << 32, u * u} },
		func(v four) int64 { return int64(v[0]) })
	boxes = checked(
		func(n int64) boxed { u := uint64(n); return boxed{u, ^u, u << 32, u * u, u} },
		func(v boxed) int64 { return int64(v[0]) })
	twins = checked(
		func(n int64) twin { s := strconv.FormatInt(n, 10); return twin{s, "twin of " + s} },
		func(v twin) int64 { n, _ := strconv.ParseInt(v.a, 10, 64); return n })
	texts = checked(
		func(n int64) string { return "key " + strconv.FormatInt(n, 10) },
		func(v string) int64 { n, _ := strconv.ParseInt(v[min(len(v), 4):], 10, 64); return n })
)

type adapter[K, V comparable] struct {
	cache *wheelcache.Cache[K, V]
	keys  codec[K]
	vals  codec[V]
}

func (a adapter[K, V]) key(n int) K { return a.keys.encode(int64(n) + 1) }

func (a adapter[K, V]) do(c call, since time.Time) (r reply) {
	key, value := a.key(c.key), a.vals.encode(c.value)
	var v V
	switch c.op {
	case opGet:
		v, r.ok = a.cache.Get(key)
	case opPeek:
		v, r.ok = a.cache.Peek(key)
	case opEntry:
		var e wheelcache.Entry[K, V]
		if e, r.ok = a.cache.Entry(key); r.ok {
			v, r.ttl, r.deadline = e.Value, e.TTL, never
			if !e.Deadline.IsZero() {
				r.deadline = int64(e.Deadline.Sub(since))
			}
		}
	case opSet:
		a.cache.Set(key, value)
	case opSetTTL:
		a.cache.SetTTL(key, value, c.ttl)
	case opSetDeadline:
		var at time.Time
		if c.deadline != never {
			at = since.Add(time.Duration(c.deadline))
		}
		a.cache.SetDeadline(key, value, at)
	case opMove:
		r.ok = a.cache.Move(key, c.ttl)
	case opTouch:
		r.ok = a.cache.Touch(key)
	case opDelete:
		r.ok = a.cache.Delete(key)
	case opGetAndDelete:
		v, r.ok = a.cache.GetAndDelete(key)
	case opReplace:
		v, r.ok = a.cache.Replace(key, value)
	case opGetOrSet:
		v, r.ok = a.cache.GetOrSet(key, value)
	case opCompareAndSwap:
		r.ok = wheelcache.CompareAndSwap(a.cache, key, a.vals.encode(c.old), value)
	case opCompareAndDelete:
		r.ok = wheelcache.CompareAndDelete(a.cache, key, a.vals.encode(c.old))
	case opCompute:
		v, r.ok = a.cache.Compute(key, func(found V, was bool) (V, wheelcache.Op) {
			r.found, r.was = a.vals.decode(found), was
			sometimesYield() // readers see what is there meanwhile
			answer := c.absent
			if was {
				answer = c.answer
			}
			switch answer {
			case answerStore:
				return value, wheelcache.OpStore
			case answerRemove:
				return found, wheelcache.OpRemove
			}
			return found, wheelcache.OpKeep
		})
	case opGetOrLoad:
		var err error
		if v, err = a.cache.GetOrLoad(context.Background(), key, a.loader(c)); err != nil {
			return a.failed(v, err)
		}
		r.ok = true
	case opRefresh:
		var err error
		if r.ok, err = a.cache.Refresh(context.Background(), key, a.loader(c)); err != nil {
			return a.failed(v, err)
		}
	}
	r.value = a.vals.decode(v)
	return r
}

// loader returns the loader for a call.
func (a adapter[K, V]) loader(c call) wheelcache.Loader[K, V] {
	return func(_ context.Context, key K) (v V, err error) {
		if key != a.key(c.key) {
			return a.vals.encode(torn), nil
		}
		if err := c.load.run(); err != nil {
			return a.vals.encode(c.value), err // and nobody may see the value
		}
		return a.vals.encode(c.value), nil
	}
}

// failed returns the reply of who is told an error, and must not be told a value.
func (a adapter[K, V]) failed(v V, err error) reply {
	var e *loadError
	if v != *new(V) || !errors.As(err, &e) {
		return reply{value: torn, outcome: outcomeError}
	}
	return reply{value: e.number, outcome: e.outcome}
}

func (a adapter[K, V]) all(n int) map[int]int64 {
	seen := make(map[int]int64)
	for k, v := range a.cache.All() {
		if key := int(a.keys.decode(k)) - 1; key < n {
			seen[key] = a.vals.decode(v)
		}
	}
	return seen
}

func (a adapter[K, V]) clear() { a.cache.Clear() }

func (a adapter[K, V]) loadAll(keys []int, load func(keys []int) map[int]int64) (map[int]int64, error) {
	all := make([]K, len(keys))
	for i, n := range keys {
		all[i] = a.key(n)
	}
	found, err := a.cache.LoadAll(context.Background(), all, func(_ context.Context, missing []K) (map[K]V, error) {
		keys := make([]int, len(missing))
		for i, key := range missing {
			keys[i] = int(a.keys.decode(key)) - 1
		}
		values := make(map[K]V)
		for n, value := range load(keys) {
			values[a.key(n)] = a.vals.encode(value)
		}
		return values, nil
	})
	values := make(map[int]int64)
	for key, v := range found {
		values[int(a.keys.decode(key))-1] = a.vals.decode(v)
	}
	return values, err
}

func (a adapter[K, V]) deleteFunc(match func(key int, value int64) bool) int {
	return a.cache.DeleteFunc(func(k K, v V) bool { return match(int(a.keys.decode(k))-1, a.vals.decode(v)) })
}

func (a adapter[K, V]) crowd(key int, ttl time.Duration) {
	a.cache.SetTTL(a.key(key), a.vals.encode(int64(key)), ttl)
}

func (a adapter[K, V]) disperse(key int) { a.cache.Delete(a.key(key)) }

func (a adapter[K, V]) flush()                  { a.cache.Flush() }
func (a adapter[K, V]) stats() wheelcache.Stats { return a.cache.Stats() }
func (a adapter[K, V]) close() error            { return a.cache.Close() }

// sometimesYield lets another goroutine go on where it stands, so that calls
// overlap in more ways than two processors would bring about.
func sometimesYield() {
	if rand.IntN(3) == 0 {
		runtime.Gosched()
	}
}

// A yieldingClock is a fake clock at whose every reading the caller may be
// overtaken, before and after.
type yieldingClock struct{ *clockwork.FakeClock }

func (c yieldingClock) Now() time.Time {
	sometimesYield()
	now := c.FakeClock.Now()
	sometimesYield()
	return now
}

// yieldingPolicy is a policy in which the caller may be overtaken.
type yieldingPolicy[K, V comparable] struct{ expiry.Policy[K, V] }

func (p yieldingPolicy[K, V]) Create(key K, value V) time.Duration {
	sometimesYield()
	return p.Policy.Create(key, value)
}

func (p yieldingPolicy[K, V]) Update(key K, value V, remaining time.Duration) time.Duration {
	sometimesYield()
	return p.Policy.Update(key, value, remaining)
}

func (p yieldingPolicy[K, V]) Read(key K, value V, remaining time.Duration) time.Duration {
	sometimesYield()
	return p.Policy.Read(key, value, remaining)
}

func (p yieldingPolicy[K, V]) Traits() expiry.Traits { return expiry.TraitsOf(p.Policy) }

// made returns a cache by a configuration's switches.
func made[K, V comparable](t require.TestingT, s setup, clock clockwork.Clock, keys codec[K], vals codec[V]) subject {
	o := wheelcache.Options[K, V]{
		Tick: s.tick, Shards: s.shards, Slots: s.slots, ExactClock: s.exact, Clock: clock,
		NegativeTTL: s.negativeTTL, ErrorTTL: s.errorTTL, RefreshAfter: s.refreshAfter, StaleFor: s.staleFor,
		MaxRefreshes: math.MaxInt32, // so that Refresh has a reason to begin none
	}
	switch {
	case s.slides:
		o.Expiry = yieldingPolicy[K, V]{expiry.AfterAccess[K, V](s.ttl)}
	case s.keeps:
		o.Expiry = yieldingPolicy[K, V]{expiry.AfterCreate[K, V](s.ttl)}
	default:
		o.TTL = s.ttl
	}
	if s.sameHash {
		o.Hash = func(K) uint64 { return 1<<63 | 1<<31 }
	}
	if s.onRemoval {
		o.OnRemoval = func(wheelcache.Removal[K, V]) { sometimesYield() }
	}
	c, err := wheelcache.New(o)
	require.NoError(t, err)
	return adapter[K, V]{c, keys, vals}
}
