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
	"path/filepath"
	"slices"
	"strings"

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

// JSON writes the runs' summaries as indented JSON.
func JSON(w io.Writer, recs []result.Record) error {
	if all, err := wholeOf(recs); err != nil {
		return err
	} else if all != nil {
		return all.JSON(w)
	}
	if len(recs) == 0 {
		return errNoRuns
	}
	out := Summaries{Format: result.SummaryFormat, Runs: make([]result.Summary, len(recs)), Capacity: result.Capacities(recs)}
	for i := range recs {
		out.Runs[i] = recs[i].Summary()
	}
	out.Scenarios = Scenarios(recs)
	return writeJSON(w, out)
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

// A view is one run with everything that the reports derive from it, so that each
// figure is derived only once.
type view struct {
	rec   *result.Record
	sum   result.Summary
	curve result.Curve
	loop  *result.OpenLoop // nil for a closed loop
	// stalled are the run's stalls, in chronological order.
	stalled []result.Stall
	// label distinguishes the run from the others of the same report.
	label string
	// repeats are the indexes, in the report, of the runs of the same configuration;
	// nil if there is only one. minor is true for all of them except the run of
	// median rate, which represents them.
	repeats []int
	minor   bool
}

func views(recs []result.Record) ([]view, error) {
	if len(recs) == 0 {
		return nil, errNoRuns
	}
	recs = charted(recs)
	out := make([]view, len(recs))
	names := labels(recs)
	for i := range recs {
		r := &recs[i]
		out[i] = view{rec: r, sum: r.Summary(), curve: r.Curve(), loop: r.OpenLoop(), stalled: r.Stalls(), label: names[i]}
		if r.Run.Step != nil && r.Run.Rate > 0 {
			out[i].sum.Knee = nil // a step at a fixed rate is too short for a meaningful knee
		}
	}
	bundles(out, recs)
	return out, nil
}

// labels returns the shortest names that distinguish the runs: the scenario's, the
// layout, the run's name, the name with its file, or those with a number.
func labels(recs []result.Record) []string {
	number := 0
	for _, name := range []func(r *result.Record) string{
		func(r *result.Record) string {
			if r.Run.Scenario == nil {
				return ""
			}
			return r.Run.Scenario.Run
		},
		func(r *result.Record) string { return stepName(&r.Run) },
		func(r *result.Record) string { return r.Run.Layout },
		func(r *result.Record) string {
			if r.Run.Repeat == 0 {
				return ""
			}
			return strings.TrimSpace(fmt.Sprintf("%s %s #%d", r.Run.Side, r.Run.Layout, r.Run.Repeat))
		},
		func(r *result.Record) string { return r.Run.Name },
		func(r *result.Record) string { return r.Run.Layout + " (" + filepath.Base(r.Source) + ")" },
		func(r *result.Record) string { return r.Run.Name + " (" + filepath.Base(r.Source) + ")" },
		func(r *result.Record) string { number++; return fmt.Sprintf("%s #%d", r.Run.Name, number) },
	} {
		out, seen := make([]string, len(recs)), map[string]bool{"": true}
		distinct := true
		for i := range recs {
			out[i] = name(&recs[i])
			distinct = distinct && !seen[out[i]]
			seen[out[i]] = true
		}
		if distinct {
			return out
		}
	}
	panic("report: numbered labels are distinct")
}

// incomplete describes why the run did not come to its end; empty if it did.
func (v *view) incomplete() string {
	end := v.rec.End
	switch {
	case end == nil:
		return "cut off: its record has no end, the figures cover what was written"
	case end.Failure != "":
		return "failed: " + end.Failure
	case end.Stopped == "failed":
		return "failed"
	case end.Stopped == "interrupted":
		return "interrupted"
	}
	return ""
}

// problems returns what a reader must know before any figure, worst first: how the
// run ended, whether its rows are verified, and the record's warnings.
func (v *view) problems() []problem {
	var out []problem
	if how := v.incomplete(); how != "" {
		out = append(out, problem{true, how})
	}
	switch c := v.sum.Verified; {
	case c != nil && !c.Sound():
		out = append(out, problem{true, "verification " + v.verified()})
	case c == nil && v.sum.Rows > 0 && v.whole() == "" && !saidWhy(v.sum.Warnings):
		out = append(out, problem{false, unverified})
	}
	for _, w := range v.sum.Warnings {
		// The first problem already covers this.
		if v.rec.End != nil || !strings.HasPrefix(w, "the run was cut off") {
			out = append(out, problem{v.overloaded() && strings.HasPrefix(w, "overload:"), w})
		}
	}
	return out
}

// unverified is the note for rows that were not read after the run.
const unverified = "not verified: the rows in the table were not compared with those sent"

// saidWhy reports whether a warning explains why rows are not verified.
func saidWhy(warnings []string) bool {
	return slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "not verified: ") })
}

// whole tells when the rows of a run that is part of a longer one are verified; ""
// if they are verified after the run itself.
func (v *view) whole() string {
	switch {
	case v.rec.Run.Search != nil:
		return "with all trials, after the last"
	case v.midway():
		return "with all steps, after the last"
	}
	return ""
}

// midway reports whether the run is a step that others follow, so that its rows are
// not verified yet.
func (v *view) midway() bool {
	s := v.rec.Run.Step
	return s != nil && s.Number < s.Of
}

// A problem is serious if the run's figures can't be taken at face value.
type problem struct {
	serious bool
	text    string
}
