package wheelcache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// What loading does, mostly in bubbles: there, time passes when all wait.

var (
	bg       = context.Background()
	errDown  = errors.New("the origin is down")
	errTwice = fmt.Errorf("key 7: %w", ErrNotFound)
)

// An origin is where values come from.
type origin struct {
	mu    sync.Mutex
	calls int
	value int
	err   error
	takes time.Duration
	keys  []string // that were asked for
	last  error    // of the context, when the last load ended
	cause error
}

func (o *origin) load(ctx context.Context, key string) (int, error) {
	values, err := o.bulk(ctx, []string{key})
	return values[key], err
}

// bulk has no value for keys that begin with "no".
func (o *origin) bulk(ctx context.Context, keys []string) (map[string]int, error) {
	o.mu.Lock()
	o.calls++
	o.keys = append(o.keys, keys...)
	takes, value, err := o.takes, o.value, o.err
	o.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.cause = ctx.Err(), context.Cause(ctx)
	if err == nil {
		err = o.last
	}
	if err != nil {
		return nil, err
	}
	values := make(map[string]int)
	for _, k := range keys {
		if !strings.HasPrefix(k, "no") {
			values[k] = value
		}
	}
	return values, nil
}

// set changes what the origin answers from now on.
func (o *origin) set(value int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.value, o.err = value, err
}

func (o *origin) called() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

// loadingCache returns a cache and where it loads from, in a bubble.
func loadingCache(t *testing.T, o Options[string, int]) (*Cache[string, int], *origin) {
	t.Helper()
	c := mustNew(t, o)
	t.Cleanup(func() { check(t, c) })
	return c, &origin{value: 1}
}

func requireLoaded(t *testing.T, want int, c *Cache[string, int], load Loader[string, int]) {
	t.Helper()
	v, err := c.GetOrLoad(bg, "k", load)
	require.NoError(t, err)
	require.Equal(t, want, v)
}

func TestGetOrLoadLoadsWhatIsMissingAndWhatHasExpired(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, o := loadingCache(t, Options[string, int]{TTL: time.Minute, Clock: clock})
	for range 3 {
		requireLoaded(t, 1, c, o.load)
	}
	require.Equal(t, 1, o.called())
	o.set(2, nil)
	clock.Advance(time.Minute - 1)
	requireLoaded(t, 1, c, o.load)
	clock.Advance(1)
	requireLoaded(t, 2, c, o.load)
	require.Equal(t, 2, o.called())
	s := c.Stats()
	require.EqualValues(t, 3, s.Hits)
	require.EqualValues(t, 2, s.Misses)
	require.Equal(t, LoadStats{Loads: 2}, s.Load)
}

func TestThePolicyGivesLoadedValuesTheirLifetimes(t *testing.T) {
	for name, p := range map[string]expiry.Policy[string, int]{
		"by value":      expiry.Func(func(_ string, v int) time.Duration { return time.Duration(v) * time.Second }),
		"from creation": expiry.AfterCreate[string, int](7 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			clock := clockwork.NewFakeClock()
			c, o := loadingCache(t, Options[string, int]{Expiry: p, Clock: clock})
			o.set(7, nil)
			requireLoaded(t, 7, c, o.load)
			clock.Advance(5 * time.Second)
			begun, err := c.Refresh(bg, "k", o.load)
			require.NoError(t, err)
			require.True(t, begun)
			for c.Stats().Load.Loads < 2 {
				runtime.Gosched()
			}
			e, ok := c.Entry("k")
			require.True(t, ok)
			require.Equal(t, 7*time.Second, e.TTL, "a loaded value begins a life")
		})
	}
}

func TestP46_AValueThatHasExpiredOnArrivalReachesItsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var removed []Removal[string, int]
		c, o := loadingCache(t, Options[string, int]{
			Expiry:    expiry.Func(func(string, int) time.Duration { return -1 }),
			OnRemoval: func(r Removal[string, int]) { removed = append(removed, r) },
		})
		o.takes = time.Second
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() { requireLoaded(t, 1, c, o.load) })
		}
		waiting.Wait()
		c.Flush()
		require.Equal(t, 1, o.called())
		require.Len(t, removed, 1)
		require.Equal(t, Expired, removed[0].Cause)
		require.Zero(t, c.Len())
	})
}

func TestP45_AThousandCallersMakeOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		o.takes = time.Second
		var waiting sync.WaitGroup
		for range 1000 {
			waiting.Go(func() { requireLoaded(t, 1, c, o.load) })
		}
		waiting.Wait()
		require.Equal(t, 1, o.called())
		require.EqualValues(t, 1, c.Stats().Sets)
		require.EqualValues(t, 1000, c.Stats().Misses)
	})
}

func TestAWaiterLeavesWithItsContextAndTheLoadGoesOnForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		o.takes = 40 * time.Second
		first, cancel := context.WithCancel(bg)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := c.GetOrLoad(first, "k", o.load)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		waiting.Go(func() { requireLoaded(t, 1, c, o.load) })
		second, stop := context.WithTimeout(bg, time.Second)
		defer stop()
		_, err := c.GetOrLoad(second, "k", o.load)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		waiting.Wait()
		require.Equal(t, 1, o.called())
		require.NoError(t, o.last)
	})
}

func TestALoadThatNobodyWaitsForIsCancelledAndTheNextCallerBeginsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{ErrorTTL: time.Hour})
		release := make(chan struct{})
		stubborn := func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			<-release
			return 0, context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(bg)
		var left sync.WaitGroup
		for range 3 {
			left.Go(func() {
				_, err := c.GetOrLoad(ctx, "k", stubborn)
				require.Equal(t, context.Canceled, err)
			})
		}
		synctest.Wait()
		cancel()
		left.Wait()
		requireLoaded(t, 1, c, o.load) // while the first is still busy giving up
		close(release)
		synctest.Wait()
		requireLoaded(t, 1, c, o.load)
		require.Equal(t, 1, o.called())
		require.Equal(t, LoadStats{Loads: 2}, c.Stats().Load, "being cancelled is no failure to remember")
	})
}

func TestWhatAnAbandonedLoadBringsAllTheSameIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := c.GetOrLoad(ctx, "k", func(context.Context, string) (int, error) { time.Sleep(time.Minute); return 5, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Hour)
		requireLoaded(t, 5, c, o.load)
		require.Zero(t, o.called())
	})
}

