package ingest

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
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// Sending describes how rows get into the table.
type Sending struct {
	DB engine.Keeper
	Reading
	// Late means that the table refuses rows below the position up to which all of
	// its periods are sealed.
	Late bool
	// Periods creates the periods that rows lack; with nil, such rows are rejected.
	// AnyPeriods also creates more than MaxCreated of them, and those in the far future.
	Periods    Periods
	AnyPeriods bool

	// Rows and Bytes limit a batch; 0 means DefaultBytes, and DefaultRows at first, which
	// then adapt to the server (see pace). A record is never split.
	Rows, Bytes int
	// Writers is the number of batches sent concurrently; 0 means DefaultWriters.
	// Engines with serial writes always use 1, and so does UpdateDuplicate.
	Writers int
	// RetryFor limits how long a batch is retried after transient errors: a lost
	// connection, a server that is down, a deadlock. Negative means without limit, 0
	// no retries.
	RetryFor time.Duration
	// Hurry, unless nil, is closed when transient errors end the load: its rows are kept
	// elsewhere. Patience is how long batches in flight may take after the load was asked to
	// end; 0 means 10 seconds.
	Hurry    <-chan struct{}
	Patience time.Duration

	// Lane is how rows reach the table; "" means Auto. Publisher, unless nil, publishes
	// rows. Memory limits the rows that are collected for it in memory, in bytes; 0 means
	// DefaultMemory. The others are in a temporary file in Dir; "" means .rowmill in the
	// working directory. Parallel is the number of periods that are published at a time;
	// 0 means the number of processors.
	Lane      Lane
	Publisher Publisher
	Memory    int64
	Dir       string
	Parallel  int

	// Bad is the path of the file for rows that can't be loaded. The load ends if
	// there are more than MaxBad of them, before the batch that exceeds the limit is
	// committed; negative means no limit.
	Bad    string
	MaxBad int64
	// BadBytes limits the size of that file: once it has that, further rows are counted and
	// not kept. 0 means no limit.
	BadBytes int64
	// ListSkipped also writes rows to that file that were skipped and have other values
	// than the row in the table, or the key of an earlier row of their batch.
	ListSkipped bool

	// Dry reads and checks all rows and sends none.
	Dry bool
	// Say, unless nil, receives messages for the user. It is called from several
	// goroutines.
	Say func(line string)
	// Progress, unless nil, is called after each interval of length Every; 0 means
	// one second.
	Progress func(Progress)
	Every    time.Duration
	// Reached, unless nil, is called at each point where a test simulates a crash.
	Reached func(point string)
}

const (
	DefaultRows    = 5000
	DefaultBytes   = 4 << 20
	DefaultWriters = 2
	DefaultEvery   = time.Second
)

// MaxCreated is the largest number of periods that a load creates, without AnyPeriods.
const MaxCreated = 1000

// Periods create missing periods of the table.
type Periods interface {
	// Creatable returns which periods may be created at present.
	Creatable(ctx context.Context) (*rolling.Creatable, error)
	// CreatePeriods creates those of the periods that overlap with no existing one.
	CreatePeriods(ctx context.Context, parts []rolling.Partition) error
}

// endWait is the default of Sending.Patience.
const endWait = 10 * time.Second

// A Progress describes how far a load has come.
type Progress struct {
	// Rows counts the rows sent by this load: inserted, duplicate and rejected.
	Rows int64
	// Bytes is the part of the file (of Size bytes on disk, compressed or not; 0
	// means unknown) that is in the database or was checked by a dry run. Sent is the
	// part of Bytes sent by this load, and Sending the time since it began to send.
	Bytes, Size int64
	Sent        int64
	Sending     time.Duration
	// Share is the part of a source without a size that is read, from 0 to 1, if it is
	// known, and ShareBefore the part of it that earlier loads had sent.
	Share, ShareBefore float64
	// Collected is the number of rows that are published together, Written how many of
	// them are in tables of their own or in their periods, and Publishing the time since
	// all of them were collected.
	Collected, Written int64
	Publishing         time.Duration
	// Waiting is the number of bytes in the spool; Full is how long the sender has
	// been waiting for room in it.
	Waiting int64
	Full    time.Duration
	Elapsed time.Duration
}

