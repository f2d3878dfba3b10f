package report

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/rowmill/rowmill/result"
)

// A ScanComparison is the partition scan on one server, asked in several ways.
type ScanComparison struct {
	Label         string `json:"label"`
	Engine        string `json:"engine"`
	ServerVersion string `json:"server_version"`
	Target        string `json:"target"`
	Source        string `json:"source,omitempty"`
	Partitions    int    `json:"partitions"`
	TableRows     int64  `json:"table_rows"`
	Query         string `json:"query"`
	// Ways are compared with the first, which is one connection unless that wasn't measured.
	Ways []ScanWay `json:"ways"`

	first *result.Run
}

// A ScanWay is one way of asking, over all runs of it.
type ScanWay struct {
	Way      string `json:"way"`
	Sessions int    `json:"sessions"`
	Runs     int    `json:"runs"`
	// Whole is why its queries weren't split.
	Whole  string             `json:"whole,omitempty"`
	Points []result.ScanPoint `json:"points"`
	// Gain is the first way's time over this one's for the most partitions that both read, Overhead the
	// seconds by which this way takes longer for the fewest; null for the first, or if either is missing. Both are
	// medians over the rounds that measured both: machines change their speed from one round to the next.
	Gain     *float64 `json:"gain"`
	Overhead *float64 `json:"overhead_seconds"`
	// Most and Fewest are those numbers of partitions.
	Most   int `json:"most,omitempty"`
	Fewest int `json:"fewest,omitempty"`

	rounds map[int][]result.ScanPoint // by the number of the repetition
}

// scans compares the runs of partition scans; nil if none of the records is one.
func scans(recs []result.Record) ([]ScanComparison, error) {
	is := func(r result.Record) bool { return r.Run.Scan != nil }
	if !slices.ContainsFunc(recs, is) {
		return nil, nil
	}
	if slices.ContainsFunc(recs, func(r result.Record) bool { return !is(r) }) {
		return nil, errors.New("report: some of these runs are partition scans and others are not; report them apart")
	}
	var out []ScanComparison
	files := map[string]bool{}
	for i := range recs {
		r := &recs[i].Run
		files[recs[i].Source] = true
		same := func(c ScanComparison) bool {
			return c.Target == r.Target && c.Source == recs[i].Source && c.Partitions == r.Scan.Partitions && c.TableRows == r.Scan.TableRows
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, ScanComparison{Label: result.EngineName(r.Engine), Engine: r.Engine, ServerVersion: r.ServerVersion, Target: r.Target, Source: recs[i].Source,
				Partitions: r.Scan.Partitions, TableRows: r.Scan.TableRows, Query: r.Scan.Query, first: r})
		}
	}
	for i := range out {
		if len(files) > 1 {
			out[i].Label += " (" + filepath.Base(out[i].Source) + ")"
		}
		out[i].compare(recs)
	}
	return out, nil
}

// compare fills the ways, in the usual order.
func (c *ScanComparison) compare(recs []result.Record) {
	for _, name := range result.ScanWays() {
		w := ScanWay{Way: name, rounds: map[int][]result.ScanPoint{}}
		var of []*result.Record
		for i := range recs {
			r := &recs[i].Run
			if r.Target == c.Target && recs[i].Source == c.Source && r.Scan.Way == name && r.Scan.Partitions == c.Partitions && r.Scan.TableRows == c.TableRows {
				of = append(of, &recs[i])
				w.rounds[r.Repeat] = result.ScanPoints(&recs[i])
				w.Sessions, w.Whole = r.Scan.Sessions, r.Scan.Whole
			}
		}
		if w.Points = result.ScanPoints(of...); len(w.Points) == 0 {
			continue
		}
		w.Runs = len(of)
		if len(c.Ways) > 0 {
			w.against(&c.Ways[0])
		}
		c.Ways = append(c.Ways, w)
	}
}

// at returns the time for a number of partitions; NaN without.
func at(points []result.ScanPoint, partitions int) float64 {
	for _, p := range points {
		if p.Partitions == partitions {
			return p.Seconds
		}
	}
	return math.NaN()
}

