package main

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
)

func Test_pictures_have_stable_names_and_the_width_of_a_page(t *testing.T) {
	r := madeUp(t)
	for i, peer := range []string{self, "otter", "nobody"} {
		r.Series = append(r.Series, Series{
			Workload: "get", Case: madeUpCase(1), Peer: peer, Name: "Get p99.9",
			X: []float64{0, 10, 20}, Y: []float64{1, 0, float64(i+1) * 100}, XUnit: "ms", YUnit: "µs",
		})
	}
	dir := t.TempDir()
	pictures, err := writeCharts(dir, r)
	require.NoError(t, err)
	require.Equal(t, []picture{
		{"get", "ns/op", "get: ns/op, string 1M zipf, t1, lighter: t2", "get-ns-op-string-1m-zipf.png"},
		{"get", "", "get: Get p99.9, string 1M zipf t1", "get-course-get-p99-9-string-1m-zipf-t1.png"},
	}, pictures)
	for _, p := range pictures {
		f, err := os.Open(filepath.Join(dir, p.file))
		require.NoError(t, err)
		defer f.Close()
		config, err := png.DecodeConfig(f)
		require.NoError(t, err)
		require.Equal(t, pictureWidth, config.Width)
	}
}

func Test_any_number_of_threads_is_one_picture(t *testing.T) {
	c := Case{Keys: "string"}
	var cases []Case
	for _, n := range []int{1, 2, 4} {
		c.Threads, c.Quick = n, n == 1
		cases = append(cases, c)
	}
	require.Equal(t, [][]Case{cases}, byThreads(cases))
	require.Len(t, byThreads([]Case{{Entries: 1}, {Entries: 2}, {Variant: "sized"}}), 3)
}

// one returns an index of one metric, a peer per argument.
func one(t *testing.T, values ...[]float64) (*index, Case) {
	t.Helper()
	madeUp(t)
	c := Case{Keys: "string", Entries: 10}
	r := new(Results)
	for i, v := range values {
		row := Row{Workload: "get", Case: c, Peer: headliners[i], Metric: "ns/op", Values: v}
		if v == nil {
			row.Why = "cannot: so it is"
		}
		r.Rows = append(r.Rows, row)
	}
	return newIndex(r), c
}

func barsOf(t *testing.T, values ...[]float64) *plot.Plot {
	t.Helper()
	x, c := one(t, values...)
	p, height := barChart(x, "get", Metric{Name: "ns/op"}, []Case{c})
	require.NotNil(t, p)
	require.NoError(t, savePicture(filepath.Join(t.TempDir(), "x.png"), p, height))
	return p
}

func Test_scale_is_logarithmic_beyond_fiftyfold(t *testing.T) {
	for name, test := range map[string]struct {
		values      [][]float64
		logarithmic bool
	}{
		"fifty":             {[][]float64{{1}, {50}}, false},
		"more":              {[][]float64{{1}, {51}}, true},
		"zeros count not":   {[][]float64{{0}, {50}, {1}}, false},
		"zeros beside many": {[][]float64{{0, 0, 0}, {1, 2, 3}, {2000}, nil}, true},
		"all zero":          {[][]float64{{0}, {0}}, false},
		"below zero":        {[][]float64{{-3, -2}, {4}, {500}}, true},
		"only below zero":   {[][]float64{{-3, -2}, {-4}}, false},
		"single":            {[][]float64{{7}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := barsOf(t, test.values...)
			_, logarithmic := p.X.Scale.(plot.LogScale)
			require.Equal(t, test.logarithmic, logarithmic)
			require.Less(t, p.X.Min, p.X.Max)
			require.NotEmpty(t, p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max))
			if logarithmic {
				require.Positive(t, p.X.Min)
			}
		})
	}
}

func Test_no_picture_without_figures(t *testing.T) {
	x, c := one(t, nil, nil)
	p, _ := barChart(x, "get", Metric{Name: "ns/op"}, []Case{c})
	require.Nil(t, p)
	require.Nil(t, curveChart("", []Series{{Peer: self, X: []float64{1}, Y: []float64{0}}}))
}

func Test_bars_are_sorted_best_first_with_floors_last(t *testing.T) {
	r := madeUp(t)
	p, _ := barChart(newIndex(r), "get", workloads[0].Metrics[0], []Case{madeUpCase(1), madeUpCase(2)})
	var names []string
	for _, tick := range p.Y.Tick.Marker.Ticks(0, 0) {
		names = append(names, tick.Label)
	}
	require.Equal(t, []string{self, "otter", "bigcache", "map"}, names)

	p, _ = barChart(newIndex(r), "get", workloads[0].Metrics[1], []Case{madeUpCase(1)})
	require.Equal(t, self, p.Y.Tick.Marker.Ticks(0, 0)[0].Label, "more is better")
}

func Test_ticks_are_few_and_round(t *testing.T) {
	labels := func(ticks []plot.Tick) (list []string) {
		for _, t := range ticks {
			if t.Label != "" {
				list = append(list, t.Label)
			}
		}
		return list
	}
	require.Equal(t, []string{"0", "200", "400", "600", "800"}, labels(linearTicks(0, 850)))
	require.Equal(t, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}, labels(linearTicks(0, 1)))
	require.Equal(t, []string{"-4", "-2", "0", "2", "4"}, labels(linearTicks(-4, 5)))
	require.Equal(t, []string{"0.1", "1", "10", "100", "1,000"}, labels(logTicks(0.02, 3000)))
	require.Equal(t, []string{"20", "50", "100", "200"}, labels(logTicks(11, 300)))
}
