package live

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/guptarohit/asciigraph"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

var (
	bold  = ansi.Style{}.Bold()
	faint = ansi.Style{}.Faint()
	alert = ansi.Style{}.ForegroundColor(ansi.Red)
)

// A screen is what a View shows.
type screen struct {
	width, height int
	plain         bool     // without colours
	runs          []*run   // the last one is shown, the earlier ones are in its chart
	notes         []string // the last ones
	showing       bool     // a run has begun, and its last frame isn't kept yet
	kept          []string // frames to print above the view, in order
	stopping      bool
	closed        bool
}

// run returns the current run.
func (s *screen) run() *run { return s.runs[len(s.runs)-1] }

// keep has the frame of the current run printed above the view, where it stays.
func (s *screen) keep() {
	if s.showing {
		s.kept, s.showing = append(s.kept, s.frame()), false
	}
}

// note adds lines of text, with a mark before each. The last eight are kept.
func (s *screen) note(mark string, lines ...string) {
	for _, l := range lines {
		s.notes = lastOf(append(s.notes, faint.Styled(mark)+" "+figure.OneLine(l)), 8)
	}
}

// draw returns what the view shows now: a run, or what happens between two runs.
func (s *screen) draw() string {
	switch {
	case s.showing:
		return s.frame()
	case s.closed:
		return ""
	case s.stopping:
		return "stopping…"
	}
	return s.fit(strings.Join(lastOf(s.notes, 1), ""))
}

// A chart has at least leastChart lines: the legend, two of the plot, the axis, and the numbers. It
// has at most mostChart.
const leastChart, mostChart = 5, 20

// frame draws the current run in at most s.height lines of s.width columns. Title and progress
// are always shown; figures, messages and chart share the other lines.
func (s *screen) frame() string {
	r := s.run()
	lines := []string{strings.TrimSpace(bold.Styled(figure.OneLine(r.Name)) + " " + figure.OneLine(r.ServerVersion))}
	free, chart := s.height-2, 0
	if free >= leastChart+2 && s.width >= 20 {
		chart = leastChart
	}
	notes := lastOf(s.notes, max(free-chart-2, 0)/2)
	figures := flow(figures(r), s.width)
	figures = figures[:min(len(figures), max(free-chart-len(notes), 0))]
	if chart > 0 {
		lines = append(lines, s.chart(min(free-len(figures)-len(notes), mostChart)))
	}
	lines = append(append(lines, figures...), s.status(r))
	return s.fit(strings.Join(append(lines, notes...), "\n"))
}

func (s *screen) fit(text string) string {
	if s.plain {
		text = ansi.Strip(text)
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, s.width, "…")
	}
	return strings.Join(lines, "\n")
}

// Each run's line has a colour, and the lines of earlier runs are dashed or dotted.
var (
	lineColors = []asciigraph.AnsiColor{asciigraph.DarkCyan, asciigraph.Olive, asciigraph.Purple, asciigraph.Green, asciigraph.Navy}
	lineChars  = []asciigraph.CharSet{asciigraph.DefaultCharSet, {Horizontal: "╌", VerticalLine: "╎"}, asciigraph.CreateCharSet("·")}
)

// chart draws the runs' rates against their rows: a legend, the plot, and an axis with numbers.
func (s *screen) chart(lines int) string {
	n := s.width - 10 // the numbers left and right take 10 columns
	rows, runs := 1.0, lastOf(s.runs, len(lineColors))
	for _, r := range runs {
		rows = max(rows, float64(r.last.Rows))
		if r.MaxTimeSeconds == 0 { // with a time limit, the run may end long before its rows
			rows = max(rows, float64(r.Rows))
		}
	}
	legend := "rows/s by rows"
	var data [][]float64
	var chars []asciigraph.CharSet
	for i, r := range runs {
		color, char := lineColors[i], lineChars[min(len(runs)-1-i, len(lineChars)-1)]
		data, chars = append(data, r.columns(n, rows)), append(chars, char)
		legend += "   " + color.String() + strings.Repeat(char.Horizontal, 2) + asciigraph.Default.String() + " " + figure.OneLine(cmp.Or(r.Layout, r.Name))
	}
	return legend + "\n" + asciigraph.PlotMany(data, asciigraph.Height(lines-4), asciigraph.Offset(2),
		asciigraph.LowerBound(0), asciigraph.UpperBound(1), asciigraph.YAxisValueFormatter(figure.Short),
		asciigraph.XAxisRange(0, rows), asciigraph.XAxisTickCount(1+1<<min(n/45+1, 3)), asciigraph.XAxisValueFormatter(figure.Short),
		asciigraph.SeriesColors(lineColors...), asciigraph.SeriesChars(chars...))
}

