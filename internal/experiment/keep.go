package experiment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/upkeep"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// A KeepSpec has the options of inserts into a declared table while it is maintained.
type KeepSpec struct {
	// File is the path of the table's declaration, for messages and relative paths;
	// Declaration is its text.
	File        string `json:"file" toml:"file"`
	Declaration string `json:"declaration" toml:"declaration"`
	// Keys is the size of the key space; 0 is a million.
	Keys int64 `json:"keys,omitempty" toml:"keys,omitempty"`
	// Inserts that take Stall or longer are listed.
	Stall Duration `json:"stall" toml:"stall"`
	// WithRun keeps the table in this process. The table's clock runs Speed times as fast as real
	// time. A keeper in another process reads the clock from the file Clock.
	WithRun bool    `json:"with-run,omitempty" toml:"with-run,omitempty"`
	Speed   float64 `json:"speed" toml:"speed"`
	Clock   string  `json:"clock,omitempty" toml:"clock,omitempty"`
	// Baseline makes the same inserts first, without maintenance.
	Baseline bool `json:"baseline,omitempty" toml:"baseline,omitempty"`
}

type keepRun struct {
	measurement
	spec  *Spec
	table *maintain.Table
	w     *workload.Keep
	done  upkeep.Log
	disk  *upkeep.Syncs // nil if the disk is not timed
	// before is the number of rows at the start, after at the end; nil if not counted.
	before upkeep.RowCount
	after  *upkeep.RowCount
	// baseline is the earlier run without maintenance; nil if there was none.
	baseline *keepRun
}

