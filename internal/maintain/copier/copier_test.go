package copier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
)

var must = enginetest.Must

func TestMain(m *testing.M) { testdb.Main(m) }

// onServers runs a test on each supported kind of database, in parallel with other
// tests. Each run has its own database.
func onServers(t *testing.T, test func(t *testing.T, db engine.Keeper)) {
	on(t, []string{"sqlite", "mariadb", "mysql", "postgres"}, test)
}

func on(t *testing.T, kinds []string, test func(t *testing.T, db engine.Keeper)) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) { test(t, testdb.Open(t, kind).(engine.Keeper)) })
}

func exec(t testing.TB, db engine.Keeper, q string, args ...any) {
	t.Helper()
	if _, err := db.SQL().Exec(db.Bind(q), args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// tables creates the tables a, with n rows, and b, with a composite key of each kind
// of type, and returns the copy from a to b.
func tables(t testing.TB, db engine.Keeper, n int) *Copy {
	t.Helper()
	blob, at, text, double := "VARBINARY(8)", "DATETIME(6)", "VARCHAR(20)", "DOUBLE"
	switch db.Info().Engine {
	case "postgres":
		blob, at, double = "BYTEA", "TIMESTAMP", "DOUBLE PRECISION"
	case "sqlite":
		blob, at, text = "BLOB", "DATETIME", "VARCHAR(20) COLLATE NOCASE"
	}
	for _, name := range []string{"a", "b"} {
		exec(t, db, "CREATE TABLE "+name+" (s "+text+" NOT NULL, n INT NOT NULL, d DECIMAL(12,3) NOT NULL, at "+at+" NOT NULL, raw "+blob+" NOT NULL, f "+double+" NOT NULL, v INT, "+
			"twice INT GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (s, n, d, at, raw, f))")
	}
	words := []string{"Äpfel", "apfel", "Birne", "birne\\'", "z'\"", "ß", "", "日本"}
	switch db.Info().Engine {
	case "mysql", "mariadb", "sqlite": // where some of them compare equal
		words = []string{"Äpfel", "Birne\\", "z'\"", "ß", "", "日本", "Quitte", "zz"}
	}
	const batch = 250
	for from := 0; from < n; from += batch {
		var rows []string
		var args []any
		for i := from; i < min(from+batch, n); i++ {
			rows = append(rows, "(?, ?, ?, ?, ?, ?, ?)")
			ts := time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC).Add(time.Duration(i%11) * 333333 * time.Microsecond).Format("2006-01-02 15:04:05.000000")
			args = append(args, words[i%len(words)], -i/len(words)%40, fmt.Sprintf("%d.%03d", i%7-3, i%5*125), ts, []byte{byte(i), 0, byte(i >> 8), '\\'}, float64(i)/3-100, i)
		}
		exec(t, db, "INSERT INTO a (s, n, d, at, raw, f, v) VALUES "+strings.Join(rows, ", "), args...)
	}
	return copyOf(t, db, "a", "b")
}

func copyOf(t testing.TB, db engine.Keeper, from, into string) *Copy {
	t.Helper()
	s, err := db.Describe(context.Background(), from)
	must(t, err)
	c := &Copy{DB: db, From: db.Dialect().Quote(from), Into: db.Dialect().Quote(into), Columns: s.Columns}
	for _, k := range s.PrimaryKey {
		c.Key = append(c.Key, *s.Column(k))
	}
	return c
}

func same(t testing.TB, c *Copy) {
	t.Helper()
	var n [2]int64
	var sums [2]string
	for i, name := range []string{"a", "b"} {
		must(t, c.DB.SQL().QueryRow("SELECT COUNT(*), "+c.DB.Words().RowHash(c.Columns)+" FROM "+name).Scan(&n[i], &sums[i]))
	}
	if n[0] != n[1] || sums[0] != sums[1] {
		t.Errorf("a has %d rows of %s, b %d of %s", n[0], sums[0], n[1], sums[1])
	}
}

func TestRun(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		c := tables(t, db, 3000)
		c.Where = "n > 1000"
		if n, err := c.Run(t.Context()); n != 0 || err != nil {
			t.Errorf("no rows: %d, %v", n, err)
		}
		c.Where, c.Chunk = "", 170
		chunks := 0
		c.Between = func(context.Context, []string, []string) error { chunks++; return nil }
		n, err := c.Run(t.Context())
		must(t, err)
		if n != 3000 || chunks < 3000/170 || chunks > 3000/170+2 {
			t.Errorf("%d rows in %d chunks", n, chunks)
		}
		same(t, c)
		// Copy again, with each way of treating existing rows.
		c.Skip = true
		if _, err := c.Run(t.Context()); err != nil {
			t.Errorf("skip: %v", err)
		}
		same(t, c)
		c.Skip = false
		if _, err := c.Run(t.Context()); !errors.Is(err, engine.ErrDuplicateKey) {
			t.Errorf("rows that are there already: %v", err)
		}
		exec(t, db, "DELETE FROM b")
		c.Where = "n > -20"
		if _, err := c.Run(t.Context()); err != nil {
			t.Error(err)
		}
		exec(t, db, "DELETE FROM a WHERE NOT (n > -20)")
		same(t, c)
	})
}

