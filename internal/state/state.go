// Package state stores rowmill's information about rolling tables: declarations, sealed and
// archived periods, changes in progress, the log of actions, the ledger of batches and the stale
// buckets of roll-ups. The information is in tables named rowmill_* in the database of the rolling
// tables, so that any host may maintain the rolling tables.
//
// Times in these tables are microseconds since 1970 in UTC, and positions are those of package
// rolling. A method with a table name as an argument accesses only the records about that table.
package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Store represents the rowmill_* tables of one database.
type Store struct {
	*database
	declarations
	periods
	journal
	takeovers
	identities
	actions
	leaders
	schedule
	pauses
	requests
	ledger
	publications
}

// A database creates rowmill's own tables, and runs statements on them.
type database struct{ db engine.Keeper }

// New returns the store of a database. Ensure creates its tables.
func New(db engine.Keeper) *Store {
	d := &database{db}
	return &Store{
		database:     d,
		declarations: declarations{d}, periods: periods{d}, journal: journal{d},
		takeovers: takeovers{d}, identities: identities{d},
		actions: actions{d}, leaders: leaders{d}, schedule: schedule{d}, pauses: pauses{d}, requests: requests{d},
		ledger: ledger{d}, publications: publications{d},
	}
}

// An Exec is engine.Exec. In a transaction, a record commits together with what it describes.
type Exec = engine.Exec

// DB returns an Exec outside any transaction.
func (s *database) DB() Exec { return s.db.SQL() }

