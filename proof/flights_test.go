package proof

import (
	"fmt"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

// What loading does to one key. A load is of two moments: its flight begins, and it
// lands. In between it may be superseded, and then it lands without effect.
//
//	GetOrLoad |---------------------------------------------|
//	loader              |----------------|
//	begins    |---------|                |------------------| lands
//
// Where somebody waits, both are operations. A refresh lands like an entry expires: nobody
// calls, and it is known between which moments it was. So each operation finds it landed
// or under way, or may find either.
//
// Each load has a number of its own, which is the value that it brings, or stands in
// its error. So whoever is told a value or an error says from which load it is.

// An outcome is what a loader answers.
type outcome uint8

const (
	outcomeValue outcome = iota
	outcomeNotFound
	outcomeError
)

// loads is what is known of the loads of a key.
type loads struct {
	flight  flight
	failure failure
}

// A flight is one that will be stored when it lands. Those that have been superseded
// are in no state: nobody can join them any more.
type flight struct {
	number int64 // of the load; 0 if there is no flight

	// What those who wait are told: a value, that of the load or a stale one, or the
	// load's error.
	value   int64
	outcome outcome

	lands window // of a refresh
}

// A window is a time somewhere in which something happens.
type window struct{ first, last moment }

// A failure is what is remembered of a load that has failed, until an instant from lo
// to hi.
type failure struct {
	number  int64 // of the load; 0 if nothing is remembered
	outcome outcome
	quiet   bool // only refreshes are kept from being begun
	lo, hi  int64
	over    bool // somebody has found that it is forgotten; see model.early
}

// Clear and DeleteFunc are a sweep, of two operations: first they supersede what is being
// loaded, then they come by the entry. What is begun and stored in between may stay.
//
// A sweep is a bit for each client. It is 0 where there are no loads, and one operation
// does.
type sweep uint8

func (all sweep) has(one sweep) bool { return all&one == one }

// swept returns s after the end of a sweep.
func (s state) swept(one sweep) state {
	s.sweeps &^= one
	return s
}

// refreshPause is for how long a failed refresh keeps others of the key from being
// begun, where ErrorTTL does not say so.
const refreshPause = time.Second

// tells reports whether a reply is the error of this load.
func tells(r reply, number int64, o outcome) bool {
	return !r.ok && o != outcomeValue && r.value == number && r.outcome == o
}

// tells reports whether a reply is what those get who wait for the flight.
func (f flight) tells(r reply) bool {
	if f.outcome == outcomeValue {
		return r.ok && r.value == f.value
	}
	return tells(r, f.number, f.outcome)
}

// superseded returns the state after what is being loaded has been superseded.
func (s state) superseded(c call, r reply) state {
	s.now, s.flight = max(s.now, r.from), flight{}
	s.sweeps |= c.sweep
	if c.forgets {
		s.failure = failure{}
	}
	return s
}

// invalidated returns the states after something has been removed that was dead: it is
// no longer stale, and what is being loaded has been superseded.
func (m model) invalidated(dead []state) []state {
	states := make([]state, len(dead))
	for i, s := range dead {
		if m.staleFor > 0 {
			s = s.gone()
		}
		s.loads = loads{}
		states[i] = s
	}
	return states
}

// deletedMatching returns the states after DeleteFunc has come by the key.
func (m model) deletedMatching(live state, isLive bool, dead []state, c call, r reply) (states []state) {
	matches := c.old == 0 || live.value == c.old
	switch {
	case r.ok:
		states = only(isLive && matches && r.value == live.value, live.empty())
	case m.staleFor > 0: // it does not tell whether it has met what is stale
		states = append(m.invalidated(dead), dead...)
	default:
		states = dead
	}
	if !r.ok {
		states = append(states, only(isLive && !matches, live)...)
	}
	for i, s := range states {
		if states[i] = s.swept(c.sweep); !s.sweeps.has(c.sweep) {
			return nil
		}
	}
	return states
}

// gotOrLoaded returns the states after a GetOrLoad that has begun no flight to wait for.
func (m model) gotOrLoaded(live state, isLive bool, dead []state, c call, r reply) (states []state) {
	if r.ok && isLive && r.value == live.value && (!c.background || m.due(live, r)) {
		states = m.read(live, r)
	}
	if c.background {
		return states // only who finds an entry begins a refresh
	}
	for _, s := range dead {
		if s.flight.number != 0 {
			states = append(states, only(s.flight.tells(r), s)...)
		} else {
			states = append(states, m.remembered(s, r)...)
		}
	}
	return states
}

// due reports whether an entry that was found may have been so old that a refresh is due.
func (m model) due(live state, r reply) bool {
	return m.refreshAfter > 0 && expiry.Remaining(live.lo, r.to) <= m.ttl-m.refreshAfter
}

// remembered returns the states after a GetOrLoad has been told what is remembered of a
// failed load: its error, or what is stale.
func (m model) remembered(dead state, r reply) (states []state) {
	if s, ok := m.stale(dead, r); ok && r.ok && s.value == r.value && s.failure.outcome == outcomeError {
		s, ok = m.failed(s, r)
		return only(ok && !s.failure.quiet, s)
	}
	s, ok := dead, true
	if s.failure.outcome == outcomeError {
		s, ok = m.notStale(s, r)
	}
	if s, failed := m.failed(s, r); failed {
		return only(ok && !s.failure.quiet && tells(r, s.failure.number, s.failure.outcome), s)
	}
	return nil
}

// notRefreshed returns the states after a Refresh that has begun no flight: there is
// one, or a load has failed.
func (m model) notRefreshed(s state, r reply) []state {
	if s.now = max(s.now, r.from); s.flight.number != 0 {
		return []state{s}
	}
	s, ok := m.failed(s, r)
	return only(ok, s)
}

// begun returns the states after a flight has begun.
func (m model) begun(s state, dead []state, c call, r reply) (states []state) {
	if c.background {
		s.now = max(s.now, r.from)
		dead = []state{s}
	}
	for _, s := range dead {
		ok := true
		if c.background || !s.failure.quiet {
			s, ok = m.forgotten(s, r)
		}
		ok = ok && s.flight.number == 0
		s.flight = flight{c.value, r.value, r.outcome, c.lands}
		states = append(states, only(ok, s)...)
	}
	return states
}

// landings returns the states in which an operation may find the key, given that a
// refresh may land before it.
func (m model) landings(s state, r reply) (states []state) {
	if r.returned < s.since {
		return nil
	}
	f := s.flight
	if f.lands == (window{}) {
		return []state{s}
	}
	first, last := f.lands.first, f.lands.last
	if r.called <= last.order {
		states = append(states, s)
	}
	if r.returned < first.order || s.unslid != 0 && first.order > s.unslid {
		return states
	}
	c := call{op: opLand, value: f.number, outcome: f.outcome, background: true}
	told := reply{value: f.number, ok: f.outcome == outcomeValue, outcome: f.outcome, from: first.clock, to: last.clock}
	for _, s := range m.landed(s, c, told) {
		s.since = max(s.since, first.order)
		states = append(states, s)
	}
	return states
}

// landed returns the states after a flight has landed. The reply is what those are told
// who wait.
func (m model) landed(s state, c call, r reply) []state {
	s.now = max(s.now, r.from)
	stands := s.flight.number == c.value
	toldError := tells(r, c.value, c.outcome)
	switch {
	case c.outcome == outcomeValue:
		if stands {
			s = m.stored(s, c.value, m.ttl, r)
		}
		return only(r.ok && r.value == c.value, s)
	case !stands:
		return only(toldError, s)
	case c.outcome == outcomeNotFound:
		return only(toldError, m.remembering(s.gone(), c, r))
	}
	if stale, ok := m.stale(s, r); r.ok {
		return only(ok && r.value == stale.value, m.remembering(stale, c, r))
	}
	s, ok := m.notStale(s, r)
	return only(ok && toldError, m.remembering(s, c, r))
}

// remembering returns s after its flight has failed.
func (m model) remembering(s state, c call, r reply) state {
	s.loads = loads{}
	ttl, quiet := m.errorTTL, false
	switch {
	case c.outcome == outcomeNotFound:
		ttl = m.negativeTTL
	case ttl == 0 && c.background:
		ttl, quiet = refreshPause, true
	}
	if ttl > 0 {
		s.failure = failure{number: c.value, outcome: c.outcome, quiet: quiet, lo: expiry.Deadline(r.from, ttl), hi: expiry.Deadline(r.to, ttl)}
	}
	return s
}

// failed is live for the failure that is remembered.
func (m model) failed(s state, r reply) (state, bool) {
	s.now = max(s.now, r.from)
	at := s.now
	if m.early {
		at = r.from
	}
	if s.failure.number == 0 || at >= s.failure.hi || s.failure.over && !m.early {
		return s, false
	}
	s.failure.lo = max(s.failure.lo, at+1)
	return s, true
}

// forgotten is dead for the failure that is remembered.
func (m model) forgotten(s state, r reply) (state, bool) {
	s.now = max(s.now, r.from)
	if s.failure.number == 0 || s.failure.over {
		return s, true
	}
	if s.now = max(s.now, s.failure.lo); s.now > r.to {
		return s, false
	}
	if !m.early {
		s.failure = failure{}
		return s, true
	}
	s.failure.hi, s.failure.over = min(s.failure.hi, r.to), true
	return s, true
}

// stale returns the state after an operation has found the entry, which is dead, and
// may be served all the same.
func (m model) stale(s state, r reply) (state, bool) {
	if m.staleFor == 0 || !s.present || !s.over || s.now >= expiry.Deadline(s.hi, m.staleFor) {
		return s, false
	}
	s.lo = max(s.lo, s.now+1-int64(m.staleFor))
	return s, true
}

// notStale returns the state after an operation has found nothing that may be served.
func (m model) notStale(s state, r reply) (state, bool) {
	if m.staleFor == 0 || !s.present || !s.over {
		return s, true
	}
	s.now = max(s.now, expiry.Deadline(s.lo, m.staleFor))
	return s.gone(), s.now <= r.to
}

// arrived returns the states after a call, given that what has expired on arrival is
// not stale: it never was there.
func (m model) arrived(states []state, c call, r reply) (all []state) {
	switch c.op {
	case opSetDeadline, opGetOrSet, opCompute:
	default:
		return states
	}
	for _, s := range states {
		stored := s.present && s.value == c.value
		if !stored || s.hi > r.from {
			all = append(all, s)
		}
		if stored && s.lo <= r.to {
			all = append(all, s.gone())
		}
	}
	return all
}

func (l loads) String() string {
	text := ""
	if l.flight.number != 0 {
		text += fmt.Sprintf(", load %d under way", l.flight.number)
	}
	if w := l.flight.lands; w != (window{}) {
		text += fmt.Sprintf(" until [%s, %s]", instant(w.first.clock), instant(w.last.clock))
	}
	if f := l.failure; f.number != 0 {
		over := ""
		if f.over {
			over = "expired "
		}
		text += fmt.Sprintf(", %s%v remembered until [%s, %s]", over, told(reply{value: f.number, outcome: f.outcome}), instant(f.lo), instant(f.hi))
	}
	return text
}

// told describes what somebody is told who waits for a load.
func told(r reply) string {
	switch {
	case r.ok:
		return fmt.Sprint(r.value)
	case r.outcome == outcomeNotFound:
		return fmt.Sprintf("not found by load %d", r.value)
	}
	return fmt.Sprintf("error of load %d", r.value)
}
