package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache"
)

// A rig is a proxy between real HTTP on both sides. Only its clock is not real.
type rig struct {
	t       *testing.T
	clock   *clockwork.FakeClock
	proxy   *proxy
	front   *httptest.Server
	back    *httptest.Server
	asked   atomic.Int64 // requests that the origin has got
	entered chan struct{}
	removed chan wheelcache.Removal[key, *response]
}

const (
	testBody    = 1000
	testStale   = 10 * time.Minute
	testTimeout = 20 * time.Second
	testError   = time.Second
	testPass    = 5 * time.Second
)

func newRig(t *testing.T, origin http.HandlerFunc) *rig {
	r := &rig{
		t:       t,
		clock:   clockwork.NewFakeClock(),
		entered: make(chan struct{}, 1000),
		removed: make(chan wheelcache.Removal[key, *response], 1000),
	}
	r.back = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.asked.Add(1)
		origin(w, req)
	}))
	t.Cleanup(r.back.Close)
	at, err := url.Parse(r.back.URL)
	require.NoError(t, err)
	r.proxy, err = newProxy(config{
		origin:       at,
		maxBody:      testBody,
		staleIfError: testStale,
		timeout:      testTimeout,
		errorTTL:     testError,
		passTTL:      testPass,
		log:          slog.New(slog.DiscardHandler),
		clock:        r.clock,
		onRemoval:    func(e wheelcache.Removal[key, *response]) { r.removed <- e },
	})
	require.NoError(t, err)
	t.Cleanup(func() { r.proxy.Close() })
	r.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.entered <- struct{}{}
		r.proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(r.front.Close)
	tr := r.front.Client().Transport.(*http.Transport)
	tr.DisableCompression = true
	return r
}

// An answer is what a client gets.
type answer struct {
	status int
	body   string
	header http.Header
	err    error
}

func (a answer) cache() string { return a.header.Get("X-Cache") }
func (a answer) age() string   { return a.header.Get("Age") }

// do sends a request; header is names and values. It may be called from any goroutine.
func (r *rig) do(method, path string, header ...string) answer {
	req, err := http.NewRequest(method, r.front.URL+path, nil)
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := r.front.Client().Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(body), resp.Header, err}
}

// get sends a GET for /a, and fails the test if there is no response.
func (r *rig) get(header ...string) answer {
	r.t.Helper()
	a := r.do(http.MethodGet, "/a", header...)
	require.NoError(r.t, a.err)
	return a
}

// getAtOnce is get by n clients; header says what each sends. Before release is called,
// all have come to the proxy and the origin has been asked.
func (r *rig) getAtOnce(n int, asked <-chan struct{}, release func(), header func(i int) []string) []answer {
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { answers[i] = r.do(http.MethodGet, "/a", header(i)...) })
	}
	for range n {
		<-r.entered
	}
	<-asked
	release()
	wg.Wait()
	return answers
}

func none(int) []string { return nil }

// numbered answers with how many requests there have been, and that header.
func numbered(header ...string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		fmt.Fprint(w, n.Add(1))
	}
}

func TestAFreshResponseIsServedWithItsAgeAndTheOriginAskedOnce(t *testing.T) {
	r := newRig(t, numbered("Cache-Control", "max-age=60", "Content-Type", "text/x"))
	a := r.get()
	require.Equal(t, "miss", a.cache())
	require.Equal(t, "0", a.age())
	for _, age := range []string{"0", "7", "14"} {
		a = r.get()
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, "1", a.body)
		require.Equal(t, "hit", a.cache())
		require.Equal(t, age, a.age())
		require.Equal(t, "text/x", a.header.Get("Content-Type"))
		r.clock.Advance(7 * time.Second)
	}
	require.EqualValues(t, 1, r.asked.Load())
}

func TestAResponseIsFetchedAnewWhenItIsNoLongerFresh(t *testing.T) {
	r := newRig(t, numbered("Cache-Control", "max-age=60"))
	r.get()
	r.clock.Advance(time.Minute - 1)
	require.Equal(t, "hit", r.get().cache())
	r.clock.Advance(1)
	a := r.get()
	require.Equal(t, "miss", a.cache())
	require.Equal(t, "2", a.body)
	require.Equal(t, "0", a.age())
}

