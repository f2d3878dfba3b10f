package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// TestLoadObjectsOfManyShapes loads objects with different keys. A missing key gets
// its default, whatever keys the first object has. Some objects are refused by the
// check or the server, and a broken first line is a bad row like any other.
func TestLoadObjectsOfManyShapes(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, withColumns("n INT NOT NULL DEFAULT 7, kind VARCHAR(8) DEFAULT 'k', must INT NOT NULL CHECK (must < 100),")...)
		objects := []string{`{"sensor":`, ``, `[1]`}
		for _, more := range []string{`1,"must":1`, `2,"must":2,"n":2.0,"note":"two"`, `3,"must":3,"kind":null`, `4,"must":4,"kind":"x","n":4,"value":1`,
			`5`, `6,"must":99999999999`, `7,"must":99999999999,"n":1`, `8,"must":8,"n":null`, `9,"must":9,"colour":1`} {
			objects = append(objects, `{"ts":"2026-03-29 01:00:00","sensor":`+more+`}`)
		}
		objects = append(objects, `{"sensor":10,"must":10}`,
			`{"sensor":1,"ts":"2026-03-29 01:00:00","must":11,"n":1,"kind":"dup"}`,
			`{"n":12,"sensor":12,"ts":"2026-03-29 01:00:00","must":12}`,
			`{"sensor":13,"sensor":14,"ts":"2026-03-29 01:00:00","must":13}`,
			`{"sensor":15,"ts":"2025-03-29 01:00:00","must":15,"kind":"old"}`,
			`{"sensor":16,"ts":"2026-03-29 01:00:00","must":16,"kind":"last"}`)
		l.write("day.jsonl", strings.Join(objects, "\n")+"\n")
		if g := l.loads(exitFailed, "Sent 17, Duplicate 1, Rejected 10", "day.jsonl")[0]; g.Inserted != 6 {
			t.Errorf("loaded: %+v", g)
		}
		l.has("2 2 k 2 two; 3 7 NULL 3 NULL; 4 4 x 4 NULL; 12 12 k 12 NULL; 16 7 last 16 NULL",
			"SELECT sensor, n, COALESCE(kind, 'NULL'), must, COALESCE(note, 'NULL') FROM readings r WHERE sensor > 1 ORDER BY sensor")
		l.refused("day.jsonl", map[int64]string{1: "not a JSON object", 3: "not a JSON object", 8: "must: it is missing", 9: "", 10: "", 11: "n: it is NULL",
			12: "colour", 13: "ts: it is missing", 16: "twice", 17: "is older than keep"})
		// Again with some of the columns: other keys are ignored.
		l.loads(exitFailed, "Inserted 2, Duplicate 7, Rejected 8", "day.jsonl --columns=sensor,ts,must --source=again")
	})
}

// TestLoadValuesThatServersBend loads values that a server would silently change. They
// are bad rows, and the loaded values are unchanged.
func TestLoadValuesThatServersBend(t *testing.T) {
	t.Parallel()
	const my = "e ENUM('a','b','it''s'), s SET('x','y'), y YEAR, t TIME(1), f DOUBLE(8,2), c CHAR(3), v VARCHAR(3),"
	good := map[string][]string{"e": {"A", "it's"}, "s": {`"x,Y"`, `""`}, "y": {"2026"}, "t": {"01:02:03.5", "01:02:03.500"}, "f": {"1.25", "1.250", "125e-2"},
		"c": {"äöü"}, "v": {"äöü", "ab "}, "i": {"1 day 01:02:03.5"}}
	bad := map[string][]string{"e": {"2", "0", `""`, "c"}, "s": {"3", "z"}, "y": {"26", "0", "020"}, "t": {"01:02:03.55"}, "f": {"1.255", "1e-3"},
		"c": {"abcd", "abc "}, "v": {"abcd", "abc "}, "i": {"01:02:03.55"}}
	for server, columns := range map[string]string{"mariadb": my, "mysql": my, "postgres": "t TIME(1), i INTERVAL(1), c CHAR(3), v VARCHAR(3),"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			l := newLoading(t, server, withColumns(columns)...)
			n := 0
			for _, column := range slices.Sorted(maps.Keys(good)) {
				if !strings.Contains(" "+columns, " "+column+" ") {
					continue
				}
				rows := "sensor,ts," + column + "\n"
				for _, v := range slices.Concat(good[column], bad[column]) {
					n++
					rows += fmt.Sprintf("%d,2026-03-29 01:00:00,%s\n", n, v)
				}
				l.write(column+".csv", rows)
				l.loads(exitFailed, fmt.Sprintf("Inserted %d, Rejected %d", len(good[column]), len(bad[column])), column+".csv")
			}
		})
	}
}

