package wheelcache

import (
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"runtime"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/wheelcache/wheelcache/expiry"
	"github.com/wheelcache/wheelcache/wheel"
)

// Options configure a cache. The zero value is a cache whose entries do not
// expire unless SetTTL or SetDeadline says so.
type Options[K comparable, V any] struct {
	// TTL is the lifetime that Set gives. 0 means that entries do not expire;
	// less is an error.
	TTL time.Duration

	// Expiry gives lifetimes by key, value and event instead of TTL; setting
	// both is an error. See package expiry.
	Expiry expiry.Policy[K, V]

	// OnRemoval is told of every entry that leaves the cache, once: after it has
	// left, in order for each key, from one goroutine, and never under a lock, so
	// it may use the cache. A panic in it is recovered, logged and counted. When
	// it is slower than the removals for so long that some thousands wait, then
	// the calls that cause removals wait for it. Nil costs nothing.
	OnRemoval func(Removal[K, V])

	// Tick is the resolution of reclaiming: expired entries are removed, and
	// OnRemoval called, up to one tick after their deadline. It does not limit
	// how exact reads are. 0 means 10 ms; less than 1 µs is an error.
	Tick time.Duration

	// Slots is the number of slots of each timing wheel, rounded up to a power
	// of two. 0 lets wheels grow and shrink with their entries; more than
	// 1,048,576 (wheel.MaxSlots) is an error.
	Slots int

	// Shards is the number of locks among which writers spread, rounded up to a
	// power of two. 0 means 4 per GOMAXPROCS, 16 per GOMAXPROCS from 16 on, and
	// at least 16; more than 65,536 is an error.
	Shards int

	// Capacity is the expected number of entries. Memory for them is allocated
	// at once, which makes filling faster; it is no bound. 0 means that nothing
	// is known.
	Capacity int

	// Clock, if not nil, is asked for the time on every call, and its timers
	// drive expiry: tests inject a fake one. Nil means real time, read through
	// package time.
	Clock clockwork.Clock

	// ExactClock makes every call that looks at a deadline read the precise
	// clock. Without it, most read a coarse clock that may be up to 20 ms behind;
	// reads are exact either way, see the package documentation.
	ExactClock bool

	// Hash replaces the seeded hash of keys. It must be a pure function, equal
	// for equal keys; a bad one costs speed, not answers. Nil means maphash with
	// a seed of the cache's own.
	Hash func(K) uint64

	// Logger is told of panics in OnRemoval. Nil means slog.Default().
	Logger *slog.Logger
}

const (
	defaultTick = 10 * time.Millisecond
	minTick     = time.Microsecond
	maxShards   = 1 << 16
	maxCapacity = math.MaxInt32
)

// validate returns o with its defaults in place, or what is wrong with it.
func (o Options[K, V]) validate() (Options[K, V], error) {
	switch {
	case o.TTL < 0:
		return o, fmt.Errorf("wheelcache: Options.TTL is %v; it must be 0 (entries do not expire) or more", o.TTL)
	case o.TTL > 0 && o.Expiry != nil:
		return o, fmt.Errorf("wheelcache: Options.TTL (%v) and Options.Expiry are both set; only one may be", o.TTL)
	case o.Tick < 0 || o.Tick > 0 && o.Tick < minTick:
		return o, fmt.Errorf("wheelcache: Options.Tick is %v; it must be 0 (%v) or at least %v", o.Tick, defaultTick, minTick)
	case o.Slots < 0 || o.Slots > wheel.MaxSlots:
		return o, fmt.Errorf("wheelcache: Options.Slots is %d; it must be 0 (as needed) to %d", o.Slots, wheel.MaxSlots)
	case o.Shards < 0 || o.Shards > maxShards:
		return o, fmt.Errorf("wheelcache: Options.Shards is %d; it must be 0 (by GOMAXPROCS) to %d", o.Shards, maxShards)
	case o.Capacity < 0 || o.Capacity > maxCapacity:
		return o, fmt.Errorf("wheelcache: Options.Capacity is %d; it must be 0 (unknown) to %d", o.Capacity, maxCapacity)
	}
	if o.Expiry != nil {
		if err := expiry.Validate(o.Expiry); err != nil {
			return o, fmt.Errorf("wheelcache: Options.Expiry: %w", err)
		}
	}
	if o.TTL == 0 {
		o.TTL = expiry.Never
	}
	if o.Tick == 0 {
		o.Tick = defaultTick
	}
	if o.Shards == 0 {
		o.Shards = defaultShards(runtime.GOMAXPROCS(0))
	}
	o.Shards = powerOfTwo(o.Shards)
	if o.Slots > 0 {
		o.Slots = powerOfTwo(o.Slots)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

func defaultShards(procs int) int {
	n := 4 * procs
	if procs >= 16 {
		n = 16 * procs
	}
	return min(max(n, 16), 1024)
}

// powerOfTwo returns the least power of two that is n or more.
func powerOfTwo(n int) int {
	return 1 << bits.Len(uint(n-1))
}
