package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/ask"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A ScanSpec has the options of the partition scan: each way of asking is measured with sums over
// 1, Step, 2*Step and so on partitions, up to all Partitions.
type ScanSpec struct {
	Partitions int      `json:"partitions" toml:"partitions"`
	Step       int      `json:"step" toml:"step"`
	Ways       []string `json:"ways" toml:"ways"`
	// Sessions is the number of connections that read in parallel; 0 is the default of query.Options.
	Sessions int `json:"sessions,omitempty" toml:"sessions,omitempty"`
}

// scanRounds is how often a run asks each query.
const scanRounds = 3

// numbers returns the numbers of partitions that are read, in order.
func (s *ScanSpec) numbers() []int {
	out := []int{1}
	for n := s.Step; n < s.Partitions; n += s.Step {
		out = append(out, n)
	}
	return slices.Compact(append(out, s.Partitions))
}

func (s *Spec) scanOptions() workload.ScanOptions {
	return workload.ScanOptions{Seed: uint64(s.Seed), Rows: s.Rows, Partitions: s.Scan.Partitions}
}

func (s *Spec) validateScan() error {
	c := s.Scan
	if err := cmp.Or(s.validateTargets(1),
		s.validateInterval(),
		s.limits("repeat", s.Repeat, 1, 0),
		s.limits("partitions", c.Partitions, 1, workload.MaxScanPartitions),
		s.limits("step", c.Step, 1, 0),
		s.limits("parallel", c.Sessions, 0, maxSessions),
		list(s, "ways", "way", c.Ways, result.ScanWays())); err != nil {
		return err
	}
	db, err := target.Dry(s.Target())
	if err == nil {
		_, err = workload.NewScan(db, s.scanOptions())
	}
	return s.refused(err)
}

// maxSessions is more than a server has cores.
const maxSessions = 256

// A scanRun makes the runs of a Spec on one table.
type scanRun struct {
	*Env
	spec *Spec
	db   *target.DB
	w    *workload.Scan
	// trial returns the trial of a way.
	trial func(way string) *Trial
	// schema and warnings are those of filling the table.
	schema, warnings []string
}

// scan fills the table, and asks in each way in turn, Repeat times.
func (e *Env) scan(ctx context.Context, s *Spec) ([]result.Record, error) {
	return e.scanAs(ctx, s, func(string) *Trial { return &Trial{Spec: s, Whole: s} })
}

// scanAs is scan with the trials that trial returns, one for the run of each way.
func (e *Env) scanAs(ctx context.Context, s *Spec, trial func(way string) *Trial) (recs []result.Record, err error) {
	r := &scanRun{Env: e, spec: s, trial: trial}
	m := measurement{env: e, trial: &Trial{Spec: s}}
	err = m.open(ctx, func() error {
		r.db = m.db
		reader, ok := r.db.DB.(engine.Reader)
		if !ok {
			return refuse("--target "+target.ExampleServer, "--target %s: its queries can't be split", s.Target())
		}
		ways := r.ways()
		if len(ways) == 0 {
			return refuse("--ways serial,parallel", "--ways %s: %s doesn't have them", strings.Join(s.Scan.Ways, ","), r.db.Info().Engine)
		}
		if r.w, err = workload.NewScan(r.db, s.scanOptions()); err != nil {
			return err
		}
		e.Show.Note(fmt.Sprintf("filling the table with %s in %d partitions", rows(s.Rows), s.Scan.Partitions))
		r.schema, err = r.w.Fill(ctx, s.DropExisting, e.noteRows(func(n int64) string { return fmt.Sprintf("filled %d of %d rows", n, s.Rows) }))
		if err == nil {
			r.warnings, err = e.settle(ctx, r.db, r.w.Tables())
		}
		if err != nil {
			return err
		}
		var all []scanTrial
		for round := range s.Repeat {
			for _, way := range inTurn(ways, round) {
				all = append(all, scanTrial{way, round})
			}
		}
		recs, err = each(ctx, all, func(t scanTrial) string { return "way " + t.way }, func(t scanTrial) ([]result.Record, error) {
			rec, err := r.measure(ctx, reader, t)
			return recorded(rec, err)
		})
		return err
	})
	if len(recs) == 0 {
		err = early(ctx, err)
	}
	return recs, err
}

type scanTrial struct {
	way   string
	round int
}

// ways returns the ways of the Spec that the database supports.
func (r *scanRun) ways() (out []string) {
	_, wired := r.db.DB.(engine.Wired)
	for _, way := range r.spec.Scan.Ways {
		if way == result.ScanServe && !wired {
			r.Show.Note(fmt.Sprintf("! %s is left out: rowmill serve has no protocol for %s", way, r.db.Info().Engine))
			continue
		}
		out = append(out, way)
	}
	return out
}

// measure makes one run.
func (r *scanRun) measure(ctx context.Context, reader engine.Reader, t scanTrial) (_ *result.Record, err error) {
	s := r.spec
	asker, err := ask.Open(ctx, r.db, reader, t.way, s.Scan.Sessions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, asker.Close()) }()
	numbers := s.Scan.numbers()
	most := r.w.Query(numbers[len(numbers)-1])
	// The table is read once before, so that no run pays for bringing it into memory.
	if _, err := asker.Ask(ctx, most); err != nil {
		return nil, fmt.Errorf("way %s: %w", t.way, err)
	}
	run := r.w.Run(asker, numbers, scanRounds)
	own := result.Run{
		Name: fmt.Sprintf("scan %s on %s", t.way, r.db.Info().Engine), Deviations: r.w.Deviations(), Database: result.Database{Schema: r.schema}, Warnings: r.warnings,
		Benchmark: result.Benchmark{Scan: &result.Scan{Way: t.way, Partitions: s.Scan.Partitions, TableRows: s.Rows, Ways: s.Scan.Ways, Query: most, Sessions: 1}},
	}
	trial := r.trial(t.way)
	if s.Repeat > 1 {
		trial.Repeat, trial.Repeats = t.round+1, s.Repeat
		own.Name = trial.named(own.Name)
	}
	if t.way != result.ScanSerial {
		if own.Scan.Sessions, own.Scan.Whole, err = ask.Explain(ctx, reader, most, s.Scan.Sessions); err != nil {
			return nil, err
		}
	}
	cfg := bench.Config{Operation: workload.OpScan, Clients: 1, Batch: 1, Rows: int64(run.Queries()), Interval: s.Interval.D()}
	m := measurement{env: r.Env, trial: trial, db: r.db, note: func(iv *result.Interval) {
		for _, took := range run.Took() {
			iv.Events = append(iv.Events, result.Event{Elapsed: took.Elapsed, Seconds: took.Seconds, What: result.ScanEvent, Object: fmt.Sprint(took.Partitions)})
		}
	}}
	if err := m.begin(ctx, r.w.Tables(), cfg, own, own.Name); err != nil {
		return nil, err
	}
	err = m.measure(ctx, run, nil)
	return m.rec, err
}
