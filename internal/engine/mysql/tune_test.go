package mysql_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestTune: undo restores a changed setting, also after the run's context has
// ended. A setting that can't be changed fails and stays unchanged.
func TestTune(t *testing.T) {
	for _, kind := range []string{"mariadb", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind+ownServer)
			tuner := db.(engine.Tuner)
			for _, c := range []struct{ name, value, now string }{
				{"innodb_adaptive_hash_index", "ON", "1"},
				{"innodb-adaptive-hash-index", "OFF", "0"},
				{"INNODB_LRU_SCAN_DEPTH", "1500", "1500"},
				{"innodb_max_dirty_pages_pct", "12.5", "12.5"},
				{"ft_boolean_syntax", `+ -><()~*:""&^`, `+ -><()~*:""&^`},
				{"init_connect", "7", "7"}, // text that looks like a number
				{"default_week_format", "3", "3"},
			} {
				ctx, cancel := context.WithCancel(t.Context())
				got, err := tuner.Tune(ctx, c.name, c.value)
				cancel()
				if err != nil || got.Now != c.now {
					t.Fatalf("%s=%s: %+v, %v", c.name, c.value, got, err)
				}
				if err := got.Undo(t.Context()); err != nil {
					t.Fatal(err)
				}
				again, err := tuner.Tune(t.Context(), c.name, c.value)
				if err != nil || again.Before != got.Before {
					t.Errorf("%s was %s, and %s after it was undone (%v)", c.name, got.Before, again.Before, err)
				}
				if err := again.Undo(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				name, value string
				unsupported bool
			}{
				{"port", "1", true},
				{"innodb_page_size", "4096", true},
				{"no_such_setting", "1", false},
				{"innodb_adaptive_hash_index", "perhaps", false},
				{"sql_mode = '', GLOBAL x", "1", false},
			} {
				if _, err := tuner.Tune(t.Context(), c.name, c.value); err == nil || errors.Is(err, engine.ErrUnsupported) != c.unsupported {
					t.Errorf("%s=%s: %v, unsupported should be %v", c.name, c.value, err, c.unsupported)
				}
			}
		})
	}
}
