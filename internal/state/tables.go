package state

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A Declared is a table as last applied.
type Declared struct {
	Name string
	// Text is the text of the declaration, as TOML.
	Text string
	// Period is the period in force, in the syntax of rolling.Parse: the result of
	// "auto", if declared so.
	Period   string
	Revision int64
	Created  time.Time
	// Format is that of the records of the version that applied it; 0 if it recorded none.
	Format int64
}

// Format is the format of the records in rowmill's own tables. It is raised with each change
// that an earlier version would misread: a version refuses tables of a later format.
const Format = 1

// Declared returns the applied declaration of the table, or nil.
func (s *Store) Declared(ctx context.Context, table string) (*Declared, error) {
	d, found := Declared{Name: table}, false
	into := map[string]any{"declaration": &d.Text, "period": &d.Period, "revision": &d.Revision, "created_us": micros{&d.Created}, "format": &d.Format}
	// All columns: a table of an earlier version has no format.
	err := engine.Each(ctx, s.db, s.DB(), func(r *sql.Rows) error {
		found = true
		columns, err := r.Columns()
		values := make([]any, len(columns))
		for i, c := range columns {
			if values[i] = into[c]; values[i] == nil {
				values[i] = new(any)
			}
		}
		if err != nil {
			return err
		}
		return r.Scan(values...)
	}, "SELECT * FROM rowmill_tables WHERE name = ?", table)
	if err != nil || !found {
		return nil, because("the declaration applied for "+table, err)
	}
	return &d, nil
}

// Declare records an applied declaration, as the next revision.
func (s *Store) Declare(ctx context.Context, x Exec, table, text, period string) error {
	now := time.Now().UnixMicro()
	n, err := s.exec(ctx, x, "UPDATE rowmill_tables SET declaration = ?, period = ?, revision = revision + 1, updated_us = ?, format = ? WHERE name = ?", text, period, now, Format, table)
	if err == nil && n == 0 {
		err = s.insert(ctx, x, "rowmill_tables (name, declaration, period, revision, sealed_to, created_us, updated_us, format)",
			[]any{table, text, period, 1, int64(math.MinInt64), now, now, Format})
	}
	return because("record the declaration of "+table, err)
}

// RemoveDeclaration removes a table's applied declaration, and keeps what is known of its periods.
func (s *Store) RemoveDeclaration(ctx context.Context, x Exec, table string) error {
	return s.run(ctx, x, "remove the declaration of "+table, "DELETE FROM rowmill_tables WHERE name = ?", table)
}

// Undeclare removes all information about a table except the log of actions.
func (s *Store) Undeclare(ctx context.Context, x Exec, table string) error {
	err := s.RemoveDeclaration(ctx, x, table)
	for _, from := range []string{"rowmill_states", "rowmill_leaders"} {
		if err == nil {
			err = s.run(ctx, x, "remove the declaration of "+table, "DELETE FROM "+from+" WHERE table_name = ?", table)
		}
	}
	return err
}

// recorded are the tables with rows about a table, by table_name.
var recorded = strings.Fields("undo rollups parts touched loaded publications cuts sources ledger leaders pauses requests schedule actions journal states")

// removals returns the statements that delete all rows about a table. Each takes its name.
func removals() []string {
	out := []string{"DELETE FROM rowmill_tables WHERE name = ?", "DELETE FROM rowmill_stale WHERE rollup_name IN (SELECT name FROM rowmill_rollups WHERE table_name = ?)"}
	for _, name := range recorded {
		out = append(out, "DELETE FROM rowmill_"+name+" WHERE table_name = ?")
	}
	return out
}

// Remove removes all information about a table, with the log of actions.
func (s *Store) Remove(ctx context.Context, x Exec, table string) error {
	for _, q := range removals() {
		if err := s.run(ctx, x, "remove what is recorded of "+table, q, table); err != nil {
			return err
		}
	}
	return nil
}

// Removals returns the statements of Remove, with ? for the name.
func (s *Store) Removals() []string { return removals() }

// Kept returns the names of all tables with an applied declaration.
func (s *Store) Kept(ctx context.Context) ([]string, error) {
	return list(ctx, s, "the declared tables", func(r *sql.Rows, name *string) error { return r.Scan(name) }, "SELECT name FROM rowmill_tables ORDER BY name")
}

// An Action is a completed or failed operation.
type Action struct {
	At     time.Time
	Table  string
	Action string // create, rollup, seal, rebuild, archive, drop, ...
	Detail string
	Took   time.Duration
	Error  string
	// Locked reports that it failed because a lock was not granted.
	Locked bool
	By     string // host and process; Log fills it in
}

// How many actions are kept for each table, and how many are removed at a time.
const keepActions, trimActions = 1000, 10000

// Log records an action of this process. The log is for users: nothing depends on it.
func (s *Store) Log(ctx context.Context, a Action) error {
	err := s.insert(ctx, s.DB(), "rowmill_actions (table_name, at_us, serial, action, detail, took_us, error, locked, by_whom)",
		[]any{a.Table, a.At.UnixMicro(), time.Now().UnixNano()%1e9*10000 + int64(os.Getpid()%10000), a.Action, a.Detail, a.Took.Microseconds(), a.Error, bit(a.Locked), engine.Process()})
	return because("log of "+a.Table, err)
}

