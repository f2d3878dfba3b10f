package lane

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
)

// A sorter collects the rows of several periods, and returns each period's rows in the order of the
// table's primary key. Rows beyond its memory are written to a temporary file, as one sorted run
// for each period, and merged on reading. One goroutine fills it; afterwards several may read.
//
// A row is a string of bytes: its length (32 bits), its key, its ordinal and its other values. The
// ordinal is the row's offset in the source. Comparing bytes compares keys, and then ordinals.
type sorter struct {
	layout *layout
	// limit is the size, in bytes, of rows and entries at which they are written to the file.
	limit  int64
	chunks [][]byte // memory with rows
	spare  [][]byte // memory that is free for rows
	used   int64
	groups []group // one for each publication
	buf    []byte  // the row that is being encoded

	file *spillFile
}

// A group is the rows of one period.
type group struct {
	entries []entry // rows in memory, in the order of addition or, if sorted is set, of the key
	sorted  bool
	runs    []run // rows in the file
	rows    int64
	// first and last are the lowest and the highest position of its rows.
	first, last int64
}

// An entry refers to a row in memory. prefix is the beginning of its key.
type entry struct {
	prefix      uint64
	chunk, from uint32
}

// A run is a range of the file with sorted rows.
type run struct{ from, size int64 }

const (
	chunkSize = 1 << 20
	entrySize = 16
	// lengthSize is the size of a row's length.
	lengthSize = 4
)

func newSorter(l *layout, limit int64, file *spillFile) *sorter {
	return &sorter{layout: l, limit: limit, file: file}
}

// add adds row i of b to the group index. pos is the position of the row.
func (s *sorter) add(index int, b *engine.Batch, i int, pos, ordinal int64) error {
	for len(s.groups) <= index {
		s.groups = append(s.groups, group{sorted: true, first: math.MaxInt64, last: math.MinInt64})
	}
	s.buf = s.layout.append(append(s.buf[:0], 0, 0, 0, 0), b, i, uint64(ordinal))
	g := &s.groups[index]
	g.first, g.last = min(g.first, pos), max(g.last, pos)
	return s.keep(g)
}

// keep adds the row in s.buf to a group.
func (s *sorter) keep(g *group) error {
	binary.LittleEndian.PutUint32(s.buf, uint32(len(s.buf)-lengthSize))
	last := len(s.chunks) - 1
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < len(s.buf) {
		if s.used >= s.limit {
			if err := s.spill(); err != nil {
				return err
			}
		}
		s.grow(len(s.buf))
		last = len(s.chunks) - 1
	}
	c := s.chunks[last]
	e := entry{prefixOf(s.buf[lengthSize:]), uint32(last), uint32(len(c))}
	s.chunks[last] = append(c, s.buf...)
	if g.sorted && len(g.entries) > 0 {
		g.sorted = s.compare(g.entries[len(g.entries)-1], e) < 0
	}
	was := cap(g.entries)
	g.entries = append(g.entries, e)
	s.used += int64(cap(g.entries)-was) * entrySize
	g.rows++
	return nil
}

// grow adds a chunk with room for a row.
func (s *sorter) grow(size int) {
	var c []byte
	if n := len(s.spare); n > 0 && size <= chunkSize {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		c = make([]byte, 0, max(size, chunkSize))
	}
	s.chunks = append(s.chunks, c)
	s.used += int64(cap(c))
}

func prefixOf(row []byte) uint64 {
	if len(row) >= 8 {
		return binary.BigEndian.Uint64(row)
	}
	var p [8]byte
	copy(p[:], row)
	return binary.BigEndian.Uint64(p[:])
}

// row returns a row in memory, without its length.
func (s *sorter) row(e entry) []byte {
	c := s.chunks[e.chunk][e.from:]
	n := binary.LittleEndian.Uint32(c)
	return c[lengthSize : lengthSize+n]
}

func (s *sorter) compare(a, b entry) int {
	if n := cmp.Compare(a.prefix, b.prefix); n != 0 {
		return n
	}
	return bytes.Compare(s.row(a), s.row(b))
}

func (s *sorter) sort(g *group) {
	if !g.sorted {
		slices.SortFunc(g.entries, s.compare)
		g.sorted = true
	}
}

// spill writes all rows in memory to the file, group by group.
func (s *sorter) spill() error {
	w := s.file
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return err
	}
	for i := range s.groups {
		g := &s.groups[i]
		if len(g.entries) == 0 {
			continue
		}
		s.sort(g)
		from := w.at
		for _, e := range g.entries {
			c := s.chunks[e.chunk][e.from:]
			if err := w.write(c[:lengthSize+binary.LittleEndian.Uint32(c)]); err != nil {
				return err
			}
		}
		g.runs = append(g.runs, run{from, w.at - from})
		g.entries, g.sorted = nil, true
	}
	if err := w.flush(); err != nil {
		return err
	}
	for _, c := range s.chunks {
		if cap(c) == chunkSize { // a larger chunk was made for one row
			s.spare = append(s.spare, c[:0])
		}
	}
	s.chunks, s.used = s.chunks[:0], 0
	return nil
}

