package figure_test

import (
	"math"
	"testing"

	"github.com/rowmill/rowmill/internal/figure"
)

func TestPlural(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]int64{"0 rows": 0, "1 row": 1, "-1 rows": -1, "999 rows": 999, "1,000 rows": 1000, "-1,234,567 rows": -1234567, "9,223,372,036,854,775,807 rows": math.MaxInt64} {
		if got := figure.Plural(n, "row", "rows"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
