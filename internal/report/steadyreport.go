package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

func steadyParts(d *Document, vs []view, ss []steadyView) {
	d.Title = "A constant load of " + ss[0].target()
	for i := range ss {
		d.say(false, ss[i].verdicts(len(ss) > 1)...)
	}
	d.Notes = allProblems(vs)
	short := &section{Title: "In short", Parts: []Part{sideBySide(ss)}}
	if len(ss) == 1 {
		short.In = inHTML | inMarkdown
	}
	d.add(later{inHTML, func() []Part {
		p := newSteadyCharts(vs, ss, false)
		heat := p.heat()
		hours := &section{Title: heat.Title, Parts: []Part{heat}}
		heat.Title = "Each row is a day"
		return []Part{hours, p.live(d.Elapsed)}
	}})
	d.picture = func(PNGOptions) *picture { return newSteadyCharts(vs, ss, d.Elapsed).picture() }
	d.add(short)
	for i := range ss {
		v := &ss[i]
		of := ": " + v.label
		causes := &section{Title: "What went with the time below target" + of, Parts: v.causes().parts()}
		for _, text := range []string{v.absent(), v.missing()} {
			if text != "" {
				causes.Parts = append(causes.Parts, paragraph(sentence(text)))
			}
		}
		hours := &section{Title: "By hour of the day" + of, Parts: []Part{
			paragraph(sentence("the clock is " + v.zoneText() + "; the worst hour was " + v.worst())), v.hours()}}
		d.add(causes, hours)
	}
	d.add(runColumns(vs), settingsOf(vs))
}

// steadyCharts are panels above each other over the time of day, and the hours, darker the
// longer the load was below target.
type steadyCharts struct {
	ss       []steadyView
	styles   []style
	elapsed  bool // over the time since the start instead
	buckets  [][]bucket
	panels   []steadyPanel
	from, to float64 // the ends of the axis
}

func newSteadyCharts(vs []view, ss []steadyView, elapsed bool) *steadyCharts {
	p := &steadyCharts{ss: ss, elapsed: elapsed, from: math.Inf(1), to: math.Inf(-1)}
	for i := range ss {
		p.styles = append(p.styles, nthStyle(i))
		bs, _ := buckets(ss[i].rec.Intervals)
		p.buckets = append(p.buckets, bs)
		begin := p.begin(i)
		p.from, p.to = min(p.from, begin), max(p.to, begin+ss[i].sum.Seconds)
	}
	if p.to <= p.from {
		p.to = p.from + 1
	}
	p.panels = steadyPanels(ss, p.buckets)
	return p
}

func (p *steadyCharts) begin(i int) float64 {
	if p.elapsed {
		return 0
	}
	return p.ss[i].shift
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

// live are the panels of the page, which can be zoomed.
func (p *steadyCharts) live(elapsed bool) *live {
	d := &steadyData{Panels: p.panels, Elapsed: elapsed, Days: p.from < 0 || p.to > daySeconds}
	l := &live{Name: "steady", Scripts: []string{"steady.js"}, Data: d, PerPoint: 1}
	for i := range p.ss {
		v := &p.ss[i]
		d.Runs = append(d.Runs, steadyRun{oneLine(v.label), p.styles[i].light(), p.styles[i].dark(), v.axis(p.buckets[i]), v.shift})
		_, size := buckets(v.rec.Intervals)
		l.PerPoint = max(l.PerPoint, size)
		if z := sentence("the clock is " + v.zoneText()); !strings.Contains(l.Clock, z) {
			l.Clock += z + " "
		}
	}
	return l
}

// steadyHeight is the default height of a picture of constant loads in pixels.
const steadyHeight = 1000

func (p *steadyCharts) picture() *picture {
	out := &picture{Height: steadyHeight}
	first := &p.ss[0]
	if len(p.ss) == 1 {
		out.Lines = []string{first.label + ": " + first.below()}
		if first.s.BelowSeconds > 0 && first.s.Unjudged == "" {
			out.Lines = append(out.Lines, "what went with that: "+strings.Join(first.attributed(), ", "))
		}
	} else {
		for i := range p.ss {
			out.Legend = append(out.Legend, key{p.ss[i].label + ": " + percent(p.ss[i].s.BelowShare) + " of the time below target", p.styles[i]})
		}
	}
	for n := range p.panels {
		out.Rows = append(out.Rows, charts{p.chart(&p.panels[n], n == len(p.panels)-1)})
	}
	if heat := p.heat(); len(heat.Blocks) > 0 {
		heat.Height = 0.5 - 0.12*heat.Y.From
		out.Rows = append(out.Rows, charts{heat})
	}
	return out
}

// chart returns a panel as a chart; last names the times.
func (p *steadyCharts) chart(panel *steadyPanel, last bool) *chart {
	c := &chart{Title: panel.Title, X: scale{From: p.from, To: p.to, Ticks: p.timeTicks(), Bare: !last},
		Y: scale{Room: 58}}
	if len(p.ss) == 1 && len(panel.Lines) > 1 {
		c.Note = panel.Lines[0].Label + ", dashed " + panel.Lines[1].Label
	}
	top := panel.Least
	if panel.Target > 0 {
		top = max(top, 1.1*panel.Target)
		c.Levels = []level{{At: panel.Target}}
	}
	for i := range panel.Lines {
		s := &panel.Lines[i]
		l := line{Style: p.styles[s.Run], Y: s.Mean, Thin: true}
		if s.Second {
			l.Style.dash = []float64{4, 3}
		} else {
			l.Lo, l.Hi = s.Lo, s.Hi
		}
		for k, at := range p.ss[s.Run].axis(p.buckets[s.Run]) {
			l.X = append(l.X, p.begin(s.Run)+at)
			v := s.Mean[k]
			if s.Hi != nil {
				v = s.Hi[k]
			}
			if v > top { // false for NaN
				top = v
			}
		}
		c.Lines = append(c.Lines, l)
	}
	if top <= 0 {
		top = 1
	}
	c.Y.To = 1.06 * top
	for _, t := range niceTicks(0, c.Y.To/2) { // half as many: panels are low
		if v := 2 * t.At; v <= c.Y.To {
			c.Y.Ticks = append(c.Y.Ticks, tick{v, inPanel(v, panel.Unit)})
		}
	}
	return c
}

func inPanel(v float64, unit string) string {
	switch {
	case v == 0:
		return "0"
	case unit == "microseconds":
		return micros(v)
	case unit == "rows/s":
		return short(v)
	}
	return inUnit(v, unit)
}

// clockSteps are the distances of ticks on an axis of time, in seconds.
var clockSteps = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800}

