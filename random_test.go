package wheelcache

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	opsWanted = flag.Int("ops", 0, "operations that TestModelRandomOperations does at least; 0 means a few")
	opsSeed   = flag.Uint64("seed", 0, "of TestModelRandomOperations; 0 means 1, or with -ops one by the clock")
)

// A configuration is what a program says of its cache, but for the lifetime.
type configuration struct {
	types, tick, bound, slots, shards, policy, hash, size, loads byte
}

const (
	headerLen         = 8
	programSteps      = (longestProgram - headerLen) / 3
	allConfigurations = 3 * 4 * 33 * 4 * 3 * 14 * 5 * 4 * 64
)

// configured returns the configuration that replay reads from a header.
func configured(h []byte) configuration {
	return configuration{h[0] % 3, h[1] % 4, boundOf(h[1]), h[2] % 4, h[3] % 3, h[5] % 14, h[6] % 5, h[7] % 4, h[7] / 4}
}

// operationsIn counts what a program does: one operation per step, but for those
// that do the same to many keys.
func operationsIn(data []byte) (n int) {
	for p := data[headerLen:]; len(p) > 0; p = p[min(3, len(p)):] {
		switch op := p[0]; {
		case op == doClose || len(p) < 3:
			n++
		case op%operations >= doSetMany && op%operations <= doDeleteMany:
			n += 2 * int(p[2])
		default:
			n++
		}
	}
	return n
}

// randomProgram returns a program as long as the fuzzer's may be. Programs differ
// in how many keys they use and in which operations they prefer, since no one
// choice makes both crowds and encounters: with all 256 keys alike, hardly
// anything meets; with eight, no table ever splits.
func randomProgram(r *rand.Rand) []byte {
	data := make([]byte, headerLen+3*programSteps)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	keys := []int{1, 3, 8, 40, 256}[r.IntN(5)]
	var favourites []byte
	for range r.IntN(6) {
		favourites = append(favourites, byte(r.IntN(int(operations))))
	}
	many := r.IntN(3)
	closing := headerLen + 3*r.IntN(8*programSteps) // most programs end before
	for i := headerLen; i < len(data); i += 3 {
		op := byte(r.IntN(int(operations)))
		if len(favourites) > 0 && r.IntN(2) == 0 {
			op = favourites[r.IntN(len(favourites))]
		}
		switch {
		case i == closing:
			op = doClose
		case op == doClear && r.IntN(4) > 0, op == doDeleteFunc && r.IntN(2) > 0:
			op = doGet // or nothing would ever grow old
		case op == doPause && r.IntN(2) > 0:
			op = doResume
		case op >= doSetMany && op <= doDeleteMany && many == 0:
			op -= doSetMany - doSet
		}
		data[i] = op
		if op < doSetMany || op > doDeleteMany {
			data[i+1] = byte(r.IntN(keys))
		}
	}
	return data
}

// A sequenceTB is the test, but for cleaning up: its caches are let go when their
// program ends, not when the test does.
type sequenceTB struct {
	testing.TB
	cleanups []func()
}

func (t *sequenceTB) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// replayOne replays a program. If that fails, it logs the program as an entry of the
// fuzzer's corpus.
func replayOne(t *testing.T, seed, sequence uint64, data []byte) {
	tb := &sequenceTB{TB: t}
	failed := true
	defer func() {
		if failed {
			t.Logf("-seed %d, sequence %d; as testdata/fuzz/FuzzCache/seed%d-%d:\ngo test fuzz v1\n[]byte(%q)",
				seed, sequence, seed, sequence, data)
		}
		for _, f := range tb.cleanups {
			f()
		}
	}()
	replay(tb, data)
	failed = false
}

// Random programs, by the interpreter of FuzzCache on the cache and its model, on
// all procs at once. It logs how many operations that were and how fast.
//
//	go test -run TestModelRandomOperations -ops 100000000 -timeout 0 -v .
func TestModelRandomOperations(t *testing.T) {
	wanted, seed := int64(*opsWanted), *opsSeed
	switch {
	case wanted > 0 && seed == 0:
		seed = uint64(time.Now().UnixNano())
	case seed == 0:
		seed = 1
	}
	switch {
	case wanted > 0:
	case testing.Short():
		wanted = 5_000
	default:
		wanted = 200_000
	}
	start := time.Now()
	var done atomic.Int64
	var sequences atomic.Uint64
	var failed atomic.Bool
	var mu sync.Mutex
	covered := make(map[configuration]struct{})
	t.Run("procs", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				defer func() {
					if t.Failed() {
						failed.Store(true)
					}
				}()
				for done.Load() < wanted && !failed.Load() {
					n := sequences.Add(1)
					data := randomProgram(rand.New(rand.NewPCG(seed, n)))
					replayOne(t, seed, n, data)
					done.Add(int64(operationsIn(data)))
					mu.Lock()
					covered[configured(data)] = struct{}{}
					mu.Unlock()
				}
			})
		}
	})
	took := time.Since(start)
	t.Logf("-seed %d: %d operations in %d sequences of %d steps, with a check after each; %.0f operations per second; %d of %d configurations",
		seed, done.Load(), sequences.Load(), programSteps, float64(done.Load())/took.Seconds(), len(covered), allConfigurations)
}
