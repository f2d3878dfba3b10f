package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// lookFor limits how long to look for rows that were loaded earlier. The last query may exceed it.
const lookFor = 10 * time.Second

// A finding is the result of looking for rows that were loaded earlier.
type finding struct {
	// missing rows are not in the table; gone rows were in periods that the table does not have.
	missing, gone int64
	// unlooked is the reason why not all rows were looked for, "" if all were.
	unlooked string
	// found are the extents, reduced to the rows found.
	found []state.Extent
}

// wanted returns how many rows the table must have in an extent, so that none is missing.
func wanted(e state.Extent) int64 { return max(e.Rows, 1) }

// look counts the table's rows in each extent, beginning with the newest extent. In an extent, it
// counts no further than the number of rows that were inserted there. Rows in periods that were or
// are being dropped are not missing: retention removes whole periods.
func (l *fileLoad) look(ctx context.Context, all []state.Extent) (finding, error) {
	f := finding{found: slices.Clone(all)}
	p, err := l.present(ctx)
	if err != nil {
		return f, err
	}
	began := time.Now()
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		if !p.has(e.Period) {
			f.gone += wanted(e)
			continue
		}
		if time.Since(began) >= lookFor {
			f.unlooked = fmt.Sprintf("counting them takes longer than %s", lookFor)
			break
		}
		var n int64
		for range lookTries { // periods may be dropped or merged during the count
			if n, err = l.rowsIn(ctx, p, e); err == nil && n >= wanted(e) {
				break
			}
			var lookErr error
			if p, lookErr = l.present(ctx); lookErr != nil {
				return f, lookErr
			}
			if err == nil || !p.has(e.Period) {
				break
			}
		}
		switch {
		case !p.has(e.Period):
			f.gone += wanted(e)
		case err != nil:
			return f, err
		case n < wanted(e):
			f.missing += wanted(e) - n
			f.found[i].Rows = n
			if n == 0 {
				f.found[i].Period = rolling.Period{}
			}
		}
	}
	if f.missing > 0 && p.changing != "" { // rows may lie in a table of the change
		return finding{gone: f.gone, unlooked: p.changing + " is under way", found: all}, nil
	}
	f.found = slices.DeleteFunc(f.found, func(e state.Extent) bool { return e.Period == rolling.Period{} })
	return f, nil
}

// recordedRows returns the extents of the rows of earlier loads: those in settledIn, those of
// batches in the ledger, and those of publications.
func (l *fileLoad) recordedRows() []state.Extent {
	all := slices.Clone(l.settledIn)
	for _, b := range l.noted {
		all = append(all, lane.ExtentsOf(b)...)
	}
	for _, p := range l.published {
		all = append(all, p.Extents()...)
	}
	return lane.Merged(l.opt.Table.Grid, all)
}

func (l *fileLoad) lookBack(ctx context.Context) error {
	if l.looked { // this load has looked already, before it lost a lock
		return nil
	}
	f, err := l.look(ctx, l.recordedRows())
	if err != nil {
		return err
	}
	r, s := &l.Result, l.Source
	l.looked = true
	known := l.known()
	accepted := known.Sent - known.Rejected // rows that may be there, whoever inserted them
	r.LoadedAt, r.Missing, r.Gone, r.Unlooked = s.At, min(f.missing, accepted), f.gone, f.unlooked
	if r.Missing > 0 && l.opt.AcceptMissing && len(l.cuts) == 0 {
		l.settledIn = f.found
		l.Say("%s: %s not in the table and no longer looked for", s.Path, figure.Plural(r.Missing, "loaded row is", "loaded rows are"))
		l.accepted, r.Missing = true, 0
		return l.Retry(ctx, func() error { return l.State.PutExtents(ctx, s, l.toStore(l.settledIn)) })
	}
	return nil
}

// forget makes a loaded file new again, unless its rows would then be in the table twice.
func (l *fileLoad) forget(ctx context.Context, t *format.Target) error {
	s := l.Source
	if s.Started.IsZero() {
		return nil
	}
	there, err := l.stillThere(ctx, !t.HasKey(l.opt.Schema))
	if err != nil {
		return err
	}
	if err := l.Retry(ctx, func() error { return l.State.ForgetSource(ctx, s, there) }); err != nil {
		return err
	}
	l.settledIn, l.accepted, l.cuts, l.noted, l.published = there, false, nil, nil, nil
	if l.opt.Again {
		l.Say("%s was loaded on %s: it is loaded again", s.Path, minute(s.At))
	}
	// Keep the key, because it is locked.
	l.Source = &state.Source{Table: s.Table, Path: s.Path, Kind: s.Kind, Key: s.Key}
	return nil
}

