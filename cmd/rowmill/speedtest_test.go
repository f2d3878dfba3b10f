package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// speed parses the --json output of a command.
func speed(t *testing.T, s session) (report.Summaries, report.Grid) {
	t.Helper()
	mustPass(t, s)
	var out report.Summaries
	must(t, json.Unmarshal([]byte(s.stdout), &out))
	return out, *out.Grid
}

// TestBenchMixed runs every operation on several databases, and checks that the record
// has each cell, and that the same matrix can be reported from the record alone.
func TestBenchMixed(t *testing.T) {
	if apart(t) {
		return
	}
	maria, postgres := mariadb(t), testdb.Target(t, "postgres").String()
	t.Chdir(t.TempDir())
	s := verb(t, "bench mixed --rows 3k --clients 1,2 --seconds 0.2 --mix 60 --json --out run.jsonl --html run.html --png run.png --md run.md",
		"--target", "sqlite:?durability=none", "--target", maria, "--target", postgres)
	runs, got := speed(t, s)
	if len(got.Contenders) != 3 || len(got.Factors[0].Levels) != 4 || len(got.Cells) != 3*7 || runs.Runs[0].Speed.Filled != 3000 {
		t.Fatalf("%+v", got)
	}
	clients := map[string]string{}
	for _, c := range got.Cells {
		f, first := c.Figures, c.Levels[2] == "SQLite"
		clients[c.Levels[0]+" on "+c.Levels[2]] += c.Levels[1]
		_, server := f["server_cpu_us_per_operation"]
		if c.Runs != 1 || c.Incomplete || f["client_cpu_us_per_operation"] <= 0 || server == first || (c.Ratio == nil) != first {
			t.Errorf("%+v", c)
		}
		if mixed := c.Levels[0] == "mixed"; mixed && (f["inserted_rows_per_second"] <= 0 || f["selects_per_second"] <= 0) || !mixed && f["p99_us"] <= 0 {
			t.Errorf("%v: %v", c.Levels, f)
		}
	}
	for of, at := range clients {
		if want := map[bool]string{true: "2", false: "12"}[strings.HasPrefix(of, "mixed")]; at != want {
			t.Errorf("%s was measured with %s clients, want %s", of, at, want)
		}
	}
	recs := records(t, "run.jsonl")
	if len(recs) != 3*7 {
		t.Fatalf("%d runs are recorded, want 21", len(recs))
	}
	for i, rec := range recs {
		c, v := rec.Run.Speed, rec.End.Verified
		writes := c.Operation == "insert" || c.Operation == "mixed"
		if (c.Counts == result.CountsRows) != writes || writes != (v != nil) || writes && (!v.Checksum || v.Found != v.Expected || v.Found < 3000) {
			t.Errorf("%s: counts %s, verified %+v", rec.Run.Name, c.Counts, v)
		}
		// The order of the targets alternates from cell to cell.
		if turn, place := i/3, i%3; strings.HasPrefix(rec.Run.Target, "sqlite:") != (place == 0 && turn%2 == 0 || place == 2 && turn%2 == 1) {
			t.Errorf("run %d is on %s", i, rec.Run.Target)
		}
		if c.TableRows > 3300 {
			t.Errorf("%s began with %d rows in its table", rec.Run.Name, c.TableRows)
		}
	}
	if again := verb(t, "report run.jsonl --json"); again.stdout != s.stdout {
		t.Errorf("report shows another matrix:\n%s\nthan the run:\n%s", again.stdout, s.stdout)
	}
	contains(t, verb(t, "report run.jsonl").stdout, "Speed of inserts and selects: SQLite, MariaDB and PostgreSQL", "Insert: ", "queries/s", "server CPU/op")
	filesWritten(t)
	contains(t, verb(t, "compare run.jsonl run.jsonl").stdout, "Over 24 cells, run.jsonl #2 runs at 1.00x", "operation=mixed clients=2 contender=MariaDB, selects/s")
	// The tables still exist, and are not taken for a user's tables.
	wantFailure(t, verb(t, "bench mixed --clients 1 --rows 100 --seconds 0.2 --target "+maria), exitFailed, "table sbtest1 exists")
	nothingLeft(t)
}

