package wheelcache

import (
	"context"
	"errors"
	"fmt"
)

// Loading: a Get that knows where the value comes from.
//
//	GetOrLoad --hit--> value            (one more comparison than Get)
//	    |
//	    miss: under the shard's lock
//	    |-- the value has come meanwhile      -> value
//	    |-- a flight of the key is under way  -> wait for it
//	    |-- a failure is remembered           -> its error, or a stale value
//	    `-- none of these                     -> a flight begins
//
//	flight: loader, in a goroutine of its own, under no lock
//	    `-> land, under the lock: store, or remember the failure -> those who wait
//
// A flight is the load of one key, a call the run of a loader that one flight, or
// with LoadAll several, wait for. flight.go has both, failure.go what is remembered
// of loads that failed, refresh.go the loads that nobody waits for.
//
// # Invalidation
//
// The flights of a shard stand in a map under its lock. Whoever changes or removes
// the value of a key takes its flight out of the map, in the same hold of the lock.
// A flight that lands stores only if it still stands there. So a value that was
// loaded before an invalidation is never stored after it, and who comes later
// begins another flight; those who wait get what was loaded all the same. Expiry, Move
// and Touch are no invalidations. DeleteFunc is one for all keys, since nobody knows
// whether a value that has not come would match.

// A Loader gets the value of a key from where it really is. It answers ErrNotFound,
// or an error that wraps it, if there is none; that is also what to answer for a value
// that must not be shared by those who wait. ctx is cancelled when nobody waits for the
// value any more, when Options.LoadTimeout has passed, when the cache is closed and when
// the loader has returned; it has the values of the context of the caller who came
// first. (By an injected clock, it is cancelled after LoadTimeout with the cause
// context.DeadlineExceeded, but has no deadline.) A loader may use the cache, but must
// not wait for a load of its own key. A panic in it becomes a *PanicError.
type Loader[K comparable, V any] func(ctx context.Context, key K) (V, error)

// A BulkLoader is a Loader of many keys, each of which is given once. A key that is
// not in its answer has no value; what it answers for other keys is ignored.
type BulkLoader[K comparable, V any] func(ctx context.Context, keys []K) (map[K]V, error)

var (
	// ErrNotFound is what a loader answers if there is no value for the key.
	// Options.NegativeTTL says for how long that is remembered.
	ErrNotFound = errors.New("wheelcache: not found")

	// ErrClosed is what loading answers on a closed cache for what is not in it. A load
	// that was under way when the cache was closed ends with it at once; what the
	// loader returns later is dropped.
	ErrClosed = errors.New("wheelcache: the cache is closed")
)

var (
	errNilLoader  = errors.New("wheelcache: the loader is nil; it must be a function")
	errNilContext = errors.New("wheelcache: the context is nil; it must be one, such as context.Background()")
)

// A PanicError is what those get who wait for a loader that panicked, or that ended its
// goroutine by runtime.Goexit. If the panic's value is an error, the PanicError wraps it.
type PanicError struct {
	Value  any    // that panic was called with; nil for Goexit
	Goexit bool   // it was no panic
	Stack  []byte // of the loader's goroutine; none for Goexit
}

