package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A follower keeps the table according to the declaration in force, which any process may replace.
type follower struct{ *table }

func (t *Table) follower() follower { return follower{t} }

// Declaring is the log's action for a declaration that takes effect or can't be followed.
const Declaring = "declaration"

// A mark identifies an applied declaration. The zero mark identifies none.
type mark struct {
	Revision int64
	Created  int64 // in microseconds; tells tables apart, because each begins at revision 1
}

func markOf(d *state.Declared) mark { return mark{d.Revision, d.Created.UnixMicro()} }

// A followed is a declaration in force, with the table that it describes.
type followed struct {
	mark     // zero unless Follow returned the table
	Declared *rolling.Declaration
	// Table describes the table to engines. Schema is nil while the table doesn't exist.
	Table   *engine.Table
	Schema  *engine.Schema
	Rollups *rollup.Set // nil if the table has none
}

// shared is the state that all copies of a Table share.
type shared struct {
	failed failures
	turns  sync.Mutex
	gate   gate
	// copying is locked for reading while a statement copies all rows of a period. Such a statement
	// blocks the swap of another period for longer than the lock timeout.
	copying sync.RWMutex
	// waiting has the IDs of the tasks that were not yet possible at their last attempt, e.g. a seal
	// because a bucket of a roll-up isn't over.
	waiting sync.Map
	last    atomic.Pointer[followed] // the declaration that Follow read last, or nil
	stale   atomic.Bool              // the table was altered since then
	said    atomic.Pointer[followed] // the declaration that was logged last
	passed  atomic.Pointer[mark]     // the declaration under which all triggers were created
}

// NotYet reports whether a task was not yet possible at its last attempt.
func (s *shared) NotYet(task Task) bool {
	_, waits := s.waiting.Load(task.ID())
	return waits
}

// An UnfollowedError is the reason why a table can't be kept according to its declaration.
type UnfollowedError struct {
	why, try string
	// gone means that the table or its declaration doesn't exist. If gone is false, periods are still
	// created according to the previous declaration.
	gone bool
}

func (e *UnfollowedError) Error() string { return e.why }

// errChanged ends a task because another declaration was applied after the task was planned.
var errChanged = errors.New("the declaration has changed: the decision is made again")

// Follow returns the table according to the declaration that was applied last, by any process: the
// one in the database. The result is a copy of t that shares its log. If the declaration can't be
// followed, the error is an UnfollowedError.
func (t *Table) Follow(ctx context.Context) (*Table, error) {
	stored, err := t.State.Declared(ctx, t.Table.Name)
	if err != nil && !isNoTable(err) {
		return nil, err
	}
	if stored == nil {
		return nil, &UnfollowedError{why: fmt.Sprintf("no declaration of table %s is in force on %s: the table is not maintained", t.Table.Name, t.DB.Info().Target),
			try: "rowmill apply FILE; or stop this rowmill run, if the table is not to be kept", gone: true}
	}
	f := t.last.Load()
	if f == nil || t.stale.Load() || f.mark != markOf(stored) {
		if f, err = t.follower().read(ctx, stored); err != nil {
			return nil, err
		}
		t.last.Store(f)
		t.stale.Store(false)
	}
	return t.follower().by(f), nil
}

// LastFollowed returns the table as the last declaration that could be followed describes it.
func (t *Table) LastFollowed() *Table {
	if f := t.last.Load(); f != nil {
		return t.follower().by(f)
	}
	return t
}

