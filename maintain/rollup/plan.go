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
// that are there and that it would change. It refuses what Create would refuse:
// changes that would give a table rows of two kinds, and tables that are no
// roll-ups. Nothing is changed.
func (s *Set) Changes(ctx context.Context) (made, changed []string, err error) {
	for _, l := range s.levels {
		isNew, differs, err := s.planned(ctx, l)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("create roll-up %s: %w", l.Name, err)
		case isNew:
			made = append(made, l.Name)
		case differs:
			changed = append(changed, l.Name)
		}
	}
	return made, changed, nil
}

// planned tells whether a level isn't there yet, and whether it is there and
// differs from what is declared.
func (s *Set) planned(ctx context.Context, l *level) (isNew, differs bool, err error) {
	have, err := s.spec(ctx, l)
	if errors.Is(err, engine.ErrNoTable) {
		have, err = nil, nil
	}
	if err != nil {
		return false, false, err
	}
	want := s.specOf(l)
	if err := fits(have, want); err != nil {
		return false, false, err
	}
	there, err := s.levelTable(ctx, l)
	if err != nil || there == nil || have == nil {
		return err == nil, false, err
	}
	if have.View != want.View || !maps.Equal(have.Columns, want.Columns) {
		return false, true, nil
	}
	live, err := s.exists(ctx, l.view())
	return false, !live, err
}
