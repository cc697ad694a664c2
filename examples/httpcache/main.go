// Httpcache is a small caching reverse proxy: it answers for one origin and keeps
// what that allows to be kept (RFC 9111), for as long as it says so, with
// stale-while-revalidate and stale-if-error (RFC 5861).
//
//	go run ./examples/httpcache -origin http://localhost:9000 -listen localhost:8080
//	curl -i http://localhost:8080/
//
// X-Cache in a response tells where it comes from: "hit" from the cache, "stale" from the
// cache although it is no longer fresh, "miss" from the origin, "bypass" from the origin
// with nobody having looked into the cache or stored anything. Age is that of RFC 9111.
//
// What belongs to HTTP stands here; time and concurrency are left to the cache:
//
//   - max-age, s-maxage and Expires: Options.Expiry, by an expiry.Func. A response lives
//     until it is neither fresh nor within its stale-while-revalidate.
//   - Many requests for one URL: GetOrLoad. The origin gets one of them.
//   - stale-while-revalidate: Cache.Refresh, by whoever is served a stale response.
//   - stale-if-error: Options.StaleFor. It is one bound for all, so each response's own
//     is looked at here.
//   - An origin that is down: Options.ErrorTTL, so that it is not asked every time, and
//     Options.LoadTimeout.
//   - A URL whose responses may not be stored: ErrNotFound and Options.NegativeTTL. For
//     that long requests for it do not wait for each other.
//   - POST, PUT, DELETE and the like: Cache.Delete, which also keeps what is being
//     fetched from being stored.
//
// A response is shared only if it may be stored. One that may not goes to the client whose
// request it answers; those who have waited for it make requests of their own.
//
// Responses are stored if they say explicitly for how long they are fresh, whatever their
// status, a 404 as a 200, but for 206, 304 and 5xx. (That a page is missing could also
// be remembered by Options.NegativeTTL; but then its body would be lost, and all
// missing pages would be remembered equally long.) They are not if they are private,
// no-store or no-cache, set cookies, vary by more than Accept-Encoding, have trailers,
// or are larger than -max-body. Requests with a method other than GET and HEAD, with
// Authorization or Range, with a body, with If-Match or If-Unmodified-Since, or for an
// upgrade of the connection are passed on as they are.
//
// It has its limits: stale responses are fetched anew in full, not validated;
// Cache-Control and If-Modified-Since of requests are ignored, as is allowed; and the cache
// is not bounded, so it is for an origin with a limited number of URLs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `usage: httpcache [flags]

A caching reverse proxy for one origin.

Flags:
`

// shutdownGrace is for how long requests that are under way may go on after a signal.
const shutdownGrace = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with what it touches as arguments. It serves until ctx ends, and returns the
// exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, listen, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "httpcache: %v\n", err)
		return 2
	}
	cfg.log = slog.New(slog.NewTextHandler(stderr, nil))
	if err := serve(ctx, cfg, listen, stdout); err != nil {
		fmt.Fprintf(stderr, "httpcache: %v\n", err)
		return 1
	}
	return 0
}

// parse returns what args ask for. Asked for help, it prints that to w and returns
// flag.ErrHelp.
func parse(args []string, w io.Writer) (cfg config, listen string, err error) {
	fs := flag.NewFlagSet("httpcache", flag.ContinueOnError)
	origin := fs.String("origin", "", "URL of the server to answer for, such as http://localhost:9000")
	fs.StringVar(&listen, "listen", "localhost:8080", "address to listen on")
	fs.Int64Var(&cfg.maxBody, "max-body", 1<<20, "bytes of the largest body that is stored; larger ones are passed on")
	fs.DurationVar(&cfg.staleIfError, "stale-if-error", 10*time.Minute, "the most that a response's stale-if-error counts, and for how long each stays in memory for it")
	fs.DurationVar(&cfg.timeout, "timeout", 30*time.Second, "how long to wait for a response that may be stored, and for the header of any other")
	fs.DurationVar(&cfg.errorTTL, "error-ttl", time.Second, "for how long a URL is not asked for again when the origin has failed; 0: not at all")
	fs.DurationVar(&cfg.passTTL, "pass-ttl", 10*time.Second, "for how long requests for a URL are passed on when its response was not to be stored; 0: not at all")

	// Parse prints the whole usage after an error. One line says more.
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(w, usage)
			fs.SetOutput(w)
			fs.PrintDefaults()
		}
		return cfg, "", err
	}
	cfg.origin, err = url.Parse(*origin)
	switch {
	case err != nil:
		return cfg, "", fmt.Errorf("-origin: %w", err)
	case cfg.origin.Scheme != "http" && cfg.origin.Scheme != "https" || cfg.origin.Host == "":
		return cfg, "", fmt.Errorf("-origin is %q; it must be a URL with http or https and a host, such as http://localhost:9000", *origin)
	case fs.NArg() > 0:
		return cfg, "", fmt.Errorf("there is an argument, %q; only flags are allowed", fs.Arg(0))
	case cfg.maxBody < 0:
		return cfg, "", fmt.Errorf("-max-body is %d; it must not be negative", cfg.maxBody)
	case cfg.timeout <= 0:
		return cfg, "", fmt.Errorf("-timeout is %v; it must be more than 0", cfg.timeout)
	case cfg.staleIfError < 0:
		return cfg, "", fmt.Errorf("-stale-if-error is %v; it must not be negative", cfg.staleIfError)
	case cfg.errorTTL < 0:
		return cfg, "", fmt.Errorf("-error-ttl is %v; it must not be negative", cfg.errorTTL)
	case cfg.passTTL < 0:
		return cfg, "", fmt.Errorf("-pass-ttl is %v; it must not be negative", cfg.passTTL)
	}
	return cfg, listen, nil
}

// serve answers requests until ctx ends, and then lets those that are under way end.
func serve(ctx context.Context, cfg config, listen string, stdout io.Writer) error {
	p, err := newProxy(cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Fprintf(stdout, "http://%v answers for %v\n", l.Addr(), cfg.origin)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err = server.Shutdown(grace)
	s := p.cache.Stats()
	fmt.Fprintf(stdout, "hits %d, misses %d, loads %d, of them in the background %d; stored at the end %d\n",
		s.Hits, s.Misses, s.Load.Loads, s.Load.Refreshes, s.Entries)
	return err
}