func TestAContextThatHasEndedBeginsNoLoadButHits(t *testing.T) {
	c, o := loadingCache(t, Options[string, int]{})
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err := c.GetOrLoad(ctx, "k", o.load)
	require.Equal(t, context.Canceled, err)
	values, err := c.LoadAll(ctx, []string{"k"}, o.bulk)
	require.Equal(t, context.Canceled, err)
	require.Empty(t, values)
	require.Zero(t, o.called())
	c.Set("k", 3)
	v, err := c.GetOrLoad(ctx, "k", o.load)
	require.NoError(t, err)
	require.Equal(t, 3, v)
}

type contextKey struct{}

func TestP47_TheLoaderHasAContextWithValuesAndATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for timeout, want := range map[time.Duration]time.Duration{0: time.Minute, time.Second: time.Second, expiry.Never: 0} {
			c, _ := loadingCache(t, Options[string, int]{LoadTimeout: timeout})
			ctx, cancel := context.WithTimeout(context.WithValue(bg, contextKey{}, "trace"), time.Hour)
			_, err := c.GetOrLoad(ctx, "k", func(ctx context.Context, key string) (int, error) {
				require.Equal(t, "k", key)
				require.Equal(t, "trace", ctx.Value(contextKey{}))
				deadline, ok := ctx.Deadline()
				require.Equal(t, want > 0, ok)
				if ok {
					require.Equal(t, want, time.Until(deadline))
				}
				return 1, nil
			})
			require.NoError(t, err)
			cancel()
		}
		c, o := loadingCache(t, Options[string, int]{LoadTimeout: time.Second})
		o.takes = time.Minute
		_, err := c.GetOrLoad(bg, "k", o.load)
		require.Equal(t, context.DeadlineExceeded, err)
	})
}

func TestTheTimeoutOfLoadsGoesByAnInjectedClock(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, _ := loadingCache(t, Options[string, int]{Clock: clock, LoadTimeout: time.Hour})
	begun := make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := c.GetOrLoad(bg, "k", func(ctx context.Context, _ string) (int, error) {
			close(begun)
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		done <- err
	}()
	<-begun
	clock.Advance(time.Hour)
	require.ErrorIs(t, <-done, context.DeadlineExceeded)
}

func TestWaitersShareTheErrorItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		o.takes, o.err = time.Second, errTwice
		var waiting sync.WaitGroup
		for range 10 {
			waiting.Go(func() {
				v, err := c.GetOrLoad(bg, "k", o.load)
				require.Same(t, errTwice, err)
				require.Zero(t, v)
			})
		}
		waiting.Wait()
		require.Equal(t, 1, o.called())
		_, err := c.GetOrLoad(bg, "k", o.load)
		require.Same(t, errTwice, err)
		require.Equal(t, 2, o.called(), "nothing is remembered unless an option says so")
	})
}

func TestP51_ALoaderThatPanicsOrEndsItsGoroutineStrandsNobody(t *testing.T) {
	cause := errors.New("of the user's")
	for name, tc := range map[string]struct {
		load Loader[string, int]
		is   func(t *testing.T, e *PanicError)
	}{
		"panics": {func(context.Context, string) (int, error) { panic("oops") }, func(t *testing.T, e *PanicError) {
			require.Equal(t, "oops", e.Value)
			require.False(t, e.Goexit)
			require.Contains(t, string(e.Stack), "load_test.go")
			require.Contains(t, e.Error(), "wheelcache: the loader panicked: oops\n")
			require.NoError(t, e.Unwrap())
		}},
		"panics with an error": {func(context.Context, string) (int, error) { panic(cause) }, func(t *testing.T, e *PanicError) {
			require.ErrorIs(t, e, cause)
		}},
		"panics with nil": {func(context.Context, string) (int, error) { panic(nil) }, func(t *testing.T, e *PanicError) { //nolint:govet // it is the point
			require.ErrorContains(t, e, "panic called with nil argument")
		}},
		"ends its goroutine": {func(context.Context, string) (int, error) { runtime.Goexit(); return 0, nil }, func(t *testing.T, e *PanicError) {
			require.True(t, e.Goexit)
			require.Nil(t, e.Value)
			require.EqualError(t, e, "wheelcache: the loader ended its goroutine (runtime.Goexit)")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := loadingCache(t, Options[string, int]{})
				slowly := func(ctx context.Context, key string) (int, error) {
					time.Sleep(time.Second)
					return tc.load(ctx, key)
				}
				var waiting sync.WaitGroup
				var first atomic.Pointer[PanicError]
				for range 10 {
					waiting.Go(func() {
						v, err := c.GetOrLoad(bg, "k", slowly)
						require.Zero(t, v)
						var e *PanicError
						require.ErrorAs(t, err, &e)
						first.CompareAndSwap(nil, e)
						require.Same(t, first.Load(), e)
						tc.is(t, e)
					})
				}
				waiting.Wait()
				requireLoaded(t, 1, c, o.load)
				require.Equal(t, LoadStats{Loads: 2, Failures: 1}, c.Stats().Load)

				_, err := c.LoadAll(bg, []string{"a", "b"}, func(ctx context.Context, keys []string) (map[string]int, error) {
					v, err := tc.load(ctx, keys[0])
					return map[string]int{keys[0]: v}, err
				})
				var e *PanicError
				require.ErrorAs(t, err, &e)
				tc.is(t, e)
			})
		})
	}
}

// invalidations are the calls after which nothing may be stored that was being loaded
// when they were made, and what the key has afterwards, zero for nothing.
var invalidations = map[string]struct {
	do   func(c *Cache[string, int])
	left int
}{
	"Set":                  {func(c *Cache[string, int]) { c.Set("k", 9) }, 9},
	"SetTTL":               {func(c *Cache[string, int]) { c.SetTTL("k", 9, time.Hour) }, 9},
	"SetTTL of 0":          {func(c *Cache[string, int]) { c.SetTTL("k", 9, 0) }, 0},
	"SetDeadline":          {func(c *Cache[string, int]) { c.SetDeadline("k", 9, time.Now().Add(time.Hour)) }, 9},
	"GetOrSet":             {func(c *Cache[string, int]) { c.GetOrSet("k", 9) }, 9},
	"Delete":               {func(c *Cache[string, int]) { c.Delete("k") }, 0},
	"GetAndDelete":         {func(c *Cache[string, int]) { c.GetAndDelete("k") }, 0},
	"Clear":                {func(c *Cache[string, int]) { c.Clear() }, 0},
	"DeleteFunc":           {func(c *Cache[string, int]) { c.DeleteFunc(func(string, int) bool { return true }) }, 0},
	"Compute that stores":  {func(c *Cache[string, int]) { c.Compute("k", func(int, bool) (int, Op) { return 9, OpStore }) }, 9},
	"Compute that removes": {func(c *Cache[string, int]) { c.Compute("k", func(int, bool) (int, Op) { return 0, OpRemove }) }, 0},
}

