package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
)

// olderVariable names a test binary of an older version, with which -update makes
// testdata/upgrade again: see scripts/upgrade-states.sh.
const olderVariable = "ROWMILL_TEST_OLDER"

// An upgraded is a database of an older version. Of table orders the adoption is half-done; of
// table readings two loads are, and the roll-ups lack what they have loaded.
type upgraded struct {
	*loading
	orders *keptTable
}

const (
	ordersDeclaration = `
[table]
name   = "orders"
target = "$TARGET"
create = '''
CREATE TABLE orders (id INT NOT NULL, ts $TIME NOT NULL, amount INT NOT NULL, PRIMARY KEY (id, ts))'''
time   = "ts"

[period]
every = "1d"
ahead = "2d"
`
	// Of the orders, the first chunk is copied.
	orderCount, firstChunk = 1200, 1000
	// Two files have rows of the first three hours, the last one of the next three.
	firstRows, liveRows, publishRows = 90, 120, 150
)

// newUpgraded returns an empty database for the tables, and writes the files to load.
func newUpgraded(t *testing.T, server string) *upgraded {
	t.Helper()
	url := testdb.Target(t, server).String()
	float := "DOUBLE"
	if server == "postgres" {
		float = "DOUBLE PRECISION"
	}
	u := &upgraded{&loading{declareAt(t, server, url, strings.ReplaceAll(loadDeclaration, "$FLOAT", float)+`
[[rollup]]
name   = "readings_1h"
from   = "readings_15m"
every  = "1h"
`)}, declareAt(t, server, url, ordersDeclaration)}
	u.orders.file = filepath.Join(u.dir, "orders.toml")
	writeFile(t, u.orders.file, u.orders.text)
	first := 0
	for _, f := range []struct {
		name       string
		rows, hour int
	}{{"first.csv", firstRows, 0}, {"live.csv", liveRows, 0}, {"publish.csv", publishRows, 3}} {
		text := "sensor,ts,value,note\n"
		for i := range f.rows {
			at := loadStart.Truncate(time.Hour).Add(time.Duration(f.hour*3600+i*3*3600/f.rows) * time.Second)
			text += fmt.Sprintf("%d,%s,0.5,n%d\n", first+i, at.Format(time.DateTime), i%10)
		}
		first += f.rows
		u.write(f.name, text)
	}
	return u
}

