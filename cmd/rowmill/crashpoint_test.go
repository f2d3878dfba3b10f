package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
)

// crashDeclaration seals, merges, compresses, archives and drops periods within a few hours.
const crashDeclaration = intsTable + `
[period]
every = "1h"
ahead = "12h"
keep  = "6h"

[seal]
after    = "30m"
merge    = "3h"
compress = true
archive  = "$DIR/archive"

[[rollup]]
name   = "readings_1h"
every  = "1h"
by     = ["sensor"]
select = { n = "count(*)", total = "sum(value)", mean = "avg(value)" }
`

// A crashing is a table whose rowmill run is killed.
type crashing struct {
	*keptTable
	close func()
}

// crashHours is the number of hours for which the table is filled. Then rowmill run,
// which has all of the maintenance to do, is killed.
const crashHours = 9

// newCrashing fills a table for crashHours.
func newCrashing(t *testing.T, server string) *crashing {
	t.Helper()
	c := &crashing{keptTable: declareUnopened(t, server, crashDeclaration)}
	c.open()
	t.Cleanup(func() { c.close() })
	c.tick(c.hour(0))
	mustPass(t, c.run("apply", "--yes"))
	for hour := range crashHours {
		c.insert(c.hour(hour), hour)
	}
	c.tick(c.hour(crashHours))
	return c
}

// open opens the test's own connections.
func (c *crashing) open() {
	c.Helper()
	opened, err := target.Open(c.Context(), c.target, func(string) {})
	must(c, err)
	c.db = opened.DB.(engine.Keeper)
	c.close = sync.OnceFunc(func() {
		if err := opened.Close(); err != nil {
			c.Error(err)
		}
	})
}

// hour returns a time of the given hour on the table's clock.
func (c *crashing) hour(n int) time.Time {
	return time.Date(2026, 3, 29, n, 40, 0, 0, time.UTC)
}

// finish runs the maintenance of two more hours, and returns the resulting state.
func (c *crashing) finish() string {
	c.Helper()
	for hour := crashHours; hour < crashHours+2; hour++ {
		c.tick(c.hour(hour))
		mustPass(c.T, c.run("run", "--once"))
		c.insert(c.hour(hour), hour)
	}
	return crashState(c.T, c.db, c.table)
}

// crash runs rowmill in a process that kills itself as a variable of crashPoint
// requests. It reports whether the process did.
func (c *crashing) crash(variable string, value any) bool {
	c.Helper()
	return c.crashVerb(variable, value, "run", c.file, "--once")
}

