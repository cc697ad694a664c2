package main

import (
	"bytes"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The peak without jitter is what it is at the start. That with JitterBy is the same
// in every run. That with Jitter depends on what is drawn: it is some 40 times lower,
// or 30 with one key, and 20 is seven standard deviations from that.
func Test_jitter_lowers_the_peak_at_the_origin_to_a_twentieth(t *testing.T) {
	f := fleet{replicas: 800, keys: 4, ttl: 5 * time.Minute, fraction: 0.2, duration: 11 * time.Minute}
	if testing.Short() {
		f.keys, f.duration = 1, 6*time.Minute
	}
	atOnce := f.replicas * f.keys
	results := map[string]result{}
	for _, s := range strategies {
		loads, err := f.run(s)
		require.NoError(t, err)
		results[s.name] = newResult(s.name, loads)
		require.Equal(t, atOnce, loads[0], "%s: the caches are empty", s.name)
	}
	for second, n := range results["AfterWrite"].loads {
		if second%300 == 0 {
			require.Equal(t, atOnce, n)
		} else {
			require.Zero(t, n)
		}
	}
	require.GreaterOrEqual(t, results["Jitter"].lowerThan(results["AfterWrite"]), 20.0)
	require.GreaterOrEqual(t, results["JitterBy"].lowerThan(results["AfterWrite"]), 20.0)
	require.Equal(t, 23*f.keys, slices.Max(results["JitterBy"].loads[1:360]), "of so many members, the entries expire in the same second")
}

func Test_entry_is_loaded_again_at_its_deadline_and_not_before(t *testing.T) {
	f := fleet{replicas: 2, keys: 3, ttl: 10 * time.Second, fraction: 0.1, duration: 25 * time.Second}
	loads, err := f.run(strategies[0])
	require.NoError(t, err)
	want := make([]int, 25)
	want[0], want[10], want[20] = 6, 6, 6
	require.Equal(t, want, loads)

	loads, err = f.run(strategies[1])
	require.NoError(t, err)
	require.Equal(t, make([]int, 8), loads[1:9], "a tenth of ten seconds is one")
	require.Equal(t, 6, loads[9]+loads[10])
}

func Test_report_and_picture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.png")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-replicas", "5", "-keys", "40", "-ttl", "1m", "-duration", "4m", "-fraction", "0.5", "-out", path}, &stdout, &stderr), stderr.String())
	require.Empty(t, stderr.String())
	lines := strings.Split(stdout.String(), "\n")
	require.Equal(t, "Loads per second at the origin: 5 replicas started at once, 40 hot keys, lifetime 1m, 4m simulated", lines[0])
	require.Equal(t, []string{"AfterWrite", "200", "200", "2.5", "1.0x"}, strings.Fields(lines[3]))
	require.Equal(t, []string{"JitterBy,", "fraction", "0.5", "200", "40", "3.7", "5.0x"}, strings.Fields(lines[5]))

	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	picture, err := png.Decode(file)
	require.NoError(t, err)
	require.Equal(t, pictureWidth, picture.Bounds().Dx())
	require.Equal(t, pictureHeight, picture.Bounds().Dy())
}

func Test_simulation_that_ends_before_anything_expires(t *testing.T) {
	var stdout bytes.Buffer
	require.Zero(t, run([]string{"-replicas", "1", "-duration", "2s", "-out", filepath.Join(t.TempDir(), "a.png")}, &stdout, io.Discard))
	require.Equal(t, []string{"AfterWrite", "10", "0", "0.0", "-"}, strings.Fields(strings.Split(stdout.String(), "\n")[3]))
}

func Test_errors_are_one_line(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "fleet.png")
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"-replicas", "0"}, 2, "-replicas is 0; it must be at least 1"},
		{[]string{"-keys", "-1"}, 2, "-keys is -1; it must be at least 1"},
		{[]string{"-duration", "1s"}, 2, "-duration is 1s; it must be whole seconds, and at least 2s"},
		{[]string{"-duration", "2500ms"}, 2, "-duration is 2.5s; it must be whole seconds, and at least 2s"},
		{[]string{"-ttl", "soon"}, 2, `invalid value "soon" for flag -ttl: parse error`},
		{[]string{"more"}, 2, `unexpected argument "more"; only flags are allowed`},
		{[]string{"-ttl", "0"}, 1, "wheelcache: Options.Expiry: expiry.AfterWrite: the lifetime is 0s; it must be more than 0, or expiry.Never"},
		{[]string{"-replicas", "1", "-duration", "2s", "-fraction", "1"}, 1, "wheelcache: Options.Expiry: expiry.Jitter: the fraction is 1; it must be more than 0 and less than 1"},
		{[]string{"-replicas", "1", "-duration", "2s", "-out", missing}, 1, "open " + missing + ": no such file or directory"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, c.exit, run(c.args, io.Discard, &stderr), c.args)
		require.Equal(t, "fleet: "+c.want+"\n", stderr.String())
	}
}

func Test_help_goes_to_stdout(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-h"}, &stdout, &stderr))
	require.Empty(t, stderr.String())
	for _, flag := range []string{"-replicas", "-keys", "-ttl", "-fraction", "-duration", "-out"} {
		require.Contains(t, stdout.String(), flag)
	}
}

func Test_numbers_and_durations_are_short(t *testing.T) {
	for n, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		require.Equal(t, want, grouped(n))
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 20*time.Hour + 30*time.Minute: "20h30m", time.Hour + time.Second: "1h0m1s"} {
		require.Equal(t, want, short(d))
	}
}
