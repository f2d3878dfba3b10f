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

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// settingsMySQL are settings that MariaDB and MySQL have alike.
var settingsMySQL = map[string]string{
	"SELECT DATABASE()":                              "rowmill",
	"SELECT @@GLOBAL.innodb_buffer_pool_size":        strconv.Itoa(100 << 20),
	"SELECT @@GLOBAL.innodb_flush_log_at_trx_commit": "2",
	"SELECT @@GLOBAL.innodb_flush_method":            "O_DIRECT",
	"SELECT @@GLOBAL.innodb_io_capacity":             "1234",
	"SELECT @@GLOBAL.local_infile":                   "1",
	"SELECT @@GLOBAL.performance_schema":             "0",
	"SELECT @@GLOBAL.log_bin":                        "0",
	"SELECT @@GLOBAL.skip_networking":                "1",
	"SELECT @@GLOBAL.skip_name_resolve":              "1",
	"SELECT @@GLOBAL.max_connections":                "1000",
	"SELECT @@GLOBAL.character_set_server":           "utf8mb4",
	"SELECT @@GLOBAL.time_zone":                      "+00:00",
	"SELECT @@GLOBAL.default_storage_engine":         "InnoDB",
	"SELECT CONCAT(@@GLOBAL.sql_mode LIKE '%ANSI_QUOTES%', @@GLOBAL.sql_mode LIKE '%TRADITIONAL%')": "11",
}

// TestStartStop: a server has the requested settings, records them, and leaves nothing.
func TestStartStop(t *testing.T) {
	t.Parallel()
	ansi := map[string]string{"innodb_io_capacity": "1234", "sql_mode": "ANSI,TRADITIONAL"}
	for kind, test := range map[string]struct {
		set, values  map[string]string
		recorded     map[string]string
		target, dirs string
	}{
		"mariadb": {ansi, settingsMySQL, map[string]string{"innodb_io_capacity": "1234", "innodb_log_file_size": strconv.Itoa(32 << 20)},
			"mariadb://root@localhost/rowmill?socket=", "SELECT CONCAT(@@datadir, @@tmpdir)"},
		"mysql": {ansi, settingsMySQL, map[string]string{"innodb_io_capacity": "1234"},
			"mysql://root@localhost/rowmill?socket=", "SELECT CONCAT(@@datadir, @@tmpdir)"},
		"postgres": {map[string]string{"work_mem": "5MB"}, map[string]string{
			"SELECT current_database()": "rowmill",
			"SELECT current_user":       "root",
			"SHOW shared_buffers":       "100MB",
			"SHOW max_wal_size":         "32MB",
			"SHOW work_mem":             "5MB",
			"SHOW listen_addresses":     "",
			"SHOW synchronous_commit":   "off",
			"SHOW fsync":                "on",
			"SELECT datcollate FROM pg_database WHERE oid > 9999": "C",
		}, map[string]string{"shared_buffers": "100MB", "work_mem": "5MB"}, "postgres://root@localhost/rowmill?host=", "SHOW data_directory"},
	} {
		t.Run(kind, func(t *testing.T) {
			o := small(t, kind)
			o.Memory, o.Redo, o.Durability, o.Set = 100<<20, 32<<20, "relaxed", test.set
			s := start(t, o)
			want(t, s.Info, test.values)
			if dirs := ask(t, s.Info, test.dirs); !strings.HasPrefix(dirs, s.DataDir) || kind != "postgres" && dirs != s.DataDir+"/"+s.Dir+"/tmp" {
				t.Errorf("the server's directories are %q", dirs)
			}
			if got := ask(t, s.Info, "SELECT VERSION()"); s.Version == "" || !strings.Contains(got, s.Version) {
				t.Errorf("Version is %q, the server says %q", s.Version, got)
			}
			p := s.Params()
			for name, value := range test.recorded {
				if p[name] != value {
					t.Errorf("recorded %s is %q, want %q", name, p[name], value)
				}
			}
			if !strings.Contains(p["command"], s.DataDir) || !strings.HasPrefix(s.Target(), test.target) {
				t.Errorf("command %q, target %s", p["command"], s.Target())
			}
			if fi, err := os.Stat(s.Dir); err != nil || fi.Mode().Perm() != 0o700 || !alive(s.PID) {
				t.Errorf("directory %v, %v; alive: %v", fi, err, alive(s.PID))
			}
			stop(t, s)
			select {
			case <-s.Done():
			default:
				t.Error("Done is open after Stop")
			}
			if err := errors.Join(s.Err(), s.Stop(t.Context())); err != nil {
				t.Errorf("after Stop: %v", err)
			}
			if found := serversIn(t, o.Root); len(found) > 0 || alive(s.PID) {
				t.Errorf("left running: %v", found)
			}
			assertGone(t, o.Root)
		})
	}
}

