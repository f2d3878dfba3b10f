package enginetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// loadRoundTrip checks that a loader stores the same rows as plain statements, for
// each kind of column By.
func (s loaders) loadRoundTrip(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Keeper, kind string) {
		a, b := created(t, db, "a", kind, 2), created(t, db, "b", kind, 2)
		a.insert(t, a.parts, 0, 300)
		lo := &loading{TB: t, kept: b, l: OpenLoader(t, db)}
		table := &engine.Table{Name: "b", Columns: keptColumns(), Grid: b.Grid, By: b.By, Epoch: b.Epoch}
		if b.Epoch != 0 {
			table.Columns[1].Type = engine.Int64
		}
		ignores := *table
		ignores.Ignore = true
		lo.begin()
		lo.insert(table, lo.batch(lo.parts[0], 0, 300))
		lo.insert(&ignores, lo.batch(lo.parts[1], 0, 300))
		lo.commit()
		for i := range a.parts {
			want(t, "a period", b.part(t, b.parts[i]), a.part(t, a.parts[i]))
		}
		want(t, "the table", b.whole(t), a.whole(t))
	})
}

// loadText checks that text is converted to the type of its column.
func (s loaders) loadText(t *testing.T) {
	lo := s.loading(t)
	e := lo.db.Info().Engine
	lo.plain("kinds", fmt.Sprintf("id INT NOT NULL PRIMARY KEY, small SMALLINT, large BIGINT, price DECIMAL(12,4), real_ %s, note VARCHAR(50), at %s, d DATE, doc JSON",
		types[e].float, types[e].time))
	table, b := texts("kinds", []string{"id", "small", "large", "price", "real_", "note", "at", "d", "doc"},
		[]string{"1", "-32768", "9223372036854775807", "12345678.1234", "0.25", "it's", "2026-11-20 18:00:00.250000", "2026-11-20", `{"a": [1, "é"]}`},
		[]string{"2", "7", "-9223372036854775808", "-0.5", "-1e100", "2", "1999-12-31 23:59:59", "1999-12-31", `"x"`})
	table.Columns[3].Type, b.Columns[3].Type = engine.Decimal, engine.Decimal
	table.Columns[5].Type, b.Columns[5].Type = engine.Char, engine.Char
	lo.begin()
	lo.insert(table, b)
	lo.commit()
	axis := &engine.Table{Name: "kinds", Grid: lo.Grid, By: "at"}
	for id, where := range map[int]string{
		1: fmt.Sprintf("small = -32768 AND large = 9223372036854775807 AND price = 12345678.1234 AND real_ = 0.25 AND note = 'it''s' AND d = '2026-11-20' AND doc IS NOT NULL AND %s = %d",
			lo.Words().Position(axis, "at"), start+250_000),
		2: fmt.Sprintf("small = 7 AND large < -9223372036854775807 AND price = -0.5 AND real_ = -1e100 AND note = '2' AND d = '1999-12-31' AND doc IS NOT NULL AND %s = %d",
			lo.Words().Position(axis, "at"), int64(946684799e6)),
	} {
		if n := lo.count(fmt.Sprintf("kinds WHERE id = %d AND %s", id, where)); n != 1 {
			t.Errorf("row %d isn't as it was sent", id)
		}
	}
	if !lo.strictTypes() {
		return
	}
	table, b = texts("kinds", []string{"id", "doc"}, []string{"3", `{`})
	lo.begin()
	lo.refuse(table, b)
	lo.commit()
}

