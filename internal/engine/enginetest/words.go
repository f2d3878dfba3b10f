package enginetest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// An execer is a *sql.DB, *sql.Conn or *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// describe checks Describe for plain and rolling tables.
func (s keepers) describe(t *testing.T) {
	db := s.open(t)
	_, err := db.Describe(within(t), "nowhere")
	wantError(t, err, engine.ErrNoTable)
	k := created(t, db, "readings", "time", 3)
	wantKinds := []value.Kind{value.Int, value.Time, value.Int, value.Decimal, value.Float, value.Text, value.Bytes}
	k.template(t, "beside")
	for _, name := range []string{"readings", "beside"} {
		s := k.schema(t, name)
		want(t, "the name", s.Name, name)
		if !slices.Equal(s.Names(), []string{"id", "ts", "n", "price", "value", "note", "raw"}) {
			t.Fatalf("columns of %s: %v", name, s.Columns)
		}
		for i, c := range s.Columns {
			if c.Kind != wantKinds[i] || c.Null != (i > 1) || c.Generated || c.Auto || c.Native == "" {
				t.Errorf("column %d of %s: %+v", i, name, c)
			}
		}
		price, double, at := s.Column("price").Type, s.Column("value").Type, s.Column("ts").Type
		if price.Precision != 12 || price.Scale != 4 || double.Bits != 64 || at.Digits != 6 || at.Logical != value.Plain {
			t.Errorf("types of %s: %+v, %+v, %+v", name, price, double, at)
		}
		if !slices.Equal(s.PrimaryKey, []string{"id", "ts"}) {
			t.Errorf("primary key of %s: %q", name, s.PrimaryKey)
		}
		if len(s.Triggers) > 0 || len(s.Unique) > 0 {
			t.Errorf("%s has %+v", name, s)
		}
		want(t, name+" partitioned", s.Partitioned, name == "readings")
		if s.Partitioned {
			want(t, "By", s.By, "ts")
		}
	}
	if c := k.schema(t, "readings").Column("nothing"); c != nil {
		t.Errorf("a column that isn't there: %v", c)
	}
	if strings.EqualFold(db.Info().Storage, "rocksdb") {
		return // it supports neither generated columns nor foreign keys
	}
	// Keys, defaults, generated columns.
	types := types[db.Info().Engine]
	k.exec(t, db.SQL(), fmt.Sprintf("CREATE TABLE rich (a INT NOT NULL, b INT DEFAULT 7, c %s, d INT GENERATED ALWAYS AS (a + 1) STORED, UNIQUE (b, a), PRIMARY KEY (a))", types.float))
	k.exec(t, db.SQL(), "CREATE INDEX by_c ON rich (c, b)")
	rich := k.schema(t, "rich")
	if !slices.Equal(rich.Names(), []string{"a", "b", "c"}) || !rich.Column("d").Generated {
		t.Errorf("generated columns: %+v", rich.Columns)
	}
	if got := rich.Column("b").Default; !strings.Contains(got, "7") {
		t.Errorf("default %q", got)
	}
	if len(rich.Unique) != 1 || !slices.Equal(rich.Unique[0], []string{"b", "a"}) {
		t.Errorf("unique keys: %q", rich.Unique)
	}
	if len(rich.Indexes) != 2 || !slices.ContainsFunc(rich.Indexes, func(ix engine.Index) bool {
		return ix.Name == "by_c" && slices.Equal(ix.Columns, []string{"c", "b"})
	}) {
		t.Errorf("indexes: %+v", rich.Indexes)
	}
	if rich.Partitioned || rich.View {
		t.Errorf("a plain table: %+v", rich)
	}
	words, untyped := db.Words().(engine.UntypedWords)
	want(t, "UntypedWords as the capability says", untyped, db.Capabilities().Untyped)
	if !untyped {
		return
	}
	for value, restored := range map[string]bool{"5": true, "'text'": true, "NULL": true, "x'00ff'": false} {
		k.exec(t, db.SQL(), "DELETE FROM rich")
		k.exec(t, db.SQL(), "INSERT INTO rich (a, b) VALUES (1, "+value+")")
		if wrong := one[int64](t, db, "SELECT "+words.Unrestorable(*rich.Column("b"), "b")+" FROM rich"); (wrong == 0) != restored {
			t.Errorf("%s in an integer column: unrestorable is %d", value, wrong)
		}
	}
}