// make makes the half-done state with the program of an older version.
func (u *upgraded) make(program string) {
	u.Helper()
	older := func(args ...string) *exec.Cmd {
		c := exec.Command(program, append(args, "--clock", u.clock)...)
		c.Env, c.Dir = append(os.Environ(), processVariable+"=1"), u.dir
		return c
	}
	done := func(args ...string) {
		u.Helper()
		if out, err := older(args...).CombinedOutput(); err != nil {
			u.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	// stopped has the program kill itself at a point, which is its first or third pass of any. A point
	// counts as passed as often as it is in before.
	stopped := func(point, before string, args ...string) {
		u.Helper()
		log := filepath.Join(u.T.TempDir(), "passed")
		writeFile(u, log, before)
		c := older(args...)
		c.Env = append(c.Env, crashLogVariable+"="+log)
		out, err := c.CombinedOutput()
		if text := string(readFile(u, log)); err == nil || !strings.HasSuffix(text, point+"\n") {
			u.Fatalf("%v wasn't killed at %s: %v; it passed\n%s\n%s", args, point, err, text, out)
		}
	}
	thrice := func(points ...string) string { return strings.Repeat(strings.Join(points, "\n")+"\n", 3) }
	u.tick(loadStart)
	done("apply", u.file, "--yes")
	done("load", u.file, "first.csv")
	u.tick(loadStart.Add(time.Hour))
	done("run", u.file, "--once")
	u.tick(upgradeTime)
	stopped("after commit", thrice("cuts noted", "before commit")+"after commit\n", "load", u.file, "live.csv", "--lane", "live", "--batch", "20", "--writers", "1")
	skip := thrice("cuts noted", "publication noted", "rows collected", "publish begun", "publish staged", "before commit", "after commit")
	stopped("publish swap", skip, "load", u.file, "publish.csv", "--lane", "publish", "--batch", "50", "--parallel", "1")

	opened, err := target.Open(u.Context(), u.target, func(string) {})
	must(u, err)
	db := opened.DB.(engine.Keeper)
	execSQL(u, db, "CREATE TABLE orders (id INT NOT NULL, ts "+timeType(u.target)+" NOT NULL, amount INT NOT NULL, PRIMARY KEY (id, ts))")
	var rows []string
	for i := range orderCount {
		rows = append(rows, fmt.Sprintf("(%d, '%s', %d)", i, loadStart.Add(-time.Duration(i)*time.Minute).Format(time.DateTime), i%7))
	}
	execSQL(u, db, "INSERT INTO orders VALUES "+strings.Join(rows, ", "))
	// After its first chunk the copy rests, a hundred times as long as that took.
	c := older("apply", u.orders.file, "--yes", "--allow-duplicates", "--nice", "100")
	must(u, c.Start())
	u.waits("a chunk of the copy", func() bool {
		return count(u.T, db, fmt.Sprintf(`rowmill_journal WHERE step = 'copy' AND data LIKE '%%"%d"%%'`, firstChunk-1)) > 0
	})
	must(u, c.Process.Kill())
	if c.Wait() == nil {
		u.Fatal("the adoption ended")
	}
	execSQL(u, db, "UPDATE orders SET amount = 100 WHERE id < 10")
	execSQL(u, db, "DELETE FROM orders WHERE id BETWEEN 10 AND 14")
	execSQL(u, db, "INSERT INTO orders SELECT id + 10000, ts, amount FROM orders WHERE id BETWEEN 15 AND 24")
	must(u, opened.Close())
}

// upgradeTime is the present when the older version was stopped.
var upgradeTime = loadStart.Add(3 * time.Hour)

// client returns a command of a database's own tools on the test's database.
func (u *upgraded) client(name string, args ...string) *exec.Cmd {
	switch q := u.at.Query; u.server {
	case "sqlite":
		args = append([]string{u.at.Path}, args...)
	case "postgres":
		args = append(args, "--host="+q.Get("host"), "--port="+q.Get("port"), "--username="+u.at.User, u.at.Path)
	default:
		args = slices.Concat([]string{"--no-defaults"}, args, []string{"--socket=" + q.Get("socket"), "--user=" + u.at.User, u.at.Path})
	}
	return exec.Command(name, args...)
}

// dump writes the database to a file.
func (u *upgraded) dump(path string) {
	u.Helper()
	name, args := "mariadb-dump", []string{"--skip-comments", "--no-tablespaces", "--triggers", "--routines"}
	switch u.server {
	case "sqlite":
		name, args = "sqlite3", []string{".dump"}
	case "postgres":
		name, args = "pg_dump", []string{"--rows-per-insert=500", "--no-owner", "--no-privileges"}
	}
	c := u.client(name, args...)
	c.Stderr = os.Stderr
	text, err := c.Output()
	must(u, err)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for line := range strings.Lines(string(text)) {
		if u.server != "postgres" || !strings.HasPrefix(line, `\`) && !strings.HasPrefix(line, "--") && line != "\n" { // psql's commands, and comments
			_, _ = z.Write([]byte(line)) // to memory
		}
	}
	must(u, z.Close())
	writeFile(u, path, out.String())
}

// restore reads the database from a file.
func (u *upgraded) restore(path string) {
	u.Helper()
	z, err := gzip.NewReader(bytes.NewReader(readFile(u, path)))
	must(u, err)
	text, err := io.ReadAll(z)
	must(u, err)
	if u.server == "mariadb" || u.server == "mysql" {
		c := u.client("mariadb")
		c.Stdin = bytes.NewReader(text)
		if out, err := c.CombinedOutput(); err != nil {
			u.Fatalf("%v: %s", err, out)
		}
		return
	}
	opened, err := target.Open(u.Context(), u.target, func(string) {})
	must(u, err)
	execSQL(u, opened.DB.(engine.Keeper), string(text))
	must(u, opened.Close())
}

// TestUpgraded: what an older version has left half-done is finished by this one. The databases are
// those of the commit in scripts/upgrade-states.sh.
func TestUpgraded(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		u, path := newUpgraded(t, server), filepath.Join("testdata", "upgrade", server+".sql.gz")
		if program := os.Getenv(olderVariable); *update && program != "" {
			u.make(program)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			u.dump(path)
			u = newUpgraded(t, server)
		}
		u.restore(path)
		u.tick(upgradeTime)
		u.db = openKeeper(t, u.target)
		u.finish()
	})
}

// finish has each change finished, and checks the result.
func (u *upgraded) finish() {
	u.Helper()
	u.has("adopt; publish", "SELECT kind FROM rowmill_journal ORDER BY kind")
	u.hasRows(firstRows + 40)
	u.prints(exitDone, "live.csv --lane live", "120 rows", "120 inserted, 0 already present", "40 of them were sent before")
	u.prints(exitDone, "publish.csv --lane publish", "150 inserted, 0 already present")
	files := []string{u.file, u.orders.file}
	for _, f := range files {
		mustPass(u.T, rowmill(u.Context(), "apply", f, "--yes", "--allow-duplicates", "--clock", u.clock))
		mustPass(u.T, rowmill(u.Context(), "run", f, "--once", "--clock", u.clock))
	}
	mustPass(u.T, rowmill(u.Context(), "apply", u.orders.file, "--finish", "--yes", "--clock", u.clock))
	for _, f := range files {
		mustPass(u.T, rowmill(u.Context(), "status", f, "--clock", u.clock))
	}

	for _, q := range []string{"SELECT kind FROM rowmill_journal", "SELECT lower_pos FROM rowmill_publications"} {
		u.has("", q)
	}
	for _, suffix := range []string{"new", "old", "log"} {
		if _, err := u.db.Describe(u.Context(), "orders__rowmill_"+suffix); !errors.Is(err, engine.ErrNoTable) {
			u.Errorf("orders__rowmill_%s is left: %v", suffix, err)
		}
	}
	partitioned(u.T, u.db, "orders", true)
	var readings, orders []string
	hours := map[string]int{} // buckets of the roll-up
	for _, name := range []string{"first.csv", "live.csv", "publish.csv"} {
		for line := range strings.Lines(string(readFile(u, filepath.Join(u.dir, name)))) {
			if f := strings.Split(strings.TrimSpace(line), ","); f[0] != "sensor" {
				readings = append(readings, f[0]+" "+f[1]+" "+f[3])
				hours[f[1][:len("2006-01-02 15")]]++
			}
		}
	}
	if got := sorted(u.rows()); !slices.Equal(got, sorted(readings)) {
		u.Errorf("readings: %s", cmp.Diff(sorted(readings), got))
	}
	for _, level := range []string{"readings_15m", "readings_1h"} {
		s, err := u.db.Describe(u.Context(), level)
		must(u, err)
		sums := map[string]int{}
		for _, row := range u.query("SELECT " + u.db.Words().AsText(*s.Column("bucket")) + ", n FROM " + level) {
			n, err := strconv.Atoi(row[strings.LastIndex(row, " ")+1:])
			must(u, err)
			sums[row[:len("2006-01-02 15")]] += n
		}
		for hour := range hours { // that of the present, and those after it, aren't computed yet
			if hour >= upgradeTime.Format("2006-01-02 15") {
				delete(sums, hour)
				continue
			}
			if sums[hour] != hours[hour] {
				u.Errorf("%s has %d rows at %s, want %d", level, sums[hour], hour, hours[hour])
			}
		}
	}
	for i := range orderCount {
		amount := i % 7
		switch {
		case i < 10:
			amount = 100
		case i < 15:
			continue
		case i < 25:
			orders = append(orders, fmt.Sprintf("%d %d", 10000+i, amount))
		}
		orders = append(orders, fmt.Sprintf("%d %d", i, amount))
	}
	if got := sorted(u.query("SELECT id, amount FROM orders")); !slices.Equal(got, sorted(orders)) {
		u.Errorf("orders: %s", cmp.Diff(sorted(orders), got))
	}

	// A version whose tables these are not refuses them.
	u.has(fmt.Sprintf("%d; %d", state.Format, state.Format), "SELECT format FROM rowmill_tables")
	execSQL(u, u.db, "UPDATE rowmill_tables SET format = 99")
	for _, args := range [][]string{{"apply", u.file, "--yes"}, {"run", u.file, "--once"}, {"load", u.file, u.write("later.csv", "")}, {"status", u.file}, {"remove", u.file, "--yes"}} {
		s := rowmill(u.Context(), append(args, "--clock", u.clock)...)
		if s.code == exitDone || !strings.Contains(s.stdout+s.stderr, "a later version of rowmill") {
			u.Errorf("%v of a later format: exit %d\n%s%s", args, s.code, s.stdout, s.stderr)
		}
	}
}
