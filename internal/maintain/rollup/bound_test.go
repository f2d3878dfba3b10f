package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/rolling"
)

// crowd returns the rows of a bucket of many groups, with several rows each.
func crowd(groups, each int) (m model) {
	for i := range groups * each {
		note := any(fmt.Sprint("note ", i%3))
		if i%5 == 0 {
			note = nil
		}
		m = append(m, row{i % groups, "a", start + hour + int64(i%600)*second, i, float64(i%37) - 3, i % 11, note})
	}
	return m
}

// Whatever the size of a bucket, no transaction of a refresh reads or replaces more
// rows than its bound, and none spans two statements that read raw rows: partitions
// can be changed between any two of them. The view is correct at each moment, and
// the table at the end.
func TestTrapBucketOfAnySize(t *testing.T) {
	const bound = 50
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, levels(t)[:2])
		m := crowd(90, 4)
		f.load(m...)
		f.set.SetBound(bound, 1) // sketches are stored after each piece
		transactions, reads, pieces, most := 0, 0, 0, 0
		raw := f.db.Dialect().Quote("readings")
		f.watched(start+day, func(_ context.Context, q string) {
			switch {
			case q == "COMMIT":
				transactions, reads = transactions+1, 0
			case strings.Contains(q, "FROM "+raw) && strings.HasPrefix(q, "INSERT"):
				// A piece on its way to the stage: one per transaction.
				pieces++
				if reads++; reads > 1 && kind != "sqlite" {
					t.Errorf("a transaction of %d statements that read raw rows", reads)
				}
				_, where, _ := strings.Cut(q, " WHERE ")
				where, _, _ = strings.Cut(where, ") q\nGROUP BY")
				if !strings.Contains(where, "?") { // a range of times, not of keys
					var n int
					must(t, f.db.SQL().QueryRow("SELECT COUNT(*) FROM "+raw+" WHERE "+where).Scan(&n))
					most = max(most, n)
				}
			}
		})
		if most > bound || pieces < len(m)/bound {
			t.Errorf("%d statements read %d raw rows, %d at most; the bound is %d", pieces, len(m), most, bound)
		}
		if want := 2 * len(m) / bound; transactions < want {
			t.Errorf("%d transactions for %d rows, want %d", transactions, len(m), want)
		}
		f.checkTables(m, start+day)

		// Recomputed in chunks: the view is correct between any two.
		late := row{91, "b", start + hour + 5*second, 5000, 9.0, 9, "z"}
		f.load(late)
		m = append(m, late)
		seen := map[string]bool{}
		f.watched(start+day, func(_ context.Context, q string) {
			if q == "COMMIT" || strings.HasPrefix(q, "DELETE") {
				state := f.one("SELECT COUNT(*) FROM r10m_live") + " groups, in the table " + f.one("SELECT COUNT(*) FROM r10m")
				seen[state] = true
			}
		})
		for state := range seen {
			if !strings.HasPrefix(state, "91 groups") {
				t.Errorf("the view has %s", state)
			}
		}
		f.checkTables(m, start+day)

		// All rows are deleted: the removal of old rows keeps to the bound, too.
		for _, p := range f.parts {
			f.exec("DELETE FROM " + f.into(p.From))
		}
		must(t, f.st.Touch(context.Background(), f.db.SQL(), "readings", "a test", rolling.Period{From: start, To: start + day}))
		transactions = 0
		f.watched(start+day, func(_ context.Context, q string) {
			if q == "COMMIT" {
				transactions++
			}
		})
		if n := f.one("SELECT COUNT(*) FROM r10m"); n != "0" || transactions < 4 {
			t.Errorf("%s rows are left, after %d transactions", n, transactions)
		}
	})
}

// A refresh that is interrupted between two chunks of a bucket leaves the view
// correct, and the next one corrects the table.
func TestTrapKilledBetweenChunks(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f, m := filled(t, kind, few(t), start+day, crowd(60, 2)...)
		f.set.SetBound(20, 1<<20)
		cut := 0
		for stage := 1; ; stage++ {
			late := row{stage, "b", start + hour + 5*second, 5000 + stage, 9.0, 9, "z"}
			f.load(late)
			m = append(m, late)
			ctx, cancel := context.WithCancel(context.Background())
			n, inserted := 0, false
			f.set.Before(func(_ context.Context, q string) {
				if inserted = inserted || strings.HasPrefix(q, "INSERT INTO "+f.db.Dialect().Quote("r10m")+" "); inserted {
					if n++; n == 3*stage { // some statements after the first chunk has been written
						cancel()
					}
				}
			})
			_, err := f.set.Refresh(ctx, start+day)
			cancel()
			f.set.Before(nil)
			f.checkViews(m, fmt.Sprint("cut off at statement ", 3*stage))
			if err == nil {
				break
			}
			cut++
			f.reload()
			f.set.SetBound(20, 1<<20)
		}
		if cut < 3 {
			t.Errorf("it was cut off %d times", cut)
		}
		f.refresh(start + day)
		f.checkTables(m, start+day)
	})
}

// Partitions can be changed while a bucket is computed, whatever its size: no
// statement of a refresh holds the table's lock after its end.
func TestTrapPeriodsWhileComputed(t *testing.T) {
	onServers(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, few(t)[:1])
		f.load(crowd(30, 4)...)
		f.set.SetBound(20, 1<<20)
		f.set.Reading = func() func() {
			// Between two statements, the refresh holds no lock on the table.
			p, err := f.decl.Period.At(f.parts[len(f.parts)-1].To)
			must(t, err)
			next := f.decl.Period.Named(p)
			if len(f.parts) < 12 {
				if err := enginetest.Try(t, f.db, engine.CreatePartitions{Table: f.table, Have: f.parts, New: []rolling.Partition{next}}); err != nil {
					t.Fatalf("create a period in the middle of a refresh: %v", err)
				}
				f.parts = append(f.parts, next)
			}
			return func() {}
		}
		f.refresh(start + day)
		if len(f.parts) < 12 {
			t.Errorf("%d periods: the refresh read raw rows in too few statements", len(f.parts))
		}
	})
}

// A range is marked and computed although more buckets lie between the first row
// and its start than one transaction marks.
func TestRefreshRangeFarFromFirstRow(t *testing.T) {
	onEach(t, func(t *testing.T, kind string) {
		f := open(t, kind, false, []rolling.Rollup{{Name: "r1m", Every: grid(t, "1m"), Select: all[:1]}})
		m := model{{1, "a", start, 1, 1.0, 1, "x"}, {1, "a", start + 100*hour, 2, 1.0, 1, "x"}}
		f.load(m...)
		f.refresh(start + 5*day)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if n, err := f.set.RefreshRange(ctx, start+99*hour, start+101*hour, nil); err != nil || n == 0 || n > 120 {
			t.Errorf("%d buckets computed, %v", n, err)
		}
		f.checkTables(m, start+5*day)
	})
}
