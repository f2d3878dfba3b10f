package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/result"
)

// A steadyView is a run of bench steady.
type steadyView struct {
	*view
	s    *result.Steadiness
	zone *time.Location
	// shift converts elapsed seconds to the reports' common axis, where 0 is midnight of the
	// first run's first day.
	shift float64
}

// steadies returns the views of records of bench steady; nil if one is of another workload.
func steadies(vs []view) []steadyView {
	var out []steadyView
	for i := range vs {
		v := &vs[i]
		if v.sum.Steadiness == nil {
			return nil
		}
		out = append(out, steadyView{view: v, s: v.sum.Steadiness, zone: v.rec.Run.Steady.Location()})
	}
	// Machines are distinguished by their names if these differ.
	names := map[string]bool{"": true}
	for i := range out {
		names[out[i].s.Host] = true
	}
	for i := range out {
		switch {
		case len(names) == len(out)+1:
			out[i].label = out[i].s.Host
		case len(out) == 1:
			out[i].label = out[i].rec.Run.Name
		}
	}
	align(out)
	return out
}

const daySeconds = 86400

// align aligns the runs by the time of day of their own machine, shifted by whole days so
// that each begins as close as possible to the first.
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
	layout := "15:04:05"
	if v.sum.Seconds > daySeconds {
		layout = "2 Jan 15:04"
	}
	return v.rec.Run.Started.In(v.zone).Add(time.Duration(elapsed * float64(time.Second))).Format(layout)
}

func (v *steadyView) target() string {
	s := rowsRate(v.s.Asked)
	if v.s.P99LimitUS > 0 {
		s += " at a p99 of no more than " + micros(v.s.P99LimitUS)
	}
	return s
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
	if v.s.P99LimitUS > 0 {
		s += fmt.Sprintf("; too slow for %s, too late for %s", clock(v.s.SlowSeconds), clock(v.s.LateSeconds))
	}
	return s
}

// verdicts describes how the run fared, and what went with the time below target.
func (v *steadyView) verdicts(several bool) []string {
	out := []string{fmt.Sprintf("On %s: %s, %s", v.label, v.target(), v.below())}
	if !several {
		out[0] = fmt.Sprintf("%s: %s", v.target(), v.below())
	}
	if v.s.BelowSeconds == 0 {
		return out
	}
	if v.s.Unjudged != "" {
		return append(out, "What goes with it can't be told: "+v.s.Unjudged)
	}
	if i := slices.IndexFunc(v.s.Causes, func(c result.Cause) bool { return c.Name == "steal" }); i >= 0 {
		out = append(out, v.steal(&v.s.Causes[i]))
	} else {
		out = append(out, "Whether steal goes with it is unknown: there are no figures of it")
	}
	return append(out, "Of the time below target, by what went with it: "+strings.Join(v.attributed(), ", ")+". That is association, not proof of a cause")
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
	return fmt.Sprintf("That steal goes with it is not shown: it was above %s in %s of the intervals below target, and in %s of the others",
		percent(c.Threshold), percent(c.InBelow), percent(c.InOn))
}

func shareRange(b *[2]float64) string {
	if b == nil {
		return none
	}
	return percent(max(0, b[0])) + ".." + percent(max(0, b[1]))
}

func (v *steadyView) causes() *table {
	out := &table{Header: []string{"went with it", "below target", "on target", "explains", "95% interval", "attributed", "rank corr. with p99", "what it is"}}
	for i := range v.s.Causes {
		c := &v.s.Causes[i]
		if c.InBelow+c.InOn == 0 {
			continue // reported by absent
		}
		attributed := percent(c.Attributed)
		if c.Witness {
			attributed = none
		}
		rho := none
		if c.Rho != nil {
			rho = fmt.Sprintf("%.2f", *c.Rho)
			if b := c.RhoIn95; b != nil {
				rho += fmt.Sprintf(" (%.2f..%.2f)", b[0], b[1])
			}
		}
		what := c.What
		switch {
		case c.Figure != "" && c.Low:
			what += ": below " + inUnit(c.Threshold, c.Unit)
		case c.Unit != "":
			what += ": above " + inUnit(c.Threshold, c.Unit)
		}
		if !c.Shown {
			what += "; not shown"
		}
		out.add(c.Name, percent(c.InBelow), percent(c.InOn), percent(c.Explained), shareRange(c.ExplainedIn95), attributed, rho, what)
	}
	if len(out.Rows) > 0 {
		out.add("unexplained", "", "", "", "", percent(v.s.Unexplained), "", "none of those shown")
	}
	return out
}

