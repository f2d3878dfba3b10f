package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

const plainDeclaration = `
[table]
name   = "readings"
target = "$TARGET"
create = '''
CREATE TABLE readings (sensor INT NOT NULL, ts $TIME NOT NULL, value INT, PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1d"
ahead = "2d"
`

// plainTable creates a plain table with rows, writes its declaration, and returns the
// declaration's path.
func plainTable(t *testing.T, kind string, rows int) (file string, db engine.Keeper) {
	t.Helper()
	d := declare(t, kind, plainDeclaration)
	var values []string
	now := time.Now().UTC()
	for i := range rows {
		values = append(values, fmt.Sprintf("(%d, '%s', 1)", i, now.Add(-time.Duration(i%1000)*time.Second).Format("2006-01-02 15:04:05")))
	}
	execSQL(t, d.db, "CREATE TABLE readings (sensor INT NOT NULL, ts "+timeType(d.target)+" NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
	execSQL(t, d.db, "INSERT INTO readings VALUES "+strings.Join(values, ", "))
	return d.file, d.db
}

// TestDryRunOfTheEnd checks that --dry-run of --finish and --undo prints and changes
// nothing, with and without --yes.
func TestDryRunOfTheEnd(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 100)
		mustPass(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
		for _, verb := range []string{"--finish", "--undo"} {
			for _, yes := range []string{"--yes=true", "--yes=false"} {
				s := rowmill(t.Context(), "apply", file, verb, "--dry-run", yes)
				if s.code != exitDone || strings.Contains(s.stderr, "Continue?") || !regexp.MustCompile(`DROP TABLE IF EXISTS .readings__rowmill`).MatchString(s.stdout) {
					t.Errorf("%s %s: exit %d, stdout: %s\nstderr: %s", verb, yes, s.code, s.stdout, s.stderr)
				}
				if regexp.MustCompile(`(?m)^-- .*;$`).MatchString(s.stdout) {
					t.Errorf("%s: a comment ends like a statement: %s", verb, s.stdout)
				}
			}
		}
		partitioned(t, db, "readings", true)
		partitioned(t, db, "readings__rowmill_old", false)
		mustPass(t, verb(t, "apply --undo --yes "+file))
		partitioned(t, db, "readings", false)
	})
}

// TestAdoptionOfRowsPastKeep checks that the rows of a plain table that retention will drop are
// told and asked for before its adoption, that their drop waits for --finish with an alarm, and
// that --finish tells of it once more.
func TestAdoptionOfRowsPastKeep(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"sqlite", "postgres"}, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 1)
		for day := range 6 {
			execSQL(t, db, fmt.Sprintf("INSERT INTO readings VALUES (100, '%s', 1)", time.Now().UTC().AddDate(0, 0, -day).Format("2006-01-02 15:04:05")))
		}
		writeFile(t, file, string(readFile(t, file))+"keep  = \"2d\"\n")
		told := regexp.MustCompile(`rowmill run will drop 3 (rows of 3 periods|periods with about \d rows?), from \S+ 00:00:00 to \S+ 00:00:00 \(keep = none -> 2d\); no archive`)
		if s := verb(t, "apply --dry-run --allow-duplicates "+file); !told.MatchString(s.stdout) || !strings.Contains(s.stdout, "-- dropped: after --finish, ") {
			t.Errorf("dry run: %s%s", s.stdout, s.stderr)
		}
		if s := verb(t, "apply --yes --allow-duplicates "+file); s.code != exitDone || !told.MatchString(s.stderr) {
			t.Errorf("exit %d: %s", s.code, s.stderr)
		}
		mustPass(t, verb(t, "run --once "+file))
		if s := verb(t, "status "+file); s.code != exitFailed || !strings.Contains(s.stdout, "! retention: 3 periods have passed keep = 2d") || !strings.Contains(s.stdout, "--finish") {
			t.Errorf("before it is finished: exit %d, %s", s.code, s.stdout)
		}
		for _, flag := range []string{"--dry-run", "--yes"} {
			if s := verb(t, "apply --finish "+flag+" "+file); s.code != exitDone || !strings.Contains(s.stdout+s.stderr, "rowmill run will drop 3 periods with 3 rows") {
				t.Errorf("--finish %s: exit %d, %s%s", flag, s.code, s.stdout, s.stderr)
			}
		}
		mustPass(t, verb(t, "run --once "+file))
		if s := verb(t, "status "+file); s.code != exitDone {
			t.Errorf("afterwards: exit %d, %s", s.code, s.stdout)
		}
	})
}

// partitioned checks whether a table is a rolling one.
func partitioned(t *testing.T, db engine.Keeper, table string, want bool) {
	t.Helper()
	if schema, err := db.Describe(t.Context(), table); err != nil || schema.Partitioned != want {
		t.Errorf("%s: %+v, %v", table, schema, err)
	}
}

// TestUndoWithRollups checks that --undo removes the rolling table although views of
// roll-ups read it, and that the table can be adopted again.
func TestUndoWithRollups(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 100)
		writeFile(t, file, string(readFile(t, file))+`
[[rollup]]
name   = "hourly"
every  = "1h"
select = { n = "count(*)" }

[[rollup]]
name  = "daily"
from  = "hourly"
every = "1d"
`)
		for range 2 {
			mustPass(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
			var n int
			if err := db.SQL().QueryRowContext(t.Context(), "SELECT SUM(n) FROM daily_live").Scan(&n); err != nil || n != 100 {
				t.Errorf("the view counts %d rows, not 100: %v", n, err)
			}
			planned := rowmill(t.Context(), "apply", file, "--undo", "--dry-run")
			mustPass(t, planned)
			if drops := regexp.MustCompile(`DROP VIEW IF EXISTS "hourly_live", "daily_live"`).MatchString(planned.stdout); drops != (kind == "postgres") {
				t.Errorf("the dry run drops the views: %t: %s", drops, planned.stdout)
			}
			mustPass(t, verb(t, "apply --undo --yes "+file))
			partitioned(t, db, "readings", false)
		}
	})
}

// TestInterruptAtQuestion checks that an interrupt at a question ends the command at once.
func TestInterruptAtQuestion(t *testing.T) {
	t.Parallel()
	file, _ := plainTable(t, "sqlite", 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin, never := io.Pipe()
	defer never.Close()
	stderr := &watched{find: regexp.MustCompile(`Continue\? \[y/N\]`), found: func([]string) { cancel() }}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"apply", file, "--allow-duplicates"}, stdin, &bytes.Buffer{}, stderr)
	}()
	select {
	case code := <-ended:
		if code != exitInterrupted || !strings.Contains(stderr.String(), "nothing was done") {
			t.Errorf("exit %d, stderr: %s", code, stderr.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on waiting for an answer")
	}
}

// TestInterruptAdoption checks that an interrupted adoption has the exit code of an
// interrupt, and names a command that continues it.
func TestInterruptAdoption(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 3000)
		s := interruptedAt(t, `Z (copy|verify)`, "apply", file, "--yes", "--allow-duplicates")
		wantFailure(t, s, exitInterrupted, "rowmill: interrupted", "Try: rowmill apply "+file)
		mustPass(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
		partitioned(t, db, "readings", true)
	})
}
