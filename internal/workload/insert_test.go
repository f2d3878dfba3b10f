package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestInsert checks that the rows of every preset, layout and method are
// inserted completely and once, and are verified.
func TestInsert(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		db := testdb.Open(t, kind)
		for i, p := range presets() {
			for j, layout := range Layouts() {
				if layout == Rolling && p.table.ServerKey != "" {
					continue
				}
				methods := db.Capabilities().Methods
				method := methods[(2*i+j)%len(methods)]
				t.Run(fmt.Sprintf("%s/%s/%s/%s", kind, p.name, layout, method), func(t *testing.T) {
					const rows = 2345 // not a multiple of the batch size
					w := prepared(t, db, InsertOptions{
						Preset: p.name, Layout: layout, Rows: rows, Writers: 2, Batch: 100, Method: method, PeriodRows: 1000})
					if out := run(t, w, config(w)); out.Rows != rows {
						t.Errorf("%d rows acknowledged, want %d", out.Rows, rows)
					}
					var last int64
					held := distinctRows(p.name, rows)
					proof, err := w.Verify(t.Context(), func(n int64) {
						if n < last {
							t.Errorf("progress went from %d back to %d", last, n)
						}
						last = n
					})
					ok(t, err)
					if !proof.Checksum || proof.Expected != held || proof.Found != held || last != held || len(proof.Warnings) > 0 {
						t.Errorf("%+v after %d rows of progress", proof, last)
					}
					if want := layout == Rolling; (len(proof.Periods) >= 3) != want {
						t.Errorf("%d periods", len(proof.Periods))
					}
					if s, err := w.Sizes(t.Context()); err != nil || s.Data == 0 || (s.Index == 0) != (len(p.table.Indexes) == 0) {
						t.Errorf("sizes %+v, %v", s, err)
					}
					if err := w.Drop(t.Context()); err != nil {
						t.Error(err)
					}
					gone(t, db, w.Tables()...)
				})
			}
		}
	}
}

func TestTablePerWriter(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		for _, layout := range Layouts() {
			t.Run(kind+"/"+layout, func(t *testing.T) {
				db := testdb.Open(t, kind)
				const rows, writers = 3000, 3
				w := newTestInsert(t, db, InsertOptions{Preset: "ibench", Layout: layout, Rows: rows, Writers: writers, Batch: 50, PeriodRows: 400})
				var names []string
				for _, table := range w.Tables() {
					names = append(names, table.Name)
				}
				if !slices.Equal(names, []string{"purchases_1", "purchases_2", "purchases_3"}) {
					t.Errorf("tables %v", names)
				}
				setUp(t, w)
				cfg := config(w)
				cfg.Rate = 20_000 // as fast as it can, one writer may have inserted all before another has begun
				run(t, w, cfg)
				mustHold(t, w, rows)
				sql := raw(t, db)
				texts := map[string]bool{}
				for _, name := range names {
					var s string
					ok(t, sql.QueryRow("SELECT data FROM "+name+" WHERE transactionid = 1").Scan(&s))
					texts[s] = true
				}
				if len(texts) != writers {
					t.Errorf("the writers' first rows are %v: each has its own random source", texts)
				}
			})
		}
	}
}

// TestSetupRefusesExisting checks that existing tables are refused, and that all
// are checked before any is changed.
func TestSetupRefusesExisting(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind)
			sql := raw(t, db)
			exec(t, sql, "CREATE TABLE purchases_2 (mine INT)", "INSERT INTO purchases_2 VALUES (7)")
			for _, layout := range Layouts() {
				w := newTestInsert(t, db, InsertOptions{Preset: "ibench", Layout: layout, Rows: 1000, Writers: 3, PeriodRows: 500})
				_, err := w.Setup(t.Context(), false)
				var hint *engine.HintError
				if !errors.Is(err, engine.ErrTableExists) || !strings.Contains(err.Error(), "purchases_2") || !errors.As(err, &hint) {
					t.Fatalf("set up over a table: %v", err)
				}
				if number(t, sql, "SELECT mine FROM purchases_2") != 7 {
					t.Error("the table was touched")
				}
				gone(t, db, w.Tables()[0])
			}
			// Each layout replaces the other's tables.
			for _, layout := range []string{Rolling, Plain, Plain, Rolling, Rolling} {
				w := newTestInsert(t, db, InsertOptions{Preset: "ibench", Layout: layout, Rows: 900, Writers: 3, PeriodRows: 200})
				schema, err := w.Setup(t.Context(), true)
				ok(t, err)
				if !strings.Contains(strings.Join(schema, "\n"), "purchases_3") {
					t.Errorf("schema %q", schema)
				}
				run(t, w, config(w))
				mustHold(t, w, 900)
			}
		})
	}
}