func inUnit(v float64, unit string) string {
	switch unit {
	case "fraction":
		return percent(v)
	case "seconds":
		return micros(1e6 * v)
	case "Hz":
		return figure(v/1e9) + " GHz"
	}
	return strings.TrimSpace(figure(v) + " " + unit)
}

// hours returns the table of the hours of the day, each of them over several days.
func (v *steadyView) hours() *table {
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
	out := &table{Header: []string{"hour", "measured", "below target", "rows/s", "p99 from due", "steal", "CPU pressure"}}
	for hour, h := range all {
		if h.seconds > 0 {
			out.add(fmt.Sprintf("%02d:00", hour), clock(h.seconds), percent(h.below/h.seconds), figure(h.rows/h.seconds),
				micros(h.p99), percent(h.steal/h.stealOver), percent(h.pressure/h.pressureOver))
		}
	}
	return out
}

func sideBySide(vs []steadyView) *table {
	c := &columns{}
	for i := range vs {
		c.Labels, c.Facts = append(c.Labels, vs[i].label), append(c.Facts, vs[i].inShort())
	}
	return c.Sheet()
}

func (v *steadyView) inShort() []fact {
	median := func(name, unit string) string {
		if m, ok := v.s.Medians[name]; ok {
			return inUnit(m, unit)
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
	longest, unexplained := none, none
	if v.s.Longest != nil {
		longest = clock(v.s.Longest.Seconds()) + " from " + v.clockAt(v.s.Longest.From)
	}
	if v.s.BelowSeconds > 0 {
		unexplained = percent(v.s.Unexplained)
	}
	return []fact{
		{"target", v.target()},
		{"began", v.rec.Run.Started.In(v.zone).Format("2006-01-02 15:04 MST")},
		{"measured", clock(v.s.Seconds)},
		{"share below target", percent(v.s.BelowShare)},
		{"longest stretch below", longest},
		{"p50 from due", micros(v.s.ResponseUS.P50)},
		{"p99 from due", micros(v.s.ResponseUS.P99)},
		{"longest from due", micros(v.s.ResponseUS.Max)},
		{"median steal", median("os_cpu_steal", "fraction")},
		{"median CPU pressure", median("pressure_cpu_some", "fraction")},
		{"median I/O pressure", median("pressure_io_some", "fraction")},
		{"median frequency", median("cpu_frequency", "Hz")},
		{"fixed piece of computing", median("work_seconds", "seconds")},
		{"worst hour", v.worst()},
		{"explained by steal", explained("steal")},
		{"explained by CPU pressure", explained("CPU pressure")},
		{"unexplained", unexplained},
	}
}

func (v *steadyView) worst() string {
	w := v.s.Worst
	if w == nil {
		return none
	}
	return fmt.Sprintf("%s: %s below, p99 %s", w.Start.In(v.zone).Format("2 Jan 15:04"), percent(w.BelowShare()), micros(w.P99US))
}

func (v *steadyView) zoneText() string {
	return v.rec.Run.Started.In(v.zone).Format("MST (UTC-07:00)") + ", as at the start"
}

// absent lists the candidates that were recorded but never occurred.
func (v *steadyView) absent() string {
	var names []string
	for i := range v.s.Causes {
		if c := &v.s.Causes[i]; c.InBelow+c.InOn == 0 {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "recorded, and never there: " + strings.Join(names, ", ")
}

func (v *steadyView) missing() string {
	if len(v.s.Missing) == 0 {
		return ""
	}
	return "not recorded here, so that nothing can be said of it: " + strings.Join(v.s.Missing, ", ")
}

func (v *view) steadiness() string {
	if v.sum.Steadiness == nil {
		return ""
	}
	s := steadyView{view: v, s: v.sum.Steadiness, zone: v.rec.Run.Steady.Location()}
	return s.below()
}
