package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A madeUp run has these peers and one workload, in place of the real ones.
func madeUp(t *testing.T) *Results {
	t.Helper()
	realPeers, realWorkloads := peers, workloads
	t.Cleanup(func() { peers, workloads = realPeers, realWorkloads })
	peers, workloads = nil, nil
	// Not in the order of the report.
	register(Peer{Name: "map", Floor: true})
	register(Peer{Name: "otter", Note: "unbounded", Traits: Traits{Expires: true}})
	register(Peer{Name: self, Traits: Traits{Expires: true}})
	register(Peer{Name: "bigcache", Note: "values are bytes", Traits: Traits{Expires: true}})
	registerWorkload(Workload{
		Name: "get", About: "Get of keys that are there",
		Cases: []Case{madeUpCase(1), madeUpCase(2)},
		Metrics: []Metric{
			{Name: "ns/op", About: "time per operation", Better: -1, Chart: true},
			{Name: "hit %", Better: +1},
		},
	})
	r := &Results{
		When: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Command: "go run -C bench .",
		Machine: "two cores", GoVersion: "go1.26.8", Versions: map[string]string{"otter": "v2.4.0"},
	}
	add := func(peer string, threads int, metric, why string, values ...float64) {
		r.Rows = append(r.Rows, Row{"get", madeUpCase(threads), peer, metric, values, why})
	}
	add("map", 1, "ns/op", "", 100, 110, 90)
	add("map", 2, "ns/op", "cannot: one goroutine only")
	add("otter", 1, "ns/op", "", 400, 390, 410)
	add("otter", 2, "ns/op", "", 220, 200, 210)
	add(self, 1, "ns/op", "", 120, 130, 110)
	add(self, 2, "ns/op", "", 60, 65, 55)
	add("bigcache", 1, "ns/op", "", 1234.5) // the others of its repetitions failed
	add("bigcache", 2, "ns/op", "failed: a|b\nc")
	add(self, 1, "hit %", "", 100, 100, 100)
	add("otter", 1, "hit %", "", 0, 0, 0)
	return r
}

func madeUpCase(threads int) Case {
	return Case{Keys: "string", Entries: 1_000_000, Dist: "zipf", Threads: threads, Quick: threads == 1}
}

func Test_report_shows_medians_with_min_and_max_and_why_not(t *testing.T) {
	r := madeUp(t)
	var md bytes.Buffer
	writeMarkdown(&md, r, nil)
	want := `
### get: ns/op

Time per operation; less is better.

|            | string 1M zipf t1 | string 1M zipf t2 |
|------------|------------------:|------------------:|
| wheelcache | **120 (110–130)** |    **60 (55–65)** |
| otter      |     400 (390–410) |     210 (200–220) |
| bigcache   |             1,230 |             – (a) |
| *floors*   |                   |                   |
| map        |      100 (90–110) |             – (b) |

- (a) failed: a\|b c
- (b) cannot: one goroutine only

### get: hit %

More is better.

|            | string 1M zipf t1 | string 1M zipf t2 |
|------------|------------------:|------------------:|
| wheelcache |           **100** |                   |
| otter      |                 0 |                   |
`
	require.Contains(t, md.String(), want)
	for _, s := range []string{"2026-11-21 12:00:00", "two cores", "go1.26.8", "`go run -C bench .`", "versions: otter v2.4.0", "values are bytes"} {
		require.Contains(t, md.String(), s)
	}
}

func Test_report_says_that_a_run_was_interrupted(t *testing.T) {
	r := madeUp(t)
	r.Unfinished = "interrupted after 7 of 12 repetitions"
	var md, headline bytes.Buffer
	writeMarkdown(&md, r, nil)
	writeHeadline(&headline, r)
	const want = "`go run -C bench .`, interrupted after 7 of 12 repetitions"
	require.Contains(t, md.String(), want)
	require.Contains(t, headline.String(), want)
}

func Test_nobody_is_best_if_all_are_alike(t *testing.T) {
	r := madeUp(t)
	for _, v := range []struct {
		otter float64
		want  string
	}{{0, "100"}, {99.99, ""}, {100, ""}, {101, "101"}} {
		r.Rows[9].Values = []float64{v.otter}
		require.Equal(t, v.want, newIndex(r).best("get", madeUpCase(1), workloads[0].Metrics[1], []string{self, "otter", "map"}))
	}
}

func Test_headline_shows_what_was_measured_only(t *testing.T) {
	r := madeUp(t)
	var w bytes.Buffer
	writeHeadline(&w, r)
	require.Equal(t, `
|            | get string 1M zipf t1, ns |
|------------|--------------------------:|
| wheelcache |                   **120** |
| otter      |                       400 |
| bigcache   |                     1,230 |
| *floors*   |                           |
| map        |                       100 |

2026-11-21, two cores, go1.26.8: `+"`go run -C bench .`\n", "\n"+w.String())

	w.Reset()
	writeHeadline(&w, &Results{})
	require.Contains(t, w.String(), "Nothing")
}

func Test_report_of_unknown_names_and_of_nothing(t *testing.T) {
	madeUp(t)
	r := &Results{Rows: []Row{{Workload: "gone", Case: Case{Keys: "string"}, Peer: "gone-too", Metric: "x", Values: []float64{1}}}}
	for _, r := range []*Results{r, {}} {
		dir := t.TempDir()
		require.NoError(t, writeReport(dir, r))
		require.FileExists(t, filepath.Join(dir, "results.md"))
	}
}

