package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// On a node of a Galera cluster, what needs locks between processes is refused with the reason, and nothing is
// created; benchmarks and queries run.
func TestGaleraRefused(t *testing.T) {
	const library = "/usr/lib/galera/libgalera_smm.so"
	_, err := os.Stat(library)
	testdb.Require(t, "mariadb", err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	group := l.Addr().String()
	port := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	t.Chdir(t.TempDir())
	s, err := sandbox.Start(t.Context(), sandbox.Options{Kind: "mariadb", Memory: 32 << 20, Redo: 32 << 20, Root: t.TempDir(), Set: map[string]string{
		"wsrep_on": "ON", "wsrep_provider": library, "wsrep_cluster_address": "gcomm://", "binlog_format": "ROW", "innodb_autoinc_lock_mode": "2",
		"wsrep_node_address":     "127.0.0.1",
		"wsrep_provider_options": fmt.Sprintf("base_port=%d;gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=10M", port, group, group),
	}}, t.Logf)
	must(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	must(t, os.WriteFile("a.toml", []byte("[table]\nname = \"a\"\ntarget = \""+s.Target()+"\"\n"+
		"create = \"CREATE TABLE a (id BIGINT NOT NULL, ts DATETIME NOT NULL, PRIMARY KEY (id, ts))\"\ntime = \"ts\"\n[period]\nevery = \"1d\"\n"), 0o600))
	must(t, os.WriteFile("a.csv", []byte("id,ts\n1,2024-01-01 00:00:00\n"), 0o600))
	must(t, s.Execute(t.Context(), "CREATE TABLE rowmill.b (id BIGINT NOT NULL PRIMARY KEY, ts DATETIME NOT NULL)"))
	for _, args := range []string{"apply a.toml --yes", "run a.toml --once", "load a.toml a.csv"} {
		got := verb(t, args)
		if got.code != exitFailed {
			t.Errorf("%s: exit code %d\n%s", args, got.code, got.stderr)
		}
		contains(t, got.stderr, "a node of a Galera cluster, where GET_LOCK and LOCK TABLES are local to a node")
		contains(t, got.stderr, "Try: a server outside of a cluster")
	}
	if err := s.Execute(t.Context(), "SELECT 'a', id FROM rowmill.a"); err == nil {
		t.Error("the table was created")
	}
	if err := s.Execute(t.Context(), "SELECT 'b', id FROM rowmill.b"); err != nil {
		t.Error(err)
	}
	mustPass(t, verb(t, "bench insert --rows 2k --batch 100 --target "+s.Target()))
	mustPass(t, verb(t, "query --target "+s.Target(), "SELECT COUNT(*) FROM b"))
}
