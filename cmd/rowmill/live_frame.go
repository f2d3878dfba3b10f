package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// ANSI attributes and colours of the frame.
const (
	liveBold   = 1
	liveFaint  = 2
	liveRed    = 31
	liveYellow = 33
)

// liveColors are the colours of the runs' lines, in order.
var liveColors = []int{36, 33, 35, 32, 34}

// liveChartMax is the height of the tallest chart, in lines: a taller one shows no
// more detail.
const liveChartMax = 20

// View returns the current frame.
func (m *liveModel) View() string {
	switch {
	case m.closed:
		return ""
	case m.showing:
		return m.frame()
	case m.stopping:
		return m.fit("stopping…")
	case m.run() != nil && len(m.run().notes) > 0:
		return m.fit(m.run().notes[len(m.run().notes)-1])
	case len(m.notes) > 0:
		return m.fit(m.notes[len(m.notes)-1])
	}
	return ""
}

// frame draws the current run in at most m.height lines of m.width columns. Title and
// progress are always shown. Figures, messages and chart share the remaining lines, so
// that the chart stays readable on a terminal of 12 lines.
func (m *liveModel) frame() string {
	r := m.run()
	lines := []string{m.title(r)}
	free := m.height - 2
	chart := 0
	if free >= chartMinHeight+2 {
		chart = chartMinHeight
	}
	messages := lastOf(m.messages(r), max(free-chart-2, 0)/2)
	figures := m.figures(r)
	if n := free - chart - len(messages); len(figures) > n {
		figures = figures[:max(n, 0)]
	}
	if chart > 0 {
		chart = min(free-len(figures)-len(messages), liveChartMax)
		lines = append(lines, renderChart(m.width, chart, m.series()))
	}
	lines = append(append(lines, figures...), m.status(r))
	if m.height > 2 {
		lines = append(lines, messages...)
	}
	all := strings.Split(strings.Join(lines, "\n"), "\n")
	for i := range all {
		all[i] = m.fit(all[i])
	}
	return strings.Join(all, "\n")
}

// fit truncates a line to the width.
func (m *liveModel) fit(line string) string { return ansi.Truncate(line, m.width, "…") }

func (m *liveModel) paint(code int, text string) string {
	if !m.color {
		return text
	}
	return paint(code, text)
}

// title describes the run and its target.
func (m *liveModel) title(r *liveRun) string {
	run := r.run
	name := plainText(run.Name)
	if name == "" {
		name = plainText(strings.Join([]string{run.Workload, run.Preset, run.Layout, "on", run.Engine}, " "))
	}
	title := m.paint(liveBold, name)
	if v := plainText(run.ServerVersion); v != "" {
		title += " " + v
	}
	var details []string
	if run.Writers > 0 {
		details = append(details, plural(run.Writers, "writer"))
	}
	if run.Batch > 0 {
		details = append(details, fmt.Sprintf("batches of %d", run.Batch))
	}
	if run.Period != "" {
		details = append(details, "periods of "+plainText(run.Period))
	}
	if len(details) > 0 {
		title += m.paint(liveFaint, " · "+strings.Join(details, ", "))
	}
	return title
}

// series returns the lines of the chart: the current run's is last and solid.
func (m *liveModel) series() []chartSeries {
	layouts := map[string]int{}
	for _, r := range m.runs {
		layouts[r.run.Layout]++
	}
	out := make([]chartSeries, len(m.runs))
	for i, r := range m.runs {
		s := chartSeries{Name: plainText(r.run.Layout), Points: r.points()}
		if s.Name == "" || layouts[r.run.Layout] > 1 {
			s.Name = plainText(r.run.Name)
		}
		if r.run.MaxTimeSeconds == 0 { // with a time limit, the run may end long before its rows
			s.Until = float64(r.run.Rows)
		}
		if m.color {
			s.Color = liveColors[i%len(liveColors)]
		} else if back := len(m.runs) - 1 - i; back > 0 {
			s.Dash = 1 + (back-1)%2
		}
		out[i] = s
	}
	return out
}

