package report

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/capacity"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/report/reference"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// conditions are the names of facts that runs on one server share.
var conditions = []string{"server", "settings", "machine", "target"}

// runs are records of any kind, reported one by one.
type runs []result.Record

// Document reports the runs.
func (recs runs) Document() *document.Document {
	loads := views(loading(recs))
	d := &document.Document{Title: title(loads), Subtitle: subtitle(loads), Untitled: true, Data: func() any { return summaries(recs) },
		Sheet: func() *document.Table { return intervalSheet(recs) }, Footer: footer(&loads[0].rec.Run)}
	if ss := steadies(loads); ss != nil {
		steadyParts(d, loads, ss)
		addDelays(d, recs)
		return d
	}
	searches := capacity.Searches(recs)
	d.Picture = func(opts document.PNGOptions) *document.Picture {
		if len(searches) > 0 {
			return capacity.Picture(searches)
		}
		// A step at a fixed rate says less than the other runs, and has no line.
		return ratePicture(views(only(loading(recs), func(r *result.Run) bool { return r.Step == nil || r.Rate == 0 })), opts)
	}
	reference.AddTo(d, recs)
	for i := range searches {
		d.Add(searches[i].Section())
	}
	d.Add(upkeep(loads)...)
	d.Add(append(capacity.Cards(searches), runCards(loads)...), document.Later{In: document.InHTML, Parts: func() []document.Part { return []document.Part{liveRuns(loads, telling), histograms(loads)} }})
	others, benchmarks := splitSteps(recs)
	for _, steps := range benchmarks {
		benchmark(views(steps)).parts(d, len(benchmarks) > 1)
	}
	switch {
	case len(benchmarks) == 0:
		insertParts(d, loads, searches)
	case len(others) > 0:
		insertParts(d, views(others), capacity.Searches(others))
	default:
		d.Add(&document.Section{Title: "All figures", In: document.InHTML, Fold: true, Parts: []document.Part{runColumns(loads).Sheet()}})
	}
	addDelays(d, recs)
	d.Add(document.Later{In: document.InHTML | document.InMarkdown, Parts: func() []document.Part { return runDetails(loads) }})
	return d
}

func summaries(recs []result.Record) Summaries {
	out := Summaries{Format: result.SummaryFormat, Runs: make([]result.Summary, len(recs)), Capacity: result.Capacities(recs)}
	for i := range recs {
		out.Runs[i] = recs[i].Summary()
	}
	out.Scenarios, out.SettingsToTry = reference.Results(recs), result.DiskSettings(recs)
	return out
}

// insertParts adds the report of runs that are not steps.
func insertParts(d *document.Document, vs []view, searches []capacity.Search) {
	d.Say(true, capacity.Findings(searches)...)
	d.Say(false, verdicts(vs)...)
	d.Say(len(searches) == 0, ratios(vs)...)
	d.Notes = append(d.Notes, allProblems(vs)...)
	for i := range searches {
		d.Notes = append(d.Notes, searches[i].Problems()...)
	}
	d.Add(constantSize(vs))
	d.Add(repeatSections(vs)...)
	d.Add(runColumns(vs))
}

func runColumns(vs []view) *document.Columns {
	c := &document.Columns{Shown: leaders(vs), Shared: conditions}
	for i := range vs {
		n := len(vs[i].repeats)
		title := cmp.Or(vs[i].rec.Run.Name, vs[i].label) + onlyIf(n > 0, fmt.Sprintf(", the median of %d", n))
		c.Labels, c.Titles, c.Facts = append(c.Labels, vs[i].label), append(c.Titles, title), append(c.Facts, vs[i].facts())
	}
	return c
}

