package ingest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/ingest/spool"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/state"
)

// What becomes of rows whose key is in the table already.
const (
	// SkipDuplicates leaves the table's row as it is and counts the other.
	SkipDuplicates = "skip"
	// RejectDuplicates has them go to the file of bad rows.
	RejectDuplicates = "reject"
)

// Options say what to load into, and how.
type Options struct {
	DB engine.Keeper
	// Table and Schema are the rolling table's, which is there.
	Table  *engine.Table
	Schema *engine.Schema
	// Late tells that the table refuses rows below the position up to which all
	// of its periods are sealed.
	Late bool

	// Format is the source's; with an empty Kind the file's name tells that.
	Format Format
	Values ValueOptions
	// Name is the source's name instead of its path: the same file is known by
	// it wherever it lies.
	Name string
	// Duplicates is SkipDuplicates, which "" is too, or RejectDuplicates.
	Duplicates string

	// Rows and Bytes bound a batch; 0 is DefaultRows and DefaultBytes. A record
	// is never cut in two.
	Rows, Bytes int
	// Writers is how many batches are sent at a time; 0 is DefaultWriters. An
	// engine with one writer at a time has one.
	Writers int
	// Flush is how long rows of a stream wait for others before they are sent; 0
	// is DefaultFlush.
	Flush time.Duration
	// RetryFor is for how long a batch is sent again after errors that may pass:
	// a lost connection, a server that is down, a deadlock. Negative is for ever,
	// 0 not at all.
	RetryFor time.Duration

	// Bad is the path of the file for rows that can't be loaded. MaxBad is how
	// many of them end the load, before the batch with the first one too many is
	// committed; negative is none.
	Bad    string
	MaxBad int64

	// Spool is the directory in which a stream lies until it is loaded; ""
	// sends it as it comes. SpoolBytes is how large it may become; 0 is the
	// spool's own default.
	Spool      string
	SpoolBytes int64

	// Again loads a file anew that is loaded already, as if nothing were known of
	// it. Rows whose key is in the table are duplicates.
	Again bool
	// AcceptMissing has rows of a file that were loaded and aren't in the table
	// any more no longer looked for: they were removed on purpose.
	AcceptMissing bool

	// Dry reads and checks all, and sends nothing.
	Dry bool
	// Say, unless nil, is told what a person should know meanwhile. It is called
	// from several goroutines.
	Say func(line string)
	// Progress, unless nil, is told how far it is after each Every; 0 is a second.
	Progress func(Progress)
	Every    time.Duration
	// Reached, unless nil, is told each point at which a crash has a test.
	Reached func(point string)
}

// Defaults of Options.
const (
	DefaultRows    = 5000
	DefaultBytes   = 4 << 20
	DefaultWriters = 2
	DefaultFlush   = time.Second
	DefaultEvery   = time.Second
)

// endWait is how long batches that are being sent may take when the load is to
// end.
const endWait = 10 * time.Second

// A Progress is how far a load is.
type Progress struct {
	// Rows sent and noted by this load: inserted, duplicates and rejected.
	Rows int64
	// Bytes of the file as it lies there, of Size, that the database has, or that
	// a dry run has checked; 0 is unknown. Sent of these are this load's own, in
	// Sending, the time since it began to send.
	Bytes, Size int64
	Sent        int64
	Sending     time.Duration
	// Waiting are the bytes in the spool; Full for how long the sender has
	// been waiting for room in it.
	Waiting int64
	Full    time.Duration
	Elapsed time.Duration
}

// A Result is what a load did.
type Result struct {
	// Source is the source's name, Key what its batches are known by.
	Source, Key string
	// Counts are the rows of this load.
	state.Counts
	// Before is the number of rows that earlier loads of the same source had
	// sent, BeforeRejected how many of them were rejected.
	Before, BeforeRejected int64
	// LoadedAt is when these were noted last. Of those of a file, Missing aren't
	// in the table any more, though it has their periods; Gone lay in periods that
	// it no longer has. Unlooked is why not all were looked for, "" where they
	// were; Told that an earlier load of the file has said so, for good.
	LoadedAt      time.Time
	Missing, Gone int64
	Unlooked      string
	Told          bool
	// Batches are those of this load, Bytes what they held.
	Batches, Bytes int64
	// Finished tells that the source was loaded to its end.
	Finished bool
	// Damaged are bytes of the spool that were set aside, with where.
	Damaged []string
	// Unfinished is how many bytes of a stream's last record weren't loaded,
	// because the load was ended in the middle of it.
	Unfinished int
	// Lost is how many rows of a stream were read and neither loaded nor kept in
	// a spool, because the load failed or had to end.
	Lost    int64
	Seconds float64
}

