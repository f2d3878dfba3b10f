package enginetest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// session opens a session that is closed when the test ends.
func session(t testing.TB, db engine.Keeper) *engine.Session {
	t.Helper()
	s, err := db.Session(within(t))
	if err != nil {
		t.Fatalf("session: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	return s
}

// run runs a statement that must affect so many rows; -1 allows any number.
func run(t testing.TB, s *engine.Session, affected int64, query string, args ...any) {
	t.Helper()
	n, err := s.Exec(within(t), query, args...)
	if err != nil || affected >= 0 && n != affected {
		t.Fatalf("%s: %d rows, %v, want %d", query, n, err, affected)
	}
}

// ask returns the rows of a query whose columns have the given types. Each row is one text: its
// values, joined by bars.
func ask(t testing.TB, s *engine.Session, types []engine.Type, query string, args ...any) (rows []string) {
	t.Helper()
	err := s.Query(within(t), columnsOf(types), func(b *engine.Batch) error {
		for i := range b.Rows() {
			var values []string
			for j := range b.Columns {
				text := "NULL"
				if v := &b.Columns[j]; !v.Null(i) {
					text = string(v.AppendText(nil, i))
				}
				values = append(values, text)
			}
			rows = append(rows, strings.Join(values, "|"))
		}
		return nil
	}, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return rows
}

func columnsOf(types []engine.Type) []engine.Column {
	cols := make([]engine.Column, len(types))
	for i, t := range types {
		cols[i] = engine.Column{Type: t, Null: true}
	}
	return cols
}

// oneText are the types of a row with one value.
var oneText = []engine.Type{engine.Varchar}

// wantRow checks the only row of a query.
func wantRow(t testing.TB, s *engine.Session, want, query string, args ...any) {
	t.Helper()
	if rows := ask(t, s, oneText, query, args...); len(rows) != 1 || rows[0] != want {
		t.Fatalf("%s: %q, want %q", query, rows, want)
	}
}

// sessionValues checks that values bound to a statement come back with their types.
func (s keepers) sessionValues(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 1)
	c, name := session(t, db), k.quote(k.template(t, "plain"))
	want := []string{}
	insert := "INSERT INTO " + name + " VALUES (?, ?, ?, ?, ?, ?, ?)"
	at := time.UnixMicro(k.parts[0].From).UTC().Format(value.TimeLayout)
	for i := range 20 {
		args := append([]any{int64(i), at}, values(i)...)
		run(t, c, 1, insert, args...)
		text := []string{fmt.Sprint(i), at}
		for _, v := range values(i) {
			switch v := v.(type) {
			case nil:
				text = append(text, "NULL")
			case []byte:
				text = append(text, string(v))
			case float64:
				text = append(text, string((&engine.Vector{Type: engine.Float64, Floats: []float64{v}}).AppendText(nil, 0)))
			default:
				text = append(text, fmt.Sprint(v))
			}
		}
		want = append(want, strings.Join(text, "|"))
	}
	types := []engine.Type{engine.Int64, engine.Time, engine.Int32, engine.Decimal, engine.Float64, engine.Varchar, engine.Binary}
	rows := ask(t, c, types, "SELECT id, ts, n, price, value, note, raw FROM "+name+" WHERE id >= ? ORDER BY id", 0)
	if db.Capabilities().Untyped { // it stores a decimal as a binary fraction
		cut := func(all []string) {
			for i, r := range all {
				f := strings.Split(r, "|")
				if n := strings.SplitN(f[3], ".", 2); len(n) == 2 {
					f[3] = strings.TrimRight(strings.TrimRight(f[3], "0"), ".")
				}
				all[i] = strings.Join(f, "|")
			}
		}
		cut(rows)
		cut(want)
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got rows\n%q\nwant\n%q", rows, want)
	}
	// More rows than one batch has.
	many := "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT n.i + 1000 * r.id FROM n, " + name + " r WHERE r.id < 3 ORDER BY 1"
	if rows := ask(t, c, []engine.Type{engine.Int64}, many); len(rows) != 3000 || rows[2999] != "3000" {
		t.Errorf("%d rows", len(rows))
	}
	// The caller's error is returned unchanged, and the session goes on.
	own := errors.New("enough")
	if err := c.Query(within(t), columnsOf(oneText), func(*engine.Batch) error { return own }, "SELECT id FROM "+name); err != own && !errors.Is(err, own) {
		t.Errorf("got %v, want the caller's error", err)
	}
	if rows := ask(t, c, []engine.Type{engine.Binary}, "SELECT raw FROM "+name+" WHERE id = ?", 1); len(rows) != 1 || !bytes.Equal([]byte(rows[0]), []byte{0, 1, 0xff, '\''}) {
		t.Errorf("bytes: %q", rows)
	}
}

// sessionTransaction checks when the changes of a transaction become visible, in its own session
// and in others; that Rollback and Close undo them; and that a read-only transaction can't write.
func (s keepers) sessionTransaction(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "accounts", "sequence", 1)
	a, b, name := session(t, db), session(t, db), k.quote(k.template(t, "plain"))
	run(t, a, 2, "INSERT INTO "+name+" (id, ts, n) VALUES (1, ?, 10), (2, ?, 20)", "2026-11-20 18:00:00", "2026-11-20 18:00:00")
	begin := func(c *engine.Session, tx engine.Transaction) {
		t.Helper()
		if err := c.Begin(within(t), tx); err != nil {
			t.Fatalf("begin: %v", err)
		}
	}
	n := "SELECT n FROM " + name + " WHERE id = ?"
	begin(a, engine.Transaction{})
	wantRow(t, a, "10", n, 1)
	run(t, a, 1, "UPDATE "+name+" SET n = n + ? WHERE id = ?", 5, 1)
	wantRow(t, a, "15", n, 1)
	wantRow(t, b, "10", n, 1)
	if err := a.Begin(within(t), engine.Transaction{}); err == nil {
		t.Error("a transaction within a transaction")
	}
	Must(t, a.Rollback(within(t)))
	wantRow(t, a, "10", n, 1)
	if _, err := a.Snapshot(within(t)); err == nil {
		t.Error("a shared snapshot without a transaction")
	}
	// A read-only transaction with repeatable reads sees the same rows throughout; it can't write.
	begin(a, engine.Transaction{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	wantRow(t, a, "10", n, 1)
	run(t, b, 1, "UPDATE "+name+" SET n = 16 WHERE id = 1")
	wantRow(t, a, "10", n, 1)
	if _, err := a.Exec(within(t), "UPDATE "+name+" SET n = 17 WHERE id = 2"); err == nil {
		t.Error("a read-only transaction wrote")
	}
	Must(t, a.Rollback(within(t)))
	wantRow(t, a, "16", n, 1)
	// Close rolls back.
	c, err := db.Session(within(t))
	Must(t, err)
	begin(c, engine.Transaction{})
	run(t, c, 1, "UPDATE "+name+" SET n = 99 WHERE id = 1")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	run(t, b, 1, "UPDATE "+name+" SET n = n + 1 WHERE id = 1") // waits for the end of c
	wantRow(t, b, "17", n, 1)
}

// failure returns the error that comes with a value.
func failure[T any](_ T, err error) error { return err }

// sessionErrors checks that each error has its class, and that the session can be used after it.
func (s keepers) sessionErrors(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "sequence", 1)
	c, name := session(t, db), k.quote(k.Name)
	insert := "INSERT INTO " + name + " (id, ts, n) VALUES (?, ?, 1)"
	const at = "2026-11-20 18:00:00"
	run(t, c, -1, insert, 1, at)
	for what, x := range map[string]struct {
		class error
		query string
		args  []any
	}{
		"duplicate key": {engine.ErrDuplicateKey, insert, []any{1, at}},
		"no period":     {engine.ErrNoPartition, insert, []any{100000, at}},
		"NULL":          {engine.ErrRefused, insert, []any{nil, at}},
		"no table":      {engine.ErrNoTable, "DELETE FROM nix", nil},
		"table exists":  {engine.ErrTableExists, "CREATE TABLE " + name + " (a INT PRIMARY KEY)", nil},
	} {
		Must(t, c.Begin(within(t), engine.Transaction{}))
		run(t, c, -1, insert, 2, at)
		if _, err := c.Exec(within(t), x.query, x.args...); !errors.Is(err, x.class) {
			t.Errorf("%s: got %v, want class %q", what, err, x.class)
		}
		if err := c.Rollback(within(t)); err != nil {
			t.Fatalf("%s: roll back: %v", what, err)
		}
		if what != "table exists" { // CREATE TABLE commits in some servers
			wantRow(t, c, "1", "SELECT COUNT(*) + 0 FROM "+name+" WHERE id < 10 AND id <> 2")
		}
		run(t, c, -1, "DELETE FROM "+name+" WHERE id = 2")
	}
	if err := c.Query(within(t), columnsOf(oneText), func(*engine.Batch) error { return nil }, "SELECT * FROM nix"); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("query of a missing table: %v", err)
	}
	if _, err := c.Exec(canceled(), insert, 5, at); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	run(t, c, -1, insert, 5, at)
}

// sessionKill checks that a session which waits for a row's lock is ended by Kill, or by the end of
// its call's context. The server must then roll back the session's changes.
func (s keepers) sessionKill(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "sequence", 1)
	a, name := session(t, db), k.quote(k.Name)
	if db.Capabilities().Embedded {
		wantError(t, db.Kill(within(t), 1), engine.ErrUnsupported)
		if a.ID() != 0 {
			t.Errorf("id %d", a.ID())
		}
		return
	}
	const at = "2026-11-20 18:00:00"
	// Row 5 separates the rows that the sessions lock.
	run(t, a, 2, "INSERT INTO "+name+" (id, ts, n) VALUES (1, ?, 0), (5, ?, 0)", at, at)
	Must(t, a.Begin(within(t), engine.Transaction{}))
	run(t, a, 1, "UPDATE "+name+" SET n = 1 WHERE id = 1")
	for _, how := range []string{"kill", "context"} {
		b := session(t, db)
		if b.ID() == a.ID() || b.ID() == 0 {
			t.Errorf("ids %d and %d", a.ID(), b.ID())
		}
		Must(t, b.Begin(within(t), engine.Transaction{}))
		run(t, b, 1, "INSERT INTO "+name+" (id, ts, n) VALUES (7, ?, 0)", at)
		ctx, cancel := context.WithCancel(within(t))
		result := make(chan error, 1)
		go func() {
			_, err := b.Exec(ctx, "UPDATE "+name+" SET n = 2 WHERE id = 1")
			result <- err
		}()
		select {
		case err := <-result:
			t.Fatalf("it didn't wait for the row's lock: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		want := engine.ErrConnectionLost
		if how == "kill" {
			Must(t, db.Kill(within(t), b.ID()))
		} else {
			want = context.Canceled
			cancel()
		}
		wantError(t, <-result, want)
		cancel()
		if err := failure(b.Exec(within(t), "DELETE FROM "+name)); how == "context" && !errors.Is(err, engine.ErrConnectionLost) {
			t.Errorf("after its end: %v", err)
		}
		wantRow(t, session(t, db), "0", "SELECT COUNT(*) + 0 FROM "+name+" WHERE id = 7")
	}
	if err := db.Kill(within(t), 1<<30); err != nil {
		t.Errorf("a connection that doesn't exist: %v", err)
	}
	Must(t, a.Rollback(within(t)))
}

// sessionState checks that a session's settings are its own.
func (s keepers) sessionState(t *testing.T) {
	db := s.open(t)
	a, b := session(t, db), session(t, db)
	setting := map[string][2]string{"postgres": {"work_mem", "1MB"}, "sqlite": {"cache_size", "77"}}[db.Info().Engine]
	if setting[0] == "" {
		setting = [2]string{"sort_buffer_size", "1048576"}
	}
	get := func(c *engine.Session) string {
		t.Helper()
		v, err := c.State(within(t), setting[0])
		Must(t, err)
		return v
	}
	before := get(b)
	Must(t, a.SetState(within(t), setting[0], setting[1]))
	if got, other := get(a), get(b); got != setting[1] || other != before || got == before {
		t.Errorf("%s is %q here and %q in another session, before %q", setting[0], got, other, before)
	}
	for _, name := range []string{"", "x; DROP TABLE y", "'"} {
		if err := a.SetState(within(t), name, "1"); err == nil {
			t.Errorf("setting %q was set", name)
		}
	}
	Must(t, a.Close())
	if after := get(session(t, db)); after != before {
		t.Errorf("a new session has the setting of a closed one: %q", after)
	}
}

// sessionSnapshot checks that two sessions read the same rows while a third changes
// them.
func (s keepers) sessionSnapshot(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "sequence", 1)
	a, b, writer, name := session(t, db), session(t, db), session(t, db), k.quote(k.Name)
	Must(t, a.Begin(within(t), engine.Transaction{Isolation: sql.LevelRepeatableRead, ReadOnly: true}))
	snapshot, err := a.Snapshot(within(t))
	if !db.Capabilities().SharesSnapshots {
		wantError(t, err, engine.ErrUnsupported)
		wantError(t, b.Begin(within(t), engine.Transaction{Snapshot: "x"}), engine.ErrUnsupported)
		return
	}
	Must(t, err)
	run(t, writer, 1, "INSERT INTO "+name+" (id, ts, n) VALUES (1, ?, 0)", "2026-11-20 18:00:00")
	Must(t, b.Begin(within(t), engine.Transaction{Snapshot: snapshot, ReadOnly: true}))
	for _, c := range []*engine.Session{a, b} {
		wantRow(t, c, "0", "SELECT COUNT(*) FROM "+name)
	}
	Must(t, errors.Join(a.Rollback(within(t)), b.Rollback(within(t))))
	if err := b.Begin(within(t), engine.Transaction{Snapshot: snapshot}); err == nil {
		t.Error("the snapshot of an ended transaction")
	}
	wantRow(t, b, "1", "SELECT COUNT(*) FROM "+name)
}
