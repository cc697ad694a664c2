package proof

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A timing says by which clock a history is made.
type timing uint8

const (
	// realTime: package time, lifetimes of some hundred nanoseconds to two
	// milliseconds.
	realTime timing = iota
	// stepped: a fake clock that is advanced between calls, never during one. So
	// all instants are exact.
	stepped
	// running: a fake clock that is advanced at any moment.
	running
	// bubble: package time in a synctest bubble. It goes on when all clients sleep,
	// so lifetimes of hours cost nothing, and all instants are exact, too.
	bubble
)

// A setup is one configuration of the cache, and of what is done to it.
type setup struct {
	name      string
	timing    timing
	ttl       time.Duration // given by Set and reads, expiry.Never if 0
	unit      time.Duration // lifetimes are some of it
	least     time.Duration // and that; if it is 0 on real time, anything that ends soon
	tick      time.Duration
	shards    int
	slots     int
	exact     bool
	sameHash  bool // of all keys
	onRemoval bool
	slides    bool // expiry.AfterAccess
	keeps     bool // expiry.AfterCreate
	hot       bool // one key, which all clients use for long and without a rest
	crowd     int  // most other keys

	loads     bool // GetOrLoad and DeleteFunc are called
	refreshes bool // and Refresh
	failing   int  // of a hundred loaders

	negativeTTL, errorTTL, refreshAfter, staleFor time.Duration

	make func(t require.TestingT, s setup, clock clockwork.Clock) subject
}

