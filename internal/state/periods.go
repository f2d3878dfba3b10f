package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// States of a period. A period that the store doesn't know is open.
const (
	// Sealed periods take no more inserts; rows and checksum are known.
	Sealed = "sealed"
	// Archived periods are sealed, and their file has been read back.
	Archived = "archived"
	// Dropped periods are removed from the table; their information is kept.
	Dropped = "dropped"
	// Restored periods were restored from their archive, and are not dropped again
	// until their owner requests it.
	Restored = "restored"
)

// A Period is the information about a period that the catalog doesn't have.
type Period struct {
	Table string
	rolling.Partition
	State string
	// Rows and Checksum are the count and the checksum of its rows when it was
	// sealed.
	Rows     int64
	Checksum string
	// Checked is the position at which they were last compared with the rows.
	Checked int64
	// Rebuilt reports that the period is stored sorted, and compressed if requested.
	Rebuilt bool
	// Archive is the path of the file, ArchiveSum its checksum.
	Archive, ArchiveSum string
	Updated             time.Time
}

// Periods returns the recorded periods of a table in order, including dropped ones.
func (s *Store) Periods(ctx context.Context, table string) ([]Period, error) {
	return s.periods(ctx, table, "")
}

// PeriodsFrom returns those that are not dropped and begin at a position or later. It
// reads no others, of which a table that is kept for years has many.
func (s *Store) PeriodsFrom(ctx context.Context, table string, from int64) ([]Period, error) {
	return s.periods(ctx, table, " AND lower_pos >= ? AND state <> ?", from, Dropped)
}

func (s *Store) periods(ctx context.Context, table, where string, args ...any) ([]Period, error) {
	var out []Period
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		p := Period{Table: table}
		var rebuilt, updated int64
		err := r.Scan(&p.From, &p.To, &p.Name, &p.State, &p.Rows, &p.Checksum, &p.Checked, &rebuilt, &p.Archive, &p.ArchiveSum, &updated)
		p.Rebuilt, p.Updated = rebuilt != 0, time.UnixMicro(updated)
		out = append(out, p)
		return err
	}, "SELECT lower_pos, upper_pos, name, state, row_count, checksum, checked_pos, rebuilt, archive, archive_sum, updated_us "+
		"FROM rowmill_states WHERE table_name = ?"+where+" ORDER BY lower_pos", append([]any{table}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("periods of %s: %w", table, err)
	}
	return out, nil
}

// Put records a period, in the transaction of x. It replaces the records of all
// periods within its bounds.
func (s *Store) Put(ctx context.Context, x Exec, p Period) error {
	if err := s.Forget(ctx, x, p.Table, p.Period); err != nil {
		return err
	}
	var rebuilt int64
	if p.Rebuilt {
		rebuilt = 1
	}
	_, err := s.exec(ctx, x, "INSERT INTO rowmill_states (table_name, lower_pos, upper_pos, name, state, row_count, checksum, checked_pos, rebuilt, archive, archive_sum, updated_us) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", p.Table, p.From, p.To, p.Name, p.State, p.Rows, p.Checksum, p.Checked, rebuilt, p.Archive, p.ArchiveSum, time.Now().UnixMicro())
	if err != nil {
		return fmt.Errorf("period %s of %s: %w", p.Name, p.Table, err)
	}
	return nil
}

// Forget removes the records of periods within the bounds: they are open.
func (s *Store) Forget(ctx context.Context, x Exec, table string, within rolling.Period) error {
	_, err := s.exec(ctx, x, "DELETE FROM rowmill_states WHERE table_name = ? AND lower_pos >= ? AND upper_pos <= ?", table, within.From, within.To)
	if err != nil {
		return fmt.Errorf("periods of %s: %w", table, err)
	}
	return nil
}
