// Package schedule decides when tables are maintained. It takes the lock of each table, looks at
// the table when a task becomes due or some time has passed, and runs the passes of the table's
// lanes. It is the loop of rowmill run (Scheduler), the single run of rowmill run --once (Once),
// and the request of rowmill now (DoNow).
package schedule

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Timing of a scheduler.
const (
	// takeover is how often a process tries to get the lock of a table that another process leads.
	// With many tables the interval is takeoverEach times their number.
	takeover     = time.Second
	takeoverEach = 10 * time.Millisecond
	// The pause after a failure doubles from maintain.FirstRetry to lastRetry.
	lastRetry = time.Minute
	// With many tables, each table is looked at after lookEach times the number of tables, but at the
	// latest after longestPoll. A look takes some milliseconds of CPU time.
	lookEach    = 200 * time.Millisecond
	longestPoll = time.Minute
	// If nobody has written to the SQLite file of a table since the last look, the next look is
	// skipped until a task is due or longestSkip has passed.
	longestSkip = 10 * time.Minute
	// The next task of each lane is recorded when it changes, and again after renote, because the
	// table may have been removed and applied again.
	renote = time.Minute
	// passTime is the time after which a pass ends early, so that other tables get the lane's slot.
	passTime = 5 * time.Second
)

// Each lane has a slot, which only one table of the database holds at a time. Looking at a table
// needs a slot, too. If a table's last look or last creation of periods has failed, the next
// attempt uses a second slot, e.g. "look again": while the attempt waits for a lock, it delays only
// other failed tables. In the other lanes, failed tables wait behind all others.
const (
	looking maintain.Lane = "look"
	failing maintain.Lane = " again"
)

// A Scheduler maintains the tables of one database, or of several SQLite files, for as long as it
// runs. It looks at a table whenever a task becomes due, and at intervals, and runs the lanes that
// have work. Lanes run in parallel, so that no other work delays the creation of periods. One
// process at a time maintains a table: the process that has the table's lock.
type Scheduler struct {
	// Poll is the interval of looks at a table while nothing is due. The looks find late rows. 0
	// means an interval of 10 s. With more than 50 tables the interval is longer, up to a minute
	// with 300.
	Poll time.Duration
	// LockPause is the pause after a lock was not granted; 0 is 10 s.
	LockPause time.Duration
	// Leads, unless nil, is called when this process begins or ceases to lead a table.
	Leads func(t *maintain.Table, leads bool)

	mu    sync.Mutex // guards the fields below, and the fields of jobs that change
	jobs  map[*maintain.Table]*job
	ready []*attempt // looks and passes that wait for a slot, the next first
	taken map[maintain.Lane]bool
	wake  chan struct{}
}

// A job is a table of a scheduler.
type job struct {
	*maintain.Table
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup // waits for the attempts that are running
	at     time.Time      // time of the next look; zero while a look waits or runs

	lease    engine.Lease    // nil while another process leads
	followed bool            // another process led the table at the last attempt to lead it
	looked   maintain.Looked // what the last look found
	stamp    string          // the database's stamp before the last look, "" if it has none
	lookedAt time.Time       // when the last look succeeded; zero if it failed

	noting sync.Mutex
	// noted are the jobs that were recorded at notedAt; nil if unknown. They are read with the
	// scheduler's lock held, and written with that lock and the lock noting held.
	noted   []state.Job
	notedAt time.Time
	lanes   map[maintain.Lane]*laneState
}

// A laneState is the state of a lane of a table, or of looks at it.
type laneState struct {
	busy   bool      // an attempt waits for a slot, or runs
	failed int       // failed attempts since the last success
	err    error     // the last attempt's error
	since  time.Time // the earliest time of the next attempt after a failure
	// asked are the requests that wait for the next pass; serving are served by the present pass.
	asked, serving []Work
}

// An attempt is a look at a table or a pass of a lane.
type attempt struct {
	*job
	lane, slot maintain.Lane
}

// Add adds a table of the database. Its Say, Count and Limits must be set.
func (s *Scheduler) Add(t *maintain.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.init()
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{Table: t, ctx: ctx, cancel: cancel, lanes: map[maintain.Lane]*laneState{looking: {}}}
	for _, lane := range maintain.Lanes {
		j.lanes[lane] = &laneState{}
	}
	s.jobs[t] = j
	s.lookAt(j, time.Now())
}