func TestTheAgeThatAResponseComesWithCounts(t *testing.T) {
	r := newRig(t, numbered("Cache-Control", "max-age=60", "Age", "50"))
	require.Equal(t, "50", r.get().age())
	r.clock.Advance(9 * time.Second)
	require.Equal(t, "59", r.get().age())
	r.clock.Advance(time.Second)
	require.Equal(t, "miss", r.get().cache())

	r = newRig(t, numbered("Cache-Control", "max-age=60", "Age", "60"))
	r.get()
	require.Equal(t, "bypass", r.get().cache())
}

func TestAHundredRequestsForOneURLAskTheOriginOnce(t *testing.T) {
	asked, release := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "body")
	})
	misses := 0
	for _, a := range r.getAtOnce(100, asked, func() { close(release) }, none) {
		require.NoError(t, a.err)
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, "body", a.body)
		if a.cache() == "miss" {
			misses++
		}
	}
	require.Equal(t, 1, misses)
	require.EqualValues(t, 1, r.asked.Load())
}

func TestAStaleResponseIsServedAtOnceAndRefreshedByOneRequest(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	var n atomic.Int64
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		i := n.Add(1)
		if i > 1 {
			asked <- struct{}{}
			<-release
		}
		w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=30")
		fmt.Fprint(w, i)
	})
	r.get()
	r.clock.Advance(time.Minute)
	for range 10 { // while the origin does not answer
		a := r.get()
		require.Equal(t, "1", a.body)
		require.Equal(t, "stale", a.cache())
		require.Equal(t, "60", a.age())
	}
	<-asked
	close(release)
	e := <-r.removed
	require.Equal(t, wheelcache.Replaced, e.Cause)
	a := r.get()
	require.Equal(t, "2", a.body)
	require.Equal(t, "hit", a.cache())
	require.Equal(t, "0", a.age())
	require.EqualValues(t, 2, r.asked.Load())

	r.clock.Advance(90 * time.Second)
	require.Equal(t, "miss", r.get().cache())
}

// failing answers well once, and then as told.
func failing(control string, how http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1) > 1 {
			how(w, req)
			return
		}
		w.Header().Set("Cache-Control", control)
		io.WriteString(w, "good")
	}
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "away")
}

// hangUp ends the connection without a response.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// cutOff ends it in the middle of the body.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "max-age=60")
	w.Header().Set("Content-Length", "100")
	io.WriteString(w, "begin")
	panic(http.ErrAbortHandler)
}

func TestAStaleResponseIsServedWhileTheOriginFails(t *testing.T) {
	for name, tc := range map[string]struct {
		how   http.HandlerFunc
		after int // the status when the stored response is too old
		body  string
	}{
		"5xx":         {unavailable, http.StatusServiceUnavailable, "away"},
		"connection":  {hangUp, http.StatusBadGateway, "Bad Gateway\n"},
		"half a body": {cutOff, http.StatusBadGateway, "Bad Gateway\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, failing("max-age=60, stale-if-error=120", tc.how))
			r.get()
			for _, d := range []time.Duration{60 * time.Second, 60 * time.Second, 60*time.Second - 1} {
				r.clock.Advance(d)
				a := r.get()
				require.Equal(t, http.StatusOK, a.status)
				require.Equal(t, "good", a.body)
				require.Equal(t, "stale", a.cache())
			}
			r.clock.Advance(1) // within Options.StaleFor, and while the failure is remembered
			r.clock.Advance(testError)
			a := r.get()
			require.Equal(t, tc.after, a.status)
			require.Equal(t, tc.body, a.body)
			e := <-r.removed
			require.Equal(t, "good", string(e.Value.body))
		})
	}
}

func TestARememberedFailureDoesNotProlongStaleIfError(t *testing.T) {
	r := newRig(t, failing("max-age=60, stale-if-error=120", unavailable))
	r.get()
	r.clock.Advance(3*time.Minute - 1)
	require.Equal(t, "stale", r.get().cache())
	r.clock.Advance(1)
	a := r.get()
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "bypass", a.cache())
}

