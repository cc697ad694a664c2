package wheelcache

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// Many callers of one key at once, and whatever may come in between. A round is a key
// of its own, for which all of them ask once. Nobody knows in which order they come, but
// the tests count what may be a reason for another load before it can be one, and
// loads as they begin; so there is never a load without a reason.
//
//	go test -race -run TestAThousandCallers -loadrounds 10000 -timeout 0 -v .

var loadRounds = flag.Int("loadrounds", 0, "rounds of the tests in which a thousand callers ask for one key; 0 means a few")

const loadCallers = 1000

func roundsWanted() int {
	switch {
	case *loadRounds > 0:
		return *loadRounds
	case testing.Short():
		return 300
	}
	return 1000
}

// A crew is goroutines that do the same at once, round after round: to start a thousand
// for each would take most of the time.
type crew struct {
	work []chan func(i int)
	busy sync.WaitGroup
}

func newCrew(t *testing.T, n int) *crew {
	c := &crew{work: make([]chan func(int), n)}
	for i := range c.work {
		c.work[i] = make(chan func(int), 1)
		go func() {
			for f := range c.work[i] {
				f(i)
				c.busy.Done()
			}
		}()
	}
	t.Cleanup(func() {
		for _, w := range c.work {
			close(w)
		}
	})
	return c
}

// all lets each of them call f, and waits until all have returned.
func (c *crew) all(f func(i int)) {
	c.busy.Add(len(c.work))
	for _, w := range c.work {
		w <- f
	}
	c.busy.Wait()
}

// waitersFor returns how many wait for the flight of key, 0 if there is none.
func (c *Cache[K, V]) waitersFor(key K) int64 {
	s, _ := c.at(key)
	s.lock()
	defer s.mu.Unlock()
	if s.loads == nil || s.loads.flights[key] == nil {
		return 0
	}
	return s.loads.flights[key].call.waiters.Load()
}

// awaitLanding waits until so many loads have ended, those included that nobody waits for.
func (c *Cache[K, V]) awaitLanding(loads int64) {
	for int64(c.Stats().Load.Loads) < loads {
		runtime.Gosched()
	}
}

// The loader does not return before all wait for it, so there is no doubt that they came
// at once. What happens to the key meanwhile or to the value afterwards makes no
// difference: they wait for this load.
func TestAThousandCallersAtOnceLoadOnce(t *testing.T) {
	callers := newCrew(t, loadCallers)
	clock := clockwork.NewFakeClock()
	for name, o := range map[string]Options[int, int]{
		"kept":               {},
		"lived a short time": {TTL: 1},
		"fake clock":         {TTL: time.Second, Clock: clock, LoadTimeout: expiry.Never},
		"dead on arrival":    {Expiry: expiry.Func(func(int, int) time.Duration { return 0 })},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustNew(t, o)
			events := []func(key int){
				func(int) {},
				func(key int) { c.Set(key, -1) },
				func(key int) { c.Delete(key) },
				func(int) { c.Clear() },
				func(int) { c.DeleteFunc(func(int, int) bool { return false }) },
				func(key int) { c.SetTTL(key, -1, 0) },
				func(key int) { c.Compute(key, func(int, bool) (int, Op) { return 0, OpRemove }) },
				func(int) { clock.Advance(time.Second); c.Flush() },
			}
			rounds := roundsWanted() / 4
			for round := range rounds {
				var calls, wrong atomic.Int64
				load := func(_ context.Context, key int) (int, error) {
					calls.Add(1)
					for c.waitersFor(key) < loadCallers {
						runtime.Gosched()
					}
					events[round%len(events)](key)
					return key + 1, nil
				}
				callers.all(func(int) {
					if v, err := c.GetOrLoad(bg, round, load); v != round+1 || err != nil {
						wrong.Add(1)
					}
				})
				require.Equal(t, int64(1), calls.Load(), "calls of the loader in round %d", round)
				require.Zero(t, wrong.Load(), "callers that got something else in round %d", round)
				c.Delete(round)
			}
			require.Equal(t, uint64(rounds), c.Stats().Load.Loads)
			checkLanded(t, c)
		})
	}
}

// Nothing holds the loader up here: most callers come when the value is there.
func TestAThousandCallersInARowLoadOnce(t *testing.T) {
	callers := newCrew(t, loadCallers)
	c := mustNew(t, Options[int, int]{Shards: 1})
	for round := range roundsWanted() {
		var calls, wrong atomic.Int64
		callers.all(func(int) {
			v, err := c.GetOrLoad(bg, round, func(_ context.Context, key int) (int, error) {
				calls.Add(1)
				runtimeWork(round % 1000)
				return key + 1, nil
			})
			if v != round+1 || err != nil {
				wrong.Add(1)
			}
		})
		require.Equal(t, int64(1), calls.Load(), "calls of the loader in round %d", round)
		require.Zero(t, wrong.Load(), "callers that got something else in round %d", round)
	}
	checkLanded(t, c)
}