// TestRunGoesOn: rows appended during the copy are also copied, in as many rounds as
// requested, and the announced remaining rows are correct.
func TestRunGoesOn(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		for again, want := range []int{0: 9, 1: 10, 2: 11} {
			for _, name := range []string{"g", "h"} {
				exec(t, db, "DROP TABLE IF EXISTS "+name)
				exec(t, db, "CREATE TABLE "+name+" (id INT NOT NULL PRIMARY KEY)")
			}
			for id := range 9 {
				exec(t, db, "INSERT INTO g (id) VALUES (?)", id)
			}
			c := copyOf(t, db, "g", "h")
			c.Chunk, c.Again = 3, again
			last := 8
			c.Between = func(_ context.Context, after, until []string) error {
				// Append a row at the end of each round.
				if len(after) != 1 || after[0] != fmt.Sprint(last) {
					return nil
				}
				if round := last - 8; (until == nil) != (round < again) {
					t.Errorf("%d rounds: in round %d rows up to %v are still to come", again, round, until)
				}
				last++
				exec(t, db, "INSERT INTO g (id) VALUES (?)", last)
				return nil
			}
			if n, err := c.Run(t.Context()); err != nil || n != int64(want) {
				t.Errorf("%d rounds: %d rows, %v; want %d", again, n, err, want)
			}
		}
	})
}

// TestTrapKeysSortAsValues: if a key's text sorts differently from its value, ORDER
// BY must not use the text.
func TestTrapKeysSortAsValues(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		exec(t, db, "CREATE TABLE a (id BIGINT NOT NULL PRIMARY KEY)")
		exec(t, db, "CREATE TABLE b (id BIGINT NOT NULL PRIMARY KEY)")
		for i := -120; i < 1200; i += 7 {
			exec(t, db, "INSERT INTO a VALUES (?)", i)
		}
		c := copyOf(t, db, "a", "b")
		c.Chunk = 10
		if _, err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, c)
	})
}

// TestRunResumes: a connection lost between any two chunks loses and duplicates no
// row, because the key is recorded with the rows.
func TestRunResumes(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		c := tables(t, db, 1500)
		c.Chunk = 100
		st := state.New(db)
		must(t, st.Ensure(t.Context()))
		change := &state.Change{Table: "a", ID: "copy", Kind: "copy", Step: "copy"}
		if _, err := st.Begin(t.Context(), change, []string(nil)); err != nil {
			t.Fatal(err)
		}
		lost := errors.New("lost")
		for tries := 0; ; tries++ {
			if tries > 40 {
				t.Fatal("it doesn't end")
			}
			found, err := st.Change(t.Context(), "a", "copy")
			must(t, err)
			c.After = nil
			must(t, found.Load(&c.After))
			before, chunks := tries%2 == 0, 0
			c.Done = func(ctx context.Context, tx state.Exec, last []string, _ int64) error {
				if err := st.Advance(ctx, tx, found, "copy", last); err != nil {
					return err
				}
				if before && chunks == 1 { // after recording the key, before the commit
					return cut(ctx, db, tx, lost)
				}
				return nil
			}
			c.Between = func(context.Context, []string, []string) error {
				if chunks++; !before && chunks == 2 {
					return lost
				}
				return nil
			}
			_, err = c.Run(t.Context())
			if err == nil {
				break
			}
			if !errors.Is(err, lost) && !errors.Is(err, engine.ErrConnectionLost) {
				t.Fatal(err)
			}
		}
		same(t, c)
	})
}

