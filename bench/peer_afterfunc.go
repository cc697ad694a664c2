package main

import (
	"sync"
	"time"
)

func init() {
	register(Peer{
		Name:    "afterfunc",
		Floor:   true,
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true},
		Note:    "map, one mutex and a time.AfterFunc per entry that deletes it; Get looks at no deadline",
		Strings: newAfterFunc[string, *Payload],
		Uint64s: newAfterFunc[uint64, uint64],
	})
}

type afterFunc[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]*afterFuncEntry[V]
	expired func(K, V)
}

type afterFuncEntry[V any] struct {
	value V
	timer *time.Timer
}

func newAfterFunc[K comparable, V any](cfg Config) (Cache[K, V], error) {
	c := &afterFunc[K, V]{
		entries: make(map[K]*afterFuncEntry[V], cfg.ifSized()),
		expired: onExpired[K, V](cfg),
	}
	if cfg.Sliding {
		return &afterFuncSliding[K, V]{c, cfg.TTL}, nil
	}
	return c, nil
}

func (c *afterFunc[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		return value, false
	}
	return e.value, true
}

func (c *afterFunc[K, V]) Set(key K, value V, ttl time.Duration) {
	e := &afterFuncEntry[V]{value: value}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[key]; old != nil {
		old.timer.Stop()
	}
	c.entries[key] = e
	e.timer = time.AfterFunc(ttl, func() { c.expire(key, e) })
}

// expire removes e, unless it was replaced while its timer waited for the lock.
func (c *afterFunc[K, V]) expire(key K, e *afterFuncEntry[V]) {
	c.mu.Lock()
	there := c.entries[key] == e
	if there {
		delete(c.entries, key)
	}
	c.mu.Unlock()
	if there && c.expired != nil {
		c.expired(key, e.value)
	}
}

func (c *afterFunc[K, V]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		e.timer.Stop()
		delete(c.entries, key)
	}
}

func (c *afterFunc[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

func (c *afterFunc[K, V]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		e.timer.Stop()
	}
	clear(c.entries)
}

type afterFuncSliding[K comparable, V any] struct {
	*afterFunc[K, V]
	ttl time.Duration
}

func (c *afterFuncSliding[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil || !e.timer.Stop() { // it has fired and waits for the lock
		return value, false
	}
	e.timer.Reset(c.ttl)
	return e.value, true
}
