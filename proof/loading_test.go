package proof

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
)

// How loads get into a history: their loaders write down when they run.

// A moment is one of a history.
type moment struct {
	order int64 // among calls and returns
	clock int64
}

// A load is what may be loaded for a key by one call of GetOrLoad, LoadAll or Refresh,
// which has a loader of its own.
type load struct {
	number  int64
	outcome outcome
	panics  bool   // to answer the error
	work    func() // lets others go on
	now     func() moment

	runs         atomic.Int32
	began, ended moment
	over         atomic.Bool // ended is set
}

// run is the loader, but for the value.
func (l *load) run() error {
	runAll([]*load{l})
	if l.outcome == outcomeValue {
		return nil
	}
	err := &loadError{l.number, l.outcome}
	if l.panics {
		panic(err)
	}
	return err
}

// runAll is one run for several loads.
func runAll(loads []*load) {
	began := loads[0].now()
	for _, l := range loads {
		l.runs.Add(1)
		l.work()
	}
	ended := loads[0].now()
	for _, l := range loads {
		l.began, l.ended = began, ended
		l.over.Store(true)
	}
}

// A loadError is the error of one load.
type loadError struct {
	number  int64
	outcome outcome
}

func (e *loadError) Error() string { return told(reply{value: e.number, outcome: e.outcome}) }

func (e *loadError) Is(target error) bool {
	return target == wheelcache.ErrNotFound && e.outcome == outcomeNotFound
}

// A loaded is a call that may have loaded something.
type loaded struct {
	client int
	call   call
	reply  reply
	waited bool // for its own load; otherwise that may have been a refresh
}

// loading is what a recorder knows of loads.
type loading struct {
	ended atomic.Int64 // loaders
	quiet []quiet
}

// A quiet moment is one before which every load had landed whose loader had ended by
// an earlier one.
type quiet struct {
	ended int64 // in the order
	at    moment
}

func (r *recorder) newLoad(random *rand.Rand, number int64) *load {
	l := &load{number: number, now: r.moment}
	if random.IntN(100) < r.failing {
		l.outcome = outcome(1 + random.IntN(2))
		l.panics = l.outcome == outcomeError && random.IntN(4) == 0
	}
	pause := random.IntN(8)
	l.work = func() {
		r.dawdle(pause)
		r.loading.ended.Add(1)
	}
	return l
}

func (r *recorder) moment() moment {
	now := r.now()
	return moment{r.order.Add(1), now}
}

// dawdle lets others make about so many calls, if they can.
func (r *recorder) dawdle(calls int) {
	if r.timing == bubble {
		time.Sleep(r.unit * time.Duration(calls) / 4)
		return
	}
	before := r.order.Load()
	for range 8 * calls {
		if r.order.Load()-before >= int64(2*calls) {
			return
		}
		runtime.Gosched()
	}
}

// loaded takes down a call that may have loaded something.
func (r *recorder) loaded(client int, c call, reply reply) loaded {
	own := tells(reply, c.value, c.load.outcome) || reply.ok && reply.value == c.value
	mayRefresh := c.op == opRefresh || c.op == opGetOrLoad && r.refreshAfter > 0 && !own
	return loaded{client, c, reply, c.load.over.Load() && !mayRefresh}
}

// loadAllCalls returns what LoadAll is asked, as a call for each key.
func (r *recorder) loadAllCalls(random *rand.Rand) []call {
	calls := make([]call, 1+random.IntN(r.keys))
	for i, key := range random.Perm(r.keys)[:len(calls)] {
		number := r.values.Add(1)
		calls[i] = call{op: opLoadAll, key: key, value: number, load: r.newLoad(random, number)}
	}
	return calls
}

// loadAll calls LoadAll, and returns its reply for each key.
func (r *recorder) loadAll(calls []call) []reply {
	keys := make([]int, len(calls))
	byKey := make(map[int]*load)
	for i, c := range calls {
		keys[i] = c.key
		byKey[c.key] = c.load
	}
	values, err := r.cache.loadAll(keys, func(keys []int) map[int]int64 {
		loads, values := make([]*load, len(keys)), make(map[int]int64)
		for i, key := range keys {
			loads[i] = byKey[key]
			values[key] = loads[i].number
		}
		runAll(loads)
		return values
	})
	replies := make([]reply, len(calls))
	for i, c := range calls {
		replies[i].value, replies[i].ok = values[c.key]
		if err != nil {
			replies[i] = reply{value: torn, outcome: outcomeError}
		}
	}
	return replies
}

// lookForQuiet finds out whether all loads have landed whose loaders have returned.
// Nobody is told when a load lands for which nobody waits.
func (r *recorder) lookForQuiet() {
	landed, now := r.cache.stats().Load.Loads, r.order.Load()
	if r.loads && landed == uint64(r.loading.ended.Load()) {
		r.loading.quiet = append(r.loading.quiet, quiet{now, r.moment()})
	}
}

// awaitLandings waits until all loads have landed.
func (r *recorder) awaitLandings(t require.TestingT, all []loaded) {
	waited := uint64(0)
	for _, l := range all {
		if l.waited {
			waited++
		}
	}
	defer func() {
		for _, l := range all {
			require.LessOrEqual(t, l.call.load.runs.Load(), int32(1), "a loader is called twice")
			if l.call.op == opRefresh {
				require.Equal(t, l.reply.ok, l.call.load.over.Load(), "Refresh and its loader")
			}
		}
	}()
	for began := time.Now(); ; {
		if s := r.cache.stats().Load; s.Loads == waited+s.Refreshes {
			r.loading.quiet = append(r.loading.quiet, quiet{math.MaxInt64, r.moment()})
			return
		}
		require.Less(t, time.Since(began), patience, "a load does not land")
		if r.timing == bubble {
			time.Sleep(r.unit)
		} else {
			runtime.Gosched()
		}
	}
}

