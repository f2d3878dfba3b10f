package mysql_test

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

// suites are run on each kind of server.
func TestSuites(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mariadb", "mysql", "mariadb-rocksdb"} {
		open := func(t testing.TB) engine.Keeper { return testdb.Open(t, kind).(engine.Keeper) }
		t.Run(kind, func(t *testing.T) {
			t.Run("Engine", func(t *testing.T) { enginetest.Run(t, func(t testing.TB) engine.DB { return open(t) }) })
			if kind != "mariadb-rocksdb" || testdb.Nightly() { // MariaDB's own stands for it, which renders the same statements
				t.Run("Keeper", func(t *testing.T) { enginetest.RunKeeper(t, open) })
				t.Run("Stager", func(t *testing.T) {
					enginetest.RunStager(t, func(t testing.TB) engine.Stager { return open(t).(engine.Stager) })
				})
			}
			t.Run("Reader", func(t *testing.T) { enginetest.RunReader(t, open) })
			t.Run("Loader", func(t *testing.T) { enginetest.RunLoader(t, open) })
		})
	}
}

func TestAlone(t *testing.T) {
	for _, kind := range []string{"mariadb", "mysql", "mariadb-rocksdb"} {
		t.Run(kind, func(t *testing.T) {
			enginetest.RunAlone(t, func(t testing.TB) engine.DB { return testdb.Open(t, alone(kind)) })
		})
	}
}

// alone returns a kind of server that only this package uses.
func alone(kind string) string {
	if kind == "mariadb-rocksdb" {
		return kind // few other packages use it
	}
	return kind + ownServer
}

// TestHead loads Spider, and lets it read tables of its own server.
func TestHead(t *testing.T) {
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind+ownServer).(*mysql.DB)
			if kind == "mariadb" {
				if _, err := db.Pool().ExecContext(within(t), "INSTALL SONAME 'ha_spider'"); err != nil {
					testdb.Require(t, kind, err)
				}
				t.Cleanup(func() {
					if _, err := db.Pool().ExecContext(context.WithoutCancel(t.Context()), "UNINSTALL SONAME 'ha_spider'"); err != nil {
						t.Error(err)
					}
				})
				_, err := db.Pool().ExecContext(within(t), "SET GLOBAL spider_same_server_link = 1")
				must(t, err)
			}
			enginetest.RunHead(t, enginetest.Heads{
				Open:    func(t testing.TB) engine.Keeper { return testdb.Open(t, kind+ownServer).(engine.Keeper) },
				Other:   func(t testing.TB) engine.Keeper { return testdb.Open(t, kind).(engine.Keeper) },
				Refused: kind == "mysql",
			})
			for _, name := range []string{"a b", "a`b", `a"b`} {
				if _, err := db.Present(within(t), &engine.Head{Table: &engine.Table{Name: name}}); kind == "mariadb" && (err == nil || !strings.Contains(err.Error(), "Spider can't present")) {
					t.Errorf("a table named %s: %v", name, err)
				}
			}
		})
	}
}
