package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// harm is a change of a table that rowmill does not know about.
type harm struct {
	name     string
	preset   string
	layout   string
	sql      string // %T is the table that contains row 5000
	affected int64  // rows, if not 1
	found    int64  // increase of the number of rows
	says     string
	only     string // the only kind of database that allows it
}

func harms() []harm {
	var all []harm
	for _, layout := range Layouts() {
		all = append(all,
			harm{name: "value changed", preset: "classic", layout: layout, sql: "UPDATE %T SET productid = productid + 1 WHERE transactionid = 5000"},
			harm{name: "least significant digit changed", preset: "classic", layout: layout, sql: "UPDATE %T SET price = price * 1.0000005 WHERE transactionid = 5000"},
			harm{name: "time changed", preset: "timeseries", layout: layout, sql: "UPDATE %T SET value = value + 1e-9 WHERE ts = '2026-01-01 00:00:04' AND value > 999"},
			harm{name: "columns swapped", preset: "ibench", layout: layout, only: "mariadb",
				sql: "UPDATE %T SET customerid = (@x := customerid), customerid = productid, productid = @x WHERE transactionid = 5000"},
			harm{name: "columns swapped", preset: "ibench", layout: layout, only: "sqlite",
				sql: "UPDATE %T SET customerid = productid, productid = customerid WHERE transactionid = 5000"},
			harm{name: "text swapped between rows", preset: "sbtest", layout: layout, affected: 2, only: "sqlite",
				sql: "UPDATE %T SET pad = (SELECT pad FROM %T o WHERE o.id = 10001 - %T.id) WHERE id IN (5000, 5001)"},
			harm{name: "row missing", preset: "classic", layout: layout, sql: "DELETE FROM %T WHERE transactionid = 5000", found: -1},
			harm{name: "row missing", preset: "sbtest", layout: layout, sql: "DELETE FROM %T WHERE id = 5000", found: -1},
			harm{name: "row twice", preset: "sbtest", layout: layout, found: 1,
				sql: "INSERT INTO %L (id, k, c, pad) SELECT 7900, k, c, pad FROM %T WHERE id = 5000"},
			harm{name: "row extra in an empty period", preset: "classic", layout: layout, found: 1,
				sql: "INSERT INTO %L SELECT 7900, dateandtime, cashregisterid, customerid, productid, price FROM %T WHERE transactionid = 5000"},
			harm{name: "row in the place of another", preset: "sbtest", layout: layout, affected: 1, only: "mariadb",
				sql: "UPDATE %T a JOIN %T b SET a.pad = b.pad, a.c = b.c, a.k = b.k WHERE a.id = 5001 AND b.id = 5000"},
		)
	}
	all = slices.DeleteFunc(all, func(h harm) bool { return h.preset == "sbtest" && h.layout == Rolling })
	return append(all,
		harm{name: "row in another period", preset: "classic", layout: Rolling, only: "sqlite",
			sql: "INSERT INTO %L SELECT * FROM %T WHERE transactionid = 5000; DELETE FROM %T WHERE transactionid = 5000"},
		harm{name: "period dropped by somebody else", preset: "classic", layout: Rolling, only: "mariadb", affected: -1, found: -1000,
			sql: "ALTER TABLE purchases DROP PARTITION p0000000000000000000", says: "999 acknowledged rows lie in no period"},
	)
}

// stored returns the names of the tables that contain row 5000 and the last period.
func stored(t *testing.T, w *Insert) (holds, last string) {
	t.Helper()
	all := []string{w.tables[0].Name}
	if w.db.Info().Engine == "sqlite" {
		all = tables(t, w)
	}
	period := int64(5) // keys begin at 1
	if w.preset.axis == rolling.Time {
		period = 4
	}
	return all[min(period, int64(len(all)-1))], all[len(all)-1]
}

func TestVerifyCatches(t *testing.T) {
	const rows, batch = 6000, 1000
	for _, kind := range stores {
		db := testdb.Open(t, kind)
		for _, h := range harms() {
			if h.only != "" && h.only != kind {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%s/%s", kind, h.preset, h.layout, h.name), func(t *testing.T) {
				w := newTestInsert(t, db, InsertOptions{Preset: h.preset, Layout: h.layout, Rows: rows, Batch: batch, PeriodRows: 1000, TablePerWriter: ptr(false)})
				if _, err := w.Setup(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				run(t, w, config(w))
				if h.layout == Rolling {
					ok(t, w.tables[0].roller.create(t.Context(), noEvent)) // the run may have ended before that
				}
				before := mustHold(t, w, rows)
				holds, last := stored(t, w)
				sql, n := raw(t, db), int64(0)
				for q := range strings.SplitSeq(strings.NewReplacer("%T", holds, "%L", last).Replace(h.sql), "; ") {
					n = exec(t, sql, q)
				}
				if want := max(h.affected, 1); h.affected >= 0 && n != want {
					t.Fatalf("the harm was done to %d rows, want %d", n, want)
				}
				p := verify(t, w)
				if p.Checksum {
					t.Errorf("not seen: %+v", p)
				}
				if p.Expected != before.Expected {
					t.Errorf("%d rows expected, want %d", p.Expected, before.Expected)
				}
				if want := rows + h.found; h.affected >= 0 && p.Found != want {
					t.Errorf("%d rows found, want %d", p.Found, want)
				}
				if h.says != "" && !hasWarning(p, h.says) {
					t.Errorf("warnings %q, want %q", p.Warnings, h.says)
				}
				wrong := 0
				for _, at := range p.Periods {
					if !at.Checksum {
						wrong++
					}
				}
				if h.layout == Rolling && h.affected >= 0 && (wrong < 1 || wrong > 2) {
					t.Errorf("%d of %d periods are wrong", wrong, len(p.Periods))
				}
			})
		}
	}
}

