package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

func (db *reader) LockedParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error) {
	return db.TableParts(ctx, s, database, table)
}

// TableParts implements engine.Reader. The partitions of a rolling table, which is a view, are the
// tables of its periods. No other table has partitions.
func (db *reader) TableParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error) {
	t := &engine.TableParts{Database: "main", Name: table, Versioned: true}
	fail := func(err error) (*engine.TableParts, error) {
		return nil, fmt.Errorf("read table %s from the catalog: %w", table, err)
	}
	if database != "" && !strings.EqualFold(database, "main") {
		return fail(engine.Classed(engine.ErrNoTable, errors.New("it isn't in the database main")))
	}
	kind, body := "", ""
	err := s.Text(ctx, "SELECT type, name, sql FROM sqlite_schema WHERE lower(name) = lower("+quoteText(table)+") AND type IN ('table', 'view')", nil,
		func(v [][]byte) error {
			kind, t.Name, body = string(v[0]), string(v[1]), string(v[2])
			return nil
		})
	if err != nil {
		return fail(err)
	}
	if kind == "" {
		return fail(engine.Classed(engine.ErrNoTable, errors.New("no such table")))
	}
	if err := s.Text(ctx, "SELECT 1 FROM sqlite_temp_schema WHERE lower(name) = lower("+quoteText(table)+") AND type IN ('table', 'view')", nil,
		func([][]byte) error { t.Refusal = "a temporary table or view of the session has its name"; return nil }); err != nil {
		return fail(err)
	}
	if why, err := journalRefusal(ctx, s); err != nil {
		return fail(err)
	} else if why != "" {
		t.Refusal = why
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", body)
	var stores, names []string
	types := map[string]string{}
	if kind == "view" {
		if stores, err = storesOf(ctx, s, t); err != nil {
			return fail(err)
		}
		if len(stores) == 0 {
			return fail(engine.Classed(engine.ErrNoTable, errors.New("it is a view")))
		}
	}
	texts, err := storeTexts(ctx, s, stores)
	if err != nil {
		return fail(err)
	}
	for i, of := range append([]string{t.Name}, stores...) {
		if i > 0 {
			fmt.Fprintf(sum, "%q %q\n", of, texts[of])
			if i > 1 && texts[of] != "" && columnsText(texts[of]) == columnsText(texts[stores[0]]) {
				continue
			}
		}
		keys := map[string]string{}
		cols := []engine.SchemaColumn{}
		err := s.Text(ctx, `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(`+quoteText(of)+")", nil, func(v [][]byte) error {
			fmt.Fprintf(sum, "%q\n", v)
			c := engine.SchemaColumn{Name: string(v[0]), Native: string(v[1]), Null: string(v[2]) == "0", Type: typeOf(string(v[1]))}
			c.Generated = string(v[4]) == "2" || string(v[4]) == "3"
			if string(v[3]) != "0" {
				keys[string(v[3])] = c.Name
			}
			if string(v[4]) != "1" {
				cols = append(cols, c)
			}
			return nil
		})
		if err != nil {
			return fail(err)
		}
		t.PrimaryKey = nil // the key of the last store: all have the same, and a view has none
		for i := 1; keys[fmt.Sprint(i)] != ""; i++ {
			t.PrimaryKey = append(t.PrimaryKey, keys[fmt.Sprint(i)])
		}
		if of == t.Name {
			t.Columns = cols
			for _, c := range cols {
				names = append(names, c.Name)
			}
			continue
		}
		for _, c := range cols { // their types decide how the view's values are compared
			if have, ok := types[c.Name]; ok && have != c.Native {
				t.Refusal = "the tables of its periods have different columns"
			}
			types[c.Name] = c.Native
		}
	}
	if kind == "view" {
		terms := make([]string, len(stores))
		for i, store := range stores {
			terms[i] = fmt.Sprintf("SELECT %s FROM %s", dialect{}.list(names), dialect{}.Quote(store))
		}
		if head, ok := strings.CutSuffix(strings.TrimSpace(body), "\n"+strings.Join(terms, "\nUNION ALL ")); !ok || !viewHead.MatchString(head) {
			t.Refusal = "its view isn't the one that rowmill makes of its periods"
		}
		t.Period = true
	}
	t.Created = hex.EncodeToString(sum.Sum(nil)[:16])
	return t, nil
}

// storeTexts returns the statements that created the named tables, by the tables' names.
func storeTexts(ctx context.Context, s *engine.Session, names []string) (map[string]string, error) {
	texts := map[string]string{}
	if len(names) == 0 {
		return texts, nil
	}
	return texts, s.Text(ctx, "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name IN ("+engine.QuoteList(names, quoteText)+")", nil,
		func(v [][]byte) error {
			texts[string(v[0])] = string(v[1])
			return nil
		})
}

// columnsText returns what follows a table's name in the statement that created it. Tables with the
// same text have the same columns.
func columnsText(create string) string {
	_, columns, _ := strings.Cut(create, "(")
	return columns
}

// viewHead matches the text of a rolling table's view before its first SELECT.
var viewHead = regexp.MustCompile(`^(?i:CREATE VIEW) ("(?:[^"]|"")+"|\w+) (?i:AS)( /\*[^*]*\*/)?$`)

// journalRefusal returns why several sessions can't read a file's tables; "" if they can. Without a
// write-ahead log, a writer that commits waits for all readers, and new readers wait for that
// writer: one session of a query could wait for another session of the query.
func journalRefusal(ctx context.Context, s *engine.Session) (why string, err error) {
	err = s.Text(ctx, "PRAGMA journal_mode", nil, func(v [][]byte) error {
		if mode := string(v[0]); mode != "wal" {
			why = "the file has no write-ahead log (journal_mode is " + mode + "), and a writer would wait for all sessions of the query"
		}
		return nil
	})
	return why, err
}

// storesOf fills in t.Parts, which are the periods, and returns the periods' tables.
func storesOf(ctx context.Context, s *engine.Session, t *engine.TableParts) (stores []string, err error) {
	err = s.Text(ctx, "SELECT name FROM rowmill_periods WHERE table_name = "+quoteText(t.Name)+" ORDER BY lower", nil, func(v [][]byte) error {
		stores = append(stores, t.Name+"_"+string(v[0]))
		t.Parts = append(t.Parts, engine.TablePart{Name: string(v[0]), Period: string(v[0]), Rows: -1, Bytes: -1})
		return nil
	})
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil
	}
	return stores, err
}

func (db *reader) PartFrom(t *engine.TableParts, parts []string) string {
	tables := make([]string, len(parts))
	for i, p := range parts {
		tables[i] = dialect{}.Quote(t.Name + "_" + p)
	}
	return t.Union(dialect{}, tables)
}
