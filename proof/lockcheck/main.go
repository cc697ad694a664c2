package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/buildssa"
	"golang.org/x/tools/go/analysis/singlechecker"
	"golang.org/x/tools/go/ssa"
)

// Analyzer reports calls of the user's functions under the lock of a shard.
var Analyzer = &analysis.Analyzer{
	Name:      "lockcheck",
	Doc:       "report calls of the user's functions under the lock of a shard",
	Requires:  []*analysis.Analyzer{buildssa.Analyzer},
	FactTypes: []analysis.Fact{new(effects)},
	Run:       run,
}

func main() { singlechecker.Main(Analyzer) }

func run(pass *analysis.Pass) (any, error) {
	if first, _, _ := strings.Cut(pass.Pkg.Path(), "/"); !strings.Contains(first, ".") {
		return nil, nil // the standard library: see calm
	}
	c := newChecker(pass)
	if len(c.locks) == 0 {
		c.exportEffects()
	} else {
		c.checkLockUse()
		c.checkReturns()
		c.report(c.walkAll())
	}
	c.checkDirectives()
	return nil, nil
}

// walkAll starts in every function, as it is when called without the lock.
func (c *checker) walkAll() *walk {
	w := c.newWalk(nil)
	for _, fn := range c.funcs {
		w.enter(context{fn, false}, nil)
	}
	w.run()
	return w
}

func (c *checker) report(w *walk) {
	for _, v := range w.violations {
		c.pass.Reportf(v.pos, "%s under the lock of a shard: %s", v.what, v.way)
	}
}

// Effects is what is known of an exported function of a package beneath the one
// with the lock: what happens if it is called under the lock.
type effects struct {
	Violations []string
	Handed     bool // it may call what its package was handed
}

func (*effects) AFact() {}

// exportEffects works out the effects of a package that has no lock itself.
func (c *checker) exportEffects() {
	for _, fn := range c.funcs {
		if obj, ok := c.exported(fn); ok {
			w := c.newWalk(nil)
			w.enter(context{fn, true}, nil)
			w.run()
			e := &effects{Handed: w.handed}
			for _, v := range w.violations {
				p := c.pass.Fset.Position(v.pos)
				e.Violations = append(e.Violations, fmt.Sprintf("%s (%s:%d, in %s)", v.what, filepath.Base(p.Filename), p.Line, v.way))
			}
			c.pass.ExportObjectFact(obj, e)
		}
	}
}

// A checker holds what is known of one package.
type checker struct {
	pass  *analysis.Pass
	prog  *ssa.Program
	funcs []*ssa.Function // all that have a body, literals too
	index
	locks      fieldSet // the mutexes of the type shard
	directives []*directive

	callees   map[*ssa.CallCommon][]origin // see calleesOf
	resolving map[*ssa.CallCommon]bool
	flows     map[context]*flow // see flowOf
}

func newChecker(pass *analysis.Pass) *checker {
	s := pass.ResultOf[buildssa.Analyzer].(*buildssa.SSA)
	c := &checker{
		pass:      pass,
		prog:      s.Pkg.Prog,
		locks:     locksOf(pass.Pkg),
		callees:   map[*ssa.CallCommon][]origin{},
		resolving: map[*ssa.CallCommon]bool{},
	}
	for _, fn := range s.SrcFuncs {
		if len(fn.Blocks) > 0 {
			c.funcs = append(c.funcs, fn)
		}
	}
	if init := s.Pkg.Func("init"); init != nil {
		c.funcs = append(c.funcs, init) // of the package's variables
	}
	c.index = c.newIndex()
	c.directives = c.findDirectives()
	c.flows = c.solveFlows()
	return c
}
