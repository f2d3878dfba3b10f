package mysql

import (
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// TestRecognize: expressions as the catalogs of the servers have them, with the column and the form
// of its bounds.
func TestRecognize(t *testing.T) {
	t.Parallel()
	columns := []engine.SchemaColumn{
		{Name: "clock", Type: value.Type{Kind: value.Int}},
		{Name: "made at", Type: value.Type{Kind: value.Time}},
		{Name: "id", Type: value.Type{Kind: value.Text}},
	}
	for expression, want := range map[string][2]string{
		"`clock`":                   {"clock", ""},
		"`made at`":                 {"made at", ""},
		"unix_timestamp(`made at`)": {"made at", ""},
		"to_days(`made at`)":        {"made at", "days"},
		"TO_SECONDS(`made at`)":     {"made at", "seconds"},
		"year(`made at`)":           {"made at", "years"},
		"((year(`made at`) * 100) + month(`made at`))":         {"made at", "months"},
		"year(`made at`) * 100 + month(`made at`)":             {"made at", "months"},
		"extract(year_month from `made at`)":                   {"made at", "months"},
		"floor(unix_timestamp(`made at`))":                     {"made at", "seconds since 1970"},
		"month(`made at`)":                                     {},
		"year(`made at`) * 12 + month(`made at`)":              {},
		"`clock` DIV 3600":                                     {},
		"to_days(`clock`)":                                     {},
		"`id`":                                                 {},
		"`made at`,`clock`":                                    {},
		"(`clock` % 7)":                                        {},
		"year(`made at`) * 100 + dayofmonth(`made at`)":        {},
		"to_days(`made at`) - 1":                               {},
		"weekday(`made at`)":                                   {},
		"time_to_sec(`made at`)":                               {},
		"extract(month from `made at`)":                        {},
		"yearweek(`made at`,0)":                                {},
		"unix_timestamp(`made at`) DIV 86400":                  {},
		"((to_days(`made at`) * 24) + hour(`made at`))":        {},
		"to_days(`clock`) + to_days(`made at`)":                {},
		"floor(to_days(`made at`))":                            {},
		"quarter(`made at`)":                                   {},
		"year(`made at`) + month(`made at`) * 100":             {},
		"abs(`clock`)":                                         {},
		"year(`made at`) * 100 + month(`made at`) + `clock`*0": {},
	} {
		if by, form := recognize(expression, columns); by != want[0] || form != want[1] {
			t.Errorf("%s: %q by %q, want %q", expression, by, form, want)
		}
	}
}

// TestBoundForms: a bound is read as it was rendered, by each form, and none lies between two
// values.
func TestBoundForms(t *testing.T) {
	t.Parallel()
	def, err := rolling.ReadDefinition("CREATE TABLE t (ts DATETIME NOT NULL, PRIMARY KEY (ts))")
	if err != nil {
		t.Fatal(err)
	}
	day := func(y, m, d int) int64 { return rolling.Position(time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC)) }
	for _, c := range []struct {
		form, every string
		at          int64
		want        string
	}{
		{"days", "1d", day(1970, 1, 1), "719528"},
		{"days", "1d", day(2026, 11, 30), "740315"},
		{"days", "1h", day(2026, 11, 30) + 3600e6, ""},
		{"seconds", "1h", day(2026, 11, 30) + 3600e6, "63963219600"},
		{"seconds", "1h", day(1970, 1, 1), "62167219200"},
		{"years", "1y", day(2027, 1, 1), "2027"},
		{"years", "1mo", day(2027, 2, 1), ""},
		{"months", "1mo", day(2026, 12, 1), "202612"},
		{"months", "1mo", day(2027, 1, 1), "202701"},
		{"months", "1d", day(2026, 12, 2), ""},
		{"seconds since 1970", "1d", day(1970, 1, 2), "86400"},
		{"days", "1d", rolling.MaxTime, "MAXVALUE"},
		{"", "1d", rolling.MaxTime, "MAXVALUE"},
		{"", "1d", day(2026, 12, 2), "'2026-12-02 00:00:00'"},
	} {
		g, err := rolling.Parse(c.every)
		if err != nil {
			t.Fatal(err)
		}
		table := &engine.Table{Name: "t", Grid: g, By: "ts", Bounds: c.form, Definition: def}
		got, err := bound(table, c.at)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && engine.HintOf(err) == "" {
			t.Errorf("%s of %s: %s, %v, want %s", c.form, g.Format(c.at), got, err, c.want)
		}
		if back, parseErr := parseBound(table, got); err == nil && (back != c.at || parseErr != nil) {
			t.Errorf("%s: %s is read as %s, %v", c.form, got, g.Format(back), parseErr)
		}
	}
	// What others may have written.
	g, _ := rolling.Parse("1mo")
	for text, want := range map[string]int64{"202400": day(2024, 1, 1), "202413": day(2025, 1, 1), "202499": day(2025, 1, 1), "0": rolling.MinTime, "-5": rolling.MinTime, "99999999999": rolling.MaxTime} {
		if got, err := parseBound(&engine.Table{Grid: g, By: "ts", Bounds: "months", Definition: def}, text); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, g.Format(got), err)
		}
	}
}
