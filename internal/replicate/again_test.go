package replicate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCopyUnconfirmed: a receiver doesn't call its copy good while the source may have changed, and
// a later run does.
func TestCopyUnconfirmed(t *testing.T) {
	dir := source(t, 8<<20)
	file := filepath.Join(dir, "z")
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	first, second := receive(t, copied, testToken), receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	o := options(time.Second)
	o.Limit = 40 << 20
	changed := make(chan error, 1)
	go func() {
		for first.board.get(first.addr).Bytes == 0 {
			time.Sleep(time.Millisecond)
		}
		changed <- os.Chtimes(file, time.Time{}, time.Now())
	}()
	_, err = Send(t.Context(), dir, []string{first.addr, second.addr}, &Board{}, o)
	if err == nil || !strings.Contains(err.Error(), "changed while it was copied") {
		t.Error(err)
	}
	for _, h := range []*host{first, second} {
		if err := h.await(t); err == nil || !strings.Contains(err.Error(), "its sender has not confirmed it for ") || h.res.Hash != "" {
			t.Errorf("%v, %+v", err, h.res)
		}
	}
	if err := errors.Join(<-changed, os.Chtimes(file, time.Time{}, was.ModTime())); err != nil {
		t.Fatal(err)
	}
	again := receive(t, copied, testToken)
	if _, err := Send(t.Context(), dir, []string{again.addr}, &Board{}, o); err != nil {
		t.Error(err)
	}
	if err := again.await(t); err != nil || fingerprint(t, copied) != fingerprint(t, dir) {
		t.Errorf("the copy differs, or %v", err)
	}
}

// TestCopyConfirmedLate: a host is lost when all copies are complete. The next one is told by the
// source that it is good.
func TestCopyConfirmedLate(t *testing.T) {
	st, err := openSource(source(t, 1<<20), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	hosts := []*host{receive(t, filepath.Join(t.TempDir(), "copy"), testToken), receive(t, filepath.Join(t.TempDir(), "copy"), testToken)}
	o, bye, board := options(time.Second), make(chan struct{}), &Board{}
	f := &feeder{st: st, token: testToken, o: o.Options, run: "run", hosts: addresses(hosts), board: board, say: o.Say, bye: bye}
	for _, h := range f.hosts {
		board.set(h, func(*Status) {})
	}
	fed := make(chan struct{})
	go func() { defer close(fed); f.feed(t.Context()) }()
	for len(board.pending(f.hosts)) > 0 {
		time.Sleep(time.Millisecond)
	}
	hosts[0].stop()
	if err := hosts[0].await(t); !errors.Is(err, context.Canceled) || hosts[0].res.Hash != "" {
		t.Errorf("%v, %+v", err, hosts[0].res)
	}
	close(bye)
	if err := hosts[1].await(t); err != nil || hosts[1].res.Hash == "" {
		t.Errorf("%v, %+v", err, hosts[1].res)
	}
	<-fed
	if err := f.left[hosts[0].addr]; err == nil || !strings.Contains(err.Error(), "its copy is complete, but could not be confirmed") || len(f.left) != 1 {
		t.Errorf("%v", f.left)
	}
}

// TestCopyAgain: the same commands again find complete copies, which are not touched, and a host
// that has ended is named.
func TestCopyAgain(t *testing.T) {
	dir := source(t, 1<<20)
	first := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	o := options(time.Second)
	res, err := Send(t.Context(), dir, []string{first.addr}, &Board{}, o)
	if err := errors.Join(err, first.await(t)); err != nil {
		t.Fatal(err)
	}
	// A server uses the copy.
	if err := errors.Join(os.WriteFile(filepath.Join(first.dir, "z"), []byte("used"), 0o600), os.WriteFile(filepath.Join(first.dir, "new"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	used := fingerprint(t, first.dir)
	_, err = Send(t.Context(), dir, []string{first.addr}, &Board{}, o)
	if err == nil || !strings.Contains(err.Error(), "if its receive has ended with exit 0, it has its copy") {
		t.Error(err)
	}
	again, other := receive(t, first.dir, testToken), receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	if _, err := Send(t.Context(), source(t, 1), []string{again.addr}, &Board{}, o); err == nil || !strings.Contains(err.Error(), "another copy") {
		t.Error(err)
	}
	now, err := Send(t.Context(), dir, []string{again.addr, other.addr}, &Board{}, o)
	if err := errors.Join(err, again.await(t), other.await(t)); err != nil || now.Hash != res.Hash || !again.res.Earlier || again.res.Hash != res.Hash || other.res.Hash != res.Hash {
		t.Errorf("%v, %+v, %+v, want the BLAKE3 %s", err, again.res, other.res, res.Hash)
	}
	if fingerprint(t, first.dir) != used || fingerprint(t, other.dir) != fingerprint(t, dir) {
		t.Error("a complete copy was written to, or the other copy differs")
	}
}

// TestCopyOfAnother: a sender of something else doesn't disturb the copy that is received.
func TestCopyOfAnother(t *testing.T) {
	dir, wrong := source(t, 12<<20), source(t, 1)
	h := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
	o := options(5 * time.Second)
	o.Limit = 40 << 20
	other := make(chan error, 1)
	go func() {
		for h.board.get(h.addr).Bytes == 0 {
			time.Sleep(time.Millisecond)
		}
		_, err := Send(context.Background(), wrong, []string{h.addr}, &Board{}, options(5*time.Second))
		other <- err
	}()
	var said strings.Builder
	o.Say = func(line string) { said.WriteString(line) }
	if _, err := Send(t.Context(), dir, []string{h.addr}, &Board{}, o); err != nil || said.Len() > 0 {
		t.Errorf("%v, and it says %q", err, said.String())
	}
	if err := <-other; err == nil || !strings.Contains(err.Error(), "it receives another copy") {
		t.Error(err)
	}
	if err := h.await(t); err != nil {
		t.Error(err)
	}
}