// schema returns the statements that create the tables. A column for a name has at most 191
// characters, so that a key of two such columns fits InnoDB's 3072 bytes.
func schema(text string) []string {
	const name = "VARCHAR(191) NOT NULL"
	counts := strings.ReplaceAll(countColumns+", ", ",", " BIGINT NOT NULL,")
	return []string{
		// The applied declaration of each rolling table, one row per table.
		"CREATE TABLE IF NOT EXISTS rowmill_tables (name " + name + ", declaration " + text + " NOT NULL, period VARCHAR(40) NOT NULL, " +
			"revision BIGINT NOT NULL, sealed_to BIGINT NOT NULL, created_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, dropped_to BIGINT NOT NULL DEFAULT 0, format BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (name))",
		// Periods with information beyond the catalog's.
		"CREATE TABLE IF NOT EXISTS rowmill_states (table_name " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"name " + name + ", state VARCHAR(20) NOT NULL, row_count BIGINT NOT NULL, checksum VARCHAR(80) NOT NULL, checked_pos BIGINT NOT NULL, " +
			"rebuilt BIGINT NOT NULL, archive " + text + " NOT NULL, archive_sum VARCHAR(80) NOT NULL, updated_us BIGINT NOT NULL, " +
			"PRIMARY KEY (table_name, lower_pos))",
		// Changes of several steps that are in progress.
		"CREATE TABLE IF NOT EXISTS rowmill_journal (table_name " + name + ", id " + name + ", kind VARCHAR(40) NOT NULL, step VARCHAR(40) NOT NULL, " +
			"data " + text + " NOT NULL, started_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, tries BIGINT NOT NULL, error " + text + " NOT NULL, " +
			"PRIMARY KEY (table_name, id))",
		// A log of actions, successful and failed, for users.
		"CREATE TABLE IF NOT EXISTS rowmill_actions (table_name " + name + ", at_us BIGINT NOT NULL, serial BIGINT NOT NULL, action VARCHAR(40) NOT NULL, " +
			"detail " + text + " NOT NULL, took_us BIGINT NOT NULL, error " + text + " NOT NULL, locked BIGINT NOT NULL, by_whom VARCHAR(191) NOT NULL, " +
			"PRIMARY KEY (table_name, at_us, serial))",
		// The process that leads a table.
		"CREATE TABLE IF NOT EXISTS rowmill_leaders (table_name " + name + ", lane VARCHAR(20) NOT NULL, by_whom VARCHAR(191) NOT NULL, " +
			"at_us BIGINT NOT NULL, PRIMARY KEY (table_name, lane))",
		// Until when policies of a table are paused, and why.
		"CREATE TABLE IF NOT EXISTS rowmill_pauses (table_name " + name + ", policy VARCHAR(20) NOT NULL, until_us BIGINT NOT NULL, " +
			"reason " + text + " NOT NULL, by_whom VARCHAR(191) NOT NULL, PRIMARY KEY (table_name, policy))",
		// Work that the process that keeps a table is asked for.
		"CREATE TABLE IF NOT EXISTS rowmill_requests (table_name " + name + ", work VARCHAR(20) NOT NULL, by_whom VARCHAR(191) NOT NULL, " +
			"taken_by VARCHAR(191) NOT NULL, at_us BIGINT NOT NULL, done BIGINT NOT NULL, error " + text + " NOT NULL, PRIMARY KEY (table_name, work))",
		// What each policy of a table does next, for rowmill_jobs.
		"CREATE TABLE IF NOT EXISTS rowmill_schedule (table_name " + name + ", policy VARCHAR(20) NOT NULL, task " + text + " NOT NULL, next_us BIGINT NOT NULL, " +
			"problem " + text + " NOT NULL, failures BIGINT NOT NULL, since_us BIGINT NOT NULL, PRIMARY KEY (table_name, policy))",
		// Loaded batches, each recorded in the transaction of its rows, so that nothing is loaded twice.
		"CREATE TABLE IF NOT EXISTS rowmill_ledger (table_name " + name + ", batch " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			counts + "at_us BIGINT NOT NULL, " +
			"PRIMARY KEY (table_name, batch))",
		// Files and streams whose load has begun: the offset up to which each is loaded, and the
		// hash of the bytes before that offset, by which the same file is recognised.
		"CREATE TABLE IF NOT EXISTS rowmill_sources (table_name " + name + ", source " + name + ", path " + text + " NOT NULL, kind VARCHAR(20) NOT NULL, " +
			"loaded BIGINT NOT NULL, loaded_lines BIGINT NOT NULL, loaded_hash VARCHAR(40) NOT NULL, head BIGINT NOT NULL, head_hash VARCHAR(40) NOT NULL, " +
			"options " + text + " NOT NULL, " + counts + "finished BIGINT NOT NULL, " +
			"started_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, PRIMARY KEY (table_name, source))",
		// Where a file was cut into batches, recorded before any of them is sent.
		"CREATE TABLE IF NOT EXISTS rowmill_cuts (table_name " + name + ", source " + name + ", lower_byte BIGINT NOT NULL, upper_byte BIGINT NOT NULL, " +
			"line BIGINT NOT NULL, line_count BIGINT NOT NULL, hash VARCHAR(40) NOT NULL, PRIMARY KEY (table_name, source, lower_byte))",
		// The rows of a file for one period that are loaded as a whole, while the file is being loaded.
		"CREATE TABLE IF NOT EXISTS rowmill_publications (table_name " + name + ", source " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"lower_byte BIGINT NOT NULL, upper_byte BIGINT NOT NULL, state VARCHAR(20) NOT NULL, sent BIGINT NOT NULL, inserted BIGINT NOT NULL, " +
			"duplicate BIGINT NOT NULL, different BIGINT NOT NULL, rejected BIGINT NOT NULL, first_pos BIGINT NOT NULL, last_pos BIGINT NOT NULL, updated_us BIGINT NOT NULL, " +
			"PRIMARY KEY (table_name, source, lower_pos))",
		// Where the rows of loaded files lie: a file inserted at least row_count rows at
		// positions from lower_pos to upper_pos, both included.
		"CREATE TABLE IF NOT EXISTS rowmill_loaded (table_name " + name + ", source " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"row_count BIGINT NOT NULL, PRIMARY KEY (table_name, source, lower_pos, upper_pos))",
		// Ranges of positions, both ends included, in which rows have changed. Before
		// roll-ups are computed, each range is turned into stale buckets and deleted.
		"CREATE TABLE IF NOT EXISTS rowmill_touched (table_name " + name + ", lower_pos BIGINT NOT NULL, upper_pos BIGINT NOT NULL, " +
			"writer " + name + ", PRIMARY KEY (table_name, lower_pos, upper_pos, writer))",
		// The progress of each roll-up. Its spec, as JSON, defines how its rows and its view are made.
		"CREATE TABLE IF NOT EXISTS rowmill_rollups (table_name " + name + ", name " + name + ", source " + name + ", watermark BIGINT NOT NULL, " +
			"sealed_to BIGINT NOT NULL, checked_us BIGINT NOT NULL, updated_us BIGINT NOT NULL, spec " + text + " NOT NULL, PRIMARY KEY (table_name, name))",
		// Buckets below the watermark that must be computed again.
		"CREATE TABLE IF NOT EXISTS rowmill_stale (rollup_name " + name + ", bucket BIGINT NOT NULL, PRIMARY KEY (rollup_name, bucket))",
		// When apply takes over a table, it may take something away, such as another program's job. The
		// statements, as JSON, give it back.
		"CREATE TABLE IF NOT EXISTS rowmill_undo (table_name " + name + ", serial BIGINT NOT NULL, what " + text + " NOT NULL, statements " + text + " NOT NULL, " +
			"at_us BIGINT NOT NULL, PRIMARY KEY (table_name, serial))",
		// For exact roll-ups: which partitions' rows they have read, and what identifies each partition.
		// A row without a name says when the partitions were last compared with these records.
		"CREATE TABLE IF NOT EXISTS rowmill_parts (table_name " + name + ", name " + name + ", identity " + name + ", at_us BIGINT NOT NULL, PRIMARY KEY (table_name, name))",
	}
}

