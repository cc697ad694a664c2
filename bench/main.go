// Command bench compares wheelcache with other caches for Go, side by side.
//
//	go run -C bench .                         the quick cases, about 3 minutes
//	go run -C bench . -full                   everything; takes long
//	go run -C bench . -full -workload get,mix90 -cache wheelcache,otter
//	go run -C bench . -list                   what there is
//
// README.md has the rules.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	slices.SortFunc(peers, byRank)
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	var (
		quick     = flags.Bool("quick", true, "only the quick cases")
		full      = flags.Bool("full", false, "all cases")
		workload  = flags.String("workload", "*", "only these workloads: names or patterns (get*), with commas between")
		cache     = flags.String("cache", "", "only these caches, likewise; all with -full, else those of the headline and their likes for loading")
		only      = flags.String("case", "*", "only these cases, likewise: *n=1000000*dist=zipf*")
		list      = flags.Bool("list", false, "list workloads and caches, and do nothing")
		reps      = flags.Int("reps", 0, "repetitions; 0 is 3 for -quick and 6 for -full")
		out       = flags.String("out", "results", "directory for report, CSV and pictures")
		childName = flags.String("child", "", "used by bench itself")
	)
	_ = flags.Parse(args) // exits on error
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
	}
	if *childName != "" {
		p := peerNamed(*childName)
		if p == nil {
			return fmt.Errorf("no cache %q", *childName)
		}
		answers := os.Stdout
		os.Stdout = os.Stderr // for caches that print what they think
		return serve(p, os.Stdin, answers)
	}
	if *list {
		printList()
		return nil
	}
	if *reps < 0 {
		return fmt.Errorf("-reps %d: must be 0 or more", *reps)
	}
	if *reps == 0 {
		*reps = 3
		if *full {
			*reps = 6
		}
	}
	if *cache == "" {
		*cache = strings.Join(append(slices.Clone(headliners), onlyLoad()...), ",")
		if *full {
			*cache = "*"
		}
	}
	p := plan{repetitions: *reps, quick: *quick && !*full}
	for i := range peers {
		if matches(*cache, peers[i].Name) {
			p.peers = append(p.peers, &peers[i])
		}
	}
	for i := range workloads {
		w := &workloads[i]
		if !matches(*workload, w.Name) {
			continue
		}
		for _, c := range w.Cases {
			if (!p.quick || c.Quick) && matches(*only, c.String()) {
				p.steps = append(p.steps, step{w, c})
			}
		}
	}
	if len(p.peers) == 0 || len(p.steps) == 0 {
		return fmt.Errorf("nothing to do: no cache matches %q, or no workload %q, or no case %q among the chosen; see -list", *cache, *workload, *only)
	}

	started := time.Now()
	interrupt, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(interrupt, func() {
		stop() // so that a second one does not wait
		fmt.Fprintln(os.Stderr, "\nbench: all caches finish this repetition, then comes the report; interrupt again to end without one")
	})
	e := engine{plan: p, progress: newProgress(os.Stderr), interrupt: interrupt}
	rows, series := e.run()
	e.progress(0, 0, "")
	results := newResults(strings.Join(append([]string{"go run -C bench ."}, quoted(args)...), " "), rows, series, started)
	if e.done < e.total() {
		results.Unfinished = fmt.Sprintf("interrupted after %d of %d repetitions", e.done, e.total())
	}
	if err := writeReport(*out, results); err != nil {
		return err
	}
	writeHeadline(os.Stdout, results)
	fmt.Println()
	writeGoals(os.Stdout, results)
	where := *out
	if !filepath.IsAbs(where) {
		where = path.Join("bench", where) // where go run -C was called
	}
	fmt.Printf("\n%v; all figures and pictures: %s\n", time.Since(started).Round(time.Second), path.Join(where, "results.md"))
	if results.Unfinished != "" {
		return errors.New(results.Unfinished)
	}
	return nil
}

// quoted returns the arguments as a shell wants them.
func quoted(args []string) (q []string) {
	for _, a := range args {
		if strings.ContainsAny(a, "* ;&|") {
			a = "'" + a + "'"
		}
		q = append(q, a)
	}
	return q
}

// matches reports whether name is matched by one of the patterns.
func matches(patterns, name string) bool {
	for p := range strings.SplitSeq(patterns, ",") {
		if ok, _ := path.Match(strings.ReplaceAll(p, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00")); ok {
			return true
		}
	}
	return false
}

// onlyLoad returns the names of the peers that stand in for a headliner in loading.
func onlyLoad() (names []string) {
	for _, p := range peers {
		if p.OnlyLoads {
			names = append(names, p.Name)
		}
	}
	return names
}

func peerNamed(name string) *Peer {
	for i := range peers {
		if peers[i].Name == name {
			return &peers[i]
		}
	}
	return nil
}

// byRank sorts wheelcache first and floors last.
func byRank(a, b Peer) int {
	rank := func(p Peer) int {
		switch {
		case p.Name == "wheelcache":
			return 0
		case p.Floor:
			return 2
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
}

func printList() {
	fmt.Println("workloads:")
	for _, w := range workloads {
		fmt.Printf("  %-12s %s\n", w.Name, w.About)
		for _, c := range w.Cases {
			mark := " "
			if c.Quick {
				mark = "*"
			}
			fmt.Printf("             %s %s\n", mark, c)
		}
	}
	fmt.Println("caches:")
	for _, p := range peers {
		fmt.Printf("  %-16s %s\n", p.Name, p.Note)
	}
	fmt.Println("* is a quick case")
}

// newProgress returns a function that shows how far the run has come: on a
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
