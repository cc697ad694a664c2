package main

import "container/list"

// lruName is also what pictures compare with.
const lruName = "lru"

func init() {
	register(Peer{
		Name: lruName, Exact: true,
		Note: "exact least recently used, for reference: one list and one map; finds out by Get what has expired",
		New:  func(cfg Config) (Cache, error) { return newLRU(cfg.Size), nil },
	})
}

// An exactLRU drops the entry whose last request is longest ago. It has no shards,
// no samples and no buffers.
type exactLRU struct {
	size    int
	recent  *list.List // of *lruEntry, the latest first
	entries map[uint64]*list.Element
}

type lruEntry struct {
	key   uint64
	value Value
}

func newLRU(size int) *exactLRU {
	return &exactLRU{size, list.New(), map[uint64]*list.Element{}}
}

func (c *exactLRU) Get(key uint64) (Value, bool) {
	e, ok := c.entries[key]
	if !ok {
		return Value{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*lruEntry).value, true
}

func (c *exactLRU) Set(key uint64, v Value) {
	if e, ok := c.entries[key]; ok {
		c.recent.MoveToFront(e)
		e.Value.(*lruEntry).value = v
		return
	}
	if c.recent.Len() == c.size {
		oldest := c.recent.Remove(c.recent.Back()).(*lruEntry)
		delete(c.entries, oldest.key)
	}
	c.entries[key] = c.recent.PushFront(&lruEntry{key, v})
}

func (c *exactLRU) Len() int { return c.recent.Len() }
func (c *exactLRU) Close()   {}
