// Package testdb provides tests with real database servers. They are temporary, one of each kind; a
// whole run of `make test`, or the tests of one test binary, share them. Each test has a private
// database on them.
//
// A package whose tests use it stops the servers at the end with
//
//	func TestMain(m *testing.M) { testdb.Main(m) }
//
// and a test calls
//
//	socket, name := testdb.Database(t, "mariadb")
//
// If a test binary panics, exceeds its time limit or is killed, its servers end with it; their
// files, in the temporary directory, are removed by the next test binary.
//
// If a server is not installed the test is skipped with the reason, unless the environment variable
// ROWMILL_TEST_REQUIRE requires it: "all", or a list such as "mariadb,rocksdb". If a server is
// installed but does not start, the test fails in any case.
package testdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// RequireVariable is the environment variable that turns skips into failures.
const RequireVariable = "ROWMILL_TEST_REQUIRE"

// Require does nothing if err is nil. Otherwise something that the test needs is missing: the
// parameter what is its name, and err is the reason. Require then fails the test if the environment
// variable RequireVariable lists what; otherwise it skips the test.
func Require(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if required(os.Getenv(RequireVariable), what) {
		t.Fatalf("%s is required by %s: %v", what, RequireVariable, err)
	}
	t.Skipf("without %s: %v (%s=%s would make this a failure)", what, err, RequireVariable, what)
}

// RequireTool is Require for a program that only the nightly run has for certain. Any other run
// skips the test if the program is missing.
func RequireTool(t testing.TB, what, program string) (path string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && !Nightly() {
		t.Skipf("without %s: %v", what, err)
	}
	Require(t, what, err)
	return path
}

// required reports whether a list contains what.
func required(list, what string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == what || name == "all" {
			return true
		}
	}
	return false
}

