// Package wheel stands for one that the cache's shards own.
package wheel

import "os"

type Wheel struct {
	ahead func(int)
	Hook  func()
}

func (w *Wheel) Ahead(f func(int)) { w.ahead = f }

func (w *Wheel) Advance(now int, visit func(int)) {
	w.ahead(now)
	visit(now)
	w.Hook()
}

// Next calls nothing that it was handed.
func (w *Wheel) Next() int { return 1 }

var watchers = map[string]func(){}

func (w *Wheel) Resize() { grow() }

func grow() {
	watchers["resize"]()
	os.Getpid()
}
