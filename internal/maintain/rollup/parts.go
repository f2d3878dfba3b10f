package rollup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Triggers note every row that statements change in a table with exact = true. They don't see what replaces or empties a
// partition. So the identities of the partitions are recorded before their buckets are computed. Once a partition has another one, none of its
// buckets is exact; the next refresh records the new one, and marks them stale in the same transaction.

// names returns those of partitions.
func names(parts []rolling.Partition) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = p.Name
	}
	return out
}

// recorded returns the recorded partitions; ok is false if they can't be recorded.
func (s *Set) recorded(ctx context.Context) (p *state.Parts, ok bool, err error) {
	p, err = s.st.Parts(ctx, s.table.Name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, false, nil
	}
	return p, true, err
}

// identify records the partitions of the table, and marks the computed buckets of those stale that aren't the recorded ones.
func (w *worker) identify(ctx context.Context) error {
	db, ok := w.db.(engine.PartIdentifier)
	if !ok {
		return nil
	}
	fail := func(err error) error {
		return fmt.Errorf("compare the partitions of %s with those of its roll-ups: %w", w.table.Name, err)
	}
	was, ok, err := w.recorded(ctx)
	if err != nil || !ok { // apply creates the table of them
		return err
	}
	if !w.declared.Exact { // from now on changes are missed
		if was == nil {
			return nil
		}
		return w.tx(ctx, func(tx *transaction) error { return w.st.ForgetParts(ctx, tx, w.table.Name) })
	}
	parts, err := w.db.Catalog().Partitions(ctx, w.table)
	if err != nil {
		return fail(err)
	}
	now, err := db.PartIdentities(ctx, nil, "", w.table.Name, names(parts))
	if err != nil {
		return fail(err)
	}
	if now.Why != "" {
		return nil // the recorded ones stay, and are compared by queries
	}
	var written map[string]int64
	if was == nil {
		was = &state.Parts{}
	} else if now.Alters != "" && now.Alters != was.Alters {
		if written, err = db.PartsWritten(ctx, "", w.table.Name); err != nil {
			return fail(err)
		}
	}
	put := map[string]string{}
	var changed []rolling.Period
	var gone []string
	for _, p := range parts {
		id := now.IDs[p.Name]
		switch same := was.IDs[p.Name] == id && id != ""; {
		case same && !later(written[p.Name], was.At):
			continue
		case id == "": // its storage engine has none: queries don't read its buckets
			if was.IDs[p.Name] != "" {
				gone = append(gone, p.Name)
			}
			continue
		default:
			put[p.Name] = id
		}
		changed = append(changed, p.Period)
	}
	for name := range was.IDs {
		if !slices.ContainsFunc(parts, func(p rolling.Partition) bool { return p.Name == name }) {
			gone = append(gone, name)
		}
	}
	at, alters := now.Now, now.Alters
	if alters == "" && was.IDs != nil { // it is no proof, so that the last one stays
		at, alters = was.At, was.Alters
	}
	if len(put)+len(gone) == 0 && alters == was.Alters && at-was.At < comparedEvery && was.IDs != nil {
		return nil
	}
	err = w.tx(ctx, func(tx *transaction) error {
		computed := rolling.Period{From: w.table.Grid.Bounds().From, To: w.table.Grid.Bounds().From}
		for _, m := range tx.marks {
			computed.To = max(computed.To, m.watermark)
		}
		for _, p := range changed {
			if p.From >= computed.To {
				continue
			}
			if err := w.st.Touch(ctx, tx, w.table.Name, "another partition", p); err != nil {
				return err
			}
		}
		return w.st.PutParts(ctx, tx, w.table.Name, put, gone, alters, at)
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// Compare notes that rows of partitions have changed which may have left the table and have come back. It is for the moment before a change of the
// table's definition, after which the server may not know it any more.
func (s *Set) Compare(ctx context.Context) error {
	db, ok := s.db.(engine.PartIdentifier)
	if !ok || !s.declared.Exact || len(s.levels) == 0 {
		return nil
	}
	fail := func(err error) error {
		return fmt.Errorf("compare the partitions of %s with those of its roll-ups: %w", s.table.Name, err)
	}
	was, ok, err := s.recorded(ctx)
	if err != nil || !ok || was == nil {
		return err
	}
	parts, err := s.db.Catalog().Partitions(ctx, s.table)
	if err != nil {
		return fail(err)
	}
	now, err := db.PartIdentities(ctx, nil, "", s.table.Name, names(parts))
	if err != nil || now.Why != "" || now.Alters != "" && now.Alters == was.Alters {
		return err
	}
	written, err := db.PartsWritten(ctx, "", s.table.Name)
	if err != nil {
		return fail(err)
	}
	for _, p := range parts {
		if now.IDs[p.Name] == was.IDs[p.Name] && later(written[p.Name], was.At) {
			if err := s.st.Touch(ctx, s.db.SQL(), s.table.Name, "a partition that may have left the table", p.Period); err != nil {
				return fail(err)
			}
		}
	}
	return nil
}

// comparedEvery is how often the time of a comparison without a difference is recorded, in microseconds.
const comparedEvery = 1_000_000

// later reports whether a commit may have been after a comparison. Their times have the resolution of seconds; 0 is not known.
func later(written, at int64) bool { return written != 0 && written >= at }

// exactParts fills in Changed and Same of t, and its Why if no partition is known to be the one of which the roll-ups have the rows.
func (s *Set) exactParts(ctx context.Context, t *engine.RolledTable) error {
	db, ok := s.db.(engine.PartIdentifier)
	if !ok {
		return nil
	}
	was, ok, err := s.recorded(ctx)
	switch {
	case err != nil:
		return err
	case !ok:
		t.Why = "an earlier version has not recorded of which partitions they have the rows: run rowmill apply, and then rowmill run"
		return nil
	case was == nil:
		t.Why = "it isn't recorded yet of which partitions they have the rows: rowmill run does it"
		return nil
	}
	differing := func(ctx context.Context, session *engine.Session, database string, parts []string) (list []string, why string, err error) {
		now, err := db.PartIdentities(ctx, session, database, s.table.Name, parts)
		if err != nil {
			return nil, "", err
		}
		if now.Why != "" {
			return nil, now.Why, nil
		}
		var written map[string]int64
		if now.Alters == "" || now.Alters != was.Alters {
			if written, err = db.PartsWritten(ctx, database, s.table.Name); err != nil {
				return nil, "", err
			}
		}
		for _, name := range parts {
			if id := now.IDs[name]; id == "" || id != was.IDs[name] || later(written[name], was.At) {
				list = append(list, name)
			}
		}
		return list, "", nil
	}
	t.Changed, t.Why, err = differing(ctx, nil, "", names(t.Periods))
	t.Same = func(ctx context.Context, session *engine.Session, database string, periods []string) (why string, err error) {
		list, why, err := differing(ctx, session, database, periods)
		if err == nil && len(list) > 0 {
			why = "partition " + list[0] + " isn't the one of which the roll-ups have the rows"
		}
		return why, err
	}
	return err
}
