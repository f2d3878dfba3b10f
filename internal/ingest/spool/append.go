package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Append adds a record and returns when it is on disk. If the budget or the disk has no room for
// it, Append waits until Release frees room or ctx ends.
//
// A failed write leaves the spool as it was. After a failed sync, the record may be there or not,
// and nothing more can be appended until the spool is opened again.
func (s *Spool) Append(ctx context.Context, data []byte) (Record, error) {
	all, err := s.AppendAll(ctx, [][]byte{data})
	if err != nil {
		return Record{}, err
	}
	return all[0], nil
}

// AppendAll appends records with one sync. Together the records must fit into the budget. After an
// error, the spool has none of them; after a crash during the call, it may have some, and one may
// be damaged.
func (s *Spool) AppendAll(ctx context.Context, all [][]byte) ([]Record, error) {
	out, err := s.append(ctx, all)
	return out, s.wrap("append", err)
}

func (s *Spool) append(ctx context.Context, all [][]byte) ([]Record, error) {
	if len(all) == 0 {
		return nil, nil
	}
	size := int64(0)
	for _, data := range all {
		if len(data) > MaxRecord {
			return nil, fmt.Errorf("%w: a record of %d bytes: at most %d are allowed", ErrTooLarge, len(data), MaxRecord)
		}
		size += int64(recordHead + len(data))
	}
	if segmentHead+size > s.o.Budget {
		return nil, fmt.Errorf("%w: %d bytes to append are more than the spool's budget of %d (with %d for heads)",
			ErrTooLarge, size-int64(len(all)*recordHead), s.o.Budget, segmentHead+recordHead)
	}
	s.appending.Lock()
	defer s.appending.Unlock()
	defer s.waits(false)
	for {
		if !s.reserved {
			s.reserved = os.WriteFile(s.reserve(), make([]byte, reserveBytes), 0o600) == nil
		}
		out, err := s.write(ctx, all, size)
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) || s.broken != nil { // only Append sets broken
			return out, err
		}
		if !s.crowded { // try once more, in a new segment
			s.crowded = true
			continue
		}
		if s.o.NoWait {
			return nil, fmt.Errorf("%w: %w", ErrFull, err)
		}
		s.waits(true)
		pause, cancel := context.WithTimeout(ctx, diskPause)
		s.mu.Lock()
		_ = s.wait(pause) // room looks at ctx
		s.mu.Unlock()
		cancel()
	}
}

const (
	// diskPause is how long Append waits on a full disk, unless Release frees room before.
	diskPause = time.Second
	// reserveBytes is one block of most file systems. A file of this size is kept to become the next
	// segment if the disk is full: a segment can be removed only once a newer one exists.
	reserveBytes = 4 << 10
)

// reserve is the path of the file that becomes the next segment.
func (s *Spool) reserve() string { return filepath.Join(s.o.Dir, "reserve.tmp") }

// waits notes that Append waits for room, or doesn't any more.
func (s *Spool) waits(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !is {
		s.full = time.Time{}
	} else if s.full.IsZero() {
		s.full = time.Now()
	}
}

// write is append without waiting for room on the disk.
func (s *Spool) write(ctx context.Context, all [][]byte, size int64) ([]Record, error) {
	roll, err := s.room(ctx, size)
	if err != nil {
		return nil, err
	}
	if roll {
		if err := s.roll(); err != nil {
			return nil, err
		}
	}
	last := s.lastSegment()
	start := last.end - last.base
	out := make([]Record, 0, len(all))
	pos := start
	for _, data := range all {
		var head [recordHead]byte
		putRecordHead(&head, s.id, last.base+pos, data)
		if _, err = s.tail.WriteAt(head[:], pos); err == nil {
			_, err = s.tail.WriteAt(data, pos+recordHead)
		}
		if err != nil {
			break
		}
		next := pos + recordHead + int64(len(data))
		out = append(out, Record{From: last.base + pos, To: last.base + next, Data: data, Sum: xxhash.Sum64(data)})
		pos = next
	}
	if err != nil {
		cut := s.tail.Truncate(start)
		if cut == nil {
			cut = s.o.sync(s.tail, false)
		}
		if cut != nil {
			return nil, errors.Join(err, s.fail(fmt.Errorf("cut the record off again: %w", cut)))
		}
		return nil, err
	}
	if err := s.o.sync(s.tail, false); err != nil {
		return nil, s.fail(err)
	}
	s.crowded = false

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range out {
		last.records = append(last.records, place{rec.From, int32(rec.To - rec.From)})
	}
	last.end, last.disk = last.base+pos, last.disk+size
	s.total += size
	s.records += int64(len(out))
	s.bytes += size
	s.notify()
	return out, nil
}

