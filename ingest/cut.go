package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/rowmill/rowmill/state"
)

// A batch is a piece of a source, from the begin of a record to the end of one.
type batch struct {
	state.Cut
	data []byte
	held int // bytes of it in load.ahead
	// target is where its rows go, and what its fields are.
	target *target
	// first tells that it begins the file, with a header where there is one, torn
	// that it begins in the middle of a line.
	first, torn bool
	// rows that it has, as far as the cutter knows.
	rows int
}

// hashOf is the hash of a batch's bytes, xxHash64 in 16 digits.
func hashOf(data []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(data)) }

// blockSize is how much is read at a time, in bytes.
const blockSize = 256 << 10

// A block is what one read gave.
type block struct {
	data []byte
	err  error
}

// A cutter cuts a stream of bytes at the ends of records. It has read what it
// is asked for and little more: what lies behind is read meanwhile by a
// goroutine, which ends at the stream's end or, once ctx has ended, with the
// read that it is in.
type cutter struct {
	format *Format
	blocks chan block
	free   chan []byte
	ended  chan struct{} // closed once nobody reads any more
	left   block         // what was read last and nobody took, once ended is closed
	// Rows and bytes of a batch; flush is how long a stream's rows wait for
	// others, 0 for ever.
	rows, size int
	flush      time.Duration

	buf  []byte // read and not yet handed out
	ends error  // of the stream, io.EOF in the end
	at   int64  // the offset of buf
	last byte   // the one before it
	line int64  // the line that it is in, from 1
	sum  *xxhash.Digest
	open int    // bytes of the record behind the last whole one that were searched for its end
	head []byte // the first bytes handed out, at most headBytes
}

// torn reports whether what comes next begins in the middle of a line: what was
// the end of the file when it was cut isn't any more.
func (c *cutter) torn() bool { return c.at > 0 && c.last != '\n' }

// sums takes in bytes that are handed out.
func (c *cutter) sums(p []byte) {
	_, _ = c.sum.Write(p) // which never fails
	c.head = append(c.head, p[:min(len(p), headBytes-len(c.head))]...)
}

func newCutter(ctx context.Context, r io.Reader, f *Format, rows, size int, flush time.Duration) *cutter {
	c := &cutter{format: f, blocks: make(chan block, 4), free: make(chan []byte, 6), rows: rows, size: size, flush: flush, line: 1, sum: xxhash.New()}
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		c.read(ctx, r)
	}()
	return c
}

// wait has the reader end. A read of a stream that nothing comes from lasts as
// long as that: who can't close the stream doesn't wait.
func (c *cutter) wait(stop context.CancelFunc) {
	stop()
	<-c.ended
}

