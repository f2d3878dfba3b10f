package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// textWidth is the width at which text is wrapped; it fits a terminal of 120
// columns.
const textWidth = 118

// leastWrapped is the least width to which a table's last column is wrapped.
const leastWrapped = 30

// Text writes the document for a terminal: the results, what to know before believing
// them, and then the figures.
func (d *Document) Text(w io.Writer) error {
	var t textWriter
	if !d.Untitled {
		t.wrapped("", "  ", d.Title)
		t.wrapped("", "  ", d.Subtitle)
	}
	t.block()
	for _, line := range d.Lines {
		t.wrapped("", "  ", line.Text)
	}
	t.notes("", d.Notes)
	t.parts(shown(d.Parts, inText), 0)
	if _, err := io.WriteString(w, t.out.String()); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

// A textWriter writes blocks of lines, with an empty line between them.
type textWriter struct {
	out strings.Builder
	gap bool
}

// block begins a block.
func (t *textWriter) block() { t.gap = t.out.Len() > 0 }

func (t *textWriter) line(line string) {
	if t.gap {
		t.out.WriteByte('\n')
		t.gap = false
	}
	t.out.WriteString(strings.TrimRight(line, " "))
	t.out.WriteByte('\n')
}

func (t *textWriter) parts(parts []Part, depth int) {
	for _, p := range parts {
		switch p := p.(type) {
		case *section:
			t.block()
			if p.Title != "" {
				t.line(strings.Repeat("  ", depth) + oneLine(p.Title))
			}
			t.parts(p.Parts, 1)
		case paragraph:
			t.wrapped("  ", "  ", string(p))
		case list:
			for _, item := range p {
				t.wrapped("  - ", "    ", item)
			}
		case notes:
			t.notes("  ", p)
		case facts:
			t.facts(p)
		case *table:
			t.table(p.filled())
		case *columns:
			t.columns(p)
		}
	}
}

func (t *textWriter) notes(indent string, all []Note) {
	for _, n := range all {
		mark := indent + "! "
		if n.Serious {
			mark = indent + "!! "
		}
		if n.Label != "" {
			mark += n.Label + ": "
		}
		t.wrapped(mark, indent+"   ", n.Text)
	}
}

func (t *textWriter) facts(all []fact) {
	width := 0
	for _, f := range all {
		width = max(width, utf8.RuneCountInString(f.Name))
	}
	for _, f := range all {
		t.wrapped(fmt.Sprintf("  %-*s  ", width, oneLine(f.Name)), strings.Repeat(" ", width+4), f.Value)
	}
}

func (t *textWriter) columns(c *columns) {
	shared := c.shared()
	for _, i := range c.Shown {
		t.block()
		t.line(oneLine(c.Titles[i]))
		t.facts(slices.DeleteFunc(slices.Clone(c.Facts[i]), func(f fact) bool { return slices.Contains(shared, f) }))
	}
	if len(shared) > 0 {
		t.block()
		t.line("All runs")
		t.facts(shared)
	}
}

func (t *textWriter) table(tb *table) {
	rows := append([][]string{tb.Header}, tb.Rows...)
	width := make([]int, len(tb.Header))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(oneLine(cell)))
		}
	}
	// Words in the last column are wrapped if the table is too wide without that.
	last, total := len(width)-1, 0
	for _, n := range width {
		total += n + 2
	}
	wrap := total > textWidth && textWidth-total+width[last] >= leastWrapped && !tb.numeric(last)
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			cell = oneLine(cell)
			if i == last && wrap {
				t.wrapped(line+"  ", strings.Repeat(" ", utf8.RuneCountInString(line)+2), cell)
				break
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if tb.numeric(i) {
				cell, pad = pad+cell, ""
			}
			line += "  " + cell + pad
		}
		if !wrap {
			t.line(line)
		}
	}
	if tb.Note != "" {
		t.wrapped("  ", "  ", tb.Note)
	}
}

// wrapped writes text after the prefix first, broken between words; further lines
// have the prefix rest.
func (t *textWriter) wrapped(first, rest, text string) {
	line := oneLine(first)
	empty := true
	for _, word := range strings.Fields(oneLine(text)) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > textWidth {
			t.line(line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	t.line(line)
}
