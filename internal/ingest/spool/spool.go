// Package spool keeps records on disk until a database has them. It buffers a stream that can't be
// read twice for a database that may be slow or unavailable. A record is one batch of input: opaque
// bytes delimited by the caller. Its offset in the spool identifies it, so a batch's boundaries are
// on disk before any of it is sent.
//
// Any number of goroutines may append and release, and one reads:
//
//	s, found, err := spool.Open(spool.Options{Dir: dir})
//	...
//	err = s.SeekTo(acknowledged) // by the database, under s.ID(); before the first Append
//	go func() { ...; rec, err := s.Append(ctx, batch); ...; s.Finish() }()
//	for {
//		rec, err := s.Next(ctx) // io.EOF at the end
//		... send rec.Data, and record s.ID(), rec.From, rec.To and rec.Sum in its transaction
//		err = s.Release(rec.To)
//	}
//
// The spool doesn't store which records were read or released: the database
// does, together with the rows.
//
// # Guarantees
//
// A record whose Append has returned is on disk: it is read once, in order and unchanged, also
// after a crash. A record whose Append has not returned, or has returned an error, is either absent
// or complete after a crash. If the budget is exhausted, or the disk is full, Append waits; nothing
// is dropped. Offsets only grow over the life of the spool: together with its ID, an offset
// identifies a record permanently. If all segments were removed by hand, the spool gets a new ID.
//
// Open removes a torn tail, which belongs to the record that was being written.
// Other damage is set aside: the bytes are copied to a separate file, the damage
// is reported, and reading continues after it.
//
// # Format
//
// A spool is a directory. All integers are little-endian, CRCs are CRC-32C.
//
//	lock                      locked with flock while the spool is open; holds the pid
//	id                        the ID, 16 hexadecimal digits and a newline
//	00000000000000000000.seg  a segment, named by the offset of its first byte
//	00000000000000004711.bad  bytes set aside, named by their offset
//	00000000000000004711.torn a removed tail that isn't merely the beginning of a record
//	reserve.tmp               room for the next segment on a full disk
//	*.tmp                     being written, removed by Open
//
// Offsets count all bytes of the segments, including heads: a segment begins
// where the previous one ends. It has a head of 32 bytes,
//
//	 0  8  "rmspool" and the version of the format, 1
//	 8  8  ID
//	16  8  offset of the segment's first byte
//	24  4  zero
//	28  4  CRC of the 28 bytes before
//
// and then records, each with a head of 16 bytes:
//
//	 0  4  marker, F5 'r' 'e' 'c'
//	 4  4  length of the data in bytes, at most 64 MiB
//	 8  4  CRC of the ID (8 bytes), the record's offset (8) and the 8 bytes before
//	12  4  CRC of the data
//	16     data
//
// The first CRC distinguishes a wrong length from wrong data. It covers the ID and the offset. The
// search for the next record after damage therefore never mistakes bytes of another spool, from
// another offset, or within a record's data for a record.
package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// MaxRecord is the maximum size of a record's data in bytes.
const MaxRecord = 64 << 20