// timeTicks returns up to a dozen ticks at round times.
func (p *steadyCharts) timeTicks() []tick {
	step := clockSteps[len(clockSteps)-1]
	for _, s := range clockSteps {
		if (p.to-p.from)/s <= 12 {
			step = s
			break
		}
	}
	var out []tick
	for at := math.Ceil(p.from/step) * step; at <= p.to; at += step {
		out = append(out, tick{at, p.timeLabel(at, step)})
	}
	return out
}

func (p *steadyCharts) timeLabel(at, step float64) string {
	if p.elapsed {
		return clock(at)
	}
	day := math.Floor(at / daySeconds)
	n := int(at - day*daySeconds)
	s := fmt.Sprintf("%02d:%02d", n/3600, n/60%60)
	if step < 60 {
		s += fmt.Sprintf(":%02d", n%60)
	}
	if p.to > daySeconds*1.5 || p.from < 0 { // days must be distinguished
		s = fmt.Sprintf("day %d %s", int(day)+1, s)
	}
	return s
}

// heatColours are the colours of a share of time below target, light to dark, also in grey;
// heatLimits are their upper limits.
var (
	heatColours = []string{"#d7ecd9", "#fdf0b5", "#fdc776", "#f08a4b", "#cc3d33", "#7a0f22"}
	heatLimits  = []float64{0, 0.01, 0.05, 0.2, 0.5, 1}
)

// heat shows the hours: a row for each run and day, with a block for each hour of it.
func (p *steadyCharts) heat() *chart {
	c := &chart{Title: "Time below target in each hour of the day", Note: "green: none, then to 1, 5, 20 and 50%, dark red above", X: scale{To: 24}}
	for h := range 24 {
		c.X.Ticks = append(c.X.Ticks, tick{float64(h) + 0.5, fmt.Sprintf("%02d", h)})
	}
	rows := map[[2]int]float64{}
	for i := range p.ss {
		v := &p.ss[i]
		for k := range v.s.Hours {
			h := &v.s.Hours[k]
			// The middle of the hour, so that rounding doesn't move it to another.
			at := v.shift + h.Start.Sub(v.rec.Run.Started).Seconds() + 1800
			day := int(math.Floor(at / daySeconds))
			y, ok := rows[[2]int{i, day}]
			if !ok {
				y = -float64(len(rows)) - 1
				rows[[2]int{i, day}] = y
				c.Y.Ticks = append(c.Y.Ticks, tick{y + 0.5, v.dayLabel(day)})
			}
			hour := math.Floor((at - float64(day)*daySeconds) / 3600)
			shade := 0
			for heatLimits[shade] < h.BelowShare() && shade < len(heatLimits)-1 {
				shade++
			}
			c.Blocks = append(c.Blocks, block{hour + 0.03, y + 0.06, hour + 0.97, y + 0.94, fmt.Sprintf("b%d", shade), v.hourText(h)})
		}
	}
	c.Y.From = -float64(len(rows))
	c.Y.To = 0
	c.Height = 60 + 24*float64(len(rows))
	return c
}

func (v *steadyView) dayLabel(day int) string {
	if v.s.Host != "" && len(v.s.Host) <= 12 {
		return fmt.Sprintf("%s %d", v.s.Host, day+1)
	}
	return fmt.Sprintf("day %d", day+1)
}

