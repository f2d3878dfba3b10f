package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

// reportMatrix writes the reports and compares with the baseline. ended is the error
// that ended the runs, or nil.
func (a *app) reportMatrix(f *matrixFlags, recs []result.Record, ended error) error {
	m, err := report.NewMatrix(recs)
	if err != nil {
		return errors.Join(ended, err)
	}
	if f.baselineRecs != nil {
		old, err := report.NewMatrix(f.baselineRecs)
		if err != nil {
			return errors.Join(ended, err)
		}
		if m.Baseline, err = m.Against(old); err != nil {
			ended, m.Baseline = errors.Join(ended, err), nil
		}
	}
	taken := f.reports.json
	for _, o := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.reports.html, m.HTML},
		{f.reports.png, func(w io.Writer) error { return m.PNG(w, report.PNGOptions{}) }},
		{f.reports.md, m.Markdown},
	} {
		if o.path == "" {
			continue
		}
		taken = taken || o.path == "-"
		if err := a.writeOutput(o.path, o.write); err != nil {
			return errors.Join(ended, err)
		}
	}
	switch {
	case f.reports.json:
		err = m.JSON(a.stdout)
	case !taken:
		err = m.Text(a.stdout)
	}
	if ended != nil || err != nil {
		return errors.Join(ended, err)
	}
	if m.Baseline != nil {
		if err := judgeMatrix(m.Baseline, f.threshold); err != nil {
			return err
		}
	}
	failed := 0
	for _, c := range m.Cells {
		failed += len(c.Failures)
	}
	if failed > 0 {
		return engine.Hinted(fmt.Errorf("%d of %s failed; the others are reported", failed, plural(m.Asked, "run")), "--resume %s --retry-failed", cmp.Or(f.resume, f.out, "RUN.jsonl"))
	}
	return nil
}

// compareMatrices compares each cell of two matrices.
func (a *app) compareMatrices(f compareFlags, before, after []result.Record) error {
	old, err := report.NewMatrix(before)
	if err != nil {
		return err
	}
	m, err := report.NewMatrix(after)
	if err != nil {
		return err
	}
	c, err := m.Against(old)
	if err != nil {
		return err
	}
	write := c.Text
	if f.json {
		write = c.JSON
	}
	if err := write(a.stdout); err != nil {
		return err
	}
	return judgeMatrix(c, f.threshold)
}

// judgeMatrix applies the threshold.
func judgeMatrix(c *report.MatrixComparison, threshold float64) error {
	if threshold < 0 {
		return nil
	}
	slower, overall, told := c.Regressions(threshold)
	limit := fractionValue{&threshold}
	switch {
	case overall:
		return &regressionError{fmt.Sprintf("all cells together insert at %.3f of the rate of %s, more than %s slower", *c.Overall, c.A, limit)}
	case len(slower) > 0:
		text := fmt.Sprintf("%s inserts at %.3f of the rate in %s, more than %s slower", slower[0].Name, *slower[0].RowsPerSecond.Ratio, c.A, limit)
		if len(slower) > 1 {
			text += fmt.Sprintf(", and %d more cells", len(slower)-1)
		}
		return &regressionError{text}
	case !told:
		return engine.Hinted(errors.New("--threshold: single cells can't be judged, because none was run twice"), "--repeat 3")
	}
	return nil
}