// stillThere returns the extents of the file's rows that are in the table; nil if not all rows
// could be looked for. If none is set, none of these rows may be in the table: stillThere returns
// an error if one is, or if it can't tell.
func (l *fileLoad) stillThere(ctx context.Context, none bool) ([]state.Extent, error) {
	all, rows := l.recordedRows(), int64(0)
	for _, e := range all {
		rows += wanted(e)
	}
	f, err := l.look(ctx, all)
	if err != nil {
		return nil, err
	}
	whole := f.unlooked == "" && (len(all) > 0 || l.accepted || l.Source.Inserted+l.Source.Updated+l.Source.Duplicate == 0)
	if none && (!whole || f.missing+f.gone < rows) {
		return nil, engine.Hinted(fmt.Errorf("table %s has no key without NULL of which the source has all columns: rows of it that are in the table would be there twice", l.opt.Table.Name),
			"DELETE the rows of the file first; then --again loads all of it")
	}
	if !whole {
		return nil, nil
	}
	return f.found, nil
}

func (l *fileLoad) toStore(all []state.Extent) []state.Extent {
	if len(all) == 0 && l.accepted {
		return []state.Extent{state.Accepted}
	}
	return all
}

// extents returns where the rows of completed loads of the source lie. It also sets l.accepted.
func (l *fileLoad) extents(ctx context.Context) (all []state.Extent, err error) {
	all, err = lane.Retried(ctx, l.Load, func() ([]state.Extent, error) { return l.State.Extents(ctx, l.Source.Table, l.Source.Key) })
	l.accepted = slices.Contains(all, state.Accepted)
	return slices.DeleteFunc(all, func(e state.Extent) bool { return e.To <= state.Accepted.To }), err
}

const lookTries = 3

// A presence is a table's periods, and the periods that were dropped or are being dropped. changing
// is the ID of a change other than a drop that isn't completed; "" if there is none.
type presence struct {
	parts    []rolling.Partition
	gone     []rolling.Period
	changing string
}

func (l *fileLoad) present(ctx context.Context) (p presence, err error) {
	name := l.opt.Table.Name
	// Changes are read before the catalog: after a drop that isn't among them, the period is gone.
	err = l.Retry(ctx, func() error {
		p = presence{}
		changes, err := l.State.Changes(ctx, name)
		if err != nil {
			return err
		}
		for i := range changes {
			if part, is := changes[i].Drops(); is {
				p.gone = append(p.gone, part.Period)
			} else {
				p.changing = changes[i].ID
			}
		}
		known, err := l.State.Periods(ctx, name)
		if err != nil {
			return err
		}
		for _, k := range known {
			if k.State == state.Dropped {
				p.gone = append(p.gone, k.Period)
			}
		}
		p.parts, err = l.opt.DB.Catalog().Partitions(ctx, l.opt.Table)
		return err
	})
	return p, err
}

// has reports whether the table has all periods of a range.
func (p presence) has(r rolling.Period) bool {
	if slices.ContainsFunc(p.gone, r.Overlaps) {
		return false
	}
	for at := r.From; at < r.To; {
		i := rolling.Find(p.parts, at)
		if i < 0 {
			return false
		}
		at = p.parts[i].To
	}
	return true
}

func (l *fileLoad) rowsIn(ctx context.Context, p presence, e state.Extent) (int64, error) {
	t, w, by := l.opt.Table, l.opt.DB.Words(), l.opt.DB.Dialect().Quote(l.opt.Table.By)
	n := int64(0)
	for _, part := range p.parts {
		if n >= wanted(e) || !part.Overlaps(e.Period) {
			continue
		}
		// Because of the condition, the server reads only this partition of a table. Naming the
		// partition would need a privilege. In a view the condition has no such effect, so the query
		// names the partition's own table.
		from := l.opt.DB.Dialect().Quote(t.Name)
		if l.opt.Schema.View {
			from = w.From(t, part)
		}
		q := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s WHERE %s >= %s AND %s < %s LIMIT %d) AS r",
			from, by, w.Literal(t, max(part.From, e.From)), by, w.Literal(t, min(part.To, e.To)), wanted(e)-n)
		var some int64
		err := l.Retry(ctx, func() error { return l.opt.DB.Classify(l.State.DB().QueryRowContext(ctx, q).Scan(&some)) })
		if err != nil {
			return 0, fmt.Errorf("count rows of %s: %w", t.Name, err)
		}
		n += some
	}
	return n, nil
}
