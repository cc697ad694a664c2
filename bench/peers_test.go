package main

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Test_peers/ristretto/expire/string is one of its tests. All run at once, however few
// processors there are: most of the time they wait.
func Test_peers(t *testing.T) {
	checks := map[string]struct {
		strs func(*testing.T, *Bench[string, *Payload])
		ints func(*testing.T, *Bench[uint64, uint64])
	}{
		"store":   {stores[string, *Payload], stores[uint64, uint64]},
		"share":   {isShared[string, *Payload], isShared[uint64, uint64]},
		"expire":  {expires[string, *Payload], expires[uint64, uint64]},
		"reclaim": {reclaims[string, *Payload], reclaims[uint64, uint64]},
		"report":  {reportsExpired[string, *Payload], reportsExpired[uint64, uint64]},
		"load":    {loads[string, *Payload], loads[uint64, uint64]},
		"refresh": {refreshes[string, *Payload], refreshes[uint64, uint64]},
		"bound":   {staysWithin[string, *Payload], staysWithin[uint64, uint64]},
		"slide":   {slides[string, *Payload], slides[uint64, uint64]},
	}
	var all sync.WaitGroup
	for _, p := range peers {
		if strings.HasPrefix(p.Name, "fake-") { // of the engine's tests
			continue
		}
		for name, check := range checks {
			if p.Strings != nil {
				all.Go(func() {
					t.Run(p.Name+"/"+name+"/string", func(t *testing.T) { check.strs(t, stringBench(&p)) })
				})
			}
			if p.Uint64s != nil {
				all.Go(func() {
					t.Run(p.Name+"/"+name+"/uint64", func(t *testing.T) { check.ints(t, uint64Bench(&p)) })
				})
			}
		}
	}
	all.Wait()
}

// open makes a cache, or skips the test if the peer says why it cannot.
func open[K comparable, V any](t *testing.T, b *Bench[K, V], cfg Config) Cache[K, V] {
	t.Helper()
	c, err := b.New(cfg)
	if errors.Is(err, ErrCannot) {
		require.NotEqual(t, ErrCannot.Error(), err.Error(), "and why?")
		t.Skip(err)
	}
	require.NoError(t, err)
	return c
}

// until polls for what takes a peer some time; a minute is more than any of them needs.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	pause := 20 * time.Microsecond
	for start := time.Now(); !done(); pause = min(2*pause, 5*time.Millisecond) {
		if time.Since(start) > time.Minute {
			require.FailNow(t, "waited in vain until "+what)
		}
		time.Sleep(pause)
	}
}

// shortTTL is the least that the peer can do: some count in seconds, some wake up once a second.
func shortTTL(p *Peer) time.Duration {
	switch p.Name {
	case "bigcache", "freecache", "gozero":
		return time.Second
	}
	return 50 * time.Millisecond
}

func Test_peers_are_described(t *testing.T) {
	names := map[string]bool{}
	for _, p := range peers {
		if strings.HasPrefix(p.Name, "fake-") {
			continue
		}
		require.False(t, names[p.Name], "%s twice", p.Name)
		names[p.Name] = true
		require.NotEmpty(t, p.Note, p.Name)
		require.NotNil(t, p.Strings, p.Name)
		require.True(t, p.Floor || p.Module != "", "%s is from somewhere", p.Name)
		require.True(t, p.Traits.Expires || !p.Traits.EachTTL && !p.Traits.Reclaims, p.Name)
	}
}