func setups() []setup {
	const ms, us = time.Millisecond, time.Microsecond
	wide := func(t require.TestingT, s setup, c clockwork.Clock) subject { return made(t, s, c, words, fours) }
	plain := func(t require.TestingT, s setup, c clockwork.Clock) subject { return made(t, s, c, words, words) }
	text := func(t require.TestingT, s setup, c clockwork.Clock) subject { return made(t, s, c, texts, twins) }
	large := func(t require.TestingT, s setup, c clockwork.Clock) subject { return made(t, s, c, fours, boxes) }
	return []setup{
		{name: "real time, exact clock", timing: realTime, exact: true, ttl: 100 * us, tick: us, crowd: 2000, make: plain},
		{name: "real time, one shard, four words", timing: realTime, ttl: 50 * us, tick: 20 * us, shards: 1, crowd: 2000, make: wide},
		{name: "real time, same hash, large values, OnRemoval", timing: realTime, tick: 20 * us, sameHash: true, onRemoval: true, crowd: 30, make: large},
		{name: "real time, strings, OnRemoval", timing: realTime, ttl: 30 * us, shards: 2, onRemoval: true, crowd: 1000, make: text},
		{name: "real time, sliding, strings", timing: realTime, ttl: 100 * us, tick: 10 * us, shards: 1, slides: true, crowd: 500, make: text},
		{name: "real time, sliding, same hash", timing: realTime, exact: true, ttl: 50 * us, tick: us, sameHash: true, slides: true, onRemoval: true, crowd: 20, make: wide},
		{name: "real time, hot key, four words", timing: realTime, exact: true, ttl: 20 * us, tick: us, hot: true, make: wide},
		{name: "real time, hot key, long lifetimes", timing: realTime, ttl: time.Hour, least: time.Hour, hot: true, make: wide},
		{name: "real time, hot key, strings", timing: realTime, ttl: 20 * us, shards: 1, hot: true, make: text},
		{name: "real time, sliding, hot key", timing: realTime, ttl: 5 * us, tick: us, slides: true, hot: true, make: wide},
		{name: "real time, after create", timing: realTime, ttl: 100 * us, tick: 50 * us, keeps: true, onRemoval: true, crowd: 1000, make: wide},
		{name: "stepped clock", timing: stepped, ttl: 7 * ms, unit: ms, tick: 4 * ms, onRemoval: true, crowd: 1000, make: plain},
		{name: "stepped clock, one shard, strings", timing: stepped, unit: us, tick: us, shards: 1, slots: 2, crowd: 1000, make: text},
		{name: "stepped clock, same hash, large values", timing: stepped, ttl: 5 * ms, unit: ms, tick: 3 * ms, sameHash: true, onRemoval: true, crowd: 30, make: large},
		{name: "stepped clock, sliding", timing: stepped, ttl: 6 * ms, unit: ms, tick: 4 * ms, shards: 1, slides: true, onRemoval: true, crowd: 500, make: wide},
		{name: "stepped clock, after create", timing: stepped, ttl: 6 * ms, unit: ms, tick: 4 * ms, shards: 2, keeps: true, crowd: 500, make: text},
		{name: "running clock, four words", timing: running, ttl: 7 * ms, unit: ms, tick: 4 * ms, onRemoval: true, crowd: 1000, make: wide},
		{name: "running clock, same hash", timing: running, ttl: 7 * ms, unit: ms, tick: 4 * ms, sameHash: true, crowd: 30, make: wide},
		{name: "running clock, sliding, strings", timing: running, ttl: 7 * ms, unit: ms, tick: 4 * ms, shards: 1, slides: true, crowd: 500, make: text},
		{name: "bubble, long lifetimes", timing: bubble, ttl: 3 * time.Second, unit: 100 * ms, least: longLifetime, crowd: 300, make: wide},
		{name: "bubble, long lifetimes, sliding", timing: bubble, ttl: 3 * time.Second, unit: 100 * ms, least: longLifetime, shards: 1, slides: true, onRemoval: true, crowd: 300, make: text},
		{name: "bubble, short and long lifetimes, same hash", timing: bubble, ttl: 4 * time.Second, unit: 200 * ms, sameHash: true, crowd: 30, make: large},
		{name: "bubble, exact clock", timing: bubble, exact: true, ttl: 3 * time.Second, unit: 300 * ms, onRemoval: true, crowd: 300, make: plain},

		{name: "loads, real time", timing: realTime, loads: true, exact: true, ttl: 100 * us, tick: us, crowd: 500, make: plain},
		{name: "loads, real time, one shard, strings, OnRemoval", timing: realTime, loads: true, ttl: 50 * us, shards: 1, onRemoval: true, crowd: 300, make: text},
		{name: "loads, real time, same hash, large values", timing: realTime, loads: true, ttl: 200 * us, tick: 20 * us, sameHash: true, crowd: 20, make: large},
		{name: "loads, real time, hot key", timing: realTime, loads: true, exact: true, ttl: 20 * us, tick: us, hot: true, make: wide},
		{name: "loads, real time, hot key that does not expire, strings", timing: realTime, loads: true, shards: 1, hot: true, make: text},
		{name: "loads, real time, sliding", timing: realTime, loads: true, ttl: 50 * us, tick: 10 * us, slides: true, crowd: 100, make: wide},
		{name: "loads, real time, failures", timing: realTime, loads: true, failing: 50, negativeTTL: 50 * us, errorTTL: 20 * us, ttl: 50 * us, tick: us, crowd: 300, make: wide},
		{name: "loads, real time, hot key, failures", timing: realTime, loads: true, failing: 60, negativeTTL: 20 * us, exact: true, ttl: 20 * us, tick: us, hot: true, make: wide},
		{name: "loads, real time, refreshes", timing: realTime, loads: true, refreshes: true, refreshAfter: 20 * us, failing: 20, negativeTTL: 20 * us, errorTTL: 10 * us, ttl: 200 * us, tick: us, crowd: 300, make: wide},
		{name: "loads, real time, hot key, refreshes", timing: realTime, loads: true, refreshes: true, refreshAfter: 5 * us, exact: true, ttl: 50 * us, tick: us, hot: true, make: text},
		{name: "loads, real time, stale values", timing: realTime, loads: true, failing: 60, staleFor: 200 * us, errorTTL: 20 * us, ttl: 20 * us, crowd: 300, make: large},
		{name: "loads, stepped clock", timing: stepped, loads: true, ttl: 7 * ms, unit: ms, tick: 4 * ms, onRemoval: true, crowd: 300, make: plain},
		{name: "loads, stepped clock, after create, failures", timing: stepped, loads: true, keeps: true, failing: 50, negativeTTL: 3 * ms, errorTTL: 2 * ms, ttl: 6 * ms, unit: ms, tick: 4 * ms, shards: 2, crowd: 300, make: text},
		{name: "loads, stepped clock, refreshes", timing: stepped, loads: true, refreshes: true, refreshAfter: 2 * ms, failing: 30, negativeTTL: 3 * ms, ttl: 10 * ms, unit: ms, tick: 4 * ms, crowd: 100, make: wide},
		{name: "loads, stepped clock, stale values", timing: stepped, loads: true, failing: 60, staleFor: 6 * ms, errorTTL: 2 * ms, negativeTTL: ms, ttl: 4 * ms, unit: ms, tick: 50 * ms, onRemoval: true, crowd: 100, make: wide},
		{name: "loads, running clock, failures", timing: running, loads: true, failing: 40, negativeTTL: 5 * ms, errorTTL: 3 * ms, ttl: 7 * ms, unit: ms, tick: 4 * ms, onRemoval: true, crowd: 300, make: wide},
		{name: "loads, running clock, same hash, refreshes", timing: running, loads: true, refreshes: true, refreshAfter: 3 * ms, failing: 20, negativeTTL: 3 * ms, ttl: 7 * ms, unit: ms, tick: 4 * ms, sameHash: true, crowd: 20, make: wide},
		{name: "loads, bubble", timing: bubble, loads: true, ttl: 3 * time.Second, unit: 300 * ms, crowd: 100, make: wide},
		{name: "loads, bubble, failures", timing: bubble, loads: true, failing: 50, negativeTTL: time.Second, errorTTL: 500 * ms, ttl: 3 * time.Second, unit: 200 * ms, crowd: 100, make: text},
		{name: "loads, bubble, refreshes", timing: bubble, loads: true, refreshes: true, refreshAfter: time.Second, failing: 20, negativeTTL: time.Second, ttl: 3 * time.Second, unit: 200 * ms, crowd: 100, make: large},
		{name: "loads, bubble, stale values", timing: bubble, loads: true, failing: 60, staleFor: 2 * time.Second, errorTTL: 300 * ms, ttl: time.Second, unit: 200 * ms, tick: 5 * time.Second, exact: true, crowd: 100, make: wide},
	}
}

