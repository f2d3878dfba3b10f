package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/result"
)

// textWidth is where lines of text are wrapped: what a terminal of 120
// columns shows without breaking words itself.
const textWidth = 118

// Text writes a compact summary of each run for people to read, and with
// several runs the ratio of their last rates.
func Text(w io.Writer, recs []result.Record) error {
	vs, err := views(recs)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for i := range vs {
		if i > 0 {
			fmt.Fprintln(out)
		}
		vs[i].text(out)
	}
	if lines := ratios(vs); len(lines) > 0 {
		fmt.Fprintln(out)
		for _, line := range lines {
			wrapped(out, "", "", line)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

func (v *view) text(w io.Writer) {
	title := v.rec.Run.Name
	if title == "" {
		title = v.label
	}
	fmt.Fprintln(w, oneLine(title))
	facts := v.facts()
	for _, warning := range v.sum.Warnings {
		facts = append(facts, fact{"warning", warning})
	}
	width := 0
	for _, f := range facts {
		width = max(width, utf8.RuneCountInString(f.name))
	}
	for _, f := range facts {
		wrapped(w, fmt.Sprintf("  %-*s  ", width, f.name), strings.Repeat(" ", width+4), f.value)
	}
}

// wrapped writes text behind a first prefix, broken between words, further
// lines behind rest.
func wrapped(w io.Writer, first, rest, text string) {
	line := first
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

// oneLine replaces what would break a line or steer a terminal: names and
// errors come from servers and from files.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
