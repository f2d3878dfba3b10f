package ingest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// untypedColumn returns the parser of a column whose engine would accept any value.
func untypedColumn(t testing.TB, native string) (column, engine.Column) {
	t.Helper()
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	if _, err := db.SQL().ExecContext(t.Context(), "CREATE TABLE one (x "+native+")"); err != nil {
		t.Fatal(err)
	}
	s, err := db.Describe(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	c, as, err := newColumn(s.Columns[0], db, &ValueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c, as
}

// TestUntyped: values that a typed server refuses are refused, and different
// notations of the same value are written in one form.
func TestUntyped(t *testing.T) {
	t.Parallel()
	const bad = "!"
	for native, values := range map[string]map[string]string{
		"DATE":              {"2024-12-31": "2024-12-31", "2024-12-31 00:00:00": "2024-12-31", "12/31/2024": bad, "2024-02-30": bad, "2024-12-31 01:00:00": bad, "today": bad, "": bad, "20241231": bad, "1969-12-31": "1969-12-31"},
		"TIME":              {"1:02:03": "01:02:03", "01:02": "01:02:00", "23:59:59.250": "23:59:59.25", "-838:59:59": "-838:59:59", "839:00:00": bad, "24:60:00": bad, "noon": bad, "1:2:3": bad, "01:02:03.": bad, "01:02:03.1234567": bad, "01:02.5": bad},
		"DECIMAL(8,2)":      {"999999.99": "999999.99", "1000000": bad, "-1000000": bad, "0001000.5": "0001000.5", "1e5": "1e5", "1e6": bad, "0.01e8": bad, "100000000e-3": "100000000e-3", "0.001": bad, "x": bad},
		"NUMERIC(3)":        {"999": "999", "1000": bad, "1.5": bad},
		"DECIMAL(2,2)":      {"0.99": "0.99", "1": bad},
		"NUMERIC":           {"123456789012": "123456789012"},
		"SMALLINT":          {"32767": "32767", "32768": bad, "-32768": "-32768", "-32769": bad, "t": bad},
		"TINYINT UNSIGNED":  {"255": "255", "256": bad, "-1": bad},
		"MEDIUMINT":         {"8388607": "8388607", "8388608": bad},
		"BIGINT UNSIGNED":   {"9223372036854775807": "9223372036854775807", "-1": bad},
		"INT":               {"99999999999": "99999999999", "true": bad},
		"INTEGER":           {"9223372036854775807": "9223372036854775807"},
		"VARCHAR(3)":        {"äöü": "äöü", "äöüß": bad, "": ""},
		"CHARACTER(2)":      {"ab": "ab", "abc": bad},
		"CHARACTER VARYING": {"abc": "abc"},
		"TEXT":              {"12/31/2024": "12/31/2024"},
		"BOOLEAN":           {"true": "1", "t": "1", "F": "0", "0": "0", "1": "1", "2": bad, "yes": bad},
		"YEAR":              {"2024": "2024", "24": bad},
		"JSON":              {`{"a": 1}`: `{"a": 1}`, "{": bad},
		"BIT(8)":            {"10": "10", "256": bad, "b'11'": "3"},
		"DATETIME":          {"2026-03-29 01:00:00.123": "2026-03-29 01:00:00.123000", "12/31/2024": bad},
	} {
		c, as := untypedColumn(t, native)
		for in, want := range values {
			v := engine.Vector{Type: as.Type}
			err := c.parse(&v, []byte(in))
			switch {
			case want == bad && err == nil:
				t.Errorf("%s takes %q", native, in)
			case want == bad && len(v.Ints)+len(v.Floats)+len(v.Ends) != 0:
				t.Errorf("%s: %q left something", native, in)
			case want != bad && err != nil:
				t.Errorf("%s: %q: %v", native, in, err)
			case want != bad && string(v.AppendText(nil, 0)) != want:
				t.Errorf("%s: %q is %q, want %q", native, in, v.AppendText(nil, 0), want)
			}
		}
	}
}

// FuzzUntyped checks that a value that was accepted and written is accepted again,
// unchanged.
func FuzzUntyped(f *testing.F) {
	natives := []string{"DATE", "TIME", "DECIMAL(8,2)", "SMALLINT", "BOOLEAN", "VARCHAR(3)", "YEAR", "JSON"}
	var columns []column
	var types []engine.Type
	for _, n := range natives {
		c, as := untypedColumn(f, n)
		columns, types = append(columns, c), append(types, as.Type)
		for _, s := range []string{"2024-12-31", "01:02:03.25", "-838:59:59", "1e5", "t", "äöü", "32768", "{}", "0.1e9999999999999999999"} {
			f.Add(len(columns)-1, s)
		}
	}
	f.Fuzz(func(t *testing.T, i int, s string) {
		if i < 0 || i >= len(columns) {
			return
		}
		v := engine.Vector{Type: types[i]}
		if columns[i].parse(&v, []byte(s)) != nil {
			if len(v.Ints)+len(v.Ends)+len(v.Bytes) != 0 {
				t.Fatalf("%s: %q left something", natives[i], s)
			}
			return
		}
		once := string(v.AppendText(nil, 0))
		if !utf8.ValidString(once) || natives[i] == "TIME" && strings.ContainsAny(once, " T") {
			t.Fatalf("%s: %q is written %q", natives[i], s, once)
		}
		v = engine.Vector{Type: types[i]}
		if err := columns[i].parse(&v, []byte(once)); err != nil || string(v.AppendText(nil, 0)) != once {
			t.Fatalf("%s: %q is written %q, and that %q, %v", natives[i], s, once, v.AppendText(nil, 0), err)
		}
	})
}
