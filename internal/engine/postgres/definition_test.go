package postgres

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

func TestBind(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]string{
		"SELECT 1":                         "SELECT 1",
		"a ? b ? c":                        "a $1 b $2 c",
		`"is it?" = ? AND 'why?' = ?`:      `"is it?" = $1 AND 'why?' = $2`,
		"x IN (?,?,?,?,?,?,?,?,?,?,?)":     "x IN ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)",
		"'it''s' = ?":                      "'it''s' = $1",
		"ts >= TIMESTAMP '2026-01-01' + ?": "ts >= TIMESTAMP '2026-01-01' + $1",
		"date'?' = ?":                      "date'?' = $1",
	} {
		if got := bind(q); got != want {
			t.Errorf("%s became %s, want %s", q, got, want)
		}
	}
}

// FuzzBind checks that bind changes only question marks and leaves none outside quotes.
func FuzzBind(f *testing.F) {
	f.Add("a ? 'b?' \"c?\" 'it''s ?'")
	f.Fuzz(func(t *testing.T, q string) {
		got := bind(q)
		if strings.Count(q, "?") == 0 && got != q {
			t.Errorf("%q became %q", q, got)
		}
		if bind(got) != got {
			t.Errorf("%q became %q and then %q", q, got, bind(got))
		}
	})
}

// TestParseBoundsOfOthers parses bounds of tables that rowmill did not create.
func TestParseBoundsOfOthers(t *testing.T) {
	t.Parallel()
	day, err := rolling.Parse("1d")
	if err != nil {
		t.Fatal(err)
	}
	times, seconds := &engine.Table{Name: "r", Grid: day, By: "ts"}, &engine.Table{Name: "r", Grid: day, By: "ts", Epoch: 1e9}
	for text, c := range map[string]struct {
		table    *engine.Table
		from, to int64
	}{
		"('1970-01-01') TO ('1970-01-02')":                                     {times, 0, 86400e6},
		"('1970-01-01 00:00:00') TO ('1970-01-01 00:00:00.000001')":            {times, 0, 1},
		"('1970-01-01 00:00:00+00') TO ('1970-01-01 02:00:00.5+00')":           {times, 0, 7200500000},
		"(MINVALUE) TO (MAXVALUE)":                                             {times, rolling.MinTime, rolling.MaxTime},
		"('-infinity') TO ('infinity')":                                        {times, rolling.MinTime, rolling.MaxTime},
		"('0044-03-15 00:00:00 BC') TO ('10000-01-01 00:00:00')":               {times, rolling.MinTime, rolling.MaxTime},
		"('4714-11-24 00:00:00+00 BC') TO ('294276-12-31 23:59:59.999999+00')": {times, rolling.MinTime, rolling.MaxTime},
		"(0) TO (86400)":      {seconds, 0, 86400e6},
		"('-86400') TO ('0')": {seconds, -86400e6, 0},
		"('-9223372036854775808') TO ('9223372036854775807')": {seconds, rolling.MinTime, rolling.MaxTime},
	} {
		from, to, err := parseBounds(c.table, "FOR VALUES FROM "+text)
		if err != nil || from != c.from || to != c.to {
			t.Errorf("%s: %d to %d, %v; want %d to %d", text, from, to, err, c.from, c.to)
		}
	}
	for _, text := range []string{"", "DEFAULT", "FOR VALUES IN (1)", "FOR VALUES WITH (modulus 2, remainder 0)", "FOR VALUES FROM (1, 2) TO (3, 4)",
		"FOR VALUES FROM ('yesterday') TO ('1970-01-01')", "FOR VALUES FROM ('99999-x') TO ('zz999-01-01')"} {
		if from, to, err := parseBounds(times, text); err == nil {
			t.Errorf("%s: %d to %d", text, from, to)
		}
	}
}
