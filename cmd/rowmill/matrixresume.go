package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/result"
)

// appendRecord opens a record to go on with it, and cuts a last line that a
// kill, or a machine that went down, left without its end.
func appendRecord(path string) (*recordFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	o := &recordFile{Writer: result.NewWriter(f), f: f, path: path, written: true}
	// Only who holds the lock may cut: the line may be one that is being written.
	if err := o.lock(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := cutTorn(f); err != nil {
		return nil, errors.Join(fmt.Errorf("--resume %s: %w", path, err), f.Close())
	}
	return o, nil
}

// cutTorn cuts what follows the last line's end, and seeks there.
func cutTorn(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	const step = 1 << 16
	buf := make([]byte, step)
	for end := size; end > 0; {
		from := max(0, end-step)
		part := buf[:end-from]
		if _, err := f.ReadAt(part, from); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			end = from + int64(i) + 1
			if end < size {
				if err := f.Truncate(end); err != nil {
					return err
				}
			}
			_, err := f.Seek(end, io.SeekStart)
			return err
		}
		end = from
	}
	return errors.New("no whole line in it")
}

// lock keeps two commands from writing one record. The lock ends with the
// process, however that ends.
func (o *recordFile) lock() error {
	if o.f == nil {
		return nil
	}
	err := syscall.Flock(int(o.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return engine.Hinted(fmt.Errorf("another rowmill is writing %s", o.path), "wait until it has ended")
	}
	// Devices and some network filesystems have no locks; then there is none.
	return nil
}

// failed tells that the last write to the record did not succeed.
func (o *recordFile) failed() bool { return o.f != nil && o.Writer.Failed() }
