package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A publisher publishes loaded periods: fills a copy beside the table, and exchanges both.
type publisher struct{ *table }

func (t *Table) publisher() publisher { return publisher{t} }

// Publish is the kind of change in which a load fills a table and swaps it with a period. If the
// load is killed, the next load or maintenance completes the change.
const Publish Kind = "publish"

// A publishing is the state of a publication, as its steps record it.
type publishing struct {
	state.Publication
	Part rolling.Partition
	With string // the table that is filled
	Out  string // the table that gets the period's former rows
	merging
}

func (d *publishing) task() Task                        { return Task{Kind: Publish, Parts: []rolling.Partition{d.Part}} }
func (d *publishing) period() (rolling.Partition, bool) { return d.Part, true }

func (d *publishing) tables(step string) (copies, rows []string) {
	if step == stepStage {
		return append(d.aside(), d.With), []string{d.Out}
	}
	return d.aside(), []string{d.With, d.Out}
}

// resume completes a publication whose load has died.
func (d *publishing) resume(ctx context.Context, t *Table, c *state.Change) (detail string, err error) {
	lease, err := t.DB.Lead(ctx, d.lock())
	if errors.Is(err, engine.ErrLockTimeout) {
		return "", nil // the load is still running
	}
	if err != nil {
		return "", err
	}
	return d.finish(ctx, t, c, lease, 0) // the next pass tries again
}

// finish is resume with the lock on the period held. It releases the lock.
func (d *publishing) finish(ctx context.Context, t *Table, c *state.Change, lease engine.Lease, patience time.Duration) (detail string, err error) {
	defer func() { err = errors.Join(err, lease.Release()) }()
	now, err := t.State.Change(ctx, c.Table, c.ID)
	if err != nil || now == nil {
		return "", err // another process ended the change before this one got the lock
	}
	*d = publishing{} // an absent field of the new record must not keep its old value
	if err := now.Load(d); err != nil {
		return "", err
	}
	detail, err = t.publisher().finishPublish(ctx, now, d, patience)
	var given givenUp
	if errors.As(err, &given) {
		return given.Error(), nil
	}
	return detail, err
}

func (d *publishing) lock() string { return fmt.Sprintf("%s/publish/%d", d.Table, d.From) }

// A publication begins with this step. The steps of a rebuild follow.
const stepStage = "stage"

const (
	// busyWait limits how long a load waits for other changes of the period to end, and for the lock
	// of the swap.
	busyWait = 30 * time.Second
	busyPoll = 200 * time.Millisecond
	// countTries is how often rowmill tries to count a period's rows while the server does not grant
	// the lock that a count needs. After the last try, the whole publication is tried again.
	countTries = 30
	// mostFills limits how often a period's table is filled again because the rolling table was
	// altered before the swap.
	mostFills = 3
)

// errPublishLost is the cause of the end of a publication whose lock was lost.
var errPublishLost = engine.Classed(engine.ErrConnectionLost, errors.New("the lock on the period's publication is lost"))

// A filler writes the rows of a publication. With sourceOrder it writes them in the order of the
// source, so that the first of several rows with one key can be kept.
type filler = func(ctx context.Context, sourceOrder bool, write func(*engine.Batch) error) error

// Publishable returns an error if the account can't publish periods.
func (t *Table) Publishable(ctx context.Context) error {
	return engine.Probe(ctx, t.DB, engine.Needs{})
}

