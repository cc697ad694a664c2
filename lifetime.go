package wheelcache

import (
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// What a policy has to be asked for. Policies are the user's code, so they are
// never asked under a lock (but for Compute, whose function runs there anyway):
// the answer is worked out from what a reader sees, and takes effect under the
// lock only if that is still so. Otherwise the policy is asked again, as often as
// it takes: an answer about what has been replaced since could undo a Move. Each
// time somebody else has changed that very key, so of all who do one gets on.

// unchanged reports whether an edit finds what a policy has been asked about. The
// bucket may have changed beside it.
func (c *Cache[K, V]) unchanged(e found[V], seen view[V]) bool {
	return e.is(seen) || e.live && seen.live && e.deadline == seen.deadline && identical(e.value, seen.value, c.mask)
}

// setByPolicy is Set with Options.Expiry.
func (c *Cache[K, V]) setByPolicy(key K, value V) {
	if c.traits.UpdateCreates {
		c.SetTTL(key, value, c.policy.Create(key, value))
		return
	}
	s, hash := c.at(key)
	for stored := false; !stored; {
		c.removals.awaitRoom()
		seen := c.look(s, hash, key)
		now := c.clock.now()
		remaining := expiry.Remaining(seen.deadline, now)
		ttl := c.lifetime(key, value, seen.live, remaining)
		cost := c.costOf(key, value)
		c.edit(key, c.clock.read(), func(e found[V]) change[V] {
			if stored = c.unchanged(e, seen); !stored {
				return change[V]{}
			}
			return change[V]{op: changeStore, value: value, deadline: deadlineAfter(now, ttl, seen.live, remaining, seen.deadline), cost: cost}
		})
	}
}

// deadlineAfter returns the deadline of a lifetime that a policy has answered: the
// present one, if the key is live and the answer is what remains of its life.
func deadlineAfter(now int64, ttl time.Duration, live bool, remaining time.Duration, present int64) int64 {
	if live && ttl == remaining {
		return present
	}
	return expiry.Deadline(now, max(ttl, 0))
}

// lifetime returns the lifetime that value is to have, which is to be stored
// for key. If key is live, its entry still has remaining to live.
func (c *Cache[K, V]) lifetime(key K, value V, live bool, remaining time.Duration) time.Duration {
	switch {
	case c.policy == nil:
		return c.ttl
	case live && !c.traits.UpdateCreates:
		return c.policy.Update(key, value, remaining)
	}
	return c.policy.Create(key, value)
}

// touchByPolicy is Touch with Options.Expiry.
func (c *Cache[K, V]) touchByPolicy(key K) bool {
	s, hash := c.at(key)
	for {
		c.removals.awaitRoom()
		seen := c.look(s, hash, key)
		if !seen.live {
			return false
		}
		now := c.clock.now()
		ttl := max(c.policy.Create(key, seen.value), 0)
		again := false
		done := c.edit(key, c.clock.read(), func(e found[V]) change[V] {
			if again = !c.unchanged(e, seen); again {
				return change[V]{}
			}
			return change[V]{op: changeMove, deadline: expiry.Deadline(now, ttl)}
		})
		if !again {
			return done
		}
	}
}

const (
	maxSlides  = 16 // how often a reader tries to move a deadline without the lock
	leastSlide = 64 // part of the lifetime
)

// slide lets the policy move the deadline of an entry that has been read: a
// later deadline without the lock, and without touching the wheel, whose record
// will be told when it comes up. It is not written if it is later by less than a
// tick and a small part of the lifetime, so that the line of a key that is read all the
// time stays clean; the lifetime is short by less than that, and by what the coarse
// clock is behind.
// With an injected clock it always is written.
func (c *Cache[K, V]) slide(s *shard[K, V], hash uint32, key K, seen view[V]) {
	var moved int64
	for range maxSlides {
		deadline, at := seen.deadline, seen.at
		// The horizon is loaded once, so that both times below are by one clock.
		horizon := c.clock.horizon.Load()
		now := horizon - int64(slack)
		near := deadline <= horizon || horizon == asleep
		if near {
			now = c.clock.now()
		}
		remaining := expiry.Remaining(deadline, now)
		ttl := c.policy.Read(key, seen.value, remaining)
		if ttl == remaining || c.closed.Load() {
			return
		}
		if !near && ttl < coarseLifetime {
			now = c.clock.now()
		}
		moved = min(expiry.Deadline(now, max(ttl, 0)), s.latestOf(hash, at.slot))
		switch {
		case !near && moved < deadline && deadline-moved <= int64(refreshPeriod):
			return // it was counted from the precise clock, and is not really earlier
		case moved < deadline || deadline == expiry.NoDeadline:
			if c.advanceDeadline(key, at, moved) {
				return
			}
		case moved-deadline < min(int64(c.tick), int64(ttl)/leastSlide) && c.clock.injected == nil:
			return
		case at.begin():
			// See judge: from here on others who find the entry expired look again. An
			// injected clock is not asked here, where others wait; it is advanced by
			// those who can wait for readers to be done.
			if c.clock.injected != nil || !c.clock.expired(deadline, unread) {
				at.slot.deadline.Store(moved)
			}
			at.bucket.end(at.version)
			return
		}
		// The bucket has changed. If the entry has, it is not what was read any more, or
		// somebody else has moved it.
		changed := c.look(s, hash, key)
		if !changed.live || changed.deadline != deadline || !identical(changed.value, seen.value, c.mask) {
			return
		}
		seen = changed
	}
	// The segment is being copied, which may take longer than that. Wait for the lock.
	c.edit(key, c.clock.read(), func(e found[V]) change[V] {
		if !e.live || e.deadline != seen.deadline || !identical(e.value, seen.value, c.mask) {
			return change[V]{}
		}
		return change[V]{op: changeMove, deadline: moved}
	})
}

// advanceDeadline moves the deadline of an entry to an earlier instant, for
// which the wheel needs a record. It reports whether the entry was as it had
// been seen. Nothing is removed, so there is no waiting for room: reads never do.
func (c *Cache[K, V]) advanceDeadline(key K, at sighting, deadline int64) (same bool) {
	c.edit(key, c.clock.read(), func(e found[V]) change[V] {
		if same = e.live && e.at == at; !same {
			return change[V]{}
		}
		return change[V]{op: changeMove, deadline: deadline}
	})
	return same
}
