package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
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

// Prove inserts so many rows of a table into private servers of a kind, with a finding and without.
func (e *Env) Prove(ctx context.Context, kind string, table *TableSpec, t *engine.Trial, rows int64) (*engine.Gain, error) {
	type side struct {
		params, layout string
		rates          *[]float64
	}
	g := &engine.Gain{}
	sides := []side{{t.Before, workload.Plain, &g.Before}, {t.After, workload.Plain, &g.After}}
	if t.Rolls {
		sides[1].layout = workload.Rolling
	}
	for round := range proveRounds {
		for i, of := range inTurn(sides, round) {
			s := &Spec{Workload: Insert, Targets: []string{fmt.Sprintf("sandbox:%s?memory=%d&%s", kind, engine.TrialMemory, of.params)}, Layouts: []string{of.layout}, Repeat: 1, Rows: rows,
				MaxTime: Duration(proveTime), Writers: proveWriters, Batch: proveBatch, Seed: 1, Interval: Duration(time.Second), NoVerify: true}
			err := s.SetTable(table, true)
			if err == nil {
				e.Show.Note(fmt.Sprintf("run %d of %d: %s, %s, at most %v", round*len(sides)+i+1, proveRounds*len(sides), s.Target(), of.layout, proveTime))
				err = e.proveRun(ctx, s, g, of.rates, t.Rolls)
			}
			if err != nil {
				return nil, fmt.Errorf("prove a finding: %w", err)
			}
		}
	}
	return g, nil
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
	g.Where = fmt.Sprintf("private %s %s with %s for pages", got.Engine, got.ServerVersion, figure.Bytes(int64(engine.TrialMemory)))
	return nil
}
