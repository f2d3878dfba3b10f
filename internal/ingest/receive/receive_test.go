package receive

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rowmill/rowmill/internal/ingest"
)

// TestPanic: a panic while a request is taken is logged with its stack and answered, and the next
// request is taken.
func TestPanic(t *testing.T) {
	var log strings.Builder
	s := New(Options{Tables: map[string]*ingest.Inbox{"t": nil}, Say: func(text string) { log.WriteString(text) }})
	s.o.Tables["t"] = &ingest.Inbox{} // one that was not opened
	for range 2 * DefaultRequests {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/write/t?format=json", strings.NewReader(`{"metrics":[]}`)))
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "an error of rowmill") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if text := log.String(); !strings.Contains(text, `POST "/write/t": panic:`) || !strings.Contains(text, "receive.go:") {
		t.Errorf("the log has %q", text)
	}
}

// TestConnections: connections beyond the limit are closed, and others are taken once there is
// room.
func TestConnections(t *testing.T) {
	s := New(Options{Connections: 2})
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnState = s.Connection
	server.Start()
	defer server.Close()
	ping := func() (net.Conn, bool) {
		t.Helper()
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n") // it may be closed already
		n, err := c.Read(make([]byte, 100))
		return c, err == nil && n > 0
	}
	var open []net.Conn
	for i := range 3 {
		c, answered := ping()
		defer c.Close()
		if open = append(open, c); answered != (i < 2) {
			t.Errorf("connection %d is answered: %v", i+1, answered)
		}
	}
	_ = open[0].Close()
	for range 1000 {
		if c, answered := ping(); answered {
			_ = c.Close()
			return
		}
	}
	t.Error("there is no room after a connection was closed")
}

// TestMemory: what requests take is limited, with the windows of decompressors and the copies of
// rows, and is free again afterwards.
func TestMemory(t *testing.T) {
	s := New(Options{Body: 1 << 10})
	body := func(encoding string, in io.Reader) (func(), error) {
		r := httptest.NewRequest("POST", "/write/t", in)
		r.Header.Set("Content-Encoding", encoding)
		_, release, err := s.body(httptest.NewRecorder(), r)
		return release, err
	}
	// Bodies that don't arrive hold the windows of their decompressors.
	var all sync.WaitGroup
	writers := make([]*io.PipeWriter, 0, 64)
	full := false
	for range cap(writers) {
		if !s.bytes.TryAcquire(zstdWindow) {
			full = true
			break
		}
		s.bytes.Release(zstdWindow)
		r, w := io.Pipe()
		writers = append(writers, w)
		all.Go(func() {
			release, _ := body("zstd", r)
			release()
		})
		_, _ = w.Write([]byte("\x28\xb5\x2f\xfd")) // returns once it is read, with the window reserved
	}
	if !full {
		t.Errorf("%d requests hold %d MiB of %d", len(writers), len(writers)*zstdWindow>>20, s.memory>>20)
	}
	for _, w := range writers {
		_ = w.Close()
	}
	all.Wait()
	if !s.bytes.TryAcquire(s.memory) {
		t.Error("memory is still reserved")
	}
}
