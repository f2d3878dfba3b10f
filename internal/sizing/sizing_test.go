package sizing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/sizing"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

func must(t rapid.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

func span(t testing.TB, s string) rolling.Span {
	t.Helper()
	if s == "" {
		return rolling.Span{}
	}
	out, err := rolling.ParseSpan(s)
	must(t, err)
	return out
}

func grid(t testing.TB, s string) (g rolling.Grid) {
	t.Helper()
	if s == "" {
		return g
	}
	g, err := rolling.Parse(s)
	must(t, err)
	return g
}

// The estimate of a production table: 44 million rows a day of 102 bytes, doubled
// for InnoDB, plus 10%, are 9.2 GB a day in 12 partitions of 760 MB, two of which
// are resident.
func TestFieldEstimate(t *testing.T) {
	const gb = 1 << 30
	out, err := sizing.Plan(sizing.Input{
		Table: "field", Pieces: sizing.Estimate(102), PiecesFrom: "--row-bytes",
		Memory: sizing.Figure{Value: 2 * gb}, Rate: sizing.Figure{Value: 44e6 / 86400}, Declared: sizing.Declared{Keep: span(t, "30d"), Ahead: span(t, "1d")},
	})
	must(t, err)
	if out.Period.Every != "2h" || out.Partitions.PerDay != 12 {
		t.Errorf("%s, %v a day", out.Period.Every, out.Partitions.PerDay)
	}
	if day := out.Sizes[0]; math.Abs(day.Bytes/gb-9.2) > 0.05 || math.Abs(day.Rows-44e6) > 1 {
		t.Errorf("%+v", day)
	}
	if p := out.Period; math.Abs(p.Bytes/gb-0.76) > 0.01 || p.ResidentBytes != 2*p.Bytes || p.ResidentBytes > 0.8*2*gb {
		t.Errorf("%+v", p)
	}
	if n := *out.Partitions.Total; n != 360+12+1 {
		t.Errorf("%d partitions", n)
	}
	if len(out.Warnings) > 0 {
		t.Error(out.Warnings)
	}
}

func TestPeriodThatFits(t *testing.T) {
	for _, c := range []struct {
		name                string
		perRow, mem, rate   float64
		declared, keep      string
		merge, want, warned string
		days                bool
		limit               int
	}{
		{"exactly", 100, 2 * 100 * 3600 / 0.8, 1, "", "", "", "1h", "", false, 0},
		{"a little less", 100, 2*100*3600/0.8 - 1000, 1, "", "", "", "30m", "", false, 0},
		{"nothing fits", 1000, 1 << 20, 1e6, "", "", "", "1m", "not even 1m fits", false, 0},
		{"no longer than a week", 10, 1 << 40, 0.1, "", "", "", "1w", "", false, 0},
		{"a quarter of retention", 10, 1 << 40, 0.1, "", "2d", "", "12h", "", false, 0},
		{"retention of a minute", 10, 1 << 40, 0.1, "", "1m", "", "1m", "", false, 0},
		{"whole days", 100, 1 << 20, 1000, "", "", "", "1d", "not even 1d fits", true, 0},
		{"must divide", 10, 1 << 40, 0.1, "", "", "1d", "12h", "", false, 0},
		{"too many partitions", 100, 64 << 20, 5000, "", "90d", "", "30m", "not even 30m fits", false, 8192},
		{"declared too long", 100, 64 << 20, 5000, "1d", "", "", "1d", "take 30s", false, 0},
		{"declared and small", 100, 1 << 30, 1, "1h", "", "", "1h", "", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := sizing.Plan(sizing.Input{Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: c.perRow}}, Memory: sizing.Figure{Value: c.mem},
				Rate: sizing.Figure{Value: c.rate}, Declared: sizing.Declared{Period: grid(t, c.declared), Keep: span(t, c.keep), Merge: grid(t, c.merge), WholeDays: c.days, Ahead: span(t, "1m")}, MaxPeriods: c.limit})
			must(t, err)
			all := strings.Join(out.Warnings, "\n")
			if c.name == "declared too long" {
				c.warned = "take 1m"
			}
			if out.Period.Every != c.want || out.Grid().String() != c.want || (c.warned == "") != (all == "") || !strings.Contains(all, c.warned) {
				t.Errorf("%s (fits %s), %q; want %s, %q", out.Period.Every, out.Period.Fits, all, c.want, c.warned)
			}
		})
	}
}

func TestSequence(t *testing.T) {
	in := sizing.Input{Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: 100}}, Memory: sizing.Figure{Value: 64 << 20}, Declared: sizing.Declared{
		Axis: rolling.Sequence,
		Keep: rolling.Span{Rows: 10_000_000}, Ahead: rolling.Span{Rows: 500_000}, After: rolling.Span{Rows: 100_000},
	},
		Compressed: sizing.Figure{Value: 25}}
	out, err := sizing.Plan(in)
	must(t, err)
	if out.Period.Every != "200000 rows" || len(out.Sizes) != 1 || out.Sizes[0].Rows != 10_200_000 || *out.Partitions.Total != 50+3+1 {
		t.Errorf("%+v", out)
	}
	// The newest 300,000 rows are not compressed yet.
	if got := *out.Sizes[0].Compressed; got != 300_000*100+9_900_000*25 {
		t.Errorf("%v compressed", got)
	}
	in.Rate = sizing.Figure{Value: 10}
	if out, err = sizing.Plan(in); err != nil || len(out.Sizes) != 2 || out.Sizes[1].Rows != 864000 {
		t.Errorf("%+v, %v", out.Sizes, err)
	}
}

