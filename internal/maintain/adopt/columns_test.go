package adopt

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

func TestAddedColumns(t *testing.T) {
	schema := &engine.Schema{Name: "t", Columns: []engine.SchemaColumn{{Name: "id", Native: "bigint(20)"}, {Name: "ts", Native: "datetime"}, {Name: "v", Native: "double"}}}
	const head = "CREATE TABLE t (id BIGINT NOT NULL, ts DATETIME NOT NULL, "
	for name, c := range map[string]struct {
		text  string
		added string
		err   string
	}{
		"nothing":       {head + "v DOUBLE, PRIMARY KEY (id, ts))", "", ""},
		"one":           {head + "v DOUBLE, w INT NULL, PRIMARY KEY (id, ts))", "w INT NULL", ""},
		"with default":  {head + "v DOUBLE, w INT NOT NULL DEFAULT 7, PRIMARY KEY (id, ts))", "w INT NOT NULL DEFAULT 7", ""},
		"not null":      {head + "v DOUBLE, w INT NOT NULL, PRIMARY KEY (id, ts))", "", "column w is NOT NULL"},
		"dropped":       {head + "PRIMARY KEY (id, ts))", "", "column v, which the declaration lacks"},
		"another type":  {head + "v DECIMAL(10,2), PRIMARY KEY (id, ts))", "", "column v is double in the table and DECIMAL(10,2)"},
		"other name of": {head + "v DOUBLE PRECISION, PRIMARY KEY (id, ts))", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := rolling.ReadDefinition(c.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := AddedColumns(schema, d)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, a := range got {
				text += a.Definition
			}
			if text != c.added {
				t.Errorf("added %q, want %q", text, c.added)
			}
		})
	}
}

func TestOtherType(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"INT", "int(11)", false},
		{"INTEGER", "int", false},
		{"int4", "integer", false},
		{"INT UNSIGNED", "int(10)", true},
		{"INT UNSIGNED", "int(10) unsigned", false},
		{"BIGINT", "int", true},
		{"VARCHAR(10)", "character varying(10)", false},
		{"VARCHAR(10)", "character varying(20)", true},
		{"DECIMAL(10)", "numeric(10,0)", false},
		{"DECIMAL(10, 2)", "numeric(10,2)", false},
		{"DECIMAL(10,2)", "decimal(12,2)", true},
		{"TIMESTAMP", "timestamp without time zone", false},
		{"TIMESTAMPTZ", "timestamp with time zone", false},
		{"TIMESTAMPTZ", "timestamp without time zone", true},
		{"DATETIME(6)", "datetime(6)", false},
		{"DATETIME(0)", "datetime", false},
		{"BOOLEAN", "tinyint(1)", false},
		{"mood", "mood2", false},
		{"DOUBLE", "DOUBLE", false},
		{"REAL", "double", false},
	} {
		if got := otherType(c.a, c.b); got != c.want {
			t.Errorf("otherType(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestSameColumn(t *testing.T) {
	a := engine.SchemaColumn{Name: "v", Native: "text", Null: true}
	for name, b := range map[string]engine.SchemaColumn{"": {Name: "V", Native: "TEXT", Null: true}, "name": {Name: "w", Native: "text", Null: true},
		"type": {Name: "v", Native: "int", Null: true}, "NULL": {Name: "v", Native: "text"}, "generated": {Name: "v", Native: "text", Null: true, Generated: true}} {
		if err := sameColumn(a, b); (err == nil) != (name == "") {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
