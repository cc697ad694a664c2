// Package renamed has no type shard any more: that must not go unnoticed.
package renamed

import "sync"

type segment struct{ mu sync.Mutex }

func (s *segment) compute(f func()) {
	s.mu.Lock()
	f() /* want `not needed` */ //wheelcache:underlock documented
	s.mu.Unlock()
}
