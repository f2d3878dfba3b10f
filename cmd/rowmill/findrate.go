package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// findFlags are the flags of `rowmill bench insert --find-rate`.
type findFlags struct {
	on         bool
	p99, trial time.Duration

	p99Given, trialGiven bool
	// batchGiven and writersGiven report whether those flags were given.
	batchGiven, writersGiven bool
}

const (
	defaultP99 = 20 * time.Millisecond
	// defaultTrial gives a 99th percentile of a thousand operations at 84 operations a
	// second or more, and includes a few of the seconds in which a server writes back
	// deferred changes.
	defaultTrial = 15 * time.Second
	// trialIntervals is the least number of intervals of a trial: the backlog is
	// judged by quarters of them.
	trialIntervals = 10
	// findBatch and findWriters are the defaults of --batch and --writers in a search.
	// A response time is meant for a user's transaction, which is small. There must be
	// more writers than operations in progress, or operations wait for a writer: 16
	// writers can execute 800 operations a second of 20 ms each.
	findBatch, findWriters = 10, 16
	// rampShare is the initial part of a trial that is not judged: connections are
	// opened, statements are prepared, and the server adjusts from one rate to
	// another.
	rampShare = 0.2
	// guess is the share of the closed loop's last rate that is tried first: at its
	// full throughput, a database responds late.
	guess = 0.7
	// wideRows is the largest number of rows before the trials for which the keys have
	// 32 bits: as many rows again then fit. Above it, the keys have 64 bits.
	wideRows = 1 << 30
	// leastOperations is the least number of operations judged in a trial of the
	// lowest rate: with fewer, the 99th percentile is the slowest operation.
	leastOperations = 100
)

func (f *findFlags) define(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "find-rate", false, "fill the table to --rows, then find the highest rate that it takes with the response time below --p99 (default false)")
	flags.DurationVar(&f.p99, "p99", defaultP99, "`time` that 99 of 100 operations of --find-rate are to keep to, from when they were due")
	flags.DurationVar(&f.trial, "trial", defaultTrial, "`time` for which --find-rate tries a rate")
}

func (f *findFlags) complete(flags *pflag.FlagSet) {
	f.p99Given, f.trialGiven = flags.Changed("p99"), flags.Changed("trial")
	f.batchGiven, f.writersGiven = flags.Changed("batch"), flags.Changed("writers")
}

// checkFind refuses flags that are invalid together with a search.
func (f *benchFlags) checkFind() error {
	const try = "rowmill bench insert --find-rate --p99 20ms"
	s := &f.find
	if !s.on {
		switch {
		case s.p99Given:
			return usagef(try, "--p99 is for --find-rate")
		case s.trialGiven:
			return usagef(try, "--trial is for --find-rate")
		}
		return nil
	}
	err := target.Check(f.target)
	switch {
	case err != nil:
		return usagef(hintOf(err), "--target: %w", err)
	case !target.Stores(f.target):
		return usagef("--target sqlite:", "--find-rate: null: stores nothing, so there is no rate that it doesn't take")
	case f.keepRows > 0 || f.readers > 0 || f.killEvery > 0:
		return usagef("--find-rate without them", "--find-rate measures inserts alone: it goes without --keep-rows, --readers and --kill-server-every")
	case f.rate > 0:
		return usagef("--find-rate without --rate", "--find-rate looks for the rate, so --rate can't give it")
	case f.rows == 0:
		return usagef("--rows 1M", "--rows 0: --find-rate needs the size from which on the rate is to hold")
	case s.p99 < time.Millisecond:
		return usagef("--p99 20ms", "--p99 %v: want at least 1ms: timers alone begin an operation that late", s.p99)
	case s.trial < trialIntervals*f.interval:
		return usagef(fmt.Sprintf("--trial %v, or a shorter --interval", trialIntervals*f.interval),
			"--trial %v: want at least %d times --interval %v, to see whether the backlog grows", s.trial, trialIntervals, f.interval)
	case s.trial < 2*s.p99:
		return usagef(fmt.Sprintf("--trial %v", 100*s.p99), "--trial %v is too short to see whether --p99 %v holds", s.trial, s.p99)
	}
	return nil
}

// A rateSearch finds the highest rate that one layout's table sustains. The first run
// fills the table; each further run tries a rate on it.
type rateSearch struct {
	// fill is the first run, and the template of the others.
	fill *insertRun
	db   *target.DB
	w    *workload.Insert

	search   *bench.Search
	began    time.Time
	trials   int
	inserted int64
	// unsettled means that the server may still have work left from an earlier run.
	unsettled bool
	// over means that no further trial follows. It is decided once, because the last
	// trial has then proven the table.
	over bool
	recs []result.Record
}

func newRateSearch(fill *insertRun) *rateSearch {
	return &rateSearch{fill: fill, began: time.Now(), unsettled: true}
}

