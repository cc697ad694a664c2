// Package directives has directives that are needed, and others.
package directives

import "sync"

type shard struct {
	mu   sync.Mutex
	done func()
}

func (s *shard) Compute(f, g func()) {
	s.done = g
	s.mu.Lock()
	f()        //wheelcache:underlock documented
	f()        /* want `needs a reason` */ //wheelcache:underlock
	s.finish() //wheelcache:underlock documented, and all that it leads to
	g()        // want `parameter g of shard.Compute`
	s.quiet()  /* want `not needed` */ //wheelcache:underlock but it calls nobody
	s.mu.Unlock()
	f() /* want `not needed` */ //wheelcache:underlock but there is no lock
	s.mu.Lock()
	s.half() /* want `not needed` */ //wheelcache:underlock one of these two is enough
	s.mu.Unlock()
}

func (s *shard) finish() { s.done() }

func (s *shard) quiet() {}

func (s *shard) half() {
	s.done() /* want `not needed` */ //wheelcache:underlock one of these two is enough
}

/* want `not needed` */ //wheelcache:underlock there is no call here
