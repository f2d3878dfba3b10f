package postgres_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestTempTableKeepsValues sends rows of every type through a temporary table, as texts, and reads
// the same texts, with several settings of the session.
func TestTempTableKeepsValues(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx := within(t)
	exec(t, session(t, db), `CREATE TABLE types (i int, b bigint, n numeric, m numeric(10,3), f float8, r real, d date, ts timestamp, tz timestamptz, iv interval,
		v text, c char(5), x varchar(9) COLLATE "C", y bytea, a text[], j jsonb, u uuid, o boolean, z int)`,
		`INSERT INTO types VALUES
		(-1, -9223372036854775808, 'NaN', -0.125, '-Infinity', 1.1, '-infinity', '0044-03-15 BC', '2021-10-31 00:30:00+00', '1 mon -3 days 04:05:06.7',
		 E'it''s \\ "x"\n', 'ab', '', E'\\x00ff5c27', E'{"a b",NULL,"\\"","\\\\\\\\"}', '{"a": [1, 1.50, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, NULL),
		(1, 0, 12345678901234567890123456789.0123456789000, 0, 0.1, 3.4028235e38, '9999-12-31', 'infinity', '2021-10-31 01:30:00+00', '-1 year',
		 E'\\''; DROP TABLE types; --', '', 'é', '', '{}', '"x\\u00e9"', NULL, false, NULL)`)
	const query = "SELECT * FROM types"
	for _, settings := range []string{"", "SET standard_conforming_strings = off; SET backslash_quote = off", "SET timezone = 'Europe/Berlin'; SET datestyle = 'German, DMY'",
		"SET intervalstyle = iso_8601; SET bytea_output = escape", "SET default_transaction_read_only = on; SET extra_float_digits = 3"} {
		reads, err := db.ReadSession(ctx, nil)
		must(t, err)
		for q := range strings.SplitSeq(settings, ";") {
			if q != "" {
				_, err := reads.Exec(ctx, q)
				must(t, err)
			}
		}
		st, err := db.ReadState(ctx, reads)
		must(t, err)
		must(t, reads.Close())
		merge, err := db.ReadSession(ctx, db.MergeState(st))
		must(t, err)
		cols, err := db.DescribeQuery(ctx, merge, query)
		must(t, err)
		table, err := db.TempTable(ctx, merge, `it"s`, query, cols)
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		texts := func(q string, each func([][]byte)) string {
			var b strings.Builder
			must(t, merge.Text(ctx, q, nil, func(v [][]byte) error {
				b.WriteString("\n" + string(bytes.Join(v, []byte("|"))))
				each(v)
				return nil
			}))
			return b.String()
		}
		var rows []byte
		want := texts(query, func(v [][]byte) {
			rows, err = table.Append(rows, v)
			must(t, err)
		})
		must(t, table.Insert(ctx, rows))
		if got := texts(`SELECT * FROM "it""s"`, func([][]byte) {}); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", settings, got, want)
		}
		must(t, merge.Close())
	}
	merge, err := db.ReadSession(ctx, nil)
	must(t, err)
	defer merge.Close()
	_, err = merge.Exec(ctx, "SET extra_float_digits = 0")
	must(t, err)
	cols, err := db.DescribeQuery(ctx, merge, "SELECT f FROM types")
	must(t, err)
	if _, err := db.TempTable(ctx, merge, "x", "SELECT f FROM types", cols); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("fractions without all digits: error %v", err)
	}
}
