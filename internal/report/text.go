package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// textWidth is the width at which text is wrapped; it fits a terminal of 120
// columns.
const textWidth = 118

// leastWrapped is the least width to which a table's last column is wrapped.
const leastWrapped = 30

// Text writes the document for a terminal: the results, what to know before believing
// them, and then the figures.
func (d *Document) Text(w io.Writer) error {
	t := textWriter{width: textWidth}
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
	return t.writeTo(w)
}

// A textWriter writes blocks of lines, with an empty line between them.
type textWriter struct {
	out strings.Builder
	gap bool
	// width is that of wrapped lines, in columns; 0 means no limit. Others are cut to
	// it if cut is set.
	width int
	cut   bool
}

func (t *textWriter) writeTo(w io.Writer) error {
	if _, err := io.WriteString(w, t.out.String()); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

func (t *textWriter) block() { t.gap = t.out.Len() > 0 }

func (t *textWriter) line(format string, args ...any) {
	if t.gap {
		t.out.WriteByte('\n')
		t.gap = false
	}
	line := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if t.cut {
		line = runewidth.Truncate(line, t.width, "…")
	}
	t.out.WriteString(line)
	t.out.WriteByte('\n')
}

func (t *textWriter) parts(parts []Part, depth int) {
	for _, p := range parts {
		switch p := p.(type) {
		case *section:
			t.block()
			if p.Title != "" {
				t.line("%s%s", strings.Repeat("  ", depth), oneLine(p.Title))
			}
			t.parts(p.Parts, 1)
		case paragraph:
			t.wrapped("  ", "  ", string(p))
		case notes:
			t.notes("  ", p)
		case facts:
			t.facts(p)
		case *table:
			t.table(p.filled(), "  ")
		case *columns:
			t.columns(p)
		}
	}
}

func (t *textWriter) notes(indent string, all []Note) {
	for _, n := range all {
		t.wrapped(indent+either(n.Serious, "!! ", "! ")+onlyIf(n.Label != "", oneLine(n.Label)+": "), indent+"   ", n.Text)
	}
}

func (t *textWriter) facts(all []fact) {
	width := 0
	for _, f := range all {
		width = max(width, runewidth.StringWidth(f.Name))
	}
	for _, f := range all {
		t.wrapped("  "+runewidth.FillRight(oneLine(f.Name), width+2), strings.Repeat(" ", width+4), f.Value)
	}
}

func (t *textWriter) columns(c *columns) {
	shared := c.shared()
	for _, i := range c.Shown {
		t.block()
		t.line("%s", oneLine(c.Titles[i]))
		t.facts(slices.DeleteFunc(slices.Clone(c.Facts[i]), func(f fact) bool { return slices.Contains(shared, f) }))
	}
	if len(shared) > 0 {
		t.block()
		t.line("All runs")
		t.facts(shared)
	}
}

// table writes a table, its lines after an indent.
func (t *textWriter) table(tb *table, indent string) {
	rows := append([][]string{tb.Header}, tb.Rows...)
	width := make([]int, len(tb.Header))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], runewidth.StringWidth(oneLine(cell)))
		}
	}
	// Words in the last column are wrapped if the table is too wide without that.
	last, total := len(width)-1, 0
	for _, n := range width {
		total += n + 2
	}
	wrap := !t.cut && t.width > 0 && total > t.width && t.width-total+width[last] >= leastWrapped && !tb.numeric(last)
	for _, r := range rows {
		line := indent
		for i, cell := range r {
			if i > 0 {
				line += "  "
			}
			switch cell = oneLine(cell); {
			case i == last && wrap:
				t.wrapped(line, strings.Repeat(" ", runewidth.StringWidth(line)), cell)
			case tb.numeric(i):
				line += runewidth.FillLeft(cell, width[i])
			default:
				line += runewidth.FillRight(cell, width[i])
			}
		}
		if !wrap {
			t.line("%s", line)
		}
	}
	if tb.Note != "" {
		t.wrapped(indent, indent, tb.Note)
	}
}

// wrapped writes text after the prefix first, broken between words; further lines
// have the prefix rest.
func (t *textWriter) wrapped(first, rest, text string) {
	line, empty := first, true
	for _, word := range strings.Fields(oneLine(text)) {
		if !empty && t.width > 0 && runewidth.StringWidth(line)+1+runewidth.StringWidth(word) > t.width {
			t.line("%s", line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	t.line("%s", line)
}
