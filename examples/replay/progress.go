package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A progress rewrites one line on a terminal to tell how far a replay is. A nil
// progress is silent.
type progress struct {
	w    io.Writer
	last time.Time
}

// pause between two lines: faster ones could not be read.
const pause = 100 * time.Millisecond

// newProgress returns the progress for w: nil if that is no terminal.
func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &progress{w: f}
}

// toLineEnd makes a terminal forget what is right of the cursor: the rest of a
// longer line.
const toLineEnd = "\x1b[K"

func (p *progress) show(r *result) {
	if p == nil || time.Since(p.last) < pause {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r%d requests, %s hits, %v of virtual time"+toLineEnd,
		r.requests, r.ratio(), r.virtual.Truncate(time.Second))
}

// clear makes room for what is printed next.
func (p *progress) clear() {
	if p == nil || p.last.IsZero() {
		return
	}
	p.last = time.Time{}
	fmt.Fprint(p.w, "\r"+toLineEnd)
}
