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
	// Setting is NAME=VALUE, SettingValue the value then reported by the server.
	Setting      string `json:"setting,omitempty"`
	SettingValue string `json:"setting_value,omitempty"`
	SettingHow   string `json:"setting_how,omitempty"`
	Source       string `json:"source,omitempty"`
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
	cells := 0
	for i := range recs {
		if recs[i].Run.Speed != nil {
			cells++
		}
	}
	switch {
	case cells == 0:
		return nil, nil
	case cells < len(recs):
		return nil, errors.New("report: some of these runs are cells of a speed test and others are not; report them apart")
	}
	return newSpeedTest(recs), nil
}

func newSpeedTest(recs []result.Record) *SpeedTest {
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
	return t
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
		n, ok := at[key]
		if !ok {
			n = len(t.Contenders)
			at[key] = n
			t.Contenders = append(t.Contenders, Contender{Engine: r.Engine, ServerVersion: r.ServerVersion, Storage: r.Storage,
				Target: r.Target, Durability: r.Durability, CacheBytes: r.CacheBytes,
				Setting: r.Speed.Setting, SettingValue: r.Speed.SettingValue, SettingHow: r.Speed.SettingHow, Source: recs[i].Source})
		}
		of = append(of, n)
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
	for _, c := range s.Cells {
		if c.Rate >= saturated*s.Peak {
			if most := s.Cells[len(s.Cells)-1].Clients; c.Clients < most {
				s.Saturation = &c.Clients
			}
			return
		}
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
