// Package state keeps what rowmill knows of rolling tables in their own
// database, in tables rowmill_*, so that any host may keep them: declarations,
// periods that are sealed and archived, changes under way, what was done, the
// ledger of batches and the buckets whose roll-up is stale.
//
// Times in these tables are microseconds since 1970 in UTC, and positions are
// those of package rolling. Rows of a table whose name a method takes are
// found by that name.
package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/engine"
)

// A Store is the tables rowmill_* of one database.
type Store struct{ db engine.Keeper }

// New returns the store of a database. Ensure creates its tables.
func New(db engine.Keeper) *Store { return &Store{db} }

// An Exec runs statements: a *sql.DB, *sql.Conn or *sql.Tx of the database, so
// that a note commits with what it is about.
type Exec interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// DB returns what runs statements outside of any transaction.
func (s *Store) DB() Exec { return s.db.SQL() }

// schema is the tables. Every name has at most 191 characters, so that a key of
// two fits InnoDB's 3072 bytes.
func schema(text string) []string {
	const name = "VARCHAR(191) NOT NULL"
	return []string{
		// What was applied: one row for each rolling table.
		"CREATE TABLE IF NOT EXISTS rowmill_tables (name " + name + ", declaration " + text + " NOT NULL, period VARCHAR(40) NOT NULL, " +
			"revision BIGINT NOT NULL, sealed_to BIGINT NOT NULL, created_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, PRIMARY KEY (name))",
		// Periods of which more is known than the catalog says.
		"CREATE TABLE IF NOT EXISTS rowmill_states (table_name " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"name " + name + ", state VARCHAR(20) NOT NULL, row_count BIGINT NOT NULL, checksum VARCHAR(80) NOT NULL, checked_pos BIGINT NOT NULL, " +
			"rebuilt BIGINT NOT NULL, archive " + text + " NOT NULL, archive_sum VARCHAR(80) NOT NULL, updated_us BIGINT NOT NULL, " +
			"PRIMARY KEY (table_name, lower_pos))",
		// Changes of several steps that are under way.
		"CREATE TABLE IF NOT EXISTS rowmill_journal (table_name " + name + ", id " + name + ", kind VARCHAR(40) NOT NULL, step VARCHAR(40) NOT NULL, " +
			"data " + text + " NOT NULL, started_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, tries BIGINT NOT NULL, error " + text + " NOT NULL, " +
			"PRIMARY KEY (table_name, id))",
		// What was done, and what failed: a log for people.
		"CREATE TABLE IF NOT EXISTS rowmill_actions (table_name " + name + ", at_us BIGINT NOT NULL, serial BIGINT NOT NULL, action VARCHAR(40) NOT NULL, " +
			"detail " + text + " NOT NULL, took_us BIGINT NOT NULL, error " + text + " NOT NULL, locked BIGINT NOT NULL, by_whom VARCHAR(191) NOT NULL, " +
			"PRIMARY KEY (table_name, at_us, serial))",
		// Who keeps a table.
		"CREATE TABLE IF NOT EXISTS rowmill_leaders (table_name " + name + ", lane VARCHAR(20) NOT NULL, by_whom VARCHAR(191) NOT NULL, " +
			"at_us BIGINT NOT NULL, PRIMARY KEY (table_name, lane))",
		// Batches that were loaded, each written in the transaction of its rows:
		// what has been loaded isn't loaded again.
		"CREATE TABLE IF NOT EXISTS rowmill_ledger (table_name " + name + ", batch " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"sent BIGINT NOT NULL, inserted BIGINT NOT NULL, duplicate BIGINT NOT NULL, rejected BIGINT NOT NULL, at_us BIGINT NOT NULL, " +
			"PRIMARY KEY (table_name, batch))",
		// Files and streams that are loaded, or were: how much of each is in the
		// table, and the hash of that, so that the same file is known again.
		"CREATE TABLE IF NOT EXISTS rowmill_sources (table_name " + name + ", source " + name + ", path " + text + " NOT NULL, kind VARCHAR(20) NOT NULL, " +
			"loaded BIGINT NOT NULL, loaded_lines BIGINT NOT NULL, loaded_hash VARCHAR(40) NOT NULL, head BIGINT NOT NULL, head_hash VARCHAR(40) NOT NULL, " +
			"options " + text + " NOT NULL, sent BIGINT NOT NULL, inserted BIGINT NOT NULL, duplicate BIGINT NOT NULL, rejected BIGINT NOT NULL, finished BIGINT NOT NULL, " +
			"started_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, PRIMARY KEY (table_name, source))",
		// Where a file was cut into batches, noted before any of them is sent.
		"CREATE TABLE IF NOT EXISTS rowmill_cuts (table_name " + name + ", source " + name + ", lower_byte BIGINT NOT NULL, upper_byte BIGINT NOT NULL, " +
			"line BIGINT NOT NULL, line_count BIGINT NOT NULL, hash VARCHAR(40) NOT NULL, PRIMARY KEY (table_name, source, lower_byte))",
		// Where the rows of files that are loaded lie: at least so many of each
		// in each range of positions, both ends included.
		"CREATE TABLE IF NOT EXISTS rowmill_loaded (table_name " + name + ", source " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"row_count BIGINT NOT NULL, PRIMARY KEY (table_name, source, lower_pos, upper_pos))",
		// Ranges of positions, both ends included, where rows have changed since
		// the roll-ups last looked. They are consumed by being deleted.
		"CREATE TABLE IF NOT EXISTS rowmill_touched (table_name " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"writer " + name + ", PRIMARY KEY (table_name, lower_pos, upper_pos, writer))",
		// How far each roll-up is. Its spec is how its rows and its view are
		// made, as JSON.
		"CREATE TABLE IF NOT EXISTS rowmill_rollups (table_name " + name + ", name " + name + ", source " + name + ", watermark BIGINT NOT NULL, " +
			"sealed_to BIGINT NOT NULL, checked_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, spec " + text + " NOT NULL, PRIMARY KEY (table_name, name))",
		// Buckets below the watermark that must be computed again.
		"CREATE TABLE IF NOT EXISTS rowmill_stale (rollup_name " + name + ", bucket BIGINT NOT NULL, PRIMARY KEY (rollup_name, bucket))",
	}
}

