package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A merging is the state of a publication into a period that already has rows. The table Rows gets
// the loaded rows. The table With gets the period's rows, and then the loaded rows whose keys the
// period lacks. Then With takes the place of the period.
type merging struct {
	// Rows is the table of the loaded rows; "" if the publication may not merge. Into means that the
	// period already had rows.
	Rows string `json:",omitempty"`
	Into bool   `json:",omitempty"`
	// Had is how many rows were copied from the period, and Sum their checksum.
	Had int64           `json:",omitempty"`
	Sum engine.Checksum `json:",omitzero"`
	// Sealed is the period's record if it was sealed.
	Sealed *state.Period `json:",omitempty"`
}

// aside returns the tables that are only needed until the period is replaced.
func (m *merging) aside() []string {
	if m.Rows == "" {
		return nil
	}
	return []string{m.Rows}
}

// staged returns the table that gets the rows of a publication.
func (d *publishing) staged() string {
	if d.Into {
		return d.Rows
	}
	return d.With
}

// Mergeable returns an error if rows can't be merged with the rows of a period.
func (t *Table) Mergeable(ctx context.Context, p rolling.Period) error {
	_, is := t.DB.Words().(engine.MergeWords)
	switch s := t.Schema; {
	case !is:
		return errors.New("only one client at a time writes to this database")
	case len(s.PrimaryKey) == 0:
		return errors.New("the table has no primary key")
	case len(s.Unique)+len(s.UniqueOther) > 0:
		return errors.New("the table has a unique key besides its primary key")
	}
	now, err := t.Now(ctx)
	if err != nil {
		return err
	}
	if p.To > now {
		return errors.New("it is not over")
	}
	_, err = t.rebuilder().sealedRecord(ctx, p)
	return err
}

// sealedRecord returns the record of a sealed period; nil if the period is open. If the period is
// archived or restored, it returns an error: no rows may be merged into it.
func (t rebuilder) sealedRecord(ctx context.Context, p rolling.Period) (*state.Period, error) {
	all, err := t.State.PeriodsFrom(ctx, t.Table.Name, p.From)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(k state.Period) bool { return k.Overlaps(p) })
	switch {
	case i < 0:
		return nil, nil
	case all[i].State != state.Sealed:
		return nil, fmt.Errorf("it is %s", all[i].State)
	}
	return &all[i], nil
}

// beginMerge decides whether the rows of a publication are merged with existing rows.
func (t rebuilder) beginMerge(ctx context.Context, d *publishing) (err error) {
	d.Into, d.Had, d.Sum = false, 0, engine.Checksum{}
	if !d.Merges {
		return nil
	}
	if d.Sealed, err = t.sealedRecord(ctx, d.Part.Period); err != nil {
		return fmt.Errorf("%w: %v", state.ErrFilled, err)
	}
	rows, err := t.publisher().rowsUpTo(ctx, d.Part, 1)
	d.Into = rows > 0
	return err
}

