package wheelcache

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// FuzzTicks compares the arithmetic of ticks with that of numbers that do not
// overflow.
func FuzzTicks(f *testing.F) {
	instants := []int64{math.MinInt64, math.MinInt64 + 1, -1001, -1000, -999, -1, 0, 1, 999, 1000, 1001, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	for _, tick := range []int64{int64(minTick), int64(defaultTick), 1234567, int64(time.Hour), math.MaxInt64 - 1, math.MaxInt64} {
		for _, instant := range instants {
			f.Add(instant, tick)
			f.Add(instant/tick*tick, tick)
			f.Add(instant/tick*tick+1, tick)
		}
	}
	f.Fuzz(func(t *testing.T, instant, tick int64) {
		tick = max(tick&math.MaxInt64, int64(minTick))
		c := &Cache[int, int]{tick: time.Duration(tick)}
		at, length := big.NewInt(instant), big.NewInt(tick)
		floor, rest := new(big.Int).DivMod(at, length, new(big.Int)) // Euclidean: rounds down
		require.Equal(t, floor.Int64(), c.tickBefore(instant), "rounded down")
		after := new(big.Int).Set(floor)
		if rest.Sign() > 0 {
			after.Add(after, big.NewInt(1))
		}
		require.Equal(t, after.Int64(), c.tickAfter(instant), "rounded up")

		passes := after.Mul(after, length)
		want := expiry.NoDeadline - 1 // beyond the range: as late as can be, but not never
		if passes.IsInt64() {
			want = passes.Int64()
		}
		got := c.instantOf(c.tickAfter(instant))
		require.Equal(t, want, got)
		if passes.IsInt64() {
			require.LessOrEqual(t, instant, got, "a deadline has passed when its tick comes")
			require.True(t, instant <= math.MinInt64+tick || got-tick < instant, "and not a whole tick before")
		}
	})
}

// A wanderer is a cache on a clock that goes to and fro, and what must be in it.
type wanderer struct {
	*Cache[int, int]
	clock *clockwork.FakeClock

	mu      sync.Mutex
	removed []Removal[int, int]
	latest  time.Time          // the clock has shown
	held    map[int]wandererIn // by key; what has expired, too, until it is removed
	stored  int
}

type wandererIn struct {
	value    int
	deadline int64
}

// step moves the clock.
func (w *wanderer) step(d time.Duration) {
	w.clock.Advance(d)
	if now := w.clock.Now(); now.After(w.latest) {
		w.latest = now
	}
}

// settle takes note of what has been removed.
func (w *wanderer) settle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.removed {
		if r.Cause == Expired {
			require.GreaterOrEqual(t, r.Late, time.Duration(0))
			require.False(t, r.Deadline.After(w.latest), "the clock has never shown the deadline")
		}
		if e, ok := w.held[r.Key]; ok && e.value == r.Value {
			delete(w.held, r.Key)
		}
	}
	w.removed = nil
}

// agree compares the cache with what must be in it.
func (w *wanderer) agree(t *testing.T) {
	t.Helper()
	now := int64(w.clock.Now().Sub(w.Cache.clock.epoch))
	live := make(map[int]int)
	for k, e := range w.held {
		if now < e.deadline {
			live[k] = e.value
		}
		v, ok := w.Get(k)
		require.Equal(t, now < e.deadline, ok, "deadline %d at %d", e.deadline, now)
		if ok {
			require.Equal(t, e.value, v)
		}
	}
	require.Equal(t, live, contents(t, w.Cache))
	check(t, w.Cache)
}

// nextIsLeftOut reports whether the next tick of a wheel is one that stands for none:
// what is due then may stay for another tick.
func (w *wanderer) nextIsLeftOut() bool {
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		leftOut := s.wheel != nil && uint32(s.wheel.Cursor()+1) == noTick
		s.mu.Unlock()
		if leftOut {
			return true
		}
	}
	return false
}