// oddText checks that unusual text, long text and NULL are read back unchanged.
func (s loaders) oddText(t *testing.T) {
	lo := s.loading(t)
	lo.plain("texts", "id INT NOT NULL PRIMARY KEY, x "+lo.Words().Text())
	table := &engine.Table{Name: "texts", Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "x", Type: engine.Varchar, Size: 1 << 20, Null: true}}}
	b := engine.NewBatch(table.Columns)
	all := append([]string{strings.Repeat("x", 100_000), strings.Repeat(`\'"😀`, 1000)}, edgeText...)
	for i, x := range all {
		if lo.db.Capabilities().NoZeroBytes {
			all[i] = strings.ReplaceAll(x, "\x00", "0")
		}
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
		b.Columns[1].AppendBytes([]byte(all[i]))
		b.EndRow()
	}
	b.Columns[0].Ints = append(b.Columns[0].Ints, int64(len(all)))
	b.Columns[1].AppendNull()
	b.EndRow()
	lo.begin()
	lo.insert(table, b)
	lo.commit()
	for i, x := range all {
		if got := lo.value(fmt.Sprintf("SELECT x FROM texts WHERE id = %d", i)); got == nil || string(got) != x {
			t.Errorf("%.60q came back as %.60q", x, got)
		}
	}
	if got := lo.value(fmt.Sprintf("SELECT x FROM texts WHERE id = %d", len(all))); got != nil {
		t.Errorf("NULL came back as %q", got)
	}
}

// value returns the single value that a query returns.
func (lo *loading) value(q string) (p []byte) {
	lo.Helper()
	if err := lo.db.SQL().QueryRowContext(within(lo), q).Scan(&p); err != nil {
		lo.Fatalf("%s: %v", q, lo.db.Classify(err))
	}
	return p
}

// loadZeroBytes checks that rows with a zero byte are refused if the engine's text
// can't contain one.
func (s loaders) loadZeroBytes(t *testing.T) {
	lo := s.loading(t)
	if !lo.db.Capabilities().NoZeroBytes {
		t.Skip("text may hold zero bytes, which OddText shows")
	}
	lo.begin()
	lo.insert(lo.notes, lo.entries("a"))
	lo.refuse(lo.notes, lo.entries("b", "c\x00"))
	lo.commit()
	lo.rows(0, 1)
	lo.begin()
	lo.refuse(lo.notes, lo.entries("b", "c\x00"))
	lo.insert(lo.notes, lo.entries("b"))
	lo.commit()
	lo.rows(0, 2)
}

