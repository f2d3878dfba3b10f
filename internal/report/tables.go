package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// Titles of the sections of `bench tables`. The word "tables" or "partitions" follows the first
// two.
const (
	creating   = "Creating "
	opening    = "Opening, on one connection, "
	connecting = "Opening on several connections"
)

// tablesFigures are the names and formats of figures of `bench tables`.
var tablesFigures = map[string]struct {
	name   string
	format func(float64) string
}{
	"pss_bytes": {"memory", bytes[float64]}, "disk_bytes": {"disk", bytes[float64]}, "dictionary_bytes": {"dictionary", bytes[float64]},
	"files": {"files", figure}, "open_files": {"open files", figure}, "create_seconds": {"CREATE", brief}, "schema_seconds": {"information_schema", brief},
	"list_seconds": {"file list", brief}, "add_seconds": {"adding one", brief},
}

// brief formats seconds, in the unit that suits them.
func brief(s float64) string {
	if s < 0 {
		return "-" + brief(-s)
	}
	return micros(1e6 * s)
}

// A Fit is how a figure of `bench tables` grows. Line is the server and the kind of object.
type Fit struct {
	Line string `json:"line"`
	statistics.TablesFit
}

// manyTables lays out runs of `bench tables`: a section for each phase, with the number of tables,
// partitions or connections on the axis, and a line for each server.
func manyTables(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "phase", "number", "server")
	p.axes = map[string]string{connecting: "connections"}
	for i := range recs {
		t, server := recs[i].Run.Tables, p.label(i)
		server += onlyIf(t.Partitions > 0 && t.Tables > 1, fmt.Sprintf(", %s each", plural(t.Partitions, "partition", "partitions")))
		before := 0
		for _, c := range recs[i].TablesCosts() {
			p.tablesCost(&p.vs[i], server, &c, &before)
		}
	}
	p.fits = tablesFits(p)
	size := func(key, name, chart string) measure {
		return measure{key: key, name: name, format: bytes[float64], chart: chart, per: 1 << 20}
	}
	memory := size("pss_bytes", "memory", "memory of the server, MiB")
	memory.compared, memory.smaller = true, true
	p.measures = func(section string) []measure {
		switch {
		case strings.HasPrefix(section, creating):
			return []measure{memory, size("disk_bytes", "disk", "data directory, MiB"), {key: "create_seconds", name: "CREATE", format: brief, chart: "time of a CREATE", compared: true, smaller: true},
				{key: "schema_seconds", name: "inf. schema", format: brief, chart: "time of information_schema.columns"}, {key: "add_seconds", name: "adding one", format: brief},
				{key: "files", name: "files"}, {key: "open_files", name: "open files"}, size("dictionary_bytes", "dictionary", ""), {key: "list_seconds", name: "file list", format: brief}}
		case strings.HasPrefix(section, opening):
			return []measure{memory, {key: "open_seconds", name: "opening one", format: brief}, {key: "open_files", name: "open files"}, {key: "opened_tables", name: "times opened"}}
		}
		return []measure{memory, {key: "processes", name: "processes"}, {key: "open_files", name: "open files"}}
	}
	p.verdict = func(s *panel) []string { return s.tablesLines() }
	p.text = func(s *panel) string {
		if strings.HasPrefix(s.name, creating) {
			return "Memory is PSS of all of the server's processes, with the pages of its cache; file list is the time of listing the data directory with sizes, as a backup does."
		}
		return ""
	}
	if len(p.fits) > 0 {
		p.more = append(p.more, &document.Section{Title: "Fitted lines", Parts: []document.Part{fitTable(p.fits)}})
	}
	if later := laterTable(p); len(later.Rows) > 0 {
		p.more = append(p.more, &document.Section{Title: "A later day", Parts: []document.Part{later}})
	}
	t := recs[0].Run.Tables
	p.title = "Many " + either(t.Partitions > 0, "partitions", "tables") + ": what a server pays for each"
	p.subtitle = append([]string{"empty tables", plural(t.Definitions, "definition", "definitions")}, p.common()...)
	for i := range recs {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(recs[i].Run.Tables.Caches)) {
			all = append(all, name+"="+recs[i].Run.Tables.Caches[name])
		}
		p.about = append(p.about, document.Fact{Name: "limits, " + p.label(i), Value: strings.Join(all, " ")})
	}
	return p, nil
}

