package document

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// The parts of the page. uPlot is version 1.6.32 from the npm registry, vendored unmodified with
// its licence. A page with uPlot's charts includes the licence.
//
//go:embed assets
var assets embed.FS

// asset returns a part of the page; they are compiled in, so that none is missing.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// page is the data of the template.
type page struct {
	*Document
	Parts        []Part
	CSP          string
	CSS          template.CSS
	Script, Data template.JS
	// Failures are the serious notes, Warnings the other notes.
	Failures, Warnings []Note
}

// A Live part is a set of charts that can be zoomed, drawn by a script of the page.
type Live struct {
	Data any
	// PerPoint is the maximum number of intervals per point of a chart.
	PerPoint int
	// Knees and Loops are texts beside the charts: on knees, and on requested rates.
	Knees []LiveKnee
	Loops []Note
}

// A LiveKnee is a mark in a live chart.
type LiveKnee struct {
	Label, At, Why string
	Style          Style
}

func (*Live) Kind() string { return "live" }

// A Card has the result of one run.
type Card struct {
	Label string
	Style Style
	// Big is the most important figure, of the given Unit; About says what it means.
	Big, Unit, About string
}

// Cards are shown side by side.
type Cards []Card

func (Cards) Kind() string { return "cards" }

// A Legend names the lines of the charts after it.
type Legend []Key

func (Legend) Kind() string { return "legend" }

// HTML writes the document as a self-contained page. Its content security policy forbids network
// access.
func (d *Document) HTML(w io.Writer) error {
	tmpl, err := template.New("page.html.tmpl").ParseFS(assets, "assets/*.tmpl")
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	css, script := asset("report.css")+paintCSS(), asset("theme.js")
	p := &page{Document: d, Parts: shown(d.Parts, InHTML)}
	for _, part := range p.Parts {
		l, ok := part.(*Live)
		if !ok {
			continue
		}
		data, err := json.Marshal(l.Data)
		if err != nil {
			return fmt.Errorf("encode the page's data: %w", err)
		}
		p.Data = template.JS(data)
		css = asset("uPlot.min.css") + "\n" + css
		script = "/*\nuPlot\n\n" + asset("uPlot.LICENSE") + "*/\n" + asset("uPlot.iife.min.js") + "\n(function () {\n\"use strict\";\n" +
			asset("figures.js") + asset("chart.js") + asset("runs.js") + "})();\n"
	}
	script += "\n" + asset("scroll.js")
	p.CSS, p.Script = template.CSS(css), template.JS(script)
	p.CSP = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'", hashSource(script), hashSource(css))
	for _, n := range d.Notes {
		n.Text = AsSentence(n.Text)
		if n.Serious {
			p.Failures = append(p.Failures, n)
		} else {
			p.Warnings = append(p.Warnings, n)
		}
	}
	var out strings.Builder
	if err := tmpl.Execute(&out, p); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	return nil
}

// hashSource returns the hash of an inline script or style, in the form in which a content security
// policy permits it.
func hashSource(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A pageCell is a cell of a table in the page.
type pageCell struct{ Text, Class string }

// A pageRow is a row of a table in the page.
type pageRow struct {
	Bad   bool
	Name  pageCell
	Cells []pageCell
}

// Page returns the rows of the table as they stand in the page, the header first.
func (t *Table) Page() []pageRow {
	t = t.Filled()
	row := func(cells []string) (out pageRow) {
		for i, text := range cells {
			c := pageCell{Text: text}
			switch {
			case t.numeric(i):
				c.Class = "n"
			case len(text) > 40:
				c.Class = "wrap long"
			case len(text) > 24:
				c.Class = "wrap"
			}
			out.Cells = append(out.Cells, c)
		}
		out.Name, out.Cells = out.Cells[0], out.Cells[1:]
		return out
	}
	out := []pageRow{row(t.Header)}
	for i, r := range t.Rows {
		line := row(r)
		line.Bad = t.Bad[i]
		out = append(out, line)
	}
	return out
}
