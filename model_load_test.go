package wheelcache

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
)

// Loading, as the model knows it: one load at a time, each of which has landed before the
// next operation begins.

// modelLoading is what the options say of it.
type modelLoading struct {
	negativeTTL, errorTTL, staleFor, refreshAfter time.Duration
	refreshFraction                               float64
}

type modelFailure struct {
	err   error
	quiet bool // only refreshes are kept from being begun
	until int64
}

// A loadKind is what a loader does.
type loadKind uint8

const (
	loadsValue loadKind = iota
	loadsNothing
	loadsError
	loadPanics
	loadKinds
)

// A loadAnswer is what a loader answers.
type loadAnswer[V any] struct {
	kind  loadKind
	value V
}

func (a loadAnswer[V]) give() (V, error) {
	switch a.kind {
	case loadsNothing:
		return a.value, ErrNotFound // and nobody may see the value
	case loadsError:
		return a.value, errBroken
	case loadPanics:
		panic(errBroken)
	}
	return a.value, nil
}

// err is what those get who wait, but for the panic's stack.
func (a loadAnswer[V]) err() error {
	switch a.kind {
	case loadsNothing:
		return ErrNotFound
	case loadsError, loadPanics:
		return errBroken
	}
	return nil
}

// stale reports whether what is held, and has expired, may be served still.
func (m *model[K, V]) stale(key K) bool {
	e := m.held[key]
	return e != nil && m.live(key) == nil && m.now < m.due(e.deadline)
}

// remembered returns the failure of key, if it is not over.
func (m *model[K, V]) remembered(key K) (modelFailure, bool) {
	f, ok := m.failed[key]
	return f, ok && m.now < f.until
}

// find returns what there is for a key that has been missed, without a load.
func (m *model[K, V]) find(key K) (value V, err error, ok bool) {
	if m.closed {
		return value, ErrClosed, true
	}
	f, ok := m.remembered(key)
	switch {
	case !ok || f.quiet:
		return value, nil, false
	case errors.Is(f.err, ErrNotFound):
		m.stats.Load.NegativeHits++
	case m.stale(key):
		m.stats.Load.StaleHits++
		return m.held[key].value, nil, true
	default:
		m.stats.Load.ErrorHits++
	}
	return value, f.err, true
}

// land ends a load.
func (m *model[K, V]) land(key K, value V, err error, refresh bool) (V, error) {
	m.stats.Load.Loads++
	if err == nil {
		ttl := m.ttl
		if m.rules != nil {
			ttl = m.rules.create(key, value)
		}
		m.store(key, value, ttl)
		return value, nil
	}
	ttl, quiet := m.loading.errorTTL, false
	var served V
	if errors.Is(err, ErrNotFound) {
		m.stats.Load.NotFound++
		ttl = m.loading.negativeTTL
		if m.held[key] != nil {
			m.leave(key, Deleted)
		}
	} else {
		m.stats.Load.Failures++
		if refresh {
			m.stats.Load.RefreshFailures++
		}
		if ttl == 0 && refresh {
			ttl, quiet = time.Second, true
		}
	}
	delete(m.failed, key)
	if ttl > 0 {
		m.failed[key] = modelFailure{err, quiet, m.after(ttl)}
	}
	if !errors.Is(err, ErrNotFound) && m.stale(key) {
		m.stats.Load.StaleHits++
		return m.held[key].value, nil
	}
	return served, err
}

// GetOrLoad leaves out that a hit may begin a refresh.
func (m *model[K, V]) GetOrLoad(key K, a loadAnswer[V]) (V, error) {
	if value, ok := m.read(key); ok {
		return value, nil
	}
	if value, err, ok := m.find(key); ok {
		return value, err
	}
	return m.land(key, a.value, a.err(), false)
}

