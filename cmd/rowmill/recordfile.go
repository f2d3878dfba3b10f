package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rowmill/rowmill/result"
)

// A recordFile is the file of --out, or nothing.
type recordFile struct {
	*result.Writer
	f       *os.File
	path    string
	created bool // by us
	written bool
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// openRecord opens the file for a record, so that a path that can't be written
// is known before anything is measured. What the file held is replaced only
// once there is something to replace it with.
func openRecord(path string) (*recordFile, error) {
	if path == "" {
		return &recordFile{Writer: result.NewWriter(discard{}), written: true}, nil
	}
	_, err := os.Stat(path)
	created := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &recordFile{Writer: result.NewWriter(f), f: f, path: path, created: created}, nil
}

// run writes a header; the first one replaces what the file held.
func (o *recordFile) run(run result.Run) error {
	if !o.written {
		if st, err := o.f.Stat(); err != nil {
			return fmt.Errorf("--out: %w", err)
		} else if st.Mode().IsRegular() {
			if err := o.f.Truncate(0); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
		}
		o.written = true
	}
	return o.Run(run)
}

func (o *recordFile) close() error {
	if o.f == nil {
		return nil
	}
	err := o.f.Close()
	if o.created && !o.written {
		err = errors.Join(err, os.Remove(o.path))
	}
	return err
}

// appendRecord opens a record to write more runs to its end. A last line that
// was cut off, as a kill may leave it, is removed: what follows it would be
// part of it.
func appendRecord(path string) (_ *recordFile, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("--resume: %w", err), f.Close())
		}
	}()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	whole, err := wholeLines(f, end)
	if err != nil {
		return nil, err
	}
	if whole < end {
		if err := f.Truncate(whole); err != nil {
			return nil, err
		}
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return nil, err
	}
	return &recordFile{Writer: result.NewWriter(f), f: f, path: path, written: true}, nil
}

// wholeLines returns where the last line of a file's first size bytes ends.
func wholeLines(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for at := size; at > 0; {
		n := min(at, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], at-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return at - n + int64(i) + 1, nil
		}
		at -= n
	}
	return 0, nil
}
