package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

const fileDeclaration = `
[table]
name   = "readings"
target = "sqlite:%s?durability=none"
create = '''
CREATE TABLE readings (sensor INT NOT NULL, ts DATETIME NOT NULL, value INT, PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1d"
ahead = "2d"
keep  = "100d"
`

// declareFile writes a declaration with a SQLite file as its target into the working
// directory.
func declareFile(t *testing.T, path string) {
	t.Helper()
	writeFile(t, "readings.toml", strings.Replace(fileDeclaration, "%s", path, 1))
}

// TestHelpOfTopics checks the help command.
func TestHelpOfTopics(t *testing.T) {
	for _, topic := range []string{"help", "help bench", "help bench insert"} {
		if s := rowmill(t.Context(), strings.Fields(topic)...); s.code != exitDone || !strings.Contains(s.stdout, "Usage:") || s.stderr != "" {
			t.Errorf("%s: exit %d, stderr %q", topic, s.code, s.stderr)
		}
	}
}

// onlyDeclaration fails if the directory has any file but the declaration.
func onlyDeclaration(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(".")
	if err != nil || len(left) != 1 || left[0].Name() != "readings.toml" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestNoFileMade checks that a command without changes creates no SQLite file.
func TestNoFileMade(t *testing.T) {
	t.Chdir(t.TempDir())
	declareFile(t, "x.db")
	for _, verb := range []string{"status", "run --once", "restore --list"} {
		args := strings.Fields(verb)
		s := rowmill(t.Context(), append([]string{args[0], "readings.toml"}, args[1:]...)...)
		code := exitFailed
		if verb == "status" {
			code = exitUnknown
		}
		if s.code != code || !strings.Contains(s.stderr, "open x.db: there is no such file") || !strings.Contains(s.stderr, "Try: rowmill apply readings.toml, which creates it") {
			t.Errorf("%s: exit %d, stderr: %s", verb, s.code, s.stderr)
		}
		onlyDeclaration(t)
	}
	s := rowmill(t.Context(), "apply", "readings.toml", "--dry-run")
	if s.code != exitDone || !strings.Contains(s.stdout, "CREATE VIEW") {
		t.Errorf("apply --dry-run: exit %d, stdout %s\nstderr %s", s.code, s.stdout, s.stderr)
	}
	onlyDeclaration(t)
	s = rowmill(t.Context(), "plan", "readings.toml", "--rate", "10/s", "--sample-rows", "1000")
	if s.code != exitDone || !strings.Contains(s.stdout, "on sqlite:x.db") {
		t.Errorf("plan: exit %d, stdout %s\nstderr %s", s.code, s.stdout, s.stderr)
	}
	onlyDeclaration(t)
	mustPass(t, rowmill(t.Context(), "apply", "readings.toml", "--yes"))
	mustPass(t, rowmill(t.Context(), "status", "readings.toml"))
}

// TestView checks that a view is refused and called a view.
func TestView(t *testing.T) {
	for _, kind := range testdb.Kinds(t, "sqlite", "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			file, db := plainTable(t, kind, 10)
			for _, q := range []string{"ALTER TABLE readings RENAME TO base", "CREATE VIEW readings AS SELECT sensor, value FROM base"} {
				execSQL(t, db, q)
			}
			s := rowmill(t.Context(), "apply", file, "--yes")
			if s.code != exitFailed || !strings.Contains(s.stderr, "readings is a view") || !strings.Contains(s.stderr, "Try: ") {
				t.Errorf("exit %d, stderr: %s", s.code, s.stderr)
			}
		})
	}
}

// TestUnreached checks that the error for an unreachable server says what to check,
// and that it proposes no other server for a declared table.
func TestUnreached(t *testing.T) {
	t.Chdir(t.TempDir())
	declareFile(t, "x.db")
	for verb, target := range map[string]string{"status": "mysql://u@127.0.0.1:1/db", "apply": "mariadb://u@127.0.0.1:1/db", "run": "mysql://u@127.0.0.1:1/db"} {
		s := rowmill(t.Context(), verb, "readings.toml", "--target", target)
		want := exitFailed
		if verb == "status" {
			want = exitUnknown
		}
		if s.code != want || strings.Contains(s.stderr, "sandbox") || !strings.Contains(s.stderr, "listens at 127.0.0.1:1") || !strings.Contains(s.stderr, "target in readings.toml") {
			t.Errorf("%s: exit %d, stderr: %s", verb, s.code, s.stderr)
		}
	}
}

// TestCompletion checks the completion of flags that take one of a few values, and of
// flags that take a list.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want []string // with their descriptions, if any
		not  []string
	}{
		{"bench insert --preset ", []string{"classic\t", "ibench\t", "timeseries\t", "sbtest\t"}, nil},
		{"bench insert --preset cl", []string{"classic\t"}, nil},
		{"bench mixed --preset ", []string{"sbtest\n", "classic\n"}, []string{"ibench"}},
		{"bench insert --layout ", []string{"plain\n", "rolling\n"}, nil},
		{"bench matrix --layout plain,", []string{"plain,rolling\n"}, nil},
		{"bench steady --method ", []string{"multi\n", "pipeline\n"}, nil},
		{"bench matrix --durability ", []string{"full\n", "relaxed\n", "none\n"}, nil},
		{"bench ibench --steps l.i0,", []string{"l.i0,l.x\n"}, nil},
		{"bench ibench --interval-format ", []string{"rowmill\n", "ibench\n"}, nil},
		{"bench mixed --ops ", []string{"select-pk\n"}, nil},
		{"bench scenario ", []string{"ec2-2012\n"}, nil},
		{"load readings.toml --format ", []string{"csv\n", "tsv\n", "jsonl\n"}, nil},
		{"load readings.toml --on-duplicate ", []string{"skip\n", "update\n", "error\n"}, nil},
		{"load readings.toml --bytes ", []string{"base64\n"}, nil},
		{"load readings.toml --unix-times ", []string{"ms\n"}, nil},
		{"report run.jsonl --interval-format ", []string{"ibench\n"}, nil},
	} {
		s := rowmill(t.Context(), append([]string{"__complete"}, strings.Split(c.args, " ")...)...)
		if s.code != exitDone {
			t.Errorf("%s: exit %d: %s", c.args, s.code, s.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains("\n"+s.stdout, "\n"+want) {
				t.Errorf("%s: %q lacks %q", c.args, s.stdout, want)
			}
		}
		for _, not := range c.not {
			if strings.Contains(s.stdout, not) {
				t.Errorf("%s: %q has %q", c.args, s.stdout, not)
			}
		}
	}
}