// Actions returns the last n actions of a table, newest first.
func (s *Store) Actions(ctx context.Context, table string, n int) ([]Action, error) {
	return s.actions(ctx, table, fmt.Sprintf("WHERE table_name = ? ORDER BY at_us DESC, serial DESC LIMIT %d", n))
}

// ActionsSince returns all actions of a table after a time, newest first.
func (s *Store) ActionsSince(ctx context.Context, table string, since time.Time) ([]Action, error) {
	return s.actions(ctx, table, "WHERE table_name = ? AND at_us > ? ORDER BY at_us DESC, serial DESC", since.UnixMicro())
}

// LatestActions returns the last successful and the last failed action of each kind, newest first.
func (s *Store) LatestActions(ctx context.Context, table string) ([]Action, error) {
	return s.actions(ctx, table, "JOIN (SELECT action AS kind, MAX(at_us) AS newest FROM rowmill_actions WHERE table_name = ? GROUP BY action, CASE WHEN error = '' THEN 0 ELSE 1 END) m "+
		"ON kind = action AND newest = at_us WHERE table_name = ? ORDER BY at_us DESC, serial DESC", table)
}

func (s *Store) actions(ctx context.Context, table, which string, args ...any) ([]Action, error) {
	return list(ctx, s, "log of "+table, func(r *sql.Rows, a *Action) error {
		var took int64
		err := r.Scan(micros{&a.At}, &a.Action, &a.Detail, &took, &a.Error, &a.Locked, &a.By)
		a.Table, a.Took = table, time.Duration(took)*time.Microsecond
		return err
	}, "SELECT at_us, action, detail, took_us, error, locked, by_whom FROM rowmill_actions "+which, append([]any{table}, args...)...)
}

// TrimActions removes the oldest actions of a table, beyond those that are kept.
func (s *Store) TrimActions(ctx context.Context, table string) error {
	at := func(order string, offset int) (int64, error) {
		pos := int64(math.MaxInt64)
		_, err := s.one(ctx, s.DB(), "log of "+table, []any{&pos},
			fmt.Sprintf("SELECT at_us FROM rowmill_actions WHERE table_name = ? ORDER BY at_us %s LIMIT 1 OFFSET %d", order, offset), table)
		return pos, err
	}
	kept, err := at("DESC", keepActions-1)
	if err != nil || kept == math.MaxInt64 {
		return err
	}
	some, err := at("ASC", trimActions)
	if err != nil {
		return err
	}
	return s.run(ctx, s.DB(), "log of "+table, "DELETE FROM rowmill_actions WHERE table_name = ? AND at_us < ?", table, min(kept, some))
}

// leading is the lane of the rows of processes that keep all lanes of a table.
const leading = "all"

// Beat records that this process leads a table.
func (s *Store) Beat(ctx context.Context, table string) error {
	now := time.Now().UnixMicro()
	n, err := s.exec(ctx, s.DB(), "UPDATE rowmill_leaders SET by_whom = ?, at_us = ? WHERE table_name = ? AND lane = ?", engine.Process(), now, table, leading)
	if err == nil && n == 0 {
		err = s.insert(ctx, s.DB(), "rowmill_leaders (table_name, lane, by_whom, at_us)", []any{table, leading, engine.Process(), now})
		if errors.Is(err, engine.ErrDuplicateKey) { // the row exists; the UPDATE was in the same microsecond, and the server counts only changed rows
			err = nil
		}
	}
	return because("record the leader of "+table, err)
}

// Beats records that this process still leads the tables of its last Beat each, unless another one has taken them over since. It returns
// their number.
func (s *Store) Beats(ctx context.Context) (int64, error) {
	n, err := s.exec(ctx, s.DB(), "UPDATE rowmill_leaders SET at_us = ? WHERE by_whom = ? AND lane = ?", time.Now().UnixMicro(), engine.Process(), leading)
	return n, because("record the leader of tables", err)
}

// Leader returns the process that recorded last that it leads a table, and when.
func (s *Store) Leader(ctx context.Context, table string) (by string, at time.Time, err error) {
	_, err = s.one(ctx, s.DB(), "leaders of "+table, []any{&by, micros{&at}},
		"SELECT by_whom, at_us FROM rowmill_leaders WHERE table_name = ? ORDER BY at_us DESC LIMIT 1", table)
	return by, at, err
}

// SealedTo records that all periods up to a position are sealed. It never goes back.
func (s *Store) SealedTo(ctx context.Context, x Exec, table string, to int64) error {
	return s.run(ctx, x, "record up to where "+table+" is sealed", "UPDATE rowmill_tables SET sealed_to = ? WHERE name = ? AND sealed_to < ?", to, table, to)
}

// SealedUpTo returns the position up to which all periods of a table that refuses
// late rows are sealed; the lowest position if there are none.
func (s *Store) SealedUpTo(ctx context.Context, table string) (int64, error) {
	to := int64(math.MinInt64)
	_, err := s.one(ctx, s.DB(), "up to where "+table+" is sealed", []any{&to}, "SELECT sealed_to FROM rowmill_tables WHERE name = ?", table)
	return to, err
}

