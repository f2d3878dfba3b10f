package format

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/rowmill/rowmill/internal/value"
)

func TestPointEnd(t *testing.T) {
	f := &Format{Kind: LineProtocol}
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"plain", "m a=1\nm a=2\n", []string{"m a=1\n", "m a=2\n"}},
		{"break in quotes", "m a=\"x\ny\" 1\nm a=2", []string{"m a=\"x\ny\" 1\n", "m a=2"}},
		{"second field", "m,t=1 a=1i,b=\"x\ny\",c=t 1\nm a=2", []string{"m,t=1 a=1i,b=\"x\ny\",c=t 1\n", "m a=2"}},
		{"escaped quote", "m a=\"x\\\"\ny\" 1\nm a=2", []string{"m a=\"x\\\"\ny\" 1\n", "m a=2"}},
		{"escaped backslash", "m a=\"x\\\\\" 1\nm a=2", []string{"m a=\"x\\\\\" 1\n", "m a=2"}},
		{"quote in a tag", "m,t=\"x a=1\nm,t=y\" a=2\n", []string{"m,t=\"x a=1\n", "m,t=y\" a=2\n"}},
		{"quote in a measurement", "m\" a=1\nm\" a=2\n", []string{"m\" a=1\n", "m\" a=2\n"}},
		{"quote in a key", "m a\"b=1\nm a=\"\n\"\n", []string{"m a\"b=1\n", "m a=\"\n\"\n"}},
		{"escaped blank in a tag", "m,t=x\\ \" a=\"\n\"\nm a=1\n", []string{"m,t=x\\ \" a=\"\n\"\n", "m a=1\n"}},
		{"comment", "# \"x\nm a=\"1\"\n", []string{"# \"x\n", "m a=\"1\"\n"}},
		{"unclosed quote", "m a=\"x\nm a=2\n", []string{"m a=\"x\n", "m a=2\n"}},
		{"quote after the fields", "m a=1 \"x\nm a=2\n", []string{"m a=1 \"x\n", "m a=2\n"}},
		{"CRLF", "m a=\"x\r\ny\"\r\nm a=2\r\n", []string{"m a=\"x\r\ny\"\r\n", "m a=2\r\n"}},
		{"no field", "m \n\"\n", []string{"m \n", "\"\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := records(f, []byte(c.in))
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("records of %q: %q, %v; want %q", c.in, got, err, c.want)
			}
			checkPrefixes(t, f, []byte(c.in))
		})
	}
}

func TestPoints(t *testing.T) {
	some := &Format{Kind: LineProtocol}
	named := &Format{Kind: LineProtocol, Columns: []string{"sensor", "ts", "note"}}
	other := &Format{Kind: LineProtocol, Measurement: "weather data"}
	const at = " 1774746000000000000" // 2026-03-29 01:00:00
	const row = "[1][2026-03-29 01:00:00]"
	for _, c := range []struct {
		f        *Format
		in, want string
	}{
		{some, "m,note=x sensor=1i,value=2.5" + at, row + "[2.5][x][NULL]"},
		{some, "m,note=x sensor=1u,value=2.5" + at, row + "[2.5][x]"},
		{some, "m,note=a\\ b\\,c\\=d sensor=1,value=1e3" + at, row + "[1000][a b,c=d]"},
		{some, `m sensor=1i,note="a\"b, c=d"` + at, row + `[NULL][a"b, c=d]`},
		{some, `m sensor=1i,note="C:\new\temp\x\r \\n \"\\"` + at, row + `[NULL][C:\new\temp\x\r \n "\]`},
		{some, `m,note=\new\\t sensor=1i,value=1` + at, row + `[1][\new\\t]`},
		{some, "m sensor=1i,note=\"\",more=t" + at, row + "[NULL][][true]"},
		{some, "  m sensor=1i,note=\"x\"" + at + "  ", row + "[NULL][x]"},
		{some, "m,NOTE=x Sensor=1i 1774746000000001000", "[1][2026-03-29 01:00:00.000001][NULL][x]"},
		{some, "m sensor=1i,note=\"x\",ts=\"2026-03-29 01:00:00\"", row + "[NULL][x]"},
		{some, "m sensor=1.5,note=\"x\"" + at, "rejected: sensor"},
		{some, "m sensor=9223372036854775808i,note=\"x\"" + at, "out of range"},
		{some, "m sensor=1i,note=\"x\",value=1.2.3" + at, `field "value": "1.2.3"`},
		{some, "m sensor=1i,note=\"x\" 1774746000000000001", "rejected: ts"},
		{some, "m sensor=1i,note=\"x\"", "rejected: tsit is missing"},
		{some, "m note=\"x\"" + at, "rejected: sensorit is missing"},
		{some, "m sensor=1i,note=\"x\",colour=3i" + at, `key "colour" isn't one of the columns`},
		{some, "m,note=y sensor=1i,note=\"x\"" + at, `key "note" twice`},
		{some, "m sensor=1i,note=\"x\",ts=5i" + at, `key "ts" too`},
		{some, "cpu sensor=1i,note=\"x\"" + at, `measurement is "cpu", and only "m"`},
		{some, "m,note=x" + at, "rejected: "},
		{some, "m sensor=1i,note=\"x" + at, "closing quote"},
		{some, "m sensor=1i,note=\"\xff\"" + at, "utf-8"},
		{some, "m sensor=1i,note=\"x\" 12x", "invalid timestamp"},
		{some, "m sensor=1i,note=\"x\"" + at + " 5", "unexpected text"},
		{some, "m sensor=1i,note=\"x\" 99999999999999999999", "rejected: ts"},
		{named, "m,note=x,host=h sensor=1i,value=2.5" + at, row + "[x]"},
		{other, "weather\\ data,note=x sensor=1i" + at, row + "[NULL][x]"},
	} {
		p := parserOf(t, c.f, strings.Join(c.f.Columns, ",")+map[bool]string{true: "sensor,ts,value,note,more"}[c.f.Columns == nil])
		_, rows := parsed(p, []byte("#comment\n"+c.in+"\n\n   \n"))
		if len(rows) != 1 || p.Rows != 1 || !strings.Contains(rows[0].text, c.want) || strings.HasPrefix(c.want, "[") && strings.HasPrefix(rows[0].text, "rej") || rows[0].line != 2 {
			t.Errorf("%q: %v, want %s", c.in, rows, c.want)
		}
	}
}

