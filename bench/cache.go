package main

import (
	"context"
	"errors"
	"time"
)

// A Cache is what every peer is driven through: the same interface call for all,
// so its cost is in every figure alike.
type Cache[K comparable, V any] interface {
	Get(key K) (V, bool)
	// Set stores value for ttl. A peer that has one TTL for all entries was given
	// it in Config and ignores this one.
	Set(key K, value V, ttl time.Duration)
	Delete(key K)
	// Len returns how many entries are held, expired ones among them, -1 if the
	// peer cannot tell.
	Len() int
	Close()
}

// A Loading is a Cache that loads what is not there, and calls the loader once for all
// who ask for a key at the same time, or tries to. A peer with Traits.Loads returns one
// for a Config with Load.
type Loading[K comparable, V any] interface {
	Cache[K, V]
	// GetOrLoad returns the value of key, the one that Config.Load returns if it is not
	// there. A peer whose loaders get no context ignores it.
	GetOrLoad(ctx context.Context, key K) (V, error)
}

// A Payload is what string keys point to. Values are made before the clock runs.
type Payload struct{ ID uint64 }

// Config is what a workload asks of a cache.
type Config struct {
	// Entries is how many the cache will have to hold at once. Peers that must
	// be bounded get a quarter more. Only if Sized is true may the cache allocate
	// for them in advance.
	Entries int
	Sized   bool

	// Bounded is for a cache that may hold Entries and no more. It is asked only of peers
	// with Traits.Bounds.
	Bounded bool

	// TTL is the lifetime of all entries, for peers that know only one; it is the
	// longest that the workload will give. Tick is how exact expiry is to be, for peers where that
	// can be chosen; zero is what the peer does by default.
	TTL  time.Duration
	Tick time.Duration

	// Sliding restarts an entry's lifetime with every Get.
	Sliding bool

	// Load, if not nil, is where values come from. It is a
	// func(context.Context, K) (V, error). What was loaded lives for TTL.
	Load any

	// RefreshAfter, if not zero, is the age at which an entry is to be loaded anew in the
	// background by the next GetOrLoad, which returns what is there.
	RefreshAfter time.Duration

	// OnExpired, if not nil, is to be called for every entry that expires: not for
	// deleted and overwritten ones. It is a func(K, V).
	OnExpired any
}

// ErrCannot is what a peer returns for a Config that it has no way to fulfil. The
// report shows it as such.
var ErrCannot = errors.New("cannot")

// A Peer is a cache to compare with, or a floor: less than a cache, to show what
// the rest costs.
type Peer struct {
	Name   string // on the command line and in reports
	Module string // import path of its module, "" for what is written here
	Floor  bool
	Traits Traits
	// Note says in one clause what a reader of its figures must know: "one TTL for
	// all entries", "may drop writes", "values are bytes".
	Note string

	// OnlyLoads is true for a peer that another one is too, but for loading: it is asked
	// only what needs that.
	OnlyLoads bool

	Strings func(Config) (Cache[string, *Payload], error)
	Uint64s func(Config) (Cache[uint64, uint64], error)
}

// Traits are what a peer can do.
type Traits struct {
	Expires  bool // it has lifetimes at all
	EachTTL  bool // each entry may have its own
	Reclaims bool // expired entries go without being asked for
	Shared   bool // goroutines may share it
	Deletes  bool
	Counts   bool // Len says how many
	Bounds   bool // it can have a bound of so many entries, and evicts for it
	Loads    bool // it is a Loading for a Config with Load

	// LoadsByGet says that Get of such a cache is GetOrLoad: it has no other.
	LoadsByGet bool
}

// takesPart reports whether the peer is asked by a workload with those needs at all.
func (p *Peer) takesPart(needs Traits) bool { return needs.Loads || !p.OnlyLoads }

// register is called by each peer's file, from init.
func register(p Peer) { peers = append(peers, p) }

var peers []Peer
