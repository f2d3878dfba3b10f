// Package document is the model of a report, without a format: sections, tables, notes and charts.
// It is rendered as text, Markdown, HTML with live charts, PNG, CSV and JSON.
//
//	d := &document.Document{Title: "insert benchmark"}
//	d.Add(&document.Table{Header: []string{"run", "rows/s"}, Rows: [][]string{{"plain", "12,000"}}})
//	return d.Text(os.Stdout)
package document

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Document is a report without a format, which text, Markdown, HTML, PNG and JSON render.
type Document struct {
	Title, Subtitle string
	// Untitled omits the title from text: the command line above it says what it is.
	Untitled bool
	// Lines are the results, Notes what a reader must know before any figure.
	Lines []Sentence
	Notes []Note
	Parts []Part
	// Footer tells where the figures come from.
	Footer string
	// Data returns the content of the JSON format, Sheet that of the CSV format.
	Data  func() any
	Sheet func() *Table
	// Picture returns the charts of the PNG format.
	Picture func(PNGOptions) *Picture
	// Elapsed aligns constant loads at their start instead of by the time of day; the page can switch.
	Elapsed bool
}

// A Sentence is one of a document's results. A Strong sentence is set in large type.
type Sentence struct {
	Text   string
	Strong bool
}

// A Note is a warning about Label, e.g. a run. Serious means that the figures can't be taken at
// face value.
type Note struct {
	Label, Text string
	Serious     bool
}

// A Part is a piece of a document: section, paragraph, notes, facts, table, columns.
type Part interface {
	// Kind names the HTML template of the part.
	Kind() string
}

// A medium is a set of formats.
type medium uint8

const (
	InText medium = 1 << iota
	InMarkdown
	InHTML
)

// A Section is a group of parts. In limits it to some formats; 0 means all.
type Section struct {
	Title  string
	In     medium
	Fold   bool // can be closed in HTML
	Folded bool // is closed until the reader opens it
	Parts  []Part
}

// A Paragraph is wrapped text.
type Paragraph string

// Notes are warnings about the section that they are in.
type Notes []Note

// Noted are texts as notes.
func Noted(texts ...string) (out Notes) {
	for _, text := range texts {
		out = append(out, Note{Text: text})
	}
	return out
}

// Facts are names with values, one per line.
type Facts []Fact

// A Fact is one line of a run's summary, in words and with units.
type Fact struct{ Name, Value string }

// A Table has one line per row. Columns without a value are omitted.
type Table struct {
	Header []string
	Rows   [][]string
	// Note explains the columns.
	Note string
	// Bad marks rows that tell of a failure.
	Bad map[int]bool
}

// Parts returns the table as the parts of a section; nil if it has no rows.
func (t *Table) Parts() []Part {
	if len(t.Rows) == 0 {
		return nil
	}
	return []Part{t}
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// AddKnown appends a row with "-" in its empty cells.
func (t *Table) AddKnown(cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(cells[i], figure.None)
	}
	t.Add(cells...)
}

// Columns has the facts of several runs, one column for each run. The format Text shows only the
// runs in Shown, one after the other, and then the facts that all runs share.
type Columns struct {
	Labels []string
	Titles []string
	Shown  []int
	Facts  [][]Fact
	// Shared are the names of facts to be shown once if all runs have the same.
	Shared []string
}

// A Later part is made only for the formats that show it, because making it takes long.
type Later struct {
	In    medium
	Parts func() []Part
}

func (Later) Kind() string { return "later" }

func (*Section) Kind() string  { return "section" }
func (Paragraph) Kind() string { return "paragraph" }
func (Notes) Kind() string     { return "notes" }
func (Facts) Kind() string     { return "facts" }
func (*Table) Kind() string    { return "table" }
func (*Columns) Kind() string  { return "columns" }

// Add appends parts; a nil section is none.
func (d *Document) Add(parts ...Part) {
	for _, p := range parts {
		if s, ok := p.(*Section); !ok || s != nil {
			d.Parts = append(d.Parts, p)
		}
	}
}

// Say appends sentences to the document's results.
func (d *Document) Say(strong bool, lines ...string) {
	for _, line := range lines {
		d.Lines = append(d.Lines, Sentence{AsSentence(line), strong})
	}
}

// JSON writes the document's data as indented JSON.
func (d *Document) JSON(w io.Writer) error { return WriteJSON(w, d.Data()) }

