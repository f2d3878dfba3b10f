// Package adopt converts a plain table into a rolling table, and back, while the table is in use.
//
// The rolling table is created beside the plain one. Triggers on the plain table write the key of
// each changed row into a log: one short insert, which can't fail because of the row's values. Rows
// are copied in chunks along the primary key, without locking any of them. Rows whose keys are in
// the log are copied again, in their current state. Then each chunk of both tables is compared, in
// one snapshot and without the rows whose keys are in the log. In the final cut-over, under a lock
// with a limited wait, the rest of the log is applied and the tables are renamed.
//
// The invariant behind all of this: a row that differs between the two tables either
// has its key in the log or lies beyond the position of the copy.
//
// The plain table is kept as NAME__rowmill_old until Finish drops it. Undo reverts the adoption.
// Before the cut-over, Undo removes the objects that were created. After the cut-over, it uses the
// same method in the opposite direction, and only chunks that differ are copied.
//
// Every step is recorded in the journal before it begins, and first checks whether it
// is already done. A crash at any point therefore costs nothing but time.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Kind is both the kind and the ID of an adoption in the journal: a table has at most one.
const Kind = "adopt"

// Steps of an adoption, in order. The journal records the next step to do.
const (
	stepCheck = "check" // check all rows, before anything is changed or recorded

	stepCreate   = "create"   // the log, the table for late rows, the rolling table
	stepTriggers = "triggers" // on the plain table
	stepCopy     = "copy"     // the rows
	stepVerify   = "verify"   // chunk by chunk
	stepSwap     = "swap"     // the cut-over: rename the tables
	stepClean    = "clean"    // drop triggers and log
	stepKept     = "kept"     // the old table waits for Finish or Undo
	stepDrop     = "drop"     // drop the old table

	stepCancel = "cancel" // before the cut-over: drop all created objects

	stepPlain      = "plain"       // create an empty plain table, where no old one is kept
	stepBack       = "back"        // create the log and triggers on the rolling table
	stepBackVerify = "back-verify" // chunk by chunk; chunks that differ are copied
	stepBackSwap   = "back-swap"   // rename the tables back
	stepBackClean  = "back-clean"  // drop triggers, log and the rolling table
)

// A step does a part of an adoption, or of its undo.
type step struct {
	next string // the step that follows, "" after the last
	// back means that m mirrors the rolling table to the plain one, as an undo needs it. locks means
	// that the step takes a table lock, for which it may have to wait.
	back, locks bool
	do          func(j *job, ctx context.Context, m *mirror) error
	// show adds the statements of do to a plan.
	show func(p *planner, ctx context.Context) error
}

var steps = map[string]step{
	stepCreate:   {next: stepTriggers, do: (*job).create, show: (*planner).created},
	stepTriggers: {next: stepCopy, locks: true, do: (*job).addTriggers, show: (*planner).triggers},
	stepCopy:     {next: stepVerify, do: (*job).copy, show: (*planner).copied},
	stepVerify:   {next: stepSwap, do: (*job).verify, show: (*planner).compared},
	stepSwap:     {next: stepClean, locks: true, do: cutOverTo(stepClean), show: (*planner).cutOver},
	stepClean:    {next: stepKept, locks: true, do: (*job).clean, show: (*planner).cleaned},
	stepDrop:     {locks: true, do: (*job).dropOld, show: (*planner).droppedOld},

	stepCancel: {locks: true, do: (*job).cancel, show: (*planner).cancelled},

	stepPlain:      {next: stepBack, back: true, do: (*job).createPlain},
	stepBack:       {next: stepBackVerify, back: true, locks: true, do: (*job).prepareUndo, show: (*planner).undoPrepared},
	stepBackVerify: {next: stepBackSwap, back: true, do: (*job).verify, show: (*planner).comparedBack},
	stepBackSwap:   {next: stepBackClean, back: true, locks: true, do: cutOverTo(stepBackClean), show: (*planner).cutOverBack},
	stepBackClean:  {back: true, locks: true, do: (*job).cleanBack, show: (*planner).cleanedBack},
}

