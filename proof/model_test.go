package proof

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/wheelcache/wheelcache/expiry"
)

// What one key may do, one operation after the other. README.md has the idea with
// a picture. All instants are nanoseconds on the cache's clock, since the history
// began.

// An op is what can be done to a key.
type op uint8

const (
	opGet op = iota
	opPeek
	opEntry
	opSee // All has, or has not, come by the key
	opSet
	opSetTTL
	opSetDeadline
	opMove
	opTouch
	opDelete
	opGetAndDelete
	opReplace
	opGetOrSet
	opCompareAndSwap
	opCompareAndDelete
	opCompute
	opClear
	opGetOrLoad
	opLoadAll // for each key it is as GetOrLoad, but that it refreshes nothing
	opRefresh
	opDeleteFunc
	calls // so many can be called; what comes of them besides, flights_test.go has

	opBegin op = iota - 1
	opLand
	opSupersede
	ops
)

var opNames = [ops]string{
	"Get", "Peek", "Entry", "All", "Set", "SetTTL", "SetDeadline", "Move", "Touch", "Delete", "GetAndDelete", "Replace",
	"GetOrSet", "CompareAndSwap", "CompareAndDelete", "Compute", "Clear", "GetOrLoad", "LoadAll", "Refresh", "DeleteFunc",
	"flight begins", "flight lands", "superseded",
}

func (o op) String() string { return opNames[o] }

// An answer is what the function given to Compute wants done.
type answer uint8

const (
	answerKeep answer = iota
	answerStore
	answerRemove
	answers
)

// A call is what an operation is asked. Values are numbers, no two the same in a
// history; how the cache stores them is the configuration's business.
type call struct {
	op       op
	key      int
	value    int64         // to be stored
	old      int64         // CompareAndSwap, CompareAndDelete
	ttl      time.Duration // SetTTL, Move
	deadline int64         // SetDeadline
	answer   answer        // Compute, if it finds an entry
	absent   answer        // and if it does not

	load       *load   // GetOrLoad, LoadAll and Refresh: value is its number
	outcome    outcome // of the loader: opBegin, opLand
	background bool    // opGetOrLoad has begun a refresh; opBegin: it is one
	lands      window  // opBegin, if it is a refresh
	forgets    bool    // opSupersede: failures, too
	sweep      sweep   // Clear and DeleteFunc, and the opSupersede that comes before
}

// A reply is what an operation has answered, and when.
type reply struct {
	value    int64 // 0 for the zero value, torn for what nobody has stored; of an error, its load
	ok       bool
	outcome  outcome // GetOrLoad and LoadAll: why it is not ok
	found    int64   // what the function given to Compute was shown
	was      bool
	deadline int64         // Entry
	ttl      time.Duration // Entry
	from, to int64         // the clock read before the call and after the return

	called, returned int64 // in the order of all calls and returns
}

// operation is what the checker is told of a call.
func operation(client int, c call, r reply) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Input: c, Call: r.called, Output: r, Return: r.returned}
}

const (
	torn  int64 = -1
	never       = expiry.NoDeadline
)

// A state is what is known of a key after some operations. Of its deadline it is
// known that it is one of lo to hi.
type state struct {
	present bool
	value   int64
	lo, hi  int64
	over    bool  // a read has found it expired; see model.early
	now     int64 // time has come at least so far
	since   int64 // no call that returned before can come any more
	sweeps  sweep // that have begun and not ended
	unslid  int64 // no call after this return can find it unchanged; 0 if any can
	loads
}

// A model is what of a configuration matters to the answers.
type model struct {
	ttl     time.Duration // what Set gives
	keeps   bool          // an overwritten entry keeps its deadline: expiry.AfterCreate
	slides  time.Duration // lifetime that a read gives: expiry.AfterAccess; 0 if none
	stretch time.Duration // a slid deadline may be earlier by less than that
	coarse  time.Duration // a lifetime of longLifetime or more may begin earlier by that
	early   bool          // what changes an entry may judge by when it was called whether it is live

	negativeTTL, errorTTL, refreshAfter, staleFor time.Duration // as in wheelcache.Options
}

