package wheelcache

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/wheelcache/wheelcache/expiry"
)

// A clock tells the time in nanoseconds since the cache was made, by the
// monotonic clock: setting the wall clock changes no lifetime.
//
// # The coarse clock
//
// Reading the precise clock takes 25 ns alone, but it waits for all loads before
// it, so that the cache misses of successive reads no longer overlap: a Get of
// one among a million entries would take three times as long. So there is a
// coarse clock, one word that the driver sets every refreshPeriod while the
// cache is in use, and the precise one is read only where the answer could
// depend on it:
//
//	        coarse            coarse+slack = horizon
//	          |    now?            |
//	----------+-----+--------------+------------------> time
//	                   deadline?     deadline: certainly live
//	                   ask precisely
//
// The true time is somewhere between coarse and coarse plus a period and the delay
// of the driver. While these are below slack, an entry with a deadline beyond the
// horizon is live for certain. Where it is not, whoever next reads the precise
// clock and finds that it has passed the horizon puts the coarse clock to sleep.
// What remains is a read that looks at no deadline closer than slack while the
// driver does not run for longer than slack, as when the process is stopped and
// goes on: it may be late by the difference, until the driver's timer, overdue,
// has fired. ExactClock excludes even that.
//
// Asleep, the horizon is later than every deadline, so that all ask precisely.
// That is the state from the start, while the cache is hardly used, after Close,
// and always with an injected clock or ExactClock. Every 256th precise read that
// a coarse one could have replaced wakes the coarse clock; disuse for half a
// second puts it to sleep.
//
// Set counts a lifetime from the coarse clock if it is at least coarseLifetime
// long, when there is a coarse clock; the entry then expires up to one period
// before its time, and if the driver is delayed, by that much more; never after
// it. A sliding read counts likewise.
//
// # Pauses
//
// While time is paused the precise clock answers with one and the same instant, and
// after that it goes on from there: what lies between is taken off all later
// instants. So a pause moves no deadline in the table and costs a read nothing that
// does not ask the precise clock. The coarse clock stands still with it.
type clock struct {
	epoch    time.Time
	injected clockwork.Clock // nil: package time
	exact    bool            // the coarse clock is never woken

	_       [64]byte // the horizon is read by all and written 67 times a second
	horizon atomic.Int64
	_       [56]byte

	precise atomic.Uint32 // reads of the precise clock while asleep, modulo 2^32
	pauses  atomic.Pointer[pauses]
}

// pauses are those so far; nil stands for none.
type pauses struct {
	sum     int64 // of those that are over
	stopped bool  // another one is not

	// frozen is the instant of the one that is not over: the time at which the clock
	// was first read in it. Whatever was read before is no later.
	frozen atomic.Int64
}

// instant returns the time of the cache when so much has passed since the epoch, read
// while p was in force.
func (p *pauses) instant(elapsed int64) int64 {
	switch {
	case p == nil:
		return elapsed
	case !p.stopped:
		return elapsed - p.sum
	case p.frozen.CompareAndSwap(unread, elapsed-p.sum):
		return elapsed - p.sum
	}
	return p.frozen.Load()
}

const (
	refreshPeriod  = 15 * time.Millisecond // 20 are promised: timers are late
	slack          = 500 * time.Millisecond
	coarseLifetime = 2560 * time.Millisecond

	asleep     int64 = math.MaxInt64 - 1 // of the horizon: all but expiry.NoDeadline is before it
	wakeAfter        = 256               // precise reads
	unread     int64 = math.MinInt64     // stands for a time not asked for yet
	usedPeriod       = 500 * time.Millisecond
	usedEnough       = wakeAfter / 2 // operations per usedPeriod that keep the coarse clock awake
)

func (k *clock) init(injected clockwork.Clock, exact bool) {
	k.injected = injected
	k.exact = exact || injected != nil
	if injected != nil {
		k.epoch = injected.Now()
	} else {
		k.epoch = time.Now()
	}
	k.horizon.Store(asleep)
}

// now reads the precise clock.
func (k *clock) now() int64 {
	if k.injected != nil {
		_, now := k.both()
		return now
	}
	return k.real()
}

