package main

import (
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// measured is a row of a trace with 1000 requests for 200 keys.
func measured(trace, cache string, percent float64, most int, hits ...int) Row {
	r := Row{Trace: trace, Requests: 1000, Distinct: 200, Percent: percent, Size: int(2 * percent), Cache: cache}
	for _, h := range hits {
		r.Runs = append(r.Runs, Run{Hits: h, Most: most})
	}
	return r
}

func unable(trace, cache string, percent float64, why string) Row {
	r := measured(trace, cache, percent, 0)
	r.Why = why
	return r
}

func expires(r Row) Row {
	r.Expires = true
	return r
}

func Test_tables_mark_the_best_cache_and_the_distance_to_it(t *testing.T) {
	var out strings.Builder
	writeTables(&out, []Row{
		measured("web", self, 1, 2, 500, 520), // of 51.0
		measured("web", "lru", 1, 2, 530),
		measured("web", "quick", 1, 9, 700, 710), // more than it may
		measured("web", "small", 1, 2, 100),
		measured("web", beladyName, 1, 0, 900),
		unable("web", boundName, 1, "not needed"),
		measured("web", self, 5, 10, 600),
		measured("web", "lru", 5, 10, 580),
		measured("web", "quick", 5, 10, 600),
		unable("web", "small", 5, "too small"),
		measured("web", beladyName, 5, 0, 950),
		unable("web", boundName, 5, "not needed"),
		expires(unable("tw", self, 1, "no clock")),
		expires(measured("tw", "lru", 1, 2, 530)),
		expires(unable("tw", "quick", 1, "no clock")),
		expires(measured("tw", beladyName, 1, 0, 600)),
		expires(measured("tw", boundName, 1, 0, 601)),
	})
	require.Equal(t, `Hits in percent of the requests. Bold is the best cache of a line. (+n): held up to n entries more
than its size, so takes no part in that.

| trace | entries | wheelcache | to the best other | lru | quick | small | belady |
|---|---|---:|---:|---:|---:|---:|---:|
| web | 1 % = 2 | 51.0 | -2.0 | **53.0** | 70.5 (+7) | 10.0 | 90.0 |
| web | 5 % = 10 | **60.0** | +0.0 | 58.0 | **60.0** | – | 95.0 |

With lifetimes, where belady is a way to use the future that may not be the best one, and bound is
what none can exceed:

| trace | entries | lru | belady | bound |
|---|---|---:|---:|---:|
| tw | 1 % = 2 | **53.0** | 60.0 | 60.1 |

Not shown:

- small: too small (web)
- wheelcache: no clock (tw)
- quick: no clock (tw)
`, out.String())
}

func Test_csv_has_every_run(t *testing.T) {
	var out strings.Builder
	require.NoError(t, writeCSV(&out, []Row{
		measured("web", "lru", 0.5, 2, 500, 521),
		unable("web", "small", 0.5, "too small"),
		measured("web", beladyName, 0.5, 0, 900),
	}))
	require.Equal(t, `trace,requests,distinct,percent,size,cache,run,hits,hit_percent,most_entries
web,1000,200,0.5,1,lru,1,500,50.000,2
web,1000,200,0.5,1,lru,2,521,52.100,2
web,1000,200,0.5,1,belady,1,900,90.000,
`, out.String())
}

func Test_pictures_show_who_kept_to_the_size(t *testing.T) {
	rows := []Row{
		measured("web", "lru", 5, 10, 580), measured("web", "quick", 5, 11, 600), measured("web", beladyName, 5, 0, 950),
		measured("web", "lru", 1, 2, 530), measured("web", "quick", 1, 2, 540), measured("web", beladyName, 1, 0, 900),
		expires(measured("tw", "quick", 1, 2, 530)),
	}
	list := panels(rows)
	require.Len(t, list, 3)
	var titles []string
	for _, p := range list {
		titles = append(titles, p.title)
	}
	require.Equal(t, []string{"web", "web, more than LRU", "tw"}, titles)
	hits, more := list[0].points, list[1].points
	require.Len(t, hits["lru"], 2)
	require.Equal(t, 1.0, hits["lru"][0].X, "sizes in order")
	require.Len(t, hits["quick"], 1)
	require.Len(t, hits[beladyName], 2)
	require.InDelta(t, 1.0, more["quick"][0].Y, 1e-9)
	require.NotContains(t, more, beladyName)

	path := filepath.Join(t.TempDir(), "x.png")
	require.NoError(t, drawPicture(path, rows))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	config, err := png.DecodeConfig(f)
	require.NoError(t, err)
	require.Equal(t, pictureWidth, config.Width)
	require.Greater(t, config.Height, 2*panelHeight)

	require.ErrorContains(t, drawPicture(path, nil), "nothing to draw")
}

func Test_ticks_of_percents_are_few_and_round(t *testing.T) {
	for _, test := range []struct {
		from, to float64
		want     string
	}{{0, 100, "0 20 40 60 80 100"}, {31, 58, "35 40 45 50 55"}, {-3.5, 1.5, "-3 -2 -1 0 1"}, {7.6, 8.2, "8"}} {
		var labels []string
		for _, tick := range percentTicks(test.from, test.to) {
			labels = append(labels, tick.Label)
		}
		require.Equal(t, test.want, strings.Join(labels, " "))
	}
}
