package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Comments of the replacement table during a Replace. They record its progress.
const (
	// exchangeMark is set with the table's identity, right before the exchange: if
	// the identity of the table differs from its comment, it has been exchanged.
	exchangeMark = "rowmill: in exchange"
	// moveMark is set before the table's rows are moved: if it is empty then, they
	// have been moved.
	moveMark = "rowmill: its rows move into partitions"
	// emptyMark is set instead of moveMark if the table has no rows to move.
	emptyMark = "rowmill: it has no rows to move into partitions"
)

func (d dialect) mark(table, text string) string {
	return "ALTER TABLE " + d.Quote(table) + " COMMENT = " + quoteText(text)
}

// checkReplace refuses an inconsistent Replace.
func checkReplace(s engine.Replace) error {
	if slices.Contains(s.Out, s.With) {
		return errors.New("one table is named twice")
	}
	return s.Check()
}

// replace executes a Replace. All partitions except the last one become tables, so
// that the last one takes over their range; then that partition is exchanged. It
// keeps its name. With a single partition, readers see only the exchange.
//
// MariaDB exchanges only if no more than the two tables are locked, because it
// validates the rows in a transaction that other locks would keep open; it has
// CONVERT PARTITION for the other partitions.
func (c *changer) replace(ctx context.Context, s engine.Replace) error {
	if err := checkReplace(s); err != nil {
		return err
	}
	with, err := c.look(ctx, s.With)
	if err != nil {
		return err
	}
	if !with.there {
		return c.replaced(ctx, s)
	}
	if with.partitioned {
		return fmt.Errorf("table %s is partitioned", s.With)
	}
	table, err := c.look(ctx, c.t.Name)
	if err != nil {
		return err
	}
	if with.comment == moveMark || with.comment == emptyMark || !table.exchanges() {
		return c.replaceRows(ctx, s)
	}
	done, err := c.exchanged(ctx, s, with.comment)
	if err != nil {
		return err
	}
	if done {
		return c.run(ctx, c.d.renameOut(s))
	}
	if err := c.prepareOut(ctx, s); err != nil {
		return err
	}
	identity, err := c.identity(ctx, s.With, "")
	if err != nil {
		return err
	}
	if err := c.run(ctx, c.d.mark(s.With, exchangeMark+": "+identity)); err != nil {
		return err
	}
	tables := []string{c.t.Name, s.With}
	if !c.d.mariadb {
		tables = append(tables, s.Out[:len(s.Out)-1]...)
	}
	exchange := func() error {
		return c.locked(ctx, tables, func() ([]string, bool, error) { return c.replacePlan(ctx, s, &identity) })
	}
	err = exchange()
	if serverError(err, errTablesDiffer) && !c.d.mariadb {
		if err = c.renew(ctx, s.Out[:len(s.Out)-1]...); err == nil {
			err = exchange()
		}
	}
	if serverError(err, errExchangeOption, errSyntax) {
		return c.replaceRows(ctx, s)
	}
	if err != nil {
		return err
	}
	return c.run(ctx, c.d.renameOut(s))
}

// renameOut renders the last step: the table holds the last partition's old rows.
// No other session uses it, so it needs no lock.
func (d dialect) renameOut(s engine.Replace) string {
	return "ALTER TABLE " + d.Quote(s.With) + " RENAME TO " + d.Quote(s.Out[len(s.Out)-1]) + ", COMMENT = ''"
}

// prepareOut prepares the tables for old rows. In MySQL, it creates all but the last
// one. It drops the last one, and in MariaDB every one, if it is empty; the last one
// must not have rows.
func (c *changer) prepareOut(ctx context.Context, s engine.Replace) error {
	last := len(s.Out) - 1
	for i, name := range s.Out {
		if i < last && !c.d.mariadb {
			if err := c.clone(ctx, name); err != nil {
				return err
			}
			continue
		}
		if err := c.absent(ctx, name, i == last); err != nil {
			return err
		}
	}
	return nil
}