// mostStalled is how long a history on real time may take if the clock is not
// exact. It is less than the half second after which the coarse clock counts as
// left behind, if the driver has not run.
const mostStalled = 400 * time.Millisecond

func (s setup) fake() bool { return s.timing == stepped || s.timing == running }

func (s setup) model() model {
	m := model{
		ttl: s.ttl, keeps: s.keeps, early: s.timing == running,
		negativeTTL: s.negativeTTL, errorTTL: s.errorTTL, refreshAfter: s.refreshAfter, staleFor: s.staleFor,
	}
	if m.ttl == 0 {
		m.ttl = expiry.Never
	}
	switch {
	case s.fake() || s.exact:
	case s.timing == bubble:
		m.coarse = coarsePeriod
	default: // and by what the driver is delayed
		m.coarse = mostStalled
	}
	if s.slides {
		m.slides = s.ttl
		if !s.fake() {
			m.stretch = s.tick
			if s.tick == 0 {
				m.stretch = 10 * time.Millisecond
			}
		}
	}
	return m
}

// share says how many of a hundred operations are of each kind, about.
var share = [ops]int{
	opGet: 16, opPeek: 6, opEntry: 6, opSee: 2, opSet: 8, opSetTTL: 10, opSetDeadline: 4, opMove: 6, opTouch: 4, opDelete: 4,
	opGetAndDelete: 3, opReplace: 7, opGetOrSet: 8, opCompareAndSwap: 8, opCompareAndDelete: 2, opCompute: 8, opClear: 1,
}

// shareOfLoads is share where there are loads.
var shareOfLoads = [ops]int{
	opGet: 8, opPeek: 2, opEntry: 3, opSee: 1, opSet: 7, opSetTTL: 5, opSetDeadline: 1, opMove: 4, opTouch: 2, opDelete: 8,
	opGetAndDelete: 2, opReplace: 5, opGetOrSet: 4, opCompareAndSwap: 5, opCompareAndDelete: 3, opCompute: 8, opClear: 3,
	opGetOrLoad: 36, opDeleteFunc: 3,
}

// Of the calls of GetOrLoad in shareOfLoads, so many are calls of Refresh and LoadAll
// instead, where these are made.
const (
	shareOfRefreshes = 12
	shareOfLoadAll   = 8
)

func (s setup) share() [ops]int {
	if !s.loads {
		return share
	}
	share := shareOfLoads
	instead := func(o op, n int) {
		share[opGetOrLoad] -= n
		share[o] += n
	}
	if s.refreshes {
		instead(opRefresh, shareOfRefreshes)
	}
	if s.failing == 0 { // LoadAll does not tell whose error it returns
		instead(opLoadAll, shareOfLoadAll)
	}
	if s.staleFor > 0 { // of what is deleted nothing is stale
		for _, o := range []op{opSet, opDelete, opGetAndDelete, opCompute, opClear, opDeleteFunc} {
			instead(o, -share[o]*2/3)
		}
	}
	return share
}

