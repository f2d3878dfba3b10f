package probe

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// Heartbeat is the table, in the source's database, by which replication delay is measured. Each
// Delays has one row in the table. Whoever removes the last row also removes the table.
const Heartbeat = "rowmill_heartbeat"

// A Pace is how often the heartbeat is written and read.
type Pace struct {
	// Beat is the time between two writes.
	Beat time.Duration
	// Poll is the time between two queries of a replica that lacks the latest beat. A delay is
	// measured with this accuracy.
	Poll time.Duration
}

var (
	// Fine is for a benchmark, which lasts minutes.
	Fine = Pace{Beat: 100 * time.Millisecond, Poll: 2 * time.Millisecond}
	// Coarse is for a process that measures for months: it causes little load, even if a replica
	// has stopped.
	Coarse = Pace{Beat: time.Second, Poll: 100 * time.Millisecond}
)

const (
	// mostBeats limits the beats that are remembered for a replica that has stopped, to 160 kB.
	mostBeats = 10_000
	// replicaLimit is the timeout of a statement of the heartbeat.
	replicaLimit = 10 * time.Second
	// standstill is how long CatchUp waits for a replica that makes no progress.
	standstill = 30 * time.Second
	// askAfter is the time without progress after which a replica is asked whether its replication has
	// stopped, and the time between two such questions.
	askAfter = 3 * time.Second
)

// A Replica is a server that repeats the changes of the source.
type Replica struct {
	Name string // for messages: "replica 1"
	// Open returns the replica's database, the same one each time. The caller closes the database
	// after Delays.Close.
	Open func(context.Context) (engine.Keeper, error)
}

var delayCounters = []result.Counter{
	{Name: result.FigureDelay, Group: groupServer, Unit: "seconds", Help: "time from an acknowledged commit on the source until the replica shows it, mean of the interval"},
	{Name: result.FigureDelayWorst, Group: groupServer, Unit: "seconds", Help: "the longest such time, or for how long the replica lacks a commit"},
}

// Delays measures how far replicas are behind their source. Time and again, it writes a beat to a
// row on the source, and reads the row on each replica. A beat is the time since NewDelays, by the
// clock of this process. A beat's delay is the time from the acknowledgement of its commit to the
// first query on the replica that returns the beat.
type Delays struct {
	source engine.Keeper
	pace   Pace
	run    int64
	began  time.Time
	follow []*follower

	mu      sync.Mutex
	beats   []beat // acknowledged, and not yet seen by all followers
	failed  gap    // counts the writes that failed
	unsaid  error  // of the latest write; nil if it succeeded
	left    error  // why the heartbeat remains in the database
	stop    context.CancelFunc
	running sync.WaitGroup
}

// A beat is a write of the heartbeat: the tick written, and when it was acknowledged.
type beat struct{ tick, acked time.Duration }

// A follower is a replica that is being watched. Its fields are guarded by delays.mu.
type follower struct {
	Replica
	poke chan struct{} // has an element when there is a new beat
	seen time.Duration // the latest tick that it showed

	arrived    int           // beats since the last sample
	sum, worst time.Duration // of their delays
	late       time.Duration // delay of the latest beat that arrived
	acked      time.Duration // when that beat was acknowledged
	failed     gap
	last       error // of the latest query
	asked      time.Duration
	halted     error // why its replication has stopped, when it was asked
}

