package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

const (
	// exclusiveWait limits how long a step waits for an exclusive lock, because new statements of
	// clients queue behind the step. The step requests the lock only once the transactions that block
	// it have ended.
	exclusiveWait = "500ms"
	// exclusiveTime limits each statement that runs while a step holds an exclusive lock. These
	// statements change only catalogs.
	exclusiveTime = "1s"
)

// exclusive begins a transaction that locks tables.
func (d dialect) exclusive(tables ...string) []string {
	list := engine.QuoteList(tables, func(name string) string { return "ONLY " + d.Quote(name) })
	return []string{
		beginStatement, "SET LOCAL lock_timeout = '" + exclusiveWait + "'", "SET LOCAL statement_timeout = '" + exclusiveTime + "'",
		"LOCK TABLE " + list + " IN ACCESS EXCLUSIVE MODE",
	}
}

func (d dialect) renameTable(from, to string) string {
	return fmt.Sprintf("ALTER TABLE %s RENAME TO %s", d.Quote(from), d.Quote(to))
}

// boundsCheck names a detached table's CHECK, from which ATTACH knows that the table's rows fit.
func boundsCheck(p rolling.Period) string {
	return boundsPrefix + strings.ReplaceAll(fmt.Sprintf("%d_%d", p.From, p.To), "-", "m")
}

const boundsPrefix = "rowmill_bounds_"

// addCheck adds the CHECK of a detached table's bounds; the server reads the table to verify it.
// The literals have the column's type, so that the server recognizes the partition constraint.
func (d dialect) addCheck(t *engine.Table, name string, p rolling.Partition) string {
	by := d.Quote(t.By)
	return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s IS NOT NULL AND %[3]s >= %[4]s AND %[3]s < %[5]s)",
		d.Quote(name), d.Quote(boundsCheck(p.Period)), by, quoteText(byValue(t, p.From)), quoteText(byValue(t, p.To)))
}

func (d dialect) dropCheck(name, check string) string {
	return fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s", d.Quote(name), d.Quote(check))
}

func (d dialect) attach(t *engine.Table, p rolling.Partition) string {
	return fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s %s", d.Quote(t.Name), d.Quote(childName(t, p)), bounds(t, p))
}

// changeDetach renders Detach: CONCURRENTLY, which can't be part of a transaction.
func (d dialect) changeDetach(s engine.Detach) ([]string, error) {
	if err := checkName("detach partition "+s.Part.Name+" of "+s.Table.Name, s.Into); err != nil {
		return nil, err
	}
	child := childName(s.Table, s.Part)
	out := []string{d.detach(s.Table, child) + " CONCURRENTLY"}
	if s.Into != child {
		out = append(out, d.renameTable(child, s.Into))
	}
	return out, nil
}

// checkName refuses a name that the server would silently truncate.
func checkName(what, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%s: a name has from 1 to %d bytes, not %q", what, maxName, name)
	}
	return nil
}

// changeAttach renders Attach, for a table that already has all indexes of s.Table.
func (d dialect) changeAttach(s engine.Attach) ([]string, error) {
	if err := fits(s.Table, s.Part); err != nil {
		return nil, err
	}
	return append([]string{d.addCheck(s.Table, s.From, s.Part)}, d.attachChecked(s)...), nil
}

// attachChecked attaches a table that has the CHECK of its bounds, and drops this CHECK.
func (d dialect) attachChecked(s engine.Attach) []string {
	child := childName(s.Table, s.Part)
	var out []string
	if s.From != child {
		out = append(out, d.renameTable(s.From, child))
	}
	return transaction(append(out, d.attach(s.Table, s.Part), d.dropCheck(child, boundsCheck(s.Part.Period)))...)
}

// Comments that rowmill puts on tables. After a crash, they also inform an administrator.
const replacedMark = "rowmill: replaced"

func dropMark(t *engine.Table) string { return "rowmill: to be dropped, was a partition of " + t.Name }

func (d dialect) comment(table, text string) string {
	return fmt.Sprintf("COMMENT ON TABLE %s IS %s", d.Quote(table), quoteText(text))
}

