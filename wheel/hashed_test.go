package wheel

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A timingWheel is what the rules below are stated of.
type timingWheel interface {
	Add(record uint32, tick int64) int64
	Clamp(tick int64) int64
	Advance(now int64, limit int, visit func(record uint32, tick int64) (later int64)) (more bool)
	Next() (tick int64, ok bool)
	Len() int
	Cursor() int64
	Records() iter.Seq2[uint32, int64]
}

// wheels are the wheels that must keep the rules.
var wheels = []struct {
	name  string
	span  int64 // ticks of one turn
	start func(now int64) timingWheel
}{
	{"hashed/slots=1", 1, func(now int64) timingWheel { return NewHashed(1, now) }},
	{"hashed/slots=8", 8, func(now int64) timingWheel { return NewHashed(8, now) }},
	{"hashed/slots=512", 512, func(now int64) timingWheel { return NewHashed(512, now) }},
	{"hashed/slots=8/rebuilding=64", 8, func(now int64) timingWheel { return rebuilding(8, 64, now) }},
	{"hashed/slots=64/rebuilding=8", 64, func(now int64) timingWheel { return rebuilding(64, 8, now) }},
}

// rebuilding returns an empty wheel that begins a rebuild once records were
// added, so that what a test adds is divided between two rings.
func rebuilding(from, to int, now int64) timingWheel {
	return &resized{Hashed: NewHashed(from, now), to: to}
}

type resized struct {
	*Hashed
	to    int
	calls int
}

func (w *resized) Add(record uint32, tick int64) int64 {
	got := w.Hashed.Add(record, tick)
	switch w.calls++; w.calls % 4 {
	case 1:
		w.Resize(w.to, w.Len())
	case 3:
		w.Step(1, nil)
	}
	return got
}

// starts are ticks at which a wheel may begin.
var starts = []int64{
	0, 1, -1, 12345,
	math.MaxInt32, math.MinInt32, math.MaxUint32, math.MaxUint32 - 4, -1 << 32,
	1<<31 - Horizon, 1<<32 - Horizon,
	math.MinInt64 + 1, math.MaxInt64 - 4*Horizon,
}

// eachWheel runs rule on an empty wheel of each kind and start.
func eachWheel(t *testing.T, rule func(t *testing.T, w timingWheel, span int64)) {
	for _, kind := range wheels {
		t.Run(kind.name, func(t *testing.T) {
			for _, now := range starts {
				w := kind.start(now)
				rule(t, w, kind.span)
				checkWheel(t, w)
			}
		})
	}
}

func checkWheel(t *testing.T, w timingWheel) {
	t.Helper()
	switch w := w.(type) {
	case *Hashed:
		check(t, w)
	case *resized:
		check(t, w.Hashed)
	default:
		t.Fatalf("no checker for %T", w)
	}
}

// distances are of interest for a wheel with the given span.
func distances(span int64) []int64 {
	d := []int64{1, 2, 3, span - 1, span, span + 1, 2*span - 1, 2 * span, 2*span + 1,
		7*span + 3, 1000 * span, 1000*span + 1, Horizon - 1, Horizon}
	slices.Sort(d)
	return slices.DeleteFunc(slices.Compact(d), func(d int64) bool { return d < 1 })
}

// due advances w to now, at most limit records at a time, and returns the
// records visited, in order. All are done.
func due(t *testing.T, w timingWheel, now int64, limit int) []uint32 {
	t.Helper()
	var got []uint32
	for more := true; more; {
		visits := 0
		more = w.Advance(now, limit, func(record uint32, tick int64) int64 {
			require.LessOrEqual(t, tick, now, "record %d is early", record)
			visits++
			got = append(got, record)
			return Done
		})
		require.LessOrEqual(t, visits, limit)
		checkWheel(t, w)
	}
	slices.Sort(got)
	return got
}

const noLimit = math.MaxInt

func Test_record_is_visited_at_its_tick_and_not_before(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		for i, d := range distances(span) {
			tick := w.Cursor() + d
			record := uint32(i)
			require.Equal(t, tick, w.Add(record, tick))
			require.Empty(t, due(t, w, tick-1, noLimit), "a tick before, distance %d", d)
			require.Equal(t, []uint32{record}, due(t, w, tick, noLimit), "distance %d", d)
			require.Empty(t, due(t, w, tick+2*span, noLimit), "visited twice, distance %d", d)
		}
	})
}

