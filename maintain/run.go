package maintain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Timing of the daemon. Each has a reason to be as it is.
const (
	// takeover is how often one that doesn't lead tries to: a leader that
	// dies is followed within about as long.
	takeover = time.Second
	// beat is how often a leader notes that it is there; status calls one gone
	// after three times that.
	beat = 5 * time.Second
	// firstRetry and lastRetry bound the pause after a failure, which doubles.
	// Inserts that queued behind a lock that wasn't to be had must pass first.
	firstRetry = 500 * time.Millisecond
	lastRetry  = time.Minute
	// lockPause is the pause after a lock that was not to be had: each try costs
	// inserts up to a second. Where periods are needed soon it is a fifth.
	lockPause = 10 * time.Second
)

// A Daemon keeps a table for as long as it runs.
type Daemon struct {
	Table *Table
	// Poll is how often it looks without being due to do anything; 0 is 10 s.
	// Rows that came late are found that soon.
	Poll time.Duration
	// LockPause is the pause after a lock that was not to be had; 0 is 10 s.
	LockPause time.Duration
	// Leads, unless nil, is told where this process begins or ends to lead.
	Leads func(lane Lane, leads bool)
}

// Run keeps the table until ctx ends, all lanes at the same time, each under a
// lock of its own, and waits for what is being done to reach a point where it
// can be left. Errors are said, and end nothing.
func (d *Daemon) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, lane := range Lanes {
		all.Go(func() { d.lead(ctx, lane) })
	}
	all.Wait()
}

// pass is one pass of a lane, which ends when the lock is lost.
func (d *Daemon) pass(ctx context.Context, lease engine.Lease, lane Lane) (int64, bool, error) {
	var next int64
	var more bool
	err := whileHeld(ctx, lease, func(ctx context.Context) (err error) {
		next, more, err = d.Table.Pass(ctx, lane)
		return err
	})
	return next, more, err
}

// lead takes a lane's lock, works, and tries again when it is lost.
func (d *Daemon) lead(ctx context.Context, lane Lane) {
	said := false
	for ctx.Err() == nil {
		if !d.wanted(ctx, lane) {
			_ = engine.Sleep(ctx, d.poll()) // the loop sees that ctx has ended
			continue
		}
		lease, err := d.Table.DB.Lead(ctx, d.Table.Table.Name+"/"+string(lane))
		if err != nil {
			if !errors.Is(err, engine.ErrLockTimeout) && ctx.Err() == nil && !said {
				d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane), Err: err, Waiting: true})
				said = true
			}
			_ = engine.Sleep(ctx, engine.Jitter(takeover))
			continue
		}
		said = false
		if d.Leads != nil {
			d.Leads(lane, true)
		}
		d.work(ctx, lease, lane)
		if d.Leads != nil {
			d.Leads(lane, false)
		}
		if err := lease.Release(); err != nil {
			d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane), Err: err})
		}
	}
}

// poll is how often it looks without being due to do anything.
func (d *Daemon) poll() time.Duration {
	if d.Poll > 0 {
		return d.Poll
	}
	return 10 * time.Second
}

// wanted tells whether a lane may have work. Roll-ups come and go with the
// declaration; what can't be read may have them.
func (d *Daemon) wanted(ctx context.Context, lane Lane) bool {
	if lane != Summing {
		return true
	}
	t, err := d.Table.Follow(ctx)
	if err != nil {
		t = d.Table.lastFollowed()
	}
	return t.Rollups != nil
}

// work makes one pass after the other while the lock is held.
func (d *Daemon) work(ctx context.Context, lease engine.Lease, lane Lane) {
	var beats sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer beats.Wait()
	defer cancel()
	beats.Go(func() {
		for ctx.Err() == nil {
			if err := d.Table.State.Beat(ctx, d.Table.Table.Name, string(lane)); err != nil && ctx.Err() == nil {
				d.Table.say(Event{At: time.Now(), Action: "lead", Detail: string(lane), Err: err})
			}
			select {
			case <-lease.Lost():
				cancel()
			case <-ctx.Done():
			case <-time.After(beat):
			}
		}
	})
	retry := firstRetry
	for ctx.Err() == nil && d.wanted(ctx, lane) {
		next, more, err := d.pass(ctx, lease, lane)
		pause := d.poll()
		if err != nil {
			pause = engine.Jitter(retry)
			retry = min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		t := d.Table.lastFollowed()
		if now, err := t.Now(ctx); err == nil && more && t.Table.Grid.Axis() == rolling.Time {
			pause = min(pause, max(time.Duration(next-now)*time.Microsecond, 10*time.Millisecond))
		}
		if errors.Is(err, engine.ErrLockTimeout) {
			pause = d.lockPause(ctx, lane)
		}
		_ = engine.Sleep(ctx, pause) // the loop sees that ctx has ended
	}
}

// lockPause is how long to wait for a lock that wasn't to be had. New periods
// are asked for more often when more than half of the headroom is gone.
func (d *Daemon) lockPause(ctx context.Context, lane Lane) time.Duration {
	pause := d.LockPause
	if pause <= 0 {
		pause = lockPause
	}
	if lane != Creating {
		return engine.Jitter(pause)
	}
	t := d.Table.lastFollowed()
	v, err := t.View(ctx)
	if err != nil || len(v.Parts) == 0 {
		return engine.Jitter(pause)
	}
	if left, wanted := v.Parts[len(v.Parts)-1].To-v.Now, t.wanted(v)-v.Now; left < wanted/2 {
		pause /= 5
	}
	return engine.Jitter(pause)
}