func TestSizesOverTime(t *testing.T) {
	in := sizing.Input{Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: 100}}, Memory: sizing.Figure{Value: 1 << 30}, Rate: sizing.Figure{Value: 100},
		Declared: sizing.Declared{Period: grid(t, "1d"), After: span(t, "1d"), Keep: span(t, "90d")}, Compressed: sizing.Figure{Value: 20}}
	out, err := sizing.Plan(in)
	must(t, err)
	day := 8640000.0
	for i, want := range []struct{ rows, bytes, compressed float64 }{
		{day, day * 100, day * 100}, {30 * day, 30 * day * 100, 2*day*100 + 28*day*20}, {91 * day, 91 * day * 100, 2*day*100 + 89*day*20},
	} {
		if got := out.Sizes[i]; got.Rows != want.rows || got.Bytes != want.bytes || *got.Compressed != want.compressed {
			t.Errorf("%+v (%v), want %+v", got, *got.Compressed, want)
		}
	}
	// Each of the 91 days has extents of its own; 2 of them aren't sealed.
	in.Spare, in.SpareSealed = 8<<20, 1<<20
	out, err = sizing.Plan(in)
	must(t, err)
	if got := out.Sizes[2]; got.Bytes != 91*day*100+91*(8<<20) || *got.Compressed != 2*day*100+89*day*20+2*(8<<20)+89*(1<<20) || out.Period.SpareBytes != 8<<20 {
		t.Errorf("with spare extents: %+v, %v", got, *got.Compressed)
	}
	in.Spare, in.SpareSealed = 0, 0
	in.Keep, in.Compressed = rolling.Span{}, sizing.Figure{}
	if out, err = sizing.Plan(in); err != nil || len(out.Sizes) != 3 || out.Sizes[2].After != "1 year" || out.Sizes[2].Compressed != nil || out.Partitions.Total != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestPlainTable(t *testing.T) {
	in := sizing.Input{
		Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: 60, Ascending: true}, {Name: "index (a)", BytesPerRow: 25}, {Name: "index (b)", BytesPerRow: 15}},
		Memory: sizing.Figure{Value: 1e9}, Rate: sizing.Figure{Value: 1000}, Declared: sizing.Declared{Keep: span(t, "10d")}, Sample: sizing.Figure{Value: 50000, From: "the sample"},
		Reads: sizing.Figure{Value: 10000, From: "assumed"},
	}
	out, err := sizing.Plan(in)
	must(t, err)
	if p := out.Plain; *p.KneeRows != 0.8e9/40 || *p.Seconds != 20000 || !strings.Contains(p.From, "index (a), index (b)") {
		t.Errorf("%+v", p)
	}
	rows := out.Sizes[len(out.Sizes)-1].Rows
	missed := 1 - 0.8e9/(rows*40)
	want := 1 / (1/50000.0 + 2*missed/10000)
	if b := out.Before; b.Measured || math.Abs(*b.Last-want) > 1e-6 || *b.First != 50000 || !strings.Contains(b.From, "estimate") {
		t.Errorf("%v of %+v, want %v", *b.Last, b, want)
	}
	if a := out.After; a.Measured || *a.Last != 50000 || !strings.Contains(a.From, "estimate") {
		t.Errorf("%+v", a)
	}

	in.Plain = &result.Summary{Name: "classic plain", Engine: "mariadb", Throughput: result.Throughput{Rows: 4000000, Rate: result.Rate{First: 144000, Last: 4500}}}
	in.RunsFrom = "run.jsonl"
	out, err = sizing.Plan(in)
	must(t, err)
	if b := out.Before; !b.Measured || *b.Last != 4500 || !strings.Contains(b.From, "run.jsonl") || out.After.Measured {
		t.Errorf("%+v", b)
	}

	for i := range in.Pieces {
		in.Pieces[i].Ascending = true
	}
	in.Plain = nil
	out, err = sizing.Plan(in)
	if err != nil || out.Plain.KneeRows != nil || *out.Before.Last != 50000 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestPlanRefuses(t *testing.T) {
	good := sizing.Input{Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: 100}}, Memory: sizing.Figure{Value: 1 << 30}, Rate: sizing.Figure{Value: 100}}
	for name, change := range map[string]func(*sizing.Input){
		"no sizes":      func(in *sizing.Input) { in.Pieces = nil },
		"no memory":     func(in *sizing.Input) { in.Memory.Value = 0 },
		"negative rate": func(in *sizing.Input) { in.Rate.Value = -1 },
		"endless rate":  func(in *sizing.Input) { in.Rate.Value = math.Inf(1) },
		"no rate":       func(in *sizing.Input) { in.Rate.Value = 0 },
		"endless rows":  func(in *sizing.Input) { in.Pieces[0].BytesPerRow = math.Inf(1) },
	} {
		in := good
		in.Pieces = append([]sizing.Piece(nil), good.Pieces...)
		change(&in)
		out, err := sizing.Plan(in)
		if err == nil {
			t.Errorf("%s: %+v", name, out)
		}
		if name == "no rate" {
			if !errors.Is(err, sizing.ErrNoRate) {
				t.Errorf("%s: %v", name, err)
			}
			in.Period = grid(t, "1h")
			if out, err = sizing.Plan(in); err != nil || len(out.Warnings) != 1 || out.Period.Fits != "" {
				t.Errorf("%s, declared: %+v, %v", name, out, err)
			}
		}
	}
}

