//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestStartStop(t *testing.T) {
	o := small(t)
	s := start(t, o)
	if got := ask(t, s.Info, "SELECT DATABASE()"); got != "rowmill" {
		t.Errorf("database %q", got)
	}
	if got := ask(t, s.Info, "SELECT VERSION()"); got != s.Version {
		t.Errorf("Version is %q, the server says %q", s.Version, got)
	}
	if got := ask(t, s.Info, "SELECT @@datadir"); got != s.DataDir+"/" {
		t.Errorf("DataDir is %q, the server says %q", s.DataDir, got)
	}
	fi, err := os.Stat(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o700 {
		t.Errorf("mode of %s is %v", s.Dir, fi.Mode())
	}
	if p := s.Params(); !strings.Contains(p["command"], "--no-defaults") || p["innodb_log_file_size"] != strconv.Itoa(8<<20) {
		t.Errorf("params %v", p)
	}
	if !alive(s.PID) {
		t.Fatalf("process %d does not run", s.PID)
	}
	begin := time.Now()
	stop(t, s)
	t.Logf("stopped in %v", time.Since(begin))
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	if alive(s.PID) {
		t.Errorf("process %d still runs", s.PID)
	}
	assertGone(t, o.Root)
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestMemory(t *testing.T) {
	for _, mib := range []int64{6, 16, 64, 100, 129, 384} {
		t.Run(fmt.Sprintf("%d MiB", mib), func(t *testing.T) {
			o := small(t)
			o.Memory = mib << 20
			s := start(t, o)
			if got := ask(t, s.Info, "SELECT @@innodb_buffer_pool_size"); got != strconv.FormatInt(mib<<20, 10) {
				t.Errorf("buffer pool of %s bytes", got)
			}
		})
	}
}

func TestDurability(t *testing.T) {
	for durability, want := range map[string]string{"": "1", "full": "1", "relaxed": "2", "none": "0"} {
		t.Run("durability "+durability, func(t *testing.T) {
			o := small(t)
			o.Durability = durability
			s := start(t, o)
			if got := ask(t, s.Info, "SELECT @@innodb_flush_log_at_trx_commit"); got != want {
				t.Errorf("innodb_flush_log_at_trx_commit is %s, want %s", got, want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	o := small(t)
	o.Redo = 20 << 20
	o.Set = map[string]string{"innodb_io_capacity": "1234", "sql_mode": "ANSI,TRADITIONAL"}
	s := start(t, o)
	for variable, want := range map[string]string{
		"innodb_log_file_size": strconv.Itoa(20 << 20),
		"innodb_flush_method":  "O_DIRECT",
		"innodb_io_capacity":   "1234",
		"local_infile":         "1",
		"performance_schema":   "0",
		"log_bin":              "0",
		"skip_networking":      "1",
		"skip_name_resolve":    "1",
		"max_connections":      "1000",
		"character_set_server": "utf8mb4",
		"time_zone":            "+00:00",
		"storage_engine":       "InnoDB",
		"tmpdir":               s.Dir + "/tmp",
	} {
		if got := ask(t, s.Info, "SELECT @@GLOBAL."+variable); got != want {
			t.Errorf("%s is %s, want %s", variable, got, want)
		}
	}
	if got := ask(t, s.Info, "SELECT @@GLOBAL.sql_mode"); !strings.Contains(got, "ANSI_QUOTES") || !strings.Contains(got, "TRADITIONAL") {
		t.Errorf("sql_mode is %s", got)
	}
	if got := s.Params()["innodb_io_capacity"]; got != "1234" {
		t.Errorf("recorded innodb_io_capacity is %q", got)
	}
}

func TestRocksDB(t *testing.T) {
	needServer(t)
	o := small(t)
	o.Storage, o.Memory, o.Durability = "rocksdb", 32<<20, "relaxed"
	s, err := sandbox.Start(t.Context(), o, t.Logf)
	if errors.Is(err, sandbox.ErrNotInstalled) {
		testdb.Require(t, "rocksdb", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopLate(t, s) })
	for variable, want := range map[string]string{
		"rocksdb_block_cache_size":                       strconv.Itoa(32 << 20),
		"rocksdb_flush_log_at_trx_commit":                "2",
		"rocksdb_use_direct_reads":                       "1",
		"rocksdb_use_direct_io_for_flush_and_compaction": "1",
		"innodb_buffer_pool_size":                        strconv.Itoa(16 << 20),
	} {
		if got := ask(t, s.Info, "SELECT @@GLOBAL."+variable); got != want {
			t.Errorf("%s is %s, want %s", variable, got, want)
		}
	}
	execute(t, s.Info, "CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(50), KEY (name))", "INSERT INTO a VALUES (1, 'x'), (2, 'y')")
	if got := ask(t, s.Info, "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 'a'"); got != "ROCKSDB" {
		t.Errorf("a new table is in %s", got)
	}
}

func stopLate(t *testing.T, s *sandbox.Server) {
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestRocksDBNotInstalled(t *testing.T) {
	needServer(t)
	o := small(t)
	o.Storage = "rocksdb"
	o.Set = map[string]string{"plugin_dir": t.TempDir()}
	_, err := sandbox.Start(t.Context(), o, t.Logf)
	if !errors.Is(err, sandbox.ErrNotInstalled) || !strings.Contains(err.Error(), "mariadb-plugin-rocksdb") {
		t.Errorf("error %v", err)
	}
	assertGone(t, o.Root)
}

// TestAccounts: only the socket gives access, and only its owner can reach it.
func TestAccounts(t *testing.T) {
	o := small(t)
	o.Port = "auto"
	s := start(t, o)
	if got := ask(t, s.Info, "SELECT GROUP_CONCAT(CONCAT(User, '@', Host) ORDER BY User, Host) FROM mysql.global_priv"); got != "mariadb.sys@localhost,root@127.0.0.1,root@localhost" {
		t.Errorf("accounts %s", got)
	}
	password, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, password string
		want           bool
	}{
		{"right password", strings.TrimSpace(string(password)), true},
		{"wrong password", "wrong", false},
		{"no password", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := connect(t, s.Info, func(c *mysql.Config) {
				c.Net, c.Addr, c.Passwd = "tcp", fmt.Sprintf("127.0.0.1:%d", s.Port), test.password
			}).PingContext(t.Context())
			if (err == nil) != test.want {
				t.Errorf("connecting gives %v", err)
			}
		})
	}
	for _, name := range []string{"init.sql"} {
		assertGone(t, filepath.Join(s.Dir, name))
	}
	for key, value := range s.Params() {
		if strings.Contains(value, strings.TrimSpace(string(password))) {
			t.Errorf("the password is recorded in %s", key)
		}
	}
}

func TestServerDies(t *testing.T) {
	o := small(t)
	s := start(t, o)
	if err := s.Err(); err != nil {
		t.Fatalf("Err of a running server: %v", err)
	}
	s.Kill()
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done is open after Kill")
	}
	check := func() {
		t.Helper()
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("Err is %v", err)
		}
	}
	check()
	stop(t, s)
	check()
	assertGone(t, o.Root)
}

// TestStopHanging: a server that does not react is killed, and its files are
// removed.
func TestStopHanging(t *testing.T) {
	o := small(t)
	s := start(t, o)
	if err := syscall.Kill(s.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if alive(s.PID) {
		t.Error("it still runs")
	}
	assertGone(t, o.Root)
}

func TestServerDoesNotComeUp(t *testing.T) {
	needServer(t)
	o := small(t)
	o.Set = map[string]string{"no_such_variable": "1"}
	_, err := sandbox.Start(t.Context(), o, t.Logf)
	if err == nil || !strings.Contains(err.Error(), "unknown variable 'no_such_variable=1'") {
		t.Errorf("error %v", err)
	}
	assertGone(t, o.Root)
}

// TestCancelledStart ends the context at each step of a start.
func TestCancelledStart(t *testing.T) {
	needServer(t)
	for _, step := range []string{"", "installing", "installed", "starting"} {
		t.Run("at "+step, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", cache)
			o := small(t)
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if step == "" {
				cancel(why)
			}
			s, err := sandbox.Start(ctx, o, func(format string, args ...any) {
				if strings.HasPrefix(format, step+" ") {
					// With a delay, so that it interrupts the step that the line
					// announces.
					time.AfterFunc(30*time.Millisecond, func() { cancel(why) })
					if step == "installed" {
						cancel(why)
					}
				}
			})
			if err == nil {
				stopLate(t, s)
				t.Fatal("it started")
			}
			if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			assertGone(t, o.Root)
			if found := serversIn(t, o.Root); len(found) > 0 {
				t.Errorf("left running: %v", found)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "rowmill/templates/build-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestLongPath(t *testing.T) {
	o := small(t)
	o.Root = filepath.Join(t.TempDir(), strings.Repeat("long/", 30), "it's a \"root\"")
	s := start(t, o)
	if len(s.Socket) > 103 {
		t.Errorf("socket %s", s.Socket)
	}
	dir := filepath.Dir(s.Socket)
	if dir == s.Dir {
		t.Fatalf("%s was not too long", dir)
	}
	fi, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o700 {
		t.Errorf("mode of %s is %v", dir, fi.Mode())
	}
	if got := ask(t, s.Info, "SELECT DATABASE()"); got != "rowmill" {
		t.Errorf("database %q", got)
	}
	stop(t, s)
	assertGone(t, dir)
	assertGone(t, o.Root)
}

func TestFullDisk(t *testing.T) {
	needServer(t)
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	for _, test := range []struct{ name, size, want string }{
		{"while the data are copied", "8m", "no space left"},
		{"while the server starts", "60m", "log"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mount := t.TempDir()
			if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size="+test.size); err != nil {
				t.Skipf("mount a small file system: %v", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(mount, 0); err != nil {
					t.Error(err)
				}
			})
			o := small(t)
			o.Root, o.Redo = filepath.Join(mount, "root"), 512<<20
			_, err := sandbox.Start(t.Context(), o, t.Logf)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
			t.Log(err)
			assertGone(t, o.Root)
		})
	}
}

func TestKeep(t *testing.T) {
	o := small(t)
	o.Keep = filepath.Join(t.TempDir(), "keep")
	s := start(t, o)
	execute(t, s.Info, "CREATE TABLE a (id INT)", "INSERT INTO a VALUES (1)")
	if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server in the same directory: %v", err)
	}
	stop(t, s)
	assertGone(t, o.Root)

	// Other options, the same data.
	o.Memory, o.Redo = 32<<20, 12<<20
	s = start(t, o)
	if got := ask(t, s.Info, "SELECT COUNT(*) FROM a"); got != "1" {
		t.Errorf("%s rows after a restart", got)
	}
	execute(t, s.Info, "INSERT INTO a VALUES (2)")
	s.Kill()
	stop(t, s)

	s = start(t, o)
	if got := ask(t, s.Info, "SELECT COUNT(*) FROM a"); got != "2" {
		t.Errorf("%s rows after a crash", got)
	}
	stop(t, s)

	// A failed start does not remove the data.
	bad := o
	bad.Set = map[string]string{"no_such_variable": "1"}
	if _, err := sandbox.Start(t.Context(), bad, t.Logf); err == nil {
		t.Error("it started")
	}
	s = start(t, o)
	if got := ask(t, s.Info, "SELECT COUNT(*) FROM a"); got != "2" {
		t.Errorf("%s rows after a failed start", got)
	}
}

func TestKeepRefusesForeignDirectory(t *testing.T) {
	needServer(t)
	o := small(t)
	o.Keep = t.TempDir()
	precious := filepath.Join(o.Keep, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "neither empty nor a sandbox") {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(o.Keep)
	if err != nil || len(entries) != 1 {
		t.Errorf("entries %v, %v", entries, err)
	}
}
