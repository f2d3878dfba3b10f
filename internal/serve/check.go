package serve

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// effects returns why EXPLAIN of a query may have side effects; "" if it has none. EXPLAIN
// evaluates constant expressions, and a function in them that rowmill doesn't know may do anything.
// A query with such a function is passed on without EXPLAIN.
func effects(q *parse.Query, reader engine.Reader) (why string) {
	q.Walk(nil, func(e *parse.Expr) bool {
		if e.Kind == parse.Call && (e.Qualified || reader.Function(e.Name, len(e.Args)) == engine.UnknownFunction) {
			why = "function " + e.Name + " isn't known"
		}
		return why == ""
	})
	return why
}

// baseTables refuses views and temporary tables. Pieces run in another session, with another
// account: a view may show them other rows, and they don't see the client's temporary tables.
// params says that the statement has parameters.
func (s *server) baseTables(q *parse.Query, params bool) error {
	tables, ctes := tablesOf(q)
	checked := map[string]bool{}
	for _, t := range tables {
		name := quote(t.Table)
		if t.Database != "" {
			name = quote(t.Database) + "." + name
		}
		if checked[name] {
			continue
		}
		checked[name] = true
		r, err := s.ask("SHOW CREATE TABLE " + name)
		if err != nil {
			// The statement has a CTE of this name. There need not be a table of the name, too: the name
			// means a table only in the CTE's own definition, and outside of the query with the CTE.
			refused, ok := errors.AsType[*mysqlwire.ServerError](err)
			if ok && t.Database == "" && ctes[strings.ToLower(t.Table)] && (refused.Code == codeNoTable || refused.Code == codeNoDatabase) {
				continue
			}
			return s.refusal(err)
		}
		if len(r.rows) != 1 || len(r.rows[0]) != 2 || !bytes.HasPrefix(r.rows[0][1], []byte("CREATE TABLE ")) {
			return &notSplit{whyTable, name + " is a view or a temporary table"}
		}
		if params && !s.mariadb && shortTimes.Match(r.rows[0][1]) {
			return &notSplit{whyTable, name + " has a column of TIME or YEAR, to which the server converts a parameter by other rules than a literal"}
		}
	}
	return nil
}

// explain asks the server for the plan of a query, with the client's account. It returns the order
// of the tables and the use of temporary tables: the parts of the plan on which the definitions of
// the result's columns depend.
func (s *server) explain(text string) (string, error) {
	words := "EXPLAIN "
	if !s.mariadb { // MySQL's explain_format may be another
		words = "EXPLAIN FORMAT=TRADITIONAL "
	}
	r, err := s.ask(words + text)
	if err != nil {
		return "", s.refusal(err)
	}
	column := func(name string) int {
		return slices.IndexFunc(r.definitions, func(d []byte) bool { c, _ := mysqlwire.ReadColumn(d); return c.Name == name })
	}
	kind, table, access, extra := column("select_type"), column("table"), column("type"), column("Extra")
	if kind < 0 || table < 0 || access < 0 || extra < 0 {
		return "", &notSplit{whyPlan, "EXPLAIN has another form"}
	}
	var out strings.Builder
	for _, row := range r.rows {
		fmt.Fprintf(&out, "%s %s", row[kind], row[table])
		if a := string(row[access]); a == "const" || a == "system" {
			out.WriteString(" " + a)
		}
		for _, word := range []string{"temporary", "filesort", "optimized away", "mpossible", "for group-by", "no matching", "Distinct", "Materialize", "join buffer"} {
			if bytes.Contains(row[extra], []byte(word)) {
				out.WriteString(" " + word)
			}
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// tablesOf returns the tables in the FROM clauses of a query, and the names of its CTEs in lower
// case. A table may be a CTE.
func tablesOf(q *parse.Query) (tables []*parse.From, ctes map[string]bool) {
	ctes = map[string]bool{}
	q.Walk(func(q *parse.Query) bool {
		for _, w := range q.With {
			ctes[strings.ToLower(w.Name)] = true
		}
		if q.Body != nil {
			for _, f := range q.Body.From {
				for _, t := range f.Tables() {
					if t.Query == nil && t.Table != "" {
						tables = append(tables, t)
					}
				}
			}
		}
		return true
	}, nil)
	return tables, ctes
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// shortTimes matches a column of type TIME or YEAR in the text of SHOW CREATE TABLE. The settings
// ANSI_QUOTES and sql_quote_show_create decide how the text quotes names, if at all.
var shortTimes = regexp.MustCompile("(?mi)^  (?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|[^`\"\\s]+) (?:time|year)\\b")
