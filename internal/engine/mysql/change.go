package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A change of a table's periods consists of several statements, and every DDL
// statement commits. The statements run with the tables locked, so that no rows are
// inserted in between. They are sent in one packet, so that the server executes all
// of them even if the client is killed. If the server or the connection fails, the
// next attempt continues from the current state: which tables and partitions exist,
// and which of them have rows.

// Error numbers of the server about an exchange.
const (
	errExchangeOption = 1731 // for example after columns were added instantly
	errTablesDiffer   = 1736
	errColumnExists   = 1060
	errSyntax         = 1064
)

// serverError reports whether an error is one of the server's errors with these
// numbers.
func serverError(err error, numbers ...uint16) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && slices.Contains(numbers, server.Number)
}

// A changer executes one change on a connection of its own.
type changer struct {
	db   *DB
	d    dialect
	conn *sql.Conn
	t    *engine.Table
}

// change attempts a change of periods once.
func (db *DB) change(ctx context.Context, t *engine.Table, run func(*changer) error) (err error) {
	conn, err := db.changes.Conn(ctx)
	if err != nil {
		return db.unreachable(err)
	}
	c := &changer{db, db.dialect, conn, t}
	if err := c.d.checkName(t.Name); err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() {
		if err != nil { // closes the session: releases its locks, rolls back
			err = errors.Join(err, engine.DiscardConn(db, conn))
			return
		}
		err = conn.Close()
	}()
	return run(c)
}

// run executes statements, sent in one packet.
func (c *changer) run(ctx context.Context, statements ...string) error {
	if c.db.interrupt == nil {
		if len(statements) == 0 {
			return nil
		}
		if _, err := c.conn.ExecContext(ctx, strings.Join(statements, ";\n")); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(strings.Join(statements, "; ")), classify(err))
		}
		return nil
	}
	for _, q := range statements { // in tests, which interrupt between two statements
		if err := c.db.interrupt(q); err != nil {
			return err
		}
		if _, err := c.conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err))
		}
	}
	return nil
}

// locked locks tables, calls plan, and executes the statements that it returns. It
// calls plan again while plan returns more.
//
// MariaDB blocks itself when it exchanges a partition of a table whose triggers use
// other tables, because LOCK TABLES locks those tables, too. In MariaDB,
// for a table with triggers, each statement therefore takes its own lock: readers
// may miss rows of the periods for some milliseconds, and rows inserted in between
// are found like late rows.
func (c *changer) locked(ctx context.Context, tables []string, plan func() (statements []string, more bool, err error)) error {
	triggers := false
	if c.d.mariadb {
		var err error
		if triggers, err = c.triggers(ctx); err != nil {
			return err
		}
	}
	if !triggers {
		if err := c.run(ctx, c.d.lockTables(tables)); err != nil {
			return err
		}
	}
	for more := true; more; {
		var statements []string
		var err error
		statements, more, err = plan()
		if err == nil {
			if !more {
				statements = append(statements, unlock...)
			}
			err = c.run(ctx, statements...)
		}
		if err != nil {
			if serverError(err, errExchangeOption, errTablesDiffer, errSyntax) { // the next attempt needs the connection
				return errors.Join(err, c.run(ctx, unlock...))
			}
			return err
		}
	}
	return nil
}

func (c *changer) triggers(ctx context.Context) (bool, error) {
	var n int
	err := c.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = "+quoteText(c.t.Name)).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("triggers of %s: %w", c.t.Name, classify(err))
	}
	return n > 0, nil
}

// unlock releases the table locks at the end of a change.
var unlock = []string{"UNLOCK TABLES"}

// lockTables renders the statement that locks tables exclusively.
func (d dialect) lockTables(tables []string) string {
	locks := make([]string, len(tables))
	for i, name := range tables {
		locks[i] = d.Quote(name) + " WRITE"
	}
	return "LOCK TABLES " + strings.Join(locks, ", ")
}

