package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/result"
)

// textWidth is the width at which text is wrapped; it fits a terminal of 120
// columns.
const textWidth = 118

// Text writes a summary as text: a sentence on each run, what to know before
// believing it, and then the figures of each run.
//
// The runs of an insert-method matrix are reported together, as by Matrix; the same
// applies to all other formats.
func Text(w io.Writer, recs []result.Record) error {
	if all, err := wholeOf(recs); err != nil {
		return err
	} else if all != nil {
		return all.Text(w)
	}
	recs, benchmarks := splitSteps(recs)
	out := bufio.NewWriter(w)
	for i, steps := range benchmarks {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := benchmarkText(out, steps); err != nil {
			return err
		}
	}
	if len(benchmarks) > 0 && len(recs) > 0 {
		fmt.Fprintln(out)
	}
	if len(recs) > 0 || len(benchmarks) == 0 {
		if err := runsText(out, recs); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

// runsText writes the report of runs that are not steps.
func runsText(out io.Writer, recs []result.Record) error {
	vs, err := views(recs)
	if err != nil {
		return err
	}
	if ss := steadies(vs); ss != nil {
		return steadyText(out, vs, ss)
	}
	searches := capacities(recs)
	for _, line := range findings(searches) {
		wrapped(out, "", "  ", sentence(line))
	}
	writeScenarios(out, recs)
	for _, line := range verdicts(vs) {
		wrapped(out, "", "  ", sentence(line))
	}
	for _, line := range ratios(vs) {
		wrapped(out, "", "  ", sentence(line))
	}
	for _, p := range allProblems(vs) {
		mark := "! "
		if p.serious {
			mark = "!! "
		}
		if len(vs) > 1 {
			mark += p.label + ": "
		}
		wrapped(out, mark, "   ", p.text)
	}
	for i := range searches {
		for _, p := range searches[i].problems() {
			mark := "! "
			if p.serious {
				mark = "!! "
			}
			wrapped(out, mark+"capacity of "+searches[i].label+": ", "   ", p.text)
		}
	}
	writeCapacities(out, searches)
	if g := constantSize(vs); g != nil {
		g.write(out)
	}
	writeRepeats(out, vs)
	shared := sharedFacts(vs)
	for _, i := range leaders(vs) {
		title := vs[i].rec.Run.Name
		if title == "" {
			title = vs[i].label
		}
		if n := len(vs[i].repeats); n > 0 {
			title += fmt.Sprintf(", the median of %d", n)
		}
		writeFacts(out, title, slices.DeleteFunc(vs[i].facts(), func(f fact) bool { return slices.Contains(shared, f) }))
	}
	if len(shared) > 0 {
		writeFacts(out, "all runs", shared)
	}
	return nil
}

// sharedFacts returns the facts about the runs' conditions that are the same for all
// of several runs.
func sharedFacts(vs []view) []fact {
	if len(vs) < 2 {
		return nil
	}
	var shared []fact
	for _, f := range vs[0].facts() {
		where := slices.Contains([]string{"server", "settings", "machine", "target"}, f.name)
		if where && !slices.ContainsFunc(vs[1:], func(v view) bool { return !slices.Contains(v.facts(), f) }) {
			shared = append(shared, f)
		}
	}
	return shared
}

func writeFacts(w io.Writer, title string, facts []fact) {
	fmt.Fprintf(w, "\n%s\n", oneLine(title))
	width := 0
	for _, f := range facts {
		width = max(width, utf8.RuneCountInString(f.name))
	}
	for _, f := range facts {
		wrapped(w, fmt.Sprintf("  %-*s  ", width, oneLine(f.name)), strings.Repeat(" ", width+4), f.value)
	}
}

// wrapped writes text after the prefix first, broken between words; further lines
// have the prefix rest.
func wrapped(w io.Writer, first, rest, text string) {
	line := oneLine(first)
	empty := true
	for _, word := range strings.Fields(oneLine(text)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			fmt.Fprintln(w, line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

// oneLine replaces characters that would break a line or control a terminal: names
// and errors come from servers and files.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
