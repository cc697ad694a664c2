package wheel

// Horizon is how many ticks ahead of the cursor a record can wait. A record
// for a later tick waits for the horizon instead, and its owner adds it again
// when it is visited there.
//
// A record's tick is stored as its low 32 bits. During a sweep the records
// that are overdue and the ones just added can be two horizons apart; with a
// horizon of 1<<30 that is still a distance which 32 bits tell unmistakably,
// whatever the tick the wheel was started at and however long it has run.
const Horizon = 1 << 30

// lastTick is as far as the cursor goes: a horizon short of the last int64, so
// that no sum of a cursor and a distance overflows.
const lastTick = 1<<63 - 1 - Horizon

// before reports whether tick a comes before tick b, given their low 32 bits
// and that they are less than 1<<31 ticks apart (serial number arithmetic,
// RFC 1982).
func before(a, b uint32) bool { return int32(a-b) < 0 }

// expand returns the tick whose low 32 bits are given and that lies less than
// 1<<32 ticks after base.
func expand(base int64, tick uint32) int64 {
	return base + int64(tick-uint32(base))
}
