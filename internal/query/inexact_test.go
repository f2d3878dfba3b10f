package query

import (
	"math"
	"strconv"
	"testing"

	"github.com/rowmill/rowmill/internal/query/merge"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestInexactVariances: with Options.Inexact, variances of exact numbers come from exact sums. The
// servers' own answers differ in the last digits only, also for values near 1e9, of which a sum of
// squares in binary fractions loses all digits. Without it, they are whole.
func TestInexactVariances(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		f := newFixture(t, kind)
		for _, q := range []string{
			"SELECT VAR_POP(1000000000 + id % 2), VAR_SAMP(id), STD(id), STDDEV_SAMP(d), VARIANCE(1000000000 + d) FROM t",
			"SELECT g, VAR_POP(id), VAR_SAMP(d), STDDEV_POP(d), STDDEV(id * 4611686018427387) FROM t GROUP BY g ORDER BY g",
			"SELECT VAR_POP(id), VAR_SAMP(id), VAR_POP(d), STD(d) FROM t WHERE id = 500",
			"SELECT VAR_POP(d), VAR_SAMP(id), STD(d), COUNT(*) FROM t WHERE id < 0",
			"SELECT g, AVG(d), VAR_POP(d), SUM(d) FROM t GROUP BY g ORDER BY 1",
		} {
			want := newAnswer()
			if err := f.s.Text(within(t), q, want.Columns, want.Row); err != nil {
				t.Fatal(err)
			}
			h, got, err := runSplit(within(t), f.runner(Options{Always: true, Inexact: true}), q, f.state)
			if err != nil || got.err != nil || h.whole != "" {
				t.Errorf("%s: whole because %q, %v %v", q, h.whole, err, got.err)
				continue
			}
			if len(got.rows) != len(want.rows) {
				t.Fatalf("%s: %d rows, want %d", q, len(got.rows), len(want.rows))
			}
			w, g := make([][]byte, len(want.cols)), make([][]byte, len(want.cols))
			for i := range want.rows {
				merge.NextRow(want.rows[i], w)
				merge.NextRow(got.rows[i], g)
				for c := range w {
					if !closeTo(string(w[c]), string(g[c])) || (w[c] == nil) != (g[c] == nil) {
						t.Errorf("%s: %s is %q in row %d, want %q", q, want.cols[c].Name, g[c], i+1, w[c])
					}
				}
			}
			if h, _, err = runSplit(within(t), f.runner(Options{Always: true}), q, f.state); err != nil || h.whole == "" {
				t.Errorf("%s: it is split without Inexact: %v", q, err)
			}
		}
	})
}

// closeTo reports whether two texts are the same, or numbers that differ by less than 1e-9 of them.
func closeTo(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return a == b || errX == nil && errY == nil && math.Abs(x-y) <= 1e-9*math.Abs(x)
}
