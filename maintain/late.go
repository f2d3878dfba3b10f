package maintain

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
	"github.com/rowmill/rowmill/state"
)

// lateTriggers are those that refuse rows whose period is sealed; none where
// late rows are let in.
func (t *Table) lateTriggers(ctx context.Context) ([]engine.Trigger, engine.LateWords, error) {
	words, ok := t.DB.Words().(engine.LateWords)
	if !ok {
		return nil, nil, fmt.Errorf("table %s: %s can't refuse late rows", t.Table.Name, t.DB.Info().Engine)
	}
	var periods []string
	if t.Schema != nil && t.Schema.View {
		parts, err := t.DB.Catalog().Partitions(ctx, t.Table)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range parts {
			periods = append(periods, t.Table.Name+"_"+p.Name)
		}
	}
	name := "'" + strings.ReplaceAll(t.Table.Name, "'", "''") + "'"
	return words.Refuse(t.Table, periods, "(SELECT MAX(sealed_to) FROM rowmill_tables WHERE name = "+name+")"), words, nil
}

// refuseLate makes the triggers that the declaration asks for and the table
// lacks, and removes those that it doesn't ask for.
func (t *Table) refuseLate(ctx context.Context) error {
	statements, err := t.lateStatements(ctx)
	if err != nil {
		return err
	}
	for _, q := range statements {
		if _, err := t.DB.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("triggers that refuse late rows of %s: %w", t.Table.Name, t.DB.Classify(err))
		}
	}
	return nil
}

// lateStatements are what refuseLate runs.
func (t *Table) lateStatements(ctx context.Context) ([]string, error) {
	if t.Schema == nil {
		return nil, nil
	}
	triggers, words, err := t.lateTriggers(ctx)
	if err != nil {
		return nil, err
	}
	return engine.ChangeTriggers(ctx, t.DB, words.HaveTriggers(), triggers, t.Declared.Late == rolling.LateReject)
}

// sealedTo notes up to where every period is sealed, which is where rows are
// refused below.
func (t *Table) sealedTo(ctx context.Context, x state.Exec, sealed rolling.Partition) error {
	if t.Declared.Late != rolling.LateReject {
		return nil
	}
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	var to int64
	for _, p := range v.Parts {
		if p.From != sealed.From && v.known(p) == nil {
			break
		}
		to = p.To
	}
	if to == 0 {
		return nil
	}
	return t.State.SealedTo(ctx, x, t.Table.Name, to)
}
