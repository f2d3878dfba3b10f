// Package result is the run record: the measurements of a benchmark, as JSON lines
// that are readable at any time, even after the run was killed.
//
// A run is its header (Run), with everything needed to repeat it, one line for each
// Interval, flushed when the interval ends, and the End with the Summary. A file may
// contain several runs. Writer writes runs, Read reads them, including truncated ones,
// and Record.Summary derives a Summary. Records contain their warnings as data.
//
// Times are seconds since the run's start, on one clock for client, operating system
// and server; latencies are in microseconds; sizes are in bytes.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
)

// Format is the version of the record's format, contained in each header.
const Format = "rowmill.run/1"

// SummaryFormat is the format of the output of `rowmill report --json`.
const SummaryFormat = "rowmill.summary/1"

// Run is the header of a run: everything needed to repeat it.
type Run struct {
	Type   string `json:"type"`   // "run"
	Format string `json:"format"` // Format
	// Name distinguishes the runs of a file: "classic plain on mariadb".
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	// Rowmill is the version that executed the run, Command its arguments.
	Rowmill string   `json:"rowmill"`
	Command []string `json:"command"`
	// Spec is the run's experiment, from which rowmill resumes or repeats it. Old records lack it.
	Spec json.RawMessage `json:"spec,omitempty"`

	Benchmark

	// Repeat numbers the runs of one configuration, from 1; runs of several configurations
	// alternate. Side is "A" or "B" if the run is one of two sides to be compared.
	Repeat int    `json:"repeat,omitempty"`
	Side   string `json:"side,omitempty"`
	// Cell is the run's cell of an insert-method matrix; nil elsewhere.
	Cell *Cell `json:"cell,omitempty"`
	Load
	Retention
	// Readers is the number of clients that query once the table has ReadAfter rows.
	Readers   int   `json:"readers,omitempty"`
	ReadAfter int64 `json:"read_after,omitempty"`
	// Step is set if the run is one step of a longer benchmark.
	Step *Step `json:"step,omitempty"`
	// Deviations lists the preset's differences from its published definition.
	Deviations []string `json:"deviations,omitempty"`
	// Resumes is set if the run continues the one before it in the file.
	Resumes *Resumes `json:"resumes,omitempty"`

	Database

	Machine Machine `json:"machine"`
	// Counters describes the figures of the intervals' Counters.
	Counters []Counter `json:"counters,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// A Benchmark says what a run executes: its workload, preset and layout, and the workload's
// details.
type Benchmark struct {
	Workload string `json:"workload"`
	Preset   string `json:"preset"`
	Layout   string `json:"layout"` // "plain" or "rolling"
	// At most one of these is set. Its comment says what the record then counts as rows.
	Speed  *Speed  `json:"speed,omitempty"`   // bench mixed, points: rows or queries
	Scan   *Scan   `json:"scan,omitempty"`    // bench scan: queries
	HotRow *HotRow `json:"hot_row,omitempty"` // bench hotrow: runs
	TPCC   *TPCC   `json:"tpcc,omitempty"`    // bench tpcc: new orders
	Tables *Tables `json:"tables,omitempty"`  // bench tables: tables or partitions
	Disk   *Disk   `json:"disk,omitempty"`    // bench disk: requests
	// MeasuredDisk has the disk's own rates, with which the run's reads are compared.
	MeasuredDisk *MeasuredDisk `json:"measured_disk,omitempty"`
}

// Load is how much a run inserts, and how fast.
type Load struct {
	Seed uint64 `json:"seed"`
	// Rows is the requested number of rows; 0 if only time limits the run.
	Rows           int64   `json:"rows"`
	MaxTimeSeconds float64 `json:"max_time_seconds,omitempty"`
	// WarmupSeconds is how long the same load ran, unmeasured, before the run.
	WarmupSeconds float64 `json:"warmup_seconds,omitempty"`
	Writers       int     `json:"writers"`
	Batch         int     `json:"batch"`
	Method        string  `json:"method"`
	Indexes       int     `json:"indexes"`
	// Rate is the requested rate in rows per second; 0 means unlimited.
	Rate float64 `json:"rate,omitempty"`
	// Search is set in the runs of a search for the highest rate.
	Search          *Search `json:"search,omitempty"`
	IntervalSeconds float64 `json:"interval_seconds"`
	// KillServerSeconds is the interval at which the server was killed and restarted.
	KillServerSeconds float64 `json:"kill_server_seconds,omitempty"`
}

// Retention is how a run's table is divided, and how much of it is kept.
type Retention struct {
	// Period is a rolling table's period ("125000 rows"). PeriodWhy says why it is that long.
	// KeepPeriods is the number of periods kept; 0 means all.
	Period      string `json:"period,omitempty"`
	PeriodWhy   string `json:"period_why,omitempty"`
	KeepPeriods int    `json:"keep_periods,omitempty"`
	// Steady is the goal of a run of bench steady.
	Steady *SteadyGoal `json:"steady,omitempty"`
	// PeriodRows is the number of rows per period; 0 for a plain table.
	PeriodRows int64 `json:"period_rows,omitempty"`
	// Scenario is the experiment that the run belongs to; nil if there is none.
	Scenario *Scenario `json:"scenario,omitempty"`
	// KeepRows: once the tables have this many rows, old rows are removed as new ones arrive; 0
	// keeps all rows. HeldRows are the bounds within which the number of rows then stays.
	KeepRows int64    `json:"keep_rows,omitempty"`
	HeldRows [2]int64 `json:"held_rows,omitzero"`
}

// A Database is the server of a run, or its servers.
type Database struct {
	Target        string            `json:"target"`
	Engine        string            `json:"engine"`
	ServerVersion string            `json:"server_version"`
	Storage       string            `json:"storage,omitempty"`
	Durability    string            `json:"durability,omitempty"`
	CacheBytes    int64             `json:"cache_bytes,omitempty"`
	Embedded      bool              `json:"embedded,omitempty"`
	Settings      map[string]string `json:"settings,omitempty"`
	// Nodes are the servers of a target that has several; empty for one.
	Nodes []Node `json:"nodes,omitempty"`
	// Schema contains the statements that created the table.
	Schema []string `json:"schema,omitempty"`
}

// A Node is one server of a target.
type Node struct {
	Target string `json:"target"`
	Engine string `json:"engine"`
	// PID is the server's process and DataDir its data directory, on this machine.
	PID     int    `json:"pid,omitempty"`
	DataDir string `json:"data_dir,omitempty"`
}

// Machine is the machine of the run's client, and of an embedded or local server.
type Machine struct {
	Cores       int    `json:"cores"`
	CPU         string `json:"cpu,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	// Disk is the device that holds a local server's data, Filesystem its type.
	Disk       string `json:"disk,omitempty"`
	Filesystem string `json:"filesystem,omitempty"`
}

