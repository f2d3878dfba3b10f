package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// steadyFlags are the flags of `rowmill bench steady`: those that it shares with
// `bench insert`, and its own.
type steadyFlags struct {
	benchFlags
	p99      time.Duration
	retryFor time.Duration
	noWork   bool
}

// Defaults: a commit every tenth of a second detects every stall of that length, and
// is a negligible load for a server. With intervals of 10 s, the record of a day has
// about 25 MB.
const (
	steadyFor      = 24 * time.Hour
	steadyRate     = 100
	steadyBatch    = 10
	steadyInterval = 10 * time.Second
	steadyKeep     = 3
	// steadyPeriod is the length of a period: three are kept, so that the table
	// reaches its final size within the first hour.
	steadyPeriod = 10 * time.Minute
	// steadyRetry is longer than the restart of a server that has to recover.
	steadyRetry = 10 * time.Minute
	// steadyWork is the interval at which the fixed computation is timed.
	steadyWork = time.Second
	// leastPerInterval is the least number of commits per interval. A commit at the
	// end of an interval may fall into the next one; with 20, that is no more than the
	// tolerance of 5%.
	leastPerInterval = 20
)

func (a *app) benchSteadyCommand() *cobra.Command {
	var f steadyFlags
	c := &cobra.Command{
		Use:   "steady",
		Short: "Hold a small constant load for a day and show when it wasn't held",
		Long: "Insert at a small constant rate for a day, or for --for, and record rate and\n" +
			"latency beside the time that the host steals, the pressure on processor, memory\n" +
			"and disk, the processor's frequency, throttling, and how long a fixed piece of\n" +
			"computing takes, once a second. The report says for which share of the time the\n" +
			"load was below target, when, and how much of that goes with what.\n\n" +
			"On the server it creates the preset's table as a rolling one, of which the\n" +
			"newest periods are kept, so that its size stays what it is, and leaves it there.\n" +
			"A table that exists already is refused, unless --drop-existing is given. Private\n" +
			"servers and temporary files are removed.\n\n" +
			"A connection that is lost is made again for as long as --retry-for; the time\n" +
			"counts as below target. Ctrl-C, or SIGTERM, ends the run and reports what was\n" +
			"measured. The record can be read at any moment with rowmill report; records of\n" +
			"two machines given to it together are laid over each other.",
		Example: "  rowmill bench steady --target mariadb://bench@db1/test --for 24h --rate 100 --p99 50ms\n" +
			"  rowmill bench steady --target sqlite:steady.db --for 10m --html steady.html\n" +
			"  rowmill report steady-db1.jsonl steady-db2.jsonl --html both.html",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("rowmill bench steady --help", "unexpected argument %q: everything is a flag", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			f.indexesGiven = c.Flags().Changed("indexes")
			return a.benchSteady(c.Context(), f)
		},
	}
	f.define(c.Flags())
	return c
}

func (f *steadyFlags) define(flags *pflag.FlagSet) {
	flags.SortFlags = false
	f.rate = steadyRate
	flags.StringVar(&f.target, "target", target.Default, target.Help+"\n`URL`")
	flags.DurationVar(&f.maxTime, "for", steadyFor, "hold the load for this `time`, such as 10m, 24h or 168h")
	flags.Var(rateValue{v: &f.rate}, "rate", "rows per second to hold")
	flags.DurationVar(&f.p99, "p99", 0, "an interval whose 99th percentile, from when inserts are due, is above this `time` is below target (default no limit)")
	flags.StringVar(&f.preset, "preset", "classic", "`name` of the table and its rows, see rowmill bench insert --help")
	intVar(flags, &f.batch, "batch", steadyBatch, "rows in one transaction, `N`")
	intVar(flags, &f.writers, "writers", 1, "clients that share the load, each on a connection of its own; `N`")
	flags.StringVar(&f.method, "method", "", "how to insert: `single`, multi, prepared, pipeline (PostgreSQL) or load (default multi; on SQLite prepared)")
	intVar(flags, &f.indexes, "indexes", 0, "secondary indexes, the preset's first `N` (default the preset's)")
	flags.Uint64Var(&f.seed, "seed", 1, "`number` that all rows derive from")
	flags.DurationVar(&f.interval, "interval", steadyInterval, "`time` between two readings of all figures")
	flags.Var(countValue{n: &f.periodRows, auto: true}, "period-rows", "rows of a period; auto is ten minutes' rows")
	intVar(flags, &f.keepPeriods, "keep-periods", steadyKeep, "keep the newest `N` periods, and drop those before")
	flags.DurationVar(&f.retryFor, "retry-for", steadyRetry, "try to connect to a server that went away for this `time`, then end")
	flags.BoolVar(&f.noWork, "no-work", false, "don't time the fixed piece of computing, half a percent of a core (default false)")
	flags.StringVar(&f.out, "out", "", "write the run record to this `file`, replacing it (default steady-HOST-TIME.jsonl)")
	flags.StringVar(&f.reports.html, "html", "", "write an HTML page with charts to this `file` at the end (default none)")
	flags.StringVar(&f.reports.png, "png", "", "write a picture to this `file` at the end (default none)")
	flags.StringVar(&f.reports.md, "md", "", "write Markdown tables to this `file` at the end (default none)")
	flags.BoolVar(&f.reports.json, "json", false, "print the summary as JSON instead of text (default false)")
	flags.BoolVar(&f.dropExisting, "drop-existing", false, "drop tables of these names that exist, with all their rows (default false)")
	flags.BoolVar(&f.noVerify, "no-verify", false, "don't read the table back at the end (default false)")
	flags.BoolVar(&f.printSQL, "print-sql", false, "print every statement that the run would use, and run nothing (default false)")
}

