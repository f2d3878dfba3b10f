package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const refreshDeclaration = intsTable + `
[period]
every = "1d"
ahead = "2d"

[[rollup]]
name   = "readings_1h"
every  = "1h"
by     = ["sensor"]
select = { n = "count(*)", total = "sum(value)", p90 = "percentile(value, 90)" }

[[rollup]]
name = "readings_1d"
from = "readings_1h"
every = "1d"
`

// TestRollupRefresh checks that rows changed without rowmill are in the roll-ups after
// a refresh.
func TestRollupRefresh(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		d := declare(t, kind, refreshDeclaration)
		refresh := func(args ...string) session {
			return rowmill(t.Context(), append([]string{"rollup", "refresh", d.file, "--clock", d.clock, "--yes"}, args...)...)
		}
		d.tick(time.Date(2026, 11, 20, 0, 30, 0, 0, time.UTC))
		mustPass(t, d.run("apply", "--yes"))
		execSQL(t, d.db, "INSERT INTO readings (sensor, ts, value) VALUES (1, '2026-11-20 06:10:00', 1), (1, '2026-11-20 07:10:00', 2)")
		d.tick(time.Date(2026, 11, 21, 0, 30, 0, 0, time.UTC))
		mustPass(t, d.run("run", "--once"))
		total := func(table string) (sum int) {
			t.Helper()
			must(t, d.db.SQL().QueryRowContext(t.Context(), "SELECT SUM(total) FROM "+table).Scan(&sum))
			return sum
		}
		if got := total("readings_1d"); got != 3 {
			t.Errorf("the day's total is %d", got)
		}
		stored := "readings"
		if kind == "sqlite" {
			stored = "readings_p20261120"
		}
		execSQL(t, d.db, "UPDATE "+stored+" SET value = 10 WHERE value = 2")
		s := refresh("--from", "2026-11-20 07:00", "--to", "2026-11-20T08:00:00Z")
		mustPass(t, s)
		if !strings.Contains(s.stdout, "2 buckets") {
			t.Errorf("it said %q", s.stdout)
		}
		for _, table := range []string{"readings_1h", "readings_1d", "readings_1h_live", "readings_1d_live"} {
			if got := total(table); got != 11 {
				t.Errorf("the total of %s is %d, want 11", table, got)
			}
		}
		s = refresh("--from", "2026-11-20", "--to", "2030-01-01", "--json")
		mustPass(t, s)
		if !strings.Contains(s.stdout, `"format": "rowmill.refresh/1"`) {
			t.Errorf("it printed %q", s.stdout)
		}
	})
}

func TestRollupRefreshRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "readings.toml")
	writeFile(t, file, filled(refreshDeclaration, "sqlite:"+file+".db", ""))
	mustPass(t, rowmill(t.Context(), "apply", file, "--yes"))
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"no range":  {"", "--from and --to"},
		"backwards": {"--from 2026-11-20 --to 2026-11-19", "is empty"},
		"no time":   {"--from yesterday --to 2026-11-19", "is not a time"},
	} {
		s := rowmill(t.Context(), append([]string{"rollup", "refresh", file, "--yes"}, strings.Fields(c.args)...)...)
		if s.code != exitUsage || !strings.Contains(s.stderr, c.want) {
			t.Errorf("%s: %d, %s", name, s.code, s.stderr)
		}
	}
}

// TestApplyOfAChangedRollup checks that a dry run fails as the real run does, and that
// a level of which nothing is computed is reported as such.
func TestApplyOfAChangedRollup(t *testing.T) {
	t.Chdir(t.TempDir())
	text := filled(refreshDeclaration, "sqlite:kept.db", "")
	writeFile(t, "readings.toml", text)
	wantDone(t, rowmill(t.Context(), "apply", "readings.toml", "--yes"))
	if s := rowmill(t.Context(), "status", "readings.toml"); strings.Count(s.stdout, "nothing yet") != 2 || strings.Contains(s.stdout, "1000-01-01") {
		t.Errorf("status of new roll-ups: %s", s.stdout)
	}
	writeFile(t, "readings.toml", strings.Replace(text, `every  = "1h"`, `every  = "2h"`, 1))
	dry, real := rowmill(t.Context(), "apply", "readings.toml", "--dry-run"), rowmill(t.Context(), "apply", "readings.toml", "--yes")
	if dry.code != exitFailed || dry.code != real.code || dry.stderr != real.stderr || !strings.Contains(dry.stderr, "its bucket is 1h") {
		t.Errorf("dry run: exit %d: %s\nrun: exit %d: %s", dry.code, dry.stderr, real.code, real.stderr)
	}
}