// Options are what an adoption needs.
type Options struct {
	DB    engine.Keeper
	State *state.Store
	// Table is the intended rolling table. Schema describes the current plain table;
	// it may be nil if an adoption is in progress.
	Table    *engine.Table
	Schema   *engine.Schema
	Declared *rolling.Declaration
	// Planned, unless nil, is the result of Plan: Run then doesn't read all rows again.
	Planned *Planned
	// AllowDuplicates permits the loss of unique keys of the plain table: see Lost.
	AllowDuplicates bool
	// Now returns the current position on a time axis; nil means the clock.
	Now func(ctx context.Context) (int64, error)
	// Before, unless nil, is called after the table has passed the checks and before an adoption
	// begins. from is the position at which the first period will begin.
	Before func(ctx context.Context, from int64) error
	// Limits are the limits of the server's load.
	Limits copier.Limits
	// Postpone, unless nil, returns why the tables may not be swapped yet, or "" if they may. While it
	// returns a reason, logged changes are applied, and every few minutes the tables are compared.
	Postpone func(ctx context.Context) (why string, err error)
	// Chunk is the number of rows copied at a time; 0 means as many as take a fraction of a second.
	Chunk int
	// Progress is called at least for each step and chunk.
	Progress func(Progress)

	// at, unless nil, is called at each point; tests end the process there.
	at func(point string) error
	// again is the age from which a verification is repeated while the cut-over is postponed; 0 means
	// verifyAgain. Tests shorten it.
	again time.Duration
}

// Progress describes the progress of an adoption.
type Progress struct {
	Step string
	// Rows is the number of rows that the current step has copied or compared, and Of approximately
	// the number that it has to copy or compare in all. PerSecond is the rate since this process began
	// the step. All are 0 in steps that count no rows.
	Rows, Of  int64
	PerSecond float64
	// Share is the share of the adoption that is done, 0 to 1. Left is the estimated time until the
	// end, at the rate of this process; 0 if unknown.
	Share float64
	Left  time.Duration
	// Paused is the reason why the work waits, "" if it doesn't.
	Paused string
	// Blockers are the transactions that hold the requested lock.
	Blockers []engine.Blocker
}

// String describes the progress in a line.
func (p Progress) String() string {
	line := p.Step
	switch {
	case p.Of == 0 && p.Rows > 0:
		line += ": " + figure.Plural(p.Rows, "row")
	case p.Of > 0:
		line += fmt.Sprintf(": %s of about %s", figure.Count(p.Rows), figure.Plural(p.Of, "row"))
		if p.PerSecond > 0 {
			line += fmt.Sprintf(", %s rows/s", figure.Count(int64(p.PerSecond)))
		}
		line += "; " + figure.Percent(p.Share) + " in all"
		if p.Left > 0 {
			line += fmt.Sprintf(", %s left", p.Left.Round(time.Second))
		}
	}
	if p.Paused != "" {
		line += "; waits: " + p.Paused
	}
	if len(p.Blockers) > 0 {
		line += "; blocked by " + p.Blockers[0].String()
	}
	return line
}

// data is the state of an adoption in the journal.
type data struct {
	// Columns are the columns of both tables. Key is the primary key of the plain
	// table, NewKey that of the rolling one.
	Columns, Key, NewKey []engine.SchemaColumn
	// Declared are the attributes that the rolling table has from its declaration.
	Declared []string
	extent
	// After is the last key copied, Rows the number of rows copied.
	After []string
	Rows  int64
	// Checked is the last key compared, CheckedRows the number of rows compared, and
	// Repaired the number of chunks that had to be copied again.
	Checked     []string
	CheckedRows int64
	Repaired    int
	// Left means that the table leaves rowmill: see Leave.
	Left bool
}

