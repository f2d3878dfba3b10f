package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
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

// TestShortenedKeepIsAskedFor checks that a retention under which rows will be dropped is applied
// only after a question of its own, and that a dry run has the same figures.
func TestShortenedKeepIsAskedFor(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"sqlite", "mariadb"}, func(t *testing.T, kind string) {
		d := declare(t, kind, plainDeclaration)
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		d.tick(now)
		wantDone(t, d.run("apply", "--yes"))
		for range 3 {
			d.insert(now, 1)
			now = now.AddDate(0, 0, 1)
			d.tick(now)
			wantDone(t, d.run("run", "--once"))
		}
		writeFile(t, d.file, d.text+"keep  = \"1d\"\n")
		const want = "rowmill run will drop 2 periods with 40 rows, from 2026-03-01 00:00:00 to 2026-03-03 00:00:00 (keep = none -> 1d); no archive is declared: the rows are then gone\n"
		if s := d.run("apply", "--dry-run"); !strings.Contains(s.stdout, "-- dropped: "+want) {
			t.Errorf("dry run: %s%s", s.stdout, s.stderr)
		}
		for answers, code := range map[string]int{"y\nn\n": exitUsage, "y\n": exitUsage} {
			var out, log bytes.Buffer
			if got := run(t.Context(), []string{"apply", d.file, "--clock", d.clock}, strings.NewReader(answers), &out, &log); got != code || !strings.Contains(log.String(), want+"Continue? ") {
				t.Errorf("answers %q: exit %d, %s", answers, got, log.String())
			}
		}
		var log bytes.Buffer
		if got := run(t.Context(), []string{"apply", d.file, "--clock", d.clock}, strings.NewReader("y\ny\n"), &bytes.Buffer{}, &log); got != exitDone {
			t.Errorf("confirmed: exit %d, %s", got, log.String())
		}
	})
}

// TestStatusOfEditedFile checks that status shows the state of what was applied and then how the
// file differs, and that its exit status is another one where it can't tell.
func TestStatusOfEditedFile(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"sqlite", "postgres"}, func(t *testing.T, kind string) {
		d := declare(t, kind, plainDeclaration)
		if s := rowmill(t.Context(), "status", d.file); s.code != exitUnknown || !strings.Contains(s.stderr, "has not been applied") {
			t.Errorf("never applied: exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
		wantDone(t, rowmill(t.Context(), "apply", d.file, "--yes"))
		wantDone(t, rowmill(t.Context(), "status", d.file))
		writeFile(t, d.file, d.text+"keep  = \"100d\"\n")
		s := rowmill(t.Context(), "status", d.file)
		at, problem := strings.Index(s.stdout, "headroom "), strings.Index(s.stdout, "! declaration: ")
		text := strings.Join(strings.Fields(s.stdout), " ")
		if s.code != exitFailed || at < 0 || problem < at || !strings.Contains(text, "for table readings: keep none -> 100d") || !strings.Contains(text, "no retention") || !strings.Contains(text, "--dry-run, if the file is the newer one") {
			t.Errorf("edited: exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
	})
}
