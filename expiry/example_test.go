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

// Values live for five minutes at most, and for four at least.
func ExampleJitter() {
	p := expiry.Jitter(expiry.AfterWrite[string, int](5*time.Minute), 0.2)
	ttl := p.Create("k", 1)
	fmt.Println(ttl > 4*time.Minute, ttl <= 5*time.Minute)
	// Output:
	// true true
}

// Each replica has a lifetime of its own, which it keeps from one start to the
// next.
func ExampleJitterBy() {
	for _, host := range []string{"replica-16", "replica-17", "replica-17"} {
		p := expiry.JitterBy(expiry.AfterWrite[string, int](5*time.Minute), 0.2, host)
		fmt.Println(host, p.Create("k", 1).Round(time.Millisecond))
	}
	// Output:
	// replica-16 4m46.027s
	// replica-17 4m12.204s
	// replica-17 4m12.204s
}

// A session ends after half an hour without use, and after a day in any case. The
// lifetimes are not all the same to the second, either.
func ExampleLimit() {
	p := expiry.Limit(expiry.Jitter(expiry.AfterAccess[string, int](30*time.Minute), 0.1), 24*time.Hour)
	fmt.Println(expiry.Validate(p), expiry.TraitsOf(p).MaxAge)
	// Output:
	// <nil> 24h0m0s
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
	// {false false 0s}
}
