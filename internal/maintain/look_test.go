package maintain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// problem returns the text of a problem and its hint, "" if there is none.
func (w *world) problem(code string) string {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Problems, func(p Problem) bool { return p.Code == code })
	if i < 0 {
		return ""
	}
	return s.Problems[i].Text + "\n" + s.Problems[i].Try
}

// TestClockThatRanAhead: if periods exist ahead of the present but none contains
// it, another pass creates none for the present, and status doesn't suggest one.
func TestClockThatRanAhead(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Keep = span(2 * time.Hour) }), at(0.2))
	w.now = at(40)
	w.keep()
	w.now = at(0.5)
	w.keep()
	if got := w.problem("headroom"); !strings.Contains(got, "The last one ends at "+w.Table.Table.Grid.Format(at(43))) || strings.Contains(got, "--once") {
		t.Errorf("%q; periods %s", got, w.parts())
	}
}

// TestRestoredPeriod: a restored period between dropped ones is not reported as a
// gap. Its roll-ups can be recomputed, those of other periods can't.
func TestRestoredPeriod(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Keep = span(4 * time.Hour)
			d.Seal.Archive = t.TempDir()
			total := []rolling.Aggregate{{Name: "total", Func: "sum", Column: "value"}}
			d.Rollups = []rolling.Rollup{
				{Name: "readings_1h", Every: grid(t, "1h"), Select: total},
				{Name: "readings_6h", Every: grid(t, "6h"), From: "readings_1h", Select: total},
			}
		})
		w := applied(t, db, d, at(0.2))
		for hour := range 12 {
			w.now = at(float64(hour) + 0.6)
			w.keep()
			w.insert(w.now, 1, 2, 3)
		}
		w.now = at(12.2)
		w.keep()
		sums := func() (hours, sixes string) {
			t.Helper()
			for name, out := range map[string]*string{"readings_1h": &hours, "readings_6h": &sixes} {
				rows, err := db.SQL().QueryContext(t.Context(), "SELECT total FROM "+name+"_live ORDER BY bucket")
				if err != nil {
					t.Fatal(err)
				}
				for rows.Next() {
					var n int64
					if err := rows.Scan(&n); err != nil {
						t.Fatal(err)
					}
					*out += fmt.Sprint(n, " ")
				}
				if err := errors.Join(rows.Err(), rows.Close()); err != nil {
					t.Fatal(err)
				}
			}
			return hours, sixes
		}
		hours, _ := sums()
		path, err := w.FindArchive(t.Context(), w.Table.Table.Grid.Named(rolling.Period{From: at(2), To: at(3)}).Name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.PlanRestore(t.Context(), path, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		t.Log(w.parts())
		if got := w.problem("gap"); got != "" {
			t.Errorf("after a restoration: %s", got)
		}
		if _, err := db.SQL().ExecContext(t.Context(), "UPDATE readings SET value = value + 1000 WHERE ts < "+db.Words().Literal(w.Table.Table, at(3))); err != nil {
			t.Fatal(err)
		}
		for _, around := range []rolling.Period{{From: at(1.5), To: at(2.5)}, {From: at(2), To: at(3.1)}, {From: at(0), To: at(12)}} {
			if _, err := w.RefreshRange(t.Context(), around.From, around.To); err == nil || !strings.Contains(err.Error(), "are gone") {
				t.Errorf("with rows that are gone: %v", err)
			}
		}
		if got, _ := sums(); got != hours {
			t.Errorf("refused, and the levels have %s, had %s", got, hours)
		}
		if _, err := w.RefreshRange(t.Context(), at(2), at(3)); err != nil {
			t.Fatal(err)
		}
		if got, _ := sums(); got != strings.Repeat("42 ", 2)+"3042 "+strings.Repeat("42 ", 9) {
			t.Errorf("the levels have %s, had %s", got, hours)
		}
		if _, got := sums(); !strings.HasPrefix(got, fmt.Sprint(6*42+3000, " ")) {
			t.Errorf("six hours have %s", got)
		}
		if !db.Capabilities().Gaps {
			return
		}
		have, err := db.Catalog().Partitions(t.Context(), w.Table.Table)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Try(t.Context(), engine.DropPartition{Table: w.Table.Table, Have: have, Drop: have[3]}); err != nil {
			t.Fatal(err)
		}
		if got := w.problem("gap"); !strings.Contains(got, "no period from "+w.Table.Table.Grid.Format(at(10))) {
			t.Errorf("with a period dropped by hand: %q; %s", got, w.parts())
		}
	})
}

// TestChangedRollup: an impossible change of a level's table is rejected in the
// plan, before anything is changed.
func TestChangedRollup(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		every := func(s string) *rolling.Declaration {
			return declare(t, db, func(d *rolling.Declaration) {
				d.Seal.After = span(time.Hour)
				d.Rollups = []rolling.Rollup{{Name: "readings_1h", Every: grid(t, s), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
			})
		}
		w := applied(t, db, every("1h"), at(0.2))
		for period, want := range map[string]string{"1h": "", "2h": "its bucket is 1h, and its rows can't be made again as 2h"} {
			table, err := Open(t.Context(), db, every(period), func() time.Time { return rolling.Instant(w.now) })
			if err != nil {
				t.Fatal(err)
			}
			_, err = table.PlanApply(t.Context())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", period, err)
			}
		}
	})
}

// TestOnceBesideAnother: a pass skips lanes that another process keeps, reports
// that once, and doesn't report their tasks as waiting.
func TestOnceBesideAnother(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	w := applied(t, db, declare(t, db, nil), at(0.2))
	lease, err := db.Lead(t.Context(), "readings/"+string(Creating))
	if err != nil {
		t.Fatal(err)
	}
	var said []Event
	w.Say = func(e Event) { said = append(said, e) }
	w.keep()
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	said = slices.DeleteFunc(said, func(e Event) bool { return e.Action != "lead" })
	if len(said) != 1 || said[0].Waiting || !strings.HasSuffix(said[0].Detail, "another process does it") {
		t.Errorf("it said %+v", said)
	}
}
