//go:build !race

package wheelcache_test

const raceEnabled = false