func TestP43_WhatIsLoadedBeforeAnInvalidationIsNotStoredAfterIt(t *testing.T) {
	for name, tc := range invalidations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := loadingCache(t, Options[string, int]{})
				o.takes = 40 * time.Second
				var waiting sync.WaitGroup
				for range 3 {
					waiting.Go(func() { requireLoaded(t, 1, c, o.load) })
				}
				synctest.Wait()
				tc.do(c)
				o.set(2, nil)
				if tc.left == 0 {
					waiting.Go(func() { requireLoaded(t, 2, c, o.load) }) // another flight, of after the invalidation
				}
				synctest.Wait()
				require.Equal(t, map[bool]int{true: 2, false: 1}[tc.left == 0], o.called())
				waiting.Wait()
				v, _ := c.Get("k")
				require.Equal(t, map[bool]int{true: 2, false: tc.left}[tc.left == 0], v)
				require.EqualValues(t, 1, c.Stats().Load.Discarded)
			})
		})
	}
}

func TestP44_AWaiterGetsAnErrorAndNotZeroIfTheLoadFailsAfterAnInvalidation(t *testing.T) {
	for name, tc := range invalidations {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := loadingCache(t, Options[string, int]{StaleFor: time.Hour, NegativeTTL: time.Hour, ErrorTTL: time.Hour})
				o.takes = 40 * time.Second
				o.set(0, errDown)
				var waiting sync.WaitGroup
				for range 3 {
					waiting.Go(func() {
						_, err := c.GetOrLoad(bg, "k", o.load)
						require.Same(t, errDown, err)
						_, err = c.LoadAll(bg, []string{"k", "x"}, o.bulk)
						require.Error(t, err)
					})
				}
				synctest.Wait()
				tc.do(c)
				waiting.Wait()
			})
		})
	}
}

func TestP49_ARefreshCountsUnlessTheValueHasChanged(t *testing.T) {
	changes := map[string]struct {
		do   func(c *Cache[string, int])
		left int
	}{
		"Replace":          {func(c *Cache[string, int]) { c.Replace("k", 9) }, 9},
		"CompareAndSwap":   {func(c *Cache[string, int]) { CompareAndSwap(c, "k", 5, 9) }, 9},
		"CompareAndDelete": {func(c *Cache[string, int]) { CompareAndDelete(c, "k", 5) }, 0},
	}
	for name, tc := range invalidations {
		if name != "GetOrSet" {
			changes[name] = tc
		}
	}
	none := map[string]func(c *Cache[string, int]){
		"Move":              func(c *Cache[string, int]) { c.Move("k", time.Hour) },
		"Touch":             func(c *Cache[string, int]) { c.Touch("k") },
		"Compute, OpKeep":   func(c *Cache[string, int]) { c.Compute("k", func(int, bool) (int, Op) { return 0, OpKeep }) },
		"CompareAndSwap no": func(c *Cache[string, int]) { CompareAndSwap(c, "k", 4, 9) },
		"GetOrSet":          func(c *Cache[string, int]) { c.GetOrSet("k", 9) },
		"expiry":            func(*Cache[string, int]) {}, // it comes before the value does
	}
	for name, do := range none {
		changes[name] = struct {
			do   func(c *Cache[string, int])
			left int
		}{do, 1}
	}
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := loadingCache(t, Options[string, int]{TTL: 20 * time.Second})
				c.Set("k", 5)
				o.takes = 40 * time.Second
				begun, err := c.Refresh(bg, "k", o.load)
				require.True(t, begun)
				require.NoError(t, err)
				again, err := c.Refresh(bg, "k", o.load)
				require.False(t, again)
				require.NoError(t, err)
				tc.do(c)
				if tc.left == 9 {
					c.Move("k", expiry.Never)
				}
				time.Sleep(41 * time.Second)
				synctest.Wait()
				v, _ := c.Get("k")
				require.Equal(t, tc.left, v)
				require.Equal(t, map[bool]uint64{true: 0, false: 1}[tc.left == 1], c.Stats().Load.Discarded)
			})
		})
	}
}

func TestClearAndDeleteFuncSupersedeAllLoads(t *testing.T) {
	for name, do := range map[string]func(c *Cache[string, int]){
		"Clear":      func(c *Cache[string, int]) { c.Clear() },
		"DeleteFunc": func(c *Cache[string, int]) { c.DeleteFunc(func(string, int) bool { return false }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := loadingCache(t, Options[string, int]{})
				o.takes = 40 * time.Second
				var waiting sync.WaitGroup
				for i := range 200 {
					waiting.Go(func() {
						_, err := c.GetOrLoad(bg, strconv.Itoa(i), o.load)
						require.NoError(t, err)
					})
				}
				synctest.Wait()
				do(c)
				waiting.Wait()
				require.Zero(t, c.Len())
				require.EqualValues(t, 200, c.Stats().Load.Discarded)
			})
		})
	}
}

func TestNegativeResultsAreRememberedForNegativeTTL(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, o := loadingCache(t, Options[string, int]{Clock: clock, NegativeTTL: time.Minute})
	none := func(ctx context.Context, key string) (int, error) {
		_, _ = o.load(ctx, key)
		return 0, errTwice
	}
	ask := func(calls int) {
		t.Helper()
		_, err := c.GetOrLoad(bg, "k", none)
		require.Same(t, errTwice, err)
		require.Equal(t, calls, o.called())
	}
	ask(1)
	clock.Advance(time.Minute - 1)
	ask(1)
	_, ok := c.Get("k")
	require.False(t, ok)
	require.EqualValues(t, 1, c.Stats().Load.NegativeHits)
	clock.Advance(1)
	ask(2)
	for name, tc := range invalidations {
		if tc.left != 0 {
			continue
		}
		if name == "DeleteFunc" { // which is about values
			continue
		}
		calls := o.called()
		ask(calls)
		tc.do(c)
		ask(calls + 1)
	}
	c.Set("k", 3)
	requireLoaded(t, 3, c, none)
	c.Delete("k")
	ask(o.called() + 1)

	_, err := c.LoadAll(bg, []string{"k"}, func(context.Context, []string) (map[string]int, error) { panic("called") })
	require.ErrorIs(t, err, ErrNotFound)
	clock.Advance(time.Hour)
	c.Flush()
	require.Empty(t, c.shardOf("k").loads.failures.of, "what is due is forgotten, though nobody asks")
}

