package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestBenchServers checks that a run on a private server of each kind proves every row
// in both layouts.
func TestBenchServers(t *testing.T) {
	kinds := testdb.Kinds(t, "sqlite", "mariadb", "mariadb?engine=rocksdb", "mysql", "postgres")
	for _, c := range []struct {
		kind    string
		name    string // as in ROWMILL_TEST_REQUIRE
		target  string
		engine  string
		storage string // as the server spells it
	}{
		{"sqlite", "sqlite", "sqlite:?durability=none", "sqlite", ""},
		{"mariadb", "mariadb", "sandbox:mariadb?memory=64MB&redo=64MB&durability=none", "mariadb", "InnoDB"},
		{"mariadb?engine=rocksdb", "rocksdb", "sandbox:mariadb?memory=64MB&engine=rocksdb&redo=64MB&durability=none", "mariadb", "ROCKSDB"},
		{"mysql", "mysql", "sandbox:mysql?memory=64MB&redo=64MB&durability=none", "mysql", "InnoDB"},
		{"postgres", "postgres", "sandbox:postgres?memory=64MB&durability=none", "postgres", "heap"},
	} {
		if !slices.Contains(kinds, c.kind) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			const rows = 12_000
			s := rowmill(t.Context(), "bench", "insert", "--target", c.target, "--layout", "plain,rolling", "--rows", "12k",
				"--writers", "2", "--batch", "1000", "--period-rows", "5k", "--indexes", "3", "--interval", "50ms",
				"--out", "run.jsonl", "--json")
			if s.code != exitDone && strings.Contains(s.stderr, sandbox.ErrNotInstalled.Error()) {
				testdb.Require(t, c.name, errors.New(s.stderr))
			}
			mustPass(t, s)
			runs, recs := summaries(t, s), records(t, "run.jsonl")
			if len(runs) != 2 || len(recs) != 2 {
				t.Fatalf("%d summaries, %d records, want 2", len(runs), len(recs))
			}
			for i, layout := range []string{"plain", "rolling"} {
				got := runs[i]
				if got.Layout != layout || got.Engine != c.engine || got.ServerVersion == "" || recs[i].Run.Storage != c.storage {
					t.Errorf("run %d is of a %s table on %s %s with %s", i, got.Layout, got.Engine, got.ServerVersion, recs[i].Run.Storage)
				}
				if v := got.Verified; v == nil || !v.Checksum || v.Expected != rows || v.Found != rows || got.Rows != rows {
					t.Errorf("%s: %d rows, verified: %+v", layout, got.Rows, v)
				}
				if run := recs[i].Run; run.Target != c.target || c.kind != "sqlite" && (run.Durability != "none" || run.CacheBytes != 64<<20) {
					t.Errorf("%s: target %s, durability %s, cache %d", layout, run.Target, run.Durability, run.CacheBytes)
				}
				if cpu := recs[i].End.ServerCPUSeconds; c.kind != "sqlite" && (cpu == nil || *cpu <= 0) {
					t.Errorf("%s: server CPU %v", layout, cpu)
				}
				if got.Errors != 0 || got.SizeBytes.Data <= 0 {
					t.Errorf("%s: %d errors, sizes %+v", layout, got.Errors, got.SizeBytes)
				}
			}
			nothingLeft(t)
		})
	}
}
