// Package report renders run records: as text, Markdown, JSON, one self-contained HTML
// file, or a PNG picture. It also renders comparisons, and the progress of a benchmark.
//
// Everything is derived from the record alone, so that of another machine, of a failed run
// or of a killed one can be reported too; nothing here opens a database or a file.
//
//	d, err := report.New(recs)
//	if err != nil {
//		return err
//	}
//	return d.Text(os.Stdout)
//
// Every figure has a unit: rows/s, seconds, µs or ms, and bytes with binary prefixes.
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
	// Capacity contains the results of searches for a rate.
	Capacity []result.Capacity `json:"capacity,omitempty"`
	// Scenarios are the experiments that the runs belong to.
	Scenarios []Scenario `json:"scenarios,omitempty"`
	// Scans compare the ways of partition scans.
	Scans []ScanComparison `json:"scans,omitempty"`
}

// New builds the report of the runs: a sentence on each run, what to know before
// believing it, and then the figures of each run. The runs of an insert-method matrix
// are reported together, as by NewMatrix, and so are the cells of a speed test.
func New(recs []result.Record) (*Document, error) {
	if all, err := scans(recs); err != nil {
		return nil, err
	} else if all != nil {
		return scanDocument(recs, all)
	}
	switch speed, err := speedTest(recs); {
	case len(recs) == 0:
		return nil, errNoRuns
	case IsMatrix(recs):
		m, err := NewMatrix(recs)
		if err != nil {
			return nil, err
		}
		return m.Document(), nil
	case err != nil:
		return nil, err
	case speed != nil:
		return speed.document(), nil
	}
	return runsDocument(recs)
}

// JSON writes the report as JSON; for runs one by one that is their summaries, without
// the figures of the other formats.
func JSON(w io.Writer, recs []result.Record) error {
	if speed := func(r result.Record) bool { return r.Run.Speed != nil }; len(recs) > 0 && !IsMatrix(recs) && !slices.ContainsFunc(recs, speed) {
		return writeJSON(w, summaries(recs))
	}
	d, err := New(recs)
	if err != nil {
		return err
	}
	return d.JSON(w)
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
