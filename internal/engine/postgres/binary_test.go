package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
)

// TestCopyBinary checks that COPY in binary format stores what a statement stores, and refuses
// what it refuses, and that values for which it might not are sent as text.
func TestCopyBinary(t *testing.T) {
	t.Parallel()
	db := open(t)
	l := enginetest.OpenLoader(t, db)
	at := func(text string) int64 {
		when, err := time.Parse("2006-01-02T15:04:05.999999", text)
		must(t, err)
		return when.UnixMicro()
	}
	times := []any{at("2026-03-29T01:00:00.123456"), at("2026-12-31T23:59:59.9996"), at("1969-12-31T23:59:59.999999"), at("0001-01-01T00:00:00"), at("9999-12-31T23:59:59.999999")}
	for _, c := range []struct {
		native string
		binary []any // values that are sent so
		text   []any // and those that are not, or are refused
	}{
		{"smallint", []any{int64(-32768), int64(32767), int64(0)}, []any{int64(32768), int64(-32769)}},
		{"integer", []any{int64(-1 << 31), int64(1<<31 - 1)}, []any{int64(1 << 31)}},
		{"bigint", []any{int64(-1 << 63), int64(1<<63 - 1)}, nil},
		{"whole", []any{int64(7)}, []any{int64(-7)}}, // a domain with a check
		{"real", []any{"0.1", "-0", "0.00", "16777217", "3.4028235e38", "1e-45", "+.5", "0.30000001192092896"}, []any{"NaN", "1e-60", "1e39", "-Infinity", "x"}},
		{"double precision", []any{"0.1", "-0.0", "9007199254740993", "1.7976931348623157e308", "5e-324", "1."}, []any{"NaN", "inf", "1e-400", "1e400", ""}},
		{"numeric", []any{"1.50", "-0.00", "007", "123456789012345678901234567890.000000000000000123", "+4"}, []any{"1e5", "NaN", "1 2"}},
		{"numeric(6,2)", []any{"1.005", "-9999.99", "9999.994"}, []any{"9999.995"}},
		{"timestamp", times, []any{at("0000-12-31T23:59:59")}},
		{"timestamp(3)", times[:4], nil},
		{"timestamptz", times, []any{at("0000-01-01T00:00:00")}},
		{"text", []any{"", "naïve \\ \t\n'\"", `\N`, "\U0001F600"}, []any{"a\x00b", "\xff"}},
		{"varchar(3)", []any{"abc", "ab    "}, []any{"abcd"}},
		{"char(3)", []any{"ab", "ab    "}, []any{"abcd"}},
		{"boolean", []any{"t", "FALSE", "yes", "0"}, []any{"tr", "2"}},
		{"bytea", []any{[]byte{0, 1, '\\', 255}, []byte{}}, nil},
		{"date", nil, []any{times[3]}}, // as no type of a vector is
		{"name", nil, []any{"a", strings.Repeat("n", 70)}},
		{"json", nil, []any{"{}"}},
		{"integer[]", nil, []any{"{1,2}"}},
	} {
		run(t, db, "DROP DOMAIN IF EXISTS whole CASCADE", "CREATE DOMAIN whole AS integer CHECK (VALUE >= 0)")
		for i, v := range append(append([]any{}, c.binary...), c.text...) {
			table := &engine.Table{Name: "v", Columns: []engine.Column{{Name: "k", Type: engine.Int64}, {Name: "c", Type: engine.Varchar}}}
			kind, text := &table.Columns[1].Type, []byte(nil)
			switch v := v.(type) {
			case int64:
				if *kind = engine.Int64; strings.HasPrefix(c.native, "time") || c.native == "date" {
					*kind = engine.Time
				}
			case []byte:
				*kind, text = engine.Binary, v
			case string:
				text = []byte(v)
			}
			b := engine.NewBatch(table.Columns)
			for k := range 3 {
				b.Columns[0].Ints = append(b.Columns[0].Ints, int64(k))
				switch n, is := v.(int64); {
				case k == 1:
					b.Columns[1].AppendNull()
				case is:
					b.Columns[1].Ints = append(b.Columns[1].Ints, n)
				default:
					b.Columns[1].AppendBytes(text)
				}
				b.EndRow()
			}
			stored := func(least int) (string, error) {
				db.SetCopyRows(least)
				run(t, db, "DROP TABLE IF EXISTS v", "CREATE TABLE v (k integer, c "+c.native+")")
				begin(t, l)
				_, err := l.Insert(within(t), table, b, 0, 3)
				if err != nil && !errors.Is(err, engine.ErrRefused) {
					t.Fatalf("%s %q: %v", c.native, v, err)
				}
				commit(t, l)
				return value(t, db, "SELECT COALESCE(string_agg(COALESCE(c::text, 'NULL'), '|' ORDER BY k), '') FROM v"), err
			}
			want, wantErr := stored(1000)
			got, err := stored(1)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s %q: %s, %v; by a statement %s, %v", c.native, v, got, err, want, wantErr)
			}
			if is, want := postgres.Binary(l, table) && err == nil, i < len(c.binary); is != want {
				t.Errorf("%s %q: in binary format: %v, want %v", c.native, v, is, want)
			}
		}
	}
}

