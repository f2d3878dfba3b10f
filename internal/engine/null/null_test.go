package null_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/null"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(t testing.TB) engine.DB { return testdb.Open(t, "null") })
}

func TestAlone(t *testing.T) {
	enginetest.RunAlone(t, func(t testing.TB) engine.DB { return testdb.Open(t, "null") })
}

func TestTarget(t *testing.T) {
	for name, ok := range map[string]bool{"null:": true, "null:x": false, "null://host": false, "null:?a=b": false} {
		target, err := engine.ParseTarget(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := null.Open(target); (err == nil) != ok {
			t.Errorf("open %s: %v", name, err)
		}
	}
}
