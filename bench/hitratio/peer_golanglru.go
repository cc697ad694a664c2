package main

import lru "github.com/hashicorp/golang-lru/v2"

// golang-lru has one cache that expires, with one lifetime for all entries. With
// lifetimes by key, its users keep the deadline in the value and look at it, as is
// done with all caches here.
func init() {
	const note = "golang-lru; has no lifetimes by key, so finds out by Get what has expired"
	register(Peer{Name: "golang-lru", Note: note, Exact: true, New: func(cfg Config) (Cache, error) {
		cache, err := lru.New[uint64, Value](cfg.Size)
		return golangLRU{cache}, err
	}})
	const note2Q = note + "; 2Q with its default shares"
	register(Peer{Name: "golang-2q", Note: note2Q, Exact: true, New: func(cfg Config) (Cache, error) {
		cache, err := lru.New2Q[uint64, Value](cfg.Size)
		return golang2Q{cache}, err
	}})
}

type golangLRU struct{ *lru.Cache[uint64, Value] }

func (c golangLRU) Set(key uint64, v Value) { c.Add(key, v) }
func (c golangLRU) Close()                  {}

type golang2Q struct {
	*lru.TwoQueueCache[uint64, Value]
}

func (c golang2Q) Set(key uint64, v Value) { c.Add(key, v) }
func (c golang2Q) Close()                  {}
