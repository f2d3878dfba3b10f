package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// TestParts uses rows of several shapes, some of which are removed again: each
// part has its own columns, and maps its rows to those of the batch.
func TestParts(t *testing.T) {
	db, table, schema := measurements(t)
	schema.Columns[0].Default = "1"
	schema.Columns[2].Default = "2.5"
	schema.Columns[3].Default = "''"
	columns := []string{"sensor", "ts", "value", "note", "raw"}
	target, err := newTarget(db, table, schema, &Format{Kind: JSONL}, columns, &Options{})
	must(t, err)
	p := newParser(target)
	var in strings.Builder
	for i := range 30 {
		line := `{"ts":"2026-03-29"`
		if i%2 == 0 {
			line += fmt.Sprintf(`,"sensor":%d`, i)
		}
		if i%3 == 0 {
			line += `,"value":1.5,"raw":"41"`
		}
		if i%3 == 1 {
			line += `,"value":null`
		}
		in.WriteString(line + "}\n")
	}
	for range 2 {
		p.parse(bytesOf([]byte(in.String()), 1, 0, true))
		if len(p.rejected) > 0 {
			t.Fatalf("rejected: %+v", p.rejected[0])
		}
		var keep []int
		for i := range 30 {
			if i%5 != 0 {
				keep = append(keep, i)
			}
		}
		p.keep(keep)
		var seen []int
		most := 30
		for _, part := range p.parts() {
			if n := part.batch.Rows(); n > most {
				t.Errorf("%d rows after %d", n, most)
			} else {
				most = n
			}
			if err := engine.CheckRows(part.table, part.batch, 0, part.batch.Rows()); err != nil {
				t.Error(err)
			}
			names := []string{}
			for _, c := range part.table.Columns {
				names = append(names, c.Name)
			}
			for row := range part.batch.Rows() {
				i := keep[part.place(row)]
				seen = append(seen, i)
				want := "ts,raw"
				if i%3 != 2 {
					want = "ts,value,raw"
				}
				if i%2 == 0 {
					want = "sensor," + want
				}
				if got := strings.Join(names, ","); got != want {
					t.Errorf("row %d has columns %s, want %s", i, got, want)
				}
				if at := slices.Index(names, "sensor"); at >= 0 && part.batch.Columns[at].Ints[row] != int64(i) {
					t.Errorf("row %d has sensor %d", i, part.batch.Columns[at].Ints[row])
				}
				raw := &part.batch.Columns[len(names)-1]
				if raw.Null(row) == (i%3 == 0) || i%3 == 0 && string(raw.Value(row)) != "A" {
					t.Errorf("row %d has raw %q, NULL: %v", i, raw.Value(row), raw.Null(row))
				}
				if at := slices.Index(names, "value"); at >= 0 && part.batch.Columns[at].Null(row) != (i%3 == 1) {
					t.Errorf("row %d: value is wrong", i)
				}
			}
		}
		if slices.Sort(seen); !slices.Equal(seen, keep) {
			t.Errorf("the parts have rows %v, want %v", seen, keep)
		}
	}
	if len(p.shapes) != 4 {
		t.Errorf("%d shapes, want 4", len(p.shapes))
	}
}

// TestIdentityThatIsAlwaysGenerated uses a column that accepts no values.
func TestIdentityThatIsAlwaysGenerated(t *testing.T) {
	db, table, schema := measurements(t)
	schema.Columns = append(schema.Columns, engine.SchemaColumn{Name: "id", Native: "bigint", Type: value.Type{Kind: value.Int}, Auto: true})
	schema.Options = map[string]string{"identity": "always: no, id"}
	_, err := newTarget(db, table, schema, &Format{Kind: CSV}, []string{"sensor", "ts", "note", "id"}, &Options{})
	if err == nil || !strings.Contains(err.Error(), "GENERATED ALWAYS") {
		t.Errorf("%v", err)
	}
	if _, err := newTarget(db, table, schema, &Format{Kind: CSV}, []string{"sensor", "ts", "note"}, &Options{}); err != nil {
		t.Error(err)
	}
}