func TestErrorsAreRememberedForErrorTTLAndNotByDefault(t *testing.T) {
	for ttl, calls := range map[time.Duration]int{0: 3, time.Minute: 1} {
		clock := clockwork.NewFakeClock()
		c, o := loadingCache(t, Options[string, int]{Clock: clock, ErrorTTL: ttl})
		o.set(0, errDown)
		for range 3 {
			_, err := c.GetOrLoad(bg, "k", o.load)
			require.Same(t, errDown, err)
		}
		require.Equal(t, calls, o.called())
		clock.Advance(time.Minute)
		o.set(4, nil)
		requireLoaded(t, 4, c, o.load)
		require.EqualValues(t, 3-calls, c.Stats().Load.ErrorHits)
	}
}

func TestManyFailuresAreForgottenInTimeAndLeaveNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{Shards: 1, NegativeTTL: time.Second, ErrorTTL: time.Minute})
		for i := range 1000 {
			_, err := c.GetOrLoad(bg, "no"+strconv.Itoa(i), func(context.Context, string) (int, error) { return 0, ErrNotFound })
			require.Equal(t, ErrNotFound, err)
		}
		o.set(0, errDown)
		_, _ = c.GetOrLoad(bg, "k", o.load)
		f := &c.shards[0].loads.failures
		remembered := func() int {
			c.shards[0].mu.Lock()
			defer c.shards[0].mu.Unlock()
			return len(f.of)
		}
		require.Equal(t, 1001, remembered())
		time.Sleep(time.Second + defaultTick)
		synctest.Wait()
		require.Equal(t, 1, remembered())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, remembered())
		require.False(t, c.Armed())
		for kind := range f.queue {
			require.Nil(t, f.queue[kind])
		}
	})
}

func TestForgottenFailuresDoNotPileUpInTheQueue(t *testing.T) {
	c, _ := loadingCache(t, Options[string, int]{Shards: 1, NegativeTTL: time.Hour})
	for range 10_000 {
		_, err := c.GetOrLoad(bg, "k", func(context.Context, string) (int, error) { return 0, ErrNotFound })
		require.Equal(t, ErrNotFound, err)
		c.Delete("k")
	}
	require.LessOrEqual(t, len(c.shards[0].loads.failures.queue[failedNotFound]), 2*fewFlights)
}

func TestStaleValuesAreServedWhileTheLoaderFails(t *testing.T) {
	for _, errorTTL := range []time.Duration{0, time.Second} {
		clock := clockwork.NewFakeClock()
		var removed []Removal[string, int]
		c, o := loadingCache(t, Options[string, int]{
			TTL: time.Minute, StaleFor: time.Hour, ErrorTTL: errorTTL, Clock: clock,
			OnRemoval: func(r Removal[string, int]) { removed = append(removed, r) },
		})
		requireLoaded(t, 1, c, o.load)
		deadline := clock.Now().Add(time.Minute)
		o.set(0, errDown)
		clock.Advance(time.Minute)
		c.Flush()

		_, ok := c.Get("k")
		require.False(t, ok)
		_, ok = c.Peek("k")
		require.False(t, ok)
		require.False(t, c.Move("k", time.Hour))
		for range c.All() {
			t.Error("a stale entry is none")
		}
		e, ok := c.Entry("k")
		require.False(t, ok)
		require.Equal(t, Entry[string, int]{Key: "k", Value: 1, Deadline: deadline, Stale: true}, e)
		require.Equal(t, 1, c.Len())
		require.Empty(t, removed)

		for range 3 {
			requireLoaded(t, 1, c, o.load)
		}
		require.Equal(t, map[time.Duration]int{0: 4, time.Second: 2}[errorTTL], o.called())
		require.EqualValues(t, 3, c.Stats().Load.StaleHits)

		clock.Advance(time.Hour - 1)
		requireLoaded(t, 1, c, o.load)
		clock.Advance(1)
		_, err := c.GetOrLoad(bg, "k", o.load)
		require.Same(t, errDown, err)
		e, ok = c.Entry("k")
		require.False(t, ok)
		require.Zero(t, e)
		c.Flush()
		require.Zero(t, c.Len())
		require.Len(t, removed, 1)
		require.Equal(t, Expired, removed[0].Cause)
		require.Equal(t, deadline, removed[0].Deadline)
		require.Zero(t, removed[0].Late)

		o.set(6, nil)
		clock.Advance(time.Second)
		requireLoaded(t, 6, c, o.load)
	}
}

func TestStaleValuesAreNotServedOnceTheyAreKnownToBeGone(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, o := loadingCache(t, Options[string, int]{TTL: time.Minute, StaleFor: time.Hour, Clock: clock})
	for name, invalidate := range map[string]func(){
		"the loader says so": func() {
			_, err := c.GetOrLoad(bg, "k", func(context.Context, string) (int, error) { return 0, ErrNotFound })
			require.Equal(t, ErrNotFound, err)
		},
		"Delete": func() { require.False(t, c.Delete("k")) },
		"Clear":  func() { c.Clear() },
		"Compute": func() {
			c.Compute("k", func(int, bool) (int, Op) { return 0, OpRemove })
		},
	} {
		o.set(1, nil)
		requireLoaded(t, 1, c, o.load)
		clock.Advance(time.Minute)
		invalidate()
		o.set(0, errDown)
		_, err := c.GetOrLoad(bg, "k", o.load)
		require.Same(t, errDown, err, name)
	}
}

func TestEntriesAreRefreshedAheadOfTheirDeadlines(t *testing.T) {
	for name, o := range map[string]Options[string, int]{
		"duration":              {TTL: time.Minute, RefreshAfter: 40 * time.Second},
		"fraction":              {TTL: time.Minute, RefreshFraction: 2. / 3},
		"duration, of a policy": {Expiry: expiry.AfterWrite[string, int](time.Minute), RefreshAfter: 40 * time.Second},
		"fraction, of a policy": {Expiry: expiry.AfterCreate[string, int](time.Minute), RefreshFraction: 2. / 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := loadingCache(t, o)
				requireLoaded(t, 1, c, o.load)
				o.set(2, nil)
				o.takes = time.Second
				time.Sleep(40*time.Second - time.Millisecond)
				for range 100 {
					requireLoaded(t, 1, c, o.load)
				}
				synctest.Wait()
				require.Equal(t, 1, o.called(), "not before its time")
				time.Sleep(5*time.Second + 2*time.Millisecond) // a quarter of what is left
				for range 100 {
					requireLoaded(t, 1, c, o.load)
				}
				synctest.Wait()
				require.Equal(t, 2, o.called(), "once, in the background")
				time.Sleep(2 * time.Second)
				requireLoaded(t, 2, c, o.load)
				e, _ := c.Entry("k")
				require.Greater(t, e.TTL, 58*time.Second)
				s := c.Stats().Load
				require.Equal(t, LoadStats{Loads: 2, Refreshes: 1}, s)
			})
		})
	}
}

