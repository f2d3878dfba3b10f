package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/series"
	"github.com/rowmill/rowmill/result"
)

// A steadyView is a run of bench steady.
type steadyView struct {
	*view
	s    *result.Steadiness
	zone *time.Location
	// shift, added to elapsed seconds, gives seconds on the axis of all runs. The axis begins at the
	// midnight before the first run.
	shift float64
}

// steadies returns the views of records of bench steady; nil if a record is of another workload.
func steadies(vs []view) []steadyView {
	var out []steadyView
	for i := range vs {
		v := &vs[i]
		if v.sum.Steadiness == nil {
			return nil
		}
		out = append(out, steadyView{view: v, s: v.sum.Steadiness, zone: v.rec.Run.Steady.Location()})
	}
	if len(out) == 1 {
		out[0].label = out[0].rec.Run.Name
	}
	// Machines are distinguished by their names if these differ.
	for i, name := range document.Distinct(len(out), func(i int) string { return out[i].s.Host }, func(i int) string { return out[i].label }) {
		out[i].label = name
	}
	align(out)
	return out
}

const daySeconds = 86400

// align sets the runs' shifts, so that equal times of day are at one place of the axis. Each run is
// moved by the whole days that bring its beginning closest to that of the first run.
func align(vs []steadyView) {
	var first float64
	for i := range vs {
		start := vs[i].rec.Run.Started.In(vs[i].zone)
		_, offset := start.Zone()
		at := float64(start.Unix()+int64(offset)) + float64(start.Nanosecond())/1e9
		if i == 0 {
			first = at
		}
		at -= daySeconds * math.Floor(first/daySeconds)
		if i > 0 {
			at -= daySeconds * math.Round((at-vs[0].shift)/daySeconds)
		}
		vs[i].shift = at
	}
}

// clockAt formats a moment of the run, in seconds since its start, as local time.
func (v *steadyView) clockAt(elapsed float64) string {
	layout := either(v.sum.Seconds > daySeconds, "2 Jan 15:04", "15:04:05")
	return v.rec.Run.Started.In(v.zone).Add(time.Duration(elapsed * float64(time.Second))).Format(layout)
}

func (v *steadyView) target() string {
	return rowsRate(v.s.Asked) + onlyIf(v.s.P99LimitUS > 0, " at a p99 of no more than "+micros(v.s.P99LimitUS))
}

func (v *steadyView) below() string {
	if v.s.Seconds == 0 {
		return "too short to judge"
	}
	if v.s.BelowSeconds == 0 {
		return "held all the time, " + clock(v.s.Seconds)
	}
	s := fmt.Sprintf("below target for %s of the time (%s of %s), in %s, the longest of %s from %s",
		percent(v.s.BelowShare), clock(v.s.BelowSeconds), clock(v.s.Seconds), plural(v.s.Stretches, "stretch", "stretches"),
		clock(v.s.Longest.Seconds()), v.clockAt(v.s.Longest.From))
	return s + onlyIf(v.s.P99LimitUS > 0, fmt.Sprintf("; too slow for %s, too late for %s", clock(v.s.SlowSeconds), clock(v.s.LateSeconds)))
}

// verdicts describes how the run fared, and which causes coincided with the time below target.
func (v *steadyView) verdicts(several bool) []string {
	out := []string{fmt.Sprintf("On %s: %s, %s", v.label, v.target(), v.below())}
	if !several {
		out[0] = fmt.Sprintf("%s: %s", v.target(), v.below())
	}
	if v.s.BelowSeconds == 0 {
		return out
	}
	if v.s.Unjudged != "" {
		return append(out, "What coincides with it can't be determined: "+v.s.Unjudged)
	}
	if i := slices.IndexFunc(v.s.Causes, func(c result.Cause) bool { return c.Name == "steal" }); i >= 0 {
		out = append(out, v.steal(&v.s.Causes[i]))
	} else {
		out = append(out, "Whether steal coincides with it is unknown: steal was not measured")
	}
	return append(out, "Of the time below target, by what coincided with it: "+strings.Join(v.attributed(), ", ")+". That is association, not proof of a cause")
}

func (v *steadyView) attributed() []string {
	var parts []string
	for i := range v.s.Causes {
		if c := &v.s.Causes[i]; c.Attributed > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", c.Name, percent(c.Attributed)))
		}
	}
	return append(parts, "unexplained "+percent(v.s.Unexplained))
}

