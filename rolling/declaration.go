package rolling

import "time"

// A Declaration describes a rolling table, as ParseDeclaration reads it from TOML.
// It has passed all checks that need no server.
type Declaration struct {
	// Source is the name of the file, for messages.
	Source string
	// Text is the unchanged text of the file.
	Text string
	// Name is the table's name, Target its database as a URL.
	Name, Target string
	// Definition is its CREATE TABLE statement.
	Definition *Definition
	// Time is the column by which the table rolls: a time, an integer that counts
	// Epoch since 1970, or, with periods of rows, an integer key.
	Time  string
	Epoch time.Duration // 0 unless Time is an integer on an axis of time
	// Period is the grid that divides the axis. It is the zero Grid if Auto is set,
	// which means that the period is to be determined by measuring.
	Period Grid
	Auto   bool
	// Ahead is how far ahead periods are created, Keep the retention; the zero Span
	// keeps all.
	Ahead, Keep Span
	// Late is the policy for rows that arrive after their period is sealed.
	Late Late
	// Exact requests a trigger that records late rows as they arrive, so that
	// roll-ups are correct even if writers bypass rowmill.
	Exact bool
	Seal  Seal
	// Rollups are in the order of the file; each comes after the one named by its
	// From.
	Rollups []Rollup
	// Warnings are about settings that are permitted but probably unintended, each
	// with its place.
	Warnings []string
}

// Late is the policy for rows that arrive after their period is sealed.
type Late int

// Policies for late rows.
const (
	// LateMerge accepts them; the period is unsealed, its checksum is recomputed,
	// and it is sealed again.
	LateMerge Late = iota
	// LateReject creates a trigger that fails their insert with a message that
	// states the reason.
	LateReject
)

// Seal describes what happens to a period that no longer takes inserts.
type Seal struct {
	// After is how long after its end a period is sealed.
	After Span
	// Compress requests that sealed periods are rebuilt, sorted and compressed.
	Compress bool
	// Merge is the longer period into which sealed ones are merged; the zero Grid
	// merges none.
	Merge Grid
	// Archive is the directory of the Parquet files to which each period is written
	// before it is dropped; "" archives none.
	Archive string
}

// A Rollup is a continuous aggregate: a level of lower resolution.
type Rollup struct {
	// Name is the name of its table.
	Name string
	// From is the level that it is computed from, "" for the table itself.
	From string
	// Every is the length of a bucket.
	Every Grid
	// By are the columns that it groups by, in addition to the bucket.
	By []string
	// Select are its aggregates, in the order of the file.
	Select []Aggregate
	// Keep is the retention of its buckets; the zero Span keeps all.
	Keep Span
	// Line is the line of the file at which it begins.
	Line int
}

// An Aggregate is one column of a roll-up.
type Aggregate struct {
	// Name is the column's name.
	Name string
	// Func is count, sum, avg, min, max, stddev, variance, first, last,
	// distinct or percentile.
	Func string
	// Column is the aggregated column; "" for count(*).
	Column string
	// Percent is the percentage of a percentile, above 0 and below 100.
	Percent float64
}
