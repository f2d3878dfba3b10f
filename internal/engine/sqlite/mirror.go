package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

func (db *database) Mirroring(m *engine.Mirror) engine.Mirroring { return mirror{m, db} }

type mirror struct {
	*engine.Mirror
	db *database
}

// Attributes implements engine.Mirroring. It lists foreign keys of the table, and those that refer
// to it, by their columns: SQLite has no names for them.
func (m mirror) Attributes(table string) (query string, args []any) {
	return `SELECT 'stay', 'foreign key ' || m.name || '(' || group_concat(f."from", ', ') || ')', 'drop it: a rolling table can have none', '' FROM sqlite_schema AS m, pragma_foreign_key_list(m.name) AS f
WHERE m.type = 'table' AND (m.name = ?1 OR lower(f."table") = lower(?1)) GROUP BY m.name, f.id
UNION ALL SELECT 'stay', 'trigger ' || name, 'drop it, and create it again afterwards', '' FROM sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = lower(?1) AND name NOT LIKE '%rowmill%'`, []any{table}
}

// NoPosition implements engine.Mirroring: it finds what isn't a time as router.spelt writes it.
func (m mirror) NoPosition() string {
	if m.Table.Epoch != 0 {
		return ""
	}
	return fmt.Sprintf("typeof(%[1]s) <> 'text' OR strftime('%%Y-%%m-%%d %%H:%%M:%%S', substr(%[1]s, 1, 19)) IS NOT substr(%[1]s, 1, 19)"+
		" OR length(%[1]s) <> 19 AND (length(%[1]s) <> 26 OR substr(%[1]s, 20) = '.000000')", m.Quote(m.Table.By))
}

func (m mirror) Tables() []string {
	typeOf := words{}.SumColumn
	out := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (rowmill_id INTEGER PRIMARY KEY, %s)", m.Quote(m.Log), m.Definitions(m.Logged(), typeOf))}
	return append(out, m.LateTables(typeOf)...)
}

func (m mirror) Triggers(context.Context) ([]engine.MirrorTrigger, error) {
	return m.EventTriggers("BEGIN", "; END"), nil
}

func (m mirror) CreateTrigger(ctx context.Context, t engine.MirrorTrigger) error {
	return classify(engine.ExecEach(ctx, m.db.SQL(), t.Statements))
}

func (m mirror) Snapshot(ctx context.Context) (*sql.Tx, error) { return m.db.SQL().BeginTx(ctx, nil) }

func (m mirror) ReplayStatements() []string { return m.replay(m.Target.Periods) }

// replay returns the statements that apply a batch: the log's entries up to the id that is the
// statements' parameter. No other transaction can write while they run.
func (m mirror) replay(parts []rolling.Partition) []string {
	src, log, late, cols := m.Quote(m.Source.Name), m.Quote(m.Log), m.Quote(m.Late), m.List(m.Columns, "")
	batch := func(key []engine.SchemaColumn) string {
		return fmt.Sprintf("(%s) IN (SELECT %s FROM %s WHERE rowmill_id <= ?1)", m.List(key, ""), m.List(key, ""), log)
	}
	insert := func(into string) string {
		return fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) SELECT %s FROM %s WHERE ", into, cols, cols, src)
	}
	var out []string
	if !m.Target.Rolls {
		out = append(out, "DELETE FROM "+m.Quote(m.Target.Name)+" WHERE "+batch(m.Target.Key), insert(m.Quote(m.Target.Name))+batch(m.Source.Key))
	} else {
		for _, p := range parts {
			table := m.DB.Words().From(m.Side(m.Target), p)
			out = append(out, "DELETE FROM "+table+" WHERE "+batch(m.Target.Key), insert(table)+"("+batch(m.Source.Key)+") AND ("+m.In("", p.Period)+")")
		}
		out = append(out, "DELETE FROM "+late+" WHERE "+batch(m.Plain),
			fmt.Sprintf("INSERT INTO %s (%s, rowmill_reason, rowmill_at_us) SELECT %s, %s, CAST(strftime('%%s', 'now') AS INTEGER) * 1000000 FROM %s WHERE (%s) AND ((%s) IS NOT TRUE)",
				late, cols, cols, quoteText(engine.LateReason), src, batch(m.Source.Key), m.Inside("")))
	}
	return append(out, "DELETE FROM "+log+" WHERE rowmill_id <= ?1")
}

// Replay also applies entries of rows that the copy has yet to reach.
func (m mirror) Replay(ctx context.Context, x engine.Exec, limit int, _ engine.Predicate) (int, error) {
	by := m.Quote(m.Table.By)
	var id, low, high sql.NullInt64
	var n int
	err := x.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*), MAX(rowmill_id), %s, %s FROM (SELECT * FROM %s ORDER BY rowmill_id LIMIT %d)",
		m.DB.Words().Position(m.Table, "MIN("+by+")"), m.DB.Words().Position(m.Table, "MAX("+by+")"), m.Quote(m.Log), limit)).Scan(&n, &id, &low, &high)
	if err != nil || n == 0 {
		return 0, err
	}
	var parts []rolling.Partition
	for _, p := range m.Target.Periods {
		// If low and high are no range, By has values that may sort anywhere: all periods are searched.
		if !low.Valid || !high.Valid || low.Int64 > high.Int64 || p.Overlaps(rolling.Period{From: low.Int64, To: high.Int64 + 1}) {
			parts = append(parts, p)
		}
	}
	return n, engine.ExecEach(ctx, x, m.replay(parts), id.Int64)
}

// ALTER TABLE ... RENAME checks all views and triggers. It would fail, because one of the triggers
// names a table that is temporarily missing. This pragma, set outside a transaction, turns these
// checks off.
const (
	renameUnchecked = "PRAGMA legacy_alter_table = ON"
	renameChecked   = "PRAGMA legacy_alter_table = OFF"
)

func (m mirror) CutOverStatements(final []string) (remark string, statements []string, err error) {
	names, err := m.RenameStatements(m)
	return "", slices.Concat([]string{renameUnchecked, beginStatement}, final, names, []string{commitStatement, renameChecked}), err
}

// CutOver implements engine.Mirroring in one transaction.
func (m mirror) CutOver(ctx context.Context, c engine.CutOver) error {
	names, err := m.RenameStatements(m)
	if err != nil {
		return err
	}
	conn, err := m.db.SQL().Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, renameUnchecked); err != nil {
		return err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), renameChecked)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	return c.Finish(ctx, tx, names)
}

func (w words) KeyText(c engine.SchemaColumn) string {
	if c.Kind == value.Bytes {
		return "HEX(" + w.Quote(c.Name) + ")"
	}
	return w.AsText(c)
}

func (words) KeyValue(c engine.SchemaColumn, text string) (placeholder string, arg any, err error) {
	if c.Kind == value.Bytes {
		arg, err = engine.BytesFromKey(c, text)
	} else {
		arg, err = engine.NumberFromKey(c, text)
	}
	return "?", arg, err
}

// CopyRows implements engine.Words. There are no locks of rows.
func (w words) CopyRows(c engine.CopyRows) string {
	verb := "INSERT INTO"
	if c.Skip {
		verb = "INSERT OR IGNORE INTO"
	}
	return c.SQL(w.Quote, verb, "", "")
}