// crashVerb is crash with another verb.
func (d *keptTable) crashVerb(variable string, value any, args ...string) bool {
	d.Helper()
	for {
		killed, said := d.crashOrNot(variable, value, args...)
		// A server may take a moment to notice that the previous process has ended.
		if killed || !strings.Contains(said, "another process is doing it") {
			return killed
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (d *keptTable) crashOrNot(variable string, value any, args ...string) (killed bool, said string) {
	d.Helper()
	p := exec.Command(os.Args[0], append(args, "--clock", d.clock)...)
	p.Env = append(os.Environ(), processVariable+"=1", fmt.Sprintf("%s=%v", variable, value))
	var stderr bytes.Buffer
	p.Stderr = &stderr
	err := p.Run()
	if err == nil {
		return false, stderr.String()
	}
	if st, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || !st.Signaled() {
		d.Fatalf("it was to be killed, %s=%v: %v\n%s", variable, value, err, stderr.String())
	}
	return true, stderr.String()
}

// TestKillAtEachPoint kills rowmill run at the first point of its changes, at the
// second, and so on, until it completes. After each kill, the next rowmill run must
// reach the same state as an undisturbed one. Each attempt has a table of its own.
func TestKillAtEachPoint(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestKillAtEachPointOfAFile and TestKillAtOnePointAfterTheOther")
	for _, server := range []string{"sqlite", "mariadb", "mysql", "postgres"} {
		t.Run(server, func(t *testing.T) {
			want := newCrashing(t, server).finish()
			var points atomic.Int64
			const wave = 6 // concurrent attempts: they mostly wait for the disk
			for first := 1; int(points.Load()) == first-1 && !t.Failed(); first += wave {
				t.Run(fmt.Sprintf("from %d", first), func(t *testing.T) {
					for n := first; n < first+wave; n++ {
						t.Run(fmt.Sprint(n), func(t *testing.T) {
							t.Parallel()
							c := newCrashing(t, server)
							if c.crash(crashVariable, n) {
								points.Add(1)
							}
							if got := c.finish(); got != want {
								t.Errorf("killed at point %d it ends as\n%s\nwant\n%s", n, got, want)
							}
						})
					}
				})
			}
			if points.Load() < leastPoints {
				t.Errorf("it was killed at %d points only", points.Load())
			}
			t.Logf("killed at %d points", points.Load())
		})
	}
}

// leastPoints is the least number of points that the killed run passes.
const leastPoints = 60

// TestKillAtEachPointOfAFile is the same test on SQLite, at every seventh point, whose files are
// restored each time to their state before the first.
func TestKillAtEachPointOfAFile(t *testing.T) {
	t.Parallel()
	c := newCrashing(t, "sqlite")
	c.close()
	folders := map[string]string{filepath.Dir(c.at.Path): t.TempDir(), c.dir: t.TempDir()}
	for from, to := range folders {
		copyFolder(t, from, to)
	}
	// from restores the files and kills rowmill run at the n-th point.
	from := func(n int) (killed bool, state string) {
		t.Helper()
		for to, from := range folders {
			must(t, os.RemoveAll(to))
			copyFolder(t, from, to)
		}
		if n > 0 {
			killed = c.crash(crashVariable, n)
		}
		c.open()
		defer func() { c.close() }()
		return killed, c.finish()
	}
	_, want := from(0)
	n := 1
	for {
		killed, got := from(n)
		if got != want {
			t.Fatalf("killed at point %d it ends as\n%s\nwant\n%s", n, got, want)
		}
		if !killed {
			break
		}
		n += 7
	}
	if n <= leastPoints {
		t.Errorf("the last point at which it was killed is %d", n-7)
	}
	t.Logf("killed at every seventh point to %d", n-7)
}

// copyFolder copies the files of a directory that no process has open.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// TestKillAtOnePointAfterTheOther kills rowmill run repeatedly on one table of a server, at each
// kind of point when it is passed for the first and for the third time.
func TestKillAtOnePointAfterTheOther(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, server string) {
		want := newCrashing(t, server).finish()
		c := newCrashing(t, server)
		log, kills := filepath.Join(c.dir, "passed"), 0
		for c.crash(crashLogVariable, log) {
			kills++
		}
		if got := c.finish(); got != want {
			t.Errorf("killed at %d points it ends as\n%s\nwant\n%s", kills, got, want)
		}
		text := readFile(t, log)
		points := map[string]int{}
		for point := range strings.Lines(string(text)) {
			points[strings.TrimSpace(point)]++
		}
		if kills < 30 || len(points) < 15 {
			t.Errorf("it was killed at %d points only, of %d kinds: %v", kills, len(points), points)
		}
		t.Logf("killed at %d points of %d kinds: %v", kills, len(points), points)
	})
}

// crashState describes the state that must be the same: periods, rows, roll-ups and
// rowmill's metadata. It also checks that nothing is left behind.
func crashState(t *testing.T, db engine.Keeper, table *engine.Table) string {
	t.Helper()
	var b strings.Builder
	parts, err := db.Catalog().Partitions(t.Context(), table)
	must(t, err)
	for _, p := range parts {
		fmt.Fprintf(&b, "period %s %d\n", p.Name, count(t, db, db.Words().From(table, p)))
	}
	for _, q := range []string{
		"SELECT lower_pos, state, row_count, rebuilt FROM rowmill_states ORDER BY lower_pos",
		"SELECT id, step, kind, error FROM rowmill_journal ORDER BY id",
		"SELECT sensor, n, total, mean FROM readings_1h ORDER BY bucket, sensor",
	} {
		rows, err := db.SQL().QueryContext(t.Context(), q)
		must(t, err)
		for rows.Next() {
			var v [4]any
			must(t, rows.Scan(&v[0], &v[1], &v[2], &v[3]))
			for i := range v {
				if p, ok := v[i].([]byte); ok {
					v[i] = string(p)
				}
			}
			fmt.Fprintln(&b, v[:]...)
		}
		must(t, rows.Close())
	}
	tables := map[string]string{
		"sqlite":   "SELECT name FROM sqlite_schema WHERE name LIKE ",
		"postgres": "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE ",
	}[db.Info().Engine]
	if tables == "" {
		tables = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE "
	}
	for _, what := range []string{"new", "old", "drop"} {
		rows, err := db.SQL().QueryContext(t.Context(), tables+"'rowmill_"+what+"_%'")
		must(t, err)
		for rows.Next() {
			var name string
			must(t, rows.Scan(&name))
			fmt.Fprintf(&b, "left behind: table %s\n", name)
		}
		must(t, rows.Close())
	}
	return b.String()
}

func count(t *testing.T, db engine.Keeper, from string) (n int64) {
	t.Helper()
	must(t, db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+from).Scan(&n))
	return n
}
