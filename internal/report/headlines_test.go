package report_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/result"
)

// TestHeadlines: a headline claims no more than the runs show.
func TestHeadlines(t *testing.T) {
	t.Parallel()
	inside := []result.Record{synthetic(t, plainCourse()), synthetic(t, rollingCourse())}
	for i := range inside {
		inside[i].End.Size, inside[i].Run.CacheBytes = &result.Size{Data: 10 << 20, Index: 17 << 20, PerRow: 7}, 64<<20
	}
	few := course{name: "classic plain on mariadb", layout: "plain", rows: 5000, rate: flat, seed: 3}
	for name, c := range map[string]struct {
		recs   []result.Record
		say    []string
		mustnt []string
	}{
		"within the cache": {inside, []string{"in one run each", "its 27 MiB never outgrew the cache of 64 MiB"}, nil},
		"short":            {stored(t, "insert"), []string{"0.09 s is too short to say how the rate changes"}, []string{"ends at", "its first rate", "the first tenth's"}},
		"offered":          {stored(t, "keep"), []string{"Rolling inserted 1.51k rows at the 500 rows/s offered."}, []string{"its first rate"}},
		"a few operations": {[]result.Record{synthetic(t, few)}, []string{"5 operations are too few"}, []string{"its first rate", "p99", "p95"}},
	} {
		text, page := render(t, "txt", c.recs), render(t, "html", c.recs)
		for _, want := range c.say {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), want) || !strings.Contains(page, want) {
				t.Errorf("%s: no %q in the text or in the page:\n%s", name, want, text)
			}
		}
		for _, bad := range c.mustnt {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %q without evidence:\n%s", name, bad, text)
			}
		}
	}
}
