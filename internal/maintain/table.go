// Package maintain keeps one rolling table: it compares the table with its declaration, plans the
// tasks that are due, executes them in steps, and describes the table's status. After a crash at
// any point the next process continues, without loss. Package apply creates and changes the table,
// and package schedule decides when tables are looked at.
package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Table is a declared table on its open database.
type Table struct {
	DB    engine.Keeper
	State *state.Store
	followed
	// Now returns the present: the clock, or for a sequence the highest key.
	Now func(ctx context.Context) (int64, error)
	// Limits are the limits on the server's load while rows are copied.
	Limits copier.Limits
	events

	// Node is the name of the server if the rows are on several servers. The archives of a node are in
	// a directory of that name.
	Node string
	// Dir is the base directory of relative archive paths; "" is the working directory.
	Dir string

	// breath replaces defaultBreath in tests.
	breath time.Duration
	clock  func(ctx context.Context) (int64, error)
	*shared
}

// events are what a table's user is told while it is maintained.
type events struct {
	// Reached, unless nil, is called at each point of a change. Tests end the process there.
	Reached func(point string)
	// Say, unless nil, is called for each action; if an action fails again for the same reason, Say is
	// not called again. Count, unless nil, is called for each attempt.
	Say, Count func(Event)
}

// table is Table under a name that can be embedded without hiding the field Table. Each policy and
// each verb is a small type that embeds it, e.g. sealer, with its methods in one file.
type table = Table

// An Event is an event of a table's maintenance.
type Event struct {
	At     time.Time
	Action string
	Detail string
	Took   time.Duration
	Err    error
	// Waiting means that the action will be tried again automatically.
	Waiting bool
}

// String describes the event, without its time.
func (e Event) String() string {
	line := e.Action
	if e.Detail != "" {
		line += " " + e.Detail
	}
	if e.Took > 0 {
		line += fmt.Sprintf(" (%s)", e.Took.Round(time.Millisecond))
	}
	switch {
	case e.Err != nil && e.Waiting:
		line += fmt.Sprintf(": will be tried again: %v", e.Err)
	case e.Err != nil:
		line += fmt.Sprintf(": failed: %v", e.Err)
	case e.Waiting:
		line += ": waits"
	}
	return line
}

// Report passes an event to Say.
func (v *events) Report(e Event) {
	if v.Say != nil {
		v.Say(e)
	}
}

// Clock returns the present as a position of a time axis.
func Clock(now func() time.Time) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return rolling.Position(now()), nil }
}

// Open looks up the declared table, and reads its schema if it exists.
func Open(ctx context.Context, db engine.Keeper, d *rolling.Declaration, now func() time.Time) (*Table, error) {
	t := &Table{DB: db, State: state.New(db), followed: followed{Declared: d}, Now: Clock(now), clock: Clock(now), shared: &shared{}}
	if d.Auto && !d.Period.Valid() {
		was, err := t.State.Declared(ctx, d.Name)
		if err != nil && !isNoTable(err) {
			return nil, err
		}
		if was != nil {
			found := *d
			if found.Period, err = inForce(was); err != nil {
				return nil, err
			}
			t.Declared = &found
		}
	}
	t.Table = tableOf(t.Declared)
	if d.Period.Axis() == rolling.Sequence && d.Period.Valid() {
		t.Now = t.highest
	}
	if err := t.ReadSchema(ctx); err != nil {
		return nil, err
	}
	return t, t.OpenLevels()
}

// inForce returns the grid that apply has chosen for a declaration with period "auto".
func inForce(d *state.Declared) (rolling.Grid, error) {
	g, err := rolling.Parse(d.Period)
	if err != nil {
		return g, fmt.Errorf("period in force of %s: %w", d.Name, err)
	}
	return g, nil
}

// ReadSchema reads the table's schema from the server. It refuses a view of somebody else.
func (t *Table) ReadSchema(ctx context.Context) error {
	s, err := t.DB.Describe(ctx, t.Table.Name)
	if err != nil {
		if isNoTable(err) {
			return nil
		}
		return fmt.Errorf("look at table %s: %w", t.Table.Name, err)
	}
	if s.View && !s.Partitioned {
		return engine.Hinted(fmt.Errorf("%s is a view, and rowmill keeps tables", t.Table.Name), "the name of the table that it reads, or one that is free")
	}
	t.Schema = s
	if t.Table.Bounds != s.Bounds {
		table := *t.Table
		table.Bounds, t.Table = s.Bounds, &table
	}
	return nil
}

// OpenLevels opens the roll-ups once the table's columns are known.
func (t *Table) OpenLevels() error {
	if t.Schema == nil || len(t.Declared.Rollups) == 0 {
		return nil
	}
	set, err := rollup.New(t.DB, t.State, t.Table, t.Schema, t.Declared)
	if err != nil {
		return err
	}
	set.Reading, set.Lost = t.gate.read, t.dropper().noteLost
	t.Rollups = set
	return nil
}

// highest returns the present of a sequence: its highest key.
func (t *Table) highest(ctx context.Context) (int64, error) {
	if t.Schema == nil {
		return 0, nil
	}
	quote := t.DB.Dialect().Quote
	var max sql.NullInt64
	err := t.DB.SQL().QueryRowContext(ctx, "SELECT MAX("+quote(t.Table.By)+") FROM "+quote(t.Table.Name)).Scan(&max)
	if err != nil {
		return 0, fmt.Errorf("highest %s of %s: %w", t.Table.By, t.Table.Name, t.DB.Classify(err))
	}
	return max.Int64, nil
}

