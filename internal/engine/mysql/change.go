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
)

// A change of a table's periods takes several statements. No transaction can contain them, because
// every DDL statement commits. The statements run while the tables are locked, and are sent in one
// packet: if the client is killed, the server still executes all of them. After any other failure,
// the next attempt continues with the tables, partitions and rows that it finds.

// Error numbers of the server.
const (
	errExchangeOption = 1731 // for example after columns were added instantly
	errTablesDiffer   = 1736
	errNoColumn       = 1054
	errColumnExists   = 1060
	errSyntax         = 1064
	errNoDescription  = 3664 // the serialized dictionary information of a tablespace can't be deleted
)

// serverError reports whether err is the server's, with one of these numbers.
func serverError(err error, numbers ...uint16) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && slices.Contains(numbers, server.Number)
}

// A changer makes one attempt at a change, on a connection of its own. It keeps the first error;
// after that, its reads return zero values, and it executes nothing more.
type changer struct {
	partitioner
	db   *server
	conn *sql.Conn
	t    *engine.Table
	err  error
}

// change attempts a change of periods once.
func (db *server) change(ctx context.Context, t *engine.Table, run func(*changer)) error {
	conn, err := db.changes.Conn(ctx)
	if err != nil {
		return db.unreachable(err)
	}
	c := &changer{partitioner: db.dialect.partitioner(), db: db, conn: conn, t: t, err: db.dialect.checkName(t.Name)}
	run(c)
	if c.err != nil { // closes the session: releases its locks, rolls back
		return errors.Join(c.err, engine.DiscardConn(db, conn))
	}
	return conn.Close()
}

func (c *changer) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// failed reports whether the change failed with an error of the server that has one of these
// numbers. If it did, failed clears the error, so that the change can continue in another way.
func (c *changer) failed(numbers ...uint16) bool {
	if !serverError(c.err, numbers...) {
		return false
	}
	c.err = nil
	return true
}

// run sends statements in one packet, and the server executes them.
func (c *changer) run(ctx context.Context, statements ...string) {
	if c.db.interrupt == nil && len(statements) > 1 { // tests interrupt between two statements
		statements = []string{strings.Join(statements, ";\n")}
	}
	for _, q := range statements {
		if c.err == nil && c.db.interrupt != nil {
			c.err = c.db.interrupt(q)
		}
		if c.err != nil {
			return
		}
		if _, err := c.conn.ExecContext(ctx, q); err != nil {
			c.err = fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err))
		}
	}
}

// read reads the first row of a query and reports whether there is one.
func (c *changer) read(ctx context.Context, query string, into ...any) bool {
	if c.err != nil {
		return false
	}
	err := c.conn.QueryRowContext(ctx, query).Scan(into...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		c.err = classify(err)
	}
	return err == nil
}

// locked locks tables and executes the statements that plan returns. It calls plan again as long as
// plan returns more = true. If a table is selfBlocking, locked locks nothing: each statement takes
// its own lock.
func (c *changer) locked(ctx context.Context, tables []string, plan func() (statements []string, more bool)) {
	if !c.selfBlocking(ctx) {
		c.run(ctx, c.lockTables(tables))
	}
	for more := true; more && c.err == nil; {
		var statements []string
		if statements, more = plan(); !more {
			statements = append(statements, unlock)
		}
		c.run(ctx, statements...)
	}
	if err := c.err; c.failed(errExchangeOption, errTablesDiffer, errSyntax) { // the next attempt needs the connection
		c.run(ctx, unlock)
		c.err = errors.Join(err, c.err)
	}
}

// unlock releases the table locks at the end of a change.
const unlock = "UNLOCK TABLES"

// lockTables renders the statement that locks tables exclusively.
func (d partitioner) lockTables(tables []string) string {
	return "LOCK TABLES " + engine.QuoteList(tables, func(name string) string { return d.Quote(name) + " WRITE" })
}

// partition renders a reference to one partition for a FROM clause.
func (d partitioner) partition(t *engine.Table, name string) string {
	return d.Quote(t.Name) + " PARTITION (" + d.Quote(name) + ")"
}

// exchange renders the exchange of a partition's rows with those of a table.
func (d partitioner) exchange(t *engine.Table, part, table string) string {
	q := fmt.Sprintf("ALTER TABLE %s EXCHANGE PARTITION %s WITH TABLE %s", d.Quote(t.Name), d.Quote(part), d.Quote(table))
	if d.unchecked {
		q += " WITHOUT VALIDATION"
	}
	return q
}

// layout returns the partitions of the changer's table.
func (c *changer) layout(ctx context.Context) (l layout) {
	if c.err == nil {
		l, c.err = c.db.catalog().layout(ctx, c.conn, c.t)
	}
	return l
}

