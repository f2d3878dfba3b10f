package engine

import (
	"context"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A RolledTable is a rolling table with its roll-ups, as those who answer queries see them.
type RolledTable struct {
	// Why is why no roll-up of the table answers a query exactly; "" if some may.
	Why string
	// Time is the column by which the table rolls. Unit is what a value of an integer column counts; 0
	// for other types. Zoned reports a type whose texts depend on the session's time zone.
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
	// Changed are the names of periods whose partitions aren't those of which the roll-ups have the
	// rows: no Ranges are in them.
	Changed []string
	// Same returns why partitions of periods aren't those of which the roll-ups have the rows, in the
	// open transaction of a session; "" if they are. It is nil where nothing changes rows unnoticed.
	// Database is that of the table.
	Same func(ctx context.Context, s *Session, database string, periods []string) (why string, err error)
}

// A RolledLevel is one roll-up of a table.
type RolledLevel struct {
	rolling.Rollup
	// Why is why it answers no query exactly; "" if it does for Ranges.
	Why string
	// Ranges are disjoint and in order. Each consists of whole buckets that have the aggregates of
	// exactly the rows that the table has.
	Ranges []rolling.Period
	// Proof returns a query with one row, whose values are 1 as long as that holds for these ranges,
	// in the snapshot of the transaction that runs it. Database is that of the table.
	Proof func(database string, ranges []rolling.Period) string
}

// Columns of a RolledLevel's table beside its groups and its aggregates, and the suffixes of the
// columns from which averages are computed.
const (
	RolledBucket = "bucket"
	RolledRows   = "raw_rows"
	RolledNumber = "__n"
	RolledSum    = "__sum"
)

// A PartIdentifier is a DB that can tell that a partition's rows were replaced, or changed by what
// fires no trigger.
type PartIdentifier interface {
	// PartIdentities returns what identifies partitions of a table, by their names, in the open
	// transaction of a session, during which it doesn't change; without a session, at the moment. An
	// empty name of a database is that of the DB.
	PartIdentities(ctx context.Context, s *Session, database, table string, parts []string) (*PartIdentities, error)
	// PartsWritten returns when a commit last changed partitions. It is nil if the server doesn't tell
	// in time: then any may have been changed.
	PartsWritten(ctx context.Context, database, table string) (*PartsWritten, error)
}

// PartsWritten are the last commits that changed partitions.
type PartsWritten struct {
	// At is when, by the partitions' names, in microseconds since 1970 by the server's clock, in its
	// resolution. It has those of which that is known.
	At map[string]int64
	// Definition is another one after a change of the table's definition, with which the server may
	// have forgotten At. "" if none is known.
	Definition string
}

// PartIdentities identify partitions.
type PartIdentities struct {
	// IDs differ if a partition was emptied, replaced or created again, or if the table's triggers
	// were, and from those of another server that has the same table, such as a replica. A partition
	// of which that isn't known has none.
	IDs map[string]string
	// Columns differ, by their names, if the table has another column of that name, as after columns
	// were renamed.
	Columns map[string]string
	// Why is why there are none: a missing privilege, or a storage engine that has none.
	Why string
	// Alters is the same as long as no partition can have left the table and have come back, changed,
	// with the same ID. "" proves nothing. Now is the server's clock before they were read, as that of
	// PartsWritten.
	Alters string
	Now    int64
}