// cut ends the connection of a transaction, and waits until the server has ended it.
func cut(ctx context.Context, db engine.Keeper, tx state.Exec, lost error) error {
	ask, end := "SELECT CONNECTION_ID()", "KILL %d"
	switch db.Info().Engine {
	case "sqlite":
		return lost // it has no connection
	case "postgres":
		ask, end = "SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d)"
	}
	var id int64
	if err := tx.QueryRowContext(ctx, ask).Scan(&id); err != nil {
		return err
	}
	if _, err := db.SQL().ExecContext(ctx, fmt.Sprintf(end, id)); err != nil {
		return err
	}
	for ; ; time.Sleep(time.Millisecond) {
		there, err := listed(ctx, db, id)
		if err != nil || !there {
			return err
		}
	}
}

// listed reports whether the server lists a session.
func listed(ctx context.Context, db engine.Keeper, id int64) (bool, error) {
	if lister, ok := db.(interface {
		Sessions(context.Context) ([]engine.ServerSession, error)
	}); ok {
		sessions, err := lister.Sessions(ctx)
		return slices.ContainsFunc(sessions, func(s engine.ServerSession) bool { return s.ID == id }), err
	}
	var n int
	err := db.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %d", id)).Scan(&n)
	return n > 0, err
}

// TestRangeUsesKey: a chunk reads its rows by the key's index, and few others.
func TestRangeUsesKey(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		exec(t, db, "CREATE TABLE a (x INT NOT NULL, y INT NOT NULL, z INT NOT NULL, v INT, PRIMARY KEY (x, y, z))")
		for x := range 2 {
			var rows []string
			for i := range 3000 {
				rows = append(rows, fmt.Sprintf("(%d, %d, %d, 1)", x, i/60, i%60))
			}
			exec(t, db, "INSERT INTO a VALUES "+strings.Join(rows, ", "))
		}
		c := copyOf(t, db, "a", "b")
		keys, err := engine.NewKeys(db, c.Key)
		must(t, err)
		conn, err := db.SQL().Conn(t.Context())
		must(t, err)
		defer conn.Close()
		last, err := keys.Nth(t.Context(), conn, "a", "", []string{"1", "20", "30"}, []string{"1", "49", "59"}, 100)
		if err != nil || !slices.Equal(last, []string{"1", "22", "10"}) {
			t.Fatalf("100 rows after (1, 20, 30): %v, %v", last, err)
		}
		where, args, err := keys.Range([]string{"1", "20", "30"}, last)
		must(t, err)
		q := db.Bind("SELECT COUNT(v) FROM a WHERE " + where)
		switch db.Info().Engine {
		case "sqlite", "postgres":
			explain := "EXPLAIN QUERY PLAN "
			if db.Info().Engine == "postgres" {
				explain = "EXPLAIN "
				exec(t, db, "ANALYZE a")
			}
			plan := lines(t, conn, explain+q, args...)
			if !strings.Contains(plan, "SEARCH a USING INDEX") && !strings.Contains(plan, "Index Cond: ((ROW(x, y, z)") && !strings.Contains(plan, "SEARCH a USING PRIMARY KEY") {
				t.Errorf("it isn't found by the key:\n%s", plan)
			}
		default:
			before, n := rowsRead(t, conn), 0
			if err := conn.QueryRowContext(t.Context(), q, args...).Scan(&n); err != nil || n != 100 {
				t.Fatalf("%d rows, %v", n, err)
			}
			if read := rowsRead(t, conn) - before; read < 100 || read > 200 {
				t.Errorf("%d rows were read for 100", read)
			}
		}
	})
}

