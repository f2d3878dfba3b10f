package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A Spec says what an experiment is: its targets, table, layouts, load, limits and
// proof. The flags of `rowmill bench` fill it, the header of each run stores it, and
// --resume and compare --repeat read it back. A zero field means the default of the
// workload or of the engine, unless the field says otherwise.
//
// In JSON and TOML, keys are the names of the flags; durations are texts such as "1m30s".
type Spec struct {
	// Workload is the verb below `rowmill bench`, one of the constants below.
	Workload string `json:"workload" toml:"workload"`
	// Targets are the databases, measured in turn; most workloads have exactly one.
	Targets []string `json:"targets" toml:"targets"`

	// Replicas are further replicas of the target, besides those of a private server. The delay of
	// each is measured. Only a Spec with a single target may have Replicas.
	Replicas []string `json:"replica,omitempty" toml:"replica,omitempty"`

	// Preset names the table and its rows. Indexes and TablePerWriter override what the preset says
	// of them, unless they are nil.
	Preset         string `json:"preset,omitempty" toml:"preset,omitempty"`
	Indexes        *int   `json:"indexes,omitempty" toml:"indexes,omitempty"`
	TablePerWriter *bool  `json:"table-per-writer,omitempty" toml:"table-per-writer,omitempty"`
	// Table, unless nil, is measured in place of the preset's; Preset is then its name.
	Table *TableSpec `json:"table,omitempty" toml:"table,omitempty"`

	// Layouts are measured in turn, Repeat times.
	Layouts []string `json:"layouts,omitempty" toml:"layouts,omitempty"`
	Repeat  int      `json:"repeat,omitempty" toml:"repeat,omitempty"`
	// PeriodRows is the number of rows in a period of a rolling table; 0 lets two periods fit into
	// the database's cache. KeepPeriods and KeepRows limit what the table keeps; 0 keeps all.
	PeriodRows  int64 `json:"period-rows,omitempty" toml:"period-rows,omitempty"`
	KeepPeriods int   `json:"keep-periods,omitempty" toml:"keep-periods,omitempty"`
	KeepRows    int64 `json:"keep-rows,omitempty" toml:"keep-rows,omitempty"`

	LoadSpec

	// Rows and MaxTime end a run; 0 is no limit. Interval is the time between two
	// readings of all figures.
	Rows     int64    `json:"rows,omitempty" toml:"rows,omitempty"`
	MaxTime  Duration `json:"max-time,omitzero" toml:"max-time,omitzero"`
	Interval Duration `json:"interval" toml:"interval"`
	// Warmup is the time for which the load runs before it is measured.
	Warmup Duration `json:"warmup,omitzero" toml:"warmup,omitzero"`

	SearchSpec

	// DiskRecord is a record of `bench disk` that the disk reads of inserts are compared with.
	DiskRecord string `json:"disk,omitempty" toml:"disk,omitempty"`

	// DropExisting drops existing tables of the same names before the run. NoVerify omits the proof
	// that the tables hold the rows that were sent.
	DropExisting bool `json:"drop-existing,omitempty" toml:"drop-existing,omitempty"`
	NoVerify     bool `json:"no-verify,omitempty" toml:"no-verify,omitempty"`
	// NoWork omits the fixed computation that is timed beside a steady load.
	NoWork bool `json:"no-work,omitempty" toml:"no-work,omitempty"`

	WorkloadSpecs
}

// A LoadSpec says what clients do, and how fast.
type LoadSpec struct {
	// Writers is the number of writers. Each inserts Batch rows in a transaction, by Method.
	// Together they insert Rate rows per second; a Rate of 0 is as fast as possible. All rows derive
	// from Seed.
	Writers int     `json:"writers,omitempty" toml:"writers,omitempty"`
	Batch   int     `json:"batch,omitempty" toml:"batch,omitempty"`
	Method  string  `json:"method,omitempty" toml:"method,omitempty"`
	Rate    float64 `json:"rate,omitempty" toml:"rate,omitempty"`
	Seed    Seed    `json:"seed" toml:"seed"`
	// Readers query the table beside the inserts, once it has ReadAfter rows.
	Readers   int   `json:"readers,omitempty" toml:"readers,omitempty"`
	ReadAfter int64 `json:"read-after,omitempty" toml:"read-after,omitempty"`
	// KillEvery is the interval at which the private server is killed and restarted; 0 is never.
	KillEvery Duration `json:"kill-server-every,omitzero" toml:"kill-server-every,omitzero"`
	// RetryFor is how long an operation that failed is retried.
	RetryFor Duration `json:"retry-for,omitzero" toml:"retry-for,omitzero"`
}

// A SearchSpec has the options of a search for the highest rate.
type SearchSpec struct {
	// With FindRate, the run searches for the highest rate at which at least 99 of 100 operations on
	// the filled table take no longer than P99. Each rate is tried for the time Trial.
	FindRate bool     `json:"find-rate,omitempty" toml:"find-rate,omitempty"`
	P99      Duration `json:"p99,omitzero" toml:"p99,omitzero"`
	Trial    Duration `json:"trial,omitzero" toml:"trial,omitzero"`
}

// WorkloadSpecs holds the options that only one workload has; the options of other workloads are
// nil.
type WorkloadSpecs struct {
	Ibench   *IbenchSpec `json:"ibench,omitempty" toml:"ibench,omitempty"`
	Cells    *CellsSpec  `json:"cells,omitempty" toml:"cells,omitempty"`
	Keep     *KeepSpec   `json:"keep,omitempty" toml:"keep,omitempty"`
	Scan     *ScanSpec   `json:"scan,omitempty" toml:"scan,omitempty"`
	HotRow   *HotRowSpec `json:"hotrow,omitempty" toml:"hotrow,omitempty"`
	TPCC     *TPCCSpec   `json:"tpcc,omitempty" toml:"tpcc,omitempty"`
	Tables   *TablesSpec `json:"tables,omitempty" toml:"tables,omitempty"`
	Disk     *DiskSpec   `json:"disk-jobs,omitempty" toml:"disk-jobs,omitempty"`
	Matrix   *Levels     `json:"matrix,omitempty" toml:"matrix,omitempty"`
	Scenario *Script     `json:"scenario,omitempty" toml:"scenario,omitempty"`
}

