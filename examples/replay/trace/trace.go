// Package trace reads access traces of caches: which key was asked for, when,
// and how long it is good for.
//
// A trace is a file in one of three formats:
//
//   - [Keys]: one key per line. Requests arrive at a given rate.
//   - [Stamped]: timestamp,key or timestamp,key,ttl on every line. Timestamps
//     are decimal seconds since any moment, so Unix time does, and never go
//     back. A ttl is decimal seconds or a Go duration such as 1m30s.
//   - [Uint32s]: keys as big-endian 32-bit integers. Requests arrive at a given
//     rate.
//
// A file whose name ends in .gz is decompressed. What is then left of the name
// decides about the last format: it ends in .u32be. Between the other two the
// first line decides: it is stamped if it has a comma and what comes before the
// first one is a number.
package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Request is one access.
type Request[K comparable] struct {
	At  time.Duration // since the first request; never less than that of the request before
	Key K
	TTL time.Duration // of the entry if this request has to store it; 0: it does not expire
}

// Defaults are for what a trace leaves out.
type Defaults struct {
	Rate float64       // requests per second, more than 0; for traces without timestamps
	TTL  time.Duration // for requests without their own; 0: entries do not expire
}

// Arrival returns when request n, counted from 0, arrives at d.Rate. It stops
// growing after 146 years, short of overflow.
func (d Defaults) Arrival(n int) time.Duration {
	const most = 1 << 62
	return time.Duration(min(float64(n)*float64(time.Second)/d.Rate, most))
}

// Format is how a file holds its requests.
type Format int

// The formats.
const (
	Keys    Format = iota // a key per line
	Stamped               // timestamp,key[,ttl] per line
	Uint32s               // big-endian 32-bit keys
)

// maxLine bounds the length of a line. Whatever is longer is no access log: the
// longest keys that Memcached and its kin allow have 250 bytes.
const maxLine = 64 << 10

// A File is an open trace.
type File struct {
	path   string
	format Format
	file   *os.File
	r      *bufio.Reader
}

// Open opens the trace at path and finds out its format.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	var r io.Reader = file
	name, zipped := strings.CutSuffix(path, ".gz")
	if zipped {
		if r, err = gunzip(file); err != nil {
			file.Close()
			return nil, fmt.Errorf("%s: %w", path, cause(err))
		}
	}
	f := &File{path: path, format: Uint32s, file: file, r: bufio.NewReaderSize(r, maxLine+1)}
	if !strings.HasSuffix(name, ".u32be") {
		f.format = f.textFormat()
	}
	return f, nil
}

// Format returns the format of f.
func (f *File) Format() Format { return f.format }

// Close closes f.
func (f *File) Close() error { return f.file.Close() }

// Uint32s returns the requests of a file in the format of that name. They can
// be ranged over once; an error is the last thing they yield.
func (f *File) Uint32s(d Defaults) iter.Seq2[Request[uint32], error] {
	return func(yield func(Request[uint32], error) bool) {
		var b [4]byte
		for n := 0; ; n++ {
			read, err := io.ReadFull(f.r, b[:])
			if err == io.EOF {
				return
			}
			if err == io.ErrUnexpectedEOF {
				err = fmt.Errorf("%d bytes where 4 make a key; the length must be a multiple of 4", read)
			}
			if err != nil {
				yield(Request[uint32]{}, fmt.Errorf("%s: key %d: %w", f.path, n+1, cause(err)))
				return
			}
			if !yield(Request[uint32]{d.Arrival(n), binary.BigEndian.Uint32(b[:]), d.TTL}, nil) {
				return
			}
		}
	}
}

// Strings returns the requests of a file of lines. They can be ranged over
// once; an error is the last thing they yield.
func (f *File) Strings(d Defaults) iter.Seq2[Request[string], error] {
	return func(yield func(Request[string], error) bool) {
		p := parser{Defaults: d}
		parse := p.key
		if f.format == Stamped {
			parse = p.stamped
		}
		for ; ; p.n++ {
			line, err := f.line()
			if err == io.EOF {
				return
			}
			var req Request[string]
			if err == nil {
				req, err = parse(line)
			}
			if err != nil {
				yield(Request[string]{}, fmt.Errorf("%s: line %d: %w", f.path, p.n+1, cause(err)))
				return
			}
			if !yield(req, nil) {
				return
			}
		}
	}
}

