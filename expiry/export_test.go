package expiry

// JitterFrom is Jitter with draws of the test's choosing: numbers from 0 to less
// than 1.
func JitterFrom[K comparable, V any](p Policy[K, V], fraction float64, share func() float64) Policy[K, V] {
	return jitter[K, V]{"Jitter", p, fraction, share}
}
