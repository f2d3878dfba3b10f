package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

// initTables are tables as users have them: %[1]s is a type for times, %[2]s for texts.
var initTables = map[string]struct {
	create, insert string
	declared       []string // in the declaration, in order; or in the error
	adopted        bool
}{
	"events": {"CREATE TABLE events (id INT NOT NULL, made_at %[1]s, changed %[1]s NOT NULL, kind %[2]s NOT NULL, amount INT NOT NULL, PRIMARY KEY (id))", "%[1]d, '%[2]s', '%[3]s', 'k%[4]d', %[5]d",
		[]string{"# Changed: column made_at is NOT NULL", "# Changed: the primary key has made_at as its last column", "100% of ", `time   = "made_at"`, `# Or time = "changed": `, "[period]", `every = "1w"`, `# keep = "30d"`, `# by     = ["kind"]`, "avg(amount)"}, true},
	"clocked": {"CREATE TABLE clocked (item INT NOT NULL, clock BIGINT NOT NULL, v FLOAT, PRIMARY KEY (item, clock))", "%[4]d, 1790000000 + %[1]d * 60, %[5]d",
		[]string{"# it counts seconds since 1970", `time   = "clock"`, `epoch  = "s"`, `every = "1w"`}, true},
	"counted": {"CREATE TABLE counted (n INT NOT NULL, v INT, PRIMARY KEY (n))", "%[1]d, %[5]d", []string{"no column tells the time", "--time COLUMN"}, false},
	"linked": {"CREATE TABLE linked (id INT NOT NULL, at %[1]s NOT NULL, parent INT, PRIMARY KEY (id), FOREIGN KEY (parent) REFERENCES linked (id))", "%[1]d, '%[2]s', NULL",
		[]string{"# Warning: rowmill apply refuses the table because", "foreign key", `time   = "at"`}, false},
	"nokey": {"CREATE TABLE nokey (at %[1]s NOT NULL)", "'%[2]s'", []string{"it has no primary key", "ADD PRIMARY KEY"}, false},
}

// TestInit writes declarations of tables that are there: each can be applied as it stands, or is
// refused with what to do.
func TestInit(t *testing.T) {
	t.Parallel()
	onPlanServers(t, func(t *testing.T, server planServer) {
		target := testdb.Target(t, server.kind).String()
		db := openKeeper(t, target)
		start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
		for name, table := range initTables {
			create := strings.NewReplacer("%[1]s", server.time, "%[2]s", server.text).Replace(table.create)
			_, err := db.SQL().ExecContext(t.Context(), create)
			must(t, db.Classify(err))
			var rows []string
			for i := range 3000 {
				at := start.Add(time.Duration(i) * 5 * time.Minute)
				row := fmt.Sprintf(table.insert, i, at.Format(time.DateTime), at.Add(time.Duration(i*7919%3000)*time.Hour/24).Format(time.DateTime), i%3, i*31)
				row, _, _ = strings.Cut(row, "%!(EXTRA")
				rows = append(rows, "("+row+")")
			}
			_, err = db.SQL().ExecContext(t.Context(), "INSERT INTO "+name+" VALUES "+strings.Join(rows, ", "))
			must(t, db.Classify(err))
		}
		for name, table := range initTables {
			s := rowmill(t.Context(), "init", "--target", target, "--table", name, "--memory", "64MB")
			said := s.stdout
			if s.code != exitDone {
				said = s.stderr
			}
			for _, want := range table.declared {
				_, rest, ok := strings.Cut(said, want)
				if !ok {
					t.Fatalf("exit %d: %q is missing, or not in its place:\n%s%s", s.code, want, s.stdout, s.stderr)
				}
				said = rest
			}
			if !table.adopted {
				continue
			}
			file := filepath.Join(t.TempDir(), name+".toml")
			writeFile(t, file, s.stdout)
			wantDone(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
			if s := rowmill(t.Context(), "apply", file, "--dry-run"); !strings.Contains(s.stdout, "nothing to do") {
				t.Errorf("%s%s", s.stdout, s.stderr)
			}
			if s := rowmill(t.Context(), "init", "--target", target, "--table", name); s.code == exitDone || !strings.Contains(s.stderr, "keeps it already") {
				t.Errorf("exit %d: %s", s.code, s.stderr)
			}
		}
		s := rowmill(t.Context(), "init", "--target", target, "--json")
		wantDone(t, s)
		var listed []struct{ Name, Time, Why string }
		must(t, json.Unmarshal([]byte(s.stdout), &listed))
		for _, l := range listed {
			if want, of := map[string]string{"counted": "no column tells the time", "nokey": "no primary key"}[l.Name], l.Why; want != "" && of != want {
				t.Errorf("%+v", l)
			}
		}
		if text := rowmill(t.Context(), "init", "--target", target).stdout; !strings.Contains(text, "counted") || strings.Contains(text, "rowmill_") {
			t.Errorf("%s", text)
		}
	})
}

// TestInitRefuses checks the errors of a use that can't be meant.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                  "init needs --target",
		"--target sqlite:none.db":           "there is no such file",
		"--target sqlite: --time at":        "--time and --rate are for one table",
		"--target sqlite: --table t --json": "--json is for the list",
		"--target sqlite: --table t":        "no such table",
		"--target sqlite: --table t --memory nothing": "--memory",
		"--target null: --table t":                    "no tables that roll",
	} {
		if s := verb(t, "init "+args); s.code == exitDone || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, s.code, s.stderr)
		}
	}
}