// longLifetime and coarsePeriod are what the documentation of wheelcache says.
const (
	longLifetime = 2560 * time.Millisecond
	coarsePeriod = 20 * time.Millisecond
)

// given returns s with a lifetime that begins at an instant during the call.
func (m model) given(s state, ttl time.Duration, r reply) state {
	s.lo, s.hi, s.over, s.unslid = expiry.Deadline(r.from, ttl), expiry.Deadline(r.to, ttl), false, 0
	if m.coarse > 0 && ttl >= longLifetime && s.lo != never {
		s.lo -= int64(m.coarse)
	}
	return s
}

// stored returns the state after value has been stored with a lifetime.
func (m model) stored(s state, value int64, ttl time.Duration, r reply) state {
	s = s.empty()
	s.present, s.value, s.now = true, value, max(s.now, r.from)
	return m.given(s, ttl, r)
}

// changes reports whether an operation may give an entry another value or deadline.
func (m model) changes(o op) bool {
	return o >= opSet || o == opGet && m.slides > 0
}

// live returns the state after an operation has found an entry. The earliest
// moment at which that can have been is the best one to assume: all that comes
// after is bound the less by it.
func (m model) live(s state, c call, r reply) (state, bool) {
	s.now = max(s.now, r.from)
	at := s.now
	early := m.early && m.changes(c.op)
	if early {
		at = r.from
	}
	if !s.present || at >= s.hi || s.over && !early {
		return s, false
	}
	s.lo = max(s.lo, at+1)
	return s, true
}

// dead returns the state after an operation has found no entry: there was none, or
// its deadline had come. Then it has gone for good, but for those operations that
// may go by an earlier instant, and for GetOrLoad, which may find it stale.
func (m model) dead(s state, r reply) []state {
	s.now = max(s.now, r.from)
	if !s.present || s.over {
		return []state{s}
	}
	if s.now = max(s.now, s.lo); s.now > r.to {
		return nil
	}
	if !m.early && m.staleFor == 0 {
		return []state{s.gone()}
	}
	s.hi, s.over, s.unslid = min(s.hi, r.to), true, 0
	return []state{s}
}

// read returns the states after a read that counts has found an entry: by a
// sliding policy, it gives it another deadline. It does not if the entry expires
// before that, or if something else changes it: either happens before the read
// returns.
func (m model) read(live state, r reply) []state {
	if m.slides == 0 {
		return []state{live}
	}
	slid := m.given(live, m.slides, r)
	if slid.lo != never {
		slid.lo -= int64(m.stretch)
	}
	changed := live
	if changed.unslid == 0 || changed.unslid > r.returned {
		changed.unslid = r.returned
	}
	states := []state{slid, changed}
	if live.lo <= r.to {
		live.hi = min(live.hi, r.to)
		states = append(states, live)
	}
	return states
}

// next returns all states in which the key may be after the call, if it was in
// state s before: none if the reply cannot have been given then.
func (m model) next(s state, c call, r reply) []state {
	if s.unslid != 0 && r.called > s.unslid {
		return nil
	}
	var states []state
	for _, s := range m.landings(s, r) {
		states = append(states, m.after(s, c, r)...)
	}
	if m.staleFor > 0 {
		states = m.arrived(states, c, r)
	}
	return states
}

