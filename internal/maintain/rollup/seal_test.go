package rollup_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/rolling"
)

// dropFirst seals and drops the first period.
func (f *fixture) dropFirst() {
	f.t.Helper()
	ctx := context.Background()
	p := f.parts[0]
	if _, why, err := f.set.Proof(ctx, p.Period); why != "" || err != nil {
		f.t.Fatalf("Proof: %s, %v", why, err)
	}
	f.inTx(func(tx *sql.Tx) error { return f.set.Seal(ctx, tx, p.To) })
	must(f.t, enginetest.Try(f.t, f.db, engine.DropPartition{Table: f.table, Have: f.parts, Drop: p}))
	f.parts = f.parts[1:]
}

// A bucket whose raw rows were removed stays unchanged, whatever indicates a change
// of its rows.
func TestTrapRefreshErasesNoSealedBucket(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+3*day, append(model(some(start+hour, 20)), some(start+30*hour, 20)...)...)
		ctx := context.Background()
		before := f.rows(f.decl.Rollups[0], "r10m")
		f.dropFirst()
		// A note in its range, a comparison of counts, a request by a user.
		f.touch(start + 3*day)
		f.checkViews(m, "with a note over dropped rows")
		if n, err := f.set.Check(ctx, rolling.Period{From: start, To: start + 5*day}); n != 0 || err != nil {
			t.Errorf("Check = %d, %v", n, err)
		}
		f.refresh(start + 3*day)
		if after := f.rows(f.decl.Rollups[0], "r10m"); !slices.Equal(before, after) {
			t.Errorf("before %v\nafter  %v", before, after)
		}
		_, err := f.set.RefreshRange(ctx, start+hour, start+2*day, nil)
		var hint *engine.HintError
		if err == nil || !strings.Contains(err.Error(), "sealed") || !errors.As(err, &hint) {
			t.Errorf("RefreshRange over dropped rows: %v", err)
		}
		if n, err := f.set.RefreshRange(ctx, start+day, start+2*day, nil); err != nil || n < 12 {
			t.Errorf("RefreshRange = %d, %v", n, err)
		}
		f.checkViews(m, "after all")
		f.checkTables(m, start+3*day)
	})
}

// A roll-up whose table was dropped is computed again from the rows that there are, and the one
// that is made of it with it.
func TestTrapDroppedRollupBeginsAgain(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+3*day, append(model(some(start+hour, 20)), some(start+30*hour, 20)...)...)
		drop := "DROP TABLE " + f.decl.Rollups[0].Name
		if kind == "postgres" {
			drop += " CASCADE"
		}
		f.exec(drop)
		f.reload()
		must(t, f.set.Create(context.Background()))
		f.checkViews(m, "before it is computed again")
		f.refresh(start + 3*day)
		f.checkViews(m, "after it was computed again")
		f.checkTables(m, start+3*day)
	})
}

// Restored rows can be aggregated again.
func TestUnseal(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+2*day, some(start+hour, 20)...)
		ctx := context.Background()
		f.inTx(func(tx *sql.Tx) error { return f.set.Seal(ctx, tx, start+day) })
		late := row{1, "b", start + hour, 900, 1.0, 1, "x"}
		f.load(late)
		f.refresh(start + 2*day)
		f.checkTables(m, start+day) // without the late row
		f.inTx(func(tx *sql.Tx) error { return f.set.Unseal(ctx, tx, start) })
		if n, err := f.set.Check(ctx, rolling.Period{From: start, To: start + day}); n == 0 || err != nil {
			t.Errorf("Check = %d, %v", n, err)
		}
		f.refresh(start + 2*day)
		m = append(m, late)
		f.checkTables(m, start+day)
		f.checkViews(m, "after the seal is broken")
	})
}

// Proof reports each reason why rows must stay.
func TestProof(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t))
		ctx := context.Background()
		p := f.parts[0].Period
		want := func(reason string, rows int64) {
			t.Helper()
			n, why, err := f.set.Proof(ctx, p)
			if err != nil || n != rows || reason == "" && why != "" || !strings.Contains(why, reason) {
				t.Errorf("Proof = %d, %q, %v; want %d, %q", n, why, err, rows, reason)
			}
		}
		want("", 0) // no rows, nothing to lose
		f.load(some(start+hour, 20)...)
		want("computed up to", 20)
		f.refresh(start + 12*hour)
		want("computed up to", 20)
		f.refresh(start + day)
		want("", 20)
		f.load(row{1, "b", start + hour, 900, 1.0, 1, "x"})
		want("not seen", 21)
		f.set.ConsumeForTest(t)
		want("stale", 21)
		f.refresh(start + day)
		want("", 21)
		f.bypass(f.db.SQL(), row{1, "b", start + hour, 901, 1.0, 1, "x"})
		want("not counted", 22)
		tx := f.begin()
		if err := f.set.Seal(ctx, tx, start+2*day); err == nil || !strings.Contains(err.Error(), "computed up to") {
			t.Errorf("Seal beyond the watermark: %v", err)
		}
		must(t, tx.Rollback())
	})
}

// Rows of writers that bypass rowmill, and leave no note, are found by counting.
func TestTrapBypassFoundByCounting(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+day, some(start+hour, 20)...)
		rows := []row{{1, "b", start + hour, 900, 1.0, 1, "x"}, {1, "b", start + 5*hour, 900, 1.0, 1, "x"}} // one in a range that had no bucket
		f.bypass(f.db.SQL(), rows...)
		f.exec("DELETE FROM " + f.into(m[15].at) + " WHERE " + f.where(m[15]))
		m = append(append(m[:15:15], m[16:]...), rows...)
		n, err := f.set.Check(context.Background(), rolling.Period{From: start, To: start + day})
		if err != nil || n == 0 {
			t.Errorf("Check = %d, %v", n, err)
		}
		f.checkViews(m, "once it is found")
		f.refresh(start + day)
		f.checkTables(m, start+day)
		if n, err := f.set.Check(context.Background(), rolling.Period{From: start, To: start + day}); err != nil || n != 0 {
			t.Errorf("a second Check = %d, %v", n, err)
		}
	})
}

