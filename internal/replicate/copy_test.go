package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lukechampine.com/blake3"
)

const testToken = "a token of some length"

// source makes a directory of random files with size bytes and a bit, and returns it.
func source(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	for path, n := range map[string]int{
		"ibdata1": size / 2, "metrics/readings.ibd": size / 2, "metrics/empty": 0, "metrics/db.opt": 65,
		"mysql/a/b/c": chunkSize, "mysql/small1": 1, "mysql/small2": 4095, "z": 17,
	} {
		data := make([]byte, n)
		_, _ = random.Read(data)
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "nothing"), 0o750); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fingerprint hashes what a directory holds, apart from rowmill's own code.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	all := blake3.New(32, nil)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		var sum [32]byte
		at := int64(0)
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum, at = blake3.Sum256(data), info.ModTime().UnixNano()
		}
		if name != "." && name != stateName { // a test's own directory
			fmt.Fprintln(all, name, info.Mode(), at, sum)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", all.Sum(nil))
}

// A host is a receiver of a test.
type host struct {
	dir, addr string
	board     *Board
	stop      context.CancelFunc
	done      chan struct{}
	res       Result
	err       error
	mu        sync.Mutex
	log       strings.Builder
}

func (h *host) say(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log.WriteString(line + "\n")
}

func (h *host) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

// receive starts a receiver; its test ends it.
func receive(t testing.TB, dir, token string) *host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{dir: dir, addr: l.Addr().String(), board: &Board{}, done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() {
		defer close(h.done)
		h.res, h.err = Receive(ctx, l, dir, h.board, ReceiveOptions{Token: token, Say: h.say})
	}()
	t.Cleanup(func() { stop(); <-h.done })
	return h
}

// await waits for the end of a receiver.
func (h *host) await(t testing.TB) error {
	t.Helper()
	select {
	case <-h.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s doesn't end; its log:\n%s", h.addr, h.said())
	}
	return h.err
}

func options(patience time.Duration) SendOptions {
	return SendOptions{Options: Options{Patience: patience}, Token: testToken, Say: func(string) {}}
}

func addresses(hosts []*host) (out []string) {
	for _, h := range hosts {
		out = append(out, h.addr)
	}
	return out
}

func TestCopyToThree(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		t.Run(fmt.Sprint("zstd ", compressed), func(t *testing.T) {
			dir := source(t, 20<<20)
			var hosts []*host
			for range 3 {
				hosts = append(hosts, receive(t, filepath.Join(t.TempDir(), "copy"), testToken))
			}
			o := options(10 * time.Second)
			o.Zstd = compressed
			board := &Board{}
			res, err := Send(t.Context(), dir, addresses(hosts), board, o)
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{
				"/":        fmt.Sprintf(`<tr class="done"><td>%s</td><td>done</td>`, hosts[2].addr),
				"/metrics": fmt.Sprintf("\nrowmill_copy_host_state{host=%q,state=\"done\"} 1\n", hosts[2].addr),
			} {
				w := httptest.NewRecorder()
				board.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				if page := w.Body.String(); !strings.Contains(page, text) {
					t.Errorf("%s lacks %q:\n%s", path, text, page)
				}
			}
			want := fingerprint(t, dir)
			for i, h := range hosts {
				if err := h.await(t); err != nil {
					t.Fatal(err)
				}
				if got := fingerprint(t, h.dir); got != want {
					t.Errorf("the copy at %s differs: %s, want %s", h.addr, got, want)
				}
				if h.res.Hash != res.Hash || res.Hosts[i].SentAgain != 0 || res.Hosts[i].Bytes != res.Bytes {
					t.Errorf("the receiver says %+v, the source %+v", h.res, res)
				}
			}
		})
	}
}
