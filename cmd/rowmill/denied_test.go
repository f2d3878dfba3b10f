package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPrivileges checks that a read-only user is told what to grant, and that a user
// with the privileges of docs/operations.md can adopt and keep a table.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	docs := readFile(t, filepath.Join(here(t), "../../docs/operations.md"))
	listed := regexp.MustCompile(`(?m)^GRANT (.*) ON db\.\* TO`).FindStringSubmatch(string(docs))
	if listed == nil {
		t.Fatal("docs/operations.md lists no privileges")
	}
	onEach(t, servers, func(t *testing.T, kind string) {
		file, db := plainTable(t, kind, 100)
		exec := func(statements ...string) {
			t.Helper()
			for _, q := range statements {
				execSQL(t, db, q)
			}
		}
		text := readFile(t, file)
		owner := regexp.MustCompile(`://(\w+)@`).FindStringSubmatch(string(text))
		if owner == nil {
			t.Fatalf("no user in %s", text)
		}
		const user = "rowmill_limited"
		writeFile(t, file, strings.Replace(string(text), "://"+owner[1]+"@", "://"+user+"@", 1))
		at := newAccount(t, db, kind, user)
		if kind == "postgres" {
			exec("ALTER TABLE readings OWNER TO " + user)
		} else {
			exec("GRANT SELECT ON readings TO " + at)
		}
		s := rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates")
		if s.code != exitFailed || !strings.Contains(s.stderr, "docs/operations.md") || !regexp.MustCompile("Try: GRANT").MatchString(s.stderr) {
			t.Errorf("may only read: exit %d, stderr: %s", s.code, s.stderr)
		}
		untouched := func(when string) {
			t.Helper()
			var n int
			q := "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema IN ('public', DATABASE())"
			if kind == "postgres" {
				q = strings.Replace(q, ", DATABASE()", "", 1)
			}
			if err := db.SQL().QueryRowContext(t.Context(), q).Scan(&n); err != nil || n != 1 {
				t.Errorf("%s: %d tables and views, want the plain one alone; %v", when, n, err)
			}
		}
		untouched("may only read")
		if kind == "postgres" {
			exec("GRANT USAGE, CREATE ON SCHEMA public TO " + user)
		} else {
			var name string
			must(t, db.SQL().QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name))
			exec("GRANT " + strings.Replace(listed[1], ", TRIGGER", "", 1) + " ON `" + name + "`.* TO " + at)
			s := rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates")
			if s.code != exitFailed || !strings.Contains(s.stderr, "GRANT TRIGGER ON") {
				t.Errorf("without TRIGGER: exit %d, stderr: %s", s.code, s.stderr)
			}
			untouched("without TRIGGER")
			exec("GRANT "+listed[1]+" ON `"+name+"`.* TO "+at, "GRANT PROCESS ON *.* TO "+at)
		}
		mustPass(t, rowmill(t.Context(), "apply", file, "--yes", "--allow-duplicates"))
		mustPass(t, rowmill(t.Context(), "run", file, "--once"))
		mustPass(t, rowmill(t.Context(), "apply", file, "--finish", "--yes"))
		s = rowmill(t.Context(), "status", file)
		mustPass(t, s)
		if kind != "postgres" {
			if strings.Contains(s.stdout, "GRANT") {
				t.Errorf("with PROCESS: %s", s.stdout)
			}
			exec("REVOKE PROCESS ON *.* FROM " + at)
		}
		// Once a statement has waited for a lock, rowmill also queries its holder.
		exec(fmt.Sprintf("INSERT INTO rowmill_actions (table_name, at_us, serial, action, detail, took_us, error, locked, by_whom) VALUES "+
			"('readings', %d, 1, 'drop', 'p', 0, 'lock wait timeout', 1, 'another')", time.Now().UnixMicro()))
		s = rowmill(t.Context(), "status", file)
		want := "GRANT PROCESS ON *.* TO '" + user + "'@'localhost'"
		if kind == "postgres" {
			want = `GRANT pg_read_all_stats TO "` + user + `"`
		}
		if s.code != exitFailed || !strings.Contains(s.stdout, want) || !strings.Contains(s.stdout, "blocked:") || !strings.Contains(s.stdout, "SIZE") {
			t.Errorf("without the privilege: exit %d, want %s: %s%s", s.code, want, s.stdout, s.stderr)
		}
	})
}
