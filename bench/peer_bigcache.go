package main

import (
	"context"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/allegro/bigcache/v3"
)

func init() {
	register(Peer{
		Name:    "bigcache",
		Module:  "github.com/allegro/bigcache/v3",
		Traits:  Traits{Expires: true, Reclaims: true, Shared: true, Deletes: true, Counts: true},
		Note:    "one TTL for all entries, in seconds, not looked at by Get; values are bytes: the payload's 8, copied, and made a new payload by Get; uint64 keys are made 8-byte strings",
		Strings: newBigcacheStrings,
		Uint64s: newBigcacheUint64s,
	})
}

// bigcacheConfig asks for what the documentation recommends: 1024 shards, and cleaning
// every second, the least that it deems productive.
func bigcacheConfig(cfg Config, keySize int, expired func(key string, value uint64)) (bigcache.Config, error) {
	switch {
	case cfg.Sliding:
		return bigcache.Config{}, unable(noSliding)
	case bits.UintSize == 32:
		return bigcache.Config{}, unable("its counters are not aligned on 32-bit platforms, so it panics")
	}
	o := bigcache.DefaultConfig(wholeSeconds(cfg.TTL))
	o.Verbose = false
	o.CleanWindow = max(cfg.Tick, time.Second)
	// Both are for the first allocation only. Of an entry's bytes, 18 are bigcache's and 8 the
	// value's; shards get a quarter more, since the hash does not fill them equally.
	o.MaxEntriesInWindow = cfg.ifSized()
	o.MaxEntrySize = (18 + keySize + 8) * 5 / 4
	if expired != nil {
		o.OnRemoveWithReason = func(key string, entry []byte, _ bigcache.RemoveReason) {
			expired(key, binary.LittleEndian.Uint64(entry))
		}
		o = o.OnRemoveFilterSet(bigcache.Expired)
	}
	return o, nil
}

type bigcacheStrings struct{ cache *bigcache.BigCache }

func newBigcacheStrings(cfg Config) (Cache[string, *Payload], error) {
	var report func(string, uint64)
	if expired := onExpired[string, *Payload](cfg); expired != nil {
		report = func(key string, value uint64) { expired(key, &Payload{value}) }
	}
	o, err := bigcacheConfig(cfg, len(stringKey(0)), report)
	if err != nil {
		return nil, err
	}
	cache, err := bigcache.New(context.Background(), o)
	if err != nil {
		return nil, err
	}
	return bigcacheStrings{cache}, nil
}

func (c bigcacheStrings) Get(key string) (*Payload, bool) {
	value, err := c.cache.Get(key)
	if err != nil {
		return nil, false
	}
	return &Payload{binary.LittleEndian.Uint64(value)}, true
}

func (c bigcacheStrings) Set(key string, value *Payload, _ time.Duration) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value.ID)
	_ = c.cache.Set(key, b[:]) // fails only for what is larger than a bounded shard
}

func (c bigcacheStrings) Delete(key string) { _ = c.cache.Delete(key) } // fails if it is not there
func (c bigcacheStrings) Len() int          { return c.cache.Len() }
func (c bigcacheStrings) Close()            { _ = c.cache.Close() }

type bigcacheUint64s struct{ cache *bigcache.BigCache }

func newBigcacheUint64s(cfg Config) (Cache[uint64, uint64], error) {
	var report func(string, uint64)
	if expired := onExpired[uint64, uint64](cfg); expired != nil {
		report = func(key string, value uint64) { expired(binary.LittleEndian.Uint64([]byte(key)), value) }
	}
	o, err := bigcacheConfig(cfg, 8, report)
	if err != nil {
		return nil, err
	}
	cache, err := bigcache.New(context.Background(), o)
	if err != nil {
		return nil, err
	}
	return bigcacheUint64s{cache}, nil
}

// stringOf returns key's 8 bytes. They are allocated anew, since bigcache lets its keys escape.
func stringOf(key uint64) string {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], key)
	return string(b[:])
}

func (c bigcacheUint64s) Get(key uint64) (uint64, bool) {
	value, err := c.cache.Get(stringOf(key))
	if err != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint64(value), true
}

func (c bigcacheUint64s) Set(key, value uint64, _ time.Duration) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	_ = c.cache.Set(stringOf(key), b[:])
}

func (c bigcacheUint64s) Delete(key uint64) { _ = c.cache.Delete(stringOf(key)) }
func (c bigcacheUint64s) Len() int          { return c.cache.Len() }
func (c bigcacheUint64s) Close()            { _ = c.cache.Close() }