func title(vs []view) string {
	r := &vs[0].rec.Run
	rows := int64(0)
	for i := range vs {
		rows = max(rows, vs[i].sum.Rows)
	}
	all := func(is func(r *result.Run) bool) bool {
		return !slices.ContainsFunc(vs, func(v view) bool { return !is(&v.rec.Run) })
	}
	engine := result.EngineName(r.Engine)
	switch s := r.Scenario; {
	case s != nil && all(func(r *result.Run) bool { return r.Scenario != nil && r.Scenario.Name == s.Name }):
		return s.Title + ": " + engine
	case r.Step != nil:
		return fmt.Sprintf("Insert rate of %s in the steps of %s, up to %s rows each", engine, r.Step.Benchmark, short(float64(rows)))
	case all(func(r *result.Run) bool { return r.Search != nil }):
		return fmt.Sprintf("Insert rate that %s sustains with p99 <= %s", engine, micros(r.Search.LimitUS))
	case r.Workload == "keep":
		return fmt.Sprintf("Inserts into a table of %s beside its maintenance", engine)
	}
	return fmt.Sprintf("Insert rate of %s as a table grows to %s rows", engine, short(float64(rows)))
}

func subtitle(vs []view) string {
	common := vs[0].circumstances()
	for i := range vs[1:] {
		other := vs[i+1].circumstances()
		common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(other, s) })
	}
	return document.Listed(" · ", common...)
}

// circumstances returns the conditions of a run, a few words each.
func (v *view) circumstances() []string {
	r := &v.rec.Run
	parts := []string{words(result.EngineName(r.Engine), r.ServerVersion), cacheText(r.CacheBytes)}
	if r.Step != nil {
		return append(parts, plural(r.Writers, "client", "clients"), plural(r.Step.Tables, "table", "tables"), called("durability", r.Durability))
	}
	return append(parts, plural(r.Indexes, "secondary index", "secondary indexes"), r.Preset, plural(r.Writers, "writer", "writers"),
		"batches of "+count(r.Batch), called("durability", r.Durability), some(r.Machine.Cores, "core", "cores"))
}

// A view is one run with the figures that reports derive from it.
type view struct {
	rec   *result.Record
	sum   result.Summary
	curve result.Curve
	loop  *result.OpenLoop // nil for a closed loop
	// stalled are the run's stalls, in chronological order.
	stalled []result.Stall
	// label distinguishes the run from other runs of the same report.
	label string
	// repeats are the indexes of all runs of this run's configuration, itself included; nil if it is
	// the only one. The run with the median rate represents the others, which are minor.
	repeats []int
	minor   bool
}

func views(recs []result.Record) []view {
	recs = charted(recs)
	out := make([]view, len(recs))
	names := labels(recs)
	for i := range recs {
		r := &recs[i]
		out[i] = view{rec: r, sum: r.Summary(), curve: r.Curve(), loop: r.OpenLoop(), stalled: r.Stalls(), label: names[i]}
		if r.Run.Step != nil && (r.Run.Rate > 0 || out[i].sum.Rate.Flatness >= 0.5) || out[i].tooShort() != "" {
			out[i].sum.Knee = nil // a short run or a step at a fixed rate has no meaningful knee, and a stall of a step is no knee
		}
	}
	bundles(out, recs)
	return out
}

// labels returns the shortest names that distinguish the runs.
func labels(recs []result.Record) []string {
	file := func(i int) string { return " (" + filepath.Base(recs[i].Source) + ")" }
	return document.Distinct(len(recs),
		func(i int) string {
			if s := recs[i].Run.Scenario; s != nil {
				return s.Run
			}
			return ""
		},
		func(i int) string { return stepName(&recs[i].Run) },
		func(i int) string { return recs[i].Run.Layout },
		func(i int) string {
			r := &recs[i].Run
			return words(r.Side, r.Layout, onlyIf(r.Repeat > 0, fmt.Sprintf("#%d", r.Repeat)))
		},
		func(i int) string { return recs[i].Run.Name },
		func(i int) string { return recs[i].Run.Layout + file(i) },
		func(i int) string { return recs[i].Run.Name + file(i) })
}

