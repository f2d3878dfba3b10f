package report

import (
	"fmt"
	"strings"
)

// Flatness from keptFlatness on counts as a kept rate, above grownFlatness as a
// risen one: repeated runs of a steady load differ by less than a tenth.
const (
	keptFlatness  = 0.9
	grownFlatness = 1.1
)

// mostPercent is the ratio above which a rate is described as a multiple of another
// instead of a percentage.
const mostPercent = 10

// share describes a rate as a share of another, or as a multiple if it is far above.
func share(f float64) string {
	if f > mostPercent {
		return fmt.Sprintf("%.0f times", f)
	}
	return percent(f)
}

func (v *view) verdict() string {
	s := v.label + " "
	flat := v.sum.Rate.Flatness
	switch {
	case v.sum.Rows == 0:
		s += "inserted no rows"
	case flat == 0:
		s += fmt.Sprintf("inserted %s rows", short(float64(v.sum.Rows)))
	case v.sum.Knee != nil && flat >= 0.5:
		s += fmt.Sprintf("fell below half of its first rate at %s rows and came back to %s of it", short(float64(v.sum.Knee.Rows)), percent(flat))
	case v.sum.Knee != nil:
		s += fmt.Sprintf("fell to %s of its first rate, with the knee at %s rows", percent(flat), short(float64(v.sum.Knee.Rows)))
	case v.rec.Run.Search != nil && flat > grownFlatness:
		// The search chose the rates, so the first and the last are not comparable.
		s += fmt.Sprintf("inserted %s rows, at the rates that the search tried", short(float64(v.sum.Rows)))
	case flat > mostPercent:
		s += fmt.Sprintf("rose to %s its first rate over %s rows", share(flat), short(float64(v.sum.Rows)))
	case flat > grownFlatness:
		s += fmt.Sprintf("rose to %s of its first rate over %s rows", percent(flat), short(float64(v.sum.Rows)))
	case flat >= keptFlatness:
		s += fmt.Sprintf("kept %s of its first rate over %s rows", percent(flat), short(float64(v.sum.Rows)))
	default:
		s += fmt.Sprintf("fell to %s of its first rate over %s rows", percent(flat), short(float64(v.sum.Rows)))
	}
	if v.overloaded() {
		s += fmt.Sprintf(", and did only %s of the %s offered", percent(v.loop.Done/v.loop.Asked), rowsRate(v.loop.Asked))
	}
	if how := v.incomplete(); how != "" {
		how, _, _ = strings.Cut(how, ":")
		s += ", before it " + map[string]string{"failed": "failed", "interrupted": "was interrupted", "cut off": "was cut off"}[how]
	}
	return s
}

// ratios describes, for each rolling run, the ratio of its last rate to that of the
// matching plain run: the same engine and preset, preferably from the same file.
// Repeats are combined.
func ratios(vs []view) []string {
	var out []string
	for i := range vs {
		r := &vs[i]
		if r.rec.Run.Layout != "rolling" || r.sum.Rate.Last <= 0 || r.minor {
			continue
		}
		p := plainBeside(vs, r)
		if p == nil || p.sum.Rate.Last <= 0 {
			continue
		}
		if r.repeats != nil && p.repeats != nil {
			if line := ratioOfRepeats(vs, p, r); line != "" {
				out = append(out, line)
			}
			continue
		}
		line := fmt.Sprintf("%s ends at %s the rate of %s: %s against %s in the last tenth",
			r.label, ratio(r.sum.Rate.Last/p.sum.Rate.Last), p.label, rowsRate(r.sum.Rate.Last), rowsRate(p.sum.Rate.Last))
		if r.sum.Rows != p.sum.Rows {
			line += fmt.Sprintf(", after %s and %s rows", count(r.sum.Rows), count(p.sum.Rows))
		}
		out = append(out, line)
	}
	return out
}

func plainBeside(vs []view, r *view) *view {
	var found *view
	for i := range vs {
		p := &vs[i]
		if p.minor || p.rec.Run.Layout != "plain" || p.rec.Run.Side != r.rec.Run.Side || p.rec.Run.Engine != r.rec.Run.Engine || p.rec.Run.Preset != r.rec.Run.Preset {
			continue
		}
		if a, b := &p.rec.Run, &r.rec.Run; a.Scenario != nil && (a.Batch != b.Batch || a.Indexes != b.Indexes || a.Writers != b.Writers) {
			continue // runs of a scenario match only if they differ in the layout alone
		}
		if p.rec.Source == r.rec.Source {
			return p
		}
		if found == nil {
			found = p
		}
	}
	return found
}
