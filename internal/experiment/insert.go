package experiment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/kill"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

type insertRun struct {
	measurement
	w *workload.Insert
	// search is the run's place in a search for a rate; nil outside of a search. searching is shown
	// after the run's name.
	search    *result.Search
	searching string
	// warnings come from before the run.
	warnings []string
	// before is the number of rows that earlier runs inserted into the tables.
	before int64
	// reached receives the size of the tables at the moment when they first hold the number of rows to
	// keep. measuring is set once this size is being determined.
	reached   chan *result.Size
	measuring bool
}

func (e *Env) newInsert(t *Trial) *insertRun {
	return &insertRun{measurement: measurement{env: e, trial: t}}
}

// insert makes a trial: one run, or all runs of a search for a rate.
func (e *Env) insert(ctx context.Context, t Trial) ([]result.Record, error) {
	if t.Spec.FindRate {
		s, err := e.newRateSearch(&t)
		if err != nil {
			return nil, err
		}
		return s.run(ctx)
	}
	r := e.newInsert(&t)
	return r.on(ctx, func(schema []string) error { return r.insert(ctx, schema, r.config()) })
}

// recorded returns the list of one record; the list is empty if rec is nil.
func recorded(rec *result.Record, err error) ([]result.Record, error) {
	if rec == nil {
		return nil, err
	}
	return []result.Record{*rec}, err
}

// open opens the trial's target, calls use, and closes the target.
func (m *measurement) open(ctx context.Context, use func() error) (err error) {
	if m.db, err = target.Open(ctx, m.trial.Spec.Target(), m.env.Show.Note); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.db.Close()) }()
	return use()
}

// run calls measure with the trial's target open. It returns the record if the measurement has
// begun.
func (m *measurement) run(ctx context.Context, measure func() error) ([]result.Record, error) {
	err := m.open(ctx, measure)
	if m.rec == nil {
		err = early(ctx, err)
	}
	return recorded(m.rec, err)
}

// on opens the trial's target, prepares the tables, and calls measure with the statements that
// created the tables.
func (r *insertRun) on(ctx context.Context, measure func(schema []string) error) ([]result.Record, error) {
	return r.run(ctx, func() error {
		prepare := r.setup
		if r.trial.resumes != nil {
			prepare = r.resume
		}
		schema, err := prepare(ctx)
		if err != nil {
			return err
		}
		return measure(schema)
	})
}

func (r *insertRun) config() bench.Config {
	cfg := r.trial.Spec.config(r.w.Options())
	cfg.Beside = append(cfg.Beside, r.w.Beside()...)
	return cfg
}

// setup creates the tables and returns the statements that created them.
func (r *insertRun) setup(ctx context.Context) (schema []string, err error) {
	s := r.trial.Spec
	o := s.insertOptions(r.trial.layout())
	if err := r.describe(ctx, o.Own); err != nil {
		return nil, err
	}
	if r.w, err = workload.NewInsert(r.db, o); err != nil {
		return nil, err
	}
	if r.trial.layout() == workload.Rolling && s.PeriodRows == 0 {
		r.env.Show.Note("measuring bytes per row on a sample, to fit two periods into the cache")
	}
	if err := r.w.Measure(ctx); err != nil {
		return nil, err
	}
	return r.w.Setup(ctx, s.DropExisting || r.trial.Again)
}

func (r *insertRun) insert(ctx context.Context, schema []string, cfg bench.Config) error {
	if err := r.header(ctx, schema, cfg); err != nil {
		return err
	}
	s := r.trial.Spec
	if s.KeepRows > 0 {
		r.reached = make(chan *result.Size, 1)
		r.note = func(iv *result.Interval) { r.noteHeld(ctx, iv) }
	}
	load := r.withKills(ctx, r.w)
	if r.kill == nil {
		return r.measure(ctx, load, r.prove)
	}
	if err := r.w.ExpectCrashes(func() <-chan struct{} { return r.kill.Outage(0) }); err != nil {
		return errors.Join(err, r.close())
	}
	return r.measure(ctx, load, r.prove)
}