func TestAClockThatWandersTakesNothingEarlyAndLeavesNothingBehind(t *testing.T) {
	walks := uint64(4)
	if testing.Short() {
		walks = 1
	}
	for _, tick := range []time.Duration{minTick, defaultTick, 1234567, time.Hour, 100 * 365 * 24 * time.Hour} {
		for _, slots := range []int{0, 1, 8} {
			for walk := range walks {
				name := fmt.Sprintf("tick=%v/slots=%d/walk=%d", tick, slots, walk)
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { wander(t, tick, slots, rand.New(rand.NewPCG(walk, uint64(tick)+uint64(slots)))) })
				})
			}
		}
	}
}

func wander(t *testing.T, tick time.Duration, slots int, r *rand.Rand) {
	w := &wanderer{held: make(map[int]wandererIn)}
	w.clock = clockwork.NewFakeClockAt(time.Unix(r.Int64N(1<<34)-1<<33, r.Int64N(1e9)))
	w.latest = w.clock.Now()
	w.Cache = mustNew(t, Options[int, int]{Tick: tick, Slots: slots, Shards: 1 + r.IntN(2), Clock: w.clock, OnRemoval: func(r Removal[int, int]) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.removed = append(w.removed, r)
	}})
	turn := time.Duration(max(slots, firstSlots)) * min(tick, 100*time.Hour)
	lifetimes := []time.Duration{
		1, tick - 1, tick, tick + 1, turn - 1, turn, turn + 1, turn + turn/2, 1000*turn - 1, 1000 * turn, 1000*turn + 1,
		10 * time.Millisecond, 10 * time.Second, 10 * time.Hour, math.MaxInt64 - 1, expiry.Never,
	}
	steps := []time.Duration{
		0, 1, tick - 1, tick, tick + 1, turn, 10 * time.Millisecond, 10 * time.Second, 10 * time.Hour, 1000 * turn,
	}
	w.step(time.Duration(r.Int64N(int64(24 * time.Hour)))) // the phase of the ticks
	for range 300 {
		key := r.IntN(40)
		now := int64(w.clock.Now().Sub(w.Cache.clock.epoch))
		ttl := lifetimes[r.IntN(len(lifetimes))]
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			w.stored++
			w.SetTTL(key, w.stored, ttl)
			w.settle(t)
			w.held[key] = wandererIn{w.stored, expiry.Deadline(now, ttl)}
		case 4:
			e, ok := w.held[key]
			require.Equal(t, ok && now < e.deadline, w.Move(key, ttl))
			if ok && now < e.deadline {
				w.held[key] = wandererIn{e.value, expiry.Deadline(now, ttl)}
			}
		case 5:
			e, ok := w.held[key]
			require.Equal(t, ok && now < e.deadline, w.Delete(key))
		default:
			d := steps[r.IntN(len(steps))]
			if r.IntN(3) == 0 {
				d = -d
			}
			if span := time.Duration(now) + d; span > 1<<61 || span < -1<<61 {
				d = 0 // the ends of time have tests of their own
			}
			starved := r.IntN(3) == 0
			if starved {
				w.FreezeDriver()
			}
			w.step(d)
			w.settle(t)
			w.agree(t)
			if starved {
				w.ThawDriver()
			}
		}
		w.settle(t)
		w.agree(t)
		if r.IntN(4) == 0 {
			w.Flush()
			w.settle(t)
			w.agree(t)
			if !w.nextIsLeftOut() {
				require.Equal(t, len(contents(t, w.Cache)), w.Len(), "Flush leaves nothing that has expired")
			}
		}
	}

	// Beyond everything it has shown, the clock makes the driver go on by itself.
	now := w.clock.Now()
	w.step(w.latest.Sub(now) + 10*time.Hour)
	w.step(2 * tick)
	w.settle(t)
	w.agree(t)
	by := int64(w.clock.Now().Sub(w.Cache.clock.epoch)) - 2*int64(tick)
	for k, e := range w.held {
		require.Greater(t, e.deadline, by, "key %d has been left behind", k)
	}
	w.Clear()
	w.settle(t)
	s := w.Stats()
	require.Equal(t, s.Sets, s.Expired+s.Deleted+s.Replaced+s.Cleared)
	require.EqualValues(t, w.stored, s.Sets)
}