// charted returns the runs shown one by one: all runs except the trials of searches.
func charted(recs []result.Record) []result.Record {
	out := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return r.IsTrial() })
	if len(out) == 0 {
		return recs
	}
	return out
}

// incomplete describes why the run did not come to its end; empty if it did.
func (v *view) incomplete() string {
	end := v.rec.End
	switch {
	case end == nil:
		return "cut off: its record has no end, the figures cover what was written"
	case end.Failure != "":
		return "failed: " + end.Failure
	case end.Stopped == "failed":
		return "failed"
	case end.Stopped == "interrupted":
		return "interrupted"
	}
	return ""
}

// problems returns what a reader must know before any figure, worst first.
func (v *view) problems() []document.Note {
	var out []document.Note
	if how := v.incomplete(); how != "" {
		out = append(out, document.Note{Serious: true, Text: how})
	}
	switch c := v.sum.Verified; {
	case c != nil && !c.Sound():
		out = append(out, document.Note{Serious: true, Text: "verification " + v.verified()})
	case c == nil && v.sum.Rows > 0 && v.whole() == "" && !result.WarnsOfUnverified(v.sum.Warnings):
		out = append(out, document.Note{Text: result.NotVerified})
	}
	for _, w := range v.sum.Warnings {
		// The first problem already covers this.
		if v.rec.End != nil || !strings.HasPrefix(w, "the run was cut off") {
			out = append(out, document.Note{Serious: v.overloaded() && strings.HasPrefix(w, "overload:"), Text: w})
		}
	}
	return out
}

// whole says when the rows of a run that is a part of a longer run are verified; "" for other runs.
func (v *view) whole() string {
	switch {
	case v.rec.Run.Search != nil:
		return "with all trials, after the last"
	case v.midway():
		return "with all steps, after the last"
	}
	return ""
}

// midway reports whether the run is a step that other steps follow.
func (v *view) midway() bool {
	s := v.rec.Run.Step
	return s != nil && s.Number < s.Of
}

// Between these two values of the flatness (last rate / first rate), a rate counts as kept:
// repeated runs differ by less than a tenth.
const (
	keptFlatness  = 0.9
	grownFlatness = 1.1
)

func (v *view) verdict() string {
	s := v.label + " "
	flat := v.sum.Rate.Flatness
	few := v.tooShort()
	over := fmt.Sprintf(" its first rate over %s rows", short(float64(v.sum.Rows)))
	switch {
	case v.sum.Rows == 0:
		s += "inserted no rows"
	case flat == 0:
		s += fmt.Sprintf("inserted %s rows", short(float64(v.sum.Rows)))
	case few != "":
		s += fmt.Sprintf("inserted %s rows at %s; %s to say how the rate changes", short(float64(v.sum.Rows)), rowsRate(v.sum.RowsPerSecond), few)
	case v.kept():
		s += fmt.Sprintf("inserted %s rows at the %s offered", short(float64(v.sum.Rows)), rowsRate(v.loop.Asked))
	case v.sum.Knee != nil && flat >= 0.5:
		s += fmt.Sprintf("fell below half of its first rate at %s rows and came back to %s of it", short(float64(v.sum.Knee.Rows)), percent(flat))
	case v.sum.Knee != nil:
		s += fmt.Sprintf("fell to %s of its first rate, with the knee at %s rows", percent(flat), short(float64(v.sum.Knee.Rows)))
	case v.rec.Run.Search != nil && flat > grownFlatness:
		// The search chose the rates, so the first and the last are not comparable.
		s += fmt.Sprintf("inserted %s rows, at the rates that the search tried", short(float64(v.sum.Rows)))
	case flat > grownFlatness:
		s += "rose to " + ratio(flat) + over
	case flat >= keptFlatness:
		s += "kept " + percent(flat) + " of" + over
	default:
		s += "fell to " + percent(flat) + " of" + over
	}
	if few == "" && flat > 0 && !v.kept() {
		s += v.inCache()
	}
	if v.overloaded() {
		s += fmt.Sprintf(", and did only %s of the %s offered", percent(v.loop.Done/v.loop.Asked), rowsRate(v.loop.Asked))
	}
	if kills := v.kills(); strings.HasPrefix(kills, "the server") {
		s += "; " + kills
	}
	if how := v.incomplete(); how != "" {
		how, _, _ = strings.Cut(how, ":")
		s += ", before it " + map[string]string{"failed": "failed", "interrupted": "was interrupted", "cut off": "was cut off"}[how]
	}
	return s
}

