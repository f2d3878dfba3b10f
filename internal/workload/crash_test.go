package workload

import (
	"slices"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLost: after a crash whole batches acknowledged within the window may be
// missing, but no other rows.
func TestLost(t *testing.T) {
	t.Parallel()
	const rows, batch = 2000, 100
	for _, c := range []struct {
		name    string
		lossy   bool
		crashed bool
		harm    string
		lost    int64
		sound   bool
	}{
		{"nothing missing", true, true, "", 0, true},
		{"a batch lost", true, true, "DELETE FROM purchases WHERE transactionid BETWEEN 1201 AND 1300", batch, true},
		{"two batches lost", true, true, "DELETE FROM purchases WHERE transactionid > 1800", 2 * batch, true},
		{"part of a batch lost", true, true, "DELETE FROM purchases WHERE transactionid BETWEEN 1201 AND 1299", 99, false},
		{"a row changed", true, true, "UPDATE purchases SET productid = productid + 1 WHERE transactionid = 1250", 1, false},
		{"a batch missing without a crash", true, false, "DELETE FROM purchases WHERE transactionid BETWEEN 1201 AND 1300", 0, false},
		{"a batch missing where none may", false, true, "DELETE FROM purchases WHERE transactionid BETWEEN 1201 AND 1300", 0, false},
	} {
		for _, layout := range Layouts() {
			t.Run(c.name+"/"+layout, func(t *testing.T) {
				db := &faulty{DB: testdb.Open(t, "mariadb"), info: func(info *engine.Info) {
					if info.CrashLoss = 0; c.lossy {
						info.CrashLoss = time.Hour // all rows that the test inserts
					}
				}}
				w := prepared(t, db, InsertOptions{Preset: "classic", Layout: layout, Rows: rows, Batch: batch, PeriodRows: 700})
				ok(t, w.ExpectCrashes(func() <-chan struct{} { return nil }))
				run(t, w, config(w))
				if c.crashed {
					w.Crashed(time.Now())
				}
				if c.harm != "" {
					exec(t, raw(t, w.db), c.harm)
				}
				p := verify(t, w)
				if p.Checksum != c.sound || p.Lost != c.lost || p.Expected != rows || c.sound && p.Expected != p.Found+p.Lost {
					t.Errorf("%+v", p)
				}
				if hasWarning(p, "acknowledged and lost") != (c.lost > 0) {
					t.Errorf("warnings %q", p.Warnings)
				}
			})
		}
	}
}

// TestRecent: a batch is at risk if it was acknowledged within the window, or by
// the crashed server.
func TestRecent(t *testing.T) {
	r := recent{keep: time.Minute}
	r.note(span{0, 10}, 0)
	r.batches[0].at = r.batches[0].at.Add(-time.Hour)
	r.note(span{10, 20}, 0)
	r.note(span{30, 40}, 0)
	r.crashed(time.Now())
	r.note(span{20, 30}, 0) // sent before the crash, read after it
	r.note(span{40, 50}, 1)
	if got, want := r.risk(), []span{{10, 20}, {20, 30}, {30, 40}}; !slices.Equal(got, want) {
		t.Errorf("at risk %v, want %v", got, want)
	}
	r.crashed(time.Now().Add(time.Hour))
	if got := r.risk(); len(got) != 3 {
		t.Errorf("at risk %v after a crash much later", got)
	}
}

func TestWithout(t *testing.T) {
	for _, c := range []struct{ spans, others, want []span }{
		{[]span{{0, 100}}, nil, []span{{0, 100}}},
		{[]span{{0, 100}}, []span{{0, 10}, {50, 60}, {90, 100}}, []span{{10, 50}, {60, 90}}},
		{[]span{{0, 10}, {20, 30}}, []span{{0, 10}, {22, 24}}, []span{{20, 22}, {24, 30}}},
		{[]span{{10, 20}, {30, 40}}, []span{{0, 5}, {15, 35}}, []span{{10, 15}, {35, 40}}},
		{[]span{{0, 10}}, []span{{0, 10}}, nil},
	} {
		if got := without(c.spans, c.others); !slices.Equal(got, c.want) {
			t.Errorf("%v without %v is %v, want %v", c.spans, c.others, got, c.want)
		}
	}
}
