package wheelcache

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// A flight is the load of one key. It is over when done is closed; its value and
// error are written before that, and by nobody else.
type flight[V any] struct {
	call  *call
	done  chan struct{}
	value V
	err   error
}

// A call is one run of a loader. Flights of several shards share that of LoadAll, so
// it has a lock of its own: a counter.
type call struct {
	// waiters counts those who would miss the result. It never leaves zero: who comes
	// then begins another flight.
	waiters atomic.Int64
	cancel  context.CancelCauseFunc // set by who began the call, before it waits
	refresh bool                    // nobody has to wait
}

// A route is a key and where it belongs.
type route[K comparable, V any] struct {
	key  K
	s    *shard[K, V]
	hash uint32
}

func (c *Cache[K, V]) routeTo(key K) route[K, V] {
	s, hash := c.at(key)
	return route[K, V]{key, s, hash}
}

// attended is a flight that somebody waits for.
type attended[K comparable, V any] struct {
	route[K, V]
	flight *flight[V]
}

// newCall returns a call that one waits for: who begins it or, for a refresh, nobody,
// so that it is never left.
func newCall() *call {
	c := new(call)
	c.waiters.Store(1)
	return c
}

// join makes the caller one of those who wait, unless they have all left.
func (c *call) join() bool {
	for n := c.waiters.Load(); n > 0; n = c.waiters.Load() {
		if c.waiters.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

var errAbandoned = errors.New("wheelcache: nobody waits for the value any more")

// leave takes the caller off those who wait. The last one cancels the call.
func (c *call) leave() {
	if c.waiters.Add(-1) == 0 {
		c.cancel(errAbandoned)
	}
}

// abandoned reports whether nobody waits any more.
func (c *call) abandoned() bool { return c.waiters.Load() == 0 }

// An answer is what a caller finds who has missed: a flight to wait for, or a value
// or an error.
type answer[V any] struct {
	flight *flight[V]
	begun  bool    // by this caller, who has to see to the call
	seen   view[V] // it may be live by now; a value that is not is stale
	err    error
}

// known returns the value if there is one without waiting.
func (a answer[V]) known() (value V, ok bool) {
	if a.flight == nil {
		return a.seen.value, a.err == nil
	}
	select {
	case <-a.flight.done:
		return a.flight.value, a.flight.err == nil
	default:
		return value, false
	}
}

// attend finds out, under the lock, what there is for a key that was missed, and
// begins a flight if there is nothing. The flight is of the call, or of one of its
// own. No user's code runs meanwhile, so whoever has begun a flight can begin its call.
// The caller has waited for room for what will land, before it asked for the time: to
// land is not to wait, as OnRemoval may wait for the flight.
func (c *Cache[K, V]) attend(r route[K, V], of *call, now int64) answer[V] {
	s := r.s
	s.lock()
	defer s.mu.Unlock()
	p, present := s.find(r.hash, r.key)
	if present {
		if e := s.foundAt(p, now); e.live {
			return answer[V]{seen: view[V](e)}
		}
	}
	l := s.withLoads()
	if f := l.of(r.key); f != nil && f.call.join() {
		return answer[V]{flight: f}
	}
	if c.closed.Load() {
		return answer[V]{err: ErrClosed}
	}
	if failed, ok := l.failures.last(r.key); ok && failed.kind != failedQuietly && !c.clock.expired(failed.until, now) {
		switch {
		case failed.kind == failedNotFound:
			l.stats.NegativeHits++
		case present && s.staleAt(p, now):
			l.stats.StaleHits++
			return answer[V]{seen: view[V]{value: peekValue[K, V](p.slot)}}
		default:
			l.stats.ErrorHits++
		}
		return answer[V]{err: failed.err}
	}
	if of == nil {
		of = newCall()
	}
	return answer[V]{flight: l.begin(r.key, of), begun: true}
}

// begin gives a call its context, which has the values of ctx and ends without it. It
// calls nothing of the user's.
func (c *Cache[K, V]) begin(ctx context.Context, of *call) context.Context {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.loading.alive(), func() { cancel(ErrClosed) })
	free := context.CancelFunc(func() {})
	if timeout := c.loading.timeout; timeout != expiry.Never && c.clock.injected == nil {
		ctx, free = context.WithTimeout(ctx, timeout)
	}
	of.cancel = func(cause error) {
		stop()
		cancel(cause)
		free()
	}
	return ctx
}

// limit cancels a call when its time is up, if the clock is the user's, and has that
// undone when the call is over. (The contexts of clockwork do not do here: their Err
// waits until there is one.)
func (c *Cache[K, V]) limit(of *call) (stop func() bool) {
	if c.clock.injected == nil || c.loading.timeout == expiry.Never {
		return func() bool { return false }
	}
	return c.clock.injected.AfterFunc(c.loading.timeout, func() { of.cancel(context.DeadlineExceeded) }).Stop
}

// wait returns the result of a flight, or the error of ctx if that ends before.
func (c *Cache[K, V]) wait(ctx context.Context, f *flight[V]) (V, error) {
	select {
	case <-f.done:
		return f.value, f.err
	default:
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		f.call.leave()
		return *new(V), ctx.Err()
	case <-c.loading.alive().Done():
		return *new(V), ErrClosed
	}
}

// A loaded is what a loader has answered for a key, and when.
type loaded[V any] struct {
	value    V
	ttl      time.Duration
	deadline int64
	cost     int64
	now      int64
	err      error
	notFound bool // err is an ErrNotFound
	lost     bool // the clock does not work, so nothing can be remembered of the error
}

// answered makes a loaded of a loader's answer. All that is the user's is asked here,
// the policy, the cost, the error, the clock, so that landing can not fail.
func (c *Cache[K, V]) answered(key K, value V, err error) loaded[V] {
	l := loaded[V]{value: value, err: err}
	if err != nil {
		l.value, l.notFound = *new(V), errors.Is(err, ErrNotFound)
	} else {
		l.ttl = c.lifetime(key, value, false, 0)
		l.cost = c.costOf(key, value)
	}
	l.now = c.clock.read()
	l.deadline = c.deadline(max(l.ttl, 0), l.now)
	return l
}

// broken lands with what is answered for a loader that panicked, or for what answered
// asks: whatever the clock, which may be the user's, does once more.
func (c *Cache[K, V]) broken(err error, land func(loaded[V])) {
	l := loaded[V]{err: err, lost: true}
	guarded(func() {
		l.now = c.clock.read()
		l.lost = false
	}, func(error) { land(l) })
}

// fly runs the loader of one flight, and lands.
func (c *Cache[K, V]) fly(ctx context.Context, r route[K, V], f *flight[V], load Loader[K, V]) {
	var l loaded[V]
	land := func(l loaded[V]) {
		wake := c.land(r, f, l)
		f.call.cancel(nil)
		c.settleSafely(wake, r.s)
	}
	guarded(func() {
		defer c.limit(f.call)()
		began := c.clock.now()
		value, err := load(ctx, r.key)
		c.loading.noteTime(began, c.clock.now())
		l = c.answered(r.key, value, err)
	}, func(err error) {
		if err != nil {
			c.broken(err, land)
		} else {
			land(l)
		}
	})
}

// flyAll runs the loader of all flights of a call, and lands one after the other.
func (c *Cache[K, V]) flyAll(ctx context.Context, all []attended[K, V], load BulkLoader[K, V]) {
	wake := expiry.NoDeadline
	next := 0 // to land
	land := func(l loaded[V]) {
		w := all[next]
		next++
		wake = min(wake, c.land(w.route, w.flight, l))
	}
	end := func() {
		all[0].flight.call.cancel(nil)
		c.settleSafely(wake, nil)
	}
	guarded(func() {
		defer c.limit(all[0].flight.call)()
		keys := make([]K, len(all))
		for i, w := range all {
			keys[i] = w.key
		}
		began := c.clock.now()
		values, err := load(ctx, keys)
		c.loading.noteTime(began, c.clock.now())
		for _, w := range all {
			value, ok := values[w.key]
			reason := err
			if err == nil && !ok {
				reason = ErrNotFound
			}
			land(c.answered(w.key, value, reason))
		}
	}, func(err error) {
		if err == nil {
			end()
			return
		}
		c.broken(err, func(l loaded[V]) {
			for next < len(all) {
				land(l)
			}
			end()
		})
	})
}

// settleSafely is settle for a goroutine that is nobody's to fail. The driver's timer is
// of the clock; should that break, surely has seen to it that there is a run.
func (c *Cache[K, V]) settleSafely(wake int64, stored *shard[K, V]) {
	guarded(func() { c.settle(wake, stored) }, func(error) {})
}

// guarded calls f and then, whatever f does, then: with an error if f panicked or ended
// the goroutine.
func guarded(f func(), then func(broken error)) {
	returned := false
	defer func() {
		var broken error
		if !returned {
			if p := recover(); p != nil {
				broken = &PanicError{Value: p, Stack: debug.Stack()}
			} else {
				broken = &PanicError{Goexit: true}
			}
		}
		then(broken)
	}()
	f()
	returned = true
}

// land ends a flight: it stores what was loaded, unless the key has been invalidated
// meanwhile, and lets go on those who wait. It does not fail. The caller settles.
func (c *Cache[K, V]) land(r route[K, V], f *flight[V], l loaded[V]) (wake int64) {
	if l.err != nil {
		wake = r.s.landFailure(r, f, l)
	} else {
		wake = r.s.landValue(r, f, l)
	}
	close(f.done)
	return wake
}

// landValue is land, under the lock, for what was loaded.
func (s *shard[K, V]) landValue(r route[K, V], f *flight[V], l loaded[V]) (wake int64) {
	f.value = l.value
	b := newBox(l.value)
	s.lock()
	defer s.mu.Unlock()
	s.loads.stats.Loads++
	switch {
	case !s.loads.end(r.key, f):
		s.loads.stats.Discarded++
	case s.cache.closed.Load():
		s.cache.refused.Add(1)
		s.loads.stats.Discarded++
	case l.ttl <= 0 || l.cost < 0:
		s.loads.failures.forget(r.key)
		s.putGone(r.hash, r.key, l.value, l.cost, l.now)
	default:
		s.loads.failures.forget(r.key)
		return s.put(r.hash, r.key, l.value, b, l.deadline, l.cost, l.now)
	}
	return expiry.NoDeadline
}

// landFailure is land, under the lock, for a load that failed.
func (s *shard[K, V]) landFailure(r route[K, V], f *flight[V], l loaded[V]) (wake int64) {
	f.err = l.err
	s.lock()
	defer s.mu.Unlock()
	s.loads.stats.Loads++
	switch {
	case l.notFound:
		s.loads.stats.NotFound++
	case f.call.refresh:
		s.loads.stats.RefreshFailures++
		s.loads.stats.Failures++
	case !f.call.abandoned():
		s.loads.stats.Failures++
	}
	if !s.loads.end(r.key, f) || f.call.abandoned() || l.lost || s.cache.closed.Load() {
		return expiry.NoDeadline
	}
	p, present := s.find(r.hash, r.key)
	switch {
	case !l.notFound:
		if present && s.staleAt(p, l.now) && !s.liveAt(p, l.now) {
			s.loads.stats.StaleHits++
			f.value, f.err = peekValue[K, V](p.slot), nil
		}
	case present:
		s.takeAt(p, p.bucket.begin(), Deleted, l.now) // it has gone where it came from
	}
	return s.remember(r.key, l, f.call.refresh)
}

// loads is what a shard knows of loading. The lock's holder only.
type loads[K comparable, V any] struct {
	flights  map[K]*flight[V] // that may store when they land
	most     int              // flights at once, since the map was made
	failures failures[K]
	stats    LoadStats
}

const fewFlights = 64 // a map that has held no more is kept

// withLoads returns s.loads, which is nil until something is loaded.
func (s *shard[K, V]) withLoads() *loads[K, V] {
	if s.loads == nil {
		s.loads = new(loads[K, V])
	}
	return s.loads
}

// begin adds a flight.
func (l *loads[K, V]) begin(key K, of *call) *flight[V] {
	f := &flight[V]{call: of, done: make(chan struct{})}
	if key != key { //nolint:gocritic // such as NaN: nobody could find it, nor take it out again
		return f
	}
	if l.flights == nil {
		l.flights = make(map[K]*flight[V])
	}
	l.flights[key] = f
	l.most = max(l.most, len(l.flights))
	return f
}

// end takes a flight out, and reports whether it was there.
func (l *loads[K, V]) end(key K, f *flight[V]) bool {
	if l.of(key) != f {
		return false
	}
	l.drop(key)
	return true
}

// of returns the flight of a key, or nil.
func (l *loads[K, V]) of(key K) *flight[V] {
	if key != key { //nolint:gocritic // see begin; and what is behind a NaN may be such as no map takes
		return nil
	}
	return l.flights[key]
}

// drop takes the flight of a key out, if there is one. Maps do not shrink.
func (l *loads[K, V]) drop(key K) {
	if key != key { //nolint:gocritic // see of
		return
	}
	if delete(l.flights, key); len(l.flights) == 0 && l.most > fewFlights {
		l.dropAll()
	}
}

func (l *loads[K, V]) dropAll() { l.flights, l.most = nil, 0 }

// supersede is called by whoever changes or removes the value of key, or would have
// removed it: what is being loaded is not to be stored any more, and what is
// remembered of a load that failed is out of date.
func (s *shard[K, V]) supersede(key K) {
	if l := s.loads; l != nil {
		l.drop(key)
		l.failures.forget(key)
	}
}

// supersedeAll does so for all keys of the shard.
func (s *shard[K, V]) supersedeAll() {
	s.lock()
	defer s.mu.Unlock()
	if l := s.loads; l != nil {
		l.dropAll()
		l.failures = failures[K]{}
	}
}

// supersedeFlights keeps what is being loaded now from being stored, whatever the key.
func (c *Cache[K, V]) supersedeFlights() {
	for i := range c.shards {
		s := &c.shards[i]
		s.lock()
		if l := s.loads; l != nil {
			l.dropAll()
		}
		s.mu.Unlock()
	}
}
