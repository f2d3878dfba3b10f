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

// An input is an open file, decompressed according to the extension of its name.
type input struct {
	io.Reader
	file  *os.File
	size  int64        // bytes on disk, compressed or not; 0 is unknown
	read  atomic.Int64 // bytes of the file read
	given atomic.Int64 // bytes returned after decompression
	close func()
	quit  chan struct{} // closed when nobody waits for the file to grow
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	in.given.Add(int64(n))
	return n, err
}

// upTo converts a number of decompressed bytes to the corresponding number of bytes on disk.
func (in *input) upTo(passed int64) int64 {
	// given is loaded before read, so that it never exceeds the bytes that read
	// accounts for.
	given := in.given.Load()
	read := in.read.Load()
	if given == 0 || passed >= given {
		return read
	}
	return int64(float64(read) * float64(passed) / float64(given))
}

// counted counts the bytes read from a file and detects that it is truncated meanwhile.
type counted struct {
	file *os.File
	n    *atomic.Int64
	size int64 // when the file was opened; 0 is unknown
	last byte  // the last byte read
	// packed means that the file is compressed: its format reveals whether it is
	// complete.
	packed bool
	quit   <-chan struct{}
}

const (
	// settledAfter is how long a file must not have been written to before its
	// unterminated last line is accepted: the writer may still be writing it.
	settledAfter = 5 * time.Second
	// growPoll is the interval between checks for that, and growWait limits the
	// total wait.
	growPoll = 100 * time.Millisecond
	growWait = 20 * time.Second
)

var errGrowing = errors.New("its last line is incomplete, and it is being written to")

var errCutOff = errors.New("it was truncated while it was read")

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

// errEmptyPacked is returned for an empty compressed file, which must have been
// truncated: even without content a compressed file has a header.
var errEmptyPacked = errors.New("it is empty, and a compressed file never is")

// openFile opens a file, which is decompressed if its name ends in .gz or .zst.
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
