package proof

import (
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

func begins(from, to, number int64) porcupine.Operation {
	return during(from, to, call{op: opBegin, value: number}, is(number))
}

func lands(from, to, number int64) porcupine.Operation {
	return during(from, to, call{op: opLand, value: number}, is(number))
}

func notFoundBy(number int64) reply { return reply{value: number, outcome: outcomeNotFound} }
func errorOf(number int64) reply    { return reply{value: number, outcome: outcomeError} }

// failing returns an operation of a flight whose loader fails, with what is told of that.
func failing(o porcupine.Operation, told reply) porcupine.Operation {
	c, r := o.Input.(call), o.Output.(reply)
	if c.outcome = told.outcome; told.ok {
		c.outcome = outcomeError // and something stale is told
	}
	told.from, told.to, told.called, told.returned = r.from, r.to, r.called, r.returned
	return operation(o.ClientId, c, told)
}

// refreshing is a refresh that begins, and lands somewhere between two other instants.
func refreshing(from, to, number, first, last int64) porcupine.Operation {
	w := window{moment{first, first}, moment{last, last}}
	return during(from, to, call{op: opBegin, value: number, background: true, lands: w}, is(number))
}

// asked is a GetOrLoad that has begun no flight.
func asked(from, to int64, r reply) porcupine.Operation {
	return during(from, to, call{op: opGetOrLoad}, r)
}

// hasBegun is a GetOrLoad that has found something and begun a refresh.
func hasBegun(from, to, value int64) porcupine.Operation {
	return during(from, to, call{op: opGetOrLoad, background: true}, is(value))
}

func refresh(from, to int64, begun bool) porcupine.Operation {
	return during(from, to, call{op: opRefresh}, reply{ok: begun})
}

// supersedes is the first half of Clear, if it forgets failures, or DeleteFunc.
func supersedes(from, to int64, forgets bool) porcupine.Operation {
	return during(from, to, call{op: opSupersede, forgets: forgets, sweep: 1}, none)
}

// sweeps is the other half.
func sweeps(from, to int64, o op, r reply) porcupine.Operation {
	return during(from, to, call{op: o, sweep: 1}, r)
}

func TestCheckerSaysNoAndYesToLoads(t *testing.T) {
	type operations = []porcupine.Operation
	lives := model{ttl: 100}
	early := model{ttl: 100, early: true}
	negative := model{ttl: 100, negativeTTL: 50}
	both := model{ttl: 100, negativeTTL: 50, errorTTL: 20}
	ahead := model{ttl: 100, refreshAfter: 60}
	stale := model{ttl: 100, staleFor: 50, errorTTL: 30}
	const second = int64(time.Second)

	for _, c := range []struct {
		name    string
		model   model
		legal   bool
		history operations
	}{
		// What is loaded is there.
		{"loaded", lives, true, operations{begins(0, 1, 7), lands(5, 6, 7), got(7, 8, is(7))}},
		{"loaded, and not stored", lives, false, operations{begins(0, 1, 7), lands(5, 6, 7), got(7, 8, none)}},
		{"loaded before it landed", lives, false, operations{begins(0, 1, 7), got(2, 3, is(7)), lands(5, 6, 7)}},
		{"loaded though it was there", lives, false, operations{set(0, 1, 1), begins(2, 3, 7), lands(5, 6, 7)}},
		{"loaded when it had expired", lives, true, operations{set(0, 1, 1), begins(101, 102, 7), lands(105, 106, 7)}},
		{"loaded, early miss", lives, false, operations{begins(0, 1, 7), lands(5, 6, 7), got(104, 104, none)}},
		{"loaded, miss", lives, true, operations{begins(0, 1, 7), lands(5, 6, 7), got(105, 105, none)}},
		{"loaded, late hit", lives, false, operations{begins(0, 1, 7), lands(5, 6, 7), got(106, 107, is(7))}},
		{"a hit", lives, true, operations{set(0, 1, 1), asked(2, 3, is(1))}},
		{"a hit of another value", lives, false, operations{set(0, 1, 1), asked(2, 3, is(2))}},
		{"neither value nor error", lives, false, operations{asked(2, 3, is(0))}},
		{"neither value nor error from a load", lives, false, operations{begins(0, 1, 7), during(5, 6, call{op: opLand, value: 7}, is(0))}},
		{"neither value nor error for who has joined", lives, false, operations{begins(0, 1, 7), asked(2, 9, is(0)), lands(5, 6, 7)}},

		// One flight, and who shares it.
		{"joined", lives, true, operations{begins(0, 1, 7), asked(2, 9, is(7)), lands(5, 6, 7)}},
		{"joined, and told another value", lives, false, operations{begins(0, 1, 7), asked(2, 9, is(8)), lands(5, 6, 7)}},
		{"joined, and told an error", lives, false, operations{begins(0, 1, 7), asked(2, 9, errorOf(7)), lands(5, 6, 7)}},
		{"joined before the value was deleted that was there", lives, false, operations{
			set(0, 1, 1), asked(2, 9, is(7)), plainly(opDelete, 10, 11, yes), begins(12, 13, 7), lands(14, 15, 7),
		}},
		{"two flights", lives, false, operations{begins(0, 1, 7), begins(2, 3, 8), lands(5, 6, 7), lands(7, 8, 8)}},
		{"two flights, one after the other", lives, true, operations{
			begins(0, 1, 7), lands(2, 3, 7), plainly(opDelete, 4, 5, yes), begins(6, 7, 8), lands(8, 9, 8), got(10, 11, is(8)),
		}},
		{"an error, joined", lives, true, operations{failing(begins(0, 1, 7), errorOf(7)), asked(2, 9, errorOf(7)), failing(lands(5, 6, 7), errorOf(7))}},
		{"an error, told as not found", lives, false, operations{failing(begins(0, 1, 7), errorOf(7)), asked(2, 9, notFoundBy(7)), failing(lands(5, 6, 7), errorOf(7))}},
		{"an error, and a value told", lives, false, operations{failing(begins(0, 1, 7), errorOf(7)), asked(2, 9, is(7)), failing(lands(5, 6, 7), errorOf(7))}},
		{"an error, and the value stored", lives, false, operations{failing(begins(0, 1, 7), errorOf(7)), failing(lands(5, 6, 7), errorOf(7)), got(7, 8, is(7))}},

		// Who comes after an invalidation.
		{"joined after Delete", lives, false, operations{begins(0, 1, 7), plainly(opDelete, 2, 3, none), asked(4, 9, is(7)), lands(5, 6, 7)}},
		{"joined during Delete", lives, true, operations{begins(0, 1, 7), plainly(opDelete, 2, 5, none), asked(4, 9, is(7)), lands(6, 7, 7)}},
		{"joined after Clear", lives, false, operations{begins(0, 1, 7), supersedes(2, 3, true), asked(4, 9, is(7)), lands(5, 6, 7)}},
		{"joined after DeleteFunc", lives, false, operations{begins(0, 1, 7), supersedes(2, 3, false), asked(4, 9, is(7)), lands(5, 6, 7)}},
		{"another flight after Delete", lives, true, operations{
			begins(0, 1, 7), plainly(opDelete, 2, 3, none), begins(4, 5, 8), lands(6, 7, 7), asked(8, 11, is(8)), lands(9, 10, 8), got(12, 13, is(8)),
		}},
		{"two flights that both store", lives, false, operations{
			begins(0, 1, 7), plainly(opDelete, 2, 3, none), begins(4, 5, 8), lands(6, 7, 7), got(8, 9, is(7)), lands(10, 11, 8), got(12, 13, is(8)),
		}},
		{"two flights, and the superseded one stores last", lives, false, operations{
			begins(0, 1, 7), plainly(opDelete, 2, 3, none), begins(4, 5, 8), lands(6, 7, 8), lands(8, 9, 7), got(10, 11, is(7)),
		}},
		{"begun during Clear, and stored", lives, true, operations{
			supersedes(0, 9, true), sweeps(0, 9, opClear, none), begins(2, 3, 7), lands(5, 6, 7), got(10, 11, is(7)),
		}},
		{"begun before Clear, and stored", lives, false, operations{
			begins(0, 1, 7), supersedes(2, 9, true), sweeps(2, 9, opClear, none), lands(10, 11, 7), got(12, 13, is(7)),
		}},
		{"begun before Clear, stored during it", lives, false, operations{
			begins(0, 1, 7), supersedes(2, 9, true), sweeps(2, 9, opClear, none), lands(4, 5, 7), got(12, 13, is(7)),
		}},
		{"begun before Clear, stored during it and cleared", lives, true, operations{
			begins(0, 1, 7), supersedes(2, 9, true), sweeps(2, 9, opClear, none), lands(4, 5, 7), got(6, 7, is(7)), got(12, 13, none),
		}},
		{"begun before DeleteFunc, stored during it, and not met", lives, false, operations{
			begins(0, 1, 7), supersedes(2, 9, false), sweeps(2, 9, opDeleteFunc, none), lands(4, 5, 7), got(12, 13, is(7)),
		}},
		{"begun before DeleteFunc, stored during it, and deleted", lives, true, operations{
			begins(0, 1, 7), supersedes(2, 9, false), sweeps(2, 9, opDeleteFunc, is(7)), lands(4, 5, 7), got(12, 13, none),
		}},
		{"begun during DeleteFunc, and not met", lives, true, operations{
			supersedes(0, 9, false), sweeps(0, 9, opDeleteFunc, none), begins(2, 3, 7), lands(5, 6, 7), got(10, 11, is(7)),
		}},
		{"DeleteFunc that has not met what is there", lives, false, operations{
			set(0, 1, 1), supersedes(2, 9, false), sweeps(2, 9, opDeleteFunc, none), got(10, 11, is(1)),
		}},
		{"DeleteFunc that has deleted another value", lives, false, operations{
			set(0, 1, 1), supersedes(2, 9, false), sweeps(2, 9, opDeleteFunc, is(2)), got(10, 11, none),
		}},

		// Refreshes.
		{"Refresh of nothing", lives, true, operations{refreshing(0, 1, 7, 5, 6), got(7, 8, is(7))}},
		{"Refresh, the present value meanwhile", lives, true, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(25, 26, is(1)), got(31, 32, is(7))}},
		{"Refresh, the new value", lives, true, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(25, 26, is(7))}},
		{"Refresh, the present value for too long", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(31, 32, is(1))}},
		{"Refresh, the new value too early", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(18, 19, is(7))}},
		{"Refresh, there and back", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(22, 23, is(7)), got(24, 25, is(1))}},
		{"Refresh, nothing meanwhile", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(25, 26, none)}},
		{"Refresh, its lifetime: early miss", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(118, 119, none)}},
		{"Refresh, its lifetime: late hit", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(130, 131, is(7))}},
		{"Refresh, landed before a Delete that had returned", lives, false, operations{
			set(0, 1, 1), refreshing(2, 3, 7, 20, 30), got(25, 26, is(7)), plainly(opGetAndDelete, 10, 11, is(1)),
		}},
		{"Refresh, joined when the value has expired", lives, true, operations{set(0, 1, 1), refreshing(2, 3, 7, 120, 130), asked(101, 131, is(7))}},
		{"Refresh, and another flight when the value has expired", lives, false, operations{set(0, 1, 1), refreshing(2, 3, 7, 120, 130), begins(101, 102, 8), lands(140, 141, 8)}},
		{"Refresh without need", lives, false, operations{refresh(0, 1, false)}},
		{"Refresh during a load", lives, true, operations{begins(0, 1, 7), refresh(2, 3, false), lands(4, 5, 7)}},
		{"Refresh begun during a load", lives, false, operations{begins(0, 1, 7), refreshing(2, 3, 8, 10, 11), lands(4, 5, 7)}},
		{"Refresh of a failure that was forgotten", both, false, operations{
			failing(begins(0, 1, 7), errorOf(7)), failing(lands(2, 3, 7), errorOf(7)), plainly(opDelete, 4, 5, none), refresh(6, 7, false),
		}},
		{"a hit refreshes", ahead, true, operations{set(0, 1, 1), hasBegun(60, 61, 1), refreshing(60, 61, 7, 65, 66)}},
		{"a hit refreshes before RefreshAfter", ahead, false, operations{set(0, 1, 1), hasBegun(58, 59, 1), refreshing(58, 59, 7, 65, 66)}},
		{"a hit refreshes without RefreshAfter", lives, false, operations{set(0, 1, 1), hasBegun(90, 91, 1), refreshing(90, 91, 7, 95, 96)}},
		{"who refreshes is told what is loaded", ahead, false, operations{set(0, 1, 1), hasBegun(60, 69, 7), refreshing(60, 61, 7, 65, 66)}},

		// Not found.
		{"not found: remembered", negative, true, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), asked(54, 55, notFoundBy(7))}},
		{"not found: remembered for too long", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), asked(56, 57, notFoundBy(7))}},
		{"not found: another load at the end", negative, true, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), begins(54, 55, 8), lands(56, 57, 8)}},
		{"not found: another load before", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), begins(53, 54, 8), lands(56, 57, 8)}},
		{"not found: remembered after it was forgotten", negative, false, operations{
			failing(begins(0, 10, 7), notFoundBy(7)), failing(lands(15, 25, 7), notFoundBy(7)), begins(68, 69, 8), lands(70, 71, 8),
			plainly(opDelete, 72, 72, yes), asked(73, 73, notFoundBy(7)),
		}},
		{"not found: remembered without NegativeTTL", lives, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), asked(8, 9, notFoundBy(7))}},
		{"not found: as if it were an error", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), asked(8, 9, errorOf(7))}},
		{"not found: by nobody", negative, false, operations{asked(8, 9, notFoundBy(7))}},
		{"not found: hit", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), got(8, 9, is(7))}},
		{"not found: answered after Set", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), set(8, 9, 1), asked(10, 11, notFoundBy(7))}},
		{"not found: answered after Set and Move to nothing", negative, false, operations{
			failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), set(8, 9, 1), moved(10, 11, 0, true), asked(12, 13, notFoundBy(7)),
		}},
		{"not found: answered after Delete", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), plainly(opDelete, 8, 9, none), asked(10, 11, notFoundBy(7))}},
		{"not found: answered during Delete", negative, true, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), plainly(opDelete, 8, 19, none), asked(10, 11, notFoundBy(7))}},
		{"not found: answered after Compute has removed nothing", negative, false, operations{
			failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), computed(8, 9, 0, answerRemove, 0, none), asked(10, 11, notFoundBy(7)),
		}},
		{"not found: answered after Compute has kept nothing", negative, true, operations{
			failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), computed(8, 9, 0, answerKeep, 0, none), asked(10, 11, notFoundBy(7)),
		}},
		{"not found: answered after Clear", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), supersedes(8, 9, true), asked(10, 11, notFoundBy(7))}},
		{"not found: answered after DeleteFunc", negative, true, operations{failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 6, 7), notFoundBy(7)), supersedes(8, 9, false), asked(10, 11, notFoundBy(7))}},
		{"not found: remembered though it was superseded", negative, false, operations{failing(begins(0, 1, 7), notFoundBy(7)), plainly(opDelete, 2, 3, none), failing(lands(5, 6, 7), notFoundBy(7)), asked(8, 9, notFoundBy(7))}},
		{"not found: by a refresh, the value goes", negative, true, operations{set(0, 1, 1), failing(refreshing(2, 3, 7, 5, 6), notFoundBy(7)), got(8, 9, none), asked(10, 11, notFoundBy(7))}},
		{"not found: by a refresh, the value stays", negative, false, operations{set(0, 1, 1), failing(refreshing(2, 3, 7, 5, 6), notFoundBy(7)), got(8, 9, is(1))}},
		{"not found: early judgement", model{ttl: 100, early: true, negativeTTL: 50}, true, operations{
			failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 5, 7), notFoundBy(7)), begins(56, 57, 8), supersedes(58, 58, false), lands(59, 59, 8), asked(50, 60, notFoundBy(7)),
		}},
		{"not found: no early judgement", negative, false, operations{
			failing(begins(0, 1, 7), notFoundBy(7)), failing(lands(5, 5, 7), notFoundBy(7)), begins(56, 57, 8), supersedes(58, 58, false), lands(59, 59, 8), asked(58, 60, notFoundBy(7)),
		}},

		// Other errors.
		{"error: remembered", both, true, operations{failing(begins(0, 1, 7), errorOf(7)), failing(lands(5, 6, 7), errorOf(7)), asked(24, 25, errorOf(7))}},
		{"error: remembered as long as not found", both, false, operations{failing(begins(0, 1, 7), errorOf(7)), failing(lands(5, 6, 7), errorOf(7)), asked(26, 27, errorOf(7))}},
		{"error: remembered without ErrorTTL", negative, false, operations{failing(begins(0, 1, 7), errorOf(7)), failing(lands(5, 6, 7), errorOf(7)), asked(7, 8, errorOf(7))}},
		{"error: of a refresh, the value stays", negative, true, operations{set(0, 1, 1), failing(refreshing(2, 3, 7, 5, 6), errorOf(7)), got(8, 9, is(1)), refresh(10, 11, false)}},
		{"error: of a refresh, the value goes", negative, false, operations{set(0, 1, 1), failing(refreshing(2, 3, 7, 5, 6), errorOf(7)), got(8, 9, none)}},
		{"error: of a refresh, a load", negative, true, operations{failing(refreshing(2, 3, 7, 5, 6), errorOf(7)), begins(8, 9, 8), lands(10, 11, 8)}},
		{"error: of a refresh, told without ErrorTTL", negative, false, operations{failing(refreshing(2, 3, 7, 5, 6), errorOf(7)), asked(8, 9, errorOf(7))}},
		{"error: of a refresh, another within a second", negative, false, operations{failing(refreshing(2, 3, 7, 5, 6), errorOf(7)), refreshing(second, second+1, 8, second+2, second+3)}},
		{"error: of a refresh, another after a second", negative, true, operations{failing(refreshing(2, 3, 7, 5, 6), errorOf(7)), refreshing(second+5, second+6, 8, second+7, second+8)}},

		// Stale values.
		{"stale: told by a load", stale, true, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(115, 116, 7), is(1))}},
		{"stale: told to who has joined", stale, true, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), asked(112, 120, is(1)), failing(lands(115, 116, 7), is(1))}},
		{"stale: not told", stale, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), errorOf(7)), failing(lands(115, 116, 7), errorOf(7))}},
		{"stale: told for too long", stale, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(151, 152, 7), is(1))}},
		{"stale: no longer told", stale, true, operations{set(0, 1, 1), failing(begins(110, 111, 7), errorOf(7)), failing(lands(151, 152, 7), errorOf(7))}},
		{"stale: told without StaleFor", lives, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(115, 116, 7), is(1))}},
		{"stale: told though it is not found", stale, false, operations{
			set(0, 1, 1), during(110, 111, call{op: opBegin, value: 7, outcome: outcomeNotFound}, is(1)), during(115, 116, call{op: opLand, value: 7, outcome: outcomeNotFound}, is(1)),
		}},
		{"stale: told by Get", stale, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(115, 116, 7), is(1)), got(117, 118, is(1))}},
		{"stale: told after Delete", stale, false, operations{set(0, 1, 1), plainly(opDelete, 105, 106, none), failing(begins(110, 111, 7), is(1)), failing(lands(115, 116, 7), is(1))}},
		{"stale: told though it was superseded", stale, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), supersedes(112, 113, false), failing(lands(115, 116, 7), is(1))}},
		{"stale: told by a remembered error", stale, true, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(130, 131, 7), is(1)), asked(149, 150, is(1))}},
		{"stale: not told by a remembered error", stale, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(130, 131, 7), is(1)), asked(148, 149, errorOf(7))}},
		{"stale: told by a remembered error for too long", stale, false, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(130, 131, 7), is(1)), asked(151, 152, is(1))}},
		{"stale: no longer told by a remembered error", stale, true, operations{set(0, 1, 1), failing(begins(110, 111, 7), is(1)), failing(lands(130, 131, 7), is(1)), asked(151, 152, errorOf(7))}},
		{"stale: told without a load", stale, false, operations{set(0, 1, 1), asked(110, 111, is(1))}},
		{"stale: expired on arrival", stale, false, operations{setDeadline(110, 110, 1, 109), failing(begins(111, 112, 7), is(1)), failing(lands(115, 116, 7), is(1))}},
		{"stale: expired on arrival, not told", stale, true, operations{setDeadline(110, 110, 1, 109), failing(begins(111, 112, 7), errorOf(7)), failing(lands(115, 116, 7), errorOf(7))}},
		{"early judgement: a load and a hit", early, true, operations{set(0, 1, 1), begins(101, 102, 7), asked(50, 110, is(1)), lands(111, 112, 7)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.legal, porcupine.CheckOperations(c.model.porcupine(), c.history))
		})
	}
}

