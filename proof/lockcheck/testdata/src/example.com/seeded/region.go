package seeded

// Where the lock is held. user is called to see.

var User func()

func user() {
	User() // want `the user's code, the variable User,`
}

func inTry(s *shard[int]) {
	if s.mu.TryLock() {
		User() // want `the variable User`
		s.mu.Unlock()
	}
	if !s.mu.TryLock() {
		User()
		return
	}
	User() // want `the variable User`
	s.mu.Unlock()
	ok := s.mu.TryLock()
	User() // want `the variable User`
	if ok {
		s.mu.Unlock()
	}
}

func onSomeWay(s *shard[int], hurry bool) {
	if hurry {
		s.mu.Lock()
	}
	User() // want `the variable User`
	if hurry {
		s.mu.Unlock()
	}
}

func inLoop(s *shard[int]) {
	for range 3 {
		User()      // want `the variable User`
		s.mu.Lock() // want `locks a shard under the lock of a shard: inLoop`
	}
}

func byHelper(s *shard[int]) {
	User()
	lock(s)
	User() // want `the variable User`
	unlock(s)
	User()
	lockForNow(s)
	User()
}

func lock(s *shard[int])   { s.mu.Lock() }
func unlock(s *shard[int]) { s.mu.Unlock() }

func lockForNow(s *shard[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user()
}

func deferredUnlockMissingSomewhere(s *shard[int], sure bool) {
	s.mu.Lock()
	if sure {
		defer s.mu.Unlock()
	}
}

func afterThat(s *shard[int]) {
	deferredUnlockMissingSomewhere(s, false)
	User() // want `the variable User`
}

func inDeferred(s *shard[int]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer User() // want `the variable User`
	defer func() {
		User() // want `the variable User`
	}()
}

func deferredBeforeTheLock(s *shard[int]) {
	defer User() // want `the variable User`
	s.mu.Lock()
	s.keys = nil // if that panics, the lock is held
	s.mu.Unlock()
}

func afterTheDeferredUnlock(s *shard[int]) {
	s.mu.Lock()
	defer func() {
		s.mu.Unlock()
		User()
	}()
}

func onAnotherGoroutine(s *shard[int]) {
	s.mu.Lock()
	go User()
	go user()
	s.mu.Unlock()
}

func (c *Cache[K]) Forgets(key K) bool {
	s := c.at(key)
	s.mu.Lock()
	if len(s.keys) == 0 {
		return false // want `Cache.Forgets returns with the lock of a shard held`
	}
	s.mu.Unlock()
	return true
}

func (c *Cache[K]) ForgetsAtTheEnd(key K) { // want `returns with the lock of a shard held`
	c.at(key).mu.Lock()
}

func twice(s, other *shard[int]) {
	s.mu.Lock()
	other.mu.Lock() // want `locks a shard under the lock of a shard: twice`
	other.mu.Unlock()
	s.mu.Unlock()
}

func elsewhere(s *shard[int]) {
	mu := &s.mu
	mu.Lock()
	User() // want `the variable User`
	mu.Unlock()
	unlock := s.mu.Unlock // want `the lock of a shard is used otherwise than by calling its methods`
	unlock()
}
