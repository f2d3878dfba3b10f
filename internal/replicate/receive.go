package replicate

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"
)

// ReceiveOptions are the options of Receive.
type ReceiveOptions struct {
	Token string
	Say   func(string)
}

// A receiver writes a copy into its directory, and sends it on from there.
type receiver struct {
	ReceiveOptions
	cert  tls.Certificate
	root  *os.Root
	board *Board
	all   sync.WaitGroup
	bye   chan struct{} // closed when every host has ended, and the source has confirmed the copy
	ended chan error    // why there is no copy

	turn sync.Mutex // held while a session begins

	mu       sync.Mutex
	st       *store
	me       string
	run      string
	patience time.Duration // how long a complete copy waits to be confirmed
	current  *incoming     // nil without a sender
	lost     time.Time     // when the last sender was lost
	feeding  *feeder
	unfeed   func() // ends feeding and waits for it
	said     bool   // bye is closed
	finished bool   // finish has begun

	earlier *Result // of a run that has completed this directory
}

// An incoming is the connection of a sender.
type incoming struct {
	depth   int
	replace context.CancelCauseFunc
	over    chan struct{}
}

// Limits of the patience that a sender may request.
const (
	leastPatience = time.Second
	mostPatience  = time.Hour
	mostDepth     = 1000 // beyond this depth, the wait for a confirmation doesn't grow
)

var errReplaced = &refusal{Reason: "a host nearer to the source sends to it", Fed: true}

// Receive writes the copy that a sender sends into a directory, which is empty or has a part of
// that copy. It waits for a sender without a limit. It returns when the source has confirmed the
// copy, which the source does once all hosts have ended. If a complete copy isn't confirmed within
// the sender's patience times the number of hosts up to this one, Receive fails; a later run can
// then have the copy confirmed. If an earlier run has completed the directory, Receive only tells
// the sender so.
func Receive(ctx context.Context, l net.Listener, dir string, board *Board, o ReceiveOptions) (res Result, err error) {
	root, unlock, err := takeDirectory(dir)
	if err != nil {
		return res, errors.Join(err, l.Close())
	}
	cert, err := certificate()
	if err != nil {
		return res, errors.Join(err, unlock(), l.Close())
	}
	r := &receiver{ReceiveOptions: o, cert: cert, root: root, board: board, bye: make(chan struct{}), ended: make(chan error, 1), unfeed: func() {}}
	ctx, stop := context.WithCancel(ctx)
	r.all.Go(func() { r.serve(ctx, l) })
	err = r.wait(ctx)
	r.mu.Lock()
	unfeed := r.unfeed
	r.mu.Unlock()
	unfeed()
	stop()
	err = errors.Join(err, l.Close())
	r.all.Wait()
	if r.earlier != nil && err == nil {
		res = *r.earlier
	}
	if st := r.st; st != nil && err == nil {
		_, began := board.Size()
		res = Result{Bytes: st.m.size, Files: st.m.files, Hash: board.get(r.me).Hash, Hosts: board.List(), Seconds: time.Since(began).Seconds()}
		err = st.complete(context.WithoutCancel(ctx))
	}
	if r.st != nil {
		err = errors.Join(err, r.st.state.Close())
	}
	return res, errors.Join(err, root.Close(), unlock())
}

// takeDirectory opens a directory that is empty or has a part of a copy, and locks it.
func takeDirectory(dir string) (_ *os.Root, unlock func() error, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, nil, fmt.Errorf("%s: another rowmill copy receive uses it: %w", dir, err)
	}
	names, err := lock.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == lostAndFound })
	if len(names) > 0 && !slices.Contains(names, stateName) {
		return nil, nil, fmt.Errorf("%s is not empty, and no rowmill copy: %s; empty it, or give another directory", dir, someOf(names))
	}
	root, err := os.OpenRoot(dir)
	return root, lock.Close, err
}

// someOf lists the first of the names in a directory.
func someOf(names []string) string {
	const most = 5
	slices.Sort(names)
	if n := len(names) - most; n > 0 {
		names = append(names[:most:most], fmt.Sprintf("%d more", n))
	}
	return "it has " + strings.Join(names, ", ")
}

