package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestBenchHotRow(t *testing.T) {
	for _, kind := range testdb.Kinds(t, keepers...) {
		t.Run(kind, func(t *testing.T) {
			url := "sqlite:"
			if kind != "sqlite" {
				url = testdb.Target(t, kind).String()
			}
			t.Chdir(t.TempDir())
			s := benched(t, "hotrow --target "+url+" --clients 2,4 --runs 200 --ways plain,one-trip --out hot.jsonl --json")
			var got report.Summaries
			must(t, json.Unmarshal([]byte(s.stdout), &got))
			if got.Grid == nil || len(got.Grid.Cells) != 16 || len(got.Runs) != 4 {
				t.Fatalf("%s", s.stdout)
			}
			for _, rec := range records(t, "hot.jsonl") {
				v := rec.End.Verified
				if v == nil || !v.Sound() || v.Expected != 200 || rec.Run.HotRow.Ceiling <= 0 || rec.Intervals[0].Latency["transaction"].Count == 0 {
					t.Errorf("%s: %+v, %+v", rec.Run.Name, v, rec.Run.HotRow)
				}
			}
			if s := verb(t, "report hot.jsonl"); s.code != exitDone || !strings.Contains(s.stdout, "of the ceiling of") {
				t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
			}
			if kind == "sqlite" {
				return
			}
			if s := verb(t, "bench hotrow --target "+url+" --runs 10 --clients 2"); s.code == exitDone || !strings.Contains(s.stderr, "table fan_of exists") {
				t.Errorf("existing tables: exit %d, %s", s.code, s.stderr)
			}
		})
	}
}
