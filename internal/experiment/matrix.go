package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// Levels are the choices of a matrix besides the layouts of its Spec. Each combination is a cell.
type Levels struct {
	// Methods are the insert methods; nil means those of commonMethods that the engine has.
	Methods []string `json:"methods,omitempty" toml:"methods,omitempty"`
	Batches []string `json:"batches" toml:"batches"`
	Writers []string `json:"writers" toml:"writers"`
	// Indexes are numbers of secondary indexes; nil is the preset's own.
	Indexes []string `json:"indexes,omitempty" toml:"indexes,omitempty"`
	// Durabilities are options of the target; nil is the target's own.
	Durabilities []string `json:"durabilities,omitempty" toml:"durabilities,omitempty"`
}

// commonMethods are the insert methods of a matrix that names none.
var commonMethods = []string{string(engine.Multi), string(engine.Prepared), string(engine.Load)}

// Methods returns all insert methods.
func Methods() []string {
	return []string{string(engine.Single), string(engine.Multi), string(engine.Prepared), string(engine.Pipeline), string(engine.Load)}
}

// A factor is what a matrix varies, e.g. the batch, with its levels.
type factor struct {
	name   string
	levels []string
	known  []string // the valid levels; nil means numbers
	// set applies a level to the Spec of a run.
	set func(run *Spec, level string) error
}

// factors returns the factors of a matrix, in the order of the record.
func (s *Spec) factors() ([]factor, error) {
	m := s.Matrix
	methods, indexes := m.Methods, m.Indexes
	if methods == nil {
		methods = commonMethods
	}
	if indexes == nil {
		w, err := s.alone(workload.Plain).dryInsert(workload.Plain)
		if err != nil {
			return nil, s.refused(err)
		}
		indexes = []string{strconv.Itoa(w.Indexes())}
	}
	number := func(set func(run *Spec, n int)) func(*Spec, string) error {
		return func(run *Spec, level string) error {
			n, err := strconv.Atoi(level)
			set(run, n)
			return err
		}
	}
	return []factor{
		{"method", methods, Methods(), func(run *Spec, level string) error { run.Method = level; return nil }},
		{"batch", m.Batches, nil, number(func(run *Spec, n int) { run.Batch = n })},
		{"writers", m.Writers, nil, number(func(run *Spec, n int) { run.Writers = n })},
		{"indexes", indexes, nil, number(func(run *Spec, n int) { run.Indexes = &n })},
		{"layout", s.Layouts, workload.Layouts(), func(run *Spec, level string) error { *run = *run.alone(level); return nil }},
		{"durability", m.Durabilities, []string{sandbox.Full, sandbox.Relaxed, sandbox.None}, func(run *Spec, level string) (err error) {
			run.Targets[0], err = target.WithDurability(run.Targets[0], level)
			return err
		}},
	}, nil
}

// A MatrixPlan is the runs of a matrix.
type MatrixPlan struct {
	Spec    *Spec
	Factors []result.Factor
	LeftOut []result.LeftOut
	// Trials are all runs, in the order of execution.
	Trials []Trial
}

// PlanMatrix combines the levels of all factors into cells. It leaves out levels that the engine
// doesn't support, and refuses invalid cells. It opens no database.
func PlanMatrix(s *Spec) (*MatrixPlan, error) {
	m := &MatrixPlan{Spec: s}
	if s.Matrix == nil {
		return nil, refuse(s.help(), "the spec of a matrix lacks its section")
	}
	if err := s.validateTargets(1); err != nil {
		return nil, err
	}
	factors, err := s.factors()
	if err != nil {
		return nil, err
	}
	if err := s.validateFactors(factors); err != nil {
		return nil, err
	}
	if factors, err = m.possible(factors); err != nil {
		return nil, err
	}
	cells, err := m.cells(factors)
	if err != nil {
		return nil, err
	}
	m.order(cells)
	return m, nil
}

