// Package report renders run records: as text, Markdown, JSON, one self-contained HTML
// file, or a PNG picture. It also renders comparisons, and the progress of a benchmark.
//
// Reports need only the record. So a record of another machine, of a failed run or of a killed run
// can be reported, too. Nothing here opens a database or a file.
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
	"errors"
	"io"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/reference"
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
	// Scenarios compare the runs with the published results that they repeat.
	Scenarios []reference.Result `json:"scenarios,omitempty"`
	// Grid has the cells of an experiment with several factors, e.g. of bench mixed.
	Grid *Grid `json:"grid,omitempty"`
	// SettingsToTry are server settings derived from the jobs of bench disk.
	SettingsToTry []result.DiskSetting `json:"settings_to_try,omitempty"`
}

// An experiment is the analysis of one family's records, ready to be reported and compared.
type experiment interface {
	Document() *document.Document
	// side returns the cells to compare with another experiment.
	side() gridSide
}

// A family is a kind of experiment, e.g. bench tpcc.
type family struct {
	// name is what messages call the records. alone means that the records can't be in one report with
	// those of other families. has reports whether r belongs to the family.
	name   string
	alone  bool
	has    func(r *result.Record, first *result.Record) bool
	layOut func(recs []result.Record) (experiment, error)
}

// families returns the families. A record that belongs to no other family belongs to runsFamily.
func families() []family {
	of := func(has func(r *result.Run) bool) func(r, _ *result.Record) bool {
		return func(r, _ *result.Record) bool { return has(&r.Run) }
	}
	return []family{
		{"partition scans", true, of(func(r *result.Run) bool { return r.Scan != nil }), scans},
		{"runs of a hot row", true, of(func(r *result.Run) bool { return r.HotRow != nil }), hotRows},
		{"runs of many tables", true, of(func(r *result.Run) bool { return r.Tables != nil }), manyTables},
		{"jobs of a disk", true, of(func(r *result.Run) bool { return r.Disk != nil }), disks},
		{"runs of bench tpcc", true, of(func(r *result.Run) bool { return r.TPCC != nil }), tpccRuns},
		{"cells of a speed test", true, of(func(r *result.Run) bool { return r.Speed != nil }), speedTest},
		{"cells of a matrix", false, ofMatrix, func(recs []result.Record) (experiment, error) { return NewMatrix(recs) }},
		runsFamily,
	}
}

// runsFamily has the runs that are reported one by one, and compared at equal row counts.
var runsFamily = family{"runs", false, func(_, _ *result.Record) bool { return true }, func(recs []result.Record) (experiment, error) { return runs(recs), nil }}

// familyOf returns the family of the records, for all formats and comparisons.
func familyOf(recs []result.Record) (family, error) {
	for _, f := range families() {
		n := 0
		for i := range recs {
			if f.has(&recs[i], &recs[0]) {
				n++
			}
		}
		switch {
		case n > 0 && n == len(recs):
			return f, nil
		case n > 0 && f.alone:
			return f, errors.New("report: some of these runs are " + f.name + " and others are not; report them apart")
		}
	}
	return family{}, errNoRuns
}

// New builds the report of the runs of one family: the results in sentences, the doubts about them,
// and the figures.
func New(recs []result.Record) (*document.Document, error) {
	f, err := familyOf(recs)
	if err != nil {
		return nil, err
	}
	x, err := f.layOut(recs)
	if err != nil {
		return nil, err
	}
	return x.Document(), nil
}

// JSON writes the report as JSON.
func JSON(w io.Writer, recs []result.Record) error {
	d, err := New(recs)
	if err != nil {
		return err
	}
	return d.JSON(w)
}