// TestBenchMixedRowGone checks that a select of a missing row fails the run, and that
// the record says so.
func TestBenchMixedRowGone(t *testing.T) {
	t.Chdir(t.TempDir())
	stderr := &watched{find: regexp.MustCompile(`1/2 `), found: func([]string) {
		db, err := sql.Open(testdb.SQLiteDriver, "file:x.db?_busy_timeout=10000")
		if err == nil {
			_, err = db.Exec("DELETE FROM sbtest1 WHERE id > 50")
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}}
	var stdout bytes.Buffer
	code := run(t.Context(), strings.Fields("bench mixed --target sqlite:x.db --ops select-pk --clients 1,2 --rows 500 --seconds 0.2 --out run.jsonl"),
		strings.NewReader(""), &stdout, stderr)
	wantFailure(t, session{code, "", stderr.String()}, exitFailed, "select-pk in sbtest1: 0 rows returned for [id] = [")
	if recs := records(t, "run.jsonl"); len(recs) != 2 || recs[1].End.Stopped != "failed" || !strings.Contains(stdout.String(), "!! select-pk, 2 clients on sqlite: failed") {
		t.Errorf("%d records, report: %s", len(recs), stdout.String())
	}
}

// TestBenchPointsSet measures two settings alternately on private servers and on
// temporary files of SQLite, and compares them.
func TestBenchPointsSet(t *testing.T) {
	if apart(t) {
		return
	}
	kinds := testdb.Kinds(t, "sqlite", "mariadb", "postgres")
	for _, c := range []struct {
		kind, target string
		settings     [2]string
	}{
		{"sqlite", "sqlite:?durability=none", [2]string{"cache=100KB", "cache=8MB"}},
		{"mariadb", "sandbox:mariadb?memory=32MB", [2]string{"innodb_adaptive_hash_index=OFF", "innodb_lru_scan_depth=1501"}},
		{"postgres", "sandbox:postgres?memory=32MB", [2]string{"enable_bitmapscan=off", "enable_bitmapscan=on"}},
	} {
		if !slices.Contains(kinds, c.kind) {
			continue
		}
		t.Run(c.kind, func(t *testing.T) {
			t.Chdir(t.TempDir())
			s := verb(t, "bench points --points 5 --repeat 2 --rows 2k --clients 2 --seconds 0.2 --out run.jsonl --json", "--target", c.target, "--set", strings.Join(c.settings[:], ","))
			_, got := speed(t, s)
			if len(got.Contenders) != 2 || len(got.Cells) != 2 || !slices.Equal(got.Factors[0].Levels, []string{"select of 5 points"}) {
				t.Fatalf("%+v", got)
			}
			cell := got.Cells[1]
			if cell.Runs != 2 || cell.Ratio == nil || cell.Interval == nil || cell.Verdict == "" || !strings.HasPrefix(got.Verdicts[0], "Select of 5 points: with ") {
				t.Errorf("%+v, %s", cell, got.Verdicts)
			}
			var order string
			for _, rec := range records(t, "run.jsonl") {
				order += rec.Run.Side
				name, value, _ := strings.Cut(c.settings[strings.Index("AB", rec.Run.Side)], "=")
				if rec.Run.Speed.Setting != name+"="+value || c.kind == "mariadb" && !strings.Contains(rec.Run.Target, name+"="+value) {
					t.Errorf("%s: %+v", rec.Run.Name, rec.Run.Speed)
				}
			}
			if order != "ABBA" {
				t.Errorf("measured in the order %s", order)
			}
			nothingLeft(t)
		})
	}
}
