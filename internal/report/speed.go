package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// SpeedFormat is the format of the output of SpeedTest.JSON.
const SpeedFormat = "rowmill.speed/1"

// A SpeedTest is a matrix of operations, numbers of clients, and contenders, each cell of
// which has records of `bench mixed` or `bench points`.
type SpeedTest struct {
	Format string `json:"format"` // SpeedFormat
	// Workload is "mixed" or "points".
	Workload string `json:"workload"`
	Preset   string `json:"preset"`
	// Rows is what the table was filled with, Seconds the duration of a cell.
	Rows       int64            `json:"rows"`
	Seconds    float64          `json:"seconds"`
	Machine    result.Machine   `json:"machine"`
	Contenders []Contender      `json:"contenders"`
	Operations []SpeedOperation `json:"operations"`
	// Flags lists what makes contenders hard to compare with the first.
	Flags []string `json:"flags"`
	// Failures are cells that failed, Warnings the other warnings of the records.
	Failures []string `json:"failures"`
	Warnings []string `json:"warnings"`

	run *result.Run // the header of the first one
}

// A Contender is one of the compared databases, or a database with a setting.
type Contender struct {
	Label         string `json:"label"`
	Engine        string `json:"engine"`
	ServerVersion string `json:"server_version"`
	Storage       string `json:"storage,omitempty"`
	Target        string `json:"target"`
	Durability    string `json:"durability,omitempty"`
	CacheBytes    int64  `json:"cache_bytes,omitempty"`
	// Setting is NAME=VALUE.
	Setting string `json:"setting,omitempty"`
	Source  string `json:"source,omitempty"`
}

// A SpeedOperation is one operation of all contenders, in their order.
type SpeedOperation struct {
	Operation string `json:"operation"`
	// Counts is the unit of rates: "rows", "queries" or, of transactions and queries together,
	// "operations".
	Counts string `json:"counts"`
	Points int    `json:"points,omitempty"`
	// Verdict names the fastest contender, or describes the effect of the settings.
	Verdict string        `json:"verdict"`
	Courses []SpeedCourse `json:"courses"`
}

// A SpeedCourse contains one contender's cells of an operation, by clients.
type SpeedCourse struct {
	Contender string      `json:"contender"`
	Cells     []SpeedCell `json:"cells"`
	// Peak is the highest rate. Saturation is the smallest number of clients that reaches nine
	// tenths of it; null if more clients than measured may increase the rate further.
	Peak       float64 `json:"peak"`
	Saturation *int    `json:"saturation_clients"`
}

// A SpeedCell contains medians over its runs.
type SpeedCell struct {
	Clients int     `json:"clients"`
	Runs    int     `json:"runs"`
	Rate    float64 `json:"per_second"`
	// InsertedRows and Selects are the parts of a mixed rate.
	InsertedRows *float64 `json:"inserted_rows_per_second,omitempty"`
	Selects      *float64 `json:"selects_per_second,omitempty"`
	// Ratio is relative to the first contender's rate, and Interval is its 95% confidence
	// interval, based on the variation between runs.
	Ratio    *float64 `json:"ratio"`
	Interval *Bounds  `json:"ratio_95"`
	Verdict  string   `json:"verdict,omitempty"`
	// LatencyUS is in microseconds, by operation.
	LatencyUS map[string]SpeedLatency `json:"latency_us"`
	// ClientCPU and ServerCPU are microseconds for each operation.
	ClientCPU *float64 `json:"client_cpu_us_per_operation"`
	ServerCPU *float64 `json:"server_cpu_us_per_operation"`
	// ClientShare is the share of the clients' time spent on their own work. ClientBound is true
	// above half; ClientHeavy if client and server used all of this machine's cores and the
	// client took the larger part.
	ClientShare float64 `json:"client_share"`
	ClientBound bool    `json:"client_bound"`
	ClientHeavy bool    `json:"client_heavy"`
	// OthersShare is the share of all cores used by other programs and the host meanwhile.
	OthersShare *float64 `json:"others_share"`
	// Incomplete is true if no run of the cell came to its end.
	Incomplete bool `json:"incomplete,omitempty"`

	runs []speedRun
}

