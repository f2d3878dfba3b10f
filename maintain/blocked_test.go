package maintain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// lockBound is how long Try waits for a lock at most, and with it how long an
// insert may queue behind it; twice that is what a busy test machine gets.
const lockBound = 2 * time.Second

// TestTrapOpenTransaction: a transaction that somebody leaves open over the
// table holds up what needs its lock, and nothing else. No insert waits longer
// than the bound, the periods made ahead carry them, status names who is in the
// way, and all is made good once the transaction ends.
func TestTrapOpenTransaction(t *testing.T) {
	for _, server := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(server, func(t *testing.T) { openTransaction(t, testdb.Open(t, server).(engine.Keeper)) })
	}
}

func openTransaction(t *testing.T, db engine.Keeper) {
	d := declare(t, db, func(d *rolling.Declaration) {
		d.Keep = span(3 * time.Hour)
		d.Ahead = span(6 * time.Hour)
	})
	w := applied(t, db, d, at(0.5))
	var now atomic.Int64
	now.Store(w.now)
	w.Now = Clock(func() time.Time { return rolling.Instant(now.Load()) })
	w.Say = nil
	for hour := range 4 {
		now.Store(at(float64(hour) + 0.5))
		w.keep()
		w.insert(now.Load(), 1, 2, 3)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { (&Daemon{Table: w.Table, Poll: 100 * time.Millisecond, LockPause: 3 * time.Second}).Run(ctx) })

	var longest atomic.Int64
	var inserted, failed atomic.Int64
	all.Go(func() {
		for i := 10; ctx.Err() == nil; i++ {
			began := time.Now()
			q := fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (%d, %s, 1)", i, db.Words().Literal(w.Table.Table, now.Load()))
			if _, err := db.SQL().ExecContext(ctx, q); err != nil && ctx.Err() == nil && !errors.Is(db.Classify(err), engine.ErrLockTimeout) {
				failed.Add(1)
				t.Errorf("insert: %v", err)
			} else {
				inserted.Add(1)
			}
			longest.Store(max(longest.Load(), int64(time.Since(began))))
			_ = engine.Sleep(ctx, 2*time.Millisecond)
		}
	})

	conn, err := db.SQL().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(q string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN")
	exec("SELECT COUNT(*) FROM readings")
	before := w.parts()
	now.Store(at(5.5)) // two periods are to be created, and two dropped

	status := func(ok func(*Status) bool) *Status {
		t.Helper()
		var s *Status
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			var err error
			if s, err = w.Status(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ok(s) {
				return s
			}
		}
		t.Fatalf("after half a minute: problems %+v, blockers %+v, actions %+v", s.Problems, s.Blockers, s.Actions)
		return nil
	}
	s := status(func(s *Status) bool {
		return len(s.Problems) > 0 && s.Problems[0].Code == "blocked" && len(s.Blockers) > 0
	})
	if p := s.Problems[0].Text; !strings.Contains(p, fmt.Sprint(s.Blockers[0].ID)) || !strings.Contains(p, "inserts have periods for") {
		t.Errorf("the problem names neither who is in the way nor what is left: %s", p)
	}
	time.Sleep(5 * time.Second)
	during := w.parts()
	if created := strings.HasSuffix(during, " 11-12"); created != (db.Info().Engine == "postgres") {
		t.Errorf("with the transaction open: before %s, now %s", before, during)
	}
	n := inserted.Load()
	exec("ROLLBACK")
	status(func(s *Status) bool {
		return len(s.Problems) == 0 && strings.HasSuffix(w.parts(), " 11-12") && strings.HasPrefix(w.parts(), "2-3")
	})
	cancel()
	all.Wait()
	wait := time.Duration(longest.Load())
	t.Logf("%d inserts with the transaction open, the longest took %s", n, wait.Round(time.Millisecond))
	if wait > lockBound {
		t.Errorf("an insert waited %s behind maintenance; the bound is %s", wait, lockBound)
	}
	if n < 50 {
		t.Errorf("only %d inserts went through meanwhile", n)
	}
}
