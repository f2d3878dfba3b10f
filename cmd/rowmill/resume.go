package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A resumption is the remaining work of a recorded command.
type resumption struct {
	f       benchFlags
	command []string
	// recs are the record's runs. The last one is continued if it was interrupted.
	recs  []result.Record
	going plannedRun // the last recorded run, as planned
	left  []plannedRun
}

// ownFlags are the flags that a resumption takes from its own command line.
var ownFlags = []string{"resume", "html", "png", "md", "json"}

// newResumption determines the remaining work of a recorded command. given are the
// flags of the resumption itself.
func newResumption(ctx context.Context, given *pflag.FlagSet, f benchFlags) (*resumption, error) {
	path := f.resume
	refuse := func(hint, format string, args ...any) error {
		return usagef(hint, "--resume %s: %w", path, fmt.Errorf(format, args...))
	}
	recs, err := readRuns(ctx, path)
	if err != nil {
		return nil, refuse("the command that was to write it, once more", "%w", err)
	}
	r := &resumption{recs: recs, command: recs[0].Run.Command}
	flags, err := r.f.takeRecorded(r.command)
	if err != nil {
		return nil, refuse("a record of rowmill bench insert, and the rowmill that wrote it, version "+recs[0].Run.Rowmill, "%w", err)
	}
	for i := range recs {
		if !slices.Equal(recs[i].Run.Command, r.command) {
			return nil, refuse("a record of one command", "it holds runs of several commands")
		}
	}
	var clash error
	given.Visit(func(g *pflag.Flag) {
		was := flags.Lookup(g.Name)
		switch {
		case clash != nil || slices.Contains(ownFlags, g.Name):
			if slices.Contains(ownFlags[1:], g.Name) && clash == nil {
				clash = flags.Set(g.Name, g.Value.String())
			}
		case was == nil || was.Value.String() != g.Value.String():
			clash = refuse("the flag left out, or a run of its own with another --out",
				"--%s %s: the flags come from the record, where it is %s", g.Name, g.Value, orNone(was))
		}
	})
	if clash != nil {
		return nil, clash
	}
	r.f.out = path
	if err := r.f.check(); err != nil {
		return nil, err
	}
	if err := r.plan(path); err != nil {
		return nil, err
	}
	return r, nil
}

func orNone(f *pflag.Flag) string {
	if f == nil || f.Value.String() == "" {
		return "not given"
	}
	return f.Value.String()
}

// plan determines which runs remain, and whether they are possible.
func (r *resumption) plan(path string) error {
	all := r.f.planned()
	if len(r.recs) > len(all) {
		return usagef("a record of one command", "--resume %s: it holds %s, and its command makes %d", path, plural(len(r.recs), "run"), len(all))
	}
	for i := range r.recs {
		run := &r.recs[i].Run
		if run.Layout != all[i].layout || run.Repeat != all[i].repeat {
			return usagef("a record that nobody has edited", "--resume %s: its run %d, %q, is not the one that its command makes", path, i+1, run.Name)
		}
		if r.recs[i].Broken() && i < len(r.recs)-1 {
			return usagef("the command of the record once more", "--resume %s: its run %d, %q, is not the last and did not come to its end", path, i+1, run.Name)
		}
	}
	r.going, r.left = all[len(r.recs)-1], all[len(r.recs):]
	broken := r.broken()
	if broken == nil {
		return nil
	}
	if err := r.mustBeThere(path); err != nil {
		return err
	}
	db, err := target.Dry(r.f.target)
	if err != nil {
		return usagef(hintOf(err), "--target: %w", err)
	}
	w, err := workload.NewInsert(db, r.f.insertOptions(broken.Run.Layout))
	if err == nil {
		err = w.CanResume()
	}
	if err != nil {
		return usagef(hintOf(err), "--resume %s: %w", path, err)
	}
	return nil
}

