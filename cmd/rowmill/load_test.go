package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/ingest"
)

// loadDeclaration is the table into which the tests load.
const loadDeclaration = `
[table]
name   = "readings"
target = "$TARGET"
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts $TIME NOT NULL, value $FLOAT, note VARCHAR(16) CHECK (length(note) <= 8),
  PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1h"
ahead = "6h"
keep  = "7d"

[[rollup]]
name   = "readings_15m"
every  = "15m"
select = { n = "count(*)" }
`

// loadStart is the present on that table's clock. Its periods are from 00:00 to 07:00.
var loadStart = time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC)

// A loading is an applied table, whose directory also holds the files to load.
type loading struct{ *declared }

func newLoading(t *testing.T, server string) *loading {
	t.Helper()
	return newLoadingWith(t, server, "")
}

// newLoadingWith creates a table with more columns, each followed by a comma.
func newLoadingWith(t *testing.T, server, more string) *loading {
	t.Helper()
	return newLoadingOf(t, server, strings.Replace(loadDeclaration, "PRIMARY KEY", more+"PRIMARY KEY", 1))
}

// newLoadingOf is newLoading with another declaration.
func newLoadingOf(t *testing.T, server, declaration string) *loading {
	t.Helper()
	types := []string{"$FLOAT", "DOUBLE"}
	if strings.HasPrefix(server, "postgres") {
		types = []string{"$FLOAT", "DOUBLE PRECISION", "$TIME", "TIMESTAMP(0)"}
	}
	l := &loading{declare(t, server, strings.NewReplacer(types...).Replace(declaration))}
	l.tick(loadStart)
	mustPass(t, l.run("apply", "--yes"))
	return l
}

// onKeepers runs a test on every server.
func onKeepers(t *testing.T, fn func(l *loading)) {
	onEach(t, keepers, func(t *testing.T, server string) { fn(newLoading(t, server)) })
}

func (l *loading) write(name, text string) string {
	l.Helper()
	path := filepath.Join(l.dir, name)
	writeFile(l, path, text)
	return path
}

// command returns rowmill load in a separate process, which kills itself at the n-th
// point; 0 means never.
func (l *loading) command(n int, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], append([]string{"load", l.file}, args...)...)
	c.Dir = l.dir
	c.Env = append(os.Environ(), processVariable+"=1", fmt.Sprintf("%s=%d", crashVariable, n))
	return c
}

// load runs rowmill load, checks its exit code, and returns its output.
func (l *loading) load(code int, args ...string) (sources []ingest.Outcome, stderr string) {
	l.Helper()
	c := l.command(0, append(args, "--json")...)
	var stdout, errs bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || c.ProcessState.ExitCode() != code {
		l.Fatalf("load %v: exit %d, want %d\n%s%s", args, c.ProcessState.ExitCode(), code, stdout.String(), errs.String())
	}
	return l.parse(stdout.Bytes()), errs.String()
}

// loads is load, and compares fields of the first source's result with want, such as
// "Sent 3, Finished true".
func (l *loading) loads(when string, code int, want string, args ...string) {
	l.Helper()
	got, stderr := l.load(code, args...)
	for field := range strings.SplitSeq(want, ", ") {
		name, value, _ := strings.Cut(field, " ")
		if is := reflect.ValueOf(got[0]).FieldByName(name).Interface(); fmt.Sprint(is) != value {
			l.Errorf("%s: %s %v, want %s: %+v\n%s", when, name, is, value, got[0], stderr)
		}
	}
}

func (l *loading) hasRows(want int) {
	l.Helper()
	if n := len(l.rows()); n != want {
		l.Errorf("%d rows, want %d", n, want)
	}
}

// kill is killed, which must happen.
func (l *loading) kill(n int, stdin string, args ...string) {
	l.Helper()
	if !l.killed(n, stdin, args...) {
		l.Fatalf("load %v wasn't killed at point %d", args, n)
	}
}

// parse parses the --json output.
func (l *loading) parse(text []byte) []ingest.Outcome {
	l.Helper()
	if len(text) == 0 {
		return nil
	}
	var out struct{ Sources []ingest.Outcome }
	if err := json.Unmarshal(text, &out); err != nil {
		l.Fatalf("%v\n%s", err, text)
	}
	return out.Sources
}

// killed runs rowmill load so that it kills itself at the n-th point, and reports
// whether it did.
func (l *loading) killed(n int, stdin string, args ...string) bool {
	l.Helper()
	c := l.command(n, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.Stdin = &out, &out, strings.NewReader(stdin)
	err := c.Run()
	if st, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		return true
	}
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitFailed) {
		l.Fatalf("load %v: %v\n%s", args, err, out.String())
	}
	return false
}

// rows returns the table's rows as sensor and time, in order.
func (l *loading) rows() []string {
	l.Helper()
	q := l.db.Dialect().Quote
	return l.strings(fmt.Sprintf("SELECT %s FROM %s AS r ORDER BY r.sensor, r.ts", strings.Join([]string{l.text("sensor"), l.text("ts"), l.text("note")}, ", "), q("readings")), 3)
}

