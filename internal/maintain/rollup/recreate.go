package rollup

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/rolling"
)

// A Recreation is the plan for the roll-ups of a dropped table that is about to be created again.
// Buckets before the bucket in which the new table begins stay unchanged, like buckets of dropped
// periods. Later buckets are removed, and computed from the new rows.
type Recreation struct {
	// Notes describe the plan, one for each level.
	Notes []string
	// Kept are the names of the roll-ups whose table exists.
	Kept []string
	// SQL are the statements that Run executes.
	SQL []string

	db    engine.Keeper
	table string
}

// PlanRecreation plans what becomes of the roll-ups of t, a dropped table that will be created
// again. from returns where its first period will begin, and is called only if there are buckets.
// The plan uses the records of all roll-ups, declared or not. It refuses to keep buckets that the
// current declaration can't continue. SQL is empty if no roll-up is recorded.
func PlanRecreation(ctx context.Context, db engine.Keeper, t *engine.Table, d *rolling.Declaration, from func() (int64, error)) (*Recreation, error) {
	a := &Recreation{db: db, table: t.Name}
	former, err := formerOf(ctx, db, t.Name)
	if err != nil {
		return nil, fmt.Errorf("roll-ups of the former table %s: %w", t.Name, err)
	}
	for _, f := range former {
		if err := a.level(ctx, t, d, f, from); err != nil {
			return nil, fmt.Errorf("roll-up %s of the former table: %w", f.name, err)
		}
	}
	if len(a.SQL) > 0 {
		a.SQL = append(a.SQL, "DELETE FROM rowmill_touched WHERE table_name = "+quoteText(t.Name))
	}
	return a, nil
}

type former struct {
	name      string
	watermark int64
	spec      spec
}

func formerOf(ctx context.Context, db engine.Keeper, table string) (out []former, err error) {
	err = engine.Each(ctx, db, db.SQL(), func(r *sql.Rows) error {
		var f former
		var text string
		if err := r.Scan(&f.name, &f.watermark, &text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &f.spec); err != nil {
			return fmt.Errorf("the record of %s: %w", f.name, err)
		}
		out = append(out, f)
		return nil
	}, "SELECT name, watermark, spec FROM rowmill_rollups WHERE table_name = ? ORDER BY name", table)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	return out, err
}

