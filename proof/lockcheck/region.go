package main

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// Holding says whether the lock is held at a point of a function. It is the worst
// of all ways that lead there.
type holding uint8

const (
	free     holding = iota
	deferred         // held, and a deferred call releases it
	held
)

// A context is a function together with whether the lock is held when it is
// called.
type context struct {
	fn   *ssa.Function
	held bool
}

// A flow says where in a context the lock is held.
type flow struct {
	at   map[ssa.Instruction]holding // before it
	some bool                        // somewhere
	exit bool                        // on return
}

// locksOf returns the mutexes of the type shard.
func locksOf(pkg *types.Package) fieldSet {
	locks := fieldSet{}
	if obj, ok := pkg.Scope().Lookup("shard").(*types.TypeName); ok {
		if s := structOf(obj.Type()); s != nil {
			for f := range s.Fields() {
				if t := f.Type().String(); t == "sync.Mutex" || t == "sync.RWMutex" {
					locks[f.Origin()] = true
				}
			}
		}
	}
	return locks
}

// A lockOp is what a call does to the lock.
type lockOp uint8

const (
	opNone lockOp = iota
	opLock
	opTry
	opUnlock
)

var lockOps = map[string]lockOp{
	"Lock": opLock, "RLock": opLock,
	"TryLock": opTry, "TryRLock": opTry,
	"Unlock": opUnlock, "RUnlock": opUnlock,
}

func (c *checker) lockOpOf(call *ssa.CallCommon) lockOp {
	fn := call.StaticCallee()
	if fn == nil || len(call.Args) == 0 {
		return opNone
	}
	if addr, ok := call.Args[0].(*ssa.FieldAddr); ok && c.locks[fieldAt(addr)] {
		return lockOps[fn.Name()]
	}
	return opNone
}

// checkLockUse reports uses of the lock that flows would not see.
func (c *checker) checkLockUse() {
	for _, fn := range c.funcs {
		for instr := range instructions(fn) {
			addr, ok := instr.(*ssa.FieldAddr)
			if !ok || !c.locks[fieldAt(addr)] {
				continue
			}
			for _, use := range *addr.Referrers() {
				call, ok := use.(ssa.CallInstruction)
				_, started := use.(*ssa.Go)
				if !ok || started || c.lockOpOf(call.Common()) == opNone {
					c.pass.Reportf(use.Pos(), "the lock of a shard is used otherwise than by calling its methods; that cannot be followed")
				}
			}
		}
	}
}

// checkReturns reports where the lock is still held when the user goes on: at the
// returns of exported functions, and of those that may be called from anywhere.
func (c *checker) checkReturns() {
	for _, fn := range c.funcs {
		if _, ok := c.exported(fn); !ok && !c.taken[fn] {
			continue
		}
		for instr, h := range c.flows[context{fn, false}].at {
			if ret, ok := instr.(*ssa.Return); ok && h != free {
				pos := ret.Pos()
				if !pos.IsValid() {
					pos = fn.Pos()
				}
				c.pass.Reportf(pos, "%s returns with the lock of a shard held", nameOf(fn))
			}
		}
	}
}

// solveFlows works out the flows of all contexts. What a call leaves behind depends
// on the flow of what is called, so it goes over them until nothing changes.
func (c *checker) solveFlows() map[context]*flow {
	c.flows = map[context]*flow{}
	for changed := true; changed; {
		changed = false
		for _, fn := range c.funcs {
			for _, entry := range []bool{false, true} {
				ctx := context{fn, entry}
				f, before := c.flowOf(ctx), c.flows[ctx]
				changed = changed || before == nil || before.exit != f.exit
				c.flows[ctx] = f
			}
		}
	}
	return c.flows
}

func (c *checker) flowOf(ctx context) *flow {
	f := &flow{at: map[ssa.Instruction]holding{}}
	entry := free
	if ctx.held {
		entry = held
	}
	in := map[*ssa.BasicBlock]holding{}
	todo := []*ssa.BasicBlock{}
	reach := func(b *ssa.BasicBlock, h holding) {
		if old, ok := in[b]; !ok || h > old {
			in[b] = h
			todo = append(todo, b)
		}
	}
	reach(ctx.fn.Blocks[0], entry)
	for len(todo) > 0 {
		b := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		out := c.through(f, b, in[b])
		for i, next := range b.Succs {
			h := out
			if i == 0 && c.endsInTry(b) {
				h = held
			}
			reach(next, h)
		}
	}
	return f
}

// through goes through a block.
func (c *checker) through(f *flow, b *ssa.BasicBlock, h holding) holding {
	for _, instr := range b.Instrs {
		f.at[instr] = h
		f.some = f.some || h != free
		switch instr := instr.(type) {
		case *ssa.Call:
			h = c.afterCall(instr, h)
		case *ssa.Defer:
			if h == held && c.releases(instr.Common()) {
				h = deferred
			}
		case *ssa.RunDefers:
			if h == deferred {
				h = free
			}
		case *ssa.Return:
			f.exit = f.exit || h != free
		}
	}
	return h
}

func (c *checker) afterCall(call *ssa.Call, h holding) holding {
	switch c.lockOpOf(call.Common()) {
	case opLock:
		return held
	case opUnlock:
		return free
	case opTry:
		if !c.endsInTry(call.Block()) {
			return held
		}
		return h
	}
	after := false
	callees := c.calleesOf(call.Common())
	for _, o := range callees {
		if f := c.flows[context{o.fn, h != free}]; f != nil {
			after = after || f.exit
		} else if o.fn == nil || len(o.fn.Blocks) == 0 {
			after = after || h != free // it leaves the lock as it is
		}
	}
	switch {
	case len(callees) == 0, after && h == deferred:
		return h
	case after:
		return held
	}
	return free
}

// endsInTry reports whether a block ends in TryLock and an if that asks, as nobody
// else does, whether it has succeeded.
func (c *checker) endsInTry(b *ssa.BasicBlock) bool {
	n := len(b.Instrs)
	branch, ok := b.Instrs[n-1].(*ssa.If)
	if !ok || n < 2 {
		return false
	}
	call, ok := b.Instrs[n-2].(*ssa.Call)
	return ok && branch.Cond == call && len(*call.Referrers()) == 1 && c.lockOpOf(call.Common()) == opTry
}

// releases reports whether a deferred call releases the lock.
func (c *checker) releases(call *ssa.CallCommon) bool {
	if c.lockOpOf(call) == opUnlock {
		return true
	}
	callees := c.calleesOf(call)
	for _, o := range callees {
		if f := c.flows[context{o.fn, true}]; f == nil || f.exit {
			return false
		}
	}
	return len(callees) > 0
}
