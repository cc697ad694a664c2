package main

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// An origin is one thing that a value of a function type or an interface type may
// be. Exactly one of fn, outside, dynamic and what is set. No origins at all: the
// value is nil, or the code is never reached.
type origin struct {
	fn      *ssa.Function // of this package
	outside *types.Func   // of another one
	dynamic types.Type    // of an interface

	what string // anything else, in words
	user bool   // it is, or may be, what the user of the package gave
}

// A tracer looks for the origins of a value: back through assignments, fields,
// variables, parameters and results, in the whole package, whatever the order in
// which the program runs.
type tracer struct {
	*checker
	seen  map[any]bool
	found []origin
}

func (c *checker) originsOf(v ssa.Value) []origin {
	t := tracer{checker: c, seen: map[any]bool{}}
	t.value(v)
	return t.found
}

// calleesOf returns what a call may call.
func (c *checker) calleesOf(call *ssa.CallCommon) []origin {
	if found, ok := c.callees[call]; ok {
		return found
	}
	if c.resolving[call] {
		return []origin{{what: "a call that depends on its own result"}}
	}
	c.resolving[call] = true
	t := tracer{checker: c, seen: map[any]bool{}}
	if _, ok := types.Unalias(call.Value.Type()).(*types.TypeParam); ok && call.IsInvoke() {
		t.add(origin{what: "a method of " + call.Value.Type().String(), user: true})
	} else if call.IsInvoke() {
		t.methods(call.Value, call.Method)
	} else if _, builtin := call.Value.(*ssa.Builtin); !builtin {
		t.value(call.Value)
	}
	delete(c.resolving, call)
	c.callees[call] = t.found
	return t.found
}

func (t *tracer) first(x any) bool {
	if t.seen[x] {
		return false
	}
	t.seen[x] = true
	return true
}

func (t *tracer) add(o origin) {
	if t.first(o) {
		t.found = append(t.found, o)
	}
}

func (t *tracer) unknown(format string, args ...any) {
	t.add(origin{what: fmt.Sprintf(format, args...)})
}

func (t *tracer) value(v ssa.Value) {
	if !t.first(v) {
		return
	}
	switch v := v.(type) {
	case *ssa.Const: // nil
	case *ssa.Function:
		t.function(v)
	case *ssa.MakeClosure:
		t.closure(v)
	case *ssa.MakeInterface:
		t.add(origin{dynamic: v.X.Type()})
	case *ssa.ChangeType:
		t.value(v.X)
	case *ssa.ChangeInterface:
		t.value(v.X)
	case *ssa.TypeAssert:
		t.value(v.X)
	case *ssa.Phi:
		for _, e := range v.Edges {
			t.value(e)
		}
	case *ssa.Extract:
		t.result(v.Tuple, v.Index)
	case *ssa.Call:
		t.result(v, 0)
	case *ssa.Field:
		t.field(v.X.Type(), v.Field)
	case *ssa.UnOp:
		t.load(v)
	case *ssa.Parameter:
		t.parameter(v)
	case *ssa.FreeVar:
		for _, b := range t.bindings(v) {
			t.value(b)
		}
	default:
		t.unknown("an element of a map, slice or channel, or the like")
	}
}

func (t *tracer) function(fn *ssa.Function) {
	fn = t.declared(fn)
	if obj, ok := fn.Object().(*types.Func); ok && obj.Pkg() != t.pass.Pkg {
		t.add(origin{outside: obj})
	} else {
		t.add(origin{fn: fn})
	}
}

// closure knows methods of interfaces that have been made values; they have no
// declaration to follow.
func (t *tracer) closure(v *ssa.MakeClosure) {
	fn := v.Fn.(*ssa.Function)
	if obj, ok := fn.Object().(*types.Func); ok && types.IsInterface(obj.Signature().Recv().Type()) {
		t.methods(v.Bindings[0], obj)
		return
	}
	t.function(fn)
}

// methods finds the methods that an interface's method stands for.
func (t *tracer) methods(v ssa.Value, m *types.Func) {
	for _, o := range t.originsOf(v) {
		if o.dynamic == nil {
			t.add(o)
			continue
		}
		obj, _, _ := types.LookupFieldOrMethod(o.dynamic, true, m.Pkg(), m.Name())
		if f, ok := obj.(*types.Func); !ok || types.IsInterface(f.Signature().Recv().Type()) {
			t.unknown("a method of %s", o.dynamic)
		} else if f = f.Origin(); f.Pkg() != t.pass.Pkg {
			t.add(origin{outside: f})
		} else {
			t.add(origin{fn: t.prog.FuncValue(f)})
		}
	}
}