func Test_records_of_many_rounds_share_slots(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i, d := range distances(span) {
			w.Add(uint32(i), now+d)
		}
		for i, d := range distances(span) {
			next, ok := w.Next()
			require.True(t, ok)
			require.LessOrEqual(t, next, now+d)
			require.Empty(t, due(t, w, now+d-1, noLimit))
			require.Equal(t, []uint32{uint32(i)}, due(t, w, now+d, noLimit))
		}
		require.Zero(t, w.Len())
	})
}

func Test_every_tick_of_a_sweep_is_visited_once_whatever_the_limit(t *testing.T) {
	for _, limit := range []int{1, 2, 16, noLimit} {
		eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
			now := w.Cursor()
			var want []uint32
			for i := range uint32(40) {
				w.Add(i, now+1+int64(i)*3%(2*span))
				want = append(want, i)
			}
			w.Add(1000, now+2*span+40)
			require.Equal(t, want, due(t, w, now+2*span+39, limit), "limit %d", limit)
			require.Equal(t, 1, w.Len())
		})
	}
}

func Test_gap_however_long_leaves_nothing_behind(t *testing.T) {
	for _, gap := range []int64{10, 10_000, 36_000_000, Horizon, 2*Horizon + 5} {
		eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
			now := w.Cursor()
			var want []uint32
			for i := range uint32(30) {
				if tick := w.Add(i, now+int64(i*i*i)); tick <= now+gap {
					want = append(want, i)
				}
			}
			w.Add(99, now+Horizon)
			if gap >= Horizon {
				want = append(want, 99)
			}
			require.Equal(t, want, due(t, w, now+gap, noLimit), "gap %d", gap)
			require.Equal(t, now+gap, w.Cursor())
		})
	}
}

func Test_past_tick_waits_for_the_next_one(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i, tick := range []int64{now, now - 1, now - span, now + 1, math.MinInt64} {
			if tick > now+1 {
				continue // there is no tick before the first
			}
			require.Equal(t, now+1, w.Clamp(tick))
			require.Equal(t, now+1, w.Add(uint32(i), tick))
		}
		n := w.Len()
		require.Empty(t, due(t, w, now, noLimit))
		require.Len(t, due(t, w, now+1, noLimit), n)
	})
}

func Test_tick_beyond_the_horizon_waits_for_the_horizon(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i, tick := range []int64{now + Horizon, now + Horizon + 1, now + 2*Horizon, math.MaxInt64} {
			require.Equal(t, now+Horizon, w.Add(uint32(i), tick))
		}
		require.Equal(t, now+Horizon-1, w.Clamp(now+Horizon-1))
		require.Empty(t, due(t, w, now+Horizon-1, noLimit))
		require.Len(t, due(t, w, now+Horizon, noLimit), 4)
	})
}

func Test_record_that_waits_on_is_visited_at_the_later_tick(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		for _, d := range distances(span) {
			tick := w.Add(7, w.Cursor()+1)
			later := tick + d
			require.False(t, w.Advance(tick, noLimit, func(uint32, int64) int64 { return later }))
			require.Equal(t, 1, w.Len())
			require.Empty(t, due(t, w, later-1, noLimit), "distance %d", d)
			require.Equal(t, []uint32{7}, due(t, w, later, noLimit), "distance %d", d)
		}
	})
}

func Test_answer_in_the_past_waits_for_the_next_tick(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		tick := w.Add(7, w.Cursor()+1)
		visits := 0
		require.False(t, w.Advance(tick, noLimit, func(uint32, int64) int64 {
			visits++
			return tick - 1
		}))
		require.Equal(t, 1, visits)
		require.Equal(t, []uint32{7}, due(t, w, tick+1, noLimit))
	})
}

func Test_answer_within_the_sweep_is_visited_in_it(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		end := w.Cursor() + 10*span
		w.Add(7, w.Cursor()+1)
		want := []int64{w.Cursor() + 1}
		var got []int64
		require.False(t, w.Advance(end, noLimit, func(_ uint32, tick int64) int64 {
			got = append(got, tick)
			if later := w.Cursor() + 2; len(got) < 3 && later <= end {
				want = append(want, later)
				return later
			}
			return Done
		}))
		require.Equal(t, want, got)
		require.Zero(t, w.Len())
	})
}

func Test_record_added_by_visit_never_joins_the_list_being_walked(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		w.Add(0, now+1)
		// Each visit adds two, so that a walk over its own additions would
		// never end; so do additions for slots the sweep has passed.
		visits := 0
		require.False(t, w.Advance(now+1, noLimit, func(uint32, int64) int64 {
			visits++
			w.Add(1, now+1)
			w.Add(2, now+1+span)
			return Done
		}))
		require.Equal(t, 1, visits)
		require.Equal(t, 2, w.Len())
		require.Contains(t, due(t, w, now+2, noLimit), uint32(1))
		due(t, w, now+1+span, noLimit)
		require.Zero(t, w.Len())
	})
}

func Test_limit_stops_before_the_next_record(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i := range uint32(100) {
			w.Add(i, now+1)
		}
		visits := 0
		visit := func(uint32, int64) int64 { visits++; return Done }
		for want := 10; want < 100; want += 10 {
			require.True(t, w.Advance(now+1, 10, visit))
			require.Equal(t, want, visits)
			require.Equal(t, 100-want, w.Len())
			next, ok := w.Next()
			require.True(t, ok)
			require.LessOrEqual(t, next, now+1)
			checkWheel(t, w)
		}
		for w.Advance(now+1, 10, visit) {
		}
		require.Equal(t, 100, visits)
	})
}

func Test_limit_below_one_counts_as_one(t *testing.T) {
	for _, limit := range []int{0, -1, math.MinInt} {
		eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
			w.Add(1, w.Cursor()+1)
			w.Add(2, w.Cursor()+1)
			visits, calls, now := 0, 0, w.Cursor()+1
			for w.Advance(now, limit, func(uint32, int64) int64 { visits++; return Done }) {
				calls++
				require.LessOrEqual(t, visits, calls)
			}
			require.Equal(t, 2, visits)
		})
	}
}

func Test_limit_bounds_the_slots_passed(t *testing.T) {
	w := NewHashed(1<<12, 0)
	w.Add(1, 1<<11)
	calls := 1
	for w.Advance(1<<12, 1, func(uint32, int64) int64 { return Done }) {
		require.LessOrEqual(t, w.Cursor(), int64(calls*slotsPerRecord))
		calls++
	}
	require.Equal(t, 1<<12/slotsPerRecord, calls)
}

func Test_limit_bounds_the_chunks_read(t *testing.T) {
	w := NewHashed(8, 0)
	for i := range uint32(chunkLen * 20) {
		w.Add(i, 8*100)
	}
	w.Add(1000, 8) // makes the slot one to be read
	calls := 1
	for w.Advance(8, 2, func(uint32, int64) int64 { return Done }) {
		calls++
		check(t, w)
	}
	require.GreaterOrEqual(t, calls, 10)
	require.Equal(t, chunkLen*20, w.Len())
}

func Test_panic_in_visit_leaves_the_wheel_whole(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i := range uint32(50) {
			w.Add(i, now+1+int64(i)%3*span)
		}
		last := now + 1 + 2*span
		seen := make(map[uint32]int)
		refused := make(map[uint32]bool)
		var current uint32
		for w.Len() > 0 {
			func() {
				defer func() {
					if recover() == nil {
						return
					}
					checkWheel(t, w)
					held := false
					for record := range w.Records() {
						held = held || record == current
					}
					require.True(t, held, "record %d got lost in its visit's panic", current)
				}()
				w.Advance(last, noLimit, func(record uint32, tick int64) int64 {
					current = record
					if !refused[record] && record%5 == 0 {
						refused[record] = true
						panic("refused")
					}
					seen[record]++
					return Done
				})
			}()
		}
		require.Len(t, seen, 50)
		for record, n := range seen {
			require.Equal(t, 1, n, "visits of record %d", record)
		}
		require.Len(t, refused, 10)
	})
}

func Test_time_does_not_go_back(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor() + 10*span
		require.Empty(t, due(t, w, now, noLimit))
		w.Add(1, now+1)
		for _, past := range []int64{now, now - 1, now - 9*span, math.MinInt64} {
			require.False(t, w.Advance(past, noLimit, nil))
			require.Equal(t, now, w.Cursor())
		}
		require.Equal(t, []uint32{1}, due(t, w, now+1, noLimit))
	})
}

func Test_stopped_sweep_goes_on_to_its_end_whatever_now_says(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor() + 20*span
		for i := range uint32(20) {
			w.Add(i, w.Cursor()+1+int64(i)*span)
		}
		visits := 0
		visit := func(uint32, int64) int64 { visits++; return Done }
		require.True(t, w.Advance(now, 5, visit))
		for w.Advance(math.MinInt64, 5, visit) {
		}
		require.Equal(t, 20, visits)
		require.Equal(t, now, w.Cursor())
	})
}

func Test_record_added_to_a_stopped_sweep_is_visited_in_its_tick(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i := range uint32(20) {
			w.Add(i, now+1+int64(i))
		}
		end := now + 3*span + 20
		require.True(t, w.Advance(end, 1, func(uint32, int64) int64 { return Done }))
		past := w.Add(100, now)
		require.Equal(t, w.Cursor()+1, past)
		if at := w.Add(101, end); at <= end {
			got := due(t, w, end, noLimit)
			require.Subset(t, got, []uint32{101})
			if past <= end {
				require.Subset(t, got, []uint32{100})
			}
		}
		due(t, w, end+1, noLimit)
		require.Zero(t, w.Len())
	})
}

func Test_same_record_may_wait_many_times(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		w.Add(1, now+1)
		w.Add(1, now+1)
		w.Add(1, now+1+span)
		require.Equal(t, []uint32{1, 1}, due(t, w, now+1, noLimit))
		require.Equal(t, []uint32{1}, due(t, w, now+1+span, noLimit))
	})
}

func Test_records_are_all_32_bits(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		w.Add(0, w.Cursor()+1)
		w.Add(math.MaxUint32, w.Cursor()+1)
		require.Equal(t, []uint32{0, math.MaxUint32}, due(t, w, w.Cursor()+1, noLimit))
	})
}

func Test_next_is_no_later_than_any_record_and_exact_when_idle(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		_, ok := w.Next()
		require.False(t, ok)
		now := w.Cursor()
		h, plain := w.(*Hashed)
		all := distances(span)
		slices.Reverse(all)
		for i, d := range all {
			w.Add(uint32(i), now+d)
			next, ok := w.Next()
			require.True(t, ok)
			require.LessOrEqual(t, next, now+d)
			if plain {
				require.Equal(t, now+d, next)
				again, _ := h.Next()
				require.Equal(t, next, again)
			}
		}
		slices.Reverse(all)
		for i, d := range all {
			require.Len(t, due(t, w, now+d, noLimit), 1)
			next, ok := w.Next()
			require.Equal(t, i < len(all)-1, ok)
			if ok && plain {
				require.Equal(t, now+all[i+1], next)
			}
		}
	})
}

func Test_next_after_emptying_starts_afresh(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		w.Add(1, w.Cursor()+1)
		due(t, w, w.Cursor()+1, noLimit)
		far := w.Cursor() + 100*span
		w.Add(2, far)
		next, ok := w.Next()
		require.True(t, ok)
		require.Equal(t, far, next)
	})
}

func Test_records_can_be_listed_in_part(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		now := w.Cursor()
		for i := range uint32(20) {
			w.Add(i, now+1+int64(i)/2)
		}
		w.Advance(now+11, 3, func(uint32, int64) int64 { return Done })
		for stop := range w.Len() {
			n := 0
			for record, tick := range w.Records() {
				require.Equal(t, now+1+int64(record)/2, tick)
				if n++; n > stop {
					break
				}
			}
			require.Equal(t, stop+1, n)
		}
	})
}

func Test_wheel_that_was_emptied_can_be_used_again(t *testing.T) {
	eachWheel(t, func(t *testing.T, w timingWheel, span int64) {
		for range 3 {
			now := w.Cursor()
			for i := range uint32(200) {
				w.Add(i, now+1+int64(i))
			}
			require.Len(t, due(t, w, now+200, noLimit), 200)
			require.Zero(t, w.Len())
		}
	})
}

func Test_time_ends_a_horizon_before_the_last_tick(t *testing.T) {
	for _, now := range []int64{math.MaxInt64, lastTick + 1, lastTick} {
		w := NewHashed(8, now)
		require.Equal(t, int64(lastTick), w.Cursor())
		require.Equal(t, int64(math.MaxInt64), w.Add(1, math.MaxInt64))
		require.Equal(t, int64(lastTick+1), w.Add(2, math.MinInt64))
		require.Empty(t, due(t, w, math.MaxInt64, noLimit))
		check(t, w)
	}
	w := NewHashed(8, math.MinInt64)
	w.Add(1, math.MinInt64)
	require.Equal(t, []uint32{1}, due(t, w, math.MaxInt64, noLimit))
	require.Equal(t, int64(lastTick), w.Cursor())
}

