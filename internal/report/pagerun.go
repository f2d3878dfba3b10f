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

type pageFact struct {
	Name, Value string
	Bad         bool
}

// pageRun is the text of the page about one run.
type pageRun struct {
	Index       int
	Label, Dash string
	// Queries is the rate of a step with queries, "" for others; Inserts is the
	// insert rate beside it.
	Queries, Inserts      string
	HasRows               bool
	First, Last, Flatness string
	Tiles                 []pageFact
	Deviations            []string
	Periods               []pagePeriod
	Events                []pageEvent
	MoreEvents            int
	Stalls                []pageStall
	MoreStalls            int
}

type pagePeriod struct {
	Name, From, To, Expected, Found, Checksum string
	Bad                                       bool
}

type pageEvent struct{ At, Took, What string }

type pageStall struct{ At, Rows, Took, Rate, Around, Why string }

// The maximum number of events and stalls listed in the page; the record has all of
// them.
const (
	listedEvents = 500
	listedStalls = 20
)

func (v *view) pageRun(i int, s style) pageRun {
	dash := make([]string, len(s.dash))
	for j, d := range s.dash {
		dash[j] = figure(d)
	}
	out := pageRun{
		Index: i, Label: v.label, Dash: strings.Join(dash, " "), HasRows: v.sum.Rows > 0,
		First: figure(v.sum.Rate.First), Last: figure(v.sum.Rate.Last), Flatness: percent(v.sum.Rate.Flatness),
		Tiles: v.tiles(), Deviations: v.rec.Run.Deviations,
	}
	if v.asks() {
		out.Queries, out.Inserts = figure(v.sum.Step.QueriesPerSecond), figure(v.sum.Step.InsertsPerSecond)
	}
	if v.rec.End != nil {
		for _, p := range v.rec.End.Periods {
			checksum := none
			if p.Checksum != nil {
				checksum = map[bool]string{true: "equal", false: "differs"}[*p.Checksum]
			}
			out.Periods = append(out.Periods, pagePeriod{p.Name, p.From, p.To, count(p.Expected), count(p.Found), checksum,
				p.Expected != p.Found+p.Lost || checksum == "differs"})
		}
	}
	for j := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[j].Events {
			if len(out.Events) == listedEvents {
				out.MoreEvents++
				continue
			}
			out.Events = append(out.Events, pageEvent{figure(e.Elapsed) + " s", micros(1e6 * e.Seconds), strings.TrimSpace(e.What + " " + e.Object)})
		}
	}
	for _, st := range longest(v.stalled, listedStalls) {
		why := st.Why
		if why == "" {
			why = "no recorded figure moved with it"
		}
		out.Stalls = append(out.Stalls, pageStall{figure(st.From) + " s", short(float64(st.Rows)), figure(st.Seconds()) + " s",
			figure(st.Rate), figure(st.Around), sentence(why)})
	}
	out.MoreStalls = len(v.stalled) - len(out.Stalls)
	return out
}

// A pageSetting is one line of the table of the runs' settings: a value for each
// run, and whether they differ.
type pageSetting struct {
	Group, Name string
	Values      []string
	Differs     bool
	// Code values are shown verbatim, including line breaks.
	Code bool
}

