package probe

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// Heartbeat is the table, in the target's database, by which replication delay is measured. A run
// has one row in it. The table is removed with its last row.
const Heartbeat = "rowmill_heartbeat"

const (
	// beatEvery is the time between two writes of the heartbeat.
	beatEvery = 100 * time.Millisecond
	// pollEvery is the time between two queries of a replica that has not the latest beat: the
	// accuracy of a delay.
	pollEvery = 2 * time.Millisecond
	// replicaLimit is the timeout of a statement of the heartbeat.
	replicaLimit = 10 * time.Second
	// standstill is how long CatchUp waits for a replica that makes no progress.
	standstill = 30 * time.Second
	// askAfter is how long it waits before it asks whether that replica's replication has stopped.
	askAfter = 3 * time.Second
)

// A Replica is a server that repeats the changes of the source. The caller closes DB after Close.
type Replica struct {
	Name string // for messages: "replica 1"
	DB   engine.Keeper
}

var delayCounters = []result.Counter{
	{Name: result.FigureDelay, Group: groupServer, Unit: "seconds", Help: "time from an acknowledged commit on the source until the replica shows it, mean of the interval"},
	{Name: result.FigureDelayWorst, Group: groupServer, Unit: "seconds", Help: "the longest such time, or for how long the replica lacks a commit"},
}

// delays measures how far replicas are behind their source. A row on the source is updated with the
// time since the start by the monotonic clock of this process, and read on each replica; no clock of
// a server is involved. A beat's delay is the time from the acknowledgement of its commit to the
// first query on the replica that shows it, or 0 if that was earlier.
type delays struct {
	source engine.Keeper
	run    int64
	began  time.Time
	follow []*follower

	mu      sync.Mutex
	beats   []beat // acknowledged, and not yet seen by all followers
	failed  gap    // of the writes
	left    error  // why the heartbeat remains in the database
	stop    context.CancelFunc
	running sync.WaitGroup
}

// A beat is a write of the heartbeat. Times are since the start.
type beat struct{ tick, acked time.Duration }

// A follower is a replica that is being watched. Its fields are guarded by delays.mu.
type follower struct {
	Replica
	poke chan struct{} // has an element when there is a new beat
	seen time.Duration // the latest tick that it showed

	arrived    int
	sum, worst time.Duration // of those that arrived since the last sample
	failed     gap
	last       error // of the latest query
}

// newDelays creates the table and its row, and starts to measure.
func newDelays(ctx context.Context, source engine.Keeper, replicas []Replica) (*delays, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails
	d := &delays{source: source, run: int64(binary.BigEndian.Uint64(id[:]) >> 1), began: time.Now(), failed: gap{what: "the heartbeat of the source"}}
	if err := d.create(ctx); err != nil {
		return nil, fmt.Errorf("measure replication delay: %w", err)
	}
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, r := range replicas {
		f := &follower{Replica: r, poke: make(chan struct{}, 1), failed: gap{what: "the heartbeat of " + r.Name}}
		d.follow = append(d.follow, f)
		d.running.Go(func() { d.watch(ctx, f) })
	}
	d.running.Go(func() { d.write(ctx) })
	return d, nil
}

// exec executes a statement on the source, in a transaction of its own.
func (d *delays) exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	res, err := d.source.SQL().ExecContext(ctx, d.source.Bind(query), args...)
	if err != nil {
		return 0, d.source.Classify(err)
	}
	return res.RowsAffected()
}

func (d *delays) create(ctx context.Context) error {
	_, err := d.exec(ctx, "CREATE TABLE IF NOT EXISTS "+Heartbeat+" (run BIGINT NOT NULL PRIMARY KEY, tick BIGINT NOT NULL)")
	if err == nil {
		_, err = d.exec(ctx, "INSERT INTO "+Heartbeat+" VALUES (?, 0)", d.run)
	}
	return err
}

