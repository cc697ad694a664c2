package main

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// calm lists packages that call nobody back, except what a call is handed, and on
// other goroutines. A type or function that does all the same stands in calmless.
var calm = map[string]bool{
	"bytes": true, "fmt": true, "math": true, "math/bits": true, "runtime": true,
	"slices": true, "strconv": true, "sync": true, "sync/atomic": true, "time": true, "unsafe": true,
}

var calmless = map[string]bool{
	"(*sync.Pool).Get": true, // calls New
}

// A violation is a call that must not be.
type violation struct {
	pos  token.Pos
	what string
	way  string // from the function that took the lock
}

// A step is how a context was reached.
type step struct {
	context
	from *step
}

// A walk goes wherever calls lead under the lock.
type walk struct {
	*checker
	off        *directive // is ignored
	entered    map[context]bool
	todo       []*step
	violations []violation
	handed     bool // something was called that the package was handed
	given      map[*types.Package]bool
	covered    map[*directive][]coveredCall
}

// A coveredCall is a call under the lock with a directive that lets it pass.
type coveredCall struct {
	step *step
	call ssa.CallInstruction
}

func (c *checker) newWalk(off *directive) *walk {
	return &walk{
		checker: c,
		off:     off,
		entered: map[context]bool{},
		given:   map[*types.Package]bool{},
		covered: map[*directive][]coveredCall{},
	}
}

func (w *walk) enter(ctx context, from *step) {
	if !w.entered[ctx] {
		w.entered[ctx] = true
		w.todo = append(w.todo, &step{ctx, from})
	}
}

// run goes breadth first, so that the ways it reports are short.
func (w *walk) run() {
	for ; len(w.todo) > 0; w.todo = w.todo[1:] {
		s := w.todo[0]
		f := w.flows[s.context]
		for instr := range instructions(s.fn) {
			if call, ok := instr.(ssa.CallInstruction); ok && f.heldAt(call) {
				w.call(s, call)
			}
		}
	}
}

// heldAt reports whether the lock may be held when the call is made. A deferred one
// may be made whenever something panics.
func (f *flow) heldAt(call ssa.CallInstruction) bool {
	switch call.(type) {
	case *ssa.Go:
		return false
	case *ssa.Defer:
		return f.some
	}
	return f.at[call] != free
}

// call looks at a call under the lock.
func (w *walk) call(s *step, call ssa.CallInstruction) {
	switch w.lockOpOf(call.Common()) {
	case opLock, opTry:
		w.violate(s, call, "locks a shard")
		return
	case opUnlock:
		return
	}
	if d := w.directiveAt(call.Pos()); d != nil && d != w.off {
		w.covered[d] = append(w.covered[d], coveredCall{s, call})
		return
	}
	w.follow(s, call, w.calleesOf(call.Common()))
}

// follow looks at what a call may call.
func (w *walk) follow(s *step, call ssa.CallInstruction, callees []origin) {
	for _, o := range callees {
		switch {
		case w.flows[context{o.fn, true}] != nil:
			w.enter(context{o.fn, true}, s)
		case o.fn != nil:
			w.violate(s, call, "calls "+nameOf(o.fn)+", which has no body here,")
		case o.outside != nil:
			w.outside(s, call, o.outside)
		case o.dynamic != nil:
			w.dynamic(s, call, o.dynamic)
		case o.user && len(w.locks) == 0:
			w.handed = true
		case o.user:
			w.violate(s, call, "calls the user's code, "+o.what+",")
		default:
			w.violate(s, call, "calls what may be the user's code, "+o.what+",")
		}
	}
}

