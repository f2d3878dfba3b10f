package lane

import "testing"

func TestWithoutValues(t *testing.T) {
	for reason, want := range map[string]string{
		`"x": it is not an integer`:                               "it is not an integer",
		`"a \"b\": c"...: it is not a number`:                     "it is not a number",
		"2026-01-01 00:00:00 lies outside every period: they run": "N lies outside every period: they run",
		"it has 3 fields for 4 columns":                           "it has N fields for N columns",
		"Incorrect integer value: 'abc' for column 'x' at row 17": "Incorrect integer value: ... for column 'x' at row N",
		"Duplicate entry '1-2' for key 'PRIMARY'":                 "Duplicate entry ... for key 'PRIMARY'",
		"violates check constraint \"c2_check\"\nDETAIL: row 7":   `violates check constraint "c2_check"`,
	} {
		if got := withoutValues(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}
