package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoadWatch checks that files that appear in a watched directory are loaded once each,
// that incomplete and hidden ones are left alone, and that a bad one is reported once.
func TestLoadWatch(t *testing.T) {
	onSQLite(t, func(l *loading) {
		dir := filepath.Join(l.dir, "in")
		must(l, os.Mkdir(dir, 0o755))
		put := func(name, text string) { l.write(filepath.Join("in", name), text) }
		watch := func() (stop func() session) {
			ctx, cancel := context.WithCancel(l.Context())
			out := make(chan session, 1)
			go func() {
				out <- rowmill(ctx, "load", l.file, "--clock", l.clock, "--watch", dir, "--bad", filepath.Join(l.dir, "bad.jsonl"))
			}()
			return func() session { cancel(); return <-out }
		}
		first, second, third := loadRows(0, 20, false), loadRows(100, 20, false), loadRows(200, 20, false)
		put("first.csv", first.text)
		put("first.csv.part", third.text)
		put(".hidden.csv", third.text)
		put("broken.csv", "colour\nred\n")
		put("note.txt", "no rows")
		stop := watch()
		l.waits("the first file is loaded", func() bool { return len(l.rows()) == 20 })
		put("second.csv.tmp", second.text)
		must(l, os.Rename(filepath.Join(dir, "second.csv.tmp"), filepath.Join(dir, "second.csv")))
		l.waits("the second file is loaded", func() bool { return len(l.rows()) == 40 })
		s := stop()
		if s.code != exitDone || strings.Count(s.stderr, "colour") != 1 || strings.Count(s.stderr, "left out: "+filepath.Join(dir, "note.txt")+": of an unknown format") != 1 || strings.Contains(s.stderr, "hidden") || strings.Count(s.stdout, "first.csv:") != 1 || strings.Count(s.stdout, "second.csv:") != 1 {
			l.Errorf("exit %d\n%s\n%s", s.code, s.stdout, s.stderr)
		}
		// A file that grows while nothing watches is continued, the others are known.
		put("second.csv", second.text+third.body())
		stop = watch()
		l.waits("the added rows are loaded", func() bool { return len(l.rows()) == 60 })
		if s := stop(); s.code != exitDone || strings.Contains(s.stdout, "first.csv") {
			l.Errorf("exit %d\n%s\n%s", s.code, s.stdout, s.stderr)
		}
	})
}

// TestLoadWatchRefused checks the flags that contradict --watch.
func TestLoadWatchRefused(t *testing.T) {
	onSQLite(t, func(l *loading) {
		l.write("day.csv", "")
		for _, args := range []string{"--watch . day.csv", "--watch none", "--watch day.csv", "--watch . --dry-run", "--watch . --list", "--watch . --source x", "--watch . --again"} {
			if s := l.exec(0, "", args); s.code != exitUsage || !strings.Contains(s.stderr, "--watch") {
				l.Errorf("%s: exit %d, %s", args, s.code, s.stderr)
			}
		}
	})
}