// Whatever changes or removes the value during a load keeps it from being stored, and
// nothing else does.
func TestCheckerKnowsWhatSupersedesALoad(t *testing.T) {
	m := model{ttl: 100}.porcupine()
	remove := call{op: opDeleteFunc}
	for _, c := range []struct {
		name       string
		present    bool // when the load begins
		supersedes bool
		change     porcupine.Operation
		after      reply // of a Get after it
	}{
		{"Set", false, true, set(10, 11, 2), is(2)},
		{"Set", true, true, set(10, 11, 2), is(2)},
		{"SetTTL", true, true, setTTL(10, 11, 2, 50), is(2)},
		{"SetTTL of nothing", false, true, setTTL(10, 11, 2, 0), none},
		{"SetDeadline", false, true, setDeadline(10, 11, 2, 90), is(2)},
		{"Delete", true, true, plainly(opDelete, 10, 11, yes), none},
		{"Delete of nothing", false, true, plainly(opDelete, 10, 11, none), none},
		{"GetAndDelete", true, true, plainly(opGetAndDelete, 10, 11, is(1)), none},
		{"GetAndDelete of nothing", false, true, plainly(opGetAndDelete, 10, 11, none), none},
		{"Replace", true, true, replaced(10, 11, 2, is(1)), is(2)},
		{"Replace of nothing", false, false, replaced(10, 11, 2, none), none},
		{"GetOrSet", true, false, gotOrSet(10, 11, 2, is(1)), is(1)},
		{"GetOrSet of nothing", false, true, gotOrSet(10, 11, 2, notSo(2)), is(2)},
		{"CompareAndSwap", true, true, swapped(10, 11, 1, 2, true), is(2)},
		{"CompareAndSwap of another value", true, false, swapped(10, 11, 3, 2, false), is(1)},
		{"CompareAndDelete", true, true, during(10, 11, call{op: opCompareAndDelete, old: 1}, yes), none},
		{"CompareAndDelete of another value", true, false, during(10, 11, call{op: opCompareAndDelete, old: 3}, none), is(1)},
		{"Compute that stores", true, true, computed(10, 11, 1, answerStore, 2, is(2)), is(2)},
		{"Compute that stores what was not there", false, true, computed(10, 11, 0, answerStore, 2, is(2)), is(2)},
		{"Compute that removes", true, true, computed(10, 11, 1, answerRemove, 0, none), none},
		{"Compute that removes nothing", false, true, computed(10, 11, 0, answerRemove, 0, none), none},
		{"Compute that keeps", true, false, computed(10, 11, 1, answerKeep, 0, is(1)), is(1)},
		{"Compute that keeps nothing", false, false, computed(10, 11, 0, answerKeep, 0, none), none},
		{"Clear", true, true, supersedes(10, 11, true), is(1)},
		{"Clear, but for the entry", true, false, plainly(opClear, 10, 11, none), none},
		{"DeleteFunc", true, true, supersedes(10, 11, false), is(1)},
		{"DeleteFunc that removes", true, true, during(10, 11, remove, is(1)), none},
		{"DeleteFunc that finds nothing", false, false, during(10, 11, remove, none), none},
		{"Move", true, false, moved(10, 11, 50, true), is(1)},
		{"Move to nothing", true, false, moved(10, 11, 0, true), none},
		{"Touch", true, false, plainly(opTouch, 10, 11, yes), is(1)},
		{"Get", true, false, got(10, 11, is(1)), is(1)},
	} {
		load := []porcupine.Operation{refreshing(2, 3, 7, 20, 21)}
		if c.present {
			load = append(load, set(0, 1, 1))
		} else {
			c.name += ", somebody waits"
			load = []porcupine.Operation{begins(2, 3, 7), lands(20, 21, 7)}
		}
		found := func(r reply) bool {
			return porcupine.CheckOperations(m, append([]porcupine.Operation{c.change, got(30, 31, r)}, load...))
		}
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, !c.supersedes, found(is(7)), "stored")
			require.Equal(t, c.supersedes, found(c.after), "not stored")
		})
	}
}

