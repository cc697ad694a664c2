package wheelcache

import (
	"fmt"

	"github.com/wheelcache/wheelcache/expiry"
)

// An Op is what the function given to Compute wants done.
type Op uint8

const (
	// OpKeep leaves the entry, or its absence, as it is.
	OpKeep Op = iota
	// OpStore stores the value, with the lifetime that Set gives.
	OpStore
	// OpRemove removes the entry.
	OpRemove
)

// found is what an edit finds under the lock. Only what is live has a value and
// a deadline.
type found[V any] struct {
	value    V
	deadline int64
	at       sighting
	live     bool
}

// is reports whether e is what was seen.
func (e found[V]) is(seen view[V]) bool {
	return e.live == seen.live && (!e.live || e.at == seen.at)
}

// A change is what an edit does.
type change[V any] struct {
	op       changeOp
	value    V
	deadline int64
	cost     int64 // of value
}

type changeOp uint8

const (
	changeNothing changeOp = iota
	changeStore            // store value with deadline
	changeValue            // store value and keep the deadline
	changeMove             // keep the value
	changeRemove
)

// edit finds key, asks decide what to do, and does it, all under the lock of the
// shard. The caller has waited for room before it asked for the time. Only a live
// entry can be moved, given another value or removed; if it expires while decide
// runs, decide is asked again, about nothing. It reports whether it was done: on a
// closed cache only removing is.
func (c *Cache[K, V]) edit(key K, now int64, decide func(found[V]) change[V]) (done bool) {
	s, hash := c.at(key)
	wake, done := s.edit(hash, key, now, decide)
	c.settle(wake, s)
	return done
}

func (s *shard[K, V]) edit(hash uint32, key K, now int64, decide func(found[V]) change[V]) (wake int64, done bool) {
	s.lock()
	defer s.mu.Unlock() // decide may panic
	p, present := s.find(hash, key)
	var e found[V]
	if present {
		e = s.foundAt(p, now)
	}
	for {
		ch := decide(e)
		if ch.op == changeNothing {
			return expiry.NoDeadline, true
		}
		if ch.op != changeRemove && s.cache.closed.Load() {
			if ch.op != changeMove {
				s.cache.refused.Add(1)
			}
			return expiry.NoDeadline, false
		}
		var b box
		if ch.op == changeStore || ch.op == changeValue {
			b = newBox(ch.value) // before the bucket is opened: readers wait then
		}
		if !present {
			wake, done = s.applyNew(hash, key, ch, b, now)
			s.supersedeBy(key, ch.op)
			return wake, done
		}
		opened := p.bucket.begin()
		if e.live && !s.liveAt(p, now) {
			// A reader may know that it has expired: it is too late to give it more time.
			p.bucket.end(opened)
			e = found[V]{}
			continue
		}
		wake, done = s.applyAt(p, opened, e.live, ch, b, now)
		s.supersedeBy(key, ch.op)
		return wake, done
	}
}

// supersedeBy supersedes what is being loaded for a key that has been changed so. It is
// not done before the change is certain: what is found to be too late leaves a load alone.
func (s *shard[K, V]) supersedeBy(key K, op changeOp) {
	if op != changeMove {
		s.supersede(key)
	}
}

// foundAt returns what an edit finds at p.
func (s *shard[K, V]) foundAt(p spot, now int64) (e found[V]) {
	opened := p.bucket.begin()
	if e.live = s.liveAt(p, now); e.live {
		e.value = peekValue[K, V](p.slot)
		e.deadline = p.slot.deadline.Load()
		e.at = sighting{p.bucket, p.slot, opened}
	}
	p.bucket.end(opened)
	return e
}

// applyNew does a change of a key that is not there.
func (s *shard[K, V]) applyNew(hash uint32, key K, ch change[V], b box, now int64) (wake int64, done bool) {
	switch {
	case ch.op != changeStore:
		return expiry.NoDeadline, false
	case s.leavesAtOnce(ch, now):
		s.arriveGone(key, ch.value, ch.cost, now)
		return expiry.NoDeadline, true
	}
	return s.putNew(hash, key, ch.value, b, ch.deadline, ch.cost, now), true
}

// leavesAtOnce reports whether a value that is to be stored is not to stay.
func (s *shard[K, V]) leavesAtOnce(ch change[V], now int64) bool {
	return ch.cost < 0 || s.cache.clock.expired(ch.deadline, now)
}

// applyAt does a change of the entry at p, whose bucket has been opened.
func (s *shard[K, V]) applyAt(p spot, opened uint32, live bool, ch change[V], b box, now int64) (wake int64, done bool) {
	switch {
	case ch.op == changeStore && s.leavesAtOnce(ch, now), ch.op == changeValue && live && ch.cost < 0:
		key := peekKey[K](p.slot)
		s.takeAt(p, opened, Replaced, now)
		s.arriveGone(key, ch.value, ch.cost, now)
	case ch.op == changeStore:
		return s.putAt(p, opened, ch.value, b, ch.deadline, s.latest(now), ch.cost, now), true
	case ch.op == changeRemove:
		s.takeAt(p, opened, Deleted, now) // also what StaleFor keeps
		return expiry.NoDeadline, live    // though it may have expired since decide saw it
	case !live:
		p.bucket.end(opened)
		return expiry.NoDeadline, false
	case ch.op == changeValue:
		return s.putAt(p, opened, ch.value, b, p.slot.deadline.Load(), s.latestOf(p.slot.hash, p.slot), ch.cost, now), true
	case ch.op == changeMove:
		return s.moveAt(p, opened, ch.deadline, now), true
	}
	return expiry.NoDeadline, true
}