// filled reports whether an operand of FROM, such as one partition, has rows.
func (c *changer) filled(ctx context.Context, from string) bool {
	return c.read(ctx, "SELECT 1 FROM "+from+" LIMIT 1", new(int))
}

// exceeds reports whether a partition has more than n rows.
func (c *changer) exceeds(ctx context.Context, part string, n int) bool {
	return c.read(ctx, fmt.Sprintf("SELECT 1 FROM %s LIMIT 1 OFFSET %d", c.partition(c.t, part), n), new(int))
}

// A standing is the state of a table: whether it exists, and its attributes.
type standing struct {
	there, partitioned bool
	comment, engine    string
}

// exchanges reports whether EXCHANGE PARTITION works with the storage engine. With MyRocks it never
// does: MariaDB always reports that the definitions differ.
func (s standing) exchanges() bool { return !strings.EqualFold(s.engine, "rocksdb") }

// checkName refuses a table's name with a slash. MariaDB (also 10.11) doesn't find the database of
// a table with such a name, and loses the table when its partitions are changed.
func (d dialect) checkName(name string) error {
	if d.mariadb && strings.Contains(name, "/") {
		return engine.Classed(engine.ErrUnsupported, errors.New("MariaDB can't change the partitions of a table with a slash in its name"))
	}
	return nil
}

// look reads the state of a table.
func (c *changer) look(ctx context.Context, name string) (s standing) {
	var options, engine sql.NullString
	s.there = c.read(ctx, "SELECT CREATE_OPTIONS, TABLE_COMMENT, ENGINE FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = "+quoteText(name), &options, &s.comment, &engine)
	s.engine, s.partitioned = engine.String, strings.Contains(options.String, "partitioned")
	return s
}

// clone creates the table name with a period's definition, unless an earlier attempt has done so.
func (c *changer) clone(ctx context.Context, name string) {
	switch s := c.look(ctx, name); {
	case s.there && !s.partitioned:
		return
	case s.there && (name == c.t.Name || c.filled(ctx, c.Quote(name))):
		c.fail(fmt.Errorf("table %s exists and is partitioned", name))
	case s.there:
		c.run(ctx, "DROP TABLE "+c.Quote(name))
	}
	if c.err == nil {
		var q string
		q, c.err = c.db.likePeriod(ctx, c.conn, c.t, name)
		c.run(ctx, q)
	}
}

// renew drops each table that has no rows, and creates it again with a period's definition.
func (c *changer) renew(ctx context.Context, names ...string) {
	for _, name := range names {
		if !c.filled(ctx, c.Quote(name)) {
			c.run(ctx, "DROP TABLE "+c.Quote(name))
			c.clone(ctx, name)
		}
	}
}

// columns returns the columns of a table.
func (c *changer) columns(ctx context.Context, name string) *engine.Schema {
	s := &engine.Schema{Name: name}
	if c.err == nil {
		c.err = c.db.catalog().describeColumns(ctx, s)
	}
	return s
}

// writable returns the list of columns that can be written to, quoted.
func (c *changer) writable(ctx context.Context) string {
	return c.list(c.columns(ctx, c.t.Name).Names())
}

// move renders the statements that move all rows from one place to another, for one transaction.
func (d partitioner) move(columns, from, to string) []string {
	insert := "INSERT INTO " + to + " SELECT * FROM " + from
	if columns != "" {
		insert = fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", to, columns, columns, from)
	}
	return []string{insert, "DELETE FROM " + from}
}

// moveAtOnce renders the move of all rows as one transaction. It turns off autocommit for that,
// because START TRANSACTION would unlock the tables. The COMMIT releases the row locks: on MariaDB,
// a following exchange would wait for them.
func (d partitioner) moveAtOnce(columns, from, to string) []string {
	return slices.Concat([]string{"SET SESSION autocommit = 0"}, d.move(columns, from, to), []string{"COMMIT", "SET SESSION autocommit = 1"})
}

// moveLocked renders statements as one transaction that locks the tables.
func (d partitioner) moveLocked(tables, statements []string) []string {
	return slices.Concat([]string{"SET SESSION autocommit = 0", d.lockTables(tables)}, statements,
		[]string{"COMMIT", unlock, "SET SESSION autocommit = 1"})
}