// A Counter describes one figure recorded in intervals.
type Counter struct {
	Name string `json:"name"`
	// Node is the server of the figure, if the target has several. Name then begins with the node:
	// "NODE/page_reads".
	Node string `json:"node,omitempty"`
	// Group is the source of the figure: "os", "client" or "server".
	Group string `json:"group"`
	// Unit is "bytes", "pages/s", "fraction" (0 to 1), "seconds", "" for a plain number.
	// Figures that are cumulative on the server are recorded as rates.
	Unit string `json:"unit"`
	Help string `json:"help"`
}

// Interval contains the measurements since the interval before.
type Interval struct {
	Type string `json:"type"` // "interval"
	// Elapsed is the interval's end, in seconds since the run's start.
	Elapsed float64 `json:"elapsed"`
	Seconds float64 `json:"seconds"`
	// Rows counts the rows acknowledged since the run's start, NewRows the rows of this interval.
	Rows    int64 `json:"rows"`
	NewRows int64 `json:"new_rows"`
	// HeldRows counts the rows in tables of constant size, including those in flight.
	HeldRows int64 `json:"held_rows,omitempty"`
	// Marks has a mark for each hundredth of the requested rows that was reached in the interval: the
	// number of rows and the elapsed seconds at that moment.
	Marks [][2]float64 `json:"marks,omitempty"`
	// Latency is the time from sending an operation to its answer. If a rate was requested,
	// Response is the time from when the operation was due to its answer.
	Latency  map[string]Histogram `json:"latency_us"`
	Response map[string]Histogram `json:"response_us,omitempty"`
	// Backlog counts the operations that are due but unfinished at the interval's end. Late counts the
	// operations that began late in the interval.
	Backlog int64 `json:"backlog,omitempty"`
	Late    int64 `json:"late,omitempty"`
	Errors  int64 `json:"errors"`
	Retries int64 `json:"retries"`
	// Beside contains the loads that ran beside the main load, by operation.
	Beside map[string]Tally `json:"beside,omitempty"`
	// BusySeconds is the time in which clients generated rows, WaitSeconds the time in which they
	// waited for the database.
	BusySeconds float64 `json:"busy_seconds"`
	WaitSeconds float64 `json:"wait_seconds"`
	// Counters has the figures of the server and the machine that could be read, by name.
	Counters map[string]float64 `json:"counters,omitempty"`
	// Events are operations on the table, such as partitions created or dropped.
	Events []Event `json:"events,omitempty"`
	// Costs are what `bench tables` measured.
	Costs []TablesCost `json:"costs,omitempty"`
}