func (m *model[K, V]) LoadAll(keys []K, a loadAnswer[V], has func(K) bool) (map[K]V, error) {
	values := make(map[K]V)
	var failed error
	var none []K
	note := func(key K, value V, err error) {
		switch {
		case err == nil:
			values[key] = value
		case errors.Is(err, ErrNotFound):
			none = append(none, key)
		default:
			failed = err
		}
	}
	var missed, loaded []K
	seen := make(map[K]bool)
	for _, k := range keys {
		if seen[k] {
			continue
		}
		seen[k] = true
		if value, ok := m.read(k); ok {
			note(k, value, nil)
		} else {
			missed = append(missed, k)
		}
	}
	type result struct {
		value V
		err   error
	}
	results := make(map[K]result)
	for _, k := range missed {
		if value, err, ok := m.find(k); ok {
			results[k] = result{value, err}
		} else {
			loaded = append(loaded, k)
		}
	}
	for _, k := range loaded {
		err := a.err()
		if err == nil && !has(k) {
			err = ErrNotFound
		}
		value, err := m.land(k, a.value, err, false)
		results[k] = result{value, err}
	}
	for _, k := range missed { // in the order of asking
		note(k, results[k].value, results[k].err)
	}
	switch {
	case failed != nil:
		return values, failed
	case none != nil:
		return values, &KeysError[K]{none}
	}
	return values, nil
}

// mayRefresh reports whether a refresh of key can be begun.
func (m *model[K, V]) mayRefresh(key K) bool {
	_, failed := m.remembered(key)
	return !m.closed && !failed
}

func (m *model[K, V]) Refresh(key K, a loadAnswer[V]) {
	m.stats.Load.Refreshes++
	m.land(key, a.value, a.err(), true)
}

// dueForRefresh reports whether a hit may begin a refresh and whether it must. In
// between, it depends on the entry.
func (m *model[K, V]) dueForRefresh(key K) (may, must bool) {
	e, l := m.live(key), m.loading
	if e == nil || e.deadline == never || l.refreshAfter == 0 && l.refreshFraction == 0 || !m.mayRefresh(key) {
		return false, false
	}
	ttl := m.ttl
	if m.rules != nil {
		ttl = m.rules.create(key, e.value)
	}
	if m.maxAge > 0 {
		ttl = min(ttl, m.maxAge)
	}
	last := max(ttl-l.refreshAfter, 0)
	if l.refreshFraction > 0 {
		last = ttl - time.Duration(float64(ttl)*l.refreshFraction)
	}
	spread := last/4 + last>>50 + 1
	return m.remaining(e) <= last, m.remaining(e) <= last-spread
}

// --- the cache, and both ---

// sameError compares errors but for the stack of a panic.
func (w *modelled[K, V]) sameError(op string, want, got error) {
	w.t.Helper()
	var wantKeys, gotKeys *KeysError[K]
	switch {
	case errors.As(want, &wantKeys):
		require.ErrorAs(w.t, got, &gotKeys, op)
		require.Equal(w.t, wantKeys.Keys, gotKeys.Keys, op)
	case want == nil:
		require.NoError(w.t, got, op)
	default:
		require.ErrorIs(w.t, got, want, op)
	}
}

// refreshOf returns the flight that a refresh has just begun, nil if it has not. It is
// held up until gate is closed.
func (w *modelled[K, V]) refreshOf(k K) *flight[V] {
	s, _ := w.cache.at(k)
	s.lock()
	defer s.mu.Unlock()
	if s.loads == nil {
		return nil
	}
	return s.loads.flights[k]
}

// room sees to it that no refresh is left out because many removals wait for OnRemoval.
func (w *modelled[K, V]) room() {
	if w.cache.removals.pending() > maxPending/2 {
		w.flush()
	}
}

