package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowmill/rowmill/state"
)

// The ledger doesn't grow for ever: a day after a file was loaded its lines go,
// and not those of a file that is still to be loaded on.
func TestLedgerIsTidied(t *testing.T) {
	onKeepers(t, func(l *loading) {
		done, begun := loadRows(0, 100, false), loadRows(1000, 100, false)
		l.load(exitDone, l.write("done.csv", done.text), "--batch", "10")
		path := l.write("begun.csv", begun.text)
		if !l.killed(6, "", path, "--batch", "10", "--writers", "1") {
			l.Fatal("it wasn't killed")
		}
		lines := func() string {
			return fmt.Sprint(l.strings("SELECT SUBSTR(s.path, -9, 5), COUNT(*) FROM rowmill_ledger AS g JOIN rowmill_sources AS s ON s.source = SUBSTR(g.batch, 1, 16) GROUP BY s.path ORDER BY s.path", 2))
		}
		if l.server == "postgres" { // which counts no characters from the end
			lines = func() string {
				return fmt.Sprint(l.strings("SELECT LEFT(RIGHT(s.path, 9), 5), COUNT(*) FROM rowmill_ledger AS g JOIN rowmill_sources AS s ON s.source = SUBSTR(g.batch, 1, 16) GROUP BY s.path ORDER BY s.path", 2))
			}
		}
		before := lines()
		st := state.New(l.db)
		if err := st.Tidy(l.Context(), "readings", time.Now().Add(-time.Minute)); err != nil {
			l.Fatal(err)
		}
		if got := lines(); got != before {
			l.Errorf("tidied too early: %s, were %s", got, before)
		}
		if err := st.Tidy(l.Context(), "readings", time.Now().Add(time.Minute)); err != nil {
			l.Fatal(err)
		}
		if got := lines(); got != "[begun 2]" && got != "[begun 3]" {
			l.Errorf("left are %s, were %s; want those of the file that is begun", got, before)
		}
		l.load(exitDone, path)
		if n := len(l.rows()); n != 200 {
			l.Errorf("%d rows, want 200", n)
		}
		if got, _ := l.load(exitDone, l.dir+"/done.csv"); got[0].Sent != 0 || got[0].Before != 100 {
			l.Errorf("a file whose lines are gone: %+v", got[0])
		}
	})
}