// absent drops a table if it is empty. If it has rows, that is an error if must is
// true.
func (c *changer) absent(ctx context.Context, name string, must bool) error {
	s, err := c.look(ctx, name)
	if err != nil || !s.there {
		return err
	}
	has, err := c.filled(ctx, c.d.Quote(name))
	if err != nil {
		return err
	}
	if has && must {
		return engine.Classed(engine.ErrTableExists, fmt.Errorf("table %s exists and has rows", name))
	}
	if has {
		return nil
	}
	return c.run(ctx, "DROP TABLE "+c.d.Quote(name))
}

// replaced checks that a Replace whose replacement table doesn't exist is complete.
func (c *changer) replaced(ctx context.Context, s engine.Replace) error {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return err
	}
	last, err := c.look(ctx, s.Out[len(s.Out)-1])
	if err != nil {
		return err
	}
	if l.index(s.New) < 0 || !last.there {
		return engine.Classed(engine.ErrNoTable, fmt.Errorf("table %s to replace it by does not exist", s.With))
	}
	return nil
}

// identity returns a string that distinguishes a table's rows from others': their
// tablespace, if the user has the privilege PROCESS to read it, otherwise their
// number and checksum. If like isn't empty, it is an identity, and the result is of
// the same kind.
func (c *changer) identity(ctx context.Context, name, like string) (string, error) {
	if like == "" || strings.HasPrefix(like, "tablespace ") {
		spaces, err := c.db.tablespaces(ctx, c.conn, name)
		if err != nil {
			return "", err
		}
		if len(spaces) == 1 {
			return fmt.Sprintf("tablespace %d", spaces[0].id), nil
		}
		if like != "" {
			return "", errors.New("the server no longer tells which tablespace it is in: the privilege PROCESS is missing")
		}
	}
	s := &engine.Schema{Name: name}
	if err := c.db.describeColumns(ctx, s); err != nil {
		return "", err
	}
	expr := c.d.RowHash(s.Columns)
	if like != "" {
		var err error
		if expr, err = c.d.RowHashLike(like[strings.LastIndexByte(like, ' ')+1:], s.Columns); err != nil {
			return "", fmt.Errorf("tell whether table %s has the rows it had: %w", name, err)
		}
	}
	var rows int64
	var hash string
	if err := c.conn.QueryRowContext(ctx, "SELECT COUNT(*), "+expr+" FROM "+c.d.Quote(name)).Scan(&rows, &hash); err != nil {
		return "", classify(err)
	}
	return fmt.Sprintf("%d rows %s", rows, hash), nil
}

// exchanged reports, by the comment of the table, whether its rows are already in
// the partition.
func (c *changer) exchanged(ctx context.Context, s engine.Replace, comment string) (bool, error) {
	before, marked := strings.CutPrefix(comment, exchangeMark)
	if !marked {
		return false, nil
	}
	if before = strings.TrimPrefix(before, ": "); before != "" {
		now, err := c.identity(ctx, s.With, before)
		return err == nil && now != before, err
	}
	// A mark of the statements that Render shows. Rows from several partitions
	// include rows of the first ones.
	last := s.Old[len(s.Old)-1]
	if len(s.Old) == 1 {
		return false, nil
	}
	early, err := c.filled(ctx, fmt.Sprintf("%s WHERE %s < %s", c.d.Quote(s.With), c.d.Quote(c.t.By), c.d.Literal(c.t, last.From)))
	return !early, err
}

// within returns the partitions within the bounds of p.
func (l layout) within(p rolling.Partition) []rolling.Partition {
	var out []rolling.Partition
	for _, q := range l.parts {
		if q.To > p.From && q.To <= p.To {
			out = append(out, q)
		}
	}
	return out
}

