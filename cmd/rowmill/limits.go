package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
)

// limitFlags are the flags of the verbs that copy rows.
type limitFlags struct {
	running  int
	lag      time.Duration
	replicas []string
}

func (f *limitFlags) define(flags *pflag.FlagSet) {
	flags.IntVar(&f.running, "max-running", 0, "copy rows only while fewer statements run on the server; 0 is any number (default 0)")
	flags.DurationVar(&f.lag, "max-lag", 0, "copy rows only while no --replica is further behind; 0s is any lag (default 0s)")
	flags.StringArrayVar(&f.replicas, "replica", nil, "`URL` of a replica whose delay is measured; may be given several times")
}

// check returns an error if the flags are invalid. shown is whether delays are shown elsewhere, without a limit.
func (f *limitFlags) check(shown bool) error {
	const example = "--replica mariadb://reader@db2:3306/metrics"
	if f.running < 0 {
		return usagef("--max-running 20", "--max-running %d: want 0, which is any number, or more", f.running)
	}
	if f.lag < 0 {
		return usagef("--max-lag 10s", "--max-lag %s: want 0s, which is any lag, or more", f.lag)
	}
	if f.lag > 0 && len(f.replicas) == 0 {
		return usagef(example, "--max-lag %s: name each replica whose lag counts with --replica URL", f.lag)
	}
	if f.lag == 0 && !shown && len(f.replicas) > 0 {
		return usagef("--max-lag 10s", "--replica: its delay would not be used")
	}
	names := map[string]bool{}
	for _, text := range f.replicas {
		name := target.ReplicaName(text)
		if err := target.CheckReplica(text); err != nil {
			return usagef(example, "--replica: %w", err)
		}
		if names[name] {
			return usagef("each replica once", "--replica: %s is named twice", name)
		}
		names[name] = true
	}
	return nil
}

// A lagWatch measures the delay of replicas for as long as rows may be copied.
type lagWatch struct {
	copier.Limits
	app      *app
	delays   *probe.Delays // nil without replicas
	replicas target.Replicas
}

// watchTables is watchReplicas for tables of one server.
func (a *app) watchTables(ctx context.Context, f limitFlags, tables []*declared.Table) (*lagWatch, error) {
	if len(f.replicas) == 0 || len(tables) == 0 {
		return a.watchReplicas(ctx, limitFlags{running: f.running}, nil)
	}
	source := tables[0].DB
	for _, k := range tables {
		if first, other := source.Info().Target, k.DB.Info().Target; first != other {
			return nil, usagef("one rowmill run for each target", "--replica: of which target is it a replica, %s or %s?", first, other)
		}
	}
	return a.watchReplicas(ctx, f, source)
}

// watchReplicas begins to measure the replicas of a source. One that can't be reached is behind until it can.
func (a *app) watchReplicas(ctx context.Context, f limitFlags, source engine.Keeper) (_ *lagWatch, err error) {
	w := &lagWatch{app: a, Limits: copier.Limits{Running: f.running}}
	if len(f.replicas) == 0 {
		return w, nil
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	w.replicas, err = target.OpenReplicas(ctx, source, f.replicas, a.logLine, func(err error) {
		a.logLine(fmt.Sprintf("%s will be tried again: %v", stamp(time.Now()), err))
	})
	if errors.Is(err, target.ErrNoReplica) {
		return nil, usagef("the URL of a replica of "+source.Info().Target, "--replica: %w", err)
	}
	if err != nil {
		return nil, err
	}
	var all []probe.Replica
	for _, r := range w.replicas {
		all = append(all, probe.Replica{Name: target.ReplicaName(r.Text), Open: r.Open})
	}
	if w.delays, err = probe.NewDelays(ctx, source, all, probe.Coarse); err != nil {
		return nil, err
	}
	if f.lag > 0 {
		w.Behind = func() string {
			why := w.delays.Exceeded(f.lag)
			if why != "" {
				why = "replica " + why
			}
			return why
		}
	}
	return w, nil
}

// behind returns how far each replica is behind, by its name.
func (w *lagWatch) behind() map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, d := range w.delays.Now() {
		out[d.Replica] = d.Behind
	}
	return out
}

// Close ends the measuring before the source is closed. A heartbeat that can't be removed is a warning in the log.
func (w *lagWatch) Close() {
	var errs []error
	if w.delays != nil {
		errs = append(errs, w.delays.Close())
	}
	errs = append(errs, w.replicas.Close())
	if err := errors.Join(errs...); err != nil {
		w.app.logLine(fmt.Sprintf("%s warning: %v", stamp(time.Now()), err))
	}
}
