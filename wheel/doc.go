// Package wheel is about where something waits that is due later: a timing
// wheel, which holds millions of records and finds those that are due without
// looking at the others.
//
// A wheel knows ticks and records, and nothing else. It has no clock, no lock
// and no goroutine: its owner says what a tick is, calls [Hashed.Advance] when
// time has passed, and sees to it that one goroutine at a time uses the wheel.
// A record is a number of the owner's choosing, so that the garbage collector
// has nothing to follow, however many wait.
//
// # Terms
//
// A tick is the unit of time, counted from anywhere. A record is 32 bits that
// wait for a tick. The wheel is a ring of slots, a power of two of them; a
// record for tick t waits in slot t modulo their number. One turn of the wheel
// is a round. The cursor is the last tick that the wheel has come to, and a
// sweep is its way from there to now.
//
// # How it works
//
// A ring of 8 slots whose cursor is at tick 18, in slot 2:
//
//	                 cursor
//	                    v
//	slot        0    1    2    3    4    5    6    7
//	         +----+----+----+----+----+----+----+----+
//	earliest |    |    |    | 19 |    | 29 |    |    |
//	list     |  . |  . |  . |  | |  . |  | |  . |  . |
//	         +----+----+----+--|-+----+--|-+----+----+
//	                           v         v
//	                        +------+  +------+
//	   a chunk: ticks of    |   35 |  |   29 |
//	   this round and       |   19 |  |   37 |
//	   of later ones        |   19 |  |   61 |
//	                        +--|---+  +------+
//	                           v
//	                        +------+
//	                        | 1003 |
//	                        |  ... |
//	                        +------+
//
// The sweep comes to slot 3 at tick 19. The earliest tick noted in the slot
// says that something is due, so the list is detached and read: both records
// for 19 are visited, the one for 35 is appended to the slot again, and the
// second chunk, where nothing is due, is linked back whole. At tick 20 the slot
// is empty, and at 21 its earliest tick is 29: nothing is read. Records keep
// absolute ticks, and the round is their high bits: it is compared, never
// counted down, so that the records of other rounds are not written to.
//
// There is no way to move a record or to take one out. That would need links
// in both directions and a way from the record to its place, which costs every
// record memory and every operation a cache miss. Instead, the owner notes the
// tick that [Hashed.Add] returned and judges a record when it comes up. If the
// deadline has moved to later, visit answers so and the record waits on. If it
// has moved to earlier, the owner has added a second record. A record that is
// not the one noted belongs to something that is gone: visit answers [Done].
// When too many of those wait, [Hashed.Resize] and [Hashed.Step] drop them, a
// few at a time. A good measure of too many is that of the Go runtime for its
// timers: more than a quarter.
//
// # Promises
//
// No record is visited before now has reached its tick. When Advance answers
// that nothing more is due, each record whose tick is not after now has been
// visited, however long the time since the last call.
//
// A tick in the past is replaced by the one after the cursor, so that the record
// does not wait for a whole round. A tick farther away than [Horizon] is
// replaced by the horizon, where visit can answer with the tick that was meant.
//
// The cursor goes no farther than a horizon before the last int64.
//
// # Invariants
//
//   - Each record held is in one list: that of the slot for its tick, or what
//     is left of the one that the sweep has detached. (A rebuild in the middle
//     of a sweep puts what is overdue in the slot that comes next.)
//   - All records wait for ticks after the one where the sweep began, and at
//     most a horizon after the cursor.
//   - The earliest tick of a slot that is not empty is no later than that of
//     any of its records.
//   - In a list, all chunks but the first are at least half full.
//   - Nothing is added to a list that is being walked.
//
// They hold whenever visit is called, too.
//
// # Costs
//
// Measured on two shared cores of an AMD EPYC with
//
//	go test -run '^$' -bench . -benchtime 200ms ./wheel
//
// where records are added in a random order of ticks:
//
//	Add                                        12-18 ns
//	visit a due record, 1M due in a tick         5-7 ns
//	a tick with nothing due                    17-25 ns
//	read a record that is not due               5-11 ns
//	move a record in a rebuild                 10-14 ns
//	memory, many records to a slot           8.6-9.0 B per record
//	memory, 15 / 4 / 1 records to a slot  13 / 34 / 90 B per record
//
// A second in the life of a wheel with 10 million records that wait between a
// second and seven days, in ticks of 10 ms, costs 23-35 ms with 512 slots, 3-5
// ms with 4,096 and 0.35-0.4 ms with 65,536. Of the records, 215 are due in it.
//
// Chunks of 31 records are read two to four times as fast, and that second
// costs 1.7 ms with 4,096 slots; but with 15 records or fewer to a slot they take
// up to twice the memory, and wheels as empty as that are common.
//
// # When to choose it
//
// A hashed wheel suits delays of which most are within a few thousand turns,
// and ticks that come one after the other. It is a poor choice for a handful of
// records that are ages apart: the sweep passes each slot on the way, for a
// nanosecond or two, where a heap would know the next by itself. A hierarchical
// wheel, which spares long delays the reading in each round in exchange for
// moving them from level to level, is to join this package and keep the same
// promises.
//
// # References
//
// G. Varghese and T. Lauck, Hashed and Hierarchical Timing Wheels: Data
// Structures for the Efficient Implementation of a Timer Facility, SOSP 1987;
// this is their scheme 6. The Go runtime, runtime/time.go, for the rule about
// how many dead timers (zombies) to put up with.
package wheel