// changeReplace renders Replace, for a table that has all indexes of s.Table.
func (d dialect) changeReplace(s engine.Replace) ([]string, error) {
	if err := checkReplace(s); err != nil {
		return nil, fmt.Errorf("replace partitions of %s: %w", s.Table.Name, err)
	}
	return append([]string{d.addCheck(s.Table, s.With, s.New)}, d.replaceChecked(s)...), nil
}

func checkReplace(s engine.Replace) error {
	if err := s.Check(); err != nil {
		return err
	}
	for i, name := range s.Out {
		if err := checkName("the rows of "+s.Old[i].Name, name); err != nil {
			return err
		}
	}
	return fits(s.Table, s.New)
}

// replaceChecked renders one transaction, so that readers see either the old partitions or the new
// one. If s.Out contains the name s.With, the table of the new rows first gets a temporary name.
func (d dialect) replaceChecked(s engine.Replace) []string {
	tables := []string{s.Table.Name, s.With}
	for _, p := range s.Old {
		tables = append(tables, childName(s.Table, p))
	}
	child, with := childName(s.Table, s.New), s.With
	out := d.exclusive(tables...)
	if slices.Contains(s.Out, with) {
		with = fmt.Sprintf("rowmill_swap_%016x", uint64(leadKey(s.With)))
		out = append(out, d.renameTable(s.With, with))
	}
	for i, p := range s.Old {
		old := childName(s.Table, p)
		out = append(out, d.detach(s.Table, old))
		if old != s.Out[i] {
			out = append(out, d.renameTable(old, s.Out[i]))
		}
		out = append(out, d.comment(s.Out[i], replacedMark))
	}
	if with != child {
		out = append(out, d.renameTable(with, child))
	}
	return append(out, d.attach(s.Table, s.New), d.dropCheck(child, boundsCheck(s.New.Period)), commitStatement)
}

