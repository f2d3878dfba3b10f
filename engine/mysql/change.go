package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Changes of a table's periods are several statements each, and every DDL
// statement commits. They run with the tables locked, which also keeps rows from
// coming in between, and are sent in one packet: the server carries it out to
// its end also when the client is killed. Where the server or the connection is,
// the next try goes by what it finds: which tables and partitions there are,
// and which of them have rows.

// Numbers of the server's errors about an exchange.
const (
	errExchangeOption = 1731 // such as columns that were added instantly
	errTablesDiffer   = 1736
	errColumnExists   = 1060
	errSyntax         = 1064
)

// serverError reports whether an error is the server's with one of the numbers.
func serverError(err error, numbers ...uint16) bool {
	var server *mysql.MySQLError
	return errors.As(err, &server) && slices.Contains(numbers, server.Number)
}

// A changer carries out one change on a connection of its own.
type changer struct {
	db   *DB
	d    dialect
	conn *sql.Conn
	t    *engine.Table
}

// change tries a change of periods once.
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
		if err != nil { // with its locks and what it has begun
			err = errors.Join(err, discardConn(conn))
			return
		}
		err = conn.Close()
	}()
	return run(c)
}

// run executes statements in one packet.
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
	for _, q := range statements { // in tests, which break between any two
		if err := c.db.interrupt(q); err != nil {
			return err
		}
		if _, err := c.conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err))
		}
	}
	return nil
}

// locked locks tables, has plan look at them, and runs what it returns. A plan
// is asked again for as long as it says that there is more to come.
//
// MariaDB waits for itself when a table is exchanged whose triggers use other
// tables, because LOCK TABLES takes those, too. There each statement takes the
// lock by itself: readers may miss rows of the periods for some milliseconds,
// and what comes in between is found like all that comes late.
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
			if serverError(err, errExchangeOption, errTablesDiffer, errSyntax) { // the next thing to try needs the connection
				return errors.Join(err, c.run(ctx, unlock...))
			}
			return err
		}
	}
	return nil
}

// triggers reports whether the table has any.
func (c *changer) triggers(ctx context.Context) (bool, error) {
	var n int
	err := c.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = "+quoteText(c.t.Name)).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("triggers of %s: %w", c.t.Name, classify(err))
	}
	return n > 0, nil
}

// unlock ends a change.
var unlock = []string{"UNLOCK TABLES"}

// lockTables renders the lock of tables against everybody else.
func (d dialect) lockTables(tables []string) string {
	locks := make([]string, len(tables))
	for i, name := range tables {
		locks[i] = d.Quote(name) + " WRITE"
	}
	return "LOCK TABLES " + strings.Join(locks, ", ")
}

// partition is what a FROM names to read one partition.
func (d dialect) partition(t *engine.Table, name string) string {
	return d.Quote(t.Name) + " PARTITION (" + d.Quote(name) + ")"
}

// exchange renders the exchange of a partition's rows with a table's.
func (d dialect) exchange(t *engine.Table, part, table string) string {
	q := fmt.Sprintf("ALTER TABLE %s EXCHANGE PARTITION %s WITH TABLE %s", d.Quote(t.Name), d.Quote(part), d.Quote(table))
	if d.unchecked {
		q += " WITHOUT VALIDATION"
	}
	return q
}