// tablesCost adds the cost c as a sample. before points to the number of tables that were open at
// the previous cost of phase TablesOpened; tablesCost updates that number.
func (p *projection) tablesCost(v *view, server string, c *result.TablesCost, before *int) {
	add := func(section string, at int, line string, figures ...float64) {
		for i := range figures {
			figures[i] = nonzero(figures[i])
		}
		p.add(sample{v: v, figures: append([]float64{float64(c.PSSBytes)}, figures...)}, section, strconv.Itoa(at), line)
	}
	object := v.rec.Run.Tables.Object()
	p.axes[creating+object], p.axes[opening+object] = object, object
	switch c.Phase {
	case result.TablesCreated:
		add(creating+object, c.Objects, server, float64(c.DiskBytes), c.CreateSeconds, c.SchemaSeconds, c.AddSeconds, float64(c.Files), float64(c.OpenFiles), float64(c.DictionaryBytes), c.ListSeconds)
	case result.TablesOpened:
		add(opening+object, c.Opened, server, c.Seconds/float64(max(c.Opened-*before, 1)), float64(c.OpenFiles), float64(c.OpenedTables))
		*before = c.Opened
	case result.TablesIdle:
		add(connecting, c.Connections, server+", idle", float64(c.Processes), float64(c.OpenFiles))
	case result.TablesHeld:
		add(connecting, c.Connections, server+fmt.Sprintf(", %s %s each", count(int64(c.Opened)), object), float64(c.Processes), float64(c.OpenFiles))
	}
}

// tablesFits fits a line for each server, kind of object and figure: for example, how the memory of
// MariaDB grows with the number of tables. All runs with the same label make one line.
func tablesFits(p *projection) (out []Fit) {
	costs := map[string][]result.TablesCost{}
	var lines []string
	for i := range p.recs {
		name := p.label(i) + ", " + p.recs[i].Run.Tables.Object()
		if costs[name] == nil {
			lines = append(lines, name)
		}
		costs[name] = append(costs[name], p.recs[i].TablesCosts()...)
	}
	for _, name := range lines {
		for _, f := range statistics.TablesFits(costs[name]) {
			out = append(out, Fit{name, f})
		}
	}
	return out
}

func fitTable(fits []Fit) *document.Table {
	t := &document.Table{Header: []string{"", "figure", "while", "with none", "for each", "95% interval", "R²", "points"},
		Note: "The interval is that of the points about the line. While connections are made, each is a connection; else a table or a partition."}
	for _, f := range fits {
		m := tablesFigures[f.Figure]
		t.Add(f.Line, m.name, f.Phase, m.format(f.Fixed), m.format(f.Slope), m.format(f.Low)+" .. "+m.format(f.High), fmt.Sprintf("%.3f", f.R2), count(int64(f.Points)))
	}
	return t
}

// laterTable returns the table of what is measured once in a run: the restart of the server, and
// the opening of all tables before and after it.
func laterTable(p *projection) *document.Table {
	t := &document.Table{Header: []string{"", "restart", "memory then", "memory, all open", "opened again", "memory then"}}
	for i := range p.recs {
		row := slices.Repeat([]string{none}, 5)
		for _, c := range p.recs[i].TablesCosts() {
			switch c.Phase {
			case result.TablesRestarted:
				row[0], row[1] = brief(c.Seconds), bytes(c.PSSBytes)
			case result.TablesOpened:
				if c.Opened == p.recs[i].Run.Tables.Objects() { // a run may have ended before it opened all
					row[2] = bytes(c.PSSBytes)
				}
			case result.TablesReopened:
				row[3], row[4] = "in "+brief(c.Seconds), bytes(c.PSSBytes)
			}
		}
		if row[0] != none || row[2] != none {
			t.Add(append([]string{p.recs[i].Run.Name}, row...)...)
		}
	}
	return t
}

// tablesLines returns the results of a section as sentences: the cost of one table or connection.
func (s *panel) tablesLines() (out []string) {
	phase, one := result.TablesHeld, ""
	switch {
	case strings.HasPrefix(s.name, creating):
		phase, one = result.TablesCreated, strings.TrimSuffix(strings.TrimPrefix(s.name, creating), "s")
	case strings.HasPrefix(s.name, opening):
		phase, one = result.TablesOpened, "open "+strings.TrimSuffix(strings.TrimPrefix(s.name, opening), "s")
	}
	by := map[string][]string{}
	var lines []string
	for _, f := range s.fits {
		if f.Phase != phase || phase == result.TablesCreated && !strings.HasSuffix(f.Line, s.name[len(creating):]) || phase == result.TablesOpened && !strings.HasSuffix(f.Line, s.name[len(opening):]) {
			continue
		}
		m := tablesFigures[f.Figure]
		switch f.Figure {
		case "pss_bytes", "disk_bytes", "schema_seconds", "add_seconds":
			if by[f.Line] == nil {
				lines = append(lines, f.Line)
			}
			what := onlyIf(strings.HasSuffix(f.Figure, "_seconds"), "the time of ") + m.name
			text := fmt.Sprintf("%s to %s (95%% %s..%s)", m.format(f.Slope), what, m.format(f.Low), m.format(f.High))
			if f.Low <= 0 {
				text = "nothing measurable to " + what
			}
			if phase == result.TablesHeld {
				one = fmt.Sprintf("connection with %s open", count(int64(f.Opened)))
			}
			by[f.Line] = append(by[f.Line], text)
		}
	}
	for _, name := range lines {
		out = append(out, document.AsSentence(fmt.Sprintf("%s: each %s adds %s", name, one, strings.Join(by[name], ", "))))
	}
	return out
}
