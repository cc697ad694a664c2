package wheelcache_test

import (
	"fmt"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

func Example() {
	cache, err := wheelcache.New(wheelcache.Options[string, int]{TTL: 5 * time.Minute})
	if err != nil {
		panic(err)
	}
	defer cache.Close()

	cache.Set("answer", 42)
	if v, ok := cache.Get("answer"); ok {
		fmt.Println(v)
	}
	_, ok := cache.Get("question")
	fmt.Println(ok)
	// Output:
	// 42
	// false
}

func ExampleNew_badOptions() {
	_, err := wheelcache.New(wheelcache.Options[string, int]{TTL: -time.Second})
	fmt.Println(err)
	// Output:
	// wheelcache: Options.TTL is -1s; it must be 0 (entries do not expire) or more
}

func ExampleCache_SetTTL() {
	clock := clockwork.NewFakeClock() // tests need not wait
	cache, _ := wheelcache.New(wheelcache.Options[string, string]{TTL: time.Hour, Clock: clock})
	defer cache.Close()

	cache.SetTTL("code", "1234", 30*time.Second)
	cache.SetTTL("name", "Ada", expiry.Never)

	clock.Advance(30*time.Second - 1)
	_, ok := cache.Get("code")
	fmt.Println("just before:", ok)
	clock.Advance(1)
	_, ok = cache.Get("code")
	fmt.Println("at the deadline:", ok)
	clock.Advance(100 * 365 * 24 * time.Hour)
	_, ok = cache.Get("name")
	fmt.Println("a century later:", ok)
	// Output:
	// just before: true
	// at the deadline: false
	// a century later: true
}

func ExampleCache_SetDeadline() {
	clock := clockwork.NewFakeClockAt(time.Date(2030, 1, 1, 22, 0, 0, 0, time.UTC))
	cache, _ := wheelcache.New(wheelcache.Options[string, float64]{Clock: clock})
	defer cache.Close()

	cache.SetDeadline("rate", 1.09, time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)) // until midnight
	e, _ := cache.Entry("rate")
	fmt.Println(e.Value, e.TTL)
	// Output:
	// 1.09 2h0m0s
}

func ExampleCache_Move() {
	clock := clockwork.NewFakeClock()
	cache, _ := wheelcache.New(wheelcache.Options[string, string]{TTL: time.Minute, Clock: clock})
	defer cache.Close()

	cache.Set("lock", "worker 1")
	clock.Advance(50 * time.Second)
	fmt.Println("extended:", cache.Move("lock", time.Minute))
	clock.Advance(time.Minute)
	fmt.Println("too late:", cache.Move("lock", time.Minute))
	// Output:
	// extended: true
	// too late: false
}

// Sessions live as long as they are used.
func ExampleOptions_sliding() {
	clock := clockwork.NewFakeClock()
	sessions, _ := wheelcache.New(wheelcache.Options[string, string]{
		Expiry: expiry.AfterAccess[string, string](30 * time.Minute),
		Clock:  clock,
	})
	defer sessions.Close()

	sessions.Set("token", "Ada")
	for range 10 {
		clock.Advance(29 * time.Minute)
		if _, ok := sessions.Get("token"); !ok {
			fmt.Println("logged out")
		}
	}
	fmt.Println("used for", 10*29*time.Minute)
	clock.Advance(30 * time.Minute)
	_, ok := sessions.Get("token")
	fmt.Println("after a break:", ok)
	// Output:
	// used for 4h50m0s
	// after a break: false
}

// Lifetimes can depend on key and value.
func ExampleOptions_expiry() {
	type answer struct {
		body  string
		found bool
	}
	cache, _ := wheelcache.New(wheelcache.Options[string, answer]{
		Expiry: expiry.Func(func(_ string, a answer) time.Duration {
			if !a.found {
				return 10 * time.Second // it may appear soon
			}
			return time.Hour
		}),
		Clock: clockwork.NewFakeClock(),
	})
	defer cache.Close()

	cache.Set("/", answer{"hello", true})
	cache.Set("/nowhere", answer{})
	for _, path := range []string{"/", "/nowhere"} {
		e, _ := cache.Entry(path)
		fmt.Println(path, e.TTL)
	}
	// Output:
	// / 1h0m0s
	// /nowhere 10s
}

