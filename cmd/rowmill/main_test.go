package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

var update = enginetest.Update

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		a := newApp(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		a.reached = crashPoint()
		os.Exit(a.run(context.Background()))
	}
	testdb.Main(m)
}

// A session is the result of a command line.
type session struct {
	code           int
	stdout, stderr string
}

// rowmill runs a command line in the working directory.
func rowmill(ctx context.Context, args ...string) session {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	return session{code, stdout.String(), stderr.String()}
}

// killable returns a command line as a process, which kills itself at the n-th point; 0
// means never.
func killable(n int, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), processVariable+"=1", fmt.Sprintf("%s=%d", crashVariable, n))
	return c
}

// ended runs a process. The exit code is -1 if it was killed.
func ended(t *testing.T, c *exec.Cmd, stdin string) session {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr, c.Stdin = &stdout, &stderr, strings.NewReader(stdin)
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return session{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

var must = enginetest.Must

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func execSQL(t testing.TB, db engine.Keeper, q string, args ...any) {
	t.Helper()
	if _, err := db.SQL().ExecContext(t.Context(), db.Bind(q), args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// keepers are the kinds of databases that support rolling tables, and servers are
// those of them that are servers.
var (
	keepers = []string{"sqlite", "mariadb", "mysql", "postgres"}
	servers = keepers[1:]
)

// onEach runs a test in parallel on those of the kinds that testdb chooses for it.
func onEach(t *testing.T, kinds []string, fn func(t *testing.T, kind string)) {
	for _, kind := range testdb.Kinds(t, kinds...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			fn(t, kind)
		})
	}
}

// openKeeper opens a target for the duration of the test.
func openKeeper(t testing.TB, url string) engine.Keeper {
	t.Helper()
	opened, err := target.Open(t.Context(), url, func(string) {})
	must(t, err)
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.DB.(engine.Keeper)
}

// intsTable is the first section of a declaration of the table readings; filled
// completes it.
const intsTable = `
[table]
name   = "readings"
target = "$TARGET"
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts $TIME NOT NULL, value INT NOT NULL,
  PRIMARY KEY (sensor, ts))'''
time   = "ts"
`

// filled replaces $TARGET, $TIME, the type of a time, and $DIR in a declaration.
func filled(declaration, target, dir string) string {
	return strings.NewReplacer("$TARGET", target, "$TIME", timeType(target), "$DIR", dir).Replace(declaration)
}

func timeType(target string) string {
	if strings.HasPrefix(target, "postgres:") {
		return "TIMESTAMP"
	}
	return "DATETIME"
}

// A keptTable is the declaration of a table in a private database, with a clock.
type keptTable struct {
	*testing.T
	server                         string
	at                             engine.Target
	target, dir, file, clock, text string
	db                             engine.Keeper
	table                          *engine.Table
}

func declare(t *testing.T, server, declaration string) *keptTable {
	t.Helper()
	d := declareUnopened(t, server, declaration)
	d.db = openKeeper(t, d.target)
	return d
}

// undisturbed are held by the tests that have the servers of declareUndisturbed.
var undisturbed = map[string]*sync.Mutex{"mariadb": {}, "mysql": {}}

// declareUndisturbed is declare for tests that depend on the counter of ALTER TABLE of MariaDB or
// MySQL, which is the whole server's: after one of another test, partitions that were just written
// are read again. Such tests share a server and run one after another.
func declareUndisturbed(t *testing.T, server, declaration string) *keptTable {
	t.Helper()
	at, own := server, undisturbed[server]
	if own != nil {
		own.Lock()
		t.Cleanup(own.Unlock)
		at += "?memory=72MB"
	}
	d := declareAt(t, server, testdb.Target(t, at).String(), declaration)
	d.db = openKeeper(t, d.target)
	for n := 0; own != nil && n < settledUptime; time.Sleep(100 * time.Millisecond) {
		var name string
		must(t, d.db.SQL().QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &n))
	}
	return d
}

// settledUptime is for how many seconds a server must have run before its counter proves anything:
// it began at 0 in some second.
const settledUptime = 3

// declareUnopened is declare without the test's own connection.
func declareUnopened(t *testing.T, server, declaration string) *keptTable {
	t.Helper()
	return declareAt(t, server, testdb.Target(t, server).String(), declaration)
}

// declareAt is declareUnopened for a database of the caller.
func declareAt(t *testing.T, server, url, declaration string) *keptTable {
	t.Helper()
	at, err := engine.ParseTarget(url)
	must(t, err)
	dir := t.TempDir()
	d := &keptTable{T: t, server: server, at: at, target: at.String(), dir: dir, file: filepath.Join(dir, "readings.toml"),
		clock: filepath.Join(dir, "clock")}
	d.text = filled(declaration, d.target, dir)
	writeFile(t, d.file, d.text)
	p, err := rolling.ParseDeclaration(d.file, []byte(d.text))
	must(t, err)
	d.table = &engine.Table{Name: p.Name, Grid: p.Period, By: p.Time, Definition: p.Definition, PrimaryKey: p.Definition.PrimaryKey}
	return d
}

// tick sets the clock. A process that reads it finds the former time or this one.
func (d *keptTable) tick(now time.Time) {
	d.Helper()
	writeFile(d, d.clock+".next", now.Format(time.RFC3339))
	must(d, os.Rename(d.clock+".next", d.clock))
}

// run runs a verb for the table, on its clock.
func (d *keptTable) run(verb string, args ...string) session {
	d.Helper()
	return rowmill(d.Context(), append([]string{verb, d.file, "--clock", d.clock}, args...)...)
}

// insert inserts twenty rows of three sensors from a time on.
func (d *keptTable) insert(from time.Time, factor int) {
	d.Helper()
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf("(%d, %s, %d)", i%3, d.db.Words().Literal(d.table, rolling.Position(from)+int64(i)*1e6), factor*i))
	}
	execSQL(d, d.db, "INSERT INTO "+d.db.Dialect().Quote("readings")+" (sensor, ts, value) VALUES "+strings.Join(values, ", "))
}

