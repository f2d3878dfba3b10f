package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Records of every kind of run, written by an earlier rowmill, give the figures that it
// printed of them. Don't write these files again: they stand for users' records.
func TestOldRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(here(t), "../../internal/report/testdata/records")
	records, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(records) < 15 {
		t.Fatalf("%d records in %s: %v", len(records), dir, err)
	}
	for _, record := range records {
		t.Run(strings.TrimSuffix(filepath.Base(record), ".jsonl"), func(t *testing.T) {
			want, err := os.ReadFile(strings.TrimSuffix(record, "l"))
			if err != nil {
				t.Fatal(err)
			}
			s := rowmill(t.Context(), "report", record, "--json")
			got := strings.ReplaceAll(s.stdout, record, filepath.Base(record))
			if s.code != 0 || got != string(want) {
				t.Errorf("exit code %d, %s\n%s\nwant\n%s", s.code, s.stderr, got, want)
			}
		})
	}
}
