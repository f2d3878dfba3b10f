package query

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/merge"
)

// TestTrapRefilledWhileRead runs queries while a partition is emptied, or dropped and created, and
// filled again, each time in one transaction: PostgreSQL's snapshots don't have the rows of such a
// partition.
func TestTrapRefilledWhileRead(t *testing.T) {
	db := openReader(t, "postgres")
	do(t, db, "CREATE TABLE cq (k int, v int) PARTITION BY LIST (k)")
	for _, k := range []string{"0", "1", "2", "3"} {
		do(t, db, "CREATE TABLE cq_"+k+" PARTITION OF cq FOR VALUES IN ("+k+")", "INSERT INTO cq SELECT "+k+", g FROM generate_series(1, 100) g")
	}
	r := New(db, Options{Parallel: 2, Always: true})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	_, st := sessionOf(within(t), t, db)
	ctx, stop := context.WithCancel(within(t))
	refilled := make(chan error, 1)
	rounds := 0
	go func() {
		for ctx.Err() == nil {
			for _, q := range []string{"TRUNCATE cq_1", "DROP TABLE cq_2; CREATE TABLE cq_2 PARTITION OF cq FOR VALUES IN (2)"} {
				_, err := db.SQL().ExecContext(context.WithoutCancel(ctx), "BEGIN; SET LOCAL lock_timeout = 0; "+q+"; INSERT INTO cq SELECT "+map[bool]string{true: "1", false: "2"}[q == "TRUNCATE cq_1"]+
					", g FROM generate_series(1, 100) g; COMMIT")
				if err != nil {
					refilled <- err
					return
				}
				rounds++
				_ = engine.Sleep(ctx, 15*time.Millisecond)
			}
		}
		refilled <- nil
	}()
	split := 0
	for n := 0; (n < 25 || split == 0 && n < 500) && !t.Failed(); n++ {
		a := newAnswer()
		p, err := r.Plan(within(t), "SELECT count(*), sum(k) FROM cq", st)
		if err == nil {
			var report *Report
			report, err = r.Run(within(t), p, a)
			if p.Whole == "" && report.Rerun == "" {
				split++
			}
		}
		// The catalog is read by several statements: a partition may be gone in the meantime.
		if err != nil && !errors.Is(err, engine.ErrNoTable) {
			t.Errorf("query %d: %v", n, err)
		}
		if err == nil {
			values := make([][]byte, 2)
			if merge.NextRow(a.rows[0], values); string(values[0]) != "400" || string(values[1]) != "600" {
				t.Errorf("query %d: %s rows, and not 400", n, values[0])
			}
		}
	}
	stop()
	if err := <-refilled; err != nil {
		t.Error(err)
	}
	if rounds < 2 || split == 0 {
		t.Errorf("%d changes, %d queries in pieces", rounds, split)
	}
	t.Logf("%d changes, %d queries in pieces", rounds, split)
}
