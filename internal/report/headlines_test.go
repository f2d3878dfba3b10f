package report_test

import (
	"slices"
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

// TestCantTellApart: in every family, two are not ranked if the interval of their ratio contains 1
// or their medians say the reverse: here the ratio of the means of pairs says that the second is
// faster, and the medians that it is slower.
func TestCantTellApart(t *testing.T) {
	t.Parallel()
	first, second := []float64{1, 1.01, 0.4}, []float64{0.95, 0.95, 1.2}
	var repeats, ways, servers []result.Record
	for i := range first {
		for k, rate := range []float64{first[i], second[i]} {
			r := recordOf(slices.Repeat([]float64{0.02}, 100), rate, i+1)
			r.Run.Layout = []string{"plain", "rolling"}[k]
			repeats = append(repeats, r)
			ways = append(ways, scanned([]string{result.ScanSerial, result.ScanParallel}[k], "a", i+1, 0, 12/rate))
			servers = append(servers, madeCell{operation: "insert", engine: []string{"mariadb", "postgres"}[k], clients: 8, repeat: i + 1, rate: 4000 * rate, p99: 900}.record(t))
		}
	}
	for name, c := range map[string]struct {
		recs   []result.Record
		say    string
		mustnt []string
	}{
		"repeats": {repeats, "Rolling and plain can't be told apart in the last tenth of 100k rows: 47,500 rows/s against 50,000 rows/s", []string{"ends at"}},
		"scans":   {ways, "Split by rowmill and one connection can't be told apart at 100 partitions, on 2 sessions: 1.26 s against 1.2 s", []string{"times as fast"}},
		"speed":   {servers, "can't be told apart at their best", []string{"is fastest"}},
	} {
		text := strings.Join(strings.Fields(render(t, "txt", c.recs)), " ")
		if !strings.Contains(text, c.say) {
			t.Errorf("%s: no %q:\n%s", name, c.say, text)
		}
		for _, bad := range c.mustnt {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %q without evidence:\n%s", name, bad, text)
			}
		}
	}
}

// TestGainBeyondCores: a parallel scan that gains more than the cores of the server's machine has
// another cause as well.
func TestGainBeyondCores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, target string
		cores        int
		beyond       bool
	}{
		{"two cores", "sandbox:mariadb", 2, true},
		{"four cores", "sandbox:mariadb", 4, false},
		{"another machine", "mysql://db1/shop", 2, false},
	} {
		recs := []result.Record{scanned(result.ScanSerial, c.target, 1, 0, 12), scanned(result.ScanParallel, c.target, 1, 0, 5.26)}
		for i := range recs {
			recs[i].Run.Machine.Cores = c.cores
		}
		text := strings.Join(strings.Fields(render(t, "txt", recs)), " ")
		if !strings.Contains(text, "2.28 times as fast") || strings.Contains(text, "more than its 2 cores can give") != c.beyond {
			t.Errorf("%s:\n%s", c.name, text)
		}
	}
}
