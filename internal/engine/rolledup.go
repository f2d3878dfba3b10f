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
	// Changed are the names of periods whose partitions were replaced or changed unnoticed after the
	// roll-ups were computed. No Ranges are in them.
	Changed []string
	// Same checks, in a session's open transaction, that the partitions of periods are still those
	// from which the roll-ups were computed. It returns the reason if they aren't, else "". database
	// is the table's. Same is nil if rows can't change unnoticed.
	Same func(ctx context.Context, s *Session, database string, periods []string) (why string, err error)
}

// A RolledLevel is one roll-up of a table.
type RolledLevel struct {
	rolling.Rollup
	// Why is the reason why it gives no exact answers; "" if it gives them for Ranges.
	Why string
	// Ranges are the times for which the roll-up matches the table: each bucket has the aggregates of
	// exactly the table's rows. They are disjoint, in order, and consist of whole buckets.
	Ranges []rolling.Period
	// Proof returns a query that checks ranges in the snapshot of the transaction that runs it. Its
	// result is one row; all values are 1 if the roll-up still matches the table. database is the
	// table's.
	Proof func(database string, ranges []rolling.Period) string
}

// Names in a roll-up's table: the columns beside groups and aggregates, and the suffixes of the
// columns from which averages are computed, such as value__n and value__sum.
const (
	RolledBucket = "bucket"
	RolledRows   = "raw_rows"
	RolledNumber = "__n"
	RolledSum    = "__sum"
)

// A PartIdentifier is a DB that can detect changes of a partition that fire no trigger, such as
// TRUNCATE or EXCHANGE PARTITION.
type PartIdentifier interface {
	// PartIdentities returns the identities of the partitions with the given names. With a session, it
	// reads them in the session's open transaction, during which they don't change; without one, at
	// once. database "" is the DB's own.
	PartIdentities(ctx context.Context, s *Session, database, table string, parts []string) (*PartIdentities, error)
	// PartsWritten returns the time of the last commit to each partition. It is nil if the server
	// doesn't answer in time: any partition may then have been changed.
	PartsWritten(ctx context.Context, database, table string) (*PartsWritten, error)
}

// PartsWritten are the times of the last commits that changed partitions.
type PartsWritten struct {
	// At is the time of the last commit by partition name: microseconds since 1970, by the server's
	// clock and in its resolution. Partitions without a known time are missing.
	At map[string]int64
	// Definition is a value that changes with the table's definition. After such a change, the server
	// may have forgotten At. "" is unknown.
	Definition string
}

// PartIdentities identify partitions.
type PartIdentities struct {
	// IDs has an ID by partition name. It changes if the partition is emptied, replaced or created
	// again, or if the table's triggers are replaced. It differs between servers with the same table,
	// such as a replica. A partition without a known ID is missing.
	IDs map[string]string
	// Columns has an ID by column name. It changes if another column gets the name, for example by
	// RENAME COLUMN.
	Columns map[string]string
	// Why is the reason why there are no IDs: a missing privilege, or a storage engine without them.
	Why string
	// While Alters stays the same, no partition can have left the table, been changed, and come back
	// with the same ID. "" is unknown. Now is the time before the IDs were read, by the server's
	// clock.
	Alters string
	Now    int64
}
