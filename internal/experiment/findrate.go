package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

const (
	// DefaultP99 is the response time that a search for a rate keeps to.
	DefaultP99 = 20 * time.Millisecond
	// DefaultTrial is how long a trial takes. If the rate is at least 84 operations a second, the
	// trial judges a thousand of them, enough for a 99th percentile. It also includes a few of the
	// seconds in which a server writes back deferred changes.
	DefaultTrial = 15 * time.Second
	// SearchBatch and SearchWriters are the defaults of a search. Batches are small, because a limit
	// of the response time is meant for a user's transaction. There must be more writers than
	// operations in progress, or operations wait for a writer: if each operation takes 20 ms, 16
	// writers execute 800 a second.
	SearchBatch, SearchWriters = 10, 16

	// trialIntervals is the least number of intervals of a trial. To see whether the backlog grows,
	// quarters of the trial are compared, so each quarter must have several intervals.
	trialIntervals = 10
	// rampShare is the initial part of a trial that is not judged: connections are opened,
	// statements are prepared, and the server adjusts from one rate to another.
	rampShare = 0.2
	// The first rate to try is guess times the rate at the end of filling the table. The table is
	// filled at full throughput, at which a database responds late.
	guess = 0.7
	// If the table has up to wideRows rows before the trials, its keys have 32 bits, which suffice for
	// the trials to insert as many rows again. With more rows, the keys have 64 bits.
	wideRows = 1 << 30
	// leastOperations is how many operations a trial of the lowest rate must judge: with fewer, the
	// 99th percentile is the slowest operation.
	leastOperations = 100
)

// A rateSearch finds the highest rate that one layout's table sustains. The first run
// fills the table; each further run tries a rate on it.
type rateSearch struct {
	// fill is the first run, and the template of the others.
	fill *insertRun

	search   *bench.Search
	began    time.Time
	trials   int
	inserted int64
	// unsettled means that the server may still have work left over from an earlier run.
	unsettled bool
	// over means that no further trial follows. It is set during the last trial, so that this trial
	// also verifies the table.
	over bool
	recs []result.Record
}

func (s *rateSearch) run(ctx context.Context) ([]result.Record, error) {
	search := s.fillAndSearch
	if s.fill.trial.resumes != nil {
		search = s.resume
	}
	err := s.fill.open(ctx, func() error { return search(ctx) })
	if len(s.recs) == 0 {
		err = early(ctx, err)
	}
	return s.recs, err
}

func (s *rateSearch) fillAndSearch(ctx context.Context) error {
	r := s.fill
	schema, err := r.setup(ctx)
	if err != nil {
		return err
	}
	r.search = s.header(0, "")
	cfg := r.config()
	if cfg.Batch, err = s.fillBatch(); err != nil {
		return err
	}
	if err := r.header(ctx, schema, cfg); err != nil {
		return err
	}
	err = r.measure(ctx, r.w, func(ctx context.Context, end *result.End) (err error) {
		defer func() { end.Search = s.state() }()
		s.inserted = r.rows()
		if end.Stopped != bench.StoppedRows {
			end.Warnings = append(end.Warnings, "the search for a rate never began: the table was not filled")
			return nil
		}
		sum := r.rec.Summary()
		s.search = newSearch(r.search, r.w.Options().Batch, &sum)
		if end.Size, err = tableSize(ctx, r.w, max(1, s.inserted-r.w.DroppedRows())); err != nil {
			return fmt.Errorf("measure the table's size: %w", err)
		}
		return nil
	})
	s.recs = append(s.recs, *r.rec)
	if err != nil || r.rec.End.Stopped != bench.StoppedRows {
		return err
	}
	return s.goOn(ctx)
}

// fillBatch returns the rows per batch while the table is filled at full speed: the larger of the
// preset's batch and the trials' batch.
func (s *rateSearch) fillBatch() (int, error) {
	o := s.fill.trial.Spec.insertOptions(s.fill.trial.layout())
	batch := o.Batch
	o.Batch = 0
	w, err := workload.NewInsert(s.fill.db, o)
	if err != nil {
		return 0, err
	}
	return max(batch, w.Options().Batch), nil
}

func newSearch(head *result.Search, batch int, filled *result.Summary) *bench.Search {
	return bench.NewSearch(guess*filled.Rate.Last, leastOperations*float64(batch)/(head.TrialSeconds-head.RampSeconds))
}

// goOn runs trials until the search or its time has ended.
func (s *rateSearch) goOn(ctx context.Context) error {
	for s.over = s.timeUp(); ; {
		rate, purpose, ok := s.search.Next()
		if !ok || ctx.Err() != nil || s.over {
			return nil
		}
		if err := s.try(ctx, rate, purpose); err != nil {
			return err
		}
	}
}

// timeUp reports whether --time has passed. A trial that has begun is completed.
func (s *rateSearch) timeUp() bool {
	most := s.fill.trial.Spec.MaxTime.D()
	return most > 0 && time.Since(s.began) >= most
}

func (s *rateSearch) header(trial int, purpose string) *result.Search {
	spec := s.fill.trial.Spec
	return &result.Search{Trial: trial, Purpose: purpose, LimitUS: spec.P99.D().Microseconds(),
		TrialSeconds: spec.Trial.D().Seconds(), RampSeconds: rampShare * spec.Trial.D().Seconds()}
}

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

// try tries a rate, after the server has completed its remaining work.
func (s *rateSearch) try(ctx context.Context, rate float64, purpose string) error {
	s.trials++
	head := s.header(s.trials, purpose)
	var warnings []string
	if s.unsettled {
		calm, err := s.settle(ctx, rate*settleShare, head)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if !calm {
			warnings = append(warnings, fmt.Sprintf("before trial %d the server had not settled after %.0f s of %.0f rows/s", s.trials, head.SettleSeconds, head.SettleRate))
		}
	}
	w := s.fill.w
	head.TableRows = s.inserted - w.DroppedRows()
	r := s.fill.env.newInsert(s.fill.trial)
	r.db, r.w, r.search, r.searching, r.before = s.fill.db, w, head, s.shown(), s.inserted
	if s.fill.trial.Spec.KeepRows > 0 {
		head.TableRows = w.RowsNow()
		r.note = func(iv *result.Interval) { iv.HeldRows = w.RowsNow() }
	}
	cfg := s.config(rate)
	if err := r.header(ctx, nil, cfg); err != nil {
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
	err := r.measure(trying, w, func(_ context.Context, end *result.End) error {
		defer func() { end.Search = s.state() }()
		s.inserted += r.rows()
		if decided && end.Stopped == bench.StoppedInterrupted && ctx.Err() == nil {
			end.Stopped = result.StoppedDecided
		}
		end.Warnings = append(end.Warnings, warnings...)
		r.rec.End = end // for the verdict
		t := r.rec.Trial()
		if t.Verdict == result.VerdictNone {
			s.over = s.timeUp()
			return nil
		}
		s.unsettled = !t.Pass
		s.search.Tell(t.Pass, t.Close, t.Done)
		r.env.Show.Note(verdictNote(t, head.LimitUS) + "; " + s.known())
		if s.over = s.search.State() != bench.SearchOngoing || s.timeUp(); s.over {
			return r.prove(ctx, end)
		}
		return nil
	})
	s.recs = append(s.recs, *r.rec)
	return err
}

func (s *rateSearch) config(rate float64) bench.Config {
	cfg := s.fill.trial.Spec.config(s.fill.w.Options())
	cfg.Rate, cfg.Rows, cfg.MaxTime = rate, 0, s.fill.trial.Spec.Trial.D()
	cfg.Beside = append(cfg.Beside, s.fill.w.Beside()...)
	return cfg
}

const (
	// settleShare is the share of the rate to be tried at which settle inserts.
	settleShare = 0.25
	// calmIntervals is the number of consecutive intervals that must be calm.
	calmIntervals = 2
)

// settle lets the server complete the work that an excessive load has left: dirty pages, redo to
// the next checkpoint, segments to be merged. Meanwhile settle inserts at a quarter of the next
// trial's rate, so that the server stays active and has room to catch up. A server that was idle
// would begin the trial without deferred work, and for a while sustain too high a rate. settle ends
// once two consecutive intervals have no backlog and a median within the limit, or after the time
// of a trial.
func (s *rateSearch) settle(ctx context.Context, rate float64, head *result.Search) (calm bool, err error) {
	r := s.fill
	r.env.Show.Note(fmt.Sprintf("letting the server settle at %s rows/s", figure.Rounded(rate)))
	settling, stop := context.WithCancel(ctx)
	defer stop()
	row := 0
	cfg := s.config(rate)
	cfg.Died, cfg.Death = r.db.Died()
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
	restore := prepareRuntime(r.db.Capabilities(), cfg.Clients)
	defer restore()
	done, err := bench.Run(settling, r.w, cfg)
	s.inserted += done.Rows
	head.SettleRate, head.SettleSeconds, head.SettleRows = rate, done.Elapsed.Seconds(), done.Rows
	if err == nil {
		err = done.Err
	}
	if err != nil && ctx.Err() == nil {
		return false, errors.Join(fmt.Errorf("let the server settle: %w", err), r.db.Death(err))
	}
	return calm, nil
}

func (s *rateSearch) shown() string {
	rate, purpose, _ := s.search.Next()
	return fmt.Sprintf(": %s rows/s (%s; %s)", figure.Rounded(rate), map[string]string{
		bench.SearchBracket: "finding a bracket", bench.SearchHalve: "halving the bracket",
		bench.SearchConfirm: "confirming", bench.SearchAbove: "confirming that a higher rate breaks"}[purpose], s.known())
}

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
		// A rough estimate: settling follows failed trials, and other trials end early.
		left := time.Duration(n) * s.fill.trial.Spec.Trial.D()
		text += fmt.Sprintf("; about %s left, %s", figure.Plural(n, "trial"), figure.Clock(left.Seconds()))
	} else {
		text += "; the search has ended: " + s.search.State()
	}
	return text
}