func stores[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	const n = 500
	for _, sized := range []bool{false, true} {
		c := open(t, b, Config{Entries: n, Sized: sized, TTL: time.Hour})
		set := func(i int, value V) {
			c.Set(b.Key(i), value, time.Hour)
			until(t, "a Set is seen", func() bool { // at once, but for a peer that buffers
				got, ok := c.Get(b.Key(i))
				return ok && identity(got) == identity(value)
			})
		}
		for i := range n {
			_, ok := c.Get(b.Key(i))
			require.False(t, ok)
			set(i, b.Value(i))
		}
		for i := range n {
			got, ok := c.Get(b.Key(i))
			require.True(t, ok)
			require.Equal(t, identity(b.Value(i)), identity(got))
		}
		flush(c)
		if b.Peer.Traits.Counts {
			require.Equal(t, n, c.Len())
		} else {
			require.Equal(t, -1, c.Len())
		}

		set(1, b.Value(2))
		if b.Peer.Traits.Deletes {
			c.Delete(b.Key(0))
			c.Delete(b.Key(n)) // not there
			_, ok := c.Get(b.Key(0))
			require.False(t, ok)
			flush(c)
			if b.Peer.Traits.Counts {
				require.Equal(t, n-1, c.Len())
			}
			set(0, b.Value(0))
		}
		c.Close()
		c.Get(b.Key(1)) // is harmless
	}
}

func isShared[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	if !b.Peer.Traits.Shared {
		t.Skip("for one goroutine")
	}
	const n = 100
	c := open(t, b, Config{Entries: n, TTL: time.Hour})
	defer c.Close()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 3 * n {
				i = (i + g*n/4) % n
				c.Set(b.Key(i), b.Value(i), time.Hour)
				if got, ok := c.Get(b.Key(i)); ok && identity(got) != identity(b.Value(i)) {
					t.Errorf("got %v for key %d", got, i)
				}
				if i%10 == 0 {
					c.Delete(b.Key(i))
				}
			}
		})
	}
	all.Wait()
}

// An entry that has expired is no longer to be had, by a TTL of its own or by that of all; one
// with a longer TTL is.
func expires[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	traits := b.Peer.Traits
	if !traits.Expires {
		t.Skip("nothing expires")
	}
	ttl := shortTTL(b.Peer)
	cfg := Config{Entries: 100, TTL: ttl}
	if traits.EachTTL {
		cfg.TTL = time.Hour
		c := open(t, b, cfg)
		defer c.Close()
		c.Set(b.Key(1), b.Value(1), time.Hour)
		c.Set(b.Key(0), b.Value(0), time.Hour)
		flush(c)                         // ristretto forgets a Set that finds an earlier one in its buffer
		c.Set(b.Key(0), b.Value(0), ttl) // the last one counts
		flush(c)
		until(t, "the entry expires", func() bool { _, ok := c.Get(b.Key(0)); return !ok })
		got, ok := c.Get(b.Key(1))
		require.True(t, ok)
		require.Equal(t, identity(b.Value(1)), identity(got))
		return
	}
	c := open(t, b, cfg)
	defer c.Close()
	c.Set(b.Key(0), b.Value(0), 0) // ignored
	until(t, "the entry expires", func() bool { _, ok := c.Get(b.Key(0)); return !ok })
}

func reclaims[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	traits := b.Peer.Traits
	if !traits.Reclaims || !traits.Counts {
		t.Skip("does not, or does not count")
	}
	const n = 50
	ttl := shortTTL(b.Peer)
	c := open(t, b, Config{Entries: n, TTL: ttl, Tick: time.Millisecond})
	defer c.Close()
	for i := range n {
		c.Set(b.Key(i), b.Value(i), ttl)
	}
	flush(c)
	until(t, "all are reclaimed", func() bool { return c.Len() == 0 })
}

func reportsExpired[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	const n = 50
	var mu sync.Mutex
	reports := map[K][]uint64{}
	ttl := shortTTL(b.Peer)
	cfg := Config{Entries: n, TTL: ttl, OnExpired: func(key K, value V) {
		mu.Lock()
		defer mu.Unlock()
		reports[key] = append(reports[key], identity(value))
	}}
	c := open(t, b, cfg)
	for i := range n {
		c.Set(b.Key(i), b.Value(i), ttl)
	}
	until(t, "all are reported", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(reports) == n
	})
	c.Set(b.Key(n), b.Value(n), time.Hour)
	c.Close() // is no expiry
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, reports, n)
	for i := range n {
		require.Equal(t, []uint64{identity(b.Value(i))}, reports[b.Key(i)])
	}
}

