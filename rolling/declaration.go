package rolling

import "time"

// A Declaration is what a team says of a rolling table, as ParseDeclaration
// reads it from TOML. It has been checked as far as that goes without a server.
type Declaration struct {
	// Source is the file it came from, for messages.
	Source string
	// Text is the file as it was.
	Text string
	// Name is the table's, Target its database as a URL.
	Name, Target string
	// Definition is its CREATE TABLE statement.
	Definition *Definition
	// Time is the column it rolls by: a time, an integer that counts Epoch
	// since 1970, or, with periods of rows, an integer key.
	Time  string
	Epoch time.Duration // 0 unless Time is an integer on an axis of time
	// Period is how the axis is cut. It is the zero Grid where Auto says that
	// the period is to be found by measuring.
	Period Grid
	Auto   bool
	// Ahead is how far periods are kept ready, Keep how far back they are
	// kept; the zero Span keeps all.
	Ahead, Keep Span
	// Late is what becomes of rows that arrive after their period is sealed.
	Late Late
	// Exact asks for a trigger that notes late rows as they arrive, so that
	// roll-ups are right also when writers bypass rowmill.
	Exact bool
	Seal  Seal
	// Rollups are in the order of the file; each comes after the one it
	// is From.
	Rollups []Rollup
	// Warnings are what is allowed, but will hardly be what was meant, each
	// with its place.
	Warnings []string
}

// Late is what becomes of rows that arrive after their period is sealed.
type Late int

// Policies for late rows.
const (
	// LateMerge lets them in; the period is unsealed, summed up anew and sealed
	// again.
	LateMerge Late = iota
	// LateReject has a trigger fail their insert with a message that says why.
	LateReject
)

// Seal says what becomes of a period that takes no more inserts.
type Seal struct {
	// After is how long after its end a period is sealed.
	After Span
	// Compress has sealed periods rebuilt, sorted and compressed.
	Compress bool
	// Merge is the longer period into which sealed ones are merged; the zero
	// Grid merges none.
	Merge Grid
	// Archive is the directory of the Parquet files that each period is written
	// to before it is dropped; "" archives none.
	Archive string
}

// A Rollup is a level of lower resolution.
type Rollup struct {
	// Name is its table's.
	Name string
	// From is the level it is made of, "" for the table itself.
	From string
	// Every is the length of a bucket.
	Every Grid
	// By are the columns it groups by besides the bucket.
	By []string
	// Select are its aggregates, in the order of the file.
	Select []Aggregate
	// Keep is how far back its buckets are kept; the zero Span keeps all.
	Keep Span
	// Line is where it begins in the file.
	Line int
}

// An Aggregate is one column of a roll-up.
type Aggregate struct {
	// Name is the column's.
	Name string
	// Func is count, sum, avg, min, max, stddev, variance, first, last,
	// distinct or percentile.
	Func string
	// Column is what it is of; "" for count(*).
	Column string
	// Percent is that of a percentile, above 0 and below 100.
	Percent float64
}