// changeAddColumn renders AddColumn. A column with a default that is not constant would make the
// server rewrite the table; statement_timeout ends such a statement.
func (d dialect) changeAddColumn(s engine.AddColumn) ([]string, error) {
	if strings.TrimSpace(s.Definition) == "" {
		return nil, fmt.Errorf("add column %s to %s: it has no definition", s.Name, s.Table.Name)
	}
	table := d.Quote(s.Table.Name)
	out := d.exclusive(s.Table.Name)
	// Without ONLY, the lock includes all partitions.
	out[len(out)-1] = "LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"
	return append(out, fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s", table, s.Definition), commitStatement), nil
}

func (d dialect) rename(s engine.Rename) ([]string, error) {
	to := *s.Table
	to.Name = s.To
	out := []string{d.renameTable(s.Table.Name, s.To)}
	for _, p := range s.Have {
		if err := fits(&to, p); err != nil {
			return nil, err
		}
		if from := childName(s.Table, p); from != childName(&to, p) {
			out = append(out, d.renameTable(from, childName(&to, p)))
		}
	}
	return out, nil
}

// likeTable lists what a detached table gets from the rolling table. It gets no identity column,
// because the rows that are written to it already have their keys.
const likeTable = "INCLUDING ALL EXCLUDING IDENTITY EXCLUDING COMMENTS EXCLUDING STATISTICS"

// compressedTarget is a setting of a compressed period's table, by which rowmill recognizes such a
// period. 128 is the server's minimum: TOAST then compresses every compressible value of the rows
// that it processes.
const compressedTarget = "toast_tuple_target=128"

// createTemplate renders Words.CreateTemplate. like, such as " EXCLUDING INDEXES", is appended to
// the list of what the table copies. The server chooses unique names for the indexes.
func (d dialect) createTemplate(t *engine.Table, name string, o engine.Storage, like string) []string {
	quoted := d.Quote(name)
	copied := likeTable
	if o.Assigns {
		copied = "INCLUDING ALL EXCLUDING STATISTICS"
	}
	q := fmt.Sprintf("CREATE TABLE %s (LIKE %s %s%s)", quoted, d.Quote(t.Name), copied, like)
	if !o.Compress {
		return []string{q}
	}
	out := []string{q + " WITH (fillfactor=100, " + compressedTarget + ")"}
	// Whether TOAST may compress a column depends on its type, so the server finds the columns.
	// STORAGE MAIN keeps compressed values in the row in spite of compressedTarget.
	compression := ""
	if d.lz4 {
		compression = ", ALTER COLUMN %2$I SET COMPRESSION lz4"
	}
	body := "DECLARE r record; BEGIN " +
		"FOR r IN SELECT attname FROM pg_attribute WHERE attrelid = " + quoteText(quoted) + "::regclass " +
		"AND attnum > 0 AND NOT attisdropped AND attlen = -1 AND attstorage IN ('x', 'm') LOOP " +
		"EXECUTE format(" + quoteText("ALTER TABLE %1$s ALTER COLUMN %2$I SET STORAGE MAIN"+compression) + ", " + quoteText(quoted) + ", r.attname); END LOOP; " +
		"FOR r IN SELECT i.indexrelid::regclass AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam " +
		"WHERE i.indrelid = " + quoteText(quoted) + "::regclass AND a.amname = 'btree' LOOP " +
		"EXECUTE format('ALTER INDEX %s SET (fillfactor = 100)', r.name); END LOOP; END"
	return append(out, "DO "+quoteText(body))
}

// recompressed is a query for the columns whose values TOAST may compress, each with an expression
// that returns the value uncompressed. A table with generated columns can't be rewritten: the query
// then finds no column.
const recompressed = `SELECT a.attname, format_type(a.atttypid, a.atttypmod) ||
	CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(o.collname) ELSE '' END,
	format_type(a.atttypid, a.atttypmod), CASE t.typname WHEN 'jsonb' THEN '%s::text' WHEN 'json' THEN '%s::text' WHEN 'bytea' THEN '%s || ''''::bytea' ELSE '%s || ''''' END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation o ON o.oid = a.attcollation LEFT JOIN pg_namespace n ON n.oid = o.collnamespace
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage = 'm' AND t.typname IN ('text', 'varchar', 'bytea', 'jsonb', 'json')
AND NOT EXISTS (SELECT FROM pg_attribute g WHERE g.attrelid = a.attrelid AND g.attgenerated <> '') ORDER BY a.attnum`

// compress returns the statement that minimizes the size of a filled table.
//
// TOAST stops compressing a row once it is below 2 kB, and does not process the row again when it
// is copied. If the table has a compressed value, the statement rewrites all rows from uncompressed
// values. TOAST then compresses each row down to the table's much lower target; meanwhile the table
// takes its space twice. Otherwise the statement only rebuilds the indexes: a load in primary key
// order leaves the pages of the other indexes two thirds full.
func (c *changer) compress(ctx context.Context, name string) string {
	reindex := "REINDEX TABLE " + c.Quote(name)
	var compressed, changes []string
	for _, row := range c.ask(ctx, strings.ReplaceAll(recompressed, "$1", quoteText(c.Quote(name)))) {
		column := c.Quote(string(row[0]))
		compressed = append(compressed, "pg_column_compression("+column+") IS NOT NULL")
		changes = append(changes, fmt.Sprintf("ALTER COLUMN %s TYPE %s USING (%s)::%s, ALTER COLUMN %[1]s SET STORAGE MAIN",
			column, row[1], strings.ReplaceAll(string(row[3]), "%s", column), row[2]))
		if c.lz4 {
			changes[len(changes)-1] += ", ALTER COLUMN " + column + " SET COMPRESSION lz4"
		}
	}
	if len(changes) == 0 || !c.yes(ctx, "SELECT EXISTS (SELECT FROM "+c.Quote(name)+" WHERE "+strings.Join(compressed, " OR ")+")") {
		return reindex
	}
	return "ALTER TABLE " + c.Quote(name) + " " + strings.Join(changes, ", ")
}