// Two periods must fit, not one: the second newest takes late rows and is still
// being written back.
func TestTrapRoomForTwoPeriods(t *testing.T) {
	const perRow, rate = 100, 1000
	for _, c := range []struct {
		periods float64 // of an hour, that fit into the memory available to periods
		want    string
	}{{1, "30m"}, {1.99, "30m"}, {2.001, "1h"}, {3.9, "1h"}, {4.001, "2h"}} {
		memory := c.periods * perRow * rate * 3600 / sizing.CacheShare
		g, fits, err := sizing.Fit(sizing.Input{Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: perRow}}, Memory: sizing.Figure{Value: memory}, Rate: sizing.Figure{Value: rate}})
		if err != nil || !fits || g.String() != c.want {
			t.Errorf("room for %v hours: %s, %v, %v; want %s", c.periods, g, fits, err, c.want)
		}
	}
}

// The number of partitions affects the choice of a period: numbers beyond the
// server's limit are refused, large ones cause a warning.
func TestTrapManyPartitionsCostMemory(t *testing.T) {
	in := sizing.Input{Pieces: []sizing.Piece{{Name: "rows", BytesPerRow: 100}}, Memory: sizing.Figure{Value: 128 << 20}, Rate: sizing.Figure{Value: 5000}, Declared: sizing.Declared{Keep: span(t, "90d"), Ahead: span(t, "1d")}}
	for limit, want := range map[int]string{0: "1m", 8192: "30m", 500: "6h"} {
		in.MaxPeriods = limit
		out, err := sizing.Plan(in)
		if err != nil || out.Period.Every != want {
			t.Fatalf("limit %d: %s, %v; want %s", limit, out.Period.Every, err, want)
		}
		if limit > 0 && *out.Partitions.Total > int64(limit) {
			t.Errorf("limit %d: %d partitions", limit, *out.Partitions.Total)
		}
		if all := strings.Join(out.Warnings, "\n"); !strings.Contains(all, "merge") {
			t.Errorf("limit %d: %q", limit, all)
		}
	}
	in.MaxPeriods, in.Merge, in.After = 8192, grid(t, "1d"), span(t, "1h")
	out, err := sizing.Plan(in)
	if err != nil || out.Period.Every != "1m" || *out.Partitions.Total > 8192 {
		t.Errorf("merged: %+v, %v", out, err)
	}
}

// For any input, a period reported as fitting does fit, and the plan can be encoded
// as JSON.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		keeps := []string{"", "1h", "2d", "30d", "1y"}
		in := sizing.Input{
			Pieces:     []sizing.Piece{{Name: "rows", BytesPerRow: rapid.Float64Range(1, 1e6).Draw(r, "bytes")}},
			Memory:     sizing.Figure{Value: rapid.Float64Range(1<<20, 1<<44).Draw(r, "memory")},
			Rate:       sizing.Figure{Value: rapid.Float64Range(1e-6, 1e8).Draw(r, "rate")},
			MaxPeriods: rapid.SampledFrom([]int{0, 500, 8192}).Draw(r, "limit"),
		}
		if k := rapid.SampledFrom(keeps).Draw(r, "keep"); k != "" {
			in.Keep, _ = rolling.ParseSpan(k)
		}
		if rapid.Bool().Draw(r, "merge") {
			in.Merge, _ = rolling.Parse("1d")
		}
		g, fits, err := sizing.Fit(in)
		must(r, err)
		rows := in.Rate.Value * float64(g.Span().Length()) / 1e6
		if most := sizing.FitRows(in.Memory.Value, in.Pieces[0].BytesPerRow); fits && most > 1 && 2*rows*in.Pieces[0].BytesPerRow > 0.8*in.Memory.Value*1.0001 {
			r.Fatalf("%s doesn't fit", g)
		}
		if !fits && g.String() != "1m" && in.MaxPeriods == 0 {
			r.Fatalf("%s doesn't fit, and isn't the shortest", g)
		}
		out, err := sizing.Plan(in)
		must(r, err)
		if _, err := json.Marshal(out); err != nil {
			r.Fatal(err, fmt.Sprintf("%+v", out))
		}
	})
}
