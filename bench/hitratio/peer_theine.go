package main

import "github.com/Yiling-J/theine-go"

func init() {
	register(Peer{Name: "theine", Note: "cost 1 for each entry", New: newTheine})
	register(Peer{Name: "theine-async", Note: "theine, whose queue of writes is not waited for", New: newTheine, Unwaited: true})
}

type theineCache struct {
	*theine.Cache[uint64, Value]
}

func newTheine(cfg Config) (Cache, error) {
	cache, err := theine.NewBuilder[uint64, Value](int64(cfg.Size)).Build()
	return theineCache{cache}, err
}

func (c theineCache) Set(key uint64, v Value) { c.SetWithTTL(key, v, 1, v.TTL) }