// run fills the table and searches. It returns the records of the runs that began.
func (s *rateSearch) run(ctx context.Context) (_ []result.Record, err error) {
	defer func() {
		if len(s.recs) == 0 && err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errInterruptedEarly, err)
		}
	}()
	r := s.fill
	if s.db, err = target.Open(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	r.db = s.db
	schema, err := r.setup(ctx)
	if err != nil {
		return nil, err
	}
	s.w = r.w
	r.search = s.header(0, "")
	// The table is filled at full speed: with the preset's own batches if those of the
	// trials are smaller.
	if r.fillBatch, err = presetBatch(r); err != nil {
		return nil, err
	}
	if err := r.header(ctx, schema); err != nil {
		return nil, err
	}
	cfg := r.f.config(r.w.Options())
	cfg.Batch = r.fillBatch
	err = r.measure(ctx, r.w, cfg, func(ctx context.Context, end *result.End) error {
		s.inserted = r.rows()
		if end.Stopped != bench.StoppedRows {
			end.Warnings = append(end.Warnings, "the search for a rate never began: the table was not filled")
			end.Search = s.state()
			return nil
		}
		sum := r.rec.Summary()
		s.search = newSearch(r.search, r.w.Options().Batch, &sum)
		end.Search = s.state()
		return s.size(ctx, end)
	})
	s.recs = append(s.recs, *r.rec)
	if err != nil || r.rec.End.Stopped != bench.StoppedRows {
		return s.recs, err
	}
	return s.goOn(ctx)
}

// presetBatch returns the larger of the preset's and the trials' batches.
func presetBatch(r *insertRun) (int, error) {
	o := r.f.insertOptions(r.layout)
	batch := o.Batch
	o.Batch = 0
	w, err := workload.NewInsert(r.db, o)
	if err != nil {
		return 0, err
	}
	return max(batch, w.Options().Batch), nil
}

// newSearch creates a search from the result of filling the table.
func newSearch(head *result.Search, batch int, filled *result.Summary) *bench.Search {
	return bench.NewSearch(guess*filled.Rate.Last, leastOperations*float64(batch)/(head.TrialSeconds-head.RampSeconds))
}

// goOn runs trials until the search or its time has ended.
func (s *rateSearch) goOn(ctx context.Context) ([]result.Record, error) {
	for s.over = s.timeUp(); ; {
		rate, purpose, ok := s.search.Next()
		if !ok || ctx.Err() != nil || s.over {
			return s.recs, nil
		}
		if err := s.trial(ctx, rate, purpose); err != nil {
			return s.recs, err
		}
	}
}

// timeUp reports whether --max-time has passed. A trial that has begun is completed.
func (s *rateSearch) timeUp() bool {
	return s.fill.f.maxTime > 0 && time.Since(s.began) >= s.fill.f.maxTime
}

// header describes a run's place in the search.
func (s *rateSearch) header(trial int, purpose string) *result.Search {
	f := &s.fill.f.find
	return &result.Search{Trial: trial, Purpose: purpose, LimitUS: f.p99.Microseconds(),
		TrialSeconds: f.trial.Seconds(), RampSeconds: rampShare * f.trial.Seconds()}
}

// state returns the results of the search so far, for the record.
func (s *rateSearch) state() *result.Searched {
	out := &result.Searched{State: bench.SearchOngoing, Inserted: s.inserted}
	if s.search != nil {
		out.State = s.search.State()
		low, high := s.search.Bracket()
		if out.Low = low; !math.IsInf(high, 1) {
			out.High = high
		}
	}
	return out
}

// trial tries a rate, after the server has completed its remaining work.
func (s *rateSearch) trial(ctx context.Context, rate float64, purpose string) error {
	s.trials++
	head := s.header(s.trials, purpose)
	var warnings []string
	if s.unsettled {
		calm, err := s.settle(ctx, rate*settleShare, head)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if !calm {
			warnings = append(warnings, fmt.Sprintf("before trial %d the server had not calmed down after %.0f s of %.0f rows/s", s.trials, head.SettleSeconds, head.SettleRate))
		}
	}
	head.TableRows = s.inserted - s.w.DroppedRows()
	r := *s.fill
	r.measurement = measurement{db: s.db, out: s.fill.out, show: s.fill.show, interval: s.fill.interval}
	r.f.rate, r.f.rows, r.f.maxTime = rate, 0, r.f.find.trial
	r.fillBatch = 0
	r.w, r.search, r.searching, r.before = s.w, head, s.shown(), s.inserted
	if err := r.header(ctx, nil); err != nil {
		return err
	}
	trying, stop := context.WithCancel(ctx)
	defer stop()
	decided := false
	r.watch = func(rec *result.Record) {
		if !decided && rec.Decided() {
			decided = true
			stop()
		}
	}
	err := r.measure(trying, s.w, r.f.config(s.w.Options()), func(_ context.Context, end *result.End) error {
		s.inserted += r.rows()
		if decided && end.Stopped == bench.StoppedInterrupted && ctx.Err() == nil {
			end.Stopped = result.StoppedDecided
		}
		end.Warnings = append(end.Warnings, warnings...)
		r.rec.End = end // for the verdict
		t := r.rec.Trial()
		if t.Verdict == result.VerdictNone {
			end.Search = s.state()
			s.over = s.timeUp()
			return nil
		}
		s.unsettled = !t.Pass
		s.search.Tell(t.Pass, t.Close, t.Done)
		r.show.Note(verdictNote(t, r.search.LimitUS) + "; " + s.known())
		if s.over = s.search.State() != bench.SearchOngoing || s.timeUp(); !s.over {
			end.Search = s.state()
			return nil
		}
		err := r.prove(ctx, end)
		end.Search = s.state()
		return err
	})
	s.recs = append(s.recs, *r.rec)
	return err
}