func isNoTable(err error) bool { return errors.Is(err, engine.ErrNoTable) }

// Reload reads the table's schema again, after another component has changed it.
func (t *Table) Reload(ctx context.Context) error {
	t.Schema, t.Rollups = nil, nil
	if err := t.ReadSchema(ctx); err != nil {
		return err
	}
	return t.OpenLevels()
}

// SetPeriod sets the period of a table declared with "auto", before anything is planned.
func (t *Table) SetPeriod(g rolling.Grid) error {
	found := *t.Declared
	found.Period = g
	table := *t.Table
	table.Grid = g
	t.Declared, t.Table = &found, &table
	return t.OpenLevels()
}

// Exists reports whether a table or view of that name exists.
func (t *Table) Exists(ctx context.Context, name string) (bool, error) {
	_, err := t.DB.Describe(ctx, name)
	if isNoTable(err) {
		return false, nil
	}
	return err == nil, err
}

func (t *Table) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	return engine.InTx(ctx, t.DB, t.DB.SQL(), nil, fn)
}

// ExecTogether executes statements in one transaction, if the server's transactions include changes
// of the schema.
func (t *Table) ExecTogether(ctx context.Context, statements []string) error {
	return t.inTx(ctx, func(tx *sql.Tx) error {
		for _, q := range statements {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return t.DB.Classify(err)
			}
			t.Reach("executed: " + engine.FirstWords(q))
		}
		return nil
	})
}

// Reach passes a point of a change to Reached.
func (v *events) Reach(point string) {
	if v.Reached != nil {
		v.Reached(point)
	}
}

// For the time repeatAfter, an identical failure is not logged again: retries every second for
// hours would fill the log.
const repeatAfter = 30 * time.Second

// failures are the recent failures of this process.
type failures struct {
	// open says, for each kind of action, whether its last log entry is a failure. last has when each
	// failure was logged. said has, for each action, the failure with which Say was last called.
	open, last, said sync.Map
	logged           atomic.Int64 // the number of entries that this process has logged
}

// news reports whether Say is to be called with a result. A failure is news the first time, and
// then not before the action has succeeded or fails for another reason.
func (f *failures) news(action, detail string, err error) bool {
	what := action + " " + detail
	switch {
	case err == nil:
		f.said.Range(func(key, _ any) bool {
			if strings.HasPrefix(key.(string), action+" ") {
				f.said.Delete(key)
			}
			return true
		})
		return true
	case errors.Is(err, engine.ErrLockTimeout): // the text differs each time: it has a transaction's age
		_, said := f.said.Swap(what, "")
		return !said
	}
	was, _ := f.said.Swap(what, err.Error())
	return was != err.Error()
}

// trimEvery is the number of entries after which the oldest ones are removed.
const trimEvery = 100

// over reports whether the last log entry of a kind of action is a failure.
func (f *failures) over(action string) bool {
	failed, _ := f.open.Load(action)
	return failed == true
}

// repeated reports whether the same failure was logged less than repeatAfter ago. Otherwise it
// records the failure as logged now.
func (f *failures) repeated(what string) bool {
	now := time.Now()
	f.last.Range(func(what, at any) bool {
		if now.Sub(at.(time.Time)) >= repeatAfter {
			f.last.Delete(what)
		}
		return true
	})
	_, repeated := f.last.LoadOrStore(what, now)
	return repeated
}

// Log writes an action to the log in the database, and passes it to Report if it is news. If the
// log can't be written, Log reports this error, too. A failure that was logged less than
// repeatAfter ago is not logged again.
func (t *Table) Log(ctx context.Context, action, detail string, took time.Duration, err error) {
	e := Event{At: time.Now(), Action: action, Detail: detail, Took: took, Err: err, Waiting: errors.Is(err, engine.ErrLockTimeout)}
	if t.Count != nil {
		t.Count(e)
	}
	if err != nil && t.failed.repeated(action+" "+detail) {
		return
	}
	t.failed.open.Store(action, err != nil)
	a := state.Action{At: e.At, Table: t.Table.Name, Action: action, Detail: detail, Took: took, Locked: e.Waiting}
	if err != nil {
		a.Error = err.Error()
	}
	if t.failed.news(action, detail, err) {
		t.Report(e)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = t.State.Log(ctx, a)
	if err == nil && t.failed.logged.Add(1)%trimEvery == 1 { // also after the first entry
		err = t.State.TrimActions(ctx, t.Table.Name)
	}
	if err != nil {
		t.Report(Event{At: time.Now(), Action: "log", Err: err})
	}
}

// InNode puts the node's name into an error of that node. Nil stays nil, and with an empty name the
// error stays as it is.
func InNode(name string, err error) error {
	if err == nil || name == "" {
		return err
	}
	return fmt.Errorf("node %s: %w", name, err)
}

// Title is the table's name, with the node's name if it has one.
func (t *Table) Title() string {
	if t.Node == "" {
		return t.Declared.Name
	}
	return t.Declared.Name + " of node " + t.Node
}
