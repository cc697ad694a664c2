package main

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
)

func init() {
	register(Peer{
		Name:    "xsync",
		Module:  "github.com/puzpuzpuz/xsync/v4",
		Floor:   true,
		Traits:  Traits{Expires: true, EachTTL: true, Shared: true, Deletes: true, Counts: true},
		Note:    "xsync.Map of values with deadlines and a clock of 1 ms; expired entries stay",
		Strings: newXsync[string, *Payload],
		Uint64s: newXsync[uint64, uint64],
	})
}

// xsyncCache is about the least that a concurrent cache with lifetimes can be. It serves entries
// up to a tick too long, and more if the ticker's goroutine has to wait for a processor.
type xsyncCache[K comparable, V any] struct {
	entries *xsync.Map[K, timed[V]]
	now     atomic.Int64 // since start, as of the last tick
	start   time.Time

	stop, stopped chan struct{}
}

func newXsync[K comparable, V any](cfg Config) (Cache[K, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	c := &xsyncCache[K, V]{
		entries: xsync.NewMap[K, timed[V]](xsync.WithPresize(cfg.ifSized())),
		start:   time.Now(),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go c.tick(cmp.Or(cfg.Tick, time.Millisecond))
	return c, nil
}

func (c *xsyncCache[K, V]) tick(d time.Duration) {
	defer close(c.stopped)
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.now.Store(int64(time.Since(c.start)))
		case <-c.stop:
			return
		}
	}
}

func (c *xsyncCache[K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.entries.Load(key)
	if !ok || c.now.Load() >= e.deadline {
		return value, false
	}
	return e.value, true
}

func (c *xsyncCache[K, V]) Set(key K, value V, ttl time.Duration) {
	c.entries.Store(key, timed[V]{value, c.now.Load() + int64(ttl)})
}

func (c *xsyncCache[K, V]) Delete(key K) { c.entries.Delete(key) }
func (c *xsyncCache[K, V]) Len() int     { return c.entries.Size() }

func (c *xsyncCache[K, V]) Close() {
	close(c.stop)
	<-c.stopped
}
