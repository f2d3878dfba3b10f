package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// lockTries is how often a step tries to get its lock. Each attempt lasts up to lockWait, all of
// them together half a minute. New statements queue behind the step for one attempt at most.
const lockTries = 15

// Apply implements engine.DB. DDL runs on a separate connection with a short
// lock timeout, because a waiting ALTER blocks every new statement on its table.
func (db *server) Apply(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, db.lockTries, steps)
}

// Try implements engine.Keeper. Only Replace and AddColumn take a lock that makes inserts or
// queries wait, for at most exclusiveWait. Before they request this lock, they wait up to
// quietWait, without any lock, for the transactions that use the period. So an open transaction can
// hold up such a step, but then the step holds up no inserts.
func (db *server) Try(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, 1, steps)
}

// apply tries each step up to the given number of times.
func (db *server) apply(ctx context.Context, tries int, steps []engine.Step) error {
	return db.borrow(ctx, db.pool, func(c *pgconn.PgConn) error { return db.applyOn(ctx, c, tries, steps) })
}

func (db *server) applyOn(ctx context.Context, conn *pgconn.PgConn, tries int, steps []engine.Step) error {
	for _, s := range steps {
		known := false
		err := db.try(ctx, conn, tries, func(c *changer) { known = c.change(ctx, s) })
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
			if err := db.try(ctx, conn, tries, func(c *changer) { c.dropOrphans(ctx, drop.Table) }); err != nil {
				return err
			}
		}
		for len(statements) > 0 {
			n := transactionLength(statements)
			if err := db.try(ctx, conn, tries, func(c *changer) { c.run(ctx, statements[:n]...) }); err != nil {
				return err
			}
			statements = statements[n:]
		}
	}
	return nil
}

// transactionLength returns how many of the first statements form one transaction.
func transactionLength(statements []string) int {
	if statements[0] != beginStatement {
		return 1
	}
	return slices.Index(statements, commitStatement) + 1
}

// A changer makes one attempt at a step. It keeps the first error: after it, reads
// return zero values and nothing more is executed.
type changer struct {
	dialect
	db   *server
	conn *pgconn.PgConn
	err  error
}

// try runs fn up to tries times, while a lock is not granted.
func (db *server) try(ctx context.Context, conn *pgconn.PgConn, tries int, fn func(c *changer)) error {
	return engine.RetryLocks(ctx, tries, func() error {
		c := &changer{dialect: db.dialect, db: db, conn: conn}
		fn(c)
		return c.err
	})
}

func (c *changer) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// run executes statements one by one.
func (c *changer) run(ctx context.Context, statements ...string) {
	for _, q := range statements {
		c.atOnce(ctx, q)
	}
}

// atOnce sends statements as one message, so that the server does not wait for rowmill while it
// holds a lock. A newline follows each statement, because the statement may end in a line comment.
func (c *changer) atOnce(ctx context.Context, statements ...string) {
	if c.err != nil {
		return
	}
	if c.db.before != nil {
		c.db.before(c.conn, statements)
	}
	results, err := c.conn.Exec(ctx, strings.Join(statements, "\n;")).ReadAll()
	if err == nil {
		return
	}
	failed := statements[min(len(results), len(statements)-1)]
	c.err = &statementError{failed, classifyIn(ctx, err)}
	c.rollback(ctx)
}

// rollback ends a transaction in which the change has failed.
func (c *changer) rollback(ctx context.Context) {
	if c.err != nil && !c.conn.IsClosed() && c.conn.TxStatus() != 'I' {
		_, err := c.conn.Exec(ctx, rollbackStatement).ReadAll()
		c.err = errors.Join(c.err, err)
	}
}

// A statementError is an error with the statement that failed.
type statementError struct {
	statement string
	err       error
}

func (e *statementError) Error() string { return engine.FirstWords(e.statement) + ": " + e.err.Error() }
func (e *statementError) Unwrap() error { return e.err }

