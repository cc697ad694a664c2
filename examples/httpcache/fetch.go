package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/wheelcache/wheelcache"
)

var (
	// errNotShared is for a response that one client may have. It is an ErrNotFound:
	// what the cache has is removed, and not served instead as it is when the origin
	// fails.
	errNotShared = fmt.Errorf("the response may not be stored: %w", wheelcache.ErrNotFound)

	errOriginFailed = errors.New("the origin has answered 5xx")
)

// A fetch asks the origin for what the cache lacks. Its request is that of the client who
// came first; many may get the response. One that only the first may have is handed to it
// past the cache.
type fetch struct {
	p      *proxy
	req    *http.Request
	client context.Context // ends when the client has its answer or has gone

	// Set by load before it returns, which is before those who wait for it go on.
	stored atomic.Pointer[response]
	handed atomic.Pointer[http.Response]
}

func (p *proxy) newFetch(req *http.Request, k key) *fetch {
	f := &fetch{p: p, req: req.Clone(context.Background()), client: req.Context()}
	f.req.Method = http.MethodGet // also for HEAD
	f.req.Header.Del("If-None-Match")
	f.req.Header.Del("If-Modified-Since")
	if k.gzip {
		f.req.Header.Set("Accept-Encoding", "gzip")
	} else {
		f.req.Header.Set("Accept-Encoding", "identity")
	}
	return f
}

// load is the cache's loader. Its context ends when it returns, but a response that is
// handed on is read after that. So the request has a context of its own, without the
// values of the client's: net/http would report to the client's trace.
func (f *fetch) load(ctx context.Context, k key) (*response, error) {
	own, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	hand := func(resp *http.Response) {
		if stop() {
			context.AfterFunc(f.client, func() { cancel(context.Canceled) })
			f.handed.Store(resp)
		}
	}

	asked := f.p.clock.Now()
	resp, err := f.p.upstream.RoundTrip(f.req.WithContext(own))
	if err != nil {
		return nil, f.failed(k, err)
	}
	if resp.StatusCode >= 500 {
		hand(resp)
		return nil, f.failed(k, errOriginFailed)
	}
	a, ok := allowanceOf(resp.Header)
	r := newResponse(resp, asked, a)
	if !ok || !mayStore(resp) || !f.p.clock.Now().Before(r.expires) || resp.ContentLength > f.p.maxBody {
		hand(resp)
		return nil, errNotShared
	}
	r.body, err = io.ReadAll(io.LimitReader(resp.Body, f.p.maxBody+1))
	if err != nil {
		return nil, f.failed(k, err)
	}
	if int64(len(r.body)) > f.p.maxBody {
		resp.Body = again{io.MultiReader(bytes.NewReader(r.body), resp.Body), resp.Body}
		hand(resp)
		return nil, errNotShared
	}
	resp.Body.Close()
	f.stored.Store(r)
	return r, nil
}

// failed is for an origin that does not answer. Then the cache serves what it has, if it is
// not older than Options.StaleFor allows. What is older than its own stale-if-error
// allows is removed here, so that all who wait get the error instead.
func (f *fetch) failed(k key, err error) error {
	e, _ := f.p.cache.Entry(k)
	if e.Stale && !f.p.clock.Now().Before(e.Value.lastResort) {
		f.p.cache.Delete(k)
	}
	return err
}

// discard closes a response that nobody is going to read: the failure that a stale
// response hides.
func (f *fetch) discard() {
	if resp := f.handed.Load(); resp != nil {
		resp.Body.Close()
	}
}

// An again is a body of which something had been read.
type again struct {
	io.Reader
	io.Closer
}
