package main

import (
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

// A Payload is what string keys point to. Values are made before the clock runs.
type Payload struct{ ID uint64 }

// Config is what a workload asks of a cache.
type Config struct {
	// Entries is how many the cache will have to hold at once. Peers that must
	// be bounded get a quarter more. Only if Sized is true may the cache allocate
	// for them in advance.
	Entries int
	Sized   bool

	// TTL is the lifetime of all entries, for peers that know only one; it is the
	// longest that the workload will give. Tick is how exact expiry is to be, for peers where that
	// can be chosen; zero is what the peer does by default.
	TTL  time.Duration
	Tick time.Duration

	// Sliding restarts an entry's lifetime with every Get.
	Sliding bool

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
}

// register is called by each peer's file, from init.
func register(p Peer) { peers = append(peers, p) }

var peers []Peer
