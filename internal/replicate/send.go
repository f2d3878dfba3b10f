package replicate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"golang.org/x/sys/unix"
)

// Options apply to all hosts of a copy.
type Options struct {
	// Zstd means that hosts send chunks compressed.
	Zstd bool
	// Limit is the most bytes per second that a host sends; 0 is no limit.
	Limit int64
	// Patience is how long a host that doesn't answer is tried before it is left out.
	Patience time.Duration
}

// SendOptions are the options of Send.
type SendOptions struct {
	Options
	Token string
	// Skip are files that aren't copied, as paths below the directory.
	Skip []string
	Say  func(string)
}

// A Result is the result of Send or Receive.
type Result struct {
	Bytes   int64   `json:"bytes"`
	Files   int     `json:"files"`
	Hash    string  `json:"hash"` // BLAKE3 of the whole copy
	Seconds float64 `json:"seconds"`
	// Hosts are, after Send, all hosts of the chain; after Receive, the receiver and the hosts
	// after it.
	Hosts []Status `json:"hosts"`
	// Earlier means that an earlier run has made this copy, and that this run of Receive has written
	// nothing. The copy may be in use.
	Earlier bool `json:"-"`
}

// CheckHosts refuses invalid addresses and a host that is listed twice.
func CheckHosts(hosts []string) error {
	for i, h := range hosts {
		if printable(h) != h {
			return fmt.Errorf("%q has characters that can't be printed", h)
		}
		if host, port, err := net.SplitHostPort(h); err != nil || host == "" || port == "" {
			return fmt.Errorf("%q: want HOST:PORT", h)
		}
		if slices.Contains(hosts[:i], h) {
			return fmt.Errorf("%s is there twice", h)
		}
	}
	return nil
}

// Send copies a directory, which must not change meanwhile, to hosts on which Receive runs: to the
// first, which passes it on to the second, and so on. It returns when each host has its copy or was
// given up; the error names the hosts given up.
func Send(ctx context.Context, dir string, hosts []string, board *Board, o SendOptions) (res Result, err error) {
	st, err := openSource(dir, o.Skip)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	board.begin(st.m.size)
	_, began := board.Size()
	for _, h := range hosts {
		board.set(h, func(*Status) {})
	}
	res.Bytes, res.Files = st.m.size, st.m.files
	bye, fed := make(chan struct{}), make(chan struct{})
	f := &feeder{st: st, token: o.Token, o: o.Options, run: rand.Text(), hosts: hosts, board: board, say: o.Say, bye: bye}
	ctx, stop := context.WithCancel(ctx)
	defer func() { stop(); <-fed }()
	go func() { defer close(fed); f.feed(ctx) }()
	if err := awaitHosts(ctx, board, hosts, fed, o.Say); err != nil {
		return res, err
	}
	whole, err := st.whole(ctx)
	if err != nil {
		return res, err
	}
	if now, err := scan(st.root, o.Skip); err != nil || now.hash != st.m.hash {
		return res, fmt.Errorf("%s changed while it was copied, so that the copies are of no use: %w", dir, errors.Join(err, errChanged))
	}
	close(bye)
	<-fed
	res.Hash, res.Hosts, res.Seconds = whole.String(), board.List(), time.Since(began).Seconds()
	var failed []error
	for i := range res.Hosts {
		s := &res.Hosts[i]
		if s.State == Done && s.Hash != res.Hash {
			s.State, s.Reason = Failed, "its copy has the BLAKE3 "+s.Hash
		}
		if err := f.left[s.Host]; err != nil {
			s.State, s.Reason = Failed, err.Error()
		}
		if s.State != Done {
			failed = append(failed, fmt.Errorf("%s: %s", s.Host, s.Reason))
		}
	}
	if len(failed) > 0 {
		return res, fmt.Errorf("%s no copy: %w", figure.Plural(len(failed), "host has", "hosts have"), errors.Join(failed...))
	}
	return res, nil
}

var errChanged = errors.New("a file has another size or time")

// slowAfter is how many bytes a host may be behind the host before it without being called slow.
const slowAfter = 256 << 20

// awaitHosts waits until each host is done or has failed, and names slow ones.
func awaitHosts(ctx context.Context, board *Board, hosts []string, fed <-chan struct{}, say func(string)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	slow := map[string]bool{}
	for ended := false; len(board.pending(hosts)) > 0; {
		if ended {
			return errors.New("another rowmill copy send feeds these hosts")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-fed:
			ended = true
		case <-tick.C:
		}
		for i, list := 1, board.List(); i < len(list); i++ {
			lag := list[i-1].Bytes - list[i].Bytes
			if s := list[i]; s.State == Copying && list[i-1].State != Failed && lag > slowAfter && s.Rate > 0 && !slow[s.Host] {
				slow[s.Host] = true
				say(fmt.Sprintf("%s is slow: %s behind the host before it, at %s/s; it is busy %s of the time, and otherwise waits for its network",
					s.Host, figure.Bytes(lag), figure.Bytes(s.Rate), figure.Percent(s.Busy)))
			}
		}
	}
	return nil
}

// Scan returns what Send would copy.
func Scan(dir string, skip []string) (res Result, err error) {
	st, err := openSource(dir, skip)
	if err != nil {
		return res, err
	}
	return Result{Bytes: st.m.size, Files: st.m.files}, st.close()
}

// A Probe says whether a host could take a copy.
type Probe struct {
	Host string `json:"host"`
	// Free is the number of free bytes of the file system of the host's directory, -1 if unknown.
	// Error says why the host doesn't take the copy.
	Free  int64  `json:"free"`
	Error string `json:"error,omitempty"`
}

// Ask asks the hosts of a chain whether they could take a copy: it asks the first host, which asks
// the next one, and so on.
func Ask(ctx context.Context, hosts []string, bytes int64, token string) (out []Probe) {
	for len(hosts) > 0 && ctx.Err() == nil {
		list, err := ask(ctx, hosts, bytes, token)
		if err == nil {
			return append(out, list...)
		}
		out = append(out, Probe{Host: hosts[0], Free: -1, Error: err.Error()})
		hosts = hosts[1:]
	}
	return out
}

func ask(ctx context.Context, hosts []string, bytes int64, token string) (_ []Probe, err error) {
	w, err := dial(ctx, hosts[0], token)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	if err := w.SetDeadline(time.Now().Add(time.Duration(1+len(hosts)) * handshakeTime)); err != nil {
		return nil, err
	}
	if err := w.sendJSON(frameHello, hello{Version: protocol, Probe: true, Host: hosts[0], Rest: hosts[1:], Capacity: bytes}); err != nil {
		return nil, err
	}
	var a answer
	if err := w.receiveJSON(frameAnswer, &a); err != nil {
		return nil, noEOF(err)
	}
	return a.Probes, nil
}

// room returns the free bytes of a directory's file system, -1 if unknown, and an error if they are
// fewer than need.
func room(root *os.Root, need int64) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(root.Name(), &s); err != nil {
		return -1, nil // a full disk shows when a chunk is written
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	if free < need {
		return free, fmt.Errorf("its disk is too full: %s are free, and the copy needs %s", figure.Bytes(free), figure.Bytes(need))
	}
	return free, nil
}
