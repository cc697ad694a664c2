package main

import (
	"slices"
	"time"
)

// Results are all that a run found out: what the report, the CSV file and the
// pictures are made from.
type Results struct {
	When       time.Time
	Command    string // to run it again
	Unfinished string // what is missing of what it asks for: "interrupted after 7 of 12 repetitions"
	Machine    string // "AMD EPYC, 2 CPUs, 23 GiB, linux/amd64"
	GoVersion  string
	Versions   map[string]string // of each peer's module, by the peer's name
	Rows       []Row
	Series     []Series
}

// asked returns the command, and how much of it was not done.
func (r *Results) asked() string {
	if r.Unfinished != "" {
		return "`" + r.Command + "`, " + r.Unfinished
	}
	return "`" + r.Command + "`"
}

// A Row is what was measured of one peer in one case by one metric.
type Row struct {
	Workload string
	Case     Case
	Peer     string
	Metric   string
	Values   []float64 // one per repetition; none if the peer could not
	Why      string    // then why not: "cannot: one TTL for all entries", "failed: ..."
}

// Median, and Min and Max, are of the repetitions. The row must have values.
func (r Row) Median() float64 {
	v := slices.Sorted(slices.Values(r.Values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func (r Row) Min() float64 { return slices.Min(r.Values) }
func (r Row) Max() float64 { return slices.Max(r.Values) }

// A Series is a course in time, such as of latencies through a storm: a curve of
// a picture.
type Series struct {
	Workload string
	Case     Case
	Peer     string
	Name     string // what the curve shows: "Get p99.9"
	X, Y     []float64
	XUnit    string // "ms since the deadline"
	YUnit    string // "µs"
}