// A load is one in progress.
type load struct {
	opt     *Options
	db      engine.Keeper
	state   *state.Store
	source  *state.Source
	bounds  *bounds
	bad     *badFile
	reached func(string)
	began   time.Time
	input   *input
	spool   *spool.Spool
	ahead   ahead
	gap     int64 // up to where the spool has nothing and the database isn't; 0 without

	rows     atomic.Int64
	rejected atomic.Int64
	// passed are bytes of the present reading of a file that need nothing more:
	// compared with what was loaded, or committed. skipped are those of them that
	// were there before, sending is when the first others were handed out, as
	// time.Since(began).
	passed, skipped, sending atomic.Int64
	// rejectedBefore are rows of a file that earlier loads rejected.
	rejectedBefore atomic.Int64
	lost           atomic.Int64 // see Result.Lost
	mu             sync.Mutex
	result         Result
	said           time.Time
	// loadedAt is when the source was loaded last.
	loadedAt time.Time
	// earlier are the batches that earlier loads committed and didn't settle.
	earlier state.Counts
	// out are the batches of a file that this load has sent, and whether they
	// are counted; own is what it has sent that is in the source's sums already.
	out map[string]bool
	own state.Counts
	// known gives back the lock that keeps files that begin alike waiting.
	known func()
	// loaded is up to where the file was loaded when it was last looked at.
	loaded int64
	// settledIn, earlierIn and sentIn are where rows of a file lie: those that were
	// settled, those of earlier, and those of this load that aren't settled.
	settledIn, earlierIn, sentIn []state.Extent
	// told tells that an earlier load has said that nobody knows where the file's
	// rows lie.
	told bool
	// accepted tells that none of them is in the table, which is as it is to be.
	accepted bool
	// anew tells that the file was forgotten, to be loaded again.
	anew bool
	// lookFor is how long to look for rows that were loaded before.
	lookFor time.Duration
}

// newLoad checks the options and fills in what they leave out.
func newLoad(o *Options) (*load, error) {
	full := *o
	o = &full
	if o.Rows == 0 {
		o.Rows = DefaultRows
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Writers == 0 {
		o.Writers = DefaultWriters
	}
	if o.Flush == 0 {
		o.Flush = DefaultFlush
	}
	if o.Every == 0 {
		o.Every = DefaultEvery
	}
	if o.DB.Capabilities().SerialWrites {
		o.Writers = 1
	}
	if o.Duplicates == "" {
		o.Duplicates = SkipDuplicates
	}
	switch {
	case o.Rows < 1 || o.Bytes < 1 || o.Writers < 1 || o.Flush < 0 || o.Every < 0:
		return nil, fmt.Errorf("batches of %d rows or %d bytes, %d at a time, after %s: want more than nothing", o.Rows, o.Bytes, o.Writers, o.Flush)
	case o.Duplicates != SkipDuplicates && o.Duplicates != RejectDuplicates:
		return nil, fmt.Errorf("duplicates %q: want %s or %s", o.Duplicates, SkipDuplicates, RejectDuplicates)
	}
	l := &load{opt: o, db: o.DB, state: state.New(o.DB), began: time.Now(), reached: o.Reached, lookFor: lookFor}
	l.bounds = &bounds{db: o.DB, table: o.Table, late: o.Late, sealed: func(ctx context.Context) (int64, error) {
		return l.state.SealedUpTo(ctx, o.Table.Name)
	}}
	if l.reached == nil {
		l.reached = func(string) {}
	}
	var err error
	if l.bad, err = openBad(o.Bad); err == nil && len(l.bad.broken) > 0 {
		l.say("file of bad rows %s: %s can't be read, the first is line %d; what is there stays", o.Bad, figure.Plural(len(l.bad.broken), "line", "lines"), l.bad.broken[0])
	}
	return l, err
}

// newKey makes the key of a source.
func newKey() string {
	var p [8]byte
	_, _ = rand.Read(p[:]) // which never fails
	return hex.EncodeToString(p[:])
}

func (l *load) say(format string, args ...any) {
	if l.opt.Say != nil {
		l.opt.Say(fmt.Sprintf(format, args...))
	}
}

// sayWaiting is how often it is said that a batch waits.
const sayWaiting = 5 * time.Second

// waiting says why a batch is sent again.
func (l *load) waiting(why error) {
	l.mu.Lock()
	due := time.Since(l.said) >= sayWaiting
	if due {
		l.said = time.Now()
	}
	l.mu.Unlock()
	if due {
		l.say("will be tried again: %v", why)
	}
}

// enough returns an error where so many rejected rows of a batch are too many.
func (l *load) enough(rejected []Rejected) error {
	if l.opt.MaxBad < 0 || l.rejectedBefore.Load()+l.rejected.Load()+int64(len(rejected)) <= l.opt.MaxBad || len(rejected) == 0 {
		return nil
	}
	return &TooManyError{Most: l.opt.MaxBad, Path: l.opt.Bad, First: rejected[0]}
}

// reject has a batch's rejected rows on disk before it is committed.
func (l *load) reject(rows []Rejected, b *batch) error {
	slices.SortFunc(rows, func(a, b Rejected) int { return int(a.Offset - b.Offset) })
	return l.bad.add(l.source.Path, l.source.Key, b.From, b.To, rows)
}

// count adds what was committed, by this load or an earlier one.
func (l *load) count(b state.Counts, size int64, before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.result
	if before {
		r.Before += b.Sent
		r.BeforeRejected += b.Rejected
	} else {
		r.Add(b)
		r.Batches++
		r.Bytes += size
		l.rows.Add(b.Sent)
		l.rejected.Add(b.Rejected)
	}
}

// progress tells how far it is, from time to time, until ctx ends.
func (l *load) progress(ctx context.Context) {
	if l.opt.Progress == nil {
		return
	}
	t := time.NewTicker(l.opt.Every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			l.opt.Progress(l.howFar())
		case <-ctx.Done():
			return
		}
	}
}

