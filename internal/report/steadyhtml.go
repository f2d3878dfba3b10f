package report

import (
	"bufio"
	_ "embed" // the page's parts
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/rowmill/rowmill/result"
)

var (
	//go:embed assets/steady.html.tmpl
	steadyTemplate string
	//go:embed assets/steady.js
	steadyJS string
)

// HTMLOptions contains the options of HTMLWith. The zero value is the documented
// default.
type HTMLOptions struct {
	// Elapsed initially aligns constant loads by the time since their start instead
	// of the time of day; the page can switch.
	Elapsed bool
}

// steadyPage is the data of the template of constant loads.
type steadyPage struct {
	CSP                string
	CSS                template.CSS
	Script, Data       template.JS
	Title, Subtitle    string
	Verdicts           []string
	Failures, Warnings []pageNote
	Heat               template.HTML
	Clock              string
	PerPoint           int
	Tables             []pageTable
	Set                []pageSetting
	Footer             string
}

// steadyData is the data drawn by the page's script.
type steadyData struct {
	Runs    []steadyRun   `json:"runs"`
	Panels  []steadyPanel `json:"panels"`
	Elapsed bool          `json:"elapsed"`
	// Days is true if times of day are shown with their day.
	Days bool `json:"days"`
}

type steadyRun struct {
	Label string  `json:"label"`
	Light string  `json:"light"`
	Dark  string  `json:"dark"`
	At    axis    `json:"at"`
	Shift float64 `json:"shift"`
}

func steadyHTML(w io.Writer, vs []view, ss []steadyView, opts HTMLOptions) error {
	tmpl, err := template.New("steady").Parse(steadyTemplate)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	p, err := newSteadyPage(vs, ss, opts)
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

func newSteadyPage(vs []view, ss []steadyView, opts HTMLOptions) (*steadyPage, error) {
	pic := newSteadyPicture(vs, ss, PNGOptions{})
	d := steadyData{Panels: pic.panels, Elapsed: opts.Elapsed, Days: pic.from < 0 || pic.to > daySeconds}
	for i := range ss {
		d.Runs = append(d.Runs, steadyRun{oneLine(ss[i].label), pic.styles[i].light, pic.styles[i].dark, ss[i].axis(pic.buckets[i]), ss[i].shift})
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the page's data: %w", err)
	}
	css := uPlotCSS + "\n" + pageCSS
	script := "/*\nuPlot\n\n" + uPlotLicense + "*/\n" + uPlotJS + "\n(function () {\n\"use strict\";\n" + figuresJS + steadyJS + "})();\n"
	p := &steadyPage{
		CSP: fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
			hashSource(script), hashSource(css)),
		CSS: template.CSS(css), Script: template.JS(script), Data: template.JS(data),
		Title: "A constant load of " + ss[0].target(), Subtitle: (&picture{vs: vs}).subtitle(),
		Heat: pic.heatSVG(), PerPoint: 1, Set: settingsTable(vs),
	}
	zones := map[string]bool{}
	for i := range ss {
		v := &ss[i]
		for _, line := range v.verdicts(len(ss) > 1) {
			p.Verdicts = append(p.Verdicts, sentence(line))
		}
		_, size := buckets(v.rec.Intervals)
		p.PerPoint = max(p.PerPoint, size)
		if z := v.zoneText(); !zones[z] {
			zones[z] = true
			p.Clock += sentence("the clock is "+z) + " "
		}
	}
	for _, problem := range allProblems(vs) {
		note := pageNote{problem.Label, sentence(problem.Text)}
		if problem.Serious {
			p.Failures = append(p.Failures, note)
		} else {
			p.Warnings = append(p.Warnings, note)
		}
	}
	short := sideBySide(ss)
	p.Tables = append(p.Tables, pageTable{"In short", short.Header, short.Rows})
	for i := range ss {
		v := &ss[i]
		if t := v.causes(); len(t.Rows) > 0 {
			p.Tables = append(p.Tables, pageTable{"What went with the time below target: " + v.label, t.Header, t.Rows})
		}
		if text := v.missing(); text != "" {
			p.Warnings = append(p.Warnings, pageNote{v.label, sentence(text)})
		}
		p.Tables = append(p.Tables, pageTable{"By hour of the day: " + v.label, v.hours().Header, v.hours().Rows})
	}
	facts := []string{""}
	for i := range vs {
		facts = append(facts, vs[i].label)
	}
	p.Tables = append(p.Tables, pageTable{"The runs", facts, runColumns(vs).sheet().Rows})
	r := &vs[0].rec.Run
	p.Footer = fmt.Sprintf("Measured by rowmill %s, started %s. This page is one file: it loads nothing and sends nothing.",
		r.Rowmill, r.Started.UTC().Format(time.DateTime+" UTC"))
	return p, nil
}

// heatSVG draws the hours. Colours are attributes, because the page's security
// policy allows no inline styles.
func (p *steadyPicture) heatSVG() template.HTML {
	const cell, row, left, top = 44, 22, 150, 20
	strips := p.strips()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg role="img" aria-label="Share of the time below target, by hour" width="100%%" viewBox="0 0 %d %d">`, left+24*cell, top+row*(len(strips)+1)+6)
	for h := range 24 {
		fmt.Fprintf(&b, `<text x="%d" y="14" font-size="12" text-anchor="middle" fill="currentColor">%02d</text>`, left+h*cell+cell/2, h)
	}
	for n, s := range strips {
		y := top + n*row
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="12" text-anchor="end" fill="currentColor">%s</text>`, left-8, y+15,
			template.HTMLEscapeString(oneLine(p.vs[s.run].stripLabel(s.day))))
		for h, c := range s.cells {
			x := left + h*cell
			if c == nil {
				fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="currentColor" stroke-opacity=".12"/>`, x, y+1, cell-1, row-3)
				continue
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"><title>%s</title></rect>`, x, y+1, cell-1, row-3, heatColours[heat(c.h.BelowShare())],
				template.HTMLEscapeString(heatTitle(&p.vs[s.run], c.h)))
		}
	}
	for i, what := range heatLegend {
		x, y := left+i*2*cell, top+row*len(strips)+8
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="14" height="14" fill="%s"/><text x="%d" y="%d" font-size="12" fill="currentColor">%s</text>`,
			x, y, heatColours[i], x+19, y+12, what)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

func heatTitle(v *steadyView, h *result.SteadyHour) string {
	return fmt.Sprintf("%s: %s of %s below target, p99 %s", h.Start.In(v.zone).Format("2 Jan 15:04"), percent(h.BelowShare()), clock(h.Seconds), micros(float64(h.P99US)))
}