func TestEntriesOfOneMomentAreRefreshedOneAfterTheOther(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, _ := loadingCache(t, Options[string, int]{TTL: 100 * time.Second, RefreshAfter: 60 * time.Second, Clock: clock})
	const keys = 1000
	for i := range keys {
		c.Set(strconv.Itoa(i), i)
	}
	due := func() (n int) {
		for i := range keys {
			key := strconv.Itoa(i)
			if value, deadline, _ := c.read(key, 0); c.dueForRefresh(key, value, deadline) {
				n++
			}
		}
		return n
	}
	clock.Advance(60*time.Second - 1)
	require.Zero(t, due())
	for step, before := 1, 0; step <= 10; step++ {
		clock.Advance(time.Second)
		now := due()
		require.InDelta(t, keys/10, now-before, keys/20, "second %d", step) // five standard deviations
		before = now
	}
	clock.Advance(time.Nanosecond)
	require.Equal(t, keys, due())
}

func TestAFailedRefreshKeepsTheValueAndWaitsBeforeTheNext(t *testing.T) {
	for errorTTL, pause := range map[time.Duration]time.Duration{0: refreshPause, 5 * time.Second: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c, o := loadingCache(t, Options[string, int]{TTL: time.Minute, RefreshAfter: time.Second, ErrorTTL: errorTTL})
			requireLoaded(t, 1, c, o.load)
			o.set(0, errDown)
			time.Sleep(30 * time.Second)
			synctest.Wait() // for the driver: a read whose shard is locked refreshes nothing
			for i := range 10 {
				requireLoaded(t, 1, c, o.load)
				synctest.Wait()
				require.Equal(t, min(i+2, 2), o.called())
			}
			time.Sleep(pause)
			synctest.Wait()
			requireLoaded(t, 1, c, o.load)
			synctest.Wait()
			require.Equal(t, 3, o.called())
			e, ok := c.Entry("k")
			require.True(t, ok)
			require.Equal(t, 30*time.Second-pause, e.TTL, "the deadline stays")
			require.EqualValues(t, 2, c.Stats().Load.RefreshFailures)
		})
	}
}

func TestARefreshThatFindsNothingRemovesTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var removed []Cause
		c, _ := loadingCache(t, Options[string, int]{OnRemoval: func(r Removal[string, int]) { removed = append(removed, r.Cause) }})
		c.Set("k", 1)
		_, err := c.Refresh(bg, "k", func(context.Context, string) (int, error) { return 0, ErrNotFound })
		require.NoError(t, err)
		synctest.Wait()
		_, ok := c.Get("k")
		require.False(t, ok)
		require.Equal(t, []Cause{Deleted}, removed)
	})
}

func TestP50_ARefreshOutlivesItsCallerAndServesWhoFindsTheEntryExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{TTL: time.Minute})
		c.Set("k", 1)
		o.set(2, nil)
		o.takes = 50 * time.Second
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		time.Sleep(30 * time.Second)
		begun, err := c.Refresh(ctx, "k", o.load)
		require.True(t, begun)
		require.NoError(t, err)
		cancel()
		time.Sleep(30 * time.Second) // it has expired
		impatient, stop := context.WithTimeout(bg, time.Second)
		defer stop()
		_, err = c.GetOrLoad(impatient, "k", o.load)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		requireLoaded(t, 2, c, o.load)
		require.Equal(t, 1, o.called())
		require.NoError(t, o.last)
	})
}

func TestNoMoreThanMaxRefreshesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{TTL: time.Hour, RefreshAfter: time.Second, MaxRefreshes: 3})
		for i := range 100 {
			c.Set(strconv.Itoa(i), i)
		}
		o.takes = time.Second
		time.Sleep(30 * time.Minute)
		all := func() {
			for i := range 100 {
				_, err := c.GetOrLoad(bg, strconv.Itoa(i), o.load)
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		all()
		require.Equal(t, 3, o.called())
		time.Sleep(2 * time.Second)
		all()
		require.Equal(t, 6, o.called())
		time.Sleep(2 * time.Second)
	})
}

func TestEarlyRefreshesComeWithOddsThatGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{TTL: time.Hour, EarlyRefresh: 1})
		o.takes = 10 * time.Second
		requireLoaded(t, 1, c, o.load)
		odds := func() float64 {
			const draws = 20_000
			n := 0
			for range draws {
				if value, deadline, _ := c.read("k", 0); c.dueForRefresh("k", value, deadline) {
					n++
				}
			}
			return float64(n) / draws
		}
		require.Zero(t, odds(), "an hour is 360 load times")
		time.Sleep(time.Hour - 20*time.Second)
		require.InDelta(t, math.Exp(-2), odds(), 0.02) // eight standard deviations
		time.Sleep(10 * time.Second)
		require.InDelta(t, math.Exp(-1), odds(), 0.03)
		time.Sleep(9 * time.Second)
		require.InDelta(t, math.Exp(-.1), odds(), 0.03)
	})
}

func TestLoadAllLoadsWhatIsMissingWithOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{NegativeTTL: time.Minute})
		c.Set("there", 5)
		values, err := c.LoadAll(bg, []string{"a", "there", "b", "a", "none", "there", "c", "not either"}, o.bulk)
		require.Equal(t, map[string]int{"a": 1, "there": 5, "b": 1, "c": 1}, values)
		require.ErrorIs(t, err, ErrNotFound)
		var keys *KeysError[string]
		require.ErrorAs(t, err, &keys)
		require.Equal(t, []string{"none", "not either"}, keys.Keys)
		require.EqualError(t, err, "wheelcache: not found: [none not either]")
		require.Equal(t, []string{"a", "b", "none", "c", "not either"}, o.keys)

		values, err = c.LoadAll(bg, []string{"a", "b", "there"}, o.bulk)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"a": 1, "there": 5, "b": 1}, values)
		_, err = c.LoadAll(bg, []string{"none"}, o.bulk)
		require.ErrorIs(t, err, ErrNotFound)
		values, err = c.LoadAll(bg, nil, o.bulk)
		require.NoError(t, err)
		require.NotNil(t, values)
		require.Equal(t, 1, o.called())
	})
}

