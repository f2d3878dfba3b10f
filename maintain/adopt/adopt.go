package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain/copier"
	"github.com/rowmill/rowmill/rolling"
	"github.com/rowmill/rowmill/state"
)

// Kind is what the journal calls an adoption, and its ID: a table has one at a
// time.
const Kind = "adopt"

// Steps of an adoption, in order. What is written down is the one to do next.
const (
	stepCheck = "check" // of all rows, before anything is changed or written down

	stepCreate   = "create"   // the log, the table for late rows, the rolling table
	stepTriggers = "triggers" // on the plain table
	stepCopy     = "copy"     // the rows
	stepVerify   = "verify"   // chunk by chunk
	stepSwap     = "swap"     // names
	stepClean    = "clean"    // triggers and log
	stepKept     = "kept"     // the old table waits for Finish or Undo
	stepDrop     = "drop"     // the old table

	stepCancel = "cancel" // before the change of names: all that was made

	stepBack       = "back"        // the log, triggers on the rolling table
	stepBackVerify = "back-verify" // chunk by chunk; those that differ are copied
	stepBackSwap   = "back-swap"   // names
	stepBackClean  = "back-clean"  // triggers, log, the rolling table
)

// Options say what to adopt.
type Options struct {
	DB    engine.Keeper
	State *state.Store
	// Table is the rolling table that it is to become, Schema the plain one as
	// it is now: it may be nil where an adoption is under way.
	Table    *engine.Table
	Schema   *engine.Schema
	Declared *rolling.Declaration
	// AllowDuplicates lets keys of the plain table be no longer unique: see Lost.
	AllowDuplicates bool
	// Now returns the position of the present on an axis of time; nil is the
	// clock. On a sequence it is the highest key.
	Now func(ctx context.Context) (int64, error)
	// Before, unless nil, is called once the table is found to be one that can be
	// adopted, before an adoption is begun, with the position from which there will
	// be periods.
	Before func(ctx context.Context, from int64) error
	// Limits of the server's load.
	Limits copier.Limits
	// Chunk is the number of rows copied at a time; 0 is what takes a fraction
	// of a second.
	Chunk int
	// Progress is told what is done, at least at each step and chunk.
	Progress func(Progress)

	// at is where tests end the process.
	at func(point string) error
}

// Progress is how far an adoption is.
type Progress struct {
	Step string
	// Rows are done of the step, of about Of: copied, compared. PerSecond is
	// their rate since the step began here, Left the time that the rest takes
	// at that rate; all are 0 in steps that count no rows.
	Rows, Of  int64
	PerSecond float64
	Left      time.Duration
	// Paused says what the work waits for; "" is nothing.
	Paused string
	// Blockers are the transactions that a lock waits for.
	Blockers []engine.Blocker
}

// data is what the journal keeps of an adoption.
type data struct {
	// Columns are those of both tables; Key is the plain table's primary key,
	// NewKey the rolling one's.
	Columns, Key, NewKey []engine.SchemaColumn
	// After is the last key copied, Rows how many rows were; Of is about how
	// many there are.
	After    []string
	Rows, Of int64
	// First and Last are the positions of the first and the last row, where
	// there are any.
	First, Last int64
	// Checked is the last key compared, CheckedRows how many rows were, and
	// Repaired how many chunks had to be copied again.
	Checked     []string
	CheckedRows int64
	Repaired    int
	// Verified is the number of rows found to be the same in both.
	Verified int64
}

// A job is an adoption in this process.
type job struct {
	Options
	change *state.Change
	data   data
	// columns that can be written to.
	columns []engine.SchemaColumn
	began   time.Time
	first   int64 // rows of the step when this process began it
	ahead   time.Time
}

// Names of what an adoption makes beside the table.
func newName(table string) string  { return table + "__rowmill_new" }
func oldName(table string) string  { return table + "__rowmill_old" }
func logName(table string) string  { return table + "__rowmill_log" }
func lateName(table string) string { return table + "_late" }

// UnderWay returns the adoption of a table, or nil. One whose table has become a
// rolling one and whose old table is kept is under way, too: see Kept.
func UnderWay(ctx context.Context, st *state.Store, table string) (*state.Change, error) {
	c, err := st.Change(ctx, table, Kind)
	if errors.Is(err, engine.ErrNoTable) {
		return nil, nil // nothing was ever kept in this database
	}
	return c, err
}

