package main

import "time"

func init() {
	register(Peer{
		Name:    "map",
		Floor:   true,
		Traits:  Traits{Deletes: true, Counts: true},
		Note:    "a bare Go map for one goroutine; nothing expires",
		Strings: newMapCache[string, *Payload],
		Uint64s: newMapCache[uint64, uint64],
	})
}

type mapCache[K comparable, V any] struct{ entries map[K]V }

func newMapCache[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	return mapCache[K, V]{make(map[K]V, cfg.ifSized())}, nil
}

func (c mapCache[K, V]) Get(key K) (V, bool) {
	value, ok := c.entries[key]
	return value, ok
}

func (c mapCache[K, V]) Set(key K, value V, _ time.Duration) { c.entries[key] = value }
func (c mapCache[K, V]) Delete(key K)                        { delete(c.entries, key) }
func (c mapCache[K, V]) Len() int                            { return len(c.entries) }
func (c mapCache[K, V]) Close()                              {}
