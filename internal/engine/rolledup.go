package engine

import (
	"context"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A RolledTable describes a rolling table and its roll-ups to a query planner.
type RolledTable struct {
	// Why is the reason why no roll-up of the table gives exact answers; "" if some may.
	Why string
	// Time is the column by which the table rolls. Unit is the unit of an integer column, such as a
	// second; 0 for other types. Zoned reports a type that is shown in the session's time zone.
	Time  SchemaColumn
	Unit  time.Duration
	Zoned bool
	// Untyped reports that columns accept values of other types, as in SQLite.
	Untyped bool
	// Columns are the table's, Periods its partitions in order.
	Columns []SchemaColumn
	Periods []rolling.Partition
	Levels  []RolledLevel
	// Literal returns a position as an SQL literal of the type of Time.
	Literal func(pos int64) string
	// Changed are periods whose rows have changed unnoticed since the roll-ups were computed. They are
	// outside of all Ranges.
	Changed []string
	// Same says, in a session's open transaction, why the roll-ups may not match the rows of periods,
	// or "". database is the table's. It is nil if rows can't change unnoticed.
	Same func(ctx context.Context, s *Session, database string, periods []string) (why string, err error)
}

// A RolledLevel is one roll-up of a table.
type RolledLevel struct {
	rolling.Rollup
	// Why is the reason why it gives no exact answers; "" if it gives them for Ranges.
	Why string
	// Ranges are the times of the buckets that match the table's rows: disjoint, and in order.
	Ranges []rolling.Period
	// Proof returns a query for one row of values, which are all 1 if the roll-up matches the table in
	// ranges. database is the table's.
	Proof func(database string, ranges []rolling.Period) string
}

// Names of columns in a roll-up's table, and suffixes of those from which averages are computed,
// such as value__n and value__sum.
const (
	RolledBucket = "bucket"
	RolledRows   = "raw_rows"
	RolledNumber = "__n"
	RolledSum    = "__sum"
)

// A PartIdentifier is a DB that can detect changes of a partition that fire no trigger, such as
// TRUNCATE or EXCHANGE PARTITION.
type PartIdentifier interface {
	// PartIdentities returns the identities of the named partitions. With a session, they hold until
	// the end of its open transaction. database "" is the DB's own.
	PartIdentities(ctx context.Context, s *Session, database, table string, parts []string) (*PartIdentities, error)
	// PartsWritten returns when partitions were last changed, or nil if the server doesn't answer in
	// time.
	PartsWritten(ctx context.Context, database, table string) (*PartsWritten, error)
}

// PartsWritten are the times of the last commits that changed partitions.
type PartsWritten struct {
	// At has the times by partition, if they are known, in microseconds since 1970 by the server's
	// clock.
	At map[string]int64
	// Definition changes with the table's definition, after which the server may have forgotten At. ""
	// is unknown.
	Definition string
}

// PartIdentities identify partitions.
type PartIdentities struct {
	// IDs has an ID by partition, if it is known. It changes if the partition is emptied, replaced or
	// created again, or if the table's triggers are replaced. Another server has other IDs.
	IDs map[string]string
	// Columns has an ID by column. It changes if another column gets the name.
	Columns map[string]string
	// Why says why there are no IDs.
	Why string
	// While Alters stays the same, no partition can have left the table, been changed, and come back
	// with its ID. "" is unknown. Now is the server's time before the IDs were read.
	Alters string
	Now    int64
}
