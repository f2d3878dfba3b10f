package mysql_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

func TestMariaDB(t *testing.T) {
	enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "mariadb") })
}

func TestRocksDB(t *testing.T) {
	enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "mariadb-rocksdb") })
}

func TestMySQL(t *testing.T) {
	enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "mysql") })
}

func TestKeeperMariaDB(t *testing.T) {
	enginetest.RunKeeper(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "mariadb").(engine.Keeper) })
}

func TestKeeperRocksDB(t *testing.T) {
	enginetest.RunKeeper(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "mariadb-rocksdb").(engine.Keeper) })
}

func TestKeeperMySQL(t *testing.T) {
	enginetest.RunKeeper(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "mysql").(engine.Keeper) })
}

func TestLoaderMariaDB(t *testing.T) {
	enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "mariadb").(engine.Keeper) })
}

func TestLoaderRocksDB(t *testing.T) {
	enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "mariadb-rocksdb").(engine.Keeper) })
}

func TestLoaderMySQL(t *testing.T) {
	enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "mysql").(engine.Keeper) })
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