// possible leaves out the levels that the engine doesn't support, and refuses a factor that has no
// level left.
func (m *MatrixPlan) possible(factors []factor) (out []factor, err error) {
	db, err := target.Dry(m.Spec.Target())
	if err != nil {
		return nil, refuse(engine.HintOf(err), "--target: %w", err)
	}
	caps, name := db.Capabilities(), db.Info().Engine
	for _, f := range factors {
		if len(f.levels) == 0 {
			continue
		}
		asked, why := f.levels, ""
		f.levels = nil
		for _, level := range asked {
			switch why = ""; {
			case f.name == "method" && !slices.Contains(caps.Methods, engine.Method(level)):
				why = fmt.Sprintf("%s has %s", name, workload.Join(caps.Methods))
			case f.name == "method" && workload.SkipsKnownKeys(m.Spec.Preset) && slices.Contains(caps.NoIgnore, engine.Method(level)):
				why = fmt.Sprintf("%s can't skip rows whose key is there with it, as preset %s asks for", name, m.Spec.Preset)
			case f.name == "layout" && level == workload.Rolling && !caps.Rolling:
				why = name + " can't divide a table into periods"
			}
			switch {
			case why == "":
				f.levels = append(f.levels, level)
			case f.name != "method" || m.Spec.Matrix.Methods != nil:
				m.LeftOut = append(m.LeftOut, result.LeftOut{Factor: f.name, Level: level, Why: why})
			}
		}
		if len(f.levels) == 0 {
			return nil, refuse(m.Spec.help(), "--%s %s: nothing is left: %s", f.name, strings.Join(asked, ","), why)
		}
		m.Factors = append(m.Factors, result.Factor{Name: f.name, Levels: f.levels})
		out = append(out, f)
	}
	return out, nil
}

// cells returns each combination as a validated trial.
func (m *MatrixPlan) cells(factors []factor) (out []Trial, err error) {
	all := [][]string{{}}
	for _, f := range factors {
		var next [][]string
		for _, levels := range all {
			for _, l := range f.levels {
				next = append(next, append(slices.Clone(levels), l))
			}
		}
		all = next
	}
	for _, levels := range all {
		run := *m.Spec
		run.Workload, run.Matrix, run.Repeat, run.Targets = Insert, nil, 1, slices.Clone(m.Spec.Targets)
		for i, f := range factors {
			if err := f.set(&run, levels[i]); err != nil {
				return nil, refuse(m.Spec.help(), "--%s %s: %w", f.name, levels[i], err)
			}
		}
		if err := run.Validate(); err != nil {
			if hint := engine.HintOf(err); hint != run.help() {
				return nil, err
			}
			return nil, refuse(m.Spec.help(), "%w", err)
		}
		out = append(out, Trial{Spec: &run, Whole: m.Spec, Cell: &result.Cell{Levels: levels}})
	}
	return out, nil
}

// orderStream is the second seed of the generator that orders the cells. The rows use only the
// first seed.
const orderStream = 0x6d6174726978 // "matrix"

// order determines the order of the runs: each round has every cell once, shuffled.
func (m *MatrixPlan) order(cells []Trial) {
	rng := rand.New(rand.NewPCG(uint64(m.Spec.Seed), orderStream))
	for repeat := 1; repeat <= m.Spec.Repeat; repeat++ {
		for _, i := range rng.Perm(len(cells)) {
			t := cells[i]
			if m.Spec.Repeat > 1 {
				t.Repeat = repeat
			}
			t.Cell = &result.Cell{
				Factors: m.Factors, LeftOut: m.LeftOut, Levels: t.Cell.Levels,
				Repeats: m.Spec.Repeat, Runs: len(cells) * m.Spec.Repeat, Order: len(m.Trials) + 1,
			}
			t.Label = t.Cell.Name()
			m.Trials = append(m.Trials, t)
		}
	}
}

