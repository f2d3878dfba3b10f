package tables

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/rowmill/rowmill/internal/advise"
	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
)

// Ranked writes the tables of a database as a table: what kind of table each is, and what its
// inserts wait for.
func Ranked(w io.Writer, tables []advise.Ranked, where string) error {
	t := document.TextWriter{Width: planWidth}
	t.Line("Tables on %s, first those whose inserts read the most pages from disk", where)
	tb := &document.Table{Header: []string{"table", "rows", "data", "indexes", "touched", "reads/insert", "in periods", "time column"}}
	for _, r := range tables[:min(len(tables), advise.MostRanked)] {
		touched, reads, rolled := "", "", ""
		if r.Touched > 0 {
			touched, reads = figures.Bytes(r.Touched), fmt.Sprintf("%.2f", r.Reads)
		}
		if r.Time != "" && r.Why == "" {
			rolled = "0"
		}
		tb.AddKnown(r.Name, document.Either(r.Rows < 0, "", figures.Words(float64(r.Rows))), figures.Bytes(r.Data), figures.Bytes(r.Index), touched, reads, rolled, cmp.Or(r.Why, r.Time))
	}
	tb.Note = "touched: the indexes that an insert touches anywhere. reads/insert: how many of their pages are not in memory, on average. in periods: the same once inserts touch only periods that fit."
	if len(tb.Rows) == 0 {
		t.Line("  no tables")
	} else {
		t.Table(tb, "  ")
	}
	if more := len(tables) - len(tb.Rows); more > 0 {
		t.Line("  and %s more, which are smaller: --json has all", figures.Plural(more, "table"))
	}
	return t.Flush(w)
}

// Findings writes what slows down a server's inserts, and for each finding the evidence and the
// remedy.
func Findings(w io.Writer, all []advise.Finding, where string, columns int) error {
	t := document.TextWriter{Width: planWidth}
	if columns > 0 {
		t.Width = columns
	}
	if len(all) == 0 {
		t.Line("%s: nothing found", where)
	}
	for i, f := range all {
		t.Block()
		t.Wrapped(fmt.Sprintf("%2d. ", i+1), "    ", document.If(f.Table != "", f.Table+": ")+f.What)
		for _, part := range [][2]string{{"seen   ", f.Evidence + document.Either(f.Measured, " (measured here)", "")}, {"mend   ", f.Fix}, {"cost   ", f.Cost}, {"source ", f.Source}, {"expect ", f.Estimate}, {"gain   ", gain(f.Gain)}} {
			if part[1] != "" {
				t.Wrapped("    "+part[0]+" ", "            ", part[1])
			}
		}
	}
	return t.Flush(w)
}

// gain says what trials on private servers have shown; "" if nothing was tried.
func gain(g *advise.Gain) string {
	if g == nil {
		return ""
	}
	span := func(rates []float64) string {
		return fmt.Sprintf("%s to %s rows/s", figures.Rounded(slices.Min(rates)), figures.Rounded(slices.Max(rates)))
	}
	what := "at least " + figures.Ratio(g.Ratio()) + " the rate"
	if g.Ratio() <= 1 {
		what = "none beyond the noise of the runs"
	}
	return fmt.Sprintf("%s: %s with it (%s), %s without (%s), in %d runs each of up to %s rows like the table's", what, span(g.Before), g.BeforeOn, span(g.After), g.AfterOn, len(g.Before), figures.Count(g.Rows))
}
