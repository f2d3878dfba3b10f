package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// tolerance is the accuracy that a delay is promised to have.
const tolerance = 10 * time.Millisecond

// A longLine delays what a source sends to its replica, like a long network.
type longLine struct {
	listener net.Listener
	server   string
	delay    atomic.Int64
}

func newLongLine(t *testing.T, port int) *longLine {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &longLine{listener: listener, server: fmt.Sprintf("127.0.0.1:%d", port)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.accept(t.Context())
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return l
}

func (l *longLine) port() int { return l.listener.Addr().(*net.TCPAddr).Port }

func (l *longLine) accept(ctx context.Context) {
	for {
		replica, err := l.listener.Accept()
		if err != nil {
			return
		}
		source, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = replica.Close()
			continue
		}
		context.AfterFunc(ctx, func() { _, _ = replica.Close(), source.Close() })
		go func() { _, _ = io.Copy(source, replica); _ = source.Close() }()
		go l.forward(replica, source)
	}
}

func (l *longLine) forward(replica, source net.Conn) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 10_000)
	go func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := replica.Write(p.data); err != nil {
				break
			}
		}
		_ = replica.Close()
		for range pieces { // the other side ends as well
		}
	}()
	defer close(pieces)
	for {
		data := make([]byte, 1<<16)
		n, err := source.Read(data)
		if err != nil {
			return
		}
		pieces <- piece{time.Now().Add(time.Duration(l.delay.Load())), data[:n]}
	}
}

// delayed returns a function that sets the delay of a server's replica from now on.
func delayed(t *testing.T, server *testdb.Own) func(time.Duration) {
	t.Helper()
	replica := server.Nodes[0]
	run := func(statements ...string) {
		t.Helper()
		if err := replica.Execute(t.Context(), statements...); err != nil {
			t.Fatal(err)
		}
	}
	if server.Kind == "postgres" {
		return func(d time.Duration) {
			run(fmt.Sprintf("ALTER SYSTEM SET recovery_min_apply_delay = '%dms'", d.Milliseconds()))
			run("SELECT 'reloaded', pg_reload_conf()::text")
		}
	}
	l := newLongLine(t, server.Port)
	run("STOP SLAVE", fmt.Sprintf("CHANGE MASTER TO MASTER_PORT = %d", l.port()), "START SLAVE")
	return func(d time.Duration) { l.delay.Store(int64(d)) }
}

// opened returns the function that returns an open replica.
func opened(db engine.DB) func(context.Context) (engine.Keeper, error) {
	return func(context.Context) (engine.Keeper, error) { return db.(engine.Keeper), nil }
}

// watched opens a server with one replica, and measures its delay.
func watched(t *testing.T, kind string) (*Probe, *testdb.Own) {
	t.Helper()
	db, server := testdb.OpenOwn(t, kind+"?replicas=1&durability=full")
	at, err := engine.ParseTarget(server.Nodes[0].Target())
	if err != nil {
		t.Fatal(err)
	}
	p := New(t.Context(), Config{})
	t.Cleanup(func() { _ = p.Close() })
	if err := p.WatchReplicas(t.Context(), db.(engine.Keeper), []Replica{{"replica 1", opened(testdb.OpenAt(t, at))}}); err != nil {
		t.Fatal(err)
	}
	return p, server
}

