package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
)

// copied sends a source to a receiver for each directory, by command lines in this process, and
// returns what send has said.
func copied(t *testing.T, source string, dirs []string, replicaOf string, flags ...string) session {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("0123456789abcdef"), 0o600))
	args := append([]string{"copy", "send", source}, flags...)
	ended := make(chan session)
	for _, dir := range dirs {
		addr := freePort(t)
		go func() {
			ended <- rowmill(t.Context(), "copy", "receive", dir, "--listen", addr, "--token-file", token, "--replica-of", replicaOf)
		}()
		args = append(args, addr)
	}
	s := rowmill(t.Context(), append(args, "--token-file", token)...)
	for range dirs {
		if r := <-ended; r.code != exitDone {
			t.Errorf("receive: exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	return s
}

// TestCopySQLite copies a file that is in use, and says what would be copied before.
func TestCopySQLite(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	db := openKeeper(t, "sqlite:live.db")
	execSQL(t, db, "CREATE TABLE t (a INTEGER)")
	execSQL(t, db, "INSERT INTO t VALUES (1), (2)")
	s := copied(t, "sqlite:live.db", nil, "", "--dry-run", "127.0.0.1:1")
	if s.code != exitFailed {
		t.Errorf("exit %d", s.code)
	}
	contains(t, s.stdout, "sqlite:live.db: a backup is made first, in "+filepath.Join(dir, ".rowmill", "copy-"), "127.0.0.1:1  -  dial tcp")
	if s := copied(t, "sqlite:absent.db", nil, "", "--dry-run", "127.0.0.1:1"); s.code != exitFailed || !strings.Contains(s.stderr, "there is no such file") {
		t.Errorf("a file that isn't there: exit %d\n%s", s.code, s.stderr)
	}
	// What a user has in the directory of the backup stays, and a backup of another source isn't sent.
	must(t, os.MkdirAll("stage/data", 0o700))
	must(t, os.WriteFile("stage/data/mine", nil, 0o600))
	other := openKeeper(t, "sqlite:other.db")
	execSQL(t, other, "CREATE TABLE other (a INTEGER)")
	if s := copied(t, "sqlite:other.db", nil, "", "--stage", "stage", "127.0.0.1:1", "--patience", "1s"); s.code != exitFailed || !strings.Contains(s.stderr, "the backup stays in "+filepath.Join(dir, "stage", "copy-")) {
		t.Errorf("exit %d\n%s", s.code, s.stderr)
	}
	if s := copied(t, "sqlite:live.db", []string{"staged"}, "", "--stage", "stage"); s.code != exitDone || strings.Contains(s.stderr, "earlier run") {
		t.Errorf("exit %d\n%s", s.code, s.stderr)
	}
	_, err := os.Stat("stage/data/mine")
	must(t, err)
	// A backup that no host has got is sent by the next run.
	s = copied(t, "sqlite:live.db", nil, "", "127.0.0.1:1", "--patience", "1s")
	if s.code != exitFailed {
		t.Errorf("exit %d", s.code)
	}
	contains(t, s.stdout, "127.0.0.1:1  failed  0 B")
	contains(t, s.stderr, "1 host has no copy: 127.0.0.1:1: dial tcp")
	execSQL(t, db, "INSERT INTO t VALUES (3)")
	s = copied(t, "sqlite:live.db", []string{"one", "two"}, "", "--zstd")
	contains(t, s.stderr, "that an earlier run has left in")
	if s.code != exitDone {
		t.Fatalf("exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	contains(t, s.stdout, "1 file, ", "BLAKE3 ")
	for _, name := range []string{"one", "two"} {
		var rows int
		must(t, openKeeper(t, "sqlite:"+filepath.Join(name, "live.db")).SQL().QueryRow("SELECT count(*) FROM t").Scan(&rows))
		if rows != 2 {
			t.Errorf("%d rows in %s", rows, name)
		}
	}
	if left, _ := filepath.Glob(".rowmill/*"); len(left) > 0 {
		t.Errorf("the backup is left: %v", left)
	}
}

// TestCopyReplica copies a server, running and stopped; each copy is started as a replica, and
// catches up.
func TestCopyReplica(t *testing.T) {
	for _, c := range []struct {
		name, server string
		stopped      bool
	}{
		{"postgres", "postgres?port=auto&set=max_wal_senders=4,wal_level=replica", false},
		{"postgres stopped", "postgres?port=auto&set=max_wal_senders=4,wal_level=replica", true},
		{"mariadb", "mariadb?port=auto&set=log_bin=binlog,server_id=1", false},
		{"mariadb stopped", "mariadb?port=auto&set=log_bin=binlog,server_id=1", true},
		{"mysql stopped", "mysql?port=auto&set=log_bin=binlog,server_id=1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "postgres" {
				testdb.SkipUnlessNightly(t, "TestCopyReplica/postgres")
			}
			t.Chdir(t.TempDir())
			source, server := testdb.OpenOwn(t, c.server)
			db := source.(engine.Keeper)
			execSQL(t, db, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
			execSQL(t, db, "INSERT INTO t VALUES (1), (2)")
			from := regexp.MustCompile(`/[a-z0-9_]+\?`).ReplaceAllString(server.Target(), "/?") // the whole server: no database is named
			cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", server.Process()))
			must(t, err)
			program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", server.Process()))
			must(t, err)
			if c.stopped {
				s := copied(t, server.DataDir, nil, "", "127.0.0.1:1")
				if s.code != exitFailed {
					t.Errorf("a running server's directory is copied: exit %d", s.code)
				}
				contains(t, s.stderr, "a server uses it", "Try: stop the server")
				server.Halt(t.Context())
				from = server.DataDir
			}
			home := t.TempDir()
			must(t, os.Mkdir(filepath.Join(home, "tmp"), 0o700))
			of := fmt.Sprintf("%s://%s@127.0.0.1:%d/", server.Kind, server.User, server.Port)
			s := copied(t, from, []string{filepath.Join(home, "data")}, of)
			if s.code != exitDone {
				t.Fatalf("exit %d\n%s%s", s.code, s.stdout, s.stderr)
			}
			lastByte := time.Now()
			if c.stopped {
				must(t, server.Restart(t.Context()))
			}
			execSQL(t, db, "INSERT INTO t VALUES (3)")
			args := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(cmdline), server.Dir, home), "\x00"), "\x00")
			password := strings.TrimSpace(string(readFile(t, server.PasswordFile)))
			must(t, os.WriteFile(filepath.Join(home, "pgpass"), []byte("*:*:*:*:"+password), 0o600))
			replica := startCopy(t, program, args[1:], home, server.Kind, server.Socket)
			if script := filepath.Join(home, "data", "rowmill-replica.sql"); server.Kind != "postgres" {
				for statement := range strings.SplitSeq(strings.ReplaceAll(string(readFile(t, script)), "'PASSWORD'", "'"+password+"'"), ";\n") {
					if strings.TrimSpace(statement) != "" {
						execSQL(t, replica, strings.Replace(statement, "-- ", "# ", 1))
					}
				}
			}
			for rows, deadline := 0, time.Now().Add(60*time.Second); rows < 3; time.Sleep(20 * time.Millisecond) {
				must(t, replica.SQL().QueryRow("SELECT count(*) FROM t").Scan(&rows))
				if time.Now().After(deadline) {
					t.Fatalf("the replica has %d rows\n%s", rows, readFile(t, filepath.Join(home, "log.err")))
				}
			}
			t.Logf("caught up %v after the last byte, with the start of the server", time.Since(lastByte).Round(time.Millisecond))
		})
	}
}