// A Tally contains the operations that a load beside the main load did in an interval.
type Tally struct {
	// Rows counts the rows of acknowledged operations; a query counts as one.
	Rows    int64 `json:"rows"`
	Backlog int64 `json:"backlog,omitempty"`
	Late    int64 `json:"late,omitempty"`
	Errors  int64 `json:"errors,omitempty"`
	Retries int64 `json:"retries,omitempty"`
}

// Rate returns the interval's rate in rows per second.
func (iv *Interval) Rate() float64 {
	if iv.Seconds <= 0 {
		return 0
	}
	return float64(iv.NewRows) / iv.Seconds
}

// briefShare: an interval shorter than this share of its nominal length is too short for a rate. A
// single acknowledgement could make the rate a hundred times too high.
const briefShare = 0.5

// Operation returns the name of the main load's operation; empty if the interval has no latencies.
func (iv *Interval) Operation() string {
	for op := range iv.Latency {
		if _, beside := iv.Beside[op]; !beside {
			return op
		}
	}
	return ""
}

// Timed returns how long operations took. If a rate was requested, their time begins when they were
// due, otherwise when they were sent.
func (iv *Interval) Timed(op string) Latency {
	if h, ok := iv.Response[op]; ok {
		return h.Latency
	}
	return iv.Latency[op].Latency
}

// Brief reports whether an interval of the run is too short for a meaningful rate.
func (r *Run) Brief(iv *Interval) bool { return iv.Seconds < briefShare*r.IntervalSeconds }

// Add adds an interval to the record. An interval that is too short for a rate is joined with the
// interval before it, unless the run was resumed between the two.
func (r *Record) Add(iv Interval) {
	n, from := len(r.Intervals), 0.0
	if len(r.Pieces) > 1 {
		from = r.Pieces[len(r.Pieces)-1].Resumes.Seconds
	}
	if n > 0 && r.Run.Brief(&iv) && r.Intervals[n-1].Elapsed > from {
		// Damaged distributions can't be added: the interval then stays alone.
		if longer, err := r.Intervals[n-1].Join(&iv); err == nil {
			r.Intervals[n-1] = longer
			return
		}
	}
	r.Intervals = append(r.Intervals, iv)
}