// laterColumns are the columns that tables of an earlier version lack. They are numbers, and 0 in
// existing rows.
var laterColumns = map[string][]string{"rowmill_tables": {"format"}}

// Ensure creates missing tables, columns and views.
func (s *database) Ensure(ctx context.Context) (err error) {
	// PostgreSQL's IF NOT EXISTS fails while another process creates the same table.
	for range ensureTries {
		err = s.ensure(ctx)
		if !errors.Is(err, engine.ErrDuplicateKey) && !errors.Is(err, engine.ErrTableExists) || engine.Sleep(ctx, engine.Jitter(ensurePause)) != nil {
			break
		}
	}
	return err
}

const ensureTries, ensurePause = 10, 100 * time.Millisecond

func (s *database) ensure(ctx context.Context) error {
	for _, q := range s.Statements() {
		if err := s.run(ctx, s.DB(), "create rowmill's own tables: "+strings.SplitN(q, " (", 2)[0], q); err != nil {
			return err
		}
	}
	_, statements, err := s.lacking(ctx)
	for _, q := range statements {
		if err := s.run(ctx, s.DB(), "add to rowmill's own tables: "+q, q); err != nil {
			// Another process may have added the column meanwhile.
			if _, left, lookErr := s.lacking(ctx); lookErr != nil || slices.Contains(left, q) {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	views, statements, err := s.lackingViews(ctx)
	for _, q := range statements {
		if err := s.run(ctx, s.DB(), "create rowmill's own views: "+strings.Join(views, ", "), q); err != nil && !errors.Is(err, engine.ErrTableExists) {
			return err
		}
	}
	return err
}

// lacking returns the columns that tables of an earlier version lack, as TABLE.COLUMN, and the
// statements that add them.
func (s *database) lacking(ctx context.Context) (columns, statements []string, err error) {
	for _, table := range slices.Sorted(maps.Keys(laterColumns)) {
		is, err := s.db.Describe(ctx, table)
		if errors.Is(err, engine.ErrNoTable) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look for the columns of %s: %w", table, err)
		}
		for _, c := range laterColumns[table] {
			if is.Find(c) == nil {
				columns = append(columns, table+"."+c)
				statements = append(statements, "ALTER TABLE "+table+" ADD COLUMN "+c+" BIGINT NOT NULL DEFAULT 0")
			}
		}
	}
	return columns, statements, nil
}

// Statements returns the statements of Ensure, or those that create the given tables.
func (s *database) Statements(of ...string) []string {
	words := s.db.Words()
	var out []string
	for _, q := range schema(words.Text()) {
		if len(of) == 0 || slices.Contains(of, nameOf(q)) {
			out = append(out, q+words.OwnTable())
		}
	}
	return out
}

// Names returns the names of the tables, that of the declarations first.
func (s *database) Names() (out []string) {
	for _, q := range schema("") {
		out = append(out, nameOf(q))
	}
	return out
}

// Missing returns the names of the missing tables, columns (as TABLE.COLUMN) and views, and the
// statements that create them.
func (s *database) Missing(ctx context.Context) (names, statements []string, err error) {
	for _, q := range schema("") {
		name := nameOf(q)
		_, err := s.db.Describe(ctx, name)
		if errors.Is(err, engine.ErrNoTable) {
			names, statements = append(names, name), append(statements, s.Statements(name)...)
		} else if err != nil {
			return nil, nil, fmt.Errorf("look for table %s: %w", name, err)
		}
	}
	for _, lacking := range []func(context.Context) ([]string, []string, error){s.lacking, s.lackingViews} {
		more, adding, err := lacking(ctx)
		if err != nil {
			return nil, nil, err
		}
		names, statements = append(names, more...), append(statements, adding...)
	}
	return names, statements, nil
}

func nameOf(create string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(create, "CREATE TABLE IF NOT EXISTS "), " ")
	return name
}

func (s *database) exec(ctx context.Context, x Exec, q string, args ...any) (int64, error) {
	r, err := x.ExecContext(ctx, s.db.Bind(q), args...)
	if err != nil {
		return 0, s.db.Classify(err)
	}
	return r.RowsAffected()
}

// run executes a statement; an error's text begins with what.
func (s *database) run(ctx context.Context, x Exec, what, q string, args ...any) error {
	_, err := s.exec(ctx, x, q, args...)
	return because(what, err)
}

// insert inserts rows into a table with its columns, as "t (a, b)".
func (s *database) insert(ctx context.Context, x Exec, into string, rows ...[]any) error {
	row := places(len(rows[0]))
	_, err := s.exec(ctx, x, "INSERT INTO "+into+" VALUES "+row+strings.Repeat(", "+row, len(rows)-1), slices.Concat(rows...)...)
	return err
}

// places returns n placeholders: (?, ?).
func places(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// one reads a row, and reports whether there is one.
func (s *database) one(ctx context.Context, x Exec, what string, into []any, q string, args ...any) (bool, error) {
	err := x.QueryRowContext(ctx, s.db.Bind(q), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, because(what, s.db.Classify(err))
}

// list reads the rows of a query.
func list[T any](ctx context.Context, s *database, what string, scan func(*sql.Rows, *T) error, q string, args ...any) (out []T, err error) {
	out, err = engine.ListOf(ctx, s.db, s.DB(), scan, q, args...)
	return out, because(what, err)
}

func (s *database) within(ctx context.Context, fn func(*sql.Tx) error) error {
	return engine.InTx(ctx, s.db, s.db.SQL(), nil, fn)
}

func because(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// micros reads microseconds since 1970 into a time.
type micros struct{ at *time.Time }

func (m micros) Scan(from any) error {
	var us sql.Null[int64]
	err := us.Scan(from)
	*m.at = time.UnixMicro(us.V)
	return err
}

// bit is how tables store a bool.
func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