// kept reports whether the run kept up with the requested rate. If it did, the course of its rate
// doesn't show the effect of the table's size.
func (v *view) kept() bool { return v.loop != nil && !v.loop.Overloaded }

// A run that takes less than leastSeconds, or has fewer than leastOperations, is too short to
// compare its last tenth with its first.
const leastSeconds, leastOperations = 1, 20

// tooShort says why a run is too short to tell how its rate changes; "" if it is long enough.
func (v *view) tooShort() string {
	n := int64(0)
	for op, l := range v.sum.LatencyUS {
		if _, beside := v.sum.Beside[op]; !beside {
			n = max(n, l.Count)
		}
	}
	switch {
	case n > 0 && n < leastOperations:
		return plural(n, "operation is", "operations are") + " too few"
	case v.sum.Seconds < leastSeconds:
		return seconds(v.sum.Seconds) + " is too short"
	}
	return ""
}

// inCache says that the table never outgrew the database's cache; "" if it did, or if that is
// unknown.
func (v *view) inCache() string {
	z, cache := v.sum.SizeBytes, v.rec.Run.CacheBytes
	if z == nil || cache <= 0 || z.Data+z.Index > cache || v.sum.Knee != nil { // a knee shows that the table outgrew the cache, though the server's sizes lag behind
		return ""
	}
	return fmt.Sprintf("; its %s never outgrew the cache of %s", bytes(z.Data+z.Index), bytes(cache))
}

// ratios compares each rolling run, or its repeats, with the plain run of the same conditions. The
// ratio is that of the rates over the last tenth of the rows that both runs reached.
func ratios(vs []view) (out []string) {
	of := func(v *view) (runs []*result.Record) {
		if v.repeats == nil {
			return []*result.Record{v.rec}
		}
		for _, i := range v.repeats {
			runs = append(runs, vs[i].rec)
		}
		return runs
	}
	for i := range vs {
		r := &vs[i]
		if r.rec.Run.Layout != "rolling" || r.minor {
			continue
		}
		p := plainBeside(vs, r)
		offered := p != nil && p.loop != nil && r.loop != nil && !p.loop.Overloaded && !r.loop.Overloaded // the load decided both rates
		if p == nil || offered || p.tooShort()+r.tooShort() != "" {
			continue
		}
		pairs, _ := matched(of(p), of(r))
		if len(pairs) == 0 {
			continue
		}
		c := atEqualRows(pairs, false)
		last := c.LastTenth
		if last == nil || last.Ratio == nil {
			continue
		}
		pair, at, from := plural(len(pairs), "pair", "pairs"), fmt.Sprintf(" in the last tenth of %s rows", short(float64(c.Rows))), ", in one run each"
		if last.Interval != nil {
			from = fmt.Sprintf(" (95%% interval %s, from %s)", interval(last.Interval), pair)
		}
		line := fmt.Sprintf("%s ends at %s the rate of %s%s: %s against %s%s",
			r.configuration(), ratio(*last.Ratio), p.configuration(), from, rowsRate(statistics.Value(last.B)), rowsRate(statistics.Value(last.A)), at)
		if last.Verdict == statistics.NoDifference {
			line = cantTell(last, r.configuration()+" and "+p.configuration(), at, rowsRate) + ", medians of " + pair
		}
		out = append(out, line+strings.Replace(p.inCache(), "its", p.label+"'s", 1))
	}
	return out
}