// ResumeMatrix plans the rest of the matrix of a record: interrupted runs, runs that never began
// and, with retryFailed, runs that failed. It opens no database.
func ResumeMatrix(ctx context.Context, path string, retryFailed bool) (m *MatrixPlan, done []result.Record, err error) {
	r, err := readResumption(ctx, path, Matrix)
	if err != nil {
		return nil, nil, err
	}
	if m, err = PlanMatrix(r.Spec); err != nil {
		return nil, nil, err
	}
	type run struct {
		cell   string
		repeat int
	}
	over := map[run]bool{}
	for i := range r.Recs {
		h := &r.Recs[i].Run
		if h.Cell == nil || h.Cell.Runs != len(m.Trials) || !reflect.DeepEqual(h.Cell.Factors, m.Factors) {
			return nil, nil, r.refuse("rowmill bench matrix --out NEW.jsonl", "its matrix has other cells than this version of rowmill would run")
		}
		if completed, failed := cellEnd(&r.Recs[i]); completed || failed && !retryFailed {
			over[run{h.Cell.Key(), h.Repeat}] = true
		}
	}
	m.Trials = slices.DeleteFunc(m.Trials, func(t Trial) bool { return over[run{t.Cell.Key(), t.Repeat}] })
	return m, r.Recs, nil
}

// cellEnd reports how a recorded run of a cell ended; both results are false if the run was
// interrupted.
func cellEnd(r *result.Record) (completed, failed bool) {
	return !r.Broken() && r.End.Failure == "", r.End != nil && r.End.Stopped == bench.StoppedFailed
}

// perRun is the time of a run besides inserting. The run starts a private server (two seconds on
// two cores), creates and drops tables, and verifies a small table.
const perRun = 3 * time.Second

// Estimate returns how long the runs take: as a duration, and as a text with the basis of the
// estimate. It assumes that each run takes the mean time of the runs in records or, if they have
// none, the longest time that a run may take.
func (m *MatrixPlan) Estimate(records ...[]result.Record) (took time.Duration, text string) {
	most := m.Spec.MaxTime.D().Seconds()
	var sum, n float64
	for _, r := range slices.Concat(records...) {
		if completed, _ := cellEnd(&r); !completed || r.Run.Cell == nil {
			continue
		}
		s := r.Summary()
		seconds := s.Seconds
		if m.Spec.Rows > 0 && s.RowsPerSecond > 0 {
			seconds = float64(m.Spec.Rows) / s.RowsPerSecond
		}
		if most > 0 {
			seconds = min(seconds, most)
		}
		sum, n = sum+seconds, n+1
	}
	text = "about %s, by the runs that are recorded"
	switch {
	case n == 0 && most == 0:
		return 0, "the time is unknown without --time"
	case n == 0:
		text = fmt.Sprintf("at most about %%s, by --time %v for each", m.Spec.MaxTime.D())
		sum, n = most, 1
	}
	took = time.Duration(len(m.Trials)) * (perRun + time.Duration(sum/n*float64(time.Second)))
	return took, fmt.Sprintf(text, took.Round(time.Second))
}

// manyFailures is the number of consecutive failures after which a matrix ends: its server is
// probably gone, and the remaining cells aren't at fault.
const manyFailures = 5

// errRecord marks a failure to write the record.
var errRecord = errors.New("the record can't be written")

// Run makes the trials and returns their records, after the records of trials that are already
// done. If a trial fails, Run records the failure and goes on with the next trial.
func (m *MatrixPlan) Run(ctx context.Context, env *Env, done []result.Record) (recs []result.Record, err error) {
	if recs = done; len(recs) > 0 {
		env.Command = recs[0].Run.Command
	}
	began, failures := time.Now(), 0
	var late []error // errors after the end of a run was recorded
	for i, t := range m.Trials {
		note := fmt.Sprintf("run %d of %d: %s", t.Cell.Order, t.Cell.Runs, t.Label)
		if i > 0 {
			// The order is random, so that the remaining runs take as long on average as the past runs.
			rest := time.Since(began) / time.Duration(i) * time.Duration(len(m.Trials)-i)
			note += fmt.Sprintf("; about %s left", rest.Round(time.Second))
		}
		env.Show.Note(note)
		t.Again = len(recs) > 0
		rec, err := env.runCell(ctx, &t)
		if rec != nil {
			recs = append(recs, *rec)
		}
		switch {
		case ctx.Err() != nil && len(recs) == 0:
			return nil, errors.Join(ErrInterruptedEarly, notInterrupt(err))
		case ctx.Err() != nil:
			return recs, errors.Join(ErrInterrupted, notInterrupt(err))
		case err == nil:
			failures = 0
			continue
		case rec == nil && len(recs) == 0 || errors.Is(err, engine.ErrTableExists) || errors.Is(err, errRecord):
			// No run has succeeded yet, or the record can't be written.
			return recs, fmt.Errorf("%s: %w", t.Label, err)
		}
		env.Show.Note(fmt.Sprintf("failed: %s: %v", t.Label, err))
		if rec != nil && rec.End.Stopped != bench.StoppedFailed {
			late = append(late, fmt.Errorf("after %s: %w", t.Label, err))
			continue
		}
		if rec == nil {
			failed := result.Record{Run: env.failedCell(&t), End: &result.End{Stopped: bench.StoppedFailed, Failure: err.Error()}}
			if err := errors.Join(env.Out.Run(failed.Run), env.Out.End(*failed.End)); err != nil {
				return recs, err
			}
			recs = append(recs, failed)
		}
		if failures++; failures == manyFailures {
			return recs, engine.Hinted(fmt.Errorf("%d runs in a row failed, the last with: %w", failures, err), "--resume, with --retry-failed, once the cause is fixed")
		}
	}
	return recs, errors.Join(late...)
}

