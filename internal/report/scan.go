package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// wayNames are the ways of a partition scan in words.
var wayNames = map[string]string{result.ScanSerial: "one connection", result.ScanParallel: "split by rowmill", result.ScanServe: "through rowmill serve"}

// moreThanCores: a query whose gain exceeds the number of cores by more than this factor is
// doubtful. Measured times differ by a few percent.
const moreThanCores = 1.05

// scans lays out partition scans: a section for each table, with the number of partitions on the
// axis and a line for each way of asking. The first way measured is the base of the ratios.
func scans(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "table", "partitions", "way")
	for _, way := range result.ScanWays() { // in the usual order, whichever was first
		if slices.ContainsFunc(recs, func(r result.Record) bool { return r.Run.Scan.Way == way && len(result.ScanPoints(&r)) > 0 }) {
			p.factors[2].Levels = append(p.factors[2].Levels, wayNames[way])
		}
	}
	tables := map[string]*result.Run{}
	for i := range recs {
		r := &recs[i].Run
		name := p.label(i)
		if first := tables[name]; first != nil && tableOf(first) != tableOf(r) {
			name += ", " + tableOf(r)
		}
		for _, point := range result.ScanPoints(&recs[i]) {
			p.add(sample{v: &p.vs[i], figures: []float64{point.Seconds}, low: point.Low, high: point.High}, name, strconv.Itoa(point.Partitions), wayNames[r.Scan.Way])
		}
		if tables[name] == nil {
			tables[name] = r
		}
	}
	if len(p.cells) == 0 {
		return p, errors.New("report: no query of the partition scan was answered")
	}
	p.measures = func(string) []measure {
		return []measure{{key: "seconds", name: "time", format: func(s float64) string { return micros(1e6 * s) }, chart: "response time", compared: true, smaller: true}}
	}
	p.verdict, p.strong = func(s *panel) []string { return s.scanned(tables[s.name]) }, true
	p.text = func(s *panel) string { return tables[s.name].Scan.Query }
	for i := range recs {
		if s := recs[i].Run.Scan; s.Whole != "" {
			if n := (document.Note{Label: wayNames[s.Way], Text: "the query was passed to the server whole: " + s.Whole, Serious: true}); !slices.Contains(p.serious, n) {
				p.serious = append(p.serious, n)
			}
		}
	}
	r := &recs[0].Run
	p.title = "Partition scan: " + p.contenders[0].Label
	p.subtitle = append([]string{words(result.EngineName(r.Engine), r.ServerVersion), tableOf(r)}, p.common()...)
	for _, text := range r.Deviations {
		p.about = append(p.about, document.Fact{Name: "deviation", Value: text})
	}
	return p, nil
}

// scanned returns the results in sentences. At the largest number of partitions, they say how many
// times as fast as the base each way reads; at the smallest number, how much longer it takes.
func (s *panel) scanned(r *result.Run) (out []string) {
	base := s.factors[2].Levels[0]
	most := s.axis[len(s.axis)-1]
	if c := s.cell(most, base); c != nil {
		out = append(out, fmt.Sprintf("%s: %s reads %s of %s in %s.", s.name, base, plural(int(number(most)), "partition", "partitions"), plural(r.Scan.TableRows, "row", "rows"), micros(1e6*c.middle(0))))
	}
	for _, way := range s.lines {
		name := either(len(s.factors[0].Levels) > 1, s.name+", "+way, strings.TrimSuffix(document.AsSentence(way), "."))
		both := slices.DeleteFunc(slices.Clone(s.axis), func(at string) bool { return s.change(at, way) == nil })
		if len(both) == 0 {
			continue
		}
		fewest, most := both[0], both[len(both)-1]
		gain, run := s.change(most, way), &s.cell(most, way).samples[0].v.rec.Run
		at := fmt.Sprintf(" at %s, on %s", plural(int(number(most)), "partition", "partitions"), plural(run.Scan.Sessions, "session", "sessions"))
		text := cantTell(gain, name+" and "+base, at, s.measures[0].format)
		if text == "" {
			text = fmt.Sprintf("%s: %s times as fast%s", name, figure(math.Round(100**gain.Ratio)/100), at)
			if b := gain.Interval; b != nil {
				text += fmt.Sprintf(" (95%% interval %s..%s)", ratio(b.Low), ratio(b.High))
			}
			if cores := run.Machine.Cores; cores > 0 && *gain.Ratio > moreThanCores*float64(cores) && local(run) {
				text += fmt.Sprintf("; that is more than its %s can give: something else differs than how many work on it", plural(cores, "core", "cores"))
			}
		}
		out = append(out, text+".")
		cost := s.change(fewest, way)
		var longer []float64 // one difference per round, because a machine's speed changes between rounds
		for _, v := range cost.Repeats {
			longer = append(longer, *v.B-*v.A)
		}
		if by := statistics.Median(longer); cost.Verdict != statistics.NoDifference {
			out = append(out, fmt.Sprintf("%s: %s %s at %s.", name, micros(1e6*math.Abs(by)), either(by < 0, "shorter", "longer"), plural(int(number(fewest)), "partition", "partitions")))
		}
	}
	return out
}

// local reports whether the server ran on the machine that the record describes.
func local(r *result.Run) bool {
	return r.Embedded || r.Machine.Filesystem != "" || strings.HasPrefix(r.Target, "sandbox:")
}
