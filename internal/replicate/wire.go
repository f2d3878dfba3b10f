package replicate

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of frames. A frame is its kind, the length of its body in four bytes, and the body. Below,
// "down" frames go away from the source, and "up" frames go towards it.
const (
	frameProof    = 'T' // a side knows the token: see secure.go
	frameHello    = 'H' // down: what is to be copied, as JSON
	frameAnswer   = 'A' // up: where the receiver wants to begin, as JSON
	frameChunk    = 'C' // down: its number in eight bytes, the BLAKE3 of the data, 1 if the data are compressed, the data
	framePosition = 'P' // up: the chunks that are written, in eight bytes
	frameStatus   = 'S' // up, every statusEvery: what is known of the receiver and those after it, as JSON
	frameRefusal  = 'R' // either way, and the last frame: why there is no copy, as JSON
	frameBye      = 'B' // down: every host has ended, and the unchanged source has this BLAKE3. Up: the copy has it, too
)

const (
	protocol    = 1 // both sides must have the same
	chunkHead   = 8 + len(hash{}) + 1
	statusEvery = 200 * time.Millisecond
	// window is how many chunks a sender may send before they are acknowledged, and thus the most that
	// are sent again after a lost connection. 32 MiB fill a connection of 300 MB/s with 100 ms of
	// delay.
	window = 8
)

// The longest body of a frame: unprovenBytes until the other side has proved that it knows the
// token, mostBytes after this. The manifest of a million files has about 30 MB.
const (
	unprovenBytes = 1 << 10
	mostBytes     = 256 << 20
)

// A hello begins a session.
type hello struct {
	Version int
	// Probe asks for the answer only: nothing is written.
	Probe bool
	// Host is the receiver's name in the chain, Rest the hosts after it.
	Host string
	Rest []string
	// Run identifies a run of the source.
	Run string
	// Depth is the sender's place in the chain, counted from the source, which has 0. A session with a
	// smaller depth replaces a session with a larger one.
	Depth    int
	Entries  []entry
	Options  Options
	Capacity int64 // of a probe, the bytes that would be sent
}

// An answer to a hello has Position, the number of the first chunk that the receiver lacks. An
// answer to a probe has only Probes: those of the receiver and of the hosts after it.
type answer struct {
	Position int
	Probes   []Probe
}

// statuses are what a receiver reports.
type statuses struct {
	Got   int64 // bytes that it has read of this connection
	Hosts []Status
}

// A refusal is an error that trying again would not change.
type refusal struct {
	Reason string
	// Fed says that the host has another sender.
	Fed bool
	// Whole is the BLAKE3 of the copy if the host has it from an earlier run.
	Whole string
}

func (r *refusal) Error() string { return r.Reason }

// A wire is one connection, with frames. One goroutine may read while others write.
type wire struct {
	*tls.Conn
	below *buffered
	mu    sync.Mutex // of the frames that are written
	most  int64      // bytes of a body
}

// Close closes the connection at once. TLS's own Close would first send a notice, and wait for 5 s
// if the other side reads nothing. The notice isn't needed: as each frame has a length, the other
// side sees whether the connection ended within a frame.
func (w *wire) Close() error { return w.below.Close() }

// send writes a frame.
func (w *wire) send(kind byte, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(n))
	for _, p := range append([][]byte{head}, parts...) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return w.below.flush()
}

func (w *wire) sendJSON(kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.send(kind, text)
}

// receive reads a frame, into buf if that is large enough. A refusal is returned as the error.
func (w *wire) receive(buf []byte) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(w, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > w.most {
		return 0, nil, fmt.Errorf("a frame of %d bytes: the other side is no rowmill copy of this version", n)
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	body = buf[:n]
	if _, err := io.ReadFull(w, body); err != nil {
		return 0, nil, noEOF(err)
	}
	if head[0] == frameRefusal {
		var r refusal
		if err := json.Unmarshal(body, &r); err != nil {
			return 0, nil, err
		}
		r.Reason = printable(r.Reason)
		return 0, nil, &r
	}
	return head[0], body, nil
}

// receiveJSON reads a frame that must be of a kind.
func (w *wire) receiveJSON(want byte, v any) error {
	kind, body, err := w.receive(nil)
	switch {
	case err != nil:
		return err
	case kind != want:
		return fmt.Errorf("a frame %q in place of %q", kind, want)
	}
	return json.Unmarshal(body, v)
}

// noEOF makes an end in the middle of a frame an error of its own.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cutOff makes reads fail once ctx ends, and writes a little later, so that a write that has begun
// can complete: nothing can be sent after a partial frame. stop ends the effect of cutOff.
func (w *wire) cutOff(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		_ = w.SetReadDeadline(time.Unix(1, 0))
		_ = w.SetWriteDeadline(time.Now().Add(5 * statusEvery))
		close(done)
	})
	return func() {
		if !end() {
			<-done
		}
	}
}

// refuse sends the reason of a refusal, and waits until the other side has closed the connection.
// If refuse closed the connection first while data were unread, the connection would be reset, and
// the other side might not get the reason.
func (w *wire) refuse(why error) error {
	no, ok := errors.AsType[*refusal](why)
	if !ok {
		no = &refusal{Reason: why.Error()}
	}
	_ = w.SetDeadline(time.Now().Add(handshakeTime))
	err := w.sendJSON(frameRefusal, no)
	if err == nil {
		_, _ = io.Copy(io.Discard, w.Conn) // until the other side closes, or the deadline
	}
	return errors.Join(err, w.Close())
}

// A buffered is a connection that reads and writes several TLS records of 16 KiB in one system
// call.
type buffered struct {
	net.Conn
	r  *bufio.Reader
	mu sync.Mutex // of w
	w  *bufio.Writer
	// frames means that writes are sent by flush; during the handshake, each write is sent at once.
	frames bool
	got    atomic.Int64 // bytes that were read
}

const bufferSize = 256 << 10

func newBuffered(c net.Conn) *buffered {
	return &buffered{Conn: c, r: bufio.NewReaderSize(c, bufferSize), w: bufio.NewWriterSize(c, bufferSize)}
}

func (b *buffered) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.got.Add(int64(n))
	return n, err
}

func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.w.Write(p)
	if err == nil && !b.frames {
		err = b.w.Flush()
	}
	return n, err
}

func (b *buffered) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.w.Flush()
}

func (b *buffered) collect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frames = true
}
