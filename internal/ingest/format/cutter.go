package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rowmill/rowmill/internal/state"
)

const (
	blockSize = 256 << 10
	// HeadBytes is the length of a file's head, which tells it from other files of the same name.
	HeadBytes = 4096
)

type block struct {
	data []byte
	err  error
}

// A Cutter cuts a stream of bytes at record boundaries. Its goroutine reads a little ahead, and
// ends with the stream or, after ctx has ended, when its current read returns.
type Cutter struct {
	Format *Format
	blocks chan block
	free   chan []byte
	ended  chan struct{} // closed when the reading goroutine has ended
	left   block         // the last block read, if it was not delivered; valid once ended is closed
	// Rows and size (bytes) limit a batch, and flush how long rows wait for more; 0 means no limit.
	Rows, size int
	flush      time.Duration

	buf   []byte // read but not yet returned
	ends  error  // the stream's error, io.EOF at its end
	At    int64  // the offset of buf in the stream
	last  byte   // the byte before buf
	Line  int64  // the current line number, from 1
	sum   *xxhash.Digest
	start int    // where the record that peek returned begins in buf
	open  int    // how many bytes of the incomplete record at the end of buf were searched for its end
	Head  []byte // the first bytes returned, at most HeadBytes

	// TornBy is the error for a row that begins in the middle of a line.
	TornBy error
}

// torn reports whether the remaining bytes begin within a line, because an earlier load cut the
// line while it was incomplete.
func (c *Cutter) torn() bool { return c.At > 0 && c.last != '\n' && c.Format.Kind != JSON }

func (c *Cutter) sums(p []byte) {
	_, _ = c.sum.Write(p) // never fails
	c.Head = append(c.Head, p[:min(len(p), HeadBytes-len(c.Head))]...)
}

// NewCutter returns a cutter that reads r until ctx ends. A batch has at most rows rows and size
// bytes. flush limits how long a stream's rows wait for more rows; 0 means no limit.
func NewCutter(ctx context.Context, r io.Reader, f *Format, rows, size int, flush time.Duration) *Cutter {
	c := &Cutter{Format: f, blocks: make(chan block, 4), free: make(chan []byte, 6), Rows: rows, size: size, flush: flush, Line: 1, sum: xxhash.New()}
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		c.read(ctx, r)
	}()
	return c
}

// Wait stops the reader and waits for it, which may take until an idle stream has data.
func (c *Cutter) Wait(stop context.CancelFunc) {
	stop()
	<-c.ended
}

func (c *Cutter) read(ctx context.Context, r io.Reader) {
	for ready(ctx, r) {
		var p []byte
		select {
		case p = <-c.free:
		default:
			p = make([]byte, blockSize)
		}
		n, err := r.Read(p)
		if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
			err = nil // breakOff interrupted the read
		}
		select {
		case c.blocks <- block{p[:n], err}:
		case <-ctx.Done():
			c.left = block{p[:n], err}
			return
		}
		if err != nil {
			return
		}
	}
}

var errFlush = errors.New("time to send what there is")

// ErrEnds is returned if the source ends before the requested offset.
var ErrEnds = errors.New("the source ends before")

// Final reports whether the source was read to its end.
func (c *Cutter) Final() bool { return errors.Is(c.ends, io.EOF) }

// Growing reports that the last line is incomplete, and is being written to.
func (c *Cutter) Growing() bool { return errors.Is(c.ends, ErrGrowing) }

// Pending returns the number of bytes that were read but not cut.
func (c *Cutter) Pending() int { return len(c.buf) }

// fill reads more bytes. At the end of the stream it returns nil, and after an error that error.
func (c *Cutter) fill(ctx context.Context, flush <-chan time.Time) error {
	if c.ends != nil {
		if c.Final() {
			return nil
		}
		return c.ends
	}
	select {
	case b := <-c.blocks:
		c.buf = append(c.buf, b.data...)
		c.ends = b.err
		select {
		case c.free <- b.data[:blockSize]:
		default:
		}
		if c.ends != nil && !c.Final() {
			return c.ends
		}
		return nil
	case <-flush:
		return errFlush
	case <-ctx.Done():
		return ctx.Err()
	}
}

