package trace_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/examples/replay/trace"
)

var defaults = trace.Defaults{Rate: 4, TTL: time.Minute}

func TestKeys(t *testing.T) {
	for name, text := range map[string]string{
		"unix":        "a\nb,c\na\n",
		"no last end": "a\nb,c\na",
		"dos":         "a\r\nb,c\r\na\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collect(strs(t, write(t, "keys.txt", text)))
			require.NoError(t, err)
			require.Equal(t, []trace.Request[string]{
				{At: 0, Key: "a", TTL: time.Minute},
				{At: 250 * time.Millisecond, Key: "b,c", TTL: time.Minute},
				{At: 500 * time.Millisecond, Key: "a", TTL: time.Minute},
			}, got)
		})
	}
}

func TestStamped(t *testing.T) {
	got, err := collect(strs(t, write(t, "stamped.csv.gz", zip(t,
		"1585706400.000000001,a\n"+
			"1585706400.000000001,b,2.5\n"+
			"1585706430,c,1m30s\n"+
			"1585706430.5,d,0\n"))))
	require.NoError(t, err)
	const start = time.Nanosecond
	require.Equal(t, []trace.Request[string]{
		{At: 0, Key: "a", TTL: time.Minute},
		{At: 0, Key: "b", TTL: 2500 * time.Millisecond},
		{At: 30*time.Second - start, Key: "c", TTL: 90 * time.Second},
		{At: 30*time.Second + 500*time.Millisecond - start, Key: "d", TTL: 0},
	}, got)
}

func TestUint32s(t *testing.T) {
	data := string(words(7, 1<<31, 7))
	want := []trace.Request[uint32]{
		{At: 0, Key: 7, TTL: time.Minute},
		{At: 250 * time.Millisecond, Key: 1 << 31, TTL: time.Minute},
		{At: 500 * time.Millisecond, Key: 7, TTL: time.Minute},
	}
	for _, path := range []string{write(t, "keys.u32be", data), write(t, "keys.u32be.gz", zip(t, data))} {
		got, err := collect(uint32s(t, path))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestFirstLineDecidesTheFormat(t *testing.T) {
	for text, want := range map[string]trace.Format{
		"":                  trace.Keys,
		"1":                 trace.Keys,
		"1\n2,a":            trace.Keys,
		"timestamp,key\n1,": trace.Keys,
		",a":                trace.Keys,
		"1,a":               trace.Stamped,
		"-1.5,a":            trace.Stamped,
		"1585706400.25,":    trace.Stamped,
	} {
		require.Equal(t, want, open(t, write(t, "trace", text)).Format(), "%q", text)
	}
}

func TestAnEmptyTraceHasNoRequests(t *testing.T) {
	got, err := collect(strs(t, write(t, "empty", "")))
	require.NoError(t, err)
	require.Empty(t, got)
	keys, err := collect(uint32s(t, write(t, "empty.u32be.gz", zip(t, ""))))
	require.NoError(t, err)
	require.Empty(t, keys)
}

func TestRangingMayStopEarly(t *testing.T) {
	for req, err := range strs(t, write(t, "bad", "a\n\n")) {
		require.NoError(t, err)
		require.Equal(t, "a", req.Key)
		break
	}
}

func TestArrivalSaturates(t *testing.T) {
	d := trace.Defaults{Rate: 1e-300}
	require.Zero(t, d.Arrival(0))
	require.Equal(t, time.Duration(1<<62), d.Arrival(1))
	require.Equal(t, d.Arrival(1), d.Arrival(2))
}

func TestOpenErrors(t *testing.T) {
	_, err := trace.Open(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), "missing"), err)

	for name, data := range map[string]string{
		"text.gz":  "plain text, and more of it than a header has bytes",
		"short.gz": "\x1f\x8b",
		"empty.gz": "",
	} {
		path := write(t, name, data)
		_, err := trace.Open(path)
		require.EqualError(t, err, path+": not gzip data, which a name ending in .gz promises")
	}
}

