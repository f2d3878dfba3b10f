package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestSealOfAnotherFunction: a seal made by an earlier release with another
// function of the server is compared with that function, and recorded again with
// the current one; a late row breaks it. On a server that lacks the function
// nothing is compared, archived or dropped, and the error has a hint.
func TestSealOfAnotherFunction(t *testing.T) {
	on(t, []string{"mariadb", "mysql"}, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
			d.Seal.After = span(time.Hour)
			d.Seal.Archive = filepath.Join(t.TempDir(), "archive")
		}), at(0.5))
		w.insert(at(0.5), 1, 2, 3)
		w.now = at(1.2)
		w.keep()
		w.now = at(2.2)
		part, err := w.find(t.Context(), rolling.Period{From: at(0), To: at(1)})
		must(t, err)
		if _, err := w.seal(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		known := func() *state.Period {
			t.Helper()
			k, err := w.sealed(t.Context(), part.Period)
			if err != nil || k == nil {
				t.Fatalf("what is known of the period: %v, %v", k, err)
			}
			return k
		}
		seal := *known()
		if engine.HashName(seal.Checksum) == "" {
			t.Fatalf("a new seal has the checksum %s, which doesn't say what it was made with", seal.Checksum)
		}
		// As an earlier release recorded it: without a name.
		old := seal
		hash, err := db.Words().RowHashLike("17", w.columns())
		lacks := errors.Is(err, engine.ErrUnsupported)
		if lacks {
			old.Checksum = "17"
		} else if err == nil {
			err = db.SQL().QueryRowContext(t.Context(), "SELECT "+hash+" FROM "+db.Words().From(w.Table.Table, part)).Scan(&old.Checksum)
		}
		if err != nil && !lacks {
			t.Fatal(err)
		}
		put := func() {
			t.Helper()
			must(t, w.inTx(t.Context(), func(tx *sql.Tx) error { return w.State.Put(t.Context(), tx, old) }))
		}
		put()
		if lacks {
			for name, task := range map[string]func(context.Context, rolling.Partition, *state.Period) (string, error){
				"archive": w.archive, "drop": w.drop,
				"check": func(ctx context.Context, p rolling.Partition, k *state.Period) (string, error) {
					return w.check(ctx, p, k, w.now)
				},
			} {
				_, err := task(t.Context(), part, known())
				var hint *engine.HintError
				if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), "MD5()") || !errors.As(err, &hint) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if k := known(); k.State != state.Sealed || k.Checksum != "17" || w.count() != 3 {
				t.Errorf("afterwards the period is %+v, of %d rows", k, w.count())
			}
			return
		}
		if _, err := w.check(t.Context(), part, known(), w.now); err != nil {
			t.Fatal(err)
		}
		if k := known(); k.Checksum != seal.Checksum || k.Checked != w.now {
			t.Errorf("checked: %+v, want the checksum %s", k, seal.Checksum)
		}
		put()
		if _, err := w.archive(t.Context(), part, known()); err != nil {
			t.Fatal(err)
		}
		if k := known(); k.Checksum != seal.Checksum || k.State != state.Archived {
			t.Errorf("archived: %+v, want the checksum %s", k, seal.Checksum)
		}
		put()
		w.insert(at(0.7), 4)
		if _, err := w.check(t.Context(), part, known(), w.now); err != nil {
			t.Fatal(err)
		}
		if k, err := w.sealed(t.Context(), part.Period); err != nil || k != nil {
			t.Errorf("a late row has left the seal: %+v, %v", k, err)
		}
	})
}

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

// TestRestoreSealedByOtherSettings: a seal made by a session with other settings is
// compared under those. A seal that no settings explain is rejected with a hint,
// and the restoration then relies on the file.
func TestRestoreSealedByOtherSettings(t *testing.T) {
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
	part, err := w.find(t.Context(), period)
	must(t, err)
	known, err := w.sealed(t.Context(), period)
	if err != nil || known == nil || known.Archive == "" {
		t.Fatalf("the period is %+v, %v", known, err)
	}
	// As a session with these settings computes it.
	hash := db.Words().RowHash(w.columns())
	sealedBy := func(settings ...string) string {
		t.Helper()
		var sum string
		err := w.inTx(t.Context(), func(tx *sql.Tx) error {
			for _, q := range settings {
				if _, err := tx.ExecContext(t.Context(), "SET LOCAL "+q); err != nil {
					return err
				}
			}
			return tx.QueryRowContext(t.Context(), "SELECT "+hash+" FROM "+db.Words().From(w.Table.Table, part)).Scan(&sum)
		})
		must(t, err)
		if len(settings) > 0 && sum == known.Checksum {
			t.Fatalf("%q give the checksum that there is already", settings)
		}
		return sum
	}
	seals := []string{sealedBy(), sealedBy("DateStyle = 'SQL, DMY'"), sealedBy("extra_float_digits = 0"), sealedBy("DateStyle = 'German'", "extra_float_digits = 0", "bytea_output = 'escape'")}
	must(t, enginetest.Try(t, db, engine.Detach{Table: w.Table.Table, Part: part, Into: "gone"}))
	restore := func(into, seal string, without bool) error {
		t.Helper()
		k := *known
		k.Checksum, k.State = seal, state.Dropped
		must(t, w.inTx(t.Context(), func(tx *sql.Tx) error { return w.State.Put(t.Context(), tx, k) }))
		r, err := w.PlanRestore(t.Context(), known.Archive, into)
		must(t, err)
		r.WithoutSeal = without
		return r.Run(context.WithoutCancel(t.Context()), nil, nil)
	}
	for i, seal := range seals {
		if err := restore("back"+string(rune('a'+i)), seal, false); err != nil {
			t.Errorf("seal %d: %v", i, err)
		}
	}
	// The cost is reported before the rows are read under other settings.
	var said []string
	say := w.Say
	w.Say = func(e Event) {
		said = append(said, e.Detail)
		say(e)
	}
	var hint *engine.HintError
	if err := restore("backx", "17", false); err == nil || !errors.As(err, &hint) || !strings.Contains(hint.Error(), "17") {
		t.Errorf("a seal that nothing explains: %v", err)
	}
	all := fmt.Sprint(len(db.Words().(engine.RenderWords).Renderings(w.columns())))
	cost := slices.IndexFunc(said, func(s string) bool { return strings.Contains(s, "up to "+all+" times") })
	if tries := slices.IndexFunc(said, func(s string) bool { return strings.Contains(s, "1 of "+all+": ") }); cost < 0 || tries < cost {
		t.Errorf("no cost is named before the first try: %q", said)
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
