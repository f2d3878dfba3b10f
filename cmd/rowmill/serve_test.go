package main

import (
	"context"
	"database/sql"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"serve --target sqlite:x.db", "--mysql is missing"},
		{"serve --mysql :4406", "--target is missing"},
		{"serve --mysql 4406x --target sqlite:x.db", `"4406x": want HOST:PORT`},
		{"serve --mysql :0 --target sqlite:x.db --tls-cert a.pem", "belong together"},
		{"serve --mysql :0 --target sqlite:x.db --max-connections -1", "want 0 or more"},
		{"serve --mysql :0 --target sqlite:x.db --memory 5", "--memory"},
		{"serve --mysql :0 --target sqlite:x.db --metrics nowhere", "--metrics"},
		{"serve --mysql :0 --target null:", "doesn't speak the MySQL protocol"},
	} {
		s := verb(t, test.args)
		if s.code != exitUsage || !strings.Contains(s.stderr, test.want) {
			t.Errorf("%s: exit code %d, %s", test.args, s.code, s.stderr)
		}
	}
}

// TestServe runs the command until it is interrupted.
func TestServe(t *testing.T) {
	t.Parallel()
	kind := testdb.Kinds(t, "mariadb", "mysql")[0]
	at := testdb.Target(t, kind)
	address, stop := startServe(t, at.String())
	db, err := sql.Open("mysql", "root@tcp("+address+")/"+at.Path)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := db.QueryRow("SELECT 40 + ?", 2).Scan(&n); err != nil || n != 42 {
		t.Errorf("%d, %v", n, err)
	}
	db.Close()
	if log := stop(); !strings.Contains(log, "ended cleanly") {
		t.Error(log)
	}
}

// TestServeExposesLocalAccounts warns if user@localhost is anybody's who reaches the address of
// serve.
func TestServeExposesLocalAccounts(t *testing.T) {
	for _, c := range []struct {
		listen, network, address string
		warns                    bool
	}{
		{"0.0.0.0:4406", "unix", "/run/mysqld/mysqld.sock", true}, {"192.0.2.1:4406", "tcp", "127.0.0.1:3306", true}, {"[::]:4406", "tcp", "localhost:3306", true},
		{"127.0.0.1:4406", "unix", "/run/mysqld/mysqld.sock", false}, {"0.0.0.0:4406", "tcp", "db1:3306", false},
	} {
		if got := exposed(c.listen, engine.Wire{Network: c.network, Address: c.address}); (got != "") != c.warns || c.warns && !strings.Contains(got, "root@localhost") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// startServe runs the command in front of a server. stop ends it and returns what it has logged.
func startServe(t *testing.T, at string) (address string, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	var log strings.Builder
	var all sync.WaitGroup
	lines := make(chan string, 100)
	all.Go(func() {
		defer close(lines)
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			log.Write(buf[:n])
			lines <- string(buf[:n])
			if err != nil {
				return
			}
		}
	})
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"serve", "--mysql", ":0", "--metrics", "127.0.0.1:0", "--target", at}, strings.NewReader(""), io.Discard, w)
		w.Close()
	}()
	for line := range lines {
		if m := regexp.MustCompile(`at (127\.0\.0\.1:\d+): this machine only`).FindStringSubmatch(line); m != nil {
			address = m[1]
			break
		}
	}
	if address == "" {
		t.Fatalf("no address in %s", log.String())
	}
	return address, func() string {
		t.Helper()
		cancel()
		go func() {
			for range lines {
			}
		}()
		select {
		case c := <-code:
			if c != exitDone {
				t.Errorf("exit code %d", c)
			}
		case <-time.After(time.Minute):
			t.Fatal("the command goes on")
		}
		all.Wait()
		return log.String()
	}
}