// beat writes a tick.
func (d *delays) beat(ctx context.Context) error {
	tick := time.Since(d.began)
	n, err := d.exec(ctx, "UPDATE "+Heartbeat+" SET tick = ? WHERE run = ?", int64(tick), d.run)
	if err == nil && n == 0 || errors.Is(err, engine.ErrNoTable) { // another run has removed the table, or a crash the row
		err = d.create(ctx)
		if err != nil {
			return err
		}
		return errors.New("the row was lost, and is written again")
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beats = append(d.beats, beat{tick, time.Since(d.began)})
	for _, f := range d.follow {
		select {
		case f.poke <- struct{}{}:
		default:
		}
	}
	return nil
}

func (d *delays) write(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		err := d.beat(ctx)
		if ctx.Err() == nil {
			d.mu.Lock()
			d.failed.note(time.Since(d.began), err)
			d.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read returns the tick that a replica shows, and about when it did.
func (d *delays) read(ctx context.Context, f *follower) (tick, at time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	begin := time.Since(d.began)
	var n int64
	err = f.DB.SQL().QueryRowContext(ctx, f.DB.Bind("SELECT tick FROM "+Heartbeat+" WHERE run = ?"), d.run).Scan(&n)
	if err != nil {
		err = f.DB.Classify(err)
	}
	if errors.Is(err, sql.ErrNoRows) || errors.Is(err, engine.ErrNoTable) {
		err = nil // it has not arrived
	}
	return time.Duration(n), (begin + time.Since(d.began)) / 2, err
}

// watch queries a replica while it lacks a beat.
func (d *delays) watch(ctx context.Context, f *follower) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.poke:
		}
		for d.behind(f) && ctx.Err() == nil {
			tick, at, err := d.read(ctx, f)
			wait := pollEvery
			if err != nil {
				wait = beatEvery
			}
			if ctx.Err() == nil {
				d.note(f, tick, at, err)
			}
			if d.behind(f) && engine.Sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

// missing returns the beats that a replica has not shown. The caller holds mu.
func (d *delays) missing(f *follower) []beat {
	for i, b := range d.beats {
		if b.tick > f.seen {
			return d.beats[i:]
		}
	}
	return nil
}

func (d *delays) behind(f *follower) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.missing(f)) > 0
}

// note records an answer of a replica.
func (d *delays) note(f *follower, tick, at time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.failed.note(at, err)
	f.last = err
	if err != nil {
		return
	}
	for _, b := range d.missing(f) {
		if b.tick > tick {
			break
		}
		late := max(at-b.acked, 0)
		f.arrived++
		f.sum += late
		f.worst = max(f.worst, late)
	}
	f.seen = max(f.seen, tick)
	least := f.seen
	for _, other := range d.follow {
		least = min(least, other.seen)
	}
	for len(d.beats) > 0 && d.beats[0].tick <= least {
		d.beats = d.beats[1:]
	}
}

// sampleOf returns the function that samples a replica. While it lacks a commit, its delay is at
// least the time since the oldest one.
func (d *delays) sampleOf(f *follower) func(now time.Time, out figures) error {
	return func(now time.Time, out figures) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if missing := d.missing(f); len(missing) > 0 {
			lacks := now.Sub(d.began) - missing[0].acked
			f.worst = max(f.worst, lacks)
			if f.arrived == 0 && lacks > beatEvery {
				f.arrived, f.sum = 1, lacks
			}
		}
		if f.arrived > 0 {
			put(out, result.FigureDelay, (f.sum / time.Duration(f.arrived)).Seconds())
			put(out, result.FigureDelayWorst, f.worst.Seconds())
		}
		f.arrived, f.sum, f.worst = 0, 0, 0
		return nil
	}
}

// catchUp writes a beat and waits until each replica shows it. It returns how long the slowest one
// took, and an error for one that makes no progress.
func (d *delays) catchUp(ctx context.Context) (time.Duration, error) {
	if err := d.beat(ctx); err != nil {
		return 0, fmt.Errorf("write the last heartbeat for the replicas: %w", err)
	}
	d.mu.Lock()
	last := d.beats[len(d.beats)-1]
	d.mu.Unlock()
	for _, f := range d.follow {
		moved, at, asked := time.Now(), time.Duration(-1), time.Now()
		for {
			d.mu.Lock()
			seen, failed := f.seen, f.last
			d.mu.Unlock()
			if seen >= last.tick {
				break
			}
			if seen != at {
				moved, at = time.Now(), seen
			}
			if still := time.Since(moved); still > askAfter && time.Since(asked) > askAfter || still > standstill {
				why := f.stopped(ctx)
				if asked = time.Now(); why != "" || still > standstill {
					return 0, standing(f.Name, last.tick-seen, still, why, failed)
				}
			}
			if err := engine.Sleep(ctx, pollEvery); err != nil {
				return 0, fmt.Errorf("wait for %s: %w", f.Name, err)
			}
		}
	}
	return time.Since(d.began) - last.acked, nil
}

// stopped returns why a replica repeats no changes; "" if it does, or doesn't tell.
func (f *follower) stopped(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	db, ok := f.DB.(engine.Follower)
	if !ok {
		return ""
	}
	why, err := db.Standing(ctx)
	if err != nil { // without the privilege it doesn't tell
		return ""
	}
	return why
}

// standing is the error of a replica that has stopped.
func standing(name string, behind, still time.Duration, why string, cause error) error {
	switch {
	case cause != nil:
		why = "it doesn't answer: " + cause.Error()
	case why == "":
		why = "it answers, and repeats no changes: is its replication stopped?"
	}
	return fmt.Errorf("%s is %s behind the source, and has made no progress for %s; %s", name, figure.Seconds(behind.Seconds()), figure.Seconds(still.Seconds()), why)
}

// close stops measuring, and removes the run's row, with the table if it was the last.
func (d *delays) close() {
	d.stop()
	d.running.Wait()
	d.left = d.remove(context.Background())
}

func (d *delays) remove(ctx context.Context) error {
	if _, err := d.exec(ctx, "DELETE FROM "+Heartbeat+" WHERE run = ?", d.run); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	var rows int64
	if err := d.source.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+Heartbeat).Scan(&rows); err != nil || rows > 0 {
		return d.source.Classify(err)
	}
	_, err := d.exec(ctx, "DROP TABLE "+Heartbeat)
	return err
}

// warnings returns the failures so far.
func (d *delays) warnings() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	add := func(g *gap) {
		if g.count > 0 {
			out = append(out, fmt.Sprintf("%s failed %s, first at %.1f s: %v", g.what, figure.Plural(g.count, "time", "times"), g.first.Seconds(), g.cause))
		}
	}
	add(&d.failed)
	for _, f := range d.follow {
		add(&f.failed)
	}
	if d.left != nil {
		out = append(out, fmt.Sprintf("the table %s is left in the database: %v", Heartbeat, d.left))
	}
	return out
}