func (v *steadyView) steal(c *result.Cause) string {
	switch {
	case c.Shown:
		return fmt.Sprintf("Steal explains %s of it (95%% interval %s): it was above %s in %s of the intervals below target, and in %s of the others",
			percent(c.Explained), shareRange(c.ExplainedIn95), percent(c.Threshold), percent(c.InBelow), percent(c.InOn))
	case c.Episodes > 0 && c.ExplainedIn95 != nil && c.ExplainedIn95[0] > 0:
		return fmt.Sprintf("Steal was there in %s of it, but in no more than %s: that may be a coincidence",
			percent(c.InBelow), plural(c.Episodes, "stretch", "stretches"))
	}
	return fmt.Sprintf("No association with steal is shown: it was above %s in %s of the intervals below target, and in %s of the others",
		percent(c.Threshold), percent(c.InBelow), percent(c.InOn))
}

func shareRange(b *[2]float64) string {
	if b == nil {
		return none
	}
	return percent(max(0, b[0])) + ".." + percent(max(0, b[1]))
}

func (v *steadyView) causes() *document.Table {
	out := &document.Table{Header: []string{"went with it", "below target", "on target", "explains", "95% interval", "attributed", "what it is"}}
	for i := range v.s.Causes {
		c := &v.s.Causes[i]
		if c.InBelow+c.InOn == 0 {
			continue // reported by absent
		}
		what := c.What
		switch {
		case c.Figure != "" && c.Low:
			what += ": below " + result.InUnit(c.Threshold, c.Unit)
		case c.Unit != "":
			what += ": above " + result.InUnit(c.Threshold, c.Unit)
		}
		out.Add(c.Name, percent(c.InBelow), percent(c.InOn), percent(c.Explained), shareRange(c.ExplainedIn95),
			either(c.Witness, none, percent(c.Attributed)), what+onlyIf(!c.Shown, "; not shown"))
	}
	if len(out.Rows) > 0 {
		out.Add("unexplained", "", "", "", "", percent(v.s.Unexplained), "none of those shown")
	}
	return out
}

// hours returns the table of the hours of the day; each row sums up the same hour of all days.
func (v *steadyView) hours() *document.Table {
	type sum struct{ seconds, below, rows, steal, stealOver, pressure, pressureOver, p99 float64 }
	var all [24]sum
	for i := range v.s.Hours {
		h := &v.s.Hours[i]
		d := &all[h.Start.In(v.zone).Hour()]
		d.seconds += h.Seconds
		d.below += h.BelowSeconds
		d.rows += h.Rate * h.Seconds
		d.p99 = max(d.p99, float64(h.P99US))
		if h.Steal != nil {
			d.steal += *h.Steal * h.Seconds
			d.stealOver += h.Seconds
		}
		if h.CPUPressure != nil {
			d.pressure += *h.CPUPressure * h.Seconds
			d.pressureOver += h.Seconds
		}
	}
	out := &document.Table{Header: []string{"hour", "measured", "below target", "rows/s", "p99 from due", "steal", "CPU pressure"}}
	for hour, h := range all {
		if h.seconds > 0 {
			out.Add(fmt.Sprintf("%02d:00", hour), clock(h.seconds), percent(h.below/h.seconds), figure(h.rows/h.seconds),
				micros(h.p99), percent(h.steal/h.stealOver), percent(h.pressure/h.pressureOver))
		}
	}
	return out
}

func (v *steadyView) inShort() []document.Fact {
	median := func(name, unit string) string {
		if m, ok := v.s.Medians[name]; ok {
			return result.InUnit(m, unit)
		}
		return none
	}
	explained := func(name string) string {
		i := slices.IndexFunc(v.s.Causes, func(c result.Cause) bool { return c.Name == name && c.Shown })
		if i < 0 {
			return "not shown"
		}
		return percent(v.s.Causes[i].Explained) + " (" + shareRange(v.s.Causes[i].ExplainedIn95) + ")"
	}
	longest := none
	if v.s.Longest != nil {
		longest = clock(v.s.Longest.Seconds()) + " from " + v.clockAt(v.s.Longest.From)
	}
	return []document.Fact{
		{Name: "target", Value: v.target()},
		{Name: "began", Value: v.rec.Run.Started.In(v.zone).Format("2006-01-02 15:04 MST")},
		{Name: "measured", Value: clock(v.s.Seconds)},
		{Name: "share below target", Value: percent(v.s.BelowShare)},
		{Name: "longest stretch below", Value: longest},
		{Name: "p50 from due", Value: micros(v.s.ResponseUS.P50)},
		{Name: "p99 from due", Value: micros(v.s.ResponseUS.P99)},
		{Name: "longest from due", Value: micros(v.s.ResponseUS.Max)},
		{Name: "median steal", Value: median("os_cpu_steal", "fraction")},
		{Name: "median CPU pressure", Value: median("pressure_cpu_some", "fraction")},
		{Name: "median I/O pressure", Value: median("pressure_io_some", "fraction")},
		{Name: "median frequency", Value: median("cpu_frequency", "Hz")},
		{Name: "fixed piece of computing", Value: median("work_seconds", "seconds")},
		{Name: "worst hour", Value: v.worst()},
		{Name: "explained by steal", Value: explained("steal")},
		{Name: "explained by CPU pressure", Value: explained("CPU pressure")},
		{Name: "unexplained", Value: either(v.s.BelowSeconds > 0, percent(v.s.Unexplained), none)},
	}
}

