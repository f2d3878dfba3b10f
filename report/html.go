package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/result"
)

// The parts of the page. uPlot is vendored as published, version 1.6.32 from
// the npm registry, with its licence, which the page carries along.
var (
	//go:embed assets/report.html.tmpl
	pageTemplate string
	//go:embed assets/report.css
	pageCSS string
	//go:embed assets/figures.js
	figuresJS string
	//go:embed assets/chart.js
	chartJS string
	//go:embed assets/page.js
	pageJS string
	//go:embed assets/uPlot.iife.min.js
	uPlotJS string
	//go:embed assets/uPlot.min.css
	uPlotCSS string
	//go:embed assets/uPlot.LICENSE
	uPlotLicense string
)

// page is what the template shows.
type page struct {
	CSP      string
	CSS      template.CSS
	Script   template.JS
	Data     template.JS
	Title    string
	Subtitle string
	Verdict  string
	Ratios   []string
	Failures []pageNote
	Warnings []pageNote
	Runs     []pageRun
	Knees    []pageKnee
	Facts    [][]string
	Tenths   [][]string
	// PerPoint is how many intervals a point of a chart covers at most.
	PerPoint int
	Footer   string
}

type pageNote struct{ Label, Text string }

type pageKnee struct {
	Index          int
	Label, At, Why string
}

type pageFact struct {
	Name, Value string
	Bad         bool
}

type pageRun struct {
	Index                 int
	Label, Dash           string
	HasRows               bool
	First, Last, Flatness string
	Tiles                 []pageFact
	About, Settings       []pageFact
	Deviations, Schema    []string
	Periods               []pagePeriod
	Events                []pageEvent
	MoreEvents            int
}

type pagePeriod struct {
	Name, From, To, Expected, Found, Checksum string
	Bad                                       bool
}

type pageEvent struct{ At, Took, What string }

// HTML writes one page that needs nothing else: charts that can be read,
// zoomed and printed, the summary, and everything needed to repeat the runs.
// The page forbids itself any network access.
func HTML(w io.Writer, recs []result.Record) error {
	vs, err := views(recs)
	if err != nil {
		return err
	}
	tmpl, err := template.New("report").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	p, err := newPage(vs)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	if err := tmpl.Execute(out, p); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	return nil
}

func newPage(vs []view) (*page, error) {
	// json.Marshal writes <, > and & as escapes, so no text in the data can
	// end the script element that holds it.
	data, err := json.Marshal(newPageData(vs))
	if err != nil {
		return nil, fmt.Errorf("encode the page's data: %w", err)
	}
	css := uPlotCSS + "\n" + pageCSS
	script := "/*\nuPlot\n\n" + uPlotLicense + "*/\n" + uPlotJS + "\n(function () {\n\"use strict\";\n" + figuresJS + chartJS + pageJS + "})();\n"
	p := &page{
		CSP: fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
			hashSource(script), hashSource(css)),
		CSS: template.CSS(css), Script: template.JS(script), Data: template.JS(data),
		Verdict: verdict(vs), Ratios: ratios(vs), Facts: factTable(vs), Tenths: tenthsTable(vs), PerPoint: 1,
	}
	pic := picture{vs: vs}
	p.Title, p.Subtitle = pic.title(), pic.subtitle()
	st := styles(vs)
	for i := range vs {
		v := &vs[i]
		_, size := buckets(v.rec.Intervals)
		p.PerPoint = max(p.PerPoint, size)
		if how := v.incomplete(); how != "" {
			p.Failures = append(p.Failures, pageNote{v.label, how})
		}
		for _, warning := range v.sum.Warnings {
			p.Warnings = append(p.Warnings, pageNote{v.label, warning})
		}
		if k := v.sum.Knee; k != nil {
			p.Knees = append(p.Knees, pageKnee{i, v.label, count(k.Rows), sentence(k.Why)})
		}
		p.Runs = append(p.Runs, v.pageRun(i, st[i]))
	}
	r := &vs[0].rec.Run
	p.Footer = fmt.Sprintf("Measured by rowmill %s, started %s. This page is one file: it loads nothing and sends nothing.",
		r.Rowmill, r.Started.UTC().Format(time.DateTime+" UTC"))
	return p, nil
}