// A disturbance is what a series of rounds is made of.
type disturbance struct {
	options  Options[int, int64]
	fails    bool // loaders fail now and then
	leaves   int  // of a hundred callers so many have a context that ends
	realTime bool // entries expire at any moment, so that is no reason that can be counted before
}

var errBroken = errors.New("the source is broken")

// What loaders return carries the number of their call, from 1 on in each round; what is
// stored by others is negative.
type loadRound struct {
	disturbance
	c     *Cache[int, int64]
	clock *clockwork.FakeClock
	key   int

	asked    atomic.Int64 // callers
	calls    atomic.Int64
	reasons  atomic.Int64 // for other calls than the first: what has invalidated the key, and loads that failed
	floor    atomic.Int64 // calls with no higher number began before an invalidation that has returned
	sets     atomic.Int64
	produced sync.Map    // numbers of calls that have returned a value
	over     atomic.Bool // all callers have returned
	fault    atomic.Pointer[string]

	mu   sync.Mutex
	ctxs []context.Context // of calls
}

func (r *loadRound) fail(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	r.fault.CompareAndSwap(nil, &s)
}

func (r *loadRound) hasProduced(call int64) bool {
	_, ok := r.produced.Load(call)
	return ok
}

// await waits until so many callers have come, or the context has ended.
func (r *loadRound) await(ctx context.Context, asked int64) {
	for r.asked.Load() < asked && ctx.Err() == nil {
		runtime.Gosched()
	}
}

func (r *loadRound) load(ctx context.Context, _ int) (int64, error) {
	n := r.calls.Add(1)
	r.mu.Lock()
	r.ctxs = append(r.ctxs, ctx)
	r.mu.Unlock()
	if reasons := r.reasons.Load(); n > 1+reasons && r.leaves == 0 && !r.realTime {
		r.fail("call %d of the loader, but only %d reasons for another one", n, reasons)
	}
	r.await(ctx, rand.Int64N(loadCallers+1))
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if r.fails && rand.IntN(3) == 0 {
		r.reasons.Add(1)
		switch rand.IntN(3) {
		case 0:
			return n, ErrNotFound // nobody may see n
		case 1:
			panic(errBroken)
		}
		return n, errBroken
	}
	r.produced.Store(n, nil)
	return n, nil
}

func (r *loadRound) loadMany(ctx context.Context, keys []int) (map[int]int64, error) {
	v, err := r.load(ctx, keys[0])
	return map[int]int64{keys[0]: v}, err
}

// ask is what each caller does. floor is read before: nobody who comes after an
// invalidation may wait for what was begun before it.
func (r *loadRound) ask(ctx context.Context, all bool) {
	floor := r.floor.Load()
	r.asked.Add(1)
	var v int64
	var err error
	if all {
		var m map[int]int64
		m, err = r.c.LoadAll(ctx, []int{r.key}, r.loadMany)
		v = m[r.key]
	} else {
		v, err = r.c.GetOrLoad(ctx, r.key, r.load)
	}
	var broken *PanicError
	switch {
	case err == nil:
		r.judge(v, floor)
	case v != 0:
		r.fail("%d besides the error %v", v, err)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case r.fails && (errors.Is(err, ErrNotFound) || errors.Is(err, errBroken) || errors.As(err, &broken)):
	default:
		r.fail("the error %v", err)
	}
}

// judge judges a value that has been read.
func (r *loadRound) judge(v, floor int64) {
	switch {
	case v == 0:
		r.fail("no value, and no error either")
	case v < 0 && -v > r.sets.Load(), v > 0 && !r.hasProduced(v):
		r.fail("%d, which nobody has stored or loaded", v)
	case v > 0 && v <= floor:
		r.fail("%d, which was being loaded when the key was invalidated; loads up to %d were", v, floor)
	}
}

// read reads until the round is over.
func (r *loadRound) read() {
	for !r.over.Load() && r.fault.Load() == nil {
		floor := r.floor.Load()
		if v, ok := r.c.Get(r.key); ok {
			r.judge(v, floor)
		}
		runtime.Gosched()
	}
}

// invalidate does one thing after which what is being loaded must not be stored, or lets
// the entry expire, which only makes another load necessary.
func (r *loadRound) invalidate() {
	r.await(bg, rand.Int64N(loadCallers+1))
	before := r.calls.Load()
	r.reasons.Add(1)
	set := func() int64 { return -r.sets.Add(1) }
	switch rand.IntN(14) {
	case 0:
		r.c.Set(r.key, set())
	case 1:
		r.c.SetTTL(r.key, set(), time.Hour)
	case 2:
		r.c.SetTTL(r.key, set(), 0)
	case 3:
		r.reasons.Add(1) // it ends a flight, and then may remove what the next one has stored
		r.c.Clear()
	case 4:
		r.reasons.Add(1) // likewise
		r.c.DeleteFunc(func(int, int64) bool { return true })
	case 5:
		r.c.Compute(r.key, func(int64, bool) (int64, Op) { return set(), OpStore })
	case 6:
		r.c.Compute(r.key, func(int64, bool) (int64, Op) { return 0, OpRemove })
	case 7:
		r.c.GetAndDelete(r.key)
	case 8, 9:
		r.c.Delete(r.key)
	case 10:
		if _, found := r.c.GetOrSet(r.key, set()); found {
			return
		}
	case 11:
		if _, ok := r.c.Replace(r.key, set()); !ok {
			return
		}
	case 12:
		r.c.Refresh(bg, r.key, r.load) // another reason, but no invalidation
		return
	case 13:
		if r.clock != nil {
			r.clock.Advance(r.options.TTL)
		}
		return
	}
	for f := r.floor.Load(); before > f && !r.floor.CompareAndSwap(f, before); f = r.floor.Load() {
	}
}

