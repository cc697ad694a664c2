package seeded

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What cannot be followed is reported, and what can be is.

type hooks struct {
	inside, outside, mixed, leaked, converted func()
}

type sameHooks struct {
	inside2, outside2, mixed2, leaked2, converted2 func()
}

type twin1 struct{ f func() }
type twin2 struct{ f func() }

func harmless() {}

func (h *hooks) fill(from func(), other hooks) {
	h.inside = harmless
	h.mixed = harmless
	if from != nil {
		h.mixed = func() { from() } // want `the user's code, parameter f of Hook,`
	}
	h.outside = other.outside
	set(&h.leaked)
}

func set(f *func()) { *f = User }

func Hook(f func()) {
	h := new(hooks)
	h.fill(f, hooks{})
	other := new(hooks)
	other.outside = f
	t := twin2(twin1{harmless})
	all := []func(){f}
	byName := map[string]func(){"": f}
	ch := make(chan func(), 1)
	local := harmless
	s := new(shard[int])
	s.mu.Lock()
	defer s.mu.Unlock()
	h.inside()
	h.mixed()
	h.outside()  // want `the user's code, parameter f of Hook,`
	h.leaked()   // want `what may be the user's code, hooks.leaked, whose address is taken`
	t.f()        // want `twin2.f, whose address is taken or whose struct is converted`
	all[0]()     // want `what may be the user's code, what some pointer points to`
	byName[""]() // want `what may be the user's code, an element of a map`
	(<-ch)()     // want `what may be the user's code, what came from a channel`
	local()
	pick(true)()
	pick2(f)() // want `the user's code, parameter f of Hook,`
}

func pick(first bool) func() {
	if first {
		return harmless
	}
	return func() {}
}

func pick2(f func()) func() { return f }

// step returns the step that comes after it.
type step func() step

func walk(s *shard[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for next := step(nil); ; {
		next = next() // want `what may be the user's code, what a call that depends on its own result returned`
	}
}

var setElsewhere func()

func variables(s *shard[int], c *Cache[int]) {
	byClosure, byPointer := harmless, harmless
	assign := func() { byClosure = c.waits }
	assign()
	set(&byPointer)
	set(&setElsewhere)
	s.mu.Lock()
	defer s.mu.Unlock()
	byClosure()    // want `the user's code, parameter f of Cache.Wait,`
	byPointer()    // want `what may be the user's code, a variable whose address is taken`
	setElsewhere() // want `what may be the user's code, the variable setElsewhere, whose address is taken`
}

func (c *Cache[K]) Wait(f func()) { c.waits = f }

// Interfaces of the package's own are followed to the types that they hold.

type stopper interface {
	stop(f func())
}

type quiet struct{}

func (quiet) stop(func()) {}

type loud struct{}

func (loud) stop(f func()) {
	User() // want `the variable User`
	f()    // want `parameter f of loud.stop, whose callers are not all known`
}

func stopAll(s *shard[int]) {
	var one stopper = quiet{}
	var two stopper = loud{}
	s.mu.Lock()
	defer s.mu.Unlock()
	one.stop(User)
	two.stop(User)
}

type named interface{ Name() string }

func nameOfZero[K named](s *shard[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var zero K
	zero.Name() // want `the user's code, a method of K,`
}

// Other packages.

type speaking uint8

func (speaking) String() string {
	User() // want `the variable User`
	return ""
}

type fresh uint8

func (f fresh) String() string { return "fresh" }

var pool sync.Pool

func native()

func others(s *shard[int], w *bytes.Buffer, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = fmt.Sprint(fresh(1), 2, "three", time.Second)
	_ = fmt.Sprint(speaking(1))
	_ = fmt.Sprint(args...) // want `hands on a slice of interfaces that cannot be followed`
	_ = fmt.Sprint(&s)      // want `hands on a \*\*shard\[int\], with which`
	slices.SortFunc(s.keys, func(a, b int) int {
		User() // want `the variable User`
		return 0
	})
	pool.Get() // want `calls \(\*sync.Pool\).Get, which is not known to leave the user's code alone`
	time.AfterFunc(1, harmless)
	native() // want `calls native, which has no body here,`
}

// The wheel calls what it has been handed, now or before, and more than it should.

func (s *shard[K]) prepare() {
	s.wheel.Ahead(func(int) {
		User() // want `the variable User`
	})
	s.wheel.Hook = func() {
		User() // want `the variable User`
	}
	s.visit = s.comeUp
}

func (s *shard[K]) comeUp(int) {
	User() // want `the variable User, under the lock of a shard: shard.advance > shard.comeUp`
}

func (s *shard[K]) advance() {
	s.mu.Lock()
	s.wheel.Next()
	s.wheel.Advance(1, s.visit)
	s.wheel.Resize() // want `calls .*Resize, which calls what may be the user's code, an element of a map.* \(wheel.go:27, in Wheel.Resize > grow\), under` `calls .*Resize, which calls os.Getpid`
	s.mu.Unlock()
}
