package query

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestTrapRenamedWhileRead puts another table in the place of one while a query waits for its lock,
// as tools that change tables online do: the other one has more partitions, and rows that the
// query's snapshot doesn't have.
func TestTrapRenamedWhileRead(t *testing.T) {
	db := openReader(t, "mysql")
	for _, table := range []string{"old (id INT NOT NULL PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2", "new (id INT NOT NULL PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4"} {
		name, _, _ := strings.Cut(table, " ")
		do(t, db, "CREATE TABLE "+table, "INSERT INTO "+name+" VALUES (0), (1), (2), (3), (4), (5), (6), (7)")
	}
	r := New(db, Options{Parallel: 2, Always: true})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	_, st := sessionOf(within(t), t, db)
	p, err := r.Plan(within(t), "SELECT COUNT(*) FROM old", st)
	if err != nil || p.Whole != "" {
		t.Fatalf("%v, whole: %s", err, p.Whole)
	}
	conn, err := db.SQL().Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exec := func(query string) {
		t.Helper()
		if _, err := conn.ExecContext(within(t), query); err != nil {
			t.Fatal(err)
		}
	}
	exec("LOCK TABLES old WRITE, new WRITE")
	a := newAnswer()
	type ran struct {
		*Report
		error
	}
	ended := make(chan ran, 1)
	go func() {
		report, err := r.Run(within(t), p, a)
		ended <- ran{report, err}
	}()
	for waiting := 0; waiting < 2; {
		select {
		case got := <-ended:
			t.Fatalf("the query didn't wait: %v", got.error)
		case <-time.After(2 * time.Millisecond):
		}
		if err := conn.QueryRowContext(within(t), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE LIKE 'Waiting for%' AND INFO LIKE 'SELECT 1 FROM%'").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO new VALUES (8)")
	exec("RENAME TABLE old TO gone, new TO old")
	exec("UNLOCK TABLES")
	got := <-ended
	if got.error != nil {
		t.Fatal(got.error)
	}
	values := make([][]byte, 1)
	if merge.NextRow(a.rows[0], values); string(values[0]) != "9" || got.Rerun != "old was altered while the query began" {
		t.Errorf("%s rows, and not 9, run again: %q", values[0], got.Rerun)
	}
}

// TestPrunedForAnotherTable runs a plan whose partitions are those of another table, which had the
// name while the server planned.
func TestPrunedForAnotherTable(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		r := f.runner(Options{Always: true, Parallel: 2})
		p, err := r.Plan(within(t), "SELECT COUNT(*), MAX(id) FROM t AS x WHERE id < 700", f.state)
		if err != nil || p.Whole != "" || p.Pruned != 3 {
			t.Fatalf("%v, whole: %s, %d partitions are pruned", err, p.Whole, p.Pruned)
		}
		if report := f.same(r, p, true); report.Rerun != "" {
			t.Errorf("run again: %s", report.Rerun)
		}
		p.Parts, p.Pruned = p.Parts[:4], 6
		p.Pieces = groupParts(p.Table, p.Parts, 2)
		if report := f.same(r, p, true); report.Rerun != "t was altered while the query began" {
			t.Errorf("run again: %q", report.Rerun)
		}
	})
}

// TestPartitionIsGone runs a piece of a partition that the table no longer has.
func TestPartitionIsGone(t *testing.T) {
	f := newFixture(t, "mysql")
	s, err := f.ReadSession(within(t), f.state)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ change, query string }{
		{"ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION p01 VALUES LESS THAN (200))", "SELECT COUNT(*) FROM t PARTITION (p0)"},
		{"ALTER TABLE t REMOVE PARTITIONING", "SELECT COUNT(*) FROM t PARTITION (p2)"},
	} {
		do(t, f.Reader, c.change)
		err := s.Text(within(t), c.query, nil, func([][]byte) error { return nil })
		if !errors.Is(err, engine.ErrAltered) || rerunReason(err) == "" {
			t.Errorf("%s: %v", c.query, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
