package merge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/plan"
)

var (
	intColumn = engine.ResultColumn{Name: "n", Class: engine.ClassInt}
	keyColumn = engine.ResultColumn{Name: "k", Class: engine.ClassBytes}
)

func decimalColumn(scale int) engine.ResultColumn {
	return engine.ResultColumn{Name: "d", Class: engine.ClassDecimal, Scale: scale}
}

// sumPlan is the plan of SELECT k, SUM(d), COUNT(n) ... GROUP BY k.
func sumPlan(d engine.ResultColumn) *plan.Plan {
	return &plan.Plan{
		Statement: plan.Statement{Columns: []engine.ResultColumn{keyColumn, d, intColumn}},
		Partials:  plan.Partials{PartialColumns: []engine.ResultColumn{keyColumn, d, intColumn}, Keys: 1},
		Merge: plan.Merge{
			Kind: plan.InMemory, Limit: -1, Steps: []engine.MergeStep{engine.MergeSum, engine.MergeSum},
			Outputs: []plan.Output{{Key: 0}, {Key: -1, Parts: []int{1}}, {Key: -1, Parts: []int{2}, Zero: true}},
		},
	}
}

func bytesOf(texts ...string) [][]byte {
	row := make([][]byte, len(texts))
	for i, s := range texts {
		if s != `\N` {
			row[i] = []byte(s)
		}
	}
	return row
}

// merged merges rows, which have columns separated by |, on several workers.
func merged(t testing.TB, p *plan.Plan, rows ...string) ([]string, error) {
	t.Helper()
	m, err := NewMemory(p, 1<<30)
	if err != nil {
		return nil, err
	}
	workers := []*GroupWorker{m.Worker(), m.Worker(), m.Worker()}
	for i, r := range rows {
		if err := workers[i%len(workers)].Row(bytesOf(strings.Split(r, "|")...)); err != nil {
			return nil, err
		}
	}
	if err := m.Finish(context.Background(), workers); err != nil {
		return nil, err
	}
	var sink rowsSink
	n, err := m.Answer(context.Background(), &sink)
	if err == nil && (int(n) != len(sink.rows) || sink.columns == nil) {
		t.Errorf("%d rows are counted, %d were passed on", n, len(sink.rows))
	}
	return sink.rows, err
}

