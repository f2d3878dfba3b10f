// Package capacity reports searches for the highest rate that a table takes with a response time
// within its limit: each search's trials, its result, and what makes the result doubtful.
//
//	searches := capacity.Searches(recs)
//	doc.Say(true, capacity.Findings(searches)...)
package capacity

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// A Search is the result of a search, with a label that distinguishes it from other searches.
type Search struct {
	result.Capacity
	label string
}

// Searches returns the searches that the runs belong to.
func Searches(recs []result.Record) []Search {
	var out []Search
	for _, c := range result.Capacities(recs) {
		out = append(out, Search{Capacity: c})
	}
	name := func(i int) string {
		return document.Listed(" ", out[i].Layout, document.If(out[i].Repeat > 0, fmt.Sprintf("#%d", out[i].Repeat)))
	}
	for i, name := range document.Distinct(len(out), func(i int) string { return out[i].Layout }, name,
		func(i int) string {
			return name(i) + " on " + out[i].Engine + " (" + filepath.Base(out[i].Source) + ")"
		}) {
		out[i].label = name
	}
	return out
}

func (c *Search) finding() string {
	limit := "p99 <= " + figures.Micros(c.P99LimitUS)
	if c.State == "found" {
		s := fmt.Sprintf("%s: %s sustained at %s rows with %s (%s); ", c.label, figures.Rate(c.RowsPerSecond), figures.Short(float64(c.Rows)), limit, figures.Micros(c.P99US))
		if a := c.Above; a != nil {
			s += fmt.Sprintf("at %s, %s, p99 was %s", figures.Ratio(a.Rate/c.RowsPerSecond), figures.Rate(a.Rate), figures.Micros(a.P99US))
			s += document.If(a.Overloaded, " with a backlog of "+figures.Plural(a.Backlog, "operation", "operations"))
		}
		return s
	}
	s := c.label + ": "
	switch c.State {
	case "none":
		s += "no rate was found that holds " + limit
	case "interrupted":
		s += "the search for the rate that holds " + limit + " was broken off: " + c.BrokenOff
	default:
		s += "the search for the rate that holds " + limit + " ended without a result (" + c.State + ")"
	}
	switch {
	case c.Low > 0 && c.High > 0:
		s += fmt.Sprintf("; %s held, %s broke", figures.Rate(c.Low), figures.Rate(c.High))
	case c.Low > 0:
		s += fmt.Sprintf("; %s held, nothing broke yet", figures.Rate(c.Low))
	case c.High > 0:
		s += fmt.Sprintf("; %s broke, nothing held", figures.Rate(c.High))
	}
	return s
}

// Findings describes the result of each search, and compares the capacity of a rolling table with
// that of a plain one. Repeated searches are compared by their medians.
func Findings(cs []Search) []string {
	var out []string
	rates := map[string][]float64{}
	for i := range cs {
		c := &cs[i]
		out = append(out, c.finding())
		if c.State == "found" {
			rates[c.Layout] = append(rates[c.Layout], c.RowsPerSecond)
		}
	}
	for _, layout := range []string{"plain", "rolling"} {
		if r := rates[layout]; len(r) > 1 {
			out = append(out, fmt.Sprintf("%s, %d searches: %s to %s, the highest %s above the lowest", layout, len(r),
				figures.Number(slices.Min(r)), figures.Rate(slices.Max(r)), figures.Percent(slices.Max(r)/slices.Min(r)-1)))
		}
	}
	if p, r := rates["plain"], rates["rolling"]; len(p) > 0 && len(r) > 0 {
		out = append(out, fmt.Sprintf("rolling sustains %s the rate of plain: %s against %s", figures.Ratio(statistics.Median(r)/statistics.Median(p)), figures.Rate(statistics.Median(r)), figures.Rate(statistics.Median(p))))
	}
	return out
}

// Problems returns what a reader must know before believing the result.
func (c *Search) Problems() []document.Note {
	var out []document.Note
	add := func(serious bool, text string) {
		out = append(out, document.Note{Label: "capacity of " + c.label, Text: text, Serious: serious})
	}
	switch v := c.Verified; {
	case v != nil && !v.Sound():
		add(true, "verification "+v.Text())
	case v == nil && !result.WarnsOfUnverified(c.Warnings):
		add(false, result.NotVerified)
	}
	for _, w := range c.Warnings {
		add(strings.HasPrefix(w, "failed:"), w)
	}
	return out
}

func (c *Search) rule() string {
	return fmt.Sprintf("A trial of %s holds when the backlog is bounded and 99 of 100 operations were done %s after they were due; its first %s don't count. "+
		"The table was filled with %s in a closed loop before the first.",
		figures.Seconds(c.TrialSeconds), figures.Micros(c.P99LimitUS), figures.Seconds(c.RampSeconds), figures.Plural(c.FilledRows, "row", "rows"))
}