// withKills returns the workload with the kills of private servers that the trial's Spec asks for.
func (m *measurement) withKills(ctx context.Context, w kill.Workload) bench.Workload {
	if m.trial.Spec.KillEvery == 0 {
		return w
	}
	c := kill.Config{Server: m.db.Server(), Every: m.trial.Spec.KillEvery.D(), Workload: w, Note: m.env.Show.Note, Restarted: m.probe.Follow}
	for _, n := range m.db.Nodes {
		if n.Replica || n.Member && n.Server != c.Server {
			c.Others = append(c.Others, n.Server)
		}
	}
	m.kill = kill.New(c)
	return m.kill.Workload(ctx)
}

func (r *insertRun) header(ctx context.Context, schema []string, cfg bench.Config) error {
	own, shown := r.names(schema)
	own.Warnings = r.warnings
	if file := r.trial.Spec.DiskRecord; file != "" {
		var err error
		if own.MeasuredDisk, err = ReadDisk(ctx, file); err != nil {
			return err
		}
		own.Warnings = append(own.Warnings, otherDisk(own.MeasuredDisk, probe.Machine(r.db.Info().DataDir))...)
	}
	return r.begin(ctx, r.w.Tables(), cfg, own, shown)
}

// names returns the fields of the header that only the workload knows, and the run's name as it is
// shown to users.
func (r *insertRun) names(schema []string) (own result.Run, shown string) {
	o, t := r.w.Options(), r.trial
	own = result.Run{
		Name:      fmt.Sprintf("%s %s on %s", o.Preset, t.layout(), r.db.Info().Engine),
		Load:      result.Load{Method: string(o.Method), Indexes: r.w.Indexes(), Search: r.search},
		Retention: result.Retention{KeepPeriods: o.KeepPeriods, KeepRows: o.KeepRows}, Readers: o.Readers, ReadAfter: o.ReadAfter,
		Deviations: r.w.Deviations(), Database: result.Database{Schema: schema},
	}
	own.HeldRows[0], own.HeldRows[1] = r.w.HeldRows()
	if own.Period, own.PeriodWhy = r.w.Period(); own.Period != "" {
		own.PeriodRows = o.PeriodRows
	}
	if t.Scenario != nil {
		own.Name = t.Scenario.Run + ": " + own.Name
	}
	shown = own.Name
	switch {
	case t.Cell != nil:
		own.Name = t.Cell.Name()
		shown = fmt.Sprintf("%s (%d of %d)", own.Name, t.Cell.Order, t.Cell.Runs)
	case t.Repeats > 0:
		own.Name = t.named(own.Name)
		shown = fmt.Sprintf("%s of %d", own.Name, t.Repeats)
		if t.Side != "" {
			shown = t.Side + ": " + shown
		}
	}
	if t.Spec.Workload == Steady {
		zone, offset := time.Now().Zone()
		own.Steady = &result.SteadyGoal{P99LimitUS: t.Spec.P99.D().Microseconds(), Host: host(), Zone: zone, UTCOffsetSeconds: offset}
		own.Name = strings.TrimSpace(fmt.Sprintf("steady %g rows/s on %s %s", t.Spec.Rate, r.db.Info().Engine, own.Steady.Host))
		shown = own.Name
	}
	if r.search != nil && r.search.Trial > 0 {
		trial := fmt.Sprintf(", trial %d", r.search.Trial)
		own.Name += trial
		shown += trial + r.searching
	}
	return own, shown
}

