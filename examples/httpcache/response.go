package main

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A response is what the cache stores. It is not changed any more: many may be reading it.
type response struct {
	status int
	header http.Header
	body   []byte

	made       time.Time // when its age was 0
	freshUntil time.Time
	expires    time.Time // until then it may be served while it is fetched anew; its deadline in the cache
	lastResort time.Time // until then if it cannot be
}

// newResponse returns a response without its body. The age that it has is counted from
// when it was asked for, which is the latest at which it can have been made.
func newResponse(resp *http.Response, asked time.Time, a allowance) *response {
	age, _ := control{"age": resp.Header.Get("Age")}.seconds("age")
	r := &response{status: resp.StatusCode, header: resp.Header, made: asked.Add(-age)}
	r.freshUntil = r.made.Add(a.fresh)
	r.expires = r.freshUntil.Add(a.whileRevalidate)
	r.lastResort = r.freshUntil.Add(a.ifError)
	return r
}

// reply answers a request. from is for X-Cache.
func (r *response) reply(req *http.Request, now time.Time, from string) *http.Response {
	resp := &http.Response{
		StatusCode: r.status,
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     r.header.Clone(),
		Body:       http.NoBody,
		Request:    req,
	}
	resp.Header.Set("Age", strconv.FormatInt(int64(max(now.Sub(r.made), 0)/time.Second), 10))
	resp.Header.Set("X-Cache", from)
	if r.matches(req) {
		resp.StatusCode = http.StatusNotModified
		resp.Header.Del("Content-Length")
		return resp
	}
	if len(r.body) > 0 {
		resp.Header.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	if req.Method != http.MethodHead {
		resp.ContentLength = int64(len(r.body))
		resp.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	return resp
}

// matches reports whether the client has the response already, by If-None-Match.
func (r *response) matches(req *http.Request) bool {
	tag := opaque(r.header.Get("ETag"))
	known := splitList(strings.Join(req.Header.Values("If-None-Match"), ","))
	return r.status == http.StatusOK && tag != "" &&
		slices.ContainsFunc(known, func(t string) bool { return opaque(t) == tag })
}

// opaque returns the part of an entity tag that weak comparison looks at.
func opaque(tag string) string { return strings.TrimPrefix(strings.TrimSpace(tag), "W/") }