// Kept reports whether all that is left of an adoption is to drop the old table.
func Kept(c *state.Change) bool { return c != nil && c.Step == stepKept }

// Undoing reports whether the adoption is being taken back.
func Undoing(c *state.Change) bool {
	return c != nil && (c.Step == stepCancel || c.Step == stepBack || c.Step == stepBackVerify || c.Step == stepBackSwap || c.Step == stepBackClean)
}

// open finds the adoption that is under way.
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
	j.data = d
	j.columns = nil
	for _, c := range d.Columns {
		if !c.Generated {
			j.columns = append(j.columns, c)
		}
	}
}

// Run adopts the table, from where an earlier call stopped, and returns once it
// has become a rolling one. Its old table is kept.
func Run(ctx context.Context, o Options) error {
	return leading(ctx, o, func(ctx context.Context, j *job) error {
		if Undoing(j.change) {
			return engine.Hinted(fmt.Errorf("adopt %s: its adoption is being taken back", o.Table.Name), "rowmill apply FILE --undo, which goes on")
		}
		if j.change == nil {
			if err := j.begin(ctx); err != nil {
				return err
			}
		}
		if j.change.Step == stepDrop {
			return j.steps(ctx, "") // what Finish had begun
		}
		return j.steps(ctx, stepKept)
	})
}

// Finish drops what the table was before its adoption.
func Finish(ctx context.Context, o Options) error {
	return leading(ctx, o, func(ctx context.Context, j *job) error {
		if err := j.mayFinish(); err != nil {
			return err
		}
		if j.change.Step == stepKept {
			if err := j.advance(ctx, stepDrop); err != nil {
				return err
			}
		}
		return j.steps(ctx, "")
	})
}

// mayFinish says why the adoption can't be finished.
func (j *job) mayFinish() error {
	switch {
	case j.change == nil:
		return engine.Hinted(fmt.Errorf("finish the adoption of %s: there is none", j.Table.Name), "rowmill apply FILE, which begins one")
	case j.change.Step != stepKept && j.change.Step != stepDrop:
		return engine.Hinted(fmt.Errorf("finish the adoption of %s: it is at step %s", j.Table.Name, j.change.Step), "rowmill apply FILE first, until it is done")
	}
	return nil
}

// Undo takes an adoption back: the table is what it was before, with all rows
// that were inserted, changed and deleted since.
func Undo(ctx context.Context, o Options) error {
	return leading(ctx, o, func(ctx context.Context, j *job) error {
		if err := j.mayUndo(); err != nil {
			return err
		}
		if !Undoing(j.change) {
			if err := j.settle(ctx); err != nil {
				return err
			}
			swapped, err := j.swapped(ctx)
			if err != nil {
				return err
			}
			step := stepCancel
			if swapped {
				// What is left of the way there is in the way of the way back.
				if err := j.clean(ctx, j.there()); err != nil {
					return err
				}
				step = stepBack
				j.data.Checked, j.data.CheckedRows, j.data.Repaired = nil, 0, 0
			}
			if err := j.advance(ctx, step); err != nil {
				return err
			}
		}
		return j.steps(ctx, "")
	})
}

// mayUndo says why the adoption can't be taken back.
func (j *job) mayUndo() error {
	switch {
	case j.change == nil:
		return engine.Hinted(fmt.Errorf("take the adoption of %s back: there is none", j.Table.Name), "rowmill status FILE, which shows what is under way")
	case j.change.Step == stepDrop:
		return fmt.Errorf("take the adoption of %s back: the old table is being dropped", j.Table.Name)
	}
	return nil
}

// How often the lock of the one process is asked for again, and after what pause.
const (
	leadTries = 3
	leadPause = 100 * time.Millisecond
)