// NewDelays creates the table and its row, and measures until Close.
func NewDelays(ctx context.Context, source engine.Keeper, replicas []Replica, pace Pace) (*Delays, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails
	d := &Delays{source: source, pace: pace, run: int64(binary.BigEndian.Uint64(id[:]) >> 1), began: time.Now(), failed: gap{what: "the heartbeat of the source"}}
	err := d.create(ctx)
	if err != nil && engine.Sleep(ctx, pace.Beat) == nil {
		err = d.create(ctx) // another process may have created or removed the table at the same moment
	}
	if err != nil {
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
func (d *Delays) exec(ctx context.Context, query string, args ...any) (affected int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	res, err := d.source.SQL().ExecContext(ctx, d.source.Bind(query), args...)
	if err != nil {
		return 0, d.source.Classify(err)
	}
	return res.RowsAffected()
}

func (d *Delays) create(ctx context.Context) error {
	_, err := d.exec(ctx, "CREATE TABLE IF NOT EXISTS "+Heartbeat+" (run BIGINT NOT NULL PRIMARY KEY, tick BIGINT NOT NULL)")
	if err == nil {
		_, err = d.exec(ctx, "INSERT INTO "+Heartbeat+" VALUES (?, 0)", d.run)
	}
	return err
}

// beat writes a tick.
func (d *Delays) beat(ctx context.Context) error {
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
	if len(d.beats) == mostBeats { // delete the second: the oldest tells how far behind a replica is
		d.beats = slices.Delete(d.beats, 1, 2)
	}
	d.beats = append(d.beats, beat{tick, time.Since(d.began)})
	for _, f := range d.follow {
		select {
		case f.poke <- struct{}{}:
		default:
		}
	}
	return nil
}

func (d *Delays) write(ctx context.Context) {
	tick := time.NewTicker(d.pace.Beat)
	defer tick.Stop()
	for {
		err := d.beat(ctx)
		if ctx.Err() == nil {
			d.mu.Lock()
			d.failed.note(time.Since(d.began), err)
			d.unsaid = err
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
func (d *Delays) read(ctx context.Context, f *follower) (tick, at time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	db, err := f.Open(ctx)
	if err != nil {
		return 0, time.Since(d.began), err
	}
	begin := time.Since(d.began)
	var n int64
	err = db.SQL().QueryRowContext(ctx, db.Bind("SELECT tick FROM "+Heartbeat+" WHERE run = ?"), d.run).Scan(&n)
	if err != nil {
		err = db.Classify(err)
	}
	if errors.Is(err, sql.ErrNoRows) || errors.Is(err, engine.ErrNoTable) {
		err = nil // it has not arrived
	}
	return time.Duration(n), (begin + time.Since(d.began)) / 2, err
}

// watch queries a replica while it lacks a beat.
func (d *Delays) watch(ctx context.Context, f *follower) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.poke:
		}
		for d.behind(f) && ctx.Err() == nil {
			tick, at, err := d.read(ctx, f)
			wait := d.pace.Poll
			if err != nil {
				wait = d.pace.Beat
			}
			if ctx.Err() == nil {
				d.note(f, tick, at, err)
				d.ask(ctx, f)
			}
			if d.behind(f) && engine.Sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

// missing returns the beats that a replica has not shown. The caller holds mu.
func (d *Delays) missing(f *follower) []beat {
	for i, b := range d.beats {
		if b.tick > f.seen {
			return d.beats[i:]
		}
	}
	return nil
}

func (d *Delays) behind(f *follower) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.missing(f)) > 0
}

// note records an answer of a replica.
func (d *Delays) note(f *follower, tick, at time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.failed.note(at, err)
	f.last = err
	if err != nil {
		return
	}
	if tick > f.seen {
		f.asked, f.halted = at, nil
	}
	for _, b := range d.missing(f) {
		if b.tick > tick {
			break
		}
		late := max(at-b.acked, 0)
		f.arrived++
		f.sum += late
		f.worst = max(f.worst, late)
		f.late, f.acked = late, b.acked
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

// ask asks a replica that answers, but makes no progress, whether its replication has stopped.
func (d *Delays) ask(ctx context.Context, f *follower) {
	d.mu.Lock()
	now := time.Since(d.began)
	due := f.last == nil && len(d.missing(f)) > 0 && now-f.asked > askAfter
	d.mu.Unlock()
	if !due {
		return
	}
	why := f.stopped(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	f.asked, f.halted = now, why
}

// sampleOf returns the function that samples a replica. While the replica lacks commits, its delay
// is at least the time since the oldest of them.
func (d *Delays) sampleOf(f *follower) func(now time.Time, out figures) error {
	return func(now time.Time, out figures) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if missing := d.missing(f); len(missing) > 0 {
			lacks := now.Sub(d.began) - missing[0].acked
			f.worst = max(f.worst, lacks)
			if f.arrived == 0 && lacks > d.pace.Beat {
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

// A Delay is how far a replica is behind now.
type Delay struct {
	Replica string
	// Behind is the delay of the latest beat that the replica shows or, if longer, the time since the
	// oldest commit that the replica lacks. It grows while the replica shows no new beat, and while no
	// beat can be written.
	Behind time.Duration
	// Shown is false until the replica has shown a first beat. Until that beat, Behind is the time
	// since the start of measuring.
	Shown bool
	// Err says why the replica's state is unknown, or why its replication has stopped.
	Err error
}

// Now returns the delay of each replica.
func (d *Delays) Now() []Delay {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Since(d.began)
	out := make([]Delay, len(d.follow))
	for i, f := range d.follow {
		since, missing := now, d.missing(f)
		if len(missing) > 0 {
			since = missing[0].acked
		}
		if f.seen == 0 || d.unsaid != nil {
			since = f.acked
		}
		out[i] = Delay{f.Name, max(f.late, now-since), f.seen > 0, cmp.Or(d.unsaid, f.last, f.halted)}
	}
	return out
}

// Exceeded names the first replica that is behind by more than the time most, or that has shown no
// beat yet, and says since when. It returns "" if there is no such replica.
func (d *Delays) Exceeded(most time.Duration) string {
	for _, r := range d.Now() {
		if r.Shown && r.Behind <= most {
			continue
		}
		why := fmt.Sprintf("%s is more than %s behind: it shows nothing that was committed after %s", r.Replica, most,
			time.Now().Add(-r.Behind).UTC().Format(time.RFC3339))
		if r.Err != nil {
			why += "; " + r.Err.Error()
		}
		return why
	}
	return ""
}

// catchUp writes a beat and waits until each replica shows it. It returns how long the slowest one
// took, and an error for a replica that makes no progress.
func (d *Delays) catchUp(ctx context.Context) (time.Duration, error) {
	if err := d.beat(ctx); err != nil {
		return 0, fmt.Errorf("write the last heartbeat for the replicas: %w", err)
	}
	d.mu.Lock()
	last := d.beats[len(d.beats)-1]
	d.mu.Unlock()
	for _, f := range d.follow {
		moved, at := time.Now(), time.Duration(-1)
		for {
			d.mu.Lock()
			seen, failed, halted := f.seen, f.last, f.halted
			d.mu.Unlock()
			if seen >= last.tick {
				break
			}
			if seen != at {
				moved, at = time.Now(), seen
			}
			if still := time.Since(moved); still > askAfter && halted != nil || still > standstill {
				return 0, standing(f.Name, last.tick-seen, still, halted, failed)
			}
			if err := engine.Sleep(ctx, d.pace.Poll); err != nil {
				return 0, fmt.Errorf("wait for %s: %w", f.Name, err)
			}
		}
	}
	return time.Since(d.began) - last.acked, nil
}

// stopped returns why a replica repeats no changes; nil if it repeats them, or doesn't say.
func (f *follower) stopped(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, replicaLimit)
	defer cancel()
	db, err := f.Open(ctx)
	if err != nil {
		return nil
	}
	follower, ok := db.(engine.Follower)
	if !ok {
		return nil
	}
	why, err := follower.Standing(ctx)
	if err != nil || why == "" { // without the privilege it doesn't tell
		return nil
	}
	return errors.New(why)
}

// standing is the error of a replica that has stopped.
func standing(name string, behind, still time.Duration, halted, failed error) error {
	why := "it answers, and repeats no changes: is its replication stopped?"
	switch {
	case failed != nil:
		why = "it doesn't answer: " + failed.Error()
	case halted != nil:
		why = halted.Error()
	}
	return fmt.Errorf("%s is %s behind the source, and has made no progress for %s; %s", name, figure.Seconds(behind.Seconds()), figure.Seconds(still.Seconds()), why)
}

// Close ends the measurement. It removes the row of d from the table Heartbeat, and then the table
// if it has no other rows. The error says why the row or the table remains.
func (d *Delays) Close() error {
	d.stop()
	d.running.Wait()
	if err := d.remove(context.Background()); err != nil {
		d.left = fmt.Errorf("the table %s is left in the database: %w", Heartbeat, err)
	}
	return d.left
}

func (d *Delays) remove(ctx context.Context) error {
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
func (d *Delays) warnings() []string {
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
		out = append(out, d.left.Error())
	}
	return out
}
