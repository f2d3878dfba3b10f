package postgres_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestLeadOfHungServer checks that a leader without answers to its pings gives
// up before the server could grant the lock to another process.
func TestLeadOfHungServer(t *testing.T) {
	t.Parallel()
	db := open(t)
	l, err := db.Lead(within(t), "readings")
	must(t, err)
	pid, err := strconv.Atoi(value(t, db, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
	must(t, err)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Skipf("the server is somebody else's: %v", err)
	}
	defer func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		// The backend must be gone before the database is dropped.
		for value(t, db, "SELECT count(*) FROM pg_stat_activity WHERE pid = "+strconv.Itoa(pid)) != "0" {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	began := time.Now()
	select {
	case <-l.Lost():
		t.Logf("lost %v after the server's process stopped", time.Since(began))
	case <-time.After(8 * time.Second):
		t.Error("not lost")
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