func Test_report_files(t *testing.T) {
	r := madeUp(t)
	r.Rows[9].Values = []float64{math.NaN(), 1, math.Inf(1)}
	r.Series = []Series{{
		Workload: "get", Case: madeUpCase(1), Peer: self, Name: "Get p99.9",
		X: []float64{0, 1, 2}, Y: []float64{1, math.NaN(), 0}, XUnit: "ms", YUnit: "µs",
	}}
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, writeReport(dir, r))

	read, err := readResults(dir)
	require.NoError(t, err)
	require.Equal(t, finite(r), read)
	require.Equal(t, []float64{1}, read.Rows[9].Values)
	require.Equal(t, []float64{0, 2}, read.Series[0].X)

	f, err := os.Open(filepath.Join(dir, "results.csv"))
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+5*3+1+2+3+1)
	require.Equal(t, []string{"workload", "case", "peer", "metric", "repetition", "value", "why"}, lines[0])
	require.Equal(t, []string{"get", "keys=string/n=1000000/dist=zipf/threads=1", "map", "ns/op", "2", "110", ""}, lines[2])
	require.Equal(t, []string{"get", "keys=string/n=1000000/dist=zipf/threads=2", "map", "ns/op", "", "", "cannot: one goroutine only"}, lines[4])

	md, err := os.ReadFile(filepath.Join(dir, "results.md"))
	require.NoError(t, err)
	pictures, err := filepath.Glob(filepath.Join(dir, "*.png"))
	require.NoError(t, err)
	require.Len(t, pictures, 2)
	for _, p := range pictures {
		require.Contains(t, string(md), "]("+filepath.Base(p)+")")
	}
}

func Test_pictures_of_the_report_before_are_removed(t *testing.T) {
	r, dir := madeUp(t), t.TempDir()
	require.NoError(t, writeReport(dir, r))
	require.FileExists(t, filepath.Join(dir, "get-ns-op-string-1m-zipf.png"))
	foreign := filepath.Join(dir, "foreign.png")
	require.NoError(t, os.WriteFile(foreign, nil, 0o644))
	for i := range r.Rows {
		r.Rows[i].Case.Dist = "uniform"
	}
	require.NoError(t, writeReport(dir, r))
	require.FileExists(t, filepath.Join(dir, "get-ns-op-string-1m-uniform.png"))
	require.NoFileExists(t, filepath.Join(dir, "get-ns-op-string-1m-zipf.png"))
	require.FileExists(t, foreign)
}

func Test_results_are_read_with_an_error_if_broken(t *testing.T) {
	dir := t.TempDir()
	_, err := readResults(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "results.json"), []byte("{"), 0o644))
	_, err = readResults(dir)
	require.ErrorContains(t, err, "results.json")
}

func Test_number_has_three_significant_digits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 3: "3", -3: "-3", 42.24: "42.2", 42.36: "42.4", 999.4: "999", 999.6: "1,000", 999: "999", 1000: "1,000", 8192: "8,190",
		123_456: "123,000", 999_600: "1.00M", 1_234_567: "1.23M", 12_345_678: "12.3M", 0.5: "0.500", 0.0123: "0.0123", 9.996: "10.0",
		-0.25: "-0.250", math.Inf(1): "∞", 0.00001234: "1.23e-05",
	} {
		require.Equal(t, want, number(v), v)
	}
	require.Equal(t, "1", spread(1, 1, 1))
	require.Equal(t, "2 (1–3)", spread(2, 1, 3))
	require.Equal(t, "2 (-1 to 3)", spread(2, -1, 3))
	require.Equal(t, "0.5", tickLabel(0.5))
	require.Equal(t, "1,500", tickLabel(1500))
	require.Equal(t, "2M", tickLabel(2e6))
	require.Equal(t, "100", tickLabel(100))
}

func Test_wide_tables_are_divided_by_keys(t *testing.T) {
	var cases []Case
	for i := range 4 {
		cases = append(cases, Case{Keys: "string", Entries: i + 1}, Case{Keys: "uint64", Entries: i + 1})
	}
	require.Len(t, tables(cases[:6]), 1)
	divided := tables(cases)
	require.Len(t, divided, 2)
	require.Len(t, divided[0], 4)
	require.Equal(t, "uint64", divided[1][3].Keys)
}

func Test_letters_do_not_end_with_z(t *testing.T) {
	require.Equal(t, []string{"a", "z", "aa", "az", "ba"}, []string{letter(0), letter(25), letter(26), letter(51), letter(52)})
}

func Test_labels_are_short(t *testing.T) {
	require.Equal(t, "string 1M zipf t1", label(madeUpCase(1)))
	require.Equal(t, "uint64 10k t2 growing", label(Case{Keys: "uint64", Entries: 10_000, Threads: 2, Variant: "growing"}))
	require.Equal(t, "", label(Case{}))
	require.Equal(t, "get-ns-op-string-1m", slug("get", "ns/op", "", "string 1M"))
	require.Equal(t, "course-p99-9", slug("course", "p99.9 %"))
	require.Equal(t, "cpu-us-insert", slug("CPU µs/insert"))
}
