package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
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
	Period           string
	Revision         int64
	Created, Updated time.Time
}

// Declared returns the applied declaration of the table, or nil.
func (s *Store) Declared(ctx context.Context, table string) (*Declared, error) {
	d := Declared{Name: table}
	var created, updated int64
	err := s.DB().QueryRowContext(ctx, s.db.Bind("SELECT declaration, period, revision, created_us, updated_us FROM rowmill_tables WHERE name = ?"), table).
		Scan(&d.Text, &d.Period, &d.Revision, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the declaration applied for %s: %w", table, s.db.Classify(err))
	}
	d.Created, d.Updated = time.UnixMicro(created), time.UnixMicro(updated)
	return &d, nil
}

// Declare records an applied declaration, as the next revision.
func (s *Store) Declare(ctx context.Context, x Exec, table, text, period string) error {
	now := time.Now().UnixMicro()
	n, err := s.exec(ctx, x, "UPDATE rowmill_tables SET declaration = ?, period = ?, revision = revision + 1, updated_us = ? WHERE name = ?", text, period, now, table)
	if err == nil && n == 0 {
		_, err = s.exec(ctx, x, "INSERT INTO rowmill_tables (name, declaration, period, revision, sealed_to, created_us, updated_us) VALUES (?, ?, ?, 1, ?, ?, ?)", table, text, period, int64(math.MinInt64), now, now)
	}
	if err != nil {
		return fmt.Errorf("record the declaration of %s: %w", table, err)
	}
	return nil
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
	By     string // host and process
}

// keepActions is the number of actions kept per table, trimActions the number that
// are removed at a time.
const keepActions, trimActions = 1000, 10000

// Log records an action. The log is for users: nothing depends on it.
func (s *Store) Log(ctx context.Context, a Action) error {
	if a.By == "" {
		a.By = Me()
	}
	at := a.At.UnixMicro()
	locked := 0
	if a.Locked {
		locked = 1
	}
	_, err := s.exec(ctx, s.DB(), "INSERT INTO rowmill_actions (table_name, at_us, serial, action, detail, took_us, error, locked, by_whom) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.Table, at, time.Now().UnixNano()%1e9*10000+int64(os.Getpid()%10000), a.Action, a.Detail, a.Took.Microseconds(), a.Error, locked, a.By)
	if err != nil {
		return fmt.Errorf("log of %s: %w", a.Table, err)
	}
	return nil
}

// Actions returns the last n actions of a table, newest first.
func (s *Store) Actions(ctx context.Context, table string, n int) ([]Action, error) {
	var out []Action
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		a := Action{Table: table}
		var at, took, locked int64
		err := r.Scan(&at, &a.Action, &a.Detail, &took, &a.Error, &locked, &a.By)
		a.Locked = locked != 0
		a.At, a.Took = time.UnixMicro(at), time.Duration(took)*time.Microsecond
		out = append(out, a)
		return err
	}, fmt.Sprintf("SELECT at_us, action, detail, took_us, error, locked, by_whom FROM rowmill_actions WHERE table_name = ? ORDER BY at_us DESC, serial DESC LIMIT %d", n), table)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", table, err)
	}
	return out, nil
}

// TrimActions removes the oldest actions of a table, beyond the newest ones that are
// kept.
func (s *Store) TrimActions(ctx context.Context, table string) error {
	at := func(order string, offset int) (pos int64, err error) {
		q := fmt.Sprintf("SELECT at_us FROM rowmill_actions WHERE table_name = ? ORDER BY at_us %s LIMIT 1 OFFSET %d", order, offset)
		err = s.DB().QueryRowContext(ctx, s.db.Bind(q), table).Scan(&pos)
		if errors.Is(err, sql.ErrNoRows) {
			return math.MaxInt64, nil
		}
		return pos, s.db.Classify(err)
	}
	kept, err := at("DESC", keepActions-1)
	if err != nil || kept == math.MaxInt64 {
		return err
	}
	some, err := at("ASC", trimActions)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, s.DB(), "DELETE FROM rowmill_actions WHERE table_name = ? AND at_us < ?", table, min(kept, some))
	return err
}

// A Leader is a process that leads a lane of a table, or was the last to do so.
type Leader struct {
	Lane, By string
	At       time.Time
}

// Beat records that this process leads a lane of a table.
func (s *Store) Beat(ctx context.Context, table, lane string) error {
	now := time.Now().UnixMicro()
	n, err := s.exec(ctx, s.DB(), "UPDATE rowmill_leaders SET by_whom = ?, at_us = ? WHERE table_name = ? AND lane = ?", Me(), now, table, lane)
	if err == nil && n == 0 {
		_, err = s.exec(ctx, s.DB(), "INSERT INTO rowmill_leaders (table_name, lane, by_whom, at_us) VALUES (?, ?, ?, ?)", table, lane, Me(), now)
		if errors.Is(err, engine.ErrDuplicateKey) { // the row exists; the UPDATE was in the same microsecond, and the server counts only changed rows
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("record the leader of %s: %w", table, err)
	}
	return nil
}

// Leaders returns the leaders of a table, newest first.
func (s *Store) Leaders(ctx context.Context, table string) ([]Leader, error) {
	var out []Leader
	err := s.query(ctx, s.DB(), func(r *sql.Rows) error {
		var l Leader
		var at int64
		err := r.Scan(&l.Lane, &l.By, &at)
		l.At = time.UnixMicro(at)
		out = append(out, l)
		return err
	}, "SELECT lane, by_whom, at_us FROM rowmill_leaders WHERE table_name = ? ORDER BY at_us DESC", table)
	if err != nil {
		return nil, fmt.Errorf("leaders of %s: %w", table, err)
	}
	return out, nil
}

// Me returns the name of this process in logs: host and process id.
func Me() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Undeclare removes a table's applied declaration, and all other information about
// it except the log of actions.
func (s *Store) Undeclare(ctx context.Context, x Exec, table string) error {
	for _, q := range []string{"DELETE FROM rowmill_tables WHERE name = ?", "DELETE FROM rowmill_states WHERE table_name = ?", "DELETE FROM rowmill_leaders WHERE table_name = ?"} {
		if _, err := s.exec(ctx, x, q, table); err != nil {
			return fmt.Errorf("remove the declaration of %s: %w", table, err)
		}
	}
	return nil
}

// RemoveDeclaration removes the declaration that was applied for a table. What is known of
// its periods stays.
func (s *Store) RemoveDeclaration(ctx context.Context, x Exec, table string) error {
	if _, err := s.exec(ctx, x, "DELETE FROM rowmill_tables WHERE name = ?", table); err != nil {
		return fmt.Errorf("remove the declaration of %s: %w", table, err)
	}
	return nil
}

// SealedTo notes that all periods up to a position are sealed. It never goes
// back.
func (s *Store) SealedTo(ctx context.Context, x Exec, table string, to int64) error {
	if _, err := s.exec(ctx, x, "UPDATE rowmill_tables SET sealed_to = ? WHERE name = ? AND sealed_to < ?", to, table, to); err != nil {
		return fmt.Errorf("record up to where %s is sealed: %w", table, err)
	}
	return nil
}

// SealedUpTo returns the position up to which all periods of a table that refuses
// late rows are sealed; the lowest position if there are none.
func (s *Store) SealedUpTo(ctx context.Context, table string) (int64, error) {
	to := int64(math.MinInt64)
	err := s.DB().QueryRowContext(ctx, s.db.Bind("SELECT sealed_to FROM rowmill_tables WHERE name = ?"), table).Scan(&to)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("up to where %s is sealed: %w", table, s.db.Classify(err))
	}
	return to, nil
}

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
