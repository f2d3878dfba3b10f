package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Names of the triggers in plans and status.
const (
	lateTriggers  = "the triggers that refuse late rows"
	exactTriggers = "the triggers of exact roll-ups"
)

// A triggerState lists declared triggers, by their names in plans and status.
type triggerState struct {
	// old would be replaced by apply: an earlier version or declaration made them.
	missing, old []string
}

// triggerState inspects the triggers. If some are missing it inspects them twice: a
// period with triggers of its own may have been dropped in between.
func (t *Table) triggerState(ctx context.Context) (triggerState, error) {
	out, err := t.readTriggers(ctx)
	if err == nil && len(out.missing) > 0 {
		out, err = t.readTriggers(ctx)
	}
	return out, err
}

func (t *Table) readTriggers(ctx context.Context) (out triggerState, err error) {
	note := func(name string, c engine.TriggerChange) {
		if c.Missing > c.Hidden {
			out.missing = append(out.missing, name)
		}
		if c.Old > 0 {
			out.old = append(out.old, name)
		}
	}
	if t.Declared.Late == rolling.LateReject {
		c, err := t.lateChange(ctx)
		if err != nil {
			return out, err
		}
		note(lateTriggers, c)
	}
	if t.Rollups != nil && t.Declared.Exact {
		c, err := t.Rollups.TriggerChange(ctx)
		if err != nil {
			return out, err
		}
		note(exactTriggers, c)
	}
	return out, nil
}

func (s triggerState) missed() string {
	return strings.Join(s.missing, ", and ") + " are missing: rows are neither refused nor counted as declared"
}

// MissingTriggers returns an error that wraps ErrTriggers if declared triggers are
// missing. If they belong to periods, a pass creates them.
func (t *Table) MissingTriggers(ctx context.Context) error {
	if t.Schema == nil || t.Schema.View {
		return nil
	}
	s, err := t.triggerState(ctx)
	if err != nil || len(s.missing) == 0 {
		return err
	}
	return engine.Hinted(engine.Classed(ErrTriggers, fmt.Errorf("table %s: %s", t.Declared.Name, s.missed())), "rowmill apply %s, which creates them", t.Declared.Source)
}

// ErrTriggers means that declared triggers are missing. Maintenance continues
// without them: a table without new periods would be worse.
var ErrTriggers = errors.New("triggers are missing")

// refusals returns the triggers that reject rows of sealed periods.
func (t *Table) refusals(ctx context.Context) ([]engine.Trigger, engine.LateWords, error) {
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

// refuseLate makes the table's triggers match the declaration.
func (t *Table) refuseLate(ctx context.Context) error {
	change, err := t.lateChange(ctx)
	if err != nil || len(change.SQL) == 0 {
		return err
	}
	err = t.inTx(ctx, func(tx *sql.Tx) error {
		for _, q := range change.SQL {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return t.DB.Classify(err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("triggers that refuse late rows of %s: %w", t.Table.Name, err)
	}
	return nil
}

func (t *Table) lateChange(ctx context.Context) (engine.TriggerChange, error) {
	if t.Schema == nil {
		return engine.TriggerChange{}, nil
	}
	triggers, words, err := t.refusals(ctx)
	if err != nil {
		return engine.TriggerChange{}, err
	}
	return engine.ChangeTriggers(ctx, t.DB, words.HaveTriggers, t.Table.Name, triggers, t.Declared.Late == rolling.LateReject)
}

// sealedTo records up to where every period is sealed: the triggers reject rows below.
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

// triggers creates the triggers of new periods, if triggers belong to periods.
func (t *Table) triggers(ctx context.Context) error {
	if !t.Schema.View {
		return nil
	}
	if t.Rollups != nil && t.Declared.Exact {
		if err := t.Rollups.Create(ctx); err != nil {
			return err
		}
	}
	if t.Declared.Late == rolling.LateReject {
		return t.refuseLate(ctx)
	}
	return nil
}
