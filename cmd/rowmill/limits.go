package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/target"
)

// limitFlags are the flags of the verbs that copy rows.
type limitFlags struct {
	running, critical int
	lag               time.Duration
	replicas          []string
	query, file       string
	nice              float64
}

func (f *limitFlags) define(flags *pflag.FlagSet) {
	cli.IntWithin(flags, &f.running, "max-running", 0, 0, math.MaxInt32, "copy rows only while fewer than `N` statements run on the server; 0 is any number (default 0)")
	cli.IntWithin(flags, &f.critical, "critical-running", 0, 0, math.MaxInt32, "stop once `N` statements run on the server; the next start continues; 0 is never (default 0)")
	flags.DurationVar(&f.lag, "max-lag", 0, "copy rows so that no --replica falls further behind than this; 0s allows any lag (default 0s)")
	flags.StringArrayVar(&f.replicas, "replica", nil, "`URL` of a replica whose delay is measured; may be given several times")
	flags.StringVar(&f.query, "throttle-query", "", "copy rows only while this `SQL` returns no row, NULL, 0 or an empty text")
	flags.StringVar(&f.file, "throttle-file", "", "copy rows only while this `FILE` doesn't exist")
	flags.Float64Var(&f.nice, "nice", 0, "after each chunk of rows, rest this many times as long as the chunk took (default 0)")
}

// given reports whether any limit is set.
func (f *limitFlags) given() bool {
	return f.running > 0 || f.critical > 0 || f.lag > 0 || len(f.replicas) > 0 || f.query != "" || f.file != "" || f.nice > 0
}

// check returns an error if the flags are invalid. shown means that the delays of replicas are
// exported as metrics, so that measuring them is of use even without a limit.
func (f *limitFlags) check(shown bool) error {
	const example = "--replica mariadb://reader@db2:3306/metrics"
	switch {
	case f.critical > 0 && f.critical <= f.running:
		return cli.Usagef("--critical-running 100", "--critical-running %d: want more than --max-running, or 0, which is never", f.critical)
	case !(f.nice >= 0 && f.nice <= 100):
		return cli.Usagef("--nice 1", "--nice %v: want 0 to 100", f.nice)
	case f.lag < 0:
		return cli.Usagef("--max-lag 10s", "--max-lag %s: want 0s, which allows any lag, or more", f.lag)
	case f.lag > 0 && len(f.replicas) == 0:
		return cli.Usagef(example, "--max-lag %s: name each replica whose lag counts with --replica URL", f.lag)
	case f.lag == 0 && !shown && len(f.replicas) > 0:
		return cli.Usagef("--max-lag 10s", "--replica: its delay would not be used")
	}
	names := map[string]bool{}
	for _, text := range f.replicas {
		name := target.ReplicaName(text)
		if err := target.CheckReplica(text); err != nil {
			return cli.Usagef(example, "--replica: %w", err)
		}
		if names[name] {
			return cli.Usagef("each replica once", "--replica: %s is named twice", name)
		}
		names[name] = true
	}
	return nil
}

// A lagWatch measures the delay of replicas for as long as rows may be copied.
type lagWatch struct {
	copier.Limits
	app      *app
	flags    limitFlags
	delays   *probe.Delays // nil without replicas
	replicas target.Replicas
}

// watchTables is watchReplicas for the tables of one server, without replicas if there are none.
func (a runner) watchTables(ctx context.Context, f limitFlags, tables []*declared.Table) (*lagWatch, error) {
	if len(f.replicas) == 0 || len(tables) == 0 {
		f.replicas = nil
		return a.watchReplicas(ctx, f, nil)
	}
	source := tables[0].DB
	for _, k := range tables {
		if first, other := source.Info().Target, k.DB.Info().Target; first != other {
			return nil, cli.Usagef("one rowmill run for each target", "--replica: of which target is it a replica, %s or %s?", first, other)
		}
	}
	return a.watchReplicas(ctx, f, source)
}