// TestMySQL: the settings and the identity that only MySQL has.
func TestMySQL(t *testing.T) {
	t.Parallel()
	o := small(t, "mysql")
	o.Redo = 20 << 20
	// Some are set when the data directory is installed; defaults of sessions don't
	// prevent the start.
	o.Set = map[string]string{
		"lower_case_table_names": "1", "autocommit": "0", "transaction_read_only": "1", "completion_type": "CHAIN", "max_join_size": "2",
		"max_execution_time": "1", "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
	}
	s := start(t, o)
	want(t, s.Info, map[string]string{"SELECT @@lower_case_table_names": "1"})
	if got := s.Params()["lower_case_table_names"]; got != "1" {
		t.Errorf("lower_case_table_names is recorded as %q", got)
	}
	o.Set = nil
	other := start(t, o)
	want(t, other.Info, map[string]string{
		"SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'mysqlx'": "DISABLED",
		"SELECT SUM(STATUS = 'enabled') FROM information_schema.INNODB_METRICS " +
			"WHERE NAME IN ('log_lsn_checkpoint_age', 'log_max_modified_age_sync')": "2",
	})
	if a, b := ask(t, s.Info, "SELECT @@server_uuid"), ask(t, other.Info, "SELECT @@server_uuid"); a == b {
		t.Errorf("two servers with one identity: %s", a)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	for _, mib := range []int64{6, 64, 129, 384} {
		t.Run(fmt.Sprintf("%d MiB", mib), func(t *testing.T) {
			o := small(t, "mariadb")
			o.Memory = mib << 20
			want(t, start(t, o).Info, map[string]string{"SELECT @@innodb_buffer_pool_size": strconv.FormatInt(mib<<20, 10)})
		})
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	const mariadb = "SELECT @@innodb_flush_log_at_trx_commit"
	const postgres = "SELECT current_setting('fsync') || ' ' || current_setting('synchronous_commit')"
	for _, test := range []struct{ kind, durability, query, want string }{
		{"mariadb", "", mariadb, "1"},
		{"mariadb", "none", mariadb, "0"},
		{"postgres", "full", postgres, "on on"},
		{"postgres", "none", postgres, "off off"},
	} {
		t.Run(test.kind+" "+test.durability, func(t *testing.T) {
			o := small(t, test.kind)
			o.Durability = test.durability
			want(t, start(t, o).Info, map[string]string{test.query: test.want})
		})
	}
}

func TestRocksDB(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	o.Storage, o.Memory, o.Durability = "rocksdb", 32<<20, "relaxed"
	s := start(t, o)
	execute(t, s.Info, "CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(50), KEY (name))", "INSERT INTO a VALUES (1, 'x'), (2, 'y')")
	want(t, s.Info, map[string]string{
		"SELECT @@GLOBAL.rocksdb_block_cache_size":                            strconv.Itoa(32 << 20),
		"SELECT @@GLOBAL.rocksdb_flush_log_at_trx_commit":                     "2",
		"SELECT @@GLOBAL.rocksdb_use_direct_reads":                            "1",
		"SELECT @@GLOBAL.rocksdb_use_direct_io_for_flush_and_compaction":      "1",
		"SELECT @@GLOBAL.innodb_buffer_pool_size":                             strconv.Itoa(16 << 20),
		"SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 'a'": "ROCKSDB",
	})
}

// TestAccounts: on the socket User needs no password, on the port the right one.
func TestAccounts(t *testing.T) {
	accounts := map[string][2]string{
		"mariadb": {"SELECT GROUP_CONCAT(CONCAT(User, '@', Host) ORDER BY User, Host) FROM mysql.global_priv", "mariadb.sys@localhost,root@127.0.0.1,root@localhost"},
		// The others are the server's own accounts, and locked.
		"mysql":    {"SELECT GROUP_CONCAT(CONCAT(User, '@', Host) ORDER BY User, Host) FROM mysql.user WHERE account_locked = 'N'", "root@127.0.0.1,root@localhost"},
		"postgres": {"SELECT string_agg(rolname, ',') FROM pg_roles WHERE rolcanlogin", "root"},
	}
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))
	eachKind(t, func(t *testing.T, o sandbox.Options) {
		o.Port = sandbox.PortAuto
		s := start(t, o)
		want(t, s.Info, map[string]string{accounts[o.Kind][0]: accounts[o.Kind][1]})
		text, err := os.ReadFile(s.PasswordFile)
		must(t, err)
		right := strings.TrimSpace(string(text))
		for _, password := range []string{right, "wrong", ""} {
			db, err := connect(t, s.Info, password)
			if (err == nil) != (password == right) {
				t.Errorf("connecting with %q gives %v", password, err)
			}
			db.Close()
		}
		for key, value := range s.Params() {
			if strings.Contains(value, right) {
				t.Errorf("the password is recorded in %s", key)
			}
		}
		if target := s.TCPTarget(); !strings.HasPrefix(target, fmt.Sprintf("%s://root@127.0.0.1:%d/rowmill?password-file=", o.Kind, s.Port)) {
			t.Errorf("target %s", target)
		}
	})
}

