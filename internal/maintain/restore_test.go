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

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

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
	must(t, db.Try(t.Context(), engine.Detach{Table: w.Table.Table, Part: part, Into: "gone"}))
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