// Ensure creates the tables that are missing.
func (s *Store) Ensure(ctx context.Context) error {
	for _, q := range s.Statements() {
		if _, err := s.db.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("create rowmill's own tables: %s: %w", strings.SplitN(q, " (", 2)[0], s.db.Classify(err))
		}
	}
	return nil
}

// Statements returns what Ensure would run, or that part of it which creates the
// tables of these names, for a dry run.
func (s *Store) Statements(of ...string) []string {
	words := s.db.Words()
	var out []string
	for i, q := range schema(words.Text()) {
		if len(of) == 0 || slices.Contains(of, names()[i]) {
			out = append(out, q+words.OwnTable())
		}
	}
	return out
}

func (s *Store) exec(ctx context.Context, x Exec, q string, args ...any) (int64, error) {
	r, err := x.ExecContext(ctx, s.db.Bind(q), args...)
	if err != nil {
		return 0, s.db.Classify(err)
	}
	return r.RowsAffected()
}

func (s *Store) query(ctx context.Context, x Exec, scan func(*sql.Rows) error, q string, args ...any) error {
	return engine.Each(ctx, s.db, x, scan, q, args...)
}

// Missing returns the names of those of the tables that aren't there.
func (s *Store) Missing(ctx context.Context) ([]string, error) {
	var out []string
	for _, name := range names() {
		_, err := s.db.Describe(ctx, name)
		if errors.Is(err, engine.ErrNoTable) {
			out = append(out, name)
		} else if err != nil {
			return nil, fmt.Errorf("look for table %s: %w", name, err)
		}
	}
	return out, nil
}

// names are those of the tables, in the order of schema.
func names() []string {
	var out []string
	for _, q := range schema("") {
		name, _, _ := strings.Cut(strings.TrimPrefix(q, "CREATE TABLE IF NOT EXISTS "), " ")
		out = append(out, name)
	}
	return out
}
