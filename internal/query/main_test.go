package query

import (
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }
