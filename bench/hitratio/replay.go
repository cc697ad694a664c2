package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// A Run is what came of replaying a trace once.
type Run struct {
	Hits int
	Most int // entries that the cache held at a time, expired ones among them
}

// replay has a new cache of p go through a trace.
//
// It does so in a bubble of package synctest. There, package time has a clock that
// stands still while anybody works, and moves on to when the next one wants to wake
// up: so lifetimes of hours pass in no time, and exactly, with each cache's own
// machinery for them. And a bubble knows when all that a cache does in the background
// is done, which is waited for after each request: so how far behind it is does not
// depend on what else the machine does, and it holds no more than it may.
//
// Peers that are not waited for run outside, on the real clock.
func replay(p *Peer, t *Trace, size int) (run Run, err error) {
	if p.Unwaited {
		return play(p, t, size, func() {})
	}
	inBubble(func() { run, err = play(p, t, size, synctest.Wait) })
	return run, err
}

// inBubble calls f in a bubble. That wants a test to report to, and there is nothing
// to report.
func inBubble(f func()) {
	synctest.Test(new(testing.T), func(*testing.T) { f() })
}

// play goes through a trace as a user of a cache would: Get, and Set if that does
// not return a live value, which is what a hit is.
func play(p *Peer, t *Trace, size int, settle func()) (run Run, err error) {
	c, err := p.New(Config{Size: size, Expires: t.Expires()})
	if err != nil {
		return run, err
	}
	defer c.Close()
	settle()
	start := time.Now()
	for i, number := range t.Requests {
		var now time.Duration
		var v Value
		if t.Expires() {
			now = t.Arrivals[i]
			time.Sleep(now - time.Since(start))
			v.TTL = t.Lifetimes[number]
			v.Deadline = now + v.TTL
		}
		key := t.Keys[number]
		if found, ok := c.Get(key); ok && found.liveAt(now) {
			run.Hits++
			settle()
			continue
		}
		c.Set(key, v)
		settle()
		run.Most = max(run.Most, c.Len())
	}
	return run, nil
}