// loadBinary checks that binary values are stored unchanged: every byte, no byte, quotes.
func (s loaders) loadBinary(t *testing.T) {
	lo := s.loading(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	reverse := make([]byte, 256)
	for i := range reverse {
		reverse[i] = byte(255 - i)
	}
	all := [][]byte{every, {}, reverse, {0}, {0xff, '\'', 0xc3, '\'', '\\', 0xe0, '\\'}, []byte(`\x41`), bytes.Repeat(every, 1000)}
	b := engine.NewBatch(lo.rolls.Columns)
	for i, p := range all {
		one := lo.readings(int64(i))
		one.Columns[6] = engine.Vector{Type: engine.Binary}
		one.Columns[6].AppendBytes(p)
		copyRows(b, one)
	}
	lo.begin()
	lo.insert(lo.rolls, b)
	lo.commit()
	for i, p := range all {
		got := lo.value(fmt.Sprintf("SELECT raw FROM readings WHERE id = %d", i))
		if got == nil || !bytes.Equal(got, p) {
			t.Errorf("%.40x of %d bytes came back as %.40x of %d", p, len(p), got, len(got))
		}
	}
	if n := lo.count("readings WHERE raw IS NULL"); n != 0 {
		t.Errorf("%d are NULL", n)
	}
}

// fractions checks that times are stored with microseconds, also before 1970.
func (s loaders) fractions(t *testing.T) {
	lo := s.loading(t)
	table := &engine.Table{Name: "notes", Columns: []engine.Column{{Name: "k", Type: engine.Varchar, Size: 20}, {Name: "n", Type: engine.Int32}, {Name: "at", Type: engine.Time}}}
	b := engine.NewBatch(table.Columns)
	all := []int64{start, start + 1, start + 999_999, start + 500_000, start + 120_000, 1, -1, -999_999, 253402300799e6 - 1}
	for i, at := range all {
		b.Columns[0].AppendBytes(fmt.Appendf(nil, "%d", i))
		b.Columns[1].Ints = append(b.Columns[1].Ints, int64(i))
		b.Columns[2].Ints = append(b.Columns[2].Ints, at)
		b.EndRow()
	}
	r := lo.readings(1, 2)
	r.Columns[1].Ints[0] = lo.parts[0].To - 1 // the last microsecond of a period
	r.Columns[1].Ints[1] = lo.parts[1].From + 1
	lo.begin()
	lo.insert(table, b)
	lo.insert(lo.rolls, r)
	lo.commit()
	position := lo.Words().Position(&engine.Table{Name: "notes", Grid: lo.Grid, By: "at"}, "at")
	for i, at := range all {
		if got := string(lo.value(fmt.Sprintf("SELECT %s FROM notes WHERE n = %d", position, i))); got != fmt.Sprint(at) {
			t.Errorf("%d came back as %s", at, got)
		}
	}
	for i, p := range lo.parts {
		want(t, "rows of a period", lo.part(t, p).Rows, 1)
		if got := string(lo.value("SELECT " + lo.Words().Position(lo.Table, "ts") + " FROM " + lo.Words().From(lo.Table, p))); got != fmt.Sprint(r.Columns[1].Ints[i]) {
			t.Errorf("%d came back as %s", r.Columns[1].Ints[i], got)
		}
	}
}

// subranges inserts parts of a batch.
func (s loaders) subranges(t *testing.T) {
	lo := s.loading(t)
	b := lo.readings(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	lo.begin()
	lo.insertSome(lo.rolls, b, 3, 5, engine.Ack{Rows: 2})
	lo.insertSome(lo.rolls, b, 0, 0, engine.Ack{})
	lo.insertSome(lo.rolls, b, 9, 10, engine.Ack{Rows: 1})
	lo.insertSome(lo.rolls, b, 10, 10, engine.Ack{})
	ignores := *lo.rolls
	ignores.Ignore = true
	lo.insertSome(&ignores, b, 4, 7, engine.Ack{Rows: 2, Skipped: 1})
	n := lo.entries("a", "b", "c")
	lo.insertSome(lo.notes, n, 1, 2, engine.Ack{Rows: 1})
	lo.commit()
	lo.rows(5, 1)
	if got := lo.count("readings WHERE id IN (3, 4, 5, 6, 9)"); got != 5 {
		t.Errorf("%d of the 5 rows are there", got)
	}
	if got := lo.count("notes WHERE k = 'b' AND n = 1"); got != 1 {
		t.Error("the row of the middle isn't there")
	}
}

// manyRows checks a batch with more rows than one statement can have. If its last row is refused,
// none of its rows is kept.
func (s loaders) manyRows(t *testing.T) { s.several(t, 10_000, 0) }

// longRows inserts more bytes than one packet can have.
func (s loaders) longRows(t *testing.T) {
	s.several(t, 17, 1<<20)
}

// several inserts rows that each have size bytes of binary data.
func (s loaders) several(t *testing.T, rows, size int) {
	lo := s.loading(t)
	ids := make([]int64, rows)
	for i := range ids {
		ids[i] = int64(i)
	}
	b := lo.readings(ids...)
	if size > 0 {
		b.Columns[6] = engine.Vector{Type: engine.Binary}
		for i := range rows {
			b.Columns[6].AppendBytes(bytes.Repeat([]byte{byte(i)}, size))
		}
	}
	ignores := *lo.rolls
	ignores.Ignore = true
	for i, table := range []*engine.Table{lo.rolls, &ignores} {
		was := b.Columns[1].Ints[rows-1]
		b.Columns[1].Ints[rows-1] = lo.parts[1].To + day
		lo.begin()
		if i == 0 && size == 0 {
			lo.refuse(table, b, engine.ErrNoPartition)
		}
		lo.insert(lo.notes, lo.entries(fmt.Sprint(i)))
		lo.refuse(table, b, engine.ErrNoPartition)
		lo.commit()
		lo.rows(0, i+1)
		b.Columns[1].Ints[rows-1] = was
	}
	lo.begin()
	lo.insert(lo.rolls, b)
	lo.commit()
	lo.rows(rows, 2)
	if size > 0 {
		if n := lo.count(fmt.Sprintf("readings WHERE LENGTH(raw) = %d", size)); n != rows {
			t.Errorf("%d rows of %d are whole", n, rows)
		}
		return
	}
	lo.begin()
	lo.insertSome(&ignores, b, 0, rows, engine.Ack{Skipped: int64(rows)})
	lo.commit()
}
