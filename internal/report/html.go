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
	"time"

	"github.com/rowmill/rowmill/result"
)

// The parts of the page. uPlot is version 1.6.32 from the npm registry, vendored
// unmodified with its licence, which the page includes.
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

// page is the data of the template.
type page struct {
	CSP      string
	CSS      template.CSS
	Script   template.JS
	Data     template.JS
	Title    string
	Subtitle string
	Verdicts []string
	Ratios   []string
	// Scenarios are the experiments that the runs belong to.
	Scenarios []pageScenario
	// Serious problems are shown as banners, the others as a list of warnings.
	Failures []pageNote
	Warnings []pageNote
	Runs     []pageRun
	Knees    []pageKnee
	Loops    []pageNote
	Searches []pageCapacity
	Facts    [][]string
	Tenths   []pageTable
	Set      []pageSetting
	// Grids are the tables of a benchmark's steps, or of constant size; Of names
	// their subject.
	Grids []pageGrid
	// PerPoint is the maximum number of intervals per point of a chart.
	PerPoint int
	Footer   string
}

// A pageGrid is a table with its title.
type pageGrid struct {
	Of, Title string
	*table
}

// A whole is a report of several runs together.
type whole interface {
	HTML(w io.Writer) error
	PNG(w io.Writer, opts PNGOptions) error
}

func wholeOf(recs []result.Record) (whole, error) {
	if IsMatrix(recs) {
		return NewMatrix(recs)
	}
	t, err := speedTest(recs)
	if t == nil {
		return nil, err
	}
	return t, nil
}

type pageNote struct{ Label, Text string }

type pageKnee struct {
	Index          int
	Label, At, Why string
}

// HTML writes a self-contained page: charts that can be zoomed and printed, the
// summary, and everything needed to repeat the runs. The page's policy forbids any
// network access.
func HTML(w io.Writer, recs []result.Record) error { return HTMLWith(w, recs, HTMLOptions{}) }

// HTMLWith is HTML with options.
func HTMLWith(w io.Writer, recs []result.Record, opts HTMLOptions) error {
	if all, err := wholeOf(recs); err != nil {
		return err
	} else if all != nil {
		return all.HTML(w)
	}
	vs, err := views(loading(recs))
	if err != nil {
		return err
	}
	if ss := steadies(vs); ss != nil {
		return steadyHTML(w, vs, ss, opts)
	}
	tmpl, err := template.New("report").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	p, err := newPage(vs, capacities(recs))
	if err != nil {
		return err
	}
	if err := p.addGrids(recs); err != nil {
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

func newPage(vs []view, searches []capacity) (*page, error) {
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
		Facts: runColumns(vs).sheet().Rows, Set: settingsTable(vs), PerPoint: 1,
	}
	p.Scenarios = pageScenarios(recordsOf(vs))
	pic := picture{vs: vs}
	p.Title, p.Subtitle = pic.title(), pic.subtitle()
	p.Searches = pageCapacities(searches)
	for _, line := range findings(searches) {
		p.Ratios = append(p.Ratios, sentence(line))
	}
	for i := range searches {
		for _, problem := range searches[i].problems() {
			note := pageNote{problem.Label, sentence(problem.Text)}
			if problem.Serious {
				p.Failures = append(p.Failures, note)
			} else {
				p.Warnings = append(p.Warnings, note)
			}
		}
	}
	for _, line := range ratios(vs) {
		p.Ratios = append(p.Ratios, sentence(line))
	}
	for _, line := range verdicts(vs) {
		p.Verdicts = append(p.Verdicts, sentence(line))
	}
	for _, problem := range allProblems(vs) {
		note := pageNote{problem.Label, sentence(problem.Text)}
		if problem.Serious {
			p.Failures = append(p.Failures, note)
		} else {
			p.Warnings = append(p.Warnings, note)
		}
	}
	st := styles(vs)
	for i := range vs {
		v := &vs[i]
		_, size := buckets(v.rec.Intervals)
		p.PerPoint = max(p.PerPoint, size)
		if k := v.sum.Knee; k != nil {
			p.Knees = append(p.Knees, pageKnee{i, v.label, count(k.Rows), sentence(k.Why)})
		}
		if v.loop != nil {
			p.Loops = append(p.Loops, pageNote{v.label, sentence(v.openLoop())})
		}
		p.Tenths = append(p.Tenths, v.tenthsDetail())
		p.Runs = append(p.Runs, v.pageRun(i, st[i]))
	}
	r := &vs[0].rec.Run
	p.Footer = fmt.Sprintf("Measured by rowmill %s, started %s. This page is one file: it loads nothing and sends nothing.",
		r.Rowmill, r.Started.UTC().Format(time.DateTime+" UTC"))
	return p, nil
}

// addGrids adds the tables of the runs, and the verdicts on whole benchmarks.
func (p *page) addGrids(recs []result.Record) error {
	others, benchmarks := splitSteps(recs)
	if len(benchmarks) > 0 {
		p.Verdicts = nil
	}
	for _, steps := range benchmarks {
		vs, err := views(steps)
		if err != nil {
			return err
		}
		b, of := benchmark(vs), ""
		for _, line := range b.verdicts() {
			p.Verdicts = append(p.Verdicts, sentence(line))
		}
		if len(benchmarks) > 1 {
			of = b.title()
		}
		for _, g := range []*section{b.rates(), b.latencies(), b.buckets(), b.costs(), b.did()} {
			if len(g.Parts) > 0 {
				p.Grids = append(p.Grids, pageGrid{of, g.Title, g.Parts[0].(*table)})
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	vs, err := views(others)
	if err != nil {
		return err
	}
	if len(benchmarks) > 0 {
		for _, line := range verdicts(vs) {
			p.Verdicts = append(p.Verdicts, sentence(line))
		}
	}
	if g := constantSize(vs); g != nil {
		p.Grids = append(p.Grids, pageGrid{"", g.Title, g.Parts[0].(*table)})
	}
	return nil
}

// hashSource returns the source expression of an inline script or style for a
// content security policy.
func hashSource(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
