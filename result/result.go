// Package result is the run record: what a benchmark wrote, as JSON lines that
// are readable at any moment, also after the run was killed.
//
// The first line of a run is its header (Run): everything needed to repeat it.
// Then comes one Interval a line, each flushed as it ends, then the Summary.
// A file may hold several runs, one after the other. Writer writes them, Read
// reads them back, also torn ones, and Summarize derives a Summary from what
// was measured. Records carry their warnings as data; nothing here prints.
//
// Times are seconds since the run's start, on one clock for client, operating
// system and server; latencies are microseconds; sizes are bytes.
package result

import "time"

// Format names the version of the record's format, in each header.
const Format = "rowmill.run/1"

// SummaryFormat names the format of what `rowmill report --json` prints.
const SummaryFormat = "rowmill.summary/1"

// Run is the header of a run: everything needed to repeat it.
type Run struct {
	Type   string `json:"type"`   // "run"
	Format string `json:"format"` // Format
	// Name tells runs of one file apart: "classic plain on mariadb".
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	// Rowmill is the version that ran it, Command its arguments.
	Rowmill string   `json:"rowmill"`
	Command []string `json:"command"`

	Workload string `json:"workload"`
	Preset   string `json:"preset"`
	Layout   string `json:"layout"` // "plain" or "rolling"
	// Speed is set where the run is a cell of `bench mixed` or `bench points`.
	// What it counts may then be queries.
	Speed *Speed `json:"speed,omitempty"`
	// Repeat counts the runs of one configuration that were made in turn with
	// others, from 1; 0 where nothing was repeated. Side is "A" or "B" where
	// they were made to be compared with each other.
	Repeat int    `json:"repeat,omitempty"`
	Side   string `json:"side,omitempty"`
	// Cell is where the run stands in an insert-method matrix; nil elsewhere.
	Cell *Cell  `json:"cell,omitempty"`
	Seed uint64 `json:"seed"`
	// Rows is the number of rows asked for; 0 when only time limits the run.
	Rows           int64   `json:"rows"`
	MaxTimeSeconds float64 `json:"max_time_seconds,omitempty"`
	Writers        int     `json:"writers"`
	Batch          int     `json:"batch"`
	Method         string  `json:"method"`
	Indexes        int     `json:"indexes"`
	// Rate is the rate asked for in rows per second; 0 is as fast as it goes.
	Rate float64 `json:"rate,omitempty"`
	// Search is set in the runs of a search for a rate.
	Search          *Search `json:"search,omitempty"`
	IntervalSeconds float64 `json:"interval_seconds"`
	// KillServerSeconds is how often the server was killed and restarted during
	// the run; 0 is never.
	KillServerSeconds float64 `json:"kill_server_seconds,omitempty"`
	// Period says how a rolling table is cut ("125000 rows"), and PeriodWhy
	// where that comes from. KeepPeriods is how many are kept; 0 is all.
	Period      string `json:"period,omitempty"`
	PeriodWhy   string `json:"period_why,omitempty"`
	KeepPeriods int    `json:"keep_periods,omitempty"`
	// Steady is what a run of bench steady was to hold.
	Steady *SteadyGoal `json:"steady,omitempty"`
	// PeriodRows is how many rows a period holds; 0 for a plain table.
	PeriodRows int64 `json:"period_rows,omitempty"`
	// Scenario is the experiment that the run is part of; nil for others.
	Scenario *Scenario `json:"scenario,omitempty"`
	// KeepRows is how many rows the tables are kept at, HeldRows between how many
	// that lets them hold. 0 is all.
	KeepRows int64    `json:"keep_rows,omitempty"`
	HeldRows [2]int64 `json:"held_rows,omitzero"`
	// Readers ask queries beside the inserts, once ReadAfter rows are there.
	Readers   int   `json:"readers,omitempty"`
	ReadAfter int64 `json:"read_after,omitempty"`
	// Step is set where the run is one step of a longer benchmark.
	Step *Step `json:"step,omitempty"`
	// Deviations says where the preset departs from its published definition.
	Deviations []string `json:"deviations,omitempty"`
	// Resumes says of a run that goes on with the one before it in the file what
	// it goes on from; nil for a run of its own.
	Resumes *Resumes `json:"resumes,omitempty"`

	Target        string            `json:"target"`
	Engine        string            `json:"engine"`
	ServerVersion string            `json:"server_version"`
	Storage       string            `json:"storage,omitempty"`
	Durability    string            `json:"durability,omitempty"`
	CacheBytes    int64             `json:"cache_bytes,omitempty"`
	Embedded      bool              `json:"embedded,omitempty"`
	Settings      map[string]string `json:"settings,omitempty"`
	// Schema holds the statements that made the table.
	Schema  []string `json:"schema,omitempty"`
	Machine Machine  `json:"machine"`
	// Counters describes the figures of the intervals' Counters.
	Counters []Counter `json:"counters,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Machine is where the run's client ran; for an embedded or local server, also
// where the server ran.
type Machine struct {
	Cores       int    `json:"cores"`
	CPU         string `json:"cpu,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	OS          string `json:"os,omitempty"`
	Arch        string `json:"arch,omitempty"`
	// Disk is the device that holds the server's data, Filesystem its type;
	// empty when the server is elsewhere.
	Disk       string `json:"disk,omitempty"`
	Filesystem string `json:"filesystem,omitempty"`
}