// Until waits until a condition is true. It fails the test after a minute, which is far longer than
// any condition takes on a slow machine.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// NextSecond waits for the next second of the clock of a MariaDB or MySQL server. Such a server
// records the times of changes in whole seconds.
func NextSecond(t testing.TB, db *sql.DB) {
	t.Helper()
	seconds := func() (n int64) {
		if err := db.QueryRowContext(t.Context(), "SELECT UNIX_TIMESTAMP()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	begin := seconds()
	Until(t, "the next second", func() bool { return seconds() > begin })
}

// KindsVariable lists the kinds of database that tests may use, "sqlite" or a
// list such as "sqlite,mariadb"; empty allows all. A test of another kind is
// skipped, regardless of RequireVariable.
const KindsVariable = "ROWMILL_TEST_KINDS"

// allowed reports whether KindsVariable allows a kind: "mariadb" allows
// "mariadb?engine=rocksdb", too.
func allowed(kind string) bool {
	list := os.Getenv(KindsVariable)
	name, _, _ := strings.Cut(kind, "?")
	return list == "" || required(list, name)
}

// Main runs the tests of a package, stops the servers they started, and exits.
func Main(m *testing.M) { os.Exit(Runner{m}.Run()) }

// A Runner is Main in a form that packages can wrap: goleak.VerifyTestMain(testdb.Runner{M: m}).
type Runner struct{ M *testing.M }

// Run runs the tests, stops the servers that they started, and returns the exit code.
func (r Runner) Run() int {
	code := r.M.Run()
	if err := stopServers(); err != nil {
		fmt.Fprintf(os.Stderr, "testdb: %v\n", err)
		code = max(code, 1)
	}
	return code
}

// servers are the servers of this process, by kind. The first test that needs one finds or starts
// it.
var (
	serversLock sync.Mutex
	servers     = map[string]func() (*Shared, error){}
)

// startTimeout is far longer than a start takes on an idle machine, a second.
const startTimeout = 2 * time.Minute

// Server returns the server of a kind that all tests share. A kind is that of a sandbox, with
// optional parameters: "mariadb", "mariadb?engine=rocksdb". There is one server for each distinct
// kind. The processes of a whole run share it if ServersVariable is set; otherwise each process has
// its own. Unless the parameters say otherwise, the server has 64 MiB of memory, 64 MiB of redo log
// and durability none, and its files are in memory. A test that changes the server's variables,
// reads counters of the whole server, or kills it, must start its own server with package sandbox.
func Server(t testing.TB, kind string) *Shared {
	t.Helper()
	if !allowed(kind) {
		t.Skipf("%s=%s leaves out %s", KindsVariable, os.Getenv(KindsVariable), kind)
	}
	o, err := options(kind)
	if err != nil {
		t.Fatalf("test server: %v", err)
	}
	serversLock.Lock()
	server := servers[kind]
	if server == nil {
		server = sync.OnceValues(func() (*Shared, error) {
			if s, err := find(kind); s != nil || err != nil {
				return s, err
			}
			// Not a test's context, because the server outlives the test.
			ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
			defer cancel()
			return start(ctx, o)
		})
		servers[kind] = server
	}
	serversLock.Unlock()
	s, err := server()
	if errors.Is(err, sandbox.ErrNotInstalled) {
		Require(t, requirement(o), err)
	}
	if err == nil {
		err = s.Err()
	}
	if err != nil {
		t.Fatalf("test server: %v", err)
	}
	return s
}

// unsafe are settings that avoid writes needed only after a crash. Tests that
// crash a server start their own.
var unsafe = map[string]map[string]string{
	"mariadb":  {"innodb_doublewrite": "0"},
	"mysql":    {"innodb_doublewrite": "0"},
	"postgres": {"full_page_writes": "off"},
}

func options(kind string) (sandbox.Options, error) {
	o, err := sandbox.ParseTarget("sandbox:" + kind)
	if err != nil {
		return o, err
	}
	if err := setVersion(&o, os.Getenv(VersionsVariable)); err != nil {
		return o, err
	}
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	if o.Redo == 0 {
		o.Redo = 64 << 20
	}
	if o.Durability == "" {
		o.Durability = sandbox.None
		if o.Set == nil {
			o.Set = map[string]string{}
		}
		for name, value := range unsafe[o.Kind] {
			if _, set := o.Set[name]; !set {
				o.Set[name] = value
			}
		}
	}
	// All test binaries use one directory, so that each can remove the files of
	// test binaries that were killed.
	o.Root = filepath.Join(memoryDir(), "rowmill-test-"+strconv.Itoa(os.Geteuid()))
	return o, nil
}

// memoryDir returns a directory in memory if it has room for the servers of a
// whole run, else the directory for temporary files.
func memoryDir() string {
	const dir, room = "/dev/shm", 4 << 30
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err == nil && st.Bavail*uint64(st.Bsize) >= room {
		return dir
	}
	return os.TempDir()
}

// stopServers ends the servers that this process started. It kills them, because their
// data are not needed.
func stopServers() error {
	serversLock.Lock()
	defer serversLock.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, server := range servers {
		if s, err := server(); err == nil { // it was called before
			errs = append(errs, s.stop(ctx))
		}
	}
	clear(servers)
	return errors.Join(errs...)
}

var databases atomic.Int64

// Database creates an empty database on the shared server of a kind, and returns the server's
// socket and the database's name. The database is dropped when the test ends.
func Database(t testing.TB, kind string) (socket, name string) {
	t.Helper()
	s := Server(t, kind)
	name = databaseName(t.Name(), os.Getpid(), databases.Add(1))
	create, drop := "CREATE DATABASE `"+name+"`", "DROP DATABASE IF EXISTS `"+name+"`"
	if s.Kind == "postgres" {
		// Without a log of each page it takes less than half of the CPU time.
		create, drop = `CREATE DATABASE "`+name+`" STRATEGY file_copy`, `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`
	}
	if err := execute(s, create); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(func() {
		if s.Err() != nil {
			return // the server has ended, which fails the next test
		}
		if err := execute(s, drop); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return s.Socket, name
}

// databaseName returns a name that identifies the test: at most 64 bytes, for MySQL, of letters
// that need no quoting. It includes the process id because other processes use the same server.
func databaseName(test string, pid int, n int64) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, test)
	return fmt.Sprintf("t%d_%d_%s", pid, n, clean[:min(len(clean), 40)])
}

// execute executes one statement.
func execute(s *Shared, statement string) error {
	// Dropping a large table takes long on a busy disk.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.execute(ctx, statement)
}
