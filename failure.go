package wheelcache

import (
	"slices"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// A failure is what a shard remembers of a load that failed, for a time that
// Options.NegativeTTL or Options.ErrorTTL says. It is no entry: Get misses, and nothing
// but GetOrLoad and LoadAll ask for it.
type failure struct {
	err    error
	kind   failureKind
	until  int64
	number uint64 // its own, by which its place in the queue knows it: time may stand still
}

type failureKind uint8

const (
	failedNotFound failureKind = iota // the loader answered ErrNotFound
	failedLoud                        // another error, which callers get
	failedQuietly                     // another error, which only refreshes want to know of
	failureKinds
)

// refreshPause is for how long a key is not refreshed after a refresh has failed,
// where ErrorTTL does not say so.
const refreshPause = time.Second

// failures are those of a shard. All of a kind are remembered equally long, so those
// that were added first are due first: a queue per kind does for them what the wheel
// does for entries. One whose failure was forgotten or replaced meanwhile stands for
// nothing, as a wheel's orphan.
type failures[K comparable] struct {
	of    map[K]failure
	most  int    // at once, since the map was made
	count uint64 // so far
	queue [failureKinds][]dueFailure[K]
}

type dueFailure[K comparable] struct {
	key    K
	until  int64
	number uint64
}

// remember remembers that key could not be loaded. It returns the instant at which the
// driver must be awake.
func (s *shard[K, V]) remember(key K, l loaded[V], refresh bool) (wake int64) {
	kind, ttl := failedLoud, s.cache.loading.errorTTL
	switch {
	case l.notFound:
		kind, ttl = failedNotFound, s.cache.loading.negativeTTL
	case ttl == 0 && refresh:
		kind, ttl = failedQuietly, refreshPause
	}
	f := &s.loads.failures
	if ttl == 0 || key != key { //nolint:gocritic // such as NaN
		f.forget(key)
		return expiry.NoDeadline
	}
	now := l.now
	if now == unread {
		now = s.cache.clock.real()
	}
	until := expiry.Deadline(now, ttl)
	if f.of == nil {
		f.of = make(map[K]failure)
	}
	f.count++
	f.of[key] = failure{l.err, kind, until, f.count}
	f.most = max(f.most, len(f.of))
	if until == expiry.NoDeadline {
		return until
	}
	if len(f.queue[kind]) > 2*len(f.of)+fewFlights {
		f.queue[kind] = slices.DeleteFunc(f.queue[kind], func(d dueFailure[K]) bool { return f.of[d.key].number != d.number })
	}
	f.queue[kind] = append(f.queue[kind], dueFailure[K]{key, until, f.count})
	at := s.cache.instantOf(s.cache.tickAfter(until)) // with the entries that are due then
	if at >= s.next.Load() {
		return expiry.NoDeadline
	}
	s.next.Store(at)
	return at
}

// last returns what is remembered of key.
func (f *failures[K]) last(key K) (failed failure, ok bool) {
	if key == key { //nolint:gocritic // see loads.of
		failed, ok = f.of[key]
	}
	return failed, ok
}

// forget forgets what is remembered of key.
func (f *failures[K]) forget(key K) {
	if key != key { //nolint:gocritic // see loads.of
		return
	}
	if delete(f.of, key); len(f.of) == 0 && f.most > fewFlights {
		*f = failures[K]{count: f.count}
	}
}

// expire forgets what is due, about limit of them, and reports whether more may be.
func (f *failures[K]) expire(now int64, limit int) (more bool) {
	for kind := range f.queue {
		for q := f.queue[kind]; len(q) > 0 && expiry.Expired(q[0].until, now); q = f.queue[kind] {
			if limit--; limit < 0 {
				return true
			}
			due := q[0]
			if f.queue[kind] = q[1:]; len(q) == 1 {
				f.queue[kind] = nil
			}
			if f.of[due.key].number == due.number {
				f.forget(due.key)
			}
		}
	}
	return false
}

// next returns when the first is due.
func (f *failures[K]) next() int64 {
	at := expiry.NoDeadline
	for _, q := range f.queue {
		if len(q) > 0 {
			at = min(at, q[0].until)
		}
	}
	return at
}

// staleAt reports whether the entry at p may be served although it has expired.
func (s *shard[K, V]) staleAt(p spot, now int64) bool {
	return s.cache.staleFor > 0 && !s.cache.clock.expired(s.cache.due(p.slot.deadline.Load()), now)
}

// stale returns the value of key and its deadline if it may be served although it
// has expired, or reports that it is live by now.
func (s *shard[K, V]) stale(hash uint32, key K, now int64) (value V, deadline int64, ok, live bool) {
	s.lock()
	defer s.mu.Unlock()
	p, present := s.find(hash, key)
	switch {
	case !present:
	case s.liveAt(p, now):
		return value, 0, false, true
	case s.staleAt(p, now):
		return peekValue[K, V](p.slot), p.slot.deadline.Load(), true, false
	}
	return value, 0, false, false
}

// removeStale removes an entry that was stale when it was copied, if it still is there.
func (c *Cache[K, V]) removeStale(it item[K, V]) {
	s, hash := c.at(it.key)
	c.removals.awaitRoom()
	now := c.clock.read()
	s.lock()
	if p, ok := s.find(hash, it.key); ok && !s.liveAt(p, now) && identical(peekValue[K, V](p.slot), it.value, c.mask) {
		s.supersede(it.key)
		s.takeAt(p, p.bucket.begin(), Deleted, now)
	}
	s.mu.Unlock()
	c.settle(expiry.NoDeadline, nil)
}

// due returns when an entry with that deadline is to be removed: then, or when it
// cannot be served stale any more.
func (c *Cache[K, V]) due(deadline int64) int64 {
	return expiry.Deadline(deadline, c.staleFor)
}
