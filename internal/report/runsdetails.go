package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/result"
)

// The maximum number of events and stalls listed; the record has all of them.
const (
	listedEvents = 500
	listedStalls = 20
)

// runDetails are the parts that a reader opens on demand.
func runDetails(vs []view) []Part {
	tenths := &section{Title: "Rate and latency over each tenth of the rows", In: inHTML | inMarkdown, Fold: true, Folded: true}
	stalls := &section{Title: "Stalls", In: inHTML, Fold: true, Folded: true, Parts: []Part{paragraph(
		"An interval whose rate is below half the median of the twenty around it. The longest are listed, with what differed from the intervals around.")}}
	out := []Part{tenths, stalls, settingsOf(vs)}
	for i := range vs {
		v := &vs[i]
		if t := v.tenths(); len(t.Rows) > 0 {
			tenths.Parts = append(tenths.Parts, &section{Title: v.label, Parts: []Part{t}})
		}
		stalls.Parts = append(stalls.Parts, &section{Title: v.label, Parts: v.stallTable()})
		if s := v.partitions(); len(s.Parts) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (v *view) stallTable() []Part {
	t := &table{Header: []string{"at", "rows", "lasted", "rate, rows/s", "around it", "what moved"}}
	for _, st := range v.longestStalls(listedStalls) {
		why := st.Why
		if why == "" {
			why = "no recorded figure moved with it"
		}
		t.add(figure(st.From)+" s", short(float64(st.Rows)), figure(st.Seconds())+" s", figure(st.Rate), figure(st.Around), sentence(why))
	}
	if len(t.Rows) == 0 {
		return []Part{paragraph("none")}
	}
	if more := len(v.stalled) - len(t.Rows); more > 0 {
		t.Note = fmt.Sprintf("and %d shorter ones", more)
	}
	return []Part{t}
}

// partitions lists the deviations from the preset, the periods and their events.
func (v *view) partitions() *section {
	s := &section{Title: "Periods and partition events: " + v.label, In: inHTML, Fold: true, Folded: true}
	add := func(title string, p Part) { s.Parts = append(s.Parts, &section{Title: title, Parts: []Part{p}}) }
	if d := v.rec.Run.Deviations; len(d) > 0 {
		add("Deviations from the preset's published definition", list(d))
	}
	if v.rec.End != nil && len(v.rec.End.Periods) > 0 {
		t := &table{Header: []string{"period", "from", "to", "rows expected", "found", "checksum"}, Bad: map[int]bool{}}
		for i, p := range v.rec.End.Periods {
			checksum := none
			if p.Checksum != nil {
				checksum = map[bool]string{true: "equal", false: "differs"}[*p.Checksum]
			}
			t.add(p.Name, p.From, p.To, count(p.Expected), count(p.Found), checksum)
			t.Bad[i] = p.Expected != p.Found+p.Lost || checksum == "differs"
		}
		add("Periods", t)
	}
	events, more := &table{Header: []string{"at", "took", "what"}}, 0
	for j := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[j].Events {
			if len(events.Rows) == listedEvents {
				more++
				continue
			}
			events.add(figure(e.Elapsed)+" s", micros(1e6*e.Seconds), strings.TrimSpace(e.What+" "+e.Object))
		}
	}
	if more > 0 {
		events.Note = fmt.Sprintf("and %d more in the record", more)
	}
	if len(events.Rows) > 0 {
		add("Partition events", events)
	}
	return s
}

// settings are everything needed to repeat the runs, side by side.
type settings struct {
	Labels []string
	Rows   []setting
}

func (*settings) Kind() string { return "settings" }

// A setting has a value for each run. Code values are shown verbatim.
type setting struct {
	Group, Name string
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
	add := func(group, name string, code bool, of func(r *result.Run) string) {
		s := setting{Group: group, Name: name, Code: code}
		for i := range vs {
			s.Values = append(s.Values, of(&vs[i].rec.Run))
			s.Differs = s.Differs || s.Values[i] != s.Values[0]
		}
		if strings.Join(s.Values, "") != "" {
			out.Rows = append(out.Rows, s)
		}
	}
	for _, l := range settingLines {
		add(l.group, l.name, l.code, l.of)
	}
	for _, name := range sortedNames(names) {
		add("setting", name, true, func(r *result.Run) string { return r.Settings[name] })
	}
	return out
}

// ifAny formats a figure of which 0 means that there is none.
func ifAny[N int | int64 | float64](n N, format func(N) string) string {
	if n <= 0 {
		return ""
	}
	return format(n)
}

func countIfAny[N int | int64](n N) string { return ifAny(n, count) }

var settingLines = []struct {
	group, name string
	code        bool
	of          func(r *result.Run) string
}{
	{"run", "name", false, func(r *result.Run) string { return r.Name }},
	{"run", "started", false, func(r *result.Run) string { return r.Started.UTC().Format(time.DateTime + " UTC") }},
	{"run", "rowmill", false, func(r *result.Run) string { return r.Rowmill }},
	{"run", "command", true, func(r *result.Run) string { return strings.TrimSpace("rowmill " + strings.Join(r.Command, " ")) }},
	{"run", "workload", false, func(r *result.Run) string { return r.Workload }},
	{"run", "preset", false, func(r *result.Run) string { return r.Preset }},
	{"run", "layout", false, func(r *result.Run) string { return r.Layout }},
	{"run", "period", false, periodText},
	{"run", "rows asked for", false, func(r *result.Run) string { return countIfAny(r.Rows) }},
	{"run", "time limit", false, func(r *result.Run) string { return ifAny(r.MaxTimeSeconds, seconds) }},
	{"run", "rate offered", false, func(r *result.Run) string { return ifAny(r.Rate, rowsRate) }},
	{"run", "writers", false, func(r *result.Run) string { return countIfAny(r.Writers) }},
	{"run", "rows a batch", false, func(r *result.Run) string { return countIfAny(r.Batch) }},
	{"run", "method", false, func(r *result.Run) string { return r.Method }},
	{"run", "secondary indexes", false, func(r *result.Run) string { return countIfAny(r.Indexes) }},
	{"run", "seed", false, func(r *result.Run) string { return fmt.Sprint(r.Seed) }},
	{"run", "interval", false, func(r *result.Run) string { return figure(r.IntervalSeconds) + " s" }},
	{"server", "engine", false, func(r *result.Run) string { return strings.TrimSpace(r.Engine + " " + r.ServerVersion) }},
	{"server", "storage", false, func(r *result.Run) string { return r.Storage }},
	{"server", "durability", false, func(r *result.Run) string { return r.Durability }},
	{"server", "cache", false, func(r *result.Run) string { return sizeOrNone(r.CacheBytes) }},
	{"server", "target", false, func(r *result.Run) string { return r.Target }},
	{"machine", "cores", false, func(r *result.Run) string { return countIfAny(r.Machine.Cores) }},
	{"machine", "processor", false, func(r *result.Run) string { return r.Machine.CPU }},
	{"machine", "memory", false, func(r *result.Run) string { return sizeOrNone(r.Machine.MemoryBytes) }},
	{"machine", "disk", false, func(r *result.Run) string { return words(r.Machine.Disk, r.Machine.Filesystem) }},
	{"machine", "system", false, func(r *result.Run) string { return words(r.Machine.OS, r.Machine.Kernel, r.Machine.Arch) }},
	{"schema", "statements", true, func(r *result.Run) string {
		all := make([]string, len(r.Schema))
		for i, s := range r.Schema {
			all[i] = strings.TrimRight(strings.TrimSpace(s), ";") + ";"
		}
		return strings.Join(all, "\n")
	}},
}

func sortedNames(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }

// tenths summarizes the run over each tenth of its rows.
func (v *view) tenths() *table {
	const tenths = 10
	t := &table{Header: []string{"rows", "mean rate, rows/s"}}
	operations := ops(v.sum.LatencyUS)
	for _, op := range operations {
		t.Header = append(t.Header, op+" p50", op+" p95", op+" p99", op+" max")
	}
	t.Header = append(t.Header, "pages read per row")
	rates := v.curve.Windows(tenths)
	total := v.curve.Rows()
	var m result.Merger
	at := 0
	for i := range rates {
		end := at
		for end < len(v.rec.Intervals) && (float64(v.rec.Intervals[end].Rows) <= total*float64(i+1)/tenths || i == tenths-1) {
			end++
		}
		// An interval that extends into the next tenth belongs to the one in which
		// it began; one that spans several belongs to the first.
		if end < len(v.rec.Intervals) && float64(v.rec.Intervals[end].Rows-v.rec.Intervals[end].NewRows) < total*float64(i+1)/tenths {
			end++
		}
		b := bucket(v.rec.Intervals[at:end])
		at = end
		row := []string{short(total*float64(i)/tenths) + " to " + short(total*float64(i+1)/tenths), figure(rates[i])}
		for _, op := range operations {
			l, ok := b.latency(&m, op, func(iv *result.Interval) map[string]result.Histogram { return iv.Latency })
			cells := []string{none, none, none, none}
			if ok {
				cells = []string{micros(l.P50), micros(l.P95), micros(l.P99), micros(l.Max)}
			}
			row = append(row, cells...)
		}
		reads := ""
		if mean := b.counter("page_reads").mean; !math.IsNaN(mean) && b.rate() > 0 {
			reads = figure(mean / b.rate())
		}
		t.add(append(row, reads)...)
	}
	return t
}

// runCards are the figures of each run that are read first.
func runCards(vs []view) cards {
	st := styles(vs)
	var out cards
	for i := range vs {
		v := &vs[i]
		c := card{Label: v.label, Style: st[i]}
		switch {
		case v.asks():
			c.Big, c.Unit, c.About = figure(v.sum.Step.QueriesPerSecond), "queries/s", "beside "+figure(v.sum.Step.InsertsPerSecond)+" rows/s inserted"
		case v.sum.Rows > 0:
			c.Big, c.Unit = figure(v.sum.Rate.Last), "rows/s"
			c.About = "in the last tenth of the rows"
			if few := v.tooShort(); few != "" {
				c.Big, c.About = figure(v.sum.RowsPerSecond), "on average; "+few+" to say how the rate changes"
			} else if v.kept() {
				c.Big, c.About = figure(v.sum.RowsPerSecond), "of the "+figure(v.loop.Asked)+" rows/s offered"
			} else if v.rec.Run.Search != nil && !v.rec.IsTrial() { // a search chooses the rates, so they can't be compared
				c.About += ", while the table was filled"
			} else {
				of := " of"
				if v.sum.Rate.Flatness > mostPercent {
					of = ""
				}
				c.About += ", " + share(v.sum.Rate.Flatness) + of + " the first tenth's " + figure(v.sum.Rate.First)
			}
		default:
			c.Big = "no rows"
		}
		out = append(out, c)
	}
	return out
}

func capacityCards(searches []capacity) (out cards) {
	for i := range searches {
		if c := &searches[i]; c.State == "found" {
			out = append(out, card{Label: "Capacity of " + c.label, Style: nthStyle(len(palette) - 1), Big: figure(c.RowsPerSecond), Unit: "rows/s",
				About: fmt.Sprintf("sustained at %s rows with p99 <= %s", short(float64(c.Rows)), micros(c.P99LimitUS))})
		}
	}
	return out
}
