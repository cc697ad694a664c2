package main

import (
	"context"
	"time"

	"github.com/zeromicro/go-zero/core/collection"
	"github.com/zeromicro/go-zero/core/logx"
)

func init() {
	register(Peer{
		Name:    "gozero",
		Module:  "github.com/zeromicro/go-zero",
		Traits:  Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Loads: true},
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
	c := gozeroCache[V]{cache}
	if load := loaderOf[string, V](cfg); load != nil {
		if err := cfg.refreshless(); err != nil {
			return nil, err
		}
		return &gozeroLoading[V]{c, load}, nil
	}
	return c, nil
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

type gozeroLoading[V any] struct {
	gozeroCache[V]
	load func(context.Context, string) (V, error)
}

func (c *gozeroLoading[V]) Get(key string) (value V, ok bool) { return c.gozeroCache.Get(key) }

func (c *gozeroLoading[V]) GetOrLoad(ctx context.Context, key string) (value V, err error) {
	v, err := c.cache.Take(key, func() (any, error) { return c.load(ctx, key) })
	if err != nil {
		return value, err
	}
	return v.(V), nil
}
