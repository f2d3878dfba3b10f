package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestBeginAsContextEnds ends contexts while transactions begin: Begin has an error, or the
// transaction is open. The session can be closed in both cases.
func TestBeginAsContextEnds(t *testing.T) {
	db, err := Open(t.Context(), engine.Target{Scheme: "sqlite"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 400 {
		s, err := db.ReadSession(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			for begin := time.Now(); time.Since(begin) < time.Duration(i)*200*time.Nanosecond; {
			}
			cancel()
			close(ended)
		}()
		begun := s.Begin(ctx, engine.Transaction{ReadOnly: true})
		<-ended
		if begun == nil {
			time.Sleep(50 * time.Microsecond) // for package sql
			if _, err := s.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Errorf("the transaction has begun, and isn't open: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v; begin: %v", err, begun)
		}
		if t.Failed() {
			break
		}
	}
}

// TestWhatIsNotRead refuses a rolling table of a file in which a writer waits for all readers, and
// one whose view reads more than its periods.
func TestWhatIsNotRead(t *testing.T) {
	for _, c := range []struct{ options, head, want string }{
		{"", "CREATE VIEW r AS\n", ""},
		{"journal=delete", "CREATE VIEW r AS\n", "journal_mode is delete"},
		{"", "CREATE VIEW r AS SELECT id FROM other UNION ALL\n", "view isn't"},
	} {
		target, err := engine.ParseTarget("sqlite:" + filepath.Join(t.TempDir(), "x.db") + "?" + c.options)
		if err != nil {
			t.Fatal(err)
		}
		db, err := Open(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, q := range []string{
			"CREATE TABLE IF NOT EXISTS rowmill_periods (table_name TEXT, name TEXT, lower INTEGER, upper INTEGER)", "INSERT INTO rowmill_periods VALUES ('r', '1', 1, 2), ('r', '2', 2, 3)",
			"CREATE TABLE r_1 (id INTEGER)", "CREATE TABLE r_2 (id INTEGER)", "CREATE TABLE other (id INTEGER)",
			c.head + `SELECT "id" FROM "r_1"` + "\nUNION ALL " + `SELECT "id" FROM "r_2"`,
		} {
			if _, err := db.SQL().ExecContext(t.Context(), q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
		s, err := db.ReadSession(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		table, err := db.TableParts(t.Context(), s, "", "r")
		if err != nil || (table.Refusal == "") != (c.want == "") || !strings.Contains(table.Refusal, c.want) || len(table.Parts) != 2 {
			t.Errorf("%q: %+v, %v; want %q", c.options+c.head, table, err, c.want)
		}
	}
}