// noteHeld records how many rows the tables hold. Once they hold KeepRows rows, it starts to
// determine their size.
func (r *insertRun) noteHeld(ctx context.Context, iv *result.Interval) {
	iv.HeldRows = r.w.RowsNow()
	if r.measuring || iv.HeldRows < r.trial.Spec.KeepRows {
		return
	}
	r.measuring = true
	held := iv.HeldRows
	go func() {
		size, err := tableSize(ctx, r.w, held)
		if err != nil {
			size = nil // the report omits what depends on it
		}
		r.reached <- size
	}()
}

// afterwards bounds the reading of figures from the server after an interrupt.
const afterwards = 20 * time.Second

// tableSize measures the size of a workload's tables, also after an interrupt. The tables hold the
// given number of rows.
func tableSize(ctx context.Context, w *workload.Insert, held int64) (*result.Size, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	size, err := w.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	out := &result.Size{Data: size.Data, Index: size.Index}
	if held > 0 {
		out.PerRow = float64(size.Data+size.Index) / float64(held)
	}
	return out, nil
}

// noteSize adds the size of the tables to a record's end, or a warning.
func noteSize(ctx context.Context, w *workload.Insert, held int64, end *result.End) {
	var err error
	if end.Size, err = tableSize(ctx, w, held); err != nil {
		end.Warnings = append(end.Warnings, fmt.Sprintf("the table's size is unknown: %v", err))
	}
}

func (r *insertRun) prove(ctx context.Context, end *result.End) error {
	defer func() { end.Warnings = append(end.Warnings, r.w.Warnings()...) }()
	if r.measuring {
		end.SizeReached = <-r.reached
	}
	end.SkippedRows, end.DroppedRows, end.DeletedRows = r.w.SkippedRows(), r.w.DroppedRows(), r.w.DeletedRows()
	failed := r.verifyUnless(ctx, r.w, r.before+r.rows(), end)
	if end.Stopped == bench.StoppedFailed || failed != nil {
		return failed
	}
	held := r.before + r.rows() - end.SkippedRows - r.w.DroppedRows()
	if r.trial.Spec.KeepRows > 0 {
		held = r.w.RowsNow()
	}
	noteSize(ctx, r.w, held, end)
	return nil
}

// verifyUnless compares the tables with the rows that the seed generates, unless the Spec or the
// end of the run rules out a comparison. expected is the approximate number of rows in the tables.
func (m *measurement) verifyUnless(ctx context.Context, w *workload.Insert, expected int64, end *result.End) error {
	skip := ""
	switch {
	case m.trial.Spec.NoVerify:
		skip = "--no-verify was given"
	case !m.db.Capabilities().Stores:
		skip = "the " + m.db.Info().Engine + " engine stores nothing"
	case end.Stopped == bench.StoppedFailed:
		skip = "the run failed"
	case end.Stopped == bench.StoppedInterrupted:
		skip = "the run was interrupted"
	}
	if skip != "" {
		end.Warnings = append(end.Warnings, "not verified: "+skip)
		return nil
	}
	return m.verify(ctx, w, expected, end)
}

func (m *measurement) verify(ctx context.Context, w *workload.Insert, expected int64, end *result.End) error {
	if m.trial.Spec.Cells == nil { // a matrix would say it for each cell
		m.env.Show.Note("verifying the table")
	}
	proof, err := w.Verify(ctx, m.env.noteRows(func(n int64) string {
		return fmt.Sprintf("verifying the table: %s of %s", figure.Count(n), rows(expected))
	}))
	end.Warnings = append(end.Warnings, proof.Warnings...)
	if err != nil {
		if ctx.Err() != nil {
			end.Warnings = append(end.Warnings, "not verified: interrupted meanwhile")
			return nil
		}
		if errors.Is(err, workload.ErrUnverifiable) {
			end.Warnings = append(end.Warnings, "not verified: "+err.Error())
			return nil
		}
		return errors.Join(m.db.Death(err), err)
	}
	end.Verified = &result.Verified{Expected: proof.Expected, Found: proof.Found, Lost: proof.Lost, Checksum: proof.Checksum}
	end.DroppedRows, end.LostRows, end.DeletedRows = proof.DroppedRows, proof.Lost, proof.DeletedRows
	for _, p := range proof.Periods {
		end.Periods = append(end.Periods, result.Period{
			Name: p.Name, From: p.From, To: p.To, Expected: p.Expected, Found: p.Found, Lost: p.Lost, Checksum: &p.Checksum})
	}
	if !proof.Checksum {
		return engine.Hinted(fmt.Errorf("verification failed: of %d rows expected %d were found, and they are not all the rows that were sent",
			proof.Expected, proof.Found), "the record's periods, to see where")
	}
	return nil
}