// Join returns one interval for this interval and the next.
func (iv *Interval) Join(next *Interval) (Interval, error) {
	out, share := *next, iv.Seconds/max(iv.Seconds+next.Seconds, 1e-9)
	out.Seconds += iv.Seconds
	out.NewRows += iv.NewRows
	out.Late += iv.Late
	out.Errors += iv.Errors
	out.Retries += iv.Retries
	out.BusySeconds += iv.BusySeconds
	out.WaitSeconds += iv.WaitSeconds
	out.Marks = slices.Concat(iv.Marks, next.Marks)
	out.Events = slices.Concat(iv.Events, next.Events)
	out.Costs = slices.Concat(iv.Costs, next.Costs)
	out.Counters = joined(iv.Counters, next.Counters, func(a, b float64) float64 { return share*a + (1-share)*b })
	out.Beside = joined(iv.Beside, next.Beside, func(a, b Tally) Tally {
		return Tally{a.Rows + b.Rows, b.Backlog, a.Late + b.Late, a.Errors + b.Errors, a.Retries + b.Retries}
	})
	var errs []error
	both := func(a, b Histogram) Histogram {
		h, err := a.plus(b)
		errs = append(errs, err)
		return h
	}
	out.Latency, out.Response = joined(iv.Latency, next.Latency, both), joined(iv.Response, next.Response, both)
	return out, errors.Join(errs...)
}

// joined merges two maps. For a name that both maps have, add combines the values.
func joined[V any](a, b map[string]V, add func(a, b V) V) map[string]V {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(b)
	for name, v := range a {
		if w, ok := b[name]; ok {
			v = add(v, w)
		}
		out[name] = v
	}
	return out
}

// An Event is an operation on the table during the run.
type Event struct {
	// Elapsed is the event's end, Seconds its duration.
	Elapsed float64 `json:"elapsed"`
	Seconds float64 `json:"seconds"`
	// What is "create partitions", "drop partition", "kill server", "server back" (its Seconds
	// count from the kill), an action of a step, or ScanEvent.
	What   string `json:"what"`
	Object string `json:"object"`
}

// Summary is the summary of a run, in its last line and in the output of `report --json`.
type Summary struct {
	Name          string `json:"name"`
	Workload      string `json:"workload"`
	Preset        string `json:"preset"`
	Layout        string `json:"layout"`
	Speed         *Speed `json:"speed,omitempty"`
	Engine        string `json:"engine"`
	ServerVersion string `json:"server_version"`
	Throughput

	// LatencyUS is the time from sending an operation to its answer. ResponseUS is the time from the
	// moment at which the operation was due to its answer; null if no rate was requested.
	LatencyUS  map[string]Latency `json:"latency_us"`
	ResponseUS map[string]Latency `json:"response_us"`
	// Beside contains the loads that ran beside the main one, by operation.
	Beside map[string]Done `json:"beside,omitempty"`
	Outcomes

	StallSeconds float64 `json:"stall_seconds"`
	// Errors and Retries are totals over all loads.
	Errors  int64 `json:"errors"`
	Retries int64 `json:"retries"`
	// ReplicaDelay has an element for each replica.
	ReplicaDelay []ReplicaDelay `json:"replica_delay,omitempty"`
	// Steadiness is null except for runs of bench steady.
	Steadiness *Steadiness `json:"steadiness,omitempty"`
	// Verified is null if the table was not checked.
	Verified  *Verified `json:"verified"`
	SizeBytes *Size     `json:"size_bytes"`
	Client    Client    `json:"client"`
	Server    Server    `json:"server"`
	Warnings  []string  `json:"warnings"`
	// Failure is the error that ended the run early; empty if there was none.
	Failure string `json:"failure,omitempty"`
}

// Throughput is how many rows were inserted, in which time, and how the rate changed.
type Throughput struct {
	Rows          int64   `json:"rows"`
	Seconds       float64 `json:"seconds"`
	RowsPerSecond float64 `json:"rows_per_second"`
	Rate          Rate    `json:"rate"`
	Knee          *Knee   `json:"knee"`
}

