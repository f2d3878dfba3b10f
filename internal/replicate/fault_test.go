package replicate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/testdb"
)

// roleEnv has the test's program be one process of a copy: "receive DIR ADDR" or "send DIR
// HOST...".
const roleEnv = "ROWMILL_TEST_COPY"

func TestMain(m *testing.M) {
	if role := strings.Fields(os.Getenv(roleEnv)); len(role) > 0 {
		say := func(line string) { fmt.Fprintln(os.Stderr, line) }
		var err error
		if role[0] == "send" {
			o := options(20 * time.Second)
			o.Say = say
			_, err = Send(context.Background(), role[1], role[2:], &Board{}, o)
		} else {
			var l net.Listener
			if l, err = net.Listen("tcp", role[2]); err == nil {
				_, err = Receive(context.Background(), l, role[1], &Board{}, ReceiveOptions{Token: testToken, Say: say})
			}
		}
		if err != nil {
			say(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// A process is one of a copy that can be killed and started again.
type process struct {
	t    testing.TB
	role string
	cmd  *exec.Cmd
	log  strings.Builder
	done chan error
}

func start(t testing.TB, role ...string) *process {
	p := &process{t: t, role: strings.Join(role, " ")}
	p.start()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), roleEnv+"="+p.role)
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan error, 1)
	go func(c *exec.Cmd, done chan error) { done <- c.Wait() }(p.cmd, p.done)
}

// restart kills the process as kill -9 does, and starts it again.
func (p *process) restart() {
	_ = p.cmd.Process.Kill()
	<-p.done
	p.start()
}

// ends waits for the process, which must succeed.
func (p *process) ends() {
	p.t.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			p.t.Errorf("%s: %v\n%s", p.role, err, p.log.String())
		}
	case <-time.After(60 * time.Second):
		p.t.Fatalf("%s doesn't end\n%s", p.role, p.log.String())
	}
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A relay passes connections on, and counts what the sender has sent.
type relay struct {
	addr string
	sent atomic.Int64
	// onSent is called for each part.
	onSent func()
}

func newRelay(t testing.TB, to string, onSent func()) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), onSent: onSent}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				d, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				all.Go(func() { _, _ = io.Copy(c, d); c.Close(); d.Close() })
				buf := make([]byte, 64<<10)
				for {
					n, err := c.Read(buf)
					if err != nil {
						break
					}
					r.sent.Add(int64(n))
					r.onSent()
					if _, err := d.Write(buf[:n]); err != nil {
						break
					}
				}
				d.Close()
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return r
}

