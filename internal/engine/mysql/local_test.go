package mysql_test

import (
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLocalZones: SYSTEM is each server's own time zone, and a named one is what its tables say.
func TestLocalZones(t *testing.T) {
	here := testdb.Open(t, "mariadb?memory=67MB")
	t.Setenv("TZ", "Asia/Tokyo")
	there := testdb.Open(t, "mariadb?memory=66MB")
	for i, db := range []engine.DB{here, there} {
		for _, q := range []string{"INSERT INTO mysql.time_zone VALUES (900, 'N')", "INSERT INTO mysql.time_zone_name VALUES ('Our/Zone', 900)",
			"INSERT INTO mysql.time_zone_transition_type VALUES (900, 0, " + []string{"7200", "3600"}[i] + ", 0, 'OUR')", "INSERT INTO mysql.time_zone_transition VALUES (900, -2147483648, 0)"} {
			if _, err := db.(engine.Reader).SQL().ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	zone := func(db engine.DB, name string) string {
		r := db.(engine.Reader)
		st := engine.State{{Name: "time_zone", Value: name}}
		s, err := r.ReadSession(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all, err := r.(engine.LocalReader).Locals(t.Context(), s, st)
		if err != nil {
			t.Fatal(err)
		}
		return all["the session's time zone"]
	}
	for _, name := range []string{"SYSTEM", "Our/Zone"} {
		a, b := zone(here, name), zone(there, name)
		if a == b || a != zone(here, name) || a == "" || b == "" {
			t.Errorf("%s: %s here, %s there, %s here again", name, a, b, zone(here, name))
		}
	}
	if a, b := zone(here, "+05:30"), zone(there, "+05:30"); a != b {
		t.Errorf("an offset: %s here, %s there", a, b)
	}
}
