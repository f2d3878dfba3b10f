package engine

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/rolling"
)

// An Exec runs statements: a *sql.DB, *sql.Conn or *sql.Tx of Keeper.SQL.
type Exec interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Mirror keeps a table, the target, equal to another table, the source, which clients change.
// Triggers write the keys of changed rows into a log. A replay of the log copies these rows'
// present values. In the cut-over the target takes the source's name. One of the tables is rolling.
type Mirror struct {
	DB Keeper
	// Table is the rolling table, under the name that the source has before the cut-over.
	Table          *Table
	Source, Target MirrorSide
	// Aside is the name that the source gets in the cut-over.
	Aside string
	// Log names the log, Late the table for late rows, which here are rows outside of every period.
	Log, Late string
	// Columns are the columns to copy. Plain is the plain table's key, also used for late rows.
	Columns, Plain []SchemaColumn
	// Alike means that the target was created like the source. In the cut-over, the target's indexes
	// and constraints get the names that those of the source have.
	Alike bool
}

// A MirrorSide is one of the two tables of a Mirror.
type MirrorSide struct {
	Name  string
	Key   []SchemaColumn // its primary key
	Rolls bool
	// Periods are the partitions of a rolling table, in order.
	Periods []rolling.Partition
}

// A Predicate is a condition in SQL with question marks for its arguments; "" is none.
type Predicate struct {
	Text string
	Args []any
}

// LateReason is stored with each row of the table for late rows.
const LateReason = "outside of every period, when the table was adopted"

// Mirroring is an engine's part of a Mirror. Mirror has defaults for some methods. Some methods
// only return SQL text: statements that other methods, or the caller, execute.
type Mirroring interface {
	// Attributes returns a query for a table's attributes. Each row has the fields of an Attribute.
	Attributes(table string) (query string, args []any)
	// Notes tell the user what must not happen while both tables exist.
	Notes() []string
	// NoPosition returns a condition for rows of the source whose By value is no position, such as
	// infinity, although the server can compare it with positions. It returns "" if By can have no
	// such value.
	NoPosition() string

	// Tables creates the log, and the table for late rows if the target rolls.
	Tables() []string
	// Triggers returns the triggers on the source, sorted by name.
	Triggers(ctx context.Context) ([]MirrorTrigger, error)
	// CreateTrigger creates a trigger, in such a way that no client's prepared statement fails.
	CreateTrigger(ctx context.Context, t MirrorTrigger) error
	// DropTriggers returns the statements that drop a table's triggers, and the statements that then
	// drop the triggers' functions.
	DropTriggers(table string) (triggers, functions []string)

	// Snapshot begins a transaction that reads both tables as of one moment.
	Snapshot(ctx context.Context) (*sql.Tx, error)
	// Replay applies at most limit entries of the log in the transaction x, and returns their number.
	// It reads the entries, deletes their rows from the target, and copies their present rows from the
	// source. It discards entries that satisfy later: the copy of the table has yet to reach their
	// rows. An engine with one writer may apply these entries, too.
	//
	// An entry has the values of the source's key and of the target's key. It stands for the target's
	// rows that have all of these values, so that entries can be applied in any order. It also stands
	// for the row of the table Late that has the same values of the plain table's key.
	Replay(ctx context.Context, x Exec, limit int, later Predicate) (int, error)
	ReplayStatements() []string

	// CutOver renames the source to Aside and the target to Table.Name, so that clients always find
	// one table of that name. It waits for the lock for a limited time (ErrLockTimeout).
	CutOver(ctx context.Context, c CutOver) error
	// CutOverStatements returns the statements of a cut-over, to be shown to the user. The statements
	// final are among them, executed under the cut-over's lock. remark explains what the statements
	// don't show.
	CutOverStatements(final []string) (remark string, statements []string, err error)
	// Recover completes or undoes a cut-over whose process was killed.
	Recover(ctx context.Context) error
}

func (m *Mirror) Notes() []string               { return nil }
func (m *Mirror) NoPosition() string            { return "" }
func (m *Mirror) Recover(context.Context) error { return nil } // a transaction leaves nothing

