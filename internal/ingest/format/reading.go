package format

import (
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// Reading describes which rows a source has for a table.
type Reading struct {
	// Table and Schema describe the rolling table, which must exist.
	Table  *engine.Table
	Schema *engine.Schema
	// Share, unless nil, restricts the load to some rows.
	Share *Share
	// Values is how values are written.
	Values value.Notation
	// FromTable is the dump's table, or a pattern of path.Match; "" means the name of Table.
	FromTable string
	// OnDuplicate is SkipDuplicate (also if ""), UpdateDuplicate or RejectDuplicate. UpdateDuplicate
	// needs all columns of the primary key, which must be the table's only unique key.
	OnDuplicate string
	// Posted means that the rows come in requests, which have no flags.
	Posted bool
}

// Treatments of rows whose key is already in the table.
const (
	// SkipDuplicate keeps the table's row and counts the duplicate.
	SkipDuplicate = "skip"
	// UpdateDuplicate gives the table's row the values of the columns that the source has.
	UpdateDuplicate = "update"
	// RejectDuplicate writes the duplicate to the file of bad rows.
	RejectDuplicate = "error"
)