// size records the table's size at the start of the trials.
func (s *rateSearch) size(ctx context.Context, end *result.End) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer cancel()
	size, err := s.w.Sizes(ctx)
	if err != nil {
		return fmt.Errorf("measure the table's size: %w", err)
	}
	end.Size = &result.Size{Data: size.Data, Index: size.Index, PerRow: float64(size.Data+size.Index) / float64(max(1, s.inserted-s.w.DroppedRows()))}
	return nil
}

const (
	// settleShare is the share of the rate to be tried at which settle inserts.
	settleShare = 0.25
	// calmIntervals is the number of consecutive intervals that must be calm.
	calmIntervals = 2
)

// settle lets the server complete the work that an excessive load has left: dirty
// pages, redo to the next checkpoint, segments to be merged. The server isn't left
// idle: it would begin the trial without any such work, and for a while sustain a rate
// that is too high. At a quarter of the next rate it stays active and has room to
// catch up. settle ends once two consecutive intervals have no backlog and a median
// within the limit, or after the time of a trial.
func (s *rateSearch) settle(ctx context.Context, rate float64, head *result.Search) (calm bool, err error) {
	r := s.fill
	r.show.Note(fmt.Sprintf("letting the server settle at %s rows/s", figure.Rounded(rate)))
	settling, stop := context.WithCancel(ctx)
	defer stop()
	row := 0
	cfg := bench.Config{Operation: "insert", Clients: s.w.Options().Writers, Batch: s.w.Options().Batch, Rate: rate,
		MaxTime: r.f.find.trial, Interval: r.f.interval}
	cfg.Died, cfg.Death = s.db.Died()
	cfg.Observe = func(iv result.Interval) error {
		if iv.Backlog <= int64(cfg.Clients) && iv.Response["insert"].P50 <= head.LimitUS {
			row++
		} else {
			row = 0
		}
		if row >= calmIntervals {
			calm = true
			stop()
		}
		return nil
	}
	restore := prepareRuntime(s.db.Capabilities(), cfg.Clients)
	defer restore()
	done, err := bench.Run(settling, s.w, cfg)
	s.inserted += done.Rows
	head.SettleRate, head.SettleSeconds, head.SettleRows = rate, done.Elapsed.Seconds(), done.Rows
	if err == nil {
		err = done.Err
	}
	if err != nil && ctx.Err() == nil {
		return false, errors.Join(fmt.Errorf("let the server settle: %w", err), s.db.Death(err))
	}
	return calm, nil
}

// shown returns the text after a trial's name: the rate that it tries, and the results
// so far.
func (s *rateSearch) shown() string {
	rate, purpose, _ := s.search.Next()
	return fmt.Sprintf(": %s rows/s (%s; %s)", figure.Rounded(rate), map[string]string{
		bench.SearchBracket: "finding a bracket", bench.SearchHalve: "halving the bracket",
		bench.SearchConfirm: "confirming", bench.SearchAbove: "confirming that more breaks"}[purpose], s.known())
}

// known describes the results so far, and how long the rest may take.
func (s *rateSearch) known() string {
	low, high := s.search.Bracket()
	text := "nothing known yet"
	switch {
	case low > 0 && !math.IsInf(high, 1):
		text = fmt.Sprintf("%s rows/s hold, %s break", figure.Rounded(low), figure.Rounded(high))
	case low > 0:
		text = figure.Rounded(low) + " rows/s hold"
	case !math.IsInf(high, 1):
		text = figure.Rounded(high) + " rows/s break"
	}
	if n := s.search.Left(); n > 0 {
		// Trials that fail are followed by settling, and others end early.
		left := time.Duration(n) * s.fill.f.find.trial
		text += fmt.Sprintf("; about %s left, %s", plural(n, "trial"), figure.Clock(left.Seconds()))
	} else {
		text += "; the search has ended: " + s.search.State()
	}
	return text
}

func verdictNote(t *result.Trial, limit int64) string {
	return fmt.Sprintf("trial %d: %s rows/s %s: p99 %s of %s, backlog %s", t.Number, figure.Rounded(t.Rate), t.Verdict,
		figure.Micros(t.P99US), figure.Micros(limit), figure.Count(t.Backlog))
}
