package report

import (
	"fmt"
	"io"
	"math"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sizing"
)

// planWidth is the width of a plan's text, in columns.
const planWidth = 100

// Plan writes a plan as text: the figures first, their sources below them.
func Plan(w io.Writer, o *sizing.Output) error {
	t := planText{terminal{width: planWidth}}
	where := o.Table
	if o.Target != "" {
		where += " on " + o.Target
	}
	if o.Engine != "" {
		where += " (" + o.Engine + " " + o.Server + ")"
	}
	t.line("%s", where)
	t.rowBytes(o)
	t.period(o)
	t.sizes(o)
	t.rates(o)
	for i, warning := range o.Warnings {
		if i == 0 {
			t.line("")
		}
		t.wrapped("warning: ", warning, "         ")
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

type planText struct{ terminal }

// from writes where the figures above it are from.
func (t *planText) from(text string) { t.wrapped("    ", text, "    ") }

func (t *planText) rowBytes(o *sizing.Output) {
	names := []string{"Bytes per row", "sealed and compressed"}
	for _, p := range o.Pieces {
		names = append(names, p.Name)
	}
	width := 0
	for _, n := range names {
		width = max(width, len([]rune(n)))
	}
	t.line("\n%-*s %8.1f", width+2, names[0], o.PerRow.Value)
	for _, p := range o.Pieces {
		where := "inserts go everywhere"
		if p.Ascending {
			where = "inserts go to its end"
		}
		t.line("  %-*s %8.1f  %s", width, p.Name, p.BytesPerRow, where)
	}
	t.from(o.PerRow.From)
	if c := o.Compressed; c != nil {
		t.line("  %-*s %8.1f  %.0f%% of the above", width, names[1], c.Value, 100*c.Value/o.PerRow.Value)
		t.from(c.From)
	}
}

func (t *planText) period(o *sizing.Output) {
	t.line("\nMemory for pages %26s", figures.Bytes(o.Memory.Value))
	t.from(o.Memory.From)
	if o.Rate.Value > 0 {
		t.line("Rate of inserts %27s", figures.Words(o.Rate.Value)+" rows/s")
		t.from(o.Rate.From)
	}
	p := o.Period
	if p.Declared {
		t.line("\nPeriod declared %27s", p.Every)
	} else {
		t.line("\nPeriod %36s", p.Every)
	}
	if p.Declared && p.Fits != "" {
		t.line("  the longest that fits %18s", p.Fits)
	}
	t.line("  rows that fit into one %17s", figures.Words(float64(p.FitRows)))
	if p.Rows > 0 {
		t.line("  rows in a full one %21s", figures.Words(p.Rows))
		t.line("  a full one takes %23s", figures.Bytes(p.Bytes))
		t.line("  the two newest take %20s  %.0f%% of the memory", figures.Bytes(p.ResidentBytes), 100*p.ResidentBytes/o.Memory.Value)
	}
	t.from(p.From)
	q := o.Partitions
	t.line("Partitions")
	if q.PerDay > 0 {
		t.line("  new ones a day %25s", figures.Words(q.PerDay))
	}
	t.line("  open, and made ahead %19s", fmt.Sprintf("%d, %d", q.Open, q.Ahead))
	if q.Total != nil {
		t.line("  at full retention %22d", *q.Total)
	} else {
		t.line("  at full retention %22s", "no limit")
	}
	t.from(q.From)
}

func (t *planText) sizes(o *sizing.Output) {
	if len(o.Sizes) == 0 {
		return
	}
	packed := o.Compressed != nil
	head := fmt.Sprintf("\n%-26s %16s %11s", "Size after", "rows", "bytes")
	if packed {
		head += fmt.Sprintf(" %12s", "compressed")
	}
	t.line("%s", head)
	for _, s := range o.Sizes {
		line := fmt.Sprintf("  %-24s %16s %11s", s.After, figures.Words(s.Rows), figures.Bytes(s.Bytes))
		if packed && s.Compressed != nil {
			line += fmt.Sprintf(" %12s", figures.Bytes(*s.Compressed))
		}
		t.line("%s", line)
	}
	note := "the rate, for so long, by bytes per row"
	if packed {
		note += "; compressed are the sealed periods"
	}
	t.from(note)
}

func (t *planText) rates(o *sizing.Output) {
	p := o.Plain
	if p.KneeRows == nil {
		t.line("\nIn one table inserts would not slow down")
	} else {
		line := fmt.Sprintf("\nIn one table inserts slow down from %s rows on", figures.Words(*p.KneeRows))
		if p.Seconds != nil {
			line += ", after " + figures.Span(*p.Seconds)
		}
		t.line("%s", line)
	}
	t.from(p.From)
	t.rate("Rate to expect in one table", o.Before)
	t.rate("Rate to expect in periods", o.After)
}

func (t *planText) rate(what string, r sizing.RatePlan) {
	text := "not known"
	if r.First != nil {
		text = figures.Words(*r.First) + " rows/s"
		if r.Last != nil && math.Abs(*r.Last-*r.First) > 0.01**r.First {
			text += fmt.Sprintf(", at %s rows %s rows/s", figures.Words(r.LastRows), figures.Words(*r.Last))
		}
	}
	kind := "estimated"
	if r.Measured {
		kind = "measured"
	}
	if r.First == nil {
		kind = ""
	}
	t.line("%-28s %s  %s", what, text, kind)
	t.from(r.From)
}
