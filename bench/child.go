package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// A child is a process that drives one cache. It is asked on its standard input, a
// line of JSON per request, and answers likewise on its standard output, so that
// each cache has a heap, a collector and janitors of its own.

type request struct {
	Do       string // "open", "run" or "close"
	Workload string
	Case     Case
}

type answer struct {
	Result Result
	Error  string
	Cannot bool // the error is that the peer cannot do it
}

// serve is the child's main: it answers requests until there are no more.
func serve(peer *Peer, in io.Reader, out io.Writer) error {
	d := driver{peer: peer}
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q request
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		result, err := d.do(q)
		a := answer{Result: result}
		if err != nil {
			a.Error, a.Cannot = err.Error(), errors.Is(err, ErrCannot)
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

// A driver carries out requests for one cache.
type driver struct {
	peer    *Peer
	strings *Bench[string, *Payload]
	uint64s *Bench[uint64, uint64]
	session Session
}

func (d *driver) do(q request) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", d.peer.Name, p, debug.Stack())
		}
	}()
	switch q.Do {
	case "open":
		w := workloadNamed(q.Workload)
		if w == nil {
			return r, fmt.Errorf("no workload %q", q.Workload)
		}
		return r, d.open(w, q.Case)
	case "run":
		return d.session.Run()
	case "close":
		if d.session != nil {
			d.session.Close()
			d.session = nil
		}
		return r, nil
	}
	return r, fmt.Errorf("no request %q", q.Do)
}

func (d *driver) open(w *Workload, c Case) (err error) {
	if !d.peer.takesPart(w.Needs) {
		return unable("is for loading only")
	}
	if lacks := d.peer.Traits.lacking(w.Needs); lacks != "" {
		return fmt.Errorf("%w: %s", ErrCannot, lacks)
	}
	if c.Threads > 1 && !d.peer.Traits.Shared {
		return fmt.Errorf("%w: one goroutine only", ErrCannot)
	}
	switch {
	case c.Keys == "string" && w.Strings != nil && d.peer.Strings != nil:
		if d.strings == nil {
			d.strings = stringBench(d.peer)
		}
		d.session, err = w.Strings(d.strings, c)
	case c.Keys == "uint64" && w.Uint64s != nil && d.peer.Uint64s != nil:
		if d.uint64s == nil {
			d.uint64s = uint64Bench(d.peer)
		}
		d.session, err = w.Uint64s(d.uint64s, c)
	default:
		err = fmt.Errorf("%w: no %s keys", ErrCannot, c.Keys)
	}
	return err
}

// lacking says which of the needs t does not have, "" if it has them all.
func (t Traits) lacking(needs Traits) string {
	switch {
	case needs.Expires && !t.Expires:
		return "no lifetimes"
	case needs.EachTTL && !t.EachTTL:
		return "one TTL for all entries"
	case needs.Reclaims && !t.Reclaims:
		return "expired entries stay until they are asked for"
	case needs.Shared && !t.Shared:
		return "one goroutine only"
	case needs.Deletes && !t.Deletes:
		return "no Delete"
	case needs.Counts && !t.Counts:
		return "does not count its entries"
	case needs.Bounds && !t.Bounds:
		return "no bound on entries"
	case needs.Loads && !t.Loads:
		return noLoading
	}
	return ""
}

func workloadNamed(name string) *Workload {
	for i := range workloads {
		if workloads[i].Name == name {
			return &workloads[i]
		}
	}
	return nil
}
