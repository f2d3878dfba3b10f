//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// What a head needs to present a table a of its node at a socket.
var present = map[string]func(socket string) []string{
	"mariadb": func(socket string) []string {
		return []string{"CREATE SERVER n FOREIGN DATA WRAPPER mysql OPTIONS (SOCKET '" + socket + "', USER 'root', DATABASE 'rowmill')",
			`CREATE TABLE a (id INT PRIMARY KEY) ENGINE=SPIDER COMMENT='wrapper "mysql", srv "n", table "a"'`}
	},
	"postgres": func(socket string) []string {
		return []string{"CREATE SERVER n FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '" + strings.TrimSuffix(socket, "/.s.PGSQL.5432") + "', dbname 'rowmill')",
			"CREATE USER MAPPING FOR CURRENT_USER SERVER n OPTIONS (user 'root', password_required 'false')",
			"CREATE FOREIGN TABLE a (id INT) SERVER n"}
	},
}

// Nodes are started, stopped, brought back and removed with their head, which can present their
// tables.
func TestNodes(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "postgres") {
		statements := present[kind]
		t.Run(kind, func(t *testing.T) {
			o := small(t, kind)
			o.Nodes = 2
			startAll := func() sandbox.Info {
				t.Helper()
				info, err := sandbox.StartNamed(t.Context(), "a", o, t.Logf)
				if errors.Is(err, sandbox.ErrNotInstalled) {
					testdb.Require(t, kind, err)
				}
				must(t, err)
				return info
			}
			states := func() (out string) {
				t.Helper()
				list, err := sandbox.List(o.Root)
				must(t, err)
				for _, in := range list {
					out += in.Name + "<" + in.Head + " " + in.State + ", "
				}
				return out
			}
			t.Cleanup(func() { _ = sandbox.StopNamed(context.Background(), o.Root, "a", false) })
			head := startAll()
			if got := states(); got != "a< running, a-1<a running, a-2<a running, " {
				t.Fatal(got)
			}
			list, err := sandbox.List(o.Root)
			must(t, err)
			execute(t, list[1].Info, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (7)")
			execute(t, head, statements(list[1].Socket)...)
			want(t, head, map[string]string{"SELECT SUM(id) FROM a": "7"})

			must(t, syscall.Kill(list[2].PID, syscall.SIGKILL))
			eventually(t, "the crash is seen", func() bool { return strings.Contains(states(), "a-2<a crashed") })
			must(t, sandbox.StopNamed(t.Context(), o.Root, "a", true))
			if got := states(); got != "a< stopped, a-1<a stopped, a-2<a stopped, " {
				t.Fatal(got)
			}
			head = startAll()
			want(t, head, map[string]string{"SELECT SUM(id) FROM a": "7"})
			must(t, sandbox.StopNamed(t.Context(), o.Root, "a", false))
			if got := states(); got != "" {
				t.Errorf("left %s", got)
			}

			// A sandbox that has the name of a node is nobody's.
			o.Nodes = 0
			_, err = sandbox.StartNamed(t.Context(), "b-1", o, t.Logf)
			must(t, err)
			t.Cleanup(func() { _ = sandbox.StopNamed(context.Background(), o.Root, "b-1", false) })
			o.Nodes = 1
			if _, err := sandbox.StartNamed(t.Context(), "b", o, t.Logf); err == nil || !strings.Contains(err.Error(), "a sandbox of that name") {
				t.Error(err)
			}

			// Those of a run end with it.
			s := start(t, o)
			pid := s.Nodes[0].PID
			if len(s.Nodes) != 1 || !alive(pid) {
				t.Error(s.Nodes)
			}
			stop(t, s)
			if _, err := os.Stat(s.Nodes[0].Dir); alive(pid) || err == nil {
				t.Error("a node has outlived its head")
			}
		})
	}
}
