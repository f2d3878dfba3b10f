package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
)

// A Refusal is the error for an experiment that can't be made as specified. Nothing was touched.
type Refusal struct{ Err error }

func (e *Refusal) Error() string { return e.Err.Error() }
func (e *Refusal) Unwrap() error { return e.Err }

func refuse(hint, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if hint != "" {
		err = engine.Hinted(err, "%s", hint)
	}
	return &Refusal{err}
}

// help is the hint of a refusal that has no better one.
func (s *Spec) help() string { return "rowmill bench " + s.Workload + " --help" }

// no refuses a Spec if it is invalid; if hint is empty, it refers to the verb's help.
func (s *Spec) no(invalid bool, hint, format string, args ...any) error {
	if !invalid {
		return nil
	}
	return refuse(cmp.Or(hint, s.help()), format, args...)
}

// limits refuses a number outside of its limits. If most is 0, there is no upper limit.
func (s *Spec) limits(flag string, n, least, most int) error {
	return cmp.Or(s.no(n < least, "", "--%s %d: want at least %d", flag, n, least),
		s.no(most > 0 && n > most, "", "--%s %d: want at most %d", flag, n, most))
}

// list refuses an empty list, and entries that are unknown or named twice. kind is the noun for an
// entry. If known is nil, any entry is valid.
func list[T comparable](s *Spec, flag, kind string, given, known []T) error {
	all := strings.Trim(strings.ReplaceAll(fmt.Sprint(known), " ", ", "), "[]")
	for i, v := range given {
		if err := cmp.Or(s.no(known != nil && !slices.Contains(known, v), "", "--%s: unknown %s %q: there are %s", flag, kind, fmt.Sprint(v), all),
			s.no(slices.Contains(given[:i], v), "", "--%s: %v is named twice", flag, v)); err != nil {
			return err
		}
	}
	return s.no(len(given) == 0, "", "--%s: name at least one %s", flag, strings.TrimSuffix(kind+" of "+all, " of "))
}

// refused makes the error of a workload's own check a Refusal; nil stays nil.
func (s *Spec) refused(err error) error {
	return s.no(err != nil, engine.HintOf(err), "%w", err)
}

// MaxWriters keeps rowmill below the 10,000 threads at which Go's runtime aborts: a
// writer that waits for its server occupies a thread.
const MaxWriters = 5000

// Validate refuses a Spec that can't be run, as a Refusal. It accesses no database.
func (s *Spec) Validate() error {
	if err := s.validateReplicas(); err != nil {
		return err
	}
	var lacks bool
	var validate func() error
	switch s.Workload {
	case Insert:
		return s.validateInsert()
	case Matrix:
		_, err := PlanMatrix(s)
		return err
	case Scenario:
		_, err := PlanScenario(s)
		return err
	case Ibench:
		lacks, validate = s.Ibench == nil, s.validateIbench
	case Mixed, Points:
		lacks, validate = s.Cells == nil, s.validateCells
	case Keep:
		lacks, validate = s.Keep == nil, s.validateKeep
	case Scan:
		lacks, validate = s.Scan == nil, s.validateScan
	case HotRow:
		lacks, validate = s.HotRow == nil, s.validateHotRow
	case TPCC:
		lacks, validate = s.TPCC == nil, s.validateTPCC
	case Tables:
		lacks, validate = s.Tables == nil, s.validateTables
	case Disk:
		lacks, validate = s.Disk == nil, s.validateDisk
	case Steady:
		validate = s.validateSteady
	default:
		return refuse("rowmill bench --help", "unknown workload %q", s.Workload)
	}
	if err := cmp.Or(s.no(lacks, "", "the spec of %s lacks its section", s.Workload),
		s.no(len(s.Layouts) != 1, "", "the spec of %s has %d layouts: want one", s.Workload, len(s.Layouts))); err != nil {
		return err
	}
	return validate()
}

