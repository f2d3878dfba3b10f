package lane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/ingest/format"
)

// badRow is a line of the file of rows that couldn't be loaded.
type badRow struct {
	// Source is the file's path. Load is the source's key, by which files of one name are told apart.
	Source string `json:"source"`
	Load   string `json:"load"`
	Line   int64  `json:"line"`
	Byte   int64  `json:"byte"`
	Column string `json:"column,omitempty"`
	Reason string `json:"reason"`
	// Skipped reports that the row wasn't refused: its key was there already.
	Skipped bool `json:"skipped,omitempty"`
	// Row is the original row; Bytes contains it, in base64, if it is not valid UTF-8.
	Row   string `json:"row,omitempty"`
	Bytes []byte `json:"row_base64,omitempty"`
}

// badBegin is the prefix of each line of the file.
const badBegin = `{"source":`

// A badFile stores the rows that can't be loaded, as JSON lines, before their batch is committed.
// If the batch is sent again after a crash, its earlier lines are removed. The file is locked for
// each change, because other processes may write to it.
type badFile struct {
	path string
	// most limits its size in bytes: once it has that, further rows are not kept. 0 is no limit.
	most int64
	mu   sync.Mutex
	// have contains the rows in the file: their byte offsets, in order, by the source's key.
	have map[string][]int64
}

// openBad reads which rows the file contains, if it exists.
func openBad(path string) (*badFile, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // so that the link remains when the file is replaced
	}
	b := &badFile{path: path, have: map[string][]int64{}}
	err := b.each(func(row *badRow, _ []byte) {
		if row != nil {
			b.have[row.Load] = append(b.have[row.Load], row.Byte)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("file of bad rows: %w", err)
	}
	for _, offsets := range b.have {
		slices.Sort(offsets)
	}
	return b, nil
}

// each passes the file's rows to fn, up to the last complete line. The first line must be readable,
// which proves that rowmill wrote the file. For a later unreadable line, row is nil.
func (b *badFile) each(fn func(row *badRow, line []byte)) error {
	f, err := os.Open(b.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", b.path)
	}
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		foreign := func() error {
			return fmt.Errorf("%s: line %d was not written by rowmill: name another file", b.path, n)
		}
		begin, err := r.Peek(len(badBegin))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// A line torn by a crash may end with zeros.
		known := strings.HasPrefix(badBegin, string(bytes.TrimRight(begin, "\x00")))
		if !known && n == 1 {
			return foreign()
		}
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if !known {
				return foreign()
			}
			return nil
		}
		if err != nil {
			return err
		}
		row := &badRow{}
		if err := json.Unmarshal(line, row); err != nil || row.Load == "" || row.Reason == "" {
			if n == 1 {
				return foreign()
			}
			row = nil
		}
		fn(row, line)
	}
}

// within returns which rows of a source lie between two byte offsets, as a range of have[load].
func (b *badFile) within(load string, from, to int64) (first, end int) {
	first, _ = slices.BinarySearch(b.have[load], from)
	end, _ = slices.BinarySearch(b.have[load], to)
	return first, end
}

func (b *badFile) stale(load string, from, to int64) bool {
	first, end := b.within(load, from, to)
	return first < end
}

// prune removes the rows of a source between two byte offsets. The caller holds the file's lock.
func (b *badFile) prune(load string, from, to int64) error {
	var out bytes.Buffer
	err := b.each(func(row *badRow, line []byte) {
		if row == nil || row.Load != load || row.Byte < from || row.Byte >= to {
			out.Write(line)
		}
	})
	if err != nil {
		return err
	}
	if err := replaceFile(b.path, out.Bytes()); err != nil {
		return err
	}
	first, end := b.within(load, from, to)
	b.have[load] = slices.Delete(b.have[load], first, end)
	return nil
}

// replaceFile replaces a file's content atomically: after a crash the file has either
// the old or the new content. A temporary file left by an earlier crash is removed.
func replaceFile(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return syncDir(filepath.Dir(path))
}

// errBadFull is returned for rows that are not kept, because the file has its largest size.
var errBadFull = errors.New("the file of bad rows is full")

// add writes a batch's rejected rows in the order of the source, and returns once they are on disk.
// The byte range from, to identifies the batch: add replaces the lines of an earlier attempt.
func (b *badFile) add(source, load string, from, to int64, rows []format.Rejected) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out bytes.Buffer
	for _, r := range rows {
		row := badRow{Source: source, Load: load, Line: r.Line, Byte: r.Offset, Column: r.Column, Reason: r.Reason, Skipped: r.Skipped}
		if utf8.Valid(r.Row) {
			row.Row = string(r.Row)
		} else {
			row.Bytes = r.Row
		}
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(row); err != nil {
			return fmt.Errorf("file of bad rows %s: %w", b.path, err)
		}
	}
	if out.Len() == 0 && !b.stale(load, from, to) {
		return nil
	}
	if err := b.replace(load, from, to, out.Bytes()); err != nil {
		return fmt.Errorf("file of bad rows: %w", err)
	}
	offsets := make([]int64, len(rows))
	for i, r := range rows {
		offsets[i] = r.Offset
	}
	first, _ := b.within(load, from, to)
	b.have[load] = slices.Insert(b.have[load], first, offsets...)
	return nil
}

func (b *badFile) replace(load string, from, to int64, lines []byte) error {
	f, err := b.lock()
	if err != nil {
		return err
	}
	if b.stale(load, from, to) {
		// prune replaces the file, so the lock must be taken on the new file.
		if err := errors.Join(b.prune(load, from, to), f.Close()); err != nil {
			return err
		}
		if f, err = b.lock(); err != nil {
			return err
		}
	}
	return errors.Join(b.write(f, lines), f.Close())
}

func (b *badFile) write(f *os.File, p []byte) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if b.most > 0 && end >= b.most && len(p) > 0 {
		return errBadFull
	}
	if _, err = f.Write(p); err == nil {
		err = f.Sync()
	}
	if err != nil {
		// Remove the incompletely written lines.
		return errors.Join(err, f.Truncate(end))
	}
	if end == 0 {
		return syncDir(filepath.Dir(b.path))
	}
	return nil
}

// lock opens the file for writing, and locks it against other processes and goroutines until it is
// closed. It truncates the file after its last complete line.
func (b *badFile) lock() (*os.File, error) {
	for {
		f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		for {
			if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) {
			err = nil // this file system has no locks
		}
		is, statErr := f.Stat()
		if err = errors.Join(err, statErr); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if at, err := os.Stat(b.path); err != nil || !os.SameFile(is, at) {
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, errors.Join(err, f.Close())
			}
			if err := f.Close(); err != nil { // the file was replaced in the meantime
				return nil, err
			}
			continue
		}
		if err := cutTorn(f, is.Size()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// cutTorn truncates a file of size bytes after its last complete line.
func cutTorn(f *os.File, size int64) error {
	p := make([]byte, 64<<10)
	for end := size; ; {
		from := max(end-int64(len(p)), 0)
		part := p[:end-from]
		if _, err := f.ReadAt(part, from); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 || from == 0 {
			if last := from + int64(i) + 1; last < size {
				return f.Truncate(last)
			}
			return nil
		}
		end = from
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
