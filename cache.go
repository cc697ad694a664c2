package wheelcache

import (
	"math"
	"math/bits"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// A Cache holds values for keys, each for a lifetime. All methods may be called
// by any number of goroutines at once. It must be made by New.
type Cache[K comparable, V any] struct {
	hash     hasher[K]
	path     path          // of reads
	shards   []shard[K, V] // a power of two
	shift    uint8         // the top 63 - shift bits of a hash are the index of the shard
	slots    int           // of each wheel, 0 for as many as it needs
	sized    int           // entries that each shard is made for
	tick     time.Duration
	ttl      time.Duration // what Set gives, if there is no policy
	policy   expiry.Policy[K, V]
	traits   expiry.Traits
	slides   bool            // the policy has to be asked when a key is read
	removals *removals[K, V] // nil if nobody wants to know
	reads    readCounters
	loading  loading
	staleFor time.Duration // by how much entries outstay their deadlines
	bound    *bound[K, V]  // nil if there is none

	clock    clock
	driver   driver
	closed   atomic.Bool
	refused  atomic.Uint64
	lateness lateness

	lockSpins int    // see shard.lock
	mask      []byte // of values, for identical
}

// New returns an empty cache, or an error that says which option is wrong and
// what is allowed. Close it when it is not needed any more; a cache that is
// dropped without Close is collected, too, and no goroutine of it stays.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	c := &Cache[K, V]{
		hash:   newHasher(o.Hash),
		shards: make([]shard[K, V], o.Shards),
		shift:  uint8(63 - bits.Len(uint(o.Shards-1))),
		slots:  o.Slots,
		tick:   o.Tick,
		ttl:    o.TTL,
		policy: o.Expiry,
		reads:  newReadCounters(),
		mask:   maskOf(reflect.TypeFor[V]()),

		sized: (o.Capacity + o.Shards - 1) / o.Shards,

		staleFor: o.StaleFor,
	}
	if runtime.GOMAXPROCS(0) > 1 {
		c.lockSpins = lockSpins
	}
	if o.Expiry != nil {
		c.traits = expiry.TraitsOf(o.Expiry)
		c.slides = !c.traits.ReadKeeps
	}
	c.bound = newBound(&o, o.Shards)
	c.loading.init(o.TTL, o.LoadTimeout, o.NegativeTTL, o.ErrorTTL, o.RefreshAfter, o.RefreshFraction, o.EarlyRefresh, o.MaxRefreshes)
	c.path = pathOf[K](c.hash.kind, c.slides)
	c.clock.init(o.Clock, o.ExactClock)
	if o.OnRemoval != nil {
		c.removals = newRemovals(o.OnRemoval, &c.clock, o.Logger, c.resume)
	}
	empty := emptyDirectory[K, V]()
	for i := range c.shards {
		phase := float64(i) / float64(o.Shards)
		c.shards[i].init(c, c.sized, phase, empty)
	}
	c.initDriver()
	return c, nil
}

// resume lets expiry go on that had stopped because too many removals were
// pending.
func (c *Cache[K, V]) resume() {
	c.arm(c.clock.now())
}

// at returns the shard of a key and the part of the key's hash that the shard
// knows it by.
func (c *Cache[K, V]) at(key K) (*shard[K, V], uint32) {
	var h uint64
	switch c.hash.kind { // the first two as sum has them, which is too large to be inlined
	case hashInteger:
		h = mix(integerKey(key), c.hash.secret[0], c.hash.secret[1])
	case hashString:
		h = sumString(stringKey(key), c.hash.secret[0], c.hash.secret[1])
	default:
		h = c.hash.sum(key)
	}
	return &c.shards[h>>1>>(c.shift&63)], uint32(h) // in two steps: a shift by 64 is none
}

// Get returns the value of key, unless it is absent or expired. It takes no
// lock, allocates nothing and, while the cache is in use, reads no clock unless the
// deadline is less than half a second away (see Options.ExactClock). It counts as
// a hit or a miss. With a sliding policy, it moves the deadline.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	value, _, ok = c.read(key, 1)
	return value, ok
}

// Peek is Get without the traces: it counts nothing and moves no deadline.
func (c *Cache[K, V]) Peek(key K) (value V, ok bool) {
	value, _, ok = c.read(key, 0)
	return value, ok
}

// readCarefully is read, which is in words.go, where there is more to do.
func (c *Cache[K, V]) readCarefully(key K, count uint64) (value V, deadline int64, ok bool) {
	s, hash := c.at(key)
	seen := c.look(s, hash, key)
	if !seen.live {
		c.reads.mine().misses.Add(count)
		return value, 0, false
	}
	if count > 0 {
		s.noteRead(seen.at)
		if c.slides {
			c.slide(s, hash, key, seen)
		}
	}
	c.reads.mine().hits.Add(count)
	return seen.value, seen.deadline, true
}

