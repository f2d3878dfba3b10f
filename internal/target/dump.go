package target

import (
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/engine/postgres"
)

// Dumps returns the kinds of dumps that can be read. One that has no marks of another is of
// the last kind.
func Dumps() []engine.Dump { return []engine.Dump{postgres.Dump(), mysql.Dump()} }