func Test_slots_are_rounded_up_to_a_power_of_two(t *testing.T) {
	for slots, want := range map[int]int{
		1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 511: 512, 512: 512, 513: 1024, MaxSlots - 1: MaxSlots, MaxSlots: MaxSlots,
	} {
		require.Equal(t, want, NewHashed(slots, 0).Slots(), "%d slots", slots)
	}
}

func Test_impossible_numbers_of_slots_panic(t *testing.T) {
	w := NewHashed(1, 0)
	for _, slots := range []int{0, -1, MaxSlots + 1, math.MaxInt, math.MinInt} {
		want := fmt.Sprintf("wheel: %d slots, want 1 to 1048576", slots)
		require.PanicsWithValue(t, want, func() { NewHashed(slots, 0) })
		require.PanicsWithValue(t, want, func() { w.Resize(slots, 0) })
	}
}

func Test_memory_follows_the_records(t *testing.T) {
	w := NewHashed(64, 0)
	empty := w.Bytes()
	require.Equal(t, 64*slotBytes, empty)
	w.Add(1, 1)
	require.Equal(t, empty+chunkBytes, w.Bytes(), "one record, one chunk")

	const records = 100_000
	for i := range uint32(records) {
		w.Add(i, 2+int64(i%1000))
	}
	require.Less(t, w.Bytes(), records*10)
	for w.Advance(2000, noLimit, func(uint32, int64) int64 { return Done }) {
	}
	require.Equal(t, empty, w.Bytes(), "an emptied wheel gives its memory back")

	w.Add(1, w.Cursor()+1)
	for w.Advance(3000, noLimit, func(uint32, int64) int64 { return Done }) {
	}
	require.Equal(t, empty+chunkBytes, w.Bytes(), "too little to give back")
}

func Test_thinned_lists_are_packed_by_the_sweep(t *testing.T) {
	// All records wait in one slot, and in every round but the last most of
	// them are done: what is left must not lie scattered over all chunks.
	const slots, rounds, records = 8, 20, 15000
	w := NewHashed(slots, 0)
	for i := range uint32(records) {
		w.Add(i, slots*(1+int64(i)%rounds))
	}
	for round := range int64(rounds - 1) {
		w.Advance(slots*(1+round), noLimit, func(uint32, int64) int64 { return Done })
		check(t, w)
		chunks := w.Len()/chunkLen + 1
		require.LessOrEqual(t, int(w.ring.chunks.used), 2*chunks+1, "round %d", round)
	}
}

func Test_records_not_due_are_only_read(t *testing.T) {
	w := NewHashed(8, 0)
	const chunks = 3
	for i := range uint32(chunks * chunkLen) {
		w.Add(i, 16)
	}
	w.Add(1000, 8)
	contents := func() (pairs [chunks][chunkLen]pair) {
		for i := range pairs {
			pairs[i] = w.ring.chunks.slabs[0][i].pairs
		}
		return pairs
	}
	before := contents()
	require.Equal(t, []uint32{1000}, due(t, w, 8, noLimit))
	require.Equal(t, before, contents(), "records were moved")
	require.EqualValues(t, chunks, w.ring.chunks.used)
}

func Test_chunk_less_than_half_full_is_not_put_behind_another(t *testing.T) {
	w := NewHashed(8, 0)
	w.Add(1, 1)
	for i := range uint32(chunkLen) {
		w.Add(100+i, 2)
	}
	w.Add(2, 10) // alone in the first chunk of its slot
	done := func(uint32, int64) int64 { return Done }
	require.True(t, w.Advance(2, 1, done)) // up to that chunk
	w.Add(3, 10)                           // opens a new one
	require.Len(t, due(t, w, 2, noLimit), chunkLen)
	require.EqualValues(t, 1, w.ring.chunks.used)
}

func Test_a_wheel_that_is_not_full_takes_little_memory(t *testing.T) {
	for records := 300; records <= 3000; records += 5 {
		w := NewHashed(8, 0)
		for i := range uint32(records) {
			w.Add(i, 1)
		}
		most := (records/chunkLen+1)*3/2 + 2 // chunks: a slab grows by a third, and to a size class
		if records > slabLen*chunkLen {
			most = (records/(slabLen*chunkLen) + 1) * slabLen
		}
		require.LessOrEqual(t, w.Bytes(), 8*slotBytes+most*chunkBytes, "%d records", records)
	}
}

