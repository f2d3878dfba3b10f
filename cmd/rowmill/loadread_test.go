package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rowmill/rowmill/internal/ingest"
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
	l.hasRows(0)
	l.loads("with --header", 0, "Inserted 1", path, columns, "--header")
	l.loads("without one", 0, "Inserted 1, Duplicate 1", path, columns, "--header=false", "--source=again")
}

// TestLoadObjectsOfManyShapes loads objects with different keys. A missing key gets
// its default, whatever keys the first object has. Some objects are refused by the
// check or the server, and a broken first line is a bad row like any other.
func TestLoadObjectsOfManyShapes(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
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
		for line, want := range map[int64]string{1: "not a JSON object", 3: "not a JSON object", 8: "must: it is missing", 9: "", 10: "", 11: "n: it is NULL", 12: "colour", 13: "ts: it is missing", 16: "twice"} {
			if got, there := reasons[line]; !there || !strings.Contains(got, want) {
				t.Errorf("line %d: %q, want %q", line, got, want)
			}
		}
		// Again with some of the columns: other keys are ignored.
		l.loads("with --columns", exitFailed, "Inserted 2, Duplicate 6, Rejected 7", path, "--columns=sensor,ts,must", "--source=again")
	})
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
	l.hasRows(2)
	l.loads("again", 0, "Sent 0, Before 4", path)
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

func pack(t *testing.T, name, text string) string {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if strings.HasSuffix(name, ".zst") {
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<12))
		must(t, err)
		w = z
	}
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLoadPackedFileCutOff checks a compressed file that is still being copied. It is
// taken neither for a complete file nor for another file of that name: its readable
// part is loaded, the load fails, and it continues once the file is complete.
func TestLoadPackedFileCutOff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"day.csv.gz", "day.csv.zst"} {
		t.Run(name, func(t *testing.T) {
			l := newLoading(t, "sqlite")
			f := loadRows(0, 4000, false)
			packed := pack(t, name, f.text)
			fails := func(size int) {
				t.Helper()
				path := l.write(name, packed[:size])
				if _, stderr := l.load(exitFailed, path, "--batch", "100"); !strings.Contains(stderr, name) {
					t.Errorf("of %d bytes: the error doesn't name the file: %s", size, stderr)
				}
			}
			fails(0)
			fails(len(packed) * 3 / 5)
			got := l.rows()
			if len(got) == 0 || len(got) >= len(f.want) {
				t.Fatalf("%d rows of a cut file are loaded, of %d", len(got), len(f.want))
			}
			for i := range got {
				if got[i] != f.want[i] {
					t.Fatalf("row %d of a cut file is %q, want %q", i, got[i], f.want[i])
				}
			}
			fails(len(packed) - 1)
			path := l.write(name, packed)
			l.loads("the whole", exitDone, "Finished true", path, "--batch", "333")
			l.check("the whole", name+".bad.jsonl", f)
			for _, size := range []int{0, 60, len(packed) / 2, len(packed) - 1} {
				fails(size)
				l.check(fmt.Sprintf("cut to %d bytes", size), name+".bad.jsonl", f)
			}
		})
	}
}

// TestLoadLineWithoutEnd checks that a line that doesn't end within the limit, such as
// from a faulty program, ends a load after the rows before it are loaded.
func TestLoadLineWithoutEnd(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	f := loadRows(0, 70, false)
	long := strings.Repeat("x", 129<<20)
	path := l.write("day.csv", f.text+long+"\n")
	line := strings.Count(f.text, "\n") + 1
	if _, stderr := l.load(exitFailed, path, "--batch", "50"); !strings.Contains(stderr, fmt.Sprintf("day.csv: line %d: it has no end within", line)) {
		t.Errorf("%s", stderr)
	}
	l.check("before the line", "day.csv.bad.jsonl", f)
	more := loadRows(100, 30, false)
	_, added, _ := strings.Cut(more.text, "\n")
	path = l.write("day.csv", f.text+added)
	l.load(exitDone, path)
	l.check("with the line mended", "day.csv.bad.jsonl", f, more)

	// The rows of a stream are loaded, too.
	streamed := loadRows(200, 70, false)
	c := l.command(0, "-", "--format", "csv", "--batch", "50")
	c.Stdin = strings.NewReader(streamed.text + long)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("line %d: it has no end within", line)) {
		t.Errorf("%v: %s", err, out)
	}
	if got, want := len(l.rows()), len(f.want)+len(more.want)+len(streamed.want); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

