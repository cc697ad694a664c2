package wheelcache

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/wheelcache/wheelcache/expiry"
)

// How much a cache may hold, and how its shards share that. (order.go has which
// entries go.)
//
// # Terms
//
// Each entry has a cost: 1 if Options.MaxEntries bounds the cache, what
// Options.Cost answers if MaxCost does, and that and the memory of the entry itself
// if MaxMemory does. Each shard has a share of the bound; what no shard has is free.
//
//	bound = free + the sum of all shares        used <= share, in each shard
//
// A shard that needs more takes a chunk of what is free, and gives back what it does
// not need. So one that is used more than others may have more than its fair share,
// the bound divided by the number of shards, as long as the others do not want it. When
// nothing is free, a shard makes room by evicting, of its own entries if it has its
// fair share. Otherwise, and if an entry is larger than all that it has, it takes what
// it needs all the same: free is less than zero then, and whoever did that evicts as
// much from other shards, first from those that have more than theirs, before its call
// returns.
//
// So when no call is under way, the cache is within its bound, and otherwise it is over
// it by no more than what those calls store.
//
// # Cost
//
// A cache that is not full touches free once for a chunk. One that is, does not write
// it at all: all is in the shards.
type bound[K comparable, V any] struct {
	cost     func(K, V) int64 // nil if each entry costs 1
	overhead int64            // of an entry itself
	log      uint8            // of the number of shards, a power of two: a Set need not divide
	most     atomic.Int64     // what all entries may cost
	free     atomic.Int64
	turn     atomic.Uint64 // of the shard that repay looks at next
	resizing atomic.Int32  // calls of Resize, which repay for others too

	tooLarge atomic.Uint64 // values refused
	badCosts atomic.Uint64 // values refused because their cost was negative
}

const (
	chunksPerShare = 64
	mostChunk      = 1024
	mostBound      = 1 << 56 // so that sums of costs do not overflow
	evictPerHold   = 16      // entries under one hold of a lock
	holdsPerPause  = 64      // of locks, before Resize waits for room
	leastPerShard  = 64      // entries

	filledTenths        = 6 // of the slots, where the size of segments is chosen for the number of entries
	filledTenthsUnknown = 5 // where that is not known

	fairTolerance = 8 // a shard may stay below its fair share by one part in so many
)

// newBound returns what o says of the size of a cache with so many shards, or nil if
// there is no bound.
func newBound[K comparable, V any](o *Options[K, V], shards int) *bound[K, V] {
	b := &bound[K, V]{cost: o.Cost, log: uint8(bits.TrailingZeros(uint(shards)))}
	most := o.MaxCost
	switch {
	case o.MaxEntries > 0:
		most = int64(o.MaxEntries)
	case o.MaxMemory > 0:
		most = o.MaxMemory
		b.overhead = entryMemory[K, V](filledTenths)
		if b.cost != nil {
			b.overhead = entryMemory[K, V](filledTenthsUnknown)
		}
	case o.MaxCost == 0:
		return nil
	}
	b.most.Store(most)
	b.free.Store(most)
	return b
}

// entries returns how many entries each shard will have when the bound is reached, or 0
// if that is not known.
func (b *bound[K, V]) entries() int {
	switch {
	case b == nil || b.cost != nil:
		return 0
	case b.overhead > 0:
		return int(min(b.fair()/b.overhead, maxCapacity))
	}
	return int(min(b.fair(), maxCapacity))
}

// each returns what each entry costs, if that is the same for all.
func (b *bound[K, V]) each() int64 { return max(b.overhead, 1) }

// The costs of values that are refused: all that are less than 0.
const (
	tooLarge int64 = -1 // more than the whole bound
	badCost  int64 = -2 // Options.Cost answered less than 0
)

// refuse counts a value that is not stored for its cost.
func (b *bound[K, V]) refuse(cost int64) {
	if cost == badCost {
		b.badCosts.Add(1)
	} else {
		b.tooLarge.Add(1)
	}
}

// costOf returns what a value costs. It calls the user's function.
func (c *Cache[K, V]) costOf(key K, value V) int64 {
	if c.bound == nil {
		return 0
	}
	return c.bound.costOf(key, value)
}

func (b *bound[K, V]) costOf(key K, value V) int64 {
	cost := b.each()
	if b.cost != nil {
		of := b.cost(key, value)
		if of < 0 {
			return badCost
		}
		cost = b.overhead + min(of, math.MaxInt64-b.overhead)
	}
	if cost > b.most.Load() {
		return tooLarge
	}
	return cost
}

// fair returns a shard's fair share.
func (b *bound[K, V]) fair() int64 { return b.most.Load() >> b.log }

// chunk returns how much a shard takes of what is free.
func (b *bound[K, V]) chunk() int64 {
	return min(max(b.fair()/chunksPerShare, 1), mostChunk)
}