// peek returns the first record without consuming it; nil if there is none.
func (c *Cutter) peek(ctx context.Context) ([]byte, error) {
	for {
		n, err := c.end(0)
		if err != nil {
			return nil, c.inLine(err)
		}
		switch {
		case n > 0 || c.Final():
			c.start, _ = c.Format.preamble(c.buf[:n], true)
			if c.start == n && n > 0 && c.Format.SkipLines > 0 {
				return nil, fmt.Errorf("--skip-lines %d skips all of its lines", c.Format.SkipLines)
			}
			return c.buf[c.start:n], nil
		case c.ends != nil:
			return nil, c.ends
		}
		if err := c.fill(ctx, nil); err != nil && c.ends == nil {
			return nil, err
		}
	}
}

// end is Format.End for buf[n:]. In a long record it searches only the bytes that are new.
func (c *Cutter) end(n int) (int, error) {
	p := c.buf[n:]
	if c.open > maxQuoted && c.open <= len(p) && len(p) <= maxRecord && !c.Final() {
		switch {
		case c.Format.Kind == JSON && len(p) < c.open+c.open/4: // searched again once it has grown enough
			return 0, nil
		case c.Format.Kind != JSON && bytes.IndexByte(p[c.open:], '\n') < 0:
			c.open = len(p)
			return 0, nil
		}
	}
	if n == 0 && c.torn() { // the rest of a line, whose quoting state is unknown
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			return i + 1, nil
		} else if c.Final() {
			return len(p), nil
		}
		return 0, nil
	}
	start := 0
	if n == 0 && c.At == 0 {
		known := false
		if start, known = c.Format.preamble(p, c.Final()); !known {
			return 0, nil
		}
	}
	before := c.last
	if n+start > 0 {
		before = c.buf[n+start-1]
	}
	if c.Format.Kind == JSON && c.Final() && len(bytes.Trim(p[start:], blanks)) == 0 && (before == ',' || before == '[') {
		return 0, errOpenArray
	}
	more, err := c.Format.End(p[start:], c.Final())
	if c.open = 0; more == 0 && err == nil && !c.Final() {
		c.open = len(p)
		return 0, nil
	}
	return start + more, err
}

