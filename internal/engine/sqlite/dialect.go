package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// dialect renders steps for SQLite.
type dialect struct{ pragmas []string }

// createPeriods creates the table of the bounds of all periods.
const createPeriods = `CREATE TABLE IF NOT EXISTS rowmill_periods (
  table_name TEXT NOT NULL,
  name TEXT NOT NULL,
  lower INTEGER NOT NULL,
  upper INTEGER NOT NULL,
  PRIMARY KEY (table_name, name)
) WITHOUT ROWID`

// hasStore is true for rows of rowmill_periods whose table exists.
const hasStore = "EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = rowmill_periods.table_name || '_' || rowmill_periods.name)"

func (dialect) Quote(ident string) string {
	return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"`
}

func (d dialect) list(names []string) string { return engine.QuoteList(names, d.Quote) }

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// store returns the name of the table that holds a period's rows.
func store(t *engine.Table, p rolling.Partition) string { return t.Name + "_" + p.Name }

// Render implements engine.Dialect. Each step that changes the schema is one transaction.
func (d dialect) Render(s engine.Step) ([]string, error) {
	switch s := s.(type) {
	case engine.Connect:
		return d.pragmas, nil
	case engine.CreateTable:
		if err := validate(s.Table); err != nil {
			return nil, err
		}
		if s.Table.Values > 0 {
			return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("create table %s: this engine divides tables by periods alone", s.Table.Name))
		}
		if !s.Table.Rolling() {
			return transaction(d.createStore(s.Table, s.Table.Name)...), nil
		}
		if len(s.Partitions) == 0 {
			return nil, fmt.Errorf("create table %s: a rolling table needs a first partition", s.Table.Name)
		}
		if err := fits(s.Table, len(s.Partitions)); err != nil {
			return nil, err
		}
		out := append([]string{createPeriods}, d.createStores(s.Table, s.Partitions)...)
		return transaction(append(out, d.layout(s.Table, s.Partitions)...)...), nil
	case engine.CreatePartitions:
		if len(s.New) == 0 {
			return nil, nil
		}
		if err := fits(s.Table, len(s.Have)+len(s.New)); err != nil {
			return nil, err
		}
		out := append(d.createStores(s.Table, s.New), "DROP VIEW "+d.Quote(s.Table.Name))
		all := slices.Concat(s.Have, s.New)
		slices.SortFunc(all, func(a, b rolling.Partition) int { return cmp.Compare(a.From, b.From) })
		return transaction(append(out, d.layout(s.Table, all)...)...), nil
	case engine.DropPartition:
		left := slices.DeleteFunc(slices.Clone(s.Have), func(p rolling.Partition) bool { return p.Name == s.Drop.Name })
		if len(left) == 0 {
			return nil, fmt.Errorf("drop partition %s of %s: it is the only partition", s.Drop.Name, s.Table.Name)
		}
		out := []string{"DROP VIEW " + d.Quote(s.Table.Name)}
		out = append(out, d.dropStores(s.Table, []rolling.Partition{s.Drop})...)
		return transaction(append(out, d.layout(s.Table, left)...)...), nil
	case engine.DropTable:
		if !s.Table.Rolling() && len(s.Partitions) == 0 {
			return []string{"DROP TABLE IF EXISTS " + d.Quote(s.Table.Name)}, nil
		}
		out := []string{createPeriods, "DROP VIEW IF EXISTS " + d.Quote(s.Table.Name)}
		return transaction(append(out, d.dropStores(s.Table, s.Partitions)...)...), nil
	case engine.Insert:
		return d.insert(s)
	case engine.Select:
		from := s.Table.Name
		if s.Partition != nil {
			from = store(s.Table, *s.Partition)
		}
		return []string{fmt.Sprintf("SELECT %s FROM %s", d.readable(s.Table), d.Quote(from))}, nil
	case engine.Inspect:
		return []string{d.exists(s.Table), d.periods(s.Table)}, nil
	case engine.Find:
		return engine.One(d.find(s))
	case engine.Delete:
		return d.delete(s)
	case engine.CreateIndexes:
		return d.createIndexes(s)
	case engine.Settle:
		return []string{checkpoint}, nil
	case engine.Measure:
		of := "= " + quoteText(s.Table.Name)
		if s.Table.Rolling() {
			of = fmt.Sprintf("IN (SELECT table_name || '_' || name FROM rowmill_periods WHERE table_name %s)", of)
		}
		return []string{
			"PRAGMA wal_checkpoint(PASSIVE)",
			"SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name " + of,
		}, nil
	case engine.Sample:
		return nil, nil // counters come from SQLite's functions, without SQL
	}
	return d.keep(s)
}

func (dialect) exists(t *engine.Table) string {
	return fmt.Sprintf("SELECT 1 FROM sqlite_schema WHERE name = %s AND type IN ('table', 'view')", quoteText(t.Name))
}

func (dialect) periods(t *engine.Table) string {
	return fmt.Sprintf("SELECT name, lower, upper FROM rowmill_periods WHERE table_name = %s ORDER BY lower", quoteText(t.Name))
}

// maxPeriods is SQLITE_MAX_COMPOUND_SELECT, the most terms of the view, in the default build.
const maxPeriods = 500

func fits(t *engine.Table, periods int) error {
	if periods > maxPeriods {
		return engine.Hinted(engine.Classed(engine.ErrUnsupported, fmt.Errorf("table %s: %d periods, and a view of SQLite can have at most %d", t.Name, periods, maxPeriods)),
			"a longer period, or merge sealed ones")
	}
	return nil
}

