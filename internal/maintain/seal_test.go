package maintain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// counting declares a level of ten minutes that counts rows.
func counting(t *testing.T) func(*rolling.Declaration) {
	return func(d *rolling.Declaration) {
		d.Seal.After = span(time.Hour)
		d.Rollups = []rolling.Rollup{{Name: "readings_10m", Every: grid(t, "10m"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
	}
}

// differing returns the buckets below a position, in minutes of the day, in which
// the roll-up or its live view has a wrong number of rows.
func (w *world) differing(below int64) (out []string) {
	w.t.Helper()
	words := w.DB.Words()
	counts := func(from, column, n string) map[int64]int64 {
		rows := map[int64]int64{}
		q := fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s < %s", words.Position(w.Table.Table, column), n, from, column, words.Literal(w.Table.Table, below))
		found, err := w.DB.SQL().QueryContext(w.t.Context(), q)
		must(w.t, err)
		defer found.Close()
		for found.Next() {
			var pos, n int64
			must(w.t, found.Scan(&pos, &n))
			rows[(pos-at(0))/600e6*10] += n
		}
		must(w.t, found.Err())
		return rows
	}
	want := counts("readings", "ts", "1")
	for _, from := range []string{"readings_10m", "readings_10m_live"} {
		have := counts(from, "bucket", "n")
		for bucket, n := range want {
			if have[bucket] != n {
				out = append(out, fmt.Sprintf("minute %d: %d rows, %s has %d", bucket, n, from, have[bucket]))
			}
		}
	}
	return out
}

// TestTrapLateBesideRowmill: late rows of a writer other than rowmill, which leaves
// no note, are in the roll-up and its live view within the bound that status
// reports, long before their period is sealed.
func TestTrapLateBesideRowmill(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		const second = 1 / 3600.
		w := applied(t, db, declare(t, db, counting(t)), at(0.1))
		w.insert(w.now, 1, 2)
		w.keep()
		sensor := 10
		for _, late := range []float64{5, 60, 1200} {
			end := at(1.0/6 + late*second/1000) // the end of the first bucket
			w.now = end + 1e6
			w.keep()
			w.now = at(1.0/6 + late*second)
			sensor++
			w.insert(at(0.15), sensor)
			if w.differing(at(1.0/6)) == nil {
				t.Errorf("%v s late: the row was noted", late)
			}
			// A pass every 10 s, or half the lateness of the row if that is longer.
			for w.now < at(1.0/6+max(8*late, 10)*second)+20e6 {
				w.now += int64(max(10, late/2) * 1e6)
				w.keep()
			}
			if wrong := w.differing(at(1.0 / 6)); wrong != nil {
				t.Errorf("%v s late, and %v after the end of the bucket: %v", late, time.Duration(w.now-at(1.0/6))*time.Microsecond, wrong)
			}
		}
		if s, err := w.Status(t.Context()); err != nil || s.Late == "" {
			t.Errorf("status tells no bound: %+v, %v", s, err)
		}
	})
}

// TestTrapClockSetBack: while a clock ran ahead, buckets were computed and periods
// sealed that receive rows once it is set right. These rows are found.
func TestTrapClockSetBack(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, counting(t)), at(0.1))
		sensor := 0
		step := func(to int64) {
			t.Helper()
			w.now = to
			w.keep()
			sensor++
			w.insert(w.now, sensor)
		}
		for m := 6.0; m < 60; m += 5 {
			step(at(m / 60))
		}
		step(at(5.5)) // hours ahead: earlier buckets are computed, earlier periods sealed
		for m := 61.0; m < 240; m += 7 {
			step(at(m / 60)) // the clock is right again
		}
		w.now = at(4.2)
		w.keep()
		if wrong := w.differing(at(3.9)); wrong != nil {
			t.Errorf("%d buckets differ: %v", len(wrong), wrong)
		}
	})
}

// TestRestoreWithoutSeal: a seal that the restored rows don't have is rejected with a hint,
// and the restoration then relies on the file.
func TestRestoreWithoutSeal(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "postgres").(engine.Keeper)
	w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
		d.Definition = defined(t, "CREATE TABLE readings (sensor INT NOT NULL, ts TIMESTAMP NOT NULL, value DOUBLE PRECISION, raw BYTEA DEFAULT '\\x00ff', PRIMARY KEY (sensor, ts))")
		d.Seal.Archive = filepath.Join(t.TempDir(), "archive")
	}), at(0.5))
	w.insert(at(0.5), 1, 2, 3)
	exec(t, db.SQL(), "UPDATE readings SET value = sensor::float8 / 7")
	w.now = at(4.2)
	w.keep()
	period := rolling.Period{From: at(0), To: at(1)}
	part, err := w.Find(t.Context(), period)
	must(t, err)
	known, err := w.SealRecord(t.Context(), period)
	if err != nil || known == nil || known.Archive == "" {
		t.Fatalf("the period is %+v, %v", known, err)
	}
	must(t, enginetest.Try(t, db, engine.Detach{Table: w.Table.Table, Part: part, Into: "gone"}))
	restore := func(into, seal string, without bool) error {
		t.Helper()
		k := *known
		k.Checksum, k.State = seal, state.Dropped
		must(t, w.InTx(t.Context(), func(tx *sql.Tx) error { return w.State.Put(t.Context(), tx, k) }))
		r, err := w.PlanRestore(t.Context(), known.Archive, into)
		must(t, err)
		r.WithoutSeal = without
		return r.Run(context.WithoutCancel(t.Context()), nil, nil)
	}
	if err := restore("backa", known.Checksum, false); err != nil {
		t.Errorf("with its seal: %v", err)
	}
	var hint *engine.HintError
	if err := restore("backx", "17", false); err == nil || !errors.As(err, &hint) || !strings.Contains(hint.Error(), "17") {
		t.Errorf("another seal: %v", err)
	}
	if err := restore("backx", "17", true); err != nil {
		t.Errorf("without the seal: %v", err)
	}
	more := *known
	more.Rows++
	known = &more
	if err := restore("backy", "17", true); err == nil || !strings.Contains(err.Error(), "4 when it was sealed") {
		t.Errorf("a seal of another number of rows: %v", err)
	}
}

// TestPutBack has old rows in a table of their own, as the kill of a server between two statements
// of an exchange leaves them: they are back in the table once the rebuild is abandoned, and newer
// ones stay.
func TestPutBack(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0))
		w.insert(at(0), 1, 2)
		must(t, w.CreateCopy(t.Context(), "rowmill_old_x"))
		from := db.Words().From(w.Table.Table, w.partitions()[0])
		w.exec("INSERT INTO rowmill_old_x SELECT * FROM " + from)
		w.exec("DELETE FROM " + from)
		w.exec("INSERT INTO " + from + " SELECT sensor, ts, 99 FROM rowmill_old_x WHERE sensor = 1")
		must(t, w.PutBack(t.Context(), "rowmill_old_x"))
		w.wantCount(2)
		if sum, left := w.number("SELECT SUM(value) FROM "+from), w.number("SELECT COUNT(*) FROM rowmill_old_x"); sum != 99+14 || left != 0 {
			t.Errorf("the sum is %d, and %d rows are left", sum, left)
		}
	})
}
