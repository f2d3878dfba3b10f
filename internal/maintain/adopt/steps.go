package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// exists returns the table or view with that name, or nil.
func (j *job) exists(ctx context.Context, name string) (*engine.Schema, error) {
	s, err := j.DB.Describe(ctx, name)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	return s, err
}

// create creates the objects that the copy needs beside the table.
func (j *job) create(ctx context.Context) error {
	m := j.there()
	statements, err := j.beside(ctx, m)
	if err != nil {
		return err
	}
	if err := j.exec(ctx, statements...); err != nil {
		return err
	}
	if err := j.point("create: log"); err != nil {
		return err
	}
	have, err := j.exists(ctx, m.dst.name)
	if err != nil {
		return err
	}
	if have == nil {
		parts, err := j.periods(ctx, extent{j.data.Of, j.data.First, j.data.Last})
		if err != nil {
			return err
		}
		if err := j.DB.Try(ctx, engine.CreateTable{Table: m.table(m.dst), Partitions: parts}); err != nil {
			return err
		}
		if err := j.point("create: table"); err != nil {
			return err
		}
	}
	if err := j.checkTwin(ctx); err != nil {
		return err
	}
	grants, err := j.grants(ctx)
	if err != nil {
		return err
	}
	return j.exec(ctx, grants...)
}

// beside returns the statements for the log and the table for late rows.
func (j *job) beside(ctx context.Context, m *mirror) ([]string, error) {
	types, err := j.nativeTypes(ctx, m.logged())
	if err != nil {
		return nil, err
	}
	out := m.logStatements(types)
	if m.dst.rolls {
		if types, err = j.nativeTypes(ctx, j.columns); err != nil {
			return nil, err
		}
		out = append(out, j.lateStatements(types)...)
	}
	return out, nil
}

// grants returns statements that give the rolling table the privileges of the plain
// one. In MySQL and MariaDB privileges belong to a table's name, and SQLite has none.
func (j *job) grants(ctx context.Context) ([]string, error) {
	if !j.postgres() {
		return nil, nil
	}
	to := j.q(newName(j.Table.Name))
	out, err := j.strings(ctx, "SELECT format('GRANT %s ON TABLE %s TO %s%s', a.privilege_type, ?::text, "+
		"CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) "+
		"FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = to_regclass(?) AND a.grantee <> c.relowner ORDER BY 1", to, j.q(j.Table.Name))
	if err != nil {
		return nil, fmt.Errorf("read the table's privileges: %w", err)
	}
	owner, err := j.strings(ctx, "SELECT format('ALTER TABLE %s OWNER TO %s', ?::text, quote_ident(pg_get_userbyid(relowner))) FROM pg_class WHERE oid = to_regclass(?) AND pg_get_userbyid(relowner) <> current_user", to, j.q(j.Table.Name))
	if err != nil {
		return nil, fmt.Errorf("read the table's owner: %w", err)
	}
	return append(out, owner...), nil
}

// addTriggers creates the missing triggers. Each creation waits for all open
// transactions that have written to the table, so that every later change is logged.
func (j *job) addTriggers(ctx context.Context, m *mirror) error {
	schema, err := j.schema(ctx)
	if err != nil {
		return err
	}
	statements := m.triggerStatements(schema)
	on, names, err := j.carriers(ctx, m, statements)
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(on, name) {
			continue
		}
		err := j.locked(ctx, m.src.name, "create a trigger", func() error { return j.createTrigger(ctx, statements[name]) })
		if err != nil {
			return engine.Hinted(err, "the privilege TRIGGER; in MySQL with a binary log also log_bin_trust_function_creators = 1")
		}
		if err := j.point("trigger: " + name); err != nil {
			return err
		}
	}
	return nil
}

// triggerAhead is how far in the future, in seconds, the creation time of a trigger
// in MariaDB is set. It exceeds the time for which the statement waits for the lock.
const triggerAhead = 10