// A coarse level is computed only up to the watermark of the finer one, and not
// from stale buckets.
func TestTrapCoarseLevelWaitsForFineOne(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+50*minute, some(start+10*minute, 40)...) // within the first hour
		if got := f.one("SELECT COUNT(*) FROM r1h"); got != "0" {
			t.Errorf("%s hours from five of six buckets", got)
		}
		f.refresh(start + hour)
		f.checkTables(m, start+hour)
		late := row{1, "a", start + 20*minute, 900, 1.0, 1, "x"}
		f.load(late)
		m = append(m, late)
		f.watched(start+hour, func(_ context.Context, q string) {
			f.checkViews(m, q) // never an hour without the late row
		})
		f.checkTables(m, start+hour)
	})
}

// Rows of levels that have passed their retention are removed, but only after the
// levels that depend on them are computed.
func TestExpire(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		rollups := few(t)
		rollups[0].Keep = rolling.Span{Micros: day}
		f := open(t, kind, false, rollups)
		ctx := context.Background()
		var m model
		for i := range int64(4) {
			m = append(m, some(start+i*day+hour, 10)...)
		}
		f.load(m...)
		f.refresh(start + 4*day)
		must(t, f.set.Expire(ctx, start+4*day))
		levels, err := f.set.Status(ctx)
		must(t, err)
		if levels[0].SealedTo != start+3*day || levels[0].Rows >= levels[1].Rows*10 {
			t.Errorf("%+v", levels)
		}
		if d := m.differs(rollups[0], f.rows(rollups[0], "r10m"), rolling.Period{From: start + 3*day, To: start + 4*day}); d != "" {
			t.Error(d)
		}
		if got := f.one("SELECT COUNT(*) FROM r10m WHERE bucket < " + f.lit(start+3*day)); got != "0" {
			t.Errorf("%s rows that have passed retention", got)
		}
		// The hours are unchanged, also after a refresh of all that may change.
		f.touch(start + 4*day)
		f.refresh(start + 4*day)
		if d := m.differs(rollups[1], f.rows(rollups[1], "r1h"), everything); d != "" {
			t.Error(d)
		}
	})
}

// A new aggregate or level is computed from the existing raw rows. The declaration
// of an existing name can't change.
func TestDeclarationChanges(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+2*day, append(model(some(start+hour, 20)), some(start+30*hour, 20)...)...)
		ctx := context.Background()
		more := slices.Clone(f.decl.Rollups)
		for i := range more {
			more[i].Select = append(slices.Clone(more[i].Select), all[6], all[14])
		}
		f.decl.Rollups = append(more, rolling.Rollup{Name: "r1d", From: "r1h", Every: grid(t, "1d"), By: more[1].By, Select: more[1].Select})
		f.reload()
		must(t, f.set.Create(ctx))
		f.checkViews(m, "before the new columns are computed")
		f.refresh(start + 2*day)
		f.checkTables(m, start+2*day)
		if err := f.set.Create(ctx); err != nil { // nothing to do
			t.Fatal(err)
		}
		if n := f.refresh(start + 2*day); n != 0 {
			t.Errorf("%d buckets after a Create that changes nothing", n)
		}

		for name, change := range map[string]func(r *rolling.Rollup){
			"bucket":   func(r *rolling.Rollup) { r.Every = grid(t, "20m") },
			"grouping": func(r *rolling.Rollup) { r.By = []string{"sensor"} },
			"column c": func(r *rolling.Rollup) {
				r.Select = slices.Clone(r.Select)
				r.Select[0] = rolling.Aggregate{Name: "c", Func: "max", Column: "n"}
			},
		} {
			old := f.decl.Rollups
			f.decl.Rollups = slices.Clone(old[:1])
			change(&f.decl.Rollups[0])
			f.reload()
			if err := f.set.Create(ctx); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("another %s: %v", name, err)
			}
			f.decl.Rollups = old
		}
	})
}

// New rejects roll-ups that the table's columns don't permit. What a declaration says
// by itself is checked when it is read.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := open(t, "sqlite", false, nil)
	for name, c := range map[string]struct {
		change func(r *rolling.Rollup)
		want   string
	}{
		"no such group":    {func(r *rolling.Rollup) { r.By = []string{"where"} }, "no such column"},
		"group with NULLs": {func(r *rolling.Rollup) { r.By = []string{"note"} }, "may be NULL"},
		"no such column":   {func(r *rolling.Rollup) { r.Select[0].Func, r.Select[0].Column = "sum", "where" }, "no such column"},
		"sum of texts":     {func(r *rolling.Rollup) { r.Select[0].Func, r.Select[0].Column = "sum", "note" }, "not a number"},
		"quote":            {func(r *rolling.Rollup) { r.Name = "it's" }, "characters"},
		"long name":        {func(r *rolling.Rollup) { r.Name = strings.Repeat("x", 60) }, "longer"},
	} {
		r := levels(t)[0]
		r.Select = slices.Clone(r.Select)
		c.change(&r)
		d := *f.decl
		d.Rollups = []rolling.Rollup{r}
		if _, err := rollup.New(f.db, f.st, f.table, f.schema(), &d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