// FinishPublications completes each publication that a killed load has left, or gives it up and
// removes its tables. If another process is completing a publication of source, FinishPublications
// waits, so that on return no publication of source is in progress. If it can't complete a
// publication of another source, it only logs the error.
func (t *Table) FinishPublications(ctx context.Context, source string) error {
	changes, err := t.State.Changes(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	for i := range changes {
		c := &changes[i]
		if Kind(c.Kind) != Publish {
			continue
		}
		d := &publishing{}
		if err := c.Load(d); err != nil {
			return err
		}
		began, own, detail := time.Now(), d.Source == source, ""
		if own {
			var lease engine.Lease
			if lease, err = t.publisher().lead(ctx, d); err == nil {
				detail, err = d.finish(ctx, t, c, lease, busyWait)
			}
		} else {
			detail, err = d.resume(ctx, t, c)
		}
		if err := t.runner().ended(ctx, string(Publish), d.Part.Name, detail, began, err); err != nil && (own || ctx.Err() != nil) {
			return err
		}
	}
	return nil
}

// Publish creates a table with these columns, calls fill to write the rows of p into it, and
// replaces the period of p by it. If others have written to the period meanwhile, it returns
// state.ErrFilled. If keys occur twice, it calls fill again with sourceOrder, and keeps each key's
// first row.
//
// The replacement is a journalled change with a lock of its own, so that only one process at a time
// publishes the period, and any process can complete the change after a crash.
func (t *Table) Publish(ctx context.Context, p *state.Publication, columns []engine.Column, fill filler) (err error) {
	d := &publishing{Publication: *p}
	lease, err := t.publisher().lead(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return engine.WhileHeld(ctx, lease, errPublishLost, func(ctx context.Context) error {
		err := t.publisher().publishAsDeclared(ctx, d, columns, fill)
		if cause := context.Cause(ctx); errors.Is(cause, errPublishLost) {
			return cause
		}
		if err == nil {
			*p = d.Publication
		}
		return err
	})
}

// publishAsDeclared publishes according to the declaration in force. If the table was altered
// meanwhile, it begins again, up to mostFills attempts in all.
func (t publisher) publishAsDeclared(ctx context.Context, d *publishing, columns []engine.Column, fill filler) error {
	for n := 1; ; n++ {
		now, err := t.Follow(ctx)
		if err == nil {
			err = now.publisher().publish(ctx, d, columns, fill)
		}
		if !errors.Is(err, engine.ErrDiffers) {
			return err
		}
		if n == mostFills {
			return engine.Classed(engine.ErrUnsupported, err)
		}
		t.stale.Store(true)
	}
}

// lead waits for the lock on the period.
func (t publisher) lead(ctx context.Context, d *publishing) (lease engine.Lease, err error) {
	err = engine.Retry{First: busyPoll, Last: busyPoll}.Do(ctx, func() (err error) {
		lease, err = t.DB.Lead(ctx, d.lock())
		return err
	})
	return lease, err
}

// A givenUp error says why a publication was given up. The publication's tables are removed, so the
// load may insert the rows instead.
type givenUp struct{ error }

func (e givenUp) Unwrap() error { return e.error }

// unfinished returns the error of a publication that will be completed later. For an error of
// certain classes, a load inserts the rows instead of publishing them. unfinished removes these
// classes from err: otherwise, after the completion, the rows would be in the table twice.
func (t publisher) unfinished(ctx context.Context, err error) error {
	var given givenUp
	switch {
	case errors.As(err, &given):
		t.Log(ctx, string(Publish), given.Error(), 0, nil)
	case errors.Is(err, engine.ErrLockTimeout):
		return engine.Hinted(t.Blocked(ctx, err), "end the transaction that blocks it; the same command, or rowmill run, then completes it")
	case errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrUnsupported) || errors.Is(err, state.ErrFilled):
		return engine.Hinted(errors.New(err.Error()), "rowmill status, which shows the change; the same command, once its cause is removed")
	}
	return err
}

func (t publisher) publish(ctx context.Context, d *publishing, columns []engine.Column, fill filler) error {
	began := time.Now()
	c := &state.Change{Table: t.Table.Name, ID: fmt.Sprintf("publish %d", d.From), Kind: string(Publish), Step: stepStage}
	old, err := t.State.Change(ctx, c.Table, c.ID)
	if err != nil {
		return err
	}
	if old != nil { // a load has died during this change
		left := &publishing{}
		if err := old.Load(left); err != nil {
			return err
		}
		if _, err := t.finishPublish(ctx, old, left, busyWait); err != nil {
			var given givenUp
			if err = t.unfinished(ctx, err); !errors.As(err, &given) {
				return err
			}
		}
	}
	now, err := t.State.Publication(ctx, &d.Publication)
	if err != nil {
		return err
	}
	if now.State == state.Published { // an earlier attempt has committed, but its answer was lost
		d.Publication = *now
		return nil
	}
	if d.Part, err = t.find(ctx, d.Period); err != nil {
		return fmt.Errorf("%w: %v", state.ErrFilled, err)
	}
	once := fmt.Sprintf("_%x", time.Now().UnixMilli()&0xffffff)
	// The names are this attempt's own: a process that has lost its lock doesn't touch its tables.
	d.With, d.Out = Standalone(t.Table.Name, "in", d.Part)+once, Standalone(t.Table.Name, "out", d.Part)+once
	if d.Merges {
		d.Rows = Standalone(t.Table.Name, "rows", d.Part) + once
	}
	if _, err := t.State.Begin(ctx, c, d); err != nil {
		return err
	}
	t.Reach("publish begun")
	err = t.unbusy(ctx, c)
	if err == nil {
		err = t.rebuilder().beginMerge(ctx, d)
	}
	if err == nil {
		err = t.checkPublish(ctx, d)
	}
	if err == nil {
		err = t.stage(ctx, d, columns, fill)
	}
	if err == nil && d.Into {
		err = t.rebuilder().merge(ctx, d, columns)
	}
	if err == nil {
		err = t.checkPublish(ctx, d)
	}
	if err == nil && d.Into && d.Inserted == 0 {
		err = t.rebuilder().endMerge(ctx, c, d) // the period has all of the rows
	} else if err == nil {
		err = t.beginSwap(ctx, c, d)
	}
	if err != nil {
		if c.Step == stepStage {
			err = errors.Join(err, t.removePublish(ctx, c, d))
		}
		return err
	}
	if _, err := t.finishPublish(ctx, c, d, busyWait); err != nil {
		return t.unfinished(ctx, err)
	}
	t.Log(ctx, string(Publish), d.detail(), time.Since(began), nil)
	return nil
}

// detail describes a publication that is complete.
func (d *publishing) detail() string {
	out := fmt.Sprintf("%s: %s", d.Part.Name, figure.Plural(d.Sent, "row"))
	if d.Into {
		out += fmt.Sprintf(" merged with the %s that it had", figure.Count(d.Had))
	}
	return out
}

// unbusy waits until no other change of the period is in progress. No other change begins while the
// publication is recorded.
func (t publisher) unbusy(ctx context.Context, c *state.Change) error {
	for end := time.Now().Add(busyWait); ; {
		changes, err := t.State.Changes(ctx, c.Table)
		if err != nil {
			return err
		}
		own, _ := affected(c)
		i := slices.IndexFunc(changes, func(o state.Change) bool {
			p, is := affected(&o)
			return is && o.ID != c.ID && p.Overlaps(own.Period)
		})
		if i < 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: %s is under way", state.ErrFilled, changes[i].ID)
		}
		if err := engine.Sleep(ctx, busyPoll); err != nil {
			return err
		}
	}
}

