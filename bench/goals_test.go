package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func Test_goals_are_judged_by_medians_and_their_noise_by_pairs(t *testing.T) {
	r := madeUp(t)
	for _, test := range []struct {
		name    string
		g       goal
		verdict string
		median  float64
		low     float64
		high    float64
		limit   string
	}{
		{"a ratio at the bound", goal{per: against("map"), op: "≤", bound: 1.2}, "met", 1.2, 110.0 / 90, 130.0 / 110, "≤ 1.2× map"},
		{"not below it", goal{per: against("map"), op: "<", bound: 1.2}, "missed, within noise", 1.2, 0, 0, "< 1.2× map"},
		{"beyond all noise", goal{per: against("map"), op: "≤", bound: 1.1}, "missed", 1.2, 0, 0, "≤ 1.1× map"},
		{"the best of the others", goal{per: against(bestTTL), op: "<", bound: 1}, "met", 0.3, 0, 0, "< 1× best TTL cache"},
		{"more is better", goal{per: &other{threads: 2}, op: "≥", bound: 1.9}, "met", 2, 2, 2, "≥ 1.9× t2"},
		{"more is better, and missed", goal{per: &other{threads: 2}, op: "≥", bound: 2.1}, "missed", 2, 2, 2, "≥ 2.1× t2"},
		{"a figure", goal{op: "≤", bound: 119}, "missed, within noise", 120, 110, 130, "≤ 119 ns/op"},
		{"repetitions without a partner", goal{per: against("bigcache"), op: "≤", bound: 1}, "met", 120 / 1234.5, 110 / 1234.5, 130 / 1234.5, "≤ 1× bigcache"},
		{"no such peer", goal{per: against("theine"), op: "≤", bound: 1}, "not measured", 0, 0, 0, "≤ 1× theine"},
		{"who cannot", goal{c: Case{Threads: 2}, per: against("map"), op: "≤", bound: 1}, "no rival", 0, 0, 0, "≤ 1× map"},
		{"who failed", goal{c: Case{Threads: 2}, per: against("bigcache"), op: "≤", bound: 1}, "not measured", 0, 0, 0, "≤ 1× bigcache"},
		{"no such case", goal{c: Case{Keys: "uint64"}, op: "≤", bound: 1}, "not measured", 0, 0, 0, "≤ 1 ns/op"},
		{"another figure of the same", goal{metric: "hit %", per: &other{metric: "ns/op"}, op: "≤", bound: 1}, "met", 100.0 / 120, 0, 0, "≤ 1× ns/op"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := test.g
			g.workload = "get"
			if g.metric == "" {
				g.metric = "ns/op"
			}
			if g.c.Threads == 0 {
				g.c.Threads = 1
			}
			found := g.findings(newIndex(r))
			require.Len(t, found, 1)
			require.Equal(t, test.verdict, g.verdict(found[0]))
			require.InDelta(t, test.median, found[0].median, 1e-9)
			if test.low != 0 {
				require.InDelta(t, min(test.low, test.high), found[0].low, 0.03)
				require.InDelta(t, max(test.low, test.high), found[0].high, 0.03)
			}
			require.Equal(t, test.limit, g.limit())
		})
	}
}

func Test_pairs_are_of_the_same_repetition(t *testing.T) {
	r := madeUp(t)
	f := goal{workload: "get", c: Case{Threads: 1}, metric: "ns/op", per: against("map"), op: "≤", bound: 1}.findings(newIndex(r))[0]
	require.InDelta(t, 130.0/110, f.low, 1e-9)
	require.InDelta(t, 110.0/90, f.high, 1e-9)
}

func Test_ratio_of_zeros(t *testing.T) {
	require.EqualValues(t, 1, ratio(0, 0))
	require.EqualValues(t, 0, ratio(0, 3))
	require.Equal(t, "∞", number(ratio(3, 0)))
}

func Test_goal_is_checked_in_each_case_that_there_is(t *testing.T) {
	r := madeUp(t)
	r.Rows = r.Rows[:8:8]
	found := goal{workload: "get", metric: "ns/op", op: "≤", bound: 61}.findings(newIndex(r))
	require.Len(t, found, 2)

	r.Rows = nil // the workload has them all the same
	found = goal{workload: "get", metric: "ns/op", op: "≤", bound: 61}.findings(newIndex(r))
	require.Len(t, found, 2)
	require.False(t, found[0].measured)
}

func Test_pattern_of_a_case(t *testing.T) {
	c := Case{Keys: "string", Entries: 10, Dist: "zipf", Threads: 2, Variant: "sized"}
	for _, yes := range []Case{{}, c, {Entries: 10}, {Variant: "sized"}} {
		require.True(t, matchesCase(yes, c), yes)
	}
	for _, no := range []Case{{Keys: "uint64"}, {Entries: 11}, {Dist: "uniform"}, {Threads: 1}, {Variant: "growing"}, {Variant: "-"}} {
		require.False(t, matchesCase(no, c), no)
	}
	require.True(t, matchesCase(Case{Variant: "-"}, Case{}))
}

func Test_goals_are_a_table(t *testing.T) {
	r := madeUp(t)
	var w bytes.Buffer
	writeGoals(&w, r)
	lines := strings.Split(w.String(), "\n")
	require.Regexp(t, `^\| goal +\| +bound \| +measured \| +\|$`, lines[0])
	require.Regexp(t, `^\| get, string 1M zipf t1 +\| +≤ 1.2× map \| +1.20 \(1.18–1.22\) \| +met \|$`, lines[2])
	require.Contains(t, w.String(), "not measured")
	require.Regexp(t, `\n3 met, 0 missed within noise, 0 missed, 0 without a rival that can do it, \d+ not measured\.`, w.String())
}

// Names are spelled in the goals as the workloads spell them.
func Test_goals_and_headlines_are_about_what_is_measured(t *testing.T) {
	check := func(workload string, c Case, metrics ...string) {
		w := workloadNamed(workload)
		require.NotNil(t, w, workload)
		for _, metric := range metrics {
			require.Contains(t, metricNames(w), metric, workload)
		}
		for _, have := range w.Cases {
			if matchesCase(c, have) {
				return
			}
		}
		t.Errorf("%s has no case like %s", workload, c)
	}
	for _, g := range goals() {
		check(g.workload, g.c, g.metric)
		if g.per != nil && g.per.metric != "" {
			check(g.workload, g.c, g.per.metric)
		}
		if g.per != nil && g.per.peer != "" && g.per.peer != bestTTL {
			require.NotNil(t, peerNamed(g.per.peer), g.per.peer)
		}
		g.met(0) // does not panic
	}
	for _, h := range headlines {
		check(h.workload, h.c, h.metric)
	}
	for _, list := range [][]string{headliners, curves} {
		for _, name := range list {
			require.NotNil(t, peerNamed(name), name)
		}
	}
}

func metricNames(w *Workload) (names []string) {
	for _, m := range w.Metrics {
		names = append(names, m.Name)
	}
	return names
}