// golden compares text with testdata/name, or rewrites that file with -update.
func golden(t *testing.T, dir, name, got string) {
	t.Helper()
	path := filepath.Join(dir, "testdata", name)
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		writeFile(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), -update rewrites it:\n%s", name, diff)
	}
}

// here returns the package's directory, before a test changes the working directory.
func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	must(t, err)
	return dir
}

func TestHelp(t *testing.T) {
	for _, verb := range []string{"", "bench", "bench disk", "bench hotrow", "bench ibench", "bench insert", "bench keep", "bench matrix", "bench mixed", "bench points", "bench scan", "bench scenario", "bench steady", "bench tables", "bench tpcc", "report", "compare", "init", "doctor", "plan", "apply", "run", "now", "now drop", "now seal", "now rollup", "pause", "resume", "status", "load", "query", "serve", "copy", "copy send", "copy receive", "restore", "remove", "sandbox", "sandbox start", "sandbox stop", "sandbox list", "version"} {
		name := "help-" + strings.ReplaceAll(verb, " ", "-") + ".txt"
		if verb == "" {
			name = "help.txt"
		}
		t.Run(name, func(t *testing.T) {
			s := rowmill(t.Context(), append(strings.Fields(verb), "--help")...)
			if s.code != exitDone || s.stderr != "" {
				t.Fatalf("exit %d, stderr %q", s.code, s.stderr)
			}
			golden(t, here(t), name, s.stdout)
		})
	}
}

