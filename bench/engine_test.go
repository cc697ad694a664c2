package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The children of these tests are this test binary.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args[1:], "-child") {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Peers and workloads of the engine's tests. They have no cache behind them.
func init() {
	for _, name := range []string{"fake-a", "fake-b", "fake-c"} {
		register(Peer{
			Name:    name,
			Traits:  Traits{Shared: name != "fake-b", Expires: true},
			Strings: func(Config) (Cache[string, *Payload], error) { return nil, errors.New("unused") },
		})
	}
	registerWorkload(fakeWorkload("fake", false, false))
	registerWorkload(fakeWorkload("fake-fresh", true, false))
	registerWorkload(fakeWorkload("fake-together", false, true))
}

// fakeWorkload reports how often its process has run it. fake-c misbehaves as the variant says.
func fakeWorkload(name string, fresh, together bool) Workload {
	runs := 0.0
	return Workload{
		Name: name, Fresh: fresh, Together: together,
		Needs:   Traits{Expires: true},
		Metrics: []Metric{{Name: "runs"}, {Name: "absent"}},
		Strings: func(b *Bench[string, *Payload], c Case) (Session, error) {
			bad := b.Peer.Name == "fake-c"
			if bad && c.Variant == "cannot" {
				return nil, fmt.Errorf("%w: not today", ErrCannot)
			}
			return fakeSession(func() (Result, error) {
				switch {
				case bad && c.Variant == "error":
					return Result{}, errors.New("no luck")
				case bad && c.Variant == "panic":
					panic("no luck")
				case bad && c.Variant == "exit":
					os.Exit(3)
				}
				runs++
				return Result{Figures: map[string]float64{"runs": runs}, Series: []Series{{Name: "s"}}}, nil
			}), nil
		},
	}
}

type fakeSession func() (Result, error)

func (f fakeSession) Run() (Result, error) { return f() }
func (f fakeSession) Close()               {}

func runFakes(t *testing.T, workload string, cases ...Case) (rows map[string]Row, series []Series, order []string) {
	t.Helper()
	p := plan{repetitions: 2}
	for _, name := range []string{"fake-a", "fake-b", "fake-c"} {
		p.peers = append(p.peers, peerNamed(name))
	}
	for _, c := range cases {
		p.steps = append(p.steps, step{workloadNamed(workload), c})
	}
	e := engine{plan: p, interrupt: t.Context(), progress: func(_, _ int, what string) {
		if !strings.Contains(what, "loading") {
			order = append(order, what[strings.LastIndex(what, "#"):])
		}
	}}
	all, series := e.run()
	require.Equal(t, e.total(), e.done)
	require.Len(t, all, len(cases)*3*2)
	rows = map[string]Row{}
	for _, r := range all {
		rows[r.Peer+" "+r.Case.Variant+" "+r.Metric] = r
	}
	return rows, series, order
}

func Test_repetitions_go_round_all_caches(t *testing.T) {
	rows, series, order := runFakes(t, "fake", Case{Keys: "string"})
	require.Equal(t, []string{"#1 fake-a", "#1 fake-b", "#1 fake-c", "#2 fake-b", "#2 fake-c", "#2 fake-a"}, order)
	require.Equal(t, []float64{1, 2}, rows["fake-a  runs"].Values, "one process")
	require.Empty(t, rows["fake-a  absent"].Values)
	require.NotEmpty(t, rows["fake-a  absent"].Why)
	require.Len(t, series, 3)
	require.Equal(t, "fake-a", series[0].Peer)
}

func Test_a_fresh_workload_has_a_process_per_repetition(t *testing.T) {
	rows, _, order := runFakes(t, "fake-fresh", Case{Keys: "string"})
	require.Len(t, order, 6)
	require.Equal(t, []float64{1, 1}, rows["fake-c  runs"].Values)
}

func Test_an_interrupted_run_keeps_what_it_has(t *testing.T) {
	for _, workload := range []string{"fake", "fake-fresh", "fake-together"} {
		interrupt, stop := context.WithCancel(t.Context())
		p := plan{repetitions: 3, peers: []*Peer{peerNamed("fake-a"), peerNamed("fake-b")}}
		for _, variant := range []string{"first", "second", "third"} {
			p.steps = append(p.steps, step{workloadNamed(workload), Case{Keys: "string", Variant: variant}})
		}
		e := engine{plan: p, interrupt: interrupt, progress: func(_, _ int, what string) {
			if strings.Contains(what, "#2") {
				stop()
			}
		}}
		rows, _ := e.run()
		require.Equal(t, 2*2, e.done, "of %d", e.total())
		require.Len(t, rows, 2*2, "two caches, two metrics")
		for _, r := range rows {
			require.Equal(t, "first", r.Case.Variant)
			if r.Metric == "runs" {
				require.Len(t, r.Values, 2, "the repetition was ended for both caches")
			}
		}
	}
}

func Test_idle_caches_are_together(t *testing.T) {
	rows, _, order := runFakes(t, "fake-together", Case{Keys: "string"})
	require.Equal(t, []string{"#1 all at once", "#2 all at once"}, order)
	require.Equal(t, []float64{1, 2}, rows["fake-b  runs"].Values)
}

func Test_a_cache_that_fails_stops_no_other_and_is_shown(t *testing.T) {
	for _, workload := range []string{"fake", "fake-fresh"} {
		rows, _, _ := runFakes(t, workload,
			Case{Keys: "string", Variant: "cannot"},
			Case{Keys: "string", Variant: "error"},
			Case{Keys: "string", Variant: "panic"},
			Case{Keys: "string", Variant: "exit"},
			Case{Keys: "string", Variant: "fine"},
			Case{Keys: "string", Variant: "shared", Threads: 2},
			Case{Keys: "uint64", Variant: "no such keys"})
		why := func(variant string) string {
			r := rows["fake-c "+variant+" runs"]
			require.Empty(t, r.Values)
			return r.Why
		}
		require.Equal(t, "cannot: not today", why("cannot"))
		require.Equal(t, "failed: no luck", why("error"))
		require.Contains(t, why("panic"), "panic: no luck")
		require.Contains(t, why("exit"), "its process has ended")
		require.Equal(t, "cannot: no uint64 keys", why("no such keys"))
		require.Len(t, rows["fake-c fine runs"].Values, 2, "it gets a new process")
		for _, variant := range []string{"cannot", "error", "panic", "exit", "fine"} {
			require.Len(t, rows["fake-a "+variant+" runs"].Values, 2)
		}
		require.Equal(t, "cannot: one goroutine only", rows["fake-b shared runs"].Why)
		require.Len(t, rows["fake-a shared runs"].Values, 2)
	}
}

func Test_steps_that_want_the_same_entries_share_processes(t *testing.T) {
	w, fresh := workloadNamed("fake"), workloadNamed("fake-fresh")
	small, large := Case{Keys: "string", Entries: 1}, Case{Keys: "string", Entries: 2}
	p := plan{steps: []step{{w, small}, {w, large}, {fresh, small}, {w, small}}}
	require.Equal(t, [][]step{{{w, small}, {w, small}}, {{w, large}}, {{fresh, small}}}, p.groups())
}

func Test_command_line(t *testing.T) {
	require.ErrorContains(t, run([]string{"-cache", "none"}), "nothing to do")
	require.ErrorContains(t, run([]string{"-reps", "-1"}), "must be 0 or more")
	require.ErrorContains(t, run([]string{"extra"}), "unexpected argument")
	require.True(t, matches("a,get*", "get-miss"))
	require.True(t, matches("*n=10*zipf*", "keys=string/n=10/dist=zipf/threads=1"))
	require.False(t, matches("get", "get-miss"))
}

func Test_median(t *testing.T) {
	require.InDelta(t, 2, Row{Values: []float64{9, 1, 2}}.Median(), 0)
	require.InDelta(t, 3, Row{Values: []float64{9, 1, 2, 4}}.Median(), 0)
}