// Remove stops keeping a table, once its actions in progress reach a point where they can stop.
func (s *Scheduler) Remove(t *maintain.Table) {
	s.mu.Lock()
	j := s.jobs[t]
	delete(s.jobs, t)
	if j == nil {
		s.mu.Unlock()
		return
	}
	s.ready = slices.DeleteFunc(s.ready, func(a *attempt) bool {
		if a.job == j {
			j.ended.Done()
		}
		return a.job == j
	})
	j.cancel()
	s.mu.Unlock()
	j.ended.Wait()
	s.release(j)
}

func (s *Scheduler) init() {
	if s.jobs == nil {
		s.jobs, s.taken, s.wake = map[*maintain.Table]*job{}, map[maintain.Lane]bool{}, make(chan struct{}, 1)
	}
}

// lookAt brings the next look at a table forward to t. During a look it has no effect.
func (s *Scheduler) lookAt(j *job, t time.Time) {
	if !j.lanes[looking].busy && s.jobs[j.Table] == j && (j.at.IsZero() || t.Before(j.at)) {
		j.at = t
		s.wakeUp()
	}
}

// wakeUp makes Run start what can start.
func (s *Scheduler) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // Run is about to do so already
	}
}

// Run keeps the tables until ctx ends. It then waits until actions in progress reach a point where
// they can stop. Errors are reported as events, and maintenance continues.
func (s *Scheduler) Run(ctx context.Context) {
	s.mu.Lock()
	s.init()
	s.mu.Unlock()
	var beats sync.WaitGroup
	beats.Go(func() { s.beats(ctx) })
	for ctx.Err() == nil {
		pause := s.start()
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	s.mu.Lock()
	tables := make([]*maintain.Table, 0, len(s.jobs))
	for t, j := range s.jobs {
		tables = append(tables, t)
		j.cancel()
	}
	s.mu.Unlock()
	for _, t := range tables {
		s.Remove(t)
	}
	beats.Wait()
}

// start starts the looks and passes that can start, and returns the time until the next look.
func (s *Scheduler) start() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next := now.Add(time.Minute)
	var due []*job
	for _, j := range s.jobs {
		switch {
		case j.at.IsZero():
		case j.at.After(now):
			if j.at.Before(next) {
				next = j.at
			}
		default:
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(a, b *job) int { return a.at.Compare(b.at) })
	for _, j := range due {
		j.at = time.Time{}
		s.enqueue(j, looking)
	}
	for _, failed := range []bool{false, true} {
		s.ready = slices.DeleteFunc(s.ready, func(a *attempt) bool {
			if s.taken[a.slot] || (a.lanes[a.lane].failed > 0) != failed {
				return false
			}
			s.taken[a.slot] = true
			l := a.lanes[a.lane]
			l.serving, l.asked = l.asked, nil
			go s.attempt(a)
			return true
		})
	}
	return max(time.Until(next), 0)
}

func (s *Scheduler) enqueue(j *job, lane maintain.Lane) {
	l := j.lanes[lane]
	l.busy = true
	a := &attempt{job: j, lane: lane, slot: lane}
	if l.failed > 0 && (lane == looking || lane == maintain.Creating) {
		a.slot += failing
	}
	j.ended.Add(1)
	s.ready = append(s.ready, a)
}

// attempt looks at a table or makes a pass of a lane.
func (s *Scheduler) attempt(a *attempt) {
	defer a.ended.Done()
	var pause time.Duration
	var err error
	var work []maintain.Lane
	if a.lane == looking {
		work, pause, err = s.look(a.job)
		a.sayLook(a.lanes[looking].err, err) // only looks set this err, so no lock is needed
	} else {
		pause, err = s.pass(a)
	}
	for _, w := range s.finished(a, work, pause, err) {
		a.answer(w, err)
	}
	s.note(a.job)
}

// finished records that an attempt has ended. After a look, it enqueues the lanes that the look
// found to have work. It returns the requests that are done.
func (s *Scheduler) finished(a *attempt, work []maintain.Lane, pause time.Duration, err error) (done []Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[a.slot] = false
	now := time.Now()
	l := a.lanes[a.lane]
	l.busy = false
	if l.err = err; err != nil {
		l.failed++
	} else {
		l.failed = 0
	}
	l.since = now.Add(pause)
	if a.lease == nil { // requests are addressed to the leader
		for _, l := range a.lanes {
			l.asked, l.serving = nil, nil
		}
	}
	if a.lane != looking && pause == 0 && err == nil { // the pass has ended early, so its requests aren't done
		l.asked, l.serving = append(l.serving, l.asked...), nil
	}
	done, l.serving = l.serving, nil
	if len(l.asked) > 0 {
		pause = 0
	}
	for _, lane := range maintain.Lanes {
		switch l := a.lanes[lane]; {
		case a.lane != looking || l.busy || s.jobs[a.Table] != a.job:
		case !slices.Contains(work, lane):
			if err == nil {
				l.failed, l.err = 0, nil // the work that has failed is no longer due
			}
			done, l.asked = append(done, l.asked...), nil
		case l.failed > 0 && l.since.After(now) && len(l.asked) == 0:
			pause = min(pause, l.since.Sub(now))
		default:
			s.enqueue(a.job, lane)
		}
	}
	s.lookAt(a.job, now.Add(pause))
	s.wakeUp()
	return done
}

// sayLook reports a failed look once, unless the log has it, and the next look that succeeds.
func (j *job) sayLook(was, err error) {
	var not *maintain.UnfollowedError
	if j.ctx.Err() != nil || errors.As(err, &not) || errors.As(was, &not) {
		return
	}
	switch {
	case err == nil && was != nil:
		j.Report(maintain.Event{At: time.Now(), Action: string(looking), Detail: "succeeds again"})
	case err != nil && (was == nil || was.Error() != err.Error()):
		j.Report(maintain.Event{At: time.Now(), Action: string(looking), Err: err, Waiting: true})
	}
}

func (s *Scheduler) poll() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(cmp.Or(s.Poll, 10*time.Second), min(time.Duration(len(s.jobs))*lookEach, longestPoll))
}

