package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/wheelcache/wheelcache"
	"github.com/wheelcache/wheelcache/expiry"
)

// A config is what the flags say, and what tests inject.
type config struct {
	origin       *url.URL
	maxBody      int64
	staleIfError time.Duration
	timeout      time.Duration
	errorTTL     time.Duration
	passTTL      time.Duration

	log       *slog.Logger                             // nil: slog.Default()
	clock     clockwork.Clock                          // nil: real time
	onRemoval func(wheelcache.Removal[key, *response]) // may be nil
}

// A key says what is asked for. gzip stands for Accept-Encoding: the origin is asked for
// nothing but gzip, or for no coding, so that all who have a key can use what comes.
type key struct {
	url  string
	gzip bool
}

// A proxy is an httputil.ReverseProxy that sends requests through a cache: it is the
// http.RoundTripper of its ReverseProxy, which does all that does not concern caching.
type proxy struct {
	httputil.ReverseProxy
	config
	upstream *http.Transport
	cache    *wheelcache.Cache[key, *response]
}

func newProxy(cfg config) (*proxy, error) {
	injected := cfg.clock // nil is faster for the cache than a real one
	if cfg.clock == nil {
		cfg.clock = clockwork.NewRealClock()
	}
	if cfg.log == nil {
		cfg.log = slog.Default()
	}
	p := &proxy{config: cfg}
	p.ReverseProxy = httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(cfg.origin) },
		Transport:     p,
		FlushInterval: -1, // what is streamed comes at the origin's pace
		ErrorHandler:  p.fail,
		ErrorLog:      slog.NewLogLogger(cfg.log.Handler(), slog.LevelWarn),
	}
	p.upstream = http.DefaultTransport.(*http.Transport).Clone()
	p.upstream.Proxy = nil
	p.upstream.DisableCompression = true // clients and origin agree on that
	p.upstream.MaxIdleConnsPerHost = 100
	p.upstream.ResponseHeaderTimeout = cfg.timeout
	var err error
	p.cache, err = wheelcache.New(wheelcache.Options[key, *response]{
		Expiry:      expiry.Func(p.lifetime),
		StaleFor:    cfg.staleIfError,
		LoadTimeout: cfg.timeout,
		ErrorTTL:    cfg.errorTTL,
		NegativeTTL: cfg.passTTL,
		Clock:       injected,
		OnRemoval:   cfg.onRemoval,
		Logger:      cfg.log,
	})
	return p, err
}

// Close ends what the proxy does in the background. Requests must be over.
func (p *proxy) Close() error {
	err := p.cache.Close()
	p.upstream.CloseIdleConnections()
	return err
}

// lifetime is asked by the cache when a response arrives.
func (p *proxy) lifetime(_ key, r *response) time.Duration { return r.expires.Sub(p.clock.Now()) }

// RoundTrip answers a request from the cache or the origin.
func (p *proxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if !mayShare(req) {
		return p.pass(req)
	}
	k := key{req.URL.String(), acceptsGzip(req.Header)}
	f := p.newFetch(req, k)
	r, err := p.cache.GetOrLoad(req.Context(), k, f.load)
	if err != nil {
		return p.unshared(req, f, err)
	}
	now := p.clock.Now()
	var from string
	switch {
	case r == f.stored.Load():
		from = "miss"
	case now.Before(r.freshUntil):
		from = "hit"
	case now.Before(r.expires):
		from = "stale"
		if _, err := p.cache.Refresh(req.Context(), k, p.newFetch(req, k).load); err != nil {
			return nil, err
		}
	case now.Before(r.lastResort):
		from = "stale"
	default: // StaleFor allows more than this response does
		return p.unshared(req, f, errNotShared)
	}
	f.discard()
	return r.reply(req, now, from), nil
}

// unshared answers a request for which there is nothing in the cache that it may have: by
// what its own fetch has brought; by asking the origin, if there is no such thing; or by
// the error, if the origin does not answer.
func (p *proxy) unshared(req *http.Request, f *fetch, err error) (*http.Response, error) {
	if resp := f.handed.Load(); resp != nil {
		resp.Header.Set("X-Cache", "miss")
		if req.Method == http.MethodHead { // a fetch is always a GET
			resp.Body.Close()
			resp.Body = http.NoBody
		}
		return resp, nil
	}
	if errors.Is(err, errNotShared) || errors.Is(err, errOriginFailed) {
		return p.pass(req)
	}
	return nil, err
}

// pass asks the origin for what is of no concern to the cache, but for this: what has been
// stored of a URL is out of date when something has been changed there.
func (p *proxy) pass(req *http.Request) (*http.Response, error) {
	resp, err := p.upstream.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Header.Set("X-Cache", "bypass")
	if !isSafe(req.Method) && resp.StatusCode < 400 {
		for _, gzip := range []bool{false, true} {
			p.cache.Delete(key{req.URL.String(), gzip})
		}
	}
	return resp, nil
}

// fail answers a request for which RoundTrip has an error.
func (p *proxy) fail(w http.ResponseWriter, req *http.Request, err error) {
	if req.Context().Err() != nil {
		return // the client has gone
	}
	status := http.StatusBadGateway
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	p.log.Warn("the origin does not answer", "url", req.URL.String(), "status", status, "error", err)
	http.Error(w, http.StatusText(status), status)
}
