package main

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAllowances(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		control string
		ok      bool
		want    allowance
	}{
		{"", false, allowance{}},
		{"public", false, allowance{}},
		{"max-age=60", true, allowance{fresh: 60 * s}},
		{` Public , MAX-AGE="60" `, true, allowance{fresh: 60 * s}},
		{"max-age=60, s-maxage=5", true, allowance{fresh: 5 * s}},
		{"max-age=60, max-age=70", true, allowance{fresh: 60 * s}},
		{"max-age=60, stale-while-revalidate=5, stale-if-error=7", true, allowance{60 * s, 5 * s, 7 * s}},
		{"s-maxage=60, stale-while-revalidate=5", true, allowance{60 * s, 5 * s, 0}},
		{"max-age=60, stale-if-error=7, must-revalidate", true, allowance{fresh: 60 * s}},
		{"max-age=60, stale-if-error=7, proxy-revalidate", true, allowance{fresh: 60 * s}},
		{"max-age=60, stale-if-error", true, allowance{fresh: 60 * s}},
		{"max-age=1.5", true, allowance{}},
		{"max-age=-1", true, allowance{}},
		{"max-age=", true, allowance{}},
		{"max-age=99999999999999999999999", true, allowance{fresh: math.MaxInt32 * s}},
		{"max-age=60, No-Store", false, allowance{}},
		{"max-age=60, private", false, allowance{}},
		{`max-age=60, no-cache="X-A, X-B"`, false, allowance{}},
		{`ext="private, no-store", max-age=60`, true, allowance{fresh: 60 * s}},
	} {
		got, ok := allowanceOf(http.Header{"Cache-Control": {tc.control}})
		require.Equal(t, tc.ok, ok, tc.control)
		if ok {
			require.Equal(t, tc.want, got, tc.control)
		}
	}
}

func TestDirectivesMayStandInSeveralFields(t *testing.T) {
	_, ok := allowanceOf(http.Header{"Cache-Control": {"max-age=60", "private"}})
	require.False(t, ok)
}

func TestExpiresCountsFromDateIfThereIsNoMaxAge(t *testing.T) {
	const date, later = "Thu, 01 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 2026 00:01:00 GMT"
	for _, tc := range []struct {
		date, expires string
		ok            bool
		fresh         time.Duration
	}{
		{date, later, true, time.Minute},
		{later, date, true, 0},
		{date, "0", true, 0},
		{"", later, false, 0},
		{date, "", false, 0},
	} {
		h := http.Header{"Date": {tc.date}, "Expires": {tc.expires}}
		got, ok := allowanceOf(h)
		require.Equal(t, tc.ok, ok)
		require.Equal(t, tc.fresh, got.fresh)
		h.Set("Cache-Control", "max-age=5")
		got, ok = allowanceOf(h)
		require.True(t, ok)
		require.Equal(t, 5*time.Second, got.fresh)
	}
}
