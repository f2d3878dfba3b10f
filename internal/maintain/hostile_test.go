package maintain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestHostileNames: a table declared with capitals is kept on a server that stores
// names in lower case: created ahead, sealed, merged, rolled up, dropped.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			keepCapitals(t, testdb.Open(t, kind+"?set=lower_case_table_names=1").(engine.Keeper))
		})
	}
}

// TestHostileKeep: the same on servers whose defaults differ from all settings that
// sessions rely on.
func TestHostileKeep(t *testing.T) {
	testdb.SkipUnlessNightly(t, "engine/mysql and engine/postgres TestHostile")
	for _, kind := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			keepCapitals(t, testdb.Open(t, testdb.Hostile(t, kind)).(engine.Keeper))
		})
	}
}

// keepCapitals keeps a table for twelve hours whose name, like that of its roll-up,
// contains capitals.
func keepCapitals(t *testing.T, db engine.Keeper) {
	d := declare(t, db, func(d *rolling.Declaration) {
		def, err := rolling.ReadDefinition(strings.Replace(create(db), " readings ", " "+db.Dialect().Quote("MyReadings")+" ", 1))
		if err != nil {
			t.Fatal(err)
		}
		d.Name, d.Definition = "MyReadings", def
		keepsHalfDay(t, d)
		d.Exact = true
		d.Rollups = []rolling.Rollup{{Name: "MyHours", Every: grid(t, "1h"), By: []string{"sensor"},
			Select: []rolling.Aggregate{{Name: "n", Func: "count"}, {Name: "mean", Func: "avg", Column: "value"}}}}
	})
	w := applied(t, db, d, at(0.2))
	w.halfDay()
	// Each of the 12 hours has three sensors; one of the first hours has another one.
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

// TestHostileWriters: rowmill's triggers and views run in the sessions of other
// programs. In a session with another time zone, a late row is still rejected or
// noted, and the live view is correct.
func TestHostileWriters(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := testdb.Open(t, kind).(engine.Keeper)
			d := declare(t, db, func(d *rolling.Declaration) {
				zoned := map[string]string{"postgres": "TIMESTAMPTZ"}[db.Info().Engine]
				if zoned == "" {
					zoned = "TIMESTAMP"
				}
				def, err := rolling.ReadDefinition("CREATE TABLE readings (sensor INT NOT NULL, ts " + zoned + " NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
				if err != nil {
					t.Fatal(err)
				}
				d.Definition, d.Late, d.Exact = def, rolling.LateReject, true
				d.Seal.After = span(2 * time.Hour)
				d.Rollups = []rolling.Rollup{{Name: "hours", Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
			})
			w := applied(t, db, d, at(0.5))
			for hour := range 6 {
				w.now = at(float64(hour) + 0.5)
				w.keep()
				w.insert(w.now, 1, 2)
			}
			// Periods up to hour 3 are sealed.
			for i, zone := range []string{"+05:30", "-07:00"} {
				conn, err := db.SQL().Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				offset := map[string]time.Duration{"+05:30": 5*time.Hour + 30*time.Minute, "-07:00": -7 * time.Hour}[zone]
				settings := []string{"SET SESSION time_zone = '" + zone + "', sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', div_precision_increment = 0"}
				back := "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', div_precision_increment = 4"
				if db.Info().Engine == "postgres" {
					settings = []string{"SET TIME ZONE INTERVAL '" + zone + "' HOUR TO MINUTE", "SET DateStyle = 'SQL, DMY'", "SET search_path = pg_catalog, public"}
					back = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'"
				}
				for _, q := range settings {
					if _, err := conn.ExecContext(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				insert := func(hour float64) error {
					text := rolling.Instant(at(hour)).Add(offset).Format("2006-01-02 15:04:05")
					_, err := conn.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (%d, '%s', 1)", 10+i, text))
					return err
				}
				for _, hour := range []float64{0.25, 2.75} {
					if err := insert(hour); err == nil || !strings.Contains(err.Error(), "sealed") {
						t.Errorf("%s: a row of %v h, which is sealed: %v", zone, hour, err)
					}
				}
				for _, hour := range []float64{3.75, 4.75, 5.75} {
					if err := insert(hour); err != nil {
						t.Errorf("%s: a row of %v h: %v", zone, hour, err)
					}
				}
				live := func(when string) {
					t.Helper()
					rows, err := conn.QueryContext(t.Context(), "SELECT h.n, (SELECT COUNT(*) FROM readings r WHERE r.ts >= h.bucket AND r.ts < h.bucket + INTERVAL '1' HOUR) FROM hours_live h")
					if err != nil {
						t.Fatal(err)
					}
					defer rows.Close()
					sum := int64(0)
					for rows.Next() {
						var n, raw int64
						if err := rows.Scan(&n, &raw); err != nil {
							t.Fatal(err)
						}
						if n != raw {
							t.Errorf("%s, %s: a bucket of %d rows has %d in the live view", zone, when, raw, n)
						}
						sum += n
					}
					if err := rows.Err(); err != nil {
						t.Fatal(err)
					}
					if want := int64(12 + 3*(i+1)); sum != want {
						t.Errorf("%s, %s: the live view has %d rows, want %d", zone, when, sum, want)
					}
				}
				live("with late rows")
				w.keep()
				live("rolled up")
				if _, err := conn.ExecContext(t.Context(), back); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
