package main

import (
	"cmp"
	"slices"
	"time"
)

// A Cache is a bounded cache as its user sees it. It is used by one goroutine.
type Cache interface {
	// Get looks up a key. What it returns may have expired, if the cache does not look.
	Get(key uint64) (Value, bool)
	// Set stores what Get missed.
	Set(key uint64, v Value)
	// Len returns the number of entries.
	Len() int
	// Close ends all goroutines of the cache.
	Close()
}

// A Value says until when it is good.
type Value struct {
	TTL      time.Duration // 0 if it lives forever
	Deadline time.Duration // since the start of the trace
}

// liveAt reports whether the value has not expired.
func (v Value) liveAt(now time.Duration) bool { return v.TTL == 0 || now < v.Deadline }

// A Config says what cache is wanted.
type Config struct {
	Size    int  // in entries
	Expires bool // whether values have a TTL
}

// A Peer is what hit ratios are compared of.
type Peer struct {
	Name string
	Note string
	New  func(Config) (Cache, error)
	// Unwaited is set for a cache that works in the background, to have it in the
	// table without waiting for that work, too.
	Unwaited bool
	// Exact is set if equal runs have equal hits.
	Exact bool
}

var peers []Peer

// register is called by each peer's file, from init.
func register(p Peer) { peers = append(peers, p) }

// self is the cache that the others are compared with.
const self = "wheelcache"

// ranked returns all peers, self first.
func ranked() []Peer {
	sorted := slices.Clone(peers)
	slices.SortFunc(sorted, func(a, b Peer) int {
		if (a.Name == self) != (b.Name == self) {
			if a.Name == self {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return sorted
}