// A Counter describes one figure that intervals carry.
type Counter struct {
	Name string `json:"name"`
	// Group is where it was read: "os", "client" or "server".
	Group string `json:"group"`
	// Unit is that of the value in an interval: "bytes", "pages/s",
	// "fraction" (0 to 1), "seconds", "" for a plain number. Figures that
	// only grow on the server are rates here, so their unit ends in "/s".
	Unit string `json:"unit"`
	Help string `json:"help"`
}

// Interval is what happened since the interval before.
type Interval struct {
	Type string `json:"type"` // "interval"
	// Elapsed is when it ended, in seconds since the run's start; Seconds is
	// how long it lasted.
	Elapsed float64 `json:"elapsed"`
	Seconds float64 `json:"seconds"`
	// Rows were acknowledged since the run's start, NewRows in the interval.
	Rows    int64 `json:"rows"`
	NewRows int64 `json:"new_rows"`
	// HeldRows is how many rows tables of constant size hold at its end, those
	// on their way included.
	HeldRows int64 `json:"held_rows,omitempty"`
	// Marks are moments within the interval, as [rows so far, elapsed
	// seconds]: when each further hundredth of the rows asked for was reached.
	Marks [][2]float64 `json:"marks,omitempty"`
	// Latency is the service time by operation; Response is measured from the
	// intended start, when a rate was asked for.
	Latency  map[string]Histogram `json:"latency_us"`
	Response map[string]Histogram `json:"response_us,omitempty"`
	// Backlog is how many operations were due but not finished at the end of
	// the interval, Late how many began late in it.
	Backlog int64 `json:"backlog,omitempty"`
	Late    int64 `json:"late,omitempty"`
	Errors  int64 `json:"errors"`
	Retries int64 `json:"retries"`
	// Beside are the loads that ran beside the main one, by operation; their
	// latencies are with the others.
	Beside map[string]Tally `json:"beside,omitempty"`
	// BusySeconds is the clients' time spent making rows and waiting for
	// nobody; WaitSeconds their time waiting for the database.
	BusySeconds float64 `json:"busy_seconds"`
	WaitSeconds float64 `json:"wait_seconds"`
	// Counters holds the figures that could be read, by name.
	Counters map[string]float64 `json:"counters,omitempty"`
	// Events are things that were done to the table: partitions made, dropped.
	Events []Event `json:"events,omitempty"`
}

