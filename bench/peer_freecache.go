package main

import (
	"encoding/binary"
	"time"

	"github.com/coocood/freecache"
)

func init() {
	register(Peer{
		Name:    "freecache",
		Module:  "github.com/coocood/freecache",
		Traits:  Traits{Expires: true, EachTTL: true, Shared: true, Deletes: true, Counts: true},
		Note:    "bounded, all memory allocated in advance; TTLs in seconds; expired entries go when asked for or overwritten; values are bytes: the payload's 8, copied, and made a new payload by Get",
		Strings: newFreecacheStrings,
		Uint64s: newFreecacheUint64s,
	})
}

// newFreecache returns a cache for keys of keySize bytes.
func newFreecache(cfg Config, keySize int) (*freecache.Cache, error) {
	if cfg.OnExpired != nil {
		return nil, unable(noReports)
	}
	const segments = 256 // its constant; each has its own ring of bytes
	return freecache.NewCache(cfg.roomIn(segments) * (freecache.ENTRY_HDR_SIZE + keySize + 8)), nil
}

// freecacheTTL returns ttl in freecache's unit. The cache counts from the start of
// the second, so entries go up to a second early.
func freecacheTTL(ttl time.Duration) int { return int(wholeSeconds(ttl) / time.Second) }

type freecacheStrings struct{ cache *freecache.Cache }

func newFreecacheStrings(cfg Config) (Cache[string, *Payload], error) {
	cache, err := newFreecache(cfg, len(stringKey(0)))
	if err != nil {
		return nil, err
	}
	if cfg.Sliding {
		return freecacheSlidingStrings{freecacheStrings{cache}, freecacheTTL(cfg.TTL)}, nil
	}
	return freecacheStrings{cache}, nil
}

func (c freecacheStrings) Get(key string) (*Payload, bool) {
	var b [8]byte
	value, err := c.cache.GetWithBuf([]byte(key), b[:])
	if err != nil {
		return nil, false
	}
	return &Payload{binary.LittleEndian.Uint64(value)}, true
}

func (c freecacheStrings) Set(key string, value *Payload, ttl time.Duration) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value.ID)
	_ = c.cache.Set([]byte(key), b[:], freecacheTTL(ttl)) // fails only for large entries
}

func (c freecacheStrings) Delete(key string) { c.cache.Del([]byte(key)) }
func (c freecacheStrings) Len() int          { return int(c.cache.EntryCount()) }
func (c freecacheStrings) Close()            { c.cache.Clear() }

// freecacheSlidingStrings restarts lifetimes with a second call, the one there is for it.
type freecacheSlidingStrings struct {
	freecacheStrings
	ttl int
}

func (c freecacheSlidingStrings) Get(key string) (*Payload, bool) {
	value, ok := c.freecacheStrings.Get(key)
	if ok {
		_ = c.cache.Touch([]byte(key), c.ttl) // fails if the key went meanwhile
	}
	return value, ok
}

type freecacheUint64s struct{ cache *freecache.Cache }

func newFreecacheUint64s(cfg Config) (Cache[uint64, uint64], error) {
	cache, err := newFreecache(cfg, 8)
	if err != nil {
		return nil, err
	}
	if cfg.Sliding {
		return freecacheSlidingUint64s{freecacheUint64s{cache}, freecacheTTL(cfg.TTL)}, nil
	}
	return freecacheUint64s{cache}, nil
}

func (c freecacheUint64s) Get(key uint64) (uint64, bool) {
	var k, b [8]byte
	binary.LittleEndian.PutUint64(k[:], key)
	value, err := c.cache.GetWithBuf(k[:], b[:])
	if err != nil {
		return 0, false
	}
	return binary.LittleEndian.Uint64(value), true
}

func (c freecacheUint64s) Set(key, value uint64, ttl time.Duration) {
	var k, b [8]byte
	binary.LittleEndian.PutUint64(k[:], key)
	binary.LittleEndian.PutUint64(b[:], value)
	_ = c.cache.Set(k[:], b[:], freecacheTTL(ttl))
}

func (c freecacheUint64s) Delete(key uint64) { c.cache.DelInt(int64(key)) } // little-endian too
func (c freecacheUint64s) Len() int          { return int(c.cache.EntryCount()) }
func (c freecacheUint64s) Close()            { c.cache.Clear() }

type freecacheSlidingUint64s struct {
	freecacheUint64s
	ttl int
}

func (c freecacheSlidingUint64s) Get(key uint64) (uint64, bool) {
	value, ok := c.freecacheUint64s.Get(key)
	if ok {
		var k [8]byte
		binary.LittleEndian.PutUint64(k[:], key)
		_ = c.cache.Touch(k[:], c.ttl)
	}
	return value, ok
}
