//go:build linux

package sandbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// childVariable makes this test binary a process that owns a server; its value
// is the options, as JSON. With nameVariable it starts a server with that name,
// and ends.
const (
	childVariable = "SANDBOX_TEST_CHILD"
	nameVariable  = "SANDBOX_TEST_NAME"
	// restartVariable makes it kill and restart its server repeatedly.
	restartVariable = "SANDBOX_TEST_RESTART"
)

func TestMain(m *testing.M) {
	if options := os.Getenv(childVariable); options != "" {
		os.Exit(ownServer(options))
	}
	goleak.VerifyTestMain(m)
}

// ownServer starts a server, prints its Info, and stops it at SIGTERM.
func ownServer(options string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o sandbox.Options
	err := json.Unmarshal([]byte(options), &o)
	if name := os.Getenv(nameVariable); name != "" && err == nil {
		var info sandbox.Info
		if info, err = sandbox.StartNamed(ctx, name, o, nil); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(info)
		}
	} else if err == nil {
		var s *sandbox.Server
		if s, err = sandbox.Start(ctx, o, nil); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(s.Info)
			for os.Getenv(restartVariable) != "" && err == nil && ctx.Err() == nil {
				s.Kill()
				err = s.Restart(ctx)
			}
			<-ctx.Done()
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A child is a process of this test binary that owns a server.
type child struct {
	cmd    *exec.Cmd
	stderr *strings.Builder
	out    *bufio.Reader
}

// startChild starts a child; each may change the command before it runs.
func startChild(t *testing.T, o sandbox.Options, each ...func(*exec.Cmd)) *child {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe), stderr: &strings.Builder{}}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(options))
	c.cmd.Stderr = c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	for _, f := range each {
		f(c.cmd)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Kill()
			c.cmd.Wait()
		}
	})
	return c
}

// info waits until the child's server is up.
func (c *child) info(t *testing.T) sandbox.Info {
	t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		if err == io.EOF {
			c.cmd.Wait()
		}
		t.Fatalf("child: %v: %s", err, c.stderr)
	}
	var info sandbox.Info
	if err := json.Unmarshal(line, &info); err != nil {
		t.Fatal(err)
	}
	return info
}

// needServer skips the test if MariaDB is not installed.
func needServer(t *testing.T) {
	t.Helper()
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
}

// small returns options with which a server starts fast, under a root that does
// not exist yet.
func small(t *testing.T) sandbox.Options {
	t.Helper()
	return sandbox.Options{Memory: 16 << 20, Redo: 8 << 20, Root: filepath.Join(t.TempDir(), "root")}
}

// start starts a server that is stopped when the test ends.
func start(t *testing.T, o sandbox.Options) *sandbox.Server {
	t.Helper()
	needServer(t)
	s, err := sandbox.Start(t.Context(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func stop(t *testing.T, s *sandbox.Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// connect opens the server's database, on its socket or at another address.
func connect(t *testing.T, i sandbox.Info, change ...func(*mysql.Config)) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = i.User, "unix", i.Socket, i.Database
	c.Logger = &mysql.NopLogger{}
	for _, f := range change {
		f(c)
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// ask returns the single value of a query.
func ask(t *testing.T, i sandbox.Info, query string) string {
	t.Helper()
	db := connect(t, i)
	defer db.Close()
	var value string
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func execute(t *testing.T, i sandbox.Info, statements ...string) {
	t.Helper()
	db := connect(t, i)
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// alive reports whether a process is running; a zombie is not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// pid (name) state ...
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// eventually waits for a condition that another process fulfils.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// assertGone fails if a path exists.
func assertGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		entries, _ := os.ReadDir(path)
		t.Errorf("%s is still there (%v): %v", path, err, entries)
	}
}

// serversIn returns the processes whose command line names a path.
func serversIn(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && strings.Contains(string(data), "--datadir="+path) {
			found = append(found, f)
		}
	}
	return found
}
