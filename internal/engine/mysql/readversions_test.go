package mysql_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
)

// TestPartVersions: each way to change the rows of a partition by DDL changes its version, and no other does.
func TestPartVersions(t *testing.T) {
	onEach(t, func(t *testing.T, db *mysql.DB) {
		c := session(t, db)
		exec := func(queries ...string) {
			t.Helper()
			for _, q := range queries {
				if _, err := c.ExecContext(within(t), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
		}
		trigger := func(event, rows string) string {
			return "CREATE TRIGGER note_" + event + " AFTER " + event + " ON `a b` FOR EACH ROW " + rows
		}
		insert := func(row string) string { return "INSERT IGNORE INTO notes VALUES (" + row + ".a)" }
		exec("CREATE TABLE notes (a INT PRIMARY KEY)",
			"CREATE TABLE `a b` (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION `p-1` VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))",
			"CREATE TABLE other (a INT PRIMARY KEY, b INT)",
			trigger("INSERT", insert("NEW")), trigger("DELETE", insert("OLD")), trigger("UPDATE", "BEGIN "+insert("OLD")+"; "+insert("NEW")+"; END"))
		versions := func() (map[string]string, string) {
			t.Helper()
			s, err := db.ReadSession(within(t), nil)
			must(t, err)
			defer s.Close()
			parts, err := db.TableParts(within(t), s, "", "a b")
			must(t, err)
			_, err = db.OneSnapshot(within(t), []*engine.Session{s}, false)
			must(t, err)
			v, why, err := db.PartVersions(within(t), s, parts, "notes")
			must(t, err)
			return v, why
		}
		if _, why := versions(); why != "its definition has just been changed" {
			t.Errorf("a new table: %q", why)
		}
		time.Sleep(2100 * time.Millisecond) // settled
		before, why := versions()
		if why != "" || len(before) != 3 {
			t.Fatalf("%v, %q", before, why)
		}
		for _, x := range []struct {
			change  []string
			changed []string
		}{
			{[]string{"INSERT INTO `a b` VALUES (1, 1), (11, 1), (21, 1)", "UPDATE `a b` SET b = 2", "DELETE FROM `a b` WHERE a = 1"}, nil},
			{[]string{"ANALYZE TABLE `a b`"}, nil},
			{[]string{"ALTER TABLE `a b` TRUNCATE PARTITION p0"}, []string{"p0"}},
			{[]string{"ALTER TABLE `a b` EXCHANGE PARTITION `p-1` WITH TABLE other"}, []string{"p-1"}},
			{[]string{"ALTER TABLE `a b` REBUILD PARTITION p2"}, []string{"p2"}},
			{[]string{"DROP TRIGGER note_INSERT", trigger("INSERT", insert("NEW"))}, []string{"p-1", "p0", "p2"}},
			{[]string{"ALTER TABLE `a b` DROP COLUMN b, ADD COLUMN b INT DEFAULT 7"}, []string{"p-1", "p0", "p2"}},
		} {
			exec(x.change...)
			now, why := versions()
			for i := 0; i < 60 && why == "its definition has just been changed"; i++ {
				time.Sleep(100 * time.Millisecond)
				now, why = versions()
			}
			if why != "" {
				t.Fatalf("%s: %s", x.change, why)
			}
			var changed []string
			for _, p := range slices.Sorted(maps.Keys(before)) {
				if now[p] != before[p] {
					changed = append(changed, p)
				}
			}
			for _, p := range x.changed {
				if !slices.Contains(changed, p) {
					t.Errorf("%s: partition %s has the same version", x.change, p)
				}
			}
			if len(x.changed) == 0 && len(changed) > 0 {
				t.Errorf("%s: partitions %s have other versions", x.change, changed)
			}
			before = now
		}
		for _, q := range []string{"DROP TRIGGER note_UPDATE", trigger("UPDATE", insert("NEW")), "DROP TRIGGER note_UPDATE"} {
			exec(q)
			if v, why := versions(); len(v) > 0 || why == "" {
				t.Errorf("%s: %v, %q", q, v, why)
			}
		}
	})
}