// A Result summarises a load.
type Result struct {
	// Source is the source's name; Key identifies it in the IDs of its batches.
	Source string `json:"source"`
	Key    string `json:"-"`
	// Counts are the rows of this load, and of the loads that it continues because they
	// were interrupted: these sent Continued rows. In a dry run, sent rows were checked,
	// and inserted rows are those that could be sent.
	state.Counts
	Continued int64 `json:"continued,omitempty"`
	// Before is the number of rows that earlier loads of the same source sent, if they
	// came to its end; BeforeRejected is how many of them were rejected.
	Before         int64 `json:"before"`
	BeforeRejected int64 `json:"before_rejected"`
	// LoadedAt is when rows of an earlier load were last recorded. For a file,
	// Missing counts those rows that are not in the table although it has their
	// periods; Gone counts those whose periods were dropped. Unlooked is the reason
	// why not all of them were looked for, "" if all were.
	LoadedAt time.Time `json:"loaded_at,omitzero"`
	Missing  int64     `json:"missing,omitempty"`
	Gone     int64     `json:"gone_with_periods,omitempty"`
	Unlooked string    `json:"not_looked,omitempty"`
	// Created are the names of the periods that were created for rows, in order of
	// creation; in a dry run, those that would be. TooOld is the number of rejected rows
	// that have passed the table's retention.
	Created []string `json:"periods_created,omitempty"`
	TooOld  int64    `json:"older_than_keep,omitempty"`
	// Why are the reasons of those of this load.
	Why
	// NotCompared is the number of duplicates that were not compared with the table's rows.
	NotCompared int64 `json:"not_compared,omitempty"`
	// Batches and Bytes count the batches of this load and their bytes.
	Batches int64 `json:"batches"`
	Bytes   int64 `json:"bytes"`
	// Finished means that the source was loaded to its end.
	Finished bool `json:"finished"`
	// Damaged lists byte ranges of the spool that were set aside, with the path of
	// their copy.
	Damaged []string `json:"damaged,omitempty"`
	// Unfinished is the number of bytes of a stream's last record that were not
	// loaded because the load ended in the middle of it.
	Unfinished int `json:"unread_bytes,omitempty"`
	// Lost is the number of rows of a stream that were read but neither loaded nor
	// kept in a spool, because the load failed or had to end.
	Lost    int64   `json:"not_loaded,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A load brings the batches of a source into a table. The loads of files, streams and
// servers have one.
type load struct {
	opt    *Sending
	state  *state.Store
	source *state.Source
	bad    *badFile
	began  time.Time
	// pool is that of all loads of the command; alone means that there are no others.
	*pool
	alone bool
	// collector, unless nil, takes rows that are published.
	collector *collector
	// unit is what the lines of the source are called: line, or row.
	unit string
	// badKey, unless empty, replaces the source's key in the file of bad rows.
	badKey string
	// position adds to a Progress how far the source has come; it may be nil.
	position func(*Progress)

	// comparing limits the comparison of rows that are there already.
	comparing struct {
		off  bool
		rows int           // compared so far
		took time.Duration // for them
	}
	notCompared atomic.Int64 // see Result.NotCompared

	reasons reasons
	// stopped counts the bad rows of batches that were not committed because of them.
	stopped atomic.Int64

	rows   atomic.Int64
	tooOld atomic.Int64 // see Result.TooOld
	lost   atomic.Int64 // see Result.Lost
	// earlier has what was recorded of the source when this load began.
	earlier struct {
		state.Counts
		// continues means that their load was interrupted, and that this one goes on with it.
		continues bool
		known     bool // both are set
	}
	pace *pace
	// failing reports that the last attempt to reach the database has failed.
	failing atomic.Bool
	mu      sync.Mutex
	result  Result
	// said is when messages that may recur were last said.
	said struct{ waiting, full time.Time }
}

// newLoad returns a load with these options, whose defaults it sets. With nil, it has a pool of its own.
func newLoad(o *Sending, shared *pool) (*load, error) {
	fixed := o.Rows > 0
	o.Rows, o.Bytes, o.Writers = cmp.Or(o.Rows, DefaultRows), cmp.Or(o.Bytes, DefaultBytes), cmp.Or(o.Writers, DefaultWriters)
	o.Every, o.OnDuplicate, o.Patience = cmp.Or(o.Every, DefaultEvery), cmp.Or(o.OnDuplicate, SkipDuplicate), cmp.Or(o.Patience, endWait)
	o.Lane, o.Memory, o.Dir, o.Parallel = cmp.Or(o.Lane, Auto), cmp.Or(o.Memory, DefaultMemory), cmp.Or(o.Dir, spillDir), cmp.Or(o.Parallel, runtime.GOMAXPROCS(0))
	if o.DB.Capabilities().SerialWrites {
		o.Writers, o.Parallel = 1, 1
	}
	if o.OnDuplicate == UpdateDuplicate { // the last row of a key wins
		o.Writers = 1
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	l := &load{opt: o, state: state.New(o.DB), began: time.Now(), pool: shared, alone: shared == nil, unit: "line"}
	if l.pace = newPace(o.Rows); fixed {
		l.pace.least, l.pace.most = o.Rows, o.Rows
	}
	if l.alone {
		l.pool = newPool(o)
	}
	var err error
	l.bad, err = l.badFile(o.Bad, o.BadBytes)
	return l, err
}

// aheadBytes limits load.ahead: what is cut early has the size that the pace had then. A larger
// batch is admitted alone.
const aheadBytes = DefaultBytes

// hold waits for room for a batch, which the sender that takes it frees.
func (l *load) hold(ctx context.Context, b *outBatch) error {
	held := min(int64(len(b.data)), aheadBytes)
	err := l.ahead.Acquire(ctx, held)
	if err == nil {
		b.held = held
	}
	return err
}

// unhold frees the room of batches that no sender takes.
func (l *load) unhold(all ...*outBatch) {
	for _, b := range all {
		l.ahead.Release(b.held)
	}
}

func (l *load) say(format string, args ...any) { l.opt.Say(fmt.Sprintf(format, args...)) }

const sayWaiting = 5 * time.Second

// due reports whether a message that was last said at a time is to be said again, and sets that time.
func (l *load) due(last *time.Time, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(*last) < every {
		return false
	}
	*last = time.Now()
	return true
}

func (l *load) waiting(why error) {
	if l.due(&l.said.waiting, sayWaiting) {
		l.say("will be tried again: %v", why)
	}
}

// enough returns an error if these rejected rows of a batch exceed MaxBad.
func (l *load) enough(rejected []Rejected) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opt.MaxBad < 0 || l.earlier.Rejected+l.result.Rejected+int64(len(rejected)) <= l.opt.MaxBad || len(rejected) == 0 {
		return nil
	}
	return &TooManyError{Most: l.opt.MaxBad, Path: l.opt.Bad, First: rejected[0], unit: l.unit}
}

func (l *load) reject(rows []Rejected, b *outBatch) error {
	slices.SortFunc(rows, func(a, b Rejected) int { return int(a.Offset - b.Offset) })
	key := cmp.Or(l.badKey, l.source.Key)
	if b.single { // the other rows of the batch have entries, too
		key += again
	}
	b.unkept = 0
	err := l.bad.add(l.source.Path, key, b.From, b.To, rows)
	if errors.Is(err, errBadFull) {
		b.unkept, err = int64(len(rows)), nil
		l.sayFull(rows)
	}
	return err
}

// forgetBad removes the lines of an earlier load from the file of bad rows.
func (l *load) forgetBad(key string) error {
	return l.bad.add(l.source.Path, key, 0, math.MaxInt64, nil)
}

// sayFullEvery is the interval of messages about what recurs for as long as nothing is done.
const sayFullEvery = time.Minute

// sayFull says now and then that rejected rows are not kept.
func (l *load) sayFull(rows []Rejected) {
	if l.due(&l.said.full, sayFullEvery) {
		l.say("%s: rows that can't be loaded are counted and no longer kept, as %s has %s: move it away; the first of them now: %s", l.opt.Table.Name,
			l.opt.Bad, figure.Bytes(l.bad.most), rows[0].Reason)
	}
}

// count adds a committed batch.
func (l *load) count(b state.Counts, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.Add(b)
	l.result.Batches++
	l.result.Bytes += size
	l.rows.Add(b.Sent)
}

// recount sets the counts by those that are recorded of the source. If a lock was lost since the
// first call, this includes batches for whose commit no answer came, and those that another
// process has sent meanwhile.
func (l *load) recount(known state.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.earlier
	if !e.known {
		e.Counts, e.continues, e.known = known, !l.source.Started.IsZero() && !l.source.Finished, true
	} else if known.Sent < e.Sent { // another process has loaded the source anew
		e.Counts = state.Counts{}
	}
	l.result.Counts = known
	l.result.Sub(e.Counts)
}

func (l *load) progress(ctx context.Context) {
	for engine.Sleep(ctx, l.opt.Every) == nil {
		l.opt.Progress(l.progressNow())
	}
}

func (l *load) progressNow() Progress {
	p := Progress{Rows: l.rows.Load(), Elapsed: time.Since(l.began)}
	if l.position != nil {
		l.position(&p)
	}
	return p
}

// isFailing reports that the last attempt to reach the database has failed.
func (l *load) isFailing() bool { return l.failing.Load() }

// lose counts rows that were read but are neither loaded nor kept.
func (l *load) lose(rows int64) { l.lost.Add(rows) }

// batchRows returns the number of rows that the next batch may have.
func (l *load) batchRows() int { return l.pace.limit() }

// before returns the counts that were recorded of the source when the load began.
func (l *load) before() state.Counts { return l.earlier.Counts }

// isRecounted reports whether recount was called.
func (l *load) isRecounted() bool { return l.earlier.known }

// elapsed returns the time since the load began, and never 0.
func (l *load) elapsed() time.Duration { return max(time.Since(l.began), 1) }

// A produce sends batches to out until there are no more.
type produce func(ctx context.Context, out chan<- *outBatch) error

// run sends the batches of produce, several concurrently, and passes each committed
// batch to done, in no particular order. When ctx ends, batches in flight are
// completed; with drain, also those already produced, and rows of batches that can't
// be sent are counted as lost.
func (l *load) run(ctx context.Context, drain bool, produce produce, done func(context.Context, *outBatch, state.Batch) error) error {
	// Sending continues for up to l.opt.Patience after ctx has ended.
	work, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(l.opt.Patience, func() { fail(ctx.Err()) })
	})
	defer stop()
	source, end := context.WithCancel(ctx)
	defer end()
	batches := make(chan *outBatch, l.opt.Writers)
	drop := func(b *outBatch) {
		if drain {
			l.lost.Add(int64(b.rows))
		}
	}
	defer l.runs(l)()
	var all, ticking sync.WaitGroup
	if l.opt.Progress != nil {
		ticking.Go(func() { l.progress(source) })
	}
	for range l.opt.Writers {
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
		if err := l.close(); err != nil && work.Err() == nil {
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

// retry repeats fn after transient errors. RetryFor begins with the first of them: fn may have
// worked for longer, a publication for example.
func (l *load) retry(ctx context.Context, fn func() error) error {
	var began time.Time
	for try := 0; ; try++ {
		err := fn()
		if try == 0 {
			began = time.Now()
		}
		l.failing.Store(err != nil)
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		if l.opt.RetryFor >= 0 && time.Since(began) >= l.opt.RetryFor || isClosed(l.opt.Hurry) {
			return err
		}
		if try > 0 {
			l.waiting(err)
		}
		if err := sleepUnless(ctx, l.opt.Hurry, engine.Backoff(firstPause, lastPause, try)); err != nil {
			return err
		}
	}
}

// sleepUnless waits for a time, until ctx ends, whose error it returns, or until a channel is
// closed.
func sleepUnless(ctx context.Context, hurry <-chan struct{}, d time.Duration) error {
	pause, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-pause.Done():
	case <-hurry:
	}
	return ctx.Err()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func retried[T any](ctx context.Context, l *load, fn func() (T, error)) (out T, err error) {
	err = l.retry(ctx, func() (err error) { out, err = fn(); return err })
	return out, err
}

func passes(err error) bool {
	return engine.Retryable(err) || errors.Is(err, engine.ErrUnreachable)
}

func (l *load) finish(err error) (Result, error) {
	l.result.Lost = l.lost.Load()
	l.result.Reasons, l.result.Stopped = l.reasons.all(), l.stopped.Load()
	if l.opt.OnDuplicate == SkipDuplicate && !l.opt.Dry {
		l.result.NotCompared = l.notCompared.Load()
	}
	if e := &l.earlier; e.continues {
		l.result.Add(e.Counts)
		l.result.Continued = e.Sent
	} else {
		l.result.Before, l.result.BeforeRejected = e.Sent, e.Rejected
	}
	l.result.TooOld = l.tooOld.Load()
	l.result.Seconds = time.Since(l.began).Seconds()
	if l.source != nil {
		l.result.Source, l.result.Key = l.source.Path, l.source.Key
	}
	return l.result, err
}
