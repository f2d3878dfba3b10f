package report

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

func TestTexts(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"sentence", document.AsSentence("éclair fell"), "Éclair fell."},
		{"sentence that ends", document.AsSentence("Done."), "Done."},
		{"no sentence", document.AsSentence(""), ""},
		{"control characters", oneLine("a\x1b[31mb\nc"), "a [31mb c"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.name, c.got, c.want)
		}
	}
}

// TestKeepText: a stall shows how long a sync of another file took at the same time.
func TestKeepText(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Date(2026, 11, 20, 12, 0, 0, ms*1e6, time.UTC) }
	f := KeepFigures{Keep: result.Keep{StallMS: 100, Disk: &result.KeepDisk{Syncs: 4, Slow: 2, Longest: .3}, Longest: result.KeepStall{Seconds: .31, Sync: .3},
		Stalls: []result.KeepStall{{At: at(140), Seconds: .31, Sync: .3, Inserts: 2, During: []string{"merge p1"}}, {At: at(600), Seconds: .2, Inserts: 1, During: []string{"drop p1"}}}}}
	var out strings.Builder
	if err := f.Text(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"; syncing another file took 300 ms then\n", "disk         4 syncs of another file, 2 of them over 10 ms, longest 300 ms\n",
		`longest\s+sync\s+inserts\s+during`, `310 ms\s+300 ms\s+2\s+merge p1`, `200 ms\s+-\s+1\s+drop p1`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
