package document

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/rowmill/rowmill/internal/figure"
)

// textWidth is the width at which text is wrapped; it fits a terminal of 120 columns.
const textWidth = 118

// leastWrapped is the least width to which a table's last column is wrapped.
const leastWrapped = 30

// Text writes the document for a terminal: first the results, then the warnings about them, then
// the figures.
func (d *Document) Text(w io.Writer) error {
	t := TextWriter{Width: textWidth}
	if !d.Untitled {
		t.Wrapped("", "  ", d.Title)
		t.Wrapped("", "  ", d.Subtitle)
	}
	t.Block()
	for _, line := range d.Lines {
		t.Wrapped("", "  ", line.Text)
	}
	t.notes("", d.Notes)
	t.parts(shown(d.Parts, InText), 0)
	return t.Flush(w)
}

// A TextWriter writes blocks of lines, with an empty line between them.
type TextWriter struct {
	out strings.Builder
	gap bool
	// Width is the width of wrapped lines, in columns; 0 means no limit. If Cut is set, lines that
	// aren't wrapped are cut to Width.
	Width int
	Cut   bool
}

// Flush writes the text.
func (t *TextWriter) Flush(w io.Writer) error {
	if _, err := io.WriteString(w, t.out.String()); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

// Block separates the lines before from the next line by an empty line.
func (t *TextWriter) Block() { t.gap = t.out.Len() > 0 }

// Line writes a line.
func (t *TextWriter) Line(format string, args ...any) {
	if t.gap {
		t.out.WriteByte('\n')
		t.gap = false
	}
	line := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if t.Cut {
		line = runewidth.Truncate(line, t.Width, "…")
	}
	t.out.WriteString(line)
	t.out.WriteByte('\n')
}

func (t *TextWriter) parts(parts []Part, depth int) {
	for _, p := range parts {
		switch p := p.(type) {
		case *Section:
			t.Block()
			if p.Title != "" {
				t.Line("%s%s", strings.Repeat("  ", depth), figure.OneLine(p.Title))
			}
			t.parts(p.Parts, 1)
		case Paragraph:
			t.Wrapped("  ", "  ", string(p))
		case Notes:
			t.notes("  ", p)
		case Facts:
			t.facts(p)
		case *Table:
			t.Table(p.Filled(), "  ")
		case *Columns:
			t.columns(p)
		}
	}
}

func (t *TextWriter) notes(indent string, all []Note) {
	for _, n := range all {
		mark := "! "
		if n.Serious {
			mark = "!! "
		}
		if n.Label != "" {
			mark += figure.OneLine(n.Label) + ": "
		}
		t.Wrapped(indent+mark, indent+"   ", n.Text)
	}
}

func (t *TextWriter) facts(all []Fact) {
	width := 0
	for _, f := range all {
		width = max(width, runewidth.StringWidth(f.Name))
	}
	for _, f := range all {
		t.Wrapped("  "+runewidth.FillRight(figure.OneLine(f.Name), width+2), strings.Repeat(" ", width+4), f.Value)
	}
}

func (t *TextWriter) columns(c *Columns) {
	shared := c.shared()
	for _, i := range c.Shown {
		t.Block()
		t.Line("%s", figure.OneLine(c.Titles[i]))
		t.facts(slices.DeleteFunc(slices.Clone(c.Facts[i]), func(f Fact) bool { return slices.Contains(shared, f) }))
	}
	if len(shared) > 0 {
		t.Block()
		t.Line("All runs")
		t.facts(shared)
	}
}

// Table writes a table, its lines after an indent.
func (t *TextWriter) Table(tb *Table, indent string) {
	rows := append([][]string{tb.Header}, tb.Rows...)
	width := make([]int, len(tb.Header))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], runewidth.StringWidth(figure.OneLine(cell)))
		}
	}
	// Words in the last column are wrapped if the table is too wide without that.
	last, total := len(width)-1, 0
	for _, n := range width {
		total += n + 2
	}
	wrap := !t.Cut && t.Width > 0 && total > t.Width && t.Width-total+width[last] >= leastWrapped && !tb.numeric(last)
	for _, r := range rows {
		line := indent
		for i, cell := range r {
			if i > 0 {
				line += "  "
			}
			switch cell = figure.OneLine(cell); {
			case i == last && wrap:
				t.Wrapped(line, strings.Repeat(" ", runewidth.StringWidth(line)), cell)
			case tb.numeric(i):
				line += runewidth.FillLeft(cell, width[i])
			default:
				line += runewidth.FillRight(cell, width[i])
			}
		}
		if !wrap {
			t.Line("%s", line)
		}
	}
	if tb.Note != "" {
		t.Wrapped(indent, indent, tb.Note)
	}
}

// Tables writes the tables that have rows, each after an empty line.
func (t *TextWriter) Tables(tables ...*Table) {
	for _, tb := range tables {
		if len(tb.Rows) > 0 {
			t.Block()
			t.Table(tb.Filled(), "")
		}
	}
}

// Wrapped writes text, broken between words. The first line has the prefix first, further lines
// have the prefix rest.
func (t *TextWriter) Wrapped(first, rest, text string) {
	line, empty := first, true
	for _, word := range strings.Fields(figure.OneLine(text)) {
		if !empty && t.Width > 0 && runewidth.StringWidth(line)+1+runewidth.StringWidth(word) > t.Width {
			t.Line("%s", line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	t.Line("%s", line)
}
