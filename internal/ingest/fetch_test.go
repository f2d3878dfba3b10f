package ingest

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// FuzzFetchedRecord: the values of a fetched row are those of its record, of which there is one.
func FuzzFetchedRecord(f *testing.F) {
	grid, err := rolling.EveryDuration(24 * time.Hour)
	must(f, err)
	f.Add([]byte("a"), []byte("\\N"), []byte(""))
	f.Add([]byte("\x00\t\n\r\\"), []byte("\r"), []byte("\\"))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		want := [][]byte{[]byte("7"), a, nil, b, c}
		columns := make([]engine.Column, len(want))
		schema, names := &engine.Schema{}, []string{"n", "a", "none", "b", "c"}
		for i, name := range names {
			columns[i] = engine.Column{Type: engine.Binary, Null: true}
			schema.Columns = append(schema.Columns, engine.SchemaColumn{Name: name, Null: i > 0, Type: value.Type{Kind: value.Bytes}})
		}
		schema.Columns[0].Kind = value.Int
		rows := engine.NewBatch(columns)
		for i, v := range want {
			if names[i] == "none" {
				rows.Columns[i].AppendNull()
				continue
			}
			rows.Columns[i].AppendBytes(v)
		}
		rows.EndRow()
		fetched := &fetch{convert: make([]func(dst, text []byte) []byte, len(want))}
		record, _ := fetched.record(nil, rows, 0, nil)
		target, err := format.NewTarget(engine.Capabilities{}, &format.Format{Kind: format.TSV, NoHeader: true, Nulls: []string{`\N`}}, names,
			&format.Reading{Table: &engine.Table{Name: "t", By: "n", Grid: grid}, Schema: schema, Values: value.Notation{Bytes: value.Raw}})
		must(t, err)
		p := format.NewParser(target)
		p.Parse(&format.Batch{Data: record, Target: target})
		if p.Batch.Rows() != 1 || len(p.Rejected) > 0 {
			t.Fatalf("%q: %d rows, %v", record, p.Batch.Rows(), p.Rejected)
		}
		for i, v := range want[1:] {
			got := &p.Batch.Columns[i+1]
			if null := names[i+1] == "none"; got.Null(0) != null || !null && !bytes.Equal(got.Value(0), v) {
				t.Errorf("column %s of %q: %q, null %t", names[i+1], record, got.Value(0), got.Null(0))
			}
		}
	})
}

// TestConversion: values whose text differs between servers.
func TestConversion(t *testing.T) {
	t.Parallel()
	bits := func(kind value.Kind, n int) value.Type { return value.Type{Kind: kind, Logical: value.Bit, Bits: n} }
	float, double := value.Type{Kind: value.Float, Bits: 32}, value.Type{Kind: value.Float, Bits: 64}
	nan := value.Type{Kind: value.Float, Bits: 64, NaN: true}
	integer, boolean, text, decimal := value.Type{Kind: value.Int, Bits: 64}, value.Type{Logical: value.Bool}, value.Type{Kind: value.Text}, value.Type{Kind: value.Decimal}
	for _, c := range []struct {
		from, to   value.Type
		text, want string
	}{
		{bits(value.Bytes, 9), bits(value.Other, 9), "\x01\x41", "0b101000001"},
		{bits(value.Bytes, 9), integer, "\x01\x41", "321"},
		{bits(value.Bytes, 9), text, "\x00\x02", "000000010"},
		{bits(value.Bytes, 9), value.Type{Kind: value.Bytes}, "\x01\x41", "\x01\x41"},
		{bits(value.Other, 9), integer, "000000010", "2"},
		{bits(value.Other, 9), bits(value.Bytes, 9), "321", "321"},
		{bits(value.Other, 1), boolean, "1", "1"},
		{boolean, integer, "true", "1"},
		{boolean, integer, "f", "0"},
		{boolean, text, "true", "true"},
		{float, double, "0.1", "0.10000000149011612"},
		{float, decimal, "0.10000000149011612", "0.1"},
		{float, decimal, "1e20", "100000000000000000000"},
		{float, float, "0.1", "0.1"},
		{float, nan, "NaN", "NaN"},
		{double, double, "5e-324", "5e-324"},
	} {
		got := c.text
		if convert := conversion(c.from, c.to); convert != nil {
			got = string(convert(nil, []byte(c.text)))
		}
		if got != c.want {
			t.Errorf("%q of %+v to %+v: %q, want %q", c.text, c.from, c.to, got, c.want)
		}
	}
}

// TestRecallCounts: the chunks that are in the ledger after the lock was lost count as this load's,
// also those whose commit had no answer.
func TestRecallCounts(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	st := state.New(db)
	must(t, st.Ensure(t.Context()))
	o := &Options{Sending: lane.Sending{DB: db, Reading: format.Reading{Table: &engine.Table{Name: "readings"}}, Bad: filepath.Join(t.TempDir(), "bad")}}
	common, err := lane.New(&o.Sending, nil)
	must(t, err)
	l := &serverLoad{Load: common, opt: o, done: map[state.Cut]state.Counts{}, plan: plan{Columns: []string{"a"}, Ends: map[int64][]string{}}}
	for i := range int64(3) {
		l.plan.Open = append(l.plan.Open, &chunk{From: 10 * i, To: 10*i + 10, Last: []string{"x"}})
	}
	l.Source = &state.Source{Table: "readings", Path: "p", Kind: state.ServerSource, Key: newKey()}
	must(t, l.record(t.Context(), nil, nil))
	for i, c := range l.plan.Open[:2] {
		line := state.Batch{Table: "readings", ID: c.cut().ID(l.Source.Key), Counts: state.Counts{Sent: int64(10 - i), Inserted: int64(10 - i)}}
		loader, err := db.Loader(t.Context())
		must(t, err)
		must(t, loader.Begin(t.Context()))
		rows := line.Rows(false)[0]
		_, err = loader.Insert(t.Context(), rows.Table, rows.Batch, 0, 1)
		must(t, err)
		must(t, loader.Commit(t.Context()))
		must(t, loader.Close())
	}
	l.Recount(state.Counts{})
	must(t, l.recall(t.Context(), ""))
	if r := l.Result; r.Sent != 19 || l.Before().Sent != 0 || len(l.done) != 2 {
		t.Errorf("%+v, %d chunks are loaded", r, len(l.done))
	}
}
