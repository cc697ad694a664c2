package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/examples/replay/trace"
)

func TestReport(t *testing.T) {
	path := write(t, "log.csv", ""+
		"100,a\n"+ //             miss
		"101,a\n"+ //             hit
		"102,b,2\n"+ //           miss
		"103,b\n"+ //             hit
		"104,b\n"+ //             miss: this is its deadline
		"109.999999999,a\n"+ //   hit in its last nanosecond
		"110,a\n"+ //             miss
		"114.5,c\n"+ //           miss; b is gone
		"115,d,0\n"+ //           miss; the fourth never goes
		"115,b,1m\n"+ //          miss; now there are four
		"160,c\n") //             miss; a and c are gone
	require.Equal(t, strings.ReplaceAll(`
trace           PATH: lines with timestamps
ttl             10s from Set
requests        11
hits            3
misses          8
hit ratio       27.27 %
expirations     5
other removals  0 evicted, 0 deleted, 0 replaced, 0 cleared
peak entries    4
final entries   3
virtual time    1m0s
real time       REAL
per operation   REAL ns, trace and clock included
`[1:], "PATH", path), report(t, "-ttl", "10s", path))
}

func TestEachFileIsATraceOfItsOwn(t *testing.T) {
	keys := write(t, "keys.txt.gz", zip(t, "a\nb\na\na\na\n"))
	ints := write(t, "keys.u32be.gz", zip(t, words(1, 2, 1, 1, 1)))
	out := report(t, "-rate", "0.5", "-ttl", "4s", keys, ints)
	first, second, _ := strings.Cut(out, "\n\n")

	require.Contains(t, first, "trace           "+keys+": a key per line, 0.5 requests/s\n")
	require.Contains(t, second, "trace           "+ints+": 32-bit keys, 0.5 requests/s\n")
	for _, r := range []string{first, second} {
		// At 0, 2, 4, 6, 8 s; a expires at 4 and 8 s, b at 6 s.
		requireRows(t, r, "hits 1", "misses 4", "expirations 3", "peak entries 2", "final entries 1", "virtual time 8s")
	}
}

func TestSliding(t *testing.T) {
	path := write(t, "log.csv", "0,a\n9,a\n18,a\n28,a\n28,b,1\n28.9,b\n29.8,b\n30.8,b\n")
	requireRows(t, report(t, "-ttl", "10s", path), "ttl 10s from Set", "hits 3", "misses 5", "expirations 3")
	requireRows(t, report(t, "-ttl", "10s", "-sliding", path), "ttl 10s from the last access", "hits 4", "misses 4", "expirations 2")
}

func TestWithoutTTLNothingExpires(t *testing.T) {
	path := write(t, "log.csv", "0,a\n9000000000,a\n")
	requireRows(t, report(t, "-ttl", "0", path), "ttl none", "hits 1", "misses 1", "expirations 0", "final entries 1")
}

func TestLimit(t *testing.T) {
	path := write(t, "keys", "a\nb\na\n\n")
	requireRows(t, report(t, "-limit", "3", path), "requests 3", "hits 1", "misses 2")
}

func TestAnEmptyTraceHasNoRatio(t *testing.T) {
	requireRows(t, report(t, write(t, "empty", "")), "requests 0", "hit ratio -", "per operation -")
}

func TestWithoutFileATraceIsMadeUp(t *testing.T) {
	out := report(t, "-limit", "50000", "-ttl", "1s", "-tick", "100ms", "-shards", "2")
	require.Contains(t, out, "made up, no FILE given")
	require.Equal(t, out, report(t, "-limit", "50000", "-ttl", "1s", "-tick", "100ms", "-shards", "2"), "a replay repeats")
}