// Outcomes are results that only some workloads have.
type Outcomes struct {
	Step   *StepSummary   `json:"step,omitempty"`
	Scan   *ScanSummary   `json:"scan,omitempty"`
	TPCC   *TPCCSummary   `json:"tpcc,omitempty"`
	Tables *TablesSummary `json:"tables,omitempty"`
	Disk   *DiskSummary   `json:"disk,omitempty"`
}

// Done is the total of a load beside the main load over the whole run.
type Done struct {
	Operations    int64   `json:"operations"`
	Rows          int64   `json:"rows"`
	PerSecond     float64 `json:"operations_per_second"`
	RowsPerSecond float64 `json:"rows_per_second"`
	Backlog       int64   `json:"backlog,omitempty"` // at the end
	Errors        int64   `json:"errors,omitempty"`
	Retries       int64   `json:"retries,omitempty"`
}

// Rate is the course of the insert rate, in rows per second: means over the first, the
// last and the slowest tenth of the rows. Flatness is Last/First.
type Rate struct {
	First    float64 `json:"first"`
	Last     float64 `json:"last"`
	Min      float64 `json:"min"`
	Flatness float64 `json:"flatness"`
}

// Knee is the point where the rate fell below half of Rate.First, with the probable cause, and
// whether the rate recovered. A run has a knee if Rate.Min is below half of Rate.First.
type Knee struct {
	Rows int64  `json:"rows"`
	Why  string `json:"why"`
}

// Latency is a distribution, in microseconds.
type Latency struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P95   int64 `json:"p95"`
	P99   int64 `json:"p99"`
	P999  int64 `json:"p999"`
	Max   int64 `json:"max"`
}

// Verified is the proof that every acknowledged row is in the table.
type Verified struct {
	Expected int64 `json:"expected"`
	Found    int64 `json:"found"`
	// Lost counts the expected rows that a killed server lost, as its settings permit. In a sound
	// table Found and Lost add up to Expected.
	Lost int64 `json:"lost,omitempty"`
	// Checksum is true if the rows are those sent, except for those lost.
	Checksum bool `json:"checksum"`
	// Counted is true if rows were only counted, without a checksum.
	Counted bool `json:"counted,omitempty"`
}

// Sound reports whether the table contains exactly the rows that it must contain.
func (v *Verified) Sound() bool { return (v.Checksum || v.Counted) && v.Found+v.Lost == v.Expected }

// Text says what reading the rows showed.
func (v *Verified) Text() string {
	if v == nil {
		return "no: the rows in the table were not read"
	}
	verdict, how, sum := "yes", "found", "checksum equal"
	switch {
	case v.Counted:
		how, sum = "counted", "their values not compared"
	case !v.Checksum:
		sum = "CHECKSUM DIFFERS"
	}
	if !v.Sound() {
		verdict = "FAILED"
	}
	text := fmt.Sprintf("%s: %s %s of %s expected, %s", verdict, figure.Plural(v.Found, "row", "rows"), how, figure.Count(v.Expected), sum)
	if v.Lost > 0 {
		text += fmt.Sprintf("; %s lost when the server was killed, as its settings allow", figure.Plural(v.Lost, "row", "rows"))
	}
	return text
}

// NotVerified is the note on a run whose rows were not read afterwards.
const NotVerified = "not verified: the rows in the table were not compared with those sent"

// WarnsOfUnverified reports whether a warning says why the rows were not read.
func WarnsOfUnverified(warnings []string) bool {
	return slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "not verified: ") })
}

// Size is the table's size at the end of the run.
type Size struct {
	Data   int64   `json:"data"`
	Index  int64   `json:"index"`
	PerRow float64 `json:"per_row"`
}

// Client is rowmill's own resource usage.
type Client struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// Bound is true if rowmill, not the database, limited the rate.
	Bound bool `json:"bound"`
}

