package wheel

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed returns the records of w in order.
func listed(w *Hashed) []uint32 {
	var got []uint32
	for record := range w.Records() {
		got = append(got, record)
	}
	slices.Sort(got)
	return got
}

func Test_rebuild_keeps_every_record_and_its_tick(t *testing.T) {
	for _, start := range starts {
		for _, to := range []int{1, 8, 16, 128} {
			for _, expected := range []int{0, 100} { // in memory of their own, and where they are
				for _, limit := range []int{3, math.MaxInt} {
					w := NewHashed(16, start)
					var want []uint32
					for i := range uint32(100) {
						w.Add(i, start+1+int64(i)*7)
						want = append(want, i)
					}
					w.Resize(to, expected)
					require.Equal(t, to, w.Slots())
					for more := true; more; {
						require.True(t, w.Rebuilding())
						more = w.Step(limit, nil)
						check(t, w)
						require.Equal(t, want, listed(w))
					}
					require.False(t, w.Rebuilding())
					for i := range want {
						require.Equal(t, want[i:i+1], due(t, w, start+1+int64(i)*7, noLimit))
					}
				}
			}
		}
	}
}

func Test_rebuild_drops_what_keep_refuses(t *testing.T) {
	w := NewHashed(16, 0)
	for i := range uint32(3000) {
		w.Add(i, 1+int64(i))
	}
	before := w.Bytes()
	w.Resize(16, 300)
	for w.Step(100, func(record uint32, tick int64) bool {
		require.Equal(t, 1+int64(record), tick)
		return record%10 == 0
	}) {
		check(t, w)
	}
	require.Equal(t, 300, w.Len())
	require.Less(t, w.Bytes(), before/4)
	require.Len(t, due(t, w, 3000, noLimit), 300)
}

func Test_a_rebuild_keeps_the_memory_unless_much_less_will_do(t *testing.T) {
	const records = 10_000
	half := func(record uint32, _ int64) bool { return record%2 == 0 }
	filled := func() *Hashed {
		w := NewHashed(64, 0)
		for i := range uint32(records) {
			w.Add(i, 1+int64(i))
		}
		return w
	}
	const slots = 64 * slotBytes

	w := filled()
	before := w.Bytes()
	for range 3 {
		w.Resize(64, records/2)
		require.Same(t, w.old.chunks, w.ring.chunks)
		require.Equal(t, before+slots, w.Bytes(), "the memory is counted once")
		for w.Step(100, half) {
			require.LessOrEqual(t, w.Bytes(), before+slots)
		}
		check(t, w)
		require.Equal(t, before, w.Bytes())
		require.Equal(t, records/2, w.Len())
		for i := range uint32(records / 2) {
			w.Add(2*i+1, 2+2*int64(i))
		}
		require.Equal(t, before, w.Bytes(), "what the others left is filled again")
	}
	require.Len(t, due(t, w, records, noLimit), records)

	w = filled()
	w.Resize(64, w.Room()/3-1)
	require.NotSame(t, w.old.chunks, w.ring.chunks)
	require.Equal(t, before+slots, w.Bytes(), "the old memory is counted until it goes")
	most := 0
	for w.Step(100, half) {
		most = max(most, w.Bytes())
	}
	require.Greater(t, most, before+slots+records/4*8, "both memories are counted")
	require.LessOrEqual(t, w.Bytes(), before/2+slots+slabLen*chunkBytes)
	require.Len(t, due(t, w, records, noLimit), records/2)
}

func Test_reserved_memory_is_what_records_need(t *testing.T) {
	for _, already := range []int{0, 1, 100, 700, 5000} {
		for _, records := range []int{500, 1000, 20_000} {
			w := NewHashed(16, 0)
			for i := range uint32(already) {
				w.Add(i, 1+int64(i))
			}
			before := w.Bytes()
			w.Reserve(records)
			check(t, w)
			reserved := w.Bytes()
			most := (records/chunkLen + 16/2 + 2 + slabLen) * chunkBytes // and a slab begun
			require.LessOrEqual(t, reserved, max(before, 16*slotBytes+most))
			for i := already; i < records; i++ {
				w.Add(uint32(i), 1+int64(i))
			}
			require.Equal(t, reserved, w.Bytes(), "%d records, then %d", already, records)
			w.Reserve(records)
			require.Equal(t, reserved, w.Bytes(), "there is enough")
			check(t, w)
			require.Len(t, due(t, w, int64(max(records, already)), noLimit), max(records, already))
		}
	}
}

func Test_resize_of_an_empty_wheel_is_done_at_once(t *testing.T) {
	w := NewHashed(16, 0)
	w.Resize(100, w.Len())
	require.False(t, w.Rebuilding())
	require.Equal(t, 128, w.Slots())
	require.False(t, w.Step(1, nil))
}

