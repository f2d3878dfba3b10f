//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

func needPostgres(t *testing.T) {
	t.Helper()
	testdb.Require(t, "postgres", sandbox.Installed(t.Context(), "postgres"))
}

// smallPostgres returns options with which a server starts fast, under a root
// that does not exist yet.
func smallPostgres(t *testing.T) sandbox.Options {
	t.Helper()
	o := small(t)
	o.Kind, o.Redo = "postgres", 32<<20
	return o
}

func startPostgres(t *testing.T, o sandbox.Options) *sandbox.Server {
	t.Helper()
	needPostgres(t)
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

// askPostgres returns the first value of a query on a target.
func askPostgres(t *testing.T, target, query string) (string, error) {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), target)
	if err != nil {
		return "", err
	}
	defer c.Close(context.Background())
	results, err := c.Exec(t.Context(), query).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

func wantPostgres(t *testing.T, s sandbox.Info, query, want string) {
	t.Helper()
	if got, err := askPostgres(t, s.Target(), query); err != nil || got != want {
		t.Errorf("%s: got %q, %v, want %q", query, got, err, want)
	}
}

func TestPostgres(t *testing.T) {
	o := smallPostgres(t)
	o.Set = map[string]string{"work_mem": "5MB"}
	s := startPostgres(t, o)
	for query, want := range map[string]string{
		"SELECT current_database()":                           "rowmill",
		"SELECT current_user":                                 "root",
		"SELECT split_part(version(), ' ', 2)":                s.Version,
		"SHOW data_directory":                                 s.DataDir,
		"SHOW shared_buffers":                                 "16MB",
		"SHOW max_wal_size":                                   "32MB",
		"SHOW work_mem":                                       "5MB",
		"SHOW listen_addresses":                               "",
		"SHOW synchronous_commit":                             "on",
		"SHOW fsync":                                          "on",
		"SELECT datcollate FROM pg_database WHERE oid > 9999": "C",
	} {
		wantPostgres(t, s.Info, query, want)
	}
	if p := s.Params(); p["shared_buffers"] != "16MB" || p["work_mem"] != "5MB" || !strings.Contains(p["command"], "-D"+s.DataDir) {
		t.Errorf("params %v", p)
	}
	stop(t, s)
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	assertGone(t, o.Root)
}

func TestPostgresDurability(t *testing.T) {
	for durability, want := range map[string]string{"relaxed": "on off", "none": "off off"} {
		t.Run(durability, func(t *testing.T) {
			o := smallPostgres(t)
			o.Durability = durability
			s := startPostgres(t, o)
			wantPostgres(t, s.Info, "SELECT current_setting('fsync') || ' ' || current_setting('synchronous_commit')", want)
		})
	}
}

// TestPostgresPort: the port requires a password, the socket does not.
func TestPostgresPort(t *testing.T) {
	o := smallPostgres(t)
	o.Port = sandbox.PortAuto
	s := startPostgres(t, o)
	wantPostgres(t, s.Info, "SELECT 1", "1")
	tcp := "postgres://root@127.0.0.1:" + strconv.Itoa(s.Port) + "/rowmill"
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("PGPASSWORD", "")
	var refused *pgconn.PgError
	if _, err := askPostgres(t, tcp, "SELECT 1"); err == nil {
		t.Error("no password was needed")
	}
	t.Setenv("PGPASSWORD", "wrong")
	if _, err := askPostgres(t, tcp, "SELECT 1"); !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("with a wrong password: %v", err)
	}
	password, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSWORD", strings.TrimSpace(string(password)))
	if got, err := askPostgres(t, tcp, "SELECT 1"); got != "1" || err != nil {
		t.Errorf("with the password: %q, %v", got, err)
	}
	if strings.Contains(s.Params()["command"], strings.TrimSpace(string(password))) {
		t.Error("the password is on the command line")
	}
	stop(t, s)
	assertGone(t, o.Root)
}

