package proof

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheelcache/wheelcache"
)

// No test here may leave a goroutine behind, those that record histories included.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// used calls everything that the histories know, from several goroutines.
func used(t *testing.T, s setup) subject {
	t.Helper()
	var clock clockwork.Clock
	var fake *clockwork.FakeClock
	began := time.Now()
	if s.fake() {
		fake = clockwork.NewFakeClock()
		began, clock = fake.Now(), fake
	}
	cache := s.make(t, s, clock)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for round := range 20 {
				for o := range calls {
					use(cache, o, i, round, began)
				}
				for key := range 100 {
					cache.crowd(100*(i+1)+key, time.Duration(1+key*10_000))
				}
				if fake != nil {
					fake.Advance(s.tick)
				}
			}
			for key := range 50 {
				cache.disperse(100*(i+1) + key)
			}
		})
	}
	all.Wait()
	cache.crowd(1_000_000, time.Hour) // a timer is pending
	return cache
}

// use makes one call of a kind.
func use(cache subject, o op, key, round int, began time.Time) {
	number := int64(round + 1)
	switch o {
	case opSee:
		cache.all(key)
	case opClear:
		cache.clear()
	case opDeleteFunc:
		cache.deleteFunc(func(k int, _ int64) bool { return k == key })
	case opLoadAll:
		_, _ = cache.loadAll([]int{key, key + 1}, func(keys []int) map[int]int64 { return map[int]int64{keys[0]: number} })
	default:
		l := &load{number: number, outcome: outcome(round % 3), panics: round%4 == 2, work: runtime.Gosched}
		l.now = func() moment { return moment{} }
		cache.do(call{op: o, key: key, value: number, ttl: time.Hour, deadline: int64(time.Hour), load: l}, began)
	}
}

// each runs a test for every configuration. goleak waits a while for goroutines
// that are about to end.
func each(t *testing.T, test func(t *testing.T, s setup)) {
	t.Helper()
	for _, s := range setups() {
		if s.timing != bubble { // where synctest sees to it
			t.Run(s.name, func(t *testing.T) {
				test(t, s)
				goleak.VerifyNone(t)
			})
		}
	}
}

func TestNoGoroutineIsLeftByAClosedCache(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		cache := used(t, s)
		require.NoError(t, cache.close())
		for o := range calls { // removing goes on, and so do reads
			use(cache, o, 1, 0, time.Time{})
		}
		require.NoError(t, cache.close())
	})
}

func TestNoGoroutineIsLeftByADroppedCache(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		used(t, s)
		runtime.GC()
	})
}

// Nothing has been dropped, and nothing closed: entries wait, and so does a timer.
func TestNoGoroutineRunsInAnIdleCache(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		cache := used(t, s)
		goleak.VerifyNone(t)
		require.NotZero(t, cache.stats().Entries)
		runtime.KeepAlive(cache)
	})
}

func TestNoGoroutineRunsInAnEmptyCache(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		var clock clockwork.Clock
		if s.fake() {
			clock = clockwork.NewFakeClock()
		}
		cache := s.make(t, s, clock)
		goleak.VerifyNone(t)
		runtime.KeepAlive(cache)
	})
}

// loadingCache is one whose loads end with their contexts, at the latest.
func loadingCache(t *testing.T, o wheelcache.Options[int, int]) *wheelcache.Cache[int, int] {
	t.Helper()
	o.OnRemoval = func(wheelcache.Removal[int, int]) {}
	c, err := wheelcache.New(o)
	require.NoError(t, err)
	return c
}

