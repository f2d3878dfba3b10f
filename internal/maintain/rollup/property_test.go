package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// empty removes all rows and all records of roll-ups.
func (f *fixture) empty() {
	f.t.Helper()
	if f.db.Info().Engine == "sqlite" {
		for _, p := range f.parts {
			f.exec("DELETE FROM readings_" + p.Name)
		}
	} else {
		f.exec("DELETE FROM readings")
	}
	for _, r := range f.decl.Rollups {
		f.exec("DELETE FROM " + r.Name)
	}
	for _, name := range []string{"rowmill_rollups", "rowmill_stale", "rowmill_touched", "rowmill_ledger"} {
		f.exec("DELETE FROM " + name)
	}
	f.reload()
	must(f.t, f.set.Create(context.Background()))
}

func drawRow(t *rapid.T, seq int) row {
	at := start + rapid.Int64Range(0, 29).Draw(t, "hour")*hour*4 + rapid.SampledFrom([]int64{0, 1, minute, 9*minute + 59*second, 10 * minute, hour - second, 2 * hour}).Draw(t, "offset")
	at -= at % second // DATETIME has whole seconds
	r := row{sensor: rapid.IntRange(1, 2).Draw(t, "sensor"), site: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "site"), at: at, seq: seq}
	if rapid.IntRange(0, 4).Draw(t, "null") > 0 {
		r.value = rapid.SampledFrom([]float64{0, 1.5, -2.25, 1e9 + 0.5, 1e-3, 77}).Draw(t, "value")
	}
	if rapid.IntRange(0, 4).Draw(t, "null n") > 0 {
		r.n = rapid.IntRange(-3, 1000).Draw(t, "n")
	}
	if rapid.IntRange(0, 4).Draw(t, "null note") > 0 {
		r.note = rapid.SampledFrom([]string{"x", "y", "zz", ""}).Draw(t, "note")
	}
	return r
}

// where returns the condition for a row's key.
func (f *fixture) where(r row) string {
	return fmt.Sprintf("sensor = %d AND ts = %s AND seq = %d", r.sensor, f.lit(r.at), r.seq)
}

// Whatever the changes of rows and the times of refreshes, the live views always
// equal a computation from all rows, and so do the roll-ups at the end.
func TestRollupsAgainstComputation(t *testing.T) {
	// The same few cases in each run, except nightly. Only this test of the package
	// uses rapid.
	flags := map[string]string{"rapid.checks": "4", "rapid.seed": "1"}
	if testdb.Nightly() {
		flags = map[string]string{"rapid.checks": "20"}
	}
	for name, value := range flags {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			must(t, f.Value.Set(value))
		}
	}
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, levels(t))
		ctx := context.Background()
		rapid.Check(t, func(rt *rapid.T) {
			f.empty()
			var m model
			seq := 0
			end := start + 5*day
			draw := func() []row {
				var rows []row
				for range rapid.IntRange(1, 5).Draw(rt, "rows") {
					seq++
					rows = append(rows, drawRow(rt, seq))
				}
				return rows
			}
			rt.Repeat(map[string]func(*rapid.T){
				"load": func(*rapid.T) {
					rows := draw()
					f.load(rows...)
					m = append(m, rows...)
				},
				"bypass, check": func(rt *rapid.T) {
					rows := draw()
					f.bypass(f.db.SQL(), rows...)
					m = append(m, rows...)
					if _, err := f.set.Check(ctx, rolling.Period{From: start, To: end}); err != nil {
						rt.Fatal(err)
					}
				},
				"change": func(rt *rapid.T) {
					if len(m) == 0 {
						rt.Skip()
					}
					i := rapid.IntRange(0, len(m)-1).Draw(rt, "row")
					tx := f.begin()
					if rapid.Bool().Draw(rt, "delete") {
						if _, err := tx.Exec("DELETE FROM " + f.into(m[i].at) + " WHERE " + f.where(m[i])); err != nil {
							rt.Fatal(err)
						}
						f.note(tx, m[i])
						m = append(append(model{}, m[:i]...), m[i+1:]...)
					} else {
						if _, err := tx.Exec("UPDATE " + f.into(m[i].at) + " SET value = -5, note = 'w' WHERE " + f.where(m[i])); err != nil {
							rt.Fatal(err)
						}
						m[i].value, m[i].note = -5.0, "w"
						f.note(tx, m[i])
					}
					f.commit(tx)
				},
				"change behind our back, refresh the range": func(rt *rapid.T) {
					if len(m) == 0 {
						rt.Skip()
					}
					i := rapid.IntRange(0, len(m)-1).Draw(rt, "row")
					f.exec("UPDATE " + f.into(m[i].at) + " SET n = 5 WHERE " + f.where(m[i]))
					m[i].n = 5
					if _, err := f.set.RefreshRange(ctx, m[i].at, m[i].at+1, nil); err != nil {
						rt.Fatal(err)
					}
				},
				"refresh": func(rt *rapid.T) {
					f.refresh(start + rapid.Int64Range(0, 120).Draw(rt, "hours")*hour)
				},
				"start again": func(rt *rapid.T) { f.reload() },
				"": func(rt *rapid.T) {
					for _, r := range f.decl.Rollups {
						if d := m.differs(r, f.rows(r, r.Name+"_live"), everything); d != "" {
							rt.Fatalf("%s_live: %s", r.Name, d)
						}
					}
				},
			})
			f.refresh(end)
			f.checkTables(m, end)
			if n := f.refresh(end); n != 0 {
				rt.Fatalf("a second refresh computed %d buckets", n)
			}
			for _, name := range []string{"rowmill_stale", "rowmill_touched"} {
				if n := f.one("SELECT COUNT(*) FROM " + name); n != "0" {
					rt.Fatalf("%s has %s rows left", name, n)
				}
			}
		})
	})
}