// broken returns the run to be continued; nil if all runs that began were completed.
func (r *resumption) broken() *result.Record {
	if last := &r.recs[len(r.recs)-1]; last.Broken() {
		return last
	}
	return nil
}

// mustBeThere refuses a target that was removed with its run.
func (r *resumption) mustBeThere(path string) error {
	c := rerunConfig{f: r.f}
	if c.private() {
		return usagef("next time a target that stays: sqlite:PATH, or &keep=DIR for a sandbox",
			"--resume %s: its target, %s, was made for the run and is gone with it", path, r.f.target)
	}
	if err := target.Check(r.f.target); err != nil {
		return usagef(hintOf(err), "--target: %w", err)
	}
	file := target.Place(r.f.target)
	if file == "" {
		return nil
	}
	if _, err := os.Stat(file); err != nil {
		return usagef("the working directory of the run, or the command of the record once more",
			"--resume %s: the database is not there any more: %w", path, err)
	}
	return nil
}

// resumeInsert continues the interrupted run of a record, and executes the remaining
// ones.
func (a *app) resumeInsert(ctx context.Context, f benchFlags, given *pflag.FlagSet) error {
	if recs, err := readRuns(ctx, f.resume); err == nil && recs[0].Run.Search != nil {
		return a.resumeSearch(ctx, f, given, recs)
	}
	r, err := newResumption(ctx, given, f)
	if err != nil {
		return err
	}
	broken := r.broken()
	if broken == nil && len(r.left) == 0 {
		fmt.Fprintf(a.stderr, "--resume %s: all of its runs came to their end: there is nothing to do\n", f.resume)
		return nil
	}
	out, err := appendRecord(f.resume)
	if err != nil {
		return err
	}
	recs := r.recs
	if broken != nil {
		recs = recs[:len(recs)-1]
	}
	show := a.newProgress(ctx)
	one := func(p plannedRun, resumes *result.Record) error {
		run := p.insertRun(r.f, r.command, out, show)
		run.resumes = resumes
		rec, err := run.run(ctx)
		if rec != nil {
			recs = append(recs, *rec)
		}
		if err == nil && ctx.Err() != nil {
			err = errInterrupted
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		return nil
	}
	if broken != nil {
		err = one(r.going, broken)
	}
	for _, p := range r.left {
		if err == nil {
			err = one(p, nil)
		}
	}
	show.Close()
	if len(recs) == 0 {
		return errors.Join(err, out.close())
	}
	return errors.Join(err, out.close(), a.writeReports(r.f.reports, recs))
}

// resume takes over the tables, and records in the measurement where the run
// continues.
func (r *insertRun) resume(ctx context.Context) error {
	was := r.resumes
	o := r.f.insertOptions(r.layout)
	if r.layout == workload.Rolling {
		o.PeriodRows = was.Run.PeriodRows
	}
	var err error
	if r.w, err = workload.NewInsert(r.db, o); err != nil {
		return err
	}
	if err := r.w.Measure(ctx); err != nil {
		return err
	}
	r.show.Note("reading what the table holds, to go on from there")
	said := time.Now()
	got, err := r.w.Resume(ctx, r.f.rows, func(rows int64) {
		if time.Since(said) > verifyNote {
			said = time.Now()
			r.show.Note("reading the table: " + plural(rows, "row"))
		}
	})
	if err != nil {
		return err
	}
	rows, seconds := was.Done()
	tail := was.Unrecorded(got.Rows - rows)
	from := result.Resumes{
		Rows: got.Rows, Seconds: seconds + tail, Stopped: was.Stopped(),
		PausedSeconds: max(0, time.Since(was.Last()).Seconds()-tail), Refilled: got.Refilled,
		Missing: max(0, rows-(got.Found+got.Dropped)),
	}
	r.earlier, r.from = was, from
	text := "going on at " + plural(got.Rows, "row")
	if got.Refilled > 0 {
		text += fmt.Sprintf(", after %d missing ones were inserted", got.Refilled)
	}
	r.show.Note(text)
	return nil
}
