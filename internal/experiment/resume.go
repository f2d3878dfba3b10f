package experiment

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/experiment/record"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/result"
)

// A Resumption is an experiment that a record's file holds in part.
type Resumption struct {
	Path string
	Spec *Spec
	// Recs are the runs in the file. The last one is continued if it was interrupted.
	Recs []result.Record
	// left are the trials to make. The first may continue recorded runs.
	left []Trial
}

func (r *Resumption) refuse(hint, format string, args ...any) error {
	return refuse(hint, "--resume %s: %w", r.Path, fmt.Errorf(format, args...))
}

func readResumption(ctx context.Context, path, workload string) (r *Resumption, err error) {
	r = &Resumption{Path: path}
	if r.Recs, err = record.Read(ctx, path); err != nil {
		return nil, engine.Hinted(fmt.Errorf("--resume %s: %w", path, err), "run the command that writes it again")
	}
	first := &r.Recs[0].Run
	if r.Spec, err = Recorded(first); err != nil {
		return nil, r.refuse(cmp.Or(engine.HintOf(err), "the rowmill that wrote it, version "+first.Rowmill), "%w", err)
	}
	if r.Spec.Workload != workload {
		return nil, r.refuse("rowmill report "+path, "its runs are of bench %s, not of bench %s", r.Spec.Workload, workload)
	}
	for i := range r.Recs {
		if !bytes.Equal(r.Recs[i].Run.Spec, first.Spec) {
			return nil, r.refuse("a record of one command", "it holds runs of several commands")
		}
	}
	return r, r.Spec.Validate()
}

// ResumeInsert plans the rest of the insert experiment of a record, and refuses an experiment that
// can't be continued. It opens no database.
func ResumeInsert(ctx context.Context, path string) (*Resumption, error) {
	r, err := readResumption(ctx, path, Insert)
	if err != nil {
		return nil, refuse(engine.HintOf(err), "%w", err)
	}
	all, made := r.Spec.trials(), r.made()
	if len(made) > len(all) {
		return nil, r.refuse("a record of one command", "it holds %s, and its spec makes %d", figure.Plural(len(made), "run"), len(all))
	}
	for i, runs := range made {
		run := &runs[0].Run
		if run.Layout != all[i].layout() || run.Repeat != all[i].Repeat {
			return nil, r.refuse("a record that was not edited", "its run %d, %q, is not the one that its spec makes", i+1, run.Name)
		}
		if !r.Spec.FindRate && runs[0].Broken() && i < len(made)-1 {
			return nil, r.refuse("run the recorded command again", "its run %d, %q, is not the last and was not completed", i+1, run.Name)
		}
	}
	r.left = all[len(made):]
	last := made[len(made)-1]
	complete := !last[0].Broken()
	if r.Spec.FindRate {
		complete = ended(last)
	}
	if !complete {
		r.left = all[len(made)-1:]
		r.left[0].resumes = last
		return r, r.canContinue(&r.left[0])
	}
	if r.Spec.FindRate && len(r.left) == 0 {
		return nil, r.refuse("rowmill report "+path, "its search is complete")
	}
	return r, nil
}

// made returns the runs in the file by trial: a single run, or all runs of a search.
func (r *Resumption) made() (out [][]*result.Record) {
	if r.Spec.FindRate {
		return result.Searches(r.Recs)
	}
	for i := range r.Recs {
		out = append(out, []*result.Record{&r.Recs[i]})
	}
	return out
}

// canContinue refuses an interrupted trial whose tables are gone or can't be taken over.
func (r *Resumption) canContinue(t *Trial) error {
	if target.Private(t.Spec.Target()) {
		return r.refuse("next time a target that stays: "+target.Default+"PATH, or &keep=DIR for a sandbox",
			"its target, %s, was created for the run and removed with it", t.Spec.Target())
	}
	if place := target.Place(t.Spec.Target()); place != "" {
		if _, err := os.Stat(place); err != nil {
			return r.refuse("the working directory of the run, or run the recorded command again", "the database no longer exists: %w", err)
		}
	}
	w, err := t.Spec.dryInsert(t.layout())
	if err == nil {
		err = w.CanResume()
	}
	if err == nil && t.Spec.FindRate {
		_, err = (&Env{}).newRateSearch(t)
	}
	if err != nil {
		return r.refuse(cmp.Or(engine.HintOf(err), "run the recorded command again"), "%w", err)
	}
	return nil
}

// Left returns the number of trials that are to be made or continued.
func (r *Resumption) Left() int { return len(r.left) }

// Run makes the rest of the experiment and returns the records of all of it.
func (r *Resumption) Run(ctx context.Context, env *Env) ([]result.Record, error) {
	env.Command = r.Recs[0].Run.Command
	recs := r.Recs
	if len(r.left) > 0 && r.left[0].resumes != nil && !r.Spec.FindRate {
		recs = recs[:len(recs)-1] // trials returns the continued run as a whole
	}
	made, err := env.trials(ctx, r.left)
	return append(recs, made...), err
}
