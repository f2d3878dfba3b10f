package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPrivileges checks that a read-only user is told what to grant, and that a user
// with the privileges of docs/privileges.md can adopt and keep a table.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	docs := readFile(t, filepath.Join(here(t), "../../docs/privileges.md"))
	listed := regexp.MustCompile(`(?m)^GRANT (.*) ON db\.\* TO`).FindStringSubmatch(string(docs))
	if listed == nil {
		t.Fatal("docs/privileges.md lists no privileges")
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
		if s.code != exitFailed || !strings.Contains(s.stderr, "docs/privileges.md") || !regexp.MustCompile("Try: GRANT").MatchString(s.stderr) {
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
		for _, verb := range []string{"--undo", "--finish"} {
			if s := rowmill(t.Context(), "apply", file, verb, "--yes"); s.code != exitFailed || !strings.Contains(s.stderr, "the adoption of readings: it is finished, or there was none: no table readings__rowmill_old is kept") {
				t.Errorf("%s after --finish: exit %d, stderr: %s", verb, s.code, s.stderr)
			}
		}
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

// TestDeniedVerbs checks that each verb without privileges names all that it needs at once: with
// the statements that it prints, it passes.
func TestDeniedVerbs(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, kind string) {
		g := newGranted(t, kind)
		start := time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC)
		g.tick(start)
		mustPass(t, rowmill(t.Context(), "apply", g.file, "--yes", "--clock", g.clock))
		g.insert(start, 1)
		g.tick(start.Add(3 * time.Hour))
		csv := filepath.Join(g.dir, "rows.csv")
		writeFile(t, csv, "sensor,ts,value\n7,2026-03-29 00:50:00,1\n")
		for _, args := range [][]string{
			{"status"}, {"plan", "--sample-rows", "1000", "--memory", "64MB"}, {"load", csv}, {"rollup", "refresh", "--from", "2026-03-29", "--to", "2026-03-30", "--yes"}, {"run", "--once"}, {"apply", "--yes"},
		} {
			verb, at := args[0], 1
			if verb == "rollup" {
				at = 2
			}
			account := fmt.Sprintf("rowmill_no_%s_%d", verb, os.Getpid())
			if user := newAccount(t, g.db, kind, account); kind != "postgres" { // it may see the database
				execSQL(t, g.db, fmt.Sprintf("GRANT SELECT ON %s.rowmill_stale TO %s", g.db.Dialect().Quote(g.name), user))
			}
			file := g.as(account)
			if verb == "run" {
				all := map[bool]string{true: "ALL TABLES IN SCHEMA public TO " + account, false: g.db.Dialect().Quote(g.name) + ".* TO " + account + "@localhost"}
				execSQL(t, g.db, "GRANT SELECT ON "+all[kind == "postgres"])
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if s := rowmill(ctx, "run", file, "--clock", g.clock); strings.Count(s.stderr, "rowmill run needs:") != 1 {
					t.Errorf("a daemon that may only read: exit %d, %s", s.code, s.stderr)
				}
				cancel()
			}
			if verb == "apply" {
				writeFile(t, file, strings.Replace(string(readFile(t, file)), "keep  = \"6h\"", "keep  = \"8h\"", 1))
			}
			all := slices.Insert(args, at, file, "--clock", g.clock)
			s := rowmill(t.Context(), all...)
			statements := regexp.MustCompile(`(?m)^((?:GRANT|ALTER TABLE) .*);$`).FindAllStringSubmatch(s.stderr, -1)
			if s.code == exitUnknown && verb == "status" {
				s.code = exitFailed
			}
			if s.code != exitFailed || len(statements) == 0 || strings.Count(s.stderr, "rowmill "+verb+" needs:") != 1 {
				t.Fatalf("%s without privileges: exit %d, stderr: %s", verb, s.code, s.stderr)
			}
			for _, q := range statements {
				execSQL(t, g.db, q[1])
			}
			if s := rowmill(t.Context(), all...); s.code != exitDone && (verb != "status" || strings.Contains(s.stderr, "denied")) {
				t.Errorf("%s with %v: exit %d, %s%s", verb, statements, s.code, s.stdout, s.stderr)
			}
		}
	})
}
