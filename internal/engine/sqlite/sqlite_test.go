package sqlite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "sqlite") })
}

func TestAlone(t *testing.T) {
	enginetest.RunAlone(t, func(t testing.TB) engine.DB { return testdb.Open(t, "sqlite") })
}

func TestKeeper(t *testing.T) {
	enginetest.RunKeeper(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "sqlite").(engine.Keeper) })
}

func TestLoader(t *testing.T) {
	enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "sqlite").(engine.Keeper) })
}

func TestStager(t *testing.T) {
	enginetest.RunStager(t, func(t testing.TB) engine.Stager { return testdb.Open(t, "sqlite").(engine.Stager) })
}

func TestReader(t *testing.T) {
	enginetest.RunReader(t, func(t testing.TB) engine.Keeper { return testdb.Open(t, "sqlite").(engine.Keeper) })
}
