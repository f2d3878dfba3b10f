package rollup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// An Anew is what becomes of the roll-ups of a table that was dropped and is about
// to be made anew: their buckets outlive the rows that they were computed from.
// Below the bucket in which the new table begins they stay as they are, as those
// of dropped periods do; from there on there will be none but those of the new
// rows.
type Anew struct {
	// Notes say it for people, one for each level.
	Notes []string
	// Kept are the names of those that have a table.
	Kept []string
	// SQL is what Run runs.
	SQL []string

	db    engine.Keeper
	table string
}

// PlanAnew plans what becomes of the roll-ups of a table whose first period will
// begin at a position. It has no SQL where nothing is known of them.
func PlanAnew(ctx context.Context, db engine.Keeper, t *engine.Table, d *rolling.Declaration, from int64) (*Anew, error) {
	a := &Anew{db: db, table: t.Name}
	for _, r := range d.Rollups {
		if err := a.level(ctx, t, r, from); err != nil {
			return nil, fmt.Errorf("roll-up %s of the former table: %w", r.Name, err)
		}
	}
	if len(a.SQL) > 0 {
		a.SQL = append(a.SQL, "DELETE FROM rowmill_touched WHERE table_name = "+quoteText(t.Name))
	}
	return a, nil
}

func (a *Anew) level(ctx context.Context, t *engine.Table, r rolling.Rollup, from int64) error {
	if err := usable(r.Name, "_live"); err != nil {
		return err
	}
	if err := usable(t.Name, ""); err != nil {
		return err
	}
	var watermark int64
	err := a.db.SQL().QueryRowContext(ctx, a.db.Bind("SELECT watermark FROM rowmill_rollups WHERE table_name = ? AND name = ?"), t.Name, r.Name).Scan(&watermark)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err = a.db.Classify(err); errors.Is(err, engine.ErrNoTable) {
		return nil
	}
	if err != nil {
		return err
	}
	of := fmt.Sprintf("WHERE table_name = %s AND name = %s", quoteText(t.Name), quoteText(r.Name))
	stale := "DELETE FROM rowmill_stale WHERE rollup_name = " + quoteText(r.Name)
	unset := r.Every.Bounds().From
	if _, err := a.db.Describe(ctx, r.Name); errors.Is(err, engine.ErrNoTable) {
		// It was dropped, too: it begins as a new one does.
		a.SQL = append(a.SQL, stale, "DELETE FROM rowmill_rollups "+of)
		return nil
	} else if err != nil {
		return err
	}
	a.Kept = append(a.Kept, r.Name)
	begin := r.Every.Floor(from)
	to := begin
	computed := fmt.Sprintf("CASE WHEN watermark > %d THEN %d ELSE watermark END", begin, begin)
	sealed := fmt.Sprintf("CASE WHEN sealed_to > %d THEN %d ELSE sealed_to END", begin, begin)
	if r.From == "" {
		// Nobody can compute the others any more.
		computed, sealed = fmt.Sprintf("CASE WHEN watermark > %d THEN %d ELSE watermark END", unset, begin), fmt.Sprint(begin)
		to = unset
	}
	// Another updated_us stops a worker that has lost its lock.
	a.SQL = append(a.SQL,
		fmt.Sprintf("DELETE FROM %s WHERE %s >= %s", a.db.Dialect().Quote(r.Name), a.db.Dialect().Quote(Bucket), a.db.Words().Literal(t, begin)),
		fmt.Sprintf("%s AND bucket >= %d", stale, to),
		fmt.Sprintf("UPDATE rowmill_rollups SET watermark = %s, sealed_to = %s, checked_us = 0, updated_us = updated_us + 1 %s", computed, sealed, of))
	what := "are kept: they are of the table of before"
	if r.From == "" && watermark > unset && watermark < begin {
		what = fmt.Sprintf("are kept, those computed up to %s: they are of the table of before, whose later rows are gone", r.Every.Format(watermark))
	}
	a.Notes = append(a.Notes, fmt.Sprintf("roll-up %s: buckets before %s %s; those from there on are removed, and made of the rows of the new table",
		r.Name, r.Every.Format(begin), what))
	return nil
}

// Run does it, in one transaction, as the only worker on the roll-ups.
func (a *Anew) Run(ctx context.Context) (err error) {
	lease, err := leadOf(ctx, a.db, a.table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	tx, err := a.db.SQL().BeginTx(ctx, nil)
	if err != nil {
		return a.db.Classify(err)
	}
	defer tx.Rollback()
	for _, q := range a.SQL {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			first, _, _ := strings.Cut(q, " WHERE ")
			return fmt.Errorf("%s: %w", first, a.db.Classify(err))
		}
	}
	return a.db.Classify(tx.Commit())
}