// complete fills in the defaults that depend on other flags and on the target.
func (f *steadyFlags) complete(now time.Time) error {
	const help = "rowmill bench steady --help"
	switch {
	case f.maxTime <= 0:
		return usagef("--for 24h", "--for %v: want a time to hold the load for", f.maxTime)
	case f.interval < 10*time.Millisecond:
		return usagef(help, "--interval %v: want at least 10ms", f.interval)
	case f.interval > f.maxTime:
		return usagef("--interval 1s", "--interval %v: want no more than the %v of --for", f.interval, f.maxTime)
	case f.batch < 1:
		return usagef(help, "--batch %d: want at least 1", f.batch)
	case f.writers < 1, f.writers > maxWriters:
		return usagef(help, "--writers %d: want 1 to %d", f.writers, maxWriters)
	case f.keepPeriods < 1:
		return usagef(help, "--keep-periods %d: want at least 1", f.keepPeriods)
	case f.p99 < 0 || f.p99 > 0 && f.p99 < time.Microsecond:
		return usagef("--p99 50ms", "--p99 %v: want at least 1µs, or no limit", f.p99)
	case f.retryFor <= 0:
		return usagef("--retry-for 1m", "--retry-for %v: want a time", f.retryFor)
	}
	if n := f.rate * f.interval.Seconds() / float64(f.batch); n < leastPerInterval {
		return usagef(fmt.Sprintf("--interval %v", time.Duration(float64(f.interval)*leastPerInterval/n).Round(time.Second)+time.Second),
			"--rate %g in batches of %d makes %.3g operations in an interval of %v: want at least %d, or the one that falls on its end decides whether the rate was kept",
			f.rate, f.batch, n, f.interval, leastPerInterval)
	}
	if f.periodRows == 0 {
		f.periodRows = max(int64(f.batch), int64(f.rate*steadyPeriod.Seconds()))
	}
	db, err := target.Dry(f.target)
	if err != nil {
		return usagef(hintOf(err), "--target: %w", err)
	}
	layout := workload.Plain
	if db.Capabilities().Rolling {
		layout = workload.Rolling
	}
	f.layouts, f.repeat = []string{layout}, 1
	if f.out == "" {
		f.out = fmt.Sprintf("steady-%s-%s.jsonl", fileName(host()), now.Format("20060102-150405"))
	}
	if err := f.checkFiles("rowmill bench steady"); err != nil {
		return err
	}
	w, err := workload.NewInsert(db, f.options())
	if err == nil {
		cfg := f.runConfig(w.Options())
		err = cfg.Validate()
	}
	if err != nil {
		hint := hintOf(err)
		if hint == "" {
			hint = help
		}
		return usagef(hint, "%w", err)
	}
	return nil
}

// host returns this machine's name without its domain.
func host() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// fileName turns the name of a system into a part of a file name.
func fileName(s string) string {
	if s = strings.Trim(notInNames.ReplaceAllString(s, "-"), "-"); s != "" {
		return s
	}
	return "host"
}

func (f *steadyFlags) options() workload.InsertOptions {
	o := f.insertOptions(f.layouts[0])
	o.Patience = f.retryFor
	return o
}

