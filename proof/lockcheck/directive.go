package main

import (
	"go/token"
	"strings"
)

// A directive lets the calls on its line pass, with all that they lead to:
//
//	f(old) //wheelcache:underlock Compute says so
type directive struct {
	pos    token.Pos
	reason string
}

const directivePrefix = "//wheelcache:underlock"

func (c *checker) findDirectives() (found []*directive) {
	for _, file := range c.pass.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if rest, ok := strings.CutPrefix(comment.Text, directivePrefix); ok {
					found = append(found, &directive{comment.Pos(), strings.TrimSpace(rest)})
				}
			}
		}
	}
	return found
}

// directiveAt returns the directive on the line of pos, or nil.
func (c *checker) directiveAt(pos token.Pos) *directive {
	p := c.pass.Fset.Position(pos)
	for _, d := range c.directives {
		if q := c.pass.Fset.Position(d.pos); q.Filename == p.Filename && q.Line == p.Line {
			return d
		}
	}
	return nil
}

// checkDirectives reports those without a reason, and those that let nothing pass:
// without it, nothing would be reported.
func (c *checker) checkDirectives() {
	w := c.walkAll()
	for _, d := range c.directives {
		if d.reason == "" {
			c.pass.Reportf(d.pos, "%s needs a reason", directivePrefix)
		}
		without := c.newWalk(d)
		for _, covered := range w.covered[d] {
			without.call(covered.step, covered.call)
		}
		without.run()
		if len(without.violations) == 0 {
			c.pass.Reportf(d.pos, "%s is not needed: no user's code is called here under the lock", directivePrefix)
		}
	}
}
