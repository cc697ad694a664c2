//go:build !amd64 && !arm64

package wheelcache

// prefetch does nothing here.
func prefetch(address, size uintptr) {}
