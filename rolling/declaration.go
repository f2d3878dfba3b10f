package rolling

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// A Declaration describes a rolling table. It has passed all checks that need no server.
type Declaration struct {
	// Source is the name of the file, for messages.
	Source string
	// Text is the unchanged text of the file.
	Text string
	// Name is the table's name, Target its database as a URL.
	Name, Target string
	// Definition is its CREATE TABLE statement.
	Definition *Definition
	// Time is the column by which the table rolls. Its values are times, integers that count units of
	// Epoch since 1970, or an integer key.
	Time  string
	Epoch time.Duration // 0 unless Time is an integer on an axis of time
	// Period is the grid that divides the axis. Auto means that the period is still to be measured.
	Period Grid
	Auto   bool
	// From is the time from which a new table has periods; the zero Time means the present.
	From time.Time
	// Ahead is how far ahead periods are created, Keep the retention; the zero Span keeps all.
	Ahead, Keep Span
	// Late is the policy for rows that arrive after their period is sealed.
	Late Late
	// Exact requests a trigger that records late rows, so that writers need not tell roll-ups of them.
	Exact bool
	Seal  Seal
	// Shards are the servers with the rows, unless the target has all of them.
	Shards Shards
	// Rollups are in the order of the file; each comes after the level that its From names.
	Rollups []Rollup
	// Values describe rows for a benchmark.
	Values Values
	// Warnings are about settings that are permitted but probably unintended, each with its place.
	Warnings []string
}

// Late is the policy for rows that arrive after their period is sealed.
type Late int

const (
	// LateMerge accepts late rows; their period is unsealed, and sealed again with a new checksum.
	LateMerge Late = iota
	// LateReject creates a trigger that makes the INSERT of a late row fail, with the reason.
	LateReject
)

// Seal describes what happens to a period that no longer takes inserts.
type Seal struct {
	// After is how long after its end a period is sealed.
	After Span
	// Compress requests that sealed periods are rebuilt, sorted and compressed.
	Compress bool
	// Merge is the longer period into which sealed ones are merged; the zero Grid merges none.
	Merge Grid
	// Archive is the directory for the Parquet file of each period that is dropped; "" archives none.
	Archive string
}

// A Rollup is a continuous aggregate: a level of lower resolution.
type Rollup struct {
	// Name is the name of its table.
	Name string
	// From is the level from which the roll-up is computed, "" for the table itself.
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
	// Func is count, sum, avg, min, max, stddev, variance, first, last, distinct or percentile.
	Func string
	// Column is the aggregated column; "" for count(*).
	Column string
	// Percent is the percentage of a percentile, above 0 and below 100.
	Percent float64
}

// An Error is an error at one place of a declaration or a definition.
type Error struct {
	// Source is the file, "" if there is none.
	Source string
	// Line and Column count from 1; 0 is unknown.
	Line, Column int
	Text         string
	// Hint is the correction to make; it may be empty.
	Hint string
}

// Error returns "file:line:column: text".
func (e *Error) Error() string {
	switch {
	case e.Source == "" && e.Line == 0:
		return e.Text
	case e.Source == "":
		return fmt.Sprintf("line %d: %s", e.Line, e.Text)
	case e.Line == 0:
		return e.Source + ": " + e.Text
	case e.Column == 0:
		return fmt.Sprintf("%s:%d: %s", e.Source, e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Source, e.Line, e.Column, e.Text)
}

// Errors are all errors of a declaration, in the order of its lines.
type Errors []*Error

// Error returns one line per error, and one with the next step.
func (es Errors) Error() string {
	var b strings.Builder
	for i, e := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
		if e.Hint != "" {
			b.WriteString("\n  Try: " + e.Hint)
		}
	}
	return b.String()
}

// String returns the policy as written in a declaration.
func (l Late) String() string {
	if l == LateReject {
		return "reject"
	}
	return "merge"
}

// EpochName returns the unit of an epoch as written in a declaration, "" for none.
func EpochName(unit time.Duration) string {
	for name, u := range epochs {
		if u == unit {
			return name
		}
	}
	return ""
}

func tomlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 127:
			fmt.Fprintf(&b, "\\u%04X", c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// namedPassword matches a password with its keyword in any place, as in libpq's keyword form.
var namedPassword = regexp.MustCompile(`(?i)(^|[\s;:&?,'"])(ssl)?(password|passwd|pass|pwd|secret|token)\s*=`)

// userPassword matches USER:PASSWORD@ at the beginning, as in drivers' data source names.
var userPassword = regexp.MustCompile(`^[^/@?]*:[^/@?]*@`)

// HoldsPassword reports whether the text of a target contains a password in a place where no URL
// has one: "host=db password=...", "mysql:user:...@tcp(db)/x". Such a text must be neither printed
// nor stored. It does not examine the options after "?".
func HoldsPassword(target string) bool {
	before, _, _ := strings.Cut(target, "?")
	_, rest, _ := strings.Cut(before, ":")
	return namedPassword.MatchString(before) || userPassword.MatchString(rest)
}

// anyPassword reports whether a target contains a password, as a URL or in another form.
func anyPassword(target string) bool {
	u, err := url.Parse(target)
	if err != nil {
		return HoldsPassword(target)
	}
	_, has := u.User.Password() // even without a user's name
	return has || HoldsPassword(target)
}

// OptionHoldsPassword reports whether an option's value contains a password.
func OptionHoldsPassword(value string) bool { return namedPassword.MatchString(value) }

// WholeDays reports whether the table rolls by a column of dates.
func (d *Declaration) WholeDays() bool {
	if d.Definition == nil || d.Epoch > 0 || d.Period.Axis() == Sequence {
		return false
	}
	c := d.Definition.Column(d.Time)
	return c != nil && strings.EqualFold(strings.TrimSpace(c.Type), "date")
}