func Test_resize_while_rebuilding_does_nothing(t *testing.T) {
	w := NewHashed(16, 0)
	w.Add(1, 5)
	w.Resize(32, w.Len())
	w.Resize(64, w.Len())
	require.Equal(t, 32, w.Slots())
	require.True(t, w.Rebuilding())
}

func Test_step_bounds_the_slots_passed(t *testing.T) {
	w := NewHashed(1<<10, 0)
	w.Add(1, 1<<10-1)
	w.Resize(8, w.Len())
	calls := 1
	for ; w.Step(0, nil); calls++ {
		check(t, w)
	}
	require.Equal(t, 1<<10/slotsPerRecord, calls)
	require.False(t, w.Rebuilding())
}

func Test_rebuild_ends_with_the_last_record(t *testing.T) {
	w := NewHashed(1<<10, 0)
	w.Add(1, 1<<10)
	w.Resize(8, w.Len())
	require.False(t, w.Step(1, nil))
	require.False(t, w.Rebuilding())
}

func Test_sweep_alone_can_end_a_rebuild(t *testing.T) {
	for _, to := range []int{8, 512} {
		w := NewHashed(64, 0)
		for i := range uint32(100) {
			w.Add(i, 1+int64(i))
		}
		w.Resize(to, w.Len())
		require.Len(t, due(t, w, 100, noLimit), 100)
		require.False(t, w.Rebuilding())
	}
}

func Test_sweep_takes_over_a_list_that_step_left_halfway(t *testing.T) {
	w := NewHashed(8, 0)
	for i := range uint32(100) {
		w.Add(i, 8+8*int64(i%2)) // all in slot 0
	}
	w.Resize(16, w.Len())
	require.True(t, w.Step(40, nil))
	check(t, w)
	require.Len(t, due(t, w, 8, 3), 50)
	require.False(t, w.Rebuilding(), "the sweep moves what is not due")
	require.Len(t, due(t, w, 16, 3), 50)
}

func Test_step_leaves_a_list_that_the_sweep_has_detached(t *testing.T) {
	w := NewHashed(8, 0)
	for i := range uint32(100) {
		w.Add(i, 8)
	}
	w.Add(100, 9)
	require.True(t, w.Advance(8, 30, func(uint32, int64) int64 { return Done }))
	w.Resize(16, w.Len())
	require.False(t, w.Step(math.MaxInt, nil), "the rest is the sweep's")
	require.True(t, w.Rebuilding())
	check(t, w)
	require.Len(t, due(t, w, 8, noLimit), 70)
	require.False(t, w.Rebuilding())
	require.Equal(t, []uint32{100}, due(t, w, 9, noLimit))
}

func Test_overdue_records_moved_ahead_of_a_stopped_sweep_are_found(t *testing.T) {
	for _, to := range []int{1, 8, 64, 1024} {
		w := NewHashed(64, 0)
		for i := range uint32(200) {
			w.Add(i, 1+int64(i))
		}
		// The gap is many turns, so that the cursor jumps over the ticks of
		// all records.
		got := 0
		visit := func(_ uint32, tick int64) int64 { got++; return Done }
		require.True(t, w.Advance(100_000, 10, visit))
		w.Resize(to, w.Len())
		for w.Step(5, nil) {
			check(t, w)
		}
		for w.Advance(100_000, 10, visit) {
			check(t, w)
		}
		require.Equal(t, 200, got)
	}
}

func Test_panic_in_keep_leaves_the_wheel_whole(t *testing.T) {
	w := NewHashed(8, 0)
	for i := range uint32(100) {
		w.Add(i, 1+int64(i))
	}
	want := listed(w)
	w.Resize(16, 0)
	calls := 0
	for w.Rebuilding() {
		func() {
			defer func() { _ = recover() }()
			w.Step(math.MaxInt, func(uint32, int64) bool {
				if calls++; calls%3 == 0 {
					panic("refused")
				}
				return true
			})
		}()
		check(t, w)
		require.Equal(t, want, listed(w))
	}
	require.Equal(t, 149, calls)
}

func Test_keep_may_add(t *testing.T) {
	w := NewHashed(8, 0)
	for i := range uint32(100) {
		w.Add(i, 1+int64(i))
	}
	w.Resize(16, w.Len())
	for w.Step(10, func(record uint32, tick int64) bool {
		w.Add(1000+record, tick+1)
		return false
	}) {
		check(t, w)
	}
	require.Equal(t, 100, w.Len())
	require.Len(t, due(t, w, 101, noLimit), 100)
}