// loadOperations returns what the checker is told of the calls and their loads.
func (r *recorder) loadOperations(all []loaded) (list []porcupine.Operation) {
	told := make(map[int64]moment) // by load: when its value or error was first returned
	for _, l := range all {
		if at, ok := told[l.reply.value]; !ok || l.reply.returned < at.order {
			told[l.reply.value] = l.returned()
		}
	}
	for _, l := range all {
		load := l.call.load
		background := load.over.Load() && !l.waited
		if !load.over.Load() || background && l.call.op == opGetOrLoad {
			c := l.call
			c.background = background
			list = append(list, operation(l.client, c, l.reply))
		}
		if load.over.Load() {
			list = append(list, r.flightOperations(l, told)...)
		}
	}
	return list
}

func (l loaded) returned() moment { return moment{l.reply.returned, l.reply.to} }

// flightOperations returns the operations of a flight. It has begun before the loader
// has, and a refresh before the call that began it returned. It has landed before anybody
// was told, and before it was quiet.
func (r *recorder) flightOperations(l loaded, told map[int64]moment) []porcupine.Operation {
	load := l.call.load
	next, _ := slices.BinarySearchFunc(r.loading.quiet, load.ended.order, func(q quiet, order int64) int { return cmp.Compare(q.ended, order) })
	landed := r.loading.quiet[next].at
	if at, ok := told[load.number]; ok && at.order > load.ended.order { // or it was something else
		landed = earliest(landed, at)
	}
	begun := earliest(load.began, l.returned())
	c := call{op: opBegin, key: l.call.key, value: load.number, outcome: load.outcome}
	answer := reply{from: l.reply.from, called: l.reply.called, to: begun.clock, returned: begun.order}
	if !l.waited {
		c.background, c.lands = true, window{load.ended, landed}
		answer.value, answer.ok, answer.outcome = load.number, load.outcome == outcomeValue, load.outcome
		return []porcupine.Operation{operation(r.clients+l.client, c, answer)}
	}
	answer.value, answer.ok, answer.outcome = l.reply.value, l.reply.ok, l.reply.outcome
	begins := operation(l.client, c, answer)
	landed = earliest(landed, l.returned())
	c.op = opLand
	answer.from, answer.called, answer.to, answer.returned = load.ended.clock, load.ended.order, landed.clock, landed.order
	return []porcupine.Operation{begins, operation(l.client, c, answer)}
}

func earliest(a, b moment) moment {
	if a.order < b.order {
		return a
	}
	return b
}

// deleteFunc has DeleteFunc remove the entry of a key, or only if it has one value. It
// returns the value that was removed by key.
func (r *recorder) deleteFunc(c call) map[int]int64 {
	last := torn
	removed := r.cache.deleteFunc(func(key int, value int64) bool {
		if key != c.key || c.old != 0 && value != c.old {
			return false
		}
		last = value
		sometimesYield()
		return true
	})
	switch removed {
	case 0:
		return nil
	case 1:
		return map[int]int64{c.key: last}
	}
	return map[int]int64{c.key: torn}
}

// A loadCount counts loads.
type loadCount struct {
	loads      uint64
	discarded  uint64 // values that were not stored
	failed     uint64
	background uint64
	joined     int // calls that were told of a load whose loader was at work when they began
	remembered uint64
	stale      uint64
}

// count counts what was loaded in a history.
func (r *recorder) count(all []loaded) loadCount {
	s := r.cache.stats().Load
	n := loadCount{
		loads: s.Loads, discarded: s.Discarded, failed: s.NotFound + s.Failures, background: s.Refreshes,
		remembered: s.NegativeHits + s.ErrorHits, stale: s.StaleHits,
	}
	ended := make(map[int64]int64) // by load
	for _, l := range all {
		if l.call.load.over.Load() {
			ended[l.call.value] = l.call.load.ended.order
		}
	}
	for _, l := range all {
		if !l.waited && l.reply.called < ended[l.reply.value] {
			n.joined++
		}
	}
	return n
}

func (n *loadCount) add(m loadCount) {
	n.loads += m.loads
	n.discarded += m.discarded
	n.failed += m.failed
	n.background += m.background
	n.joined += m.joined
	n.remembered += m.remembered
	n.stale += m.stale
}

// requireAll fails the test if something has not happened that was to be tried.
func (n loadCount) requireAll(t require.TestingT) {
	require.Greater(t, n.loads, n.discarded+n.failed, "values stored")
	for what, n := range map[string]uint64{
		"superseded": n.discarded, "failed": n.failed, "in the background": n.background,
		"joined": uint64(n.joined), "remembered": n.remembered, "stale": n.stale,
	} {
		require.Positive(t, n, what)
	}
}

func (n loadCount) String() string {
	return fmt.Sprintf("%d loads: %d superseded, %d failed, %d in the background; %d calls joined one, %d were told a remembered error, %d something stale",
		n.loads, n.discarded, n.failed, n.background, n.joined, n.remembered, n.stale)
}