// forLane returns the table as a lane must keep it at present, and logs a change of declaration. If
// the declaration in force can't be followed, periods are still created according to the previous
// declaration, so that inserts continue. In that case forLane returns both a table and an error.
func (t follower) forLane(ctx context.Context, lane Lane) (*Table, error) {
	now, err := t.Follow(ctx)
	var not *UnfollowedError
	switch {
	case errors.As(err, &not):
		t.Log(ctx, Declaring, "not followed", 0, engine.Hinted(err, "%s", not.try))
		if lane == Creating && !not.gone {
			return t.LastFollowed(), err
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	is := t.last.Load()
	if before := t.said.Swap(is); before == nil || before.mark != is.mark {
		was := t.Declared
		if before != nil {
			was = before.Declared
		}
		if changes := declaredChanges(was, is.Declared); len(changes) > 0 {
			t.Log(ctx, Declaring, fmt.Sprintf("now follows revision %d: %s", is.Revision, strings.Join(changes, "; ")), 0, nil)
		}
	}
	if t.failed.open.CompareAndSwap(Declaring, true, false) {
		t.Log(ctx, Declaring, fmt.Sprintf("now follows revision %d", now.mark.Revision), 0, nil)
	}
	return now, nil
}

// changed reports whether the table was altered or dropped since its schema was read. If so, the
// next Follow reads the schema again.
func (t follower) changed(ctx context.Context) (bool, error) {
	is, err := t.DB.Describe(ctx, t.Table.Name)
	if err != nil && !isNoTable(err) {
		return false, err
	}
	was := t.Schema
	if err == nil && reflect.DeepEqual(is.Columns, was.Columns) && is.PartitionedBy == was.PartitionedBy && is.By == was.By {
		return false, nil
	}
	t.stale.Store(true)
	return true, nil
}

func (t follower) by(f *followed) *Table {
	n := *t.table
	n.followed = *f
	switch was, is := t.Table.Grid.Axis(), f.Table.Grid.Axis(); {
	case is == rolling.Sequence:
		n.Now = n.highest
	case was == rolling.Sequence:
		n.Now = t.clock
	}
	return &n
}

func (t follower) read(ctx context.Context, stored *state.Declared) (*followed, error) {
	name := stored.Name
	unreadable := func(err error) error {
		return &UnfollowedError{why: fmt.Sprintf("this rowmill can't follow revision %d of the declaration of %s: %v", stored.Revision, name, err),
			try: "rowmill run of the version that applied it; until then periods are created by the revision before, and nothing else is done"}
	}
	d, err := DeclaredOf(stored, t.Declared.Target)
	if err != nil {
		return nil, unreadable(err)
	}
	n := *t.table
	n.followed = followed{mark: markOf(stored), Declared: d, Table: tableOf(d)}
	if err := n.ReadSchema(ctx); err != nil {
		return nil, err
	}
	gone := func(what, try string) error { return &UnfollowedError{why: what, try: try, gone: true} }
	switch {
	case n.Schema == nil:
		return nil, NoTable(name)
	case !n.Schema.Partitioned:
		return nil, gone(fmt.Sprintf("table %s has no periods: it is a plain table now", name), "rowmill apply FILE, which makes it a rolling one")
	case n.Schema.By != d.Time:
		return nil, gone(fmt.Sprintf("table %s is partitioned by column %q, and %q is declared", name, n.Schema.By, d.Time), "rowmill apply FILE --dry-run, which says what differs")
	}
	if err := n.OpenLevels(); err != nil {
		return nil, unreadable(err)
	}
	if n.Rollups != nil {
		n.Rollups.Guard = func(ctx context.Context, remove func(context.Context) error) error {
			return t.locks().withDeclarationLocked(ctx, markOf(stored), remove)
		}
	}
	return &n.followed, nil
}

// NoTable is the error of a declared table that does not exist.
func NoTable(name string) *UnfollowedError {
	return &UnfollowedError{why: fmt.Sprintf("table %s is declared but does not exist", name), try: "rowmill apply FILE, which creates it, or find out who has dropped it", gone: true}
}

// DeclaredOf parses a stored declaration. It refuses one of a later format.
func DeclaredOf(stored *state.Declared, target string) (*rolling.Declaration, error) {
	if stored.Format > state.Format {
		return nil, engine.Hinted(fmt.Errorf("a later version of rowmill applied it, whose records in rowmill's own tables have format %d, and this version knows up to %d",
			stored.Format, state.Format), "rowmill of the later version")
	}
	d, err := rolling.ParseDeclarationFor("what was applied for "+stored.Name, []byte(stored.Text), target)
	if err == nil && d.Auto {
		d.Period, err = inForce(stored)
	}
	return d, err
}

func tableOf(d *rolling.Declaration) *engine.Table {
	return &engine.Table{Name: d.Name, Grid: d.Period, By: d.Time, Epoch: d.Epoch, Definition: d.Definition, Compress: d.Seal.Compress, PrimaryKey: d.Definition.PrimaryKey}
}

// declaredChanges lists the differences that affect maintenance, e.g. "keep 30d -> 90d".
func declaredChanges(was, now *rolling.Declaration) []string {
	var out []string
	add := func(what, before, after string) {
		if before != after {
			out = append(out, fmt.Sprintf("%s %s -> %s", what, cmp.Or(before, "none"), cmp.Or(after, "none")))
		}
	}
	add("period", was.Period.String(), now.Period.String())
	add("from", fromText(was), fromText(now))
	add("ahead", was.Ahead.String(), now.Ahead.String())
	add("keep", was.Keep.String(), now.Keep.String())
	add("late", was.Late.String(), now.Late.String())
	add("exact", fmt.Sprint(was.Exact), fmt.Sprint(now.Exact))
	add("seal.after", was.Seal.After.String(), now.Seal.After.String())
	add("seal.compress", fmt.Sprint(was.Seal.Compress), fmt.Sprint(now.Seal.Compress))
	add("seal.merge", gridText(was.Seal.Merge), gridText(now.Seal.Merge))
	add("seal.archive", was.Seal.Archive, now.Seal.Archive)
	add("shards", fmt.Sprint(was.Shards), fmt.Sprint(now.Shards))
	for _, name := range LevelNames(now) {
		if old, is := LevelOf(was, name), LevelOf(now, name); old == nil {
			out = append(out, "roll-up "+name+" added")
		} else if !reflect.DeepEqual(stripped(*old), stripped(*is)) {
			out = append(out, "roll-up "+name+" changed")
		}
	}
	for _, name := range LevelNames(was) {
		if LevelOf(now, name) == nil {
			out = append(out, "roll-up "+name+" no longer kept")
		}
	}
	return out
}

func fromText(d *rolling.Declaration) string {
	if d.From.IsZero() {
		return ""
	}
	return d.From.Format(time.DateTime)
}

func gridText(g rolling.Grid) string {
	if !g.Valid() {
		return ""
	}
	return g.String()
}

// LevelOf returns the declared roll-up of that name, or nil.
func LevelOf(d *rolling.Declaration, name string) *rolling.Rollup {
	for i := range d.Rollups {
		if d.Rollups[i].Name == name {
			return &d.Rollups[i]
		}
	}
	return nil
}

// stripped returns a roll-up without its line number.
func stripped(r rolling.Rollup) rolling.Rollup {
	r.Line = 0
	return r
}

// Declare stores the declaration. A drop in progress either ends first, or sees the new declaration
// before it removes anything.
func (t *Table) Declare(ctx context.Context) error {
	return t.Declaring(ctx, func(engine.Lease) error {
		return t.State.Declare(ctx, t.State.DB(), t.Table.Name, t.Declared.Text, t.Table.Grid.String())
	})
}

// Undeclare removes the applied declaration, the records of the table's periods, and its leader.
func (t *Table) Undeclare(ctx context.Context) error {
	return t.Declaring(ctx, func(engine.Lease) error { return t.State.Undeclare(ctx, t.State.DB(), t.Table.Name) })
}

// Applied returns the declaration that was applied last, or nil.
func (t *Table) Applied(ctx context.Context) (*rolling.Declaration, error) {
	d, err := t.State.Declared(ctx, t.Table.Name)
	if isNoTable(err) || d == nil && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return DeclaredOf(d, t.Declared.Target)
}

// ErrOtherDeclaration is the class of CheckApplied's error if another declaration was applied.
var ErrOtherDeclaration = errors.New("another declaration was applied")

// CheckApplied returns an error unless the table exists and the declaration was applied.
func (t *Table) CheckApplied(ctx context.Context) error {
	applied, err := t.Applied(ctx)
	switch {
	case err != nil:
		return err
	case applied == nil:
		return fmt.Errorf("table %s has not been applied on %s", t.Declared.Name, t.DB.Info().Target)
	case t.Schema == nil:
		return engine.Hinted(fmt.Errorf("table %s was applied on %s and no longer exists: it was dropped or renamed by SQL", t.Declared.Name, t.DB.Info().Target),
			"rename it back; or rowmill apply %s, which creates it again, without its rows", t.Declared.Source)
	case !SameDeclaration(applied, t.Declared):
		changes := cmp.Or(strings.Join(declaredChanges(applied, t.Declared), "; "), "not in how it is kept")
		return engine.Hinted(engine.Classed(ErrOtherDeclaration, fmt.Errorf("%s differs from the declaration that was applied for table %s: %s", t.Declared.Source, t.Declared.Name, changes)),
			"rowmill apply %s --dry-run, if the file is the newer one; an older one would revert what was applied", t.Declared.Source)
	}
	return nil
}

// SameDeclaration reports whether two declarations mean the same, whatever their text.
func SameDeclaration(a, b *rolling.Declaration) bool {
	strip := func(d *rolling.Declaration) rolling.Declaration {
		c := *d
		c.Source, c.Text, c.Target, c.Warnings = "", "", "", nil
		c.Rollups = append([]rolling.Rollup(nil), d.Rollups...)
		for i, r := range c.Rollups {
			c.Rollups[i] = stripped(r)
		}
		c.Definition = nil
		return c
	}
	return reflect.DeepEqual(strip(a), strip(b)) && strings.Join(strings.Fields(a.Definition.Text), " ") == strings.Join(strings.Fields(b.Definition.Text), " ")
}

// LevelNames returns the names of the declared roll-ups.
func LevelNames(d *rolling.Declaration) []string {
	var out []string
	for _, r := range d.Rollups {
		out = append(out, r.Name)
	}
	return out
}

// Wanted is the position up to which periods should exist at present.
func (f *followed) Wanted(v View) int64 {
	if !f.Declared.Ahead.IsZero() {
		return f.Declared.Ahead.After(v.Now)
	}
	present, err := f.Table.Grid.At(v.Now)
	if err != nil {
		return v.Now
	}
	return present.To
}

// Jobs returns the next task of each lane.
func (f *followed) Jobs(tasks []Task, now int64) (out []state.Job) {
	for _, lane := range Lanes {
		job := state.Job{Policy: string(lane)}
		if i := slices.IndexFunc(tasks, func(c Task) bool { return c.Kind.Lane() == lane }); i >= 0 {
			what, due := tasks[i].Label(), tasks[i].Due
			if lane == Summing {
				var names []string
				names, due = f.nextBuckets(now)
				what = strings.Join(names, ", ")
			}
			job.Task = strings.TrimSpace(string(tasks[i].Kind) + " " + what)
			if f.Table.Grid.Axis() == rolling.Time {
				job.Next = rolling.Instant(due)
			}
		}
		out = append(out, job)
	}
	return out
}

// nextBuckets returns the roll-ups whose present buckets end first, and the time of that end. It
// returns none for a sequence, because nobody knows when a bucket of keys will end.
func (f *followed) nextBuckets(now int64) (names []string, end int64) {
	for _, r := range f.Declared.Rollups {
		bucket, err := r.Every.At(now)
		if err != nil || f.Table.Grid.Axis() == rolling.Sequence {
			continue
		}
		if len(names) == 0 || bucket.To < end {
			names, end = nil, bucket.To
		}
		if bucket.To == end {
			names = append(names, r.Name)
		}
	}
	return names, end
}

// columns are the columns that can be written: all but generated ones.
func (f *followed) columns() []engine.SchemaColumn { return engine.Writable(f.Schema.Columns) }