// validateTargets requires at least one target, and at most as many as most says. No target may be
// given twice, and an engine must be able to open each.
func (s *Spec) validateTargets(most int) error {
	for _, t := range s.Targets {
		if err := target.Check(t); err != nil {
			return refuse(engine.HintOf(err), "--target: %w", err)
		}
	}
	return cmp.Or(s.no(len(s.Targets) > most, "", "--target: want one, not %d", len(s.Targets)), list(s, "target", "database", s.Targets, nil))
}

func (s *Spec) validateReplicas() error {
	for _, r := range s.Replicas {
		if err := target.CheckReplica(r); err != nil {
			return refuse(engine.HintOf(err), "--replica: %w", err)
		}
		if err := cmp.Or(s.no(len(s.Targets) > 1, "one --target", "--replica %s: of which of %d targets is it a replica?", r, len(s.Targets)),
			s.no(len(s.Targets) == 1 && (target.Private(s.Targets[0]) || target.Place(s.Targets[0]) != ""), "--target "+target.ExampleReplicas,
				"--replica %s: it can't be a replica of %s, which is private to the run", r, strings.Join(s.Targets, ", "))); err != nil {
			return err
		}
	}
	if len(s.Replicas) == 0 {
		return nil
	}
	return list(s, "replica", "database", s.Replicas, nil)
}

// shortestInterval is the least that bench accepts.
const shortestInterval = 10 * time.Millisecond

// FitInterval shortens the interval if the run is so short that its curve would have few points.
func (s *Spec) FitInterval() {
	const least = 20 // intervals of a run
	length, parts := s.MaxTime.D(), time.Duration(least)
	switch {
	case s.FindRate:
		length, parts = s.Trial.D(), trialIntervals
	case s.Ibench != nil:
		length = s.Ibench.QueryTime.D()
	}
	if length <= 0 {
		return
	}
	fit := max(length/parts, 5*shortestInterval)
	if s.Workload == Steady && s.Rate > 0 {
		fit = max(fit, time.Duration(1e9*leastPerInterval*float64(s.Batch)/s.Rate))
	}
	s.Interval = min(s.Interval, Duration(fit))
}

func (s *Spec) validateInterval() error {
	return s.no(s.Interval.D() < shortestInterval, "--interval 1s", "--interval %v: want at least %v", s.Interval.D(), shortestInterval)
}

func (s *Spec) validateInsert() error {
	if err := cmp.Or(list(s, "layout", "layout", s.Layouts, workload.Layouts()), s.validateTargets(1), s.validateTable()); err != nil {
		return err
	}
	rolls := slices.Contains(s.Layouts, workload.Rolling)
	if err := cmp.Or(
		s.no(s.Rows == 0 && s.MaxTime == 0, "--rows 1M, or --time 60s", "--rows 0: a run needs an end"),
		s.no(s.MaxTime < 0, "--time 60s", "--time %v is negative", s.MaxTime.D()),
		s.limits("repeat", s.Repeat, 1, 0),
		s.limits("keep-periods", s.KeepPeriods, 0, 0),
		s.no(s.KeepRows > 0 && s.KeepPeriods > 0, "--keep-rows alone", "--keep-rows and --keep-periods: the one follows from the other"),
		s.no(s.KeepRows > 0 && s.Rows > 0 && s.Rows <= s.KeepRows && !s.FindRate, "--rows "+strconv.FormatInt(3*s.KeepRows, 10),
			"--keep-rows %d: with --rows %d nothing is ever removed", s.KeepRows, s.Rows),
		s.no(s.KeepPeriods > 0 && !rolls, "--layout rolling", "--keep-periods: layout plain has no periods to drop"),
		s.no(s.PeriodRows > 0 && !rolls, "--layout rolling", "--period-rows: layout plain has no periods"),
		s.limits("writers", s.Writers, 1, MaxWriters),
		s.validateInterval(),
		s.limits("batch", s.Batch, 0, 0),
		s.limits("readers", s.Readers, 0, MaxWriters),
		s.no(s.Readers == 0 && s.ReadAfter > 0, "--readers 1", "--read-after is for --readers"),
		s.validateSearch(), s.validateKills()); err != nil {
		return err
	}
	return s.tryOut()
}