// SpeedLatency is one operation's latency, from the median run.
type SpeedLatency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// countsOperations is the unit of mixed rates.
const countsOperations = "operations"

// saturated is the share of the peak from which on more clients count as no improvement:
// repeated cells differ by less than a tenth.
const saturated = 0.9

// machineFull is the share of all cores at which the machine counts as full.
const machineFull = 0.8

// speedTest returns the matrix whose cells are the records; nil if none of them is one.
func speedTest(recs []result.Record) (*SpeedTest, error) {
	cell := func(r result.Record) bool { return r.Run.Speed != nil }
	if !slices.ContainsFunc(recs, cell) {
		return nil, nil
	}
	if slices.ContainsFunc(recs, func(r result.Record) bool { return !cell(r) }) {
		return nil, errors.New("report: some of these runs are cells of a speed test and others are not; report them apart")
	}
	first := &recs[0].Run
	t := &SpeedTest{Format: SpeedFormat, Workload: first.Workload, Preset: first.Preset, Rows: first.Speed.Filled,
		Seconds: first.MaxTimeSeconds, Machine: first.Machine,
		Flags: []string{}, Failures: []string{}, Warnings: []string{}, run: first}
	of := t.contenders(recs)
	for i := range recs {
		t.add(&recs[i], of[i])
	}
	for i := range t.Operations {
		t.Operations[i].finish(t)
	}
	t.flags(recs, of)
	t.warnings(recs, of)
	return t, nil
}

// contenders determines the contenders, and returns the index of each record's.
func (t *SpeedTest) contenders(recs []result.Record) []int {
	type identity struct{ source, target, setting, side string }
	at := map[identity]int{}
	var of []int
	sources := map[string]bool{}
	for i := range recs {
		r := &recs[i].Run
		key := identity{recs[i].Source, r.Target, r.Speed.Setting, r.Side}
		sources[recs[i].Source] = true
		if _, ok := at[key]; !ok {
			at[key] = len(t.Contenders)
			t.Contenders = append(t.Contenders, Contender{Engine: r.Engine, ServerVersion: r.ServerVersion, Storage: r.Storage,
				Target: r.Target, Durability: r.Durability, CacheBytes: r.CacheBytes,
				Setting: r.Speed.Setting, Source: recs[i].Source})
		}
		of = append(of, at[key])
	}
	t.label(len(sources) > 1)
	return of
}

func (t *SpeedTest) label(files bool) {
	of := func(name func(c *Contender) string) func(i int) string {
		return func(i int) string {
			c := &t.Contenders[i]
			out := oneLine(name(c))
			if files {
				out += " (" + filepath.Base(c.Source) + ")"
			}
			return out
		}
	}
	for i, name := range distinct(len(t.Contenders),
		of(func(c *Contender) string { return cmp.Or(c.Setting, result.EngineName(c.Engine)) }),
		of(func(c *Contender) string { return result.EngineName(c.Engine) + " " + c.ServerVersion }),
		of(func(c *Contender) string { return result.EngineName(c.Engine) + " " + c.Storage }),
		of(func(c *Contender) string { return c.Target }),
		of(func(c *Contender) string { return strings.TrimSpace(result.EngineName(c.Engine) + " " + c.Setting) })) {
		t.Contenders[i].Label = name
	}
}

// A speedRun is one run with the figures that its cell needs.
type speedRun struct {
	repeat              int
	complete            bool
	rate                float64
	inserted, selects   float64
	latency             map[string]result.Latency
	client, server      float64 // CPU microseconds per operation, or NaN
	share, others       float64 // others is NaN if unknown
	bound, heavy, mixed bool
}