// A Tally is what a load beside the main one did in an interval.
type Tally struct {
	// Rows are those of acknowledged operations; one for each query.
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

// briefShare is the part of the interval asked for below which a last one, cut
// short by the run's end, is too short for a rate: a single acknowledgement in
// it can make a hundred times the true one.
const briefShare = 0.2

// Operation returns the name of the main load's operation; empty where the
// interval has no latencies.
func (iv *Interval) Operation() string {
	for op := range iv.Latency {
		if _, beside := iv.Beside[op]; !beside {
			return op
		}
	}
	return ""
}

// Brief reports whether an interval of the run is too short for its rate to
// say anything.
func (r *Run) Brief(iv *Interval) bool { return iv.Seconds < briefShare*r.IntervalSeconds }

// An Event is something done to the table during the run.
type Event struct {
	// Elapsed is when it ended, Seconds how long it took.
	Elapsed float64 `json:"elapsed"`
	Seconds float64 `json:"seconds"`
	// What it was: "create partitions", "drop partition", "kill server", "server
	// back" (Seconds since the kill), and of what.
	What   string `json:"what"`
	Object string `json:"object"`
}

// Summary is the end of a run, and what `report --json` prints of it.
type Summary struct {
	Name          string  `json:"name"`
	Workload      string  `json:"workload"`
	Preset        string  `json:"preset"`
	Layout        string  `json:"layout"`
	Speed         *Speed  `json:"speed,omitempty"`
	Engine        string  `json:"engine"`
	ServerVersion string  `json:"server_version"`
	Rows          int64   `json:"rows"`
	Seconds       float64 `json:"seconds"`
	RowsPerSecond float64 `json:"rows_per_second"`
	Rate          Rate    `json:"rate"`
	Knee          *Knee   `json:"knee"`
	// LatencyUS is the service time; ResponseUS, from the intended start, is
	// null without a rate.
	LatencyUS  map[string]Latency `json:"latency_us"`
	ResponseUS map[string]Latency `json:"response_us"`
	// Beside are the loads that ran beside the main one, by operation.
	Beside map[string]Done `json:"beside,omitempty"`
	// Step is what a step of a longer benchmark comes to.
	Step         *StepSummary `json:"step,omitempty"`
	StallSeconds float64      `json:"stall_seconds"`
	// Errors and Retries are of all loads.
	Errors  int64 `json:"errors"`
	Retries int64 `json:"retries"`
	// Steadiness is null but for runs of bench steady.
	Steadiness *Steadiness `json:"steadiness,omitempty"`
	// Verified is null when the table was not checked.
	Verified  *Verified `json:"verified"`
	SizeBytes *Size     `json:"size_bytes"`
	Client    Client    `json:"client"`
	Server    Server    `json:"server"`
	Warnings  []string  `json:"warnings"`
	// Failure says what ended the run early; empty when nothing did.
	Failure string `json:"failure,omitempty"`
}

// Done is what a load beside the main one did in the whole run.
type Done struct {
	Operations    int64   `json:"operations"`
	Rows          int64   `json:"rows"`
	PerSecond     float64 `json:"operations_per_second"`
	RowsPerSecond float64 `json:"rows_per_second"`
	Backlog       int64   `json:"backlog,omitempty"` // at the end
	Errors        int64   `json:"errors,omitempty"`
	Retries       int64   `json:"retries,omitempty"`
}

// Rate is how the insert rate went, in rows per second. First and Last are
// means over the first and the last tenth of the rows, Min is the lowest mean
// over a tenth, Flatness is Last/First.
type Rate struct {
	First    float64 `json:"first"`
	Last     float64 `json:"last"`
	Min      float64 `json:"min"`
	Flatness float64 `json:"flatness"`
}

// Knee is where the rate fell below half of the first tenth's, and what moved
// there; Why also says when the rate recovered. There is one when, and only
// when, Min is below half of First.
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
	// Lost are expected rows that are missing and may be: the server was killed
	// so shortly after it had acknowledged them that its settings allow it to
	// lose them. In a sound table Found and Lost add up to Expected.
	Lost int64 `json:"lost,omitempty"`
	// Checksum is true when the rows are the very rows that were sent, but for
	// those lost.
	Checksum bool `json:"checksum"`
	// Counted tells that rows were only counted, those of periods dropped since
	// included, so that there is no checksum.
	Counted bool `json:"counted,omitempty"`
}