func TestLoadAllJoinsFlightsAndIsJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		o.takes = time.Second
		var waiting sync.WaitGroup
		waiting.Go(func() { requireLoaded(t, 1, c, o.load) })
		synctest.Wait()
		for range 3 {
			waiting.Go(func() {
				values, err := c.LoadAll(bg, []string{"a", "k", "b"}, o.bulk)
				require.NoError(t, err)
				require.Equal(t, map[string]int{"a": 1, "k": 1, "b": 1}, values)
			})
		}
		synctest.Wait()
		waiting.Go(func() {
			v, err := c.GetOrLoad(bg, "b", o.load)
			require.NoError(t, err)
			require.Equal(t, 1, v)
		})
		waiting.Wait()
		require.Len(t, o.keys, 3, "each key once")
	})
}

func TestALoadAllGoesOnWhileAnybodyWaitsForAnyOfItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		o.takes = 40 * time.Second
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := c.LoadAll(ctx, []string{"a", "k", "b"}, o.bulk)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		waiting.Go(func() { requireLoaded(t, 1, c, o.load) })
		other, stop := context.WithTimeout(bg, 2*time.Second)
		defer stop()
		waiting.Go(func() {
			_, err := c.LoadAll(other, []string{"a", "b", "c"}, o.bulk)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		waiting.Wait()
		require.Equal(t, 2, o.called(), "one for a, b and k, one for c")
		_, ok := c.Get("a")
		require.True(t, ok)
		time.Sleep(time.Minute)
		_, ok = c.Get("c")
		require.False(t, ok, "nobody waited for that")
	})
}

func TestAnErrorOfLoadAllIsThatOfAllItsKeys(t *testing.T) {
	c, o := loadingCache(t, Options[string, int]{})
	c.Set("there", 5)
	o.set(0, errDown)
	values, err := c.LoadAll(bg, []string{"a", "there", "b"}, o.bulk)
	require.Same(t, errDown, err)
	require.Equal(t, map[string]int{"there": 5}, values)
}

func TestKeysErrorsStayShort(t *testing.T) {
	e := &KeysError[int]{Keys: make([]int, 1000)}
	require.EqualError(t, e, "wheelcache: not found: [0 0 0 0 0 0 0 0 0 0] and 990 more keys")
}

func TestP48_KeysThatPrintAlikeHaveFlightsOfTheirOwn(t *testing.T) {
	type pair struct{ a, b string }
	c := mustNew(t, Options[pair, string]{})
	synced := make(chan struct{})
	var waiting sync.WaitGroup
	for _, k := range []pair{{"x y", "z"}, {"x", "y z"}} {
		waiting.Go(func() {
			v, err := c.GetOrLoad(bg, k, func(_ context.Context, k pair) (string, error) {
				select { // both are under way at once
				case synced <- struct{}{}:
				case <-synced:
				}
				return k.a + "|" + k.b, nil
			})
			require.NoError(t, err)
			require.Equal(t, k.a+"|"+k.b, v)
		})
	}
	waiting.Wait()
}

func TestAKeyThatIsNotEqualToItselfIsLoadedEachTimeAndLeavesNothing(t *testing.T) {
	c := mustNew(t, Options[float64, int]{NegativeTTL: time.Hour})
	for i := range 3 {
		v, err := c.GetOrLoad(bg, math.NaN(), func(context.Context, float64) (int, error) { return i, nil })
		require.NoError(t, err)
		require.Equal(t, i, v)
		_, err = c.GetOrLoad(bg, math.NaN(), func(context.Context, float64) (int, error) { return 0, ErrNotFound })
		require.Equal(t, ErrNotFound, err)
		_, err = c.LoadAll(bg, []float64{math.NaN(), 1}, func(context.Context, []float64) (map[float64]int, error) {
			return map[float64]int{1: 1}, nil
		})
		require.ErrorIs(t, err, ErrNotFound)
	}
	require.Equal(t, 1, c.Len())
	for i := range c.shards {
		if l := c.shards[i].loads; l != nil {
			require.Empty(t, l.flights)
			require.Empty(t, l.failures.of)
		}
	}
}

func TestLoadingOnAClosedCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := loadingCache(t, Options[string, int]{})
		c.Set("there", 5)
		o.takes = 50 * time.Second
		stubborn := func(context.Context, string) (int, error) { time.Sleep(2 * time.Hour); return 3, nil }
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := c.GetOrLoad(bg, "k", o.load)
			require.Equal(t, ErrClosed, err)
		})
		waiting.Go(func() {
			_, err := c.GetOrLoad(bg, "stubborn", stubborn)
			require.Equal(t, ErrClosed, err)
		})
		begun, err := c.Refresh(bg, "refreshed", stubborn)
		require.True(t, begun)
		require.NoError(t, err)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, c.Close())
		waiting.Wait()
		require.Equal(t, start, time.Now(), "nobody has to wait")
		synctest.Wait()
		require.Equal(t, ErrClosed, o.cause, "loaders are told")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		_, ok := c.Get("stubborn")
		require.False(t, ok)
		require.EqualValues(t, 2, c.Stats().Load.Discarded)
		require.EqualValues(t, 2, c.Stats().Refused)

		v, err := c.GetOrLoad(bg, "there", o.load)
		require.NoError(t, err)
		require.Equal(t, 5, v)
		_, err = c.GetOrLoad(bg, "absent", o.load)
		require.Equal(t, ErrClosed, err)
		values, err := c.LoadAll(bg, []string{"there", "absent"}, o.bulk)
		require.Equal(t, ErrClosed, err)
		require.Equal(t, map[string]int{"there": 5}, values)
		begun, err = c.Refresh(bg, "there", o.load)
		require.False(t, begun)
		require.NoError(t, err)
		require.Equal(t, 1, o.called())
	})
}