// typical returns the median of the delays of some beats that were written after the injection.
func typical(t *testing.T, p *Probe, injected time.Duration) time.Duration {
	t.Helper()
	var all []time.Duration
	for since := time.Now(); len(all) < 15; {
		if time.Since(since) > patience+injected {
			t.Fatalf("injected %v, measured %v", injected, all)
		}
		time.Sleep(Fine.Beat)
		mean, ok := p.Sample(t.Context(), 0)[result.FigureDelay]
		if ok && time.Since(since) > injected+4*Fine.Beat {
			all = append(all, time.Duration(mean*float64(time.Second)))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Delays that a line between source and replica, or the replica, has are measured to 10 ms; a clock
// that is an hour off changes nothing.
func TestInjectedDelays(t *testing.T) {
	kinds, delays := []string{"mariadb"}, []time.Duration{0, 100 * time.Millisecond}
	if testdb.Nightly() {
		kinds, delays = []string{"mariadb", "mysql", "postgres"}, append(delays, time.Second, 10*time.Second)
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			p, server := watched(t, kind)
			if testdb.Nightly() {
				anHourOff(t, server.Nodes[0])
			}
			inject := delayed(t, server)
			for _, d := range delays {
				inject(d)
				got := typical(t, p, d)
				if got < d-tolerance || got > d+tolerance {
					t.Errorf("injected %v, measured %v", d, got)
				}
				t.Logf("injected %v, measured %v", d, got)
			}
			inject(0)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if w := strings.Join(p.Warnings(), "\n"); strings.Contains(w, "left in the database") {
				t.Error(w)
			}
			if err := server.Execute(t.Context(), "SELECT 'left', tick FROM "+Heartbeat); err == nil {
				t.Error("the table is left on the source")
			}
		})
	}
}

// anHourOff starts a server again with a clock that is an hour ahead. PostgreSQL delays by the
// clock, so there it is the same one.
func anHourOff(t *testing.T, s *testdb.Own) {
	t.Helper()
	const library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
	if _, err := os.Stat(library); err != nil || s.Kind == "postgres" {
		t.Logf("with the right clock: %v", err)
		return
	}
	t.Setenv("LD_PRELOAD", library)
	t.Setenv("FAKETIME", "+1h")
	t.Setenv("DONT_FAKE_MONOTONIC", "1")
	s.Kill()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Unsetenv("LD_PRELOAD"); err != nil { // t.Setenv restores it
		t.Fatal(err)
	}
	if err := s.Execute(t.Context(), fmt.Sprintf("DO IF(UNIX_TIMESTAMP() > %d, 1, (SELECT 1 UNION SELECT 2))", time.Now().Unix()+3000)); err != nil {
		t.Errorf("the clock is not an hour ahead: %v", err)
	}
}

// A replica that doesn't answer, or repeats nothing, has a delay that grows, and one that comes
// back has none.
func TestReplicaStops(t *testing.T) {
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			p, server := watched(t, kind)
			if took, err := p.CatchUp(t.Context()); err != nil || took < 0 {
				t.Fatal(took, err)
			}
			server.Nodes[0].Kill()
			grew := func(least float64) {
				t.Helper()
				until(t, p, func() { time.Sleep(Fine.Beat) }, func(f figures) bool { return f[result.FigureDelayWorst] > least })
			}
			grew(0.5)
			grew(1)
			if why := p.delays.Exceeded(time.Second); !strings.HasPrefix(why, "replica 1 is more than 1s behind: it shows nothing that was committed after ") || p.delays.Now()[0].Err == nil {
				t.Errorf("%q, %+v", why, p.delays.Now())
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*Fine.Beat)
			defer cancel()
			if _, err := p.CatchUp(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if err := server.Nodes[0].Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, p, func() { time.Sleep(Fine.Beat) }, func(f figures) bool { return f[result.FigureDelayWorst] < 0.5 })
			if why := p.delays.Exceeded(500 * time.Millisecond); why != "" {
				t.Error(why)
			}
			if w := strings.Join(p.Warnings(), "\n"); !strings.Contains(w, "the heartbeat of replica 1 failed") {
				t.Error(w)
			}
			// One whose replication ends with an error is named with it.
			stop, want := []string{"SET GLOBAL read_only = OFF", "DROP TABLE rowmill." + Heartbeat}, "its SQL thread has stopped: "
			if kind == "postgres" {
				stop, want = []string{"SELECT pg_wal_replay_pause()"}, "its replay is paused"
			}
			for _, q := range stop {
				if err := server.Nodes[0].Execute(t.Context(), q); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := p.CatchUp(t.Context()); err == nil || !strings.Contains(err.Error(), "replica 1 is") || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if why := p.delays.Exceeded(time.Second); !strings.Contains(why, want) {
				t.Errorf("%q, want %q", why, want)
			}
		})
	}
}

// A replica without progress is named with the reason.
func TestStanding(t *testing.T) {
	for _, test := range []struct {
		halted, failed error
		want           string
	}{
		{errors.New("its SQL thread has stopped: disk full"), nil, "replica 2 is 12 s behind the source, and has made no progress for 30 s; its SQL thread has stopped: disk full"},
		{nil, nil, "replica 2 is 12 s behind the source, and has made no progress for 30 s; it answers, and repeats no changes: is its replication stopped?"},
		{nil, engine.ErrUnreachable, "replica 2 is 12 s behind the source, and has made no progress for 30 s; it doesn't answer: " + engine.ErrUnreachable.Error()},
	} {
		if got := standing("replica 2", 12*time.Second, standstill, test.halted, test.failed).Error(); got != test.want {
			t.Error(got)
		}
	}
}

// While no beat can be written, all replicas count as behind. Two processes that measure have a row
// each, and find their table again after somebody has dropped it.
func TestDelaysApart(t *testing.T) {
	own, _ := testdb.OpenOwn(t, "mariadb")
	db := own.(engine.Keeper)
	var all []*Delays
	for range 2 { // the source as its own replica shows each beat at once
		d, err := NewDelays(t.Context(), db, []Replica{{"itself", opened(db)}}, Pace{Beat: 20 * time.Millisecond, Poll: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	await := func(d *Delays, behind bool) {
		t.Helper()
		for end := time.Now().Add(patience); (d.Exceeded(400*time.Millisecond) != "") != behind; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("want behind %t: %+v", behind, d.Now())
			}
		}
	}
	run := func(query string) {
		t.Helper()
		if _, err := db.SQL().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	await(all[0], false)
	await(all[1], false)
	if err := all[0].Close(); err != nil {
		t.Error(err)
	}
	run("DROP TABLE " + Heartbeat)
	run("CREATE VIEW " + Heartbeat + " AS SELECT 1 AS run, 2 AS tick FROM (SELECT 1) x")
	await(all[1], true)
	if now := all[1].Now(); now[0].Err == nil {
		t.Errorf("%+v", now)
	}
	run("DROP VIEW " + Heartbeat)
	await(all[1], false)
	if err := all[1].Close(); err != nil {
		t.Error(err)
	}
	run("CREATE TABLE " + Heartbeat + " (gone INT)") // was removed with its last row
}