// TestCopyKilled kills the source or a receiver at a random byte, and starts it again: the copies
// are equal, and little is sent again. Nightly it does so 60 times.
func TestCopyKilled(t *testing.T) {
	size, kills := 36<<20, 3
	if os.Getenv("ROWMILL_TEST_NIGHTLY") == "1" {
		size, kills = 160<<20, 60
	}
	dir := source(t, size)
	want := fingerprint(t, dir)
	res, err := Scan(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	worst := int64(0)
	for k := range kills {
		at := rand.Int64N(2 * res.Bytes)
		ps := make([]*process, 3)
		var relays [2]*relay
		var once sync.Once
		killed := make(chan struct{})
		onSent := func() {
			if relays[0].sent.Load()+relays[1].sent.Load() >= at {
				once.Do(func() { close(killed) })
			}
		}
		var dirs, hosts []string
		for i := range relays {
			addr := freeAddress(t)
			dirs = append(dirs, filepath.Join(t.TempDir(), "copy"))
			ps[i] = start(t, "receive", dirs[i], addr)
			relays[i] = newRelay(t, addr, func() { onSent() })
			hosts = append(hosts, relays[i].addr)
		}
		ps[2] = start(t, append([]string{"send", dir}, hosts...)...)
		select {
		case <-killed:
			ps[k%3].restart()
		case <-time.After(60 * time.Second):
			t.Fatalf("%d bytes were never sent\n%s", at, ps[2].log.String())
		}
		ps[2].ends()
		for i := range relays {
			ps[i].ends()
			if got := fingerprint(t, dirs[i]); got != want {
				t.Errorf("%s killed at byte %d: the copy in %s differs", ps[k%3].role, at, dirs[i])
			}
			if err := os.RemoveAll(dirs[i]); err != nil {
				t.Error(err)
			}
			// Frames and TLS add less than 1%.
			again := relays[i].sent.Load() - res.Bytes*101/100
			worst = max(worst, again)
			if again > 64<<20 {
				t.Errorf("%s killed at byte %d: %d bytes were sent again to host %d", ps[k%3].role, at, again, i)
			}
		}
	}
	t.Logf("%d kills, copy of %d bytes: at most %d bytes sent again", kills, res.Bytes, max(worst, 0))
}

// send sends to hosts, of which those in wrong must be named with the text given; the others get
// their copies.
func send(t *testing.T, dir string, hosts []*host, o SendOptions, wrong map[int]string) {
	t.Helper()
	res, err := Send(t.Context(), dir, addresses(hosts), &Board{}, o)
	if err == nil {
		t.Fatal("every host has its copy")
	}
	want := fingerprint(t, dir)
	for i, h := range hosts {
		text, bad := wrong[i]
		s := res.Hosts[i]
		switch {
		case bad:
			if s.State != Failed || !strings.Contains(s.Reason, text) || !strings.Contains(err.Error(), h.addr+": ") {
				t.Errorf("host %d: %+v, want it named with %q; the error is: %v", i, s, text, err)
			}
		case s.State != Done:
			t.Errorf("host %d: %+v", i, s)
		default:
			if err := h.await(t); err != nil {
				t.Error(err)
			}
			if fingerprint(t, h.dir) != want {
				t.Errorf("the copy of host %d differs", i)
			}
		}
	}
}

func three(t *testing.T) []*host {
	var hosts []*host
	for range 3 {
		hosts = append(hosts, receive(t, filepath.Join(t.TempDir(), "copy"), testToken))
	}
	return hosts
}

func TestCopyRefused(t *testing.T) {
	dir := source(t, 8<<20)
	t.Run("wrong token", func(t *testing.T) {
		hosts := three(t)
		hosts[1] = receive(t, filepath.Join(t.TempDir(), "copy"), "another token that is long")
		send(t, dir, hosts, options(5*time.Second), map[int]string{1: "wrong token"})
		if said := hosts[1].said(); !strings.Contains(said, "wrong token") {
			t.Errorf("the receiver says %q", said)
		}
	})
	t.Run("no TLS", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "220 mail.example.com ESMTP\r\n")
				c.Close()
			}
		}()
		hosts := three(t)
		hosts[0] = &host{addr: l.Addr().String()}
		c, err := net.Dial("tcp", hosts[2].addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
		if text, _ := io.ReadAll(c); !strings.Contains(string(text), "TLS only") {
			t.Errorf("a client without TLS is told %q", text)
		}
		send(t, dir, hosts, options(5*time.Second), map[int]string{0: "it doesn't answer with TLS"})
		if said := hosts[2].said(); !strings.Contains(said, "it doesn't speak TLS") {
			t.Errorf("the receiver says %q", said)
		}
	})
	t.Run("somebody in between", func(t *testing.T) {
		hosts := three(t)
		hosts[2] = &host{addr: between(t, hosts[2].addr)}
		send(t, dir, hosts, options(5*time.Second), map[int]string{2: "wrong token"})
	})
	t.Run("not empty", func(t *testing.T) {
		busy := t.TempDir()
		if err := os.WriteFile(filepath.Join(busy, "ibdata1"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		h := receive(t, busy, testToken)
		if err := h.await(t); err == nil || !strings.Contains(err.Error(), "it has ibdata1; empty it") {
			t.Error(err)
		}
		first := receive(t, filepath.Join(t.TempDir(), "copy"), testToken)
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(first.dir); err == nil {
				break
			}
		}
		time.Sleep(20 * time.Millisecond) // it locks the directory that it has made
		if err := receive(t, first.dir, testToken).await(t); err == nil || !strings.Contains(err.Error(), "another rowmill copy receive") {
			t.Error(err)
		}
	})
	t.Run("symbolic link", func(t *testing.T) {
		linked := source(t, 1)
		if err := os.Symlink("/etc", filepath.Join(linked, "outside")); err != nil {
			t.Fatal(err)
		}
		if _, err := Scan(linked, nil); err == nil || !strings.Contains(err.Error(), "outside is a symbolic link, to /etc") {
			t.Error(err)
		}
	})
}

