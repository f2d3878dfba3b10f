package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

func plain(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func plainBounds(b *statistics.Bounds) []string {
	if b == nil {
		return []string{"", ""}
	}
	return []string{plain(b.Low), plain(b.High)}
}

// figureSheet returns a table with the columns of header and, after them, a column for each figure
// that any row has, sorted by name.
func figureSheet(header []string, rows [][]string, figures []map[string]float64) *document.Table {
	names := map[string]bool{}
	for _, of := range figures {
		for name := range of {
			names[name] = true
		}
	}
	columns := sortedNames(names)
	t := &document.Table{Header: append(header, columns...)}
	for i, of := range figures {
		for _, name := range columns {
			v, ok := of[name]
			rows[i] = append(rows[i], onlyIf(ok, plain(v)))
		}
		t.Add(rows[i]...)
	}
	return t
}

// cellSheet returns a table with a row for each cell of a grid.
func cellSheet(factors []result.Factor, cells []GridCell) *document.Table {
	var header []string
	var rows [][]string
	var figures []map[string]float64
	for _, f := range factors {
		header = append(header, cmp.Or(f.Name, "section"))
	}
	for i := range cells {
		c := &cells[i]
		row := append(slices.Clone(c.Levels), strconv.Itoa(c.Runs), plain(statistics.Value(c.Ratio)))
		rows = append(rows, append(append(row, plainBounds(c.Interval)...), c.Verdict, strconv.FormatBool(c.Incomplete)))
		figures = append(figures, c.Figures)
	}
	return figureSheet(append(header, "runs", "ratio", "ratio_95_low", "ratio_95_high", "verdict", "incomplete"), rows, figures)
}

// sheet returns a table with a row for each cell, or for each figure of a configuration. Of a
// configuration's rows, only the first has the ratio's interval, p and verdict.
func (c *Comparison) sheet() *document.Table {
	t := &document.Table{Header: []string{"cell", "against", "rows", "runs", "figure", "unit",
		"a", "b", "ratio", "ratio_95_low", "ratio_95_high", "p", "p_adjusted", "verdict"}}
	for i := range c.Cells {
		x := &c.Cells[i]
		figures := x.Figures
		if figures == nil {
			figures = []PairFigure{{Name: x.Unit, Versus: x.Versus}}
		}
		about := append(plainBounds(x.Interval), plain(statistics.Value(x.P)), plain(statistics.Value(x.Adjusted)), x.Verdict)
		for _, f := range figures {
			row := []string{x.Name, x.Against, strconv.FormatInt(x.Rows, 10), strconv.Itoa(len(x.Repeats)), f.Name, f.Unit}
			t.Add(append(append(row, plain(statistics.Value(f.A)), plain(statistics.Value(f.B)), plain(statistics.Value(f.Ratio))), about...)...)
			about = []string{"", "", "", "", ""}
		}
	}
	return t
}

// intervalSheet returns a table with a row for each interval of each run.
func intervalSheet(recs []result.Record) *document.Table {
	var rows [][]string
	var figures []map[string]float64
	for i := range recs {
		units := map[string]string{}
		for _, c := range recs[i].Run.Counters {
			unit := "_" + strings.ReplaceAll(c.Unit, "/", "_per_")
			if of, _, _ := strings.Cut(c.Unit, "/"); strings.HasSuffix(c.Name, "_"+of) {
				unit = unit[1+len(of):]
			}
			if unit != "_" && !strings.HasSuffix(c.Name, "_us") { // the name already ends in its unit
				units[c.Name] = unit
			}
		}
		for j := range recs[i].Intervals {
			iv := &recs[i].Intervals[j]
			rows = append(rows, []string{recs[i].Source, recs[i].Run.Name, plain(iv.Elapsed), plain(iv.Seconds), plain(float64(iv.Rows)), plain(float64(iv.NewRows)), plain(iv.Rate())})
			all := map[string]float64{"backlog": float64(iv.Backlog), "errors": float64(iv.Errors), "retries": float64(iv.Retries)}
			for what, times := range map[string]map[string]result.Histogram{"service": iv.Latency, "response": iv.Response} {
				for op, h := range times {
					for name, n := range map[string]int64{"operations": h.Count, "p50_us": h.P50, "p95_us": h.P95, "p99_us": h.P99, "p999_us": h.P999, "max_us": h.Max} {
						all[op+"_"+what+"_"+name] = float64(n)
					}
				}
			}
			for op, tally := range iv.Beside {
				all[op+"_rows"] = float64(tally.Rows)
			}
			for name, v := range iv.Counters {
				all[name+units[name]] = v
			}
			figures = append(figures, all)
		}
	}
	return figureSheet([]string{"file", "run", "elapsed_seconds", "seconds", "rows", "new_rows", "rows_per_second"}, rows, figures)
}
