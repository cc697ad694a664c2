//go:build amd64 || arm64

package wheelcache

// prefetch asks the processor to load the cache lines of size bytes of memory from address
// on, at least one, and waits for none. It changes nothing that a program could see, and
// nothing happens if the memory has been given back.
func prefetch(address, size uintptr)