// DropTo records that retention is about to drop periods up to a position, which never goes back. It
// is committed before the first of their partitions is detached: see Before. Tables of an earlier version
// get what they lack for it, so that drops continue after an upgrade.
func (s *Store) DropTo(ctx context.Context, table string, to int64) error {
	note := func() error {
		return s.run(ctx, s.DB(), "record up to where periods of "+table+" are dropped", "UPDATE rowmill_tables SET dropped_to = ? WHERE name = ? AND dropped_to < ?", to, table, to)
	}
	err := note()
	if err == nil || engine.Retryable(err) {
		return err
	}
	if columns, _, lookErr := s.lacking(ctx); lookErr != nil || len(columns) == 0 {
		return err
	}
	if err := s.Ensure(ctx); err != nil {
		return err
	}
	return note()
}

// DroppedTo returns the position of DropTo, 0 if there is none.
func (s *Store) DroppedTo(ctx context.Context, table string) (to int64, err error) {
	_, err = s.one(ctx, s.DB(), "up to where periods of "+table+" are dropped", []any{&to}, "SELECT dropped_to FROM rowmill_tables WHERE name = ?", table)
	return to, s.outdated(ctx, err)
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
	// Checked is the position at which they were last compared with the rows.
	Checked int64
	// Rebuilt reports that the period is stored sorted, and compressed if requested.
	Rebuilt bool
	// Archive is the path of the file, ArchiveSum its checksum.
	Archive, ArchiveSum string
}

const periodColumns = "lower_pos, upper_pos, name, state, row_count, checksum, checked_pos, rebuilt, archive, archive_sum"

// Periods returns the recorded periods of a table in order, including dropped ones, but for those that are open again.
func (s *Store) Periods(ctx context.Context, table string) ([]Period, error) {
	return s.periods(ctx, table, " AND state <> ?", Unsealed)
}

// PeriodsFrom returns those that are not dropped and begin at a position or later. It
// reads no others, of which a table that is kept for years has many.
func (s *Store) PeriodsFrom(ctx context.Context, table string, from int64) ([]Period, error) {
	return s.periods(ctx, table, " AND lower_pos >= ? AND state NOT IN (?, ?)", from, Dropped, Unsealed)
}

// EverSealed is PeriodsFrom, including those that are open again.
func (s *Store) EverSealed(ctx context.Context, table string, from int64) ([]Period, error) {
	return s.periods(ctx, table, " AND lower_pos >= ? AND state <> ?", from, Dropped)
}

func (s *Store) periods(ctx context.Context, table, where string, args ...any) ([]Period, error) {
	return list(ctx, s, "periods of "+table, func(r *sql.Rows, p *Period) error {
		p.Table = table
		return r.Scan(&p.From, &p.To, &p.Name, &p.State, &p.Rows, &p.Checksum, &p.Checked, &p.Rebuilt, &p.Archive, &p.ArchiveSum)
	}, "SELECT "+periodColumns+" FROM rowmill_states WHERE table_name = ?"+where+" ORDER BY lower_pos", append([]any{table}, args...)...)
}

// Put records a period, in place of all within its bounds, in the transaction of x.
func (s *Store) Put(ctx context.Context, x Exec, p Period) error {
	if err := s.Forget(ctx, x, p.Table, p.Period); err != nil {
		return err
	}
	err := s.insert(ctx, x, "rowmill_states (table_name, "+periodColumns+", updated_us)",
		[]any{p.Table, p.From, p.To, p.Name, p.State, p.Rows, p.Checksum, p.Checked, bit(p.Rebuilt), p.Archive, p.ArchiveSum, time.Now().UnixMicro()})
	return because(fmt.Sprintf("period %s of %s", p.Name, p.Table), err)
}

// NotesInto is the table of notes of changed rows with its columns, as triggers write it.
const NotesInto = "rowmill_touched (table_name, lower_pos, upper_pos, writer)"

// Changed records that rows of periods have changed, in the transaction that consumes the notes of the changes. A
// period that is sealed stays so until its seal is checked.
func (s *Store) Changed(ctx context.Context, x Exec, table string, ranges []rolling.Period) error {
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

// SealsQuery is a query of the sealed periods of a table, by the quoted names of the table of states and the
// quoted name of the table: see ParseSeal.
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
func (s *Store) Unseal(ctx context.Context, x Exec, table string, within rolling.Period) error {
	return s.run(ctx, x, "periods of "+table, "UPDATE rowmill_states SET state = ? WHERE table_name = ? AND lower_pos >= ? AND upper_pos <= ?", Unsealed, table, within.From, within.To)
}

// Forget removes the records of periods within the bounds: they are open.
func (s *Store) Forget(ctx context.Context, x Exec, table string, within rolling.Period) error {
	return s.run(ctx, x, "periods of "+table, "DELETE FROM rowmill_states WHERE table_name = ? AND lower_pos >= ? AND upper_pos <= ?", table, within.From, within.To)
}
