package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// Markdown writes the content of Text as tables, with one column per run.
func Markdown(w io.Writer, recs []result.Record) error {
	if all, err := wholeOf(recs); err != nil {
		return err
	} else if all != nil {
		return all.Markdown(w)
	}
	recs, benchmarks := splitSteps(recs)
	out := bufio.NewWriter(w)
	for i, steps := range benchmarks {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := benchmarkMarkdown(out, steps); err != nil {
			return err
		}
	}
	if len(benchmarks) > 0 && len(recs) > 0 {
		fmt.Fprintln(out)
	}
	if len(recs) > 0 || len(benchmarks) == 0 {
		if err := runsMarkdown(out, recs); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write Markdown report: %w", err)
	}
	return nil
}

// runsMarkdown writes the report of runs that are not steps.
func runsMarkdown(out io.Writer, recs []result.Record) error {
	vs, err := views(recs)
	if err != nil {
		return err
	}
	if ss := steadies(vs); ss != nil {
		return steadyMarkdown(out, vs, ss)
	}
	fmt.Fprint(out, "# Insert rate as the table grows\n\n")
	searches := capacities(recs)
	for _, line := range findings(searches) {
		fmt.Fprintf(out, "**%s**\n\n", markdownText(sentence(line)))
	}
	markdownScenarios(out, recs)
	for _, line := range verdicts(vs) {
		fmt.Fprintf(out, "%s\n\n", markdownText(sentence(line)))
	}
	for _, line := range ratios(vs) {
		fmt.Fprintf(out, "**%s**\n\n", markdownText(sentence(line)))
	}
	for _, p := range allProblems(vs) {
		strong := ""
		if p.serious {
			strong = "**"
		}
		fmt.Fprintf(out, "- %s%s: %s%s\n", strong, markdownText(p.label), markdownText(p.text), strong)
	}
	for i := range searches {
		for _, p := range searches[i].problems() {
			fmt.Fprintf(out, "- capacity of %s: %s\n", markdownText(searches[i].label), markdownText(p.text))
		}
	}
	markdownCapacities(out, searches)
	fmt.Fprintln(out)
	header := []string{""}
	for i := range vs {
		header = append(header, vs[i].label)
	}
	markdownTable(out, header, factTable(vs))
	fmt.Fprint(out, "\n## Rate over each tenth of the rows (rows/s)\n\n")
	markdownTable(out, header, tenthsTable(vs))
	if g := constantSize(vs); g != nil {
		g.markdown(out)
	}
	return nil
}

// factTable arranges the facts of all runs side by side: one row, beginning with its
// name, for each fact that any run has.
func factTable(vs []view) [][]string {
	var names []string
	values := make([]map[string]string, len(vs))
	for i := range vs {
		values[i] = map[string]string{}
		at := 0
		for _, f := range vs[i].facts() {
			values[i][f.name] = f.value
			if j := slices.Index(names, f.name); j >= 0 {
				at = j + 1
				continue
			}
			names = slices.Insert(names, at, f.name)
			at++
		}
	}
	var rows [][]string
	for _, name := range names {
		row := []string{name}
		for i := range vs {
			row = append(row, values[i][name])
		}
		rows = append(rows, row)
	}
	return rows
}

// tenthsTable contains the mean rate of each run over each tenth of its rows.
func tenthsTable(vs []view) [][]string {
	const tenths = 10
	rows := make([][]string, tenths)
	for i := range rows {
		rows[i] = []string{fmt.Sprintf("%d%% to %d%%", 10*i, 10*(i+1))}
	}
	for i := range vs {
		w := vs[i].curve.Windows(tenths)
		for j := range rows {
			cell := none
			if w != nil {
				cell = figure(w[j])
			}
			rows[j] = append(rows[j], cell)
		}
	}
	return rows
}

func markdownTable(w io.Writer, header []string, rows [][]string) {
	line := func(cells []string) {
		for _, c := range cells {
			if c = markdownText(c); c == "" {
				c = " "
			}
			fmt.Fprintf(w, "| %s ", c)
		}
		fmt.Fprintln(w, "|")
	}
	line(header)
	fmt.Fprintln(w, strings.Repeat("|---", len(header))+"|")
	for _, r := range rows {
		line(r)
	}
}

// markdownEscaper escapes the characters that begin inline markup; apart from these,
// a table needs only its bars escaped.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`)

func markdownText(s string) string {
	return strings.TrimSpace(markdownEscaper.Replace(oneLine(s)))
}