func TestLineErrors(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	tests := []struct {
		name, text string
		good       int // requests before the error
		want       string
	}{
		{"empty key", "a\n\nb\n", 1, "line 2: empty key; want one key on every line"},
		{"blank last line", "a\n\n", 1, "line 2: empty key; want one key on every line"},
		{"longest line", long + "\n" + long, 2, ""},
		{"overlong line", "a\n" + long + "x\n", 1, "line 2: longer than the 65536 bytes that are allowed"},
		{"zero byte", "a\n\x00\n", 1, "line 2: has a zero byte; want text, or a name ending in .u32be or .u32be.gz for binary keys"},
		{"stamped empty key", "1,\n", 0, "line 1: empty key; want timestamp,key or timestamp,key,ttl"},
		{"too few fields", "1,a\nb\n", 1, "line 2: 0 commas; want timestamp,key or timestamp,key,ttl"},
		{"too many fields", "1,a\n1,b,2,c\n", 1, "line 2: 3 commas; want timestamp,key or timestamp,key,ttl"},
		{"timestamp of letters", "1,a\n1h2,b\n", 1, `line 2: timestamp "1h2"; want seconds from 0 to 9223372036, such as 12 or 12.5`},
		{"no timestamp", "1,a\n,b\n", 1, `line 2: timestamp ""; want seconds from 0 to 9223372036, such as 12 or 12.5`},
		{"negative timestamp", "-1,a\n", 0, `line 1: timestamp "-1"; want seconds from 0 to 9223372036, such as 12 or 12.5`},
		{"milliseconds", "1585706400000,a\n", 0, `line 1: timestamp "1585706400000"; want seconds from 0 to 9223372036, such as 12 or 12.5`},
		{"backwards", "5,a\n7,b\n6.5,c\n", 2, "line 3: timestamp 6.5 is 500ms before that of the line above; want them in order"},
		{"negative ttl", "1,a,-2\n", 0, `line 1: ttl "-2"; want seconds from 0 to 9223372036 or a duration such as 1m30s, 0 for an entry that does not expire`},
		{"negative duration", "1,a,-2s\n", 0, `line 1: ttl "-2s"; want seconds from 0 to 9223372036 or a duration such as 1m30s, 0 for an entry that does not expire`},
		{"empty ttl", "1,a,\n", 0, `line 1: ttl ""; want seconds from 0 to 9223372036 or a duration such as 1m30s, 0 for an entry that does not expire`},
		{"huge ttl", "1,a,9223372037\n", 0, `line 1: ttl "9223372037"; want seconds from 0 to 9223372036 or a duration such as 1m30s, 0 for an entry that does not expire`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, "trace", tt.text)
			got, err := collect(strs(t, path))
			require.Len(t, got, tt.good)
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, path+": "+tt.want)
			}
		})
	}
}

func TestTruncatedGzip(t *testing.T) {
	lines := strings.Repeat("a line of sixteen\n", 1000)
	path := write(t, "cut.gz", cut(zip(t, lines)))
	_, err := collect(strs(t, path))
	require.ErrorContains(t, err, path+": line ")
	require.ErrorContains(t, err, "the gzip data is cut short")

	path = write(t, "cut.u32be.gz", cut(zip(t, lines)))
	_, err = collect(uint32s(t, path))
	require.ErrorContains(t, err, path+": key ")
	require.ErrorContains(t, err, "the gzip data is cut short")
}

func TestBrokenGzip(t *testing.T) {
	data := []byte(zip(t, "a\nb\n"))
	data[len(data)-5] ^= 1 // in the checksum
	_, err := collect(strs(t, write(t, "broken.gz", string(data))))
	require.ErrorIs(t, err, gzip.ErrChecksum)
}

func TestHalfAKey(t *testing.T) {
	data := string(words(1, 2)) + "\x00\x01"
	for _, path := range []string{write(t, "half.u32be", data), write(t, "half.u32be.gz", zip(t, data))} {
		got, err := collect(uint32s(t, path))
		require.Len(t, got, 2)
		require.EqualError(t, err, path+": key 3: 2 bytes where 4 make a key; the length must be a multiple of 4")
	}
}

func TestADirectoryIsNoTrace(t *testing.T) {
	dir := t.TempDir()
	_, err := collect(strs(t, dir))
	require.EqualError(t, err, dir+": line 1: is a directory")
}

func TestMadeUpRepeats(t *testing.T) {
	first, err := collect(trace.MadeUp(5000, 1, defaults))
	require.NoError(t, err)
	again, _ := collect(trace.MadeUp(5000, 1, defaults))
	other, _ := collect(trace.MadeUp(5000, 2, defaults))
	require.Len(t, first, 5000)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	require.Equal(t, defaults.Arrival(4999), first[4999].At)
}

func collect[K comparable](seq iter.Seq2[trace.Request[K], error]) (reqs []trace.Request[K], err error) {
	for req, err := range seq {
		if err != nil {
			return reqs, err
		}
		reqs = append(reqs, req)
	}
	return reqs, nil
}

func strs(t *testing.T, path string) iter.Seq2[trace.Request[string], error] {
	t.Helper()
	return open(t, path).Strings(defaults)
}

func uint32s(t *testing.T, path string) iter.Seq2[trace.Request[uint32], error] {
	t.Helper()
	return open(t, path).Uint32s(defaults)
}

func open(t *testing.T, path string) *trace.File {
	t.Helper()
	f, err := trace.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t *testing.T, name, data string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
	return path
}

func zip(t *testing.T, data string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(data))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func cut(data string) string { return data[:len(data)/2] }

func words(keys ...uint32) (b []byte) {
	for _, k := range keys {
		b = binary.BigEndian.AppendUint32(b, k)
	}
	return b
}