// TestCopyBinaryOfChangedTable: a column that was a number becomes a time of the same size while
// a loader fills the table.
func TestCopyBinaryOfChangedTable(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.SetCopyRows(1)
	run(t, db, "CREATE TABLE v (c1 bigint)")
	table := &engine.Table{Name: "v", Columns: []engine.Column{{Name: "c1", Type: engine.Int64}}}
	b := engine.NewBatch(table.Columns)
	b.Columns[0].Ints = append(b.Columns[0].Ints, 1000)
	b.EndRow()
	l := enginetest.OpenLoader(t, db)
	for _, becomes := range []string{"double precision", "numeric"} {
		begin(t, l)
		insertAll(t, l, table, b)
		commit(t, l)
		run(t, db, "ALTER TABLE v ALTER c1 TYPE "+becomes)
	}
	begin(t, l)
	insertAll(t, l, table, b)
	insertAll(t, l, table, b)
	commit(t, l)
	wantValue(t, db, "SELECT string_agg(c1::text, ' ') FROM v", "1000 1000 1000 1000")
	if postgres.Binary(l, table) {
		t.Error("rows are sent in the binary format of other types")
	}
}

// TestCopyBinaryOfResizedTable: an integer column becomes wider, or narrower, while a loader fills
// the table. The server calls the bytes that it misses a violation of the protocol, as if the
// connection were lost.
func TestCopyBinaryOfResizedTable(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.SetCopyRows(1)
	for _, types := range [][2]string{{"integer", "bigint"}, {"bigint", "integer"}, {"integer", "numeric"}} {
		run(t, db, "DROP TABLE IF EXISTS v", "CREATE TABLE v (c1 "+types[0]+", c2 "+types[0]+")")
		table := &engine.Table{Name: "v", Columns: []engine.Column{{Name: "c1", Type: engine.Int64}, {Name: "c2", Type: engine.Int64}}}
		b := engine.NewBatch(table.Columns)
		for c := range 2 {
			b.Columns[c].Ints = append(b.Columns[c].Ints, 1000)
		}
		b.EndRow()
		l := enginetest.OpenLoader(t, db)
		for range 2 {
			begin(t, l)
			insertAll(t, l, table, b)
			insertAll(t, l, table, b)
			commit(t, l)
			run(t, db, "ALTER TABLE v ALTER c1 TYPE "+types[1]+", ALTER c2 TYPE "+types[1])
		}
		wantValue(t, db, "SELECT string_agg(c1::text || c2, ' ') FROM v", "10001000 10001000 10001000 10001000")
		if postgres.Binary(l, table) {
			t.Errorf("%s, now %s: rows are sent in the binary format of the old type", types[0], types[1])
		}
	}
}

// TestCopyAfterNoDescription: a table that can't be described at first, here because it isn't
// there, is filled by COPY later.
func TestCopyAfterNoDescription(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.SetCopyRows(1)
	table := &engine.Table{Name: "v", Columns: []engine.Column{{Name: "c1", Type: engine.Int64}}}
	b := engine.NewBatch(table.Columns)
	b.Columns[0].Ints = append(b.Columns[0].Ints, 1000)
	b.EndRow()
	l := enginetest.OpenLoader(t, db)
	begin(t, l)
	if _, err := l.Insert(within(t), table, b, 0, 1); !errors.Is(err, engine.ErrNoTable) {
		t.Fatal(err)
	}
	run(t, db, "CREATE TABLE v (c1 bigint)")
	begin(t, l)
	for range 20 {
		insertAll(t, l, table, b)
	}
	commit(t, l)
	wantValue(t, db, "SELECT count(*)::text FROM v", "20")
	if !postgres.Binary(l, table) {
		t.Error("rows are never sent by COPY")
	}
}