// startCopy starts a server on a copy, with the command line of its source in another directory,
// and returns a connection.
func startCopy(t *testing.T, program string, args []string, home, kind, socket string) engine.Keeper {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{}
	c.Env = append(os.Environ(), "PGPASSFILE="+filepath.Join(home, "pgpass"))
	socket = filepath.Join(home, filepath.Base(socket))
	at := kind + "://root@localhost/rowmill?socket=" + socket
	if kind == "postgres" {
		for i, a := range c.Args {
			if strings.HasPrefix(a, "listen_addresses=") {
				c.Args[i] = "listen_addresses="
			}
			if strings.HasPrefix(a, "unix_socket_directories=") {
				c.Args[i] = "unix_socket_directories=" + home
			}
			if port, ok := strings.CutPrefix(a, "port="); ok {
				at = "postgres://root@localhost/rowmill?host=" + home + "&port=" + port
			}
		}
		if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
			account, err := user.Lookup("postgres")
			must(t, err)
			must(t, exec.Command("chown", "-R", "postgres", home).Run())
			uid, err := strconv.ParseUint(account.Uid, 10, 32)
			must(t, err)
			c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
			c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_DAC_OVERRIDE}
			c.Dir = "/"
		}
	} else {
		// MySQL cuts the value of an option in place, at its comma.
		c.Args = slices.DeleteFunc(c.Args, func(a string) bool { return a != program && !strings.HasPrefix(a, "-") })
		c.Args = append(c.Args, "--server-id=77", "--skip-networking", "--log-error="+filepath.Join(home, "log.err"), "--socket="+socket)
	}
	log, err := os.Create(filepath.Join(home, "log.err"))
	must(t, err)
	c.Stdout, c.Stderr = log, log
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGQUIT)
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = log.Close()
	})
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		opened, err := target.Open(context.Background(), at, func(string) {})
		if err == nil {
			t.Cleanup(func() { _ = opened.Close() })
			return opened.DB.(engine.Keeper)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v\n%s\n%s", err, strings.Join(c.Args, " "), readFile(t, filepath.Join(home, "log.err")))
		}
	}
}
