package format

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// measurements describes a table with a column of each kind.
func measurements(t testing.TB) (engine.Keeper, *engine.Table, *engine.Schema) {
	t.Helper()
	db, ok := testdb.Open(t, "sqlite").(engine.Keeper)
	if !ok {
		t.Fatal("it keeps no tables")
	}
	grid, err := rolling.EveryDuration(24 * time.Hour)
	must(t, err)
	return db, &engine.Table{Name: "m", Grid: grid, By: "ts"}, &engine.Schema{Columns: []engine.SchemaColumn{
		{Name: "sensor", Native: "INTEGER", Type: value.Type{Kind: value.Int}},
		{Name: "ts", Native: "DATETIME", Type: value.Type{Kind: value.Time, Digits: 6}},
		{Name: "value", Native: "REAL", Type: value.Type{Kind: value.Float}, Null: true},
		{Name: "note", Native: "TEXT", Type: value.Type{Kind: value.Text}},
		{Name: "more", Native: "TEXT", Type: value.Type{Kind: value.Text}, Null: true},
		{Name: "raw", Native: "BLOB", Type: value.Type{Kind: value.Bytes}, Null: true},
		{Name: "price", Native: "DECIMAL(10,2)", Type: value.Type{Kind: value.Decimal, Precision: 10, Scale: 2}, Null: true},
		{Name: "doc", Native: "JSON", Type: value.Type{Logical: value.JSON}, Null: true},
		{Name: "total", Native: "REAL", Type: value.Type{Kind: value.Float}, Generated: true},
	}}
}

// parserOf returns a parser for these columns of a format.
func parserOf(t testing.TB, f *Format, columns string) *Parser {
	t.Helper()
	db, table, schema := measurements(t)
	target, err := NewTarget(db.Capabilities(), f, strings.Split(columns, ","), &Reading{Table: table, Schema: schema})
	must(t, err)
	return NewParser(target)
}

func TestNewTarget(t *testing.T) {
	db, table, schema := measurements(t)
	for columns, want := range map[string]string{
		"sensor,ts,note":           "",
		"SENSOR,Ts,NOTE":           "",
		"sensor,ts,note,total":     "computed",
		"sensor,ts,note,colour":    `column "colour" isn't one of table m`,
		"sensor,note":              "no column ts",
		"sensor,ts":                "must have a value for note",
		"sensor,ts,note,Sensor":    "sensor is named twice",
		"sensor,ts,note,note":      "named twice",
		"":                         `column "" isn't`,
		"sensor,ts,note\x00,note":  `its text has zero bytes`,
		"sensor;ts;note":           `column "sensor;ts;note"`,
		"sensor,ts,note,\"); DROP": "isn't one",
	} {
		_, err := NewTarget(db.Capabilities(), &Format{Kind: CSV}, strings.Split(columns, ","), &Reading{Table: table, Schema: schema})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", columns, err, want)
		}
	}
	both := &engine.Schema{Columns: []engine.SchemaColumn{{Name: "a", Type: value.Type{Kind: value.Int}}, {Name: "A", Type: value.Type{Kind: value.Text}}}}
	for name, want := range map[string]string{"a": "a", "A": "A"} {
		if c := both.Find(name); c == nil || c.Name != want {
			t.Errorf("%s is %v", name, c)
		}
	}
	table.By = "doc"
	schema.Columns = append(schema.Columns, engine.SchemaColumn{Name: "doc", Type: value.Type{Kind: value.Bytes}})
	if _, err := NewTarget(db.Capabilities(), &Format{Kind: CSV}, []string{"sensor", "doc", "note"}, &Reading{Table: table, Schema: schema}); err == nil {
		t.Error("a table rolls by bytes")
	}
}