func TestStaleIfErrorIsBounded(t *testing.T) {
	r := newRig(t, failing("max-age=60, stale-if-error=86400", unavailable))
	r.get()
	r.clock.Advance(time.Minute + testStale - 1)
	require.Equal(t, "stale", r.get().cache())
	r.clock.Advance(1)
	require.Equal(t, http.StatusServiceUnavailable, r.get().status)
}

func TestMustRevalidateForbidsStaleResponses(t *testing.T) {
	r := newRig(t, failing("max-age=60, must-revalidate, stale-if-error=120, stale-while-revalidate=120", unavailable))
	r.get()
	r.clock.Advance(time.Minute)
	require.Equal(t, http.StatusServiceUnavailable, r.get().status)
}

func TestAFailedOriginIsNotAskedAgainForAWhile(t *testing.T) {
	r := newRig(t, failing("max-age=60, stale-if-error=120", unavailable))
	r.get()
	r.clock.Advance(time.Minute)
	for range 10 {
		require.Equal(t, "stale", r.get().cache())
	}
	require.EqualValues(t, 2, r.asked.Load())
	r.clock.Advance(testError)
	require.Equal(t, "stale", r.get().cache())
	require.EqualValues(t, 3, r.asked.Load())
}

func TestAnOriginThatIsDownIsABadGateway(t *testing.T) {
	r := newRig(t, hangUp)
	r.back.Close()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		require.Equal(t, http.StatusBadGateway, r.do(method, "/a").status)
	}
}

func TestAnOriginThatIsSlowIsAGatewayTimeout(t *testing.T) {
	asked := make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, req *http.Request) {
		close(asked)
		<-req.Context().Done() // the proxy hangs up
	})
	got := make(chan answer)
	go func() { got <- r.do(http.MethodGet, "/a") }()
	<-asked
	r.clock.Advance(testTimeout)
	require.Equal(t, http.StatusGatewayTimeout, (<-got).status)
}

func TestARequestThatNobodyWaitsForIsCancelled(t *testing.T) {
	asked, cancelled := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(_ http.ResponseWriter, req *http.Request) {
		close(asked)
		<-req.Context().Done()
		close(cancelled)
	})
	ctx, leave := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.front.URL+"/a", nil)
	require.NoError(t, err)
	left := make(chan error)
	go func() {
		_, err := r.front.Client().Do(req)
		left <- err
	}()
	<-asked
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	<-cancelled
}

// echo answers with the client's cookie, so that it shows who has got whose response.
func echo(header ...string) (origin http.HandlerFunc, asked chan struct{}, release func()) {
	asked, released := make(chan struct{}, 100), make(chan struct{})
	return func(w http.ResponseWriter, req *http.Request) {
		asked <- struct{}{}
		<-released
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		io.WriteString(w, req.Header.Get("Cookie"))
	}, asked, func() { close(released) }
}

func TestAResponseThatMayNotBeStoredIsNeverShared(t *testing.T) {
	for name, header := range map[string][]string{
		"no-store":       {"Cache-Control", "no-store, max-age=60"},
		"private":        {"Cache-Control", "max-age=60, private"},
		"private fields": {"Cache-Control", `private="X-A, X-B", max-age=60`},
		"no-cache":       {"Cache-Control", "no-cache, max-age=60"},
		"nothing":        {},
		"max-age=0":      {"Cache-Control", "max-age=0"},
		"s-maxage=0":     {"Cache-Control", "s-maxage=0, max-age=60"},
		"bad max-age":    {"Cache-Control", "max-age=-1"},
		"Set-Cookie":     {"Cache-Control", "max-age=60", "Set-Cookie", "id=1"},
		"Vary":           {"Cache-Control", "max-age=60", "Vary", "Accept-Encoding, Cookie"},
		"Vary any":       {"Cache-Control", "max-age=60", "Vary", "*"},
		"trailers":       {"Cache-Control", "max-age=60", "Trailer", "X-A"},
	} {
		t.Run(name, func(t *testing.T) {
			const clients = 20
			origin, asked, release := echo(header...)
			r := newRig(t, origin)
			cookie := func(i int) []string { return []string{"Cookie", fmt.Sprint("id=", i)} }
			for i, a := range r.getAtOnce(clients, asked, release, cookie) {
				require.NoError(t, a.err)
				require.Equal(t, http.StatusOK, a.status)
				require.Equal(t, fmt.Sprint("id=", i), a.body)
			}
			require.EqualValues(t, clients, r.asked.Load())
			require.Equal(t, "bypass", r.get().cache()) // which is remembered for a while
			r.clock.Advance(testPass)
			require.Equal(t, "miss", r.get().cache())
			require.EqualValues(t, clients+2, r.asked.Load())
			require.Zero(t, r.proxy.cache.Stats().Sets)
		})
	}
}

