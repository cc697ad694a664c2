package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// The targets that the cache is developed towards, as data. Each is a figure of
// wheelcache, or its ratio to another figure of the same run, and a bound for it.

// bestTTL stands for the cache with the least median among those with lifetimes.
const bestTTL = "best TTL cache"

// A goal is checked in every case that case matches.
type goal struct {
	workload string
	c        Case // its zero fields match everything; Variant "-" matches only none
	metric   string
	per      *other // nil if the figure itself is bound
	op       string // "≤", "<" or "≥"
	bound    float64
}

// other is what a figure is divided by. Fields not set are as in the goal, the peer
// too: then it is wheelcache's own figure.
type other struct {
	peer    string
	metric  string
	threads int
}

func against(peer string) *other { return &other{peer: peer} }

// matchesCase reports whether c is what pattern says.
func matchesCase(pattern, c Case) bool {
	variant := pattern.Variant == "" || pattern.Variant == c.Variant || pattern.Variant == "-" && c.Variant == ""
	return variant &&
		(pattern.Keys == "" || pattern.Keys == c.Keys) &&
		(pattern.Entries == 0 || pattern.Entries == c.Entries) &&
		(pattern.Dist == "" || pattern.Dist == c.Dist) &&
		(pattern.Threads == 0 || pattern.Threads == c.Threads)
}

// A finding is how a goal stands in one case.
type finding struct {
	c                 Case
	median, low, high float64 // low and high are of the repetitions, in pairs
	measured          bool
	cannot            bool // not measured because nobody could be compared with
}

func (g goal) met(v float64) bool {
	switch g.op {
	case "≤":
		return v <= g.bound
	case "<":
		return v < g.bound
	case "≥":
		return v >= g.bound
	}
	panic("no such comparison: " + g.op)
}

// verdict is "missed" too if the noise reaches to the bound, but says so.
func (g goal) verdict(f finding) string {
	switch {
	case f.cannot:
		return "no rival"
	case !f.measured:
		return "not measured"
	case g.met(f.median):
		return "met"
	case g.met(f.low) || g.met(f.high):
		return "missed, within noise"
	}
	return "missed"
}

// findings returns how g stands in each case that it is about.
func (g goal) findings(x *index) []finding {
	var cases []Case
	for _, c := range slices.Concat(workloadOf(g.workload).Cases, x.cases[g.workload]) {
		c.Quick = false
		if matchesCase(g.c, c) {
			cases = appendNew(cases, c)
		}
	}
	if len(cases) == 0 {
		cases = []Case{g.c}
	}
	var list []finding
	for _, c := range cases {
		list = append(list, g.find(x, c))
	}
	return list
}

func (g goal) find(x *index, c Case) finding {
	f := finding{c: c}
	row, ok := x.measured(g.workload, c, self, g.metric)
	if !ok {
		return f
	}
	if g.per == nil {
		return finding{c: c, median: row.Median(), low: row.Min(), high: row.Max(), measured: true}
	}
	base := g.base(x, c)
	if len(base.Values) == 0 {
		f.cannot = strings.HasPrefix(base.Why, ErrCannot.Error())
		return f
	}
	f = finding{c: c, median: ratio(row.Median(), base.Median()), measured: true}
	if len(row.Values) != len(base.Values) { // some failed: nothing to pair
		f.low, f.high = ratio(row.Min(), base.Max()), ratio(row.Max(), base.Min())
		return f
	}
	f.low, f.high = math.Inf(1), math.Inf(-1)
	for i, v := range row.Values {
		v = ratio(v, base.Values[i])
		f.low, f.high = min(f.low, v), max(f.high, v)
	}
	return f
}

// ratio of two figures: equals are 1, though they be zero.
func ratio(a, b float64) float64 {
	if a == b {
		return 1
	}
	return a / b
}

// base finds what the figure in case c is divided by; it has no values if there is
// none.
func (g goal) base(x *index, c Case) (base Row) {
	c.Threads = cmp.Or(g.per.threads, c.Threads)
	metric := cmp.Or(g.per.metric, g.metric)
	if g.per.peer != bestTTL {
		base, _ = x.find(g.workload, c, cmp.Or(g.per.peer, self), metric)
		return base
	}
	for _, peer := range x.peers {
		p := describe(peer)
		if peer == self || p.Floor || !p.Traits.Expires {
			continue
		}
		row, ok := x.measured(g.workload, c, peer, metric)
		if ok && (base.Values == nil || row.Median() < base.Median()) {
			base = row
		}
	}
	return base
}

// title is what is bound, in case c: "storm, Get p99.9 storm, string 1M".
func (g goal) title(c Case) string {
	words := []string{g.workload}
	if g.metric != "ns/op" && g.per != nil { // else the limit says it
		words = append(words, g.metric)
	}
	c.Variant = strings.TrimPrefix(c.Variant, "-")
	if l := label(c); l != "" {
		words = append(words, l)
	}
	return strings.Join(words, ", ")
}

// limit is the bound in words: "≤ 0.5× otter".
func (g goal) limit() string {
	bound := g.op + " " + tickLabel(g.bound)
	if g.per == nil {
		return bound + " " + g.metric
	}
	var of []string
	if g.per.peer != "" {
		of = append(of, g.per.peer)
	}
	if g.per.metric != "" {
		of = append(of, g.per.metric)
	}
	if g.per.threads > 0 {
		of = append(of, fmt.Sprintf("t%d", g.per.threads))
	}
	return bound + "× " + strings.Join(of, " ")
}

// writeGoals writes the goals, and how far they are reached in r.
func writeGoals(w io.Writer, r *Results) {
	x := newIndex(r)
	t := table{head: []string{"goal", "bound", "measured", ""}}
	tally := map[string]int{}
	for _, g := range goals() {
		for _, f := range g.findings(x) {
			verdict := g.verdict(f)
			tally[verdict]++
			if verdict == "not measured" {
				continue
			}
			measured := "–"
			if f.measured {
				measured = spread(f.median, f.low, f.high)
			}
			t.rows = append(t.rows, []string{g.title(f.c), g.limit(), measured, verdict})
		}
	}
	t.write(w)
	fmt.Fprintf(w, "\n%d met, %d missed within noise, %d missed, %d without a rival that can do it, %d not measured. Ratios are of\n"+
		"medians; in brackets, the least and the greatest ratio of the same repetition.\n",
		tally["met"], tally["missed, within noise"], tally["missed"], tally["no rival"], tally["not measured"])
}