func verdictNote(t *result.Trial, limit int64) string {
	return fmt.Sprintf("trial %d: %s rows/s %s: p99 %s of %s, backlog %s", t.Number, figure.Rounded(t.Rate), t.Verdict,
		figure.Micros(t.P99US), figure.Micros(limit), figure.Count(t.Backlog))
}

// ended reports whether a search needs no further trial.
func ended(runs []*result.Record) bool {
	for _, r := range runs {
		if r.End != nil && r.End.Search != nil && r.End.Search.State != bench.SearchOngoing {
			return true
		}
	}
	return false
}

// newRateSearch returns the search of a trial. It restores an interrupted search from its recorded
// runs. It accesses no database.
func (e *Env) newRateSearch(t *Trial) (*rateSearch, error) {
	s := &rateSearch{fill: e.newInsert(t), began: time.Now(), unsettled: true}
	if t.resumes == nil {
		return s, nil
	}
	fill, spec := t.resumes[0], t.Spec
	if fill.End == nil || fill.End.Stopped != bench.StoppedRows || fill.End.Search == nil {
		return nil, errors.New("the table was not yet filled, so there is nothing to go on from")
	}
	if spec.KeepPeriods > 0 || spec.KeepRows > 0 {
		return nil, errors.New("a table whose oldest rows are removed can't be taken over")
	}
	w, err := spec.dryInsert(t.layout())
	if err != nil {
		return nil, err
	}
	sum := fill.Summary()
	s.search = newSearch(fill.Run.Search, w.Options().Batch, &sum)
	for _, r := range t.resumes[1:] {
		t := r.Trial()
		s.trials = max(s.trials, t.Number)
		if t.Verdict == result.VerdictNone || r.End.Search == nil {
			continue
		}
		rate, purpose, ok := s.search.Next()
		if !ok || purpose != t.Purpose || math.Abs(rate-t.Rate) > 1e-6*rate {
			return nil, fmt.Errorf("its trial %d, of %.0f rows/s, is not the one that this version of rowmill would have made there, of %.0f", t.Number, t.Rate, rate)
		}
		s.search.Tell(t.Pass, t.Close, t.Done)
	}
	return s, nil
}

// resume takes over the table and continues the search.
func (s *rateSearch) resume(ctx context.Context) error {
	r, runs := s.fill, s.fill.trial.resumes
	// The last run that was completed has the latest results.
	var known *result.Searched
	for _, run := range runs {
		if run.End != nil && run.End.Search != nil {
			known = run.End.Search
		}
	}
	got, err := r.takeOver(ctx, runs[0], 0, " of about "+rows(known.Inserted))
	if err != nil {
		return err
	}
	if was := got.Rows - got.Refilled; was < known.Inserted {
		return engine.Hinted(fmt.Errorf("the table held %s, and %s acknowledged: it is another table, or rows were lost", rows(was), figure.Plural(known.Inserted, "was", "were")), "begin again, without --resume")
	}
	s.inserted = got.Rows
	r.env.Show.Note(fmt.Sprintf("continuing after trial %d with %s rows; %s", s.trials, figure.Count(got.Rows), s.known()))
	return s.goOn(ctx)
}
