package wheelcache

import "math"

// costs are what the entries of a segment cost, by the index of the slot, in as few
// bytes as the largest needs: most users count bytes by the thousand, or nothing larger
// than ten. One of the three is not nil. It only ever becomes wider; a segment that
// takes the place of another begins anew.
type costs struct {
	in16 []uint16
	in32 []uint32
	in64 []int64
}

func newCosts(slots int) costs { return costs{in16: make([]uint16, slots)} }

func (c *costs) at(i uintptr) int64 {
	switch {
	case c.in16 != nil:
		return int64(c.in16[i])
	case c.in32 != nil:
		return int64(c.in32[i])
	default:
		return c.in64[i]
	}
}

func (c *costs) set(i uintptr, cost int64) {
	if c.in16 != nil {
		if cost <= math.MaxUint16 {
			c.in16[i] = uint16(cost)
			return
		}
		c.in32 = widened[uint32](c.in16)
		c.in16 = nil
	}
	if c.in32 != nil {
		if cost <= math.MaxUint32 {
			c.in32[i] = uint32(cost)
			return
		}
		c.in64 = widened[int64](c.in32)
		c.in32 = nil
	}
	c.in64[i] = cost
}

func widened[W uint32 | int64, N uint16 | uint32](narrow []N) []W {
	wide := make([]W, len(narrow))
	for i, cost := range narrow {
		wide[i] = W(cost)
	}
	return wide
}
