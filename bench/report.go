package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The report: results.md to read, results.csv to compute with, results.json to
// make either again, and pictures.

// self is the cache that the others are compared with.
const self = "wheelcache"

// notShown is what the engine has as a reason if a cache has gone through a case
// and has not got that figure.
const notShown = "not shown by this cache"

// headliners are the rows of the headline table, and the order of caches where
// there is no better one.
var headliners = []string{
	self, "otter", "otter-coarse", "ristretto", "theine", "ttlcache", "gocache", "expirable", "bigcache", "freecache",
	"gozero", "sturdyc", "map", "xsync",
}

// writeReport writes all that there is about r into dir.
func writeReport(dir string, r *Results) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	r = finite(r)
	pictures, err := writeCharts(dir, r)
	if err != nil {
		return err
	}
	if err := removeOld(dir, pictures); err != nil {
		return err
	}
	var md, table bytes.Buffer
	writeMarkdown(&md, r, pictures)
	if err := writeCSV(&table, r); err != nil {
		return err
	}
	all, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "results.json"), append(all, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "results.csv"), table.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "results.md"), md.Bytes(), 0o644),
	)
}

// linked finds the pictures of a results.md.
var linked = regexp.MustCompile(`\]\(([a-z0-9-]+\.png)\)`)

// removeOld removes the pictures of the report that was in dir, but for those that
// have been drawn anew.
func removeOld(dir string, pictures []picture) error {
	old, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, match := range linked.FindAllSubmatch(old, -1) {
		file := string(match[1])
		if slices.ContainsFunc(pictures, func(p picture) bool { return p.file == file }) {
			continue
		}
		if e := os.Remove(filepath.Join(dir, file)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// readResults reads what writeReport wrote as results.json.
func readResults(dir string) (*Results, error) {
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		return nil, err
	}
	r := new(Results)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("results.json: %w", err)
	}
	return r, nil
}

// finite returns r without values that are no numbers, which JSON cannot hold and
// nobody can read.
func finite(r *Results) *Results {
	odd := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	clean := *r
	clean.Rows = slices.Clone(r.Rows)
	for i, row := range clean.Rows {
		if !slices.ContainsFunc(row.Values, odd) {
			continue
		}
		row.Values = slices.DeleteFunc(slices.Clone(row.Values), odd)
		if len(row.Values) == 0 && row.Why == "" {
			row.Why = "failed: not a number"
		}
		clean.Rows[i] = row
	}
	clean.Series = slices.Clone(r.Series)
	for i, s := range clean.Series {
		if !slices.ContainsFunc(s.X, odd) && !slices.ContainsFunc(s.Y, odd) {
			continue
		}
		var x, y []float64
		for j := range min(len(s.X), len(s.Y)) {
			if !odd(s.X[j]) && !odd(s.Y[j]) {
				x, y = append(x, s.X[j]), append(y, s.Y[j])
			}
		}
		clean.Series[i].X, clean.Series[i].Y = x, y
	}
	return &clean
}

// An index finds rows, and keeps the order in which things are shown.
type index struct {
	rows      map[rowKey]Row
	workloads []string
	cases     map[string][]Case   // by workload
	metrics   map[string][]Metric // by workload
	peers     []string
}

type rowKey struct {
	workload string
	c        Case // never Quick
	peer     string
	metric   string
}

func newIndex(r *Results) *index {
	x := &index{rows: map[rowKey]Row{}, cases: map[string][]Case{}, metrics: map[string][]Metric{}}
	for _, row := range r.Rows {
		row.Case.Quick = false // says nothing about what was done
		x.rows[rowKey{row.Workload, row.Case, row.Peer, row.Metric}] = row
		x.workloads = appendNew(x.workloads, row.Workload)
		x.cases[row.Workload] = appendNew(x.cases[row.Workload], row.Case)
		x.peers = appendNew(x.peers, row.Peer)
		if !slices.ContainsFunc(x.metrics[row.Workload], func(m Metric) bool { return m.Name == row.Metric }) {
			x.metrics[row.Workload] = append(x.metrics[row.Workload], metricNamed(row.Workload, row.Metric))
		}
	}
	slices.SortStableFunc(x.peers, func(a, b string) int {
		pa, pb := describe(a), describe(b)
		if pa.Floor != pb.Floor {
			return cmp.Compare(btoi(pa.Floor), btoi(pb.Floor))
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return x
}

func (x *index) find(workload string, c Case, peer, metric string) (Row, bool) {
	c.Quick = false
	row, ok := x.rows[rowKey{workload, c, peer, metric}]
	return row, ok
}

// measured is find for rows that have values.
func (x *index) measured(workload string, c Case, peer, metric string) (Row, bool) {
	row, ok := x.find(workload, c, peer, metric)
	return row, ok && len(row.Values) > 0
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rank is the place of a peer among the headliners, or after them.
func rank(peer string) int {
	if i := slices.Index(headliners, peer); i >= 0 {
		return i
	}
	return len(headliners)
}

// describe returns what is known of a peer: only its name, if it is no longer
// one.
func describe(name string) Peer {
	if p := peerNamed(name); p != nil {
		return *p
	}
	return Peer{Name: name}
}

// workloadOf is describe for workloads.
func workloadOf(name string) Workload {
	if w := workloadNamed(name); w != nil {
		return *w
	}
	return Workload{Name: name}
}

func metricNamed(workload, metric string) Metric {
	for _, m := range workloadOf(workload).Metrics {
		if m.Name == metric {
			return m
		}
	}
	return Metric{Name: metric}
}

// label is a case as a heading: "string 1M zipf t1".
func label(c Case) string {
	words := []string{c.Keys}
	if c.Entries > 0 {
		words = append(words, count(c.Entries))
	}
	if c.Dist != "" {
		words = append(words, c.Dist)
	}
	if c.Threads > 0 {
		words = append(words, "t"+strconv.Itoa(c.Threads))
	}
	if c.Variant != "" {
		words = append(words, c.Variant)
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

func count(n int) string {
	switch {
	case n >= 1e6 && n%1e5 == 0:
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + "M"
	case n >= 1e3 && n%1e2 == 0:
		return strconv.FormatFloat(float64(n)/1e3, 'f', -1, 64) + "k"
	}
	return strconv.Itoa(n)
}

// number is v with three significant digits.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsInf(v, 0):
		return "∞" // of a ratio
	case a < 1000 && v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', -1, 64)
	case a < 0.0001:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(a))-2)
	v = math.Round(v/unit) * unit
	switch a = math.Abs(v); {
	case a >= 1e6:
		return decimals(v/1e6) + "M"
	case a >= 1000:
		s := strconv.FormatFloat(v, 'f', 0, 64)
		return s[:len(s)-3] + "," + s[len(s)-3:]
	}
	return decimals(v)
}

// decimals is v with as many of them as make three digits.
func decimals(v float64) string {
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(math.Abs(v))))), 64)
}

