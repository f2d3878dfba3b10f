package postgres_test

import (
	"errors"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestTune checks that Undo restores the setting and the server's file, and
// that a setting that can't be changed is reported and left alone.
func TestTune(t *testing.T) {
	db := openAlone(t)
	file := func() string {
		rows, err := db.Query(t.Context(), "SELECT count(*), min(setting) FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf'")
		if err != nil {
			t.Fatal(err)
		}
		return string(rows[0][0]) + string(rows[0][1])
	}
	was := file()
	for _, c := range []struct{ name, value, now string }{
		{"work_mem", "5MB", "5MB"},
		{"Enable_Seqscan", "off", "off"},
		{"log_line_prefix", "it's %p ", "it's %p "},
		{"checkpoint_timeout", "11min", "11min"},
	} {
		got, err := db.Tune(t.Context(), c.name, c.value)
		if err != nil || got.Now != c.now || got.Before == c.now {
			t.Fatalf("%s=%s: %+v, %v", c.name, c.value, got, err)
		}
		// A nested Tune: its Undo restores the first value.
		inner, err := db.Tune(t.Context(), "work_mem", "6MB")
		if err != nil || c.name == "work_mem" && inner.Before != "5MB" {
			t.Fatalf("%+v, %v", inner, err)
		}
		if err := errors.Join(inner.Undo(t.Context()), got.Undo(t.Context())); err != nil {
			t.Fatal(err)
		}
		again, err := db.Tune(t.Context(), c.name, c.value)
		if err != nil || again.Before != got.Before {
			t.Errorf("%s was %s, and %s after it was undone (%v)", c.name, got.Before, again.Before, err)
		}
		if err := again.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := file(); now != was {
			t.Errorf("%s: the file has %q, before %q", c.name, now, was)
		}
	}
	for _, c := range []struct {
		name, value string
		unsupported bool
	}{
		{"max_connections", "10", true},
		{"block_size", "10", true},
		{"no_such_setting", "1", false},
		{"work_mem", "much", false},
	} {
		if _, err := db.Tune(t.Context(), c.name, c.value); err == nil || errors.Is(err, engine.ErrUnsupported) != c.unsupported {
			t.Errorf("%s=%s: %v, unsupported should be %v", c.name, c.value, err, c.unsupported)
		}
		if now := file(); now != was {
			t.Errorf("%s: the file has %q, before %q", c.name, now, was)
		}
	}
}