// The workloads of a Spec.
const (
	Insert   = "insert"
	Ibench   = "ibench"
	Mixed    = "mixed"
	Points   = "points"
	Keep     = "keep"
	Scan     = "scan"
	HotRow   = "hotrow"
	TPCC     = "tpcc"
	Tables   = "tables"
	Disk     = "disk"
	Steady   = "steady"
	Matrix   = "matrix"
	Scenario = "scenario"
)

// A Duration is a time.Duration that is written as a text, such as "1m30s".
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.D().String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// A Seed is the number that all rows derive from. In JSON and TOML it is a text, because readers of
// these formats round or refuse integers of 64 bits.
type Seed uint64

// MarshalText implements encoding.TextMarshaler.
func (s Seed) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(s), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Seed) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 10, 64)
	*s = Seed(v)
	return err
}

// Target returns the only target of a Spec.
func (s *Spec) Target() string { return s.Targets[0] }

func (s *Spec) encoded() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a Spec holds no value that JSON lacks: Validate refuses NaN and Inf
	}
	return text
}

// Recorded returns the Spec in a run's header.
func Recorded(run *result.Run) (*Spec, error) {
	if run.Spec == nil {
		return nil, refuse("run the experiment again, with --out NEW.jsonl", "its record has no spec: rowmill %s, which wrote it, stored none; it can be reported and compared only", run.Rowmill)
	}
	dec := json.NewDecoder(bytes.NewReader(run.Spec))
	dec.DisallowUnknownFields()
	s := &Spec{}
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("its spec doesn't fit this version of rowmill: %w", err)
	}
	if len(s.Targets) == 0 {
		return nil, errors.New("its spec names no target")
	}
	return s, nil
}

// Settings lists what the Spec sets about a run, such as "batch=100 rows=2000", without
// the workload, the targets, the layouts, the table or its preset, and DropExisting.
func (s *Spec) Settings() string {
	rest := *s
	rest.Workload, rest.Preset, rest.Targets, rest.Layouts, rest.DropExisting, rest.Table = "", "", nil, nil, false, nil
	text, err := json.Marshal(&rest)
	var fields map[string]json.RawMessage
	if err := errors.Join(err, json.Unmarshal(text, &fields)); err != nil {
		return err.Error()
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if value := strings.Trim(string(fields[name]), `"`); value != "" && value != "null" {
			out = append(out, name+"="+value)
		}
	}
	return strings.Join(out, " ")
}

// dryInsert returns the insert workload of a layout on a database that only renders statements.
func (s *Spec) dryInsert(layout string) (*workload.Insert, error) {
	db, err := target.Dry(s.Target())
	if err != nil {
		return nil, refuse(engine.HintOf(err), "--target: %w", err)
	}
	return workload.NewInsert(db, s.insertOptions(layout))
}

func (s *Spec) insertOptions(layout string) workload.InsertOptions {
	own, _ := s.own() // Validate has refused an invalid table
	o := workload.InsertOptions{
		Own: own, Preset: s.Preset, Layout: layout, Seed: uint64(s.Seed), Rows: s.Rows, Writers: s.Writers, Batch: s.Batch,
		Method: engine.Method(s.Method), Indexes: s.Indexes, TablePerWriter: s.TablePerWriter,
		PeriodRows: s.PeriodRows, KeepPeriods: s.KeepPeriods, Patience: s.RetryFor.D(),
		KeepRows: s.KeepRows, Readers: s.Readers, ReadAfter: s.ReadAfter,
	}
	if s.FindRate && s.Rows > wideRows {
		o.Rows = 0 // unknown: each trial adds rows
	}
	return o
}

func (s *Spec) config(o workload.InsertOptions) bench.Config {
	return bench.Config{
		Operation: "insert", Clients: o.Writers, Batch: o.Batch, Rows: s.Rows, MaxTime: s.MaxTime.D(),
		Rate: s.Rate, Interval: s.Interval.D(), RetryFor: s.RetryFor.D(),
	}
}

// alone returns the Spec of a single run with one of the layouts.
func (s *Spec) alone(layout string) *Spec {
	one := *s
	one.Layouts, one.Repeat = []string{layout}, 1
	if layout == workload.Plain {
		one.PeriodRows, one.KeepPeriods = 0, 0
	}
	return &one
}

// Statements returns the statements that the experiment would execute, by layout.
func (s *Spec) Statements() (out []workload.Statements, err error) {
	if s.Table != nil {
		return nil, refuse("rowmill apply "+s.Table.File+" --dry-run, for its statements", "--print-sql: only the server knows the types of a declared table's columns")
	}
	db, err := target.Dry(s.Target())
	if err != nil {
		return nil, err
	}
	for _, layout := range s.Layouts {
		w, err := workload.NewInsert(db, s.insertOptions(layout))
		if err != nil {
			return nil, err
		}
		all, err := w.Statements(s.DropExisting, !s.NoVerify)
		if err != nil {
			return nil, err
		}
		out = append(out, workload.Statements{About: "layout " + layout, On: db.Info().Engine, All: all})
	}
	return out, nil
}

// rows formats a number of rows: "1 row", "2,000 rows".
func rows[N int | int64](n N) string { return figure.Plural(n, "row") }
