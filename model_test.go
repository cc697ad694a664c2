package wheelcache

import (
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A model is the obviously correct cache: a map, and a look at every deadline
// whenever time has passed. It knows nothing of shards, wheels, policies'
// traits or coarse clocks.
type model[K, V comparable] struct {
	ttl    time.Duration        // what Set gives, if there are no rules
	rules  *modelRules[K, V]    // of the policy
	maxAge time.Duration        // likewise, 0 for none
	tick   int64                // nanoseconds
	now    int64                // nanoseconds since the cache was made
	closed bool                 //
	held   map[K]*modelEntry[V] // dead ones too, until somebody notices
	events map[K][]modelEvent[V]
	stats  Stats

	bound   *modelBound[K, V] // nil for none
	loading modelLoading
	failed  map[K]modelFailure // remembered
	paused  bool
	stood   int64 // for how long time has stood still altogether
}

type modelRules[K, V comparable] struct {
	create       func(K, V) time.Duration
	update, read func(k K, v V, remaining time.Duration) time.Duration
}

type modelEntry[V comparable] struct {
	value    V
	deadline int64 // math.MaxInt64: never
	latest   int64 // that the deadline may be: never if there is no greatest age
	reclaim  int64 // when Flush has to remove it: its deadline, but for one tick in 2^32
	cost     int64
}

// A modelEvent is a removal, but for its key.
type modelEvent[V comparable] struct {
	value    V
	cause    Cause
	deadline int64
	late     time.Duration
}

const never = int64(math.MaxInt64)

func newModel[K, V comparable](ttl, tick time.Duration, rules *modelRules[K, V]) *model[K, V] {
	if ttl == 0 {
		ttl = expiry.Never
	}
	return &model[K, V]{
		failed: make(map[K]modelFailure),
		ttl:    ttl, tick: int64(tick), rules: rules,
		held: make(map[K]*modelEntry[V]), events: make(map[K][]modelEvent[V]),
	}
}

// after returns the instant of a lifetime's end.
func (m *model[K, V]) after(ttl time.Duration) int64 {
	if ttl == expiry.Never || ttl > 0 && m.now > math.MaxInt64-int64(ttl) {
		return never
	}
	return m.now + int64(ttl)
}

func (m *model[K, V]) remaining(e *modelEntry[V]) time.Duration {
	if e.deadline == never {
		return expiry.Never
	}
	return time.Duration(e.deadline - m.now)
}

// live returns the entry of key, nil if it is absent or expired.
func (m *model[K, V]) live(key K) *modelEntry[V] {
	if e := m.held[key]; e != nil && m.now < e.deadline {
		return e
	}
	return nil
}

// due returns when what has that deadline cannot be served stale any more.
func (m *model[K, V]) due(deadline int64) int64 {
	return sum(deadline, int64(m.loading.staleFor))
}

// sum adds a duration to an instant.
func sum(instant, d int64) int64 {
	if instant > math.MaxInt64-d {
		return never
	}
	return instant + d
}

func (m *model[K, V]) leave(key K, cause Cause) {
	e := m.held[key]
	if m.live(key) == nil {
		cause = Expired
	}
	delete(m.held, key)
	m.event(key, e.value, cause, e.deadline)
}

func (m *model[K, V]) event(key K, value V, cause Cause, deadline int64) {
	e := modelEvent[V]{value, cause, sum(deadline, m.stood), 0}
	switch cause {
	case Expired:
		m.stats.Expired++
		e.late = time.Duration(max(m.now-m.due(deadline), 0))
		m.stats.Lateness.Count++
		m.stats.Lateness.Sum += e.late
		m.stats.Lateness.Max = max(m.stats.Lateness.Max, e.late)
	case Deleted:
		m.stats.Deleted++
	case Replaced:
		m.stats.Replaced++
	case Cleared:
		m.stats.Cleared++
	case Evicted:
		m.stats.Evicted++
	}
	m.events[key] = append(m.events[key], e)
}

func (m *model[K, V]) refuses() bool {
	if m.closed {
		m.stats.Refused++
	}
	return m.closed
}

// moveTo gives an entry a deadline. Ticks that are multiples of 2^32 are left
// out: what is due in one of them may stay for another tick.
func (m *model[K, V]) moveTo(e *modelEntry[V], deadline int64) {
	deadline = min(deadline, e.latest)
	e.deadline, e.reclaim = deadline, m.due(deadline)
	last := max(e.reclaim, m.now+1)
	tick := last / m.tick
	if last%m.tick > 0 {
		tick++
	}
	if uint32(tick) == 0 {
		e.reclaim = (tick + 1) * m.tick
	}
}

func (m *model[K, V]) store(key K, value V, ttl time.Duration) {
	if m.refuses() {
		return
	}
	delete(m.failed, key)
	m.stats.Sets++
	if m.held[key] != nil {
		m.leave(key, Replaced)
	}
	cost := m.costOf(key, value)
	switch {
	case cost < 0:
		m.refuse(key, value, cost)
		return
	case ttl <= 0:
		m.event(key, value, Expired, m.now)
		return
	}
	e := &modelEntry[V]{value: value, latest: never, cost: cost}
	if m.maxAge > 0 {
		e.latest = m.after(m.maxAge)
	}
	m.moveTo(e, m.after(ttl))
	m.held[key] = e
}

// lifetime returns what Set gives.
func (m *model[K, V]) lifetime(key K, value V) time.Duration {
	switch e := m.live(key); {
	case m.rules == nil:
		return m.ttl
	case e != nil:
		return m.rules.update(key, value, m.remaining(e))
	}
	return m.rules.create(key, value)
}

func (m *model[K, V]) read(key K) (value V, ok bool) {
	e := m.live(key)
	if e == nil {
		m.stats.Misses++
		return value, false
	}
	m.stats.Hits++
	if m.rules != nil && !m.closed {
		if ttl, left := m.rules.read(key, e.value, m.remaining(e)), m.remaining(e); ttl != left {
			m.moveTo(e, m.after(ttl))
		}
	}
	return e.value, true
}

func (m *model[K, V]) Get(key K) (V, bool)                      { return m.read(key) }
func (m *model[K, V]) Set(key K, value V)                       { m.store(key, value, m.lifetime(key, value)) }
func (m *model[K, V]) Delete(key K) bool                        { _, ok := m.GetAndDelete(key); return ok }
func (m *model[K, V]) Len() int                                 { return len(m.held) }
func (m *model[K, V]) Close()                                   { m.closed = true }
func (m *model[K, V]) SetTTL(key K, value V, ttl time.Duration) { m.store(key, value, ttl) }

func (m *model[K, V]) Peek(key K) (value V, ok bool) {
	if e := m.live(key); e != nil {
		return e.value, true
	}
	return value, false
}

func (m *model[K, V]) Entry(key K) (value V, deadline int64, ttl time.Duration, ok bool) {
	if e := m.live(key); e != nil {
		return e.value, e.deadline, m.remaining(e), true
	}
	return value, 0, 0, false
}

func (m *model[K, V]) overwrite(key K, value V) bool {
	if m.refuses() {
		return false
	}
	e := m.live(key)
	delete(m.failed, key)
	m.stats.Sets++
	m.event(key, e.value, Replaced, e.deadline)
	if e.cost = m.costOf(key, value); e.cost < 0 {
		delete(m.held, key)
		m.refuse(key, value, e.cost)
	}
	e.value = value
	return true
}

func (m *model[K, V]) Replace(key K, value V) (old V, ok bool) {
	e := m.live(key)
	if e == nil {
		return old, false
	}
	if before := e.value; m.overwrite(key, value) {
		return before, true
	}
	return old, false
}

func (m *model[K, V]) CompareAndSwap(key K, old, value V) bool {
	e := m.live(key)
	return e != nil && e.value == old && m.overwrite(key, value)
}

func (m *model[K, V]) CompareAndDelete(key K, old V) bool {
	e := m.live(key)
	if e == nil || e.value != old {
		return false
	}
	delete(m.failed, key)
	m.leave(key, Deleted)
	return true
}

func (m *model[K, V]) GetOrSet(key K, value V) (actual V, loaded bool) {
	if actual, loaded = m.read(key); loaded {
		return actual, true
	}
	m.Set(key, value)
	return value, false
}

func (m *model[K, V]) Move(key K, ttl time.Duration) bool {
	e := m.live(key)
	if e == nil || m.closed {
		return false
	}
	if ttl <= 0 {
		m.moveTo(e, m.now)
		m.leave(key, Expired)
		return true
	}
	m.moveTo(e, m.after(ttl))
	return true
}

func (m *model[K, V]) Touch(key K) bool {
	e := m.live(key)
	if e == nil || m.closed {
		return false
	}
	ttl := m.ttl
	if m.rules != nil {
		ttl = m.rules.create(key, e.value)
	}
	m.moveTo(e, m.after(ttl))
	return true
}

func (m *model[K, V]) GetAndDelete(key K) (value V, ok bool) {
	e := m.live(key)
	delete(m.failed, key)
	if m.held[key] != nil {
		m.leave(key, Deleted)
	}
	if e == nil {
		return value, false
	}
	return e.value, true
}

func (m *model[K, V]) Compute(key K, op Op, value V) (actual V, ok bool) {
	old, live := m.Peek(key)
	switch {
	case op == OpKeep:
		return old, live
	case op == OpRemove:
		delete(m.failed, key)
		if m.held[key] != nil {
			m.leave(key, Deleted) // it may be kept by StaleFor
		}
		return actual, false
	case m.refuses():
		return old, live
	}
	ttl := m.lifetime(key, value)
	m.store(key, value, ttl)
	if ttl <= 0 || m.costOf(key, value) < 0 {
		return actual, false
	}
	return value, true
}

func (m *model[K, V]) Clear() {
	clear(m.failed)
	m.removeAll(Cleared, func(K, V) bool { return true }, true)
}

func (m *model[K, V]) DeleteFunc(match func(K, V) bool) int {
	return m.removeAll(Deleted, match, false)
}

func (m *model[K, V]) removeAll(cause Cause, match func(K, V) bool, dead bool) (n int) {
	for _, k := range slices.Collect(maps.Keys(m.held)) {
		live := m.live(k) != nil
		if (dead || live || m.stale(k)) && match(k, m.held[k].value) {
			delete(m.failed, k)
			m.leave(k, cause)
			if dead || live {
				n++
			}
		}
	}
	return n
}

// All returns the live entries, Expiring those that end soon.
func (m *model[K, V]) All() map[K]V { return m.Expiring(expiry.Never) }

func (m *model[K, V]) Expiring(within time.Duration) map[K]V {
	all := make(map[K]V)
	for k, e := range m.held {
		if m.live(k) != nil && (within == expiry.Never || e.deadline != never && m.remaining(e) <= within) {
			all[k] = e.value
		}
	}
	return all
}

// Flush removes what is dead. Before the instant of reclaim, the entry may have
// been removed or not: noticed says so.
func (m *model[K, V]) Flush(noticed func(K) bool) {
	// With a bound, an entry that is due may get its record anew. It may wait a tick longer if
	// the next is one that no record waits for.
	skipped := m.bound != nil && uint32(m.now/m.tick+1) == noTick
	for _, k := range slices.Collect(maps.Keys(m.held)) {
		if m.now >= m.due(m.held[k].deadline) && (m.now >= m.held[k].reclaim && !skipped || noticed(k)) {
			m.leave(k, Expired)
		}
	}
}

// A modelled cache is one with its model, both on one fake clock. Its methods do the same to
// both and compare the answers.
type modelled[K, V comparable] struct {
	t     testing.TB
	cache *Cache[K, V]
	model *model[K, V]
	clock *clockwork.FakeClock
	epoch time.Time

	mu     sync.Mutex
	events map[K][]modelEvent[V] // that the cache has delivered
	chosen []modelChoice[K]      // in order
}

func newModelled[K, V comparable](t testing.TB, o Options[K, V], rules *modelRules[K, V]) *modelled[K, V] {
	t.Helper()
	w := &modelled[K, V]{t: t, clock: clockwork.NewFakeClock(), events: make(map[K][]modelEvent[V])}
	w.epoch = w.clock.Now()
	o.Clock = w.clock
	o.OnRemoval = func(r Removal[K, V]) {
		w.reenter(r.Key)
		w.mu.Lock()
		defer w.mu.Unlock()
		deadline := never
		if !r.Deadline.IsZero() {
			deadline = int64(r.Deadline.Sub(w.epoch))
		}
		w.events[r.Key] = append(w.events[r.Key], modelEvent[V]{r.Value, r.Cause, deadline, r.Late})
		if r.Cause == Evicted || r.Cause == Expired {
			w.chosen = append(w.chosen, modelChoice[K]{r.Key, len(w.events[r.Key]) - 1})
		}
	}
	w.cache = mustNew(t, o)
	w.model = newModel(o.TTL, w.cache.tick, rules)
	w.model.loading = modelLoading{o.NegativeTTL, o.ErrorTTL, o.StaleFor, o.RefreshAfter, o.RefreshFraction}
	return w
}

// reenter uses the cache from within the user's code, in ways that change nothing.
func (w *modelled[K, V]) reenter(k K) {
	w.cache.Peek(k)
	w.cache.Entry(k)
	w.cache.Len()
	w.cache.Stats()
}

// same compares the answers of an operation.
func same[T comparable](t testing.TB, op string, want, got T) {
	if want != got {
		t.Helper()
		require.Equal(t, want, got, op)
	}
}

func (w *modelled[K, V]) advance(d time.Duration) {
	if w.model.paused {
		w.flush() // OnRemoval is told of deadlines as they are by then
		w.model.stood += int64(d)
		w.clock.Advance(d)
	} else {
		w.clock.Advance(d)
		w.model.now += int64(d)
	}
	w.flush()
}

// flush also compares everything that has happened so far.
func (w *modelled[K, V]) flush() {
	t, m := w.t, w.model
	t.Helper()
	w.cache.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	m.Flush(func(k K) bool { return len(w.events[k]) > len(m.events[k]) })
	same(t, "keys removed", len(m.events), len(w.events))
	for k, want := range m.events {
		if got := w.events[k]; !slices.Equal(want, got) {
			require.Equal(t, want, got, "removals of %v", k)
		}
	}
	same(t, "Len", m.Len(), w.cache.Len())
	got := w.cache.Stats()
	timed := 0
	for _, e := range m.held {
		if m.due(e.deadline) != never {
			timed++
		}
	}
	most := 1 // entries that one record waits for
	if m.bound != nil {
		most = lineLen
	}
	if got.Waiting*most < timed {
		require.Failf(t, "too few records", "%d for %d entries", got.Waiting, timed)
	}
	want := m.stats
	want.Entries = m.Len()
	want.Cost = m.used()
	want.Waiting = got.Waiting
	want.MissedTicks = got.MissedTicks // it depends on when the driver runs
	want.Lateness.Counts = got.Lateness.Counts
	same(t, "Stats", want, got)
	same(t, "stores accounted for", got.Sets,
		uint64(got.Entries)+got.Expired+got.Evicted+got.Deleted+got.Replaced+got.Cleared)
	counted := uint64(0)
	for _, n := range got.Lateness.Counts {
		counted += n
	}
	same(t, "lateness counted", got.Lateness.Count, counted)
}

// compareAll compares the live entries.
func (w *modelled[K, V]) compareAll() {
	t := w.t
	t.Helper()
	if want, got := w.model.All(), contents(t, w.cache); !maps.Equal(want, got) {
		require.Equal(t, want, got, "All")
	}
}

func (w *modelled[K, V]) get(k K) {
	want, wantOK := w.model.Get(k)
	got, ok := w.cache.Get(k)
	same(w.t, "Get", wantOK, ok)
	same(w.t, "Get", want, got)
}

func (w *modelled[K, V]) peek(k K) {
	want, wantOK := w.model.Peek(k)
	got, ok := w.cache.Peek(k)
	same(w.t, "Peek", wantOK, ok)
	same(w.t, "Peek", want, got)
}

func (w *modelled[K, V]) entry(k K) {
	value, deadline, ttl, ok := w.model.Entry(k)
	want := Entry[K, V]{}
	if ok {
		want = Entry[K, V]{Key: k, Value: value, TTL: ttl}
		if deadline != never {
			want.Deadline = w.at(deadline)
		}
	} else if e := w.model.held[k]; e != nil && w.model.stale(k) {
		want = Entry[K, V]{Key: k, Value: e.value, Deadline: w.at(e.deadline), Stale: true}
	}
	got, gotOK := w.cache.Entry(k)
	same(w.t, "Entry", ok, gotOK)
	same(w.t, "Entry", want, got)
}

// at returns the time of day of an instant, with all pauses so far.
func (w *modelled[K, V]) at(instant int64) time.Time {
	return w.epoch.Add(time.Duration(instant)).Add(time.Duration(w.model.stood))
}

func (w *modelled[K, V]) set(k K, v V) {
	w.model.Set(k, v)
	w.cache.Set(k, v)
	w.evictions()
}

func (w *modelled[K, V]) setTTL(k K, v V, ttl time.Duration) {
	w.model.SetTTL(k, v, ttl)
	w.cache.SetTTL(k, v, ttl)
	w.evictions()
}

// setDeadline sets the deadline that is ttl from now; expiry.Never is the zero
// Time.
func (w *modelled[K, V]) setDeadline(k K, v V, ttl time.Duration) {
	var at time.Time
	if ttl != expiry.Never {
		ttl = min(max(ttl, -1<<60), 1<<60)
		at = w.clock.Now().Add(ttl)
	}
	w.model.SetTTL(k, v, ttl)
	w.cache.SetDeadline(k, v, at)
	w.evictions()
}

func (w *modelled[K, V]) replace(k K, v V) {
	want, wantOK := w.model.Replace(k, v)
	got, ok := w.cache.Replace(k, v)
	same(w.t, "Replace", wantOK, ok)
	same(w.t, "Replace", want, got)
	w.evictions()
}

func (w *modelled[K, V]) getOrSet(k K, v V) {
	want, wantOK := w.model.GetOrSet(k, v)
	got, ok := w.cache.GetOrSet(k, v)
	same(w.t, "GetOrSet", wantOK, ok)
	same(w.t, "GetOrSet", want, got)
	w.evictions()
}

func (w *modelled[K, V]) move(k K, ttl time.Duration) {
	same(w.t, "Move", w.model.Move(k, ttl), w.cache.Move(k, ttl))
}

func (w *modelled[K, V]) touch(k K) {
	same(w.t, "Touch", w.model.Touch(k), w.cache.Touch(k))
}

func (w *modelled[K, V]) delete(k K) {
	same(w.t, "Delete", w.model.Delete(k), w.cache.Delete(k))
}

func (w *modelled[K, V]) getAndDelete(k K) {
	want, wantOK := w.model.GetAndDelete(k)
	got, ok := w.cache.GetAndDelete(k)
	same(w.t, "GetAndDelete", wantOK, ok)
	same(w.t, "GetAndDelete", want, got)
}

func (w *modelled[K, V]) compute(k K, op Op, v V) {
	old, live := w.model.Peek(k)
	want, wantOK := w.model.Compute(k, op, v)
	got, ok := w.cache.Compute(k, func(was V, ok bool) (V, Op) {
		same(w.t, "Compute's argument", old, was)
		same(w.t, "Compute's argument", live, ok)
		return v, op
	})
	same(w.t, "Compute", wantOK, ok)
	same(w.t, "Compute", want, got)
	w.evictions()
}

func (w *modelled[K, V]) deleteFunc(match func(K, V) bool) {
	same(w.t, "DeleteFunc", w.model.DeleteFunc(match), w.cache.DeleteFunc(func(k K, v V) bool {
		w.reenter(k)
		return match(k, v)
	}))
}

func (w *modelled[K, V]) compareAndSwap(k K, old, v V) {
	same(w.t, "CompareAndSwap", w.model.CompareAndSwap(k, old, v), CompareAndSwap(w.cache, k, old, v))
	w.evictions()
}

func (w *modelled[K, V]) compareAndDelete(k K, old V) {
	same(w.t, "CompareAndDelete", w.model.CompareAndDelete(k, old), CompareAndDelete(w.cache, k, old))
}

func (w *modelled[K, V]) clear() {
	w.model.Clear()
	w.cache.Clear()
}

func (w *modelled[K, V]) expiring(within time.Duration) {
	want, got := w.model.Expiring(within), maps.Collect(w.cache.Expiring(within))
	if within != expiry.Never && !maps.Equal(want, got) {
		require.Equal(w.t, want, got, "Expiring")
	}
}

func (w *modelled[K, V]) close() {
	w.model.Close()
	require.NoError(w.t, w.cache.Close())
}