// end makes Receive return an error.
func (r *receiver) end(err error) {
	select {
	case r.ended <- err:
	default:
	}
}

// wait returns once the source has confirmed the copy, or an error if it doesn't.
func (r *receiver) wait(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-r.ended:
			return err
		case <-r.bye:
			return nil
		case <-tick.C:
		}
		r.mu.Lock()
		// Without a sender, the chain counts as ended once the hosts after this one have ended.
		unconfirmed := r.st != nil && r.current == nil && time.Since(r.lost) > r.patience && r.board.get(r.me).State == Done &&
			(r.feeding == nil || r.feeding.taken || len(r.board.pending(r.feeding.hosts)) == 0)
		patience := r.patience
		r.mu.Unlock()
		if unconfirmed {
			return fmt.Errorf("the copy is complete, but its sender has not confirmed it for %v, so that the source may have changed: "+
				"don't use it before the same receive and the same send have ended well", patience)
		}
	}
}

// confirm ends the chain from here on if the source has the same hash as this copy.
func (r *receiver) confirm(w *wire, whole hash) error {
	mine := r.board.get(r.me)
	if mine.State != Done || mine.Hash != whole.String() {
		err := fmt.Errorf("the source has ended with BLAKE3 %v, and the copy is %s, %d bytes, BLAKE3 %s", whole, mine.State, mine.Bytes, mine.Hash)
		r.end(err)
		return err
	}
	err := w.send(frameBye) // before Receive ends, and with it the connection
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.said {
		r.said = true
		close(r.bye)
	}
	return err
}

// confirmEarlier ends Receive with the result of an earlier run.
func (r *receiver) confirmEarlier(res *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.said {
		r.said, r.earlier = true, res
		close(r.bye)
	}
}

// hear serves a sender.
func (r *receiver) hear(ctx context.Context, w *wire) error {
	var h hello
	if err := w.receiveJSON(frameHello, &h); err != nil {
		return noEOF(err)
	}
	if h.Version != protocol {
		no := fmt.Errorf("protocol %d of its sender is not %d of its rowmill: use the same version", h.Version, protocol)
		return errors.Join(no, w.refuse(no))
	}
	if h.Probe {
		mine := Probe{Host: h.Host}
		var err error
		if mine.Free, err = room(r.root, h.Capacity); err != nil {
			mine.Error = err.Error()
		}
		return w.sendJSON(frameAnswer, answer{Probes: append([]Probe{mine}, Ask(ctx, h.Rest, h.Capacity, r.Token)...)})
	}
	h.Options.Patience = min(max(h.Options.Patience, leastPatience), mostPatience)
	if CheckHosts(h.Rest) != nil {
		no := errors.New("its sender gives an invalid chain")
		return errors.Join(no, w.refuse(no))
	}
	m, err := newManifest(h.Entries)
	if err != nil {
		return errors.Join(err, w.refuse(err))
	}
	sctx, replace := context.WithCancelCause(ctx)
	defer replace(nil)
	in := &incoming{depth: h.Depth, replace: replace, over: make(chan struct{})}
	r.turn.Lock()
	switch whole, complete, err := completed(r.root, m); {
	case err != nil:
		r.turn.Unlock()
		return errors.Join(err, w.refuse(err))
	case complete:
		r.turn.Unlock()
		err := w.refuse(&refusal{Reason: "it has this copy from an earlier run", Whole: whole.String()})
		if err == nil {
			r.board.begin(m.size)
			r.board.set(h.Host, func(s *Status) { s.State, s.Bytes, s.Hash = Done, m.size, whole.String() })
			r.confirmEarlier(&Result{Bytes: m.size, Files: m.files, Hash: whole.String(), Hosts: r.board.List(), Earlier: true})
		}
		return err
	}
	if r.st != nil && r.st.m.hash != m.hash { // only changed with r.turn held
		r.turn.Unlock()
		return w.refuse(&refusal{Reason: "it receives another copy"})
	}
	if no := r.takeOver(in, h.Depth); no != nil {
		r.turn.Unlock()
		return w.refuse(no)
	}
	err = r.session(ctx, sctx, w, h, m)
	r.mu.Lock()
	if r.current == in {
		r.current, r.lost = nil, time.Now()
	}
	r.mu.Unlock()
	close(in.over) // before a refusal is sent, which a stopped sender doesn't read
	_, mine := errors.AsType[fault](err)
	if _, ok := errors.AsType[*refusal](err); ok || mine {
		err = errors.Join(err, w.refuse(err))
	}
	if mine {
		r.end(err)
	}
	return errors.Join(err, w.Close())
}