// DropTriggers returns the statements that drop the triggers of EventTriggers.
func (m *Mirror) DropTriggers(string) (triggers, functions []string) {
	for _, event := range []string{"insert", "update", "delete"} {
		triggers = append(triggers, "DROP TRIGGER IF EXISTS "+m.Quote(m.Table.Name+"__rowmill_"+event))
	}
	return triggers, nil
}

// EventTriggers returns three triggers, for INSERT, UPDATE and DELETE, for a server on which a
// trigger has one event. begin and end enclose the statement that writes into the log.
func (m *Mirror) EventTriggers(begin, end string) (out []MirrorTrigger) {
	for _, t := range []struct {
		event string
		rows  []string
	}{{"delete", []string{"OLD."}}, {"insert", []string{"NEW."}}, {"update", []string{"OLD.", "NEW."}}} {
		name := m.Table.Name + "__rowmill_" + t.event
		out = append(out, MirrorTrigger{Name: name, Statements: []string{fmt.Sprintf("CREATE TRIGGER %s AFTER %s ON %s %s %s%s",
			m.Quote(name), strings.ToUpper(t.event), m.Quote(m.Source.Name), begin, m.LogValues(m.Quote(m.Log), t.rows...), end)}})
	}
	return out
}

// An Attribute is a property of a table, such as a privilege, that another table may lack when it
// takes the table's name.
type Attribute struct {
	Kind AttributeKind
	// What identifies the attribute, and names it in messages.
	What string
	// Do is the statement that gives the attribute to a table; for some kinds of attributes, it is a
	// hint for the user instead. Undo is the statement that removes the attribute from a table. {}
	// stands for the table's name. If Undo is "", the target may keep an attribute that the source
	// doesn't have.
	Do, Undo string
}

// ReadAttributes reads the attributes of a table; it returns none if the table doesn't exist.
func ReadAttributes(ctx context.Context, db Keeper, m Mirroring, table string) (out []Attribute, err error) {
	query, args := m.Attributes(table)
	out, err = ListOf(ctx, db, db.SQL(), func(r *sql.Rows, a *Attribute) error {
		return r.Scan(&a.Kind, &a.What, &a.Do, &a.Undo)
	}, query, args...)
	return out, About(ctx, err, "read what belongs to table "+table)
}

// An AttributeKind says how the target of a Mirror gets an attribute of the source.
type AttributeKind string

// Kinds of attributes.
const (
	Copied   AttributeKind = "copy"
	Moved    AttributeKind = "move"    // the cut-over moves it from the source to the target
	Declared AttributeKind = "declare" // the target has it only if its definition says so
	Stays    AttributeKind = "stay"    // the target doesn't get it
	Refused  AttributeKind = "refuse"  // What is the reason why the source can't be replaced
)

// A MirrorTrigger is a trigger with the statements that create it.
type MirrorTrigger struct {
	Name       string
	Statements []string
}

// CutOver is what a caller does during a cut-over.
type CutOver struct {
	// Final applies the last changes, under the lock.
	Final func(ctx context.Context, x Exec) error
	// Record records the cut-over in the cut-over's transaction, on engines with transactional DDL.
	Record func(ctx context.Context, x Exec) error
	// Point is called after each step that changes the state that a crash would leave. If Point
	// returns an error, the cut-over ends as a crash at that step would end it.
	Point func(name string) error
}