// contexts returns one that does not end, and some that end while the callers come.
func (r *loadRound) contexts(others *sync.WaitGroup) []context.Context {
	all := []context.Context{bg}
	if r.leaves == 0 {
		return all
	}
	for range 5 {
		ctx, cancel := context.WithCancel(bg)
		all = append(all, ctx)
		at := rand.Int64N(loadCallers + 1)
		others.Go(func() {
			r.await(bg, at)
			cancel()
		})
	}
	return all
}

func (r *loadRound) run(callers *crew) {
	expired := r.c.Stats().Expired
	loads := int64(r.c.Stats().Load.Loads)
	var others, readers sync.WaitGroup
	contexts := r.contexts(&others)
	for range rand.IntN(5) {
		others.Go(r.invalidate)
	}
	readers.Go(r.read)
	callers.all(func(int) {
		ctx := bg
		if rand.IntN(100) < r.leaves {
			ctx = contexts[1+rand.IntN(len(contexts)-1)]
		}
		r.ask(ctx, rand.IntN(20) == 0)
	})
	others.Wait()
	r.over.Store(true)
	readers.Wait()
	// A refresh may have begun last, and not called its loader yet; a load that was left
	// goes on.
	for r.c.waitersFor(r.key) > 0 {
		runtime.Gosched()
	}
	r.c.awaitLanding(loads + r.calls.Load())
	floor := r.floor.Load()
	if v, ok := r.c.Get(r.key); ok {
		r.judge(v, floor)
	}

	// A load that everybody has left is a reason, too, but not one that is known before.
	// (One may begin now still, after its caller has left.)
	allowed := 1 + r.reasons.Load()
	r.mu.Lock()
	n := int64(len(r.ctxs))
	for _, ctx := range r.ctxs {
		if errors.Is(context.Cause(ctx), errAbandoned) {
			allowed++
		}
	}
	r.mu.Unlock()
	if r.realTime {
		allowed += int64(r.c.Stats().Expired - expired)
	}
	if n > allowed {
		r.fail("%d calls of the loader, but only %d are explained", n, allowed)
	}
}

func TestAThousandCallersNeverLoadWithoutAReason(t *testing.T) {
	callers := newCrew(t, loadCallers)
	const ttl = time.Second
	never := expiry.Never
	for name, d := range map[string]disturbance{
		"invalidations": {
			options: Options[int, int64]{TTL: ttl, LoadTimeout: never},
		},
		"invalidations and failures": {
			options: Options[int, int64]{TTL: ttl, LoadTimeout: never}, fails: true,
		},
		"failures are remembered": {
			options: Options[int, int64]{TTL: ttl, LoadTimeout: never, NegativeTTL: ttl, ErrorTTL: ttl / 2, StaleFor: ttl, Shards: 1}, fails: true,
		},
		"callers leave": {
			options: Options[int, int64]{TTL: ttl, LoadTimeout: never, StaleFor: ttl}, fails: true, leaves: 50,
		},
		"all callers leave": {
			options: Options[int, int64]{TTL: ttl, LoadTimeout: never, ErrorTTL: ttl}, leaves: 100,
		},
		"short lives": {
			options: Options[int, int64]{TTL: 20 * time.Microsecond, Tick: 10 * time.Microsecond}, realTime: true,
		},
		"short lives, callers leave": {
			options: Options[int, int64]{TTL: 200 * time.Microsecond, Tick: 10 * time.Microsecond, ErrorTTL: 50 * time.Microsecond, StaleFor: 50 * time.Microsecond, Shards: 1},
			fails:   true, leaves: 70, realTime: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var clock *clockwork.FakeClock
			o := d.options
			if !d.realTime {
				clock = clockwork.NewFakeClock()
				o.Clock = clock
			}
			c := mustNew(t, o)
			calls := int64(0)
			rounds := max(roundsWanted()/7, 1)
			for round := range rounds {
				r := &loadRound{disturbance: d, c: c, clock: clock, key: round}
				r.run(callers)
				if fault := r.fault.Load(); fault != nil {
					require.Failf(t, "a caller or a loader was wrong", "round %d: %s", round, *fault)
				}
				calls += r.calls.Load()
				c.Delete(round)
			}
			c.Flush()
			checkLanded(t, c)
			t.Logf("%d rounds of %d callers, %d calls of the loader; %+v", rounds, loadCallers, calls, c.Stats().Load)
		})
	}
}
