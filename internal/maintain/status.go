package maintain

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Status describes a rolling table, for people and programs. Times are in UTC, durations in
// seconds, positions of a time axis are written as times.
type Status struct {
	Format string `json:"format"` // rowmill.status/1
	Table  string `json:"table"`
	Target string `json:"target"`
	// Node is the name of the server if the rows are on several servers. Head means that this server
	// presents the rows of all nodes as one table.
	Node   string    `json:"node,omitempty"`
	Head   bool      `json:"head,omitempty"`
	Engine string    `json:"engine"`
	At     time.Time `json:"at"`
	// Now is the present on the table's axis: the time, or the highest key of a sequence.
	Now string `json:"now"`
	// Every, Ahead and Keep are as written in the declaration.
	Every string `json:"every"`
	Ahead string `json:"ahead"`
	Keep  string `json:"keep,omitempty"`

	Coverage

	Rollups []RollupStatus `json:"rollups"`
	// Late describes for how long roll-ups and their live views may lack late rows.
	Late string `json:"late_rows,omitempty"`
	// Adopting means that the table is being converted to a rolling one, or back: its periods are
	// unknown.
	Adopting bool `json:"adopting,omitempty"`
	// Paused are policies that are paused.
	Paused []PauseStatus `json:"paused,omitempty"`
	Activity

	Blockers []BlockerStatus `json:"blockers"`
	Hidden   []HiddenStatus  `json:"hidden,omitempty"`
	// Notes require no action.
	Notes []string `json:"notes,omitempty"`
	// Problems require action. If there are none, rowmill status exits with 0.
	Problems []Problem `json:"problems"`
}

// Coverage is what the periods of a table hold, and how far they reach.
type Coverage struct {
	Periods []PeriodStatus `json:"periods"`
	Rows    int64          `json:"rows"`  // estimated
	Bytes   int64          `json:"bytes"` // data and indexes
	// Headroom is how long inserts find a period if no more periods are created; HeadroomWanted is the
	// declared value. Both are null for a sequence, which has HeadroomRows instead.
	Headroom       *float64 `json:"headroom_seconds"`
	HeadroomWanted *float64 `json:"headroom_wanted_seconds"`
	HeadroomRows   *int64   `json:"headroom_rows,omitempty"`
}

// Activity is what maintenance does, has done and does next.
type Activity struct {
	Leader  string         `json:"leader"`  // the process that keeps the table, as far as can be seen
	Changes []ChangeStatus `json:"changes"` // the changes in progress
	Actions []ActionStatus `json:"actions"` // the latest ones, newest first
	// Latest are the last success and the last failure of each kind of action.
	Latest []ActionStatus `json:"latest"`
	Next   []NextStatus   `json:"next"` // the next tasks, in order
}

// PeriodStatus is the status of one period.
type PeriodStatus struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	// State is ahead (not begun), open, closing (its end has passed),
	// sealed, archived, restored or dropped.
	State   string `json:"state"`
	Rows    int64  `json:"rows"` // estimated unless sealed
	Bytes   int64  `json:"bytes"`
	Rebuilt bool   `json:"rebuilt"` // its rows are sorted and, if so declared, compressed
	Archive string `json:"archive,omitempty"`
}

// RollupStatus is the status of one level.
type RollupStatus struct {
	Name  string  `json:"name"`
	Every string  `json:"every"`
	To    string  `json:"to"`          // the watermark, "" before the first bucket
	Lag   float64 `json:"lag_seconds"` // from To to the end of the last complete bucket
	Stale int64   `json:"stale_buckets"`
	Rows  int64   `json:"rows"`
}

// ChangeStatus is the status of a change in progress.
type ChangeStatus struct {
	What    string    `json:"what"`
	Step    string    `json:"step"`
	Since   time.Time `json:"since"`
	Tries   int       `json:"failed_tries"`
	Error   string    `json:"error,omitempty"`
	Percent *float64  `json:"percent,omitempty"` // of the whole change
	// Rows are the rows that the step has processed, of about Of; 0 if it counts none.
	Rows int64 `json:"rows,omitempty"`
	Of   int64 `json:"of_rows,omitempty"`
	// Interrupted means that the change is incomplete, and no process is working on it.
	Interrupted bool `json:"interrupted,omitempty"`
}

