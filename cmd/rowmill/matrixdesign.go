package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A matrixDesign holds the runs of a matrix and their order.
type matrixDesign struct {
	f       *matrixFlags
	factors []result.Factor
	leftOut []result.LeftOut
	// runs are all runs, in the order of execution.
	runs []cellRun
}

// A cellRun is one run of a cell.
type cellRun struct {
	f      benchFlags
	layout string
	repeat int
	cell   *result.Cell
}

// newMatrixDesign combines the lists, leaves out the combinations that the engine
// doesn't support, and refuses invalid ones.
func newMatrixDesign(f *matrixFlags) (*matrixDesign, error) {
	d := &matrixDesign{f: f}
	db, err := target.Dry(f.target)
	if err != nil {
		return nil, usagef(hintOf(err), "--target: %w", err)
	}
	caps, name := db.Capabilities(), db.Info().Engine
	var methods []string
	for _, m := range caps.Methods {
		methods = append(methods, string(m))
	}
	for _, l := range f.lists() {
		if len(l.levels) == 0 {
			continue // --durability isn't varied
		}
		factor := result.Factor{Name: l.name}
		for _, level := range l.levels {
			why := ""
			switch {
			case l.name == "method" && !slices.Contains(methods, level):
				why = fmt.Sprintf("%s has %s", name, strings.Join(methods, ", "))
			case l.name == "method" && workload.SkipsKnownKeys(f.preset) && slices.Contains(caps.NoIgnore, engine.Method(level)):
				why = fmt.Sprintf("%s can't skip rows whose key is there with it, as preset %s asks for", name, f.preset)
			case l.name == "layout" && level == workload.Rolling && !caps.Rolling:
				why = name + " can't cut a table into periods"
			}
			switch {
			case why == "":
				factor.Levels = append(factor.Levels, level)
			case l.name != "method" || !f.defaultMethods:
				d.leftOut = append(d.leftOut, result.LeftOut{Factor: l.name, Level: level, Why: why})
			}
		}
		if len(factor.Levels) == 0 {
			return nil, usagef(matrixHelp, "%s %s: nothing is left: %s", l.flag, strings.Join(l.levels, ","), d.leftOut[len(d.leftOut)-1].Why)
		}
		d.factors = append(d.factors, factor)
	}
	cells, err := d.cells()
	if err != nil {
		return nil, err
	}
	d.order(cells)
	return d, nil
}

