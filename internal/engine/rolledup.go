package engine

import (
	"context"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A RolledTable describes a rolling table and its roll-ups to a query planner.
type RolledTable struct {
	// Why is the reason why no roll-up of the table gives exact answers; "" if some of them may.
	Why string
	// Time is the column by which the table rolls. If it is an integer, Unit is its unit, such as a
	// second; else Unit is 0. Zoned reports a type that the server shows in the session's time zone.
	Time  SchemaColumn
	Unit  time.Duration
	Zoned bool
	// Untyped reports that columns accept values of other types, as in SQLite.
	Untyped bool
	// Columns are those of the table. Periods are its partitions in order.
	Columns []SchemaColumn
	Periods []rolling.Partition
	Levels  []RolledLevel
	// Literal returns a position as an SQL literal of the type of Time.
	Literal func(pos int64) string
	// Changed are periods whose rows have changed since the roll-ups were computed, in a way that
	// rowmill didn't note, such as TRUNCATE. No RolledLevel's Ranges include them.
	Changed []string
	// Same returns, in a session's open transaction, why the roll-ups may not match the rows of
	// periods, or "". database is the table's database. Same is nil if rowmill notices every change of
	// rows.
	Same func(ctx context.Context, s *Session, database string, periods []string) (why string, err error)
}

// A RolledLevel is one roll-up of a table.
type RolledLevel struct {
	rolling.Rollup
	// Why is the reason why the roll-up gives no exact answers; "" if it gives them for Ranges.
	Why string
	// Ranges are the times for which buckets match the table's rows: disjoint, and in order.
	Ranges []rolling.Period
	// Proof returns a query for one row of values. All values are 1 if the roll-up matches the table
	// in the ranges. database is the table's database.
	Proof func(database string, ranges []rolling.Period) string
}

// Names of columns in a roll-up's table, and suffixes of the columns from which averages are
// computed: for example, value__n and value__sum.
const (
	RolledBucket = "bucket"
	RolledRows   = "raw_rows"
	RolledNumber = "__n"
	RolledSum    = "__sum"
)

// A PartIdentifier is a DB that can detect changes of a partition that fire no trigger, such as
// TRUNCATE or EXCHANGE PARTITION.
type PartIdentifier interface {
	// PartIdentities returns the identities of the named partitions. With a session, they stay valid
	// until its open transaction ends. If database is "", the DB's own database is meant.
	PartIdentities(ctx context.Context, s *Session, database, table string, parts []string) (*PartIdentities, error)
	// PartsWritten returns the times of the last changes of partitions, or nil if the server doesn't
	// answer in time.
	PartsWritten(ctx context.Context, database, table string) (*PartsWritten, error)
}

// PartsWritten are the times of the last commits that changed partitions.
type PartsWritten struct {
	// At has the known times by partition, in microseconds since 1970 by the server's clock.
	At map[string]int64
	// Definition is a text that changes whenever the table's definition does; "" is unknown. After
	// such a change, the server may have forgotten earlier commits: then At lacks their times.
	Definition string
}

// PartIdentities tell a partition from another one that has taken its name.
type PartIdentities struct {
	// IDs has an ID by partition, if it is known. The ID changes if the partition is emptied, replaced
	// or created again, or if the table's triggers are replaced. It differs between servers.
	IDs map[string]string
	// Columns has an ID by column. The ID changes if another column takes the column's name.
	Columns map[string]string
	// Why says why there are no IDs.
	Why string
	// Alters, unless "", is a text that changes whenever a partition may have left the table, been
	// changed, and come back with its ID. Now is the server's time before the IDs were read.
	Alters string
	Now    int64
}
