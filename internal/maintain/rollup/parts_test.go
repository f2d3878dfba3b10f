package rollup_test

import (
	"testing"
	"time"
)

// TestAlteredAllTheTime: after an ALTER TABLE of another table, a partition that was written may have left the table, and is computed again;
// where that happens all the time, it is so for a part of the time only, while late rows are still included.
func TestAlteredAllTheTime(t *testing.T) {
	on(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		f := open(t, kind, true, few(t))
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
		// While another test waits for a lock, the server's counter proves nothing, and the partition is compared later.
		whole := func(fn func() int) int {
			t.Helper()
			n := 0
			for range 100 {
				f.set.PauseForTest(-time.Second)
				if n = fn(); n > 2 {
					return n
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Fatalf("%d buckets were computed after an ALTER TABLE, want all of the partition", n)
			return 0
		}
		all := whole(write)
		// The server forgets when the other partitions were written. For rowmill's own changes that is no reason to compute them again.
		change := func(statement string) {
			t.Helper()
			settle, err := f.set.Compare(t.Context())
			must(t, err)
			f.exec(statement)
			settle(t.Context())
		}
		change("ALTER TABLE readings ADD PARTITION (PARTITION last VALUES LESS THAN MAXVALUE)")
		for try := 0; ; try++ { // while another test waits for a lock, comparisons aren't recorded
			time.Sleep(1100 * time.Millisecond) // times of changes have the resolution of seconds
			f.refresh(start + day)
			change("ALTER TABLE readings REBUILD PARTITION last")
			f.exec("ALTER TABLE other COMMENT = 'altered'")
			f.set.PauseForTest(-time.Second)
			n := f.refresh(start + day)
			if n == 0 {
				break
			}
			if try == 20 {
				t.Fatalf("%d buckets were computed after rowmill changed the table's definition, want none", n)
			}
		}
		time.Sleep(1100 * time.Millisecond)
		if kind == "mysql" { // MariaDB doesn't forget them
			f.exec("ALTER TABLE readings REBUILD PARTITION last")
			if n := whole(func() int { return f.refresh(start + day) }); n != all {
				t.Errorf("%d buckets were computed after somebody changed the table's definition, want %d", n, all)
			}
		}
		f.set.PauseForTest(time.Hour)
		for range 3 {
			if n := write(); n > 2 {
				t.Errorf("%d buckets were computed again, want those of the late row", n)
			}
		}
		if n := whole(func() int { return f.refresh(start + day) }); n != all {
			t.Errorf("%d buckets were computed after the pause, want %d", n, all)
		}
	})
}