// retry returns the pause after a failure of a lane.
func (s *Scheduler) retry(j *job, lane maintain.Lane) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return engine.Backoff(maintain.FirstRetry, lastRetry, j.lanes[lane].failed)
}

// look looks at a table, if this process leads it. It returns the lanes with work, and the pause
// until the next look.
func (s *Scheduler) look(j *job) (work []maintain.Lane, pause time.Duration, err error) {
	had := s.leaseOf(j)
	lease, pause, err := s.lead(j)
	if lease == nil {
		return nil, pause, err
	}
	if lease != had {
		s.begins(j)
	}
	pause = s.poll()
	stamp := ""
	if f, ok := j.DB.(engine.LocalFile); ok {
		stamp = f.Stamp()
	}
	if lease == had && s.unchanged(j, stamp) {
		return nil, s.untilDue(j, pause, j.looked.Next, j.looked.More), nil
	}
	var l maintain.Looked
	err = engine.WhileHeld(j.ctx, lease, context.Canceled, func(ctx context.Context) (err error) {
		l, err = j.Table.Look(ctx)
		return err
	})
	s.mu.Lock()
	j.looked, j.stamp, j.lookedAt = l, stamp, time.Time{}
	if err != nil || time.Since(j.notedAt) > renote {
		j.noted = nil
	}
	if err == nil {
		j.lookedAt = time.Now().Round(0) // the wall clock, which advances while the machine sleeps
	}
	s.mu.Unlock()
	for _, p := range l.Pauses {
		pause = min(pause, max(time.Until(p.Until), 0))
	}
	if err != nil {
		return l.Work, min(s.retry(j, looking), pause), err
	}
	return l.Work, s.untilDue(j, pause, l.Next, l.More), nil
}

// note records what each lane does next and why it fails, if that has changed.
func (s *Scheduler) note(j *job) {
	j.noting.Lock()
	defer j.noting.Unlock()
	s.mu.Lock()
	jobs, led := s.jobsOf(j), j.lease != nil
	same := slices.Equal(jobs, j.noted)
	s.mu.Unlock()
	if same || !led {
		return
	}
	if err := j.State.Schedule(j.ctx, j.Table.Table.Name, jobs); err != nil {
		return // the next look fails, too, and says why
	}
	s.mu.Lock()
	j.noted, j.notedAt = jobs, time.Now()
	s.mu.Unlock()
}

// jobsOf returns the next task and the last problem of each lane. If the last look has failed, its
// error is the problem of all lanes.
func (s *Scheduler) jobsOf(j *job) []state.Job {
	jobs := slices.Clone(j.looked.Jobs)
	for i := len(jobs); i < len(maintain.Lanes); i++ {
		jobs = append(jobs, state.Job{Policy: string(maintain.Lanes[i])})
	}
	for i := range jobs {
		l := j.lanes[maintain.Lane(jobs[i].Policy)]
		jobs[i].Failures = l.failed
		err := j.lanes[looking].err
		if err == nil {
			err = l.err
		}
		if err != nil {
			jobs[i].Problem = err.Error()
		}
	}
	return jobs
}

