package main

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestMatrixServers tests a private server for each run, with the durability of its
// cell, and a permanent server whose tables are dropped: the table of one writer and
// the tables of two don't conflict.
func TestMatrixServers(t *testing.T) {
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), strings.Fields("bench matrix --target sandbox:mariadb?memory=8MB&redo=16MB --method load,pipeline --batch 500 --writers 1 "+
		"--durability full,none --rows 5k --out m.jsonl --json")...)
	mustPass(t, s)
	if m := matrixJSON(t, s); m.Done != 2 || len(m.LeftOut) != 1 || m.LeftOut[0].Level != "pipeline" {
		t.Errorf("%d done, left out %+v", m.Done, m.LeftOut)
	}
	for _, r := range records(t, "m.jsonl") {
		want := map[string]string{"full": "1", "none": "0"}[r.Run.Cell.Levels[5]]
		if r.Run.Settings["innodb_flush_log_at_trx_commit"] != want || r.Run.Durability != r.Run.Cell.Levels[5] {
			t.Errorf("%s: durability %s, settings %v", r.Run.Name, r.Run.Durability, r.Run.Settings)
		}
	}
	nothingLeft(t)

	target := mariadb(t)
	for range 2 {
		s = rowmill(t.Context(), "bench", "matrix", "--target", target, "--preset", "ibench", "--method", "multi", "--batch", "100", "--writers", "1,2",
			"--layout", "plain,rolling", "--period-rows", "1k", "--rows", "4k", "--json")
		mustPass(t, s)
		if m := matrixJSON(t, s); m.Done != 4 {
			t.Errorf("%d of 4 done", m.Done)
		}
	}
}
