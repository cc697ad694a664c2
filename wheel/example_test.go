package wheel_test

import (
	"fmt"
	"math"

	"github.com/wheelcache/wheelcache/wheel"
)

func ExampleHashed() {
	// The owner says what a tick is and what a record stands for.
	names := []string{"tea", "bread", "laundry"}
	w := wheel.NewHashed(64, 0)
	w.Add(0, 3)
	w.Add(1, 40)
	w.Add(2, 200) // in the fourth round of 64 slots

	for _, now := range []int64{2, 3, 199, 200} {
		w.Advance(now, math.MaxInt, func(record uint32, tick int64) int64 {
			fmt.Printf("at %d: %s, for %d\n", now, names[record], tick)
			return wheel.Done
		})
	}
	// Output:
	// at 3: tea, for 3
	// at 199: bread, for 40
	// at 200: laundry, for 200
}

// A deadline that moves to later costs nothing until the record comes up.
func ExampleHashed_Advance_lazy() {
	deadline := int64(10)
	w := wheel.NewHashed(64, 0)
	w.Add(1, deadline)
	deadline = 25 // the wheel need not know

	for now := int64(5); now <= 30; now += 5 {
		w.Advance(now, math.MaxInt, func(record uint32, tick int64) int64 {
			if now < deadline {
				fmt.Println(now, "not yet")
				return deadline
			}
			fmt.Println(now, "expired")
			return wheel.Done
		})
	}
	// Output:
	// 10 not yet
	// 25 expired
}

// Work at a time can be bounded, so that a crowd of records due at once does
// not hold up those who wait for the wheel's lock.
func ExampleHashed_Advance_limit() {
	w := wheel.NewHashed(64, 0)
	for record := range uint32(10) {
		w.Add(record, 1)
	}
	done := 0
	for more := true; more; {
		more = w.Advance(1, 4, func(uint32, int64) int64 { done++; return wheel.Done })
		fmt.Println(done, more)
		// Here a lock would be released for a moment.
	}
	// Output:
	// 4 true
	// 8 true
	// 10 false
}

// Records that have become pointless are dropped by a rebuild.
func ExampleHashed_Step() {
	w := wheel.NewHashed(64, 0)
	for record := range uint32(1000) {
		w.Add(record, 5000)
	}
	live := func(record uint32, _ int64) bool { return record%100 == 0 }

	w.Resize(w.Slots(), 10)
	for w.Step(256, live) {
	}
	fmt.Println(w.Len())
	// Output:
	// 10
}
