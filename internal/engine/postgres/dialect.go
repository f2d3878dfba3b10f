package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// dialect renders steps for PostgreSQL.
type dialect struct {
	// lz4 reports whether the server can compress with LZ4.
	lz4 bool
	// views are the statistics views that the server has.
	views []string
	// version is the server's server_version_num.
	version int
	// path is the search path of every session, quoted.
	path string
}

// newDialect returns the dialect of a server of version 15.
func newDialect() dialect {
	return dialect{version: 150000, lz4: true, views: []string{"pg_stat_database", "pg_stat_bgwriter", "pg_stat_wal"}}
}

// Statements that enclose a transaction.
const (
	beginStatement    = "BEGIN"
	commitStatement   = "COMMIT"
	rollbackStatement = "ROLLBACK"
)

func transaction(statements ...string) []string {
	return slices.Concat([]string{beginStatement}, statements, []string{commitStatement})
}

// lockWait is the lock timeout of maintenance. Other statements queue behind it for no longer.
const lockWait = "2s"

// maxName is the longest name of a relation in bytes; the server truncates longer ones silently.
const maxName = 63

func (dialect) Quote(ident string) string {
	return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"`
}

func (d dialect) list(names []string) string { return engine.QuoteList(names, d.Quote) }

// quoteText returns a string literal. It requires a session prepared by Session.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// childName returns the name of the table that holds a partition.
func childName(t *engine.Table, p rolling.Partition) string {
	if name, ok := strings.CutPrefix(p.Name, `"`); ok {
		return strings.ReplaceAll(strings.TrimSuffix(name, `"`), `""`, `"`)
	}
	return t.Name + "_" + p.Name
}

// partitionName is the reverse of childName. A child whose name doesn't begin with the table's name
// was attached by someone else: the name of its partition is the child's name in quotes.
func partitionName(t *engine.Table, child string) string {
	if name, ok := strings.CutPrefix(child, t.Name+"_"); ok && name != "" && name[0] != '"' {
		return name
	}
	return dialect{}.Quote(child)
}

func indexName(t *engine.Table, ix engine.Index) string { return t.Name + "_" + ix.Name + "_idx" }

func (d dialect) Render(s engine.Step) ([]string, error) {
	switch s := s.(type) {
	case engine.Connect:
		return d.session(s), nil
	case engine.CreateTable:
		return d.createTable(s)
	case engine.DropTable:
		return d.dropTable(s), nil
	case engine.CreatePartitions:
		return d.createPartitions(s)
	case engine.DropPartition:
		return d.dropPartition(s)
	case engine.Detach:
		return d.changeDetach(s)
	case engine.Attach:
		return d.changeAttach(s)
	case engine.Replace:
		return d.changeReplace(s)
	case engine.Release: // nothing to do: its partitions are ordinary ones already
		return nil, nil
	case engine.Divide:
		return d.divide(s)
	case engine.Enclose:
		return d.encloseDefault(s)
	case engine.AddTail:
		return []string{fmt.Sprintf("CREATE TABLE %s PARTITION OF %s DEFAULT", d.Quote(childName(s.Table, rolling.Partition{Name: s.Name})), d.Quote(s.Table.Name))}, nil
	case engine.DropTables:
		return s.Statements(d), nil
	case engine.AddColumn:
		return d.changeAddColumn(s)
	case engine.Insert:
		return d.insert(s)
	case engine.Select:
		from := s.Table.Name
		if s.Partition != nil {
			from = childName(s.Table, *s.Partition)
		}
		return []string{fmt.Sprintf("SELECT %s FROM %s", d.list(engine.Names(s.Table.Columns)), d.Quote(from))}, nil
	case engine.Inspect:
		return []string{d.exists(s.Table), d.parts(s.Table)}, nil
	case engine.Find:
		return engine.One(d.find(s))
	case engine.Delete:
		return engine.One(d.delete(s))
	case engine.CreateIndexes:
		return d.createIndexes(s)
	case engine.Settle:
		return d.settle(s), nil
	case engine.Rename:
		return d.rename(s)
	case engine.Measure:
		return []string{d.sizes(s.Table)}, nil
	case engine.Sample:
		return d.sample(s.Tables), nil
	}
	return nil, fmt.Errorf("postgres: no rendering of %T", s)
}