// after is next for a state in which a call can come.
func (m model) after(s state, c call, r reply) []state {
	live, isLive := m.live(s, c, r)
	dead := m.dead(s, r)
	none := !r.ok && r.value == 0
	switch c.op {
	case opGet, opPeek, opSee:
		if !r.ok {
			return only(none, dead...)
		}
		if isLive = isLive && r.value == live.value; isLive && c.op == opGet {
			return m.read(live, r)
		}
		return only(isLive, live)

	case opEntry:
		if !r.ok {
			return only(none && r.deadline == 0 && r.ttl == 0, dead...)
		}
		isLive = isLive && r.value == live.value && live.lo <= r.deadline && r.deadline <= live.hi
		live.lo, live.hi = r.deadline, r.deadline
		least, most := max(expiry.Remaining(r.deadline, r.to), 0), expiry.Remaining(r.deadline, r.from)
		return only(isLive && least <= r.ttl && r.ttl <= most, live)

	case opSet:
		if m.keeps {
			return m.updated(live, isLive, dead, c.value, r)
		}
		return []state{m.stored(s, c.value, m.ttl, r)}

	case opSetTTL:
		return only(true, m.orGone(m.stored(s, c.value, c.ttl, r), c.ttl))

	case opSetDeadline:
		s = m.stored(s, c.value, m.ttl, r)
		s.lo, s.hi = c.deadline, c.deadline
		return []state{s}

	case opMove, opTouch:
		if !r.ok {
			return dead
		}
		ttl := c.ttl
		if c.op == opTouch {
			ttl = m.ttl
		}
		return only(isLive, m.orGone(m.given(live, ttl, r), ttl))

	case opDelete, opGetAndDelete:
		if !r.ok {
			return only(none, m.invalidated(dead)...)
		}
		return only(isLive && (c.op == opDelete || r.value == live.value), live.empty())

	case opReplace:
		if !r.ok {
			return only(none, dead...)
		}
		return only(isLive && r.value == live.value, live.with(c.value))

	case opGetOrSet:
		if r.ok {
			return only(isLive && r.value == live.value, m.read(live, r)...)
		}
		return only(r.value == c.value, m.storedIn(dead, c.value, r)...)

	case opCompareAndSwap, opCompareAndDelete:
		if !r.ok {
			return append(dead, only(isLive && live.value != c.old, live)...)
		}
		isLive = isLive && live.value == c.old
		if c.op == opCompareAndDelete {
			return only(isLive, live.empty())
		}
		return only(isLive, live.with(c.value))

	case opCompute:
		return m.computed(live, isLive, dead, c, r)

	case opClear:
		s.now = max(s.now, r.from)
		return only(s.sweeps.has(c.sweep), s.gone().swept(c.sweep))

	case opDeleteFunc:
		return m.deletedMatching(live, isLive, dead, c, r)
	case opGetOrLoad, opLoadAll:
		return m.gotOrLoaded(live, isLive, dead, c, r)
	case opRefresh:
		return m.notRefreshed(s, r)
	case opBegin:
		return m.begun(s, dead, c, r)
	case opLand:
		return m.landed(s, c, r)
	case opSupersede:
		return []state{s.superseded(c, r)}
	}
	panic(fmt.Sprintf("operation %d", c.op))
}

// orGone returns s, or what becomes of it with a lifetime that is over at once.
func (m model) orGone(s state, ttl time.Duration) state {
	if ttl <= 0 {
		return s.gone()
	}
	return s
}

// empty returns s without entry and loads.
func (s state) empty() state { return state{now: s.now, since: s.since, sweeps: s.sweeps} }

// gone returns s without its entry.
func (s state) gone() state {
	loads := s.loads
	s = s.empty()
	s.loads = loads
	return s
}

// with returns s with another value and the same deadline.
func (s state) with(value int64) state {
	s.value, s.unslid, s.loads = value, 0, loads{}
	return s
}

// storedIn returns the states after a store into a key that was found dead.
func (m model) storedIn(dead []state, value int64, r reply) []state {
	states := make([]state, len(dead))
	for i, s := range dead {
		states[i] = m.stored(s, value, m.ttl, r)
	}
	return states
}

// updated returns the states after a store that keeps the deadline of what is
// live, and does not say whether anything was.
func (m model) updated(live state, isLive bool, dead []state, value int64, r reply) []state {
	states := m.storedIn(dead, value, r)
	if isLive {
		states = append(states, live.with(value))
	}
	return states
}

func (m model) computed(live state, isLive bool, dead []state, c call, r reply) []state {
	answer := c.absent
	if r.was {
		answer = c.answer
		if !isLive || r.found != live.value {
			return nil
		}
		dead = nil
	} else {
		if r.found != 0 {
			return nil
		}
		isLive = false
	}
	switch answer {
	case answerStore:
		switch {
		case !r.ok || r.value != c.value:
			return nil
		case m.keeps:
			return m.updated(live, isLive, dead, c.value, r)
		case isLive:
			return []state{m.stored(live, c.value, m.ttl, r)}
		}
		return m.storedIn(dead, c.value, r)
	case answerRemove:
		if isLive {
			live = live.empty()
		}
		return only(!r.ok && r.value == 0, append(m.invalidated(dead), only(isLive, live)...)...)
	}
	return only(r.ok == isLive && r.value == r.found, append(dead, only(isLive, live)...)...)
}

