package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// TestRebuiltSizes compares a rebuilt period with a period whose rows arrived
// in random order.
func TestRebuiltSizes(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name, c := range map[string]struct {
		rows            int
		columns, values string
		indexes         []string
		most            float64 // limit on the share of the original bytes
	}{
		"narrow rows, three secondary indexes": {60000, "register INT NOT NULL, price REAL NOT NULL, total NUMERIC(12,2) NOT NULL",
			"(random() * 1000)::int, random() * 500, (random() * 1000)::numeric(12,2)", []string{"(price, register)", "(register, n)", "(total)"}, 0.9},
		"rows of 2.5 kB in five values": {6000, `a TEXT COLLATE "C" CHECK (a <> ''), "b c" VARCHAR(600) DEFAULT 'x', d BYTEA, e JSON, f JSONB`,
			"repeat(md5(n::text), 16), repeat(md5((n * 2)::text), 16), decode(repeat(md5((n * 3)::text), 32), 'hex'), " +
				"to_json(repeat(md5((n * 5)::text), 16)), jsonb_build_object('k', repeat(md5((n * 7)::text), 16), 'n', 1.10)", []string{"(lower(a))"}, 0.4},
		"rows of 500 bytes":                {6000, "a TEXT", "repeat(md5(n::text), 16)", nil, 1.05},
		"a generated column, rows of 4 kB": {1000, "a TEXT, l INT GENERATED ALWAYS AS (length(a)) STORED", "repeat(md5(n::text), 128)", nil, 1.05},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, db, "DROP TABLE IF EXISTS rolls, apart, out", "CREATE TABLE rolls (id BIGINT NOT NULL, n INT NOT NULL, "+c.columns+", PRIMARY KEY (id)) PARTITION BY RANGE (id)")
			for _, columns := range c.indexes {
				run(t, db, "CREATE INDEX ON rolls "+columns)
			}
			table, _ := rollingTable(t, "rolls", 1)
			p := rolling.Partition{Name: "p", Period: rolling.Period{From: 0, To: 1000000}}
			parts := []rolling.Partition{p}
			if err := db.Try(within(t), engine.CreatePartitions{Table: table, New: parts}); err != nil {
				t.Fatal(err)
			}
			into := "id, n"
			before, err := db.Describe(within(t), "rolls")
			if err != nil {
				t.Fatal(err)
			}
			for _, column := range before.Columns[2:] {
				if !column.Generated {
					into += ", " + db.Dialect().Quote(column.Name)
				}
			}
			run(t, db, fmt.Sprintf("INSERT INTO rolls (%s) SELECT n, n, %s FROM (SELECT n FROM generate_series(1, %d) n ORDER BY md5(n::text)) r", into, c.values, c.rows))
			hash := func() string { return value(t, db, "SELECT "+db.Words().RowHash(before.Columns)+" FROM rolls") }
			sum := hash()
			run(t, db, db.Words().CreateTemplate(table, "apart", engine.Storage{Compress: true})...)
			run(t, db, fmt.Sprintf("INSERT INTO apart (%s) SELECT %[1]s FROM rolls_p ORDER BY id", into))
			size := func() engine.Sizes {
				t.Helper()
				s, err := db.Catalog().Sizes(within(t), table)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			plain := size()
			step(t, db, engine.Replace{Table: table, Have: parts, Old: parts, New: p, With: "apart", Out: []string{"out"}})
			rebuilt := size()
			share := float64(rebuilt.Data+rebuilt.Index) / float64(plain.Data+plain.Index)
			t.Logf("%d rows: %d + %d bytes, rebuilt %d + %d, %.0f%%", c.rows, plain.Data, plain.Index, rebuilt.Data, rebuilt.Index, share*100)
			if share > c.most {
				t.Errorf("rebuilt it takes %.2f of the bytes", share)
			}
			if got := hash(); got != sum {
				t.Errorf("the rows have changed: %s, before %s", got, sum)
			}
			after, err := db.Describe(within(t), "rolls_p")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before.Columns, after.Columns); d != "" {
				t.Error(d)
			}
			if got, want := len(after.Indexes), len(before.Indexes); got != want {
				t.Errorf("%d secondary indexes, want %d", got, want)
			}
			if got := value(t, db, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'rolls_p'::regclass AND attnum > 0 AND attstorage = 'x'"); got != "0" {
				t.Errorf("%s columns may move their values out of the row", got)
			}
		})
	}
}
