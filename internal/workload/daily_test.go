package workload

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/draw"
)

// distinctRows returns the number of different rows among a preset's first rows.
// rows must end with a second of the clock or in the first 990 rows of a second.
func distinctRows(preset string, rows int64) int64 {
	if preset != "daily" {
		return rows
	}
	return rows - rows/1000*10
}

// TestDailyTwins checks that a row whose key was there before is equal to its twin.
func TestDailyTwins(t *testing.T) {
	const rows = 20000
	p := daily()
	s := draw.NewStream(1, 0)
	b := fill(p, s, 0, rows)
	keys := map[[3]int64]int{}
	repeats := 0
	for i := range rows {
		c := b.Columns
		key := [3]int64{c[0].Ints[i], c[1].Ints[i], c[2].Ints[i]}
		other, repeat, ok := p.twin(s, int64(i))
		before, twice := keys[key]
		switch {
		case twice != (ok && repeat):
			t.Fatalf("row %d: its key was there: %t; its twin: %d, repeat %t, %t", i, twice, other, repeat, ok)
		case twice:
			repeats++
			if int64(before) != other || rowText(b, before) != rowText(b, i) {
				t.Fatalf("row %d is another than row %d, or that is not its twin, %d", i, before, other)
			}
			if back, again, ok := p.twin(s, other); back != int64(i) || again || !ok {
				t.Fatalf("row %d has the twin %d, %t, %t; want %d", other, back, again, ok, i)
			}
		case ok && (other/1000 != int64(i)/1000 || other%1000 < 990):
			t.Fatalf("row %d has the twin %d", i, other)
		}
		keys[key] = i
	}
	if repeats != rows/100 {
		t.Errorf("%d rows come twice, want one of a hundred", repeats)
	}
}

// TestDailyRowSize checks that a row takes the published 104 bytes: the sum of the
// storage of each column, by "Data Type Storage Requirements" in MySQL's manual.
func TestDailyRowSize(t *testing.T) {
	storage, bytes := map[engine.Type]int{engine.Int32: 4, engine.Int64: 8, engine.Time: 5, engine.Varchar: 1}, 0
	for _, c := range daily().table.Columns {
		bytes += storage[c.Type] + c.Size
	}
	if bytes != 104 {
		t.Errorf("a row takes %d bytes", bytes)
	}
}

// TestVerifyTwins checks that the proof holds for all outcomes of the batches that contain two
// equal rows: acknowledged and unsent. It refuses batches in doubt.
func TestVerifyTwins(t *testing.T) {
	t.Parallel()
	for _, layout := range Layouts() {
		t.Run(layout, func(t *testing.T) {
			db := testdb.Open(t, "sqlite")
			const rows, batch = 1000, 50 // each second has ten pairs of equal rows
			w := newTestInsert(t, db, InsertOptions{Preset: "daily", Layout: layout, Rows: rows, Batch: batch, PeriodRows: 500})
			table := w.tables[0]
			rapid.Check(t, func(rt *rapid.T) {
				if _, err := w.Setup(t.Context(), true); err != nil {
					rt.Fatal(err)
				}
				table.next.Store(rows)
				if layout == Rolling {
					ok(rt, table.roller.create(t.Context(), noEvent))
				}
				writer, err := db.Writer(t.Context(), &table.Table, w.opt.Method)
				ok(rt, err)
				defer writer.Close()
				there := map[string]bool{}
				batches := slices.Collect(func(yield func(span) bool) {
					for at := int64(0); at < rows && yield(span{at, at + batch}); at += batch {
					}
				})
				for _, s := range rapid.Permutation(batches).Draw(rt, "order") {
					// Most are acknowledged.
					fate := rapid.IntRange(0, 99).Draw(rt, "fate")
					unsent := fate > 1 && fate < 12
					switch {
					case fate < 2:
						table.doubt = append(table.doubt, s)
					case unsent:
						table.unsent = append(table.unsent, s)
					}
					if fate == 1 || unsent { // not committed
						continue
					}
					b := fill(w.preset, table.stream, s.from, batch)
					if _, err := writer.Write(t.Context(), b); err != nil {
						rt.Fatal(err)
					}
					for i := range b.Rows() {
						there[rowText(b, i)] = true
					}
				}
				p, err := w.Verify(t.Context(), unseen)
				if len(table.doubt) > 0 {
					if !errors.Is(err, ErrUnverifiable) {
						rt.Fatalf("%d batches are in doubt: %+v, %v", len(table.doubt), p, err)
					}
					return
				}
				if err != nil || !p.Checksum || p.Expected != int64(len(there)) || p.Found != p.Expected {
					rt.Fatalf("%d rows are there: %+v, %v", len(there), p, err)
				}
				// An acknowledged row that must exist is missing.
				lose(rt, t, w)
			})
		})
	}
}

// lose deletes one acknowledged row and checks that the proof detects it.
func lose(rt *rapid.T, t *testing.T, w *Insert) {
	table := w.tables[0]
	acked, _ := table.sent()
	if len(acked) == 0 {
		return
	}
	s := acked[rapid.IntRange(0, len(acked)-1).Draw(rt, "span")]
	seq := rapid.Int64Range(s.from, s.to-1).Draw(rt, "row")
	if n := deleteRow(t, w, seq); n != 1 {
		rt.Fatalf("%d rows deleted", n)
	}
	if p, err := w.Verify(t.Context(), unseen); err != nil || p.Checksum {
		rt.Fatalf("row %d is missing: %+v, %v", seq, p, err)
	}
}

// TestSkipped checks that skipped rows are acknowledged, counted and not expected twice.
func TestSkipped(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		for _, batch := range []int{1, 70, 3000} {
			t.Run(fmt.Sprintf("%s/%d", kind, batch), func(t *testing.T) {
				w := prepared(t, testdb.Open(t, kind), InsertOptions{
					Preset: "daily", Layout: Rolling, Rows: 3000, Batch: batch, Writers: 2, PeriodRows: 1000})
				out := run(t, w, config(w))
				mustHold(t, w, 2970)
				if out.Rows != 3000 || w.SkippedRows() != 30 || len(w.Warnings()) > 0 {
					t.Errorf("%d rows acknowledged, %d skipped, warnings %q", out.Rows, w.SkippedRows(), w.Warnings())
				}
			})
		}
	}
	if _, err := NewInsert(testdb.Open(t, "postgres"), InsertOptions{Preset: "daily", Layout: Plain, Method: engine.Load}); err == nil {
		t.Error("COPY is taken for a table that skips rows")
	}
}
