package maintain

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rowmill/rowmill/rolling"
)

// Tables whose long names begin alike don't share the tables beside them.
func TestStandaloneNames(t *testing.T) {
	t.Parallel()
	p := rolling.Partition{Period: rolling.Period{From: math.MinInt64, To: math.MaxInt64}}
	seen := map[string]string{}
	for _, table := range []string{"readings", "readings_of_all_sensors_a", "readings_of_all_sensors_b", "readings_of_all_sensors_" + strings.Repeat("c", 40), strings.Repeat("\u00e4", 31), strings.Repeat("\u00e4", 30) + "b"} {
		name := standalone(table, "drop", p)
		if was, has := seen[name]; has {
			t.Errorf("%s and %s share %s", table, was, name)
		}
		seen[name] = table
		if len(name) > 63 || !utf8.ValidString(name) {
			t.Errorf("%s: %q, %d bytes", table, name, len(name))
		}
	}
}