// inLine adds a line number to an error: that of the record at the beginning of buf.
func (c *Cutter) inLine(err error) error {
	line := c.Line
	if c.Format.Kind == JSON {
		start := 0
		if c.At == 0 {
			start, _ = c.Format.preamble(c.buf, true)
		}
		line += int64(bytes.Count(c.buf[:start+elementBegin(c.buf[start:])], LineBreak))
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// take returns the next n > 0 bytes, which must have been read, as a batch.
func (c *Cutter) take(n, rows int) *Batch {
	b := &Batch{Data: bytes.Clone(c.buf[:n]), First: c.At == 0, Rows: rows}
	if c.torn() {
		b.torn = c.TornBy
	}
	c.buf = c.buf[:copy(c.buf, c.buf[n:])]
	b.From, b.To, b.Line, b.Hash = c.At, c.At+int64(n), c.Line, HashOf(b.Data)
	breaks := int64(bytes.Count(b.Data, []byte("\n")))
	c.sums(b.Data)
	c.At, c.Line, c.last, c.open = b.To, b.Line+breaks, b.Data[n-1], 0
	if b.Lines = breaks; c.torn() {
		b.Lines++
	}
	return b
}

// Next returns the next batch, and io.EOF after the last one. If ctx ends, records that were read
// stay buffered for breakOff. An error of the stream or of a record is returned after all records
// before it.
func (c *Cutter) Next(ctx context.Context) (*Batch, error) {
	var flush <-chan time.Time
	n, rows := 0, 0
	if c.At == 0 && c.Format.HasHeader() {
		rows-- // the header is not a row
	}
	for rows < c.Rows && n < c.size {
		more, err := c.end(n)
		if err != nil {
			if n > 0 {
				break
			}
			return nil, c.inLine(err)
		}
		if more > 0 {
			if rows > 0 && n+more > c.size {
				break
			}
			n += more
			rows++
			if c.flush > 0 && flush == nil && rows > 0 {
				flush = time.After(c.flush)
			}
			continue
		}
		if c.Final() || c.ends != nil && n > 0 {
			break
		}
		if c.ends != nil {
			return nil, c.ends
		}
		if err := c.fill(ctx, flush); errors.Is(err, errFlush) {
			break
		} else if err != nil && c.ends == nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, io.EOF
	}
	return c.take(n, max(rows, 0)), nil
}

// errBrokenOff is returned once all records read before breakOff have been returned.
var errBrokenOff = errors.New("the stream was broken off")

// readWait limits the wait for a read that can't be interrupted. Bytes read later are lost.
const readWait = time.Second

// breakOff stops the reader and takes all bytes that it has read. From these bytes, Next then
// returns the complete records, and after them errBrokenOff, or io.EOF if the whole stream was
// read.
func (c *Cutter) breakOff(stop context.CancelFunc) {
	stop()
	late := time.After(readWait)
	for reading := true; reading; {
		select {
		case b := <-c.blocks:
			c.add(b)
		case <-c.ended:
			reading = false
		case <-late:
			reading = false
		}
	}
	for len(c.blocks) > 0 {
		c.add(<-c.blocks)
	}
	select {
	case <-c.ended:
		c.add(c.left)
		c.left = block{}
	default:
	}
	if c.ends == nil {
		c.ends = errBrokenOff
	}
}

func (c *Cutter) add(b block) {
	c.buf = append(c.buf, b.data...)
	if b.err != nil {
		c.ends = b.err
	}
}

// Each passes the batches of a stream to fn. When ctx ends, Each ends the reader by calling stop,
// passes the records that were read to fn, and returns ctx's error.
func (c *Cutter) Each(ctx context.Context, stop context.CancelFunc, fn func(*Batch) error) error {
	on := ctx
	for {
		b, err := c.Next(on)
		switch {
		case b != nil:
			if err := fn(b); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errBrokenOff):
			return ctx.Err()
		case ctx.Err() != nil && on == ctx:
			c.breakOff(stop)
			on = context.WithoutCancel(ctx)
		default:
			return err
		}
	}
}

// Abandon stops the reader and returns the number of rows that were read but not returned.
func (c *Cutter) Abandon(stop context.CancelFunc) int64 {
	c.breakOff(stop)
	n := int64(0)
	for {
		b, err := c.Next(context.Background())
		if b == nil || err != nil {
			return n
		}
		n += int64(b.Rows)
	}
}

// Unfinished returns the length of the incomplete record at which the stream was broken off.
func (c *Cutter) Unfinished() int {
	if errors.Is(c.ends, errBrokenOff) {
		return len(c.buf)
	}
	return 0
}

// Again returns the bytes of a recorded cut as a batch, or ErrEnds.
func (c *Cutter) Again(ctx context.Context, cut state.Cut) (*Batch, error) {
	n := int(cut.To - cut.From)
	for len(c.buf) < n && !c.Final() {
		if err := c.fill(ctx, nil); err != nil {
			return nil, err
		}
	}
	if len(c.buf) < n {
		return nil, ErrEnds
	}
	return c.take(n, 0), nil
}

// Skip discards the bytes up to an offset and returns the hash of all bytes before it, or ErrEnds.
func (c *Cutter) Skip(ctx context.Context, to, lines int64) (string, error) {
	c.open = 0
	for c.At < to {
		if len(c.buf) == 0 {
			if c.Final() {
				return "", ErrEnds
			}
			if err := c.fill(ctx, nil); err != nil {
				return "", err
			}
			continue
		}
		n := int(min(int64(len(c.buf)), to-c.At))
		c.last = c.buf[n-1]
		c.sums(c.buf[:n])
		c.buf = c.buf[:copy(c.buf, c.buf[n:])]
		c.At += int64(n)
	}
	c.Line = lines + 1
	return c.Total(), nil
}

// Total returns the hash of all bytes returned or skipped so far.
func (c *Cutter) Total() string { return fmt.Sprintf("%016x", c.sum.Sum64()) }