// create creates a table from its definition, creates periods, and inserts rows.
func (s keepers) create(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		k := created(t, db, "readings", kind, 3)
		k.wantParts(t, k.parts)
		k.insert(t, k.parts, 0, 20)
		want(t, "rows", k.whole(t).Rows, 60)
		for _, p := range k.parts {
			want(t, "rows of "+p.Name, k.part(t, p).Rows, 20)
		}
		wantError(t, k.db.Try(within(t), engine.CreateTable{Table: k.Table, Partitions: k.parts}), engine.ErrTableExists)
		next := periods(t, k.Grid, k.parts[2].To, 2)
		Must(t, Try(t, db, engine.CreatePartitions{Table: k.Table, Have: k.parts, New: next}))
		k.parts = append(k.parts, next...)
		k.wantParts(t, k.parts)
		k.insert(t, next, 0, 7)
		want(t, "rows", k.whole(t).Rows, 74)
		Must(t, Try(t, db, engine.DropPartition{Table: k.Table, Have: k.parts, Drop: k.parts[0]}))
		k.wantParts(t, k.without(k.parts, 0))
		want(t, "rows", k.whole(t).Rows, 54)
	})
}

// outside checks the error class of a row outside every period.
func (s keepers) outside(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		k := created(t, db, "readings", kind, 2)
		insert := func(pos int64) error {
			ts, id := k.Words().Literal(k.Table, pos), int64(1)
			if kind == "sequence" {
				ts, id = "'2026-11-20 18:00:00'", pos
			}
			return k.try(db.SQL(), "INSERT INTO readings (id, ts) VALUES (?, "+ts+")", id)
		}
		positions := []int64{k.parts[1].To, k.parts[1].To + day}
		if db.Capabilities().Gaps && kind != "sequence" {
			positions = append(positions, k.parts[0].From-second, 0)
		}
		for _, pos := range positions {
			wantError(t, insert(pos), engine.ErrNoPartition)
		}
		if err := insert(k.parts[1].To - second); kind != "sequence" && err != nil {
			t.Errorf("the last second: %v", err)
		}
		if err := insert(k.parts[0].From); err != nil {
			t.Errorf("the first position: %v", err)
		}
	})
}

// positions checks a list of positions: the server's own value of column By for a position, and the
// literal for the position, must both convert back to that position.
func (s keepers) positions(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		k := keptTable(t, db, "readings", kind, 1)
		w := k.Words()
		list := []int64{0, start, start + 59*second, 951782400e6, 1709164799e6, 4107542399e6, start + 3600*second - second}
		if kind != "sequence" {
			list = append(list, -second, -day-second, -86399*second, rolling.MinTime, rolling.MaxTime-second)
		} else {
			list = append(list, 1, 1<<62, rolling.MaxSequence-1)
		}
		if kind == "time" || kind == "microseconds" {
			list = append(list, start+1, start+999999, start+500000, start+59999999, 1, -1, -999999, -500000, start+120000, 4107542399e6+999999)
		}
		for _, pos := range list {
			back := one[int64](t, db, "SELECT "+w.Position(k.Table, w.FromPosition(k.Table, fmt.Sprint(pos))))
			literal := one[int64](t, db, "SELECT "+w.Position(k.Table, typed(k, w.Literal(k.Table, pos))))
			if back != pos || literal != pos {
				t.Errorf("position %d became a value and then %d; its literal %s is position %d", pos, back, w.Literal(k.Table, pos), literal)
			}
			// The literal equals the server's own value.
			q := fmt.Sprintf("SELECT CASE WHEN %s = %s THEN 1 ELSE 0 END", w.FromPosition(k.Table, fmt.Sprint(pos)), w.Literal(k.Table, pos))
			if one[int64](t, db, q) != 1 {
				t.Errorf("position %d: %s is not the value of %s", pos, w.Literal(k.Table, pos), q)
			}
		}
		// The same for a column.
		apply(t, db, engine.CreateTable{Table: k.Table, Partitions: k.parts})
		k.insert(t, k.parts, 0, 100)
		by := k.quote(k.By)
		q := fmt.Sprintf("SELECT COUNT(*) FROM readings WHERE %s <> %s OR %s < %d OR %s >= %d", by, w.FromPosition(k.Table, w.Position(k.Table, by)),
			w.Position(k.Table, by), k.parts[0].From, w.Position(k.Table, by), k.parts[0].To)
		want(t, "rows whose position isn't theirs", one[int64](t, db, q), 0)
		q = fmt.Sprintf("SELECT COUNT(*) FROM readings WHERE %s >= %s AND %s < %s", by, w.Literal(k.Table, k.at(k.parts[0], 10)), by, w.Literal(k.Table, k.at(k.parts[0], 30)))
		want(t, "rows between two literals", one[int64](t, db, q), 20)
	})
}

// typed casts a literal if the server can't infer its type.
func typed(k *kept, literal string) string {
	if k.db.Info().Engine == "postgres" && strings.HasPrefix(literal, "'") {
		return "CAST(" + literal + " AS TIMESTAMP)"
	}
	return literal
}

