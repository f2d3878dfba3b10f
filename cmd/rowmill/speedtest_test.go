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
func speed(t *testing.T, s session) report.SpeedTest {
	t.Helper()
	mustPass(t, s)
	var out report.SpeedTest
	must(t, json.Unmarshal([]byte(s.stdout), &out))
	return out
}

// TestBenchMixed runs every operation on several databases, and checks that the record
// has each cell, and that the same matrix can be reported from the record alone.
func TestBenchMixed(t *testing.T) {
	maria, postgres := mariadb(t), testdb.Target(t, "postgres").String()
	t.Chdir(t.TempDir())
	s := verb(t, "bench mixed --rows 3k --clients 1,2 --seconds 0.2 --mix 60 --json --out run.jsonl --html run.html --png run.png --md run.md",
		"--target", "sqlite:?durability=none", "--target", maria, "--target", postgres)
	got := speed(t, s)
	if len(got.Contenders) != 3 || len(got.Operations) != 4 || got.Rows != 3000 || len(got.Failures) > 0 {
		t.Fatalf("%+v", got)
	}
	for _, o := range got.Operations {
		for i, course := range o.Courses {
			clients := []int{}
			for _, c := range course.Cells {
				clients = append(clients, c.Clients)
				if c.Rate <= 0 || len(c.LatencyUS) == 0 || c.ClientCPU == nil || (c.ServerCPU == nil) != (i == 0) || (c.Ratio == nil) != (i == 0) {
					t.Errorf("%s on %s: %+v", o.Operation, course.Contender, c)
				}
				if o.Operation == "mixed" && (*c.InsertedRows <= 0 || *c.Selects <= 0) {
					t.Errorf("mixed on %s: %v rows inserted, %v selects", course.Contender, *c.InsertedRows, *c.Selects)
				}
			}
			want := []int{1, 2}
			if o.Operation == "mixed" {
				want = want[1:]
			}
			if !slices.Equal(clients, want) {
				t.Errorf("%s on %s was measured with %v clients, want %v", o.Operation, course.Contender, clients, want)
			}
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
	contains(t, verb(t, "report run.jsonl").stdout, "Speed of inserts and selects: SQLite, MariaDB and PostgreSQL", "insert: ", "queries/s", "server CPU/op")
	filesWritten(t)
	wantFailure(t, verb(t, "compare run.jsonl run.jsonl"), exitFailed, "can't be compared by rows")
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
	if recs := records(t, "run.jsonl"); len(recs) != 2 || recs[1].End.Stopped != "failed" || !strings.Contains(stdout.String(), "!! select-pk with 2 clients on SQLite failed") {
		t.Errorf("%d records, report: %s", len(recs), stdout.String())
	}
}

// TestBenchPointsSet measures two settings alternately on private servers and on
// temporary files of SQLite, and compares them.
func TestBenchPointsSet(t *testing.T) {
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
			got := speed(t, s)
			if len(got.Contenders) != 2 || len(got.Operations) != 1 || got.Operations[0].Points != 5 {
				t.Fatalf("%+v", got)
			}
			cell := got.Operations[0].Courses[1].Cells[0]
			if cell.Runs != 2 || cell.Ratio == nil || cell.Interval == nil || cell.Verdict == "" || !strings.HasPrefix(got.Operations[0].Verdict, "with ") {
				t.Errorf("%+v, %s", cell, got.Operations[0].Verdict)
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
