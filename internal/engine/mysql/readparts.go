package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// Queries of the catalog run in a client's session, but don't depend on its settings: names are
// hexadecimal literals, texts come as bytes, and a LIMIT replaces sql_select_limit.

// whole is a clause that makes the server ignore sql_select_limit.
const whole = " LIMIT 18446744073709551615"

// hexText renders a text as a literal in any SQL mode and character set.
func hexText(s string) string {
	if s == "" {
		return "''"
	}
	return "_utf8mb4 X'" + hex.EncodeToString([]byte(s)) + "'"
}

// bytesOf lists columns of the catalog, which are read as bytes.
func bytesOf(columns ...string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = asBytes(c)
	}
	return strings.Join(list, ", ")
}

// explain precedes a query, so that the server returns a plan with partitions.
func (d dialect) explain() string {
	if d.mariadb {
		return "EXPLAIN PARTITIONS "
	}
	return "EXPLAIN FORMAT=TRADITIONAL "
}

// ExplainQuery implements engine.Reader. The server separates the names of partitions by commas,
// but a name may itself contain a comma: see engine.TableParts.Read.
func (db *reader) ExplainQuery(ctx context.Context, s *engine.Session, query string) (*engine.QueryPlan, error) {
	plan := &engine.QueryPlan{Tables: []engine.PlannedTable{}, Parallel: 1}
	spider, err := db.hasSpider(ctx, s)
	if err != nil {
		return nil, err
	}
	explain := db.dialect.explain()
	if spider { // a plan that Spider takes over whole has no tables
		explain = "SET STATEMENT spider_disable_group_by_handler = 1 FOR " + explain
	}
	at := map[string]int{}
	err = s.Text(ctx, explain+query, func(cols []engine.ResultColumn) error {
		for i, c := range cols {
			at[c.Name] = i
		}
		for _, name := range []string{"table", "partitions", "rows"} {
			if _, ok := at[name]; !ok {
				return fmt.Errorf("the server's plan has no column %s", name)
			}
		}
		return nil
	}, func(v [][]byte) error {
		if v[at["table"]] == nil {
			return nil
		}
		t := engine.PlannedTable{Alias: string(v[at["table"]]), Rows: -1}
		if p := v[at["partitions"]]; p != nil {
			t.Parts = strings.Split(string(p), ",")
		}
		if n, err := strconv.ParseInt(string(v[at["rows"]]), 10, 64); err == nil {
			t.Rows = n
			plan.Rows += n
		}
		plan.Tables = append(plan.Tables, t)
		return nil
	})
	return plan, err
}

// partitioned are the storage engines whose partitioned tables are read by partition. versioned is
// set for engines with snapshots. Engines that aren't listed, such as CONNECT, have their own kind
// of partitions.
var partitioned = map[string]struct{ versioned bool }{
	"innodb": {true}, "rocksdb": {true},
	"myisam": {}, "aria": {}, "archive": {}, "memory": {}, "csv": {}, "spider": {},
}

func (db *reader) TableParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error) {
	return db.tableParts(ctx, s, database, table, false)
}

func (db *reader) LockedParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error) {
	return db.tableParts(ctx, s, database, table, true)
}