// PauseStatus is a pause of a policy: a lane, the adoption, or all. It ends by itself.
type PauseStatus struct {
	Policy string    `json:"policy"` // create, rollup, keep, rebuild, adopt or all
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
}

// ActionStatus is a past action.
type ActionStatus struct {
	At      time.Time `json:"at"`
	Action  string    `json:"action"`
	Detail  string    `json:"detail"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	Locked  bool      `json:"locked,omitempty"` // it failed because a lock was not granted
	By      string    `json:"by"`
}

// NextStatus is a pending task.
type NextStatus struct {
	Action string     `json:"action"` // create, rollup, seal, rebuild, merge, archive, drop
	What   string     `json:"what"`
	At     *time.Time `json:"at,omitempty"` // when it is due; if that is past, at once
	Why    string     `json:"why,omitempty"`
}

// BlockerStatus is a transaction that blocks a task. Rowmill's own transactions are included only
// if they have been open for minutes.
type BlockerStatus struct {
	ID        int64   `json:"id"`
	User      string  `json:"user"`
	Host      string  `json:"host"`
	Age       float64 `json:"age_seconds"`
	Statement string  `json:"statement"`
	Own       bool    `json:"own,omitempty"` // it is rowmill's own
}

// HiddenStatus is information that the account may not see, with the grant that it lacks.
type HiddenStatus struct {
	What  string `json:"what"`
	Grant string `json:"grant"`
}

// A Problem requires action.
type Problem struct {
	// Code is one of headroom, blocked, gap, stopped, rollup, failed, outside,
	// declaration, triggers, retention, long, leftover, node.
	Code string `json:"code"`
	Text string `json:"text"`
	Try  string `json:"try,omitempty"`
}

// Thresholds of problems, and lengths of lists.
const (
	gone       = 3 * Beat        // how long a leader may be silent
	recent     = 5 * time.Minute // how long a failed action is reported
	stuck      = 5               // how often a change may fail before that is a problem
	maxNext    = 8               // pending tasks in a status
	maxActions = 20              // completed actions in a status
	// passing is the age below which a transaction is expected to end by itself. Such a transaction
	// isn't reported if an older one blocks, too.
	passing = time.Second
)

// Status inspects the table and returns its status under the declaration in force.
// Nothing is changed.
func (t *Table) Status(ctx context.Context) (*Status, error) {
	now, err := t.Follow(ctx)
	var not *UnfollowedError
	if err != nil && !errors.As(err, &not) {
		return nil, err
	}
	if not == nil {
		return inspect(ctx, now, &Status{})
	}
	s := &Status{}
	s.problem(Declaring, not.why, not.try)
	if !not.gone {
		describe(t.LastFollowed(), s)
		return s, nil
	}
	return inspect(ctx, t.LastFollowed(), s)
}

// describe sets the fields of a status that follow from the declaration.
func describe(t *Table, s *Status) {
	d, info := t.Declared, t.DB.Info()
	s.Format, s.Table, s.Target, s.Engine = "rowmill.status/1", d.Name, info.Target, info.Engine
	s.Node, s.At = t.Node, time.Now().UTC()
	s.Now = s.At.Format(time.DateTime)
	s.Every, s.Ahead, s.Periods = t.Table.Grid.String(), d.Ahead.String(), []PeriodStatus{}
	if !d.Keep.IsZero() {
		s.Keep = d.Keep.String()
	}
}

// Unreached returns the status of a node whose status can't be read, or of the head if node is "".
func Unreached(d *rolling.Declaration, node, target string, why error) *Status {
	s := &Status{Format: "rowmill.status/1", Table: d.Name, Target: target, Node: node, Head: node == "", At: time.Now().UTC(), Every: d.Period.String(), Ahead: d.Ahead.String()}
	s.Now = s.At.Format(time.DateTime)
	s.problem("node", why.Error(), engine.HintOf(why))
	return s
}

// problem adds a problem, unless another part of the look has added it.
func (s *Status) problem(code, text, try string) {
	if p := (Problem{Code: code, Text: text, Try: try}); !slices.Contains(s.Problems, p) {
		s.Problems = append(s.Problems, p)
	}
}

// A look is an inspection of a table, from which its status is made.
type look struct {
	*Table
	s     *Status
	v     View
	tasks []Task
	// pauses are the present pauses.
	pauses []state.Pause
	// latest has the last attempt of each kind of action, if recent.
	latest []ActionStatus
}

// inspect completes a status that may have problems already.
func inspect(ctx context.Context, t *Table, s *Status) (*Status, error) {
	describe(t, s)
	v, err := t.View(ctx)
	if isNoTable(err) {
		s.problem(Declaring, NoTable(s.Table).why, NoTable(s.Table).try)
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.Now = t.Table.Grid.Format(v.Now)
	l := &look{Table: t, s: s, v: v}
	for _, part := range []func(context.Context) error{l.periods, l.levels, l.activity, l.hidden} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	if l.tasks, err = Plan(t.Declared, v); err != nil {
		s.problem("failed", "the plan of the next steps: "+err.Error(), "")
	}
	l.next()
	l.headroom()
	for _, part := range []func(context.Context) error{l.blockers, l.gaps, l.outside, l.leftovers, l.triggers, l.besides} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	if i := v.Overlong(t.Table.Grid); i >= 0 {
		s.problem("long", v.OverlongText(t.Table.Grid, v.Parts[i]), "rowmill apply FILE --dry-run, which has the statements that divide it")
	}
	l.delays()
	l.failures()
	return s, nil
}

func (l *look) periods(ctx context.Context) error {
	sizes, err := l.DB.PeriodSizes(ctx, l.Table.Table)
	if err != nil {
		return err
	}
	format := l.Table.Table.Grid.Format
	for _, p := range l.v.Parts {
		size := sizes[p.Name]
		ps := PeriodStatus{Name: p.Name, From: format(p.From), To: format(p.To), Rows: size.Rows, Bytes: size.Data + size.Index}
		switch k := l.v.Record(p); {
		case k != nil:
			ps.State, ps.Rows, ps.Rebuilt, ps.Archive = k.State, k.Rows, k.Rebuilt, k.Archive
		case p.From > l.v.Now:
			ps.State = "ahead"
		case p.To <= l.v.Now:
			ps.State = "closing"
		default:
			ps.State = "open"
		}
		l.s.Rows += ps.Rows
		l.s.Bytes += ps.Bytes
		l.s.Periods = append(l.s.Periods, ps)
	}
	if note := openNote(len(l.s.Periods), l.DB.Capabilities().Open, l.DB.Info().CacheBytes); note != "" {
		l.s.Notes = append(l.s.Notes, note)
	}
	return nil
}

// openNote returns a warning if there are so many periods that they take much of the server's
// memory when many connections have them open. Otherwise it returns "".
func openNote(periods int, cost engine.OpenCost, cache int64) string {
	bytes := cost.Partitions(periods, engine.OpenConnections)
	if cache <= 0 || bytes <= engine.OpenShare*float64(cache) {
		return ""
	}
	return fmt.Sprintf("%d periods are too many for %s of memory for pages: open on %d connections they take about %s beside it (rowmill plan FILE --calibrate measures it); a longer period, or sealed ones merged",
		periods, figure.Bytes(cache), engine.OpenConnections, figure.Bytes(bytes))
}

func (l *look) levels(ctx context.Context) error {
	if l.Rollups == nil {
		return nil
	}
	levels, err := l.Rollups.Status(ctx)
	if err != nil {
		return err
	}
	l.s.Late = l.Rollups.LateBound()
	for _, level := range levels {
		present, err := level.Every.At(l.v.Now) // the bucket that isn't over yet
		if err != nil {
			return err
		}
		r := RollupStatus{Name: level.Name, Every: level.Every.String(), Stale: level.Stale, Rows: level.Rows}
		if level.Begun {
			r.To, r.Lag = l.Table.Table.Grid.Format(level.Watermark), float64(max(0, present.From-level.Watermark))/1e6
		}
		l.s.Rollups = append(l.s.Rollups, r)
	}
	return nil
}

func (l *look) activity(ctx context.Context) error {
	var err error
	if l.s.Leader, err = l.Leader(ctx); err != nil {
		return err
	}
	if l.pauses, err = addPauses(ctx, l.Table, l.s); err != nil {
		return err
	}
	for _, c := range l.v.Changes {
		what := c.ID
		if p, ok := affected(&c); ok {
			what = c.Kind + " " + l.Table.Table.Grid.Name(p.Period)
		}
		cs, err := changeStatus(&c, what)
		if err != nil {
			return err
		}
		l.s.Changes = append(l.s.Changes, cs)
	}
	actions, err := l.State.Actions(ctx, l.s.Table, maxActions)
	if err != nil {
		return err
	}
	l.s.Actions = actionStatuses(actions)
	if actions, err = l.State.LatestActions(ctx, l.s.Table); err != nil {
		return err
	}
	l.s.Latest = actionStatuses(actions)
	seen := map[string]bool{}
	for _, a := range l.s.Latest {
		if !seen[a.Action] && time.Since(a.At) < recent {
			l.latest = append(l.latest, a)
		}
		seen[a.Action] = true
	}
	return nil
}

// Leader returns the process that keeps the table, "" if none can be seen.
func (t *Table) Leader(ctx context.Context) (string, error) {
	if f, ok := t.DB.(engine.LocalFile); ok {
		return f.Holder(t.LeaderLock())
	}
	by, at, err := t.State.Leader(ctx, t.Table.Name)
	if time.Since(at) >= gone {
		by = ""
	}
	return by, err
}

// addPauses adds the table's pauses to a status.
func addPauses(ctx context.Context, t *Table, s *Status) ([]state.Pause, error) {
	pauses, err := t.State.Pauses(ctx, s.Table)
	for _, p := range pauses {
		s.Paused = append(s.Paused, PauseStatus{Policy: p.Policy, Until: p.Until.UTC(), Reason: p.Reason, By: p.By})
	}
	return pauses, err
}

func actionStatuses(actions []state.Action) (out []ActionStatus) {
	for _, a := range actions {
		out = append(out, ActionStatus{At: a.At.UTC(), Action: a.Action, Detail: a.Detail, Seconds: a.Took.Seconds(), Error: a.Error, Locked: a.Locked, By: a.By})
	}
	return out
}

func (l *look) hidden(ctx context.Context) error {
	limited, ok := l.DB.(engine.Limited)
	if !ok {
		return nil
	}
	hidden, err := limited.Hidden(ctx)
	for _, h := range hidden {
		l.s.Hidden = append(l.s.Hidden, HiddenStatus(h))
	}
	return err
}

func (l *look) next() {
	for _, task := range l.tasks {
		if len(l.s.Next) == maxNext {
			return
		}
		what := task.Label()
		if task.Kind == Rollup {
			if what, task.Due = l.nextRefresh(); what == "" {
				continue
			}
		}
		n := NextStatus{Action: string(task.Kind), What: what, Why: task.Waits}
		if p := state.Paused(l.pauses, string(task.Kind.Lane())); p != nil {
			n.Why = p.String()
		}
		if l.Table.Table.Grid.Axis() == rolling.Time {
			at := rolling.Instant(max(task.Due, l.v.Now))
			n.At = &at
		}
		l.s.Next = append(l.s.Next, n)
	}
}

// nextRefresh returns which roll-ups are computed next, and when. If some are behind, these are due
// at once. Otherwise those whose present bucket ends first are due at its end. It returns none for
// a sequence, because nobody knows when a bucket of keys will end.
func (l *look) nextRefresh() (levels string, due int64) {
	var behind []string
	for _, r := range l.s.Rollups {
		if r.Lag > 0 || r.Stale > 0 {
			behind = append(behind, r.Name)
		}
	}
	if len(behind) > 0 {
		return strings.Join(behind, ", "), l.v.Now
	}
	first, due := l.nextBuckets(l.v.Now)
	return strings.Join(first, ", "), due
}

func (l *look) headroom() {
	s, parts, end := l.s, l.v.Parts, covered(l.v.Parts, l.v.Now)
	left := end - l.v.Now
	if l.Table.Table.Grid.Axis() == rolling.Sequence {
		s.HeadroomRows = &left
		return
	}
	seconds, wanted := float64(left)/1e6, float64(l.Wanted(l.v)-l.v.Now)/1e6
	s.Headroom, s.HeadroomWanted = &seconds, &wanted
	now := "no period covers the present: inserts fail"
	if n := len(parts); !l.v.Gaps && n > 0 && parts[n-1].To > l.v.Now {
		now = "no period covers the present: new rows are kept, and neither sealed nor archived"
	}
	switch {
	case left == 0 && len(parts) > 0 && parts[0].From > l.v.Now:
		s.problem("headroom", now+". The first one begins at "+l.Table.Table.Grid.Format(parts[0].From)+
			", by a clock that ran ahead, and rowmill run creates none before it",
			"set the clock right, if it is wrong now; otherwise apply the declaration under another name, as docs/operations.md says")
	case left == 0:
		s.problem("headroom", now, "rowmill run FILE --once, and read its output")
	case seconds < wanted/2:
		s.problem("headroom", fmt.Sprintf("inserts have periods for %s more; %s is declared", inSeconds(seconds), l.Declared.Ahead), "rowmill run FILE --once, and read its output")
	}
}

func inSeconds(n float64) time.Duration {
	return time.Duration(n * float64(time.Second)).Round(time.Second)
}

// blockers adds the transactions that hold a lock which a due task failed to get.
func (l *look) blockers(ctx context.Context) error {
	waits := ""
	for _, a := range l.latest {
		if a.Locked {
			waits = a.Action + " " + a.Detail
		}
	}
	if waits == "" {
		return nil
	}
	who, err := l.DB.Blockers(ctx, l.Table.Table)
	if err != nil {
		return err
	}
	own, who := ownAndOthers(who)
	if len(who) == 0 && len(own) > 0 && own[0].Age < recent {
		return nil // rowmill's own work, which ends by itself
	}
	if len(who) == 0 {
		who = own
	}
	text := waits + " waits for a lock on the table"
	if len(who) > 0 {
		l.s.block(who, who[0].Age >= passing)
		whose := ""
		if who[0].Own {
			whose = "rowmill's own "
		}
		text += fmt.Sprintf(", held by %sconnection %d of %s@%s in a transaction of %s", whose, who[0].ID, who[0].User, who[0].Host, who[0].Age.Round(time.Second))
	}
	if l.s.Headroom != nil {
		text += fmt.Sprintf("; inserts have periods for %s more", inSeconds(*l.s.Headroom))
	}
	l.s.problem("blocked", text, "end that transaction, or wait for it: due tasks are retried automatically")
	return nil
}

// block adds transactions that block a task; if old is true, only those at least as old as passing.
func (s *Status) block(who []engine.Blocker, old bool) {
	for _, b := range who {
		if !old || b.Age >= passing {
			s.Blockers = append(s.Blockers, BlockerStatus{ID: b.ID, User: b.User, Host: b.Host, Age: b.Age.Seconds(), Statement: b.Statement, Own: b.Own})
		}
	}
}

// ownAndOthers separates rowmill's own transactions from others.
func ownAndOthers(who []engine.Blocker) (own, others []engine.Blocker) {
	for _, b := range who {
		if b.Own {
			own = append(own, b)
		} else {
			others = append(others, b)
		}
	}
	return own, others
}

// gaps reports a problem for each gap between the periods that retention keeps. Two kinds of gaps
// are no problem. One lies in the past and never had a period, because loads of history create only
// the periods that their rows need. The other lies after the periods that should exist now, before
// a period that a load has created in the future.
func (l *look) gaps(context.Context) error {
	i := slices.IndexFunc(l.v.Parts, func(p rolling.Partition) bool {
		k := l.v.Record(p)
		due, drops := DropDue(l.Declared, p)
		return (k == nil || k.State != state.Restored) && !(drops && due <= l.v.Now)
	})
	if i < 0 {
		return nil
	}
	grid := l.Table.Table.Grid
	steps, err := rolling.Policy{Grid: grid}.Steps(l.v.Parts[i:], l.v.Now)
	if err != nil {
		return nil // Plan reports it
	}
	for _, g := range steps.Gaps {
		had := slices.ContainsFunc(l.v.Known, func(k state.Period) bool { return k.State != state.Dropped && k.Overlaps(g) })
		if !had && l.Declared.Seal.After.After(g.To) <= l.v.Now || g.From >= l.Wanted(l.v) {
			continue
		}
		what := "inserts with these times fail"
		if !l.v.Gaps {
			what = "rows with these times are kept, and neither sealed nor archived"
		}
		l.s.problem("gap", fmt.Sprintf("no period from %s to %s: %s", grid.Format(g.From), grid.Format(g.To), what),
			"rowmill restore, or leave it if no such rows are to come")
	}
	return nil
}

func (l *look) outside(ctx context.Context) error {
	o, ok := l.DB.(engine.Outsider)
	if !ok {
		return nil
	}
	n, err := o.Outside(ctx, l.Table.Table)
	if n > 0 {
		l.s.problem("outside", fmt.Sprintf("%s older than every period or between periods: kept, and neither sealed nor archived", figure.Plural(n, "row is", "rows are")),
			"look at them in the table's partitions rowmill_floor and rowmill_gap_*; delete them, or restore or create their period")
	}
	return err
}

// leftovers adds a problem for each table that has rows of a period, was made by a former change,
// and is not needed by a change in progress.
func (l *look) leftovers(ctx context.Context) error {
	db, ok := l.DB.(engine.Sizer)
	if !ok {
		return nil
	}
	names, err := db.Named(ctx, "rowmill_")
	if err != nil {
		return err
	}
	of := regexp.QuoteMeta(shortened(l.s.Table))
	own := regexp.MustCompile("(?i)^rowmill_(?:(?:in|out|old)_" + of + "_(-?[0-9]+)_[0-9a-f]{1,6}|(?:new|drop|back|into)_" + of + "_(-?[0-9]+))$")
	changes, err := l.State.Changes(ctx, l.s.Table) // read after names, because a change is recorded before it creates a table
	if err != nil {
		return err
	}
	var needed []string
	for _, c := range changes {
		if d, err := load(&c); d != nil && err == nil {
			copies, rows := d.tables(c.Step)
			needed = slices.Concat(needed, copies, rows)
		}
	}
	for _, name := range names {
		m := own.FindStringSubmatch(name)
		if m == nil || slices.ContainsFunc(needed, func(n string) bool { return strings.EqualFold(n, name) }) {
			continue
		}
		if there, err := l.Exists(ctx, name); err != nil || !there { // a change that has ended meanwhile has dropped it
			if err != nil {
				return err
			}
			continue
		}
		from, _ := strconv.ParseInt(m[1]+m[2], 10, 64)
		l.s.problem("leftover", fmt.Sprintf("table %s has rows of the period from %s, and no change in progress needs it: rows that are missing from %s may be among them", name, l.Table.Table.Grid.Format(from), l.s.Table),
			fmt.Sprintf("INSERT INTO %s the rows that it lacks; then DROP TABLE %s", l.s.Table, name))
	}
	return nil
}

func (l *look) triggers(ctx context.Context) error {
	missing, old, err := l.guard().triggerState(ctx)
	if len(missing) > 0 {
		l.s.problem("triggers", missed(missing), "rowmill apply FILE, which creates them")
	}
	if len(old) > 0 {
		l.s.problem("triggers", strings.Join(old, ", and ")+" were made by an earlier version or declaration: which rows they refuse or count may differ from the declaration",
			"rowmill apply FILE, which replaces them while inserts continue")
	}
	return err
}

func (l *look) delays() {
	var waiting []Task // drops that wait for the owner, not for a load
	for _, task := range l.tasks {
		if task.Kind == Drop && task.PutOff && task.Due <= l.v.Now && l.v.filling(task.Parts) == nil {
			waiting = append(waiting, task)
		}
	}
	if n := len(waiting); n > 0 {
		l.s.problem("retention", fmt.Sprintf("%s passed keep = %s, the oldest of %s, and stay: %s",
			figure.Plural(n, "period has", "periods have"), l.Declared.Keep, waiting[0].Label(), waiting[0].Waits), "")
	}
	due := slices.ContainsFunc(l.tasks, func(task Task) bool {
		return task.Kind != Rollup && task.ready(l.v.Now) && state.Paused(l.pauses, string(task.Kind.Lane())) == nil
	})
	if l.s.Leader == "" && due {
		l.s.problem("stopped", "no process maintains the table, and a task is due", "rowmill run FILE")
	}
	for _, r := range l.s.Rollups {
		bucket, err := LevelOf(l.Declared, r.Name).Every.At(0)
		if err == nil && r.Lag > max(600, 3*float64(bucket.To-bucket.From)/1e6) {
			l.s.problem("rollup", fmt.Sprintf("%s is %s behind", r.Name, inSeconds(r.Lag)), "see the errors of its last refreshes")
		}
	}
}

// failures adds a problem for each change that fails repeatedly, for each action whose last attempt
// failed for a reason other than a lock, and for periods that can't be created.
func (l *look) failures() {
	locked := slices.ContainsFunc(l.latest, func(a ActionStatus) bool { return a.Locked })
	for _, c := range l.s.Changes {
		if c.Tries >= stuck && !locked {
			l.s.problem("failed", fmt.Sprintf("%s has failed %s at its step %s: %s", c.What, figure.Plural(c.Tries, "time"), c.Step, c.Error), "")
		}
	}
	for _, a := range l.latest {
		switch {
		case a.Error == "" || a.Locked:
		case a.Action != Declaring:
			l.s.problem("failed", fmt.Sprintf("%s %s: %s", a.Action, a.Detail, a.Error), "")
		case !slices.ContainsFunc(l.s.Problems, func(p Problem) bool { return p.Code == Declaring }):
			// The process that keeps the table can't follow the declaration, although this one can.
			l.s.problem(Declaring, fmt.Sprintf("%s: %s", a.By, a.Error), "see what its log says; rowmill run of the same version as rowmill apply")
		}
	}
	for _, task := range l.tasks {
		if task.Kind == Create && task.Waits != "" {
			l.s.problem("failed", task.Waits, "")
		}
	}
}

// AdoptionStatus returns the status of the table's adoption, or of its undo. It returns nil if
// neither is in progress, or if only the old table remains to be dropped. It changes nothing.
func (t *Table) AdoptionStatus(ctx context.Context) (*Status, error) {
	c, err := adopt.UnderWay(ctx, t.State, t.Declared.Name)
	if err != nil || c == nil || adopt.Ended(c) {
		return nil, err
	}
	s := &Status{Adopting: true}
	describe(t, s)
	cs, err := changeStatus(c, "adopt")
	if err != nil {
		return nil, err
	}
	what, try := "the adoption", "rowmill apply FILE, which continues, or rowmill apply FILE --undo"
	switch {
	case adopt.Leaving(c):
		cs.What, what, try = "make plain", "the copy into a plain table", "rowmill remove FILE --plain, which continues, or rowmill remove FILE --plain --cancel"
	case adopt.Undoing(c):
		cs.What, what, try = "undo adopt", "the undo of the adoption", "rowmill apply FILE --undo, which continues"
	}
	s.Rows = cs.Of
	working, err := adopt.Working(ctx, t.DB, s.Table)
	if err != nil {
		return nil, fmt.Errorf("find out whether a process works on %s of %s: %w", what, s.Table, err)
	}
	if !working {
		cs.Interrupted = true
		text := fmt.Sprintf("%s was interrupted at its step %s, and no process works on it", what, c.Step)
		if c.Error != "" {
			text += ": " + c.Error
		}
		s.problem("stopped", text, try)
	}
	s.Changes = []ChangeStatus{cs}
	if _, err := addPauses(ctx, t, s); err != nil {
		return nil, err
	}
	if adopt.NeedsLock(c) {
		who, err := t.DB.Blockers(ctx, &engine.Table{Name: s.Table})
		if err != nil {
			return nil, err
		}
		s.block(who, true)
	}
	return s, nil
}

func changeStatus(c *state.Change, what string) (ChangeStatus, error) {
	cs := ChangeStatus{What: what, Step: c.Step, Since: c.Started.UTC(), Tries: c.Tries, Error: c.Error}
	if c.Kind != adopt.Kind {
		return cs, nil
	}
	var done float64
	var err error
	if cs.Rows, cs.Of, done, err = adopt.Done(c); err != nil || cs.Of <= 0 {
		return cs, err
	}
	cs.Percent = new(100 * done)
	return cs, nil
}

// besides adds the other programs that create or drop partitions of the table.
func (l *look) besides(ctx context.Context) error {
	all, err := l.Rivals(ctx)
	for _, r := range all {
		if !r.Unsure {
			l.s.problem("rival", r.Text(l.s.Table), "rowmill apply FILE, which stops it; or: "+strings.Join(r.Off, "; "))
		}
	}
	return err
}

// Rivals returns what creates or drops partitions of the table besides rowmill.
func (t *Table) Rivals(ctx context.Context) ([]engine.Rival, error) {
	db, ok := t.DB.(engine.Rivaled)
	if !ok || t.Schema == nil || !t.Schema.Partitioned {
		return nil, nil
	}
	return db.Rivals(ctx, t.Table.Name)
}