func (s *Spool) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = fmt.Errorf("sync failed, nothing more can be appended until the spool is opened again: %w", err)
	s.notify()
	return s.broken
}

// room waits until size bytes fit into the budget, and reports whether a new segment begins.
func (s *Spool) room(ctx context.Context, size int64) (roll bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return false, ErrClosed
		case s.broken != nil:
			return false, s.broken
		case s.finished:
			return false, errors.New("the end of the records was declared")
		case ctx.Err() != nil:
			return false, ctx.Err()
		}
		last := s.last()
		used := last.end > last.base+segmentHead
		roll := s.tail == nil || used && (s.crowded || last.disk+size > s.o.Segment)
		need := size
		if roll {
			need += segmentHead
		}
		if s.total+need <= s.o.Budget {
			return roll, nil
		}
		// Segments without intact records are not removed by Release.
		before := s.total
		if err := s.reclaim(); err != nil {
			return false, err
		}
		if s.total < before {
			continue
		}
		// All records are released. The last segment is removed once a new one exists.
		if s.records == 0 && (used || s.tail == nil) {
			return true, nil
		}
		if s.o.NoWait {
			return false, ErrFull
		}
		if s.full.IsZero() {
			s.full = time.Now()
		}
		if err := s.wait(ctx); err != nil {
			return false, err
		}
	}
}

// reclaim removes released segments, the oldest first. It keeps the newest segment, whose name says
// where the spool continues. The caller holds mu. If a removed segment reappears after a power
// loss, it is released again.
func (s *Spool) reclaim() error {
	for len(s.segments) > 1 && s.segments[0].done == len(s.segments[0].records) {
		first := s.segments[0]
		if err := os.Remove(s.path(first.base)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.segments[0] = nil
		s.segments = s.segments[1:]
		s.total -= first.disk
	}
	return nil
}

func (s *Spool) roll() error {
	base := s.lastSegment().end
	f, err := s.create(base)
	if err != nil {
		return err
	}
	if s.tail != nil {
		err = s.tail.Close() // it is already synced
	}
	s.tail = f
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments, &segment{base: base, end: base + segmentHead, disk: segmentHead})
	s.total += segmentHead
	return errors.Join(err, s.reclaim())
}

// create creates an empty segment atomically: the reserve is renamed once its head is on disk.
func (s *Spool) create(base int64) (*os.File, error) {
	f, err := os.OpenFile(s.reserve(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s.reserved = false
	if _, err = f.WriteAt(putSegmentHead(s.id, base), 0); err == nil {
		err = f.Truncate(segmentHead)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := s.o.sync(f, false); err != nil {
		return nil, s.fail(errors.Join(err, f.Close()))
	}
	if err := os.Rename(s.reserve(), s.path(base)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := s.syncDir(s.o.Dir); err != nil {
		return nil, s.fail(errors.Join(err, f.Close()))
	}
	return f, nil
}

// Release declares that the database has all records below an offset, which must be a record's To.
// It removes the segments that lie wholly below the offset, except the last segment.
func (s *Spool) Release(upTo int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.wrap("release", ErrClosed)
	}
	if err := s.boundary(upTo); err != nil {
		return s.wrap("release", err)
	}
	for _, g := range s.segments {
		for g.done < len(g.records) && g.records[g.done].to() <= upTo {
			s.records--
			s.bytes -= int64(g.records[g.done].size)
			g.done++
		}
		if g.done < len(g.records) {
			break
		}
	}
	s.released = max(s.released, upTo)
	err := s.reclaim()
	s.notify()
	return s.wrap("release", err)
}
