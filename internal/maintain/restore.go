package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
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

// A Restoration restores the rows of an archive, as a period of their table or as a
// table of their own.
type Restoration struct {
	File archive.Info
	// Into is the name of the table to create; "" attaches the rows as a period.
	Into string
	// Part is the period with its name in the table.
	Part rolling.Partition
	// Begun means that an earlier run began it and stopped at Step.
	Begun bool
	Step  string
	// Notes are for the owner.
	Notes []string
	// WithoutSeal accepts rows that match the file although their checksum differs
	// from that of the period's seal.
	WithoutSeal bool

	t *Table
	c state.Change
}

// A restoring is the state of a restoration, as its steps record it.
type restoring struct {
	Part  rolling.Partition
	Table string // holds the rows until they are in place
	Into  string
	Path  string
	Sum   string
	Rows  int64
}

// Steps of a restoration.
const (
	stepFill   = "fill"
	stepAttach = "attach"
	stepRename = "rename"
)

// Archives lists the files of the table's periods: those in its directory, and
// those that periods were archived to elsewhere. Missing files have a Problem.
func (t *Table) Archives(ctx context.Context) ([]archive.Info, error) {
	var out []archive.Info
	if t.Declared.Seal.Archive != "" {
		dir := t.archiveDir()
		var err error
		if out, err = archive.List(dir, t.Table.Name); err != nil {
			return nil, err
		}
	}
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil && !isNoTable(err) {
		return nil, err
	}
	for _, k := range known {
		if k.Archive == "" || slices.ContainsFunc(out, func(i archive.Info) bool { return samePath(i.Path, k.Archive) }) {
			continue
		}
		i, err := archive.Look(k.Archive)
		if err != nil {
			i.Problem = err.Error()
			i.Table, i.Name, i.From, i.To, i.Rows, i.Sum = k.Table, k.Name, k.From, k.To, k.Rows, k.ArchiveSum
			i.Bounds = t.Table.Grid.Format(k.From) + " to " + t.Table.Grid.Format(k.To)
		}
		out = append(out, i)
	}
	slices.SortStableFunc(out, func(a, b archive.Info) int {
		switch {
		case a.From != b.From && a.From < b.From:
			return -1
		case a.From != b.From:
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out, nil
}

func samePath(a, b string) bool {
	if a, err := filepath.Abs(a); err == nil {
		if b, err := filepath.Abs(b); err == nil {
			return a == b
		}
	}
	return a == b
}

// FindArchive returns the file of the named period.
func (t *Table) FindArchive(ctx context.Context, period string) (string, error) {
	all, err := t.Archives(ctx)
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if i.Name == period {
			return i.Path, nil
		}
	}
	if t.Declared.Seal.Archive != "" {
		dir := t.archiveDir()
		// A damaged file may not identify its contents, but its name contains the
		// period's.
		if path := archive.Path(dir, t.Table.Name, period); slices.ContainsFunc(all, func(i archive.Info) bool { return samePath(i.Path, path) }) {
			return path, nil
		}
	}
	var names []string
	for _, i := range all {
		if i.Name != "" {
			names = append(names, i.Name)
		}
	}
	switch {
	case len(names) == 0:
		return "", engine.Hinted(fmt.Errorf("restore %s: table %s has no archives", period, t.Table.Name), "--file FILE, where the file lies elsewhere")
	case len(names) > 6:
		names = append(append(names[:3:3], "..."), names[len(names)-3:]...)
	}
	return "", engine.Hinted(fmt.Errorf("restore %s: table %s has no archive of that period; it has %s", period, t.Table.Name, strings.Join(names, ", ")), "--list, or --file FILE")
}

// PlanRestore inspects a file and the table, and returns the plan of the
// restoration. It rejects a restoration that can't succeed.
func (t *Table) PlanRestore(ctx context.Context, path, into string) (*Restoration, error) {
	if t.Schema == nil {
		return nil, engine.Hinted(fmt.Errorf("restore into %s: the table isn't there", t.Table.Name), "rowmill apply")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r := &Restoration{Into: into, t: t}
	if r.File, err = archive.Look(path); err != nil {
		return nil, err
	}
	f := &r.File
	if f.Table != t.Table.Name {
		return nil, engine.Hinted(fmt.Errorf("restore %s: the file is of table %s, not of %s", path, f.Table, t.Table.Name), "the declaration of %s", f.Table)
	}
	r.Part = f.Partition()
	r.c = state.Change{Table: t.Table.Name, ID: fmt.Sprintf("restore %d", f.From), Kind: string(Restore), Step: stepFill}
	if into != "" {
		r.c.ID += " into " + into
	}
	if old, err := t.State.Change(ctx, t.Table.Name, r.c.ID); err != nil {
		return nil, err
	} else if old != nil {
		var d restoring
		if err := old.Load(&d); err != nil {
			return nil, err
		}
		if d.Path != path || d.Sum != f.Sum || d.Part.Period != r.Part.Period {
			return nil, engine.Hinted(fmt.Errorf("restore %s: a restoration of %s from %s is under way", path, d.Part.Name, d.Path), "that file, so that it ends")
		}
		r.c, r.Begun, r.Step, r.Part = *old, true, old.Step, d.Part
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

// checkInto rejects an existing table, unless an earlier run of this restoration
// made it.
func (r *Restoration) checkInto(ctx context.Context) error {
	there, err := r.t.exists(ctx, r.Into)
	if err != nil {
		return err
	}
	if there && r.Step != stepRename {
		return fmt.Errorf("restore %s: table %s is there already", r.Part.Name, r.Into)
	}
	return nil
}

func (t *Table) exists(ctx context.Context, name string) (bool, error) {
	_, err := t.DB.Describe(ctx, name)
	if isNoTable(err) {
		return false, nil
	}
	return err == nil, err
}

// checkAttach rejects a period that overlaps another one.
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

// Run executes the restoration, or completes one that was begun. note, which may be
// nil, is called with the number of rows so far. waiting, which may be nil, is
// called with the error of each attempt to get the table's lock that fails.
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
	d := restoring{Part: r.Part, Table: standalone(t.Table.Name, "back", r.Part), Into: r.Into, Path: r.File.Path, Sum: r.File.Sum, Rows: r.File.Rows}
	if r.Into != "" {
		d.Table = standalone(t.Table.Name, "into", r.Part)
	}
	t.reach("restore")
	fresh, err := t.State.Begin(ctx, &r.c, d)
	if err != nil {
		return err
	}
	if !fresh {
		if err := r.c.Load(&d); err != nil {
			return err
		}
	}
	t.reach("restore begun")
	if r.c.Step == stepFill {
		if err := r.fill(ctx, d, note); err != nil {
			return errors.Join(err, r.abandon(ctx, d))
		}
	}
	detail := fmt.Sprintf("%s: %s from %s", d.Part.Name, figure.Plural(d.Rows, "row", "rows"), d.Path)
	switch r.c.Step {
	case stepAttach:
		err = r.attach(ctx, d, waiting)
	case stepRename:
		detail += " into " + d.Into
		err = r.rename(ctx, d)
	default:
		err = fmt.Errorf("journal of %s: %s is at step %q, which this version doesn't know", r.c.Table, r.c.ID, r.c.Step)
	}
	if err != nil {
		return errors.Join(err, t.State.Failed(context.WithoutCancel(ctx), &r.c, err))
	}
	t.reach("restore placed")
	if d.Into == "" {
		if err := t.triggers(ctx); err != nil {
			return errors.Join(err, t.State.Failed(context.WithoutCancel(ctx), &r.c, err))
		}
		if err := t.unsealLevels(ctx, d.Part.Period); err != nil {
			return errors.Join(err, t.State.Failed(context.WithoutCancel(ctx), &r.c, err))
		}
	}
	if err := t.State.End(ctx, t.State.DB(), &r.c); err != nil {
		return err
	}
	t.reach("restored")
	t.log(ctx, string(Restore), detail, time.Since(began), nil)
	return nil
}

// unsealLevels allows the buckets of a restored period to be recomputed, unless a
// later period is still dropped: the levels would lose its rows.
func (t *Table) unsealLevels(ctx context.Context, p rolling.Period) error {
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

// fill creates a table from the file and compares its rows with the file and with
// the period's seal.
func (r *Restoration) fill(ctx context.Context, d restoring, note func(int64)) error {
	t := r.t
	if err := t.DB.Try(ctx, engine.DropTables{Names: []string{d.Table}}); err != nil {
		return err
	}
	t.reach("restore cleared")
	for _, q := range t.DB.Words().CreateTemplate(t.Table, d.Table, engine.Storage{Compress: t.Declared.Seal.Compress}) {
		if _, err := t.DB.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("create table %s: %w", d.Table, t.DB.Classify(err))
		}
	}
	t.reach("restore created")
	f, err := archive.Restore(ctx, t.DB, t.Table, t.Schema, d.Path, d.Table, note)
	if err != nil {
		return err
	}
	t.reach("restore filled")
	from := t.DB.Dialect().Quote(d.Table)
	all, err := t.sumOf(ctx, t.State.DB(), from, nil)
	if err != nil {
		return err
	}
	within, err := t.sumOf(ctx, t.State.DB(), from, &d.Part.Period)
	if err != nil {
		return err
	}
	if within != all || all.Rows != f.Rows {
		return fmt.Errorf("restore %s: of %s in it, %s outside of the period", d.Part.Name, figure.Plural(all.Rows, "row", "rows"), figure.Plural(all.Rows-within.Rows, "lies", "lie"))
	}
	known, err := t.sealed(ctx, d.Part.Period)
	if err != nil {
		return err
	}
	if err := r.asSealed(ctx, d, f, known, len(r.File.Columns()) == len(t.columns())); err != nil {
		return err
	}
	if d.Into != "" {
		return t.State.Advance(ctx, t.State.DB(), &r.c, stepRename, nil)
	}
	// The record precedes the period: a daemon that saw the period without it would
	// drop the period again.
	k := state.Period{Table: t.Table.Name, Partition: d.Part, State: state.Restored, Rows: all.Rows, Checksum: all.Hash,
		Rebuilt: true, // filled in the order of the key, and compressed
		Archive: d.Path, ArchiveSum: f.Sum}
	return t.inTx(ctx, func(tx *sql.Tx) error {
		if err := t.State.Put(ctx, tx, k); err != nil {
			return err
		}
		return t.State.Advance(ctx, tx, &r.c, stepAttach, nil)
	})
}

// abandon removes the table of a failed restoration before it is in use.
func (r *Restoration) abandon(ctx context.Context, d restoring) error {
	if r.c.Step != stepFill {
		return nil // recording the next step failed: run again
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := r.t.DB.Try(ctx, engine.DropTables{Names: []string{d.Table}}); err != nil {
		return err
	}
	return r.t.State.End(ctx, r.t.State.DB(), &r.c)
}

// sealed returns the record of exactly this period, or nil.
func (t *Table) sealed(ctx context.Context, p rolling.Period) (*state.Period, error) {
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

// attach attaches the filled table as a period. It retries until ctx ends if the
// lock isn't granted.
func (r *Restoration) attach(ctx context.Context, d restoring, waiting func(error)) error {
	t := r.t
	t.reach("restore attach")
	for {
		have, err := t.DB.Catalog().Partitions(ctx, t.Table)
		if err != nil {
			return err
		}
		err = t.tryLocked(ctx, engine.Attach{Table: t.Table, Have: have, Part: d.Part, From: d.Table})
		if !errors.Is(err, engine.ErrLockTimeout) {
			return err
		}
		if waiting != nil {
			waiting(t.blocked(ctx, err))
		}
		if engine.Sleep(ctx, engine.Jitter(firstRetry)) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// rename gives the filled table the requested name.
func (r *Restoration) rename(ctx context.Context, d restoring) error {
	t := r.t
	t.reach("restore rename")
	filled, err := t.exists(ctx, d.Table)
	if err != nil {
		return err
	}
	there, err := t.exists(ctx, d.Into)
	if err != nil {
		return err
	}
	switch {
	case filled && there:
		return fmt.Errorf("restore %s: table %s is there already; the rows are in %s", d.Part.Name, d.Into, d.Table)
	case !filled && there:
		return nil // before a crash
	}
	quote := t.DB.Dialect().Quote
	_, err = t.DB.SQL().ExecContext(ctx, "ALTER TABLE "+quote(d.Table)+" RENAME TO "+quote(d.Into))
	return t.DB.Classify(err)
}

// Release returns a restored period to retention: its file is read once more, and
// the next pass may drop it.
func (t *Table) Release(ctx context.Context, period string) error {
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Name != period || k.State != state.Restored {
			continue
		}
		k.State = state.Archived
		f, err := archive.Verify(ctx, k.Archive, nil)
		switch {
		case errors.Is(err, os.ErrNotExist), archive.Damaged(err), err == nil && f.Sum != k.ArchiveSum:
			k.State, k.Archive, k.ArchiveSum = state.Sealed, "", "" // to be archived again
		case err != nil:
			return err
		}
		if err := t.inTx(ctx, func(tx *sql.Tx) error { return t.State.Put(ctx, tx, k) }); err != nil {
			return err
		}
		t.log(ctx, "release", k.Name, 0, nil)
		return nil
	}
	return engine.Hinted(fmt.Errorf("release %s: table %s has no restored period of that name", period, t.Table.Name), "rowmill status, which lists the periods")
}