// TestLoadEmptyFile checks that an empty file is loaded, and that a file that has
// become empty counts as changed.
func TestLoadEmptyFile(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	l.loads("an empty file", exitDone, "Finished true, Sent 0", l.write("empty.csv", ""))
	f := loadRows(0, 10, false)
	l.load(exitDone, l.write("day.csv", f.text))
	if _, stderr := l.load(exitFailed, l.write("day.csv", "")); !strings.Contains(stderr, "shorter than it was") {
		t.Errorf("a file that has become empty: %s", stderr)
	}
	l.check("in the end", "day.csv.bad.jsonl", f)
}

// TestLoadHeadGrows checks that a file first loaded with only its header is later
// identified by its rows.
func TestLoadHeadGrows(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	a, b := loadRows(0, 300, false), loadRows(1000, 200, false)
	path := l.write("day.csv", "sensor,ts,value,note\n")
	l.load(exitDone, path)
	l.load(exitDone, l.write("day.csv", a.text))
	if got := fmt.Sprint(l.strings("SELECT head FROM rowmill_sources", 1)); got != "[4096]" {
		t.Errorf("the head has %s bytes, want 4096", got)
	}
	l.loads("another file of that name", exitDone, "Sent 200", l.write("day.csv", b.text))
	l.check("in the end", "day.csv.bad.jsonl", a, b)
}

// TestLoadMaxBadOfAllTries checks that --max-bad applies to the file, not to each
// attempt.
func TestLoadMaxBadOfAllTries(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	text := "sensor,ts,value,note\n" + strings.Repeat("x,2026-03-29 01:00:00,1,ok\n", 10)
	path := l.write("day.csv", text)
	for range 3 {
		l.load(exitFailed, path, "--batch", "1", "--writers", "1", "--max-bad", "4")
	}
	if got := l.ledger(); got != "4 0 0 4" {
		t.Errorf("the ledger has %s", got)
	}
}

