package bench

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// An instant is a workload whose operations take no time, so that only the cost
// of measuring remains.
type instant struct{ prepared, done int }

func (w *instant) Client(context.Context, int) (Client, error) { return &instant{}, nil }

func (w *instant) Background(context.Context, func(string, string, time.Time)) error { return nil }

func (w *instant) Prepare(rows int) { w.prepared += rows }

func (w *instant) Do(context.Context) error {
	w.done = w.prepared
	return nil
}

func (w *instant) Recover(_ context.Context, failed error) error { return failed }

func (w *instant) Close() error { return nil }

// BenchmarkClient measures the cost of one operation of a run, from Prepare to Prepare.
func BenchmarkClient(b *testing.B) {
	for _, c := range []struct {
		name    string
		clients int
		rate    float64
	}{
		{"closed/clients=1", 1, 0},
		{"closed/clients=2", 2, 0},
		{"overloaded/clients=1", 1, 1e12}, // every operation is late, so none waits
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			w := &instant{}
			r := newRun(b.Context(), w, Config{Operation: "insert", Clients: c.clients, Batch: 1, Rows: int64(b.N), Rate: c.rate,
				Interval: time.Second, Grace: time.Second})
			defer r.endWait()
			if err := r.open(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if o := r.execute(b.Context(), w); o.Err != nil || o.Rows != int64(b.N) {
				b.Fatalf("%+v", o)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mops/s")
		})
	}
}

func BenchmarkRecorderDone(b *testing.B) {
	for _, open := range []bool{false, true} {
		b.Run(fmt.Sprintf("open=%t", open), func(b *testing.B) {
			b.ReportAllocs()
			r := &recorder{open: open}
			var d time.Duration
			for b.Loop() {
				d = (d + 997*time.Nanosecond) % (50 * time.Millisecond)
				r.done(1, time.Microsecond, d, 2*d)
			}
		})
	}
}

// BenchmarkCollect measures a tick, with latencies of up to 50 ms from each client.
func BenchmarkCollect(b *testing.B) {
	for _, clients := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			b.ReportAllocs()
			c := newCollector(clients, true)
			for b.Loop() {
				for _, r := range c.recorders {
					for i := range 10 {
						d := time.Duration(i+1) * 5 * time.Millisecond
						r.done(1, time.Microsecond, d, d)
					}
				}
				if sum := c.collect(); sum.ops != int64(10*clients) {
					b.Fatalf("%+v", sum)
				}
			}
		})
	}
}

func BenchmarkMarks(b *testing.B) {
	b.ReportAllocs()
	const every = 1000
	m := newMarks(hundredths * every)
	for total := int64(0); b.Loop(); {
		if total += 1; total%every == 0 { // as a client does: it calls pass only at marks
			m.pass(total-1, total, time.Duration(total))
		}
		total %= hundredths * every
	}
}
