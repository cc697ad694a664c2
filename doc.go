// Package wheelcache is a cache.
package wheelcache
