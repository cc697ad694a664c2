package main

import (
	"context"

	"github.com/patrickmn/go-cache"
	"golang.org/x/sync/singleflight"
)

func init() {
	register(Peer{
		Name:      "gocache-singleflight",
		Module:    "golang.org/x/sync",
		OnlyLoads: true,
		Traits:    Traits{Expires: true, EachTTL: true, Reclaims: true, Shared: true, Deletes: true, Counts: true, Loads: true},
		Note:      "gocache, which does not load, behind x/sync's singleflight, as many have it; who comes first looks again before it loads",
		Strings:   newGocacheSingleflight[*Payload],
	})
}

type gocacheSingleflight[V any] struct {
	gocacheCache[V]
	flights singleflight.Group
	load    func(context.Context, string) (V, error)
}

func newGocacheSingleflight[V any](cfg Config) (Cache[string, V], error) {
	load := loaderOf[string, V](cfg)
	if load == nil {
		return nil, unable("is for loading only")
	}
	if err := cfg.refreshless(); err != nil {
		return nil, err
	}
	c, err := newGocache[V](cfg)
	if err != nil {
		return nil, err
	}
	return &gocacheSingleflight[V]{gocacheCache: c.(gocacheCache[V]), load: load}, nil
}

func (c *gocacheSingleflight[V]) Get(key string) (value V, ok bool) { return c.gocacheCache.Get(key) }

func (c *gocacheSingleflight[V]) GetOrLoad(ctx context.Context, key string) (value V, err error) {
	if v, ok := c.cache.Get(key); ok {
		return v.(V), nil
	}
	v, err, _ := c.flights.Do(key, func() (any, error) {
		// Another's load may have ended between the look and Do.
		if v, ok := c.cache.Get(key); ok {
			return v, nil
		}
		value, err := c.load(ctx, key)
		if err == nil {
			c.cache.Set(key, value, cache.DefaultExpiration)
		}
		return value, err
	})
	if err != nil {
		return value, err
	}
	return v.(V), nil
}
