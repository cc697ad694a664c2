package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func zipped(t *testing.T, data string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(data))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func file(t *testing.T, name, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(data), 0o644))
	return path
}

// requested returns the keys of a trace in the order of requests.
func requested(trace *Trace) (keys []uint64) {
	for _, number := range trace.Requests {
		keys = append(keys, trace.Keys[number])
	}
	return keys
}

func Test_traces_are_read_in_all_formats(t *testing.T) {
	uint32s := "\x00\x00\x00\x07\xff\xff\xff\xff\x00\x00\x00\x07"
	for name, test := range map[string]struct {
		file, data string
		format     string
		limit      int
		want       []uint64
	}{
		"uint32s":              {"x.u32be", uint32s, "auto", 0, []uint64{7, 1<<32 - 1, 7}},
		"zipped":               {"x.u32be.gz", zipped(t, uint32s), "auto", 0, []uint64{7, 1<<32 - 1, 7}},
		"zipped without a say": {"x.u32be", zipped(t, uint32s), "auto", 0, []uint64{7, 1<<32 - 1, 7}},
		"named otherwise":      {"x.dat", uint32s, "u32be", 0, []uint64{7, 1<<32 - 1, 7}},
		"no more than wanted":  {"x.u32be", uint32s + "\x00", "auto", 2, []uint64{7, 1<<32 - 1}},
		"arc":                  {"P1.lis", "5 3 0 0\n4 2 0 1\n", "auto", 0, []uint64{5, 6, 7, 4, 5}},
		"arc, zipped":          {"P1.lis.gz", zipped(t, "5 1 0 0\n"), "auto", 0, []uint64{5}},
		"arc of nothing":       {"P1.arc", "5 0 0 0\n 6  1 9 1 \r\n\n", "auto", 0, []uint64{6}},
		"arc, cut in a line":   {"P1.LIS", "5 30 0 0\n4 2 0 1\n", "auto", 2, []uint64{5, 6}},
		"arc in a file of lirs": {"x.trc", "1 2 0 0\n", "arc", 0,
			[]uint64{1, 2}},
		"lirs":          {"2_pools.trc", "1\n*\n22\n 1 \n\n18446744073709551615\n", "auto", 0, []uint64{1, 22, 1, 1<<64 - 1}},
		"lirs, limited": {"x.lirs", "1\n2\nnonsense\n", "auto", 2, []uint64{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := readTrace(file(t, test.file, test.data), test.format, test.limit)
			require.NoError(t, err)
			require.Equal(t, test.want, requested(trace))
			require.False(t, trace.Expires())
		})
	}
}

func Test_bad_traces_are_refused_with_file_and_place(t *testing.T) {
	for name, test := range map[string]struct {
		file, data string
		want       string
	}{
		"cut off in a key":      {"x.u32be", "\x00\x00\x00\x07\x00", "after 1 keys: unexpected EOF"},
		"cut off in the gzip":   {"x.u32be.gz", zipped(t, strings.Repeat("abcd", 5000))[:30], "keys: unexpected EOF"},
		"not zipped at all":     {"x.u32be.gz", strings.Repeat("\x00\x00\x00\x07", 5), "gzip: invalid header"},
		"checksum":              {"x.u32be.gz", zipped(t, "abcd")[:24] + "\x00\x00\x00\x00\x00\x00\x00\x00", "after 1 keys: gzip: invalid checksum"},
		"no keys":               {"x.u32be", "", "no requests"},
		"nothing left of it":    {"x.trc", "*\n\n", "no requests"},
		"lirs: words":           {"x.trc", "1\nabc\n", `line 2: "abc" is no block number`},
		"lirs: negative":        {"x.trc", "-1\n", `line 1: "-1" is no block number`},
		"lirs: too large":       {"x.trc", "18446744073709551616\n", `line 1: "18446744073709551616" is no block number`},
		"lirs: no lines":        {"x.trc", "1\n" + strings.Repeat("\xff", 100_000), "line 2: bufio.Scanner: token too long"},
		"arc: too few":          {"x.lis", "1 1 0 0\n1 2 3\n", `line 2: "1 2 3" has 3 numbers, not 4`},
		"arc: too many":         {"x.lis", "1 2 3 4 5\n", `has 5 numbers, not 4`},
		"arc: words":            {"x.lis", "1 two 0 0\n", `line 1: "two" is no block number`},
		"arc: implausible":      {"x.lis", "1 1048577 0 0\n", `line 1: "1 1048577 0 0" asks for 1048577 blocks`},
		"arc: beyond the disk":  {"x.lis", "18446744073709551615 1 0 0\n", "asks for 1 blocks"},
		"arc: long nonsense":    {"x.lis", strings.Repeat("x", 1000), `"` + strings.Repeat("x", 40) + `..." has 1 numbers`},
		"format not to be told": {"x.dat", "1\n", "what format is that? its name ends in none of .u32be, .lis"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, test.file, test.data)
			_, err := readTrace(path, "auto", 0)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, filepath.Base(path[:len(path)-len(filepath.Ext(path))]))
		})
	}
	_, err := readTrace(filepath.Join(t.TempDir(), "absent.trc"), "auto", 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = readTrace(file(t, "x.trc", "1\n"), "lrs", 0)
	require.EqualError(t, err, "-format lrs: no such format")
}

func Test_keys_are_numbered_by_their_first_request(t *testing.T) {
	trace, err := readTrace(file(t, "some.trace.trc", "9\n3\n9\n5\n3\n"), "auto", 0)
	require.NoError(t, err)
	require.Equal(t, &Trace{
		Name: "some.trace", Requests: []uint32{0, 1, 0, 2, 1}, Keys: []uint64{9, 3, 5},
	}, trace)
}

func Test_sizes_are_rounded_down_to_at_least_one(t *testing.T) {
	of := func(distinct int, percent float64) int {
		return (&Trace{Keys: make([]uint64, distinct)}).Size(percent)
	}
	require.Equal(t, 137, of(13756, 1))
	require.Equal(t, 1, of(999, 0.1))
	require.Equal(t, 1, of(1, 25))
	for _, percent := range []float64{0.1, 0.3, 0.7, 1.1, 33, 100} {
		require.Equal(t, int(percent*10), of(1000, percent), "%v %% of a thousand", percent)
	}
}
