package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// removeDeclaration has everything that rowmill makes for a table.
const removeDeclaration = intsTable + `
exact  = true

[period]
every = "1h"
ahead = "4h"
late  = "reject"

[seal]
after = "30m"

[[rollup]]
name   = "readings_1h"
every  = "1h"
select = { n = "count(*)" }
`

// catalogs are the queries for the names of all objects of a database, with rowmill's among them.
var catalogs = map[string]string{
	"sqlite": "SELECT type || ' ' || name FROM sqlite_schema",
	"postgres": "SELECT relkind::text || ' ' || relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace " +
		"UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE NOT tgisinternal",
	"mysql": "SELECT CONCAT(TABLE_TYPE, ' ', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() UNION ALL SELECT CONCAT('trigger ', TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() " +
		"UNION ALL SELECT CONCAT('partition ', PARTITION_NAME) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND PARTITION_NAME IS NOT NULL UNION ALL SELECT CONCAT('routine ', ROUTINE_NAME) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()",
}

// objects returns the names of a database's objects that contain a word.
func objects(t *testing.T, db engine.Keeper, word string) (out []string) {
	t.Helper()
	kind := db.Info().Engine
	if kind == "mariadb" {
		kind = "mysql"
	}
	must(t, engine.Each(t.Context(), db, db.SQL(), func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		if strings.Contains(strings.ToLower(name), word) {
			out = append(out, name)
		}
		return err
	}, catalogs[kind]))
	return out
}

// TestRemove removes a table whose process is killed at each kind of point: nothing of rowmill's is
// left, and all rows are there.
func TestRemove(t *testing.T) {
	t.Parallel()
	onEach(t, testdb.OneKind(t, keepers...), func(t *testing.T, kind string) {
		d := declare(t, kind, removeDeclaration)
		start := time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC)
		d.tick(start)
		mustPass(t, d.run("apply", "--yes"))
		for hour := range 3 {
			for sensor := range 5 {
				execSQL(t, d.db, fmt.Sprintf("INSERT INTO readings VALUES (%d, '%s', %d)", sensor, start.Add(time.Duration(hour)*time.Hour).Format(time.DateTime), hour))
			}
		}
		d.tick(start.Add(3 * time.Hour))
		mustPass(t, d.run("run", "--once"))
		sum := func(from string) (sum string) {
			t.Helper()
			must(t, d.db.SQL().QueryRowContext(t.Context(), "SELECT CONCAT(COUNT(*), ' ', SUM(sensor), ' ', SUM(value)) FROM "+from).Scan(&sum))
			return sum
		}
		was, rolled := sum("readings"), count(t, d.db, "readings_1h")
		if len(objects(t, d.db, "rowmill")) < 15 || rolled == 0 {
			t.Fatalf("%v, %d buckets", objects(t, d.db, "rowmill"), rolled)
		}
		if s := d.run("remove", "--dry-run"); !strings.Contains(s.stdout, "-- stop keeping readings") || !strings.Contains(s.stdout, "DROP TABLE IF EXISTS") {
			t.Errorf("%s%s", s.stdout, s.stderr)
		}
		if s := d.run("remove"); s.code == exitDone || !strings.Contains(s.stderr, "1. stop keeping readings") {
			t.Errorf("exit %d: %s", s.code, s.stderr)
		}
		kills := 0
		for d.crashVerb(crashLogVariable, filepath.Join(d.dir, "passed"), "remove", d.file, "--yes") {
			kills++
		}
		if kills < 15 {
			t.Errorf("it was killed at %d points only", kills)
		}
		if left := objects(t, d.db, "rowmill"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if left := objects(t, d.db, "_live"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if got := sum("readings"); got != was {
			t.Errorf("rows %s, before %s", got, was)
		}
		if got := count(t, d.db, "readings_1h"); got != rolled {
			t.Errorf("%d buckets, before %d", got, rolled)
		}
		execSQL(t, d.db, "INSERT INTO readings VALUES (99, '2026-03-29 00:50:00', 1)") // a late row, which is refused no longer
		if s := d.run("remove", "--yes"); s.code != exitDone || !strings.Contains(s.stdout, "nothing of rowmill's belongs to table readings") {
			t.Errorf("exit %d: %s%s", s.code, s.stdout, s.stderr)
		}
		execSQL(t, d.db, "DROP TABLE readings_1h")
		mustPass(t, d.run("apply", "--yes")) // and back
		if kind == "sqlite" {                // it was plain, and was adopted
			mustPass(t, d.run("apply", "--finish", "--yes"))
		}
		was = sum("readings")
		stays := map[string][2]string{"postgres": {"CREATE VIEW mine AS SELECT * FROM readings", "DROP VIEW mine"},
			"sqlite": {"SELECT 1", "SELECT 1"}}[kind]
		if stays[0] == "" {
			stays = [2]string{"CREATE TRIGGER mine BEFORE INSERT ON readings FOR EACH ROW SET NEW.value = NEW.value", "DROP TRIGGER mine"}
		}
		execSQL(t, d.db, stays[0])
		if s := d.run("remove", "--plain", "--yes"); kind != "sqlite" && (s.code != exitFailed || !strings.Contains(s.stderr, " mine would stay with ") || !strings.Contains(d.run("status").stdout, "readings_1h")) {
			t.Errorf("exit %d: %s", s.code, s.stderr)
		}
		execSQL(t, d.db, stays[1])
		if kind == "postgres" {
			execSQL(t, d.db, "CREATE INDEX named_so ON readings (value)")
		}
		if testdb.Nightly() { // else TestCutOff kills at its points
			for d.crashVerb(crashLogVariable, filepath.Join(d.dir, "passed plainly"), "remove", d.file, "--plain", "--drop-rollups", "--yes") {
			}
		} else {
			mustPass(t, d.run("remove", "--plain", "--drop-rollups", "--yes"))
		}
		if left := append(objects(t, d.db, "rowmill"), objects(t, d.db, "partition ")...); len(left) > 0 || sum("readings") != was || kind == "postgres" && len(objects(t, d.db, "named_so")) != 1 {
			t.Errorf("as a plain table it has rows %s, before %s; left: %v", sum("readings"), was, left)
		}
	})
}
