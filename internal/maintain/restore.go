package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/archive"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Restore is the kind of change that restores an archived period. No lane begins or
// completes one: it is started from the command line.
const Restore Kind = "restore"

// A Restoration restores an archive's rows as a period of their table, or as a table of its own.
type Restoration struct {
	restoring
	File archive.Info
	// Begun means that an earlier run began it and stopped at Step.
	Begun bool
	Step  string
	Notes []string // for the owner
	// WithoutSeal accepts rows that match the file but not the checksum of the period's seal.
	WithoutSeal bool

	t *Table
	c state.Change
}

// A restoring is the recorded state of a restoration.
type restoring struct {
	Part  rolling.Partition // the period, with the name that its partition will have
	Table string            // holds the rows until they are in place
	Into  string            // the table to create; "" attaches the rows as a period
	Path  string
	Sum   string
	Rows  int64
}

func (r *restoring) task() Task                         { return Task{Kind: Restore, Parts: []rolling.Partition{r.Part}} }
func (r *restoring) period() (rolling.Partition, bool)  { return r.Part, r.Into == "" }
func (r *restoring) tables(string) (copies, _ []string) { return []string{r.Table}, nil }

// resume does nothing: only the command line completes a restoration.
func (r *restoring) resume(context.Context, *Table, *state.Change) (string, error) { return "", nil }

// Steps of a restoration.
const (
	stepFill   = "fill"
	stepAttach = "attach"
	stepRename = "rename"
)