func (v *steadyView) worst() string {
	w := v.s.Worst
	if w == nil {
		return none
	}
	return fmt.Sprintf("%s: %s below, p99 %s", w.Start.In(v.zone).Format("2 Jan 15:04"), percent(w.BelowShare()), micros(w.P99US))
}

// absent lists the causes that were recorded but never occurred, and the causes that were not
// recorded.
func (v *steadyView) absent() (out []document.Part) {
	var never []string
	for i := range v.s.Causes {
		if c := &v.s.Causes[i]; c.InBelow+c.InOn == 0 {
			never = append(never, c.Name)
		}
	}
	for i, names := range [][]string{never, v.s.Missing} {
		if len(names) > 0 {
			out = append(out, document.Paragraph([]string{"Recorded, and never there: ", "Not recorded here, so that nothing can be said of it: "}[i]+strings.Join(names, ", ")+"."))
		}
	}
	return out
}

func (v *view) steadiness() string {
	if v.sum.Steadiness == nil {
		return ""
	}
	s := steadyView{view: v, s: v.sum.Steadiness, zone: v.rec.Run.Steady.Location()}
	return s.below()
}

// steadyTelling are the counters that explain most of the time below target.
var steadyTelling = []string{"os_cpu_steal", "pressure_cpu_some", "pressure_io_some", "cgroup_throttled", "cpu_frequency", "work_seconds"}

func steadyParts(d *document.Document, vs []view, ss []steadyView) {
	d.Title = "A constant load of " + ss[0].target()
	for i := range ss {
		d.Say(false, ss[i].verdicts(len(ss) > 1)...)
	}
	d.Notes = allProblems(vs)
	beside := &document.Columns{}
	for i := range ss {
		beside.Labels, beside.Facts = append(beside.Labels, ss[i].label), append(beside.Facts, ss[i].inShort())
	}
	short := &document.Section{Title: "In short", Parts: []document.Part{beside.Sheet()}}
	if len(ss) == 1 {
		short.In = document.InHTML | document.InMarkdown
	}
	d.Add(document.Later{In: document.InHTML, Parts: func() []document.Part {
		l := liveRuns(vs, steadyTelling)
		page := l.Data.(*series.Page)
		page.Axis = either(d.Elapsed, "time", "day")
		for i := range ss {
			page.Runs[i].Shift, page.Runs[i].Limit = ss[i].shift, float64(ss[i].s.P99LimitUS)
		}
		return []document.Part{l}
	}})
	d.Picture = func(document.PNGOptions) *document.Picture { return steadyPicture(ss, d.Elapsed) }
	d.Add(short)
	for i := range ss {
		v := &ss[i]
		of := ": " + v.label
		causes := &document.Section{Title: "What went with the time below target" + of, Parts: v.causes().Parts()}
		causes.Parts = append(causes.Parts, v.absent()...)
		hours := &document.Section{Title: "By hour of the day" + of, Parts: []document.Part{
			document.Paragraph(document.AsSentence("the clock is " + v.rec.Run.Started.In(v.zone).Format("MST (UTC-07:00)") + ", as at the start; the worst hour was " + v.worst())), v.hours()}}
		d.Add(causes, hours)
	}
	d.Add(runColumns(vs), settingsOf(vs))
}

// steadyHeight is the default height of a picture of constant loads in pixels.
const steadyHeight = 1000

