package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

// A waiting client executes operations of 1 ms, each once it is permitted.
type waiting struct {
	actor
	await func(ctx context.Context) error
}

func (w *waiting) Await(ctx context.Context) error { return w.await(ctx) }

// loaded runs a script with another load beside it, and returns the intervals.
func loaded(t *testing.T, cfg Config, beside ...Load) (Outcome, []result.Interval) {
	t.Helper()
	var ivs []result.Interval
	cfg.Operation, cfg.Beside = "insert", beside
	cfg.Observe = func(iv result.Interval) error { ivs = append(ivs, iv); return nil }
	o, err := Run(t.Context(), &script{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o, ivs
}

func besideOf(ivs []result.Interval, op string) (ops int64, sum result.Tally) {
	for _, iv := range ivs {
		t := iv.Beside[op]
		ops += iv.Latency[op].Count
		sum.Rows += t.Rows
		sum.Errors += t.Errors
		sum.Retries += t.Retries
		sum.Late += t.Late
		sum.Backlog = t.Backlog
	}
	return ops, sum
}

// TestBeside checks that loads beside the main one have separate figures and end with it.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries, paced := &script{}, &script{}
		o, ivs := loaded(t, Config{Clients: 2, Batch: 10, Rows: 20000, Interval: 100 * time.Millisecond},
			Load{Operation: "query", Clients: 3, Batch: 1, Client: queries.Client},
			Load{Operation: "delete", Clients: 1, Batch: 5, Rate: 500, Client: paced.Client},
			Load{Operation: "short", Clients: 1, Batch: 4, Rows: 10, Client: (&script{}).Client})
		if o.Stopped != StoppedRows || o.Rows != 20000 || o.BrokenOff != 0 {
			t.Fatalf("%+v", o)
		}
		// 1000 operations of 1 ms by each main client take one second.
		if ops, sum := besideOf(ivs, "query"); ops < 2990 || ops > 3010 || sum.Rows != ops || ops != queries.ops.Load() {
			t.Errorf("%d queries, %+v; %d were done", ops, sum, queries.ops.Load())
		}
		if ops, sum := besideOf(ivs, "delete"); ops < 99 || ops > 101 || sum.Rows != 5*ops || sum.Backlog != 0 {
			t.Errorf("%d deletes, %+v", ops, sum)
		}
		if ops, sum := besideOf(ivs, "short"); ops != 3 || sum.Rows != 10 {
			t.Errorf("%d operations, %+v, want 3 of 10 rows", ops, sum)
		}
		for _, iv := range ivs {
			if _, ok := iv.Response["delete"]; !ok || len(iv.Response) != 1 {
				t.Fatalf("response of %d operations, want of delete alone", len(iv.Response))
			}
		}
		rec := result.Record{Run: result.Run{Load: result.Load{Rows: 20000}}, Intervals: ivs}
		if d := rec.Summary().Beside["query"]; d.Operations != queries.ops.Load() || d.PerSecond < 2900 || d.PerSecond > 3100 {
			t.Errorf("summary %+v", d)
		}
	})
}

// TestBesideFails checks that a failure of a load beside the main one ends the run.
func TestBesideFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &script{do: func(context.Context, *actor) error { return errors.New("no such index") }}
		o, _ := loaded(t, Config{Clients: 1, Batch: 1, MaxTime: time.Hour}, Load{Operation: "query", Clients: 2, Batch: 1, Client: bad.Client})
		if o.Stopped != StoppedFailed || o.Err == nil || o.Err.Error() != "no such index" || o.Elapsed > time.Second {
			t.Errorf("%+v", o)
		}
	})
}

// TestWaiter checks that waiting is not service time, that it ends with the run,
// and that its error fails the run.
func TestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var awaited atomic.Int64
		slow := func(context.Context, int) (Client, error) {
			return &waiting{actor: actor{s: &script{}}, await: func(ctx context.Context) error {
				awaited.Add(1)
				if engine.Sleep(ctx, 100*time.Millisecond) != nil {
					return ctx.Err()
				}
				return nil
			}}, nil
		}
		o, ivs := loaded(t, Config{Clients: 1, Batch: 1, MaxTime: 950 * time.Millisecond}, Load{Operation: "delete", Clients: 1, Batch: 1, Client: slow})
		if o.Stopped != StoppedTime || o.Err != nil || o.Elapsed > time.Second {
			t.Fatalf("%+v", o)
		}
		rec := result.Record{Intervals: ivs}
		if s := rec.Summary(); s.LatencyUS["delete"].Max > 2000 || s.Beside["delete"].Operations != 9 || awaited.Load() != 10 {
			t.Errorf("%+v after %d waits, want 9 of 1 ms after 10", s.LatencyUS["delete"], awaited.Load())
		}

		broken := func(context.Context, int) (Client, error) {
			return &waiting{actor: actor{s: &script{}}, await: func(context.Context) error { return errors.New("out of luck") }}, nil
		}
		o, _ = loaded(t, Config{Clients: 1, Batch: 1, MaxTime: time.Hour}, Load{Operation: "delete", Clients: 1, Batch: 1, Client: broken})
		if o.Stopped != StoppedFailed || o.Err == nil || o.Err.Error() != "out of luck" {
			t.Errorf("%+v", o)
		}
	})
}
