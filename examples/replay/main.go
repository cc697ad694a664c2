// Replay sends the accesses of a trace through a cache and tells what became of
// them. Time is virtual: an hour of requests takes seconds, and each replay of a
// trace counts the same hits and misses.
//
//	go run ./examples/replay -ttl 30s -rate 5000 FILE...
//
// Each request is a Get, and a Set if that misses.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/wheelcache/wheelcache/examples/replay/trace"
)

const usage = `usage: replay [flags] [FILE...]

Replays access traces through a cache on a virtual clock: each request is a
Get, and a Set if that misses. Each FILE is a trace of its own, for a cache of
its own. Without FILE, replay makes up a small trace.

A FILE ending in .gz is decompressed. Then, if the rest of its name ends in
.u32be, it holds big-endian 32-bit keys; otherwise lines of text, which its
first line tells apart:

  timestamp,key       if that has a comma and a number before it; timestamp is
  timestamp,key,ttl   in seconds, ttl in seconds or a duration such as 1m30s
  key                 otherwise

Flags:
`

// A config is what the flags say.
type config struct {
	trace.Defaults
	sliding bool
	tick    time.Duration
	shards  int
	limit   int
}

// Size and seed of the trace that is made up.
const (
	madeUpRequests = 300_000
	madeUpSeed     = 1
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with what it touches as arguments. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	cfg, files, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "replay: %v\n", err)
		return 2
	}
	if err := replayAll(files, cfg, stdout, newProgress(stderr)); err != nil {
		fmt.Fprintf(stderr, "replay: %v\n", err)
		return 1
	}
	return 0
}

// parse returns the flags and the files that args ask for. Asked for help, it
// prints that to w and returns flag.ErrHelp.
func parse(args []string, w io.Writer) (cfg config, files []string, err error) {
	fs := flag.NewFlagSet("replay", flag.ContinueOnError)
	fs.DurationVar(&cfg.TTL, "ttl", 30*time.Second, "lifetime of entries, where a line gives none; 0: they do not expire")
	fs.BoolVar(&cfg.sliding, "sliding", false, "count the lifetime from the last access instead of the last Set")
	fs.Float64Var(&cfg.Rate, "rate", 5000, "requests per second in traces without timestamps")
	fs.DurationVar(&cfg.tick, "tick", 10*time.Millisecond, "how finely the cache reclaims what has expired")
	fs.IntVar(&cfg.shards, "shards", 0, "shards of the cache; 0: its default")
	fs.IntVar(&cfg.limit, "limit", 0, "requests to replay of each trace; 0: all")

	// Parse prints the whole usage after an error. One line says more.
	fs.SetOutput(io.Discard)
	err = fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w, usage)
		fs.SetOutput(w)
		fs.PrintDefaults()
	case err != nil:
		// Parse names the flag and the value.
	case cfg.TTL < 0:
		err = fmt.Errorf("-ttl is %v; it must not be negative, and 0 is for entries that do not expire", cfg.TTL)
	case !(cfg.Rate > 0) || math.IsInf(cfg.Rate, 1):
		err = fmt.Errorf("-rate is %v; it must be a number of requests per second above 0", cfg.Rate)
	case cfg.tick <= 0:
		err = fmt.Errorf("-tick is %v; it must be more than 0", cfg.tick)
	case cfg.shards < 0:
		err = fmt.Errorf("-shards is %d; it must not be negative, and 0 is for the default", cfg.shards)
	case cfg.limit < 0:
		err = fmt.Errorf("-limit is %d; it must not be negative, and 0 is for all requests", cfg.limit)
	}
	return cfg, fs.Args(), err
}

// replayAll replays the files one by one and prints a report on each to w.
func replayAll(files []string, cfg config, w io.Writer, p *progress) error {
	if len(files) == 0 {
		res, err := replay(trace.MadeUp(madeUpRequests, madeUpSeed, cfg.Defaults), cfg, p)
		if err != nil {
			return err
		}
		source := fmt.Sprintf("made up, no FILE given: Zipf over a shifting working set, seed %d, %v requests/s", madeUpSeed, cfg.Rate)
		return res.print(w, source, cfg)
	}
	for i, path := range files {
		res, source, err := replayFile(path, cfg, p)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := res.print(w, source, cfg); err != nil {
			return err
		}
	}
	return nil
}

// replayFile replays one file. It also returns what the file turned out to be.
func replayFile(path string, cfg config, p *progress) (res result, source string, err error) {
	f, err := trace.Open(path)
	if err != nil {
		return result{}, "", err
	}
	defer f.Close()
	switch f.Format() {
	case trace.Uint32s:
		source = fmt.Sprintf("%s: 32-bit keys, %v requests/s", path, cfg.Rate)
		res, err = replay(f.Uint32s(cfg.Defaults), cfg, p)
	case trace.Stamped:
		source = fmt.Sprintf("%s: lines with timestamps", path)
		res, err = replay(f.Strings(cfg.Defaults), cfg, p)
	default:
		source = fmt.Sprintf("%s: a key per line, %v requests/s", path, cfg.Rate)
		res, err = replay(f.Strings(cfg.Defaults), cfg, p)
	}
	return res, source, err
}
