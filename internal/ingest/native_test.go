package ingest

import (
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

func TestMembers(t *testing.T) {
	for native, want := range map[string][]string{
		"enum('a','b')": {"a", "b"}, "set('it''s',' b, c ','')": {"it's", " b, c ", ""}, "enum('''')": {"'"}, "enum('ä(','2')": {"ä(", "2"},
		`enum('a\\b')`: {`a\\b`, `a\b`}, "enum(": nil, "enum('a": nil, "enum": nil,
	} {
		if got := membersOf(native); !slices.Equal(got, want) {
			t.Errorf("%s has members %q, want %q", native, got, want)
		}
	}
}

// TestUnbent uses values that servers would silently change.
func TestUnbent(t *testing.T) {
	for _, c := range []struct {
		server, native string
		kind           value.Kind
		text, want     string // "": refused
	}{
		{"mysql", "enum('a','2','')", engine.KindText, "2", "2"}, {"mysql", "enum('a','2','')", engine.KindText, "", ""},
		{"mariadb", "enum('a','b')", engine.KindText, "B", "B"}, {"mariadb", "enum('a','b')", engine.KindText, "2", ""},
		{"mariadb", "enum('a','b')", engine.KindText, " +2 ", ""}, {"mysql", "enum('a','b')", engine.KindText, "  ", ""},
		{"mysql", "enum('a','b')", engine.KindText, "c", "c"}, // refused by the server
		{"mysql", "set('a','b')", engine.KindText, "3", ""}, {"mysql", "set('a','b')", engine.KindText, "a,b", "a,b"},
		{"mysql", "set('1','2')", engine.KindText, "2", "2"},
		{"mysql", "time", engine.KindOther, "12:00:00.5", ""}, {"mysql", "time", engine.KindOther, "12:00:00.000", "12:00:00.000"},
		{"mysql", "time(2)", engine.KindOther, "-838:00:00.25", "-838:00:00.25"}, {"mysql", "time(2)", engine.KindOther, "120000.255", ""},
		{"postgres", "time(3) with time zone", engine.KindOther, "12:00:00.1234+02:00", ""},
		{"postgres", "time with time zone", engine.KindOther, "12:00:00.123456+02:00", "12:00:00.123456+02:00"},
		{"postgres", "interval(1)", engine.KindOther, "1.25 days 02:00:00.5", "1.25 days 02:00:00.5"},
		{"postgres", "interval(1)", engine.KindOther, "1 day 02:00:00.25", ""},
		{"postgres", "character varying(3)", engine.KindText, "äöü", "äöü"}, {"postgres", "character varying(3)", engine.KindText, "äö  ", ""},
		{"postgres", "character varying(3)[]", engine.KindText, "{abcde}", "{abcde}"}, {"postgres", "character(2)", engine.KindText, "ab ", ""},
		{"mysql", "char(2)", engine.KindText, "ab ", ""}, {"mysql", "varchar(2)", engine.KindText, "a ", "a "},
		{"sqlite", "varchar(2)", engine.KindText, "abc", "abc"}, {"sqlite", "time", engine.KindOther, "12:00:00.5", "12:00:00.5"},
	} {
		for _, truncate := range []bool{false, true} {
			name, digits := engine.NativeType(c.native)
			parse := unbent(func(v *engine.Vector, text []byte) error { return appendText(v, text, false) },
				engine.SchemaColumn{Native: c.native, Type: value.Type{Kind: c.kind}}, name, digits, c.server, &ValueOptions{TruncateTimes: truncate})
			v := engine.Vector{Type: engine.Varchar}
			got := ""
			if err := parse(&v, []byte(c.text)); err == nil {
				got = string(v.Value(0))
			} else if len(v.Ends) > 0 {
				t.Errorf("%s %q: something is left", c.native, c.text)
			}
			want := c.want
			if truncate {
				if cut, there := map[string]string{"12:00:00.5": "12:00:00", "120000.255": "120000.25", "12:00:00.1234+02:00": "12:00:00.123+02:00",
					"1 day 02:00:00.25": "1 day 02:00:00.2"}[c.text]; there && want == "" {
					want = cut
				}
			}
			if got != want {
				t.Errorf("%s, %s, truncating: %v, %q is %q, want %q", c.server, c.native, truncate, c.text, got, want)
			}
		}
	}
}