// Replace stores value for key, keeping the deadline, if key is present and has
// not expired. It returns the value that was there.
func (c *Cache[K, V]) Replace(key K, value V) (old V, ok bool) {
	cost := c.costOf(key, value)
	c.removals.awaitRoom()
	done := c.edit(key, c.clock.read(), func(e found[V]) change[V] {
		old, ok = e.value, e.live
		if !ok {
			return change[V]{}
		}
		return change[V]{op: changeValue, value: value, cost: cost}
	})
	if !done {
		return *new(V), false
	}
	return old, ok
}

// GetOrSet returns the value of key and true, as Get does, if key is present and
// has not expired. Otherwise it stores value, as Set does, and returns it and
// false. Of several calls at once for an absent key, one stores.
func (c *Cache[K, V]) GetOrSet(key K, value V) (actual V, loaded bool) {
	s, hash := c.at(key)
	seen := c.look(s, hash, key)
	if !seen.live {
		ttl, cost := c.lifetime(key, value, false, 0), c.costOf(key, value)
		c.removals.awaitRoom()
		now := c.clock.read()
		deadline := c.deadline(max(ttl, 0), now)
		c.edit(key, now, func(e found[V]) change[V] {
			if e.live {
				seen = view[V](e)
				return change[V]{}
			}
			return change[V]{op: changeStore, value: value, deadline: deadline, cost: cost}
		})
	}
	if !seen.live {
		c.reads.mine().misses.Add(1)
		return value, false
	}
	s.noteRead(seen.at)
	if c.slides {
		c.slide(s, hash, key, seen)
	}
	c.reads.mine().hits.Add(1)
	return seen.value, true
}

// Compute calls f with the value of key, or with a zero value and false if it is
// absent or expired, and does what f answers. No other change of the key comes
// in between; reads go on meanwhile. It returns the value that key has
// afterwards, and false if it has none.
//
// f runs under a lock, together with the policy and Options.Cost, if there are any: it should be
// quick, since other writers of the shard, Len, Stats and iteration wait for it,
// and must not use the cache, which would be a deadlock. If the value expires while f
// runs and f answers OpStore or OpRemove, f is called again, with a zero value and
// false. If f panics, nothing is changed. An unknown Op panics.
func (c *Cache[K, V]) Compute(key K, f func(old V, ok bool) (V, Op)) (actual V, ok bool) {
	var before found[V]
	c.removals.awaitRoom()
	now := c.clock.read()
	done := c.edit(key, now, func(e found[V]) change[V] {
		before, actual, ok = e, *new(V), false
		value, op := f(e.value, e.live) //wheelcache:underlock documented: f runs under the lock
		switch op {
		case OpKeep:
			actual, ok = e.value, e.live
			return change[V]{}
		case OpStore:
			at := now
			if at == unread {
				at = c.clock.real()
			}
			remaining := expiry.Remaining(e.deadline, at)
			ttl := c.lifetime(key, value, e.live, remaining) //wheelcache:underlock documented: and so does the policy
			cost := c.costOf(key, value)                     //wheelcache:underlock documented: and Options.Cost
			if ok = ttl > 0 && cost >= 0; ok {
				actual = value
			}
			return change[V]{op: changeStore, value: value, deadline: deadlineAfter(at, ttl, e.live, remaining, e.deadline), cost: cost}
		case OpRemove:
			return change[V]{op: changeRemove} // it may be about what is being loaded
		}
		panic(fmt.Sprintf("wheelcache: Compute: the function answered Op(%d); OpKeep, OpStore and OpRemove are allowed", op))
	})
	if !done {
		return before.value, before.live
	}
	return actual, ok
}

// CompareAndSwap stores new for key, keeping the deadline, if the value of key
// is old. It returns false if it is not, or if key is absent or expired.
func CompareAndSwap[K comparable, V comparable](c *Cache[K, V], key K, old, new V) bool {
	swapped := false
	cost := c.costOf(key, new)
	c.removals.awaitRoom()
	done := c.edit(key, c.clock.read(), func(e found[V]) change[V] {
		if swapped = e.live && e.value == old; !swapped {
			return change[V]{}
		}
		return change[V]{op: changeValue, value: new, cost: cost}
	})
	return swapped && done
}

// CompareAndDelete removes the entry of key if its value is old. It returns
// false if it is not, or if key is absent or expired.
func CompareAndDelete[K comparable, V comparable](c *Cache[K, V], key K, old V) bool {
	deleted := false
	c.removals.awaitRoom()
	c.edit(key, c.clock.read(), func(e found[V]) change[V] {
		if deleted = e.live && e.value == old; !deleted {
			return change[V]{}
		}
		return change[V]{op: changeRemove}
	})
	return deleted
}
