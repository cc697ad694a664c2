package wheel

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A model is the obviously correct wheel: a bag of records with their ticks.
type model struct {
	held map[waitingFor]int
	len  int
	now  int64 // the latest that Advance was told
}

type waitingFor struct {
	record uint32
	tick   int64
}

func (m *model) add(record uint32, tick int64) {
	m.held[waitingFor{record, tick}]++
	m.len++
}

func (m *model) remove(t testing.TB, record uint32, tick int64) {
	t.Helper()
	k := waitingFor{record, tick}
	require.Positive(t, m.held[k], "record %d is not waiting for %d", record, tick)
	if m.held[k]--; m.held[k] == 0 {
		delete(m.held, k)
	}
	m.len--
}

// first returns the earliest tick of all records.
func (m *model) first() int64 {
	first := int64(math.MaxInt64)
	for k := range m.held {
		first = min(first, k.tick)
	}
	return first
}

// A script decodes the fuzzer's bytes. Past its end everything is 0.
type script []byte

func (s *script) byte() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

func (s *script) int64() int64 {
	var b [8]byte
	for i := range b {
		b[i] = s.byte()
	}
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// distance returns a number of ticks, which are of interest near the multiples
// of the number of slots and near the horizon.
func (s *script) distance(slots int) int64 {
	near := int64(s.byte()%8) - 4
	switch op := s.byte(); op % 8 {
	case 0:
		return near
	case 1:
		return int64(slots) + near
	case 2:
		return int64(slots)*int64(s.byte()) + near
	case 3:
		return int64(slots)*1000 + near
	case 4:
		return Horizon + near
	case 5:
		return Horizon*int64(s.byte()%4)/2 + near
	default:
		return int64(s.byte())
	}
}

// tick returns a tick some distance from the cursor.
func (s *script) tick(w *Hashed) int64 {
	tick := w.Cursor() + s.distance(w.Slots())
	switch { // if the sum overflowed
	case tick < 0 && w.Cursor() > lastTick/2:
		return math.MaxInt64
	case tick > 0 && w.Cursor() < math.MinInt64/2:
		return math.MinInt64
	}
	return tick
}

// start returns a tick to start at, which are of interest near the ends of the
// integers and where their low halves wrap.
func (s *script) start() int64 {
	near := int64(s.byte()) - 128
	switch op := s.byte(); op % 8 {
	case 0:
		return near
	case 1:
		return 1<<31 + near
	case 2:
		return -1<<31 + near
	case 3:
		return 1<<32 + near
	case 4:
		return -1<<32 + near
	case 5:
		return math.MinInt64 + 128 + near
	case 6:
		return lastTick - 4*Horizon + near
	default:
		return s.int64()
	}
}

// crowd is how many records are enough: check looks at all after each step.
const crowd = 1000

// replay runs the operations that s holds on a wheel and on the model, and
// checks the wheel after each.
func replay(t testing.TB, s script) {
	start := s.start()
	w := NewHashed(1<<(s.byte()%7), start)
	m := model{held: make(map[waitingFor]int), now: min(start, lastTick)}
	record := uint32(0)
	add := func(tick int64) {
		got := w.Add(record, tick)
		require.GreaterOrEqual(t, got, w.Cursor()+1)
		require.LessOrEqual(t, got, w.Cursor()+Horizon)
		if tick > w.Cursor() && tick-w.Cursor() <= Horizon {
			require.Equal(t, tick, got)
		}
		m.add(record, got)
		record++
	}
	// protect runs f, which may panic at the script's bidding.
	type bidden struct{}
	protect := func(f func()) {
		defer func() {
			if r := recover(); r != nil && r != (bidden{}) {
				panic(r)
			}
		}()
		f()
	}

	for len(s) > 0 {
		switch op := s.byte(); op % 16 {
		case 0, 1, 2, 3, 4:
			add(s.tick(w))
		case 5:
			tick := s.tick(w)
			for n := s.byte(); n > 0 && m.len < crowd; n-- {
				add(tick)
			}
		case 6:
			for n := s.byte(); n > 0 && m.len < crowd; n-- {
				add(s.tick(w))
			}
		case 7, 8, 9, 10, 11:
			now := s.tick(w)
			limit := math.MaxInt
			if op >= 64 {
				limit = int(s.byte()) - 1
			}
			m.now = max(m.now, min(now, lastTick))
			busy, visits := int(s.byte()), 0 // how many visits do not just answer Done
			panicked := true
			protect(func() {
				more := w.Advance(now, limit, func(record uint32, tick int64) int64 {
					visits++
					require.LessOrEqual(t, tick, m.now, "early")
					require.Positive(t, m.held[waitingFor{record, tick}], "record %d at %d", record, tick)
					answer := Done
					if busy > 0 {
						busy--
						switch s.byte() % 8 {
						case 0:
							panic(bidden{})
						case 1:
							add(s.tick(w))
						case 2:
							add(tick)
						case 3:
							add(s.tick(w))
							panic(bidden{})
						case 4, 5:
							answer = max(s.tick(w), Done+1)
							m.add(record, w.Clamp(answer))
						}
					}
					m.remove(t, record, tick)
					return answer
				})
				panicked = false
				if limit == math.MaxInt {
					require.False(t, more, "more without a limit")
				}
				if !more {
					require.Greater(t, m.first(), min(now, lastTick), "left behind")
					require.GreaterOrEqual(t, w.Cursor(), min(now, lastTick))
					require.LessOrEqual(t, w.Cursor(), m.now)
					if next, ok := w.Next(); ok && !w.Rebuilding() {
						require.Equal(t, m.first(), next, "Next")
					}
				}
			})
			require.True(t, panicked || visits <= max(limit, 1), "%d visits, limit %d", visits, limit)
		case 12:
			w.Resize(1<<(s.byte()%7), int(s.byte()))
		case 13, 14:
			limit, dropping := int(s.byte())-1, op >= 128
			moved := 0
			if !dropping {
				w.Step(limit, nil)
				break
			}
			protect(func() {
				more := w.Step(limit, func(record uint32, tick int64) bool {
					moved++
					require.Positive(t, m.held[waitingFor{record, tick}])
					switch s.byte() % 8 {
					case 0:
						m.remove(t, record, tick)
						return false
					case 1:
						panic(bidden{})
					case 2:
						add(s.tick(w))
					}
					return true
				})
				require.LessOrEqual(t, moved, max(limit, 1))
				require.False(t, more && !w.Rebuilding())
			})
		case 15:
			switch {
			case op < 64:
				if next, ok := w.Next(); ok {
					require.LessOrEqual(t, next, m.first())
				}
			case op < 128:
				w.Reserve(8 * int(s.byte()))
			default:
				done, limit := 0, int(s.byte())
				protect(func() {
					w.Early(limit, int(s.byte()), func(record uint32, tick int64) bool {
						require.LessOrEqual(t, tick, w.Cursor()+1)
						require.Positive(t, m.held[waitingFor{record, tick}])
						switch s.byte() % 4 {
						case 0:
							return false
						case 1:
							panic(bidden{})
						}
						m.remove(t, record, tick)
						done++
						return true
					})
				})
				require.LessOrEqual(t, done, max(limit, 1))
			}
		}
		check(t, w)
		require.Equal(t, m.len, w.Len())
		if t.Failed() {
			return
		}
	}

	held := make(map[waitingFor]int)
	for record, tick := range w.Records() {
		held[waitingFor{record, tick}]++
	}
	require.True(t, maps.Equal(m.held, held), "records held")

	// Everything is visited in the end. The first calls finish what was
	// stopped, the last reaches beyond every record.
	for w.Step(math.MaxInt, nil) {
	}
	end := m.now + Horizon
	for w.Advance(end, 100, func(record uint32, tick int64) int64 {
		m.remove(t, record, tick)
		return Done
	}) {
	}
	check(t, w)
	require.Greater(t, m.first(), min(end, lastTick), "left in the end")
	require.Equal(t, m.len, w.Len())
	require.False(t, w.Rebuilding())
}

func FuzzHashed(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a few adds and some advances"))
	f.Add([]byte("\x80\x01\x03\x05\x02\x01\xff\x47\x04\x01\x04\x00\x0c\x04\x0d\x09\x07\x04\x05\x00"))
	f.Add([]byte("\x80\x05\x06\x06\x40\x02\x02\x03\x04\x05\x06\x07\x08\x09\x4a\x04\x04\x09\x0c\x02\x8d\x03\x00\x01\x02"))
	for seed := range uint64(8) {
		f.Add([]byte(randomScript(seed, 400)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			t.Skip("long scripts find nothing that short ones do not")
		}
		replay(t, data)
	})
}

func randomScript(seed uint64, n int) script {
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := make(script, n)
	for i := range s {
		s[i] = byte(rnd.Uint32())
	}
	return s
}

func Test_random_operations_agree_with_the_model(t *testing.T) {
	scripts := 200
	if testing.Short() {
		scripts = 30
	}
	for seed := range scripts {
		s := randomScript(uint64(seed)+1000, 600)
		replay(t, s)
		if t.Failed() {
			t.Logf("seed %d", seed)
			return
		}
	}
}
