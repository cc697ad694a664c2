// Fleet shows what jitter is for. Replicas of a service are started at the same
// moment, load the same hot keys from one origin, and keep them for the same time.
// So every few minutes all of them load all of these keys again, at the same moment.
// With jitter, these loads spread.
//
//	go run -C examples/fleet .
//
// It simulates that on a fake clock, with expiry.AfterWrite alone, with
// expiry.Jitter and with expiry.JitterBy, prints the loads per second at the origin
// and draws them. In the first second all caches are empty, and every replica loads
// every key: that is the same for all three, jitter does not help against it, and
// peaks are counted from the second second on.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with what it touches as arguments. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	f, out, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return 2
	}
	if err := f.show(stdout, out); err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return 1
	}
	return 0
}

// parse returns the fleet that args ask for, and the file for the picture.
func parse(args []string, w io.Writer) (f fleet, out string, err error) {
	fs := flag.NewFlagSet("fleet", flag.ContinueOnError)
	fs.IntVar(&f.replicas, "replicas", 800, "replicas, each with a cache of its own")
	fs.IntVar(&f.keys, "keys", 10, "hot keys, which each replica asks for once a second")
	fs.DurationVar(&f.ttl, "ttl", 5*time.Minute, "lifetime of entries, without jitter")
	fs.Float64Var(&f.fraction, "fraction", 0.2, "of the lifetime that jitter takes off at most")
	fs.DurationVar(&f.duration, "duration", 30*time.Minute, "simulated time, in whole seconds")
	fs.StringVar(&out, "out", "../../docs/fleet.png", "file for the picture; none if empty")

	// Parse prints the whole usage after an error. One line says more.
	fs.SetOutput(io.Discard)
	err = fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(w)
		fs.Usage()
	case err != nil:
		// Parse names the flag and the value.
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; only flags are allowed", fs.Arg(0))
	case f.replicas < 1:
		err = fmt.Errorf("-replicas is %d; it must be at least 1", f.replicas)
	case f.keys < 1:
		err = fmt.Errorf("-keys is %d; it must be at least 1", f.keys)
	case f.duration < 2*time.Second || f.duration%time.Second != 0:
		err = fmt.Errorf("-duration is %v; it must be whole seconds, and at least 2s", f.duration)
	}
	return f, out, err // caches say what is wrong with the rest
}

// show runs the fleet with each strategy, prints a table to w and draws a picture.
func (f fleet) show(w io.Writer, out string) error {
	var results []result
	for _, s := range strategies {
		loads, err := f.run(s)
		if err != nil {
			return err
		}
		results = append(results, newResult(s.label(f), loads))
	}
	fmt.Fprintf(w, "Loads per second at the origin: %d replicas started at once, %d hot keys, lifetime %s, %s simulated\n\n",
		f.replicas, f.keys, short(f.ttl), short(f.duration))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tfirst second\tpeak after it\tmean after it\tpeak lower by\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%s\t\n", r.label, r.loads[0], r.peak, r.mean, times(r.lowerThan(results[0])))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if out == "" {
		return nil
	}
	if err := writePicture(out, f, results); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThe picture is in %s.\n", out)
	return err
}

// A result is what the origin has seen with a strategy.
type result struct {
	label string
	loads []int // in each second
	peak  int   // after the first second
	mean  float64
}

func newResult(label string, loads []int) result {
	r := result{label: label, loads: loads, peak: slices.Max(loads[1:])}
	for _, n := range loads[1:] {
		r.mean += float64(n) / float64(len(loads)-1)
	}
	return r
}

// lowerThan returns how many times lower the peak is: 0 if there was none.
func (r result) lowerThan(other result) float64 {
	return float64(other.peak) / float64(max(r.peak, 1))
}

func times(factor float64) string {
	if factor == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", factor)
}
