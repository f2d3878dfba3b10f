package workload_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload"
)

// An asking asks one connection, and changes the rows of the answer.
type asking struct {
	db     engine.Keeper
	change func([]string) []string
}

func (a asking) Ask(ctx context.Context, q string) ([]string, error) {
	r := a.db.(engine.Reader)
	s, err := r.ReadSession(ctx, nil)
	if err != nil {
		return nil, err
	}
	var rows []string
	err = s.Text(ctx, q, nil, func(values [][]byte) error {
		rows = append(rows, string(values[0])+"\t"+string(values[1]))
		return nil
	})
	return a.change(rows), errors.Join(err, s.Close())
}

func (asking) Close() error { return nil }

// TestScan checks the answers of every kind of server, and that one which differs from them fails
// the run.
func TestScan(t *testing.T) {
	testdb.OnKinds(t, []string{"sqlite", "mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		db := testdb.Open(t, kind).(engine.Keeper)
		w, err := workload.NewScan(db, workload.ScanOptions{Seed: 3, Rows: 1003, Partitions: 7})
		if err != nil {
			t.Fatal(err)
		}
		schema, err := w.Fill(t.Context(), false, func(int64) {})
		if err != nil || len(schema) == 0 {
			t.Fatal(schema, err)
		}
		if _, err := w.Fill(t.Context(), false, func(int64) {}); !errors.Is(err, engine.ErrTableExists) {
			t.Errorf("an existing table: %v", err)
		}
		if _, err := w.Fill(t.Context(), true, func(int64) {}); err != nil {
			t.Errorf("drop and fill: %v", err)
		}
		for name, c := range map[string]struct {
			change func([]string) []string
			want   string
		}{
			"as it is":       {func(rows []string) []string { return rows }, ""},
			"a row less":     {func(rows []string) []string { return rows[1:] }, `wrong: [], want ["0\t`},
			"a row too much": {func(rows []string) []string { return append(rows, "9\t1") }, `"9\t1"], want`},
			"another digit":  {func(rows []string) []string { rows[0] += "0"; return rows }, `0"], want ["0\t`},
		} {
			run := w.Run(asking{db, c.change}, []int{1, 3, 7}, 2)
			out, err := bench.Run(t.Context(), run, bench.Config{Operation: workload.OpScan, Clients: 1, Batch: 1, Rows: int64(run.Queries())})
			if err != nil {
				t.Fatal(err)
			}
			took := run.Took()
			switch {
			case c.want == "" && (out.Err != nil || len(took) != 6 || took[5].Partitions != 7 || took[5].Seconds <= 0 || took[5].Elapsed <= took[0].Elapsed):
				t.Errorf("%s: %v, %+v", name, out.Err, took)
			case c.want != "" && (out.Err == nil || !strings.Contains(out.Err.Error(), c.want) || !strings.Contains(out.Err.Error(), "the sums over 1 partitions are wrong")):
				t.Errorf("%s: %v", name, out.Err)
			}
		}
	})
}

func TestScanOptions(t *testing.T) {
	db := testdb.Open(t, "sqlite")
	for _, o := range []workload.ScanOptions{{Rows: 100}, {Rows: 100, Partitions: 11}, {Rows: 1e9, Partitions: 5}, {Rows: 1e6, Partitions: 2000}} {
		if _, err := workload.NewScan(db, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := workload.NewScan(testdb.Open(t, "null"), workload.ScanOptions{Rows: 100, Partitions: 1}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("an engine that stores nothing: %v", err)
	}
}