// unchanged reports whether a look would find the same as the last one: nothing was due or has
// become due, and nobody has changed the database since then.
func (s *Scheduler) unchanged(j *job, stamp string) bool {
	now, rolls := int64(0), j.LastFollowed().Table.Grid.Axis() == rolling.Time
	if rolls {
		var err error
		if now, err = j.LastFollowed().Now(j.ctx); err != nil {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &j.looked
	if stamp == "" || stamp != j.stamp || !l.Quiet || time.Since(j.lookedAt) > longestSkip || rolls && (now < l.Now || l.More && now >= l.Next) {
		return false
	}
	if !slices.Equal(s.jobsOf(j), j.noted) || slices.ContainsFunc(j.noted, func(n state.Job) bool { return n.Problem != "" }) {
		return false
	}
	if slices.ContainsFunc(l.Pauses, func(p state.Pause) bool { return !p.Until.After(time.Now()) }) {
		return false
	}
	if rolls {
		l.Now, l.Covered, l.Wanted = now, max(l.Covered, now), j.LastFollowed().Wanted(maintain.View{Now: now})
	}
	return true
}

// untilDue shortens a pause if a task is due before its end.
func (s *Scheduler) untilDue(j *job, pause time.Duration, next int64, more bool) time.Duration {
	t := j.LastFollowed()
	if !more || t.Table.Grid.Axis() != rolling.Time {
		return pause
	}
	now, err := t.Now(j.ctx)
	if err != nil {
		return pause
	}
	return min(pause, max(time.Duration(next-now)*time.Microsecond, 10*time.Millisecond))
}

// lead returns the table's lock, and takes the lock if this process doesn't have it. If another
// process has it, lead returns nil and the pause until the next attempt.
func (s *Scheduler) lead(j *job) (lease engine.Lease, pause time.Duration, err error) {
	if lease = s.leaseOf(j); lease != nil {
		select {
		case <-lease.Lost():
			s.release(j)
		default:
			return lease, 0, nil
		}
	}
	lease, err = j.DB.Lead(j.ctx, j.Table.LeaderLock())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, engine.ErrLockTimeout):
		j.followed = true
		return nil, engine.Jitter(max(takeover, time.Duration(len(s.jobs))*takeoverEach)), nil
	case err != nil:
		return nil, engine.Jitter(takeover), err
	}
	j.lease = lease
	if j.followed { // the other process has ended: its other tables need a leader, too
		j.followed = false
		for _, other := range s.jobs {
			if other.followed {
				s.lookAt(other, time.Now())
			}
		}
	}
	return lease, 0, nil
}

// begins announces that this process leads a table.
func (s *Scheduler) begins(j *job) {
	if s.Leads != nil {
		s.Leads(j.Table, true)
	}
	s.mu.Lock()
	j.noted = nil
	s.mu.Unlock()
	if _, ok := j.DB.(engine.LocalFile); ok {
		return // the file's lock names the leader, without a heartbeat
	}
	if err := j.State.Beat(j.ctx, j.Table.Table.Name); err != nil && j.ctx.Err() == nil {
		j.Report(maintain.Event{At: time.Now(), Action: "lead", Err: err})
	}
}

// release releases a table's lock, if this process has it.
func (s *Scheduler) release(j *job) {
	s.mu.Lock()
	lease := j.lease
	j.lease = nil
	s.mu.Unlock()
	if lease == nil {
		return
	}
	err := lease.Release()
	if s.Leads != nil {
		s.Leads(j.Table, false)
	}
	if err != nil {
		j.Report(maintain.Event{At: time.Now(), Action: "lead", Err: err})
	}
}

// pass makes a pass of a lane, and returns the pause until the next look.
func (s *Scheduler) pass(a *attempt) (time.Duration, error) {
	lease := s.leaseOf(a.job)
	if lease == nil {
		return takeover, nil
	}
	var p maintain.Passed
	err := engine.WhileHeld(a.ctx, lease, context.Canceled, func(ctx context.Context) (err error) {
		p, err = a.Table.Pass(ctx, a.lane, nil, time.Now().Add(passTime))
		return err
	})
	if p.Jobs != nil {
		s.mu.Lock()
		a.looked.Jobs = p.Jobs
		s.mu.Unlock()
	}
	switch {
	case errors.Is(err, engine.ErrLockTimeout):
		return s.lockPause(a.job, a.lane), err
	case err != nil:
		return s.retry(a.job, a.lane), err
	case p.Early:
		return 0, nil
	}
	return s.untilDue(a.job, s.poll(), p.Next, p.More), nil
}

