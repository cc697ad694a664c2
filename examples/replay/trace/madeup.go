package trace

import (
	"iter"
	"math/rand/v2"
)

// MadeUp returns n requests whose popularity follows Zipf's law over a working
// set that shifts: every thousand requests the most popular key is asked for the
// last time and a new one joins at the tail, to become popular while it lasts.
// The same seed makes the same requests.
func MadeUp(n int, seed uint64, d Defaults) iter.Seq2[Request[uint32], error] {
	const (
		keys  = 20_000
		skew  = 1.1
		drift = 1000
	)
	return func(yield func(Request[uint32], error) bool) {
		zipf := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), skew, 1, keys-1)
		for i := range n {
			key := uint32(zipf.Uint64()) + uint32(i/drift)
			if !yield(Request[uint32]{d.Arrival(i), key, d.TTL}, nil) {
				return
			}
		}
	}
}