// A cursor reads sorted rows; next returns false after the last row. A row is valid until the next
// call of next.
type cursor interface {
	next() (row []byte, more bool, err error)
}

// cursors returns a cursor for a group's rows in memory, and one for each of the group's runs in
// the file. buffer is the number of bytes that a run's cursor reads at once.
func (s *sorter) cursors(index, buffer int) []cursor {
	if index >= len(s.groups) {
		return nil
	}
	g := &s.groups[index]
	s.sort(g)
	var out []cursor
	if len(g.entries) > 0 {
		out = append(out, &memoryCursor{s: s, entries: g.entries})
	}
	for _, r := range g.runs {
		out = append(out, &runCursor{r: bufio.NewReaderSize(io.NewSectionReader(s.file.f, r.from, r.size), buffer)})
	}
	return out
}

type memoryCursor struct {
	s       *sorter
	entries []entry
}

func (c *memoryCursor) next() ([]byte, bool, error) {
	if len(c.entries) == 0 {
		return nil, false, nil
	}
	e := c.entries[0]
	c.entries = c.entries[1:]
	return c.s.row(e), true, nil
}

type runCursor struct {
	r   *bufio.Reader
	buf []byte
}

func (c *runCursor) next() ([]byte, bool, error) {
	var head [lengthSize]byte
	if _, err := io.ReadFull(c.r, head[:]); errors.Is(err, io.EOF) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("read rows back from the temporary file: %w", err)
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	c.buf = slices.Grow(c.buf[:0], n)[:n]
	if _, err := io.ReadFull(c.r, c.buf); err != nil {
		return nil, false, fmt.Errorf("read rows back from the temporary file: %w", err)
	}
	return c.buf, true, nil
}

// A merge returns the rows of several cursors in order. It is a heap of them.
type merge struct {
	heads []head
	begun bool
}

type head struct {
	row    []byte
	prefix uint64
	from   cursor
}

func newMerge(all []cursor) (*merge, error) {
	m := &merge{}
	for _, c := range all {
		row, more, err := c.next()
		if err != nil {
			return nil, err
		}
		if more {
			m.heads = append(m.heads, head{row, prefixOf(row), c})
		}
	}
	for i := len(m.heads)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	return m, nil
}

func (m *merge) less(i, j int) bool {
	a, b := &m.heads[i], &m.heads[j]
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}
	return bytes.Compare(a.row, b.row) < 0
}

func (m *merge) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heads); child++ {
			if m.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
}

func (m *merge) next() ([]byte, bool, error) {
	if m.begun { // the first head still has the row that was returned last
		h := &m.heads[0]
		row, more, err := h.from.next()
		if err != nil {
			return nil, false, err
		}
		if more {
			h.row, h.prefix = row, prefixOf(row)
		} else {
			last := len(m.heads) - 1
			m.heads[0] = m.heads[last]
			m.heads = m.heads[:last]
		}
		m.down(0)
	}
	m.begun = true
	if len(m.heads) == 0 {
		m.begun = false
		return nil, false, nil
	}
	return m.heads[0].row, true, nil
}

// A spillFile is a temporary file of rows. Its name is removed as soon as it is open.
type spillFile struct {
	dir string
	mu  sync.Mutex
	f   *os.File
	w   *bufio.Writer
	at  int64
}

// spillDir holds temporary files, below the working directory.
const spillDir = ".rowmill"

// open creates the file, unless it is open. A killed process leaves no file.
func (s *spillFile) open() error {
	if s.f != nil {
		return nil
	}
	err := os.MkdirAll(s.dir, 0o777)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(s.dir, "load-*.rows")
	}
	if err == nil {
		if err = os.Remove(f.Name()); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return engine.Hinted(fmt.Errorf("create a temporary file for rows: %w", err), "a working directory that can be written to; a larger --memory")
	}
	s.f, s.w = f, bufio.NewWriterSize(f, chunkSize)
	return nil
}

func (s *spillFile) write(p []byte) error {
	n, err := s.w.Write(p)
	s.at += int64(n)
	return s.failed(err)
}

func (s *spillFile) flush() error { return s.failed(s.w.Flush()) }

func (s *spillFile) failed(err error) error {
	if err == nil {
		return nil
	}
	return engine.Hinted(fmt.Errorf("write rows to a temporary file in %s, %d bytes so far: %w", s.dir, s.at, err),
		"a working directory with more free space; --lane live, which needs none")
}

// close closes the file, which frees its space.
func (s *spillFile) close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}
