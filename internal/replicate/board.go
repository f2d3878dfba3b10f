package replicate

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// A State is the state of a host.
type State string

// The states of a host. Done and Failed are final.
const (
	Waiting  State = "waiting"  // not reached yet, or not any more
	Checking State = "checking" // reads what it has from an earlier run
	Copying  State = "copying"
	Syncing  State = "syncing" // has everything, and writes it to its disk
	Done     State = "done"
	Failed   State = "failed"
)

func (s State) final() bool { return s == Done || s == Failed }

// A Status describes a host.
type Status struct {
	Host  string `json:"host"`
	State State  `json:"state"`
	// Bytes of the copy are on the host's disk; in state Checking, so many were found right so far.
	Bytes int64 `json:"bytes"`
	// Reason is why it failed, or waits.
	Reason string `json:"reason,omitempty"`
	// Hash is the BLAKE3 of the copy, once it is done.
	Hash string `json:"hash,omitempty"`
	// Busy is the share of the last second that the host spent on checking and writing chunks. If a
	// host is slow and its share is low, it waits for its network.
	Busy float64 `json:"busy"`
	// SentAgain are the bytes that were sent to the host more than once.
	SentAgain int64 `json:"sent_again"`
	// Rate is in bytes per second, over the last rateOver.
	Rate float64 `json:"rate"`
}

// Left returns how many seconds the host needs for the rest of size bytes at its rate, -1 if that
// isn't known.
func (s Status) Left(size int64) float64 {
	if s.Rate <= 0 || s.State != Copying {
		return -1
	}
	return float64(size-s.Bytes) / s.Rate
}

// rateOver is the time over which rates are measured: several chunks even at 10 MB/s.
const rateOver = 5 * time.Second

// A Board has the status of each host that a process knows of, in the order of the chain.
type Board struct {
	mu    sync.Mutex
	size  int64
	list  []*watched
	began time.Time
}

// watched is a status, with the bytes that were on disk at times of the last rateOver, in order.
type watched struct {
	Status
	seen []seen
}

type seen struct {
	at    time.Time
	bytes int64
}

// printable quotes a text from another host if it has characters that a terminal would interpret.
func printable(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// set changes a host's status, unless the status is final, and reports whether it did.
func (b *Board) set(host string, change func(*Status)) bool {
	host = printable(host)
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.list, func(w *watched) bool { return w.Host == host })
	if i < 0 {
		i = len(b.list)
		b.list = append(b.list, &watched{Status: Status{Host: host, State: Waiting}})
	}
	w := b.list[i]
	if w.State.final() {
		return false
	}
	change(&w.Status)
	w.Host = host
	now := time.Now()
	if n := len(w.seen); w.State == Copying && (n == 0 || now.Sub(w.seen[n-1].at) > rateOver/50) {
		w.seen = append(w.seen, seen{now, w.Bytes})
		for len(w.seen) > 2 && now.Sub(w.seen[1].at) > rateOver {
			w.seen = w.seen[1:]
		}
	}
	return true
}

// merge replaces the statuses of hosts by those that another host has sent.
func (b *Board) merge(list []Status) {
	for _, s := range list {
		b.set(s.Host, func(mine *Status) {
			again := max(mine.SentAgain, s.SentAgain)
			*mine = s
			mine.State, mine.Reason, mine.Hash = State(printable(string(s.State))), printable(s.Reason), printable(s.Hash)
			mine.SentAgain = again
		})
	}
}

func (b *Board) fail(host string, why error) bool {
	return b.set(host, func(s *Status) { s.State, s.Reason = Failed, why.Error() })
}

// List returns the statuses in the order of the chain.
func (b *Board) List() []Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Status, len(b.list))
	for i, w := range b.list {
		out[i] = w.Status
		out[i].Rate = 0
		if n := len(w.seen); n > 1 && w.State == Copying {
			first := w.seen[0]
			out[i].Rate = float64(w.Bytes-first.bytes) / time.Since(first.at).Seconds()
		}
	}
	return out
}

// Size returns the bytes of a whole copy, 0 while that isn't known, and when the copying began.
func (b *Board) Size() (int64, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size, b.began
}

func (b *Board) begin(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size, b.began = size, time.Now()
}

// get returns the status of a host.
func (b *Board) get(host string) Status {
	for _, s := range b.List() {
		if s.Host == printable(host) {
			return s
		}
	}
	return Status{Host: host, State: Waiting}
}

// pending returns the hosts whose status isn't final.
func (b *Board) pending(hosts []string) (out []string) {
	for _, h := range hosts {
		if !b.get(h).State.final() {
			out = append(out, h)
		}
	}
	return out
}

// retry sets failed hosts back to Waiting, so that they are tried again.
func (b *Board) retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.list {
		if w.State == Failed {
			w.State = Waiting
		}
	}
}