func (s *Spec) validateSearch() error {
	if !s.FindRate {
		return nil
	}
	p99, trial, least := s.P99.D(), s.Trial.D(), trialIntervals*s.Interval.D()
	return cmp.Or(
		s.no(!target.Stores(s.Target()), "--target "+target.Default, "--find-rate: %s stores nothing, so that no rate is too high for it", s.Target()),
		s.no(s.Readers > 0 || s.KillEvery > 0, "--find-rate without them", "--find-rate goes without --readers and --kill-server-every"),
		s.no(s.Rate > 0, "--find-rate without --rate", "--find-rate looks for the rate, so --rate can't give it"),
		s.no(s.Rows == 0, "--rows 1M", "--rows 0: --find-rate needs the table size at which the rate must hold"),
		s.no(p99 < time.Millisecond, "--p99 20ms", "--p99 %v: want at least 1ms: timers alone delay an operation by that much", p99),
		s.no(trial < least, fmt.Sprintf("--trial %v, or a shorter --interval", least),
			"--trial %v: want at least %d times --interval %v, to see whether the backlog grows", trial, trialIntervals, s.Interval.D()),
		s.no(trial < 2*p99, fmt.Sprintf("--trial %v", 100*p99), "--trial %v is too short to see whether --p99 %v holds", trial, p99))
}

// shortestKill keeps a server from spending all of its time on recovery.
const shortestKill = 100 * time.Millisecond

func (s *Spec) validateKills() error {
	if s.KillEvery == 0 {
		return nil
	}
	return cmp.Or(
		s.no(s.KillEvery.D() < shortestKill, "--kill-server-every 10s", "--kill-server-every %v: want at least %v", s.KillEvery.D(), shortestKill),
		s.no(!target.StartsServer(s.Target()), "--target "+target.ExampleServer,
			"--kill-server-every: %s is not a private server: rowmill kills only servers that it has started for the run", s.Target()))
}

// tryOut completes the options of each layout on a database that only renders statements.
func (s *Spec) tryOut() error {
	for _, layout := range s.Layouts {
		w, err := s.dryInsert(layout)
		if err == nil {
			cfg := s.config(w.Options())
			err = cfg.Validate()
		}
		if err == nil && s.Readers > 0 && s.Rows > 0 && s.ReadAfter >= s.Rows {
			err = engine.Hinted(fmt.Errorf("--readers: queries begin after %s (--read-after), and --rows %d end the run before", rows(s.ReadAfter), s.Rows),
				"--read-after %d", s.Rows/10)
		}
		if err == nil && s.KillEvery > 0 {
			err = w.ExpectCrashes(func() <-chan struct{} { return nil })
		}
		if err != nil {
			return s.refused(err)
		}
	}
	return nil
}

