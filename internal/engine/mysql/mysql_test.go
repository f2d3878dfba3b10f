package mysql_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
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
			t.Run("Keeper", func(t *testing.T) { enginetest.RunKeeper(t, open) })
			t.Run("Reader", func(t *testing.T) { enginetest.RunReader(t, open) })
			t.Run("Loader", func(t *testing.T) { enginetest.RunLoader(t, open) })
			t.Run("Stager", func(t *testing.T) {
				enginetest.RunStager(t, func(t testing.TB) engine.Stager { return open(t).(engine.Stager) })
			})
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
