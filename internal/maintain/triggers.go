package maintain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A guard creates the triggers that note or refuse rows, and finds missing ones.
type guard struct{ *table }

func (t *Table) guard() guard { return guard{t} }

// Names of the triggers in plans and status.
const (
	LateTriggersText  = "the triggers that refuse late rows"
	ExactTriggersText = "the triggers of exact roll-ups"
)

// triggerState returns which declared triggers are missing, and which are old: another version of
// rowmill or another declaration made them, and apply would replace them.
func (t guard) triggerState(ctx context.Context) (missing, old []string, err error) {
	read := func(name string, change func(context.Context) (engine.TriggerChange, error)) {
		if err != nil {
			return
		}
		var c engine.TriggerChange
		c, err = change(ctx)
		if c.Missing > c.Hidden {
			missing = append(missing, name)
		}
		if c.Old > 0 {
			old = append(old, name)
		}
	}
	// Look twice if some are missing: their period may have been dropped during the first look.
	for try := 0; try == 0 || try == 1 && err == nil && len(missing) > 0; try++ {
		missing, old = nil, nil
		if t.Declared.Late == rolling.LateReject {
			read(LateTriggersText, t.LateChange)
		}
		if t.Rollups != nil && t.Declared.Exact {
			read(ExactTriggersText, t.Rollups.TriggerChange)
		}
	}
	return missing, old, err
}

// missed describes missing triggers and the consequence.
func missed(names []string) string {
	return strings.Join(names, ", and ") + " are missing: rows are neither refused nor counted as declared"
}

// MissingTriggers returns an error of class ErrTriggers if declared triggers are missing. It
// ignores triggers of periods, which the next pass creates.
func (t *Table) MissingTriggers(ctx context.Context) error {
	if t.Schema == nil || t.Schema.View {
		return nil
	}
	missing, _, err := t.guard().triggerState(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	return engine.Hinted(engine.Classed(ErrTriggers, fmt.Errorf("table %s: %s", t.Declared.Name, missed(missing))), "rowmill apply %s, which creates them", t.Declared.Source)
}

// ErrTriggers means that declared triggers are missing. Maintenance continues
// without them: a table without new periods would be worse.
var ErrTriggers = errors.New("triggers are missing")

// LateTriggers returns the triggers that reject rows of sealed periods.
func (t *Table) LateTriggers(ctx context.Context) ([]engine.Trigger, engine.LateWords, error) {
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
	return words.Refuse(t.Table, periods, "(SELECT MAX(sealed_to) FROM rowmill_tables WHERE name = "+SQLText(t.Table.Name)+")"), words, nil
}

// RefuseLate creates or drops the triggers of LateTriggers, as declared.
func (t *Table) RefuseLate(ctx context.Context) error {
	change, err := t.LateChange(ctx)
	if err != nil || len(change.SQL) == 0 {
		return err
	}
	if err := t.ExecTogether(ctx, change.SQL); err != nil {
		return fmt.Errorf("triggers that refuse late rows of %s: %w", t.Table.Name, err)
	}
	return nil
}

// LateChange returns the change that makes the triggers of LateTriggers match the declaration.
func (t *Table) LateChange(ctx context.Context) (engine.TriggerChange, error) {
	if t.Schema == nil {
		return engine.TriggerChange{}, nil
	}
	triggers, words, err := t.LateTriggers(ctx)
	if err != nil {
		return engine.TriggerChange{}, err
	}
	return engine.ChangeTriggers(ctx, t.DB, words.HaveTriggers, t.Table.Name, triggers, t.Declared.Late == rolling.LateReject)
}

// sealedTo records the end of the longest run of sealed periods from the first one on. The triggers
// reject rows below that end.
func (t guard) sealedTo(ctx context.Context, x state.Exec, sealed rolling.Partition) error {
	if t.Declared.Late != rolling.LateReject {
		return nil
	}
	v, err := t.View(ctx)
	if err != nil {
		return err
	}
	var to int64
	for _, p := range v.Parts {
		if p.From != sealed.From && v.Record(p) == nil {
			break
		}
		to = p.To
	}
	if to == 0 {
		return nil
	}
	return t.State.SealedTo(ctx, x, t.Table.Name, to)
}

// missedTriggers creates missing triggers of periods: a process may have been killed right after it
// created a period. The first time after a change of declaration, it creates all triggers of
// periods.
func (t guard) missedTriggers(ctx context.Context) error {
	missed, err := t.triggersMissed(ctx)
	if err != nil || !missed {
		return err
	}
	t.passed.Store(&t.mark)
	return t.triggers(ctx)
}

// triggersMissed reports whether missedTriggers has work.
func (t guard) triggersMissed(ctx context.Context) (bool, error) {
	if !t.Schema.View {
		return false, nil
	}
	if was := t.passed.Load(); was == nil || *was != t.mark {
		return true, nil
	}
	missing, _, err := t.triggerState(ctx)
	return len(missing) > 0, err
}

// triggers creates the triggers of new periods, if triggers belong to periods.
func (t guard) triggers(ctx context.Context) error {
	if !t.Schema.View {
		return nil
	}
	if t.Rollups != nil && t.Declared.Exact {
		if err := t.Rollups.Create(ctx); err != nil {
			return err
		}
	}
	if t.Declared.Late == rolling.LateReject {
		return t.RefuseLate(ctx)
	}
	return nil
}

// SQLText returns a name as a literal in SQL.
func SQLText(name string) string { return "'" + strings.ReplaceAll(name, "'", "''") + "'" }