func TestMergeInMemory(t *testing.T) {
	ordered := func(p *plan.Plan, limit, offset int64, by ...plan.SortKey) *plan.Plan {
		p.Merge.OrderBy, p.Merge.Limit, p.Merge.Offset = by, limit, offset
		return p
	}
	steps := func(c engine.ResultColumn, s ...engine.MergeStep) *plan.Plan {
		p := &plan.Plan{Merge: plan.Merge{Kind: plan.InMemory, Limit: -1, Steps: s}}
		for i := range s {
			p.Columns = append(p.Columns, c)
			p.Merge.Outputs = append(p.Merge.Outputs, plan.Output{Key: -1, Parts: []int{i}})
		}
		p.PartialColumns = p.Columns
		return p
	}
	times := func(p *plan.Plan) *plan.Plan {
		p.PartialColumns[0] = engine.ResultColumn{Name: "k", Class: engine.ClassTime}
		return p
	}
	average := steps(decimalColumn(2), engine.MergeSum, engine.MergeSum)
	average.PartialColumns = []engine.ResultColumn{decimalColumn(2), intColumn}
	average.Columns = []engine.ResultColumn{decimalColumn(6)}
	average.Merge.Outputs = []plan.Output{{Key: -1, Parts: []int{0, 1}, Final: engine.FinalQuotient}}
	for _, c := range []struct {
		name    string
		plan    *plan.Plan
		rows    []string
		want    string // separated by spaces
		refused string
	}{
		{name: "sums and counts", plan: ordered(sumPlan(decimalColumn(2)), -1, 0, plan.SortKey{Output: 0}),
			rows: []string{"a|1.10|1", "b|-0.05|2", "a|2.90|4", `c|\N|0`, "b|0.01|1", `c|\N|0`}, want: `a|4.00|5 b|-0.04|3 c|\N|0`},
		{name: "sums beyond 64 bits", plan: sumPlan(decimalColumn(0)),
			rows: []string{"a|9223372036854775807|1", "a|9223372036854775807|1", "a|9223372036854775807|9223372036854775807"}, want: "a|27670116110564327421|9223372036854775809"},
		{name: "sums that return to 64 bits", plan: sumPlan(decimalColumn(1)),
			rows: []string{"a|999999999999999999999999999999.9|1", "a|-999999999999999999999999999999.8|1"}, want: "a|0.1|2"},
		{name: "a NULL key is a group", plan: ordered(sumPlan(intColumn), -1, 0, plan.SortKey{Output: 0}),
			rows: []string{`\N|1|1`, `|2|1`, `\N|3|1`}, want: `\N|4|2 |2|1`},
		{name: "NULL last and first, descending", plan: ordered(sumPlan(intColumn), -1, 0, plan.SortKey{Output: 1, Desc: true, NullsLast: true}, plan.SortKey{Output: 0, Desc: true}),
			rows: []string{`a|\N|1`, `b|2|1`, `c|300|1`, `d|-300|1`, `e|-2|1`, `f|300|1`}, want: `f|300|1 c|300|1 b|2|1 e|-2|1 d|-300|1 a|\N|1`},
		{name: "limit", plan: ordered(sumPlan(intColumn), 2, 1, plan.SortKey{Output: 1}),
			rows: []string{`a|5|1`, `b|4|1`, `c|3|1`, `d|2|1`, `e|1|1`, `e|9|1`}, want: `c|3|1 b|4|1`},
		{name: "a tie at the limit", plan: ordered(sumPlan(intColumn), 2, 0, plan.SortKey{Output: 1}),
			rows: []string{`a|5|1`, `b|5|1`, `c|3|1`}, refused: "tie"},
		{name: "a tie at the offset", plan: ordered(sumPlan(intColumn), 9, 1, plan.SortKey{Output: 1}),
			rows: []string{`a|5|1`, `b|5|1`, `c|6|1`}, refused: "tie"},
		{name: "a tie within the limit", plan: ordered(sumPlan(intColumn), 2, 0, plan.SortKey{Output: 1}),
			rows: []string{`a|5|1`, `a|1|1`, `c|7|1`}, want: "a|6|2 c|7|1"},
		{name: "limit without an order", plan: ordered(sumPlan(intColumn), 1, 0), rows: []string{`a|5|1`, `b|5|1`}, refused: "tie"},
		{name: "groups without an order", plan: sumPlan(intColumn), rows: []string{`b|5|1`, `c|5|1`, `ab|5|1`, `\N|5|1`, `a|5|1`}, want: `\N|5|1 a|5|1 ab|5|1 b|5|1 c|5|1`},
		{name: "ties in an order", plan: ordered(sumPlan(intColumn), -1, 0, plan.SortKey{Output: 1, Desc: true}), rows: []string{`b|5|1`, `d|6|1`, `ab|5|1`, `a|5|1`}, want: "d|6|1 a|5|1 ab|5|1 b|5|1"},
		{name: "keys in an unknown form", plan: times(sumPlan(intColumn)), rows: []string{`24:00:00|5|1`, `-01:00:00|5|1`, `123:00:00|5|1`}, want: "-01:00:00|5|1 123:00:00|5|1 24:00:00|5|1"},
		{name: "limit of no rows", plan: ordered(sumPlan(intColumn), 0, 0), rows: []string{`a|5|1`, `b|5|1`}},
		{name: "limit beyond the rows", plan: ordered(sumPlan(intColumn), 7, 0), rows: []string{`a|5|1`, `a|5|1`}, want: "a|10|2"},
		{name: "offset beyond the rows", plan: ordered(sumPlan(intColumn), 7, 3), rows: []string{`a|5|1`}},
		{name: "no rows, no group", plan: sumPlan(intColumn)},
		{name: "extremes", plan: steps(intColumn, engine.MergeMin, engine.MergeMax), rows: []string{`\N|\N`, "5|5", "-7|-7", "18446744073709551615|18446744073709551615"}, want: "-7|18446744073709551615"},
		{name: "extremes of decimals are those of numbers", plan: steps(decimalColumn(1), engine.MergeMin, engine.MergeMax), rows: []string{"9.0|9.0", "10.0|10.0"}, want: "9.0|10.0"},
		{name: "extremes of texts", plan: steps(keyColumn, engine.MergeMin, engine.MergeMax), rows: []string{"b|b", "|", "abc|abc", "bb|bb"}, want: "|bb"},
		{name: "extremes of fractions", plan: steps(engine.ResultColumn{Class: engine.ClassFloat}, engine.MergeMin, engine.MergeMax), rows: []string{"9|9", "1e-5|1e-5", "1e20|1e20"}, want: "1e-5|1e20"},
		{name: "fractions that are equal and have two texts", plan: steps(engine.ResultColumn{Class: engine.ClassFloat}, engine.MergeMin), rows: []string{"0", "-0"}, refused: "form"},
		{name: "extremes of times", plan: steps(engine.ResultColumn{Class: engine.ClassTime}, engine.MergeMin, engine.MergeMax),
			rows: []string{"2024-01-01|2024-01-01", "0000-00-00|0000-00-00"}, want: "0000-00-00|2024-01-01"},
		{name: "times of another length", plan: steps(engine.ResultColumn{Class: engine.ClassTime}, engine.MergeMin), rows: []string{"10:00:00", "100:00:00"}, refused: "form"},
		{name: "bits", plan: steps(intColumn, engine.MergeBitAnd, engine.MergeBitOr, engine.MergeBitXor),
			rows: []string{"18446744073709551615|0|0", "6|6|6", "3|3|3"}, want: "2|7|5"},
		{name: "an average", plan: average, rows: []string{"1.00|2", "1.00|1"}, want: "0.666667"},
		{name: "an average of nothing", plan: average, rows: []string{`\N|0`}, want: `\N`},
		{name: "an average of 65 digits", plan: average, rows: []string{strings.Repeat("9", 73) + `.00|3`}, refused: "digits"},
		{name: "a count of no rows", plan: steps(intColumn, engine.MergeSum), want: `\N`},
		{name: "a number with leading zeros", plan: steps(intColumn, engine.MergeSum), rows: []string{"007"}, refused: "form"},
		{name: "a decimal with fewer digits", plan: steps(decimalColumn(3), engine.MergeSum), rows: []string{"1.5"}, refused: "form"},
		{name: "sums of numbers with different digits", plan: sumPlan(decimalColumn(-1)),
			rows: []string{"a|1.5|1", "a|-1.500|1", "a|3|1", `a|\N|1`, "b|9223372036854775807|1", "b|0.1|1", "c|7|1"}, want: "a|3.000|4 b|9223372036854775807.1|2 c|7|1"},
		{name: "extremes of numbers with different digits", plan: steps(decimalColumn(-1), engine.MergeMin, engine.MergeMax),
			rows: []string{"9|9", "9.25|9.25", "10|10", "-3.125|-3.125"}, want: "-3.125|10"},
		{name: "equal numbers with different digits", plan: steps(decimalColumn(-1), engine.MergeMin), rows: []string{"1.5", "1.50"}, refused: "different numbers of digits"},
		{name: "an order of numbers with different digits", plan: ordered(sumPlan(decimalColumn(-1)), -1, 0, plan.SortKey{Output: 1}),
			rows: []string{"a|10|1", "b|9.99|1", "c|-1.5|1", "d|-1.25|1"}, want: "c|-1.5|1 d|-1.25|1 b|9.99|1 a|10|1"},
		{name: "no number", plan: sumPlan(decimalColumn(-1)), rows: []string{"a|NaN|1"}, refused: "form"},
		{name: "sums of fractions", plan: steps(engine.ResultColumn{Class: engine.ClassFloat}, engine.MergeSum), refused: "can't be merged"},
		{name: "numeric keys with different digits", plan: &plan.Plan{Partials: plan.Partials{Keys: 1, PartialColumns: []engine.ResultColumn{decimalColumn(-1)}}, Merge: plan.Merge{Kind: plan.InMemory}}, refused: "told apart"},
		{name: "texts with a collation", plan: &plan.Plan{Partials: plan.Partials{Keys: 1, PartialColumns: []engine.ResultColumn{{Class: engine.ClassText}}}, Merge: plan.Merge{Kind: plan.InMemory}}, refused: "told apart"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := merged(t, c.plan, c.rows...)
			if c.refused != "" {
				if !IsInexact(err) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, want an error with %q; rows %q", err, c.refused, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

// TestMergeInMemoryOfManyGroups compares with a map, on random rows, with limits and without.
func TestMergeInMemoryOfManyGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	p := sumPlan(decimalColumn(2))
	var rows []string
	sums, counts := map[string]int64{}, map[string]int64{}
	for range 60000 {
		k := strings.Repeat("k", r.IntN(9)) + strconv.Itoa(r.IntN(9000))
		v, n := r.Int64N(1e12)-5e11, r.Int64N(100)
		rows = append(rows, k+"|"+string(AppendNumber(nil, v, 2))+"|"+strconv.FormatInt(n, 10))
		sums[k] += v
		counts[k] += n
	}
	var want []string
	for k, v := range sums {
		want = append(want, k+"|"+string(AppendNumber(nil, v, 2))+"|"+strconv.FormatInt(counts[k], 10))
	}
	slices.SortFunc(want, func(a, b string) int {
		x, _, _ := strings.Cut(a, "|")
		y, _, _ := strings.Cut(b, "|")
		return strings.Compare(x, y)
	})
	p.Merge.OrderBy = []plan.SortKey{{Output: 0}}
	for _, limit := range []int64{-1, 1, 500, int64(len(want))} {
		p.Merge.Limit, p.Merge.Offset = limit, 0
		if limit == 500 {
			p.Merge.Offset = 200
		}
		from, to := int(p.Merge.Offset), len(want)
		if limit >= 0 {
			to = min(to, from+int(limit))
		}
		if got, err := merged(t, p, rows...); err != nil || !slices.Equal(got, want[from:to]) {
			t.Errorf("limit %d: %d rows, %v; want %d", limit, len(got), err, to-from)
		}
	}
}

// TestSpilledGroups spills at many points: merging what was spilled gives the same answer.
func TestSpilledGroups(t *testing.T) {
	p := sumPlan(decimalColumn(2))
	m, err := NewMemory(p, 40<<10)
	if err != nil {
		t.Fatal(err)
	}
	w := m.Worker()
	var spilled []string
	spills := 0
	for i := range 20000 {
		if err := w.Row(bytesOf(fmt.Sprintf("key %d", i%3000), "0.25", "1")); err != nil {
			t.Fatal(err)
		}
		if w.Budget.Full() || i == 19999 {
			spills++
			if err := w.Spill(func(row [][]byte) error {
				spilled = append(spilled, string(bytesJoin(row)))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if n := w.Budget.used.Load(); n != 0 {
				t.Fatalf("%d bytes are used after a spill", n)
			}
		}
	}
	if spills < 5 {
		t.Errorf("%d spills", spills)
	}
	got, err := merged(t, p, spilled...)
	if err != nil || len(got) != 3000 {
		t.Fatalf("%d groups, %v", len(got), err)
	}
	for _, row := range got {
		if !strings.HasSuffix(row, "|1.50|6") && !strings.HasSuffix(row, "|1.75|7") {
			t.Errorf("row %s", row)
		}
	}
}

func bytesJoin(row [][]byte) []byte {
	var b []byte
	for i, v := range row {
		if i > 0 {
			b = append(b, '|')
		}
		b = append(b, v...)
	}
	return b
}

// BenchmarkMergeInMemory merges 200,000 partial rows into 50,000 groups on one worker. The ceiling
// is 25 ms with numbers of 64 bits, 72 ms with those of 256; allocations are those of the tables,
// none per row.
func BenchmarkMergeInMemory(b *testing.B) {
	for _, c := range []struct{ name, value string }{{"narrow", "12345678.90"}, {"wide", "12345678901234567890123456789.012345678901234567890123456789"}} {
		b.Run(c.name, func(b *testing.B) {
			_, digits, _ := strings.Cut(c.value, ".")
			p := sumPlan(decimalColumn(len(digits)))
			var rows [][][]byte
			for i := range 200_000 {
				rows = append(rows, bytesOf(strconv.Itoa(i*7919%50_000), c.value, "17"))
			}
			b.ReportAllocs()
			for b.Loop() {
				m, err := NewMemory(p, 1<<30)
				if err != nil {
					b.Fatal(err)
				}
				w := m.Worker()
				for _, row := range rows {
					if err := w.Row(row); err != nil {
						b.Fatal(err)
					}
				}
				if err := m.Finish(context.Background(), []*GroupWorker{w}); err != nil {
					b.Fatal(err)
				}
				if n, err := m.Answer(context.Background(), discard{}); err != nil || n != 50_000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