// figures returns the figures of the last interval, or of the whole run once it has
// ended, in lines of the view's width. The most important ones come first.
func (m *liveModel) figures(r *liveRun) []string {
	if s := r.summary; s != nil {
		return flow(append(latencyFigures(s.LatencyUS), m.faults(s.Retries, s.Errors)...), m.width)
	}
	iv := &r.last
	latency := map[string]result.Latency{}
	for op, h := range iv.Latency {
		latency[op] = h.Latency
	}
	mean := 0.0
	if iv.Elapsed > 0 {
		mean = float64(iv.Rows) / iv.Elapsed
	}
	groups := [][]string{{
		plural(iv.Rows, "row"),
		thousands(iv.Rate()) + " rows/s now",
		thousands(mean) + " mean",
	}, latencyFigures(latency)}
	health := m.faults(r.retries, r.errors)
	if r.run.Rate > 0 {
		health = append([]string{"backlog " + thousands(float64(iv.Backlog))}, health...)
	}
	groups = append(groups, health, cpuFigures(iv.Counters), pageFigures(iv))

	// If there is room, each group begins a line; otherwise the groups share lines.
	if m.height < 20 {
		var all []string
		for _, g := range groups {
			all = append(all, g...)
		}
		groups = [][]string{all}
	}
	var lines []string
	for _, g := range groups {
		lines = append(lines, flow(g, m.width)...)
	}
	return lines
}

// faults returns the counts of retries and errors.
func (m *liveModel) faults(retries, errors int64) []string {
	text := "errors " + thousands(float64(errors))
	if errors > 0 {
		text = m.paint(liveRed, text)
	}
	return []string{"retries " + thousands(float64(retries)), text}
}

// flow joins parts into lines of at most width columns.
func flow(parts []string, width int) []string {
	const gap = "   "
	var lines []string
	for _, p := range parts {
		n := len(lines) - 1
		if n >= 0 && ansi.StringWidth(lines[n])+len(gap)+ansi.StringWidth(p) <= width {
			lines[n] += gap + p
			continue
		}
		lines = append(lines, p)
	}
	return lines
}

// latencyFigures returns the latency of the most frequent operation.
func latencyFigures(latency map[string]result.Latency) []string {
	var most result.Latency
	var op string
	for name, l := range latency {
		if l.Count > most.Count || l.Count == most.Count && name < op {
			most, op = l, name
		}
	}
	if most.Count == 0 {
		return nil
	}
	return []string{plainText(op) + " p50 " + micros(most.P50), "p99 " + micros(most.P99), "max " + micros(most.Max)}
}

// cpuFigures returns the machine's CPU time by kind, if it is known.
func cpuFigures(counters map[string]float64) []string {
	var out []string
	for _, kind := range []string{"user", "system", "iowait", "steal"} {
		if v, ok := counters["os_cpu_"+kind]; ok && finite(v) {
			out = append(out, fmt.Sprintf("%s %.0f%%", strings.TrimSuffix(kind, "tem"), 100*v))
		}
	}
	if len(out) > 0 {
		out[0] = "CPU " + out[0]
	}
	return out
}

// pageFigures returns the activity of the server's page cache in the interval.
func pageFigures(iv *result.Interval) []string {
	var out []string
	if v, ok := iv.Counters[engine.CounterPageReads]; ok && finite(v) && iv.Rate() > 0 {
		out = append(out, fmt.Sprintf("%.2f page reads/row", v/iv.Rate()))
	}
	if v, ok := iv.Counters[engine.CounterCacheDirty]; ok && finite(v) {
		dirty := "cache dirty " + figure.Bytes(v)
		if size := iv.Counters[engine.CounterCache]; size > 0 {
			dirty = fmt.Sprintf("cache dirty %.0f%% of %s", 100*v/size, figure.Bytes(size))
		}
		out = append(out, dirty)
	}
	return out
}