// waiting is a loader that says when it has begun, and waits for the end of its context.
func waiting(begun chan<- struct{}) wheelcache.Loader[int, int] {
	return func(ctx context.Context, _ int) (int, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
}

// byAnyClock runs a test on real time and on a fake clock.
func byAnyClock(t *testing.T, test func(t *testing.T, clock *clockwork.FakeClock, o wheelcache.Options[int, int])) {
	t.Helper()
	t.Run("real time", func(t *testing.T) { test(t, nil, wheelcache.Options[int, int]{}) })
	t.Run("fake clock", func(t *testing.T) {
		clock := clockwork.NewFakeClock()
		test(t, clock, wheelcache.Options[int, int]{Clock: clock})
	})
}

func TestNoGoroutineIsLeftByLoadsThatCloseEnds(t *testing.T) {
	byAnyClock(t, func(t *testing.T, _ *clockwork.FakeClock, o wheelcache.Options[int, int]) {
		const one, another, present, absent = 1, 2, 3, 4
		c := loadingCache(t, o)
		c.Set(present, 1)
		begun := make(chan struct{}, 8) // there are as many calls at most
		told := make(chan error, 4)
		for range 3 {
			go func() {
				_, err := c.GetOrLoad(t.Context(), one, waiting(begun))
				told <- err
			}()
		}
		<-begun
		go func() {
			_, err := c.LoadAll(t.Context(), []int{one, another}, func(ctx context.Context, _ []int) (map[int]int, error) {
				_, err := waiting(begun)(ctx, another)
				return nil, err
			})
			told <- err
		}()
		<-begun
		for key, begins := range map[int]bool{one: false, present: true, absent: true} {
			refreshed, err := c.Refresh(t.Context(), key, waiting(begun))
			require.NoError(t, err)
			require.Equal(t, begins, refreshed)
			if refreshed {
				<-begun
			}
		}
		c.Delete(one) // its load goes on, superseded
		require.NoError(t, c.Close())
		for range cap(told) {
			require.ErrorIs(t, <-told, wheelcache.ErrClosed)
		}
		goleak.VerifyNone(t)
	})
}

func TestNoGoroutineIsLeftByLoadsWhoseTimeIsUp(t *testing.T) {
	byAnyClock(t, func(t *testing.T, clock *clockwork.FakeClock, o wheelcache.Options[int, int]) {
		o.LoadTimeout = time.Millisecond
		c := loadingCache(t, o)
		begun := make(chan struct{}, 2)
		refreshed, err := c.Refresh(t.Context(), 2, waiting(begun))
		require.NoError(t, err)
		require.True(t, refreshed)
		told := make(chan error)
		go func() {
			_, err := c.GetOrLoad(t.Context(), 1, waiting(begun))
			told <- err
		}()
		<-begun
		<-begun
		if clock != nil {
			clock.Advance(o.LoadTimeout)
		}
		require.ErrorIs(t, <-told, context.DeadlineExceeded)
		goleak.VerifyNone(t) // before Close, too
		require.NoError(t, c.Close())
		goleak.VerifyNone(t)
	})
}

func TestNoGoroutineIsLeftByLoadsThatNobodyWaitsFor(t *testing.T) {
	byAnyClock(t, func(t *testing.T, _ *clockwork.FakeClock, o wheelcache.Options[int, int]) {
		c := loadingCache(t, o)
		begun := make(chan struct{}, 2)
		ctx, leave := context.WithCancel(t.Context())
		told := make(chan error, 2)
		for range cap(told) {
			go func() {
				_, err := c.GetOrLoad(ctx, 1, waiting(begun))
				told <- err
			}()
		}
		<-begun
		leave()
		for range cap(told) {
			require.ErrorIs(t, <-told, context.Canceled)
		}
		goleak.VerifyNone(t)
		require.NoError(t, c.Close())
	})
}

func TestNoGoroutineIsLeftByLoadersThatBreak(t *testing.T) {
	byAnyClock(t, func(t *testing.T, _ *clockwork.FakeClock, o wheelcache.Options[int, int]) {
		o.ErrorTTL = time.Hour // a timer is pending
		c := loadingCache(t, o)
		for key, loader := range []wheelcache.Loader[int, int]{
			func(context.Context, int) (int, error) { panic("broken") },
			func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil },
			func(context.Context, int) (int, error) { return 0, errors.New("broken") },
		} {
			_, err := c.GetOrLoad(t.Context(), key, loader)
			require.Error(t, err)
			_, err = c.Refresh(t.Context(), 10+key, loader)
			require.NoError(t, err)
		}
		goleak.VerifyNone(t)
		require.NoError(t, c.Close())
		goleak.VerifyNone(t)
	})
}

// Close does not wait for a loader that does not look at its context. It is seen, so the
// tests above would see others.
func TestTheGoroutineOfALoaderThatGoesOnAfterCloseIsSeen(t *testing.T) {
	c := loadingCache(t, wheelcache.Options[int, int]{})
	begun, end := make(chan struct{}), make(chan struct{})
	refreshed, err := c.Refresh(t.Context(), 1, func(context.Context, int) (int, error) {
		close(begun)
		<-end
		return 1, nil
	})
	require.NoError(t, err)
	require.True(t, refreshed)
	<-begun
	require.NoError(t, c.Close())
	require.ErrorContains(t, goleak.Find(), "fly")
	close(end)
	goleak.VerifyNone(t)
}

// That goleak finds nothing means something only if it finds what is there.
func TestTheGoroutineOfAnUnfinishedOnRemovalIsSeen(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	c, err := wheelcache.New(wheelcache.Options[int, int]{OnRemoval: func(wheelcache.Removal[int, int]) {
		close(entered)
		<-leave
	}})
	require.NoError(t, err)
	c.Set(1, 1)
	c.Delete(1)
	<-entered
	require.ErrorContains(t, goleak.Find(), "dispatch")
	close(leave)
	require.NoError(t, c.Close())
	goleak.VerifyNone(t)
}
