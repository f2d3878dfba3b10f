package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/series"
	"github.com/rowmill/rowmill/result"
)

// listedStalls is the maximum number of stalls listed; the record has all of them.
const listedStalls = 20

// runDetails returns the parts that a reader opens on demand.
func runDetails(vs []view) []document.Part {
	tenths := &document.Section{Title: "Rate and latency over each tenth of the rows", In: document.InHTML | document.InMarkdown, Fold: true, Folded: true}
	stalls := &document.Section{Title: "Stalls", In: document.InHTML, Fold: true, Folded: true, Parts: []document.Part{document.Paragraph(
		"An interval whose rate is below half the median of the twenty around it. The longest are listed, with what differed from the intervals around.")}}
	out := []document.Part{tenths, stalls, settingsOf(vs)}
	for i := range vs {
		v := &vs[i]
		if t := v.tenths(); len(t.Rows) > 0 {
			tenths.Parts = append(tenths.Parts, &document.Section{Title: v.label, Parts: []document.Part{t}})
		}
		stalls.Parts = append(stalls.Parts, &document.Section{Title: v.label, Parts: v.stallTable()})
		if s := v.partitions(); len(s.Parts) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (v *view) stallTable() []document.Part {
	t := &document.Table{Header: []string{"at", "rows", "lasted", "rate, rows/s", "around it", "what moved"}}
	for _, st := range series.LongestStalls(v.stalled, listedStalls) {
		t.Add(figure(st.From)+" s", short(float64(st.Rows)), figure(st.Seconds())+" s", figure(st.Rate), figure(st.Around),
			document.AsSentence(cmp.Or(st.Why, "no recorded figure moved with it")))
	}
	if len(t.Rows) == 0 {
		return []document.Part{document.Paragraph("none")}
	}
	if more := len(v.stalled) - len(t.Rows); more > 0 {
		t.Note = fmt.Sprintf("and %d shorter ones", more)
	}
	return []document.Part{t}
}

// partitions lists the deviations from the preset, and the periods with their proof.
func (v *view) partitions() *document.Section {
	s := &document.Section{Title: "Deviations and periods: " + v.label, In: document.InHTML, Fold: true, Folded: true}
	add := func(title string, p document.Part) {
		s.Parts = append(s.Parts, &document.Section{Title: title, Parts: []document.Part{p}})
	}
	if d := v.rec.Run.Deviations; len(d) > 0 {
		add("Deviations from the preset's published definition", document.Noted(d...))
	}
	if v.rec.End != nil && len(v.rec.End.Periods) > 0 {
		t := &document.Table{Header: []string{"period", "from", "to", "rows expected", "found", "checksum"}, Bad: map[int]bool{}}
		for i, p := range v.rec.End.Periods {
			checksum := none
			if p.Checksum != nil {
				checksum = either(*p.Checksum, "equal", "differs")
			}
			t.Add(p.Name, p.From, p.To, count(p.Expected), count(p.Found), checksum)
			t.Bad[i] = p.Expected != p.Found+p.Lost || checksum == "differs"
		}
		add("Periods", t)
	}
	return s
}

// settings has everything needed to repeat the runs: rows of settings, with a value for each run.
type settings struct {
	Labels []string
	Rows   []setting
}

func (*settings) Kind() string { return "settings" }

// A setting has a value for each run.
type setting struct {
	Group, Name string
	kind        string // of the flag if it differs
	Values      []string
	Differs     bool
	// Code values are shown verbatim, including line breaks.
	Code bool
}

func settingsOf(vs []view) *settings {
	out := &settings{}
	names := map[string]bool{}
	for i := range vs {
		out.Labels = append(out.Labels, vs[i].label)
		for name := range vs[i].rec.Run.Settings {
			names[name] = true
		}
	}
	add := func(group, name, kind string, code bool, of func(r *result.Run) string) {
		s := setting{Group: group, Name: name, kind: kind, Code: code}
		for i := range vs {
			s.Values = append(s.Values, of(&vs[i].rec.Run))
			s.Differs = s.Differs || s.Values[i] != s.Values[0]
		}
		if strings.Join(s.Values, "") != "" {
			out.Rows = append(out.Rows, s)
		}
	}
	for _, p := range properties {
		add(p.group, p.name, p.kind, p.code, p.of)
	}
	for _, name := range sortedNames(names) {
		kind := either(slices.Contains(durabilitySettings, name), "durability", "settings")
		add("setting", name, kind, true, func(r *result.Run) string { return r.Settings[name] })
	}
	return out
}

func countIfAny[N int | int64](n N) string { return document.IfAny(n, count) }

// A property of a run is something that one must know to repeat the run. kind, if set, is the kind
// of the Flag that says that two runs differ in this property.
type property struct {
	group, name, kind string
	code              bool
	of                func(r *result.Run) string
}

var properties = []property{
	{"run", "name", "", false, func(r *result.Run) string { return r.Name }},
	{"run", "started", "", false, func(r *result.Run) string { return r.Started.UTC().Format(time.DateTime + " UTC") }},
	{"run", "rowmill", "rowmill", false, func(r *result.Run) string { return r.Rowmill }},
	{"run", "command", "", true, func(r *result.Run) string { return strings.TrimSpace("rowmill " + strings.Join(r.Command, " ")) }},
	{"run", "rows asked for", "", false, func(r *result.Run) string { return countIfAny(r.Rows) }},
	{"run", "time limit", "", false, func(r *result.Run) string { return document.IfAny(r.MaxTimeSeconds, seconds) }},
	{"run", "interval", "", false, func(r *result.Run) string { return figure(r.IntervalSeconds) + " s" }},
	{"server", "durability", "durability", false, func(r *result.Run) string { return r.Durability }},
	{"server", "engine", "engine", false, func(r *result.Run) string { return r.Engine }},
	{"server", "storage", "engine", false, func(r *result.Run) string { return r.Storage }},
	{"server", "version", "server", false, func(r *result.Run) string { return r.ServerVersion }},
	{"server", "cache", "cache", false, func(r *result.Run) string { return document.IfAny(r.CacheBytes, bytes) }},
	{"server", "target", "", false, func(r *result.Run) string { return r.Target }},
	{"machine", "cores", "machine", false, func(r *result.Run) string { return countIfAny(r.Machine.Cores) }},
	{"machine", "memory", "machine", false, func(r *result.Run) string { return document.IfAny(r.Machine.MemoryBytes, bytes) }},
	{"machine", "processor", "machine", false, func(r *result.Run) string { return r.Machine.CPU }},
	{"machine", "disk", "machine", false, func(r *result.Run) string { return r.Machine.Disk }},
	{"machine", "filesystem", "machine", false, func(r *result.Run) string { return r.Machine.Filesystem }},
	{"machine", "kernel", "machine", false, func(r *result.Run) string { return r.Machine.Kernel }},
	{"machine", "operating system", "machine", false, func(r *result.Run) string { return r.Machine.OS }},
	{"machine", "architecture", "machine", false, func(r *result.Run) string { return r.Machine.Arch }},
	{"schema", "statements", "schema", true, func(r *result.Run) string {
		all := make([]string, len(r.Schema))
		for i, s := range r.Schema {
			all[i] = strings.TrimRight(strings.TrimSpace(s), ";") + ";"
		}
		return strings.Join(all, "\n")
	}},
	{"load", "workload", "workload", false, func(r *result.Run) string { return r.Workload }},
	{"load", "preset", "workload", false, func(r *result.Run) string { return r.Preset }},
	{"load", "layout", "workload", false, func(r *result.Run) string { return r.Layout }},
	{"load", "period", "workload", false, func(r *result.Run) string { return r.Period }},
	{"load", "why this period", "", false, func(r *result.Run) string { return r.PeriodWhy }},
	{"load", "periods kept", "workload", false, func(r *result.Run) string { return countIfAny(r.KeepPeriods) }},
	{"load", "method", "workload", false, func(r *result.Run) string { return r.Method }},
	{"load", "batch", "workload", false, func(r *result.Run) string { return countIfAny(r.Batch) }},
	{"load", "writers", "workload", false, func(r *result.Run) string { return countIfAny(r.Writers) }},
	{"load", "indexes", "workload", false, func(r *result.Run) string { return countIfAny(r.Indexes) }},
	{"load", "rate asked for", "workload", false, func(r *result.Run) string { return document.IfAny(r.Rate, rowsRate) }},
	{"load", "rows to keep", "workload", false, func(r *result.Run) string { return countIfAny(r.KeepRows) }},
	{"load", "readers", "workload", false, func(r *result.Run) string { return countIfAny(r.Readers) }},
	{"load", "rows before the first query", "workload", false, func(r *result.Run) string { return countIfAny(r.ReadAfter) }},
	{"load", "seconds between kills of the server", "workload", false, func(r *result.Run) string { return document.IfAny(r.KillServerSeconds, figure) }},
	{"load", "seed", "workload", false, func(r *result.Run) string { return fmt.Sprint(r.Seed) }},
}

func sortedNames(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }

// tenths summarizes the run over each tenth of its rows.
func (v *view) tenths() *document.Table {
	const tenths = 10
	t := &document.Table{Header: []string{"rows", "mean rate, rows/s"}}
	operations := ops(v.sum.LatencyUS)
	for _, op := range operations {
		t.Header = append(t.Header, op+" p50", op+" p95", op+" p99", op+" max")
	}
	t.Header = append(t.Header, "pages read per row")
	rates := v.curve.Windows(tenths)
	total := v.curve.Rows()
	var m result.Merger
	parts := series.Parts(v.rec.Intervals, total, tenths)
	for i := range rates {
		b := parts[i]
		row := []string{short(total*float64(i)/tenths) + " to " + short(total*float64(i+1)/tenths), figure(rates[i])}
		for _, op := range operations {
			l, ok := b.Latency(&m, op, func(iv *result.Interval) map[string]result.Histogram { return iv.Latency })
			cells := []string{none, none, none, none}
			if ok {
				cells = []string{micros(l.P50), micros(l.P95), micros(l.P99), micros(l.Max)}
			}
			row = append(row, cells...)
		}
		reads := ""
		if mean := b.Mean("page_reads"); !math.IsNaN(mean) && b.Rate() > 0 {
			reads = figure(mean / b.Rate())
		}
		t.Add(append(row, reads)...)
	}
	return t
}

// runCards returns a card with the main figure of each run. A group of repeats has one card, for
// its median run.
func runCards(vs []view) document.Cards {
	st := styles(vs)
	var out document.Cards
	for _, i := range leaders(vs) {
		v := &vs[i]
		c := document.Card{Label: v.median(), Style: st[i]}
		switch {
		case v.asks():
			c.Big, c.Unit, c.About = figure(v.sum.Step.QueriesPerSecond), "queries/s", "beside "+figure(v.sum.Step.InsertsPerSecond)+" rows/s inserted"
		case v.sum.Rows > 0 && (v.tooShort() != "" || v.kept() || v.rec.Run.Search != nil && !v.rec.IsTrial()): // a search chooses the rates
			c.Big, c.Unit, c.About = figure(v.sum.RowsPerSecond), "rows/s", "on average"
		case v.sum.Rows > 0:
			c.Big, c.Unit, c.About = figure(v.sum.Rate.Last), "rows/s", "in the last tenth of the rows, after "+figure(v.sum.Rate.First)+" in the first"
		default:
			c.Big = "no rows"
		}
		out = append(out, c)
	}
	return out
}
