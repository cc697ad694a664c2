package main

import (
	"time"

	"github.com/maypok86/otter/v2"
)

func init() {
	register(Peer{Name: "otter", Note: "MaximumSize", New: newOtter})
	register(Peer{Name: "otter-async", Note: "otter, whose maintenance is not waited for", New: newOtter, Unwaited: true})
}

type otterCache struct{ *otter.Cache[uint64, Value] }

func newOtter(cfg Config) (Cache, error) {
	o := &otter.Options[uint64, Value]{MaximumSize: cfg.Size}
	if cfg.Expires {
		o.ExpiryCalculator = otter.ExpiryWritingFunc(func(e otter.Entry[uint64, Value]) time.Duration {
			return e.Value.TTL
		})
	}
	cache, err := otter.New(o)
	return otterCache{cache}, err
}

func (c otterCache) Get(key uint64) (Value, bool) { return c.GetIfPresent(key) }
func (c otterCache) Set(key uint64, v Value)      { c.Cache.Set(key, v) }
func (c otterCache) Len() int                     { return c.EstimatedSize() }
func (c otterCache) Close()                       { c.StopAllGoroutines() }
