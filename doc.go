// Package wheelcache is an in-process TTL cache: a map whose entries expire on
// time.
//
//	c, err := wheelcache.New(wheelcache.Options[string, User]{TTL: 10 * time.Minute})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//
//	c.Set("ann", ann)                        // for ten minutes
//	c.SetTTL("guest", guest, 30*time.Second) // a lifetime of its own
//	user, ok := c.Get("ann")                 // never an expired one
//
// Expired entries are reclaimed by timing wheels, at a cost that depends on how
// many expire and not on how many there are. Nothing is scanned.
//
// # What it promises
//
// An entry is expired if and only if now >= deadline, for every method. No read
// returns an expired entry, and expiry removes none before its deadline: when a
// read happens, not when a wheel turns, decides the truth. Times are counted by
// the monotonic clock, in nanoseconds, and saturate.
//
// An expired entry is removed, and OnRemoval told, within one Tick of its
// deadline plus the time that the scheduler takes to wake a timer; Stats has a
// histogram of how late it was. Where there is no OnRemoval to tell and the cache is
// hardly used, they may stay for up to a second, so that a process that has nothing
// else to do is not woken a hundred times in it.
//
// A stored value is there when Set returns, and is never dropped. Every stored
// value is reported removed exactly once, in order for each key, under no lock.
//
// A value that was loaded before its key was stored or removed is not stored after that.
//
// Reads take no lock (but for one that writers disturb again and again), allocate
// nothing and, while the cache is in use, read no clock unless the deadline is less
// than half a second away or a policy slides it by less than 2.56 s. They are linearizable with all other operations
// on the same key, those during growth included.
//
// Two bounds are soft, and Options.ExactClock removes both. A lifetime of 2.56 s
// or more may be counted from a clock that is up to 20 ms behind, so the entry may
// expire that much early. And the process may not get to run its timers for a while, as when it is stopped
// and continued. Until it does, that clock stands still: what is stored then
// expires early by the delay, and after more than half a second a read may return
// an entry that has expired in the meantime.
//
// While a machine is suspended its monotonic clock stands still, and so do
// lifetimes. Setting the wall clock changes none. An injected clock is taken at its
// word: while it stands still nothing expires, and if it goes back, what has not
// been removed is live again until its deadline.
//
// # Terms
//
//   - TTL, lifetime: a duration. Deadline: an instant. Policy: what gives lifetimes.
//   - Sliding: a read moves the deadline.
//   - Entry: a key, its value and its deadline.
//   - Expiration: removal because the deadline has passed. Eviction: removal to
//     stay within a bound. Removal: either of them, or by a call. Cause: which.
//   - Flight: one load of one key, for all who wait for it. Call: one run of a loader.
//     Refresh: a flight that nobody has to wait for. Invalidation: a change or removal
//     of a key's value by a call. Stale: expired, and kept to be served if loading fails.
//   - Tick: the unit of the wheels' time. Slot, round, cursor: see package wheel.
//   - Shard: one lock's worth of the cache. Segment, bucket, slot of a bucket: see
//     table.go. Record: what a wheel holds of an entry. Orphan: a record whose
//     entry has gone.
//   - Driver: what wakes up to expire entries. Dispatcher: what calls OnRemoval.
//   - Coarse clock, horizon: see clock.go.
//
// # Map of the code
//
// Data flows one way, and the files are best read in that order:
//
//	Set -> hash -> shard -> table -> wheel
//	tick -> wheel -> shard -> removal -> callback
//
//	cache.go     the methods: each hashes, picks a shard, delegates
//	options.go   what New can be told, and what it refuses
//	hash.go      from a key to 64 bits, and which bits mean what
//	shard.go     lock, table, wheel: the only file that sees them together
//	table.go     where entries are: segments, buckets, growth
//	words.go     how they lie in memory and are read without a lock; all unsafe
//	prefetch.go  asking the processor for memory early; assembly beside it
//	wheel/       when a record comes up
//	clock.go     what time it is, precisely or nearly
//	driver.go    waking up in time
//	removal.go   telling OnRemoval
//	lifetime.go  asking policies; sliding
//	limit.go     how long sliding may go on
//	compute.go   changes that depend on what is there
//	iterate.go   going through all entries
//	load.go      GetOrLoad and LoadAll: what a caller finds who has missed
//	flight.go    one load of a key, and how it lands
//	failure.go   what is remembered of loads that failed; stale values
//	refresh.go   loading before an entry expires
//	bound.go     how much there may be, and how shards share that
//	order.go     which entry goes for another; fifo.go, history.go
//	stats.go     counting
//	expiry/      when an entry dies: durations and deadlines
//
// # Limits
//
// Values of more than 32 bytes, and keys of more, are stored as a pointer to a
// copy, one allocation per Set. Keys that are not equal to themselves, such as
// NaN, can be stored but not found; they expire.
package wheelcache
