package wheelcache

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// Refreshing ahead: GetOrLoad returns what is there and has it loaded anew in the
// background before it expires, so that nobody has to wait for that.
//
//	stored              refresh after              deadline
//	  |---------------------|..........|--------------|
//	                         spread       any hit does
//
// An entry does not know when it was stored, only its deadline. So it is due for a
// refresh in the last part of its life, of the length of the lifetime that it is
// given when stored less RefreshAfter, or by RefreshFraction. Entries that were stored
// at one moment become due one after the other, in the first quarter of that part: by
// their hash and deadline, so that each has its own moment and keeps it.
//
// EarlyRefresh is the other way to spread: each hit draws, and the odds grow as the
// deadline comes near. The entry is refreshed if
//
//	load time * EarlyRefresh * -ln(random number from 0 to 1) >= remaining life
//
// which is A. Vattani, F. Chierichetti and K. Lowenstein, Optimal Probabilistic Cache
// Stampede Prevention, PVLDB 8(8), 2015, but for two things: the load time is not the
// entry's own, which it would have to carry, but the mean of the recent ones of the
// cache; and the load goes on in the background.
//
// A refresh is a flight that nobody has to wait for: there is one per key, what is
// stored meanwhile supersedes it, who finds the entry expired before it lands waits
// for it. One that fails changes nothing, and keeps others of the key from being begun
// for ErrorTTL or a second.

// loading is what a cache knows of loading besides what its shards do.
type loading struct {
	timeout                time.Duration // expiry.Never for none
	negativeTTL, errorTTL  time.Duration
	refreshAfter           time.Duration
	refreshFraction, early float64
	last                   time.Duration // lastPart of Options.TTL
	refreshes              bool          // GetOrLoad looks whether an entry is due for a refresh
	within                 int64         // of its deadline, in nanoseconds: not before

	// life ends when the cache is closed. It is made when it is first asked for, as
	// most caches load nothing.
	once sync.Once
	life context.Context
	end  context.CancelCauseFunc

	free atomic.Int64 // refreshes that may be begun now
	took atomic.Int64 // mean time of recent loads, in nanoseconds
}

const (
	recentLoads = 8  // the weight of the mean; of the last one an eighth
	mostDrawn   = 40 // more than -ln of any random number
)

func (l *loading) init(ttl, timeout, negativeTTL, errorTTL, after time.Duration, fraction, early float64, most int) {
	l.timeout, l.negativeTTL, l.errorTTL = timeout, negativeTTL, errorTTL
	l.refreshAfter, l.refreshFraction, l.early = after, fraction, early
	l.last = l.lastPart(ttl)
	l.refreshes = after > 0 || fraction > 0 || early > 0
	const always = math.MaxInt64 / 2 // 146 years, so that differences do not wrap around
	if l.within = min(int64(l.last), always); ttl == expiry.Never || early > 0 {
		l.within = always // by a policy or by chance it may be at any time
	}
	l.free.Store(int64(most))
}

// alive returns the context that ends when the cache is closed.
func (l *loading) alive() context.Context {
	l.once.Do(func() { l.life, l.end = context.WithCancelCause(context.Background()) })
	return l.life
}

// close ends all flights.
func (l *loading) close() {
	l.alive()
	l.end(ErrClosed)
}

// noteTime takes the time of a load into the mean.
func (l *loading) noteTime(began, ended int64) {
	for l.early > 0 {
		mean := l.took.Load()
		next := max(ended-began, 0)
		if mean > 0 {
			next = mean + (next-mean)/recentLoads
		}
		if l.took.CompareAndSwap(mean, next) {
			return
		}
	}
}

// dueForRefresh decides for one hit.
func (c *Cache[K, V]) dueForRefresh(key K, value V, deadline int64) bool {
	if deadline == expiry.NoDeadline {
		return false
	}
	now, ok := c.clock.coarse()
	if !ok {
		now = c.clock.now()
		c.askedPrecisely(now)
	}
	remaining := expiry.Remaining(deadline, now)
	l := &c.loading
	if l.early > 0 {
		by := float64(l.took.Load()) * l.early
		if float64(remaining) <= by*mostDrawn && float64(remaining) <= by*rand.ExpFloat64() {
			return true
		}
	}
	if l.refreshAfter == 0 && l.refreshFraction == 0 {
		return false
	}
	last := l.last
	if c.policy != nil {
		last = l.lastPart(c.policy.Create(key, value))
	}
	if remaining > last {
		return false
	}
	_, hash := c.at(key)
	return remaining <= last-c.spread(hash, deadline, last/4)
}

// lastPart returns how long before its end an entry with that lifetime is due for a
// refresh.
func (l *loading) lastPart(ttl time.Duration) time.Duration {
	if l.refreshAfter > 0 {
		return max(ttl-l.refreshAfter, 0)
	}
	return ttl - time.Duration(float64(ttl)*l.refreshFraction)
}

// spread returns a duration from 0 to most that is the entry's own.
func (c *Cache[K, V]) spread(hash uint32, deadline int64, most time.Duration) time.Duration {
	h := mix(uint64(deadline)^uint64(hash)<<32, c.hash.secret[0], c.hash.secret[1])
	return time.Duration(float64(most) * (float64(h>>11) / (1 << 53)))
}

// refresh begins a flight that nobody waits for, unless there is one, one has just
// failed, or too many are under way; then another hit will try. One that comes with a
// read is not to wait for the lock.
func (c *Cache[K, V]) refresh(ctx context.Context, r route[K, V], load Loader[K, V], wait bool) (begun bool) {
	if c.removals.full() {
		return false
	}
	f := r.s.attendRefresh(r.key, c.clock.read(), wait)
	if f == nil {
		return false
	}
	defer func() {
		if !begun {
			c.loading.free.Add(1)
		}
	}()
	ctx = c.begin(ctx, f.call)
	go func() {
		defer c.loading.free.Add(1)
		c.fly(ctx, r, f, load)
	}()
	return true
}

// attendRefresh is attend for a refresh, which takes one from those that are free. It
// returns nil if there is to be none; then it has allocated nothing.
func (s *shard[K, V]) attendRefresh(key K, now int64, wait bool) *flight[V] {
	if wait {
		s.lock()
	} else if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	l := s.withLoads()
	if f := l.of(key); s.cache.closed.Load() || f != nil && !f.call.abandoned() {
		return nil
	}
	if failed, ok := l.failures.last(key); ok && !s.cache.clock.expired(failed.until, now) {
		return nil
	}
	if free := &s.cache.loading.free; free.Add(-1) < 0 {
		free.Add(1)
		return nil
	}
	of := newCall()
	of.refresh = true
	l.stats.Refreshes++
	return l.begin(key, of)
}

// Refresh has the value of key loaded anew in the background, whether it is there or
// not and however long it has to live; until that has come, all goes on with what is
// there. It reports whether a load was begun: none is if the key is being loaded
// already, if a load has just failed, if Options.MaxRefreshes are under way, if too many
// removals are pending or if the cache is closed. The load has the values of ctx, but
// does not end with it. The error is that of a nil load or ctx.
func (c *Cache[K, V]) Refresh(ctx context.Context, key K, load Loader[K, V]) (begun bool, err error) {
	if load == nil || ctx == nil {
		return false, badLoad(load == nil)
	}
	return c.refresh(ctx, c.routeTo(key), load, true), nil
}
