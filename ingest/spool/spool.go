// Package spool keeps records on disk until a database has them. It stands
// between a stream that can't be asked again and a database that may be slow
// or away: a record is one batch of input, opaque bytes cut by the caller, and
// its place in the spool is its identity, so that a batch's boundaries are on
// disk before anything of it is sent.
//
// One goroutine appends, one reads, and any may release:
//
//	s, found, err := spool.Open(spool.Options{Dir: dir})
//	...
//	err = s.SeekTo(acknowledged) // by the database, under s.ID(); before the first Append
//	go func() { ...; rec, err := s.Append(ctx, batch); ...; s.Finish() }()
//	for {
//		rec, err := s.Next(ctx) // io.EOF at the end
//		... send rec.Data, and note s.ID(), rec.From, rec.To and rec.Sum in its transaction
//		err = s.Release(rec.To)
//	}
//
// The spool doesn't note what was read or released: the database knows, and
// notes it together with the rows.
//
// # What it promises
//
// A record whose Append has returned is on disk: it is read once and in order,
// whole, byte for byte, also after a crash. One whose Append has not returned,
// or has returned an error, is absent or whole after a crash. When the budget
// is full Append waits; nothing is dropped. Offsets only grow, over the life of
// the spool: together with its ID they name a record for ever. Where all
// segments were removed by hand the spool gets a new ID.
//
// A torn tail, of the one record that was being written, is cut by Open. What
// is damaged otherwise is set aside: its bytes go to a file of their own, it is
// reported, and reading goes on behind it.
//
// # Format
//
// A spool is a directory. All integers are little-endian, CRCs are CRC-32C.
//
//	lock                      locked with flock while the spool is open; holds the pid
//	id                        the ID, 16 hexadecimal digits and a newline
//	00000000000000000000.seg  a segment, named by the offset of its first byte
//	00000000000000004711.bad  bytes that were set aside, named by their offset
//	00000000000000004711.torn a tail that was cut and isn't just the beginning of a record
//	*.tmp                     being written, removed by Open
//
// Offsets count all bytes of the segments, heads included: a segment begins
// where the one before it ends. It has a head of 32 bytes,
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
// The first CRC tells a wrong length from wrong data. As it takes in the ID and
// the offset, no bytes of another spool, of another place, or within a record's
// data are taken for a record when the next one is looked for behind damage.
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

// MaxRecord is the most bytes of data in a record.
const MaxRecord = 64 << 20

const (
	defaultBudget  = 1 << 30
	defaultSegment = 64 << 20
	maxSegment     = 1 << 30
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the spool is closed")

// ErrBeyond is returned for an offset behind the spool's end: it has lost
// records, or isn't the spool that the offset was noted for.
var ErrBeyond = errors.New("beyond the spool's end")

// Options say where a spool is and how large it may become.
type Options struct {
	// Dir is the spool's directory. It is created if it isn't there.
	Dir string
	// Budget is the most bytes of all segments: Append waits while the next
	// record would pass it. 0 is 1 GiB. Files set aside don't count.
	Budget int64
	// Segment is the size in bytes at which a new segment begins; space is
	// given back by the segment. 0 is 64 MiB or an eighth of Budget, whichever
	// is less. A record that is larger has a segment to itself.
	Segment int64

	// sync is a test's: it stands for fdatasync and, of directories, fsync.
	sync func(f *os.File, dir bool) error
}

// Validate checks the options.
func (o Options) Validate() error {
	switch {
	case o.Dir == "":
		return errors.New("spool: no directory")
	case o.Budget < 0:
		return fmt.Errorf("spool: a budget of %d bytes", o.Budget)
	case o.Segment < 0 || o.Segment > maxSegment:
		return fmt.Errorf("spool: segments of %d bytes: want at most %d", o.Segment, maxSegment)
	}
	return nil
}

// A Record is one batch of input, as it is in the spool.
type Record struct {
	// From and To are the offsets of its first byte, that of its head, and of
	// the first byte behind it.
	From, To int64
	// Data are its bytes. They are the caller's.
	Data []byte
	// Sum is the xxHash64 of Data.
	Sum uint64
}

// Found is what Open found.
type Found struct {
	// Records and Bytes are what is whole, also if the database has it: see
	// SeekTo and Release. Bytes are those on disk, with the records' heads.
	Records, Bytes int64
	// Torn is the bytes of a torn tail that were cut.
	Torn int64
	// TornFile is where they were kept, "" where they are the beginning of a
	// record or zeros: then nothing was lost that Append had returned.
	TornFile string
	// Bad is what was set aside. Until its segment is released each Open
	// reports it.
	Bad []Bad
	// Missing are the offsets of segments that aren't there.
	Missing []Range
}

// A Range is of offsets, To excluded.
type Range struct{ From, To int64 }

// Bad is a part of the spool that is damaged and was set aside.
type Bad struct {
	Offset, Bytes int64
	Reason        string
	// File holds the bytes.
	File string
	// Known tells that an earlier Open had set it aside.
	Known bool
}

// Spool is an open spool. Its methods may be called by several goroutines, of
// which one appends and one reads.
type Spool struct {
	o    Options
	id   uint64
	lock *os.File

	// appending and reading are held by Append and by Next and SeekTo, before mu.
	appending, reading sync.Mutex
	tail               *os.File // the last segment, nil where the next record begins a new one
	reader             *os.File
	readerBase         int64 // of the segment that reader is

	mu       sync.Mutex
	changed  chan struct{} // closed when what is below changes; nil while nobody waits
	segments []*segment
	total    int64 // bytes of all segments on disk
	records  int64 // not released
	bytes    int64
	next     int64 // offset at which Next goes on
	released int64 // the database has all below
	finished bool
	closed   bool
	broken   error
	full     time.Time // since when Append has been waiting, zero if it isn't
	bad      []Bad
}

// segment is one file.
type segment struct {
	base, end int64 // offsets
	disk      int64 // bytes of the file
	records   []place
	done      int // of records, how many are released
}

// place is that of a record, with its head.
type place struct {
	from int64
	size int32
}

func (p place) to() int64 { return p.from + int64(p.size) }

// ID returns the spool's ID, 16 hexadecimal digits made at random when the
// spool was created.
func (s *Spool) ID() string { return formatID(s.id) }

// Finish says that no more records will be appended: Next returns io.EOF once
// all are read. It holds until the spool is opened again.
func (s *Spool) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.notify()
}

// Size returns how many records haven't been released, and their bytes on disk.
func (s *Spool) Size() (records, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records, s.bytes
}

// First returns the offset at which the first segment begins that is there.
func (s *Spool) First() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[0].base
}

// Full returns for how long an Append has been waiting for room, 0 if none is.
func (s *Spool) Full() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full.IsZero() {
		return 0
	}
	return time.Since(s.full)
}

// Bad returns what Next has set aside since Open.
func (s *Spool) Bad() []Bad {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Bad(nil), s.bad...)
}

// Close ends the use of the spool, and lets other processes open it. An Append
// or a Next that waits returns ErrClosed. The records stay.
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
	for _, f := range []*os.File{s.tail, s.reader, s.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	s.tail, s.reader = nil, nil
	return s.wrap("close", errors.Join(errs...))
}

// notify wakes all who wait. The caller holds mu.
func (s *Spool) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait lets go of mu until notify or the end of ctx.
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

// lastSegment is for Append, which alone changes that segment: it may read it
// without mu.
func (s *Spool) lastSegment() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last()
}