// only returns the states if they are possible.
func only(possible bool, states ...state) []state {
	if !possible {
		return nil
	}
	return states
}

// porcupine returns the model as the checker wants it. A history is linearizable
// if and only if that of each key is.
func (m model) porcupine() porcupine.Model {
	seed := maphash.MakeSeed()
	n := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []any { return []any{state{now: math.MinInt64}} },
		Step: func(s, c, r any) []any {
			var next []any
			for _, s := range m.next(s.(state), c.(call), r.(reply)) {
				next = append(next, s)
			}
			return next
		},
		Hash:              func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
		DescribeOperation: func(c, r any) string { return describe(c.(call), r.(reply)) },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return n.ToModel()
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	for _, o := range history {
		key := o.Input.(call).key
		for len(parts) <= key {
			parts = append(parts, nil)
		}
		parts[key] = append(parts[key], o)
	}
	return slices.DeleteFunc(parts, func(p []porcupine.Operation) bool { return len(p) == 0 })
}

func (s state) String() string {
	if !s.present {
		return fmt.Sprintf("absent at %s%v", instant(s.now), s.loads)
	}
	over := ""
	if s.over {
		over = "expired "
	}
	unslid := ""
	if s.unslid != 0 {
		unslid = fmt.Sprintf(", to be changed before %d", s.unslid)
	}
	return fmt.Sprintf("%s%d until [%s, %s] at %s%s%v", over, s.value, instant(s.lo), instant(s.hi), instant(s.now), unslid, s.loads)
}

func instant(t int64) string {
	switch t {
	case never:
		return "never"
	case math.MinInt64:
		return "start"
	}
	return time.Duration(t).String()
}

func lifetime(ttl time.Duration) string {
	if ttl == expiry.Never {
		return "never"
	}
	return ttl.String()
}

// describe says what an operation was, and what came of it.
func describe(c call, r reply) string {
	arguments := fmt.Sprintf("k%d", c.key)
	switch c.op {
	case opSet, opReplace, opGetOrSet, opBegin, opLand:
		arguments += fmt.Sprintf(", %d", c.value)
	case opSetTTL:
		arguments += fmt.Sprintf(", %d, %s", c.value, lifetime(c.ttl))
	case opSetDeadline:
		arguments += fmt.Sprintf(", %d, at %s", c.value, instant(c.deadline))
	case opMove:
		arguments += ", " + lifetime(c.ttl)
	case opCompareAndSwap:
		arguments += fmt.Sprintf(", %d, %d", c.old, c.value)
	case opCompareAndDelete:
		arguments += fmt.Sprintf(", %d", c.old)
	case opDeleteFunc:
		if c.old != 0 {
			arguments += fmt.Sprintf(" if %d", c.old)
		}
	case opCompute:
		answer := c.absent
		if r.was {
			answer = c.answer
		}
		arguments += fmt.Sprintf(", found %d %v, %s", r.found, r.was, [answers]string{"keep", fmt.Sprintf("store %d", c.value), "remove"}[answer])
	}
	result := ""
	switch c.op {
	case opSet, opSetTTL, opSetDeadline, opClear, opBegin, opSupersede:
	case opMove, opTouch, opDelete, opCompareAndSwap, opCompareAndDelete, opRefresh:
		result = fmt.Sprintf(" = %v", r.ok)
	case opGetOrLoad, opLoadAll, opLand:
		result = " = " + told(r)
	case opEntry:
		result = fmt.Sprintf(" = %d %v, until %s", r.value, r.ok, instant(r.deadline))
	default:
		result = fmt.Sprintf(" = %d %v", r.value, r.ok)
	}
	return fmt.Sprintf("%v(%s)%s in [%s, %s]", c.op, arguments, result, instant(r.from), instant(r.to))
}