func TestBadInputOfLoadingIsRefusedClearly(t *testing.T) {
	c, o := loadingCache(t, Options[string, int]{})
	c.Set("k", 1)
	const nilLoader = "wheelcache: the loader is nil; it must be a function"
	const nilContext = "wheelcache: the context is nil; it must be one, such as context.Background()"
	for _, key := range []string{"k", "absent"} { // whether it would be needed or not
		_, err := c.GetOrLoad(bg, key, nil)
		require.EqualError(t, err, nilLoader)
		_, err = c.GetOrLoad(nil, key, o.load) //nolint:staticcheck // it is the point
		require.EqualError(t, err, nilContext)
		values, err := c.LoadAll(bg, []string{key}, nil)
		require.EqualError(t, err, nilLoader)
		require.NotNil(t, values)
		_, err = c.LoadAll(nil, []string{key}, o.bulk) //nolint:staticcheck // it is the point
		require.EqualError(t, err, nilContext)
		_, err = c.Refresh(bg, key, nil)
		require.EqualError(t, err, nilLoader)
		_, err = c.Refresh(nil, key, o.load) //nolint:staticcheck // it is the point
		require.EqualError(t, err, nilContext)
	}
	require.Zero(t, o.called())

	sliding := expiry.AfterAccess[string, int](time.Minute)
	for want, opts := range map[string]Options[string, int]{
		"wheelcache: Options.LoadTimeout is -1ns; it must be 0 (1m0s) or more":                                                                                  {LoadTimeout: -1},
		"wheelcache: Options.NegativeTTL is -1s; it must be 0 (not remembered) or more":                                                                         {NegativeTTL: -time.Second},
		"wheelcache: Options.ErrorTTL is -1s; it must be 0 (not remembered) or more":                                                                            {ErrorTTL: -time.Second},
		"wheelcache: Options.StaleFor is -1s; it must be 0 (nothing stale) or more":                                                                             {StaleFor: -time.Second},
		"wheelcache: Options.RefreshAfter is -1s; it must be 0 (no refreshes) or more":                                                                          {RefreshAfter: -time.Second},
		"wheelcache: Options.RefreshAfter is 1m0s; it must be less than Options.TTL (1m0s)":                                                                     {TTL: time.Minute, RefreshAfter: time.Minute},
		"wheelcache: Options.RefreshAfter or RefreshFraction is set, and entries do not expire; Options.TTL or Options.Expiry must be set":                      {RefreshAfter: time.Minute},
		"wheelcache: Options.RefreshFraction is 1; it must be 0 (no refreshes) or more, and less than 1":                                                        {TTL: 1, RefreshFraction: 1},
		"wheelcache: Options.RefreshFraction is -0.5; it must be 0 (no refreshes) or more, and less than 1":                                                     {TTL: 1, RefreshFraction: -.5},
		"wheelcache: Options.RefreshFraction is NaN; it must be 0 (no refreshes) or more, and less than 1":                                                      {TTL: 1, RefreshFraction: math.NaN()},
		"wheelcache: Options.RefreshAfter (1s) and Options.RefreshFraction (0.5) are both set; only one may be":                                                 {TTL: time.Minute, RefreshAfter: time.Second, RefreshFraction: .5},
		"wheelcache: Options.RefreshAfter or RefreshFraction is set, and reads move the deadlines of Options.Expiry; it must be a policy with Traits.ReadKeeps": {Expiry: sliding, RefreshFraction: .5},
		"wheelcache: Options.EarlyRefresh is -1; it must be 0 (no refreshes) or more, and finite":                                                               {EarlyRefresh: -1},
		"wheelcache: Options.EarlyRefresh is NaN; it must be 0 (no refreshes) or more, and finite":                                                              {EarlyRefresh: math.NaN()},
		"wheelcache: Options.EarlyRefresh is +Inf; it must be 0 (no refreshes) or more, and finite":                                                             {EarlyRefresh: math.Inf(1)},
		"wheelcache: Options.MaxRefreshes is -1; it must be 0 (64) or more":                                                                                     {MaxRefreshes: -1},
	} {
		_, err := New(opts)
		require.EqualError(t, err, want)
	}
}

func TestABeginnersUnhashableKeyLeavesNoFlight(t *testing.T) {
	c := mustNew(t, Options[any, int]{})
	require.Panics(t, func() {
		_, _ = c.LoadAll(bg, []any{1, []int{2}}, func(context.Context, []any) (map[any]int, error) { return nil, nil })
	})
	v, err := c.GetOrLoad(bg, any(1), func(context.Context, any) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, v)
}

// A callback that loads must not wait for the queue that it is to empty.
func TestOnRemovalMayLoadWhenItsQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *Cache[int, int]
		gate := make(chan struct{})
		loaded := 0
		c = mustNew(t, Options[int, int]{OnRemoval: func(r Removal[int, int]) {
			<-gate
			if r.Key >= 0 {
				v, err := c.GetOrLoad(bg, -1-r.Key, func(context.Context, int) (int, error) { return 1, nil })
				require.NoError(t, err)
				loaded += v
			}
		}})
		for i := range maxPending {
			c.SetTTL(i, i, 0)
		}
		close(gate)
		c.Flush()
		require.Equal(t, maxPending, loaded)
	})
}

func TestAPauseMakesDeadlinesLater(t *testing.T) {
	clock := clockwork.NewFakeClock()
	c, _ := loadingCache(t, Options[string, int]{TTL: time.Minute, Clock: clock})
	c.Set("k", 1)
	clock.Advance(59 * time.Second)
	c.Pause()
	c.Pause()
	clock.Advance(time.Hour)
	c.Flush()
	e, ok := c.Entry("k")
	require.True(t, ok)
	require.Equal(t, time.Second, e.TTL)
	require.Equal(t, clock.Now().Add(time.Second), e.Deadline)
	c.Set("during", 2)
	c.SetDeadline("until", 3, clock.Now().Add(time.Second))
	c.Resume()
	c.Resume()
	clock.Advance(time.Second - 1)
	c.Flush()
	require.Equal(t, 3, c.Len())
	_, ok = c.Get("k")
	require.True(t, ok)
	clock.Advance(1)
	for _, gone := range []string{"k", "until"} {
		_, ok = c.Get(gone)
		require.False(t, ok)
	}
	e, ok = c.Entry("during")
	require.True(t, ok)
	require.Equal(t, clock.Now().Add(59*time.Second), e.Deadline)
	clock.Advance(59 * time.Second)
	_, ok = c.Get("during")
	require.False(t, ok)
	c.Flush()
	require.Zero(t, c.Len())
}

func TestAPauseOnRealTimeIsLeftInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var removed []Removal[string, int]
		c, _ := loadingCache(t, Options[string, int]{TTL: time.Minute, OnRemoval: func(r Removal[string, int]) { removed = append(removed, r) }})
		c.Set("k", 1)
		for range 3 * wakeAfter {
			c.Get("k") // the coarse clock is awake
		}
		for range 3 {
			time.Sleep(10 * time.Second)
			c.Pause()
			time.Sleep(time.Hour)
			_, ok := c.Get("k")
			require.True(t, ok)
			c.Resume()
		}
		time.Sleep(20 * time.Second)
		_, ok := c.Get("k")
		require.True(t, ok)
		time.Sleep(10*time.Second + 3*time.Millisecond) // not to the nanosecond
		_, ok = c.Get("k")
		require.False(t, ok)
		time.Sleep(2 * defaultTick)
		synctest.Wait()
		require.Len(t, removed, 1, "the driver goes on after a pause")
		require.LessOrEqual(t, removed[0].Late, defaultTick)
	})
}

