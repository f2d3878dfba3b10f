package query

import "testing"

// TestUnlockable joins a materialized view, which PostgreSQL doesn't lock: the query is run whole.
func TestUnlockable(t *testing.T) {
	db := openReader(t, "postgres")
	do(t, db, "CREATE TABLE p (k int) PARTITION BY LIST (k)", "CREATE TABLE p_0 PARTITION OF p FOR VALUES IN (0)", "CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)",
		"INSERT INTO p VALUES (0), (1), (1)", "CREATE MATERIALIZED VIEW m AS SELECT 1 AS k")
	r := New(db, Options{Parallel: 2, Always: true})
	_, st := sessionOf(within(t), t, db)
	_, a, err := runSplit(within(t), r, "SELECT count(*) FROM p JOIN m USING (k)", st)
	values := make([][]byte, 1)
	if err != nil || a.err != nil || len(a.rows) != 1 {
		t.Fatalf("%v, %v", err, a.err)
	}
	if nextRow(a.rows[0], values); string(values[0]) != "2" {
		t.Errorf("%s rows, and not 2", values[0])
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
