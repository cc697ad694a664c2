package wheel

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// check walks the whole wheel and fails the test if anything is out of place.
func check(t testing.TB, w *Hashed) {
	t.Helper()
	require.LessOrEqual(t, w.from, w.cursor, "from <= cursor")
	require.LessOrEqual(t, w.cursor, w.target, "cursor <= target")
	require.LessOrEqual(t, w.target, int64(lastTick))
	require.LessOrEqual(t, w.target-w.from, int64(Horizon), "length of the sweep")
	if w.from == w.target {
		require.Zero(t, w.ring.walk, "list left over from a sweep that has ended")
		require.Zero(t, w.old.walk, "list left over from a sweep that has ended")
	}
	require.Equal(t, w.old.used > 0, w.Rebuilding(), "old ring kept although empty")

	owner := make(map[uint32]string) // of each chunk
	records := checkRing(t, w, &w.ring, owner)
	if w.Rebuilding() {
		if w.old.chunks != w.ring.chunks {
			checkArena(t, w.ring.chunks, owner)
			owner = make(map[uint32]string)
		}
		records += checkRing(t, w, &w.old, owner)
		checkArena(t, w.old.chunks, owner)
	} else {
		checkArena(t, w.ring.chunks, owner)
	}
	require.Equal(t, records, w.count, "Len")
	for i, s := range w.old.slots {
		if i < w.drained {
			require.Zero(t, s.head, "slot %d was drained", i)
		}
	}

	next, ok := w.Next()
	require.Equal(t, records > 0, ok, "Next on %d records", records)
	seen := 0
	for _, tick := range w.Records() {
		seen++
		if tick < next || tick < w.next {
			require.Failf(t, "late Next", "Next %d (bound %d), record waits for %d", next, w.next, tick)
		}
	}
	require.Equal(t, records, seen, "Records")
}

// checkRing checks one ring, notes in owner which chunks are in its lists, and returns the
// number of its records.
func checkRing(t testing.TB, w *Hashed, r *ring, owner map[uint32]string) (records int) {
	t.Helper()
	require.Zero(t, len(r.slots)&(len(r.slots)-1), "slots, a power of two")

	others := len(owner)
	list := func(name string, head uint32, visit func(tick int64)) {
		for h := head; h != 0; h = r.chunks.at(h).next {
			require.Empty(t, owner[h], "chunk %d of %s is in two lists", h, name)
			owner[h] = name
			c := r.chunks.at(h)
			require.NotZero(t, c.n, "empty chunk in %s", name)
			require.LessOrEqual(t, c.n, uint32(chunkLen), "chunk in %s", name)
			if h != head {
				require.GreaterOrEqual(t, c.n*2, uint32(chunkLen), "chunk in the middle of %s", name)
			}
			for _, p := range c.pairs[:c.n] {
				tick := expand(w.from, p.tick)
				if tick <= w.from || tick > w.cursor+Horizon {
					require.Failf(t, "tick out of range", "%d, from %d, cursor %d", tick, w.from, w.cursor)
				}
				visit(tick)
				records++
			}
		}
	}

	// found reports whether the sweep finds a record for tick in slot i.
	found := func(i int, tick int64) bool {
		if r.index(tick) == i {
			return true
		}
		ahead := int64(i-r.index(w.cursor+1)) & int64(len(r.slots)-1)
		return tick <= w.cursor && w.cursor+1+ahead <= w.target
	}

	list("walk", r.walk, func(int64) {})
	for i, s := range r.slots {
		if s.head == 0 {
			continue
		}
		first := int64(math.MaxInt64)
		list("slot", s.head, func(tick int64) {
			first = min(first, tick)
			if !found(i, tick) {
				require.Failf(t, "record in a wrong slot", "tick %d in slot %d of %d, cursor %d, target %d",
					tick, i, len(r.slots), w.cursor, w.target)
			}
		})
		earliest := expand(w.from, s.earliest)
		if r == &w.old && i == w.drained {
			require.LessOrEqual(t, earliest, first, "earliest of the slot being drained")
		} else {
			require.Equal(t, first, earliest, "earliest of slot %d", i)
		}
	}

	require.Len(t, owner, others+int(r.used), "chunks in lists")
	return records
}

// checkArena checks that each chunk is in one of the lists that owner tells of, or free.
func checkArena(t testing.TB, a *arena, owner map[uint32]string) {
	t.Helper()
	require.Len(t, owner, int(a.used), "chunks in lists")
	for h := a.free; h != 0; h = a.at(h).next {
		require.Empty(t, owner[h], "free chunk %d is in a list or twice free", h)
		require.Zero(t, a.at(h).n, "free chunk")
		owner[h] = "free"
	}
	chunks := 0
	for i, s := range a.slabs {
		chunks += len(s)
		if len(a.slabs) > 1 {
			require.Len(t, s, slabLen, "slab %d", i)
		}
	}
	require.Equal(t, chunks, a.chunks())
	require.LessOrEqual(t, int(a.fresh), chunks)
	require.Len(t, owner, int(a.fresh), "chunks in lists or free")
}

func Test_sizes_in_memory(t *testing.T) {
	require.Equal(t, chunkBytes, int(unsafe.Sizeof(chunk{})))
	require.Equal(t, slotBytes, int(unsafe.Sizeof(slot{})))
}
