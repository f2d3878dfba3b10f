package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// benchKinds are the formats that benchRows writes: those of one line for each row.
var benchKinds = []Kind{CSV, TSV, JSONL, LineProtocol}

// benchRows returns rows of sensor, ts, value and note; in CSV, one note in four
// is quoted.
func benchRows(kind Kind, n int) []byte {
	var out []byte
	for i := range n {
		sensor, minute, second, micros, value := i%1000, i/60%60, i%60, i%1000000, float64(i)*0.37
		note := []string{"ok", "battery low, see manual", "", "calibrated"}[i%4]
		switch kind {
		case CSV:
			if i%4 == 1 {
				note = `"` + note + `"`
			}
			out = fmt.Appendf(out, "%d,2026-03-29 01:%02d:%02d.%06d,%.2f,%s\n", sensor, minute, second, micros, value, note)
		case TSV:
			out = fmt.Appendf(out, "%d\t2026-03-29 01:%02d:%02d.%06d\t%.2f\t%s\n", sensor, minute, second, micros, value, note)
		case JSONL:
			out = fmt.Appendf(out, `{"sensor":%d,"ts":"2026-03-29 01:%02d:%02d.%06d","value":%.2f,"note":"%s"}`+"\n", sensor, minute, second, micros, value, note)
		case LineProtocol:
			out = fmt.Appendf(out, "m sensor=%di,value=%.2f,note=\"%s\" %d\n", sensor, value, note, 1774746000000000000+int64(i)*1000)
		}
	}
	return out
}

// report reports the speed in rows and the allocations per row.
func report(b *testing.B, rows int) {
	b.ReportMetric(float64(b.N)*float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkParse(b *testing.B) {
	const rows = 5000
	for _, kind := range benchKinds {
		b.Run(string(kind), func(b *testing.B) {
			data := benchRows(kind, rows)
			benchParse(b, parserOf(b, &Format{Kind: kind, NoHeader: true}, "sensor,ts,value,note"), data, rows)
		})
	}
}

func BenchmarkCutter(b *testing.B) {
	const rows = 100000
	for _, kind := range benchKinds {
		b.Run(string(kind), func(b *testing.B) {
			data := benchRows(kind, rows)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				ctx, stop := context.WithCancel(b.Context())
				c := NewCutter(ctx, bytes.NewReader(data), &Format{Kind: kind, NoHeader: true}, 5000, 4<<20, 0)
				n := 0
				for {
					batch, err := c.Next(ctx)
					if errors.Is(err, io.EOF) {
						break
					}
					must(b, err)
					n += batch.Rows
				}
				c.Wait(stop)
				if n != rows {
					b.Fatalf("%d rows, want %d", n, rows)
				}
			}
			report(b, rows)
		})
	}
}

// TestParsingAllocatesNothing checks that parsing rows allocates nothing once the
// parser's buffers have grown; a decoder of line protocol is allocated for each row.
func TestParsingAllocatesNothing(t *testing.T) {
	for _, kind := range benchKinds {
		data := benchRows(kind, 2000)
		p := parserOf(t, &Format{Kind: kind, NoHeader: true}, "sensor,ts,value,note")
		p.Parse(bytesOf(data, 1, 0, false))
		if n := testing.AllocsPerRun(5, func() { p.Parse(bytesOf(data, 1, 0, false)) }); n > 20 && (kind != LineProtocol || n > 2*2000+20) {
			t.Errorf("%s: %.0f allocations for 2000 rows", kind, n)
		}
	}
}

// BenchmarkParseClassic parses CSV of the insert benchmark's rows: integers, a time and a number.
func BenchmarkParseClassic(b *testing.B) {
	const rows = 5000
	db, _, _ := measurements(b)
	grid, err := rolling.EveryDuration(24 * time.Hour)
	must(b, err)
	s := &engine.Schema{PrimaryKey: []string{"transactionid"}}
	for _, name := range []string{"transactionid", "cashregisterid", "customerid", "productid"} {
		s.Columns = append(s.Columns, engine.SchemaColumn{Name: name, Type: value.Type{Kind: value.Int}})
	}
	s.Columns = append(s.Columns, engine.SchemaColumn{Name: "dateandtime", Type: value.Type{Kind: value.Time}},
		engine.SchemaColumn{Name: "price", Type: value.Type{Kind: value.Float}})
	t, err := NewTarget(db.Capabilities(), &Format{Kind: CSV, NoHeader: true},
		[]string{"transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price"}, &Reading{Table: &engine.Table{Name: "purchases", Grid: grid, By: "dateandtime"}, Schema: s})
	must(b, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for i := range rows {
		data = fmt.Appendf(data, "%d,2026-01-01 %02d:%02d:%02d,%d,%d,%d,%.2f\n", i, i/3600, i/60%60, i%60,
			rnd.IntN(1000), rnd.IntN(100_000), rnd.IntN(10_000), float64(rnd.IntN(50_000))/100)
	}
	benchParse(b, NewParser(t), data, rows)
}

func benchParse(b *testing.B, p *Parser, data []byte, rows int) {
	b.Helper()
	if p.Parse(bytesOf(data, 1, 0, false)); p.Batch.Rows() != rows {
		b.Fatalf("%d rows, and %v", p.Batch.Rows(), p.Rejected[0].Reason)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		p.Parse(bytesOf(data, 1, 0, false))
	}
	report(b, rows)
}
