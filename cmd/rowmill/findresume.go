package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// resumeSearch continues the searches of a record, and reports all of them. given are
// the flags of the resuming command itself.
func (a *app) resumeSearch(ctx context.Context, f benchFlags, given *pflag.FlagSet, recs []result.Record) error {
	f.out = f.resume
	if err := f.checkFiles("rowmill bench insert --resume " + f.resume); err != nil {
		return err
	}
	var err error
	given.Visit(func(g *pflag.Flag) {
		if err == nil && !slices.Contains(ownFlags, g.Name) {
			err = usagef("rowmill bench insert --resume RUN.jsonl", "--resume takes the flags of a search from its record, so --%s can't be given; only --%s can",
				g.Name, strings.Join(ownFlags[1:], ", --"))
		}
	})
	if err != nil {
		return err
	}
	recs, err = a.continueSearches(ctx, f.resume, recs)
	return errors.Join(err, a.writeReports(f.reports, recs))
}

// continueSearches continues the searches of a record: first the interrupted one, on
// the table that it left, then those that had not begun. It returns the existing
// records and the new ones.
func (a *app) continueSearches(ctx context.Context, path string, recs []result.Record) (_ []result.Record, err error) {
	var f benchFlags
	args := recs[0].Run.Command
	if _, err = f.takeRecorded(args); err == nil {
		f.out, f.reports = "", reportFlags{}
		err = errors.Join(f.check(), f.tryOut())
	}
	if err != nil {
		return recs, usagef("rowmill bench insert --find-rate --out RUN.jsonl", "--resume %s: %w", path, err)
	}
	all := f.planned()
	searches := result.Searches(recs)
	last := searches[len(searches)-1]
	done := ended(last)
	if done && len(searches) >= len(all) {
		return recs, usagef("rowmill report "+path, "--resume %s: its search has come to its end", path)
	}
	var going *rateSearch
	at := all[min(len(searches), len(all))-1]
	if !done {
		if going, err = resumedSearch(f, args, at, last); err != nil {
			return recs, usagef("rowmill bench insert --find-rate --out RUN.jsonl", "--resume %s: %w", path, err)
		}
	}
	out, err := appendRecord(path)
	if err != nil {
		return recs, err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	show := a.newProgress(ctx)
	defer show.Close()
	step := func(what plannedRun, run func() ([]result.Record, error)) error {
		made, err := run()
		recs = append(recs, made...)
		if err == nil && ctx.Err() != nil {
			err = errInterrupted
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	if going != nil {
		going.fill.out, going.fill.show = out, show
		if err := step(at, func() ([]result.Record, error) { return going.resume(ctx, last) }); err != nil {
			return recs, err
		}
	}
	for _, at := range all[len(searches):] {
		r := at.insertRun(f, args, out, show)
		if err := step(at, func() ([]result.Record, error) { return newRateSearch(r).run(ctx) }); err != nil {
			return recs, err
		}
	}
	return recs, nil
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

// resumedSearch reconstructs an interrupted search from its trials. It accesses no
// database.
func resumedSearch(f benchFlags, args []string, at plannedRun, runs []*result.Record) (*rateSearch, error) {
	fill := runs[0]
	if fill.Run.Layout != at.layout {
		return nil, fmt.Errorf("its last search is of layout %s, its command makes %s there", fill.Run.Layout, at.layout)
	}
	if fill.End == nil || fill.End.Stopped != bench.StoppedRows || fill.End.Search == nil {
		return nil, errors.New("the table was not yet filled, so there is nothing to go on from")
	}
	if target.Private(f.target) {
		scheme, _, _ := strings.Cut(f.target, ":")
		return nil, fmt.Errorf("its table was in a private %s that is gone; only one of a server, of sqlite:PATH or of a sandbox with keep=DIR is still there", scheme)
	}
	if f.keepPeriods > 0 {
		return nil, errors.New("a table whose oldest periods are dropped can't be taken over")
	}
	db, err := target.Dry(f.target)
	if err != nil {
		return nil, err
	}
	w, err := workload.NewInsert(db, f.insertOptions(at.layout))
	if err != nil {
		return nil, err
	}
	s := newRateSearch(at.insertRun(f, args, nil, nil))
	sum := fill.Summary()
	s.search = newSearch(fill.Run.Search, w.Options().Batch, &sum)
	for _, r := range runs[1:] {
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
func (s *rateSearch) resume(ctx context.Context, runs []*result.Record) (_ []result.Record, err error) {
	r := s.fill
	if s.db, err = target.Open(ctx, r.f.target, r.show.Note); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	r.db = s.db
	// The last run that was completed has the latest results.
	var known *result.Searched
	for _, run := range runs {
		if run.End != nil && run.End.Search != nil {
			known = run.End.Search
		}
	}
	o := r.f.insertOptions(r.layout)
	o.PeriodRows = runs[0].Run.PeriodRows
	if s.w, err = workload.NewInsert(s.db, o); err != nil {
		return nil, err
	}
	r.w = s.w
	r.show.Note("reading what the table holds, to go on from there")
	said := time.Now()
	got, err := s.w.Resume(ctx, 0, func(rows int64) {
		if time.Since(said) > verifyNote {
			said = time.Now()
			r.show.Note(fmt.Sprintf("reading the table: %s of about %s", figure.Count(rows), plural(known.Inserted, "row")))
		}
	})
	if err != nil {
		return nil, err
	}
	if was := got.Rows - got.Refilled; was < known.Inserted {
		return nil, engine.Hinted(fmt.Errorf("the table held %s, and %s acknowledged: it is another table, or rows were lost", plural(was, "row"), figure.Plural(known.Inserted, "was", "were")), "begin anew, without --resume")
	}
	found := got.Rows
	s.inserted = found
	r.show.Note(fmt.Sprintf("going on after trial %d with %s rows; %s", s.trials, figure.Count(found), s.known()))
	return s.goOn(ctx)
}
