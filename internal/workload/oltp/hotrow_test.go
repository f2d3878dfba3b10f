package oltp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/oltp"
)

// TestHotRow: each way counts each run once, and the proof finds a count that is wrong by one.
func TestHotRow(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "sqlite", "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind).(engine.Reader)
			for _, way := range oltp.HotWays() {
				w, err := oltp.NewHotRow(db, oltp.HotRowOptions{Clients: 2, Way: way, Slots: 3})
				if (way == oltp.HotSlots || way == oltp.HotAppend) && kind == "sqlite" {
					if !errors.Is(err, engine.ErrUnsupported) {
						t.Errorf("%s on SQLite: %v", way, err)
					}
					continue
				}
				if way == oltp.HotAppend {
					continue // its tables are the experiment's: see TestBenchHotRow
				}
				if err == nil {
					_, err = w.Setup(t.Context(), true)
				}
				if err != nil {
					t.Fatal(err)
				}
				a, err := w.Client(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				b, err := w.Client(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				for range 5 {
					a.Prepare(1)
					b.Prepare(1)
					if err := errors.Join(a.Do(t.Context()), b.Do(t.Context())); err != nil {
						t.Fatalf("%s: %v", way, err)
					}
				}
				if expected, found, err := w.Prove(t.Context(), db); err != nil || expected != 10 || found != 10 {
					t.Errorf("%s: %d of %d, %v", way, found, expected, err)
				}
				a.Prepare(1)
				if _, err := db.SQL().ExecContext(t.Context(), "INSERT INTO fan_of (user_id, item_id) VALUES (10, 12345678)"); err != nil {
					t.Fatal(err)
				}
				if err := a.Do(t.Context()); err == nil || !strings.Contains(err.Error(), "another program") {
					t.Errorf("%s: a user who is a fan already: %v", way, err)
				}
				if _, _, err := w.Prove(t.Context(), db); err == nil || !strings.Contains(err.Error(), "the counter is 10, and fan_of has 11 rows") {
					t.Errorf("%s: a row that wasn't counted: %v", way, err)
				}
				if err := errors.Join(a.Close(), b.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
