// Package reference compares runs with the published results that they repeat, e.g. those of a
// paper: it puts each figure beside the published one, and checks the claims about the shape of the
// results.
//
//	reference.AddTo(doc, recs)
package reference

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// A Result compares an experiment of several runs with its published results.
type Result struct {
	Name  string  `json:"name"`
	Title string  `json:"title"`
	Story string  `json:"story,omitempty"`
	Scale float64 `json:"scale"`
	// Missing lists the runs without a record.
	Missing []string `json:"missing,omitempty"`
	// Notes are what a reader must know about the comparison.
	Notes  []string       `json:"notes"`
	Beside []Beside       `json:"beside"`
	Checks []CheckVerdict `json:"checks"`
}

// Beside is a figure next to the published one.
type Beside struct {
	Run    string `json:"run"`
	Figure string `json:"figure"`
	What   string `json:"what,omitempty"`
	Unit   string `json:"unit"`
	// Ours is null if the run or its figure is missing.
	Ours      *float64 `json:"ours"`
	Published float64  `json:"published"`
	Low       float64  `json:"low,omitempty"`
	High      float64  `json:"high,omitempty"`
	// OursToFirst is our figure divided by our first figure of this unit and source. PublishedToFirst
	// is the same quotient of published figures. Rates of different machines aren't comparable; these
	// quotients are.
	OursToFirst      *float64 `json:"ours_to_first"`
	PublishedToFirst float64  `json:"published_to_first"`
	Source           string   `json:"source"`
}

// Verdicts on a check.
const (
	Agrees      = "agrees"
	Differs     = "differs"
	NotMeasured = "not measured"
	byLimits    = "max-time"
)

// CheckVerdict is the result of checking a claim about the results' shape, e.g. that a rate falls.
type CheckVerdict struct {
	Verdict string `json:"verdict"`
	Claim   string `json:"claim"`
	// Ours is the figure, or the ratio of two; null if one is missing.
	Ours  *float64 `json:"ours"`
	Above *float64 `json:"above,omitempty"`
	Below *float64 `json:"below,omitempty"`
	// Why describes the computation.
	Why string `json:"why"`
}

// Results compares the runs of each experiment with its published results. If a run was repeated,
// its last complete record counts.
func Results(recs []result.Record) []Result {
	type key struct {
		name  string
		scale float64
	}
	var order []key
	runs, declared := map[key]map[string]*result.Record{}, map[key]*result.Scenario{}
	for i := range recs {
		s := recs[i].Run.Scenario
		if s == nil {
			continue
		}
		k := key{s.Name, s.Scale}
		if runs[k] == nil {
			runs[k], declared[k], order = map[string]*result.Record{}, s, append(order, k)
		}
		if len(s.Runs) > len(declared[k].Runs) { // records of two files may contain different versions of a declaration
			declared[k] = s
		}
		if was := runs[k][s.Run]; was == nil || finished(&recs[i]) || !finished(was) {
			runs[k][s.Run] = &recs[i]
		}
	}
	var out []Result
	for _, k := range order {
		out = append(out, newResult(declared[k], runs[k]))
	}
	return out
}

// finished reports whether a run completed: it inserted its rows or reached its time limit.
func finished(r *result.Record) bool {
	return r.End != nil && r.End.Failure == "" && (r.End.Stopped == "rows" || r.End.Stopped == byLimits)
}

func newResult(s *result.Scenario, runs map[string]*result.Record) Result {
	out := Result{Name: s.Name, Title: s.Title, Story: s.Story, Scale: s.Scale, Notes: []string{}, Beside: []Beside{}, Checks: []CheckVerdict{}}
	for _, name := range s.Runs {
		if runs[name] == nil {
			out.Missing = append(out.Missing, name)
		}
	}
	out.Notes = deviations(s, runs, out.Missing)
	first := map[string][2]float64{}
	for _, p := range s.Published {
		b := Beside{Run: p.Run, Figure: p.Figure, What: p.What, Unit: unitOf(p.Figure), Published: p.Value, Low: p.Low, High: p.High, Source: p.Source}
		ours := math.NaN()
		if r := runs[p.Run]; r != nil {
			ours = r.Figure(p.Figure)
		}
		of := b.Unit + " of " + b.Source
		base, ok := first[of]
		if !ok {
			base = [2]float64{ours, p.Value}
			first[of] = base
		}
		b.Ours, b.OursToFirst, b.PublishedToFirst = statistics.Known(ours), statistics.Known(ours/base[0]), p.Value/base[1]
		out.Beside = append(out.Beside, b)
	}
	for _, c := range s.Checks {
		out.Checks = append(out.Checks, judge(c, runs))
	}
	return out
}

func unitOf(figure string) string {
	for _, k := range result.Figures() {
		if k.Name == figure {
			return k.Unit
		}
	}
	return ""
}

