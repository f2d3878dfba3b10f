package sqlite

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
)

// strictClasses has the declared types that, in a STRICT table, all values of a column have.
var strictClasses = map[string]engine.ResultClass{
	"INT": engine.ClassInt, "INTEGER": engine.ClassInt, "REAL": engine.ClassFloat, "TEXT": engine.ClassBytes, "BLOB": engine.ClassBytes,
}

// compound matches a query of several parts, such as SELECT ... UNION SELECT ... or VALUES. The
// types of its columns are declared by the first part only. collated matches a query with a
// collation, or with JSON: functions treat a value of JSON differently from a text with the same
// characters.
var (
	compound = regexp.MustCompile(`(?i)\b(union|intersect|except)\b|\bvalues\s*[(/-]`)
	collated = regexp.MustCompile(`(?i)\bcollate\b|json|->`)
)

// A rootTable is the table to which a b-tree belongs: the tree has its rows, or an index.
type rootTable struct {
	plain  bool // no column has a collation
	strict bool
}

// A schemaFacts keeps what was found out about one version of the file's schema. Otherwise rowmill
// would find it out several times per query, and to prepare a query over a view of 100 periods
// takes milliseconds.
type schemaFacts struct {
	mu      sync.Mutex
	version string
	roots   map[string]rootTable // by root page; nil is unknown
	queries map[string][]engine.ResultColumn
}

// mostDescribed limits the queries whose descriptions are kept.
const mostDescribed = 200

// at forgets what was found out about another version of the schema. The caller holds f.mu.
func (f *schemaFacts) at(version string) {
	if f.version != version || len(f.queries) >= mostDescribed {
		f.version, f.roots, f.queries = version, nil, map[string][]engine.ResultColumn{}
	}
}

// described returns what DescribeQuery has returned for a query.
func (f *schemaFacts) described(version, query string) []engine.ResultColumn {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(version)
	return slices.Clone(f.queries[query])
}

func (f *schemaFacts) describe(version, query string, cols []engine.ResultColumn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(version)
	f.queries[query] = slices.Clone(cols)
}

// schemaVersion returns a text that changes with the schema, and whether the session has temporary
// tables or views.
func schemaVersion(ctx context.Context, s *engine.Session) (version string, temporary bool, err error) {
	err = s.Text(ctx, "SELECT (SELECT schema_version FROM pragma_schema_version), EXISTS (SELECT 1 FROM sqlite_temp_schema)", nil, func(v [][]byte) error {
		version, temporary = string(v[0]), string(v[1]) == "1"
		return nil
	})
	return version, temporary, err
}

// rootTables returns the tables of all trees; none if the file's texts aren't UTF-8.
func (f *schemaFacts) rootTables(ctx context.Context, s *engine.Session, version string) (map[string]rootTable, error) {
	f.mu.Lock()
	f.at(version)
	roots := f.roots
	f.mu.Unlock()
	if roots != nil {
		return roots, nil
	}
	utf8 := false
	err := s.Text(ctx, "SELECT encoding FROM pragma_encoding", nil, func(v [][]byte) error { utf8 = string(v[0]) == "UTF-8"; return nil })
	strict, tables, trees := map[string]bool{}, map[string]rootTable{}, map[string]string{}
	if err == nil {
		err = s.Text(ctx, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict = 1", nil, func(v [][]byte) error { strict[string(v[0])] = true; return nil })
	}
	if err == nil {
		err = s.Text(ctx, "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE rootpage > 0", nil, func(v [][]byte) error {
			if name := string(v[1]); string(v[0]) == "table" {
				tables[name] = rootTable{!strings.Contains(strings.ToLower(string(v[4])), "collate"), strict[name]}
			}
			trees[string(v[3])] = string(v[2])
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	roots = map[string]rootTable{}
	for page, name := range trees {
		if t, ok := tables[name]; ok && utf8 {
			roots[page] = t
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(version)
	f.roots = roots
	return roots, nil
}

// typed returns two properties of a query. plain: neither the query nor the tables that it reads
// have a collation. Then two values of a column are equal in the query exactly if a temporary table
// with these values compares them as equal. strict: plain, and all tables that the query reads are
// STRICT, so that values have the declared types.
func (db *reader) typed(ctx context.Context, s *engine.Session, version, query string) (plain, strict bool, err error) {
	if compound.MatchString(query) || collated.MatchString(query) {
		return false, false, nil
	}
	roots, err := db.facts.rootTables(ctx, s, version)
	if err != nil {
		return false, false, err
	}
	read := 0
	plain, strict = true, true
	err = s.Text(ctx, "EXPLAIN "+query, nil, func(v [][]byte) error { // addr, opcode, p1, p2, p3
		switch string(v[1]) {
		case "OpenRead", "ReopenIdx":
			t, known := roots[string(v[3])]
			read++
			plain = plain && known && t.plain && string(v[4]) == "0"
			strict = strict && t.strict
		case "VOpen":
			plain = false
		}
		return nil
	})
	plain = plain && read > 0
	return plain, plain && strict, err
}

// DescribeQuery implements engine.Reader. If the query and its tables have no collation, it sets
// the Class of a column, because a temporary table can then hold the values in the form that Carry
// gives them.
func (db *reader) DescribeQuery(ctx context.Context, s *engine.Session, query string) ([]engine.ResultColumn, error) {
	version, temporary, err := schemaVersion(ctx, s)
	if err != nil {
		return nil, err
	}
	if cols := db.facts.described(version, query); cols != nil && !temporary {
		return cols, nil
	}
	cols, err := s.Describe(ctx, query)
	if err != nil {
		return nil, err
	}
	plain, strict, err := db.typed(ctx, s, version, query)
	if err != nil {
		return nil, err
	}
	again, _, err := schemaVersion(ctx, s)
	if err != nil {
		return nil, err
	}
	plain = plain && !temporary && again == version
	for i, c := range cols {
		class, ok := strictClasses[c.Native]
		cols[i].Declared = true
		switch {
		case plain && strict && ok:
			cols[i].Class = class
		case plain && c.Native != "ANY": // a temporary table, which isn't STRICT, would convert values of ANY
			cols[i].Class = engine.ClassText
		}
	}
	if !temporary && again == version {
		db.facts.describe(version, query, cols)
	}
	return cols, nil
}