var purposes = map[string]string{"bracket": "bracket", "halve": "halving", "confirm": "confirming", "above": "more must break"}

func (c *Search) trialTable() *document.Table {
	out := &document.Table{Header: []string{"trial", "for", "offered, rows/s", "done, rows/s", "p99", "over the limit", "service p99", "backlog", "rows in the table", "verdict"},
		Bad: map[int]bool{}}
	for i := range c.Trials {
		t := &c.Trials[i]
		verdict := t.Verdict + document.If(t.Verdict != result.VerdictNone && t.Close, ", close") + document.If(t.Overloaded, ", overloaded")
		p99, over, service := figures.None, figures.None, figures.None
		if t.Operations > 0 {
			p99, over, service = figures.Micros(t.P99US), figures.Percent(t.Over), figures.Micros(t.ServiceP99US)
		}
		out.Add(fmt.Sprint(t.Number), cmp.Or(purposes[t.Purpose], t.Purpose), figures.Number(t.Rate), figures.Number(t.Done), p99, over, service,
			figures.Count(t.Backlog), figures.Count(t.TableRows[1]), verdict)
		out.Bad[i] = t.Verdict == result.VerdictBroke
	}
	return out
}

// Section returns the section about the search: its trials and its result.
func (c *Search) Section() *document.Section {
	s := &document.Section{Title: "Capacity of " + c.label, Parts: []document.Part{document.Paragraph(c.rule())}}
	if ch := c.chart(); len(ch.Lines[0].X)+len(ch.Lines[1].X) > 0 {
		s.Parts = append(s.Parts, ch)
	}
	s.Parts = append(s.Parts, c.trialTable().Parts()...)
	about := document.Facts{{Name: "verified", Value: c.Verified.Text()}}
	if z := c.SizeBytes; z != nil {
		about = append(about, document.Fact{Name: "size", Value: fmt.Sprintf("rows %s, indexes %s", figures.Bytes(z.Data), figures.Bytes(z.Index))})
	}
	s.Parts = append(s.Parts, about)
	return s
}

// Picture draws the trials of searches, and their answers.
func Picture(cs []Search) *document.Picture {
	p := &document.Picture{Lines: Findings(cs)}
	var row document.Charts
	for i := range cs {
		ch := cs[i].chart()
		if len(cs) > 1 {
			ch.Title, ch.Note = cs[i].label+": p99 over the offered rate", ""
		}
		row = append(row, ch)
	}
	for chunk := range slices.Chunk(row, 2) {
		p.Rows = append(p.Rows, chunk)
	}
	return p
}

// chart plots p99 over the rate, one point per trial with a verdict.
func (c *Search) chart() *document.Chart {
	held := document.Line{Style: document.Style{Colour: document.RollingColour}, Dots: true, Bare: true}
	broke := document.Line{Style: document.Style{Colour: document.PlainColour}, Dots: true, Crosses: true, Bare: true}
	trials := slices.SortedStableFunc(slices.Values(c.Trials), func(a, b result.Trial) int { return cmp.Compare(a.Rate, b.Rate) })
	for i := range trials {
		t := &trials[i]
		if t.Verdict == result.VerdictNone || t.Rate <= 0 || t.P99US <= 0 {
			continue
		}
		l := &held
		if t.Verdict == result.VerdictBroke {
			l = &broke
		}
		l.X, l.Y = append(l.X, t.Rate), append(l.Y, float64(t.P99US))
		l.Tips = append(l.Tips, fmt.Sprintf("trial %d: %s, p99 %s, %s", t.Number, figures.Rate(t.Rate), figures.Micros(t.P99US), t.Verdict))
	}
	var answer []document.Knee
	if c.State == "found" {
		answer = []document.Knee{{At: c.RowsPerSecond, Label: "sustained:\n" + figures.Rate(c.RowsPerSecond)}}
	}
	limit := float64(c.P99LimitUS)
	return &document.Chart{Knees: answer, Title: "Response time, p99, over the offered rate", Note: "both logarithmic; dot: the rate was held, cross: it was not",
		X: document.Scale{Log: true, Name: "offered, rows/s", Margin: 1.1}, Y: document.Scale{Log: true, Format: figures.Micros[float64], Margin: 1.5},
		Lines: []document.Line{held, broke}, Levels: []document.Level{{At: limit, Label: "limit " + figures.Micros(limit)}}}
}

// Cards are the capacities found.
func Cards(searches []Search) (out document.Cards) {
	for i := range searches {
		if c := &searches[i]; c.State == "found" {
			out = append(out, document.Card{Label: "Capacity of " + c.label, Style: document.NthStyle(len(document.Palette) - 1), Big: figures.Number(c.RowsPerSecond), Unit: "rows/s",
				About: fmt.Sprintf("sustained at %s rows with p99 <= %s", figures.Short(float64(c.Rows)), figures.Micros(c.P99LimitUS))})
		}
	}
	return out
}
