package report

import (
	"math"

	"github.com/rowmill/rowmill/result"
)

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

// steadyPanels returns the panels for which any of the runs has figures.
func steadyPanels(vs []steadyView, bs [][]bucket) []steadyPanel {
	rate := steadyPanel{Title: "rate", Unit: "rows/s", Target: vs[0].s.Asked, Least: vs[0].s.Asked * 1.2}
	late := steadyPanel{Title: "latency from when inserts were due", Unit: "microseconds", Target: float64(vs[0].s.P99LimitUS)}
	for i := range vs {
		// Runs with different targets have no common target.
		if vs[i].s.Asked != vs[0].s.Asked {
			rate.Target = 0
		}
		if vs[i].s.P99LimitUS != vs[0].s.P99LimitUS {
			late.Target = 0
		}
		line := panelLine{Run: i, Label: label(vs, i, "rate")}
		p50 := panelLine{Run: i, Label: label(vs, i, "p50"), Second: true}
		p99 := panelLine{Run: i, Label: label(vs, i, "p99")}
		var m result.Merger
		for _, b := range bs[i] {
			s := newSpread()
			for k := range b {
				s.span(b[k].Rate())
			}
			s.mean = b.rate()
			line.add(s, true)
			l, ok := b.latency(&m, b[0].Operation(), func(iv *result.Interval) map[string]result.Histogram { return iv.Response })
			low, high := float64(l.P50), float64(l.P99)
			if !ok {
				low, high = math.NaN(), math.NaN()
			}
			p50.add(spread{low, low, low}, false)
			p99.add(spread{high, high, high}, false)
		}
		rate.Lines = append(rate.Lines, line)
		late.Lines = append(late.Lines, p99, p50)
	}
	out := []steadyPanel{rate, late}
	for _, p := range []struct {
		title, unit string
		least       float64
		figures     [2][2]string // name in the record, label
		peak        string       // a figure of the maximum values
	}{
		{"CPU time stolen by the host", "fraction", 0.02, [2][2]string{{"os_cpu_steal", "steal"}}, "os_cpu_steal_peak"},
		{"pressure: time in which tasks waited", "fraction", 0.1, [2][2]string{{"pressure_cpu_some", "CPU"}, {"pressure_io_some", "I/O"}}, ""},
		{"throttled by the control group's quota", "seconds/s", 0.02, [2][2]string{{"cgroup_throttled", "throttled"}}, ""},
		{"frequency of the processors", "Hz", 0, [2][2]string{{"cpu_frequency", "frequency"}}, ""},
		{"a fixed piece of computing", "seconds", 0, [2][2]string{{"work_seconds", "time taken"}}, "work_worst_seconds"},
	} {
		panel := steadyPanel{Title: p.title, Unit: p.unit, Least: p.least}
		any := false
		for i := range vs {
			for n, f := range p.figures {
				if f[0] == "" {
					continue
				}
				line := panelLine{Run: i, Label: label(vs, i, f[1]), Second: n == 1}
				known := false
				for _, b := range bs[i] {
					s := b.counter(f[0])
					if peak := b.counter(p.peak); p.peak != "" && n == 0 && peak.hi > s.hi {
						s.hi = peak.hi
					}
					known = known || !math.IsNaN(s.mean)
					any = any || s.hi > 0
					line.add(s, true)
				}
				if known {
					panel.Lines = append(panel.Lines, line)
				}
			}
		}
		// A quota that never took effect gets no panel; steal that is always 0 is
		// informative.
		if len(panel.Lines) > 0 && (any || p.figures[0][0] != "cgroup_throttled") {
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