// outside looks at a call of another package's function.
func (w *walk) outside(s *step, call ssa.CallInstruction, fn *types.Func) {
	fn = fn.Origin()
	name, pkg := fn.FullName(), fn.Pkg()
	var e effects
	switch {
	case pkg == nil || calm[pkg.Path()] && !calmless[name]:
		for _, arg := range call.Common().Args {
			w.hand(s, call, arg)
		}
	case !strings.HasPrefix(pkg.Path(), w.pass.Pkg.Path()+"/") || !w.pass.ImportObjectFact(fn, &e):
		w.violate(s, call, "calls "+name+", which is not known to leave the user's code alone,")
	default:
		for _, what := range e.Violations {
			w.violate(s, call, "calls "+name+", which "+what+",")
		}
		if e.Handed && !w.given[pkg] {
			w.given[pkg] = true
			for _, arg := range w.index.handed[pkg] {
				w.hand(s, call, arg)
			}
		}
	}
}

// hand looks at an argument that the function called may call.
func (w *walk) hand(s *step, call ssa.CallInstruction, arg ssa.Value) {
	switch t := arg.Type().Underlying().(type) {
	case *types.Signature, *types.Interface:
		if _, ok := types.Unalias(arg.Type()).(*types.TypeParam); !ok {
			w.follow(s, call, w.originsOf(arg))
		}
	case *types.Slice:
		if types.IsInterface(t.Elem()) {
			w.handAll(s, call, arg)
		}
	}
}

// handAll looks at a slice of interfaces: the variable arguments of fmt.Sprintf,
// say, which lie in an array that is made for the call.
func (w *walk) handAll(s *step, call ssa.CallInstruction, arg ssa.Value) {
	if c, ok := arg.(*ssa.Const); ok && c.IsNil() {
		return
	}
	slice, ok := arg.(*ssa.Slice)
	if !ok {
		w.violate(s, call, "hands on a slice of interfaces that cannot be followed,")
		return
	}
	for _, use := range *slice.X.Referrers() {
		if elem, ok := use.(*ssa.IndexAddr); ok {
			for _, use := range *elem.Referrers() {
				if store, ok := use.(*ssa.Store); ok {
					w.follow(s, call, w.originsOf(store.Val))
				}
			}
		}
	}
}

// dynamic looks at a value whose type the function called can see, and so call its
// methods. Only of numbers, strings and the like are all known.
func (w *walk) dynamic(s *step, call ssa.CallInstruction, t types.Type) {
	if _, ok := t.Underlying().(*types.Basic); !ok {
		w.violate(s, call, "hands on a "+types.TypeString(t, types.RelativeTo(w.pass.Pkg))+", with which the user's code may come,")
		return
	}
	for m := range types.NewMethodSet(t).Methods() {
		if fn := m.Obj().(*types.Func); fn.Pkg() == w.pass.Pkg {
			w.enter(context{w.prog.FuncValue(fn), true}, s)
		} else if !calm[fn.Pkg().Path()] {
			w.violate(s, call, "hands on what has the method "+fn.FullName()+",")
		}
	}
}

func (w *walk) violate(s *step, call ssa.CallInstruction, what string) {
	pos := call.Pos()
	if !pos.IsValid() {
		pos = s.fn.Pos()
	}
	if !slices.ContainsFunc(w.violations, func(v violation) bool { return v.pos == pos && v.what == what }) {
		w.violations = append(w.violations, violation{pos, what, s.way()})
	}
}

// way names the functions from the one that took the lock to the call.
func (s *step) way() string {
	names := []string{}
	for ; s != nil; s = s.from {
		names = append(names, nameOf(s.fn))
	}
	slices.Reverse(names)
	return strings.Join(names, " > ")
}

// nameOf returns a function's name with its type: shard.put.
func nameOf(fn *ssa.Function) string {
	if outer := fn.Parent(); outer != nil {
		return "a function in " + nameOf(outer)
	}
	if recv := fn.Signature.Recv(); recv != nil {
		return typeName(recv.Type()) + "." + fn.Name()
	}
	return fn.Name()
}

// typeName returns the name of a type, or of what it points to, alone.
func typeName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return "a struct"
}