// plainBeside returns the plain run of the same engine and preset, preferably from the same file;
// nil if there is none.
func plainBeside(vs []view, r *view) *view {
	var found *view
	for i := range vs {
		p := &vs[i]
		if p.minor || p.rec.Run.Layout != "plain" || p.rec.Run.Side != r.rec.Run.Side || p.rec.Run.Engine != r.rec.Run.Engine || p.rec.Run.Preset != r.rec.Run.Preset {
			continue
		}
		if a, b := &p.rec.Run, &r.rec.Run; a.Scenario != nil && (a.Batch != b.Batch || a.Indexes != b.Indexes || a.Writers != b.Writers) {
			continue // runs of a scenario match only if they differ in the layout alone
		}
		if p.rec.Source == r.rec.Source {
			return p
		}
		if found == nil {
			found = p
		}
	}
	return found
}

func (v *view) facts() []document.Fact {
	run := &v.rec.Run
	out := []document.Fact{{Name: "status", Value: v.incomplete()}, {Name: "rate", Value: v.rate()}, {Name: "knee", Value: v.knee()}, {Name: "disk reads", Value: v.rec.LastDiskReads()}, {Name: "rows", Value: v.rows()}, {Name: "open loop", Value: v.openLoop()},
		{Name: "steadiness", Value: v.steadiness()}}
	for _, op := range slices.Sorted(maps.Keys(v.sum.Beside)) {
		out = append(out, document.Fact{Name: op, Value: beside(v.sum.Beside[op])})
	}
	for _, op := range ops(v.sum.LatencyUS) {
		out = append(out, document.Fact{Name: op + " service", Value: latency(v.sum.LatencyUS[op])})
	}
	for _, op := range ops(v.sum.ResponseUS) {
		out = append(out, document.Fact{Name: op + " response", Value: latency(v.sum.ResponseUS[op])})
	}
	out = append(out, document.Fact{Name: "stalls", Value: v.stalls()},
		document.Fact{Name: "errors", Value: plural(v.sum.Errors, "error", "errors") + ", " + plural(v.sum.Retries, "retry", "retries")},
		document.Fact{Name: "kills", Value: v.kills()}, document.Fact{Name: "verified", Value: v.verified()}, document.Fact{Name: "size", Value: v.size()}, document.Fact{Name: "client", Value: v.client()},
		document.Fact{Name: "server CPU", Value: v.serverCPU()}, document.Fact{Name: "server", Value: v.server()}, document.Fact{Name: "settings", Value: v.settings()}, document.Fact{Name: "workload", Value: v.workload()},
		document.Fact{Name: "period", Value: onlyIf(run.Period != "", run.Period+onlyIf(run.KeepPeriods > 0, fmt.Sprintf(", %d kept", run.KeepPeriods))+onlyIf(run.PeriodWhy != "", ": "+run.PeriodWhy))},
		document.Fact{Name: "machine", Value: machine(run.Machine)}, document.Fact{Name: "target", Value: run.Target})
	return slices.DeleteFunc(out, func(f document.Fact) bool { return f.Value == "" })
}

// mainSettings are the server settings needed to judge an insert rate, beside durability.
var mainSettings = []string{
	"innodb_buffer_pool_size", "innodb_log_file_size", "innodb_log_files_in_group", "innodb_redo_log_capacity",
	"innodb_page_size", "innodb_io_capacity", "innodb_change_buffering", "innodb_flush_neighbors", "unique_checks",
	"shared_buffers", "max_wal_size", "checkpoint_timeout", "wal_compression",
	"cache_size", "page_size", "mmap_size", "wal_autocheckpoint",
}

// durabilitySettings determine what a crash may lose. Runs that are compared must have the same.
var durabilitySettings = []string{
	"innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_doublewrite", "innodb_flush_method",
	"innodb_use_native_aio", "innodb_checksum_algorithm", "rocksdb_flush_log_at_trx_commit",
	"synchronous_commit", "fsync", "full_page_writes", "wal_level", "wal_sync_method", "data_checksums",
	"synchronous", "journal_mode", "locking_mode", "fullfsync",
}

