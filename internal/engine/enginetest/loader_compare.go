package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// compared returns what Compare finds for all rows of a batch, by their number.
func (lo *loading) compared(t *engine.Table, b *engine.Batch) map[int]engine.Compared {
	lo.Helper()
	s := lo.schema(lo, t.Name)
	var cols []engine.SchemaColumn
	for _, c := range t.Columns {
		cols = append(cols, *s.Column(c.Name))
	}
	out := map[int]engine.Compared{}
	if err := lo.l.Compare(within(lo), t, cols, b, 0, b.Rows(), func(c engine.Compared) { out[c.Row] = c }); err != nil {
		lo.Fatalf("compare: %v", err)
	}
	return out
}

// compare checks that Compare finds rows by their keys, including the transaction's own rows, and
// reports the first column whose value differs.
func (s loaders) compare(t *testing.T) {
	lo := s.loading(t)
	table := *lo.rolls
	table.PrimaryKey = []string{"id", "ts"}
	lo.begin()
	var ids []int64
	for i := range int64(1200) { // more rows than one statement compares
		ids = append(ids, i)
	}
	lo.insert(&table, lo.readings(ids[:1100]...))
	lo.commit()
	lo.begin()
	lo.insert(&table, lo.batch(lo.parts[1], 0, 50))
	all := lo.compared(&table, lo.readings(ids...))
	for i, c := range lo.compared(&table, lo.batch(lo.parts[1], 0, 50)) {
		all[2000+i] = c
	}
	want(t, "rows found", len(all), 1150)
	keys := map[string]bool{}
	for i, c := range all {
		if keys[strings.Join(c.Key, " ")] = true; c.Column != -1 || len(c.Key) != 2 {
			t.Fatalf("row %d: %+v, want no difference", i, c)
		}
	}
	want(t, "keys", len(keys), 1150)

	// Each column with another value, or NULL where there was none, and the reverse.
	values, none := lo.batch(lo.parts[1], 0, 50), lo.batch(lo.parts[1], 0, 50)
	for c := 2; c < len(table.Columns); c++ {
		v := &none.Columns[c]
		*v = engine.Vector{Type: v.Type}
		for range 50 {
			v.AppendNull()
		}
		changed := 0
		for i, got := range lo.compared(&table, none) {
			switch was := values.Columns[c].Null(i); {
			case was && got.Column >= 0, !was && (got.Column != c || got.Stored == nil):
				t.Errorf("row %d without column %d: %+v", i, c, got)
			case !was:
				changed++
			}
		}
		if changed == 0 {
			t.Errorf("column %d has no value", c)
		}
		none.Columns[c] = values.Columns[c]
	}
	other := lo.batch(lo.parts[1], 1, 51) // row 0 has the values of row 1
	other.Columns[0], other.Columns[1] = values.Columns[0], values.Columns[1]
	if got := lo.compared(&table, other)[0]; got.Column < 2 {
		t.Errorf("with the values of another row: %+v", got)
	}
	lo.commit()
	lo.begin()
	if err := lo.l.Compare(within(t), lo.notes, lo.schema(t, "notes").Columns[:2], lo.entries("a"), 0, 1, nil); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("without a key: %v", err)
	}
	lo.reset()
}

// storedAs are pairs of texts of a type. If equal is true, both are stored as the same value.
var storedAs = map[string][]struct {
	kind, one, other string
	equal            bool
}{
	"mysql": {
		{"DECIMAL(10,2)", "1.50", "1.5", true}, {"DECIMAL(10,2)", "1.50", "1.51", false}, {"BIGINT UNSIGNED", "18446744073709551615", "18446744073709551614", false},
		{"CHAR(5)", "ab", "ab ", true}, {"VARCHAR(5)", "ab", "ab ", false}, {"VARCHAR(5)", "ab", "AB", false}, {"VARCHAR(5) CHARACTER SET latin1", "ä", "ä", true},
		{"DATETIME(3)", "2026-01-01 00:00:00.5", "2026-01-01 00:00:00.500", true}, {"DATE", "2026-01-01", "2026-01-01 00:00:00", true}, {"TIME", "1:00:00", "01:00:00", true},
		{"FLOAT", "0.1", "0.10", true}, {"FLOAT", "0.1", "0.1000001", false}, {"FLOAT", "16777216", "16777217", true}, {"DOUBLE", "0.1", "1e-1", true},
		{"ENUM('a','b')", "a", "A", true}, {"SET('a','b')", "a,b", "b,a", true}, {"SET('a','b')", "a,b", "b", false}, {"YEAR", "2026", "2025", false},
	},
	"postgres": {
		{"numeric(10,2)", "1.50", "1.5", true}, {"numeric", "1.50", "1.5", true}, {"numeric", "1.50", "1.51", false}, {"char(5)", "ab", "ab ", true}, {"varchar(5)", "ab", "ab ", false},
		{"timestamp(3)", "2026-01-01 00:00:00.5", "2026-01-01 00:00:00.500", true}, {"timestamptz", "2026-01-01 00:00:00Z", "2026-01-01 01:00:00+01", true},
		{"real", "0.1", "0.10", true}, {"real", "0.1", "0.1000001", false}, {"double precision", "NaN", "nan", true}, {"boolean", "t", "true", true}, {"bytea", `\x0a`, `\x0A`, true},
		{"jsonb", `{"a":1}`, `{ "a": 1 }`, true}, {"json", `{"a":1}`, `{ "a": 1 }`, false}, {"uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", true},
		{"integer[]", "{1,2}", "{1, 2}", true}, {"interval", "24:00", "24:00:00", true}, {"interval", "24:00", "1 day", false}, {"bit(3)", "101", "100", false},
	},
	"sqlite": {
		{"DECIMAL(10,2)", "1.50", "1.5", true}, {"INTEGER", "5", "05", true}, {"DOUBLE", "1", "1.0", true}, {"TEXT COLLATE NOCASE", "a", "A", false},
		{"TEXT", "5", "05", false}, {"DATETIME", "2026-01-01", "2026-01-02", false},
	},
}

