package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// charted returns the runs shown one by one: all except the trials of searches, if any.
func charted(recs []result.Record) []result.Record {
	out := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return r.IsTrial() })
	if len(out) == 0 {
		return recs
	}
	return out
}

// A capacity is the result of a search, with a label that distinguishes it.
type capacity struct {
	result.Capacity
	label string
}

func capacities(recs []result.Record) []capacity {
	var out []capacity
	for _, c := range result.Capacities(recs) {
		out = append(out, capacity{Capacity: c})
	}
	on := func(i int) string { return out[i].Layout + " on " + out[i].Engine }
	repeat := func(i int) string { return onlyIf(out[i].Repeat > 0, fmt.Sprintf(" #%d", out[i].Repeat)) }
	file := func(i int) string { return " (" + filepath.Base(out[i].Source) + ")" }
	for i, name := range distinct(len(out), func(i int) string { return out[i].Layout }, on, func(i int) string { return out[i].Layout + repeat(i) },
		func(i int) string { return out[i].Layout + file(i) }, func(i int) string { return on(i) + repeat(i) + file(i) }) {
		out[i].label = name
	}
	return out
}

func (c *capacity) finding() string {
	limit := "p99 <= " + micros(c.P99LimitUS)
	if c.State == "found" {
		s := fmt.Sprintf("%s: %s sustained at %s rows with %s (%s); ", c.label, rowsRate(c.RowsPerSecond), short(float64(c.Rows)), limit, micros(c.P99US))
		if a := c.Above; a != nil {
			s += fmt.Sprintf("at %s, %s, p99 was %s", ratio(a.Rate/c.RowsPerSecond), rowsRate(a.Rate), micros(a.P99US))
			s += onlyIf(a.Overloaded, " with a backlog of "+plural(a.Backlog, "operation", "operations"))
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
		s += fmt.Sprintf("; %s held, %s broke", rowsRate(c.Low), rowsRate(c.High))
	case c.Low > 0:
		s += fmt.Sprintf("; %s held, nothing broke yet", rowsRate(c.Low))
	case c.High > 0:
		s += fmt.Sprintf("; %s broke, nothing held", rowsRate(c.High))
	}
	return s
}

// findings describes the result of each search, and compares the capacities of a rolling
// and a plain table, and those of repeats by their medians.
func findings(cs []capacity) []string {
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
				figure(slices.Min(r)), rowsRate(slices.Max(r)), percent(slices.Max(r)/slices.Min(r)-1)))
		}
	}
	if p, r := rates["plain"], rates["rolling"]; len(p) > 0 && len(r) > 0 {
		out = append(out, fmt.Sprintf("rolling sustains %s the rate of plain: %s against %s", ratio(statistics.Median(r)/statistics.Median(p)), rowsRate(statistics.Median(r)), rowsRate(statistics.Median(p))))
	}
	return out
}

// problems returns what a reader must know before believing the result.
func (c *capacity) problems() []document.Note {
	var out []document.Note
	add := func(serious bool, text string) {
		out = append(out, document.Note{Label: "capacity of " + c.label, Text: text, Serious: serious})
	}
	switch v := c.Verified; {
	case v != nil && !v.Sound():
		add(true, "verification "+proof(v))
	case v == nil && !saidWhy(c.Warnings):
		add(false, unverified)
	}
	for _, w := range c.Warnings {
		add(strings.HasPrefix(w, "failed:"), w)
	}
	return out
}

func (c *capacity) rule() string {
	return fmt.Sprintf("A trial of %s holds when the backlog is bounded and 99 of 100 operations were done %s after they were due; its first %s don't count. "+
		"The table was filled with %s in a closed loop before the first.",
		seconds(c.TrialSeconds), micros(c.P99LimitUS), seconds(c.RampSeconds), plural(c.FilledRows, "row", "rows"))
}

var purposes = map[string]string{"bracket": "bracket", "halve": "halving", "confirm": "confirming", "above": "more must break"}

func (c *capacity) trialTable() *document.Table {
	out := &document.Table{Header: []string{"trial", "for", "offered, rows/s", "done, rows/s", "p99", "over the limit", "service p99", "backlog", "rows in the table", "verdict"},
		Bad: map[int]bool{}}
	for i := range c.Trials {
		t := &c.Trials[i]
		verdict := t.Verdict + onlyIf(t.Verdict != result.VerdictNone && t.Close, ", close") + onlyIf(t.Overloaded, ", overloaded")
		p99, over, service := none, none, none
		if t.Operations > 0 {
			p99, over, service = micros(t.P99US), percent(t.Over), micros(t.ServiceP99US)
		}
		out.Add(fmt.Sprint(t.Number), cmp.Or(purposes[t.Purpose], t.Purpose), figure(t.Rate), figure(t.Done), p99, over, service,
			count(t.Backlog), count(t.TableRows[1]), verdict)
		out.Bad[i] = t.Verdict == result.VerdictBroke
	}
	return out
}

func (c *capacity) section() *document.Section {
	s := &document.Section{Title: "Capacity of " + c.label, Parts: []document.Part{document.Paragraph(c.rule())}}
	if ch := c.chart(); len(ch.Lines[0].X)+len(ch.Lines[1].X) > 0 {
		s.Parts = append(s.Parts, ch)
	}
	s.Parts = append(s.Parts, c.trialTable().Parts()...)
	about := document.Facts{{Name: "verified", Value: proof(c.Verified)}}
	if z := c.SizeBytes; z != nil {
		about = append(about, document.Fact{Name: "size", Value: fmt.Sprintf("rows %s, indexes %s", bytes(z.Data), bytes(z.Index))})
	}
	s.Parts = append(s.Parts, about)
	return s
}

// searchPicture draws the trials of searches, and their answers.
func searchPicture(cs []capacity) *document.Picture {
	p := &document.Picture{Lines: findings(cs)}
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
func (c *capacity) chart() *document.Chart {
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
		l.Tips = append(l.Tips, fmt.Sprintf("trial %d: %s, p99 %s, %s", t.Number, rowsRate(t.Rate), micros(t.P99US), t.Verdict))
	}
	var answer []document.Knee
	if c.State == "found" {
		answer = []document.Knee{{At: c.RowsPerSecond, Label: "sustained:\n" + rowsRate(c.RowsPerSecond)}}
	}
	limit := float64(c.P99LimitUS)
	return &document.Chart{Knees: answer, Title: "Response time, p99, over the offered rate", Note: "both logarithmic; dot: the rate was held, cross: it was not",
		X: document.Scale{Log: true, Name: "offered, rows/s", Margin: 1.1}, Y: document.Scale{Log: true, Format: micros[float64], Margin: 1.5},
		Lines: []document.Line{held, broke}, Levels: []document.Level{{At: limit, Label: "limit " + micros(limit)}}}
}
