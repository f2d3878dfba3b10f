package query

import (
	"fmt"
	"github.com/rowmill/rowmill/internal/query/merge"
	"os"
	"testing"
)

// TestUnlockable joins a table of which the account may read one column only: PostgreSQL doesn't
// lock it for the account, and the query is run whole.
func TestUnlockable(t *testing.T) {
	db := openReader(t, "postgres")
	role := fmt.Sprintf("rowmill_unlockable_%d", os.Getpid())
	do(t, db, "CREATE TABLE p (k int) PARTITION BY LIST (k)", "CREATE TABLE p_0 PARTITION OF p FOR VALUES IN (0)", "CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)",
		"INSERT INTO p VALUES (0), (1), (1)", "CREATE TABLE m AS SELECT 1 AS k, 2 AS secret", "CREATE ROLE "+role,
		"GRANT SELECT ON p, p_0, p_1 TO "+role, "GRANT SELECT (k) ON m TO "+role)
	t.Cleanup(func() { do(t, db, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	r := New(db, Options{Parallel: 2, Always: true})
	_, st := sessionOf(within(t), t, db)
	for i := range st {
		if st[i].Name == "role" {
			st[i].Value = role
		}
	}
	how, a, err := runSplit(within(t), r, "SELECT count(*) FROM p JOIN m USING (k)", st)
	values := make([][]byte, 1)
	if err != nil || a.err != nil || len(a.rows) != 1 {
		t.Fatalf("%v, %v", err, a.err)
	}
	if merge.NextRow(a.rows[0], values); string(values[0]) != "2" || how.whole == "" {
		t.Errorf("%s rows, and not 2, whole: %q", values[0], how.whole)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
