package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// crashDeclaration seals, merges, compresses, archives and drops within a few
// hours. The %s are the target, the type of a time, and the archive's folder.
const crashDeclaration = `
[table]
name   = "readings"
target = "%s"
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts %s NOT NULL, value INT NOT NULL,
  PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1h"
ahead = "12h"
keep  = "6h"

[seal]
after    = "30m"
merge    = "3h"
compress = true
archive  = "%s"

[[rollup]]
name   = "readings_1h"
every  = "1h"
by     = ["sensor"]
select = { n = "count(*)", total = "sum(value)", mean = "avg(value)" }
`

// TestKillAtEachPoint: rowmill run is killed at the first point of its changes,
// at the second, and so on, until it comes through; each time the next one ends
// in the same state as if nothing had happened.
func TestKillAtEachPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some hundred processes")
	}
	for _, server := range testdb.Kinds(t, "sqlite", "mariadb", "mysql", "postgres") {
		t.Run(server, func(t *testing.T) {
			want := crashRun(t, server, 0)
			var points atomic.Int64
			const wave = 6 // at a time: they mostly wait for the disk
			for first := 1; int(points.Load()) == first-1 && !t.Failed(); first += wave {
				t.Run(fmt.Sprintf("from %d", first), func(t *testing.T) {
					for n := first; n < first+wave; n++ {
						t.Run(fmt.Sprint(n), func(t *testing.T) {
							t.Parallel()
							got := crashRun(t, server, n)
							points.Add(int64(got.killed))
							if got.state != want.state {
								t.Errorf("killed at point %d it ends as\n%s\nwant\n%s", n, got.state, want.state)
							}
						})
					}
				})
			}
			if points.Load() < 60 {
				t.Errorf("it was killed at %d points only", points.Load())
			}
			t.Logf("killed at %d points", points.Load())
		})
	}
}

// A crashResult is how a table stands after a run that was killed.
type crashResult struct {
	killed int
	state  string
}

// crashRun fills a table for nine hours, and keeps it afterwards: the first
// rowmill run, which has everything to do, is killed at the n-th point.
func crashRun(t *testing.T, server string, n int) crashResult {
	t.Helper()
	target := testdb.Target(t, server)
	opened, err := openTarget(t.Context(), target.String(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := opened.close(); err != nil {
			t.Error(err)
		}
	}()
	db := opened.DB.(engine.Keeper)
	dir := t.TempDir()
	file, clock := filepath.Join(dir, "readings.toml"), filepath.Join(dir, "clock")
	typ := "DATETIME"
	if server == "postgres" {
		typ = "TIMESTAMP"
	}
	text := fmt.Sprintf(crashDeclaration, target.String(), typ, filepath.Join(dir, "archive"))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := rolling.ParseDeclaration(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	table := &engine.Table{Name: d.Name, Grid: d.Period, By: d.Time, Definition: d.Definition, PrimaryKey: d.Definition.PrimaryKey}
	start := time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC)
	set := func(now time.Time) {
		if err := os.WriteFile(clock, []byte(now.Format(time.RFC3339)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set(start)
	mustPass(t, rowmill(t.Context(), "apply", file, "--clock", clock, "--yes"))
	var out crashResult
	for hour := range 11 {
		now := start.Add(time.Duration(hour) * time.Hour)
		set(now)
		if hour == 9 && n > 0 {
			out.killed += crashOnce(t, file, clock, n)
		}
		if hour >= 9 { // all that was due before is done at once
			mustPass(t, rowmill(t.Context(), "run", file, "--clock", clock, "--once"))
		}
		var values []string
		for i := range 20 {
			values = append(values, fmt.Sprintf("(%d, %s, %d)", i%3, db.Words().Literal(table, rolling.Position(now)+int64(i)*1e6), hour*i))
		}
		if _, err := db.SQL().ExecContext(t.Context(), "INSERT INTO "+db.Dialect().Quote("readings")+" (sensor, ts, value) VALUES "+strings.Join(values, ", ")); err != nil {
			t.Fatalf("hour %d: %v", hour, err)
		}
	}
	out.state = crashState(t, db, table)
	return out
}

// crashOnce runs rowmill so that it kills itself at the n-th point, and returns
// whether it has.
func crashOnce(t *testing.T, file, clock string, n int) int {
	t.Helper()
	c := exec.Command(os.Args[0], "run", file, "--clock", clock, "--once")
	c.Env = append(os.Environ(), processVariable+"=1", fmt.Sprintf("%s=%d", crashVariable, n))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	err := c.Run()
	if err == nil {
		return 0
	}
	if st, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !st.Signaled() {
		t.Fatalf("it was to be killed at point %d: %v\n%s", n, err, stderr.String())
	}
	return 1
}

// crashState writes down all that must be the same: periods, rows, roll-ups,
// what is known, and that nothing is left behind.
func crashState(t *testing.T, db engine.Keeper, table *engine.Table) string {
	t.Helper()
	var b strings.Builder
	parts, err := db.Catalog().Partitions(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "period %s %d\n", p.Name, count(t, db, db.Words().From(table, p)))
	}
	for _, q := range []string{
		"SELECT lower_pos, state, row_count, rebuilt FROM rowmill_states ORDER BY lower_pos",
		"SELECT id, step, kind, error FROM rowmill_journal ORDER BY id",
		"SELECT sensor, n, total, mean FROM readings_1h ORDER BY bucket, sensor",
	} {
		rows, err := db.SQL().QueryContext(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var v [4]any
			if err := rows.Scan(&v[0], &v[1], &v[2], &v[3]); err != nil {
				t.Fatal(err)
			}
			for i := range v {
				if p, ok := v[i].([]byte); ok {
					v[i] = string(p)
				}
			}
			fmt.Fprintln(&b, v[:]...)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tables := map[string]string{
		"sqlite":   "SELECT name FROM sqlite_schema WHERE name LIKE ",
		"postgres": "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE ",
	}[db.Info().Engine]
	if tables == "" {
		tables = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE "
	}
	for _, what := range []string{"new", "old", "drop"} {
		rows, err := db.SQL().QueryContext(t.Context(), tables+"'rowmill_"+what+"_%'")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "left behind: table %s\n", name)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func count(t *testing.T, db engine.Keeper, from string) (n int64) {
	t.Helper()
	if err := db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