// TestLoadFileTruncatedMeanwhile checks a log that is copied and truncated while it is
// read: the incomplete row at its end is not loaded.
func TestLoadFileTruncatedMeanwhile(t *testing.T) {
	t.Parallel()
	l := newNumbered(t, "sqlite")
	f := loadRows(0, 10_000, false).wide()
	path := l.write("day.csv", f.text)
	o := l.options(l.db)
	o.Rows = 20
	done := false
	o.Reached = func(string) {
		if !done {
			done = true
			if err := os.Truncate(path, int64(len(f.text)*3/4+5)); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := ingest.File(t.Context(), o, path)
	if err == nil || !strings.Contains(err.Error(), "truncated while it was read") || r.Finished {
		t.Errorf("%+v, %v", r, err)
	}
	if len(l.bad("bad.jsonl")) > 0 {
		t.Errorf("bad rows: %+v", l.bad("bad.jsonl"))
	}
	got := l.rows()
	if len(got) == 0 || len(got) >= len(f.want) || got[len(got)-1] != f.want[len(got)-1] {
		t.Errorf("%d rows", len(got))
	}
}

// TestLoadTimesOfText checks times in SQLite, which has no type for them: they are
// text, if the declaration says so.
func TestLoadTimesOfText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "events.toml")
	declaration := `[table]
name   = "events"
target = "sqlite:` + dir + `/x.db"
time   = "ts"
create = "CREATE TABLE events (ts TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (ts, id))"
[period]
every = "1h"
ahead = "6h"
keep  = "7d"
`
	rows := "id,ts\n1,2026-03-29 00:50:00\n2,1774747800.5\n3,2026-03-29T03:00:00+02:00\n4,soon\n"
	for name, text := range map[string]string{file: declaration, dir + "/clock": loadStart.Format(time.RFC3339), dir + "/day.csv": rows} {
		writeFile(t, name, text)
	}
	mustPass(t, rowmill(t.Context(), "apply", file, "--clock", dir+"/clock", "--yes"))
	s := rowmill(t.Context(), "load", file, dir+"/day.csv", "--unix-times", "s", "--bad", dir+"/bad.jsonl")
	if s.code != exitFailed || !strings.Contains(s.stdout, "3 inserted, 0 already present, 1 rejected") {
		t.Fatalf("exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	l := &loading{&declared{T: t, db: openKeeper(t, "sqlite:"+dir+"/x.db")}}
	if got, want := fmt.Sprint(l.strings("SELECT +ts FROM events ORDER BY id", 1)), "[2026-03-29 00:50:00 2026-03-29 01:30:00.500000 2026-03-29 01:00:00]"; got != want {
		t.Errorf("times are %s, want %s", got, want)
	}
}

// TestLoadWordNull checks that the user must say what NULL means before such a row is
// loaded: mysql -B prints NULL both for a null and for that text.
func TestLoadWordNull(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	path := l.write("dump.tsv", "sensor\tts\tvalue\tnote\n1\t2026-03-29 01:00:00\t1\tNULL\n2\t2026-03-29 01:00:00\tNULL\tx\n3\t2026-03-29 01:00:00\t1\t\\N\n")
	l.loads("without a word on it", exitFailed, "Inserted 1, Rejected 2", path)
	if bad := l.bad("dump.tsv.bad.jsonl"); len(bad) != 2 || !strings.Contains(bad[0].Reason, "--null NULL") {
		t.Errorf("bad rows: %+v", bad)
	}
	l.loads("with --null NULL", exitDone, "Inserted 2, Duplicate 1", path, "--source", "again", "--null", "NULL")
	if got, want := fmt.Sprint(l.strings("SELECT sensor, typeof(value), typeof(note) FROM readings ORDER BY sensor", 3)), "[1 real null 2 null text 3 real null]"; got != want {
		t.Errorf("loaded %s, want %s", got, want)
	}
}

// TestLoadBits checks that a BIT column accepts decimal integers on every server, as
// SELECT b+0 prints them, and that bits of all widths are stored unchanged.
func TestLoadBits(t *testing.T) {
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoadingWith(t, server, "b1 BIT(1), b8 BIT(8), b64 BIT(64), n INT, ")
		const rows = "sensor,ts,b1,b8,b64,n\n" +
			"1,2026-03-29 00:40:01,1,10,9223372036854775807,1\n" +
			"2,2026-03-29 00:40:01,0,b'10',0x10,2\n" +
			"3,2026-03-29 00:40:01,0,00001010,100,3\n" +
			"4,2026-03-29 00:40:01,,255,0,4\n" +
			"5,2026-03-29 00:40:01,2,1,1,5\n" + // too many bits
			"6,2026-03-29 00:40:01,1,256,1,6\n" +
			"7,2026-03-29 00:40:01,t,1,1,7\n" + // COPY refuses it as an integer
			"8,2026-03-29 00:40:01,1,1,1,t\n" +
			"9,2026-03-29 00:40:01,1,1,1,true\n"
		got, _ := l.load(exitFailed, l.write("bits.csv", rows))
		if got[0].Inserted != 4 || got[0].Rejected != 5 {
			l.Fatalf("%+v", got[0])
		}
		columns := []string{"6 b1", "7 b8", "8 b1", "9 n", "10 n"}
		var refused []string
		for _, b := range l.bad("bits.csv.bad.jsonl") {
			refused = append(refused, fmt.Sprintf("%d %s", b.Line, b.Column))
		}
		if !slices.Equal(refused, columns) {
			l.Errorf("refused are %v, want %v", refused, columns)
		}
		decimal := func(c string) string {
			if server == "postgres" {
				return "CAST(" + c + " AS BIGINT)"
			}
			return c + "+0"
		}
		query := fmt.Sprintf("SELECT sensor, %s, %s, %s FROM readings ORDER BY sensor", decimal("CAST(b1 AS BIT(1))"), decimal("b8"), decimal("b64"))
		if server != "postgres" {
			query = strings.Replace(query, "CAST(b1 AS BIT(1))", "b1", 1)
		}
		want := []string{"1 1 10 9223372036854775807", "2 0 2 16", "3 0 10 100", "4 <nil> 255 0"}
		if got := l.strings(query, 4); !slices.Equal(got, want) {
			l.Errorf("the table has %q, want %q", got, want)
		}
		// The numbers that the server prints for them load as the same values.
		export := strings.Builder{}
		export.WriteString(`{"sensor":0,"ts":"2026-03-29 00:40:01"}` + "\n")
		for _, row := range l.strings(query, 4) {
			f := strings.Fields(strings.ReplaceAll(row, "<nil>", "null"))
			fmt.Fprintf(&export, `{"sensor":1%s,"ts":"2026-03-29 00:40:01","b1":%s,"b8":%s,"b64":%s}`+"\n", f[0], f[1], f[2], f[3])
		}
		l.load(exitDone, l.write("export.jsonl", export.String()))
		var again []string
		for _, row := range l.strings(strings.Replace(query, " ORDER", " WHERE sensor > 10 ORDER", 1), 4) {
			again = append(again, strings.TrimPrefix(row, "1"))
		}
		if !slices.Equal(again, want) {
			l.Errorf("exported and loaded again: %q, want %q", again, want)
		}
	})
}

