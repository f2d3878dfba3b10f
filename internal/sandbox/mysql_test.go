//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// smallMySQL returns options with which a MySQL server starts fast; the test is
// skipped if it is not installed.
func smallMySQL(t *testing.T) sandbox.Options {
	t.Helper()
	testdb.Require(t, "mysql", sandbox.Installed(t.Context(), "mysql"))
	o := small(t)
	o.Kind = "mysql"
	return o
}

func startMySQL(t *testing.T, o sandbox.Options) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start(t.Context(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopLate(t, s) })
	return s
}

// TestMySQLInstalled: the server has the variables with which its data directory
// was installed, and session defaults don't prevent its start.
func TestMySQLInstalled(t *testing.T) {
	o := smallMySQL(t)
	o.Set = map[string]string{
		"lower_case_table_names": "1", "autocommit": "0", "transaction_read_only": "1", "completion_type": "CHAIN", "max_join_size": "2",
		"max_execution_time": "1", "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES",
	}
	s := startMySQL(t, o)
	if got := ask(t, s.Info, "SELECT @@lower_case_table_names"); got != "1" {
		t.Errorf("lower_case_table_names is %s", got)
	}
	if got := s.Params()["lower_case_table_names"]; got != "1" {
		t.Errorf("lower_case_table_names is recorded as %q", got)
	}
}

func TestMySQL(t *testing.T) {
	o := smallMySQL(t)
	o.Memory, o.Redo, o.Durability = 100<<20, 20<<20, "relaxed"
	o.Set = map[string]string{"innodb_io_capacity": "1234", "sql_mode": "ANSI,TRADITIONAL"}
	s := startMySQL(t, o)
	if got := ask(t, s.Info, "SELECT VERSION()"); got != s.Version || strings.Contains(strings.ToLower(got), "mariadb") {
		t.Errorf("Version is %q, the server says %q", s.Version, got)
	}
	for expression, want := range map[string]string{
		"DATABASE()":                              "rowmill",
		"@@GLOBAL.datadir":                        s.DataDir + "/",
		"@@GLOBAL.tmpdir":                         s.Dir + "/tmp",
		"@@GLOBAL.innodb_buffer_pool_size":        strconv.Itoa(100 << 20),
		"@@GLOBAL.innodb_flush_log_at_trx_commit": "2",
		"@@GLOBAL.innodb_flush_method":            "O_DIRECT",
		"@@GLOBAL.innodb_io_capacity":             "1234",
		"@@GLOBAL.local_infile":                   "1",
		"@@GLOBAL.performance_schema":             "0",
		"@@GLOBAL.log_bin":                        "0",
		"@@GLOBAL.skip_networking":                "1",
		"@@GLOBAL.skip_name_resolve":              "1",
		"@@GLOBAL.max_connections":                "1000",
		"@@GLOBAL.character_set_server":           "utf8mb4",
		"@@GLOBAL.time_zone":                      "+00:00",
		"@@GLOBAL.default_storage_engine":         "InnoDB",
		"(SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'mysqlx')": "DISABLED",
		// Counters that a benchmark records.
		"(SELECT COUNT(*) FROM information_schema.INNODB_METRICS WHERE STATUS = 'enabled' AND " +
			"NAME IN ('log_lsn_checkpoint_age', 'log_max_modified_age_sync'))": "2",
	} {
		if got := ask(t, s.Info, "SELECT "+expression); got != want {
			t.Errorf("%s is %s, want %s", expression, got, want)
		}
	}
	if got := ask(t, s.Info, "SELECT @@GLOBAL.sql_mode"); !strings.Contains(got, "ANSI_QUOTES") || !strings.Contains(got, "TRADITIONAL") {
		t.Errorf("sql_mode is %s", got)
	}
	p := s.Params()
	redo := p["innodb_redo_log_capacity"]
	if redo == "" { // before 8.0.30
		size, _ := strconv.Atoi(p["innodb_log_file_size"])
		files, _ := strconv.Atoi(p["innodb_log_files_in_group"])
		redo = strconv.Itoa(size * files)
	}
	if redo != strconv.Itoa(20<<20) || p["innodb_io_capacity"] != "1234" || !strings.Contains(p["command"], "--no-defaults") {
		t.Errorf("params %v", p)
	}
	if want := "mysql://root@localhost/rowmill?socket="; !strings.HasPrefix(s.Target(), want) {
		t.Errorf("target %s, want %s", s.Target(), want)
	}
	other := startMySQL(t, o)
	if a, b := ask(t, s.Info, "SELECT @@server_uuid"), ask(t, other.Info, "SELECT @@server_uuid"); a == b {
		t.Errorf("two servers with one identity: %s", a)
	}
	stop(t, other)
	stop(t, s)
	if alive(s.PID) {
		t.Errorf("process %d still runs", s.PID)
	}
	assertGone(t, o.Root)
}

