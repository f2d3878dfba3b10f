package maintain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Status describes the state of a rolling table, for people and programs. Times
// are UTC; durations are in seconds; positions of time axes are given as times.
type Status struct {
	Format string    `json:"format"` // rowmill.status/1
	Table  string    `json:"table"`
	Target string    `json:"target"`
	Engine string    `json:"engine"`
	At     time.Time `json:"at"`
	// Now is the present on the table's axis: At, or a clock's time, or for a
	// sequence the highest key.
	Now string `json:"now"`
	// Every, Ahead and Keep are as written in the declaration.
	Every string `json:"every"`
	Ahead string `json:"ahead"`
	Keep  string `json:"keep,omitempty"`

	Periods []PeriodStatus `json:"periods"`
	Rows    int64          `json:"rows"`  // estimated
	Bytes   int64          `json:"bytes"` // data and indexes
	// Headroom is how long inserts will find a period if no more are created: from
	// the present to the end of the last period. HeadroomWanted is the declared
	// value. Both are null for a sequence, which has HeadroomRows instead.
	Headroom       *float64 `json:"headroom_seconds"`
	HeadroomWanted *float64 `json:"headroom_wanted_seconds"`
	HeadroomRows   *int64   `json:"headroom_rows,omitempty"`

	Rollups []RollupStatus `json:"rollups"`
	// Late is the maximum time for which roll-ups and their live views may lack
	// late rows.
	Late string `json:"late_rows,omitempty"`
	// Adopting means that the table is a plain one in conversion to a rolling one,
	// or back: its periods are not known.
	Adopting bool `json:"adopting,omitempty"`
	// Leader is the process that keeps the table, as far as can be seen; "" if
	// there is none.
	Leader string `json:"leader"`
	// Changes are those in progress.
	Changes []ChangeStatus `json:"changes"`
	// Actions are the latest ones, newest first.
	Actions []ActionStatus `json:"actions"`
	// Next are the next tasks, in order.
	Next []NextStatus `json:"next"`
	// Blockers are the transactions that delay due tasks. Rowmill's own are
	// included only if they have been open for minutes.
	Blockers []BlockerStatus `json:"blockers"`
	// Hidden lists information that the account can't read, and the grants that it
	// needs.
	Hidden []HiddenStatus `json:"hidden,omitempty"`
	// Problems require action. If there are none, rowmill status exits with 0.
	Problems []Problem `json:"problems"`
}

// PeriodStatus is the status of one period.
type PeriodStatus struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	// State is ahead (not begun), open, closing (its end has passed),
	// sealed, archived, restored or dropped.
	State string `json:"state"`
	Rows  int64  `json:"rows"` // estimated unless sealed
	Bytes int64  `json:"bytes"`
	// Rebuilt means that its rows are sorted and, if so declared, compressed.
	Rebuilt bool   `json:"rebuilt"`
	Archive string `json:"archive,omitempty"`
}

// RollupStatus is the status of one level.
type RollupStatus struct {
	Name  string `json:"name"`
	Every string `json:"every"`
	// To is the watermark, "" before the first bucket. Lag is its distance from the
	// end of the last complete bucket.
	To    string  `json:"to"`
	Lag   float64 `json:"lag_seconds"`
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
	Percent *float64  `json:"percent,omitempty"`
	// Rows are the rows that the step has processed, of about Of; 0 if it counts none.
	Rows int64 `json:"rows,omitempty"`
	Of   int64 `json:"of_rows,omitempty"`
	// Interrupted means that it stopped before its end, and that no process is
	// working on it.
	Interrupted bool `json:"interrupted,omitempty"`
}