// A job is an adoption in this process.
type job struct {
	Options
	change *state.Change
	data   data
	// columns are the writable columns.
	columns []engine.SchemaColumn
	began   time.Time
	first   int64 // rows already done when this process began the step
	// started is when this process began to copy or compare, and had the share that was done then.
	started time.Time
	had     float64
	ahead   time.Time
}

// Names of the objects that an adoption creates beside the table.
func newName(table string) string  { return table + "__rowmill_new" }
func oldName(table string) string  { return table + "__rowmill_old" }
func logName(table string) string  { return table + "__rowmill_log" }
func lateName(table string) string { return table + "_late" }

// UnderWay returns the adoption of a table, or nil. An adoption is in progress until its old table
// is dropped: see Kept.
func UnderWay(ctx context.Context, st *state.Store, table string) (*state.Change, error) {
	c, err := st.Change(ctx, table, Kind)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil // the database has no journal
	}
	return c, err
}

// Kept reports whether only the old table remains to be dropped.
func Kept(c *state.Change) bool { return c != nil && c.Step == stepKept }

// Undoing reports whether the adoption is being reverted.
func Undoing(c *state.Change) bool { return c != nil && (c.Step == stepCancel || steps[c.Step].back) }

func lockName(table string) string { return "adopt " + table }

// Done returns how many rows of an adoption's step are done, the approximate number of all rows,
// and the share of the whole adoption. All are 0 in steps that count no rows.
func Done(c *state.Change) (rows, of int64, done float64, err error) {
	if c.Step != stepCopy && c.Step != stepVerify && c.Step != stepBackVerify {
		return 0, 0, 0, nil
	}
	var d data
	if err := c.Load(&d); err != nil {
		return 0, 0, 0, err
	}
	rows = d.CheckedRows
	if c.Step == stepCopy {
		rows = d.Rows
	}
	return rows, d.Of, d.share(c.Step), nil
}

// share returns the share of an adoption that is done, 0 to 1. An adoption copies and compares each
// row; an undo only compares it.
func (d *data) share(step string) float64 {
	if d.Of == 0 {
		return 0
	}
	done := float64(d.CheckedRows) / float64(d.Of)
	if step == stepCopy || step == stepVerify || step == stepSwap {
		done = (done + float64(d.Rows)/float64(d.Of)) / 2
	}
	return min(done, 1)
}

// Working reports whether a process is adopting the table: whether it holds the lock for that.
func Working(ctx context.Context, db engine.Keeper, table string) (bool, error) {
	lease, err := db.Lead(ctx, lockName(table))
	if errors.Is(err, engine.ErrLockTimeout) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lease.Release()
}

// NeedsLock reports whether the current step takes a table lock, which others may delay.
func NeedsLock(c *state.Change) bool { return steps[c.Step].locks }

// Ended reports whether only the old table remains: it is kept, or being dropped.
func Ended(c *state.Change) bool { return c != nil && (c.Step == stepKept || c.Step == stepDrop) }

func open(ctx context.Context, o Options) (*job, error) {
	j := &job{Options: o}
	c, err := UnderWay(ctx, o.State, o.Table.Name)
	if err != nil || c == nil {
		return j, err
	}
	j.change = c
	if err := c.Load(&j.data); err != nil {
		return nil, err
	}
	j.use(j.data)
	return j, nil
}

func (j *job) use(d data) {
	j.data, j.columns = d, engine.Writable(d.Columns)
}

// Run adopts the table, or continues its adoption, up to the cut-over. The old table is kept.
func Run(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(ctx context.Context, j *job) error {
		switch {
		case j.data.Left:
			return j.leaving()
		case Undoing(j.change):
			return refusal{engine.Hinted(fmt.Errorf("adopt %s: its adoption is being undone", o.Table.Name), "rowmill apply FILE --undo, which continues")}
		}
		if j.change == nil {
			if err := j.begin(ctx); err != nil {
				return err
			}
		}
		if j.change.Step == stepDrop {
			return j.runSteps(ctx, "") // an interrupted Finish
		}
		return j.runSteps(ctx, stepKept)
	})
}

