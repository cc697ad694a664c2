package wheel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEarly(t *testing.T) {
	fill := func(slots int) *Hashed {
		w := NewHashed(slots, 100)
		for i := range uint32(1000) {
			w.Add(i, 101+int64(i%3))
		}
		return w
	}
	all := func(uint32, int64) bool { return true }

	t.Run("visits only the tick after the cursor", func(t *testing.T) {
		for _, slots := range []int{1, 2, 4, 64} {
			w := fill(slots)
			n := 0
			more := w.Early(1000, math.MaxInt, func(record uint32, tick int64) bool {
				require.EqualValues(t, 101, tick)
				require.Zero(t, record%3)
				n++
				return true
			})
			require.False(t, more)
			require.Equal(t, 334, n)
			require.Equal(t, 666, w.Len())
			require.EqualValues(t, 100, w.Cursor())
			check(t, w)
			require.Equal(t, 666, advanceAll(w, 103))
		}
	})
	t.Run("keeps what is not done for its tick", func(t *testing.T) {
		w := fill(8)
		require.False(t, w.Early(10, math.MaxInt, func(record uint32, _ int64) bool { return record%2 == 0 && record < 50 }))
		require.Equal(t, 1000-9, w.Len())
		check(t, w)
		require.Equal(t, 334-9, advanceAll(w, 101))
	})
	t.Run("stops after limit are done", func(t *testing.T) {
		for _, resize := range []bool{false, true} {
			w := fill(4)
			if resize {
				w.Resize(16, w.Len())
				w.Step(100, nil)
			}
			calls := 1
			for w.Early(7, math.MaxInt, all) {
				check(t, w)
				calls++
			}
			check(t, w)
			require.Equal(t, 666, w.Len())
			require.GreaterOrEqual(t, calls, 334/7)
			require.Equal(t, 666, advanceAll(w, 103))
		}
	})
	t.Run("ends a rebuild whose last records are done", func(t *testing.T) {
		w := NewHashed(8, 0)
		w.Add(1, 1)
		w.Resize(16, 0)
		require.True(t, w.Rebuilding())
		require.False(t, w.Early(1, math.MaxInt, all))
		require.False(t, w.Rebuilding())
		check(t, w)
	})
	t.Run("puts back what is left of a chunk, however little", func(t *testing.T) {
		w := fill(1) // the other ticks are in the same list
		for left := 999; w.Early(1, math.MaxInt, all); left-- {
			require.Equal(t, left, w.Len())
			check(t, w)
		}
		require.Equal(t, 666, w.Len())
		require.Equal(t, 666, advanceAll(w, 103))
	})
	t.Run("does nothing where too many wait", func(t *testing.T) {
		w := fill(64)
		require.False(t, w.Early(1000, 333, all))
		require.Equal(t, 1000, w.Len())
		require.False(t, w.Early(1000, 334, all))
		require.Equal(t, 666, w.Len())
		check(t, w)
	})
	t.Run("a panic leaves the wheel whole", func(t *testing.T) {
		w := fill(4)
		n := 0
		require.Panics(t, func() {
			w.Early(1000, math.MaxInt, func(uint32, int64) bool {
				if n++; n == 100 {
					panic("owner")
				}
				return true
			})
		})
		require.Equal(t, 1000-99, w.Len())
		check(t, w)
		require.Equal(t, 1000-99, advanceAll(w, 103))
	})
	t.Run("does nothing during an unfinished Advance", func(t *testing.T) {
		w := fill(4)
		require.True(t, w.Advance(102, 10, func(uint32, int64) int64 { return Done }))
		require.False(t, w.Early(10, math.MaxInt, all))
		require.Equal(t, 990, w.Len())
	})
}

// advanceAll finishes with everything due at now and returns how much it was.
func advanceAll(w *Hashed, now int64) (n int) {
	for w.Advance(now, 16, func(uint32, int64) int64 { n++; return Done }) {
	}
	return n
}
