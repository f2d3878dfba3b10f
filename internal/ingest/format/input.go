package format

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

// An Input is an open source, decompressed and in UTF-8. Offsets count the bytes that it returns.
type Input struct {
	*bufio.Reader
	name  string // the name of the file, or of the only member of a .zip
	file  *os.File
	Size  int64        // bytes on disk, compressed or not; 0 is unknown
	read  atomic.Int64 // bytes of the file read
	given atomic.Int64 // bytes returned after decompression
	// wide means that the text was UTF-16, as spreadsheets write it.
	wide   bool
	packed bool     // the source is compressed
	raw    *counted // the file's bytes; nil for a stream
	closes []func()
	quit   chan struct{} // closed when nobody waits for the file to grow
}

// Read implements io.Reader.
func (in *Input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	in.given.Add(int64(n))
	return n, err
}

// Follow prepares for a file that is still being written. A line break at the end of the file means
// that it is complete. If array is set, a closing bracket at the end means that, too. waits is
// called before the first wait for the writer.
func (in *Input) Follow(array bool, waits func()) { in.raw.array, in.raw.waits = array, waits }

// Unfollow ends the wait for the writer.
func (in *Input) Unfollow() { close(in.quit) }

// expansion is a guess of how much larger the text of a compressed file is.
const expansion = 4

// TextSize is about the size of the text in bytes.
func (in *Input) TextSize() int64 {
	if in.packed {
		return in.Size * expansion
	}
	return in.Size
}

// UpTo converts a number of decompressed bytes to the corresponding number of bytes on disk.
func (in *Input) UpTo(passed int64) int64 {
	// given is loaded before read, so that it never exceeds the bytes that read accounts for.
	given := in.given.Load()
	read := in.read.Load()
	if given == 0 || passed >= given {
		return read
	}
	return int64(float64(read) * float64(passed) / float64(given))
}

// counted counts the bytes read from a file, and detects that the file is truncated meanwhile.
type counted struct {
	file *os.File
	n    *atomic.Int64
	size int64 // when the file was opened; 0 is unknown
	// last are the last two bytes read: in UTF-16, a line break is two bytes.
	last [2]byte
	// packed means compressed: then the compressed data itself shows whether the file is complete. It
	// is atomic because decompressors read in goroutines of their own.
	packed atomic.Bool
	array  bool // the content is a JSON array
	waits  func()
	quit   <-chan struct{}
}

const (
	// A last line without a line break is accepted once the file has not been written to for
	// SettledAfter. Until then, the writer may still be writing the line.
	SettledAfter = 5 * time.Second
	// growPoll is the interval between checks of the file. growWait limits the total wait.
	growPoll = 100 * time.Millisecond
	growWait = 20 * time.Second
)

// ErrGrowing is returned at the end of a file that is not yet complete.
var ErrGrowing = errors.New("its last line is incomplete, and it is being written to")

var errCutOff = errors.New("it was truncated while it was read")

func (c *counted) Read(p []byte) (int, error) {
	for began := time.Now(); ; {
		n, err := c.file.Read(p)
		read := c.n.Add(int64(n))
		for _, b := range p[max(n-2, 0):n] {
			c.last = [2]byte{c.last[1], b}
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
		last := c.last[1]
		lineEnds := last == '\n' || last == ']' && c.array || last == 0 && c.last[0] == '\n'
		if c.packed.Load() || lineEnds || info.Size() == read && time.Since(info.ModTime()) >= SettledAfter {
			return 0, err
		}
		if time.Since(began) >= growWait {
			return 0, ErrGrowing
		}
		select {
		case <-c.quit:
			return 0, ErrGrowing
		default:
		}
		if c.waits != nil {
			c.waits()
			c.waits = nil
		}
		select {
		case <-time.After(growPoll):
		case <-c.quit:
			return 0, ErrGrowing
		}
	}
}

// errEmptyPacked is returned for an empty file that has the name of a compressed one.
var errEmptyPacked = errors.New("it is empty, and a compressed file never is")

// OpenFile opens a file, decompresses it by its content, and decodes it from the encoding.
func OpenFile(path, encoding string) (*Input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in := &Input{name: filepath.Base(path), file: f, quit: make(chan struct{})}
	if err := in.open(encoding); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
	}
	return in, nil
}

func (in *Input) open(encoding string) error {
	info, err := in.file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("it is a directory")
	}
	if info.Mode().IsRegular() {
		in.Size = info.Size()
	}
	raw := &counted{file: in.file, n: &in.read, size: in.Size, quit: in.quit}
	in.raw = raw
	source := io.Reader(raw)
	if in.Size > 0 && isZip(in.file) {
		raw.packed.Store(true)
		if source, err = openMember(in.file, in.Size, in); err != nil {
			return err
		}
	}
	zipped := raw.packed.Load()
	raw.packed.Store(zipped || packedName(in.name) != "")
	return in.unpack(source, encoding, func(is bool) { in.packed = zipped || is; raw.packed.Store(in.packed) })
}

// unpack sets the reader to the content of r, decompressed and decoded. Before it reads r to its
// end, it calls is(packed), where packed says whether r is compressed.
func (in *Input) unpack(r io.Reader, encoding string, is func(packed bool)) error {
	content, stop, err := unpack(r, in.name, is)
	if stop != nil {
		in.closes = append(in.closes, stop)
	}
	if err == nil {
		in.Reader, in.wide, err = decode(content, encoding)
	}
	return err
}

// OpenStream returns the contents of a stream, which remains open. Reads end with ctx if possible.
func OpenStream(ctx context.Context, r io.Reader, encoding string) (*Input, error) {
	in := &Input{}
	if err := in.unpack(ended{ctx, r}, encoding, func(bool) {}); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// Close closes the file.
func (in *Input) Close() error {
	for _, c := range slices.Backward(in.closes) {
		c()
	}
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

// WithFile opens a file by open, and calls fn with the file and with a reader, which fails when ctx
// ends. The reader does not wait for a writer of the file to append more.
func WithFile(ctx context.Context, path string, open func() (*Input, error), fn func(*Input, io.Reader) error) error {
	in, err := open()
	if err != nil {
		return err
	}
	in.Unfollow()
	if err := errors.Join(fn(in, ended{ctx, in}), in.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Reads of an ended reader fail with the error of ctx once ctx ends.
type ended struct {
	ctx context.Context
	io.Reader
}

func (e ended) Read(p []byte) (int, error) {
	if !ready(e.ctx, e.Reader) {
		return 0, e.ctx.Err()
	}
	return e.Reader.Read(p)
}