// borrow takes n of what is free for a shard, or more if there is much, or less if
// there is little. It reports whether there was anything.
func (b *bound[K, V]) borrow(o *order, n int64) bool {
	for {
		free := b.free.Load()
		if free <= 0 {
			return false
		}
		taken := min(max(n, b.chunk()), free)
		if b.free.CompareAndSwap(free, free-taken) {
			o.share += taken
			return true
		}
	}
}

// makeWay sees to it that the shard has room for cost more. It may change the table.
func (s *shard[K, V]) makeWay(cost, now int64) {
	o, b := s.order, s.cache.bound
	if o.used+cost <= o.share {
		return
	}
	soon := s.takeDue(now)
	for evicted := 0; ; evicted++ {
		missing := o.used + cost - o.share
		if missing <= 0 {
			return
		}
		if b.borrow(o, missing) {
			continue
		}
		fair := b.fair()
		if o.share < fair-fair/fairTolerance || evicted == evictPerHold || !s.evict(soon, now) {
			o.share += missing
			b.free.Add(-missing) // see repay
			return
		}
	}
}

// takeDue removes what has expired, which goes before anything is evicted. It returns
// the instant by which an entry must expire so that it is not kept for having been read.
func (s *shard[K, V]) takeDue(now int64) (soon int64) {
	if s.wheel == nil {
		return math.MinInt64 // nothing expires: spare looking at clock and deadlines
	}
	if now == unread {
		var ok bool
		if now, ok = s.cache.clock.coarse(); !ok {
			now = s.cache.clock.real()
		}
	}
	if s.next.Load() <= now {
		s.advanceLocked(now, evictPerHold, 0)
	}
	return expiry.Deadline(now, expiresSoon)
}

// giveBack returns what the shard does not need, if it is much.
func (s *shard[K, V]) giveBack() {
	o, b := s.order, s.cache.bound
	chunk := b.chunk()
	if unused := o.share - o.used; unused > 2*chunk {
		o.share -= unused - chunk
		b.free.Add(unused - chunk)
	}
}

// repay evicts what shards have taken beyond the bound: from those that have more than
// their fair share, then from any, without waiting for those whose lock is taken, by a
// Compute perhaps; at last, from all that are left, the one among them that has just
// stored: what it stored ought to be there when the call returns. It takes locks at most
// so many times, and reports whether there is more to repay.
func (c *Cache[K, V]) repay(stored *shard[K, V], holds int) (more bool) {
	b := c.bound
	now := c.clock.read()
	n := uint64(len(c.shards))
	for pass := range 3 {
		fair, first := int64(0), b.turn.Add(1)
		if pass == 0 {
			fair = b.fair()
		}
		for i := range n {
			s, last := &c.shards[(first+i)%n], pass == 2
			for more := last || s != stored; more; {
				if b.free.Load() >= 0 {
					return false
				}
				if holds == 0 {
					return true
				}
				holds--
				more = s.repay(fair, now, last)
			}
		}
	}
	return false // what is missing still, others have taken, who repay it
}

// repay gives up what is missing, of what the shard has beyond its fair share. It
// reports whether it has given any.
func (s *shard[K, V]) repay(fair, now int64, wait bool) bool {
	if wait {
		s.lock()
	} else if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	o, b := s.order, s.cache.bound
	missing := func() int64 { return min(-b.free.Load(), o.share-fair) }
	if missing() <= 0 {
		return false
	}
	soon := s.takeDue(now)
	for range evictPerHold {
		if o.share-o.used >= missing() || !s.evict(soon, now) {
			break
		}
	}
	given := min(o.share-o.used, missing())
	if given <= 0 {
		return false
	}
	o.share -= given
	b.free.Add(given)
	return true
}

// Resize changes the bound to n: entries if Options.MaxEntries was set, else a cost or
// bytes, as in MaxCost or MaxMemory. If the cache is beyond it, entries are evicted
// before Resize returns, a few at a time, so that others go on meanwhile. The number of
// shards stays as it was made. It returns an error if n is less than 1, or if the cache was
// made without a bound.
func (c *Cache[K, V]) Resize(n int64) error {
	switch b := c.bound; {
	case b == nil:
		return fmt.Errorf("wheelcache: Resize(%d): the cache has no bound; Options.MaxEntries, MaxCost or MaxMemory must be set", n)
	case n < 1 || n > mostBound:
		return fmt.Errorf("wheelcache: Resize(%d): the bound must be 1 to %d", n, int64(mostBound))
	default:
		c.removals.awaitRoom()
		b.resizing.Add(1)
		defer func() {
			b.resizing.Add(-1)
			c.settle(expiry.NoDeadline, nil) // for those who have left it to this call
		}()
		b.free.Add(n - b.most.Swap(n))
		for c.repay(nil, holdsPerPause) {
			c.removals.start()
			c.removals.awaitRoom()
		}
	}
	return nil
}
