package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// steadyText is Text for runs of constant loads.
func steadyText(w io.Writer, vs []view, ss []steadyView) error {
	out := bufio.NewWriter(w)
	for i := range ss {
		for _, line := range ss[i].verdicts(len(ss) > 1) {
			wrapped(out, "", "  ", sentence(line))
		}
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
	if len(ss) > 1 {
		header, rows := sideBySide(ss)
		fmt.Fprintln(out, "\nside by side")
		writeTable(out, header, rows, false)
	}
	for i := range ss {
		v := &ss[i]
		fmt.Fprintf(out, "\n%s\n", oneLine(v.label))
		if rows := v.causes(); rows != nil {
			writeTable(out, causeHeader, rows, true)
		}
		for _, text := range []string{v.absent(), v.missing()} {
			if text != "" {
				wrapped(out, "  ", "  ", text)
			}
		}
		fmt.Fprintf(out, "\n  by hour of the day, %s; the worst was %s\n", v.zoneText(), v.worst())
		writeTable(out, hourHeader, v.hours(), true)
		writeFacts(out, v.rec.Run.Name, v.facts())
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

// writeTable writes columns of minimum width. Figures are right-aligned; the first
// column and, if last is set, the last are left-aligned.
func writeTable(w io.Writer, header []string, rows [][]string, last bool) {
	widths := make([]int, len(header))
	all := append([][]string{header}, rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(oneLine(cell)))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			cell = oneLine(cell)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || last && i == len(row)-1 && len(header) == len(causeHeader) {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// steadyMarkdown writes the content of steadyText as Markdown.
func steadyMarkdown(w io.Writer, vs []view, ss []steadyView) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, "# A constant load over time\n\n")
	for i := range ss {
		for _, line := range ss[i].verdicts(len(ss) > 1) {
			fmt.Fprintf(out, "%s\n\n", markdownText(sentence(line)))
		}
	}
	for _, p := range allProblems(vs) {
		strong := ""
		if p.serious {
			strong = "**"
		}
		fmt.Fprintf(out, "- %s%s: %s%s\n", strong, markdownText(p.label), markdownText(p.text), strong)
	}
	fmt.Fprintln(out)
	header, rows := sideBySide(ss)
	markdownTable(out, header, rows)
	for i := range ss {
		v := &ss[i]
		if rows := v.causes(); rows != nil {
			fmt.Fprintf(out, "\n## What went with the time below target: %s\n\n", markdownText(v.label))
			markdownTable(out, causeHeader, rows)
		}
		for _, text := range []string{v.absent(), v.missing()} {
			if text != "" {
				fmt.Fprintf(out, "\n%s\n", markdownText(sentence(text)))
			}
		}
		fmt.Fprintf(out, "\n## By hour of the day, %s: %s\n\n", markdownText(v.zoneText()), markdownText(v.label))
		markdownTable(out, hourHeader, v.hours())
	}
	fmt.Fprint(out, "\n## The runs\n\n")
	head := []string{""}
	for i := range vs {
		head = append(head, vs[i].label)
	}
	markdownTable(out, head, factTable(vs))
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write Markdown report: %w", err)
	}
	return nil
}
