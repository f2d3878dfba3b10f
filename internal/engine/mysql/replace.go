package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Comments on the replacement table during a Replace. They record the progress.
const (
	// These marks are comments of the table Replace.With. exchangeMark is set, with the table's
	// identity, before the exchange. If the table has another identity later, the exchange has
	// happened.
	exchangeMark = "rowmill: in exchange"
	// moveMark is set before the table's rows are moved. If the table is empty later, they have moved.
	moveMark = "rowmill: its rows move into partitions"
	// emptyMark is set instead of moveMark if the table has no rows to move.
	emptyMark = "rowmill: it has no rows to move into partitions"
)

func (d partitioner) mark(table, text string) string {
	return "ALTER TABLE " + d.Quote(table) + " COMMENT = " + quoteText(text)
}

// checkReplace refuses an inconsistent Replace.
func checkReplace(s engine.Replace) error {
	if slices.Contains(s.Out, s.With) {
		return errors.New("one table is named twice")
	}
	return s.Check()
}

// replace executes a Replace. All old partitions except the last one become tables, so that the
// last one takes over their range. Then the last partition, which keeps its name, is exchanged for
// the table of the new rows. If there is only one old partition, readers see only the exchange.
//
// MariaDB can't exchange a partition if other tables are locked, too: it validates the rows in a
// transaction, which the other locks would keep open. There, CONVERT turns the other partitions
// into tables.
func (c *changer) replace(ctx context.Context, s engine.Replace) {
	defer func() {
		if serverError(c.err, errTablesDiffer, errNoColumn) {
			c.err = engine.Classed(engine.ErrDiffers, c.err)
		}
	}()
	c.fail(checkReplace(s))
	with, table := c.look(ctx, s.With), c.look(ctx, c.t.Name)
	switch {
	case c.err != nil:
		return
	case !with.there:
		c.replaced(ctx, s)
		return
	case with.partitioned:
		c.fail(fmt.Errorf("table %s is partitioned", s.With))
		return
	case with.comment == moveMark || with.comment == emptyMark || !table.exchanges():
		c.replaceRows(ctx, s)
		return
	}
	if !c.exchanged(ctx, s, with.comment) {
		c.prepareOut(ctx, s)
		c.run(ctx, c.mark(s.With, exchangeMark+": "+c.identity(ctx, s.With, "")))
		tables := []string{c.t.Name, s.With}
		if !c.mariadb {
			tables = append(tables, s.Out[:len(s.Out)-1]...)
		}
		exchange := func() {
			proof := c.prove(ctx, s)
			c.locked(ctx, tables, func() ([]string, bool) {
				proof.again(ctx, c)
				return c.replacePlan(ctx, s), false
			})
		}
		if c.selfBlocking(ctx) {
			exchange = func() { c.replaceBehind(ctx, s, c.prove(ctx, s)) }
		}
		exchange()
		if !c.mariadb && c.failed(errTablesDiffer) {
			c.renew(ctx, s.Out[:len(s.Out)-1]...)
			exchange()
		}
		if c.failed(errExchangeOption, errSyntax) {
			c.replaceRows(ctx, s)
			return
		}
	}
	c.rename(ctx, s)
}

// A proving checks the proofs of a Replace.
type proving struct {
	of     engine.Replace
	have   []rolling.Partition // the old partitions that still have their rows
	before map[string]int64    // when each was last written; nil if the rows are to be compared under the lock
}

// lockedRows is how many rows can be compared under the table's lock in some 20 ms.
const lockedRows = 20_000

// prove checks the proofs before the table is locked if they are about many rows; proofs of few
// rows are left to again. The check runs in a transaction that locks the rows and the gaps between
// them: other clients can still read, and write to other partitions.
func (c *changer) prove(ctx context.Context, s engine.Replace) *proving {
	p := &proving{of: s}
	if len(s.Proofs) == 0 {
		return p
	}
	have, out := c.toReplace(ctx, s)
	rows := int64(0)
	for i, h := range have {
		if !c.look(ctx, out[i]).there || !c.filled(ctx, c.Quote(out[i])) { // else an earlier attempt has moved the rows
			p.have = append(p.have, h)
		}
	}
	for _, proof := range s.Proofs {
		rows += proof.Sum.Rows
	}
	if c.err != nil || rows <= lockedRows {
		return p
	}
	if c.settle(ctx, p.have); c.err != nil {
		return p
	}
	c.err = engine.InTx(ctx, c.db, c.db.changes, &sql.TxOptions{Isolation: sql.LevelSerializable}, func(tx *sql.Tx) (err error) {
		if err = p.ask(ctx, tx); err == nil {
			p.before, err = c.writes(ctx, tx, p.have)
		}
		return err
	})
	return p
}

