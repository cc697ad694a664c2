package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func silent(int, int, string) {}

func Test_traces_from_files_and_made_ones_go_into_table_file_and_picture(t *testing.T) {
	trace := file(t, "my.trc", strings.Repeat("1\n2\n3\n1\n", 50))
	dir := t.TempDir()
	table, picture := filepath.Join(dir, "hits.csv"), filepath.Join(dir, "hits.png")
	var out strings.Builder
	var steps, last, of int
	require.NoError(t, run([]string{
		"-trace", "zipf-0.9,twitter-7", "-cache", "lru,otter*,belady,bound", "-size", "10,50", "-limit", "2000", "-runs", "2",
		"-csv", table, "-plot", picture, trace,
	}, &out, func(done, all int, what string) {
		if what == "my" {
			steps, last, of = steps+1, done, all
		}
	}))
	require.Equal(t, 2*(1+2+2+1), of, "one run where they are all the same")
	require.Equal(t, of, last)
	require.Equal(t, of, steps)
	require.Contains(t, out.String(), "| my | 10 % = 1 | ")
	require.Contains(t, out.String(), "| my | 50 % = 1 | ")
	require.Contains(t, out.String(), "| zipf-0.9 | 50 % = ")
	require.Contains(t, out.String(), "| twitter-7 | 10 % = ")
	require.Contains(t, out.String(), "- otter-async: lifetimes would pass in real time (twitter-7)\n")
	data, err := os.ReadFile(table)
	require.NoError(t, err)
	require.Equal(t, 1+2*(6+6+5), strings.Count(string(data), "\n"))
	// With one entry, LRU has the 1 that ends a round when the next round begins.
	require.Contains(t, string(data), "\nmy,200,3,10,1,lru,1,49,24.500,1\n")
	_, err = os.Stat(picture)
	require.NoError(t, err)
}

func Test_seeds_make_other_traces(t *testing.T) {
	with := func(seed string) string {
		var out strings.Builder
		require.NoError(t, run([]string{"-trace", "mix", "-cache", "lru", "-limit", "5000", "-seed", seed}, &out, silent))
		return out.String()
	}
	first := with("1")
	require.Equal(t, first, with("1"))
	require.NotEqual(t, first, with("2"))
}

func Test_what_cannot_be_done_is_said_before_anything_is(t *testing.T) {
	good := file(t, "good.trc", "1\n")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such flag":   {[]string{"-colour"}, "flag provided but not defined: -colour; see -h"},
		"no such cache":  {[]string{"-cache", "nobody"}, `no cache matches "nobody"; see -list`},
		"no such trace":  {[]string{"-trace", "nothing"}, `no trace matches "nothing"; see -list`},
		"size":           {[]string{"-size", "1,x"}, `-size "x": must be more than 0 and at most 100`},
		"size of zero":   {[]string{"-size", "0"}, `-size "0"`},
		"no number":      {[]string{"-size", "NaN"}, `-size "NaN"`},
		"all and more":   {[]string{"-size", "101"}, `-size "101"`},
		"twice":          {[]string{"-size", "1,1.0"}, "-size: 1 is there twice"},
		"runs":           {[]string{"-runs", "0"}, "-runs 0: must be 1 or more"},
		"limit":          {[]string{"-limit", "-1"}, "-limit -1: must be 0 or more"},
		"format":         {[]string{"-format", "xml", good}, "-format xml: no such format"},
		"unknown format": {[]string{good, "bad.dat"}, "bad.dat: what format is that?"},
		"no such file":   {[]string{"-cache", "lru", "absent.trc"}, "absent.trc"},
		"no place":       {[]string{"-cache", "lru", "-csv", filepath.Join(good, "x"), good}, "good.trc"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(test.args, &strings.Builder{}, silent)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func Test_help_names_the_flags(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"-h"}, &out, silent))
	require.Contains(t, out.String(), "-limit int")
}

func Test_the_list_has_all_that_flags_can_name(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"-list"}, &out, silent))
	for _, s := range synthetics {
		require.Contains(t, out.String(), "\n  "+s.name+" ")
	}
	for _, p := range peers {
		require.Contains(t, out.String(), "\n  "+p.Name+" ")
	}
	for _, f := range formats {
		require.Contains(t, out.String(), "\n  "+f.name+" ")
	}
	for _, name := range optima {
		require.Contains(t, out.String(), "\n  "+name+" ")
	}
}
