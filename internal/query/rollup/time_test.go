package rollup

import (
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/sqltext"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// serverRules are those of a server.
type serverRules struct {
	syntax sqltext.Syntax
	traits engine.Semantics
}

// timeTypes has the type of which values are days.
var timeTypes = map[string]value.Type{"date": {Kind: value.Time, Logical: value.Date}}

// Expressions of a time, with the longest buckets of 1m, 15m, 1h, 1d, 7d, 1mo and 1y within which
// they have one value; "" is none.
func TestRolledTime(t *testing.T) {
	every := func(engine.SchemaColumn) bool { return true }
	none := func(engine.SchemaColumn) bool { return false }
	loose := serverRules{sqltext.Syntax{Backslash: true, DoubleQuoted: true, Backquoted: true, Introducer: true, HashComments: true}, engine.Semantics{RowSemantics: engine.RowSemantics{ExactText: none}}}
	casts := serverRules{sqltext.Syntax{Dollar: true, Prefixed: true, ConcatPipes: true, Casts: true}, engine.Semantics{RowSemantics: engine.RowSemantics{ExactText: every}, ValueSemantics: engine.ValueSemantics{IntegerDivision: true}, TimeSemantics: engine.TimeSemantics{TypedLiterals: true}}}
	plain := serverRules{sqltext.Syntax{Backquoted: true, Bracketed: true, ConcatPipes: true}, engine.Semantics{RowSemantics: engine.RowSemantics{ExactText: every}, ValueSemantics: engine.ValueSemantics{IntegerDivision: true}, TimeSemantics: engine.TimeSemantics{UnixEpoch: true}}}
	for _, c := range []struct {
		serverRules
		unit time.Duration
		expr string
		want string
	}{
		{loose, 0, "ts", ""},
		{loose, 0, "DATE(ts)", "1d"},
		{loose, 0, "CAST(ts AS DATE)", "1d"},
		{loose, 0, "YEAR(ts) * 100 + MONTH(ts)", "1mo"},
		{loose, 0, "YEAR(ts)", "1y"},
		{loose, 0, "QUARTER(ts)", "1mo"},
		{loose, 0, "WEEK(ts, 3)", "1d"},
		{loose, 0, "HOUR(ts)", "1h"},
		{loose, 0, "MINUTE(ts)", "1m"},
		{loose, 0, "MICROSECOND(ts)", ""},
		{loose, 0, "DATE_FORMAT(ts, '%Y-%m-%d %H:00')", "1h"},
		{loose, 0, `DATE_FORMAT(ts, "%Y-%m")`, "1mo"},
		{loose, 0, "DATE_FORMAT(ts, '%H:%i')", "1m"},
		{loose, 0, "DATE_FORMAT(ts, '%f')", ""},
		{loose, 0, "DATE_FORMAT(ts, fmt)", ""},
		{loose, 0, "EXTRACT(YEAR_MONTH FROM ts)", "1mo"},
		{loose, 0, "EXTRACT(SECOND FROM ts)", ""},
		{loose, 0, "UNIX_TIMESTAMP(ts) DIV 3600 * 3600", "1h"},
		{loose, 0, "UNIX_TIMESTAMP(ts) DIV 5400", "15m"},
		{loose, 0, "UNIX_TIMESTAMP(ts) DIV 7", ""},
		{loose, 0, "FLOOR(UNIX_TIMESTAMP(ts) / 86400)", "1d"},
		{loose, 0, "UNIX_TIMESTAMP(ts) - UNIX_TIMESTAMP(ts) % 900", "15m"},
		{loose, 0, "UNIX_TIMESTAMP(ts) - UNIX_TIMESTAMP(ts2) % 900", ""},
		{loose, 0, "UNIX_TIMESTAMP(ts) / 900", ""},
		{loose, 0, "FLOOR(UNIX_TIMESTAMP(ts) / n)", ""},
		{loose, 0, "FROM_UNIXTIME(UNIX_TIMESTAMP(ts) DIV 60 * 60)", "1m"},
		{loose, 0, "DATE(ts + INTERVAL 1 HOUR)", ""},
		{loose, 0, "IF(sensor > 3, DATE(ts), NULL)", "1d"},
		{loose, 0, "sensor + 1", "1y"},
		{loose, 0, "site", ""}, // texts that differ may be one group
		{loose, 0, "value", ""},
		{loose, 0, "(SELECT 1)", ""},
		{loose, time.Second, "ts", ""},
		{loose, time.Second, "ts DIV 3600", "1h"},
		{loose, time.Second, "FROM_UNIXTIME(ts, '%Y-%m-%d')", "1d"},
		{loose, time.Second, "DATE(FROM_UNIXTIME(ts))", "1d"},
		{loose, time.Second, "DATE(ts)", ""},
		{loose, time.Millisecond, "ts DIV 3600000", "1h"},
		{loose, time.Millisecond, "ts DIV 3600", ""},
		{casts, 0, "date_trunc('day', ts)", "1d"},
		{casts, 0, "date_trunc('second', ts)", ""},
		{casts, 0, "date_trunc('month', ts)::date", "1mo"},
		{casts, 0, "ts::date", "1d"},
		{casts, 0, "ts::time", ""},
		{casts, 0, "extract(hour from ts)", "1h"},
		{casts, 0, "extract(second from ts)", ""},
		{casts, 0, "floor(extract(epoch from ts) / 300)", "1m"},
		{casts, 0, "floor(extract(epoch from ts) / 3600)", "1h"},
		{casts, 0, "to_char(ts, 'YYYY-MM-DD HH24:00')", "1h"},
		{casts, 0, "to_char(ts, 'Month')", ""},
		{casts, 0, "site", "1y"},
		{plain, time.Second, "ts / 3600", "1h"},
		{plain, time.Second, "strftime('%Y-%m', ts, 'unixepoch')", "1mo"},
		{plain, time.Second, "strftime('%Y-%m', ts)", ""},
		{plain, time.Second, "date(ts, 'unixepoch')", "1d"},
		{plain, time.Second, "date(ts, 'unixepoch', '+1 hour')", ""},
	} {
		text := "SELECT " + c.expr + " FROM t"
		q, err := parse.Parse(text, c.syntax)
		if err != nil {
			t.Fatal(err)
		}
		longest := ""
		for _, every := range []string{"1m", "15m", "1h", "1d", "7d", "1mo", "1y"} {
			g, err := rolling.Parse(every)
			if err != nil {
				t.Fatal(err)
			}
			x := &Time{utc: true, traits: c.traits, same: strings.EqualFold, level: &engine.RolledLevel{Rollup: rolling.Rollup{Every: g, By: []string{"sensor", "site"}}},
				table: &engine.RolledTable{Unit: c.unit, Time: engine.SchemaColumn{Name: "ts", Native: "datetime"},
					Columns: []engine.SchemaColumn{{Name: "sensor", Type: value.Type{Kind: value.Int}}, {Name: "site", Native: "text", Type: value.Type{Kind: value.Text}}, {Name: "value", Type: value.Type{Kind: value.Int}}}}}
			if x.fixed(q.Body.Items[0].Expr) {
				longest = every
			}
		}
		if longest != c.want {
			t.Errorf("%s has one value within %q, want %q", c.expr, longest, c.want)
		}
	}
}

// Literals that a time is compared with: a date has no time of day, and an instant is a time of the
// session's zone.
func TestBoundOfRolledTime(t *testing.T) {
	loose := serverRules{syntax: sqltext.Syntax{Introducer: true}}
	casts := serverRules{sqltext.Syntax{Prefixed: true, Casts: true}, engine.Semantics{TimeSemantics: engine.TimeSemantics{TypedLiterals: true}}}
	for _, c := range []struct {
		serverRules
		native, expr string
		utc          bool
		want         string
	}{
		{loose, "datetime", "'2026-11-24 06:00'", false, "2026-11-24 06:00:00"},
		{loose, "date", "'2026-11-24 06:00'", false, "2026-11-24 06:00:00"}, // compared as times
		{loose, "datetime", "TIMESTAMP '2026-11-24 06:00:00.5'", false, "2026-11-24 06:00:00.5"},
		{loose, "datetime", "DATE '2026-11-24'", false, "2026-11-24 00:00:00"},
		{loose, "datetime", "DATE '2026-11-24 06:00:00'", false, ""},
		{loose, "datetime", "TIME '06:00:00'", false, ""},
		{casts, "timestamp without time zone", "'2026-11-24 06:00'", false, "2026-11-24 06:00:00"},
		{casts, "timestamp without time zone", "'2026-11-24 06:00'::timestamp", false, "2026-11-24 06:00:00"},
		{casts, "timestamp without time zone", "'2026-11-24 06:00'::timestamptz", false, ""},
		{casts, "timestamp with time zone", "TIMESTAMP WITH TIME ZONE '2026-11-24 06:00'", true, "2026-11-24 06:00:00"},
		{casts, "timestamp without time zone", "'2026-11-24 06:00'::date", false, ""},
		{casts, "timestamp without time zone", "CAST('2026-11-24' AS date)", false, "2026-11-24 00:00:00"},
		{casts, "timestamp without time zone", "DATE '2026-11-24 06:00'", false, ""},
		{casts, "timestamp without time zone", "(DATE '2026-11-24 06:00')::timestamp", false, ""},
		{casts, "timestamp without time zone", "'2026-11-24 06:00:00.6'::timestamp(0)", false, ""},
		{casts, "date", "'2026-11-24'", false, "2026-11-24 00:00:00"},
		{casts, "date", "'2026-11-24 06:00'", false, ""},
		{casts, "date", "TIMESTAMP '2026-11-24 06:00'", false, "2026-11-24 06:00:00"},
	} {
		q, err := parse.Parse("SELECT "+c.expr, c.syntax)
		if err != nil {
			t.Fatalf("%s: %v", c.expr, err)
		}
		x := &Time{utc: c.utc, traits: c.traits, table: &engine.RolledTable{Time: engine.SchemaColumn{Name: "ts", Type: timeTypes[c.native]}}}
		got := ""
		if pos, ok := x.bound(q.Body.Items[0].Expr); ok {
			got = time.UnixMicro(pos).UTC().Format("2006-01-02 15:04:05.999999")
		}
		if got != c.want {
			t.Errorf("%s is %q, want %q", c.expr, got, c.want)
		}
	}
}