func (p *proving) ask(ctx context.Context, x querent) error {
	return p.of.Prove(p.have, func(query string) (sum engine.Checksum, err error) {
		return sum, classify(x.QueryRowContext(ctx, query).Scan(&sum.Rows, &sum.Hash))
	})
}

// again is called when the table is locked. If prove has already compared the rows, again fails the
// change if rows were committed since to one of the old partitions, even to one that was empty.
// Otherwise it compares the rows now.
func (p *proving) again(ctx context.Context, c *changer) {
	switch {
	case c.err != nil || len(p.have) == 0:
	case p.before == nil:
		c.fail(p.ask(ctx, c.conn))
	default:
		now, _, err := c.db.readWritten(ctx, c.db.config.DBName, c.t.Name)
		c.fail(err)
		for _, h := range p.have {
			if now[h.Name] != p.before[h.Name] {
				c.fail(engine.Written(h))
			}
		}
	}
}

// writes returns the time of the last commit in each partition, in Unix seconds; 0 if there was
// none since the server opened the partition. It returns ErrWritten or ErrLockTimeout if a commit
// after the call could have the same time as the last one. (On MariaDB, a commit has the time at
// which its transaction began.) It returns nil if the account may not see which transactions are
// open.
func (c *changer) writes(ctx context.Context, x querent, of []rolling.Partition) (map[string]int64, error) {
	at, _, err := c.db.readWritten(ctx, c.db.config.DBName, c.t.Name)
	if err != nil {
		return nil, err
	}
	for _, p := range of {
		// trx_started is local time: in any zone, it differs from UTC by a multiple of 900 seconds.
		q := "SELECT UNIX_TIMESTAMP(SYSDATE()), 0"
		if c.mariadb && at[p.Name] > 0 {
			q = fmt.Sprintf("SELECT UNIX_TIMESTAMP(SYSDATE()), COUNT(*) FROM information_schema.INNODB_TRX WHERE MOD(UNIX_TIMESTAMP(trx_started), 900) = %d", at[p.Name]%900)
		}
		var now, same int64
		err := x.QueryRowContext(ctx, q).Scan(&now, &same)
		switch {
		case serverError(err, errPrivilege):
			return nil, nil
		case err != nil:
			return nil, classify(err)
		case at[p.Name] > now-settled:
			return nil, engine.Written(p)
		case same > 0:
			return nil, engine.Classed(engine.ErrLockTimeout, fmt.Errorf("a transaction is open that may write rows of %s", p.Name))
		}
	}
	return at, nil
}

// settle waits until the last commit in each of the partitions is so old that the method writes no
// longer returns ErrWritten. It gives up if others keep committing.
func (c *changer) settle(ctx context.Context, of []rolling.Partition) {
	for end := time.Now().Add((settled + 1) * time.Second); c.err == nil; {
		if _, err := c.writes(ctx, c.conn, of); !errors.Is(err, engine.ErrWritten) || time.Now().After(end) {
			c.fail(err)
			return
		}
		c.fail(engine.Sleep(ctx, 50*time.Millisecond))
	}
}

// selfBlocking reports whether the server is MariaDB and the table has triggers. LOCK TABLES then
// also locks the tables that the triggers use, and an exchange under that lock would block itself.
func (c *changer) selfBlocking(ctx context.Context) bool {
	return c.mariadb && c.filled(ctx, "information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = "+quoteText(c.t.Name))
}

// replaceBehind replaces one partition of a table that is selfBlocking.
func (c *changer) replaceBehind(ctx context.Context, s engine.Replace, proof *proving) {
	have, _ := c.toReplace(ctx, s)
	if c.err == nil && len(have) > 1 {
		c.fail(engine.Classed(engine.ErrRefused, errors.New("MariaDB can't replace several partitions of a table with triggers at once")))
		return
	}
	c.exchangeBehind(ctx, s.New.Name, s.With, func() { proof.again(ctx, c) })
}

