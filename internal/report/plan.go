package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sizing"
)

// planWidth is the width of a plan's text, in columns; figures end at planColumn.
const (
	planWidth  = 100
	planColumn = 42
)

// Plan writes a plan as text: the figures first, their sources below them.
func Plan(w io.Writer, o *sizing.Output) error {
	t := planText{textWriter{width: planWidth}}
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
	t.block()
	knee := "In one table inserts would not slow down"
	if p := o.Plain; p.KneeRows != nil {
		knee = fmt.Sprintf("In one table inserts slow down from %s rows on", figures.Words(*p.KneeRows))
		if p.Seconds != nil {
			knee += ", after " + figures.Span(*p.Seconds)
		}
	}
	t.line("%s", knee)
	t.from(o.Plain.From)
	t.rate("Rate to expect in one table", o.Before)
	t.rate("Rate to expect in periods", o.After)
	t.block()
	for _, warning := range o.Warnings {
		t.wrapped("warning: ", "         ", warning)
	}
	return t.writeTo(w)
}

type planText struct{ textWriter }

func (t *planText) from(text string) { t.wrapped("    ", "    ", text) }

// figure writes a figure, right-aligned behind its name, and what to add.
func (t *planText) figure(name, value string, more ...string) {
	t.line("%s%*s  %s", name, planColumn-len(name), value, strings.Join(more, ""))
}

func (t *planText) rowBytes(o *sizing.Output) {
	names := []string{"Bytes per row", "sealed and compressed"}
	for _, p := range o.Pieces {
		names = append(names, p.Name)
	}
	width := 0
	for _, n := range names {
		width = max(width, len([]rune(n)))
	}
	t.block()
	t.line("%-*s %8.1f", width+2, names[0], o.PerRow.Value)
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
	t.block()
	t.figure("Memory for pages", bytes(o.Memory.Value))
	t.from(o.Memory.From)
	if o.Rate.Value > 0 {
		t.figure("Rate of inserts", figures.Words(o.Rate.Value)+" rows/s")
		t.from(o.Rate.From)
	}
	t.block()
	p := o.Period
	if p.Declared {
		t.figure("Period declared", p.Every)
	} else {
		t.figure("Period", p.Every)
	}
	if p.Declared && p.Fits != "" {
		t.figure("  the longest that fits", p.Fits)
	}
	t.figure("  rows that fit into one", figures.Words(float64(p.FitRows)))
	if p.Rows > 0 {
		t.figure("  rows in a full one", figures.Words(p.Rows))
		t.figure("  a full one takes", bytes(p.Bytes))
		if p.SpareBytes > 0 {
			t.figure("  and on disk, beside that", bytes(p.SpareBytes), "extents that were begun")
		}
		t.figure("  the two newest take", bytes(p.ResidentBytes), fmt.Sprintf("%.0f%% of the memory", 100*p.ResidentBytes/o.Memory.Value))
	}
	t.from(p.From)
	q := o.Partitions
	t.line("Partitions")
	if q.PerDay > 0 {
		t.figure("  new ones a day", figures.Words(q.PerDay))
	}
	t.figure("  open, and made ahead", fmt.Sprintf("%d, %d", q.Open, q.Ahead))
	total := "no limit"
	if q.Total != nil {
		total = fmt.Sprint(*q.Total)
	}
	t.figure("  at full retention", total)
	t.from(q.From)
	if m := o.Open; m != nil {
		t.line("Memory of the server with all of these open on %s", plural(m.Connections, "connection", "connections"))
		t.figure("  its cache for pages being full", bytes(m.Bytes))
		t.figure("  of which the partitions take", bytes(m.PartitionBytes))
		if m.AddSeconds != nil {
			t.figure("  adding one locks the table for", seconds(*m.AddSeconds))
		}
		t.from(m.From)
	}
}

func (t *planText) sizes(o *sizing.Output) {
	if len(o.Sizes) == 0 {
		return
	}
	note := "the rate, for so long, by bytes per row"
	sizes := &table{Header: []string{"Size after", "rows", "bytes", "compressed"}}
	for _, s := range o.Sizes {
		compressed := ""
		if o.Compressed != nil && s.Compressed != nil {
			compressed = bytes(*s.Compressed)
		}
		sizes.add("  "+s.After, figures.Words(s.Rows), bytes(s.Bytes), compressed)
	}
	t.statusTable(sizes)
	if o.Compressed != nil {
		note += "; compressed are the sealed periods"
	}
	t.from(note)
}

func (t *planText) rate(what string, r sizing.RatePlan) {
	text, kind := "not known", ""
	if r.First != nil {
		text, kind = figures.Words(*r.First)+" rows/s", "estimated"
		if r.Last != nil && math.Abs(*r.Last-*r.First) > 0.01**r.First {
			text += fmt.Sprintf(", at %s rows %s rows/s", figures.Words(r.LastRows), figures.Words(*r.Last))
		}
		if r.Measured {
			kind = "measured"
		}
	}
	t.line("%-28s %s  %s", what, text, kind)
	t.from(r.From)
}