func (a *Recreation) level(ctx context.Context, t *engine.Table, d *rolling.Declaration, f former, from func() (int64, error)) error {
	if err := usable(f.name, "_live"); err != nil {
		return err
	}
	if err := usable(t.Name, ""); err != nil {
		return err
	}
	of := levelRow(t.Name, f.name)
	stale := "DELETE FROM rowmill_stale WHERE rollup_name = " + quoteText(f.name)
	_, err := a.db.Describe(ctx, f.name)
	if err != nil && !errors.Is(err, engine.ErrNoTable) {
		return err
	}
	if err != nil || f.spec.Every == "" {
		// The roll-up was dropped too, or never had a bucket: it begins as a new one does.
		a.SQL = append(a.SQL, stale, "DELETE FROM rowmill_rollups "+of)
		return nil
	}
	if i := slices.IndexFunc(d.Rollups, func(r rolling.Rollup) bool { return r.Name == f.name }); i >= 0 {
		if err := fits(&f.spec, newSpec(d.Rollups[i])); err != nil {
			return err
		}
	}
	every, err := rolling.Parse(f.spec.Every)
	if err != nil {
		return fmt.Errorf("its record: %w", err)
	}
	if every.Axis() != t.Grid.Axis() {
		return engine.Hinted(fmt.Errorf("its buckets are of %s, and the periods of %s are of %s, along another axis", every, t.Name, t.Grid),
			"DROP TABLE %s first, if the buckets are not needed; or declare periods along that axis", f.name)
	}
	a.Kept = append(a.Kept, f.name)
	first, err := from()
	if err != nil {
		return err
	}
	unset, begin := every.Bounds().From, every.Floor(first)
	to, sealed := begin, fmt.Sprintf("CASE WHEN sealed_to > %d THEN %d ELSE sealed_to END", begin, begin)
	if f.spec.From == "" {
		// The former table's rows are gone, so the buckets before begin can't be computed again.
		to, sealed = unset, fmt.Sprint(begin)
	}
	computed := fmt.Sprintf("CASE WHEN watermark > %d THEN %d ELSE watermark END", to, begin)
	// Another updated_us stops a worker that has lost its lock.
	a.SQL = append(a.SQL,
		fmt.Sprintf("DELETE FROM %s WHERE %s >= %s", a.db.Dialect().Quote(f.name), a.db.Dialect().Quote(Bucket), a.db.Words().Literal(t, begin)),
		fmt.Sprintf("%s AND bucket >= %d", stale, to),
		fmt.Sprintf("UPDATE rowmill_rollups SET watermark = %s, sealed_to = %s, checked_us = 0, updated_us = updated_us + 1 %s", computed, sealed, of))
	what, unfinished := "are kept: they are of the former table", ""
	if f.spec.From == "" {
		if unfinished, err = a.unfinished(ctx, &f, every, begin); err != nil {
			return err
		}
		if f.watermark > unset && f.watermark < begin {
			what = fmt.Sprintf("are kept, those computed up to %s: they are of the former table, whose later rows are gone", every.Format(f.watermark))
		}
	}
	a.Notes = append(a.Notes, fmt.Sprintf("roll-up %s: buckets before %s %s%s; those from there on are removed, and computed from the rows of the new table",
		f.name, every.Format(begin), what, unfinished))
	return nil
}

// unfinished describes the stale buckets and the notes below position begin. They can't be computed
// any more, because their raw rows are gone. Stale buckets directly below the watermark were never
// computed, so unfinished moves f.watermark below them.
func (a *Recreation) unfinished(ctx context.Context, f *former, every rolling.Grid, begin int64) (string, error) {
	var stale, notes int64
	err := engine.Each(ctx, a.db, a.db.SQL(), func(r *sql.Rows) error {
		var pos int64
		if err := r.Scan(&pos); err != nil {
			return err
		}
		stale++
		if b, err := every.At(pos); err == nil && b.To == f.watermark {
			f.watermark = b.From
		}
		return nil
	}, "SELECT bucket FROM rowmill_stale WHERE rollup_name = ? AND bucket < ? ORDER BY bucket DESC", f.name, begin)
	if err != nil && !errors.Is(err, engine.ErrNoTable) { // apply creates rowmill's own tables if they are missing
		return "", err
	}
	err = a.db.SQL().QueryRowContext(ctx, a.db.Bind("SELECT COUNT(*) FROM rowmill_touched WHERE table_name = ? AND lower_pos < ?"), a.table, begin).Scan(&notes)
	if err = a.db.Classify(err); err != nil && !errors.Is(err, engine.ErrNoTable) {
		return "", err
	}
	if stale == 0 && notes == 0 {
		return "", nil
	}
	return fmt.Sprintf("; %s to be computed again, and %s not been taken in: buckets may lack rows", figure.Plural(stale, "bucket was", "buckets were"),
		figure.Plural(notes, "note of changed rows had", "notes of changed rows had")), nil
}

// Run executes the plan and then the function with, in one transaction. Meanwhile no worker runs.
func (a *Recreation) Run(ctx context.Context, with func(context.Context, *sql.Tx) error) (err error) {
	lease, err := leadOf(ctx, a.db, a.table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return engine.InTx(ctx, a.db, a.db.SQL(), nil, func(tx *sql.Tx) error {
		for _, q := range a.SQL {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				first, _, _ := strings.Cut(q, " WHERE ")
				return fmt.Errorf("%s: %w", first, err)
			}
		}
		return with(ctx, tx)
	})
}