func (e *Env) keep(ctx context.Context, s *Spec) ([]result.Record, error) {
	if e.OpenTable == nil {
		return nil, errors.New("keep a table: the environment opens none")
	}
	table, db, err := e.OpenTable(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &keepRun{measurement: measurement{env: e, trial: &Trial{Spec: s, Whole: s}, db: db}, spec: s, table: table}
	if err = r.prepare(ctx); err == nil {
		err = r.run(ctx)
	}
	recs, err := recorded(r.rec, errors.Join(err, db.Close()))
	if r.baseline != nil && r.baseline.rec != nil {
		recs = append([]result.Record{*r.baseline.rec}, recs...)
	}
	return recs, err
}

// prepare requires that the table has been applied as declared; on a private server it applies the
// declaration.
func (r *keepRun) prepare(ctx context.Context) error {
	if r.table.Table.Grid.Valid() && r.table.Schema == nil && target.Private(r.db.Text) {
		plan, err := apply.PlanTable(ctx, r.table)
		if err != nil {
			return err
		}
		return plan.Run(ctx, func(apply.Step) {})
	}
	err := r.table.CheckApplied(ctx)
	if err != nil && engine.HintOf(err) == "" { // a hint names the missing privilege
		err = engine.Hinted(err, "rowmill apply %s", r.spec.Keep.File)
	}
	if err != nil {
		return err
	}
	return r.checkSpeed(ctx)
}

// checkSpeed refuses a clock that runs faster than real time if the table or one of its roll-ups
// has rows: by that clock the rows would soon exceed the retention and be dropped.
func (r *keepRun) checkSpeed(ctx context.Context) error {
	if r.spec.Keep.Speed == 1 || target.Private(r.db.Text) {
		return nil
	}
	count, err := upkeep.CountRows(ctx, r.table)
	if err != nil {
		return err
	}
	n := count.All()
	if r.table.Rollups != nil {
		levels, err := r.table.Rollups.Status(ctx)
		if err != nil {
			return err
		}
		for _, l := range levels {
			n += l.Rows
		}
	}
	if n > 0 {
		return engine.Hinted(fmt.Errorf("--speed %v: table %s on %s has or had rows. By a clock that runs ahead they exceed keep, and retention drops them",
			r.spec.Keep.Speed, r.table.Declared.Name, r.db.Info().Target),
			"--speed 1, --target %s, or a declaration of another table, without rows", target.ExampleServer)
	}
	return nil
}

func (r *keepRun) run(ctx context.Context) (err error) {
	k, s, t := r.spec.Keep, r.spec, r.table
	clock, err := r.clock(ctx)
	if err != nil {
		return err
	}
	r.w, err = workload.NewKeep(t.DB, t.Table, t.Schema, workload.KeepOptions{Seed: uint64(s.Seed), Keys: k.Keys, Rate: s.Rate,
		Method: engine.Method(s.Method), Stall: k.Stall.D(), Now: clock.Now})
	if err != nil {
		return err
	}
	if t.Table.Grid.Axis() == rolling.Sequence {
		highest, err := t.Now(ctx)
		if err != nil {
			return err
		}
		r.w.StartAt(highest + 1)
	} else {
		t.Now = maintain.Clock(clock.Now)
	}
	for range 20 {
		if r.before, err = upkeep.CountRows(ctx, t); err != nil {
			return err
		}
		if !r.before.Moving { // otherwise another keeper is dropping a period
			break
		}
		if err := engine.Sleep(ctx, watchEvery); err != nil {
			return err
		}
	}
	if k.Clock != "" {
		if err := clock.Write(k.Clock); err != nil {
			return err
		}
		defer clock.WriteOn(ctx, k.Clock)()
	}
	r.w.Beside = r.watchKeeper
	if k.WithRun {
		r.w.Beside = r.keepHere
		// If the last maintenance was long ago, much is due: do it before the first insert.
		clock.Stop()
		if err := schedule.Once(ctx, t); err != nil {
			return fmt.Errorf("keep %s before the first insert: %w", t.Declared.Name, err)
		}
		clock.Resume()
	}
	if k.Baseline {
		if err := r.unkept(ctx, clock); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return r.insert(ctx, clock, fmt.Sprintf("keep %s on %s", t.Declared.Name, r.db.Info().Engine))
}

// unkept makes the inserts without maintenance. The clock runs at normal speed, because a faster
// clock would soon need further periods, and nothing creates them.
func (r *keepRun) unkept(ctx context.Context, clock *upkeep.Clock) error {
	with, without := *r.trial, *r.trial
	with.Side, without.Side = "maintained", result.Unmaintained
	r.trial = &with
	b := &keepRun{measurement: measurement{env: r.env, trial: &without, db: r.db}, spec: r.spec, table: r.table, w: r.w, before: r.before}
	r.baseline = b
	beside, speed := r.w.Beside, clock.Pace(1)
	r.w.Beside = nil
	err := b.insert(ctx, clock, fmt.Sprintf("%s on %s, unmaintained", r.table.Declared.Name, r.db.Info().Engine))
	r.w.Beside = beside
	r.w.Again()
	clock.Resume()
	clock.Pace(speed)
	if b.after != nil {
		r.before = *b.after
	}
	return err
}

// insert measures the inserts.
func (r *keepRun) insert(ctx context.Context, clock *upkeep.Clock, name string) error {
	s, t := r.spec, r.table
	own := result.Run{
		Name: name, Load: result.Load{Method: string(r.w.Method()), Indexes: len(t.Schema.Indexes)},
		Retention: result.Retention{Period: t.Table.Grid.String(), PeriodWhy: "declared"}, Database: result.Database{Schema: []string{t.Declared.Definition.Text}},
	}
	cfg := bench.Config{Operation: "insert", Clients: s.Writers, Batch: s.Batch, MaxTime: s.MaxTime.D(), Rate: s.Rate, Interval: s.Interval.D()}
	if err := r.begin(ctx, []*engine.Table{r.w.Table()}, cfg, own, own.Name); err != nil {
		return err
	}
	ends := r.timeSyncs(ctx)
	defer ends()
	return r.measure(ctx, r.w, func(ctx context.Context, end *result.End) error {
		ends() // the disk's work for counting rows is not part of the inserts
		if s.Keep.WithRun {
			clock.Stop() // else further periods become due while the last ones are dropped
		}
		err := r.prove(ctx, end)
		end.Keep = r.figures()
		return err
	})
}

// timeSyncs times the disk of a private server until ends is called.
func (r *keepRun) timeSyncs(ctx context.Context) (ends func()) {
	server := r.db.Server()
	if server == nil {
		return func() {}
	}
	r.disk = &upkeep.Syncs{}
	return upkeep.Background(ctx, func(ctx context.Context) { r.disk.Watch(ctx, server.Dir) })
}

// pollFor is how often, by the run's clock, the scheduler looks for work that wasn't foreseen.
const pollFor = 10 * time.Second

type eventFunc = func(what, object string, began time.Time)

func (r *keepRun) keepHere(ctx context.Context, event eventFunc) error {
	r.table.Say = func(e maintain.Event) { r.saw(e, event) }
	poll := max(time.Duration(float64(pollFor)/r.spec.Keep.Speed), 200*time.Millisecond)
	s := &schedule.Scheduler{Poll: poll}
	s.Add(r.table)
	s.Run(ctx)
	return nil
}

func (r *keepRun) saw(e maintain.Event, event eventFunc) {
	if r.done.Add(e) {
		event(e.Action, e.Detail, e.At.Add(-e.Took))
	}
}

// watchEvery is how often the log of a keeper in another process is read. Its actions
// are drawn with at most this delay.
const watchEvery = 500 * time.Millisecond

// watchKeeper follows the actions that a keeper in another process records in the database.
func (r *keepRun) watchKeeper(ctx context.Context, event eventFunc) error {
	since := time.Now()
	for engine.Sleep(ctx, watchEvery) == nil {
		if err := r.follow(ctx, &since, event); err != nil && ctx.Err() == nil && !engine.Retryable(err) {
			return err
		}
	}
	// An action that has just ended is recorded a moment later.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return r.follow(last, &since, event)
}

// lateRecord is how long after an action's end its record may be written. That may be after the
// record of a later action in another lane, so follow reads the last records again.
const lateRecord = 10 * time.Second

// follow reads the actions after since, and advances since.
func (r *keepRun) follow(ctx context.Context, since *time.Time, event eventFunc) error {
	actions, err := r.table.State.ActionsSince(ctx, r.table.Declared.Name, *since)
	if err != nil {
		return err
	}
	for _, x := range slices.Backward(actions) {
		e := maintain.Event{Action: x.Action, Detail: x.Detail, At: x.At, Took: x.Took}
		if x.Error != "" {
			e.Err = errors.New(x.Error)
		}
		r.saw(e, event)
		if late := x.At.Add(-lateRecord); late.After(*since) {
			*since = late
		}
	}
	return nil
}

func (r *keepRun) prove(ctx context.Context, end *result.End) error {
	end.Warnings = append(end.Warnings, r.w.Notes().Warnings...)
	if end.Stopped == bench.StoppedFailed {
		return nil
	}
	unverified := func(format string, args ...any) error {
		end.Warnings = append(end.Warnings, "not verified: "+fmt.Sprintf(format, args...))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if r.before.Moving {
		return unverified("a period was being dropped each time that the rows were counted before the first insert: their number is unknown")
	}
	for {
		now, err := upkeep.CountRows(ctx, r.table)
		if err != nil {
			return unverified("%v", err)
		}
		r.after = &now
		found := &result.Verified{Expected: r.rows(), Found: now.All() - r.before.All(), Counted: true}
		switch {
		case found.Found == found.Expected:
			end.Verified = found
			return nil
		case end.Stopped == bench.StoppedInterrupted:
			// Inserts that were cut off may have committed.
			return unverified("the run was interrupted, with %s acknowledged and %s found", rows(found.Expected), figure.Count(found.Found))
		}
		if now.Moving && ctx.Err() == nil {
			if r.spec.Keep.WithRun {
				if err = schedule.Once(ctx, r.table); err != nil {
					err = fmt.Errorf("keep %s after the last insert: %w", r.table.Declared.Name, err)
				}
			} else {
				err = engine.Sleep(ctx, watchEvery)
			}
			if err == nil {
				continue
			}
		}
		end.Verified = found
		failed := fmt.Errorf("verification failed: %s acknowledged, and the tables have %s more than before", figure.Plural(found.Expected, "row was", "rows were"), figure.Count(found.Found))
		return errors.Join(failed, err)
	}
}

func (r *keepRun) figures() *result.Keep {
	f := r.done.Figures(r.w.Notes(), r.spec.Keep.Stall.D(), r.disk)
	if r.after != nil {
		found := r.after.All() - r.before.All()
		f.Found, f.Dropped = &found, r.after.Dropped-r.before.Dropped
	}
	return f
}

// clock returns the clock of the run, which begins at the present. It refuses a table with rows in
// the future: the run would insert rows for the same times.
func (r *keepRun) clock(ctx context.Context) (*upkeep.Clock, error) {
	now := time.Now()
	c := upkeep.NewClock(now, r.spec.Keep.Speed)
	t, db := r.table.Table, r.table.DB
	if t.Grid.Axis() != rolling.Time {
		return c, nil
	}
	quote := db.Dialect().Quote
	var highest sql.NullInt64
	err := db.SQL().QueryRowContext(ctx, "SELECT "+db.Words().Position(t, "MAX("+quote(t.By)+")")+" FROM "+quote(t.Name)).Scan(&highest)
	if err != nil {
		return nil, fmt.Errorf("highest %s of %s: %w", t.By, t.Name, db.Classify(err))
	}
	if highest.Valid && rolling.Instant(highest.Int64).After(now) {
		return nil, engine.Hinted(fmt.Errorf("%s holds rows up to %s, which is in the future", t.Name, t.Grid.Format(highest.Int64)), "a declaration of another table without rows")
	}
	return c, nil
}
