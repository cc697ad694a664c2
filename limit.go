package wheelcache

import (
	"sync/atomic"

	"github.com/wheelcache/wheelcache/expiry"
)

// How long sliding may go on. A policy with Traits.MaxAge, such as expiry.Limit,
// bounds the life of an entry by when its value was stored. Policies are not told
// that, so the table keeps it: for each slot the latest deadline that its entry may
// have, which is fixed for as long as the life lasts. Whether a policy or a caller
// gives a deadline, it is cut to that on its way into the table, so that always
//
//	deadline <= latest
//
// and what is expired needs no second look: it is still a matter of the deadline.
//
// # Where it stands
//
// The latest deadlines of a segment are an array beside its buckets, at the indexes
// of the slots, so that slots are as large as ever, and other caches have none. They
// are copied with the entries and dropped with the segment: nothing has to be told
// that an entry was removed, and nothing is left behind, whatever the key.
//
// # Who reads and writes it
//
// The lock's holder writes a latest deadline with the bucket open, or of a vacant
// slot, as he does the deadline. A sliding read has no lock: having seen the entry,
// it loads the latest deadline and then opens the bucket (see sighting.begin), which
// fails if any entry of it has changed since it was seen, or if the segment has been
// replaced. So if it can write, then what it has loaded belongs to the entry that it
// has seen.

// latest returns the latest deadline in a life that begins now, which may be
// unread. (It and latestOf are parted so that they are inlined.)
func (s *shard[K, V]) latest(now int64) int64 {
	if !s.limited {
		return expiry.NoDeadline
	}
	return s.latestFrom(now)
}

func (s *shard[K, V]) latestFrom(now int64) int64 {
	if now == unread {
		now = s.cache.clock.real()
	}
	return expiry.Deadline(now, s.cache.traits.MaxAge)
}

// latestOf returns the latest deadline that the entry in a slot may have. Without the
// lock, it means something only if the bucket can be opened afterwards.
func (t *table[K, V]) latestOf(hash uint32, slot *slotHead) int64 {
	if !t.limited {
		return expiry.NoDeadline
	}
	return t.loadLatest(hash, slot)
}

func (t *table[K, V]) loadLatest(hash uint32, slot *slotHead) int64 {
	if latest := t.latestAt(hash, slot); latest != nil {
		return latest.Load()
	}
	return expiry.NoDeadline
}

// latestAt returns where the latest deadline of a slot stands in a limited table. It
// is nil if the segment has been replaced, which the lock's holder never sees.
func (t *table[K, V]) latestAt(hash uint32, slot *slotHead) *atomic.Int64 {
	seg := t.dir.Load().of(hash)
	if i, ok := slotIndex[K, V](seg.buckets, slot); ok {
		return &seg.beside.latest[i]
	}
	return nil
}

// copyLatest copies what belongs to a slot of old to one of seg, which is not
// published yet.
func copyLatest[K, V any](seg *segment, dst *slotHead, old *segment, src *slotHead) {
	i, _ := slotIndex[K, V](seg.buckets, dst)
	j, _ := slotIndex[K, V](old.buckets, src)
	seg.beside.latest[i].Store(old.beside.latest[j].Load())
}