// asText reads a table's columns as text and inserts the texts into another table. Both tables must
// then have the same rows.
func (s keepers) asText(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		k := created(t, db, "readings", kind, 2)
		k.insert(t, k.parts, 0, 100)
		for i, f := range edgeFloat64 {
			k.exec(t, db.SQL(), "UPDATE "+k.Words().From(k.Table, k.parts[0])+" SET value = ? WHERE "+k.Words().Position(k.Table, k.By)+fmt.Sprintf(" = %d", k.at(k.parts[0], i)), f)
		}
		to := k.template(t, "copy of it")
		cols := k.schema(t, k.Name).Columns
		exprs, marks := make([]string, len(cols)), make([]string, len(cols))
		for i, c := range cols {
			exprs[i], marks[i] = k.Words().AsText(c), "?"
		}
		rows, err := db.SQL().QueryContext(within(t), "SELECT "+strings.Join(exprs, ", ")+" FROM readings")
		Must(t, err)
		defer rows.Close()
		var all [][]any
		for rows.Next() {
			row, dst := make([]any, len(cols)), make([]any, len(cols))
			for i := range row {
				dst[i] = &row[i]
			}
			Must(t, rows.Scan(dst...))
			for i := range row {
				if p, ok := row[i].([]byte); ok && cols[i].Kind != value.Bytes {
					row[i] = string(p)
				}
				switch row[i].(type) {
				case nil, string, []byte:
				default:
					t.Fatalf("column %s as text is a %T", cols[i].Name, row[i])
				}
			}
			all = append(all, row)
		}
		Must(t, rows.Err())
		tx, err := db.SQL().BeginTx(within(t), nil)
		Must(t, err)
		defer tx.Rollback()
		for _, row := range all {
			k.exec(t, tx, "INSERT INTO "+k.quote(to)+" VALUES ("+strings.Join(marks, ", ")+")", row...)
		}
		Must(t, tx.Commit())
		want(t, "the copy", k.of(t, to), k.whole(t))
	})
}

// rowHash checks that every change of the rows changes the checksum.
func (s keepers) rowHash(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 1)
	empty := k.whole(t)
	want(t, "the number of rows", empty.Rows, 0)
	one, other := k.template(t, "one"), k.template(t, "other")
	insert := func(table string, ids ...int) {
		for _, id := range ids {
			k.exec(t, db.SQL(), "INSERT INTO "+k.quote(table)+" VALUES (?, '2026-11-20 18:00:00', ?, ?, ?, ?, ?)", append([]any{id}, values(id)...)...)
		}
	}
	insert(one, 1, 2, 3, 4, 5)
	insert(other, 5, 3, 1, 2, 4)
	whole := k.of(t, one)
	want(t, "another order", k.of(t, other), whole)
	// Every change of a value changes the checksum, and its reversal restores it.
	seen := map[string]string{whole.Hash: "as it was", whole.Match: "as it was"}
	for _, c := range []struct{ set, undo string }{
		{"id = 77", "id = 1"},
		{"ts = '2026-11-20 18:00:01'", "ts = '2026-11-20 18:00:00'"},
		{"ts = '2026-11-20 18:00:00.000001'", "ts = '2026-11-20 18:00:00'"},
		{"n = 8", "n = 7"}, {"n = NULL", "n = 7"}, {"n = -7", "n = 7"},
		{"price = 1.0002", "price = NULL"}, {"price = 0", "price = NULL"},
		{"value = 0.33333333333333337", "value = 0.3333333333333333"}, {"value = NULL", "value = 0.3333333333333333"},
		{"note = ''", "note = 'a'"}, {"note = NULL", "note = 'a'"}, {"note = 'A'", "note = 'a'"}, {"note = 'a '", "note = 'a'"}, {"note = 'NULL'", "note = 'a'"},
	} {
		id := 1
		if strings.HasPrefix(c.set, "id") {
			id = 77
		}
		k.exec(t, db.SQL(), "UPDATE one SET "+c.set+" WHERE id = 1")
		got := k.of(t, one)
		for _, hash := range []string{got.Hash, got.Match} {
			if before := seen[hash]; before != "" && before != c.set { // Hash and Match may be equal
				t.Errorf("%s has the checksum of: %s", c.set, before)
			}
			seen[hash] = c.set
		}
		k.exec(t, db.SQL(), fmt.Sprintf("UPDATE one SET %s WHERE id = %d", c.undo, id))
		want(t, c.set+", and back: the checksum", k.of(t, one), whole)
	}
	// One more row changes the checksum.
	k.exec(t, db.SQL(), "DELETE FROM other WHERE id < 5")
	k.exec(t, db.SQL(), "DELETE FROM one WHERE id < 5")
	want(t, "one row each", k.of(t, one), k.of(t, other))
	insert(one, 6)
	if a, b := k.of(t, one), k.of(t, other); a.Hash == b.Hash || a.Match == b.Match {
		t.Error("one more row has the same checksum")
	}
	k.exec(t, db.SQL(), "DELETE FROM one")
	want(t, "no rows left", k.of(t, one), empty)
}