// rowsRead returns the number of rows that a MySQL session has read in order.
func rowsRead(t *testing.T, conn *sql.Conn) (read int) {
	t.Helper()
	for _, s := range []string{"Handler_read_next", "Handler_read_rnd_next", "Handler_read_prev"} {
		var name string
		var n int
		must(t, conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE '"+s+"'").Scan(&name, &n))
		read += n
	}
	return read
}

func lines(t *testing.T, conn *sql.Conn, q string, args ...any) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), q, args...)
	must(t, err)
	defer rows.Close()
	cols, _ := rows.Columns()
	var out []string
	for rows.Next() {
		row := make([]any, len(cols))
		for i := range row {
			row[i] = new(sql.NullString)
		}
		must(t, rows.Scan(row...))
		out = append(out, row[len(row)-1].(*sql.NullString).String)
	}
	return strings.Join(out, "\n")
}

// TestRunWaitsForLocks: a chunk one of whose keys another transaction has inserted is
// retried until that ends.
func TestRunWaitsForLocks(t *testing.T) {
	// SQLite's statements wait by themselves.
	on(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, db engine.Keeper) {
		c := tables(t, db, 300)
		waitShortly(t, db)
		tx, err := db.SQL().Begin()
		must(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(c.Insert("n = -5"))
		must(t, err)
		var told []string
		c.Chunk = 50
		c.Paused = func(why string) {
			told = append(told, why)
			if why != "" && len(told) > 1 {
				if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
					t.Error(err)
				}
			}
		}
		if n, err := c.Run(t.Context()); err != nil || n != 300 {
			t.Fatalf("%d rows, %v", n, err)
		}
		same(t, c)
		if len(told) < 2 || told[len(told)-1] != "" {
			t.Errorf("told %q", told)
		}
	})
}

