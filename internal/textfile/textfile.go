// Package textfile reads and replaces files named by users: declarations, passwords, run records,
// reports. A file that is read may be a FIFO without a writer, a terminal, or an endless device.
// Therefore each read ends with its context, which a signal cancels, and a file that is read into
// memory whole has a size limit.
package textfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Limit is the maximum size in bytes of a file that Read accepts: a hundred
// times the longest declaration seen.
const Limit = 1 << 20

// Read returns the contents of a regular file of at most Limit bytes.
func Read(ctx context.Context, path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a %s, not a regular file", path, kind(info.Mode()))
	}
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, path)
}

// ReadAny returns the contents of a file of any kind except a directory, at most
// Limit bytes. The file may be a FIFO, such as a shell's <(command).
func ReadAny(ctx context.Context, path string) ([]byte, error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, path)
}

func bounded(r io.Reader, path string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, Limit+1))
	if err != nil {
		return nil, err
	}
	if len(text) > Limit {
		return nil, fmt.Errorf("%s has more than %d MiB, the most that is read", path, Limit>>20)
	}
	return text, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// A File is open for reading until its context ends.
type File struct {
	ctx  context.Context
	f    *os.File
	stop func() bool
}

// Open opens a file of any kind except a directory. When ctx ends, opening or reading the file
// fails with the error of ctx.
func Open(ctx context.Context, path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	f, err := Await(ctx, func() (*os.File, error) { return os.Open(path) }) // opening a FIFO waits for a writer
	if err != nil {
		return nil, err
	}
	return &File{ctx: ctx, f: f, stop: context.AfterFunc(ctx, func() {
		// Files without deadlines don't block: Read checks ctx.
		_ = f.SetReadDeadline(time.Unix(1, 0))
	})}, nil
}

// Read implements io.Reader, and returns the context's error once the context has ended.
func (f *File) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.f.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = f.ctx.Err()
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() error {
	f.stop()
	return f.f.Close()
}

// Await calls read and returns its results. If ctx ends first, Await returns the error of ctx at
// once, and read goes on until the process ends: reading from a terminal or a pipe can't be
// interrupted.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type done struct {
		value T
		err   error
	}
	ended := make(chan done, 1)
	go func() {
		value, err := read()
		ended <- done{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case d := <-ended:
		return d.value, d.err
	}
}