func (w *modelled[K, V]) getOrLoad(k K, a loadAnswer[V]) {
	w.room()
	for tries := 0; ; tries++ {
		gate := make(chan struct{})
		may, must := w.model.dueForRefresh(k)
		if !may {
			close(gate)
		}
		want, wantErr := w.model.GetOrLoad(k, a)
		got, err := w.cache.GetOrLoad(bg, k, func(_ context.Context, key K) (V, error) {
			<-gate
			w.reenter(key)
			same(w.t, "loader's key", k, key)
			return a.give()
		})
		same(w.t, "GetOrLoad", want, got)
		w.sameError("GetOrLoad", wantErr, err)
		w.evictions()
		if !may {
			return
		}
		f := w.refreshOf(k)
		close(gate)
		if f != nil {
			<-f.done
			w.model.Refresh(k, a)
			w.evictions()
			return
		}
		if !must {
			return
		}
		// The driver may have had the lock, for which a hit does not wait.
		require.Less(w.t, tries, 1_000_000, "no refresh begins")
		runtime.Gosched()
	}
}

func (w *modelled[K, V]) loadAll(keys []K, a loadAnswer[V], has func(K) bool) {
	want, wantErr := w.model.LoadAll(keys, a, has)
	got, err := w.cache.LoadAll(bg, keys, func(_ context.Context, keys []K) (map[K]V, error) {
		values := make(map[K]V)
		value, err := a.give()
		for _, k := range keys {
			if has(k) {
				values[k] = value
			}
		}
		return values, err
	})
	w.sameError("LoadAll", wantErr, err)
	if !maps.Equal(want, got) {
		require.Equal(w.t, want, got, "LoadAll")
	}
	w.evictions()
}

func (w *modelled[K, V]) refresh(k K, a loadAnswer[V]) {
	w.room()
	gate := make(chan struct{})
	may := w.model.mayRefresh(k)
	begun, err := w.cache.Refresh(bg, k, func(context.Context, K) (V, error) {
		<-gate
		return a.give()
	})
	require.NoError(w.t, err)
	same(w.t, "Refresh", may, begun)
	f := w.refreshOf(k)
	close(gate)
	if begun {
		<-f.done
		w.model.Refresh(k, a)
		w.evictions()
	}
}

func (w *modelled[K, V]) pause() {
	w.model.paused = true
	w.cache.Pause()
}

func (w *modelled[K, V]) resume() {
	w.model.paused = false
	w.cache.Resume()
}

// --- what check has found ---

// A source that fails again and again, for a key that is deleted in between, while time
// stands still: what is remembered of it is one failure, and must not take up more.
func TestTheQueueOfFailuresDoesNotGrowWhileTimeStandsStill(t *testing.T) {
	c := mustNew(t, Options[int, int]{Shards: 1, ErrorTTL: time.Minute, Clock: clockwork.NewFakeClock()})
	for range 1000 {
		_, err := c.GetOrLoad(bg, 1, func(context.Context, int) (int, error) { return 0, errBroken })
		require.ErrorIs(t, err, errBroken)
		c.Delete(1)
		_, err = c.GetOrLoad(bg, 2, func(context.Context, int) (int, error) { return 0, errBroken })
		require.ErrorIs(t, err, errBroken) // or it would be forgotten as a whole
	}
	checkLanded(t, c)
}

// A loader that looks whether it is still wanted must be told so at once, on a fake clock
// as on real time.
func TestALoaderMayAskItsContextForItsErrorOnAFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustNew(t, Options[int, int]{Clock: clockwork.NewFakeClock()})
		v, err := c.GetOrLoad(bg, 1, func(ctx context.Context, _ int) (int, error) { return 7, ctx.Err() })
		require.NoError(t, err)
		require.Equal(t, 7, v)
	})
}

// A clock that is not itself a FakeClock.
type wrappedClock struct{ *clockwork.FakeClock }

func TestLoadTimeoutGoesByAnInjectedClockThatIsWrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := wrappedClock{clockwork.NewFakeClock()}
		c := mustNew(t, Options[int, int]{Clock: clock, LoadTimeout: time.Second})
		began := time.Now()
		_, err := c.GetOrLoad(bg, 1, func(ctx context.Context, _ int) (int, error) {
			clock.Advance(time.Second)
			<-ctx.Done()
			return 0, errBroken
		})
		require.ErrorIs(t, err, errBroken)
		require.Zero(t, time.Since(began), "it was cancelled by another clock")
	})
}
