package wheelcache

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"reflect"

	"github.com/cespare/xxhash/v2"
)

// A hasher turns keys into 64 bits, which are used up like this:
//
//	63 .......... 32 | 31 ..... 20 | 19 .. 12 | 11 ...... 0
//	      shard      |   segment   |   tag    |   bucket
//
// The parts are disjoint: if, say, tags used the bits that choose the segment,
// all tags in a segment would be alike and would filter nothing. The low half is
// all that a shard knows of a key later: slots and wheel records hold it, and
// growth and expiry find the place of an entry by it without hashing again.
//
// The hash is seeded per cache, so that nobody who chooses keys can make them
// collide. maphash does that, except for strings, which take the function beneath
// maphash directly (see sumString), and integers, which take a mix of
// two multiplications with two secret words: half the time of maphash, and
// without the secrets its collisions cannot be found either.
type hasher[K comparable] struct {
	kind   hashKind
	seed   maphash.Seed
	secret [2]uint64
	custom func(K) uint64
}

type hashKind uint8

const (
	hashAny hashKind = iota
	hashString
	hashInteger
	hashCustom
)

func newHasher[K comparable](custom func(K) uint64) hasher[K] {
	h := hasher[K]{
		seed:   maphash.MakeSeed(),
		secret: [2]uint64{rand.Uint64(), rand.Uint64()},
		custom: custom,
	}
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String:
		h.kind = hashString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		h.kind = hashInteger
	}
	if custom != nil {
		h.kind = hashCustom
	}
	return h
}

func (h *hasher[K]) sum(key K) uint64 {
	switch h.kind {
	case hashInteger:
		return mix(integerKey(key), h.secret[0], h.secret[1])
	case hashString:
		return sumString(stringKey(key), h.secret[0], h.secret[1])
	case hashCustom:
		// A caller's hash may be good in its low bits only, or be the key itself;
		// the parts above need all bits. The constants are fixed, so that what is
		// the same in every process stays the same.
		x := h.custom(key)
		if !equalToItself(key) {
			x++
		}
		return mix(x, 0x9e3779b97f4a7c15, 0xd1b54a32d192ed03)
	}
	return maphash.Comparable(h.seed, key)
}

// equalToItself compares key, so that an interface that holds what cannot be
// compared panics here, and not when it is compared under a lock. (maphash panics
// by itself.)
func equalToItself[K comparable](key K) bool {
	return key == key //nolint:gocritic // see above; also, NaN is not
}

// mix spreads x over 64 bits by two multiplications, as wyhash does.
func mix(x, a, b uint64) uint64 {
	hi, lo := bits.Mul64(x^a, b^0xa0761d6478bd642f)
	hi, lo = bits.Mul64(hi^a, lo^b)
	return hi ^ lo
}

// StableHash returns the xxhash of key: the same number in every process. Use it
// for Options.Hash where keys are trusted and placement must repeat. Do not
// where others choose the keys: collisions of xxhash can be built for any seed.
func StableHash(key string) uint64 {
	return xxhash.Sum64String(key)
}
