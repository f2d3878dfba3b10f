// Package record opens the files of run records: a record is created before anything is measured,
// locked against a second writer, appended to, and read.
package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/textfile"
	"github.com/rowmill/rowmill/result"
)

// A File is the file of --out, or nothing.
type File struct {
	*result.Writer
	// Path is empty if nothing is written.
	Path    string
	f       *os.File
	created bool // created by this process
	written bool
}

// Create opens the file for a record. The previous contents of the file are replaced by the first
// write. An empty path discards the record.
func Create(path string) (*File, error) {
	if path == "" {
		return &File{Writer: result.NewWriter(io.Discard), written: true}, nil
	}
	_, err := os.Stat(path)
	created := errors.Is(err, os.ErrNotExist)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("--out %s: %w", path, err), f.Close())
	}
	return &File{Writer: result.NewWriter(f), f: f, Path: path, created: created}, nil
}

// Append opens the file of a record to append runs to it. It removes an incomplete last line.
func Append(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("--resume %s: %w", path, err)
	}
	if err = lock(f); err == nil {
		err = result.Mend(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--resume %s: %w", path, err), f.Close())
	}
	return &File{Writer: result.NewWriter(f), f: f, Path: path, written: true}, nil
}

// lock prevents two processes from writing the same record: a process that continues a run must
// know that the earlier process has ended. The lock is released when the process ends.
func lock(f *os.File) error {
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

// Run writes a header. The first header replaces the file's previous contents.
func (o *File) Run(run result.Run) error {
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
	return o.Writer.Run(run)
}

// Close closes the file. It removes a file that was created and never written.
func (o *File) Close() error {
	if o.f == nil {
		return nil
	}
	err := o.f.Close()
	if o.created && !o.written {
		err = errors.Join(err, os.Remove(o.Path))
	}
	return err
}

// Failed reports whether a write has failed.
func (o *File) Failed() bool { return o.f != nil && o.Writer.Failed() }

// Read reads the runs of a record's file, or of a FIFO such as <(zcat FILE).
func Read(ctx context.Context, path string) (_ []result.Record, err error) {
	f, err := textfile.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return result.Read(f, path)
}

// ReadAll reads the runs of all files, in order. It omits failed and interrupted runs of a scenario
// if they were made again later in the same file.
func ReadAll(ctx context.Context, paths []string) ([]result.Record, error) {
	var recs []result.Record
	for _, path := range paths {
		more, err := Read(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("read run record: %w", err)
		}
		recs = append(recs, withoutSuperseded(more)...)
	}
	return recs, nil
}

// withoutSuperseded omits failed and interrupted runs of a scenario if they were made again later
// in the same file.
func withoutSuperseded(recs []result.Record) []result.Record {
	var out []result.Record
	for i := range recs {
		s := recs[i].Run.Scenario
		again := s != nil && (recs[i].End == nil || recs[i].End.Failure != "" || recs[i].End.Stopped == bench.StoppedInterrupted) &&
			slices.ContainsFunc(recs[i+1:], func(r result.Record) bool {
				o := r.Run.Scenario
				return o != nil && o.Name == s.Name && o.Scale == s.Scale && o.Run == s.Run
			})
		if !again {
			out = append(out, recs[i])
		}
	}
	return out
}
