package main

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A control is what Cache-Control says: directives and their arguments, which are empty
// if there are none.
type control map[string]string

// parseControl reads all Cache-Control fields. Of a directive that is there twice, the
// first counts.
func parseControl(h http.Header) control {
	c := make(control)
	for _, directive := range splitList(strings.Join(h.Values("Cache-Control"), ",")) {
		name, argument, _ := strings.Cut(directive, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, ok := c[name]; !ok && name != "" {
			c[name] = strings.Trim(argument, ` "`)
		}
	}
	return c
}

// splitList splits at the commas that are not within quotes.
func splitList(s string) (elements []string) {
	quoted, begin := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			elements = append(elements, s[begin:i])
			begin = i + 1
		}
	}
	return append(elements, s[begin:])
}

// has reports whether one of the directives is there.
func (c control) has(names ...string) bool {
	for _, name := range names {
		if _, ok := c[name]; ok {
			return true
		}
	}
	return false
}

// seconds returns the argument of a directive. One that is no number of seconds is
// taken for 0, which allows the least; one that is too large for the largest.
func (c control) seconds(name string) (d time.Duration, ok bool) {
	argument, ok := c[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(argument, 10, 64)
	if err != nil && n != math.MaxUint64 { // which ParseUint answers if it is out of range
		return 0, true
	}
	return time.Duration(min(n, math.MaxInt32)) * time.Second, true
}

// An allowance is for how long a response may be used.
type allowance struct {
	fresh           time.Duration // since it was made by the origin
	whileRevalidate time.Duration // after that, if it is fetched anew meanwhile
	ifError         time.Duration // after fresh, if it cannot be
}

// allowanceOf returns what a header allows a shared cache: nothing if it does not say so.
// s-maxage does not forbid stale responses if the header allows them by name.
func allowanceOf(h http.Header) (a allowance, ok bool) {
	c := parseControl(h)
	if c.has("no-store", "no-cache", "private") {
		return a, false
	}
	if a.fresh, ok = c.seconds("s-maxage"); !ok {
		if a.fresh, ok = c.seconds("max-age"); !ok {
			if a.fresh, ok = untilExpires(h); !ok {
				return a, false
			}
		}
	}
	if !c.has("must-revalidate", "proxy-revalidate") {
		a.whileRevalidate, _ = c.seconds("stale-while-revalidate")
		a.ifError, _ = c.seconds("stale-if-error")
	}
	return a, true
}

// untilExpires is max-age by the older fields. Both are times of the origin, so it does not
// matter what time it is here.
func untilExpires(h http.Header) (time.Duration, bool) {
	if h.Get("Expires") == "" {
		return 0, false
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0, false
	}
	expires, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0, true // such as 0, which means that it has expired
	}
	return max(expires.Sub(date), 0), true
}

// mayStore reports whether a response may be stored if its header allows that.
func mayStore(resp *http.Response) bool {
	switch code := resp.StatusCode; {
	case code < 200 || code >= 500 || code == http.StatusPartialContent || code == http.StatusNotModified:
		return false
	case len(resp.Header.Values("Set-Cookie")) > 0 || len(resp.Trailer) > 0:
		return false
	}
	for _, field := range splitList(strings.Join(resp.Header.Values("Vary"), ",")) {
		if field = strings.TrimSpace(field); field != "" && !strings.EqualFold(field, "Accept-Encoding") {
			return false
		}
	}
	return true
}

// mayShare reports whether the answer to a request may come from the cache and go there.
func mayShare(req *http.Request) bool {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return false
	}
	if req.Body != nil && req.Body != http.NoBody {
		return false
	}
	for _, field := range []string{"Authorization", "Range", "If-Match", "If-Unmodified-Since", "Upgrade"} {
		if req.Header.Get(field) != "" {
			return false
		}
	}
	return true
}

// isSafe reports whether requests with the method change nothing at the origin.
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// acceptsGzip reports whether the client of a request takes gzip.
func acceptsGzip(h http.Header) bool {
	for _, coding := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, q, ok := strings.Cut(weight, "=")
			n, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
			return !ok || err == nil && n > 0
		}
	}
	return false
}