// takeOver ends the present session and makes in the present one. depth is the distance of in's
// sender from the source; if the old session's sender is nearer, takeOver refuses in instead.
func (r *receiver) takeOver(in *incoming, depth int) *refusal {
	r.mu.Lock()
	was := r.current
	if was != nil && was.depth < depth {
		r.mu.Unlock()
		return errReplaced
	}
	r.current = in
	r.mu.Unlock()
	if was != nil {
		was.replace(errReplaced)
		<-was.over
	}
	return nil
}

// session receives the chunks of a sender. The caller has locked r.turn; session unlocks it as soon
// as the sender's session has begun.
func (r *receiver) session(ctx, sctx context.Context, w *wire, h hello, m *manifest) error {
	g, sctx := errgroup.WithContext(sctx)
	defer w.cutOff(sctx)()
	over, stop := context.WithCancel(sctx)
	g.Go(func() error { return r.report(over, w) })
	g.Go(func() error {
		defer stop()
		st, err := r.begin(ctx, sctx, h, m)
		r.turn.Unlock()
		if err != nil {
			return err
		}
		have, _ := st.position()
		if err := w.sendJSON(frameAnswer, answer{Position: have}); err != nil {
			return err
		}
		return r.take(ctx, sctx, w, st, have)
	})
	err := g.Wait()
	if cause := context.Cause(sctx); errors.Is(cause, errReplaced) {
		return errReplaced
	}
	return err
}

// begin opens the copy, and starts to feed the hosts after this one.
func (r *receiver) begin(ctx, sctx context.Context, h hello, m *manifest) (_ *store, err error) {
	st := r.st // only changed here, with r.turn held
	r.board.set(h.Host, func(s *Status) { s.Reason = "" })
	for _, rest := range h.Rest {
		r.board.set(rest, func(*Status) {})
	}
	if st == nil {
		r.board.begin(m.size)
		r.board.set(h.Host, func(s *Status) { s.State = Checking })
		st, err = openCopy(sctx, r.root, m, func(n int) { r.board.set(h.Host, func(s *Status) { s.Bytes = m.end(n) }) })
		if err != nil {
			return nil, r.faultOf(h.Host, err)
		}
		have, _ := st.position()
		r.board.set(h.Host, func(s *Status) { s.State, s.Bytes = Copying, m.end(have) })
		text := "begins"
		if have > 0 {
			text = "continues at " + fmt.Sprint(m.end(have))
		}
		r.Say(fmt.Sprintf("the copy of %d files, %d bytes %s", m.files, m.size, text))
	}
	r.mu.Lock()
	newRun := r.run != h.Run
	// The hosts before this one may each be tried for the whole patience before it is this one's turn.
	r.st, r.me, r.run, r.patience = st, h.Host, h.Run, h.Options.Patience*time.Duration(1+min(max(h.Depth, 0), mostDepth))
	r.mu.Unlock()
	if newRun {
		r.unfeed()
		r.board.retry()
		f := &feeder{st: st, token: r.Token, o: h.Options, run: h.Run, depth: h.Depth + 1, hosts: h.Rest, board: r.board, say: r.Say, bye: r.bye}
		fctx, stop := context.WithCancel(ctx)
		fed := make(chan struct{})
		r.all.Go(func() { defer close(fed); f.feed(fctx) })
		r.mu.Lock()
		r.feeding = f
		r.unfeed = func() {
			select {
			case <-r.bye: // the feeder passes it on
				select {
				case <-fed:
				case <-time.After(handshakeTime):
				}
			default:
			}
			stop()
			<-fed
		}
		r.mu.Unlock()
	}
	r.finishWhole(ctx, st)
	return st, nil
}