// A history is what several clients have seen.
type history struct {
	setup      setup
	seed       uint64
	operations []porcupine.Operation
	expired    uint64 // entries of all keys
	loads      loadCount
	stalled    bool // it took so long that the coarse clock may have been left behind
}

// A recorder makes a history.
type recorder struct {
	setup
	cache   subject
	clock   *clockwork.FakeClock // nil if time is not fake
	since   time.Time
	gate    sync.RWMutex // shut while a stepped clock is advanced
	order   atomic.Int64 // of calls and returns
	values  atomic.Int64 // stored so far
	clients int
	keys    int
	done    atomic.Bool // all clients are
	loading loading
}

// record makes the history that belongs to a seed: the calls and their arguments,
// that is. How they overlap is left to the scheduler.
func record(t *testing.T, s setup, seed uint64) (h history) {
	if s.timing == bubble {
		synctest.Test(t, func(t *testing.T) { h = recordHere(t, s, seed) })
		return h
	}
	return recordHere(t, s, seed)
}

func recordHere(t *testing.T, s setup, seed uint64) history {
	random := rand.New(rand.NewPCG(seed, 0))
	r := &recorder{setup: s, clients: 2 + random.IntN(4), keys: 1 + random.IntN(3), since: time.Now()}
	var clock clockwork.Clock
	if s.fake() {
		r.clock = clockwork.NewFakeClock()
		r.since = r.clock.Now()
		clock = yieldingClock{r.clock}
	}
	r.cache = s.make(t, s, clock)

	var clients, others sync.WaitGroup
	length := 8 + random.IntN(24)
	if s.hot {
		r.clients, r.keys, length = 3, 1, 200
	}
	lists := make([][]porcupine.Operation, r.clients)
	loaded := make([][]loaded, r.clients)
	for i := range lists {
		clients.Go(func() { lists[i], loaded[i] = r.client(i, rand.New(rand.NewPCG(seed, uint64(i)+1)), length) })
	}
	for i, work := range []func(*rand.Rand){r.crowdAndDisperse, r.flushAndCount, r.advance} {
		others.Go(func() {
			random := rand.New(rand.NewPCG(seed, math.MaxUint64-uint64(i)))
			for !r.done.Load() {
				work(random)
				r.rest(random)
			}
		})
	}
	clients.Wait()
	r.done.Store(true)
	others.Wait()
	elapsed := r.now()
	all := slices.Concat(loaded...)
	r.awaitLandings(t, all)
	require.NoError(t, r.cache.close())

	h := history{setup: s, seed: seed, expired: r.cache.stats().Expired}
	h.stalled = s.timing == realTime && !s.exact && elapsed > int64(mostStalled)
	for _, list := range lists {
		h.operations = append(h.operations, list...)
	}
	h.operations = append(h.operations, r.loadOperations(all)...)
	h.loads = r.count(all)
	return h
}

func (r *recorder) now() int64 {
	if r.clock != nil {
		return int64(r.clock.Now().Sub(r.since))
	}
	return int64(time.Since(r.since))
}

// rest lets others go on, and time in a bubble.
func (r *recorder) rest(random *rand.Rand) {
	switch {
	case r.timing != bubble:
		runtime.Gosched()
	case random.IntN(2) == 0:
		time.Sleep(r.unit * time.Duration(random.IntN(5)) / 2)
	}
}