// figures returns the figures of the last interval, or of the whole run once it has
// ended. The most important ones come first.
func figures(r *run) (out []string) {
	iv := &r.last
	op := iv.Operation()
	latency, retries, errors, counters := iv.Timed(op), r.retries, r.errors, iv.Counters
	if s := r.summary; s != nil {
		latency, retries, errors, counters = s.LatencyUS[op], s.Retries, s.Errors, nil
		if l, ok := s.ResponseUS[op]; ok {
			latency = l
		}
	} else {
		out = append(out, figure.Plural(iv.Rows, "row"), figure.Rounded(iv.Rate())+" rows/s now",
			figure.Rounded(float64(iv.Rows)/max(iv.Elapsed, 1e-9))+" mean")
	}
	if r.Rate > 0 {
		op += " response"
	}
	if latency.Count > 0 {
		out = append(out, op+" p50 "+figure.Micros(latency.P50), "p99 "+figure.Micros(latency.P99), "max "+figure.Micros(latency.Max))
	}
	if r.Rate > 0 {
		out = append(out, "backlog "+figure.Count(iv.Backlog))
	}
	out = append(out, "retries "+figure.Count(retries))
	if errors > 0 {
		out = append(out, alert.Styled("errors "+figure.Count(errors)))
	}
	add := func(counter, format string, per float64) {
		if v, ok := counters[counter]; ok && per > 0 {
			out = append(out, fmt.Sprintf(format, v/per))
		}
	}
	add("os_cpu_user", "CPU user %.0f%%", 0.01)
	add("os_cpu_system", "sys %.0f%%", 0.01)
	add("os_cpu_iowait", "iowait %.0f%%", 0.01)
	add("os_cpu_steal", "steal %.0f%%", 0.01)
	add(engine.CounterPageReads, "%.2f page reads/row", iv.Rate())
	add(engine.CounterCacheDirty, "cache dirty %.0f%%", counters[engine.CounterCache]/100)
	return out
}

// flow wraps figures into lines, without a line break inside a figure.
func flow(figures []string, width int) []string {
	const hard = "\u00a0" // a blank at which Wordwrap breaks no line
	lines := ansi.Wordwrap(strings.NewReplacer(" ", hard, "\n", "   ").Replace(strings.Join(figures, "\n")), max(width, 1), "")
	return strings.Split(strings.ReplaceAll(lines, hard, " "), "\n")
}

// status returns the line that shows the progress, or how the run ended.
func (s *screen) status(r *run) string {
	if r.summary != nil {
		return verdict(r.summary)
	}
	text, bar := figure.Clock(r.last.Elapsed), ""
	done, left := r.pace.Done, r.pace.Left
	limited := r.Rows > 0 || r.MaxTimeSeconds > 0
	if limited {
		text = fmt.Sprintf("%3.0f%%  %s  %s left", math.Floor(100*done), text, figure.Clock(left))
	}
	if s.stopping {
		text += "  " + alert.Styled("stopping…")
	}
	if width := min(s.width-ansi.StringWidth(text)-1, 60); width >= 5 && limited {
		full := int(done * float64(width))
		bar = strings.Repeat("█", full) + faint.Styled(strings.Repeat("░", width-full)) + " "
	}
	return bar + text
}

func verdict(s *result.Summary) string {
	text := fmt.Sprintf("%s in %s, %s rows/s", figure.Plural(s.Rows, "row"), figure.Clock(s.Seconds), figure.Rounded(s.RowsPerSecond))
	if s.Step != nil && s.Step.Query != "" {
		text = fmt.Sprintf("%s queries/s beside %s rows/s inserted, in %s", figure.Rounded(s.Step.QueriesPerSecond),
			figure.Rounded(s.Step.InsertsPerSecond), figure.Clock(s.Seconds))
	}
	if s.Failure != "" {
		return alert.Styled("failed after " + text + ": " + figure.OneLine(s.Failure))
	}
	return bold.Styled("done: " + text)
}
