package maintain

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestRestoreSealedByOtherSettings: a seal that differs, as one made by a session with
// other settings does, is rejected with a hint, and the restoration then relies on the
// file.
func TestRestoreSealedByOtherSettings(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "postgres").(engine.Keeper)
	w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
		d.Seal.Archive = filepath.Join(t.TempDir(), "archive")
	}), at(0.5))
	w.insert(at(0.5), 1, 2, 3)
	w.now = at(4.2)
	w.keep()
	period := rolling.Period{From: at(0), To: at(1)}
	part, err := w.find(t.Context(), period)
	must(t, err)
	known, err := w.sealed(t.Context(), period)
	if err != nil || known == nil || known.Archive == "" {
		t.Fatalf("the period is %+v, %v", known, err)
	}
	must(t, db.Try(t.Context(), engine.Detach{Table: w.Table.Table, Part: part, Into: "gone"}))
	for i, c := range []struct {
		seal    string
		more    int64 // rows than there are
		without bool
		want    string
	}{
		{known.Checksum, 0, false, ""},
		{"17", 0, false, "its seal has 17"},
		{"17", 0, true, ""},
		{"17", 1, true, "4 when it was sealed"},
	} {
		k := *known
		k.Checksum, k.Rows, k.State = c.seal, k.Rows+c.more, state.Dropped
		must(t, w.inTx(t.Context(), func(tx *sql.Tx) error { return w.State.Put(t.Context(), tx, k) }))
		r, err := w.PlanRestore(t.Context(), known.Archive, fmt.Sprint("back", i))
		must(t, err)
		r.WithoutSeal = c.without
		err = r.Run(t.Context(), nil, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("seal %+v: %v", c, err)
		}
		if hint := new(engine.HintError); c.want != "" && !c.without && (!errors.As(err, &hint) || !strings.Contains(hint.Hint, "--without-seal")) {
			t.Errorf("seal %+v: no hint: %v", c, err)
		}
	}
}
