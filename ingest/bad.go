package ingest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"
)

// badRow is a line of the file of rows that couldn't be loaded.
type badRow struct {
	// Source is the file's path, Load the key of the source: another file of
	// that name has another.
	Source string `json:"source"`
	Load   string `json:"load"`
	Line   int64  `json:"line"`
	Byte   int64  `json:"byte"`
	Column string `json:"column,omitempty"`
	Reason string `json:"reason"`
	// Row is the row as it was; Bytes, in base64, where that isn't UTF-8.
	Row   string `json:"row,omitempty"`
	Bytes []byte `json:"row_base64,omitempty"`
}

// A badFile takes the rows that can't be loaded, as JSON lines. They are on disk
// before the batch that they are from is committed. Rows of a batch that was
// broken off in between are removed, as the batch comes again.
type badFile struct {
	path string
	mu   sync.Mutex
	file *os.File // open for appending; nil until there is a row
	// have are the rows that the file has: their bytes, by the source's key.
	have map[string]map[int64]bool
}

// openBad reads which rows the file has, if it is there.
func openBad(path string) (*badFile, error) {
	b := &badFile{path: path, have: map[string]map[int64]bool{}}
	err := b.each(func(row *badRow, _ []byte) error {
		b.note(row.Load, row.Byte)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("file of bad rows: %w", err)
	}
	return b, nil
}

// each hands out the file's rows, up to the last whole line.
func (b *badFile) each(fn func(row *badRow, line []byte) error) error {
	f, err := os.Open(b.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var row badRow
		if err := json.Unmarshal(line, &row); err != nil || row.Load == "" || row.Reason == "" {
			return fmt.Errorf("%s: line %d isn't one of rowmill's: name another file", b.path, n)
		}
		if err := fn(&row, line); err != nil {
			return err
		}
	}
}

func (b *badFile) note(load string, at int64) {
	if b.have[load] == nil {
		b.have[load] = map[int64]bool{}
	}
	b.have[load][at] = true
}

// prune removes the rows of a source that stale tells of, by their bytes. The
// caller holds mu.
func (b *badFile) prune(load string, stale func(at int64) bool) error {
	some := false
	for at := range b.have[load] {
		some = some || stale(at)
	}
	if !some {
		return nil
	}
	var out bytes.Buffer
	err := b.each(func(row *badRow, line []byte) error {
		if row.Load == load && stale(row.Byte) {
			delete(b.have[load], row.Byte)
		} else {
			out.Write(line)
		}
		return nil
	})
	if err == nil {
		err = replaceFile(b.path, out.Bytes())
	}
	if b.file != nil { // it is another one's now
		err = errors.Join(err, b.file.Close())
		b.file = nil
	}
	if err != nil {
		return fmt.Errorf("file of bad rows: %w", err)
	}
	return nil
}

// replaceFile puts a file's new content in its place: after a crash it has the
// old one or the new one.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// add writes the rejected rows of a batch, which lies from one byte to another
// of a source, and returns once they are on disk. It takes the place of what an
// earlier try wrote.
func (b *badFile) add(source, load string, from, to int64, rows []Rejected) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.prune(load, func(at int64) bool { return at >= from && at < to }); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, r := range rows {
		row := badRow{Source: source, Load: load, Line: r.Line, Byte: r.Offset, Column: r.Column, Reason: r.Reason}
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
	if out.Len() == 0 {
		return nil
	}
	if err := b.write(out.Bytes()); err != nil {
		return fmt.Errorf("file of bad rows: %w", err)
	}
	for _, r := range rows {
		b.note(load, r.Offset)
	}
	return nil
}

func (b *badFile) write(p []byte) error {
	if b.file == nil {
		if err := b.open(); err != nil {
			return err
		}
	}
	end, err := b.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err = b.file.Write(p); err == nil {
		err = b.file.Sync()
	}
	if err != nil {
		// What is half written is cut off again.
		return errors.Join(err, b.file.Truncate(end))
	}
	return nil
}

// open opens the file for writing, behind its last whole line.
func (b *badFile) open() error {
	f, err := os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	all, err := io.ReadAll(f)
	if err == nil {
		err = f.Truncate(int64(bytes.LastIndexByte(all, '\n') + 1))
	}
	if err == nil {
		err = syncDir(filepath.Dir(b.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	b.file = f
	return nil
}

// syncDir makes the name of a new file last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close closes the file.
func (b *badFile) Close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}
