package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// bundles marks the repeats among the reported runs: runs of one configuration in one
// file. Runs in different files are shown side by side, for comparison.
func bundles(vs []view, recs []result.Record) {
	for _, group := range grouped(recs) {
		byFile := map[string][]int{}
		for _, i := range group {
			byFile[recs[i].Source] = append(byFile[recs[i].Source], i)
		}
		for _, runs := range byFile {
			if len(runs) < 2 {
				continue
			}
			byRate := slices.Clone(runs)
			slices.SortStableFunc(byRate, func(i, j int) int { return cmp.Compare(vs[i].sum.RowsPerSecond, vs[j].sum.RowsPerSecond) })
			for _, i := range runs {
				vs[i].repeats, vs[i].minor = runs, i != byRate[(len(byRate)-1)/2]
			}
		}
	}
}

// leaders returns the indexes of the runs that represent themselves or their
// repeats, in the order of the first run of each configuration.
func leaders(vs []view) []int {
	var out []int
	for i := range vs {
		switch r := vs[i].repeats; {
		case r == nil:
			out = append(out, i)
		case r[0] == i:
			out = append(out, r[slices.IndexFunc(r, func(j int) bool { return !vs[j].minor })])
		}
	}
	return out
}

// bundleLabel names what the run represents: itself, or its repeats.
func (v *view) bundleLabel() string {
	if v.repeats == nil {
		return v.label
	}
	return fmt.Sprintf("%s, %d runs", v.configuration(), len(v.repeats))
}

func (v *view) configuration() string {
	name := strings.TrimSpace(v.rec.Run.Side + " " + v.rec.Run.Layout)
	if name == "" {
		return v.label
	}
	return name
}

// verdicts describes each run in a sentence; repeats are described by the median run
// and their spread.
func verdicts(vs []view) []string {
	var out []string
	for _, i := range leaders(vs) {
		v := vs[i]
		if v.repeats == nil {
			out = append(out, v.verdict())
			continue
		}
		v.label = fmt.Sprintf("%s, the median of %d runs,", v.configuration(), len(v.repeats))
		out = append(out, v.verdict()+"; "+spreadOf(vs, v.repeats))
	}
	return out
}

// spreadOf describes the mean rates of repeats: their median, their range, and the
// standard deviation as a share of the mean.
func spreadOf(vs []view, group []int) string {
	var rates []float64
	for _, i := range group {
		rates = append(rates, vs[i].sum.RowsPerSecond)
	}
	mean, variance := meanVariance(rates)
	return fmt.Sprintf("the runs' mean rates are %s to %s, median %s, standard deviation %s",
		figure(slices.Min(rates)), figure(slices.Max(rates)), rowsRate(middle(rates)), percent(math.Sqrt(variance)/mean))
}

// ratioOfRepeats formats the ratio of the last rates of two bundles.
func ratioOfRepeats(vs []view, plain, rolling *view) string {
	runs := func(group []int) (out []*result.Record) {
		for _, i := range group {
			out = append(out, vs[i].rec)
		}
		return out
	}
	a, b := runs(plain.repeats), runs(rolling.repeats)
	pairs, _ := matched(a, b)
	if len(pairs) == 0 {
		return ""
	}
	p := comparePairs(a, b, pairs)
	if len(p.Windows) == 0 {
		return ""
	}
	last := p.Windows[len(p.Windows)-1]
	line := fmt.Sprintf("%s ends at %s the rate of %s", rolling.configuration(), ratio(deref(last.Ratio)), plain.configuration())
	if p.LastTenth != nil {
		line += fmt.Sprintf(" (95%% interval %s..%s, from %s)", ratio(p.LastTenth.Low), ratio(p.LastTenth.High), plural(len(pairs), "pair", "pairs"))
	}
	return line + fmt.Sprintf(": median %s against %s in the last tenth of %s rows", rowsRate(deref(last.B)), rowsRate(deref(last.A)), short(float64(p.Rows)))
}

// allProblems collects the problems of all runs, each with the run's label if there
// are several; a problem that several repeats share is listed once.
func allProblems(vs []view) []Note {
	var out []Note
	type key struct {
		bundle int
		note   Note
	}
	at, n := map[key]int{}, map[key]int{}
	for i := range vs {
		for _, p := range vs[i].problems() {
			k := key{-1 - i, p}
			if r := vs[i].repeats; r != nil {
				k.bundle = r[0]
			}
			n[k]++
			if n[k] > 1 {
				out[at[k]].Label = fmt.Sprintf("%s, %d runs", vs[i].configuration(), n[k])
				continue
			}
			if len(vs) > 1 {
				p.Label = vs[i].label
			}
			at[k] = len(out)
			out = append(out, p)
		}
	}
	return out
}

// repeatSections lists the runs of each bundle.
func repeatSections(vs []view) []Part {
	var out []Part
	for i := range vs {
		if vs[i].repeats == nil || vs[i].repeats[0] != i {
			continue
		}
		t := &table{Header: []string{"", "mean rate", "last tenth", "rows"}}
		for _, j := range vs[i].repeats {
			s := &vs[j].sum
			t.add(vs[j].label, rowsRate(s.RowsPerSecond), rowsRate(s.Rate.Last), count(s.Rows))
		}
		out = append(out, &section{Title: vs[i].bundleLabel(), In: inText, Parts: []Part{t}})
	}
	return out
}
