package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A granted is a table whose verbs are run by separate accounts.
type granted struct {
	*keptTable
	name  string // of the database
	lines []string
	done  map[string]bool
}

// grantLine matches a GRANT statement of docs/privileges.md.
var grantLine = regexp.MustCompile(`(?m)^GRANT .* TO '?(apply|adopt|run|status|plan|load|restore|bench)'?(@'host')?;`)

// newGranted reads the statements of docs/privileges.md for a server.
func newGranted(t *testing.T, kind string) *granted {
	t.Helper()
	text := readFile(t, filepath.Join(here(t), "../../docs/privileges.md"))
	heading := "### MySQL and MariaDB"
	if kind == "postgres" {
		heading = "### PostgreSQL"
	}
	_, section, ok := strings.Cut(string(text), heading+"\n")
	if !ok {
		t.Fatalf("docs/privileges.md has no section %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	g := &granted{keptTable: declare(t, kind, strings.Replace(crashDeclaration, "\n[period]", "\nexact = true\n\n[period]", 1)), lines: grantLine.FindAllString(section, -1), done: map[string]bool{}}
	query := "SELECT DATABASE()"
	if kind == "postgres" {
		query = "SELECT current_database()"
	}
	must(t, g.db.SQL().QueryRowContext(t.Context(), query).Scan(&g.name))
	return g
}

// newAccount creates an account without privileges for the duration of the test, and
// returns its name for GRANT.
func newAccount(t *testing.T, db engine.Keeper, server, user string) (at string) {
	t.Helper()
	at = user + "@localhost"
	drop := []string{"DROP USER " + at}
	if server == "postgres" {
		at, drop = user, []string{"DROP OWNED BY " + user + " CASCADE", "DROP ROLE " + user}
		execSQL(t, db, "CREATE ROLE "+user+" LOGIN")
		execSQL(t, db, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	} else {
		execSQL(t, db, "CREATE USER "+at)
	}
	t.Cleanup(func() {
		for _, q := range drop {
			if _, err := db.SQL().Exec(q); err != nil {
				t.Error(err)
			}
		}
	})
	return at
}

// account creates the account of a verb, with exactly the privileges that are listed
// for it. It omits a listed table that doesn't exist yet, because the server refuses
// privileges on it.
func (g *granted) account(verb string) string {
	g.Helper()
	user := fmt.Sprintf("rowmill_%s_%d", verb, os.Getpid())
	if !g.done[verb] {
		g.done[verb] = true
		at := newAccount(g.T, g.db, g.server, user)
		found := false
		for _, line := range g.lines {
			if m := grantLine.FindStringSubmatch(line); m[1] == verb {
				found = true
				to := strings.LastIndex(line, " TO ")
				execSQL(g, g.db, strings.Replace(line[:to], " ON db.", " ON "+g.db.Dialect().Quote(g.name)+".", 1)+" TO "+at)
			}
		}
		if !found {
			g.Fatalf("docs/privileges.md lists no privileges for %s on %s", verb, g.server)
		}
	}
	return user
}

// as writes the declaration for an account, and returns its path.
func (g *granted) as(account string) string {
	g.Helper()
	path := filepath.Join(g.dir, account+".toml")
	writeFile(g, path, strings.Replace(g.text, "://root@", "://"+account+"@", 1))
	return path
}

// TestGrants checks that each verb runs with the privileges that docs/privileges.md lists
// for it.
func TestGrants(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, kind string) {
		g := newGranted(t, kind)
		verb := func(account, verb string, args ...string) session {
			t.Helper()
			return rowmill(t.Context(), append([]string{verb, g.as(g.account(account)), "--clock", g.clock}, args...)...)
		}
		start := time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC)
		g.tick(start)
		mustPass(t, verb("apply", "apply", "--yes"))
		keeper := "run"
		if kind == "postgres" {
			keeper = "apply" // the owner of the table
		}
		for hour := range 12 {
			now := start.Add(time.Duration(hour) * time.Hour)
			g.tick(now)
			mustPass(t, verb(keeper, "run", "--once"))
			g.insert(now, hour)
		}
		now := start.Add(11 * time.Hour)
		csv := filepath.Join(g.dir, "rows.csv")
		rows := fmt.Sprintf("sensor,ts,value\n7,%s,1\n8,%[1]s,2\n", now.Add(time.Second).Format("2006-01-02 15:04:05"))
		writeFile(t, csv, rows)
		if kind != "postgres" {
			keeper = "restore"
		}
		s := verb("status", "status")
		if s.code != exitDone && strings.Contains(s.stderr, "denied") {
			t.Errorf("status: %s%s", s.stdout, s.stderr)
		}
		for _, args := range [][]string{{csv}, {csv}, {csv, "--again"}, {"--list"}} {
			mustPass(t, rowmill(t.Context(), append([]string{"load", g.as(g.account("load")), "--retry", "0s"}, args...)...))
		}
		mustPass(t, verb("plan", "plan", "--rate", "5/s", "--sample-rows", "1000"))
		list := verb("status", "restore", "--list")
		mustPass(t, list)
		period, _ := (&archived{g.keptTable}).firstArchive()
		mustPass(t, verb(keeper, "restore", period, "--yes"))
		if kind != "postgres" { // an event of the account's that keeps the table
			execSQL(t, g.db, "CREATE DEFINER = "+g.account("apply")+"@localhost EVENT keeper ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01' DO ALTER TABLE readings DROP PARTITION p")
			mustPass(t, verb("apply", "apply", "--yes"))
			if n := count(t, g.db, "information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE() AND STATUS = 'ENABLED'"); n != 0 {
				t.Errorf("%d events are enabled after apply", n)
			}
		}
		// The preset skips rows whose key exists, in large batches.
		bench := strings.Replace(g.target, "://root@", "://"+g.account("bench")+"@", 1)
		mustPass(t, rowmill(t.Context(), "bench", "insert", "--target", bench, "--preset", "daily", "--layout", "plain,rolling",
			"--rows", "6000", "--batch", "3000", "--period-rows", "2000", "--out", filepath.Join(g.dir, "run.jsonl")))
	})
}
