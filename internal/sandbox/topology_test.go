//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// replicated are small options of a source with replicas.
func replicated(t *testing.T, kind string) sandbox.Options {
	o := small(t, kind)
	o.Replicas = 1
	if testdb.Nightly() {
		o.Replicas = 2
	}
	o.Memory *= int64(1 + o.Replicas)
	return o
}

// Replicas have the rows of their source, also of the time while they, or the source, were killed.
func TestReplicas(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			s := start(t, replicated(t, kind))
			all := func(rows string) {
				t.Helper()
				must(t, s.CatchUp(t.Context()))
				for i, n := range s.Nodes {
					if got := ask(t, n.Info, "SELECT COUNT(*) FROM t"); got != rows {
						t.Errorf("replica %d has %s rows, want %s", i+1, got, rows)
					}
				}
			}
			if len(s.Nodes) != s.Options.Replicas || s.Role != sandbox.Source || s.Nodes[0].Role != sandbox.Replica || s.Nodes[0].Options.Memory != kinds()[kind].Memory {
				t.Fatalf("%+v", s.Nodes)
			}
			execute(t, s.Info, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
			all("1")
			s.Nodes[0].Kill()
			execute(t, s.Info, "INSERT INTO t VALUES (2)")
			must(t, s.Nodes[0].Restart(t.Context()))
			all("2")
			s.Kill()
			must(t, s.Restart(t.Context()))
			execute(t, s.Info, "INSERT INTO t VALUES (3)")
			all("3")
			pid := s.Nodes[0].Process()
			stop(t, s)
			if alive(pid) {
				t.Error("a replica has outlived its source")
			}
			assertGone(t, s.Options.Root)
		})
	}
}

// A commit on a semi-synchronous source waits for a replica's receipt.
func TestSemiSync(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "postgres") {
		t.Run(kind, func(t *testing.T) {
			o := replicated(t, kind)
			o.SemiSync = true
			s := start(t, o)
			execute(t, s.Info, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
			want(t, s.Info, map[string]map[string]string{
				"mariadb":  {"SELECT VARIABLE_VALUE > 0 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'rpl_semi_sync_master_yes_tx'": "1"},
				"postgres": {"SELECT sync_state FROM pg_stat_replication": "quorum", "SHOW synchronous_commit": "on"},
			}[kind])
		})
	}
	o := small(t, "mysql")
	o.Memory, o.Replicas, o.SemiSync = 2*o.Memory, 1, true
	s, err := sandbox.Start(t.Context(), o, t.Logf)
	if err == nil {
		stop(t, s)
	} else if !errors.Is(err, sandbox.ErrNotInstalled) || !strings.Contains(err.Error(), "semisync_master.so") {
		t.Error(err)
	}
}

// Named replicas are started, stopped and brought back with their source, and each by its own name.
func TestNamedReplicas(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "postgres") {
		t.Run(kind, func(t *testing.T) {
			o := replicated(t, kind)
			o.Port = sandbox.PortAuto
			named := func(name string) sandbox.Info {
				t.Helper()
				info, err := sandbox.StartNamed(t.Context(), name, o, t.Logf)
				must(t, err)
				return info
			}
			t.Cleanup(func() { _ = sandbox.StopNamed(context.Background(), o.Root, "a", false) })
			source := named("a")
			execute(t, source, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
			list, err := sandbox.List(o.Root)
			must(t, err)
			must(t, syscall.Kill(list[1].PID, syscall.SIGKILL))
			eventually(t, "the crash is seen", func() bool {
				list, err = sandbox.List(o.Root)
				return err == nil && list[1].State == sandbox.Crashed
			})
			replica := named("a-1")
			want(t, replica, map[string]string{"SELECT n FROM t": "1"})
			password, err := os.ReadFile(replica.PasswordFile)
			must(t, err)
			db, err := connect(t, replica, strings.TrimSpace(string(password)))
			must(t, err)
			must(t, db.Close())

			// The source comes back on another port.
			must(t, sandbox.StopNamed(t.Context(), o.Root, "a", true))
			if _, err := sandbox.StartNamed(t.Context(), "a-1", o, t.Logf); err == nil || !strings.Contains(err.Error(), "source doesn't run: start a,") {
				t.Error(err)
			}
			source = named("a")
			execute(t, source, "INSERT INTO t VALUES (2)")
			list, err = sandbox.List(o.Root)
			must(t, err)
			eventually(t, "the row arrives", func() bool { return ask(t, list[1].Info, "SELECT COUNT(*) FROM t") == "2" })
			must(t, sandbox.StopNamed(t.Context(), o.Root, "a", false))
			assertGone(t, o.Root)
		})
	}
}