// change makes one attempt at a step that can be resumed. It returns false for any other step.
func (c *changer) change(ctx context.Context, s engine.Step) bool {
	what := ""
	switch s := s.(type) {
	case engine.Detach:
		what = "detach partition " + s.Part.Name + " of " + s.Table.Name
		c.detach(ctx, s)
	case engine.Attach:
		what = "attach partition " + s.Part.Name + " of " + s.Table.Name
		c.attach(ctx, s)
	case engine.Replace:
		what = "replace partition " + s.New.Name + " of " + s.Table.Name
		c.replace(ctx, s)
	case engine.DropPartition:
		what = "drop partition " + s.Drop.Name + " of " + s.Table.Name
		c.drop(ctx, s)
	case engine.CreatePartitions:
		what = "create partitions of " + s.Table.Name
		c.create(ctx, s)
	case engine.Divide:
		what = "divide partition " + s.Part.Name + " of " + s.Table.Name
		statements, err := c.divide(s)
		c.fail(err)
		c.quiet(ctx, s.Table.Name, childName(s.Table, s.Part))
		c.atOnce(ctx, statements...)
	case engine.DropTables:
		what = "drop tables"
		c.dropTables(ctx, s)
	case engine.AddColumn:
		what = "add column " + s.Name + " to " + s.Table.Name
		c.addColumn(ctx, s)
	default:
		return false
	}
	if c.err != nil {
		c.err = fmt.Errorf("%s: %w", what, c.err)
	}
	return true
}

// detach performs a Detach, or what an interrupted attempt has left of it: detach or rename.
func (c *changer) detach(ctx context.Context, s engine.Detach) {
	statements, err := c.changeDetach(s)
	child := childName(s.Table, s.Part)
	c.fail(err)
	r := c.look(ctx, s.Table, child, s.Into)
	switch from, into := r[child], r[s.Into]; {
	case c.err != nil:
	case s.Into != child && into.exists && (from.ours || from.apart()):
		c.fail(taken(s.Into))
	case from.ours:
		c.unmark(ctx, s.Table, child, from)
		c.setFree(ctx, s.Table, child, statements[0])
	case from.apart():
		if s.Into != child {
			c.unmark(ctx, s.Table, child, from)
		}
	case into.apart():
		return
	default:
		c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("neither this partition nor table %s exists", s.Into)))
	}
	if s.Into != child {
		c.run(ctx, c.renameTable(child, s.Into))
	}
}

// unmark removes the mark for dropping from a table that the step needs.
func (c *changer) unmark(ctx context.Context, t *engine.Table, name string, r relation) {
	if r.comment == dropMark(t) {
		c.run(ctx, "COMMENT ON TABLE "+c.Quote(name)+" IS NULL")
	}
}

func taken(name string) error {
	return engine.Classed(engine.ErrTableExists, fmt.Errorf("there is a table %s already", name))
}

// setFree detaches child. If an interrupted attempt has begun to detach it, setFree finishes that.
// Otherwise it executes statement, a DETACH ... CONCURRENTLY, but first waits for open
// transactions: between the beginning and the end of a detach, child's rows are hidden.
func (c *changer) setFree(ctx context.Context, t *engine.Table, child, statement string) {
	if !c.finishDetach(ctx, t, child) {
		c.quiet(ctx, t.Name, child)
		c.run(ctx, statement)
	}
}

// finishDetach finishes the interrupted detaches of t's partitions, because t can't detach another
// partition before that. The detached tables remain. done reports whether child is one of these
// tables.
func (c *changer) finishDetach(ctx context.Context, t *engine.Table, child string) (done bool) {
	for _, name := range c.texts(ctx, c.pending(t)) {
		c.run(ctx, c.dialect.detach(t, name)+" FINALIZE")
		done = done || name == child
	}
	return done
}

// attach performs an Attach, or what an interrupted attempt has left of it.
func (c *changer) attach(ctx context.Context, s engine.Attach) {
	c.fail(fits(s.Table, s.Part))
	child := childName(s.Table, s.Part)
	r := c.look(ctx, s.Table, child, s.From)
	switch {
	case r[child].holds(s.Table, s.Part.Period) && (s.From == child || !r[s.From].exists):
		return
	case s.From != child && r[child].exists:
		c.fail(taken(child))
	case !r[s.From].exists:
		c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("neither this partition nor table %s exists", s.From)))
	case !r[s.From].apart():
		c.fail(fmt.Errorf("%s is not a standalone table", s.From))
	}
	c.unmark(ctx, s.Table, s.From, r[s.From])
	c.prepare(ctx, s.Table, s.From, s.Part)
	c.atOnce(ctx, c.dropLeft(ctx, s.From, child, s.Part, c.attachChecked(s))...)
}

