package replicate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
)

// A feeder sends the chunks of a store to the next host, which sends them on to the hosts after it.
// If the next host can't be reached, or stops, the feeder tries it for Options.Patience and then
// leaves it out; a host that refuses is left out at once. The source and each host have a feeder,
// which reads the chunks from their own directory. So a feeder can begin at any chunk that its
// directory has.
type feeder struct {
	st    *store
	token string
	o     Options
	run   string
	depth int // of the host that sends
	hosts []string
	board *Board
	say   func(string)
	// bye is closed once all hosts have ended and the source has confirmed their copies.
	bye <-chan struct{}
	// taken means that a host nearer to the source feeds the next host.
	taken bool
	// left has the hosts with complete copies that need no session any more. The value is nil, or the
	// error that kept rowmill from telling the host that its copy is confirmed.
	left map[string]error
	high map[string]int // the number of chunks that a host was sent at least once
}

// errStalled is the error of a host that no longer answers.
type errStalled struct{ patience time.Duration }

func (e errStalled) Error() string {
	return fmt.Sprintf("it has acknowledged nothing for %v", e.patience)
}

// retryEvery is how long a feeder waits before it tries a host again.
const retryEvery = 300 * time.Millisecond

// feed sends to the first host that hasn't failed and isn't in f.left. It returns when it has told
// this host that all copies are confirmed (see bye), when no such host is left, or when ctx ends.
func (f *feeder) feed(ctx context.Context) {
	alive, of, said := time.Now(), "", ""
	f.high, f.left = map[string]int{}, map[string]error{}
	for ctx.Err() == nil {
		hosts := slices.DeleteFunc(slices.Clone(f.hosts), func(h string) bool {
			_, left := f.left[h]
			return left || f.board.get(h).State == Failed
		})
		if len(hosts) == 0 {
			return
		}
		host := hosts[0]
		if host != of {
			alive, of, said = time.Now(), host, ""
		}
		err := f.session(ctx, host, hosts[1:], &alive)
		if err == nil || ctx.Err() != nil {
			return
		}
		refused, final := errors.AsType[*refusal](err)
		if final && refused.Fed {
			f.taken = true
			return
		}
		if final && refused.Whole != "" {
			f.board.set(host, func(s *Status) { s.State, s.Bytes, s.Hash, s.Reason = Done, f.st.m.size, refused.Whole, "" })
			f.left[host] = nil
			continue
		}
		if final || time.Since(alive) >= f.o.Patience {
			if f.board.fail(host, err) {
				f.say(fmt.Sprintf("%s gets no copy: %v", host, err))
			} else if f.board.get(host).State == Done {
				f.left[host] = fmt.Errorf("its copy is complete, but could not be confirmed to it: %w", err)
			}
			continue
		}
		f.board.set(host, func(s *Status) { s.State, s.Reason = Waiting, err.Error() })
		if text := err.Error(); text != said {
			said = text
			f.say(fmt.Sprintf("%s: %v; it is tried for %v", host, err, f.o.Patience))
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// A flow is the state that the goroutines of a session share.
type flow struct {
	mu    sync.Mutex
	acked int // chunks
	sent  int
	alive *time.Time    // when the host last did something
	moved chan struct{} // has an element when acked has grown
	begin chan answer   // the answer to the hello
	ended chan struct{} // closed when the host has closed the connection
	told  atomic.Bool   // the goodbye is being sent
}

// session sends to one host until bye is closed. alive is the time of the host's last progress.
func (f *feeder) session(ctx context.Context, host string, rest []string, alive *time.Time) error {
	dctx, dialed := context.WithTimeout(ctx, min(handshakeTime, max(retryEvery, f.o.Patience-time.Since(*alive))))
	w, err := dial(dctx, host, f.token)
	dialed()
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // everything that mattered was acknowledged
	fl := &flow{alive: alive, moved: make(chan struct{}, 1), begin: make(chan answer, 1), ended: make(chan struct{})}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	over, stop := context.WithCancel(ctx)
	g.Go(func() error { return f.listen(w, fl) })
	g.Go(func() error { return f.watch(over, fl) })
	g.Go(func() error {
		defer stop()
		h := hello{Version: protocol, Run: f.run, Host: host, Rest: rest, Depth: f.depth, Entries: f.st.m.Entries, Options: f.o}
		if err := w.sendJSON(frameHello, h); err != nil {
			return err
		}
		var at answer
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case at = <-fl.begin:
		}
		if at.Position < 0 || at.Position > f.st.m.chunks() {
			return &refusal{Reason: "it answers with an impossible position"}
		}
		fl.acked, fl.sent = at.Position, at.Position
		f.board.set(host, func(s *Status) { s.State, s.Reason = Copying, "" })
		if err := f.sendChunks(ctx, w, host, fl); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.bye:
		}
		whole, err := f.st.whole(ctx)
		if err != nil {
			return err
		}
		fl.told.Store(true)
		if err := w.send(frameBye, whole[:]); err != nil {
			return err
		}
		select {
		case <-fl.ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(handshakeTime):
			return errStalled{handshakeTime}
		}
	})
	if err := g.Wait(); !errors.Is(err, errBye) {
		return err
	}
	return nil
}

var errBye = errors.New("all hosts have ended")

// listen reads what the host says, until the connection ends.
func (f *feeder) listen(w *wire, fl *flow) error {
	defer close(fl.ended)
	var buf []byte
	var got int64
	answered := false
	for {
		kind, body, err := w.receive(buf)
		if err != nil {
			return err
		}
		buf = body[:cap(body)]
		switch kind {
		case frameBye:
			if !fl.told.Load() {
				return errors.New("it ends before it is told to")
			}
			return errBye
		case frameAnswer:
			var a answer
			if err := json.Unmarshal(body, &a); err != nil {
				return err
			}
			if answered {
				return errors.New("it answers twice")
			}
			answered = true
			fl.begin <- a // has room for one
		case framePosition:
			if len(body) != 8 || binary.BigEndian.Uint64(body) > uint64(f.st.m.chunks()) {
				return errors.New("a position that is impossible")
			}
			fl.mu.Lock()
			fl.acked = int(binary.BigEndian.Uint64(body))
			*fl.alive = time.Now()
			fl.mu.Unlock()
			select {
			case fl.moved <- struct{}{}:
			default:
			}
		case frameStatus:
			var now statuses
			if err := json.Unmarshal(body, &now); err != nil || len(now.Hosts) == 0 {
				return errors.Join(errors.New("a status that can't be read"), err)
			}
			f.board.merge(now.Hosts)
			if now.Hosts[0].State == Failed {
				return &refusal{Reason: now.Hosts[0].Reason}
			}
			fl.mu.Lock()
			if now.Got > got || now.Hosts[0].State != Copying || fl.acked >= fl.sent {
				got, *fl.alive = now.Got, time.Now()
			}
			fl.mu.Unlock()
		default:
			return fmt.Errorf("an unknown frame %q", kind)
		}
	}
}

// watch ends the session of a host that no longer answers.
func (f *feeder) watch(ctx context.Context, fl *flow) error {
	tick := time.NewTicker(min(f.o.Patience/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		fl.mu.Lock()
		silent := time.Since(*fl.alive) >= f.o.Patience
		fl.mu.Unlock()
		if silent {
			return errStalled{f.o.Patience}
		}
	}
}

// A packed chunk is ready to be sent.
type packed struct {
	chunk int
	buf   []byte // goes back to be filled again
	head  []byte
	data  []byte
}

// sendChunks sends all chunks from fl.sent on, each as soon as the store has it. It reads a chunk
// while it sends the previous one.
func (f *feeder) sendChunks(ctx context.Context, w *wire, host string, fl *flow) error {
	g, ctx := errgroup.WithContext(ctx)
	free, ready := make(chan []byte, 2), make(chan packed)
	free <- make([]byte, chunkSize)
	free <- make([]byte, chunkSize)
	first := fl.sent
	g.Go(func() error {
		defer close(ready)
		var encoder *zstd.Encoder
		if f.o.Zstd {
			var err error
			if encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err != nil {
				return err
			}
			defer encoder.Close() //nolint:errcheck // it has no writer
		}
		for i := first; i < f.st.m.chunks(); i++ {
			if err := f.st.await(ctx, i); err != nil {
				return err
			}
			var buf []byte
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case buf = <-free:
			}
			data, h, err := f.st.read(i, buf)
			if err != nil {
				return &refusal{Reason: err.Error()}
			}
			p := packed{chunk: i, buf: buf, data: data, head: append(binary.BigEndian.AppendUint64(nil, uint64(i)), h[:]...)}
			if encoder != nil {
				p.data = encoder.EncodeAll(data, nil)
				p.head = append(p.head, 1)
			} else {
				p.head = append(p.head, 0)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case ready <- p:
			}
		}
		return nil
	})
	g.Go(func() error {
		pace := time.Now()
		for p := range ready {
			for {
				fl.mu.Lock()
				room := p.chunk < fl.acked+window
				fl.mu.Unlock()
				if room {
					break
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-fl.moved:
				}
			}
			if f.o.Limit > 0 {
				if now := time.Now(); pace.Before(now) {
					pace = now
				}
				pace = pace.Add(time.Duration(float64(len(p.data)) / float64(f.o.Limit) * float64(time.Second)))
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(time.Until(pace)):
				}
			}
			fl.mu.Lock()
			fl.sent = p.chunk + 1
			fl.mu.Unlock()
			if err := w.send(frameChunk, p.head, p.data); err != nil {
				return err
			}
			if p.chunk < f.high[host] {
				f.board.set(host, func(s *Status) { s.SentAgain += int64(len(p.data)) })
			}
			f.high[host] = max(f.high[host], p.chunk+1)
			free <- p.buf
		}
		return nil
	})
	return g.Wait()
}
