package main

import "github.com/dgraph-io/ristretto/v2"

func init() {
	register(Peer{
		Name: "ristretto",
		Note: "cost 1 for each entry, ten counters per entry, as recommended; takes integers as their own hash",
		New:  newRistretto,
	})
}

type ristrettoCache struct {
	*ristretto.Cache[uint64, Value]
}

func newRistretto(cfg Config) (Cache, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, Value]{
		NumCounters:        10 * int64(cfg.Size),
		MaxCost:            int64(cfg.Size),
		IgnoreInternalCost: true,
		BufferItems:        64, // as recommended
	})
	return ristrettoCache{cache}, err
}

func (c ristrettoCache) Set(key uint64, v Value) { c.SetWithTTL(key, v, 1, v.TTL) }

// Len is what the entries cost, at 1 each.
func (c ristrettoCache) Len() int { return int(c.MaxCost() - c.RemainingCost()) }