// Finish drops the old table.
func Finish(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(ctx context.Context, j *job) error {
		if err := j.mayFinish(); err != nil {
			return err
		}
		if j.change.Step == stepKept {
			if err := j.advance(ctx, stepDrop); err != nil {
				return err
			}
		}
		return j.runSteps(ctx, "")
	})
}

// none is the error of a verb for which there is no adoption.
func (j *job) none(verb string) error {
	return engine.Hinted(fmt.Errorf("%s the adoption of %s: it is finished, or there was none: no table %s is kept", verb, j.Table.Name, oldName(j.Table.Name)), "rowmill status FILE")
}

func (j *job) mayFinish() error {
	switch {
	case j.change == nil:
		return j.none("finish")
	case j.change.Step != stepKept && j.change.Step != stepDrop:
		return engine.Hinted(fmt.Errorf("finish the adoption of %s: it is at step %s", j.Table.Name, j.change.Step), "rowmill apply FILE first, until it is done")
	}
	return nil
}

// Undo makes the table a plain one again, with all changes of rows since the adoption.
func Undo(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(ctx context.Context, j *job) error {
		if err := j.mayUndo(); err != nil {
			return err
		}
		if !Undoing(j.change) {
			if err := j.forward().sql.Recover(ctx); err != nil {
				return err
			}
			step, err := j.undoFrom(ctx)
			if err != nil {
				return err
			}
			if step == stepBack {
				// The adoption's triggers and log must go before the undo's triggers and log are created.
				if err := j.clean(ctx, j.forward()); err != nil {
					return err
				}
				j.data.Checked, j.data.CheckedRows, j.data.Repaired = nil, 0, 0
			}
			if err := j.advance(ctx, step); err != nil {
				return err
			}
		}
		return j.runSteps(ctx, "")
	})
}

// undoFrom returns the first step of an undo. After the cut-over, it refuses an undo whose last
// step would fail.
func (j *job) undoFrom(ctx context.Context) (string, error) {
	swapped, err := j.swapped(ctx)
	if err != nil || !swapped {
		return stepCancel, err
	}
	if _, _, err := j.back().lacking(ctx, true); err != nil {
		return "", fmt.Errorf("undo the adoption of %s: %w", j.Table.Name, err)
	}
	return stepBack, nil
}

func (j *job) mayUndo() error {
	switch {
	case j.change == nil:
		return j.none("undo")
	case j.data.Left:
		return j.leaving()
	case j.change.Step == stepDrop:
		return fmt.Errorf("undo the adoption of %s: the old table is being dropped", j.Table.Name)
	}
	return nil
}

// The attempts to take the lock of the adopting process, and the pause between them.
const (
	leadTries = 4
	leadPause = 100 * time.Millisecond
)

// exclusively runs fn while it holds the lock that only one adopting process may hold.
func exclusively(ctx context.Context, o Options, fn func(context.Context, *job) error) (err error) {
	var lease engine.Lease
	// Working takes this lock for a moment, to check whether it is held.
	err = engine.Retry{First: leadPause, Last: leadPause, Tries: leadTries}.Do(ctx, func() (err error) {
		lease, err = o.DB.Lead(ctx, lockName(o.Table.Name))
		return err
	})
	if errors.Is(err, engine.ErrLockTimeout) {
		return engine.Hinted(fmt.Errorf("adopt %s: another process is doing it: %w", o.Table.Name, err), "rowmill status FILE, which shows how far it is")
	}
	if err != nil {
		return fmt.Errorf("adopt %s: %w", o.Table.Name, err)
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return engine.WhileHeld(ctx, lease, errors.New("the lock that only one process may hold is lost"), func(ctx context.Context) error {
		j, err := open(ctx, o)
		if err == nil {
			err = fn(ctx, j)
		}
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(cause, err)
		}
		if j != nil && j.change != nil && j.change.Step != "" && ctx.Err() == nil && !errors.Is(err, errKilled) && !errors.As(err, &refusal{}) {
			err = errors.Join(err, j.State.Failed(ctx, j.change, err))
		}
		return err
	})
}

