package main

import (
	"runtime"
	"slices"
	"sync"
)

// A Row is what came of one cache of one size that went through one trace.
type Row struct {
	Trace    string
	Requests int
	Distinct int
	Expires  bool
	Percent  float64 // size of the cache, in percent of the keys
	Size     int
	Cache    string
	Runs     []Run
	Why      string // if there are no Runs
}

// HitPercent is the mean of all runs.
func (r Row) HitPercent() float64 {
	var sum float64
	for _, run := range r.Runs {
		sum += r.percentOf(run)
	}
	return sum / float64(len(r.Runs))
}

func (r Row) percentOf(run Run) float64 { return 100 * float64(run.Hits) / float64(r.Requests) }

// Most is the greatest number of entries that the cache was seen with.
func (r Row) Most() int {
	return slices.MaxFunc(r.Runs, func(a, b Run) int { return a.Most - b.Most }).Most
}

// Fair reports whether the cache had a hit ratio of its own, with no more entries
// than it was given.
func (r Row) Fair() bool { return len(r.Runs) > 0 && !optimal(r.Cache) && r.Most() <= r.Size }

// Names of what is computed with a view to the future.
const (
	beladyName = "belady"
	boundName  = "bound"
)

var optima = []string{beladyName, boundName}

func optimal(name string) bool { return slices.Contains(optima, name) }

// A plan is what is to be done with each trace.
type plan struct {
	peers   []Peer
	optima  []string
	percent []float64
	runs    int
}

// A job is one run of a row.
type job struct {
	row  *Row
	peer *Peer // nil for an optimum
}

// run replays a trace in all ways that are planned.
//
// What runs in a bubble does not depend on what else the machine does, and takes all
// processors at a time. Peers that are not waited for do depend on it: each of their
// runs has the machine for itself.
func (p plan) run(t *Trace, progress func(done, of int, what string)) []Row {
	rows, together, alone := p.jobs(t)
	var o *oracle
	if len(p.optima) > 0 {
		o = newOracle(t)
	}
	var mu sync.Mutex // protects rows and done
	done := 0
	do := func(j job) {
		var run Run
		var err error
		switch {
		case j.peer != nil:
			run, err = replay(j.peer, t, j.row.Size)
		case j.row.Cache == beladyName:
			run.Hits = o.belady(j.row.Size)
		default:
			run.Hits = o.bound(j.row.Size)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			j.row.Why = err.Error()
		} else {
			j.row.Runs = append(j.row.Runs, run)
		}
		done++
		progress(done, len(together)+len(alone), t.Name)
	}
	inParallel(together, do)
	for _, j := range alone {
		do(j)
	}
	return rows
}

// jobs returns the rows of a trace, and what is to be done for them: together or
// one by one.
func (p plan) jobs(t *Trace) (rows []Row, together, alone []job) {
	columns := len(p.peers) + len(p.optima)
	rows = make([]Row, 0, columns*len(p.percent)) // all there will be: jobs point to them
	add := func(percent float64, cache string) *Row {
		rows = append(rows, Row{
			Trace: t.Name, Requests: len(t.Requests), Distinct: t.Distinct(), Expires: t.Expires(),
			Percent: percent, Size: t.Size(percent), Cache: cache,
		})
		return &rows[len(rows)-1]
	}
	for _, percent := range p.percent {
		for i := range p.peers {
			peer := &p.peers[i]
			row := add(percent, peer.Name)
			runs := p.runs
			if peer.Exact {
				runs = 1
			}
			for range runs {
				switch {
				case !peer.Unwaited:
					together = append(together, job{row, peer})
				case t.Expires():
					row.Why = "lifetimes would pass in real time"
				default:
					alone = append(alone, job{row, peer})
				}
			}
		}
		for _, name := range p.optima {
			row := add(percent, name)
			if name == boundName && !t.Expires() {
				row.Why = "without lifetimes belady is exact"
				continue
			}
			together = append(together, job{row, nil})
		}
	}
	return rows, together, alone
}

// inParallel calls do for all jobs, as many at a time as there are processors.
func inParallel(jobs []job, do func(job)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	queue := make(chan job)
	defer close(queue)
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for j := range queue {
				do(j)
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
}
