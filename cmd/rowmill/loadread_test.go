package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLoadColumnsWithoutHeader gives --columns for a file without a header.
func TestLoadColumnsWithoutHeader(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	path := l.write("day.csv", "1,2026-03-29 01:00:00,1,a\n2,2026-03-29 01:00:00,2,b\n")
	const columns = "--columns=sensor,ts,value,note"
	if _, said := l.load(exitFailed, path, columns); !strings.Contains(said, "is a row of values") || !strings.Contains(said, "--header=false") {
		t.Errorf("it says %q", said)
	}
	if n := len(l.rows()); n != 0 {
		t.Errorf("%d rows are loaded", n)
	}
	if got, _ := l.load(0, path, columns, "--header"); got[0].Inserted != 1 {
		t.Errorf("with --header: %+v", got[0])
	}
	if got, _ := l.load(0, path, columns, "--header=false", "--source=again"); got[0].Inserted != 1 || got[0].Duplicate != 1 {
		t.Errorf("without one: %+v", got[0])
	}
}

// TestLoadObjectsOfManyShapes loads objects with different keys. A missing key gets
// its default, whatever keys the first object has. Some objects are refused by the
// check or the server, and a broken first line is a bad row like any other.
func TestLoadObjectsOfManyShapes(t *testing.T) {
	t.Parallel()
	for _, server := range testdb.Kinds(t, keepers...) {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			l := newLoadingWith(t, server, "n INT NOT NULL DEFAULT 7, kind VARCHAR(8) DEFAULT 'k', must INT NOT NULL CHECK (must < 100),")
			const ts = `"ts":"2026-03-29 01:00:00"`
			path := l.write("day.jsonl", strings.Join([]string{
				`{"sensor":`, ``, `[1]`,
				`{"sensor":1,` + ts + `,"must":1}`,
				`{"sensor":2,` + ts + `,"must":2,"n":2.0,"note":"two"}`,
				`{"sensor":3,` + ts + `,"must":3,"kind":null}`,
				`{"sensor":4,` + ts + `,"must":4,"kind":"x","n":4,"value":1}`,
				`{"sensor":5,` + ts + `}`,
				`{"sensor":6,` + ts + `,"must":99999999999}`,
				`{"sensor":7,` + ts + `,"must":99999999999,"n":1}`,
				`{"sensor":8,` + ts + `,"must":8,"n":null}`,
				`{"sensor":9,` + ts + `,"must":9,"colour":1}`,
				`{"sensor":10,"must":10}`,
				`{"sensor":1,` + ts + `,"must":11,"n":1,"kind":"dup"}`,
				`{"n":12,"sensor":12,` + ts + `,"must":12}`,
				`{"sensor":13,"sensor":14,` + ts + `,"must":13}`,
			}, "\n")+"\n")
			got, _ := l.load(exitFailed, path)
			if g := got[0]; g.Sent != 15 || g.Inserted+g.Duplicate != 6 || g.Duplicate != 1 || g.Rejected != 9 {
				t.Errorf("loaded: %+v", g)
			}
			rows := strings.Join(l.strings("SELECT sensor, n, COALESCE(kind, 'NULL'), must, COALESCE(note, 'NULL') FROM readings r WHERE sensor > 1 ORDER BY sensor", 5), "; ")
			if want := "2 2 k 2 two; 3 7 NULL 3 NULL; 4 4 x 4 NULL; 12 12 k 12 NULL"; rows != want {
				t.Errorf("rows %s, want %s", rows, want)
			}
			reasons := map[int64]string{}
			for _, b := range l.bad("day.jsonl.bad.jsonl") {
				reasons[b.Line] = b.Column + ": " + b.Reason
			}
			for line, want := range map[int64]string{1: "no JSON object", 3: "no JSON object", 8: "must: it is missing", 9: "", 10: "", 11: "n: it is NULL", 12: "colour", 13: "ts: it is missing", 16: "twice"} {
				if got, there := reasons[line]; !there || !strings.Contains(got, want) {
					t.Errorf("line %d: %q, want %q", line, got, want)
				}
			}
			// Again with some of the columns: other keys are ignored.
			got, _ = l.load(exitFailed, path, "--columns=sensor,ts,must", "--source=again")
			if g := got[0]; g.Inserted != 2 || g.Duplicate != 6 || g.Rejected != 7 {
				t.Errorf("with --columns: %+v", g)
			}
		})
	}
}

