package maintain

import (
	"time"
)

// A Status describes the state of a rolling table, for people and programs. Times
// are UTC; durations are in seconds; positions of time axes are given as times.
type Status struct {
	Format string    `json:"format"` // rowmill.status/1
	Table  string    `json:"table"`
	Target string    `json:"target"`
	Engine string    `json:"engine"`
	At     time.Time `json:"at"`
	// Now is the present on the table's axis: At, or a clock's time, or for a
	// sequence the highest key.
	Now string `json:"now"`
	// Every, Ahead and Keep are as written in the declaration.
	Every string `json:"every"`
	Ahead string `json:"ahead"`
	Keep  string `json:"keep,omitempty"`

	Periods []PeriodStatus `json:"periods"`
	Rows    int64          `json:"rows"`  // estimated
	Bytes   int64          `json:"bytes"` // data and indexes
	// Headroom is how long inserts will find a period if no more are created: from
	// the present to the end of the last period. HeadroomWanted is the declared
	// value. Both are null for a sequence, which has HeadroomRows instead.
	Headroom       *float64 `json:"headroom_seconds"`
	HeadroomWanted *float64 `json:"headroom_wanted_seconds"`
	HeadroomRows   *int64   `json:"headroom_rows,omitempty"`

	Rollups []RollupStatus `json:"rollups"`
	// Late is the maximum time for which roll-ups and their live views may lack
	// late rows.
	Late string `json:"late_rows,omitempty"`
	// Adopting means that the table is a plain one in conversion to a rolling one,
	// or back: its periods are not known.
	Adopting bool `json:"adopting,omitempty"`
	// Leader is the process that keeps the table, as far as can be seen; "" if
	// there is none.
	Leader string `json:"leader"`
	// Changes are those in progress.
	Changes []ChangeStatus `json:"changes"`
	// Actions are the latest ones, newest first.
	Actions []ActionStatus `json:"actions"`
	// Next are the next tasks, in order.
	Next []NextStatus `json:"next"`
	// Blockers are the transactions that delay due tasks. Rowmill's own are
	// included only if they have been open for minutes.
	Blockers []BlockerStatus `json:"blockers"`
	// Hidden lists information that the account can't read, and the grants that it
	// needs.
	Hidden []HiddenStatus `json:"hidden,omitempty"`
	// Problems require action. If there are none, rowmill status exits with 0.
	Problems []Problem `json:"problems"`
}

// PeriodStatus is the status of one period.
type PeriodStatus struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	// State is ahead (not begun), open, closing (its end has passed),
	// sealed, archived, restored or dropped.
	State string `json:"state"`
	Rows  int64  `json:"rows"` // estimated unless sealed
	Bytes int64  `json:"bytes"`
	// Rebuilt means that its rows are sorted and, if so declared, compressed.
	Rebuilt bool   `json:"rebuilt"`
	Archive string `json:"archive,omitempty"`
}

// RollupStatus is the status of one level.
type RollupStatus struct {
	Name  string `json:"name"`
	Every string `json:"every"`
	// To is the watermark, "" before the first bucket. Lag is its distance from the
	// end of the last complete bucket.
	To    string  `json:"to"`
	Lag   float64 `json:"lag_seconds"`
	Stale int64   `json:"stale_buckets"`
	Rows  int64   `json:"rows"`
}

// ChangeStatus is the status of a change in progress.
type ChangeStatus struct {
	What    string    `json:"what"`
	Step    string    `json:"step"`
	Since   time.Time `json:"since"`
	Tries   int       `json:"failed_tries"`
	Error   string    `json:"error,omitempty"`
	Percent *float64  `json:"percent,omitempty"`
	// Rows are the rows that the step has processed, of about Of; 0 if it counts none.
	Rows int64 `json:"rows,omitempty"`
	Of   int64 `json:"of_rows,omitempty"`
	// Interrupted means that it stopped before its end, and that no process is
	// working on it.
	Interrupted bool `json:"interrupted,omitempty"`
}

// ActionStatus is a past action.
type ActionStatus struct {
	At      time.Time `json:"at"`
	Action  string    `json:"action"`
	Detail  string    `json:"detail"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	// Locked means that it failed because a lock was not granted.
	Locked bool   `json:"locked,omitempty"`
	By     string `json:"by"`
}

// NextStatus is a pending task.
type NextStatus struct {
	Action string `json:"action"` // create, rollup, seal, rebuild, merge, archive, drop
	What   string `json:"what"`
	// At is when it is due; if that is past, it is due at once.
	At  *time.Time `json:"at,omitempty"`
	Why string     `json:"why,omitempty"`
}

// BlockerStatus is a transaction that blocks a task.
type BlockerStatus struct {
	ID        int64   `json:"id"`
	User      string  `json:"user"`
	Host      string  `json:"host"`
	Age       float64 `json:"age_seconds"`
	Statement string  `json:"statement"`
	// Own means that it is rowmill's own.
	Own bool `json:"own,omitempty"`
}

// HiddenStatus describes information that the server shows to other accounts only.
type HiddenStatus struct {
	What  string `json:"what"`
	Grant string `json:"grant"`
}

// A Problem requires action.
type Problem struct {
	// Code is one of headroom, blocked, gap, stopped, rollup, failed, outside,
	// declaration, triggers.
	Code string `json:"code"`
	Text string `json:"text"`
	Try  string `json:"try,omitempty"`
}