func Test_nothing_is_allocated_in_the_steady_state(t *testing.T) {
	w := NewHashed(64, 0)
	for i := range uint32(5000) {
		w.Add(i, int64(i))
	}
	visit := func(record uint32, tick int64) int64 { return tick + 1 + int64(record) }
	run := func() {
		for range 100 {
			w.Add(0, w.Cursor()+10)
			w.Advance(w.Cursor()+1, 1000, func(record uint32, tick int64) int64 {
				if record == 0 {
					return Done
				}
				return visit(record, tick)
			})
			w.Next()
		}
	}
	for range 100 {
		run()
	}
	require.Zero(t, testing.AllocsPerRun(20, run))
}

func Test_what_was_reserved_is_not_asked_for_again(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for name, later := range map[string]func(record int) int64{
		"one tick":   func(int) int64 { return 1 },
		"all ticks":  func(int) int64 { return draw.Int64N(1 << 20) },
		"some ticks": func(record int) int64 { return int64(record % 100) },
	} {
		for _, records := range []int{10, 100, 1_000, 10_000, 100_000} {
			var wheels []*Hashed // for three tries, each with a run that is not counted before
			for range 6 {
				w := NewHashed(max(records/64, 1), 0)
				w.Reserve(records)
				wheels = append(wheels, w)
			}
			bytes := wheels[0].Bytes()
			least := math.Inf(1) // the runtime may allocate meanwhile, once
			for range 3 {
				least = min(least, testing.AllocsPerRun(1, func() {
					w := wheels[0]
					wheels = wheels[1:]
					for i := range records {
						w.Add(uint32(i), later(i))
					}
					for w.Advance(int64(records/2), 1000, func(uint32, int64) int64 { return Done }) {
					}
				}))
			}
			require.Zero(t, least, "%s, %d records", name, records)
			require.LessOrEqual(t, bytes, records*11+slabLen*chunkBytes)
		}
	}
	w := NewHashed(8, 0)
	w.Reserve(0)
	w.Reserve(-1)
	require.Equal(t, 8*slotBytes, w.Bytes(), "as if nothing had been said")
	var model []int
	w.Reserve(1_000)
	for i := range 3_000 { // more than there is room for
		w.Add(uint32(i), 1)
		model = append(model, i)
	}
	check(t, w)
	var visited []int
	for w.Advance(1, 100, func(record uint32, _ int64) int64 { visited = append(visited, int(record)); return Done }) {
	}
	require.ElementsMatch(t, model, visited)
	check(t, w)
}

func Test_ahead_is_told_what_will_be_visited(t *testing.T) {
	for _, limit := range []int{1, 4, 15, 16, 1000} {
		w := NewHashed(8, 0)
		told := map[uint32]bool{}
		w.Ahead(func(records []uint32) {
			require.LessOrEqual(t, len(records), min(limit, chunkLen))
			clear(told)
			for _, r := range records {
				told[r] = true
			}
		})
		for r := range uint32(500) {
			w.Add(r, int64(r%40)+1)
		}
		visited, announced := 0, 0
		for w.Advance(20, limit, func(record uint32, _ int64) int64 {
			if told[record] {
				announced++
			}
			visited++
			return Done
		}) {
		}
		require.Equal(t, 260, visited)
		require.Greater(t, announced, visited/2, "limit %d", limit)
	}
}

func Test_a_sweep_over_many_ticks_announces_what_lies_scattered(t *testing.T) {
	const slots, rounds = 512, 40 // of which each slot has a record: three chunks
	for _, limit := range []int{5, 16, 1000} {
		w := NewHashed(slots, 0)
		told := map[uint32]bool{}
		w.Ahead(func(records []uint32) {
			require.LessOrEqual(t, len(records), min(limit, chunkLen))
			if len(records) == 1 {
				return // of one chunk, just before it is visited
			}
			for _, r := range records {
				told[r] = true
			}
		})
		for tick := range int64(slots * rounds) { // those due first lie deepest
			w.Add(uint32(tick), tick+1)
		}
		visited, announced := 0, 0
		for w.Advance(slots, limit, func(record uint32, _ int64) int64 {
			if told[record] {
				announced++
			}
			visited++
			return Done
		}) {
		}
		require.Equal(t, slots, visited)
		require.GreaterOrEqual(t, announced, visited*3/4, "limit %d", limit)
	}
}
