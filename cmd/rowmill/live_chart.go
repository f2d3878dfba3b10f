package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A chartPoint is a rate, in rows per second, at a number of rows.
type chartPoint struct{ Rows, Rate float64 }

// A chartSeries is one line of a chart.
type chartSeries struct {
	Name   string
	Points []chartPoint
	// Until is the number of rows at which the line is expected to end; 0 is unknown.
	Until float64
	// Color is an ANSI foreground colour, 30 to 37 or 90 to 97; 0 is none.
	Color int
	// Dash distinguishes lines without colours: 0 is solid, 1 dashed, 2 dotted.
	Dash int
}

// chartMinHeight is the fewest lines a chart takes: legend, two of plot, axis,
// numbers.
const chartMinHeight = 5

// brailleDots are the bits of the dots of a braille character by row and column.
var brailleDots = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// renderChart draws rate against rows in braille characters of 2x4 dots, in exactly
// height lines of at most width columns: a legend, the plot, and an axis with numbers.
// Where lines cross, the later series is on top. It returns "" for fewer than
// chartMinHeight lines or 20 columns.
func renderChart(width, height int, series []chartSeries) string {
	if width < 20 || height < chartMinHeight {
		return ""
	}
	maxRows, maxRate, empty := chartExtent(series)
	plotLines := height - 3
	rateStep := niceStep(maxRate, min(max(plotLines/3, 1), 5))
	top := math.Ceil(maxRate/rateStep) * rateStep
	gutter := 1
	for v := rateStep; !empty && v <= top*(1+1e-9); v += rateStep {
		gutter = max(gutter, len(shortNumber(v)))
	}
	c := newCanvas(width-gutter-1, plotLines)
	for i, s := range series {
		c.draw(i, s, maxRows, top)
	}

	lines := []string{chartLegend(width, series)}
	ticks := map[int]string{}
	for v := rateStep; !empty && v <= top*(1+1e-9); v += rateStep {
		ticks[min(int(math.Round((1-v/top)*float64(plotLines))), plotLines-1)] = shortNumber(v)
	}
	for y := range plotLines {
		mark := "│"
		if ticks[y] != "" {
			mark = "┤"
		}
		lines = append(lines, strings.Repeat(" ", gutter-len(ticks[y]))+ticks[y]+mark+c.line(y, series))
	}
	axis, numbers := chartAxis(width-gutter-1, maxRows)
	return strings.Join(append(lines,
		strings.Repeat(" ", gutter-1)+"0└"+axis,
		strings.Repeat(" ", gutter+1)+numbers), "\n")
}

// chartExtent returns the largest number of rows and the largest rate that a chart
// must show, both at least 1. empty is true if there is no point yet.
func chartExtent(series []chartSeries) (rows, rate float64, empty bool) {
	rows, rate, empty = 1, 1, true
	for _, s := range series {
		if finite(s.Until) {
			rows = max(rows, s.Until)
		}
		for _, p := range s.Points {
			if finite(p.Rows) && finite(p.Rate) {
				rows, rate, empty = max(rows, p.Rows), max(rate, p.Rate), false
			}
		}
	}
	return rows, rate, empty
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// chartLegend names the lines. It omits those that don't fit.
func chartLegend(width int, series []chartSeries) string {
	const unit = "rows/s"
	var b strings.Builder
	b.WriteString(unit)
	used := len(unit)
	for _, s := range series {
		sample := [...]string{"━━", "╍╍", "┉┉"}[s.Dash%3]
		need := 3 + ansi.StringWidth(sample) + 1 + ansi.StringWidth(s.Name)
		if used+need > width {
			break
		}
		used += need
		b.WriteString("   " + paint(s.Color, sample) + " " + s.Name)
	}
	return b.String()
}

// chartAxis returns the axis below the plot and the numbers below the axis, for a plot
// of the given number of columns.
func chartAxis(columns int, maxRows float64) (axis, numbers string) {
	line := []rune(strings.Repeat("─", columns))
	text := []byte(strings.Repeat(" ", columns))
	const unit = " rows"
	step := niceStep(maxRows, min(max(columns/14, 1), 8))
	free := 0
	for v := step; v <= maxRows*(1+1e-9); v += step {
		x := min(int(v/maxRows*float64(columns)), columns-1)
		line[x] = '┴'
		label := shortNumber(v)
		if v+step > maxRows*(1+1e-9) { // the last number also names the unit
			label += unit
		}
		at := min(x-len(label)/2, columns-len(label))
		if at >= free {
			copy(text[at:], label)
			free = at + len(label) + 1
		}
	}
	return string(line), strings.TrimRight(string(text), " ")
}

// niceStep returns the smallest step that is 1, 2 or 5 times a power of ten and fits
// into limit at most n times.
func niceStep(limit float64, n int) float64 {
	for step := math.Pow(10, math.Floor(math.Log10(limit/float64(n)))); ; step *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if limit/(f*step) <= float64(n)*(1+1e-9) {
				return f * step
			}
		}
	}
}