// line returns the next line without its end. An error takes precedence over
// the part of a line that came before it: half a key is no key.
func (f *File) line() (string, error) {
	b, err := f.r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return "", fmt.Errorf("longer than the %d bytes that are allowed", maxLine)
	case err == io.EOF && len(b) > 0:
		// The last line may lack its end.
	case err != nil:
		return "", err
	case bytes.IndexByte(b, 0) >= 0:
		return "", errors.New("has a zero byte; want text, or a name ending in .u32be or .u32be.gz for binary keys")
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	return string(bytes.TrimSuffix(b, []byte("\r"))), nil
}

// textFormat looks at the first line without consuming it. An error that it
// meets comes up again when the line is read.
func (f *File) textFormat() Format {
	head, _ := f.r.Peek(maxLine)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first, _, comma := bytes.Cut(line, []byte(","))
	if _, err := strconv.ParseFloat(string(first), 64); comma && err == nil {
		return Stamped
	}
	return Keys
}

// A parser makes requests of the lines of one file.
type parser struct {
	Defaults
	n      int           // lines before this one
	origin time.Duration // timestamp of the first line
	last   time.Duration // timestamp of the line before
}

func (p *parser) key(line string) (Request[string], error) {
	if line == "" {
		return Request[string]{}, errors.New("empty key; want one key on every line")
	}
	return Request[string]{p.Arrival(p.n), line, p.TTL}, nil
}

func (p *parser) stamped(line string) (req Request[string], err error) {
	fields := strings.Split(line, ",")
	if len(fields) != 2 && len(fields) != 3 {
		return req, fmt.Errorf("%d commas; want timestamp,key or timestamp,key,ttl", len(fields)-1)
	}
	now, ok := seconds(fields[0])
	switch {
	case !ok || now < 0:
		return req, fmt.Errorf("timestamp %q; want seconds from 0 to %d, such as 12 or 12.5", fields[0], maxSeconds)
	case p.n == 0:
		p.origin = now
	case now < p.last:
		return req, fmt.Errorf("timestamp %s is %v before that of the line above; want them in order", fields[0], p.last-now)
	}
	p.last = now

	if fields[1] == "" {
		return req, errors.New("empty key; want timestamp,key or timestamp,key,ttl")
	}
	ttl := p.TTL
	if len(fields) == 3 {
		if ttl, ok = lifetime(fields[2]); !ok {
			return req, fmt.Errorf("ttl %q; want seconds from 0 to %d or a duration such as 1m30s, 0 for an entry that does not expire",
				fields[2], maxSeconds)
		}
	}
	return Request[string]{now - p.origin, fields[1], ttl}, nil
}

// maxSeconds is how many seconds fit into a Duration.
const maxSeconds = math.MaxInt64 / int64(time.Second)

// seconds parses a decimal number of seconds, to the nanosecond: a float64
// would round today's Unix times to fractions of a microsecond, enough to make
// a request that comes exactly at a deadline come before it.
func seconds(s string) (time.Duration, bool) {
	if strings.Trim(s, "+-.0123456789") != "" {
		return 0, false // ParseDuration would take the 1h2 of 1h2s
	}
	d, err := time.ParseDuration(s + "s")
	return d, err == nil
}

func lifetime(s string) (time.Duration, bool) {
	d, ok := seconds(s)
	if !ok {
		var err error
		d, err = time.ParseDuration(s)
		ok = err == nil
	}
	return d, ok && d >= 0
}

// cause returns err without the path that package os puts before it.
func cause(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}

// unzipper is a gzip.Reader that tells data that is cut short from a reader
// that wanted more of it than there was. Both are io.ErrUnexpectedEOF.
type unzipper struct{ *gzip.Reader }

var errTruncated = errors.New("the gzip data is cut short")

func gunzip(r io.Reader) (io.Reader, error) {
	z, err := gzip.NewReader(r)
	switch {
	case err == gzip.ErrHeader || err == io.EOF || err == io.ErrUnexpectedEOF:
		return nil, errors.New("not gzip data, which a name ending in .gz promises")
	case err != nil:
		return nil, err
	}
	return unzipper{z}, nil
}

func (z unzipper) Read(p []byte) (int, error) {
	n, err := z.Reader.Read(p)
	if err == io.ErrUnexpectedEOF {
		err = errTruncated
	}
	return n, err
}