func (s *Scheduler) leaseOf(j *job) engine.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return j.lease
}

// lockPause returns the pause after a lock was not granted, a shorter one if periods run out soon.
func (s *Scheduler) lockPause(j *job, lane maintain.Lane) time.Duration {
	pause := cmp.Or(s.LockPause, maintain.LockPause)
	if lane != maintain.Creating {
		return engine.Jitter(pause)
	}
	t := j.LastFollowed()
	v, err := t.View(j.ctx)
	if err != nil || len(v.Parts) == 0 {
		return engine.Jitter(pause)
	}
	if left, wanted := v.Parts[len(v.Parts)-1].To-v.Now, t.Wanted(v)-v.Now; left < wanted/2 {
		pause /= 5
	}
	return engine.Jitter(pause)
}

// beats runs at intervals of maintain.Beat until ctx ends. It writes a heartbeat for the tables
// that this process leads, one statement for each database, and takes requests. If a table's lock
// is lost, the next look at the table becomes due at once.
func (s *Scheduler) beats(ctx context.Context) {
	stamps := map[engine.Keeper]string{} // the stamps of SQLite files at the last search for requests
	for pause := maintain.Beat; engine.Sleep(ctx, pause) == nil; {
		led := map[engine.Keeper][]*job{}
		s.mu.Lock()
		for _, j := range s.jobs {
			if j.lease == nil {
				continue
			}
			select {
			case <-j.lease.Lost():
				s.lookAt(j, time.Now())
			default:
				led[j.DB] = append(led[j.DB], j)
			}
		}
		s.mu.Unlock()
		maps.DeleteFunc(stamps, func(db engine.Keeper, _ string) bool { return led[db] == nil })
		pause = maintain.Beat
		for db, led := range led {
			err := s.beat(ctx, db, led, stamps)
			if err != nil && ctx.Err() == nil {
				led[0].Report(maintain.Event{At: time.Now(), Action: "lead", Err: err})
				pause = lastRetry
			}
		}
	}
}

// beat writes the heartbeat of a database's tables, and takes requests. A SQLite file needs no
// heartbeat, because its lock names the leader, and has no new requests while its stamp is the
// same.
func (s *Scheduler) beat(ctx context.Context, db engine.Keeper, led []*job, stamps map[engine.Keeper]string) error {
	if f, ok := db.(engine.LocalFile); ok {
		stamp := f.Stamp()
		if stamp != "" && stamp == stamps[db] {
			return nil
		}
		stamps[db] = stamp
		return s.takeRequests(ctx, led)
	}
	n, err := led[0].State.Beats(ctx)
	for i := 0; i < len(led) && err == nil && n < int64(len(led)); i++ { // some heartbeats were removed
		err = led[i].State.Beat(ctx, led[i].Table.Table.Name)
	}
	return errors.Join(err, s.takeRequests(ctx, led))
}

// A TableState is the state of a table as of its last look and passes.
type TableState struct {
	Leads bool // this process keeps it
	// Err is why the last look, or the last pass of a lane, failed.
	Err error
	// Headroom is how long from now periods exist for the inserts, and Wanted is how long they should
	// exist. Both are nil before the first look, and for a sequence.
	Headroom, Wanted *time.Duration
	// Failures are the failed passes since the last success, and Paused the ends of pauses, by policy.
	Failures map[maintain.Lane]int
	Paused   map[string]time.Time
}

// State returns what is known of a table.
func (s *Scheduler) State(t *maintain.Table) (out TableState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[t]
	if j == nil {
		return out
	}
	out = TableState{Leads: j.lease != nil, Err: j.lanes[looking].err, Failures: map[maintain.Lane]int{}, Paused: map[string]time.Time{}}
	for _, lane := range maintain.Lanes {
		l := j.lanes[lane]
		if out.Failures[lane] = l.failed; out.Err == nil {
			out.Err = l.err
		}
	}
	for _, p := range j.looked.Pauses {
		if p.Until.After(time.Now()) {
			out.Paused[p.Policy] = p.Until
		}
	}
	if j.looked.Now != 0 && t.LastFollowed().Table.Grid.Axis() == rolling.Time {
		left, wanted := time.Duration(j.looked.Covered-j.looked.Now)*time.Microsecond, time.Duration(j.looked.Wanted-j.looked.Now)*time.Microsecond
		out.Headroom, out.Wanted = &left, &wanted
	}
	return out
}