func deviations(s *result.Scenario, runs map[string]*result.Record, missing []string) []string {
	out := []string{}
	if of := runs[s.MemoryOf]; s.MemoryShare > 0 && of != nil && of.End != nil && of.End.Size != nil && of.Run.CacheBytes > 0 && of.Run.Rows > 0 {
		final := of.End.Size.PerRow * float64(of.Run.Rows)
		note := fmt.Sprintf("memory is %s, %.2f of what %s takes for all its rows", figures.Bytes(of.Run.CacheBytes), float64(of.Run.CacheBytes)/final, s.MemoryOf)
		out = append(out, note+fmt.Sprintf("; asked for was %v", s.MemoryShare))
	} else if s.MemoryShare == 0 {
		for _, name := range s.Runs {
			if r := runs[name]; r != nil && r.Run.CacheBytes > 0 {
				out = append(out, fmt.Sprintf("memory is the target's, %s, and not the scenario's to set", figures.Bytes(r.Run.CacheBytes)))
				break
			}
		}
	}
	for _, name := range s.Runs {
		r := runs[name]
		switch {
		case r == nil:
		case r.End != nil && r.End.Stopped == byLimits && r.Run.Rows == 0: // the run had no other limit
		case r.End != nil && r.End.Stopped == byLimits:
			sum := r.Summary()
			out = append(out, fmt.Sprintf("%s was ended by its limit of %s at %s of %s rows: its last tenth is the last tenth of the rows inserted",
				name, figures.Seconds(r.Run.MaxTimeSeconds), figures.Count(sum.Rows), figures.Count(r.Run.Rows)))
		case !finished(r):
			out = append(out, name+" didn't come to its end: its figures cover what was written")
		}
	}
	if len(missing) > 0 {
		out = append(out, "no record of "+strings.Join(missing, ", "))
	}
	return out
}

func judge(c result.Check, runs map[string]*result.Record) CheckVerdict {
	out := CheckVerdict{Verdict: NotMeasured, Claim: c.Claim, Above: c.Above, Below: c.Below}
	figureOf := func(ref string) float64 {
		run, name, _ := strings.Cut(ref, ".")
		if r := runs[run]; r != nil {
			return r.Figure(name)
		}
		return math.NaN()
	}
	what, ours := c.Figure, figureOf(c.Figure)
	if c.Over != "" {
		what, ours = c.Figure+" / "+c.Over, ours/figureOf(c.Over)
	}
	out.Ours = statistics.Known(ours)
	if out.Ours == nil {
		out.Why = what + " can't be had from the records; expected " + bounds(c)
		return out
	}
	out.Verdict = Agrees
	if c.Above != nil && ours < *c.Above || c.Below != nil && ours > *c.Below {
		out.Verdict = Differs
	}
	out.Why = fmt.Sprintf("%s is %s, expected %s", what, figures.Number(ours), bounds(c))
	return out
}

func bounds(c result.Check) string {
	switch {
	case c.Above == nil:
		return "at most " + figures.Number(*c.Below)
	case c.Below == nil:
		return "at least " + figures.Number(*c.Above)
	}
	return figures.Number(*c.Above) + " to " + figures.Number(*c.Below)
}

func (s *Result) besideTable() *document.Table {
	t := &document.Table{Header: []string{"run", "what", "ours", "published", "unit", "ours to the first", "published to the first"},
		Note: "Other machines, versions and sizes: rates don't compare, their ratios to the first one do."}
	for _, b := range s.Beside {
		published := document.Either(b.High > 0, figures.Number(b.Low)+" to "+figures.Number(b.High), figures.Number(b.Published))
		t.Add(b.Run, cmp.Or(b.What, b.Figure), figures.Number(statistics.Value(b.Ours)), published, b.Unit, figures.Number(statistics.Value(b.OursToFirst)), figures.Number(b.PublishedToFirst))
	}
	return t
}

func (s *Result) tally() string {
	n := map[string]int64{}
	for _, c := range s.Checks {
		n[c.Verdict]++
	}
	return document.Listed(", ", fmt.Sprintf("%d of %s of its shape agree", n[Agrees], figures.Plural(len(s.Checks), "check", "checks")),
		document.IfAny(n[Differs], func(n int64) string { return figures.Plural(n, "differs", "differ") }),
		document.If(n[NotMeasured] > 0, fmt.Sprintf("%d not measured", n[NotMeasured])))
}

// AddTo adds the results to a document, each in a sentence and as a section.
func AddTo(d *document.Document, recs []result.Record) {
	for _, s := range Results(recs) {
		d.Lines = append(d.Lines, document.Sentence{Text: fmt.Sprintf("%s, at scale %v: %s.", s.Name, s.Scale, s.tally()), Strong: true})
		d.Add(s.section())
	}
}

func (s *Result) section() *document.Section {
	story := &document.Section{In: document.InHTML}
	for part := range strings.SplitSeq(s.Story, "\n\n") {
		if part = strings.TrimSpace(part); part != "" {
			story.Parts = append(story.Parts, document.Paragraph(part))
		}
	}
	checks := &document.Table{Header: []string{"verdict", "claim", "why"}, Bad: map[int]bool{}}
	for i, c := range s.Checks {
		checks.Add(c.Verdict, c.Claim, c.Why)
		checks.Bad[i] = c.Verdict == Differs
	}
	return &document.Section{Title: s.Name + ": " + s.Title, Parts: []document.Part{story, document.Noted(s.Notes...),
		&document.Section{Title: "Beside the published figures", Parts: s.besideTable().Parts()}, &document.Section{Title: "Shape", Parts: checks.Parts()}}}
}