// Server is the CPU time of the server's process, if that process is visible. An embedded engine's
// CPU time is part of the client's.
type Server struct {
	CPUSeconds *float64 `json:"cpu_seconds"`
}

// Period is the result of checking one partition.
type Period struct {
	Name     string `json:"name"`
	From     string `json:"from"`
	To       string `json:"to"`
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
	// Lost counts the rows of Expected that were lost: see Verified.
	Lost int64 `json:"lost,omitempty"`
	// Checksum is null if the server assigns the keys, so that only the whole table can be checked.
	Checksum *bool `json:"checksum"`
}

// End is the last line of a run: the summary and its details.
type End struct {
	Type string `json:"type"` // "summary"
	// Stopped is why the run ended: "rows", "max-time", "interrupted", "failed", or "decided" for
	// a trial whose verdict was clear before its end.
	Stopped string `json:"stopped"`
	// Failure is the error of a failed run.
	Failure string `json:"failure,omitempty"`
	// Verified, Periods and DroppedRows are the results of comparing the table with the rows sent.
	// The rows of periods that were dropped on purpose are not expected.
	Verified    *Verified `json:"verified"`
	Periods     []Period  `json:"periods,omitempty"`
	DroppedRows int64     `json:"dropped_rows,omitempty"`
	// SkippedRows counts rows that were acknowledged but not inserted: their key already existed.
	SkippedRows int64 `json:"skipped_rows,omitempty"`
	// LostRows is Verified.Lost; Kills counts how often the server was killed.
	LostRows int64 `json:"lost_rows,omitempty"`
	Kills    int   `json:"kills,omitempty"`
	// DeletedRows is the number of rows deleted individually.
	DeletedRows int64 `json:"deleted_rows,omitempty"`
	Size        *Size `json:"size_bytes"`
	// SizeReached is the size of the tables, in bytes, when they first had KeepRows rows.
	SizeReached *Size `json:"size_reached_bytes,omitempty"`
	// CPU seconds of client and server over the run.
	ClientCPUSeconds float64  `json:"client_cpu_seconds"`
	ServerCPUSeconds *float64 `json:"server_cpu_seconds"`
	Warnings         []string `json:"warnings,omitempty"`
	// Search is the state of the search after a run that belongs to one.
	Search *Searched `json:"search,omitempty"`
	// Causes counts the retries of a HotRow or a TPCC, by error.
	Causes map[string]int64 `json:"causes,omitempty"`
	// CatchUpSeconds is how long replicas took, after the end of the run, to apply all of it.
	CatchUpSeconds float64 `json:"catch_up_seconds,omitempty"`
	// Conditions and Crossing are results of `bench tpcc`. Costs are what `bench tables` measured
	// after it had created the tables. Keep is the result of inserts beside a table's maintenance.
	Conditions []Condition  `json:"conditions,omitempty"`
	Costs      []TablesCost `json:"costs,omitempty"`
	Crossing   *Crossing    `json:"crossing,omitempty"`
	Keep       *Keep        `json:"keep,omitempty"`
	// Summary is derived from the rest, for readers that don't use rowmill.
	Summary *Summary `json:"summary,omitempty"`
}

// A Record is one run as read from a file.
type Record struct {
	Run       Run
	Intervals []Interval
	// End is nil if the run was killed before writing it.
	End *End
	// Source is the name of the file.
	Source string
	// Pieces are the headers of a run that was resumed: one for each piece, including the first.
	Pieces []Run
	// Warnings concern the record itself: a truncated line, a missing end.
	Warnings []string

	// Earlier is the CPU time that the pieces before the last used.
	Earlier Used
}

// Unnumbered returns the name of the run without the number of its repeat.
func (r *Run) Unnumbered() string {
	if r.Repeat == 0 {
		return r.Name
	}
	return strings.TrimSuffix(r.Name, fmt.Sprintf(" #%d", r.Repeat))
}