// replace performs a Replace, unless it is already done.
func (c *changer) replace(ctx context.Context, s engine.Replace) {
	if c.err = checkReplace(s); c.err != nil {
		return
	}
	child := childName(s.Table, s.New)
	tables := []string{s.Table.Name}
	for _, p := range s.Old {
		tables = append(tables, childName(s.Table, p))
	}
	r := c.look(ctx, s.Table, slices.Concat([]string{child, s.With}, tables[1:], s.Out)...)
	done := r[child].holds(s.Table, s.New.Period)
	out := !slices.ContainsFunc(s.Out, func(name string) bool { return !r[name].apart() || r[name].comment != replacedMark })
	switch {
	case done && out && (!r[s.With].exists || slices.Contains(s.Out, s.With)):
		return
	case done && !slices.Contains(tables, child) && !r[s.With].exists:
		return // and the replaced tables were dropped since
	case !r[s.With].exists:
		c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("there is no table %s", s.With)))
	case !r[s.With].apart():
		c.fail(fmt.Errorf("%s is not a standalone table", s.With))
	case !slices.Contains(tables, child) && child != s.With && r[child].exists:
		c.fail(taken(child))
	}
	for i, p := range s.Old {
		switch old := r[tables[i+1]]; {
		case !old.ours:
			c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("there is no partition %s", p.Name)))
		case s.Out[i] != s.With && r[s.Out[i]].exists:
			c.fail(taken(s.Out[i]))
		}
	}
	c.finishDetach(ctx, s.Table, "")
	c.prepare(ctx, s.Table, s.With, s.New)
	statements := c.dropLeft(ctx, s.With, child, s.New, c.replaceChecked(s))
	c.seen(ctx, s.With, s.New)
	c.quiet(ctx, tables...)
	if c.proven(ctx, s, tables[1:]); s.Proofs != nil {
		statements = statements[1:] // the transaction has begun
	}
	c.atOnce(ctx, statements...)
	c.rollback(ctx)
	var server *pgconn.PgError
	if errors.As(c.err, &server) && slices.Contains(differing, server.Code) {
		c.err = engine.Classed(engine.ErrDiffers, c.err)
	}
}

// proven begins a transaction that locks the old partitions against writers, and checks the proofs
// of their rows. Other sessions may still read, and write to other partitions.
//
// If a client already waits to write to one of these partitions, proven fails with
// engine.ErrWritten. That client holds a lock on the table, which this transaction must lock next,
// so both would wait for each other. For a client that comes after this check, the transaction
// waits no longer than exclusiveWait: after deadlock_timeout, which is longer, the server might end
// the client's transaction.
func (c *changer) proven(ctx context.Context, s engine.Replace, children []string) {
	if s.Proofs == nil {
		return
	}
	c.atOnce(ctx, beginStatement, "SET LOCAL lock_timeout = '"+exclusiveWait+"'",
		"LOCK TABLE "+engine.QuoteList(children, func(name string) string { return "ONLY " + c.Quote(name) })+" IN SHARE MODE")
	if c.err != nil {
		return
	}
	c.err = s.Prove(s.Old, func(query string) (sum engine.Checksum, err error) {
		rows, err := ask(ctx, c.conn, query)
		if err == nil {
			sum.Hash = string(rows[0][1])
			sum.Rows, err = strconv.ParseInt(string(rows[0][0]), 10, 64)
		}
		return sum, err
	})
	waiting := "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) " +
		"AND relation IN (" + engine.QuoteList(children, c.regclass) + "))"
	if c.yes(ctx, waiting) {
		c.fail(engine.Written(s.New))
	}
}

// differing are the SQLSTATEs by which the server reports that a table differs from a partition: a
// column is missing, or has another type, constraint or collation, or an index is missing.
var differing = []string{"42804", "42P21", "42703"}