// toReplace returns those of the partitions to be replaced that still exist, and
// the index of each in s.Old.
func (c *changer) toReplace(ctx context.Context, s engine.Replace) (have []rolling.Partition, places []int, err error) {
	l, err := c.db.layout(ctx, c.conn, c.t)
	if err != nil {
		return nil, nil, err
	}
	have = l.within(s.New)
	if len(have) == 0 || have[0].From != s.New.From || have[len(have)-1].To != s.New.To {
		return nil, nil, fmt.Errorf("the table has no partitions from %s to %s", c.t.Grid.Format(s.New.From), c.t.Grid.Format(s.New.To))
	}
	for _, p := range have {
		i := slices.IndexFunc(s.Old, func(old rolling.Partition) bool { return old.To == p.To })
		if i < 0 {
			return nil, nil, fmt.Errorf("partition %s is not one of those to be replaced", p.Name)
		}
		places = append(places, i)
	}
	return have, places, nil
}

func (c *changer) replacePlan(ctx context.Context, s engine.Replace, identity *string) (statements []string, more bool, err error) {
	fail := func(err error) ([]string, bool, error) { return nil, false, err }
	have, places, err := c.toReplace(ctx, s)
	if err != nil {
		return fail(err)
	}
	last := len(have) - 1
	if !c.d.mariadb {
		late, err := c.lateRows(ctx, s, have[:last], places)
		if err != nil {
			return fail(err)
		}
		if len(late) > 0 {
			// The table changes: its mark is removed first, because a mark of the
			// old rows would mean that they have been exchanged.
			*identity = ""
			return append([]string{c.d.mark(s.With, "")}, late...), true, nil
		}
	}
	if *identity == "" {
		if *identity, err = c.identity(ctx, s.With, ""); err != nil {
			return fail(err)
		}
		statements = append(statements, c.d.mark(s.With, exchangeMark+": "+*identity))
	}
	out, err := c.takeOut(ctx, s, have[:last], places)
	if err != nil {
		return fail(err)
	}
	statements = append(statements, out...)
	return append(statements, c.d.exchange(c.t, have[last].Name, s.With)), false, nil
}

// takeOut renders the statements that convert partitions to tables and remove the
// partitions. In MySQL, the rows are first exchanged with empty tables, and the
// partitions are dropped in one statement: each statement blocks other sessions
// while the server writes its catalog.
func (c *changer) takeOut(ctx context.Context, s engine.Replace, have []rolling.Partition, places []int) (statements []string, err error) {
	for i, p := range have {
		if c.d.mariadb {
			statements = append(statements, c.d.convert(c.t, p, s.Out[places[i]]))
			continue
		}
		has, err := c.filled(ctx, c.d.partition(c.t, p.Name))
		if err != nil {
			return nil, err
		}
		if has {
			statements = append(statements, c.d.exchange(c.t, p.Name, s.Out[places[i]]))
		}
	}
	if !c.d.mariadb && len(have) > 0 {
		statements = append(statements, c.d.drop(c.t, have...))
	}
	return statements, nil
}