// watchReplicas begins to measure the delays of the replicas of a source. A replica that can't be
// reached counts as behind.
func (a *app) watchReplicas(ctx context.Context, f limitFlags, source engine.Keeper) (_ *lagWatch, err error) {
	w := &lagWatch{app: a, flags: f, Limits: copier.Limits{Running: f.running, Critical: f.critical, Nice: f.nice}}
	if f.file != "" {
		w.Waits = append(w.Waits, func(context.Context) (string, error) { return fileThere(f.file) })
	}
	if len(f.replicas) == 0 {
		return w, nil
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	w.replicas, err = target.OpenReplicas(ctx, source, f.replicas, a.LogLine, func(err error) {
		a.Log("will be tried again: %v", err)
	})
	if errors.Is(err, target.ErrNoReplica) {
		return nil, cli.Usagef("the URL of a replica of "+source.Info().Target, "--replica: %w", err)
	}
	if err != nil {
		return nil, err
	}
	var all []probe.Replica
	for _, r := range w.replicas {
		all = append(all, probe.Replica{Name: target.ReplicaName(r.Text), Open: r.Open})
	}
	pace := probe.Coarse
	if f.lag > 0 {
		pace.Beat = min(pace.Beat, max(f.lag/25, leastBeat))
		pace.Poll = min(pace.Poll, pace.Beat/2)
		w.Piece = f.lag / lagPieces
		w.Lag = func() string {
			why := w.delays.Exceeded(f.lag / 2)
			if why != "" {
				why = "half of --max-lag is reached: replica " + why
			}
			return why
		}
	}
	if w.delays, err = probe.NewDelays(ctx, source, all, pace); err != nil {
		return nil, err
	}
	return w, nil
}

const (
	leastBeat = 20 * time.Millisecond
	// lagPieces is the number of chunks that are copied one after the other in the time of --max-lag:
	// a chunk takes a tenth of that time. A chunk adds to the delay, because a replica applies it only
	// after its commit. Therefore copying already pauses at half of --max-lag.
	lagPieces = 10
)

// limits returns the limits for one table: --throttle-query runs on the table's server.
func (w *lagWatch) limits(db engine.Keeper) copier.Limits {
	l := w.Limits
	if f := w.flags; f.query != "" {
		l.Waits = append(slices.Clone(l.Waits), func(ctx context.Context) (string, error) { return throttled(ctx, db, f.query) })
	}
	return l
}

// fileThere returns a reason to wait while a file exists, else "".
func fileThere(file string) (string, error) {
	switch _, err := os.Stat(file); {
	case err == nil:
		return "file " + file + " exists", nil
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	default:
		return "", err
	}
}

// throttled runs --throttle-query, and returns a reason to wait, or "".
func throttled(ctx context.Context, db engine.Keeper, query string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, throttleTimeout)
	defer cancel()
	var v sql.NullString
	err := db.SQL().QueryRowContext(ctx, query).Scan(&v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("--throttle-query: %w", db.Classify(err))
	case !v.Valid || v.String == "" || v.String == "0" || v.String == "false":
		return "", nil
	}
	return fmt.Sprintf("--throttle-query returns %.40q", v.String), nil
}

const throttleTimeout = 10 * time.Second

// behind returns how far each replica is behind, by its name.
func (w *lagWatch) behind() map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, d := range w.delays.Now() {
		out[d.Replica] = d.Behind
	}
	return out
}

// Close ends the measuring. It must be called before the source is closed. A failure, such as a
// heartbeat that can't be removed, is a warning in the log.
func (w *lagWatch) Close() {
	var errs []error
	if w.delays != nil {
		errs = append(errs, w.delays.Close())
	}
	errs = append(errs, w.replicas.Close())
	if err := errors.Join(errs...); err != nil {
		w.app.Log("warning: %v", err)
	}
}
