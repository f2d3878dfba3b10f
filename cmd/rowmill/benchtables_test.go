package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// TestBenchTables creates a few tables, and a few partitions, and reports what they cost. The database is gone afterwards, and an
// existing one is refused.
func TestBenchTables(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			url := testdb.Target(t, kind).String()
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

// TestBenchTablesFaults: a server that is killed, a full disk and too few files end with exit code 1 and the cause; what was measured is there.
func TestBenchTablesFaults(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.SkipUnlessNightly(t, "cmd/rowmill.TestBenchTables")
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("none.jsonl", nil, 0o600))
	s := verb(t, "bench tables --target sandbox:mariadb?set=table_open_cache=60000 --tables 3")
	if s.code != exitFailed || !strings.Contains(s.stderr, "the server lowered table_open_cache=60000") || !strings.Contains(s.stderr, "ulimit -Hn") {
		t.Errorf("exit %d, %s", s.code, s.stderr)
	}
}
