package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// A batch is in the ledger only together with its rows. A batch that was interrupted
// before its commit has left neither, and is sent again. A committed batch is rejected
// the second time and changes nothing, even if the key would accept its rows.
func TestTrapBatchTwice(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		ctx := context.Background()
		f := open(t, kind, false, few(t))
		batch := state.Batch{Table: "readings", ID: "file.csv 0-100 5bd3", Lower: start + hour, Upper: start + hour, Counts: state.Counts{Sent: 1, Inserted: 1}}
		send := func(seq int, end func(x state.Exec) error) error {
			t.Helper()
			tx := f.begin()
			f.bypass(tx, row{1, "a", start + hour, seq, 1.0, 1, "x"})
			if err := state.Note(ctx, f.st, tx, batch); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if err := end(tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}
		check := func(when string, rows int64, noted bool) {
			t.Helper()
			var n int64
			must(t, f.db.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM readings").Scan(&n))
			b, err := f.st.Noted(ctx, f.db.SQL(), "readings", batch.ID)
			if err != nil {
				t.Fatal(err)
			}
			if n != rows || (b != nil) != noted {
				t.Errorf("%s: %d rows, noted %t; want %d, %t", when, n, b != nil, rows, noted)
			}
			if b != nil && fmt.Sprint(*b) != fmt.Sprint(batch) {
				t.Errorf("%s: the ledger has %v, want %v", when, *b, batch)
			}
		}
		broken := errors.New("the loader was killed")
		if err := send(1, func(state.Exec) error { return broken }); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		check("broken off", 0, false)
		must(t, send(1, func(state.Exec) error { return nil }))
		check("sent again", 1, true)
		if err := send(2, func(state.Exec) error { return nil }); !errors.Is(err, engine.ErrDuplicateKey) {
			t.Errorf("a batch that is in the ledger: %v", err)
		}
		check("sent twice", 1, true)
	})
}