// TestLoadIdentity has a column whose values only PostgreSQL may generate. Objects
// without it are loaded, and objects with it are bad rows. A CSV file with that column
// is refused before any row is sent.
func TestLoadIdentity(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "postgres", withColumns("id BIGINT GENERATED ALWAYS AS IDENTITY,")...)
	l.write("day.jsonl", `{"sensor":1,"ts":"2026-03-29 01:00:00"}`+"\n"+`{"sensor":2,"id":1,"ts":"2026-03-29 01:00:00"}`+"\n")
	l.loads(exitFailed, "Inserted 1, Rejected 1", "day.jsonl")
	l.write("day.csv", "sensor,ts,id\n3,2026-03-29 01:00:00,1\n")
	l.loads(exitFailed, "; GENERATED ALWAYS", "day.csv")
}

// TestLoadBits checks that a BIT column accepts decimal integers on every server, as
// SELECT b+0 prints them, and that bits of all widths are stored unchanged.
func TestLoadBits(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, withColumns("b1 BIT(1), b8 BIT(8), b64 BIT(64), n INT, ")...)
		rows := "sensor,ts,b1,b8,b64,n\n"
		for i, row := range []string{"1,10,9223372036854775807,1", "0,b'10',0x10,2", "0,00001010,100,3", ",255,0,4",
			"2,1,1,5", // too many bits
			"1,256,1,6",
			"u,1,1,7", // neither bits nor a boolean
			"1,1,1,t", "1,1,1,true"} {
			rows += fmt.Sprintf("%d,2026-03-29 00:40:01,%s\n", i+1, row)
		}
		l.write("bits.csv", rows)
		l.loads(exitFailed, "Inserted 4, Rejected 5", "bits.csv")
		l.refused("bits.csv", map[int64]string{6: "b1: ", 7: "b8: ", 8: "b1: ", 9: "n: ", 10: "n: "})
		query := "SELECT sensor, b1+0, b8+0, b64+0 FROM readings WHERE sensor < 10 ORDER BY sensor"
		if server == "postgres" {
			query = "SELECT sensor, CAST(CAST(b1 AS BIT(1)) AS BIGINT), CAST(b8 AS BIGINT), CAST(b64 AS BIGINT) FROM readings WHERE sensor < 10 ORDER BY sensor"
		}
		want := "1 1 10 9223372036854775807; 2 0 2 16; 3 0 10 100; 4 <nil> 255 0"
		l.has(want, query)
		// The numbers that the server prints for them load as the same values.
		export := `{"sensor":10,"ts":"2026-03-29 00:40:01"}` + "\n"
		for _, row := range l.query(query) {
			f := strings.Fields(strings.ReplaceAll(row, "<nil>", "null"))
			export += fmt.Sprintf(`{"sensor":1%s,"ts":"2026-03-29 00:40:01","b1":%s,"b8":%s,"b64":%s}`+"\n", f[0], f[1], f[2], f[3])
		}
		l.write("export.jsonl", export)
		l.loads(exitDone, "Inserted 5", "export.jsonl")
		l.has("1"+strings.ReplaceAll(want, "; ", "; 1"), strings.Replace(query, "< 10", "> 10", 1))
	})
}

// TestLoadRefusesWhatTypesDoNotHave checks that values that typed servers refuse are
// refused on all servers, even if the server's columns accept any value.
func TestLoadRefusesWhatTypesDoNotHave(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, withColumns("d DATE, price DECIMAL(8,2), small SMALLINT, name VARCHAR(3), doc JSON, ")...)
		rows := "sensor,ts,d,price,small,name,doc\n"
		for i, row := range []string{"2024-12-31,999999.99,32767,äöü,{}", "12/31/2024,1,1,a,{}", "2024-12-31,1000000,1,a,{}", "2024-12-31,1,32768,a,{}", "2024-12-31,1,1,abcd,{}", "2024-12-31,1,1,a,{"} {
			rows += fmt.Sprintf("%d,2026-03-29 00:40:01,%s\n", i, row)
		}
		l.write("types.csv", rows)
		l.loads(exitFailed, "Inserted 1, Rejected 5", "types.csv")
		l.refused("types.csv", map[int64]string{3: "", 4: "", 5: "", 6: "", 7: ""})
	})
}