// drop drops a partition, and the former partitions that interrupted drops have left behind.
func (c *changer) drop(ctx context.Context, s engine.DropPartition) {
	statements, err := c.dropPartition(s)
	if c.err = err; err != nil {
		return
	}
	child := childName(s.Table, s.Drop)
	switch rel := c.look(ctx, s.Table, child)[child]; {
	case rel.ours:
		c.run(ctx, statements[0]) // the mark
		c.setFree(ctx, s.Table, child, statements[1])
	case rel.exists && rel.comment != dropMark(s.Table):
		c.fail(engine.Hinted(fmt.Errorf("table %s is not a partition of it", child), "DROP TABLE %s, where nobody needs it", c.Quote(child)))
	}
	c.dropOrphans(ctx, s.Table)
}

// dropOrphans drops former partitions of t that are marked for dropping.
func (c *changer) dropOrphans(ctx context.Context, t *engine.Table) {
	c.finishDetach(ctx, t, "")
	for _, name := range c.texts(ctx, "SELECT c.relname FROM pg_class c "+
		"JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0 "+
		"WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_table_is_visible(c.oid) AND d.description = "+quoteText(dropMark(t))) {
		c.run(ctx, "DROP TABLE "+c.Quote(name))
	}
}

// create creates the partitions that do not exist yet.
func (c *changer) create(ctx context.Context, s engine.CreatePartitions) {
	for _, p := range s.New {
		one := s
		one.New = []rolling.Partition{p}
		statements, err := c.createPartitions(one)
		c.fail(err)
		c.run(ctx, statements...)
		if failed := c.err; errors.Is(failed, engine.ErrTableExists) {
			c.err = nil
			child := childName(s.Table, p)
			if r := c.look(ctx, s.Table, child); !r[child].holds(s.Table, p.Period) {
				c.err = errors.Join(failed, c.err)
			}
		}
		if c.err != nil {
			return
		}
	}
}

// dropTables drops tables, but no partitions: that would lock the parent.
func (c *changer) dropTables(ctx context.Context, s engine.DropTables) {
	if len(s.Names) == 0 {
		return
	}
	r := c.look(ctx, nil, s.Names...)
	for i, q := range s.Statements(c) {
		name := s.Names[i]
		if r[name].of != "" {
			c.fail(fmt.Errorf("%s is a partition of %s", name, r[name].of))
		}
		if r[name].exists {
			c.run(ctx, q)
		}
	}
}

// addColumn adds a column, if that changes only catalogs.
func (c *changer) addColumn(ctx context.Context, s engine.AddColumn) {
	statements, err := c.changeAddColumn(s)
	c.fail(err)
	of := c.regclass(s.Table.Name)
	rows := c.ask(ctx, "SELECT "+of+" IS NULL, EXISTS (SELECT FROM pg_attribute "+
		"WHERE NOT attisdropped AND attrelid = "+of+" AND attname = "+quoteText(s.Name)+")")
	switch {
	case c.err != nil:
		return
	case string(rows[0][0]) == "t":
		c.fail(engine.Classed(engine.ErrNoTable, errors.New("no such table")))
	case string(rows[0][1]) == "t":
		return
	}
	c.quiet(ctx, append(c.texts(ctx, c.parts(s.Table)), s.Table.Name)...)
	c.atOnce(ctx, statements...)
	var server *pgconn.PgError
	var at *statementError
	if errors.As(c.err, &server) && server.Code == queryCanceled && errors.As(c.err, &at) && strings.HasPrefix(at.statement, "ALTER TABLE") {
		c.err = engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("it takes more than %s, while all other sessions wait: %w", exclusiveTime, server)),
			"a column without a default or with a constant one, which takes no time; one that is computed for each row rewrites all periods")
	}
}

// queryCanceled is the SQLSTATE of a statement that exceeded its timeout.
const queryCanceled = "57014"

const checkpoint = "CHECKPOINT"

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
func (db *server) Settle(ctx context.Context, s engine.Settle) (warnings []string, err error) {
	cfg := db.config.Copy()
	// VACUUM without the privilege for a table only raises a warning.
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" && len(warnings) < mostWarnings {
			warnings = append(warnings, "settle: "+n.Message)
		}
	}
	conn, err := db.connectAs(ctx, cfg, engine.Connect{Maintenance: true})
	if err != nil {
		return nil, err
	}
	defer discard(conn)
	for _, q := range db.dialect.settle(s) {
		err := db.try(ctx, conn, db.lockTries, func(c *changer) { c.run(ctx, q) })
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
