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
}

// allHashes is the point after the last hash.
const allHashes = 1 << 32

// collect appends the entries of the segment at the point reached, and returns
// the next point.
func (s *shard[K, V]) collect(from uint64, items []item[K, V]) ([]item[K, V], uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.dir.Load().of(uint32(from))
	each[K, V](seg, func(slot *slotHead) {
		if uint64(slot.hash) >= from {
			items = append(items, item[K, V]{peekKey[K](slot), peekValue[K, V](slot), slot.deadline.Load()})
		}
	})
	return items, seg.end(from)
}

// end returns the point after the last hash of the segment that from is in.
func (seg *segment) end(from uint64) uint64 {
	n := uint64(1) << (32 - seg.depth)
	return (from &^ (n - 1)) + n
}

// items calls yield for a copy of each live entry, until it answers false.
func (c *Cache[K, V]) items(yield func(item[K, V]) bool) {
	var items []item[K, V]
	for i := range c.shards {
		for from := uint64(0); from < allHashes; {
			items, from = c.shards[i].collect(from, items[:0])
			for _, it := range items {
				if !c.clock.expired(it.deadline, c.clock.read()) && !yield(it) {
					return
				}
			}
		}
	}
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
// Entries stored during the call may be missed.
func (c *Cache[K, V]) DeleteFunc(match func(K, V) bool) int {
	removed := 0
	c.items(func(it item[K, V]) bool {
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
			switch {
			case !e.live:
				return change[V]{}
			case !e.is(seen) && !holds[K](e.at.slot, seen.value):
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
// during the call may stay. It holds each shard's lock for a segment at a time.
func (c *Cache[K, V]) Clear() {
	for i := range c.shards {
		s := &c.shards[i]
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
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := uint32(from)
	seg := *s.dir.Load().of(hash)
	if seg.count > 0 {
		freeze[K, V](&seg)
		each[K, V](&seg, func(slot *slotHead) {
			cause := Cleared
			if s.cache.clock.expired(slot.deadline.Load(), now) {
				cause = Expired
			}
			s.report(slot, cause, now)
			if slot.tick != noTick {
				s.timed--
			}
		})
		s.table.count -= seg.count
		s.table.replace(hash, seg.depth, emptySegment[K, V](seg.depth))
		s.reduce(hash)
		s.tend()
	}
	return seg.end(from)
}