// A view is what a reader has seen of a key. One that is not live is zero.
type view[V any] struct {
	value    V
	deadline int64
	at       sighting
	live     bool
}

// look returns what can be seen of key, and asks the precise clock if it must.
func (c *Cache[K, V]) look(s *shard[K, V], hash uint32, key K) view[V] {
	value, deadline, at, o := s.sight(hash, key)
	return c.judge(s, hash, key, value, deadline, at, o)
}

// judge completes look, given what was sighted.
func (c *Cache[K, V]) judge(s *shard[K, V], hash uint32, key K, value V, deadline int64, at sighting, o outcome) view[V] {
	for {
		if o == torn {
			value, deadline, at, o = s.getLocked(hash, key)
		}
		if o == miss {
			return view[V]{}
		}
		if deadline > c.clock.horizon.Load() {
			return view[V]{value, deadline, at, true}
		}
		now := c.clock.now()
		c.askedPrecisely(now)
		if !expiry.Expired(deadline, now) {
			return view[V]{value, deadline, at, true}
		}
		// Was that still its deadline when the clock was read? A sliding reader may
		// have been about to move it: if the entry is unchanged now, it will not any
		// more, since it would look at the clock again. And if the segment had been
		// replaced, the entry may have been moved where it is now.
		if at.current() {
			return view[V]{}
		}
		o = torn
	}
}

// Set stores value for key with the lifetime of Options.TTL or Options.Expiry.
// When it returns, the value is there. It allocates nothing if the value has at
// most 32 bytes and the table does not have to grow. On a closed cache it stores
// nothing and counts in Stats.Refused.
func (c *Cache[K, V]) Set(key K, value V) {
	if c.policy != nil {
		c.setByPolicy(key, value)
		return
	}
	c.removals.awaitRoom()
	now := c.clock.read()
	c.store(key, value, c.deadline(c.ttl, now), now)
}

// SetTTL stores value for key with a lifetime of its own. Zero or less means
// that the entry is expired on arrival: it is never seen, what was there before
// is gone, and OnRemoval is told of both. expiry.Never means that it does not
// expire.
func (c *Cache[K, V]) SetTTL(key K, value V, ttl time.Duration) {
	c.removals.awaitRoom()
	if ttl <= 0 {
		c.setGone(key, value, c.costOf(key, value))
		return
	}
	now := c.clock.read()
	c.store(key, value, c.deadline(ttl, now), now)
}

// SetDeadline stores value for key until t. A t that is not in the future is as a
// lifetime of zero for SetTTL, and the deadline reported is the moment of the
// call. The zero Time means that the entry does not expire. A t
// without a monotonic reading is taken relative to the wall clock at the time
// of the call; setting the wall clock later does not move the deadline.
func (c *Cache[K, V]) SetDeadline(key K, value V, t time.Time) {
	c.removals.awaitRoom()
	deadline, now := c.clock.instant(t)
	if expiry.Expired(deadline, now) {
		c.setGone(key, value, c.costOf(key, value))
		return
	}
	c.store(key, value, deadline, now)
}

// deadline returns the deadline of a lifetime that begins now, which may be
// unread.
func (c *Cache[K, V]) deadline(ttl time.Duration, now int64) int64 {
	if ttl == expiry.Never {
		return expiry.NoDeadline
	}
	if now == unread {
		var ok bool
		if now, ok = c.clock.coarse(); !ok || ttl < coarseLifetime {
			now = c.clock.now()
			c.askedPrecisely(now)
		}
	}
	return expiry.Deadline(now, ttl)
}

// store stores a value whose deadline has not passed. The caller has waited for
// room.
func (c *Cache[K, V]) store(key K, value V, deadline, now int64) {
	cost := c.costOf(key, value)
	if cost < 0 {
		c.setGone(key, value, cost)
		return
	}
	s, hash := c.at(key)
	s.touch(hash)
	b := newBox(value)
	s.lock()
	if c.closed.Load() {
		s.mu.Unlock()
		c.refused.Add(1)
		return
	}
	s.supersede(key)
	var wake int64
	switch s.write(hash, key, value, deadline, now) {
	case hit:
		s.mu.Unlock()
		return
	case miss:
		wake = s.putNew(hash, key, value, b, deadline, cost, now)
	default:
		wake = s.put(hash, key, value, b, deadline, cost, now)
	}
	s.mu.Unlock()
	c.settle(wake, s)
}