// spread is "median (min–max)", or only the one if they do not differ.
func spread(median, least, most float64) string {
	lo, mid, hi := number(least), number(median), number(most)
	switch {
	case lo == mid && mid == hi:
		return mid
	case least < 0:
		return fmt.Sprintf("%s (%s to %s)", mid, lo, hi)
	}
	return fmt.Sprintf("%s (%s–%s)", mid, lo, hi)
}

func writeMarkdown(w io.Writer, r *Results, pictures []picture) {
	x := newIndex(r)
	p := func(format string, args ...any) { fmt.Fprintf(w, format, args...) }
	p("# Results\n\n")
	p("- %s\n- %s\n- %s\n", r.When.Format(time.DateTime), r.Machine, r.GoVersion)
	p("- command: %s\n", r.asked())
	if versions := versionList(x, r); versions != "" {
		p("- versions: %s\n", versions)
	}
	p("\nA cell is the median of the repetitions, with min and max if they differ. Bold is the best cache of a column, floors\n" +
		"aside. `t2` is two goroutines. The rules are in [README.md](../README.md).\n")
	p("\n## Overview\n\n")
	writeHeadline(w, r)
	p("\n## Goals\n\n")
	writeGoals(w, r)
	for _, name := range x.workloads {
		p("\n## %s\n", name)
		if about := workloadOf(name).About; about != "" {
			p("\n%s\n", about)
		}
		for _, m := range x.metrics[name] {
			p("\n### %s: %s\n\n", name, m.Name)
			if about := meaning(m); about != "" {
				p("%s\n\n", about)
			}
			for i, cases := range tables(x.casesOf(name, m)) {
				if i > 0 {
					p("\n")
				}
				writeTable(w, x, name, m, cases)
			}
			for _, pic := range pictures {
				if pic.workload == name && pic.metric == m.Name {
					p("\n![%s](%s)\n", pic.title, pic.file)
				}
			}
		}
		var courses bool
		for _, pic := range pictures {
			if pic.workload == name && pic.metric == "" {
				if !courses {
					p("\n### %s: over time\n", name)
					courses = true
				}
				p("\n![%s](%s)\n", pic.title, pic.file)
			}
		}
	}
	writeNotes(w, x)
}

