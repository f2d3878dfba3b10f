package state_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// onStores runs a test on SQLite and servers.
func onStores(t *testing.T, test func(t *testing.T, db engine.Keeper, st *state.Store)) {
	testdb.OnKinds(t, []string{"sqlite", "mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		db := testdb.Open(t, kind).(engine.Keeper)
		st := state.New(db)
		if err := st.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, db, st)
	})
}

// A batch's line of the ledger commits with the notes for roll-ups. A batch that was
// interrupted before its commit has left neither, and is sent again. A committed batch
// is refused the second time and changes nothing.
func TestTrapBatchTwice(t *testing.T) {
	onStores(t, func(t *testing.T, db engine.Keeper, st *state.Store) {
		l, err := db.Loader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		batch := state.Batch{Table: "readings", ID: "file.csv 0-100 5bd3", Lower: 5, Upper: 7, Counts: state.Counts{Sent: 1, Inserted: 1}}
		send := func(end func() error) error {
			t.Helper()
			err := l.Begin(t.Context())
			for _, r := range batch.Rows(true) {
				if err == nil {
					_, err = l.Insert(t.Context(), r.Table, r.Batch, 0, r.Batch.Rows())
				}
			}
			if err == nil {
				err = end()
			}
			if err != nil {
				return errors.Join(err, l.Reset(t.Context()))
			}
			return l.Commit(t.Context())
		}
		check := func(when string, notes int) {
			t.Helper()
			var n int
			if err := db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM rowmill_touched WHERE lower_pos = 5 AND upper_pos = 7").Scan(&n); err != nil {
				t.Fatal(err)
			}
			b, err := st.Noted(t.Context(), st.DB(), "readings", batch.ID)
			if err != nil || n != notes || (b != nil) != (notes > 0) || b != nil && b.Counts != batch.Counts {
				t.Errorf("%s: %d notes, want %d; the ledger has %+v, error %v", when, n, notes, b, err)
			}
		}
		broken := errors.New("the loader was killed")
		if err := send(func() error { return broken }); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		check("broken off", 0)
		if err := send(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		check("sent again", 1)
		if err := send(func() error { return nil }); !errors.Is(err, engine.ErrDuplicateKey) {
			t.Errorf("a batch that is in the ledger: %v", err)
		}
		check("sent twice", 1)
	})
}

// The recorded position of a spool never goes back, as it could after a machine was
// cloned with its spool.
func TestTrapClonedSpool(t *testing.T) {
	onStores(t, func(t *testing.T, _ engine.Keeper, st *state.Store) {
		s := &state.Source{Table: "readings", Key: "00000000000000aa", Path: "/spool", Kind: state.SpoolSource, Loaded: 100}
		if err := st.PutSource(t.Context(), st.DB(), s); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			to, want int64
			ok       bool
		}{{50, 100, false}, {100, 100, true}, {150, 150, true}} {
			clone := *s
			clone.Loaded = test.to
			err := st.Acknowledge(t.Context(), &clone, nil)
			if test.ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "the database has a later position") {
				t.Errorf("to %d: %v", test.to, err)
			}
			known, err := st.Sources(t.Context(), "readings", state.SpoolSource, "")
			if err != nil || len(known) != 1 || known[0].Loaded != test.want {
				t.Errorf("to %d: %+v, %v", test.to, known, err)
			}
		}
	})
}