// TestSetupFails checks that the tables created by a failing Setup are dropped again.
func TestSetupFails(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) {
			db := &faulty{DB: testdb.Open(t, kind)}
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			w := newTestInsert(t, db, InsertOptions{Preset: "ibench", Layout: Rolling, Rows: 1000, Writers: 3, PeriodRows: 500})
			created := 0
			db.apply = func(ctx context.Context, steps []engine.Step) error {
				if _, ok := steps[0].(engine.CreateTable); ok {
					if created++; created == 3 {
						interrupt()
						return ctx.Err()
					}
				}
				return db.DB.Apply(ctx, steps...)
			}
			if _, err := w.Setup(ctx, false); !errors.Is(err, context.Canceled) {
				t.Errorf("Setup returned %v", err)
			}
			gone(t, db, w.Tables()...)
		})
	}
}

func TestOptions(t *testing.T) {
	null, sqlite := testdb.Open(t, "null"), testdb.Open(t, "sqlite") // which has a limit of 500 periods
	many := InsertOptions{Preset: "classic", Layout: Rolling, Rows: 100000, PeriodRows: 100}
	keeping := func(n int) InsertOptions {
		o := many
		o.KeepPeriods = n
		return o
	}
	for _, test := range []struct {
		name string
		db   engine.DB
		o    InsertOptions
		want string // of the error; "" for none
	}{
		{"defaults", null, InsertOptions{Preset: "classic", Layout: Plain}, ""},
		{"batch", null, InsertOptions{Preset: "classic", Layout: Plain, Batch: -1}, "negative"},
		{"rows", null, InsertOptions{Preset: "classic", Layout: Plain, Rows: -1}, "negative"},
		{"keep", null, InsertOptions{Preset: "classic", Layout: Rolling, KeepPeriods: -1}, "negative"},
		{"no indexes", null, InsertOptions{Preset: "classic", Layout: Plain, Indexes: ptr(0)}, ""},
		{"endless periods", null, InsertOptions{Preset: "timeseries", Layout: Rolling, PeriodRows: 1 << 62}, "longer"},
		{"too many periods", sqlite, many, "at least 202 rows"},
		{"most periods", sqlite, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 100000, PeriodRows: 202}, ""},
		{"most periods to keep", sqlite, keeping(497), ""},
		{"too many periods to keep", sqlite, keeping(498), "keep 498 periods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewInsert(test.db, test.o)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	t.Run("whole seconds", func(t *testing.T) {
		w := newTestInsert(t, null, InsertOptions{Preset: "timeseries", Layout: Rolling, PeriodRows: 2999})
		if period, why := w.Period(); period != "2s" || w.Options().PeriodRows != 2000 || !strings.Contains(why, "2999") {
			t.Errorf("period %s of %d rows, because %s", period, w.Options().PeriodRows, why)
		}
	})
	t.Run("wide keys", func(t *testing.T) {
		for rows, want := range map[int64]engine.Type{0: engine.Int64, 1 << 31: engine.Int64, 1<<31 - 1: engine.Int32} {
			w := newTestInsert(t, null, InsertOptions{Preset: "classic", Layout: Plain, Rows: rows})
			if got := w.Tables()[0].Columns[0].Type; got != want {
				t.Errorf("%d rows: the key's type is %v, want %v", rows, got, want)
			}
		}
		if classic().table.Columns[0].Type != engine.Int32 {
			t.Error("widening changed the preset")
		}
	})
}

// TestKeepPeriods drops periods while several writers insert; no other row may be missing.
func TestKeepPeriods(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		for _, preset := range []string{"classic", "timeseries", "daily"} {
			t.Run(kind+"/"+preset, func(t *testing.T) {
				w := prepared(t, testdb.Open(t, kind), InsertOptions{
					Preset: preset, Layout: Rolling, Rows: 12000, Writers: 4, Batch: 100, PeriodRows: 1000, KeepPeriods: 2})
				var mu sync.Mutex
				events := map[string]int{}
				out, err := bench.Run(t.Context(), &observed{Insert: w, event: func(what string) {
					mu.Lock()
					events[what]++
					mu.Unlock()
				}}, config(w))
				if err != nil || out.Err != nil {
					t.Fatal(err, out.Err)
				}
				estimate := w.DroppedRows()
				p := verify(t, w)
				if !p.Checksum || p.Expected != p.Found || p.Found+p.DroppedRows != distinctRows(preset, 12000) {
					t.Errorf("%+v", p)
				}
				drops := events["drop partition"] // how many come before the end of the run is a matter of its length
				if events["create partitions"] == 0 || drops == 0 || p.DroppedRows < distinctRows(preset, int64(drops)*1000)-1 {
					t.Errorf("events %v, %d rows dropped", events, p.DroppedRows)
				}
				if got := w.DroppedRows(); got != p.DroppedRows || estimate != got {
					t.Errorf("dropped: %d before verifying, %d after it, %d by the proof", estimate, got, p.DroppedRows)
				}
				if len(p.Warnings) > 0 {
					t.Errorf("warnings %q", p.Warnings)
				}
			})
		}
	}
}

// observed is a workload that records its events.
type observed struct {
	*Insert
	event func(what string)
}

func (o *observed) Background(ctx context.Context, event func(what, object string, began time.Time)) error {
	return o.Insert.Background(ctx, func(what, object string, began time.Time) {
		o.event(what)
		event(what, object, began)
	})
}