// meaning is a metric's description, with what is better.
func meaning(m Metric) string {
	var better string
	switch {
	case m.Better < 0:
		better = "less is better"
	case m.Better > 0:
		better = "more is better"
	}
	switch {
	case m.About == "" || better == "":
		return sentence(m.About + better)
	default:
		return sentence(m.About + "; " + better)
	}
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

func versionList(x *index, r *Results) string {
	var list []string
	for _, peer := range x.peers {
		if v := r.Versions[peer]; v != "" {
			list = append(list, peer+" "+v)
		}
	}
	return strings.Join(list, ", ")
}

// casesOf returns the cases that a metric has a meaning in: not those that a cache
// went through without showing any.
func (x *index) casesOf(workload string, m Metric) []Case {
	return slices.DeleteFunc(slices.Clone(x.cases[workload]), func(c Case) bool {
		var silent bool
		for _, peer := range x.peers {
			row, ok := x.find(workload, c, peer, m.Name)
			if len(row.Values) > 0 {
				return false
			}
			silent = silent || ok && row.Why == notShown
		}
		return silent
	})
}

// tables divides cases into tables that are not too wide.
func tables(cases []Case) [][]Case {
	if len(cases) <= 6 {
		return [][]Case{cases}
	}
	var keys []string
	for _, c := range cases {
		keys = appendNew(keys, c.Keys)
	}
	divided := make([][]Case, len(keys))
	for _, c := range cases {
		i := slices.Index(keys, c.Keys)
		divided[i] = append(divided[i], c)
	}
	return divided
}

// writeTable writes one metric of all peers.
func writeTable(w io.Writer, x *index, workload string, m Metric, cases []Case) {
	var notes footnotes
	head := []string{""}
	for _, c := range cases {
		head = append(head, label(c))
	}
	t := table{head: head}
	best := make([]string, len(cases))
	for i, c := range cases {
		best[i] = x.best(workload, c, m, x.peers)
	}
	var floors bool
	for _, peer := range x.peers {
		row := []string{peer}
		for i, c := range cases {
			found, ok := x.find(workload, c, peer, m.Name)
			switch {
			case !ok:
				row = append(row, "")
			case len(found.Values) == 0:
				row = append(row, "– "+notes.mark(found.Why))
			default:
				row = append(row, bold(spread(found.Median(), found.Min(), found.Max()), found, best[i]))
			}
		}
		if strings.Join(row[1:], "") == "" {
			continue
		}
		if describe(peer).Floor && !floors {
			floors = true
			t.rows = append(t.rows, append([]string{"*floors*"}, make([]string, len(cases))...))
		}
		t.rows = append(t.rows, row)
	}
	t.write(w)
	notes.write(w)
}

// best returns what the best median among caches is written as, "" if none is better
// than another.
func (x *index) best(workload string, c Case, m Metric, among []string) string {
	var best, worst float64
	var field int
	for _, peer := range among {
		row, ok := x.measured(workload, c, peer, m.Name)
		if !ok || describe(peer).Floor {
			continue
		}
		v := row.Median() * float64(m.Better)
		if field++; field == 1 {
			best, worst = v, v
		}
		best, worst = max(best, v), min(worst, v)
	}
	if m.Better == 0 || field == 0 || number(best) == number(worst) {
		return ""
	}
	return number(best * float64(m.Better))
}

// bold marks a cell whose median is written as the best one is.
func bold(cell string, row Row, best string) string {
	if best == "" || describe(row.Peer).Floor || number(row.Median()) != best {
		return cell
	}
	return "**" + cell + "**"
}

// footnotes give the reasons of one table.
type footnotes []string

func (n *footnotes) mark(why string) string {
	*n = appendNew(*n, cmp.Or(why, "not said why"))
	return "(" + letter(slices.Index(*n, cmp.Or(why, "not said why"))) + ")"
}

func (n footnotes) write(w io.Writer) {
	if len(n) > 0 {
		fmt.Fprintln(w)
	}
	for i, why := range n {
		fmt.Fprintf(w, "- (%s) %s\n", letter(i), escape(why))
	}
}

// letter is a, b, ... z, aa, ab, ...
func letter(i int) string {
	if i < 26 {
		return string(rune('a' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

// A table is written with columns padded, so that it can be read as it is.
type table struct {
	head []string
	rows [][]string
}

func (t *table) write(w io.Writer) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(escape(cell))), 3)
		}
	}
	line := func(row []string) {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-len([]rune(escape(cell))))
			if i == 0 {
				fmt.Fprintf(w, "| %s%s ", escape(cell), pad)
			} else {
				fmt.Fprintf(w, "| %s%s ", pad, escape(cell))
			}
		}
		fmt.Fprintln(w, "|")
	}
	line(t.head)
	for i, width := range widths {
		if i == 0 {
			fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
		} else {
			fmt.Fprintf(w, "|%s:", strings.Repeat("-", width+1))
		}
	}
	fmt.Fprintln(w, "|")
	for _, row := range t.rows {
		line(row)
	}
}

