package spool

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/cespare/xxhash/v2"
)

// Next returns the records in order, from SeekTo's offset or the first record that isn't released.
// It waits for Append, and returns io.EOF after the last one. It sets damaged records aside (see
// Bad).
func (s *Spool) Next(ctx context.Context) (Record, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		base, at, err := s.await(ctx)
		if errors.Is(err, io.EOF) {
			return Record{}, io.EOF
		}
		if err != nil {
			return Record{}, s.wrap("read", err)
		}
		rec, reason, err := s.read(base, at)
		if err == nil && reason == "" {
			s.mu.Lock()
			s.next = rec.To
			s.mu.Unlock()
			return rec, nil
		}
		if s.gone(at) {
			continue // released and removed while it was read
		}
		if err == nil {
			err = s.setAsideRecord(base, at, reason)
		}
		if err != nil {
			return Record{}, s.wrap("read", fmt.Errorf("record at %d: %w", at.from, err))
		}
	}
}

// await returns the place of the next record and the base of its segment.
func (s *Spool) await(ctx context.Context) (base int64, at place, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, place{}, ErrClosed
		case ctx.Err() != nil:
			return 0, place{}, ctx.Err()
		}
		if g, i := s.find(max(s.next, s.released)); g != nil {
			return g.base, g.records[i], nil
		}
		switch {
		case s.broken != nil:
			return 0, place{}, s.broken
		case s.finished:
			return 0, place{}, io.EOF
		}
		if err := s.wait(ctx); err != nil {
			return 0, place{}, err
		}
	}
}

// Waiting reports whether there is a record that Next returns without waiting.
func (s *Spool) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, _ := s.find(max(s.next, s.released))
	return g != nil
}

// find returns the first record at or after an offset. The caller holds mu.
func (s *Spool) find(offset int64) (*segment, int) {
	k := sort.Search(len(s.segments), func(k int) bool { return s.segments[k].end > offset })
	for _, g := range s.segments[k:] {
		i := sort.Search(len(g.records), func(i int) bool { return g.records[i].from >= offset })
		if i < len(g.records) {
			return g, i
		}
	}
	return nil, 0
}

func (s *Spool) gone(at place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return at.from < s.released
}

// read reads a record, or says how it is damaged.
func (s *Spool) read(base int64, at place) (rec Record, reason string, err error) {
	f, err := os.Open(s.path(base))
	if err != nil {
		return Record{}, "", err
	}
	defer f.Close() // to remove an open segment would free no space
	p := make([]byte, at.size)
	n, err := f.ReadAt(p, at.from-base)
	if n < len(p) {
		if err == nil || errors.Is(err, io.EOF) {
			return Record{}, "the segment has become shorter", nil
		}
		return Record{}, "", err
	}
	length, sum, ok := getRecordHead(p, s.id, at.from)
	data := p[recordHead:]
	switch {
	case !ok || length != int64(len(data)):
		return Record{}, reasonHead, nil
	case crc32.Checksum(data, castagnoli) != sum:
		return Record{}, reasonData, nil
	}
	return Record{From: at.from, To: at.to(), Data: data, Sum: xxhash.Sum64(data)}, "", nil
}

// setAsideRecord sets aside a record that was intact when the spool was opened.
func (s *Spool) setAsideRecord(base int64, at place, reason string) error {
	f, err := os.Open(s.path(base))
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	from := min(at.from-base, st.Size())
	bad, err := s.setAside(f, base, damage{from, min(from+int64(at.size), st.Size()), reason}, ".bad")
	if err != nil {
		return err
	}
	bad.Offset = at.from
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, bad)
	for _, g := range s.segments {
		i := slices.Index(g.records, at)
		if i < 0 {
			continue
		}
		g.records = slices.Delete(g.records, i, i+1)
		if i < g.done {
			g.done--
		} else {
			s.records--
			s.bytes -= int64(at.size)
		}
	}
	s.notify()
	return nil
}

// SeekTo makes Next continue after the last record that the database has; to is the end of that
// record. An offset below the first segment means the first; one beyond the end returns ErrBeyond.
func (s *Spool) SeekTo(to int64) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.wrap("seek", ErrClosed)
	}
	if err := s.boundary(to); err != nil {
		return s.wrap("seek", err)
	}
	s.next = to
	return nil
}

// boundary returns an error unless a record begins or ends at the offset. The caller holds mu.
func (s *Spool) boundary(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("offset %d is negative", offset)
	}
	if end := s.last().end; offset > end {
		return fmt.Errorf("offset %d is %w, which is %d", offset, ErrBeyond, end)
	}
	k := sort.Search(len(s.segments), func(k int) bool { return s.segments[k].end > offset })
	if k == len(s.segments) {
		return nil
	}
	g := s.segments[k]
	if i := sort.Search(len(g.records), func(i int) bool { return g.records[i].from >= offset }); i > 0 {
		if at := g.records[i-1]; offset < at.to() {
			return fmt.Errorf("offset %d is within the record from %d to %d", offset, at.from, at.to())
		}
	}
	return nil
}
