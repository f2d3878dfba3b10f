package maintain

import (
	"time"
)

// A Status is how a rolling table stands, for people and programs. Times are
// UTC; durations are in seconds; positions of time axes are given as times.
type Status struct {
	Format string    `json:"format"` // rowmill.status/1
	Table  string    `json:"table"`
	Target string    `json:"target"`
	Engine string    `json:"engine"`
	At     time.Time `json:"at"`
	// Now is the present on the table's axis: At, or a clock's time, or for a
	// sequence the highest key.
	Now string `json:"now"`
	// Every, Ahead and Keep are those of the declaration, in its words.
	Every string `json:"every"`
	Ahead string `json:"ahead"`
	Keep  string `json:"keep,omitempty"`

	Periods []PeriodStatus `json:"periods"`
	Rows    int64          `json:"rows"`  // estimated
	Bytes   int64          `json:"bytes"` // data and indexes
	// Headroom is for how long inserts go on finding a period if nobody
	// creates another: from now to the end of the last one. HeadroomWanted is
	// what the declaration asks for. Both are null for a sequence, whose
	// HeadroomRows are left.
	Headroom       *float64 `json:"headroom_seconds"`
	HeadroomWanted *float64 `json:"headroom_wanted_seconds"`
	HeadroomRows   *int64   `json:"headroom_rows,omitempty"`

	Rollups []RollupStatus `json:"rollups"`
	// Late says for how long roll-ups and their live views may lack rows that came
	// late, at most.
	Late string `json:"late_rows,omitempty"`
	// Adopting tells that the table is a plain one that becomes a rolling one,
	// or goes back to that: periods are not known then.
	Adopting bool `json:"adopting,omitempty"`
	// Leader is who keeps the table now, as far as can be seen; "" is nobody.
	Leader string `json:"leader"`
	// Changes are those under way.
	Changes []ChangeStatus `json:"changes"`
	// Actions are the last ones, newest first.
	Actions []ActionStatus `json:"actions"`
	// Next is what is to be done next, in order.
	Next []NextStatus `json:"next"`
	// Blockers are the transactions that hold up what is due: those of others,
	// and rowmill's own ones only where they have been open for minutes.
	Blockers []BlockerStatus `json:"blockers"`
	// Hidden is what the account isn't shown, and which grant would show it.
	Hidden []HiddenStatus `json:"hidden,omitempty"`
	// Problems need a person. None makes rowmill status exit with 0.
	Problems []Problem `json:"problems"`
}

// PeriodStatus is one period.
type PeriodStatus struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	// State is ahead (not begun), open, closing (its end has passed),
	// sealed, archived, restored or dropped.
	State string `json:"state"`
	Rows  int64  `json:"rows"` // estimated unless sealed
	Bytes int64  `json:"bytes"`
	// Rebuilt tells that it lies sorted and, where declared, compressed.
	Rebuilt bool   `json:"rebuilt"`
	Archive string `json:"archive,omitempty"`
}

// RollupStatus is one level.
type RollupStatus struct {
	Name  string `json:"name"`
	Every string `json:"every"`
	// To is up to where it is computed, "" while nothing is; Lag how far that
	// is behind the end of the last whole bucket.
	To    string  `json:"to"`
	Lag   float64 `json:"lag_seconds"`
	Stale int64   `json:"stale_buckets"`
	Rows  int64   `json:"rows"`
}

// ChangeStatus is a change under way.
type ChangeStatus struct {
	What    string    `json:"what"`
	Step    string    `json:"step"`
	Since   time.Time `json:"since"`
	Tries   int       `json:"failed_tries"`
	Error   string    `json:"error,omitempty"`
	Percent *float64  `json:"percent,omitempty"`
	// Rows are done of the step, of about Of; 0 where it counts none.
	Rows int64 `json:"rows,omitempty"`
	Of   int64 `json:"of_rows,omitempty"`
	// Interrupted tells that it stopped before its end, and that nobody works
	// at it.
	Interrupted bool `json:"interrupted,omitempty"`
}

// ActionStatus is something done.
type ActionStatus struct {
	At      time.Time `json:"at"`
	Action  string    `json:"action"`
	Detail  string    `json:"detail"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	// Locked tells that it failed for a lock that was not to be had.
	Locked bool   `json:"locked,omitempty"`
	By     string `json:"by"`
}

// NextStatus is something to do.
type NextStatus struct {
	Action string `json:"action"` // create, rollup, seal, rebuild, merge, archive, drop
	What   string `json:"what"`
	// At is when it is due; the past is now.
	At  *time.Time `json:"at,omitempty"`
	Why string     `json:"why,omitempty"`
}

// BlockerStatus is a transaction in the way.
type BlockerStatus struct {
	ID        int64   `json:"id"`
	User      string  `json:"user"`
	Host      string  `json:"host"`
	Age       float64 `json:"age_seconds"`
	Statement string  `json:"statement"`
	// Own tells that it is rowmill's own.
	Own bool `json:"own,omitempty"`
}

// HiddenStatus is something that the server shows to other accounts only.
type HiddenStatus struct {
	What  string `json:"what"`
	Grant string `json:"grant"`
}

// A Problem needs a person.
type Problem struct {
	// Code is one of headroom, blocked, gap, stopped, rollup, failed, outside,
	// declaration, triggers.
	Code string `json:"code"`
	Text string `json:"text"`
	Try  string `json:"try,omitempty"`
}
