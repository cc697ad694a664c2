package wheelcache

import (
	"errors"
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
	// OnRemoval called, up to one tick after their deadline. (Without OnRemoval, and
	// while the cache is hardly used, they may stay for up to a second.) It does not
	// limit how exact reads are. 0 means 10 ms; less than 1 µs is an error.
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
	// at once, which makes filling faster. It is no bound. 0 means that nothing
	// is known.
	Capacity int

	// MaxEntries bounds the number of entries: when it is reached, others are evicted
	// for each that comes, those first that have expired, then those that are read
	// least. 0 means no bound; less is an error. At most one of MaxEntries, MaxCost and
	// MaxMemory may be set. A small bound lowers the number of shards, so that each has
	// at least 64 entries.
	MaxEntries int

	// MaxCost bounds the sum of what Cost answers for the entries. 0 means no bound;
	// less is an error, and so is to set it without Cost.
	MaxCost int64

	// MaxMemory bounds the memory of the entries, in bytes: what the cache itself needs
	// for each, which it knows to about a quarter, and what Cost answers for it, which
	// should be the size of what key and value refer to, such as the bytes of strings. Without
	// Cost, keys and values are taken to refer to nothing. 0 means no bound; less is an
	// error.
	MaxMemory int64

	// Cost answers what an entry costs, in units of the user's. It is asked when a
	// value is stored, before the lock is taken (but see Compute). An entry that costs 0 is
	// pinned with MaxCost: it is never evicted. One that costs less, or more than the whole
	// bound, is refused: it is not stored, what was there before is gone, OnRemoval is
	// told of both, and Stats counts it. A panic in it goes to the caller, and
	// nothing is changed. It must be set with MaxCost, and may be with MaxMemory.
	Cost func(key K, value V) int64

	// The rest of what GetOrLoad, LoadAll and Refresh do.

	// LoadTimeout is for how long a loader may run before its context is cancelled. 0 means
	// one minute, expiry.Never no timeout; less than 0 is an error.
	LoadTimeout time.Duration

	// NegativeTTL is for how long it is remembered that a loader has answered
	// ErrNotFound: callers get that answer without another load, until the key is
	// stored or removed. 0 means not at all; less is an error. No bound counts what is so
	// remembered: where others choose the keys, that long ought to be short.
	NegativeTTL time.Duration

	// ErrorTTL is NegativeTTL for all other errors of loaders.
	ErrorTTL time.Duration

	// RefreshAfter is the age at which an entry is due to be loaded anew: the next
	// GetOrLoad that finds it returns what is there, and lets the load go on in the
	// background. Entries that were stored at one moment become due at times spread
	// over a quarter of what is left of their lives. The age is what has passed of the
	// lifetime that TTL or Expiry gives; an entry that SetTTL or Move gave less than the
	// last part of that is due at once. 0 means that nothing is loaded before it has
	// expired. It must be less than TTL; with a policy, an entry that it gives no longer
	// lifetime is not refreshed. The policy is asked again at each hit, so with one that
	// draws, as expiry.Jitter does, entries become due earlier by what it may take off. A
	// policy whose Read moves deadlines is an error, see expiry.Traits.
	RefreshAfter time.Duration

	// RefreshFraction is RefreshAfter as a share of the lifetime, more than 0 and
	// less than 1. To set both is an error.
	RefreshFraction float64

	// EarlyRefresh makes GetOrLoad refresh an entry in the background with odds that
	// grow as its deadline comes near, over a time in proportion to what loads have
	// taken lately (known as XFetch). 1 is the value to begin with; more refreshes
	// earlier; 0 means not to. Less is an error.
	EarlyRefresh float64

	// MaxRefreshes is how many refreshes may be under way at once; a hit that would
	// begin another does not. 0 means 64, less is an error.
	MaxRefreshes int

	// StaleFor is for how long after its deadline GetOrLoad may return a value if the
	// loader fails, other than by ErrNotFound. For that long expired entries stay:
	// everybody else takes them for absent, Entry marks them, Len counts
	// them, and they are removed, and OnRemoval told, when that time has passed
	// too. It comes on top of an expiry.Limit. 0 means not at all; less is an error.
	StaleFor time.Duration

	// Clock, if not nil, is asked for the time on every call, and its timers
	// drive expiry: tests inject a fake one. A call asks it as it begins, and never
	// under a lock; one that is under way while the clock is advanced goes by the
	// time before. Nil means real time, read through package time.
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

	defaultLoadTimeout  = time.Minute
	defaultMaxRefreshes = 64
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
	if err := o.validateBound(); err != nil {
		return o, err
	}
	if err := o.validateLoading(); err != nil {
		return o, err
	}
	if o.TTL == 0 {
		o.TTL = expiry.Never
	}
	if o.LoadTimeout == 0 {
		o.LoadTimeout = defaultLoadTimeout
	}
	if o.MaxRefreshes == 0 {
		o.MaxRefreshes = defaultMaxRefreshes
	}
	if o.Tick == 0 {
		o.Tick = defaultTick
	}
	if o.Shards == 0 {
		o.Shards = defaultShards(runtime.GOMAXPROCS(0))
	}
	o.Shards = powerOfTwo(o.Shards)
	entries := int64(o.MaxEntries)
	if o.MaxMemory > 0 {
		entries = max(o.MaxMemory/entryMemory[K, V](filledTenths), 1)
	}
	for entries > 0 && o.Shards > 1 && entries/int64(o.Shards) < leastPerShard {
		o.Shards /= 2
	}
	if o.Slots > 0 {
		o.Slots = powerOfTwo(o.Slots)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// validateBound returns what is wrong with the options of the bound.
func (o Options[K, V]) validateBound() error {
	set := 0
	for _, b := range []struct {
		name string
		most int64
	}{{"MaxEntries", int64(o.MaxEntries)}, {"MaxCost", o.MaxCost}, {"MaxMemory", o.MaxMemory}} {
		if b.most < 0 || b.most > mostBound {
			return fmt.Errorf("wheelcache: Options.%s is %d; it must be 0 (no bound) to %d", b.name, b.most, int64(mostBound))
		}
		if b.most > 0 {
			set++
		}
	}
	switch {
	case set > 1:
		return fmt.Errorf("wheelcache: of Options.MaxEntries (%d), MaxCost (%d) and MaxMemory (%d) only one may be set", o.MaxEntries, o.MaxCost, o.MaxMemory)
	case o.MaxCost > 0 && o.Cost == nil:
		return fmt.Errorf("wheelcache: Options.MaxCost is %d and Options.Cost is nil; it must say what entries cost, or Options.MaxEntries be set instead", o.MaxCost)
	case o.Cost != nil && o.MaxCost == 0 && o.MaxMemory == 0:
		return errors.New("wheelcache: Options.Cost is set without a bound; Options.MaxCost or MaxMemory must be set")
	}
	return nil
}

// validateLoading returns what is wrong with the options of loading.
func (o Options[K, V]) validateLoading() error {
	for _, d := range []struct {
		name string
		d    time.Duration
		zero string
	}{
		{"LoadTimeout", o.LoadTimeout, defaultLoadTimeout.String()},
		{"NegativeTTL", o.NegativeTTL, "not remembered"},
		{"ErrorTTL", o.ErrorTTL, "not remembered"},
		{"RefreshAfter", o.RefreshAfter, "no refreshes"},
		{"StaleFor", o.StaleFor, "nothing stale"},
	} {
		if d.d < 0 {
			return fmt.Errorf("wheelcache: Options.%s is %v; it must be 0 (%s) or more", d.name, d.d, d.zero)
		}
	}
	switch {
	case !(o.RefreshFraction >= 0 && o.RefreshFraction < 1): // nor NaN
		return fmt.Errorf("wheelcache: Options.RefreshFraction is %v; it must be 0 (no refreshes) or more, and less than 1", o.RefreshFraction)
	case !(o.EarlyRefresh >= 0) || math.IsInf(o.EarlyRefresh, 1):
		return fmt.Errorf("wheelcache: Options.EarlyRefresh is %v; it must be 0 (no refreshes) or more, and finite", o.EarlyRefresh)
	case o.MaxRefreshes < 0:
		return fmt.Errorf("wheelcache: Options.MaxRefreshes is %d; it must be 0 (%d) or more", o.MaxRefreshes, defaultMaxRefreshes)
	case o.RefreshAfter == 0 && o.RefreshFraction == 0:
		return nil
	case o.RefreshAfter > 0 && o.RefreshFraction > 0:
		return fmt.Errorf("wheelcache: Options.RefreshAfter (%v) and Options.RefreshFraction (%v) are both set; only one may be", o.RefreshAfter, o.RefreshFraction)
	case o.Expiry != nil && !expiry.TraitsOf(o.Expiry).ReadKeeps:
		return errors.New("wheelcache: Options.RefreshAfter or RefreshFraction is set, and reads move the deadlines of Options.Expiry; it must be a policy with Traits.ReadKeeps")
	case o.Expiry == nil && o.TTL == 0:
		return errors.New("wheelcache: Options.RefreshAfter or RefreshFraction is set, and entries do not expire; Options.TTL or Options.Expiry must be set")
	case o.Expiry == nil && o.RefreshAfter >= o.TTL:
		return fmt.Errorf("wheelcache: Options.RefreshAfter is %v; it must be less than Options.TTL (%v)", o.RefreshAfter, o.TTL)
	}
	return nil
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
