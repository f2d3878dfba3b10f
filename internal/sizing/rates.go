package sizing

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// plain computes the number of rows from which inserts into a plain table wait for the disk: from
// then on, the pieces that take inserts at random positions exceed their share of the memory.
func (o *Output) plain(in Input) {
	touched, names := Touched(in.Pieces)
	if touched == 0 {
		o.Plain.From = "everything grows at its end, so that inserts stay fast in one table, too; a rolling table drops, archives and compresses rows by period"
		return
	}
	rows := CacheShare * in.Memory.Value / touched
	o.Plain.KneeRows = &rows
	o.Plain.From = fmt.Sprintf("%.0f%% of the memory over the %.0f bytes per row of what inserts touch everywhere: %s", 100*CacheShare, touched, strings.Join(names, ", "))
	if in.Rate.Value > 0 {
		s := rows / in.Rate.Value
		o.Plain.Seconds = &s
	}
}

// Touched returns the names of the pieces that take inserts at random positions, and how many bytes
// all of these pieces have per row.
func Touched(pieces []Piece) (perRow float64, names []string) {
	for _, p := range pieces {
		if !p.Ascending {
			perRow += p.BytesPerRow
			names = append(names, p.Name)
		}
	}
	return perRow, names
}

// Reads returns how many pages an insert reads from disk on average. pieces is the number of pieces
// in which inserts go to random positions, and touched their total size; memory is the memory for
// pages.
func Reads(pieces int, touched, memory float64) float64 {
	return float64(pieces) * max(0, 1-CacheShare*memory/touched)
}

func (o *Output) rates(in Input) {
	o.Before, o.After = measured(in.Plain, in), measured(in.Rolling, in)
	if !o.Before.Measured {
		o.Before = estimated(in, o.full(in))
	}
	if !o.After.Measured {
		o.After = RatePlan{From: "not known: no sample was loaded"}
		if v := in.Sample.Value; v > 0 && o.Period.Rows <= float64(o.Period.FitRows) {
			o.After = RatePlan{First: &v, Last: &v, LastRows: o.full(in), From: "an estimate: " + in.Sample.From + "; it stays, as the newest periods stay in memory"}
			if o.Period.Rows == 0 {
				o.After.From = fmt.Sprintf("an estimate: %s; it stays, if a period has at most %s rows, so that the newest ones stay in memory", in.Sample.From, rowCount(float64(o.Period.FitRows)))
			}
		} else if v > 0 {
			// Inserts into the newest periods are as fast as inserts into a plain table of their size.
			o.After = estimated(in, Resident*o.Period.Rows)
			o.After.From += fmt.Sprintf("; the %d newest periods hold %s rows, which don't fit into memory", Resident, rowCount(Resident*o.Period.Rows))
		}
	}
}

// full returns the table's number of rows at full retention, or after a year.
func (o *Output) full(in Input) float64 {
	if n := len(o.Sizes); n > 0 {
		return o.Sizes[n-1].Rows
	}
	if o.Plain.KneeRows != nil {
		return 10 * *o.Plain.KneeRows
	}
	return 0
}

func measured(s *result.Summary, in Input) RatePlan {
	if s == nil {
		return RatePlan{}
	}
	first, last := s.Rate.First, s.Rate.Last
	return RatePlan{First: &first, Last: &last, LastRows: float64(s.Rows), Measured: true,
		From: fmt.Sprintf("measured by %s: %s, %s on %s", in.RunsFrom, s.Name, figure.Plural(s.Rows, "row", "rows"), s.Engine)}
}

// estimated returns the estimated rate of a plain table. While the pages that inserts touch are in
// memory, it is the sample's rate. Later, a row also waits for random reads: it touches one page in
// each piece that takes inserts at random positions, and a page that is not in memory must be read.
func estimated(in Input, rows float64) RatePlan {
	perRow, names := Touched(in.Pieces)
	r := in.Sample.Value
	switch {
	case r <= 0:
		return RatePlan{From: "not known: no sample was loaded"}
	case perRow == 0:
		return RatePlan{First: &r, Last: &r, LastRows: rows, From: "an estimate: " + in.Sample.From + "; no index is touched everywhere"}
	case in.Reads.Value <= 0 || rows <= 0:
		return RatePlan{First: &r, From: "an estimate: " + in.Sample.From}
	}
	missed := max(0, 1-CacheShare*in.Memory.Value/(rows*perRow))
	last := 1 / (1/r + missed*float64(len(names))/in.Reads.Value)
	return RatePlan{First: &r, Last: &last, LastRows: rows, From: fmt.Sprintf(
		"an estimate: %s; at %s rows %.0f%% of the pages that inserts touch are not in memory, and a row touches %d (%s), at %.0f random reads a second (%s). What the server buffers and reads together makes it faster",
		in.Sample.From, rowCount(rows), 100*missed, len(names), strings.Join(names, ", "), in.Reads.Value, in.Reads.From)}
}

func rowCount(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f billion", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f million", n/1e6)
	}
	return fmt.Sprintf("%.0f", n)
}