// A refusal is the error of a command that conflicts with an adoption or undo in progress. It isn't
// recorded as an error of that adoption or undo.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// what names the job in errors, e.g. "adopt readings".
func (j *job) what() string {
	if j.data.Left {
		return "make " + j.Table.Name + " plain"
	}
	return "adopt " + j.Table.Name
}

// errKilled is returned where a test simulates the end of the process.
var errKilled = errors.New("killed")

// needs returns the privileges that the adoption and the roll-ups after it need.
func (j *job) needs() engine.Needs {
	return engine.Needs{Triggers: true, Locks: true, Temporary: len(j.Declared.Rollups) > 0}
}

func (j *job) begin(ctx context.Context) error {
	if err := MayDuplicate(j.Options); err != nil {
		return err
	}
	if err := engine.Probe(ctx, j.DB, j.needs()); err != nil {
		return fmt.Errorf("adopt %s: %w", j.Table.Name, err)
	}
	d, err := j.planned(ctx)
	if err != nil {
		return err
	}
	if err := j.State.Ensure(ctx); err != nil {
		return err
	}
	if j.Before != nil {
		parts, err := j.periods(ctx, d.extent)
		if err != nil {
			return err
		}
		if err := j.Before(ctx, parts[0].From); err != nil {
			return err
		}
	}
	j.use(*d)
	j.change = &state.Change{Table: j.Table.Name, ID: Kind, Kind: Kind, Step: stepCreate}
	if _, err := j.State.Begin(ctx, j.change, j.data); err != nil {
		return err
	}
	return j.point("begun")
}

// runSteps executes the steps in order, up to but excluding last; "" means all.
func (j *job) runSteps(ctx context.Context, last string) error {
	for j.change.Step != last {
		name := j.change.Step
		s, known := steps[name]
		if !known {
			return fmt.Errorf("adopt %s: the journal has step %q, which this rowmill doesn't know", j.Table.Name, name)
		}
		m := j.forward()
		if s.back {
			m = j.back()
		}
		j.began, j.first = time.Time{}, 0
		j.progress(Progress{})
		if err := s.do(j, ctx, m); err != nil {
			return fmt.Errorf("%s: %s: %w", j.what(), name, err)
		}
		if err := j.point(name + ": done"); err != nil {
			return err
		}
		switch {
		case j.change.Step != name: // the step has recorded it in its own transaction
		case s.next == "":
			if err := j.State.End(ctx, j.State.DB(), j.change); err != nil {
				return err
			}
			j.change.Step = ""
		default:
			if err := j.advance(ctx, s.next); err != nil {
				return err
			}
		}
		if err := j.point(name + ": noted"); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) advance(ctx context.Context, step string) error {
	return j.State.Advance(ctx, j.State.DB(), j.change, step, j.data)
}

func (j *job) point(name string) error {
	if j.at == nil {
		return nil
	}
	return j.at(name)
}

func (j *job) progress(p Progress) {
	if j.Progress == nil {
		return
	}
	p.Step = j.change.Step
	if j.began.IsZero() {
		j.began, j.first = time.Now(), p.Rows
	}
	if took := time.Since(j.began); p.Rows > j.first && took > 0 {
		p.PerSecond = float64(p.Rows-j.first) / took.Seconds()
	}
	if p.Of > 0 {
		p.Share = j.data.share(j.change.Step)
		if j.started.IsZero() {
			j.started, j.had = time.Now(), p.Share
		}
		if p.Share > j.had {
			p.Left = time.Duration((1 - p.Share) / (p.Share - j.had) * float64(time.Since(j.started)))
		}
	}
	j.Progress(p)
}

// paused returns a function that reports why the work waits.
func (j *job) paused(rows *int64) func(string) {
	return func(why string) { j.progress(Progress{Rows: *rows, Of: j.data.Of, Paused: why}) }
}
