package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/result"
)

// A recordFile is the file of --out, or nothing.
type recordFile struct {
	*result.Writer
	f       *os.File
	path    string
	created bool // created by this process
	written bool
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// openRecord opens the file for a record, so that an unwritable path is reported
// before anything is measured. The previous contents of the file are replaced only
// once there is something to write.
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
	if err := lockRecord(f); err != nil {
		return nil, errors.Join(fmt.Errorf("--out %s: %w", path, err), f.Close())
	}
	return &recordFile{Writer: result.NewWriter(f), f: f, path: path, created: created}, nil
}

// appendRecord opens the file of a record to append runs to it. It removes an
// incomplete last line.
func appendRecord(path string) (*recordFile, error) {
	fail := func(err error) (*recordFile, error) { return nil, fmt.Errorf("--resume %s: %w", path, err) }
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fail(err)
	}
	if err := lockRecord(f); err != nil {
		return fail(errors.Join(err, f.Close()))
	}
	if err := result.Mend(f); err != nil {
		return fail(errors.Join(err, f.Close()))
	}
	return &recordFile{Writer: result.NewWriter(f), f: f, path: path, written: true}, nil
}

// lockRecord prevents two processes from writing the same record: a process that
// continues a run must know that the other one has ended. The lock is released when
// the process ends.
func lockRecord(f *os.File) error {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return engine.Hinted(errors.New("another rowmill is writing it"), "wait until it has ended")
	}
	return nil // measuring is possible on a file system without locks too
}

// run writes a header. The first one replaces the file's previous contents.
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

// failed reports whether the last write to the record failed.
func (o *recordFile) failed() bool { return o.f != nil && o.Writer.Failed() }

// readRuns reads the runs of a record's file, or of a FIFO such as <(zcat FILE).
func readRuns(ctx context.Context, path string) (_ []result.Record, err error) {
	f, err := textfile.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return result.Read(f, path)
}
