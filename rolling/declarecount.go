package rolling

import "fmt"

// Limits on the number of periods.
const (
	maxPartitions = 8192 // of a table of MySQL and MariaDB
	maxTerms      = 500  // of a compound SELECT of SQLite: the view has one a period
	// manyPeriods is the number from which on each period is costly: memory for each
	// open table, and time to plan a query without a time.
	manyPeriods = 1000
)

// counts checks the expected number of periods.
func (r *declarationReader) counts(period *fileValue) {
	d := r.d
	if !d.Period.Valid() || period == nil {
		return
	}
	p := max(d.Period.Span().Length(), 1)
	if r.keep != nil && d.Keep.Length() < p {
		r.fail(r.keep, fmt.Sprintf("keep = %q or longer", d.Period), "keep = %q is shorter than a period of %s", d.Keep, d.Period)
		return
	}
	limit, why := int64(0), ""
	switch r.family {
	case mysqlFamily:
		limit, why = maxPartitions, fmt.Sprintf("%s have at most %d partitions of a table", r.family, maxPartitions)
	case sqliteFamily:
		limit, why = maxTerms, fmt.Sprintf("%s joins the periods in one view, which has at most %d", r.family, maxTerms)
	}
	// The periods created ahead, the open one, and one past retention that is not
	// dropped yet; then those within retention, with merged ones counted separately.
	ahead := d.Ahead.Length()/p + 2
	recent, old := d.Keep.Length(), int64(0)
	if d.Seal.Merge.Valid() {
		long := max(d.Seal.Merge.Span().Length(), 1)
		if single := d.Seal.After.Length() + long; recent > single {
			old, recent = (recent-single)/long+1, single
		}
	}
	n := ahead + recent/p + 1 + old
	at, what := r.every, fmt.Sprintf("%d, as keep = %q and ahead = %q in periods of %s", n, d.Keep, d.Ahead, d.Period)
	if d.Keep.IsZero() {
		what = fmt.Sprintf("%d, as ahead = %q in periods of %s", n, d.Ahead, d.Period)
	}
	hint := "a longer period, or a shorter keep"
	if !d.Seal.Merge.Valid() && !d.Keep.IsZero() {
		hint = fmt.Sprintf("a longer period, a shorter keep, or merge = %q under [seal]", multiple(d.Period))
	}
	switch {
	case limit > 0 && n > limit:
		r.fail(at, hint, "too many periods: %s; %s", what, why)
	case n > manyPeriods:
		r.warn(at, "many periods: %s; each costs memory in every connection that has the table open, and a query without a bound on %s looks at all of them; take %s", what, d.Time, hint)
	case d.Keep.IsZero() && d.Period.Axis() == Time && limit > 0:
		// Without retention the number grows: report when it becomes too large.
		long := p
		if d.Seal.Merge.Valid() {
			long = max(d.Seal.Merge.Span().Length(), 1)
		}
		if years := float64(limit-n) * float64(long) / float64(365*day); years < 10 {
			r.warn(at, "without keep the table has too many periods after %.1f years: %s", years, why)
		}
	}
}
