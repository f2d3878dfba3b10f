package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// A Document is a report without a format, which text, Markdown, HTML, PNG and JSON render.
type Document struct {
	Title, Subtitle string
	// Untitled omits the title from text: the command line above it says what it is.
	Untitled bool
	// Lines are the results; Notes are what a reader must know before any figure.
	Lines []Sentence
	Notes []Note
	Parts []Part
	// Footer tells where the figures come from.
	Footer string
	// Data returns the content of the JSON format, sheet that of CSV.
	Data  func() any
	sheet func() *table
	// picture returns the charts of the PNG format.
	picture func(PNGOptions) *picture
	// Elapsed initially aligns constant loads by the time since their start instead of
	// the time of day; the page can switch.
	Elapsed bool
}

// A Sentence is one of a document's results. Strong ones are set in large type.
type Sentence struct {
	Text   string
	Strong bool
}

// A Note is a warning, about what Label names. A serious one means that the figures can't
// be taken at face value.
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
	inText medium = 1 << iota
	inMarkdown
	inHTML
)

// A section has a title of its own. In limits it to some formats; 0 means all. Folded ones
// are closed in HTML until the reader opens them.
type section struct {
	Title  string
	In     medium
	Fold   bool // a part that can be closed
	Folded bool // closed at first
	Parts  []Part
}

// A paragraph is wrapped text.
type paragraph string

// notes are warnings about the section that they are in.
type notes []Note

// noted are texts as notes.
func noted(texts ...string) (out notes) {
	for _, text := range texts {
		out = append(out, Note{Text: text})
	}
	return out
}

// facts are names with values, one per line.
type facts []fact

// A fact is one line of a run's summary, in words and with units.
type fact struct{ Name, Value string }

// A table has one line per row. Columns without a value are omitted.
type table struct {
	Header []string
	Rows   [][]string
	// Note explains the columns.
	Note string
	// Bad marks rows that tell of a failure; Heat shades the figure of each in the page, from 0 to heats-1, -1 for none.
	Bad  map[int]bool
	Heat []int
}

// parts returns the table as the parts of a section; nil if it has no rows.
func (t *table) parts() []Part {
	if len(t.Rows) == 0 {
		return nil
	}
	return []Part{t}
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// addKnown adds a row of cells of which those that are empty are not known.
func (t *table) addKnown(cells ...string) {
	for i := range cells {
		cells[i] = cmp.Or(cells[i], none)
	}
	t.add(cells...)
}

// columns are the facts of several runs. Text shows those of the runs in Shown one after
// the other, with what all share at the end; other formats show all side by side.
type columns struct {
	Labels []string
	Titles []string
	Shown  []int
	Facts  [][]fact
	// Shared are the names of facts to be shown once if all runs have the same.
	Shared []string
}

// A later part is made only for the formats that show it, because that takes long.
type later struct {
	in    medium
	parts func() []Part
}

func (later) Kind() string { return "later" }

func (*section) Kind() string  { return "section" }
func (paragraph) Kind() string { return "paragraph" }
func (notes) Kind() string     { return "notes" }
func (facts) Kind() string     { return "facts" }
func (*table) Kind() string    { return "table" }
func (*columns) Kind() string  { return "columns" }

// add appends parts; a nil section is none.
func (d *Document) add(parts ...Part) {
	for _, p := range parts {
		if s, ok := p.(*section); !ok || s != nil {
			d.Parts = append(d.Parts, p)
		}
	}
}

func (d *Document) say(strong bool, lines ...string) {
	for _, line := range lines {
		d.Lines = append(d.Lines, Sentence{sentence(line), strong})
	}
}

// JSON writes the document's data as indented JSON.
func (d *Document) JSON(w io.Writer) error { return writeJSON(w, d.Data()) }

func shown(parts []Part, in medium) (out []Part) {
	for _, p := range parts {
		switch p := p.(type) {
		case later:
			if p.in&in != 0 {
				out = append(out, shown(p.parts(), in)...)
			}
		case *section:
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

// filled returns the table without its columns that have no value in any row.
func (t *table) filled() *table {
	var keep []int
	for i := range t.Header {
		if i == 0 || slices.ContainsFunc(t.Rows, func(r []string) bool { return r[i] != "" && r[i] != none }) {
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
	out := &table{Header: pick(t.Header), Note: t.Note, Bad: t.Bad, Heat: t.Heat}
	for _, r := range t.Rows {
		out.Rows = append(out.Rows, pick(r))
	}
	return out
}

// mostSpaces are those of a figure with its unit and its interval.
const mostSpaces = 5

// numeric reports whether a column contains only figures: neither sentences nor times.
func (t *table) numeric(column int) bool {
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

// Sheet arranges the facts of all runs side by side, one row for each.
func (c *columns) Sheet() *table {
	t := &table{Header: append([]string{""}, c.Labels...)}
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

// shared returns the facts that all of several runs have in common.
func (c *columns) shared() []fact {
	var out []fact
	if len(c.Facts) < 2 {
		return nil
	}
	for _, f := range c.Facts[0] {
		differs := slices.ContainsFunc(c.Facts[1:], func(of []fact) bool { return !slices.Contains(of, f) })
		if slices.Contains(c.Shared, f.Name) && !differs {
			out = append(out, f)
		}
	}
	return out
}

func sentence(s string) string {
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

// footer tells which rowmill measured, and when.
func footer(r *result.Run) string {
	return fmt.Sprintf("Measured by rowmill %s, started %s. This page is one file: it loads nothing and sends nothing.",
		r.Rowmill, r.Started.UTC().Format(time.DateTime+" UTC"))
}

// The figures of reports, under short names.
const none = figures.None

var (
	figure, short, seconds, clock = figures.Number, figures.Short, figures.Seconds, figures.Clock
	percent, ratio, oneLine       = figures.Percent, figures.Ratio, figures.OneLine
)

func count[N int | int64](n N) string { return figures.Count(n) }

func micros[N int64 | float64](us N) string { return figures.Micros(us) }

func bytes[N int64 | float64](n N) string { return figures.Bytes(n) }

func plural[N int | int64](n N, one, many string) string { return figures.Plural(n, one, many) }

// rowsRate formats a rate in rows per second.
func rowsRate(f float64) string { return figure(f) + " rows/s" }
