package report

import (
	"bufio"
	_ "embed" // the page's parts
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

var (
	//go:embed assets/speed.html.tmpl
	speedTemplate string
	//go:embed assets/speed.css
	speedCSS string
)

// speedPage is the data of a speed test's template. Its charts are SVG, so the page
// needs no script.
type speedPage struct {
	CSP        string
	CSS        template.CSS
	Title      string
	Subtitle   string
	Legend     []speedClass
	Failures   []string
	Warnings   []string
	Verdicts   []pageNote
	Operations []speedSection
	Facts      [][]string
	Footer     string
}

type speedClass struct {
	Label string
	Class int
}

type speedSection struct {
	Name   string
	Charts []speedChart
	Header []string
	Rows   [][]string
}

type speedChart struct {
	Title          string
	XTicks, YTicks []speedTick
	Lines          []speedLine
}

type speedTick struct {
	At    string
	Label string
}

type speedLine struct {
	Class  int
	Points string
	Dots   []speedDot
}

type speedDot struct{ X, Y, Title string }

// The drawing area of a chart, in units of its SVG; the template contains the same
// numbers.
const (
	chartLeft, chartRight = 60, 510
	chartTop, chartBottom = 10, 212
	chartInset            = 16 // left of the first and right of the last number of clients
	chartHead             = 1.1
)

// HTML writes the matrix as a self-contained page that loads nothing.
func (t *SpeedTest) HTML(w io.Writer) error {
	tmpl, err := template.New("speed").Parse(speedTemplate)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	out := bufio.NewWriter(w)
	if err := tmpl.Execute(out, t.page()); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	return nil
}

func (t *SpeedTest) page() speedPage {
	css := speedCSS + t.lineCSS()
	p := speedPage{
		CSP: fmt.Sprintf("default-src 'none'; style-src '%s'; base-uri 'none'; form-action 'none'", hashSource(css)),
		CSS: template.CSS(css), Title: t.title(), Subtitle: t.subtitle(),
		Footer: fmt.Sprintf("Measured by rowmill %s, started %s. This page is one file: it loads nothing and sends nothing.", t.rowmill, t.started),
	}
	for i := range t.Contenders {
		p.Legend = append(p.Legend, speedClass{t.Contenders[i].Label, i})
		p.Facts = append(p.Facts, []string{t.Contenders[i].Label, t.Contenders[i].describe()})
	}
	p.Facts = append(p.Facts, []string{"machine", machine(t.Machine)})
	for _, n := range t.notes() {
		if n.Serious {
			p.Failures = append(p.Failures, sentence(n.Text))
		} else {
			p.Warnings = append(p.Warnings, sentence(n.Text))
		}
	}
	for i := range t.Operations {
		o := &t.Operations[i]
		p.Verdicts = append(p.Verdicts, pageNote{o.name(), sentence(o.Verdict)})
		rate, latency := o.panels()
		p.Operations = append(p.Operations, speedSection{o.name(),
			[]speedChart{rate.chart(t), latency.chart(t)}, o.table().filled().Header, o.table().filled().Rows})
	}
	return p
}

// lineCSS assigns each contender its colours and its dash.
func (t *SpeedTest) lineCSS() string {
	var b strings.Builder
	for i := range t.Contenders {
		s := speedStyle(i)
		dash := "none"
		if len(s.dash) > 0 {
			dash = strings.Trim(fmt.Sprint(s.dash), "[]")
		}
		fmt.Fprintf(&b, ".c%d { stroke: %s; stroke-width: 3; stroke-dasharray: %s; } .d%d { fill: %s; }\n", i, s.light, dash, i, s.light)
		fmt.Fprintf(&b, "@media (prefers-color-scheme: dark) { .c%d { stroke: %s; } .d%d { fill: %s; } }\n", i, s.dark, i, s.dark)
	}
	return b.String()
}

// chart computes the layout of a panel.
func (p *panel) chart(t *SpeedTest) speedChart {
	c := speedChart{Title: p.title}
	numbers := p.clients()
	if len(numbers) == 0 {
		return c
	}
	first, last := math.Inf(1), math.Inf(-1)
	for _, n := range numbers {
		first, last = min(first, clientsAxis(n)), max(last, clientsAxis(n))
	}
	x := func(n int) string {
		if last == first {
			return place((chartLeft + chartRight) / 2)
		}
		return place(chartLeft + chartInset + (clientsAxis(n)-first)/(last-first)*(chartRight-chartLeft-2*chartInset))
	}
	low, top := p.span()
	bottom, head := 0.0, top*chartHead
	scale := func(v float64) float64 { return v }
	ticks := niceTicks
	if p.log {
		bottom, head, scale, ticks = low/logMargin, top*logMargin, math.Log, decadeTicks
	}
	y := func(v float64) string {
		return place(chartBottom - (scale(v)-scale(bottom))/(scale(head)-scale(bottom))*(chartBottom-chartTop))
	}
	for _, n := range numbers {
		c.XTicks = append(c.XTicks, speedTick{x(n), count(int64(n))})
	}
	for _, tick := range ticks(bottom, head) {
		c.YTicks = append(c.YTicks, speedTick{y(tick.Value), tick.Label})
	}
	for i, l := range p.lines {
		line := speedLine{Class: i}
		var points []string
		for j, n := range l.clients {
			v := l.values[j]
			if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
				continue
			}
			points = append(points, x(n)+","+y(v))
			line.Dots = append(line.Dots, speedDot{x(n), y(v), fmt.Sprintf("%s, %s: %s", t.Contenders[i].Label, plural(int64(n), "client", "clients"), figure(v))})
		}
		line.Points = strings.Join(points, " ")
		c.Lines = append(c.Lines, line)
	}
	return c
}

// place formats a position to a tenth of a unit.
func place(v float64) string { return fmt.Sprintf("%.1f", v) }