func TestRows(t *testing.T) {
	const some, all = "sensor,ts,value,note", "sensor,ts,value,note,more,raw,price,doc"
	const day = "2026-03-29"
	csv, tsv, jsonl := &Format{Kind: CSV, NoHeader: true}, &Format{Kind: TSV, NoHeader: true}, &Format{Kind: JSONL}
	for _, c := range []struct {
		f       *Format
		columns string
		in      string
		want    string // the row, or a part of the reason for its rejection
	}{
		{csv, some, "1," + day + ",2.5,x", "[1][2026-03-29 00:00:00][2.5][x]"},
		{csv, some, "1," + day + ",,x", "[1][2026-03-29 00:00:00][NULL][x]"},
		{csv, some, "1," + day + ",,", "[1][2026-03-29 00:00:00][NULL][]"},
		{csv, some, "1," + day + ",\\N,\"\"", "[1][2026-03-29 00:00:00][NULL][]"},
		{csv, some, "1," + day + ",\"\",x", "rejected: valueit is empty"},
		{csv, some, "1," + day + ",1,\\N", "rejected: noteit is NULL"},
		{csv, some, "1," + day + ",1,\"\\N\"", `[1][2026-03-29 00:00:00][1][\N]`},
		{csv, some, ",2026-03-29,1,x", "rejected: sensorit is empty"},
		{csv, some, "\\N,2026-03-29,1,x", "rejected: sensorit is NULL"},
		{csv, some, "1,,1,x", "rejected: tsit is empty"},
		{csv, some, "1," + day + ",1", "rejected: it has 3 fields for 4 columns"},
		{csv, some, "1," + day + ",1,x,", "rejected: it has 5 fields"},
		{csv, some, "1;" + day + ";1;x", "rejected: it has 1 field "},
		{csv, some, "1," + day + ",1,\"x", "rejected: a quote isn't closed"},
		{csv, some, "1," + day + ",1,\"x\"y", "rejected: text follows"},
		{csv, some, "x," + day + ",1,x", `rejected: sensor"x": it is not an integer`},
		{csv, some, "1,yesterday,1,x", `rejected: ts"yesterday": it is not a time`},
		{csv, some, "1," + day + ",1,\xff", `rejected: note"\xff": it has bytes that are not text`},
		{csv, some, "1," + day + "," + strings.Repeat("9", 100) + "x,y", "rejected: value\"" + strings.Repeat("9", 60) + `"...: it is not a number`},
		{csv, all, "1," + day + ",1,x,NULL,,,", `--null NULL reads it as no value`},
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{"NULL"}}, all, "1," + day + ",1,NULL,NULL,,,", "rejected: noteit is NULL"},
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{`\N`}}, all, "1," + day + ",1,NULL,NULL,,,", "[1][2026-03-29 00:00:00][1][NULL][NULL][NULL][NULL][NULL]"},
		{csv, all, "1," + day + ",1,x,,,,", "[1][2026-03-29 00:00:00][1][x][NULL][NULL][NULL][NULL]"},
		{csv, all, "1," + day + ",1,x,\"\",\"\",1.5,{}", "[1][2026-03-29 00:00:00][1][x][][][1.5][{}]"},
		{csv, all, "1," + day + ",1,x,y,4142,1.555,1", "rejected: price"},
		{tsv, some, "1\t" + day + "\t\\N\t", "[1][2026-03-29 00:00:00][NULL][]"},
		{tsv, some, "1\t" + day + "\t\tx", "rejected: valueit is empty"},
		{tsv, some, "1\t" + day + "\t1\t\\N", "rejected: noteit is NULL"},
		{tsv, all, "1\t" + day + "\t1\tx\t\t\\\\x4142\t\\N\t\"a\"", `[1][2026-03-29 00:00:00][1][x][][AB][NULL]["a"]`},
		{jsonl, some, `{"note":"x","sensor":1,"ts":"2026-03-29","value":2.5}`, "[1][2026-03-29 00:00:00][2.5][x]"},
		{jsonl, some, `  {"sensor":"1","ts":"2026-03-29T00:00:00Z","value":"2.5","note":""}  `, "[1][2026-03-29 00:00:00][2.5][]"},
		{jsonl, some, `{"SENSOR":1,"Ts":"2026-03-29","note":"x"}`, "[1][2026-03-29 00:00:00][NULL][x]"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":1.50,"value":null}`, "[1][2026-03-29 00:00:00][NULL][1.50]"},
		{jsonl, some, `{"sensor":true,"ts":"2026-03-29","note":"x"}`, `rejected: sensor"true": it is not an integer`},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":{"a": [1, "b"]}}`, `[1][2026-03-29 00:00:00][NULL][{"a": [1, "b"]}]`},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"\ud834\udd1e \u00e4\n\"\\ufffd\ufffd"}`, "[1][2026-03-29 00:00:00][NULL][𝄞 ä\n\"\\ufffd\ufffd]"},
		{jsonl, some, `{"sen\u0073or":1,"ts":"2026-03-29","note":"x"}`, "[1][2026-03-29 00:00:00][NULL][x]"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"\ud800"}`, "half of a surrogate pair"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"\ud834\u0041bc"}`, "half of a surrogate pair"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"\\\udd1e"}`, "half of a surrogate pair"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"` + "\xff" + `"}`, "bytes that are not text"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29"}`, "rejected: noteit is missing"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":null}`, "rejected: noteit is NULL"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"x","colour":1}`, `key "colour" isn't one of the columns that are loaded, sensor, ts, value, note`},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"x","sensor":2}`, `it has key "sensor" twice`},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"x","Note":null}`, `it has key "Note" twice`},
		{jsonl, some, `{"sensor":1.0,"ts":"2026-03-29","note":"x"}`, "[1][2026-03-29 00:00:00][NULL][x]"},
		{jsonl, some, `{"sensor":1e3,"ts":"2026-03-29","note":"x"}`, "[1000][2026-03-29 00:00:00][NULL][x]"},
		{jsonl, some, `{"sensor":1.2e18,"ts":"2026-03-29","note":"x"}`, "[1200000000000000000][2026-03-29 00:00:00][NULL][x]"},
		{jsonl, some, `{"sensor":1.5,"ts":"2026-03-29","note":"x"}`, "1.5\": it is not an integer"},
		{jsonl, some, `{"sensor":1e999999999999999999999,"ts":"2026-03-29","note":"x"}`, "it is not an integer"},
		{jsonl, some, `{"sensor":"1.0","ts":"2026-03-29","note":"x"}`, "it is not an integer"},
		{jsonl, some, `{"sensor":[1],"ts":"2026-03-29","note":"x"}`, "it is not an integer"},
		{jsonl, some, `{"sensor":"","ts":"2026-03-29","note":"x"}`, "rejected: sensorit is empty"},
		{jsonl, some, `{"sensor":9223372036854775808,"ts":"2026-03-29","note":"x"}`, "not an integer of 64 bits"},
		{jsonl, some, `{"sensor":1,"ts":1774742400,"note":"x"}`, "it is not a time"},
		{jsonl, some, `[1,"2026-03-29",1,"x"]`, "it is not a JSON object"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"x"`, "it is not a JSON object"},
		{jsonl, some, `{"sensor":1,"ts":"2026-03-29","note":"x"} {}`, "it is not a JSON object"},
		{jsonl, some, `{"sensor":01,"ts":"2026-03-29","note":"x"}`, "it is not a JSON object"},
		{jsonl, some, `{"sensor":NaN,"ts":"2026-03-29","note":"x"}`, "it is not a JSON object"},
		{jsonl, some, `{'sensor':1}`, "it is not a JSON object"}, {jsonl, some, ` `, "it is not a JSON object"}, {jsonl, some, `null`, "it is not a JSON object"}, {jsonl, some, `"x"`, "it is not a JSON object"},
		{jsonl, some, "{}", "rejected: sensorit is missing"},
		{jsonl, all, `{"sensor":1,"ts":"2026-03-29","note":"x","doc":"text","raw":"4142","price":1e1}`, `[1][2026-03-29 00:00:00][NULL][x][NULL][AB][1e1]["text"]`},
		{jsonl, all, `{"sensor":1,"ts":"2026-03-29","note":"x","doc":{"a":1},"more":false}`, `[1][2026-03-29 00:00:00][NULL][x][false][NULL][NULL][{"a":1}]`},
		{jsonl, all, `{"sensor":1,"ts":"2026-03-29","note":"x","doc":null,"more":[]}`, `[1][2026-03-29 00:00:00][NULL][x][[]][NULL][NULL][NULL]`},
	} {
		p := parserOf(t, c.f, c.columns)
		// Valid rows around it remain unchanged, whatever the rejected row had
		// appended.
		good := map[Kind]string{
			CSV: "7,2026-01-01,1.5,good" + strings.Repeat(",", strings.Count(c.columns, ",")-3),
			TSV: "7\t2026-01-01\t1.5\tgood" + strings.Repeat("\t\\N", strings.Count(c.columns, ",")-3), JSONL: `{"sensor":7,"ts":"2026-01-01","value":1.5,"note":"good"}`,
		}[c.f.Kind]
		p.Parse(bytesOf([]byte(good+"\n"+c.in+"\n"+good+"\n"), 10, 1000, false))
		got := rowsOf(p, 1000)
		if len(got) != 3 || p.Rows != 3 || got[1].line != 11 || got[1].offset != 1000+int64(len(good))+1 {
			t.Errorf("%q: %v", c.in, got)
			continue
		}
		if strings.HasPrefix(c.want, "[") && got[1].text != c.want || !strings.Contains(got[1].text, c.want) {
			t.Errorf("%q: %s, want %s", c.in, got[1].text, c.want)
		}
		if got[0].text != got[2].text || !strings.HasPrefix(got[0].text, "[7][2026-01-01 00:00:00][1.5][good]") || p.Batch.Rows() != len(p.Places) {
			t.Errorf("%q between good rows: %v", c.in, got)
		}
		for i := range p.Batch.Columns {
			v := &p.Batch.Columns[i]
			if n := len(v.Ints) + len(v.Floats) + len(v.Ends); n != p.Batch.Rows() || len(v.Ends) > 0 && v.Ends[len(v.Ends)-1] != len(v.Bytes) {
				t.Errorf("%q: column %d has %d values, %d rows", c.in, i, n, p.Batch.Rows())
			}
		}
	}
}

func TestHeadersAndMarks(t *testing.T) {
	for _, c := range []struct {
		f    Format
		in   string
		want int
	}{
		{Format{Kind: CSV}, "a,b,c\n1,2,3\n", 1},
		{Format{Kind: CSV}, "\xef\xbb\xbf\"a\n\",b,c\n1,2,3\n", 1},
		{Format{Kind: CSV, NoHeader: true}, "\xef\xbb\xbf\"1,\n\",2,3\n4,5,6", 2},
		{Format{Kind: JSONL}, "\xef\xbb\xbf{\"a\":1}\n\n\r\n{\"a\":2}\r\n", 2},
		{Format{Kind: TSV}, "\xef\xbb\xbfa\tb\tc\n", 0},
	} {
		p, rows := parsed(NewParser(texts(&c.f, 3)), []byte(c.in))
		if p.Batch.Rows() != c.want || len(p.Rejected) > 0 {
			t.Errorf("%q: %d rows, %v", c.in, p.Batch.Rows(), p.Rejected)
		}
		if c.f.NoHeader && !strings.HasPrefix(rows[0].text, "[1,\n]") {
			t.Errorf("%q: %v", c.in, rows)
		}
	}
}

// TestDeepObjects uses objects nested so deeply that reading them would overflow the
// stack.
func TestDeepObjects(t *testing.T) {
	p := parserOf(t, &Format{Kind: JSONL}, "sensor,ts,note")
	in := func(depth int) string {
		return `{"sensor":1,"ts":"2026-01-01","note":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}\n"
	}
	for depth, good := range map[int]bool{10: true, value.MaxJSONDepth - 1: true, value.MaxJSONDepth: false, 7 << 20: false} {
		p.Parse(bytesOf([]byte(in(depth)), 1, 0, true))
		if p.Rows != 1 || (len(p.Rejected) == 0) != good {
			t.Errorf("%d deep: %d rows, rejected: %v", depth, p.Rows, len(p.Rejected) > 0)
		}
	}
	// Many brackets need not be deeply nested.
	p.Parse(bytesOf([]byte(`{"sensor":1,"ts":"2026-01-01","note":[`+strings.Repeat("[],", 9999)+`"[[\"[`+strings.Repeat("[", 9999)+"\"]}\n"), 1, 0, true))
	if len(p.Rejected) > 0 {
		t.Errorf("many brackets: %.200s", p.Rejected[0].Reason)
	}
}