// settle does what is to be done after a shard's lock has been released: it
// has removals delivered and the driver woken up in time, and what was taken beyond the
// bound repaid. stored is the shard that has stored something, or nil.
func (c *Cache[K, V]) settle(wake int64, stored *shard[K, V]) {
	if c.bound != nil && c.bound.free.Load() < 0 && c.bound.resizing.Load() == 0 {
		c.repay(stored, math.MaxInt)
	}
	if c.removals != nil {
		c.removals.start()
	}
	if wake < c.driver.wakeAt.Load() {
		c.arm(max(wake, c.driver.restUntil.Load()))
	}
}

// setGone stores a value that leaves on arrival: because of its cost, or else because it
// is expired. The caller has waited for room.
func (c *Cache[K, V]) setGone(key K, value V, cost int64) {
	now := c.clock.now()
	s, hash := c.at(key)
	s.lock()
	if c.closed.Load() {
		s.mu.Unlock()
		c.refused.Add(1)
		return
	}
	s.supersede(key)
	s.putGone(hash, key, value, cost, now)
	s.mu.Unlock()
	c.settle(expiry.NoDeadline, nil)
}

// Move gives the entry of key a new lifetime that begins now, with the same
// value: zero or less expires it, expiry.Never keeps it for good. It returns
// false, and does nothing, if key is absent or expired.
func (c *Cache[K, V]) Move(key K, ttl time.Duration) bool {
	c.removals.awaitRoom()
	now := c.clock.read()
	if ttl <= 0 {
		ttl, now = 0, c.clock.now()
	}
	deadline := c.deadline(ttl, now)
	s, hash := c.at(key)
	s.lock()
	p, ok := s.find(hash, key)
	if !ok || c.closed.Load() {
		s.mu.Unlock()
		return false
	}
	wake := expiry.NoDeadline
	opened := p.bucket.begin()
	switch ok = s.liveAt(p, now); {
	case ok && ttl == 0:
		p.slot.deadline.Store(deadline)
		s.takeAt(p, opened, Expired, now)
	case ok:
		wake = s.moveAt(p, opened, deadline, now)
	default:
		p.bucket.end(opened)
	}
	s.mu.Unlock()
	c.settle(wake, nil)
	return ok
}

// Touch restarts the lifetime of key: that which Set gives, or which the policy
// gives to a new entry. It returns false, and does nothing, if key is absent or
// expired.
func (c *Cache[K, V]) Touch(key K) bool {
	if c.policy == nil {
		return c.Move(key, c.ttl)
	}
	return c.touchByPolicy(key)
}

// Delete removes the entry of key. It returns false if it was absent or expired.
func (c *Cache[K, V]) Delete(key K) bool {
	_, ok := c.delete(key)
	return ok
}

// GetAndDelete removes the entry of key and returns its value, unless it was
// absent or expired. Of several calls at once, one gets the value. It counts as
// neither hit nor miss.
func (c *Cache[K, V]) GetAndDelete(key K) (value V, ok bool) {
	return c.delete(key)
}

func (c *Cache[K, V]) delete(key K) (value V, ok bool) {
	c.removals.awaitRoom()
	now := c.clock.read()
	s, hash := c.at(key)
	s.lock()
	s.supersede(key)
	if p, found := s.find(hash, key); found {
		v := peekValue[K, V](p.slot)
		if ok = s.takeAt(p, p.bucket.begin(), Deleted, now); ok {
			value = v
		}
	}
	s.mu.Unlock()
	c.settle(expiry.NoDeadline, nil)
	return value, ok
}

// An Entry is a value with its times.
type Entry[K comparable, V any] struct {
	Key      K
	Value    V
	Deadline time.Time     // zero if the entry does not expire
	TTL      time.Duration // what remains of its life: expiry.Never if it does not expire
	Stale    bool          // it has expired: only GetOrLoad may return it, if its loader fails
}

// Entry returns the value of key and its times, unless it is absent or expired.
// Like Peek, it counts nothing and moves no deadline. It is the one method that shows
// what Options.StaleFor keeps: such a value comes with Stale set, a TTL of 0, and
// false.
func (c *Cache[K, V]) Entry(key K) (e Entry[K, V], ok bool) {
	s, hash := c.at(key)
	for {
		if seen := c.look(s, hash, key); seen.live {
			remaining := max(expiry.Remaining(seen.deadline, c.clock.now()), 0)
			return Entry[K, V]{Key: key, Value: seen.value, Deadline: c.clock.time(seen.deadline), TTL: remaining}, true
		}
		if c.staleFor == 0 {
			return e, false
		}
		value, deadline, stale, live := s.stale(hash, key, c.clock.read())
		if stale {
			e = Entry[K, V]{Key: key, Value: value, Deadline: c.clock.time(deadline), Stale: true}
		}
		if !live {
			return e, false
		}
	}
}

