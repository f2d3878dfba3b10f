package workload

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func filled(t testing.TB, db engine.DB, opt MixedOptions) *Mixed {
	t.Helper()
	m, err := NewMixed(db, opt)
	ok(t, err)
	var last int64
	if _, err := m.Fill(t.Context(), true, func(rows int64) { last = rows }); err != nil {
		t.Fatal(err)
	}
	if last != opt.Rows || m.Rows() != opt.Rows {
		t.Fatalf("filled with %d rows, %d were reported, want %d", m.Rows(), last, opt.Rows)
	}
	return m
}

// A counted client counts its operations.
type counted struct {
	bench.Client
	n *atomic.Int64
}

func (c counted) Do(ctx context.Context) error {
	c.n.Add(1)
	return c.Client.Do(ctx)
}

// measured runs an operation with two clients, or inserts beside selects. In the
// latter case it returns the number of selects.
func measured(t *testing.T, m *Mixed, operation string, turn int) (bench.Outcome, int64) {
	t.Helper()
	main := operation
	if operation == OpMixed {
		main = OpInsert
	}
	clients, err := m.Clients(main, turn)
	ok(t, err)
	var selects atomic.Int64
	cfg := bench.Config{Operation: main, Clients: 2, Batch: 1, MaxTime: 150 * time.Millisecond}
	if operation == OpMixed {
		readers, err := m.Clients(OpSelectIndex, turn)
		ok(t, err)
		cfg.Beside = []bench.Load{{Operation: OpSelectIndex, Clients: 2, Batch: 1,
			Client: func(ctx context.Context, n int) (bench.Client, error) {
				c, err := readers(ctx, n)
				return counted{c, &selects}, err
			}}}
	}
	done, err := bench.Run(t.Context(), clients, cfg)
	ok(t, err)
	return done, selects.Load()
}

// TestMixed checks that every operation finds the expected rows on every engine,
// also during inserts, and that the table contains the rows that were sent.
func TestMixed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "mariadb", "postgres"} {
		for _, preset := range MixedPresets() {
			t.Run(kind+"/"+preset, func(t *testing.T) {
				points := 0
				if preset == "sbtest" {
					points = 10
				}
				m := filled(t, testdb.Open(t, kind), MixedOptions{Preset: preset, Seed: 3, Rows: 7000, Points: points})
				for turn, operation := range []string{OpSelectPK, OpSelectIndex, OpInsert, OpMixed, OpPoints} {
					if operation == OpPoints && points == 0 {
						continue
					}
					done, selects := measured(t, m, operation, turn)
					if done.Err != nil || done.Stopped != bench.StoppedTime || done.Rows == 0 {
						t.Fatalf("%s: %+v", operation, done)
					}
					if operation == OpMixed && selects == 0 {
						t.Error("no selects beside the inserts")
					}
				}
				proof, err := m.Verify(t.Context(), func(int64) {})
				if err != nil || !proof.Checksum || proof.Found != m.Rows() || m.Rows() <= 7000 {
					t.Errorf("%+v, %v, of %d rows", proof, err, m.Rows())
				}
			})
		}
	}
}

// TestMixedFindsWhatIsWrong checks that a select that finds too few or too many rows fails.
func TestMixedFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		preset, break1, operation, says string
	}{
		"row gone, by key":        {"sbtest", "DELETE FROM sbtest1 WHERE id > 100", OpSelectPK, "select-pk in sbtest1: 0 rows returned for [id] = ["},
		"row gone, by index":      {"sbtest", "DELETE FROM sbtest1 WHERE id > 100", OpSelectIndex, "select-index in sbtest1: 0 rows returned for [k] = ["},
		"row gone, of points":     {"sbtest", "DELETE FROM sbtest1 WHERE id > 1990", OpPoints, "points in sbtest1: "},
		"row twice, of points":    {"sbtest", "INSERT INTO sbtest1 SELECT id + 100000, k, c, pad FROM sbtest1", OpPoints, "points in sbtest1: "},
		"row gone, of purchases":  {"classic", "DELETE FROM purchases WHERE transactionid > 100", OpSelectIndex, "want 1"},
		"row twice, of purchases": {"classic", "INSERT INTO purchases SELECT transactionid + 100000, dateandtime, cashregisterid, customerid, productid, price FROM purchases", OpSelectIndex, "2 rows returned for [price customerid]"},
	} {
		t.Run(name, func(t *testing.T) {
			db := testdb.Open(t, "sqlite")
			opt := MixedOptions{Preset: c.preset, Rows: 2000}
			if c.preset == "sbtest" {
				opt.Points = 10
			}
			m := filled(t, db, opt)
			exec(t, raw(t, db), c.break1)
			done, _ := measured(t, m, c.operation, 1)
			if done.Stopped != bench.StoppedFailed || done.Err == nil || !strings.Contains(done.Err.Error(), c.says) {
				t.Errorf("stopped %s, %v; want %q", done.Stopped, done.Err, c.says)
			}
		})
	}
}

// BenchmarkMixed measures the client's own work and its allocations per
// operation, on an engine that only counts. Use -cpu 1 for the rate of one core.
func BenchmarkMixed(b *testing.B) {
	for _, c := range []struct {
		operation string
		points    int
	}{{OpInsert, 0}, {OpSelectPK, 0}, {OpSelectIndex, 0}, {OpPoints, 10}, {OpPoints, 100}} {
		b.Run(fmt.Sprintf("%s-%d", c.operation, c.points), func(b *testing.B) {
			b.ReportAllocs()
			m := filled(b, testdb.Open(b, "null"), MixedOptions{Preset: "sbtest", Rows: 100_000, Points: c.points})
			clients, err := m.Clients(c.operation, 1)
			ok(b, err)
			client, err := clients(b.Context(), 0)
			ok(b, err)
			ctx := b.Context()
			b.ResetTimer()
			for range b.N {
				client.Prepare(1)
				ok(b, client.Do(ctx))
			}
		})
	}
}
