package wheelcache

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Removal tells of an entry that has left the cache.
type Removal[K comparable, V any] struct {
	Key      K
	Value    V
	Cause    Cause
	Deadline time.Time     // zero if the entry had none
	Late     time.Duration // for Expired: the removal minus the deadline, and Options.StaleFor
}

// A Cause says why an entry was removed.
type Cause uint8

const (
	// Expired means that the deadline had passed. That goes before every other cause: an
	// entry that is overwritten, deleted or cleared after its deadline has expired.
	Expired Cause = iota + 1
	// Evicted means that the cache had to stay within a bound.
	Evicted
	// Deleted means that a call removed the entry.
	Deleted
	// Replaced means that another value took its place.
	Replaced
	// Cleared means that Clear removed all entries.
	Cleared

	causes
)

// String returns the name of the cause in lower case.
func (c Cause) String() string {
	switch c {
	case Expired:
		return "expired"
	case Evicted:
		return "evicted"
	case Deleted:
		return "deleted"
	case Replaced:
		return "replaced"
	case Cleared:
		return "cleared"
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

// An event is a Removal before its delivery.
type event[K comparable, V any] struct {
	key      K
	value    V
	cause    Cause
	deadline int64
	late     time.Duration
}

// removals carries events from the shards to OnRemoval.
//
//	shard, under its lock --push--> queue --dispatch, under no lock--> OnRemoval
//
// Events of a key are pushed under the lock of its shard, so their order in the
// queue is the order in which they happened. One goroutine, the dispatcher,
// delivers them one after the other. It exists only while there are events: the
// push that finds none running starts it, an empty queue ends it.
//
// # Bound
//
// There may be maxPending events. push does not wait, since it is called
// under a lock; instead every operation that can remove something waits for room
// before it takes the lock. So the bound is exceeded by what is in flight, no
// more. Reads never wait, and expiry does not either: it stops and is resumed,
// leaving expired entries in place for that time. An operation called from
// OnRemoval itself cannot wait for OnRemoval and goes ahead. (One called from
// another goroutine that OnRemoval waits for would, if the queue is full: that
// is a deadlock of the caller's making.)
type removals[K comparable, V any] struct {
	call   func(Removal[K, V])
	clock  *clock
	logger *slog.Logger
	resume func() // expiry goes on

	pushed  atomic.Uint64 // events
	done    atomic.Uint64 // events delivered
	running atomic.Bool   // a dispatcher exists; set to false under mu only
	stalled atomic.Bool   // expiry waits for room
	waiting atomic.Int32  // goroutines in await
	panics  atomic.Uint64 // recovered
	id      atomic.Uint64 // of the dispatcher's goroutine

	mu     sync.Mutex
	news   sync.Cond // something was delivered, or the dispatcher ended
	queue  []event[K, V]
	closed bool // no goroutine may be started any more

	// The dispatcher's own: the events it has taken from the queue, and how far
	// it has come. They are here and not in its frame, so that another one can
	// go on if a callback ends the goroutine.
	batch []event[K, V]
	next  int
}

const (
	maxPending     = 4096
	maxKeptPending = 64 // events that an idle queue has memory for
)

func newRemovals[K comparable, V any](call func(Removal[K, V]), k *clock, logger *slog.Logger, resume func()) *removals[K, V] {
	r := &removals[K, V]{call: call, clock: k, logger: logger, resume: resume}
	r.news.L = &r.mu
	return r
}

// push adds an event. The caller holds a shard's lock, and calls start when it
// has released it.
func (r *removals[K, V]) push(e event[K, V]) {
	r.mu.Lock()
	r.pushed.Add(1)
	r.queue = append(r.queue, e)
	r.mu.Unlock()
}

// start sees to it that what was pushed is delivered.
func (r *removals[K, V]) start() {
	if r == nil || r.running.Load() || r.pending() == 0 {
		return
	}
	r.mu.Lock()
	first := len(r.queue) > 0 && r.running.CompareAndSwap(false, true)
	closed := r.closed
	r.mu.Unlock()
	switch {
	case !first:
	case closed:
		r.dispatch()
	default:
		go r.dispatch()
	}
}

// dispatch delivers events until there are none.
func (r *removals[K, V]) dispatch() {
	r.id.Store(goroutineID())
	ended := false
	defer func() {
		if !ended { // the callback called runtime.Goexit
			go r.dispatch()
		}
	}()
	for r.take() {
		for r.next < len(r.batch) {
			e := r.batch[r.next]
			r.batch[r.next] = event[K, V]{}
			r.next++
			r.deliver(e)
		}
	}
	ended = true
}

// take moves the queue to the batch. If it is empty, the dispatcher has ended.
func (r *removals[K, V]) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next < len(r.batch) {
		return true
	}
	r.batch, r.queue, r.next = r.queue, r.batch[:0], 0
	if len(r.batch) > 0 {
		return true
	}
	if cap(r.batch) > maxKeptPending {
		r.batch = nil
	}
	if cap(r.queue) > maxKeptPending {
		r.queue = nil
	}
	r.id.Store(0)
	r.running.Store(false)
	r.news.Broadcast()
	return false
}

func (r *removals[K, V]) deliver(e event[K, V]) {
	defer r.delivered()
	defer func() {
		if p := recover(); p != nil {
			r.panics.Add(1)
			defer func() { _ = recover() }() // of the logger's handler
			r.logger.Error("wheelcache: panic in OnRemoval", "panic", p, "key", e.key, "cause", e.cause, "stack", string(debug.Stack()))
		}
	}()
	r.call(Removal[K, V]{e.key, e.value, e.cause, r.clock.time(e.deadline), e.late})
}

// delivered lets go on whoever waits for that.
func (r *removals[K, V]) delivered() {
	r.done.Add(1)
	if r.waiting.Load() > 0 {
		r.mu.Lock()
		r.news.Broadcast()
		r.mu.Unlock()
	}
	if r.stalled.Load() && r.pending() <= maxPending/2 && r.stalled.CompareAndSwap(true, false) {
		r.resume()
	}
}

// pending returns how many events have not been delivered.
func (r *removals[K, V]) pending() int {
	done := r.done.Load() // first, so that the difference is not negative
	return int(r.pushed.Load() - done)
}

// awaitRoom waits until the queue has room. The caller holds no lock.
func (r *removals[K, V]) awaitRoom() {
	if r != nil {
		r.waitForRoom()
	}
}

func (r *removals[K, V]) waitForRoom() {
	if r.pending() >= maxPending {
		r.await(func() bool { return r.pending() < maxPending })
	}
}

// hasRoom is for expiry, which does not wait: if there is no room, resume will
// be called when there is.
func (r *removals[K, V]) hasRoom() bool {
	if r == nil || r.pending() < maxPending {
		return true
	}
	r.stalled.Store(true)
	// The dispatcher may have made room before it could see that.
	return r.pending() <= maxPending/2 && r.stalled.CompareAndSwap(true, false)
}

// full reports whether there is no room.
func (r *removals[K, V]) full() bool { return r != nil && r.pending() >= maxPending }

// drain waits until all events are delivered that were pushed before the call.
// From OnRemoval it returns at once.
func (r *removals[K, V]) drain() {
	if r == nil {
		return
	}
	r.start()
	last := r.pushed.Load()
	if r.done.Load() < last {
		r.await(func() bool { return r.done.Load() >= last })
	}
}

// close makes later events be delivered by the goroutine that causes them, and
// waits for the dispatcher to end, except on its own goroutine.
func (r *removals[K, V]) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.start()
	if r.running.Load() {
		r.await(func() bool { return !r.running.Load() })
	}
}

// await waits until done, which only the dispatcher can bring about; so on the
// dispatcher's own goroutine it does not.
func (r *removals[K, V]) await(done func() bool) {
	if r.id.Load() == goroutineID() {
		return
	}
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	for !done() {
		r.news.Wait()
	}
}

// goroutineID returns the number of the calling goroutine, as it stands at the
// head of its stack trace. That takes about a microsecond; it is asked for only
// where a goroutine is about to wait, or has just been started.
func goroutineID() uint64 {
	var buf [64]byte
	head := buf[:runtime.Stack(buf[:], false)]
	digits, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return id
}