// real is now where there is no injected clock, as under a lock where the time is
// unread.
func (k *clock) real() int64 {
	for {
		p := k.pauses.Load()
		now := p.instant(int64(time.Since(k.epoch)))
		if k.pauses.Load() == p { // or a pause that is over by now would be taken off twice
			return now
		}
	}
}

// both returns the time of day and the instant, which is never unread, though Sub
// saturates there.
func (k *clock) both() (t time.Time, now int64) {
	for {
		p := k.pauses.Load()
		if k.injected != nil {
			t = k.injected.Now()
		} else {
			t = time.Now()
		}
		now = p.instant(max(int64(t.Sub(k.epoch)), unread+1))
		if k.pauses.Load() == p {
			return t, now
		}
	}
}

// pause stops time.
func (k *clock) pause() {
	for {
		p := k.pauses.Load()
		if p.paused() {
			return
		}
		next := &pauses{stopped: true}
		next.frozen.Store(unread)
		if p != nil {
			next.sum = p.sum
		}
		if k.pauses.CompareAndSwap(p, next) {
			k.now()
			return
		}
	}
}

// resume lets time go on. It reports whether it was paused.
func (k *clock) resume() bool {
	for {
		p := k.pauses.Load()
		if !p.paused() {
			return false
		}
		t, now := k.both()
		if k.pauses.CompareAndSwap(p, &pauses{sum: int64(t.Sub(k.epoch)) - now}) {
			return true
		}
	}
}

func (p *pauses) paused() bool { return p != nil && p.stopped }

// read returns the time for an operation that will take a lock. An injected
// clock is asked now, because it is the user's code; the real one can be asked
// under the lock too, if at all: the answer is unread.
func (k *clock) read() int64 {
	if k.injected != nil {
		return k.now()
	}
	return unread
}

// expired reports whether the deadline has passed. now may be unread.
func (k *clock) expired(deadline, now int64) bool {
	if now == unread {
		if deadline > k.horizon.Load() {
			return false
		}
		now = k.real()
	}
	return expiry.Expired(deadline, now)
}

// coarse returns the coarse clock's time, or false if it is asleep.
func (k *clock) coarse() (now int64, ok bool) {
	h := k.horizon.Load()
	return h - int64(slack), h != asleep
}

// awake reports whether there is a coarse clock at the moment.
func (k *clock) awake() bool {
	_, ok := k.coarse()
	return ok
}

// refresh sets the coarse clock, if it is awake.
func (k *clock) refresh(now int64) {
	if h := k.horizon.Load(); h != asleep {
		k.horizon.CompareAndSwap(h, now+int64(slack))
	}
}

// sleep puts the coarse clock to sleep.
func (k *clock) sleep() {
	k.horizon.Store(asleep)
}

// wantsWaking counts a read of the precise clock that a coarse one might have
// saved, and reports whether there have been enough to wake it. It also notices
// if the coarse clock has been left behind.
func (k *clock) wantsWaking(now int64) bool {
	h := k.horizon.Load()
	if h != asleep {
		if now >= h {
			k.horizon.CompareAndSwap(h, asleep)
		}
		return false
	}
	return !k.exact && k.precise.Add(1)%wakeAfter == 0
}

// wake starts the coarse clock, which the driver must refresh from then on.
func (k *clock) wake(now int64) {
	k.horizon.CompareAndSwap(asleep, now+int64(slack))
}

// time returns the instant as a time.Time, the zero one for no deadline. If time is
// paused, it is what it would be if it went on now: an injected clock is asked.
func (k *clock) time(instant int64) time.Time {
	if instant == expiry.NoDeadline {
		return time.Time{}
	}
	p := k.pauses.Load()
	switch {
	case p == nil:
		return k.epoch.Add(time.Duration(instant))
	case p.paused():
		t, now := k.both()
		return t.Add(expiry.Remaining(instant, now))
	}
	return k.epoch.Add(time.Duration(instant)).Add(time.Duration(p.sum))
}

// instant returns the deadline that t stands for: no deadline for the zero
// Time. A Time without a monotonic reading is taken relative to the wall clock
// as it is set now.
func (k *clock) instant(t time.Time) (deadline, now int64) {
	w, now := k.both()
	if t.IsZero() {
		return expiry.NoDeadline, now
	}
	return expiry.Deadline(now, t.Sub(w)), now
}
