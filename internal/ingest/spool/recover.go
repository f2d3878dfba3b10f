package spool

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Open opens a spool, and creates it if the directory has none. It reads all records, truncates a
// torn tail, and sets damaged parts aside. It fails while another process has the spool open.
func Open(o Options) (*Spool, Found, error) {
	o.Budget = cmp.Or(o.Budget, defaultBudget)
	o.Segment = cmp.Or(o.Segment, min(defaultSegment, o.Budget/8))
	if o.sync == nil {
		o.sync = syncFile
	}
	s := &Spool{o: o}
	found, err := s.open()
	if err != nil {
		for _, f := range []*os.File{s.tail, s.lock} {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
		return nil, Found{}, s.wrap("open", err)
	}
	return s, found, nil
}

func (s *Spool) open() (Found, error) {
	var found Found
	if _, err := os.Stat(s.o.Dir); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
			return found, err
		}
		if err := s.syncDir(filepath.Dir(s.o.Dir)); err != nil {
			return found, err
		}
	}
	if err := s.takeLock(); err != nil {
		return found, err
	}
	entries, err := os.ReadDir(s.o.Dir)
	if err != nil {
		return found, err
	}
	var bases []int64 // ascending, because names sort by offset
	for _, e := range entries {
		path := filepath.Join(s.o.Dir, e.Name())
		switch filepath.Ext(e.Name()) {
		case ".tmp":
			if err := os.Remove(path); err != nil {
				return found, err
			}
		case ".seg":
			base, ok := parseName(e.Name())
			if ok && e.Type().IsRegular() {
				bases = append(bases, base)
				continue
			}
			found.Bad = append(found.Bad, Bad{Offset: -1, Reason: "not a segment: its name isn't an offset, or it is not a file", File: path, Known: true})
		}
	}
	if err := s.findID(bases); err != nil {
		return found, err
	}
	for i, base := range bases {
		next := int64(-1)
		if i+1 < len(bases) {
			next = bases[i+1]
		}
		if err := s.load(base, next, &found); err != nil {
			return found, fmt.Errorf("%s: %w", segmentName(base), err)
		}
	}
	if len(bases) == 0 {
		if s.tail, err = s.create(0); err != nil {
			return found, err
		}
		s.segments = []*segment{{end: segmentHead, disk: segmentHead}}
	}
	for _, g := range s.segments {
		s.total += g.disk
		s.records += int64(len(g.records))
		for _, at := range g.records {
			s.bytes += int64(at.size)
		}
	}
	found.Records, found.Bytes = s.records, s.bytes
	return found, nil
}

