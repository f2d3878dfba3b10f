package report

import (
	"slices"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/series"
	"github.com/rowmill/rowmill/result"
)

// telling lists the counters that explain most drops of a rate, the most important counter first.
var telling = []string{
	"page_reads_per_row", "table_index_bytes", "checkpoint_age_bytes", "page_reads", "table_data_bytes", "cache_used_bytes",
	"page_writes_per_row", "page_writes", "cache_dirty_bytes", "redo_written_bytes_per_row", "redo_written_bytes", result.FigureDelay, result.FigureDelayWorst,
}

// liveRuns returns the charts of the runs that can be zoomed, with the telling counters first.
func liveRuns(vs []view, telling []string) *document.Live {
	st := styles(vs)
	d := &series.Page{Apart: len(vs) > 1 && !slices.ContainsFunc(vs, func(v view) bool { return v.rec.Run.Step == nil })}
	l := &document.Live{PerPoint: 1}
	var recs []*result.Record
	for i := range vs {
		v := &vs[i]
		recs, d.Runs = append(recs, v.rec), append(d.Runs, v.series(st[i]))
		l.PerPoint = max(l.PerPoint, series.PerPoint(len(v.rec.Intervals)))
		if k := v.sum.Knee; k != nil {
			l.Knees = append(l.Knees, document.LiveKnee{Label: v.label, At: figures.Count(k.Rows), Why: document.AsSentence(k.Why), Style: st[i]})
		}
		if v.loop != nil {
			l.Loops = append(l.Loops, document.Note{Label: v.label, Text: document.AsSentence(v.openLoop())})
		}
	}
	d.Counters = series.Counters(recs, telling)
	l.Data = d
	return l
}

// series are the points of a run's charts.
func (v *view) series(style document.Style) series.Run {
	return series.NewRun(&series.Source{Record: v.rec, Summary: &v.sum, Curve: v.curve, Stalls: v.stalled, Label: v.label, Style: style, Minor: v.minor})
}

// windows returns the number of windows, at most n, into which the run's rows can be divided.
func (v *view) windows(n int) int { return max(1, v.rec.Run.Parts(v.curve, n)) }
