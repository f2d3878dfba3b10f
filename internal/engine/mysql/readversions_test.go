package mysql_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
)

// TestPartVersions: each way to change the rows of a partition by DDL changes its version, and no
// other does. Each change has a table of its own, so that all definitions become two seconds old at
// the same time.
func TestPartVersions(t *testing.T) {
	onEach(t, func(t *testing.T, db *mysql.DB) {
		c := session(t, db)
		exec := func(query string) {
			t.Helper()
			if _, err := c.ExecContext(within(t), query); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		const all = "p-1 p0 p2"
		// T is the table, N its notes, and O a table without partitions.
		noteI := "CREATE TRIGGER `T i` AFTER INSERT ON `T` FOR EACH ROW INSERT IGNORE INTO `N` VALUES (NEW.a)"
		noteU := "CREATE TRIGGER `T u` AFTER UPDATE ON `T` FOR EACH ROW BEGIN INSERT IGNORE INTO `N` VALUES (OLD.a); INSERT IGNORE INTO `N` VALUES (NEW.a); END"
		noteD := "CREATE TRIGGER `T d` AFTER DELETE ON `T` FOR EACH ROW INSERT IGNORE INTO `N` VALUES (OLD.a)"
		tests := []struct {
			change  []string
			changed string // the partitions whose versions must change
			kept    string // those whose versions must not
			before  map[string]string
		}{
			{change: []string{"INSERT INTO `T` VALUES (2, 1)", "UPDATE `T` SET b = 2 WHERE a = 2", "DELETE FROM `T` WHERE a = 1", "ANALYZE TABLE `T`", "ALTER TABLE `O` ADD COLUMN c INT"}, kept: "p-1 p2"},
			{change: []string{"ALTER TABLE `T` TRUNCATE PARTITION p0"}, changed: "p0"},
			{change: []string{"ALTER TABLE `T` EXCHANGE PARTITION `p-1` WITH TABLE `O`"}, changed: "p-1"},
			{change: []string{"ALTER TABLE `T` EXCHANGE PARTITION p2 WITH TABLE `O`", "UPDATE `O` SET b = 7", "ALTER TABLE `T` EXCHANGE PARTITION p2 WITH TABLE `O`"}, changed: "p2", kept: "p-1"},
			{change: []string{"ALTER TABLE `T` EXCHANGE PARTITION p2 WITH TABLE `O`", "ALTER TABLE `T` EXCHANGE PARTITION p2 WITH TABLE `O`", "ALTER TABLE `O` DISCARD TABLESPACE"}, kept: "p-1 p0"},
			{change: []string{"ALTER TABLE `T` REBUILD PARTITION p2"}, changed: "p2"},
			{change: []string{"DROP TRIGGER `T i`", noteI}, changed: all},
			{change: []string{"ALTER TABLE `T` DROP COLUMN b, ADD COLUMN b INT DEFAULT 7"}, changed: all},
		}
		table := func(i int) string { return fmt.Sprintf("a b%d", i) }
		on := func(i int, queries ...string) {
			t.Helper()
			for _, q := range queries {
				exec(strings.NewReplacer("`T", "`"+table(i), "`N", fmt.Sprintf("`notes%d", i), "`O", fmt.Sprintf("`other%d", i)).Replace(q))
			}
		}
		versions := func(i int) (map[string]string, string) {
			t.Helper()
			s, err := db.ReadSession(within(t), nil)
			must(t, err)
			defer s.Close()
			parts, err := db.TableParts(within(t), s, "", table(i))
			must(t, err)
			_, err = db.OneSnapshot(within(t), []*engine.Session{s}, nil, false)
			must(t, err)
			v, why, err := db.PartVersions(within(t), s, parts, fmt.Sprintf("`notes%d`", i))
			must(t, err)
			return v, why
		}
		settled := func(i int, what any) map[string]string {
			t.Helper()
			v, why := versions(i)
			for n := 0; n < 600 && why == "its definition has just been changed"; n++ {
				time.Sleep(100 * time.Millisecond)
				v, why = versions(i)
			}
			if why != "" || len(v) != 3 {
				t.Fatalf("%v: %v, %q", what, v, why)
			}
			return v
		}
		for i, x := range tests {
			begin := time.Now()
			on(i, "CREATE TABLE `N` (a INT PRIMARY KEY)",
				"CREATE TABLE `T` (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION `p-1` VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))",
				noteI, noteU, noteD, "INSERT INTO `T` VALUES (1, 1), (11, 1), (21, 1)")
			if strings.Contains(fmt.Sprint(x.change), "`O`") {
				on(i, "CREATE TABLE `O` (a INT PRIMARY KEY, b INT)")
			}
			if _, why := versions(i); why != "its definition has just been changed" && time.Since(begin) < time.Second {
				t.Errorf("a new table: %q", why)
			}
		}
		time.Sleep(3100 * time.Millisecond) // then the rows are old enough to be told from later ones
		for i := range tests {
			tests[i].before = settled(i, "a new table")
		}
		for i, x := range tests {
			on(i, x.change...)
		}
		for i, x := range tests {
			now := settled(i, x.change)
			var changed []string
			for _, p := range slices.Sorted(maps.Keys(x.before)) {
				if now[p] != x.before[p] {
					changed = append(changed, p)
				}
			}
			for _, p := range strings.Fields(x.changed) {
				if !slices.Contains(changed, p) {
					t.Errorf("%s: partition %s has the same version", x.change, p)
				}
			}
			for _, p := range strings.Fields(x.kept) {
				if slices.Contains(changed, p) {
					t.Errorf("%s: partition %s has another version", x.change, p)
				}
			}
		}
		// InnoDB's ids are found by names without regard to case.
		exec("CREATE TABLE `A B0` LIKE `a b0`")
		for _, name := range []string{"a b0", "A B0"} {
			ids := func() string {
				t.Helper()
				now, err := db.PartIdentities(within(t), nil, "", name, []string{"p0"})
				must(t, err)
				if now.IDs["p0"] == "" {
					t.Errorf("partition p0 of %s has no identity: %s", name, now.Why)
				}
				return now.IDs["p0"]
			}
			before := ids()
			exec("ALTER TABLE `" + name + "` TRUNCATE PARTITION p0")
			if ids() == before {
				t.Errorf("partition p0 of %s has the same identity after TRUNCATE", name)
			}
		}
		exec("CREATE TABLE `elsewhere` (a INT) ENGINE = MyISAM")
		if now, err := db.PartIdentities(within(t), nil, "", "elsewhere", nil); err != nil || !strings.Contains(now.Why, "another storage engine") {
			t.Errorf("a table of MyISAM: %+v, %v", now, err)
		}
		for _, q := range []string{"DROP TRIGGER `T u`",
			"CREATE TRIGGER `T u` AFTER UPDATE ON `T` FOR EACH ROW INSERT IGNORE INTO `N` VALUES (NEW.a)", "DROP TRIGGER `T u`"} {
			on(0, q)
			if v, why := versions(0); len(v) > 0 || why == "" {
				t.Errorf("%s: %v, %q", q, v, why)
			}
		}
	})
}
