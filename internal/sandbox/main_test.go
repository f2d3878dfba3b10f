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

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
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

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
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
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	c := &child{cmd: exec.Command(exe), stderr: &strings.Builder{}}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(options))
	c.cmd.Stderr = c.stderr
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.out = bufio.NewReader(out)
	for _, f := range each {
		f(c.cmd)
	}
	must(t, c.cmd.Start())
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
	must(t, json.Unmarshal(line, &info))
	return info
}

// kinds are small options of each kind of server.
func kinds() map[string]sandbox.Options {
	return map[string]sandbox.Options{
		"mariadb":  {Kind: "mariadb", Memory: 16 << 20, Redo: 8 << 20},
		"mysql":    {Kind: "mysql", Memory: 16 << 20, Redo: 8 << 20},
		"postgres": {Kind: "postgres", Memory: 16 << 20, Redo: 32 << 20},
	}
}

// eachKind runs a test with small options of each kind of server, under a root that
// does not exist yet.
func eachKind(t *testing.T, test func(t *testing.T, o sandbox.Options)) {
	for kind := range kinds() {
		t.Run(kind, func(t *testing.T) { test(t, small(t, kind)) })
	}
}

// small returns options with which a server starts fast, under a root that does
// not exist yet. The test is skipped if the server is not installed.
func small(t *testing.T, kind string) sandbox.Options {
	t.Helper()
	testdb.Require(t, kind, sandbox.Installed(t.Context(), kind))
	o := kinds()[kind]
	o.Root = filepath.Join(t.TempDir(), "root")
	return o
}

// start starts a server that is stopped when the test ends.
func start(t *testing.T, o sandbox.Options) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start(t.Context(), o, t.Logf)
	if errors.Is(err, sandbox.ErrNotInstalled) {
		testdb.Require(t, o.Kind, err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func stop(t *testing.T, s *sandbox.Server) {
	t.Helper()
	must(t, s.Stop(t.Context()))
}

// connect connects to the server's database, on its socket or on its port with a
// password.
func connect(t *testing.T, i sandbox.Info, password ...string) (*sql.DB, error) {
	t.Helper()
	target, tcp := i.Target(), len(password) > 0
	if i.Kind == "postgres" {
		c, err := pgx.ParseConfig(target)
		must(t, err)
		if tcp {
			c.Host, c.Port, c.Password, c.TLSConfig = "127.0.0.1", uint16(i.Port), password[0], nil
		}
		db := stdlib.OpenDB(*c)
		return db, db.PingContext(t.Context())
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.Logger = i.User, "unix", i.Socket, i.Database, &mysql.NopLogger{}
	if tcp {
		c.Net, c.Addr, c.Passwd = "tcp", fmt.Sprintf("127.0.0.1:%d", i.Port), password[0]
	}
	connector, err := mysql.NewConnector(c)
	must(t, err)
	db := sql.OpenDB(connector)
	return db, db.PingContext(t.Context())
}

// ask returns the single value of a query.
func ask(t *testing.T, i sandbox.Info, query string) (value string) {
	t.Helper()
	db, err := connect(t, i)
	must(t, err)
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// want checks the values of queries.
func want(t *testing.T, i sandbox.Info, values map[string]string) {
	t.Helper()
	for query, value := range values {
		if got := ask(t, i, query); got != value {
			t.Errorf("%s: got %q, want %q", query, got, value)
		}
	}
}

func execute(t *testing.T, i sandbox.Info, statements ...string) {
	t.Helper()
	db, err := connect(t, i)
	must(t, err)
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
var eventually = testdb.Until

// assertGone fails if a path exists.
func assertGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		entries, _ := os.ReadDir(path)
		t.Errorf("%s is still there (%v): %v", path, err, entries)
	}
}

// serversIn returns the processes whose command line names a path, or whose working
// directory is in it.
func serversIn(t *testing.T, path string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	var found []string
	for _, p := range processes {
		data, _ := os.ReadFile(p + "/cmdline")
		dir, _ := os.Readlink(p + "/cwd")
		if strings.Contains(string(data), "--datadir="+path) || strings.HasPrefix(dir, path) {
			found = append(found, p)
		}
	}
	return found
}

// killOwner kills a child whose server is up, and returns when that has ended, too.
func killOwner(t *testing.T, c *child, i sandbox.Info) {
	t.Helper()
	must(t, c.cmd.Process.Kill())
	eventually(t, "the server dies", func() bool { return !alive(i.PID) })
	if _, err := os.Stat(i.DataDir); err != nil {
		t.Fatalf("nothing left to clean: %v", err)
	}
}