func (db *reader) tableParts(ctx context.Context, s *engine.Session, database, table string, locked bool) (*engine.TableParts, error) {
	t := &engine.TableParts{Database: database, Name: table}
	fail := func(err error) (*engine.TableParts, error) {
		return nil, fmt.Errorf("read table %s from the catalog: %w", db.qualified(t), err)
	}
	schema := hexText(database)
	if database == "" {
		schema = "DATABASE()"
	}
	where := " WHERE TABLE_SCHEMA = " + schema + " AND TABLE_NAME = " + hexText(table)
	var kind, storage, created string
	var identity []string
	found := false
	err := s.Text(ctx, "SELECT "+bytesOf("TABLE_SCHEMA", "TABLE_NAME", "TABLE_TYPE", "ENGINE", "CREATE_TIME", "TABLE_COLLATION", "@@SESSION.sql_mode")+
		" FROM information_schema.TABLES"+where+whole, nil, func(v [][]byte) error {
		if found = string(v[2]) != "VIEW" && string(v[2]) != "SYSTEM VIEW"; found {
			t.Database, t.Name = string(v[0]), string(v[1])
			kind, storage, created = string(v[2]), strings.ToLower(string(v[3])), string(v[4])
			for _, x := range v {
				identity = append(identity, string(x))
			}
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	if !found {
		return fail(engine.Classed(engine.ErrNoTable, errors.New("no such table")))
	}
	text, hidden, err := shown(ctx, s, db.qualified(t))
	if err != nil {
		return fail(err)
	}
	identity = append(identity, text)
	if known := db.tables.get(t, identity, locked); known != nil && !hidden {
		return known, nil
	}
	where = " WHERE TABLE_SCHEMA = " + hexText(t.Database) + " AND TABLE_NAME = " + hexText(t.Name)
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q\n", kind, storage, created)
	err = s.Text(ctx, "SELECT "+bytesOf("COLUMN_NAME", "COLUMN_TYPE", "IS_NULLABLE", "EXTRA", "COLLATION_NAME", "GENERATION_EXPRESSION")+
		" FROM information_schema.COLUMNS"+where+" ORDER BY ORDINAL_POSITION"+whole, nil, func(v [][]byte) error {
		fmt.Fprintf(sum, "%q\n", v)
		extra := strings.ToLower(string(v[3]))
		c := engine.SchemaColumn{Name: string(v[0]), Native: string(v[1]), Null: string(v[2]) == "YES", Collation: string(v[4])}
		c.Type = typeOf(c.Native)
		setExtra(&c, extra)
		if c.Virtual && fleeting.Match(v[5]) {
			t.Fleeting = c.Name
		}
		t.Columns = append(t.Columns, c)
		if strings.Contains(extra, "invisible") {
			t.Invisible = append(t.Invisible, c.Name)
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	err = s.Text(ctx, "SELECT "+bytesOf("COLUMN_NAME")+" FROM information_schema.STATISTICS"+where+
		" AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX"+whole, nil, func(v [][]byte) error {
		t.PrimaryKey = append(t.PrimaryKey, string(v[0]))
		return nil
	})
	if err != nil {
		return fail(err)
	}
	var method, expression string
	err = s.Text(ctx, "SELECT "+bytesOf("PARTITION_NAME", "SUBPARTITION_NAME", "PARTITION_METHOD", "PARTITION_EXPRESSION",
		"PARTITION_DESCRIPTION", "SUBPARTITION_METHOD", "SUBPARTITION_EXPRESSION")+
		", TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.PARTITIONS"+where+
		" AND PARTITION_NAME IS NOT NULL ORDER BY PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION"+whole, nil, func(v [][]byte) error {
		fmt.Fprintf(sum, "%q\n", v[:7])
		name := string(v[0])
		method, expression = string(v[2]), string(v[3])
		if n := len(t.Parts); n == 0 || t.Parts[n-1].Name != name {
			t.Parts = append(t.Parts, engine.TablePart{Name: name, Period: name, Outside: isFloor(name) || isGap(name)})
		}
		p := &t.Parts[len(t.Parts)-1]
		if v[1] != nil {
			p.Planned = append(p.Planned, name+"_"+string(v[1]))
		}
		if storage == "spider" { // what it knows of its nodes may be old
			p.Rows, p.Bytes = -1, -1
			return nil
		}
		p.Estimate(v[7], v[8])
		return nil
	})
	if err != nil {
		return fail(err)
	}
	t.Created = hex.EncodeToString(sum.Sum(nil)[:16])
	known, ok := partitioned[storage]
	t.Versioned, t.Remote, t.Rewritten = known.versioned, storage == "spider", storage == "spider"
	switch {
	case hidden:
		t.Refusal = "a temporary table of the session has its name"
	case method == "SYSTEM_TIME" || strings.Contains(strings.ToUpper(kind), "VERSIONED"):
		t.Refusal = "it is system-versioned"
	case len(t.Parts) > 0 && !ok:
		t.Refusal = fmt.Sprintf("its storage engine is %s, of which it isn't known that it reads single partitions", cmp.Or(storage, "unknown"))
	}
	t.By = partitionColumns(method, expression, t)
	t.Period = strings.HasPrefix(method, "RANGE") && len(t.By) == 1
	if again, _, err := shown(ctx, s, db.qualified(t)); err != nil {
		return fail(err)
	} else if again == text && !hidden { // it was not changed meanwhile
		db.tables.put(t, identity, locked)
	}
	return t, nil
}

// fleeting matches functions and variables that have another value in each session, or at each
// time. A virtual column may use them only in MariaDB; MySQL permits only functions that depend on
// their arguments and on settings.
var fleeting = regexp.MustCompile(`(?i)@|\b(now|sysdate|curdate|curtime|localtime|localtimestamp|current_\w+|utc_\w+|\w*user|\w*role|` +
	`connection_id|database|schema|last_insert_id|found_rows|row_count|rand|random_bytes|uuid\w*|sys_guid|sleep|benchmark|\w+_lock|\w+_all_locks|lastval|nextval|setval|load_file)\s*\(|\bunix_timestamp\s*\(\s*\)`)

// nextNumber matches the next value of AUTO_INCREMENT in a table's SHOW CREATE TABLE. Each insert
// changes it.
var nextNumber = regexp.MustCompile(`(\n\) ENGINE=\w+) AUTO_INCREMENT=\d+`)

// shown returns the statement that would create a table, without what nextNumber matches. hidden
// reports that a temporary table of the session has the same name, and hides the table.
func shown(ctx context.Context, s *engine.Session, table string) (text string, hidden bool, err error) {
	err = s.Text(ctx, "SHOW CREATE TABLE "+table, nil, func(v [][]byte) error {
		if hidden = len(v) < 2; !hidden {
			text = nextNumber.ReplaceAllString(string(v[1]), "$1")
			hidden = strings.HasPrefix(strings.ToUpper(text), "CREATE TEMPORARY ")
		}
		return nil
	})
	return text, hidden, err
}

// qualified returns a table's quoted name.
func (db *server) qualified(t *engine.TableParts) string {
	if t.Database == "" {
		return db.dialect.Quote(t.Name)
	}
	return db.dialect.Quote(t.Database) + "." + db.dialect.Quote(t.Name)
}

// partitionWord matches a word in a partitioning expression: a name, quoted according to the
// session's settings, or another word, with the parenthesis if it is a function.
var partitionWord = regexp.MustCompile("`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\\pL\\pN_$]+\\s*\\(?")

// partitionColumns returns the columns that determine a row's partition. The server allows only
// functions of columns that are the same in every session. A floating-point column doesn't
// determine the partition: 0 and -0 are equal, but the hashes of their bytes differ.
func partitionColumns(method, expression string, t *engine.TableParts) []string {
	if method == "" || method == "SYSTEM_TIME" {
		return nil
	}
	names := partitionWord.FindAllString(expression, -1)
	if strings.HasSuffix(method, "KEY") && len(names) == 0 {
		for _, name := range t.PrimaryKey {
			names = append(names, dialect{}.Quote(name))
		}
	}
	var by []string
	for _, name := range names {
		quote := name[:1]
		if quote == "`" || quote == "\"" {
			name = strings.ReplaceAll(name[1:len(name)-1], quote+quote, quote)
		} else {
			quote = ""
		}
		i := slices.IndexFunc(t.Columns, func(c engine.SchemaColumn) bool { return strings.EqualFold(c.Name, strings.TrimSpace(name)) })
		switch {
		case i < 0 && quote == "": // a function, a number, a keyword
		case i < 0 || t.Columns[i].Kind == value.Float:
			return nil
		case !slices.Contains(by, t.Columns[i].Name):
			by = append(by, t.Columns[i].Name)
		}
	}
	return by
}

func (db *reader) PartFrom(t *engine.TableParts, parts []string) string {
	return db.qualified(t) + " PARTITION (" + db.dialect.list(parts) + ")"
}
