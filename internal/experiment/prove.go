package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload"
)

const (
	// proveRounds is how often each side of a Trial is measured, in turn.
	proveRounds = 2
	// proveTime limits one run.
	proveTime    = time.Minute
	proveWriters = 2
	proveBatch   = 100
)

// Prove measures the gain of a change that a finding proposes: it inserts rows of a table into
// private servers of the given kind, some with the change and some without it.
func (e *Env) Prove(ctx context.Context, kind string, table *TableSpec, t *engine.Trial, rows int64) (*engine.Gain, error) {
	type side struct {
		params, layout, what string
		table                *TableSpec
		rates                *[]float64
		on                   *string
	}
	g := &engine.Gain{}
	sides := []side{{t.Before, workload.Plain, workload.Plain, table, &g.Before, &g.BeforeOn}, {t.After, workload.Plain, workload.Plain, table, &g.After, &g.AfterOn}}
	if t.Rolls {
		sides[1].layout, sides[1].what = workload.Rolling, workload.Rolling
	}
	if c := t.Ascending; c != "" {
		ascends, err := table.ascending(trialServer(kind, ""), c)
		if err != nil {
			return nil, fmt.Errorf("prove a finding: %w", err)
		}
		sides[0].what, sides[1].what, sides[1].table = c+" in no order", c+" ascending", ascends
	}
	for round := range proveRounds {
		for i, of := range inTurn(sides, round) {
			s := &Spec{Workload: Insert, Targets: []string{trialServer(kind, of.params)}, Layouts: []string{of.layout}, Repeat: 1, Rows: rows,
				MaxTime: Duration(proveTime), LoadSpec: LoadSpec{Writers: proveWriters, Batch: proveBatch, Seed: 1}, Interval: Duration(time.Second), NoVerify: true}
			*of.on = of.what + ", " + s.Target()
			err := s.SetTable(of.table, true)
			if err == nil {
				e.Show.Note(fmt.Sprintf("run %d of %d: %s, at most %v", round*len(sides)+i+1, proveRounds*len(sides), *of.on, proveTime))
				err = e.proveRun(ctx, s, g, of.rates, t.Rolls || t.Ascending != "")
			}
			if err != nil {
				return nil, fmt.Errorf("prove a finding: %w", err)
			}
		}
	}
	return g, nil
}

// trialServer is a private server with the parameters of one side of a Trial.
func trialServer(kind, params string) string {
	all := strings.Split(params, "&")
	if !slices.ContainsFunc(all, func(p string) bool { return strings.HasPrefix(p, "memory=") }) {
		all = append(all, engine.TrialPages(1))
	}
	return "sandbox:" + kind + "?" + strings.TrimPrefix(strings.Join(all, "&"), "&")
}

func (e *Env) proveRun(ctx context.Context, s *Spec, g *engine.Gain, rates *[]float64, last bool) error {
	recs, err := Run(ctx, e, s)
	if err != nil {
		return err
	}
	got := recs[0].Summary()
	rate := got.RowsPerSecond
	if last { // where the table is largest
		rate = got.Rate.Last
	}
	*rates = append(*rates, rate)
	g.Rows = max(g.Rows, got.Rows)
	return nil
}
