package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestItServesUntilItIsToldToStopAndLetsRequestsEnd(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		io.WriteString(w, "body")
	}))
	defer origin.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out, in := io.Pipe()
	var complaints bytes.Buffer
	status := make(chan int)
	go func() {
		code := run(ctx, []string{"-origin", origin.URL, "-listen", "127.0.0.1:0"}, in, &complaints)
		in.Close()
		status <- code
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	at, _, _ := strings.Cut(lines.Text(), " ")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	got := make(chan string)
	go func() {
		resp, err := client.Get(at + "/a")
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got <- string(body)
	}()
	<-asked
	stop()
	close(release)
	require.Equal(t, "body", <-got)
	require.True(t, lines.Scan())
	require.Equal(t, "hits 0, misses 1, loads 1, of them in the background 0; stored at the end 0", lines.Text())
	require.Equal(t, 0, <-status)
	require.Empty(t, complaints.String())
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for _, tc := range []struct{ args, complaint string }{
		{"", `-origin is ""; it must be a URL with http or https and a host, such as http://localhost:9000`},
		{"-origin localhost:9000", `-origin is "localhost:9000"; it must be a URL with http or https`},
		{"-origin http://x y", `there is an argument, "y"; only flags are allowed`},
		{"-origin http://x -max-body -1", "-max-body is -1; it must not be negative"},
		{"-origin http://x -timeout 0s", "-timeout is 0s; it must be more than 0"},
		{"-origin http://x -stale-if-error -1s", "-stale-if-error is -1s; it must not be negative"},
		{"-origin http://x -error-ttl -1s", "-error-ttl is -1s; it must not be negative"},
		{"-origin http://x -pass-ttl -1s", "-pass-ttl is -1s; it must not be negative"},
		{"-no", "flag provided but not defined: -no"},
	} {
		var out, complaints bytes.Buffer
		require.Equal(t, 2, run(context.Background(), strings.Fields(tc.args), &out, &complaints))
		require.Contains(t, complaints.String(), "httpcache: "+tc.complaint)
		require.Empty(t, out.String())
	}
}

func TestHelpNamesTheFlags(t *testing.T) {
	var out, complaints bytes.Buffer
	require.Equal(t, 0, run(context.Background(), []string{"-h"}, &out, &complaints))
	require.Contains(t, out.String(), "-stale-if-error duration")
	require.Empty(t, complaints.String())
}
