package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/state"
)

// TestLedgerIsTidied checks that the ledger doesn't grow indefinitely: a day after a
// file was loaded, its entries are deleted. The entries of a file that is not loaded
// completely stay.
func TestLedgerIsTidied(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		done, begun := loadRows(0, 100, false), loadRows(1000, 100, false)
		l.load(exitDone, l.write("done.csv", done.text), "--batch", "10")
		path := l.write("begun.csv", begun.text)
		l.kill(9, "", path, "--batch", "10", "--writers", "1")
		lines := func() string {
			return fmt.Sprint(l.strings("SELECT SUBSTR(s.path, -9, 5), COUNT(*) FROM rowmill_ledger AS g JOIN rowmill_sources AS s ON s.source = SUBSTR(g.batch, 1, 16) GROUP BY s.path ORDER BY s.path", 2))
		}
		if l.server == "postgres" { // its substr counts no characters from the end
			lines = func() string {
				return fmt.Sprint(l.strings("SELECT LEFT(RIGHT(s.path, 9), 5), COUNT(*) FROM rowmill_ledger AS g JOIN rowmill_sources AS s ON s.source = SUBSTR(g.batch, 1, 16) GROUP BY s.path ORDER BY s.path", 2))
			}
		}
		before := lines()
		st := state.New(l.db)
		must(l, st.Tidy(l.Context(), "readings", time.Now().Add(-time.Minute)))
		if got := lines(); got != before {
			l.Errorf("tidied too early: %s, were %s", got, before)
		}
		must(l, st.Tidy(l.Context(), "readings", time.Now().Add(time.Minute)))
		want := strings.Replace(before, " /done 10]", "]", 1)
		if got := lines(); got != want || want == before || !strings.HasPrefix(want, "[begun ") {
			l.Errorf("left are %s, were %s; want those of the file that is begun", got, before)
		}
		l.load(exitDone, path)
		l.hasRows(200)
		l.loads("a file whose lines are gone", exitDone, "Sent 0, Before 100", l.dir+"/done.csv")
	})
}

// TestLoadBadInput checks that invalid arguments are refused before anything is
// loaded.
func TestLoadBadInput(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	good := l.write("good.csv", loadRows(0, 10, false).text)
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{}, exitUsage, []string{"no source is given"}},
		{[]string{good, l.dir + "/missing.csv"}, exitFailed, []string{"missing.csv: no such file", "nothing has been loaded"}},
		{[]string{l.dir}, exitFailed, []string{"is a directory", "*"}},
		{[]string{"--header", "false", good}, exitUsage, []string{"Try: --header=false"}},
		{[]string{"-"}, exitUsage, []string{"format of stdin"}},
		{[]string{"-", good, "--format", "csv"}, exitUsage, []string{"another source"}},
		{[]string{good, "--format", "xml"}, exitUsage, []string{`"xml" is unknown`, "csv tsv jsonl"}},
		{[]string{good, "--spool", l.dir}, exitUsage, []string{"--spool is for stdin"}},
		{[]string{good, good, "--source", "x"}, exitUsage, []string{"names one source"}},
		{[]string{good, "--batch", "0"}, exitUsage, []string{"--batch 0"}},
		{[]string{good, "--writers", "-1"}, exitUsage, []string{"--writers -1"}},
		{[]string{good, "--time-zone", "Europe/Nowhere"}, exitUsage, []string{"no such zone", "Europe/Berlin"}},
		{[]string{good, "--time-zone", "+25:00"}, exitUsage, []string{"no such offset"}},
		{[]string{good, "--delimiter", "ab"}, exitUsage, []string{"one character"}},
		{[]string{good, "--delimiter", "\""}, exitUsage, []string{"can't be a delimiter"}},
		{[]string{good, "--bytes", "octal"}, exitUsage, []string{"hex, base64, raw"}},
		{[]string{good, "--unix-times", "days"}, exitUsage, []string{"s, ms, us, ns"}},
		{[]string{good, "--duplicates", "replace"}, exitUsage, []string{"skip or reject"}},
		{[]string{good, "--delimiter", ";"}, exitFailed, []string{"isn't one of table readings", "Try: --delimiter ','"}},
		{[]string{good, "--list"}, exitUsage, []string{"--list is about all"}},
		{[]string{good, "--columns", "sensor,,ts"}, exitUsage, []string{"--columns: name 2 is empty"}},
		{[]string{good, "--columns", "sensor,when,value,note"}, exitFailed, []string{`column "when"`, "sensor, ts, value, note"}},
	} {
		s := rowmill(t.Context(), append([]string{"load", l.file}, c.args...)...)
		if s.code != c.code {
			t.Errorf("load %v: exit %d, want %d\n%s", c.args, s.code, c.code, s.stderr)
		}
		for _, want := range c.says {
			if !strings.Contains(s.stderr, want) {
				t.Errorf("load %v says\n%s\nwant %q", c.args, s.stderr, want)
			}
		}
	}
	l.hasRows(0)
	if s := rowmill(t.Context(), "load", l.file, good, "--time-zone", "-01:00", "--bad", l.dir+"/bad.jsonl"); s.code != exitDone {
		t.Errorf("an offset: %s", s.stderr)
	}
}

// TestLoadDryRunAgain checks that a dry run has a separate file of bad rows, which
// holds only those of the last dry run, and that it doesn't change the file of a load.
func TestLoadDryRunAgain(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	path := l.write("day.csv", "sensor,ts,value,note\nx,2026-03-29 01:00:00,1,ok\n1,2026-03-29 01:00:00,1,ok\n")
	for range 2 {
		l.load(exitFailed, path, "--dry-run")
	}
	if got := l.bad("day.csv.dry.jsonl"); len(got) != 1 || len(l.bad("day.csv.bad.jsonl")) != 0 {
		t.Errorf("dry runs: %+v", got)
	}
	l.load(exitFailed, path)
	for range 2 {
		l.load(exitFailed, path, "--dry-run", "--bad", "day.csv.bad.jsonl")
	}
	if got := l.bad("day.csv.bad.jsonl"); len(got) != 2 {
		t.Errorf("the load's and the dry run's: %+v", got)
	}
	l.load(exitDone, l.write("day.csv", "sensor,ts,value,note\n"), "--dry-run")
	if got := l.bad("day.csv.dry.jsonl"); len(got) != 0 {
		t.Errorf("of a file that is mended: %+v", got)
	}
}