// paired is the median of what compare returns for the times of both ways for a number of partitions, over the rounds that
// have both; NaN without.
func (w *ScanWay) paired(first *ScanWay, partitions int, compare func(was, is float64) float64) float64 {
	var all []float64
	for round, points := range w.rounds {
		if v := compare(at(first.rounds[round], partitions), at(points, partitions)); !math.IsNaN(v) && !math.IsInf(v, 0) {
			all = append(all, v)
		}
	}
	return middle(all)
}

func gain(was, is float64) float64 { return was / is }

func (w *ScanWay) against(first *ScanWay) {
	for _, p := range w.Points {
		if g := w.paired(first, p.Partitions, gain); !math.IsNaN(g) {
			if w.Overhead == nil {
				w.Fewest, w.Overhead = p.Partitions, known(w.paired(first, p.Partitions, func(was, is float64) float64 { return is - was }))
			}
			w.Most, w.Gain = p.Partitions, known(g)
		}
	}
}

// wayNames are the ways in words.
var wayNames = map[string]string{result.ScanSerial: "one connection", result.ScanParallel: "split by rowmill", result.ScanServe: "through rowmill serve"}

// verdicts are the results in sentences: the gain for the most partitions, and the cost for the fewest.
func (c *ScanComparison) verdicts() (out []string) {
	for i := range c.Ways {
		w := &c.Ways[i]
		if i == 0 {
			last := w.Points[len(w.Points)-1]
			out = append(out, fmt.Sprintf("%s: %s reads %s of %s in %s", c.Label, wayNames[w.Way], plural(last.Partitions, "partition", "partitions"), plural(c.TableRows, "row", "rows"), micros(1e6*last.Seconds)))
			continue
		}
		if w.Gain != nil {
			out = append(out, fmt.Sprintf("%s: %s times as fast at %s, on %s", wayNames[w.Way], figure(math.Round(100**w.Gain)/100), plural(w.Most, "partition", "partitions"), plural(w.Sessions, "session", "sessions")))
		}
		if w.Overhead != nil {
			out = append(out, fmt.Sprintf("%s: %s %s at %s", wayNames[w.Way], micros(1e6*math.Abs(*w.Overhead)), longer(*w.Overhead), plural(w.Fewest, "partition", "partitions")))
		}
	}
	return out
}

func longer(overhead float64) string {
	if overhead < 0 {
		return "shorter"
	}
	return "longer"
}

// table has a row for each number of partitions.
func (c *ScanComparison) table() *table {
	t := &table{Header: []string{"partitions"}, Note: "Times are medians. Gains are against the first, medians of those of each round."}
	var numbers []int
	for i := range c.Ways {
		t.Header = append(t.Header, wayNames[c.Ways[i].Way])
		if i > 0 {
			t.Header = append(t.Header, "gain")
		}
		for _, p := range c.Ways[i].Points {
			numbers = append(numbers, p.Partitions)
		}
	}
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		row := []string{count(n)}
		for i := range c.Ways {
			row = append(row, micros(1e6*at(c.Ways[i].Points, n)))
			if i > 0 {
				row = append(row, ratio(c.Ways[i].paired(&c.Ways[0], n, gain)))
			}
		}
		t.add(row...)
	}
	return t
}

// chart plots the response time over the number of partitions.
func (c *ScanComparison) chart() *chart {
	out := &chart{Title: "response time, s", X: scale{Name: "partitions"}, Height: 320, Ends: true}
	for i := range c.Ways {
		w := &c.Ways[i]
		l := line{Name: wayNames[w.Way], Style: nthStyle(slices.Index(result.ScanWays(), w.Way)), Dots: len(w.Points) <= 30}
		for _, p := range w.Points {
			l.X, l.Y, l.Lo, l.Hi = append(l.X, float64(p.Partitions)), append(l.Y, p.Seconds), append(l.Lo, p.Low), append(l.Hi, p.High)
			l.Tips = append(l.Tips, fmt.Sprintf("%s, %s: %s", l.Name, plural(p.Partitions, "partition", "partitions"), micros(1e6*p.Seconds)))
		}
		if w.Gain != nil {
			l.End = []string{ratio(*w.Gain)}
		} else {
			l.End = []string{micros(1e6 * w.Points[len(w.Points)-1].Seconds)}
		}
		out.Lines = append(out.Lines, l)
	}
	return out
}

