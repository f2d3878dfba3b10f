// Package report renders run records: as text, Markdown, JSON, one self-contained
// HTML file, or a PNG picture. It also renders the comparison of two records, and
// the progress line of a running benchmark.
//
// Its input is records as read by package result; its output is bytes on an
// io.Writer. Nothing here opens a database, a file or a connection. Everything is
// derived from the record alone, so records of another machine, of a failed run or
// of a killed one can be reported too: missing figures are omitted, and the report
// states that it is incomplete. An empty list of records is refused.
//
//	recs, err := result.ReadFile("run.jsonl")
//	if err != nil {
//		return err
//	}
//	return report.Text(os.Stdout, recs)
//
// Every figure has a unit: rows/s, seconds, µs or ms, and bytes with binary
// prefixes. Rates over rows are defined by result.Rate: first and last are means
// over the first and last tenth of the rows.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rowmill/rowmill/result"
)

// errNoRuns is the error of every report of an empty list of records.
var errNoRuns = errors.New("report: no runs to report")

// Summaries is the output of JSON.
type Summaries struct {
	Format string           `json:"format"` // result.SummaryFormat
	Runs   []result.Summary `json:"runs"`
	// Capacity contains the results of searches for a rate, each over several of the
	// runs.
	Capacity []result.Capacity `json:"capacity,omitempty"`
	// Scenarios are the experiments that the runs belong to.
	Scenarios []Scenario `json:"scenarios,omitempty"`
}

// documentOf builds the report of the runs.
func documentOf(recs []result.Record) (*Document, error) {
	if len(recs) == 0 {
		return nil, errNoRuns
	}
	if IsMatrix(recs) {
		m, err := NewMatrix(recs)
		if err != nil {
			return nil, err
		}
		return m.document(), nil
	}
	if t, err := speedTest(recs); t != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return t.document(), nil
	}
	return runsDocument(recs)
}

// write builds the report of the runs and writes it in one format.
func write(recs []result.Record, format func(d *Document) error) error {
	d, err := documentOf(recs)
	if err != nil {
		return err
	}
	return format(d)
}

// Text writes the report as text: a sentence on each run, what to know before
// believing it, and then the figures of each run.
//
// The runs of an insert-method matrix are reported together, as by Matrix, and so are
// the cells of a speed test; the same applies to all other formats.
func Text(w io.Writer, recs []result.Record) error {
	return write(recs, func(d *Document) error { return d.Text(w) })
}

// Markdown writes the content of Text as headings and tables, with one column per run.
func Markdown(w io.Writer, recs []result.Record) error {
	return write(recs, func(d *Document) error { return d.Markdown(w) })
}

// JSON writes the runs' summaries as indented JSON.
func JSON(w io.Writer, recs []result.Record) error {
	if speed := func(r result.Record) bool { return r.Run.Speed != nil }; len(recs) > 0 && !IsMatrix(recs) && !slices.ContainsFunc(recs, speed) {
		return writeJSON(w, summaries(recs)) // without the figures of the other formats
	}
	return write(recs, func(d *Document) error { return d.JSON(w) })
}

// PNG writes a picture of the rate against rows, with all runs in one plot; for runs
// of bench steady, a picture of the rate, latency and the machine's figures against
// time.
func PNG(w io.Writer, recs []result.Record, opts PNGOptions) error {
	return write(recs, func(d *Document) error { return d.PNG(w, opts) })
}

// HTMLOptions contains the options of HTMLWith. The zero value is the documented
// default.
type HTMLOptions struct {
	// Elapsed initially aligns constant loads by the time since their start instead
	// of the time of day; the page can switch.
	Elapsed bool
}

// HTML writes a self-contained page: charts that can be zoomed and printed, the
// summary, and everything needed to repeat the runs.
func HTML(w io.Writer, recs []result.Record) error { return HTMLWith(w, recs, HTMLOptions{}) }

// HTMLWith is HTML with options.
func HTMLWith(w io.Writer, recs []result.Record, opts HTMLOptions) error {
	return write(recs, func(d *Document) error {
		d.elapsed = opts.Elapsed
		return d.HTML(w)
	})
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON report: %w", err)
	}
	return nil
}