// postgresProcesses returns the processes whose working directory is a data
// directory.
func postgresProcesses(t *testing.T, dataDir string) (pids []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.TrimSuffix(to, " (deleted)") == dataDir {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// busyPostgres returns while a connection executes a statement that does not
// check whether its server still runs.
func busyPostgres(t *testing.T, i sandbox.Info) {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), i.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 3000000000) x WHERE x % 7 = 8").ReadAll()
	}()
	t.Cleanup(func() { <-done })
	eventually(t, "the statement runs", func() bool {
		n, err := askPostgres(t, i.Target(), "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()")
		return err == nil && n == "1"
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
	o := smallPostgres(t)
	s := startPostgres(t, o)
	fi, err := os.Stat(s.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	inode := fi.Sys().(*syscall.Stat_t).Ino
	if sharedMemory(t, inode) != 1 {
		t.Fatal("the server's shared memory is not found")
	}
	if n := len(postgresProcesses(t, s.DataDir)); n < 4 {
		t.Fatalf("%d processes of a server that runs", n)
	}
	busyPostgres(t, s.Info)
	s.Kill()
	if left := postgresProcesses(t, s.DataDir); len(left) > 0 {
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

	s = startPostgres(t, o)
	busyPostgres(t, s.Info)
	begin := time.Now()
	stop(t, s)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("with a client at work, Stop took %v", took)
	}
	assertGone(t, o.Root)
}

// TestPostgresOwnerKilled: the server of a killed process ends with it, and the
// next start removes its files.
func TestPostgresOwnerKilled(t *testing.T) {
	needPostgres(t)
	for name, deep := range map[string]string{"short path": "", "long path": strings.Repeat("long/", 30)} {
		t.Run(name, func(t *testing.T) {
			o := smallPostgres(t)
			o.Root = filepath.Join(filepath.Dir(o.Root), deep, "root")
			c := startChild(t, o)
			info := c.info(t)
			busyPostgres(t, info)
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the server dies", func() bool { return !alive(info.PID) })
			s := startPostgres(t, o)
			if left := postgresProcesses(t, info.DataDir); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
			assertGone(t, info.Dir)
			assertGone(t, filepath.Dir(info.Socket))
			stop(t, s)
			assertGone(t, o.Root)
		})
	}
}

// TestPostgresKeep: data survive a stop and a crash.
func TestPostgresKeep(t *testing.T) {
	o := smallPostgres(t)
	o.Keep = filepath.Join(t.TempDir(), "kept")
	s := startPostgres(t, o)
	for _, q := range []string{"CREATE TABLE t (n INT)", "INSERT INTO t VALUES (42)"} {
		if _, err := askPostgres(t, s.Target(), q); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, s)
	s = startPostgres(t, o)
	wantPostgres(t, s.Info, "SELECT n FROM t", "42")
	s.Kill()
	stop(t, s)
	s = startPostgres(t, o)
	wantPostgres(t, s.Info, "SELECT n FROM t", "42")
	stop(t, s)
	o.Kind = "mariadb"
	if _, err := sandbox.Start(t.Context(), o, nil); err == nil {
		t.Error("another kind of server took the directory")
	}
}

func TestPostgresNamed(t *testing.T) {
	needPostgres(t)
	o := smallPostgres(t)
	info := startNamed(t, "pg", o)
	wantPostgres(t, info, "SELECT 1", "1")
	if in := only(t, o.Root); in.State != sandbox.Running || in.Target() != info.Target() || !strings.HasPrefix(in.ClientCommand(), "psql --host=") {
		t.Errorf("listed as %+v", in)
	}
	if err := sandbox.StopNamed(t.Context(), o.Root, "pg", false); err != nil {
		t.Fatal(err)
	}
	if left := postgresProcesses(t, info.DataDir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	assertGone(t, o.Root)
}

// TestPostgresOrdinaryUser starts a server as the user nobody.
func TestPostgresOrdinaryUser(t *testing.T) {
	needPostgres(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; the other tests have run as one")
	}
	const nobody = 65534
	home, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "program")
	if err := os.WriteFile(program, exe, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	o := smallPostgres(t)
	o.Root = filepath.Join(home, ".rowmill")
	c := startChild(t, o, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args, cmd.Dir = program, []string{program}, home
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CACHE_HOME=", "PATH=/usr/bin:/bin")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	})
	info := c.info(t)
	wantPostgres(t, info, "SELECT current_user", "root")
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, c.stderr)
	}
	assertGone(t, o.Root)
}