// leading runs fn as the one process that adopts the table.
func leading(ctx context.Context, o Options, fn func(context.Context, *job) error) (err error) {
	lease, err := o.DB.Lead(ctx, lockName(o.Table.Name))
	for try := 0; try < leadTries && errors.Is(err, engine.ErrLockTimeout); try++ {
		// Who only asks whether somebody has the lock has it for a moment.
		if err := engine.Sleep(ctx, leadPause); err != nil {
			return err
		}
		lease, err = o.DB.Lead(ctx, lockName(o.Table.Name))
	}
	if errors.Is(err, engine.ErrLockTimeout) {
		return engine.Hinted(fmt.Errorf("adopt %s: another process does: %w", o.Table.Name, err), "rowmill status FILE, which shows how far it is")
	}
	if err != nil {
		return fmt.Errorf("adopt %s: %w", o.Table.Name, err)
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	defer func() { cancel(nil); <-done }()
	go func() {
		defer close(done)
		select {
		case <-lease.Lost():
			cancel(errors.New("the lock that only one process may hold is lost"))
		case <-ctx.Done():
		}
	}()
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
	if j != nil && j.change != nil && j.change.Step != "" && ctx.Err() == nil && !errors.Is(err, errKilled) {
		err = errors.Join(err, j.State.Failed(ctx, j.change, err))
	}
	return err
}

// errKilled is how a test ends the process without ending it.
var errKilled = errors.New("killed")

// needs are the privileges of an adoption and of the roll-ups that follow.
func (j *job) needs() engine.Needs {
	return engine.Needs{Triggers: true, Locks: true, Temporary: len(j.Declared.Rollups) > 0}
}

// begin checks the table and writes the adoption down.
func (j *job) begin(ctx context.Context) error {
	if err := MayDuplicate(j.Options); err != nil {
		return err
	}
	if err := engine.Probe(ctx, j.DB, j.needs()); err != nil {
		return fmt.Errorf("adopt %s: %w", j.Table.Name, err)
	}
	d, err := j.check(ctx)
	if err != nil {
		return err
	}
	if err := j.State.Ensure(ctx); err != nil {
		return err
	}
	if j.Before != nil {
		parts, err := j.periods(ctx, extent{d.Of, d.First, d.Last})
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

// steps takes one step after the other, up to the one called last: it isn't
// taken. The end of all is "".
func (j *job) steps(ctx context.Context, last string) error {
	for j.change.Step != last {
		step := j.change.Step
		j.began, j.first = time.Time{}, 0
		j.progress(Progress{})
		next, err := j.step(ctx, step)
		if err != nil {
			return fmt.Errorf("adopt %s: %s: %w", j.Table.Name, step, err)
		}
		if err := j.point(step + ": done"); err != nil {
			return err
		}
		switch {
		case j.change.Step != step: // the step's own transaction has noted it
		case next == "":
			if err := j.State.End(ctx, j.State.DB(), j.change); err != nil {
				return err
			}
			j.change.Step = ""
		default:
			if err := j.advance(ctx, next); err != nil {
				return err
			}
		}
		if err := j.point(step + ": noted"); err != nil {
			return err
		}
	}
	return nil
}

// step takes one and returns the next.
func (j *job) step(ctx context.Context, step string) (next string, err error) {
	switch step {
	case stepCreate:
		return stepTriggers, j.create(ctx)
	case stepTriggers:
		return stepCopy, j.addTriggers(ctx, j.there())
	case stepCopy:
		return stepVerify, j.copy(ctx, j.there())
	case stepVerify:
		return stepSwap, j.verify(ctx, j.there())
	case stepSwap:
		return stepClean, j.swap(ctx, j.there(), stepClean)
	case stepClean:
		return stepKept, j.clean(ctx, j.there())
	case stepDrop:
		return "", j.dropOld(ctx)
	case stepCancel:
		return "", j.cancel(ctx)
	case stepBack:
		return stepBackVerify, j.turnBack(ctx, j.back())
	case stepBackVerify:
		return stepBackSwap, j.verify(ctx, j.back())
	case stepBackSwap:
		return stepBackClean, j.swap(ctx, j.back(), stepBackClean)
	case stepBackClean:
		return "", errors.Join(j.clean(ctx, j.back()), j.dropNew(ctx))
	}
	return "", fmt.Errorf("the journal has step %q, which this rowmill doesn't know", step)
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

// progress tells how far the step is.
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
		if left := p.Of - p.Rows; left > 0 {
			p.Left = time.Duration(float64(left) / p.PerSecond * float64(time.Second))
		}
	}
	j.Progress(p)
}

// paused returns what tells why the work waits, at a number of rows.
func (j *job) paused(rows *int64) func(string) {
	return func(why string) { j.progress(Progress{Rows: *rows, Of: j.data.Of, Paused: why}) }
}