// stage fills a table with the rows, and verifies it.
func (t publisher) stage(ctx context.Context, d *publishing, columns []engine.Column, fill filler) error {
	staged, err := t.fillStage(ctx, d, columns, false, fill)
	if errors.Is(err, engine.ErrDuplicateKey) && ctx.Err() == nil {
		staged, err = t.fillStage(ctx, d, columns, true, fill)
		if errors.Is(err, engine.ErrDuplicateKey) {
			err = engine.Classed(engine.ErrRefused, err)
		}
	}
	if err != nil {
		return fmt.Errorf("fill a table for %s: %w", d.Part.Name, err)
	}
	t.Reach("publish staged")
	// Two queries are faster than one that tests each row: a server can count all rows, and can find
	// the rows outside of the period by an index.
	var all, outside int64
	x, with, by := t.DB.SQL(), t.DB.Dialect().Quote(d.staged()), t.DB.Dialect().Quote(t.Table.By)
	err = x.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+with).Scan(&all)
	if err == nil {
		err = x.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s < %s OR %s >= %s OR %s IS NULL", with,
			by, t.DB.Words().Literal(t.Table, d.Part.From), by, t.DB.Words().Literal(t.Table, d.Part.To), by)).Scan(&outside)
	}
	if err != nil {
		return fmt.Errorf("verify table %s: %w", d.staged(), t.DB.Classify(err))
	}
	if all != staged.Rows || staged.Rows+staged.Skipped != d.Sent || outside > 0 {
		return fmt.Errorf("publish %s: %s sent; table %s has %d, of which %d lie outside of the period, and %d were skipped: the numbers don't add up, and nothing was published",
			d.Part.Name, figure.Plural(d.Sent, "row was", "rows were"), d.staged(), all, outside, staged.Skipped)
	}
	d.Inserted, d.Duplicate, d.Different = staged.Rows, staged.Skipped, 0
	return nil
}

