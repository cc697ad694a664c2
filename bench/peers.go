package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// What the adapters share. An adapter turns a peer's own calls into a Cache and does
// nothing else in Get and Set: a peer whose calls need more pays for more, and its Note says so.

// unable returns the error of a peer that has no way to fulfil a Config.
func unable(why string) error { return fmt.Errorf("%w: %s", ErrCannot, why) }

const (
	noSliding = "no sliding expiry"
	noReports = "does not tell what expired"
	noLoading = "does not load"
	noRefresh = "does not refresh ahead"
)

// plain returns why a peer with neither sliding expiry nor callbacks cannot fulfil cfg, nil if it can.
func (cfg Config) plain() error {
	switch {
	case cfg.Sliding:
		return unable(noSliding)
	case cfg.OnExpired != nil:
		return unable(noReports)
	}
	return nil
}

// onExpired returns what cfg wants to be called for expired entries, nil if nothing.
func onExpired[K comparable, V any](cfg Config) func(K, V) {
	if cfg.OnExpired == nil {
		return nil
	}
	return cfg.OnExpired.(func(K, V))
}

// loaderOf returns what cfg wants to be called for what is not there, nil if nothing.
func loaderOf[K comparable, V any](cfg Config) func(context.Context, K) (V, error) {
	if cfg.Load == nil {
		return nil
	}
	return cfg.Load.(func(context.Context, K) (V, error))
}

// errNoValue is what GetOrLoad returns where the peer does not hand on the loader's error.
var errNoValue = errors.New("the loader returned no value")

// refreshless returns why a peer that loads, but nothing ahead, cannot fulfil cfg, nil if it can.
func (cfg Config) refreshless() error {
	if cfg.RefreshAfter > 0 {
		return unable(noRefresh)
	}
	return nil
}

// room returns the bound for caches that must have one: what is asked for, or else a quarter
// more than they will hold.
func (cfg Config) room() int {
	if cfg.Bounded {
		return cfg.Entries
	}
	return max(cfg.Entries+cfg.Entries/4, 1)
}

// bound returns the bound for caches that need not have one, 0 for none.
func (cfg Config) bound() int {
	if cfg.Bounded {
		return cfg.Entries
	}
	return 0
}

// roomIn is room for caches that bound each of their parts: where parts are small, a
// quarter is less than the hash spreads their loads, so six standard deviations are left.
func (cfg Config) roomIn(parts int) int {
	load := float64(cfg.Entries) / float64(parts)
	return parts * int(math.Ceil(load+max(load/4, 6*math.Sqrt(load))))
}

// ifSized returns how many entries may be allocated for in advance.
func (cfg Config) ifSized() int {
	if cfg.Sized {
		return cfg.Entries
	}
	return 0
}

// wholeSeconds rounds up: rounded down, half a second would be 0, which is forever or nothing.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// A timed value is what the floors store that have deadlines, in nanoseconds of
// a clock of their own.
type timed[V any] struct {
	value    V
	deadline int64
}
