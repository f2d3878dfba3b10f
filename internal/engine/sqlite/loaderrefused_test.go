package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// limitLength is SQLITE_LIMIT_LENGTH, the limit on the length of text or a blob.
const limitLength = 0

// TestLoaderRefuses checks that errors caused by rows are refusals and keep the
// earlier rows, and that others end the transaction and release the turn.
func TestLoaderRefuses(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	if _, err := db.write.Exec("PRAGMA foreign_keys = ON", nil); err != nil {
		t.Fatal(err)
	}
	l, notes, seq := loadingOf(t, db)
	for _, q := range []string{
		"CREATE TABLE log (x)",
		"CREATE TABLE r (a INTEGER PRIMARY KEY, b TEXT NOT NULL DEFAULT 'b' CHECK (b <> 'no'), c TEXT UNIQUE, d TEXT REFERENCES parent (id))",
		"CREATE TABLE parent (id TEXT PRIMARY KEY)",
		"CREATE TRIGGER logs AFTER INSERT ON r BEGIN INSERT INTO log VALUES (1), (2), (3); END",
		"CREATE TRIGGER raises BEFORE INSERT ON r BEGIN SELECT CASE NEW.c WHEN 'abort' THEN RAISE(ABORT, 'not this one') WHEN 'fail' THEN RAISE(FAIL, 'not this one') WHEN 'rollback' THEN RAISE(ROLLBACK, 'not this one') END; END",
		"CREATE TABLE strictly (a INTEGER, b BLOB) STRICT",
		"CREATE TABLE passes (a TEXT UNIQUE ON CONFLICT IGNORE)",
		"INSERT INTO r VALUES (1, 'b', 'c', NULL)", "DELETE FROM log",
	} {
		mustExec(t, db, q)
	}
	sqliteLimit := db.write.SetLimit(limitLength, 1e6)
	defer db.write.SetLimit(limitLength, sqliteLimit)
	batch := func(table string, pairs ...string) (*engine.Table, *engine.Batch) {
		to := &engine.Table{Name: table}
		for i := 0; i < len(pairs); i += 2 {
			to.Columns = append(to.Columns, engine.Column{Name: pairs[i], Type: engine.Varchar})
		}
		b := engine.NewBatch(to.Columns)
		for i := 1; i < len(pairs); i += 2 {
			if pairs[i] == "NULL" {
				b.Columns[i/2].AppendNull()
			} else {
				b.Columns[i/2].AppendBytes([]byte(pairs[i]))
			}
		}
		b.EndRow()
		return to, b
	}
	id := int64(0)
	for name, c := range map[string]struct {
		table string
		pairs []string
		class error
	}{
		"key":        {"r", []string{"a", "1"}, engine.ErrDuplicateKey},
		"unique":     {"r", []string{"c", "c"}, engine.ErrDuplicateKey},
		"null":       {"r", []string{"b", "NULL"}, engine.ErrRefused},
		"check":      {"r", []string{"b", "no"}, engine.ErrRefused},
		"mismatch":   {"r", []string{"a", "one"}, engine.ErrRefused},
		"parent":     {"r", []string{"d", "nobody"}, engine.ErrRefused},
		"abort":      {"r", []string{"c", "abort"}, engine.ErrRefused},
		"fail":       {"r", []string{"c", "fail"}, engine.ErrRefused},
		"strict":     {"strictly", []string{"a", "one"}, engine.ErrRefused},
		"too long":   {"r", []string{"c", strings.Repeat("x", 2e6)}, engine.ErrRefused},
		"row length": {"r", []string{"b", strings.Repeat("x", 6e5), "c", strings.Repeat("x", 6e5)}, engine.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			bad, b := batch(c.table, c.pairs...)
			for _, first := range []bool{true, false} {
				id += 10
				mustBegin(t, l)
				if !first {
					mustInsert(t, l, notes.Table, notes.rows(id))
				}
				wantRefused(t, l, bad, b, c.class)
				mustInsert(t, l, seq.Table, seq.rows(id, id+1))
				wantRefused(t, l, bad, b, c.class)
				mustCommit(t, l)
				freeTurn(t, db)
				wantLines(t, db, fmt.Sprintf("SELECT (SELECT count(*) FROM notes WHERE id = %d), (SELECT count(*) FROM seq WHERE id BETWEEN %d AND %d), (SELECT count(*) FROM r), (SELECT count(*) FROM log)", id, id, id+9),
					fmt.Sprintf("%d|2|1|0", map[bool]int{false: 1}[first]))
			}
		})
	}
	t.Run("rollback", func(t *testing.T) {
		bad, b := batch("r", "c", "rollback")
		mustBegin(t, l)
		wantRefused(t, l, bad, b, engine.ErrRefused)
		mustInsert(t, l, notes.Table, notes.rows(9000))
		if _, err := l.Insert(t.Context(), bad, b, 0, 1); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("got %v", err)
		}
		freeTurn(t, db)
		wantLines(t, db, "SELECT count(*) FROM notes WHERE id = 9000", "0")
	})
	t.Run("acknowledged", func(t *testing.T) { // without the trigger's rows and skipped rows
		table, b := batch("r", "c", "new")
		passes, p := batch("passes", "a", "x")
		mustBegin(t, l)
		mustInsert(t, l, table, b)
		mustInsert(t, l, passes, p)
		if ack, err := l.Insert(t.Context(), passes, p, 0, 1); err != nil || ack.Rows != 0 || ack.Skipped != 0 {
			t.Errorf("%+v, %v", ack, err)
		}
		ignores := *table
		ignores.Ignore = true
		if ack, err := l.Insert(t.Context(), &ignores, b, 0, 1); err != nil || ack.Rows != 0 || ack.Skipped != 1 {
			t.Errorf("%+v, %v", ack, err)
		}
		mustCommit(t, l)
		wantLines(t, db, "SELECT count(*) FROM log", "3")
	})
	for name, c := range map[string]struct {
		table  string
		pairs  []string
		before string
		after  string
		class  error
	}{
		"no table":  {"nowhere", []string{"a", "1"}, "", "", engine.ErrNoTable},
		"no column": {"r", []string{"nowhere", "1"}, "", "", nil},
		"read-only": {"r", []string{"c", "z"}, "PRAGMA query_only = ON", "PRAGMA query_only = OFF", nil},
		"disk full": {"r", []string{"c", strings.Repeat("x", 9e5)}, "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000", engine.ErrDiskFull},
	} {
		t.Run(name, func(t *testing.T) {
			mustBegin(t, l)
			mustInsert(t, l, notes.Table, notes.rows(9001))
			if _, err := db.write.Exec(c.before, nil); err != nil {
				t.Fatal(err)
			}
			table, b := batch(c.table, c.pairs...)
			_, err := l.Insert(t.Context(), table, b, 0, 1)
			if _, err := db.write.Exec(c.after, nil); err != nil {
				t.Fatal(err)
			}
			if err == nil || errors.Is(err, engine.ErrRefused) || engine.Retryable(err) || c.class != nil && !errors.Is(err, c.class) {
				t.Fatalf("got %v", err)
			}
			freeTurn(t, db)
			if err := l.Commit(t.Context()); err == nil {
				t.Error("a transaction that is over was committed")
			}
			wantLines(t, db, "SELECT count(*) FROM notes WHERE id = 9001", "0")
		})
	}
}
