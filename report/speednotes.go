package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// serverFlags are the kinds of flags that matter between contenders: they are
// meant to be different servers, or settings, at the same work.
var serverFlags = []string{"durability", "cache", "machine", "settings", "server"}

// flags compares the contenders with the first, by a run of each.
func (t *SpeedTest) flags(recs []result.Record, of []int) {
	a := slices.Index(of, 0)
	for n := 1; n < len(t.Contenders); n++ {
		b := slices.Index(of, n)
		x, y := &recs[a], &recs[b]
		same := x.Run.Engine == y.Run.Engine
		for _, f := range flags(x, y, x.Summary(), y.Summary()) {
			switch {
			case !slices.Contains(serverFlags, f.Kind), !same && f.Kind == "server", !same && f.What != "" && f.Kind != "machine":
				continue // settings of other engines have other names
			case t.Contenders[n].SettingHow == result.SettingRunning:
				continue // one server
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

// crowded is the share of all cores from which on other programs are said to
// have disturbed a cell: below, it is what a machine does when it does nothing.
const crowded = 0.1

// othersShare returns the part of all cores that neither rowmill nor the server
// had, and that wasn't idle: other programs' and the host's. NaN where the
// server's part isn't known.
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

// compared tells that a flag is about the very setting that is compared: its
// server's name for it may begin with that of the target's option.
func (t *SpeedTest) compared(n int, f Flag) bool {
	for _, c := range []Contender{t.Contenders[0], t.Contenders[n]} {
		name, _, ok := strings.Cut(c.Setting, "=")
		if ok && (strings.HasPrefix(f.What, name) || f.Kind == name) {
			return true
		}
	}
	return false
}

// warnings gathers what the records say, each text once with the cells that it
// is about.
func (t *SpeedTest) warnings(recs []result.Record, of []int) {
	where := map[string][]string{}
	var texts []string
	for i := range recs {
		rec := &recs[i]
		cell := fmt.Sprintf("%s with %s on %s", rec.Run.Speed.Operation, plural(int64(rec.Run.Speed.Clients), "client", "clients"), t.Contenders[of[i]].Label)
		v := view{rec: rec}
		if how := v.incomplete(); how != "" {
			t.Failures = append(t.Failures, cell+" "+how)
		}
		for _, w := range rec.Summary().Warnings {
			if strings.HasPrefix(w, "client-bound:") || strings.HasPrefix(w, "the run was cut off") {
				continue // the matrix says so
			}
			if missing := "server counters missing"; strings.HasPrefix(w, missing) {
				w = missing + " in some intervals" // how many differs from cell to cell
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