func (v *steadyView) hourText(h *result.SteadyHour) string {
	return fmt.Sprintf("%s: %s of %s below target, p99 %s", h.Start.In(v.zone).Format("2 Jan 15:04"), percent(h.BelowShare()), clock(h.Seconds), micros(h.P99US))
}

// A steadyPanel is one of several stacked charts with a common time axis.
type steadyPanel struct {
	Title string      `json:"title"`
	Unit  string      `json:"unit"`
	Lines []panelLine `json:"lines"`
	// Target is a level to draw; 0 means none.
	Target float64 `json:"target,omitempty"`
	// Least is the minimum upper end of the axis.
	Least float64 `json:"least"`
}

// A panelLine is a figure of one run: its mean over each point, and its extremes.
type panelLine struct {
	Run   int    `json:"run"`
	Label string `json:"label"`
	// Second lines are drawn dashed.
	Second bool `json:"second,omitempty"`
	figureData
}

// axis returns the positions of a run's points: the elapsed seconds at their middle.
func (v *steadyView) axis(bs []bucket) axis {
	at := axis{}
	for _, b := range bs {
		first := &b[0]
		at = at.add((first.Elapsed - first.Seconds + b.last().Elapsed) / 2)
	}
	return at
}

// A panelFigure is a figure of the panels: of a counter, with a counter of its peaks, or
// of a function.
type panelFigure struct {
	label, counter, peak string
	of                   func(b bucket, m *result.Merger) spread
}

// response returns a percentile of the time from when inserts were due.
func response(percentile func(result.Latency) int64) func(b bucket, m *result.Merger) spread {
	return func(b bucket, m *result.Merger) spread {
		l, ok := b.latency(m, b[0].Operation(), func(iv *result.Interval) map[string]result.Histogram { return iv.Response })
		if !ok {
			return newSpread()
		}
		return spread{mean: float64(percentile(l))}
	}
}

// steadyPanels returns the panels for which any of the runs has figures.
func steadyPanels(vs []steadyView, bs [][]bucket) []steadyPanel {
	// Runs with different targets have no common target.
	target := func(of func(s *result.Steadiness) float64) float64 {
		if slices.ContainsFunc(vs, func(v steadyView) bool { return of(v.s) != of(vs[0].s) }) {
			return 0
		}
		return of(vs[0].s)
	}
	rate := target(func(s *result.Steadiness) float64 { return s.Asked })
	limit := target(func(s *result.Steadiness) float64 { return float64(s.P99LimitUS) })
	var out []steadyPanel
	for _, p := range []struct {
		title, unit   string
		target, least float64
		figures       []panelFigure
	}{
		{"rate", "rows/s", rate, vs[0].s.Asked * 1.2, []panelFigure{{label: "rate", of: func(b bucket, _ *result.Merger) spread { return b.rates() }}}},
		{"latency from when inserts were due", "microseconds", limit, 0, []panelFigure{
			{label: "p99", of: response(func(l result.Latency) int64 { return l.P99 })},
			{label: "p50", of: response(func(l result.Latency) int64 { return l.P50 })}}},
		{"CPU time stolen by the host", "fraction", 0, 0.02, []panelFigure{{label: "steal", counter: "os_cpu_steal", peak: "os_cpu_steal_peak"}}},
		{"pressure: time in which tasks waited", "fraction", 0, 0.1, []panelFigure{
			{label: "CPU", counter: "pressure_cpu_some"}, {label: "I/O", counter: "pressure_io_some"}}},
		{"throttled by the control group's quota", "seconds/s", 0, 0.02, []panelFigure{{label: "throttled", counter: "cgroup_throttled"}}},
		{"frequency of the processors", "Hz", 0, 0, []panelFigure{{label: "frequency", counter: "cpu_frequency"}}},
		{"a fixed piece of computing", "seconds", 0, 0, []panelFigure{{label: "time taken", counter: "work_seconds", peak: "work_worst_seconds"}}},
	} {
		panel := steadyPanel{Title: p.title, Unit: p.unit, Target: p.target, Least: p.least}
		some := false
		for i := range vs {
			for n, f := range p.figures {
				line := panelLine{Run: i, Label: label(vs, i, f.label), Second: n == 1}
				known := f.of != nil
				var m result.Merger
				for _, b := range bs[i] {
					s := newSpread()
					if f.of != nil {
						s = f.of(b, &m)
					} else {
						s = b.counter(f.counter)
						if peak := b.counter(f.peak); peak.hi > s.hi {
							s.hi = peak.hi
						}
					}
					known, some = known || !math.IsNaN(s.mean), some || s.hi > 0
					line.add(s, p.unit != "microseconds")
				}
				if known {
					panel.Lines = append(panel.Lines, line)
				}
			}
		}
		// A quota that never took effect gets no panel; steal that is always 0 is
		// informative.
		if len(panel.Lines) > 0 && (some || p.figures[0].counter != "cgroup_throttled") {
			out = append(out, panel)
		}
	}
	return out
}

func label(vs []steadyView, i int, what string) string {
	if len(vs) == 1 {
		return what
	}
	return oneLine(vs[i].label) + " " + what
}
