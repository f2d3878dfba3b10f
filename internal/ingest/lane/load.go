// Package lane brings batches of rows into a table, each row once, even if any process is
// killed at any time.
//
// A Load has the source, its counts and its result; drivers of files, streams and servers pass
// batches to its Run. Senders commit them concurrently, each batch in one transaction with its
// line of the ledger. Before the commit, rows that have no period, or that the server refuses, are
// written to the file of bad rows. This way of loading is the lane Live.
//
// The rows of empty periods, and of other periods that are over, are worth more work: a Collector
// sorts them by period and key, and a Publisher makes a table of each period's rows, which becomes
// the period (Publish). That table may also get the rows that the period already has (Merge).
//
//	send     send.go, periods.go, present.go, pace.go   the live lane
//	publish  collector.go, sorter.go, rowcode.go,       the publish and merge lanes
//	         publish.go
//	choose   choose.go, few.go                          which lane, and rows that are too few
//	account  extents.go, rejected.go, reasons.go        where rows lie, which were refused, and why
//	share    pool.go, lease.go                          connections and locks of several loads
package lane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
)

// EndWait is the default of Sending.Patience.
const EndWait = 10 * time.Second

// A Load brings the batches of one source into a table.
type Load struct {
	Opt    *Sending
	State  *state.Store
	Source *state.Source
	bad    *badFile
	began  time.Time
	// Pool is shared by all loads of the command; alone means that the load has a pool of its own.
	*Pool
	alone bool
	// Collector, unless nil, takes rows that are published.
	Collector *Collector
	// Unit is what the lines of the source are called: line, or row.
	Unit string
	// BadKey, unless empty, replaces the source's key in the file of bad rows.
	BadKey string
	// Position adds to a Progress how far the source has come; it may be nil.
	Position func(*Progress)

	// comparing limits the comparison of rows that are there already.
	comparing struct {
		off  bool
		rows int           // compared so far
		took time.Duration // the time that comparing them took
	}
	notCompared atomic.Int64 // see Result.NotCompared

	reasons Reasons
	// stopped counts the bad rows of batches that were not committed because they exceeded MaxBad.
	stopped atomic.Int64

	rows   atomic.Int64
	tooOld atomic.Int64 // see Result.TooOld
	lost   atomic.Int64 // see Result.Lost
	// earlier has what was recorded of the source when this load began.
	earlier struct {
		state.Counts
		// continues means that an interrupted load recorded them, and this load continues it.
		continues bool
		known     bool // Counts and continues are set
	}
	pace *pace
	// failing reports that the last attempt to reach the database has failed.
	failing atomic.Bool
	mu      sync.Mutex
	Result  Result
	// said is when messages that may recur were last said.
	said struct{ waiting, full time.Time }
}

// New returns a load, and sets the defaults of its options. If shared is nil, the load gets its own
// pool.
func New(o *Sending, shared *Pool) (*Load, error) {
	fixed := o.Rows > 0
	o.Rows, o.Bytes, o.Writers = cmp.Or(o.Rows, DefaultRows), cmp.Or(o.Bytes, DefaultBytes), cmp.Or(o.Writers, DefaultWriters)
	o.Every, o.OnDuplicate, o.Patience = cmp.Or(o.Every, DefaultEvery), cmp.Or(o.OnDuplicate, format.SkipDuplicate), cmp.Or(o.Patience, EndWait)
	o.Lane, o.Memory, o.Dir, o.Parallel = cmp.Or(o.Lane, Auto), cmp.Or(o.Memory, DefaultMemory), cmp.Or(o.Dir, spillDir), cmp.Or(o.Parallel, runtime.GOMAXPROCS(0))
	if o.DB.Capabilities().SerialWrites {
		o.Writers, o.Parallel = 1, 1
	}
	if o.OnDuplicate == format.UpdateDuplicate { // the last row of a key wins
		o.Writers = 1
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	l := &Load{Opt: o, State: state.New(o.DB), began: time.Now(), Pool: shared, alone: shared == nil, Unit: "line"}
	if l.pace = newPace(o.Rows); fixed {
		l.pace.least, l.pace.most = o.Rows, o.Rows
	}
	if l.alone {
		l.Pool = NewPool(o)
	}
	var err error
	l.bad, err = l.badFile(o.Bad, o.BadBytes)
	return l, err
}

// aheadBytes limits Pool.ahead, so that few batches are cut before the pace changes.
const aheadBytes = DefaultBytes

// Hold waits for room for a batch. The sender that takes the batch frees the room.
func (l *Load) Hold(ctx context.Context, b *Batch) error {
	held := min(int64(len(b.Data)), aheadBytes)
	err := l.ahead.Acquire(ctx, held)
	if err == nil {
		b.held = held
	}
	return err
}

// Unhold frees the room of batches that no sender takes.
func (l *Load) Unhold(all ...*Batch) {
	for _, b := range all {
		l.ahead.Release(b.held)
	}
}

// Say passes a message to the user.
func (l *Load) Say(format string, args ...any) { l.Opt.Say(fmt.Sprintf(format, args...)) }

const sayWaiting = 5 * time.Second

// due reports whether a message, last said at a time, is due again. If so, it sets the time.
func (l *Load) due(last *time.Time, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(*last) < every {
		return false
	}
	*last = time.Now()
	return true
}

// enough returns an error if a batch's rejected rows make the bad rows exceed MaxBad.
func (l *Load) enough(rejected []format.Rejected) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Opt.MaxBad < 0 || l.earlier.Rejected+l.Result.Rejected+int64(len(rejected)) <= l.Opt.MaxBad || len(rejected) == 0 {
		return nil
	}
	return &TooManyError{Most: l.Opt.MaxBad, Path: l.Opt.Bad, First: rejected[0], unit: l.Unit}
}

