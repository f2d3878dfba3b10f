package report

import (
	"bufio"
	_ "embed" // the page's parts
	"fmt"
	"html/template"
	"io"
)

var (
	//go:embed assets/matrix.html.tmpl
	matrixTemplate string
	//go:embed assets/matrix.css
	matrixCSS string
	//go:embed assets/matrix.js
	matrixJS string
)

// A matrixTable is one table of the page.
type matrixTable struct {
	Title string
	*table
}

// matrixPage is the data of the template.
type matrixPage struct {
	CSP             string
	CSS             template.CSS
	Script          template.JS
	Title, Subtitle string
	Verdicts        []string
	Problems        []string
	Heat            *heatMap
	Bars            []matrixBar
	BarsHeight      int
	Effects         []matrixTable // of each choice
	Cells           matrixTable
	Baseline        *matrixTable
	BaselineText    []string
	BaselineFlags   []string
	BaselineLeft    []string
	Footer          string
}

// A matrixBar is one bar of the chart of shares, in pixels.
type matrixBar struct {
	Name, Text   string
	Y, Width, At int
	Kind         string // "one", "two" or "rest"
}

// Sizes of the bars in pixels.
const (
	barRow, barRoom = 26, 560
)

// HTML writes a self-contained page: a bar chart of the choices that matter, a heat
// map of the rates, and all figures. The page's policy forbids any network access.
func (m *Matrix) HTML(w io.Writer) error {
	tmpl, err := template.New("matrix").Parse(matrixTemplate)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	css, script := pageCSS+"\n"+matrixCSS, "(function () {\n\"use strict\";\n"+matrixJS+"})();\n"
	p := &matrixPage{
		CSP: fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
			hashSource(script), hashSource(css)),
		CSS: template.CSS(css), Script: template.JS(script),
		Title: m.title(), Subtitle: m.subtitle(), Verdicts: m.verdicts(), Heat: m.heat(), Footer: m.footer(),
	}
	for _, n := range m.document().Notes {
		p.Problems = append(p.Problems, sentence(n.Text))
	}
	p.Cells = matrixTable{"All cells, the fastest first", m.cells().filled()}
	p.Effects = []matrixTable{{"What each choice does", m.effects()}}
	if c := m.Baseline; c != nil {
		p.Baseline = &matrixTable{"Against " + c.A, c.table()}
		p.BaselineText, p.BaselineLeft = c.verdict(), c.Unpaired
		for _, f := range c.Flags {
			p.BaselineFlags = append(p.BaselineFlags, sentence(f.Text))
		}
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
