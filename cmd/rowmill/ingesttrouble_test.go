package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

// A cuttable is the socket of a server that can be cut off from its clients, or hang.
type cuttable struct {
	path, server string
	*testdb.Relay
	hangs atomic.Bool
}

// newCuttable returns the URL of the shared MariaDB through such a socket.
func newCuttable(t *testing.T) (*cuttable, string) {
	t.Helper()
	target := testdb.Target(t, "mariadb")
	dir, err := os.MkdirTemp("", "relay") // the path of a socket must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cuttable{path: filepath.Join(dir, "s"), server: target.Query.Get("socket")}
	c.joins(t)
	target.Query.Set("socket", c.path)
	return c, target.String()
}

func (c *cuttable) joins(t *testing.T) {
	ended := make(chan struct{})
	c.hangs.Store(false)
	c.Relay = testdb.NewRelay(t, c.path, c.server, func(client *net.UnixConn, server io.Reader) {
		p := make([]byte, 64<<10)
		for {
			n, err := server.Read(p)
			if c.hangs.Load() {
				<-ended
			}
			if _, failed := client.Write(p[:n]); failed != nil || err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { close(ended) })
}

// TestIngestEndsWithoutDatabase ends rowmill run while the database can't be reached, or hangs:
// it says within seconds that rows are kept, and the next one loads them.
func TestIngestEndsWithoutDatabase(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		if hangs && !testdb.Nightly() {
			continue // it takes 15 s
		}
		c, url := newCuttable(t)
		l := newLoadingAt(t, "mariadb", url)
		r := receives(l)
		post := func(n int) {
			t.Helper()
			one := call{path: "/write/readings?format=csv", body: fmt.Sprintf("sensor,ts\n%d,%s\n", n, at(n))}
			if status, answer, _, err := one.send(t.Context(), r.url); err != nil || status != http.StatusAccepted {
				t.Fatalf("%d %v %s", status, err, answer)
			}
		}
		post(1)
		l.waits("the row is loaded", func() bool { return len(l.rows()) == 1 })
		if c.hangs.Store(hangs); !hangs {
			c.Cut()
		}
		post(2)
		time.Sleep(300 * time.Millisecond) // it may be at any point of its tries to load the row
		began := time.Now()
		s := r.stop()
		took, most := time.Since(began), 5*time.Second
		if hangs {
			most = 25 * time.Second
		}
		if wantDone(t, s); took > most || !strings.Contains(s.stderr, ": the next rowmill run loads them") {
			t.Errorf("hangs: %v, after %s: %s", hangs, took, s.stderr)
		}
		t.Logf("hangs: %v, after %s", hangs, took)
		c.Cut()
		c.joins(t)
		wantDone(t, receives(l).stop())
		l.db = openKeeper(t, l.target)
		l.hasRows(2)
	}
}

// TestIngestBadRowsFull: rows that the server or the periods refuse are counted once the file of
// bad rows is full, and no longer kept.
func TestIngestBadRowsFull(t *testing.T) {
	onSQLite(t, func(l *loading) {
		must(l, os.MkdirAll(filepath.Join(l.dir, "spool"), 0o700))
		bad := l.write("spool/readings.bad.jsonl", `{"source":"x","load":"k","line":1,"byte":0,"reason":"old"}`+"\n")
		f, err := os.OpenFile(bad, os.O_WRONLY, 0)
		must(l, err)
		const most = 64 << 20
		_, err = f.WriteAt([]byte("\n"), most)
		must(l, err)
		must(l, f.Close())
		r := receives(l)
		one := call{path: "/write/readings?format=csv", body: "sensor,ts\n1,2019-01-01 00:00:00\n2," + at(2) + "\n"}
		if status, answer, _, err := one.send(l.Context(), r.url); err != nil || status != http.StatusAccepted {
			l.Fatalf("%d %v %s", status, err, answer)
		}
		l.waits("the row is counted", func() bool {
			_, text, _ := fetch(r.url + "/metrics")
			return strings.Contains(text, `rowmill_ingest_unkept_rows_total{table="readings"} 1`) && strings.Contains(text, `rejected_rows_total{table="readings"} 1`)
		})
		s := r.stop()
		wantDone(l.T, s)
		if info, err := os.Stat(bad); err != nil || info.Size() != most+1 || !strings.Contains(s.stderr, "are counted and no longer kept, as "+bad+" has 64 MiB: move it away") {
			l.Errorf("%v, %v; %s", info.Size(), err, s.stderr)
		}
		l.hasRows(1)
	})
}

// TestIngestNewColumn adds a column while rowmill run takes rows: the next request may have it.
func TestIngestNewColumn(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, server string) {
		l := newLoading(t, server)
		r := receives(l)
		one := call{path: "/write/readings?format=csv", body: "sensor,ts,extra\n1," + at(1) + ",7\n"}
		post := func() int {
			status, answer, _, err := one.send(t.Context(), r.url)
			if err != nil || status != http.StatusBadRequest && status != http.StatusAccepted {
				t.Errorf("%d %v %s", status, err, answer)
			}
			return status
		}
		if status := post(); status != http.StatusBadRequest {
			t.Errorf("status %d before there is the column", status)
		}
		l.does("ALTER TABLE readings ADD COLUMN extra INT")
		l.waits("the column is noticed", func() bool { return post() == http.StatusAccepted }) // it looks at most once a second
		s := r.stop()
		wantDone(t, s)
		if strings.Contains(s.stderr, "not loaded") {
			t.Error(s.stderr)
		}
		l.has("1 7", "SELECT sensor, extra FROM readings")
	})
}