func TestPosition(t *testing.T) {
	p := NewParser(texts(&Format{Kind: CSV}, 1))
	p.By, p.unit = 0, 1000
	p.Batch.Columns[0].Type = engine.Int64
	p.Batch.Columns[0].Ints = []int64{5, -5, math.MaxInt64, math.MinInt64, math.MaxInt64 / 1000}
	for i, want := range []int64{5000, -5000, math.MaxInt64, math.MaxInt64, math.MaxInt64 / 1000 * 1000} {
		if got := p.Position(i); got != want {
			t.Errorf("position of %d: %d, want %d", p.Batch.Columns[0].Ints[i], got, want)
		}
	}
}

func FuzzRows(f *testing.F) {
	for i, s := range []string{
		"1,2026-03-29,2.5,\"x\"\"\n\",,00,1.5,{}\n",
		"1\t2026-03-29\t\\N\tx\\\n\t\t\\\\x00\t1e1\t{}\n",
		`{"sensor":1,"ts":"2026-03-29","note":"\ud800","doc":{"a":[1]}}`,
		"[{\"sensor\":1,\n\"ts\":\"2026-03-29\",\"note\":\"]\"} , [{\"a\":1}],{}\n]\n",
		"m,note=a\\ b sensor=1i,value=1e3,more=\"x\ny\" 1774746000000000001\n#x\n",
		"#x\n1;29.03.2026 01:02;2,5;\"a\\\"\\N\";-;\"\";1,50;\\N\n",
		"x\ny\n#1\t2\n1\t1774746000000\tNA\tQUJD\t\tQUJD\t-1,5\tNULL\n",
		`{"sensor":"1.0","ts":1774746000,"note":"NA","price":"1,5","colour":1}`,
	} {
		f.Add([]byte(s), byte(i))
	}
	day, err := value.ParseTimeFormat("%d.%m.%Y %H:%M")
	must(f, err)
	db, table, schema := measurements(f)
	var parsers []*Parser
	add := func(format *Format, n value.Notation, names []string) {
		n.TruncateTimes = true
		target, err := NewTarget(db.Capabilities(), format, names, &Reading{Table: table, Schema: schema, Values: n})
		must(f, err)
		parsers = append(parsers, NewParser(target))
	}
	names := schema.Names()
	for _, kind := range []Kind{CSV, TSV, JSONL, JSON, LineProtocol} {
		add(&Format{Kind: kind, NoHeader: true}, value.Notation{}, names)
	}
	add(&Format{Kind: CSV, NoHeader: true, Delimiter: ';', Escape: true, Comment: "#", Nulls: []string{"-", ""}, NullQuoted: true},
		value.Notation{DecimalComma: true, TimeFormats: map[string]*value.TimeFormat{"ts": day}}, names)
	add(&Format{Kind: TSV, NoHeader: true, SkipLines: 2, Comment: "#", Nulls: []string{"NA", "NULL"}, SkipColumns: []string{"more"}, Set: []Constant{{"more", "x"}}},
		value.Notation{Unix: "ms", Bytes: value.Base64, DecimalComma: true}, names)
	add(&Format{Kind: JSONL, Nulls: []string{"NA"}, NullQuoted: true, SkipColumns: []string{"colour"}}, value.Notation{Unix: "s", DecimalComma: true, Bytes: value.Raw}, names)
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		p := parsers[int(which)%len(parsers)]
		p.Parse(bytesOf(data, 1, 0, true))
		if p.Rows != int64(len(p.Places)+len(p.Rejected)) || p.Batch.Rows() != len(p.Places) {
			t.Fatalf("%q: %d rows, %d taken, %d rejected", data, p.Rows, len(p.Places), len(p.Rejected))
		}
		for i := range p.Batch.Columns {
			v := &p.Batch.Columns[i]
			if n := len(v.Ints) + len(v.Floats) + len(v.Ends); n != p.Batch.Rows() {
				t.Fatalf("%q: column %d has %d values, %d rows", data, i, n, p.Batch.Rows())
			}
		}
		for i := range p.Batch.Rows() {
			p.Position(i)
		}
	})
}