// TestAgainstAModel compares a replay with a map of deadlines.
func TestAgainstAModel(t *testing.T) {
	const requests = 20_001 // the last one comes at the end of a tick
	for _, sliding := range []bool{false, true} {
		cfg := config{Defaults: trace.Defaults{Rate: 1000, TTL: 700 * time.Millisecond}, sliding: sliding, tick: 50 * time.Millisecond}
		var hits, misses, expired int
		deadlines := map[uint32]time.Duration{}
		var now time.Duration
		for req := range trace.MadeUp(requests, 7, cfg.Defaults) {
			now = req.At
			deadline, ok := deadlines[req.Key]
			switch {
			case !ok:
				misses++
				deadlines[req.Key] = now + cfg.TTL
			case now >= deadline:
				misses++
				expired++
				deadlines[req.Key] = now + cfg.TTL
			default:
				hits++
				if sliding {
					deadlines[req.Key] = now + cfg.TTL
				}
			}
		}
		entries := len(deadlines)
		for _, deadline := range deadlines {
			if now >= deadline {
				expired++
				entries--
			}
		}

		res, err := replay(trace.MadeUp(requests, 7, cfg.Defaults), cfg, nil)
		require.NoError(t, err)
		require.Equal(t, hits, res.hits)
		require.Equal(t, misses, res.misses)
		require.EqualValues(t, expired, res.stats.Expired)
		require.Equal(t, entries, res.stats.Entries)
		require.GreaterOrEqual(t, res.peak, entries)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.gz")
	notGzip := write(t, "plain.gz", "one key per line\n")
	truncated := write(t, "cut.gz", zip(t, "a\nb\n")[:10])
	half := write(t, "half.u32be.gz", zip(t, words(1, 2)+"\x00"))
	empty := write(t, "empty-key", "a\n\n")
	stamp := write(t, "stamp", "1,a\nx,b\n")
	back := write(t, "back", "2,a\n1,b\n")
	ttl := write(t, "ttl", "2,a,-1s\n")
	long := write(t, "long", strings.Repeat("x", 1<<20))

	tests := []struct {
		args []string
		exit int
		want string
	}{
		{[]string{missing}, 1, missing + ": no such file or directory"},
		{[]string{notGzip}, 1, notGzip + ": not gzip data, which a name ending in .gz promises"},
		{[]string{truncated}, 1, truncated + ": line 1: the gzip data is cut short"},
		{[]string{half}, 1, half + ": key 3: 1 bytes where 4 make a key; the length must be a multiple of 4"},
		{[]string{empty}, 1, empty + ": line 2: empty key; want one key on every line"},
		{[]string{stamp}, 1, stamp + `: line 2: timestamp "x"; want seconds from 0 to 9223372036, such as 12 or 12.5`},
		{[]string{back}, 1, back + ": line 2: timestamp 1 is 1s before that of the line above; want them in order"},
		{[]string{ttl}, 1, ttl + `: line 1: ttl "-1s"; want seconds from 0 to 9223372036 or a duration such as 1m30s, 0 for an entry that does not expire`},
		{[]string{long}, 1, long + ": line 1: longer than the 65536 bytes that are allowed"},
		{[]string{"-rate", "0"}, 2, "-rate is 0; it must be a number of requests per second above 0"},
		{[]string{"-rate", "-5"}, 2, "-rate is -5; it must be a number of requests per second above 0"},
		{[]string{"-rate", "NaN"}, 2, "-rate is NaN; it must be a number of requests per second above 0"},
		{[]string{"-rate", "Inf"}, 2, "-rate is +Inf; it must be a number of requests per second above 0"},
		{[]string{"-ttl", "-1s"}, 2, "-ttl is -1s; it must not be negative, and 0 is for entries that do not expire"},
		{[]string{"-tick", "0"}, 2, "-tick is 0s; it must be more than 0"},
		{[]string{"-shards", "-1"}, 2, "-shards is -1; it must not be negative, and 0 is for the default"},
		{[]string{"-limit", "-1"}, 2, "-limit is -1; it must not be negative, and 0 is for all requests"},
		{[]string{"-ttl", "soon"}, 2, `invalid value "soon" for flag -ttl: parse error`},
		{[]string{"-unheard"}, 2, "flag provided but not defined: -unheard"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.exit, run(tt.args, &stdout, &stderr), tt.args)
		require.Equal(t, "replay: "+tt.want+"\n", stderr.String())
		require.Empty(t, stdout.String())
	}
}

func TestOptionsThatTheCacheRefuses(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-tick", "1ns"}, io.Discard, &stderr))
	require.Regexp(t, `^replay: wheelcache: .*Tick.*\n$`, stderr.String())
}

func TestHelpGoesToStdout(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-h"}, &stdout, &stderr))
	require.Empty(t, stderr.String())
	for _, want := range []string{"usage: replay", "timestamp,key,ttl", "-ttl duration", "-sliding", "-rate float"} {
		require.Contains(t, stdout.String(), want)
	}
}

func TestAReportThatCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-limit", "1"}, brokenPipe{}, &stderr))
	require.Equal(t, "replay: broken pipe\n", stderr.String())
}

func TestProgressIsForTerminals(t *testing.T) {
	require.Nil(t, newProgress(new(bytes.Buffer)))
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer file.Close()
	require.Nil(t, newProgress(file))
}

func TestProgressComesAtMostTenTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &progress{w: &b}
		p.clear()
		require.Empty(t, b.String(), "nothing to clear")
		for range 1000 {
			p.show(&result{requests: 2048, hits: 1024, virtual: 1500 * time.Millisecond})
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, strings.Repeat("\r2048 requests, 50.00 % hits, 1s of virtual time\x1b[K", 10), b.String())
		b.Reset()
		p.clear()
		p.clear()
		require.Equal(t, "\r\x1b[K", b.String())
	})
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

var realTimes = regexp.MustCompile(`(?m)^(real time +|per operation +)[0-9]\S*`)

// report returns what run prints, with REAL in place of the real times.
func report(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(args, &stdout, &stderr), stderr.String())
	require.Empty(t, stderr.String())
	return realTimes.ReplaceAllString(stdout.String(), "${1}REAL")
}

// requireRows looks for rows whose columns are separated by one space.
func requireRows(t *testing.T, report string, rows ...string) {
	t.Helper()
	lines := strings.Split(regexp.MustCompile(` +`).ReplaceAllString(report, " "), "\n")
	for _, row := range rows {
		require.Contains(t, lines, row)
	}
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
	_, err := io.WriteString(w, data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func words(keys ...uint32) string {
	var b []byte
	for _, k := range keys {
		b = binary.BigEndian.AppendUint32(b, k)
	}
	return string(b)
}