// cells returns each combination, checked.
func (d *matrixDesign) cells() ([]cellRun, error) {
	all := [][]string{{}}
	for _, factor := range d.factors {
		var next [][]string
		for _, levels := range all {
			for _, l := range factor.Levels {
				next = append(next, append(slices.Clone(levels), l))
			}
		}
		all = next
	}
	var out []cellRun
	for _, levels := range all {
		c := cellRun{cell: &result.Cell{Levels: levels}}
		if err := c.take(d.f, d.factors); err != nil {
			return nil, err
		}
		checked := c.f
		checked.out, checked.reports = d.f.out, d.f.reports
		err := checked.check()
		if err == nil {
			err = checked.tryOut()
		}
		if err != nil {
			var u *usageError
			if errors.As(err, &u) && u.hint == "rowmill bench insert --help" {
				err = usagef(matrixHelp, "%w", u.err)
			}
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// take sets the flags of a run to the cell's levels.
func (c *cellRun) take(f *matrixFlags, factors []result.Factor) error {
	c.f = benchFlags{
		target: f.target, preset: f.preset, rows: f.rows, maxTime: f.maxTime, interval: f.interval, repeat: 1, seed: f.seed,
		indexesGiven: true, dropExisting: f.dropExisting, noVerify: f.noVerify,
	}
	for i, factor := range factors {
		level := c.cell.Levels[i]
		var n int
		var err error
		switch factor.Name {
		case "batch", "writers", "indexes":
			if n, err = strconv.Atoi(level); err != nil {
				return usagef(matrixHelp, "--%s %s: too large", factor.Name, level)
			}
		}
		switch factor.Name {
		case "method":
			c.f.method = level
		case "batch":
			c.f.batch = n
		case "writers":
			c.f.writers = n
		case "indexes":
			c.f.indexes = n
		case "layout":
			c.layout, c.f.layouts = level, []string{level}
		case "durability":
			c.f.target = f.at(level)
		}
	}
	if c.layout == workload.Rolling {
		c.f.periodRows = f.periodRows
	}
	return nil
}

// orderStream is the second seed of the generator that orders the cells; the rows use
// the seed alone.
const orderStream = 0x6d6174726978 // "matrix"

// order determines the order of the runs: each round has every cell once, shuffled.
func (d *matrixDesign) order(cells []cellRun) {
	rng := rand.New(rand.NewPCG(d.f.seed, orderStream))
	for repeat := 1; repeat <= d.f.repeat; repeat++ {
		for _, i := range rng.Perm(len(cells)) {
			c := cells[i]
			if d.f.repeat > 1 {
				c.repeat = repeat
			}
			c.cell = &result.Cell{
				Factors: d.factors, LeftOut: d.leftOut, Levels: c.cell.Levels,
				Repeats: d.f.repeat, Runs: len(cells) * d.f.repeat, Order: len(d.runs) + 1,
			}
			d.runs = append(d.runs, c)
		}
	}
}

// same reports whether a recorded cell belongs to this design.
func (d *matrixDesign) same(c *result.Cell) bool {
	return c.Runs == len(d.runs) && slices.EqualFunc(c.Factors, d.factors, func(x, y result.Factor) bool {
		return x.Name == y.Name && slices.Equal(x.Levels, y.Levels)
	})
}

// left returns the runs that are not complete in the record.
func (d *matrixDesign) left(done []result.Record, retryFailed bool) []cellRun {
	type place struct {
		key    string
		repeat int
	}
	over := map[place]bool{}
	for i := range done {
		r := &done[i]
		complete, failed := report.CellComplete(r)
		at := place{r.Run.Cell.Key(), r.Run.Repeat}
		switch {
		case complete && !failed:
			over[at] = true
		case failed && !retryFailed:
			over[at] = true
		}
	}
	var out []cellRun
	for _, c := range d.runs {
		if !over[place{c.cell.Key(), c.repeat}] {
			out = append(out, c)
		}
	}
	return out
}

// An estimate is how long runs take.
type estimate struct {
	time time.Duration
	// from is the basis of the estimate; empty if there is none.
	from string
	// bound means that the estimate is an upper limit, apart from preparing and
	// verifying.
	bound bool
}

// perRun is the time of a run besides inserting: starting a private server, creating
// and dropping tables, verifying a small one. On two cores, MariaDB and PostgreSQL
// start within two seconds.
const perRun = 3 * time.Second

// estimate uses earlier runs of the same cells, in this record or in the baseline. A
// cell without one is assumed to take their mean or, if there are none, --max-time.
func (d *matrixDesign) estimate(left []cellRun, records ...[]result.Record) estimate {
	known := map[string][]float64{}
	var sum float64
	n := 0
	for _, recs := range records {
		for i := range recs {
			r := &recs[i]
			if complete, failed := report.CellComplete(r); !complete || failed || r.Run.Cell == nil {
				continue
			}
			s := r.Summary()
			seconds := s.Seconds
			if d.f.rows > 0 && s.RowsPerSecond > 0 {
				seconds = float64(d.f.rows) / s.RowsPerSecond
			}
			if d.f.maxTime > 0 {
				seconds = min(seconds, d.f.maxTime.Seconds())
			}
			known[r.Run.Cell.Name()] = append(known[r.Run.Cell.Name()], seconds)
			sum, n = sum+seconds, n+1
		}
	}
	var e estimate
	switch {
	case n > 0:
		e.from = "by the runs that are recorded"
	case d.f.maxTime > 0:
		e.from, e.bound = fmt.Sprintf("by --max-time %v for each", d.f.maxTime), true
	default:
		return e
	}
	for _, c := range left {
		seconds := d.f.maxTime.Seconds()
		if n > 0 {
			seconds = sum / float64(n)
		}
		if k := known[c.cell.Name()]; len(k) > 0 {
			seconds = 0
			for _, s := range k {
				seconds += s / float64(len(k))
			}
		}
		e.time += time.Duration(seconds*float64(time.Second)) + perRun
	}
	return e
}

func (e estimate) String() string {
	if e.from == "" {
		return "how long it takes isn't known without --max-time"
	}
	about := "about"
	if e.bound {
		about = "at most about"
	}
	return fmt.Sprintf("%s %s, %s", about, e.time.Round(time.Second), e.from)
}

// summary describes the runs and how long they take.
func (d *matrixDesign) summary(left int, took estimate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, preset %s", plural(len(d.runs), "run"), d.f.target, d.f.preset)
	if left < len(d.runs) {
		fmt.Fprintf(&b, ", %d of them left", left)
	}
	fmt.Fprintf(&b, ": %s.\n", took)
	for _, factor := range d.factors {
		fmt.Fprintf(&b, "  %-10s  %s\n", factor.Name, strings.Join(factor.Levels, ", "))
	}
	fmt.Fprintf(&b, "  %-10s  %d\n", "repeats", d.f.repeat)
	for _, l := range d.leftOut {
		fmt.Fprintf(&b, "  left out: %s=%s: %s\n", l.Factor, l.Level, l.Why)
	}
	return b.String()
}

func (d *matrixDesign) print(w io.Writer, left []cellRun, took estimate) error {
	var b strings.Builder
	b.WriteString(d.summary(len(left), took))
	b.WriteString("\n")
	for _, c := range left {
		fmt.Fprintf(&b, "%5d  %s", c.cell.Order, c.cell.Name())
		if c.repeat > 0 {
			fmt.Fprintf(&b, "  repeat %d", c.repeat)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// private reports whether the target is created for each run and removed afterwards.
func (d *matrixDesign) private() bool {
	c := rerunConfig{f: benchFlags{target: d.f.target}}
	return c.private()
}

// failedRun returns the header of a run that failed before its measurement began.
func (d *matrixDesign) failedRun(c *cellRun, command []string) result.Run {
	db, err := target.Dry(c.f.target)
	run := result.Run{
		Name: c.cell.Name(), Cell: c.cell, Repeat: c.repeat, Command: command, Started: time.Now().UTC(), Rowmill: versionString(),
		Workload: "insert", Preset: c.f.preset, Layout: c.layout, Seed: c.f.seed, Rows: c.f.rows, MaxTimeSeconds: c.f.maxTime.Seconds(),
		Writers: c.f.writers, Batch: c.f.batch, Method: cmp.Or(c.f.method, string(engine.Multi)), Indexes: c.f.indexes, Target: c.f.target,
		IntervalSeconds: c.f.interval.Seconds(),
	}
	if err == nil {
		run.Engine = db.Info().Engine
	}
	return run
}
