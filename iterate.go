package wheelcache

import (
	"iter"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// Iteration goes through the hashes in order. It copies the entries of one
// segment at a time under the lock and hands them out without it; then it goes
// on at the hash where that segment ended. Segments may be split and merged
// meanwhile, but a key's hash stays: what comes after the point reached has not
// been handed out, what comes before it has. So every key that is present
// throughout is seen exactly once.

// An item is a copy of an entry.
type item[K comparable, V any] struct {
	key      K
	value    V
	deadline int64
	stale    bool // it has expired
}

// allHashes is the point after the last hash.
const allHashes = 1 << 32

// collect appends the entries of the segment at the point reached, and returns
// the next point.
func (s *shard[K, V]) collect(from uint64, items []item[K, V]) ([]item[K, V], uint64) {
	s.lock()
	defer s.mu.Unlock()
	seg := s.dir.Load().of(uint32(from))
	each[K, V](seg, func(p spot) {
		if slot := p.slot; uint64(slot.hash) >= from {
			items = append(items, item[K, V]{key: peekKey[K](slot), value: peekValue[K, V](slot), deadline: slot.deadline.Load()})
		}
	})
	return items, seg.end(from)
}

// begin returns the first hash of the segment that from is in.
func (seg *segment) begin(from uint64) uint64 {
	return from &^ (1<<(32-seg.depth) - 1)
}

// end returns the point after the last hash of the segment that from is in.
func (seg *segment) end(from uint64) uint64 {
	n := uint64(1) << (32 - seg.depth)
	return (from &^ (n - 1)) + n
}

// items calls yield for a copy of each live entry, until it answers false.
func (c *Cache[K, V]) items(yield func(item[K, V]) bool) {
	c.itemsAnd(false, yield)
}

// itemsAnd is items, with those expired entries, too, that StaleFor keeps, if stale.
func (c *Cache[K, V]) itemsAnd(stale bool, yield func(item[K, V]) bool) {
	var items []item[K, V]
	for i := range c.shards {
		for from := uint64(0); from < allHashes; {
			items, from = c.shards[i].collect(from, items[:0])
			for _, it := range items {
				if c.clock.expired(it.deadline, c.clock.read()) {
					copied := it
					if !c.reread(&it) {
						if !stale || c.clock.expired(c.due(copied.deadline), c.clock.read()) {
							continue
						}
						it = copied
						it.stale = true
					}
				}
				if !yield(it) {
					return
				}
			}
		}
	}
}

// reread brings a copy that has expired up to date. It reports whether its key is
// live: the entry may have been given more time.
func (c *Cache[K, V]) reread(it *item[K, V]) bool {
	s, hash := c.at(it.key)
	seen := c.look(s, hash, it.key)
	it.value, it.deadline = seen.value, seen.deadline
	return seen.live
}

// All returns the live entries, in no particular order. Every key that is
// present throughout is seen exactly once, with the value of some moment; one that
// comes or goes meanwhile may be seen or not. No lock is held
// while the loop's body runs. It costs about as much as a Get per entry, counts
// nothing, and moves no deadline.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		c.items(func(it item[K, V]) bool { return yield(it.key, it.value) })
	}
}

// Keys returns the keys of the live entries, as All does.
func (c *Cache[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		c.items(func(it item[K, V]) bool { return yield(it.key) })
	}
}

// Expiring returns those of the live entries that expire within a duration from
// when the loop comes to them. It goes through all entries, as All does.
func (c *Cache[K, V]) Expiring(within time.Duration) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		c.items(func(it item[K, V]) bool {
			soon := it.deadline != expiry.NoDeadline && expiry.Remaining(it.deadline, c.clock.now()) <= within
			return !soon || yield(it.key, it.value)
		})
	}
}

// DeleteFunc removes the live entries that match, and returns how many it
// removed. match is called under no lock, and again if the entry may have been
// changed before it is removed: what is removed is what match has seen last.
// Entries stored during the call may be missed. What is being loaded when it is
// called is not stored. Of what StaleFor keeps, entries that match are
// removed, too, but not counted.
func (c *Cache[K, V]) DeleteFunc(match func(K, V) bool) int {
	removed := 0
	c.supersedeFlights()
	c.itemsAnd(c.staleFor > 0, func(it item[K, V]) bool {
		if it.stale {
			if match(it.key, it.value) {
				c.removeStale(it)
			}
			return true
		}
		if match(it.key, it.value) && c.deleteMatching(it, match) {
			removed++
		}
		return true
	})
	return removed
}

// deleteMatching removes an entry that matched when it was copied.
func (c *Cache[K, V]) deleteMatching(it item[K, V], match func(K, V) bool) (removed bool) {
	seen := view[V]{value: it.value, live: true}
	for seen.live {
		again := false
		c.removals.awaitRoom()
		c.edit(it.key, c.clock.read(), func(e found[V]) change[V] {
			removed = false
			switch {
			case !e.live:
				return change[V]{}
			case !e.is(seen) && !identical(e.value, seen.value, c.mask):
				again = true
				return change[V]{}
			}
			removed = true
			return change[V]{op: changeRemove}
		})
		if !again {
			return removed
		}
		s, hash := c.at(it.key)
		if seen = c.look(s, hash, it.key); seen.live && !match(it.key, seen.value) {
			return false
		}
	}
	return false
}

// Clear removes all entries that are there when it is called; entries stored
// during the call may stay. What is being loaded when it is called is not stored, and
// remembered failures of loads are forgotten. It holds each shard's lock for a segment
// at a time.
func (c *Cache[K, V]) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
		s.supersedeAll()
		for from := uint64(0); from < allHashes; {
			now := c.clock.read()
			c.removals.awaitRoom()
			from = s.clearSegment(from, now)
			c.removals.start()
		}
	}
}

// clearSegment removes the entries of the segment at the point reached, and
// returns the next point.
func (s *shard[K, V]) clearSegment(from uint64, now int64) uint64 {
	s.lock()
	defer s.mu.Unlock()
	hash := uint32(from)
	seg := *s.dir.Load().of(hash)
	switch {
	case seg.count == 0:
		return seg.end(from)
	case seg.begin(from) < from:
		// It was joined with what has been cleared, where others may have stored again.
		each[K, V](&seg, func(p spot) {
			if uint64(p.slot.hash) >= from {
				opened := p.bucket.begin()
				s.clearAt(p, now)
				s.drop(p, opened)
			}
		})
	default:
		freeze[K, V](&seg)
		s.table.count -= seg.count
		s.table.replace(hash, seg.depth, emptySegment[K, V](seg.depth)) // they leave, and then OnRemoval is told
		each[K, V](&seg, func(p spot) {
			s.clearAt(p, now)
			if s.order != nil {
				s.leave(&seg, p)
			}
		})
	}
	s.reduceNow(hash)
	s.tend()
	return seg.end(from)
}

// clearAt reports the entry at p, which leaves.
func (s *shard[K, V]) clearAt(p spot, now int64) {
	cause := Cleared
	if s.cache.clock.expired(p.slot.deadline.Load(), now) {
		cause = Expired
	}
	s.report(p.slot, cause, now)
	if p.slot.tick != noTick {
		s.wheel.timed--
	}
}
