package main

import (
	"errors"
	"os"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// On a node of a Galera cluster, what needs locks between processes is refused with the reason, and
// nothing is created; benchmarks, queries and serving run.
func TestGaleraRefused(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	o := sandbox.Options{Kind: "mariadb", Memory: 96 << 20, Redo: 32 << 20, Root: t.TempDir(), Galera: 1}
	if testdb.Nightly() {
		o.Galera = 3
	}
	s, err := sandbox.Start(t.Context(), o, t.Logf)
	if errors.Is(err, sandbox.ErrNotInstalled) {
		testdb.Require(t, "mariadb", err)
	}
	must(t, err)
	t.Cleanup(func() { _ = s.Stop(t.Context()) })
	must(t, s.Execute(t.Context(), "CREATE TABLE rowmill.b (id BIGINT NOT NULL PRIMARY KEY, ts DATETIME NOT NULL)"))
	must(t, s.CatchUp(t.Context()))
	must(t, os.WriteFile("a.csv", []byte("id,ts\n1,2024-01-01 00:00:00\n"), 0o600))
	for _, node := range append([]*sandbox.Server{s}, s.Nodes...) {
		for _, name := range []string{"a", "b"} {
			must(t, os.WriteFile(name+".toml", []byte("[table]\nname = \""+name+"\"\ntarget = \""+node.Target()+"\"\n"+
				"create = \"CREATE TABLE "+name+" (id BIGINT NOT NULL, ts DATETIME NOT NULL, PRIMARY KEY (id, ts))\"\ntime = \"ts\"\n[period]\nevery = \"1d\"\n"), 0o600))
		}
		for _, args := range []string{"apply a.toml --yes", "apply b.toml --yes", "run a.toml --once", "load a.toml a.csv", "rollup refresh a.toml --from 2024-01-01 --to 2024-01-02", "apply a.toml --dry-run"} {
			got := verb(t, args)
			if got.code != exitFailed {
				t.Errorf("%s: exit code %d\n%s", args, got.code, got.stderr)
			}
			contains(t, got.stderr, "a node of a Galera cluster, where GET_LOCK and LOCK TABLES are local to a node")
			contains(t, got.stderr, "Try: a server outside of a cluster")
		}
		mustPass(t, verb(t, "query --target "+node.Target(), "SELECT COUNT(*) FROM b"))
	}
	if err := s.Execute(t.Context(), "SELECT 'a', id FROM rowmill.a"); err == nil {
		t.Error("the table was created")
	}
	if err := s.Execute(t.Context(), "SELECT 'b', id FROM rowmill.b"); err != nil {
		t.Error(err)
	}
	mustPass(t, verb(t, "bench insert --rows 2k --batch 100 --target "+s.Target()))
}
