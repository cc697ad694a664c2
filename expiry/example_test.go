package expiry_test

import (
	"fmt"
	"time"

	"github.com/wheelcache/wheelcache/expiry"
)

func ExampleDeadline() {
	now := int64(0) // on the caller's own clock
	deadline := expiry.Deadline(now, 5*time.Second)
	fmt.Println(expiry.Expired(deadline, deadline-1), expiry.Expired(deadline, deadline))
	fmt.Println(expiry.Remaining(deadline, now+int64(2*time.Second)))
	fmt.Println(expiry.Deadline(deadline, expiry.Never-1) == expiry.NoDeadline)
	// Output:
	// false true
	// 3s
	// true
}

func ExampleFunc() {
	type reply struct {
		status int
		maxAge time.Duration
	}
	p := expiry.Func(func(url string, r reply) time.Duration {
		if r.status != 200 {
			return time.Second
		}
		return r.maxAge
	})
	fmt.Println(p.Create("/", reply{status: 200, maxAge: time.Hour}))
	fmt.Println(p.Create("/", reply{status: 404}))
	// Output:
	// 1h0m0s
	// 1s
}

// A session lives for half an hour after its last use.
func ExampleAfterAccess() {
	p := expiry.AfterAccess[string, int](30 * time.Minute)
	fmt.Println(p.Create("session", 1))
	fmt.Println(p.Read("session", 1, 5*time.Minute))
	// Output:
	// 30m0s
	// 30m0s
}

// gentle keeps what is read often for a while longer, but never shortens a life.
type gentle struct {
	expiry.Policy[string, int]
}

func (p gentle) Read(_ string, _ int, remaining time.Duration) time.Duration {
	return max(remaining, time.Minute)
}

// A Policy of one's own can be built upon another.
func ExamplePolicy() {
	var p expiry.Policy[string, int] = gentle{expiry.AfterWrite[string, int](time.Hour)}
	fmt.Println(p.Create("k", 1), p.Read("k", 1, 50*time.Minute), p.Read("k", 1, time.Second))
	fmt.Println(expiry.TraitsOf(p)) // none: embedding an interface passes on no more than its methods
	// Output:
	// 1h0m0s 50m0s 1m0s
	// {false false}
}