// validate returns an error if the table can't be created. Parsing has checked a definition.
func validate(t *engine.Table) error {
	if t.Definition == nil {
		return t.Validate()
	}
	if t.Name == "" || strings.ContainsRune(t.Name, 0) {
		return errors.New("table without a usable name")
	}
	return nil
}

func transaction(statements ...string) []string {
	return append(append([]string{"BEGIN IMMEDIATE"}, statements...), "COMMIT")
}

// createStore renders a table and its indexes, named after it: SQLite has one namespace for both.
func (d dialect) createStore(t *engine.Table, name string) []string {
	return d.createFree(t, name, func(index string) string { return index })
}

// createFree is createStore with the names that free returns for the names of the indexes.
func (d dialect) createFree(t *engine.Table, name string, free func(index string) string) []string {
	out := []string{d.createTable(t, name)}
	if t.Definition != nil {
		for _, ix := range t.Definition.Indexes {
			out = append(out, ix.As(d.Quote(free(name+"_"+ix.Name)), d.Quote(name)))
		}
	}
	for _, ix := range t.Indexes {
		index := free(name + "_" + ix.Name)
		out = append(out, fmt.Sprintf("CREATE INDEX %s ON %s (%s)", d.Quote(index), d.Quote(name), d.list(ix.Columns)))
	}
	return out
}

func (d dialect) createTable(t *engine.Table, name string) string {
	if t.Definition != nil {
		return t.Definition.As(d.Quote(name))
	}
	var lines []string
	rowid := len(t.PrimaryKey) == 1
	for _, c := range t.Columns {
		line := d.Quote(c.Name) + " " + c.Declaration(typeNames)
		if rowid && c.Name == t.PrimaryKey[0] {
			if c.Type == engine.Int32 || c.Type == engine.Int64 {
				line = d.Quote(c.Name) + " INTEGER PRIMARY KEY" // the rowid itself
			} else {
				rowid = false
			}
		}
		lines = append(lines, line)
	}
	end := "\n)"
	if !rowid {
		lines = append(lines, fmt.Sprintf("PRIMARY KEY (%s)", d.list(t.PrimaryKey)))
		end = "\n) WITHOUT ROWID" // rows are stored in key order, as in InnoDB
	}
	return fmt.Sprintf("CREATE TABLE %s (\n  %s%s", d.Quote(name), strings.Join(lines, ",\n  "), end)
}

func (d dialect) createIndex(name string, ix engine.Index) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s)", d.Quote(name+"_"+ix.Name), d.Quote(name), d.list(ix.Columns))
}

func (d dialect) createStores(t *engine.Table, parts []rolling.Partition) []string {
	var out []string
	for _, p := range parts {
		out = append(out, d.createStore(t, store(t, p))...)
		out = append(out, d.note(t, p))
	}
	return out
}

func (d dialect) dropStores(t *engine.Table, parts []rolling.Partition) []string {
	var out []string
	for _, p := range parts {
		out = append(out,
			"DROP TABLE IF EXISTS "+d.Quote(store(t, p)), d.forget(t, p))
	}
	return out
}

// view renders the view that has the table's own name.
func (d dialect) view(t *engine.Table, names []string, parts []rolling.Partition) string {
	terms := make([]string, len(parts))
	for i, p := range parts {
		terms[i] = fmt.Sprintf("SELECT %s FROM %s", d.list(names), d.Quote(store(t, p)))
	}
	comment := ""
	if t.Definition != nil {
		comment = " " + viewComment + inComment.Replace(t.By) + " */"
	}
	return fmt.Sprintf("CREATE VIEW %s AS%s\n%s", d.Quote(t.Name), comment, strings.Join(terms, "\nUNION ALL "))
}

// readable lists t's columns, times as text, because the driver converts declared times and dates.
func (d dialect) readable(t *engine.Table) string {
	cols := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		cols[i] = d.Quote(c.Name)
		if c.Type == engine.Time || c.Type == engine.Varchar && t.Definition != nil {
			cols[i] = "CAST(" + cols[i] + " AS TEXT)"
		}
	}
	return strings.Join(cols, ", ")
}

// typeNames are the types. As NUMERIC, a decimal would be converted to a binary fraction.
var typeNames = map[engine.Type]string{
	engine.Int32: "INTEGER", engine.Int64: "INTEGER", engine.Float32: "REAL", engine.Float64: "REAL", engine.Time: "DATETIME",
	engine.Varchar: "VARCHAR(%d)", engine.Char: "CHAR(%d)", engine.Decimal: "TEXT",
}

// insert renders the statements that a writer executes for a batch.
func (d dialect) insert(s engine.Insert) ([]string, error) {
	t, rows := s.Table, s.Batch.Rows()
	if rows == 0 {
		return nil, nil
	}
	name := t.Name
	if t.Rolling() {
		name += "_PERIOD" // each row goes to the table of its period
	}
	e := newEncoder(d, t, name)
	var out []string
	switch s.Method {
	case engine.Prepared:
		out = []string{e.placeholders(1)}
	case engine.Multi:
		for i := 0; i < rows; i += rowsPerText {
			out = append(out, string(e.appendInsert(nil, s.Batch, i, min(i+rowsPerText, rows), 1)))
		}
	case engine.Single:
		for i := range rows {
			out = append(out, string(e.appendInsert(nil, s.Batch, i, i+1, 1)))
		}
	default:
		return nil, fmt.Errorf("sqlite: no insert method %q", s.Method)
	}
	if len(out) > 1 || rows > 1 && (s.Method == engine.Prepared || t.Rolling()) {
		out = transaction(out...)
	}
	return out, nil
}