func (e *PanicError) Error() string {
	if e.Goexit {
		return "wheelcache: the loader ended its goroutine (runtime.Goexit)"
	}
	return fmt.Sprintf("wheelcache: the loader panicked: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A KeysError says for which keys LoadAll found no value. It is an ErrNotFound.
type KeysError[K comparable] struct {
	Keys []K // in the order in which they were asked for
}

func (e *KeysError[K]) Error() string {
	const most = 10
	if len(e.Keys) > most {
		return fmt.Sprintf("wheelcache: not found: %v and %d more keys", e.Keys[:most], len(e.Keys)-most)
	}
	return fmt.Sprintf("wheelcache: not found: %v", e.Keys)
}

// Is reports whether target is ErrNotFound.
func (e *KeysError[K]) Is(target error) bool { return target == ErrNotFound }

// GetOrLoad returns the value of key, as Get does. If key is absent or expired, it
// calls load, stores the value with the lifetime that Options.TTL or the Create of
// Options.Expiry gives it, and returns it. Of any number of callers at once, one calls
// load; all get its value or its error, unless their ctx ends before: then they leave
// with its error, and the load goes on for the others. When the last has left it is
// cancelled.
//
// If key is stored or removed while the load is under way, its value is
// returned and not stored. A value that has expired on arrival is returned, too.
//
// The other options of loading apply: what failed may be remembered, what will expire
// soon is loaded anew in the background, and what has expired may be returned
// while load fails (Options.StaleFor). A hit costs what it costs for Get.
func (c *Cache[K, V]) GetOrLoad(ctx context.Context, key K, load Loader[K, V]) (V, error) {
	if load == nil || ctx == nil {
		return *new(V), badLoad(load == nil)
	}
	value, deadline, ok := c.read(key, 1)
	if !ok {
		return c.load(ctx, key, load)
	}
	// The horizon is ahead of the time, so an entry that is due is not passed over.
	if c.loading.refreshes && deadline-c.loading.within <= c.clock.horizon.Load() && c.dueForRefresh(key, value, deadline) {
		c.refresh(ctx, c.routeTo(key), load, false)
	}
	return value, nil
}

func badLoad(nilLoader bool) error {
	if nilLoader {
		return errNilLoader
	}
	return errNilContext
}

// load is GetOrLoad after a miss.
func (c *Cache[K, V]) load(ctx context.Context, key K, load Loader[K, V]) (V, error) {
	if err := ctx.Err(); err != nil {
		return *new(V), err
	}
	r := c.routeTo(key)
	c.removals.awaitRoom()
	a := c.attend(r, nil, c.clock.read())
	switch {
	case a.flight == nil:
		if a.seen.live && c.slides {
			c.slide(r.s, r.hash, key, a.seen)
		}
		return a.seen.value, a.err
	case a.begun:
		go c.fly(c.begin(ctx, a.flight.call), r, a.flight, load)
	}
	return c.wait(ctx, a.flight)
}

// LoadAll returns the values of all keys that have one, as GetOrLoad does for each: it
// calls load at most once, for those that are neither in the cache nor being loaded.
// For keys without a value it returns a *KeysError, which is an ErrNotFound, besides
// the values of the others; if a load fails, its error and what there is. The map is
// never nil. LoadAll loads nothing anew that is there.
func (c *Cache[K, V]) LoadAll(ctx context.Context, keys []K, load BulkLoader[K, V]) (map[K]V, error) {
	values := make(map[K]V, len(keys))
	if load == nil || ctx == nil {
		return values, badLoad(load == nil)
	}
	var missed []route[K, V]
	asked := make(map[K]bool, len(keys))
	for _, key := range keys {
		if asked[key] {
			continue
		}
		asked[key] = true
		if value, _, ok := c.read(key, 1); ok {
			values[key] = value
		} else {
			missed = append(missed, c.routeTo(key))
		}
	}
	if len(missed) == 0 {
		return values, nil
	}
	if err := ctx.Err(); err != nil {
		return values, err
	}
	return values, c.loadAll(ctx, missed, values, load)
}

// loadAll is LoadAll after the misses. It adds to values.
func (c *Cache[K, V]) loadAll(ctx context.Context, missed []route[K, V], values map[K]V, load BulkLoader[K, V]) error {
	own := newCall() // for all that nobody loads yet
	c.removals.awaitRoom()
	now := c.clock.read()
	answers := make([]answer[V], len(missed))
	var begun []attended[K, V]
	for i, r := range missed { // without a call of the user's, which might panic and leave flights behind
		answers[i] = c.attend(r, own, now)
		if answers[i].begun {
			begun = append(begun, attended[K, V]{r, answers[i].flight})
		}
	}
	if len(begun) > 0 {
		go c.flyAll(c.begin(ctx, own), begun, load)
	}

	var failed error
	var none []K
	waiting := len(begun) > 0 // for own
	for i, r := range missed {
		a := answers[i]
		value, err := a.seen.value, a.err
		if a.flight != nil {
			value, err = c.wait(ctx, a.flight)
		}
		switch {
		case err == nil:
			values[r.key] = value
		case ctx.Err() != nil && a.flight != nil:
			waiting = waiting && !a.begun // wait has left it, or it is over
			for j, a := range answers[i+1:] {
				if value, ok := a.known(); ok {
					values[missed[i+1+j].key] = value
				} else if a.flight != nil && !a.begun {
					a.flight.call.leave()
				}
			}
			if waiting {
				own.leave()
			}
			return ctx.Err()
		case errors.Is(err, ErrNotFound):
			none = append(none, r.key)
		default:
			failed = err
		}
	}
	for i, r := range missed {
		if answers[i].seen.live && c.slides {
			c.slide(r.s, r.hash, r.key, answers[i].seen)
		}
	}
	switch {
	case failed != nil:
		return failed
	case len(none) > 0:
		return &KeysError[K]{none}
	}
	return nil
}
