package ingest

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// An input is an open file, decompressed as its name says.
type input struct {
	io.Reader
	file  *os.File
	size  int64        // of the file as it lies there; 0 is unknown
	read  atomic.Int64 // of that
	given atomic.Int64 // bytes that came of that, decompressed
	close func()
	quit  chan struct{} // closed once nobody waits for more of it
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	in.given.Add(int64(n))
	return n, err
}

// upTo returns how many bytes of the file as it lies there so many of what came
// of it are: as many, where it isn't compressed.
func (in *input) upTo(passed int64) int64 {
	// What came is asked for first: it is never more than what was read says.
	given := in.given.Load()
	read := in.read.Load()
	if given == 0 || passed >= given {
		return read
	}
	return int64(float64(read) * float64(passed) / float64(given))
}

// counted counts what is read of a file, and sees whether it is cut off
// meanwhile.
type counted struct {
	file *os.File
	n    *atomic.Int64
	size int64 // at opening; 0 is unknown
	last byte  // that was read
	// packed ones tell by themselves whether they are whole.
	packed bool
	quit   <-chan struct{}
}

const (
	// settledAfter is for how long nobody has written to a file whose last line has no
	// end, for that line to be taken as it is. Who writes the file may still be
	// at it.
	settledAfter = 5 * time.Second
	// growPoll is how often it is looked at until then, and growWait for how
	// long at most.
	growPoll = 100 * time.Millisecond
	growWait = 20 * time.Second
)

// errGrowing is the end of a file that somebody is writing to, in the middle of
// a line.
var errGrowing = errors.New("its last line has no end, and it is being written to")

// errCutOff is about a file that was truncated while it was read: where it ends
// now is in the middle of what was there.
var errCutOff = errors.New("it was cut off while it was read")

func (c *counted) Read(p []byte) (int, error) {
	for began := time.Now(); ; {
		n, err := c.file.Read(p)
		read := c.n.Add(int64(n))
		if n > 0 {
			c.last = p[n-1]
		}
		if n > 0 || c.size == 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		info, statErr := c.file.Stat()
		if statErr != nil {
			return 0, statErr
		}
		if info.Size() < max(read, c.size) {
			return 0, errCutOff
		}
		if c.packed || c.last == '\n' || info.Size() == read && time.Since(info.ModTime()) >= settledAfter {
			return 0, err
		}
		if time.Since(began) >= growWait {
			return 0, errGrowing
		}
		select {
		case <-time.After(growPoll):
		case <-c.quit:
			return 0, errGrowing
		}
	}
}

// errEmptyPacked is about a file that was cut off: without rows a compressed one
// still has a head.
var errEmptyPacked = errors.New("it is empty, which no compressed file is")

// openFile opens a file to be loaded. One that ends in .gz or .zst is
// decompressed.
func openFile(path string) (*input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in := &input{file: f, close: func() {}, quit: make(chan struct{})}
	fail := func(err error) (*input, error) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if info.IsDir() {
		return fail(errors.New("it is a directory"))
	}
	if info.Mode().IsRegular() {
		in.size = info.Size()
	}
	raw := &counted{file: f, n: &in.read, size: in.size, quit: in.quit}
	in.Reader = raw
	name := strings.ToLower(path)
	gz, zst := strings.HasSuffix(name, ".gz"), strings.HasSuffix(name, ".zst")
	if !gz && !zst {
		return in, nil
	}
	raw.packed = true
	packed := bufio.NewReaderSize(in.Reader, blockSize)
	if _, err := packed.Peek(1); errors.Is(err, io.EOF) {
		return fail(errEmptyPacked)
	}
	if gz {
		z, err := gzip.NewReader(packed)
		if err != nil {
			return fail(err)
		}
		in.Reader = z
		return in, nil
	}
	z, err := zstd.NewReader(packed)
	if err != nil {
		return fail(err)
	}
	in.Reader, in.close = z, z.Close
	return in, nil
}

// Close closes the file.
func (in *input) Close() error {
	in.close()
	return in.file.Close()
}
