package wheelcache

import (
	"github.com/stretchr/testify/require"
)

// A bound, as the model knows it. Which entries are evicted is the cache's choice: the
// model is told, and judges whether they could be, and whether any had to.

// A modelBound says how much may be held.
type modelBound[K, V comparable] struct {
	most  int64
	cost  func(K, V) int64 // less than 0: the value is refused
	slack int64            // what shards may have that they do not use
}

// A modelChoice is an event that may be of the cache's choice.
type modelChoice[K comparable] struct {
	key    K
	number int // of the key's events
}

// costOf returns what a value costs, and what kind of refusal that is, if it is one.
func (m *model[K, V]) costOf(key K, value V) int64 {
	if m.bound == nil {
		return 0
	}
	cost := m.bound.cost(key, value)
	switch {
	case cost < 0:
		return badCost
	case cost > m.bound.most:
		return tooLarge
	}
	return cost
}

// refuse is for a value that is not stored for its cost.
func (m *model[K, V]) refuse(key K, value V, cost int64) {
	if cost == badCost {
		m.stats.BadCosts++
	} else {
		m.stats.TooLarge++
	}
	m.event(key, value, Evicted, m.now)
}

// used returns what all entries cost.
func (m *model[K, V]) used() (sum int64) {
	if m.bound != nil {
		for _, e := range m.held {
			sum += e.cost
		}
	}
	return sum
}

// evictions tells the model what the cache has removed of its own accord, as it may, and
// then expects that the bound is kept.
func (w *modelled[K, V]) evictions() {
	t, m := w.t, w.model
	if m.bound == nil {
		return
	}
	t.Helper()
	w.cache.removals.await(func() bool { return w.cache.removals.pending() == 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	used := m.used()
	for _, c := range w.chosen { // in this order there was a reason for each
		k := c.key
		if c.number < len(m.events[k]) {
			continue // the model has come to it by itself
		}
		got, e := w.events[k][c.number], m.held[k]
		require.NotNil(t, e, "%v of %v, which is not there", got.cause, k)
		if got.cause != Evicted {
			require.Nil(t, m.live(k), "%v of %v, which is live", got.cause, k)
		} else {
			require.NotNil(t, m.live(k), "%v of %v, which has expired", got.cause, k)
			require.Positive(t, e.cost, "%v of %v, which is pinned", got.cause, k)
			require.Greater(t, used, m.bound.most-m.bound.slack, "eviction of %v though there is room", k)
		}
		used -= e.cost
		m.leave(k, got.cause)
	}
	w.chosen = w.chosen[:0]
	require.LessOrEqual(t, used, m.bound.most, "more than the bound")
}

// boundBy gives the model the bound of the cache.
func (w *modelled[K, V]) boundBy(most int64, cost func(K, V) int64) {
	w.model.bound = &modelBound[K, V]{cost: cost}
	w.setBound(most)
}

func (w *modelled[K, V]) setBound(most int64) {
	b := w.model.bound
	b.most = most
	// Each has up to twice a chunk, as large as chunks have been at any time.
	b.slack = max(b.slack, int64(len(w.cache.shards))*2*w.cache.bound.chunk())
}

func (w *modelled[K, V]) resize(most int64) {
	if w.model.bound == nil {
		require.Error(w.t, w.cache.Resize(most))
		return
	}
	w.model.bound.most = most
	require.NoError(w.t, w.cache.Resize(most))
	w.setBound(most)
	w.evictions()
}
