package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// print writes the report on a replay of source to w.
func (r result) print(w io.Writer, source string, cfg config) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, name+"\t"+format+"\n", args...)
	}
	row("trace", "%s", source)
	row("ttl", "%s", describeTTL(cfg))
	row("requests", "%d", r.requests)
	row("hits", "%d", r.hits)
	row("misses", "%d", r.misses)
	row("hit ratio", "%s", r.ratio())
	row("expirations", "%d", r.stats.Expired)
	row("other removals", "%d evicted, %d deleted, %d replaced, %d cleared",
		r.stats.Evicted, r.stats.Deleted, r.stats.Replaced, r.stats.Cleared)
	row("peak entries", "%d", r.peak)
	row("final entries", "%d", r.stats.Entries)
	row("virtual time", "%v", r.virtual)
	row("real time", "%v", r.real.Round(time.Millisecond))
	row("per operation", "%s", r.perOperation())
	return t.Flush()
}

func describeTTL(cfg config) string {
	from := "Set"
	if cfg.sliding {
		from = "the last access"
	}
	if cfg.TTL == 0 {
		return "none"
	}
	return fmt.Sprintf("%v from %s", cfg.TTL, from)
}

// ratio returns the share of hits, if there is one.
func (r result) ratio() string {
	if r.requests == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(r.hits)/float64(r.requests))
}

// perOperation returns what a Get or a Set took. The reading of the trace and
// the stepping of the clock are in there as well.
func (r result) perOperation() string {
	ops := r.requests + r.misses
	if ops == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ns, trace and clock included", r.real.Nanoseconds()/int64(ops))
}