// notInterrupt returns err, or nil if the interrupt itself caused it.
func notInterrupt(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrInterruptedEarly) {
		return nil
	}
	return err
}

func (e *Env) failedCell(t *Trial) result.Run {
	s := t.Spec
	cfg := s.config(workload.InsertOptions{Writers: s.Writers, Batch: s.Batch})
	run := e.header(t, &cfg, result.Run{Name: t.Label, Load: result.Load{Method: s.Method, Indexes: *s.Indexes}})
	run.Started = time.Now().UTC()
	if db, err := target.Dry(s.Target()); err == nil {
		run.Engine = db.Info().Engine
	}
	return run
}

// runCell runs a cell, after the disk and the server have completed the work of the previous cell.
// On a permanent database, it drops the tables afterwards, so that each cell starts from the same
// state.
func (e *Env) runCell(ctx context.Context, t *Trial) (*result.Record, error) {
	if err := e.while("waiting for the disk to write what the cell before left", func() error { return syncDisk(ctx) }); err != nil {
		return nil, err
	}
	r := e.newInsert(t)
	_, err := r.on(ctx, func(schema []string) (failed error) {
		if !target.Private(t.Spec.Target()) {
			defer func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
				defer cancel()
				failed = errors.Join(failed, r.w.Drop(ctx))
			}()
			warnings, err := e.settle(ctx, r.db, r.w.Tables())
			if err != nil {
				return err
			}
			r.warnings = warnings
		}
		err := r.insert(ctx, schema, r.config())
		if e.Out.Failed() {
			err = errors.Join(err, errRecord)
		}
		return err
	})
	return r.rec, err
}

// Summary describes the runs and how long they take.
func (m *MatrixPlan) Summary(took string) string {
	var b strings.Builder
	all := m.Spec.Repeat
	for _, f := range m.Factors {
		all *= len(f.Levels)
	}
	fmt.Fprintf(&b, "%s on %s, preset %s", figure.Plural(all, "run"), m.Spec.Target(), m.Spec.Preset)
	if left := len(m.Trials); left < all {
		fmt.Fprintf(&b, ", %d of them left", left)
	}
	fmt.Fprintf(&b, ": %s.\n", took)
	for _, f := range m.Factors {
		fmt.Fprintf(&b, "  %-10s  %s\n", f.Name, strings.Join(f.Levels, ", "))
	}
	fmt.Fprintf(&b, "  %-10s  %d\n", "repeats", m.Spec.Repeat)
	for _, l := range m.LeftOut {
		fmt.Fprintf(&b, "  left out: %s=%s: %s\n", l.Factor, l.Level, l.Why)
	}
	return b.String()
}

// Text is the summary and the runs, in their order.
func (m *MatrixPlan) Text(took string) string {
	var b strings.Builder
	b.WriteString(m.Summary(took) + "\n")
	for _, t := range m.Trials {
		fmt.Fprintf(&b, "%5d  %s", t.Cell.Order, t.Label)
		if t.Repeat > 0 {
			fmt.Fprintf(&b, "  repeat %d", t.Repeat)
		}
		b.WriteString("\n")
	}
	return b.String()
}