// A clock that panics in the midst of a LoadAll must leave no flight behind that
// nobody flies.
func TestALoadAllThatPanicsStrandsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for nth := range int64(8) {
			s := &saboteur{site: "Clock", strike: func() { panic("fault") }}
			c := mustNew(t, Options[string, int]{Clock: sabotagedClock{clockwork.NewFakeClock(), s}})
			o := &origin{value: 1}
			s.left.Store(nth + 1)
			run(func() { _, _ = c.LoadAll(bg, []string{"a", "b", "k"}, o.bulk) })
			synctest.Wait()
			s.left.Store(0)
			requireLoaded(t, 1, c, o.load)
		}
	})
}

func TestAClockThatEndsEveryGoroutineThatAsksStrandsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &saboteur{site: "Clock", strike: runtime.Goexit}
		c := mustNew(t, Options[string, int]{Clock: sabotagedClock{clockwork.NewFakeClock(), s}})
		o := &origin{value: 1}
		broken := make(chan struct{})
		fails := func(context.Context, string) (int, error) {
			<-broken
			panic("and the loader fails, too")
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			_, err := c.GetOrLoad(bg, "k", fails)
			require.Error(t, err)
		})
		waiting.Go(func() {
			_, err := c.LoadAll(bg, []string{"a", "b"}, func(context.Context, []string) (map[string]int, error) {
				<-broken
				return map[string]int{"a": 1, "b": 1}, nil
			})
			require.Error(t, err)
		})
		_, err := c.Refresh(bg, "c", fails)
		require.NoError(t, err)
		synctest.Wait()
		s.left.Store(math.MaxInt64)
		forever := s.strike
		s.strike = func() { s.left.Store(1); forever() } // the next who asks, too
		s.left.Store(1)
		close(broken)
		waiting.Wait()
		synctest.Wait()
		s.left.Store(0)
		for _, k := range []string{"k", "a", "b", "c"} {
			v, err := c.GetOrLoad(bg, k, o.load)
			require.NoError(t, err)
			require.Equal(t, 1, v)
		}
		require.EqualValues(t, defaultMaxRefreshes, c.loading.free.Load())
	})
}

func TestAnEntryThatComesWhileEntryLooksForAStaleOneIsLive(t *testing.T) {
	c, _ := loadingCache(t, Options[string, int]{TTL: time.Hour, StaleFor: time.Hour, Clock: clockwork.NewFakeClock()})
	c.Set("k", 1)
	s, hash := c.at("k")
	_, _, stale, live := s.stale(hash, "k", c.clock.now())
	require.True(t, live)
	require.False(t, stale)
}

func TestDeleteFuncRemovesStaleValuesThatMatch(t *testing.T) {
	clock := clockwork.NewFakeClock()
	var removed []Removal[string, int]
	c, o := loadingCache(t, Options[string, int]{
		StaleFor: time.Hour, Clock: clock, OnRemoval: func(r Removal[string, int]) { removed = append(removed, r) },
	})
	c.SetTTL("k", 1, time.Minute)
	c.SetTTL("other", 2, time.Minute)
	c.Set("live", 1)
	clock.Advance(time.Minute)
	require.Equal(t, 1, c.DeleteFunc(func(_ string, v int) bool { return v == 1 }), "what is stale is not counted")
	o.set(0, errDown)
	_, err := c.GetOrLoad(bg, "k", o.load)
	require.Same(t, errDown, err)
	v, err := c.GetOrLoad(bg, "other", o.load)
	require.NoError(t, err)
	require.Equal(t, 2, v)
	c.Flush()
	require.Len(t, removed, 2)
}

func TestAPauseBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := loadingCache(t, Options[string, int]{})
		c.SetTTL("k", 1, time.Nanosecond)
		c.Pause()
		time.Sleep(time.Hour)
		_, ok := c.Get("k")
		require.True(t, ok)
		c.Resume()
		time.Sleep(time.Nanosecond)
		_, ok = c.Get("k")
		require.False(t, ok)
	})
}

// Whoever reads the clock before a pause is published sees no later time than those
// who read it in the pause.
func TestTimeDoesNotGoBackWhenAPauseBegins(t *testing.T) {
	var p pauses
	p.stopped = true
	p.frozen.Store(unread)
	require.EqualValues(t, 70, p.instant(70), "the first reading counts")
	require.EqualValues(t, 70, p.instant(69))
	require.EqualValues(t, 70, p.instant(1000))
}

func TestKeysWithoutValueAreNamedInTheOrderOfAsking(t *testing.T) {
	c, o := loadingCache(t, Options[string, int]{NegativeTTL: time.Hour})
	_, err := c.LoadAll(bg, []string{"no 2"}, o.bulk)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = c.LoadAll(bg, []string{"no 1", "no 2", "yes", "no 3"}, o.bulk)
	var keys *KeysError[string]
	require.ErrorAs(t, err, &keys)
	require.Equal(t, []string{"no 1", "no 2", "no 3"}, keys.Keys)
}

func TestAChangeThatComesTooLateLeavesALoadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, Options[string, int]{TTL: time.Second})
		c.Set("k", 1)
		release := make(chan struct{})
		begun, err := c.Refresh(t.Context(), "k", func(context.Context, string) (int, error) {
			<-release
			return 2, nil
		})
		require.NoError(t, err)
		require.True(t, begun)
		synctest.Wait()
		_, ok := c.Compute("k", func(_ int, ok bool) (int, Op) {
			if ok {
				time.Sleep(time.Second) // and so the entry expires
				return 3, OpStore
			}
			return 0, OpKeep
		})
		require.False(t, ok)
		close(release)
		synctest.Wait()
		v, ok := c.Get("k")
		require.True(t, ok, "the load has been discarded")
		require.Equal(t, 2, v)
		require.Zero(t, c.Stats().Load.Discarded)
	})
}

// Whoever cannot wait any longer gets what is known by then, wherever it stands.
func TestLoadAllThatEndsEarlyReturnsWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, Options[string, int]{TTL: time.Second, ErrorTTL: time.Hour, StaleFor: time.Hour})
		c.Set("stale", 7)
		time.Sleep(2 * time.Second)
		v, err := c.GetOrLoad(bg, "stale", func(context.Context, string) (int, error) { return 0, errBroken })
		require.NoError(t, err)
		require.Equal(t, 7, v)
		gate := make(chan struct{})
		defer close(gate)
		for _, key := range []string{"slow", "slow too"} {
			go c.GetOrLoad(bg, key, func(context.Context, string) (int, error) { <-gate; return 1, nil })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		values, err := c.LoadAll(ctx, []string{"slow", "stale", "slow too"}, func(context.Context, []string) (map[string]int, error) {
			panic("there is nothing to load")
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, map[string]int{"stale": 7}, values)
	})
}