func newSpeedRun(rec *result.Record) speedRun {
	s := rec.Summary()
	v := view{rec: rec}
	cell := rec.Run.Speed
	out := speedRun{repeat: rec.Run.Repeat, complete: v.incomplete() == "", rate: s.RowsPerSecond, latency: s.LatencyUS,
		client: math.NaN(), server: math.NaN(), others: othersShare(rec, s), bound: s.Client.Bound, mixed: cell.Readers > 0 && cell.Readers < cell.Clients}
	var ops int64
	for _, l := range s.LatencyUS {
		ops += l.Count
	}
	if out.mixed && s.Seconds > 0 {
		out.inserted, out.rate = s.RowsPerSecond, float64(ops)/s.Seconds
		for _, d := range s.Beside {
			out.selects += d.PerSecond
		}
	}
	var busy, wait float64
	for i := range rec.Intervals {
		busy, wait = busy+rec.Intervals[i].BusySeconds, wait+rec.Intervals[i].WaitSeconds
	}
	if busy+wait > 0 {
		out.share = busy / (busy + wait)
	}
	if rec.End != nil && ops > 0 {
		out.client = 1e6 * s.Client.CPUSeconds / float64(ops)
		if cpu := s.Server.CPUSeconds; cpu != nil {
			out.server = 1e6 * *cpu / float64(ops)
			out.heavy = s.Client.CPUSeconds > *cpu && s.Client.CPUSeconds+*cpu > machineFull*s.Seconds*float64(rec.Run.Machine.Cores)
		}
	}
	return out
}

// CellLine describes the result of a cell in a few words.
func CellLine(s result.Summary) string {
	unit := "rows"
	if s.Speed != nil {
		unit = s.Speed.Counts
	}
	out := figure(s.RowsPerSecond) + " " + unit + "/s"
	for _, op := range ops(s.LatencyUS) {
		if d, ok := s.Beside[op]; ok {
			out += fmt.Sprintf(", %s %s queries/s p99 %s", op, figure(d.PerSecond), micros(s.LatencyUS[op].P99))
			continue
		}
		out += ", p99 " + micros(s.LatencyUS[op].P99)
	}
	if s.Client.Bound {
		out += ", client-bound"
	}
	if s.Failure != "" {
		out += ", FAILED"
	}
	return out
}

func (t *SpeedTest) add(rec *result.Record, contender int) {
	c := rec.Run.Speed
	i := slices.IndexFunc(t.Operations, func(o SpeedOperation) bool { return o.Operation == c.Operation && o.Points == c.Points })
	if i < 0 {
		o := SpeedOperation{Operation: c.Operation, Points: c.Points, Counts: c.Counts}
		if c.Readers > 0 && c.Readers < c.Clients {
			o.Counts = countsOperations
		}
		for _, who := range t.Contenders {
			o.Courses = append(o.Courses, SpeedCourse{Contender: who.Label, Cells: []SpeedCell{}})
		}
		i = len(t.Operations)
		t.Operations = append(t.Operations, o)
	}
	course := &t.Operations[i].Courses[contender]
	j, found := slices.BinarySearchFunc(course.Cells, c.Clients, func(cell SpeedCell, n int) int { return cmp.Compare(cell.Clients, n) })
	if !found {
		course.Cells = slices.Insert(course.Cells, j, SpeedCell{Clients: c.Clients})
	}
	course.Cells[j].runs = append(course.Cells[j].runs, newSpeedRun(rec))
}

// cell returns a contender's cell with the given number of clients; nil without one.
func (o *SpeedOperation) cell(contender, clients int) *SpeedCell {
	for i := range o.Courses[contender].Cells {
		if c := &o.Courses[contender].Cells[i]; c.Clients == clients {
			return c
		}
	}
	return nil
}