// ActionStatus is a past action.
type ActionStatus struct {
	At      time.Time `json:"at"`
	Action  string    `json:"action"`
	Detail  string    `json:"detail"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	// Locked means that it failed because a lock was not granted.
	Locked bool   `json:"locked,omitempty"`
	By     string `json:"by"`
}

// NextStatus is a pending task.
type NextStatus struct {
	Action string `json:"action"` // create, rollup, seal, rebuild, merge, archive, drop
	What   string `json:"what"`
	// At is when it is due; if that is past, it is due at once.
	At  *time.Time `json:"at,omitempty"`
	Why string     `json:"why,omitempty"`
}

// BlockerStatus is a transaction that blocks a task.
type BlockerStatus struct {
	ID        int64   `json:"id"`
	User      string  `json:"user"`
	Host      string  `json:"host"`
	Age       float64 `json:"age_seconds"`
	Statement string  `json:"statement"`
	// Own means that it is rowmill's own.
	Own bool `json:"own,omitempty"`
}

// HiddenStatus describes information that the server shows to other accounts only.
type HiddenStatus struct {
	What  string `json:"what"`
	Grant string `json:"grant"`
}

// A Problem requires action.
type Problem struct {
	// Code is one of headroom, blocked, gap, stopped, rollup, failed, outside,
	// declaration, triggers.
	Code string `json:"code"`
	Text string `json:"text"`
	Try  string `json:"try,omitempty"`
}

// Thresholds of problems, and lengths of lists.
const (
	// gone is how long a leader may be silent.
	gone = 3 * beat
	// recent is how long a failed action is reported.
	recent = 5 * time.Minute
	// stuck is how often a change may fail before it is reported as a problem.
	stuck = 5
	// maxNext is the number of pending tasks in a status.
	maxNext = 8
	// maxActions is the number of completed actions in a status.
	maxActions = 20
)

// Status inspects the table and returns its status under the declaration in force.
// Nothing is changed.
func (t *Table) Status(ctx context.Context) (*Status, error) {
	now, err := t.Follow(ctx)
	var not *unfollowedError
	switch {
	case errors.As(err, &not) && not.gone:
		s := t.lastFollowed().newStatus()
		s.unfollowed(not)
		return s, nil
	case not != nil:
		now = t.lastFollowed()
	case err != nil:
		return nil, err
	}
	return now.status(ctx, not)
}

// newStatus returns a status that contains only the declaration.
func (t *Table) newStatus() *Status {
	d, at := t.Declared, time.Now().UTC()
	s := &Status{Format: "rowmill.status/1", Table: d.Name, Target: t.DB.Info().Target, Engine: t.DB.Info().Engine, At: at, Now: at.Format(time.DateTime),
		Every: t.Table.Grid.String(), Ahead: d.Ahead.String(), Periods: []PeriodStatus{}}
	if !d.Keep.IsZero() {
		s.Keep = d.Keep.String()
	}
	return s
}

// unfollowed adds the problem that the declaration can't be followed.
func (s *Status) unfollowed(not *unfollowedError) { s.problem(Declaring, not.why, not.try) }

// status returns the table's status. not is the reason why the declaration in force
// can't be followed, nil if it can.
func (t *Table) status(ctx context.Context, not *unfollowedError) (*Status, error) {
	d, s := t.Declared, t.newStatus()
	if not != nil {
		s.unfollowed(not)
	}
	v, err := t.View(ctx)
	if isNoTable(err) {
		errors.As(noTable(d.Name), &not)
		s.unfollowed(not)
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.Now = t.Table.Grid.Format(v.Now)
	sizes, err := t.DB.PeriodSizes(ctx, t.Table)
	if err != nil {
		return nil, err
	}
	t.periods(s, v, sizes)
	t.headroom(s, v)
	if err := t.levels(ctx, s, v); err != nil {
		return nil, err
	}
	if err := t.activity(ctx, s); err != nil {
		return nil, err
	}
	if limited, ok := t.DB.(engine.Limited); ok {
		hidden, err := limited.Hidden(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range hidden {
			s.Hidden = append(s.Hidden, HiddenStatus(h))
		}
	}
	tasks, err := Plan(d, v)
	if err != nil {
		s.problem("failed", "the plan of the next steps: "+err.Error(), "")
	}
	t.next(s, v, tasks)
	return s, t.problems(ctx, s, v, tasks)
}

func (s *Status) problem(code, text, try string) {
	s.Problems = append(s.Problems, Problem{Code: code, Text: text, Try: try})
}

func (t *Table) periods(s *Status, v View, sizes map[string]engine.PeriodSize) {
	format := t.Table.Grid.Format
	for _, p := range v.Parts {
		size := sizes[p.Name]
		ps := PeriodStatus{Name: p.Name, From: format(p.From), To: format(p.To), Rows: size.Rows, Bytes: size.Data + size.Index}
		switch k := v.known(p); {
		case k != nil:
			ps.State, ps.Rows, ps.Rebuilt, ps.Archive = k.State, k.Rows, k.Rebuilt, k.Archive
		case p.From > v.Now:
			ps.State = "ahead"
		case p.To <= v.Now:
			ps.State = "closing"
		default:
			ps.State = "open"
		}
		s.Rows += ps.Rows
		s.Bytes += ps.Bytes
		s.Periods = append(s.Periods, ps)
	}
}

func (t *Table) headroom(s *Status, v View) {
	end := v.Now
	for _, p := range v.Parts { // up to the first gap
		if p.From <= end && p.To > end {
			end = p.To
		}
	}
	left := end - v.Now
	if t.Table.Grid.Axis() == rolling.Sequence {
		s.HeadroomRows = &left
		return
	}
	seconds := float64(left) / 1e6
	s.Headroom = &seconds
	wanted := float64(t.wanted(v)-v.Now) / 1e6
	s.HeadroomWanted = &wanted
}

// wanted is the position up to which periods should exist at present.
func (t *Table) wanted(v View) int64 {
	if !t.Declared.Ahead.IsZero() {
		return t.Declared.Ahead.After(v.Now)
	}
	present, err := t.Table.Grid.At(v.Now)
	if err != nil {
		return v.Now
	}
	return present.To
}

func (t *Table) levels(ctx context.Context, s *Status, v View) error {
	if t.Rollups == nil {
		return nil
	}
	levels, err := t.Rollups.Status(ctx, v.Now)
	if err != nil {
		return err
	}
	s.Late = t.Rollups.LateBound()
	for _, l := range levels {
		whole, err := l.Every.At(v.Now) // the bucket that isn't over yet
		if err != nil {
			return err
		}
		lag, to := max(0, whole.From-l.Watermark), t.Table.Grid.Format(l.Watermark)
		if !l.Begun {
			lag, to = 0, "" // no rows so far
		}
		s.Rollups = append(s.Rollups, RollupStatus{Name: l.Name, Every: l.Every.String(), To: to,
			Lag: float64(lag) / 1e6, Stale: l.Stale, Rows: l.Rows})
	}
	return nil
}

// activity adds the leader, the changes in progress and the past actions.
func (t *Table) activity(ctx context.Context, s *Status) error {
	leaders, err := t.State.Leaders(ctx, s.Table)
	if err != nil {
		return err
	}
	if len(leaders) > 0 && time.Since(leaders[0].At) < gone {
		s.Leader = leaders[0].By
	}
	changes, err := t.State.Changes(ctx, s.Table)
	if err != nil {
		return err
	}
	for _, c := range changes {
		what := c.ID
		if p, ok := bounds(&c); ok {
			what = c.Kind + " " + t.Table.Grid.Name(p)
		}
		cs, err := changeStatus(&c, what)
		if err != nil {
			return err
		}
		s.Changes = append(s.Changes, cs)
	}
	actions, err := t.State.Actions(ctx, s.Table, maxActions)
	if err != nil {
		return err
	}
	for _, a := range actions {
		s.Actions = append(s.Actions, ActionStatus{At: a.At.UTC(), Action: a.Action, Detail: a.Detail, Seconds: a.Took.Seconds(), Error: a.Error, Locked: a.Locked, By: a.By})
	}
	return nil
}

func (t *Table) next(s *Status, v View, tasks []Task) {
	for _, task := range tasks {
		if len(s.Next) == maxNext {
			return
		}
		what := label(task)
		if task.Kind == Rollup {
			if what, task.Due = t.nextRefresh(s, v); what == "" {
				continue
			}
		}
		n := NextStatus{Action: string(task.Kind), What: what, Why: task.Waits}
		if t.Table.Grid.Axis() == rolling.Time {
			at := rolling.Instant(max(task.Due, v.Now))
			n.At = &at
		}
		s.Next = append(s.Next, n)
	}
}

// nextRefresh returns which levels are to be computed next, and when: those that
// are behind, at once; otherwise those whose bucket ends first. It returns none for
// a sequence, whose buckets end at unknown times.
func (t *Table) nextRefresh(s *Status, v View) (levels string, due int64) {
	var behind, first []string
	for _, l := range s.Rollups {
		if l.Lag > 0 || l.Stale > 0 {
			behind = append(behind, l.Name)
		}
		bucket, err := levelOf(t.Declared, l.Name).Every.At(v.Now)
		if err != nil || t.Table.Grid.Axis() == rolling.Sequence {
			continue
		}
		if len(first) == 0 || bucket.To < due {
			first, due = nil, bucket.To
		}
		if bucket.To == due {
			first = append(first, l.Name)
		}
	}
	if len(behind) > 0 {
		return strings.Join(behind, ", "), v.Now
	}
	return strings.Join(first, ", "), due
}

// problems adds the problems that require action.
func (t *Table) problems(ctx context.Context, s *Status, v View, tasks []Task) error {
	if s.Headroom != nil {
		left := time.Duration(*s.Headroom * float64(time.Second)).Round(time.Second)
		switch ahead := t.endAhead(v); {
		case *s.Headroom <= 0 && ahead != "":
			s.problem("headroom", "no period covers the present: inserts fail. The last one ends at "+ahead+", by a clock that ran ahead, and rowmill run creates periods after the last one only",
				"set the clock right, if it is wrong now; otherwise apply the declaration under another name, as docs/operations.md says")
		case *s.Headroom <= 0:
			s.problem("headroom", "no period covers the present: inserts fail", "rowmill run FILE --once, and read its output")
		case *s.Headroom < *s.HeadroomWanted/2:
			s.problem("headroom", fmt.Sprintf("inserts have periods for %s more; %s is declared", left, t.Declared.Ahead), "rowmill run FILE --once, and read its output")
		}
	}
	if err := t.blockers(ctx, s, v, tasks); err != nil {
		return err
	}
	if steps, err := (rolling.Policy{Grid: t.Table.Grid}).Steps(t.retained(v), v.Now); err == nil {
		for _, g := range steps.Gaps {
			s.problem("gap", fmt.Sprintf("no period from %s to %s: inserts with these times fail", t.Table.Grid.Format(g.From), t.Table.Grid.Format(g.To)),
				"rowmill restore, or leave it if no such rows are to come")
		}
	}
	if err := t.outside(ctx, s); err != nil {
		return err
	}
	triggers, err := t.triggerState(ctx)
	if err != nil {
		return err
	}
	if len(triggers.missing) > 0 {
		s.problem("triggers", triggers.missed(), "rowmill apply FILE, which creates them")
	}
	if len(triggers.old) > 0 {
		s.problem("triggers", strings.Join(triggers.old, ", and ")+" were made by an earlier version or declaration: which rows they refuse or count may differ from the declaration",
			"rowmill apply FILE, which replaces them while inserts continue")
	}
	due := slices.ContainsFunc(tasks, func(task Task) bool { return task.Kind != Rollup && task.Due <= v.Now && task.Waits == "" })
	if s.Leader == "" && due {
		s.problem("stopped", "no process maintains the table, and a task is due", "rowmill run FILE")
	}
	for _, l := range s.Rollups {
		if l.Lag > max(600, 3*t.wantedLag(l.Name)) {
			s.problem("rollup", fmt.Sprintf("%s is %s behind", l.Name, time.Duration(l.Lag*float64(time.Second)).Round(time.Second)), "see the errors of its last refreshes")
		}
	}
	for _, c := range s.Changes {
		if c.Tries >= stuck && !slices.ContainsFunc(latestAttempts(s.Actions), func(a ActionStatus) bool { return a.Locked }) {
			s.problem("failed", fmt.Sprintf("%s has failed %s at its step %s: %s", c.What, figure.Plural(c.Tries, "time"), c.Step, c.Error), "")
		}
	}
	t.failures(s)
	for _, task := range tasks {
		if task.Kind == Create && task.Waits != "" {
			s.problem("failed", task.Waits, "")
		}
	}
	return nil
}

// retained returns the partitions from the oldest one that stays. Those before it are
// restored or due to be dropped, and there may be gaps between them.
func (t *Table) retained(v View) []rolling.Partition {
	i := slices.IndexFunc(v.Parts, func(p rolling.Partition) bool {
		k := v.known(p)
		due, drops := dropDue(t.Declared, p)
		return (k == nil || k.State != state.Restored) && !(drops && due <= v.Now)
	})
	if i < 0 {
		return nil
	}
	return v.Parts[i:]
}

// endAhead returns the end of the last period if that is ahead of the present
// and no period contains the present, "" otherwise.
func (t *Table) endAhead(v View) string {
	if len(v.Parts) == 0 || slices.ContainsFunc(v.Parts, func(p rolling.Partition) bool { return p.From <= v.Now && p.To > v.Now }) {
		return ""
	}
	if last := v.Parts[len(v.Parts)-1]; last.To > v.Now {
		return t.Table.Grid.Format(last.To)
	}
	return ""
}

// wantedLag is the length of a level's bucket, in seconds.
func (t *Table) wantedLag(level string) float64 {
	for _, r := range t.Declared.Rollups {
		if r.Name == level {
			if p, err := r.Every.At(0); err == nil {
				return float64(p.To-p.From) / 1e6
			}
		}
	}
	return 0
}

// passing is the age below which a transaction is expected to end by itself: beside
// an older one it is not reported as a blocker.
const passing = time.Second

// blockers adds the transactions that hold a lock which a due task failed to get.
func (t *Table) blockers(ctx context.Context, s *Status, v View, tasks []Task) error {
	waits := ""
	for _, a := range latestAttempts(s.Actions) {
		if a.Locked {
			waits = a.Action + " " + a.Detail
		}
	}
	if waits == "" {
		return nil
	}
	who, err := t.DB.Blockers(ctx, t.Table)
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
	for _, b := range who {
		if b.Age < passing && who[0].Age >= passing {
			continue
		}
		s.Blockers = append(s.Blockers, blockerStatus(b))
	}
	text := waits + " waits for a lock on the table"
	if len(who) > 0 {
		whose := ""
		if who[0].Own {
			whose = "rowmill's own "
		}
		text += fmt.Sprintf(", held by %sconnection %d of %s@%s in a transaction of %s", whose, who[0].ID, who[0].User, who[0].Host, who[0].Age.Round(time.Second))
	}
	if s.Headroom != nil {
		text += fmt.Sprintf("; inserts have periods for %s more", time.Duration(*s.Headroom*float64(time.Second)).Round(time.Second))
	}
	s.problem("blocked", text, "end that transaction, or wait for it: due tasks are retried automatically")
	return nil
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

// outside counts rows that are older than every period.
func (t *Table) outside(ctx context.Context, s *Status) error {
	o, ok := t.DB.(engine.Outsider)
	if !ok {
		return nil
	}
	n, err := o.Outside(ctx, t.Table)
	if err != nil {
		return err
	}
	if n > 0 {
		s.problem("outside", fmt.Sprintf("%s older than every period: kept, and neither rolled up nor archived", figure.Plural(n, "row is", "rows are")),
			"look at them in the table's partition rowmill_floor; delete them, or restore their period")
	}
	return nil
}

// failures adds actions whose last attempt failed, unless because of a lock.
func (t *Table) failures(s *Status) {
	for _, a := range latestAttempts(s.Actions) {
		switch {
		case a.Error == "" || a.Locked:
		case a.Action == Declaring:
			// The process that keeps the table can't follow the declaration,
			// although this one may.
			if !slices.ContainsFunc(s.Problems, func(p Problem) bool { return p.Code == Declaring }) {
				s.problem(Declaring, fmt.Sprintf("%s: %s", a.By, a.Error), "see what its log says; rowmill run of the same version as rowmill apply")
			}
		default:
			s.problem("failed", fmt.Sprintf("%s %s: %s", a.Action, a.Detail, a.Error), "")
		}
	}
}

// latestAttempts returns the latest attempt of each kind of action, if it was recent.
func latestAttempts(newestFirst []ActionStatus) []ActionStatus {
	var out []ActionStatus
	seen := map[string]bool{}
	for _, a := range newestFirst {
		if !seen[a.Action] && time.Since(a.At) < recent {
			out = append(out, a)
		}
		seen[a.Action] = true
	}
	return out
}

// AdoptionStatus returns the status of the table's adoption, or of its undoing. It
// is nil if none is in progress, and if only dropping the old table is left.
// Nothing is changed.
func (t *Table) AdoptionStatus(ctx context.Context) (*Status, error) {
	c, err := adopt.UnderWay(ctx, t.State, t.Declared.Name)
	if err != nil || c == nil || adopt.Ended(c) {
		return nil, err
	}
	d, s := t.Declared, t.newStatus()
	s.Adopting = true
	cs, err := changeStatus(c, "adopt")
	if err != nil {
		return nil, err
	}
	what, try := "the adoption", "rowmill apply FILE, which continues, or rowmill apply FILE --undo"
	if adopt.Undoing(c) {
		cs.What, what, try = "undo adopt", "its undoing", "rowmill apply FILE --undo, which continues"
	}
	s.Rows = cs.Of
	working, err := adopt.Working(ctx, t.DB, d.Name)
	if err != nil {
		return nil, fmt.Errorf("find out whether a process works on %s of %s: %w", what, d.Name, err)
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
	if adopt.NeedsLock(c) {
		who, err := t.DB.Blockers(ctx, &engine.Table{Name: d.Name})
		if err != nil {
			return nil, err
		}
		for _, b := range who {
			if b.Age >= passing {
				s.Blockers = append(s.Blockers, blockerStatus(b))
			}
		}
	}
	return s, nil
}

// changeStatus returns a change as it appears in a status.
func changeStatus(c *state.Change, what string) (ChangeStatus, error) {
	cs := ChangeStatus{What: what, Step: c.Step, Since: c.Started.UTC(), Tries: c.Tries, Error: c.Error}
	if c.Kind != adopt.Kind {
		return cs, nil
	}
	var err error
	if cs.Rows, cs.Of, err = adopt.Done(c); err != nil || cs.Of <= 0 {
		return cs, err
	}
	percent := min(100*float64(cs.Rows)/float64(cs.Of), 100)
	cs.Percent = &percent
	return cs, nil
}

func blockerStatus(b engine.Blocker) BlockerStatus {
	return BlockerStatus{ID: b.ID, User: b.User, Host: b.Host, Age: b.Age.Seconds(), Statement: b.Statement, Own: b.Own}
}
