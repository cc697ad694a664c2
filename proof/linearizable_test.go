package proof

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

var (
	histories = flag.Int("histories", 1500, "number of concurrent histories to check; a tenth with -short")
	firstSeed = flag.Uint64("seed", 0, "of the first history; the others follow; 0 for one by the clock")
)

// patience is for the search for an order, which can take exponentially long. A
// history for which it runs out counts as undecided.
const patience = time.Minute

// A tally is what the summary says.
type tally struct {
	histories, linearizable, stalled, undecided int

	operations, overlapping int
	expired                 uint64
	loads                   loadCount
	replies                 [ops][2]int // by operation, without and with a value
}

func (a *tally) add(h history, result porcupine.CheckResult) {
	a.histories++
	a.operations += len(h.operations)
	a.expired += h.expired
	a.loads.add(h.loads)
	switch {
	case h.stalled:
		a.stalled++
	case result == porcupine.Ok:
		a.linearizable++
	case result == porcupine.Unknown:
		a.undecided++
	}
	for _, part := range byKey(h.operations) {
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		end, client := int64(0), 0
		for _, o := range part {
			if o.Call < end && o.ClientId != client {
				a.overlapping++
			}
			if o.Return > end {
				end, client = o.Return, o.ClientId
			}
			outcome := 0
			if o.Output.(reply).ok {
				outcome = 1
			}
			a.replies[o.Input.(call).op][outcome]++
		}
	}
}

func (a *tally) plus(b tally) {
	a.histories += b.histories
	a.linearizable += b.linearizable
	a.stalled += b.stalled
	a.undecided += b.undecided
	a.operations += b.operations
	a.overlapping += b.overlapping
	a.expired += b.expired
	a.loads.add(b.loads)
	for o := range a.replies {
		a.replies[o][0] += b.replies[o][0]
		a.replies[o][1] += b.replies[o][1]
	}
}

func (a *tally) String() string {
	return fmt.Sprintf("%d histories: %d linearizable, %d not, %d undecided, %d stalled; %d operations, of which %d overlapped another of their key; %d entries expired; %v",
		a.histories, a.linearizable, a.histories-a.linearizable-a.undecided-a.stalled, a.undecided, a.stalled, a.operations, a.overlapping, a.expired, a.loads)
}

func TestHistoriesAreLinearizable(t *testing.T) {
	n := *histories
	if testing.Short() {
		n = (n + 9) / 10
	}
	seed := *firstSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d -histories %d", seed, n)
	began := time.Now()
	all := setups()
	var total tally
	for i, s := range all {
		t.Run(s.name, func(t *testing.T) {
			var mine tally
			m := s.model().porcupine()
			for j := i; j < n; j += len(all) {
				h := record(t, s, seed+uint64(j))
				result := porcupine.Ok
				if !h.stalled {
					result = porcupine.CheckOperationsTimeout(m, h.operations, patience)
				}
				mine.add(h, result)
				if result == porcupine.Illegal {
					explain(t, m, h)
					break
				}
			}
			total.plus(mine)
			t.Log(&mine)
		})
	}
	t.Logf("%d configurations in %v; %v", len(all), time.Since(began).Round(time.Millisecond), &total)
	require.Zero(t, total.undecided, "histories for which the search took too long")
	require.LessOrEqual(t, total.stalled, total.histories/10, "histories that prove nothing")
	require.Positive(t, total.overlapping)
	require.Positive(t, total.expired)
	if n >= 30*len(all) { // with fewer, chance may leave out what is seldom
		total.loads.requireAll(t)
	}
	for o, n := range total.replies {
		t.Logf("%17v: %7d found nothing, %7d something", op(o), n[0], n[1])
	}
}

// explain fails the test, and says where porcupine has drawn the history.
func explain(t *testing.T, m porcupine.Model, h history) {
	t.Helper()
	for _, part := range byKey(h.operations) {
		if result, info := porcupine.CheckOperationsVerbose(m, part, patience); result == porcupine.Illegal {
			t.Errorf("The history of %q by -seed %d is not linearizable:\n%s", h.setup.name, h.seed, listing(h.setup.model(), part, longest(info)))
		}
	}
	directory, err := os.MkdirTemp("", "wheelcache-history-")
	require.NoError(t, err)
	t.Errorf("porcupine's drawing of it: %s", draw(t, m, h.operations, directory))
}

// longest returns as much of an order as could be found for the operations of one
// key.
func longest(info porcupine.LinearizationInfo) (order []porcupine.Operation) {
	for _, o := range info.PartialLinearizationsOperations()[0] {
		if len(o) > len(order) {
			order = o
		}
	}
	return order
}

// listing has the operations of a key that can be put in order, with the states
// that the key may be in after each, and then the first of those that cannot.
func listing(m model, part, order []porcupine.Operation) string {
	const most = 20 // of either
	var text strings.Builder
	line := func(o porcupine.Operation) {
		fmt.Fprintf(&text, "%5d to %5d  client %d: %s\n", o.Call, o.Return, o.ClientId, describe(o.Input.(call), o.Output.(reply)))
	}
	type placed struct {
		called int64
		op     op
	}
	ordered := make(map[placed]bool)
	at := func(o porcupine.Operation) placed { return placed{o.Call, o.Input.(call).op} }
	states := []state{{now: math.MinInt64}}
	for i, o := range order {
		var next []state
		for _, s := range states {
			next = append(next, m.next(s, o.Input.(call), o.Output.(reply))...)
		}
		states = next
		ordered[at(o)] = true
		if i >= len(order)-most {
			line(o)
			fmt.Fprintf(&text, "%32s%v\n", "-> ", states)
		}
	}
	text.WriteString("but there is no place for these, in the order of their returns:\n")
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	n := 0
	for _, o := range part {
		if ordered[at(o)] {
			continue
		}
		if n++; n <= most {
			line(o)
		}
	}
	return text.String()
}

// draw lets porcupine draw a history, and returns the file.
func draw(t *testing.T, m porcupine.Model, operations []porcupine.Operation, directory string) string {
	t.Helper()
	_, info := porcupine.CheckOperationsVerbose(m, operations, patience)
	path := filepath.Join(directory, "history.html")
	require.NoError(t, porcupine.VisualizePath(m, info, path))
	return path
}
