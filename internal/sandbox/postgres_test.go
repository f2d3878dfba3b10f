//go:build linux

package sandbox_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// busyPostgres returns while a connection executes a statement that does not
// check whether its server still runs. It stores nothing, and ends by itself
// after a minute.
func busyPostgres(t *testing.T, i sandbox.Info) {
	t.Helper()
	db, err := connect(t, i)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	conn, err := db.Conn(t.Context())
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "SET statement_timeout = '1min'")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// In FROM, generate_series would write its rows to a temporary file.
		_, _ = conn.ExecContext(context.Background(), "SELECT count(*) FROM (SELECT generate_series(1, 3000000000)) x")
		conn.Close()
	}()
	t.Cleanup(func() { <-done })
	eventually(t, "the statement runs", func() bool {
		return ask(t, i, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()") == "1"
	})
}

// sharedMemory counts the system's shared memory segments that only a server of
// the data directory can have: their key is the directory's inode number.
func sharedMemory(t *testing.T, inode uint64) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == strconv.FormatInt(int64(int32(uint32(inode))), 10) {
			n++
		}
	}
	return n
}

// TestPostgresKill: no process of a server outlives its Kill or its Stop.
func TestPostgresKill(t *testing.T) {
	t.Parallel()
	o := small(t, "postgres")
	s := start(t, o)
	fi, err := os.Stat(s.DataDir)
	must(t, err)
	inode := fi.Sys().(*syscall.Stat_t).Ino
	if sharedMemory(t, inode) != 1 {
		t.Fatal("the server's shared memory is not found")
	}
	if n := len(serversIn(t, s.DataDir)); n < 4 {
		t.Fatalf("%d processes of a server that runs", n)
	}
	busyPostgres(t, s.Info)
	s.Kill()
	if left := serversIn(t, s.DataDir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "postgres server") {
		t.Errorf("Err after Kill: %v", err)
	}
	stop(t, s)
	assertGone(t, o.Root)
	if sharedMemory(t, inode) != 0 {
		t.Error("the server's shared memory is left")
	}

	s = start(t, o)
	busyPostgres(t, s.Info)
	begin := time.Now()
	stop(t, s)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("with a client at work, Stop took %v", took)
	}
	assertGone(t, o.Root)
}