// merge fills the table that replaces the period, with the period's rows and those rows of the
// publication whose keys the period lacks. It removes the other rows from the publication's table.
func (t rebuilder) merge(ctx context.Context, d *publishing, columns []engine.Column) (err error) {
	db, isStager := t.DB.(engine.Stager)
	words, is := t.DB.Words().(engine.MergeWords)
	if !is || !isStager {
		return engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s merges no periods", t.DB.Info().Engine))
	}
	var names []string
	all := make([]engine.Column, 0, len(t.Schema.Columns))
	for _, c := range t.columns() {
		names, all = append(names, c.Name), append(all, engine.Column{Name: c.Name})
	}
	s, err := db.Stage(ctx, t.Table, engine.StageOptions{Name: d.With, Columns: all, Storage: engine.Storage{Compress: t.Declared.Seal.Compress}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	quote := t.DB.Dialect().Quote
	with, own := quote(d.With), quote(d.Rows)
	var differ []string
	for _, c := range columns {
		if is := t.Schema.Find(c.Name); is != nil {
			differ = append(differ, words.Differs(*is, "n."+quote(is.Name), own+"."+quote(is.Name)))
		}
	}
	there := "DELETE FROM " + own + " WHERE EXISTS (SELECT 1 FROM " + with + " n WHERE " + engine.EqualIn(t.DB.Dialect(), t.Schema.Key(), "n.", own+".")
	var equal, added int64
	copyRows := func(into, from string) string {
		return t.DB.Words().CopyRows(engine.CopyRows{Into: into, From: from, Columns: names})
	}
	t.copying.RLock()
	d.Had, err = s.Run(ctx, copyRows(with, t.DB.Words().From(t.Table, d.Part)))
	t.copying.RUnlock()
	if err != nil {
		return fmt.Errorf("copy the rows of %s: %w", d.Part.Name, err)
	}
	t.Reach("publish merging")
	for _, step := range []struct {
		statement string
		rows      *int64
	}{
		{there + " AND (" + strings.Join(differ, " OR ") + "))", &d.Different},
		{there + ")", &equal},
		{copyRows(with, own), &added},
	} {
		if *step.rows, err = s.Run(ctx, step.statement); err != nil {
			return fmt.Errorf("merge rows with %s: %w", d.Part.Name, err)
		}
		t.Reach("publish merging")
	}
	if _, err := s.Finish(ctx); err != nil {
		return fmt.Errorf("merge rows with %s: %w", d.Part.Name, err)
	}
	d.Inserted -= d.Different + equal
	d.Duplicate += d.Different + equal
	d.Compared = d.Different + equal
	if d.Sealed != nil && d.Sealed.Rebuilt {
		if err := t.compact(ctx, &rebuilding{With: d.With}); err != nil {
			return err
		}
	}
	var rows int64
	if err := t.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+with+" WHERE "+t.sums().within(d.Part.Period)).Scan(&rows); err != nil {
		return fmt.Errorf("verify table %s: %w", d.With, t.DB.Classify(err))
	}
	d.Sum, err = engine.ReadChecksum(ctx, t.DB, t.State.DB(), t.DB.Words().RowHash(t.columns()), with+" n",
		"NOT EXISTS (SELECT 1 FROM "+own+" WHERE "+engine.EqualIn(t.DB.Dialect(), t.Schema.Key(), own+".", "n.")+")")
	if err != nil {
		return err
	}
	if added != d.Inserted || rows != d.Had+added || d.Sum.Rows != d.Had || d.Inserted+d.Duplicate != d.Sent {
		return fmt.Errorf("merge rows with %s: it had %d, and %s sent, %d of them there already; %d were added, and table %s has %d: the numbers don't add up, and nothing was changed",
			d.Part.Name, d.Had, figure.Plural(d.Sent, "row was", "rows were"), d.Duplicate, added, d.With, rows)
	}
	t.Reach("publish merged")
	return nil
}

// endMerge records a publication if the period already had all of its rows.
func (t rebuilder) endMerge(ctx context.Context, c *state.Change, d *publishing) error {
	d.Out, d.Sealed, d.State = d.With, nil, state.Published
	return t.inTx(ctx, func(tx *sql.Tx) error {
		if err := t.State.PutPublication(ctx, tx, &d.Publication); err != nil { // state.ErrForgotten
			return err
		}
		return t.State.Advance(ctx, tx, c, stepClean, d)
	})
}

// sealAgain ends a publication. If the period was sealed, sealAgain records its new row count and
// checksum. The period's roll-ups are refreshed later, and verified before the period is dropped.
func (t rebuilder) sealAgain(ctx context.Context, c *state.Change, d *publishing) error {
	if d.Sealed == nil {
		return t.State.End(ctx, t.State.DB(), c)
	}
	part, err := t.find(ctx, d.Part.Period)
	if err != nil {
		return err
	}
	s, err := t.sums().periodChecksum(ctx, part)
	if err != nil {
		return err
	}
	k := *d.Sealed
	k.Partition, k.Rows, k.Checksum = part, s.Rows, s.Hash
	if k.Checked, err = t.Now(ctx); err != nil {
		return err
	}
	return t.inTx(ctx, func(tx *sql.Tx) error {
		if err := t.State.Put(ctx, tx, k); err != nil {
			return err
		}
		return t.State.End(ctx, tx, c)
	})
}
