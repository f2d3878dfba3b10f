package experiment

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
	"github.com/rowmill/rowmill/rolling"
)

// A KeepSpec is what only inserts into a declared table beside its maintenance have.
type KeepSpec struct {
	// File is the path of the table's declaration, for messages and relative paths;
	// Declaration is its text.
	File        string `json:"file" toml:"file"`
	Declaration string `json:"declaration" toml:"declaration"`
	// Keys is the size of the key space; 0 is a million.
	Keys int64 `json:"keys,omitempty" toml:"keys,omitempty"`
	// Stall is the time from which inserts are listed.
	Stall Duration `json:"stall" toml:"stall"`
	// WithRun keeps the table in this process. The clock runs Speed times as fast as
	// time; it is written to the file Clock for a keeper in another process.
	WithRun bool    `json:"with-run,omitempty" toml:"with-run,omitempty"`
	Speed   float64 `json:"speed" toml:"speed"`
	Clock   string  `json:"clock,omitempty" toml:"clock,omitempty"`
	// Baseline makes the same inserts first while nobody maintains the table.
	Baseline bool `json:"baseline,omitempty" toml:"baseline,omitempty"`
}

type keepRun struct {
	measurement
	spec  *Spec
	table *maintain.Table
	w     *workload.Keep
	done  maintenanceLog
	disk  *diskLog // nil if the disk is not timed
	// before is the number of rows at the start, in the table and in dropped periods.
	before rowCount
	after  *rowCount // nil if not counted
	// baseline is the run before without maintenance; nil if there was none.
	baseline *keepRun
}

func (e *Env) keep(ctx context.Context, s *Spec) ([]result.Record, error) {
	if e.OpenTable == nil {
		return nil, errors.New("keep a table: the environment opens none")
	}
	table, db, err := e.OpenTable(ctx, s)
	if err != nil {
		return nil, err
	}
	r := &keepRun{measurement: measurement{env: e, trial: &Trial{Spec: s, Whole: s}, db: db}, spec: s, table: table}
	if err = r.prepare(ctx); err == nil {
		err = r.run(ctx)
	}
	if err == nil && ctx.Err() != nil {
		err = ErrInterrupted
	}
	recs, err := recorded(r.rec, errors.Join(err, db.Close()))
	if r.baseline != nil && r.baseline.rec != nil {
		recs = append([]result.Record{*r.baseline.rec}, recs...)
	}
	return recs, err
}

// prepare requires a table that has been applied, as declared; on a private server it
// applies the declaration.
func (r *keepRun) prepare(ctx context.Context) error {
	if r.table.Table.Grid.Valid() && r.table.Schema == nil && target.Private(r.db.Text) {
		plan, err := apply.PlanTable(ctx, r.table)
		if err != nil {
			return err
		}
		return plan.Run(ctx, func(apply.Step) {})
	}
	err := r.table.CheckApplied(ctx)
	if err != nil && Hint(err) == "" { // a hint names the missing privilege
		err = engine.Hinted(err, "rowmill apply %s", r.spec.Keep.File)
	}
	if err != nil {
		return err
	}
	return r.checkSpeed(ctx)
}

// checkSpeed refuses a clock that runs ahead if the table or one of its roll-ups has
// rows: by that clock they would exceed the retention and be dropped.
func (r *keepRun) checkSpeed(ctx context.Context) error {
	if r.spec.Keep.Speed == 1 || target.Private(r.db.Text) {
		return nil
	}
	count, err := countRows(ctx, r.table)
	if err != nil {
		return err
	}
	n := count.all()
	if r.table.Rollups != nil {
		levels, err := r.table.Rollups.Status(ctx, 0)
		if err != nil {
			return err
		}
		for _, l := range levels {
			n += l.Rows
		}
	}
	if n > 0 {
		return engine.Hinted(fmt.Errorf("--speed %v: table %s on %s has or had rows. By a clock that runs ahead they exceed keep, and retention drops them",
			r.spec.Keep.Speed, r.table.Declared.Name, r.db.Info().Target),
			"--speed 1, --target %s, or a declaration of another table, without rows", target.ExampleServer)
	}
	return nil
}

