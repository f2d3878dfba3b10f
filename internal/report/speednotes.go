package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// serverFlags are the kinds of flags that matter between contenders, which are
// intended to be different servers, or settings, with the same work.
var serverFlags = []string{"durability", "cache", "machine", "settings", "server"}

// flags compares the contenders with the first, using one run of each.
func (t *SpeedTest) flags(recs []result.Record, of []int) {
	a := slices.Index(of, 0)
	for n := 1; n < len(t.Contenders); n++ {
		b := slices.Index(of, n)
		x, y := &recs[a], &recs[b]
		same := x.Run.Engine == y.Run.Engine
		for _, f := range flags(x, y, x.Summary(), y.Summary()) {
			switch {
			case !slices.Contains(serverFlags, f.Kind), !same && f.Kind == "server", !same && f.What != "" && f.Kind != "machine":
				continue // settings of other engines have different names
			case t.Contenders[n].SettingHow == result.SettingRunning:
				continue // the same server
			case t.compared(n, f):
				continue
			}
			t.Flags = append(t.Flags, fmt.Sprintf("%s against %s: %s", t.Contenders[0].Label, t.Contenders[n].Label, f.Text))
		}
		if x.Run.Speed.Filled != y.Run.Speed.Filled || x.Run.Preset != y.Run.Preset || x.Run.MaxTimeSeconds != y.Run.MaxTimeSeconds {
			t.Flags = append(t.Flags, fmt.Sprintf("%s against %s: different tables, rows or durations", t.Contenders[0].Label, t.Contenders[n].Label))
		}
	}
}

// crowded is the share of all cores above which other programs are reported to have
// disturbed a cell; an idle machine uses up to this share.
const crowded = 0.1

// othersShare returns the share of all cores that was neither idle nor used by
// rowmill or the server: that of other programs and the host. It is NaN if the
// server's share is unknown.
func othersShare(rec *result.Record, s result.Summary) float64 {
	own := s.Client.CPUSeconds
	switch {
	case rec.End == nil:
		return math.NaN()
	case s.Server.CPUSeconds != nil:
		own += *s.Server.CPUSeconds
	case !rec.Run.Embedded:
		return math.NaN()
	}
	var used, seconds float64
	for _, iv := range rec.Intervals {
		if user, ok := iv.Counters["os_cpu_user"]; ok {
			used += iv.Seconds * (user + iv.Counters["os_cpu_system"] + iv.Counters["os_cpu_steal"])
			seconds += iv.Seconds
		}
	}
	if seconds == 0 || s.Seconds == 0 || rec.Run.Machine.Cores == 0 {
		return math.NaN()
	}
	return max(0, used/seconds-own/s.Seconds/float64(rec.Run.Machine.Cores))
}

// compared reports whether a flag concerns the setting being compared: the server's
// name for it may begin with that of the target's option.
func (t *SpeedTest) compared(n int, f Flag) bool {
	for _, c := range []Contender{t.Contenders[0], t.Contenders[n]} {
		name, _, ok := strings.Cut(c.Setting, "=")
		if ok && (strings.HasPrefix(f.What, name) || f.Kind == name) {
			return true
		}
	}
	return false
}

// warnings collects the records' warnings, each text once with the cells that it
// concerns.
func (t *SpeedTest) warnings(recs []result.Record, of []int) {
	where := map[string][]string{}
	var texts []string
	for i := range recs {
		rec := &recs[i]
		cell := fmt.Sprintf("%s with %s on %s", rec.Run.Speed.Operation, plural(rec.Run.Speed.Clients, "client", "clients"), t.Contenders[of[i]].Label)
		v := view{rec: rec}
		if how := v.incomplete(); how != "" {
			t.Failures = append(t.Failures, cell+" "+how)
		}
		for _, w := range rec.Summary().Warnings {
			if strings.HasPrefix(w, "client-bound:") || strings.HasPrefix(w, "the run was cut off") {
				continue // the matrix shows it
			}
			if missing := "server counters missing"; strings.HasPrefix(w, missing) {
				w = missing + " in some intervals" // their number differs from cell to cell
			}
			if where[w] == nil {
				texts = append(texts, w)
			}
			where[w] = append(where[w], cell)
		}
	}
	for _, w := range texts {
		in := where[w][0]
		if n := len(where[w]) - 1; n > 0 {
			in += fmt.Sprintf(" and %d more", n)
		}
		t.Warnings = append(t.Warnings, fmt.Sprintf("%s (%s)", w, in))
	}
}
