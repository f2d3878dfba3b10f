package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// lockTries is how many times a step is tried when its lock is not granted.
// Each try waits lockWait, so a blocked step fails after about half a minute,
// and new statements never queue behind it for longer than one try.
const lockTries = 15

// Apply implements engine.DB. DDL runs on a separate connection with a short
// lock timeout, because a waiting ALTER blocks every new statement on its table.
func (db *DB) Apply(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, db.lockTries, steps)
}

// apply tries each step up to the given number of times.
func (db *DB) apply(ctx context.Context, tries int, steps []engine.Step) error {
	c, err := db.dialSession(ctx, engine.Connect{Maintenance: true})
	if err != nil {
		return err
	}
	defer discard(c)
	for _, s := range steps {
		known := false
		err := engine.RetryLocks(ctx, tries, func() (err error) {
			known, err = db.change(ctx, c, s)
			return err
		})
		if err != nil {
			return err
		}
		if known {
			continue
		}
		statements, err := db.dialect.Render(s)
		if err != nil {
			return err
		}
		if drop, ok := s.(engine.DropTable); ok && drop.Table.Rolling() {
			if err := engine.RetryLocks(ctx, tries, func() error { return db.dropOrphans(ctx, c, drop.Table) }); err != nil {
				return err
			}
		}
		for len(statements) > 0 {
			n := transactionLength(statements)
			if err := engine.RetryLocks(ctx, tries, func() error { return db.transact(ctx, c, statements[:n]...) }); err != nil {
				return err
			}
			statements = statements[n:]
		}
	}
	return nil
}

// transactionLength returns how many statements, counted from the first, form
// one transaction.
func transactionLength(statements []string) int {
	if statements[0] != beginStatement {
		return 1
	}
	for i, q := range statements {
		if q == commitStatement {
			return i + 1
		}
	}
	return len(statements)
}