// TestLoadValuesThatServersBend loads values that a server would silently change. They
// are bad rows, and the loaded values are unchanged.
func TestLoadValuesThatServersBend(t *testing.T) {
	t.Parallel()
	const my = "e ENUM('a','b','it''s'), s SET('x','y'), y YEAR, t TIME(1), f DOUBLE(8,2), c CHAR(3), v VARCHAR(3),"
	for server, columns := range map[string]string{"mariadb": my, "mysql": my,
		"postgres": "t TIME(1), i INTERVAL(1), c CHAR(3), v VARCHAR(3),"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			l := newLoadingWith(t, server, columns)
			good := map[string][]string{"e": {"A", "it's"}, "s": {"x,Y", "\"\""}, "y": {"2026"}, "t": {"01:02:03.5", "01:02:03.500"}, "f": {"1.25", "1.250", "125e-2"},
				"c": {"äöü"}, "v": {"äöü", "ab "}, "i": {"1 day 01:02:03.5"}}
			bad := map[string][]string{"e": {"2", "0", "\"\"", "c"}, "s": {"3", "z"}, "y": {"26", "0", "020"}, "t": {"01:02:03.55"}, "f": {"1.255", "1e-3"},
				"c": {"abcd", "abc "}, "v": {"abcd", "abc "}, "i": {"01:02:03.55"}}
			n := 0
			for _, column := range strings.FieldsFunc(columns, func(r rune) bool { return r == ' ' || r == ',' }) {
				if good[column] == nil {
					continue
				}
				rows := "sensor,ts," + column + "\n"
				for _, v := range append(append([]string{}, good[column]...), bad[column]...) {
					if n++; strings.Contains(v, ",") {
						v = `"` + v + `"`
					}
					rows += fmt.Sprintf("%d,2026-03-29 01:00:00,%s\n", n, v)
				}
				got, _ := l.load(exitFailed, l.write(column+".csv", rows))
				if g := got[0]; g.Inserted != int64(len(good[column])) || g.Rejected != int64(len(bad[column])) {
					t.Errorf("column %s: %+v\n%v", column, g, l.bad(column+".csv.bad.jsonl"))
				}
			}
		})
	}
}

// TestLoadOverLongLine loads a line that is longer than the limit. It is a bad row, of
// which the beginning is stored, and the lines after it are loaded.
func TestLoadOverLongLine(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	const before = "sensor,ts,value,note\n1,2026-03-29 01:00:00,1,a\n"
	long := "2,2026-03-29 01:00:00,1," + strings.Repeat("ä", 10<<20)
	path := l.write("day.csv", before+long+"\n3,2026-03-29 01:00:00,1,c\n"+long)
	l.settle(path)
	for _, args := range [][]string{{path, "--dry-run", "--bad=day.csv.bad.jsonl"}, {path}, {path, "--source=again", "--batch=1"}} {
		got, _ := l.load(exitFailed, args...)
		if g := got[0]; g.Sent != 4 || g.Rejected != 2 || !g.Finished {
			t.Errorf("%v: %+v", args, g)
		}
		bad := l.bad("day.csv.bad.jsonl")
		if len(bad) < 2 {
			t.Fatalf("%d bad rows", len(bad))
		}
		for _, b := range bad {
			if b.Line != 3 && b.Line != 5 || !strings.Contains(b.Reason, "longer than 16 MiB") || len(b.Row) < 1020 || len(b.Row) > 1024 || !strings.HasPrefix(long, b.Row) {
				t.Errorf("%d, %s: %d bytes, %.30q", b.Line, b.Reason, len(b.Row), b.Row)
			}
		}
	}
	if n := len(l.rows()); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if got, _ := l.load(0, path); got[0].Sent != 0 || got[0].Before != 4 {
		t.Errorf("again: %+v", got[0])
	}
	// A stream with a spool.
	c := l.command(0, "-", "--format=csv", "--spool=spool")
	c.Stdin = strings.NewReader(strings.ReplaceAll(before, "1,2026", "7,2026") + long + "\n8,2026-03-29 01:00:00,1,c\n")
	if out, err := c.CombinedOutput(); err == nil || len(l.rows()) != 4 {
		t.Errorf("through a spool: %v, %d rows\n%s", err, len(l.rows()), out)
	}
}

// TestLoadIdentity has a column whose values only PostgreSQL may generate. Objects
// without it are loaded, and objects with it are bad rows. A CSV file with that column
// is refused before any row is sent.
func TestLoadIdentity(t *testing.T) {
	t.Parallel()
	l := newLoadingWith(t, "postgres", "id BIGINT GENERATED ALWAYS AS IDENTITY,")
	const ts = `,"ts":"2026-03-29 01:00:00"`
	got, _ := l.load(exitFailed, l.write("day.jsonl", `{"sensor":1`+ts+"}\n"+`{"sensor":2,"id":1`+ts+"}\n"))
	if g := got[0]; g.Inserted != 1 || g.Rejected != 1 {
		t.Errorf("objects: %+v\n%v", g, l.bad("day.jsonl.bad.jsonl"))
	}
	path := l.write("day.csv", "sensor,ts,id\n3,2026-03-29 01:00:00,1\n")
	if _, said := l.load(exitFailed, path); !strings.Contains(said, "GENERATED ALWAYS") {
		t.Errorf("it says %s", said)
	}
}

// TestSpooledObjectsKeepTheirKeys loads objects with a key that is not a column. They
// are bad rows, also with a spool, unless --columns omits the key.
func TestSpooledObjectsKeepTheirKeys(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	for i, args := range [][]string{nil, {"--columns=sensor,ts"}} {
		c := l.command(0, append([]string{"-", "--format=jsonl", "--spool=spool"}, args...)...)
		c.Stdin = strings.NewReader(`{"sensor":1,"ts":"2026-03-29 01:00:00","colour":1}` + "\n")
		if out, err := c.CombinedOutput(); (err == nil) != (i == 1) || len(l.rows()) != i {
			t.Errorf("%v: %v, %d rows\n%s", args, err, len(l.rows()), out)
		}
	}
}
