package maintain

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestSealOfAnotherFunction: a seal made by an earlier release with another
// function of the server is compared with that function, and recorded again with
// the current one; a late row breaks it. On a server that lacks the function
// nothing is compared, archived or dropped, and the error has a hint.
func TestSealOfAnotherFunction(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := testdb.Open(t, kind).(engine.Keeper)
			w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
				d.Seal.After = span(time.Hour)
				d.Seal.Archive = filepath.Join(t.TempDir(), "archive")
			}), at(0.5))
			w.insert(at(0.5), 1, 2, 3)
			w.now = at(1.2)
			w.keep()
			w.now = at(2.2)
			part, err := w.find(t.Context(), rolling.Period{From: at(0), To: at(1)})
			if err != nil {
				t.Fatal(err)
			}
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
				if err := w.inTx(t.Context(), func(tx *sql.Tx) error { return w.State.Put(t.Context(), tx, old) }); err != nil {
					t.Fatal(err)
				}
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
}
