//go:build amd64 || arm64

package wheelcache

// prefetch asks the processor to load the cache lines of size bytes from address on, at
// least one, and waits for none. It changes nothing that a program could see, and any
// address will do: nothing happens if there is no memory.
func prefetch(address, size uintptr)