// noteEvery is the interval at which reading or filling a table reports its progress.
const noteEvery = 5 * time.Second

// noteRows returns a function that reports progress in rows, from time to time.
func (e *Env) noteRows(text func(n int64) string) func(n int64) {
	said := time.Now()
	return func(n int64) {
		if time.Since(said) > noteEvery {
			said = time.Now()
			e.Show.Note(text(n))
		}
	}
}

// while runs a function that reports no progress. From time to time it reports what is being done,
// and for how long: "dropping database rowmill_tables: 15 s so far".
func (e *Env) while(what string, run func() error) error {
	began, ended := time.Now(), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for tick := time.Tick(noteEvery); ; {
			select {
			case <-tick:
				e.Show.Note(fmt.Sprintf("%s: %.0f s so far", what, time.Since(began).Seconds()))
			case <-ended:
				return
			}
		}
	})
	defer all.Wait()
	defer close(ended)
	return run()
}

// settle lets the server complete the work that writes have deferred. The warnings name the work
// that the server could not complete.
func (e *Env) settle(ctx context.Context, db *target.DB, tables []*engine.Table) (warnings []string, err error) {
	err = e.while("waiting for the server to write its dirty pages and to remove old rows", func() error {
		warnings, err = db.Settle(ctx, engine.Settle{Tables: tables, Private: target.Private(db.Text)})
		return err
	})
	return warnings, err
}

// takeOver continues with the tables of a recorded run. most is the maximum number of rows of the
// load, 0 if unlimited. While takeOver reads the table, the progress shows how many rows are read.
// The parameter of is the text after this number, such as " of about 5,000 rows".
func (r *insertRun) takeOver(ctx context.Context, was *result.Record, most int64, of string) (got workload.Resumed, err error) {
	o := r.trial.Spec.insertOptions(r.trial.layout())
	o.PeriodRows = was.Run.PeriodRows
	if err := r.describe(ctx, o.Own); err != nil {
		return got, err
	}
	if r.w, err = workload.NewInsert(r.db, o); err != nil {
		return got, err
	}
	r.env.Show.Note("reading the table, to continue from there")
	return r.w.Resume(ctx, most, r.env.noteRows(func(n int64) string { return "reading the table: " + rows(n) + of }))
}

// resume takes over the tables, records in the measurement where the run continues, and
// returns the statements that created the tables.
func (r *insertRun) resume(ctx context.Context) (schema []string, err error) {
	was := r.trial.resumes[0]
	got, err := r.takeOver(ctx, was, r.trial.Spec.Rows, "")
	if err != nil {
		return nil, err
	}
	done, seconds := was.Done()
	tail := was.Unrecorded(got.Rows - done)
	r.earlier, r.from = was, result.Resumes{
		Rows: got.Rows, Seconds: seconds + tail, Stopped: was.Stopped(),
		PausedSeconds: max(0, time.Since(was.Last()).Seconds()-tail), Refilled: got.Refilled,
		Missing: max(0, done-(got.Found+got.Dropped)),
	}
	text := "continuing at " + rows(got.Rows)
	if got.Refilled > 0 {
		text += fmt.Sprintf(", after %d missing ones were inserted", got.Refilled)
	}
	r.env.Show.Note(text)
	return was.Run.Schema, nil
}
