package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/rolling"
)

// history returns rows of one sensor, each at a distance from the start of the table's clock.
func history(sensor int, at ...time.Duration) string {
	var b strings.Builder
	for _, d := range at {
		fmt.Fprintf(&b, "%d,%s,1,\n", sensor, loadStart.Add(d).Format(time.DateTime))
	}
	return b.String()
}

const days = 24 * time.Hour

// historyHeader is the header of the tests' files.
const historyHeader = "sensor,ts,value,note\n"

// rolledUp compares the roll-up with the rows.
func (l *loading) rolledUp(rows int) {
	l.Helper()
	mustPass(l.T, l.run("run", "--once"))
	l.has(fmt.Sprint(rows), "SELECT COUNT(*) FROM readings")
	l.has(fmt.Sprint(rows), "SELECT SUM(n) FROM readings_15m")
}

// TestHistory: a load creates the periods that its rows need, also in gaps; rows that retention
// would drop, and those of the far future, are bad rows. Roll-ups that were computed before get the
// rows.
func TestHistory(t *testing.T) {
	onKeepers(t, func(l *loading) {
		l.insert(loadStart, 1)
		l.tick(loadStart.Add(time.Hour))
		l.rolledUp(20)
		text := historyHeader + history(1, -3*days, -3*days+time.Minute, -2*days, time.Minute) + history(2, -8*days, 180*365*days)
		l.write("old.csv", text)
		clock := " --clock " + l.clock
		before := l.query("SELECT COUNT(*) FROM readings")
		l.prints(exitFailed, "old.csv --dry-run"+clock, "6 rows checked, 4 of them could be sent, 2 could not",
			"2 periods would be created, p20260326_00 to p20260327_00", "1 row is older than the table's keep")
		l.has(before[0], "SELECT COUNT(*) FROM readings")
		l.prints(exitFailed, "old.csv --create-periods false --dry-run --bad off.jsonl"+clock, "6 rows checked, 1 of them could be sent, 5 could not", "!created")
		l.prints(exitFailed, "old.csv"+clock, "4 inserted", "2 rejected", "2 periods created, p20260326_00 to p20260327_00", "1 row is older than the table's keep")
		bad := l.bad("old.csv.bad.jsonl")
		for i, want := range []string{`older than keep = "1w": retention drops periods before 2026-03-22 01:00:00`, "too far in the future: periods are created up to 2026-03-29 09:00:00"} {
			if i >= len(bad) || !strings.Contains(bad[i].Reason, want) {
				l.Fatalf("bad rows %+v, want %q", bad, want)
			}
		}
		l.rolledUp(24)
		if s := l.run("status"); s.code != exitDone {
			l.Errorf("status with a gap: exit %d\n%s%s", s.code, s.stdout, s.stderr)
		}
		l.prints(exitDone, "old.csv"+clock, "nothing to do")
		// The file grows by a row of the gap, and one of the period that was the first.
		l.write("old.csv", text+history(3, -60*time.Hour, -3*days-time.Hour))
		l.prints(exitDone, "old.csv"+clock, "2 inserted", "2 periods created, p20260325_23 to p20260326_12")
		l.rolledUp(26)
		l.prints(exitDone, l.write("always.csv", historyHeader+history(4, 400*days))+" --create-periods always"+clock, "1 inserted", "1 period created, p20270503_00")
	})
}

// TestHistoryLimit: a load that would create very many periods ends before it creates them.
func TestHistoryLimit(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite", `keep  = "7d"`, "", `every = "1h"`, `every = "1m"`, `ahead = "6h"`, `ahead = "10m"`)
	clock := " --clock " + l.clock
	var at []time.Duration
	for i := range lane.MaxCreated + 1 {
		at = append(at, -time.Duration(i+60)*time.Minute)
	}
	l.write("many.csv", historyHeader+history(1, at...))
	l.prints(exitFailed, "many.csv"+clock, "1,001 periods", "--create-periods=always")
	l.hasRows(0)
	// A server's own limit leaves room for the periods ahead.
	l.write("some.csv", historyHeader+history(1, at[:490]...))
	l.prints(exitFailed, "some.csv"+clock, "the server allows 500, of which a tenth is left to new rows")
	l.hasRows(0)
	mustPass(t, l.run("run", "--once"))
}