// counted returns a loader of one value, and how often it was called.
func counted[K comparable, V any](value V) (load func(context.Context, K) (V, error), calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return func(context.Context, K) (V, error) {
		calls.Add(1)
		return value, nil
	}, calls
}

func openLoading[K comparable, V any](t *testing.T, b *Bench[K, V], cfg Config) Loading[K, V] {
	t.Helper()
	if lacks := b.Peer.Traits.lacking(Traits{Loads: true}); lacks != "" {
		t.Skip(lacks)
	}
	l, ok := open(t, b, cfg).(Loading[K, V])
	require.True(t, ok, "the peer says that it loads")
	return l
}

func loads[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	load, calls := counted[K](b.Value(7))
	c := openLoading(t, b, Config{Entries: 100, TTL: time.Hour, Load: load})
	defer c.Close()
	get := func(i int) {
		got, err := c.GetOrLoad(context.Background(), b.Key(i))
		require.NoError(t, err)
		require.Equal(t, identity(b.Value(7)), identity(got))
	}
	get(0)
	get(0)
	require.EqualValues(t, 1, calls.Load(), "it was there")
	c.Delete(b.Key(0))
	get(0)
	require.EqualValues(t, 2, calls.Load())
	c.Set(b.Key(1), b.Value(7), time.Hour)
	flush(c)
	get(1)
	require.EqualValues(t, 2, calls.Load(), "it was stored")
	got, ok := c.Get(b.Key(0))
	require.True(t, ok)
	require.Equal(t, identity(b.Value(7)), identity(got))
	_, ok = c.Get(b.Key(2))
	require.Equal(t, b.Peer.Traits.LoadsByGet, ok)
}

// What is refreshed ahead is loaded for a second time before it has expired.
func refreshes[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	const ttl = 2 * time.Second
	load, calls := counted[K](b.Value(0))
	c := openLoading(t, b, Config{Entries: 100, TTL: ttl, RefreshAfter: time.Millisecond, Load: load})
	defer c.Close()
	key := 0
	until(t, "an entry is refreshed", func() bool {
		key++
		calls.Store(0)
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			_, err := c.GetOrLoad(context.Background(), b.Key(key))
			require.NoError(t, err)
			// It may have expired if this process has not been run for a while.
			if twice, late := calls.Load() >= 2, time.Since(start) > ttl-ttl/10; twice || late {
				return !late
			}
		}
	})
}

func slides[K comparable, V any](t *testing.T, b *Bench[K, V]) {
	ttl := 300 * time.Millisecond
	if shortTTL(b.Peer) == time.Second {
		ttl = 2 * time.Second // less may be nothing, where seconds are counted
	}
	c := open(t, b, Config{Entries: 10, TTL: ttl, Sliding: true})
	defer c.Close()
	c.Set(b.Key(0), b.Value(0), ttl)
	for start, last := time.Now(), time.Now(); time.Since(start) < ttl+ttl/2; time.Sleep(ttl / 100) {
		now := time.Now()
		if _, ok := c.Get(b.Key(0)); !ok {
			since := time.Since(last)
			require.Greater(t, since, ttl/2, "it was read that long ago")
			t.Skip("this machine is too busy to read in time")
		}
		last = now
	}
	until(t, "nobody reads it any more", func() bool {
		time.Sleep(ttl + ttl/4)
		_, ok := c.Get(b.Key(0))
		return !ok
	})
}

func Test_Close_stops_goroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, name := range []string{"xsync", "rwmutex-janitor", "afterfunc", "wheelcache", "ttlcache", "otter", "otter-coarse"} {
		p := peerNamed(name)
		for range 10 {
			c, err := p.Uint64s(Config{Entries: 10, TTL: time.Hour})
			require.NoError(t, err)
			c.Set(1, 1, time.Hour)
			c.Close()
		}
	}
	until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
