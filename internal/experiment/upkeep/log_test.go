package upkeep

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/workload"
)

// at is a moment of a run, in milliseconds.
func at(ms int) time.Time { return time.Date(2026, 11, 20, 12, 0, 0, ms*1e6, time.UTC) }

// TestSyncs checks which sync of another file belongs to a stall.
func TestSyncs(t *testing.T) {
	var d Syncs
	for _, s := range []struct{ from, took int }{{100, 5}, {150, 300}, {450, 40}, {900, 9}} {
		d.add(probe.Sync{Began: at(s.from), Took: time.Duration(s.took) * time.Millisecond})
	}
	if d.count != 4 || len(d.slow) != 2 || d.longest != 300*time.Millisecond {
		t.Errorf("%+v", d)
	}
	for _, c := range []struct{ from, to, want int }{{0, 150, 0}, {0, 151, 300}, {449, 460, 300}, {450, 460, 40}, {489, 900, 40}, {490, 910, 0}} {
		if got := d.during(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d ms: %v, want %d ms", c.from, c.to, got, c.want)
		}
	}
}

func TestStalls(t *testing.T) {
	slow := func(from, took int) workload.SlowInsert {
		return workload.SlowInsert{Began: at(from), Took: time.Duration(took) * time.Millisecond}
	}
	var l Log
	for _, d := range []struct {
		action   string
		from, to int
		err      error
		news     bool
	}{
		{"rebuild", 0, 900, nil, true}, {"drop", 150, 200, nil, true}, {"drop", 150, 200, nil, false}, {"seal", 500, 500, nil, false}, {"merge", 2000, 2100, errors.New("lock"), true},
		{"merge", 3000, 3100, nil, true},
	} {
		if got := l.Add(maintain.Event{Action: d.action, Detail: "p1", At: at(d.to), Took: time.Duration(d.to-d.from) * time.Millisecond, Err: d.err}); got != d.news {
			t.Errorf("%s is news: %v", d.action, got)
		}
	}
	got := l.stalls([]workload.SlowInsert{slow(300, 150), slow(100, 120), slow(120, 200), slow(2050, 110), slow(2400, 100), slow(5000, 100)}, nil)
	var lines []string
	for _, s := range got {
		lines = append(lines, s.At.Format("05.000")+" "+time.Duration(s.Seconds*1e9).String()+" "+strings.Repeat("x", s.Inserts)+" "+strings.Join(s.During, ", "))
	}
	if d := cmp.Diff([]string{"00.100 200ms xxx drop p1, rebuild p1", "02.050 110ms x merge p1", "02.400 100ms x another try of merge p1", "05.000 100ms x "}, lines); d != "" {
		t.Error(d)
	}
}