// Len returns the number of entries, without looking at their deadlines: it may
// count some that expired within the last tick, or where Options.Tick says so, within
// the last second. It takes each shard's lock in turn.
func (c *Cache[K, V]) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.lock()
		n += s.count
		s.mu.Unlock()
	}
	return n
}

// Stats returns what the cache has counted so far. It takes each shard's lock in
// turn.
func (c *Cache[K, V]) Stats() Stats {
	st := Stats{
		Refused:     c.refused.Load(),
		MissedTicks: c.driver.missed.Load(),
		Lateness:    c.lateness.snapshot(),
	}
	st.Hits, st.Misses = c.reads.sum()
	if r := c.removals; r != nil {
		st.CallbackPanics = r.panics.Load()
		st.Pending = r.pending()
	}
	if b := c.bound; b != nil {
		st.TooLarge, st.BadCosts = b.tooLarge.Load(), b.badCosts.Load()
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.lock()
		st.Sets += s.sets
		st.Expired += s.removed[Expired-1]
		st.Evicted += s.removed[Evicted-1]
		st.Deleted += s.removed[Deleted-1]
		st.Replaced += s.removed[Replaced-1]
		st.Cleared += s.removed[Cleared-1]
		st.Entries += s.count
		if s.order != nil {
			st.Cost += s.order.used
		}
		if s.wheel != nil {
			st.Waiting += s.wheel.Len()
		}
		if s.loads != nil {
			st.Load.add(&s.loads.stats)
		}
		s.mu.Unlock()
	}
	return st
}

// Flush removes everything that is due now and returns when OnRemoval has been
// told of it and of all earlier removals; not, though, of what OnRemoval itself
// removes meanwhile. Called from OnRemoval, it does not wait for OnRemoval. There
// is no need to call it but for tests on a fake clock,
// or to see exact counts.
func (c *Cache[K, V]) Flush() {
	for i := range c.shards {
		s := &c.shards[i]
		for more := true; more; {
			now := c.clock.now()
			c.removals.awaitRoom()
			more = s.advance(now, flushPerHold, math.MaxInt)
			c.removals.start()
		}
	}
	c.removals.drain()
}

// Pause stops time for the lifetimes of entries, as in an incident in which what they
// were loaded from is down: none expires until Resume, all deadlines are later by the
// length of the pause, and what is stored meanwhile begins to age with Resume. What has
// expired before stays expired. It costs reads nothing. On a cache that is
// paused it does nothing.
func (c *Cache[K, V]) Pause() {
	c.clock.pause()
}

// Resume ends a Pause. On a cache that is not paused it does nothing.
func (c *Cache[K, V]) Resume() {
	if c.clock.resume() && !c.closed.Load() {
		c.surely(func() { c.arm(c.clock.now()) })
	}
}

// Close stops the cache and waits until it has stopped: no goroutine of it runs
// any more, no timer is pending, and OnRemoval has been told of every removal so
// far. What is being loaded ends with ErrClosed. The contexts of loaders are cancelled,
// but Close does not wait for loaders, nor for what goes with their contexts.
//
// Entries stay where they are: reads go on and honour deadlines. Removing
// them still works, with OnRemoval called by the goroutine that removes. Storing
// and moving do nothing. Close may be called more than once, and from
// OnRemoval, where it does not wait for OnRemoval. The error is always nil.
func (c *Cache[K, V]) Close() error {
	c.closed.Store(true)
	c.loading.close()
	// Stores check closed under the lock: after this, none is in progress.
	for i := range c.shards {
		c.shards[i].mu.Lock()
		c.shards[i].mu.Unlock() //nolint:staticcheck,gocritic // an empty section is the point
	}
	c.driver.timer.Stop()
	if !c.driver.isCaller() {
		c.driver.alive.Lock()
		c.driver.alive.Unlock() //nolint:staticcheck,gocritic // likewise
	}
	c.clock.sleep()
	c.removals.close()
	return nil
}

// Time in ticks. A tick t has passed when t*c.tick nanoseconds have.

// tickAfter returns the first tick that passes at the deadline or after it.
func (c *Cache[K, V]) tickAfter(deadline int64) int64 {
	tick := deadline / int64(c.tick)
	if deadline%int64(c.tick) > 0 {
		tick++
	}
	return tick
}

// tickBefore returns the last tick that has passed at an instant.
func (c *Cache[K, V]) tickBefore(instant int64) int64 {
	tick := instant / int64(c.tick)
	if instant%int64(c.tick) < 0 {
		tick--
	}
	return tick
}

// instantOf returns when tick passes. Beyond the range of instants it is as late
// as can be, but not never.
func (c *Cache[K, V]) instantOf(tick int64) int64 {
	if tick > math.MaxInt64/int64(c.tick) {
		return expiry.NoDeadline - 1
	}
	return tick * int64(c.tick)
}
