package proof

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

// A checker that always says yes proves nothing. Here it is shown what it must say
// no to, and what it must not.

// during is an operation on key 0 that was called and returned at these instants,
// which serve as the order of calls, too.
func during(from, to int64, c call, r reply) porcupine.Operation {
	r.from, r.to, r.called, r.returned = from, to, from, to
	return operation(int(from), c, r)
}

var (
	none = reply{}
	yes  = reply{ok: true}
)

func is(value int64) reply    { return reply{value: value, ok: true} }
func notSo(value int64) reply { return reply{value: value} }

func got(from, to int64, r reply) porcupine.Operation { return during(from, to, call{op: opGet}, r) }

func set(from, to, value int64) porcupine.Operation {
	return during(from, to, call{op: opSet, value: value}, none)
}

func setTTL(from, to, value int64, ttl time.Duration) porcupine.Operation {
	return during(from, to, call{op: opSetTTL, value: value, ttl: ttl}, none)
}

func setDeadline(from, to, value, deadline int64) porcupine.Operation {
	return during(from, to, call{op: opSetDeadline, value: value, deadline: deadline}, none)
}

func moved(from, to int64, ttl time.Duration, ok bool) porcupine.Operation {
	return during(from, to, call{op: opMove, ttl: ttl}, reply{ok: ok})
}

func plainly(o op, from, to int64, r reply) porcupine.Operation {
	return during(from, to, call{op: o}, r)
}

func replaced(from, to, value int64, r reply) porcupine.Operation {
	return during(from, to, call{op: opReplace, value: value}, r)
}

func gotOrSet(from, to, value int64, r reply) porcupine.Operation {
	return during(from, to, call{op: opGetOrSet, value: value}, r)
}

func swapped(from, to, old, value int64, ok bool) porcupine.Operation {
	return during(from, to, call{op: opCompareAndSwap, old: old, value: value}, reply{ok: ok})
}

func computed(from, to, found int64, a answer, value int64, r reply) porcupine.Operation {
	r.found, r.was = found, found != 0
	return during(from, to, call{op: opCompute, answer: a, absent: a, value: value}, r)
}

func entry(from, to, value, deadline int64, ttl time.Duration) porcupine.Operation {
	return during(from, to, call{op: opEntry}, reply{value: value, ok: true, deadline: deadline, ttl: ttl})
}

