package tables

import (
	"fmt"
	"io"
	"math"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/sizing"
)

// planWidth is the width of a plan's text, in columns; figures end at planColumn.
const (
	planWidth  = 100
	planColumn = 42
)

// Plan writes a plan as text: the figures first, their sources below them.
func Plan(w io.Writer, o *sizing.Output) error {
	t := planText{document.TextWriter{Width: planWidth}}
	t.Line("%s", o.Table+document.If(o.Target != "", " on "+o.Target)+document.If(o.Engine != "", " ("+o.Engine+" "+o.Server+")"))
	t.rowBytes(o)
	t.period(o)
	t.sizes(o)
	t.Block()
	knee := "In one table inserts would not slow down"
	if p := o.Plain; p.KneeRows != nil {
		knee = fmt.Sprintf("In one table inserts slow down from %s rows on", figures.Words(*p.KneeRows))
		if p.Seconds != nil {
			knee += ", after " + figures.Span(*p.Seconds)
		}
	}
	t.Line("%s", knee)
	t.from(o.Plain.From)
	t.rate("Rate to expect in one table", o.Before)
	t.rate("Rate to expect in periods", o.After)
	t.Block()
	for _, warning := range o.Warnings {
		t.Wrapped("warning: ", "         ", warning)
	}
	return t.Flush(w)
}

type planText struct{ document.TextWriter }

func (t *planText) from(text string) { t.Wrapped("    ", "    ", text) }

// A planFigure is a figure with a remark, more. It is omitted if its value is empty.
type planFigure struct{ name, value, more string }

// figures writes figures, right-aligned after their names, and where they come from.
func (t *planText) figures(from string, all ...planFigure) {
	for _, f := range all {
		if f.value != "" {
			t.Line("%s%*s  %s", f.name, planColumn-len(f.name), f.value, f.more)
		}
	}
	if from != "" {
		t.from(from)
	}
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
	t.Block()
	t.Line("%-*s %8.1f", width+2, names[0], o.PerRow.Value)
	for _, p := range o.Pieces {
		t.Line("  %-*s %8.1f  %s", width, p.Name, p.BytesPerRow, document.Either(p.Ascending, "inserts go to its end", "inserts go everywhere"))
	}
	t.from(o.PerRow.From)
	if c := o.Compressed; c != nil {
		t.Line("  %-*s %8.1f  %.0f%% of the above", width, names[1], c.Value, 100*c.Value/o.PerRow.Value)
		t.from(c.From)
	}
}

func (t *planText) period(o *sizing.Output) {
	p, q, name, fits := o.Period, o.Partitions, "Period", ""
	if p.Declared {
		name, fits = "Period declared", p.Fits
	}
	t.Block()
	t.figures(o.Memory.From, planFigure{"Memory for pages", figures.Bytes(o.Memory.Value), ""})
	if o.Rate.Value > 0 {
		t.figures(o.Rate.From, planFigure{"Rate of inserts", figures.Words(o.Rate.Value) + " rows/s", ""})
	}
	t.Block()
	t.figures("", planFigure{name, p.Every, ""}, planFigure{"  the longest that fits", fits, ""},
		planFigure{"  rows that fit into one", figures.Words(float64(p.FitRows)), ""})
	if p.Rows > 0 {
		t.figures("", planFigure{"  rows in a full one", figures.Words(p.Rows), ""}, planFigure{"  a full one takes", figures.Bytes(p.Bytes), ""},
			planFigure{"  and on disk, beside that", document.IfAny(p.SpareBytes, figures.Bytes), "extents that were begun"},
			planFigure{"  the two newest take", figures.Bytes(p.ResidentBytes), fmt.Sprintf("%.0f%% of the memory", 100*p.ResidentBytes/o.Memory.Value)})
	}
	t.from(p.From)
	total := "no limit"
	if q.Total != nil {
		total = fmt.Sprint(*q.Total)
	}
	t.Line("Partitions")
	t.figures(q.From, planFigure{"  new ones a day", document.IfAny(q.PerDay, figures.Words), ""},
		planFigure{"  open", fmt.Sprint(q.Open), ""}, planFigure{"  created ahead", fmt.Sprint(q.Ahead), ""},
		planFigure{"  at full retention", total, ""})
	if m := o.Open; m != nil {
		t.Line("Memory of the server with all of these open on %s", figures.Plural(m.Connections, "connection", "connections"))
		t.figures(m.From, planFigure{"  its cache for pages being full", figures.Bytes(m.Bytes), ""}, planFigure{"  of which the partitions take", figures.Bytes(m.PartitionBytes), ""},
			planFigure{"  adding one locks the table for", document.IfKnown(m.AddSeconds, figures.Seconds), ""})
	}
}

func (t *planText) sizes(o *sizing.Output) {
	if len(o.Sizes) == 0 {
		return
	}
	sizes := &document.Table{Header: []string{"Size after", "rows", "bytes", "compressed"}}
	for _, s := range o.Sizes {
		sizes.Add("  "+s.After, figures.Words(s.Rows), figures.Bytes(s.Bytes), document.If(o.Compressed != nil, document.IfKnown(s.Compressed, figures.Bytes)))
	}
	t.Tables(sizes)
	t.from("the rate, for so long, by bytes per row" + document.If(o.Compressed != nil, "; compressed are the sealed periods"))
}

func (t *planText) rate(what string, r sizing.RatePlan) {
	text, kind := "not known", ""
	if r.First != nil {
		text, kind = figures.Words(*r.First)+" rows/s", document.Either(r.Measured, "measured", "estimated")
		if r.Last != nil && math.Abs(*r.Last-*r.First) > 0.01**r.First {
			text += fmt.Sprintf(", at %s rows %s rows/s", figures.Words(r.LastRows), figures.Words(*r.Last))
		}
	}
	t.Line("%-28s %s  %s", what, text, kind)
	t.from(r.From)
}