// compareAsStored checks that Compare finds texts equal if they are stored as the same value.
func (s loaders) compareAsStored(t *testing.T) {
	lo := s.loading(t)
	name := lo.db.Info().Engine
	pairs := slices.Clone(storedAs[strings.Replace(name, "mariadb", "mysql", 1)])
	if name == "mysql" {
		pairs = append(pairs, storedAs["postgres"][12])
		pairs[len(pairs)-1].kind = "JSON"
	}
	if len(pairs) == 0 {
		t.Fatal("the suite doesn't know the types of the engine")
	}
	for i, p := range pairs {
		name := fmt.Sprint("pair", i)
		lo.plain(name, "k INT NOT NULL PRIMARY KEY, "+lo.quote("rowmill.n")+" "+p.kind)
		table, one := texts(name, []string{"k", "rowmill.n"}, []string{"1", p.one})
		_, other := texts(name, []string{"k", "rowmill.n"}, []string{"1", p.other})
		table.PrimaryKey = []string{"k"}
		lo.begin()
		lo.insert(table, one)
		for b, equal := range map[*engine.Batch]bool{one: true, other: p.equal} {
			if got := lo.compared(table, b)[0]; (got.Column < 0) != equal || len(got.Key) != 1 || !equal && (got.Column != 1 || got.Stored == nil) {
				t.Errorf("%s %q and %q: %+v, want equal: %t", p.kind, p.one, b.Columns[1].Value(0), got, equal)
			}
		}
		lo.commit()
	}
}

// compareKeys checks that a row is found by a key of another text that the server regards as equal.
func (s loaders) compareKeys(t *testing.T) {
	lo := s.loading(t)
	kinds := map[string][]string{
		"mariadb":  {"VARCHAR(5) COLLATE utf8mb4_general_ci", "VARCHAR(5) CHARACTER SET latin1"},
		"mysql":    {"VARCHAR(5) COLLATE utf8mb4_general_ci", "VARCHAR(5) CHARACTER SET latin1", "VARCHAR(5) COLLATE utf8mb4_0900_ai_ci"},
		"postgres": {"char(5)"}, "sqlite": {"TEXT COLLATE NOCASE"},
	}[lo.db.Info().Engine]
	other := "ABC"
	if lo.db.Info().Engine == "postgres" {
		other = "abc "
	}
	for i, kind := range kinds {
		name := fmt.Sprint("keys", i)
		lo.plain(name, "k "+kind+" NOT NULL, v INT, PRIMARY KEY (k)")
		table, b := texts(name, []string{"k", "v"}, []string{"abc", "1"}, []string{other, "2"}, []string{"xyz", "1"})
		table.PrimaryKey = []string{"k"}
		ignores := *table
		ignores.Ignore = true
		lo.begin()
		lo.insertSome(&ignores, b, 0, 2, engine.Ack{Rows: 1, Skipped: 1})
		got := lo.compared(table, b)
		if len(got) != 2 || got[0].Key[0] != "abc" || got[1].Key[0] != "abc" || got[0].Column != -1 || got[1].Column != 1 || got[1].Stored == nil || *got[1].Stored != "1" {
			t.Errorf("%s: %+v", kind, got)
		}
		lo.commit()
	}
}