// createTrigger runs the statements of one trigger. To decide whether a prepared
// statement is older than a trigger, MariaDB uses the time at which the statement
// that created the trigger began. A statement prepared while CREATE TRIGGER waited
// for its lock would run the trigger without the trigger's tables, and fail: "Table
// ...__rowmill_log doesn't exist". The creation time is therefore set ahead. The only
// effect is that statements are prepared again, once.
func (j *job) createTrigger(ctx context.Context, statements []string) error {
	if j.DB.Info().Engine != "mariadb" {
		return j.exec(ctx, statements...)
	}
	conn, err := j.DB.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(conn) // discards its timestamp setting
	for _, q := range append([]string{fmt.Sprintf("SET timestamp = UNIX_TIMESTAMP() + %d", triggerAhead)}, statements...) {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), j.DB.Classify(err))
		}
	}
	return nil
}

// schema returns the current PostgreSQL schema, which the triggers name.
func (j *job) schema(ctx context.Context) (string, error) {
	if !j.postgres() {
		return "", nil
	}
	names, err := j.strings(ctx, "SELECT current_schema()::text")
	if err == nil && len(names) != 1 {
		err = errors.New("there is none")
	}
	if err != nil {
		return "", fmt.Errorf("ask for the schema: %w", err)
	}
	return names[0], nil
}

// carriers returns the existing triggers of the source, and the required triggers in
// order.
func (j *job) carriers(ctx context.Context, m *mirror, statements map[string][]string) (have, want []string, err error) {
	for name := range statements {
		want = append(want, name)
	}
	sort.Strings(want)
	s, err := j.DB.Describe(ctx, m.src.name)
	if err != nil {
		return nil, nil, err
	}
	return s.Triggers, want, nil
}

// copy copies all existing rows.
func (j *job) copy(ctx context.Context, m *mirror) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	c := m.copier()
	c.After = j.data.After
	before, from := j.data.Rows, j.data.After
	c.Paused = j.paused(&j.data.Rows)
	c.Done = func(ctx context.Context, tx state.Exec, last []string, rows int64) error {
		// A chunk may be retried. Until it is committed, from remains the end of the
		// previous chunk.
		if err := m.logOutside(ctx, tx, c.Where, from, last); err != nil {
			return err
		}
		j.data.After, j.data.Rows = last, before+rows
		return j.State.Advance(ctx, tx, j.change, stepCopy, j.data)
	}
	if err := m.arrived(ctx); err != nil {
		return err
	}
	c.Again = rounds
	c.Between = func(ctx context.Context, after, until []string) error {
		from = after
		if err := m.leave(after, until, c.Where); err != nil {
			return err
		}
		j.progress(Progress{Rows: j.data.Rows, Of: j.data.Of})
		if err := j.point("copy: chunk"); err != nil {
			return err
		}
		return j.follow(ctx, m)
	}
	if _, err := c.Run(ctx); err != nil {
		return err
	}
	m.coming = condition{}
	if err := m.logOutsideRest(ctx, c.Where, from); err != nil {
		return err
	}
	return m.drainAll(ctx)
}

// follow applies logged changes and creates upcoming periods while rows are copied
// and compared.
func (j *job) follow(ctx context.Context, m *mirror) error {
	if err := j.extend(ctx, m); err != nil {
		return err
	}
	return m.drainAll(ctx)
}

// extendEvery is the interval at which periods are created ahead while rows are
// copied. It is far shorter than the shortest practical period.
const extendEvery = 20 * time.Second

// extend creates the periods that the rolling table needs by now. On a sequence the
// highest key is the current position.
func (j *job) extend(ctx context.Context, m *mirror) error {
	if !m.dst.rolls || time.Since(j.ahead) < extendEvery && j.Table.Grid.Axis() == rolling.Time {
		return nil
	}
	j.ahead = time.Now()
	var rows extent
	if j.Table.Grid.Axis() == rolling.Sequence {
		by := j.q(j.Table.By)
		if err := j.DB.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT COALESCE(MAX(%s), 0) FROM %s", by, j.q(m.src.name))).Scan(&rows.to); err != nil {
			return j.DB.Classify(err)
		}
	}
	now, err := j.now(ctx, rows)
	if err != nil {
		return err
	}
	end, err := j.end(now)
	if err != nil || len(m.parts) == 0 || m.parts[len(m.parts)-1].To >= end {
		return err
	}
	last := m.parts[len(m.parts)-1].To
	if end-last > 0 {
		cover, err := j.Table.Grid.Cover(rolling.Period{From: last, To: end}, maxPeriods)
		if err != nil {
			return err
		}
		var more []rolling.Partition
		for _, p := range cover {
			p.From = max(p.From, last)
			more = append(more, j.Table.Grid.Named(p))
		}
		err = j.locked(ctx, m.dst.name, "create periods", func() error {
			return j.DB.Try(ctx, engine.CreatePartitions{Table: m.table(m.dst), Have: m.parts, New: more})
		})
		if err != nil {
			return err
		}
	}
	if err := m.look(ctx); err != nil {
		return err
	}
	return m.logReturned(ctx)
}

