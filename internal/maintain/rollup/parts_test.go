package rollup_test

import (
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestAlteredAllTheTime: after an ALTER TABLE of another table, a partition that was written may
// have left the table, and is computed again; where that happens all the time, it is so for a part
// of the time only, while late rows are still included.
func TestAlteredAllTheTime(t *testing.T) {
	on(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		// A server of its own, whose counter of ALTER TABLE counts this test's alone.
		f := openOn(t, testdb.Open(t, kind+"?memory=72MB").(engine.Keeper), kind, true, few(t))
		f.counts()
		f.exec("CREATE TABLE other (a INT)")
		m := model(some(start+hour, 20))
		f.bypass(f.db.SQL(), m...)
		f.refresh(start + day)
		late := 0
		write := func() (computed int) {
			t.Helper()
			late++
			r := row{1, "a", start + 2*hour, late, 1.0, 1, "x"}
			f.bypass(f.db.SQL(), r)
			m = append(m, r)
			f.exec("ALTER TABLE other COMMENT = 'altered'")
			n := f.refresh(start + day)
			f.checkTables(m, start+day)
			return n
		}
		f.set.PauseForTest(-time.Second)
		all := write()
		if all <= 2 {
			t.Fatalf("%d buckets were computed after an ALTER TABLE, want all of the partition", all)
		}
		// The server forgets when the other partitions were written. For rowmill's own changes that is no
		// reason to compute them again.
		change := func(statement string) {
			t.Helper()
			settle, err := f.set.Compare(t.Context())
			must(t, err)
			f.exec(statement)
			settle(t.Context())
		}
		change("ALTER TABLE readings ADD PARTITION (PARTITION last VALUES LESS THAN MAXVALUE)")
		testdb.NextSecond(t, f.db.SQL())
		f.set.PauseForTest(-time.Second) // the last refresh has begun one
		f.refresh(start + day)
		change("ALTER TABLE readings REBUILD PARTITION last")
		f.exec("ALTER TABLE other COMMENT = 'altered'")
		f.set.PauseForTest(-time.Second)
		if n := f.refresh(start + day); n != 0 {
			t.Fatalf("%d buckets were computed after rowmill changed the table's definition, want none", n)
		}
		testdb.NextSecond(t, f.db.SQL())
		if kind == "mysql" { // MariaDB doesn't forget them
			f.exec("ALTER TABLE readings REBUILD PARTITION last")
			f.set.PauseForTest(-time.Second)
			if n := f.refresh(start + day); n != all {
				t.Errorf("%d buckets were computed after somebody changed the table's definition, want %d", n, all)
			}
		}
		f.set.PauseForTest(time.Hour)
		for range 3 {
			if n := write(); n > 2 {
				t.Errorf("%d buckets were computed again, want those of the late row", n)
			}
		}
		f.set.PauseForTest(-time.Second)
		if n := f.refresh(start + day); n != all {
			t.Errorf("%d buckets were computed after the pause, want %d", n, all)
		}
	})
}

// counts waits until the server is old enough for its counter of ALTER TABLE to prove something.
func (f *fixture) counts() {
	f.t.Helper()
	testdb.Until(f.t, "the server counts", func() bool {
		now, err := f.db.(engine.PartIdentifier).PartIdentities(f.t.Context(), nil, "", f.table.Name, nil)
		must(f.t, err)
		return now.Alters != ""
	})
}