// TestLoadRefusesWhatTypesDoNotHave checks that values that typed servers refuse are
// refused on all servers, even if the server's columns accept any value.
func TestLoadRefusesWhatTypesDoNotHave(t *testing.T) {
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoadingWith(t, server, "d DATE, price DECIMAL(8,2), small SMALLINT, name VARCHAR(3), doc JSON, ")
		const at = ",2026-03-29 00:40:01,"
		got, _ := l.load(exitFailed, l.write("types.csv", "sensor,ts,d,price,small,name,doc\n"+
			"1"+at+"2024-12-31,999999.99,32767,äöü,{}\n"+
			"2"+at+"12/31/2024,1,1,a,{}\n"+
			"3"+at+"2024-12-31,1000000,1,a,{}\n"+
			"4"+at+"2024-12-31,1,32768,a,{}\n"+
			"5"+at+"2024-12-31,1,1,abcd,{}\n"+
			"6"+at+"2024-12-31,1,1,a,{\n"))
		if got[0].Inserted != 1 || got[0].Rejected != 5 {
			l.Errorf("%+v", got[0])
		}
		var lines []int64
		for _, b := range l.bad("types.csv.bad.jsonl") {
			lines = append(lines, b.Line)
		}
		if want := []int64{3, 4, 5, 6, 7}; !slices.Equal(lines, want) {
			l.Errorf("refused are lines %v, want %v", lines, want)
		}
	})
}

// TestLoadSpellsInstants checks that a row of another client and a loaded row have the
// same key, however many fractional digits of a second either writes.
func TestLoadSpellsInstants(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	for _, ts := range []string{"2026-03-29 00:40:01.123", "2026-03-29 00:40:02.000", "2026-03-29 00:40:03.5"} {
		execSQL(l, l.db, "INSERT INTO readings (sensor, ts) VALUES (1, '"+ts+"')")
	}
	got, _ := l.load(exitDone, l.write("a.csv", "sensor,ts\n1,2026-03-29 00:40:01.123000\n1,2026-03-29T00:40:02Z\n1,2026-03-29 00:40:03.50\n1,2026-03-29 00:40:04.25\n"))
	if got[0].Inserted != 1 || got[0].Duplicate != 3 {
		l.Errorf("%+v", got[0])
	}
	l.hasRows(4)
	if _, err := l.db.SQL().ExecContext(l.Context(), "INSERT INTO readings (sensor, ts) VALUES (1, '2026-03-29 00:40:04.25')"); err == nil {
		l.Error("a row that was loaded is there a second time")
	}
}