const (
	defaultBudget  = 1 << 30
	defaultSegment = 64 << 20
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the spool is closed")

// ErrFull is returned with Options.NoWait if there is no room, in the budget or on the disk.
var ErrFull = errors.New("the spool is full")

// ErrTooLarge is returned for records that don't fit into the spool even if it is empty.
var ErrTooLarge = errors.New("too large for the spool")

// ErrBeyond is returned for an offset after the end: the spool has lost records, or is another one.
var ErrBeyond = errors.New("beyond the spool's end")

// Options describe a spool's location and size.
type Options struct {
	// Dir is the spool's directory. It is created if it doesn't exist.
	Dir string
	// Budget is the maximum total size of the segments in bytes. Append waits if the
	// next record would exceed it. 0 means 1 GiB. Files set aside don't count.
	Budget int64
	// Segment is the size in bytes of a segment; 0 means 64 MiB or an eighth of Budget, whichever is
	// smaller. Space is freed by whole segments. A larger record gets its own segment.
	Segment int64
	// NoWait makes Append return ErrFull instead of waiting for room.
	NoWait bool

	// sync replaces fdatasync and, for directories, fsync in tests.
	sync func(f *os.File, dir bool) error
}

// A Record is one batch of input, as stored in the spool.
type Record struct {
	// From and To are the offsets of the first byte of its head and of the first byte after it.
	From, To int64
	// Data is the record's content. The caller owns it.
	Data []byte
	// Sum is the xxHash64 of Data.
	Sum uint64
}

// Found describes the state in which Open found the spool.
type Found struct {
	// Records and Bytes count the intact records, including those that the database already has: see
	// SeekTo and Release. Bytes is their size on disk, including the records' heads.
	Records, Bytes int64
	// Torn is the number of bytes of a torn tail that were removed.
	Torn int64
	// TornFile is the copy of that tail, or "" if it was the beginning of a record, or zeros.
	TornFile string
	// Bad lists the parts set aside. Each Open reports them until their segment is released.
	Bad []Bad
	// Missing lists the offset ranges of missing segments.
	Missing []Range
}

// A Range is a range of offsets; it excludes To.
type Range struct{ From, To int64 }

// Bad is a damaged part of the spool that was set aside.
type Bad struct {
	Offset, Bytes int64
	Reason        string
	// File contains the bytes.
	File string
	// Known means that an earlier Open had set it aside.
	Known bool
}

// Spool is an open spool. Its methods may be called by several goroutines, of which one reads.
type Spool struct {
	o    Options
	id   uint64
	lock *os.File

	// appending is held by Append, reading by Next and SeekTo. Both are locked before mu.
	appending, reading sync.Mutex
	tail               *os.File // the last segment; nil if the next record begins a new one
	// Only Append uses reserved and crowded. crowded is set after the disk was full. The next record
	// then begins a new segment, so that the segment before it can be removed once it is released.
	reserved, crowded bool

	mu       sync.Mutex
	changed  chan struct{} // closed when a field below changes; nil while nobody waits
	segments []*segment
	total    int64 // bytes of all segments on disk
	records  int64 // unreleased records
	bytes    int64
	next     int64 // offset at which Next continues
	released int64 // the database has all records below this offset
	finished bool
	closed   bool
	broken   error
	full     time.Time // the time since which Append has been waiting, zero if it isn't
	bad      []Bad
}

type segment struct {
	base, end int64 // offsets
	disk      int64 // size of the file in bytes
	records   []place
	done      int // number of released records
}

// place is the location of a record, including its head.
type place struct {
	from int64
	size int32
}

func (p place) to() int64 { return p.from + int64(p.size) }

// ID returns the spool's ID: 16 hexadecimal digits, generated at random when the spool was created.
func (s *Spool) ID() string { return formatID(s.id) }

// Finish declares that no more records come: Next returns io.EOF once all are read.
func (s *Spool) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.notify()
}

// Size returns the number of unreleased records and their bytes on disk.
func (s *Spool) Size() (records, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records, s.bytes
}

// First returns the offset at which the first existing segment begins.
func (s *Spool) First() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[0].base
}

// Released returns the offset up to which records were released.
func (s *Spool) Released() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// End returns the offset after the last record.
func (s *Spool) End() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last().end
}

// Full returns how long an Append has been waiting for room, 0 if none is waiting.
func (s *Spool) Full() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full.IsZero() {
		return 0
	}
	return time.Since(s.full)
}

// Bad returns the parts that Next has set aside since Open.
func (s *Spool) Bad() []Bad {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Bad(nil), s.bad...)
}

// Close closes the spool, whose records are kept. A waiting Append or Next returns ErrClosed.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.notify()
	s.mu.Unlock()

	s.appending.Lock()
	defer s.appending.Unlock()
	s.reading.Lock()
	defer s.reading.Unlock()
	var errs []error
	for _, f := range []*os.File{s.tail, s.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	s.tail = nil
	return s.wrap("close", errors.Join(errs...))
}

// notify wakes all waiting goroutines. The caller holds mu.
func (s *Spool) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait releases mu until notify is called or ctx ends, and locks it again.
func (s *Spool) wait(ctx context.Context) error {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Spool) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("spool %s: %s: %w", s.o.Dir, verb, err)
}

func (s *Spool) path(base int64) string { return filepath.Join(s.o.Dir, segmentName(base)) }

// last returns the last segment. The caller holds mu.
func (s *Spool) last() *segment { return s.segments[len(s.segments)-1] }

// lastSegment returns the last segment, which only Append changes and may read without mu.
func (s *Spool) lastSegment() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last()
}