// PlanRestore inspects a file and the table, and returns the plan of the restoration. It refuses a
// restoration that can't succeed.
func (t *Table) PlanRestore(ctx context.Context, path, into string) (*Restoration, error) {
	if t.Schema == nil {
		return nil, engine.Hinted(fmt.Errorf("restore into %s: the table does not exist", t.Table.Name), "rowmill apply")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r := &Restoration{t: t}
	if r.File, err = archive.Look(path); err != nil {
		return nil, err
	}
	f := &r.File
	if f.Table != t.Table.Name {
		return nil, engine.Hinted(fmt.Errorf("restore %s: the file is of table %s, not of %s", path, f.Table, t.Table.Name), "the declaration of %s", f.Table)
	}
	part := f.Partition()
	r.restoring = restoring{Part: part, Table: Standalone(t.Table.Name, "back", part), Into: into, Path: f.Path, Sum: f.Sum, Rows: f.Rows}
	r.c = state.Change{Table: t.Table.Name, ID: fmt.Sprintf("restore %d", f.From), Kind: string(Restore), Step: stepFill}
	if into != "" {
		r.Table = Standalone(t.Table.Name, "into", part)
		r.c.ID += " into " + into
	}
	old, err := t.State.Change(ctx, t.Table.Name, r.c.ID)
	if err != nil {
		return nil, err
	}
	if old != nil {
		if err := old.Load(&r.restoring); err != nil {
			return nil, err
		}
		if r.Path != path || r.Sum != f.Sum || r.Part.Period != part.Period {
			return nil, engine.Hinted(fmt.Errorf("restore %s: a restoration of %s from %s is under way", path, r.Part.Name, r.Path), "that file, which completes it")
		}
		r.c, r.Begun, r.Step = *old, true, old.Step
	}
	for _, c := range t.Schema.Columns {
		if !c.Generated && !slices.Contains(f.Columns(), c.Name) {
			r.Notes = append(r.Notes, fmt.Sprintf("column %s came after the file was written: its rows get the default", c.Name))
		}
	}
	if into != "" {
		return r, r.checkInto(ctx)
	}
	return r, r.checkAttach(ctx)
}

// checkInto rejects an existing table, unless an earlier run of this restoration made it.
func (r *Restoration) checkInto(ctx context.Context) error {
	there, err := r.t.Exists(ctx, r.Into)
	if err != nil {
		return err
	}
	if there && r.Step != stepRename {
		return fmt.Errorf("restore %s: table %s exists already", r.Part.Name, r.Into)
	}
	return nil
}

func (r *Restoration) checkAttach(ctx context.Context) error {
	have, err := r.t.DB.Catalog().Partitions(ctx, r.t.Table)
	if err != nil {
		return err
	}
	for _, p := range have {
		switch {
		case r.Begun && r.Step == stepAttach && p.Period == r.Part.Period:
			// It was attached before a crash, which the step detects.
		case p.Period == r.Part.Period:
			return engine.Hinted(fmt.Errorf("restore %s: table %s has that period", r.Part.Name, r.t.Table.Name), "--into TABLE, for a table of its own")
		case p.Overlaps(r.Part.Period):
			return engine.Hinted(fmt.Errorf("restore %s: period %s of table %s, from %s to %s, overlaps it", r.Part.Name, p.Name, r.t.Table.Name,
				r.t.Table.Grid.Format(p.From), r.t.Table.Grid.Format(p.To)), "--into TABLE, for a table of its own")
		}
	}
	for !r.Begun && slices.ContainsFunc(have, func(p rolling.Partition) bool { return strings.EqualFold(p.Name, r.Part.Name) }) {
		r.Part.Name += "x" // a period with other bounds has the name
	}
	return nil
}

// Run executes the restoration, or completes an interrupted one. note, which may be nil, is called
// with the number of rows so far. waiting, which may be nil, is called with the error of each
// failed attempt to get the table's lock.
func (r *Restoration) Run(ctx context.Context, note func(rows int64), waiting func(error)) (err error) {
	t := r.t
	lease, err := t.DB.Lead(ctx, t.Table.Name+"/restore")
	if errors.Is(err, engine.ErrLockTimeout) {
		return fmt.Errorf("restore %s: another restoration of table %s is running", r.Part.Name, t.Table.Name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	began := time.Now()
	t.Reach("restore")
	fresh, err := t.State.Begin(ctx, &r.c, r.restoring)
	if err == nil && !fresh {
		err = r.c.Load(&r.restoring)
	}
	if err != nil {
		return err
	}
	t.Reach("restore begun")
	if r.c.Step == stepFill {
		if err := r.fill(ctx, note); err != nil {
			return errors.Join(err, r.abandon(ctx))
		}
	}
	if err := r.place(ctx, waiting); err != nil {
		return errors.Join(err, t.State.Failed(context.WithoutCancel(ctx), &r.c, err))
	}
	if err := t.State.End(ctx, t.State.DB(), &r.c); err != nil {
		return err
	}
	t.Reach("restored")
	detail := fmt.Sprintf("%s: %s from %s", r.Part.Name, figure.Plural(r.Rows, "row"), r.Path)
	if r.Into != "" {
		detail += " into " + r.Into
	}
	t.Log(ctx, string(Restore), detail, time.Since(began), nil)
	return nil
}

// place attaches or renames the filled table.
func (r *Restoration) place(ctx context.Context, waiting func(error)) (err error) {
	t := r.t
	switch r.c.Step {
	case stepAttach:
		err = r.attach(ctx, waiting)
	case stepRename:
		err = r.rename(ctx)
	default:
		err = fmt.Errorf("journal of %s: %s is at step %q, which this version doesn't know", r.c.Table, r.c.ID, r.c.Step)
	}
	if err != nil {
		return err
	}
	t.Reach("restore placed")
	if r.Into != "" {
		return nil
	}
	if err := t.guard().triggers(ctx); err != nil {
		return err
	}
	return r.unsealLevels(ctx)
}

// unsealLevels allows the buckets of a restored period to be recomputed. It does nothing if a later
// period is dropped and not restored, because the roll-ups would lose that period's rows.
func (r *Restoration) unsealLevels(ctx context.Context) error {
	t, p := r.t, r.Part.Period
	if t.Rollups == nil {
		return nil
	}
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.State == state.Dropped && k.To > p.To {
			return nil
		}
	}
	return t.inTx(ctx, func(tx *sql.Tx) error { return t.Rollups.Unseal(ctx, tx, p.From) })
}

// fill creates a table from the file and compares its rows with the file and the period's seal.
func (r *Restoration) fill(ctx context.Context, note func(int64)) error {
	t := r.t
	if err := t.rebuilder().createCopy(ctx, r.Table); err != nil {
		return err
	}
	t.Reach("restore created")
	f, err := archive.Restore(ctx, t.DB, t.Table, t.Schema, r.Path, r.Table, note)
	if err != nil {
		return err
	}
	t.Reach("restore filled")
	from := t.DB.Dialect().Quote(r.Table)
	all, err := t.sums().checksum(ctx, from, nil)
	if err != nil {
		return err
	}
	within, err := t.sums().checksum(ctx, from, &r.Part.Period)
	if err != nil {
		return err
	}
	if within != all || all.Rows != f.Rows {
		return fmt.Errorf("restore %s: of %s in it, %s outside of the period", r.Part.Name, figure.Plural(all.Rows, "row"), figure.Plural(all.Rows-within.Rows, "lies", "lie"))
	}
	known, err := t.sealer().sealed(ctx, r.Part.Period)
	if err != nil {
		return err
	}
	if err := r.compareWithSeal(ctx, f, known, all); err != nil {
		return err
	}
	if r.Into != "" {
		return t.State.Advance(ctx, t.State.DB(), &r.c, stepRename, nil)
	}
	// Write the record before the period: a daemon that saw the period without a record would drop it
	// again.
	k := state.Period{Table: t.Table.Name, Partition: r.Part, State: state.Restored, Rows: all.Rows, Checksum: all.Hash,
		Rebuilt: true, // filled in the order of the key, and compressed
		Archive: r.Path, ArchiveSum: f.Sum}
	return t.inTx(ctx, func(tx *sql.Tx) error {
		if err := t.State.Put(ctx, tx, k); err != nil {
			return err
		}
		return t.State.Advance(ctx, tx, &r.c, stepAttach, nil)
	})
}

func (r *Restoration) abandon(ctx context.Context) error {
	if r.c.Step != stepFill {
		return nil // the table is complete, but the next step isn't recorded: the next run goes on
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := r.t.DB.Try(ctx, engine.DropTables{Names: []string{r.Table}}); err != nil {
		return err
	}
	return r.t.State.End(ctx, r.t.State.DB(), &r.c)
}

// sealed returns the record of exactly this period, or nil.
func (t sealer) sealed(ctx context.Context, p rolling.Period) (*state.Period, error) {
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return nil, err
	}
	for i := range known {
		if known[i].Period == p {
			return &known[i], nil
		}
	}
	return nil, nil
}

// attach attaches the filled table as a period. It retries while the lock isn't granted.
func (r *Restoration) attach(ctx context.Context, waiting func(error)) error {
	t := r.t
	t.Reach("restore attach")
	var locked error
	err := engine.Retry{First: FirstRetry, Last: FirstRetry, Waiting: func(err error) error {
		if locked = err; waiting != nil {
			waiting(t.Blocked(ctx, err))
		}
		return nil
	}}.Do(ctx, func() error {
		have, err := t.DB.Catalog().Partitions(ctx, t.Table)
		if err != nil {
			return err
		}
		return t.TryLocked(ctx, engine.Attach{Table: t.Table, Have: have, Part: r.Part, From: r.Table})
	})
	if ctx.Err() != nil {
		err = errors.Join(locked, err)
	}
	return err
}

func (r *Restoration) rename(ctx context.Context) error {
	t := r.t
	t.Reach("restore rename")
	filled, err := t.Exists(ctx, r.Table)
	if err != nil {
		return err
	}
	there, err := t.Exists(ctx, r.Into)
	if err != nil {
		return err
	}
	switch {
	case filled && there:
		return fmt.Errorf("restore %s: table %s exists already; the rows are in %s", r.Part.Name, r.Into, r.Table)
	case !filled && there:
		return nil // renamed before a crash
	}
	quote := t.DB.Dialect().Quote
	_, err = t.DB.SQL().ExecContext(ctx, "ALTER TABLE "+quote(r.Table)+" RENAME TO "+quote(r.Into))
	return t.DB.Classify(err)
}

// compareWithSeal compares the restored rows with the count and checksum of the period's seal. The
// file's own checksums have already proven that the file is as it was archived.
func (r *Restoration) compareWithSeal(ctx context.Context, f archive.Info, known *state.Period, now engine.Checksum) error {
	t := r.t
	if known == nil || known.ArchiveSum != f.Sum || len(r.File.Columns()) != len(t.columns()) {
		return nil
	}
	if now.Rows != known.Rows {
		return fmt.Errorf("restore %s: the server has %d rows of it, and it had %d when it was sealed", r.Part.Name, now.Rows, known.Rows)
	}
	if now.Hash == known.Checksum {
		return nil
	}
	differs := fmt.Sprintf("the checksum of its %d rows is %s on the server, and its seal has %s", now.Rows, now.Hash, known.Checksum)
	if r.WithoutSeal {
		t.Log(ctx, string(Restore), fmt.Sprintf("%s: compared with its file only: %s", r.Part.Name, differs), 0, nil)
		return nil
	}
	return engine.Hinted(fmt.Errorf("restore %s: %s. The file is the one that was archived, and the server has its values; "+
		"the seal was made with other settings or by another release, or a value was another one when it was sealed", r.Part.Name, differs),
		"--without-seal, to trust the file alone; with --into TABLE the rows can be inspected first")
}

// Plan describes the restoration, for its confirmation.
func (r *Restoration) Plan() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  holds period %s of %s: %s, %s in %s, written %s from %s %s\n", r.File.Path, r.File.Name, r.File.Table, r.File.Bounds,
		figure.Plural(r.File.Rows, "row"), figure.Bytes(float64(r.File.Bytes)), r.File.Written.UTC().Format("2006-01-02 15:04"), r.File.Engine, r.File.Version)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if r.Begun {
		fmt.Fprintf(&b, "It was begun before, and continues at step %q.\n", r.Step)
	}
	fmt.Fprintf(&b, "On %s:\n", r.t.DB.Info().Target)
	steps := []string{"read the file into a new table, and compare number and checksum of its rows"}
	if r.Into != "" {
		steps = append(steps, "name that table "+r.Into)
	} else {
		steps = append(steps, fmt.Sprintf("record that %s is restored, so that retention does not drop it", r.Part.Name),
			fmt.Sprintf("attach it to %s as period %s", r.t.Declared.Name, r.Part.Name))
	}
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	return b.String()
}
