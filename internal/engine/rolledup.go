package engine

import (
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A RolledTable is a rolling table with its roll-ups, as those who answer queries see them.
type RolledTable struct {
	// Why is why no roll-up of the table answers a query exactly; "" if some may.
	Why string
	// Time is the column by which the table rolls. Unit is what a value of an integer column counts; 0 for other types. Zoned
	// reports a type whose texts depend on the session's time zone.
	Time  SchemaColumn
	Unit  time.Duration
	Zoned bool
	// Untyped reports that columns accept values outside of their types.
	Untyped bool
	// Columns are the table's, Periods its partitions in order.
	Columns []SchemaColumn
	Periods []rolling.Partition
	Levels  []RolledLevel
	// Literal is a position as a literal of the type of Time.
	Literal func(pos int64) string
}

// A RolledLevel is one roll-up of a table.
type RolledLevel struct {
	rolling.Rollup
	// Why is why it answers no query exactly; "" if it does for Ranges.
	Why string
	// Ranges are disjoint and in order. Each consists of whole buckets that have the aggregates of exactly the
	// rows that the table has.
	Ranges []rolling.Period
	// Proof returns a query with one row, whose values are 1 as long as that holds for these ranges, in the snapshot
	// of the transaction that runs it. Database is that of the table.
	Proof func(database string, ranges []rolling.Period) string
}

// Columns of a RolledLevel's table beside its groups and its aggregates, and the suffixes of the columns from which averages
// are computed.
const (
	RolledBucket = "bucket"
	RolledRows   = "raw_rows"
	RolledNumber = "__n"
	RolledSum    = "__sum"
)