// clean drops the triggers and the log from the former source.
func (j *job) clean(ctx context.Context, m *mirror) error {
	// After the cut-over, the source has the name of the kept table or, if the
	// adoption is reverted, of the rolling table that will be dropped.
	on := oldName(j.Table.Name)
	if m.src.rolls {
		on = newName(j.Table.Name)
	}
	return j.unhook(ctx, on)
}

// unhook drops the triggers on a table, and the log.
func (j *job) unhook(ctx context.Context, on string) error {
	err := j.locked(ctx, on, "drop the triggers", func() error { return j.exec(ctx, j.dropTriggers(on)...) })
	if err != nil {
		return err
	}
	if err := j.point("unhook: triggers"); err != nil {
		return err
	}
	if err := j.exec(ctx, j.dropFunctions()...); err != nil {
		return err
	}
	if err := j.exec(ctx, j.dropLog()); err != nil {
		return err
	}
	drop, err := j.emptyLate(ctx)
	if err != nil {
		return err
	}
	return j.exec(ctx, drop...)
}

func (j *job) dropLog() string { return "DROP TABLE IF EXISTS " + j.q(logName(j.Table.Name)) }

// emptyLate returns the statement that drops the table for late rows if it exists and
// is empty.
func (j *job) emptyLate(ctx context.Context) ([]string, error) {
	name := lateName(j.Table.Name)
	s, err := j.exists(ctx, name)
	if err != nil || s == nil || s.Column("rowmill_reason") == nil {
		return nil, err
	}
	var n int
	if err := j.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+j.q(name)).Scan(&n); err != nil {
		return nil, j.DB.Classify(err)
	}
	if n > 0 {
		return nil, nil
	}
	return []string{"DROP TABLE IF EXISTS " + j.q(name)}, nil
}

// cancel drops all objects created before the cut-over.
func (j *job) cancel(ctx context.Context) error {
	if err := j.unhook(ctx, j.Table.Name); err != nil {
		return err
	}
	if err := j.dropSentry(ctx); err != nil {
		return err
	}
	return j.dropNew(ctx)
}

// dropNew drops the rolling table, under its name beside the plain table.
func (j *job) dropNew(ctx context.Context) error {
	s, err := j.exists(ctx, newName(j.Table.Name))
	if err != nil || s == nil {
		return err
	}
	m := j.there()
	if err := m.look(ctx); err != nil {
		return err
	}
	return j.locked(ctx, m.dst.name, "drop the rolling table", func() error {
		return j.DB.Try(ctx, engine.DropTable{Table: m.table(m.dst), Partitions: m.parts})
	})
}

func (j *job) dropOld(ctx context.Context) error {
	return j.locked(ctx, oldName(j.Table.Name), "drop the old table", func() error { return j.exec(ctx, j.dropOldStatement()) })
}

func (j *job) dropOldStatement() string {
	return "DROP TABLE IF EXISTS " + j.q(oldName(j.Table.Name))
}

// turnBack creates the log and the triggers on the rolling table, to revert the
// adoption.
func (j *job) turnBack(ctx context.Context, m *mirror) error {
	statements, err := j.beside(ctx, m)
	if err != nil {
		return err
	}
	if err := j.exec(ctx, statements...); err != nil {
		return err
	}
	if j.sqlite() {
		return nil // a view can't have such triggers: the last step does everything
	}
	return j.addTriggers(ctx, m)
}

// swapped reports whether the table with the plain table's name is a rolling table.
func (j *job) swapped(ctx context.Context) (bool, error) {
	s, err := j.DB.Describe(ctx, j.Table.Name)
	if err != nil {
		return false, err
	}
	return s.Partitioned, nil
}