func (t publisher) fillStage(ctx context.Context, d *publishing, columns []engine.Column, skip bool, fill filler) (out engine.Staged, err error) {
	db, is := t.DB.(engine.Stager)
	if !is {
		return out, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s has no bulk path", t.DB.Info().Engine))
	}
	s, err := db.Stage(ctx, t.Table, engine.StageOptions{Name: d.staged(), Columns: columns, Skip: skip, Bare: d.Into,
		Storage: engine.Storage{Compress: t.Declared.Seal.Compress}})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := fill(ctx, skip, func(b *engine.Batch) error { return s.Write(ctx, b) }); err != nil {
		return out, err
	}
	return s.Finish(ctx)
}

// checkPublish returns state.ErrFilled if the period can no longer be replaced, e.g. because others
// have inserted rows.
func (t publisher) checkPublish(ctx context.Context, d *publishing) error {
	if t.Declared.Late == rolling.LateReject {
		to, err := t.State.SealedUpTo(ctx, t.Table.Name)
		if err != nil {
			return err
		}
		if d.First < to {
			return fmt.Errorf("%w: it has been sealed, and the table refuses late rows", state.ErrFilled)
		}
	}
	if d.Into && d.Sum.Hash == "" {
		return nil // the period's rows are still to be copied
	}
	rows, err := t.rowsUpTo(ctx, d.Part, d.Had+1)
	if err == nil && rows > d.Had {
		err = fmt.Errorf("%w: others have inserted rows", state.ErrFilled)
	}
	return err
}

// rowsUpTo counts the rows of a period, up to most. It tries again if a lock is not granted, as
// happens while another period is being replaced.
func (t publisher) rowsUpTo(ctx context.Context, p rolling.Partition, most int64) (rows int64, err error) {
	err = engine.RetryLocks(ctx, countTries, func() error {
		defer t.gate.read()()
		return t.DB.Classify(t.DB.SQL().QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 AS one FROM %s LIMIT %d) AS r",
			t.DB.Words().From(t.Table, p), most)).Scan(&rows))
	})
	if err != nil {
		return 0, fmt.Errorf("count rows of %s: %w", p.Name, err)
	}
	return rows, nil
}

// beginSwap records that the filled table is about to become the period. It notes the changed range
// now, before the rows are in the period, so that after a crash no roll-up lacks these rows.
func (t publisher) beginSwap(ctx context.Context, c *state.Change, d *publishing) error {
	return t.inTx(ctx, func(tx *sql.Tx) error {
		known := d.Publication
		known.Counts = state.Counts{}
		if err := t.State.PutPublication(ctx, tx, &known); err != nil { // state.ErrForgotten
			return err
		}
		if err := t.touch(ctx, tx, d, rolling.Period{From: d.First, To: d.Last + 1}); err != nil {
			return err
		}
		return t.State.Advance(ctx, tx, c, stepSwap, d)
	})
}

// gone reports whether the period was dropped or merged before the swap.
func (t publisher) gone(ctx context.Context, d *publishing) (bool, error) {
	have, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return false, err
	}
	if i := rolling.Find(have, d.Part.From); i >= 0 && have[i].Period == d.Part.Period {
		return false, nil
	}
	replaced, err := t.Exists(ctx, d.Out)
	return !replaced && err == nil, err
}

func (t publisher) touch(ctx context.Context, tx *sql.Tx, d *publishing, r rolling.Period) error {
	if len(t.Declared.Rollups) == 0 {
		return nil
	}
	return t.State.Touch(ctx, tx, t.Table.Name, "publish "+d.Source, r)
}

// abandonWait limits the removal of what a failed publication has left.
const abandonWait = 30 * time.Second

// removePublish ends a publication before its swap, and removes its tables.
func (t publisher) removePublish(ctx context.Context, c *state.Change, d *publishing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer cancel()
	// The server may not yet have ended the connection that filled the table d.With.
	err := engine.Retry{First: FirstRetry, Last: FirstRetry}.Do(ctx, func() error { return t.DB.Try(ctx, engine.DropTables{Names: append(d.aside(), d.With)}) })
	if err != nil {
		return err
	}
	t.Reach("publish abandoned")
	return t.State.End(ctx, t.State.DB(), c)
}

