package state

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// An Extent is a range of positions in which a source had rows. Rows is the minimum
// number that it inserted there; 0 means that some rows already existed.
type Extent struct {
	rolling.Period
	Rows int64
}

// Unknown is the only extent of a source that was loaded by an older version of
// rowmill, which did not record where its rows lie. It is stored once this has been
// reported. No row has its position.
var Unknown = Extent{Period: rolling.Period{From: math.MinInt64, To: math.MinInt64 + 1}}

// Accepted is the one extent of a source of whose rows none is in the table, once it
// has been accepted that they are missing. No row lies there.
var Accepted = Extent{Period: rolling.Period{From: math.MinInt64 + 1, To: math.MinInt64 + 2}}

// Extents returns where the rows of a loaded source lie, in order. It is what
// the ledger's lines come to, which go a day after the source was loaded.
func (s *Store) Extents(ctx context.Context, table, source string) ([]Extent, error) {
	var out []Extent
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		var e Extent
		err := r.Scan(&e.From, &e.To, &e.Rows)
		e.To++
		out = append(out, e)
		return err
	}, "SELECT lower_pos, upper_pos, row_count FROM rowmill_loaded WHERE table_name = ? AND source = ? ORDER BY lower_pos, upper_pos", table, source)
	if err != nil {
		return nil, fmt.Errorf("where rows of sources of %s lie: %w", table, err)
	}
	return out, nil
}

// extentsAtATime is how many extents one statement inserts.
const extentsAtATime = 200

// putExtents replaces the extents of a source, in the transaction of x. No two
// have the same bounds.
func (s *Store) putExtents(ctx context.Context, x Exec, f *Source, all []Extent) error {
	_, err := s.exec(ctx, x, "DELETE FROM rowmill_loaded WHERE table_name = ? AND source = ?", f.Table, f.Key)
	for part := range slices.Chunk(all, extentsAtATime) {
		if err != nil {
			break
		}
		var args []any
		for _, e := range part {
			args = append(args, f.Table, f.Key, e.From, e.To-1, e.Rows)
		}
		_, err = s.exec(ctx, x, "INSERT INTO rowmill_loaded (table_name, source, lower_pos, upper_pos, row_count) VALUES (?, ?, ?, ?, ?)"+
			strings.Repeat(", (?, ?, ?, ?, ?)", len(part)-1), args...)
	}
	if err != nil {
		return fmt.Errorf("note where the rows of %s lie: %w", f.Path, err)
	}
	return nil
}

// PutExtents replaces the extents of a source.
func (s *Store) PutExtents(ctx context.Context, f *Source, all []Extent) error {
	return s.within(ctx, func(tx *sql.Tx) error { return s.putExtents(ctx, tx, f, all) })
}

// ForgetSource removes all information about a source except where its existing rows
// lie, in one transaction: the file is then treated as new. The rows are not
// removed.
func (s *Store) ForgetSource(ctx context.Context, f *Source, there []Extent) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if err := s.putExtents(ctx, tx, f, there); err != nil {
			return err
		}
		for _, q := range []string{"DELETE FROM rowmill_sources WHERE table_name = ? AND source = ?", "DELETE FROM rowmill_cuts WHERE table_name = ? AND source = ?"} {
			if _, err := s.exec(ctx, tx, q, f.Table, f.Key); err != nil {
				return fmt.Errorf("forget what was loaded of %s: %w", f.Path, err)
			}
		}
		if _, err := s.exec(ctx, tx, "DELETE FROM rowmill_ledger WHERE table_name = ? AND batch LIKE ?", f.Table, f.Key+"@%"); err != nil {
			return fmt.Errorf("ledger of %s: %w", f.Table, err)
		}
		return nil
	})
}

// Anew removes what is known of a table's rows, in the transaction of x: the table
// isn't there and is about to be created. Its ledger begins anew, and no period
// of the new table is sealed. Periods that were archived are known as dropped,
// so that they can be restored. What a spool has delivered stays known, for the
// spool has let go of it; batches that it still has are loaded again.
func (s *Store) Anew(ctx context.Context, x Exec, table string) error {
	for _, q := range []struct {
		text string
		args []any
	}{
		{"DELETE FROM rowmill_sources WHERE table_name = ? AND kind <> ?", []any{table, SpoolSource}},
		{"DELETE FROM rowmill_cuts WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_loaded WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_ledger WHERE table_name = ?", []any{table}},
		{"DELETE FROM rowmill_states WHERE table_name = ? AND archive = ''", []any{table}},
		{"UPDATE rowmill_states SET state = ?, updated_us = ? WHERE table_name = ?", []any{Dropped, time.Now().UnixMicro(), table}},
		{"UPDATE rowmill_tables SET sealed_to = ? WHERE name = ?", []any{int64(math.MinInt64), table}},
	} {
		if _, err := s.exec(ctx, x, q.text, q.args...); err != nil {
			return fmt.Errorf("begin a new ledger for %s: %w", table, err)
		}
	}
	return nil
}