func TestHistoriesOfCachesThatLoadBadlyAreFound(t *testing.T) {
	const (
		ms     = time.Millisecond
		hidden = 1000 // keys that are in no history
	)
	loads := func(c call) bool { return c.op == opGetOrLoad }
	isOwn := func(c call, r reply) bool { return loads(c) && r.value == c.value }
	var told sync.Map // by key: its last error
	for name, how := range map[string]how{
		"stores what has been superseded": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			r := s.do(c, since)
			if isOwn(c, r) && r.ok {
				s.do(call{op: opSet, key: c.key, value: c.value}, since)
			}
			return r, true
		},
		"does not store what is loaded": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			r := s.do(c, since)
			if isOwn(c, r) && r.ok {
				s.do(call{op: opCompareAndDelete, key: c.key, old: c.value}, since)
			}
			return r, true
		},
		"has a flight for each caller": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			if !loads(c) || s.do(call{op: opPeek, key: c.key}, since).ok {
				return reply{}, false
			}
			key := c.key
			c.key += hidden * int(c.value)
			r := s.do(c, since)
			if r.ok {
				s.do(call{op: opGetOrSet, key: key, value: r.value}, since)
			}
			return r, true
		},
		"tells neither value nor error": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			r := s.do(c, since)
			if loads(c) && !r.ok && !isOwn(c, r) {
				r = reply{ok: true}
			}
			return r, true
		},
		"tells the error of an earlier load": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			r := s.do(c, since)
			if loads(c) && !r.ok {
				if before, ok := told.Swap(c.key, r); ok && !isOwn(c, r) {
					r = before.(reply)
				}
			}
			return r, true
		},
		"does not delete what is not there": func(s subject, c call, since time.Time, _ func() int64) (reply, bool) {
			return reply{}, c.op == opDelete && !s.do(call{op: opPeek, key: c.key}, since).ok
		},
	} {
		t.Run(name, func(t *testing.T) {
			findBroken(t, setup{
				name: name, timing: stepped, ttl: 7 * ms, unit: ms, tick: 4 * ms,
				loads: true, failing: 30, negativeTTL: 4 * ms,
			}, how)
		})
	}
}
