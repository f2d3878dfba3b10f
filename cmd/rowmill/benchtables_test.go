package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// TestBenchTables creates a few tables, and a few partitions, and reports what they cost. The
// database is gone afterwards, and an existing one is refused.
func TestBenchTables(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			url := testdb.Target(t, kind+"?memory=65MB").String() // what it measures is of the whole server
			t.Chdir(t.TempDir())
			db, err := target.Open(t.Context(), url, func(string) {})
			must(t, err)
			defer db.Close()
			keeper := db.DB.(engine.Housekeeper)
			must(t, keeper.DropDatabase(t.Context(), experiment.TablesDatabase)) // that of a test that was killed
			must(t, keeper.CreateDatabase(t.Context(), experiment.TablesDatabase))
			if s := verb(t, "bench tables --target "+url+" --tables 3 --connections 3"); s.code != exitFailed || !strings.Contains(s.stderr, "database rowmill_tables exists") || !strings.Contains(s.stderr, "--drop-existing") {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
			for _, args := range []string{"--tables 12 --open 5 --drop-existing", "--partitions 8"} {
				s := benched(t, "tables --connections 3 --json --out tables.jsonl --target "+url+" "+args)
				if exists, err := keeper.HasDatabase(t.Context(), experiment.TablesDatabase); err != nil || exists {
					t.Errorf("%s: the database is still there: %v", args, err)
				}
				var got report.Summaries
				must(t, json.Unmarshal([]byte(s.stdout), &got))
				sum := got.Runs[0]
				phases := map[string]int{}
				for _, c := range sum.Tables.Costs {
					phases[c.Phase]++
					if c.PSSBytes == 0 || c.OpenFiles == 0 || c.DictionaryBytes == 0 || c.Phase == result.TablesCreated && (c.CreateSeconds <= 0 || c.SchemaSeconds <= 0 || c.Files == 0) {
						t.Errorf("%s: %+v", args, c)
					}
				}
				if phases[result.TablesCreated] < 8 || phases[result.TablesOpened] == 0 || phases[result.TablesReopened] != 1 || phases[result.TablesHeld] != 3 || sum.Verified == nil || !sum.Verified.Sound() {
					t.Errorf("%s: %v, %+v", args, phases, sum.Verified)
				}
				if !slices.ContainsFunc(got.Grid.Fits, func(f report.Fit) bool { return f.Figure == "files" && f.Slope > 0.5 }) {
					t.Errorf("%s: no files for tables in %+v", args, got.Grid.Fits)
				}
			}
			s := verb(t, "report tables.jsonl --html t.html --md t.md --png t.png")
			if s.code != exitDone || !strings.Contains(s.stdout, "each partition adds") || !strings.Contains(s.stdout, "A later day") {
				t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
			}
		})
	}
}

// TestBenchTablesDenied: an account that lacks a privilege is told what to grant. What was measured
// until it was needed is in the record, and the database is gone.
func TestBenchTablesDenied(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, "mariadb") {
		t.Chdir(t.TempDir())
		d := declare(t, kind, plainDeclaration)
		const user = "rowmill_tabler"
		at, url := newAccount(t, d.db, kind, user), regexp.MustCompile(`://\w+@`).ReplaceAllString(d.target, "://"+user+"@")
		var name string
		must(t, d.db.SQL().QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
		for _, c := range []struct {
			grant, want string
			measured    int
		}{
			{"SELECT ON `" + name + "`.*", "GRANT PROCESS ON", 0},
			{"PROCESS ON *.*", "ON `rowmill_tables`.* TO", 0},
			{"CREATE, DROP, INDEX, SELECT ON rowmill_tables.*", "LOCK TABLES", 3},
		} {
			execSQL(t, d.db, "GRANT "+c.grant+" TO "+at)
			s := verb(t, "bench tables --tables 3 --connections 2 --out denied.jsonl --target "+url)
			if s.code != exitFailed || !strings.Contains(s.stderr, c.want) {
				t.Errorf("after %q: exit %d, %s", c.grant, s.code, s.stderr)
			}
			if _, err := os.Stat("denied.jsonl"); c.measured > 0 || err == nil {
				rec := records(t, "denied.jsonl")[0]
				if rec.End == nil || rec.End.Stopped != "failed" || rec.End.Failure == "" || len(rec.TablesCosts()) < c.measured {
					t.Errorf("after %q: the record has %+v, %d costs", c.grant, rec.End, len(rec.TablesCosts()))
				}
			}
		}
	}
}

// TestBenchTablesFaults: a server that is killed, and too few files, end with exit code 1 and the
// cause; what was measured is in the record.
func TestBenchTablesFaults(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.SkipUnlessNightly(t, "cmd/rowmill.TestBenchTablesDenied")
	t.Chdir(t.TempDir())
	s := verb(t, "bench tables --target sandbox:mariadb?set=table_open_cache=60000 --tables 3")
	if s.code != exitFailed || !strings.Contains(s.stderr, "the server lowered table_open_cache=60000") || !strings.Contains(s.stderr, "ulimit -Hn") {
		t.Errorf("exit %d, %s", s.code, s.stderr)
	}
	var once sync.Once
	stderr := &watched{find: regexp.MustCompile(`process (\d+)(?s:.*)\n +2\.\ds `), found: func(m []string) {
		once.Do(func() {
			pid, _ := strconv.Atoi(m[1])
			must(t, syscall.Kill(pid, syscall.SIGKILL))
		})
	}}
	var stdout bytes.Buffer
	code := run(t.Context(), strings.Fields("bench tables --target sandbox:mariadb?durability=none --tables 100k --connections 2 --out killed.jsonl"), strings.NewReader(""), &stdout, stderr)
	rec := records(t, "killed.jsonl")[0]
	if code != exitFailed || rec.End == nil || rec.End.Stopped != "failed" || len(rec.Intervals) == 0 || rec.End.Verified != nil {
		t.Fatalf("exit %d, %+v", code, rec.End)
	}
	for _, text := range []string{rec.End.Failure, stderr.String(), stdout.String(), verb(t, "report killed.jsonl").stdout} {
		if !strings.Contains(text, "signal: killed") || strings.Contains(text, "verification FAILED") {
			t.Errorf("nothing says that the server was killed, or something else failed: %s", text)
		}
	}
	nothingLeft(t)
}