// escape keeps a text within its cell and line.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "\r", "", "\n", " ").Replace(s)
}

// writeNotes says what a reader must know of each peer.
func writeNotes(w io.Writer, x *index) {
	var list strings.Builder
	for _, name := range x.peers {
		if note := describe(name).Note; note != "" {
			fmt.Fprintf(&list, "- **%s**: %s\n", name, escape(note))
		}
	}
	if list.Len() > 0 {
		fmt.Fprintf(w, "\n## Peers\n\n%s", list.String())
	}
}

// writeHeadline writes the table for the README: medians only, of the workloads
// that were run.
func writeHeadline(w io.Writer, r *Results) {
	x := newIndex(r)
	type column struct {
		headline
		c    Case
		best string
	}
	var columns []column
	head := []string{""}
	for _, h := range headlines {
		if c, ok := x.largest(h); ok {
			columns = append(columns, column{h, c, x.best(h.workload, c, metricNamed(h.workload, h.metric), headliners)})
			head = append(head, strings.ReplaceAll(h.title, "{n}", count(c.Entries)))
		}
	}
	if len(columns) == 0 {
		fmt.Fprintln(w, "Nothing of the overview was measured.")
		return
	}
	t := table{head: head}
	var floors bool
	for _, peer := range headliners {
		row := []string{peer}
		var known bool
		for _, col := range columns {
			found, ok := x.find(col.workload, col.c, peer, col.metric)
			known = known || ok
			switch {
			case !ok:
				row = append(row, "")
			case len(found.Values) == 0:
				row = append(row, "–")
			default:
				row = append(row, bold(number(found.Median()), found, col.best))
			}
		}
		if !known {
			continue
		}
		if describe(peer).Floor && !floors {
			floors = true
			t.rows = append(t.rows, append([]string{"*floors*"}, make([]string, len(columns))...))
		}
		t.rows = append(t.rows, row)
	}
	t.write(w)
	fmt.Fprintf(w, "\n%s, %s, %s: %s\n", r.When.Format(time.DateOnly), r.Machine, r.GoVersion, r.asked())
}

// largest returns the case with most entries that a column can show.
func (x *index) largest(h headline) (Case, bool) {
	var largest Case
	var found bool
	for _, c := range x.cases[h.workload] {
		if !matchesCase(h.c, c) || found && c.Entries <= largest.Entries {
			continue
		}
		if slices.ContainsFunc(headliners, func(peer string) bool {
			_, ok := x.measured(h.workload, c, peer, h.metric)
			return ok
		}) {
			largest, found = c, true
		}
	}
	return largest, found
}

// writeCSV writes one line per repetition, and one for what a peer could not do.
func writeCSV(w io.Writer, r *Results) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"workload", "case", "peer", "metric", "repetition", "value", "why"}) // Error returns it
	for _, row := range r.Rows {
		line := []string{row.Workload, row.Case.String(), row.Peer, row.Metric, "", "", row.Why}
		if len(row.Values) == 0 {
			_ = out.Write(line)
		}
		for i, v := range row.Values {
			line[4], line[5] = strconv.Itoa(i+1), strconv.FormatFloat(v, 'g', -1, 64)
			_ = out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}
