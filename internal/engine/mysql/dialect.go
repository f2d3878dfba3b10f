package mysql

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// dialect renders steps for MariaDB and MySQL.
type dialect struct {
	mariadb bool
	storage string
	// remembers is set if the server caches table sizes: see fresh.
	remembers bool
	// unchecked is set if EXCHANGE PARTITION supports WITHOUT VALIDATION.
	unchecked bool
	// folds is set if the server stores names of databases and tables in lower
	// case: lower_case_table_names.
	folds bool
	// statements is set if the binary log is statement-based.
	statements bool
	// listed is the view of the server's sessions, "" for processList.
	listed string
}

func (d dialect) rocksdb() bool { return strings.EqualFold(d.storage, "rocksdb") }

// flushRocksDB makes MyRocks write its memtables to files, because its sizes include only files.
const flushRocksDB = "SET GLOBAL rocksdb_force_flush_memtable_now = ON"

// lockWait is how long, in seconds, maintenance waits for a table's metadata lock. Meanwhile every
// new statement on the table queues behind maintenance, so lockWait is the longest delay of an
// insert. One second is the smallest value that every server accepts.
const lockWait = 1

// rowLockWait is how long, in seconds, maintenance waits for a row lock. With the servers' default
// of 50, one table would delay the maintenance of all others.
const rowLockWait = 5

func (dialect) Quote(ident string) string {
	return "`" + strings.ReplaceAll(ident, "`", "``") + "`"
}

// stored returns a table's name in the form in which InnoDB and the performance schema store it.
// Other views need no such form: they compare names by the server's rules about case.
func (d dialect) stored(name string) string {
	if d.folds {
		return strings.ToLower(name)
	}
	return name
}

func (d dialect) list(names []string) string { return engine.QuoteList(names, d.Quote) }

// quoteText returns a string literal for a session with rowmill's sqlMode.
func quoteText(s string) string { return string(appendQuoted(nil, []byte(s))) }

func (d dialect) Render(s engine.Step) ([]string, error) {
	switch s := s.(type) {
	case engine.Connect:
		if s.Maintenance {
			return d.session(maintaining), nil
		}
		return d.session(inserting), nil
	case engine.CreateTable:
		return d.createTable(s)
	case engine.DropTable:
		return []string{"DROP TABLE IF EXISTS " + d.Quote(s.Table.Name)}, nil
	case engine.CreatePartitions:
		if len(s.New) == 0 {
			return nil, nil
		}
		q, _, err := d.partitioner().add(s.Table, supposed(s.Table, s.Have), s.New)
		return d.partitioner().alone(s.Table, q...), err
	case engine.DropPartition:
		q, err := d.partitioner().dropPartition(s.Table, supposed(s.Table, s.Have), s.Drop)
		return d.partitioner().alone(s.Table, q...), err
	case engine.Detach:
		return d.partitioner().detach(s)
	case engine.Attach:
		return d.partitioner().attach(s)
	case engine.Replace:
		return d.partitioner().replace(s)
	case engine.Release:
		return d.partitioner().release(s.Table, supposed(s.Table, s.Have), func(string) bool { return false })
	case engine.Divide:
		return d.partitioner().divide(s)
	case engine.Enclose:
		return d.partitioner().encloseTail(s)
	case engine.AddTail:
		return []string{d.partitioner().addPartitions(s.Table, "PARTITION "+d.Quote(s.Name)+" VALUES LESS THAN (MAXVALUE)")}, nil
	case engine.DropTables:
		return s.Statements(d), nil
	case engine.AddColumn:
		return []string{d.partitioner().addColumn(s, algorithms[0])}, nil
	case engine.Insert:
		return d.insert(s)
	case engine.Select:
		q := fmt.Sprintf("SELECT %s FROM %s", d.list(engine.Names(s.Table.Columns)), d.Quote(s.Table.Name))
		if s.Partition != nil {
			q += fmt.Sprintf(" PARTITION (%s)", d.Quote(s.Partition.Name))
		}
		return []string{q}, nil
	case engine.Inspect:
		return []string{d.exists(s.Table), d.parts(s.Table)}, nil
	case engine.Find:
		q, _, err := d.find(s)
		return engine.One(q, err)
	case engine.Delete:
		return engine.One(d.delete(s))
	case engine.CreateIndexes:
		return engine.One(d.createIndexes(s))
	case engine.Settle:
		return d.settle(s), nil
	case engine.Rename:
		return d.rename(s), nil
	case engine.Measure:
		return d.measure(s.Table), nil
	case engine.Sample:
		return append(d.fresh(), d.sample(s.Tables)...), nil
	}
	return nil, fmt.Errorf("mysql: no rendering of %T", s)
}