// client makes calls one after the other, and returns them. Those that may load
// something are returned apart, since the loads may go on in the background.
func (r *recorder) client(id int, random *rand.Rand, length int) (list []porcupine.Operation, all []loaded) {
	known := make([]int64, r.keys) // the value of each key that was seen last
	for range length {
		c := r.draw(random, known)
		r.gate.RLock()
		called, from := r.order.Add(1), r.now()
		switch c.op {
		case opSetDeadline:
			if c.deadline != never {
				c.deadline += from
			}
			fallthrough
		default:
			reply := r.cache.do(c, r.since)
			reply.from, reply.to = from, r.now()
			reply.called, reply.returned = called, r.order.Add(1)
			if c.load == nil {
				list = append(list, operation(id, c, reply))
			} else {
				all = append(all, r.loaded(id, c, reply))
			}
			if c.value > 0 && c.load == nil {
				known[c.key] = c.value
			}
			if reply.value > 0 && reply.outcome == outcomeValue {
				known[c.key] = reply.value
			}
		case opLoadAll:
			calls := r.loadAllCalls(random)
			replies := r.loadAll(calls)
			reply := reply{from: from, to: r.now(), called: called, returned: r.order.Add(1)}
			for i, c := range calls {
				reply.value, reply.ok, reply.outcome = replies[i].value, replies[i].ok, replies[i].outcome
				all = append(all, r.loaded(id, c, reply))
			}
		case opClear, opSee, opDeleteFunc:
			// For each key it is an operation of its own, somewhere in that time, or two.
			var seen map[int]int64
			switch c.op {
			case opClear:
				r.cache.clear()
			case opSee:
				seen = r.cache.all(r.keys)
			case opDeleteFunc:
				seen = r.deleteFunc(c)
			}
			reply := reply{from: from, to: r.now(), called: called, returned: r.order.Add(1)}
			sweeps := r.loads && c.op != opSee
			if sweeps {
				c.sweep = 1 << id
			}
			only := c.key
			for c.key = range r.keys {
				comesBy := c.op != opDeleteFunc || c.key == only
				if sweeps {
					supersede := call{op: opSupersede, key: c.key, forgets: c.op == opClear}
					if comesBy {
						supersede.sweep = c.sweep
					}
					list = append(list, operation(r.clients+id, supersede, reply))
				}
				if comesBy {
					reply := reply
					reply.value, reply.ok = seen[c.key]
					list = append(list, operation(id, c, reply))
				}
			}
		}
		r.gate.RUnlock()
		if !r.hot && random.IntN(3) == 0 {
			r.rest(random)
		}
	}
	return list, all
}

// draw returns what to call next.
func (r *recorder) draw(random *rand.Rand, known []int64) call {
	c := call{key: random.IntN(r.keys)}
	share := r.share()
	sum := 0
	for _, n := range share {
		sum += n
	}
	for n := random.IntN(sum); n >= share[c.op]; c.op++ {
		n -= share[c.op]
	}
	switch c.op {
	case opSet, opSetTTL, opSetDeadline, opReplace, opGetOrSet, opCompareAndSwap, opCompute, opGetOrLoad, opRefresh:
		c.value = r.values.Add(1)
	}
	switch c.op {
	case opSetTTL, opMove:
		c.ttl = r.lifetime(random)
	case opSetDeadline:
		c.deadline = int64(r.lifetime(random))
	case opCompareAndSwap, opCompareAndDelete:
		if c.old = known[c.key]; c.old == 0 {
			c.old = c.value // which nobody has stored
		}
	case opCompute:
		c.answer, c.absent = answerStore, answerStore
		if random.IntN(2) == 0 {
			c.answer, c.absent = answer(random.IntN(int(answers))), answer(random.IntN(int(answers)))
		}
	case opGetOrLoad, opRefresh:
		c.load = r.newLoad(random, c.value)
	case opDeleteFunc:
		if random.IntN(2) == 0 {
			c.old = known[c.key]
		}
	}
	return c
}

// lifetime returns one that mostly ends during the history.
func (r *recorder) lifetime(random *rand.Rand) time.Duration {
	switch n := random.IntN(20); {
	case n == 0:
		return expiry.Never
	case n == 1:
		return time.Hour
	case n == 2:
		return -time.Duration(random.IntN(2))
	case r.timing == realTime && r.least == 0:
		return time.Duration(200 * math.Pow(10, 4*random.Float64()))
	}
	return r.least + r.unit*time.Duration(1+random.IntN(20))
}

// crowdAndDisperse stores many other keys, and so makes the table grow, and
// deletes most of them, which makes it shrink.
func (r *recorder) crowdAndDisperse(random *rand.Rand) {
	n := random.IntN(r.crowd + 1)
	for i := range n {
		r.cache.crowd(r.keys+i, max(r.lifetime(random), 1))
		if i%16 == 0 {
			r.rest(random)
		}
	}
	for i := range n - n/8 {
		r.cache.disperse(r.keys + i)
		if i%16 == 0 {
			r.rest(random)
		}
	}
}

func (r *recorder) flushAndCount(*rand.Rand) {
	r.cache.flush()
	r.lookForQuiet()
}

// advance lets a fake clock go on, at the pace of the clients.
func (r *recorder) advance(random *rand.Rand) {
	if r.clock == nil {
		return
	}
	before := r.order.Load()
	for pause := int64(random.IntN(12)); r.order.Load()-before < pause && !r.done.Load(); {
		runtime.Gosched()
	}
	if r.timing == stepped {
		r.gate.Lock()
		defer r.gate.Unlock()
	}
	r.clock.Advance(r.unit * time.Duration(random.IntN(4)))
}
