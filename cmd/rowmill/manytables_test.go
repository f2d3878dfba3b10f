package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/testdb"
)

// manyDeclared declares and applies n tables with periods of a length, one file each in a
// directory. Each tenth has a roll-up.
func manyDeclared(t *testing.T, target func(i int) string, every string, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	servers := &declared.Servers{}
	defer func() { must(t, servers.Close()) }()
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("t%04d.toml", i))
		writeFile(t, file, manyText(target(i), every, i))
		f, err := declared.Read(t.Context(), file, "")
		must(t, err)
		f.Servers = servers
		k, err := f.Open(t.Context())
		must(t, err)
		plan, err := apply.PlanTable(t.Context(), k.Table)
		must(t, err)
		must(t, plan.Run(t.Context(), func(apply.Step) {}))
	}
	return dir
}

func manyText(target, every string, i int) string {
	text := fmt.Sprintf(`[table]
name = "t%04d"
target = %q
create = "CREATE TABLE t%04d (sensor INT NOT NULL, ts %s NOT NULL, value INT NOT NULL, PRIMARY KEY (sensor, ts))"
time = "ts"
[period]
every = %q
ahead = %q
keep = "120%s"
`, i, target, i, timeType(target), every, "3"+every[1:], every[1:])
	if i%10 == 0 {
		text += fmt.Sprintf("[[rollup]]\nname = \"t%04d_1h\"\nevery = \"1h\"\nby = [\"sensor\"]\nselect = { n = \"count(*)\" }\n", i)
	}
	return text
}

// A manyRun is a process that keeps the tables of a directory.
type manyRun struct {
	*testing.T
	cmd *exec.Cmd
	log string
}

func startMany(t *testing.T, args ...string) *manyRun {
	t.Helper()
	r := &manyRun{T: t, cmd: killable(0, append([]string{"run"}, args...)...), log: filepath.Join(t.TempDir(), "log")}
	out, err := os.Create(r.log)
	must(t, err)
	r.cmd.Stderr = out
	must(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		_ = r.cmd.Wait()
		_ = out.Close()
	})
	return r
}

func (r *manyRun) says() string { return string(readFile(r, r.log)) }

// waits waits until the log has n lines with a text.
func (r *manyRun) waits(n int, text string, within time.Duration) {
	r.Helper()
	for end := time.Now().Add(within); strings.Count(r.says(), text) < n; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			log := r.says()
			r.Fatalf("%d lines with %q after %s, want %d:\n%s", strings.Count(log, text), text, within, n, log[max(0, len(log)-5000):])
		}
	}
}

// cpu returns the CPU time of the process, and memory its resident bytes.
func (r *manyRun) cpu() time.Duration {
	fields := strings.Fields(string(readFile(r, fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))))
	var ticks int
	for _, f := range fields[13:15] {
		n, err := strconv.Atoi(f)
		must(r, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func (r *manyRun) memory() int64 {
	for line := range strings.Lines(string(readFile(r, fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid)))) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			must(r, err)
			return n << 10
		}
	}
	return 0
}

// connections counts those to a database, but for the one that counts.
func connections(ctx context.Context, db engine.Keeper) (n int, err error) {
	q := "SELECT COUNT(*) - 1 FROM information_schema.processlist WHERE db = DATABASE()"
	switch {
	case db.Capabilities().Embedded:
		return 0, nil
	case strings.HasPrefix(db.Info().Engine, "postgres"):
		q = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
	}
	err = db.SQL().QueryRowContext(ctx, q).Scan(&n)
	return n, err
}

// TestManyTables: however many tables one process keeps, it has few connections, and needs next to
// no CPU time while there is nothing to do.
func TestManyTables(t *testing.T) {
	t.Parallel()
	n, settle, idle := map[string]int{}, time.Duration(0), time.Second
	if testdb.Nightly() {
		n, settle, idle = map[string]int{"sqlite": 1000, "mariadb": 300, "mysql": 300, "postgres": 300}, 90*time.Second, 5*time.Minute
	}
	for _, kind := range testdb.Kinds(t, keepers...) {
		t.Run(kind, func(t *testing.T) {
			target := testdb.Target(t, kind).String()
			n := cmp.Or(n[kind], 8)
			place := func(int) string { return target }
			if kind == "sqlite" { // as docs/keeping.md advises
				files := t.TempDir()
				place = func(i int) string { return fmt.Sprintf("sqlite:%s/t%04d.db", files, i) }
			}
			dir := manyDeclared(t, place, "1d", n)
			db := openKeeper(t, target)
			before, err := connections(t.Context(), db)
			must(t, err)
			r := startMany(t, dir)
			began := time.Now()
			most := 0
			count := func() {
				n, err := connections(t.Context(), db)
				must(t, err)
				most = max(most, n-before)
			}
			for strings.Count(r.says(), " keeps t") < n {
				count()
				if time.Since(began) > time.Minute {
					r.waits(n, " keeps t", 0)
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Logf("%d tables are kept after %s, with %s of CPU time", n, time.Since(began).Round(time.Millisecond), r.cpu())
			time.Sleep(settle) // the first passes, and looks at what these have written
			cpu, from := r.cpu(), time.Now()
			for time.Since(from) < idle {
				count()
				time.Sleep(250 * time.Millisecond)
			}
			share := 100 * (r.cpu() - cpu).Seconds() / time.Since(from).Seconds()
			t.Logf("idle for %s: %.2f%% of a core, at most %d connections, %d MB", time.Since(from).Round(time.Second), share, most, r.memory()>>20)
			if most > engine.BoundConnections {
				t.Errorf("%d connections", most)
			}
			if testdb.Nightly() && (share > 2 || r.memory() > 150<<20) {
				t.Errorf("%.2f%% of a core, %d MB", share, r.memory()>>20)
			}
			next := startMany(t, dir)
			time.Sleep(min(settle, 5*time.Second) + 500*time.Millisecond)
			must(t, r.cmd.Process.Kill())
			killed := time.Now()
			next.waits(n, " keeps t", time.Minute)
			t.Logf("all are taken over %s after the leader was killed", time.Since(killed).Round(100*time.Millisecond))
		})
	}
}