func TestServerDies(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	s := start(t, o)
	if err := s.Err(); err != nil {
		t.Fatalf("Err of a running server: %v", err)
	}
	s.Kill()
	<-s.Done()
	for range 2 {
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("Err is %v", err)
		}
		stop(t, s)
	}
	assertGone(t, o.Root)
}

// TestStopHanging: a server that does not react is killed, and its files are
// removed.
func TestStopHanging(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	s := start(t, o)
	must(t, syscall.Kill(s.PID, syscall.SIGSTOP))
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

// TestServerDoesNotComeUp: the error has the reason, and no files are left.
func TestServerDoesNotComeUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, storage string
		set           map[string]string
		want          string
		notInstalled  bool
	}{
		"mariadb":    {"mariadb", "", map[string]string{"no_such_variable": "1"}, "unknown variable 'no_such_variable=1'", false},
		"mysql":      {"mysql", "", map[string]string{"no_such_variable": "1"}, "unknown variable 'no_such_variable=1'", false},
		"postgres":   {"postgres", "", map[string]string{"no_such_variable": "1"}, `unrecognized configuration parameter "no_such_variable"`, false},
		"no RocksDB": {"mariadb", "rocksdb", map[string]string{"plugin_dir": t.TempDir()}, "mariadb-plugin-rocksdb", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := small(t, test.kind)
			o.Storage, o.Set = test.storage, test.set
			_, err := sandbox.Start(t.Context(), o, t.Logf)
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, sandbox.ErrNotInstalled) != test.notInstalled {
				t.Errorf("error %v", err)
			}
			assertGone(t, o.Root)
		})
	}
}