func (d dialect) createTable(s engine.CreateTable) ([]string, error) {
	t := s.Table
	if len(t.Name) > maxName {
		return nil, fmt.Errorf("create table %s: its name is longer than %d bytes", t.Name, maxName)
	}
	if t.Rolling() && len(s.Partitions) == 0 {
		return nil, fmt.Errorf("create table %s: a rolling table needs a first partition", t.Name)
	}
	q, rest := "", ""
	if t.Definition != nil {
		q, rest = t.Definition.Split(d.Quote(t.Name))
	} else {
		if err := t.Validate(); err != nil {
			return nil, err
		}
		var lines []string
		for _, c := range t.Columns {
			lines = append(lines, d.Quote(c.Name)+" "+columnType(t, c))
		}
		lines = append(lines, fmt.Sprintf("PRIMARY KEY (%s)", d.list(t.PrimaryKey)))
		q = fmt.Sprintf("CREATE TABLE %s (\n  %s\n)", d.Quote(t.Name), strings.Join(lines, ",\n  "))
	}
	if t.Values > 0 {
		q += fmt.Sprintf(" PARTITION BY LIST (%s)", d.Quote(t.By))
	}
	if t.Rolling() {
		// A DEFAULT partition would hide rows outside every period, and prevent DETACH CONCURRENTLY.
		q += fmt.Sprintf(" PARTITION BY RANGE (%s)", d.Quote(t.By))
	}
	out := []string{q + rest}
	for _, ix := range t.Indexes {
		if err := checkName("create index of "+t.Name, indexName(t, ix)); err != nil {
			return nil, err
		}
		out = append(out, d.createIndex(t, ix))
	}
	if t.Definition != nil {
		for _, ix := range t.Definition.Indexes {
			name := "" // the server chooses it: only the declared table gets the declared names
			if ix.Name != "" && t.Name == t.Definition.Name {
				name = d.Quote(ix.Name)
			}
			out = append(out, ix.As(name, d.Quote(t.Name)))
		}
	}
	if !t.Rolling() {
		s.Partitions = nil
	}
	for v := range t.Values {
		name := childName(t, rolling.Partition{Name: "p" + strconv.Itoa(v)})
		if len(name) > maxName {
			return nil, fmt.Errorf("create table %s: the name of its partition %s is longer than %d bytes", t.Name, name, maxName)
		}
		out = append(out, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES IN (%d)", d.Quote(name), d.Quote(t.Name), v))
	}
	for _, p := range s.Partitions {
		if err := fits(t, p); err != nil {
			return nil, err
		}
		// This lock blocks no one: the table is not visible yet.
		out = append(out, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s %s", d.Quote(childName(t, p)), d.Quote(t.Name), bounds(t, p)))
	}
	if len(out) == 1 {
		return out, nil
	}
	return transaction(out...), nil
}

func (d dialect) createIndex(t *engine.Table, ix engine.Index) string {
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s)", d.Quote(indexName(t, ix)), d.Quote(t.Name), d.list(ix.Columns))
}

// createIndexes builds the indexes one by one, each with parallel workers, in every partition.
func (d dialect) createIndexes(s engine.CreateIndexes) ([]string, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var out []string
	for _, ix := range s.Indexes {
		if err := checkName("create index of "+s.Table.Name, indexName(s.Table, ix)); err != nil {
			return nil, err
		}
		out = append(out, d.createIndex(s.Table, ix))
	}
	return out, nil
}

func fits(t *engine.Table, p rolling.Partition) error {
	if name := childName(t, p); len(name) > maxName {
		return fmt.Errorf("partition %s of %s: its table would be %s, which is longer than %d bytes", p.Name, t.Name, name, maxName)
	}
	return checkBounds(t, p)
}

// dropTable drops first the views that depend on the table.
func (d dialect) dropTable(s engine.DropTable) []string {
	drop := []string{"DROP TABLE IF EXISTS " + d.Quote(s.Table.Name)}
	if len(s.Views) == 0 {
		return drop
	}
	return append([]string{"DROP VIEW IF EXISTS " + d.list(s.Views)}, drop...)
}

// createPartitions creates each partition as a table, and attaches it. CREATE TABLE ... PARTITION
// OF would take an ACCESS EXCLUSIVE lock on the partitioned table. ATTACH lets inserts and queries
// go on; it has no rows to scan, and creates the indexes. Each partition has its own transaction,
// so that locks are short.
func (d dialect) createPartitions(s engine.CreatePartitions) ([]string, error) {
	var out []string
	for _, p := range s.New {
		if err := fits(s.Table, p); err != nil {
			return nil, err
		}
		child, parent := d.Quote(childName(s.Table, p)), d.Quote(s.Table.Name)
		out = append(out, transaction(
			fmt.Sprintf("CREATE TABLE %s (LIKE %s %s EXCLUDING INDEXES)", child, parent, likeTable),
			fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s %s", parent, child, bounds(s.Table, p)))...)
	}
	return out, nil
}

// dropPartition detaches the partition, and then drops it: a DROP of an attached partition would
// lock the whole table until the DROP has ended. DETACH CONCURRENTLY waits for the transactions
// that use the table, and blocks no new ones. It can't run in a transaction. If a crash leaves the
// detached partition behind, its comment says that rowmill was to drop it.
func (d dialect) dropPartition(s engine.DropPartition) ([]string, error) {
	if len(s.Have) == 1 {
		return nil, fmt.Errorf("drop partition %s of %s: it is the only partition", s.Drop.Name, s.Table.Name)
	}
	child := childName(s.Table, s.Drop)
	return []string{d.comment(child, dropMark(s.Table)), d.detach(s.Table, child) + " CONCURRENTLY", "DROP TABLE " + d.Quote(child)}, nil
}

// divide renders a Divide, in one transaction.
func (d dialect) divide(s engine.Divide) ([]string, error) {
	child, rest := childName(s.Table, s.Part), d.Quote(engine.RestName)
	out := []string{d.detach(s.Table, child), d.renameTable(child, engine.RestName)}
	for _, p := range s.New {
		if err := fits(s.Table, p); err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s %s", d.Quote(childName(s.Table, p)), d.Quote(s.Table.Name), bounds(s.Table, p)))
	}
	copied := words{d}.CopyRows(engine.CopyRows{Into: d.Quote(s.Table.Name), From: rest, Columns: s.Columns})
	return transaction(append(out, copied, "DROP TABLE "+rest)...), nil
}

func (d dialect) detach(t *engine.Table, child string) string {
	return fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s", d.Quote(t.Name), d.Quote(child))
}

// sequenceCache is how many keys a connection takes at a time, as in the reference insert
// benchmark.
const sequenceCache = 1000

func columnType(t *engine.Table, c engine.Column) string {
	s := c.Declaration(typeNames)
	if c.Auto {
		s += " GENERATED BY DEFAULT AS IDENTITY"
		// With a cache, each new connection makes the key jump, perhaps past the last partition.
		if t.ServerKey == c.Name && !(t.Rolling() && t.By == c.Name) {
			s += fmt.Sprintf(" (CACHE %d)", sequenceCache)
		}
	}
	return s
}

// typeNames are the server's names of the types.
var typeNames = map[engine.Type]string{
	engine.Int32: "INTEGER", engine.Int64: "BIGINT", engine.Float32: "REAL", engine.Float64: "DOUBLE PRECISION", engine.Time: "TIMESTAMP",
	engine.Varchar: "VARCHAR(%d)", engine.Char: "CHAR(%d)", engine.Decimal: "NUMERIC(%d,%d)",
}

// insert renders what a writer sends for a batch, by the writers' encoder.
func (d dialect) insert(s engine.Insert) ([]string, error) {
	e, rows := newEncoder(d, s.Table), s.Batch.Rows()
	var out []string
	switch {
	case rows == 0:
	case s.Method == engine.Multi:
		for i := 0; i < rows; {
			var q []byte
			q, i = e.appendInsert(nil, s.Batch, i, s.Batch.Rows())
			out = append(out, string(q))
		}
	case s.Method == engine.Single:
		for i := range rows {
			q := e.appendRow([]byte(e.prefix), s.Batch, i)
			out = append(out, string(append(q, e.suffix...)))
		}
	case s.Method == engine.Prepared:
		per := e.perStatement()
		for i := 0; i < rows; i += per {
			out = append(out, e.placeholders(min(per, rows-i)))
		}
		return out, e.err // no BEGIN, even for several statements: see writeBound
	case s.Method == engine.Pipeline:
		return []string{e.placeholders(1)}, nil
	case s.Method == engine.Load:
		return []string{e.copyStatement()}, nil
	default:
		return nil, fmt.Errorf("postgres: no insert method %q", s.Method)
	}
	if e.err != nil {
		return nil, e.err
	}
	if len(out) > 1 {
		out = transaction(out...)
	}
	return out, nil
}
