package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A grid is a table: a line for each size of each trace, a column for each cache.
type grid struct {
	caches []string
	lines  []line
}

// A line has what all caches made of one trace at one size.
type line []Row

func (l line) row(cache string) (Row, bool) {
	i := slices.IndexFunc(l, func(r Row) bool { return r.Cache == cache })
	if i < 0 {
		return Row{}, false
	}
	return l[i], true
}

// best returns the greatest hit ratio, as shown, of the caches that held no more
// than their size, except one of them.
func (l line) best(except string) (most float64, any bool) {
	for _, r := range l {
		if r.Fair() && r.Cache != except {
			most, any = max(most, shown(r)), true
		}
	}
	return most, any
}

// shown is a hit ratio in percent as tables have it, with one decimal.
func shown(r Row) float64 { return math.Round(10*r.HitPercent()) / 10 }

// newGrid takes the rows of traces with lifetimes, or of those without, in the order
// in which plan.run returns them, and the caches that ran at all.
func newGrid(rows []Row, expires bool) (g grid) {
	for _, r := range rows {
		if r.Expires != expires {
			continue
		}
		last := len(g.lines) - 1
		if last < 0 || g.lines[last][0].Trace != r.Trace || g.lines[last][0].Percent != r.Percent {
			g.lines = append(g.lines, nil)
			last++
		}
		g.lines[last] = append(g.lines[last], r)
		if len(r.Runs) > 0 && !slices.Contains(g.caches, r.Cache) {
			g.caches = append(g.caches, r.Cache)
		}
	}
	return g
}

// writeTables writes a table of the traces without lifetimes, one of those with, and
// what to know for reading them.
func writeTables(w io.Writer, rows []Row) {
	fmt.Fprint(w, "Hits in percent of the requests. Bold is the best cache of a line. (+n): held up to n entries more\n"+
		"than its size, so takes no part in that.\n")
	for _, expires := range []bool{false, true} {
		g := newGrid(rows, expires)
		if len(g.caches) == 0 {
			continue
		}
		if expires {
			fmt.Fprint(w, "\nWith lifetimes, where belady is a way to use the future that may not be the best one, and bound is\n"+
				"what none can exceed:\n")
		}
		fmt.Fprintln(w)
		g.write(w)
	}
	writeReasons(w, rows)
}

// writeReasons says why caches have no figures for some traces.
func writeReasons(w io.Writer, rows []Row) {
	type reason struct{ cache, why string }
	var order []reason
	traces := map[reason][]string{}
	for _, r := range rows {
		why := reason{r.Cache, r.Why}
		switch {
		case len(r.Runs) > 0 || optimal(r.Cache):
			continue
		case traces[why] == nil:
			order = append(order, why)
		case slices.Contains(traces[why], r.Trace):
			continue
		}
		traces[why] = append(traces[why], r.Trace)
	}
	if len(order) > 0 {
		fmt.Fprint(w, "\nNot shown:\n\n")
	}
	for _, why := range order {
		fmt.Fprintf(w, "- %s: %s (%s)\n", why.cache, why.why, strings.Join(traces[why], ", "))
	}
}

func (g grid) write(w io.Writer) {
	head := []string{"trace", "entries"}
	for _, c := range g.caches {
		head = append(head, c)
		if c == self {
			head = append(head, "to the best other")
		}
	}
	fmt.Fprintf(w, "| %s |\n|---|---|%s\n", strings.Join(head, " | "), strings.Repeat("---:|", len(head)-2))
	for _, l := range g.lines {
		cells := []string{l[0].Trace, fmt.Sprintf("%g %% = %d", l[0].Percent, l[0].Size)}
		for _, c := range g.caches {
			cells = append(cells, l.cell(c))
			if c == self {
				cells = append(cells, l.distance())
			}
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

func (l line) cell(cache string) string {
	r, ok := l.row(cache)
	if !ok || len(r.Runs) == 0 {
		return "–"
	}
	figure := fmt.Sprintf("%.1f", shown(r))
	if most, any := l.best(""); any && r.Fair() && shown(r) == most {
		return "**" + figure + "**"
	}
	if r.Most() > r.Size {
		return fmt.Sprintf("%s (+%d)", figure, r.Most()-r.Size)
	}
	return figure
}

// distance is by how much self is better than the best of the others.
func (l line) distance() string {
	r, ok := l.row(self)
	most, any := l.best(self)
	if !ok || !any || len(r.Runs) == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f", math.Round(10*(shown(r)-most))/10+0) // + 0 for -0
}

// writeCSV writes a line for each run.
func writeCSV(w io.Writer, rows []Row) error {
	table := csv.NewWriter(w)
	_ = table.Write([]string{
		"trace", "requests", "distinct", "percent", "size", "cache", "run", "hits", "hit_percent", "most_entries",
	})
	for _, r := range rows {
		for i, run := range r.Runs {
			most := strconv.Itoa(run.Most)
			if optimal(r.Cache) {
				most = "" // nobody counted
			}
			_ = table.Write([]string{
				r.Trace, strconv.Itoa(r.Requests), strconv.Itoa(r.Distinct), strconv.FormatFloat(r.Percent, 'g', -1, 64),
				strconv.Itoa(r.Size), r.Cache, strconv.Itoa(i + 1), strconv.Itoa(run.Hits),
				strconv.FormatFloat(r.percentOf(run), 'f', 3, 64), most,
			})
		}
	}
	table.Flush()
	return table.Error()
}