// drop renders the drop of partitions with their rows.
func (d dialect) drop(t *engine.Table, parts ...rolling.Partition) string {
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
func (d dialect) convert(t *engine.Table, p rolling.Partition, table string) string {
	return fmt.Sprintf("ALTER TABLE %s CONVERT PARTITION %s TO TABLE %s", d.Quote(t.Name), d.Quote(p.Name), d.Quote(table))
}

// lateRows renders the move of rows that were inserted into partitions after their
// exchange and before this attempt, when a crash interrupted the change: they go
// into the new partition.
func (c *changer) lateRows(ctx context.Context, s engine.Replace, have []rolling.Partition, places []int) ([]string, error) {
	var statements []string
	for i, p := range have {
		from := c.d.partition(c.t, p.Name)
		has, err := c.filled(ctx, from)
		if err != nil {
			return nil, err
		}
		done, err := c.filled(ctx, c.d.Quote(s.Out[places[i]]))
		if err != nil {
			return nil, err
		}
		if has && done {
			columns, err := c.columns(ctx)
			if err != nil {
				return nil, err
			}
			statements = append(statements, c.d.moveAtOnce(columns, from, c.d.Quote(s.With))...)
		}
	}
	return statements, nil
}

// replaceRows replaces the rows in one transaction, if partitions can't be exchanged.
// Then it merges several partitions into one, which copies their rows under a lock.
func (c *changer) replaceRows(ctx context.Context, s engine.Replace) error {
	have, places, err := c.toReplace(ctx, s)
	if err != nil {
		return err
	}
	with, err := c.look(ctx, s.With)
	if err != nil {
		return err
	}
	left, err := c.filled(ctx, c.d.Quote(s.With))
	if err != nil {
		return err
	}
	if left || with.comment != moveMark {
		columns, err := c.columns(ctx)
		if err != nil {
			return err
		}
		for _, name := range s.Out { // also those that got rows in an earlier attempt
			if err := c.clone(ctx, name); err != nil {
				return err
			}
		}
		var statements []string
		for i, p := range have {
			statements = append(statements, c.d.move(columns, c.d.partition(c.t, p.Name), c.d.Quote(s.Out[places[i]]))...)
		}
		statements = append(statements, c.d.move(columns, c.d.Quote(s.With), c.d.Quote(c.t.Name))...)
		mark := moveMark
		if !left {
			mark = emptyMark
		}
		if err := c.run(ctx, c.d.mark(s.With, mark)); err != nil {
			return err
		}
		statements, err = c.transaction(ctx, append([]string{c.t.Name, s.With}, s.Out...), statements...)
		if err != nil {
			return err
		}
		if err := c.run(ctx, statements...); err != nil {
			return err
		}
	}
	if n := len(have); n > 1 {
		q, err := c.d.reorganize(c.t, have, []rolling.Partition{{Name: have[n-1].Name, Period: s.New.Period}})
		if err != nil {
			return err
		}
		if err := c.run(ctx, q); err != nil {
			return err
		}
	}
	return c.run(ctx, "DROP TABLE "+c.d.Quote(s.With))
}

// replaceAll renders a Replace by moving rows.
func (d dialect) replaceAll(s engine.Replace) ([]string, error) {
	var out, moves []string
	for i, p := range s.Old {
		out = append(out, d.CreateTemplate(s.Table, s.Out[i], engine.Storage{})...)
		moves = append(moves, d.moveAll(d.partition(s.Table, p.Name), d.Quote(s.Out[i]))...)
	}
	moves = append(moves, d.moveAll(d.Quote(s.With), d.Quote(s.Table.Name))...)
	out = slices.Concat(out, []string{d.mark(s.With, moveMark)}, d.moveLocked(append([]string{s.Table.Name, s.With}, s.Out...), moves))
	if n := len(s.Old); n > 1 {
		q, err := d.reorganize(s.Table, s.Old, []rolling.Partition{{Name: s.Old[n-1].Name, Period: s.New.Period}})
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return append(out, "DROP TABLE "+d.Quote(s.With)), nil
}

// replace renders a Replace from its initial state. The identity in the comment is
// known only at execution.
func (d dialect) replace(s engine.Replace) ([]string, error) {
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
		clones = append(clones, d.CreateTemplate(s.Table, s.Out[i], engine.Storage{})...)
		locks = append(locks, s.Out[i])
		outs = append(outs, d.exchange(s.Table, p.Name, s.Out[i]))
	}
	if !d.mariadb && last > 0 {
		outs = append(outs, d.drop(s.Table, s.Old[:last]...))
	}
	return slices.Concat(clones, []string{d.mark(s.With, exchangeMark), d.lockTables(locks)}, outs,
		[]string{d.exchange(s.Table, s.Old[last].Name, s.With), unlock[0], d.renameOut(s)}), nil
}