func shown(parts []Part, in medium) (out []Part) {
	for _, p := range parts {
		switch p := p.(type) {
		case Later:
			if p.In&in != 0 {
				out = append(out, shown(p.Parts(), in)...)
			}
		case *Section:
			if s := *p; p.In == 0 || p.In&in != 0 {
				if s.Parts = shown(p.Parts, in); len(s.Parts) > 0 {
					out = append(out, &s)
				}
			}
		default:
			out = append(out, p)
		}
	}
	return out
}

// Filled returns the table without its columns that have no value in any row.
func (t *Table) Filled() *Table {
	var keep []int
	for i := range t.Header {
		if i == 0 || slices.ContainsFunc(t.Rows, func(r []string) bool { return r[i] != "" && r[i] != figure.None }) {
			keep = append(keep, i)
		}
	}
	pick := func(cells []string) []string {
		out := make([]string, len(keep))
		for i, k := range keep {
			out[i] = cells[k]
		}
		return out
	}
	out := &Table{Header: pick(t.Header), Note: t.Note, Bad: t.Bad}
	for _, r := range t.Rows {
		out.Rows = append(out.Rows, pick(r))
	}
	return out
}

// mostSpaces is the maximum number of spaces in a figure with its unit and its interval.
const mostSpaces = 5

// numeric reports whether a column contains only figures: neither sentences nor times.
func (t *Table) numeric(column int) bool {
	some := false
	for _, r := range t.Rows {
		cell := strings.TrimLeft(r[column], "<+-")
		if cell == "" {
			continue
		}
		if cell[0] < '0' || cell[0] > '9' || strings.Contains(cell, ":") || len(cell) >= len(time.DateOnly) && cell[4] == '-' || strings.Count(cell, " ") > mostSpaces {
			return false
		}
		some = true
	}
	return some
}

// Sheet arranges the facts of all runs side by side, one row for each fact.
func (c *Columns) Sheet() *Table {
	t := &Table{Header: append([]string{""}, c.Labels...)}
	var names []string
	values := make([]map[string]string, len(c.Facts))
	for i, of := range c.Facts {
		values[i] = map[string]string{}
		at := 0
		for _, f := range of {
			values[i][f.Name] = f.Value
			if j := slices.Index(names, f.Name); j >= 0 {
				at = j + 1
				continue
			}
			names = slices.Insert(names, at, f.Name)
			at++
		}
	}
	for _, name := range names {
		row := []string{name}
		for i := range values {
			row = append(row, values[i][name])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// shared returns the facts that all runs have in common; nil if there is a single run.
func (c *Columns) shared() []Fact {
	var out []Fact
	if len(c.Facts) < 2 {
		return nil
	}
	for _, f := range c.Facts[0] {
		differs := slices.ContainsFunc(c.Facts[1:], func(of []Fact) bool { return !slices.Contains(of, f) })
		if slices.Contains(c.Shared, f.Name) && !differs {
			out = append(out, f)
		}
	}
	return out
}

// AsSentence begins a text with a capital letter, and ends it with a full stop.
func AsSentence(s string) string {
	if s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(first)) + s[size:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// Listed joins the parts that are not empty.
func Listed(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// If returns the text if the condition holds, else "".
func If(is bool, text string) string { return Either(is, text, "") }

// Either returns one of two texts.
func Either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// IfAny formats a figure; 0 means that there is no figure, and is formatted as "".
func IfAny[N int | int64 | float64](n N, format func(N) string) string {
	if n <= 0 {
		return ""
	}
	return format(n)
}

// IfKnown formats a figure, and nil as "".
func IfKnown[N any](n *N, format func(N) string) string {
	if n == nil {
		return ""
	}
	return format(*n)
}

// Distinct names n things. It tries the kinds of names in order, until one gives each thing a name
// of its own that isn't empty. Otherwise it takes the last kind, with a number after each name.
func Distinct(n int, kinds ...func(i int) string) []string {
	out := make([]string, n)
	for _, name := range kinds {
		seen := map[string]bool{"": true}
		for i := range out {
			out[i] = name(i)
			seen[out[i]] = true
		}
		if len(seen) == n+1 {
			return out
		}
	}
	for i := range out {
		out[i] = fmt.Sprintf("%s #%d", out[i], i+1)
	}
	return out
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON report: %w", err)
	}
	return nil
}

// CSV writes the document's Sheet by RFC 4180: a header, in which the names include the units, and
// a line for each row. Numbers are plain; unknown figures are empty.
func (d *Document) CSV(w io.Writer) error {
	t := d.Sheet()
	out := csv.NewWriter(w)
	if err := out.WriteAll(append([][]string{t.Header}, t.Rows...)); err != nil {
		return fmt.Errorf("write CSV report: %w", err)
	}
	return nil
}