// between ends TLS for both sides and passes everything on.
func between(t *testing.T, to string) string {
	cert, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				d, err := tls.Dial("tcp", to, &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					c.Close()
					return
				}
				all.Go(func() { _, _ = io.Copy(c, d); c.Close() })
				_, _ = io.Copy(d, c)
				d.Close()
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// TestCopyHostile: a sender with the token can't write outside of the directory.
func TestCopyHostile(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, stateName), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	h := receive(t, dir, testToken)
	for _, path := range []string{"../climbed", "/climbed", "a/../../climbed", "a/./b", "", ".", stateName, "link/climbed", "a\x00b"} {
		w, err := dial(t.Context(), h.addr, testToken)
		if err != nil {
			t.Fatal(err)
		}
		err = w.sendJSON(frameHello, hello{Version: protocol, Host: "me", Run: path, Options: Options{Patience: time.Second},
			Entries: []entry{{Path: "ok", Mode: 0o600}, {Path: path, Mode: 0o600, Size: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			kind, _, err := w.receive(nil)
			if err != nil {
				if _, ok := errors.AsType[*refusal](err); !ok {
					t.Errorf("%q: %v", path, err)
				}
				break
			}
			if kind == frameAnswer {
				t.Errorf("%q is accepted", path)
				break
			}
		}
		w.Close()
		if strings.HasPrefix(path, "link") { // an error of its disk
			break
		}
	}
	left, err := os.ReadDir(outside)
	if _, climbed := os.Stat(filepath.Join(filepath.Dir(dir), "climbed")); err != nil || len(left) > 0 || climbed == nil {
		t.Errorf("a path has climbed out: %v, %v, %v", left, climbed, err)
	}
}

func TestCopyFullDisk(t *testing.T) {
	dir := source(t, 30<<20)
	t.Run("at once", func(t *testing.T) {
		hosts := three(t)
		hosts[1] = receive(t, filepath.Join(testdb.SmallDisk(t, 8<<20), "copy"), testToken)
		send(t, dir, hosts, options(5*time.Second), map[int]string{1: "its disk is too full: 8 MiB are free"})
		if err := hosts[1].await(t); err == nil {
			t.Error("the receiver ends without an error")
		}
	})
	t.Run("later", func(t *testing.T) {
		disk := testdb.SmallDisk(t, 48<<20)
		hosts := three(t)
		hosts[1] = receive(t, filepath.Join(disk, "copy"), testToken)
		o := options(5 * time.Second)
		o.Limit = 40 << 20
		go func() {
			for hosts[1].board.get(hosts[1].addr).Bytes == 0 {
				time.Sleep(time.Millisecond)
			}
			_ = os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 40<<20), 0o600) // as much as fits
		}()
		send(t, dir, hosts, o, map[int]string{1: "no space left on device"})
	})
}

// TestCopyStopped: a receiver that is stopped in the middle is left out.
func TestCopyStopped(t *testing.T) {
	dir := source(t, 30<<20)
	hosts := three(t)
	addr := freeAddress(t)
	p := start(t, "receive", filepath.Join(t.TempDir(), "copy"), addr)
	hosts[1] = &host{addr: addr}
	o := options(3 * time.Second)
	o.Limit = 40 << 20
	go func() {
		for hosts[2].board.get(hosts[2].addr).Bytes == 0 {
			time.Sleep(time.Millisecond)
		}
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	}()
	send(t, dir, hosts, o, map[int]string{1: "it has acknowledged nothing for 3s"})
}

// TestCopyContinues: what an earlier run has left is used if it is right, and a copy of something
// else is refused.
func TestCopyContinues(t *testing.T) {
	dir := source(t, 30<<20)
	copied := filepath.Join(t.TempDir(), "copy")
	h := receive(t, copied, testToken)
	o := options(2 * time.Second)
	o.Limit = 20 << 20
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for h.board.get(h.addr).Bytes < 4*chunkSize {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	if _, err := Send(ctx, dir, []string{h.addr}, &Board{}, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	h.stop()
	_ = h.await(t)
	// The file of the first chunks is damaged in the third.
	f, err := os.OpenFile(filepath.Join(copied, "ibdata1"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), 3*chunkSize-100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	// A file is too long, and one is there that the source hasn't.
	if err := errors.Join(os.WriteFile(filepath.Join(copied, "z"), make([]byte, 100), 0o600), os.WriteFile(filepath.Join(copied, "metrics", "more"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	o.Limit = 0
	h = receive(t, copied, testToken)
	if _, err := Send(t.Context(), source(t, 1), []string{h.addr}, &Board{}, o); err == nil || !strings.Contains(err.Error(), "it has .rowmill-copy, ibdata1, metrics, mysql, nothing, 1 more; empty the directory, and remove also .rowmill-copy") {
		t.Error(err)
	}
	if _, err := Send(t.Context(), dir, []string{h.addr}, &Board{}, o); err == nil || !strings.Contains(err.Error(), `"metrics/more" in its directory is no part of the copy`) {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(copied, "metrics", "more")); err != nil {
		t.Fatal(err)
	}
	if _, err := Send(t.Context(), dir, []string{h.addr}, &Board{}, o); err != nil {
		t.Fatal(err)
	}
	if err := h.await(t); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("continues at %d", 2*chunkSize); !strings.Contains(h.said(), want) {
		t.Errorf("the receiver says %q, want %q", h.said(), want)
	}
	if fingerprint(t, copied) != fingerprint(t, dir) {
		t.Error("the copy differs")
	}
}

func TestReadToken(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"good":     {"0123456789abcdef\n", 0o600, ""},
		"readable": {"0123456789abcdef\n", 0o640, "other users can read it"},
		"short":    {"0123456789abcde\n", 0o600, "has 15 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			token, err := ReadToken(path)
			switch {
			case c.says == "" && (err != nil || token != "0123456789abcdef"):
				t.Errorf("%q, %v", token, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}