// TestHistoryKilled kills a load at each kind of point that the creation of periods passes.
func TestHistoryKilled(t *testing.T) {
	onKeepers(t, func(l *loading) {
		l.insert(loadStart, 1)
		l.tick(loadStart.Add(time.Hour))
		log, kills := filepath.Join(l.dir, "passed"), 0
		load := func(file string, writers int, from time.Duration) {
			var at []time.Duration
			for i := range 12 {
				at = append(at, from+time.Duration(i*5%12)*2*time.Hour)
			}
			l.write(file, historyHeader+history(1, at...))
			for {
				c := l.command(0, fmt.Sprintf("%s --batch 4 --writers %d --clock %s", file, writers, l.clock))
				c.Env = append(c.Env, crashLogVariable+"="+log)
				s := ended(l.T, c, "")
				if s.code == exitDone {
					return
				}
				if kills++; s.code >= 0 && !strings.Contains(s.stdout, "another process") || kills > 60 {
					l.Fatalf("after %d kills: exit %d\n%s%s", kills, s.code, s.stdout, s.stderr)
				}
			}
		}
		load("old.csv", 2, -2*days)
		load("older.csv", 1, -4*days) // no other writer's point ends it before one of its own is passed
		points := string(readFile(l, log))
		for _, point := range []string{"create period", "period created", "period triggers", "before commit", "after commit"} {
			if !strings.Contains(points, point) {
				l.Errorf("it was not killed at %q: %s", point, points)
			}
		}
		l.rolledUp(44)
		l.has("24", "SELECT COUNT(DISTINCT ts) FROM readings WHERE sensor = 1 AND ts < "+l.db.Words().Literal(l.table, loadStart.Add(-time.Hour).UnixMicro()))
		if s := l.run("status"); s.code != exitDone {
			l.Errorf("status: exit %d\n%s%s", s.code, s.stdout, s.stderr)
		}
	})
}

// TestHistoryStays: maintenance leaves the periods alone that a load fills, says why, and drops
// them once the load has ended or was killed.
func TestHistoryStays(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, `keep  = "7d"`, `keep  = "12h"`)
		l.insert(loadStart, 1)
		l.tick(loadStart.Add(2 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		text := historyHeader + history(1, -9*time.Hour, -9*time.Hour+time.Second, -9*time.Hour+2*time.Second, -9*time.Hour+3*time.Second)
		path := l.write("old.csv", text)
		d, err := declared.Parse(l.Context(), l.file, "")
		must(l, err)
		flags := keptFlags{clock: l.clock}
		table, err := maintain.Open(l.Context(), l.db, d, flags.present())
		must(l, err)
		o := l.options(l.db)
		o.Periods, o.Rows, o.Writers = table, 2, 1
		dropped := func(want bool) {
			l.Helper()
			mustPass(l.T, l.run("run", "--once"))
			parts, err := l.db.Catalog().Partitions(l.Context(), l.table)
			must(l, err)
			if got := rolling.Find(parts, rolling.Position(loadStart.Add(-9*time.Hour))) < 0; got != want {
				l.Errorf("dropped is %t, want %t", got, want)
			}
		}
		commits := 0
		o.Reached = func(point string) {
			if point != "after commit" {
				return
			}
			if commits++; commits == 1 {
				l.tick(loadStart.Add(5 * time.Hour)) // the period passes keep
				dropped(false)
				if s := l.run("status"); !strings.Contains(s.stdout, path+" is being loaded into it") {
					l.Errorf("status doesn't say why a drop waits:\n%s", s.stdout)
				}
			}
		}
		r, err := ingest.File(l.Context(), o, path)
		if must(l, err); r.Inserted != 4 || commits != 2 {
			l.Errorf("loaded %+v in %d batches", r, commits)
		}
		dropped(true)
		// A load that was killed holds nothing back.
		l.tick(loadStart.Add(2 * time.Hour))
		l.write("new.csv", strings.ReplaceAll(text, "1,2026-03-28 15:4", "2,2026-03-28 16:4"))
		n := 1
		for l.killed(n, "", "new.csv --batch 2 --writers 1 --clock "+l.clock) && len(l.query("SELECT 1 FROM readings WHERE sensor = 2 AND value = 1 AND note IS NULL")) < 2 {
			n++
		}
		l.has("0", "SELECT finished FROM rowmill_sources WHERE path LIKE '%new.csv'")
		l.tick(loadStart.Add(5 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		l.has("0", "SELECT COUNT(*) FROM readings WHERE sensor = 2 AND ts < '2026-03-28 17:00:00'")
	})
}

// TestTrapRowsOfDroppedPeriod: a sender that has seen a period sends rows to it after retention has
// dropped it. They are bad rows, also where the server would store them in the next period.
func TestTrapRowsOfDroppedPeriod(t *testing.T) {
	onKeepers(t, func(l *loading) {
		c := l.command(0, "- --format csv --flush 10ms --clock "+l.clock)
		in, err := c.StdinPipe()
		must(l, err)
		var said bytes.Buffer
		c.Stdout, c.Stderr = &said, &said
		must(l, c.Start())
		_, err = io.WriteString(in, historyHeader+history(1, -7*days+30*time.Minute, time.Minute))
		must(l, err)
		l.waits("the first rows", func() bool { return len(l.rows()) == 2 })
		l.tick(loadStart.Add(2 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		l.hasRows(1)
		_, err = io.WriteString(in, history(2, -7*days+31*time.Minute, 2*time.Minute))
		must(l, err)
		must(l, in.Close())
		_ = c.Wait() // the exit code says it
		if code := c.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(said.String(), "3 inserted, 0 already present, 1 rejected") {
			l.Errorf("exit %d: %s", code, said.String())
		}
		l.hasRows(2)
		_, keeps := l.db.(engine.Outsider) // other servers refuse the row
		if bad := l.bad("readings.bad.jsonl"); len(bad) != 1 || bad[0].Line != 4 || keeps && !strings.Contains(bad[0].Reason, "older than keep") {
			l.Errorf("bad rows: %+v", bad)
		}
	})
}