func (d dialect) createTable(s engine.CreateTable) ([]string, error) {
	t := s.Table
	if t.Definition != nil {
		return d.createDeclared(s)
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	var lines []string
	for _, c := range t.Columns {
		lines = append(lines, d.Quote(c.Name)+" "+columnType(c))
	}
	lines = append(lines, fmt.Sprintf("PRIMARY KEY (%s)", d.list(t.PrimaryKey)))
	for _, ix := range t.Indexes {
		lines = append(lines, d.key(ix))
	}
	q := fmt.Sprintf("CREATE TABLE %s (\n  %s\n)", d.Quote(t.Name), strings.Join(lines, ",\n  "))
	if d.storage != "" {
		q += " ENGINE=" + d.Quote(d.storage)
	}
	// Generated text is ASCII, for which a binary collation changes nothing.
	q += " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
	if t.Rolling() {
		if len(s.Partitions) == 0 {
			return nil, fmt.Errorf("create table %s: a rolling table needs a first partition", t.Name)
		}
		defs, err := d.partitions(t, s.Partitions)
		if err != nil {
			return nil, fmt.Errorf("create table %s: %w", t.Name, err)
		}
		q += fmt.Sprintf("\nPARTITION BY %s (%s)", d.partitionBy(t), defs)
	}
	if t.Values > 0 {
		q += fmt.Sprintf("\nPARTITION BY HASH (%s) PARTITIONS %d", d.Quote(t.By), t.Values)
	}
	return []string{q}, nil
}

func (d dialect) key(ix engine.Index) string {
	return fmt.Sprintf("KEY %s (%s)", d.Quote(ix.Name), d.list(ix.Columns))
}

// partitions renders definitions. There is no MAXVALUE: inserts outside every period must fail.
func (d dialect) partitions(t *engine.Table, parts []rolling.Partition) (string, error) {
	defs := make([]string, len(parts))
	for i, p := range parts {
		to, err := bound(t, p.To)
		if err != nil {
			return "", fmt.Errorf("partition %s: %w", p.Name, err)
		}
		defs[i] = fmt.Sprintf("PARTITION %s VALUES LESS THAN (%s)", d.Quote(p.Name), to)
	}
	return "\n  " + strings.Join(defs, ",\n  ") + "\n", nil
}

func columnType(c engine.Column) string {
	s := c.Declaration(typeNames)
	if c.Auto {
		s += " AUTO_INCREMENT"
	}
	return s
}

// typeNames are the servers' names of the types.
var typeNames = map[engine.Type]string{
	engine.Int32: "INT", engine.Int64: "BIGINT", engine.Float32: "FLOAT", engine.Float64: "DOUBLE", engine.Time: "DATETIME",
	engine.Varchar: "VARCHAR(%d)", engine.Char: "CHAR(%d)", engine.Decimal: "DECIMAL(%d,%d)",
}

// insert renders the statements that a writer sends for a batch. If the batch is larger than the
// server's limit for a packet, the writer sends more, and smaller, statements than insert renders.
func (d dialect) insert(s engine.Insert) ([]string, error) {
	e, rows := newEncoder(d, s.Table), s.Batch.Rows()
	var out []string
	switch {
	case rows == 0:
	case s.Method == engine.Multi:
		for i := 0; i < rows; {
			var q []byte
			q, i = e.appendInsert(nil, s.Batch, i, rows, math.MaxInt)
			out = append(out, string(q))
		}
	case s.Method == engine.Single:
		for i := range rows {
			out = append(out, string(e.appendRow([]byte(e.prefix), s.Batch, i)))
		}
	case s.Method == engine.Prepared:
		per := e.perStatement()
		for i := 0; i < rows; i += per {
			out = append(out, e.placeholders(min(per, rows-i)))
		}
	case s.Method == engine.Load:
		query := warningsQuery
		if e.ignore {
			query = allWarningQuery
		}
		return []string{beginStatement, e.load("rowmill"), query, commitStatement}, nil
	default:
		return nil, fmt.Errorf("mysql: no insert method %q", s.Method)
	}
	if e.ignore {
		// Warnings tell which rows the server skipped, and why. They are read after each statement with
		// several rows, and after a single row that was skipped.
		for i := len(out); i > 0; i-- {
			out = slices.Insert(out, i, allWarningQuery)
		}
	}
	if len(out) > 1 && rows > 1 {
		out = append(slices.Insert(out, 0, beginStatement), commitStatement)
	}
	return out, nil
}

// Table options that rowmill leaves as they are if a declaration has them.
var (
	storageOption  = regexp.MustCompile(`(?i)\bENGINE\b`)
	innodbOption   = regexp.MustCompile(`(?i)\bENGINE\s*=?\s*InnoDB\b`)
	compressOption = regexp.MustCompile(`(?i)\b(PAGE_COMPRESSED|ROW_FORMAT|KEY_BLOCK_SIZE)\b`)
)

// quotedText matches quoted text in the options of a table.
var quotedText = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")

// createDeclared renders a table as its owner declared it, with partitions.
func (d dialect) createDeclared(s engine.CreateTable) ([]string, error) {
	t := s.Table
	fail := func(format string, args ...any) ([]string, error) {
		return nil, fmt.Errorf("create table %s: "+format, append([]any{t.Name}, args...)...)
	}
	q, options := t.Definition.Split(d.Quote(t.Name))
	q += options
	options = quotedText.ReplaceAllString(options, " ")
	innodb := innodbOption.MatchString(options)
	if d.storage != "" && !storageOption.MatchString(options) {
		q += " ENGINE=" + d.Quote(d.storage)
		innodb = strings.EqualFold(d.storage, "innodb")
	}
	if t.Compress && d.mariadb && innodb && !compressOption.MatchString(options) {
		// Only tables with the same options can be exchanged: all periods are compressed, or none.
		q += " PAGE_COMPRESSED=1"
	}
	if t.Rolling() {
		if len(s.Partitions) == 0 {
			return fail("a rolling table needs a first partition")
		}
		if err := d.checkBy(t); err != nil {
			return fail("%w", err)
		}
		if err := d.checkName(t.Name); err != nil {
			return fail("%w", err)
		}
		floor := floorTo(s.Partitions[0].From)
		defs, err := d.partitions(t, slices.Concat([]rolling.Partition{floor}, s.Partitions))
		if err != nil {
			return fail("%w", err)
		}
		q += fmt.Sprintf("\nPARTITION BY %s (%s)", d.partitionBy(t), defs)
	}
	out := []string{q}
	for i := range t.Definition.Indexes {
		ix := &t.Definition.Indexes[i]
		out = append(out, ix.As(d.Quote(ix.Name), d.Quote(t.Name)))
	}
	return out, nil
}

// checkBy refuses a column if the server can't prune partitions by it.
func (d dialect) checkBy(t *engine.Table) error {
	c := t.Definition.Column(t.By)
	if c == nil || kindOf(t) != engine.ByInstant || d.mariadb || value.ParseName(c.Type).Number(0, 0) == 0 {
		return nil
	}
	return engine.Hinted(engine.Classed(engine.ErrUnsupported,
		fmt.Errorf("MySQL can't partition a table by column %s: UNIX_TIMESTAMP of a %s is no integer", t.By, c.Type)),
		"%s as DATETIME(6) in UTC, or as TIMESTAMP without fractions", t.By)
}

// rename renders engine.Rename. Partitions need no new names: theirs don't contain the table's.
func (d dialect) rename(s engine.Rename) []string {
	return []string{"RENAME TABLE " + d.Quote(s.Table.Name) + " TO " + d.Quote(s.To)}
}