func (l *Load) reject(rows []format.Rejected, b *Batch) error {
	slices.SortFunc(rows, func(a, b format.Rejected) int { return int(a.Offset - b.Offset) })
	key := cmp.Or(l.BadKey, l.Source.Key)
	if b.Single { // the other rows of the batch have entries, too
		key += SecondLine
	}
	b.Unkept = 0
	err := l.bad.add(l.Source.Path, key, b.From, b.To, rows)
	if errors.Is(err, errBadFull) {
		b.Unkept, err = int64(len(rows)), nil
		if l.due(&l.said.full, SayFullEvery) {
			l.Say("%s: rows that can't be loaded are counted and no longer kept, as %s has %s: move it away; the first of them now: %s", l.Opt.Table.Name,
				l.Opt.Bad, figure.Bytes(l.bad.most), rows[0].Reason)
		}
	}
	return err
}

// ForgetBad removes the lines of an earlier load from the file of bad rows.
func (l *Load) ForgetBad(key string) error {
	return l.bad.add(l.Source.Path, key, 0, math.MaxInt64, nil)
}

// SayFullEvery is the interval of messages that recur until the user acts, e.g. "the file is full".
const SayFullEvery = time.Minute

// Count adds a committed batch.
func (l *Load) Count(b state.Counts, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Result.Add(b)
	l.Result.Batches++
	l.Result.Bytes += size
	l.rows.Add(b.Sent)
}

// Recount sets the counts to those recorded for the source. After a lost lock, the recorded counts
// include batches whose commit was not acknowledged, and batches of another process.
func (l *Load) Recount(known state.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.earlier
	if !e.known {
		e.Counts, e.continues, e.known = known, !l.Source.Started.IsZero() && !l.Source.Finished, true
	} else if known.Sent < e.Sent { // another process has loaded the source anew
		e.Counts = state.Counts{}
	}
	l.Result.Counts = known
	l.Result.Sub(e.Counts)
}

func (l *Load) progress(ctx context.Context) {
	for engine.Sleep(ctx, l.Opt.Every) == nil {
		l.Opt.Progress(l.ProgressNow())
	}
}

// ProgressNow returns how far the load has come.
func (l *Load) ProgressNow() Progress {
	p := Progress{Rows: l.rows.Load(), Elapsed: time.Since(l.began)}
	if l.Position != nil {
		l.Position(&p)
	}
	return p
}

// Failing reports that the last attempt to reach the database has failed.
func (l *Load) Failing() bool { return l.failing.Load() }

// Lose counts rows that were read but are neither loaded nor kept.
func (l *Load) Lose(rows int64) { l.lost.Add(rows) }

// BatchRows returns the number of rows that the next batch may have.
func (l *Load) BatchRows() int { return l.pace.limit() }

// Before returns the counts that were recorded of the source when the load began.
func (l *Load) Before() state.Counts { return l.earlier.Counts }

// Recounted reports whether Recount was called.
func (l *Load) Recounted() bool { return l.earlier.known }

// Elapsed returns the time since the load began, and never 0.
func (l *Load) Elapsed() time.Duration { return max(time.Since(l.began), 1) }

// A produce sends batches to out until there are no more.
type produce func(ctx context.Context, out chan<- *Batch) error

