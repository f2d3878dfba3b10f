package main

import (
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestHostile applies, loads, keeps, archives and restores a table on servers all of
// whose defaults differ from those that sessions rely on. The resulting state must be
// the same as on other servers.
func TestHostile(t *testing.T) {
	testdb.SkipUnlessNightly(t, "engine/mysql and engine/postgres TestHostile")
	for _, server := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(server, func(t *testing.T) {
			hostile := testdb.Hostile(t, server)
			var states []string
			for _, kind := range []string{server, hostile} {
				w := newArchived(t, kind)
				period, _ := w.firstArchive()
				mustPass(t, w.run("restore", period, "--yes"))
				mustPass(t, w.run("run", "--once"))
				mustPass(t, w.run("status"))
				states = append(states, w.state())
			}
			if states[0] != states[1] {
				t.Errorf("it ends as\n%s\nelsewhere as\n%s", states[1], states[0])
			}
			// It includes characters that the server's character set lacks.
			l := newLoading(t, hostile, "\n[table]", "\n# 日本\n[table]")
			f := loadRows(1, 1000, true)
			l.write("日本.csv", f.text)
			for _, code := range []int{exitFailed, exitDone} {
				l.loads(code, "", "日本.csv --bad bad.jsonl --max-bad 1000")
				l.check("bad.jsonl", f)
			}
		})
	}
}