// TestMySQLAccounts: only the socket gives access, and only its owner can reach it.
func TestMySQLAccounts(t *testing.T) {
	o := smallMySQL(t)
	o.Port, o.Memory = "auto", 5<<20
	s := startMySQL(t, o)
	// The others are the server's own accounts, and locked.
	if got := ask(t, s.Info, "SELECT GROUP_CONCAT(CONCAT(User, '@', Host) ORDER BY User, Host) FROM mysql.user WHERE account_locked = 'N'"); got != "root@127.0.0.1,root@localhost" {
		t.Errorf("accounts %s", got)
	}
	password, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	right := strings.TrimSpace(string(password))
	for _, test := range []struct {
		password string
		want     bool
	}{{right, true}, {"wrong", false}, {"", false}} {
		err := connect(t, s.Info, func(c *mysql.Config) {
			c.Net, c.Addr, c.Passwd = "tcp", fmt.Sprintf("127.0.0.1:%d", s.Port), test.password
		}).PingContext(t.Context())
		if (err == nil) != test.want {
			t.Errorf("connecting with %q gives %v", test.password, err)
		}
	}
	assertGone(t, filepath.Join(s.Dir, "init.sql"))
	for key, value := range s.Params() {
		if strings.Contains(value, right) {
			t.Errorf("the password is recorded in %s", key)
		}
	}
}

// TestMySQLKeep: the data of a kept server survive a change of its sizes and a
// crash.
func TestMySQLKeep(t *testing.T) {
	o := smallMySQL(t)
	o.Keep = filepath.Join(t.TempDir(), "keep")
	s := startMySQL(t, o)
	execute(t, s.Info, "CREATE TABLE a (id INT)", "INSERT INTO a VALUES (1)")
	stop(t, s)
	assertGone(t, o.Root)
	o.Memory, o.Redo, o.Port = 32<<20, 12<<20, "auto"
	for want := range 2 {
		s = startMySQL(t, o)
		if got := ask(t, s.Info, "SELECT COUNT(*) FROM a"); got != strconv.Itoa(want+1) {
			t.Errorf("%s rows at start %d", got, want+2)
		}
		execute(t, s.Info, "INSERT INTO a VALUES (2)")
		s.Kill()
		stop(t, s)
	}
	o.Kind = "mariadb"
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "holds the data of a mysql server") {
		t.Errorf("MariaDB on MySQL's data: %v", err)
	}
}

// TestMySQLOwnerKilled: the server of a killed process ends with it, and the
// next start removes its files.
func TestMySQLOwnerKilled(t *testing.T) {
	o := smallMySQL(t)
	c := startChild(t, o)
	info := c.info(t)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server dies", func() bool { return !alive(info.PID) })
	if _, err := os.Stat(info.DataDir); err != nil {
		t.Fatalf("nothing left to clean: %v", err)
	}
	s := startMySQL(t, o)
	assertGone(t, info.Dir)
	stop(t, s)
	assertGone(t, o.Root)
}

func TestMySQLNamed(t *testing.T) {
	o := smallMySQL(t)
	c := startChild(t, o, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, nameVariable+"=a") })
	info := c.info(t)
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if alive(info.PID) {
			t.Errorf("process %d still runs", info.PID)
			syscall.Kill(info.PID, syscall.SIGKILL)
		}
	})
	// The named server outlives its owner, and a throwaway server under the same
	// root.
	stop(t, startMySQL(t, o))
	execute(t, info, "CREATE TABLE a (id INT)")
	if in := only(t, o.Root); in.State != sandbox.Running || in.Kind != "mysql" || in.PID != info.PID {
		t.Errorf("listed as %+v", in)
	}
	if _, err := sandbox.StartNamed(t.Context(), "a", o, nil); !errors.Is(err, sandbox.ErrRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := sandbox.StopNamed(t.Context(), o.Root, "a", false); err != nil {
		t.Fatal(err)
	}
	assertGone(t, o.Root)
}

func TestMySQLDoesNotComeUp(t *testing.T) {
	o := smallMySQL(t)
	o.Set = map[string]string{"no_such_variable": "1"}
	_, err := sandbox.Start(t.Context(), o, t.Logf)
	if err == nil || errors.Is(err, sandbox.ErrNotInstalled) || !strings.Contains(err.Error(), "unknown variable 'no_such_variable=1'") {
		t.Errorf("error %v", err)
	}
	assertGone(t, o.Root)
}

// TestVersions: each of several installed versions starts if it is requested.
func TestVersions(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestFindVersion")
	for _, target := range []string{
		"mysql?version=8.0", "mysql?version=9.7", "mariadb?version=11.8", "mariadb?version=11.8&engine=rocksdb", "postgres?version=18",
	} {
		t.Run(target, func(t *testing.T) {
			o, err := sandbox.ParseTarget("sandbox:" + target)
			if err != nil {
				t.Fatal(err)
			}
			testdb.Require(t, o.Kind+"-"+o.Version, sandbox.Installed(t.Context(), target))
			o.Memory, o.Redo, o.Root = 32<<20, 32<<20, filepath.Join(t.TempDir(), "root")
			s := startMySQL(t, o)
			if !strings.HasPrefix(s.Version, o.Version+".") {
				t.Errorf("started %s", s.Version)
			}
			if o.Kind == "postgres" {
				wantPostgres(t, s.Info, "SELECT current_setting('server_version_num')::int / 10000", o.Version)
			} else if got := ask(t, s.Info, "SELECT VERSION()"); got != s.Version {
				t.Errorf("the server says %q, want %q", got, s.Version)
			}
		})
	}
}