// TestLoadDigits: what a column of SQLite can't hold to the last digit is a bad row, whatever has
// it.
func TestLoadDigits(t *testing.T) {
	t.Parallel()
	columns := withColumns("d DECIMAL(18,2), u DECIMAL(20,0), tx TEXT, ")
	l, server := newLoading(t, "sqlite", columns...), newLoading(t, "mariadb", columns...)
	const at = "2026-03-29 00:40:00"
	rows := []struct{ d, u, tx string }{
		{"1234567890123.45", "9007199254740993", "9999999999999999.99"}, {"9999999999999999.00", "0", "1"},
		{"9999999999999999.99", "0", "1"}, {"12345678901234.56", "0", "1"}, {"0", "18446744073709551615", "1"}}
	csv, points, insert := "sensor,ts,d,u,tx\n", "", "INSERT INTO readings (sensor, ts, d, u, tx) VALUES "
	type row struct {
		Sensor int64    `parquet:"sensor"`
		TS     int64    `parquet:"ts,timestamp(microsecond)"`
		D      int64    `parquet:"d,decimal(2:18)"`
		U      [16]byte `parquet:"u,decimal(0:38)"`
		Tx     string   `parquet:"tx"`
	}
	var columnar bytes.Buffer
	w := parquet.NewGenericWriter[row](&columnar)
	for i, r := range rows {
		csv += fmt.Sprintf("%d,%s,%s,%s,%s\n", i, at, r.d, r.u, r.tx)
		points += fmt.Sprintf("readings sensor=%di,d=%s,u=%s,tx=\"%s\" %d\n", i, r.d, r.u, r.tx, loadStart.UnixNano())
		insert += fmt.Sprintf("(%d, '%s', %s, %s, '%s'),", i, at, r.d, r.u, r.tx)
		hundredths, ok := new(big.Int).SetString(strings.Replace(r.d, ".", "", 1), 10)
		u, also := new(big.Int).SetString(r.u, 10)
		if !ok || !also {
			t.Fatal(r)
		}
		out := row{int64(i), loadStart.UnixMicro(), hundredths.Int64(), [16]byte{}, r.tx}
		u.FillBytes(out.U[:])
		_, err := w.Write([]row{out})
		must(t, err)
	}
	must(t, w.Close())
	l.write("day.csv", csv)
	l.write("day.lp", points)
	l.write("day.parquet", columnar.String())
	server.does(strings.TrimSuffix(insert, ","))
	for _, args := range []string{"day.csv", "day.lp", "day.parquet", "--from " + server.target} {
		l.loads(exitFailed, "Inserted 2, Rejected 3", args)
		l.has("0 1234567890123.45 9007199254740993 9999999999999999.99; 1 9999999999999999 0 1", "SELECT sensor, CAST(d AS TEXT), u, tx FROM readings r ORDER BY sensor")
		l.remove(" WHERE sensor >= 0")
	}
}

// TestLoadSpellsInstants checks that a row of another client and a loaded row have the
// same key, however many fractional digits of a second either writes.
func TestLoadSpellsInstants(t *testing.T) {
	onSQLite(t, func(l *loading) {
		for _, ts := range []string{"2026-03-29 00:40:01.123", "2026-03-29 00:40:02.000", "2026-03-29 00:40:03.5"} {
			execSQL(l, l.db, "INSERT INTO readings (sensor, ts) VALUES (1, '"+ts+"')")
		}
		l.write("a.csv", "sensor,ts\n1,2026-03-29 00:40:01.123000\n1,2026-03-29T00:40:02Z\n1,2026-03-29 00:40:03.50\n1,2026-03-29 00:40:04.25\n")
		l.loads(exitDone, "Inserted 1, Duplicate 3", "a.csv")
		l.hasRows(4)
		if _, err := l.db.SQL().ExecContext(l.Context(), "INSERT INTO readings (sensor, ts) VALUES (1, '2026-03-29 00:40:04.25')"); err == nil {
			l.Error("a row that was loaded is there a second time")
		}
	})
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
	l := &loading{&keptTable{T: t, db: openKeeper(t, "sqlite:"+dir+"/x.db")}}
	l.has("2026-03-29 00:50:00; 2026-03-29 01:30:00.500000; 2026-03-29 01:00:00", "SELECT +ts FROM events ORDER BY id")
}