// Sound reports whether each row that must be there is, and no other.
func (v *Verified) Sound() bool { return (v.Checksum || v.Counted) && v.Found+v.Lost == v.Expected }

// Size is the table's, at the end of the run.
type Size struct {
	Data   int64   `json:"data"`
	Index  int64   `json:"index"`
	PerRow float64 `json:"per_row"`
}

// Client is what rowmill itself used.
type Client struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// Bound tells that rowmill, not the database, limited the rate.
	Bound bool `json:"bound"`
}

// Server is what the server's process used; null where it can't be seen, and
// for embedded engines, whose time is the client's.
type Server struct {
	CPUSeconds *float64 `json:"cpu_seconds"`
}

// Period is the check of one partition.
type Period struct {
	Name     string `json:"name"`
	From     string `json:"from"`
	To       string `json:"to"`
	Expected int64  `json:"expected"`
	Found    int64  `json:"found"`
	// Lost are of Expected: see Verified.
	Lost int64 `json:"lost,omitempty"`
	// Checksum is true when the rows are those that were sent; null where the
	// server assigns the keys, so that only the whole table can be checked.
	Checksum *bool `json:"checksum"`
}

// End is the last line of a run: the summary, and the details behind it.
type End struct {
	Type string `json:"type"` // "summary"
	// Stopped says what ended the run: "rows", "max-time", "interrupted",
	// "failed"; "decided" of a trial whose verdict was clear before its end.
	Stopped string `json:"stopped"`
	// Failure is the error of a failed run.
	Failure string `json:"failure,omitempty"`
	// Verified, Periods and DroppedRows are what the proof found. Rows of
	// periods that were dropped on purpose are not expected.
	Verified    *Verified `json:"verified"`
	Periods     []Period  `json:"periods,omitempty"`
	DroppedRows int64     `json:"dropped_rows,omitempty"`
	// SkippedRows were acknowledged and left out: their key was there already.
	SkippedRows int64 `json:"skipped_rows,omitempty"`
	// LostRows is Verified.Lost: rows acknowledged and lost in crashes, as the
	// server's settings allow. Kills is how often the server was killed.
	LostRows int64 `json:"lost_rows,omitempty"`
	Kills    int   `json:"kills,omitempty"`
	// DeletedRows were deleted one by one.
	DeletedRows int64 `json:"deleted_rows,omitempty"`
	Size        *Size `json:"size_bytes"`
	// SizeReached is what tables of constant size took when they first had it.
	SizeReached *Size `json:"size_reached_bytes,omitempty"`
	// CPU seconds of client and server over the run.
	ClientCPUSeconds float64  `json:"client_cpu_seconds"`
	ServerCPUSeconds *float64 `json:"server_cpu_seconds"`
	Warnings         []string `json:"warnings,omitempty"`
	// Search is what is known after a run of a search for a rate.
	Search *Searched `json:"search,omitempty"`
	// Summary is derived from the lines before and from this one; it is here
	// for readers without rowmill.
	Summary *Summary `json:"summary,omitempty"`
}

// A Record is one run as read back.
type Record struct {
	Run       Run
	Intervals []Interval
	// End is nil when the run was killed before it could write it.
	End *End
	// Source is the file it was read from.
	Source string
	// Pieces are the headers of a run that was broken off and resumed, the first
	// included; nil for one that was not.
	Pieces []Run
	// Warnings are about the record itself: a torn line, a missing end.
	Warnings []string

	// Earlier is what the pieces before the last used.
	Earlier Used
}
