package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Taken refuses roll-ups of a declaration whose name a table or view has that is
// no roll-up. It needs no table of raw rows, so that it can be asked before
// anything is made.
func Taken(ctx context.Context, db engine.Keeper, d *rolling.Declaration) error {
	for _, r := range d.Rollups {
		there, err := db.Describe(ctx, r.Name)
		if errors.Is(err, engine.ErrNoTable) {
			continue
		}
		if err == nil && (there.View || there.Column(RawRows) == nil) {
			err = errTaken()
		}
		if err != nil {
			return fmt.Errorf("create roll-up %s: %w", r.Name, err)
		}
	}
	return nil
}

func errTaken() error {
	return engine.Hinted(errors.New("there is a table of that name that is no such roll-up"), "give the roll-up another name")
}

// Changes returns the names of the roll-ups that Create would make, and of those
// that are there and that it would change. Nothing is changed.
func (s *Set) Changes(ctx context.Context) (made, changed []string, err error) {
	for _, l := range s.levels {
		there, err := s.levelTable(ctx, l)
		if err != nil {
			return nil, nil, fmt.Errorf("create roll-up %s: %w", l.Name, err)
		}
		have, err := s.spec(ctx, l)
		if errors.Is(err, engine.ErrNoTable) {
			have, err = nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("create roll-up %s: %w", l.Name, err)
		}
		want := s.specOf(l)
		switch {
		case there == nil || have == nil:
			made = append(made, l.Name)
		case have.View != want.View || !maps.Equal(have.Columns, want.Columns):
			changed = append(changed, l.Name)
		default:
			live, err := s.exists(ctx, l.view())
			if err != nil {
				return nil, nil, fmt.Errorf("create roll-up %s: %w", l.Name, err)
			}
			if !live {
				changed = append(changed, l.Name)
			}
		}
	}
	return made, changed, nil
}
