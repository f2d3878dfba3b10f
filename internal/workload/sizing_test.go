package workload

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMeasure(t *testing.T) {
	onStores(t, func(t *testing.T, db engine.DB) {
		// The table of a killed run, with another schema and other rows.
		exec(t, raw(t, db), "CREATE TABLE rowmill_sample_purchases (x INT)", "INSERT INTO rowmill_sample_purchases VALUES (1)")
		sizes := map[string]int64{}
		for _, o := range []InsertOptions{
			{Preset: "classic", Rows: 100000},
			{Preset: "classic", Rows: 100000, Indexes: ptr(0)},
			{Preset: "ibench", Rows: 100000, Writers: 4},
			{Preset: "timeseries"},
		} {
			o.Layout = Rolling
			w := newTestInsert(t, db, o)
			ok(t, w.Measure(t.Context()))
			_, why := w.Period()
			if !strings.Contains(why, "fit into 80% of a cache") {
				t.Errorf("period because %q", why)
			}
			name := o.Preset
			if o.Indexes != nil {
				name += " bare"
			}
			sizes[name] = w.Options().PeriodRows
			gone(t, w.db, w.scratch())
		}
		// With indexes a row takes about three times the space. Four tables share a cache.
		if sizes["classic bare"] < 2*sizes["classic"] || sizes["ibench"] > sizes["classic"]/2 || sizes["timeseries"]%1000 != 0 {
			t.Errorf("rows of a period: %v", sizes)
		}
	})
}

// TestMeasureCleansUp checks that the scratch table is dropped after every failure of Measure.
func TestMeasureCleansUp(t *testing.T) {
	broken := errors.New("broken on purpose")
	for _, kind := range stores {
		for _, test := range []struct {
			name string
			at   int // index of the Write that fails; 0: the step after CREATE TABLE
			want error
		}{
			{"interrupted after it was created", 0, context.Canceled},
			{"interrupted in the first batch", 1, context.Canceled},
			{"failing in the second batch", 2, broken},
		} {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				db := &faulty{DB: testdb.Open(t, kind)}
				created := false
				db.apply = func(ctx context.Context, steps []engine.Step) error {
					err := db.DB.Apply(ctx, steps...)
					if _, ok := steps[len(steps)-1].(engine.CreateTable); ok && err == nil {
						if created = true; test.at == 0 {
							interrupt()
						}
					}
					return err
				}
				n := 0
				db.write = func(write func() (engine.Ack, error)) (engine.Ack, error) {
					if n++; n == test.at {
						if test.want == broken {
							return engine.Ack{}, broken
						}
						interrupt()
					}
					return write()
				}
				w := newTestInsert(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 100000})
				if err := w.Measure(ctx); !errors.Is(err, test.want) || !created {
					t.Errorf("Measure returned %v, want %v; created: %t", err, test.want, created)
				}
				if w.tables[0].Rolling() {
					t.Error("a period was made of it")
				}
				gone(t, w.db, w.scratch())
			})
		}
	}
}

func TestMeasureDoesNothing(t *testing.T) {
	db := &faulty{DB: testdb.Open(t, "sqlite"), apply: func(context.Context, []engine.Step) error { return errors.New("asked") }}
	for _, o := range []InsertOptions{{Layout: Plain}, {Layout: Rolling, PeriodRows: 5000}} {
		o.Preset = "classic"
		if err := newTestInsert(t, db, o).Measure(t.Context()); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	w := newTestInsert(t, testdb.Open(t, "null"), InsertOptions{Preset: "classic", Layout: Rolling})
	if _, err := w.Setup(t.Context(), false); err == nil {
		t.Error("set up without knowing the period")
	}
	if err := w.Measure(t.Context()); err != nil || w.Options().PeriodRows != unknownPeriodRows {
		t.Errorf("%d rows, %v", w.Options().PeriodRows, err)
	}
}

func TestRoundDown(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 7: 7, 99: 99, 100: 100, 109: 100, 12345: 12000, 999999: 990000} {
		if got := roundDown(n); got != want {
			t.Errorf("roundDown(%d) is %d, want %d", n, got, want)
		}
	}
}
