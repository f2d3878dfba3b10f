package sample

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }
