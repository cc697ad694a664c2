package main

import (
	"time"

	"github.com/zeromicro/go-zero/core/collection"
	"github.com/zeromicro/go-zero/core/logx"
)

func init() {
	register(Peer{
		Name:    "gozero",
		Module:  "github.com/zeromicro/go-zero",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true},
		Note:    "string keys only; lifetimes vary by 5 % and a second, and Get looks at no deadline",
		Strings: newGozero[*Payload],
	})
}

type gozeroCache[V any] struct{ cache *collection.Cache }

func newGozero[V any](cfg Config) (Cache[string, V], error) {
	if err := cfg.plain(); err != nil {
		return nil, err
	}
	logx.DisableStat() // a line on standard output every minute
	cache, err := collection.NewCache(cfg.TTL)
	if err != nil {
		return nil, err
	}
	return gozeroCache[V]{cache}, nil
}

func (c gozeroCache[V]) Get(key string) (value V, ok bool) {
	v, ok := c.cache.Get(key)
	if !ok {
		return value, false
	}
	return v.(V), true
}

func (c gozeroCache[V]) Set(key string, value V, ttl time.Duration) {
	c.cache.SetWithExpire(key, value, ttl)
}

func (c gozeroCache[V]) Delete(key string) { c.cache.Del(key) }
func (c gozeroCache[V]) Len() int          { return -1 }

// Close does nothing: there is no way to stop the cache or to empty it, so its goroutines
// and entries stay until the process ends or the entries expire.
func (c gozeroCache[V]) Close() {}