func (f *steadyFlags) runConfig(o workload.InsertOptions) bench.Config {
	cfg := f.config(o)
	cfg.RetryFor = f.retryFor
	return cfg
}

// benchSteady runs the load and reports, however the run ended.
func (a *app) benchSteady(ctx context.Context, f steadyFlags) error {
	if err := f.complete(time.Now()); err != nil {
		return err
	}
	if f.printSQL {
		return a.printSQL(f.benchFlags)
	}
	out, err := openRecord(f.out)
	if err != nil {
		return err
	}
	f.announce(a.stderr)
	rec, err := a.runSteady(ctx, f, out)
	if rec == nil {
		return errors.Join(err, out.close())
	}
	return errors.Join(err, out.close(), a.writeReports(f.reports, []result.Record{*rec}))
}

func (a *app) runSteady(ctx context.Context, f steadyFlags, out *recordFile) (*result.Record, error) {
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	show := a.newProgress(interrupt)
	if _, ok := show.(*lines); ok {
		show = &summedUp{progress: show, every: time.Minute}
	}
	defer show.Close()
	r := &steadyRun{f: f, insertRun: insertRun{f: f.benchFlags, layout: f.layouts[0], args: a.args, first: true,
		measurement: measurement{out: out, show: show, interval: f.interval}}}
	if !f.noWork {
		// At least two per interval, so that every interval has one.
		r.workEvery = min(steadyWork, f.interval/2)
	}
	rec, err := r.run(ctx)
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	return rec, err
}

// A steadyRun runs a constant load on one target.
type steadyRun struct {
	insertRun
	f steadyFlags
}

func (r *steadyRun) run(ctx context.Context) (_ *result.Record, err error) {
	defer func() {
		if r.rec == nil && err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
	}()
	if r.db, err = target.Open(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	if r.w, err = workload.NewInsert(r.db, r.f.options()); err != nil {
		return nil, err
	}
	schema, err := r.w.Setup(ctx, r.f.dropExisting)
	if err != nil {
		return nil, err
	}
	r.show.Note("recording to " + r.out.path + "; read it at any moment: rowmill report " + r.out.path)
	if err := r.header(ctx, schema); err != nil {
		return nil, err
	}
	return r.rec, r.measure(ctx, r.w, r.f.runConfig(r.w.Options()), r.prove)
}

// header begins the measurement.
func (r *steadyRun) header(ctx context.Context, schema []string) error {
	run, _ := r.describe(schema)
	zone, offset := time.Now().Zone()
	run.Workload = "steady"
	run.Steady = &result.SteadyGoal{P99LimitUS: r.f.p99.Microseconds(), Host: host(), Zone: zone, UTCOffsetSeconds: offset}
	run.Name = strings.TrimSpace(fmt.Sprintf("steady %g rows/s on %s %s", r.f.rate, r.db.Info().Engine, run.Steady.Host))
	return r.begin(ctx, r.w.Tables(), run, run.Name)
}

// summedUp combines intervals into longer ones: it shows a line per minute, because
// one per interval would be thousands.
type summedUp struct {
	progress
	every   time.Duration
	sum     result.Interval
	latency result.Merger
}

// Interval implements progress.
func (s *summedUp) Interval(iv result.Interval) {
	op := iv.Operation()
	s.sum.Elapsed, s.sum.Rows, s.sum.Backlog = iv.Elapsed, iv.Rows, iv.Backlog
	s.sum.Seconds += iv.Seconds
	s.sum.NewRows += iv.NewRows
	s.sum.Errors += iv.Errors
	s.sum.Retries += iv.Retries
	if h := iv.Latency[op]; h.Count > 0 {
		// A histogram that can't be read is omitted here; the record has it.
		_ = s.latency.Add(h)
	}
	if s.sum.Seconds >= s.every.Seconds()-iv.Seconds/2 {
		s.flush(op)
	}
}

func (s *summedUp) flush(op string) {
	if s.sum.Seconds == 0 {
		return
	}
	s.sum.Latency = map[string]result.Histogram{op: {}}
	if s.latency.Count() > 0 {
		s.sum.Latency[op] = result.Histogram{Latency: s.latency.Latency()}
	}
	s.progress.Interval(s.sum)
	s.sum = result.Interval{}
	s.latency.Reset()
}

// End implements progress.
func (s *summedUp) End(sum result.Summary) {
	s.flush("insert")
	s.progress.End(sum)
}