func (c *cutter) read(ctx context.Context, r io.Reader) {
	for ready(ctx, r) {
		var p []byte
		select {
		case p = <-c.free:
		default:
			p = make([]byte, blockSize)
		}
		n, err := r.Read(p)
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

// errFlush is when rows have waited long enough for others.
var errFlush = errors.New("time to send what there is")

// errEnds is when a source ends before what is asked for.
var errEnds = errors.New("the source ends before")

// final reports whether all of the stream has been read.
func (c *cutter) final() bool { return errors.Is(c.ends, io.EOF) }

// fill reads more. After the stream's end it returns nil, and after an error of
// the stream that error, each time.
func (c *cutter) fill(ctx context.Context, flush <-chan time.Time) error {
	if c.ends != nil {
		if c.final() {
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
		if c.ends != nil && !c.final() {
			return c.ends
		}
		return nil
	case <-flush:
		return errFlush
	case <-ctx.Done():
		return ctx.Err()
	}
}

// peek returns the first record, which stays where it is; nil where there is
// none.
func (c *cutter) peek(ctx context.Context) ([]byte, error) {
	for {
		n, err := c.end(0)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", c.line, err)
		}
		switch {
		case n > 0 || c.final():
			return c.buf[:n], nil
		case c.ends != nil:
			return nil, c.ends
		}
		if err := c.fill(ctx, nil); err != nil && c.ends == nil {
			return nil, err
		}
	}
}

// end returns where the record at n of buf ends, as Format.end. Of a long one
// only what has come is searched.
func (c *cutter) end(n int) (int, error) {
	p := c.buf[n:]
	if c.open > maxQuoted && c.open <= len(p) && len(p) <= maxRecord && !c.final() && bytes.IndexByte(p[c.open:], '\n') < 0 {
		c.open = len(p)
		return 0, nil
	}
	if n == 0 && c.torn() { // the rest of a line, whose quotes aren't known
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			return i + 1, nil
		} else if c.final() {
			return len(p), nil
		}
		return 0, nil
	}
	more, err := c.format.end(p, c.final())
	if c.open = 0; more == 0 {
		c.open = len(p)
	}
	return more, err
}

// take hands out the next n bytes, more than none, which have been read.
func (c *cutter) take(n, rows int) *batch {
	b := &batch{data: bytes.Clone(c.buf[:n]), first: c.at == 0, torn: c.torn(), rows: rows}
	c.buf = c.buf[:copy(c.buf, c.buf[n:])]
	b.From, b.To, b.Line, b.Hash = c.at, c.at+int64(n), c.line, hashOf(b.data)
	breaks := int64(bytes.Count(b.data, []byte("\n")))
	c.sums(b.data)
	c.at, c.line, c.last, c.open = b.To, b.Line+breaks, b.data[n-1], 0
	if b.Lines = breaks; c.torn() {
		b.Lines++
	}
	return b
}

// next returns the next batch, io.EOF after the last. When ctx ends it returns
// its error, and what records were read stays for rest. What was read before an
// error of the stream, or before a record that has no end, comes first.
func (c *cutter) next(ctx context.Context) (*batch, error) {
	var flush <-chan time.Time
	n, rows := 0, 0
	if c.at == 0 && c.format.header() {
		rows-- // the header is none
	}
	for rows < c.rows && n < c.size {
		more, err := c.end(n)
		if err != nil {
			if n > 0 {
				break
			}
			return nil, fmt.Errorf("line %d: %w", c.line, err)
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
		if c.final() || c.ends != nil && n > 0 {
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

// errBrokenOff is when all is handed out that was read of a stream before it was
// broken off.
var errBrokenOff = errors.New("the stream was broken off")

// readWait is how long a read may still last that can't be broken off. What it
// returns later is lost.
const readWait = time.Second

// breakOff has the reader end and takes all that it has read. next hands that
// out, but for a record that isn't whole, and then returns errBrokenOff, or
// io.EOF where all of the stream was read.
func (c *cutter) breakOff(stop context.CancelFunc) {
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

// add takes what was read.
func (c *cutter) add(b block) {
	c.buf = append(c.buf, b.data...)
	if b.err != nil {
		c.ends = b.err
	}
}

// each hands out the batches of a stream. When ctx ends, stop, which ends the
// reader, is called, and what was read by then is handed out; ctx's error is
// returned then.
func (c *cutter) each(ctx context.Context, stop context.CancelFunc, fn func(*batch) error) error {
	on := ctx
	for {
		b, err := c.next(on)
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

// abandon has the reader end, and returns how many rows were read that nobody
// was handed.
func (c *cutter) abandon(stop context.CancelFunc) int64 {
	c.breakOff(stop)
	n := int64(0)
	for {
		b, err := c.next(context.Background())
		if b == nil || err != nil {
			return n
		}
		n += int64(b.rows)
	}
}

// unfinished is how many bytes of a record were read that wasn't whole when the
// stream was broken off.
func (c *cutter) unfinished() int {
	if errors.Is(c.ends, errBrokenOff) {
		return len(c.buf)
	}
	return 0
}

// again returns the bytes of a batch that was cut before. It returns errEnds
// where the stream ends before.
func (c *cutter) again(ctx context.Context, cut state.Cut) (*batch, error) {
	n := int(cut.To - cut.From)
	for len(c.buf) < n && !c.final() {
		if err := c.fill(ctx, nil); err != nil {
			return nil, err
		}
	}
	if len(c.buf) < n {
		return nil, errEnds
	}
	return c.take(n, 0), nil
}

// skip passes over the bytes up to an offset and returns the hash of all up to
// there. It returns errEnds where the stream ends before.
func (c *cutter) skip(ctx context.Context, to, lines int64) (string, error) {
	c.open = 0
	for c.at < to {
		if len(c.buf) == 0 {
			if c.final() {
				return "", errEnds
			}
			if err := c.fill(ctx, nil); err != nil {
				return "", err
			}
			continue
		}
		n := int(min(int64(len(c.buf)), to-c.at))
		c.last = c.buf[n-1]
		c.sums(c.buf[:n])
		c.buf = c.buf[:copy(c.buf, c.buf[n:])]
		c.at += int64(n)
	}
	c.line = lines + 1
	return c.total(), nil
}

// total is the hash of all that was handed out.
func (c *cutter) total() string { return fmt.Sprintf("%016x", c.sum.Sum64()) }