// howFar is how far the load is.
func (l *load) howFar() Progress {
	p := Progress{Rows: l.rows.Load(), Elapsed: time.Since(l.began)}
	if l.input != nil {
		skipped := l.input.upTo(l.skipped.Load())
		p.Bytes, p.Size = l.input.upTo(l.passed.Load()), l.input.size
		p.Sent = max(p.Bytes-skipped, 0)
		if began := l.sending.Load(); began > 0 {
			p.Sending = p.Elapsed - time.Duration(began)
		}
	}
	if l.spool != nil {
		_, p.Waiting = l.spool.Size()
		p.Full = l.spool.Full()
	}
	return p
}

// A produce hands batches to out until there are no more.
type produce func(ctx context.Context, out chan<- *batch) error

// run sends what produce gives, several batches at a time, and hands what was
// committed to done, in no particular order. When ctx ends, what is being sent is
// finished; with drain also what was produced, and what can't be is counted as
// lost.
func (l *load) run(ctx context.Context, drain bool, produce produce, done func(context.Context, *batch, state.Batch) error) error {
	// Sending goes on for a while when ctx has ended.
	work, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(endWait, func() { fail(ctx.Err()) })
	})
	defer stop()
	source, end := context.WithCancel(ctx)
	defer end()
	batches := make(chan *batch, l.opt.Writers)
	drop := func(b *batch) {
		if drain {
			l.lost.Add(int64(b.rows))
		}
	}
	var all, ticking sync.WaitGroup
	ticking.Go(func() { l.progress(source) })
	for range l.opt.Writers {
		all.Go(func() {
			s := &sender{load: l, parsers: map[*target]*parser{}}
			for b := range batches {
				l.ahead.give(b.held)
				if work.Err() != nil || ctx.Err() != nil && !drain {
					drop(b)
					continue // so that nobody waits to hand out more
				}
				noted, err := s.sendOrCheck(work, b)
				if err == nil {
					err = done(work, b, noted)
				}
				if err != nil {
					drop(b)
					fail(err)
					end()
				}
			}
			if err := s.close(); err != nil && work.Err() == nil {
				fail(err)
			}
		})
	}
	err := produce(source, batches)
	close(batches)
	all.Wait()
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

// sendOrCheck sends a batch, or only checks it.
func (s *sender) sendOrCheck(ctx context.Context, b *batch) (state.Batch, error) {
	if !s.opt.Dry {
		return s.send(ctx, b)
	}
	p := s.parserOf(b.target)
	p.torn = s.tornBy(b)
	p.parse(b.data, b.Line, b.From, b.first)
	if _, err := s.bounds.check(ctx, p, b.data, b.From); err != nil {
		return state.Batch{}, err
	}
	if err := s.reject(p.rejected, b); err != nil {
		return state.Batch{}, err
	}
	return state.Batch{Counts: state.Counts{Sent: p.rows, Inserted: int64(p.batch.Rows()), Rejected: int64(len(p.rejected))}}, s.enough(p.rejected)
}

// firstPause and lastPause are how long to wait before something is tried again.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

// retry repeats what may pass.
func (l *load) retry(ctx context.Context, fn func() error) error {
	began := time.Now()
	for try := 0; ; try++ {
		err := fn()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		if l.opt.RetryFor >= 0 && time.Since(began) >= l.opt.RetryFor {
			return err
		}
		if try > 0 {
			l.waiting(err)
		}
		if err := engine.Sleep(ctx, engine.Backoff(firstPause, lastPause, try)); err != nil {
			return err
		}
	}
}

// finish fills in the rest of the result.
func (l *load) finish(err error) (Result, error) {
	l.result.Lost = l.lost.Load()
	l.result.Seconds = time.Since(l.began).Seconds()
	if l.source != nil {
		l.result.Source, l.result.Key = l.source.Path, l.source.Key
	}
	return l.result, err
}
