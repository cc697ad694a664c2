// Quickstart tells in two seconds what the cache does: entries with lifetimes
// of their own, new deadlines for old entries, sliding expiry, callbacks for
// what leaves, and the numbers kept about it.
//
//	go run ./examples/quickstart
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	n := &narrator{w: w, start: time.Now()}
	if err := pages(n); err != nil {
		return err
	}
	return sessions(n)
}

// pages is about lifetimes and what happens at their end.
func pages(n *narrator) error {
	cache, err := wheelcache.New(wheelcache.Options[string, int]{
		TTL: time.Second, // for Set; SetTTL says otherwise
		OnRemoval: func(r wheelcache.Removal[string, int]) {
			if r.Cause == wheelcache.Expired {
				n.say("  callback: %s expired, removed %v after its deadline", r.Key, round(r.Late))
				return
			}
			n.say("  callback: %s was %v", r.Key, r.Cause)
		},
	})
	if err != nil {
		return err
	}
	defer cache.Close()

	n.title("A cache of pages: home lives 1s, news 200ms, logo for ever")
	cache.Set("home", 1)
	cache.SetTTL("news", 1, 200*time.Millisecond)
	cache.SetTTL("logo", 1, expiry.Never)
	show(n, cache, "home", "news", "logo")

	n.title("Reads never return what has expired; the callback follows about a tick (10ms) later at most")
	time.Sleep(250 * time.Millisecond)
	show(n, cache, "home", "news", "logo")

	n.title("Move gives an entry a new deadline and leaves its value alone")
	cache.Move("home", 1500*time.Millisecond)
	cache.Move("logo", 100*time.Millisecond)
	time.Sleep(850 * time.Millisecond)
	n.say("home would be dead by now, were it not for Move")
	show(n, cache, "home", "logo")

	n.title("GetOrSet stores what is missing; Compute changes a value in one step")
	actual, loaded := cache.GetOrSet("home", 100)
	n.say("GetOrSet(home, 100) = %d, loaded: %v", actual, loaded)
	actual, loaded = cache.GetOrSet("about", 100)
	n.say("GetOrSet(about, 100) = %d, loaded: %v", actual, loaded)
	sum, _ := cache.Compute("about", func(old int, ok bool) (int, wheelcache.Op) {
		return old + 1, wheelcache.OpStore
	})
	n.say("Compute(about, old+1) = %d", sum)

	n.title("Every entry that leaves is reported once, with the cause")
	cache.Delete("home")
	cache.Flush() // wait for the callbacks

	s := cache.Stats()
	n.say("hits: %d, misses: %d, expired: %d, still there: %d", s.Hits, s.Misses, s.Expired, s.Entries)
	return nil
}

// sessions is about sliding expiry: an entry lives as long as it is used.
func sessions(n *narrator) error {
	cache, err := wheelcache.New(wheelcache.Options[string, int]{
		Expiry: expiry.AfterAccess[string, int](200 * time.Millisecond),
	})
	if err != nil {
		return err
	}

	n.title("Sliding expiry: a session ends 200ms after its last use")
	cache.Set("ann", 1)
	cache.Set("bob", 2)
	for range 3 {
		time.Sleep(150 * time.Millisecond)
		show(n, cache, "ann")
	}
	n.say("nobody asked for bob all the while")
	show(n, cache, "bob")
	time.Sleep(250 * time.Millisecond)
	n.say("and nobody asked for ann for 250ms")
	show(n, cache, "ann")

	n.title("Ten thousand sessions end at once; nothing scans for them")
	for i := range 10_000 {
		cache.Set(fmt.Sprint("guest", i), i)
	}
	time.Sleep(300 * time.Millisecond)
	s := cache.Stats()
	n.say("sessions ended: %d, still there: %d", s.Expired, s.Entries)
	n.say("removed after their deadline: half of them within %v, 99 %% within %v, all within %v",
		round(s.Lateness.Quantile(0.5)), round(s.Lateness.Quantile(0.99)), round(s.Lateness.Max))

	n.title("Close stops the cache's goroutines and waits for them")
	return cache.Close()
}

// show looks keys up and says what it finds.
func show(n *narrator, cache *wheelcache.Cache[string, int], keys ...string) {
	for _, key := range keys {
		if value, ok := cache.Get(key); ok {
			n.say("Get(%s) = %d", key, value)
		} else {
			n.say("Get(%s): absent", key)
		}
	}
}

// round makes a lateness readable.
func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// A narrator prints what happens and when. Callbacks run on a goroutine of the
// cache, so it has a lock.
type narrator struct {
	mu    sync.Mutex // protects w
	w     io.Writer
	start time.Time
}

func (n *narrator) title(text string) { n.print("\n%s\n", text) }

func (n *narrator) say(format string, args ...any) {
	at := fmt.Sprintf("%6d ms  ", time.Since(n.start).Milliseconds())
	n.print(at+format+"\n", args...)
}

func (n *narrator) print(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.w, format, args...)
}
