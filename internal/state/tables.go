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
		return nil, fmt.Errorf("what was applied for %s: %w", table, s.db.Classify(err))
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
		return fmt.Errorf("note what is applied for %s: %w", table, err)
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

// keepActions is the number of actions kept per table.
const keepActions = 1000

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

// TrimActions removes all but the newest actions of a table.
func (s *Store) TrimActions(ctx context.Context, table string) error {
	newest, err := s.Actions(ctx, table, keepActions)
	if err != nil || len(newest) < keepActions {
		return err
	}
	_, err = s.exec(ctx, s.DB(), "DELETE FROM rowmill_actions WHERE table_name = ? AND at_us < ?", table, newest[len(newest)-1].At.UnixMicro())
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
		return fmt.Errorf("note who keeps %s: %w", table, err)
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
		return nil, fmt.Errorf("who keeps %s: %w", table, err)
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
			return fmt.Errorf("forget what was applied for %s: %w", table, err)
		}
	}
	return nil
}

// Unapply removes the declaration that was applied for a table. What is known of
// its periods stays.
func (s *Store) Unapply(ctx context.Context, x Exec, table string) error {
	if _, err := s.exec(ctx, x, "DELETE FROM rowmill_tables WHERE name = ?", table); err != nil {
		return fmt.Errorf("forget what was applied for %s: %w", table, err)
	}
	return nil
}

// SealedTo notes that all periods up to a position are sealed. It never goes
// back.
func (s *Store) SealedTo(ctx context.Context, x Exec, table string, to int64) error {
	if _, err := s.exec(ctx, x, "UPDATE rowmill_tables SET sealed_to = ? WHERE name = ? AND sealed_to < ?", to, table, to); err != nil {
		return fmt.Errorf("note up to where %s is sealed: %w", table, err)
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