// hashSource names an inline script or style in a content security policy.
func hashSource(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// sentence begins a text with a capital and ends it with a stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// The events listed in the page; the charts draw more, the record has all.
const listedEvents = 500

func (v *view) pageRun(i int, s style) pageRun {
	r := &v.rec.Run
	dash := make([]string, len(s.dash))
	for j, d := range s.dash {
		dash[j] = figure(d)
	}
	out := pageRun{
		Index: i, Label: v.label, Dash: strings.Join(dash, " "), HasRows: v.sum.Rows > 0,
		First: figure(v.sum.Rate.First), Last: figure(v.sum.Rate.Last), Flatness: percent(v.sum.Rate.Flatness),
		Tiles: v.tiles(), Deviations: r.Deviations,
	}
	for _, s := range r.Schema {
		out.Schema = append(out.Schema, strings.TrimRight(strings.TrimSpace(s), ";"))
	}
	about := func(name, value string) {
		if value != "" {
			out.About = append(out.About, pageFact{Name: name, Value: value})
		}
	}
	about("name", r.Name)
	about("record", v.rec.Source)
	about("started", r.Started.UTC().Format(time.DateTime+" UTC"))
	about("rowmill", r.Rowmill)
	about("command", strings.TrimSpace("rowmill "+strings.Join(r.Command, " ")))
	about("server", v.server())
	about("target", r.Target)
	about("machine", machine(r.Machine))
	about("workload", v.workload())
	about("period", v.period())
	about("interval", figure(r.IntervalSeconds)+" s")
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		out.Settings = append(out.Settings, pageFact{Name: name, Value: r.Settings[name]})
	}
	if v.rec.End != nil {
		for _, p := range v.rec.End.Periods {
			checksum := none
			if p.Checksum != nil {
				checksum = map[bool]string{true: "equal", false: "differs"}[*p.Checksum]
			}
			out.Periods = append(out.Periods, pagePeriod{p.Name, p.From, p.To, count(p.Expected), count(p.Found), checksum,
				p.Expected != p.Found || checksum == "differs"})
		}
	}
	for j := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[j].Events {
			if len(out.Events) == listedEvents {
				out.MoreEvents++
				continue
			}
			out.Events = append(out.Events, pageEvent{figure(e.Elapsed) + " s", micros(1e6 * e.Seconds), strings.TrimSpace(e.What + " " + e.Object)})
		}
	}
	return out
}

// tiles are the figures on a run's card.
func (v *view) tiles() []pageFact {
	s := &v.sum
	out := []pageFact{
		{"rows", count(s.Rows), v.rec.Run.Rows > 0 && s.Rows < v.rec.Run.Rows && v.incomplete() != ""},
		{"time", seconds(s.Seconds), false},
		{"mean rate", rowsRate(s.RowsPerSecond), v.overloaded()},
		{"slowest tenth", rowsRate(s.Rate.Min), false},
	}
	if s.Knee != nil {
		out = append(out, pageFact{"knee", "at " + short(float64(s.Knee.Rows)) + " rows", true})
	} else {
		out = append(out, pageFact{"knee", "none", false})
	}
	for _, op := range ops(s.LatencyUS) {
		out = append(out, pageFact{op + " p99 / max", micros(float64(s.LatencyUS[op].P99)) + " / " + micros(float64(s.LatencyUS[op].Max)), false})
	}
	for _, op := range ops(s.ResponseUS) {
		out = append(out, pageFact{op + " response p99", micros(float64(s.ResponseUS[op].P99)), false})
	}
	out = append(out, pageFact{"stalled", figure(s.StallSeconds) + " s", false},
		pageFact{"errors / retries", count(s.Errors) + " / " + count(s.Retries), s.Errors > 0})
	switch c := s.Verified; {
	case c == nil:
		out = append(out, pageFact{"verified", "not checked", false})
	case c.Found == c.Expected && c.Checksum:
		out = append(out, pageFact{"verified", "all rows, checksum", false})
	default:
		out = append(out, pageFact{"verified", "FAILED", true})
	}
	if s.SizeBytes != nil {
		out = append(out, pageFact{"size", fmt.Sprintf("%s, %s B/row", bytes(float64(s.SizeBytes.Data+s.SizeBytes.Index)), figure(s.SizeBytes.PerRow)), false})
	}
	if s.Server.CPUSeconds != nil && s.Rows > 0 {
		out = append(out, pageFact{"server CPU", micros(1e6**s.Server.CPUSeconds/float64(s.Rows)) + "/row", false})
	}
	if s.Client.Bound {
		out = append(out, pageFact{"client", "client-bound", true})
	}
	return out
}
