package workload

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/draw"
)

// TestSequence: each row identifies its sequence number.
func TestSequence(t *testing.T) {
	for _, p := range presets() {
		if p.sequence == nil {
			continue
		}
		s := draw.NewStream(7, 3)
		b := engine.NewBatch(p.table.Columns)
		for range 200 {
			first := rand.Int64N(1e9)
			b.Reset()
			p.fill(b, s, first, 5)
			for i := range 5 {
				if got := p.sequence(b, i, s); got != first+int64(i) {
					t.Fatalf("%s: row %d says that it is row %d", p.name, first+int64(i), got)
				}
			}
		}
	}
}

// TestResume: missing rows are inserted, late rows are accepted, and the load
// continues to the requested rows.
func TestResume(t *testing.T) {
	t.Parallel()
	const rows, batch = 6000, 100
	for _, kind := range stores {
		for _, preset := range []string{"classic", "timeseries"} {
			for _, layout := range Layouts() {
				t.Run(kind+"/"+preset+"/"+layout, func(t *testing.T) {
					db := testdb.Open(t, kind)
					o := InsertOptions{Preset: preset, Layout: layout, Rows: rows, Batch: batch, Writers: 2, PeriodRows: 1000}
					w := prepared(t, db, o)
					cfg := config(w)
					cfg.Rows = 3000
					run(t, w, cfg)
					gap, late := span{1000, 1200}, span{3100, 3200}
					if preset == "classic" {
						names := []string{"purchases"}
						if kind == "sqlite" {
							names = tables(t, w)
						}
						for _, name := range names {
							exec(t, raw(t, db), "DELETE FROM "+name+" WHERE transactionid BETWEEN 1001 AND 1200")
						}
					}
					again := newTestInsert(t, db, o)
					got, err := again.Resume(t.Context(), 0, unseen)
					ok(t, err)
					missing := int64(0)
					if preset == "classic" {
						missing = gap.rows()
					}
					if got.Rows != 3000 || got.Found != 3000-missing || got.Refilled != missing {
						t.Fatalf("%+v", got)
					}
					// A batch of the previous process that the server executes only now.
					if r := again.tables[0].roller; r != nil {
						ok(t, r.create(t.Context(), noEvent))
					}
					ok(t, again.refill(t.Context(), again.tables[0], late, new(int64)))
					cfg = config(again)
					cfg.Rows = rows - got.Rows
					run(t, again, cfg)
					mustHold(t, again, rows)
					third := newTestInsert(t, db, o)
					if got, err := third.Resume(t.Context(), 0, unseen); err != nil || got.Rows != rows || got.Refilled != 0 {
						t.Errorf("%+v, %v", got, err)
					}
				})
			}
		}
	}
}

func TestRowSet(t *testing.T) {
	var r rowSet
	for _, s := range []span{{0, 64}, {70, 200}, {256, 300}, {64, 65}} {
		if !r.add(s) {
			t.Fatalf("%v was there", s)
		}
	}
	if r.add(span{299, 301}) {
		t.Error("a row was added twice")
	}
	if got := r.end(); got != 300 {
		t.Errorf("it ends at %d", got)
	}
	if got, want := r.holes(0, 310), []span{{65, 70}, {200, 256}, {300, 310}}; !slices.Equal(got, want) {
		t.Errorf("holes %v, want %v", got, want)
	}
	if got := r.holes(66, 68); !slices.Equal(got, []span{{66, 68}}) {
		t.Errorf("holes %v", got)
	}
}