func (l *loading) text(column string) string {
	s, err := l.db.Describe(l.Context(), "readings")
	must(l, err)
	return l.db.Words().AsText(*s.Column(column))
}

// strings returns the rows of a query as text, with a blank between columns.
func (l *loading) strings(query string, columns int) []string {
	l.Helper()
	rows, err := l.db.SQL().QueryContext(l.Context(), query)
	must(l, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		values := make([]any, columns)
		for i := range values {
			values[i] = new(any)
		}
		must(l, rows.Scan(values...))
		var line []string
		for _, v := range values {
			switch v := (*v.(*any)).(type) {
			case []byte:
				line = append(line, string(v))
			default:
				line = append(line, fmt.Sprint(v))
			}
		}
		out = append(out, strings.Join(line, " "))
	}
	must(l, rows.Err())
	return out
}

// ledger returns the totals of the ledger: sent, inserted, duplicate, rejected.
func (l *loading) ledger() string {
	l.Helper()
	return l.strings("SELECT COALESCE(SUM(sent), 0), COALESCE(SUM(inserted), 0), COALESCE(SUM(duplicate), 0), COALESCE(SUM(rejected), 0) FROM rowmill_ledger", 4)[0]
}

// A badLine is a line of the file of bad rows.
type badLine struct {
	Line                int64
	Column, Reason, Row string
}

func (l *loading) bad(name string) []badLine {
	l.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(l, err)
	var out []badLine
	for line := range strings.Lines(string(text)) {
		var b badLine
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			l.Fatalf("%v: %s", err, line)
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b badLine) int { return int(a.Line - b.Line) })
	return out
}

// A loadFile is the text of a file of rows, some of them bad, and the expected result
// of loading it.
type loadFile struct {
	text string
	want []string // the rows that can be loaded
	bad  []int64  // the numbers of the lines that can't
	sent int
	dups int
}

// loadRows returns a file of n rows, beginning with sensor first. With bad, some rows
// have an invalid value, some have a value that only the server refuses, some are
// outside every period, and some are duplicates.
func loadRows(first, n int, bad bool) loadFile {
	var b strings.Builder
	f := loadFile{sent: n}
	b.WriteString("sensor,ts,value,note\n")
	line := int64(1)
	before := false // whether the previous row can be loaded
	for i := range n {
		line++
		sensor := first + i
		at := loadStart.Add(time.Duration(i*7%3600) * time.Second)
		value, note := "0.25", "ok"
		is := true
		switch {
		case bad && i%97 == 96:
			value, is = "none", false
		case bad && i%131 == 130:
			// SQLite has a check, other servers the range of an INT.
			sensor, note, is = 99999999999, "too long a note", false
		case bad && i%173 == 172:
			at, is = at.AddDate(-1, 0, 0), false
		case bad && i%211 == 210 && before: // a duplicate of the previous row
			sensor, at = sensor-1, loadStart.Add(time.Duration((i-1)*7%3600)*time.Second)
			f.dups++
			before = false
			fmt.Fprintf(&b, "%d,%s,%s,%s\n", sensor, at.Format(time.DateTime), value, note)
			continue
		case i%5 == 4:
			note = "a\nb"
		}
		before = is && note == "ok"
		if !is {
			f.bad = append(f.bad, line)
		} else {
			f.want = append(f.want, fmt.Sprintf("%d %s %s", sensor, at.Format(time.DateTime), note))
		}
		if note == "a\nb" {
			note = "\"a\nb\""
			line++
		}
		fmt.Fprintf(&b, "%d,%s,%s,%s\n", sensor, at.Format(time.DateTime), value, note)
	}
	f.text = b.String()
	return f
}

// wide returns the file with the same values in more digits: more bytes, but no more
// rows.
func (f loadFile) wide() loadFile {
	f.text = strings.ReplaceAll(f.text, ",0.25,", ",0.25"+strings.Repeat("0", 300)+",")
	return f
}

// check compares the table, the file of bad rows and the ledger with the expected
// ones.
func (l *loading) check(when string, badFile string, files ...loadFile) {
	l.Helper()
	var want []string
	var lines []int64
	sent, dups := 0, 0
	for _, f := range files {
		want = append(want, f.want...)
		lines = append(lines, f.bad...)
		sent, dups = sent+f.sent, dups+f.dups
	}
	got := l.rows()
	if len(got) != len(want) {
		l.Errorf("%s: %d rows, want %d", when, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			l.Errorf("%s: row %d is %q, want %q", when, i, got[i], want[i])
			break
		}
	}
	var bad []int64
	for _, b := range l.bad(badFile) {
		bad = append(bad, b.Line)
	}
	if !slices.Equal(bad, lines) {
		l.Errorf("%s: the bad rows are lines %v, want %v", when, bad, lines)
	}
	if got, want := l.ledger(), fmt.Sprintf("%d %d %d %d", sent, len(want), dups, len(lines)); got != want {
		l.Errorf("%s: the ledger has (sent, inserted, duplicate, rejected) %s, want %s", when, got, want)
	}
}