// guard is a table option: while it differs from the partition's, an exchange of the table fails.
const guard = " MAX_ROWS = "

// exchangeBehind exchanges a partition in a second session. The exchange waits for the table lock
// of the first session, ahead of all other writers. While the exchange waits, exchangeBehind calls
// the function passed as first. After that, the first session removes the guard from the table. If
// the first session is lost before it has removed the guard, the exchange fails.
func (c *changer) exchangeBehind(ctx context.Context, part, with string, first func()) {
	alter := "ALTER TABLE " + c.Quote(with) + guard
	c.run(ctx, alter+"1")
	if c.err != nil {
		return
	}
	behind, err := c.db.changes.Conn(ctx)
	if err != nil {
		c.fail(c.db.unreachable(err))
		return
	}
	defer engine.DiscardConn(c.db, behind)
	var id int64
	if err := behind.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		c.fail(classify(err))
		return
	}
	c.run(ctx, c.lockTables([]string{c.t.Name, with}))
	if c.err != nil {
		return
	}
	// The exchange doesn't end with ctx: its result can be seen afterwards.
	exchanged := make(chan error, 1)
	go func() {
		_, err := behind.ExecContext(context.WithoutCancel(ctx), c.exchange(c.t, part, with))
		exchanged <- err
	}()
	waits, err := c.db.waitsForLock(ctx, id, exchanged)
	c.fail(err)
	if first(); waits {
		c.run(ctx, alter+"0")
	}
	if err := c.err; err != nil {
		c.err = nil
		c.run(context.WithoutCancel(ctx), unlock)
		<-exchanged // it has failed
		c.err = errors.Join(err, c.err)
		return
	}
	c.run(context.WithoutCancel(ctx), unlock)
	if err := <-exchanged; err != nil {
		c.fail(fmt.Errorf("%s: %w", engine.FirstWords(c.exchange(c.t, part, with)), classify(err)))
	}
}

// rename executes the last step of a Replace. If MySQL was killed during this step, each repetition
// may fail, because the table's description is missing in its tablespace. In this case rename uses
// RENAME TABLE, which writes a new description.
func (c *changer) rename(ctx context.Context, s engine.Replace) {
	c.run(ctx, c.renameOut(s))
	if c.failed(errNoDescription) {
		out := c.Quote(s.Out[len(s.Out)-1])
		c.run(ctx, "RENAME TABLE "+c.Quote(s.With)+" TO "+out, "ALTER TABLE "+out+" COMMENT = ''")
	}
}

// renameOut renders the last step. It needs no lock, because no other session uses the table.
func (d partitioner) renameOut(s engine.Replace) string {
	return "ALTER TABLE " + d.Quote(s.With) + " RENAME TO " + d.Quote(s.Out[len(s.Out)-1]) + ", COMMENT = ''"
}

// prepareOut prepares the tables that get the old rows. The last one must not exist, because s.With
// is renamed to it; in MariaDB, none may exist, because CONVERT creates them. prepareOut drops a
// table that must not exist, if it is empty; if the last one isn't empty, the change fails. In
// MySQL, it creates the tables except the last, to exchange them for partitions.
func (c *changer) prepareOut(ctx context.Context, s engine.Replace) {
	last := len(s.Out) - 1
	for i, name := range s.Out {
		if i < last && !c.mariadb {
			c.clone(ctx, name)
		} else {
			c.absent(ctx, name, i == last)
		}
	}
}

// absent drops a table if it is empty. If must is true, rows in the table are an error.
func (c *changer) absent(ctx context.Context, name string, must bool) {
	switch {
	case !c.look(ctx, name).there:
	case !c.filled(ctx, c.Quote(name)):
		c.run(ctx, "DROP TABLE "+c.Quote(name))
	case must:
		c.fail(engine.Classed(engine.ErrTableExists, fmt.Errorf("table %s exists and has rows", name)))
	}
}

// replaced checks that a Replace is complete, after its replacement table has disappeared.
func (c *changer) replaced(ctx context.Context, s engine.Replace) {
	if c.layout(ctx).index(s.New) < 0 || !c.look(ctx, s.Out[len(s.Out)-1]).there {
		c.fail(engine.Classed(engine.ErrNoTable, fmt.Errorf("table %s to replace it by does not exist", s.With)))
	}
}

