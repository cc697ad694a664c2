// Command hitratio replays traces through bounded caches, and shows how often each of
// them has what is asked for, beside the best that can be had by knowing the future.
//
//	go run -C bench ./hitratio                            traces that it makes itself
//	go run -C bench ./hitratio -trace 'zipf*,loop' -cache otter,theine -size 1,10
//	go run -C bench ./hitratio -limit 2000000 -plot hits.png FILE...
//	go run -C bench ./hitratio -list                      what there is
//
// ../README.md has the rules.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, newProgress(os.Stderr)); err != nil {
		fmt.Fprintln(os.Stderr, "hitratio:", err)
		os.Exit(1)
	}
}

// defaultSizes are those of caches, in percent of the keys.
var defaultSizes = []float64{0.1, 1, 5, 10, 25}

// options are what the command line says.
type options struct {
	plan
	sources []source
	csv     string
	plot    string
	list    bool
}

// A source makes or reads a trace, when its turn has come: one is in memory at a
// time.
type source func() (*Trace, error)

func run(args []string, out io.Writer, progress func(done, of int, what string)) error {
	o, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if o.list {
		printList(out)
		return nil
	}
	var rows []Row
	for _, load := range o.sources {
		t, err := load()
		if err != nil {
			return err
		}
		rows = append(rows, o.plan.run(t, progress)...)
		progress(0, 0, "")
	}
	writeTables(out, rows)
	if o.csv != "" {
		var table bytes.Buffer
		err = errors.Join(err, writeCSV(&table, rows), os.WriteFile(o.csv, table.Bytes(), 0o644))
	}
	if o.plot != "" {
		err = errors.Join(err, drawPicture(o.plot, rows))
	}
	return err
}

// parse returns what args say. If they ask for help, it has been given.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("hitratio", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // of what is wrong only the error is said
	flags.Usage = func() {}
	var (
		trace  = flags.String("trace", "", "make these traces: names or patterns (zipf*), with commas; all if no file is given")
		format = flags.String("format", "auto", "of the files: u32be, arc or lirs; auto goes by their names")
		limit  = flags.Int("limit", 0, "replay so many requests of a trace at most; 0 is all")
		cache  = flags.String("cache", "*", "only these caches, likewise")
		size   = flags.String("size", "", "sizes in percent of the distinct keys, with commas between (default 0.1,1,5,10,25)")
		seed   = flags.Uint64("seed", 1, "of the traces that are made")
	)
	flags.IntVar(&o.runs, "runs", 3, "runs of which to show the mean, for caches that draw random numbers")
	flags.StringVar(&o.csv, "csv", "", "write all runs to this file")
	flags.StringVar(&o.plot, "plot", "", "draw a picture into this file, a PNG")
	flags.BoolVar(&o.list, "list", false, "list traces and caches, and do nothing")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, "usage: hitratio [flags] [FILE...]\nReplays traces from files, or those that it makes itself.\n")
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w; see -h", err)
	}
	if o.runs < 1 {
		return o, fmt.Errorf("-runs %d: must be 1 or more", o.runs)
	}
	if *limit < 0 {
		return o, fmt.Errorf("-limit %d: must be 0 or more", *limit)
	}
	if err := o.choose(*cache); err != nil {
		return o, err
	}
	if err := o.measure(*size); err != nil {
		return o, err
	}
	err := o.gather(*trace, *format, *seed, *limit, flags.Args())
	return o, err
}

// choose finds the caches that match.
func (o *options) choose(patterns string) error {
	for _, p := range ranked() {
		if matches(patterns, p.Name) {
			o.peers = append(o.peers, p)
		}
	}
	for _, name := range optima {
		if matches(patterns, name) {
			o.optima = append(o.optima, name)
		}
	}
	if len(o.peers)+len(o.optima) == 0 {
		return fmt.Errorf("no cache matches %q; see -list", patterns)
	}
	return nil
}

// measure reads sizes in percent.
func (o *options) measure(list string) error {
	if list == "" {
		o.percent = defaultSizes
		return nil
	}
	for word := range strings.SplitSeq(list, ",") {
		percent, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(percent > 0 && percent <= 100) {
			return fmt.Errorf("-size %q: must be more than 0 and at most 100", word)
		}
		if slices.Contains(o.percent, percent) {
			return fmt.Errorf("-size: %g is there twice", percent)
		}
		o.percent = append(o.percent, percent)
	}
	return nil
}

// gather finds the traces.
func (o *options) gather(patterns, format string, seed uint64, limit int, files []string) error {
	for _, file := range files {
		if _, err := formatOf(format, file); err != nil {
			return err
		}
		o.sources = append(o.sources, func() (*Trace, error) { return readTrace(file, format, limit) })
	}
	if patterns == "" && len(files) == 0 {
		patterns = "*"
	}
	for _, s := range synthetics {
		if matches(patterns, s.name) {
			o.sources = append(o.sources, func() (*Trace, error) { return s.make(seed, limit) })
		}
	}
	if len(o.sources) == 0 {
		return fmt.Errorf("no trace matches %q; see -list", patterns)
	}
	return nil
}

// matches reports whether name is matched by one of the patterns.
func matches(patterns, name string) bool {
	for p := range strings.SplitSeq(patterns, ",") {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

func printList(w io.Writer) {
	fmt.Fprintln(w, "traces:")
	for _, s := range synthetics {
		fmt.Fprintf(w, "  %-12s %s\n", s.name, s.about)
	}
	fmt.Fprintln(w, "formats:")
	for _, f := range formats {
		fmt.Fprintf(w, "  %-12s %s (%s, also with .gz)\n", f.name, f.about, strings.Join(f.extensions, ", "))
	}
	fmt.Fprintln(w, "caches:")
	for _, p := range ranked() {
		fmt.Fprintf(w, "  %-12s %s\n", p.Name, p.Note)
	}
	fmt.Fprintf(w, "  %-12s %s\n", beladyName, "the optimum: gives up what is requested last")
	fmt.Fprintf(w, "  %-12s %s\n", boundName, "with lifetimes, hits that no cache can exceed")
}

// newProgress returns a function that shows how far a trace has come: on a
// terminal, one line that changes.
func newProgress(f *os.File) func(done, of int, what string) {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return func(done, of int, what string) {
		switch {
		case !terminal:
		case what == "":
			fmt.Fprint(f, "\r\x1b[K")
		default:
			fmt.Fprintf(f, "\r\x1b[K[%d/%d] %s", done, of, what)
		}
	}
}