func TestWhoWaitedFor5xxAsksForItself(t *testing.T) {
	asked, release := make(chan struct{}, 100), make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		asked <- struct{}{}
		<-release
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, req.Header.Get("Cookie"))
	})
	cookie := func(i int) []string { return []string{"Cookie", fmt.Sprint("id=", i)} }
	for i, a := range r.getAtOnce(20, asked, func() { close(release) }, cookie) {
		require.Equal(t, http.StatusInternalServerError, a.status)
		require.Equal(t, fmt.Sprint("id=", i), a.body)
	}
	require.EqualValues(t, 20, r.asked.Load())
}

func TestAResponseThatMayNotBeStoredEndsWhatWasStored(t *testing.T) {
	r := newRig(t, failing("max-age=60, stale-if-error=600", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "private")
		io.WriteString(w, "yours")
	}))
	r.get()
	r.clock.Advance(time.Minute)
	a := r.get()
	require.Equal(t, "yours", a.body)
	require.Equal(t, "miss", a.cache())
	require.Equal(t, "good", string((<-r.removed).Value.body))
	r.back.Close()
	r.clock.Advance(testPass)
	require.Equal(t, http.StatusBadGateway, r.get().status)
}

func TestARefreshThatMayNotBeStoredEndsWhatWasStored(t *testing.T) {
	r := newRig(t, failing("max-age=60, stale-while-revalidate=600", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "private")
		io.WriteString(w, "yours")
	}))
	r.get()
	r.clock.Advance(time.Minute)
	require.Equal(t, "good", r.get().body)
	require.Equal(t, wheelcache.Deleted, (<-r.removed).Cause)
	a := r.get()
	require.Equal(t, "yours", a.body)
	require.Equal(t, "bypass", a.cache())
}

func TestWhatIsNotToBeSharedGoesPastTheCache(t *testing.T) {
	for name, tc := range map[string]struct{ method, field, value string }{
		"Authorization":       {http.MethodGet, "Authorization", "Basic eA=="},
		"Range":               {http.MethodGet, "Range", "bytes=0-1"},
		"If-Match":            {http.MethodGet, "If-Match", `"x"`},
		"If-Unmodified-Since": {http.MethodGet, "If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"},
		"OPTIONS":             {http.MethodOptions, "X-A", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				io.WriteString(w, req.Method+req.Header.Get(tc.field))
			})
			for range 2 { // neither stored nor served
				a := r.do(tc.method, "/a", tc.field, tc.value)
				require.Equal(t, "bypass", a.cache())
				require.Equal(t, tc.method+tc.value, a.body)
			}
			require.Equal(t, "miss", r.get().cache())
			require.Equal(t, "bypass", r.do(tc.method, "/a", tc.field, tc.value).cache())
			require.Equal(t, "GET", r.get().body)
			require.EqualValues(t, 4, r.asked.Load())
		})
	}
}

func TestALargeBodyIsStreamedThrough(t *testing.T) {
	for name, tc := range map[string]struct {
		length string
		begin  int // bytes that are enough to see that the body is too large
	}{
		"of known length":   {fmt.Sprint(testBody + 1), 1},
		"of unknown length": {"", testBody + 1},
	} {
		t.Run(name, func(t *testing.T) {
			rest := make(chan struct{})
			r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				if tc.length != "" {
					w.Header().Set("Content-Length", tc.length)
				}
				io.WriteString(w, strings.Repeat("x", tc.begin))
				http.NewResponseController(w).Flush()
				<-rest
				io.WriteString(w, strings.Repeat("y", testBody+1-tc.begin))
			})
			resp, err := r.front.Client().Get(r.front.URL + "/a")
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, "miss", resp.Header.Get("X-Cache"))
			begin := make([]byte, tc.begin)
			_, err = io.ReadFull(resp.Body, begin)
			require.NoError(t, err)
			require.Equal(t, strings.Repeat("x", tc.begin), string(begin))
			r.clock.Advance(2 * testTimeout) // which is for what may be stored
			close(rest)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, strings.Repeat("y", testBody+1-tc.begin), string(body))
			require.Zero(t, r.proxy.cache.Len())
			require.EqualValues(t, 1, r.asked.Load())
		})
	}
}

