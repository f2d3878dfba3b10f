package replicate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pretend returns a host that hears a hello, then does something, and then nothing.
func pretend(t *testing.T, do func(w *wire) error) *host {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				w, err := accept(ctx, c, cert, testToken)
				if err == nil {
					err = w.receiveJSON(frameHello, &hello{})
				}
				if err == nil {
					err = do(w)
				}
				if err != nil {
					t.Error(err)
				}
				<-ctx.Done()
			})
		}
	})
	t.Cleanup(func() { stop(); l.Close(); all.Wait() })
	return &host{addr: l.Addr().String()}
}

// TestCopyAnswers: one that answers too often, or with too much, ends its session and not the copy.
func TestCopyAnswers(t *testing.T) {
	twice := pretend(t, func(w *wire) error {
		return errors.Join(w.sendJSON(frameAnswer, answer{}), w.sendJSON(frameAnswer, answer{}), w.sendJSON(frameAnswer, answer{}))
	})
	much := pretend(t, func(w *wire) error {
		return errors.Join(w.sendJSON(frameAnswer, answer{}), w.send(framePosition, []byte{255, 0, 0, 0, 0, 0, 0, 0}))
	})
	good := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	send(t, source(t, 1), []*host{twice, much, good}, options(time.Second), map[int]string{0: "it answers twice", 1: "a position that is impossible"})
}

// TestCopyTooMuch: sizes and numbers that are impossible are refused before anything is allocated
// for them.
func TestCopyTooMuch(t *testing.T) {
	for name, sizes := range map[string][]int64{"negative": {-1}, "large": {mostSize}, "sum": {mostSize / 2, mostSize / 2}, "overflow": {1, 1<<63 - 1}} {
		entries := []entry{{Path: "x"}}
		for i, n := range sizes {
			entries = append(entries, entry{Path: fmt.Sprint(i), Size: n})
		}
		if _, err := newManifest(entries); err == nil || !strings.Contains(err.Error(), "invalid size") {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	w, err := dial(t.Context(), h.addr, testToken)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// A patience out of its limits is none of the errors.
	if err := w.sendJSON(frameHello, hello{Version: protocol, Host: "me", Options: Options{Patience: -1}, Entries: []entry{{Path: "x", Mode: 0o600, Size: mostSize - 1}}}); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, _, err = w.receive(nil)
	}
	if !strings.Contains(err.Error(), "its disk is too full") {
		t.Error(err)
	}
	w.Close()
	if err := h.await(t); err == nil || !strings.Contains(err.Error(), "its disk is too full") {
		t.Error(err)
	}
}

// TestCopyCrowd: idle connections without a proof keep no sender out, and the oldest are closed.
func TestCopyCrowd(t *testing.T) {
	h := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	var crowd []net.Conn
	for range 2 * mostUnproven {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	began := time.Now()
	if _, err := Send(t.Context(), source(t, 1), []string{h.addr}, &Board{}, options(time.Second)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > proofTime {
		t.Errorf("the sender has waited %v", took)
	}
	_ = crowd[0].SetReadDeadline(time.Now().Add(time.Second))
	if _, err := crowd[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection is still open: %v", err)
	}
	if err := h.await(t); err != nil {
		t.Error(err)
	}
}

// TestPrintable: nothing that another host sends moves the cursor of a terminal.
func TestPrintable(t *testing.T) {
	var b Board
	b.begin(1)
	b.merge([]Status{{Host: "h\x1b[2J:1", State: Failed, Reason: "no\r\x1b[A"}})
	served := httptest.NewRecorder()
	b.Handler().ServeHTTP(served, httptest.NewRequest("GET", "/metrics", nil))
	if s := b.get("h\x1b[2J:1"); s.Host != `"h\x1b[2J:1"` || s.Reason != `"no\r\x1b[A"` || strings.ContainsAny(b.Line()+served.Body.String(), "\x1b\r") || served.Code != http.StatusOK {
		t.Errorf("%+v, %q", s, b.Line())
	}
	b.merge([]Status{{Host: "other:1", State: "\x1b", Hash: "\x1b"}})
	if s := b.get("other:1"); s.Hash != `"\x1b"` || strings.Contains(b.Line(), "\x1b") {
		t.Errorf("%+v, %q", s, b.Line())
	}
	if err := CheckHosts([]string{"h\x1b:1"}); err == nil || !strings.Contains(err.Error(), "can't be printed") {
		t.Error(err)
	}
	if _, err := newManifest([]entry{{Path: "a\xff"}}); err == nil || !strings.Contains(err.Error(), `"a\xff" is not UTF-8`) {
		t.Error(err)
	}
}

// TestCopyFrozen: hosts that take connections, or chunks, and then do nothing delay the others by
// the patience only.
func TestCopyFrozen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	frozen := []*host{{addr: l.Addr().String()}, pretend(t, func(w *wire) error { return w.sendJSON(frameAnswer, answer{}) })}
	good := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	began := time.Now()
	send(t, source(t, 30<<20), append(frozen, good), options(time.Second), map[int]string{0: "doesn't answer", 1: "it has acknowledged nothing for 1s"})
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the copy takes %v", took)
	}
}