// called puts the name before a value, e.g. "durability full"; "" without a value.
func called(name, value string) string { return onlyIf(value != "", name+" "+value) }

func words(parts ...string) string {
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func cacheText(n int64) string { return onlyIf(n > 0, bytes(n)+" cache") }

// some returns the number with its noun, e.g. "3 runs"; "" for 0.
func some(n int, one, many string) string { return onlyIf(n != 0, plural(n, one, many)) }

func (v *view) server() string {
	r := &v.rec.Run
	return document.Listed(", ", words(r.Engine, r.ServerVersion), called("storage", r.Storage), called("cache", document.IfAny(r.CacheBytes, bytes)),
		called("durability", r.Durability), onlyIf(r.Embedded, "embedded"))
}

func machine(m result.Machine) string {
	return document.Listed(", ", some(m.Cores, "core", "cores"), m.CPU, onlyIf(m.MemoryBytes > 0, bytes(m.MemoryBytes)+" memory"), called("disk", words(m.Disk, m.Filesystem)), words(m.OS, m.Kernel, m.Arch))
}

func (v *view) settings() string {
	var parts []string
	for _, name := range slices.Concat(durabilitySettings, mainSettings) {
		if val, ok := v.rec.Run.Settings[name]; ok {
			parts = append(parts, name+"="+val)
		}
	}
	return strings.Join(parts, " ")
}

func (v *view) workload() string {
	r := &v.rec.Run
	return document.Listed(", ", r.Workload, called("preset", r.Preset), called("layout", r.Layout), plural(r.Writers, "writer", "writers"),
		plural(r.Batch, "row", "rows")+" a batch", called("method", r.Method), plural(r.Indexes, "secondary index", "secondary indexes"),
		fmt.Sprintf("seed %d", r.Seed))
}

func (v *view) rows() string {
	s := plural(v.sum.Rows, "row", "rows")
	if asked := v.rec.Run.Rows; asked > 0 && asked != v.sum.Rows {
		s += fmt.Sprintf(" of %s asked for (%s)", count(asked), percent(float64(v.sum.Rows)/float64(asked)))
	}
	s += " in " + seconds(v.sum.Seconds) + ", " + rowsRate(v.sum.RowsPerSecond)
	end := cmp.Or(v.rec.End, &result.End{})
	return s + onlyIf(end.SkippedRows > 0, fmt.Sprintf(", %s skipped because their key was there", plural(end.SkippedRows, "row", "rows"))) +
		onlyIf(end.Stopped == "max-time", ", ended by the time limit of "+seconds(v.rec.Run.MaxTimeSeconds))
}

func (v *view) rate() string {
	r := v.sum.Rate
	if r.First == 0 && r.Last == 0 {
		return ""
	}
	return fmt.Sprintf("first tenth %s, last tenth %s, slowest tenth %s, flatness %.2f",
		rowsRate(r.First), rowsRate(r.Last), rowsRate(r.Min), r.Flatness)
}

func (v *view) knee() string {
	few := v.tooShort()
	switch {
	case v.sum.Rows > 0 && few != "":
		return "unknown: " + few
	case v.sum.Knee != nil:
		return fmt.Sprintf("at %s rows: %s", short(float64(v.sum.Knee.Rows)), v.sum.Knee.Why)
	case v.sum.Rows > 0:
		return "none: no tenth of the rows came at less than half of the first tenth's rate"
	}
	return ""
}

func (v *view) openLoop() string {
	o := v.loop
	if o == nil {
		return ""
	}
	verdict := either(o.Overloaded, "OVERLOADED", "kept up")
	backlog := plural(o.Backlog, "operation", "operations") + " at the end" + onlyIf(o.Growing, " and growing")
	return fmt.Sprintf("%s: offered %s, done %s (%s); backlog %s, %s at most; %s began late",
		verdict, rowsRate(o.Asked), rowsRate(o.Done), percent(o.Done/o.Asked), backlog, count(o.Peak), plural(o.Late, "operation", "operations"))
}

func beside(d result.Done) string {
	return fmt.Sprintf("%s, %s operations/s", plural(d.Operations, "operation", "operations"), figure(d.PerSecond)) +
		onlyIf(d.Rows != d.Operations, ", "+rowsRate(d.RowsPerSecond)) + onlyIf(d.Backlog > 0, ", backlog "+count(d.Backlog)+" at the end")
}

func (v *view) overloaded() bool { return v.loop != nil && v.loop.Overloaded }

func ops(m map[string]result.Latency) []string { return slices.Sorted(maps.Keys(m)) }

func latency(l result.Latency) string {
	var parts []string
	for _, q := range percentileNames {
		if l.Count >= q.least {
			parts = append(parts, q.name+" "+micros(q.of(l)))
		}
	}
	return fmt.Sprintf("%s (%s)", strings.Join(parts, ", "), plural(l.Count, "operation", "operations"))
}

func (v *view) stalls() string {
	if v.sum.StallSeconds == 0 {
		return "none"
	}
	return seconds(v.sum.StallSeconds) + onlyIf(v.sum.Seconds > 0, fmt.Sprintf(", %s of the run", percent(v.sum.StallSeconds/v.sum.Seconds)))
}

// kills describes how often the server was killed, and how long its restart took.
func (v *view) kills() string {
	var kills int64
	var back []float64
	for i := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[i].Events {
			switch e.What {
			case "kill server":
				kills++
			case "server back":
				back = append(back, e.Seconds)
			}
		}
	}
	if kills == 0 {
		every := v.rec.Run.KillServerSeconds
		return onlyIf(every > 0, "none: the run ended before the first, after "+seconds(every))
	}
	s := "the server was killed " + plural(kills, "time", "times")
	if len(back) > 0 {
		s += fmt.Sprintf(", and took connections again after %s to %s", seconds(slices.Min(back)), seconds(slices.Max(back)))
	}
	return s
}