// TestVerifyAfterDrops checks that rows of dropped periods aren't expected, but all others are.
func TestVerifyAfterDrops(t *testing.T) {
	for _, kind := range stores {
		for _, preset := range []string{"classic"} {
			t.Run(kind+"/"+preset, func(t *testing.T) {
				db := testdb.Open(t, kind)
				const rows = 10000
				w := prepared(t, db, InsertOptions{Preset: preset, Layout: Rolling, Rows: rows, Batch: 100, PeriodRows: 1000, KeepPeriods: 3, Writers: 2})
				slowly := config(w)
				slowly.Rate = rows // one second, in which periods are dropped
				run(t, w, slowly)
				before := verify(t, w)
				if !before.Checksum || before.Found == rows || len(before.Warnings) > 0 {
					t.Fatalf("%+v", before)
				}
				sql := raw(t, db)
				table := w.Tables()[0]
				key := table.PrimaryKey[0]
				in := table.Name
				if kind == "sqlite" {
					in = table.Name + "_p0000000000000009000"
				}
				n := exec(t, sql, fmt.Sprintf("DELETE FROM %s WHERE %s = 9500", in, key))
				if p := verify(t, w); n != 1 || p.Checksum || p.Expected != before.Expected || p.Found != before.Found-1 || p.DroppedRows != before.DroppedRows {
					t.Errorf("a row is missing: %+v; before: %+v", p, before)
				}
				column := table.Columns[len(table.Columns)-1].Name
				n = exec(t, sql, fmt.Sprintf("UPDATE %s SET %s = 1 WHERE %s = 9600", in, column, key))
				if p := verify(t, w); n != 1 || p.Checksum || p.Found != before.Found-1 {
					t.Errorf("a row is another: %+v", p)
				}
			})
		}
	}
}

// TestVerifyDoubt checks that a batch in doubt must exist completely or not at all, across any
// periods, for more batches than all of their combinations could be tested for.
func TestVerifyDoubt(t *testing.T) {
	for _, layout := range Layouts() {
		for _, preset := range []string{"classic", "timeseries", "sbtest"} {
			if preset == "sbtest" && layout == Rolling {
				continue
			}
			t.Run(layout+"/"+preset, func(t *testing.T) {
				db := testdb.Open(t, "sqlite")
				const rows, batch = 7000, 700 // every period ends within a batch
				w := prepared(t, db, InsertOptions{Preset: preset, Layout: layout, Rows: rows, Batch: batch, PeriodRows: 1000})
				run(t, w, config(w))
				table := w.tables[0]
				// All of them exist; two thirds are in doubt.
				var doubted int64
				for i := int64(0); i < rows/batch; i++ {
					if i%3 > 0 {
						s := span{i * batch, (i + 1) * batch}
						table.doubt = append(table.doubt, s)
						doubted += s.rows()
					}
				}
				p := mustHold(t, w, rows)
				if want := fmt.Sprintf("%[1]s rows were sent and not acknowledged; %[1]s of them are in the table", figure.Count(doubted)); !hasWarning(p, want) {
					t.Errorf("warnings %q", p.Warnings)
				}
				// One more was sent and not committed.
				table.next.Add(batch)
				table.doubt = append(table.doubt, span{rows, rows + batch})
				mustHold(t, w, rows)
				// One was never sent.
				table.next.Add(batch)
				table.unsent = append(table.unsent, span{rows + batch, rows + 2*batch})
				mustHold(t, w, rows)

				// One row of a batch in doubt is missing: row 999, the last of
				// its period. The batch continues in the next period.
				n := deleteRow(t, w, 999)
				p = verify(t, w)
				if n != 1 || p.Checksum || p.Found != rows-1 || p.Expected != rows-batch || !hasWarning(p, "1 unacknowledged batch is in the table in part") {
					t.Errorf("%d rows deleted; %+v", n, p)
				}
				for i, at := range p.Periods {
					if at.Checksum != (i > 1) { // the batch is rows 700 to 1399
						t.Errorf("period %s: %+v", at.Name, at)
					}
				}
			})
		}
	}
}

// deleteRow deletes a row from a SQLite database without rowmill's knowledge, and
// returns the number of rows deleted.
func deleteRow(t *testing.T, w *Insert, seq int64) (n int64) {
	t.Helper()
	table := w.tables[0]
	columns, row := table.Inserted(), fill(w.preset, table.stream, seq, 1).Columns
	at := len(columns) - 1
	if columns[0].Auto {
		at = 0
	}
	value := string(row[at].AppendText(nil, 0))
	if len(row[at].Ends) > 0 {
		value = "'" + value + "'"
	}
	db := raw(t, w.db)
	for _, in := range tables(t, w) {
		n += exec(t, db, fmt.Sprintf("DELETE FROM %s WHERE %s = %s", in, columns[at].Name, value))
	}
	return n
}

// tables returns the names of the SQLite tables that contain the rows.
func tables(t *testing.T, w *Insert) []string {
	t.Helper()
	table := w.Tables()[0]
	if !table.Rolling() {
		return []string{table.Name}
	}
	parts, err := w.db.Catalog().Partitions(t.Context(), table)
	ok(t, err)
	var out []string
	for _, p := range parts {
		out = append(out, table.Name+"_"+p.Name)
	}
	return out
}

func TestVerifyInterrupted(t *testing.T) {
	onStores(t, func(t *testing.T, db engine.DB) {
		w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Plain, Rows: 20000})
		run(t, w, config(w))
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		if _, err := w.Verify(ctx, func(int64) { interrupt() }); !errors.Is(err, context.Canceled) {
			t.Errorf("Verify returned %v", err)
		}
		mustHold(t, w, 20000)
	})
}
