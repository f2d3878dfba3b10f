package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// attributes reads the attributes of a table, e.g. grants, comments and foreign keys.
func (m *mirror) attributes(ctx context.Context, table string) ([]engine.Attribute, error) {
	return engine.ReadAttributes(ctx, m.DB, m.sql, table)
}

// lacking returns the statements that give the target the attributes of the source: those in now
// can be executed at once, those in swap in the cut-over. It returns an error if the target can't
// be given an attribute. If created is false, the target doesn't exist yet, and the statements
// leave out attributes that its definition will give it.
func (m *mirror) lacking(ctx context.Context, created bool) (now, swap []string, err error) {
	want, err := m.attributes(ctx, m.Source.Name)
	if err != nil {
		return nil, nil, err
	}
	have, err := m.attributes(ctx, m.Target.Name)
	if err != nil {
		return nil, nil, err
	}
	return m.compared(want, have, created)
}

// staying returns an error if a table created like the source would lack some of its attributes.
func (m *mirror) staying(ctx context.Context) error {
	want, err := m.attributes(ctx, m.Source.Name)
	if err != nil {
		return err
	}
	have := slices.DeleteFunc(slices.Clone(want), func(a engine.Attribute) bool { return a.Kind == engine.Stays || a.Kind == engine.Refused })
	_, _, err = m.compared(want, have, true)
	return err
}

func (m *mirror) compared(want, have []engine.Attribute, created bool) (now, swap []string, err error) {
	within := func(list []engine.Attribute, what string) bool {
		return slices.ContainsFunc(list, func(a engine.Attribute) bool { return a.What == what })
	}
	on := func(name, text string) string { return strings.Replace(text, "{}", m.Quote(name), 1) }
	for _, a := range have {
		if a.Kind == engine.Copied && a.Undo != "" && !within(want, a.What) {
			now = append(now, on(m.Target.Name, a.Undo))
		}
	}
	var errs []error
	for _, a := range want {
		switch {
		case within(have, a.What), a.Kind == engine.Declared && !created:
		case m.Source.Rolls && (slices.Contains(m.data.Declared, a.What) || slices.Contains(m.liveViews(), strings.TrimPrefix(a.What, "view "))):
		case a.Kind == engine.Copied:
			now = append(now, on(m.Target.Name, a.Do))
		case a.Kind == engine.Moved:
			swap = append(swap, on(m.Target.Name, a.Do), on(m.Source.Name, a.Undo))
		case a.Kind == engine.Refused:
			errs = append(errs, engine.Hinted(errors.New(a.What), "%s", on(m.Source.Name, a.Do)))
		case a.Kind == engine.Declared && m.Source.Rolls:
			errs = append(errs, engine.Hinted(fmt.Errorf("%s would stay with %s", a.What, m.Aside), "give it to %s, too", m.Target.Name))
		default:
			errs = append(errs, engine.Hinted(fmt.Errorf("%s would stay with %s", a.What, m.Aside), "%s", on(m.Source.Name, a.Do)))
		}
	}
	return now, swap, errors.Join(errs...)
}

// carryOver gives the target the attributes of the source, and returns the statements for the
// cut-over. It may take several rounds, because one statement may undo another: to revoke a
// privilege on a table revokes it on the columns, too.
func (m *mirror) carryOver(ctx context.Context) (swap []string, err error) {
	for range 3 {
		now, swap, err := m.lacking(ctx, true)
		if err != nil || len(now) == 0 {
			return swap, err
		}
		if err := m.exec(ctx, now...); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s still lacks attributes of %s, such as grants, after they were copied", m.Target.Name, m.Source.Name)
}
