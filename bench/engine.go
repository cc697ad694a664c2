package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The engine asks all caches the same questions, in turn: repetition 1 of each, then
// repetition 2 of each, and so on. What disturbs the machine for a while disturbs
// all of them, and each repetition gives a ratio of its own.
//
//	plan -> groups of steps -> a process per cache -> open all -> run all, again and again -> rows

// A plan is what to measure.
type plan struct {
	peers       []*Peer
	steps       []step
	repetitions int
	quick       bool
}

// repetitionsOf returns how often a step is repeated.
func (p *plan) repetitionsOf(s step) int {
	if p.quick && s.workload.Slow {
		return 1
	}
	return p.repetitions
}

// total is how many repetitions there are, of all caches.
func (p *plan) total() (n int) {
	for _, s := range p.steps {
		n += p.repetitionsOf(s) * len(p.peers)
	}
	return n
}

// A step is one workload in one case.
type step struct {
	workload *Workload
	c        Case
}

// groups returns the steps that the same processes go through one after the other:
// those that want the same entries loaded. A step of a Fresh workload is a group of its own.
func (p *plan) groups() [][]step {
	key := func(s step) string { return fmt.Sprint(s.c.Keys, s.c.Entries) }
	var groups [][]step
	at := map[string]int{}
	for _, s := range p.steps {
		i, ok := at[key(s)]
		if ok && !s.workload.Fresh && !s.workload.Together {
			groups[i] = append(groups[i], s)
			continue
		}
		if !s.workload.Fresh && !s.workload.Together {
			at[key(s)] = len(groups)
		}
		groups = append(groups, []step{s})
	}
	return groups
}

// An engine carries out a plan.
type engine struct {
	plan
	progress  func(done, of int, what string)
	interrupt context.Context // when it is done, the engine ends before the next repetition

	rows      []Row
	series    []Series
	done      int        // repetitions of one cache
	reporting sync.Mutex // around progress
}

// run returns what was measured, in the order of the plan. A cache that fails has
// rows that say so; the others go on. A step that was not reached has no rows.
func (e *engine) run() ([]Row, []Series) {
	for _, g := range e.groups() {
		if g[0].workload.Fresh {
			e.runFresh(g[0])
		} else {
			e.runGroup(g)
		}
	}
	order := map[string]int{}
	for i, s := range e.steps {
		order[s.workload.Name+" "+s.c.String()] = i
	}
	slices.SortStableFunc(e.rows, func(a, b Row) int {
		return cmp.Compare(order[a.Workload+" "+a.Case.String()], order[b.Workload+" "+b.Case.String()])
	})
	return e.rows, e.series
}

// A contestant is a cache in one step.
type contestant struct {
	peer    *Peer
	process *process // nil if it could not start
	results []Result
	err     error
}

func (c *contestant) ask(q request) (r Result) {
	if c.err == nil {
		r, c.err = c.process.do(q)
	}
	return r
}

// runGroup takes a process per cache through the steps.
func (e *engine) runGroup(steps []step) {
	processes := make([]*process, len(e.peers))
	defer func() {
		for _, p := range processes {
			if p != nil {
				p.end()
			}
		}
	}()
	for _, s := range steps {
		if e.interrupt.Err() != nil {
			return
		}
		together := s.workload.Together
		field := make([]*contestant, len(e.peers))
		// Loading is not measured: as many at a time as there may be processors.
		limit := make(chan struct{}, 2)
		var opening sync.WaitGroup
		for i, peer := range e.peers {
			c := &contestant{peer: peer}
			field[i] = c
			opening.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				e.report(s, 0, "loading "+peer.Name)
				if processes[i] == nil {
					processes[i], c.err = start(peer)
				} else {
					processes[i].resume()
				}
				if c.process = processes[i]; c.process == nil {
					return
				}
				c.ask(request{"open", s.workload.Name, s.c})
				if !together {
					c.process.pause()
				}
			})
		}
		opening.Wait()
		for r := range e.repetitionsOf(s) {
			if e.interrupt.Err() != nil {
				break
			}
			if together {
				e.allAtOnce(s, r, field)
				continue
			}
			for i := range field {
				c := field[(i+r)%len(field)] // nobody always follows the same one
				e.report(s, r, c.peer.Name)
				e.done++
				if c.err != nil {
					continue
				}
				c.process.resume()
				if result := c.ask(request{Do: "run"}); c.err == nil {
					c.results = append(c.results, result)
				}
				c.process.pause()
			}
		}
		for i, c := range field {
			if c.process == nil {
				continue
			}
			if !together {
				c.process.resume()
			}
			_, err := c.process.do(request{Do: "close"})
			if err != nil || c.err != nil && !errors.Is(c.err, ErrCannot) {
				c.process.end() // who knows what it is in: the next step starts anew
				processes[i] = nil
				continue
			}
			if !together {
				c.process.pause()
			}
		}
		e.collect(s, field)
	}
}