// giveUp ends a publication whose swap was refused. It returns a givenUp error.
func (t publisher) giveUp(ctx context.Context, c *state.Change, d *publishing, cause error) error {
	var rows int64
	if err := t.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.DB.Dialect().Quote(d.With)).Scan(&rows); err != nil {
		return errors.Join(cause, t.DB.Classify(err))
	}
	if rows != d.Had+d.Inserted {
		return fmt.Errorf("%w; table %s has %s, and %d were published", cause, d.With, figure.Plural(rows, "row"), d.Had+d.Inserted)
	}
	err := t.State.Advance(ctx, t.State.DB(), c, stepStage, d)
	if err == nil {
		err = t.removePublish(ctx, c, d)
	}
	if err != nil {
		return errors.Join(cause, err)
	}
	why := "the server refuses its rows as a period"
	switch {
	case errors.Is(cause, engine.ErrDiffers):
		why = "the table was altered meanwhile"
	case errors.Is(cause, engine.ErrWritten):
		why, cause = "others wrote to the period meanwhile", fmt.Errorf("%w: %v", state.ErrFilled, cause)
	case errors.Is(cause, state.ErrFilled):
		why = "the period was dropped meanwhile"
	}
	return givenUp{fmt.Errorf("%s: given up, because %s (%w); the same load continues", d.Part.Name, why, cause)}
}

// finishPublish completes a publication from its current step. It waits up to patience for the lock
// with which the period is replaced, and tries at least once.
func (t publisher) finishPublish(ctx context.Context, c *state.Change, d *publishing, patience time.Duration) (string, error) {
	for {
		t.Reach("publish " + c.Step)
		var err error
		switch c.Step {
		case stepStage: // the load has died, and only it could complete the rows
			if err := t.removePublish(ctx, c, d); err != nil {
				return "", err
			}
			return d.Part.Name + ": the load ended before it was complete; the same load continues", nil
		case stepSwap:
			err = t.swapPublished(ctx, c, d, patience)
		case stepClean:
			if err := t.DB.Try(ctx, engine.DropTables{Names: append(d.aside(), d.Out)}); err != nil {
				return "", err
			}
			t.Reach("publish cleaned")
			return d.detail(), t.rebuilder().sealAgain(ctx, c, d)
		default:
			return "", fmt.Errorf("journal of %s: %s is at step %q, which this version doesn't know", c.Table, c.ID, c.Step)
		}
		if err != nil {
			return "", err
		}
	}
}

// swapPublished replaces the period, and records that in one transaction.
func (t publisher) swapPublished(ctx context.Context, c *state.Change, d *publishing, patience time.Duration) error {
	old := []rolling.Partition{d.Part}
	proofs := t.rebuilder().proofs(old, []engine.Checksum{d.Sum})
	t.copying.Lock()
	err := engine.Retry{First: FirstRetry, Last: LockPause, Until: time.Now().Add(patience), Waiting: func(err error) error {
		t.Report(Event{At: time.Now(), Action: string(Publish), Detail: d.Part.Name, Err: t.Blocked(ctx, err), Waiting: true})
		return nil
	}}.Do(ctx, func() error {
		return t.Alter(ctx, func(have []rolling.Partition) engine.Step {
			return engine.Replace{Table: t.Table, Have: have, Old: old, New: d.Part, With: d.With, Out: []string{d.Out}, Proofs: proofs}
		})
	})
	t.copying.Unlock()
	if errors.Is(err, engine.ErrDiffers) || errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrWritten) {
		return t.giveUp(ctx, c, d, err)
	}
	if err != nil {
		gone, lookErr := t.gone(ctx, d)
		if gone {
			return t.giveUp(ctx, c, d, fmt.Errorf("%w: %v", state.ErrFilled, err))
		}
		return errors.Join(fmt.Errorf("replace %s: %w", d.Part.Name, err), lookErr)
	}
	t.Reach("publish swapped")
	if err := t.guard().triggers(ctx); err != nil {
		return err
	}
	d.State = state.Published
	return t.inTx(ctx, func(tx *sql.Tx) error {
		if err := t.State.Forget(ctx, tx, t.Table.Name, d.Part.Period); err != nil {
			return err
		}
		// Touch the whole period: before its new table had triggers, others may have inserted rows.
		if err := t.touch(ctx, tx, d, d.Part.Period); err != nil {
			return err
		}
		// A missing record of the source means that the table was created again. The rows are in the new
		// table, and a load of the source finds them there.
		if err := t.State.PutPublication(ctx, tx, &d.Publication); err != nil && !errors.Is(err, state.ErrForgotten) {
			return err
		}
		return t.State.Advance(ctx, tx, c, stepClean, d)
	})
}