// steadyPicture has panels above each other over one axis of time, and the hours.
func steadyPicture(ss []steadyView, elapsed bool) *document.Picture {
	out := &document.Picture{Height: steadyHeight}
	first := &ss[0]
	if len(ss) == 1 {
		out.Lines = []string{first.label + ": " + first.below()}
		if first.s.BelowSeconds > 0 && first.s.Unjudged == "" {
			out.Lines = append(out.Lines, "what went with that: "+strings.Join(first.attributed(), ", "))
		}
	} else {
		for i := range ss {
			out.Legend = append(out.Legend, document.Key{Label: ss[i].label + ": " + percent(ss[i].s.BelowShare) + " of the time below target", Style: document.NthStyle(i)})
		}
	}
	for _, c := range steadyPanels(ss, elapsed) {
		out.Rows = append(out.Rows, document.Charts{c})
	}
	return out
}

// steadyPanels returns the charts for which any of the runs has figures.
func steadyPanels(ss []steadyView, elapsed bool) (out document.Charts) {
	x := document.Scale{From: math.Inf(1), To: math.Inf(-1), Bare: true}
	begin, data := make([]float64, len(ss)), make([]series.Run, len(ss))
	for i := range ss {
		if !elapsed {
			begin[i] = ss[i].shift
		}
		data[i] = ss[i].series(document.NthStyle(i))
		x.From, x.To = min(x.From, begin[i]), max(x.To, begin[i]+max(1, ss[i].sum.Seconds))
	}
	x.Ticks = document.ClockTicks(x.From, x.To, elapsed)
	// If the runs have different targets, no target is drawn.
	target := func(of func(s *result.Steadiness) float64) float64 {
		if slices.ContainsFunc(ss, func(v steadyView) bool { return of(v.s) != of(ss[0].s) }) {
			return 0
		}
		return of(ss[0].s)
	}
	for _, p := range []struct {
		title, note, unit string
		target, least     float64  // a level to draw (0: none), and the least upper end of the axis
		figures           []string // the second figure is dashed
	}{
		{"rate, rows/s", "", "rows/s", target(func(s *result.Steadiness) float64 { return s.Asked }), ss[0].s.Asked * 1.2, []string{"rate"}},
		{"latency from when inserts were due", "p99, dashed p50", "microseconds",
			target(func(s *result.Steadiness) float64 { return float64(s.P99LimitUS) }), 0, []string{"p99", "p50"}},
		{"CPU time stolen by the host", "mean, dashed its peaks", "fraction", 0, 0.02, []string{"os_cpu_steal", "os_cpu_steal_peak"}},
		{"pressure: time in which tasks waited", "CPU, dashed I/O", "fraction", 0, 0.1, []string{"pressure_cpu_some", "pressure_io_some"}},
		{"throttled by the control group's quota", "", "seconds/s", 0, 0.02, []string{"cgroup_throttled"}},
		{"frequency of the processors", "", "Hz", 0, 0, []string{"cpu_frequency"}},
		{"a fixed piece of computing", "time taken, dashed the longest", "seconds", 0, 0, []string{"work_seconds", "work_worst_seconds"}},
	} {
		c := &document.Chart{Title: p.title, Note: p.note, X: x, Y: document.Scale{Room: 58}}
		most := 0.0
		for i := range ss {
			for n, name := range p.figures {
				l := document.Line{Style: document.NthStyle(i), Thin: true}
				at, f := data[i].Time, data[i].Counters[name]
				switch op := ss[i].rec.Intervals; {
				case name == "rate":
					at, f = data[i].Rate.Time.At, data[i].Rate.Time.Figure
				case p.unit == "microseconds" && len(op) > 0:
					f.Mean = data[i].Response[op[0].Operation()][name]
				}
				if l.Y = f.Mean; n == 0 {
					l.Lo, l.Hi = f.Lo, f.Hi
				} else {
					l.Style.Dashes = []float64{4, 3}
				}
				for _, t := range at {
					l.X = append(l.X, begin[i]+t)
				}
				known := false
				for _, v := range slices.Concat(f.Mean, l.Hi) {
					if known = known || !math.IsNaN(v); v > most {
						most = v
					}
				}
				if known {
					c.Lines = append(c.Lines, l)
				}
			}
		}
		// A quota that never took effect gets no panel; steal that is always 0 is informative.
		if len(c.Lines) == 0 || most == 0 && p.unit == "seconds/s" {
			continue
		}
		if p.target > 0 {
			most, c.Levels = max(most, 1.1*p.target), []document.Level{{At: p.target}}
		}
		c.Y.To, c.Y.Format = 1.06*cmp.Or(max(most, p.least), 1), func(v float64) string { return result.InUnit(v, p.unit) }
		out = append(out, c)
	}
	if len(out) > 0 {
		out[len(out)-1].X.Bare = false
	}
	return out
}