// shortNumber formats a count in at most about five characters: 950, 1.5k, 20k, 4M,
// 1.2G.
func shortNumber(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	decimals := 0
	if v != math.Trunc(v) && math.Abs(v) < 10 {
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	return strings.TrimSuffix(s, ".0") + unit
}

// A canvas is a grid of braille cells. Each cell records the series that was drawn in
// it last.
type canvas struct {
	columns, lines int
	dots           []rune
	owner          []int
}

func newCanvas(columns, lines int) *canvas {
	return &canvas{columns, lines, make([]rune, columns*lines), make([]int, columns*lines)}
}

// set sets the dot at x from the left and y from the top.
func (c *canvas) set(series, x, y int) {
	i := y/4*c.columns + x/2
	c.dots[i] |= brailleDots[y%4][x%2]
	c.owner[i] = series
}

// draw draws a line: the mean rate in each column of dots. Columns without a point are
// interpolated.
func (c *canvas) draw(index int, s chartSeries, maxRows, top float64) {
	columns, lines := 2*c.columns, 4*c.lines
	sum, n := make([]float64, columns), make([]float64, columns)
	for _, p := range s.Points {
		if !finite(p.Rows) || !finite(p.Rate) || p.Rows < 0 {
			continue
		}
		x := min(int(p.Rows/maxRows*float64(columns)), columns-1)
		sum[x] += max(p.Rate, 0)
		n[x]++
	}
	lastX, lastY := -1, 0
	for x := range columns {
		if n[x] == 0 {
			continue
		}
		y := min(int((1-sum[x]/n[x]/top)*float64(lines)), lines-1)
		if lastX < 0 {
			lastX, lastY = x, y
		}
		c.line2(index, s.Dash, lastX, lastY, x, y)
		lastX, lastY = x, y
	}
}

// line2 connects two dots. The second must not be left of the first.
func (c *canvas) line2(series, dash, x0, y0, x1, y1 int) {
	steps := max(x1-x0, max(y1-y0, y0-y1), 1)
	for i := range steps + 1 {
		x := x0 + int(math.Round(float64((x1-x0)*i)/float64(steps)))
		y := y0 + int(math.Round(float64((y1-y0)*i)/float64(steps)))
		if dash == 1 && x%6 >= 4 || dash > 1 && x%4 != 0 {
			continue
		}
		c.set(series, x, y)
	}
}

// line returns a line of the canvas, without trailing blanks.
func (c *canvas) line(y int, series []chartSeries) string {
	var b strings.Builder
	end := c.columns
	for end > 0 && c.dots[y*c.columns+end-1] == 0 {
		end--
	}
	for x := 0; x < end; {
		i := y*c.columns + x
		if c.dots[i] == 0 {
			b.WriteByte(' ')
			x++
			continue
		}
		// Neighbours of the same colour share one pair of escape sequences.
		owner, from := c.owner[i], x
		for x < end && c.dots[y*c.columns+x] != 0 && c.owner[y*c.columns+x] == owner {
			x++
		}
		run := make([]rune, 0, x-from)
		for _, d := range c.dots[y*c.columns+from : y*c.columns+x] {
			run = append(run, 0x2800+d)
		}
		b.WriteString(paint(series[owner].Color, string(run)))
	}
	return b.String()
}

// paint returns text in an ANSI colour or attribute; 0 is none.
func paint(code int, text string) string {
	if code == 0 || text == "" {
		return text
	}
	return "\x1b[" + strconv.Itoa(code) + "m" + text + "\x1b[0m"
}
