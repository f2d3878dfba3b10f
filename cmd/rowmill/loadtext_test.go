package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLoadTimesOfText checks times in SQLite, which has no type for them: they are
// text, if the declaration says so.
func TestLoadTimesOfText(t *testing.T) {
	t.Parallel()
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

// TestLoadWordNull checks that the user must say what NULL means before such a row is
// loaded: mysql -B prints NULL both for a null and for that text.
func TestLoadWordNull(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	path := l.write("dump.tsv", "sensor\tts\tvalue\tnote\n1\t2026-03-29 01:00:00\t1\tNULL\n2\t2026-03-29 01:00:00\tNULL\tx\n3\t2026-03-29 01:00:00\t1\t\\N\n")
	if got, _ := l.load(exitFailed, path); got[0].Inserted != 1 || got[0].Rejected != 2 {
		t.Errorf("without a word on it: %+v", got[0])
	}
	if bad := l.bad("dump.tsv.bad.jsonl"); len(bad) != 2 || !strings.Contains(bad[0].Reason, "--null NULL") {
		t.Errorf("bad rows: %+v", bad)
	}
	if got, _ := l.load(exitDone, path, "--source", "again", "--null", "NULL"); got[0].Inserted != 2 || got[0].Duplicate != 1 {
		t.Errorf("with --null NULL: %+v", got[0])
	}
	if got, want := fmt.Sprint(l.strings("SELECT sensor, typeof(value), typeof(note) FROM readings ORDER BY sensor", 3)), "[1 real null 2 null text 3 real null]"; got != want {
		t.Errorf("loaded %s, want %s", got, want)
	}
}