// transact begins a transaction, calls the function first, executes the statements and commits. The
// transaction locks the rows that it reads, so that nobody inserts a row between INSERT ... SELECT
// and DELETE. With MyRocks, which can't lock rows that were read, transact locks the tables
// instead.
func (c *changer) transact(ctx context.Context, tables []string, first func(), statements ...string) {
	begin, end := []string{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"}, []string{"COMMIT"}
	if !c.look(ctx, c.t.Name).exchanges() {
		locked := c.moveLocked(tables, nil)
		begin, end = locked[:2], locked[2:]
	}
	c.run(ctx, begin...)
	first()
	c.run(ctx, slices.Concat(statements, end)...)
}

// moveRows moves all rows between the changer's table and the table other.
func (c *changer) moveRows(ctx context.Context, other, from, to string) {
	moves := c.move(c.writable(ctx), from, to)
	c.transact(ctx, []string{c.t.Name, other}, func() {}, moves...)
}

func (c *changer) detach(ctx context.Context, s engine.Detach) {
	l, table := c.layout(ctx), c.look(ctx, c.t.Name)
	i := l.find(s.Part)
	if i < 0 {
		if !c.look(ctx, s.Into).there {
			c.fail(fmt.Errorf("neither the partition nor the table %s exists", s.Into))
		}
		return
	}
	if !table.exchanges() && c.mariadb && (i > 0 || !floored(c.t)) {
		c.absent(ctx, s.Into, true)
		c.run(ctx, c.convert(c.t, l.parts[i], s.Into))
		return
	}
	c.clone(ctx, s.Into)
	exchange := func() {
		c.locked(ctx, []string{c.t.Name, s.Into}, func() ([]string, bool) { return c.detachPlan(ctx, s), false })
	}
	move := func() { c.moveRows(ctx, s.Into, c.partition(c.t, l.parts[i].Name), c.Quote(s.Into)) }
	if !table.exchanges() {
		if !c.filled(ctx, c.Quote(s.Into)) {
			move()
		}
		exchange()
		return
	}
	exchange()
	if c.failed(errTablesDiffer) {
		c.renew(ctx, s.Into)
		exchange()
	}
	if c.failed(errExchangeOption) {
		move()
		exchange()
	}
}

// floorRows limits the rows in the floor (see floorName): with more, the first period can't be
// dropped. At its drop, the server copies the floor's rows under the lock, which takes about a
// second for floorRows rows.
const floorRows = 100_000

func (c *changer) detachPlan(ctx context.Context, s engine.Detach) (statements []string) {
	l := c.layout(ctx)
	i := l.find(s.Part)
	if i < 0 {
		return nil
	}
	p := c.partition(c.t, l.parts[i].Name)
	switch has, done := c.filled(ctx, p), c.filled(ctx, c.Quote(s.Into)); {
	case has && !done:
		statements = append(statements, c.exchange(c.t, l.parts[i].Name, s.Into))
	case has && (i > 0 || !floored(c.t)):
		// Rows were inserted after an interrupted exchange. (A first period's go to the floor.)
		statements = c.moveAtOnce(c.writable(ctx), p, c.Quote(s.Into))
	}
	for _, free := range l.before(l.parts[i]) {
		if i == 0 && c.exceeds(ctx, free.Name, floorRows) {
			c.fail(engine.Hinted(fmt.Errorf("more than %d rows of %s lie before its first period, in partition %s", floorRows, c.t.Name, free.Name),
				"ALTER TABLE %s TRUNCATE PARTITION %s, once nobody needs them", c.Quote(c.t.Name), c.Quote(free.Name)))
		}
	}
	q, err := c.removal(c.t, l, i)
	c.fail(err)
	return append(statements, q)
}

// detach renders a Detach of a table that no earlier attempt has changed.
func (d partitioner) detach(s engine.Detach) ([]string, error) {
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
		return slices.Concat(d.words().CreateTemplate(s.Table, s.Into, engine.Storage{}),
			d.moveLocked([]string{s.Table.Name, s.Into}, d.move("", d.partition(s.Table, l.parts[i].Name), d.Quote(s.Into))), []string{q}), err
	}
	return slices.Concat(d.words().CreateTemplate(s.Table, s.Into, engine.Storage{}),
		[]string{d.lockTables([]string{s.Table.Name, s.Into}), d.exchange(s.Table, l.parts[i].Name, s.Into), q, unlock}), err
}

// algorithms are the clauses to try for adding a column. With the last, the server chooses.
var algorithms = []string{", ALGORITHM=INSTANT", ", ALGORITHM=INPLACE, LOCK=NONE", ""}

func (d partitioner) addColumn(s engine.AddColumn, algorithm string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s%s", d.Quote(s.Table.Name), s.Definition, algorithm)
}

