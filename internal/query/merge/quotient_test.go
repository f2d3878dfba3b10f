package merge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestQuotientsAreThoseOfServers computes averages of random decimals of every scale from their
// sums and counts, as the merge in memory does, and compares with AVG on the server: it divides to
// groups of nine digits before it rounds.
func TestQuotientsAreThoseOfServers(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		ctx := t.Context()
		db := testdb.Open(t, kind).(engine.Reader)
		s, err := db.ReadSession(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		st, err := db.ReadState(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		do := func(statement string) {
			if _, err := db.SQL().ExecContext(ctx, statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		if !strings.Contains(st.Get("sql_mode"), "STRICT") {
			t.Fatalf("sql_mode %s", st.Get("sql_mode"))
		}
		seed := uint64(3)
		if testdb.Nightly() {
			seed = rand.Uint64()
		}
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		compared, halves := 0, 0
		for scale := range 31 {
			do(fmt.Sprintf("CREATE TABLE t%d (g INT NOT NULL, x DECIMAL(%d,%d))", scale, min(65, scale+12), scale))
			rows := make([]string, 400)
			for i := range rows {
				x := randomNumber(r, 1+r.IntN(12), scale)
				if r.IntN(4) == 0 { // few digits make quotients that end at, or near, one half
					x = string(AppendNumber(nil, r.Int64N(41)-20, scale))
				}
				rows[i] = fmt.Sprintf("(%d, %s)", r.IntN(60), x)
			}
			do(fmt.Sprintf("INSERT INTO t%d VALUES %s, (100, NULL)", scale, strings.Join(rows, ",")))
			for _, increment := range []int{0, 4, 5, 9, 30} {
				if err := s.SetState(ctx, "div_precision_increment", fmt.Sprint(increment)); err != nil {
					t.Fatal(err)
				}
				q := fmt.Sprintf("SELECT AVG(x), SUM(x), COUNT(x) FROM t%d GROUP BY g HAVING COUNT(x) > 0", scale)
				cols, err := db.DescribeQuery(ctx, s, q)
				if err != nil {
					t.Fatal(err)
				}
				to := cols[0].Scale
				if cols[0].Class != engine.ClassDecimal || to < scale || cols[1].Scale != scale {
					t.Fatalf("columns %+v", cols)
				}
				if err := s.Text(ctx, q, nil, func(v [][]byte) error {
					compared++
					count, _, _, _ := ParseNumber(v[2], 0)
					got, ok := quotient(parsed(t, string(v[1]), scale), uint64(count), scale, to)
					text := string(appendWide(nil, got, to))
					if !ok || text != string(v[0]) {
						t.Errorf("scale %d, increment %d: %s / %s = %s, and the server has %s", scale, increment, v[1], v[2], text, v[0])
					}
					if quotientDigits(scale, to) == to && text != string(v[1]) {
						halves++
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if compared < 5000 || halves == 0 {
			t.Errorf("%d quotients were compared, %d of them truncated", compared, halves)
		}
	})
}