// Finish does the cut-over in a transaction that holds the locks. names are the statements that
// rename the tables.
func (c CutOver) Finish(ctx context.Context, tx *sql.Tx, names []string) error {
	if err := c.Point("swap: locked"); err != nil {
		return err
	}
	if err := c.Final(ctx, tx); err != nil {
		return err
	}
	if err := ExecEach(ctx, tx, names); err != nil {
		return err
	}
	if err := c.Point("swap: renamed"); err != nil {
		return err
	}
	if err := c.Record(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Side returns one side of the Mirror as a Table for the engine.
func (m *Mirror) Side(s MirrorSide) *Table {
	if !s.Rolls {
		return &Table{Name: s.Name}
	}
	t := *m.Table
	t.Name = s.Name
	return &t
}

// Quote returns an identifier quoted for the engine.
func (m *Mirror) Quote(name string) string { return m.DB.Dialect().Quote(name) }

// List returns the quoted columns, each after a prefix such as "NEW.".
func (m *Mirror) List(cols []SchemaColumn, prefix string) string {
	return Quoted(m.DB.Dialect(), cols, prefix)
}

// Logged returns the columns of the log: first the columns of the plain table's key, then the
// columns of the rolling table's key that the plain table's key lacks.
func (m *Mirror) Logged() []SchemaColumn {
	out := slices.Clone(m.Plain)
	for _, key := range [][]SchemaColumn{m.Source.Key, m.Target.Key} {
		out = append(out, without(key, out)...)
	}
	return out
}

// without returns the columns of cols that are not in others.
func without(cols, others []SchemaColumn) []SchemaColumn {
	return slices.DeleteFunc(slices.Clone(cols), func(c SchemaColumn) bool {
		return slices.ContainsFunc(others, func(o SchemaColumn) bool { return o.Name == c.Name })
	})
}

// Inside returns the condition that the target has a period for a row, or "" if the target accepts
// every row. alias is "" or a prefix such as "o.".
func (m *Mirror) Inside(alias string) string {
	parts := m.Target.Periods
	if len(parts) == 0 {
		return ""
	}
	return m.In(alias, rolling.Period{From: parts[0].From, To: parts[len(parts)-1].To})
}

// In returns a condition that a row lies in a period.
func (m *Mirror) In(alias string, p rolling.Period) string {
	by, w := alias+m.Quote(m.Table.By), m.DB.Words()
	return by + " >= " + w.Literal(m.Table, p.From) + " AND " + by + " < " + w.Literal(m.Table, p.To)
}

// SameKey returns the condition that the rows of two aliases have equal values in the columns.
func (m *Mirror) SameKey(cols []SchemaColumn, a, b string) string {
	return EqualIn(m.DB.Dialect(), cols, a, b)
}

// SameEntry returns the condition that the rows of two aliases are equal in all columns of the log.
// The columns that are not in key are compared with IS TRUE, so that the server uses no index on
// them: many rows may have the same time.
func (m *Mirror) SameEntry(key []SchemaColumn, a, b string) string {
	cond := m.SameKey(key, a, b)
	if rest := without(m.Logged(), key); len(rest) > 0 {
		cond += " AND (" + m.SameKey(rest, a, b) + ") IS TRUE"
	}
	return cond
}

// Definitions returns definitions of columns for a table that only stores the values.
func (m *Mirror) Definitions(cols []SchemaColumn, typeOf func(SchemaColumn) string) string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = m.Quote(c.Name) + " " + typeOf(c)
	}
	return strings.Join(out, ", ")
}

// LateTables creates the table for late rows and its index if the target rolls.
func (m *Mirror) LateTables(typeOf func(SchemaColumn) string) []string {
	if !m.Target.Rolls {
		return nil
	}
	late := m.Quote(m.Late)
	return []string{
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s, rowmill_reason VARCHAR(200), rowmill_at_us BIGINT)", late, m.Definitions(m.Columns, typeOf)),
		fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s)", m.Quote(m.Late+"__rowmill"), late, m.List(m.Plain, "")),
	}
}

// LogValues returns the statement that logs one entry for each prefix, such as "NEW.".
func (m *Mirror) LogValues(log string, prefixes ...string) string {
	rows := make([]string, len(prefixes))
	for i, p := range prefixes {
		rows[i] = "(" + m.List(m.Logged(), p) + ")"
	}
	return "INSERT INTO " + log + " (" + m.List(m.Logged(), "") + ") VALUES " + strings.Join(rows, ", ")
}

// RenameStatements returns statements that drop the triggers and rename both tables.
func (m *Mirror) RenameStatements(sql Mirroring) ([]string, error) {
	out, _ := sql.DropTriggers(m.Source.Name)
	for _, r := range []struct {
		side MirrorSide
		to   string
	}{{m.Source, m.Aside}, {m.Target, m.Table.Name}} {
		names, err := m.DB.Dialect().Render(Rename{Table: m.Side(r.side), Have: r.side.Periods, To: r.to})
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	return out, nil
}

// ExecEach runs statements in order. An error names the statement.
func ExecEach(ctx context.Context, x Exec, statements []string, args ...any) error {
	for _, q := range statements {
		if _, err := x.ExecContext(ctx, q, args...); err != nil {
			return fmt.Errorf("%s: %w", FirstWords(q), err)
		}
	}
	return nil
}
