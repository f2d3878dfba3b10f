package maintain

import (
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestHostileNames: a table declared with capitals is kept on a server that
// keeps names in lower case: created ahead, sealed, merged, rolled up, dropped.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			keepCapitals(t, testdb.Open(t, kind+"?set=lower_case_table_names=1").(engine.Keeper))
		})
	}
}

// TestHostileKeep: the same on servers whose defaults are none of those that
// sessions rely on.
func TestHostileKeep(t *testing.T) {
	testdb.SkipUnlessNightly(t, "engine/mysql and engine/postgres TestHostile")
	for _, kind := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			keepCapitals(t, testdb.Open(t, testdb.Hostile(t, kind)).(engine.Keeper))
		})
	}
}

// keepCapitals keeps a table whose name and whose roll-up's have capitals for
// twelve hours.
func keepCapitals(t *testing.T, db engine.Keeper) {
	d := declare(t, db, func(d *rolling.Declaration) {
		def, err := rolling.ReadDefinition(strings.Replace(create(db), " readings ", " "+db.Dialect().Quote("MyReadings")+" ", 1))
		if err != nil {
			t.Fatal(err)
		}
		d.Name, d.Definition = "MyReadings", def
		d.Keep = span(6 * time.Hour)
		d.Seal.After = span(30 * time.Minute)
		d.Seal.Merge = grid(t, "3h")
		d.Seal.Compress = true
		d.Exact = true
		d.Rollups = []rolling.Rollup{{Name: "MyHours", Every: grid(t, "1h"), By: []string{"sensor"},
			Select: []rolling.Aggregate{{Name: "n", Func: "count"}, {Name: "mean", Func: "avg", Column: "value"}}}}
	})
	w := applied(t, db, d, at(0.2))
	for hour := range 12 {
		w.now = at(float64(hour) + 0.6)
		w.keep()
		for i := range 10 {
			w.insert(w.now+int64(i)*1e6, 1, 2, 3)
		}
		if hour == 4 {
			w.insert(at(2.2), 77) // late, into what is sealed and merged
		}
	}
	w.now = at(12.6)
	w.keep()
	if got, want := w.parts(), "6-9 9-12 12-13 13-14 14-15 15-16"; got != want {
		t.Errorf("after twelve hours there is %s, want %s", got, want)
	}
	if got, want := w.count(), int64(6*30); got != want {
		t.Errorf("it holds %d rows, want %d", got, want)
	}
	changes, err := w.State.Changes(t.Context(), "MyReadings")
	if err != nil || len(changes) > 0 {
		t.Errorf("left under way: %v, %v", changes, err)
	}
	// Each of the 12 hours has three sensors; an hour of the first ones another.
	quote := db.Dialect().Quote
	var buckets, n int64
	var mean float64
	q := "SELECT COUNT(*), SUM(n), SUM(mean) FROM " + quote("MyHours")
	if err := db.SQL().QueryRowContext(t.Context(), q).Scan(&buckets, &n, &mean); err != nil {
		t.Fatal(err)
	}
	if want := 12.0*(7+14+21) + 77*7; buckets != 37 || n != 361 || mean != want {
		t.Errorf("the roll-up has %d buckets of %d rows, means that add up to %v; want 37, 361, %v", buckets, n, mean, want)
	}
	s, err := w.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Problems) > 0 {
		t.Errorf("problems %+v", s.Problems)
	}
}