// Servers of a topology end with their owner, however early it is killed, and their files are
// removed.
func TestTopologyOwnerKilled(t *testing.T) {
	t.Parallel()
	kills := 1
	topologies := map[string]func(t *testing.T) sandbox.Options{}
	for _, kind := range testdb.Kinds(t, "mariadb", "postgres") {
		topologies[kind+" with replicas"] = func(t *testing.T) sandbox.Options { return replicated(t, kind) }
	}
	if testdb.Nightly() {
		kills = 50
		topologies["Galera"] = clustered
	}
	for name, options := range topologies {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			for i := range kills {
				c := startChild(t, o)
				if i%5 > 0 { // at any moment of the start
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				} else {
					c.info(t)
				}
				must(t, c.cmd.Process.Kill())
				io.Copy(io.Discard, c.out)
				c.cmd.Wait()
				eventually(t, "the servers die", func() bool { return len(serversIn(t, o.Root)) == 0 })
			}
			o.Replicas, o.Galera = 0, 0
			stop(t, start(t, o))
			assertGone(t, o.Root)
		})
	}
}

// Data are kept of a single server, because replicas would lack what it had before.
func TestTopologyRefuses(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	o.Keep = filepath.Join(t.TempDir(), "kept")
	stop(t, start(t, o))
	o.Replicas, o.Memory = 1, 2*o.Memory
	if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "keep= is for a single server: a named sandbox keeps replicas") {
		t.Error(err)
	}
	for target, want := range map[string]string{
		"sandbox:mariadb?replicas=17":                   "replicas 17: want 1 to 16",
		"sandbox:mariadb?replicas=0":                    `replicas: "0" is not a number`,
		"sandbox:mariadb?replicas=1&spider=1":           "exclude each other",
		"sandbox:mariadb?semisync=true":                 "add replicas=1",
		"sandbox:mariadb?replicas=1&semisync=on":        `unknown semisync "on"`,
		"sandbox:mariadb?replicas=1&set=log_bin=x":      "log_bin can't be set in a sandbox with replicas",
		"sandbox:postgres?replicas=3&memory=16MB":       "request memory=32MB",
		"sandbox:mysql?replicas=1&semisync=true&fdw=1":  "unknown parameter",
		"sandbox:postgres?replicas=1&spider=1":          "unknown parameter",
		"sandbox:postgres?replicas=1&set=wal_level=off": "wal_level can't be set",
		"sandbox:mariadb?galera=0":                      `galera: "0" is not a number`,
		"sandbox:mariadb?galera=17":                     "galera 17: want 1 to 16",
		"sandbox:mariadb?galera=2&replicas=1":           "replicas and galera exclude each other",
		"sandbox:mariadb?galera=2&spider=1":             "spider and galera exclude each other",
		"sandbox:mariadb?galera=2&semisync=true":        "add replicas=1",
		"sandbox:mariadb?galera=2&engine=rocksdb":       "InnoDB alone",
		"sandbox:mariadb?galera=3&memory=16MB":          "request memory=18MB",
		"sandbox:mariadb?galera=3&set=wsrep_on=OFF":     "wsrep_on can't be set in a sandbox with galera",
		"sandbox:mysql?galera=3":                        "unknown parameter",
	} {
		if _, err := sandbox.ParseTarget(target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// clustered are small options of a Galera cluster.
func clustered(t *testing.T) sandbox.Options {
	o := small(t, "mariadb")
	o.Galera = 3
	o.Memory *= int64(o.Galera)
	return o
}

// Each member of a cluster has the rows of the others, also of the time while it was killed.
func TestGalera(t *testing.T) {
	t.Parallel()
	testdb.SkipUnlessNightly(t, "cmd/rowmill TestGaleraRefused")
	s := start(t, clustered(t))
	servers := append([]*sandbox.Server{s}, s.Nodes...)
	all := func(rows string) {
		t.Helper()
		must(t, s.CatchUp(t.Context()))
		for i, n := range servers {
			if got := ask(t, n.Info, "SELECT COUNT(*) FROM t"); got != rows {
				t.Errorf("member %d has %s rows, want %s", i+1, got, rows)
			}
		}
	}
	if len(servers) != 3 || s.Role != sandbox.Member || s.Nodes[1].Role != sandbox.Member || s.Nodes[0].Options.Memory != kinds()["mariadb"].Memory {
		t.Fatalf("%+v", s.Nodes)
	}
	execute(t, s.Info, "CREATE TABLE t (n INT PRIMARY KEY)")
	for i, n := range servers {
		execute(t, n.Info, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
	}
	all("3")
	for i, n := range servers {
		n.Kill()
		execute(t, servers[(i+1)%3].Info, fmt.Sprintf("INSERT INTO t VALUES (%d)", 10+i))
		must(t, n.Restart(t.Context()))
		all(fmt.Sprint(4 + i))
	}
	for _, n := range s.Nodes { // the last one has no majority
		n.Kill()
	}
	for _, n := range s.Nodes {
		must(t, n.Restart(t.Context()))
	}
	all("6")
	stop(t, s)
	assertGone(t, s.Options.Root)
}

// A cluster whose members were all killed comes back with the member that has committed most, also
// by the name of the first.
func TestNamedGalera(t *testing.T) {
	t.Parallel()
	testdb.SkipUnlessNightly(t, "cmd/rowmill TestGaleraRefused")
	o := clustered(t)
	t.Cleanup(func() { _ = sandbox.StopNamed(context.Background(), o.Root, "a", false) })
	list := func() []sandbox.Instance {
		t.Helper()
		all, err := sandbox.List(o.Root)
		must(t, err)
		return all
	}
	named := func(name string) sandbox.Info {
		t.Helper()
		info, err := sandbox.StartNamed(t.Context(), name, o, t.Logf)
		must(t, err)
		return info
	}
	kill := func(at int) {
		t.Helper()
		must(t, syscall.Kill(list()[at].PID, syscall.SIGKILL))
		eventually(t, "the crash is seen", func() bool { return list()[at].State == sandbox.Crashed })
	}
	first := named("a")
	execute(t, first, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	kill(0)
	second := list()[1].Info
	execute(t, second, "INSERT INTO t VALUES (2)")
	kill(1)
	kill(2)
	if _, err := sandbox.StartNamed(t.Context(), "a-1", o, t.Logf); err == nil || !strings.Contains(err.Error(), "a member of a cluster, whose first doesn't run: start a,") {
		t.Error(err)
	}
	want(t, named("a"), map[string]string{"SELECT SUM(n) FROM t": "3"})
	kill(1)
	want(t, named("a-1"), map[string]string{"SELECT SUM(n) FROM t": "3"})

	// It is stopped with its data, and its members come back on other ports.
	must(t, sandbox.StopNamed(t.Context(), o.Root, "a", true))
	want(t, named("a"), map[string]string{"SELECT SUM(n) FROM t": "3"})
	must(t, sandbox.StopNamed(t.Context(), o.Root, "a", false))
	assertGone(t, o.Root)
}