// TestCancelledStart ends the context at each step of a start.
func TestCancelledStart(t *testing.T) {
	for _, step := range []string{"", "installing", "installed", "starting"} {
		t.Run("at "+step, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", cache)
			o := small(t, "mariadb")
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
				stop(t, s)
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
	t.Parallel()
	o := small(t, "mariadb")
	o.Root = filepath.Join(t.TempDir(), strings.Repeat("long/", 30), "it's a \"root\"")
	s := start(t, o)
	if len(s.Socket) > 103 {
		t.Errorf("socket %s", s.Socket)
	}
	dir := filepath.Dir(s.Socket)
	if dir == s.Dir {
		t.Fatalf("%s was not too long", dir)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("mode of %s: %v, %v", dir, fi, err)
	}
	want(t, s.Info, map[string]string{"SELECT DATABASE()": "rowmill"})
	stop(t, s)
	assertGone(t, dir)
	assertGone(t, o.Root)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
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
			o := small(t, "mariadb")
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

// TestKeep: the data of a kept server survive a stop, other options, a crash and a
// failed start.
func TestKeep(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, o sandbox.Options) {
		o.Keep = filepath.Join(t.TempDir(), "keep")
		s := start(t, o)
		execute(t, s.Info, "CREATE TABLE a (id INT)", "INSERT INTO a VALUES (1)")
		if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a second server in the same directory: %v", err)
		}
		stop(t, s)
		assertGone(t, o.Root)

		o.Memory, o.Redo, o.Port = 32<<20, 48<<20, sandbox.PortAuto
		for rows := range 2 {
			s = start(t, o)
			want(t, s.Info, map[string]string{"SELECT COUNT(*) FROM a": strconv.Itoa(rows + 1)})
			execute(t, s.Info, "INSERT INTO a VALUES (2)")
			s.Kill()
			stop(t, s)
		}
		bad := o
		bad.Set = map[string]string{"no_such_variable": "1"}
		if _, err := sandbox.Start(t.Context(), bad, t.Logf); err == nil {
			t.Error("it started")
		}
		want(t, start(t, o).Info, map[string]string{"SELECT COUNT(*) FROM a": "3"})
	})
}

// TestKeepRefusesForeignDirectory: a directory with other files, or the data of another
// kind of server, is refused and not changed.
func TestKeepRefusesForeignDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"other files":  {map[string]string{"precious": "x"}, "neither empty nor a sandbox"},
		"another kind": {map[string]string{"sandbox.json": `{"format": "rowmill.sandbox/1", "kind": "mysql"}`, "data": ""}, "holds the data of a mysql server"},
	} {
		t.Run(name, func(t *testing.T) {
			o := small(t, "mariadb")
			o.Keep = t.TempDir()
			for name, text := range test.files {
				must(t, os.WriteFile(filepath.Join(o.Keep, name), []byte(text), 0o600))
			}
			if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
			for name, text := range test.files {
				if got, err := os.ReadFile(filepath.Join(o.Keep, name)); err != nil || string(got) != text {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
		})
	}
}

// TestVersions: each of several installed versions starts if it is requested.
func TestVersions(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestFind")
	for _, target := range []string{
		"mysql?version=8.0", "mysql?version=9.7", "mariadb?version=11.8", "mariadb?version=11.8&engine=rocksdb", "postgres?version=18",
	} {
		t.Run(target, func(t *testing.T) {
			o, err := sandbox.ParseTarget("sandbox:" + target)
			must(t, err)
			testdb.Require(t, o.Kind+"-"+o.Version, sandbox.Installed(t.Context(), target))
			o.Memory, o.Redo, o.Root = 32<<20, 32<<20, filepath.Join(t.TempDir(), "root")
			s := start(t, o)
			if got := ask(t, s.Info, "SELECT VERSION()"); !strings.HasPrefix(s.Version, o.Version+".") || !strings.Contains(got, s.Version) {
				t.Errorf("started %s, the server says %q", s.Version, got)
			}
		})
	}
}