// TestBadInput checks that each invalid command line is a usage error, before anything
// is started or written, and that the message says what is allowed.
func TestBadInput(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "x")
	cases := []struct {
		args string
		says []string
	}{
		{"copy send . host1", []string{`"host1": want HOST:PORT`}},
		{"copy send . h:1 h:1", []string{"h:1 is there twice"}},
		{"copy send . h:1", []string{"--token-file is missing", "Try: openssl rand"}},
		{"copy send . h:1 --limit fast", []string{`--limit "fast"`, "Try: --limit 100MB/s"}},
		{"copy receive x", []string{"--listen is missing"}},
		{"bench inser", []string{`unknown command "rowmill bench inser"`, "Try: did you mean insert?"}},
		{"bench swim", []string{`unknown command "rowmill bench swim"`, "Try: one of disk, hotrow, ibench, insert"}},
		{"bench insert now", []string{`takes no arguments, and got "now"`}},
		{"bench insert --preset clasic", []string{`unknown preset "clasic"`, "classic, ibench, timeseries, daily, sbtest"}},
		{"bench insert --layout heap", []string{`unknown layout "heap"`, "plain, rolling"}},
		{"bench insert --layout plain,plain", []string{"plain is named twice"}},
		{"bench insert --method fast", []string{`unknown insert method "fast"`, "single", "sqlite has"}},
		{"bench insert --method load", []string{`unknown insert method "load"`, "sqlite has"}},
		{"bench insert --rows many", []string{`"many" is not a number`, "1.5M"}},
		{"bench insert --rows -5", []string{"--rows", "negative"}},
		{"bench insert --rows 1.5", []string{"not a whole number"}},
		{"bench insert --rows 0", []string{"needs an end", "Try: --rows"}},
		{"bench insert --rows 1e300", []string{"--rows", "2^53"}},
		{"bench insert --rate 0", []string{"--rate", "leave the flag out"}},
		{"bench insert --rate fast", []string{"--rate", "is not a number"}},
		{"bench insert --repeat 0", []string{"--repeat 0", "at least 1"}},
		{"bench insert --writers 0", []string{"--writers 0", "at least 1"}},
		{"bench insert --writers 100000000", []string{"--writers 100000000", "at most"}},
		{"bench insert --batch 0", []string{`"0" for "--batch"`, "want 1 or more"}},
		{"bench insert --indexes 4", []string{"4 secondary indexes", "0 to 3"}},
		{"bench insert --interval 1ms", []string{"interval 1ms", "at least"}},
		{"bench insert --interval 0", []string{"--interval 0", "at least"}},
		{"bench insert --interval 1x", []string{"--interval", "1x"}},
		{"bench insert --max-time -1s", []string{"--time -1s is negative"}},
		{"bench insert --period-rows 0 --layout rolling", []string{"--period-rows", "auto"}},
		{"bench insert --period-rows 10", []string{"layout plain has no periods", "Try: --layout rolling"}},
		{"bench insert --keep-periods 3", []string{"layout plain has no periods"}},
		{"bench insert --target mysqld", []string{"no scheme", "Try: sqlite:PATH"}},
		{"bench insert --target oracle://x/y", []string{`unknown scheme "oracle"`, "mariadb://"}},
		{"bench insert --target mysql://u:secret@h/db", []string{"password on the command line", "MYSQL_PWD"}},
		{"bench insert --target sqlite:x?cash=1", []string{`no option "cash"`, "cache"}},
		{"bench insert --target sqlite:x?cache=much", []string{"cache", "much"}},
		{"bench insert --target sqlite:x?durability=some", []string{"durability=some", "full, relaxed, none"}},
		{"bench insert --target mysql://u@h", []string{"name of one database"}},
		{"bench insert --target sandbox:oracle", []string{"oracle", "mariadb"}},
		{"bench insert --target sandbox:mariadb?memory=1KB", []string{"memory"}},
		{"bench insert --out no/such/folder/run.jsonl", []string{"no folder no/such/folder", "mkdir -p"}},
		{"bench insert --html " + taken + " --png " + taken, []string{"can't both be"}},
		{"bench insert --out " + taken + " --html " + taken, []string{"can't both be"}},
		{"bench insert --json --html -", []string{"can't both be standard output"}},
		{"bench insert --kill-server-every 2s", []string{"is not a private server", "Try: --target 'sandbox:"}},
		{"bench insert --kill-server-every 1ms --target sandbox:mariadb", []string{"at least 100ms"}},
		{"bench insert --kill-server-every 2s --target sandbox:mariadb --preset sbtest --layout rolling", []string{"leaves its keys to the server", "--layout plain"}},
		{"bench insert --resume no/such.jsonl", []string{"--resume no/such.jsonl", "no such file"}},
		{"bench insert --nosuch", []string{"unknown flag: --nosuch", "Try: rowmill bench insert --help"}},
		{"bench insert --row 5", []string{"unknown flag: --row", "Try: did you mean --rows?"}},
		{"apply readings.toml --dryrun", []string{"Try: did you mean --dry-run?"}},
		{"bench hotrow --clients 20k", []string{"--clients"}},
		{"bench hotrow --clients 20000", []string{"--clients: want 1 to 10000 each"}},
		{"bench hotrow --ways faster", []string{`unknown way "faster"`, "one-trip"}},
		{"bench hotrow --ways slots", []string{"one writer at a time"}},
		{"bench hotrow --ways thread-pool", []string{"a setting of the server"}},
		{"bench hotrow --ways thread-pool --target sandbox:mysql", []string{"mysql has no such setting"}},
		{"bench hotrow --runs 0", []string{"needs an end"}},
		{"bench scan --partitions 0", []string{"--partitions 0", "at least 1"}},
		{"bench scan --rows 100", []string{"100 rows in 100 partitions", "1000 to"}},
		{"bench tables --target sandbox:mariadb --tables 2M", []string{"--tables 2000000", "at most 1000000"}},
		{"bench tables --target sandbox:mariadb --tables 2k --partitions 2k", []string{"want 1 to 1000000 in all"}},
		{"bench tables --target sandbox:mariadb --partitions 9000", []string{"a table of mariadb has at most 8191"}},
		{"bench tables --target sandbox:mariadb --tables 10 --open 20", []string{"--open 20: want at most 10"}},
		{"bench tables --target sandbox:mariadb --connections 0", []string{"--connections 0: want at least 1"}},
		{"bench tables --tables 10", []string{"sqlite is no server"}},
		{"bench tables --target null: --tables 10", []string{"null is no server"}},
		{"bench tpcc --warehouses 0", []string{"--warehouses 0", "at least 1"}},
		{"bench tpcc --terminals 1001", []string{"--terminals 1001", "at most 1000"}},
		{"bench tpcc --time 0", []string{"--time 0s: want more than 0", "Try: --time 60s"}},
		{"bench tpcc --scale 2", []string{"scale 2: want 0.005 to 1"}},
		{"bench tpcc --kill-server-every 2s", []string{"is not a private server"}},
		{"bench scan --step 0", []string{"--step 0"}},
		{"bench scan --ways sequential", []string{`unknown way "sequential"`, "serial, parallel, serve"}},
		{"bench scan --ways serve", []string{"--ways serve", "sqlite doesn't have them"}},
		{"bench scan --target null:", []string{"null has no partitions to read"}},
		{"bench scenario", []string{"which scenario?", "ec2-2012", "Try: rowmill bench scenario --list"}},
		{"bench scenario ec2-1812", []string{`no scenario "ec2-1812"`, "daily-2009, dbt2-cluster-2009, ec2-2012", "Try: rowmill bench scenario --list"}},
		{"bench scenario dbt2-cluster-2009 --scale 2", []string{"scale 2: want 0.005 to 1", "dbt2-cluster-2009.toml:"}},
		{"bench scenario partition-scan-2010 --scale 0.0001", []string{"400 rows in 100 partitions", "partition-scan-2010.toml:"}},
		{"bench scenario mine.toml", []string{`no scenario "mine.toml"`, "Try: rowmill bench scenario --list"}},
		{"bench scenario ec2-2012 daily-2009", []string{`unexpected argument "daily-2009"`, "one at a time"}},
		{"bench scenario ec2-2012 --list", []string{"--list and --resume take no scenario"}},
		{"bench scenario ec2-2012 --resume x", []string{"--list and --resume take no scenario"}},
		{"bench scenario ec2-2012 --scale 0", []string{"--scale", "leaves no rows"}},
		{"bench scenario ec2-2012 --scale big", []string{"--scale", "is not a number"}},
		{"bench scenario ec2-2012 --scale 0.0001", []string{"200 rows a run are too few", "Try: --scale 0.0005"}},
		{"bench scenario ec2-2012 --scale 0.001", []string{"periods of run no-index would have 200 rows", "Try: --scale 0.005"}},
		{"bench scenario ec2-2012 --max-time -1s", []string{"--time -1s is negative"}},
		{"bench scenario ec2-2012 --interval 0", []string{"--interval 0"}},
		{"bench scenario ec2-2012 --interval 1ms", []string{"interval 1ms", "ec2-2012.toml:"}},
		{"bench scenario ec2-2012 --target mysqld", []string{"--target", "no scheme"}},
		{"bench scenario ec2-2012 --out no/such/run.jsonl", []string{"no folder no/such"}},
		{"bench scenario ec2-2012 --out " + taken + " --html " + taken, []string{"can't both be"}},
		{"bench scenario time-partitions-2012 --target sqlite:", []string{"time-partitions-2012.toml:25:3: run plain", `insert method "load"`, "Try: another --target"}},
		{"bench scenario daily-2009 --target sandbox:postgres?memory=1KB", []string{"--target", "memory"}},
		{"report", []string{"no run records given"}},
		{"query SELECT", []string{"--target is missing", "Try: rowmill query --target mariadb://"}},
		{"query SELECT --target sqlite: --file x.sql", []string{"the argument and --file"}},
		{"query --target sqlite: --explain --check", []string{"--explain runs nothing"}},
		{"query --target sqlite: --explain --format csv", []string{"--format, --out and --no-header"}},
		{"query --target sqlite: --json", []string{"--json is for", "Try: --format ndjson"}},
		{"query --target sqlite: --parallel -1", []string{`"-1" for "--parallel" flag: want 0 to 256`}},
		{"query --target sqlite: --memory 5", []string{`"5" for "--memory" flag: want a size such as 8GB, of at least 1 MiB`}},
		{"query --target sqlite: --snapshot never", []string{`"never" for "--snapshot" flag`, "auto, lock, require"}},
		{"query --target sqlite: --format xml", []string{`"xml" for "--format"`, "parquet"}},
		{"query --target sqlite: --format ndjson --no-header", []string{"ndjson has no header"}},
		{"query --target sqlite: --out x.parquet --no-header", []string{"parquet has no header"}},
		{"query SELECT --target null:", []string{"can't answer queries"}},
		{"query a b --target sqlite:", []string{`unexpected argument "b"`}},
		{"explode", []string{"rowmill: unknown command \"rowmill explode\"\nTry: one of apply, bench, "}},
		{"statu", []string{"Try: did you mean status?"}},
		{"apply", []string{"rowmill apply needs ", "Try: rowmill apply FILE.toml"}},
		{"status", []string{"rowmill status needs ", "Try: rowmill status FILE.toml..."}},
		{"run", []string{"rowmill run needs "}},
		{"plan", []string{"rowmill plan needs "}},
		{"restore", []string{"Try: rowmill restore FILE.toml [PERIOD]"}},
		{"rollup refresh", []string{"rowmill rollup refresh needs "}},
		{"apply readings.toml other.toml", []string{`unexpected argument "other.toml"`}},
		{"version now", []string{`got "now"`}},
		{"help keep", []string{`unknown command "rowmill keep"`, "one of apply, bench, ", "status"}},
		{"help bench kep", []string{`unknown command "rowmill bench kep"`, "Try: did you mean keep?"}},
		{"help version now", []string{`unknown command "rowmill version now"`, "Try: rowmill version --help"}},
		{"apply readings.toml --target oracle://h/d", []string{`rowmill: --target: target has an unknown scheme, "oracle"`}},
		{"status readings.toml --target mysql://u:secret@h/d", []string{"rowmill: --target: target holds a password"}},
		{"run readings.toml --target h", []string{"rowmill: --target: target has no scheme"}},
		{"run readings.toml --target sqlite:", []string{"rowmill: --target: target \"sqlite:\" names no file"}},
		{"run readings.toml --max-running -1", []string{`"-1" for "--max-running" flag: want 0 or more`}},
		{"run readings.toml --max-lag -1s", []string{"--max-lag -1s"}},
		{"run readings.toml --once --listen nowhere:99999", []string{"--listen", "--once"}},
		{"run readings.toml --clock nofile", []string{"--clock", "nofile", "Try: a file with a time"}},
		{"run readings.toml --clock readings.toml", []string{"readings.toml holds no time"}},
		{"plan readings.toml --rate 0/s", []string{"--rate", "measured on the table"}},
		{"apply readings.toml --rate 0/s --dry-run", []string{`"--rate" flag: 0 rows/s`, "measured on the table"}},
		{"plan readings.toml --memory 2", []string{`"2" for "--memory" flag: want a size such as 8GB`}},
		{"plan readings.toml --memory much", []string{`"much" for "--memory" flag: want a size such as 8GB`}},
	}
	t.Chdir(t.TempDir())
	declareFile(t, "x.db")
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			s := rowmill(t.Context(), strings.Fields(c.args)...)
			if s.code != exitUsage {
				t.Errorf("exit %d, want %d", s.code, exitUsage)
			}
			for _, want := range append(c.says, "rowmill: ") {
				if !strings.Contains(s.stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, s.stderr)
				}
			}
			if strings.Contains(s.stderr, "secret") {
				t.Errorf("stderr repeats the password:\n%s", s.stderr)
			}
			lines := strings.Split(strings.TrimSpace(s.stderr), "\n")
			if slices.Sort(lines); s.stdout != "" || len(slices.Compact(slices.Clone(lines))) < len(lines) {
				t.Errorf("stdout: %s; stderr repeats itself: %s", s.stdout, s.stderr)
			}
		})
	}
	onlyDeclaration(t)
}