func (v *view) verified() string {
	s := v.sum.Verified.Text()
	if v.sum.Verified == nil {
		return cmp.Or(v.whole(), s)
	}
	end := cmp.Or(v.rec.End, &result.End{})
	return s + onlyIf(end.DroppedRows > 0, "; "+plural(end.DroppedRows, "row", "rows")+" dropped with their periods") +
		onlyIf(end.DeletedRows > 0, "; "+plural(end.DeletedRows, "row", "rows")+" deleted")
}

func (v *view) size() string {
	z := v.sum.SizeBytes
	if z == nil {
		return ""
	}
	return fmt.Sprintf("%s: rows %s, indexes %s; %s bytes/row",
		bytes(z.Data+z.Index), bytes(z.Data), bytes(z.Index), figure(z.PerRow))
}

func (v *view) client() string {
	if len(v.rec.Intervals) == 0 {
		return ""
	}
	return document.Listed("; ", onlyIf(v.rec.End != nil, v.cpu(v.sum.Client.CPUSeconds)),
		either(v.sum.Client.Bound, "CLIENT-BOUND: the figures are rowmill's limit, not the database's", "not the limit"))
}

func (v *view) serverCPU() string {
	if v.sum.Server.CPUSeconds == nil {
		if v.rec.Run.Embedded {
			return "in the client's: the engine is embedded"
		}
		return ""
	}
	return v.cpu(*v.sum.Server.CPUSeconds)
}

func (v *view) cpu(s float64) string {
	cores := figure(s / v.sum.Seconds)
	return "CPU " + seconds(s) + onlyIf(v.sum.Seconds > 0, ", "+cores+either(cores == "1", " core", " cores")+" on average") +
		onlyIf(v.sum.Rows > 0, fmt.Sprintf(", %s/row", micros(1e6*s/float64(v.sum.Rows))))
}