func TestCheckerSaysNoAndYes(t *testing.T) {
	const ms = int64(time.Millisecond)
	type operations = []porcupine.Operation
	lives := model{ttl: 100}
	early := model{ttl: 100, early: true}
	keeps := model{ttl: 100, keeps: true}
	slides := model{ttl: 50, slides: 50}
	stretch := model{ttl: 50, slides: 50, stretch: 10}
	coarse := model{ttl: 3 * time.Second, coarse: coarsePeriod}

	for _, c := range []struct {
		name    string
		model   model
		legal   bool
		history operations
	}{
		// What is there.
		{"read of what was set", lives, true, operations{set(0, 1, 1), got(2, 3, is(1))}},
		{"read before anything was set", lives, false, operations{got(0, 1, is(1)), set(2, 3, 1)}},
		{"read during Set", lives, true, operations{set(0, 9, 1), got(2, 3, is(1)), got(4, 5, is(1))}},
		{"read during Set, not yet there", lives, true, operations{set(0, 9, 1), got(2, 3, none), got(4, 5, is(1))}},
		{"read during Set, there and gone", lives, false, operations{set(0, 9, 1), got(2, 3, is(1)), got(4, 5, none)}},
		{"lost Set", lives, false, operations{set(0, 1, 1), set(2, 3, 2), got(4, 5, is(1))}},
		{"Set without effect", lives, false, operations{set(0, 1, 1), got(2, 3, none)}},
		{"old value after the new", lives, false, operations{set(0, 1, 1), set(2, 20, 2), got(4, 5, is(2)), got(6, 7, is(1))}},
		{"new value after the old", lives, true, operations{set(0, 1, 1), set(2, 20, 2), got(4, 5, is(1)), got(6, 7, is(2))}},
		{"two readers disagree on the order", lives, false, operations{
			set(0, 30, 1), set(1, 31, 2), got(2, 3, is(1)), got(4, 5, is(2)), got(6, 7, is(1)),
		}},
		{"torn value", lives, false, operations{set(0, 1, 1), set(2, 9, 2), got(3, 4, is(torn))}},
		{"value that nobody has stored", lives, false, operations{set(0, 1, 1), got(2, 3, is(9))}},
		{"miss with a value", lives, false, operations{got(0, 1, notSo(1))}},
		{"read after Delete", lives, false, operations{set(0, 1, 1), plainly(opDelete, 2, 3, yes), got(4, 5, is(1))}},
		{"read during Delete", lives, true, operations{set(0, 1, 1), plainly(opDelete, 2, 9, yes), got(4, 5, is(1))}},
		{"Delete of nothing", lives, false, operations{plainly(opDelete, 0, 1, yes)}},
		{"Delete that has not found what is there", lives, false, operations{set(0, 1, 1), plainly(opDelete, 2, 3, none)}},
		{"two Deletes of one value", lives, false, operations{set(0, 1, 1), plainly(opDelete, 2, 5, yes), plainly(opDelete, 3, 6, yes)}},
		{"value got and deleted twice", lives, false, operations{set(0, 1, 1), plainly(opGetAndDelete, 2, 5, is(1)), plainly(opGetAndDelete, 3, 6, is(1))}},
		{"value got and deleted once", lives, true, operations{set(0, 1, 1), plainly(opGetAndDelete, 2, 5, is(1)), plainly(opGetAndDelete, 3, 6, none)}},
		{"wrong value got and deleted", lives, false, operations{set(0, 1, 1), set(2, 3, 2), plainly(opGetAndDelete, 4, 5, is(1))}},
		{"read after Clear", lives, false, operations{set(0, 1, 1), plainly(opClear, 2, 3, none), got(4, 5, is(1))}},
		{"stored during Clear", lives, true, operations{plainly(opClear, 0, 9, none), set(2, 3, 1), got(10, 11, is(1))}},
		{"present key that All does not see", lives, false, operations{set(0, 1, 1), plainly(opSee, 2, 3, none)}},
		{"deleted key that All sees", lives, false, operations{set(0, 1, 1), plainly(opDelete, 2, 3, yes), plainly(opSee, 4, 5, is(1))}},

		// Changes that depend on what is there.
		{"Replace of nothing", lives, false, operations{replaced(0, 1, 2, is(1))}},
		{"Replace that has not found what is there", lives, false, operations{set(0, 1, 1), replaced(2, 3, 2, none)}},
		{"one value replaced twice", lives, false, operations{set(0, 1, 1), replaced(2, 5, 2, is(1)), replaced(3, 6, 3, is(1))}},
		{"one after the other replaced", lives, true, operations{set(0, 1, 1), replaced(2, 5, 2, is(3)), replaced(3, 6, 3, is(1))}},
		{"Replace without effect", lives, false, operations{set(0, 1, 1), replaced(2, 3, 2, is(1)), got(4, 5, is(1))}},
		{"GetOrSet that stores twice", lives, false, operations{gotOrSet(0, 5, 1, notSo(1)), gotOrSet(1, 6, 2, notSo(2))}},
		{"GetOrSet that stores once", lives, true, operations{gotOrSet(0, 5, 1, is(2)), gotOrSet(1, 6, 2, notSo(2))}},
		{"GetOrSet that stores and answers another value", lives, false, operations{gotOrSet(0, 1, 1, notSo(2))}},
		{"GetOrSet that does not store", lives, false, operations{gotOrSet(0, 1, 1, notSo(1)), got(2, 3, none)}},
		{"CompareAndSwap that succeeds twice", lives, false, operations{set(0, 1, 1), swapped(2, 5, 1, 2, true), swapped(3, 6, 1, 3, true)}},
		{"CompareAndSwap that succeeds once", lives, true, operations{set(0, 1, 1), swapped(2, 5, 1, 2, true), swapped(3, 6, 1, 3, false)}},
		{"CompareAndSwap that never succeeds", lives, false, operations{set(0, 1, 1), swapped(2, 5, 1, 2, false), swapped(3, 6, 1, 3, false)}},
		{"CompareAndSwap of another value", lives, false, operations{set(0, 1, 1), swapped(2, 3, 7, 2, true)}},
		{"CompareAndSwap without effect", lives, false, operations{set(0, 1, 1), swapped(2, 3, 1, 2, true), got(4, 5, is(1))}},
		{"CompareAndDelete of another value", lives, false, operations{set(0, 1, 1), during(2, 3, call{op: opCompareAndDelete, old: 7}, yes)}},
		{"CompareAndDelete without effect", lives, false, operations{set(0, 1, 1), during(2, 3, call{op: opCompareAndDelete, old: 1}, yes), got(4, 5, is(1))}},
		{"CompareAndDelete that finds another value", lives, true, operations{set(0, 1, 1), during(2, 3, call{op: opCompareAndDelete, old: 7}, none), got(4, 5, is(1))}},
		{"Compute of an old value", lives, false, operations{set(0, 1, 1), set(2, 3, 2), computed(4, 5, 1, answerStore, 3, is(3))}},
		{"two Computes of one value", lives, false, operations{set(0, 1, 1), computed(2, 5, 1, answerStore, 2, is(2)), computed(3, 6, 1, answerStore, 3, is(3))}},
		{"two Computes, one after the other", lives, true, operations{set(0, 1, 1), computed(2, 5, 3, answerStore, 2, is(2)), computed(3, 6, 1, answerStore, 3, is(3))}},
		{"Set between what Compute has found and has stored", lives, false, operations{
			set(0, 1, 1), computed(2, 9, 1, answerStore, 2, is(2)), set(4, 5, 3), got(6, 7, is(3)), got(10, 11, is(3)), got(12, 13, is(2)),
		}},
		{"Compute that has not found what is there", lives, false, operations{set(0, 1, 1), computed(2, 3, 0, answerStore, 2, is(2))}},
		{"Compute that removes nothing", lives, false, operations{set(0, 1, 1), computed(2, 3, 1, answerRemove, 0, none), got(4, 5, is(1))}},
		{"Compute with another answer for what is not there", lives, true, operations{
			during(0, 1, call{op: opCompute, answer: answerStore, absent: answerRemove, value: 1}, none), got(2, 3, none),
		}},
		{"Compute that answers for what is not there as if it were", lives, false, operations{
			during(0, 1, call{op: opCompute, answer: answerStore, absent: answerRemove, value: 1}, is(1)), got(2, 3, none),
		}},
		{"Compute that keeps", lives, true, operations{set(0, 1, 1), computed(2, 3, 1, answerKeep, 0, is(1)), got(4, 5, is(1))}},
		{"Compute that keeps and answers nothing", lives, false, operations{set(0, 1, 1), computed(2, 3, 1, answerKeep, 0, none)}},

		// When it goes. A Set in [0, 1] for 100 has a deadline in [100, 101].
		{"hit before the deadline", lives, true, operations{set(0, 1, 1), got(98, 99, is(1))}},
		{"early expiry", lives, false, operations{set(0, 1, 1), got(98, 99, none)}},
		{"miss that ends at the earliest deadline", lives, true, operations{set(0, 1, 1), got(98, 100, none)}},
		{"hit that begins before the latest deadline", lives, true, operations{set(0, 1, 1), got(100, 103, is(1))}},
		{"late hit", lives, false, operations{set(0, 1, 1), got(101, 102, is(1))}},
		{"exact deadline: hit that begins before it", lives, true, operations{setDeadline(0, 1, 1, 50), got(49, 60, is(1))}},
		{"exact deadline: hit that begins at it", lives, false, operations{setDeadline(0, 1, 1, 50), got(50, 60, is(1))}},
		{"exact deadline: miss that ends before it", lives, false, operations{setDeadline(0, 1, 1, 50), got(40, 49, none)}},
		{"exact deadline: miss that ends at it", lives, true, operations{setDeadline(0, 1, 1, 50), got(40, 50, none)}},
		{"deadline that has passed: hit", lives, false, operations{setDeadline(60, 61, 1, 50), got(62, 63, is(1))}},
		{"deadline that has passed: miss", lives, true, operations{setDeadline(60, 61, 1, 50), got(62, 63, none)}},
		{"expired on arrival: hit", lives, false, operations{setTTL(0, 1, 1, 0), got(2, 3, is(1))}},
		{"expired on arrival: what was there before", lives, false, operations{set(0, 1, 1), setTTL(2, 3, 2, -1), got(4, 5, is(1))}},
		{"no deadline: miss", lives, false, operations{setTTL(0, 1, 1, expiry.Never), got(1<<60, 1<<60+1, none)}},
		{"no deadline: hit", lives, true, operations{setTTL(0, 1, 1, expiry.Never), got(1<<60, 1<<60+1, is(1))}},
		{"saturating deadline: miss", lives, false, operations{setTTL(5, 6, 1, expiry.Never-1), got(7, 8, none)}},
		{"entry comes back", lives, false, operations{set(0, 10, 1), got(104, 105, none), got(106, 107, is(1))}},
		{"hit, then miss, between the possible deadlines", lives, true, operations{set(0, 10, 1), got(104, 105, is(1)), got(106, 107, none)}},
		{"a hit later than a deadline that Entry has told", lives, false, operations{set(0, 10, 1), entry(20, 20, 1, 103, 83), got(103, 104, is(1))}},
		{"a deadline told that a hit has disproved", lives, false, operations{set(0, 10, 1), got(105, 105, is(1)), entry(106, 106, 1, 104, 0)}},
		{"a deadline told that cannot be", lives, false, operations{set(0, 10, 1), entry(20, 20, 1, 111, 91)}},
		{"a lifetime told that cannot be", lives, false, operations{set(0, 10, 1), entry(20, 21, 1, 105, 86)}},
		{"a lifetime told", lives, true, operations{set(0, 10, 1), entry(20, 21, 1, 105, 84)}},
		{"Delete of what has expired", lives, false, operations{set(0, 1, 1), plainly(opDelete, 101, 102, yes)}},
		{"Delete has noticed expiry too early", lives, false, operations{set(0, 1, 1), plainly(opDelete, 98, 99, none)}},
		{"GetOrSet that loads what has expired", lives, false, operations{set(0, 1, 1), gotOrSet(101, 102, 2, is(1))}},
		{"GetOrSet that stores over what is live", lives, false, operations{set(0, 1, 1), gotOrSet(98, 99, 2, notSo(2))}},
		{"CompareAndSwap of what has expired", lives, false, operations{set(0, 1, 1), swapped(101, 102, 1, 2, true)}},
		{"Replace of what has expired", lives, false, operations{set(0, 1, 1), replaced(101, 102, 2, is(1))}},
		{"Replace keeps the deadline: late hit", lives, false, operations{set(0, 1, 1), replaced(50, 51, 2, is(1)), got(101, 102, is(2))}},
		{"CompareAndSwap keeps the deadline: early miss", lives, false, operations{set(0, 1, 1), swapped(50, 51, 1, 2, true), got(98, 99, none)}},
		{"Compute restarts the lifetime: early miss", lives, false, operations{set(0, 1, 1), computed(50, 51, 1, answerStore, 2, is(2)), got(148, 149, none)}},
		{"Compute that keeps does not: late hit", lives, false, operations{set(0, 1, 1), computed(50, 51, 1, answerKeep, 0, is(1)), got(101, 102, is(1))}},
		{"Compute has found what has expired", lives, false, operations{set(0, 1, 1), computed(101, 102, 1, answerStore, 2, is(2))}},
		{"All sees what has expired", lives, false, operations{set(0, 1, 1), plainly(opSee, 101, 102, is(1))}},
		{"Move to later: early miss", lives, false, operations{set(0, 1, 1), moved(50, 51, 100, true), got(148, 149, none)}},
		{"Move to later: hit", lives, true, operations{set(0, 1, 1), moved(50, 51, 100, true), got(150, 151, is(1))}},
		{"Move to later: late hit", lives, false, operations{set(0, 1, 1), moved(50, 51, 100, true), got(151, 152, is(1))}},
		{"Move to earlier: late hit", lives, false, operations{set(0, 1, 1), moved(50, 51, 10, true), got(61, 62, is(1))}},
		{"Move to nothing", lives, false, operations{set(0, 1, 1), moved(50, 51, 0, true), got(52, 53, is(1))}},
		{"Move of nothing", lives, false, operations{moved(0, 1, 10, true)}},
		{"Touch without effect", lives, false, operations{setTTL(0, 1, 1, 20), plainly(opTouch, 10, 11, yes), got(30, 31, none)}},

		// Once gone, gone for good.
		{"Move brings back what a read has missed", lives, false, operations{set(0, 1, 1), moved(50, 110, 100, true), got(101, 102, none), got(111, 112, is(1))}},
		{"Move before its deadline", lives, true, operations{set(0, 1, 1), moved(50, 110, 100, true), got(101, 102, is(1)), got(111, 112, is(1))}},
		{"early judgement: Move brings back what a read has missed", early, true, operations{set(0, 1, 1), moved(50, 110, 100, true), got(101, 102, none), got(111, 112, is(1))}},
		{"early judgement: not before the call", early, false, operations{set(0, 1, 1), got(101, 102, none), moved(103, 110, 100, true)}},
		{"early judgement: no read brings it back", early, false, operations{set(0, 10, 1), got(104, 105, none), got(106, 107, is(1))}},

		// By policies.
		{"overwritten, it keeps its deadline: late hit", keeps, false, operations{set(0, 1, 1), set(50, 51, 2), got(101, 102, is(2))}},
		{"overwritten, it keeps its deadline: miss", keeps, true, operations{set(0, 1, 1), set(50, 51, 2), got(101, 102, none)}},
		{"stored after the deadline, it has one of its own", keeps, true, operations{set(0, 1, 1), set(101, 102, 2), got(200, 200, is(2))}},
		{"stored after the deadline: early miss", keeps, false, operations{set(0, 1, 1), set(101, 102, 2), got(199, 200, none)}},
		{"slid: early miss", slides, false, operations{set(0, 1, 1), got(40, 41, is(1)), got(88, 89, none)}},
		{"slid: hit", slides, true, operations{set(0, 1, 1), got(40, 41, is(1)), got(90, 91, is(1))}},
		{"slid: late hit", slides, false, operations{set(0, 1, 1), got(40, 41, is(1)), got(91, 92, is(1))}},
		{"not slid: late hit", slides, false, operations{set(0, 1, 1), plainly(opPeek, 40, 41, is(1)), got(51, 52, is(1))}},
		{"slid by GetOrSet: early miss", slides, false, operations{set(0, 1, 1), gotOrSet(40, 41, 2, is(1)), got(88, 89, none)}},
		{"expires after it was read, and before it is slid: miss", slides, true, operations{set(0, 1, 1), got(45, 60, is(1)), got(61, 62, none)}},
		{"expires after it was read, and before it is slid: hit", slides, true, operations{set(0, 1, 1), got(45, 60, is(1)), got(52, 53, none), got(61, 62, none)}},
		{"slid after it has expired", slides, false, operations{set(0, 1, 1), got(45, 60, is(1)), got(52, 53, none), got(61, 62, is(1))}},
		{"early judgement: slid after it has expired", model{ttl: 50, slides: 50, early: true}, true, operations{
			set(0, 1, 1), got(45, 60, is(1)), got(52, 53, none), got(61, 62, is(1)),
		}},
		{"slides what was stored after it was read", slides, false, operations{set(0, 1, 1), got(30, 45, is(1)), setTTL(40, 41, 2, 1000), got(100, 101, none)}},
		{"does not slide what was stored instead of what was read", slides, true, operations{set(0, 1, 1), got(30, 45, is(1)), replaced(40, 41, 2, is(1)), got(52, 53, none)}},
		{"not slid, though it was replaced only later: miss", slides, false, operations{set(0, 1, 1), got(30, 35, is(1)), replaced(40, 41, 2, is(1)), got(52, 53, none)}},
		{"not slid, though it was moved: hit", slides, true, operations{set(0, 1, 1), got(30, 45, is(1)), moved(40, 41, 1000, true), got(300, 301, is(1))}},
		{"slid but for less than a tick: miss", stretch, true, operations{set(0, 1, 1), got(40, 41, is(1)), got(80, 80, none)}},
		{"slid but for a tick and more: early miss", stretch, false, operations{set(0, 1, 1), got(40, 41, is(1)), got(79, 79, none)}},

		// By the coarse clock.
		{"long lifetime, early by a period: miss", coarse, true, operations{set(0, 0, 1), got(2980*ms, 2980*ms, none)}},
		{"long lifetime, early by more: miss", coarse, false, operations{set(0, 0, 1), got(2980*ms-1, 2980*ms-1, none)}},
		{"long lifetime: late hit", coarse, false, operations{set(0, 0, 1), got(3000*ms, 3000*ms, is(1))}},
		{"short lifetime: early miss", coarse, false, operations{setTTL(0, 0, 1, longLifetime-1), got(2560*ms-2, 2560*ms-2, none)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.legal, porcupine.CheckOperations(c.model.porcupine(), c.history))
		})
	}
}

