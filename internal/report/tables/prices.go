package tables

import (
	"fmt"
	"math"
	"slices"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/sizing"
)

// Prices lays out what machines and volumes cost against the rate that each can promise.
func Prices(o *sizing.Offers) *document.Document {
	money := func(v float64) string { return o.Currency + cents(v) }
	d := &document.Document{Title: "What " + o.Table + " costs a month", Subtitle: fmt.Sprintf("prices of %s, %s", o.Date, figures.Plural(o.Servers, "server", "servers")), Data: func() any { return o }}
	on := func(f *sizing.Offer) string { return f.Machine + " with " + f.Storage }
	switch {
	case len(o.All) == 0:
		d.Say(true, "no machine can hold the table")
	case o.Needed > 0:
		if c := o.Cheapest(); c != nil {
			d.Say(true, fmt.Sprintf("the cheapest for %s rows/s: %s, %s, for %s a month", figures.Words(o.Needed), c.Layout, on(c), money(c.Month)))
		} else {
			d.Say(true, fmt.Sprintf("none takes the %s rows/s that come", figures.Words(o.Needed)))
		}
	}
	if share := o.Share(); !math.IsNaN(share) {
		plain, rolling := &o.All[o.Fastest], &o.All[o.SameRate]
		d.Say(o.Needed == 0, fmt.Sprintf("rolling is as fast as the plain layout at its best for %s of its price: %s on %s for %s, against %s on %s for %s",
			figures.Percent(share), figures.Rate(rolling.Rate), on(rolling), money(rolling.Month), figures.Rate(plain.Rate), on(plain), money(plain.Month)))
	}
	all := &document.Table{Header: []string{"a month", "layout", "machine", "storage", "rows/s", "limited by", "a billion rows", "best"},
		Note: "rows/s: what can be promised. a billion rows: the price of the time in which so many come at that rate. best: nothing else is both cheaper and faster."}
	best := &document.Table{Header: all.Header[:7], Note: all.Note}
	c := &document.Chart{Title: "rows/s that can be promised", X: document.Scale{Name: o.Currency + " a month", Log: true}, Y: document.Scale{From: 0}, Height: 320}
	lines := map[string]*document.Line{}
	var known document.Legend
	for i, layout := range []string{"plain", "rolling"} {
		st := document.Style{Colour: []int{document.PlainColour, document.RollingColour}[i]}
		lines[layout] = &document.Line{Name: layout, Style: st, Dots: true, Bare: true}
		known = append(known, document.Key{Label: layout, Style: st})
	}
	for i := range o.All {
		f := &o.All[i]
		limit := f.Limit + document.If(f.Extrapolated != "", " (extrapolated: "+f.Extrapolated+")")
		cells := []string{money(f.Month), f.Layout, f.Machine, f.Storage, figures.Number(f.Rate), limit, money(f.Billion)}
		all.Add(append(slices.Clone(cells), document.If(f.Best, "best"))...)
		if f.Best {
			best.Add(cells...)
		}
		l := lines[f.Layout]
		l.X, l.Y, l.Tips = append(l.X, f.Month), append(l.Y, f.Rate), append(l.Tips, fmt.Sprintf("%s, %s: %s a month, %s", f.Layout, on(f), money(f.Month), figures.Rate(f.Rate)))
		c.Y.To = max(c.Y.To, 1.05*f.Rate)
	}
	for _, layout := range []string{"plain", "rolling"} {
		c.Lines = append(c.Lines, *lines[layout])
	}
	if len(all.Rows) > 0 {
		d.Add(&document.Section{In: document.InHTML | document.InMarkdown, Parts: []document.Part{known, c}}, &document.Section{Title: "Choices that nothing else beats", In: document.InText, Parts: []document.Part{best}},
			&document.Section{Title: "All choices", In: document.InHTML | document.InMarkdown, Parts: []document.Part{all}})
		if more := len(all.Rows) - len(best.Rows); more > 0 {
			d.Add(&document.Section{In: document.InText, Parts: []document.Part{document.Paragraph(fmt.Sprintf("%s more, each slower or dearer than one of these: --html and --json have all.", figures.Plural(more, "choice", "choices")))}})
		}
	}
	from := document.Facts{{Name: "stored, plain", Value: figures.Bytes(o.Plain.Value) + ", " + o.Plain.From}, {Name: "stored, rolling", Value: figures.Bytes(o.Rolling.Value) + ", " + o.Rolling.From}}
	if o.PlainAt.Value > 0 {
		from = append(from, document.Fact{Name: "promised, plain", Value: figures.Rate(o.PlainAt.Value) + ", " + o.PlainAt.From})
	}
	if o.RollAt.Value > 0 {
		from = append(from, document.Fact{Name: "promised, rolling", Value: figures.Rate(o.RollAt.Value) + ", " + o.RollAt.From})
	}
	d.Add(&document.Section{Title: "From", Parts: []document.Part{from}})
	if len(o.Without) > 0 {
		d.Add(&document.Section{Title: "Not to be had", Fold: true, Folded: true, Parts: []document.Part{document.Noted(o.Without...)}})
	}
	return d
}

// cents writes an amount of money.
func cents(v float64) string {
	whole, part := math.Modf(math.Round(v*100) / 100)
	return fmt.Sprintf("%s.%02.0f", figures.Count(int64(whole)), math.Round(part*100))
}
