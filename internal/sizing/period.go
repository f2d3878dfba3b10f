package sizing

import (
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/rolling"
)

// ladder lists the periods to choose from. Each except the last two divides a day.
var ladder = []string{"1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "3h", "4h", "6h", "8h", "12h", "1d", "1w"}

// keepParts is the least number of periods into which retention is divided. Only whole periods are
// dropped, so rows are kept for up to one period longer than declared: by at most a quarter of the
// retention.
const keepParts = 4

// FitRows returns the maximum number of rows of a period if two periods are to fit into memory.
func FitRows(memory, perRow float64) int64 {
	n := CacheShare * memory / perRow / Resident
	return int64(min(max(n, 1), math.MaxInt64/4))
}

// ErrNoRate is returned if a period of time is requested and the insert rate is unknown.
var ErrNoRate = errors.New("the rate of inserts is not known")

// Fit returns the longest period of the ladder of which two fit into memory, and true. If no period
// fits, or those that fit make too many partitions, Fit returns the shortest period that doesn't
// make too many, and false.
func Fit(in Input) (g rolling.Grid, fits bool, err error) {
	rows := FitRows(in.Memory.Value, PerRow(in.Pieces))
	if in.Axis == rolling.Sequence {
		g, err = rolling.EveryRows(round(rows))
		return g, true, err
	}
	if in.Rate.Value <= 0 {
		return g, false, ErrNoRate
	}
	for _, name := range ladder {
		next, err := rolling.Parse(name)
		if err != nil {
			return g, false, err
		}
		length := seconds(next.Span())
		switch {
		case in.WholeDays && length < 86400:
			continue
		case in.Merge.Valid() && (!next.Divides(in.Merge) || next == in.Merge):
			continue
		case !in.Keep.IsZero() && length > seconds(in.Keep)/keepParts && g.Valid():
			continue
		}
		ok := length*in.Rate.Value <= float64(rows)
		// A period that doesn't fit is only slow: take a longer one only if there are too many of g.
		if !ok && g.Valid() && !tooMany(in, g) {
			break
		}
		g, fits = next, ok
	}
	if !g.Valid() {
		return g, false, fmt.Errorf("no period divides %s, into which sealed ones are to be merged", in.Merge)
	}
	return g, fits, nil
}

// count returns the number of partitions within retention and in total; -1 if all rows are kept.
func count(in Input, g rolling.Grid) (kept, total int64) {
	if in.Keep.IsZero() {
		return -1, -1
	}
	one, recent, old := float64(g.Span().Length()), float64(in.Keep.Length()), 0.0
	if in.Merge.Valid() {
		long := float64(in.Merge.Span().Length())
		if single := float64(in.After.Length()) + long; recent > single {
			old, recent = math.Ceil((recent-single)/long), single
		}
	}
	kept = int64(math.Ceil(recent/one) + old)
	return kept, kept + 1 + ahead(in, g)
}

func ahead(in Input, g rolling.Grid) int64 {
	return max(1, int64(math.Ceil(float64(in.Ahead.Length())/float64(g.Span().Length()))))
}

func tooMany(in Input, g rolling.Grid) bool {
	_, total := count(in, g)
	return in.MaxPeriods > 0 && total > int64(in.MaxPeriods)
}

func round(n int64) int64 {
	unit := int64(1)
	for n/unit >= 10 {
		unit *= 10
	}
	for _, lead := range []int64{5, 2} {
		if n/unit >= lead {
			return lead * unit
		}
	}
	return unit
}

func seconds(s rolling.Span) float64 { return float64(s.Length()) / 1e6 }

func (o *Output) period(in Input) error {
	p := &o.Period
	p.FitRows = FitRows(in.Memory.Value, o.PerRow.Value)
	fit, fits, err := Fit(in)
	switch {
	case errors.Is(err, ErrNoRate) && in.Period.Valid():
	case err != nil:
		return fmt.Errorf("plan: %w", err)
	default:
		p.Fits = fit.String()
	}
	p.From = fmt.Sprintf("the longest of which %d fit into %.0f%% of the memory: the one that fills and the one before it", Resident, 100*CacheShare)
	o.grid, p.Declared = fit, in.Period.Valid()
	if p.Declared {
		o.grid = in.Period
	}
	p.Every = o.grid.String()
	if in.Axis == rolling.Sequence {
		p.Rows = float64(o.grid.Span().Rows)
	} else {
		p.Rows = in.Rate.Value * seconds(o.grid.Span())
	}
	p.Bytes = p.Rows * o.PerRow.Value
	p.ResidentBytes = Resident * p.Bytes
	if p.Bytes >= leastExtent {
		p.SpareBytes = in.Spare
	}
	if p.SpareBytes > p.Bytes {
		o.warn("a period of %s takes %s, and as much as %s more on disk, in extents that were begun: a longer period, or sealed ones merged", p.Every, figure.Bytes(p.Bytes), figure.Bytes(p.SpareBytes))
	}
	switch {
	case p.Rows > float64(p.FitRows) && !p.Declared && !fits:
		o.warn("not even %s fits: two of them take %s, and %s of memory are for them; more memory, fewer indexes on columns other than the time's, a shorter keep, or sealed periods merged (merge = %q under [seal])",
			p.Every, figure.Bytes(p.ResidentBytes), figure.Bytes(CacheShare*in.Memory.Value), "1d")
	case p.Rows > float64(p.FitRows):
		o.warn("two periods of %s take %s, and %s of memory are for them: inserts will wait for the disk; take %s", p.Every, figure.Bytes(p.ResidentBytes), figure.Bytes(CacheShare*in.Memory.Value), p.Fits)
	}
	return nil
}

// leastExtent is the size from which InnoDB gives a table whole extents of space. A smaller table
// gets single pages.
const leastExtent = 1 << 20

// manyPeriods is used if the costs of an engine are not known. From this number of periods on, a
// table costs noticeable memory in each connection, and time to plan queries.
const manyPeriods = 1000

func (o *Output) partitions(in Input) {
	p := &o.Partitions
	p.From = "the declaration's ahead and keep in periods of " + o.Period.Every
	one := float64(o.grid.Span().Length())
	if in.Axis == rolling.Time {
		p.PerDay = 86400e6 / one
	} else if in.Rate.Value > 0 {
		p.PerDay = 86400 * in.Rate.Value / one
	}
	p.Open, p.Ahead = 1, ahead(in, o.grid)
	if in.Merge.Valid() {
		p.From += ", sealed ones merged into " + in.Merge.String()
	}
	kept, total := count(in, o.grid)
	if kept < 0 {
		return
	}
	p.Kept, p.Total = &kept, &total
	limit := int64(in.MaxPeriods)
	switch {
	case limit > 0 && total > limit:
		o.warn("%d partitions are more than the %d that a table may have: a longer period, a shorter keep, or sealed periods merged", total, limit)
	case in.Open.Known():
		o.open(in, total)
	case total > manyPeriods:
		o.warn("%d partitions: each costs memory in every connection that has the table open; a longer period, or sealed ones merged", total)
	}
}

// longLock is in seconds. Adding a period locks the table, and inserts wait: if this may take
// longer than longLock, the plan warns of it.
const longLock = 0.2

// open computes the memory of open partitions, and says when they are too many.
func (o *Output) open(in Input, total int64) {
	p := &OpenPlan{Partitions: total, Connections: in.Connections, From: in.OpenFrom}
	p.PartitionBytes = in.Open.Partitions(int(total), in.Connections)
	p.Bytes = in.Memory.Value + in.Open.At(int(total), in.Connections)
	o.Open = p
	if in.AddOne != nil {
		add := in.AddOne(float64(total))
		if p.AddSeconds = &add; add > longLock {
			o.warn("%d partitions are too many: adding one locks the table for %s, and inserts wait; a longer period, or sealed ones merged", total, figure.Seconds(add))
		}
	}
	if p.PartitionBytes > engine.OpenShare*in.Memory.Value {
		o.warn("%d partitions are too many: open on %d connections they take %s beside the %s for pages; a longer period, sealed ones merged, or fewer connections",
			total, in.Connections, figure.Bytes(p.PartitionBytes), figure.Bytes(in.Memory.Value))
	}
}

func (o *Output) sizes(in Input) {
	if in.Axis == rolling.Sequence {
		if !in.Keep.IsZero() {
			o.size(in, in.Keep.String()+" (full retention)", 0, float64(in.Keep.Rows)+o.Period.Rows, float64(in.After.Rows))
		}
		if in.Rate.Value == 0 {
			return
		}
	}
	if in.Rate.Value == 0 {
		o.warn("the rate of inserts is not known, so that sizes in time are left out: give --rate")
		return
	}
	keep, one := math.Inf(1), seconds(o.grid.Span())
	if in.Axis == rolling.Time && !in.Keep.IsZero() {
		// A period is dropped when all of its rows are older than retention.
		keep = seconds(in.Keep) + one
	}
	open := seconds(in.After) * in.Rate.Value
	if in.Axis == rolling.Sequence {
		open = float64(in.After.Rows)
		if !in.Keep.IsZero() {
			keep = (float64(in.Keep.Rows) + o.Period.Rows) / in.Rate.Value
		}
	}
	for _, t := range []struct {
		name    string
		seconds float64
	}{{"1 day", 86400}, {"1 month", 30 * 86400}, {"1 year", 365 * 86400}} {
		if t.name == "1 year" && !math.IsInf(keep, 1) {
			continue
		}
		if t.seconds < keep {
			o.size(in, t.name, t.seconds, in.Rate.Value*t.seconds, open)
		}
	}
	if in.Axis == rolling.Time && !math.IsInf(keep, 1) {
		o.size(in, "full retention ("+in.Keep.String()+")", keep, in.Rate.Value*keep, open)
	}
}

// size adds to o.Sizes the size of the table once it has this number of rows, which it has after
// the given seconds; name describes this time. Not sealed yet are the rows of one period, and open
// further rows: those that arrive within in.After, the delay of the seal.
func (o *Output) size(in Input, name string, after, rows, open float64) {
	open = min(rows, open+o.Period.Rows)
	one, merged := o.Period.Rows, o.Period.Rows
	if in.Merge.Valid() {
		merged *= float64(in.Merge.Span().Length()) / float64(o.grid.Span().Length())
	}
	periods, sealed := 0.0, 0.0
	if o.Period.SpareBytes > 0 {
		periods, sealed = open/one, (rows-open)/merged
	}
	s := SizePlan{After: name, Seconds: after, Rows: rows, Bytes: rows*o.PerRow.Value + (periods+sealed)*in.Spare}
	if in.Compressed.Value > 0 {
		c := open*o.PerRow.Value + (rows-open)*in.Compressed.Value + periods*in.Spare + sealed*in.SpareSealed
		s.Compressed = &c
	}
	o.Sizes = append(o.Sizes, s)
}
