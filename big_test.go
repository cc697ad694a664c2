package wheelcache_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
)

var big = flag.Bool("big", false, "run the tests that want a gigabyte of memory and some seconds")

// Ten million entries with one deadline: stored, read, and expired all at once.
// It logs what that took; nothing depends on it.
//
//	go test -run TestTenMillionEntries -big -v .
func TestTenMillionEntries(t *testing.T) {
	if !*big {
		t.Skip("needs -big")
	}
	const n = 10_000_000
	c, err := wheelcache.New(wheelcache.Options[uint64, uint64]{})
	require.NoError(t, err)
	defer c.Close()

	start := time.Now()
	deadline := start.Add(30 * time.Second)
	for i := range uint64(n) {
		c.SetDeadline(i, i, deadline)
	}
	t.Logf("stored in %v: %d ns each", time.Since(start), time.Since(start).Nanoseconds()/n)
	require.Equal(t, n, c.Len())
	full := heapInUse()
	t.Logf("%d MB, %.1f bytes per entry beyond its 16", full>>20, float64(full)/n-16)

	start = time.Now()
	for i := range uint64(n) {
		v, ok := c.Get(i)
		require.True(t, ok && v == i)
	}
	t.Logf("read in %v", time.Since(start))
	require.True(t, time.Now().Before(deadline), "the machine is too slow for this deadline")

	time.Sleep(time.Until(deadline))
	_, ok := c.Get(0)
	require.False(t, ok)
	c.Flush()
	t.Logf("expired in %v after the deadline", time.Since(deadline))
	require.Zero(t, c.Len())
	st := c.Stats()
	require.EqualValues(t, n, st.Expired)
	t.Logf("late by at most %v, heap then %d KB", st.Lateness.Max, heapInUse()>>10)
}