// Keys are checked by themselves, and all of them.
func TestCheckerLooksAtEveryKey(t *testing.T) {
	m := model{ttl: 100}.porcupine()
	on := func(key int, o porcupine.Operation) porcupine.Operation {
		c := o.Input.(call)
		c.key = key
		o.Input = c
		return o
	}
	good := []porcupine.Operation{on(0, set(0, 1, 1)), on(3, set(0, 1, 2)), on(0, got(2, 3, is(1))), on(3, got(2, 3, is(2)))}
	require.True(t, porcupine.CheckOperations(m, good))
	for key := range 4 {
		require.False(t, porcupine.CheckOperations(m, append(good, on(key, got(4, 5, is(9))))))
	}
}

// A broken cache does not keep one of the promises, now and then.
type broken struct {
	subject
	how how
	now func() int64
}

// A how makes a call in a way of its own, or leaves it to the cache.
type how func(s subject, c call, since time.Time, now func() int64) (reply, bool)

func (b broken) do(c call, since time.Time) reply {
	if r, ok := b.how(b.subject, c, since, b.now); ok {
		return r
	}
	return b.subject.do(c, since)
}

// Whatever is broken must be found by the histories as they are recorded, not only
// by those made up above.
func TestHistoriesOfBrokenCachesAreFound(t *testing.T) {
	sometimes := func() bool { return rand.IntN(10) == 0 }
	ask := func(s subject, o op, key int) reply { return s.do(call{op: o, key: key}, time.Time{}) }
	for name, how := range map[string]how{
		"loses a Set": func(_ subject, c call, _ time.Time, _ func() int64) (reply, bool) {
			return reply{}, c.op == opSet && sometimes()
		},
		"forgets to delete": func(s subject, c call, _ time.Time, _ func() int64) (reply, bool) {
			if c.op != opDelete || !sometimes() {
				return reply{}, false
			}
			return reply{ok: ask(s, opPeek, c.key).ok}, true
		},
		"tears a value": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			r := s.do(c, since)
			if r.ok && c.op == opGet && sometimes() {
				r.value = torn
			}
			return r, true
		},
		"expires a nanosecond early": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			if c.op != opSetTTL || c.ttl == expiry.Never {
				return reply{}, false
			}
			c.ttl--
			return s.do(c, since), true
		},
		"expires a nanosecond late": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			if c.op != opSetTTL || c.ttl == expiry.Never {
				return reply{}, false
			}
			c.ttl++
			return s.do(c, since), true
		},
		"moves without a deadline": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			if c.op == opMove && sometimes() {
				c.ttl = expiry.Never
			}
			return s.do(c, since), true
		},
		"reads what has expired": func(s subject, c call, since time.Time, now func() int64) (reply, bool) {
			if c.op != opSetDeadline || c.deadline > now() {
				return reply{}, false
			}
			c.deadline = now() + 1
			return s.do(c, since), true
		},
		"swaps in two steps": func(s subject, c call, _ time.Time, _ func() int64) (reply, bool) {
			if c.op != opCompareAndSwap {
				return reply{}, false
			}
			if r := ask(s, opPeek, c.key); r.value != c.old {
				return reply{}, true
			}
			sometimesYield()
			r := s.do(call{op: opReplace, key: c.key, value: c.value}, time.Time{})
			return reply{ok: r.ok}, true
		},
		"gets or sets in two steps": func(s subject, c call, _ time.Time, _ func() int64) (reply, bool) {
			if c.op != opGetOrSet {
				return reply{}, false
			}
			if r := ask(s, opGet, c.key); r.ok {
				return r, true
			}
			sometimesYield()
			s.do(call{op: opSet, key: c.key, value: c.value}, time.Time{})
			return reply{value: c.value}, true
		},
		"computes in two steps": func(s subject, c call, _ time.Time, _ func() int64) (reply, bool) {
			if c.op != opCompute || c.answer != answerStore || c.absent != answerStore {
				return reply{}, false
			}
			r := ask(s, opPeek, c.key)
			sometimesYield()
			s.do(call{op: opSet, key: c.key, value: c.value}, time.Time{})
			return reply{value: c.value, ok: true, found: r.value, was: r.ok}, true
		},
		"restarts the lifetime in Replace": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			r := s.do(c, since)
			if c.op == opReplace && r.ok {
				ask(s, opTouch, c.key)
			}
			return r, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			findBroken(t, setup{name: name, timing: stepped, ttl: 7 * time.Millisecond, unit: time.Millisecond, tick: 4 * time.Millisecond}, how)
		})
	}
}

// findBroken looks for a history that shows how a cache is broken.
func findBroken(t *testing.T, s setup, how how) {
	t.Helper()
	const most = 2000
	s.make = func(t require.TestingT, s setup, clock clockwork.Clock) subject {
		began := clock.Now()
		return broken{made(t, s, clock, words, words), how, func() int64 { return int64(clock.Now().Sub(began)) }}
	}
	m := s.model().porcupine()
	for seed := range uint64(most) {
		h := record(t, s, seed)
		if !porcupine.CheckOperations(m, h.operations) {
			t.Logf("found by history %d", seed+1)
			require.FileExists(t, draw(t, m, h.operations, t.TempDir()))
			return
		}
	}
	require.Failf(t, "not found", "in %d histories", most)
}
