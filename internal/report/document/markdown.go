package document

import (
	"fmt"
	"io"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
)

// Markdown writes the document as headings, paragraphs and tables.
func (d *Document) Markdown(w io.Writer) error {
	var m markdownWriter
	m.add("# " + markdownText(d.Title))
	if d.Subtitle != "" {
		m.add(markdownText(d.Subtitle))
	}
	for _, line := range d.Lines {
		m.add(emphasis(line.Strong, markdownText(line.Text)))
	}
	m.notes(d.Notes)
	m.parts(shown(d.Parts, InMarkdown), "##")
	if _, err := io.WriteString(w, strings.Join(m.blocks, "\n\n")+"\n"); err != nil {
		return fmt.Errorf("write Markdown report: %w", err)
	}
	return nil
}

// A markdownWriter collects blocks, which have an empty line between them.
type markdownWriter struct{ blocks []string }

func (m *markdownWriter) add(lines ...string) {
	if len(lines) > 0 {
		m.blocks = append(m.blocks, strings.Join(lines, "\n"))
	}
}

func (m *markdownWriter) parts(parts []Part, heading string) {
	for _, p := range parts {
		switch p := p.(type) {
		case *Section:
			if p.Title != "" {
				m.add(heading + " " + markdownText(p.Title))
			}
			m.parts(p.Parts, heading+"#")
		case Paragraph:
			m.add(markdownText(string(p)))
		case Notes:
			m.notes(p)
		case Facts:
			t := &Table{Header: []string{"", ""}}
			for _, f := range p {
				t.Add(f.Name, f.Value)
			}
			m.table(t)
		case *Table:
			m.table(p.Filled())
		case *Columns:
			m.table(p.Sheet())
		}
	}
}

func (m *markdownWriter) notes(all []Note) {
	var lines []string
	for _, n := range all {
		lines = append(lines, "- "+emphasis(n.Serious, markdownText(Listed(": ", n.Label, n.Text))))
	}
	m.add(lines...)
}

func (m *markdownWriter) table(t *Table) {
	line := func(cells []string) (out string) {
		for _, c := range cells {
			if c = markdownText(c); c == "" {
				c = " "
			}
			out += "| " + c + " "
		}
		return out + "|"
	}
	lines := []string{line(t.Header), strings.Repeat("|---", len(t.Header)) + "|"}
	for _, r := range t.Rows {
		lines = append(lines, line(r))
	}
	m.add(lines...)
	if t.Note != "" {
		m.add(markdownText(t.Note))
	}
}

func emphasis(strong bool, text string) string {
	if strong {
		return "**" + text + "**"
	}
	return text
}

// markdownEscaper escapes the characters that begin inline markup, and the bars, which separate the
// cells of a table.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`)

func markdownText(s string) string {
	return strings.TrimSpace(markdownEscaper.Replace(figure.OneLine(s)))
}