// Run sends the batches of produce concurrently, and passes each committed batch to done, in any
// order. When ctx ends, Run completes the batches that are being sent. With drain, it then also
// sends the batches that produce has sent to out, and it counts the rows of every batch that fails
// as lost.
func (l *Load) Run(ctx context.Context, drain bool, produce produce, done func(context.Context, *Batch, state.Batch) error) error {
	// Sending continues for up to l.opt.Patience after ctx has ended.
	work, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(l.Opt.Patience, func() { fail(ctx.Err()) })
	})
	defer stop()
	source, end := context.WithCancel(ctx)
	defer end()
	batches := make(chan *Batch, l.Opt.Writers)
	drop := func(b *Batch) {
		if drain {
			l.lost.Add(int64(b.Rows))
		}
	}
	defer l.runs(l)()
	var all, ticking sync.WaitGroup
	if l.Opt.Progress != nil {
		ticking.Go(func() { l.progress(source) })
	}
	for range l.Opt.Writers {
		all.Go(func() {
			for b := range batches {
				s, err := l.take(work, l)
				l.ahead.Release(b.held)
				if err != nil || work.Err() != nil || ctx.Err() != nil && !drain {
					if err == nil {
						l.give(s, nil)
					}
					drop(b)
					continue // receive the rest, so that produce doesn't block
				}
				began := time.Now()
				noted, err := s.send(work, b)
				if err == nil {
					l.pace.sent(noted.Sent, time.Since(began), s.repeated)
				}
				l.give(s, err)
				if err == nil {
					err = done(work, b, noted)
				}
				if err != nil {
					drop(b)
					fail(err)
					end()
				}
			}
		})
	}
	err := produce(source, batches)
	close(batches)
	all.Wait()
	if l.alone {
		if err := l.Close(); err != nil && work.Err() == nil {
			fail(err)
		}
	}
	end()
	ticking.Wait()
	if cause := context.Cause(work); cause != nil {
		return cause
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Retry repeats fn after transient errors. RetryFor begins with the first error: fn may take long.
func (l *Load) Retry(ctx context.Context, fn func() error) error {
	var began time.Time
	for try := 0; ; try++ {
		err := fn()
		if try == 0 {
			began = time.Now()
		}
		l.failing.Store(err != nil)
		if err == nil || !Transient(err) || ctx.Err() != nil {
			return err
		}
		if l.Opt.RetryFor >= 0 && time.Since(began) >= l.Opt.RetryFor || IsClosed(l.Opt.Hurry) {
			return err
		}
		if try > 0 && l.due(&l.said.waiting, sayWaiting) {
			l.Say("will be tried again: %v", err)
		}
		if err := SleepUnless(ctx, l.Opt.Hurry, engine.Backoff(firstPause, lastPause, try)); err != nil {
			return err
		}
	}
}

// SleepUnless waits for d, until hurry is closed, or until ctx ends, whose error it returns.
func SleepUnless(ctx context.Context, hurry <-chan struct{}, d time.Duration) error {
	pause, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-pause.Done():
	case <-hurry:
	}
	return ctx.Err()
}

// IsClosed reports whether a channel is closed; nil is open.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Retried is Load.Retry for a function with a result.
func Retried[T any](ctx context.Context, l *Load, fn func() (T, error)) (out T, err error) {
	err = l.Retry(ctx, func() (err error) { out, err = fn(); return err })
	return out, err
}

// Transient reports whether the same work may succeed later.
func Transient(err error) bool {
	return engine.Retryable(err) || errors.Is(err, engine.ErrUnreachable)
}

// Finish completes the result of a load that ended with err, and returns both.
func (l *Load) Finish(err error) (Result, error) {
	l.Result.Lost = l.lost.Load()
	l.Result.Reasons, l.Result.Stopped = l.reasons.All(), l.stopped.Load()
	if l.Opt.OnDuplicate == format.SkipDuplicate && !l.Opt.Dry {
		l.Result.NotCompared = l.notCompared.Load()
	}
	if e := &l.earlier; e.continues {
		l.Result.Add(e.Counts)
		l.Result.Continued = e.Sent
	} else {
		l.Result.Before, l.Result.BeforeRejected = e.Sent, e.Rejected
	}
	l.Result.TooOld = l.tooOld.Load()
	l.Result.Seconds = time.Since(l.began).Seconds()
	if l.Source != nil {
		l.Result.Source = l.Source.Path
	}
	return l.Result, err
}