// result finds what may be result i of a call, or of what else has several.
func (t *tracer) result(v ssa.Value, i int) {
	switch v := v.(type) {
	case *ssa.TypeAssert:
		t.value(v.X)
	case *ssa.Call:
		for _, o := range t.calleesOf(v.Common()) {
			switch {
			case o.fn != nil:
				t.returned(o.fn, i)
			case o.outside != nil:
				t.unknown("what %s returned", o.outside.FullName())
			default:
				o.what = "what " + o.what + " returned"
				t.add(o)
			}
		}
	default:
		t.unknown("an element of a map or a channel, or the like")
	}
}

func (t *tracer) returned(fn *ssa.Function, i int) {
	if len(fn.Blocks) == 0 {
		t.unknown("what %s returned, which has no body here", nameOf(fn))
	}
	for instr := range instructions(fn) {
		if ret, ok := instr.(*ssa.Return); ok {
			t.value(ret.Results[i])
		}
	}
}

// load finds what may be at an address.
func (t *tracer) load(v *ssa.UnOp) {
	if v.Op == token.MUL {
		t.cell(v.X)
	} else {
		t.unknown("what came from a channel")
	}
}

func (t *tracer) cell(addr ssa.Value) {
	switch addr := addr.(type) {
	case *ssa.FieldAddr:
		t.field(addr.X.Type(), addr.Field)
	case *ssa.Alloc:
		t.variable(addr)
	case *ssa.FreeVar:
		for _, b := range t.bindings(addr) {
			t.cell(b)
		}
	case *ssa.Global:
		t.global(addr)
	default:
		t.unknown("what some pointer points to")
	}
}

// field finds what is stored to a field, in whichever variable of the type.
func (t *tracer) field(owner types.Type, i int) {
	f := structOf(owner).Field(i).Origin()
	if !t.first(f) {
		return
	}
	if f.Exported() || f.Pkg() != t.pass.Pkg {
		t.add(origin{what: typeName(owner) + "." + f.Name(), user: true})
	}
	if t.leaked[f] {
		t.unknown("%s.%s, whose address is taken or whose struct is converted", typeName(owner), f.Name())
	}
	for _, v := range t.stores[f] {
		t.value(v)
	}
}

// variable finds what is stored to a local variable, by closures too, which see
// it as addr.
func (t *tracer) variable(addr ssa.Value) {
	for _, use := range *addr.Referrers() {
		if closure, ok := use.(*ssa.MakeClosure); ok {
			for i, b := range closure.Bindings {
				if b == addr {
					t.variable(closure.Fn.(*ssa.Function).FreeVars[i])
				}
			}
			continue
		}
		if !loadsOrStores(use, addr) {
			t.unknown("a variable whose address is taken")
		} else if store, ok := use.(*ssa.Store); ok {
			t.value(store.Val)
		}
	}
}

func (t *tracer) global(g *ssa.Global) {
	if !t.first(g) {
		return
	}
	if token.IsExported(g.Name()) || g.Pkg.Pkg != t.pass.Pkg {
		t.add(origin{what: "the variable " + g.Name(), user: true})
	}
	for _, fn := range t.funcs {
		for instr := range instructions(fn) {
			for _, operand := range instr.Operands(nil) {
				if *operand != g {
					continue
				}
				if !loadsOrStores(instr, g) {
					t.unknown("the variable %s, whose address is taken", g.Name())
				} else if store, ok := instr.(*ssa.Store); ok {
					t.value(store.Val)
				}
			}
		}
	}
}

// parameter finds the arguments for it. An exported function is called by the
// user.
func (t *tracer) parameter(p *ssa.Parameter) {
	fn := p.Parent()
	if _, ok := t.exported(fn); ok {
		t.add(origin{what: "parameter " + p.Name() + " of " + nameOf(fn), user: true})
	}
	if t.taken[fn] {
		t.unknown("parameter %s of %s, whose callers are not all known", p.Name(), nameOf(fn))
	}
	for i := range fn.Params {
		if fn.Params[i] == p {
			for _, call := range t.calls[fn] {
				t.value(call.Args[i])
			}
		}
	}
}

// bindings returns what v, which belongs to a closure, has been made of.
func (t *tracer) bindings(v *ssa.FreeVar) (values []ssa.Value) {
	fn := v.Parent()
	for i := range fn.FreeVars {
		if fn.FreeVars[i] == v {
			for _, closure := range t.closures[fn] {
				values = append(values, closure.Bindings[i])
			}
		}
	}
	return values
}