func (r *keepRun) run(ctx context.Context) (err error) {
	k, s, t := r.spec.Keep, r.spec, r.table
	clock, err := r.clock(ctx)
	if err != nil {
		return err
	}
	r.w, err = workload.NewKeep(t.DB, t.Table, t.Schema, workload.KeepOptions{Seed: uint64(s.Seed), Keys: k.Keys, Rate: s.Rate,
		Method: engine.Method(s.Method), Stall: k.Stall.D(), Now: clock.now})
	if err != nil {
		return err
	}
	if t.Table.Grid.Axis() == rolling.Sequence {
		highest, err := t.Now(ctx)
		if err != nil {
			return err
		}
		r.w.StartAt(highest + 1)
	} else {
		t.Now = maintain.Clock(clock.now)
	}
	// Another keeper may be dropping a period at this moment.
	for tries := 0; tries == 0 || r.before.moving && tries < 20; tries++ {
		if tries > 0 {
			if err := engine.Sleep(ctx, watchEvery); err != nil {
				return err
			}
		}
		if r.before, err = countRows(ctx, t); err != nil {
			return err
		}
	}
	if k.Clock != "" {
		if err := clock.write(k.Clock); err != nil {
			return err
		}
		defer clock.writeOn(ctx, k.Clock)()
	}
	r.w.Beside = r.watchKeeper
	if k.WithRun {
		r.w.Beside = r.keepHere
		// The table may not have been maintained for a long time.
		clock.stop()
		if err := (&schedule.Daemon{Table: t}).Once(ctx); err != nil {
			return fmt.Errorf("keep %s before the first insert: %w", t.Declared.Name, err)
		}
		clock.resume()
	}
	if k.Baseline {
		if err := r.unkept(ctx, clock); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return r.insert(ctx, clock, fmt.Sprintf("keep %s on %s", t.Declared.Name, r.db.Info().Engine))
}

// unkept makes the inserts while nobody maintains the table. Its clock is that of the machine: the
// periods that exist must last.
func (r *keepRun) unkept(ctx context.Context, clock *fastClock) error {
	with, without := *r.trial, *r.trial
	with.Side, without.Side = "maintained", result.Unmaintained
	r.trial = &with
	b := &keepRun{measurement: measurement{env: r.env, trial: &without, db: r.db}, spec: r.spec, table: r.table, w: r.w, before: r.before}
	r.baseline = b
	beside, speed := r.w.Beside, clock.pace(1)
	r.w.Beside = nil
	err := b.insert(ctx, clock, fmt.Sprintf("%s on %s, unmaintained", r.table.Declared.Name, r.db.Info().Engine))
	r.w.Beside = beside
	r.w.Again()
	clock.resume()
	clock.pace(speed)
	if b.after != nil {
		r.before = *b.after
	}
	return err
}

// insert measures the inserts.
func (r *keepRun) insert(ctx context.Context, clock *fastClock, name string) error {
	s, t := r.spec, r.table
	own := result.Run{
		Name: name, Load: result.Load{Method: string(r.w.Method()), Indexes: len(t.Schema.Indexes)},
		Retention: result.Retention{Period: t.Table.Grid.String(), PeriodWhy: "declared"}, Database: result.Database{Schema: []string{t.Declared.Definition.Text}},
	}
	cfg := bench.Config{Operation: "insert", Clients: s.Writers, Batch: s.Batch, MaxTime: s.MaxTime.D(), Rate: s.Rate, Interval: s.Interval.D()}
	if err := r.begin(ctx, []*engine.Table{r.w.Table()}, cfg, own, own.Name); err != nil {
		return err
	}
	ends := r.timeSyncs(ctx)
	defer ends()
	return r.measure(ctx, r.w, func(ctx context.Context, end *result.End) error {
		ends() // the disk's work for counting rows is not part of the inserts
		if s.Keep.WithRun {
			clock.stop() // else further periods become due while the last ones are dropped
		}
		err := r.prove(ctx, end)
		end.Keep = r.figures()
		return err
	})
}

// timeSyncs times the disk of a private server until ends is called.
func (r *keepRun) timeSyncs(ctx context.Context) (ends func()) {
	server := r.db.Server()
	if server == nil {
		return func() {}
	}
	r.disk = &diskLog{}
	return background(ctx, func(ctx context.Context) { r.disk.err = probe.Syncs(ctx, server.Dir, r.disk.add) })
}

// background runs a function until stop is called, which waits for its end.
func background(ctx context.Context, fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { fn(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// pollFor is the interval at which a keeper checks for unplanned work, on its clock.
const pollFor = 10 * time.Second

type eventFunc = func(what, object string, began time.Time)

func (r *keepRun) keepHere(ctx context.Context, event eventFunc) error {
	r.table.Say = func(e maintain.Event) { r.saw(e.Action, e.Detail, e.At, e.Took, e.Err, event) }
	poll := max(time.Duration(float64(pollFor)/r.spec.Keep.Speed), 200*time.Millisecond)
	(&schedule.Daemon{Table: r.table, Poll: poll}).Run(ctx)
	return nil
}

func (r *keepRun) saw(action, detail string, end time.Time, took time.Duration, err error, event eventFunc) {
	if r.done.add(action, detail, end, took, err) {
		event(action, detail, end.Add(-took))
	}
}

// watchEvery is how often the log of a keeper in another process is read. Its actions
// are drawn with at most this delay.
const watchEvery = 500 * time.Millisecond

// watchKeeper follows the actions that a keeper in another process records in the database.
func (r *keepRun) watchKeeper(ctx context.Context, event eventFunc) error {
	since := time.Now()
	for engine.Sleep(ctx, watchEvery) == nil {
		if err := r.follow(ctx, &since, event); err != nil && ctx.Err() == nil && !engine.Retryable(err) {
			return err
		}
	}
	// An action that has just ended is recorded a moment later.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return r.follow(last, &since, event)
}

// lateRecord is how long after its end an action may be recorded, or one of another lane before it.
const lateRecord = 10 * time.Second

// follow reads the actions after since, and moves that on.
func (r *keepRun) follow(ctx context.Context, since *time.Time, event eventFunc) error {
	actions, err := r.table.State.ActionsSince(ctx, r.table.Declared.Name, *since)
	if err != nil {
		return err
	}
	for _, x := range slices.Backward(actions) {
		var failed error
		if x.Error != "" {
			failed = errors.New(x.Error)
		}
		r.saw(x.Action, x.Detail, x.At, x.Took, failed, event)
		if late := x.At.Add(-lateRecord); late.After(*since) {
			*since = late
		}
	}
	return nil
}

func (r *keepRun) prove(ctx context.Context, end *result.End) error {
	end.Warnings = append(end.Warnings, r.w.Notes().Warnings...)
	if end.Stopped == bench.StoppedFailed {
		return nil
	}
	unverified := func(format string, args ...any) error {
		end.Warnings = append(end.Warnings, "not verified: "+fmt.Sprintf(format, args...))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if r.before.moving {
		return unverified("a period was being dropped each time that the rows were counted before the first insert: their number is unknown")
	}
	for {
		now, err := countRows(ctx, r.table)
		if err != nil {
			return unverified("%v", err)
		}
		r.after = &now
		found := &result.Verified{Expected: r.rows(), Found: now.all() - r.before.all(), Counted: true}
		switch {
		case found.Found == found.Expected:
			end.Verified = found
			return nil
		case end.Stopped == bench.StoppedInterrupted:
			// Inserts that were cut off may have committed.
			return unverified("the run was interrupted, with %s acknowledged and %s found", rows(found.Expected), figure.Count(found.Found))
		}
		if now.moving && ctx.Err() == nil {
			if r.spec.Keep.WithRun {
				if err = (&schedule.Daemon{Table: r.table}).Once(ctx); err != nil {
					err = fmt.Errorf("keep %s after the last insert: %w", r.table.Declared.Name, err)
				}
			} else {
				err = engine.Sleep(ctx, watchEvery)
			}
			if err == nil {
				continue
			}
		}
		end.Verified = found
		failed := fmt.Errorf("verification failed: %s acknowledged, and the tables have %s more than before", figure.Plural(found.Expected, "row was", "rows were"), figure.Count(found.Found))
		return errors.Join(failed, err)
	}
}

func (r *keepRun) figures() *result.Keep {
	notes := r.w.Notes()
	f := &result.Keep{StallMS: float64(r.spec.Keep.Stall) / 1e6, Stalls: []result.KeepStall{}, Slow: notes.Slow,
		Errors: map[string]int64{}, Actions: map[string]int{}, Failed: []string{}}
	maps.Copy(f.Errors, notes.Errors)
	for _, s := range append(r.done.stalls(notes.Stalls), r.done.stalls([]workload.SlowInsert{notes.Longest})...) {
		if r.disk != nil {
			s.Sync = r.disk.during(s.At, s.to).Seconds()
		}
		f.Stalls = append(f.Stalls, s.KeepStall)
	}
	last := len(f.Stalls) - 1
	f.Longest, f.Stalls = f.Stalls[last], f.Stalls[:last]
	if d := r.disk; d != nil {
		f.Disk = &result.KeepDisk{Syncs: d.count, Slow: len(d.slow), Longest: d.longest.Seconds()}
		if d.err != nil {
			f.Disk.Error = d.err.Error()
		}
	}
	if r.after != nil {
		found := r.after.all() - r.before.all()
		f.Found, f.Dropped = &found, r.after.dropped-r.before.dropped
	}
	for _, d := range r.done.list {
		if d.Failed != "" {
			f.Failed = append(f.Failed, d.String()+": "+d.Failed)
			continue
		}
		f.Actions[d.Action]++
	}
	return f
}

// A fastClock runs at a multiple of real time. While it is stopped, whatever is due at
// that time can be completed, however long it takes.
type fastClock struct {
	speed float64

	mu      sync.Mutex
	at      time.Time // on this clock, when it last began or stopped
	since   time.Time // in real time
	stopped bool
}

// clock returns the clock of the run, which begins at the present. A table with rows
// in the future is refused: the run would create rows for the same times again.
func (r *keepRun) clock(ctx context.Context) (*fastClock, error) {
	now := time.Now()
	c := &fastClock{speed: r.spec.Keep.Speed, at: now, since: now}
	t, db := r.table.Table, r.table.DB
	if t.Grid.Axis() != rolling.Time {
		return c, nil
	}
	quote := db.Dialect().Quote
	var highest sql.NullInt64
	err := db.SQL().QueryRowContext(ctx, "SELECT "+db.Words().Position(t, "MAX("+quote(t.By)+")")+" FROM "+quote(t.Name)).Scan(&highest)
	if err != nil {
		return nil, fmt.Errorf("highest %s of %s: %w", t.By, t.Name, db.Classify(err))
	}
	if highest.Valid && rolling.Instant(highest.Int64).After(now) {
		return nil, engine.Hinted(fmt.Errorf("%s holds rows up to %s, which is in the future", t.Name, t.Grid.Format(highest.Int64)), "a declaration of another table without rows")
	}
	return c, nil
}

func (c *fastClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *fastClock) read() time.Time {
	if c.stopped {
		return c.at
	}
	return c.at.Add(time.Duration(float64(time.Since(c.since)) * c.speed))
}

// pace sets how many times as fast as time the clock runs, and returns what it was.
func (c *fastClock) pace(speed float64) (was float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was = c.speed
	c.at, c.since, c.speed = c.read(), time.Now(), speed
	return was
}

func (c *fastClock) stop()   { c.set(true) }
func (c *fastClock) resume() { c.set(false) }

func (c *fastClock) set(stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.since, c.stopped = c.read(), time.Now(), stopped
}

func (c *fastClock) write(file string) error {
	next := file + ".next"
	err := os.WriteFile(next, []byte(c.now().UTC().Format(time.RFC3339Nano)+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		return fmt.Errorf("--clock: %w", err)
	}
	return nil
}

func (c *fastClock) writeOn(ctx context.Context, file string) (stop func()) {
	return background(ctx, func(ctx context.Context) {
		for engine.Sleep(ctx, 50*time.Millisecond) == nil {
			_ = c.write(file) // earlier writes succeeded, and the next one follows soon
		}
	})
}

type rowCount struct {
	table, dropped int64
	// moving: a period was being removed from the table during the count, so its rows
	// may have been counted twice or not at all.
	moving bool
}

func (c rowCount) all() int64 { return c.table + c.dropped }

func countRows(ctx context.Context, t *maintain.Table) (c rowCount, err error) {
	name := t.Declared.Name
	// leaving returns the number of changes in progress, and the number of rows that
	// the dropped periods had.
	leaving := func() (out [2]int64, err error) {
		changes, err := t.State.Changes(ctx, name)
		if err != nil {
			return out, err
		}
		periods, err := t.State.Periods(ctx, name)
		out[0] = int64(len(changes))
		for _, p := range periods {
			if p.State == state.Dropped {
				out[1] += p.Rows
			}
		}
		return out, err
	}
	before, err := leaving()
	if err != nil {
		return c, err
	}
	err = t.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+t.DB.Dialect().Quote(name)).Scan(&c.table)
	if err != nil {
		return c, fmt.Errorf("count the rows of %s: %w", name, t.DB.Classify(err))
	}
	after, err := leaving()
	c.dropped, c.moving = before[1], before[0] > 0 || after != before
	return c, err
}

type doing struct {
	Action, Detail string
	From, To       time.Time
	Failed         string
}

func (d doing) String() string { return strings.TrimSpace(d.Action + " " + d.Detail) }

// A maintenanceLog holds the maintenance actions of a run. Its methods may be called
// from several goroutines.
type maintenanceLog struct {
	mu   sync.Mutex
	list []doing
	seen map[doing]bool
}

// add records an action, and reports whether it is new.
func (l *maintenanceLog) add(action, detail string, end time.Time, took time.Duration, err error) bool {
	d := doing{Action: action, Detail: detail, From: end.Add(-took), To: end}
	if err != nil {
		d.Failed = err.Error()
	} else if took == 0 {
		return false // waiting, or already recorded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[doing]bool{}
	}
	if l.seen[d] {
		return false
	}
	l.seen[d] = true
	l.list = append(l.list, d)
	return true
}

// justBefore is how long after its end an action may still slow down inserts: pages
// are written, files removed.
const justBefore = time.Second

// retried is how long after a failure an action is assumed to be retried, unless it
// has succeeded since: repeated failures are recorded every 30 seconds.
const retried = time.Minute

// during returns the actions that overlap from and to, the shortest first because it
// is the most specific. If there are none, it returns the actions that have failed and
// are being retried, or those that had ended just before.
func (l *maintenanceLog) during(from, to time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []doing
	var last *doing // that had ended just before
	pending := map[string]doing{}
	for i, d := range l.list {
		ago := from.Sub(d.To)
		if d.From.Before(to) && d.To.After(from) {
			found = append(found, d)
		}
		if d.Failed != "" && ago >= 0 && ago < retried {
			pending[d.Action] = d
		} else if d.Failed == "" && ago > 0 {
			delete(pending, d.Action)
		}
		if ago >= 0 && ago < justBefore && (last == nil || d.To.After(last.To)) {
			last = &l.list[i]
		}
	}
	out := []string{}
	switch {
	case len(found) > 0:
		slices.SortStableFunc(found, func(a, b doing) int { return cmp.Compare(a.To.Sub(a.From), b.To.Sub(b.From)) })
		for _, d := range found {
			out = append(out, d.String())
		}
	case len(pending) > 0:
		for _, action := range slices.Sorted(maps.Keys(pending)) {
			out = append(out, "another try of "+pending[action].String())
		}
	case last != nil:
		out = append(out, fmt.Sprintf("%s after %s", figure.Duration(from.Sub(last.To).Seconds()), last))
	}
	return out
}

// A stall is a time during which inserts were slow, which ended at to.
type stall struct {
	result.KeepStall
	to time.Time
}

// stalls joins slow inserts that overlap, in order.
func (l *maintenanceLog) stalls(slow []workload.SlowInsert) []stall {
	slices.SortFunc(slow, func(a, b workload.SlowInsert) int { return a.Began.Compare(b.Began) })
	var out []stall
	for _, s := range slow {
		end := s.Began.Add(s.Took)
		if n := len(out); n > 0 && s.Began.Before(out[n-1].to) {
			last := &out[n-1]
			last.Inserts++
			last.Seconds = max(last.Seconds, s.Took.Seconds())
			if end.After(last.to) {
				last.to = end
			}
			continue
		}
		out = append(out, stall{result.KeepStall{At: s.Began.UTC(), Seconds: s.Took.Seconds(), Inserts: 1}, end})
	}
	for i := range out {
		out[i].During = l.during(out[i].At, out[i].to)
	}
	return out
}

// A diskLog holds how long the disk took to sync a separate file during a run. It is
// read once all entries have been added.
type diskLog struct {
	count   int64
	longest time.Duration
	slow    []probe.Sync // those that took at least slowSync
	err     error
}

// slowSync is the duration from which a sync may contribute to a slow insert.
const slowSync = 10 * time.Millisecond

func (l *diskLog) add(s probe.Sync) {
	l.count++
	l.longest = max(l.longest, s.Took)
	if s.Took >= slowSync {
		l.slow = append(l.slow, s)
	}
}

// during returns the longest slow sync that overlaps from and to; 0 means none.
func (l *diskLog) during(from, to time.Time) (longest time.Duration) {
	for _, s := range l.slow {
		if s.Began.Before(to) && s.Began.Add(s.Took).After(from) {
			longest = max(longest, s.Took)
		}
	}
	return longest
}