// status returns the line that shows the progress, or how the run ended.
func (m *liveModel) status(r *liveRun) string {
	if r.summary != nil {
		return m.verdict(r.summary)
	}
	text := clock(r.elapsed(m.now))
	done := r.progress(m.now)
	if finite(done) {
		text = fmt.Sprintf("%3.0f%%  %s", math.Floor(100*done), text)
		if left, ok := r.left(m.now); ok {
			text += "  " + clock(left) + " left"
		} else {
			text += "  estimating"
		}
	}
	if m.stopping {
		text += "  " + m.paint(liveYellow, "stopping…")
	}
	if !finite(done) {
		return text
	}
	width := min(m.width-ansi.StringWidth(text)-1, 60)
	if width < 5 {
		return text
	}
	full := int(done * float64(width))
	return strings.Repeat("█", full) + m.paint(liveFaint, strings.Repeat("░", width-full)) + " " + text
}

// verdict summarizes a run that has ended.
func (m *liveModel) verdict(s *result.Summary) string {
	text := fmt.Sprintf("%s in %s, %s rows/s", plural(s.Rows, "row"), clock(s.Seconds), thousands(s.RowsPerSecond))
	asks := s.Step != nil && s.Step.Query != ""
	if asks {
		text = fmt.Sprintf("%s queries/s beside %s rows/s inserted, in %s", thousands(s.Step.QueriesPerSecond), thousands(s.Step.InsertsPerSecond), clock(s.Seconds))
	}
	if s.Failure != "" {
		return m.paint(liveRed, "failed after "+text+": "+plainText(s.Failure))
	}
	if s.Rate.First > 0 && !asks {
		text += fmt.Sprintf(", last/first tenth %.2f", s.Rate.Flatness)
	}
	return m.paint(liveBold, "done: "+text)
}

// messages returns the run's last events, notes and warnings, one per line.
func (m *liveModel) messages(r *liveRun) []string {
	var out []string
	for _, e := range lastOf(r.events, 3) {
		out = append(out, m.paint(liveFaint, clock(e.Elapsed)+"  "+plainText(e.What+" "+e.Object)))
	}
	for _, n := range lastOf(r.notes, 3) {
		out = append(out, m.paint(liveFaint, "·")+" "+n)
	}
	warnings := r.run.Warnings
	if s := r.summary; s != nil {
		warnings = s.Warnings
		out = append(out, findings(s)...)
	}
	for _, w := range lastOf(warnings, 4) {
		out = append(out, m.paint(liveYellow, "!")+" "+plainText(w))
	}
	return out
}

// findings returns the results of a run that has ended: its knee, and whether all of
// its rows were found.
func findings(s *result.Summary) []string {
	var out []string
	if k := s.Knee; k != nil {
		out = append(out, fmt.Sprintf("knee at %s rows: %s", shortNumber(float64(k.Rows)), plainText(k.Why)))
	}
	if v := s.Verified; v != nil {
		text := "verified: all " + thousands(float64(v.Expected)) + " rows are there"
		if v.Lost > 0 && v.Sound() {
			text = fmt.Sprintf("verified: %s rows are there, %s were lost when the server was killed, as its settings allow",
				thousands(float64(v.Found)), thousands(float64(v.Lost)))
		}
		if !v.Sound() && v.Counted {
			text = fmt.Sprintf("NOT verified: %s rows expected, %s counted", thousands(float64(v.Expected)), thousands(float64(v.Found)))
		} else if !v.Sound() {
			text = fmt.Sprintf("NOT verified: %s rows expected, %s found, checksum equal: %v",
				thousands(float64(v.Expected)), thousands(float64(v.Found)), v.Checksum)
		}
		out = append(out, text)
	}
	return out
}

// thousands formats a count with separators: 1,234,567.
func thousands(v float64) string {
	if !finite(v) {
		return "?"
	}
	s := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// micros formats a time given in microseconds: 850 us, 1.2 ms, 34 ms, 5.6 s.
func micros(us int64) string {
	v, unit := float64(us), "us"
	switch {
	case v >= 999500:
		v, unit = v/1e6, "s"
	case v >= 1000:
		v, unit = v/1000, "ms"
	}
	if unit != "us" && v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// clock formats seconds as minutes and seconds, 1:05, or with hours, 2:00:00.
func clock(seconds float64) string {
	if !finite(seconds) || seconds > 1e9 {
		return "?"
	}
	s := int64(math.Round(max(seconds, 0)))
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