// partition renders a reference to one partition for a FROM clause.
func (d dialect) partition(t *engine.Table, name string) string {
	return d.Quote(t.Name) + " PARTITION (" + d.Quote(name) + ")"
}

// exchange renders the exchange of a partition's rows with those of a table.
func (d dialect) exchange(t *engine.Table, part, table string) string {
	q := fmt.Sprintf("ALTER TABLE %s EXCHANGE PARTITION %s WITH TABLE %s", d.Quote(t.Name), d.Quote(part), d.Quote(table))
	if d.unchecked {
		q += " WITHOUT VALIDATION"
	}
	return q
}

// filled reports whether a table reference of a FROM clause has rows.
func (c *changer) filled(ctx context.Context, from string) (bool, error) {
	var one int
	err := c.conn.QueryRowContext(ctx, "SELECT 1 FROM "+from+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, classify(err)
}

// A standing is the state of a table: whether it exists, and its attributes.
type standing struct {
	there, partitioned bool
	comment            string
	engine             string
}

// exchanges reports whether the table's storage engine supports EXCHANGE PARTITION.
// With MyRocks, MariaDB always reports that the definitions differ.
func (s standing) exchanges() bool { return !strings.EqualFold(s.engine, "rocksdb") }

// checkName refuses a name with a slash in MariaDB: for a partitioned table of such
// a name, MariaDB (10.11 too) doesn't find the database, and loses the table when
// its partitions are changed.
func (d dialect) checkName(name string) error {
	if d.mariadb && strings.Contains(name, "/") {
		return engine.Classed(engine.ErrUnsupported, errors.New("MariaDB can't change the partitions of a table with a slash in its name"))
	}
	return nil
}

// look reads the state of a table.
func (c *changer) look(ctx context.Context, name string) (standing, error) {
	var s standing
	var options, engine sql.NullString
	err := c.conn.QueryRowContext(ctx, "SELECT CREATE_OPTIONS, TABLE_COMMENT, ENGINE FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = "+quoteText(name)).Scan(&options, &s.comment, &engine)
	s.engine = engine.String
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	s.there, s.partitioned = err == nil, strings.Contains(options.String, "partitioned")
	return s, classify(err)
}

// clone creates the table name with a period's definition, unless it exists. An empty
// table that is still partitioned, from an interrupted clone, is created again.
func (c *changer) clone(ctx context.Context, name string) error {
	s, err := c.look(ctx, name)
	if err != nil {
		return err
	}
	if s.there && s.partitioned {
		has, err := c.filled(ctx, c.d.Quote(name))
		if err != nil {
			return err
		}
		if has || name == c.t.Name {
			return fmt.Errorf("table %s exists and is partitioned", name)
		}
		if err := c.run(ctx, "DROP TABLE "+c.d.Quote(name)); err != nil {
			return err
		}
		s.there = false
	}
	if s.there {
		return nil
	}
	q, err := c.db.likePeriod(ctx, c.conn, c.t, name)
	if err != nil {
		return err
	}
	return c.run(ctx, q)
}

// renew creates empty tables again whose definition differs from a period's.
func (c *changer) renew(ctx context.Context, names ...string) error {
	for _, name := range names {
		has, err := c.filled(ctx, c.d.Quote(name))
		if err != nil {
			return err
		}
		if !has {
			if err := c.run(ctx, "DROP TABLE "+c.d.Quote(name)); err != nil {
				return err
			}
			if err := c.clone(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// columns returns the list of columns that can be written to, quoted.
func (c *changer) columns(ctx context.Context) (string, error) {
	s := &engine.Schema{Name: c.t.Name}
	if err := c.db.describeColumns(ctx, s); err != nil {
		return "", err
	}
	return c.d.list(s.Names()), nil
}

// move renders the statements that move all rows from one place to another. They
// must run in one transaction.
func (d dialect) move(columns, from, to string) []string {
	return []string{
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", to, columns, columns, from),
		"DELETE FROM " + from,
	}
}

// moveAtOnce renders the move of all rows as a transaction while the tables are
// locked; START TRANSACTION would release those locks. The transaction ends before
// MariaDB exchanges partitions, because its row locks would block the exchange.
func (d dialect) moveAtOnce(columns, from, to string) []string {
	return slices.Concat([]string{"SET SESSION autocommit = 0"}, d.move(columns, from, to), []string{"COMMIT", "SET SESSION autocommit = 1"})
}

// moveAll renders the move of all rows for a dry run, in which the names of the
// columns that can be written to are unknown.
func (d dialect) moveAll(from, to string) []string {
	return []string{"INSERT INTO " + to + " SELECT * FROM " + from, "DELETE FROM " + from}
}

// moveLocked renders statements as one transaction with the tables locked.
func (d dialect) moveLocked(tables, statements []string) []string {
	return slices.Concat([]string{"SET SESSION autocommit = 0", d.lockTables(tables)}, statements, []string{"COMMIT"}, unlock, []string{"SET SESSION autocommit = 1"})
}

// transaction renders statements as one transaction that locks the rows it reads,
// so that no row is inserted between INSERT ... SELECT and DELETE. MyRocks has no
// such transactions; there, the tables are locked.
func (c *changer) transaction(ctx context.Context, tables []string, statements ...string) ([]string, error) {
	table, err := c.look(ctx, c.t.Name)
	if err != nil {
		return nil, err
	}
	if table.exchanges() {
		return slices.Concat([]string{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"}, statements, []string{"COMMIT"}), nil
	}
	return c.d.moveLocked(tables, statements), nil
}

func (c *changer) detach(ctx context.Context, s engine.Detach) error {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return err
	}
	i := l.find(s.Part)
	if i < 0 {
		into, err := c.look(ctx, s.Into)
		if err == nil && !into.there {
			err = fmt.Errorf("neither the partition nor the table %s exists", s.Into)
		}
		return err
	}
	table, err := c.look(ctx, c.t.Name)
	if err != nil {
		return err
	}
	if !table.exchanges() && c.d.mariadb && (i > 0 || !floored(c.t)) {
		if err := c.absent(ctx, s.Into, true); err != nil {
			return err
		}
		return c.run(ctx, c.d.convert(c.t, l.parts[i], s.Into))
	}
	if err := c.clone(ctx, s.Into); err != nil {
		return err
	}
	exchange := func() error {
		return c.locked(ctx, []string{c.t.Name, s.Into}, func() ([]string, bool, error) { return c.detachPlan(ctx, s) })
	}
	move := func() error {
		return c.moveRows(ctx, s.Into, c.d.partition(c.t, l.parts[i].Name), c.d.Quote(s.Into))
	}
	if !table.exchanges() {
		done, err := c.filled(ctx, c.d.Quote(s.Into))
		if err == nil && !done {
			err = move()
		}
		if err != nil {
			return err
		}
		return exchange()
	}
	err = exchange()
	if serverError(err, errTablesDiffer) {
		if err = c.renew(ctx, s.Into); err == nil {
			err = exchange()
		}
	}
	if serverError(err, errExchangeOption) {
		if err := move(); err != nil {
			return err
		}
		return exchange()
	}
	return err
}

// moveRows moves all rows from one place to another in one transaction. One of the
// places is in the changer's table, the other is the table named other.
func (c *changer) moveRows(ctx context.Context, other, from, to string) error {
	columns, err := c.columns(ctx)
	if err != nil {
		return err
	}
	statements, err := c.transaction(ctx, []string{c.t.Name, other}, c.d.move(columns, from, to)...)
	if err != nil {
		return err
	}
	return c.run(ctx, statements...)
}

// floorRows is the largest number of rows in the floor partition with which the
// first period can be dropped: the rows are copied while the table is locked, which
// takes about a second for this number.
const floorRows = 100_000

func (c *changer) detachPlan(ctx context.Context, s engine.Detach) (statements []string, more bool, err error) {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return nil, false, err
	}
	i := l.find(s.Part)
	if i < 0 {
		return nil, false, nil
	}
	p := c.d.partition(c.t, l.parts[i].Name)
	has, err := c.filled(ctx, p)
	if err != nil {
		return nil, false, err
	}
	done, err := c.filled(ctx, c.d.Quote(s.Into))
	if err != nil {
		return nil, false, err
	}
	switch {
	case has && !done:
		statements = append(statements, c.d.exchange(c.t, l.parts[i].Name, s.Into))
	case has && (i > 0 || !floored(c.t)):
		// These rows were inserted after an interrupted exchange, and the floor
		// doesn't accept them.
		columns, err := c.columns(ctx)
		if err != nil {
			return nil, false, err
		}
		statements = c.d.moveAtOnce(columns, p, c.d.Quote(s.Into))
	}
	if i == 0 && l.hasFloor {
		var n int
		q := fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) rows_of_it", c.d.partition(c.t, floorName), floorRows+1)
		if err := c.conn.QueryRowContext(ctx, q).Scan(&n); err != nil {
			return nil, false, classify(err)
		}
		if n > floorRows {
			return nil, false, engine.Hinted(fmt.Errorf("more than %d rows of %s lie before its first period, in partition %s", floorRows, c.t.Name, floorName),
				"ALTER TABLE %s TRUNCATE PARTITION %s, once nobody needs them", c.d.Quote(c.t.Name), c.d.Quote(floorName))
		}
	}
	q, err := c.d.removal(c.t, l, i)
	return append(statements, q), false, err
}

// detach renders a Detach from its initial state.
func (d dialect) detach(s engine.Detach) ([]string, error) {
	l := supposed(s.Table, s.Have)
	i := l.find(s.Part)
	if i < 0 {
		return nil, fmt.Errorf("detach partition %s of %s: no partition ends there", s.Part.Name, s.Table.Name)
	}
	if d.rocksdb() && (i > 0 || !floored(s.Table)) {
		return []string{d.convert(s.Table, l.parts[i], s.Into)}, nil
	}
	q, err := d.removal(s.Table, l, i)
	if d.rocksdb() {
		return slices.Concat(d.CreateTemplate(s.Table, s.Into, engine.Storage{}),
			d.moveLocked([]string{s.Table.Name, s.Into}, d.moveAll(d.partition(s.Table, l.parts[i].Name), d.Quote(s.Into))), []string{q}), err
	}
	return slices.Concat(d.CreateTemplate(s.Table, s.Into, engine.Storage{}),
		[]string{d.lockTables([]string{s.Table.Name, s.Into}), d.exchange(s.Table, l.parts[i].Name, s.Into), q}, unlock), err
}

func (d dialect) dropTables(s engine.DropTables) []string {
	out := make([]string, len(s.Names)) // one at a time: each DROP removes a file
	for i, name := range s.Names {
		out[i] = "DROP TABLE IF EXISTS " + d.Quote(name)
	}
	return out
}

// algorithms are the clauses to try for adding a column, in ascending order of
// blocking; the last one leaves the choice to the server.
var algorithms = []string{", ALGORITHM=INSTANT", ", ALGORITHM=INPLACE, LOCK=NONE", ""}

func (d dialect) addColumn(s engine.AddColumn, algorithm string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s%s", d.Quote(s.Table.Name), s.Definition, algorithm)
}

// tryChange executes a step that is a change of periods or columns, continuing from
// its current state. It returns false if step isn't one.
func (db *DB) tryChange(ctx context.Context, step engine.Step) (bool, error) {
	var t *engine.Table
	var what string
	var run func(*changer) error
	switch s := step.(type) {
	case engine.Detach:
		t, what = s.Table, "detach partition "+s.Part.Name
		run = func(c *changer) error { return c.detach(ctx, s) }
	case engine.Attach:
		t, what = s.Table, "attach partition "+s.Part.Name
		run = func(c *changer) error { return c.attach(ctx, s) }
	case engine.Replace:
		t, what = s.Table, "replace by partition "+s.New.Name
		run = func(c *changer) error { return c.replace(ctx, s) }
	case engine.AddColumn:
		t, what = s.Table, "add column "+s.Name
		run = func(c *changer) error { return c.addColumn(ctx, s) }
	case engine.DropPartition:
		if !floored(s.Table) {
			return false, nil
		}
		t, what = s.Table, "drop partition "+s.Drop.Name
		run = func(c *changer) error { return c.dropPartition(ctx, s.Drop) }
	case engine.CreatePartitions:
		if !floored(s.Table) || len(s.New) == 0 {
			return false, nil
		}
		t, what = s.Table, "create partitions"
		run = func(c *changer) error {
			q, err := c.d.add(s)
			if err != nil {
				return err
			}
			return c.run(ctx, c.d.alone(s.Table, q)...)
		}
	default:
		return false, nil
	}
	if err := db.change(ctx, t, run); err != nil {
		return true, fmt.Errorf("%s of table %s: %w", what, t.Name, err)
	}
	return true, nil
}

func (c *changer) dropPartition(ctx context.Context, p rolling.Partition) error {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return err
	}
	statements, err := c.d.dropPartition(c.t, l, p)
	if err != nil {
		return err
	}
	return c.run(ctx, c.d.alone(c.t, statements...)...)
}

// addColumn adds a column with the first algorithm that the server supports for it.
func (c *changer) addColumn(ctx context.Context, s engine.AddColumn) error {
	var err error
	for _, algorithm := range algorithms {
		err = c.run(ctx, c.d.addColumn(s, algorithm))
		switch {
		case serverError(err, errColumnExists):
			return nil
		case serverError(err, 1845, 1846, 4111, 1221): // algorithm or lock level not supported
			continue
		}
		return err
	}
	return err
}

// tableHead matches the beginning of SHOW CREATE TABLE: the name as the server
// stores it, in lower case on some, quoted by the session's rules. The text after
// it is a period's complete definition, which the catalog views don't have.
var tableHead = regexp.MustCompile("^CREATE TABLE `(?:[^`]|``)*`")

// partitionClause matches the beginning of the partitioning clause in SHOW CREATE
// TABLE, which is the last clause. A line break in a comment or a default is shown
// as \n.
var partitionClause = regexp.MustCompile(`\n(/\*!\d+)? ?PARTITION BY `)

// likePeriod returns the statement that creates an empty table with the definition
// of a period of t. CREATE TABLE ... LIKE would first create all partitions of t,
// which takes seconds for hundreds of them.
func (db *DB) likePeriod(ctx context.Context, from querent, t *engine.Table, name string) (string, error) {
	var shown, text string
	if err := from.QueryRowContext(ctx, "SHOW CREATE TABLE "+db.dialect.Quote(t.Name)).Scan(&shown, &text); err != nil {
		return "", fmt.Errorf("create a table like %s: %w", t.Name, classify(err))
	}
	head := tableHead.FindString(text)
	if head == "" {
		return "", fmt.Errorf("create a table like %s: the server shows it as %.60q", t.Name, text)
	}
	rest := text[len(head):]
	if at := partitionClause.FindStringIndex(rest); at != nil {
		rest = rest[:at[0]]
	}
	return "CREATE TABLE " + db.dialect.Quote(name) + rest, nil
}

// A speaker is a dialect that can query the server.
type speaker struct {
	dialect
	db *DB
}

// likeTimeout limits the query of CreateTemplate.
const likeTimeout = 5 * time.Second

// CreateTemplate implements engine.Words. It reads the table's definition from the
// server; if that fails, it returns the statements of a dry run.
func (s speaker) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	ctx, cancel := context.WithTimeout(context.Background(), likeTimeout)
	defer cancel()
	q, err := s.db.likePeriod(ctx, s.db.pool, t, name)
	if err != nil {
		return s.dialect.CreateTemplate(t, name, o)
	}
	return append([]string{q}, s.compress(name, o)...)
}
