package main

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// An index says where functions, fields and closures are used in the package.
type index struct {
	calls    map[*ssa.Function][]*ssa.CallCommon  // by the function that is called, where it is named
	closures map[*ssa.Function][]*ssa.MakeClosure // by the function literal
	taken    map[*ssa.Function]bool               // is used as a value: may be called from anywhere
	stores   map[*types.Var][]ssa.Value           // to fields
	leaked   fieldSet                             // fields whose address goes elsewhere
	handed   map[*types.Package][]ssa.Value       // arguments and fields given to other packages
}

type fieldSet map[*types.Var]bool

func (c *checker) newIndex() index {
	x := index{
		calls:    map[*ssa.Function][]*ssa.CallCommon{},
		closures: map[*ssa.Function][]*ssa.MakeClosure{},
		taken:    map[*ssa.Function]bool{},
		stores:   map[*types.Var][]ssa.Value{},
		leaked:   fieldSet{},
		handed:   map[*types.Package][]ssa.Value{},
	}
	for _, fn := range c.funcs {
		for instr := range instructions(fn) {
			c.indexFunctions(&x, instr)
			c.indexFields(&x, instr)
		}
	}
	return x
}

func instructions(fn *ssa.Function) func(yield func(ssa.Instruction) bool) {
	return func(yield func(ssa.Instruction) bool) {
		for _, b := range fn.Blocks {
			for _, instr := range b.Instrs {
				if !yield(instr) {
					return
				}
			}
		}
	}
}

// indexFunctions notes calls, and functions that are used otherwise.
func (c *checker) indexFunctions(x *index, instr ssa.Instruction) {
	var called *ssa.Value
	if call, ok := instr.(ssa.CallInstruction); ok {
		common := call.Common()
		if fn := common.StaticCallee(); fn != nil {
			called = &common.Value
			fn = c.declared(fn)
			x.calls[fn] = append(x.calls[fn], common)
			if obj, ok := fn.Object().(*types.Func); ok && obj.Pkg() != c.pass.Pkg {
				x.handed[obj.Pkg()] = append(x.handed[obj.Pkg()], common.Args...)
			}
		}
	}
	closure, isClosure := instr.(*ssa.MakeClosure)
	if isClosure {
		fn := c.declared(closure.Fn.(*ssa.Function))
		x.closures[fn] = append(x.closures[fn], closure)
	}
	if iface, ok := instr.(*ssa.MakeInterface); ok {
		for m := range types.NewMethodSet(iface.X.Type()).Methods() {
			if fn := c.prog.FuncValue(m.Obj().(*types.Func).Origin()); fn != nil {
				x.taken[fn] = true // it may be called as a method of the interface
			}
		}
	}
	for _, operand := range instr.Operands(nil) {
		if operand == called || isClosure && operand == &closure.Fn {
			continue
		}
		switch v := (*operand).(type) {
		case *ssa.Function:
			x.taken[c.declared(v)] = true
		case *ssa.MakeClosure:
			x.taken[c.declared(v.Fn.(*ssa.Function))] = true
		}
	}
}

// indexFields notes what is stored to fields, and addresses of fields that are
// used for more than loading and storing.
func (c *checker) indexFields(x *index, instr ssa.Instruction) {
	switch instr := instr.(type) {
	case *ssa.Store:
		if addr, ok := instr.Addr.(*ssa.FieldAddr); ok {
			f := fieldAt(addr)
			x.stores[f] = append(x.stores[f], instr.Val)
			if f.Pkg() != c.pass.Pkg {
				x.handed[f.Pkg()] = append(x.handed[f.Pkg()], instr.Val)
			}
		}
	case *ssa.FieldAddr:
		for _, use := range *instr.Referrers() {
			if !loadsOrStores(use, instr) {
				x.leaked[fieldAt(instr)] = true
			}
		}
	case *ssa.ChangeType:
		x.convert(instr.X.Type(), instr.Type())
	case *ssa.Convert:
		x.convert(instr.X.Type(), instr.Type())
	case *ssa.MultiConvert:
		x.convert(instr.X.Type(), instr.Type())
	}
}

// convert gives up on the fields of structs of which one becomes another.
func (x *index) convert(from, to types.Type) {
	a, b := structOf(from), structOf(to)
	if a == nil || b == nil {
		return
	}
	for i := range a.NumFields() { // they have as many, of the same types
		if f, g := a.Field(i).Origin(), b.Field(i).Origin(); f != g {
			x.leaked[f], x.leaked[g] = true, true
		}
	}
}

func loadsOrStores(use ssa.Instruction, addr ssa.Value) bool {
	switch use := use.(type) {
	case *ssa.Store:
		return use.Addr == addr && use.Val != addr
	case *ssa.UnOp:
		return use.Op == token.MUL
	case *ssa.DebugRef:
		return true
	}
	return false
}

// declared returns the function as the source has it, for an instance of a
// generic one or a wrapper that binds a receiver.
func (c *checker) declared(fn *ssa.Function) *ssa.Function {
	if obj, ok := fn.Object().(*types.Func); ok {
		if f := c.prog.FuncValue(obj.Origin()); f != nil {
			return f
		}
	}
	return fn
}

// structOf returns the struct that t is or points to, or nil.
func structOf(t types.Type) *types.Struct {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, _ := t.Underlying().(*types.Struct)
	return s
}

// fieldAt returns the field as it is declared, of generic types too.
func fieldAt(addr *ssa.FieldAddr) *types.Var {
	return structOf(addr.X.Type()).Field(addr.Field).Origin()
}

// exported returns the object of a function that other packages can call.
func (c *checker) exported(fn *ssa.Function) (*types.Func, bool) {
	obj, ok := fn.Object().(*types.Func)
	return obj, ok && obj.Exported()
}
