package state

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// periods records the state of periods that are not open.
type periods struct{ *database }

// SealedTo records that all periods up to a position are sealed. The position never goes back.
func (s periods) SealedTo(ctx context.Context, x Exec, table string, to int64) error {
	return s.run(ctx, x, "record up to where "+table+" is sealed", "UPDATE rowmill_tables SET sealed_to = ? WHERE name = ? AND sealed_to < ?", to, table, to)
}

// SealedUpTo returns the position up to which a table refuses late rows; math.MinInt64 if none.
func (s periods) SealedUpTo(ctx context.Context, table string) (int64, error) {
	to := int64(math.MinInt64)
	_, err := s.one(ctx, s.DB(), "up to where "+table+" is sealed", []any{&to}, "SELECT sealed_to FROM rowmill_tables WHERE name = ?", table)
	return to, err
}

// DropTo records that retention is about to drop the periods up to a position. The position never
// goes back. It is committed before the first partition of these periods is detached: see Before.
func (s periods) DropTo(ctx context.Context, table string, to int64) error {
	return s.run(ctx, s.DB(), "record up to where periods of "+table+" are dropped", "UPDATE rowmill_tables SET dropped_to = ? WHERE name = ? AND dropped_to < ?", to, table, to)
}

// DroppedTo returns the position of DropTo, 0 if there is none.
func (s periods) DroppedTo(ctx context.Context, table string) (to int64, err error) {
	_, err = s.one(ctx, s.DB(), "up to where periods of "+table+" are dropped", []any{&to}, "SELECT dropped_to FROM rowmill_tables WHERE name = ?", table)
	return to, err
}

// States of a period. A period that the store doesn't know is open.
const (
	// Sealed periods take no more inserts; rows and checksum are known.
	Sealed = "sealed"
	// Archived periods are sealed, and their file has been read back.
	Archived = "archived"
	// Dropped periods are removed from the table; their information is kept.
	Dropped = "dropped"
	// Restored periods came from their archive, and stay until their owner releases them.
	Restored = "restored"
	// Unsealed periods are open, and were sealed before: their rows have changed since.
	Unsealed = "unsealed"
)

// A Period is the information about a period that the catalog doesn't have.
type Period struct {
	Table string
	rolling.Partition
	State string
	// Rows and Checksum are those of its rows when it was sealed.
	Rows     int64
	Checksum string
	// Checked is the position at which Rows and Checksum were last compared with the stored rows.
	Checked int64
	// Rebuilt reports that the period is stored sorted, and compressed if requested.
	Rebuilt bool
	// Archive is the path of the file, ArchiveSum its checksum.
	Archive, ArchiveSum string
}

const periodColumns = "lower_pos, upper_pos, name, state, row_count, checksum, checked_pos, rebuilt, archive, archive_sum"

// Periods returns the recorded periods of a table in order, dropped ones included. It leaves out
// periods that were sealed and are open again.
func (s periods) Periods(ctx context.Context, table string) ([]Period, error) {
	return s.periods(ctx, table, " AND state <> ?", Unsealed)
}

// PeriodsFrom is like Periods, but returns only periods that begin at a position or later and are
// not dropped. It reads only these.
func (s periods) PeriodsFrom(ctx context.Context, table string, from int64) ([]Period, error) {
	return s.periods(ctx, table, " AND lower_pos >= ? AND state NOT IN (?, ?)", from, Dropped, Unsealed)
}

// EverSealed is PeriodsFrom, including periods that are open again.
func (s periods) EverSealed(ctx context.Context, table string, from int64) ([]Period, error) {
	return s.periods(ctx, table, " AND lower_pos >= ? AND state <> ?", from, Dropped)
}

func (s periods) periods(ctx context.Context, table, where string, args ...any) ([]Period, error) {
	return list(ctx, s.database, "periods of "+table, func(r *sql.Rows, p *Period) error {
		p.Table = table
		return r.Scan(&p.From, &p.To, &p.Name, &p.State, &p.Rows, &p.Checksum, &p.Checked, &p.Rebuilt, &p.Archive, &p.ArchiveSum)
	}, "SELECT "+periodColumns+" FROM rowmill_states WHERE table_name = ?"+where+" ORDER BY lower_pos", append([]any{table}, args...)...)
}

// Put records a period, in place of all records within its bounds, in the transaction of x.
func (s periods) Put(ctx context.Context, x Exec, p Period) error {
	if err := s.Forget(ctx, x, p.Table, p.Period); err != nil {
		return err
	}
	err := s.insert(ctx, x, "rowmill_states (table_name, "+periodColumns+", updated_us)",
		[]any{p.Table, p.From, p.To, p.Name, p.State, p.Rows, p.Checksum, p.Checked, bit(p.Rebuilt), p.Archive, p.ArchiveSum, time.Now().UnixMicro()})
	return because(fmt.Sprintf("period %s of %s", p.Name, p.Table), err)
}

// NotesInto is the table of notes of changed rows, with its columns, for the INSERT of a trigger.
const NotesInto = "rowmill_touched (table_name, lower_pos, upper_pos, writer)"

// Changed records that rows of periods have changed: it gives each of these periods a new Seal.ID.
// x is the transaction that removes the notes of the changes. A sealed period remains sealed until
// somebody checks it.
func (s periods) Changed(ctx context.Context, x Exec, table string, ranges []rolling.Period) error {
	for _, r := range ranges {
		if err := s.run(ctx, x, "changed periods of "+table, "UPDATE rowmill_states SET updated_us = updated_us + 1 "+
			"WHERE table_name = ? AND lower_pos < ? AND upper_pos > ? AND state <> ?", table, r.To, r.From, Dropped); err != nil {
			return err
		}
	}
	return nil
}

// A Seal is what identifies the state of a period's rows, as SealsQuery returns it.
type Seal struct {
	rolling.Partition
	// ID changes whenever the period is sealed, and when notes of its changed rows are consumed.
	ID string
}

// SealsQuery returns a query for the sealed periods of a table: see ParseSeal for its rows. states
// is the quoted name of rowmill_states, and table is the table's name as a literal.
func SealsQuery(states, table string) string {
	return "SELECT lower_pos, upper_pos, name, row_count, checksum, updated_us FROM " + states + " WHERE table_name = " + table +
		" AND state IN ('" + Sealed + "', '" + Archived + "', '" + Restored + "') ORDER BY lower_pos"
}

// ParseSeal reads a row of SealsQuery.
func ParseSeal(row [][]byte) (s Seal, err error) {
	if len(row) != 6 {
		return s, fmt.Errorf("a period has %d values", len(row))
	}
	if s.From, err = strconv.ParseInt(string(row[0]), 10, 64); err == nil {
		s.To, err = strconv.ParseInt(string(row[1]), 10, 64)
	}
	s.Name, s.ID = string(row[2]), string(bytes.Join(row, []byte{' '}))
	return s, err
}

// Unseal records that periods within the bounds are open again.
func (s periods) Unseal(ctx context.Context, x Exec, table string, within rolling.Period) error {
	return s.run(ctx, x, "periods of "+table, "UPDATE rowmill_states SET state = ? WHERE table_name = ? AND lower_pos >= ? AND upper_pos <= ?", Unsealed, table, within.From, within.To)
}

// Forget removes the records of periods within the bounds: they are open.
func (s periods) Forget(ctx context.Context, x Exec, table string, within rolling.Period) error {
	return s.run(ctx, x, "periods of "+table, "DELETE FROM rowmill_states WHERE table_name = ? AND lower_pos >= ? AND upper_pos <= ?", table, within.From, within.To)
}
