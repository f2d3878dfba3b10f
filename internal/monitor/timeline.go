package monitor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
)

// Sizes of drawings, in units that the browser scales to the page's width.
const (
	wide       = 1000.0
	tall       = 90.0
	leastTall  = 6.0 // the height of a nearly empty period
	leastWide  = 0.6
	gapBetween = 0.8
	// drawn is the maximum number of bars: more bars are indistinguishable, and slow.
	drawn = 500
	// around is the number of periods before the present in the second timeline.
	around = 12
)

// A bar is a period in a timeline, or a run of periods with the same state.
type bar struct {
	X, W, Y, H float64
	State, Tip string
}

// A timeline shows periods along their axis.
type timeline struct {
	Bars       []bar
	From, To   string
	Now        float64 // negative if the present is outside
	Wide, Tall float64
}

// A span is a period on the axis.
type span struct {
	from, to float64
	maintain.PeriodStatus
}

// timelines returns a timeline of all periods, and one of the periods around the present.
func timelines(s *maintain.Status) (whole, near timeline) {
	var spans []span
	axisOfTime := false
	for i, p := range s.Periods {
		from, isTime, ok := position(p.From)
		to, _, ok2 := position(p.To)
		if !ok || !ok2 || to <= from {
			// If bounds can't be read, show the periods in order with equal widths.
			from, to, isTime = float64(i), float64(i+1), false
		}
		axisOfTime = axisOfTime || isTime
		spans = append(spans, span{from, to, p})
	}
	now := present(s, axisOfTime)
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	whole = draw(spans, now)
	current := slices.IndexFunc(spans, func(p span) bool {
		return p.to > now || math.IsNaN(now) && p.State == "ahead"
	})
	if current < 0 {
		current = len(spans)
	}
	if from := current - around; from > 0 {
		near = draw(spans[from:], now)
	}
	return whole, near
}

// present returns the present on the axis, NaN if it is unknown.
func present(s *maintain.Status, axisOfTime bool) float64 {
	if now, isTime, ok := position(s.Now); ok && isTime == axisOfTime {
		return now
	}
	if axisOfTime {
		return float64(s.At.UnixMilli()) / 1000
	}
	return math.NaN()
}

// draw lays out periods along the axis.
func draw(spans []span, now float64) timeline {
	t := timeline{Now: -1, Wide: wide, Tall: tall}
	if len(spans) == 0 {
		return t
	}
	first, last := spans[0].from, spans[0].to
	for _, p := range spans {
		last = max(last, p.to)
	}
	if now < last && now > last-1e12 && !math.IsNaN(now) {
		first = min(first, now) // a table that begins in the future
	}
	t.From, t.To = spans[0].From, spans[len(spans)-1].To
	scale := wide / (last - first)
	if !math.IsNaN(now) && now >= first && now <= last {
		t.Now = round((now - first) * scale)
	}
	// A bar's height is the number of rows divided by the time that the bar covers, so that a
	// merged day is comparable with an hour. Bytes would mislead, because some servers count whole
	// extents.
	dense := func(run []span) (d float64) {
		for _, p := range run {
			d = max(d, float64(p.Rows)/(p.to-p.from))
		}
		return d
	}
	top := dense(spans)
	for _, run := range runs(spans, (last-first)/drawn) {
		a, z := run[0], run[len(run)-1]
		b := bar{State: a.State, Tip: tip(run)}
		b.X = round((a.from - first) * scale)
		b.W = round(max((z.to-a.from)*scale-gapBetween, leastWide))
		b.H = leastTall
		if top > 0 {
			b.H = round(leastTall + dense(run)/top*(tall-leastTall))
		}
		b.Y = round(tall - b.H)
		t.Bars = append(t.Bars, b)
	}
	return t
}

// runs combines adjacent periods with the same state into runs no longer than least, if there are
// too many periods to draw. Otherwise each period is a run.
func runs(spans []span, least float64) [][]span {
	var out [][]span
	for i, p := range spans {
		if i > 0 && len(spans) > drawn {
			last := out[len(out)-1]
			if last[0].State == p.State && p.to-last[0].from <= least {
				out[len(out)-1] = append(last, p)
				continue
			}
		}
		out = append(out, spans[i:i+1:i+1])
	}
	return out
}

func tip(run []span) string {
	a, z := run[0], run[len(run)-1]
	var rows, bytes int64
	for _, p := range run {
		rows += p.Rows
		bytes += p.Bytes
	}
	about := "about "
	if takesInserts(a.State) && rows == 0 || a.State == "sealed" || a.State == "archived" {
		about = ""
	}
	lines := []string{a.Name + " · " + a.State}
	if len(run) > 1 {
		lines[0] = fmt.Sprintf("%s to %s · %d periods, %s", a.Name, z.Name, len(run), a.State)
	}
	lines = append(lines, a.From+" to "+z.To, about+figure.Count(rows)+" rows, "+figure.Bytes(bytes))
	if len(run) == 1 && a.Rebuilt {
		lines = append(lines, "rebuilt")
	}
	if len(run) == 1 && a.Archive != "" {
		lines = append(lines, "archive "+a.Archive)
	}
	return strings.Join(lines, "\n")
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// A chart shows the rate of inserts over the last minutes.
type chart struct {
	Points  string // the points of the line
	Area    string
	Columns []column
	Top     float64 // rows per second at the upper edge
	Now     float64
	Over    string // the length of time that the chart covers
	Wide    float64
	Tall    float64
}

// A column is the area in which the pointer selects a sample.
type column struct {
	X, W float64
	Tip  string
}

func rateChart(samples []sample) chart {
	c := chart{Wide: wide, Tall: tall}
	if len(samples) == 0 {
		return c
	}
	last := samples[len(samples)-1]
	c.Now = last.Rate
	for _, s := range samples {
		c.Top = max(c.Top, s.Rate)
	}
	over := last.At.Sub(samples[0].At).Seconds()
	c.Over = figure.Duration(over)
	if over <= 0 {
		return c
	}
	var b strings.Builder
	before := 0.0
	for i, s := range samples {
		x := round(s.At.Sub(samples[0].At).Seconds() / over * wide)
		y := tall - 2
		if c.Top > 0 {
			y = round(2 + (1-s.Rate/c.Top)*(tall-4))
		}
		fmt.Fprintf(&b, "%g,%g ", x, y)
		if i > 0 {
			c.Columns = append(c.Columns, column{before, round(x - before), at(s.At)[11:] + " UTC\nabout " + figure.Short(s.Rate) + " rows/s"})
		}
		before = x
	}
	c.Points = strings.TrimSpace(b.String())
	c.Area = fmt.Sprintf("0,%g %s %g,%g", tall, c.Points, wide, tall)
	return c
}

// at formats a time, in UTC.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// layouts are the formats of positions of time axes in a status.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.999999", "2006-01-02 15:04", "2006-01-02"}

// position parses a period's bound: seconds since 1970, or a key value.
func position(s string) (v float64, isTime, ok bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return float64(n), false, true
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, s); err == nil {
			return float64(t.UnixMilli()) / 1000, true, true
		}
	}
	return 0, false, false
}