func (o *SpeedOperation) clients() []int {
	var out []int
	for i := range o.Courses {
		for _, c := range o.Courses[i].Cells {
			out = append(out, c.Clients)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// finish derives the cells' figures from their runs, and the verdict.
func (o *SpeedOperation) finish(t *SpeedTest) {
	for i := range o.Courses {
		course := &o.Courses[i]
		for j := range course.Cells {
			course.Cells[j].finish(o.cell(0, course.Cells[j].Clients), i == 0)
		}
		course.saturation()
	}
	o.Verdict = o.verdict(t)
}

func (s *SpeedCourse) saturation() {
	for _, c := range s.Cells {
		s.Peak = max(s.Peak, c.Rate)
	}
	if i := slices.IndexFunc(s.Cells, func(c SpeedCell) bool { return c.Rate >= saturated*s.Peak }); i >= 0 && i < len(s.Cells)-1 {
		s.Saturation = &s.Cells[i].Clients
	}
}

// finish summarizes the runs that came to their end, or all runs if none did.
func (c *SpeedCell) finish(first *SpeedCell, isFirst bool) {
	runs := slices.DeleteFunc(slices.Clone(c.runs), func(r speedRun) bool { return !r.complete })
	if len(runs) == 0 {
		runs, c.Incomplete = c.runs, true
	}
	c.Runs = len(runs)
	median := func(f func(r speedRun) float64) float64 {
		var v []float64
		for _, r := range runs {
			if x := f(r); !math.IsNaN(x) {
				v = append(v, x)
			}
		}
		return middle(v)
	}
	c.Rate = median(func(r speedRun) float64 { return r.rate })
	if runs[0].mixed {
		c.InsertedRows = known(median(func(r speedRun) float64 { return r.inserted }))
		c.Selects = known(median(func(r speedRun) float64 { return r.selects }))
	}
	c.ClientCPU = known(median(func(r speedRun) float64 { return r.client }))
	c.ServerCPU = known(median(func(r speedRun) float64 { return r.server }))
	c.ClientShare = median(func(r speedRun) float64 { return r.share })
	c.OthersShare = known(median(func(r speedRun) float64 { return r.others }))
	c.LatencyUS = map[string]SpeedLatency{}
	for _, op := range ops(runs[0].latency) {
		c.LatencyUS[op] = SpeedLatency{
			P50: median(func(r speedRun) float64 { return float64(r.latency[op].P50) }),
			P99: median(func(r speedRun) float64 { return float64(r.latency[op].P99) }),
			Max: median(func(r speedRun) float64 { return float64(r.latency[op].Max) }),
		}
	}
	for _, r := range runs {
		c.ClientBound, c.ClientHeavy = c.ClientBound || r.bound, c.ClientHeavy || r.heavy
	}
	if first == nil || isFirst {
		return
	}
	c.against(first)
}

// against sets the ratio to the first contender's cell, over runs of the same repeat.
func (c *SpeedCell) against(first *SpeedCell) {
	var pairs [][2]float64
	var logs []float64
	for _, a := range first.runs {
		i := slices.IndexFunc(c.runs, func(b speedRun) bool { return b.repeat == a.repeat })
		if i >= 0 && a.complete && c.runs[i].complete && a.rate > 0 && c.runs[i].rate > 0 {
			pairs = append(pairs, [2]float64{a.rate, c.runs[i].rate})
			logs = append(logs, math.Log(c.runs[i].rate/a.rate))
		}
	}
	if len(pairs) == 0 {
		return
	}
	c.Ratio = over(pairs).Ratio
	c.Verdict = Unknown
	if len(logs) > 1 {
		c.Interval, _ = ratioBounds(logs, nil)
		c.Verdict = verdictOf(c.Interval)
	}
}

func (t *SpeedTest) title() string {
	var names []string
	for _, c := range t.Contenders {
		names = append(names, c.Label)
	}
	what := "Speed of inserts and selects"
	if t.Workload == "points" {
		what = "Speed of selects of points"
	}
	if t.Contenders[0].Setting != "" {
		what += " on " + result.EngineName(t.Contenders[0].Engine)
	}
	if len(names) == 1 {
		return what + ": " + names[0]
	}
	return what + ": " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// subtitle describes the table, the cells and the machine.
func (t *SpeedTest) subtitle() string {
	parts := []string{t.Preset + " table of " + short(float64(t.Rows)) + " rows", seconds(t.Seconds) + " a cell"}
	if n := t.runs(); n > 1 {
		parts = append(parts, fmt.Sprintf("medians of %d runs", n))
	}
	first := t.Contenders[0]
	differ := func(f func(c Contender) bool) bool { return slices.ContainsFunc(t.Contenders, f) }
	if first.CacheBytes > 0 && !differ(func(c Contender) bool { return c.CacheBytes != first.CacheBytes }) {
		parts = append(parts, bytes(first.CacheBytes)+" cache")
	}
	if !differ(func(c Contender) bool { return c.Durability != first.Durability }) {
		parts = append(parts, called("durability", first.Durability))
	}
	parts = append(parts, some(t.Machine.Cores, "core", "cores"))
	if t.cells((*SpeedCell).crowded) > 0 {
		parts = append(parts, "DISTURBED by other programs")
	}
	return listed(" · ", parts...)
}

// runs returns the maximum number of runs per cell.
func (t *SpeedTest) runs() int {
	most := 0
	t.cells(func(c *SpeedCell) bool {
		most = max(most, c.Runs)
		return false
	})
	return most
}

// name returns the operation's name, with its number of points.
func (o *SpeedOperation) name() string {
	if o.Points > 0 {
		return fmt.Sprintf("select of %s", plural(o.Points, "point", "points"))
	}
	return o.Operation
}

// verdict names the fastest contender and where growth ends, or compares two settings.
func (o *SpeedOperation) verdict(t *SpeedTest) string {
	if len(t.Contenders) == 2 && t.Contenders[0].Setting != "" {
		return o.settingVerdict()
	}
	if o.Counts == countsOperations {
		return o.mixedVerdict()
	}
	ranked := slices.DeleteFunc(slices.Clone(o.Courses), func(c SpeedCourse) bool { return c.Peak == 0 })
	if len(ranked) == 0 {
		return "nothing was measured"
	}
	var ends []string
	for _, c := range ranked {
		if len(c.Cells) > 1 {
			ends = append(ends, c.Contender+" "+c.growth())
		}
	}
	slices.SortStableFunc(ranked, func(a, b SpeedCourse) int { return cmp.Compare(b.Peak, a.Peak) })
	best := ranked[0]
	at := best.Cells[slices.IndexFunc(best.Cells, func(c SpeedCell) bool { return c.Rate == best.Peak })]
	peak := fmt.Sprintf("%s %s/s at %s", figure(best.Peak), o.Counts, plural(at.Clients, "client", "clients"))
	s := best.Contender + " reaches " + peak
	if len(ranked) > 1 {
		s = fmt.Sprintf("%s is fastest, %s, %s the best of %s", best.Contender, peak, ratio(best.Peak/ranked[1].Peak), ranked[1].Contender)
	}
	return listed("; ", s, strings.Join(ends, ", "))
}

// mixedVerdict reports both parts of the rate at the largest number of clients. It names no
// winner, because the faster operation dominates the sum.
func (o *SpeedOperation) mixedVerdict() string {
	numbers := o.clients()
	n := numbers[len(numbers)-1]
	var parts []string
	for i := range o.Courses {
		if c := o.cell(i, n); c != nil {
			parts = append(parts, fmt.Sprintf("%s inserts %s rows/s beside %s selects/s", o.Courses[i].Contender, figure(deref(c.InsertedRows)), figure(deref(c.Selects))))
		}
	}
	return fmt.Sprintf("at %s %s", plural(n, "client", "clients"), strings.Join(parts, ", "))
}

// growth tells from which number of clients on the rate no longer grows.
func (s *SpeedCourse) growth() string {
	if s.Saturation == nil {
		return "still grows at " + plural(s.Cells[len(s.Cells)-1].Clients, "client", "clients")
	}
	return fmt.Sprintf("stops growing at %s", plural(*s.Saturation, "client", "clients"))
}

// settingVerdict compares the second setting with the first, for each number of clients.
func (o *SpeedOperation) settingVerdict() string {
	var parts []string
	for _, c := range o.Courses[1].Cells {
		at := "at " + plural(c.Clients, "client", "clients")
		if c.Ratio == nil {
			continue
		}
		switch b := c.Interval; c.Verdict {
		case NoDifference:
			parts = append(parts, fmt.Sprintf("%s no difference shown (%s, 95%% interval %s..%s)", at, ratio(*c.Ratio), ratio(b.Low), ratio(b.High)))
		case Unknown:
			parts = append(parts, fmt.Sprintf("%s %s the rate, from one run of each: --repeat tells how sure that is", at, ratio(*c.Ratio)))
		default:
			parts = append(parts, at+" "+b.change(*c.Ratio, ""))
		}
	}
	if len(parts) == 0 {
		return "the settings can't be compared: no cell was measured with both"
	}
	return fmt.Sprintf("with %s against %s: %s", o.Courses[1].Contender, o.Courses[0].Contender, strings.Join(parts, "; "))
}

// table has a row for each number of clients and contender.
func (o *SpeedOperation) table() *table {
	t := &table{Header: []string{"clients", "", o.Counts + "/s", "ratio"}}
	if o.Counts == countsOperations {
		t.Header = append(t.Header, "rows/s inserted", "selects/s", "insert p50", "p99", "select p50", "p99")
	} else {
		t.Header = append(t.Header, "p50", "p99", "max")
	}
	t.Header = append(t.Header, "server CPU/op", "client CPU/op", "client busy", "")
	for _, n := range o.clients() {
		for i := range o.Courses {
			if c := o.cell(i, n); c != nil {
				t.add(append([]string{count(int64(n)), o.Courses[i].Contender}, c.columns(o)...)...)
			}
		}
	}
	return t
}

func (c *SpeedCell) columns(o *SpeedOperation) []string {
	to := none
	if len(o.Courses) == 1 {
		to = ""
	}
	if c.Ratio != nil {
		to = ratio(*c.Ratio)
		if b := c.Interval; b != nil {
			to += fmt.Sprintf(" (%s..%s)", ratio(b.Low), ratio(b.High))
		}
	}
	out := []string{figure(c.Rate), to}
	if o.Counts == countsOperations {
		out = append(out, figure(deref(c.InsertedRows)), figure(deref(c.Selects)))
		for _, op := range []string{"insert", "select-pk"} {
			l, ok := c.LatencyUS[op]
			if !ok {
				l = SpeedLatency{math.NaN(), math.NaN(), math.NaN()}
			}
			out = append(out, micros(l.P50), micros(l.P99))
		}
	} else {
		for _, l := range c.LatencyUS {
			out = append(out, micros(l.P50), micros(l.P99), micros(l.Max))
		}
		if len(c.LatencyUS) == 0 {
			out = append(out, none, none, none)
		}
	}
	flag := func(is bool, text string) string {
		if is {
			return text
		}
		return ""
	}
	notes := listed(", ", flag(c.ClientBound, "CLIENT-BOUND"), flag(c.ClientHeavy, "client-heavy"), flag(c.Incomplete, "incomplete"),
		flag(c.crowded(), "others "+percent(deref(c.OthersShare))))
	return append(out, micros(deref(c.ServerCPU)), micros(deref(c.ClientCPU)), percent(c.ClientShare), notes)
}

func (c *SpeedCell) crowded() bool { return c.OthersShare != nil && *c.OthersShare > crowded }

func (t *SpeedTest) cells(is func(c *SpeedCell) bool) (n int) {
	for _, o := range t.Operations {
		for _, s := range o.Courses {
			for i := range s.Cells {
				if is(&s.Cells[i]) {
					n++
				}
			}
		}
	}
	return n
}

// notes returns what a reader must know before believing the figures.
func (t *SpeedTest) notes() []Note {
	var out []Note
	add := func(serious bool, texts ...string) {
		for _, text := range texts {
			out = append(out, Note{Serious: serious, Text: text})
		}
	}
	add(true, t.Failures...)
	cells := func(is func(c *SpeedCell) bool, serious bool, text string) {
		if n := t.cells(is); n > 0 {
			add(serious, fmt.Sprintf(text, plural(n, "cell", "cells")))
		}
	}
	cells(func(c *SpeedCell) bool { return c.ClientBound }, true,
		"client-bound in %s: their clients spent most of their time on their own work, so the database could take more")
	cells((*SpeedCell).crowded, true, "disturbed in %s: other programs or the host took more than 10%% of this machine's cores meanwhile, "+
		"so these rates are too low; measure on a machine that does nothing else")
	add(false, t.Flags...)
	cells(func(c *SpeedCell) bool { return c.ClientHeavy }, false,
		"client-heavy in %s: client and server filled this machine's cores, and the client took more of them; from another machine the server may be faster")
	add(false, t.Warnings...)
	return out
}

func (c *Contender) describe() string {
	return listed(", ", words(c.Engine, c.ServerVersion), called("storage", c.Storage), called("cache", sizeOrNone(c.CacheBytes)),
		called("durability", c.Durability), c.Target)
}

func (t *SpeedTest) document() *Document {
	d := &Document{Title: t.title(), Subtitle: t.subtitle(), Notes: t.notes(), Footer: footer(t.run), Data: func() any { return t }}
	about := facts{}
	for i := range t.Contenders {
		about = append(about, fact{t.Contenders[i].Label, t.Contenders[i].describe()})
	}
	var names legend
	for i := range t.Contenders {
		names = append(names, key{t.Contenders[i].Label, nthStyle(i)})
	}
	d.Parts = append(d.Parts, names)
	d.picture = func(opts PNGOptions) *picture {
		p := &picture{Legend: names, Rows: make([]charts, 2)}
		for i := range t.Operations {
			rate, latency := t.Operations[i].charts()
			rate.Y.Log, rate.X.Bare = opts.Log, true
			rate.Height, latency.Height = 1, latencyHeight
			p.Rows[0], p.Rows[1] = append(p.Rows[0], rate), append(p.Rows[1], latency)
		}
		return p
	}
	for i := range t.Operations {
		o := &t.Operations[i]
		rate, latency := o.charts()
		d.Lines = append(d.Lines, Sentence{Text: o.name() + ": " + sentence(o.Verdict)})
		d.add(&section{Title: o.name(), Parts: []Part{charts{rate, latency}, o.table()}})
	}
	d.add(&section{Title: "Measured", Parts: []Part{append(about, fact{"machine", machine(t.Machine)})}})
	return d
}

// latencyHeight is the height of the latency's charts in a picture, of that of the rate.
const latencyHeight = 0.7

// charts plots the rate and the latency over the number of clients, a line for each contender,
// on a logarithmic axis because measurements double the clients.
func (o *SpeedOperation) charts() (rate, latency *chart) {
	clients := scale{Log: true, Name: "clients", Margin: 1.2}
	for _, n := range o.clients() {
		clients.Ticks = append(clients.Ticks, tick{float64(n), count(int64(n))})
	}
	rate = &chart{Title: o.name() + ", " + o.Counts + "/s", X: clients, Height: 250}
	latency = &chart{Title: "p99, ms", Note: "logarithmic", X: clients, Y: scale{Log: true, Margin: 2}, Height: 250}
	if o.Counts == countsOperations {
		rate.Title, latency.Title = o.name()+", rows/s inserted", "p99 of inserts, ms"
	}
	for i := range o.Courses {
		course := &o.Courses[i]
		r := line{Name: course.Contender, Style: nthStyle(i), Dots: true}
		l := r
		for _, c := range course.Cells {
			v := c.Rate
			if c.InsertedRows != nil {
				v = *c.InsertedRows // selects are only in the table
			}
			r.point(c.Clients, v)
			for _, op := range []string{"insert", o.Operation} {
				if lat, ok := c.LatencyUS[op]; ok {
					l.point(c.Clients, lat.P99/1e3)
					break
				}
			}
		}
		rate.Lines, latency.Lines = append(rate.Lines, r), append(latency.Lines, l)
	}
	return rate, latency
}

// point adds the figure of a number of clients, if there is one.
func (l *line) point(clients int, v float64) {
	if v > 0 && !math.IsInf(v, 0) {
		l.X, l.Y = append(l.X, float64(clients)), append(l.Y, v)
		l.Tips = append(l.Tips, fmt.Sprintf("%s, %s: %s", l.Name, plural(clients, "client", "clients"), figure(v)))
	}
}

// serverFlags are the kinds of flags that matter between contenders, which are different
// servers on purpose.
var serverFlags = []string{"durability", "cache", "machine", "settings", "server"}

// flags compares the contenders with the first, using one run of each.
func (t *SpeedTest) flags(recs []result.Record, of []int) {
	a := slices.Index(of, 0)
	for n := 1; n < len(t.Contenders); n++ {
		b := slices.Index(of, n)
		x, y := &recs[a], &recs[b]
		same := x.Run.Engine == y.Run.Engine
		for _, f := range flags(x, y, x.Summary(), y.Summary()) {
			switch {
			case !slices.Contains(serverFlags, f.Kind), !same && f.Kind == "server", !same && f.What != "" && f.Kind != "machine":
				continue // settings of other engines have different names
			case t.compared(n, f):
				continue
			}
			t.Flags = append(t.Flags, fmt.Sprintf("%s against %s: %s", t.Contenders[0].Label, t.Contenders[n].Label, f.Text))
		}
		if x.Run.Speed.Filled != y.Run.Speed.Filled || x.Run.Preset != y.Run.Preset || x.Run.MaxTimeSeconds != y.Run.MaxTimeSeconds {
			t.Flags = append(t.Flags, fmt.Sprintf("%s against %s: different tables, rows or durations", t.Contenders[0].Label, t.Contenders[n].Label))
		}
	}
}

// crowded is the share of all cores that an idle machine may use.
const crowded = 0.1

// othersShare returns the share of all cores used by neither rowmill nor the server; NaN if
// the server's is unknown.
func othersShare(rec *result.Record, s result.Summary) float64 {
	own := s.Client.CPUSeconds
	switch {
	case rec.End == nil:
		return math.NaN()
	case s.Server.CPUSeconds != nil:
		own += *s.Server.CPUSeconds
	case !rec.Run.Embedded:
		return math.NaN()
	}
	var used, seconds float64
	for _, iv := range rec.Intervals {
		if user, ok := iv.Counters["os_cpu_user"]; ok {
			used += iv.Seconds * (user + iv.Counters["os_cpu_system"] + iv.Counters["os_cpu_steal"])
			seconds += iv.Seconds
		}
	}
	if seconds == 0 || s.Seconds == 0 || rec.Run.Machine.Cores == 0 {
		return math.NaN()
	}
	return max(0, used/seconds-own/s.Seconds/float64(rec.Run.Machine.Cores))
}

// compared reports whether a flag concerns the setting being compared: the server's name for
// it may begin with that of the target's option.
func (t *SpeedTest) compared(n int, f Flag) bool {
	for _, c := range []Contender{t.Contenders[0], t.Contenders[n]} {
		name, _, ok := strings.Cut(c.Setting, "=")
		if ok && (strings.HasPrefix(f.What, name) || f.Kind == name) {
			return true
		}
	}
	return false
}

// warnings collects the records' warnings, each text once with its cells.
func (t *SpeedTest) warnings(recs []result.Record, of []int) {
	where := map[string][]string{}
	var texts []string
	for i := range recs {
		rec := &recs[i]
		cell := fmt.Sprintf("%s with %s on %s", rec.Run.Speed.Operation, plural(rec.Run.Speed.Clients, "client", "clients"), t.Contenders[of[i]].Label)
		v := view{rec: rec}
		if how := v.incomplete(); how != "" {
			t.Failures = append(t.Failures, cell+" "+how)
		}
		for _, w := range rec.Summary().Warnings {
			if strings.HasPrefix(w, "client-bound:") || strings.HasPrefix(w, "the run was cut off") {
				continue // the matrix shows it
			}
			if missing := "server counters missing"; strings.HasPrefix(w, missing) {
				w = missing + " in some intervals" // their number differs from cell to cell
			}
			if where[w] == nil {
				texts = append(texts, w)
			}
			where[w] = append(where[w], cell)
		}
	}
	for _, w := range texts {
		in := where[w][0]
		if n := len(where[w]) - 1; n > 0 {
			in += fmt.Sprintf(" and %d more", n)
		}
		t.Warnings = append(t.Warnings, fmt.Sprintf("%s (%s)", w, in))
	}
}
