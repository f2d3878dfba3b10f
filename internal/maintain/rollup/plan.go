package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Taken rejects declared roll-ups whose name belongs to a table or view that is not
// a roll-up. It works without a table of raw rows, and so before anything is
// created.
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

// Changes returns the names of the roll-ups that Create would create, and of
// existing ones that it would change. It rejects the same as Create: changes that
// would give a table rows of two kinds, and tables that are not roll-ups. Nothing
// is changed.
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

// planned reports whether a level doesn't exist yet, and whether it exists and
// differs from its declaration.
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
