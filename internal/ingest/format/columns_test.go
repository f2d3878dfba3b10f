package format

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// targetOfText returns the target for the fields of a source.
func targetOfText(t *testing.T, f *Format, text string) (*Target, error) {
	t.Helper()
	db, table, schema := measurements(t)
	ctx, stop := context.WithCancel(t.Context())
	c := NewCutter(ctx, strings.NewReader(text), f, 10, 1000, 0)
	defer c.Wait(stop)
	return c.Destination(ctx, schema, func(names []string) (*Target, error) {
		return NewTarget(db.Capabilities(), f, names, &Reading{Table: table, Schema: schema})
	})
}

// TestColumnsOfAFileWithoutHeader gives column names for a file without a header:
// its first row must not be skipped silently.
func TestColumnsOfAFileWithoutHeader(t *testing.T) {
	columns := []string{"sensor", "ts", "note"}
	const row, header = "1,2026-03-29,x\n", "a,b,c\n"
	for _, c := range []struct {
		f    Format
		text string
		want string // part of the error and its hint
	}{
		{Format{Kind: CSV, Columns: columns}, row, "line 1 would be skipped as a header, and is a row of values --header=false"},
		{Format{Kind: CSV, Columns: columns}, "\xef\xbb\xbf\"1\",2026-03-29,x\r\n", "is a row of values"},
		{Format{Kind: CSV, Columns: columns}, "no int,2026-03-29,x", "is a row of values"},
		{Format{Kind: TSV, Columns: columns}, "1\t2026-03-29\tx\n", "is a row of values"},
		{Format{Kind: CSV, Columns: columns, Header: true}, row, ""},
		{Format{Kind: CSV, Columns: columns, NoHeader: true}, row, ""},
		{Format{Kind: CSV, Columns: columns}, header + row, "line 1, the header, has a, b, c, and the columns are given as sensor, ts, note no --columns"},
		{Format{Kind: CSV, Columns: columns, Header: true}, header + row, ""},
		{Format{Kind: CSV, Columns: columns, Header: true}, "sensor,ts,note\r1,2026-03-29,x\r", "its lines end with CR alone tr"},
		{Format{Kind: TSV}, "sensor\tts\tnote\r1\t2026-03-29\tx\r", "its lines end with CR alone tr"},
		{Format{Kind: CSV, NoHeader: true, Comment: "#"}, "#x\r1,2026-03-29,x\r", "its lines end with CR alone tr"},
		{Format{Kind: LineProtocol}, "# x\rm sensor=1i 1\r", "its lines end with CR alone tr"},
		{Format{Kind: CSV, Columns: columns}, "sensor,note,ts,more\n", "given as sensor, ts, note no --columns, as the header says which field is which column"},
		{Format{Kind: CSV, Columns: columns}, "a,b\n" + row, "the header, has a, b, and"},
		{Format{Kind: CSV, Columns: columns}, " Sensor,TS,\"note\"\n" + row, ""},
		{Format{Kind: CSV, Columns: []string{"sensor", "ts", "-", "note"}}, "sensor,ts,any thing,note\n", ""},
		{Format{Kind: CSV, Columns: []string{"-", "ts", "note", "sensor"}, SkipLines: 2, Comment: "#"}, "about\n\"\n#x\n,ts,sensor,note\n", "line 4, the header, has , ts, sensor, note, and the columns are given as -, ts, note, sensor no --columns, as the header says which field is which column"},
		{Format{Kind: CSV, Columns: []string{"-", "ts", "note", "sensor"}}, "x,2026-03-29,n,1\n", "is a row of values"},
		{Format{Kind: CSV, SkipColumns: []string{"colour"}}, "sensor,ts,note,Colour\n", ""},
		{Format{Kind: CSV, SkipColumns: []string{"color"}}, "sensor,ts,note\n", "--skip-columns color: the columns of the source are sensor, ts, note"},
		{Format{Kind: CSV, Set: []Constant{{"note", "x"}}}, "sensor,ts\n", ""},
		{Format{Kind: CSV, Set: []Constant{{"note", "x"}}}, "sensor,ts,note\n", "the source has column note, which --set gives a value --skip-columns note"},
		{Format{Kind: CSV, Set: []Constant{{"note", "x"}}, SkipColumns: []string{"note"}}, "sensor,ts,note\n", ""},
		{Format{Kind: CSV, Set: []Constant{{"ts", "yesterday"}}}, "sensor,note\n", "--set ts: \"yesterday\": it is not a time"},
		{Format{Kind: CSV, Set: []Constant{{"ts", "2026-03-29"}}}, "sensor,note\n", ""},
		{Format{Kind: CSV, Set: []Constant{{"colour", "x"}}}, "sensor,ts,note\n", "colour"},
		{Format{Kind: CSV, SkipLines: 3}, "sensor,ts,note\n" + row, "--skip-lines 3 skips all of its lines"},
		{Format{Kind: JSONL}, "[{\"sensor\":1}]", "it is a JSON array, not one object per line --format json"},
		{Format{Kind: JSON}, "{\"sensor\":1}", "the JSON array isn't closed"},
		{Format{Kind: JSON}, "{\"sensor\":1},", "neither in an array nor in one line jq"},
		{Format{Kind: JSON}, "[1,2]", "the elements of the JSON array are not objects"},
		{Format{Kind: JSON}, "[]", ""},
		{Format{Kind: JSON}, "[ {\"sensor\":1}]", ""},
		{Format{Kind: CSV}, row, "--header=false where the first line has values"},
		{Format{Kind: CSV}, "sensor,ts,colour\n", "--columns with the names in the order of the fields; --skip-columns colour to leave out"},
		{Format{Kind: CSV}, "s\x00,\x00t\x00s\x00\n", "zero bytes --encoding utf-16le"},
		{Format{Kind: CSV}, ",sensor,ts,colour\n", `columns "", "colour" aren't those of table m`},
		{Format{Kind: CSV}, ",sensor,ts,colour\n", `--skip-columns '"",colour' to leave out`},
		{Format{Kind: CSV}, "sensor,ts,inf\n", "sensor, ts, value, note, more, raw, price, doc --columns"},
		{Format{Kind: CSV, Columns: []string{"sensor", "1"}}, row, "doc --columns"},
	} {
		_, err := targetOfText(t, &c.f, c.text)
		got := ""
		if err != nil {
			var hinted *engine.HintError
			got = err.Error()
			if errors.As(err, &hinted) {
				got += " " + hinted.Hint
			}
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v, %q: %q, want %q", c.f, c.text, got, c.want)
		}
	}
}