func (s *Spec) validateSteady() error {
	if err := s.validateTargets(1); err != nil {
		return err
	}
	// A batch of no rows is refused below.
	interval, commits := s.Interval.D(), s.Rate*s.Interval.D().Seconds()/float64(max(s.Batch, 1))
	if err := cmp.Or(
		s.no(s.MaxTime <= 0, "--time 24h", "--time %v: want a time to hold the load for", s.MaxTime.D()),
		s.validateInterval(),
		s.no(s.Interval > s.MaxTime, "--interval 1s", "--interval %v: want no more than the %v of --time", interval, s.MaxTime.D()),
		s.limits("batch", s.Batch, 1, 0),
		s.limits("writers", s.Writers, 1, MaxWriters),
		s.limits("keep-periods", s.KeepPeriods, 1, 0),
		s.no(s.P99 < 0 || s.P99 > 0 && s.P99.D() < time.Microsecond, "--p99 50ms", "--p99 %v: want at least 1µs, or no limit", s.P99.D()),
		s.no(s.RetryFor <= 0, "--retry-for 1m", "--retry-for %v: want a time", s.RetryFor.D()),
		s.no(commits < leastPerInterval, fmt.Sprintf("--interval %v", time.Duration(float64(interval)*leastPerInterval/commits).Round(time.Second)+time.Second),
			"--rate %g in batches of %d makes %.3g operations in an interval of %v: want at least %d, or a single operation at its end decides whether the rate was kept",
			s.Rate, s.Batch, commits, interval, leastPerInterval)); err != nil {
		return err
	}
	return s.tryOut()
}

func (s *Spec) validateIbench() error {
	b := s.Ibench
	if err := cmp.Or(s.validateTargets(1),
		s.limits("clients", b.Clients, 1, 0),
		s.no(3*b.Clients > MaxWriters, "", "--clients %d: want at most %d, because up to two more run beside each", b.Clients, MaxWriters/3),
		s.validateInterval(),
		s.no(len(b.Steps) == 0, "", "--steps: name at least one"),
		s.no(s.DropExisting && !slices.Contains(b.Steps, "l.i0"), "--steps with l.i0, or without --drop-existing",
			"--drop-existing: without l.i0 the steps continue with the existing tables")); err != nil {
		return err
	}
	_, err := s.dryIbench()
	return s.refused(err)
}

func (s *Spec) validateKeep() error {
	k := s.Keep
	if err := s.validateTargets(1); err != nil {
		return err
	}
	return cmp.Or(
		s.no(s.Rate <= 0, "--rate 1000/s", "--rate: want more than 0"),
		s.no(s.MaxTime <= 0, "--time 1m", "--time %v: want more than 0", s.MaxTime.D()),
		s.limits("writers", s.Writers, 1, MaxWriters),
		s.limits("batch", s.Batch, 1, 0),
		s.no(!(k.Speed >= 1 && k.Speed <= 1e6), "--speed 60", "--speed %v: want 1 to 1000000", k.Speed),
		s.no(k.Stall.D() < time.Millisecond, "--stall 100ms", "--stall %v: want at least 1ms", k.Stall.D()),
		s.validateInterval(),
		s.no(k.Speed > 1 && !k.WithRun && k.Clock == "", "--with-run, or --clock FILE here and for rowmill run",
			"--speed %v: the process that keeps the table must use the same clock", k.Speed),
		s.no(k.Baseline && !k.WithRun, "--baseline --with-run", "--baseline: the process that keeps the table can't be told to wait"),
		s.no(k.WithRun && k.Clock != "", "one of them", "--with-run has the clock already: --clock is for a rowmill run elsewhere"),
		s.no(!k.WithRun && target.Private(s.Target()), "--with-run", "--target %s is private: no other process can keep its tables", s.Target()))
}

// validateWarmup refuses a warm-up of a server that is killed.
func (s *Spec) validateWarmup() error {
	return cmp.Or(s.no(s.Warmup < 0, "--warmup 10s", "--warmup %v is negative", s.Warmup.D()),
		s.no(s.Warmup > 0 && s.KillEvery > 0, "--kill-server-every without --warmup", "--warmup: a server that is killed loses its warm caches"))
}

