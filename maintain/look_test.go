package maintain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// problem returns the text of a problem and what to try, "" without one.
func (w *world) problem(code string) string {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Problems, func(p Problem) bool { return p.Code == code })
	if i < 0 {
		return ""
	}
	return s.Problems[i].Text + "\n" + s.Problems[i].Try
}

// TestClockThatRanAhead: where periods are ahead of the present, another pass
// makes none at the present, and isn't advised.
func TestClockThatRanAhead(t *testing.T) {
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Keep = span(2 * time.Hour) }), at(0.2))
	w.now = at(40)
	w.keep()
	w.now = at(0.5)
	w.keep()
	if got := w.problem("headroom"); !strings.Contains(got, "The last one ends at "+w.Table.Table.Grid.Format(at(43))) || strings.Contains(got, "--once") {
		t.Errorf("%q; periods %s", got, w.parts())
	}
}