// TestLoadOverLongLine loads a line that is longer than the limit. It is a bad row, of
// which the beginning is stored, and the lines after it are loaded.
func TestLoadOverLongLine(t *testing.T) {
	onSQLite(t, func(l *loading) {
		const before = loadHeader + "1,2026-03-29 01:00:00,1,a\n"
		long := "2,2026-03-29 01:00:00,1," + strings.Repeat("ä", 10<<20)
		l.write("day.csv", before+long+"\n3,2026-03-29 01:00:00,1,c\n"+long)
		l.settle("day.csv")
		for _, args := range []string{"--dry-run --bad=day.csv.bad.jsonl", "", "--source=again --batch=1"} {
			l.loads(exitFailed, "Sent 4, Rejected 2, Finished true", "day.csv "+args)
			bad := l.bad("day.csv.bad.jsonl")
			if len(bad) < 2 {
				l.Fatalf("%d bad rows", len(bad))
			}
			for _, b := range bad {
				if b.Line != 3 && b.Line != 5 || !strings.Contains(b.Reason, "longer than 16 MiB") || len(b.Row) < 1020 || len(b.Row) > 1024 || !strings.HasPrefix(long, b.Row) {
					l.Errorf("%d, %s: %d bytes, %.30q", b.Line, b.Reason, len(b.Row), b.Row)
				}
			}
		}
		l.hasRows(2)
		l.loads(exitDone, "Sent 0, Before 4", "day.csv")
		stream := strings.ReplaceAll(before, "1,2026", "7,2026") + long + "\n8,2026-03-29 01:00:00,1,c\n"
		l.loadsFrom(stream, exitFailed, "Inserted 2, Rejected 1", "- --format=csv --spool=spool")
	})
}

// TestLoadLineWithoutEnd checks that a line that doesn't end within the limit, such as
// from a faulty program, ends a load after the rows before it are loaded, unless they
// were collected to be published.
func TestLoadLineWithoutEnd(t *testing.T) {
	onSQLite(t, func(l *loading) {
		f, more, streamed := loadRows(0, 70, false), loadRows(100, 30, false), loadRows(200, 70, false)
		long := strings.Repeat("x", 129<<20)
		line := strings.Count(f.text, "\n") + 1
		l.write("day.csv", f.text+long+"\n")
		l.loads(exitFailed, fmt.Sprintf("; day.csv: line %d: it has no end within", line), "day.csv --batch 50 --lane live")
		l.check("day.csv.bad.jsonl", f)
		l.write("day.csv", f.text+more.body())
		l.loads(exitDone, "", "day.csv")
		l.check("day.csv.bad.jsonl", f, more)
		// The rows of a stream are loaded, too.
		l.loadsFrom(streamed.text+long, exitFailed, fmt.Sprintf("Inserted 70; line %d: it has no end within", line), "- --format csv --batch 50")
		l.check("day.csv.bad.jsonl", f, more, streamed)
	})
}

// TestLoadPackedAndMore: the rows of a small gz are loaded, whatever follows it.
func TestLoadPackedAndMore(t *testing.T) {
	onSQLite(t, func(l *loading) {
		for i, behind := range []string{"\x00\x00\x00", "x", "\x1f\x8b\x08"} {
			code := exitFailed
			if i == 0 {
				code = exitDone
			}
			l.write("day.gz", pack(l.T, ".gz", fmt.Sprintf("sensor,ts\n%d,2026-03-29 01:00:00\n", i))+behind)
			l.loads(code, "Inserted 1", "day.gz")
		}
	})
}

// TestLoadPackedFileCutOff checks a compressed file that is still being copied. It is
// taken neither for a complete file nor for another file of that name: its readable
// part is loaded, the load fails, and it continues once the file is complete.
func TestLoadPackedFileCutOff(t *testing.T) {
	for _, name := range []string{"day.csv.gz", "day.csv.zst"} {
		t.Run(name, func(t *testing.T) {
			onSQLite(t, func(l *loading) {
				f := loadRows(0, 4000, false)
				packed := pack(l.T, name, f.text)
				fails := func(size int) {
					l.Helper()
					l.write(name, packed[:size])
					l.loads(exitFailed, "; "+name, name+" --batch 100")
				}
				fails(0)
				fails(len(packed) * 3 / 5)
				got := l.rows()
				if len(got) == 0 || len(got) >= len(f.want) || !slices.Equal(got, f.want[:len(got)]) {
					l.Fatalf("%d rows of a cut file are loaded, of %d", len(got), len(f.want))
				}
				fails(len(packed) - 1)
				l.write(name, packed)
				l.loads(exitDone, "Finished true", name+" --batch 333")
				for _, size := range []int{0, 60, len(packed) / 2, len(packed) - 1} {
					fails(size)
				}
				l.check(name+".bad.jsonl", f)
			})
		})
	}
}