// A fault is an error of this machine, e.g. a full disk. It ends Receive, after the sender was
// told.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

// faultOf returns an error as a fault, which ends the receiver. It returns a refusal, or the loss
// of the sender, unchanged, because these errors only end the session.
func (r *receiver) faultOf(me string, err error) error {
	if _, ok := errors.AsType[*refusal](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	r.board.fail(me, err)
	return fault{err}
}

// finishWhole syncs the copy once all chunks are written.
func (r *receiver) finishWhole(ctx context.Context, st *store) {
	if have, _ := st.position(); have < st.m.chunks() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return
	}
	r.finished = true
	me := r.me
	r.board.set(me, func(s *Status) { s.State = Syncing })
	r.all.Go(func() {
		err := st.finish(ctx)
		var whole hash
		if err == nil {
			whole, err = st.whole(ctx)
		}
		if err != nil {
			r.board.fail(me, err)
			time.Sleep(2 * statusEvery) // the sender is told by a status
			r.end(err)
			return
		}
		r.board.set(me, func(s *Status) { s.State, s.Hash = Done, whole.String() })
	})
}

// report sends the statuses of this host and of the hosts after it to the sender, every
// statusEvery.
func (r *receiver) report(ctx context.Context, w *wire) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		if list := r.board.List(); len(list) > 0 {
			if err := w.sendJSON(frameStatus, statuses{w.below.got.Load(), list}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// take receives and writes chunks until the session ends. It receives a chunk while it writes the
// previous one.
func (r *receiver) take(life, ctx context.Context, w *wire, st *store, next int) error {
	g, ctx := errgroup.WithContext(ctx)
	defer w.cutOff(ctx)()
	const most = 3
	free, come := make(chan []byte, most), make(chan []byte, most)
	for range most {
		free <- make([]byte, chunkHead+chunkSize+chunkSize/8)
	}
	g.Go(func() error {
		defer close(come)
		for {
			var buf []byte
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case buf = <-free:
			}
			kind, body, err := w.receive(buf)
			switch {
			case err != nil:
				return fmt.Errorf("the sender is lost: %w", err)
			case kind == frameBye && len(body) == len(hash{}):
				return r.confirm(w, hash(body))
			case kind != frameChunk || len(body) < chunkHead:
				return fmt.Errorf("an unexpected frame %q", kind)
			}
			come <- body
		}
	})
	g.Go(func() error {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*chunkSize))
		if err != nil {
			return err
		}
		defer decoder.Close()
		var plain []byte
		since, busy := time.Now(), time.Duration(0)
		for body := range come {
			began := time.Now()
			chunk, want, data := int(binary.BigEndian.Uint64(body)), hash(body[8:]), body[chunkHead:]
			if body[chunkHead-1] == 1 {
				if plain, err = decoder.DecodeAll(data, plain[:0]); err != nil {
					return fmt.Errorf("chunk %d: %w", chunk, err)
				}
				data = plain
			}
			if chunk != next || chunk >= st.m.chunks() || int64(len(data)) != st.m.end(chunk+1)-st.m.end(chunk) || blake3.Sum256(data) != want {
				return fmt.Errorf("chunk %d arrived damaged, or in place of chunk %d", chunk, next)
			}
			if err := st.write(chunk, data, want); err != nil {
				return r.faultOf(r.me, err)
			}
			next++
			free <- body[:cap(body)]
			busy += time.Since(began)
			r.board.set(r.me, func(s *Status) {
				s.Bytes = st.m.end(next)
				if over := time.Since(since); over > time.Second {
					s.Busy = busy.Seconds() / over.Seconds()
					since, busy = time.Now(), 0
				}
			})
			r.finishWhole(life, st) // also if the sender is lost meanwhile
			if err := w.send(framePosition, binary.BigEndian.AppendUint64(nil, uint64(next))); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}
