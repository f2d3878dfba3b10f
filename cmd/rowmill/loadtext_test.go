package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SQLite has no type for times: they are text, as the declaration may say.
func TestLoadTimesOfText(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "events.toml")
	declaration := `[table]
name   = "events"
target = "sqlite:` + dir + `/x.db"
time   = "ts"
create = "CREATE TABLE events (ts TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (ts, id))"
[period]
every = "1h"
ahead = "6h"
keep  = "7d"
`
	rows := "id,ts\n1,2026-03-29 00:50:00\n2,1774747800.5\n3,2026-03-29T03:00:00+02:00\n4,soon\n"
	for name, text := range map[string]string{file: declaration, dir + "/clock": loadStart.Format(time.RFC3339), dir + "/day.csv": rows} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustPass(t, rowmill(t.Context(), "apply", file, "--clock", dir+"/clock", "--yes"))
	s := rowmill(t.Context(), "load", file, dir+"/day.csv", "--unix-times", "s", "--bad", dir+"/bad.jsonl")
	if s.code != exitFailed || !strings.Contains(s.stdout, "3 inserted, 0 there already, 1 rejected") {
		t.Fatalf("exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	l := &loading{T: t, db: openKeeper(t, "sqlite:"+dir+"/x.db")}
	if got, want := fmt.Sprint(l.strings("SELECT +ts FROM events ORDER BY id", 1)), "[2026-03-29 00:50:00 2026-03-29 01:30:00.500000 2026-03-29 01:00:00]"; got != want {
		t.Errorf("times are %s, want %s", got, want)
	}
}