// waitShortly makes new connections wait for row locks for the shortest time that the
// server permits.
func waitShortly(t *testing.T, db engine.Keeper) {
	t.Helper()
	set := "SET SESSION innodb_lock_wait_timeout = 1"
	if db.Info().Engine == "postgres" {
		set = "SET lock_timeout = '50ms'"
	}
	const conns = 4 // more than are used at a time
	db.SQL().SetMaxIdleConns(conns)
	var idle [conns]*sql.Conn
	for i := range idle {
		conn, err := db.SQL().Conn(t.Context())
		must(t, err)
		if _, err := conn.ExecContext(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		idle[i] = conn
	}
	for _, conn := range idle {
		must(t, conn.Close())
	}
}

// A busy Keeper has as many statements as its test sets, in turn.
type busy struct {
	engine.Keeper
	running []int
}

func (b *busy) Running(context.Context) (int, error) { return next(&b.running), nil }

// next removes the first of several values, and returns it.
func next[T any](all *[]T) T {
	v := (*all)[0]
	if len(*all) > 1 {
		*all = (*all)[1:]
	}
	return v
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most    int
		running []int
		behind  []string
		want    []string
	}{
		"no limits": {},
		"idle":      {4, []int{4}, []string{""}, nil},
		"running":   {4, []int{5, 1}, nil, []string{"5 statements run, more than 4", ""}},
		"lag":       {0, nil, []string{"db2 is behind", ""}, []string{"db2 is behind", ""}},
		"both":      {4, []int{5, 1}, []string{"db2 is behind", ""}, []string{"db2 is behind", "5 statements run, more than 4", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			limits := Limits{Running: c.most}
			if c.behind != nil {
				limits.Waits = append(limits.Waits, func(context.Context) (string, error) { return next(&c.behind), nil })
			}
			th := Throttle{DB: &busy{running: c.running}, Limits: limits, pause: time.Millisecond, Paused: func(why string) { told = append(told, why) }}
			must(t, th.Wait(t.Context()))
			if !slices.Equal(told, c.want) {
				t.Errorf("told %q, want %q", told, c.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			critical := Throttle{DB: &busy{running: []int{3, 4}}, Limits: Limits{Critical: 4}}
			if first, then := critical.Wait(t.Context()), (&Throttle{DB: critical.DB, Limits: critical.Limits}).Wait(t.Context()); first != nil || !errors.Is(then, ErrCritical) {
				t.Errorf("critical: %v, then %v", first, then)
			}
			if err := th.Wait(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

func TestNewKeysRefuses(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	if _, err := engine.NewKeys(db, nil); err == nil {
		t.Error("no key")
	}
	if _, err := engine.NewKeys(db, []engine.SchemaColumn{{Name: "e", Native: "enum('b','a')"}}); err == nil {
		t.Error("an enumeration sorts by number and compares by name")
	}
	k, err := engine.NewKeys(db, []engine.SchemaColumn{{Name: "e", Native: "int", Type: value.Type{Kind: value.Int}}})
	must(t, err)
	if _, _, err := k.Range([]string{"x"}, nil); err == nil {
		t.Error("a key that is not a number")
	}
	if _, _, err := k.Range([]string{"1", "2"}, nil); err == nil {
		t.Error("a key of two values")
	}
}

// A spy records the last query for one row.
type spy struct {
	state.Exec
	query string
	args  []any
}

func (s *spy) QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row {
	s.query, s.args = q, args
	return s.Exec.QueryRowContext(ctx, q, args...)
}

// TestTrapChunksWithoutStatistics: the end of a chunk is found by the key's index
// also in a table without statistics. Sorting the remaining rows for each chunk would
// take time quadratic in the number of rows.
func TestTrapChunksWithoutStatistics(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := testdb.Open(t, "postgres").(engine.Keeper)
	exec(t, db, "CREATE TABLE a (id BIGINT NOT NULL PRIMARY KEY, note VARCHAR(80)) WITH (autovacuum_enabled = off)")
	exec(t, db, "INSERT INTO a SELECT i, repeat('x', 80) FROM generate_series(1, 200000) i")
	c := copyOf(t, db, "a", "b")
	keys, err := engine.NewKeys(db, c.Key)
	must(t, err)
	s := &spy{Exec: db.SQL()}
	last, err := keys.Nth(ctx, s, c.From, "", []string{"1000"}, []string{"200000"}, 5000)
	if err != nil || len(last) != 1 || last[0] != "6000" {
		t.Fatal(last, err)
	}
	rows, err := db.SQL().QueryContext(ctx, "EXPLAIN "+s.query, s.args...)
	must(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		must(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	if text := plan.String(); rows.Err() != nil || strings.Contains(text, "Sort") || !strings.Contains(text, "a_pkey") {
		t.Errorf("%s\n%s\n%v", s.query, text, rows.Err())
	}
}

// TestTrapKeyDoesntReadBack: a key may be greater than the value that its text reads
// back as, and is then found again after itself, as with bytes in a text column of
// SQLite. A traversal of such keys must end.
func TestTrapKeyDoesntReadBack(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	exec(t, db, "CREATE TABLE a (id TEXT NOT NULL PRIMARY KEY)")
	exec(t, db, "INSERT INTO a VALUES ('b'), (x'63')")
	keys, err := engine.NewKeys(db, []engine.SchemaColumn{{Name: "id", Native: "TEXT", Type: value.Type{Kind: value.Text}}})
	must(t, err)
	var at []string
	var seen []string
	for range 5 {
		if at, err = keys.Nth(t.Context(), db.SQL(), "a", "", at, nil, 1); err != nil || at == nil {
			break
		}
		seen = append(seen, at...)
	}
	if err == nil || !strings.Contains(err.Error(), "key c of a doesn't read back as the same value") || !slices.Equal(seen, []string{"b", "c"}) {
		t.Errorf("keys %q, error %v", seen, err)
	}
}