// tryChange executes a step that changes periods or columns. It decides by the table's present
// state which statements are needed. It returns false, and does nothing, for any other step.
func (db *server) tryChange(ctx context.Context, step engine.Step) (bool, error) {
	var t *engine.Table
	var what string
	var run func(*changer)
	switch s := step.(type) {
	case engine.Detach:
		t, what, run = s.Table, "detach partition "+s.Part.Name, func(c *changer) { c.detach(ctx, s) }
	case engine.Attach:
		t, what, run = s.Table, "attach partition "+s.Part.Name, func(c *changer) { c.attach(ctx, s) }
	case engine.Replace:
		t, what, run = s.Table, "replace by partition "+s.New.Name, func(c *changer) { c.replace(ctx, s) }
	case engine.Release:
		t, what = s.Table, "make an ordinary table"
		run = func(c *changer) {
			l := c.layout(ctx)
			statements, err := c.release(c.t, l, func(name string) bool { return c.filled(ctx, c.partition(c.t, name)) })
			c.fail(err)
			if len(statements) > 0 {
				c.few(ctx, l, partitionNames(l.free()), statements...)
				c.run(ctx, c.alone(c.t, statements...)...)
			}
		}
	case engine.Divide:
		t, what, run = s.Table, "divide partition "+s.Part.Name, func(c *changer) { c.divideNow(ctx, s) }
	case engine.AddColumn:
		t, what, run = s.Table, "add column "+s.Name, func(c *changer) { c.addColumn(ctx, s) }
	case engine.DropPartition:
		if !floored(s.Table) {
			return false, nil
		}
		t, what = s.Table, "drop partition "+s.Drop.Name
		run = func(c *changer) {
			statements, err := c.dropPartition(c.t, c.layout(ctx), s.Drop)
			c.fail(err)
			c.run(ctx, c.alone(c.t, statements...)...)
		}
	case engine.CreatePartitions:
		if !floored(s.Table) || len(s.New) == 0 {
			return false, nil
		}
		t, what = s.Table, "create partitions"
		run = func(c *changer) {
			l := c.layout(ctx)
			statements, split, err := c.add(c.t, l, s.New)
			c.fail(err)
			c.few(ctx, l, split, statements...)
			c.run(ctx, c.alone(c.t, statements...)...)
		}
	default:
		return false, nil
	}
	if err := db.change(ctx, t, run); err != nil {
		return true, fmt.Errorf("%s of table %s: %w", what, t.Name, err)
	}
	return true, nil
}

// addColumn adds a column with the first algorithm that the server supports for it.
func (c *changer) addColumn(ctx context.Context, s engine.AddColumn) {
	for i, algorithm := range algorithms {
		c.run(ctx, c.partitioner.addColumn(s, algorithm))
		if i == len(algorithms)-1 || !c.failed(1845, 1846, 4111, 1221) { // algorithm or lock level not supported
			break
		}
	}
	c.failed(errColumnExists) // it is there already
}

// tableHead matches the beginning of SHOW CREATE TABLE, up to the table's name, which some servers
// store in lower case. The text behind the match is the definition that every period has; the
// catalog's views don't have all of it.
var tableHead = regexp.MustCompile("^CREATE TABLE `(?:[^`]|``)*`")

// partitionClause matches the line break before PARTITION BY, the last clause of SHOW CREATE TABLE.
// It can't match within a quoted text, where the server writes a line break as a backslash and an
// n.
var partitionClause = regexp.MustCompile(`\n(/\*!\d+)? ?PARTITION BY `)

// namedCheck matches the name of a check in SHOW CREATE TABLE, at the beginning of its line.
var namedCheck = regexp.MustCompile("\n  CONSTRAINT `(?:[^`]|``)+` CHECK ")

// likePeriod returns the statement that creates an empty table with the definition of t's periods.
// CREATE TABLE LIKE isn't used, because the new table would begin with all of t's partitions.
func (db *server) likePeriod(ctx context.Context, from querent, t *engine.Table, name string) (string, error) {
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
	if !db.dialect.mariadb { // MySQL has one namespace for the checks of a database
		rest = namedCheck.ReplaceAllString(rest, "\n  CHECK ")
	}
	return "CREATE TABLE " + db.dialect.Quote(name) + rest, nil
}

// A speaker implements the methods of engine.Words that query the server.
type speaker struct {
	words
	db *server
}

// likeTimeout limits the query of CreateTemplate.
const likeTimeout = 5 * time.Second

// CreateTemplate returns the statements that create a table with the definition which t has on the
// server. If it can't read the definition, it returns the statements that a dry run shows.
func (s speaker) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	ctx, cancel := context.WithTimeout(context.Background(), likeTimeout)
	defer cancel()
	q, err := s.db.likePeriod(ctx, s.db.pool, t, name)
	if err != nil {
		return s.words.CreateTemplate(t, name, o)
	}
	return append([]string{q}, s.compress(name, o)...)
}
