package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// Repeats groups runs of one configuration, in the order of the first run of each.
func Repeats(recs []result.Record) (out [][]result.Record) {
	for _, runs := range runsOf(recs) {
		var group []result.Record
		for _, r := range runs {
			group = append(group, *r)
		}
		out = append(out, group)
	}
	return out
}

// runsOf returns the runs of each configuration.
func runsOf(recs []result.Record) (out [][]*result.Record) {
	g := newGrid("configuration")
	for i := range recs {
		g.add(sample{v: &view{rec: &recs[i]}}, configuration(&recs[i].Run))
	}
	for _, c := range g.cells {
		out = append(out, c.records())
	}
	return out
}

// configuration returns a text that identifies a run's configuration. It leaves out the seed, and
// the length of a period, which varies if it is fitted to the cache.
func configuration(r *result.Run) string {
	keep := r.KeepPeriods
	if r.KeepRows > 0 {
		keep = 0 // it follows from the period, which is measured again for each repeat
	}
	return fmt.Sprintf("%#v", []any{r.Workload, r.Preset, r.Layout, r.Method, r.Side, r.Engine, r.ServerVersion, r.Storage, r.Durability,
		r.CacheBytes, r.Rows, r.Writers, r.Batch, r.Indexes, keep, r.Rate, r.MaxTimeSeconds, r.KillServerSeconds,
		r.KeepRows, r.ReadAfter, r.Readers, stepName(r)})
}

// matched pairs the runs of two groups: by their repeat number if every run has a number of its
// own, otherwise by position. If there are several pairs, it leaves out pairs with an unfinished
// run. left lists what was left out, with the reason.
func matched(a, b []*result.Record) (pairs [][2]*result.Record, left []string) {
	numbered := numbered(a) && numbered(b)
	partner := func(i int, r *result.Record, others []*result.Record) *result.Record {
		if numbered {
			i = slices.IndexFunc(others, func(o *result.Record) bool { return o.Run.Repeat == r.Run.Repeat })
		}
		if i < 0 || i >= len(others) {
			return nil
		}
		return others[i]
	}
	for i, r := range a {
		if o := partner(i, r, b); o != nil {
			pairs = append(pairs, [2]*result.Record{r, o})
		} else {
			left = append(left, "A: "+r.Run.Name+" (no counterpart)")
		}
	}
	for i, r := range b {
		if partner(i, r, a) == nil {
			left = append(left, "B: "+r.Run.Name+" (no counterpart)")
		}
	}
	for i := 0; i < len(pairs) && len(pairs) > 1; {
		if why := unfinished(pairs[i]); why != "" {
			left = append(left, why)
			pairs = slices.Delete(pairs, i, i+1)
		} else {
			i++
		}
	}
	return pairs, left
}

// numbered reports whether all runs have a repeat number of their own.
func numbered(runs []*result.Record) bool {
	seen := map[int]bool{0: true}
	for _, r := range runs {
		seen[r.Run.Repeat] = true
	}
	return len(seen) == len(runs)+1
}

// unfinished describes which run of a pair did not come to its end, and why; "" if both did.
func unfinished(p [2]*result.Record) string {
	for i, r := range p {
		v := view{rec: r}
		if how := v.incomplete(); how != "" {
			return fmt.Sprintf("%s of %s was not finished (%s)", r.Run.Name, []string{"A", "B"}[i], how)
		}
	}
	return ""
}

// bundles marks the repeats: runs of one configuration in one file.
func bundles(vs []view, recs []result.Record) {
	at := map[*result.Record]int{}
	for i := range recs {
		at[&recs[i]] = i
	}
	for _, group := range runsOf(recs) {
		byFile := map[string][]int{}
		for _, r := range group {
			byFile[r.Source] = append(byFile[r.Source], at[r])
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

// leaders returns the indexes of the runs that weren't repeated, and for each group of repeats the
// index of its median run.
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

// bundleLabel names the run, or its repeats with their number.
func (v *view) bundleLabel() string {
	return v.configuration() + onlyIf(v.repeats != nil, fmt.Sprintf(", %d runs", len(v.repeats)))
}

// median names the run, or its repeats, whose median run it is.
func (v *view) median() string {
	return v.configuration() + onlyIf(v.repeats != nil, fmt.Sprintf(", the median of %d runs", len(v.repeats)))
}

// configuration names what repeats have in common, or a single run.
func (v *view) configuration() string {
	if v.repeats == nil {
		return v.label
	}
	return cmp.Or(strings.TrimSpace(v.rec.Run.Side+" "+v.rec.Run.Layout), v.label)
}

// verdicts describes each run in a sentence, and repeats by the median run and their spread.
func verdicts(vs []view) []string {
	var out []string
	for _, i := range leaders(vs) {
		v := vs[i]
		if v.repeats == nil {
			out = append(out, v.verdict())
			continue
		}
		v.label = v.median() + ","
		out = append(out, v.verdict()+"; "+spreadOf(vs, v.repeats))
	}
	return out
}

// spreadOf describes the mean rates of repeats.
func spreadOf(vs []view, group []int) string {
	var rates []float64
	for _, i := range group {
		rates = append(rates, vs[i].sum.RowsPerSecond)
	}
	mean, variance := statistics.MeanVariance(rates)
	return fmt.Sprintf("the runs' mean rates are %s to %s, median %s, standard deviation %s",
		figure(slices.Min(rates)), figure(slices.Max(rates)), rowsRate(statistics.Median(rates)), percent(math.Sqrt(variance)/mean))
}

// allProblems returns the problems of all runs, each text once. If the report has several runs,
// each problem has the labels of its runs.
func allProblems(vs []view) (out []document.Note) {
	var who [][]string
	at := map[document.Note]int{}
	for i := range vs {
		for _, p := range vs[i].problems() {
			if missing := "server counters missing"; len(vs) > 1 && strings.HasPrefix(p.Text, missing) {
				p.Text = missing + " in some intervals" // their number differs from run to run
			}
			k, seen := at[p]
			if !seen {
				k = len(out)
				at[p], out, who = k, append(out, p), append(who, nil)
			}
			if who[k] = append(who[k], vs[i].label); len(vs) > 1 {
				out[k].Label = few(who[k])
			}
		}
	}
	return out
}

func repeatSections(vs []view) []document.Part {
	var out []document.Part
	for i := range vs {
		if vs[i].repeats == nil || vs[i].repeats[0] != i {
			continue
		}
		t := &document.Table{Header: []string{"", "mean rate", "last tenth", "rows"}}
		for _, j := range vs[i].repeats {
			s := &vs[j].sum
			t.Add(vs[j].label, rowsRate(s.RowsPerSecond), rowsRate(s.Rate.Last), count(s.Rows))
		}
		out = append(out, &document.Section{Title: vs[i].bundleLabel(), In: document.InText, Parts: []document.Part{t}})
	}
	return out
}