// filled reports whether what a FROM names has rows.
func (c *changer) filled(ctx context.Context, from string) (bool, error) {
	var one int
	err := c.conn.QueryRowContext(ctx, "SELECT 1 FROM "+from+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, classify(err)
}

// A standing is what there is of a table by a name.
type standing struct {
	there, partitioned bool
	comment            string
	engine             string
}

// exchanges reports whether the table's storage engine has EXCHANGE PARTITION.
// In MariaDB, MyRocks finds that definitions differ, whatever they are.
func (s standing) exchanges() bool { return !strings.EqualFold(s.engine, "rocksdb") }

// checkName refuses a name with which MariaDB, 10.11 among them, fails to find
// the database of a table that is cut into partitions, and loses the table over
// a change of them.
func (d dialect) checkName(name string) error {
	if d.mariadb && strings.Contains(name, "/") {
		return engine.Classed(engine.ErrUnsupported, errors.New("MariaDB can't change the partitions of a table with a slash in its name"))
	}
	return nil
}

// look tells what there is of a table.
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

// clone sees to it that there is a table like a period by that name. One that
// was begun and is still cut into partitions is made anew.
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
			return fmt.Errorf("table %s is there, and is cut into partitions", name)
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

// renew makes empty tables anew that are no longer like a period.
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

// columns is the list of columns that can be written to, quoted.
func (c *changer) columns(ctx context.Context) (string, error) {
	s := &engine.Schema{Name: c.t.Name}
	if err := c.db.describeColumns(ctx, s); err != nil {
		return "", err
	}
	return c.d.list(s.Names()), nil
}

// move renders the move of all rows from one place to another. It is to run in
// one transaction.
func (d dialect) move(columns, from, to string) []string {
	return []string{
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", to, columns, columns, from),
		"DELETE FROM " + from,
	}
}

// moveAtOnce renders the move of all rows as a transaction while the tables are
// locked, which START TRANSACTION would end. It is over before MariaDB exchanges
// anything, for which the locks of rows would be in the way.
func (d dialect) moveAtOnce(columns, from, to string) []string {
	return slices.Concat([]string{"SET SESSION autocommit = 0"}, d.move(columns, from, to), []string{"COMMIT", "SET SESSION autocommit = 1"})
}

// moveAll renders the move of all rows for a plan, which doesn't know the names
// of the columns that can be written to.
func (d dialect) moveAll(from, to string) []string {
	return []string{"INSERT INTO " + to + " SELECT * FROM " + from, "DELETE FROM " + from}
}

// moveLocked renders statements as one transaction with the tables locked.
func (d dialect) moveLocked(tables, statements []string) []string {
	return slices.Concat([]string{"SET SESSION autocommit = 0", d.lockTables(tables)}, statements, []string{"COMMIT"}, unlock, []string{"SET SESSION autocommit = 1"})
}

// transaction renders statements as one transaction that locks what it reads,
// so that no row comes between the reading and the deleting. MyRocks has no such
// transactions, and locks the tables.
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

// detach carries out a Detach.
func (c *changer) detach(ctx context.Context, s engine.Detach) error {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return err
	}
	i := l.find(s.Part)
	if i < 0 {
		into, err := c.look(ctx, s.Into)
		if err == nil && !into.there {
			err = fmt.Errorf("there is neither the partition nor the table %s", s.Into)
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

// moveRows moves all rows from one place to another, of which one is the table
// and the other one named, in one transaction.
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

// floorRows is how many rows the floor may have for a period to be dropped: they
// are copied while the table is locked, which takes about a second for so many.
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
		// They came after an exchange that was broken off, and the floor
		// doesn't take them.
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

// detach renders a Detach of which nothing is done yet.
func (d dialect) detach(s engine.Detach) ([]string, error) {
	l := supposed(s.Table, s.Have)
	i := l.find(s.Part)
	if i < 0 {
		return nil, fmt.Errorf("detach partition %s of %s: it has none that ends there", s.Part.Name, s.Table.Name)
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

// dropTables renders the drop of tables.
func (d dialect) dropTables(s engine.DropTables) []string {
	out := make([]string, len(s.Names)) // one at a time: each is a file to remove
	for i, name := range s.Names {
		out[i] = "DROP TABLE IF EXISTS " + d.Quote(name)
	}
	return out
}

// algorithms are those by which a column is added, the one that blocks least
// first; the last one is the server's choice.
var algorithms = []string{", ALGORITHM=INSTANT", ", ALGORITHM=INPLACE, LOCK=NONE", ""}

func (d dialect) addColumn(s engine.AddColumn, algorithm string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s%s", d.Quote(s.Table.Name), s.Definition, algorithm)
}

// steps that look what of them is done already.
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

// addColumn adds a column by the first algorithm that the server has for it.
func (c *changer) addColumn(ctx context.Context, s engine.AddColumn) error {
	var err error
	for _, algorithm := range algorithms {
		err = c.run(ctx, c.d.addColumn(s, algorithm))
		switch {
		case serverError(err, errColumnExists):
			return nil
		case serverError(err, 1845, 1846, 4111, 1221): // not by this algorithm, or not with this lock
			continue
		}
		return err
	}
	return err
}