// scanDocument reports partition scans.
func scanDocument(recs []result.Record, all []ScanComparison) (*Document, error) {
	if !slices.ContainsFunc(all, func(c ScanComparison) bool { return len(c.Ways) > 0 }) {
		return nil, errors.New("report: no query of the partition scan was answered")
	}
	r := all[0].first
	d := &Document{
		Title: "Partition scan: " + all[0].Label,
		Subtitle: listed(" · ", words(result.EngineName(r.Engine), r.ServerVersion), plural(r.Scan.TableRows, "row", "rows")+" in "+plural(r.Scan.Partitions, "partition", "partitions"),
			called("cache", sizeOrNone(r.CacheBytes)), some(r.Machine.Cores, "core", "cores")),
		Footer: footer(r), Data: func() any { return summaries(recs) },
	}
	scenarios := Scenarios(recs)
	for i := range scenarios {
		d.Lines = append(d.Lines, Sentence{scenarios[i].outcome(), true})
		d.add(scenarios[i].section())
	}
	var names legend
	for i, way := range result.ScanWays() {
		names = append(names, key{wayNames[way], nthStyle(i)})
	}
	for i := range all {
		c := &all[i]
		if len(c.Ways) == 0 {
			continue
		}
		d.say(true, c.verdicts()...)
		for _, w := range c.Ways {
			if w.Whole != "" {
				d.Notes = append(d.Notes, Note{Label: wayNames[w.Way], Text: "the query was passed to the server whole: " + w.Whole, Serious: true})
			}
		}
		d.add(&section{Title: "Response time on " + c.Label, Parts: []Part{names, charts{c.chart()}, c.table(), paragraph(c.Query)}})
	}
	for i := range recs {
		v := view{rec: &recs[i], label: recs[i].Run.Name}
		if how := v.incomplete(); how != "" {
			d.Notes = append(d.Notes, Note{v.label, how, true})
		}
		s := recs[i].Summary()
		if others := othersShare(&recs[i], s); others > crowded {
			d.Notes = append(d.Notes, Note{v.label, "disturbed: other programs or the host took " + percent(others) + " of this machine's cores meanwhile", true})
		}
		for _, w := range s.Warnings {
			if n := (Note{Label: v.label, Text: w}); !slices.ContainsFunc(d.Notes, func(o Note) bool { return o.Text == n.Text }) {
				d.Notes = append(d.Notes, n)
			}
		}
	}
	d.picture = func(PNGOptions) *picture {
		p := &picture{Lines: all[0].verdicts(), Legend: names}
		for i := range all {
			if len(all[i].Ways) > 0 {
				c := all[i].chart()
				c.Title = all[i].Label + ", " + c.Title
				p.Rows = append(p.Rows, charts{c})
			}
		}
		return p
	}
	facts := facts{}
	for _, f := range (&view{rec: &recs[0], sum: recs[0].Summary()}).facts() {
		if slices.Contains(conditions, f.Name) {
			facts = append(facts, f)
		}
	}
	for _, text := range r.Deviations {
		facts = append(facts, fact{"deviation", text})
	}
	d.add(&section{Title: "How it was run", Parts: []Part{facts}})
	return d, nil
}

// ScanLine describes the result of a run in a few words.
func ScanLine(s result.Summary) string {
	if s.Scan == nil || len(s.Scan.Points) == 0 {
		return "no query was answered"
	}
	first, last := s.Scan.Points[0], s.Scan.Points[len(s.Scan.Points)-1]
	out := fmt.Sprintf("%s at %s", micros(1e6*first.Seconds), plural(first.Partitions, "partition", "partitions"))
	if last.Partitions != first.Partitions {
		out += fmt.Sprintf(", %s at %d", micros(1e6*last.Seconds), last.Partitions)
	}
	if s.Failure != "" {
		out += ", FAILED"
	}
	return out
}