func (e *engine) allAtOnce(s step, r int, field []*contestant) {
	e.report(s, r, "all at once")
	var all sync.WaitGroup
	for _, c := range field {
		e.done++
		if c.err != nil {
			continue
		}
		all.Go(func() {
			if result := c.ask(request{Do: "run"}); c.err == nil {
				c.results = append(c.results, result)
			}
		})
	}
	all.Wait()
}

// runFresh takes a new process for each repetition of each cache.
func (e *engine) runFresh(s step) {
	field := make([]*contestant, len(e.peers))
	for i, peer := range e.peers {
		field[i] = &contestant{peer: peer}
	}
	for r := range e.repetitionsOf(s) {
		if e.interrupt.Err() != nil {
			break
		}
		for i := range field {
			c := field[(i+r)%len(field)]
			e.report(s, r, c.peer.Name)
			e.done++
			if c.err != nil {
				continue
			}
			if c.process, c.err = start(c.peer); c.err != nil {
				continue
			}
			c.ask(request{"open", s.workload.Name, s.c})
			if result := c.ask(request{Do: "run"}); c.err == nil {
				c.results = append(c.results, result)
			}
			c.ask(request{Do: "close"})
			c.process.end()
		}
	}
	e.collect(s, field)
}

// collect makes rows of what the contestants came to.
func (e *engine) collect(s step, field []*contestant) {
	if slices.ContainsFunc(field, func(c *contestant) bool { return c.err == nil && len(c.results) == 0 }) {
		return // it was interrupted before the first repetition
	}
	for _, m := range s.workload.Metrics {
		for _, c := range field {
			if !c.peer.takesPart(s.workload.Needs) {
				continue
			}
			row := Row{Workload: s.workload.Name, Case: s.c, Peer: c.peer.Name, Metric: m.Name}
			for _, r := range c.results {
				if v, ok := r.Figures[m.Name]; ok {
					row.Values = append(row.Values, v)
				}
			}
			switch {
			case len(row.Values) > 0:
			case errors.Is(c.err, ErrCannot):
				row.Why = c.err.Error()
			case c.err != nil:
				row.Why = "failed: " + c.err.Error()
				fmt.Fprintf(os.Stderr, "\r%s, %s, %s: %v\n", s.workload.Name, s.c, c.peer.Name, c.err)
			default:
				row.Why = notShown
			}
			e.rows = append(e.rows, row)
		}
	}
	for _, c := range field {
		if n := len(c.results); n > 0 {
			for _, x := range c.results[n-1].Series {
				x.Workload, x.Case, x.Peer = s.workload.Name, s.c, c.peer.Name
				e.series = append(e.series, x)
			}
		}
	}
}

func (e *engine) report(s step, repetition int, who string) {
	e.reporting.Lock()
	defer e.reporting.Unlock()
	e.progress(e.done, e.total(),
		fmt.Sprintf("%s %s #%d %s", s.workload.Name, s.c, repetition+1, who))
}

// newResults describes the run.
func newResults(command string, rows []Row, series []Series, started time.Time) *Results {
	r := &Results{When: started, Command: command, Rows: rows, Series: series}
	r.Machine, r.GoVersion, r.Versions = machine(), runtime.Version(), versions()
	return r
}