// identity returns what distinguishes a table's rows from those of other tables: the table's
// tablespace or, without the privilege PROCESS, the rows' number and checksum. If like isn't empty,
// the identity is of the same kind as like.
func (c *changer) identity(ctx context.Context, name, like string) string {
	if c.err == nil && (like == "" || strings.HasPrefix(like, "tablespace ")) {
		space, err := c.db.sizer().tablespace(ctx, c.conn, name)
		c.fail(err)
		if space > 0 {
			return fmt.Sprintf("tablespace %d", space)
		}
		if like != "" {
			c.fail(errors.New("the server no longer tells which tablespace it is in: the privilege PROCESS is missing"))
		}
	}
	columns := c.columns(ctx, name).Columns
	if c.err != nil {
		return ""
	}
	var rows int64
	var hash string
	c.read(ctx, "SELECT COUNT(*), "+c.words().RowHash(columns)+" FROM "+c.Quote(name), &rows, &hash)
	return fmt.Sprintf("%d rows %s", rows, hash)
}

// exchanged reports, by the replacement table's comment, whether its rows are in the partition.
func (c *changer) exchanged(ctx context.Context, s engine.Replace, comment string) bool {
	before, marked := strings.CutPrefix(comment, exchangeMark)
	if before = strings.TrimPrefix(before, ": "); marked && before != "" {
		return c.identity(ctx, s.With, before) != before
	}
	// A mark without an identity was set by the statements that Render shows. It doesn't tell whether
	// the exchange has happened. If several partitions are replaced, the rows of the replacement table
	// tell it: only before the exchange does the table also have rows of the first partition.
	last := s.Old[len(s.Old)-1]
	early := fmt.Sprintf("%s WHERE %s < %s", c.Quote(s.With), c.Quote(c.t.By), c.words().Literal(c.t, last.From))
	return marked && len(s.Old) > 1 && !c.filled(ctx, early)
}

// toReplace returns those of the old partitions that still exist, and for each of them the table
// that gets its rows. Unless toReplace fails, it returns at least one partition.
func (c *changer) toReplace(ctx context.Context, s engine.Replace) (have []rolling.Partition, out []string) {
	for _, p := range c.layout(ctx).parts {
		if p.To > s.New.From && p.To <= s.New.To {
			have = append(have, p)
		}
	}
	if len(have) == 0 || have[0].From != s.New.From || have[len(have)-1].To != s.New.To {
		c.fail(fmt.Errorf("the table has no partitions from %s to %s", c.t.Grid.Format(s.New.From), c.t.Grid.Format(s.New.To)))
	}
	for _, p := range have {
		i := slices.IndexFunc(s.Old, func(old rolling.Partition) bool { return old.To == p.To })
		if i < 0 {
			c.fail(fmt.Errorf("partition %s is not one of those to be replaced", p.Name))
			break
		}
		out = append(out, s.Out[i])
	}
	return have, out
}

func (c *changer) replacePlan(ctx context.Context, s engine.Replace) []string {
	have, out := c.toReplace(ctx, s)
	if c.err != nil {
		return nil
	}
	last := len(have) - 1
	return append(c.takeOut(ctx, have[:last], out), c.exchange(c.t, have[last].Name, s.With))
}

// takeOut renders the statements that turn partitions into tables. In MySQL, it exchanges the rows
// with empty tables, and drops the partitions in one statement, because each DROP blocks other
// sessions while the server writes its catalog. It fails with ErrWritten if a partition got rows
// after an earlier attempt exchanged it.
func (c *changer) takeOut(ctx context.Context, have []rolling.Partition, out []string) (statements []string) {
	for i, p := range have {
		if c.mariadb {
			statements = append(statements, c.convert(c.t, p, out[i]))
		} else if c.filled(ctx, c.partition(c.t, p.Name)) {
			if c.filled(ctx, c.Quote(out[i])) {
				c.fail(engine.Written(p))
			}
			statements = append(statements, c.exchange(c.t, p.Name, out[i]))
		}
	}
	if !c.mariadb && len(have) > 0 {
		statements = append(statements, c.drop(c.t, have...))
	}
	return statements
}

// drop renders the drop of partitions with their rows.
func (d partitioner) drop(t *engine.Table, parts ...rolling.Partition) string {
	return "ALTER TABLE " + d.Quote(t.Name) + " DROP PARTITION " + d.list(partitionNames(parts))
}

