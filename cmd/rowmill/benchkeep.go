package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// keepFlags are the flags of `rowmill bench keep`.
type keepFlags struct {
	target, clock, method, out string
	rate, speed                float64
	time, stall, interval      time.Duration
	writers, batch             int
	keys                       int64
	seed                       uint64
	withRun                    bool
	reports                    reportFlags
}

func (a *app) benchKeepCommand() *cobra.Command {
	var f keepFlags
	c := &cobra.Command{
		Use:   "keep FILE.toml",
		Short: "Measure what keeping a declared table costs its inserts",
		Long: "Insert into a declared table at a fixed rate while it is being kept, and list\n" +
			"every insert that took longer than --stall beside what maintenance did at that\n" +
			"moment: create, rollup, seal, rebuild, merge, archive, drop. Latency also counts\n" +
			"from when an insert was due, so that those behind a stall are seen.\n\n" +
			"Rows have the present as their time and keys all over a key space; other columns\n" +
			"are filled by their type. They stay in the table, as inserts of an application do.\n" +
			"An error of an insert fails the run, also where a second try worked.\n\n" +
			"rowmill run keeps the table, elsewhere or with --with-run in this process. With\n" +
			"--speed 60 the clock runs 60 times as fast, so that hours of periods pass in\n" +
			"minutes: in this process with --with-run, else by way of the file of --clock,\n" +
			"which this command writes and rowmill run --clock reads. By such a clock rows of\n" +
			"the present soon look old enough to drop, and periods end up ahead of the real\n" +
			"present: it is refused but on a private server, or on a table without any rows,\n" +
			"which is for this bench alone from then on.\n\n" +
			"The table must have been applied. On a private server, or a temporary file, it is\n" +
			"applied here. Beside a private server a file of 4 KiB is synced 20 times a second:\n" +
			"where that takes as long as a stall, it was the disk's.",
		Example: "  rowmill bench keep readings.toml --rate 5000/s --time 2m\n" +
			"  rowmill bench keep readings.toml --target 'sandbox:mariadb?memory=64MB' \\\n" +
			"      --rate 5000/s --time 5m --with-run --speed 120",
		Args: wantArgs(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.benchKeep(c.Context(), args[0], f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.rate = 1000
	flags.StringVar(&f.target, "target", "", "database to use instead of the declaration's `URL`")
	flags.Var(rateValue{v: &f.rate}, "rate", "rows per second to insert")
	flags.DurationVar(&f.time, "time", time.Minute, "insert for this `time`")
	intVar(flags, &f.writers, "writers", 2, "clients that insert, each on a connection of its own; `N`")
	intVar(flags, &f.batch, "batch", 10, "rows in one transaction, `N`")
	flags.StringVar(&f.method, "method", "", "how to insert: `single`, multi, prepared, pipeline (PostgreSQL) or load (default multi; on SQLite prepared)")
	flags.Var(countValue{n: &f.keys}, "keys", "size of the key space (default 1M)")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows derive from")
	flags.BoolVar(&f.withRun, "with-run", false, "keep the table in this process (default false: rowmill run does, elsewhere)")
	flags.Float64Var(&f.speed, "speed", 1, "let the clock run so many times as fast, `N`")
	flags.StringVar(&f.clock, "clock", "", "write the clock to this `FILE`, for rowmill run --clock (default none)")
	flags.DurationVar(&f.stall, "stall", 100*time.Millisecond, "list inserts that take longer than this `time`")
	flags.DurationVar(&f.interval, "interval", defaultInterval, "`time` between two readings of all figures")
	flags.StringVar(&f.out, "out", "", "write the run record to this `file`, replacing it (default none)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts to this `file` (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture of the rate to this `file` (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the figures as JSON instead of text (default false)")
	return c
}

func (f *keepFlags) check() error {
	const help = "rowmill bench keep --help"
	switch {
	case f.rate <= 0:
		return usagef("--rate 1000/s", "--rate: want more than nothing")
	case f.time <= 0:
		return usagef("--time 1m", "--time %v: want more than nothing", f.time)
	case f.writers < 1, f.writers > maxWriters:
		return usagef(help, "--writers %d: want 1 to %d", f.writers, maxWriters)
	case f.batch < 1:
		return usagef(help, "--batch %d: want at least 1", f.batch)
	case !(f.speed >= 1 && f.speed <= 1e6):
		return usagef("--speed 60", "--speed %v: want 1 to 1000000", f.speed)
	case f.stall < time.Millisecond:
		return usagef("--stall 100ms", "--stall %v: want at least 1ms", f.stall)
	case f.interval < 10*time.Millisecond:
		return usagef("--interval 1s", "--interval %v: want at least 10ms", f.interval)
	case f.speed > 1 && !f.withRun && f.clock == "":
		return usagef("--with-run, or --clock FILE here and for rowmill run", "--speed %v: whoever keeps the table must have the same clock", f.speed)
	case f.withRun && f.clock != "":
		return usagef("one of them", "--with-run has the clock already: --clock is for a rowmill run elsewhere")
	case !f.withRun && target.Private(f.target):
		return usagef("--with-run", "--target %s is private: nobody else can keep its tables", f.target)
	}
	b := benchFlags{out: f.out, reports: f.reports}
	return b.checkFiles("rowmill bench keep")
}

// checkClock refuses a clock that runs ahead if the table or one of its roll-ups has
// rows: by that clock they would exceed the retention and be dropped.
func (f *keepFlags) checkClock(ctx context.Context, k *kept) error {
	if f.speed == 1 || target.Private(k.target.Text) {
		return nil
	}
	name := k.Declared.Name
	rows, err := countRows(ctx, k)
	if err != nil {
		return err
	}
	n := rows.all()
	if k.Rollups != nil {
		levels, err := k.Rollups.Status(ctx, 0)
		if err != nil {
			return err
		}
		for _, l := range levels {
			n += l.Rows
		}
	}
	if n > 0 {
		return engine.Hinted(fmt.Errorf("--speed %v: table %s on %s has or had rows. By a clock that runs ahead they pass keep, and retention drops them", f.speed, name, k.DB.Info().Target),
			"--speed 1, --target 'sandbox:mariadb?memory=64MB' (or mysql, postgres), or a declaration of another table, without rows")
	}
	return nil
}

// benchKeep measures, and reports all measurements made, even if it fails.
func (a *app) benchKeep(ctx context.Context, file string, f keepFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	out, err := openRecord(f.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	k, err := a.openKept(ctx, file, keptFlags{target: f.target})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if k.Table.Table.Grid.Valid() && k.Schema == nil && target.Private(k.target.Text) {
		err = a.applyPrivate(ctx, k)
	} else {
		err = k.wantApplied(ctx, file)
	}
	if err == nil {
		err = f.checkClock(ctx, k)
	}
	if err != nil {
		return err
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	r := &keepRun{f: f, args: a.args, kept: k, measurement: measurement{db: k.target, out: out, show: a.newProgress(interrupt), interval: f.interval}}
	err = r.run(ctx)
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	r.show.Close()
	if r.rec == nil || r.rec.End == nil {
		return err
	}
	return errors.Join(err, r.report(a))
}

// applyPrivate applies the declaration on a private server.
func (a *app) applyPrivate(ctx context.Context, k *kept) error {
	plan, err := k.PlanApply(ctx)
	if err != nil {
		return err
	}
	return plan.Run(ctx, func(maintain.ApplyStep) {})
}

// A keepRun measures one table.
type keepRun struct {
	measurement
	f    keepFlags
	args []string
	kept *kept
	w    *workload.Keep
	done maintenanceLog
	disk *diskLog // nil if the disk is not timed
	// before is the number of rows at the start, in the table and in dropped periods.
	before rowCount
	after  *rowCount // nil if not counted
}

func (r *keepRun) run(ctx context.Context) (err error) {
	k := r.kept
	clock, err := r.clock(ctx)
	if err != nil {
		return err
	}
	r.w, err = workload.NewKeep(k.DB, k.Table.Table, k.Schema, workload.KeepOptions{Seed: r.f.seed, Keys: r.f.keys, Rate: r.f.rate,
		Method: engine.Method(r.f.method), Stall: r.f.stall, Now: clock.now})
	if err != nil {
		return err
	}
	if k.Table.Table.Grid.Axis() == rolling.Sequence {
		highest, err := k.Now(ctx)
		if err != nil {
			return err
		}
		r.w.StartAt(highest + 1)
	} else {
		k.Now = maintain.Clock(clock.now)
	}
	// Another keeper may be dropping a period at this moment.
	for tries := 0; tries == 0 || r.before.moving && tries < 20; tries++ {
		if tries > 0 {
			if err := engine.Sleep(ctx, watchEvery); err != nil {
				return err
			}
		}
		if r.before, err = countRows(ctx, k); err != nil {
			return err
		}
	}
	if r.f.clock != "" {
		if err := clock.write(r.f.clock); err != nil {
			return err
		}
		stop := clock.writeOn(r.f.clock)
		defer stop()
	}
	r.w.Beside = r.watchKeeper
	if r.f.withRun {
		r.w.Beside = r.keepHere
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	info := k.DB.Info()
	if err := r.begin(ctx, []*engine.Table{r.w.Table()}, result.Run{
		Name: fmt.Sprintf("keep %s on %s", k.Declared.Name, info.Engine), Command: r.args, Workload: "keep", Layout: workload.Rolling, Seed: r.f.seed,
		MaxTimeSeconds: r.f.time.Seconds(), Writers: r.f.writers, Batch: r.f.batch, Method: string(r.w.Method()), Indexes: len(k.Schema.Indexes),
		Rate: r.f.rate, Period: k.Table.Table.Grid.String(), PeriodWhy: "declared", Schema: []string{k.Declared.Definition.Text},
	}, fmt.Sprintf("keep %s on %s", k.Declared.Name, info.Engine)); err != nil {
		return err
	}
	ends := r.timeSyncs(ctx)
	defer ends()
	return r.measure(ctx, r.w, bench.Config{Operation: "insert", Clients: r.f.writers, Batch: r.f.batch, MaxTime: r.f.time, Rate: r.f.rate},
		func(ctx context.Context, end *result.End) error {
			ends() // the disk's work for counting rows is not part of the inserts
			return r.prove(ctx, end)
		})
}

// timeSyncs times the disk of a private server until ends is called.
func (r *keepRun) timeSyncs(ctx context.Context) (ends func()) {
	server := r.kept.target.Server()
	if server == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var timing sync.WaitGroup
	r.disk = &diskLog{}
	timing.Go(func() { r.disk.err = probe.Syncs(ctx, server.Dir, r.disk.add) })
	return sync.OnceFunc(func() {
		cancel()
		timing.Wait()
	})
}

// settle executes the due maintenance before the first row is inserted: the table may
// not have been maintained for a long time.
func (r *keepRun) settle(ctx context.Context) error {
	if err := (&maintain.Daemon{Table: r.kept.Table}).Once(ctx); err != nil {
		return fmt.Errorf("keep %s before the first insert: %w", r.kept.Declared.Name, err)
	}
	return nil
}

// pollFor is the interval at which a keeper checks for unplanned work, on its clock.
const pollFor = 10 * time.Second

// keepHere runs the table's maintenance in this process.
func (r *keepRun) keepHere(ctx context.Context, event func(what, object string, began time.Time)) error {
	r.kept.Say = func(e maintain.Event) {
		if r.done.add(e.Action, e.Detail, e.At, e.Took, e.Err) {
			event(e.Action, e.Detail, e.At.Add(-e.Took))
		}
	}
	poll := max(time.Duration(float64(pollFor)/r.f.speed), 200*time.Millisecond)
	(&maintain.Daemon{Table: r.kept.Table, Poll: poll}).Run(ctx)
	return nil
}

// watchEvery is how often the log of a keeper in another process is read. Its actions
// are drawn with at most this delay.
const watchEvery = 500 * time.Millisecond

// watchKeeper follows the actions that a keeper in another process records in the
// database.
func (r *keepRun) watchKeeper(ctx context.Context, event func(what, object string, began time.Time)) error {
	since := time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// An action that has just ended is recorded a moment later.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			return r.follow(last, since, event)
		case <-tick.C:
			if err := r.follow(ctx, since, event); err != nil && ctx.Err() == nil && !engine.Retryable(err) {
				return err
			}
		}
	}
}

func (r *keepRun) follow(ctx context.Context, since time.Time, event func(what, object string, began time.Time)) error {
	actions, err := r.kept.State.Actions(ctx, r.kept.Declared.Name, 100)
	if err != nil {
		return err
	}
	for i := len(actions) - 1; i >= 0; i-- {
		x := actions[i]
		var failed error
		if x.Error != "" {
			failed = errors.New(x.Error)
		}
		if x.At.After(since) && r.done.add(x.Action, x.Detail, x.At, x.Took, failed) {
			event(x.Action, x.Detail, x.At.Add(-x.Took))
		}
	}
	return nil
}

// prove counts the rows, including those in dropped periods.
func (r *keepRun) prove(ctx context.Context, end *result.End) error {
	end.Warnings = append(end.Warnings, r.w.Warnings()...)
	if end.Stopped == bench.StoppedFailed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if r.before.moving {
		end.Warnings = append(end.Warnings, "not verified: a period was being dropped whenever the rows were counted before the first insert, so that how many there were isn't known")
		return nil
	}
	want := r.before.all() + r.rows()
	for {
		now, err := countRows(ctx, r.kept)
		if err != nil {
			end.Warnings = append(end.Warnings, fmt.Sprintf("not verified: %v", err))
			return nil
		}
		r.after = &now
		found := &result.Verified{Expected: r.rows(), Found: now.all() - r.before.all(), Counted: true}
		switch {
		case now.all() == want:
			end.Verified = found
			return nil
		case end.Stopped == bench.StoppedInterrupted:
			// Inserts that were cut off may have committed.
			end.Warnings = append(end.Warnings, fmt.Sprintf("not verified: the run was interrupted, with %s acknowledged and %s found", plural(found.Expected, "row"), figure.Count(found.Found)))
			return nil
		}
		if now.moving && ctx.Err() == nil {
			if r.f.withRun {
				err = (&maintain.Daemon{Table: r.kept.Table}).Once(ctx)
			} else {
				err = engine.Sleep(ctx, watchEvery)
			}
			if err == nil {
				continue
			}
		}
		end.Verified = found
		return fmt.Errorf("verification failed: %s acknowledged, and the tables have %s more than before", figure.Plural(r.rows(), "row was", "rows were"), figure.Count(now.all()-r.before.all()))
	}
}

// A fastClock runs at a multiple of real time.
type fastClock struct {
	real  time.Time // the start, in real time and on this clock
	speed float64
}

// clock returns the clock of the run, which begins at the present. A table with rows
// in the future is refused: the run would create rows for the same times again.
func (r *keepRun) clock(ctx context.Context) (*fastClock, error) {
	c := &fastClock{time.Now(), r.f.speed}
	t := r.kept.Table.Table
	if t.Grid.Axis() != rolling.Time {
		return c, nil
	}
	highest, any, err := highestPosition(ctx, r.kept)
	if err != nil {
		return nil, err
	}
	if any && rolling.Instant(highest).After(c.real) {
		return nil, engine.Hinted(fmt.Errorf("%s holds rows up to %s, which is in the future", t.Name, t.Grid.Format(highest)), "a declaration of another table without rows")
	}
	return c, nil
}

// highestPosition returns the position of the last row; any is false if there is none.
func highestPosition(ctx context.Context, k *kept) (pos int64, any bool, err error) {
	t, quote := k.Table.Table, k.DB.Dialect().Quote
	var highest sql.NullInt64
	err = k.DB.SQL().QueryRowContext(ctx, "SELECT "+k.DB.Words().Position(t, "MAX("+quote(t.By)+")")+" FROM "+quote(t.Name)).Scan(&highest)
	if err != nil {
		return 0, false, fmt.Errorf("highest %s of %s: %w", t.By, t.Name, k.DB.Classify(err))
	}
	return highest.Int64, highest.Valid, nil
}

func (c *fastClock) now() time.Time {
	return c.real.Add(time.Duration(float64(time.Since(c.real)) * c.speed))
}

// write writes the present to a file, atomically.
func (c *fastClock) write(file string) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(c.now().UTC().Format(time.RFC3339Nano)+"\n"), 0o644); err != nil {
		return fmt.Errorf("--clock: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("--clock: %w", err)
	}
	return nil
}

// writeOn writes the present repeatedly until stop is called.
func (c *fastClock) writeOn(file string) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				_ = c.write(file) // earlier writes succeeded, and the next one follows soon
			}
		}
	}()
	return func() { close(quit); <-gone }
}