func TestABodyOfTheLargestSizeIsStored(t *testing.T) {
	large := strings.Repeat("x", testBody)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, large)
	})
	r.get()
	a := r.get()
	require.Equal(t, "hit", a.cache())
	require.Equal(t, large, a.body)
}

func TestAChangeRemovesWhatWasStored(t *testing.T) {
	r := newRig(t, numbered("Cache-Control", "max-age=60"))
	r.get()
	r.get("Accept-Encoding", "gzip")
	require.Equal(t, "bypass", r.do(http.MethodPost, "/a").cache())
	require.Equal(t, "miss", r.get().cache())
	require.Equal(t, "miss", r.get("Accept-Encoding", "gzip").cache())
}

func TestWhatWasFetchedBeforeAChangeIsNotStoredAfterIt(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	var changed atomic.Bool
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		switch {
		case req.Method == http.MethodPut:
			changed.Store(true)
		case changed.Load():
			io.WriteString(w, "new")
		default:
			asked <- struct{}{}
			<-release
			io.WriteString(w, "old")
		}
	})
	got := make(chan answer)
	go func() { got <- r.do(http.MethodGet, "/a") }()
	<-asked
	require.Equal(t, http.StatusOK, r.do(http.MethodPut, "/a").status)
	require.Equal(t, "new", r.get().body)
	close(release)
	require.Equal(t, "old", (<-got).body) // who asked before the change may see what was before it
	require.Equal(t, "new", r.get().body)
	require.Equal(t, "hit", r.get().cache())
}

func TestAMissingPageIsStoredByItsOwnHeader(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "s-maxage=5, max-age=60")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "no such page")
	})
	r.get()
	r.clock.Advance(5*time.Second - 1)
	a := r.get()
	require.Equal(t, http.StatusNotFound, a.status)
	require.Equal(t, "no such page", a.body)
	require.Equal(t, "hit", a.cache())
	r.clock.Advance(1)
	require.Equal(t, "miss", r.get().cache())
}

func TestHEADIsAnsweredByWhatGETStoresAndStoresIt(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, req.Method)
	})
	for _, from := range []string{"miss", "hit"} {
		a := r.do(http.MethodHead, "/a")
		require.Equal(t, from, a.cache())
		require.Empty(t, a.body)
		require.Equal(t, "3", a.header.Get("Content-Length"))
	}
	require.Equal(t, "GET", r.get().body)
	require.EqualValues(t, 1, r.asked.Load())
}

func TestClientsOfGzipAndOthersGetResponsesOfTheirOwn(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Vary", "accept-encoding")
		io.WriteString(w, req.Header.Get("Accept-Encoding"))
	})
	for range 2 {
		require.Equal(t, "gzip", r.get("Accept-Encoding", "br;q=1, GZIP ; q=0.5").body)
		require.Equal(t, "identity", r.get("Accept-Encoding", "br, gzip;q=0").body)
		require.Equal(t, "identity", r.get().body)
	}
	require.EqualValues(t, 2, r.asked.Load())
}

func TestAClientThatHasTheResponseIsToldSo(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("ETag", `"a,b"`)
		io.WriteString(w, req.Header.Get("If-None-Match"))
	})
	for _, from := range []string{"miss", "hit"} {
		a := r.get("If-None-Match", `"c", W/"a,b"`)
		require.Equal(t, http.StatusNotModified, a.status)
		require.Equal(t, from, a.cache())
		require.Equal(t, `"a,b"`, a.header.Get("ETag"))
	}
	a := r.get("If-None-Match", `"a", "b"`)
	require.Equal(t, http.StatusOK, a.status)
	require.Empty(t, a.body)
}
