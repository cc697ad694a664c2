package main

import (
	"sync"
	"time"
)

func init() {
	register(Peer{
		Name:    "syncmap",
		Floor:   true,
		Traits:  Traits{Shared: true, Deletes: true},
		Note:    "sync.Map; nothing expires",
		Strings: newSyncMap[string, *Payload],
		Uint64s: newSyncMap[uint64, uint64],
	})
}

type syncMap[K comparable, V any] struct{ entries sync.Map }

func newSyncMap[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	return new(syncMap[K, V]), nil
}

func (c *syncMap[K, V]) Get(key K) (value V, ok bool) {
	v, ok := c.entries.Load(key)
	if !ok {
		return value, false
	}
	return v.(V), true
}

func (c *syncMap[K, V]) Set(key K, value V, _ time.Duration) { c.entries.Store(key, value) }
func (c *syncMap[K, V]) Delete(key K)                        { c.entries.Delete(key) }
func (c *syncMap[K, V]) Len() int                            { return -1 }
func (c *syncMap[K, V]) Close()                              {}