// transact sends the statements one by one.
func (db *DB) transact(ctx context.Context, c *pgconn.PgConn, statements ...string) error {
	for _, q := range statements {
		if err := db.exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// atOnce sends the statements of a transaction as one message, so that the
// server does not wait for rowmill while it holds a lock that others wait for.
func (db *DB) atOnce(ctx context.Context, c *pgconn.PgConn, statements []string) error {
	return db.exec(ctx, c, statements...)
}

// exec sends statements as one message. A newline ends each statement, because
// it may end in a line comment.
func (db *DB) exec(ctx context.Context, c *pgconn.PgConn, statements ...string) error {
	if db.before != nil {
		db.before(c, statements)
	}
	results, err := c.Exec(ctx, strings.Join(statements, "\n;")).ReadAll()
	if err == nil {
		return nil
	}
	failed := statements[min(len(results), len(statements)-1)]
	err = &statementError{failed, classifyIn(ctx, err)}
	if !c.IsClosed() && c.TxStatus() != 'I' {
		_, rollback := c.Exec(ctx, "ROLLBACK").ReadAll()
		err = errors.Join(err, rollback)
	}
	return err
}

// A statementError is an error with the statement that failed.
type statementError struct {
	statement string
	err       error
}

func (e *statementError) Error() string { return engine.FirstWords(e.statement) + ": " + e.err.Error() }
func (e *statementError) Unwrap() error { return e.err }

// Try implements engine.Keeper. Only Replace and AddColumn, and before version
// 14 also a detach, take a lock that inserts or queries of the table wait for,
// and they hold them up for at most exclusiveWait.
//
// Before a step changes a period, it waits up to quietWait for the transactions
// that use the period, without holding a lock. A transaction that stays open
// therefore blocks the step, but never inserts.
func (db *DB) Try(ctx context.Context, steps ...engine.Step) error { return db.apply(ctx, 1, steps) }

// change makes one attempt at a step that can be resumed: it first checks which
// parts of it are done. It reports false for other steps.
func (db *DB) change(ctx context.Context, c *pgconn.PgConn, s engine.Step) (known bool, err error) {
	what := ""
	switch s := s.(type) {
	case engine.Detach:
		what, err = "detach partition "+s.Part.Name+" of "+s.Table.Name, db.detach(ctx, c, s)
	case engine.Attach:
		what, err = "attach partition "+s.Part.Name+" of "+s.Table.Name, db.attach(ctx, c, s)
	case engine.Replace:
		what, err = "replace partition "+s.New.Name+" of "+s.Table.Name, db.replace(ctx, c, s)
	case engine.DropPartition:
		what, err = "drop partition "+s.Drop.Name+" of "+s.Table.Name, db.drop(ctx, c, s)
	case engine.CreatePartitions:
		what, err = "create partitions of "+s.Table.Name, db.create(ctx, c, s)
	case engine.DropTables:
		what, err = "drop tables", db.dropTables(ctx, c, s)
	case engine.AddColumn:
		what, err = "add column "+s.Name+" to "+s.Table.Name, db.addColumn(ctx, c, s)
	default:
		return false, nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return true, err
}

// detach completes a Detach. An earlier attempt may have been interrupted
// during the detach, or before the rename.
func (db *DB) detach(ctx context.Context, c *pgconn.PgConn, s engine.Detach) error {
	statements, err := db.dialect.changeDetach(s)
	if err != nil {
		return err
	}
	child := childName(s.Table, s.Part)
	r, err := db.look(ctx, c, s.Table, child, s.Into)
	if err != nil {
		return err
	}
	switch {
	case r[child].ours && s.Into != child && r[s.Into].exists:
		return taken(s.Into)
	case r[child].ours:
		if err := db.unmark(ctx, c, s.Table, child, r[child]); err != nil {
			return err
		}
		if err := db.setFree(ctx, c, s.Table, child, statements); err != nil || !db.dialect.concurrent {
			return err
		}
	case s.Into == child && r[child].apart():
		return nil
	case r[child].apart() && r[s.Into].exists:
		return taken(s.Into)
	case r[child].apart():
		if err := db.unmark(ctx, c, s.Table, child, r[child]); err != nil {
			return err
		}
	case r[s.Into].apart():
		return nil
	default:
		return engine.Classed(engine.ErrNoTable, fmt.Errorf("neither this partition nor table %s exists", s.Into))
	}
	if s.Into == child {
		return nil
	}
	return db.transact(ctx, c, db.dialect.renameTable(child, s.Into))
}

// unmark removes the mark for dropping from a table that the step needs.
func (db *DB) unmark(ctx context.Context, c *pgconn.PgConn, t *engine.Table, name string, r relation) error {
	if r.comment != dropMark(t) {
		return nil
	}
	return db.transact(ctx, c, "COMMENT ON TABLE "+db.dialect.Quote(name)+" IS NULL")
}

func taken(name string) error {
	return engine.Classed(engine.ErrTableExists, fmt.Errorf("there is a table %s already", name))
}

// setFree detaches a partition or finishes an interrupted detach. If the detach
// is concurrent, it is the first of the statements.
func (db *DB) setFree(ctx context.Context, c *pgconn.PgConn, t *engine.Table, child string, statements []string) error {
	if !db.dialect.concurrent {
		if err := db.quiet(ctx, c, t.Name, child); err != nil {
			return err
		}
		return db.transact(ctx, c, statements[:transactionLength(statements)]...)
	}
	done, err := db.finishDetach(ctx, c, t, child)
	if err != nil || done {
		return err
	}
	// Once a concurrent detach has begun, the partition's rows are invisible
	// until it is finished.
	if err := db.quiet(ctx, c, t.Name, child); err != nil {
		return err
	}
	return db.transact(ctx, c, statements[0])
}

// finishDetach finishes the interrupted concurrent detaches of t: while one is
// pending, no partition can be detached, not even by Replace. The detached
// tables stay. It reports whether child was among them.
func (db *DB) finishDetach(ctx context.Context, c *pgconn.PgConn, t *engine.Table, child string) (done bool, err error) {
	if !db.dialect.concurrent {
		return false, nil
	}
	rows, err := ask(ctx, c, db.dialect.pending(t))
	if err != nil {
		return false, fmt.Errorf("look for unfinished detaches: %w", err)
	}
	for _, row := range rows {
		name := string(row[0])
		if err := db.transact(ctx, c, db.dialect.detach(t, name)+" FINALIZE"); err != nil {
			return false, err
		}
		done = done || name == child
	}
	return done, nil
}

// attach completes an Attach.
func (db *DB) attach(ctx context.Context, c *pgconn.PgConn, s engine.Attach) error {
	if err := fits(s.Table, s.Part); err != nil {
		return err
	}
	child := childName(s.Table, s.Part)
	r, err := db.look(ctx, c, s.Table, child, s.From)
	if err != nil {
		return err
	}
	switch {
	case r[child].holds(s.Table, s.Part.Period) && (s.From == child || !r[s.From].exists):
		return nil
	case s.From != child && r[child].exists:
		return taken(child)
	case !r[s.From].exists:
		return engine.Classed(engine.ErrNoTable, fmt.Errorf("neither this partition nor table %s exists", s.From))
	case !r[s.From].apart():
		return fmt.Errorf("%s is not a standalone table", s.From)
	}
	if err := db.unmark(ctx, c, s.Table, s.From, r[s.From]); err != nil {
		return err
	}
	if err := db.prepare(ctx, c, s.Table, s.From, s.Part); err != nil {
		return err
	}
	statements := db.dialect.attachChecked(s)
	left, err := db.leftChecks(ctx, c, s.From, s.Part)
	if err != nil {
		return err
	}
	for _, check := range left {
		statements = slices.Insert(statements, len(statements)-1, db.dialect.dropCheck(child, check))
	}
	return db.atOnce(ctx, c, statements)
}

// replace performs a Replace, unless it is already done.
func (db *DB) replace(ctx context.Context, c *pgconn.PgConn, s engine.Replace) error {
	if err := checkReplace(s); err != nil {
		return err
	}
	child := childName(s.Table, s.New)
	tables := []string{s.Table.Name}
	for _, p := range s.Old {
		tables = append(tables, childName(s.Table, p))
	}
	r, err := db.look(ctx, c, s.Table, slices.Concat([]string{child, s.With}, tables[1:], s.Out)...)
	if err != nil {
		return err
	}
	out := !slices.ContainsFunc(s.Out, func(name string) bool { return !r[name].apart() || r[name].comment != replacedMark })
	switch {
	case r[child].holds(s.Table, s.New.Period) && out && (!r[s.With].exists || slices.Contains(s.Out, s.With)):
		return nil
	case r[child].holds(s.Table, s.New.Period) && !slices.Contains(tables, child) && !r[s.With].exists:
		return nil // and the replaced tables were dropped since
	case !r[s.With].exists:
		return engine.Classed(engine.ErrNoTable, fmt.Errorf("there is no table %s", s.With))
	case !r[s.With].apart():
		return fmt.Errorf("%s is not a standalone table", s.With)
	case !slices.Contains(tables, child) && child != s.With && r[child].exists:
		return taken(child)
	}
	for i, p := range s.Old {
		switch old := r[tables[i+1]]; {
		case !old.ours:
			return engine.Classed(engine.ErrNoTable, fmt.Errorf("there is no partition %s", p.Name))
		case s.Out[i] != s.With && r[s.Out[i]].exists:
			return taken(s.Out[i])
		}
	}
	if _, err := db.finishDetach(ctx, c, s.Table, ""); err != nil {
		return err
	}
	if err := db.prepare(ctx, c, s.Table, s.With, s.New); err != nil {
		return err
	}
	left, err := db.leftChecks(ctx, c, s.With, s.New)
	if err != nil {
		return err
	}
	if err := db.seen(ctx, c, s.With, s.New); err != nil {
		return err
	}
	if err := db.quiet(ctx, c, tables...); err != nil {
		return err
	}
	statements := db.dialect.replaceChecked(s)
	for _, check := range left {
		statements = slices.Insert(statements, len(statements)-1, db.dialect.dropCheck(child, check))
	}
	return db.atOnce(ctx, c, statements)
}

// drop drops a partition, or the rest of it. It also drops the tables that
// other interrupted steps have left behind.
func (db *DB) drop(ctx context.Context, c *pgconn.PgConn, s engine.DropPartition) error {
	statements, err := db.dialect.dropPartition(s)
	if err != nil {
		return err
	}
	child := childName(s.Table, s.Drop)
	r, err := db.look(ctx, c, s.Table, child)
	if err != nil {
		return err
	}
	rel := r[child]
	switch {
	case rel.ours && !rel.pending && db.dialect.concurrent:
		if err := db.transact(ctx, c, statements[0]); err != nil { // the mark
			return err
		}
		if err := db.setFree(ctx, c, s.Table, child, statements[1:]); err != nil {
			return err
		}
	case rel.ours:
		if err := db.setFree(ctx, c, s.Table, child, statements); err != nil {
			return err
		}
		if err := db.transact(ctx, c, statements[len(statements)-1]); err != nil {
			return err
		}
	case rel.exists && rel.comment != dropMark(s.Table):
		return engine.Hinted(fmt.Errorf("table %s is not a partition of it", child),
			"DROP TABLE %s, where nobody needs it", db.dialect.Quote(child))
	}
	return db.dropOrphans(ctx, c, s.Table)
}

// dropOrphans drops former partitions of t that are marked for dropping.
func (db *DB) dropOrphans(ctx context.Context, c *pgconn.PgConn, t *engine.Table) error {
	if _, err := db.finishDetach(ctx, c, t, ""); err != nil {
		return err
	}
	rows, err := ask(ctx, c, "SELECT c.relname FROM pg_class c JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0 "+
		"WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_table_is_visible(c.oid) AND d.description = "+quoteText(dropMark(t)))
	if err != nil {
		return fmt.Errorf("look for tables to be dropped: %w", err)
	}
	for _, row := range rows {
		if err := db.transact(ctx, c, "DROP TABLE "+db.dialect.Quote(string(row[0]))); err != nil {
			return err
		}
	}
	return nil
}

// create creates the partitions that do not exist yet.
func (db *DB) create(ctx context.Context, c *pgconn.PgConn, s engine.CreatePartitions) error {
	for _, p := range s.New {
		one := s
		one.New = []rolling.Partition{p}
		statements, err := db.dialect.createPartitions(one)
		if err != nil {
			return err
		}
		child := childName(s.Table, p)
		err = db.transact(ctx, c, statements...)
		if errors.Is(err, engine.ErrTableExists) {
			r, looked := db.look(ctx, c, s.Table, child)
			if looked == nil && r[child].holds(s.Table, p.Period) {
				continue
			}
			err = errors.Join(err, looked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropTables drops tables, but no partitions: that would lock the parent.
func (db *DB) dropTables(ctx context.Context, c *pgconn.PgConn, s engine.DropTables) error {
	if len(s.Names) == 0 {
		return nil
	}
	r, err := db.look(ctx, c, nil, s.Names...)
	if err != nil {
		return err
	}
	for i, q := range db.dialect.changeDropTables(s) {
		name := s.Names[i]
		if r[name].of != "" {
			return fmt.Errorf("%s is a partition of %s", name, r[name].of)
		}
		if !r[name].exists {
			continue
		}
		if err := db.transact(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// addColumn adds a column, if that changes only catalogs.
func (db *DB) addColumn(ctx context.Context, c *pgconn.PgConn, s engine.AddColumn) error {
	statements, err := db.dialect.changeAddColumn(s)
	if err != nil {
		return err
	}
	rows, err := ask(ctx, c, "SELECT COALESCE((SELECT attnum FROM pg_attribute WHERE NOT attisdropped AND attrelid = "+db.dialect.regclass(s.Table)+
		" AND attname = "+quoteText(s.Name)+"), 0), COALESCE("+db.dialect.regclass(s.Table)+"::oid, 0)")
	if err != nil {
		return err
	}
	switch {
	case string(rows[0][1]) == "0":
		return engine.Classed(engine.ErrNoTable, errors.New("no such table"))
	case string(rows[0][0]) != "0":
		return nil
	}
	tables := []string{s.Table.Name}
	if rows, err = ask(ctx, c, db.dialect.parts(s.Table)); err != nil {
		return err
	}
	for _, row := range rows {
		if row[0] != nil {
			tables = append(tables, string(row[0]))
		}
	}
	if err := db.quiet(ctx, c, tables...); err != nil {
		return err
	}
	err = db.atOnce(ctx, c, statements)
	var server *pgconn.PgError
	var at *statementError
	if errors.As(err, &server) && server.Code == queryCanceled && errors.As(err, &at) && strings.HasPrefix(at.statement, "ALTER TABLE") {
		return engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("it takes more than %s, while all other sessions wait: %w", exclusiveWait, server)),
			"a column without a default or with a constant one, which takes no time; one that is computed for each row rewrites all periods")
	}
	return err
}

// queryCanceled is the SQLSTATE of a statement that exceeded its timeout.
const queryCanceled = "57014"

const checkpoint = "CHECKPOINT"

// insufficientPrivilege is the SQLSTATE of a missing privilege.
const insufficientPrivilege = "42501"

// settle renders Settle: VACUUM (ANALYZE) of each table, then a checkpoint.
func (d dialect) settle(s engine.Settle) []string {
	var out []string
	for _, t := range s.Tables {
		out = append(out, "VACUUM (ANALYZE) "+d.Quote(t.Name))
	}
	return append(out, checkpoint)
}

// Settle implements engine.DB. It changes no setting.
func (db *DB) Settle(ctx context.Context, s engine.Settle) (warnings []string, err error) {
	cfg := db.config.Copy()
	// VACUUM without the privilege for a table only raises a warning.
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" && len(warnings) < mostWarnings {
			warnings = append(warnings, "settle: "+n.Message)
		}
	}
	c, err := db.connectAs(ctx, cfg, engine.Connect{Maintenance: true})
	if err != nil {
		return nil, err
	}
	defer discard(c)
	for _, q := range db.dialect.settle(s) {
		err := engine.RetryLocks(ctx, db.lockTries, func() error { return db.transact(ctx, c, q) })
		var server *pgconn.PgError
		if q == checkpoint && errors.As(err, &server) && server.Code == insufficientPrivilege {
			warnings = append(warnings, fmt.Sprintf("settle: no checkpoint, dirty pages are written later: %s; GRANT pg_checkpoint lets an account do it from PostgreSQL 15 on", server.Message))
			continue
		}
		if err != nil {
			return warnings, fmt.Errorf("settle: %w", err)
		}
	}
	return warnings, nil
}
