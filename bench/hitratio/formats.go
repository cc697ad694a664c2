package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A format is one of those in which traces are published. Its reader adds the
// requests of a file until there are no more or the recorder is full.
type format struct {
	name       string
	about      string
	extensions []string // before .gz
	read       func(*bufio.Reader, *recorder) error
}

var formats = []format{
	{"u32be", "big-endian uint32 keys", []string{".u32be"}, readUint32s},
	{"arc", "lines of: first block, number of blocks, ignored, number of the request", []string{".lis", ".arc"}, readARC},
	{"lirs", "a block number per line; * is ignored", []string{".trc", ".lirs"}, readLIRS},
}

// formatOf returns the format of that name, or for "auto" the one that the file's
// extension stands for.
func formatOf(name, path string) (format, error) {
	extension := strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz")))
	var known []string
	for _, f := range formats {
		for _, e := range f.extensions {
			if f.name == name || name == "auto" && e == extension {
				return f, nil
			}
			known = append(known, e)
		}
	}
	if name == "auto" {
		return format{}, fmt.Errorf("%s: what format is that? its name ends in none of %s; see -format",
			path, strings.Join(known, ", "))
	}
	return format{}, fmt.Errorf("-format %s: no such format", name)
}

// readTrace reads at most limit requests of a file, all if that is 0. A file that
// begins as gzip does, or is named .gz, is decompressed.
func readTrace(path, formatName string, limit int) (*Trace, error) {
	f, err := formatOf(formatName, path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err // names the path
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<16)
	if begin, _ := in.Peek(3); bytes.Equal(begin, []byte{0x1f, 0x8b, 8}) || strings.HasSuffix(path, ".gz") {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		in = bufio.NewReaderSize(unzipped, 1<<16)
	}
	r := newRecorder(traceName(path), limit)
	if err := f.read(in, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r.finish()
}

// traceName is the name of the file without what tells its format.
func traceName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	return strings.TrimSuffix(name, filepath.Ext(name))
}

var errTooMany = fmt.Errorf("more than %d requests; see -limit", maxRequests)

func readUint32s(in *bufio.Reader, r *recorder) error {
	var key [4]byte
	for !r.full() {
		switch _, err := io.ReadFull(in, key[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("after %d keys: %w", len(r.trace.Requests), err)
		}
		r.add(uint64(binary.BigEndian.Uint32(key[:])))
	}
	return r.rest(in)
}

// rest fails if the recorder is full for another reason than its limit, and there
// is more to come.
func (r *recorder) rest(in *bufio.Reader) error {
	if _, err := in.Peek(1); err == nil && len(r.trace.Requests) == maxRequests {
		return errTooMany
	}
	return nil
}

// eachLine calls f for each line until the recorder is full.
func eachLine(in *bufio.Reader, r *recorder, f func(line string) error) error {
	lines := bufio.NewScanner(in)
	for n := 1; !r.full(); n++ {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			return nil
		}
		if err := f(lines.Text()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return r.rest(in)
}

// maxBlocks is the most blocks that a line may ask for. Those of the published
// traces are a few hundred: more is taken for a damaged file, before it takes all
// memory.
const maxBlocks = 1 << 20

func readARC(in *bufio.Reader, r *recorder) error {
	return eachLine(in, r, func(line string) error {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return nil
		}
		if len(fields) != 4 {
			return fmt.Errorf("%q has %d numbers, not 4", shortened(line), len(fields))
		}
		var numbers [4]uint64
		for i, field := range fields {
			n, err := parseBlock(field)
			if err != nil {
				return err
			}
			numbers[i] = n
		}
		first, blocks := numbers[0], numbers[1]
		if blocks > maxBlocks || first > math.MaxUint64-blocks {
			return fmt.Errorf("%q asks for %d blocks", shortened(line), blocks)
		}
		for i := uint64(0); i < blocks && !r.full(); i++ {
			r.add(first + i)
		}
		return nil
	})
}

func readLIRS(in *bufio.Reader, r *recorder) error {
	return eachLine(in, r, func(line string) error {
		line = strings.TrimSpace(line)
		if line == "" || line == "*" {
			return nil
		}
		block, err := parseBlock(line)
		if err != nil {
			return err
		}
		r.add(block)
		return nil
	})
}

func parseBlock(field string) (uint64, error) {
	n, err := strconv.ParseUint(field, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no block number", shortened(field))
	}
	return n, nil
}

// shortened is what of a line goes into a message: a file in another format may
// have very long ones.
func shortened(line string) string {
	if len(line) > 40 {
		return line[:40] + "..."
	}
	return line
}
