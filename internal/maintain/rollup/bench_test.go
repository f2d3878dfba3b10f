package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/rolling"
)

// BenchmarkRefresh aggregates a million rows of one day, of 100 sensors, in buckets
// of ten minutes and an hour. With sketches, values are processed on the client.
func BenchmarkRefresh(b *testing.B) {
	const rows = 1000000
	for _, kind := range kinds {
		for name, aggs := range map[string][]rolling.Aggregate{"sums": {all[0], all[4], all[6]}, "sketches": {all[0], all[4], all[13], all[14]}} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				rollups := levels(b)[:2]
				for i := range rollups {
					rollups[i].By, rollups[i].Select = []string{"sensor"}, aggs
				}
				f := open(b, kind, false, rollups)
				tx := f.begin()
				var q strings.Builder
				for i := range rows {
					if i%1000 == 0 {
						q.Reset()
						fmt.Fprintf(&q, "INSERT INTO %s (sensor, site, ts, seq, value, n, note) VALUES ", f.into(start))
					} else {
						q.WriteByte(',')
					}
					fmt.Fprintf(&q, "(%d,'a',%s,%d,%d.5,%d,'x')", i%100, f.lit(start+int64(i/100)*8*second), i%100, i%977, i%5000)
					if i%1000 == 999 {
						if _, err := tx.Exec(q.String()); err != nil {
							b.Fatal(err)
						}
					}
				}
				f.commit(tx)
				b.ResetTimer()
				for b.Loop() {
					if _, err := f.set.RefreshRange(context.Background(), start, start+day, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