func partitionNames(parts []rolling.Partition) []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	return names
}

// convert renders the conversion of a partition to a table in MariaDB, from 10.7 on.
func (d partitioner) convert(t *engine.Table, p rolling.Partition, table string) string {
	return fmt.Sprintf("ALTER TABLE %s CONVERT PARTITION %s TO TABLE %s", d.Quote(t.Name), d.Quote(p.Name), d.Quote(table))
}

// replaceRows carries out a Replace by moving rows: in one transaction, the rows of the old
// partitions go to the tables Out, and the rows of the table With into the rolling table. If there
// are several old partitions, the server then merges them, and copies their rows under a lock.
func (c *changer) replaceRows(ctx context.Context, s engine.Replace) {
	have, out := c.toReplace(ctx, s)
	with, left := c.look(ctx, s.With), c.filled(ctx, c.Quote(s.With))
	if c.err != nil {
		return
	}
	if left || with.comment != moveMark {
		columns, mark := c.writable(ctx), emptyMark
		for _, name := range s.Out { // also those that got rows in an earlier attempt
			c.clone(ctx, name)
		}
		var moves []string
		for i, p := range have {
			moves = append(moves, c.move(columns, c.partition(c.t, p.Name), c.Quote(out[i]))...)
		}
		moves = append(moves, c.move(columns, c.Quote(s.With), c.Quote(c.t.Name))...)
		if left {
			mark = moveMark
		}
		c.run(ctx, c.mark(s.With, mark))
		proof := &proving{of: s, have: have}
		c.transact(ctx, append([]string{c.t.Name, s.With}, s.Out...), func() { c.fail(proof.ask(ctx, c.conn)) }, moves...)
	}
	q, err := c.joined(s, have)
	c.fail(err)
	c.run(ctx, q...)
}

// joined renders the end of a Replace that has moved rows: merge partitions, drop the table With.
func (d partitioner) joined(s engine.Replace, have []rolling.Partition) ([]string, error) {
	drop, n := "DROP TABLE "+d.Quote(s.With), len(have)
	if n == 1 {
		return []string{drop}, nil
	}
	q, err := d.reorganize(s.Table, have, []rolling.Partition{{Name: have[n-1].Name, Period: s.New.Period}})
	return []string{q, drop}, err
}

// replaceAll renders a Replace by moving rows.
func (d partitioner) replaceAll(s engine.Replace) ([]string, error) {
	var out, moves []string
	for i, p := range s.Old {
		out = append(out, d.words().CreateTemplate(s.Table, s.Out[i], engine.Storage{})...)
		moves = append(moves, d.move("", d.partition(s.Table, p.Name), d.Quote(s.Out[i]))...)
	}
	moves = append(moves, d.move("", d.Quote(s.With), d.Quote(s.Table.Name))...)
	end, err := d.joined(s, s.Old)
	locks := append([]string{s.Table.Name, s.With}, s.Out...)
	return slices.Concat(out, []string{d.mark(s.With, moveMark)}, d.moveLocked(locks, moves), end), err
}

// replace renders a Replace that no earlier attempt has begun. Its mark lacks the identity.
func (d partitioner) replace(s engine.Replace) ([]string, error) {
	if err := checkReplace(s); err != nil {
		return nil, fmt.Errorf("replace by partition %s of table %s: %w", s.New.Name, s.Table.Name, err)
	}
	if d.rocksdb() {
		return d.replaceAll(s)
	}
	last := len(s.Old) - 1
	var clones, outs []string
	locks := []string{s.Table.Name, s.With}
	for i, p := range s.Old[:last] {
		if d.mariadb {
			outs = append(outs, d.convert(s.Table, p, s.Out[i]))
			continue
		}
		clones = append(clones, d.words().CreateTemplate(s.Table, s.Out[i], engine.Storage{})...)
		locks = append(locks, s.Out[i])
		outs = append(outs, d.exchange(s.Table, p.Name, s.Out[i]))
	}
	if !d.mariadb && last > 0 {
		outs = append(outs, d.drop(s.Table, s.Old[:last]...))
	}
	return slices.Concat(clones, []string{d.mark(s.With, exchangeMark), d.lockTables(locks)}, outs,
		[]string{d.exchange(s.Table, s.Old[last].Name, s.With), unlock, d.renameOut(s)}), nil
}
