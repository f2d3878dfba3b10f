package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A rerun holds the runs of `rowmill compare --repeat`: the configurations of both
// sides, which are run alternately.
type rerun struct {
	f     compareFlags
	sides [2][]rerunConfig
}

// A rerunConfig is one configuration of one side.
type rerunConfig struct {
	f       benchFlags
	side    string
	command []string // as recorded
	run     result.Run
	tables  []string
}

// newRerun determines the runs from the records, and refuses configurations that can't
// be run again. It opens no database.
func newRerun(f compareFlags, before, after []result.Record) (*rerun, error) {
	if f.out != "" {
		if st, err := os.Stat(filepath.Dir(f.out)); err != nil || !st.IsDir() {
			return nil, usagef("mkdir -p "+filepath.Dir(f.out), "--out %s: there is no folder %s", f.out, filepath.Dir(f.out))
		}
	}
	out := &rerun{f: f}
	for i, recs := range [][]result.Record{before, after} {
		side := []string{"A", "B"}[i]
		for _, group := range report.Repeats(recs) {
			c, err := newRerunConfig(&group[0])
			if err != nil {
				return nil, usagef("the commands by hand, with --out, and compare their records",
					"--repeat: %q of %s can't be run again: %w", group[0].Run.Name, group[0].Source, err)
			}
			c.side = side
			out.sides[i] = append(out.sides[i], c)
		}
	}
	return out, nil
}

// newRerunConfig parses the flags of a recorded command.
func newRerunConfig(rec *result.Record) (c rerunConfig, err error) {
	c.command, c.run = rec.Run.Command, rec.Run
	if _, err := c.f.takeRecorded(c.command); err != nil {
		return c, err
	}
	if c.f.find.on {
		return c, errors.New("it is a search for a rate; --repeat of rowmill bench insert makes several")
	}
	if !slices.Contains(c.f.layouts, rec.Run.Layout) {
		return c, fmt.Errorf("its command doesn't make its layout, %q", rec.Run.Layout)
	}
	// One layout at a time, without the output files of the first run.
	c.f.layouts, c.f.repeat = []string{rec.Run.Layout}, 1
	c.f.out, c.f.reports, c.f.printSQL, c.f.dropExisting = "", reportFlags{}, false, true
	if rec.Run.Layout == workload.Plain {
		c.f.periodRows, c.f.keepPeriods = 0, 0
	}
	if err := errors.Join(c.f.check(), c.f.tryOut()); err != nil {
		return c, err
	}
	db, err := target.Dry(c.f.target)
	if err != nil {
		return c, err
	}
	w, err := workload.NewInsert(db, c.f.insertOptions(rec.Run.Layout))
	if err != nil {
		return c, err
	}
	for _, t := range w.Tables() {
		c.tables = append(c.tables, t.Name)
	}
	return c, nil
}

// private reports whether the target is created for each run and removed afterwards,
// so that it can't hold a user's table.
func (c *rerunConfig) private() bool { return target.Private(c.f.target) }

// same reports whether two configurations are the same command.
func (c *rerunConfig) same(d *rerunConfig) bool {
	x, y := c.f, d.f
	return c.run.Layout == d.run.Layout && strings.Join(x.layouts, ",") == strings.Join(y.layouts, ",") &&
		x.target == y.target && x.preset == y.preset && x.method == y.method && x.rows == y.rows && x.maxTime == y.maxTime &&
		x.interval == y.interval && x.writers == y.writers && x.batch == y.batch && x.indexes == y.indexes && x.indexesGiven == y.indexesGiven &&
		x.rate == y.rate && x.seed == y.seed && x.periodRows == y.periodRows && x.keepPeriods == y.keepPeriods &&
		x.tablePerWriter == y.tablePerWriter && x.tablePerWriterGiven == y.tablePerWriterGiven && x.noVerify == y.noVerify &&
		x.killEvery == y.killEvery && x.keepRows == y.keepRows && x.readers == y.readers && x.readAfter == y.readAfter
}

// plan describes the runs, their targets, and the tables that are dropped there.
func (r *rerun) plan() string {
	var b strings.Builder
	n := len(r.sides[0]) + len(r.sides[1])
	fmt.Fprintf(&b, "Runs %d benchmarks, %d of each configuration, in turn, side A first in every other round:\n", n*r.f.repeat, r.f.repeat)
	for i := range r.sides {
		for _, c := range r.sides[i] {
			fmt.Fprintf(&b, "\n  %s  %s layout %s, recorded as: rowmill %s\n", c.side, c.run.Preset, c.run.Layout, shellWords(c.command))
			fmt.Fprintf(&b, "     on %s", c.f.target)
			if c.private() {
				fmt.Fprintln(&b, ", made for each run and removed afterwards")
			} else {
				fmt.Fprintf(&b, "\n     DROPS there, with all rows, and makes anew for each run: %s\n", strings.Join(c.tables, ", "))
			}
		}
	}
	fmt.Fprintln(&b)
	for i := range r.sides[0] {
		for j := range r.sides[1] {
			if x, y := &r.sides[0][i], &r.sides[1][j]; x.same(y) {
				fmt.Fprintf(&b, "! A and B run the same command for layout %s: what differed between the records,\n"+
					"  such as the server's settings, can't be repeated; this compares a configuration with itself.\n", x.run.Layout)
			}
		}
	}
	for i := range r.sides {
		if v := r.sides[i][0].run.Rowmill; v != "" && v != versionString() {
			fmt.Fprintf(&b, "! %s was recorded by rowmill %s; this is %s.\n", r.sides[i][0].side, v, versionString())
		}
	}
	if r.f.out == "" {
		fmt.Fprintln(&b, "! The records of these runs are not kept: --out FILE keeps them.")
	}
	return b.String()
}

// shellWords quotes arguments for a shell.
func shellWords(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`&|;<>()*?[]{}~#!") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// round returns the configurations in the order of the first round, in which
// configurations to be compared are adjacent.
func (r *rerun) round() []rerunConfig {
	var out []rerunConfig
	for i := range max(len(r.sides[0]), len(r.sides[1])) {
		for _, side := range r.sides {
			if i < len(side) {
				out = append(out, side[i])
			}
		}
	}
	return out
}

// rerun executes the runs and returns the records of those that began, by side. It
// stops at the first failure.
func (a *app) rerun(ctx context.Context, r *rerun) (before, after []result.Record, err error) {
	out, err := openRecord(r.f.out)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	show := a.newProgress(ctx)
	defer show.Close()
	for round := range r.f.repeat {
		for _, c := range inTurn(r.round(), round) {
			one := &insertRun{f: c.f, layout: c.run.Layout, args: c.command, measurement: measurement{out: out, show: show, interval: c.f.interval},
				repeat: round + 1, repeats: r.f.repeat, side: c.side}
			rec, err := one.run(ctx)
			if rec != nil {
				if rec.Source = r.f.out; rec.Source == "" {
					rec.Source = "run again"
				}
				if c.side == "A" {
					before = append(before, *rec)
				} else {
					after = append(after, *rec)
				}
			}
			if err == nil && ctx.Err() != nil {
				err = errInterrupted
			}
			if err != nil {
				return before, after, fmt.Errorf("%s, layout %s, repeat %d: %w", c.side, c.run.Layout, round+1, err)
			}
		}
	}
	return before, after, nil
}