// TestTimestamps checks how timestamps become the values of the column by which a table
// rolls.
func TestTimestamps(t *testing.T) {
	for _, c := range []struct {
		unix     string
		epoch    time.Duration // of a column of integers
		truncate bool
		in, want string
	}{
		{"s", 0, false, "1774746000", "[1][2026-03-29 01:00:00]"},
		{"ms", 0, false, "1774746000001", "[1][2026-03-29 01:00:00.001000]"},
		{"", 0, true, "1774746000000000999", "[1][2026-03-29 01:00:00]"},
		{"", time.Second, false, "1774746000000000000", "[1][1774746000]"},
		{"", time.Second, false, "1774746000000000001", "not a whole number of 1s"},
		{"", time.Second, true, "1774746000999999999", "[1][1774746000]"},
		{"", time.Second, true, "-1", "[1][-1]"},
		{"s", time.Millisecond, false, "1774746000", "[1][1774746000000]"},
		{"s", time.Millisecond, false, "9223372036854775807", "out of range"},
	} {
		db, table, schema := measurements(t)
		table.Epoch = c.epoch
		if c.epoch > 0 {
			schema.Columns[1].Type = value.Type{Kind: value.Int}
		}
		f := &Format{Kind: LineProtocol, Columns: []string{"sensor", "ts", "note"}}
		target, err := NewTarget(db.Capabilities(), f, f.Columns, &Reading{Table: table, Schema: schema, Values: value.Notation{Unix: c.unix, TruncateTimes: c.truncate}})
		must(t, err)
		if _, rows := parsed(NewParser(target), []byte("m,note=x sensor=1i "+c.in)); len(rows) != 1 || !strings.Contains(rows[0].text, c.want) {
			t.Errorf("%s %s %v %s: %v, want %s", c.unix, c.epoch, c.truncate, c.in, rows, c.want)
		}
	}
}

// FuzzPoints checks that a text that the decoder accepts as a whole is cut into lines of
// one point each, with the same measurements and timestamps.
func FuzzPoints(f *testing.F) {
	for _, s := range []string{"m a=1\nm,t=\\ x b=\"\n\" 5\n", "m a=\"\\\\\"\n#\"\nm a=\"\\\"\n\",c=t\r\n", " m a=1 \n\n\"m a=\"\"\n", "m\\\" a=\"\n\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 600 {
			return
		}
		points := func(p []byte) (out []string, ok bool) {
			for d := lineprotocol.NewDecoderWithBytes(slices.Clone(p)); d.Next(); {
				name, err := d.Measurement()
				if err != nil {
					return nil, false
				}
				point := string(name)
				at, err := d.TimeBytes()
				if err != nil {
					return nil, false
				}
				out = append(out, point+" "+string(at))
			}
			return out, true
		}
		want, ok := points(p)
		if !ok {
			return
		}
		format := &Format{Kind: LineProtocol}
		checkPrefixes(t, format, p)
		cut, err := records(format, p)
		must(t, err)
		var got []string
		for _, r := range cut {
			line := trimBreak([]byte(r))
			if blankPoint(line) {
				continue
			}
			one, ok := points(line)
			if !ok || len(one) != 1 {
				t.Fatalf("line %q of %q: %q", line, p, one)
			}
			got = append(got, one...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", p, got, want)
		}
	})
}