// settingsTable arranges everything needed to repeat the runs side by side.
func settingsTable(vs []view) []pageSetting {
	var out []pageSetting
	add := func(group, name string, code bool, of func(r *result.Run) string) {
		s := pageSetting{Group: group, Name: name, Code: code}
		any := false
		for i := range vs {
			value := of(&vs[i].rec.Run)
			any = any || value != ""
			s.Differs = s.Differs || i > 0 && value != s.Values[0]
			s.Values = append(s.Values, value)
		}
		if any {
			out = append(out, s)
		}
	}
	text := func(group, name string, of func(r *result.Run) string) { add(group, name, false, of) }
	number := func(group, name string, of func(r *result.Run) int64) {
		add(group, name, false, func(r *result.Run) string {
			if n := of(r); n != 0 {
				return count(n)
			}
			return ""
		})
	}
	text("run", "name", func(r *result.Run) string { return r.Name })
	text("run", "started", func(r *result.Run) string { return r.Started.UTC().Format(time.DateTime + " UTC") })
	text("run", "rowmill", func(r *result.Run) string { return r.Rowmill })
	add("run", "command", true, func(r *result.Run) string {
		return strings.TrimSpace("rowmill " + strings.Join(r.Command, " "))
	})
	text("run", "workload", func(r *result.Run) string { return r.Workload })
	text("run", "preset", func(r *result.Run) string { return r.Preset })
	text("run", "layout", func(r *result.Run) string { return r.Layout })
	text("run", "period", func(r *result.Run) string { return (&view{rec: &result.Record{Run: *r}}).period() })
	number("run", "rows asked for", func(r *result.Run) int64 { return r.Rows })
	text("run", "time limit", func(r *result.Run) string {
		if r.MaxTimeSeconds <= 0 {
			return ""
		}
		return seconds(r.MaxTimeSeconds)
	})
	text("run", "rate offered", func(r *result.Run) string {
		if r.Rate <= 0 {
			return ""
		}
		return rowsRate(r.Rate)
	})
	number("run", "writers", func(r *result.Run) int64 { return int64(r.Writers) })
	number("run", "rows a batch", func(r *result.Run) int64 { return int64(r.Batch) })
	text("run", "method", func(r *result.Run) string { return r.Method })
	number("run", "secondary indexes", func(r *result.Run) int64 { return int64(r.Indexes) })
	text("run", "seed", func(r *result.Run) string { return fmt.Sprint(r.Seed) })
	text("run", "interval", func(r *result.Run) string { return figure(r.IntervalSeconds) + " s" })
	text("server", "engine", func(r *result.Run) string { return strings.TrimSpace(r.Engine + " " + r.ServerVersion) })
	text("server", "storage", func(r *result.Run) string { return r.Storage })
	text("server", "durability", func(r *result.Run) string { return r.Durability })
	text("server", "cache", func(r *result.Run) string { return sizeOrNone(r.CacheBytes) })
	text("server", "target", func(r *result.Run) string { return r.Target })
	number("machine", "cores", func(r *result.Run) int64 { return int64(r.Machine.Cores) })
	text("machine", "processor", func(r *result.Run) string { return r.Machine.CPU })
	text("machine", "memory", func(r *result.Run) string { return sizeOrNone(r.Machine.MemoryBytes) })
	text("machine", "disk", func(r *result.Run) string { return strings.TrimSpace(r.Machine.Disk + " " + r.Machine.Filesystem) })
	text("machine", "system", func(r *result.Run) string {
		return strings.Join(strings.Fields(r.Machine.OS+" "+r.Machine.Kernel+" "+r.Machine.Arch), " ")
	})
	add("schema", "statements", true, func(r *result.Run) string {
		all := make([]string, len(r.Schema))
		for i, s := range r.Schema {
			all[i] = strings.TrimRight(strings.TrimSpace(s), ";") + ";"
		}
		return strings.Join(all, "\n")
	})
	names := map[string]bool{}
	for i := range vs {
		for name := range vs[i].rec.Run.Settings {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add("setting", name, true, func(r *result.Run) string { return r.Settings[name] })
	}
	return out
}

// A pageTable contains the content of a run's charts as a table.
type pageTable struct {
	Label  string
	Header []string
	Rows   [][]string
}

// tenthsDetail summarizes the run over each tenth of its rows: the rate, the latency
// and what the server read per row.
func (v *view) tenthsDetail() pageTable {
	const tenths = 10
	t := pageTable{Label: v.label, Header: []string{"rows", "mean rate, rows/s"}}
	operations := ops(v.sum.LatencyUS)
	for _, op := range operations {
		t.Header = append(t.Header, op+" p50", op+" p95", op+" p99", op+" max")
	}
	reads := slices.ContainsFunc(v.rec.Intervals, func(iv result.Interval) bool { _, ok := iv.Counters["page_reads"]; return ok })
	if reads {
		t.Header = append(t.Header, "pages read per row")
	}
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
			for _, us := range []int64{l.P50, l.P95, l.P99, l.Max} {
				if ok {
					row = append(row, micros(float64(us)))
				} else {
					row = append(row, none)
				}
			}
		}
		if reads {
			perRow := math.NaN()
			if rate := b.rate(); rate > 0 {
				perRow = b.counter("page_reads").mean / rate
			}
			row = append(row, figure(perRow))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// tiles returns the figures on a run's card.
func (v *view) tiles() []pageFact {
	s := &v.sum
	out := []pageFact{
		{"rows", count(s.Rows), v.rec.Run.Rows > 0 && s.Rows < v.rec.Run.Rows && v.incomplete() != ""},
		{"time", seconds(s.Seconds), false},
		{"mean rate", rowsRate(s.RowsPerSecond), v.overloaded()},
		{"slowest tenth", rowsRate(s.Rate.Min), false},
	}
	if s.Knee != nil {
		out = append(out, pageFact{"knee", "at " + short(float64(s.Knee.Rows)) + " rows", true})
	} else {
		out = append(out, pageFact{"knee", "none", false})
	}
	for _, op := range ops(s.LatencyUS) {
		out = append(out, pageFact{op + " p99 / max", micros(float64(s.LatencyUS[op].P99)) + " / " + micros(float64(s.LatencyUS[op].Max)), false})
	}
	for _, op := range ops(s.ResponseUS) {
		out = append(out, pageFact{op + " response p99", micros(float64(s.ResponseUS[op].P99)), false})
	}
	out = append(out, pageFact{"stalled", figure(s.StallSeconds) + " s", false},
		pageFact{"errors / retries", count(s.Errors) + " / " + count(s.Retries), s.Errors > 0})
	switch c := s.Verified; {
	case c == nil && v.whole() != "":
		out = append(out, pageFact{"verified", v.whole(), false})
	case c == nil:
		out = append(out, pageFact{"verified", "no: rows not read", false})
	case c.Sound() && c.Lost > 0:
		out = append(out, pageFact{"verified", count(c.Lost) + " rows lost, as the settings allow; checksum", true})
	case c.Sound() && c.Counted:
		out = append(out, pageFact{"verified", "all rows, counted", false})
	case c.Sound():
		out = append(out, pageFact{"verified", "all rows, checksum", false})
	default:
		out = append(out, pageFact{"verified", "FAILED", true})
	}
	if s.SizeBytes != nil {
		out = append(out, pageFact{"size", fmt.Sprintf("%s, %s B/row", bytes(float64(s.SizeBytes.Data+s.SizeBytes.Index)), figure(s.SizeBytes.PerRow)), false})
	}
	if s.Server.CPUSeconds != nil && s.Rows > 0 {
		out = append(out, pageFact{"server CPU", micros(1e6**s.Server.CPUSeconds/float64(s.Rows)) + "/row", false})
	}
	if s.Client.Bound {
		out = append(out, pageFact{"client", "client-bound", true})
	}
	return out
}