func (s *Spec) validateCells() error {
	c, known := s.Cells, workload.MixedOperations()
	if s.Workload == Points {
		known = []string{workload.OpPoints}
	}
	if err := cmp.Or(s.validateTargets(len(s.Targets)),
		s.no(s.Workload == Points && c.Points < 1, "--points 10", "--points %d: want at least 1", c.Points),
		list(s, "ops", "operation", c.Ops, known),
		s.no(s.Workload == Mixed && !(c.Mix > 0 && c.Mix < 100), "--mix 50", "--mix %v: want more than 0 and less than 100 percent", c.Mix),
		list(s, "clients", "number", c.Clients, nil),
		s.no(!(c.Seconds >= minCellSeconds && c.Seconds <= 86400), "--time 10s", "--time %vs: want %vs to 86400s", c.Seconds, minCellSeconds),
		s.validateWarmup(),
		s.limits("repeat", s.Repeat, 1, 0),
		s.limits("batch", s.Batch, 1, 0),
		s.no(len(s.turns()) == 0, "--clients 2,4,8", "--ops mixed: one client can't insert and select at once")); err != nil {
		return err
	}
	if err := cmp.Or(s.limits("clients", slices.Min(c.Clients), 1, MaxWriters), s.limits("clients", slices.Max(c.Clients), 1, MaxWriters)); err != nil {
		return err
	}
	for _, t := range s.Targets {
		db, err := target.Dry(t)
		if err == nil {
			_, err = workload.NewMixed(db, s.mixedOptions())
		}
		if err != nil {
			return s.refused(err)
		}
	}
	return s.validateSettings()
}

func (s *Spec) validateSettings() error {
	settings, err := s.settings()
	if err != nil || settings == nil {
		return err
	}
	url := s.Target()
	if err := s.no(!target.Stores(url), "--target "+target.ExampleServer, "--set: %s has no settings", url); err != nil {
		return err
	}
	if !target.Private(url) {
		return refuse("--target "+target.ExampleServer+" or "+target.Default, "--set: each value gets a private server or a temporary file of its own, not %s", url)
	}
	for _, setting := range settings {
		if _, err := target.WithSetting(url, setting); err != nil {
			return refuse(cmp.Or(engine.HintOf(err), "--set cache=1MB,cache=64MB"), "--set: %w", err)
		}
	}
	return nil
}

// maxCells limits the effect of a typing error.
const maxCells = 100000

func (s *Spec) validateFactors(factors []factor) error {
	runs := s.Repeat
	for _, f := range factors {
		if f.levels == nil {
			continue // the durability isn't varied
		}
		if err := cmp.Or(s.no(len(f.levels) == 0, "", "--%s: the list is empty", f.name),
			s.no(slices.Contains(f.levels, ""), "", "--%s: an entry of the list is empty", f.name),
			list(s, f.name, f.name, f.levels, f.known)); err != nil {
			return err
		}
		runs = min(runs*len(f.levels), maxCells+1)
	}
	most := int64(0)
	for _, text := range s.Matrix.Batches {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil { // other texts are refused when the level is set
			most = max(most, n)
		}
	}
	return cmp.Or(s.validateDurability(),
		s.no(s.Rows == 0 && s.MaxTime == 0, "--rows 100k, or --time 20s", "--rows 0 and --time 0: a run needs an end"),
		s.limits("repeat", s.Repeat, 1, 0),
		s.no(slices.Contains(s.Matrix.Batches, "0"), "", "--batch 0: want at least 1"),
		s.no(s.Rows > 0 && most > s.Rows, "--rows "+strconv.FormatInt(10*most, 10), "--batch %d is more than the %d rows of a run", most, s.Rows),
		s.no(runs > maxCells, "shorter lists", "more than %d runs", maxCells))
}

func (s *Spec) validateDurability() error {
	if s.Matrix.Durabilities == nil {
		return nil
	}
	url := s.Target()
	settable, given := target.Durability(url)
	return cmp.Or(
		s.no(!settable, "without --durability: the server's own settings hold", "--durability: it can be set for a private server and for a file, not for %s", url),
		s.no(target.StartsServer(url) && target.Place(url) != "", "a target without keep=", "--durability: the server in %s keeps its own", target.Place(url)),
		s.no(given, "omit it from the target", "--durability: the target %s sets it, too", url))
}