func (s *Spool) takeLock() error {
	f, err := os.OpenFile(filepath.Join(s.o.Dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder := "another process"
		var p [32]byte
		if n, _ := f.ReadAt(p[:], 0); n > 0 {
			holder = "process " + strings.TrimSpace(string(p[:n]))
		}
		return errors.Join(fmt.Errorf("in use by %s", holder), f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	s.lock = f
	return nil
}

// findID reads the spool's ID from its file or from the segments' heads. Without segments it
// creates a new ID, because offsets start at 0 again.
func (s *Spool) findID(bases []int64) error {
	path := filepath.Join(s.o.Dir, "id")
	text, err := readStart(path, 64)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	id, ok := parseID(string(text))
	if len(bases) == 0 {
		var p [8]byte
		if _, err := rand.Read(p[:]); err != nil {
			return err
		}
		s.id = binary.LittleEndian.Uint64(p[:])
		return s.writeFile(path, strings.NewReader(formatID(s.id)+"\n"))
	}
	var other *uint64
	for _, base := range bases {
		p, err := readStart(s.path(base), segmentHead)
		if err != nil {
			return err
		}
		h, good := getSegmentHead(p)
		switch {
		case !good || h.base != base:
			continue
		case h.version != version:
			return fmt.Errorf("%s has format %d: this release knows %d", segmentName(base), h.version, version)
		}
		if ok && h.id == id {
			s.id = id
			return nil
		}
		other = &h.id
	}
	switch {
	case other != nil: // the file is missing or damaged: it has no checksum, but the heads have one
		s.id = *other
		return s.writeFile(path, strings.NewReader(formatID(s.id)+"\n"))
	case ok:
		s.id = id
		return nil
	}
	return fmt.Errorf("the spool's ID can't be read, neither in %s nor in the head of a segment: write its 16 digits, which the database has beside its batches, into that file", path)
}

// load scans a segment and repairs it. next is the base of the next segment, or -1.
func (s *Spool) load(base, next int64, found *Found) error {
	f, err := os.OpenFile(s.path(base), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	disk, last := st.Size(), next < 0
	size := disk
	if !last {
		size = min(size, next-base)
	}
	got, err := scan(f, size, s.id, base)
	if err != nil {
		return err
	}
	if len(s.segments) > 0 {
		if end := s.last().end; end < base {
			found.Missing = append(found.Missing, Range{end, base})
		}
	}
	why := ""
	switch {
	case got.headGood && got.head.version != version:
		return fmt.Errorf("its format is %d: this release knows %d", got.head.version, version)
	case !got.headGood:
		why = "the segment's head is damaged"
	case got.head.id != s.id:
		why = "the segment is of spool " + formatID(got.head.id)
	case got.head.base != base:
		why = fmt.Sprintf("the segment's head says that it begins at offset %d", got.head.base)
	}
	if last && why != "" && len(got.records) == 0 {
		w := &window{r: f, size: size}
		if zero, err := w.zeros(0); err != nil {
			return err
		} else if zero { // created, but never written
			found.Torn += size
			s.tail, err = s.create(base)
			s.segments = append(s.segments, &segment{base: base, end: base + segmentHead, disk: segmentHead})
			return err
		}
	}
	bad := got.bad
	tail := got.tail
	switch {
	case why != "" && len(got.records) == 0:
		bad, tail = []damage{{0, disk, why}}, damage{size, size, ""}
		got.prefix = true
	case why != "":
		bad = append([]damage{{0, segmentHead, why}}, bad...)
	}
	if tail.from < tail.to && !last {
		bad = append(bad, tail)
	}
	if size < disk && len(got.records) > 0 || size < disk && why == "" {
		bad = append(bad, damage{size, disk, "it is where the next segment begins"})
	}
	for _, d := range bad {
		b, err := s.setAside(f, base, d, ".bad")
		if err != nil {
			return err
		}
		found.Bad = append(found.Bad, b)
	}
	if tail.from < tail.to && last {
		if !got.prefix {
			b, err := s.setAside(f, base, tail, ".torn")
			if err != nil {
				return err
			}
			found.TornFile = b.File
		}
		if err := f.Truncate(tail.from); err != nil {
			return err
		}
		if err := s.o.sync(f, false); err != nil {
			return err
		}
		found.Torn += tail.to - tail.from
		size, disk = tail.from, tail.from
	}
	for i := range got.records {
		got.records[i].from += base
	}
	s.segments = append(s.segments, &segment{base: base, end: base + size, disk: disk, records: got.records})
	if last && why == "" {
		s.tail, keep = f, true
	}
	return nil
}

// setAside copies a part of a segment to a file named by its offset, unless it is there already.
func (s *Spool) setAside(r io.ReaderAt, base int64, d damage, ext string) (Bad, error) {
	b := Bad{Offset: base + d.from, Bytes: d.to - d.from, Reason: d.reason}
	part := func() io.Reader { return io.NewSectionReader(r, d.from, b.Bytes) }
	for n := 1; ; n++ {
		b.File = filepath.Join(s.o.Dir, fmt.Sprintf("%020d%s", b.Offset, ext))
		if n > 1 {
			b.File = filepath.Join(s.o.Dir, fmt.Sprintf("%020d-%d%s", b.Offset, n, ext))
		}
		same, err := sameBytes(b.File, part())
		switch {
		case errors.Is(err, os.ErrNotExist):
			return b, s.writeFile(b.File, part())
		case err != nil:
			return b, err
		case same:
			b.Known = true
			return b, nil
		}
	}
}

func sameBytes(path string, r io.Reader) (bool, error) {
	have, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	p, err := io.ReadAll(r)
	return bytes.Equal(have, p), err
}

func (s *Spool) writeFile(path string, r io.Reader) error {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = s.o.sync(f, false)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return s.syncDir(s.o.Dir)
}

func readStart(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

func (s *Spool) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(s.o.sync(d, true), d.Close())
}
