package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

func TestPostgres(t *testing.T) {
	enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "postgres") })
}

func TestKeeper(t *testing.T) {
	enginetest.RunKeeper(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "postgres").(engine.Keeper) })
}

func TestReader(t *testing.T) {
	enginetest.RunReader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "postgres").(engine.Keeper) })
}

func TestLoader(t *testing.T) {
	enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "postgres").(engine.Keeper) })
}

func TestAlone(t *testing.T) {
	enginetest.RunAlone(t, func(t testing.TB) engine.DB { return openAlone(t) })
}

// TestLoaderCopies runs the suite with COPY wherever it is possible.
func TestLoaderCopies(t *testing.T) {
	enginetest.RunLoaderRows(t, func(t testing.TB) engine.Keeper {
		db := testdb.Open(t, "postgres").(*postgres.DB)
		db.SetCopyRows(1)
		return db
	})
}

func TestStager(t *testing.T) {
	enginetest.RunStager(t, func(t testing.TB) engine.Stager { return testdb.Open(t, "postgres").(engine.Stager) })
}

func TestHead(t *testing.T) {
	t.Parallel()
	enginetest.RunHead(t, enginetest.Heads{
		Open:  func(t testing.TB) engine.Keeper { return testdb.Open(t, "postgres").(engine.Keeper) },
		Other: func(t testing.TB) engine.Keeper { return openAlone(t) },
	})
}
