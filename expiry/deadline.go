package expiry

import (
	"math"
	"time"
)

// Never is the lifetime of an entry that does not expire.
const Never = time.Duration(math.MaxInt64)

// NoDeadline is the deadline that Never leads to. No clock reaches it.
const NoDeadline int64 = math.MaxInt64

// Deadline returns now+ttl in nanoseconds, saturating: a sum beyond the range
// of int64 (292 years) is NoDeadline, one below it the smallest int64. It never
// wraps around, so a huge ttl can not become a deadline in the past.
func Deadline(now int64, ttl time.Duration) int64 {
	d := now + int64(ttl)
	switch {
	case ttl == Never || ttl > 0 && d < now:
		return NoDeadline
	case ttl < 0 && d > now:
		return math.MinInt64
	}
	return d
}

// Expired reports whether an entry with that deadline is dead at now. It is the
// one definition of expired: the instant of the deadline itself is too late.
func Expired(deadline, now int64) bool {
	return now >= deadline
}

// Remaining returns how long an entry with that deadline has to live at now:
// Never for NoDeadline, zero or less for an expired entry. It saturates.
func Remaining(deadline, now int64) time.Duration {
	if deadline == NoDeadline {
		return Never
	}
	r := deadline - now
	switch {
	case now < 0 && deadline >= 0 && r < 0:
		return Never
	case now >= 0 && deadline < 0 && r >= 0:
		return math.MinInt64
	}
	return time.Duration(r)
}
