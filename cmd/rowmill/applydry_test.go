package main

import (
	"strings"
	"testing"
)

// TestApplyDryRun checks that a dry run prints each statement once, in order,
// including those after an adoption, and that it says if no change is needed.
func TestApplyDryRun(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		d := declare(t, kind, plainDeclaration)
		file := d.file
		dry := func() string {
			t.Helper()
			s := rowmill(t.Context(), "apply", file, "--dry-run")
			wantDone(t, s)
			seen := map[string]bool{}
			for line := range strings.Lines(s.stdout) {
				if strings.HasPrefix(line, "CREATE TABLE") && seen[line] {
					t.Errorf("printed twice: %s", line)
				}
				seen[line] = true
			}
			return s.stdout
		}
		if out := dry(); strings.Count(out, "rowmill_tables (") != 1 || !strings.Contains(out, "-- create table readings") {
			t.Errorf("a new table: %s", out)
		}
		wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
		if out, want := dry(), "-- readings matches "+file+": nothing to do\n"; out != want {
			t.Errorf("an applied one: %q, want %q", out, want)
		}
		writeFile(t, file, d.text+"keep  = \"100d\"\n")
		if out := dry(); !strings.Contains(out, "keep:") || !strings.Contains(out, "record the declaration") {
			t.Errorf("another retention: %s", out)
		}
	})
}

// TestAdoptDryRun is TestApplyDryRun of a plain table.
func TestAdoptDryRun(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		file, _ := plainTable(t, kind, 10)
		for _, made := range []bool{false, true} {
			s := rowmill(t.Context(), "apply", file, "--dry-run", "--allow-duplicates")
			wantDone(t, s)
			if n := strings.Count(s.stdout, "CREATE TABLE IF NOT EXISTS rowmill_tables "); (n == 1) == made || n > 1 {
				t.Errorf("with rowmill's tables %t: they are made %d times: %s", made, n, s.stdout)
			}
			if at := strings.Index(s.stdout, "-- record the declaration in rowmill_tables"); at < strings.LastIndex(s.stdout, "CREATE TABLE") {
				t.Errorf("the declaration is noted at %d: %s", at, s.stdout)
			}
			if !made {
				wantDone(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
				wantDone(t, rowmill(t.Context(), "apply", file, "--undo", "--yes"))
			}
		}
	})
}