func ExampleOptions_onRemoval() {
	clock := clockwork.NewFakeClock()
	cache, _ := wheelcache.New(wheelcache.Options[string, int]{
		Clock: clock,
		OnRemoval: func(r wheelcache.Removal[string, int]) {
			fmt.Println(r.Key, r.Value, r.Cause, r.Late)
		},
	})
	defer cache.Close()

	cache.SetTTL("a", 1, time.Second)
	cache.SetTTL("a", 2, time.Minute)
	cache.Delete("a")
	cache.Flush() // wait until OnRemoval has been told

	cache.SetTTL("b", 3, time.Second)
	clock.Advance(time.Second)
	cache.Flush() // and remove what is due
	// Output:
	// a 1 replaced 0s
	// a 2 deleted 0s
	// b 3 expired 0s
}

// A rate limit counts within a window that the first request begins.
func ExampleCache_Compute() {
	clock := clockwork.NewFakeClock()
	requests, _ := wheelcache.New(wheelcache.Options[string, int]{
		Expiry: expiry.AfterCreate[string, int](time.Minute), // counting does not extend the window
		Clock:  clock,
	})
	defer requests.Close()

	allow := func(client string) bool {
		n, _ := requests.Compute(client, func(n int, _ bool) (int, wheelcache.Op) {
			return n + 1, wheelcache.OpStore
		})
		return n <= 3
	}
	for range 5 {
		fmt.Print(allow("10.0.0.1"), " ")
		clock.Advance(10 * time.Second)
	}
	clock.Advance(10 * time.Second) // a minute after the first
	fmt.Println(allow("10.0.0.1"))
	// Output:
	// true true true false false true
}

// Of several that try at once, one gets the job.
func ExampleCache_GetOrSet() {
	cache, _ := wheelcache.New(wheelcache.Options[string, string]{TTL: time.Minute})
	defer cache.Close()

	for _, worker := range []string{"worker 1", "worker 2"} {
		owner, taken := cache.GetOrSet("job", worker)
		fmt.Println(owner, taken)
	}
	// Output:
	// worker 1 false
	// worker 1 true
}

func ExampleCache_Expiring() {
	cache, _ := wheelcache.New(wheelcache.Options[string, int]{Clock: clockwork.NewFakeClock()})
	defer cache.Close()

	cache.SetTTL("soon", 1, 10*time.Second)
	cache.SetTTL("later", 2, time.Hour)
	cache.SetTTL("never", 3, expiry.Never)
	for key, value := range cache.Expiring(time.Minute) {
		fmt.Println(key, value)
	}
	// Output:
	// soon 1
}

func ExampleCompareAndSwap() {
	cache, _ := wheelcache.New(wheelcache.Options[string, string]{TTL: time.Minute})
	defer cache.Close()

	cache.Set("state", "open")
	fmt.Println(wheelcache.CompareAndSwap(cache, "state", "open", "closed"))
	fmt.Println(wheelcache.CompareAndSwap(cache, "state", "open", "closed"))
	// Output:
	// true
	// false
}

func ExampleCache_Stats() {
	clock := clockwork.NewFakeClock()
	cache, _ := wheelcache.New(wheelcache.Options[string, int]{TTL: time.Second, Clock: clock})
	defer cache.Close()

	cache.Set("k", 1)
	cache.Get("k")
	clock.Advance(time.Second)
	cache.Get("k")
	cache.Flush()
	s := cache.Stats()
	fmt.Println(s.Hits, s.Misses, s.Expired, s.Entries)
	// Output:
	// 1 1 1 0
}
